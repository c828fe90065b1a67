//! Small devices of very different kinds, for tests that want trouble.

use nandle_ssd::DeviceConfig;
use nandle_ssd::buffer::{BufferConfig, FifoEvict, FifoReads, Release};
use nandle_ssd::collect::victim::VictimKind;
use nandle_ssd::collect::{GcConfig, SurvivorsKind};
use nandle_ssd::config::{QueueConfig, QueueOrder};
use nandle_ssd::controller::{Assign, ControllerConfig};
use nandle_ssd::link::LinkConfig;
use nandle_ssd::map::MapCacheConfig;
use nandle_ssd::media::CellConfig;
use nandle_ssd::nand::{CellKind, Geometry, ProgramOrder, ReadRetry, Scheduler, Suspend, Timing};
use nandle_ssd::schemes::mrsm::MrsmConfig;
use nandle_ssd::schemes::pc_lru::Insert;
use nandle_ssd::schemes::waflash::PointerKind;
use nandle_ssd::schemes::{Isolation, SchemeConfig, Seam};
use nandle_ssd::space::{Fold, PacingKind, WearConfig};

/// The policies that answer a question, the baseline's first.
#[allow(dead_code)]
pub fn policies(seam: Seam) -> Vec<&'static str> {
    SchemeConfig::policies()
        .into_iter()
        .filter(|policy| policy.seam == seam)
        .map(|policy| policy.name)
        .collect()
}

/// Page mapping, and every sum of mapping schemes.
#[allow(dead_code)]
pub fn mappings() -> Vec<String> {
    let names = policies(Seam::Mapping);
    let (page, schemes) = names.split_first().expect("the baseline is one");
    let sum = |set: u32| {
        let chosen = schemes.iter().enumerate().filter(|(n, _)| set >> n & 1 == 1);
        chosen.map(|(_, &name)| name).collect::<Vec<_>>().join("+")
    };
    [(*page).into()].into_iter().chain((1..1 << schemes.len()).map(sum)).collect()
}

/// The same device with no more spare than it needs.
#[allow(dead_code)]
pub fn least(mut config: DeviceConfig) -> DeviceConfig {
    config.op_ratio = 0.0;
    for _ in 0..4 {
        let Err(error) = config.validate() else { break };
        assert_eq!(error.field, "op_ratio", "{error}");
        let rest = error.expected.strip_prefix("at least ").expect("a number is named");
        config.op_ratio = rest.split(':').next().and_then(|n| n.parse().ok()).expect("a number");
    }
    config.validate().expect("the least over-provisioning is legal");
    config
}

/// A small SLC device without a buffer.
pub fn base() -> DeviceConfig {
    DeviceConfig {
        name: "small".into(),
        description: String::new(),
        op_ratio: 0.6,
        geometry: Geometry {
            channels: 2,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 2,
            blocks_per_plane: 20,
            pages_per_block: 12,
            page_bytes: 4096,
            sector_bytes: 512,
            oob_bytes: 128,
        },
        cell: CellConfig::default(),
        timing: Timing {
            read_ns: vec![40_000],
            program_ns: vec![200_000],
            erase_ns: 1_500_000,
            transfer_ns_per_page: Some(12_000),
            bus_mb_s: None,
            command_ns: 0,
            dram_ns: 0,
            partial_transfer: false,
            scheduler: Scheduler::Fifo,
            suspend: Suspend::None,
            suspend_ns: 0,
            copyback: false,
            multi_plane: false,
            multi_plane_same_offset: true,
            independent_plane_reads: false,
            ecc_ns: 0,
            read_retry: None,
            untimed: false,
        },
        link: LinkConfig::default(),
        controller: ControllerConfig::default(),
        buffer: BufferConfig::default(),
        mapping: Default::default(),
        atomic: Default::default(),
        superblock: Default::default(),
        slc: Default::default(),
        map_cache: MapCacheConfig::default(),
        gc: GcConfig::default(),
        wear: WearConfig::default(),
        queue: QueueConfig { order: QueueOrder::Arrival, ..QueueConfig::default() },
        recovery: Default::default(),
        faults: Default::default(),
        streams: Default::default(),
        scheme: Default::default(),
        precondition: Default::default(),
    }
}

