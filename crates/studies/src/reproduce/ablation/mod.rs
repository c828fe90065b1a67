//! All schemes together: what each set of them does to each paper's own metric on its own workload.
//!
//! The four papers' schemes make sixteen drives, from the baseline to `everything`. All of them are
//! TLC drives with page types, or PAPA would have nothing to choose: a preset that has one program
//! time gets three in the proportion of PAPA's (500 : 2000 : 5500 us) with the same mean, and likewise
//! for reads. A preset without a write buffer gets one of 4 MiB. The baseline is `lru+page`.

mod units;

use nandle_lab::Error;
use nandle_lab::config::Drive;
use nandle_lab::workload::Asked;

use super::simulate::{Measured, simulate};
use super::{Bench, Cell, Claim, Report, Rule, Table, preset};

/// Names of the claims: `everything` is at least as good as each paper's own scheme.
/// Then what we expected of mapping units.
pub const CLAIMS: &[&str] = &[
    "ablation-waflash",
    "ablation-papa",
    "ablation-across",
    "ablation-flashalloc",
    units::CLAIMS[0],
    units::CLAIMS[1],
];

/// The papers' schemes, in the order of [`SUBJECTS`].
const PARTS: [&str; 4] = ["waflash", "papa", "across", "flashalloc"];

/// A paper's metric.
#[derive(Clone, Copy)]
enum Metric {
    Throughput,
    WriteLatency,
    WriteAmplification,
}

impl Metric {
    fn name(self) -> &'static str {
        match self {
            Self::Throughput => "time a request",
            Self::WriteLatency => "mean write latency",
            Self::WriteAmplification => "WAF",
        }
    }
    /// Less is better.
    fn cost(self, m: &Measured) -> f64 {
        match self {
            Self::Throughput => 1e9 / m.iops(),
            Self::WriteLatency => m.write_ns(),
            Self::WriteAmplification => m.summary.waf.unwrap_or(f64::NAN),
        }
    }
}

/// A paper's drive, workload and metric.
struct Subject {
    device: &'static str,
    workload: &'static str,
    metric: Metric,
    /// Requests of the measured part, whole and quick; 0 = the workload's own.
    requests: [u64; 2],
    /// What makes the drive small enough, whole and quick.
    sets: [&'static [&'static str]; 2],
}

const SUBJECTS: [Subject; 4] = [
    Subject {
        device: "waflash-vssim",
        workload: "filebench-randomwrite:4k",
        metric: Metric::Throughput,
        requests: [300_000, 15_000],
        sets: [&[], &["geometry.pages_per_block=48", "buffer.bytes=4194304"]],
    },
    Subject {
        device: "papa-tlc",
        workload: "fin",
        metric: Metric::WriteLatency,
        requests: [160_000, 20_000],
        sets: [
            &["geometry.blocks_per_plane=64", "op_ratio=0.15"],
            &["geometry.blocks_per_plane=64", "geometry.pages_per_block=48", "op_ratio=0.25"],
        ],
    },
    Subject {
        device: "across-tlc",
        workload: "lun1",
        metric: Metric::WriteLatency,
        requests: [200_000, 20_000],
        sets: [&["@blocks=16"], &["@blocks=32"]],
    },
    Subject {
        device: "flashalloc-cosmos",
        workload: "rocksdb-x4",
        metric: Metric::WriteAmplification,
        requests: [0, 0],
        sets: [
            &["geometry.channels=4", "geometry.chips_per_channel=1", "buffer.bytes=1MiB", "queue.depth=8"],
            &["geometry.channels=1", "geometry.chips_per_channel=1", "buffer.bytes=256KiB", "queue.depth=2"],
        ],
    },
];

/// The sum of the schemes in `set`, a bit each.
fn sum(set: usize) -> String {
    let names: Vec<&str> =
        PARTS.iter().enumerate().filter(|(n, _)| set >> n & 1 == 1).map(|(_, p)| *p).collect();
    if names.is_empty() { "baseline".into() } else { names.join("+") }
}

impl Subject {
    fn drive(&self, set: usize, quick: bool) -> Result<Drive, Error> {
        let plain = preset(self.device, None, &[])?.config;
        let mut sets = vec![];
        for set in self.sets[usize::from(quick)] {
            match set.strip_prefix("@blocks=").and_then(|scale| scale.parse::<u32>().ok()) {
                Some(scale) => {
                    sets.push(format!(
                        "geometry.blocks_per_plane={}",
                        plain.geometry.blocks_per_plane / scale
                    ));
                    let cache = plain.map_cache.bytes / u64::from(scale);
                    sets.push(format!(
                        "map_cache.bytes={}",
                        cache.max(4 * u64::from(plain.geometry.page_bytes))
                    ));
                    // The threshold, and the blocks being written, stay free.
                    let blocks = f64::from(plain.geometry.blocks_per_plane / scale);
                    sets.push(format!(
                        "precondition.used={}",
                        plain.precondition.used.min(0.9 - 8.0 / blocks)
                    ));
                }
                None => sets.push((*set).to_owned()),
            }
        }
        let mean = |times: &[u64]| times.iter().sum::<u64>() as f64 / times.len() as f64;
        let typed = |times: &[u64], shares: [f64; 3]| {
            let times: Vec<String> = shares.iter().map(|s| format!("{:.0}", s * mean(times))).collect();
            format!("[{}]", times.join(", "))
        };
        if plain.timing.program_ns.len() != 3 {
            let program = [500.0, 2000.0, 5500.0].map(|us| us * 3.0 / 8000.0);
            sets.push("cell.kind=\"tlc\"".into());
            sets.push(format!("timing.program_ns={}", typed(&plain.timing.program_ns, program)));
            sets.push(format!("timing.read_ns={}", typed(&plain.timing.read_ns, [0.5, 1.0, 1.5])));
        }
        sets.push("cell.program_order=\"relaxed\"".into());
        if plain.buffer.bytes == 0 {
            sets.push("buffer.bytes=4194304".into());
        }
        preset(self.device, Some(&sum(set)), &sets)
    }

