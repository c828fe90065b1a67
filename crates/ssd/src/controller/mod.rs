//! The controller: cores that see every host command and order every flash operation, one piece of work at a
//! time each.
//!
//! It decides nothing but when: a command takes effect, and an operation goes to its die, when a core has spent
//! its time on it.

use std::collections::VecDeque;

use nandle_nand::{Cause, OpId, Ready, Time};

mod config;

pub use config::{Assign, ControllerConfig};

/// What a core did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Work {
    /// A host command, by its slot: it takes effect.
    Command(u32),
    /// A flash operation: it goes to its die.
    Operation(OpId),
}

/// On whose account a core was busy: host commands, and flash operations by their cause.
pub const PURPOSES: usize = 1 + Cause::COUNT;

/// The names of all purposes: `commands`, then those of the causes.
pub const PURPOSE_NAMES: [&str; PURPOSES] = {
    let mut names = ["commands"; PURPOSES];
    let mut n = 0;
    while n < Cause::COUNT {
        names[n + 1] = Cause::NAMED[n].0;
        n += 1;
    }
    names
};

#[derive(Clone, Copy, Debug)]
struct Item {
    work: Work,
    ns: Time,
    purpose: usize,
    /// Comes after all with a smaller one.
    number: u64,
}

#[derive(Clone, Debug)]
struct Core {
    /// When its work is done, and what that is; [`Time::MAX`] = it is idle.
    ends: Time,
    work: Work,
    busy_ns: u64,
}

/// What waits for a core: commands, operations that the host waits for, and others.
type Queue = [VecDeque<Item>; 3];
const COMMANDS: usize = 0;
const BACKGROUND: usize = 2;

/// The cores and what waits for them.
#[derive(Clone, Debug)]
pub(crate) struct Controller {
    config: ControllerConfig,
    cores: Vec<Core>,
    /// All of them, and idle ones, a bit each.
    all: u64,
    idle: u64,
    /// One for all cores, or one for each.
    queues: Vec<Queue>,
    /// When the first core has done its work, [`Time::MAX`] = none is at work; and which that is.
    next: Time,
    first: usize,
    number: u64,
    /// Items in the queues.
    waiting: u32,
    commands: u64,
    /// Time of the mapping units that an operation under way handles beside those of commands, by its slot.
    units_ns: Vec<Time>,
    /// Reads that hold a core, and whether they hold all.
    holding: Vec<OpId>,
    is_held: bool,
    busy_ns: [u64; PURPOSES],
}

impl Controller {
    /// The cores, if there are any.
    pub fn new(config: &ControllerConfig) -> Option<Self> {
        let cores = config.cores as usize;
        let queues = if config.assign == Assign::ByDie { cores } else { 1 };
        (cores > 0).then(|| Self {
            config: config.clone(),
            cores: vec![Core { ends: Time::MAX, work: Work::Command(0), busy_ns: 0 }; cores],
            all: u64::MAX >> (64 - cores),
            idle: u64::MAX >> (64 - cores),
            queues: vec![Queue::default(); queues],
            next: Time::MAX,
            first: 0,
            number: 0,
            waiting: 0,
            commands: 0,
            units_ns: Vec::new(),
            holding: Vec::new(),
            is_held: false,
            busy_ns: [0; PURPOSES],
        })
    }

    // ---- what comes in ------------------------------------------------------------------------------

    /// The host's command in `slot` is there, with so many mapping units to handle.
    #[inline(always)]
    pub fn command(&mut self, now: Time, slot: u32, units: u64) {
        let ns = self.config.command_ns + units * self.config.unit_ns;
        let queue = self.queue_of(self.commands);
        self.commands += 1;
        self.enter(now, queue, COMMANDS, Work::Command(slot), ns, 0);
    }

    /// An operation handles another mapping unit that no command did.
    pub fn note_unit(&mut self, op: OpId, cause: Cause) {
        let slot = op.0 as usize;
        if self.units_ns.len() <= slot {
            self.units_ns.resize(slot + 1, 0);
        }
        let copy_ns = if cause == Cause::Gc { self.config.copy_ns } else { 0 };
        self.units_ns[slot] += self.config.unit_ns + copy_ns;
    }

    /// An operation may go to its die; true if it costs nothing and goes at once.
    pub fn operation(&mut self, now: Time, ready: &Ready) -> bool {
        let units_ns = self.units_ns.get_mut(ready.op.0 as usize).map_or(0, std::mem::take);
        let ns = self.config.operation_ns + units_ns;
        if ns == 0 {
            return true;
        }
        let queue = self.queue_of(ready.die.into());
        let class = if ready.background { BACKGROUND } else { 1 };
        self.enter(now, queue, class, Work::Operation(ready.op), ns, 1 + ready.cause as usize);
        false
    }

    /// Work belongs to the cores in turn, or any may take it.
    #[inline]
    fn queue_of(&self, number: u64) -> usize {
        let queues = self.queues.len();
        if queues == 1 { 0 } else { number as usize % queues }
    }