/// Devices that differ in everything.
pub fn small_devices() -> Vec<(&'static str, DeviceConfig)> {
    let with = |f: &dyn Fn(&mut DeviceConfig)| {
        let mut config = base();
        f(&mut config);
        config
    };
    vec![
        ("page", base()),
        (
            "lru",
            with(&|c| {
                c.buffer.bytes = 64 << 10;
                c.timing.dram_ns = 1000;
            }),
        ),
        (
            "fifo",
            with(&|c| {
                c.buffer.bytes = 32 << 10;
                c.scheme.buffer = "fifo".into();
                c.gc.victim = VictimKind::CostBenefit;
            }),
        ),
        (
            "4 KiB sectors, TLC, dynamic, priority",
            with(&|c| {
                c.geometry.sector_bytes = 4096;
                c.geometry.page_bytes = 16384;
                c.cell.kind = CellKind::Tlc;
                c.timing.read_ns = vec![50_000, 100_000, 150_000];
                c.timing.program_ns = vec![500_000, 2_000_000, 5_500_000];
                c.scheme.striping = "dynamic".into();
                c.timing.scheduler = Scheduler::Priority;
                c.timing.command_ns = 300;
                c.gc.victim = VictimKind::DChoices;
            }),
        ),
        (
            "tiny mapping cache",
            with(&|c| {
                c.geometry.page_bytes = 512;
                c.geometry.pages_per_block = 30;
                c.geometry.blocks_per_plane = 30;
                c.map_cache.bytes = 1024;
                c.op_ratio = 0.9;
            }),
        ),
        (
            "MLC, suspend, copyback, multi-plane, wear levelling",
            with(&|c| {
                c.cell = CellConfig {
                    kind: CellKind::Mlc,
                    program_order: ProgramOrder::Relaxed,
                    ..CellConfig::default()
                };
                c.timing.suspend = Suspend::ProgramErase;
                c.timing.suspend_ns = 5_000;
                c.timing.scheduler = Scheduler::ReadFirst;
                c.timing.copyback = true;
                c.timing.multi_plane = true;
                c.wear.static_gap = 4;
                c.buffer.bytes = 16 << 10;
                c.gc.victim = VictimKind::Fifo;
                c.op_ratio = 0.9;
            }),
        ),
        (
            "64 sectors a page, host over GC, factory bad",
            with(&|c| {
                c.geometry.page_bytes = 32768;
                c.geometry.pages_per_block = 6;
                c.geometry.blocks_per_plane = 24;
                c.timing.scheduler = Scheduler::HostOverGc;
                c.wear.factory_bad = 0.1;
                c.gc.soft = 0.2;
                c.op_ratio = 1.3;
            }),
        ),
        (
            "waflash",
            with(&|c| {
                c.buffer.bytes = 48 << 10;
                c.scheme.buffer = "pc-lru".into();
                c.scheme.mapping = "multi-version".into();
                c.scheme.compaction = true;
                c.scheme.multi_version.table_share = 1.0;
                c.op_ratio = 0.9;
            }),
        ),
        (
            "waflash, 4 KiB sectors, dynamic, mapping cache, three versions",
            with(&|c| {
                c.geometry.sector_bytes = 4096;
                c.geometry.page_bytes = 16384;
                c.buffer.bytes = 256 << 10;
                c.map_cache.bytes = 32768;
                c.scheme.buffer = "pc-lru".into();
                c.scheme.pc_lru.insert = Insert::At(5);
                c.scheme.mapping = "multi-version".into();
                c.scheme.compaction = true;
                c.scheme.multi_version.table_share = 1.0;
                c.scheme.multi_version.max_versions = 3;
                c.scheme.striping = "dynamic".into();
                c.op_ratio = 0.9;
            }),
        ),
        (
            "mca, multi-version, direct pointers, wear levelling",
            with(&|c| {
                c.buffer.bytes = 32 << 10;
                c.scheme.buffer = "mca".into();
                c.scheme.mapping = "multi-version".into();
                c.scheme.multi_version.pointer = PointerKind::Direct;
                c.scheme.multi_version.version_budget = 1.0;
                c.scheme.multi_version.idle_merge_after_ns = 1_000_000;
                c.wear.static_gap = 4;
                c.op_ratio = 0.9;
            }),
        ),
        (
            "compaction on page mapping",
            with(&|c| {
                c.buffer.bytes = 48 << 10;
                c.scheme.compaction = true;
                c.scheme.compacted.region_pages = 100;
                c.op_ratio = 0.9;
                c.timing.scheduler = Scheduler::HostOverGc;
            }),
        ),
    ]
    .into_iter()
    .chain(page_type_devices())
    .chain(border_devices())
    .chain(combined_devices())
    .chain(unit_devices())
    .chain(machine_devices())
    .chain(superblock_devices())
    .chain(slc_devices())
    .chain(untimed_devices())
    .collect()
}

