//! Fig 11: random write on the OpenSSD board.

use nandle_lab::Error;

use super::super::{Bench, Claim, Report, Rule};
use super::filebench::{DEPTH, small};
use super::trial::{Trial, asked, run, table};

/// Fig 11: random write on the OpenSSD board.
pub(super) fn figure(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let quick = bench.options.quick;
    let schemes = ["lru+page+greedy", "pc-lru+multi-version+compaction+greedy"];
    let sizes: &[&str] = if quick { &["4k", "9k"] } else { &["1k", "3k", "4k", "5k", "7k", "9k"] };
    let mut trials = Vec::new();
    for size in sizes {
        trials.extend(schemes.map(|scheme| Trial {
            workload: "filebench-randomwrite".into(),
            setting: (*size).into(),
            device: "waflash-openssd",
            scheme,
            sets: if quick { small() } else { Vec::new() },
            asked: asked(bench, &format!("filebench-randomwrite:{size}"), 300_000, 15_000),
            verify: quick,
        }));
    }
    let runs = run(bench, &trials)?;
    let best = runs.chunks(2).map(|r| r[1].all_ns() / r[0].all_ns()).fold(f64::NAN, f64::min);
    let workload = "filebench-randomwrite";
    let what = "mean latency, up to";
    let claim = Claim::new("waflash-openssd", "Fig 11", what, workload, 0.57, best, Rule::Ratio(0.2));
    report.claims.push(claim.because(DEPTH));
    report.tables.push(table("Fig 11: random write on the OpenSSD board", &trials, &runs));
    Ok(())
}
