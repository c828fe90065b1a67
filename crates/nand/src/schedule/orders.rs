//! What the flash is asked to do: reads, programs, erases, and what becomes of a program that failed.

use super::Nand;
use crate::op::{NONE, Op};
use crate::{Block, BlockCondition, Cause, Change, Done, Extents, Kind, Oob, OpId, PageUse, Ppn};

impl Nand {
    #[inline(always)]
    pub(super) fn new_op<const PLAIN: bool>(
        &mut self,
        ppn: Ppn,
        kind: Kind,
        cause: Cause,
        background: bool,
        (transfer, array_ns): (u64, u64),
    ) -> u32 {
        let plane = self.array.plane_of_page::<PLAIN>(ppn);
        self.new_op_in(plane, ppn, kind, cause, background, (transfer, array_ns))
    }

    #[inline(always)]
    pub(super) fn new_op_in(
        &mut self,
        plane: u32,
        ppn: Ppn,
        kind: Kind,
        cause: Cause,
        background: bool,
        (transfer, array_ns): (u64, u64),
    ) -> u32 {
        let op = Op {
            started: 0,
            order: 0,
            array_ns,
            ppn: ppn.0,
            from: NONE,
            transfer: u32::try_from(transfer).unwrap_or(u32::MAX),
            waits: 1, // released when the order is complete
            dependents: NONE,
            holds: NONE,
            more_holds: NONE,
            next: NONE,
            group: NONE,
            chain: NONE,
            parity: NONE,
            plane,
            kind,
            cause,
            background,
            started_once: false,
            copyback: false,
            behind: false,
            pending: true,
            open: false,
        };
        let die = self.array.flash().die_of_plane(plane);
        self.loads[die as usize] += 1;
        self.in_flight += 1;
        if self.free == NONE {
            self.ops.push(op);
            (self.ops.len() - 1) as u32
        } else {
            let slot = self.free;
            self.free = self.ops[slot as usize].next;
            self.ops[slot as usize] = op;
            slot
        }
    }

    /// Orders a read of `sectors` sectors of `ppn`, to start when `after` are done. A page whose
    /// program is still on order is read after it.
    ///
    /// # Panics
    /// If the page is erased: there is nothing to read.
    #[inline(always)]
    pub fn read(&mut self, ppn: Ppn, sectors: u32, cause: Cause, background: bool, after: &[OpId]) -> OpId {
        self.read_on::<false>(ppn, sectors, cause, background, after)
    }

    /// As [`Nand::read`]; `PLAIN`: the flash is known to be plain ([`Array::is_plain`](crate::Array::is_plain)).
    #[inline(always)]
    pub fn read_on<const PLAIN: bool>(
        &mut self,
        ppn: Ppn,
        sectors: u32,
        cause: Cause,
        background: bool,
        after: &[OpId],
    ) -> OpId {
        debug_assert!(
            !matches!(self.array.page_use(ppn), PageUse::Erased | PageUse::Torn),
            "read of an erased or torn page"
        );
        let kind = self.array.page_type_of::<PLAIN>(ppn);
        let block = self.geometry().block_of(ppn);
        let read_ns = if PLAIN { self.timing.read(kind) } else { self.read_ns(ppn, kind) };
        let mut durations = (self.transfer(sectors), read_ns);
        if let Some(retries) = &mut self.retries {
            let count = retries.draw(kind, self.array.erases(block));
            durations.1 += count * retries.ns();
            self.counters.read_retries += count;
        }
        let op = self.new_op::<PLAIN>(ppn, Kind::Read, cause, background, durations);
        self.hold::<PLAIN>(block, op);
        if let Some(program) = self.program_in::<PLAIN>(ppn) {
            self.wait_for(op, program.0);
        }
        for before in after {
            self.wait_for(op, before.0);
        }
        let fails = match &mut self.faults {
            Some(faults) if self.array.page_use(ppn).is_data() => faults.reads.draw(&mut faults.stream),
            _ => false,
        };
        if fails || self.array.needs_rebuilding(ppn) {
            self.fail_read(op, ppn, background);
        }
        self.count_read(kind, sectors, cause);
        self.release_order::<PLAIN>(op, Kind::Read, background);
        OpId(op)
    }

    /// A read of `sectors` sectors of a page of type `kind` counts for `cause`.
    #[inline(always)]
    pub(super) fn count_read(&mut self, kind: usize, sectors: u32, cause: Cause) {
        self.counters.reads[cause as usize][kind] +=
            if self.gang == 1 { 1 } else { u64::from(sectors.div_ceil(self.sectors_per_read)) };
    }

