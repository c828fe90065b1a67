//! One run of a scheme on a workload, and what tables show of it.

use nandle_lab::Error;
use nandle_lab::config::Drive;
use nandle_lab::workload::Asked;

use super::super::simulate::{Measured, Start, simulate_from};
use super::super::{Bench, Cell, Table, preset};

/// Section III-A has no limit to how often a partial page is passed over.
const PC_LRU: [&str; 1] = ["scheme.pc_lru.passes=0"];

/// One run.
#[derive(Clone, Debug)]
pub(in super::super) struct Trial {
    /// What tables call the workload.
    pub workload: String,
    /// What tables call the device, where it is not the preset.
    pub setting: String,
    pub device: &'static str,
    pub scheme: &'static str,
    pub sets: Vec<String>,
    pub asked: Asked,
    pub verify: bool,
}

impl Trial {
    pub fn drive(&self) -> Result<Drive, Error> {
        let paper: &[&str] = if self.scheme.starts_with("pc-lru") { &PC_LRU } else { &[] };
        let sets: Vec<String> =
            paper.iter().map(|&set| set.to_owned()).chain(self.sets.iter().cloned()).collect();
        preset(self.device, Some(self.scheme), &sets)
    }
}

/// Runs all trials; results are in their order.
pub(in super::super) fn run(bench: &Bench<'_>, trials: &[Trial]) -> Result<Vec<Measured>, Error> {
    let name = |t: &Trial| format!("{} {} {}", t.workload, t.scheme, t.setting).trim().to_owned();
    bench.each(trials, name, |t| {
        let start = if t.device == "pclru-ssdsim" { Start::ReadsMapped } else { Start::Flushed };
        simulate_from(start, &t.drive()?, &t.asked, t.verify, bench.stop)
    })
}

/// Columns of [`row`].
const COLUMNS: [&str; 27] = [
    "workload",
    "setting",
    "scheme",
    "IOPS",
    "MiB/s",
    "write ms",
    "write 99% ms",
    "read ms",
    "dies busy",
    "channels busy",
    "programs",
    "RMW reads",
    "other reads",
    "merges",
    "GC programs",
    "evicted",
    "evicted partial",
    "partial held",
    "buffer hits",
    "versions",
    "versions refused",
    "pressure merges",
    "compacted",
    "parts in them",
    "RMW ms",
    "WAF",
    "steady",
];

fn row(t: &Trial, m: &Measured) -> Vec<Cell> {
    let s = &m.summary;
    let mut row: Vec<Cell> = vec![t.workload.clone().into(), t.setting.clone().into(), t.scheme.into()];
    row.extend([m.iops(), m.bytes_per_s() / f64::from(1 << 20), m.write_ns() / 1e6].map(Cell::from));
    row.push((m.write_percentile("99.000000") / 1e6).into());
    row.extend([m.read_ns() / 1e6, m.dies_busy, m.channels_busy].map(Cell::from));
    let (p, r, b) = (&s.flash.programs, &s.flash.reads, &s.buffer);
    let counts = [p.total, r.rmw, r.total - r.rmw, p.merge, p.gc, b.evictions, b.evicted_partial_pages];
    row.extend(counts.map(Cell::from));
    row.extend([b.mean_partial_pages, b.hits as f64 / (b.hits + b.misses).max(1) as f64].map(Cell::from));
    let versions = ["versions_written", "refused", "merges_pressure", "compacted_pages", "compacted_extents"];
    row.extend(versions.map(|key| Cell::from(s.counter(&format!("multi_version.{key}")))));
    row.extend([s.rmw.lat_ns.mean / 1e6, s.waf.unwrap_or(f64::NAN)].map(Cell::from));
    row.push(m.steady().into());
    row
}

/// One trial a row.
pub(in super::super) fn table(title: &str, trials: &[Trial], runs: &[Measured]) -> Table {
    let mut table = Table::new(title, &COLUMNS);
    table.rows = trials.iter().zip(runs).map(|(t, m)| row(t, m)).collect();
    table
}

pub(super) fn asked(bench: &Bench<'_>, workload: &str, full: u64, quick: u64) -> Asked {
    let requests = Some(if bench.options.quick { quick } else { full });
    Asked { workload: workload.into(), seed: bench.options.seed, requests, ..Asked::default() }
}

/// SSDSim's drive with pages and a buffer of these sizes, an eighth of it when quick.
pub(in super::super) fn ssdsim(bench: &Bench<'_>, page: u32, buffer: u64) -> Vec<String> {
    let blocks = if bench.options.quick { 256 } else { 2048 };
    vec![
        format!("geometry.page_bytes={page}"),
        format!("geometry.blocks_per_plane={blocks}"),
        format!("buffer.bytes={buffer}"),
    ]
}
