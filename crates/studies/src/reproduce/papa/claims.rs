//! The paper's claims, held against what came out.

use super::super::{Claim, Rule};
use super::outcome::Outcome;
use super::pages::Pages;
use super::plan::{LSB_FIRST, PAPA, SIZE_BASED, STRICT};

/// Names of the paper's claims.
pub const CLAIMS: &[&str] = &[
    "papa-partial-share",
    "papa-updates-hit-partial",
    "papa-write-types",
    "papa-rmw-read-types",
    "papa-erases",
    "papa-iops",
    "papa-write-response",
    "papa-rmw-latency",
    "papa-read-response",
    "papa-cached",
];
/// The claims that only need the traces.
pub(super) const OF_TRACES: &[&str] = &["papa-partial-share", "papa-updates-hit-partial"];
/// How the traces' writes fall on pages.
pub(super) fn of_traces(pages: &[Pages], workload: &str, claims: &mut Vec<Claim>) {
    let points = Rule::Points(0.05);
    let mean = |part: &dyn Fn(&Pages) -> f64| mean(pages.iter().map(part));
    let share = |of: u64, all: u64| of as f64 / all.max(1) as f64;
    let mut claim = |id, place, what: String, paper, ours| {
        let claim = Claim::new(id, place, what, workload, paper, ours, points).because(
            "Table I's collections are taken whole by the paper; the excerpts that can be had differ in sizes",
        );
        // The twins are drawn from these shares, and no drive has a part in them.
        claims.push(claim.input());
    };
    for (n, size, paper) in [(0, "8 KiB", [0.43, 0.39]), (1, "16 KiB", [0.75, 0.61])] {
        let partial = mean(&|p| share(p.partial[n], p.writes[n]));
        let updates = mean(&|p| share(p.updates[n], p.writes[n]));
        claim("papa-partial-share", "Fig 5", format!("partial writes, {size}"), paper[0], partial);
        claim("papa-partial-share", "Fig 5", format!("partial updates, {size}"), paper[1], updates);
    }
    let hits = mean(&|p| share(p.hits, p.updates[1]));
    let what = "partial updates that hit partial pages".to_owned();
    claim("papa-updates-hit-partial", "Fig 7", what, 0.96, hits);
}

pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, count) = values.fold((0.0, 0), |(sum, n), v| (sum + v, n + 1));
    if count == 0 { f64::NAN } else { sum / f64::from(count) }
}

/// Mean over the workloads of a policy's figure to the baseline's.
pub(super) fn versus(outcomes: &[Outcome], policy: &str, cached: bool, f: impl Fn(&Outcome) -> f64) -> f64 {
    let find = |policy, workload: &str| {
        outcomes.iter().find(|o| o.policy == policy && o.cached == cached && o.workload == workload)
    };
    mean(outcomes.iter().filter(|o| o.policy == policy && o.cached == cached).filter_map(|o| {
        let base = f(find(STRICT, &o.workload)?);
        (base > 0.0).then(|| f(o) / base)
    }))
}

