//! When everything happens: dies, channels and the operations that wait for them.
//!
//! An operation is a few phases, each on one resource. A die is taken from an operation's first
//! phase to its last (no cache registers): read = [command] array, transfer out; program = transfer
//! in, array; erase = [command] array. A channel carries one transfer at a time, first come first
//! served. Events are ordered by (time, resource number), so a run depends on nothing else.

use serde::{Deserialize, Serialize};

use crate::fault::Faults;
use crate::op::{NONE, Op};
use crate::stages::{Retries, Stages};
use crate::timers::Timers;
use crate::{
    Array, Block, BlockCondition, Cause, Cell, CellKind, Change, Done, Extents, FaultConfig, Geometry, Kind,
    Oob, OpId, PageUse, Ppn, ProgramOrder, Scheduler, Shape, Silicon, SlcMode, Superblocks, Suspend, Time,
    Timing,
};

/// Everything that makes a flash array what it is.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NandConfig {
    /// Its shape, as it is addressed.
    pub geometry: Geometry,
    /// Addressed pages that one page of the flash holds, and one program fills (a power of two).
    pub slots: u32,
    /// Planes of a die that work together, as one plane with wider pages: `geometry` counts them as one.
    pub gang: u32,
    /// Addressed blocks are superblocks.
    pub superblocks: Option<Superblocks>,
    /// Bits per cell.
    pub kind: CellKind,
    /// The program order it insists on.
    pub order: ProgramOrder,
    /// Erases that a block stands before it goes bad; 0 = without limit.
    pub endurance: u32,
    /// How long everything takes.
    pub timing: Timing,
    /// An interrupted program of an upper page destroys the lower pages of its word line too.
    pub paired_pages: bool,
    /// Blocks may be written in SLC mode.
    pub slc: Option<SlcMode>,
}

impl NandConfig {
    /// The array before anything was programmed, keeping `unit` bytes of contents a sector.
    pub fn erased(&self, unit: usize) -> Array {
        let of_block = self.superblocks.as_ref().map_or(&self.geometry, |of| &of.flash).pages_per_block;
        let cell = Cell::new(self.kind, self.order, of_block / self.slots);
        let mut array =
            Array::with_slots(self.geometry.clone(), cell, unit, self.slots, self.superblocks.as_ref());
        array.slc_labels = self.slc.as_ref().map(|slc| slc.labels);
        array
    }
}

/// What a die is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Idle,
    /// Waiting for the channel, or on it.
    Command,
    TransferIn,
    Array,
    TransferOut,
}

#[derive(Clone, Debug)]
pub(crate) struct Suspended {
    pub op: u32,
    remaining: u64,
}

#[derive(Clone, Debug)]
pub(crate) struct Die {
    /// Head of the group in service.
    pub op: u32,
    /// The group's member on the channel.
    member: u32,
    pub phase: Phase,
    /// When the array begins and ends; before that, in phase `Array`, what precedes it is on the channel.
    pub array_start: u64,
    array_end: u64,
    /// Host reads, other host operations, background reads, other background operations; bit n of
    /// `filled`: class n is not empty.
    queue: [List; 4],
    filled: u8,
    pub suspended: Option<Suspended>,
    /// Operations waiting or in service.
    load: u32,
    dirty: bool,
    channel: u32,
    busy_ns: u64,
}

impl Die {
    /// The class whose oldest operation goes first, as the scheduler says.
    #[inline]
    fn pick_class(&self, scheduler: Scheduler, ops: &[Op]) -> Option<usize> {
        /// Lanes of reads, and of the host.
        const READS: u8 = 0b0101;
        const HOST: u8 = 0b0011;
        let before = |first: u8| if self.filled & first != 0 { self.filled & first } else { self.filled };
        let mut classes = match scheduler {
            Scheduler::Fifo => self.filled,
            Scheduler::ReadFirst => before(READS),
            Scheduler::HostOverGc => before(HOST),
            Scheduler::Priority => self.filled & self.filled.wrapping_neg(),
        };
        if classes == 0 {
            return None;
        }
        let mut oldest = classes.trailing_zeros() as usize;
        classes &= classes - 1;
        while classes != 0 {
            let class = classes.trailing_zeros() as usize;
            let order = |class: usize| ops[self.queue[class].head as usize].order;
            if order(class) < order(oldest) {
                oldest = class;
            }
            classes &= classes - 1;
        }
        Some(oldest)
    }
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

#[derive(Clone, Debug, Default)]
struct Channel {
    /// The die to be told when the transfer is over.
    die: Option<u32>,
    free_at: Time,
    waiting: std::collections::VecDeque<(u32, u64)>,
    busy_ns: u64,
}

/// How often everything was done.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Counters {
    /// Pages of the flash that were read, by cause and page type.
    pub reads: [[u64; 4]; Cause::COUNT],
    /// Pages of the flash that were programmed, by cause and page type.
    pub programs: [[u64; 4]; Cause::COUNT],
    /// Blocks of the flash that were erased.
    pub erases: u64,
    /// Suspensions.
    pub suspensions: u64,
    /// Array operations that covered several planes.
    pub multi_plane: u64,
    /// Repetitions of reads.
    pub read_retries: u64,
    /// Reads of pages that had to be rebuilt from their stripe.
    pub rebuilt: u64,
}

