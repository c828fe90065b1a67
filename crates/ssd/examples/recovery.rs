//! How long recovery takes, against the size of the device and the checkpoint interval: the table of
//! docs/recovery.md.
//!
//! `cargo run --release -p nandle-ssd --example recovery [-- --quick]`: a TLC drive of eight dies with 4 KiB
//! pages under 4 KiB random writes over the whole device: it is filled once and written twice more; then the power goes.

use nandle_random::Stream;
use nandle_ssd::buffer::BufferConfig;
use nandle_ssd::durability::RecoveryConfig;
use nandle_ssd::media::CellConfig;
use nandle_ssd::nand::{CellKind, Geometry, Scheduler, Suspend, Timing};
use nandle_ssd::{Command, DeviceConfig, Op, Ssd};

fn device(blocks: u32, interval: u32) -> DeviceConfig {
    DeviceConfig {
        name: "recovery".into(),
        description: String::new(),
        op_ratio: 0.25,
        geometry: Geometry {
            channels: 4,
            chips_per_channel: 2,
            dies_per_chip: 1,
            planes_per_die: 2,
            blocks_per_plane: blocks,
            pages_per_block: 128,
            page_bytes: 4096,
            sector_bytes: 4096,
            oob_bytes: 128,
        },
        cell: CellConfig { kind: CellKind::Tlc, ..CellConfig::default() },
        timing: Timing {
            read_ns: vec![40_000, 55_000, 75_000],
            program_ns: vec![400_000, 700_000, 1_000_000],
            erase_ns: 3_000_000,
            transfer_ns_per_page: None,
            bus_mb_s: Some(800.0),
            command_ns: 200,
            dram_ns: 1_000,
            partial_transfer: false,
            scheduler: Scheduler::ReadFirst,
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
        link: Default::default(),
        controller: Default::default(),
        superblock: Default::default(),
        slc: Default::default(),
        buffer: BufferConfig { bytes: 1 << 20, ..Default::default() },
        mapping: Default::default(),
        atomic: Default::default(),
        map_cache: Default::default(),
        gc: Default::default(),
        wear: Default::default(),
        recovery: RecoveryConfig { checkpoint_interval: interval, ..RecoveryConfig::default() },
        faults: Default::default(),
        queue: Default::default(),
        scheme: Default::default(),
        streams: Default::default(),
        precondition: Default::default(),
    }
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let sizes: &[u32] = if quick { &[32] } else { &[32, 64, 128, 256] };
    println!(
        "| device | checkpoint interval | checkpoint pages of all programs | reads | by a full scan | time | by a full scan |"
    );
    println!("| ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for &blocks in sizes {
        for interval in [0, 32, 128, 512] {
            let config = device(blocks, interval);
            let mut ssd = Ssd::new(&config, 0, 1).expect("the device is valid");
            let sectors = ssd.layout().logical_sectors;
            let mut draw = Stream::new(1, "recovery");
            let mut done = vec![];
            let mut id = 0;
            let (mut first, mut before) = (0, 0);
            let programs = |ssd: &Ssd| ssd.counters().programs.iter().flatten().sum::<u64>();
            while id < 3 * sectors {
                while ssd.outstanding() < 32 {
                    // The first pass fills the device.
                    let lsn = if id < sectors { id } else { draw.below(sectors) };
                    let (op, sectors, now) = (Op::Write, 1, ssd.now());
                    ssd.submit(now, &Command { id, op, lsn, sectors, fua: false, stream: 0, data: &[] });
                    id += 1;
                    if id == sectors {
                        (first, before) = (ssd.stats().checkpoint_pages, programs(&ssd));
                    }
                }
                let next = ssd.next_event().expect("writes are under way");
                ssd.advance(next, &mut done);
                done.clear();
            }
            let share = (ssd.stats().checkpoint_pages - first) as f64 / (programs(&ssd) - before) as f64;
            let silicon = ssd.cut_power();
            let whole = Ssd::power_on_by_full_scan(&config, silicon.clone(), 1).expect("valid");
            let ssd = Ssd::power_on(&config, silicon, 1).expect("valid");
            let (report, whole) = (ssd.recovery().expect("recovered"), whole.recovery().expect("recovered"));
            assert_eq!(report.map, whole.map);
            println!(
                "| {} MiB | {} | {:.2}% | {} | {} | {:.2} ms | {:.1} ms |",
                config.geometry.raw_bytes() >> 20,
                if interval == 0 { "off".into() } else { interval.to_string() },
                100.0 * share,
                report.reads(),
                whole.reads(),
                report.time_ns as f64 / 1e6,
                whole.time_ns as f64 / 1e6,
            );
        }
    }
}
