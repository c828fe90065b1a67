//! Which block of a plane is collected next.

use nandle_nand::Block;

use super::{Collect, Work, victim};
use crate::flash::Flash;
use crate::space::{GroupId, Need, PageClass};

impl Collect {
    /// The policy's victim; the emptiest block instead if that one's survivors find no room. For a page
    /// type, or if no full block will do, partially written blocks are candidates too: of all the one
    /// with the most dead pages.
    pub(super) fn choose(&mut self, plane: u32, need: Need, work: &mut Work<'_>) -> Option<Block> {
        let full = self.choose_full(plane, need, work);
        if full.is_some() && need == Need::Room || need == Need::CheapRoom {
            return full;
        }
        let convert = need == Need::PageType;
        let flash = &mut *work.flash;
        let partial = flash.space().partial_victim(plane, convert, flash.media());
        let dead = |block| flash.geometry().pages_per_block - flash.blocks().valid(block);
        match (full, partial) {
            (full, Some((found, block))) if full.is_none_or(|full| found > dead(full)) => {
                let (space, media) = flash.space_and_media();
                space.give_up(plane, block, media);
                flash.stats_mut().collection.unfinished_victims += 1;
                Some(block)
            }
            (full, _) => full,
        }
    }

    fn choose_full(&mut self, plane: u32, need: Need, work: &Work<'_>) -> Option<Block> {
        let flash = &*work.flash;
        let now = flash.media().now();
        let candidates = flash.blocks().candidates(plane);
        if need == Need::Room || need == Need::CheapRoom {
            let named = work.schemes.victim(flash, plane, &candidates, now);
            let chosen = named.or_else(|| victim::pick(&self.config, &candidates, now, &mut self.draw));
            let pages = f64::from(flash.geometry().pages_per_block);
            let dear = |&block: &Block| f64::from(flash.blocks().valid(block)) > self.config.lazy * pages;
            if need == Need::CheapRoom && chosen.as_ref().is_none_or(dear) {
                return None;
            }
            let Some(block) = chosen else {
                return dedicated_victim(flash, plane)
                    .filter(|&block| self.survivors_fit(flash, plane, block));
            };
            let room = flash.room(plane, GroupId::Survivors, PageClass::SYSTEM) + self.coming(plane, flash);
            if flash.blocks().valid(block) <= room {
                return Some(emptier_ended(work, plane, block).unwrap_or(block));
            }
        }
        let block = victim::greedy::pick(&candidates)?;
        if self.survivors_fit(flash, plane, block) {
            return Some(block);
        }
        dedicated_victim(flash, plane).filter(|&block| self.survivors_fit(flash, plane, block))
    }

    pub(super) fn survivors_fit(&self, flash: &Flash, plane: u32, block: Block) -> bool {
        let (space, media) = (flash.space(), flash.media());
        let open = space.left_in_open(plane, GroupId::Host(0), media)
            + space.left_in_open(plane, GroupId::System, media);
        let room = flash.room(plane, GroupId::Survivors, PageClass::SYSTEM) + self.coming(plane, flash);
        flash.blocks().valid(block) <= room + open
    }

    /// Pages of former victims of `plane` that are erased as soon as the next one's survivors fill a page.
    fn coming(&self, plane: u32, flash: &Flash) -> u32 {
        let emptied = &self.jobs[plane as usize].emptied;
        if emptied.is_empty() || Self::has_failed(flash) {
            return 0;
        }
        let normal = emptied.iter().filter(|&&block| !flash.blocks().is_of_cache(block));
        normal.count() as u32 * flash.geometry().pages_per_block
    }
}

/// A victim among dedicated blocks of closed groups, for a plane whose normal blocks gain nothing while the
/// host waits.
fn dedicated_victim(flash: &Flash, plane: u32) -> Option<Block> {
    if !flash.space().host_waits() || flash.space().has_cache() {
        return None;
    }
    flash.blocks().dedicated(plane).buckets().next().map(|(_, block)| block)
}

/// A block of an ended object that holds less than `normal`, if objects are collected so.
fn emptier_ended(work: &Work<'_>, plane: u32, normal: Block) -> Option<Block> {
    work.schemes.objects_ref().filter(|objects| objects.collects_ended())?;
    let blocks = work.flash.blocks();
    let (valid, block) = blocks.dedicated(plane).buckets().next()?;
    (valid < blocks.valid(normal)).then_some(block)
}
