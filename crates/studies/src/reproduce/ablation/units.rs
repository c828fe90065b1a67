//! The papers' schemes on mapping units of 4, 16 and 64 KiB, as drives of today have: which scheme helps which drive,
//! and what its map takes. PAPA chooses page types and MRSM parts of pages, neither of which a unit below a page has.

use nandle_lab::Error;
use nandle_lab::config::Drive;
use nandle_lab::measure::Until;
use nandle_lab::workload::{Asked, Mode};

use super::super::simulate::{Measured, simulate};
use super::super::{Bench, Cell, Claim, Report, Rule, Table, preset};

/// Names of the claims.
pub(super) const CLAIMS: [&str; 2] = ["ablation-units-4k", "ablation-units-64k"];

const DEVICE: &str = "demo";
const UNITS: [u32; 3] = [4096, 16384, 65536];
const SCHEMES: [&str; 5] = ["baseline", "compaction", "waflash", "across", "waflash+across"];
/// Small writes without locality; OLTP; a virtual desktop whose writes straddle pages.
const WORKLOADS: [&str; 3] = ["random-write", "fin", "lun1"];

const COLUMNS: [&str; 12] = [
    "workload",
    "unit KiB",
    "scheme",
    "WAF",
    "steady",
    "WAF to baseline",
    "write us",
    "write 99% us",
    "IOPS",
    "RMW reads a write",
    "map KiB",
    "busiest core",
];

/// Why large units stay dear.
const WHY: &str =
    "WAFLASH saves no more than compaction alone: merging versions costs the programs that versions save";

/// A run: workload, unit and scheme.
#[derive(Clone, Copy)]
struct Job {
    workload: &'static str,
    unit: u32,
    scheme: &'static str,
}

impl Job {
    fn all() -> Vec<Self> {
        let of_unit = |workload, unit| SCHEMES.map(|scheme| Self { workload, unit, scheme });
        let of_workload = |workload| UNITS.into_iter().flat_map(move |unit| of_unit(workload, unit));
        WORKLOADS.into_iter().flat_map(of_workload).collect()
    }

    fn drive(&self, quick: bool) -> Result<Drive, Error> {
        let mut sets = vec![format!("mapping.unit_bytes={}", self.unit)];
        if quick {
            sets.push("geometry.blocks_per_plane=48".into());
        }
        preset(DEVICE, Some(self.scheme), &sets)
    }

    fn asked(&self, quick: bool, seed: u64) -> Asked {
        let until = Until { at_most: if quick { 3.0 } else { 8.0 }, ..Until::default() };
        Asked {
            workload: self.workload.into(),
            seed,
            mode: Some(Mode::Closed),
            iodepth: Some(32),
            until: Some(until),
            ..Asked::default()
        }
    }

    /// `to`: the baseline's WAF.
    fn row(&self, m: &Measured, to: f64) -> Vec<Cell> {
        let s = &m.summary;
        let writes = s.host.write.requests.max(1) as f64;
        let busiest = s.controller.utilisation.iter().copied().fold(0.0, f64::max);
        vec![
            self.workload.into(),
            u64::from(self.unit >> 10).into(),
            self.scheme.into(),
            waf(m).into(),
            m.steady().into(),
            (waf(m) / to).into(),
            (m.write_ns() / 1e3).into(),
            (m.write_percentile("99.000000") / 1e3).into(),
            m.iops().into(),
            (s.flash.reads.rmw as f64 / writes).into(),
            (s.mapping.bytes as f64 / 1024.0).into(),
            busiest.into(),
        ]
    }
}

/// Of the part in which the drive was at rest, or of all if it never was.
fn waf(m: &Measured) -> f64 {
    m.summary.waf_steady.or(m.summary.waf).unwrap_or(f64::NAN)
}

/// The table, and what we expected of it.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let (jobs, quick) = (Job::all(), bench.options.quick);
    let runs = bench.each(
        &jobs,
        |job| format!("{} {} KiB {}", job.workload, job.unit >> 10, job.scheme),
        |job| simulate(&job.drive(quick)?, &job.asked(quick, bench.options.seed), false, bench.stop),
    )?;
    let mut table = Table::new("The schemes on mapping units of 4, 16 and 64 KiB", &COLUMNS);
    // Shares of the baseline's WAF, the schemes in their order.
    let shares = |workload: &str, unit: u32| -> Vec<f64> {
        let of = jobs.iter().zip(&runs).filter(|(job, _)| job.workload == workload && job.unit == unit);
        let wafs: Vec<f64> = of.map(|(_, m)| waf(m)).collect();
        wafs.iter().map(|waf| waf / wafs[0]).collect()
    };
    for (n, (job, m)) in jobs.iter().zip(&runs).enumerate() {
        table.rows.push(job.row(m, waf(&runs[n - n % SCHEMES.len()])));
    }
    report.tables.push(table);
    let least = WORKLOADS.iter().flat_map(|workload| shares(workload, UNITS[0])).fold(1.0, f64::min);
    report.claims.push(Claim::new(
        CLAIMS[0],
        "ours",
        "least WAF that a scheme comes to, as a share of the baseline's, where no write is below a unit of 4 KiB",
        WORKLOADS.join(", "),
        1.0,
        least,
        Rule::Value(0.05),
    ));
    let share = shares("fin", UNITS[2])[2];
    let large = Claim::new(
        CLAIMS[1],
        "ours",
        "WAF of waflash, as a share of the baseline's, OLTP on units of 64 KiB",
        "fin",
        0.5,
        share,
        Rule::AtMost(0.0),
    );
    report.claims.push(large.because(WHY));
    Ok(())
}
