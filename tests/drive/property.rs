//! Goal: no sequence of requests on any small device returns anything but the last write, survives
//! a power cut with anything older than what was flushed, or leaves map and blocks in disagreement.
//! Method: proptest draws device and requests, and shrinks what fails to the shortest sequence.

use std::sync::atomic::{AtomicU64, Ordering};

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_ssd::buffer::{BufferConfig, FifoEvict, FifoReads, Release};
use nandle_ssd::collect::SurvivorsKind;
use nandle_ssd::collect::victim::VictimKind;
use nandle_ssd::config::QueueOrder;
use nandle_ssd::controller::{Assign, ControllerConfig};
use nandle_ssd::link::LinkConfig;
use nandle_ssd::nand::{CellKind, ProgramOrder, ReadRetry, Scheduler, Suspend};
use nandle_ssd::schemes::Seam;
use nandle_ssd::schemes::mrsm::MrsmConfig;
use nandle_ssd::schemes::pc_lru::Insert;
use nandle_ssd::schemes::waflash::{MultiVersionConfig, PointerKind};
use nandle_ssd::space::{Fold, PacingKind, SlcConfig};
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd, Status};
use proptest::prelude::*;

use crate::devices;

#[derive(Clone, Debug)]
enum Step {
    /// Kind, place and length as fractions of the device and of four pages, FUA.
    Request(Op, u16, u16, bool),
    /// Let this many events happen.
    Events(u8),
    /// Let time pass.
    Wait(u32),
    Cut,
}

fn step() -> impl Strategy<Value = Step> {
    let op = prop_oneof![
        3 => Just(Op::Read),
        9 => Just(Op::Write),
        2 => Just(Op::Trim),
        1 => Just(Op::Flush),
        1 => Just(Op::FlashAlloc),
        1 => Just(Op::FlashFree),
    ];
    prop_oneof![
        20 => (op, any::<u16>(), any::<u16>(), prop::bool::weighted(0.1)).prop_map(|(o, p, l, f)| Step::Request(o, p, l, f)),
        6 => any::<u8>().prop_map(Step::Events),
        2 => (0..3_000_000_u32).prop_map(Step::Wait),
        1 => Just(Step::Cut),
    ]
}

prop_compose! {
    fn multi_version()(
        max_versions in 2..4_u32, direct in any::<bool>(), gc_merge in 0..4_u32,
        version_budget in prop::sample::select(vec![0.3, 1.0]),
        idle_merge_after_ns in prop::sample::select(vec![0_u64, 100_000]),
    ) -> MultiVersionConfig {
        let pointer = if direct { PointerKind::Direct } else { PointerKind::Indirect };
        MultiVersionConfig { max_versions, pointer, version_budget, table_share: 1.0, idle_merge_after_ns, gc_merge }
    }
}

/// The sums that stand: MRSM packs parts of pages by itself.
fn mappings() -> Vec<String> {
    let mut all = devices::mappings();
    all.retain(|mapping| mapping == "mrsm" || !mapping.contains("mrsm"));
    all
}

prop_compose! {
    /// Link, controller, hand-over, cleaning ahead, decoder and repeated reads.
    fn machine()(
        link in prop::option::of((prop::sample::select(vec![0.0, 20.0, 2000.0]), 0..20_000_u64)),
        cores in 0..4_u32, costs in prop::array::uniform4(prop::sample::select(vec![0_u64, 700, 40_000])),
        blocking in any::<bool>(), by_die in any::<bool>(), priority in any::<bool>(),
        handover in any::<bool>(), ahead in any::<bool>(),
        ecc_ns in prop::sample::select(vec![0_u64, 3_000, 500_000]), independent in any::<bool>(), share in prop::sample::select(vec![0.0, 0.4]),
    ) -> DeviceConfig {
        let mut c = devices::base();
        if let Some((mb_s, command_ns)) = link {
            c.link = LinkConfig { mb_s, command_ns };
        }
        if cores > 0 {
            let [command_ns, unit_ns, copy_ns, operation_ns] = costs;
            let assign = if by_die { Assign::ByDie } else { Assign::Earliest };
            c.controller = ControllerConfig {
                cores,
                command_ns,
                unit_ns,
                copy_ns,
                operation_ns,
                blocking_rmw: blocking,
                assign,
                priority,
            };
        }
        c.buffer.release = if handover { Release::Handover } else { Release::Program };
        c.buffer.clean_ahead = ahead;
        c.timing.ecc_ns = ecc_ns;
        c.timing.independent_plane_reads = independent;
        if share > 0.0 {
            let share = vec![share];
            c.timing.read_retry = Some(ReadRetry { share, share_per_1000_erases: 0.1, ns: 20_000, most: 4 });
        }
        c
    }
}

