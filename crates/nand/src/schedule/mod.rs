//! When everything happens: dies, channels and the operations that wait for them.
//!
//! An operation is a few phases, each on one resource. A die is taken from an operation's first
//! phase to its last (no cache registers; of planes that read independently, each for itself): read = [command] array, transfer out; program = transfer
//! in, array; erase = [command] array. A channel carries one transfer at a time, first come first
//! served. Events are ordered by (time, resource number), so a run depends on nothing else.

mod dies;
mod edges;
mod gone;
mod orders;
mod parity;
mod passing;
mod planes;
mod slc;
mod untimed;

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use crate::fault::Faults;
use crate::op::{NONE, Op};
use crate::reading::Reading;
use crate::stages::{Retries, Stages};
use crate::stale::Stale;
use crate::timers::Timers;
use crate::{
    Array, Block, Cause, Cell, CellKind, Done, FaultConfig, Geometry, Kind, OpId, Ppn, ProgramOrder,
    Scheduler, Shape, Silicon, SlcMode, Superblocks, Suspend, Time, Timing,
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
    /// Planes read independently: pages leave, and more reads may begin meanwhile.
    Reads,
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
    dirty: bool,
    channel: u32,
    busy_ns: u64,
}

impl Die {
    /// The class whose oldest operation goes first, as the scheduler says.
    #[inline(always)]
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

    /// Takes the first operation of a queue that `fits` out of it.
    fn take(&mut self, class: usize, ops: &mut [Op], fits: impl Fn(&Op) -> bool) -> Option<u32> {
        let (mut before, mut op) = (NONE, self.queue[class].head);
        for _ in 0..WINDOW {
            if op == NONE {
                break;
            }
            if fits(&ops[op as usize]) {
                self.unlink(class, before, op, ops);
                return Some(op);
            }
            (before, op) = (op, ops[op as usize].next);
        }
        None
    }

    /// Takes `op`, which comes after `before`, out of a queue.
    #[inline]
    fn unlink(&mut self, class: usize, before: u32, op: u32, ops: &mut [Op]) {
        let list = &mut self.queue[class];
        let next = std::mem::replace(&mut ops[op as usize].next, NONE);
        if before == NONE {
            list.head = next;
        } else {
            ops[before as usize].next = next;
        }
        if list.tail == op {
            list.tail = before;
        }
        self.filled &= !(u8::from(list.head == NONE) << class);
    }
}

/// The classes (as of [`Die::queue`]) that a die at work hears of.
fn heard(timing: &Timing) -> u8 {
    match timing.suspend {
        _ if timing.independent_plane_reads => 0b0101,
        Suspend::None => 0,
        _ => 0b0001,
    }
}

/// So many operations of a queue a real controller looks at.
const WINDOW: usize = 16;

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
    waiting: VecDeque<(u32, u64)>,
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
    timing: Timing,
    endurance: u32,
    pub(crate) ops: Vec<Op>,
    free: u32,
    edges: Vec<(u32, u32)>,
    free_edge: u32,
    pub(crate) dies: Vec<Die>,
    /// Operations that wait for each die or are in service there. Side by side: all dies are asked at once.
    loads: Vec<u32>,
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
    /// Operations of several planes are joined, or begin side by side.
    joins: bool,
    /// Operations of which classes may begin on a die that is at work, a bit each.
    heard: u8,
    /// By die, where planes read independently; else empty.
    reading: Vec<Reading>,
    stages: Stages,
    slc: Option<SlcMode>,
    /// Operations that may begin, where time does not count.
    at_once: VecDeque<u32>,
    /// Copies since the last event that were over when they were ordered.
    copied: u32,
    /// Whether a copy that waits for nothing is over when it is ordered.
    copies_at_once: bool,
    /// Whether a copy is one operation, and whether the end of its read is told.
    copies_whole: bool,
    tells_reads: bool,
    /// Contents to be forgotten; none if they are not modelled, or kept.
    stale: Option<Box<Stale>>,
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
            joins: config.timing.multi_plane || config.timing.independent_plane_reads,
            heard: heard(&config.timing),
            reading: if config.timing.independent_plane_reads {
                vec![Reading::default(); dies as usize]
            } else {
                Vec::new()
            },
            stages: Stages::default(),
            slc: config.slc.clone(),
            at_once: VecDeque::new(),
            copied: 0,
            copies_whole: false,
            tells_reads: false,
            copies_at_once: config.timing.untimed && array.slots() == 1 && array.weave.parity == 0,
            dies: dies_of,
            loads: vec![0; dies as usize],
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
            stale: (array.unit() > 0 && !array.keeps_stale()).then(Box::default),
            array,
        }
    }

    /// From now on operations fail as `config` says, drawn from the stream "faults" of `seed`, and reads are
    /// repeated as the timing says.
    pub fn inject(&mut self, config: &FaultConfig, seed: u64) {
        self.faults = (!config.is_none()).then(|| Box::new(Faults::new(config, seed)));
        self.retries = self.timing.read_retry.as_ref().map(|retry| Box::new(Retries::new(retry, seed)));
        let certain = self.faults.is_none() && self.retries.is_none();
        self.copies_at_once &= certain;
        self.copies_whole = certain && self.is_plain() && !self.timing.untimed && !self.timing.copyback;
    }

    /// Whether the array is plain ([`Array::is_plain`]) and operations begin and end each by itself: none is suspended,
    /// none is joined by those of other planes, and nobody is told when a die has its page. To be asked once all is set up.
    pub fn is_plain(&self) -> bool {
        let apart = !self.joins && self.timing.suspend == Suspend::None;
        self.array.is_plain() && apart && !self.stages.tells_handover
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
        self.loads[die as usize]
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
        self.loads.contains(&0)
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
    #[inline]
    pub fn program_of(&self, ppn: Ppn) -> Option<OpId> {
        self.program_in::<false>(ppn)
    }
    #[inline]
    fn program_in<const PLAIN: bool>(&self, ppn: Ppn) -> Option<OpId> {
        let mut op = self.array.blocks[self.array.at_column_of::<PLAIN>(ppn)].chain_head;
        let slots = if PLAIN { 1 } else { self.array.slots() };
        while op != NONE {
            if self.ops[op as usize].ppn ^ ppn.0 < slots {
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
        self.programs_pending_on::<false>(block)
    }
    /// As [`Nand::programs_pending`]; `PLAIN`: the flash is known to be plain ([`Array::is_plain`]).
    #[inline(always)]
    pub fn programs_pending_on<const PLAIN: bool>(&self, block: Block) -> bool {
        self.array.is_programmed_now::<PLAIN>(block)
    }
}
