//! Goal: every read returns the last write, on devices so small that garbage collection, wear
//! levelling and full-device conditions happen all the time.
//! Method: seeded random traffic against the oracle, several requests in flight, structural checks
//! along the way, over a set of very different devices.

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};

mod devices;
use devices::small_devices;

/// Random traffic of `requests` requests against `ssd`; every read is checked.
fn torture(ssd: &mut Ssd, oracle: &mut Oracle, draw: &mut Stream, requests: u64, first_id: u64) {
    let sectors = ssd.layout().logical_sectors;
    let spp = u64::from(ssd.config().geometry.sectors_per_page());
    let mut done: Vec<Completion> = Vec::new();
    let mut now = ssd.now();
    for id in first_id..first_id + requests {
        let depth = 1 + draw.below(8) as u32;
        while ssd.outstanding() >= depth {
            let next = ssd.next_event().expect("the device is stuck");
            ssd.advance(next, &mut done);
            now = now.max(next);
            done.drain(..).for_each(|c| oracle.completed(&c));
        }
        if draw.chance(0.1) {
            now += draw.below(2_000_000);
            ssd.advance(now, &mut done);
            done.drain(..).for_each(|c| oracle.completed(&c));
        }
        let length = match draw.below(10) {
            0..=4 => 1 + draw.below(spp),
            5..=7 => spp,
            8 => 1 + draw.below(4 * spp),
            _ => spp + draw.below(spp),
        }
        .min(sectors);
        // Half of the traffic hits a tenth of the device.
        let span = if draw.chance(0.5) { sectors / 10 + 1 } else { sectors };
        let lsn = draw.below(span).min(sectors - length);
        let lsn = if draw.chance(0.3) { lsn / spp * spp } else { lsn };
        let op = match draw.below(100) {
            0..=29 => Op::Read,
            30..=91 => Op::Write,
            92..=97 => Op::Trim,
            _ => Op::Flush,
        };
        let data = if op == Op::Write { oracle.contents(lsn, length) } else { vec![] };
        let command = Command {
            id,
            op,
            lsn: if op == Op::Flush { 0 } else { lsn },
            sectors: if op == Op::Flush { 0 } else { length },
            fua: op == Op::Write && draw.chance(0.05),
            stream: 0,
            data: &data,
        };
        oracle.submitted(&command);
        ssd.submit(now, &command);
        if id % 997 == 0 {
            ssd.check();
        }
    }
    while ssd.outstanding() > 0 {
        let next = ssd.next_event().expect("the device is stuck");
        ssd.advance(next, &mut done);
        done.drain(..).for_each(|c| oracle.completed(&c));
    }
    ssd.check();
}

fn run(config: &DeviceConfig, seed: u64, requests: u64) -> (Ssd, Oracle) {
    let mut ssd = Ssd::new(config, UNIT, seed).expect("a valid device");
    let mut oracle = Oracle::new(ssd.layout().logical_sectors);
    torture(&mut ssd, &mut oracle, &mut Stream::new(seed, "torture"), requests, 0);
    (ssd, oracle)
}

#[test]
fn reads_return_the_last_write() {
    for (name, config) in small_devices() {
        let (ssd, oracle) = run(&config, 1, 20_000);
        assert_eq!(oracle.mismatches, 0, "{name}: {:?}", oracle.first);
        assert!(oracle.checked > 5_000, "{name}: only {} sectors were checked", oracle.checked);
        assert!(ssd.stats().gc_invocations > 50, "{name}: hardly any garbage collection");
        println!("{name}: {} sectors, {:016x}, {:?}", oracle.checked, ssd.digest(), ssd.stats());
    }
}

#[test]
fn the_same_seed_gives_the_same_digest() {
    for (name, config) in small_devices() {
        let digest = |seed| run(&config, seed, 3_000).0.digest();
        assert_eq!(digest(5), digest(5), "{name}");
        assert_ne!(digest(5), digest(6), "{name}");
    }
}

#[test]
fn power_cuts_lose_nothing_that_was_flushed() {
    for (name, config) in small_devices() {
        let mut draw = Stream::new(3, name);
        let mut ssd = Ssd::new(&config, UNIT, 3).expect("a valid device");
        let mut oracle = Oracle::new(ssd.layout().logical_sectors);
        for cut in 0..60 {
            torture(&mut ssd, &mut oracle, &mut draw, 150, cut * 1_000_000);
            // Some more traffic, cut in the middle of whatever is under way.
            let mut done = vec![];
            let sectors = ssd.layout().logical_sectors;
            for id in 0..draw.below(30) {
                let lsn = draw.below(sectors);
                let length = (1 + draw.below(16)).min(sectors - lsn);
                let data = oracle.contents(lsn, length);
                let command = Command {
                    id: cut * 1_000_000 + 500_000 + id,
                    op: Op::Write,
                    lsn,
                    sectors: length,
                    fua: draw.chance(0.2),
                    stream: 0,
                    data: &data,
                };
                oracle.submitted(&command);
                let now = ssd.now();
                ssd.submit(now, &command);
                for _ in 0..draw.below(20) {
                    if let Some(next) = ssd.next_event() {
                        ssd.advance(next, &mut done);
                        done.drain(..).for_each(|c| oracle.completed(&c));
                    }
                }
            }
            ssd = Ssd::power_on(&config, ssd.cut_power(), 3).expect("a valid device");
            ssd.check();
            let contents = read_all(&mut ssd);
            oracle.power_cut(&contents);
            assert_eq!(oracle.mismatches, 0, "{name}, cut {cut}: {:?}", oracle.first);
        }
    }
}

fn read_all(ssd: &mut Ssd) -> Vec<u8> {
    let mut done = vec![];
    let sectors = ssd.layout().logical_sectors;
    let command = Command { id: u64::MAX, op: Op::Read, lsn: 0, sectors, fua: false, stream: 0, data: &[] };
    let now = ssd.now();
    ssd.submit(now, &command);
    while done.is_empty() {
        let next = ssd.next_event().expect("a read is under way");
        ssd.advance(next, &mut done);
    }
    std::mem::take(&mut done[0].data)
}
