//! Power cuts in the middle of a run.

use std::str::FromStr;

use nandle_random::Stream;
use nandle_ssd::nand::Time;

use crate::Error;
use crate::units::parse_count;

/// Events between a request and a cut at random behind it, at most.
const EVENTS: u64 = 64;

/// Cuts of one run, at most: each compares the whole drive with the promise.
const MOST: u64 = 1_000_000;

/// When the power is to be cut in the measured part: `12ms,random:100`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PowerCuts {
    /// Nanoseconds since the measured part began.
    pub times: Vec<Time>,
    /// Cuts at random instants besides.
    pub random: u64,
}

impl FromStr for PowerCuts {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = |part: &str| {
            format!(
                "{part:?}: expected a time such as 12ms, 3s, 500us or 800ns, or random:N, separated by commas"
            )
        };
        let mut cuts = Self::default();
        for part in text.split(',').map(str::trim) {
            if let Some(count) = part.strip_prefix("random:") {
                let count = parse_count(count).map_err(|_| expected(part))?;
                if !(1..=MOST).contains(&count) {
                    return Err(format!("{part:?}: expected 1 to {MOST} cuts"));
                }
                cuts.random += count;
                continue;
            }
            let digits = part.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(part.len());
            let unit = match &part[digits..] {
                "ns" => 1.0,
                "us" => 1e3,
                "ms" => 1e6,
                "s" => 1e9,
                _ => return Err(expected(part)),
            };
            let value: f64 = part[..digits].parse().map_err(|_| expected(part))?;
            cuts.times.push((value * unit) as Time);
        }
        if cuts.asked() > MOST {
            return Err(format!("{} cuts: expected at most {MOST} in all", cuts.asked()));
        }
        Ok(cuts)
    }
}

impl PowerCuts {
    /// How many cuts are asked for.
    fn asked(&self) -> u64 {
        self.times.len() as u64 + self.random
    }

    /// Whether a measured part can have these cuts: whether it is known how many requests it has, and whether time
    /// goes by in it.
    ///
    /// # Errors
    /// If not: what would do.
    pub(crate) fn suit(&self, counted: bool, untimed: bool) -> Result<(), Error> {
        if untimed && self.times.iter().any(|&time| time > 0) {
            return Err(Error::input(
                "--power-cut-at says when the power goes, and without clocks no time goes by: expected random:N with --untimed",
            ));
        }
        if self.random > 0 && !counted {
            return Err(Error::input(
                "--power-cut-at random:N: expected a workload whose number of requests is known, or times instead",
            ));
        }
        Ok(())
    }
}

impl std::fmt::Display for PowerCuts {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let times = self.times.iter().map(|time| format!("{time}ns"));
        let random = Some(format!("random:{}", self.random)).filter(|_| self.random > 0);
        f.write_str(&times.chain(random).collect::<Vec<_>>().join(","))
    }
}

/// The cuts to come.
#[derive(Debug)]
pub(super) struct Schedule {
    asked: PowerCuts,
    draw: Stream,
    /// Times still to come, the next one last.
    times: Vec<Time>,
    /// Requests of the phase behind which the power goes, the next one last.
    requests: Vec<u64>,
}

impl Schedule {
    pub fn new(asked: PowerCuts, seed: u64) -> Self {
        Self { asked, draw: Stream::new(seed, "power cuts"), times: vec![], requests: vec![] }
    }

    /// The measured part begins, without clocks or with.
    pub fn begin(&mut self, now: Time, requests: Option<u64>, untimed: bool) -> Result<(), Error> {
        let requests = requests.filter(|&n| n > 0);
        self.asked.suit(requests.is_some(), untimed)?;
        self.times = self.asked.times.iter().map(|&time| now.saturating_add(time)).collect();
        self.times.sort_unstable_by(|a, b| b.cmp(a));
        if let Some(requests) = requests {
            self.requests = (0..self.asked.random).map(|_| 1 + self.draw.below(requests)).collect();
            self.requests.sort_unstable_by(|a, b| b.cmp(a));
        }
        Ok(())
    }

    /// Cuts that were asked for, and have not come.
    pub fn left(&self) -> u64 {
        (self.times.len() + self.requests.len()) as u64
    }

    /// The next time at which the power goes, if it is not after `to`.
    pub fn due(&self, to: Time) -> Option<Time> {
        self.times.last().copied().filter(|&time| time <= to)
    }
    pub fn took_time(&mut self) {
        self.times.pop();
    }

    /// Whether the power goes behind request `number`, and after how many events.
    pub fn behind(&mut self, number: u64) -> Option<u64> {
        self.requests.pop_if(|wanted| *wanted <= number)?;
        Some(self.draw.below(EVENTS))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_for() {
        let cuts: PowerCuts = "12ms, random:100,1.5us".parse().expect("it is right");
        assert_eq!(cuts, PowerCuts { times: vec![12_000_000, 1_500], random: 100 });
        for wrong in ["", "12", "ms", "random:", "random:-1", "5 m", "12ms,"] {
            let error = wrong.parse::<PowerCuts>().expect_err("it is wrong");
            assert!(error.contains("expected a time"), "{error}");
        }
        for wrong in ["random:0", "random:1T", "random:18446744073709551615,random:2"] {
            let error = wrong.parse::<PowerCuts>().expect_err("it is wrong");
            assert!(error.contains("expected 1 to 1000000 cuts"), "{error}");
        }
        let error = "random:1M,3ms".parse::<PowerCuts>().expect_err("too many");
        assert_eq!(error, "1000001 cuts: expected at most 1000000 in all");
    }
}
