//! The wall clock as the drive's time.

use std::time::{Duration, Instant};

use nandle_ssd::nand::Time;

/// The wall clock, as the drive's time: nanoseconds since it was switched on. With a dilation of 10 the drive's time
/// passes a tenth as fast, so that the machine has ten times as long for what the drive does in a second.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
    dilation: f64,
}

impl Clock {
    pub(crate) fn started(dilation: f64) -> Self {
        Self { start: Instant::now(), dilation }
    }

    /// Nanoseconds of the drive's time since it was switched on.
    #[must_use]
    pub fn now(&self) -> Time {
        let elapsed = self.start.elapsed();
        if self.dilation == 1.0 {
            return u64::try_from(elapsed.as_nanos()).unwrap_or(u64::MAX);
        }
        (elapsed.as_nanos() as f64 / self.dilation) as Time
    }

    /// How long so many nanoseconds of the drive's time take.
    pub(crate) fn lasts(&self, ns: Time) -> Duration {
        if self.dilation == 1.0 {
            return Duration::from_nanos(ns);
        }
        // Rounded up: whoever sleeps so long does not wake up before.
        Duration::from_nanos((ns as f64 * self.dilation).ceil() as u64)
    }

    /// How much longer the drive's time takes than the wall clock's.
    #[must_use]
    pub fn dilation(&self) -> f64 {
        self.dilation
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dilated_clock_is_slower_by_the_factor_and_its_sleeps_longer() {
        let (plain, slow) = (Clock::started(1.0), Clock::started(8.0));
        std::thread::sleep(Duration::from_millis(20));
        let (first, slowed, last) = (plain.now(), slow.now(), plain.now());
        // Both were started within what passed between: 1 ms at most of 20 on any machine that runs at all.
        assert!(
            slowed * 8 <= last && slowed * 8 + 10_000_000 >= first,
            "{slowed} * 8 beside {first}..{last}"
        );
        assert_eq!(
            (plain.lasts(1_000), slow.lasts(1_000)),
            (Duration::from_nanos(1_000), Duration::from_nanos(8_000))
        );
        assert_eq!(Clock::started(1.5).lasts(1), Duration::from_nanos(2));
    }
}
