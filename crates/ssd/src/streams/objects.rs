//! FlashAlloc's books: which ranges are whose, and which blocks.
//!
//! An *instance* is what a call makes: its ranges, and how many pages it may still write. Its pages
//! lie in a *home*: dedicated blocks, with the place of the next write. A home has one instance; only
//! with `streams.share_tiny` it has several, and then they end one by one.
//!
//! The common miss, a write that belongs to no instance, is one bit a logical page. Everything else is
//! the control plane: ordered maps and lists, whose cost nobody sees.

use std::collections::{BTreeMap, VecDeque};

use nandle_nand::{Array, Block, Geometry, Ppn};
use smallvec::SmallVec;

use crate::log::ObjectRecord;

/// Most homes at a time: what an out-of-band stream number can tell apart.
const MOST_HOMES: usize = 0x7000;

#[derive(Clone, Debug)]
pub(crate) struct Instance {
    /// Its name in the metadata log; 0 = a free place in the table.
    pub born: u64,
    pub home: u16,
    /// What is left of its ranges, as (first sector, end).
    pub ranges: SmallVec<[(u64, u64); 1]>,
    /// Pages that it may still write.
    pub left: u64,
    /// Blocks that its home was given for it.
    pub blocks: u32,
    /// Pages that may be held at the cost of other data, at worst.
    pub burden: u64,
    /// Begun by the drive itself.
    pub auto: bool,
}

/// Blocks of one object (or of several tiny ones).
#[derive(Clone, Debug, Default)]
pub(crate) struct Home {
    /// Every block that was written for it and is not erased.
    pub blocks: Vec<Block>,
    /// Blocks that take the next pages, in turn.
    lanes: VecDeque<Block>,
    /// Blocks without a page, for when the lanes are full.
    clean: VecDeque<Block>,
    /// Blocks that it may still take (`streams.on_demand`).
    owed: u32,
    /// Live instances in it.
    pub instances: u32,
    /// The drive began its object by itself.
    pub guessed: bool,
    /// Takes further tiny objects of this stream id.
    class: Option<u16>,
    /// Pages left in lanes and clean blocks that no instance has a claim on.
    unclaimed: u64,
    /// Where collection puts survivors, one open block a plane.
    survivors: SmallVec<[Block; 1]>,
}

/// Instances and homes.
#[derive(Clone, Debug)]
pub(crate) struct Objects {
    /// Bit per logical page: a live instance has a part of it.
    flags: Vec<u64>,
    /// First sector -> (end, instance).
    ranges: BTreeMap<u64, (u64, u32)>,
    pub instances: Vec<Instance>,
    free_instances: Vec<u32>,
    pub live: u32,
    homes: Vec<Home>,
    free_homes: Vec<u16>,
    /// Open homes for tiny objects, by stream id.
    shared: BTreeMap<u16, u16>,
    /// Objects begun by the drive, oldest first.
    auto: VecDeque<(u32, u64)>,
    /// Pages that all live instances may hold at the cost of other data.
    burden: u64,
    pages_per_block: u64,
    sectors_per_page: u64,
    width: usize,
    /// Records of objects are, or were, in the log.
    recorded: bool,
    /// At power-on: records before this one say nothing.
    since: u64,
}

impl Objects {
    pub fn new(geometry: &Geometry, logical_pages: u32) -> Self {
        Self {
            flags: vec![0; (logical_pages as usize).div_ceil(64)],
            ranges: BTreeMap::new(),
            instances: Vec::new(),
            free_instances: Vec::new(),
            live: 0,
            homes: Vec::new(),
            free_homes: Vec::new(),
            shared: BTreeMap::new(),
            auto: VecDeque::new(),
            burden: 0,
            pages_per_block: u64::from(geometry.pages_per_block),
            sectors_per_page: u64::from(geometry.sectors_per_page()),
            width: geometry.planes() as usize,
            recorded: false,
            since: 0,
        }
    }

    // ---- whose is a page ------------------------------------------------------------------------

