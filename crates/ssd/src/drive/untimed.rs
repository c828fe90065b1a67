//! What is taken for granted on a drive without clocks, where a policy looks at time.

use nandle_nand::Time;

use super::Ssd;
use crate::collect::victim::VictimKind;
use crate::space::Fold;

impl Ssd {
    /// How long it took from `since` to `at`: no time without clocks.
    #[inline]
    pub fn took(&self, since: Time, at: Time) -> Time {
        if self.config.timing.untimed { 0 } else { at.saturating_sub(since) }
    }

    /// What the drive's policies take for granted where time does not count (`timing.untimed`); nothing if it does.
    pub fn without_time(&self) -> Vec<&'static str> {
        let config = &self.config;
        if !config.timing.untimed {
            return Vec::new();
        }
        let own = [
            (
                true,
                "every operation ends as soon as it may begin: collection keeps up with the host, and no die is busy for long",
            ),
            (config.scheme.striping == "dynamic", "dynamic striping takes the planes in turn"),
            (
                config.gc.victim == VictimKind::CostBenefit,
                "cost-benefit counts the age of blocks in rounds of operations and gaps between arrivals",
            ),
            (self.buffer.is_some() && config.buffer.clean_ahead, "cleaning ahead always finds a die idle"),
            (
                !config.slc.is_off() && config.slc.fold != Fold::Pressure,
                "the SLC cache is folded for idleness only in the gaps between arrivals",
            ),
        ];
        let own = own.into_iter().filter(|&(looks, _)| looks).map(|(_, what)| what);
        own.chain(self.schemes.without_time()).collect()
    }
}