    /// Orders a program of `ppn`, to start when `after` are done and earlier programs of its block
    /// have started. From now on the array shows the page as programmed. `PLAIN`: the flash is known to be plain
    /// ([`Array::is_plain`](crate::Array::is_plain)).
    ///
    /// # Panics
    /// If flash cannot do it: the block is not usable, or the page not next in the program order.
    #[inline(always)]
    pub fn program_on<const PLAIN: bool>(
        &mut self,
        ppn: Ppn,
        oob: &Oob<'_>,
        cause: Cause,
        background: bool,
        after: &[OpId],
    ) -> OpId {
        let (kind, column) = self.array.program::<PLAIN>(ppn, oob);
        let array_ns = if PLAIN { self.timing.program(kind) } else { self.program_ns(ppn, kind) };
        let durations = (self.transfer_page, array_ns);
        let op = self.new_op::<PLAIN>(ppn, Kind::Program, cause, background, durations);
        let stripe = if PLAIN { None } else { self.array.complete_stripe(ppn) };
        self.chain(op, column);
        for before in after {
            self.wait_for(op, before.0);
        }
        self.counters.programs[cause as usize][kind] += self.gang;
        self.release_order::<PLAIN>(op, Kind::Program, background);
        if let Some(column) = stripe {
            self.program_parity(ppn, column, background);
        }
        OpId(op)
    }

    /// Whether a copy is one operation: its read can neither fail nor wait.
    #[inline]
    pub fn copies_whole(&self) -> bool {
        self.copies_whole
    }

    /// From now on (or no longer) [`Nand::done`] has the reads of copies that are one operation too.
    pub fn tell_reads(&mut self, tell: bool) {
        self.tells_reads = tell;
    }

    /// Orders a read of all of page `from` and then a program of `to`, a page of the same plane, as one operation: it is
    /// over when the program is. No program of `from` may be on order.
    ///
    /// # Panics
    /// If flash cannot do it: the block is not usable, or the page not next in the program order.
    #[inline(always)]
    pub fn copy_on<const PLAIN: bool>(
        &mut self,
        from: Ppn,
        to: Ppn,
        oob: &Oob<'_>,
        cause: Cause,
        background: bool,
    ) -> OpId {
        debug_assert!(self.copies_whole() && self.program_of(from).is_none());
        let read = self.array.page_type_of::<PLAIN>(from);
        let (kind, column) = self.array.program::<PLAIN>(to, oob);
        let durations = (self.transfer_page, self.timing.read(read));
        let op = self.new_op::<PLAIN>(to, Kind::Program, cause, background, durations);
        let slot = &mut self.ops[op as usize];
        slot.from = from.0;
        let die = self.array.flash().die_of_plane(slot.plane);
        // Two operations to the die.
        self.loads[die as usize] += 1;
        self.in_flight += 1;
        self.chain(op, column);
        self.count_read(read, self.geometry().sectors_per_page(), cause);
        self.counters.programs[cause as usize][kind] += self.gang;
        self.enqueue_at::<PLAIN>(op, die, Kind::Read, background);
        OpId(op)
    }

    /// The read of a copy is over: its program may begin.
    // By itself: laid out in its caller it makes that keep more at hand, 2% of a run without copies.
    #[inline(never)]
    pub(super) fn read_of_copy_done<const PLAIN: bool>(&mut self, op: u32) {
        let slot = &mut self.ops[op as usize];
        let kind = self.array.page_type_of::<PLAIN>(Ppn(slot.ppn));
        slot.array_ns = self.timing.program(kind);
        let from = std::mem::replace(&mut slot.from, NONE);
        let (background, die) = (slot.background, self.array.flash().die_of_plane(slot.plane));
        self.loads[die as usize] -= 1;
        self.in_flight -= 1;
        self.stages.ended_untold = true;
        if self.tells_reads {
            self.tell_read(op, Ppn(from));
        }
        self.release_order::<PLAIN>(op, Kind::Program, background);
    }

    #[cold]
    fn tell_read(&mut self, op: u32, ppn: Ppn) {
        let &Op { cause, started, .. } = &self.ops[op as usize];
        self.done.push(Done { op: OpId(op), kind: Kind::Read, cause, ppn, started, failed: false });
    }

