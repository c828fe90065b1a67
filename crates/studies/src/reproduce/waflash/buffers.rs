//! Fig 10: PC-LRU and MCA under page mapping.

use nandle_lab::Error;
use nandle_lab::workload::Asked;

use super::super::simulate::Measured;
use super::super::{Bench, Cell, Claim, Report, Rule, Table};
use super::trial::{Trial, asked, run, ssdsim, table};

/// Fig 10's buffers.
pub(super) const BUFFERS: [&str; 3] = ["lru+page", "mca+page", "pc-lru+page"];

/// Fig 10: PC-LRU and MCA under page mapping.
pub(super) fn against_mca(
    bench: &Bench<'_>,
    workloads: &[(String, String)],
    report: &mut Report,
) -> Result<(), Error> {
    let mut assumed = Table::new(
        "Fig 10: what is not published, six twins",
        &["buffer", "requests a second", "mca to lru", "pc-lru to lru"],
    );
    for (mib, scale) in [(8, 1.0), (2, 1.0), (32, 1.0), (8, 2.0), (8, 0.5)] {
        let mut trials = Vec::new();
        for (name, path) in workloads {
            trials.extend(BUFFERS.map(|scheme| Trial {
                workload: name.clone(),
                setting: String::new(),
                device: "pclru-ssdsim",
                scheme,
                sets: ssdsim(bench, 8192, mib << 20),
                asked: Asked { time_scale: Some(scale), ..asked(bench, path, 300_000, 30_000) },
                verify: false,
            }));
        }
        let runs = run(bench, &trials)?;
        if (mib, scale) == (8, 1.0) {
            latencies("six twins", &runs, WAITS, report);
            report.tables.push(table("Fig 10: buffers, six twins", &trials, &runs));
        }
        let mut row: Vec<Cell> = vec![format!("{mib} MiB").into(), (1000.0 / scale).into()];
        row.extend([1, 2].map(|n| Cell::from(to_lru(&runs, n))));
        assumed.rows.push(row);
    }
    report.tables.push(assumed);
    Ok(())
}

/// Mean latency of one of [`BUFFERS`] to the first, mean of the workloads.
pub(super) fn to_lru(runs: &[Measured], buffer: usize) -> f64 {
    let ratios = runs.chunks(BUFFERS.len()).map(|r| r[buffer].all_ns() / r[0].all_ns());
    ratios.sum::<f64>() / (runs.len() / BUFFERS.len()) as f64
}

/// Fig 10's two means.
pub(super) fn latencies(label: &str, runs: &[Measured], why: &str, report: &mut Report) {
    for (n, what, paper) in [(2, "pc-lru", 0.744), (1, "mca", 0.973)] {
        let what = format!("mean latency, {what} to lru, mean of the traces");
        let ours = to_lru(runs, n);
        let claim = Claim::new("waflash-vs-mca", "Fig 10", what, label, paper, ours, Rule::Ratio(0.05));
        report.claims.push(claim.because(why));
    }
}

const WAITS: &str = "buffer, arrival rate and number of requests are not published, and the gain depends on each (tables: what \
    is not published, here and of the PC-LRU poster)";
