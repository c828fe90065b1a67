//! Waiting awake: to sleep and to be woken takes longer than many a client takes for its next message.
//!
//! A thread that waits awake has a processor that others may need. So it does so while there are two for each client,
//! one at either end, or while no other client has said anything for a while; never for long; and less and less if it
//! was mostly in vain.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::available_parallelism;
use std::time::{Duration, Instant};

/// The longest that a thread waits awake.
const LONGEST: Duration = Duration::from_micros(50);
/// Waits in a row that are slept through, at most, after one that was in vain.
const MOST_SKIPPED: u32 = 63;
/// Nanoseconds without a word of others after which a client is alone.
const ALONE_NS: u64 = 10_000_000;

static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Those that say something now and then.
#[derive(Debug, Default)]
pub(crate) struct Talkers {
    number: AtomicUsize,
    next: AtomicU64,
    /// Who spoke last, and when somebody else did for the last time.
    last: AtomicU64,
    changed: AtomicU64,
}

/// How one of them is waited for.
#[derive(Debug)]
pub(crate) struct Wink {
    talkers: Arc<Talkers>,
    me: u64,
    processors: usize,
    /// Waits to sleep through, of so many after the last wink.
    skip: u32,
    skipped: u32,
}

impl Wink {
    /// For one more of them.
    pub fn new(talkers: Arc<Talkers>) -> Self {
        talkers.number.fetch_add(1, Ordering::Relaxed);
        let me = talkers.next.fetch_add(1, Ordering::Relaxed) + 1;
        let processors = available_parallelism().map_or(1, usize::from);
        Self { talkers, me, processors, skip: 0, skipped: 0 }
    }

    /// Tries, for a moment if that is worth it, until there is something.
    pub fn wait<T>(&mut self, attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let may = self.has_processor();
        if !may || self.skip > 0 {
            self.skip = self.skip.saturating_sub(1);
            return None;
        }
        let found = Self::try_again(attempt);
        self.skipped = if found.is_some() { 0 } else { (2 * self.skipped + 1).min(MOST_SKIPPED) };
        self.skip = self.skipped;
        found
    }

    fn try_again<T>(mut attempt: impl FnMut() -> Option<T>) -> Option<T> {
        let began = Instant::now();
        while began.elapsed() < LONGEST {
            std::thread::yield_now();
            let found = attempt();
            if found.is_some() {
                return found;
            }
        }
        None
    }

    /// Whether one who waits awake takes it from nobody.
    pub fn has_processor(&self) -> bool {
        let Talkers { number, last, changed, .. } = &*self.talkers;
        let now = u64::try_from(BEGAN.elapsed().as_nanos()).unwrap_or(u64::MAX);
        if last.swap(self.me, Ordering::Relaxed) != self.me {
            changed.store(now, Ordering::Relaxed);
        }
        2 * number.load(Ordering::Relaxed) <= self.processors
            || self.processors > 1 && now.saturating_sub(changed.load(Ordering::Relaxed)) >= ALONE_NS
    }
}

impl Drop for Wink {
    fn drop(&mut self) {
        self.talkers.number.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(processors: usize, talkers: &Arc<Talkers>) -> Wink {
        let mut wink = Wink::new(talkers.clone());
        wink.processors = processors;
        wink
    }

    /// Whether it tried at all.
    fn tries(wink: &mut Wink, found: bool) -> bool {
        let mut tried = false;
        wink.wait(|| {
            tried = true;
            found.then_some(())
        });
        tried
    }

    #[test]
    fn who_winks_in_vain_winks_less_and_less_until_it_pays_again() {
        let mut wink = on(2, &Arc::default());
        let waits: Vec<bool> = (0..300).map(|_| tries(&mut wink, false)).collect();
        let tried: Vec<usize> = (0..waits.len()).filter(|&n| waits[n]).collect();
        assert_eq!(tried, [0, 2, 6, 14, 30, 62, 126, 190, 254]);
        let waits = (0..64).filter(|_| tries(&mut wink, true)).count();
        assert!((2..64).contains(&waits), "{waits}");
        assert!((0..64).all(|_| tries(&mut wink, true)), "as long as it pays, each time");
    }

    #[test]
    fn nobody_winks_where_others_need_the_processor() {
        let talkers = Arc::default();
        assert!(!tries(&mut on(1, &talkers), true), "the client itself needs the only one");
        let (mut one, mut other) = (on(2, &talkers), on(2, &talkers));
        // Each has just heard of the other.
        assert!(!tries(&mut one, true) && !tries(&mut other, true) && !tries(&mut one, true));
        std::thread::sleep(Duration::from_nanos(2 * ALONE_NS));
        assert!(tries(&mut one, true), "the other has been silent");
        (one.processors, other.processors) = (4, 4);
        assert!(tries(&mut other, true) && tries(&mut one, true), "there are enough");
    }
}