/// Devices without clocks.
pub fn untimed_devices() -> Vec<(&'static str, DeviceConfig)> {
    let with = |f: &dyn Fn(&mut DeviceConfig)| {
        let mut c = base();
        c.timing.untimed = true;
        c.op_ratio = 1.2;
        f(&mut c);
        c
    };
    vec![
        ("untimed", with(&|_| ())),
        (
            "untimed, everything, hand-over, link, two cores, tiny mapping cache",
            with(&|c| {
                everything(c);
                c.link = LinkConfig { mb_s: 500.0, command_ns: 700 };
                c.controller = ControllerConfig { cores: 2, ..ControllerConfig::default() };
                c.geometry.blocks_per_plane = 28;
                c.cell.kind = CellKind::Tlc;
                c.cell.program_order = ProgramOrder::Relaxed;
                c.buffer.release = Release::Handover;
                c.buffer.clean_ahead = true;
                c.map_cache.bytes = 16384;
            }),
        ),
        (
            "untimed, dynamic, quarter units, wear levelling",
            with(&|c| {
                c.geometry.sector_bytes = 4096;
                c.geometry.page_bytes = 16384;
                c.mapping.unit_bytes = 4096;
                c.buffer.bytes = 256 << 10;
                c.scheme.striping = "dynamic".into();
                c.wear.static_gap = 4;
            }),
        ),
        (
            "untimed, superblocks, parity, paced",
            with(&|c| {
                c.scheme.striping = "superblock".into();
                c.superblock.parity = 4;
                c.geometry.blocks_per_plane = 24;
                c.scheme.pacing = PacingKind::Rate;
                c.gc.soft = 0.2;
            }),
        ),
    ]
}

/// As VSSIM: one core, which waits for the reads that it orders, a FIFO, and room that is free at hand-over.
fn fifo_and_a_core_that_waits(c: &mut DeviceConfig) {
    c.controller.cores = 1;
    c.controller.blocking_rmw = true;
    c.buffer.bytes = 32 << 10;
    c.buffer.release = Release::Handover;
    c.scheme.buffer = "fifo".into();
}

