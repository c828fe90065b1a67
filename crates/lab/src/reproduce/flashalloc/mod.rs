//! FlashAlloc (PVLDB 16(11), 2023), section 6: Figs 4, 5 and 6, Table 2.
//!
//! Each workload is replayed on the same drive under four stream policies: by-time
//! (vanilla), flashalloc, multi-stream(8) as the authors prototyped it, a block at a time, and, beyond the paper,
//! fdp(8); its users each in a closed loop of their own. WAF and throughput are those of the measured phase. A tenant's throughput is what its
//! users get done: db_bench's operations end in memtables, so the bytes that are flushed from these; TPC-C's
//! transactions dirty pages, so the bytes that InnoDB's page cleaner writes.

mod board;
pub mod calibration;
mod written;

use std::sync::atomic::AtomicBool;

use nandle_ssd::nand::Cause;
use nandle_ssd::schemes::Isolation;
use nandle_ssd::{DeviceConfig, Op, Ssd};
use nandle_trace::synthetic::{Target, User, named};
use nandle_trace::{Request, Source, Turn};

use self::board::{BY_TIME, FDP, FLASHALLOC, MULTI_STREAM};
pub use self::board::{Firmware, POLICIES, drive};
pub use self::written::Interval;
use self::written::{DB_BENCH, TPC_C, belongs, intervals, rate, waf};
use super::{Bench, Cell, Claim, Curves, Report, Rule, Table};
use crate::Error;
use crate::address::Address;
use crate::measure::{Calls, Latency, Served, Waits};
use crate::replay::{Progress, Replayer, Watch};

/// Who calls FlashAlloc.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Callers {
    /// Nobody.
    Nobody,
    /// All users.
    All,
    /// The users whose name begins so.
    Only(&'static str),
}

/// What the host does, and for how long.
#[derive(Clone, Copy, Debug)]
pub struct Host {
    /// Who calls FlashAlloc.
    pub callers: Callers,
    /// It trims what it deletes.
    pub trims: bool,
    /// fio runs for an hour; else it overwrites its files four times.
    pub hour: bool,
}

impl Host {
    /// Trims, and `callers` call.
    pub fn with(callers: Callers) -> Self {
        Self { callers, trims: true, hour: false }
    }
}

/// A user whose trims do not reach the drive.
struct WithoutTrims(Box<dyn Source>);

impl Source for WithoutTrims {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        let before = out.len();
        while out.len() == before {
            self.0.fill(out, max)?;
            let given = out.len();
            out.retain(|r| r.op != Op::Trim);
            if given == before {
                break;
            }
        }
        Ok(())
    }
    fn step(&mut self, now_ns: u64, out: &mut Vec<Request>) -> Result<Turn, nandle_trace::Error> {
        let turn = self.0.step(now_ns, out)?;
        out.retain(|r| r.op != Op::Trim);
        Ok(turn)
    }
}

/// What one workload did under one policy.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// Workload.
    pub workload: &'static str,
    /// Policy.
    pub policy: &'static str,
    /// Bytes of the logical drive.
    pub logical: u64,
    /// Bytes of a page.
    pub page_bytes: u64,
    /// Nanoseconds that the phase took.
    pub ns: u64,
    /// The device had come to rest at the end.
    pub steady: bool,
    /// What was written, in intervals of it.
    pub written: Vec<Interval>,
    /// What each user was served; none where there is only one.
    pub users: Vec<Served>,
    /// Writes and reads of all.
    pub writes: Latency,
    /// Reads of all.
    pub reads: Latency,
    /// FlashAlloc calls.
    pub calls: Calls,
    /// What the host's writes waited for.
    pub waits: Waits,
    /// Pages that collection moved.
    pub moved: u64,
    /// Blocks of objects that had to become normal.
    pub demoted: u64,
    /// Pages of the phase by cause: host, RMW, GC, merge, map, meta.
    pub programs: [u64; Cause::COUNT],
}

/// Points of a curve, at most.
const POINTS: usize = 40;

