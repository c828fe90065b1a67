//! What a served drive has done, and how late its answers were.

use std::fmt;

use hdrhistogram::Histogram;
use nandle_lab::measure::{KINDS, Meter};
use nandle_lab::units::{bytes, count, time};
use nandle_ssd::Ssd;

/// What is wrong with the image that is served from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Places that were found damaged when it was opened.
    pub damaged: u64,
    /// Sectors that could not be read any more then.
    pub unreadable_sectors: u64,
    /// It is not where it should be any more.
    pub gone: Option<String>,
}

/// How long after the modelled time answers were given.
#[derive(Clone, Debug)]
pub struct Lateness {
    histogram: Histogram<u64>,
}

impl Default for Lateness {
    fn default() -> Self {
        Self { histogram: Histogram::new(3).expect("3 digits are allowed") }
    }
}

impl Lateness {
    pub(crate) fn record(&mut self, ns: u64) {
        let _ = self.histogram.record(ns);
    }

    /// Answers given.
    #[must_use]
    pub fn answers(&self) -> u64 {
        self.histogram.len()
    }

    /// Mean, in nanoseconds.
    #[must_use]
    pub fn mean_ns(&self) -> f64 {
        self.histogram.mean()
    }

    /// What `share` (0 to 1) of the answers did not exceed, in nanoseconds.
    #[must_use]
    pub fn percentile_ns(&self, share: f64) -> u64 {
        self.histogram.value_at_quantile(share)
    }

    /// The latest answer, in nanoseconds.
    #[must_use]
    pub fn max_ns(&self) -> u64 {
        self.histogram.max()
    }
}

/// What a served drive has done so far.
#[derive(Clone, Debug)]
pub struct Report {
    /// Time since the drive was switched on, in nanoseconds: the model's, which is the wall clock's
    /// unless timing is off.
    pub now_ns: u64,
    /// Commands completed by the drive: reads, writes, trims, flushes.
    pub commands: [u64; KINDS],
    /// Their bytes.
    pub bytes: [u64; KINDS],
    /// Mean modelled latency by kind, in nanoseconds.
    pub mean_ns: [f64; KINDS],
    /// Commands that the drive refused.
    pub refused: u64,
    /// Commands under way.
    pub outstanding: u32,
    /// Bytes programmed per byte written by the host; none before the host wrote.
    pub waf: Option<f64>,
    /// How late answers were; none with timing off.
    pub lateness: Option<Lateness>,
}

impl Report {
    pub(crate) fn of(ssd: &Ssd, meter: &Meter, lateness: Option<&Lateness>) -> Self {
        Self {
            now_ns: ssd.now(),
            commands: std::array::from_fn(|kind| meter.latency[kind].requests),
            bytes: std::array::from_fn(|kind| meter.latency[kind].bytes),
            mean_ns: std::array::from_fn(|kind| meter.latency[kind].mean_ns()),
            refused: meter.refused,
            outstanding: ssd.outstanding(),
            waf: meter.waf(ssd),
            lateness: lateness.cloned(),
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "after {}:", time(self.now_ns as f64))?;
        for (kind, name) in ["reads", "writes", "trims", "flushes"].into_iter().enumerate() {
            write!(f, " {} {name}", count(self.commands[kind]))?;
            if self.bytes[kind] > 0 {
                write!(f, " ({}, {} each)", bytes(self.bytes[kind]), time(self.mean_ns[kind]))?;
            }
            f.write_str(if kind + 1 < KINDS { "," } else { "; " })?;
        }
        match self.waf {
            Some(waf) => write!(f, "WAF {waf:.3}")?,
            None => write!(f, "nothing written yet")?,
        }
        if self.refused > 0 {
            write!(f, "; {} REFUSED", count(self.refused))?;
        }
        match &self.lateness {
            Some(late) if late.answers() > 0 => {
                let at = |share| time(late.percentile_ns(share) as f64);
                write!(
                    f,
                    "\nanswers after the modelled time: mean {}, 50% {}, 99% {}, 99.9% {}, max {}",
                    time(late.mean_ns()),
                    at(0.5),
                    at(0.99),
                    at(0.999),
                    time(late.max_ns() as f64)
                )
            }
            Some(_) => Ok(()),
            None => f.write_str("\ntiming is off: answers were not held back to the modelled time"),
        }
    }
}
