//! A measured part that goes on until the device is steady.

use nandle_trace::synthetic::Phase;

use super::Replayer;
use super::until::{Again, Settle};
use crate::Error;
use crate::measure::{Settling, Steadiness, Until};

impl<'a> Replayer<'a> {
    /// The measured part goes on until the device is steady; where its requests end before, `again` gives them once more.
    pub fn settle(&mut self, until: Until, again: Again<'a>) {
        self.settle = Some(Settle { settling: Settling::new(until, &self.ssd), again, over: false });
    }

    /// Whether the measured part is over, in the midst of it.
    pub(super) fn settled(&mut self) -> bool {
        self.phase.0 == self.phase.1 && self.look(false)
    }

    /// The measured phase once more, if it is not over.
    pub(super) fn again(&mut self) -> Result<Option<Phase>, Error> {
        if self.stopped || self.settle.is_none() || self.look(true) {
            return Ok(None);
        }
        let Some(settle) = &mut self.settle else { return Ok(None) };
        let again = (settle.again)()?;
        if again.is_none() {
            settle.settling.ended();
        }
        Ok(again)
    }

    fn look(&mut self, ended: bool) -> bool {
        let Some(settle) = &mut self.settle else { return false };
        let meter = &mut self.meter;
        settle.over = settle.over
            || settle.settling.over(&mut meter.steady, meter.written, &meter.latency, &self.ssd, ended);
        settle.over
    }

    /// How steady the device was when the measured part was over.
    #[must_use]
    pub fn steadiness(&self) -> Option<Steadiness> {
        self.settle.as_ref().filter(|_| !self.stopped).and_then(|settle| settle.settling.verdict()).cloned()
    }
}
