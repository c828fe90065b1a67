//! How many latencies there were of each size.

use std::ops::AddAssign;

use hdrhistogram::{Counter, Histogram};

/// Counts in the buckets of a [`Histogram`] of so many significant digits, in its order. Recording is a shift and an
/// addition, a fifth of what the histogram takes, which also minds limits that nobody sets here.
#[derive(Clone, Debug)]
pub struct Tally<C, const DIGITS: u8> {
    /// As far as the largest value recorded.
    counts: Vec<C>,
}

impl<C, const DIGITS: u8> Default for Tally<C, DIGITS> {
    fn default() -> Self {
        Self { counts: Vec::new() }
    }
}

impl<C: Counter + AddAssign, const DIGITS: u8> Tally<C, DIGITS> {
    /// Values of at most so many bits have a bucket each. Of each further bit, half as many buckets are twice as wide.
    const BITS: u32 = (2 * 10_u64.pow(DIGITS as u32)).next_power_of_two().ilog2();

    /// Counts `value`.
    #[inline]
    pub fn record(&mut self, value: u64) {
        let width = (value | ((1 << Self::BITS) - 1)).ilog2() + 1 - Self::BITS;
        let bucket = ((width << (Self::BITS - 1)) as usize) + (value >> width) as usize;
        if bucket >= self.counts.len() {
            self.grow(bucket + 1);
        }
        self.counts[bucket] += C::one();
    }

    #[cold]
    fn grow(&mut self, buckets: usize) {
        self.counts.resize(buckets, C::zero());
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Self) {
        if other.counts.len() > self.counts.len() {
            self.grow(other.counts.len());
        }
        self.counts.iter_mut().zip(&other.counts).for_each(|(mine, theirs)| *mine += *theirs);
    }

    /// Whether nothing was recorded.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// The least and the largest value that `bucket` stands for.
    fn ends(bucket: usize) -> (u64, u64) {
        let width = (bucket >> (Self::BITS - 1)).saturating_sub(1);
        let least = ((bucket - (width << (Self::BITS - 1))) as u64) << width;
        (least, least + ((1 << width) - 1))
    }

    /// What was recorded: the end of each bucket that is not empty, and how many are in it, ascending.
    pub fn recorded(&self) -> impl Iterator<Item = (u64, C)> {
        let filled = self.counts.iter().enumerate().filter(|(_, count)| **count != C::zero());
        filled.map(|(bucket, count)| (Self::ends(bucket).1, *count))
    }

    /// The value that `share` (0 to 1) of those recorded do not exceed, as [`Histogram::value_at_quantile`] has it.
    #[must_use]
    pub fn value_at(&self, share: f64) -> u64 {
        let total: u64 = self.counts.iter().map(Counter::as_u64).sum();
        let wanted = ((share.min(1.0) * total as f64).ceil() as u64).max(1);
        let mut seen = 0;
        let reached = self.counts.iter().position(|count| {
            seen += count.as_u64();
            seen >= wanted
        });
        let (least, largest) = reached.map_or((0, 0), Self::ends);
        if share == 0.0 { least } else { largest }
    }

    /// All of it as a histogram.
    #[must_use]
    pub fn histogram(&self) -> Histogram<C> {
        let mut histogram = Histogram::new(DIGITS).expect("up to 5 digits are allowed");
        for (end, count) in self.recorded() {
            // It grows by itself: only memory could fail it. (A saturating record would not grow.)
            let _ = histogram.record_n(end, count);
        }
        histogram
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn agrees<const DIGITS: u8>() {
        let mut draw = nandle_random::Stream::new(1, "tally");
        let mut histogram = Histogram::<u32>::new(DIGITS).expect("digits");
        let (mut tally, mut other) = (Tally::<u32, DIGITS>::default(), Tally::default());
        assert_eq!((tally.histogram(), tally.value_at(0.5)), (histogram.clone(), 0));
        for n in 0..5000 {
            let value = draw.below(u64::MAX) >> (20 + draw.below(44));
            let one = if n % 3 == 0 { &mut other } else { &mut tally };
            one.record(value);
            histogram.record(value).expect("it grows");
        }
        tally.add(&other);
        assert_eq!(tally.histogram(), histogram);
        for share in [0.0, 1e-9, 0.01, 0.5, 0.9, 0.999, 1.0] {
            assert_eq!(tally.value_at(share), histogram.value_at_quantile(share), "{share}");
        }
    }

    #[test]
    fn it_is_the_histogram_of_the_same_values() {
        agrees::<2>();
        agrees::<3>();
    }
}
