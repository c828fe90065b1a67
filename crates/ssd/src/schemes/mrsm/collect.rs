//! Collection of pages that hold sub-pages: several of a victim's are packed into one.

use nandle_nand::{Cause, Extent, OpId, Ppn};
use smallvec::SmallVec;

use super::{Mrsm, is_split};
use crate::flash::{Flash, Page, compact};
use crate::map::{Fragment, run_mask, runs};
use crate::space::{GroupId, PageClass};

/// A sub-page in a victim: logical page, sub-page, its sectors.
type Found = SmallVec<[(u32, u32, u64); 16]>;

impl Mrsm {
    /// Moves a page of a victim; sub-pages of further pages of the victim go along as far as they fit.
    pub(super) fn move_sub_pages(
        &mut self,
        flash: &mut Flash,
        ppn: Ppn,
        plane: u32,
        group: GroupId,
    ) -> Option<u32> {
        if !Self::may_pack(flash, ppn) {
            return None;
        }
        let sub_pages = self.settings.sub_pages as usize;
        let mut pages: SmallVec<[Ppn; 4]> = SmallVec::new();
        let mut moved = Found::new();
        let block = flash.geometry().block_of(ppn);
        let mut next = Some(flash.geometry().page_of(ppn));
        while let Some(number) = next {
            let from = flash.geometry().ppn(block, number);
            next = flash.blocks().next_live(block, number + 1);
            if !Self::may_pack(flash, from) {
                continue;
            }
            let found = self.sub_pages_in(flash, from);
            if moved.len() + found.len() <= sub_pages {
                moved.extend(found);
                pages.push(from);
            }
            if moved.len() == sub_pages {
                break;
            }
        }
        if pages.len() == 1 {
            return None;
        }
        self.pack(flash, &pages, &moved, plane, group);
        Some(1)
    }

    /// Whether the page holds sub-pages that may lie anywhere: it can also hold what has become the only entry of a
    /// logical page whose region is by page (again), and that stays where it is in its page.
    fn may_pack(flash: &Flash, ppn: Ppn) -> bool {
        flash.blocks().is_surplus(ppn)
            && flash.map().live_in(ppn, flash.array()).into_iter().all(|(lpn, _)| is_split(flash, lpn))
    }

    fn sub_pages_in(&self, flash: &Flash, from: Ppn) -> Found {
        let sectors = self.sectors(flash);
        let mut found = Found::new();
        for (lpn, f) in flash.map().live_in(from, flash.array()) {
            for sub in 0..self.settings.sub_pages {
                let mask = f.mask & run_mask(sub * sectors, sectors);
                if mask != 0 {
                    found.push((lpn, sub, mask));
                }
            }
        }
        found
    }

    /// Copies the sub-pages of several pages into one.
    fn pack(&mut self, flash: &mut Flash, pages: &[Ppn], moved: &Found, plane: u32, group: GroupId) {
        let (sectors, spp) = (self.sectors(flash), flash.sectors_per_page());
        let urgent = flash.space().is_urgent(plane);
        let after: SmallVec<[OpId; 4]> = pages.iter().map(|&from| flash.read_copy(from, !urgent)).collect();
        let base = |lpn: u32| u64::from(lpn) * u64::from(spp);
        let mut extents: SmallVec<[Extent; 16]> = SmallVec::new();
        for (at, &(lpn, sub, mask)) in moved.iter().enumerate() {
            for (start, len) in runs(mask) {
                let at = (start + at as u32 * sectors - sub * sectors) as u8;
                extents.push(Extent { lsn: base(lpn) + u64::from(start), sectors: len as u8, at });
            }
        }
        let class = PageClass { full: false, alone: true };
        let page = Page::data(plane, group, class, compact(&extents, spp)).because(Cause::Gc);
        let (to, op) = flash.append(&page, &after);
        flash.mark_surplus(to);
        let shift = |at: usize, sub: u32| (at as i32 - sub as i32) * sectors as i32;
        for (at, &(lpn, sub, mask)) in moved.iter().enumerate() {
            flash.carry(lpn, mask, to, shift(at, sub));
        }
        for (at, &(lpn, sub, mask)) in moved.iter().enumerate() {
            flash.attach_joined(lpn, Fragment { mask, ppn: to, shift: shift(at, sub) as i8 }, op);
            flash.map_moved(lpn);
        }
        flash.stats_mut().gc_moved_pages += pages.len() as u64 - 1;
        self.stats.gc_packed += pages.len() as u64 - 1;
    }
}