prop_compose! {
    fn device()(
        planes in 1..3_u32, dies in 1..3_u32, sectors in prop::sample::select(vec![1_u32, 2, 4, 8, 13, 64]),
        pages in 3..9_u32, blocks in 10..14_u32,
        cell in prop::sample::select(vec![CellKind::Slc, CellKind::Mlc, CellKind::Tlc, CellKind::Qlc]),
        relaxed in any::<bool>(), policy in prop::sample::select(devices::policies(Seam::Allocation)),
        buffer in prop::sample::select(vec![0_u64, 1, 3, 9]),
        kind in prop::sample::select(devices::policies(Seam::Buffer)),
        insert in prop::sample::select(vec![Insert::Stay, Insert::Head, Insert::At(3)]),
        multi_version in prop::option::of(multi_version()), compaction in any::<bool>(),
        cache in prop::bool::weighted(0.3),
        victim in prop::sample::select(vec![VictimKind::Greedy, VictimKind::CostBenefit, VictimKind::DChoices, VictimKind::Fifo]),
        scheduler in prop::sample::select(vec![Scheduler::Fifo, Scheduler::ReadFirst, Scheduler::HostOverGc, Scheduler::Priority]),
        suspend in prop::sample::select(vec![Suspend::None, Suspend::Erase, Suspend::ProgramErase]),
        dynamic in any::<bool>(), multi_plane in any::<bool>(), copyback in any::<bool>(),
        copies in 1..5_u32, dram in 0..2_000_u64, wear in prop::bool::weighted(0.3),
        mapping in prop::option::weighted(0.5, prop::sample::select(mappings())), shrink in any::<bool>(), spare in 0..4_u32,
        streams in prop::option::weighted(0.5, prop::sample::select(devices::policies(Seam::Streams))), on_demand in any::<bool>(),
        interval in prop::sample::select(vec![0_u32, 3, 20, 128]),
        unit in prop::sample::select(vec![0_i32, 0, 1, -1, -2]), plp in prop::bool::weighted(0.2),
        by_plane in any::<bool>(), machine in prop::option::weighted(0.4, machine()),
        of_dies in prop::option::weighted(0.3, (1..3_u32, 0..3_u32)),
        pacing in prop::sample::select(vec![PacingKind::Watermark, PacingKind::Watermark, PacingKind::Rate, PacingKind::Lazy]),
        slc in prop::option::weighted(0.5, (
            0..3_u32, prop::sample::select(vec![0.0, 0.4, 1.0]),
            prop::sample::select(vec![Fold::Idle, Fold::Pressure, Fold::Both]), 0..50_000_u64,
        )),
        untimed in prop::bool::weighted(0.2), (merge, evict_all, destaged) in any::<(bool, bool, bool)>(),
    ) -> DeviceConfig {
        let mut c = machine.unwrap_or_else(devices::base);
        c.geometry.channels = 1;
        c.geometry.dies_per_chip = dies;
        c.geometry.planes_per_die = planes;
        c.geometry.page_bytes = 512 * sectors;
        c.geometry.pages_per_block = pages;
        c.geometry.blocks_per_plane = blocks;
        c.cell.kind = cell;
        c.cell.program_order = if relaxed { ProgramOrder::Relaxed } else { ProgramOrder::Strict };
        // A unit of the page's size, or of that of two planes, or of a part of it.
        let sectors = match unit {
            1 if planes == 2 && sectors <= 32 => sectors * 2,
            1.. => sectors,
            _ if sectors.is_multiple_of(1 << -unit) => sectors >> -unit,
            _ => sectors,
        };
        c.mapping.unit_bytes = if unit == 0 { 0 } else { 512 * sectors };
        let page_types = 512 * sectors >= c.geometry.page_bytes;
        if relaxed && cell != CellKind::Slc && page_types {
            c.scheme.allocation = policy.into();
        }
        c.recovery.plp = plp;
        c.queue.order = if by_plane { QueueOrder::Plane } else { QueueOrder::Arrival };
        c.buffer.bytes = buffer * u64::from(c.geometry.page_bytes.max(c.unit_bytes()));
        c.scheme.buffer = if buffer > 0 { kind } else { "lru" }.into();
        if buffer == 0 {
            c.buffer = BufferConfig::default();
        }
        if c.scheme.buffer == "fifo" {
            c.buffer.fifo_merge = merge;
            c.buffer.fifo_evict = if evict_all { FifoEvict::All } else { FifoEvict::Room };
            c.buffer.fifo_reads = if destaged { FifoReads::Destage } else { FifoReads::Buffer };
        }
        c.scheme.pc_lru.insert = insert;
        c.scheme.compaction = compaction;
        if let Some(settings) = multi_version {
            c.scheme.mapping = "multi-version".into();
            c.scheme.multi_version = settings;
        }
        c.map_cache.bytes = if cache { 2 * u64::from(c.unit_bytes()) } else { 0 };
        c.gc.victim = victim;
        c.gc.copies_in_flight = copies;
        c.gc.copies_in_flight_total = if copyback { copies } else { 0 };
        c.timing.scheduler = scheduler;
        c.timing.suspend = suspend;
        c.timing.multi_plane = multi_plane;
        c.timing.copyback = copyback;
        c.timing.dram_ns = dram;
        c.timing.untimed = untimed;
        if dynamic {
            c.scheme.striping = if multi_plane { "round-robin" } else { "dynamic" }.into();
        }
        c.wear.static_gap = if wear { 2 } else { 0 };
        // Half of all devices keep the mapping and the streams that the others are compared with.
        if let Some(mapping) = mapping
            && sectors > 1
        {
            c.scheme.compaction &= mapping != "mrsm";
            c.scheme.mapping = mapping;
        }
        if let Some(streams) = streams {
            c.scheme.streams = streams.into();
            c.streams.count = 3;
            (c.streams.on_demand, c.streams.collect_ended) = (on_demand, on_demand);
        }
        if let Some((of, parity)) = of_dies {
            // Superblocks of all dies or of one, with or without parity over all of their planes.
            c.scheme.striping = "superblock".into();
            c.scheme.allocation = "strict".into();
            c.superblock.dies = of % 2;
            if of % 2 == 0 || dies == 1 {
                c.wear.static_gap = 0;
            }
            let planes = if unit == 1 && sectors > c.geometry.page_bytes / 512 { planes / 2 } else { planes };
            let width = planes * if of == 1 { 1 } else { dies };
            c.superblock.parity = if parity == 0 || width == 1 { 0 } else { width };
        }
        c.scheme.pacing = pacing;
        if pacing != PacingKind::Watermark {
            c.gc.soft = 0.2;
        }
        c.scheme.across.shrink = shrink;
        c.recovery.checkpoint_interval = interval;
        c.scheme.mrsm = MrsmConfig { pieces: 2 + sectors % 3, region_pages: 20, switch_after: 2 };
        if evict_all {
            c.gc.survivors = SurvivorsKind::WithHost;
            if c.validate().is_err_and(|e| e.field == "gc.survivors") {
                c.gc.survivors = SurvivorsKind::Apart;
            }
        }
        // As full as the device may be: the error names the least spare that works.
        c.op_ratio = 0.0;
        while let Err(e) = c.validate() {
            match e.expected.strip_prefix("at least ").and_then(|s| s.split(':').next()) {
                Some(least) => c.op_ratio = least.parse().expect("the error names a number"),
                None => c.geometry.blocks_per_plane += 2, // even the reserve did not fit
            }
        }
        // And some blocks more: what areas and pieces can be spared.
        c.geometry.blocks_per_plane += spare;
        let logical = f64::from(c.geometry.blocks_per_plane - spare) / (1.0 + c.op_ratio);
        c.op_ratio = (f64::from(c.geometry.blocks_per_plane) / logical - 1.0) + 1e-4;
        // An SLC cache where there may be one, its own blocks beside those that were there.
        if let Some((own, dynamic_share, fold, idle_ns)) = slc {
            let mut with = c.clone();
            with.geometry.blocks_per_plane += own;
            with.op_ratio = (f64::from(with.geometry.blocks_per_plane) / logical - 1.0) + 1e-4;
            let g = &with.geometry;
            let bytes = pages.div_ceil(cell.bits()) * g.page_bytes * g.planes() * own;
            with.slc = SlcConfig { bytes: bytes.into(), dynamic_share, fold, idle_ns, ..SlcConfig::default() };
            if with.validate().is_ok() {
                c = with;
            }
        }
        c
    }
}

