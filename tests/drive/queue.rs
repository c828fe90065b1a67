//! Goal: with `queue.order = "plane"` a write that waits for room in its plane holds back no writes to others, and
//! is itself not starved by them.
//! Method: bursts onto one plane of a full drive, with single writes elsewhere among them; times beside the
//! durations of the device, and beside the same requests in one queue.

use nandle_ssd::config::QueueOrder;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};

use crate::devices;
use crate::drive;
use drive::closed;

const TRANSFER: u64 = 12_000;
const PROGRAM: u64 = 200_000;

/// A full drive of four planes, two on each channel, pages of 8 sectors.
fn full(order: QueueOrder, change: impl Fn(&mut DeviceConfig)) -> (Ssd, u64) {
    let mut config = devices::base();
    config.recovery.checkpoint_interval = 0;
    config.queue.order = order;
    change(&mut config);
    let mut ssd = Ssd::new(&devices::least(config), 0, 1).expect("a valid device");
    let pages = u64::from(ssd.layout().logical_pages) / 4 * 4;
    closed(&mut ssd, 8, pages, |n| (Op::Write, n * 8, 8));
    (ssd, pages)
}

/// Submits `requests` (sector, sectors) at once; when each was complete, counted from then.
fn burst(ssd: &mut Ssd, requests: &[(u64, u64)]) -> Vec<u64> {
    let start = ssd.now();
    for (id, &(lsn, sectors)) in (0..).zip(requests) {
        ssd.submit(start, &Command { id, op: Op::Write, lsn, sectors, fua: false, stream: 0, data: &[] });
    }
    let mut done: Vec<Completion> = vec![];
    ssd.advance(u64::MAX, &mut done);
    assert_eq!(done.len(), requests.len(), "the device is stuck");
    let mut times = vec![0; requests.len()];
    done.iter().for_each(|c| times[c.id as usize] = c.at - start);
    times
}

/// Many writes to the plane of page 0, then one to that of page 1, on a channel of its own.
fn behind_a_burst(order: QueueOrder, buffer: u64) -> (u64, u64) {
    let (mut ssd, pages) = full(order, |c| c.buffer.bytes = buffer);
    let mut requests: Vec<(u64, u64)> = (0..200).map(|n| (n * 20 % pages / 4 * 4 * 8, 8)).collect();
    requests.push(((pages / 4 * 4 - 3) * 8, 8));
    let times = burst(&mut ssd, &requests);
    assert!(ssd.stats().foreground_ns > 0, "the burst never waits for room");
    ssd.check();
    (times[200], *times.iter().max().expect("there are some"))
}

#[test]
fn a_write_to_another_plane_does_not_wait() {
    let (behind, all) = behind_a_burst(QueueOrder::Arrival, 0);
    assert!(behind * 10 > all * 9, "one queue: it waits for all before it: {behind} of {all} ns");
    let (passing, _) = behind_a_burst(QueueOrder::Plane, 0);
    assert_eq!(passing, TRANSFER + PROGRAM);
}

#[test]
fn nobody_is_starved_by_those_who_pass() {
    // A write over all four planes among single ones to each, three times as many as fit beside it.
    let (mut ssd, pages) = full(QueueOrder::Plane, |_| ());
    let mut requests: Vec<(u64, u64)> = (0..400).map(|n| (n * 7 % pages * 8, 8)).collect();
    requests.insert(100, (0, 32));
    let times = burst(&mut ssd, &requests);
    let later = times[101..].iter().filter(|&&time| time < times[100]).count();
    assert!(later < 150, "{later} of 300 later writes were faster than the wide one");
    ssd.check();
}

#[test]
fn what_waits_for_two_planes_is_passed_in_neither() {
    // Plane 0 has much to do; then comes a write over planes 0 and 1, and behind it single ones to plane 1.
    let (mut ssd, pages) = full(QueueOrder::Plane, |_| ());
    let home = |n: u64| n * 20 % pages / 4 * 4;
    let mut requests: Vec<(u64, u64)> = (0..200).map(|n| (home(n) * 8, 8)).collect();
    requests.push((0, 16));
    requests.extend((0..100).map(|n| ((home(n) + 1) * 8, 8)));
    let times = burst(&mut ssd, &requests);
    let earlier = times[201..].iter().filter(|&&time| time < times[200]).count();
    // Once it has its pages, the programs of plane 0 go on for longer.
    assert!(earlier < 50, "{earlier} of 100 later writes to one of its planes passed the write over both");
    ssd.check();
}

#[test]
fn overlapping_writes_stay_in_order() {
    // Checked by content: page 0 waits, the same page again must not be placed before.
    let config = {
        let mut config = devices::base();
        config.queue.order = QueueOrder::Plane;
        config.recovery.checkpoint_interval = 0;
        devices::least(config)
    };
    let mut ssd = Ssd::new(&config, 1, 1).expect("a valid device");
    let pages = u64::from(ssd.layout().logical_pages) / 4 * 4;
    let mut done = vec![];
    let write = |ssd: &mut Ssd, id: u64, page: u64, byte: u8| {
        let (now, data) = (ssd.now(), [byte; 8]);
        let command =
            Command { id, op: Op::Write, lsn: page * 8, sectors: 8, fua: false, stream: 0, data: &data };
        ssd.submit(now, &command);
    };
    for round in 0..3_u8 {
        for page in 0..pages {
            write(&mut ssd, u64::from(round), page, round);
            while ssd.outstanding() > 64 {
                let next = ssd.next_event().expect("the device is stuck");
                ssd.advance(next, &mut done);
            }
        }
    }
    for n in 0..200_u64 {
        write(&mut ssd, n, n % 5 * 4, n as u8);
    }
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    for page in 0..5 {
        let last = (0..200_u64).filter(|n| n % 5 == page).max().expect("there are some") as u8;
        assert_eq!(ssd.contents(page * 4 * 8, 8).0, [last; 8], "page {}", page * 4);
    }
}
