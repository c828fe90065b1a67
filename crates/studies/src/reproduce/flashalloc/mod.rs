//! FlashAlloc (PVLDB 16(11), 2023), section 6: Figs 4, 5 and 6, Table 2.
//!
//! Each workload is replayed on the same drive under four stream policies: by-time
//! (vanilla), flashalloc, multi-stream(8) as the authors prototyped it, a block at a time, and, beyond the paper,
//! fdp(8); its users each in a closed loop of their own. WAF and throughput are those of the measured phase. A tenant's throughput is what its
//! users get done: db_bench's operations end in memtables, so the bytes that are flushed from these; TPC-C's
//! transactions dirty pages, so the bytes that InnoDB's page cleaner writes.

mod board;
pub mod calibration;
mod claims;
mod host;
mod outcome;
mod unpublished;
mod written;

use nandle_lab::Error;
use nandle_ssd::nand::Cause;
use nandle_ssd::schemes::Isolation;
use nandle_ssd::{DeviceConfig, Op};

use self::board::{BY_TIME, FDP, FLASHALLOC, MULTI_STREAM};
pub use self::board::{Firmware, POLICIES, drive};
pub use self::host::{Callers, Host};
pub use self::outcome::{Outcome, run};
pub use self::written::Interval;
use self::written::{DB_BENCH, TPC_C};
use super::{Bench, Cell, Curves, Report, Table};

/// Names of the paper's claims.
pub const CLAIMS: &[&str] = &[
    "flashalloc-fio-8",
    "flashalloc-fio-32",
    "flashalloc-rocksdb-ext4",
    "flashalloc-f2fs",
    "flashalloc-mysql",
    "flashalloc-multitenant",
    "flashalloc-latency",
    "flashalloc-vs-multistream",
];

/// F2FS as Linux mounts it: it recycles segments.
const LINUX: &str = "f2fs:ssr";

/// The claims and the workloads that stand in for them; some have none.
const WORKLOADS: [(&str, &[&str]); 9] = [
    ("fio-2m-8", &["flashalloc-fio-8"]),
    ("fio-2m-32", &["flashalloc-fio-32"]),
    ("rocksdb-x4", &["flashalloc-rocksdb-ext4", "flashalloc-latency"]),
    ("f2fs", &["flashalloc-f2fs"]),
    (LINUX, &[]),
    ("mysql", &["flashalloc-mysql"]),
    ("rocksdb+mysql", &["flashalloc-multitenant", "flashalloc-vs-multistream"]),
    ("rocksdb", &[]),
    ("kv-cache", &[]),
];

/// The board of the claims, or another.
struct Board {
    note: &'static str,
    change: fn(&mut DeviceConfig),
    /// Part of the names of the workloads that it runs.
    runs: &'static str,
}

/// The board as the logs have it, and what else sends InnoDB's doublewrite buffer to flash: shown, and no claim's.
const BOARDS: [Board; 3] = [
    Board { note: "", change: |_| {}, runs: "" },
    Board { note: ", no buffer", change: |c| c.buffer.bytes = 0, runs: "" },
    // As the sources beside the logs do it (Flashalloc/flush_diff.diff); in the logs FLUSH is answered at once.
    Board { note: ", FLUSH empties the buffer", change: |c| c.recovery.plp = false, runs: "mysql" },
];

