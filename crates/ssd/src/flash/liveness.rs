//! What lives where: a page dies when its last sector is superseded, and its block is not erased before
//! what superseded it is on flash.

use nandle_nand::{Extents, OpId, Ppn};
use smallvec::SmallVec;

use super::Flash;
use crate::map::{Before, Fragment, FragmentList};
use crate::space::State;

impl Flash {
    /// A page has no live sector left.
    #[inline]
    pub(crate) fn died(&mut self, ppn: Ppn) {
        self.died_of::<false>(ppn);
    }
    #[inline(always)]
    pub(super) fn died_of<const PLAIN: bool>(&mut self, ppn: Ppn) {
        let now = self.media.now();
        self.space.blocks_mut().set_dead::<PLAIN>(ppn, now);
    }

    /// `ppn` lost a fragment: if that was its last live sector the page is dead.
    fn lost(&mut self, ppn: Ppn) {
        let shared = match self.array().oob(ppn).extents {
            Extents::Home { .. } => false,
            Extents::List(list) => {
                let spp = u64::from(self.sectors_per_page());
                list.iter().any(|e| self.map.fragments().refers((e.lsn / spp) as u32, ppn))
            }
        };
        if !shared {
            self.died(ppn);
        }
    }

    /// `lpn` is stored by `ppn` alone from now on, at home; all older fragments die once `op` is done.
    #[inline(always)]
    pub fn replace(&mut self, lpn: u32, ppn: Ppn, op: OpId) {
        self.replace_of::<false>(lpn, ppn, op);
    }
    #[inline(always)]
    pub(super) fn replace_of<const PLAIN: bool>(&mut self, lpn: u32, ppn: Ppn, op: OpId) {
        match self.map.fragments_mut().replace(lpn, ppn) {
            Before::Nothing => {}
            Before::Single(old) => {
                self.media.supersede_on::<PLAIN>(old, op);
                if self.media.forgets() {
                    let sectors = self.map.fragments().at_home(lpn, old, self.media.array());
                    self.media.forget_after(old, sectors, op);
                }
                if self.array().has_lists() {
                    self.lost(old);
                } else {
                    self.died_of::<PLAIN>(old);
                }
            }
            Before::List(old) => self.lose_all(&old, op),
        }
        self.map_changed_of::<PLAIN>(lpn);
    }

    /// The fragments `old` of a logical page die once `op` is done.
    #[inline(never)]
    fn lose_all(&mut self, old: &[Fragment], op: OpId) {
        for (n, f) in old.iter().enumerate() {
            self.media.supersede(f.ppn, op);
            if self.media.forgets() {
                self.media.forget_after(f.ppn, f.sectors(), op);
            }
            if !old[..n].iter().any(|g| g.ppn == f.ppn) {
                self.lost(f.ppn);
            }
        }
    }

    /// `fragment` is the newest data of its sectors of `lpn`; older fragments keep the rest.
    pub fn attach(&mut self, lpn: u32, fragment: Fragment, op: OpId) {
        self.attach_beside(lpn, fragment, op);
        self.map_changed(lpn);
    }

    /// As [`Flash::attach`], for a fragment whose entry lies elsewhere than that of its logical page.
    pub fn attach_beside(&mut self, lpn: u32, fragment: Fragment, op: OpId) {
        let old = self.map.fragments().get(lpn, self.array());
        self.shrink(lpn, &old, fragment.mask, Some(op), smallvec::smallvec![fragment]);
    }

    /// As [`Flash::attach_beside`], joining the fragment with what the same page holds of `lpn` at the
    /// same distance from home.
    pub fn attach_joined(&mut self, lpn: u32, fragment: Fragment, op: OpId) {
        let old = self.map.fragments().get(lpn, self.array());
        let same = old.iter().find(|f| f.ppn == fragment.ppn && f.shift == fragment.shift);
        let mask = fragment.mask | same.map_or(0, |f| f.mask);
        self.shrink(lpn, &old, mask, Some(op), smallvec::smallvec![Fragment { mask, ..fragment }]);
    }

