#!/usr/bin/env python3
"""Goal: the tests can fail.

Method: each deliberate breakage below is applied to a copy of the sources, and the named net must
catch it: fail, or never end. A mutant that survives is a hole in the net; one that no longer applies needs a new form.
The text of a mutant is looked for in all sources of its crate, whatever file it lies in and however it is broken into
lines, and must be there exactly once.

    tests/mutants.py                    all of them
    tests/mutants.py mrsm "--test drive waflash::"
                                        those with one of these in their name or net
    tests/mutants.py --check            whether each text is there exactly once; nothing is built
"""

import os
import pathlib
import re
import shutil
import signal
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent

GOLDEN = "-p nandle-ssd --test golden"
UNITS = "-p nandle-ssd --lib"
IMAGE = "-p nandle-serve --lib image::tests::"
HOSTILE = "--test serve hostile::"

# Crate (nandle: the command line) -> (what breaks, text, replacement, what cargo tests to catch it).
MUTANTS = {
    "ssd": [
        # What keeps data safe.
        ("an overwritten page may be erased before its successor is on flash",
         "if let Some(old) = self.map.fragments().single(lpn) { self.media.supersede(old, op);",
         "if let Some(old) = self.map.fragments().single(lpn) {", "--test drive oracle::"),
        ("a collected page may be erased before its copy is on flash",
         "to, u32::from(start), u32::from(len)); self.media.supersede(ppn, op);",
         "to, u32::from(start), u32::from(len));", "--test drive oracle::"),
        ("a flush does not record trims", "if !self.flash.records().is_empty() { self.durability.write_log(",
         "if false { self.durability.write_log(", "--test drive oracle::"),
        ("a block is erased before its trims are recorded", "if flash.blocks().awaits_record(block) {", "if false {",
         "--test drive oracle::"),
        ("recovery forgets the order of programs",
         "scan.found.sort_by_key(|&(seq, _)| seq);", "", "--test drive oracle::"),
        ("a checkpoint page does not wait for what it refers to",
         "let after: Vec<OpId> = flash.media().pending_programs().collect();", "let after: Vec<OpId> = vec![];",
         "--test drive crash::"),
        ("a checkpoint page is written before the trims that it knows of",
         "if !flash.records().is_empty() { self.write_log(flash, schemes, None); } if !flash.records().is_empty() { "
         "return; } let mut programs",
         "let mut programs", "--test drive crash::"),
        ("a flush does not drain the buffer",
         "while self.buffer.as_ref().is_some_and(|b| !b.is_empty()) {", "while false {", "--test drive oracle::"),

        # Units that share a page.
        ("a page that is sealed lists what is no longer stored", "if page.stale {", "if false {", "--test drive units::power"),
        ("what waited for a page does not wait for the page of newer data",
         "if op != by { self.nand.inherit_holds(op, by); }", "", "--test drive units::what_was_moved"),
        ("a unit that a flush waits for may be moved to a page that it does not",
         "if durable { // The page that a FLUSH waits for will not list it. self.make_durable(by); }", "",
         "--test drive property::"),
        ("a trim does not mark the blocks that an open page holds",
         "for held in self.media.vacate(f.ppn) { self.space.blocks_mut().await_record(held); }", "",
         "--test drive units::power"),
        ("a page that a request waits for is not programmed before its unit is written again",
         "page.is_awaited && fragments.iter().any(", "false && fragments.iter().any(", "--test drive units::power"),
        ("an erase may wait for a page that nobody seals", "flash.seal_holders(block);", "", "--test drive units::"),
        ("a checkpoint does not seal what it lists", "flash.seal_units(first, first + (page_bytes / 4) as u32);", "",
         "--test drive units::power"),
        ("a victim is taken for less than a page", "blocks.set_least_gain(array.slots());", "blocks.set_least_gain(1);",
         "--test drive units::"),
        ("reads of a page's units are not joined", "self.media.widen(op, wanted); continue;", "", "--test drive units::"),

        # Tickets, and who passes whom.
        ("a write takes a plane that another waits for", "planes.iter().all(|plane| !waiting.planes.contains(plane))", "true",
         "--test drive property::"),
        ("nobody passes", "let passes = waiting.requests > 0 &&", "let passes = false && waiting.requests > 0 &&",
         "--test drive queue::"),
        ("who waits for room is not looked up again when there is more of it",
         "pub(super) fn go_on(&mut self) { self.wait_for = Waiting::default();", "pub(super) fn go_on(&mut self) {",
         "--test drive queue::"),

        # Completions.
        ("a read of the last sector is refused", "end.is_none_or(|end| end > self.layout.logical_sectors)",
         "end.is_none_or(|end| end >= self.layout.logical_sectors)", "--test drive oracle::"),
        ("a read returns nothing", "self.requests[slot].data = data; self.release(slot);", "self.release(slot);",
         "--test drive oracle::"),
        ("a legal read is now and then refused", "let status = self.refuse(command);",
         "let mut status = self.refuse(command); if command.op == Op::Read && number % 100 == 99 "
         "{ status = Status::ReadOnly; }", "--test drive oracle::"),
        ("a sector is unreadable without a fault", "if gone != 0 { self.read_failed(slot, lpn, gone);",
         "if gone != 0 || lpn % 64 == 63 { self.read_failed(slot, lpn, gone | 1);", "--test drive oracle::"),
        ("a request is answered twice",
         "done.push(Completion { id: request.id, at, status: request.status, data, unreadable });",
         "let answer = Completion { id: request.id, at, status: request.status, data, unreadable }; "
         "if request.id % 100 == 99 { done.push(answer.clone()); } done.push(answer);", "--test drive oracle::"),
        ("a request gets another's answer",
         "done.push(Completion { id: request.id, at,", "done.push(Completion { id: request.id ^ 1, at,", "--test drive oracle::"),
        ("a worn-out drive takes writes again", "} else if command.op == Op::Write && self.flash.is_read_only() {",
         "} else if false {", "--test drive faults::"),
        ("an object may have what another one has",
         "if overlapping(flash).is_empty() { Ok(()) } else { Err(Refusal::Overlap) }", "Ok(())", "--test drive streams::"),
        # Buffer.
        ("LRU: the newest page leaves first", "if let Some(oldest) = self.oldest() { victims.push(oldest); }",
         "if let Some(newest) = self.all.newest() { victims.push(newest); }", GOLDEN),
        ("LRU: a write does not make its page younger",
         "if !self.plan.by_request { self.unlink(slot); self.link_newest(slot); }",
         "if false { self.unlink(slot); self.link_newest(slot); }", UNITS + " pc_lru"),
        ("FIFO: a write makes its page younger", "if !self.plan.by_request {", "if true {", GOLDEN),
        ("FIFO: a request leaves page by page",
         ".take_while(|&slot| self.entry(slot).request == request)", ".take(1)", GOLDEN),
        ("MCA: a partial page is put off although no chip is busy",
         "!buffer.is_full(tail) && waits(buffer.entry(tail))", "!buffer.is_full(tail)", GOLDEN),
        ("MCA: who was put off stays at the tail", "buffer.swap_oldest();", "", GOLDEN),
        ("PC-LRU: nobody's turn ever comes", "settings.passes > 0 && entry.passed >= settings.passes",
         "settings.passes > 0 && entry.passed > settings.passes", UNITS + " pc_lru"),
        ("PC-LRU: pages are passed over without congestion",
         "(settings.when == When::Congested && !congested(entry))", "false", UNITS + " pc_lru"),
        ("PC-LRU: the search has no window", "settings.search_window == 0 ||", "true ||", UNITS + " pc_lru"),
        ("PC-LRU: who was passed over does not count it", "self.entries[slot as usize].passed += 1;", "",
         UNITS + " pc_lru"),
        ("congestion: only the chip that is written to counts", "!target_is_idle || self.read_waits(entry)",
         "!target_is_idle", "--test drive waflash::"),
        ("congestion: only the chips that are read count", "!target_is_idle || self.read_waits(entry)",
         "self.read_waits(entry)", GOLDEN),
        ("batch: the furthest neighbour comes first", "lpn - b <= a - lpn", "lpn - b > a - lpn", UNITS + " batch"),
        ("batch: neighbours of other regions come too", "let low = lpn / region * region;", "let low = 0;",
         UNITS + " batch"),
        ("batch: nobody joins", "&& page.fits(entry.mask) && joins(entry)", "&& false", "--test drive waflash::"),

        # Page mapping.
        ("a partial update forgets what it leaves standing",
         "flash.carry(lpn, keep, ppn, 0); flash.fill(ppn, mask, 0, contents); if held == 0",
         "flash.fill(ppn, mask, 0, contents); if held == 0", "--test drive oracle::"),
        ("an RMW does not wait for its read",
         "flash.read(lpn, keep, Cause::Rmw, None, &after, reads); after.extend(reads.iter().map(|&(_, op)| op));",
         "flash.read(lpn, keep, Cause::Rmw, None, &after, reads);", "--test drive closed_forms::"),

        # MRSM.
        ("MRSM: a region never goes by sub-page", "if region.partial >= self.settings.switch_after {", "if false {",
         "--test drive across::"),
        ("MRSM: a region goes by sub-page one update late", "region.partial >= self.settings.switch_after",
         "region.partial > self.settings.switch_after", "--test drive across::"),
        ("MRSM: every partial write counts as an update", "region.partial += u32::from(others != 0);",
         "region.partial += 1;", "--test drive across::"),
        ("MRSM: a region never goes back", "} else if region.full >= size {", "} else if false {", "--test drive across::"),
        ("MRSM: full pages need not follow each other", "region.full = if full { region.full + 1 } else { 0 };",
         "region.full += u32::from(full);", "--test drive across::"),
        ("MRSM: all sub-pages go by themselves", "if touched == (1 << self.settings.sub_pages) - 1 { return 0; }",
         "if false { return 0; }", GOLDEN),
        ("MRSM: a write that leaves nothing behind goes beside", "if alone && others & behind == 0 {", "if false {",
         GOLDEN),
        ("MRSM: there is always a page to spare", "Some(plane) => space.blocks().surplus(plane) < spare(plane),",
         "Some(_) => true,", "--test drive oracle::"),
        ("MRSM: what a sub-page keeps is not carried", "flash.carry(part.lpn, keep, ppn, shift);", "",
         "--test drive oracle::"),
        ("MRSM: a sub-page forgets what it keeps", "let keep = flash.stored(part.lpn, within & !part.mask);",
         "let keep = 0;", "--test drive oracle::"),
        # Versions.
        ("versions: one more than allowed", "if pages(&list) < self.settings.max_versions as usize {",
         "if pages(&list) <= self.settings.max_versions as usize {", "--test drive waflash::"),
        ("versions: never more than a page", "if pages(&list) < self.settings.max_versions as usize {",
         "if pages(&list) < 1 {", "--test drive waflash::"),
        ("versions: there is always room for one", "let admitted = !stays || replaces || self.has_budget(flash, Some(plane));",
         "let admitted = true;", "--test drive waflash::"),
        ("versions: a version in the place of another asks for room", "!stays || replaces || self.has_budget",
         "!stays || self.has_budget", GOLDEN),
        ("versions: a direct pointer reaches everywhere", "(-half..half).contains(&(number(to) - number(from)))", "true",
         UNITS + " pointer"),
        ("versions: collection merges none", "&& let Some(lpns) = self.mergeable(flash, ppn)",
         "&& let Some(lpns) = self.mergeable(flash, ppn).filter(|_| false)", "--test drive waflash::"),
        ("versions: an idle drive merges none", "merged += self.merge_oldest(flash, plane);", "", "--test drive waflash::"),
        ("versions: the host's pages do not drive versions out", "if !self.is_crowded(flash, plane) { return; }",
         "if true { return; }", GOLDEN),
        ("versions: announced objects do not drive versions out",
         "if !table_is_full && !self.is_crowded(flash, plane) { break; }", "if true { break; }", "--test drive waflash::"),
        ("versions: a merge forgets an older page", "let mask = keep(&list, 0); let extents",
         "let mask = in_page(&list, list[0].ppn); let extents", "--test drive oracle::"),
        ("versions: no relief under pressure",
         "if flash.blocks().surplus(plane) > 0 && pressed && flash.media().chip_is_idle(plane) {", "if false {",
         GOLDEN),
        # Across-FTL.
        ("across: runs over a border are no areas", "let pair = write.parts.get(n..n + 2).filter(|pair| straddles(pair, flash.full_mask()));",
         "let pair: Option<&[Part<'_>]> = None;", "--test drive across::"),
        ("across: nothing is merged into an area",
         "if union_fits(run, area.masks, spp) { self.stats.unprofitable_merges",
         "if false { self.stats.unprofitable_merges", "--test drive across::"),
        ("across: a union larger than a page is an area", "a <= d && c <= b && b.max(d) - a.min(c) <= spp",
         "a <= d && c <= b", "--test drive across::"),
        ("across: areas that are overwritten as a whole are read", "if inside & part.mask != 0 && !dies {",
         "if inside & part.mask != 0 {", "--test drive across::"),
        ("across: a dissolved area loses its other half", "homeless.push((other, area.appn));", "", "--test drive across::"),
        ("across: there is always a page to spare for an area", "if !can_spare(flash, first) {", "if false {",
         "--test drive across::"),
        ("across: what stays in areas is written home too", "let mut held = in_areas(flash, lpn, None) & !part.mask;",
         "let mut held = 0;", "--test drive across::"),
        ("across: areas do not shrink", "if self.shrink { self.stats.shrinks += hit.len() as u64;",
         "if false { self.stats.shrinks += hit.len() as u64;", "--test drive across::"),
        # Compaction.
        ("compaction: half a page is not small", "mask.count_ones() <= self.half", "mask.count_ones() < self.half",
         UNITS + " compaction"),
        ("compaction: pages of other regions share a page", "let joins = region(first.lpn) == region(part.lpn)",
         "let joins = region(first.lpn) <= u32::MAX", "--test drive waflash::"),
        ("compaction: a page takes more than fits", "&& filling.fits(part.mask);", ";", "--test drive waflash::"),
        ("compaction: a shared page goes to the busiest plane", "best.is_none_or(|(least, _)| load < least) && has_room",
         "best.is_none_or(|(least, _)| load > least) && has_room", GOLDEN),
        ("compaction: one partial page alone is compacted",
         "self.plane_of_batch(flash, write, batch), batch.parts.len())",
         "self.plane_of_batch(flash, write, batch), batch.parts.len().max(2))", GOLDEN),
        # Page types.
        ("strict: the host takes what collection needs",
         "let reserve = if self.may_use_reserve(group) { 0 } else { self.limits.hard };", "let reserve = 0;",
         "--test drive oracle::"),
        ("LSB-first: slow pages while there are fast ones",
         "let mut steps: Steps = smallvec::smallvec![Step::Take(0, Note::NONE)];", "let mut steps = Steps::new();",
         "--test drive page_types::"),
        ("LSB-first: survivors open fresh blocks", "if survivors { [slow, fresh] } else { [fresh, slow] }",
         "if survivors { [fresh, slow] } else { [fresh, slow] }", GOLDEN),
        ("size-based: a page's size decides, not the request's", "if survivors || !class.alone {",
         "if survivors || class.full {", "--test drive page_types::"),
        ("size-based: large requests take fast pages first", "if survivors || !class.alone {", "if false {",
         "--test drive page_types::"),
        ("PAPA: partial pages on the slowest type", "(1..slowest).map(|kind| Step::Take(kind, backup(kind)))",
         "(1..types).map(|kind| Step::Take(kind, backup(kind)))", "--test drive page_types::"),
        ("PAPA: no backup for partial pages", "(1..slowest).map(|kind| Step::Take(kind, backup(kind)))",
         "(1..1).map(|kind| Step::Take(kind, backup(kind)))", "--test drive page_types::"),
        ("PAPA: full pages take the slowest first", "(split..=slowest).map(", "(split..=slowest).rev().map(",
         "--test drive page_types::"),
        ("PAPA: full pages take fast ones first", "(split..=slowest).map(", "(0..=slowest).map(", "--test drive page_types::"),
        ("PAPA: survivors of partial pages open fresh blocks", "if !survivors { steps.push(Step::Open(Note::NONE)); }",
         "steps.push(Step::Open(Note::NONE));", GOLDEN),
        ("page types: the first of several, never another", "n => draw.below(n as u64) as usize,", "_ => 0,",
         "--test drive page_types::"),
        ("an order of page types from outside is turned round", "order.iter().copied().chain(0..types)",
         "order.iter().rev().copied().chain(0..types)", "--test drive extending::"),
        # Streams.
        ("multi-stream: all streams share blocks", "plan.space.streams = config.count as u16; Ok(())",
         "plan.space.streams = 1; Ok(())", "--test drive streams::"),
        ("FDP: all handles share blocks", "None => GroupId::Host(hint % self.streams),",
         "None => GroupId::Host(hint % 1),", "--test drive streams::"),
        ("FDP: persistent isolation is none", "GroupId::Host(stream) if self.survivors_apart => {",
         "GroupId::Host(stream) if self.survivors_apart && false => {", "--test drive streams::"),
        ("FDP: an untouched unit is left", "if now.available_pages < self.unit_pages {", "if true {",
         "--test serve nvme::"),
        ("FlashAlloc: writes are not matched",
         "if claim.left > 0 { GroupId::Dedicated(claim.group) } else { GroupId::Host(0) }", "GroupId::Host(0)",
         "--test drive streams::"),
        ("FlashAlloc: objects take what the drive needs",
         "if cost > 0 && self.instances.cost() + cost > pages_beyond_need(flash) || !has_number {", "if !has_number {",
         "--test drive streams::"),
        ("FlashAlloc: a call may take the last clean blocks",
         "self.blocks.free(plane).saturating_sub(self.limits.hard)", "self.blocks.free(plane)", "--test drive streams::"),
        ("FlashAlloc: a call that lacks blocks is refused at once", "if auto || failed {", "if true {", "--test drive streams::"),
        ("FlashAlloc: objects lie side by side in a plane", "order.sort_by_key(|&plane| load(plane));", "let _ = load;",
         "--test drive streams::"),
        ("FlashAlloc: FlashFree ends nothing",
         "for slot in dedicated.claims().overlapping(lsn, lsn + sectors) { self.end(flash, slot, true); }",
         "let _ = (dedicated, lsn, sectors);", "--test drive streams::"),
        ("FlashAlloc: a trim leaves objects as they are",
         "for slot in dedicated.claims_mut().forget(lsn, lsn + sectors) { self.end(flash, slot, false); }",
         "let _ = (dedicated, lsn, sectors);", "--test drive streams::"),
        ("FlashAlloc: an object that was used up goes on", "self.claims.give_up(slot); self.exhausted.push(slot);", "",
         "--test drive streams::"),
        ("FlashAlloc: the end of an object need not be on flash",
         "self.blocks.await_record(block); if self.blocks.state(block) == State::Open",
         "if self.blocks.state(block) == State::Open", "--test drive streams::"),
        ("FlashAlloc: ended objects are never collected for others", "if !flash.space().host_waits() || flash.space().has_cache() { return None; }",
         "if true { return None; }", "--test drive streams::"),
        ("FlashAlloc: ended objects are collected against the paper", ".filter(|objects| objects.collects_ended())?;",
         "?;", "--test drive streams::"),
        ("FlashAlloc: no blocks of one object are merged", "fits.then_some((valid, emptiest, number))",
         "(fits && false).then_some((valid, emptiest, number))", "--test drive streams::"),
        ("FlashAlloc: blocks on demand are taken with the call", "let on_demand = self.config.on_demand; let taken",
         "let on_demand = false; let taken", "--test drive streams::"),
        ("FlashAlloc: tiny objects share no block", "let tiny = self.config.share_tiny && pages < ppb;",
         "let tiny = false;", "--test drive streams::"),
        ("FlashAlloc: one write at a border makes an object", "let on_its_way = before > 0 || sectors > self.page;",
         "let on_its_way = true;", "--test drive streams::"),
        ("FlashAlloc: no run makes an object", "if self.least > 0 && before >= self.least &&", "if false &&",
         "--test drive streams::"),
        ("FlashAlloc: guessed objects are kept like announced ones", "if guessed { self.blocks.mingle(block); }",
         "let _ = guessed;", "--test drive streams::"),
        ("FlashAlloc: a page on a border belongs to nobody", "before.or_else(|| self.ranges.range(from..to).next())?", "before?",
         "--test drive streams::"),

        # Victims.
        ("greedy takes the newest of equal blocks", "from.buckets().next().map(|(_, block)| block) }",
         "from.buckets().last().map(|(_, block)| block) }", "--test drive closed_forms::"),
        ("FIFO takes fully valid blocks", "from.by_age().find(|&block| from.gains(block))",
         "from.by_age().next()", "--test drive closed_forms::"),
        ("d-choices takes the fullest", ".min_by_key(|&block| from.valid(block)) .filter", ".max_by_key(|&block| from.valid(block)) .filter",
         "--test drive theory::"),
        ("d-choices draws once more", "(0..d) .map(|_| closed", "(0..d + 1) .map(|_| closed", "--test drive theory::"),
        ("cost-benefit forgets age", "u128::from(now - from.last_invalidated(block) + 1)", "u128::from(now - now + 1)", GOLDEN),
        ("cost-benefit forgets the cost", "let cost = 2 * u128::from(valid);", "let cost = 2 + u128::from(valid - valid);", GOLDEN),

        # Striping.
        ("static striping ignores its order", "at[level] = rest % size; rest /= size;", "at[level] = rest % size;", UNITS + " order"),
        ("dynamic striping takes the busiest plane", "best.is_none_or(|(least, _)| load < least) {",
         "best.is_none_or(|(least, _)| load > least) {", GOLDEN),
        ("dynamic striping begins at the same plane each time", "let (_, plane) = best?; self.turn = (plane + 1) % planes;",
         "let (_, plane) = best?;", GOLDEN),
        ("block by block: a stream leaves its block", "&& goes_on(home) {", "&& goes_on(home) && false {", UNITS + " block_by_block"),
        ("block by block: streams follow each other in a plane", "self.turn = (plane + 1) % planes; if self.homes.len()",
         "if self.homes.len()", UNITS + " block_by_block"),
    ],
    "io": [
        ("a call of too many ranges is carried out", "if ranges.len() > most {", "if false {", "--test drive streams::"),
    ],
    "nand": [
        ("a copy of an unreadable sector is readable", "self.lose(to, gone << to_at);", "let _ = gone;", "--test drive faults::"),
        ("the channel serves the newest first", "channel.waiting.pop_front()", "channel.waiting.pop_back()",
         "--test drive closed_forms::"),
        ("a die forgets the transfer out", "let duration = self.channel_time(op); self.want_channel",
         "let duration = 0; self.want_channel", "--test drive closed_forms::"),
    ],
    "serve": [
        ("the image lags behind the answers", "if !self.changes.is_empty() {", "if self.changes.len() > 32 {", "--test serve device::"),
        ("a read-modify-write of the server does not keep others away",
         "if self.must_wait(number, changes) {", "if false {", "--test serve device::"),
        ("the server forgets FUA", ".fua(request.flags & flag::FUA != 0)", ".fua(false)", "--test serve device::"),
        ("the NVM subsystem forgets FUA", "Io::write(offset, data).fua(fua).stream(stream)",
         "Io::write(offset, data).fua(false).stream(stream)", "--test serve nvme::"),
        ("the server answers a flush at once", "Op::Flush => plan.steps.push_back(Step::new(Op::Flush, 0, 0)),",
         "Op::Flush => {}", "--test serve device::"),
        ("a damaged page is taken for a torn one", "laid.record.lost = u64::MAX >> (64 - g.sectors_per_page());",
         "laid.record.kind = PageUse::Torn;", IMAGE + "faults"),
        ("a page may be missing without a word", "(_, Found::Sound(copy)) => found.push(self.rest_on_copy(ppn, copy, &slot)),",
         "(_, Found::Sound(_)) => {}", IMAGE + "faults"),
        ("what a kill leaves of a superblock is taken for damage",
         "let beside = pages.filter(|&p| array.plane_of(p) == array.plane_of(ppn));", "let beside = pages;",
         IMAGE + "faults"),
        ("a flush is answered before the disk has it",
         "if self.outlives_host() && self.unsynced { self.sync() } else { Ok(()) }", "Ok(())", IMAGE + "power"),
        ("the drive's thread forgets that a flush is durable", "if self.done.iter().any(durable) { image.make_durable()?; }",
         "", IMAGE + "power"),
        ("a block is erased before its successors are on the disk", "Change::Erased(_) => self.unsynced_pages,",
         "Change::Erased(_) => false,", IMAGE + "power"),
        ("an erased block is written to before its record is on the disk",
         "last && self.unsynced_pages || self.freed.contains(&self.store.layout.geometry().block_of(ppn))",
         "last && self.unsynced_pages", IMAGE + "power"),
        ("a checkpoint is on the disk before what it refers to", "last && self.unsynced_pages ||", "", IMAGE + "power"),
        ("the copy of a head is on the disk before its page",
         "if self.outlives_host() { self.unmarked.push((at, copy)); return Ok(()); }", "", IMAGE + "power"),
        ("a deleted image goes unnoticed", "self.health.gone = image.is_gone();", "let _ = image;", "--test serve image::"),
        ("an emptied image is served as a new one", "Ok(metadata) if metadata.len() == 0 => {",
         "Ok(metadata) if metadata.len() == 0 => { return Ok(None);", "--test serve image::what_is"),
        ("a FIFO is opened as an image",
         'Ok(metadata) if !metadata.is_file() => return Err(no("not a regular file")),', "", "--test serve image::what_is"),
        ("what the disk did not take of a write is forgotten", "Ok(n) => { bytes = &bytes[n..]; at += n as u64; }",
         "Ok(_) => break,", "--test serve damage::"),
        ("an image that cannot be written is served on",
         "image.follow(self.ssd.flash().array(), &self.changes)?;",
         "let _ = image.follow(self.ssd.flash().array(), &self.changes);", "--test serve damage::"),
        ("a write over the border of two pieces ends in the first",
         "Medium::write_at(file, &bytes[..part(bytes.len(), room)], at)", "Medium::write_at(file, bytes, at)",
         "-p nandle-serve --lib image::pieces"),
        ("a piece that is gone is not missed",
         "(0..).zip(&self.files).all(|(piece, file)| file.is_at(&name(path, piece)))", "self.files[0].is_at(path)",
         "--test serve image::an_image_longer"),

        ("a scrub looks at no page", "if !pair.is_some_and(|pair| pair.agrees()) {", "if false {", IMAGE + "scrub"),
        ("a scrub looks at no block's records", "_ => step.places.push(Place::Block(block)),", "_ => {}", IMAGE + "scrub"),
        ("what a scrub finds is only told",
         "self.store.write(&self.buffer, self.store.layout.slot(ppn))?; self.store.write(&copy_of(&self.buffer), copy_at)?;",
         "let _ = copy_at;", IMAGE + "scrub"),
        ("a scrub takes what is being written for damage", "if self.unmarked.iter().any(|&(at, _)| at == copy_at) {",
         "if false {", IMAGE + "scrub"),
        ("a scrub writes pages that flash does not have yet", "_ if there && !idle => return Ok(None),", "",
         IMAGE + "scrub"),
        ("nobody reads the image back", "(Some(image), Some(every)) =>", "(Some(image), Some(every)) if every.is_zero() =>",
         "--test serve image::what_goes_bad"),

        # Clients.
        ("a virtual machine that leaves leaves a thread", "let _ = self.over.1.notify();", "", HOSTILE + "a_client_that"),
        ("all that is asked about the drive goes before requests", "self.inbox.looked(client, (!over).then_some(look));",
         "self.inbox.looked(client, (!over).then_some(look)); if self.inbox.looks() { self.next_look = 0; "
         "return self.look(); }", HOSTILE + "questions"),
        ("a request counts for as much as it names", "io.bytes.clamp(LEAST, MOST),", "io.bytes.max(LEAST),",
         "-p nandle-serve --lib inbox::"),
        ("a client may borrow all that there is", "let may = turn && before + bytes <= self.free;",
         "let may = turn && bytes <= self.free;", "-p nandle-serve --lib budget::"),
        ("a handshake of single bytes goes on", "let handshake = Some(Instant::now() + handshake);",
         "let handshake = Some(Instant::now() + 1000 * handshake);", "-p nandle-serve --lib deadline::"),
        ("the program's own clients wait for ever", "ask(address, path, PATIENCE)", "ask(address, path, 100 * PATIENCE)",
         HOSTILE + "the_programs_own"),
        ("sockets are everybody's", "rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(mode))?;",
         "let _ = mode;", HOSTILE + "sockets"),
        ("images are everybody's", ".truncate(false).mode(0o600).open(at);", ".truncate(false).mode(0o644).open(at);",
         HOSTILE + "sockets"),
        ("the live page is for whoever is meant", "request.hosts.iter().all(|host| {",
         "request.hosts.iter().take(0).all(|host| {", HOSTILE + "the_live_page"),
        ("idle visitors keep others out", "client.unsettled = Some(Instant::now());", "client.unsettled = None;",
         HOSTILE + "who_says_nothing"),
        ("clients by TLS need no certificate", ".with_client_cert_verifier(clients)", ".with_no_client_auth()",
         "--test serve tls::"),
        ("NVMe/TCP is in the clear beside certificates", 'tls.accept(stream)?.serve(stream, "nvme tls", serve)',
         "let _ = &tls; serve(stream)", "--test serve tls::"),
    ],
    "nandle": [
        ("an address that others reach is not warned of", "&& place.is_public()", "&& false", HOSTILE + "addresses"),
        ("a reader that goes away is a failure", "Ok(()) | Err(Failure::Unread) => ExitCode::SUCCESS,",
         "Ok(()) => ExitCode::SUCCESS, Err(Failure::Unread) => ExitCode::FAILURE,", "--test program cli::a_reader"),
    ],
    "trace": [
        ("a decoder's panic is printed", "if !QUIET.get() {", "if true {", "--test program one_sentence::"),
    ],
    "lab": [
        ("the oracle compares nothing that reads return",
         "self.checked += 1; if let Err(wrong) = self.sectors.compare(lsn, bytes, floor) {", "if false { let _ = floor;",
         "--test drive oracle::"),
        ("the oracle compares nothing after a power cut",
         "self.checked += 1; if let Err(wrong) = self.sectors.compare(lsn, bytes, self.sectors.durable_floor(lsn)) {",
         "if let Err(wrong) = self.sectors.compare(lsn, bytes, self.sectors.durable_floor(lsn)) {", "--test drive oracle::"),
        ("two programs work in one run's directory", "== Err(rustix::io::Errno::WOULDBLOCK)",
         "== Err(rustix::io::Errno::NXIO)", "--test program one_sentence::"),
        ("nobody asks whether there is memory", "Some((most, whose)) if need > most =>",
         "Some((most, whose)) if most == 0 =>", "--test program one_sentence::"),
        ("verification keeps whatever it is asked to", "if now > self.most {", "if false {", "--test program one_sentence::"),
        ("nothing is read back in the end", "if complete { replayer.read_back()?; }", "", "--test program cli::"),
    ],
}


