//! Power-on after a cut: everything is rebuilt from what the flash says of itself.
//!
//! | step | what |
//! | --- | --- |
//! | probe | first and last page of each block: its group, when its first and last pages were written; undefined blocks are erased |
//! | scan | the out-of-band areas of blocks, the newest first, back to where the newest checkpoint begins |
//! | base | the map as the checkpoint's pages have it, each as of its own sequence number |
//! | replay | extents and trims in the order of their sequence numbers: the newest wins |
//! | blocks | erased, partially written, full or undefined; partially written ones go on being written |
//! | schemes | each finds again what it knew, from the map, the out-of-band areas and its records |
//! | log | live log pages are kept, translation pages are compared with the map |
//! | erase | full blocks without live data are erased |
//!
//! Without a complete checkpoint every block is scanned and the base is empty.

use std::collections::{BTreeMap, BTreeSet};

use nandle_nand::{Array, Block, BlockCondition, Extents, Note, PageUse, Ppn, Time};
use serde::Serialize;
use smallvec::SmallVec;

use super::Durability;
use super::checkpoint::{Slice, keys};
use super::log::read_page;
use super::trims::mask_in;
use crate::collect::Collect;
use crate::flash::{Flash, Record, SchemeRecord};
use crate::map::{Fragment, run_mask};
use crate::schemes::Schemes;
use crate::space::{GroupId, State};

/// What a recovery read, and how long that takes.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct RecoveryReport {
    /// A complete checkpoint was found: not everything had to be scanned.
    pub from_checkpoint: bool,
    /// Blocks that are not bad.
    pub blocks: u64,
    /// Of these, those whose pages were all scanned.
    pub blocks_scanned: u64,
    /// Reads of out-of-band areas alone, probes of blocks included.
    pub oob_reads: u64,
    /// Pages of checkpoints read.
    pub checkpoint_reads: u64,
    /// Pages of the metadata log read.
    pub log_reads: u64,
    /// Translation pages read.
    pub map_reads: u64,
    /// Blocks erased: undefined ones, and full ones without live data.
    pub erases: u64,
    /// Time of all this (ns) if the reads of each step keep all dies and channels busy, and the
    /// steps follow each other. The controller's own time is not in it.
    pub time_ns: Time,
    /// Time (ns) that the capacitors lasted before, with `recovery.plp`; not part of `time_ns`.
    pub hold_up_ns: Time,
    /// A hash of the map that was found: the same whichever way it was found.
    pub map: u64,
}

impl RecoveryReport {
    /// Flash reads of all kinds.
    pub fn reads(&self) -> u64 {
        self.oob_reads + self.checkpoint_reads + self.log_reads + self.map_reads
    }
}

/// How far back recovery looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// To where the newest checkpoint begins.
    Checkpoint,
    /// At everything, as if there were no checkpoint.
    Everything,
}

/// The work of one step on each die and channel.
#[derive(Clone, Debug)]
struct Load {
    dies: Vec<Time>,
    channels: Vec<Time>,
}

/// What is going on in a recovery.
#[derive(Debug)]
struct Progress {
    report: RecoveryReport,
    load: Load,
    /// Erases until the power goes again; none if it stays.
    erases_left: Option<u32>,
    /// It has gone.
    cut: bool,
}

enum Found {
    Data(Ppn),
    Record(Record),
}

/// A page of the drive's own that was found.
#[derive(Clone, Copy)]
struct System {
    kind: PageUse,
    number: u32,
    version: u64,
    ppn: Ppn,
}

#[derive(Default)]
struct Scan {
    found: Vec<(u64, Found)>,
    system: Vec<System>,
    /// Pages of checkpoints by number.
    slices: BTreeMap<u32, (Ppn, Slice)>,
    scanned: BTreeSet<Block>,
}

/// The state that the checkpoint gives: as of which sequence number for each key.
struct Base {
    /// Number of the section of each key, 0 = none; and their sequence numbers.
    section: Vec<u32>,
    seqs: Vec<u64>,
}

impl Base {
    fn seq(&self, key: u32) -> u64 {
        if self.seqs.len() == 1 { 0 } else { self.seqs[self.section[key as usize] as usize] }
    }
}

impl Progress {
    fn new(flash: &Flash, erases_left: Option<u32>) -> Self {
        let g = flash.array().flash();
        Self {
            report: RecoveryReport::default(),
            load: Load { dies: vec![0; g.dies() as usize], channels: vec![0; g.channels as usize] },
            erases_left,
            cut: false,
        }
    }

