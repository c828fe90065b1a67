//! Drives that were measured: write amplification, throughput and latency of theirs and of ours.
//!
//! The measured facts are in the tables beside this file, each row with its source; what the workloads are is in
//! `nandle_trace::synthetic` (`ssdiq-*`, `warp-*`). A row that a preset was fitted to is marked so, and counts as no prediction.

mod amplification;
mod measured;
mod scaled;

use super::{Bench, Report};
use crate::Error;
use crate::config::PRESETS;

const UNIFORM: &str = "real-waf-uniform";
const SKEWED: &str = "real-waf-skewed";
const ZONES: &str = "real-waf-zones";
const FDP: &str = "real-waf-fdp";
const OVER_TIME: &str = "real-waf-over-time";

/// Names of the claims.
pub const CLAIMS: &[&str] = &[UNIFORM, SKEWED, ZONES, FDP, OVER_TIME];

/// Whether there is a preset of that name.
fn exists(preset: &str) -> bool {
    PRESETS.iter().any(|p| p.name == preset)
}

/// Why ours differs, where it does.
fn why(_claim: &str, _workload: &str) -> &'static str {
    ""
}

/// The evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    amplification::reproduce(bench, report)
}
