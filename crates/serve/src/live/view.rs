//! From snapshots to texts.

use std::collections::VecDeque;

use hdrhistogram::Histogram;
use nandle_lab::config::Drive;
use nandle_lab::measure::summary::{Requests, Summary, WafParts};
use nandle_lab::measure::{KINDS, per_stream, waf_parts};
use nandle_ssd::nand::{Cause, Geometry};
use serde_json::{Map, Value, json};

use super::history::{History, Point, SHARES};
use super::shadow::Shadow;
use super::snapshot::{Snapshot, Window};
use crate::clients::Punctuality;
use crate::timing::Timing;

/// Seconds that count as now.
const NOW: usize = 10;
/// Percentiles shown, in per cent.
const PERCENTILES: [f64; 4] = [50.0, 90.0, 99.0, 99.9];
/// Kinds of requests, by number.
pub(super) const KIND_NAMES: [&str; KINDS] = ["read", "write", "trim", "flush"];
/// Page types, by number.
pub(super) const PAGE_TYPES: [&str; 4] = ["lsb", "csb", "msb", "tsb"];

/// Everything that is remembered of the snapshots.
pub(super) struct Book {
    pub drive: Drive,
    pub scheme: String,
    pub shadows: Vec<Shadow>,
    pub timing: Timing,
    seed: u64,
    pub last: Option<Snapshot>,
    /// How well the drive kept up with its clients.
    pub punctuality: Option<Punctuality>,
    /// Since the start.
    pub total: Window,
    /// The last windows, for figures of now.
    recent: VecDeque<Window>,
    history: History,
}

fn percentiles(histogram: &Histogram<u64>) -> Value {
    let of = |share: f64| if histogram.is_empty() { 0 } else { histogram.value_at_quantile(share / 100.0) };
    let pairs = PERCENTILES.iter().map(|&share| (format!("{share:.6}"), json!(of(share))));
    Value::Object(pairs.collect::<Map<_, _>>())
}

/// Of a histogram none of whose values is above `most_ns`, to which its own maximum is rounded.
fn latencies(histogram: &Histogram<u64>, most_ns: u64) -> Value {
    let most = if histogram.is_empty() { 0 } else { histogram.max().min(most_ns) };
    let mean = if histogram.is_empty() { 0.0 } else { histogram.mean() };
    json!({ "mean": mean, "max": most, "percentile": percentiles(histogram) })
}

impl Book {
    pub fn new(drive: &Drive, timing: Timing, seed: u64, shadows: Vec<Shadow>) -> Self {
        Self {
            scheme: drive.scheme(),
            drive: drive.clone(),
            shadows,
            timing,
            seed,
            last: None,
            punctuality: None,
            total: Window::default(),
            recent: VecDeque::new(),
            history: History::default(),
        }
    }

    pub fn geometry(&self) -> &Geometry {
        &self.drive.config.geometry
    }

    /// The shape of the flash as the drive addresses it.
    pub fn unit_geometry(&self) -> Geometry {
        self.drive.config.unit_geometry()
    }

    /// Takes a snapshot in.
    pub fn note(&mut self, mut snapshot: Snapshot) {
        let window = snapshot.window.take().map_or_else(Window::default, |window| *window);
        self.total.add(&window);
        let geometry = self.geometry();
        let (page, sector) = (u64::from(geometry.page_bytes), u64::from(geometry.sector_bytes));
        let of = |histogram: &Histogram<u64>, share| {
            (!histogram.is_empty()).then(|| histogram.value_at_quantile(share))
        };
        let point = Point {
            wall_ns: snapshot.wall_ns,
            // In real time the drive's last event may be long over; with timing off its clock runs ahead of the wall's.
            drive_ns: if self.timing == Timing::Off { snapshot.now_ns } else { snapshot.wall_ns },
            requests: snapshot.requests,
            bytes: snapshot.bytes,
            written: snapshot.written,
            host_bytes: snapshot.stats.host_sectors_programmed * sector,
            programmed: snapshot.counters.programs.map(|types| types.iter().sum::<u64>() * page),
            free_blocks: snapshot.free_blocks,
            free_blocks_min: snapshot.free_blocks_min,
            latency: [0, 1].map(|kind| SHARES.map(|share| of(&window.latency[kind], share))),
            lateness: of(&window.lateness, SHARES[1]),
            shadows: self.shadows.iter().map(|s| programmed_and_written(&s.summary())).collect(),
        };
        self.history.push(point);
        self.recent.push_back(window);
        if self.recent.len() > NOW {
            self.recent.pop_front();
        }
        self.last = Some(snapshot);
    }

