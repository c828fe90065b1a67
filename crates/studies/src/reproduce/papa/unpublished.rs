//! What the paper does not say, three values each with the counted one. No row of a claim.

use nandle_lab::Error;

use super::super::{Bench, Cell, Claim, Kind, Table, Verdict};
use super::claims::{mean, of_runs, versus};
use super::grid::measure_all;
use super::outcome::Outcome;
use super::plan::{COLLECTED, FILL, FREE, LSB_FIRST, POLICIES, Plan, Size, WORKLOADS, WRITES};

/// Pages of a block where a device is smaller than Table II's.
const PAGES_PER_BLOCK: u32 = 48;

/// How many requests lie over page borders, how fast they arrive, how full the device was, by data that the traces
/// touch and by data that they do not, and by what is written, and from where on it collects; and collection ahead of
/// need.
fn settings(seed: u64) -> Vec<(String, Plan)> {
    let plan = Plan::quick(seed);
    let sized = |size| Plan::sized(size, PAGES_PER_BLOCK, seed);
    let mut settings: Vec<(String, Plan)> = vec![("Table II's blocks, as counted".into(), plan.clone())];
    for misaligned in [0.0, 0.5] {
        let plan = Plan { misaligned: Some(misaligned), ..plan.clone() };
        settings.push((format!("{:.0}% of half pages over a border", misaligned * 100.0), plan));
    }
    settings.push(("collection ahead of need".into(), Plan { ahead: true, ..plan.clone() }));
    for rate in [100.0, 900.0] {
        settings.push((format!("{rate:.0} requests a second"), Plan { rate, ..plan.clone() }));
    }
    let both = Plan { misaligned: Some(0.5), rate: 100.0, ..plan.clone() };
    settings.push(("50% of half pages over a border, 100 requests a second".into(), both));
    for share in FREE {
        settings.push((free_name(share), sized(Size::Free(share))));
    }
    let slow = Plan { rate: 100.0, ..sized(Size::Free(FREE[1])) };
    settings.push((format!("{}, 100 requests a second", free_name(FREE[1])), slow));
    for share in [0.5, FILL, 1.0] {
        settings.push((format!("{:.0}% of the device written", share * 100.0), sized(Size::Pages(share))));
    }
    for share in WRITES {
        settings.push((format!("writes are {:.0}% of the pages", share * 100.0), sized(Size::Writes(share))));
    }
    for (share, threshold) in COLLECTED {
        let name = format!(
            "writes are {:.0}% of the pages, collection from {:.0}% on",
            share * 100.0,
            (1.0 - threshold) * 100.0
        );
        settings.push((name, Plan { threshold, op_ratio: 2.0, ..sized(Size::Writes(share)) }));
    }
    settings
}

fn free_name(share: f64) -> String {
    format!("{:.0}% of Table II's blocks free", share * 100.0)
}

/// Every policy on a plan's twins.
fn outcomes(bench: &Bench<'_>, name: &str, plan: &Plan, workloads: &[&str]) -> Result<Vec<Outcome>, Error> {
    let load = |name: &&str| plan.trace(name).map(|t| (name.to_string(), t));
    let traces = bench.each(workloads, |w| format!("{w}: generated for {name}"), load)?;
    measure_all(bench, plan, &traces, &[false])
}

/// A line for each setting and policy, and, where all nine twins ran, one for each figure of the paper.
pub(super) fn tables(bench: &Bench<'_>) -> Result<Vec<Table>, Error> {
    let options = bench.options;
    let workloads: &[&str] = if options.quick { &["fin", "tpcc", "prxy"] } else { &WORKLOADS };
    let title = format!(
        "What is not published (a 64th of the paper's requests; mean of {}; to strict)",
        workloads.join(", ")
    );
    let mut table = Table::new(
        title,
        &[
            "setting",
            "policy",
            "LSB",
            "CSB",
            "MSB",
            "RMW LSB",
            "RMW CSB",
            "RMW MSB",
            "erases",
            "IOPS",
            "write response",
            "read response",
            "RMW read",
            "write response, load",
            "stalled",
        ],
    );
    let mut figures: Vec<(String, Vec<Claim>)> = Vec::new();
    for (name, plan) in settings(options.seed) {
        let outcomes = outcomes(bench, &name, &plan, workloads)?;
        for policy in POLICIES {
            table.rows.push(row(&name, policy, &outcomes));
        }
        let mut claims = Vec::new();
        of_runs(&outcomes, &name, &mut claims);
        claims.retain(|claim| claim.kind == Kind::Prediction && claim.ours.is_some());
        figures.push((name, claims));
    }
    let mut tables = vec![table];
    if !options.quick {
        tables.push(nearest(&figures));
    }
    Ok(tables)
}

