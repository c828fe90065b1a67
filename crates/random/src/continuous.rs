//! Continuous distributions, by the textbook transformation of each.

use crate::Stream;
use crate::math::{exp, ln, pow};

/// Exponential gaps: the memoryless arrival process.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Exponential {
    /// The mean, in the unit of the draws.
    pub mean: f64,
}

impl Exponential {
    /// One draw.
    #[inline]
    pub fn sample(&self, from: &mut Stream) -> f64 {
        -self.mean * ln(1.0 - from.unit())
    }
}

/// The normal distribution.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Normal {
    /// The mean.
    pub mean: f64,
    /// The standard deviation.
    pub deviation: f64,
}

impl Normal {
    /// One draw (Marsaglia's polar method; the second of each pair is dropped, so that a draw
    /// depends on nothing but the stream).
    #[inline]
    pub fn sample(&self, from: &mut Stream) -> f64 {
        loop {
            let (x, y) = (2.0 * from.unit() - 1.0, 2.0 * from.unit() - 1.0);
            let square = x * x + y * y;
            if square < 1.0 && square > 0.0 {
                return self.mean + self.deviation * x * (-2.0 * ln(square) / square).sqrt();
            }
        }
    }
}

/// The log-normal distribution: heavy-tailed gaps.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LogNormal {
    under: Normal,
}

impl LogNormal {
    /// The log-normal distribution with this `mean` whose logarithm has the deviation `sigma`.
    pub fn with_mean(mean: f64, sigma: f64) -> Self {
        Self { under: Normal { mean: ln(mean) - sigma * sigma / 2.0, deviation: sigma } }
    }

    /// One draw.
    #[inline]
    pub fn sample(&self, from: &mut Stream) -> f64 {
        exp(self.under.sample(from))
    }
}

/// The Pareto distribution (type I): `P(X > x) = (low / x)^shape` for `x >= low`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pareto {
    /// The smallest value.
    pub low: f64,
    /// The tail exponent; the mean is finite above 1.
    pub shape: f64,
}

impl Pareto {
    /// One draw.
    #[inline]
    pub fn sample(&self, from: &mut Stream) -> f64 {
        self.low * pow(1.0 - from.unit(), -1.0 / self.shape)
    }
}

/// The gamma distribution, for shapes of at least 1.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Gamma {
    shape: f64,
    scale: f64,
}

impl Gamma {
    /// The gamma distribution with this `shape` (raised to 1 if below) and `mean`.
    pub fn with_mean(mean: f64, shape: f64) -> Self {
        let shape = shape.max(1.0);
        Self { shape, scale: mean / shape }
    }

    /// One draw (Marsaglia and Tsang, 2000).
    pub fn sample(&self, from: &mut Stream) -> f64 {
        let d = self.shape - 1.0 / 3.0;
        let c = 1.0 / (9.0 * d).sqrt();
        loop {
            let x = Normal { mean: 0.0, deviation: 1.0 }.sample(from);
            let root = 1.0 + c * x;
            let v = root * root * root;
            if v > 0.0 && ln(1.0 - from.unit()) < 0.5 * x * x + d - d * v + d * ln(v) {
                return d * v * self.scale;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean and variance of many draws.
    fn moments(mut draw: impl FnMut(&mut Stream) -> f64) -> (f64, f64) {
        let mut s = Stream::new(11, "moments");
        let n = 400_000;
        let (mut sum, mut squares) = (0.0, 0.0);
        for _ in 0..n {
            let x = draw(&mut s);
            sum += x;
            squares += x * x;
        }
        let mean = sum / f64::from(n);
        (mean, squares / f64::from(n) - mean * mean)
    }

    #[track_caller]
    fn close(got: f64, want: f64, relative: f64) {
        assert!((got / want - 1.0).abs() < relative, "got {got}, want {want}");
    }

    #[test]
    fn exponential() {
        let (mean, variance) = moments(|s| Exponential { mean: 4.0 }.sample(s));
        close(mean, 4.0, 0.01);
        close(variance, 16.0, 0.03);
    }

    #[test]
    fn normal() {
        let (mean, variance) = moments(|s| Normal { mean: 10.0, deviation: 3.0 }.sample(s));
        close(mean, 10.0, 0.01);
        close(variance, 9.0, 0.02);
    }

    #[test]
    fn log_normal() {
        let (mean, variance) = moments(|s| LogNormal::with_mean(5.0, 0.5).sample(s));
        close(mean, 5.0, 0.01);
        close(variance, 25.0 * (0.25_f64.exp() - 1.0), 0.05);
    }

    #[test]
    fn pareto() {
        let (mean, variance) = moments(|s| Pareto { low: 2.0, shape: 6.0 }.sample(s));
        close(mean, 6.0 * 2.0 / 5.0, 0.01);
        close(variance, 4.0 * 6.0 / (25.0 * 4.0), 0.1);
    }

    #[test]
    fn gamma() {
        let (mean, variance) = moments(|s| Gamma::with_mean(3.0, 1.5).sample(s));
        close(mean, 3.0, 0.01);
        close(variance, 9.0 / 1.5, 0.03);
    }
}