    pub fn live(&self, blocks: Option<Value>) -> Value {
        let config = &self.drive.config;
        let geometry = &config.geometry;
        let layout = &self.drive.layout;
        let mut out = json!({
            "schema_version": 1,
            "version": env!("CARGO_PKG_VERSION"),
            "device": config.name,
            "scheme": self.scheme,
            "seed": self.seed,
            "timing": self.timing.name(),
            "device_bytes": { "raw": geometry.raw_bytes(), "logical": layout.logical_bytes },
            "now_seconds": NOW,
            "serving": self.last.is_some(),
        });
        let Some(last) = &self.last else { return out };
        let Value::Object(more) = self.state(last, blocks) else { return out };
        if let Value::Object(map) = &mut out {
            map.extend(more);
            map.extend(self.punctual());
        }
        out
    }

    fn state(&self, last: &Snapshot, blocks: Option<Value>) -> Value {
        let (config, layout) = (&self.drive.config, &self.drive.layout);
        let mut now = Window::default();
        self.recent.iter().for_each(|window| now.add(window));
        let per_stream = per_stream(config, &last.stats, last.written);
        let parts = waf_parts(config, &last.stats, &last.counters, last.written);
        let programmed: u64 = last.counters.programs.iter().flatten().sum();
        let page = u64::from(config.geometry.page_bytes);
        let by_type = |kind: usize| {
            let of = |table: &[[u64; 4]; Cause::COUNT]| table.iter().map(|cause| cause[kind]).sum::<u64>();
            json!({ "reads": of(&last.counters.reads), "programs": of(&last.counters.programs) })
        };
        let programs = |cause: Cause| last.counters.programs[cause as usize].iter().sum::<u64>();
        let types = PAGE_TYPES.iter().enumerate().map(|(n, name)| ((*name).to_owned(), by_type(n)));
        json!({
            "wall_ns": last.wall_ns,
            "now_ns": last.now_ns,
            "host": self.host(last, &now),
            "refused": last.refused,
            "outstanding": last.outstanding,
            "waiting": last.waiting,
            "written_bytes": last.written,
            "waf": waf(programmed * page, last.written),
            "waf_parts": parts,
            "now": self.now(),
            "flash": {
                "programs": {
                    "host": programs(Cause::Host) + programs(Cause::Rmw),
                    "gc": programs(Cause::Gc),
                    "merge": programs(Cause::Merge),
                    "map": programs(Cause::Map),
                    "meta": programs(Cause::Meta),
                    "parity": programs(Cause::Parity),
                    "total": programmed,
                },
                "erases": last.counters.erases,
                "bytes_programmed": programmed * page,
                "by_page_type": types.collect::<Map<_, _>>(),
            },
            "gc": {
                "invocations": last.stats.gc_invocations,
                "moved_pages": last.stats.gc_moved_pages,
                "foreground_ns": last.stats.foreground_ns,
            },
            "buffer_wait_ns": last.stats.buffer_wait_ns,
            "blocks": {
                "total": config.unit_geometry().blocks(),
                "free": last.free_blocks,
                "free_min": last.free_blocks_min,
                "bad": last.bad_blocks,
                "planes": config.unit_geometry().planes(),
                "soft": layout.soft_blocks,
                "map": blocks,
            },
            "read_only": last.read_only,
            "unreadable_sectors": last.stats.unreadable_sectors,
            "image": last.image.as_ref().map(|image| json!({
                "damaged": image.damaged,
                "unreadable_sectors": image.unreadable_sectors,
                "gone": image.gone,
            })),
            "streams": per_stream,
            "instances_live": last.instances,
            "shadows": self.shadows.iter().map(shadow).collect::<Value>(),
            "series": self.history.json(),
        })
    }

