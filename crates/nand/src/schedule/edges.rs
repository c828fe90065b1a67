//! Who waits for whom: operations for others, erases for what supersedes their blocks.

use super::Nand;
use crate::op::NONE;
use crate::{Block, Kind, OpId, Ppn};

impl Nand {
    #[inline]
    pub(super) fn add_edge(&mut self, value: u32, next: u32) -> u32 {
        if self.free_edge == NONE {
            self.edges.push((value, next));
            (self.edges.len() - 1) as u32
        } else {
            let slot = self.free_edge;
            self.free_edge = self.edges[slot as usize].1;
            self.edges[slot as usize] = (value, next);
            slot
        }
    }

    #[inline(always)]
    pub(super) fn wait_for(&mut self, op: u32, before: u32) {
        self.ops[op as usize].waits += 1;
        self.ops[before as usize].dependents = self.add_edge(op, self.ops[before as usize].dependents);
    }

    #[inline(always)]
    pub(super) fn hold<const PLAIN: bool>(&mut self, block: Block, op: u32) {
        let at = self.array.at_of::<PLAIN>(block);
        self.array.blocks[at].holds += 1;
        let slot = &mut self.ops[op as usize];
        if slot.holds == NONE {
            slot.holds = block.0;
        } else {
            self.hold_further(block, op);
        }
    }

    #[cold]
    pub(super) fn hold_further(&mut self, block: Block, op: u32) {
        self.ops[op as usize].more_holds = self.add_edge(block.0, self.ops[op as usize].more_holds);
    }

    #[inline(always)]
    pub(super) fn release_wait(&mut self, op: u32) {
        let slot = &mut self.ops[op as usize];
        slot.waits -= 1;
        if slot.waits == 0 {
            if self.stages.waits_for_controller {
                self.stages.ready.push_back(op);
            } else {
                self.enqueue(op);
            }
        }
    }

    /// As [`Nand::release_wait`] for an operation that was ordered just now: what it is need not be looked up.
    #[inline(always)]
    pub(super) fn release_order<const PLAIN: bool>(&mut self, op: u32, kind: Kind, background: bool) {
        let slot = &mut self.ops[op as usize];
        slot.waits -= 1;
        if slot.waits == 0 {
            let die = self.array.flash().die_of_plane(slot.plane);
            if self.stages.waits_for_controller {
                self.stages.ready.push_back(op);
            } else {
                self.enqueue_at::<PLAIN>(op, die, kind, background);
            }
        }
    }

    /// The blocks that are not erased before `op` is done.
    pub fn held_by(&self, op: OpId) -> impl Iterator<Item = Block> + '_ {
        let slot = &self.ops[op.0 as usize];
        let first = (slot.holds != NONE).then_some(Block(slot.holds));
        let edge = |at: u32| (at != NONE).then(|| self.edges[at as usize]);
        let more = std::iter::successors(edge(slot.more_holds), move |&(_, next)| edge(next));
        first.into_iter().chain(more.map(|(block, _)| Block(block)))
    }

    /// Blocks that wait for `from` wait for `op` as well.
    pub fn inherit_holds(&mut self, from: OpId, op: OpId) {
        let blocks: Vec<Block> = self.held_by(from).collect();
        for block in blocks {
            self.hold_once(block, op);
        }
    }

    /// What has to be done before `from` is erased comes before an erase of `to` as well: a page went there whose
    /// successor is not on flash yet.
    pub(super) fn share_holds(&mut self, from: Block, to: Block) {
        let of_from =
            |&op: &OpId| self.ops[op.0 as usize].pending && self.held_by(op).any(|held| held == from);
        let holders: Vec<OpId> = (0..self.ops.len() as u32).map(OpId).filter(of_from).collect();
        holders.into_iter().for_each(|op| self.hold_once(to, op));
    }

    pub(super) fn hold_once(&mut self, block: Block, op: OpId) {
        if self.held_by(op).all(|held| held != block) {
            self.hold::<false>(block, op.0);
        }
    }

    /// `old`'s contents may be lost only when `by` is done: its block is not erased before.
    #[inline(always)]
    pub fn supersede(&mut self, old: Ppn, by: OpId) {
        self.supersede_on::<false>(old, by);
    }
    /// As [`Nand::supersede`]; `PLAIN`: the flash is known to be plain ([`Array::is_plain`](crate::Array::is_plain)).
    #[inline(always)]
    pub fn supersede_on<const PLAIN: bool>(&mut self, old: Ppn, by: OpId) {
        let block = self.geometry().block_of(old);
        if self.ops[by.0 as usize].holds != block.0 {
            self.hold::<PLAIN>(block, by.0);
        }
    }

    /// Whether contents are forgotten as soon as they may be lost, not only when their block is erased.
    #[inline]
    pub fn forgets(&self) -> bool {
        self.stale.is_some()
    }

    /// From now on contents are kept until their block is erased ([`Array::keep_stale`](crate::Array::keep_stale)).
    pub fn keep_stale(&mut self) {
        self.array.keep_stale();
        self.stale = None;
    }

    /// As [`Nand::supersede`], of some sectors of `old`: nobody asks for them once `by` is done.
    pub fn forget_after(&mut self, old: Ppn, sectors: u64, by: OpId) {
        if let Some(stale) = &mut self.stale {
            stale.put(by, old, sectors);
        }
    }

    #[cold]
    fn forget(&mut self, op: OpId) {
        let Some(stale) = &mut self.stale else { return };
        stale.take(op).for_each(|(ppn, sectors)| self.array.forget(ppn, sectors));
    }

    /// What was to be forgotten once the operation is done stays: that will not be all that supersedes it.
    pub fn remember(&mut self, op: OpId) {
        if let Some(stale) = &mut self.stale {
            stale.take(op).for_each(drop);
        }
    }

    /// The operation is over: what waits for it may go on, and its slot is free.
    #[inline(always)]
    pub(super) fn let_go<const PLAIN: bool>(&mut self, op: u32) {
        let slot = &mut self.ops[op as usize];
        slot.pending = false;
        slot.next = std::mem::replace(&mut self.free, op);
        self.in_flight -= 1;
        let (mut edge, holds, more) = (slot.dependents, slot.holds, slot.more_holds);
        while edge != NONE {
            let (waiter, next) = self.edges[edge as usize];
            self.edges[edge as usize].1 = self.free_edge;
            self.free_edge = edge;
            self.release_wait(waiter);
            edge = next;
        }
        if holds != NONE {
            if self.stale.is_some() {
                self.forget(OpId(op));
            }
            self.release_hold::<PLAIN>(holds);
        }
        if more != NONE {
            self.release_further(more);
        }
    }

    #[inline(never)]
    fn release_further(&mut self, mut more: u32) {
        while more != NONE {
            let (held, next) = self.edges[more as usize];
            self.edges[more as usize].1 = self.free_edge;
            self.free_edge = more;
            self.release_hold::<false>(held);
            more = next;
        }
    }

    #[inline(always)]
    fn release_hold<const PLAIN: bool>(&mut self, block: u32) {
        let at = self.array.at_of::<PLAIN>(Block(block));
        let state = &mut self.array.blocks[at];
        state.holds -= 1;
        if state.holds == 0 && state.erase != NONE {
            let erase = state.erase;
            self.start_erase(erase);
        }
    }
}