SURVIVED = "SURVIVED"
# A drive that has lost its way may also go round for ever.
PATIENCE_S = 300


def places(sources: pathlib.Path, text: str) -> list[tuple[pathlib.Path, int, int]]:
    """Where a text stands, however it is broken into lines: file, from, to."""
    pattern = re.compile(r"\s+".join(re.escape(word) for word in text.split()))
    found = []
    for path in sorted(sources.rglob("*.rs")):
        found += [(path, *match.span()) for match in pattern.finditer(path.read_text())]
    return found


def judge(copy: pathlib.Path, net: str) -> str:
    """Builds and runs one net of the mutated sources."""
    cargo = ["cargo", "test", "--quiet", *net.split(), "--target-dir", str(ROOT / "target/mutants")]
    built = subprocess.run([*cargo, "--no-run"], cwd=copy, capture_output=True, text=True, check=False)
    if built.returncode != 0:
        return "no build"
    run = subprocess.Popen(cargo, cwd=copy, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                           start_new_session=True)
    try:
        output, _ = run.communicate(timeout=PATIENCE_S)
    except subprocess.TimeoutExpired:
        os.killpg(run.pid, signal.SIGKILL)
        run.wait()
        return "hangs"
    return "caught" if run.returncode != 0 and "test result: FAILED" in output else SURVIVED


