//! Bringing the versions of logical pages together: when collection meets them, when the drive is idle, and
//! under pressure.

use nandle_nand::{Cause, Extents, Oob, OpId, Ppn};
use smallvec::SmallVec;

use super::Waflash;
use super::versions::{extents_at_home, in_page, keep, shape};
use crate::flash::{Flash, Page, Write};
use crate::map::Fragment;
use crate::space::{GroupId, PageClass};

impl Waflash {
    /// Moves a live page of a victim, merging the versions of its logical pages where that takes no
    /// more room. How many programs in `plane` that took; none: it moves as it is.
    pub(super) fn move_versions(
        &mut self,
        flash: &mut Flash,
        ppn: Ppn,
        plane: u32,
        group: GroupId,
    ) -> Option<u32> {
        if flash.array().owner(ppn) == Oob::PLAIN
            && let Some(lpns) = self.mergeable(flash, ppn)
        {
            if let [lpn] = lpns[..]
                && flash.space().home_plane(lpn).is_none_or(|home| home == plane)
            {
                merge(flash, lpn, plane, group, Cause::Gc);
                self.stats.merges_gc += 1;
                return Some(1);
            }
            if lpns.len() <= self.settings.gc_merge as usize && self.merge_at_home(flash, &lpns) {
                self.stats.merges_gc += lpns.len() as u64;
                return Some(0);
            }
        }
        None
    }

    /// The logical pages that `ppn` holds data of, if one of them has more data elsewhere.
    fn mergeable(&self, flash: &Flash, ppn: Ppn) -> Option<SmallVec<[u32; 8]>> {
        let array = flash.array();
        if let Extents::Home { lpn, .. } = array.oob(ppn).extents
            && flash.fragments().single(lpn) == Some(ppn)
        {
            return None;
        }
        let mut lpns: SmallVec<[u32; 8]> = SmallVec::new();
        let mut several = false;
        for (lpn, _) in flash.map().live_in(ppn, array) {
            if !lpns.contains(&lpn) {
                several |= flash.plain(lpn).iter().any(|f| f.ppn != ppn);
                lpns.push(lpn);
            }
        }
        several.then_some(lpns)
    }

    /// Brings each of `lpns` into one page of its own plane, if all of these have room.
    fn merge_at_home(&self, flash: &mut Flash, lpns: &[u32]) -> bool {
        let count = lpns.len() as u32;
        let class = |flash: &Flash, lpn: u32| PageClass {
            full: keep(&flash.plain(lpn), 0) == flash.full_mask(),
            alone: true,
        };
        let fits = |&lpn: &u32| flash.has_room(lpn, flash.host_group(lpn, 0), class(flash, lpn), count);
        if !lpns.iter().all(fits) {
            return false;
        }
        for &lpn in lpns {
            let group = flash.host_group(lpn, 0);
            let Some(plane) = flash.choose_plane(lpn, group, class(flash, lpn)) else { return false };
            merge(flash, lpn, plane, group, Cause::Merge);
        }
        true
    }

    /// Merges what the oldest surplus page of `plane` holds; how many logical pages that were, none if they
    /// have no room. Where there is nothing to bring together, the page becomes the youngest.
    fn merge_front(&mut self, flash: &mut Flash, plane: u32) -> Option<u64> {
        let ppn = flash.space_mut().blocks_mut().oldest_surplus(plane)?;
        let Some(lpns) = self.mergeable(flash, ppn) else {
            flash.space_mut().blocks_mut().clear_surplus(ppn);
            flash.mark_surplus(ppn);
            return Some(0);
        };
        self.merge_at_home(flash, &lpns).then_some(lpns.len() as u64)
    }

    /// Merges the oldest surplus page of `plane` that is worth it, if a short look finds it.
    fn merge_oldest(&mut self, flash: &mut Flash, plane: u32) -> u64 {
        for _ in 0..4 {
            match self.merge_front(flash, plane) {
                Some(0) => {}
                merged => return merged.unwrap_or(0),
            }
        }
        0
    }

    /// All of a write is placed. It may have taken room that versions were promised: the oldest are merged.
    pub(super) fn make_room_for(&mut self, flash: &mut Flash, write: &Write<'_>) {
        for part in write.parts {
            if let Some(f) = flash.plain(part.lpn).first() {
                self.make_room(flash, flash.media().plane_of(f.ppn));
            }
        }
    }