    /// As [`Nand::program_on`], for the next slot of a page that one program fills together: opens the page, or
    /// joins the program of the page that is open. It waits for [`Nand::seal`].
    ///
    /// # Panics
    /// If flash cannot do it.
    pub fn enter(&mut self, ppn: Ppn, oob: &Oob<'_>, cause: Cause, background: bool, after: &[OpId]) -> OpId {
        self.array.enter(ppn, oob);
        let op = if self.array.first_slot(ppn) == ppn {
            let kind = self.array.page_type(ppn);
            let durations = (self.transfer_page, self.program_ns(ppn, kind));
            let op = self.new_op::<false>(ppn, Kind::Program, cause, background, durations);
            self.ops[op as usize].open = true;
            self.chain(op, self.array.at_column(ppn));
            op
        } else {
            let op = self.array.blocks[self.array.at_column(ppn)].chain_tail;
            self.ops[op as usize].background &= background;
            op
        };
        for before in after {
            self.wait_for(op, before.0);
        }
        OpId(op)
    }

    /// The page of `op` is filled no further: it is programmed as it is. How many slots stay empty.
    pub fn seal(&mut self, op: OpId) -> u32 {
        let slot = &mut self.ops[op.0 as usize];
        debug_assert!(slot.open && slot.pending);
        slot.open = false;
        let (ppn, cause, background) = (Ppn(slot.ppn), slot.cause, slot.background);
        let empty = self.array.seal(ppn);
        let kind = self.array.page_type(ppn);
        self.counters.programs[cause as usize][kind] += self.gang;
        let stripe = self.array.complete_stripe(ppn);
        self.release_wait(op.0);
        if let Some(column) = stripe {
            self.program_parity(ppn, column, background);
        }
        empty
    }

    /// The read `op`, ordered since the last [`Nand::settle`], brings `sectors` more of its page.
    pub fn widen(&mut self, op: OpId, sectors: u32) {
        if self.timing.partial_transfer {
            let more = u32::try_from(self.transfer(sectors)).unwrap_or(u32::MAX);
            let slot = &mut self.ops[op.0 as usize];
            slot.transfer = slot.transfer.saturating_add(more);
        }
    }

    /// Queues a program behind the others of its block of the flash.
    #[inline(always)]
    pub(super) fn chain(&mut self, op: u32, block: usize) {
        let state = &mut self.array.blocks[block];
        let tail = std::mem::replace(&mut state.chain_tail, op);
        if tail == NONE {
            state.chain_head = op;
            return;
        }
        let tail = &mut self.ops[tail as usize];
        tail.chain = op;
        if !tail.started_once {
            let slot = &mut self.ops[op as usize];
            slot.waits += 1;
            slot.behind = true;
        }
    }

    /// A program that failed goes on as a program of page `to`, with the same contents and version.
    /// Whatever waits for it goes on waiting. From now on the array shows `to` as programmed and the
    /// page where it failed as torn.
    ///
    /// # Panics
    /// If flash cannot do it: the block is not usable, or the page not next in the program order.
    pub fn reissue(&mut self, op: OpId, to: Ppn, stream: u16) {
        let slot = &mut self.ops[op.0 as usize];
        let (from, cause) = (Ppn(slot.ppn), slot.cause);
        debug_assert!(slot.pending && slot.kind == Kind::Program);
        let mut stripe = None;
        for (from, to) in self.array.together(from).zip(self.array.together(to)) {
            let oob = self.array.oob(from);
            let list = match oob.extents {
                Extents::Home { .. } => Vec::new(),
                Extents::List(list) => list.to_vec(),
            };
            // Not borrowed from the store that is about to be written.
            let extents = match oob.extents {
                Extents::Home { lpn, start, len } => Extents::Home { lpn, start, len },
                Extents::List(_) => Extents::List(&list),
            };
            let oob = Oob { kind: oob.kind, owner: oob.owner, stream, extents };
            stripe = self.array.lay_in_stripe(to, &oob);
            self.array.repeat(from, to);
        }
        self.array.spoil(from);
        self.share_holds(self.geometry().block_of(from), self.geometry().block_of(to));
        let plane = self.array.plane_of(to);
        let array_ns = self.program_ns(to, self.array.page_type(to));
        let slot = &mut self.ops[op.0 as usize];
        (slot.ppn, slot.plane, slot.waits, slot.started_once, slot.copyback) = (to.0, plane, 1, false, false);
        slot.array_ns = array_ns;
        (slot.next, slot.group, slot.chain) = (NONE, NONE, NONE);
        let die = self.array.flash().die_of_plane(plane);
        self.loads[die as usize] += 1;
        self.chain(op.0, self.array.at_column(to));
        let kind = self.array.page_type(to);
        self.counters.programs[cause as usize][kind] += self.gang;
        let background = self.ops[op.0 as usize].background;
        self.release_wait(op.0);
        if let Some(column) = stripe {
            self.program_parity(self.array.first_slot(to), column, background);
        }
    }

