//! What the paper does not say. No row of a claim.

use nandle_lab::Error;
use nandle_lab::workload::Asked;
use nandle_ssd::nand::Cause;

use super::super::{Bench, Cell, Kind, Table, Verdict};
use super::claims::{claims, map_share, map_shares, mean, ratio};
use super::grid::{Load, Runs, Set, TWINS, Workload, compare};
use super::run::{Run, sum};

/// Share of MRSM's table that the paper's cache holds (section 4.2.4).
const PAPER_CACHED: f64 = 0.421;

/// What the questions that the paper leaves open are asked of: the runs that are `counted`, and what makes others.
pub(super) struct Open<'a, A> {
    pub bench: &'a Bench<'a>,
    pub paper: Set,
    pub counted: &'a Runs,
    pub asked: A,
}

impl<A: Fn(&str, Option<u64>) -> Asked> Open<'_, A> {
    /// What the paper does not say, or what is not to be had: how many writes repeat an extent, how much of the mapping table
    /// the cache has room for where so little of it is touched, and what was requested before. No row is counted.
    pub(super) fn unpublished(&self) -> Result<Table, Error> {
        let &Self { bench, paper, counted, ref asked } = self;
        let mut table = Table::new(
            "What is not published (six twins)",
            &[
                "setting",
                "pages touched",
                "table cached mrsm",
                "map writes mrsm",
                "map writes across",
                "map reads mrsm",
                "map reads across",
                "flash writes to mrsm",
                "flash reads to mrsm",
                "erases to mrsm",
                "write latency to mrsm",
                "latency to mrsm",
                "latency to page",
                "update reads to page",
                "predictions met",
            ],
        );
        let most = bench.options.quick.then_some(90_000);
        let twins = |argument: &str| -> Vec<Workload> {
            let one = |t: &&str| (t.to_string(), Load::Twin(asked(&format!("{t}{argument}"), most)));
            TWINS.iter().map(one).collect()
        };
        let mut settings =
            vec![("as counted: 70% of the writes repeat an extent".to_owned(), counted.clone())];
        for share in [0.5, 0.3] {
            let runs = compare(bench, paper, &twins(&format!(":repeat={share}")))?;
            settings.push((format!("{:.0}% of the writes repeat an extent", share * 100.0), runs));
        }
        let runs = compare(bench, Set { aged: true, ..paper }, &twins(""))?;
        settings.push(("aged by an hour of another LUN too".into(), runs));
        let runs = compare(bench, Set { cache: 16, ..paper }, &twins(""))?;
        settings.push(("a sixteenth of the mapping cache".into(), runs));
        for (name, runs) in settings {
            let mut row: Vec<Cell> = vec![name.as_str().into()];
            row.extend([mean(&runs, |r| r[1].touched), mean(&runs, |r| r[1].cached)].map(Cell::from));
            row.extend(map_shares(&runs).map(Cell::from));
            row.extend(
                [
                    ratio(&runs, 1, |r| sum(&r.flash_writes)),
                    ratio(&runs, 1, |r| sum(&r.flash_reads)),
                    ratio(&runs, 1, |r| r.erases as f64),
                    ratio(&runs, 1, Run::write_ms),
                    ratio(&runs, 1, Run::io_s),
                    ratio(&runs, 0, Run::io_s),
                    ratio(&runs, 0, |r| r.reads_of(Cause::Rmw)),
                ]
                .map(Cell::from),
            );
            row.push(met(&runs).into());
            table.rows.push(row);
        }
        Ok(table)
    }

    /// Channels, dies, bus and erase time, which Table 1 leaves out: the preset's, which are a guess, and SSDSim's own. The
    /// second counts for nothing. Always on a sixteenth of the device, which is cheap.
    pub(super) fn shipped(&self) -> Result<Table, Error> {
        let &Self { bench, paper, counted, ref asked } = self;
        let mut table = Table::new(
            "Channels, dies, bus and erase time are not published (six twins, a sixteenth of the device)",
            &[
                "setting",
                "write latency to page",
                "latency to page",
                "write latency to mrsm",
                "latency to mrsm",
                "erases to page",
                "predictions met",
            ],
        );
        let twins: Vec<Workload> =
            TWINS.iter().map(|t| (t.to_string(), Load::Twin(asked(t, Some(90_000))))).collect();
        let small = Set { quick: true, ..paper };
        let guessed = if paper.quick { counted.clone() } else { compare(bench, small, &twins)? };
        let runs = compare(bench, Set { shipped: true, ..small }, &twins)?;
        for (name, runs) in [
            ("as counted: 8 channels of 2 dies, 333 MB/s, 3.8 ms", &guessed),
            ("as SSDSim ships: 2 channels of 4 dies, 40 MB/s, 1.5 ms", &runs),
        ] {
            let mut row: Vec<Cell> = vec![name.into()];
            row.extend(
                [
                    ratio(runs, 0, Run::write_ms),
                    ratio(runs, 0, Run::io_s),
                    ratio(runs, 1, Run::write_ms),
                    ratio(runs, 1, Run::io_s),
                    ratio(runs, 0, |r| r.erases as f64),
                ]
                .map(Cell::from),
            );
            row.push(met(runs).into());
            table.rows.push(row);
        }
        Ok(table)
    }

    /// What the mapping cache would miss if no request came near an earlier one. Not counted: whether the paper's share of map
    /// writes can follow from its cache at all.
    pub(super) fn without_locality(&self) -> Result<Table, Error> {
        let &Self { bench, paper, counted, ref asked } = self;
        let name = "random-write";
        let most = if bench.options.quick { 100_000 } else { 1_000_000 };
        let anywhere = compare(bench, paper, &[(name.into(), Load::Twin(asked(name, Some(most))))])?;
        let columns = ["requests", "scheme", "table cached", "misses", "map writes of all flash writes"];
        let mut table = Table::new("Map writes where requests have no locality", &columns);
        for (what, runs) in [("six twins", counted), ("4 KiB writes anywhere", &anywhere)] {
            for (scheme, n) in [("mrsm", 1), ("across", 2)] {
                let figures =
                    [mean(runs, |r| r[n].cached), mean(runs, |r| r[n].misses), map_share(runs, n, false)];
                let mut row: Vec<Cell> = vec![what.into(), scheme.into()];
                row.extend(figures.map(Cell::from));
                table.rows.push(row);
            }
        }
        // Each page written, the host's or a copy, brings in a page of the table and drives out a changed one.
        let lacks = 1.0 - PAPER_CACHED;
        let mut row: Vec<Cell> =
            vec!["every page written looks up anywhere (closed form)".into(), "mrsm".into()];
        row.extend([PAPER_CACHED, lacks, lacks / (1.0 + lacks)].map(Cell::from));
        table.rows.push(row);
        Ok(table)
    }
}

/// Predictions that these runs meet.
fn met(runs: &Runs) -> u64 {
    let mut all = Vec::new();
    claims(runs, "", &mut all);
    all.iter().filter(|c| c.kind == Kind::Prediction && c.verdict == Verdict::Met).count() as u64
}
