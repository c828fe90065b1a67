//! `--until steady`: how long a measured part goes on.

use clap::{Args as Group, ValueEnum};
use nandle_lab::measure::{AT_MOST, UNTIL_BAND, Until};

/// When the measured part is over.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Goal {
    /// When write amplification and mean latency hold.
    Steady,
}

/// How long the measured part goes on.
#[derive(Debug, Group)]
pub struct Settling {
    /// Go on with the workload, or repeat the trace, until write amplification and mean latency hold.
    #[arg(long, value_enum, value_name = "WHEN")]
    pub until: Option<Goal>,
    /// Most that they may spread over the last three windows, as a share of their mean.
    #[arg(long, value_name = "SHARE", default_value_t = UNTIL_BAND, requires = "until")]
    pub band: f64,
    /// Give up after so many writes of the range that the workload writes.
    #[arg(long, value_name = "DRIVE WRITES", default_value_t = AT_MOST, requires = "until")]
    pub at_most: f64,
}

impl Settling {
    pub fn until(&self) -> Option<Until> {
        self.until.map(|Goal::Steady| Until { band: self.band, at_most: self.at_most })
    }
}
