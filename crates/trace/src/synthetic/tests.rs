//! What holds for every named workload.

use super::measure::{Stats, drain, target};
use super::*;
use crate::{Op, Request, Source};

/// Names to try: those that need an argument get one.
fn names() -> impl Iterator<Item = String> {
    list().iter().map(|(name, _)| name.split('[').next().unwrap().replace("PCT", "50"))
}

#[test]
fn every_name_generates_what_was_asked_on_small_and_large_devices() {
    for name in names() {
        for logical_bytes in [64 << 20, 3_000_000_000, 1 << 44] {
            if logical_bytes == 1 << 44
                && ["gc", "sequential", "mixed", "random-read"].iter().any(|p| name.starts_with(p))
            {
                continue; // fills the device first
            }
            let target = Target { logical_bytes, ..target(0, 2000) };
            // Objects of 2 MiB and more need room.
            let objects = ["fio-2m", "rocksdb", "f2fs", "mysql", "kv-cache"];
            if logical_bytes == 64 << 20 && objects.iter().any(|p| name.starts_with(p)) {
                continue;
            }
            let mut workload = named(&name, &target).unwrap();
            assert_eq!(workload.name, name);
            let last = workload.phases.pop().unwrap();
            let requests = drain(last.into_source());
            assert_eq!(requests.len(), 2000, "{name} on {logical_bytes}");
            assert!(
                requests
                    .iter()
                    .all(|r| (r.bytes > 0 || r.op == Op::Flush) && r.offset + r.bytes <= logical_bytes),
                "{name}"
            );
            assert!(requests.is_sorted_by_key(|r| r.time_ns), "{name}");
        }
    }
}

#[test]
fn a_workload_is_a_function_of_its_name_and_seed() {
    for name in names() {
        let draw = |seed| {
            let workload = named(&name, &Target { seed, ..target(1 << 30, 500) }).unwrap();
            drain(workload.phases.into_iter().next_back().unwrap().into_source())
        };
        assert_eq!(draw(1), draw(1), "{name}");
        if name != "sequential-write" {
            assert_ne!(draw(1), draw(2), "{name}");
        }
    }
}

#[test]
fn published_counts_are_the_default() {
    for (name, _) in list() {
        if let Some(Published { requests: Some(requests), .. }) = published(name) {
            let target = Target { requests: None, ..target(1 << 40, 0) };
            assert_eq!(named(name, &target).unwrap().phases[0].requests, Some(requests as u64), "{name}");
        }
    }
}

#[test]
fn small_devices_scale_the_footprint_and_say_so() {
    let full = Target { requests: None, ..target(256 << 20, 0) };
    let workload = named("prn", &full).unwrap();
    assert!(workload.notes.iter().any(|n| n.contains("scaled")), "{:?}", workload.notes);
    let mut some = Vec::new();
    let mut source = workload.into_source();
    while some.len() < 300_000 {
        source.fill(&mut some, 10_000).unwrap();
    }
    assert!(some.iter().all(|r| r.offset + r.bytes <= 256 << 20));
}

#[test]
fn common_is_the_workload_that_peers_ran() {
    let logical_bytes = 29 << 30;
    let stats = Stats::of("common", &target(logical_bytes, 200_000));
    assert!((stats.write_share() - 0.7).abs() < 0.005);
    assert!(stats.requests.iter().enumerate().all(|(i, r)| r.time_ns == i as u64 * 20_000));
    assert!(stats.requests.iter().all(|r| r.bytes == 4096 && r.offset % 4096 == 0));
    let furthest = stats.requests.iter().map(|r| r.offset).max().unwrap() as f64 / logical_bytes as f64;
    assert!((0.599..=0.6).contains(&furthest), "{furthest}");
}