    fn asked(&self, quick: bool, seed: u64) -> Asked {
        let requests = Some(self.requests[usize::from(quick)]).filter(|&n| n > 0);
        Asked { workload: self.workload.into(), seed, requests, ..Asked::default() }
    }
}

fn row(scheme: String, cost: f64, base: f64, m: &Measured) -> Vec<Cell> {
    let s = &m.summary;
    let mut row: Vec<Cell> = vec![scheme.into(), (cost / base).into()];
    row.extend(
        [m.write_ns() / 1e6, m.write_percentile("99.000000") / 1e6, m.read_ns() / 1e6].map(Cell::from),
    );
    row.extend([m.iops(), s.waf.unwrap_or(f64::NAN)].map(Cell::from));
    row.extend([m.steady().into(), Cell::from(s.rmw.lat_ns.mean / 1e6)]);
    let p = &s.flash.programs;
    let counts = [
        s.flash.erases,
        p.gc,
        p.merge,
        p.map,
        s.flash.reads.rmw,
        s.counter("multi_version.versions_written"),
        s.counter("multi_version.compacted_pages"),
    ];
    row.extend(counts.map(Cell::from));
    row.extend(
        [s.counter("across.direct_writes"), s.counter("allocation.emergency_gcs"), s.streams.fa_pages]
            .map(Cell::from),
    );
    row
}

const COLUMNS: [&str; 19] = [
    "scheme",
    "cost to baseline",
    "write ms",
    "write 99% ms",
    "read ms",
    "IOPS",
    "WAF",
    "steady",
    "RMW ms",
    "erases",
    "GC programs",
    "merges",
    "map programs",
    "RMW reads",
    "versions",
    "compacted",
    "areas",
    "emergencies",
    "object pages",
];

/// The table.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let quick = bench.options.quick;
    let wanted: Vec<usize> = (0..SUBJECTS.len()).filter(|&n| bench.wants(&[CLAIMS[n]])).collect();
    let sets = 1 << PARTS.len();
    let mut heat =
        Table::new("Cost to each paper's own scheme on its own workload (less is better)", &["scheme"]);
    heat.ratios = true;
    heat.rows = (0..sets).map(|set| vec![sum(set).into()]).collect();
    let jobs: Vec<usize> = (0..sets).collect();
    let mut ended = Ok(());
    for &n in &wanted {
        let subject = &SUBJECTS[n];
        let runs = bench.each(
            &jobs,
            |&set| format!("{} {}", subject.workload, sum(set)),
            |&set| {
                let (drive, asked) = (subject.drive(set, quick)?, subject.asked(quick, bench.options.seed));
                simulate(&drive, &asked, false, bench.stop)
            },
        );
        let runs = match runs {
            Ok(runs) => runs,
            // What is done is shown.
            Err(e) => {
                ended = Err(e);
                break;
            }
        };
        let costs: Vec<f64> = runs.iter().map(|m| subject.metric.cost(m)).collect();
        let own = costs[1 << n];
        let title = format!("{} on {}: {}", subject.workload, subject.device, subject.metric.name());
        let mut table = Table::new(title, &COLUMNS);
        table.rows = (0..sets).map(|set| row(sum(set), costs[set], costs[0], &runs[set])).collect();
        report.tables.push(table);
        heat.columns.push(format!("{} ({})", subject.workload, subject.metric.name()));
        heat.rows.iter_mut().zip(&costs).for_each(|(row, cost)| row.push((cost / own).into()));
        let what =
            format!("{} of everything, as a share of that of {} alone", subject.metric.name(), PARTS[n]);
        let ours = costs[sets - 1] / own;
        report.claims.push(Claim::new(
            CLAIMS[n],
            "ours",
            what,
            subject.workload,
            1.0,
            ours,
            Rule::AtMost(0.02),
        ));
    }
    if heat.columns.len() > 1 {
        report.tables.insert(0, heat);
    }
    report.notes.push(
        "All drives are TLC with page types and a write buffer; see docs/reproduction/ablation.md.".into(),
    );
    ended?;
    if bench.wants(&units::CLAIMS) {
        units::reproduce(bench, report)?;
    }
    Ok(())
}
