//! Goal: what a drive wrote adds up at any moment: streams and parity to what the flash programmed, the parts of
//! write amplification to the whole, also while units lie in pages that are not programmed yet.
//! Method: random traffic on every small device, looked at every few requests, in windows that begin anywhere and through
//! power cuts, against the flash's own count of programs; and a drive whose pages are worked out on paper.

use nandle_lab::measure::{per_stream, waf_parts};
use nandle_random::Stream;
use nandle_ssd::nand::Cause;
use nandle_ssd::{Command, DeviceConfig, Op, Ssd};

use crate::devices;
use crate::drive;
use drive::{closed, one, programs, settle};

/// Streams, parts and flash agree; whether some units were placed that the flash has not programmed.
fn adds_up(ssd: &Ssd, what: &str) -> bool {
    let (config, stats, counters) = (ssd.config(), ssd.stats_programmed(), ssd.counters());
    let page = u64::from(config.geometry.page_bytes);
    let programmed = programs(ssd) * page;
    let parity = counters.programs[Cause::Parity as usize].iter().sum::<u64>() * page;
    let written = stats.bytes[Op::Write as usize].max(1);
    let streams = per_stream(config, &stats, written);
    let media: u64 = streams.iter().map(|stream| stream.media_bytes).sum();
    assert_eq!(media + parity, programmed, "{what}: streams and parity are not what was programmed");
    let p = waf_parts(config, &stats, counters, written);
    let parts = p.host + p.padding + p.gc + p.merge + p.map + p.meta + p.parity;
    let waf = programmed as f64 / written as f64;
    assert!((parts - waf).abs() < 1e-9 * waf.max(1.0), "{what}: {parts} is not {waf}");
    let host: u64 = streams.iter().map(|stream| stream.host_bytes).sum();
    assert_eq!(host, stats.host_sectors_programmed * u64::from(config.geometry.sector_bytes), "{what}");
    stats.streams != ssd.stats().streams
}

/// So many random requests, some under way when they end.
fn traffic(ssd: &mut Ssd, draw: &mut Stream, count: u64) {
    let sectors = ssd.layout().logical_sectors;
    let spp = u64::from(ssd.config().geometry.sectors_per_page());
    let timed = ssd.config().scheme.has("by-time");
    let mut done = vec![];
    for id in 0..count {
        let op = match draw.below(40) {
            0 => Op::Flush,
            1 | 2 => Op::Trim,
            3..=9 => Op::Read,
            _ => Op::Write,
        };
        let length = if draw.chance(0.5) { 1 + draw.below(spp) } else { 1 + draw.below(2 * spp) };
        let span = if draw.chance(0.5) { sectors / 10 + 1 } else { sectors };
        let lsn = draw.below(span).min(sectors - length);
        let (lsn, length) = if op == Op::Flush { (0, 0) } else { (lsn, length) };
        let stream = if timed { 0 } else { draw.below(4) as u16 };
        let now = ssd.now();
        ssd.submit(now, &Command { id, op, lsn, sectors: length, fua: false, stream, data: &[] });
        while ssd.outstanding() > 6 {
            let next = ssd.next_event().expect("the device is stuck");
            ssd.advance(next, &mut done);
        }
    }
}

fn at_any_moment(name: &str, config: &DeviceConfig, seed: u64) -> (bool, bool) {
    let mut ssd = Ssd::new(config, 0, seed).expect("a valid device");
    let mut draw = Stream::new(seed, "parts");
    let mut apart = (false, false);
    for n in 0..160 {
        let count = 1 + draw.below(25);
        traffic(&mut ssd, &mut draw, count);
        let what = format!("{name}, step {n}");
        let open = adds_up(&ssd, &what);
        apart.0 |= open;
        if n % 23 == 22 {
            ssd.reset_counters();
            adds_up(&ssd, &format!("{what}, counted anew"));
        } else if n % 37 == 36 {
            ssd = ssd.power_cycle(seed + n).expect("a valid device");
            adds_up(&ssd, &format!("{what}, after a power cut"));
            apart.1 |= open;
        }
    }
    one(&mut ssd, Op::Flush, 0, 0);
    settle(&mut ssd);
    adds_up(&ssd, &format!("{name}, at the end"));
    apart
}

#[test]
fn streams_and_parts_add_up_on_every_drive_at_any_moment() {
    let mut open = [0, 0];
    for (seed, (name, config)) in (1..).zip(devices::small_devices()) {
        let (some, cut) = at_any_moment(name, &config, seed);
        open[0] += u32::from(some);
        open[1] += u32::from(cut);
        assert!(!some || config.mapping.unit_bytes < config.geometry.page_bytes, "{name} has no open pages");
    }
    assert!(open[0] >= 10 && open[1] > 0, "too few drives with open pages: {open:?}");
}

#[test]
fn programs_that_are_repeated_count_for_their_stream() {
    for (name, config) in devices::small_devices_of("units") {
        let mut config = config;
        config.op_ratio *= 1.5;
        config.faults.program_rate = 0.002;
        at_any_moment(name, &config, 7);
    }
}

#[test]
fn what_lies_in_an_open_page_is_not_programmed() {
    let mut config = devices::base();
    let g = &mut config.geometry;
    (g.channels, g.planes_per_die) = (1, 1);
    (g.page_bytes, g.sector_bytes, g.pages_per_block, g.blocks_per_plane) = (16384, 4096, 16, 24);
    config.mapping.unit_bytes = 4096;
    config.recovery.checkpoint_interval = 0;
    config.buffer.bytes = 64 << 10;
    let mut between = 0;
    for count in 60..72 {
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        closed(&mut ssd, 1, count, |n| (Op::Write, n, 1));
        settle(&mut ssd);
        // Sectors are units: pages that filled up hold four of the host's, and nothing else.
        let stats = ssd.stats_programmed();
        assert_eq!(stats.host_sectors_programmed, 4 * programs(&ssd), "{count} writes");
        let parts = waf_parts(&config, &stats, ssd.counters(), count * 4096);
        assert_eq!((parts.host, parts.padding), (programs(&ssd) as f64 * 4.0 / count as f64, 0.0));
        between += u32::from(ssd.stats().host_sectors_programmed > stats.host_sectors_programmed);
        one(&mut ssd, Op::Flush, 0, 0);
        assert_eq!(ssd.stats_programmed().host_sectors_programmed, count);
        assert_eq!(programs(&ssd), count.div_ceil(4), "padded once");
    }
    assert!(between > 0, "no page was open");
}
