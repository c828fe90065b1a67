//! Pages of the flash that hold several mapping units: filled as units are written, sealed when they are full
//! or when somebody waits for what is in them.
//!
//! A unit's place is fixed when it is entered. A page that is sealed lists only the units that are still
//! stored there, under one sequence number taken at that moment: a unit that was written again, or trimmed,
//! meanwhile must not come back after a power cut with a number that is newer than what replaced it.

use nandle_nand::{Block, Cause, Extent, Extents, Oob, OpId, PageUse, Ppn};
use smallvec::SmallVec;

use super::{Flash, Page, compact};
use crate::map::runs;
use crate::media::OpenPage;
use crate::space::GroupId;

impl Flash {
    /// Whether a page of the flash holds several mapping units.
    #[inline]
    pub(crate) fn gathers(&self) -> bool {
        self.media.slots() > 1
    }

    /// A page that has no slot left is programmed.
    pub(crate) fn seal_full(&mut self) {
        if let Some(&page) = self.media.open_pages().iter().find(|page| page.is_full) {
            self.seal(page);
        }
    }

    /// Programs the pages that `which` picks as they are.
    pub(crate) fn seal_if(&mut self, which: impl Fn(&Self, &OpenPage) -> bool) {
        let picked: SmallVec<[OpenPage; 4]> =
            self.media.open_pages().iter().filter(|page| which(self, page)).copied().collect();
        picked.into_iter().for_each(|page| self.seal(page));
    }

    /// Programs the pages whose programs are `ops`.
    pub(crate) fn seal_ops(&mut self, ops: &[OpId]) {
        self.seal_if(|_, page| ops.contains(&page.op));
    }

    /// Programs what a FLUSH is to make durable.
    pub(crate) fn seal_durable(&mut self) {
        self.seal_if(|_, page| page.durable);
    }

    /// Programs pages that requests wait for and whose dies have nothing else to do: waiting longer could
    /// gather more units, but cost time.
    pub(crate) fn seal_awaited(&mut self) {
        if !self.has_page_to_seal() {
            return;
        }
        self.seal_full();
        self.seal_if(|flash, page| {
            page.is_awaited && {
                let die = flash.array().die_of(page.first);
                let open = flash.media.open_pages().iter();
                let on_die = open.filter(|other| flash.array().die_of(other.first) == die).count();
                flash.media.load_of_die(die) as usize == on_die
            }
        });
    }

    /// Whether a page is open that has no slot left, or that requests wait for.
    #[inline]
    pub(crate) fn has_page_to_seal(&self) -> bool {
        self.media.open_pages().iter().any(|page| page.is_awaited | page.is_full)
    }

    /// `block` is about to be erased: what waits for a page that is being filled would wait for ever.
    pub(crate) fn seal_holders(&mut self, block: Block) {
        self.seal_if(|flash, page| flash.media.is_held_by(block, page));
    }

    /// Whether `block` waits for a page that is being filled.
    pub(crate) fn is_held(&self, block: Block) -> bool {
        self.media.open_pages().iter().any(|page| self.media.is_held_by(block, page))
    }

    /// The checkpoint is about to say where the logical pages from `first` up to `last` lie.
    pub(crate) fn seal_units(&mut self, first: u32, last: u32) {
        self.seal_if(|flash, page| {
            flash.array().together(page.first).any(|ppn| {
                let mut found = false;
                if flash.array().page_use(ppn).is_data() {
                    let units = |e: Extent| found |= (first..last).contains(&flash.unit_of(e.lsn));
                    flash.array().oob(ppn).extents.each(flash.sectors_per_page(), units);
                }
                found
            })
        });
    }

    /// Requests wait for what a page holds of `lpn`: it is programmed before that is superseded, so that it
    /// is on flash when they are answered.
    #[cold]
    pub(super) fn settle_unit(&mut self, lpn: u32) {
        if self.media.open_pages().iter().any(|page| page.is_awaited) {
            let fragments = self.map.fragments().get(lpn, self.media.array());
            self.seal_if(|flash, page| {
                let first = |ppn| flash.array().first_slot(ppn);
                page.is_awaited && fragments.iter().any(|f| first(f.ppn) == page.first)
            });
        }
    }

    /// Another slot is about to be filled: the plane that it is to be in.
    #[inline(never)]
    pub(super) fn ready_plane(&mut self, page: &Page<'_>, lpn: u32) -> u32 {
        let &Page { kind, extents, .. } = page;
        // Asked with every unit: mostly there is none.
        if !self.has_page_to_seal() {
            return self.plane_for_unit(page, lpn);
        }
        self.seal_full();
        if kind.is_data() {
            let mut units: SmallVec<[u32; 4]> = SmallVec::new();
            extents.each(self.sectors_per_page(), |e| units.push(self.unit_of(e.lsn)));
            units.into_iter().for_each(|lpn| self.settle_unit(lpn));
        }
        self.plane_for_unit(page, lpn)
    }

    #[inline(always)]
    fn plane_for_unit(&mut self, page: &Page<'_>, lpn: u32) -> u32 {
        let &Page { plane, group, class, .. } = page;
        if self.space.has_pages(plane, group, class, 1, &self.media) {
            return plane;
        }
        // What was left of the plane's last page was given up.
        self.choose_plane(lpn, group, class).unwrap_or(plane)
    }

    /// The logical page of a sector.
    #[inline]
    fn unit_of(&self, lsn: u64) -> u32 {
        (lsn / u64::from(self.sectors_per_page())) as u32
    }

    fn seal(&mut self, page: OpenPage) {
        if page.stale {
            let slots: SmallVec<[Ppn; 8]> = self.array().together(page.first).collect();
            slots.into_iter().for_each(|ppn| self.list_live(ppn));
        }
        let block = self.geometry().block_of(page.first);
        let plane = self.geometry().plane_of(block);
        let group = GroupId::from_number(self.array().stream(page.first));
        let empty = self.media.seal(&page);
        self.forget_units(page.first);
        for _ in 0..empty {
            self.count_stream(group, false);
        }
        if page.cause == Cause::Gc {
            self.copies[plane as usize] += 1;
            self.space.look_at(plane);
        }
        if self.array().is_full(block) {
            let (space, media) = self.space_and_media();
            space.avoid(block, media);
        }
    }

    /// What a slot of an open page says of itself is what is still stored there.
    fn list_live(&mut self, ppn: Ppn) {
        match self.array().page_use(ppn) {
            PageUse::Erased | PageUse::Padding => return,
            _ if !self.blocks().is_live(ppn) => return self.media.array_mut().amend(ppn, None),
            PageUse::Data => {}
            _ => return,
        }
        let spp = self.sectors_per_page();
        let live = self.map.live_in(ppn, self.media.array());
        let mut extents: SmallVec<[Extent; 4]> = SmallVec::new();
        for &(lpn, f) in &live {
            for (start, len) in runs(f.mask) {
                extents.push(Extent {
                    lsn: u64::from(lpn) * u64::from(spp) + u64::from(start),
                    sectors: len as u8,
                    at: (start as i32 + i32::from(f.shift)) as u8,
                });
            }
        }
        let owned = self.array().owner(ppn) != Oob::PLAIN;
        let shape = if owned { Extents::List(&extents) } else { compact(&extents, spp) };
        self.media.array_mut().amend(ppn, Some(shape));
    }
}