    /// Whether a live instance has a part of `lpn`.
    #[inline]
    pub fn is_flagged(&self, lpn: u32) -> bool {
        self.flags[lpn as usize / 64] >> (lpn % 64) & 1 == 1
    }

    /// The instance that `lpn` belongs to: of those that have a part of it, the first in the page.
    pub fn find(&self, lpn: u32) -> Option<u32> {
        let (from, to) =
            (u64::from(lpn) * self.sectors_per_page, (u64::from(lpn) + 1) * self.sectors_per_page);
        let before = self.ranges.range(..=from).next_back().filter(|(_, (end, _))| *end > from);
        let (_, &(_, instance)) = before.or_else(|| self.ranges.range(from..to).next())?;
        Some(instance)
    }

    /// Live instances that have sectors in a range, each once.
    pub fn overlapping(&self, start: u64, end: u64) -> SmallVec<[u32; 4]> {
        let mut out: SmallVec<[u32; 4]> = SmallVec::new();
        let first = self.ranges.range(..=start).next_back().filter(|(_, (e, _))| *e > start);
        let rest = self.ranges.range(start + 1..end.max(start + 1));
        for (_, &(_, instance)) in first.into_iter().chain(rest) {
            if !out.contains(&instance) {
                out.push(instance);
            }
        }
        out
    }

    fn pages(&self, start: u64, end: u64) -> std::ops::Range<u64> {
        start / self.sectors_per_page..end.div_ceil(self.sectors_per_page)
    }

    fn flag(&mut self, start: u64, end: u64, set: bool) {
        let pages = self.pages(start, end);
        for lpn in pages.clone() {
            let (word, bit) = (lpn as usize / 64, 1 << (lpn % 64));
            if set {
                self.flags[word] |= bit;
            } else {
                self.flags[word] &= !bit;
            }
        }
        if !set {
            // The pages at its ends may have another owner, who keeps them.
            for lpn in [pages.start, pages.end - 1] {
                if self.find(lpn as u32).is_some() {
                    self.flags[lpn as usize / 64] |= 1 << (lpn % 64);
                }
            }
        }
    }

    // ---- the life of an instance ----------------------------------------------------------------

    /// A home of blocks that are clean; none if all numbers are taken.
    pub fn new_home(&mut self, blocks: Vec<Block>, owed: u32, class: Option<u16>) -> Option<u16> {
        let number = match self.free_homes.pop() {
            Some(number) => number,
            None if self.homes.len() < MOST_HOMES => {
                self.homes.push(Home::default());
                (self.homes.len() - 1) as u16
            }
            None => return None,
        };
        let unclaimed = (blocks.len() as u64 + u64::from(owed)) * self.pages_per_block;
        self.homes[usize::from(number)] = Home {
            clean: blocks.iter().copied().collect(),
            blocks,
            owed,
            class,
            unclaimed,
            ..Home::default()
        };
        if let Some(class) = class {
            self.shared.insert(class, number);
        }
        Some(number)
    }

