//! Dies and channels at work, from event to event.

use super::{Die, Nand, Phase, Suspended, WINDOW};
use crate::op::{NONE, Op};
use crate::{Array, Cause, Done, Kind, OpId, Ppn, Suspend, Time};

impl Die {
    /// The array works from `start` on; until when.
    #[inline(always)]
    fn start_array(&mut self, start: Time, duration: u64) -> Time {
        self.phase = Phase::Array;
        (self.array_start, self.array_end) = (start, start + duration);
        self.busy_ns += duration;
        self.array_end
    }

    /// The die, of this number, may have something to begin.
    #[inline(always)]
    fn look_at(&mut self, number: u32, dirty: &mut Vec<u32>) {
        if !self.dirty {
            self.dirty = true;
            dirty.push(number);
        }
    }

    /// The die is free.
    #[inline(always)]
    fn leave(&mut self, number: u32, dirty: &mut Vec<u32>) {
        (self.op, self.phase) = (NONE, Phase::Idle);
        self.look_at(number, dirty);
    }
}

/// How long the array works on `op` and on what other planes do with it.
#[inline(always)]
fn longest(ops: &[Op], op: u32) -> u64 {
    let head = &ops[op as usize];
    let (mut longest, mut op) = (head.array_ns, head.group);
    while op != NONE {
        longest = longest.max(ops[op as usize].array_ns);
        op = ops[op as usize].group;
    }
    longest
}

// Slices are taken out of `self` first, so that their bounds are not read again behind every store. What every operation
// goes through is laid out in its caller, which has found the die and the operation already; the rest is called.
impl Nand {
    #[inline(always)]
    pub(super) fn enqueue(&mut self, op: u32) {
        let slot = &self.ops[op as usize];
        let (kind, background) = (slot.kind, slot.background);
        let die = self.array.flash().die_of_plane(slot.plane);
        self.enqueue_at::<false>(op, die, kind, background);
    }

    /// As [`Nand::enqueue`] for an operation of which this is known.
    #[inline(always)]
    pub(super) fn enqueue_at<const PLAIN: bool>(
        &mut self,
        op: u32,
        die_number: u32,
        kind: Kind,
        background: bool,
    ) {
        if self.timing.untimed {
            return self.enqueue_untimed(op);
        }
        let ops = self.ops.as_mut_slice();
        let slot = &mut ops[op as usize];
        slot.order = self.order;
        self.order += 1;
        let class = usize::from(background) * 2 + usize::from(kind != Kind::Read);
        let parity = if PLAIN { NONE } else { std::mem::replace(&mut slot.parity, NONE) };
        let die = &mut self.dies[die_number as usize];
        let list = &mut die.queue[class];
        if die.filled & 1 << class == 0 {
            die.filled |= 1 << class;
            list.head = op;
        } else {
            ops[list.tail as usize].next = op;
        }
        list.tail = op;
        if die.phase == Phase::Idle || !PLAIN && self.heard >> class & 1 != 0 {
            die.look_at(die_number, &mut self.dirty);
        }
        if parity != NONE {
            self.release_parity(parity);
        }
    }

    /// The last program that the parity of its stripe waits for is queued.
    #[inline(never)]
    fn release_parity(&mut self, parity: u32) {
        self.release_wait(parity);
    }

    /// Starts whatever can start now. Call after each batch of orders.
    #[inline(always)]
    pub fn settle(&mut self) {
        self.settle_on::<false>();
    }

    /// As [`Nand::settle`]; `PLAIN`: the flash is known to be plain ([`Nand::is_plain`]).
    #[inline(always)]
    pub fn settle_on<const PLAIN: bool>(&mut self) {
        while let Some(die) = self.dirty.pop() {
            let state = &mut self.dies[die as usize];
            state.dirty = false;
            if state.phase == Phase::Idle {
                if state.filled != 0 || !PLAIN && state.suspended.is_some() {
                    self.dispatch::<PLAIN>(die);
                }
            } else if !PLAIN && self.heard != 0 {
                self.begin_reads(die);
            }
        }
    }