/// An operation that may go to its die, as the controller sees it.
#[derive(Clone, Copy, Debug)]
pub struct Ready {
    /// Which one.
    pub op: OpId,
    /// Its die.
    pub die: u32,
    /// For whom.
    pub cause: Cause,
    /// Nothing of the host's waits for it.
    pub background: bool,
}

/// A flash array in time.
#[derive(Clone, Debug)]
pub struct Nand {
    pub(crate) array: Array,
    pub(crate) timing: Timing,
    endurance: u32,
    pub(crate) ops: Vec<Op>,
    free: u32,
    edges: Vec<(u32, u32)>,
    free_edge: u32,
    pub(crate) dies: Vec<Die>,
    channels: Vec<Channel>,
    /// When the array work of each die ends; then, when the transfer on each channel does, if somebody
    /// has to be told; then the next handover, and the next read that leaves the decoder.
    timers: Timers,
    dirty: Vec<u32>,
    done: Vec<Done>,
    now: Time,
    order: u64,
    in_flight: u32,
    counters: Counters,
    transfer_page: u64,
    gang: u64,
    /// Sectors of a page of the flash.
    sectors_per_read: u32,
    pub(crate) paired_pages: bool,
    faults: Option<Box<Faults>>,
    retries: Option<Box<Retries>>,
    stages: Stages,
    pub(crate) slc: Option<SlcMode>,
}

impl Nand {
    /// An erased array at time 0, keeping `unit` bytes of contents a sector (see [`Array::new`]).
    ///
    /// The configuration must have been validated.
    pub fn new(config: &NandConfig, unit: usize) -> Self {
        Self::with_array(config, config.erased(unit))
    }

    /// The array as a power cut left it, at time 0 again.
    pub fn power_on(config: &NandConfig, silicon: Silicon) -> Self {
        let mut array = silicon.0;
        array.close_gaps();
        Self::with_array(config, array)
    }

    fn with_array(config: &NandConfig, array: Array) -> Self {
        let g = &**array.flash();
        let die = |n| Die {
            op: NONE,
            member: NONE,
            phase: Phase::Idle,
            array_start: 0,
            array_end: 0,
            queue: [List { head: NONE, tail: NONE }; 4],
            filled: 0,
            suspended: None,
            load: 0,
            dirty: false,
            channel: g.channel_of_die(n),
            busy_ns: 0,
        };
        let (dies, channels) = (g.dies(), g.channels);
        let dies_of: Vec<Die> = (0..dies).map(die).collect();
        Self {
            transfer_page: config.timing.transfer(g, g.sectors_per_page()) * u64::from(config.slots),
            gang: u64::from(config.gang),
            sectors_per_read: (g.sectors_per_page() * config.slots / config.gang).max(1),
            paired_pages: config.paired_pages,
            faults: None,
            retries: None,
            stages: Stages::default(),
            slc: config.slc.clone(),
            dies: dies_of,
            channels: vec![Channel::default(); channels as usize],
            timing: config.timing.clone(),
            endurance: if config.endurance == 0 { u32::MAX } else { config.endurance },
            ops: Vec::new(),
            free: NONE,
            edges: Vec::new(),
            free_edge: NONE,
            timers: Timers::new((dies + channels) as usize + 2),
            dirty: Vec::new(),
            done: Vec::new(),
            now: 0,
            order: 0,
            in_flight: 0,
            counters: Counters::default(),
            array,
        }
    }

    /// From now on operations fail as `config` says, drawn from the stream "faults" of `seed`, and reads are
    /// repeated as the timing says.
    pub fn inject(&mut self, config: &FaultConfig, seed: u64) {
        self.faults = (!config.is_none()).then(|| Box::new(Faults::new(config, seed)));
        self.retries = self.timing.read_retry.as_ref().map(|retry| Box::new(Retries::new(retry, seed)));
    }
    /// From now on, operations that may go to their dies wait for [`Nand::start`].
    pub fn wait_for_controller(&mut self) {
        self.stages.waits_for_controller = true;
    }
    /// An operation that may go to its die and was not asked for yet: which, on which die, and of what kind.
    pub fn next_ready(&mut self) -> Option<Ready> {
        let op = self.stages.ready.pop_front()?;
        let &Op { plane, cause, background, .. } = &self.ops[op as usize];
        let die = self.array.flash().die_of_plane(plane);
        Some(Ready { op: OpId(op), die, cause, background })
    }
    /// The controller has ordered an operation: it goes to its die. [`Nand::settle`] afterwards.
    pub fn start(&mut self, op: OpId) {
        self.enqueue(op.0);
    }
    /// From now on [`Nand::taken`] says when dies have taken the pages that they program.
    pub fn tell_handover(&mut self) {
        self.stages.tells_handover = true;
    }
    /// Programs whose pages were in their dies' registers with the last step.
    pub fn taken(&self) -> &[OpId] {
        &self.stages.taken
    }