/// Devices whose controller, host link, decoder and buffer take their time.
pub fn machine_devices() -> Vec<(&'static str, DeviceConfig)> {
    let with = |f: &dyn Fn(&mut DeviceConfig)| {
        let mut c = base();
        c.op_ratio = 1.2;
        f(&mut c);
        c
    };
    let machine = |c: &mut DeviceConfig, cores: u32| {
        c.link = LinkConfig { mb_s: 500.0, command_ns: 700 };
        c.controller = ControllerConfig {
            cores,
            command_ns: 3_000,
            unit_ns: 900,
            operation_ns: 1_100,
            ..ControllerConfig::default()
        };
    };
    let retry = ReadRetry { share: vec![0.2], share_per_1000_erases: 0.5, ns: 30_000, most: 3 };
    vec![
        ("a core that waits for its reads, fifo, hand-over", with(&fifo_and_a_core_that_waits)),
        (
            "requests queued by themselves, all leave a full buffer, a core that waits for its reads",
            with(&|c| {
                fifo_and_a_core_that_waits(c);
                c.buffer.fifo_merge = false;
                c.buffer.fifo_evict = FifoEvict::All;
            }),
        ),
        (
            "requests queued by themselves, destaged before they are read, a link, a core that waits for its reads",
            with(&|c| {
                c.link = LinkConfig { mb_s: 2000.0, command_ns: 500 };
                fifo_and_a_core_that_waits(c);
                c.buffer.fifo_merge = false;
                c.buffer.fifo_reads = FifoReads::Destage;
            }),
        ),
        (
            "requests queued by themselves, by plane, cleaned ahead, capacitors, compaction",
            with(&|c| {
                c.buffer.bytes = 64 << 10;
                c.buffer.clean_ahead = true;
                c.recovery.plp = true;
                c.scheme.buffer = "fifo".into();
                c.buffer.fifo_merge = false;
                c.scheme.mapping = "multi-version".into();
                c.scheme.compaction = true;
                c.queue.order = QueueOrder::Plane;
            }),
        ),
        (
            "strict turns, one copy at a time in the whole drive, capacitors",
            with(&|c| {
                c.scheme.striping = "round-robin".into();
                c.gc.copies_in_flight_total = 1;
                c.buffer.bytes = 64 << 10;
                c.recovery.plp = true;
            }),
        ),
        (
            "strict turns of objects, three copies at a time",
            with(&|c| {
                c.scheme.striping = "round-robin".into();
                c.gc.copies_in_flight_total = 3;
                c.op_ratio = 1.6;
                c.scheme.streams = "flashalloc".into();
            }),
        ),
        (
            "survivors with host's writes",
            with(&|c| {
                c.gc.survivors = SurvivorsKind::WithHost;
                c.buffer.bytes = 64 << 10;
            }),
        ),
        (
            "survivors with host's writes, strict turns of objects",
            with(&|c| {
                c.gc.survivors = SurvivorsKind::WithHost;
                c.scheme.striping = "round-robin".into();
                c.gc.copies_in_flight_total = 1;
                c.op_ratio = 1.6;
                c.scheme.streams = "flashalloc".into();
            }),
        ),
        (
            "link and two cores, no buffer, reads repeated, decoder",
            with(&|c| {
                machine(c, 2);
                c.timing.read_retry = Some(retry.clone());
                c.timing.ecc_ns = 4_000;
                c.timing.suspend = Suspend::ProgramErase;
            }),
        ),
        (
            "link, three cores by die, quarter units, cleaned ahead, hand-over, capacitors, copyback",
            with(&|c| {
                machine(c, 3);
                c.controller.assign = Assign::ByDie;
                c.geometry.sector_bytes = 4096;
                c.geometry.page_bytes = 16384;
                c.mapping.unit_bytes = 4096;
                c.buffer.bytes = 256 << 10;
                c.buffer.release = Release::Handover;
                c.buffer.clean_ahead = true;
                c.recovery.plp = true;
                c.timing.copyback = true;
                c.timing.multi_plane = true;
            }),
        ),
        (
            "link and two cores, independent plane reads, quarter units, reads repeated, copyback, decoder",
            with(&|c| {
                machine(c, 2);
                c.geometry.sector_bytes = 4096;
                c.geometry.page_bytes = 16384;
                c.mapping.unit_bytes = 4096;
                c.timing.independent_plane_reads = true;
                c.timing.read_retry = Some(retry.clone());
                c.timing.ecc_ns = 4_000;
                c.timing.suspend = Suspend::ProgramErase;
                c.timing.copyback = true;
            }),
        ),
        (
            "two cores, the host first, that wait for their reads, everything, cleaned ahead, tiny mapping cache",
            with(&|c| {
                everything(c);
                machine(c, 2);
                c.controller.priority = true;
                c.controller.blocking_rmw = true;
                c.geometry.blocks_per_plane = 28;
                c.cell.kind = CellKind::Tlc;
                c.cell.program_order = ProgramOrder::Relaxed;
                c.buffer.clean_ahead = true;
                c.map_cache.bytes = 16384;
                c.timing.multi_plane = true;
            }),
        ),
        (
            "link alone, units of two planes, cleaned ahead, mca, by plane",
            with(&|c| {
                c.link = LinkConfig { mb_s: 0.0, command_ns: 5_000 };
                c.mapping.unit_bytes = 8192;
                c.geometry.blocks_per_plane = 28;
                c.buffer.bytes = 64 << 10;
                c.buffer.clean_ahead = true;
                c.scheme.buffer = "mca".into();
                c.queue.order = QueueOrder::Plane;
                c.timing.ecc_ns = 2_000;
            }),
        ),
    ]
}