    /// Reads that may begin on a die that is at work begin.
    #[inline(never)]
    fn begin_reads(&mut self, die_number: u32) {
        if self.dies[die_number as usize].phase == Phase::Reads {
            self.read_planes(die_number);
        } else if self.timing.suspend != Suspend::None {
            self.try_suspend(die_number);
        }
    }

    #[inline(never)]
    pub(super) fn dispatch<const PLAIN: bool>(&mut self, die_number: u32) {
        let ops = self.ops.as_mut_slice();
        let die = &mut self.dies[die_number as usize];
        debug_assert!(die.op == NONE, "two operations on a die");
        let class = if !PLAIN && die.suspended.is_some() {
            // A suspended operation resumes as soon as no host read waits.
            (die.filled & 1 != 0).then_some(0)
        } else {
            die.pick_class(self.timing.scheduler, ops)
        };
        let Some(class) = class else {
            if let Some(Suspended { op, remaining }) = die.suspended.take() {
                die.op = op;
                self.start_array(die_number, remaining + self.timing.suspend_ns);
            }
            return;
        };
        let op = die.queue[class].head;
        let slot = &mut ops[op as usize];
        let next = std::mem::replace(&mut slot.next, NONE);
        die.queue[class].head = next;
        if next == NONE {
            die.filled &= !(1 << class);
        }
        (die.op, die.member) = (op, op);
        let is_program = slot.kind == Kind::Program && !slot.reads_first();
        let transfer = if is_program { slot.channel_time() } else { 0 };
        // Not idle any more: what follows in the same block does not look at the die again.
        die.phase = if is_program { Phase::TransferIn } else { Phase::Command };
        let follower = slot.begin(self.now);
        if follower != NONE {
            self.follow(follower);
        }
        if !PLAIN && self.joins && self.join(die_number, class) {
            return;
        }
        let duration = self.timing.command_ns + transfer;
        if is_program || duration > 0 {
            self.want_channel::<PLAIN>(die_number, duration);
        } else {
            self.start_array(die_number, self.array_time(op));
        }
    }

    /// Other planes join the operation just taken; whether it is a read that they do not have to wait for.
    #[inline(never)]
    fn join(&mut self, die_number: u32, class: usize) -> bool {
        let op = self.dies[die_number as usize].op;
        let apart = self.timing.independent_plane_reads && self.ops[op as usize].kind == Kind::Read;
        if apart {
            self.read_apart(die_number, op);
        } else if self.timing.multi_plane {
            self.gather(die_number, class);
        }
        apart
    }

    /// Adds to the operation just taken what other planes can do in the same array operation.
    fn gather(&mut self, die_number: u32, class: usize) {
        let head = self.dies[die_number as usize].op;
        let row = |array: &Array, op: &Op| array.place(Ppn(op.ppn)).0;
        let (kind, page) = (self.ops[head as usize].kind, row(&self.array, &self.ops[head as usize]));
        let slc = |array: &Array, op: &Op| array.is_slc(array.geometry().block_of(Ppn(op.ppn)));
        let in_slc_mode = slc(&self.array, &self.ops[head as usize]);
        let page_type = self.array.cell.page_type(page);
        let mut planes = self.array.flash().plane_bit(self.ops[head as usize].plane);
        let mut last = head;
        let mut before = NONE;
        let mut op = self.dies[die_number as usize].queue[class].head;
        for _ in 0..WINDOW {
            if op == NONE {
                break;
            }
            let next = self.ops[op as usize].next;
            let slot = &self.ops[op as usize];
            let plane = self.array.flash().plane_bit(slot.plane);
            let other = row(&self.array, slot);
            let fits = slot.kind == kind
                && planes & plane == 0
                && (kind == Kind::Erase || slc(&self.array, slot) == in_slc_mode)
                && (kind == Kind::Erase
                    || other == page
                    || (!self.timing.multi_plane_same_offset
                        && self.array.cell.page_type(other) == page_type));
            if fits {
                planes |= plane;
                self.dies[die_number as usize].unlink(class, before, op, &mut self.ops);
                self.ops[last as usize].group = op;
                last = op;
                self.begin(op);
            } else {
                before = op;
            }
            op = next;
        }
        if last != head {
            self.counters.multi_plane += 1;
        }
    }