/// Events after which a device of some hundred pages that gets no more requests is at rest.
const MANY: u32 = 100_000;

/// Runs in which garbage was collected.
static COLLECTED: AtomicU64 = AtomicU64::new(0);

fn drain(done: &mut Vec<Completion>, oracle: &mut Oracle) {
    done.drain(..).for_each(|c| oracle.completed(&c));
}

fn run(config: &DeviceConfig, steps: &[Step]) -> Result<(), TestCaseError> {
    let mut ssd = Ssd::new(config, UNIT, 1).expect("a valid device");
    let sectors = ssd.layout().logical_sectors;
    let mut oracle = Oracle::of(&ssd);
    let mut done = vec![];
    let most =
        u64::from(config.unit_geometry().sectors_per_page().max(config.geometry.sectors_per_page())) * 4;
    for (id, step) in steps.iter().enumerate() {
        match *step {
            Step::Request(op, place, length, fua) => {
                let length = (1 + u64::from(length) * most / 65_536).min(sectors);
                let lsn = (u64::from(place) * sectors / 65_536).min(sectors - length);
                let data = if op == Op::Write { oracle.contents(lsn, length) } else { vec![] };
                let length = if op == Op::Flush { 0 } else { length };
                let stream = place % 5;
                let command = Command { id: id as u64, op, lsn, sectors: length, fua, stream, data: &data };
                oracle.submitted(&command);
                let now = ssd.now();
                ssd.submit(now, &command);
            }
            Step::Events(n) => {
                for _ in 0..n {
                    if let Some(next) = ssd.next_event() {
                        ssd.advance(next, &mut done);
                        drain(&mut done, &mut oracle);
                    }
                }
            }
            Step::Wait(ns) => {
                let to = ssd.now() + u64::from(ns);
                ssd.advance(to, &mut done);
                drain(&mut done, &mut oracle);
            }
            Step::Cut => {
                ssd = Ssd::power_on(config, ssd.cut_power(), 1).expect("a valid device");
                ssd.check();
                oracle.power_cut(&read_all(&mut ssd), &[]);
            }
        }
    }
    let mut events = 0;
    while ssd.outstanding() > 0 {
        events += 1;
        prop_assert!(events < MANY, "the device never comes to rest");
        let next = ssd.next_event();
        prop_assert!(next.is_some(), "the device is stuck");
        ssd.advance(next.unwrap_or_default(), &mut done);
        drain(&mut done, &mut oracle);
    }
    ssd.check();
    let all = read_all(&mut ssd);
    prop_assert_eq!(all.len() as u64, sectors * UNIT as u64);
    oracle.at_rest();
    let verdict = oracle.verdict();
    prop_assert!(verdict.is_ok(), "{}", verdict.unwrap_err());
    COLLECTED.fetch_add(u64::from(ssd.stats().gc_invocations > 0), Ordering::Relaxed);
    Ok(())
}