    /// The sectors `mask` of `lpn` are no longer stored.
    pub(crate) fn detach(&mut self, lpn: u32, mask: u64) {
        if self.gathers() {
            self.settle_unit(lpn);
        }
        let old = self.map.fragments().get(lpn, self.array());
        if old.iter().any(|f| f.mask & mask != 0) {
            for f in old.iter().filter(|f| f.mask & mask != 0) {
                let block = self.geometry().block_of(f.ppn);
                self.space.blocks_mut().await_record(block);
                for held in self.media.vacate(f.ppn) {
                    self.space.blocks_mut().await_record(held);
                }
            }
            self.shrink(lpn, &old, mask, None, FragmentList::new());
            self.map_changed(lpn);
        }
    }

    /// Takes `mask` away from the fragments `old`; what is left follows `list`, which becomes the map of `lpn`.
    fn shrink(&mut self, lpn: u32, old: &[Fragment], mask: u64, by: Option<OpId>, mut list: FragmentList) {
        let mut touched: SmallVec<[Ppn; 4]> = SmallVec::new();
        for f in old {
            if f.mask & mask != 0 {
                if let Some(op) = by {
                    self.media.supersede(f.ppn, op);
                    if self.media.forgets() {
                        // What was joined is still there.
                        let stays =
                            list.iter().filter(|g| g.ppn == f.ppn).fold(0, |all, g| all | g.sectors());
                        let lost = Fragment { mask: f.mask & mask, ..*f }.sectors();
                        self.media.forget_after(f.ppn, lost & !stays, op);
                    }
                }
                if !touched.contains(&f.ppn) {
                    touched.push(f.ppn);
                }
            }
            if f.mask & !mask != 0 {
                list.push(Fragment { mask: f.mask & !mask, ..*f });
            }
        }
        touched.retain(|ppn| list.iter().all(|f| f.ppn != *ppn));
        self.map.fragments_mut().set(lpn, list, self.media.array());
        touched.into_iter().for_each(|ppn| self.lost(ppn));
        if self.space.surplus_settles() {
            self.settle_surplus(lpn);
        }
    }

    // ---- pages beyond one per logical page ----------------------------------------------------------

    /// `ppn` is more than page mapping would keep.
    pub fn mark_surplus(&mut self, ppn: Ppn) {
        let spp = u64::from(self.sectors_per_page());
        let shared = match self.array().oob(ppn).extents {
            Extents::Home { .. } => false,
            Extents::List(list) => list.iter().any(|e| e.lsn / spp != list[0].lsn / spp),
        };
        self.space.blocks_mut().mark_surplus(ppn, shared);
    }

    /// If one page of its own is all that `lpn` has, that page is not surplus (any more).
    fn settle_surplus(&mut self, lpn: u32) {
        if let Some(ppn) = self.only_page(lpn)
            && matches!(self.array().oob(ppn).extents, Extents::Home { .. })
        {
            self.space.blocks_mut().clear_surplus(ppn);
        }
    }

    /// The one page that `lpn` has, those that somebody looks after aside.
    #[inline]
    fn only_page(&self, lpn: u32) -> Option<Ppn> {
        if self.map.annex().is_none() {
            return self.map.fragments().single(lpn);
        }
        match self.plain(lpn).as_slice() {
            [f] if f.shift == 0 => Some(f.ppn),
            _ => None,
        }
    }

    // ---- blocks -------------------------------------------------------------------------------------

    /// A program came to its end: a full block without programs under way is closed.
    #[inline(always)]
    pub(crate) fn program_done<const PLAIN: bool>(&mut self, ppn: Ppn) {
        let block = self.geometry().block_of(ppn);
        let plane = self.geometry().plane_of(block);
        let full = self.array().is_full_of::<PLAIN>(block);
        let may_close = if PLAIN { full } else { self.space.may_close(block, full, &self.media) };
        if may_close && !self.media.programs_pending_on::<PLAIN>(block) {
            // Several planes of a superblock may end their programs at once.
            if self.blocks().state(block) != State::Open {
                return;
            }
            let now = self.media.now();
            self.space.blocks_mut().close(block, now);
            self.space.look_at(plane);
        } else if !PLAIN && self.space.is_called(plane) {
            // A partially written block without programs under way may be collected.
            self.space.look_at(plane);
        }
    }
}