fn row(name: &str, policy: &'static str, outcomes: &[Outcome]) -> Vec<Cell> {
    let of = || outcomes.iter().filter(move |o| o.policy == policy);
    let ratio = |f: fn(&Outcome) -> f64| Cell::from(versus(outcomes, policy, false, f));
    let mut row: Vec<Cell> = vec![name.into(), policy.into()];
    row.extend([0, 1, 2].map(|kind| Cell::from(mean(of().map(|o| o.write_shares()[kind])))));
    row.extend([0, 1, 2].map(|kind| Cell::from(mean(of().map(|o| o.rmw_shares()[kind])))));
    row.extend([
        ratio(|o| o.erases as f64),
        ratio(|o| o.iops),
        ratio(|o| o.alone.write_ns),
        ratio(|o| o.alone.read_ns),
        ratio(|o| o.rmw_read_ns),
        ratio(|o| o.loaded.write_ns),
    ]);
    row.push(mean(of().map(|o| o.stalled_ns as f64 / o.elapsed_ns.max(1) as f64)).into());
    row
}

/// Under which setting each figure comes nearest to the paper's, and how many are met under each.
fn nearest(figures: &[(String, Vec<Claim>)]) -> Table {
    let met = |claims: &[Claim]| claims.iter().filter(|claim| claim.verdict == Verdict::Met).count();
    let mut table = Table::new(
        "Each figure under the setting that brings it nearest (nine twins, no cache, a 64th)",
        &["what", "paper", "as counted", "nearest", "verdict", "setting"],
    );
    let Some((_, counted)) = figures.first() else { return table };
    for claim in counted {
        let same = |other: &&Claim| (&other.place, &other.what) == (&claim.place, &claim.what);
        let off = |claim: &Claim| (claim.ours.unwrap_or(f64::NAN) - claim.paper).abs();
        let all = figures.iter().filter_map(|(name, claims)| Some((name, claims.iter().find(same)?)));
        let Some((name, best)) = all.min_by(|(_, a), (_, b)| off(a).total_cmp(&off(b))) else { continue };
        let what = format!("{}: {}", claim.place, claim.what);
        let mut row: Vec<Cell> = vec![what.into(), claim.paper.into()];
        row.extend([claim.ours, best.ours].map(|ours| Cell::from(ours.unwrap_or(f64::NAN))));
        row.extend([best.verdict.words().into(), name.as_str().into()]);
        table.rows.push(row);
    }
    for (name, claims) in figures {
        let row =
            ["figures met, of these".into(), (counted.len() as u64).into(), (met(counted) as u64).into()];
        let rest = [(met(claims) as u64).into(), "".into(), name.as_str().into()];
        table.rows.push(row.into_iter().chain(rest).collect());
    }
    table
}

/// How many of Table II's blocks were free: under lsb-first exch's writes take 37% of the baseline's time and "can be
/// accommodated without writing MSB pages" (VI-B3).
pub(super) fn free(bench: &Bench<'_>) -> Result<Table, Error> {
    let mut table = Table::new(
        "How much of the device was free: lsb-first, nine twins (a 64th of the blocks; to strict)",
        &[
            "blocks free",
            "exch: LSB",
            "exch: CSB",
            "exch: MSB",
            "exch: write response",
            "RMW LSB",
            "RMW CSB",
            "RMW MSB",
            "write response",
        ],
    );
    let paper = [f64::NAN, f64::NAN, 0.0, 0.37, 0.5, 0.34, 0.16, 0.64];
    table.rows.push(std::iter::once("the paper".into()).chain(paper.map(Cell::from)).collect());
    for share in std::iter::once(1.0).chain(FREE) {
        let plan = Plan::sized(Size::Free(share), PAGES_PER_BLOCK, bench.options.seed);
        let name = format!("{:.0}%", share * 100.0);
        let outcomes = outcomes(bench, &name, &plan, &WORKLOADS)?;
        let of = || outcomes.iter().filter(|o| o.policy == LSB_FIRST);
        let response = |of: &[Outcome]| versus(of, LSB_FIRST, false, |o| o.alone.write_ns);
        let exch: Vec<Outcome> = outcomes.iter().filter(|o| o.workload == "exch").cloned().collect();
        let mut row: Vec<Cell> = vec![name.into()];
        let alone = || exch.iter().filter(|o| o.policy == LSB_FIRST);
        row.extend([0, 1, 2].map(|kind| Cell::from(mean(alone().map(|o| o.write_shares()[kind])))));
        row.push(response(&exch).into());
        row.extend([0, 1, 2].map(|kind| Cell::from(mean(of().map(|o| o.rmw_shares()[kind])))));
        row.push(response(&outcomes).into());
        table.rows.push(row);
    }
    Ok(table)
}