/// Devices for each policy that chooses page types: MLC, TLC and QLC, large and small sectors, with
/// and without a buffer, wear levelling, a mapping cache.
pub fn page_type_devices() -> Vec<(&'static str, DeviceConfig)> {
    let device = |policy: &str, kind: CellKind, f: &dyn Fn(&mut DeviceConfig)| {
        let mut c = base();
        c.geometry.blocks_per_plane = 24;
        c.cell = CellConfig { kind, program_order: ProgramOrder::Relaxed, ..CellConfig::default() };
        c.timing.read_ns = vec![50_000, 100_000, 150_000, 200_000];
        c.timing.program_ns = vec![500_000, 2_000_000, 5_500_000, 8_000_000];
        c.timing.read_ns.truncate(kind.bits() as usize);
        c.timing.program_ns.truncate(kind.bits() as usize);
        c.scheme.allocation = policy.into();
        f(&mut c);
        c
    };
    let large_sectors = |c: &mut DeviceConfig| {
        c.geometry.sector_bytes = 4096;
        c.geometry.page_bytes = 16384;
    };
    let levelled = |c: &mut DeviceConfig| {
        c.wear.static_gap = 4;
        c.scheme.striping = "dynamic".into();
        c.op_ratio = 0.9;
    };
    vec![
        ("lsb-first, TLC", device("lsb-first", CellKind::Tlc, &|_| ())),
        ("lsb-first, QLC, buffer", device("lsb-first", CellKind::Qlc, &|c| c.buffer.bytes = 32 << 10)),
        ("lsb-first, MLC, wear levelling", device("lsb-first", CellKind::Mlc, &levelled)),
        ("size-based, TLC, 4 KiB sectors", device("size-based", CellKind::Tlc, &large_sectors)),
        ("size-based, MLC, buffer", device("size-based", CellKind::Mlc, &|c| c.buffer.bytes = 32 << 10)),
        ("size-based, QLC, wear levelling", device("size-based", CellKind::Qlc, &levelled)),
        ("papa, TLC, 4 KiB sectors", device("papa", CellKind::Tlc, &large_sectors)),
        (
            "papa, TLC, smallest spare, emergencies only",
            device("papa", CellKind::Tlc, &|c| {
                c.op_ratio = 0.4118;
                c.gc.types_ahead = false;
            }),
        ),
        (
            "size-based, TLC, emergencies only",
            device("size-based", CellKind::Tlc, &|c| c.gc.types_ahead = false),
        ),
        (
            "papa, TLC, buffer, tiny mapping cache",
            device("papa", CellKind::Tlc, &|c| {
                c.geometry.page_bytes = 512;
                c.geometry.sector_bytes = 512;
                c.geometry.pages_per_block = 30;
                c.geometry.blocks_per_plane = 30;
                c.map_cache.bytes = 1024;
                c.op_ratio = 0.9;
                c.buffer.bytes = 8 << 10;
            }),
        ),
        ("papa, MLC, wear levelling", device("papa", CellKind::Mlc, &levelled)),
        (
            "papa, QLC, factory bad, FIFO buffer",
            device("papa", CellKind::Qlc, &|c| {
                c.geometry.pages_per_block = 14;
                c.buffer.bytes = 32 << 10;
                c.scheme.buffer = "fifo".into();
                c.wear.factory_bad = 0.05;
                c.op_ratio = 0.9;
            }),
        ),
    ]
}

/// A scheme of every paper.
fn everything(c: &mut DeviceConfig) {
    c.buffer.bytes = 48 << 10;
    c.scheme.buffer = "pc-lru".into();
    c.scheme.mapping = "across+multi-version".into();
    c.scheme.compaction = true;
    c.scheme.multi_version.table_share = 1.0;
    c.scheme.allocation = "papa".into();
    c.scheme.streams = "flashalloc".into();
}