    /// The keys of [`Punctuality::json`], with the lateness of now and the sentence on overload.
    fn punctual(&self) -> Map<String, Value> {
        let known = self.punctuality.as_ref().filter(|_| self.timing == Timing::Real);
        let mut out = known.map_or_else(|| Punctuality::unknown(self.timing), Punctuality::json);
        if let Some(punctuality) = known {
            let mut now = Window::default();
            self.recent.iter().for_each(|window| now.add(window));
            let late = &mut out["lateness_ns"];
            late["answers"] = json!(self.total.lateness.len());
            late["all"] = latencies(&self.total.lateness, u64::MAX);
            late["now"] = latencies(&now.lateness, u64::MAX);
            out["complaint"] = json!(punctuality.complaint());
        }
        if let Value::Object(map) = out { map } else { Map::new() }
    }

    fn host(&self, last: &Snapshot, now: &Window) -> Value {
        let rate = |f: &dyn Fn(&Point) -> u64| self.history.last(NOW).map_or(0.0, |(a, b)| b.rate(a, f));
        let kinds = KIND_NAMES.iter().enumerate().map(|(kind, name)| {
            let n = last.requests[kind];
            let mean = if n == 0 { 0.0 } else { last.sum_ns[kind] as f64 / n as f64 };
            let mut one = json!({
                "requests": n,
                "bytes": last.bytes[kind],
                "lat_ns": {
                    "mean": mean,
                    "max": last.max_ns[kind],
                    "percentile": percentiles(&self.total.latency[kind]),
                },
                "now": {
                    "iops": rate(&|p| p.requests[kind]),
                    "lat_ns": latencies(&now.latency[kind], last.max_ns[kind]),
                },
            });
            // Trims transfer nothing.
            if *name != "trim" {
                one["now"]["bw_bytes"] = json!(rate(&|p| p.bytes[kind]));
            }
            ((*name).to_owned(), one)
        });
        Value::Object(kinds.collect())
    }

    /// Write amplification of the last seconds.
    fn now(&self) -> Value {
        let Some((a, b)) = self.history.last(NOW) else { return Value::Null };
        let written = b.written - a.written;
        let programmed: u64 = b.programmed.iter().sum::<u64>() - a.programmed.iter().sum::<u64>();
        json!({ "written_bytes": written, "waf": waf(programmed, written) })
    }
}

fn waf(programmed: u64, written: u64) -> Option<f64> {
    (written > 0).then(|| programmed as f64 / written as f64)
}

pub(super) fn programmed_and_written(summary: &Summary) -> (u64, u64) {
    (summary.flash.bytes_programmed, summary.host.write.bytes)
}

/// A shadow beside the drive.
fn shadow(shadow: &Shadow) -> Value {
    let summary = shadow.summary();
    let parts: &WafParts = &summary.waf_parts;
    let kind = |r: &Requests| json!({ "requests": r.requests, "lat_ns": r.lat_ns });
    json!({
        "scheme": shadow.scheme(),
        "waf": summary.waf,
        "waf_parts": parts,
        "host": { "read": kind(&summary.host.read), "write": kind(&summary.host.write) },
        "flash": { "erases": summary.flash.erases, "bytes_programmed": summary.flash.bytes_programmed },
        "missed": shadow.missed(),
        "queued": shadow.queued(),
        "behind_ns": shadow.behind_ns(),
        "failed": shadow.has_failed(),
        "complaint": shadow.complaint(),
    })
}
