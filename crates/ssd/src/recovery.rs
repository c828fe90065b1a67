//! Power-on after a cut: everything is rebuilt from what the flash says of itself.
//!
//! | step | what |
//! | --- | --- |
//! | probe | first and last page of each block: its role, when it was begun and finished; undefined blocks are erased |
//! | scan | the out-of-band areas of blocks, the newest first, back to where the newest checkpoint begins |
//! | base | the map as the checkpoint's pages have it, each as of its own sequence number |
//! | replay | extents and trims in the order of their sequence numbers: the newest wins |
//! | blocks | erased, half-written, full or undefined; half-written ones go on being written |
//! | areas, regions | what lies away from home says which areas there are and which regions need sub-pages |
//! | log | live log pages are kept, translation pages are compared with the map |
//! | erase | full blocks without live data are erased |
//!
//! Without a complete checkpoint every block is scanned and the base is empty.

use std::collections::{BTreeMap, BTreeSet};

use nandle_nand::{Array, Block, BlockCondition, Extents, PageUse, Ppn, Silicon, Time};
use serde::Serialize;
use smallvec::SmallVec;

use crate::allocation::Role;
use crate::blocks::State;
use crate::checkpoint::Slice;
use crate::flash::Flash;
use crate::fragments::{Fragment, run_mask};
use crate::log::{ObjectRecord, Record, read_page};
use crate::map_cache::MapCache;

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
pub(crate) enum Look {
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
pub(crate) struct Progress {
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
    /// Number of the stretch of each key, 0 = none; and their sequence numbers.
    stretch: Vec<u32>,
    seqs: Vec<u64>,
}

impl Base {
    fn seq(&self, key: u32) -> u64 {
        if self.seqs.len() == 1 { 0 } else { self.seqs[self.stretch[key as usize] as usize] }
    }
}

impl Progress {
    fn new(flash: &Flash, erases_left: Option<u32>) -> Self {
        let g = flash.geometry();
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
        let die = g.die_of_plane(g.plane_of(g.block_of(ppn)));
        let timing = flash.nand.timing();
        let page = timing.transfer(g, g.sectors_per_page());
        let bus = timing.command_ns + page * u64::from(bytes) / u64::from(g.page_bytes);
        self.load.dies[die as usize] += timing.read(flash.array().page_type(ppn)) + bus;
        self.load.channels[g.channel_of_die(die) as usize] += bus;
    }

    fn oob(&mut self, flash: &Flash, ppn: Ppn) {
        self.report.oob_reads += 1;
        self.read(flash, ppn, flash.geometry().oob_bytes.max(1));
    }

    fn page(&mut self, flash: &Flash, ppn: Ppn) {
        self.read(flash, ppn, flash.geometry().page_bytes);
    }

