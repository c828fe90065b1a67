//! Goal: whatever the instant at which the power goes, nothing that was promised is lost, and the
//! drive goes on.
//! Method: small devices of every scheme are driven event by event. At an event the power of a clone
//! is cut; it is powered on (from the checkpoint, and by a scan of everything: both must find the same
//! map), every sector is compared with the promise, and sometimes the power goes again: during each
//! erase of the recovery, or after some more traffic. By default the events are sampled; with
//! NANDLE_NIGHTLY=1 each one is a cut. `NANDLE_CRASH="device@event"` repeats one.

use std::sync::Mutex;

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::durability::RecoveryConfig;
use nandle_ssd::nand::{CellKind, FaultConfig, ProgramOrder, Silicon};
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};

use crate::devices;

/// Cut points that a plain run must come to in all, and per device.
const LEAST: u64 = 20_000;
const PER_DEVICE: u64 = 260;

/// Host, drive and judge.
#[derive(Clone)]
struct Bench {
    ssd: Ssd,
    oracle: Oracle,
    draw: Stream,
    id: u64,
    done: Vec<Completion>,
}

/// What all cuts of a device came to.
#[derive(Default)]
struct Tally {
    cuts: u64,
    from_checkpoint: u64,
    in_recovery: u64,
    again: u64,
    collections: u64,
    merges: u64,
    rollbacks: u64,
    checkpoint_pages: u64,
    objects: u64,
    failures: u64,
}

impl Bench {
    fn new(config: &DeviceConfig, name: &str) -> Self {
        let ssd = Ssd::new(config, UNIT, 7).expect("a valid device");
        let oracle = Oracle::of(&ssd);
        Self { ssd, oracle, draw: Stream::new(7, name), id: 0, done: vec![] }
    }

    fn request(&mut self) {
        let draw = &mut self.draw;
        let sectors = self.ssd.layout().logical_sectors;
        let spp = u64::from(self.ssd.config().geometry.sectors_per_page());
        let length = match draw.below(10) {
            0..=4 => 1 + draw.below(spp),
            5..=7 => spp,
            _ => 1 + draw.below(3 * spp),
        };
        let span = if draw.chance(0.5) { sectors / 8 } else { sectors };
        let lsn = draw.below(span.max(length + 1) - length);
        let lsn = if draw.chance(0.4) { lsn / spp * spp } else { lsn };
        let objects = self.ssd.knows_objects();
        let op = match draw.below(100) {
            0..=4 => Op::Read,
            5..=85 => Op::Write,
            86..=91 => Op::Trim,
            92..=94 if objects => Op::FlashAlloc,
            95..=96 if objects => Op::FlashFree,
            92..=96 => Op::Write,
            _ => Op::Flush,
        };
        let block = spp * u64::from(self.ssd.config().geometry.pages_per_block);
        let (lsn, length) = match op {
            Op::Flush => (0, 0),
            Op::FlashAlloc => (lsn / spp * spp, (block + draw.below(block)).min(sectors - lsn / spp * spp)),
            _ => (lsn, length),
        };
        let fua = op == Op::Write && draw.chance(0.1);
        let stream = draw.below(3) as u16;
        let data = if op == Op::Write { self.oracle.contents(lsn, length) } else { vec![] };
        let command = Command { id: self.id, op, lsn, sectors: length, fua, stream, data: &data };
        self.id += 1;
        self.oracle.submitted(&command);
        let now = self.ssd.now();
        self.ssd.submit(now, &command);
    }

    /// The next event; requests first if few are under way.
    fn step(&mut self) {
        let depth = 1 + self.draw.below(6) as u32;
        while self.ssd.outstanding() < depth {
            self.request();
        }
        self.event();
    }

    fn event(&mut self) {
        let next = self.ssd.next_event().expect("the device is stuck");
        self.ssd.advance(next, &mut self.done);
        let oracle = &mut self.oracle;
        self.done.drain(..).for_each(|completion| oracle.completed(&completion));
    }

