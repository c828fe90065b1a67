//! Goal: a drive without clocks does what the same drive does with them: the same write amplification, to half a percent,
//! where no policy looks at time; and it says what the others take for granted.
//! Method: the same requests to both, as many at a time as the queue takes: random pages, parts of pages, a hot and a cold
//! part, streams, trims. Counters that follow from the requests alone are equal.

use std::collections::BTreeMap;

use nandle_random::Stream;
use nandle_ssd::collect::victim::VictimKind;
use nandle_ssd::nand::{Cause, CellKind, ProgramOrder};
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};

use crate::devices;

/// 256 MiB of 4 KiB pages in eight planes.
fn drive() -> DeviceConfig {
    let mut c = devices::base();
    c.geometry.channels = 2;
    c.geometry.chips_per_channel = 2;
    c.geometry.dies_per_chip = 1;
    c.geometry.planes_per_die = 2;
    // Small blocks: while time goes on, the host kills some pages of a victim before they are copied.
    c.geometry.blocks_per_plane = 256;
    c.geometry.pages_per_block = 32;
    c.geometry.page_bytes = 4096;
    c.geometry.sector_bytes = 512;
    c.op_ratio = 0.2;
    c
}

/// What the host does after a sequential fill: kind, first sector, sectors, stream.
type Draw = fn(&mut Stream, u64) -> (Op, u64, u64, u16);

fn pages(draw: &mut Stream, sectors: u64) -> (Op, u64, u64, u16) {
    (Op::Write, draw.below(sectors / 8) * 8, 8, 0)
}

fn hot_and_cold(draw: &mut Stream, sectors: u64) -> (Op, u64, u64, u16) {
    let hot = draw.chance(0.8);
    let pages = sectors / 8;
    let page = if hot { draw.below(pages / 5) } else { pages / 5 + draw.below(pages - pages / 5) };
    (Op::Write, page * 8, 8, u16::from(hot))
}

fn parts(draw: &mut Stream, sectors: u64) -> (Op, u64, u64, u16) {
    let length = 1 + draw.below(16);
    let op = match draw.below(20) {
        0 => Op::Trim,
        1..=5 => Op::Read,
        _ => Op::Write,
    };
    (op, draw.below(sectors - length), length, 0)
}

/// Fills the drive, then writes it over as `draw` says; what counts are the last three times.
fn run(config: &DeviceConfig, draw: Draw) -> Ssd {
    let mut ssd = Ssd::new(config, 0, 1).expect("a valid device");
    let sectors = ssd.layout().logical_sectors;
    let mut stream = Stream::new(7, "untimed");
    let mut done: Vec<Completion> = Vec::new();
    let fill = sectors / 8;
    let requests = 5 * fill;
    for id in 0..requests {
        while ssd.outstanding() >= 16 {
            let next = ssd.next_event().expect("the device is stuck");
            ssd.advance(next, &mut done);
        }
        done.clear();
        let (op, lsn, sectors, stream) =
            if id < fill { (Op::Write, id * 8, 8, 0) } else { draw(&mut stream, sectors) };
        if id == 2 * fill {
            ssd.reset_counters();
        }
        ssd.submit(ssd.now(), &Command { id, op, lsn, sectors, fua: false, stream, data: &[] });
    }
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    assert_eq!(ssd.outstanding(), 0);
    ssd.check();
    ssd
}

fn programs(ssd: &Ssd) -> u64 {
    ssd.counters().programs.iter().flatten().sum()
}

fn with(f: impl Fn(&mut DeviceConfig)) -> DeviceConfig {
    let mut c = drive();
    f(&mut c);
    c
}

