//! PAPA's evaluation (section VI): nine workloads, four page-type policies, each trace run twice,
//! write cache off and on.
//!
//! The device is Table II's; a scale divides its blocks and the requests alike, so that it is filled as often. Collection is
//! section V-D's, emergencies alone. Everything is counted over both passes. Fig 13 has erases of the baseline in all nine
//! traces, though two alone fill Table II's 96 GiB: how full the paper's device was, and from where on it collects, is
//! not said, so devices with less room ([`Size`]) and a threshold are a table of their own. Real traces, which are
//! short, get a device that they fill. How the paper replays its traces is not said, so both ways are measured: under
//! load, requests arrive at the trace's times and wait for each other;
//! one at a time, each request waits for the one before and then for the gap between their times,
//! so that response times are hardly more than service times, and IOPS are requests over time.

mod claims;
mod grid;
mod outcome;
mod pages;
mod plan;
mod tables;
mod unpublished;

use nandle_lab::Error;
use nandle_ssd::nand::CellKind;

pub use self::claims::CLAIMS;
use self::grid::measure_all;
pub use self::outcome::{Outcome, Times, measure};
pub use self::pages::Pages;
pub use self::plan::{POLICIES, Plan, Size, WORKLOADS};
use super::traces::{self, Real};
use super::{Bench, Report};

/// Real traces of the collections that Table I draws from.
const REAL: [Real; 6] =
    [traces::FINANCIAL, traces::TPCC, traces::HM0, traces::HM1, traces::WDEV1, traces::WDEV3];

/// The paper's evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let options = bench.options;
    let plan = if options.quick { Plan::quick(options.seed) } else { Plan::full(options.seed) };
    let load = |name: &&str| plan.trace(name).map(|t| (name.to_string(), t));
    let twins = bench.each(&WORKLOADS, |name| format!("{name}: generated"), load)?;
    let pages: Vec<Pages> = twins.iter().map(|(_, trace)| Pages::of(trace)).collect();
    claims::of_traces(&pages, "nine twins", &mut report.claims);

    let outcomes = measure_all(bench, &plan, &twins, &[false, true])?;
    if !outcomes.is_empty() {
        claims::of_runs(&outcomes, "nine twins", &mut report.claims);
        report.tables.push(tables::loaded("nine twins", &outcomes));
        report.tables.push(tables::runs("Twins on Table II's device", &outcomes));
    }

    let small = Plan::short(options.seed);
    let mut real = Vec::new();
    for (trace, path) in traces::present(bench.traces.as_deref(), &REAL, &mut report.notes) {
        real.push((trace.name.to_string(), small.real(&path)?));
    }
    if !real.is_empty() {
        let pages: Vec<Pages> = real.iter().map(|(_, trace)| Pages::of(trace)).collect();
        let workload = format!("{} real traces", real.len());
        claims::of_traces(&pages, &workload, &mut report.claims);
        let outcomes = measure_all(bench, &small, &real, &[false, true])?;
        if !outcomes.is_empty() {
            claims::of_runs(&outcomes, &workload, &mut report.claims);
            report.tables.push(tables::loaded(&workload, &outcomes));
            report.tables.push(tables::runs("Real traces, twice each, 70% of the device", &outcomes));
        }
    }

    if options.claim.is_none() {
        report.tables.push(unpublished::free(bench)?);
        report.tables.extend(unpublished::tables(bench)?);
        // Beyond the paper: four bits a cell.
        let qlc = Plan { cell: CellKind::Qlc, ..Plan::quick(options.seed) };
        let mut traces = Vec::new();
        for name in WORKLOADS {
            traces.push((name.to_string(), qlc.trace(name)?));
        }
        let mut outcomes = measure_all(bench, &qlc, &traces, &[false])?;
        outcomes.extend(measure_all(bench, &Plan { cell: CellKind::Qlc, ..small }, &real, &[false])?);
        report.tables.push(tables::qlc(&outcomes));
        report
            .tables
            .push(tables::runs("QLC, a 64th of the device, and real traces (beyond the paper)", &outcomes));
    }
    report.notes.push(
        "one at a time: each request waits for the one before and for the gap between them; \
         under load: requests arrive at times that the paper does not give, so no claim is made of it. The RMW of Fig 16 is \
         its read: with Table II's times, Fig 12's shares give the figure's ratios for the read, and 0.31 for the whole. Means are over the workloads of the ratio to \
         strict on the same workload, where the baseline's figure is not 0"
            .into(),
    );
    Ok(())
}