    /// A read of `bytes` of `ppn` (out-of-band areas: without the page).
    fn read(&mut self, flash: &Flash, ppn: Ppn, bytes: u32) {
        let g = flash.geometry();
        let die = flash.array().die_of(ppn);
        let timing = flash.media().timing();
        let page = timing.transfer(g, g.sectors_per_page());
        let bus = timing.command_ns + page * u64::from(bytes) / u64::from(g.page_bytes);
        self.load.dies[die as usize] += timing.read(flash.array().page_type(ppn)) + bus;
        self.load.channels[flash.array().flash().channel_of_die(die) as usize] += bus;
    }

    fn oob(&mut self, flash: &Flash, ppn: Ppn) {
        self.report.oob_reads += 1;
        self.read(flash, ppn, flash.geometry().oob_bytes.max(1));
    }

    fn page(&mut self, flash: &Flash, ppn: Ppn) {
        self.read(flash, ppn, flash.geometry().page_bytes);
    }

    fn erase(&mut self, flash: &Flash, block: Block) {
        let erase_ns = flash.media().timing().erase_ns;
        for die in flash.array().dies_of(flash.geometry().plane_of(block)) {
            self.load.dies[die as usize] += erase_ns;
        }
        self.report.erases += 1;
    }

    /// The step is over: it takes as long as its busiest die or channel.
    fn step(&mut self) {
        let busiest = |of: &mut Vec<Time>| {
            let most = of.iter().copied().max().unwrap_or(0);
            of.fill(0);
            most
        };
        let (dies, channels) = (busiest(&mut self.load.dies), busiest(&mut self.load.channels));
        self.report.time_ns += dies.max(channels);
    }
}

/// The parts of a drive that is being powered on.
pub(crate) struct Recovery<'a> {
    pub flash: &'a mut Flash,
    pub schemes: &'a mut Schemes,
    pub collect: &'a mut Collect,
    pub durability: &'a mut Durability,
    /// Records that capacitors kept beside the flash, for want of a page: they go on waiting for one.
    pub kept: &'a [Record],
}

