//! Moving pages: garbage collection's copies, as they are.

use nandle_nand::{Cause, Extent, Extents, Oob, PageUse, Ppn};
use smallvec::SmallVec;

use super::{Flash, Page, compact, first_page, sectors_of};
use crate::map::{Fragment, FragmentList, runs};
use crate::media::Record;
use crate::space::{GroupId, PageClass};

/// One of the drive's own pages has moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Moved {
    /// What it is used for.
    pub kind: PageUse,
    /// Its number.
    pub number: u32,
    /// Where it is now.
    pub to: Ppn,
}

impl Flash {
    /// Moves one of the drive's own pages into `plane`. Whoever keeps its address is told, but for the
    /// map, which knows already.
    pub(crate) fn move_system(&mut self, ppn: Ppn, plane: u32, group: GroupId) -> Moved {
        let read = self.read_copy::<false>(ppn, !self.space.is_urgent(plane));
        let oob = self.array().oob(ppn);
        let kind = oob.kind;
        let number = match oob.extents {
            Extents::Home { lpn: number, .. } => number,
            Extents::List(list) => (list[0].lsn / u64::from(self.sectors_per_page())) as u32,
        };
        let (to, op) = self.append_system(plane, group, kind, number, Cause::Gc, &[read]);
        self.media.supersede(ppn, op);
        if let Some(note) = self.array().note(ppn).cloned() {
            self.media.array_mut().set_note(to, note);
        }
        let moved = Moved { kind, number, to };
        self.map_page_went(moved);
        self.died(ppn);
        moved
    }

    /// The map knows where a translation page is now.
    pub(crate) fn map_page_went(&mut self, moved: Moved) {
        if moved.kind == PageUse::Map
            && let Some(cache) = self.map.cache_mut()
        {
            cache.set_location(moved.number, moved.to);
        }
    }

    /// Moves a page of host data as it is, with only its live sectors, into `plane`; its fragments follow.
    pub fn relocate(&mut self, ppn: Ppn, plane: u32, group: GroupId) -> Ppn {
        if self.is_plain() {
            self.relocate_of::<true>(ppn, plane, group)
        } else {
            self.relocate_of::<false>(ppn, plane, group)
        }
    }

    fn relocate_of<const PLAIN: bool>(&mut self, ppn: Ppn, plane: u32, group: GroupId) -> Ppn {
        let oob = self.array().oob(ppn);
        if let Extents::Home { lpn, start, len } = oob.extents
            && self.map.fragments().single(lpn) == Some(ppn)
        {
            // One logical page, all of it live: the word moves.
            let extents = Extents::Home { lpn, start, len };
            let class = PageClass::of_label(oob.stream);
            let page = Page::data(plane, group, class, extents).because(Cause::Gc);
            let to = self.copy_as_it_is::<PLAIN>(ppn, &page);
            self.media.array_mut().copy(ppn, u32::from(start), to, u32::from(start), u32::from(len));
            self.map.fragments_mut().set_single(lpn, to);
            if !PLAIN && !self.space.surplus_settles() && self.blocks().is_surplus(ppn) {
                self.mark_surplus(to);
            }
            self.died_of::<PLAIN>(ppn);
            self.map_moved(lpn);
            return to;
        }
        let (to, lpns, _) = self.relocate_fragments(ppn, plane, group);
        lpns.into_iter().for_each(|lpn| self.map_moved(lpn));
        to
    }

    /// Orders the copy of a page of which nothing is left out; where it goes.
    #[inline(always)]
    fn copy_as_it_is<const PLAIN: bool>(&mut self, from: Ppn, page: &Page<'_>) -> Ppn {
        if (self.media.copies_at_once() || PLAIN && self.media.copies_whole())
            && self.media.program_of(from).is_none()
        {
            return self.copy_as_one::<PLAIN>(from, page);
        }
        let read = self.read_copy::<PLAIN>(from, !self.space.is_urgent(page.plane));
        let (to, op) = self.append_here::<PLAIN>(page, &[read]);
        self.media.supersede_on::<PLAIN>(from, op);
        self.media.pair_copyback(read, op);
        to
    }

