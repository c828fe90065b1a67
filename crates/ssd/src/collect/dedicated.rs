//! Collection of dedicated blocks: those without live data are erased whole, and others are merged when a
//! call waits for clean ones.

use nandle_nand::Block;

use super::job::Purpose;
use super::{Collect, Work};
use crate::space::{GroupId, PageClass};

impl Collect {
    /// Orders the erase of dedicated blocks that hold nothing. Those that wait for a record of the log
    /// wait until it is written anyway, or the blocks are needed.
    pub(super) fn erase_emptied(&mut self, work: &mut Work<'_>) {
        let demand = work.schemes.objects_ref().map_or(0, |objects| objects.demand());
        let soft = work.flash.space().limits().soft;
        let pressed = demand > 0
            || work.flash.space().looks().iter().any(|&plane| work.flash.blocks().free(plane) < soft);
        if pressed && !work.flash.records().is_empty() {
            work.keeper.write_records(work.flash, work.schemes, None);
        }
        let mut n = 0;
        while let Some(&block) = work.flash.blocks().emptied().get(n) {
            if work.flash.blocks().awaits_record(block) && !work.flash.records().is_empty() {
                n += 1;
                continue;
            }
            let blocks = work.flash.space_mut().blocks_mut();
            blocks.forget_emptied(block);
            blocks.take_victim(block);
            let ordered = Self::erase(block, work);
            debug_assert!(ordered, "no record waits");
            let of_cache = work.flash.blocks().is_of_cache(block);
            work.flash.stats_mut().victim_valid_dedicated[0] += u64::from(!of_cache);
            self.erasing += 1;
        }
    }

    /// Starts to merge blocks for the call that waits for clean ones; true if planes have to be looked
    /// after.
    pub(super) fn merge_for_object(&mut self, work: &mut Work<'_>) -> bool {
        let Some(demand) = work.schemes.objects_ref().map(|objects| objects.demand()) else { return false };
        if demand == 0 {
            return false;
        }
        let clean = work.flash.space().all_clean_blocks();
        if clean >= demand {
            return answer(work, false);
        }
        let planes = work.flash.geometry().planes();
        let active = (0..planes).filter(|&plane| self.is_active(plane)).count() as u32 + self.erasing;
        let mut wanted = (demand - clean).saturating_sub(active);
        if wanted == 0 {
            return false;
        }
        let mut started = 0;
        for (_, plane, block, group) in self.merge_victims(work) {
            if wanted > 0 && !self.is_active(plane) {
                self.start(plane, block, group.map_or(Purpose::Room, Purpose::KeepGroup), work.flash);
                work.flash.space_mut().look_at(plane);
                (wanted, started) = (wanted - 1, started + 1);
            }
        }
        if started == 0 && active == 0 {
            return answer(work, true);
        }
        started > 0
    }

    /// Blocks whose survivors find room, the emptiest first: live pages, plane, block, and the group that
    /// its survivors stay in, if it is a dedicated one.
    fn merge_victims(&self, work: &Work<'_>) -> Vec<(u32, u32, Block, Option<u16>)> {
        let flash = &*work.flash;
        let mut victims = vec![];
        for plane in (0..flash.geometry().planes()).filter(|&plane| !self.is_active(plane)) {
            let room = flash.room(plane, GroupId::Survivors, PageClass::SYSTEM);
            let normal = flash.blocks().candidates(plane).buckets().next();
            victims.extend(normal.filter(|v| v.0 <= room).map(|(valid, block)| (valid, plane, block, None)));
            let merge = flash.space().merge_victim(plane, flash.media());
            victims.extend(merge.map(|(valid, block, group)| (valid, plane, block, Some(group))));
        }
        victims.sort_unstable();
        victims
    }
}

/// The call that waited is tried again.
fn answer(work: &mut Work<'_>, failed: bool) -> bool {
    if let Some(objects) = work.schemes.objects() {
        objects.answer_demand(failed);
    }
    work.flash.space_mut().note_progress();
    false
}
