//! The paper's claims, held against what came out.

use nandle_ssd::nand::Cause;
use nandle_ssd::schemes::across::AcrossStats;

use super::super::{Claim, Rule};
use super::grid::TWINS;
use super::run::{Run, sum};

/// Mean over the workloads of `f(across) / f(other)`; `other`: 0 = page, 1 = MRSM.
pub(super) fn ratio(runs: &[[Run; 3]], other: usize, f: impl Fn(&Run) -> f64) -> f64 {
    mean(runs, |r| f(&r[2]) / f(&r[other]))
}

/// Mean over the workloads in which there is anything to divide by.
pub(super) fn mean(runs: &[[Run; 3]], f: impl Fn(&[Run; 3]) -> f64) -> f64 {
    let values: Vec<f64> = runs.iter().map(f).filter(|v| v.is_finite()).collect();
    values.iter().sum::<f64>() / values.len() as f64
}

/// Share of the map in what a scheme reads from flash, or writes.
pub(super) fn map_share(runs: &[[Run; 3]], scheme: usize, read: bool) -> f64 {
    mean(runs, |r| {
        let r = &r[scheme];
        let (map, all) = if read {
            (r.reads_of(Cause::Map), sum(&r.flash_reads))
        } else {
            (r.writes_of(Cause::Map), sum(&r.flash_writes))
        };
        map / all.max(1.0)
    })
}

/// Shares of map writes, then of map reads, of MRSM and of Across-FTL.
pub(super) fn map_shares(runs: &[[Run; 3]]) -> [f64; 4] {
    [(1, false), (2, false), (1, true), (2, true)].map(|(scheme, read)| map_share(runs, scheme, read))
}

const CACHED: &str = "a page of the mapping table has a thousand entries, the mapping cache keeps whole pages, and requests \
    come back to them; the paper's share of MRSM follows if every page written misses with the share that the cache lacks \
    (table: no locality)";
const SIZES: &str = "it follows from the sizes of requests, of which the paper gives the mean";
const UPDATES: &str = "partial updates within one page are read under every scheme; how many the paper's \
    traces have is not published";
const NODES: &str = "a node of MRSM's tree takes twice an entry, and each piece is one; the traces decide how many \
    pages are cut (column: further nodes)";
const LOOKUPS: &str = "every access is counted: a request beside an area has to look at its entry too; an access of \
    MRSM's tree is a search of as many nodes as it has levels, and the original's tree is not described";
const PACKED: &str = "MRSM packs runs over a page border too, writes over parts of pages without reading them where \
    Across-FTL reads (column: reads rmw), and pays little for its table while the cache holds it";

const PAGES_A_SECTOR: &str = "pages written a sector";

