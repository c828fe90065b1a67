//! Random traffic against the oracle, with and without power cuts.

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::nand::Silicon;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd, Status};

/// Random traffic of `requests` requests against `ssd`; every read is checked.
pub fn torture(ssd: &mut Ssd, oracle: &mut Oracle, draw: &mut Stream, requests: u64, first_id: u64) {
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
        let stream = if ssd.config().scheme.has("by-time") { 0 } else { draw.below(4) as u16 };
        let op = match draw_object(ssd, draw) {
            Some(of_objects) if op == Op::Write => of_objects,
            _ => op,
        };
        let data = if op == Op::Write { oracle.contents(lsn, length) } else { vec![] };
        let command = Command {
            id,
            op,
            lsn: if op == Op::Flush { 0 } else { lsn },
            sectors: if op == Op::Flush { 0 } else { length },
            fua: op == Op::Write && draw.chance(0.05),
            stream,
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
    oracle.at_rest();
    ssd.check();
}

/// What a write becomes now and then where objects are known.
fn draw_object(ssd: &Ssd, draw: &mut Stream) -> Option<Op> {
    match ssd.knows_objects().then(|| draw.below(40))? {
        0 => Some(Op::FlashAlloc),
        1 => Some(Op::FlashFree),
        _ => None,
    }
}

/// A new device under `requests` requests of such traffic.
pub fn run(config: &DeviceConfig, seed: u64, requests: u64) -> (Ssd, Oracle) {
    let mut ssd = Ssd::new(config, UNIT, seed).expect("a valid device");
    let mut oracle = Oracle::of(&ssd);
    torture(&mut ssd, &mut oracle, &mut Stream::new(seed, "torture"), requests, 0);
    (ssd, oracle)
}

/// Bursts of traffic with a power cut in the middle of each; nothing that was durable may be lost.
pub fn cut_power(name: &str, config: &DeviceConfig, seed: u64, cuts: u64) {
    let mut draw = Stream::new(seed, name);
    let mut ssd = Ssd::new(config, UNIT, seed).expect("a valid device");
    let mut oracle = Oracle::of(&ssd);
    for cut in 0..cuts {
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
        ssd = power_on(config, ssd.cut_power(), seed);
        ssd.check();
        let (contents, gone) = read_all(&mut ssd);
        oracle.power_cut(&contents, &gone);
        assert_eq!(oracle.verdict(), Ok(()), "{name}, cut {cut}");
    }
}

/// The drive after a power cut; recovery from the checkpoint and by a scan of everything must find
/// the same map.
pub fn power_on(config: &DeviceConfig, silicon: Silicon, seed: u64) -> Ssd {
    let scanned = Ssd::power_on_by_full_scan(config, silicon.clone(), seed).expect("a valid device");
    let ssd = Ssd::power_on(config, silicon, seed).expect("a valid device");
    let digest = |ssd: &Ssd| ssd.recovery().expect("it was recovered").map;
    assert_eq!(digest(&ssd), digest(&scanned), "the checkpoint says something else than the pages");
    assert_eq!(ssd.objects_live(), scanned.objects_live(), "objects");
    ssd
}

/// Everything the device holds, and what it does not return (first sector, sectors).
pub fn read_all(ssd: &mut Ssd) -> (Vec<u8>, Vec<(u64, u64)>) {
    let mut done = vec![];
    let sectors = ssd.layout().logical_sectors;
    let command = Command { id: u64::MAX, op: Op::Read, lsn: 0, sectors, fua: false, stream: 0, data: &[] };
    let now = ssd.now();
    ssd.submit(now, &command);
    while done.is_empty() {
        let next = ssd.next_event().expect("a read is under way");
        ssd.advance(next, &mut done);
    }
    let read = done.swap_remove(0);
    let lost = if read.unreadable.is_empty() { Status::Ok } else { Status::MediaError };
    assert_eq!((read.id, read.status), (u64::MAX, lost));
    (read.data, read.unreadable)
}
