//! Discrete distributions in constant time (Walker's alias method, Vose's construction).

use crate::Stream;

/// Draws an index with probability proportional to its weight.
#[derive(Clone, Debug, PartialEq)]
pub struct Alias {
    /// For each column: the probability of staying in it, and the column to go to otherwise.
    columns: Vec<(f64, u32)>,
}

impl Alias {
    /// The distribution that gives index `i` the share `weights[i]` of the sum.
    ///
    /// Returns `None` when there is no weight, more than 2^32 of them, a weight is negative or not
    /// finite, or all are zero.
    pub fn new(weights: &[f64]) -> Option<Self> {
        let total: f64 = weights.iter().sum();
        let usable = !weights.is_empty() && u32::try_from(weights.len()).is_ok();
        if !usable
            || weights.iter().any(|w| !w.is_finite() || *w < 0.0)
            || !(total.is_finite() && total > 0.0)
        {
            return None;
        }
        let scale = weights.len() as f64 / total;
        let mut mass: Vec<f64> = weights.iter().map(|w| w * scale).collect();
        let mut columns: Vec<(f64, u32)> = (0..weights.len() as u32).map(|i| (1.0, i)).collect();
        let (mut small, mut large): (Vec<u32>, Vec<u32>) =
            (0..weights.len() as u32).partition(|&i| mass[i as usize] < 1.0);
        while let (Some(&poor), Some(&rich)) = (small.last(), large.last()) {
            small.pop();
            columns[poor as usize] = (mass[poor as usize], rich);
            mass[rich as usize] -= 1.0 - mass[poor as usize];
            if mass[rich as usize] < 1.0 {
                large.pop();
                small.push(rich);
            }
        }
        // What rounding left in `small` holds, up to rounding, a full column: it keeps its 1.0. But
        // an index of weight 0 must never be drawn.
        for i in small {
            if weights[i as usize] == 0.0 {
                let heaviest = (0..weights.len()).max_by(|&a, &b| weights[a].total_cmp(&weights[b]));
                columns[i as usize] = (0.0, heaviest.unwrap_or(0) as u32);
            }
        }
        Some(Self { columns })
    }

    /// One index.
    #[inline]
    pub fn sample(&self, from: &mut Stream) -> usize {
        let column = from.below(self.columns.len() as u64) as usize;
        let (stay, other) = self.columns[column];
        if stay >= 1.0 || from.unit() < stay { column } else { other as usize }
    }
}

/// An empirical distribution: values with weights.
#[derive(Clone, Debug, PartialEq)]
pub struct Table<T> {
    values: Vec<T>,
    alias: Alias,
}

impl<T: Copy> Table<T> {
    /// The distribution of `(value, weight)` pairs; `None` as for [`Alias::new`].
    pub fn new(pairs: &[(T, f64)]) -> Option<Self> {
        let weights: Vec<f64> = pairs.iter().map(|p| p.1).collect();
        Some(Self { values: pairs.iter().map(|p| p.0).collect(), alias: Alias::new(&weights)? })
    }

    /// One value.
    #[inline]
    pub fn sample(&self, from: &mut Stream) -> T {
        if self.values.len() == 1 { self.values[0] } else { self.values[self.alias.sample(from)] }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_follow_the_weights() {
        let weights = [5.0, 0.0, 1.0, 3.0, 1.0];
        let alias = Alias::new(&weights).unwrap();
        let mut s = Stream::new(3, "alias");
        let mut counts = [0_u32; 5];
        for _ in 0..200_000 {
            counts[alias.sample(&mut s)] += 1;
        }
        for (count, weight) in counts.iter().zip(weights) {
            assert!((f64::from(*count) / 2e5 - weight / 10.0).abs() < 0.005, "{counts:?}");
        }
        assert_eq!(counts[1], 0);
    }

    #[test]
    fn impossible_weights_are_refused() {
        assert!(Alias::new(&[]).is_none());
        assert!(Alias::new(&[0.0]).is_none());
        assert!(Alias::new(&[1.0, -1.0]).is_none());
        assert!(Alias::new(&[f64::NAN]).is_none());
        assert!(Alias::new(&[f64::MAX, f64::MAX]).is_none());
    }

    #[test]
    fn tables_hand_out_their_values() {
        let table = Table::new(&[(10, 1.0), (20, 3.0)]).unwrap();
        let mut s = Stream::new(3, "table");
        let mean = (0..100_000).map(|_| table.sample(&mut s)).sum::<i32>() as f64 / 1e5;
        assert!((mean - 17.5).abs() < 0.1, "{mean}");
    }
}
