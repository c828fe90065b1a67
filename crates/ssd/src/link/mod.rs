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

/// A command on its way to the drive.
#[derive(Clone, Copy, Debug)]
struct Crosser {
    /// When it is across.
    at: Time,
    slot: u32,
    has_data: bool,
}

/// One direction.
#[derive(Clone, Debug, Default)]
struct Lane {
    /// Since when it has been busy without a gap, and when the last of its data are across.
    since: Time,
    free_at: Time,
    busy_ns: u64,
}

impl Lane {
    /// How long it is busy with what it has after `now`.
    fn busy_after(&self, now: Time) -> u64 {
        self.free_at.saturating_sub(now.max(self.since))
    }

    /// When something is across that is sent at `at`, whose data take `transfer` by themselves. What is without data
    /// waits for nobody.
    #[inline]
    fn cross(&mut self, at: Time, transfer: Time, command: Time) -> Time {
        if transfer == 0 {
            return at + command;
        }
        if at > self.free_at {
            (self.since, self.free_at) = (at, at);
        }
        self.free_at += transfer;
        self.busy_ns += transfer;
        self.free_at + command
    }
}

/// The link and the commands on it. What answers take is worked out here; who is answered when, the drive knows.
#[derive(Clone, Debug)]
pub(crate) struct Link {
    config: LinkConfig,
    to_drive: Lane,
    to_host: Lane,
    /// Commands on their way, in the order in which they are across; without data comes before with.
    queue: VecDeque<Crosser>,
    /// When the first of them is across; [`Time::MAX`] = none is on the way.
    next: Time,
    /// Bytes of the last transfer and how long it took: the next is mostly alike.
    last: (u64, Time),
}

impl Link {
    /// The link, if it takes time.
    pub fn new(config: &LinkConfig) -> Option<Self> {
        (!config.is_off()).then(|| Self {
            config: config.clone(),
            to_drive: Lane::default(),
            to_host: Lane::default(),
            queue: VecDeque::new(),
            next: Time::MAX,
            last: (0, 0),
        })
    }

    #[inline]
    fn transfer(&mut self, bytes: u64) -> Time {
        if bytes == 0 || self.config.mb_s == 0.0 {
            return 0;
        }
        if bytes != self.last.0 {
            self.last = (bytes, (bytes as f64 * 1000.0 / self.config.mb_s).round() as Time);
        }
        self.last.1
    }

    /// The host sends the command in `slot`, with `bytes` of data.
    #[inline]
    pub fn send(&mut self, at: Time, slot: u32, bytes: u64) {
        let transfer = self.transfer(bytes);
        let at = self.to_drive.cross(at, transfer, self.config.command_ns);
        let new = Crosser { at, slot, has_data: transfer > 0 };
        if self.queue.back().is_none_or(|last| last.at < at) {
            self.queue.push_back(new);
        } else {
            self.enter_between(new);
        }
        self.next = self.next.min(at);
    }
    /// What is without data passes what waits for the link.
    #[inline(never)]
    fn enter_between(&mut self, new: Crosser) {
        let earlier =
            |other: &Crosser| other.at < new.at || other.at == new.at && (new.has_data || !other.has_data);
        self.queue.insert(self.queue.partition_point(earlier), new);
    }
    /// When the next command is across; [`Time::MAX`] = none is on the way.
    #[inline]
    pub fn next(&self) -> Time {
        self.next
    }
    /// Takes the command that is across next off the link: when, and its slot.
    #[inline]
    pub fn step(&mut self) -> Option<(Time, u32)> {
        let first = self.queue.pop_front()?;
        self.next = self.queue.front().map_or(Time::MAX, |next| next.at);
        Some((first.at, first.slot))
    }
    /// The drive answers at `at`, with `bytes` of data: when the host has it.
    #[inline]
    pub fn answer(&mut self, at: Time, bytes: u64) -> Time {
        let transfer = self.transfer(bytes);
        self.to_host.cross(at, transfer, self.config.command_ns)
    }
    /// Nanoseconds that data were on their way to the drive by `now`, and to the host.
    pub fn busy_ns(&self, now: Time) -> (u64, u64) {
        let by = |lane: &Lane| lane.busy_ns.saturating_sub(lane.busy_after(now));
        (by(&self.to_drive), by(&self.to_host))
    }
    /// Counts from zero again, at `now`.
    pub fn reset_counters(&mut self, now: Time) {
        for lane in [&mut self.to_drive, &mut self.to_host] {
            lane.busy_ns = lane.busy_after(now);
        }
    }
    /// Goes on counting where a link was before a power cut.
    pub fn carry_over(&mut self, (to_drive, to_host): (u64, u64)) {
        self.to_drive.busy_ns = to_drive;
        self.to_host.busy_ns = to_host;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandle_random::Stream;

    #[test]
    fn what_is_across_first_leaves_first_and_nothing_without_data_waits_for_data() {
        let config = LinkConfig { mb_s: 1000.0, command_ns: 50 };
        let mut draw = Stream::new(1, "link");
        let mut link = Link::new(&config).expect("it takes time");
        let (mut at, mut free_at) = (0, 0);
        let mut expected = vec![];
        for slot in 0..2_000_u32 {
            at += draw.below(80);
            let bytes = draw.below(3) * 60;
            link.send(at, slot, bytes);
            // At 1 GB/s a byte takes a nanosecond.
            free_at = if bytes > 0 { free_at.max(at) + bytes } else { free_at };
            expected.push((if bytes > 0 { free_at } else { at } + 50, bytes > 0, slot));
        }
        expected.sort_unstable();
        let came: Vec<(Time, u32)> = std::iter::from_fn(|| link.step()).collect();
        assert_eq!(came, expected.iter().map(|&(at, _, slot)| (at, slot)).collect::<Vec<_>>());
        assert!(expected.windows(2).any(|pair| pair[0].0 == pair[1].0 && pair[0].1 != pair[1].1));
        assert_eq!(link.next(), Time::MAX);
    }

    #[test]
    fn a_link_is_never_busier_than_time_has_passed() {
        let mut link = Link::new(&LinkConfig { mb_s: 1000.0, command_ns: 50 }).expect("it takes time");
        (0..10).for_each(|slot| link.send(5 * u64::from(slot), slot, 100));
        assert_eq!(link.busy_ns(60), (60, 0));
        link.reset_counters(60);
        assert_eq!((link.busy_ns(60), link.busy_ns(100)), ((0, 0), (40, 0)));
        assert_eq!(link.busy_ns(5000), (940, 0));
    }
}