    /// The same of a page that is on flash, as one operation if it stays in its plane. On a drive without clocks the copy
    /// is over when this returns, unless programs of the block that it goes to are on order, and counts as under way until
    /// the next event.
    #[inline(always)]
    fn copy_as_one<const PLAIN: bool>(&mut self, from: Ppn, page: &Page<'_>) -> Ppn {
        let &Page { plane, group, class, kind, owner, extents, cause, waiter } = page;
        let reads_aside = !self.space.is_urgent(plane);
        let lpn = first_page(extents, self.sectors_per_page());
        let place = match self.space.take::<PLAIN>(lpn, plane, group, class, &self.media) {
            Some(place) => place,
            None => self.take_anywhere(lpn, group, class),
        };
        let to = place.ppn;
        let aside = if PLAIN { group.is_collected_into() } else { self.space.may_use_reserve(place.group) };
        let stays = place.plane == plane;
        let plane = place.plane;
        let oob = Oob { kind, owner, stream: class.label(place.group), extents };
        let sectors = sectors_of(extents);
        self.space.blocks_mut().set_live::<PLAIN>(to);
        self.programs.0 += 1;
        self.copies[plane as usize] += 1;
        let whole = PLAIN && self.media.copies_whole();
        if whole || self.media.programs_pending_on::<PLAIN>(self.geometry().block_of(to)) {
            let background = aside && !self.space.is_urgent(plane);
            let record = Record { oob, sectors, cause, background, durable: false, waiter };
            let op = if whole && stays && reads_aside == background {
                self.media.copy::<PLAIN>(from, to, &record)
            } else {
                let read = self.read_copy::<PLAIN>(from, reads_aside);
                self.media.program::<PLAIN>(to, &record, &[read])
            };
            self.media.supersede_on::<PLAIN>(from, op);
            return to;
        }
        self.media.copy_at_once::<PLAIN>(from, to, &oob, sectors);
        self.over.push(plane);
        self.program_done::<PLAIN>(to);
        to
    }

    /// As [`Flash::relocate`], but the mapping table is left to whoever looks after the page: where it is
    /// now, whose data it holds, and one of its fragments with its logical page.
    pub(crate) fn relocate_fragments(
        &mut self,
        ppn: Ppn,
        plane: u32,
        group: GroupId,
    ) -> (Ppn, SmallVec<[u32; 4]>, Option<(u32, Fragment)>) {
        let read = self.read_copy::<false>(ppn, !self.space.is_urgent(plane));
        let spp = self.sectors_per_page();
        let live = self.map.live_in(ppn, self.media.array());
        debug_assert!(!live.is_empty(), "relocation of a dead page");
        let mut extents: SmallVec<[Extent; 4]> = SmallVec::new();
        for (lpn, f) in &live {
            let base = u64::from(*lpn) * u64::from(spp);
            for (start, len) in runs(f.mask) {
                extents.push(Extent {
                    lsn: base + u64::from(start),
                    sectors: len as u8,
                    at: (start as i32 + i32::from(f.shift)) as u8,
                });
            }
        }
        let Oob { owner, stream, .. } = self.array().oob(ppn);
        let class = PageClass::of_label(stream);
        // An owner is known by a list only.
        let shape = if owner == Oob::PLAIN { compact(&extents, spp) } else { Extents::List(&extents) };
        let page = Page::data(plane, group, class, shape).because(Cause::Gc).owned_by(owner);
        let (to, op) = self.append(&page, &[read]);
        for e in &extents {
            self.media.array_mut().copy(ppn, u32::from(e.at), to, u32::from(e.at), u32::from(e.sectors));
        }
        self.media.supersede(ppn, op);
        let lpns = self.follow(ppn, to, &live);
        if self.blocks().is_surplus(ppn) {
            self.mark_surplus(to);
        }
        self.died(ppn);
        self.media.pair_copyback(read, op);
        (to, lpns, live.first().copied())
    }

    /// The fragments `live` of `from` lie in `to` from now on; whose they are.
    fn follow(&mut self, from: Ppn, to: Ppn, live: &[(u32, Fragment)]) -> SmallVec<[u32; 4]> {
        let list = |&(lpn, _): &(u32, Fragment)| (lpn, self.map.fragments().get(lpn, self.media.array()));
        let lists: SmallVec<[(u32, FragmentList); 4]> = live.iter().map(list).collect();
        self.follow_lists(from, to, lists)
    }

    /// The same, where `from` no longer says what it held: the fragments of logical pages as they were.
    pub(crate) fn follow_lists(
        &mut self,
        from: Ppn,
        to: Ppn,
        lists: impl IntoIterator<Item = (u32, FragmentList)>,
    ) -> SmallVec<[u32; 4]> {
        let mut lpns: SmallVec<[u32; 4]> = SmallVec::new();
        for (lpn, mut list) in lists {
            if lpns.contains(&lpn) {
                continue;
            }
            lpns.push(lpn);
            list.iter_mut().filter(|f| f.ppn == from).for_each(|f| f.ppn = to);
            self.map.fragments_mut().set(lpn, list, self.media.array());
        }
        lpns
    }
}