#[test]
fn gc_fills_and_then_overwrites_four_times_with_replacement() {
    let device = |raw: u64, spare: u64| raw / 8192 * (100 - spare) / 100 * 8192;
    for (name, spare, millions) in [("gc20", 20, 2.10), ("gc10", 10, 2.36)] {
        let target = Target { requests: None, ..target(device(4 << 30, spare), 0) };
        let workload = named(name, &target).unwrap();
        let total: u64 = workload.phases.iter().map(|p| p.requests.unwrap()).sum();
        assert!((total as f64 / 1e6 - millions).abs() < 0.005, "{name}: {total}");
    }
    let pages = 4096;
    let workload = named("gc20", &Target { requests: None, ..target(pages * 8192, 0) }).unwrap();
    let requests = drain(workload.into_source());
    assert_eq!(requests.len() as u64, 5 * pages);
    assert!(requests.iter().all(|r| r.op == Op::Write && r.bytes == 8192));
    assert!(requests[..pages as usize].iter().enumerate().all(|(i, r)| r.offset == i as u64 * 8192));
    let mut hits = vec![0; pages as usize];
    requests[pages as usize..].iter().for_each(|r| hits[(r.offset / 8192) as usize] += 1);
    // Four draws a page with replacement leave e^-4 of the pages untouched.
    let missed = hits.iter().filter(|&&h| h == 0).count() as f64 / pages as f64;
    assert!((missed - (-4.0_f64).exp()).abs() < 0.008, "{missed}");
}

#[test]
fn unknown_names_and_arguments_are_explained() {
    let message = |name: &str| named(name, &target(1 << 30, 1)).unwrap_err().to_string();
    assert_eq!(message("tpc"), "no workload is called \"tpc\": did you mean tpcc, tpce, cfs?");
    assert!(message("randomwrite").contains("random-write"), "{}", message("randomwrite"));
    assert_eq!(message("gc20:5"), "gc20 takes no argument, but \"5\" was given");
    assert!(message("waflash-fig1").contains("waflash-fig1:PCT"));
    let tiny = Target { logical_bytes: 4096, ..target(0, 1) };
    assert!(named("common", &tiny).unwrap_err().to_string().contains("too small"));
}

/// The generator must not be what a simulation waits for. The bound is generous: a shared machine.
#[test]
fn common_is_generated_fast() {
    let mut source = named("common", &target(29 << 30, 5_000_000)).unwrap().into_source();
    let (mut out, mut count) = (Vec::with_capacity(4096), 0);
    let start = std::time::Instant::now();
    loop {
        out.clear();
        source.fill(&mut out, 4096).unwrap();
        if out.is_empty() {
            break;
        }
        count += out.len();
    }
    let rate = count as f64 / start.elapsed().as_secs_f64();
    println!("{:.1} million requests a second", rate / 1e6);
    assert!(rate > 2e6, "{rate}");
}

/// FNV-1a over the fields of requests.
fn digest(requests: &[Request]) -> u64 {
    requests.iter().fold(0xcbf2_9ce4_8422_2325, |hash, r| {
        [r.time_ns, r.offset, r.bytes, r.op as u64]
            .iter()
            .fold(hash, |h: u64, &word| (h ^ word).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29))
    })
}

/// The first requests of every named workload. A change here changes every result that users have
/// published with these names: the commit must say why. `GOLDEN=write` rewrites the file.
#[test]
fn workloads_never_change() {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/src/synthetic/golden.txt");
    let lines: Vec<String> = names()
        .map(|name| {
            let workload = named(&name, &target(1 << 30, 20_000)).unwrap();
            let requests = drain(workload.phases.into_iter().next_back().unwrap().into_source());
            format!("{:016x} {name}\n", digest(&requests))
        })
        .collect();
    let text = lines.concat();
    if std::env::var_os("GOLDEN").is_some_and(|v| v == "write") {
        std::fs::write(path, &text).unwrap();
    }
    assert_eq!(std::fs::read_to_string(path).unwrap(), text);
}

#[test]
fn twins_are_generated_fast_enough() {
    for name in ["prxy", "lun1", "msnfs", "filebench-fileserver"] {
        let mut source = named(name, &target(29 << 30, 500_000)).unwrap().phases.pop().unwrap().into_source();
        let mut out = Vec::with_capacity(500_000);
        let start = std::time::Instant::now();
        while out.len() < 500_000 {
            source.fill(&mut out, 4096).unwrap();
        }
        let rate = 0.5 / start.elapsed().as_secs_f64();
        println!("{name}: {rate:.1} million requests a second");
        assert!(rate > 0.2, "{name}: {rate}");
    }
}
