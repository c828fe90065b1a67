#!/usr/bin/env python3
"""Goal: the tests can fail.

Method: each deliberate breakage below is applied to a copy of the sources, and the named net must
catch it: fail, or never end. A mutant that survives is a hole in the net; one that no longer applies needs a new form.
The text of a mutant is looked for in all sources of its crate, whatever file it lies in and however it is broken into
lines, and must be there exactly once.

    tests/mutants.py                    all of them
    tests/mutants.py mrsm "--test waflash"
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

# Crate -> (what breaks, text, replacement, what cargo tests to catch it).
MUTANTS = {
    "ssd": [
        # What keeps data safe.
        ("an overwritten page may be erased before its successor is on flash",
         "self.nand.supersede(old, op); self.fragments.set_single", "self.fragments.set_single", "--test oracle"),
        ("a collected page may be erased before its copy is on flash",
         "to, u32::from(start), u32::from(len)); self.nand.supersede(ppn, op);",
         "to, u32::from(start), u32::from(len));", "--test oracle"),
        ("a flush does not record trims", "if !self.flash.log_is_clean() { self.flash.write_log(None);",
         "if false { self.flash.write_log(None);", "--test oracle"),
        ("a block is erased before its trims are recorded",
         "if self.blocks.is_trimmed(block) {", "if false {", "--test oracle"),
        ("recovery forgets the order of programs",
         "scan.found.sort_by_key(|&(seq, _)| seq);", "", "--test oracle"),
        ("a checkpoint page does not wait for what it refers to",
         "let after: Vec<OpId> = self.nand.pending_programs().collect();", "let after: Vec<OpId> = vec![];",
         "--test crash"),
        ("a checkpoint page is written before the trims that it knows of",
         "if !self.log_is_clean() { self.write_log(None); } let class = PageClass::SYSTEM; if !self.log_is_clean() ||",
         "let class = PageClass::SYSTEM; if", "--test crash"),
        ("a flush does not drain the buffer",
         "while self.buffer.as_ref().is_some_and(|b| !b.is_empty()) {", "while false {", "--test oracle"),

        # Completions.
        ("a read of the last sector is refused",
         "end.is_none_or(|end| end > self.flash.layout.logical_sectors)",
         "end.is_none_or(|end| end >= self.flash.layout.logical_sectors)", "--test oracle"),
        ("a read returns nothing", "self.requests[slot as usize].data = data; self.release(slot);",
         "self.release(slot);", "--test oracle"),
        ("a legal read is now and then refused", "let status = self.refuse(command);",
         "let mut status = self.refuse(command); if command.op == Op::Read && number % 100 == 99 "
         "{ status = Status::ReadOnly; }", "--test oracle"),
        ("a sector is unreadable without a fault", "if gone != 0 { self.read_failed(slot, lpn, gone);",
         "if gone != 0 || lpn % 64 == 63 { self.read_failed(slot, lpn, gone | 1);", "--test oracle"),
        ("a request is answered twice",
         "done.push(Completion { id: request.id, at, status: request.status, data, unreadable });",
         "let answer = Completion { id: request.id, at, status: request.status, data, unreadable }; "
         "if request.id % 100 == 99 { done.push(answer.clone()); } done.push(answer);", "--test oracle"),
        ("a request gets another's answer",
         "done.push(Completion { id: request.id, at,", "done.push(Completion { id: request.id ^ 1, at,", "--test oracle"),
        ("a worn-out drive takes writes again",
         "} else if command.op == Op::Write && self.flash.read_only {", "} else if false {", "--test faults"),
        ("an object may have what another one has", "if !overlapping(self).is_empty() {", "if false {",
         "--test streams"),
        ("a call of too many ranges is carried out", "if ranges.len() > most as usize {", "if false {",
         "--test streams"),

        # Buffer.
        ("LRU: the newest page leaves first", "buffer.oldest().into_iter().collect()",
         "Some(buffer.newest).filter(|_| buffer.len > 0).into_iter().collect()", GOLDEN),
        ("LRU: a write does not make its page younger",
         "if self.kind != BufferKind::Fifo { self.unlink(slot); self.link_newest(slot); }",
         "if false { self.unlink(slot); self.link_newest(slot); }", UNITS + " pc_lru"),
        ("FIFO: a write makes its page younger", "if self.kind != BufferKind::Fifo {", "if true {", GOLDEN),
        ("FIFO: a request leaves page by page",
         ".take_while(|&slot| buffer.entry(slot).request == request)", ".take(1)", GOLDEN),
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
        ("congestion: only the chip that is written to counts", "!target_is_idle || read_waits(flash, mapping, entry)",
         "!target_is_idle", "--test waflash"),
        ("congestion: only the chips that are read count", "!target_is_idle || read_waits(flash, mapping, entry)",
         "read_waits(flash, mapping, entry)", GOLDEN),
        ("batch: the furthest neighbour comes first", "lpn - b <= a - lpn", "lpn - b > a - lpn", UNITS + " batch"),
        ("batch: neighbours of other regions come too", "let low = lpn / region * region;", "let low = 0;",
         UNITS + " batch"),
        ("batch: nobody joins", "&& page.fits(entry.mask) && joins(entry)", "&& false", "--test waflash"),

        # Page mapping.
        ("a partial update forgets what it leaves standing",
         "flash.carry(lpn, keep, ppn, 0); flash.fill(ppn, mask, 0, contents); if held == 0",
         "flash.fill(ppn, mask, 0, contents); if held == 0", "--test oracle"),
        ("an RMW does not wait for its read",
         "flash.read(lpn, keep, Cause::Rmw, None, &after, reads); after.extend(reads.iter().map(|&(_, op)| op));",
         "flash.read(lpn, keep, Cause::Rmw, None, &after, reads);", "--test closed_forms"),

        # MRSM.
        ("MRSM: a region never goes by sub-page", "if region.partial >= switch_after {", "if false {", "--test across"),
        ("MRSM: a region goes by sub-page one update late", "region.partial >= switch_after",
         "region.partial > switch_after", "--test across"),
        ("MRSM: every partial write counts as an update", "region.partial += u32::from(others != 0);",
         "region.partial += 1;", "--test across"),
        ("MRSM: a region never goes back", "} else if region.full >= size {", "} else if false {", "--test across"),
        ("MRSM: full pages need not follow each other", "region.full = if full { region.full + 1 } else { 0 };",
         "region.full += u32::from(full);", "--test across"),
        ("MRSM: all sub-pages go by themselves", "if touched == all { return 0; }", "if false { return 0; }", GOLDEN),
        ("MRSM: a write that leaves nothing behind goes beside", "if alone && others & behind == 0 {", "if false {",
         GOLDEN),
        ("MRSM: there is always a page to spare",
         "Some(plane) => regions.beside[plane as usize] < spare(plane),", "Some(_) => true,", "--test oracle"),
        ("MRSM: what a sub-page keeps is not carried", "self.carry(part.lpn, keep, ppn, shift);", "", "--test oracle"),
        ("MRSM: a sub-page forgets what it keeps",
         "let keep = self.stored(part.lpn, within & !part.mask);", "let keep = 0;", "--test oracle"),

        # Versions.
        ("versions: one more than allowed", "if pages(&list) < self.settings.max_versions as usize {",
         "if pages(&list) <= self.settings.max_versions as usize {", "--test waflash"),
        ("versions: never more than a page", "if pages(&list) < self.settings.max_versions as usize {",
         "if pages(&list) < 1 {", "--test waflash"),
        ("versions: there is always room for one", "let admitted = !stays || replaces || self.has_budget(flash, Some(plane));",
         "let admitted = true;", "--test waflash"),
        ("versions: a version in the place of another asks for room", "!stays || replaces || self.has_budget",
         "!stays || self.has_budget", GOLDEN),
        ("versions: a direct pointer reaches everywhere", "(-half..half).contains(&(number(to) - number(from)))", "true",
         GOLDEN),
        ("versions: collection merges none", "&& let Some(lpns) = self.mergeable(flash, ppn)",
         "&& let Some(lpns) = self.mergeable(flash, ppn).filter(|_| false)", "--test waflash"),
        ("versions: an idle drive merges none", "merged += self.merge_oldest(flash, plane);", "", "--test waflash"),
        ("versions: the host's pages do not drive versions out", "if !self.is_crowded(flash, plane) { return; }",
         "if true { return; }", GOLDEN),
        ("versions: announced objects do not drive versions out",
         "if !table_is_full && !self.is_crowded(flash, plane) { break; }", "if true { break; }", "--test waflash"),
        ("versions: a merge forgets an older page", "let mask = keep(&list, 0); let extents",
         "let mask = in_page(&list, list[0].ppn); let extents", "--test oracle"),
        ("versions: no relief under pressure",
         "if flash.blocks.extra(plane) > 0 && pressed && flash.plane_is_idle(plane) {", "if false {", GOLDEN),

        # Across-FTL.
        ("across: runs over a border are no areas", "let pair = write.parts.get(n..n + 2).filter(|pair| straddles(pair, flash.full_mask()));",
         "let pair: Option<&[Part<'_>]> = None;", "--test across"),
        ("across: nothing is merged into an area", "if union_fits(run, area.masks, spp) { flash.stats.across.unprofitable_merges",
         "if false { flash.stats.across.unprofitable_merges", "--test across"),
        ("across: a union larger than a page is an area", "a <= d && c <= b && b.max(d) - a.min(c) <= spp",
         "a <= d && c <= b", "--test across"),
        ("across: areas that are overwritten as a whole are read", "if inside & part.mask != 0 && !dies {",
         "if inside & part.mask != 0 {", "--test across"),
        ("across: a dissolved area loses its other half", "homeless.push((other, area.appn));", "", "--test across"),
        ("across: there is always a page to spare for an area", "if !flash.can_spare_area(first) {", "if false {",
         "--test compose"),
        ("across: what stays in areas is written home too", "let mut held = in_areas(flash, lpn, None) & !part.mask;",
         "let mut held = 0;", "--test across"),
        ("across: areas do not shrink", "if shrink { flash.stats.across.shrinks += hit.len() as u64;",
         "if false { flash.stats.across.shrinks += hit.len() as u64;", "--test across"),

        # Compaction.
        ("compaction: half a page is not small", "mask.count_ones() <= self.half", "mask.count_ones() < self.half",
         UNITS + " compaction"),
        ("compaction: pages of other regions share a page", "let joins = region(first.lpn) == region(part.lpn)",
         "let joins = region(first.lpn) <= u32::MAX", "--test waflash"),
        ("compaction: a page takes more than fits", "&& filling.fits(part.mask);", ";", "--test waflash"),
        ("compaction: a shared page goes to the busiest plane", "best.is_none_or(|(least, _)| load < least) && has_room",
         "best.is_none_or(|(least, _)| load > least) && has_room", GOLDEN),
        ("compaction: one partial page alone is compacted",
         "self.plane_of_group(flash, write, group), group.parts.len()) {",
         "self.plane_of_group(flash, write, group), group.parts.len().max(2)) {", GOLDEN),

        # Page types.
        ("strict: the host takes what collection needs",
         "let reserve = if role.may_use_reserve() { 0 } else { self.reserve }; let fresh = blocks.free(plane).saturating_sub(reserve); self.left",
         "let fresh = blocks.free(plane); self.left", "--test oracle"),
        ("LSB-first: slow pages while there are fast ones", "if let Some(ppn) = begun.take(plane, role, 0, array, blocks) { return Some(ppn); } if role == Role::Gc { let drawn",
         "if role == Role::Gc { let drawn", "--test page_types"),
        ("LSB-first: survivors open fresh blocks", "if role == Role::Gc { let drawn", "if false { let drawn", GOLDEN),
        ("size-based: a page's size decides, not the request's", "let small = class.alone && matches!(role, Role::Host(_));",
         "let small = !class.full && matches!(role, Role::Host(_));", "--test page_types"),
        ("size-based: large requests take fast pages first",
         "if !small && let Some(ppn) = begun.take_any(plane, role, slow, draw, array, blocks) { return Some(ppn); }",
         "let _ = (small, slow, draw);", "--test page_types"),
        ("PAPA: partial pages on the slowest type", "fn partial(&self) -> Range<usize> { 0..self.slowest }",
         "fn partial(&self) -> Range<usize> { 0..self.slowest + 1 }", "--test page_types"),
        ("PAPA: no backup for partial pages", "for kind in 1..self.slowest {", "for kind in 1..1 {", "--test page_types"),
        ("PAPA: full pages take the slowest first", "for kind in self.split..=self.slowest {",
         "for kind in (self.split..=self.slowest).rev() {", "--test page_types"),
        ("PAPA: full pages take fast ones first", "for kind in self.split..=self.slowest {", "for kind in 0..=self.slowest {",
         "--test page_types"),
        ("PAPA: survivors of partial pages open fresh blocks",
         "if role != Role::Gc && let Some(ppn) = begun.open(plane, role, array, blocks) { return Some(ppn); } for kind in 1..self.slowest",
         "if let Some(ppn) = begun.open(plane, role, array, blocks) { return Some(ppn); } for kind in 1..self.slowest",
         GOLDEN),
        ("page types: the first of several, never another", "n => draw.below(n as u64) as usize,", "_ => 0,",
         "--test page_types"),
        ("an advisor's order of page types is turned round", "for &kind in &orders[place(class)] {",
         "for &kind in orders[place(class)].iter().rev() {", "--test extending"),

        # Streams.
        ("multi-stream: all streams share blocks", "Role::Host(hint % self.count)", "Role::Host(hint % 1)", "--test streams"),
        ("FDP: all handles share blocks", "Role::Host(placement % self.handles.len() as u16)", "Role::Host(placement % 1)",
         "--test streams"),
        ("FDP: persistent isolation is none", "Role::Host(handle) if self.persistent => {",
         "Role::Host(handle) if self.persistent && false => {", "--test streams"),
        ("FDP: an untouched unit is left", "&& handle.available_pages < self.unit_pages", "", "--test serve_nvme"),
        ("FlashAlloc: writes are not matched", "if instance.left > 0 { Role::Object(instance.home) } else { Role::Host(0) }",
         "Role::Host(0)", "--test streams"),
        ("FlashAlloc: objects take what the drive needs",
         "if burden > 0 && f.objects.burden() + burden > self.pages_beyond_need() || !f.objects.has_home() {",
         "if !f.objects.has_home() {", "--test streams"),
        ("FlashAlloc: a call may take the last clean blocks",
         "self.blocks.free(plane).saturating_sub(self.layout.hard_blocks)", "self.blocks.free(plane)", "--test streams"),
        ("FlashAlloc: a call that lacks blocks is refused at once", "if auto || failed {", "if true {", "--test streams"),
        ("FlashAlloc: objects lie side by side in a plane", "order.sort_by_key(|&plane| load(plane));", "let _ = load;",
         "--test streams"),
        ("FlashAlloc: FlashFree ends nothing", "for slot in f.objects.overlapping(lsn, lsn + sectors) { self.end_instance(slot, true); }",
         "let _ = (f, lsn, sectors);", "--test streams"),
        ("FlashAlloc: a trim leaves objects as they are", "for slot in f.objects.forget(lsn, lsn + sectors) { self.end_instance(slot, false); }",
         "let _ = (f, lsn, sectors);", "--test streams"),
        ("FlashAlloc: an object that was used up goes on", "&& f.objects.instances[slot as usize].left == 0",
         "&& f.objects.instances[slot as usize].left > u64::MAX - 1", "--test streams"),
        ("FlashAlloc: the end of an object need not be on flash", "self.blocks.mark_trimmed(block); if self.blocks.state(block) == State::Open",
         "if self.blocks.state(block) == State::Open", "--test streams"),
        ("FlashAlloc: ended objects are never collected for others", "self.streams.flashalloc().filter(|_| self.host_waits)?;",
         "self.streams.flashalloc().filter(|_| false)?;", "--test streams"),
        ("FlashAlloc: ended objects are collected against the paper", ".filter(|f| f.config.collect_ended)?;", "?;", "--test streams"),
        ("FlashAlloc: no blocks of one object are merged", "fits.then_some((valid, emptiest, home))", "(fits && false).then_some((valid, emptiest, home))",
         "--test streams"),
        ("FlashAlloc: blocks on demand are taken with the call",
         "let (on_demand, tiny) = (f.config.on_demand, f.config.share_tiny && pages < ppb);",
         "let (on_demand, tiny) = (false, f.config.share_tiny && pages < ppb);", "--test streams"),
        ("FlashAlloc: tiny objects share no block",
         "let (on_demand, tiny) = (f.config.on_demand, f.config.share_tiny && pages < ppb);",
         "let (on_demand, tiny) = (f.config.on_demand, false);", "--test streams"),
        ("FlashAlloc: one write at a border makes an object", "let on_its_way = before > 0 || sectors > u64::from(self.spp);",
         "let on_its_way = true;", "--test streams"),
        ("FlashAlloc: no run makes an object", "if least > 0 && before >= least && lsn + block <= logical {", "if false && lsn + block <= logical {",
         "--test streams"),
        ("FlashAlloc: guessed objects are kept like announced ones", "if guessed { self.blocks.loosen(block); }", "let _ = guessed;",
         "--test streams"),
        ("FlashAlloc: a page on a border belongs to nobody", "before.or_else(|| self.ranges.range(from..to).next())?", "before?",
         "--test streams"),

        # Victims.
        ("greedy takes the newest of equal blocks", "from.buckets().next().map(|(_, block)| block) }",
         "from.buckets().last().map(|(_, block)| block) }", "--test closed_forms"),
        ("FIFO takes fully valid blocks", "from.by_age().find(|&block| from.valid(block) < from.pages_per_block())",
         "from.by_age().next()", "--test closed_forms"),
        ("d-choices takes the fullest", ".min_by_key(|&block| from.valid(block)) .filter", ".max_by_key(|&block| from.valid(block)) .filter",
         "--test theory"),
        ("d-choices draws once more", "(0..d) .map(|_| closed", "(0..d + 1) .map(|_| closed", "--test theory"),
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
    "nand": [
        ("a copy of an unreadable sector is readable", "self.lose(to, gone << to_at);", "let _ = gone;", "--test faults"),
        ("the channel serves the newest first", "channel.waiting.pop_front()", "channel.waiting.pop_back()",
         "--test closed_forms"),
        ("a die forgets the transfer out", "let duration = self.channel_time(op); self.want_channel",
         "let duration = 0; self.want_channel", "--test closed_forms"),
    ],
    "serve": [
        ("the image lags behind the answers", "if !self.changes.is_empty() {", "if self.changes.len() > 32 {", "--test serve"),
        ("a read-modify-write of the server does not keep others away",
         "if self.must_wait(number, changes) {", "if false {", "--test serve"),
        ("the server forgets FUA", "fua: request.flags & flag::FUA != 0", "fua: false", "--test serve"),
        ("the NVM subsystem forgets FUA", "vec![Io::Write { offset, data, fua, stream }]",
         "vec![Io::Write { offset, data, fua: fua && false, stream }]", "--test serve_nvme"),
        ("the server answers a flush at once", "Io::Flush => plan.steps.push_back(Step::Flush),", "Io::Flush => {}",
         "--test serve"),
    ],
    "lab": [
        ("the oracle compares nothing that reads return",
         "self.checked += 1; if let Err(wrong) = self.sectors.compare(lsn, bytes, floor) {", "if false { let _ = floor;",
         "--test oracle"),
        ("the oracle compares nothing after a power cut",
         "self.checked += 1; if let Err(wrong) = self.sectors.compare(lsn, bytes, self.sectors.durable_floor(lsn)) {",
         "if let Err(wrong) = self.sectors.compare(lsn, bytes, self.sectors.durable_floor(lsn)) {", "--test oracle"),
        ("nothing is read back in the end", "if complete { replayer.read_back()?; }", "", "--test cli"),
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
            found = places(copy / f"crates/{crate}/src", text)
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
