//! Where a fitted trace's requests are first to touch something: how its footprint is shared out.

use super::stroke::mean;
use super::{Fitted, GRANULE};

/// Most untouched granules in a row that are looked for: 16 GiB.
pub(super) const MOST_ROW: u64 = 1 << 20;

/// Granules that a request lies in.
pub(super) fn span(start: Option<u32>, bytes: u64) -> u64 {
    (u64::from(start.unwrap_or(0)) + bytes).div_ceil(GRANULE)
}

/// Where the granules of a footprint are first touched, in granules per request.
#[derive(Default)]
pub(super) struct Entering {
    /// By requests that fit one and begin a new one.
    short: f64,
    /// By longer ones, and by runs.
    long: f64,
    /// By requests that begin in a touched one and go on beyond it.
    beyond: f64,
    /// Requests and runs that may be gone on from.
    places: f64,
    /// Granules of the longest run.
    pub longest: f64,
}

impl Entering {
    pub fn of(fitted: &Fitted) -> Self {
        let mut sum = Self::default();
        for shape in [&fitted.read, &fitted.write, &fitted.trim].into_iter().flatten() {
            let heads = shape.share * (1.0 - shape.sequential_share);
            for kind in &shape.kinds {
                let span = span(kind.start, kind.bytes);
                let others = heads * kind.share * (1.0 - kind.repeat);
                let new = others * (1.0 - kind.join);
                *(if span == 1 { &mut sum.short } else { &mut sum.long }) += new * span as f64;
                sum.places += new;
                if span > 1 {
                    let fresh = others * kind.fresh.unwrap_or(0.0) * kind.bytes as f64 / GRANULE as f64;
                    sum.beyond += (fresh - new * span as f64).max(0.0);
                }
            }
            for run in &shape.runs {
                let granules = run.requests * mean(&run.sizes) / GRANULE as f64;
                sum.longest = sum.longest.max(granules * run.fresh);
                sum.long += heads * run.share * run.fresh * granules;
            }
        }
        sum
    }

    /// Granules kept free behind each new place, for what goes on from there.
    pub fn spare(&self) -> f64 {
        if self.places > 0.0 { (self.beyond / self.places).min(MOST_ROW as f64) } else { 0.0 }
    }

    /// Granules of the footprint for requests that fit one: as many as those are first to touch.
    pub fn front(&self, granules: u64) -> u64 {
        let short = self.short * (1.0 - self.spare().min(1.0));
        let all = self.short + self.long + self.beyond;
        if all == short || all == 0.0 {
            return granules;
        }
        ((granules as f64 * short / all) as u64).clamp(1, granules)
    }
}