    /// The operation is on its die: the block's next program may follow.
    #[inline(always)]
    pub(super) fn begin(&mut self, op: u32) {
        let follower = self.ops[op as usize].begin(self.now);
        if follower != NONE {
            self.follow(follower);
        }
    }

    /// The program before `op` in its block is on its die.
    #[inline(never)]
    fn follow(&mut self, op: u32) {
        self.ops[op as usize].behind = false;
        self.release_wait(op);
    }

    #[inline(always)]
    pub(super) fn channel_time(&self, op: u32) -> u64 {
        self.ops[op as usize].channel_time()
    }

    #[inline]
    pub(super) fn array_time(&self, op: u32) -> u64 {
        longest(&self.ops, op)
    }

    #[inline(always)]
    pub(super) fn start_array(&mut self, die_number: u32, duration: u64) {
        let die = &mut self.dies[die_number as usize];
        let late = self.ops[die.op as usize].is_long();
        self.timers.set_in(late, die_number, die.start_array(self.now, duration));
    }

    #[inline(always)]
    pub(super) fn want_channel<const PLAIN: bool>(&mut self, die_number: u32, duration: u64) {
        let number = self.dies[die_number as usize].channel;
        let channel = &mut self.channels[number as usize];
        if channel.waiting.is_empty() && channel.die.is_none() {
            if channel.free_at <= self.now {
                return self.grant::<PLAIN>(number, die_number, duration, false);
            }
            // Nobody had to be told when this transfer is over; now somebody has.
            self.timers.set(self.dies.len() as u32 + number, channel.free_at);
        }
        channel.waiting.push_back((die_number, duration));
    }

    /// `waited_for`: another die waits for the channel, and goes on when this transfer is over.
    #[inline(always)]
    pub(super) fn grant<const PLAIN: bool>(
        &mut self,
        number: u32,
        die_number: u32,
        duration: u64,
        waited_for: bool,
    ) {
        let free_at = self.now + duration;
        if !PLAIN && self.stages.tells_handover {
            self.note_handover(die_number, free_at);
        }
        let alarm = self.dies.len() as u32 + number;
        let ops = self.ops.as_slice();
        let (die, channel) = (&mut self.dies[die_number as usize], &mut self.channels[number as usize]);
        die.busy_ns += duration;
        channel.free_at = free_at;
        channel.busy_ns += duration;
        // What follows a command or the last transfer in is certain, unless it can be suspended: one
        // event is enough for both.
        let last = die.phase == Phase::Command
            || die.phase == Phase::TransferIn && (PLAIN || ops[die.member as usize].group == NONE);
        let at_once = last && (PLAIN || self.timing.suspend == Suspend::None);
        channel.die = (!at_once).then_some(die_number);
        if at_once {
            let op = &ops[die.op as usize];
            let duration = if PLAIN { op.array_ns } else { longest(ops, die.op) };
            self.timers.set_in(op.is_long(), die_number, die.start_array(free_at, duration));
        }
        if waited_for || !at_once {
            self.timers.set(alarm, free_at);
        }
    }

    pub(super) fn try_suspend(&mut self, die_number: u32) {
        let die = &self.dies[die_number as usize];
        if die.phase != Phase::Array || die.suspended.is_some() || die.filled & 1 == 0 {
            return;
        }
        let allowed = match self.ops[die.op as usize].kind {
            Kind::Read => false,
            Kind::Program => self.timing.suspend == Suspend::ProgramErase,
            Kind::Erase => self.timing.suspend != Suspend::None,
        };
        if allowed && die.array_end > self.now {
            let die = &mut self.dies[die_number as usize];
            let remaining = die.array_end - self.now;
            die.busy_ns -= remaining;
            die.suspended = Some(Suspended { op: die.op, remaining });
            die.op = NONE;
            die.phase = Phase::Idle;
            self.timers.clear(die_number);
            self.counters.suspensions += 1;
            self.dispatch::<false>(die_number);
        }
    }

