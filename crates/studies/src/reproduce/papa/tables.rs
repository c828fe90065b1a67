//! What was measured, as tables.

use super::super::{Cell, Table};
use super::claims::versus;
use super::outcome::Outcome;
use super::plan::{POLICIES, STRICT};

/// Everything measured, one line a run.
pub(super) fn runs(title: &str, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        title,
        &[
            "workload",
            "policy",
            "cache",
            "writes",
            "LSB",
            "CSB",
            "MSB",
            "TSB",
            "RMW LSB",
            "RMW CSB",
            "RMW MSB",
            "RMW TSB",
            "erases",
            "GC writes",
            "write ms",
            "read ms",
            "RMW ms",
            "IOPS",
            "write ms, load",
            "read ms, load",
            "RMW ms, load",
            "stalled",
            "emergencies",
            "ahead",
            "backup CSB",
            "backup MSB",
        ],
    );
    for o in outcomes {
        let (w, r) = (o.write_shares(), o.rmw_shares());
        let cache = if o.cached { "on" } else { "off" };
        let mut row: Vec<Cell> = vec![
            o.workload.clone().into(),
            o.policy.into(),
            cache.into(),
            o.writes.iter().sum::<u64>().into(),
        ];
        row.extend(w.into_iter().chain(r).map(Cell::from));
        row.extend([o.erases, o.gc_writes].map(Cell::from));
        for t in [o.alone, o.loaded] {
            row.extend([t.write_ns, t.read_ns, t.rmw_ns].map(|ns| Cell::from(ns / 1e6)));
            if row.len() < 18 {
                row.push(o.iops.into());
            }
        }
        row.push((o.stalled_ns as f64 / o.elapsed_ns.max(1) as f64).into());
        row.extend(o.resorts.map(Cell::from));
        table.rows.push(row);
    }
    table
}

/// At an arrival rate that the paper does not give: ratios to strict, none of them a claim's.
pub(super) fn loaded(workload: &str, outcomes: &[Outcome]) -> Table {
    let title = format!("How much the arrival times matter: under load to strict, {workload}");
    let mut table = Table::new(
        title,
        &["policy", "cache", "write response", "read response", "whole RMW", "whole RMW, one at a time"],
    );
    for cached in [false, true] {
        let ran = |policy: &str| outcomes.iter().any(|o| o.policy == policy && o.cached == cached);
        for policy in POLICIES.into_iter().filter(|&policy| policy != STRICT && ran(policy)) {
            let metric = |f: fn(&Outcome) -> f64| Cell::from(versus(outcomes, policy, cached, f));
            table.rows.push(vec![
                policy.into(),
                if cached { "on" } else { "off" }.into(),
                metric(|o| o.loaded.write_ns),
                metric(|o| o.loaded.read_ns),
                metric(|o| o.loaded.rmw_ns),
                metric(|o| o.alone.rmw_ns),
            ]);
        }
    }
    table
}

/// Means over the workloads, to strict, with four bits a cell.
pub(super) fn qlc(outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        "QLC: mean ratios to strict (beyond the paper)",
        &[
            "policy",
            "write response",
            "read response",
            "RMW latency",
            "IOPS",
            "write response, load",
            "erases",
        ],
    );
    for policy in POLICIES.into_iter().filter(|&policy| policy != STRICT) {
        let metric = |f: fn(&Outcome) -> f64| Cell::from(versus(outcomes, policy, false, f));
        table.rows.push(vec![
            policy.into(),
            metric(|o| o.alone.write_ns),
            metric(|o| o.alone.read_ns),
            metric(|o| o.alone.rmw_ns),
            metric(|o| o.iops),
            metric(|o| o.loaded.write_ns),
            metric(|o| o.erases as f64),
        ]);
    }
    table
}
