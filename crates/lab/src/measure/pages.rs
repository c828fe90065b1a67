//! Pages that the flash has programmed and read, and on whose behalf.

use nandle_ssd::Ssd;
use nandle_ssd::nand::Cause;

/// Pages programmed since the counters were reset.
pub(crate) fn programs(ssd: &Ssd) -> u64 {
    ssd.counters().programs.iter().flatten().sum()
}

/// Pages programmed on behalf of one cause.
pub(crate) fn programs_for(ssd: &Ssd, cause: Cause) -> u64 {
    ssd.counters().programs[cause as usize].iter().sum()
}

/// Pages read on behalf of one cause.
pub(crate) fn reads_for(ssd: &Ssd, cause: Cause) -> u64 {
    ssd.counters().reads[cause as usize].iter().sum()
}
