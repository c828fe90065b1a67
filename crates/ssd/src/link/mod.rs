//! The host link: bytes cross it one after the other, in each direction, and commands take their time.

use std::collections::VecDeque;

use nandle_nand::Time;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// `[link]`: what lies between host and drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct LinkConfig {
    /// Bandwidth each way, 10^6 bytes a second; 0 = without limit. PCIe 3.0 x4 has about 3,500, 4.0 x4 7,000, 5.0
    /// x4 14,000.
    pub mb_s: f64,
    /// How long a command takes to the drive, and its completion to the host (ns each).
    pub command_ns: u64,
}

impl LinkConfig {
    /// Whether it takes no time.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        if !(self.mb_s == 0.0 || (0.001..=1e7).contains(&self.mb_s)) {
            let expected = "0 (without limit), or 0.001 to 10000000 (10^6 bytes a second)";
            return Err(ConfigError::new("link.mb_s", self.mb_s, expected));
        }
        if self.command_ns > 1_000_000_000 {
            return Err(ConfigError::new("link.command_ns", self.command_ns, "0 to 1000000000 ns"));
        }
        Ok(())
    }
}

/// Requests that cross in one direction, each at its time.
#[derive(Clone, Debug)]
struct Crossing {
    /// With data, and without: each in the order of arrival.
    data: VecDeque<(Time, u32)>,
    bare: VecDeque<(Time, u32)>,
    /// When the first of them is across; [`Time::MAX`] = nobody is on the way.
    next: Time,
    free_at: Time,
    busy_ns: u64,
}

impl Crossing {
    const EMPTY: Self =
        Self { data: VecDeque::new(), bare: VecDeque::new(), next: Time::MAX, free_at: 0, busy_ns: 0 };

    fn enter(&mut self, at: Time, slot: u32, transfer: Time, command: Time) {
        let arrives = if transfer == 0 {
            self.bare.push_back((at + command, slot));
            at + command
        } else {
            self.free_at = self.free_at.max(at) + transfer;
            self.busy_ns += transfer;
            self.data.push_back((self.free_at + command, slot));
            self.free_at + command
        };
        self.next = self.next.min(arrives);
    }
    /// The request that is across next.
    fn leave(&mut self) -> Option<(Time, u32)> {
        let first = |queue: &VecDeque<(Time, u32)>| queue.front().map_or(Time::MAX, |&(at, _)| at);
        let left = if first(&self.bare) == self.next { self.bare.pop_front() } else { self.data.pop_front() };
        self.next = first(&self.bare).min(first(&self.data));
        left
    }
}

/// The link and what is on it.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    config: LinkConfig,
    to_drive: Crossing,
    to_host: Crossing,
}

impl Link {
    /// The link, if it takes time.
    pub fn new(config: &LinkConfig) -> Option<Self> {
        let (to_drive, to_host) = (Crossing::EMPTY, Crossing::EMPTY);
        (!config.is_off()).then(|| Self { config: config.clone(), to_drive, to_host })
    }

    fn transfer(&self, bytes: u64) -> Time {
        if self.config.mb_s == 0.0 { 0 } else { (bytes as f64 * 1000.0 / self.config.mb_s).round() as Time }
    }

    /// The host sends the command in `slot`, with `bytes` of data.
    pub fn send(&mut self, at: Time, slot: u32, bytes: u64) {
        self.to_drive.enter(at, slot, self.transfer(bytes), self.config.command_ns);
    }
    /// The drive answers the command in `slot`, with `bytes` of data.
    pub fn answer(&mut self, at: Time, slot: u32, bytes: u64) {
        self.to_host.enter(at, slot, self.transfer(bytes), self.config.command_ns);
    }
    /// When the next command or answer is across; [`Time::MAX`] = none is on the way.
    #[inline]
    pub fn next(&self) -> Time {
        self.to_drive.next.min(self.to_host.next)
    }
    /// Takes what is across next off the link: when, its slot, and whether it is an answer. Answers come first.
    pub fn step(&mut self) -> Option<(Time, u32, bool)> {
        let answers = self.to_host.next <= self.to_drive.next;
        let (at, slot) = if answers { self.to_host.leave() } else { self.to_drive.leave() }?;
        Some((at, slot, answers))
    }
    /// Nanoseconds that data were on their way to the drive, and to the host.
    pub fn busy_ns(&self) -> (u64, u64) {
        (self.to_drive.busy_ns, self.to_host.busy_ns)
    }
    /// Counts from zero again.
    pub fn reset_counters(&mut self) {
        self.to_drive.busy_ns = 0;
        self.to_host.busy_ns = 0;
    }
    /// Goes on counting where a link was before a power cut.
    pub fn carry_over(&mut self, (to_drive, to_host): (u64, u64)) {
        self.to_drive.busy_ns = to_drive;
        self.to_host.busy_ns = to_host;
    }
}
