//! What the paper does not say, three values each with the counted one. No row of a claim.

use super::super::{Bench, Cell, Table};
use super::claims::{mean, versus};
use super::grid::measure_all;
use super::outcome::Outcome;
use super::plan::{FILL, POLICIES, Plan, Size, THRESHOLDS, WORKLOADS, WRITES};
use crate::Error;

/// How many requests lie over page borders, how fast they arrive, how full the device was, by data and by what is
/// written, and from where on it collects; and collection ahead of need.
pub(super) fn table(bench: &Bench<'_>) -> Result<Table, Error> {
    let options = bench.options;
    let plan = Plan::quick(options.seed);
    let mut settings: Vec<(String, Plan)> = vec![("Table II's blocks, as counted".into(), plan.clone())];
    for misaligned in [0.0, 0.5] {
        let plan = Plan { misaligned: Some(misaligned), ..plan.clone() };
        settings.push((format!("{:.0}% of half pages over a border", misaligned * 100.0), plan));
    }
    settings.push(("collection ahead of need".into(), Plan { ahead: true, ..plan.clone() }));
    for rate in [100.0, 900.0] {
        settings.push((format!("{rate:.0} requests a second"), Plan { rate, ..plan.clone() }));
    }
    for share in [0.5, FILL, 1.0] {
        let plan = Plan::sized(Size::Pages(share), 48, options.seed);
        settings.push((format!("{:.0}% of the device written", share * 100.0), plan));
    }
    for share in WRITES {
        let plan = Plan::sized(Size::Writes(share), 48, options.seed);
        settings.push((format!("writes are {:.0}% of the pages", share * 100.0), plan));
    }
    for threshold in THRESHOLDS {
        let sized = Plan::sized(Size::Writes(WRITES[1]), 48, options.seed);
        let name = format!(
            "writes are {:.0}% of the pages, collection from {:.0}% on",
            WRITES[1] * 100.0,
            (1.0 - threshold) * 100.0
        );
        settings.push((name, Plan { threshold, op_ratio: 2.0, ..sized }));
    }
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
    for (name, plan) in settings {
        let load = |name: &&str| plan.trace(name).map(|t| (name.to_string(), t));
        let traces = bench.each(workloads, |w| format!("{w}: generated for {name}"), load)?;
        let outcomes = measure_all(bench, &plan, &traces, &[false])?;
        for policy in POLICIES {
            let of = || outcomes.iter().filter(move |o| o.policy == policy);
            let ratio = |f: fn(&Outcome) -> f64| Cell::from(versus(&outcomes, policy, false, f));
            let mut row: Vec<Cell> = vec![name.clone().into(), policy.into()];
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
            table.rows.push(row);
        }
    }
    Ok(table)
}
