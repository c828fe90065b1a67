use crate::synthetic::measure::drain;
use crate::synthetic::{Target, named};
use crate::{Op, Request};
use std::collections::{BTreeMap, HashSet};

const NAMES: [&str; 8] =
    ["fio-2m-8", "fio-2m-32", "rocksdb", "rocksdb-x4", "f2fs", "mysql", "rocksdb+mysql", "kv-cache"];

fn target(mib: u64) -> Target {
    Target { logical_bytes: mib << 20, page_bytes: 16_384, sector_bytes: 4096, seed: 7, requests: None }
}

fn requests(name: &str, mib: u64) -> Vec<Request> {
    drain(named(name, &target(mib)).unwrap().into_source())
}

fn bytes(requests: &[Request], op: Op) -> u64 {
    requests.iter().filter(|r| r.op == op).map(|r| r.bytes).sum()
}

#[test]
fn every_request_is_on_the_device_and_whole_blocks() {
    for name in NAMES {
        let all = requests(name, 512);
        assert!(all.len() > 4000, "{name}: {}", all.len());
        assert!(all.iter().all(|r| r.offset + r.bytes <= 512 << 20), "{name} leaves the device");
        assert!(all.iter().all(|r| r.bytes % 4096 == 0 && r.offset % 4096 == 0), "{name}");
        assert!(all.iter().all(|r| r.bytes > 0 || r.op == Op::Flush), "{name}");
    }
}

/// Live objects never overlap: their ranges are trimmed, or used up, before they are named again.
#[test]
fn objects_are_disjoint_and_written_where_they_were_named() {
    for name in NAMES {
        let mut live: BTreeMap<u64, (u64, u64)> = BTreeMap::new();
        let mut named_objects = HashSet::new();
        for r in requests(name, 512) {
            let end = r.offset + r.bytes;
            let overlapping = |live: &BTreeMap<u64, (u64, u64)>| -> Vec<u64> {
                live.range(..end).rev().take_while(|(_, e)| e.0 > r.offset).map(|(&s, _)| s).collect()
            };
            match r.op {
                Op::FlashAlloc => {
                    let others = overlapping(&live);
                    // A chunk of fio is named again once it was written wholly.
                    assert!(others.iter().all(|s| live[s].1 == 0), "{name}: {r:?} over a live object");
                    live.retain(|s, _| !others.contains(s));
                    live.insert(r.offset, (end, r.bytes));
                    named_objects.insert(r.object);
                }
                Op::Trim => {
                    let gone = overlapping(&live);
                    live.retain(|s, _| !gone.contains(s));
                }
                Op::Write => {
                    for s in overlapping(&live) {
                        let left = &mut live.get_mut(&s).unwrap().1;
                        *left = left.saturating_sub(r.bytes);
                    }
                }
                _ => {}
            }
        }
        assert!(named_objects.len() > 10, "{name}: {} objects", named_objects.len());
    }
}

/// The drive hears of an object before its first write, whoever writes it.
#[test]
fn an_object_is_announced_before_it_is_written() {
    for name in NAMES.into_iter().filter(|name| !name.starts_with("fio")) {
        let mut written = HashSet::new();
        // What each object still lacks: F2FS announces a segment anew once it was full, and discards none under load.
        let mut lacks: BTreeMap<u64, u64> = BTreeMap::new();
        let mut calls = 0;
        for r in requests(name, 512) {
            let mut blocks = r.offset / 4096..(r.offset + r.bytes) / 4096;
            match r.op {
                Op::Write => {
                    written.extend(blocks);
                    if let Some((_, left)) = lacks.range_mut(..=r.offset).next_back() {
                        *left = left.saturating_sub(r.bytes);
                    }
                }
                Op::Trim => {
                    for block in blocks {
                        written.remove(&block);
                    }
                }
                Op::FlashAlloc => {
                    if name == "f2fs" && lacks.insert(r.offset, r.bytes) == Some(0) {
                        blocks.clone().for_each(|block| _ = written.remove(&block));
                    }
                    assert!(!blocks.any(|block| written.contains(&block)), "{name}: {r:?} comes too late");
                    calls += 1;
                }
                _ => {}
            }
        }
        assert!(calls > 10, "{name}: {calls} calls");
    }
}

#[test]
fn the_stores_fill_the_device() {
    for (name, least) in [("rocksdb-x4", 1.5), ("f2fs", 1.4), ("rocksdb", 1.5)] {
        let all = requests(name, 1024);
        let written = bytes(&all, Op::Write) as f64 / f64::from(1 << 30);
        let mut blocks: HashSet<u64> = HashSet::new();
        for r in &all {
            for block in r.offset / 4096..(r.offset + r.bytes) / 4096 {
                match r.op {
                    Op::Write => drop(blocks.insert(block)),
                    Op::Trim => drop(blocks.remove(&block)),
                    _ => {}
                }
            }
        }
        // Ext4 discards what is deleted, F2FS waits for a drive at rest.
        assert_eq!(all.iter().any(|r| r.op == Op::Trim), name != "f2fs", "{name}");
        let full = blocks.len() as f64 * 4096.0 / f64::from(1 << 30);
        println!("{name}: {written:.1} devices written, {full:.2} full, {} requests", all.len());
        assert!(written > least, "{name} wrote {written} devices");
        assert!(full > 0.85, "{name} ended with {full} of the device");
    }
}

#[test]
fn half_of_mysql_is_doublewrite() {
    let all = requests("mysql", 1024);
    let double: u64 = all.iter().filter(|r| r.op == Op::Write && r.stream == 5).map(|r| r.bytes).sum();
    // The first phase writes the database.
    let database = scaled_database();
    let data = bytes(&all, Op::Write) - double - database;
    assert!((double as f64 / data as f64 - 1.0).abs() < 0.01, "{double} {data}");
    // A batch of 120 pages trims what the one before left in the buffer.
    let trims = all.iter().filter(|r| r.op == Op::Trim).count() as u64;
    assert_eq!(trims, double / (120 * 16_384) - 1);
    // Until the database has outgrown the buffer pool nothing is read, and at last 4 pages of 14 are not in it.
    let first = all.iter().position(|r| r.op == Op::Read).expect("it outgrows the pool");
    let before = bytes(&all[..first], Op::Write) - database;
    let read = bytes(&all, Op::Read) as f64 / data as f64;
    assert!(
        before > database && (0.01..0.28).contains(&read),
        "{before} bytes, then {read} read for each written"
    );
}

fn scaled_database() -> u64 {
    super::scale::scaled(8 << 30, 1 << 20, &target(1024)).div_ceil(16_384) * 16_384
}

#[test]
fn writers_interleave() {
    for (name, least) in [("fio-2m-8", 7.0), ("fio-2m-32", 25.0), ("rocksdb-x4", 4.0), ("kv-cache", 10.0)] {
        let all = requests(name, 512);
        let writes: Vec<u32> = all
            .iter()
            .rev()
            .take(20_000)
            .filter(|r| r.op == Op::Write && r.object > 0)
            .map(|r| r.object)
            .collect();
        let mean = writes.windows(64).map(|w| w.iter().collect::<HashSet<_>>().len() as f64).sum::<f64>()
            / (writes.len() - 63) as f64;
        assert!(mean >= least, "{name}: {mean} objects among 64 writes");
    }
}
