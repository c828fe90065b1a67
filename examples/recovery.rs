//! How long recovery takes, against the size of the device and the checkpoint interval: the table of
//! docs/recovery.md.
//!
//! `cargo run --release --example recovery [--quick]`: the demo drive with 4 KiB pages, 4 KiB random
//! writes over the whole device until three rounds of the checkpoint (or of the device, without one)
//! are over; then the power goes.

use nandle_lab::config::Wanted;
use nandle_random::Stream;
use nandle_ssd::{Command, DeviceConfig, Op, Ssd};

fn device(blocks: u32, interval: u32) -> DeviceConfig {
    let sets = [
        format!("geometry.blocks_per_plane={blocks}"),
        format!("recovery.checkpoint_interval={interval}"),
        "geometry.pages_per_block=128".into(),
        "geometry.page_bytes=4096".into(),
        "geometry.oob_bytes=128".into(),
        "buffer.bytes=1048576".into(),
    ];
    let wanted = Wanted { device: "demo", scheme: None, sets: &sets };
    wanted.load().expect("the device is valid").config
}

fn main() {
    let quick = std::env::args().any(|arg| arg == "--quick");
    let sizes: &[u32] = if quick { &[16] } else { &[32, 64, 128, 256] };
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
            let (mut first, mut begun) = (0, 0);
            let programs = |ssd: &Ssd| ssd.counters().programs.iter().flatten().sum::<u64>();
            while id < 3 * sectors {
                while ssd.outstanding() < 32 {
                    // The first pass fills the device.
                    let lsn = if id < sectors { id } else { draw.below(sectors) };
                    let (op, sectors, now) = (Op::Write, 1, ssd.now());
                    ssd.submit(now, &Command { id, op, lsn, sectors, fua: false, stream: 0, data: &[] });
                    id += 1;
                    if id == sectors {
                        (first, begun) = (ssd.stats().checkpoint_pages, programs(&ssd));
                    }
                }
                let next = ssd.next_event().expect("writes are under way");
                ssd.advance(next, &mut done);
                done.clear();
            }
            let share = (ssd.stats().checkpoint_pages - first) as f64 / (programs(&ssd) - begun) as f64;
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