/// A figure of the moment, its name with its unit, and whose it is: all users', or a tenant's.
type Moment = (&'static str, fn(&[Interval]) -> f64, Option<(&'static str, &'static str)>);

const MOMENTS: [Moment; 4] = [
    ("WAF", waf, None),
    ("MB/s", |of| rate(of, |i| i.host), None),
    ("OPS MB/s", |of| rate(of, |i| i.done[0]), Some(DB_BENCH)),
    ("TPS MB/s", |of| rate(of, |i| i.done[1]), Some(TPC_C)),
];

impl Outcome {
    /// Bytes that the host wrote.
    pub fn bytes(&self) -> u64 {
        self.written.iter().map(|part| part.host).sum()
    }
    /// Write amplification of the phase.
    pub fn waf(&self) -> f64 {
        waf(&self.written)
    }
    /// Write amplification as the authors' firmware counts it: slices of the host before the buffer, and copies.
    fn waf_of_firmware(&self) -> f64 {
        let slices = self.bytes() as f64 / self.page_bytes as f64;
        1.0 + self.programs[Cause::Gc as usize] as f64 / slices
    }
    /// Write amplification of the last `share` of what the host wrote: of a half, when what was there before
    /// has had its turn; of a tenth, at the end.
    pub fn waf_of_last(&self, share: f64) -> f64 {
        let (mut sum, before) = (0, (self.bytes() as f64 * (1.0 - share)) as u64);
        let first = self.written.iter().take_while(|part| {
            sum += part.host;
            sum <= before
        });
        waf(&self.written[first.count()..])
    }
    /// Figures of the moment that it has.
    fn moments(&self) -> impl Iterator<Item = (&'static str, fn(&[Interval]) -> f64)> {
        let has = |tenant| self.users.iter().any(|u| belongs(u, tenant));
        MOMENTS.into_iter().filter(move |m| m.2.is_none_or(has)).map(|(what, figure, _)| (what, figure))
    }
    /// A figure of each of `n` parts of the time, if anything was written in it, and the seconds at which they end. The
    /// last interval may be cut short, and is left out.
    fn over_time(&self, n: usize, figure: fn(&[Interval]) -> f64) -> Vec<(f64, Option<f64>)> {
        let whole = &self.written[..self.written.len().saturating_sub(1)];
        let parts = whole.chunks(whole.len().div_ceil(n).max(1));
        let end = |part: &[Interval]| part.last().map_or(0, |i| i.from_ns + i.ns) as f64 / 1e9;
        parts.map(|part| (end(part), Some(figure(part)).filter(|y| y.is_finite()))).collect()
    }
    /// Bytes a second that the host wrote.
    pub fn throughput(&self) -> f64 {
        self.rate(self.bytes())
    }
    fn rate(&self, bytes: u64) -> f64 {
        bytes as f64 * 1e9 / self.ns as f64
    }
    fn of(&self, begin: &str, end: &str, op: Op) -> Latency {
        let mut sum = Latency::default();
        let own = |u: &&Served| belongs(u, (begin, end));
        self.users.iter().filter(own).for_each(|u| sum.add(&u.latency[op as usize]));
        sum
    }
    /// Bytes a second of what a tenant gets done.
    fn done(&self, (begin, end): (&str, &str)) -> f64 {
        self.rate(self.of(begin, end, Op::Write).bytes)
    }
    /// Bytes a second of what db_bench gets done, where it runs, or of all.
    fn operations(&self) -> f64 {
        if self.users.iter().any(|u| u.name.starts_with(DB_BENCH.0)) {
            self.done(DB_BENCH)
        } else {
            self.throughput()
        }
    }
}

/// How long the paper's fio runs, in nanoseconds (section 6, Fig 5).
const HOUR: u64 = 3_600_000_000_000;

/// Replays one workload on one drive. `stop` from outside ends it at once.
///
/// # Errors
/// If the drive or the workload cannot be had, or the drive stops.
pub fn run(
    workload: &'static str,
    config: &DeviceConfig,
    seed: u64,
    host: Host,
    stop: &AtomicBool,
) -> Result<Outcome, Error> {
    let ssd = Ssd::new(config, 0, seed).map_err(|e| Error::input(e.to_string()))?;
    let hour = host.hour && workload.starts_with("fio");
    let target = Target {
        logical_bytes: ssd.layout().logical_bytes,
        page_bytes: config.geometry.page_bytes,
        sector_bytes: config.geometry.sector_bytes,
        seed,
        requests: hour.then_some(1 << 40),
    };
    let address = Address::straight(config, ssd.layout().logical_sectors);
    let mut phases = named(workload, &target)?.phases;
    let last = phases.len() - 1;
    phases[last].stop_after_ns = hour.then_some(HOUR);
    // InnoDB trims its doublewrite buffer where it was changed to call FlashAlloc (section 5.1), and else not.
    let calls = config.scheme.has(FLASHALLOC) && host.callers != Callers::Nobody;
    let trims = |user: &str| host.trims && (calls || !user.starts_with(TPC_C.0));
    for phase in &mut phases {
        let as_told = |user: User| User {
            calls: match host.callers {
                Callers::Nobody => false,
                Callers::All => true,
                Callers::Only(tenant) => user.name.starts_with(tenant),
            },
            source: if trims(&user.name) { user.source } else { Box::new(WithoutTrims(user.source)) },
            ..user
        };
        phase.users = std::mem::take(&mut phase.users).into_iter().map(as_told).collect();
    }
    let mut silent = |_: &Progress| {};
    let mut replayer = Replayer::new(ssd, Watch { stop, progress: &mut silent });
    if !replayer.run(phases.into_iter().map(|phase| (phase, address.clone())).collect())? {
        return Err(Error::Interrupted);
    }
    let (ssd, meter) = (replayer.ssd, replayer.meter);
    let written = intervals(&meter, u64::from(config.geometry.page_bytes), last);
    let mut programs = [0; Cause::COUNT];
    for (cause, types) in ssd.counters().programs.iter().enumerate() {
        programs[cause] = types.iter().sum();
    }
    let steady = meter.steadiness(&ssd).steady;
    let [reads, writes, ..] = meter.latency;
    Ok(Outcome {
        workload,
        policy: POLICIES.into_iter().find(|&known| config.scheme.has(known)).unwrap_or(BY_TIME),
        logical: ssd.layout().logical_bytes,
        page_bytes: u64::from(config.geometry.page_bytes),
        ns: meter.ended_ns - meter.begun_ns,
        steady,
        written,
        users: meter.users,
        writes,
        reads,
        calls: meter.calls,
        waits: Waits::of(&ssd),
        moved: ssd.stats().gc_moved_pages,
        demoted: ssd.stats().dedicated_demoted,
        programs,
    })
}

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
            claims(&outcomes, &mut report.claims);
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
                crate::units::time(at_ns as f64)
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

const BEGINNING: &str = "the average has the beginning in it, when there was nothing to collect: the second half \
    is in the table";
const LAYOUT: &str = "the files are laid out without calls, as fio does it; their blocks are merged before the first \
    overwrites find clean ones: in the second half it is near 1 (table)";
const DIES: &str = "an object's pages go to one block, that is one die, while vanilla spreads a request over all of \
    them";
const FILLING: &str = "RocksDB's own rules stall its users late: many L0 files fill the volume before much of it was \
    overwritten, and collection has little to do";
const RANDOM: &str = "InnoDB's random page writes cost what they cost: it depends on how full the volume is at the end, \
    and on their skew, which the paper does not give";
const CLEANER: &str = "one segment of each log is written at a time, so few of them meet in a block, and RocksDB's stalls come \
    before much of the volume was overwritten; with recycled segments it is more (f2fs:ssr)";
const TWO_FIGURES: &str =
    "the abstract and section 6.3 differ; ours follows from the WAF of both, as the board's logs have it";
const COPIES: &str = "a tenant's part follows from how both share the time that copies leave: ours wait for requests, \
    the paper's for transactions";
const LESS: &str = "vanilla copies less here than in the paper, so there is less to gain; where there are several \
    dies, an object's block is on one of them";
const PARALLEL: &str = "in the authors' logs the multi-stream firmware, which ignores trims, copies on all dies at once, and \
    so does ours: it loses less to its copies than FlashAlloc's does";
const OPERATIONS: &str = "db_bench's operations end in RAM, ours are block requests; threads that write faster \
    also read faster, and queue";

/// The paper's numbers beside those of `outcomes`.
fn claims(outcomes: &[Outcome], claims: &mut Vec<Claim>) {
    let find =
        |workload: &str, policy| outcomes.iter().find(|o| o.workload == workload && o.policy == policy);
    let mut add = |id, place, what: &str, workload: &str, paper, ours, rule, why| {
        claims.push(Claim::new(id, place, what, workload, paper, ours, rule).because(why));
    };
    let (value, gain) = (Rule::Value(0.2), Rule::Ratio(0.2));
    // Fig 4 shows the WAF of the moment, and section 6.3 gives what it is at the end.
    let at_end = |o: &Outcome| o.waf_of_last(0.1);
    for (id, place, workload, paper, why) in [
        ("flashalloc-fio-8", "Fig 5a", "fio-2m-8", [3.1, 1.0, 2.0], [BEGINNING, LAYOUT, DIES]),
        ("flashalloc-fio-32", "Fig 5b", "fio-2m-32", [4.0, 1.0, 3.0], [BEGINNING, LAYOUT, DIES]),
        ("flashalloc-rocksdb-ext4", "Fig 4a", "rocksdb-x4", [2.6, 1.1, 2.7], [FILLING; 3]),
        ("flashalloc-f2fs", "Fig 4b", "f2fs", [3.5, 1.1, 1.8], [CLEANER, FILLING, LESS]),
    ] {
        let (Some(vanilla), Some(ours)) = (find(workload, BY_TIME), find(workload, FLASHALLOC)) else {
            continue;
        };
        let ratio = ours.operations() / vanilla.operations();
        let waf = |o: &Outcome| if workload.starts_with("fio") { o.waf() } else { at_end(o) };
        add(id, place, "WAF, vanilla", workload, paper[0], waf(vanilla), value, why[0]);
        add(id, place, "WAF, FlashAlloc", workload, paper[1], waf(ours), value, why[1]);
        add(id, place, "throughput ratio", workload, paper[2], ratio, gain, why[2]);
    }
    let alone = "mysql";
    if let (Some(vanilla), Some(ours)) = (find(alone, BY_TIME), find(alone, FLASHALLOC)) {
        let id = "flashalloc-mysql";
        let ratio = ours.done(TPC_C) / vanilla.done(TPC_C);
        add(id, "Fig 4c", "extra WAF, vanilla", alone, 1.2, at_end(vanilla) - 1.0, value, RANDOM);
        add(id, "Fig 4c", "extra WAF, FlashAlloc", alone, 0.8, at_end(ours) - 1.0, value, RANDOM);
        // The abstract has 1.2, section 6.3 a half more.
        add(id, "abstract", "throughput ratio", alone, 1.2, ratio, gain, TWO_FIGURES);
        add(id, "Fig 4c", "throughput ratio", alone, 1.5, ratio, gain, TWO_FIGURES);
    }
    let both = "rocksdb+mysql";
    if let (Some(vanilla), Some(ours)) = (find(both, BY_TIME), find(both, FLASHALLOC)) {
        let id = "flashalloc-multitenant";
        add(id, "Fig 4d", "WAF, vanilla", both, 2.5, at_end(vanilla), value, FILLING);
        add(id, "Fig 4d", "WAF, FlashAlloc", both, 1.6, at_end(ours), value, FILLING);
        for (what, paper, n, why) in
            [("TPC-C ratio", 1.9, TPC_C, COPIES), ("db_bench ratio", 1.3, DB_BENCH, COPIES)]
        {
            add(id, "Fig 4d", what, both, paper, ours.done(n) / vanilla.done(n), gain, why);
        }
        if let Some(streams) = find(both, MULTI_STREAM) {
            let id = "flashalloc-vs-multistream";
            for (what, paper, n, why) in
                [("TPC-C ratio", 1.7, TPC_C, PARALLEL), ("db_bench ratio", 1.4, DB_BENCH, PARALLEL)]
            {
                add(id, "Fig 6b", what, both, paper, ours.done(n) / streams.done(n), gain, why);
            }
        }
    }
    let four = "rocksdb-x4";
    if let (Some(vanilla), Some(ours)) = (find(four, BY_TIME), find(four, FLASHALLOC)) {
        let id = "flashalloc-latency";
        let ratio =
            |share: f64| ours.writes.percentile_ns(share) as f64 / vanilla.writes.percentile_ns(share) as f64;
        for (what, paper, ours, why) in [
            // Four threads without pause: the mean time of an operation is that of a memtable.
            ("mean operation", 0.673, vanilla.operations() / ours.operations(), FILLING),
            ("99% write (db_bench op)", 0.876, ratio(0.99), OPERATIONS),
            ("99.9% write (db_bench op)", 0.597, ratio(0.999), OPERATIONS),
            ("mean read", 0.543, ours.reads.mean_ns() / vanilla.reads.mean_ns(), OPERATIONS),
        ] {
            add(id, "Table 2", what, four, paper, ours, gain, why);
        }
    }
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