    #[inline(always)]
    fn enter(&mut self, now: Time, queue: usize, class: usize, work: Work, ns: Time, purpose: usize) {
        let item = Item { work, ns, purpose, number: self.number };
        self.number += 1;
        // Mostly a core is idle, and nobody waits for one.
        let idle = self.idle_of(queue);
        if idle != 0 && self.waiting == 0 && !(class == COMMANDS && self.is_held) {
            return self.begin(now, idle.trailing_zeros() as usize, &item);
        }
        self.queues[queue][class].push_back(item);
        self.waiting += 1;
        self.employ(now, queue);
    }

    /// The idle ones of the cores that serve a queue.
    #[inline]
    fn idle_of(&self, queue: usize) -> u64 {
        if self.queues.len() > 1 { self.idle & 1 << queue } else { self.idle }
    }

    #[inline(always)]
    fn begin(&mut self, now: Time, core: usize, item: &Item) {
        let ends = now + item.ns;
        self.idle &= !(1 << core);
        self.busy_ns[item.purpose] += item.ns;
        if (ends, core) < (self.next, self.first) {
            (self.next, self.first) = (ends, core);
        }
        let core = &mut self.cores[core];
        (core.ends, core.work) = (ends, item.work);
        core.busy_ns += item.ns;
    }

    /// A read of a read-modify-write was ordered: the core that ordered it waits for it, if cores do.
    pub fn hold(&mut self, read: OpId) {
        if self.config.blocking_rmw {
            self.holding.push(read);
            self.is_held = self.holding.len() >= self.cores.len();
        }
    }

    /// An operation is done; whether a core that waited for it goes on.
    pub fn let_go(&mut self, now: Time, op: OpId) -> bool {
        let before = self.holding.len();
        self.holding.retain(|&held| held != op);
        if self.holding.len() == before {
            return false;
        }
        self.is_held = self.holding.len() >= self.cores.len();
        for queue in 0..self.queues.len() {
            self.employ(now, queue);
        }
        true
    }

    /// Whether reads hold all cores: nothing of the host's is carried out.
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    // ---- work ---------------------------------------------------------------------------------------

    /// Idle cores take what waits in a queue.
    #[inline]
    fn employ(&mut self, now: Time, queue: usize) {
        if self.waiting > 0 {
            self.employ_idle(now, queue);
        }
    }

    #[inline(never)]
    fn employ_idle(&mut self, now: Time, queue: usize) {
        let mut idle = self.idle_of(queue);
        while idle != 0
            && let Some(item) = self.pick(queue)
        {
            self.waiting -= 1;
            self.begin(now, idle.trailing_zeros() as usize, &item);
            idle &= idle - 1;
        }
    }

    fn pick(&mut self, queue: usize) -> Option<Item> {
        let held = self.is_held();
        let queue = &mut self.queues[queue];
        let front = |class: usize| queue[class].front().map(|item| (item.number, class));
        let commands = front(COMMANDS).filter(|_| !held);
        let first = commands.into_iter().chain(front(1)).min();
        let background = front(BACKGROUND);
        let chosen = if self.config.priority {
            first.or(background)
        } else {
            first.into_iter().chain(background).min()
        };
        queue[chosen?.1].pop_front()
    }

    /// When a core has done its work; [`Time::MAX`] = none is at work.
    #[inline]
    pub fn next_event(&self) -> Time {
        self.next
    }

    /// What the core has done that is first done, at `now`.
    #[inline]
    pub fn step(&mut self, now: Time) -> Option<Work> {
        if self.next > now {
            return None;
        }
        let done = self.first;
        self.idle |= 1 << done;
        let core = &mut self.cores[done];
        core.ends = Time::MAX;
        let work = core.work;
        self.next = Time::MAX;
        let mut at_work = self.all & !self.idle;
        while at_work != 0 {
            let number = at_work.trailing_zeros() as usize;
            let ends = self.cores[number].ends;
            if ends < self.next {
                (self.next, self.first) = (ends, number);
            }
            at_work &= at_work - 1;
        }
        self.employ(now, if self.queues.len() > 1 { done } else { 0 });
        Some(work)
    }

    // ---- accounts -----------------------------------------------------------------------------------

    /// Nanoseconds that cores were busy, by purpose.
    pub fn busy_ns(&self) -> [u64; PURPOSES] {
        self.busy_ns
    }
    /// Nanoseconds that each core was busy.
    pub fn core_busy_ns(&self) -> Vec<u64> {
        self.cores.iter().map(|core| core.busy_ns).collect()
    }
    /// Counts from zero again.
    pub fn reset_counters(&mut self) {
        self.busy_ns = [0; PURPOSES];
        self.cores.iter_mut().for_each(|core| core.busy_ns = 0);
    }
    /// Goes on counting where a controller was before a power cut.
    pub fn carry_over(&mut self, before: &Self) {
        self.busy_ns = before.busy_ns;
        self.cores.iter_mut().zip(&before.cores).for_each(|(core, before)| core.busy_ns = before.busy_ns);
    }
}