/// The paper's claims about runs, held against what came out.
pub(super) fn of_runs(outcomes: &[Outcome], workload: &str, claims: &mut Vec<Claim>) {
    let (points, fifth) = (Rule::Points(0.05), Rule::Ratio(0.2));
    let mut claim = |id, place, what: String, paper, ours, rule, why| {
        claims.push(Claim::new(id, place, what, workload, paper, ours, rule).because(why));
    };
    let mean_of = |policy, cached, f: &dyn Fn(&Outcome) -> f64| {
        mean(outcomes.iter().filter(|o| o.policy == policy && o.cached == cached).map(f))
    };
    let versus = |policy, cached, f: fn(&Outcome) -> f64| versus(outcomes, policy, cached, f);
    let types = ["LSB", "CSB", "MSB"];
    for (cached, id, place, paper) in [
        (false, "papa-write-types", "Fig 11", [0.62, 0.372, 0.008]),
        (true, "papa-cached", "Fig 18", [0.54, 0.42, 0.04]),
    ] {
        for (kind, value) in paper.into_iter().enumerate() {
            let what = format!("{} share of flash writes, papa", types[kind]);
            claim(id, place, what, value, mean_of(PAPA, cached, &|o| o.write_shares()[kind]), points, TYPES);
        }
    }
    for (policy, paper) in
        [(PAPA, [0.84, 0.15, 0.01]), (SIZE_BASED, [0.79, 0.13, 0.08]), (LSB_FIRST, [0.50, 0.34, 0.16])]
    {
        for (kind, value) in paper.into_iter().enumerate() {
            let what = format!("{} share of RMW reads, {}", types[kind], policy);
            let ours = mean_of(policy, false, &|o| o.rmw_shares()[kind]);
            let why = if policy == SIZE_BASED { BORDERS } else { TYPES };
            claim("papa-rmw-read-types", "Fig 12", what, value, ours, points, why);
        }
    }
    let metric = |f: fn(&Outcome) -> f64| f;
    let ratios = [
        ("papa-erases", "Fig 13", "erases", metric(|o| o.erases as f64), [1.6, 4.5, 1.0], [TYPES; 3]),
        ("papa-iops", "Fig 14", "IOPS", metric(|o| o.iops), [1.14, 1.075, 1.055], [GAPS; 3]),
        (
            "papa-write-response",
            "Fig 15",
            "write response",
            metric(|o| o.alone.write_ns),
            [0.45, 0.57, 0.64],
            [TYPES, STALLS, TYPES],
        ),
        (
            "papa-rmw-latency",
            "Fig 16",
            "latency of the RMW read",
            metric(|o| o.rmw_read_ns),
            [0.66, 0.71, NONE],
            [TYPES; 3],
        ),
        (
            "papa-read-response",
            "Fig 17",
            "read response",
            metric(|o| o.alone.read_ns),
            [0.77, 0.79, 0.89],
            [READS; 3],
        ),
    ];
    for (id, place, what, f, paper, why) in ratios {
        for ((policy, value), why) in [PAPA, SIZE_BASED, LSB_FIRST].into_iter().zip(paper).zip(why) {
            if !value.is_nan() {
                let what = format!("{what}, {} / strict", policy);
                claim(id, place, what, value, versus(policy, false, f), fifth, why);
            }
        }
    }
    let partial = mean_of(PAPA, true, &|o| o.partial_evictions);
    let what = "partial pages of all that leave the cache".to_owned();
    claim("papa-cached", "Fig 19", what, 0.57, partial, points, REUSE);
    let what = "write response, papa / strict, cache on".to_owned();
    claim("papa-cached", "Fig 20", what, 0.50, versus(PAPA, true, |o| o.alone.write_ns), fifth, CACHED);
}

const NONE: f64 = f64::NAN;
const TYPES: &str = "which types pages are written to, and how many blocks are erased, depends on how much of the device was free, \
    and how much of it is written: where half of Table II's blocks are free, lsb-first's types and write response come out, \
    where both runs write 60% of the device and collection begins before, papa's types and erases (tables: how much of the \
    device was free, what is not published)";
const BORDERS: &str = "size-based takes what lies over a page border for large, and how many requests do is not said (table: what \
    is not published)";
const GAPS: &str = "one at a time, time between requests counts too, and how much of it there was is not said (table: what is not \
    published, 100 and 900 requests a second)";
const STALLS: &str = "an emergency makes a write wait until a victim's survivors have moved; ahead of need it waits less \
    (table: what is not published, column stalled)";
const CACHED: &str =
    "with the cache on papa writes more MSB pages than the paper's (Fig 18), and each takes 5.5 ms";
const READS: &str = "a read takes what its page's type takes, and LSB pages hardly run out where the device is not \
    filled; where it is, reads wait for collection's copies (table: what is not published)";
const REUSE: &str = "the twins repeat small writes less often within a cache's lifetime; reuse distances are \
    not published";
