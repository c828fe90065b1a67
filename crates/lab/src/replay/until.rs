//! What makes a measured part go on until the device is steady.

use nandle_trace::synthetic::Phase;

use crate::Error;
use crate::measure::Settling;

/// Makes a phase once more.
pub type Again<'a> = Box<dyn FnMut() -> Result<Option<Phase>, Error> + 'a>;

/// What makes the measured part go on.
pub(super) struct Settle<'a> {
    pub settling: Settling,
    /// The measured phase once more; none if it cannot be repeated.
    pub again: Again<'a>,
    pub over: bool,
}

impl Settle<'_> {
    pub fn wrote(&mut self, phase: (usize, usize), lsn: u64, sectors: u64) {
        if phase.0 == phase.1 {
            self.settling.wrote(lsn, sectors);
        }
    }
}