fn read_all(ssd: &mut Ssd) -> Vec<u8> {
    let sectors = ssd.layout().logical_sectors;
    let command = Command { id: u64::MAX, op: Op::Read, lsn: 0, sectors, fua: false, stream: 0, data: &[] };
    let now = ssd.now();
    ssd.submit(now, &command);
    let mut done = vec![];
    let mut events = 0;
    while !done.iter().any(|c: &Completion| c.id == u64::MAX) {
        events += 1;
        assert!(events < MANY, "a read never ends");
        let next = ssd.next_event().expect("a read is under way");
        ssd.advance(next, &mut done);
    }
    let read = done.into_iter().find(|c| c.id == u64::MAX).expect("just seen");
    assert_eq!(read.status, Status::Ok);
    read.data
}

#[test]
fn the_oracle_agrees() {
    let config = ProptestConfig { max_shrink_iters: 4_000, ..ProptestConfig::with_cases(cases()) };
    proptest!(config, |(config in device(), steps in prop::collection::vec(step(), 1..1_000))| {
        run(&config, &steps)?;
    });
    let collected = COLLECTED.load(Ordering::Relaxed);
    assert!(collected * 4 > u64::from(cases()), "garbage was collected in {collected} cases only");
}

/// Enough to find what is there in seconds, and more at night; `PROPTEST_CASES` asks for as many as you like.
fn cases() -> u32 {
    let few = if std::env::var_os("NANDLE_NIGHTLY").is_some() { 20_000 } else { 1_300 };
    std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(few)
}
