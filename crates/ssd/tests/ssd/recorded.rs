//! Goal: what the drive does stays as it is while its parts are rebuilt: what hosts see, each flash
//! operation, each counter, and what a power cut leaves, over all pairs of policies and settings.
//! Method: `recorded/list.txt` names a device (settings over `recorded/base.toml`) and a workload a
//! line; `recorded/digests.txt` keeps what a run of it came to. `RECORDED=write` renews the digests,
//! and `RECORDED=list` draws a new list. To compare two programs, `RECORDED="explain NAME"` (or the
//! number that the name begins with) prints every number of a line, `"trace NAME"` also every
//! completion and flash operation; with `-- --nocapture`.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;

use nandle_ssd::nand::Cause;
use nandle_ssd::schemes::fdp::Fdp;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Operation, Ssd, Status};

use crate::devices;

mod list;
mod workload;
use workload::{Host, Workload};

// ---- the drive's names: all that is read of it -------------------------------------------------

macro_rules! numbers {
    ($into:ident, $prefix:literal, $of:expr; $($field:ident)*) => {
        $( $into.push(concat!($prefix, ".", stringify!($field)), $of.$field.into()); )*
    };
}

/// What the drive has counted, and where everything is.
#[rustfmt::skip]
fn observe(ssd: &Ssd, into: &mut Numbers) {
    let (s, c) = (ssd.stats(), ssd.counters());
    into.all("requests", s.requests);
    into.all("bytes", s.bytes);
    numbers!(into, "stats", s; unaligned_writes across_page_requests partial_writes partial_updates
        unmapped_reads rejected host_sectors_programmed rmw_count rmw_ns buffer_hits buffer_misses
        evictions evicted_partial_pages partial_pages_sum buffer_wait_ns dram_accesses cache_hits
        cache_misses program_failures erase_failures unreadable_sectors checkpoint_pages
        checkpoints_dropped gc_invocations gc_moved_pages wear_moved_pages foreground_ns
        dedicated_demoted object_calls block_erases_by_trim trim_records);
    into.all("victim_valid", s.victim_valid);
    into.all("victim_valid_dedicated", s.victim_valid_dedicated);
    numbers!(into, "allocation", s.collection; emergency_gcs proactive_gcs unfinished_victims);
    let of_schemes = ["allocation.backup_csb", "allocation.backup_msb", "allocation.full_on_fast",
        "allocation.slow_survivors", "across.direct_writes", "across.profitable_merges",
        "across.unprofitable_merges", "across.rollbacks", "across.shrinks", "across.refused",
        "across.direct_reads", "across.merged_reads", "mrsm.split_regions", "mrsm.joined_regions",
        "mrsm.pieces_written", "mrsm.merged", "mrsm.packed_pages", "mrsm.refused",
        "mrsm.gc_packed", "multi_version.versions_written", "multi_version.merges_gc",
        "multi_version.merges_idle", "multi_version.merges_pressure", "multi_version.refused",
        "multi_version.compacted_pages", "multi_version.compacted_extents",
        "multi_version.max_extra_pages"];
    for name in of_schemes {
        into.push(name, ssd.scheme_counter(name).expect("a counter"));
    }
    into.all("streams.host", s.streams.iter().map(|stream| stream.host_sectors));
    into.all("streams.media", s.streams.iter().map(|stream| stream.media_sectors));
    // Parity came later: without it the numbers are those of before.
    let of_all = Cause::Parity as usize;
    into.all("reads", c.reads[..of_all].as_flattened().iter().copied());
    into.all("programs", c.programs[..of_all].as_flattened().iter().copied());
    if c.programs[of_all] != [0; 4] {
        into.all("parity", [c.reads[of_all], c.programs[of_all]].concat());
        into.push("rebuilt", c.rebuilt);
    }
    numbers!(into, "nand", c; erases suspensions multi_plane);
    let (dies, channels) = ssd.flash().busy_ns();
    into.all("busy.dies", dies);
    into.all("busy.channels", channels);
    into.all("mapping_bytes", <[u64; 2]>::from(ssd.mapping_bytes()));
    into.all("hold_up", <[u64; 2]>::from(ssd.hold_up()));
    let instances = ssd.objects();
    let mut objects: Vec<Vec<u64>> = instances.iter().map(|o| {
        let mut ranges = o.ranges.clone();
        ranges.sort_unstable();
        let ranges = ranges.iter().flat_map(|&(lsn, sectors)| [lsn, sectors]);
        ranges.chain([o.pages_left, o.blocks.into(), o.auto.into()]).collect()
    }).collect();
    objects.sort();
    into.all("objects", objects.concat());
    if let Some(fdp) = ssd.scheme::<Fdp>() {
        into.all("handles", fdp.handles(ssd.flash()).flat_map(|h| [h.available_pages, h.changes]));
        into.push("mixed_pages", ssd.flash().space().mixed_pages());
    }
    let found = ssd.inspect();
    into.push("wrong", found.findings.iter().map(|finding| finding.wrong).sum());
    into.all("sectors", [found.sectors.0, found.sectors.1, found.unreadable]);
    into.all("blocks", found.blocks);
    into.all("erases", [found.erases.0, found.erases.1].map(u64::from));
    into.push("read_only", found.read_only.into());
}

