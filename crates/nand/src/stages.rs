//! What an operation passes beside its die and its channel, where a drive models it: the controller that orders
//! it, the moment at which its die has taken the page, the decoder behind the channel, and reads that repeat.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

use nandle_random::Stream;

use crate::op::OpId;
use crate::{PageType, ReadRetry, Time};

/// The repetitions of reads, drawn.
#[derive(Clone, Debug)]
pub(crate) struct Retries {
    config: ReadRetry,
    stream: Stream,
}

impl Retries {
    pub fn new(config: &ReadRetry, seed: u64) -> Self {
        Self { config: config.clone(), stream: Stream::new(seed, "retries") }
    }

    /// How often a read of a page of type `kind`, in a block that was erased so often, is repeated.
    pub fn draw(&mut self, kind: PageType, erases: u32) -> u64 {
        let ReadRetry { share, share_per_1000_erases, most, .. } = &self.config;
        let share = share.get(kind).unwrap_or(&share[0]) + share_per_1000_erases * f64::from(erases) / 1000.0;
        (0..*most).take_while(|_| self.stream.chance(share.min(1.0))).count() as u64
    }

    /// How long a repetition takes.
    pub fn ns(&self) -> Time {
        self.config.ns
    }
}

/// Operations on their way from or to something that is neither die nor channel.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stages {
    /// Operations that may go to their dies wait for the controller.
    pub waits_for_controller: bool,
    /// Those that do.
    pub ready: VecDeque<u32>,
    /// It is said when a die has taken a page.
    pub tells_handover: bool,
    handovers: BinaryHeap<Reverse<(Time, u32)>>,
    /// Programs whose pages were taken in the last step.
    pub taken: Vec<OpId>,
    /// An operation came to its end in the last step that is not among [`Nand::done`](crate::Nand::done).
    pub ended_untold: bool,
    /// Reads in the decoder, in the order in which they leave it.
    decoding: VecDeque<(Time, u32)>,
}

impl Stages {
    /// The die has the page of `op` at time `at`.
    pub fn hand_over(&mut self, at: Time, op: u32) {
        self.handovers.push(Reverse((at, op)));
    }
    /// When the next page is handed over.
    pub fn next_handover(&self) -> Option<Time> {
        self.handovers.peek().map(|&Reverse((at, _))| at)
    }
    /// Pages handed over until now become [`Stages::taken`].
    pub fn take_over(&mut self, now: Time) {
        while self.next_handover().is_some_and(|at| at <= now)
            && let Some(Reverse((_, op))) = self.handovers.pop()
        {
            self.taken.push(OpId(op));
        }
    }

    /// What `op` read leaves the decoder at time `at`, which lies after all others.
    pub fn decode(&mut self, at: Time, op: u32) {
        self.decoding.push_back((at, op));
    }
    /// When the next read leaves the decoder.
    pub fn next_decoded(&self) -> Option<Time> {
        self.decoding.front().map(|&(at, _)| at)
    }
    /// A read that has left the decoder by now.
    pub fn decoded(&mut self, now: Time) -> Option<u32> {
        self.next_decoded().filter(|&at| at <= now)?;
        self.decoding.pop_front().map(|(_, op)| op)
    }
}