    /// A program that failed is given up: it is over, and what it was to store is lost.
    pub fn abandon(&mut self, op: OpId) {
        let ppn = Ppn(self.ops[op.0 as usize].ppn);
        self.array.lose_page(ppn);
        let block = self.array.geometry.block_of(ppn);
        self.array.doom_column(block, self.array.place(ppn).1);
        self.array.note_loss(ppn);
        self.array.note_change(Change::Block(block));
        self.remember(op);
        self.let_go::<false>(op.0);
    }

    /// A read and the program that waits for it copy a page within a plane: with `copyback` set,
    /// neither uses the channel. To be said before [`Nand::settle`].
    pub fn pair_copyback(&mut self, read: OpId, program: OpId) {
        let same_plane = self.ops[read.0 as usize].plane == self.ops[program.0 as usize].plane;
        // Parity is worked out by the controller: what is copied has to pass it.
        if self.timing.copyback && same_plane && self.array.weave.parity == 0 {
            self.ops[read.0 as usize].copyback = true;
            self.ops[program.0 as usize].copyback = true;
        }
    }

    /// Orders an erase of `block`; it starts when no read of the block is left and everything
    /// that supersedes its contents is on flash.
    ///
    /// # Panics
    /// If the block is bad, already to be erased, or has programs on order.
    pub fn erase(&mut self, block: Block, background: bool) -> OpId {
        let state = &self.array.blocks[self.array.at(block)];
        assert!(
            state.condition != BlockCondition::Bad
                && state.erase == NONE
                && !self.array.is_programmed_now::<false>(block),
            "erase of block {:#x} while it is bad, programmed or already being erased",
            block.0
        );
        let held = state.holds > 0;
        let first = self.geometry().ppn(block, 0);
        let op = self.new_op::<false>(first, Kind::Erase, Cause::Gc, background, (0, self.timing.erase_ns));
        let (at, width) = (self.array.at(block), self.array.width());
        self.array.blocks[at].erase = op;
        self.array.blocks[at].erasing = width as u16;
        self.counters.erases += self.gang * u64::from(width);
        if width > 1 {
            self.erase_further(op, block, background);
        }
        if !held {
            self.start_erase(op);
        }
        OpId(op)
    }

    /// The erases of the other columns follow that of the first.
    pub(super) fn erase_further(&mut self, mut last: u32, block: Block, background: bool) {
        let first = self.geometry().ppn(block, 0);
        let leader = last;
        for column in 0..self.array.width() {
            let plane = self.array.plane_of_column(block, column);
            if plane == self.ops[leader as usize].plane {
                continue;
            }
            let durations = (0, self.timing.erase_ns);
            let op = self.new_op_in(plane, first, Kind::Erase, Cause::Gc, background, durations);
            self.ops[last as usize].chain = op;
            last = op;
        }
    }

    /// Nothing holds an erase up any more.
    pub(super) fn start_erase(&mut self, mut op: u32) {
        while op != NONE {
            let next = self.ops[op as usize].chain;
            self.release_wait(op);
            op = next;
        }
    }

    /// Where the state of the block of the flash is kept that `op` programs.
    #[inline(always)]
    pub(super) fn programmed_by(&self, op: u32) -> usize {
        let slot = &self.ops[op as usize];
        let ppn = Ppn(slot.ppn);
        if slot.cause == Cause::Parity
            && let Some(column) = self.array.parity_column(ppn)
        {
            return self.array.at(self.geometry().block_of(ppn)) + column as usize;
        }
        self.array.at_column(ppn)
    }

    #[inline]
    pub(super) fn transfer(&self, sectors: u32) -> u64 {
        if self.timing.partial_transfer {
            self.timing.transfer(self.geometry(), sectors)
        } else if self.gang == 1 {
            self.transfer_page
        } else {
            self.transfer_page / self.gang * u64::from(sectors.div_ceil(self.sectors_per_read))
        }
    }
}