/// What powering on took.
fn observe_recovery(ssd: &Ssd, into: &mut Numbers) {
    let Some(report) = ssd.recovery() else { return };
    numbers!(into, "recovery", report; from_checkpoint blocks blocks_scanned oob_reads checkpoint_reads
        log_reads map_reads erases time_ns hold_up_ns map);
}

fn of_operation(o: &Operation) -> [u64; 6] {
    [o.kind as u64, o.cause as u64, o.ppn.0.into(), o.started, o.ended, o.request.map_or(0, |id| id + 1)]
}

#[rustfmt::skip]
fn of_status(status: Status) -> u64 {
    use Status::{MediaError, NoCleanBlocks, Ok, OutOfRange, Overlap, ReadOnly, TooManyRanges, Unsupported};
    let all = [Ok, OutOfRange, ReadOnly, Overlap, TooManyRanges, NoCleanBlocks, Unsupported, MediaError];
    all.iter().position(|s| *s == status).expect("all are here") as u64
}

// ---- a run -------------------------------------------------------------------------------------

/// Values with their names, in a fixed order.
#[derive(Default)]
struct Numbers(Vec<(String, u64)>);

impl Numbers {
    fn push(&mut self, label: &str, value: u64) {
        self.0.push((label.into(), value));
    }
    fn all(&mut self, label: &str, values: impl IntoIterator<Item = u64>) {
        for (n, value) in values.into_iter().enumerate() {
            self.push(&format!("{label}[{n}]"), value);
        }
    }
    fn digest(&self) -> Digest {
        let mut digest = Digest::default();
        digest.all(self.0.iter().map(|&(_, value)| value));
        digest
    }
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Digest(u64);

impl Digest {
    fn all(&mut self, values: impl IntoIterator<Item = u64>) {
        values.into_iter().for_each(|value| self.0 = nandle_random::mix(self.0.rotate_left(5) ^ value));
    }
    fn completion(&mut self, c: &Completion) {
        self.all([c.id, c.at, of_status(c.status), c.data.len() as u64, c.unreadable.len() as u64]);
        self.all(c.unreadable.iter().flat_map(|&(lsn, sectors)| [lsn, sectors]));
        self.bytes(&c.data);
    }
    fn bytes(&mut self, bytes: &[u8]) {
        self.all(bytes.chunks(8).map(|part| part.iter().fold(0, |sum, &byte| sum << 8 | u64::from(byte))));
    }
}

/// What a run came to.
#[derive(Default)]
struct Outcome {
    /// What the host saw, and would see.
    host: Digest,
    /// The flash operations, in the order of their ends.
    flash: Digest,
    /// Counters at the end.
    counters: Numbers,
    /// What power cuts left.
    cuts: Numbers,
}

impl Outcome {
    const COLUMNS: [&str; 4] = ["host", "flash", "counters", "cuts"];
    fn digests(&self) -> [String; 4] {
        [self.host, self.flash, self.counters.digest(), self.cuts.digest()]
            .map(|digest| format!("{:08x}", digest.0 >> 32))
    }
}

/// A drive under a workload, and who takes down what it does.
struct Bench {
    ssd: Ssd,
    done: Vec<Completion>,
    outcome: Outcome,
    /// Print what happens.
    aloud: bool,
}

impl Bench {
    fn new(config: &DeviceConfig, workload: &Workload, aloud: bool) -> Self {
        let mut ssd = Ssd::new(config, workload.unit, workload.seed).expect("a valid device");
        ssd.keep_operations(true);
        Self { ssd, done: vec![], outcome: Outcome::default(), aloud }
    }

