//! What the drive makes of failures of the flash.
//!
//! A program that fails is repeated in another block, under the version of the first attempt, before
//! anything that waits for it goes on. No further page of the block is written if its plane can spare the
//! rest of it; its live pages are moved as soon as the plane can spare the room, and the erase behind
//! that takes it out of use. A read that returns nothing is the host's to know, for
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
    /// Full or avoided blocks in which a program failed, to be emptied.
    doomed: Vec<Block>,
    /// Half-written blocks of which no further page is written.
    avoided: Vec<Block>,
    /// The blocks that repeated programs go to, at most one in a plane.
    rescue: Vec<Block>,
    /// Copies of garbage collection that were repeated in another plane, and whose job they are of.
    strays: Vec<(OpId, u32)>,
}

impl Troubles {
    /// Open blocks that the allocation does not know.
    pub fn apart(&self) -> Vec<Block> {
        [self.avoided.as_slice(), &self.rescue].concat()
    }
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
        let full = self.array().pages_programmed(block) == self.geometry().pages_per_block;
        if self.troubles.rescue.contains(&block) {
            self.troubles.rescue.retain(|&b| b != block);
            self.troubles.avoided.push(block);
        } else if !full
            && !self.troubles.avoided.contains(&block)
            && self.spare(plane) > self.layout.soft_blocks
        {
            self.allocation.avoid(plane, block, self.nand.array(), &mut self.blocks);
            if let Some(home) = self.blocks.object(block) {
                self.streams.avoid(home, block);
            }
            self.troubles.avoided.push(block);
        }
        let seq = self.array().seq(from);
        self.void_checkpoint(seq);
        let label = self.array().oob(from).stream;
        let class = PageClass::of_label(label);
        let Some(to) = self.rescue_page(plane) else {
            self.nand.abandon(op);
            self.read_only = true;
            return false;
        };
        if done.cause == nandle_nand::Cause::Gc {
            let job = self.job_of(op, plane);
            self.troubles.strays.push((op, job));
        }
        self.repeat(op, from, to, class.label(Role::Gc));
        self.program_done(from);
        true
    }

    /// A page for a repeated program: in a block that nothing else is written to, because whatever is on
    /// order in another block may wait for just this program.
    fn rescue_page(&mut self, plane: u32) -> Option<Ppn> {
        let others = (0..self.geometry().planes()).filter(|&p| p != plane);
        std::iter::once(plane).chain(others).find_map(|plane| {
            let at = self.troubles.rescue.iter().position(|&b| self.nand.geometry().plane_of(b) == plane);
            let at = match at {
                Some(at) => at,
                None => {
                    let block = self.blocks.take_free(plane, false)?;
                    self.gc_look.push(plane);
                    self.troubles.rescue.push(block);
                    self.troubles.rescue.len() - 1
                }
            };
            let block = self.troubles.rescue[at];
            let last = self.array().pages_programmed(block) + 1 == self.geometry().pages_per_block;
            if last {
                self.troubles.rescue.swap_remove(at);
            }
            self.array().next_strict(block)
        })
    }

    /// The program `op` of `from` becomes one of `to`, and so does whatever the map says of `from`.
    fn repeat(&mut self, op: OpId, from: Ppn, to: Ppn, label: u16) {
        let (kind, live, extra) =
            (self.array().page_use(from), self.blocks.is_live(from), self.blocks.is_extra(from));
        let beside = kind.is_data() && self.lies_beside(from);
        let mut held: SmallVec<[(u32, FragmentList); 2]> = SmallVec::new();
        let mut area = None;
        let mut number = 0;
        if let Extents::Home { lpn, .. } = self.array().oob(from).extents {
            number = lpn;
        }
        if live && kind.is_data() {
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
            PageUse::Data | PageUse::Area => {
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
        let over = self.nand.array().pages_programmed(block) == self.geometry().pages_per_block
            || self.troubles.avoided.contains(&block);
        if over && !self.nand.programs_pending(block) && self.blocks.state(block) == State::Open {
            self.troubles.avoided.retain(|&b| b != block);
            self.blocks.close(block, self.nand.now());
            self.note_doomed(block);
        }
    }

    /// A closed block is to be emptied and taken out of use; it is no candidate for collection, which
    /// would gain nothing.
    pub(crate) fn note_doomed(&mut self, block: Block) {
        if self.blocks.object(block).is_some() {
            self.blocks.forget_emptied(block);
        }
        self.blocks.condemn(block);
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
        let spare = self.spare(plane) > self.layout.soft_blocks;
        let at = self.troubles.doomed.iter().position(|&block| {
            self.geometry().plane_of(block) == plane && (spare || self.blocks.valid(block) == 0)
        })?;
        Some(self.troubles.doomed.swap_remove(at))
    }

    /// Whether failures have taken anything from the drive since power-on.
    pub(crate) fn has_failed(&self) -> bool {
        self.stats.program_failures + self.stats.erase_failures > 0 || self.read_only
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
