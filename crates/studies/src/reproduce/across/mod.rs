//! Across-FTL (ICPP 2023), section 4: page mapping, MRSM and Across-FTL on twins of its six traces.
//!
//! The device is the preset `across-tlc`, aged as the paper's to its shares; `quick` shrinks its capacity (and the
//! mapping cache with it) to a sixteenth and the traces to an eighth. Real traces, which are short, get a device
//! that they fill. Requests arrive at the traces' times. A ratio is met if it is on the paper's side of 1 and within 10% of the paper's.

mod claims;
mod device;
mod grid;
mod run;
mod tables;
mod unpublished;

use std::path::PathBuf;

use nandle_lab::Error;
use nandle_lab::workload::Asked;

use self::claims::{claims, size_claims};
pub use self::device::device;
use self::grid::{Load, Set, Workload, compare, measure};
pub use self::grid::{SCHEMES, TWINS};
pub use self::run::{Run, run};
use self::tables::{averages, shrink_table, table};
use self::unpublished::Open;
use super::traces::{self, Real};
use super::{Bench, Report};

/// Names of the paper's claims.
pub const CLAIMS: &[&str] = &[
    "across-share",
    "across-cost",
    "across-rollbacks",
    "across-write-latency",
    "across-io-latency",
    "across-flash-ops",
    "across-erases",
    "across-overhead",
    "across-page-sizes",
];

/// Traces with across-page requests in them.
const REAL: [Real; 8] = [
    traces::LUN_A,
    traces::LUN_B,
    traces::CLOUDPHYSICS,
    traces::MAYUN,
    traces::MAYUN4,
    traces::SYS1,
    traces::TPCC,
    traces::FINANCIAL,
];
/// Aligned ones: nothing for the scheme to do, and nothing to lose.
const ALIGNED: [Real; 2] = [traces::IOZONE, traces::WEBSEARCH];

/// The paper's evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let options = bench.options;
    let quick = options.quick;
    let most = quick.then_some(90_000);
    let asked = |workload: &str, requests| Asked {
        workload: workload.into(),
        seed: options.seed,
        requests,
        ..Asked::default()
    };
    let twins: Vec<Workload> = TWINS.iter().map(|t| (t.to_string(), Load::Twin(asked(t, most)))).collect();
    let paper = Set { page: 8192, quick, cache: 1, aged: false, shrink: false, shipped: false };
    let sizes = "across-page-sizes";
    let others: Vec<&str> = CLAIMS.iter().copied().filter(|c| *c != sizes).collect();

    let runs = compare(bench, paper, &twins)?;
    if bench.wants(&others) {
        claims(&runs, "six twins", &mut report.claims);
    }
    report.tables.push(table("Twins, 8 KiB pages", &twins, &runs));
    if bench.wants(&["across-cost"]) {
        report.tables.push(averages(&twins, &runs));
    }
    if bench.wants(&[sizes]) {
        size_claims(paper.page, &runs, &mut report.claims);
        for page in [4096, 16384] {
            let runs = compare(bench, Set { page, ..paper }, &twins)?;
            size_claims(page, &runs, &mut report.claims);
            report.tables.push(table(&format!("Twins, {} KiB pages", page / 1024), &twins, &runs));
        }
    }
    if bench.wants(&["across-flash-ops", "across-erases", "across-io-latency"]) {
        let open = Open { bench, paper, counted: &runs, asked };
        report.tables.extend([open.unpublished()?, open.shipped()?, open.without_locality()?]);
    }
    if options.claim.is_none() {
        let shrunk = measure(bench, Set { shrink: true, ..paper }, &twins, &["across"])?;
        report.tables.push(shrink_table("Twins: rollback against shrink (ours)", &twins, &runs, &shrunk));
    }
    real(bench, report, asked)
}

/// Real traces, each on a device that it fills.
fn real(
    bench: &Bench<'_>,
    report: &mut Report,
    asked: impl Fn(&str, Option<u64>) -> Asked,
) -> Result<(), Error> {
    let options = bench.options;
    let most = options.quick.then_some(20_000);
    let mut notes = Vec::new();
    let whole = device("page", 8192, false, 1)?;
    let mut load = |wanted: &[Real]| -> Result<Vec<Workload>, Error> {
        let found = traces::present(bench.traces.as_deref(), wanted, &mut notes);
        let one = |(real, path): &(Real, PathBuf)| {
            let requests = traces::requests(&asked(&path.to_string_lossy(), most), &whole)?;
            let (requests, pages) = traces::side_by_side(requests, 8192);
            Ok((real.name.to_owned(), Load::Trace { requests, pages, seed: options.seed }))
        };
        found.iter().map(one).collect()
    };
    let (unaligned, aligned) = (load(&REAL)?, load(&ALIGNED)?);
    notes.dedup();
    report.notes.extend(notes);
    let small = Set { page: 8192, quick: true, cache: 1, aged: false, shrink: false, shipped: false };
    if !unaligned.is_empty() {
        let runs = compare(bench, small, &unaligned)?;
        claims(&runs, &format!("{} real traces", runs.len()), &mut report.claims);
        report.tables.push(table(
            "Real traces, 8 KiB pages, devices of which they fill 70%",
            &unaligned,
            &runs,
        ));
        let shrunk = measure(bench, Set { shrink: true, ..small }, &unaligned, &["across"])?;
        let title = "Real traces: rollback against shrink (ours)";
        report.tables.push(shrink_table(title, &unaligned, &runs, &shrunk));
    }
    if !aligned.is_empty() {
        let runs = compare(bench, small, &aligned)?;
        report.tables.push(table("Aligned real traces: nothing to gain, nothing to lose", &aligned, &runs));
    }
    Ok(())
}