    /// Whether `plane` holds more surplus pages than it may.
    fn is_crowded(&self, flash: &Flash, plane: u32) -> bool {
        let extra = flash.blocks().surplus(plane);
        extra > 0 && extra + flash.space().apart(plane) > self.budget(flash, plane)
    }

    fn make_room(&mut self, flash: &mut Flash, plane: u32) {
        /// A new page takes the room of one version at most; the others are for what was left over.
        const MOST: u32 = 3;
        for _ in 0..MOST {
            if !self.is_crowded(flash, plane) {
                return;
            }
            let merged = self.merge_oldest(flash, plane);
            if merged == 0 {
                return;
            }
            self.stats.merges_pressure += merged;
        }
    }

    /// Objects come: versions keep to the spare pages, and to their table. False if that has to wait until
    /// collection has made room for what they are merged to.
    pub(super) fn leave_room(&mut self, flash: &mut Flash) -> bool {
        if let Some(dedicated) = flash.space_mut().dedicated_mut() {
            dedicated.set_off_home();
        }
        for plane in 0..flash.geometry().planes() {
            for _ in 0..flash.blocks().surplus(plane) {
                let table_is_full = !self.in_entry(flash) && self.places(flash) > self.pointers.slots;
                if !table_is_full && !self.is_crowded(flash, plane) {
                    break;
                }
                let Some(merged) = self.merge_front(flash, plane) else { return false };
                self.stats.merges_pressure += merged;
            }
        }
        true
    }

    /// Under pressure, an idle chip merges its oldest version: one plane is looked at for each write.
    pub(super) fn relieve(&mut self, flash: &mut Flash) {
        let plane = self.next_plane(flash);
        // For the table alone no compacted page is taken apart: that costs more programs than its place saves.
        let pressed = self.reached(flash, plane, 3) || !self.in_entry(flash) && self.table_reached(flash, 3);
        if flash.blocks().surplus(plane) > 0 && pressed && flash.media().chip_is_idle(plane) {
            let merged = self.merge_oldest(flash, plane);
            self.stats.merges_pressure += merged;
        }
    }

    fn next_plane(&mut self, flash: &Flash) -> u32 {
        self.turn = (self.turn + 1) % flash.geometry().planes();
        self.turn
    }

    /// The drive is idle: the oldest version of each plane is merged. False if there is none.
    pub(super) fn merge_idle(&mut self, flash: &mut Flash) -> bool {
        let mut merged = 0;
        for _ in 0..flash.geometry().planes() {
            let plane = self.next_plane(flash);
            merged += self.merge_oldest(flash, plane);
        }
        self.stats.merges_idle += merged;
        merged > 0
    }
}

/// Reads all that is stored of `lpn` and programs it as one page of `plane`.
fn merge(flash: &mut Flash, lpn: u32, plane: u32, group: GroupId, cause: Cause) {
    let background = group.is_collected_into() && !flash.space().is_urgent(plane);
    let mut after: SmallVec<[OpId; 4]> = flash.load_map_page_of(lpn).into_iter().collect();
    let loads = after.len();
    let list = flash.plain(lpn);
    for (n, f) in list.iter().enumerate() {
        if list[..n].iter().all(|g| g.ppn != f.ppn) {
            let sectors = in_page(&list, f.ppn).count_ones();
            let read = flash.read_page(f.ppn, sectors, cause, background, &after[..loads]);
            after.extend(read);
        }
    }
    let mask = keep(&list, 0);
    let extents = extents_at_home(flash, lpn, mask);
    let class = PageClass { full: mask == flash.full_mask(), alone: true };
    let page = Page::data(plane, group, class, shape(lpn, &extents)).because(cause);
    let (ppn, op) = flash.append(&page, &after);
    flash.carry(lpn, mask, ppn, 0);
    if flash.stored(lpn, !mask) == 0 {
        flash.replace(lpn, ppn, op);
    } else {
        // The rest lies in areas and stays there.
        flash.attach(lpn, Fragment { mask, ppn, shift: 0 }, op);
    }
}