    /// What the flash holds.
    #[inline]
    pub fn array(&self) -> &Array {
        &self.array
    }
    /// What the flash holds, to be prepared before time begins or filled with contents on order.
    #[inline]
    pub fn array_mut(&mut self) -> &mut Array {
        &mut self.array
    }
    /// The shape.
    #[inline]
    pub fn geometry(&self) -> &Shape {
        self.array.geometry()
    }
    /// Planes of a die that work together as one.
    pub fn gang(&self) -> u32 {
        self.gang as u32
    }
    /// The durations.
    pub fn timing(&self) -> &Timing {
        &self.timing
    }
    /// The present time.
    #[inline]
    pub fn now(&self) -> Time {
        self.now
    }
    /// How often everything was done.
    pub fn counters(&self) -> &Counters {
        &self.counters
    }
    /// Counts from zero again.
    pub fn reset_counters(&mut self) {
        self.counters = Counters::default();
    }
    /// The clock and the counters go on from where they were before a power cut.
    pub fn carry_over(&mut self, now: Time, counters: Counters, (dies, channels): &(Vec<u64>, Vec<u64>)) {
        self.now = now;
        self.counters = counters;
        self.dies.iter_mut().zip(dies).for_each(|(die, &busy)| die.busy_ns = busy);
        self.channels.iter_mut().zip(channels).for_each(|(channel, &busy)| channel.busy_ns = busy);
    }
    /// Operations ordered and not yet done.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.in_flight
    }
    /// Operations waiting or running on `die`: 0 = idle.
    #[inline]
    pub fn load(&self, die: u32) -> u32 {
        self.dies[die as usize].load
    }
    /// Operations waiting or running on the die of a plane, or on those of its superblocks.
    #[inline]
    pub fn load_of_plane(&self, plane: u32) -> u32 {
        if self.array.width() == 1 {
            return self.load(self.geometry().die_of_plane(plane));
        }
        self.array.dies_of(plane).map(|die| self.load(die)).sum()
    }
    /// Whether a die has nothing to do.
    pub fn has_idle_die(&self) -> bool {
        self.dies.iter().any(|die| die.load == 0)
    }
    /// Whether the die of a plane as it is addressed, or one of them, has nothing to do.
    pub fn has_idle_die_at(&self, plane: u32) -> bool {
        self.array.dies_of(plane).any(|die| self.load(die) == 0)
    }
    /// Nanoseconds that each die was busy, and each channel.
    pub fn busy_ns(&self) -> (Vec<u64>, Vec<u64>) {
        (self.dies.iter().map(|d| d.busy_ns).collect(), self.channels.iter().map(|c| c.busy_ns).collect())
    }

    /// The program of `ppn` that is on order or running, if there is one.
    pub fn program_of(&self, ppn: Ppn) -> Option<OpId> {
        let mut op = self.array.blocks[self.array.at_column(ppn)].chain_head;
        while op != NONE {
            if self.ops[op as usize].ppn ^ ppn.0 < self.array.slots() {
                return Some(OpId(op));
            }
            op = self.ops[op as usize].chain;
        }
        None
    }
    /// All programs on order or running, open pages aside, in no particular order.
    pub fn pending_programs(&self) -> impl Iterator<Item = OpId> + '_ {
        let pending = |(_, op): &(usize, &Op)| op.pending && op.kind == Kind::Program && !op.open;
        self.ops.iter().enumerate().filter(pending).map(|(slot, _)| OpId(slot as u32))
    }
    /// Whether programs of `block` are on order or running.
    #[inline]
    pub fn programs_pending(&self, block: Block) -> bool {
        self.array.is_programmed_now(block)
    }

    #[inline(always)]
    fn new_op(
        &mut self,
        ppn: Ppn,
        kind: Kind,
        cause: Cause,
        background: bool,
        (transfer, array_ns): (u64, u64),
    ) -> u32 {
        let plane = self.array.plane_of(ppn);
        self.new_op_in(plane, ppn, kind, cause, background, (transfer, array_ns))
    }

    #[inline(always)]
    fn new_op_in(
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
            pending: true,
            open: false,
        };
        let die = self.array.flash().die_of_plane(plane);
        self.dies[die as usize].load += 1;
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

    #[inline]
    fn add_edge(&mut self, value: u32, next: u32) -> u32 {
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
    fn wait_for(&mut self, op: u32, before: u32) {
        self.ops[op as usize].waits += 1;
        self.ops[before as usize].dependents = self.add_edge(op, self.ops[before as usize].dependents);
    }

    #[inline(always)]
    fn hold(&mut self, block: Block, op: u32) {
        let at = self.array.at(block);
        self.array.blocks[at].holds += 1;
        let slot = &mut self.ops[op as usize];
        if slot.holds == NONE {
            slot.holds = block.0;
        } else {
            self.hold_further(block, op);
        }
    }

    #[cold]
    fn hold_further(&mut self, block: Block, op: u32) {
        self.ops[op as usize].more_holds = self.add_edge(block.0, self.ops[op as usize].more_holds);
    }

    #[inline(always)]
    fn release_wait(&mut self, op: u32) {
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

    /// Orders a read of `sectors` sectors of `ppn`, to start when `after` are done. A page whose
    /// program is still on order is read after it.
    ///
    /// # Panics
    /// If the page is erased: there is nothing to read.
    #[inline]
    pub fn read(&mut self, ppn: Ppn, sectors: u32, cause: Cause, background: bool, after: &[OpId]) -> OpId {
        debug_assert!(
            !matches!(self.array.page_use(ppn), PageUse::Erased | PageUse::Torn),
            "read of an erased or torn page"
        );
        let kind = self.array.page_type(ppn);
        let block = self.geometry().block_of(ppn);
        let mut durations = (self.transfer(sectors), self.read_ns(ppn, kind));
        if let Some(retries) = &mut self.retries {
            let count = retries.draw(kind, self.array.erases(block));
            durations.1 += count * retries.ns();
            self.counters.read_retries += count;
        }
        let op = self.new_op(ppn, Kind::Read, cause, background, durations);
        self.hold(block, op);
        if let Some(program) = self.program_of(ppn) {
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
        self.counters.reads[cause as usize][kind] +=
            if self.gang == 1 { 1 } else { u64::from(sectors.div_ceil(self.sectors_per_read)) };
        self.release_wait(op);
        OpId(op)
    }

    /// Orders a program of `ppn`, to start when `after` are done and earlier programs of its block
    /// have started. From now on the array shows the page as programmed.
    ///
    /// # Panics
    /// If flash cannot do it: see [`Array::program`].
    #[inline(always)]
    pub fn program(
        &mut self,
        ppn: Ppn,
        oob: &Oob<'_>,
        cause: Cause,
        background: bool,
        after: &[OpId],
    ) -> OpId {
        self.array.program(ppn, oob);
        let kind = self.array.page_type(ppn);
        let durations = (self.transfer_page, self.program_ns(ppn, kind));
        let op = self.new_op(ppn, Kind::Program, cause, background, durations);
        let stripe = self.array.complete_stripe(ppn);
        self.chain(op, self.array.at_column(ppn));
        for before in after {
            self.wait_for(op, before.0);
        }
        self.counters.programs[cause as usize][kind] += self.gang;
        self.release_wait(op);
        if let Some(column) = stripe {
            self.program_parity(ppn, column, background);
        }
        OpId(op)
    }

    /// As [`Nand::program`], for the next slot of a page that one program fills together: opens the page, or
    /// joins the program of the page that is open. It waits for [`Nand::seal`].
    ///
    /// # Panics
    /// If flash cannot do it.
    pub fn enter(&mut self, ppn: Ppn, oob: &Oob<'_>, cause: Cause, background: bool, after: &[OpId]) -> OpId {
        self.array.enter(ppn, oob);
        let op = if self.array.first_slot(ppn) == ppn {
            let kind = self.array.page_type(ppn);
            let durations = (self.transfer_page, self.program_ns(ppn, kind));
            let op = self.new_op(ppn, Kind::Program, cause, background, durations);
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

    fn hold_once(&mut self, block: Block, op: OpId) {
        if self.held_by(op).all(|held| held != block) {
            self.hold(block, op.0);
        }
    }

    /// Queues a program behind the others of its block of the flash.
    #[inline]
    fn chain(&mut self, op: u32, block: usize) {
        let state = &mut self.array.blocks[block];
        let tail = std::mem::replace(&mut state.chain_tail, op);
        if tail == NONE {
            state.chain_head = op;
            return;
        }
        let tail = &mut self.ops[tail as usize];
        tail.chain = op;
        if !tail.started_once {
            self.ops[op as usize].waits += 1;
        }
    }

    /// A program that failed goes on as a program of page `to`, with the same contents and version.
    /// Whatever waits for it goes on waiting. From now on the array shows `to` as programmed and the
    /// page where it failed as torn.
    ///
    /// # Panics
    /// If flash cannot do it: see [`Array::program`].
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
        let plane = self.array.plane_of(to);
        let array_ns = self.program_ns(to, self.array.page_type(to));
        let slot = &mut self.ops[op.0 as usize];
        (slot.ppn, slot.plane, slot.waits, slot.started_once, slot.copyback) = (to.0, plane, 1, false, false);
        slot.array_ns = array_ns;
        (slot.next, slot.group, slot.chain) = (NONE, NONE, NONE);
        let die = self.array.flash().die_of_plane(plane);
        self.dies[die as usize].load += 1;
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
        self.array.note_program(ppn);
        self.array.note_change(Change::Block(block));
        self.let_go(op.0);
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

    /// `old`'s contents may be lost only when `by` is done: its block is not erased before.
    #[inline(always)]
    pub fn supersede(&mut self, old: Ppn, by: OpId) {
        let block = self.geometry().block_of(old);
        if self.ops[by.0 as usize].holds != block.0 {
            self.hold(block, by.0);
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
                && !self.array.is_programmed_now(block),
            "erase of block {:#x} while it is bad, programmed or already being erased",
            block.0
        );
        let held = state.holds > 0;
        let first = self.geometry().ppn(block, 0);
        let op = self.new_op(first, Kind::Erase, Cause::Gc, background, (0, self.timing.erase_ns));
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
    fn erase_further(&mut self, mut last: u32, block: Block, background: bool) {
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
    fn start_erase(&mut self, mut op: u32) {
        while op != NONE {
            let next = self.ops[op as usize].chain;
            self.release_wait(op);
            op = next;
        }
    }

    /// Orders the parity of the stripe that ends with `last`, once what the stripe holds is there to be programmed.
    fn program_parity(&mut self, last: Ppn, column: u32, background: bool) {
        let block = self.geometry().block_of(last);
        let plane = self.array.plane_of_column(block, column);
        let kind = self.array.page_type(last);
        let durations = (self.transfer_page, self.timing.program(kind));
        let op = self.new_op_in(plane, last, Kind::Program, Cause::Parity, background, durations);
        self.chain(op, self.array.at(block) + column as usize);
        self.counters.programs[Cause::Parity as usize][kind] += self.gang;
        for ppn in self.array.stripe_of(last) {
            if let Some(OpId(data)) = self.program_of(ppn)
                && self.ops[data as usize].waits > 0
            {
                self.ops[data as usize].parity = op;
                self.ops[op as usize].waits += 1;
            }
        }
        self.release_wait(op);
    }

    /// What the read `op` of `ppn` returns cannot be corrected. It is rebuilt from what else its stripe holds, if all
    /// of that can be read; else it is lost.
    #[cold]
    fn fail_read(&mut self, op: u32, ppn: Ppn, background: bool) {
        if self.rebuild(op, ppn, background) {
            self.counters.rebuilt += 1;
            self.array.set_rebuilt(ppn, true);
            return;
        }
        // Decided here, as everything else: what is copied from the page is lost as well.
        self.array.set_rebuilt(ppn, false);
        self.array.lose_page(ppn);
        if self.program_of(ppn).is_none() {
            self.array.note_program(ppn);
        }
    }

    /// Reads the rest of a stripe for the read `op` of `ppn`; false if that cannot be read either.
    fn rebuild(&mut self, op: u32, ppn: Ppn, background: bool) -> bool {
        let Some((others, last)) = self.array.rest_of_stripe(ppn) else { return false };
        if !others.iter().all(|&other| self.array.is_readable(other)) {
            return false;
        }
        let block = self.geometry().block_of(ppn);
        let kind = self.array.page_type(ppn);
        let Some(column) = self.array.parity_column(last) else { return false };
        let parity = (last, self.array.plane_of_column(block, column), self.parity_program(last, column));
        let data: Vec<(Ppn, u32, Option<OpId>)> =
            others.iter().map(|&other| (other, self.array.plane_of(other), self.program_of(other))).collect();
        let mut sound = true;
        for (other, plane, program) in data.into_iter().chain([parity]) {
            let durations = (self.transfer_page, self.timing.read(kind));
            let read = self.new_op_in(plane, other, Kind::Read, Cause::Parity, background, durations);
            if let Some(program) = program {
                self.wait_for(read, program.0);
            }
            self.wait_for(op, read);
            self.counters.reads[Cause::Parity as usize][kind] += self.gang;
            if let Some(faults) = &mut self.faults
                && faults.reads.draw(&mut faults.stream)
            {
                sound = false;
                if plane == parity.1 {
                    self.array.lose_parity(last);
                } else if self.array.page_use(other).is_data() {
                    self.array.set_rebuilt(other, true);
                }
            }
            self.release_wait(read);
        }
        sound
    }

    /// The program of the parity of the stripe that ends with `last`, if it is on order or running.
    fn parity_program(&self, last: Ppn, column: u32) -> Option<OpId> {
        let mut op =
            self.array.blocks[self.array.at(self.geometry().block_of(last)) + column as usize].chain_head;
        while op != NONE {
            let slot = &self.ops[op as usize];
            if slot.cause == Cause::Parity && slot.ppn == last.0 {
                return Some(OpId(op));
            }
            op = slot.chain;
        }
        None
    }

    /// Where the state of the block of the flash is kept that `op` programs.
    #[inline(always)]
    fn programmed_by(&self, op: u32) -> usize {
        let slot = &self.ops[op as usize];
        let ppn = Ppn(slot.ppn);
        if slot.cause == Cause::Parity
            && let Some(column) = self.array.parity_column(ppn)
        {
            return self.array.at(self.geometry().block_of(ppn)) + column as usize;
        }
        self.array.at_column(ppn)
    }

    fn transfer(&self, sectors: u32) -> u64 {
        if self.timing.partial_transfer {
            self.timing.transfer(self.geometry(), sectors)
        } else if self.gang == 1 {
            self.transfer_page
        } else {
            self.transfer_page / self.gang * u64::from(sectors.div_ceil(self.sectors_per_read))
        }
    }

    #[inline(never)]
    fn enqueue(&mut self, op: u32) {
        let slot = &mut self.ops[op as usize];
        slot.order = self.order;
        self.order += 1;
        let class = usize::from(slot.background) * 2 + usize::from(slot.kind != Kind::Read);
        let host_read = class == 0;
        let die_number = self.array.flash().die_of_plane(slot.plane);
        let die = &mut self.dies[die_number as usize];
        let list = &mut die.queue[class];
        if die.filled & 1 << class == 0 {
            die.filled |= 1 << class;
            list.head = op;
        } else {
            self.ops[list.tail as usize].next = op;
        }
        list.tail = op;
        let parity = std::mem::replace(&mut self.ops[op as usize].parity, NONE);
        if !die.dirty && (die.phase == Phase::Idle || (host_read && self.timing.suspend != Suspend::None)) {
            die.dirty = true;
            self.dirty.push(die_number);
        }
        if parity != NONE {
            self.release_wait(parity);
        }
    }

    /// Starts whatever can start now. Call after each batch of orders.
    #[inline]
    pub fn settle(&mut self) {
        while let Some(die) = self.dirty.pop() {
            let state = &mut self.dies[die as usize];
            state.dirty = false;
            if state.phase == Phase::Idle {
                if state.filled != 0 || state.suspended.is_some() {
                    self.dispatch(die);
                }
            } else if self.timing.suspend != Suspend::None {
                self.try_suspend(die);
            }
        }
    }

    #[inline(never)]
    fn dispatch(&mut self, die_number: u32) {
        let die = &mut self.dies[die_number as usize];
        debug_assert!(die.op == NONE, "two operations on a die");
        let class = if die.suspended.is_some() {
            // A suspended operation resumes as soon as no host read waits.
            (die.filled & 1 != 0).then_some(0)
        } else {
            die.pick_class(self.timing.scheduler, &self.ops)
        };
        let Some(class) = class else {
            if let Some(Suspended { op, remaining }) = die.suspended.take() {
                die.op = op;
                self.start_array(die_number, remaining + self.timing.suspend_ns);
            }
            return;
        };
        let op = die.queue[class].head;
        let slot = &mut self.ops[op as usize];
        let next = std::mem::replace(&mut slot.next, NONE);
        die.queue[class].head = next;
        if next == NONE {
            die.filled &= !(1 << class);
        }
        (die.op, die.member) = (op, op);
        let (kind, command) = (slot.kind, self.timing.command_ns);
        // Not idle any more: what follows in the same block does not look at the die again.
        die.phase = if kind == Kind::Program { Phase::TransferIn } else { Phase::Command };
        self.begin(op);
        if self.timing.multi_plane {
            self.gather(die_number, class);
        }
        let transfer = if kind == Kind::Program { self.channel_time(op) } else { 0 };
        if kind == Kind::Program || command > 0 {
            self.want_channel(die_number, command + transfer);
        } else {
            self.start_array(die_number, self.array_time(op));
        }
    }

    /// Adds to the operation just taken what other planes can do in the same array operation.
    fn gather(&mut self, die_number: u32, class: usize) {
        /// A real controller looks only so far ahead.
        const WINDOW: usize = 16;
        let head = self.dies[die_number as usize].op;
        let row = |array: &Array, op: &Op| array.place(Ppn(op.ppn)).0;
        let (kind, page) = (self.ops[head as usize].kind, row(&self.array, &self.ops[head as usize]));
        let slc = |array: &Array, op: &Op| array.is_slc(array.geometry().block_of(Ppn(op.ppn)));
        let in_slc_mode = slc(&self.array, &self.ops[head as usize]);
        let page_type = self.array.cell.page_type(page);
        let of_die = self.array.flash().planes_per_die;
        let mut planes = 1_u32 << (self.ops[head as usize].plane % of_die);
        let mut last = head;
        let mut before = NONE;
        let mut op = self.dies[die_number as usize].queue[class].head;
        for _ in 0..WINDOW {
            if op == NONE {
                break;
            }
            let next = self.ops[op as usize].next;
            let slot = &self.ops[op as usize];
            let plane = 1_u32 << (slot.plane % of_die);
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
                let list = &mut self.dies[die_number as usize].queue[class];
                if before == NONE {
                    list.head = next;
                } else {
                    self.ops[before as usize].next = next;
                }
                if list.tail == op {
                    list.tail = before;
                }
                let die = &mut self.dies[die_number as usize];
                die.filled &= !(u8::from(die.queue[class].head == NONE) << class);
                self.ops[op as usize].next = NONE;
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
    fn begin(&mut self, op: u32) {
        let slot = &mut self.ops[op as usize];
        slot.started_once = true;
        slot.started = self.now;
        let follower = slot.chain;
        if slot.kind == Kind::Program && follower != NONE {
            self.release_wait(follower);
        }
    }

    fn channel_time(&self, op: u32) -> u64 {
        let slot = &self.ops[op as usize];
        if slot.copyback { 0 } else { u64::from(slot.transfer) }
    }

    #[inline]
    fn array_time(&self, op: u32) -> u64 {
        let (mut longest, mut op) = (self.ops[op as usize].array_ns, self.ops[op as usize].group);
        while op != NONE {
            longest = longest.max(self.ops[op as usize].array_ns);
            op = self.ops[op as usize].group;
        }
        longest
    }

    #[inline]
    fn start_array(&mut self, die_number: u32, duration: u64) {
        self.start_array_at(die_number, self.now, duration);
    }

    #[inline(always)]
    fn start_array_at(&mut self, die_number: u32, start: Time, duration: u64) {
        let die = &mut self.dies[die_number as usize];
        die.phase = Phase::Array;
        (die.array_start, die.array_end) = (start, start + duration);
        die.busy_ns += duration;
        self.timers.set(die_number, die.array_end);
    }

    #[inline]
    fn want_channel(&mut self, die_number: u32, duration: u64) {
        let number = self.dies[die_number as usize].channel;
        let channel = &mut self.channels[number as usize];
        if channel.waiting.is_empty() && channel.die.is_none() {
            if channel.free_at <= self.now {
                return self.grant(number, die_number, duration, false);
            }
            // Nobody had to be told when this transfer is over; now somebody has.
            self.timers.set(self.dies.len() as u32 + number, channel.free_at);
        }
        channel.waiting.push_back((die_number, duration));
    }

    /// `waited_for`: another die waits for the channel, and goes on when this transfer is over.
    #[inline(always)]
    fn grant(&mut self, number: u32, die_number: u32, duration: u64, waited_for: bool) {
        let free_at = self.now + duration;
        if self.stages.tells_handover {
            self.note_handover(die_number, free_at);
        }
        let die = &mut self.dies[die_number as usize];
        die.busy_ns += duration;
        let channel = &mut self.channels[number as usize];
        channel.free_at = free_at;
        channel.busy_ns += duration;
        // What follows a command or the last transfer in is certain, unless it can be suspended: one
        // event is enough for both.
        let last = die.phase == Phase::Command
            || die.phase == Phase::TransferIn && self.ops[die.member as usize].group == NONE;
        let at_once = last && self.timing.suspend == Suspend::None;
        channel.die = (!at_once).then_some(die_number);
        if at_once {
            let op = die.op;
            self.start_array_at(die_number, free_at, self.array_time(op));
        }
        if waited_for || !at_once {
            self.timers.set(self.dies.len() as u32 + number, free_at);
        }
    }

    /// The transfer that begins hands a page over to its die at `at`, if it is one of a program.
    #[inline(never)]
    fn note_handover(&mut self, die_number: u32, at: Time) {
        let die = &self.dies[die_number as usize];
        if die.phase == Phase::TransferIn {
            let before = self.stages.next_handover();
            self.stages.hand_over(at, die.member);
            if before.is_none_or(|before| at < before) {
                self.timers.clear(self.handover_alarm());
                self.timers.set(self.handover_alarm(), at);
            }
        }
    }

    /// What `op` read passes the decoder, and is there.
    #[inline(always)]
    fn decode(&mut self, op: u32) {
        if self.timing.ecc_ns == 0 { self.finish(op) } else { self.wait_for_decoder(op) }
    }

    #[inline(never)]
    fn wait_for_decoder(&mut self, op: u32) {
        let at = self.now + self.timing.ecc_ns;
        if self.stages.next_decoded().is_none() {
            self.timers.set(self.handover_alarm() + 1, at);
        }
        self.stages.decode(at, op);
    }

    /// The number of the alarm of handovers; the decoder's comes after it.
    fn handover_alarm(&self) -> u32 {
        (self.dies.len() + self.channels.len()) as u32
    }

    #[cold]
    fn stage_done(&mut self, alarm: u32) {
        if alarm == self.handover_alarm() {
            self.stages.take_over(self.now);
        } else {
            while let Some(op) = self.stages.decoded(self.now) {
                self.finish(op);
            }
        }
        let next = if alarm == self.handover_alarm() {
            self.stages.next_handover()
        } else {
            self.stages.next_decoded()
        };
        if let Some(at) = next {
            self.timers.set(alarm, at);
        }
    }

    fn try_suspend(&mut self, die_number: u32) {
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
            self.dispatch(die_number);
        }
    }

    /// When the next thing happens, if anything is under way.
    #[inline]
    pub fn next_event(&self) -> Option<Time> {
        let time = self.timers.next();
        (time != Time::MAX).then_some(time)
    }

    /// Moves time forward to `to`, at which nothing may have been left undone before.
    pub fn advance(&mut self, to: Time) {
        debug_assert!(to >= self.now, "time runs forward");
        debug_assert!(self.timers.next() >= to, "something was to happen before");
        self.now = to;
    }

    /// Carries out the next event, if there is one. What came to its end is in [`Nand::done`] until the
    /// next step. [`Nand::settle`] afterwards.
    #[inline]
    pub fn step(&mut self) {
        self.forget_done();
        let Some((time, who)) = self.timers.ring() else { return };
        self.now = time;
        let dies = self.dies.len() as u32;
        if who < dies {
            self.array_done(who);
        } else if who < self.handover_alarm() {
            self.transfer_done(who - dies);
        } else {
            self.stage_done(who);
        }
    }

    /// Nothing came to its end in the step that is about to be carried out.
    pub fn forget_done(&mut self) {
        self.done.clear();
        self.stages.taken.clear();
    }

    /// What the last step brought to its end, in order.
    #[inline]
    pub fn done(&self) -> &[Done] {
        &self.done
    }

    fn transfer_done(&mut self, number: u32) {
        let channel = &mut self.channels[number as usize];
        let told = channel.die.take();
        if let Some((next, duration)) = channel.waiting.pop_front() {
            let waited_for = !channel.waiting.is_empty();
            self.grant(number, next, duration, waited_for);
        }
        let Some(die_number) = told else { return };
        let die = &mut self.dies[die_number as usize];
        let member = die.member;
        let next = self.ops[member as usize].group;
        match die.phase {
            Phase::Command => {
                let op = die.op;
                self.start_array(die_number, self.array_time(op));
            }
            Phase::TransferIn if next != NONE => {
                die.member = next;
                let duration = self.timing.command_ns + self.channel_time(next);
                self.want_channel(die_number, duration);
            }
            Phase::TransferIn => {
                let op = die.op;
                self.start_array(die_number, self.array_time(op));
            }
            Phase::TransferOut => {
                if next != NONE {
                    die.member = next;
                    let duration = self.channel_time(next);
                    self.want_channel(die_number, duration);
                } else {
                    self.leave(die_number);
                }
                self.decode(member);
            }
            Phase::Idle | Phase::Array => unreachable!("a die on the channel is in a transfer phase"),
        }
    }

    fn array_done(&mut self, die_number: u32) {
        let die = &mut self.dies[die_number as usize];
        let op = die.op;
        if self.ops[op as usize].kind == Kind::Read && !self.ops[op as usize].copyback {
            die.phase = Phase::TransferOut;
            die.member = op;
            let duration = self.channel_time(op);
            self.want_channel(die_number, duration);
        } else {
            self.leave(die_number);
            let mut op = op;
            while op != NONE {
                let next = self.ops[op as usize].group;
                self.finish(op);
                op = next;
            }
        }
    }

    /// The die is free.
    fn leave(&mut self, die_number: u32) {
        let die = &mut self.dies[die_number as usize];
        die.op = NONE;
        die.phase = Phase::Idle;
        if !die.dirty {
            die.dirty = true;
            self.dirty.push(die_number);
        }
    }

    #[inline(always)]
    fn finish(&mut self, mut op: u32) {
        let slot = &self.ops[op as usize];
        let (kind, cause, ppn, started) = (slot.kind, slot.cause, Ppn(slot.ppn), slot.started);
        let die = self.array.flash().die_of_plane(slot.plane);
        let block = self.geometry().block_of(ppn);
        let mut failed = false;
        match kind {
            Kind::Read => {}
            Kind::Program => {
                let follower = slot.chain;
                let at = self.programmed_by(op);
                let state = &mut self.array.blocks[at];
                debug_assert_eq!(state.chain_head, op, "a block's programs end in order");
                state.chain_head = follower;
                if follower == NONE {
                    state.chain_tail = NONE;
                }
                if let Some(faults) = &mut self.faults {
                    failed = faults.programs.draw(&mut faults.stream);
                }
                if cause == Cause::Parity {
                    if failed {
                        self.array.lose_parity(ppn);
                        self.array.doom_column(block, (at - self.array.at(block)) as u32);
                    }
                    failed = false;
                } else if !failed {
                    self.array.note_program(ppn);
                }
            }
            Kind::Erase => {
                if let Some(faults) = &mut self.faults {
                    failed = faults.erases.draw(&mut faults.stream);
                }
                if self.array.width() > 1 && failed {
                    self.array.doom_column(block, self.array.column_in(block, self.ops[op as usize].plane));
                }
                let at = self.array.at(block);
                let state = &mut self.array.blocks[at];
                state.erasing -= 1;
                let leader = state.erase;
                if state.erasing > 0 {
                    self.dies[die as usize].load -= 1;
                    if op != leader {
                        self.let_go(op);
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
                    self.let_go(op);
                    op = leader;
                }
            }
        }
        self.dies[die as usize].load -= 1;
        if kind == Kind::Read && cause == Cause::Parity {
            return self.let_go(op);
        }
        self.done.push(Done { op: OpId(op), kind, cause, ppn, started, failed });
        if kind != Kind::Program || !failed {
            self.let_go(op);
        }
    }

    /// The operation is over: what waits for it may go on, and its slot is free.
    #[inline(always)]
    fn let_go(&mut self, op: u32) {
        let slot = &mut self.ops[op as usize];
        slot.pending = false;
        slot.next = std::mem::replace(&mut self.free, op);
        self.in_flight -= 1;
        let (mut edge, holds, mut more) = (slot.dependents, slot.holds, slot.more_holds);
        while edge != NONE {
            let (waiter, next) = self.edges[edge as usize];
            self.edges[edge as usize].1 = self.free_edge;
            self.free_edge = edge;
            self.release_wait(waiter);
            edge = next;
        }
        if holds != NONE {
            self.release_hold(holds);
        }
        while more != NONE {
            let (held, next) = self.edges[more as usize];
            self.edges[more as usize].1 = self.free_edge;
            self.free_edge = more;
            self.release_hold(held);
            more = next;
        }
    }

    fn release_hold(&mut self, block: u32) {
        let at = self.array.at(Block(block));
        let state = &mut self.array.blocks[at];
        state.holds -= 1;
        if state.holds == 0 && state.erase != NONE {
            let erase = state.erase;
            self.start_erase(erase);
        }
    }
}