    fn erase(&mut self, flash: &Flash, block: Block) {
        let g = flash.geometry();
        let die = g.die_of_plane(g.plane_of(block));
        self.load.dies[die as usize] += flash.nand.timing().erase_ns;
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

impl Flash {
    /// Rebuilds map, blocks and log from the array. With `erases`, the power goes again during the
    /// erase behind so many: then there is no report, and no drive to go on with.
    pub(crate) fn recover(&mut self, look: Look, erases: Option<u32>) -> Option<RecoveryReport> {
        let mut progress = Progress::new(self, erases);
        let p = &mut progress;
        let order = self.probe(p);
        let mut scan = if p.cut { Scan::default() } else { self.scan(&order, look, p) };
        if p.cut {
            return None;
        }
        let base = self.load_base(&mut scan, p);
        scan.found.sort_by_key(|&(seq, _)| seq);
        let objects: Vec<ObjectRecord> = scan
            .found
            .iter()
            .filter_map(|(_, found)| match found {
                Found::Record(Record::Object(record)) => Some(*record),
                _ => None,
            })
            .collect();
        self.streams.expect(&objects);
        self.replay(&scan.found, &base);
        self.count_lists(&scan, p);
        p.step();
        p.report.map = self.map_digest();
        self.restore_blocks(&scan.system);
        self.restore_areas();
        self.restore_regions();
        self.resume_objects();
        self.restore_map_cache(p);
        p.step();
        self.erase_dead_blocks(p);
        p.step();
        (!progress.cut).then_some(progress.report)
    }

    /// Erases a block at once; false if it is bad now.
    fn erase_now(&mut self, block: Block, p: &mut Progress) -> bool {
        p.erase(self, block);
        if let Some(left) = &mut p.erases_left {
            if *left == 0 {
                p.cut = true;
                self.nand.array_mut().interrupt_erase(block);
                return false;
            }
            *left -= 1;
        }
        let doomed = self.array().is_doomed(block);
        self.nand.array_mut().erase(block);
        if doomed {
            self.nand.array_mut().set_bad(block);
        }
        !doomed
    }

    /// Blocks without live data are erased at once: everything that supersedes them is on flash.
    fn erase_dead_blocks(&mut self, p: &mut Progress) {
        let dead: Vec<Block> = self
            .blocks
            .each()
            .filter(|&(block, state)| state == State::Closed && self.blocks.valid(block) == 0)
            .map(|(block, _)| block)
            .collect();
        for block in dead {
            self.blocks.condemn(block);
            self.blocks.set_erasing(block);
            let good = self.erase_now(block, p);
            if p.cut {
                return;
            }
            let erases = self.array().erases(block);
            if let Some(home) = self.blocks.object(block) {
                self.blocks.forget_emptied(block);
                self.object_erased(home, block, true);
            }
            if good {
                self.blocks.put_free(block, erases);
            } else {
                self.blocks.retire(block);
            }
        }
    }

    /// Looks at the first and the last page of each block: the blocks with pages, and the largest
    /// sequence number that each may have, largest first. Undefined blocks are erased.
    fn probe(&mut self, p: &mut Progress) -> Vec<(u64, Block)> {
        let mut order = vec![];
        let blocks: Vec<Block> =
            (0..self.geometry().planes()).flat_map(|p| self.geometry().blocks_of(p)).collect();
        let last = self.array().cell().strict_page(self.geometry().pages_per_block - 1);
        for block in blocks {
            if self.array().condition(block) == BlockCondition::Bad {
                continue;
            }
            p.report.blocks += 1;
            p.oob(self, self.geometry().ppn(block, 0));
            if self.array().condition(block) == BlockCondition::Undefined {
                self.erase_now(block, p);
                if p.cut {
                    return order;
                }
                continue;
            }
            if self.array().pages_programmed(block) == 0 {
                continue;
            }
            let ppn = self.geometry().ppn(block, last);
            p.oob(self, ppn);
            // Half-written: nothing is known of its newest page yet.
            let full = self.array().page_use(ppn) != PageUse::Erased;
            order.push((if full { self.array().seq(ppn) } else { u64::MAX }, block));
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
            self.checkpoint.start_after(number);
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
        for page in 0..self.geometry().pages_per_block {
            let ppn = self.geometry().ppn(block, page);
            let array = self.nand.array();
            let kind = array.page_use(ppn);
            if kind == PageUse::Erased {
                continue;
            }
            p.oob(self, ppn);
            let version = array.version(ppn);
            match kind {
                PageUse::Data | PageUse::Area => scan.found.push((version, Found::Data(ppn))),
                PageUse::Map | PageUse::Meta | PageUse::Checkpoint => {
                    let Extents::Home { lpn: number, .. } = array.oob(ppn).extents else { continue };
                    if kind == PageUse::Meta {
                        self.read_log(ppn, &mut scan.found, p);
                    }
                    if kind == PageUse::Checkpoint {
                        p.report.checkpoint_reads += 1;
                        p.page(self, ppn);
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
        p.page(self, ppn);
        let note = self.nand.array().note(ppn).map_or(&[][..], |note| note);
        read_page(note, |record| found.push((record.seq(), Found::Record(record))));
    }

    /// The map as the checkpoint has it. Pages that are gone by now are left out: what superseded them
    /// will be replayed.
    fn load_base(&mut self, scan: &mut Scan, p: &mut Progress) -> Base {
        let keys = self.checkpoint_keys();
        let mut base = Base { stretch: vec![], seqs: vec![0] };
        let slices = std::mem::take(&mut scan.slices);
        if slices.is_empty() {
            return base;
        }
        base.stretch = vec![0; keys as usize];
        let logical = self.fragments.len();
        let mut system: Vec<System> = vec![];
        // The log's pages by the newest list of which all parts are there.
        let (mut log, mut parts) = (vec![], (0, vec![]));
        for (_, slice) in slices.values() {
            let header = slice.header;
            base.seqs.push(header.seq);
            let number = base.seqs.len() as u32 - 1;
            let array = self.nand.array();
            let there = |ppn: Ppn, kind: PageUse| {
                let found = array.page_use(ppn);
                (found == kind || found.is_data() && kind.is_data())
                    && array.seq_of_block(array.geometry().block_of(ppn)) <= header.seq
            };
            let mut entries = vec![];
            slice.entries(|key, list| entries.push((key, list)));
            for (key, list) in entries {
                if key >= keys {
                    continue; // another configuration wrote it
                }
                base.stretch[key as usize] = number;
                if key >= logical {
                    let (number, kind) = (key - logical, PageUse::Map);
                    system.retain(|s| s.kind != kind || s.number != number);
                    for f in list.iter().filter(|f| there(f.ppn, kind)) {
                        system.push(System { kind, number, version: header.seq, ppn: f.ppn });
                    }
                    continue;
                }
                let array = self.nand.array();
                let list: SmallVec<[Fragment; 2]> = list
                    .into_iter()
                    .filter(|f| there(f.ppn, PageUse::Data))
                    .map(|f| match f.mask {
                        0 => Fragment { mask: crate::fragments::home_mask(array, f.ppn, key, self.spp), ..f },
                        _ => f,
                    })
                    .filter(|f| f.mask != 0)
                    .collect();
                self.fragments.set(key, list, self.nand.array());
            }
            if header.parts > 0 {
                let pages = slice.log_pages().filter(|&(number, ppn)| {
                    let here = Extents::Home { lpn: number, start: 0, len: self.spp as u8 };
                    there(ppn, PageUse::Meta) && self.nand.array().oob(ppn).extents == here
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
            system.push(System { kind: PageUse::Meta, number, version: self.array().version(ppn), ppn });
            if !scan.scanned.contains(&self.geometry().block_of(ppn)) {
                self.read_log(ppn, &mut scan.found, p);
            }
        }
        // What was scanned of translation pages is newer than the base, or in it.
        scan.system.retain(|s| s.kind != PageUse::Map || s.version > base.seq(logical + s.number));
        scan.system.extend(system);
        let ring: Vec<(u32, Ppn, Slice)> =
            slices.into_iter().map(|(number, (ppn, slice))| (number, ppn, slice)).collect();
        self.checkpoint.resume(&ring, keys);
        p.step();
        base
    }

    fn replay(&mut self, found: &[(u64, Found)], base: &Base) {
        for &(seq, ref found) in found {
            match found {
                Found::Data(ppn) => {
                    let mut parts: SmallVec<[(u32, Fragment); 2]> = SmallVec::new();
                    fragments_of(self.nand.array(), *ppn, self.spp, &mut parts);
                    for &(lpn, fragment) in &parts {
                        // A page larger than the device: another configuration wrote it.
                        if lpn < self.fragments.len() && seq > base.seq(lpn) {
                            self.restore(lpn, fragment.mask, Some(fragment));
                        }
                    }
                }
                Found::Record(Record::Object(record)) => self.streams.learn(record),
                Found::Record(Record::Trim(record)) => {
                    self.log.learn(*record);
                    self.streams.forget(record.lsn, record.sectors);
                    let spp = u64::from(self.spp);
                    let end = record.lsn + record.sectors;
                    for lpn in record.lsn / spp..end.div_ceil(spp).min(u64::from(self.fragments.len())) {
                        if seq > base.seq(lpn as u32) && !self.fragments.is_unmapped(lpn as u32) {
                            let from = record.lsn.max(lpn * spp) - lpn * spp;
                            let to = end.min((lpn + 1) * spp) - lpn * spp;
                            self.restore(lpn as u32, run_mask(from as u32, (to - from) as u32), None);
                        }
                    }
                }
            }
        }
    }

    /// A hash of where every sector lies, whatever the order of a logical page's fragments.
    fn map_digest(&self) -> u64 {
        let mut hash = 0_u64;
        for lpn in (0..self.fragments.len()).filter(|&lpn| !self.fragments.is_unmapped(lpn)) {
            let list = self.fragments.get(lpn, self.nand.array());
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
        if self.fragments.lists_in_use() == 0 {
            return;
        }
        let mut seen = BTreeSet::new();
        for lpn in (0..self.fragments.len()).filter(|&lpn| self.fragments.single(lpn).is_none()) {
            for f in self.fragments.get(lpn, self.nand.array()) {
                if !scan.scanned.contains(&self.geometry().block_of(f.ppn)) && seen.insert(f.ppn) {
                    p.oob(self, f.ppn);
                }
            }
        }
    }

    /// The sectors `mask` of `lpn` now lie in `fragment`, or nowhere. Fragments of the same page
    /// come one by one; the last one sees all of them.
    fn restore(&mut self, lpn: u32, mask: u64, fragment: Option<Fragment>) {
        let mut list: SmallVec<[Fragment; 2]> = fragment.into_iter().collect();
        for f in self.fragments.get(lpn, self.nand.array()) {
            if f.mask & !mask != 0 {
                list.push(Fragment { mask: f.mask & !mask, ..f });
            }
        }
        self.fragments.set(lpn, merge_same_place(list), self.nand.array());
    }

    fn restore_blocks(&mut self, system: &[System]) {
        let ppb = self.geometry().pages_per_block;
        // Live bits are set while the blocks are still open, then full ones are closed.
        let mut used = vec![];
        for plane in 0..self.geometry().planes() {
            for block in self.geometry().blocks_of(plane) {
                if self.array().condition(block) == BlockCondition::Bad {
                    continue;
                }
                let pages = self.array().pages_programmed(block);
                if pages == 0 {
                    let erases = self.array().erases(block);
                    self.blocks.put_free(block, erases);
                } else {
                    self.blocks.put_used(block, State::Open, 0);
                    used.push((self.array().seq_of_block(block), plane, block, pages));
                }
            }
        }
        let mut live = BTreeSet::new();
        for lpn in 0..self.fragments.len() {
            for f in self.fragments.get(lpn, self.nand.array()) {
                live.insert(f.ppn);
            }
        }
        self.restore_system_pages(system, &mut live);
        live.extend(self.checkpoint.pages());
        for ppn in live {
            self.blocks.set_live(ppn);
        }
        self.restore_extra();
        used.sort_unstable();
        for (_, plane, block, pages) in used {
            let first = self.geometry().ppn(block, self.array().cell().strict_page(0));
            let role = Role::from_number(self.array().oob(first).stream);
            if self.array().is_doomed(block) {
                if let (Role::Object(home), true) = (role, self.streams.has_objects()) {
                    self.blocks.dedicate(block, home);
                    self.found_block(home, block);
                }
                self.blocks.close(block, 0);
                self.note_doomed(block);
            } else if let Role::Object(home) = role {
                if !self.streams.has_objects() {
                    self.blocks.close(block, 0);
                } else {
                    self.blocks.dedicate(block, home);
                    self.found_block(home, block);
                }
            } else if pages == ppb
                || !self.allocation.resume(plane, role, block, self.nand.array(), &mut self.blocks)
            {
                self.blocks.close(block, 0);
            }
            self.gc_look.push(plane);
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
                self.log.pages.push((number, ppn));
                self.log.next_page = self.log.next_page.max(number + 1);
                live.insert(ppn);
            } else if let MapCache::OnDemand(map) = &mut self.map {
                map.set_location(number, ppn);
                live.insert(ppn);
            }
        }
    }

    /// Translation pages in flash that lag behind the map are dirty in RAM again.
    fn restore_map_cache(&mut self, p: &mut Progress) {
        let MapCache::OnDemand(map) = &self.map else { return };
        for ppn in (0..map.map_pages()).filter_map(|page| map.location(page)) {
            p.report.map_reads += 1;
            p.page(self, ppn);
        }
        let MapCache::OnDemand(map) = &mut self.map else { return };
        for page in 0..map.map_pages() {
            let entries = self.table.entries(page, &self.fragments, self.nand.array(), &self.layout);
            let same = match map.location(page).and_then(|ppn| self.nand.array().note(ppn)) {
                Some(note) => **note == *entries,
                None => entries.iter().all(|&byte| byte == 0),
            };
            if !same {
                map.touch(page, true);
            }
        }
    }
}

impl crate::Ssd {
    /// As [`Ssd::power_on`](crate::Ssd::power_on), but as if no checkpoint had been written: the
    /// out-of-band area of every page is read.
    ///
    /// # Errors
    /// If the configuration does not stand.
    pub fn power_on_by_full_scan(
        config: &crate::DeviceConfig,
        silicon: Silicon,
        seed: u64,
    ) -> Result<Self, crate::ConfigError> {
        let ssd = Self::recovered(config, silicon, seed, Look::Everything, None)?;
        Ok(ssd.expect("the power stays"))
    }

    /// Powers a drive on and cuts the power again during the erase behind the first `erases` of its
    /// recovery; none if it has no more than that.
    ///
    /// # Errors
    /// If the configuration does not stand.
    pub fn interrupt_power_on(
        config: &crate::DeviceConfig,
        silicon: &Silicon,
        seed: u64,
        erases: u32,
    ) -> Result<Option<Silicon>, crate::ConfigError> {
        let layout = config.validate()?;
        let nand = nandle_nand::Nand::power_on(&config.nand(), silicon.clone());
        let mut flash = Flash::new(config, &layout, nand, seed);
        let report = flash.recover(Look::Checkpoint, Some(erases));
        Ok(report.is_none().then(|| flash.nand.cut_power(false)))
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
