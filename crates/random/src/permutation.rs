//! A random order of `0..n` in constant memory.

use crate::{Stream, mix};

/// A bijection of `0..n`: a four-round Feistel network over the next power of four, walked until
/// it lands inside (fewer than four steps on average).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Permutation {
    n: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Permutation {
    /// A permutation of `0..n` with keys drawn from `stream`. `n` of 0 is taken as 1.
    pub fn new(n: u64, stream: &mut Stream) -> Self {
        let bits = 64 - n.saturating_sub(1).leading_zeros();
        let half_bits = bits.div_ceil(2).max(1);
        Self { n: n.max(1), half_bits, keys: std::array::from_fn(|_| stream.word()) }
    }

    /// How many indices there are.
    #[expect(clippy::len_without_is_empty, reason = "it is never empty")]
    pub fn len(&self) -> u64 {
        self.n
    }

    /// Where `index` goes.
    ///
    /// # Panics
    /// If `index` is not below `n`.
    #[inline]
    pub fn at(&self, index: u64) -> u64 {
        assert!(index < self.n, "index {index} of a permutation of {}", self.n);
        let mask = (1_u64 << self.half_bits) - 1;
        let mut x = index;
        loop {
            let (mut left, mut right) = (x >> self.half_bits, x & mask);
            for key in self.keys {
                (left, right) = (right, left ^ (mix(right ^ key) & mask));
            }
            x = left << self.half_bits | right;
            if x < self.n {
                return x;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_index_is_hit_once() {
        for n in [1_u64, 2, 3, 4, 5, 16, 17, 1000, 4096, 65_537] {
            let p = Permutation::new(n, &mut Stream::new(n, "permutation"));
            let mut seen = vec![false; n as usize];
            for i in 0..n {
                let at = p.at(i) as usize;
                assert!(!seen[at], "{n}: {at} twice");
                seen[at] = true;
            }
        }
    }

    #[test]
    fn order_looks_random() {
        let n = 100_000;
        let p = Permutation::new(n, &mut Stream::new(1, "permutation"));
        let ascents = (1..n).filter(|&i| p.at(i) > p.at(i - 1)).count();
        assert!((49_000..51_000).contains(&ascents), "{ascents}");
    }

    #[test]
    fn the_largest_range_works() {
        let p = Permutation::new(u64::MAX, &mut Stream::new(1, "permutation"));
        assert_ne!(p.at(0), p.at(1));
    }
}