def main() -> int:
    wanted = [word for word in sys.argv[1:] if word != "--check"]
    chosen = [(crate, *mutant) for crate, mutants in MUTANTS.items() for mutant in mutants
              if not wanted or any(word in part for word in wanted for part in (mutant[0], mutant[3]))]
    if not chosen:
        sys.exit(f"no mutant is called {' or '.join(wanted)}")
    failures = []
    with tempfile.TemporaryDirectory() as folder:
        copy = pathlib.Path(folder) / "nandle"
        shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns("target", ".git", "runs"))
        for crate, name, text, replacement, net in chosen:
            found = places(copy / ("src" if crate == "nandle" else f"crates/{crate}/src"), text)
            if len(found) != 1:
                where = ", ".join(sorted({str(path.relative_to(copy)) for path, *_ in found}))
                failures.append(f"{name}: {text!r} is there {len(found)} times, expected once {where}")
                continue
            if "--check" in sys.argv[1:]:
                continue
            [(path, start, end)] = found
            source = path.read_text()
            path.write_text(source[:start] + replacement + source[end:])
            verdict = judge(copy, net)
            print(f"{verdict:8}  {net:32} {name}", flush=True)
            if verdict in (SURVIVED, "no build"):
                failures.append(f"{name}: {verdict}")
            path.write_text(source)
    for failure in failures:
        print(f"not caught: {failure}", file=sys.stderr)
    print(f"{len(chosen)} mutants, {len(failures)} of them not caught")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
