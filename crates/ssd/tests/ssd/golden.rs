//! Goal: a change of behaviour is never an accident, and a run is the same on every machine.
//! Method: the digest of a fixed run of each small device is kept in `golden.txt` beside it; this test
//! runs with debug assertions, and at night without. `GOLDEN=write cargo test -p nandle-ssd --test ssd golden` renews it,
//! and the commit that does so says why.

use nandle_random::Stream;
use nandle_ssd::{Command, Op, Ssd};

use crate::devices;

fn digest(config: &nandle_ssd::DeviceConfig) -> u64 {
    let mut ssd = Ssd::new(config, 0, 11).expect("a valid device");
    let mut draw = Stream::new(11, "golden");
    let mut done = vec![];
    let sectors = ssd.layout().logical_sectors;
    for id in 0..6_000 {
        let at = id * 150_000;
        ssd.advance(at, &mut done);
        let op = match draw.below(20) {
            0..=5 => Op::Read,
            6..=17 => Op::Write,
            18 => Op::Trim,
            _ => Op::Flush,
        };
        let length = 1 + draw.below(24);
        let lsn = draw.below(sectors - length);
        let command = Command { id, op, lsn, sectors: length, fua: draw.chance(0.02), stream: 0, data: &[] };
        ssd.submit(at, &command);
    }
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    assert_eq!(done.len(), 6_000);
    ssd.digest()
}

#[test]
fn digests_do_not_change() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/ssd/golden.txt");
    let mut lines: Vec<String> =
        devices::small_devices().iter().map(|(name, c)| format!("{:016x} {name}\n", digest(c))).collect();
    lines.sort_by(|a, b| a[17..].cmp(&b[17..]));
    let now = lines.concat();
    if std::env::var_os("GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(path, &now).expect("the file can be written");
    }
    let kept = std::fs::read_to_string(path).expect("golden.txt is in the repository");
    assert_eq!(kept, now, "behaviour has changed");
}
