//! How a drive is served, and how that came to its end.

use std::path::PathBuf;

use nandle_lab::config::Drive;
use nandle_lab::measure::Meter;
use nandle_ssd::Ssd;

use crate::Report;
use crate::live::shadow::Shadow;
use crate::timing::Timing;

/// How a drive is served.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// When answers are given.
    pub timing: Timing,
    /// How much slower the drive and its clock are than the wall clock, if they are.
    pub dilation: Option<f64>,
    /// Seed of every random choice of the drive.
    pub seed: u64,
    /// Cut the power once so many commands have been submitted.
    pub power_cut_after: Option<u64>,
    /// Write the commands as a trace, with the drive's time.
    pub record: Option<PathBuf>,
    /// Drives that do the same in simulation ([`crate::live::shadow`]), and what they are called.
    pub shadows: Vec<(String, Drive)>,
}

/// How serving came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Asked to: everything was answered and flushed.
    Stopped,
    /// The power was cut on purpose, with so many commands under way.
    PowerCut {
        /// Commands that were never answered.
        lost: u32,
    },
}

/// What is left when serving has ended.
pub struct Ended {
    /// How.
    pub end: End,
    /// What was done.
    pub report: Report,
    /// What was counted.
    pub meter: Meter,
    /// The drive; none after a power cut.
    pub ssd: Option<Ssd>,
    /// The shadows, each with all that it was sent done.
    pub shadows: Vec<Shadow>,
}
