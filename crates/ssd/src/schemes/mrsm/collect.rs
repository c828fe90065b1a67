//! Collection of pages that hold pieces: those of several pages of a victim are packed into one.

use nandle_nand::{Cause, Extent, OpId, Ppn};
use smallvec::SmallVec;

use super::Mrsm;
use crate::flash::{Flash, Page, compact};
use crate::map::{Fragment, run_mask, runs};
use crate::space::{GroupId, PageClass};

/// A run of sectors in a victim: logical page, first sector, sectors.
type Found = SmallVec<[(u32, u32, u32); 16]>;

impl Mrsm {
    /// Moves a page of a victim; pieces in further pages of the victim go along as far as they fit.
    pub(super) fn move_pieces(
        &mut self,
        flash: &mut Flash,
        ppn: Ppn,
        plane: u32,
        group: GroupId,
    ) -> Option<u32> {
        if !self.may_pack(flash, ppn) {
            return None;
        }
        let spp = flash.sectors_per_page();
        let mut pages: SmallVec<[Ppn; 4]> = SmallVec::new();
        let (mut moved, mut sectors) = (Found::new(), 0);
        let block = flash.geometry().block_of(ppn);
        let mut next = Some(flash.geometry().page_of(ppn));
        while let Some(number) = next {
            let from = flash.geometry().ppn(block, number);
            next = flash.blocks().next_live(block, number + 1);
            if !self.may_pack(flash, from) {
                continue;
            }
            let live = flash.map().live_in(from, flash.array());
            let more: u32 = live.iter().map(|(_, f)| f.mask.count_ones()).sum();
            if sectors + more <= spp {
                for (lpn, f) in live {
                    moved.extend(runs(f.mask).map(|(start, len)| (lpn, start, len)));
                }
                sectors += more;
                pages.push(from);
            }
            if sectors == spp {
                break;
            }
        }
        if pages.len() == 1 {
            return None;
        }
        // What follows each other in a logical page does so in the new one, and is one piece.
        moved.sort_unstable();
        self.pack(flash, &pages, &moved, plane, group);
        Some(1)
    }

    /// Whether the page holds pieces that may lie anywhere: it can also hold what has become the only entry of a
    /// logical page whose region is by page (again), and that stays where it is in its page.
    fn may_pack(&self, flash: &Flash, ppn: Ppn) -> bool {
        flash.blocks().is_surplus(ppn)
            && flash.map().live_in(ppn, flash.array()).into_iter().all(|(lpn, _)| self.is_split(lpn))
    }

    /// Copies the pieces of several pages into one.
    fn pack(&mut self, flash: &mut Flash, pages: &[Ppn], moved: &Found, plane: u32, group: GroupId) {
        let spp = flash.sectors_per_page();
        let urgent = flash.space().is_urgent(plane);
        let after: SmallVec<[OpId; 4]> =
            pages.iter().map(|&from| flash.read_copy::<false>(from, !urgent)).collect();
        let mut extents: SmallVec<[Extent; 16]> = SmallVec::new();
        let mut at = 0;
        for &(lpn, start, len) in moved {
            let lsn = u64::from(lpn) * u64::from(spp) + u64::from(start);
            match extents.last_mut() {
                Some(last) if start > 0 && last.lsn + u64::from(last.sectors) == lsn => {
                    last.sectors += len as u8;
                }
                _ => extents.push(Extent { lsn, sectors: len as u8, at: at as u8 }),
            }
            at += len;
        }
        let class = PageClass { full: false, alone: true };
        let page = Page::data(plane, group, class, compact(&extents, spp)).because(Cause::Gc);
        let (to, op) = flash.append(&page, &after);
        flash.mark_surplus(to);
        let mut fragments: SmallVec<[(u32, Fragment); 16]> = SmallVec::new();
        for extent in &extents {
            let (lpn, start) = ((extent.lsn / u64::from(spp)) as u32, (extent.lsn % u64::from(spp)) as u32);
            let shift = i32::from(extent.at) - start as i32;
            let mask = run_mask(start, u32::from(extent.sectors));
            flash.carry(lpn, mask, to, shift);
            fragments.push((lpn, Fragment { mask, ppn: to, shift: shift as i8 }));
        }
        let mut last = None;
        for (lpn, fragment) in fragments {
            if let Some(before) = last.replace(lpn).filter(|&before| before != lpn) {
                flash.map_moved(before);
            }
            flash.attach_joined(lpn, fragment, op);
        }
        if let Some(lpn) = last {
            flash.map_moved(lpn);
        }
        flash.stats_mut().gc_moved_pages += pages.len() as u64 - 1;
        self.stats.gc_packed += pages.len() as u64 - 1;
    }
}
