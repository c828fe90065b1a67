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
        if !["sequential-write", "sequential-read", "ssdiq-sequential"].contains(&name.as_str()) {
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

/// Writes of the measured phase, by block of `block` bytes.
fn blocks_written(name: &str, logical_bytes: u64, block: u64) -> Vec<u64> {
    let target = Target { requests: None, ..target(logical_bytes, 0) };
    let mut workload = named(name, &target).unwrap();
    let requests = drain(workload.phases.pop().unwrap().into_source());
    assert!(requests.iter().all(|r| r.op == Op::Write && r.offset % block == 0 && r.bytes == block));
    requests.iter().map(|r| r.offset / block).collect()
}

fn counts(blocks: &[u64], of: usize) -> Vec<u32> {
    let mut counts = vec![0; of];
    blocks.iter().for_each(|&b| counts[b as usize] += 1);
    counts
}

const SMALL_DRIVE: u64 = 64 << 20;

#[test]
fn permutations_cover_every_block_once_a_pass() {
    for (name, block) in [("ssdiq-permutation:writes=3,used=50%", 4096), ("warp-passes:writes=4", 128 << 10)]
    {
        let share = if name.contains("50%") { 2 } else { 1 };
        let blocks = (SMALL_DRIVE / block / share) as usize;
        let written = blocks_written(name, SMALL_DRIVE, block);
        let passes: Vec<&[u64]> = written.chunks(blocks).collect();
        assert_eq!(passes.len(), if share == 2 { 3 } else { 4 });
        for pass in &passes {
            assert!(counts(pass, blocks).iter().all(|&n| n == 1), "{name}");
            let ascents = pass.windows(2).filter(|w| w[0] < w[1]).count() as f64 / blocks as f64;
            assert!((ascents - 0.5).abs() < 0.06, "{name}: {ascents}");
        }
        assert_ne!(passes[0], passes[1], "{name}: a fresh order each pass");
    }
}

#[test]
fn uniform_writes_draw_with_replacement_in_the_used_range() {
    let blocks = (SMALL_DRIVE / 4096 / 2) as usize;
    let written = blocks_written("ssdiq-uniform:used=0.5,writes=2", SMALL_DRIVE, 4096);
    assert_eq!(written.len(), 2 * blocks);
    let missed = counts(&written, blocks).iter().filter(|&&n| n == 0).count() as f64 / blocks as f64;
    assert!((missed - (-2.0_f64).exp()).abs() < 0.01, "{missed}");
}

#[test]
fn scattered_zipf_has_its_frequencies_and_lies_everywhere() {
    let blocks = (SMALL_DRIVE / 4096) as usize;
    let sum: f64 = (1..=blocks).map(|k| (k as f64).powf(-0.9)).sum();
    for scatter in [1, 0] {
        let name = format!("ssdiq-zipf:theta=0.9,writes=20,scatter={scatter}");
        let written = blocks_written(&name, SMALL_DRIVE, 4096);
        let mut counts = counts(&written, blocks);
        let first_half = counts[..blocks / 2].iter().sum::<u32>() as f64 / written.len() as f64;
        if scatter == 1 {
            assert!((first_half - 0.5).abs() < 0.15, "{first_half}");
            counts.sort_unstable_by(|a, b| b.cmp(a));
        } else {
            assert!(first_half > 0.87, "{first_half}");
        }
        for ranks in [1, 10, 100, 1000] {
            let want = (1..=ranks).map(|k| (k as f64).powf(-0.9)).sum::<f64>() / sum;
            let got = f64::from(counts[..ranks].iter().sum::<u32>()) / written.len() as f64;
            assert!((got / want - 1.0).abs() < 0.03, "{name}, {ranks} ranks: {got}, want {want}");
        }
    }
}

#[test]
fn zones_get_their_share_of_the_writes_and_are_scattered() {
    let blocks = (SMALL_DRIVE / 4096) as usize;
    let written = blocks_written("ssdiq-zones:zones=90/10:10/50:0/40,writes=20", SMALL_DRIVE, 4096);
    let counts = counts(&written, blocks);
    // 180 and 4 writes a block, and none.
    let hot: Vec<usize> = (0..blocks).filter(|&b| counts[b] > 90).collect();
    assert!((hot.len() as f64 / blocks as f64 - 0.1).abs() < 0.001, "{} hot blocks", hot.len());
    assert!(
        (hot.iter().map(|&b| u64::from(counts[b])).sum::<u64>() as f64 / written.len() as f64 - 0.9).abs()
            < 0.01
    );
    // Read-only blocks, and e^-4 of those that get four.
    let untouched = counts.iter().filter(|&&n| n == 0).count() as f64 / blocks as f64;
    assert!((untouched - 0.4 - 0.5 * (-4.0_f64).exp()).abs() < 0.01, "{untouched}");
    let below = hot.iter().filter(|&&b| b < blocks / 2).count() as f64 / hot.len() as f64;
    assert!((below - 0.5).abs() < 0.05, "{below}");
}

#[test]
fn open_zones_are_appended_to_and_replaced() {
    let (block, zone_blocks, active) = (512 << 10, 6_u64, 3);
    let written = blocks_written("ssdiq-seq-zones:active=3,zone=3m,writes=10,discard=0", SMALL_DRIVE, block);
    let zones = SMALL_DRIVE / block / zone_blocks;
    let mut open: std::collections::BTreeMap<u64, u64> = Default::default();
    for block in &written {
        let (zone, at) = (block / zone_blocks, block % zone_blocks);
        assert!(zone < zones, "what is left below one zone is not written");
        let next = open.entry(zone).or_default();
        assert_eq!(at, *next, "in order within its zone");
        *next += 1;
        if *next == zone_blocks {
            open.remove(&zone);
        }
        assert!(open.len() <= active);
    }
    let counts = counts(&written, (zones * zone_blocks) as usize);
    assert!(counts.iter().all(|&n| n > 0), "every zone comes");

    // The same writes, each zone discarded before its first.
    let target = Target { requests: None, ..target(SMALL_DRIVE, 0) };
    let mut workload = named("ssdiq-seq-zones:active=3,zone=3m,writes=10", &target).unwrap();
    let requests = drain(workload.phases.pop().unwrap().into_source());
    let writes: Vec<u64> = requests.iter().filter(|r| r.op == Op::Write).map(|r| r.offset / block).collect();
    let common = writes.len().min(written.len());
    assert!(written.len() - common <= active && writes[..common] == written[..common]);
    for (at, request) in requests.iter().enumerate() {
        let first = request.offset % (zone_blocks * block) == 0;
        match request.op {
            Op::Trim => {
                assert!(first && request.bytes == zone_blocks * block);
                assert!(requests.get(at + 1).is_none_or(|next| next.offset == request.offset));
            }
            _ => assert_eq!(first, at > 0 && requests[at - 1].op == Op::Trim, "request {at}"),
        }
    }
}

#[test]
fn three_streams_keep_to_their_ranges_and_handles() {
    let target = Target { requests: None, ..target(SMALL_DRIVE, 0) };
    let border = SMALL_DRIVE * 9 / 10 / (128 << 10) * (128 << 10);
    for (handles, j, r) in [("none", 0, 0), ("shared", 0, 1), ("separate", 2, 1)] {
        let name = format!("warp-streams:handles={handles},law=zoned,writes=4");
        let mut workload = named(&name, &target).unwrap();
        let users = workload.phases.pop().unwrap();
        let depths: Vec<_> = users.users.iter().map(|u| u.replay).collect();
        assert_eq!(depths, [1, 32, 32].map(|iodepth| Replay::Closed { iodepth }));
        let requests = drain(users.into_source());
        let total: u64 = requests.iter().map(|r| r.bytes).sum();
        assert!(total <= 4 * SMALL_DRIVE && total > 4 * SMALL_DRIVE - (128 << 10), "{total}");
        let (large, small): (Vec<Request>, Vec<Request>) = requests.iter().partition(|r| r.bytes > 4096);
        assert!(large.iter().all(|l| l.stream == 0 && l.offset + l.bytes <= border));
        let (random, skewed): (Vec<Request>, Vec<Request>) =
            small.into_iter().partition(|r| r.offset >= border);
        assert!(random.iter().all(|x| x.stream == r) && skewed.iter().all(|x| x.stream == j), "{name}");
        // In turns, a request each; the last bytes are too few for a large one.
        assert!(random.len().abs_diff(skewed.len()) < 40 && random.len().abs_diff(large.len()) < 40);
        let first = skewed.iter().filter(|r| r.offset < border / 5).count() as f64 / skewed.len() as f64;
        assert!((first - 0.8).abs() < 0.05, "{first}");
    }
}

#[test]
fn streams_keep_to_shares_that_are_given() {
    let target = Target { requests: None, ..target(SMALL_DRIVE, 0) };
    let mut workload = named("warp-streams:shares=60/15/25,writes=4", &target).unwrap();
    let requests = drain(workload.phases.pop().unwrap().into_source());
    for (handle, share) in [(0, 0.60), (2, 0.15), (1, 0.25)] {
        let of = requests.iter().filter(|r| r.stream == handle).map(|r| r.bytes).sum::<u64>() as f64;
        let got = of / (4.0 * SMALL_DRIVE as f64);
        assert!((got - share).abs() < 0.01, "{handle}: {got}");
    }
}

/// Writes and reads a second that the logs of SSD-iq have at offered rates that the drives kept up with.
#[test]
fn load_comes_at_the_rates_of_the_logs() {
    for (rate, writes, reads) in [(10_000, 9_953.0, 5_050.0), (20_000, 19_853.0, 5_150.0)] {
        let name = format!("ssdiq-load:rate={rate}");
        let mut workload = named(&name, &target(SMALL_DRIVE, 150_000)).unwrap();
        let requests = drain(workload.phases.pop().unwrap().into_source());
        let seconds = requests.last().unwrap().time_ns as f64 / 1e9;
        let got = |op| requests.iter().filter(|r| r.op == op).count() as f64 / seconds;
        assert!((got(Op::Write) / writes - 1.0).abs() < 0.01, "{rate}: {}", got(Op::Write));
        assert!((got(Op::Read) / reads - 1.0).abs() < 0.01, "{rate}: {}", got(Op::Read));
    }
}

#[test]
fn arguments_of_measured_workloads_are_explained() {
    let message = |name: &str| named(name, &target(1 << 30, 1)).unwrap_err().to_string();
    for (name, want) in [
        ("ssdiq-uniform:used", "ssdiq-uniform: \"used\": expected KEY=VALUE"),
        ("ssdiq-uniform:used=0", "ssdiq-uniform: used=0: expected a share above 0"),
        ("ssdiq-uniform:theta=1", "ssdiq-uniform: no argument is called \"theta\"; expected used, block"),
        ("ssdiq-zones:zones=50/50:20/50", "ssdiq-zones: zones=50/50:20/50: expected shares"),
        ("ssdiq-seq-zones:zone=1g", "ssdiq-seq-zones: zone=1073741824: expected more than 1 zones"),
        ("ssdiq-seq-zones:zone=700", "ssdiq-seq-zones: zone=700: expected a multiple of 524288"),
        ("warp-streams:handles=all", "warp-streams: handles=all: expected none, shared or separate"),
        ("warp-streams:law=zipf:1", "warp-streams: law=zipf:1: expected uniform, zoned"),
    ] {
        let got = message(name);
        assert!(got.starts_with(want), "{name}\n  got {got}\n want {want}");
    }
}