/// Devices whose mapping unit is a part of a page, or lies on two planes.
pub fn unit_devices() -> Vec<(&'static str, DeviceConfig)> {
    let with = |unit_bytes: u32, f: &dyn Fn(&mut DeviceConfig)| {
        let mut c = base();
        c.mapping.unit_bytes = unit_bytes;
        c.op_ratio = 1.2;
        f(&mut c);
        c
    };
    let large_sectors = |c: &mut DeviceConfig| {
        c.geometry.sector_bytes = 4096;
        c.geometry.page_bytes = 16384;
        c.buffer.bytes = 256 << 10;
        c.timing.dram_ns = 1000;
    };
    vec![
        ("quarter units", with(1024, &|_| ())),
        ("quarter units, lru, 4 KiB sectors", with(4096, &large_sectors)),
        (
            "quarter units, fifo, capacitors, wear levelling",
            with(4096, &|c| {
                large_sectors(c);
                c.scheme.buffer = "fifo".into();
                c.recovery.plp = true;
                c.wear.static_gap = 4;
                c.timing.partial_transfer = true;
            }),
        ),
        (
            "half units, versions, tiny mapping cache, dynamic",
            with(2048, &|c| {
                c.scheme.mapping = "multi-version".into();
                c.scheme.multi_version.table_share = 1.0;
                c.scheme.striping = "dynamic".into();
                c.buffer.bytes = 16 << 10;
                c.map_cache.bytes = 4096;
            }),
        ),
        (
            "half units, across, compaction, objects",
            with(2048, &|c| {
                c.scheme.mapping = "across".into();
                c.scheme.compaction = true;
                c.scheme.streams = "flashalloc".into();
                c.buffer.bytes = 32 << 10;
                c.geometry.blocks_per_plane = 28;
            }),
        ),
        (
            "quarter units, two handles, QLC, often a checkpoint",
            with(4096, &|c| {
                large_sectors(c);
                c.cell.kind = CellKind::Qlc;
                c.scheme.streams = "fdp".into();
                c.streams.count = 2;
                c.streams.isolation = Isolation::Persistently;
                c.recovery.checkpoint_interval = 4;
                c.geometry.blocks_per_plane = 28;
            }),
        ),
        ("units of two planes", with(8192, &|_| ())),
        (
            "units of two planes, mrsm, lru, tiny mapping cache",
            with(8192, &|c| {
                c.scheme.mapping = "mrsm".into();
                c.scheme.mrsm = MrsmConfig { pieces: 4, region_pages: 64, switch_after: 2 };
                c.buffer.bytes = 32 << 10;
                c.map_cache.bytes = 16384;
                c.geometry.blocks_per_plane = 28;
            }),
        ),
        (
            "units of two planes, everything, TLC",
            with(8192, &|c| {
                c.geometry.blocks_per_plane = 28;
                c.cell.kind = CellKind::Tlc;
                c.cell.program_order = ProgramOrder::Relaxed;
                everything(c);
            }),
        ),
    ]
}

/// Devices whose blocks are opened, filled and erased together across the dies.
pub fn superblock_devices() -> Vec<(&'static str, DeviceConfig)> {
    let with = |parity: u32, f: &dyn Fn(&mut DeviceConfig)| {
        let mut c = base();
        c.scheme.striping = "superblock".into();
        c.superblock.parity = parity;
        c.geometry.blocks_per_plane = 24;
        c.op_ratio = 1.2;
        f(&mut c);
        c
    };
    let large_sectors = |c: &mut DeviceConfig| {
        c.geometry.sector_bytes = 4096;
        c.geometry.page_bytes = 16384;
        c.mapping.unit_bytes = 4096;
        c.buffer.bytes = 256 << 10;
        c.timing.dram_ns = 1000;
    };
    vec![
        ("superblocks", with(0, &|_| ())),
        (
            "superblocks of a die, lru",
            with(0, &|c| {
                c.superblock.dies = 1;
                c.buffer.bytes = 64 << 10;
            }),
        ),
        ("superblocks, parity", with(4, &|c| c.timing.multi_plane = true)),
        (
            "superblocks, mirrored, TLC, wear levelling, factory bad",
            with(2, &|c| {
                c.superblock.dies = 1;
                c.cell.kind = CellKind::Tlc;
                c.timing.read_ns = vec![50_000, 100_000, 150_000];
                c.timing.program_ns = vec![500_000, 2_000_000, 5_500_000];
                c.wear.static_gap = 4;
                c.wear.factory_bad = 0.05;
                c.op_ratio = 3.0;
            }),
        ),
        (
            "superblocks, parity, quarter units, fifo",
            with(4, &|c| {
                large_sectors(c);
                c.scheme.buffer = "fifo".into();
                c.op_ratio = 1.8;
            }),
        ),
        (
            "superblocks, parity, quarter units, two handles, often a checkpoint",
            with(4, &|c| {
                large_sectors(c);
                c.scheme.streams = "fdp".into();
                c.streams.count = 2;
                c.streams.isolation = Isolation::Persistently;
                c.recovery.checkpoint_interval = 4;
                c.geometry.blocks_per_plane = 28;
                c.op_ratio = 2.6;
            }),
        ),
        (
            "superblocks, parity, units of two planes, capacitors",
            with(2, &|c| {
                c.mapping.unit_bytes = 8192;
                c.recovery.plp = true;
                c.op_ratio = 3.0;
            }),
        ),
        (
            "superblocks, parity, quarter units, link, two cores, hand-over",
            with(4, &|c| {
                large_sectors(c);
                c.link = LinkConfig { mb_s: 500.0, command_ns: 700 };
                c.controller =
                    ControllerConfig { cores: 2, operation_ns: 1_100, ..ControllerConfig::default() };
                c.buffer.release = Release::Handover;
                c.timing.multi_plane = true;
                c.op_ratio = 1.8;
            }),
        ),
        (
            "superblocks, versions, compaction, objects, tiny mapping cache",
            with(0, &|c| {
                c.scheme.mapping = "multi-version".into();
                c.scheme.compaction = true;
                c.scheme.multi_version.table_share = 1.0;
                c.scheme.streams = "flashalloc".into();
                c.buffer.bytes = 48 << 10;
                c.map_cache.bytes = 8192;
                c.geometry.blocks_per_plane = 30;
                c.timing.suspend = Suspend::ProgramErase;
                c.timing.suspend_ns = 5_000;
            }),
        ),
    ]
}