    /// Blocks with room of objects that are being written. One that has taken as many pages as its ranges
    /// have is complete, as a rule: the rest of its last block will not be written.
    pub fn unfinished_blocks(&self) -> impl Iterator<Item = Block> + '_ {
        let mut writing = vec![false; self.homes.len()];
        for i in self.instances.iter().filter(|i| i.born > 0) {
            let named: u64 = i.ranges.iter().map(|(first, end)| end - first).sum();
            let written =
                i.left + named.div_ceil(self.sectors_per_page) <= u64::from(i.blocks) * self.pages_per_block;
            writing[usize::from(i.home)] |= !written;
        }
        let homes = self.homes.iter().zip(writing).filter_map(|(home, writing)| writing.then_some(home));
        homes.flat_map(|home| home.lanes.iter().chain(&home.clean).copied())
    }

    /// Whether another home can be made.
    pub fn has_home(&self) -> bool {
        !self.free_homes.is_empty() || self.homes.len() < MOST_HOMES
    }

    /// The open home for tiny objects of a stream id, if it has `pages` left.
    pub fn shared_home(&self, class: u16, pages: u64) -> Option<u16> {
        let &number = self.shared.get(&class)?;
        (self.homes[usize::from(number)].unclaimed >= pages).then_some(number)
    }

    /// No more tiny objects for this home; true if nothing keeps it open then.
    pub fn seal(&mut self, class: u16) -> Option<u16> {
        let number = self.shared.remove(&class)?;
        let home = &mut self.homes[usize::from(number)];
        home.class = None;
        (home.instances == 0).then_some(number)
    }

    pub fn home(&self, number: u16) -> &Home {
        &self.homes[usize::from(number)]
    }

    /// Makes an instance; its ranges belong to nobody.
    pub fn begin(&mut self, instance: Instance) -> u32 {
        let home = &mut self.homes[usize::from(instance.home)];
        home.instances += 1;
        home.guessed = instance.auto && home.class.is_none();
        home.unclaimed = home.unclaimed.saturating_sub(instance.left);
        self.burden += instance.burden;
        self.recorded = true;
        self.live += 1;
        let slot = self.place(instance);
        if self.instances[slot as usize].auto {
            self.auto.push_back((slot, self.instances[slot as usize].born));
        }
        slot
    }

    fn place(&mut self, instance: Instance) -> u32 {
        let slot = self.free_instances.pop().unwrap_or(self.instances.len() as u32);
        for &(start, end) in &instance.ranges {
            self.ranges.insert(start, (end, slot));
            self.flag(start, end, true);
        }
        match self.instances.get_mut(slot as usize) {
            Some(place) => *place = instance,
            None => self.instances.push(instance),
        }
        slot
    }

    /// The oldest object that the drive began by itself, if there are more than `most`.
    pub fn surplus_auto(&mut self, most: u32) -> Option<u32> {
        while let Some(&(slot, born)) = self.auto.front() {
            let live = self.instances[slot as usize].born == born;
            if live && self.auto.len() <= most as usize {
                return None;
            }
            self.auto.pop_front();
            if live {
                return Some(slot);
            }
        }
        None
    }

    /// The oldest instance that is live.
    pub fn oldest(&self) -> Option<u32> {
        let live = (0..).zip(&self.instances).filter(|(_, instance)| instance.born != 0);
        live.min_by_key(|(_, instance)| instance.born).map(|(slot, _)| slot)
    }

    /// Takes sectors out of whatever instances have them; those that have none left are returned.
    pub fn forget(&mut self, start: u64, end: u64) -> SmallVec<[u32; 4]> {
        let mut over = SmallVec::new();
        for slot in self.overlapping(start, end) {
            let ranges = std::mem::take(&mut self.instances[slot as usize].ranges);
            for (from, to) in ranges {
                if to <= start || from >= end {
                    self.instances[slot as usize].ranges.push((from, to));
                    continue;
                }
                self.ranges.remove(&from);
                for (from, to) in [(from, start), (end, to)] {
                    if from < to {
                        self.ranges.insert(from, (to, slot));
                        self.instances[slot as usize].ranges.push((from, to));
                    }
                }
                self.flag(from.max(start), to.min(end), false);
            }
            if self.instances[slot as usize].ranges.is_empty() {
                over.push(slot);
            }
        }
        over
    }

    /// Ends an instance; its home, if that is closed with it.
    pub fn end(&mut self, slot: u32) -> Option<u16> {
        for (start, end) in std::mem::take(&mut self.instances[slot as usize].ranges) {
            self.ranges.remove(&start);
            self.flag(start, end, false);
        }
        let instance = &mut self.instances[slot as usize];
        (instance.born, self.burden) = (0, self.burden - instance.burden);
        self.live -= 1;
        self.free_instances.push(slot);
        let home = &mut self.homes[usize::from(instance.home)];
        home.instances -= 1;
        (home.instances == 0 && home.class.is_none()).then_some(instance.home)
    }

    /// Pages that live instances may hold at the cost of other data, at worst.
    pub fn burden(&self) -> u64 {
        self.burden
    }

    // ---- pages ----------------------------------------------------------------------------------

    /// Whether `pages` pages can be had from `home`, if it may take a block when `block_is_free`.
    pub fn has_pages(&self, home: u16, pages: u64, block_is_free: bool, array: &Array) -> bool {
        let home = &self.homes[usize::from(home)];
        let begun = |&block| self.pages_per_block - u64::from(array.pages_programmed(block));
        let blocks = home.clean.len() as u64 + u64::from(home.owed > 0 && block_is_free);
        // As a rule one page is asked for, and a block that is begun has one.
        home.lanes.len() as u64 >= pages
            || home.lanes.iter().map(begun).sum::<u64>() + blocks * self.pages_per_block >= pages
    }

    /// Whether the next page of `home` takes a block that it does not have yet.
    pub fn wants_block(&self, home: u16, array: &Array) -> bool {
        let home = &self.homes[usize::from(home)];
        // A block that was just taken is used first.
        let fresh = home.lanes.front().is_some_and(|&block| array.pages_programmed(block) == 0);
        home.owed > 0 && home.clean.is_empty() && home.lanes.len() < self.width && !fresh
    }

    /// `home` gets a block that it was owed.
    pub fn add_owed(&mut self, home: u16, block: Block) {
        let home = &mut self.homes[usize::from(home)];
        home.owed -= 1;
        home.blocks.push(block);
        home.lanes.push_front(block);
    }

    /// The block of the next page of `home`.
    pub fn next_block(&mut self, home: u16) -> Option<Block> {
        let home = &mut self.homes[usize::from(home)];
        if home.lanes.is_empty() {
            let count = self.width.min(home.clean.len());
            home.lanes.extend(home.clean.drain(..count));
        }
        home.lanes.front().copied()
    }

    /// Takes the next page of instance `slot`.
    pub fn take(&mut self, slot: u32, array: &Array) -> Option<Ppn> {
        let home = self.instances[slot as usize].home;
        let block = self.next_block(home)?;
        let ppn = array.next_strict(block)?;
        let home = &mut self.homes[usize::from(home)];
        home.lanes.pop_front();
        if u64::from(array.pages_programmed(block)) + 1 < self.pages_per_block {
            home.lanes.push_back(block);
        }
        self.instances[slot as usize].left -= 1;
        Some(ppn)
    }

    /// Blocks of a closed home that were never written: it has them no longer.
    pub fn strip(&mut self, number: u16, array: &Array) -> Vec<Block> {
        let home = &mut self.homes[usize::from(number)];
        home.owed = 0;
        home.lanes.clear();
        home.clean.clear();
        let (unwritten, written) = std::mem::take(&mut home.blocks)
            .into_iter()
            .partition(|&block| array.pages_programmed(block) == 0);
        home.blocks = written;
        self.free_if_empty(number);
        unwritten
    }

    /// No further page of `block` is taken.
    pub fn avoid(&mut self, number: u16, block: Block) {
        let home = &mut self.homes[usize::from(number)];
        home.lanes.retain(|&b| b != block);
        home.survivors.retain(|b| *b != block);
    }

    /// A block of `home` was erased.
    pub fn released(&mut self, number: u16, block: Block) {
        let home = &mut self.homes[usize::from(number)];
        home.blocks.retain(|&b| b != block);
        home.survivors.retain(|b| *b != block);
        self.free_if_empty(number);
    }

    fn free_if_empty(&mut self, number: u16) {
        let home = &self.homes[usize::from(number)];
        if home.blocks.is_empty() && home.instances == 0 && home.class.is_none() {
            self.free_homes.push(number);
        }
    }

    /// Whether instances still write to `home`, so that its blocks stay open.
    pub fn is_open(&self, number: u16) -> bool {
        let home = &self.homes[usize::from(number)];
        home.instances > 0 || home.class.is_some()
    }

    // ---- survivors ------------------------------------------------------------------------------

    /// The open block for survivors of `home` in a plane.
    pub fn survivor_block(&self, number: u16, plane: u32, array: &Array) -> Option<Block> {
        let home = &self.homes[usize::from(number)];
        home.survivors.iter().copied().find(|&block| array.geometry().plane_of(block) == plane)
    }
    pub fn open_survivors(&mut self, number: u16, block: Block) {
        let home = &mut self.homes[usize::from(number)];
        home.survivors.push(block);
        home.blocks.push(block);
    }
    pub fn close_survivors(&mut self, number: u16, block: Block) {
        self.homes[usize::from(number)].survivors.retain(|b| *b != block);
    }
    /// All closed homes that have blocks.
    pub fn closed_homes(&self) -> impl Iterator<Item = (u16, &Home)> {
        self.homes
            .iter()
            .enumerate()
            .filter(|(_, home)| home.instances == 0 && home.class.is_none() && !home.blocks.is_empty())
            .map(|(number, home)| (number as u16, home))
    }

    // ---- the metadata log -----------------------------------------------------------------------

    fn each_live(&self) -> impl Iterator<Item = &Instance> {
        self.instances.iter().filter(|i| i.born != 0)
    }

    /// The records that make an instance known.
    pub fn records_of(&self, slot: u32) -> impl Iterator<Item = ObjectRecord> + '_ {
        let &Instance { home, blocks, born, ref ranges, .. } = &self.instances[slot as usize];
        let range = move |&(lsn, end): &(u64, u64)| ObjectRecord::Range {
            lsn,
            sectors: end - lsn,
            home,
            blocks,
            born,
        };
        ranges.iter().map(range)
    }

    pub fn record_count(&self) -> usize {
        if self.recorded { 1 + self.ranges.len() } else { 0 }
    }

    /// All live instances under new names.
    pub fn records_anew(&mut self, array: &mut Array) -> Vec<ObjectRecord> {
        if !self.recorded {
            return vec![];
        }
        let (instances, ranges) = (u64::from(self.live), self.ranges.len() as u64);
        let mut out = vec![ObjectRecord::Anew { seq: array.take_seq(), instances, ranges }];
        for slot in 0..self.instances.len() as u32 {
            let old = self.instances[slot as usize].born;
            if old != 0 {
                let born = array.take_seq();
                self.instances[slot as usize].born = born;
                self.auto.iter_mut().filter(|(s, b)| (*s, *b) == (slot, old)).for_each(|(_, b)| *b = born);
                out.extend(self.records_of(slot));
            }
        }
        out
    }

    /// At power-on: finds the newest complete set of names; older records are not listened to.
    pub fn expect(&mut self, records: &[ObjectRecord]) {
        self.recorded |= !records.is_empty();
        for record in records {
            let &ObjectRecord::Anew { seq, instances, ranges } = record else { continue };
            let mut found: Vec<(u64, u64)> = records
                .iter()
                .filter_map(|r| match *r {
                    ObjectRecord::Range { lsn, born, .. } if (seq + 1..=seq + instances).contains(&born) => {
                        Some((born, lsn))
                    }
                    _ => None,
                })
                .collect();
            found.sort_unstable();
            found.dedup();
            if found.len() as u64 == ranges {
                self.since = self.since.max(seq);
            }
        }
    }

    /// At power-on: a record, in the order of their sequence numbers.
    pub fn learn(&mut self, record: &ObjectRecord) {
        match *record {
            ObjectRecord::Range { lsn, sectors, home, blocks, born } if born > self.since => {
                // The newest record of a range is the true one.
                for slot in self.forget(lsn, lsn + sectors) {
                    if self.instances[slot as usize].born != born {
                        self.unlearn(slot);
                    }
                }
                let range = (lsn, lsn + sectors);
                match self.instances.iter().rposition(|i| i.born == born) {
                    Some(slot) => {
                        self.instances[slot].ranges.push(range);
                        self.ranges.insert(lsn, (range.1, slot as u32));
                        self.flag(range.0, range.1, true);
                    }
                    None => {
                        let ranges = smallvec::smallvec![range];
                        self.place(Instance { born, home, ranges, left: 0, blocks, burden: 0, auto: false });
                    }
                }
            }
            ObjectRecord::End { born, seq } if seq > self.since => {
                if let Some(slot) = self.instances.iter().rposition(|i| i.born == born) {
                    self.unlearn(slot as u32);
                }
            }
            _ => {}
        }
    }

    fn unlearn(&mut self, slot: u32) {
        for (start, end) in std::mem::take(&mut self.instances[slot as usize].ranges) {
            self.ranges.remove(&start);
            self.flag(start, end, false);
        }
        self.instances[slot as usize].born = 0;
        self.free_instances.push(slot);
    }

    /// At power-on: `block` was written for `home`.
    pub fn found_block(&mut self, number: u16, block: Block) {
        let wanted = usize::from(number) + 1;
        if self.homes.len() < wanted {
            self.homes.resize(wanted, Home::default());
        }
        self.homes[usize::from(number)].blocks.push(block);
    }

    /// At power-on, when all blocks are known: instances without sectors are over, the others wait
    /// to be [`Objects::resume`]d.
    pub fn learned(&mut self) -> Vec<u32> {
        let mut live = vec![];
        for slot in 0..self.instances.len() as u32 {
            if self.instances[slot as usize].born == 0 {
                continue;
            }
            if self.instances[slot as usize].ranges.is_empty() {
                self.unlearn(slot);
                continue;
            }
            let number = self.instances[slot as usize].home;
            if self.homes.len() <= usize::from(number) {
                self.homes.resize(usize::from(number) + 1, Home::default());
            }
            self.homes[usize::from(number)].instances += 1;
            self.live += 1;
            live.push(slot);
        }
        self.free_homes = (0..self.homes.len() as u16)
            .rev()
            .filter(|&n| {
                self.homes[usize::from(n)].blocks.is_empty() && self.homes[usize::from(n)].instances == 0
            })
            .collect();
        live
    }

    /// At power-on: an instance goes on with `left` pages in the lanes that are not full and in
    /// `clean` blocks.
    pub fn resume(&mut self, slot: u32, left: u64, burden: u64, clean: Vec<Block>, owed: u32, array: &Array) {
        let number = self.instances[slot as usize].home;
        let home = &mut self.homes[usize::from(number)];
        if home.lanes.is_empty() {
            let pages = self.pages_per_block;
            let open = home.blocks.iter().filter(|&&b| u64::from(array.pages_programmed(b)) < pages);
            home.lanes = open.copied().collect();
        }
        home.blocks.extend(&clean);
        home.clean.extend(clean);
        home.owed += owed;
        let instance = &mut self.instances[slot as usize];
        (instance.left, instance.burden) = (left, burden);
        self.burden += burden;
    }

    /// Checks the books against each other; for tests.
    pub fn check(&self) {
        let mut sum = 0;
        for (slot, instance) in self.instances.iter().enumerate().filter(|(_, i)| i.born != 0) {
            assert!(!instance.ranges.is_empty(), "a live instance without sectors");
            for &(start, end) in &instance.ranges {
                assert_eq!(self.ranges.get(&start), Some(&(end, slot as u32)));
                assert!(self.pages(start, end).all(|lpn| self.is_flagged(lpn as u32)));
                sum += 1;
            }
        }
        assert_eq!(sum, self.ranges.len(), "a range without an instance");
        let mut last = 0;
        for (&start, &(end, _)) in &self.ranges {
            assert!(start >= last && end > start, "ranges overlap");
            last = end;
        }
        assert_eq!(self.each_live().count() as u32, self.live);
        for lpn in (0..self.flags.len() as u32 * 64).filter(|&lpn| self.is_flagged(lpn)) {
            assert!(self.find(lpn).is_some(), "page {lpn} is flagged for nobody");
        }
    }
}
