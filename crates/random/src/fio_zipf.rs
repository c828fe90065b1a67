//! Zipf's law as fio draws it.

use crate::Stream;
use crate::math::{ln, pow};

/// Terms of the law's sum that fio adds up.
const MOST_TERMS: u64 = 10_000_000;
/// fio's 64-bit golden ratio: what spreads the ranks over the blocks.
const SPREAD: u64 = 0x61c8_8646_80b5_83eb;

/// fio's `zipf`: the inversion of Gray et al. (1994) over `n` blocks, of which two ranks may share one, because ranks are
/// spread by a multiplicative hash and a random offset.
///
/// Beside [`crate::Zipf`], which is exact, its hottest blocks get a little more and its tail is stepped; results that
/// are to agree with fio's need its way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FioZipf {
    n: u64,
    theta: f64,
    /// Sum of i^-theta over the ranks, as far as fio adds it up.
    sum: f64,
    eta: f64,
    offset: u64,
}

impl FioZipf {
    /// The law over `n` blocks (0 is taken as 1) with exponent `theta`, which is above 0 and not 1; the offset is
    /// drawn from `stream`.
    pub fn new(n: u64, theta: f64, stream: &mut Stream) -> Self {
        let n = n.max(1);
        let sum = harmonic(n.min(MOST_TERMS), theta);
        let two = 1.0 + pow(2.0, -theta);
        let eta = (1.0 - pow(2.0 / n as f64, 1.0 - theta)) / (1.0 - two / sum);
        Self { n, theta, sum, eta, offset: stream.below(n) }
    }

    /// One block.
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        self.block(self.rank(stream.unit()))
    }

    /// The rank for a uniform draw, the most popular being 0.
    fn rank(&self, u: f64) -> u64 {
        let z = u * self.sum;
        if z < 1.0 {
            return 0;
        }
        if z < 1.0 + pow(2.0, -self.theta) {
            return 1;
        }
        let share = pow((self.eta * u - self.eta + 1.0).max(0.0), 1.0 / (1.0 - self.theta));
        (self.n as f64 * share) as u64
    }

    /// Where a rank lies.
    fn block(&self, rank: u64) -> u64 {
        spread(rank, self.offset, self.n)
    }
}

/// The block of `n` that fio puts a rank in.
pub fn spread(rank: u64, offset: u64, n: u64) -> u64 {
    rank.wrapping_mul(SPREAD).wrapping_add(offset) % n.max(1)
}

/// Sum of i^-theta for i = 1..=n, the far terms by Euler and Maclaurin.
fn harmonic(n: u64, theta: f64) -> f64 {
    const NEAR: u64 = 1000;
    let term = |i: f64| pow(i, -theta);
    let near: f64 = (1..=n.min(NEAR)).map(|i| term(i as f64)).sum();
    if n <= NEAR {
        return near;
    }
    let (a, b) = (NEAR as f64, n as f64);
    let area = if (theta - 1.0).abs() < 1e-9 {
        ln(b / a)
    } else {
        (pow(b, 1.0 - theta) - pow(a, 1.0 - theta)) / (1.0 - theta)
    };
    let slope = |x: f64| -theta * term(x) / x;
    near + area + (term(b) - term(a)) / 2.0 + (slope(b) - slope(a)) / 12.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sum_is_the_sum() {
        for theta in [0.5, 0.99, 1.2, 2.2] {
            let plain: f64 = (1..=200_000_u64).map(|i| (i as f64).powf(-theta)).sum();
            assert!((harmonic(200_000, theta) / plain - 1.0).abs() < 1e-10, "{theta}");
        }
    }

    /// The two hottest ranks by their exact shares, the others by the inversion's own closed form.
    #[test]
    fn ranks_have_their_shares() {
        let n = 100_000;
        for theta in [0.8, 1.2, 2.2] {
            let mut s = Stream::new(3, "fio zipf");
            let law = FioZipf::new(n, theta, &mut s);
            let draws = 400_000;
            let mut ranks = [0_u32; 64];
            for _ in 0..draws {
                if let Some(count) = ranks.get_mut(law.rank(s.unit()) as usize) {
                    *count += 1;
                }
            }
            let sum: f64 = (1..=n).map(|i| (i as f64).powf(-theta)).sum();
            for rank in 0..2_i32 {
                let want = f64::from(rank + 1).powf(-theta) / sum;
                let got = f64::from(ranks[rank as usize]) / f64::from(draws);
                assert!((got - want).abs() < 0.003, "theta {theta}, rank {rank}: {got}, want {want}");
            }
            // P(rank < k) is where the inversion reaches k.
            let reaches = |k: f64| ((k / n as f64).powf(1.0 - theta) - 1.0) / law.eta + 1.0;
            let got = f64::from(ranks[..64].iter().sum::<u32>()) / f64::from(draws);
            assert!((got - reaches(64.0)).abs() < 0.004, "theta {theta}: {got}, want {}", reaches(64.0));
        }
    }

    #[test]
    fn blocks_are_spread_and_may_collide() {
        let n = 10_000;
        let blocks: std::collections::BTreeSet<u64> = (0..n).map(|rank| spread(rank, 17, n)).collect();
        assert!(blocks.iter().all(|&b| b < n));
        // Half of the blocks or a little less: a product is not as even as draws, which would reach 63%.
        assert!((0.4..0.65).contains(&(blocks.len() as f64 / n as f64)), "{}", blocks.len());
    }
}
