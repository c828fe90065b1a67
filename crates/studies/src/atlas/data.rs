//! What an atlas is: plain data.

use std::path::PathBuf;

use nandle_lab::measure::Summary;
use serde::{Deserialize, Serialize};

/// How long runs are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Size {
    /// Until they are steady, or enough was written.
    #[default]
    Full,
    /// A twentieth of that, on the two smallest traces.
    Quick,
}

impl Size {
    /// What part of a full run's length they have.
    pub(super) fn share(self) -> f64 {
        if self == Self::Quick { 0.05 } else { 1.0 }
    }
}

/// What an atlas is asked to hold.
#[derive(Clone, Debug, Default)]
pub struct Wish {
    /// A directory of traces; without one, twins of published traces.
    pub traces: Option<PathBuf>,
    /// Only these schemes beside the baseline; all if empty.
    pub schemes: Vec<String>,
    /// How long runs are.
    pub size: Size,
    /// Without clocks: no latencies.
    pub untimed: bool,
}

/// A kind of drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveKind {
    /// Its name in the atlas.
    pub name: String,
    /// What it is.
    pub line: String,
}

/// A policy, or a sum of them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Scheme {
    /// As `--scheme` takes it.
    pub name: String,
    /// Which question it answers; "sum" for sums.
    pub seam: String,
    /// One line on it.
    pub line: String,
}

/// A trace and its size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct TraceInfo {
    /// Its file, or the name of the workload.
    pub name: String,
    /// Its format.
    pub format: String,
    /// Requests of one pass.
    pub requests: u64,
    /// Writes among them.
    pub writes: u64,
    /// Bytes that they write.
    pub write_bytes: u64,
    /// Bytes that are written at least once.
    pub written_range: u64,
    /// MiB-sized pieces that are read or written, in bytes.
    pub touched: u64,
    /// Why it could not be read, if it could not.
    pub refused: Option<String>,
}

/// A scheme on a trace and a drive.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Row {
    /// Hash of everything that the run depends on; empty where there is no run.
    pub id: String,
    /// The drive's name.
    pub drive: String,
    /// The trace's name.
    pub trace: String,
    /// The scheme's name.
    pub scheme: String,
    /// Why there is no run: the combination was refused, or the run failed.
    pub refused: Option<String>,
    /// The run itself failed: this is a fault, not a refusal.
    pub failed: bool,
    /// Bytes of the drive, as the host sees it.
    pub logical_bytes: u64,
    /// Requests that were replayed.
    pub requests: u64,
    /// WAF over the last windows; of the whole run where it was too short for any; none if nothing was written.
    pub waf: Option<f64>,
    /// Parts of the whole run's WAF: host, padding, collection, merges, map, metadata, parity.
    pub waf_parts: [f64; 7],
    /// WAF and latency held.
    pub steady: bool,
    /// If they did not, why.
    pub steady_reason: String,
    /// Latencies in nanoseconds; none without clocks or requests.
    pub write_mean_ns: Option<f64>,
    /// See `write_mean_ns`.
    pub write_p99_ns: Option<f64>,
    /// See `write_mean_ns`.
    pub read_mean_ns: Option<f64>,
    /// See `write_mean_ns`.
    pub read_p99_ns: Option<f64>,
    /// Bytes of the whole mapping table.
    pub map_bytes: u64,
    /// Sectors that were compared with the last write; all were right.
    pub verified_sectors: u64,
}

impl Row {
    /// With the figures of a run.
    pub(super) fn measured(mut self, s: &Summary) -> Self {
        let latency = |ns: f64| (ns > 0.0).then_some(ns);
        let of = |requests: &nandle_lab::measure::summary::Requests, key: &str| {
            requests.lat_ns.percentile.get(key).and_then(|&ns| latency(ns as f64))
        };
        let p = &s.waf_parts;
        self.requests = s.trace.submitted;
        self.logical_bytes = s.device_bytes.logical;
        self.waf = s.waf_steady.or(s.waf).filter(|waf| waf.is_finite());
        self.waf_parts = [p.host, p.padding, p.gc, p.merge, p.map, p.meta, p.parity];
        (self.steady, self.steady_reason) = (s.steady_state, s.steady_state_reason.clone());
        self.write_mean_ns = latency(s.host.write.lat_ns.mean);
        self.write_p99_ns = of(&s.host.write, "99.000000");
        self.read_mean_ns = latency(s.host.read.lat_ns.mean);
        self.read_p99_ns = of(&s.host.read, "99.000000");
        self.map_bytes = s.mapping.bytes;
        self.verified_sectors = s.integrity.checked_sectors;
        self
    }
}

/// Everything that was found out.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Atlas {
    /// Version of the program.
    pub version: String,
    /// How runs were made.
    pub notes: Vec<String>,
    /// The drives.
    pub drives: Vec<DriveKind>,
    /// The schemes, the baseline first.
    pub schemes: Vec<Scheme>,
    /// The traces.
    pub traces: Vec<TraceInfo>,
    /// A row for each combination that was run or refused.
    pub rows: Vec<Row>,
    /// Runs that are still to do.
    pub missing: usize,
}