    /// When the next thing happens, if anything is under way.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        let time = self.next_time();
        (time != Time::MAX).then_some(time)
    }

    /// When the next thing happens; [`Time::MAX`] if nothing is under way.
    #[inline]
    pub fn next_time(&self) -> Time {
        self.timers.next()
    }

    /// Moves time forward to `to`, at which nothing may have been left undone before.
    pub fn advance(&mut self, to: Time) {
        debug_assert!(to >= self.now, "time runs forward");
        debug_assert!(self.timers.next() >= to, "something was to happen before");
        self.now = to;
    }

    /// Carries out the next event, if there is one. What came to its end is in [`Nand::done`] until the
    /// next step. [`Nand::settle`] afterwards.
    #[inline(always)]
    pub fn step(&mut self) {
        self.step_on::<false>();
    }

    /// As [`Nand::step`]; `PLAIN`: the flash is known to be plain ([`Array::is_plain`]).
    #[inline(always)]
    pub fn step_on<const PLAIN: bool>(&mut self) {
        self.forget_done();
        let Some((time, who)) = self.timers.ring() else { return };
        self.now = time;
        let dies = self.dies.len() as u32;
        if self.timing.untimed {
            self.end_all();
        } else if who < dies {
            self.array_done::<PLAIN>(who);
        } else if who < self.handover_alarm() {
            self.transfer_done::<PLAIN>(who - dies);
        } else {
            self.stage_done(who);
        }
    }

    /// Nothing came to its end in the step that is about to be carried out.
    fn forget_done(&mut self) {
        self.done.clear();
        self.stages.taken.clear();
        self.stages.ended_untold = false;
    }

    /// What the last step brought to its end, in order.
    #[inline]
    pub fn done(&self) -> &[Done] {
        &self.done
    }

    pub(super) fn transfer_done<const PLAIN: bool>(&mut self, number: u32) {
        let channel = &mut self.channels[number as usize];
        let told = channel.die.take();
        if let Some((next, duration)) = channel.waiting.pop_front() {
            let waited_for = !channel.waiting.is_empty();
            self.grant::<PLAIN>(number, next, duration, waited_for);
        }
        let Some(die_number) = told else { return };
        let die = &mut self.dies[die_number as usize];
        let member = die.member;
        let next = if PLAIN { NONE } else { self.ops[member as usize].group };
        match die.phase {
            // Plain dies are told only of pages that leave.
            _ if PLAIN => {
                die.leave(die_number, &mut self.dirty);
                self.decode::<true>(member);
            }
            Phase::Command => {
                let op = die.op;
                self.start_array(die_number, self.array_time(op));
            }
            Phase::TransferIn if next != NONE => {
                die.member = next;
                let duration = self.timing.command_ns + self.channel_time(next);
                self.want_channel::<false>(die_number, duration);
            }
            Phase::TransferIn => {
                let op = die.op;
                self.start_array(die_number, self.array_time(op));
            }
            Phase::TransferOut => {
                if next != NONE {
                    die.member = next;
                    let duration = self.channel_time(next);
                    self.want_channel::<false>(die_number, duration);
                } else {
                    self.leave(die_number);
                }
                self.decode::<false>(member);
            }
            Phase::Reads => self.page_sent(die_number),
            Phase::Idle | Phase::Array => unreachable!("a die on the channel is in a transfer phase"),
        }
    }

    #[inline(always)]
    pub(super) fn array_done<const PLAIN: bool>(&mut self, die_number: u32) {
        let die = &mut self.dies[die_number as usize];
        if !PLAIN && die.phase == Phase::Reads {
            return self.plane_done(die_number);
        }
        let op = die.op;
        let slot = &self.ops[op as usize];
        if (slot.kind == Kind::Read || slot.reads_first()) && !slot.copyback {
            die.phase = Phase::TransferOut;
            die.member = op;
            let duration = slot.channel_time();
            return self.want_channel::<PLAIN>(die_number, duration);
        }
        let others = slot.group;
        die.leave(die_number, &mut self.dirty);
        self.finish::<PLAIN>(op);
        if !PLAIN && others != NONE {
            self.finish_group(others);
        }
    }

    /// What other planes did in the same array operation is over.
    #[inline(never)]
    fn finish_group(&mut self, mut op: u32) {
        while op != NONE {
            let next = self.ops[op as usize].group;
            self.finish::<false>(op);
            op = next;
        }
    }

    /// The die is free.
    pub(super) fn leave(&mut self, die_number: u32) {
        self.dies[die_number as usize].leave(die_number, &mut self.dirty);
    }

    /// The die may have something to begin.
    #[inline(always)]
    pub(super) fn look_at(&mut self, die_number: u32) {
        self.dies[die_number as usize].look_at(die_number, &mut self.dirty);
    }

    #[inline(always)]
    pub(super) fn finish<const PLAIN: bool>(&mut self, mut op: u32) {
        let slot = &self.ops[op as usize];
        if slot.reads_first() {
            return self.read_of_copy_done::<PLAIN>(op);
        }
        let (kind, cause, ppn, started) = (slot.kind, slot.cause, Ppn(slot.ppn), slot.started);
        let die = self.array.flash().die_of_plane(slot.plane);
        let block = self.geometry().block_of(ppn);
        let mut failed = false;
        match kind {
            Kind::Read => {}
            Kind::Program => {
                let follower = slot.chain;
                let at = if PLAIN { block.0 as usize } else { self.programmed_by(op) };
                let state = &mut self.array.blocks[at];
                debug_assert_eq!(state.chain_head, op, "a block's programs end in order");
                state.chain_head = follower;
                if follower == NONE {
                    state.chain_tail = NONE;
                }
                if let Some(faults) = &mut self.faults {
                    failed = faults.programs.draw(&mut faults.stream) || faults.is_gone(die);
                }
                if !PLAIN && cause == Cause::Parity {
                    if failed {
                        self.array.lose_parity(ppn);
                        self.array.doom_column(block, (at - self.array.at(block)) as u32);
                    }
                    failed = false;
                } else if !failed {
                    self.array.note_program(ppn, cause);
                }
            }
            Kind::Erase => {
                if let Some(faults) = &mut self.faults {
                    failed = faults.erases.draw(&mut faults.stream) || faults.is_gone(die);
                }
                if self.array.width() > 1 && failed {
                    self.array.doom_column(block, self.array.column_in(block, self.ops[op as usize].plane));
                }
                let at = self.array.at(block);
                let state = &mut self.array.blocks[at];
                state.erasing -= 1;
                let leader = state.erase;
                if state.erasing > 0 {
                    self.loads[die as usize] -= 1;
                    self.stages.ended_untold = true;
                    if op != leader {
                        self.let_go::<false>(op);
                    }
                    return;
                }
                state.erase = NONE;
                self.array.erase(block);
                let worn = self.array.erases(block) >= self.endurance;
                failed |= worn || self.array.is_doomed(block);
                if failed {
                    failed = self.array.replace_failed(block, worn);
                }
                if op != leader {
                    self.let_go::<false>(op);
                    op = leader;
                }
            }
        }
        self.loads[die as usize] -= 1;
        if !PLAIN && kind == Kind::Read && cause == Cause::Parity {
            self.stages.ended_untold = true;
            return self.let_go::<PLAIN>(op);
        }
        self.done.push(Done { op: OpId(op), kind, cause, ppn, started, failed });
        if kind != Kind::Program || !failed {
            self.let_go::<PLAIN>(op);
        }
    }
}
