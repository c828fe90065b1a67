//! Requests per CPU second on the common workloads, without a laboratory around the drive.

use std::time::Instant;

use nandle_random::Stream;
use nandle_ssd::nand::{Geometry, Scheduler, Suspend, Timing};
use nandle_ssd::{Command, DeviceConfig, Op, Ssd};

fn device(blocks: u32, pages: u32, raw_spare: f64) -> DeviceConfig {
    DeviceConfig {
        name: "common".into(),
        description: String::new(),
        op_ratio: 1.0 / (1.0 - raw_spare) - 1.0,
        geometry: Geometry {
            channels: 4,
            chips_per_channel: 4,
            dies_per_chip: 1,
            planes_per_die: 2,
            blocks_per_plane: blocks,
            pages_per_block: pages,
            page_bytes: 8192,
            sector_bytes: 512,
            oob_bytes: 128,
        },
        cell: Default::default(),
        timing: Timing {
            read_ns: vec![40_000],
            program_ns: vec![200_000],
            erase_ns: 1_500_000,
            transfer_ns_per_page: None,
            bus_mb_s: Some(333.0),
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
        buffer: Default::default(),
        map_cache: Default::default(),
        gc: Default::default(),
        wear: Default::default(),
        queue: Default::default(),
        streams: Default::default(),
        scheme: Default::default(),
        precondition: Default::default(),
    }
}

fn report(name: &str, ssd: &Ssd, requests: u64, start: Instant) {
    let seconds = start.elapsed().as_secs_f64();
    let host: u64 = ssd.stats().host_sectors_programmed / 16;
    let total: u64 = ssd.flash().counters().programs.iter().flatten().sum();
    println!(
        "{name}: {:.2} M requests/s, {:.0} ns each, programs {total} of host {host}, digest {:016x}",
        requests as f64 / seconds / 1e6,
        seconds / requests as f64 * 1e9,
        ssd.digest()
    );
}

fn main() {
    let mut done = vec![];
    let common = device(512, 256, 0.1);
    let mut ssd = Ssd::new(&common, 0, 1).unwrap();
    let mut draw = Stream::new(1, "common");
    let span = ssd.layout().logical_sectors * 6 / 10 / 8;
    let start = Instant::now();
    for id in 0..1_000_000_u64 {
        let op = if draw.chance(0.3) { Op::Read } else { Op::Write };
        let lsn = draw.below(span) * 8;
        let at = id * 20_000;
        ssd.advance(at, &mut done);
        done.clear();
        ssd.submit(at, &Command { id, op, lsn, sectors: 8, fua: false, stream: 0, data: &[] });
    }
    report("common", &ssd, 1_000_000, start);

    for spare in [0.2, 0.1] {
        let mut ssd = Ssd::new(&device(256, 64, spare), 0, 1).unwrap();
        let pages = u64::from(ssd.layout().logical_pages);
        let start = Instant::now();
        for id in 0..pages * 5 {
            let lpn = if id < pages { id } else { draw.below(pages) };
            let at = id * 200_000;
            ssd.advance(at, &mut done);
            done.clear();
            ssd.submit(
                at,
                &Command { id, op: Op::Write, lsn: lpn * 16, sectors: 16, fua: false, stream: 0, data: &[] },
            );
        }
        report(&format!("gc{}", spare * 100.0), &ssd, pages * 5, start);
    }
}