    /// Powers on what a cut left, both ways, and compares every sector with the promise.
    fn power_on(&mut self, silicon: Silicon, tally: &mut Tally) {
        let config = self.ssd.config().clone();
        let scanned = Ssd::power_on_by_full_scan(&config, silicon.clone(), 7).expect("valid");
        self.ssd = Ssd::power_on(&config, silicon, 7).expect("valid");
        let report = self.ssd.recovery().expect("it was recovered").clone();
        let whole = scanned.recovery().expect("it was recovered");
        assert_eq!(report.map, whole.map, "the checkpoint says something else than the pages");
        assert!(report.blocks_scanned <= whole.blocks_scanned);
        let objects = |ssd: &Ssd| {
            // A drive that collects from the start may have merged pages of an object already.
            let at_work = ssd.counters().programs.iter().flatten().sum::<u64>() > 0;
            ssd.objects().into_iter().map(move |object| (at_work, object)).collect::<Vec<_>>()
        };
        let (ours, whole) = (objects(&self.ssd), objects(&scanned));
        assert_eq!(ours.len(), whole.len());
        for ((ours_works, ours), (whole_works, whole)) in ours.into_iter().zip(whole) {
            assert_eq!((&ours.ranges, ours.auto), (&whole.ranges, whole.auto));
            assert!(ours_works || whole_works || ours == whole, "{ours:?}, by a scan {whole:?}");
        }
        self.ssd.check();
        let (contents, gone) = self.ssd.contents(0, self.ssd.layout().logical_sectors);
        self.oracle.power_cut(&contents, &gone);
        assert_eq!(self.oracle.verdict(), Ok(()));
        tally.cuts += 1;
        tally.from_checkpoint += u64::from(report.from_checkpoint);
    }

    /// Cuts the power here.
    fn cut(mut self, number: u64, tally: &mut Tally) {
        let config = self.ssd.config().clone();
        let silicon = self.ssd.clone().cut_power();
        if number.is_multiple_of(7) {
            // The power goes during the first erase of the recovery, during the second...
            for erases in 0.. {
                let halfway = Ssd::interrupt_power_on(&config, &silicon, 7, erases).expect("valid");
                let Some(halfway) = halfway else { break };
                self.clone().power_on(halfway, tally);
                tally.in_recovery += 1;
            }
        }
        self.power_on(silicon, tally);
        if number.is_multiple_of(5) {
            // On, and off again in the middle of whatever the recovered drive does.
            let steps = 1 + self.draw.below(if number.is_multiple_of(25) { 200 } else { 12 });
            (0..steps).for_each(|_| self.step());
            let silicon = self.ssd.clone().cut_power();
            self.power_on(silicon, tally);
            tally.again += 1;
        }
    }
}

/// Devices that other tests do not have.
fn more_devices() -> Vec<(&'static str, DeviceConfig)> {
    let with = |f: &dyn Fn(&mut DeviceConfig)| {
        let mut c = devices::base();
        c.op_ratio = 0.9;
        f(&mut c);
        c
    };
    let streams = |policy: &str| {
        with(&|c| {
            c.scheme.streams = policy.into();
            c.streams.count = 2;
            c.op_ratio = 1.2;
        })
    };
    let protected = RecoveryConfig { plp: true, ..RecoveryConfig::default() };
    vec![
        ("flashalloc", streams("flashalloc")),
        ("multi-stream", streams("multi-stream")),
        ("fdp", streams("fdp")),
        (
            "protected, buffer",
            with(&|c| {
                c.recovery = protected.clone();
                c.buffer.bytes = 32 << 10;
            }),
        ),
        (
            "protected, paired pages, TLC",
            with(&|c| {
                c.recovery = protected.clone();
                c.cell.kind = CellKind::Tlc;
                c.cell.program_order = ProgramOrder::Relaxed;
                c.cell.paired_pages = true;
                c.buffer.bytes = 16 << 10;
            }),
        ),
        (
            "programs and erases fail",
            with(&|c| {
                c.faults = FaultConfig { program_rate: 5e-3, erase_rate: 1e-3, ..FaultConfig::default() };
                c.geometry.blocks_per_plane = 32;
                c.op_ratio = 2.0;
            }),
        ),
        (
            "programs and reads fail, mrsm, tiny mapping cache",
            with(&|c| {
                c.faults = FaultConfig { program_rate: 5e-3, read_rate: 2e-3, ..FaultConfig::default() };
                c.scheme.mapping = "mrsm".into();
                c.geometry.blocks_per_plane = 32;
                c.map_cache.bytes = 8192;
                c.op_ratio = 2.0;
            }),
        ),
    ]
}

