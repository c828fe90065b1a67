//! Drives that were measured: write amplification, throughput and latency of theirs and of ours.
//!
//! The measured facts are in the tables beside this file, each row with its source; what the workloads are is in
//! `nandle_trace::synthetic` (`ssdiq-*`, `warp-*`). A row that a preset was fitted to is marked so, and counts as no prediction.

mod amplification;
mod claims;
mod measured;
mod scaled;
mod speed;

pub use claims::CLAIMS;
use nandle_lab::Error;

use super::{Bench, Report};

/// The evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    amplification::reproduce(bench, report)?;
    speed::reproduce(bench, report)
}