/// The paper's evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let options = bench.options;
    let scale = if options.quick { 16 } else { 1 };
    let everything = options.claim.is_none();
    let workloads: Vec<&'static str> = WORKLOADS
        .iter()
        .filter(
            |(_, claims)| if claims.is_empty() { everything && !options.quick } else { bench.wants(claims) },
        )
        .map(|(workload, _)| *workload)
        .collect();
    if everything {
        let points = calibration::points(bench)?;
        report.tables.push(calibration::table(&points));
        report.tables.push(calibration::sizes_table(&calibration::sizes(options.seed, bench.stop)?));
        report.tables.push(calibration::trimmed());
    }
    let boards = if options.quick { &BOARDS[..1] } else { &BOARDS };
    // A single claim needs no more than its own policies.
    let streams = bench.wants(&["flashalloc-vs-multistream"]);
    let policies: &[&'static str] =
        if everything { &POLICIES } else { &POLICIES[..2 + usize::from(streams)] };
    for (board, Board { note, change, runs }) in boards.iter().enumerate() {
        let jobs: Vec<(&'static str, &'static str)> = workloads
            .iter()
            .filter(|workload| workload.contains(runs))
            .flat_map(|&w| policies.iter().map(move |&policy| (w, policy)))
            .collect();
        let outcomes = bench.each(
            &jobs,
            |(workload, policy)| format!("{workload} {}{note}", policy),
            |&(workload, policy)| {
                let firmware = Firmware::of(workload);
                let mut config = drive(scale, policy, firmware)?;
                change(&mut config);
                let trims = firmware.trims(policy);
                let host = Host { hour: !options.quick, trims, ..Host::with(Callers::All) };
                run(workload, &config, options.seed, host, bench.stop)
            },
        )?;
        // The first is the claims'.
        if board == 0 {
            claims::claims(&outcomes, &mut report.claims);
            let four = |o: &&Outcome| o.workload == "rocksdb-x4" && o.policy == FLASHALLOC;
            report.tables.extend(outcomes.iter().find(four).map(calibration::four_instances));
        }
        report.tables.push(table(&format!("Workloads under each stream policy{note}"), &outcomes));
        report.tables.push(users_table(&format!("Users{note}"), &outcomes));
        report.tables.push(tenths(
            &format!("WAF and throughput of the moment, by tenths of the time{note}"),
            &outcomes,
        ));
        report.curves.extend(curves(note, &outcomes));
    }
    if bench.wants(&["flashalloc-multitenant"]) {
        neighbours(bench, scale, report)?;
    }
    if everything {
        variants(bench, scale, report)?;
        report.tables.push(unpublished::table(bench)?);
    }
    report.notes.push(
        "WAF and throughput are of the measured phase; late = its second half, end = its last tenth. OPS = bytes that RocksDB's \
         flushes write, TPS = bytes that InnoDB's page cleaner writes"
            .into(),
    );
    Ok(())
}

/// One drive, two tenants, and who of them calls FlashAlloc: what it does for the neighbour (section 6.3,
/// "altruistic"). The paper has all or nobody; one alone is ours.
fn neighbours(bench: &Bench<'_>, scale: u32, report: &mut Report) -> Result<(), Error> {
    let jobs = [
        ("nobody", Callers::Nobody),
        ("RocksDB and MySQL", Callers::All),
        ("RocksDB", Callers::Only("rocksdb")),
        ("MySQL", Callers::Only("mysql")),
    ];
    let outcomes = bench.each(
        &jobs,
        |(who, _)| format!("rocksdb+mysql, calls by {who}"),
        |&(_, callers)| {
            // Without calls the drive is the vanilla one.
            let config = drive(scale, FLASHALLOC, Firmware::Logged)?;
            run("rocksdb+mysql", &config, bench.options.seed, Host::with(callers), bench.stop)
        },
    )?;
    let mut table = Table::new(
        "Who calls FlashAlloc: rocksdb+mysql",
        &[
            "calls by",
            "WAF",
            "WAF late",
            "steady",
            "OPS MB/s",
            "OPS ratio",
            "TPS MB/s",
            "TPS ratio",
            "clients' read us",
            "moved",
        ],
    );
    for ((who, _), o) in jobs.iter().zip(&outcomes) {
        let [ops, tps] = [DB_BENCH, TPC_C].map(|tenant| (o.done(tenant), outcomes[0].done(tenant)));
        let mut row: Vec<Cell> = vec![(*who).into(), o.waf().into(), o.waf_of_last(0.5).into()];
        row.push(if o.steady { "yes" } else { "no" }.into());
        row.extend([ops.0 / 1e6, ops.0 / ops.1, tps.0 / 1e6, tps.0 / tps.1].map(Cell::from));
        row.extend([Cell::from(o.of("mysql", "clients", Op::Read).mean_ns() / 1e3), o.moved.into()]);
        table.rows.push(row);
    }
    report.tables.push(table);
    Ok(())
}

/// A setting beyond the paper.
struct Variant {
    name: &'static str,
    policy: &'static str,
    change: fn(&mut DeviceConfig),
    host: Host,
}