/// Devices with an SLC cache: static, dynamic, both; folded for idleness, for want of room, or for both.
pub fn slc_devices() -> Vec<(&'static str, DeviceConfig)> {
    let with = |kind: CellKind, own: u64, f: &dyn Fn(&mut DeviceConfig)| {
        let mut c = base();
        c.cell.kind = kind;
        let types = kind.bits() as usize;
        c.timing.read_ns = [50_000, 100_000, 150_000, 200_000][..types].into();
        c.timing.program_ns = [500_000, 2_000_000, 5_500_000, 8_000_000][..types].into();
        c.geometry.blocks_per_plane = 26;
        c.slc.idle_ns = 100_000;
        f(&mut c);
        let g = &c.geometry;
        let pages = u64::from(g.pages_per_block.div_ceil(kind.bits()));
        c.slc.bytes = own * pages * u64::from(g.page_bytes) * u64::from(g.planes());
        c.op_ratio = 1.6;
        c
    };
    let small_units = |c: &mut DeviceConfig| {
        c.geometry.page_bytes = 16384;
        c.mapping.unit_bytes = 4096;
        c.buffer.bytes = 256 << 10;
    };
    vec![
        ("SLC cache, TLC", with(CellKind::Tlc, 2, &|_| ())),
        (
            "SLC cache, TLC, folds when idle, buffer, dynamic",
            with(CellKind::Tlc, 3, &|c| {
                c.slc.fold = Fold::Idle;
                c.buffer.bytes = 64 << 10;
                c.scheme.striping = "dynamic".into();
                c.slc.program_ns = Some(160_000);
                c.slc.read_ns = Some(20_000);
                c.timing.multi_plane = true;
            }),
        ),
        (
            "dynamic SLC cache, QLC, folds when full, capacitors, cost-benefit",
            with(CellKind::Qlc, 0, &|c| {
                c.slc.dynamic_share = 0.7;
                c.slc.fold = Fold::Pressure;
                c.recovery.plp = true;
                c.cell.paired_pages = true;
                c.gc.victim = VictimKind::CostBenefit;
            }),
        ),
        (
            "SLC cache of both kinds, QLC, quarter units, buffer",
            with(CellKind::Qlc, 1, &|c| {
                c.slc.dynamic_share = 0.5;
                small_units(c);
            }),
        ),
        (
            "SLC cache, TLC, quarter units, no buffer, often a checkpoint, factory bad",
            with(CellKind::Tlc, 1, &|c| {
                small_units(c);
                c.buffer.bytes = 0;
                c.recovery.checkpoint_interval = 4;
                c.wear.factory_bad = 0.05;
                c.timing.copyback = true;
            }),
        ),
        (
            "dynamic SLC cache, MLC, tiny mapping cache, wear levelling, relaxed order",
            with(CellKind::Mlc, 0, &|c| {
                c.slc.dynamic_share = 1.0;
                c.cell.program_order = ProgramOrder::Relaxed;
                c.map_cache.bytes = 8192;
                c.wear.static_gap = 4;
                c.scheme.pacing = nandle_ssd::space::PacingKind::Rate;
            }),
        ),
        (
            "SLC cache of both kinds, TLC, units of two planes, read first, suspended",
            with(CellKind::Tlc, 1, &|c| {
                c.slc.dynamic_share = 0.4;
                c.mapping.unit_bytes = 8192;
                c.timing.scheduler = Scheduler::ReadFirst;
                c.timing.suspend = Suspend::ProgramErase;
                c.timing.suspend_ns = 5_000;
            }),
        ),
    ]
}

