//! Small devices of very different kinds, for tests that want trouble.

use nandle_ssd::DeviceConfig;
use nandle_ssd::buffer::BufferKind;
use nandle_ssd::config::{BufferConfig, CellConfig, GcConfig, MapCacheConfig, QueueConfig, WearConfig};
use nandle_ssd::nand::{CellKind, Geometry, ProgramOrder, Scheduler, Suspend, Timing};
use nandle_ssd::victim::VictimKind;

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
        },
        buffer: BufferConfig { bytes: 0 },
        map_cache: MapCacheConfig { bytes: 0 },
        gc: GcConfig::default(),
        wear: WearConfig::default(),
        queue: QueueConfig::default(),
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
                c.scheme.buffer = BufferKind::Fifo;
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
                c.cell =
                    CellConfig { kind: CellKind::Mlc, program_order: ProgramOrder::Relaxed, endurance: 0 };
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
    ]
}
