//! Goal: a drive of one plane and a few blocks answers every request: collection, wear levelling and the
//! metadata log leave each other the pages that they need.
//! Method: devices are drawn, with no more spare than they need; random requests are put to them, and each has
//! to be answered within a span of simulated time. What does not end is named with its number.

use nandle_random::Stream;
use nandle_ssd::collect::victim::VictimKind;
use nandle_ssd::nand::{CellKind, ProgramOrder, Scheduler, Suspend};
use nandle_ssd::schemes::Seam;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};

use crate::devices;

/// Events, and nanoseconds, within which some request is answered.
const MANY: u32 = 60_000;
const LONG: u64 = 100_000_000_000;

fn any<T: Copy>(of: &[T], draw: &mut Stream) -> T {
    of[draw.below(of.len() as u64) as usize]
}

/// What wear levelling and the log need is scarcest where nothing else has blocks: half of all devices have
/// no schemes.
fn device(number: u64) -> Option<DeviceConfig> {
    let draw = &mut Stream::new(number, "device");
    let mut c = devices::base();
    let sectors = any(&[1, 2, 4, 8], draw);
    (c.geometry.channels, c.geometry.planes_per_die) = (1, 1);
    c.geometry.page_bytes = 512 * sectors;
    c.geometry.pages_per_block = 2 + draw.below(5) as u32;
    c.geometry.blocks_per_plane = 6 + draw.below(10) as u32;
    c.gc.victim = any(VictimKind::ALL, draw).0;
    c.gc.copies_in_flight = 1 + draw.below(4) as u32;
    c.wear.static_gap = any(&[0, 1, 1, 2], draw);
    c.map_cache.bytes = if draw.chance(0.3) { 2 * u64::from(c.geometry.page_bytes) } else { 0 };
    c.recovery.checkpoint_interval = any(&[0, 0, 3, 20], draw);
    c.recovery.plp = draw.chance(0.2);
    c.timing.scheduler =
        any(&[Scheduler::Fifo, Scheduler::ReadFirst, Scheduler::HostOverGc, Scheduler::Priority], draw);
    c.timing.suspend = any(&[Suspend::None, Suspend::Erase, Suspend::ProgramErase], draw);
    if draw.chance(0.5) {
        schemes(&mut c, draw);
    }
    // As full as the device may be: the error names the least spare that works.
    c.op_ratio = 0.0;
    for _ in 0..6 {
        let Err(e) = c.validate() else { return Some(c) };
        let least = e.expected.strip_prefix("at least ").and_then(|rest| rest.split(':').next());
        match least.and_then(|least| least.parse().ok()).filter(|_| e.field == "op_ratio") {
            Some(least) => c.op_ratio = least,
            None => c.geometry.blocks_per_plane += 2,
        }
    }
    None
}

fn schemes(c: &mut DeviceConfig, draw: &mut Stream) {
    let named = |seam: Seam, draw: &mut Stream| any(&devices::policies(seam), draw).to_owned();
    c.cell.kind = any(&[CellKind::Slc, CellKind::Mlc, CellKind::Tlc, CellKind::Qlc], draw);
    if draw.chance(0.5) {
        c.cell.program_order = ProgramOrder::Relaxed;
        if c.cell.kind != CellKind::Slc {
            c.scheme.allocation = named(Seam::Allocation, draw);
        }
    }
    c.buffer.bytes = any(&[0, 0, 1, 3, 9], draw) * u64::from(c.geometry.page_bytes);
    if c.buffer.bytes > 0 {
        c.scheme.buffer = named(Seam::Buffer, draw);
        c.scheme.compaction = draw.chance(0.3);
    }
    if c.geometry.sectors_per_page() > 1 && draw.chance(0.5) {
        let mut mappings = devices::mappings();
        mappings.retain(|mapping| mapping == "mrsm" || !mapping.contains("mrsm"));
        c.scheme.mapping = mappings.swap_remove(draw.below(mappings.len() as u64) as usize);
        c.scheme.compaction &= c.scheme.mapping != "mrsm";
        (c.scheme.mrsm.region_pages, c.scheme.mrsm.switch_after) = (20, 2);
    }
    c.scheme.striping = any(&["CWDP", "CWDP", "dynamic", "block-by-block"], draw).into();
    c.scheme.streams = named(Seam::Streams, draw);
    c.streams.count = 1 + draw.below(3) as u32;
    (c.streams.on_demand, c.streams.collect_ended) = (draw.chance(0.5), draw.chance(0.5));
    c.streams.share_tiny = draw.chance(0.3);
    c.streams.auto_align = if draw.chance(0.2) { 4 * u64::from(c.geometry.page_bytes) } else { 0 };
}