/// The claims of section 4 at 8 KiB pages.
pub(super) fn claims(runs: &[[Run; 3]], workload: &str, claims: &mut Vec<Claim>) {
    let twins = runs.len() == TWINS.len();
    // What the twins are drawn from, and what follows from requests alone, says nothing about a drive.
    let given = |id, what: &str| match id {
        "across-share" => true,
        "across-cost" => what.starts_with(PAGES_A_SECTOR),
        "across-rollbacks" => twins,
        _ => false,
    };
    let mut add = |id, place, what: &str, paper: f64, ours: f64, rule, why| {
        let claim = Claim::new(id, place, what, workload, paper, ours, rule).because(why);
        claims.push(if given(id, what) { claim.input() } else { claim });
    };
    if twins {
        let shares = [0.247, 0.164, 0.234, 0.187, 0.235, 0.275];
        for ((twin, paper), run) in TWINS.iter().zip(shares).zip(runs) {
            let ours = run[0].requests[1] as f64 / sum(&run[0].requests);
            let what = format!("across-page requests of {twin}");
            add("across-share", "Table 2", &what, paper, ours, Rule::Points(0.01), SIZES);
        }
    } else {
        let ours = mean(runs, |r| r[0].requests[1] as f64 / sum(&r[0].requests));
        let what = "across-page requests, mean";
        add(
            "across-share",
            "Table 2",
            what,
            0.224,
            ours,
            Rule::Points(0.05),
            "other traces than the paper's",
        );
    }
    let per = |a: [u64; 2], b: [u64; 2]| (a[1] as f64 / b[1] as f64) / (a[0] as f64 / b[0] as f64);
    let cost = [
        ("read latency a sector", 1.61, mean(runs, |r| per(r[0].read_ns, r[0].read_sectors))),
        ("write latency a sector", 1.49, mean(runs, |r| per(r[0].write_ns, r[0].write_sectors))),
        (PAGES_A_SECTOR, 2.69, mean(runs, |r| per(r[0].write_pages, r[0].write_sectors))),
    ];
    for (what, paper, ours) in cost {
        let what = format!("{what}, across to other requests (page)");
        add("across-cost", "Fig 4", &what, paper, ours, Rule::Ratio(0.1), SIZES);
    }
    let share = |f: &dyn Fn(&AcrossStats) -> (u64, u64)| {
        mean(runs, |r| {
            let (part, all) = f(&r[2].areas);
            part as f64 / all.max(1) as f64
        })
    };
    let rolled = share(&|a| (a.rollbacks, a.direct_writes));
    let unprofitable =
        share(&|a| (a.unprofitable_merges, a.direct_writes + a.profitable_merges + a.unprofitable_merges));
    let merged = mean(runs, |r| r[2].areas.merged_reads as f64 / sum(&r[2].flash_reads));
    const REPEATS: &str = "how often extents overlap without repeating differs from trace to trace";
    for (what, paper, ours, rule) in [
        ("areas rolled back, of areas made", 0.039, rolled, Rule::Value(0.25)),
        ("unprofitable merges, of across writes", 0.089, unprofitable, Rule::Value(0.25)),
        ("merged reads, of flash reads", 0.0012, merged, Rule::Value(0.25)),
    ] {
        add("across-rollbacks", "Fig 8", what, paper, ours, rule, REPEATS);
    }
    let all_writes = |r: &Run| sum(&r.flash_writes);
    let all_reads = |r: &Run| sum(&r.flash_reads);
    let erases = |r: &Run| r.erases as f64;
    let updates = |r: &Run| r.reads_of(Cause::Rmw);
    let gain = Rule::Ratio(0.1);
    for (id, place, what, paper, ours, why) in [
        (
            "across-write-latency",
            "Fig 9b",
            "write latency, to page",
            0.911,
            ratio(runs, 0, Run::write_ms),
            SIZES,
        ),
        (
            "across-write-latency",
            "Fig 9b",
            "write latency, to mrsm",
            0.963,
            ratio(runs, 1, Run::write_ms),
            PACKED,
        ),
        (
            "across-io-latency",
            "Fig 9",
            "latency of all requests, to page",
            0.884,
            ratio(runs, 0, Run::io_s),
            SIZES,
        ),
        (
            "across-io-latency",
            "Fig 9",
            "latency of all requests, to mrsm",
            0.954,
            ratio(runs, 1, Run::io_s),
            PACKED,
        ),
        ("across-flash-ops", "Fig 10", "flash writes, to page", 0.841, ratio(runs, 0, all_writes), SIZES),
        ("across-flash-ops", "Fig 10", "flash writes, to mrsm", 0.691, ratio(runs, 1, all_writes), CACHED),
        ("across-flash-ops", "Fig 10", "flash reads, to page", 0.903, ratio(runs, 0, all_reads), SIZES),
        ("across-flash-ops", "Fig 10", "flash reads, to mrsm", 0.839, ratio(runs, 1, all_reads), CACHED),
        ("across-flash-ops", "Fig 10", "update reads, to page", 0.378, ratio(runs, 0, updates), UPDATES),
        ("across-erases", "Fig 11", "erases, to page", 0.867, ratio(runs, 0, erases), SIZES),
        ("across-erases", "Fig 11", "erases, to mrsm", 0.754, ratio(runs, 1, erases), CACHED),
    ] {
        add(id, place, what, paper, ours, gain, why);
    }
    // "By more than 5.0%": a bound.
    for (other, what, why) in [(0, "read latency, to page", SIZES), (1, "read latency, to mrsm", PACKED)] {
        let ours = ratio(runs, other, Run::read_ms);
        add("across-io-latency", "Fig 9a", what, 0.95, ours, Rule::Below, why);
    }
    let of_page = |f: &dyn Fn(&Run) -> f64| mean(runs, |r| f(&r[1]) / f(&r[0]));
    let memory = |r: &Run| r.mapping_bytes as f64;
    let dram = |r: &Run| r.dram as f64;
    for (what, paper, ours, why) in [
        ("mapping memory, to page", 1.4, ratio(runs, 0, memory), NODES),
        ("mapping memory of mrsm, to page", 2.4, of_page(&memory), NODES),
        ("DRAM accesses, to page", 1.011, ratio(runs, 0, dram), LOOKUPS),
        ("DRAM accesses of mrsm, to page", 32.6, of_page(&dram), LOOKUPS),
    ] {
        add("across-overhead", "Fig 12", what, paper, ours, Rule::Ratio(0.1), why);
    }
    let [mrsm_writes, across_writes, mrsm_reads, across_reads] = map_shares(runs);
    for (what, paper, ours, rule) in [
        ("map writes of all flash writes, mrsm", 0.369, mrsm_writes, Rule::Value(0.1)),
        ("map writes of all flash writes, across", 0.026, across_writes, Rule::Value(0.1)),
        ("map reads of all flash reads, mrsm", 0.344, mrsm_reads, Rule::Value(0.1)),
        ("map reads of all flash reads, across", 0.0074, across_reads, Rule::Value(0.1)),
    ] {
        add("across-flash-ops", "Fig 10", what, paper, ours, rule, CACHED);
    }
}

/// Fig 14: ahead of both on latency and erases at this page size.
pub(super) fn size_claims(page: u32, runs: &[[Run; 3]], claims: &mut Vec<Claim>) {
    let kib = page / 1024;
    for (other, name) in [(0, "page"), (1, "mrsm")] {
        for (what, ours) in [
            ("latency of all requests", ratio(runs, other, Run::io_s)),
            ("erases", ratio(runs, other, |r| r.erases as f64)),
        ] {
            let what = format!("{what}, to {name}, {kib} KiB pages");
            let claim = Claim::new("across-page-sizes", "Fig 14", what, "six twins", 1.0, ours, Rule::Below);
            claims.push(claim.because(PACKED));
        }
    }
}