fn variants_of() -> Vec<Variant> {
    let (calls, silent) = (Host::with(Callers::All), Host::with(Callers::Nobody));
    let variant = |name, policy, change, host| Variant { name, policy, change, host };
    vec![
        variant("by-time", BY_TIME, |_| {}, silent),
        variant("by-time, trims not honoured", BY_TIME, |_| {}, Host { trims: false, ..silent }),
        variant("flashalloc, the paper's rule", FLASHALLOC, |_| {}, calls),
        variant("flashalloc, trims not honoured", FLASHALLOC, |_| {}, Host { trims: false, ..calls }),
        variant("flashalloc, ended collected", FLASHALLOC, |c| c.streams.collect_ended = true, calls),
        variant("flashalloc, blocks on demand", FLASHALLOC, |c| c.streams.on_demand = true, calls),
        variant("flashalloc, tiny objects share", FLASHALLOC, |c| c.streams.share_tiny = true, calls),
        variant("no calls, auto_align 2 MiB", FLASHALLOC, |c| c.streams.auto_align = 2 << 20, silent),
        variant("no calls, auto_run 1 MiB", FLASHALLOC, |c| c.streams.auto_run = 1 << 20, silent),
        variant("multi-stream, striped", MULTI_STREAM, |c| c.scheme.striping = "dynamic".into(), silent),
        variant("fdp, initially isolated", FDP, |_| {}, silent),
        // With eight handles the survivors of each would take more blocks than a die of the board has to spare.
        variant(
            "fdp(4), persistently isolated",
            FDP,
            |c| (c.streams.count, c.streams.isolation) = (4, Isolation::Persistently),
            silent,
        ),
    ]
}

fn variants(bench: &Bench<'_>, scale: u32, report: &mut Report) -> Result<(), Error> {
    let variants = variants_of();
    let mut jobs = Vec::new();
    for workload in ["rocksdb-x4", "f2fs", LINUX, "mysql"] {
        // Of recycled segments it is enough to know what they do to vanilla and to objects.
        let count = if workload == LINUX { 5 } else { variants.len() };
        jobs.extend(variants[..count].iter().map(|variant| (workload, variant)));
    }
    let outcomes = bench.each(
        &jobs,
        |(workload, variant)| format!("{workload} {}", variant.name),
        |&(workload, variant)| {
            let mut config = drive(scale, variant.policy, Firmware::of(workload))?;
            (variant.change)(&mut config);
            match run(workload, &config, bench.options.seed, variant.host, bench.stop) {
                // A defect of the setting is a result to show, and no reason to lose the others.
                Err(Error::Stuck { at_ns, .. }) => Ok(Err(at_ns)),
                done => done.map(Ok),
            }
        },
    )?;
    let mut shown = Vec::new();
    let mut names = Vec::new();
    for ((workload, Variant { name, .. }), outcome) in jobs.iter().zip(outcomes) {
        match outcome {
            Ok(outcome) => {
                shown.push(outcome);
                names.push(*name);
            }
            Err(at_ns) => report.notes.push(format!(
                "{name} on {workload}: the drive came to a stand after {}: a defect of this setting",
                nandle_lab::units::time(at_ns as f64)
            )),
        }
    }
    let mut table = table("Settings beyond the paper", &shown);
    for (row, name) in table.rows.iter_mut().zip(names) {
        row[1] = name.into();
    }
    report.tables.push(table);
    Ok(())
}