#[test]
fn write_amplification_is_that_of_the_timed_drive() {
    let cases: [(&str, DeviceConfig, Draw); 8] = [
        ("page mapping, uniform", drive(), pages),
        ("page mapping, hot and cold", drive(), hot_and_cold),
        ("page mapping, parts of pages, trims, buffer", with(|c| c.buffer.bytes = 1 << 20), parts),
        ("d-choices", with(|c| c.gc.victim = VictimKind::DChoices), pages),
        ("fifo, wear levelling", with(|c| (c.gc.victim, c.wear.static_gap) = (VictimKind::Fifo, 8)), pages),
        (
            "two streams",
            with(|c| {
                c.scheme.streams = "multi-stream".into();
                c.streams.count = 2;
            }),
            hot_and_cold,
        ),
        (
            "across, buffer",
            with(|c| {
                c.scheme.mapping = "across".into();
                c.buffer.bytes = 1 << 20;
                c.op_ratio = 0.4;
            }),
            parts,
        ),
        (
            "lsb-first, TLC, tiny mapping cache",
            with(|c| {
                c.cell.kind = CellKind::Tlc;
                c.cell.program_order = ProgramOrder::Relaxed;
                c.scheme.allocation = "lsb-first".into();
                c.map_cache.bytes = 32 << 10;
                c.op_ratio = 0.4;
            }),
            pages,
        ),
    ];
    for (name, config, draw) in cases {
        let mut without = config.clone();
        without.timing.untimed = true;
        let (timed, untimed) = (run(&config, draw), run(&without, draw));
        let ratio = programs(&untimed) as f64 / programs(&timed) as f64;
        println!(
            "{name}: {} and {} programs, {:+.2}%",
            programs(&timed),
            programs(&untimed),
            (ratio - 1.0) * 100.0
        );
        assert!((ratio - 1.0).abs() < 0.005, "{name}: {ratio}");
        assert!(untimed.counters().programs[Cause::Gc as usize].iter().sum::<u64>() > 10_000, "{name}");
        let (a, b) = (timed.stats(), untimed.stats());
        assert_eq!((a.requests, a.bytes, a.rejected), (b.requests, b.bytes, b.rejected), "{name}");
        assert_eq!(a.unaligned_writes, b.unaligned_writes, "{name}");
        assert_eq!(timed.without_time(), Vec::<&str>::new());
        assert_eq!(untimed.without_time().len(), 1, "{name} looks at time: {:?}", untimed.without_time());
    }
}

#[test]
fn policies_that_look_at_time_say_what_they_take_for_granted() {
    type Set = fn(&mut DeviceConfig);
    let looks: BTreeMap<&str, Set> = BTreeMap::from([
        ("dynamic striping", (|c: &mut DeviceConfig| c.scheme.striping = "dynamic".into()) as Set),
        ("cost-benefit", |c| c.gc.victim = VictimKind::CostBenefit),
        ("PC-LRU", |c| c.scheme.buffer = "pc-lru".into()),
        ("MCA", |c| c.scheme.buffer = "mca".into()),
        ("cleaning ahead", |c| c.buffer.clean_ahead = true),
        ("the SLC cache", |c| (c.cell.kind, c.slc.dynamic_share) = (CellKind::Tlc, 0.2)),
        ("WAFLASH", |c| c.scheme.mapping = "multi-version".into()),
    ]);
    for (what, set) in looks {
        let mut config = with(|c| (c.buffer.bytes, c.timing.untimed, c.op_ratio) = (1 << 20, true, 0.6));
        set(&mut config);
        let said = Ssd::new(&config, 0, 1).expect("a valid device").without_time();
        assert!(said.len() == 2 && said[1].starts_with(what), "{what}: {said:?}");
    }
}

#[test]
fn nothing_takes_time() {
    let mut config = with(|c| c.timing.dram_ns = 5_000);
    config.link.command_ns = 3_000;
    config.controller.cores = 2;
    config.timing.untimed = true;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    let mut done = Vec::new();
    for id in 0..1000 {
        let at = id * 1_000_000;
        ssd.advance(at, &mut done);
        ssd.submit(
            at,
            &Command { id, op: Op::Write, lsn: id * 8, sectors: 8, fua: false, stream: 0, data: &[] },
        );
    }
    ssd.advance(1_000_000_000, &mut done);
    assert!(done.iter().all(|completion| completion.at == completion.id * 1_000_000 + 1), "{:?}", done[0]);
    assert_eq!(done.len(), 1000);
    assert!(ssd.flash().busy_ns().0.iter().all(|&ns| ns == 0));
}
