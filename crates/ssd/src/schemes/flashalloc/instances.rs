//! FA instances: what a call makes, and when it ends.
//!
//! An instance is a claim on the space, with a name in the metadata log. Its pages lie in a dedicated
//! group; only with `streams.share_tiny` a group has several instances.

use std::collections::VecDeque;

use smallvec::SmallVec;

use super::super::Refusal;
use super::FlashAlloc;
use super::records::{end_record, range_records};
use crate::flash::{Flash, Record};
use crate::space::NewGroup;
use crate::space::claims::Claim;

/// What is known of an instance beside its claim.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Instance {
    /// Its name in the metadata log; 0 = a free place in the table.
    pub born: u64,
    /// Pages that may be held at the cost of other data, at worst.
    pub cost: u64,
    /// Made by the drive itself.
    pub auto: bool,
}

/// The instances, in the places of their claims.
#[derive(Clone, Debug, Default)]
pub(super) struct Instances {
    table: Vec<Instance>,
    live: u32,
    /// Those made by the drive, oldest first.
    auto: VecDeque<(u32, u64)>,
    /// Pages that all of them may hold at the cost of other data.
    cost: u64,
    /// Records of instances are, or were, in the log; and ranges that these have now.
    recorded: bool,
    ranges: usize,
}

impl Instances {
    pub fn live(&self) -> u32 {
        self.live
    }
    pub fn is_guessed(&self, slot: u32) -> bool {
        self.table[slot as usize].auto
    }
    pub fn born(&self, slot: u32) -> u64 {
        self.table.get(slot as usize).map_or(0, |instance| instance.born)
    }
    /// The instance of a name.
    pub fn named(&self, born: u64) -> Option<u32> {
        self.table.iter().rposition(|instance| instance.born == born).map(|slot| slot as u32)
    }
    /// The oldest instance.
    pub fn oldest(&self) -> Option<u32> {
        let live = (0..).zip(&self.table).filter(|(_, instance)| instance.born != 0);
        live.min_by_key(|(_, instance)| instance.born).map(|(slot, _)| slot)
    }
    pub fn cost(&self) -> u64 {
        self.cost
    }
    /// Enters what is known of an instance in the place of its claim.
    pub fn set(&mut self, slot: u32, instance: Instance) {
        if self.table.len() <= slot as usize {
            self.table.resize(slot as usize + 1, Instance::default());
        }
        self.table[slot as usize] = instance;
    }
    /// An instance is live from now on.
    pub fn count(&mut self, slot: u32) {
        let instance = self.table[slot as usize];
        self.cost += instance.cost;
        self.recorded = true;
        self.live += 1;
        if instance.auto {
            self.auto.push_back((slot, instance.born));
        }
    }
    /// An instance has come to its end; its name.
    pub fn remove(&mut self, slot: u32) -> u64 {
        let Instance { born, cost, .. } = std::mem::take(&mut self.table[slot as usize]);
        self.cost -= cost;
        self.live -= 1;
        born
    }
    pub fn unlearn(&mut self, slot: u32) {
        self.table[slot as usize] = Instance::default();
    }
    /// The oldest instance that the drive made by itself, if there are more than `most`.
    pub fn surplus_auto(&mut self, most: u32) -> Option<u32> {
        while let Some(&(slot, born)) = self.auto.front() {
            let live = self.table[slot as usize].born == born;
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
    /// Power-on: those made by the drive in the order of their names.
    pub fn sort_auto(&mut self) {
        self.auto.make_contiguous().sort_unstable_by_key(|&(_, born)| born);
    }
    /// An instance gets another name.
    pub fn rename(&mut self, slot: u32, born: u64) {
        let old = std::mem::replace(&mut self.table[slot as usize].born, born);
        self.auto.iter_mut().filter(|(s, b)| (*s, *b) == (slot, old)).for_each(|(_, b)| *b = born);
    }
    pub fn note_recorded(&mut self) {
        self.recorded = true;
    }
    pub fn is_recorded(&self) -> bool {
        self.recorded
    }
    pub fn set_ranges(&mut self, ranges: usize) {
        self.ranges = ranges;
    }
    /// Records that describe all of them.
    pub fn record_count(&self) -> usize {
        if self.recorded { 1 + self.ranges } else { 0 }
    }

    pub fn check(&self, flash: &Flash) {
        let Some(dedicated) = flash.space().dedicated() else { return };
        let claims = dedicated.claims();
        assert_eq!(claims.live().count(), self.live as usize);
        assert!(claims.live().all(|(slot, _)| self.born(slot) != 0), "a claim without an instance");
        assert_eq!(claims.range_count(), self.ranges, "ranges of all instances");
    }
}

impl FlashAlloc {
    /// Instances have come or gone: what is known of them together.
    fn follow(&mut self, flash: &mut Flash) {
        let Some(dedicated) = flash.space_mut().dedicated_mut() else { return };
        dedicated.set_cost(self.instances.cost());
        self.instances.set_ranges(dedicated.claims().range_count());
    }

    /// What the drive made by itself gives way to a call; what the host named does not.
    pub(super) fn clear_the_way(&mut self, flash: &mut Flash, ranges: &[(u64, u64)]) -> Result<(), Refusal> {
        let overlapping = |flash: &Flash| -> SmallVec<[u32; 4]> {
            let Some(dedicated) = flash.space().dedicated() else { return SmallVec::new() };
            let claims = dedicated.claims();
            ranges.iter().flat_map(|&(lsn, n)| claims.overlapping(lsn, lsn + n)).collect()
        };
        for slot in overlapping(flash) {
            if self.instances.born(slot) != 0 && self.instances.is_guessed(slot) {
                self.end(flash, slot, true);
            }
        }
        if overlapping(flash).is_empty() { Ok(()) } else { Err(Refusal::Overlap) }
    }

    /// Makes an instance of ranges that nobody has; `auto`: the drive does it by itself.
    pub(super) fn make(
        &mut self,
        flash: &mut Flash,
        ranges: &[(u64, u64)],
        stream: u16,
        auto: bool,
    ) -> Result<(), Refusal> {
        let spp = u64::from(flash.sectors_per_page());
        let ppb = u64::from(flash.geometry().pages_per_block);
        let sectors: u64 = ranges.iter().map(|r| r.1).sum();
        let (mut pages, mut held) = (0, 0);
        for &(lsn, n) in ranges {
            for lpn in lsn / spp..(lsn + n).div_ceil(spp) {
                pages += 1;
                held += u64::from(!flash.fragments().is_unmapped(lpn as u32));
            }
        }
        let mut blocks = sectors.div_ceil(spp * ppb);
        let tiny = self.config.share_tiny && pages < ppb;
        let mut group = None;
        if tiny {
            let Some(dedicated) = flash.space_mut().dedicated_mut() else { return Err(Refusal::NoSpace) };
            group = dedicated.open_for(stream, pages);
            match group {
                Some(_) => blocks = 0,
                None => {
                    if let Some(closed) = dedicated.seal(stream) {
                        close_group(flash, closed);
                    }
                }
            }
        }
        let left = if tiny { pages } else { blocks * ppb };
        // The first of those that share a block answers for all of it.
        let cost = (blocks * ppb).saturating_sub(pages) + held;
        let has_number = flash.space().dedicated().is_some_and(|dedicated| dedicated.has_number());
        if cost > 0 && cost > flash.space().spare_beside_claims() || !has_number {
            return Err(Refusal::NoSpace);
        }
        if flash.space().all_clean_blocks() < blocks as u32 {
            let failed = std::mem::take(&mut self.failed);
            if auto || failed {
                self.demand = 0;
                return Err(Refusal::NoSpace);
            }
            self.demand = blocks as u32;
            return Err(Refusal::Wait);
        }
        let (space, media) = flash.space_and_media();
        let on_demand = self.config.on_demand;
        let taken = if on_demand { vec![] } else { space.take_clean_blocks(blocks as u32, media) };
        let owed = if on_demand { blocks as u32 } else { 0 };
        let born = media.array_mut().take_seq();
        let group = match group {
            Some(group) => group,
            None => {
                let new = NewGroup { blocks: taken, owed, stream: tiny.then_some(stream) };
                space.create_group(new).ok_or(Refusal::NoSpace)?
            }
        };
        let Some(dedicated) = space.dedicated_mut() else { return Err(Refusal::NoSpace) };
        dedicated.set_off_home();
        let ranges = ranges.iter().map(|&(lsn, n)| (lsn, lsn + n)).collect();
        let claim = Claim { live: true, group, ranges, left, blocks: blocks as u32 };
        let slot = dedicated.claim(claim, auto);
        self.instances.set(slot, Instance { born, cost, auto });
        self.instances.count(slot);
        let records: Vec<Record> =
            range_records(born, dedicated.claims().get(slot), auto).map(Record::Scheme).collect();
        records.into_iter().for_each(|record| flash.record(record));
        if let Some(surplus) = self.instances.surplus_auto(self.config.auto_live) {
            self.end(flash, surplus, true);
        }
        self.follow(flash);
        Ok(())
    }

    /// An instance is at its end; a record of that is kept unless a trim says the same.
    pub(super) fn end(&mut self, flash: &mut Flash, slot: u32, record: bool) {
        let seq = flash.media_mut().array_mut().take_seq();
        let Some(dedicated) = flash.space_mut().dedicated_mut() else { return };
        let closed = dedicated.end(slot);
        let born = self.instances.remove(slot);
        if record {
            flash.record(Record::Scheme(end_record(born, seq)));
        }
        if let Some(group) = closed {
            close_group(flash, group);
        }
        self.follow(flash);
    }

    /// The sectors from `lsn` were trimmed: instances without others are at their end.
    pub(super) fn trim(&mut self, flash: &mut Flash, lsn: u64, sectors: u64) {
        if self.instances.live() == 0 {
            return;
        }
        let Some(dedicated) = flash.space_mut().dedicated_mut() else { return };
        for slot in dedicated.claims_mut().forget(lsn, lsn + sectors) {
            self.end(flash, slot, false);
        }
        self.follow(flash);
    }

    /// Power-on: instances go on where their blocks end; clean blocks are dedicated to them again.
    pub(super) fn resume(&mut self, flash: &mut Flash) {
        let Some(dedicated) = flash.space_mut().dedicated_mut() else { return };
        // Instances without sectors are over.
        for slot in 0..dedicated.claims().slots() {
            let claim = dedicated.claims().get(slot);
            if claim.live && claim.ranges.is_empty() {
                dedicated.claims_mut().remove(slot);
                self.instances.unlearn(slot);
            }
        }
        dedicated.count_claims();
        let learned: Vec<u32> = dedicated.claims().live().map(|(slot, _)| slot).collect();
        let mut over = vec![];
        for slot in learned {
            let left = self.resume_one(flash, slot);
            if left == 0 {
                over.push(slot);
            }
        }
        self.instances.sort_auto();
        self.follow(flash);
        for slot in over {
            self.end(flash, slot, true);
        }
        let (space, media) = flash.space_and_media();
        space.close_resumed(media);
        self.find_pages_off_home(flash);
    }

    /// One instance; the pages that it has left.
    fn resume_one(&mut self, flash: &mut Flash, slot: u32) -> u64 {
        let spp = u64::from(flash.sectors_per_page());
        let ppb = u64::from(flash.geometry().pages_per_block);
        let Some(dedicated) = flash.space().dedicated() else { return 0 };
        let Claim { group, blocks, ref ranges, .. } = *dedicated.claims().get(slot);
        let group = dedicated.group(group);
        let own = group.blocks();
        let written = |&block| u64::from(flash.array().pages_programmed(block));
        let shared = self.config.share_tiny && group.claims() > 1 || blocks == 0;
        let pages: u64 = ranges.iter().map(|&(s, e)| e.div_ceil(spp) - s / spp).sum();
        let used: u64 = own.iter().map(written).sum();
        let open: u64 = own.iter().map(|block| ppb - written(block)).sum();
        let mut left = (u64::from(blocks) * ppb).saturating_sub(used);
        if shared {
            // Which of the pages were its own is not asked: it gets at most what is left.
            left = pages.min(open + left);
        }
        let held = ranges.iter().flat_map(|&(s, e)| s / spp..e.div_ceil(spp));
        let held = held.filter(|&lpn| !flash.fragments().is_unmapped(lpn as u32)).count() as u64;
        let missing = blocks.saturating_sub(own.len() as u32);
        let count = missing.min(flash.space().all_clean_blocks());
        let left = left.min(open + u64::from(count) * ppb);
        let cost = left.saturating_sub(pages) + held;
        let (space, media) = flash.space_and_media();
        let on_demand = self.config.on_demand;
        let clean = if on_demand { vec![] } else { space.take_clean_blocks(count, media) };
        let owed = if on_demand { count } else { 0 };
        space.resume_claim(slot, left, NewGroup { blocks: clean, owed, stream: None }, media);
        let (born, auto) = (self.instances.born(slot), self.instances.is_guessed(slot));
        self.instances.set(slot, Instance { born, cost, auto });
        self.instances.count(slot);
        if auto && let Some(dedicated) = flash.space_mut().dedicated_mut() {
            dedicated.note_guess(slot);
        }
        left
    }

    /// Power-on: whether pages lie off their home planes.
    fn find_pages_off_home(&mut self, flash: &mut Flash) {
        let off_home = self.instances.live() > 0
            || (0..flash.logical_pages()).any(|lpn| {
                let home = flash.space().home_plane(lpn);
                let list = flash.fragments().get(lpn, flash.array());
                home.is_some_and(|home| list.iter().any(|f| flash.media().plane_of(f.ppn) != home))
            });
        if off_home && let Some(dedicated) = flash.space_mut().dedicated_mut() {
            dedicated.set_off_home();
        }
    }
}

/// Nothing writes to a group any more.
fn close_group(flash: &mut Flash, group: u16) {
    let (space, media) = flash.space_and_media();
    space.close_group(group, media);
}