    fn advance(&mut self, to: u64) {
        self.ssd.advance(to, &mut self.done);
        for completion in self.done.drain(..) {
            self.outcome.host.completion(&completion);
            if self.aloud {
                let Completion { id, at, status, unreadable, .. } = completion;
                println!("{at}: request {id} ends: {status:?}, unreadable: {unreadable:?}");
            }
        }
        for operation in self.ssd.take_operations() {
            self.outcome.flash.all(of_operation(&operation));
            if self.aloud {
                println!("{}: {operation:?}", operation.ended);
            }
        }
    }

    /// Lets the next thing happen; false if there is none.
    fn step(&mut self) -> bool {
        let next = self.ssd.next_event();
        next.into_iter().for_each(|at| self.advance(at));
        next.is_some()
    }

    fn cut_power(mut self, seed: u64) -> Self {
        self.ssd = self.ssd.power_cycle(seed).expect("a valid device");
        self.ssd.keep_operations(true);
        observe_recovery(&self.ssd, &mut self.outcome.cuts);
        self
    }

    fn fold_contents(&mut self) {
        let (data, unreadable) = self.ssd.contents(0, self.ssd.layout().logical_sectors);
        self.outcome.host.bytes(&data);
        self.outcome.host.all(unreadable.iter().flat_map(|&(lsn, sectors)| [lsn, sectors]));
        self.outcome.host.all([self.ssd.digest()]);
    }

    fn submit(&mut self, at: u64, id: u64, ask: &workload::Ask) {
        let mut data = ask.ranges.clone();
        if ask.op == Op::Write && self.ssd.unit() > 0 {
            data = (0..ask.sectors).flat_map(|n| nandle_random::mix(id << 20 ^ n).to_le_bytes()).collect();
        }
        let &workload::Ask { op, lsn, sectors, fua, stream, .. } = ask;
        self.ssd.submit(at, &Command { id, op, lsn, sectors, fua, stream, data: &data });
    }
}

fn run(config: &DeviceConfig, workload: &Workload, aloud: bool) -> Outcome {
    let mut bench = Bench::new(config, workload, aloud);
    let g = &config.geometry;
    let spp = u64::from(g.sectors_per_page());
    let sectors = bench.ssd.layout().logical_sectors;
    let mut host = Host::new(workload, sectors, spp, spp * u64::from(g.pages_per_block));
    let between_cuts = if workload.kind == "cuts" { workload.requests / 8 } else { u64::MAX };
    for id in 0..workload.requests {
        let at = bench.ssd.now() + host.pause();
        bench.advance(at);
        while !bench.ssd.accepts() && bench.step() {}
        let at = bench.ssd.now();
        bench.submit(at, id, &host.next());
        if id % 500 == 499 {
            bench.ssd.next_unit((id / 500 % 3) as u16);
        }
        if id % between_cuts == between_cuts - 1 {
            (0..id % 41).for_each(|_| _ = bench.step());
            bench = bench.cut_power(workload.seed);
        }
    }
    while bench.step() {}
    assert!(bench.ssd.outstanding() == 0, "{} requests are stuck", bench.ssd.outstanding());
    bench.ssd.check();
    observe(&bench.ssd, &mut bench.outcome.counters);
    bench.fold_contents();
    let mut bench = bench.cut_power(workload.seed);
    while bench.step() {}
    bench.ssd.check();
    observe(&bench.ssd, &mut bench.outcome.cuts);
    bench.fold_contents();
    bench.outcome
}

// ---- the list ----------------------------------------------------------------------------------

fn path(file: &str) -> String {
    format!("{}/tests/ssd/recorded/{file}", env!("CARGO_MANIFEST_DIR"))
}

fn read(file: &str) -> String {
    std::fs::read_to_string(path(file)).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The device that `settings` make of the base.
fn device(settings: &str) -> DeviceConfig {
    devices::made(include_str!("recorded/base.toml"), settings)
}

/// A line of the list.
struct Line {
    name: String,
    settings: String,
    workload: String,
}

impl Line {
    fn parse(text: &str) -> Self {
        let mut parts = text.split('|').map(|part| part.trim().to_owned());
        let mut part = || parts.next().unwrap_or_else(|| panic!("{text}: name | settings | workload"));
        Self { name: part(), settings: part(), workload: part() }
    }
    fn run(&self, aloud: bool) -> Outcome {
        run(&device(&self.settings), &Workload::parse(&self.workload), aloud)
    }
}

fn lines() -> Vec<Line> {
    read("list.txt").lines().filter(|line| !line.starts_with('#')).map(Line::parse).collect()
}

/// The digests of all lines, in their order; a run that panics has none.
fn run_all(lines: &[Line]) -> Vec<Option<[String; 4]>> {
    let results = Mutex::new(vec![None; lines.len()]);
    let queue = Mutex::new(lines.iter().enumerate());
    let work = || {
        while let Some((n, line)) = { queue.lock().expect("no panic holds it").next() } {
            let outcome = catch_unwind(AssertUnwindSafe(|| line.run(false).digests())).ok();
            results.lock().expect("no panic holds it")[n] = outcome;
        }
    };
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    std::thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(work))));
    results.into_inner().expect("no panic holds it")
}

