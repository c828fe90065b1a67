//! What was measured, as tables.

use std::collections::VecDeque;

use nandle_ssd::nand::Cause;

use super::super::{Cell, Table};
use super::grid::{SCHEMES, Workload};
use super::run::{Run, sum};

/// One run a row.
pub(super) fn table(title: &str, workloads: &[Workload], runs: &[[Run; 3]]) -> Table {
    let mut table = Table::new(
        title,
        &[
            "workload",
            "scheme",
            "across-page",
            "write ms",
            "read ms",
            "writes host",
            "writes gc",
            "writes merge",
            "writes map",
            "reads host",
            "reads rmw",
            "reads gc",
            "reads merge",
            "reads map",
            "erases",
            "DRAM accesses",
            "table bytes",
            "areas",
            "rollbacks",
            "unprofitable",
            "merged reads",
            "pieces written",
            "pages merged",
            "refused",
            "further nodes",
        ],
    );
    for ((name, _), runs) in workloads.iter().zip(runs) {
        for (mapping, r) in SCHEMES.iter().zip(runs) {
            let (w, d, a, m) = (&r.flash_writes, &r.flash_reads, &r.areas, &r.mrsm);
            let mut row: Vec<Cell> = vec![name.clone().into(), (*mapping).into()];
            row.push((r.requests[1] as f64 / sum(&r.requests)).into());
            row.extend([r.write_ms(), r.read_ms()].map(Cell::from));
            row.extend([Cause::Host, Cause::Gc, Cause::Merge, Cause::Map].map(|c| Cell::from(w[c as usize])));
            let read = [Cause::Host, Cause::Rmw, Cause::Gc, Cause::Merge, Cause::Map];
            row.extend(read.map(|c| Cell::from(d[c as usize])));
            row.extend([r.erases, r.dram, r.mapping_bytes].map(Cell::from));
            row.extend([a.direct_writes, a.rollbacks, a.unprofitable_merges, a.merged_reads].map(Cell::from));
            row.extend([m.pieces_written, m.merged, m.refused, r.further_nodes].map(Cell::from));
            table.rows.push(row);
        }
    }
    table
}

/// Fig 4's latency a sector: the same runs, averaged in other ways.
pub(super) fn averages(workloads: &[Workload], runs: &[[Run; 3]]) -> Table {
    let mut table = Table::new(
        "Latency a sector of across-page requests to that of others (page): three averages",
        &[
            "workload",
            "",
            "all latencies over all sectors",
            "mean of each request's",
            "others of at most a page",
        ],
    );
    for ((name, _), [r, ..]) in workloads.iter().zip(runs) {
        let reads = ("reads", r.read_ns, r.read_sectors, r.reads);
        let writes = ("writes", r.write_ns, r.write_sectors, r.writes);
        for (way, (what, ns, sectors, requests)) in [reads, writes].into_iter().enumerate() {
            let over = |a: u64, b: u64| a as f64 / b as f64;
            let across = over(ns[1], sectors[1]);
            let own = |class: usize| r.ns_a_sector[way][class] / requests[class] as f64;
            let ratios = [
                across / over(ns[0], sectors[0]),
                own(1) / own(0),
                across / over(r.small[way][0], r.small[way][1]),
            ];
            table
                .rows
                .push([name.clone().into(), what.into()].into_iter().chain(ratios.map(Cell::from)).collect());
        }
    }
    table
}

/// Areas that give up sectors instead of being rolled back.
pub(super) fn shrink_table(
    title: &str,
    workloads: &[Workload],
    runs: &[[Run; 3]],
    shrunk: &VecDeque<Run>,
) -> Table {
    let mut table = Table::new(
        title,
        &["workload", "rollbacks", "rollbacks left", "flash writes", "flash reads", "latency", "erases"],
    );
    for (((name, _), runs), shrunk) in workloads.iter().zip(runs).zip(shrunk) {
        let plain = &runs[2];
        let ratio = |f: &dyn Fn(&Run) -> f64| Cell::from(f(shrunk) / f(plain));
        table.rows.push(vec![
            name.clone().into(),
            plain.areas.rollbacks.into(),
            shrunk.areas.rollbacks.into(),
            ratio(&|r| sum(&r.flash_writes)),
            ratio(&|r| sum(&r.flash_reads)),
            ratio(&Run::io_s),
            ratio(&|r| r.erases as f64),
        ]);
    }
    table
}