/// One run a row.
fn table(title: &str, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        title,
        &[
            "workload",
            "policy",
            "drive writes",
            "WAF",
            "WAF late",
            "WAF end",
            "WAF as the firmware counts",
            "steady",
            "MB/s",
            "OPS MB/s",
            "TPS MB/s",
            "write us",
            "write 99% us",
            "write 99.9% us",
            "read us",
            "calls",
            "refused",
            "calls took s",
            "writes stood still s",
            "writes waited for buffer s",
            "moved",
            "demoted",
            "programs host",
            "programs gc",
            "programs merge",
        ],
    );
    for o in outcomes {
        let mut row: Vec<Cell> = vec![o.workload.into(), o.policy.into()];
        row.push((o.bytes() as f64 / o.logical as f64).into());
        row.extend([o.waf(), o.waf_of_last(0.5), o.waf_of_last(0.1), o.waf_of_firmware()].map(Cell::from));
        row.extend([if o.steady { "yes" } else { "no" }.into(), Cell::from(o.throughput() / 1e6)]);
        row.extend([DB_BENCH, TPC_C].map(|tenant| Cell::from(o.done(tenant) / 1e6)));
        let late = |share: f64| o.writes.percentile_ns(share) as f64;
        let latencies = [o.writes.mean_ns(), late(0.99), late(0.999), o.reads.mean_ns()];
        row.extend(latencies.map(|ns| Cell::from(ns / 1e3)));
        row.extend([o.calls.honoured, o.calls.refused].map(Cell::from));
        let waits = [o.calls.ns, o.waits.flash_ns, o.waits.buffer_ns];
        row.extend(waits.map(|ns| Cell::from(ns as f64 / 1e9)));
        row.extend([o.moved, o.demoted].map(Cell::from));
        let by = |cause: Cause| Cell::from(o.programs[cause as usize]);
        row.extend([by(Cause::Host), by(Cause::Gc), by(Cause::Merge)]);
        table.rows.push(row);
    }
    table
}

/// WAF and throughput of the moment in each tenth of the time (Figs 4 and 5).
fn tenths(title: &str, outcomes: &[Outcome]) -> Table {
    let mut columns = vec!["workload".to_owned(), "policy".into(), "what".into()];
    columns.extend((1..=10).map(|n| format!("{}%", n * 10)));
    let mut table = Table::new(title, &[]);
    table.columns = columns;
    for o in outcomes {
        for (what, figure) in o.moments() {
            let mut row: Vec<Cell> = vec![o.workload.into(), o.policy.into(), what.into()];
            row.extend(o.over_time(10, figure).into_iter().map(|(_, y)| Cell::Number(y)));
            row.resize(13, Cell::Number(None));
            table.rows.push(row);
        }
    }
    table
}

/// Points of a curve, at most.
const POINTS: usize = 40;

/// The same as charts: a workload's policies in one.
fn curves(note: &str, outcomes: &[Outcome]) -> Vec<Curves> {
    let points = |o: &Outcome, figure| {
        o.over_time(POINTS, figure).into_iter().filter_map(|(end, y)| Some((end, y?))).collect()
    };
    let mut charts = vec![];
    for own in outcomes.chunk_by(|a, b| a.workload == b.workload) {
        for (what, figure) in own[0].moments() {
            charts.push(Curves {
                title: format!("{}{note}: {what} of the moment", own[0].workload),
                x: "simulated seconds".into(),
                y: what.into(),
                series: own.iter().map(|o| (o.policy.to_owned(), points(o, figure))).collect(),
            });
        }
    }
    charts
}

/// One user of a run a row; threads of one kind of several instances together.
fn users_table(title: &str, outcomes: &[Outcome]) -> Table {
    let mut table = Table::new(
        title,
        &[
            "workload",
            "policy",
            "user",
            "write MB/s",
            "read MB/s",
            "write us",
            "write 99% us",
            "read us",
            "read 99% us",
            "flushes",
            "flush us",
        ],
    );
    for o in outcomes {
        let mut kinds: Vec<(&str, &str)> = o
            .users
            .iter()
            .filter_map(|u| Some((u.name.split_once(' ')?.0, u.name.rsplit_once(' ')?.1)))
            .filter(|(begin, _)| *begin != "thread")
            .collect();
        kinds.sort_unstable();
        kinds.dedup();
        for (begin, end) in kinds {
            let [writes, reads, flushes] = [Op::Write, Op::Read, Op::Flush].map(|op| o.of(begin, end, op));
            let mut row: Vec<Cell> =
                vec![o.workload.into(), o.policy.into(), format!("{begin} {end}").into()];
            row.extend([&writes, &reads].map(|l| Cell::from(o.rate(l.bytes) / 1e6)));
            for l in [&writes, &reads] {
                row.extend([l.mean_ns(), l.percentile_ns(0.99) as f64].map(|ns| Cell::from(ns / 1e3)));
            }
            row.extend([Cell::from(flushes.requests), (flushes.mean_ns() / 1e3).into()]);
            table.rows.push(row);
        }
    }
    table
}