/// The next request: first every page once, then anything, mostly to a quarter of the sectors.
fn request(id: u64, logical: u64, page: u64, objects: bool, trims: u64, draw: &mut Stream) -> (Op, u64, u64) {
    if id < logical / page {
        return (Op::Write, id * page, page);
    }
    let op = match draw.below(40) {
        0 => Op::Flush,
        1 if objects => Op::FlashAlloc,
        2 if objects => Op::FlashFree,
        3..=5 => Op::Read,
        n if n < 6 + trims => Op::Trim,
        _ => Op::Write,
    };
    let sectors = (1 + draw.below(3 * page)).min(logical);
    let most = if draw.chance(0.7) { logical / 4 + 1 } else { logical };
    let lsn = draw.below(most).min(logical - sectors);
    match op {
        Op::Flush => (op, 0, 0),
        _ if draw.chance(0.5) => (op, lsn / page * page, page),
        _ => (op, lsn, sectors),
    }
}

fn run(config: &DeviceConfig, number: u64) -> Result<(), String> {
    let mut ssd = Ssd::new(config, 0, number).expect("a valid device");
    let draw = &mut Stream::new(number, "requests");
    let (logical, page) = (ssd.layout().logical_sectors, u64::from(config.geometry.sectors_per_page()));
    let (objects, trims) = (ssd.knows_objects(), any(&[0, 1, 4, 12], draw));
    let (requests, depth) = (2 * logical / page + 400, 1 + draw.below(8));
    let mut done: Vec<Completion> = vec![];
    let (mut id, mut answered) = (0, 0);
    let (mut events, mut since) = (0, 0);
    while answered < requests {
        while id < requests && id - answered < depth {
            let (op, lsn, sectors) = request(id, logical, page, objects, trims, draw);
            let (fua, stream) = (draw.chance(0.05), (id % 5) as u16);
            let command = Command { id, op, lsn, sectors, fua, stream, data: &[] };
            ssd.submit(ssd.now(), &command);
            id += 1;
            if draw.chance(0.3) {
                break;
            }
        }
        let Some(next) = ssd.next_event() else {
            return Err(format!("of {id} requests {} wait for nothing", id - answered));
        };
        ssd.advance(next, &mut done);
        events += 1;
        if !done.is_empty() {
            answered += done.drain(..).count() as u64;
            (events, since) = (0, ssd.now());
        }
        if events > MANY || ssd.now() > since + LONG {
            return Err(format!("of {id} requests {} have waited {} ns", id - answered, ssd.now() - since));
        }
    }
    for _ in 0..MANY {
        let Some(next) = ssd.next_event() else { return Ok(()) };
        ssd.advance(next, &mut done);
    }
    Err("never at rest".into())
}

#[test]
fn every_request_is_answered() {
    let mut ran = 0;
    let mut wrong = 0;
    // Among these are devices on which each rule of `log_place`, `level` and `fills_a_plane` is what lets them go on.
    for number in (0..2_000).chain(9_000..11_000).chain(27_000..29_000) {
        let Some(config) = device(number) else { continue };
        ran += 1;
        if let Err(said) = run(&config, number) {
            wrong += 1;
            println!("{number}: {said}: {config:?}\n");
        }
    }
    assert!(ran > 5_500, "{ran} devices stand");
    assert_eq!(wrong, 0, "of {ran} devices");
}
