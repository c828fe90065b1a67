//! Zipf's law in constant time and memory.

use crate::Stream;
use crate::math::{exp, expm1, ln, log1p, pow};

/// Ranks `0..n`, rank `k` with probability proportional to `(k + 1)^-theta`.
///
/// Rejection-inversion (Hörmann and Derflinger, 1996): no tables, fewer than 1.2 uniform draws a
/// value for any `n` and `theta >= 0`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Zipf {
    n: f64,
    theta: f64,
    /// H(1.5) - h(1), and H(n + 0.5): the ends of the inverted range.
    from: f64,
    to: f64,
    /// Draws this close to the rank's centre need no test.
    accept: f64,
}

impl Zipf {
    /// The law over `n` ranks. `n` of 0 is taken as 1; `theta` below 0 or not finite as 0 (uniform).
    pub fn new(n: u64, theta: f64) -> Self {
        let theta = if theta.is_finite() && theta > 0.0 { theta } else { 0.0 };
        let mut law = Self { n: n.max(1) as f64, theta, from: 0.0, to: 0.0, accept: 0.0 };
        law.from = law.area(1.5) - 1.0;
        law.to = law.area(law.n + 0.5);
        law.accept = 2.0 - law.inverse(law.area(2.5) - pow(2.0, -theta));
        law
    }

    /// The integral of x^-theta, as (x^(1-theta) - 1) / (1 - theta): continuous at theta = 1.
    #[inline]
    fn area(&self, x: f64) -> f64 {
        let log = ln(x);
        let t = (1.0 - self.theta) * log;
        if t.abs() < 1e-8 { log * (1.0 + t / 2.0) } else { expm1(t) / (1.0 - self.theta) }
    }

    #[inline]
    fn inverse(&self, y: f64) -> f64 {
        let t = (y * (1.0 - self.theta)).max(-1.0);
        if t.abs() < 1e-8 { exp(y * (1.0 - t / 2.0)) } else { exp(log1p(t) / (1.0 - self.theta)) }
    }

    /// One rank, the most popular being 0.
    #[inline]
    pub fn sample(&self, stream: &mut Stream) -> u64 {
        loop {
            let u = self.to + stream.unit() * (self.from - self.to);
            let x = self.inverse(u);
            let k = x.round().clamp(1.0, self.n);
            if k - x <= self.accept || u >= self.area(k + 0.5) - pow(k, -self.theta) {
                return k as u64 - 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frequencies_follow_the_law() {
        for theta in [0.0, 0.5, 0.99, 1.0, 1.2, 3.0] {
            for n in [1_u64, 2, 10, 1000] {
                let law = Zipf::new(n, theta);
                let mut s = Stream::new(5, "zipf");
                let mut counts = vec![0_u32; n as usize];
                for _ in 0..200_000 {
                    counts[law.sample(&mut s) as usize] += 1;
                }
                let total: f64 = (1..=n).map(|k| (k as f64).powf(-theta)).sum();
                for k in [0, n / 3, n / 2, n - 1] {
                    let want = ((k + 1) as f64).powf(-theta) / total;
                    let got = f64::from(counts[k as usize]) / 2e5;
                    assert!((got - want).abs() < 0.004, "theta {theta}, n {n}, rank {k}: {got}, want {want}");
                }
            }
        }
    }

    #[test]
    fn mean_rank_matches_the_closed_form() {
        let (n, theta) = (100_000_u64, 0.9);
        let weight = |power: f64| (1..=n).map(|k| (k as f64).powf(power)).sum::<f64>();
        let want = weight(1.0 - theta) / weight(-theta) - 1.0;
        let law = Zipf::new(n, theta);
        let mut s = Stream::new(5, "zipf mean");
        let got = (0..400_000).map(|_| law.sample(&mut s) as f64).sum::<f64>() / 4e5;
        assert!((got / want - 1.0).abs() < 0.01, "{got}, want {want}");
    }

    #[test]
    fn absurd_parameters_still_answer() {
        let mut s = Stream::new(5, "zipf edge");
        for theta in [f64::NAN, -3.0, 1e-12, 50.0, 1e9] {
            for n in [0, 1, u64::MAX] {
                let rank = Zipf::new(n, theta).sample(&mut s);
                assert!(rank < n.max(1) || n == u64::MAX);
            }
        }
    }
}