impl Recovery<'_> {
    /// Rebuilds map, blocks and log from the array. With `erases`, the power goes again during the
    /// erase behind so many: then there is no report, and no drive to go on with.
    pub(crate) fn run(&mut self, look: Look, erases: Option<u32>) -> Option<RecoveryReport> {
        let mut progress = Progress::new(self.flash, erases);
        let p = &mut progress;
        let order = self.probe(p);
        let mut scan = if p.cut { Scan::default() } else { self.scan(&order, look, p) };
        if p.cut {
            return None;
        }
        let base = self.load_base(&mut scan, p);
        scan.found.extend(self.kept.iter().map(|&record| (record.seq(), Found::Record(record))));
        scan.found.sort_by_key(|&(seq, _)| seq);
        let of_schemes = scan.found.iter().filter_map(|(_, found)| match found {
            Found::Record(Record::Scheme(record)) => Some(*record),
            _ => None,
        });
        let of_schemes: Vec<SchemeRecord> = of_schemes.collect();
        self.schemes.expect_records(&of_schemes);
        self.replay(&scan.found, &base);
        self.count_lists(&scan, p);
        p.step();
        p.report.map = self.map_digest();
        self.restore_blocks(&scan.system);
        self.kept.iter().for_each(|&record| self.flash.record(record));
        self.schemes.restore(self.flash);
        self.restore_map_cache(p);
        p.step();
        self.erase_dead_blocks(p);
        p.step();
        (!progress.cut).then_some(progress.report)
    }

    /// Erases a block at once; false if it is bad now.
    fn erase_now(&mut self, block: Block, p: &mut Progress) -> bool {
        p.erase(self.flash, block);
        if let Some(left) = &mut p.erases_left {
            if *left == 0 {
                p.cut = true;
                self.flash.media_mut().array_mut().interrupt_erase(block);
                return false;
            }
            *left -= 1;
        }
        let array = self.flash.media_mut().array_mut();
        array.erase(block);
        !array.replace_doomed(block)
    }

    /// Blocks without live data are erased at once: everything that supersedes them is on flash.
    fn erase_dead_blocks(&mut self, p: &mut Progress) {
        let dead: Vec<Block> = self
            .flash
            .blocks()
            .each()
            .filter(|&(block, state)| state == State::Closed && self.flash.blocks().valid(block) == 0)
            .map(|(block, _)| block)
            .collect();
        for block in dead {
            let blocks = self.flash.space_mut().blocks_mut();
            blocks.take_victim(block);
            blocks.set_erasing(block);
            let good = self.erase_now(block, p);
            if p.cut {
                return;
            }
            let (space, media) = self.flash.space_and_media();
            if space.blocks().group(block).is_some() {
                space.blocks_mut().forget_emptied(block);
            }
            space.erased(block, !good, media);
        }
    }

    /// Looks at the first and the last page of each block: the blocks with pages, and the largest
    /// sequence number that each may have, largest first. Undefined blocks are erased.
    fn probe(&mut self, p: &mut Progress) -> Vec<(u64, Block)> {
        let mut order = vec![];
        let blocks: Vec<Block> =
            (0..self.flash.geometry().planes()).flat_map(|p| self.flash.geometry().blocks_of(p)).collect();
        for block in blocks {
            if self.flash.array().condition(block) == BlockCondition::Bad {
                continue;
            }
            p.report.blocks += 1;
            p.oob(self.flash, self.flash.geometry().ppn(block, 0));
            if self.flash.array().condition(block) == BlockCondition::Undefined {
                self.erase_now(block, p);
                if p.cut {
                    return order;
                }
                continue;
            }
            if self.flash.array().pages_programmed(block) == 0 {
                continue;
            }
            let Some(ppn) = self.flash.array().nth_strict(block, self.flash.array().block_pages(block) - 1)
            else {
                continue;
            };
            p.oob(self.flash, ppn);
            // Partially written: nothing is known of its newest page yet.
            let full = self.flash.array().page_use(ppn) != PageUse::Erased;
            order.push((if full { self.flash.array().seq(ppn) } else { u64::MAX }, block));
        }
        p.step();
        order.sort_unstable_by(|a, b| b.cmp(a));
        order
    }

    /// Every page that says something, with its sequence number, in the blocks that are newer than
    /// where the newest checkpoint begins.
    fn scan(&mut self, order: &[(u64, Block)], look: Look, p: &mut Progress) -> Scan {
        let mut scan = Scan::default();
        // Number, front and beginning of the newest checkpoint page so far.
        let mut newest: Option<(u32, u32, u64)> = None;
        let mut since = 0;
        for &(upper, block) in order {
            if upper <= since {
                // Older than the checkpoint, and so are all that follow: if the checkpoint is whole.
                let whole = newest
                    .is_some_and(|(number, front, _)| (front..=number).all(|n| scan.slices.contains_key(&n)));
                if whole {
                    p.report.from_checkpoint = true;
                    break;
                }
                since = 0;
            }
            self.scan_block(block, &mut scan, p);
            for (&number, (_, slice)) in scan.slices.iter().rev().take(1) {
                if newest.is_none_or(|(n, ..)| number > n) {
                    newest = Some((number, slice.header.front, slice.header.since));
                    since = if look == Look::Everything { 0 } else { slice.header.since };
                }
            }
        }
        p.step();
        if let Some((number, front, _)) = newest {
            let whole = (front..=number).all(|n| scan.slices.contains_key(&n));
            self.durability.checkpoint.start_after(number);
            if whole && look == Look::Checkpoint {
                scan.slices.retain(|&n, _| n >= front);
            } else {
                scan.slices.clear();
            }
        }
        scan
    }

    fn scan_block(&mut self, block: Block, scan: &mut Scan, p: &mut Progress) {
        p.report.blocks_scanned += 1;
        scan.scanned.insert(block);
        for page in 0..self.flash.geometry().pages_per_block {
            let ppn = self.flash.geometry().ppn(block, page);
            let array = self.flash.array();
            let kind = array.page_use(ppn);
            if kind == PageUse::Erased {
                continue;
            }
            if array.first_slot(ppn) == ppn {
                p.oob(self.flash, ppn);
            }
            let version = array.version(ppn);
            match kind {
                PageUse::Data => scan.found.push((version, Found::Data(ppn))),
                PageUse::Map | PageUse::Meta | PageUse::Checkpoint => {
                    let Extents::Home { lpn: number, .. } = array.oob(ppn).extents else { continue };
                    if kind == PageUse::Meta {
                        self.read_log(ppn, &mut scan.found, p);
                    }
                    if kind == PageUse::Checkpoint {
                        p.report.checkpoint_reads += 1;
                        p.page(self.flash, ppn);
                        if let Some(slice) = array.note(ppn).and_then(Slice::read) {
                            // Copies say the same: the newest one stays.
                            let older = scan.slices.get(&number);
                            if older.is_none_or(|&(other, _)| array.seq(other) < array.seq(ppn)) {
                                scan.slices.insert(number, (ppn, slice));
                            }
                        }
                    } else {
                        scan.system.push(System { kind, number, version, ppn });
                    }
                }
                PageUse::Erased | PageUse::Padding | PageUse::Torn => {}
            }
        }
    }

    fn read_log(&self, ppn: Ppn, found: &mut Vec<(u64, Found)>, p: &mut Progress) {
        p.report.log_reads += 1;
        p.page(self.flash, ppn);
        let note = self.flash.array().note(ppn).map_or_else(Vec::new, Note::bytes);
        read_page(&note, |record| found.push((record.seq(), Found::Record(record))));
    }

    /// Whether what a checkpoint of sequence number `seq` says is in `ppn` can still be there.
    fn is_there(&self, ppn: Ppn, kind: PageUse, seq: u64) -> bool {
        let array = self.flash.array();
        array.page_use(ppn) == kind && array.seq_of_block(array.geometry().block_of(ppn)) <= seq
    }

    /// The map as the checkpoint has it. Pages that are gone by now are left out: what superseded them
    /// will be replayed.
    fn load_base(&mut self, scan: &mut Scan, p: &mut Progress) -> Base {
        let keys = keys(self.flash);
        let mut base = Base { section: vec![], seqs: vec![0] };
        let slices = std::mem::take(&mut scan.slices);
        if slices.is_empty() {
            return base;
        }
        base.section = vec![0; keys as usize];
        let logical = self.flash.fragments().len();
        let mut system: Vec<System> = vec![];
        // The log's pages by the newest list of which all parts are there.
        let (mut log, mut parts) = (vec![], (0, vec![]));
        for (_, slice) in slices.values() {
            let header = slice.header;
            base.seqs.push(header.seq);
            let number = base.seqs.len() as u32 - 1;
            let mut entries = vec![];
            slice.entries(|key, list| entries.push((key, list)));
            for (key, list) in entries {
                if key >= keys {
                    continue; // another configuration wrote it
                }
                base.section[key as usize] = number;
                if key >= logical {
                    let (number, kind) = (key - logical, PageUse::Map);
                    system.retain(|s| s.kind != kind || s.number != number);
                    for f in list.iter().filter(|f| self.is_there(f.ppn, kind, header.seq)) {
                        system.push(System { kind, number, version: header.seq, ppn: f.ppn });
                    }
                    continue;
                }
                let array = self.flash.array();
                let list: SmallVec<[Fragment; 2]> = list
                    .into_iter()
                    .filter(|f| self.is_there(f.ppn, PageUse::Data, header.seq))
                    .map(|f| match f.mask {
                        0 => Fragment { mask: self.flash.map().home_mask(array, f.ppn, key), ..f },
                        _ => f,
                    })
                    .filter(|f| f.mask != 0)
                    .collect();
                self.flash.set_fragments(key, list);
            }
            if header.parts > 0 {
                let pages = slice.log_pages().into_iter().filter(|&(number, ppn)| {
                    let here =
                        Extents::Home { lpn: number, start: 0, len: self.flash.sectors_per_page() as u8 };
                    self.is_there(ppn, PageUse::Meta, header.seq)
                        && self.flash.array().oob(ppn).extents == here
                });
                if header.part == 0 {
                    parts = (0, vec![]);
                }
                parts.0 += 1;
                parts.1.extend(pages);
                if parts.0 == header.parts {
                    log = std::mem::take(&mut parts.1);
                }
            }
        }
        for (number, ppn) in log {
            system.push(System {
                kind: PageUse::Meta,
                number,
                version: self.flash.array().version(ppn),
                ppn,
            });
            if !scan.scanned.contains(&self.flash.geometry().block_of(ppn)) {
                self.read_log(ppn, &mut scan.found, p);
            }
        }
        // What was scanned of translation pages is newer than the base, or in it.
        scan.system.retain(|s| s.kind != PageUse::Map || s.version > base.seq(logical + s.number));
        scan.system.extend(system);
        let ring: Vec<(u32, Ppn, Slice)> =
            slices.into_iter().map(|(number, (ppn, slice))| (number, ppn, slice)).collect();
        self.durability.checkpoint.resume(&ring, keys);
        p.step();
        base
    }

    fn replay(&mut self, found: &[(u64, Found)], base: &Base) {
        for &(seq, ref found) in found {
            match found {
                Found::Data(ppn) => {
                    let mut parts: SmallVec<[(u32, Fragment); 2]> = SmallVec::new();
                    fragments_of(self.flash.array(), *ppn, self.flash.sectors_per_page(), &mut parts);
                    for &(lpn, fragment) in &parts {
                        // A page larger than the device: another configuration wrote it.
                        if lpn < self.flash.fragments().len() && seq > base.seq(lpn) {
                            self.restore(lpn, fragment.mask, Some(fragment));
                        }
                    }
                }
                Found::Record(Record::Scheme(record)) => self.schemes.learn(self.flash, record),
                Found::Record(Record::Trim(record)) => {
                    self.durability.log.learn(*record);
                    self.schemes.forget(self.flash, record.lsn, record.sectors);
                    let spp = u64::from(self.flash.sectors_per_page());
                    let end = record.lsn + record.sectors;
                    for lpn in
                        record.lsn / spp..end.div_ceil(spp).min(u64::from(self.flash.fragments().len()))
                    {
                        if seq > base.seq(lpn as u32) && !self.flash.fragments().is_unmapped(lpn as u32) {
                            self.restore(lpn as u32, mask_in(lpn, record.lsn, end, spp), None);
                        }
                    }
                }
            }
        }
    }

    /// A hash of where every sector lies, whatever the order of a logical page's fragments.
    fn map_digest(&self) -> u64 {
        let mut hash = 0_u64;
        for lpn in self.flash.fragments().mapped() {
            let list = self.flash.fragments().get(lpn, self.flash.array());
            let sum = merge_same_place(list).iter().fold(0, |sum: u64, f| {
                let place = u64::from(f.ppn.0) << 8 | u64::from(f.shift as u8);
                sum.wrapping_add(nandle_random::mix(f.mask ^ nandle_random::mix(place)))
            });
            hash = nandle_random::mix(hash ^ sum ^ u64::from(lpn));
        }
        hash
    }

    /// Logical pages that are scattered: the order of their pages is asked of the pages themselves.
    fn count_lists(&self, scan: &Scan, p: &mut Progress) {
        if self.flash.fragments().lists_in_use() == 0 {
            return;
        }
        let mut seen = BTreeSet::new();
        for lpn in self.flash.fragments().mapped().filter(|&lpn| self.flash.fragments().single(lpn).is_none())
        {
            for f in self.flash.fragments().get(lpn, self.flash.array()) {
                if !scan.scanned.contains(&self.flash.geometry().block_of(f.ppn)) && seen.insert(f.ppn) {
                    p.oob(self.flash, f.ppn);
                }
            }
        }
    }

    /// The sectors `mask` of `lpn` now lie in `fragment`, or nowhere. Fragments of the same page
    /// come one by one; the last one sees all of them.
    fn restore(&mut self, lpn: u32, mask: u64, fragment: Option<Fragment>) {
        let mut list: SmallVec<[Fragment; 2]> = fragment.into_iter().collect();
        for f in self.flash.fragments().get(lpn, self.flash.array()) {
            if f.mask & !mask != 0 {
                list.push(Fragment { mask: f.mask & !mask, ..f });
            }
        }
        self.flash.set_fragments(lpn, merge_same_place(list));
    }

    fn restore_blocks(&mut self, system: &[System]) {
        // Live bits are set while the blocks are still open, then full ones are closed.
        let mut used = vec![];
        for plane in 0..self.flash.geometry().planes() {
            for block in self.flash.geometry().blocks_of(plane) {
                if self.flash.array().condition(block) == BlockCondition::Bad {
                    continue;
                }
                let pages = self.flash.array().pages_programmed(block);
                let (erases, seq) =
                    (self.flash.array().erases(block), self.flash.array().seq_of_block(block));
                let blocks = self.flash.space_mut().blocks_mut();
                if pages == 0 {
                    blocks.put_free(block, erases);
                } else {
                    blocks.put_used(block, State::Open, 0);
                    used.push((seq, plane, block));
                }
            }
        }
        let mut live = BTreeSet::new();
        for lpn in self.flash.fragments().mapped() {
            for f in self.flash.fragments().get(lpn, self.flash.array()) {
                live.insert(f.ppn);
            }
        }
        self.restore_system_pages(system, &mut live);
        live.extend(self.durability.checkpoint.pages());
        for ppn in live {
            self.flash.space_mut().blocks_mut().set_live::<false>(ppn);
        }
        used.sort_unstable();
        for (_, plane, block) in used {
            self.restore_block(block, self.flash.array().is_full(block));
            self.flash.space_mut().look_at(plane);
        }
    }

    /// A block with pages goes on being written, or is closed.
    fn restore_block(&mut self, block: Block, full: bool) {
        let first = self.flash.array().nth_strict(block, 0).unwrap_or(self.flash.geometry().ppn(block, 0));
        let group = GroupId::from_number(self.flash.array().stream(first));
        let doomed = self.flash.array().is_doomed(block);
        let (space, media) = self.flash.space_and_media();
        let full = !space.found_cached(group, block) || full;
        let dedicated = match group {
            GroupId::Dedicated(number) if space.dedicated().is_some() => {
                space.found_block(number, block);
                true
            }
            _ => false,
        };
        if doomed {
            space.blocks_mut().close(block, 0);
            self.collect.note_doomed(block, self.flash);
        } else if !dedicated {
            let lasts = matches!(group, GroupId::Dedicated(_)) || full;
            if lasts || !space.resume(group, block, media) {
                space.blocks_mut().close(block, 0);
            }
        }
    }

    /// The newest copy of each translation page and all log pages are live.
    fn restore_system_pages(&mut self, system: &[System], live: &mut BTreeSet<Ppn>) {
        let mut newest: BTreeMap<(u8, u32), (u64, Ppn)> = BTreeMap::new();
        for &System { kind, number, version, ppn } in system {
            let entry = newest.entry((kind as u8, number)).or_insert((version, ppn));
            if version > entry.0 {
                *entry = (version, ppn);
            }
        }
        for ((kind, number), (_, ppn)) in newest {
            if kind == PageUse::Meta as u8 {
                self.durability.log.add_page(number, ppn);
                live.insert(ppn);
            } else if let Some(cache) = self.flash.map_mut().cache_mut() {
                cache.set_location(number, ppn);
                live.insert(ppn);
            }
        }
    }

    /// Translation pages in flash that lag behind the map are dirty in RAM again.
    fn restore_map_cache(&mut self, p: &mut Progress) {
        for (_, ppn) in self.flash.map().translation_pages() {
            p.report.map_reads += 1;
            p.page(self.flash, ppn);
        }
        for page in 0..self.flash.map().map_pages() {
            let entries = self.flash.map().entries(page, self.flash.array());
            let stored = self.flash.map().location(page).and_then(|ppn| self.flash.array().note(ppn));
            let same = match stored {
                Some(note) => *note == *entries,
                None => entries.iter().all(|&byte| byte == 0),
            };
            if !same && let Some(cache) = self.flash.map_mut().cache_mut() {
                cache.touch(page, true);
            }
        }
    }
}