/// Devices with areas over page borders, and with regions mapped by piece.
pub fn border_devices() -> Vec<(&'static str, DeviceConfig)> {
    let with = |mapping: &str, pieces: u32, region_pages: u32, f: &dyn Fn(&mut DeviceConfig)| {
        let mut c = base();
        c.scheme.mapping = mapping.into();
        c.scheme.mrsm = MrsmConfig { pieces, region_pages, switch_after: 16 / pieces };
        c.op_ratio = 1.2;
        f(&mut c);
        c
    };
    let across = |f: &dyn Fn(&mut DeviceConfig)| with("across", 4, 64, f);
    let tiny_cache = |c: &mut DeviceConfig| {
        c.buffer.bytes = 32 << 10;
        c.geometry.page_bytes = 2048;
        c.geometry.pages_per_block = 16;
        c.geometry.blocks_per_plane = 24;
        c.map_cache.bytes = 4096;
    };
    let large_sectors = |c: &mut DeviceConfig| {
        c.geometry.sector_bytes = 4096;
        c.geometry.page_bytes = 16384;
        c.cell.kind = CellKind::Tlc;
        c.timing.read_ns = vec![50_000, 100_000, 150_000];
        c.timing.program_ns = vec![500_000, 2_000_000, 5_500_000];
        c.scheme.striping = "dynamic".into();
        c.scheme.buffer = "fifo".into();
        c.buffer.bytes = 256 << 10;
        c.map_cache.bytes = 65536;
    };
    vec![
        ("across", across(&|_| ())),
        (
            "across, shrinking, lru, tiny mapping cache",
            across(&|c| {
                c.scheme.across.shrink = true;
                tiny_cache(c);
            }),
        ),
        ("across, 4 KiB sectors, fifo, TLC, dynamic", across(&large_sectors)),
        ("mrsm", with("mrsm", 4, 64, &|_| ())),
        ("mrsm, lru, tiny mapping cache", with("mrsm", 2, 100, &tiny_cache)),
        (
            "mrsm, 4 KiB sectors, fifo, TLC, dynamic",
            with("mrsm", 4, 32, &|c| {
                large_sectors(c);
                c.scheme.mrsm.switch_after = 2;
            }),
        ),
    ]
}

/// Devices on which schemes of several papers meet.
pub fn combined_devices() -> Vec<(&'static str, DeviceConfig)> {
    let tlc = |f: &dyn Fn(&mut DeviceConfig)| {
        let mut c = base();
        c.geometry.blocks_per_plane = 28;
        c.cell.kind = CellKind::Tlc;
        c.cell.program_order = ProgramOrder::Relaxed;
        c.timing.read_ns = vec![50_000, 100_000, 150_000];
        c.timing.program_ns = vec![500_000, 2_000_000, 5_500_000];
        c.op_ratio = 1.2;
        f(&mut c);
        c
    };
    vec![
        ("everything", tlc(&everything)),
        (
            "everything, 4 KiB sectors, tiny mapping cache, dynamic, shrinking",
            tlc(&|c| {
                everything(c);
                c.geometry.sector_bytes = 4096;
                c.geometry.page_bytes = 16384;
                c.buffer.bytes = 256 << 10;
                c.map_cache.bytes = 32768;
                c.scheme.striping = "dynamic".into();
                c.scheme.across.shrink = true;
                c.streams.on_demand = true;
                c.streams.collect_ended = true;
            }),
        ),
        (
            "across, versions, direct pointers, no buffer",
            tlc(&|c| {
                c.scheme.mapping = "across+multi-version".into();
                c.scheme.multi_version.pointer = PointerKind::Direct;
                c.scheme.multi_version.version_budget = 1.0;
                c.scheme.multi_version.idle_merge_after_ns = 1_000_000;
                c.wear.static_gap = 4;
            }),
        ),
        (
            "across, compaction, size-based, two streams",
            tlc(&|c| {
                c.buffer.bytes = 48 << 10;
                c.scheme.mapping = "across".into();
                c.scheme.compaction = true;
                c.scheme.allocation = "size-based".into();
                c.scheme.streams = "multi-stream".into();
                c.streams.count = 2;
            }),
        ),
        (
            "mrsm, papa, persistent handles, mca",
            tlc(&|c| {
                c.buffer.bytes = 32 << 10;
                c.scheme.buffer = "mca".into();
                c.scheme.mapping = "mrsm".into();
                c.scheme.mrsm = MrsmConfig { pieces: 4, region_pages: 32, switch_after: 2 };
                c.scheme.allocation = "papa".into();
                c.scheme.streams = "fdp".into();
                c.streams.count = 2;
                c.streams.isolation = Isolation::Persistently;
            }),
        ),
    ]
}
