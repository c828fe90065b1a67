//! The figures of a summary that runs are compared by.

use super::summary::{Requests, Summary};
use crate::units;

/// What a figure counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A count.
    Count,
    /// A ratio.
    Ratio,
    /// Nanoseconds.
    Ns,
    /// Something per simulated second.
    PerSecond,
    /// Bytes per simulated second.
    BytesPerSecond,
    /// A quantity of any size.
    Quantity,
}

impl Unit {
    /// A figure as people read it.
    #[must_use]
    pub fn show(self, value: f64) -> String {
        match self {
            Self::Count => units::count(value as u64),
            Self::Ratio => format!("{value:.3}"),
            Self::Ns => units::time(value),
            Self::PerSecond => units::count(value as u64),
            Self::BytesPerSecond => format!("{}/s", units::bytes(value as u64)),
            Self::Quantity => units::quantity(value),
        }
    }
}

/// A figure of the summary.
#[derive(Clone, Copy, Debug)]
pub struct Metric {
    /// Its key in `summary.json`.
    pub key: &'static str,
    /// Its name for people.
    pub name: &'static str,
    /// Its unit.
    pub unit: Unit,
    /// Less of it is better.
    pub less_is_better: bool,
    /// The figure; none if the run had nothing of the kind.
    pub of: fn(&Summary) -> Option<f64>,
}

fn some(n: u64) -> Option<f64> {
    (n > 0).then_some(n as f64)
}

fn percentile(r: &Requests, key: &str) -> Option<f64> {
    some((r.requests > 0).then(|| r.lat_ns.percentile.get(key).copied()).flatten()?)
}

fn mean(r: &Requests) -> Option<f64> {
    (r.lat_ns.mean > 0.0).then_some(r.lat_ns.mean)
}

fn part(s: &Summary, part: f64) -> Option<f64> {
    s.waf.map(|_| part)
}

macro_rules! metrics {
    ($($key:literal, $name:literal, $Unit:ident, $less:literal, $of:expr;)*) => {
        /// What runs are compared by, the first being what the field looks at first.
        pub const METRICS: &[Metric] = &[
            $(Metric { key: $key, name: $name, unit: Unit::$Unit, less_is_better: $less, of: $of }),*
        ];
    };
}

metrics! {
    "waf", "WAF", Ratio, true, |s| s.waf;
    "waf_steady", "WAF, last part", Ratio, true, |s| s.waf_steady;
    "waf_parts.padding", "of WAF, padding", Ratio, true, |s| part(s, s.waf_parts.padding);
    "waf_parts.gc", "of WAF, collection", Ratio, true, |s| part(s, s.waf_parts.gc);
    "flash.programs.total", "pages programmed", Count, true, |s| some(s.flash.programs.total);
    "flash.programs.gc", "pages programmed by GC", Count, true, |s| some(s.flash.programs.gc);
    "flash.reads.rmw", "RMW reads", Count, true, |s| some(s.flash.reads.rmw);
    "flash.reads.total", "pages read", Count, true, |s| some(s.flash.reads.total);
    "flash.erases", "blocks erased", Count, true, |s| some(s.flash.erases);
    "host.write.lat_ns.mean", "write latency, mean", Ns, true, |s| mean(&s.host.write);
    "host.write.lat_ns.percentile.99", "write latency, 99%", Ns, true, |s| percentile(&s.host.write, "99.000000");
    "host.write.lat_ns.percentile.99.9", "write latency, 99.9%", Ns, true, |s| percentile(&s.host.write, "99.900000");
    "host.read.lat_ns.mean", "read latency, mean", Ns, true, |s| mean(&s.host.read);
    "host.read.lat_ns.percentile.99", "read latency, 99%", Ns, true, |s| percentile(&s.host.read, "99.000000");
    "host.all.iops", "requests per second", PerSecond, false, |s| Some(s.host.all.iops).filter(|&v| v > 0.0);
    "host.all.bw_bytes", "host bandwidth", BytesPerSecond, false, |s| Some(s.host.all.bw_bytes).filter(|&v| v > 0.0);
    "controller.utilisation", "busiest core", Ratio, true, |s| s.controller.utilisation.iter().copied().reduce(f64::max);
    "link.utilisation", "host link", Ratio, true, |s| Some(s.link.utilisation).filter(|&v| v > 0.0);
    "lifetime.dwpd", "drive writes a day", Quantity, false, |s| s.lifetime.dwpd;
    "lifetime.years", "lifetime, years", Quantity, false, |s| s.lifetime.years;
    "lifetime.kg_co2e_per_tb", "kg CO2e a TB", Quantity, true, |s| s.lifetime.kg_co2e_per_tb;
    "simulated_ns", "simulated time", Ns, true, |s| some(s.simulated_ns);
}

impl Metric {
    /// It grows with the length of a run.
    #[must_use]
    pub fn adds_up(&self) -> bool {
        self.unit == Unit::Count || self.key == "simulated_ns"
    }
}

/// Fewest and most requests of some runs. Those that went on until each was steady differ: what adds up does not compare.
#[must_use]
pub fn lengths<'a>(runs: impl Iterator<Item = &'a Summary>) -> (u64, u64) {
    let requests = runs.map(|s| s.host.all.requests);
    requests.fold((u64::MAX, 0), |(least, most), n| (least.min(n), most.max(n)))
}

/// The figure below which tables say whether it is one of a drive at rest.
pub const STEADY_BELOW: &str = "waf_steady";

/// Whether collection had victims and nothing to copy: blocks died whole, as they do of a workload that overwrites in the
/// same order again and again.
#[must_use]
pub fn copied_nothing(s: &Summary) -> bool {
    s.gc.invocations > 0 && s.gc.moved_pages == 0
}

/// Whether a run's WAF is that of a drive at rest, in a word.
#[must_use]
pub fn steady(s: &Summary) -> &'static str {
    match (s.waf, s.steady_state) {
        (None, _) => "-",
        (_, true) => "yes",
        (_, false) => "no",
    }
}

/// `value` as a multiple of `baseline`, as people read it.
#[must_use]
pub fn ratio(value: Option<f64>, baseline: Option<f64>) -> String {
    match (value, baseline) {
        (Some(value), Some(baseline)) if baseline != 0.0 => format!("{:.2}x", value / baseline),
        _ => "-".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_lead_to_figures_of_the_summary() {
        let value = serde_json::to_value(Summary::default()).expect("plain data");
        for metric in METRICS {
            // Percentiles are named by their share, which has a point of its own.
            let key = metric.key.split(".percentile").next().unwrap_or_default();
            let found = key.split('.').try_fold(&value, |v, part| v.get(part));
            assert!(found.is_some(), "{}", metric.key);
        }
        assert_eq!(ratio(Some(1.0), Some(2.0)), "0.50x");
        assert_eq!(ratio(None, Some(2.0)), "-");
    }
}