/// The fragments that a page's out-of-band area describes.
fn fragments_of(array: &Array, ppn: Ppn, spp: u32, out: &mut SmallVec<[(u32, Fragment); 2]>) {
    array.oob(ppn).extents.each(spp, |e| {
        let (mut lsn, mut at, mut left) = (e.lsn, u32::from(e.at), u32::from(e.sectors));
        while left > 0 {
            let (lpn, start) = ((lsn / u64::from(spp)) as u32, (lsn % u64::from(spp)) as u32);
            let len = left.min(spp - start);
            let shift = (at as i32 - start as i32) as i8;
            let mask = run_mask(start, len);
            match out.iter_mut().find(|(l, f)| *l == lpn && f.shift == shift) {
                Some((_, f)) => f.mask |= mask,
                None => out.push((lpn, Fragment { mask, ppn, shift })),
            }
            lsn += u64::from(len);
            at += len;
            left -= len;
        }
    });
}

/// Joins fragments of the same physical page and shift.
fn merge_same_place(list: SmallVec<[Fragment; 2]>) -> SmallVec<[Fragment; 2]> {
    let mut out: SmallVec<[Fragment; 2]> = SmallVec::new();
    for f in list {
        match out.iter_mut().find(|g| g.ppn == f.ppn && g.shift == f.shift) {
            Some(g) => g.mask |= f.mask,
            None => out.push(f),
        }
    }
    out
}
