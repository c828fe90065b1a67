//! Random numbers that a golden digest can rest on.
//!
//! Every consumer owns a [`Stream`] with a name; adding a consumer never shifts the numbers of
//! another. The generator is PCG64-DXSM (NumPy's default bit generator); the samplers are ours,
//! because the distributions of general-purpose crates may change between versions.
#![warn(missing_docs)]

use rand_core::RngCore;
use rand_pcg::Lcg128CmDxsm64;

mod alias;
mod continuous;
mod fio_zipf;
pub mod math;
mod permutation;
mod zipf;

pub use alias::{Alias, Table};
pub use continuous::{Exponential, Gamma, LogNormal, Normal, Pareto};
pub use fio_zipf::{FioZipf, spread};
pub use permutation::Permutation;
pub use zipf::Zipf;

/// One consumer's random numbers: a pure function of (seed, name).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stream(Lcg128CmDxsm64);

impl Stream {
    /// The stream called `name` under `seed`.
    pub fn new(seed: u64, name: &str) -> Self {
        let mut word = mix(seed ^ 0x6e61_6e64_6c65_0001);
        let mut next = || {
            word = mix(word.wrapping_add(0x9e37_79b9_7f4a_7c15));
            u128::from(word)
        };
        let state = next() << 64 | next();
        let mut tag = 0xcbf2_9ce4_8422_2325_u64; // FNV-1a of the name selects the sequence
        for byte in name.bytes() {
            tag = (tag ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
        }
        Self(Lcg128CmDxsm64::new(state, u128::from(tag) << 64 | u128::from(mix(tag))))
    }

    /// A uniform 64-bit word.
    #[inline]
    pub fn word(&mut self) -> u64 {
        self.0.next_u64()
    }

    /// Uniform in `0..n`, without bias (Lemire's multiply-and-reject).
    ///
    /// # Panics
    /// If `n` is 0.
    #[inline]
    pub fn below(&mut self, n: u64) -> u64 {
        assert!(n > 0, "below(0) has no value to draw");
        let mut wide = u128::from(self.word()) * u128::from(n);
        if (wide as u64) < n {
            let floor = n.wrapping_neg() % n;
            while (wide as u64) < floor {
                wide = u128::from(self.word()) * u128::from(n);
            }
        }
        (wide >> 64) as u64
    }

    /// Uniform in `[0, 1)` with 53 random bits.
    #[inline]
    pub fn unit(&mut self) -> f64 {
        (self.word() >> 11) as f64 * (1.0 / (1_u64 << 53) as f64)
    }

    /// True with probability `p`.
    #[inline]
    pub fn chance(&mut self, p: f64) -> bool {
        self.unit() < p
    }
}

/// SplitMix64's finaliser: a bijection that spreads every input bit over the output.
#[inline]
pub fn mix(mut x: u64) -> u64 {
    x = (x ^ x >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    x = (x ^ x >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    x ^ x >> 31
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn streams_are_functions_of_seed_and_name() {
        let draw = |seed, name| {
            let mut s = Stream::new(seed, name);
            [s.word(), s.word(), s.word()]
        };
        assert_eq!(draw(7, "gc"), draw(7, "gc"));
        assert_ne!(draw(7, "gc"), draw(8, "gc"));
        assert_ne!(draw(7, "gc"), draw(7, "workload"));
    }

    #[test]
    fn below_is_uniform() {
        let mut s = Stream::new(1, "test");
        let mut counts = [0_u32; 7];
        for _ in 0..70_000 {
            counts[s.below(7) as usize] += 1;
        }
        assert!(counts.iter().all(|&c| (9_600..10_400).contains(&c)), "{counts:?}");
    }

    #[test]
    fn unit_stays_in_range_and_centres() {
        let mut s = Stream::new(1, "unit");
        let mean =
            (0..100_000).map(|_| s.unit()).inspect(|u| assert!((0.0..1.0).contains(u))).sum::<f64>() / 1e5;
        assert!((mean - 0.5).abs() < 0.005, "{mean}");
    }
}
