//! What the drive makes of failures of the flash.
//!
//! A program that fails is repeated in another block, under the version of the first attempt, before
//! anything that waits for it goes on; no further page of the block is written, its live pages are moved,
//! and the erase behind that takes it out of use. A read that returns nothing is the host's to know, for
//! exactly the sectors that the page held; a copy of such a sector is as unreadable as the original,
//! until the sector is written again or trimmed.

use nandle_nand::{Block, Done, Extents, OpId, PageUse, Ppn};
use smallvec::SmallVec;

use crate::allocation::{PageClass, Role};
use crate::blocks::State;
use crate::flash::Flash;
use crate::fragments::FragmentList;
use crate::map_cache::MapCache;

/// Failures that are being dealt with.
#[derive(Clone, Debug, Default)]
pub(crate) struct Troubles {
    /// Closed blocks in which a program failed, to be emptied.
    doomed: Vec<Block>,
    /// Copies of garbage collection that were repeated in another plane, and whose job they are of.
    strays: Vec<(OpId, u32)>,
}

impl Flash {
    /// A program failed: it is ordered again elsewhere. False if there is no page left in the whole
    /// drive; then what it held is lost.
    #[cold]
    pub(crate) fn program_failed(&mut self, done: &Done) -> bool {
        self.stats.program_failures += 1;
        let (from, op) = (done.ppn, done.op);
        let block = self.geometry().block_of(from);
        let plane = self.geometry().plane_of(block);
        self.allocation.avoid(plane, block, self.nand.array(), &mut self.blocks);
        if let Some(home) = self.blocks.object(block) {
            self.streams.avoid(home, block);
        }
        let seq = self.array().seq(from);
        self.void_checkpoint(seq);
        let label = self.array().oob(from).stream;
        let class = PageClass::of_label(label);
        let Some((target, role)) = self.place_again(plane, Role::from_number(label), class) else {
            self.nand.abandon(op);
            self.read_only = true;
            return false;
        };
        let stats = &mut self.stats.allocation;
        let to = self.allocation.take(target, role, class, self.nand.array(), &mut self.blocks, stats);
        let to = to.expect("room was checked");
        if done.cause == nandle_nand::Cause::Gc {
            let job = self.job_of(op, plane);
            self.troubles.strays.push((op, job));
        }
        self.repeat(op, from, to, class.label(role));
        self.program_done(from);
        true
    }

    fn place_again(&self, plane: u32, role: Role, class: PageClass) -> Option<(u32, Role)> {
        let role = match role {
            Role::Object(_) | Role::Survivor(_) => Role::Host(0),
            role => role,
        };
        let others = (0..self.geometry().planes()).filter(|&p| p != plane);
        std::iter::once(plane)
            .chain(others)
            .flat_map(|plane| [role, Role::Gc, Role::Host(0), Role::System].map(|role| (plane, role)))
            .find(|&(plane, role)| self.room(plane, role, class) > 0)
    }

    /// The program `op` of `from` becomes one of `to`, and so does whatever the map says of `from`.
    fn repeat(&mut self, op: OpId, from: Ppn, to: Ppn, label: u16) {
        let (kind, live, extra) =
            (self.array().page_use(from), self.blocks.is_live(from), self.blocks.is_extra(from));
        let beside = kind == PageUse::Data && self.lies_beside(from);
        let mut held: SmallVec<[(u32, FragmentList); 2]> = SmallVec::new();
        let mut area = None;
        let mut number = 0;
        if let Extents::Home { lpn, .. } = self.array().oob(from).extents {
            number = lpn;
        }
        if live && kind == PageUse::Data {
            for (lpn, f) in self.fragments.live_in(from, self.nand.array()) {
                if !held.iter().any(|&(seen, _)| seen == lpn) {
                    held.push((lpn, self.fragments.get(lpn, self.nand.array())));
                }
                if self.holds_area(f) {
                    area = Some((lpn, f));
                }
            }
        }
        self.nand.reissue(op, to, label);
        self.blocks.set_live(to);
        if !live {
            self.blocks.set_dead(to, self.nand.now());
            return;
        }
        match kind {
            PageUse::Data => {
                for (lpn, list) in &mut held {
                    list.iter_mut().filter(|f| f.ppn == from).for_each(|f| f.ppn = to);
                    self.fragments.set(*lpn, std::mem::take(list), self.nand.array());
                }
                match area {
                    Some((lpn, fragment)) => self.area_moved(lpn, fragment),
                    None => held.iter().for_each(|&(lpn, _)| self.map_moved(lpn)),
                }
            }
            PageUse::Map => {
                if let MapCache::OnDemand(map) = &mut self.map {
                    map.set_location(number, to);
                }
            }
            PageUse::Checkpoint => self.checkpoint.moved(number, to),
            _ => {
                let entry = self.log.pages.iter_mut().find(|(n, _)| *n == number);
                entry.expect("a live log page is listed").1 = to;
            }
        }
        if extra {
            self.mark_extra(to);
        }
        if beside {
            self.set_beside(to);
        }
        self.died(from);
    }

    /// The plane whose collection job ordered the copy `op`, which ran in `plane`.
    #[inline]
    pub(crate) fn job_of(&mut self, op: OpId, plane: u32) -> u32 {
        if self.troubles.strays.is_empty() {
            return plane;
        }
        match self.troubles.strays.iter().position(|&(stray, _)| stray == op) {
            Some(at) => self.troubles.strays.swap_remove(at).1,
            None => plane,
        }
    }

    /// A block in which a program failed is closed as soon as nothing in it is under way.
    pub(crate) fn close_doomed(&mut self, block: Block) {
        if !self.nand.programs_pending(block) && self.blocks.state(block) == State::Open {
            self.blocks.close(block, self.nand.now());
            self.note_doomed(block);
        }
    }

    /// A closed block is to be emptied and taken out of use.
    pub(crate) fn note_doomed(&mut self, block: Block) {
        self.troubles.doomed.push(block);
        let plane = self.geometry().plane_of(block);
        self.gc_look.push(plane);
    }

    /// The next block of `plane` to be emptied because a program in it failed.
    #[inline]
    pub(crate) fn doomed_victim(&mut self, plane: u32) -> Option<Block> {
        if self.troubles.doomed.is_empty() {
            return None;
        }
        self.next_doomed(plane)
    }

    #[cold]
    fn next_doomed(&mut self, plane: u32) -> Option<Block> {
        let mut list = std::mem::take(&mut self.troubles.doomed);
        list.retain(|&block| self.blocks.state(block) == State::Closed);
        let here = |block: Block| self.geometry().plane_of(block) == plane;
        let at = list.iter().position(|&block| here(block) && self.survivors_fit(plane, block));
        let found = at.map(|at| list.swap_remove(at));
        self.troubles.doomed = list;
        found
    }

    /// The sectors of `mask` of a logical page that the flash no longer returns.
    #[inline]
    pub(crate) fn unreadable(&self, lpn: u32, mask: u64) -> u64 {
        if !self.nand.array().any_lost() {
            return 0;
        }
        let mut gone = 0;
        for f in self.fragments.get(lpn, self.nand.array()) {
            let lost = self.nand.array().lost(f.ppn);
            let at_home = if f.shift >= 0 { lost >> f.shift } else { lost << -f.shift };
            gone |= at_home & f.mask & mask;
        }
        gone
    }
}
