//! Pages that are being filled, where one program fills several of the pages that the map knows.

use nandle_nand::{Block, OpId, Ppn};

use super::open_pages::OpenPage;
use super::{Media, Record};

impl Media {
    /// Pages of the map that one program fills.
    #[inline]
    pub fn slots(&self) -> u32 {
        self.slots
    }
    /// Whether `ppn` lies in a page that is being filled: what it holds is in RAM.
    #[inline]
    pub fn is_open(&self, ppn: Ppn) -> bool {
        self.slots > 1 && self.array().is_open(ppn)
    }
    /// The pages that are being filled, in the order in which they were opened.
    #[inline]
    pub fn open_pages(&self) -> &[OpenPage] {
        &self.open
    }
    /// A read that was just ordered brings `sectors` more of its page.
    pub(crate) fn widen(&mut self, read: OpId, sectors: u32) {
        self.nand.widen(read, sectors);
    }
    /// Whether the page that `ppn` was entered into last has no slot left.
    fn is_full(&self, ppn: Ppn) -> bool {
        self.array().pages_programmed(self.geometry().block_of(ppn)).is_multiple_of(self.slots)
    }

    /// Enters a page into the next slot, opening a page with it if need be.
    pub(super) fn enter(&mut self, ppn: Ppn, record: &Record<'_>, after: &[OpId]) -> OpId {
        let &Record { ref oob, cause, background, durable, waiter, .. } = record;
        let op = self.nand.enter(ppn, oob, cause, background, after);
        let first = self.array().first_slot(ppn);
        if first == ppn {
            self.waiters.enter_program(op, waiter, None);
            self.open.push(OpenPage::new(first, op, cause));
        } else {
            self.waiters.join(op, waiter);
        }
        let is_full = self.is_full(ppn);
        if let Some(page) = self.open.iter_mut().find(|page| page.op == op) {
            page.is_full = is_full;
            page.is_awaited |= waiter.request.is_some();
            page.release += waiter.release;
        }
        if durable {
            self.make_durable(op);
        }
        op
    }

    /// A FLUSH waits for an open page: its program counts, once.
    fn make_durable(&mut self, op: OpId) {
        if let Some(page) = self.open.iter_mut().find(|page| page.op == op && !page.durable) {
            page.durable = true;
            self.waiters.set_barrier(op, self.barriers.enter());
        }
    }

    /// The page is filled no further, and programmed. How many slots stay empty.
    pub(crate) fn seal(&mut self, page: &OpenPage) -> u32 {
        self.open.retain(|other| other.op != page.op);
        self.nand.seal(page.op)
    }

    /// What `old`, which lies in a page that is being filled, stood for is stored by `by` from now on: what
    /// was not to be erased before the one is not to be erased before the other.
    #[cold]
    pub(super) fn supersede_open(&mut self, old: Ppn, by: OpId) {
        let first = self.array().first_slot(old);
        let Some(page) = self.open.iter_mut().find(|page| page.first == first) else { return };
        page.stale = true;
        let OpenPage { op, durable, .. } = *page;
        if op != by {
            self.nand.inherit_holds(op, by);
            self.nand.remember(op);
        }
        if durable {
            // The page that a FLUSH waits for will not list it.
            self.make_durable(by);
        }
    }

    /// Something in the page that `ppn` lies in is no longer stored; if that page is being filled, the blocks
    /// that wait for its program.
    pub(crate) fn vacate(&mut self, ppn: Ppn) -> Vec<Block> {
        if !self.is_open(ppn) {
            return Vec::new();
        }
        let first = self.array().first_slot(ppn);
        let Some(page) = self.open.iter_mut().find(|page| page.first == first) else { return Vec::new() };
        page.stale = true;
        self.nand.remember(page.op);
        self.nand.held_by(page.op).collect()
    }

    /// Whether `block` waits for the program of `page`.
    pub(crate) fn is_held_by(&self, block: Block, page: &OpenPage) -> bool {
        self.nand.held_by(page.op).any(|held| held == block)
    }

    /// Further requests that waited for a program that is done.
    #[inline]
    pub(crate) fn next_joined(&mut self, op: OpId) -> Option<u32> {
        self.waiters.next_joined(op)
    }
}