/// Every device with checkpoints so often that rounds follow each other within a run.
fn all_devices() -> Vec<(&'static str, DeviceConfig)> {
    let mut all = devices::small_devices();
    all.extend(more_devices());
    for (n, (_, config)) in all.iter_mut().enumerate() {
        config.recovery.checkpoint_interval = [16, 24, 40, 64][n % 4];
    }
    all
}

fn enumerate(name: &str, config: &DeviceConfig, nightly: bool) -> Tally {
    let only = std::env::var("NANDLE_CRASH").ok();
    let only = only.as_deref().and_then(|text| text.rsplit_once('@'));
    let mut tally = Tally::default();
    let mut bench = Bench::new(config, name);
    if only.is_some_and(|(device, _)| device != name) {
        return tally;
    }
    // Until garbage is collected all the time.
    let pages = config.geometry.pages();
    while bench.ssd.counters().programs.iter().flatten().sum::<u64>() < pages + pages / 2 {
        bench.step();
    }
    bench.ssd.reset_counters();
    let events = 4_800;
    for event in 0..events {
        bench.step();
        let asked = match only {
            Some((_, at)) => at.parse() == Ok(event),
            // Neighbouring events differ most in what they leave half-done: runs of them, not a comb.
            None => nightly || event / 20 % 10 == 0,
        };
        if asked && (nightly || only.is_some() || tally.cuts < PER_DEVICE) {
            let clone = bench.clone();
            let result = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                clone.cut(event, &mut tally);
            }));
            if let Err(panic) = result {
                println!("NANDLE_CRASH=\"{name}@{event}\" cargo test --test drive crash::");
                std::panic::resume_unwind(panic);
            }
        }
    }
    while bench.ssd.outstanding() > 0 {
        bench.event();
    }
    bench.oracle.at_rest();
    assert_eq!(bench.oracle.verdict(), Ok(()), "{name}");
    let stats = bench.ssd.stats();
    let counter = |name| bench.ssd.scheme_counter(name).expect("a scheme counts it");
    tally.collections = stats.gc_invocations;
    tally.merges = counter("multi_version.merges_gc") + counter("multi_version.merges_pressure");
    tally.rollbacks = counter("across.rollbacks");
    tally.checkpoint_pages = stats.checkpoint_pages;
    tally.objects = stats.object_calls;
    tally.failures = stats.program_failures;
    println!(
        "{name}: {} cuts, {} from a checkpoint, {} during recovery, {} again; {} collections, {} checkpoint pages",
        tally.cuts,
        tally.from_checkpoint,
        tally.in_recovery,
        tally.again,
        tally.collections,
        tally.checkpoint_pages
    );
    if only.is_none() {
        assert!(tally.collections > 20, "{name}: hardly any garbage collection");
        assert!(tally.checkpoint_pages > 5, "{name}: hardly any checkpoints");
    }
    tally
}

#[test]
fn every_event_keeps_the_promise() {
    let nightly = std::env::var_os("NANDLE_NIGHTLY").is_some_and(|v| v == "1");
    let devices = Mutex::new(all_devices().into_iter());
    let tallies = Mutex::new(vec![]);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                loop {
                    let Some((name, config)) = devices.lock().expect("no panic yet").next() else { return };
                    let tally = enumerate(name, &config, nightly);
                    tallies.lock().expect("no panic yet").push(tally);
                }
            });
        }
    });
    let tallies = tallies.into_inner().expect("no panic");
    let sum = |of: fn(&Tally) -> u64| tallies.iter().map(of).sum::<u64>();
    println!("{} cuts in all", sum(|t| t.cuts));
    if std::env::var_os("NANDLE_CRASH").is_none() {
        assert!(sum(|t| t.cuts) >= LEAST, "only {} cuts", sum(|t| t.cuts));
        assert!(sum(|t| t.from_checkpoint) * 4 > sum(|t| t.cuts), "recovery hardly uses checkpoints");
        assert!(sum(|t| t.in_recovery) > 100 && sum(|t| t.again) > 500);
        assert!(sum(|t| t.merges) > 50 && sum(|t| t.rollbacks) > 50, "merges and rollbacks");
        assert!(sum(|t| t.objects) > 10, "{} objects", sum(|t| t.objects));
        assert!(sum(|t| t.failures) > 5, "{} failures", sum(|t| t.failures));
    }
}
