//! How long requests of one kind took.

use super::tally::Tally;

/// Significant digits of the buckets that percentiles are read from.
const DIGITS: u8 = 3;

/// Count, bytes and latencies of one kind of request.
#[derive(Clone, Debug)]
pub struct Latency {
    /// Requests.
    pub requests: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Latencies in nanoseconds, to 0.1%.
    pub tally: Tally<u64, DIGITS>,
    /// Exact sum of the latencies.
    pub sum_ns: u128,
    /// Sum of their squares.
    squares: f64,
    /// Exact extremes.
    pub min_ns: u64,
    /// Exact extremes.
    pub max_ns: u64,
}

impl Default for Latency {
    fn default() -> Self {
        Self {
            requests: 0,
            bytes: 0,
            tally: Tally::default(),
            sum_ns: 0,
            squares: 0.0,
            min_ns: u64::MAX,
            max_ns: 0,
        }
    }
}

impl Latency {
    /// Counts one request.
    #[inline]
    pub fn record(&mut self, bytes: u64, ns: u64) {
        self.requests += 1;
        self.bytes += bytes;
        self.sum_ns += u128::from(ns);
        self.squares += ns as f64 * ns as f64;
        self.min_ns = self.min_ns.min(ns);
        self.max_ns = self.max_ns.max(ns);
        self.tally.record(ns);
    }

    /// Adds what another has counted.
    pub fn add(&mut self, other: &Self) {
        self.requests += other.requests;
        self.bytes += other.bytes;
        self.sum_ns += other.sum_ns;
        self.squares += other.squares;
        self.min_ns = self.min_ns.min(other.min_ns);
        self.max_ns = self.max_ns.max(other.max_ns);
        self.tally.add(&other.tally);
    }

    /// Mean in nanoseconds; 0 of nothing.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        if self.requests == 0 { 0.0 } else { self.sum_ns as f64 / self.requests as f64 }
    }

    /// Standard deviation in nanoseconds; 0 of nothing.
    #[must_use]
    pub fn stddev_ns(&self) -> f64 {
        if self.requests == 0 {
            return 0.0;
        }
        let mean = self.mean_ns();
        (self.squares / self.requests as f64 - mean * mean).max(0.0).sqrt()
    }

    /// The latency that `share` (0 to 1) of the requests do not exceed, in nanoseconds.
    #[must_use]
    pub fn percentile_ns(&self, share: f64) -> u64 {
        if self.requests == 0 { 0 } else { self.tally.value_at(share).clamp(self.min_ns, self.max_ns) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_exact_and_percentiles_close() {
        let (mut a, mut b) = (Latency::default(), Latency::default());
        for n in 1..=1000_u64 {
            if n % 3 == 0 { a.record(512, n * 1000) } else { b.record(512, n * 1000) }
        }
        a.add(&b);
        assert_eq!((a.requests, a.bytes, a.min_ns, a.max_ns), (1000, 512_000, 1000, 1_000_000));
        assert!((a.mean_ns() - 500_500.0).abs() < 1e-6);
        assert!((a.stddev_ns() - 288_674.99).abs() < 1.0, "{}", a.stddev_ns());
        assert!((a.percentile_ns(0.99) as f64 / 990_000.0 - 1.0).abs() < 0.002);
        assert_eq!(Latency::default().percentile_ns(0.5), 0);
    }
}