#[test]
fn every_line_does_what_it_did() {
    let mode = std::env::var("RECORDED").unwrap_or_default();
    if mode == "list" {
        draw_list();
    }
    let lines = lines();
    if let Some((what @ ("explain" | "trace"), name)) = mode.split_once(' ') {
        return explain(&lines, name, what == "trace");
    }
    let results = run_all(&lines);
    if mode == "list" || mode == "write" {
        let digests = |(line, result): (&Line, &Option<[String; 4]>)| {
            let digests = result.as_ref().unwrap_or_else(|| panic!("{} panics", line.name));
            format!("{} {}\n", digests.join(" "), line.name)
        };
        let text: String = lines.iter().zip(&results).map(digests).collect();
        std::fs::write(path("digests.txt"), text).expect("the file can be written");
    }
    let kept = read("digests.txt");
    let kept: Vec<&str> = kept.lines().collect();
    assert_eq!(kept.len(), lines.len(), "digests.txt is not of this list");
    let mut moved = 0;
    for ((line, result), kept) in lines.iter().zip(&results).zip(kept) {
        let was: Vec<&str> = kept.splitn(5, ' ').collect();
        assert_eq!(was.last(), Some(&line.name.as_str()), "digests.txt is not of this list");
        let what = match result {
            None => "panics".into(),
            Some(now) => {
                let differs = (0..4).filter(|&n| was[n] != now[n]).map(|n| Outcome::COLUMNS[n]);
                differs.collect::<Vec<_>>().join(", ")
            }
        };
        if !what.is_empty() {
            moved += 1;
            println!("{}: {what}", line.name);
        }
    }
    assert_eq!(moved, 0, "of {} lines behave differently", lines.len());
}

#[test]
fn every_two_policies_meet() {
    let lines = lines();
    assert!(lines.len() >= 300, "{} lines", lines.len());
    let apart = list::policies_apart(lines.iter().map(|line| line.settings.as_str()));
    for two in apart {
        let refused = device(&format!("{two} cell.kind=tlc cell.program_order=relaxed op_ratio=2.0"));
        assert!(refused.validate().is_err(), "{two} may meet, and do not");
    }
}

/// Draws a new list of runs that come to an end; the others are named, and left out.
fn draw_list() {
    let text = list::draw();
    let drawn: Vec<(&str, Line)> = text.lines().map(|text| (text, Line::parse(text))).collect();
    let (texts, lines): (Vec<&str>, Vec<Line>) = drawn.into_iter().unzip();
    let results = run_all(&lines);
    let mut kept = String::from("# name | settings over base.toml | workload; drawn by RECORDED=list\n");
    for (text, result) in texts.iter().zip(results) {
        match result {
            Some(_) => kept += &format!("{text}\n"),
            None => println!("left out: {text}"),
        }
    }
    std::fs::write(path("list.txt"), kept).expect("the file can be written");
}

fn explain(lines: &[Line], name: &str, aloud: bool) {
    let named = |line: &&Line| line.name == name || line.name.split(' ').next() == Some(name);
    let named: Vec<&Line> = lines.iter().filter(named).collect();
    assert!(!named.is_empty(), "no line {name}");
    for line in named {
        println!("{} | {} | {}", line.name, line.settings, line.workload);
        let outcome = line.run(aloud);
        println!("host = {:016x}\nflash = {:016x}", outcome.host.0, outcome.flash.0);
        for (part, numbers) in [("counters", &outcome.counters), ("cuts", &outcome.cuts)] {
            numbers.0.iter().for_each(|(label, value)| println!("{part}: {label} = {value}"));
        }
    }
}
