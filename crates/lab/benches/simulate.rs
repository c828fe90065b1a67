//! Requests per second of the drive alone, on the common workloads, and of one of them replayed and measured
//! as `nandle run` does it.
//!
//! `cargo bench -p nandle-lab --bench simulate` times them with criterion; `cargo bench -p nandle-lab --bench simulate -- --once
//! common 200000` carries one out and prints its digest, for instruction counts
//! (`benches/instructions.py`). `scheme-NAME` is a drive with one policy of the list of schemes; `--schemes` names them.

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

use criterion::{BenchmarkId, Criterion, Throughput};
use nandle_lab::config::Wanted;
use nandle_lab::replay::{Progress, Replayer, Watch};
use nandle_lab::workload::Asked;
use nandle_random::Stream;
use nandle_ssd::controller::ControllerConfig;
use nandle_ssd::link::LinkConfig;
use nandle_ssd::schemes::{SchemeConfig, Seam};
use nandle_ssd::{Command, DeviceConfig, Op, Ssd};

#[derive(Clone, Copy)]
struct Workload {
    name: &'static str,
    device: &'static str,
    /// Nanoseconds between arrivals.
    gap: u64,
    requests: u64,
}

const WORKLOADS: [Workload; 10] = [
    Workload { name: "common", device: "common", gap: 20_000, requests: 1_000_000 },
    Workload { name: "gc20", device: "gc20", gap: 200_000, requests: 2_000_000 },
    Workload { name: "gc10", device: "gc10", gap: 200_000, requests: 2_000_000 },
    Workload { name: "sequential-4k", device: "common", gap: 20_000, requests: 1_000_000 },
    Workload { name: REPLAYED, device: "common", gap: 20_000, requests: 1_000_000 },
    Workload { name: "common-machine", device: "common", gap: 20_000, requests: 1_000_000 },
    Workload { name: "gc20-machine", device: "gc20", gap: 200_000, requests: 2_000_000 },
    Workload { name: "gc10-untimed", device: "gc10", gap: 200_000, requests: 2_000_000 },
    Workload { name: "demo", device: "demo", gap: 30_000, requests: 1_000_000 },
    Workload { name: "demo-bare", device: "demo", gap: 30_000, requests: 1_000_000 },
];

/// In front of a policy's name.
const SCHEME: &str = "scheme-";

/// The policies that each have a workload: all of them.
fn schemes() -> Vec<String> {
    SchemeConfig::policies().into_iter().map(|policy| format!("{SCHEME}{}", policy.name)).collect()
}

/// The workload of one policy.
fn of_scheme(name: &str) -> Option<Workload> {
    let policies = SchemeConfig::policies();
    let policy = policies.iter().find(|policy| name.strip_prefix(SCHEME) == Some(policy.name))?;
    Some(Workload { name: policy.name, device: SCHEME, gap: 400_000, requests: 200_000 })
}

/// A small TLC drive that collects, with a buffer where the policy is one of the buffer's.
fn scheme_device(policy: &str) -> DeviceConfig {
    let buffers = SchemeConfig::policies();
    let buffered = buffers.iter().any(|p| p.name == policy && p.seam == Seam::Buffer);
    let mut sets = [
        "geometry.channels=2",
        "geometry.chips_per_channel=1",
        "geometry.blocks_per_plane=64",
        "geometry.pages_per_block=96",
        "op_ratio=0.6",
        "cell.kind=tlc",
        "cell.program_order=relaxed",
        "timing.read_ns=[40000, 60000, 80000]",
        "timing.program_ns=[200000, 600000, 1200000]",
    ]
    .map(String::from)
    .to_vec();
    if buffered {
        sets.push("buffer.bytes=1MiB".into());
    }
    let wanted = Wanted { device: "common", scheme: Some(policy), sets: &sets };
    wanted.load().expect("a drive on which every policy stands").config
}

/// `common` through the replayer.
const REPLAYED: &str = "common-replayed";

fn device(workload: &Workload) -> DeviceConfig {
    if workload.device == SCHEME {
        return scheme_device(workload.name);
    }
    let wanted = Wanted { device: workload.device, ..Wanted::default() };
    let mut config = wanted.load().expect("a preset").config;
    if workload.name.ends_with("-machine") {
        config.link = LinkConfig { mb_s: 3500.0, command_ns: 1000 };
        let costs =
            ControllerConfig { command_ns: 2000, unit_ns: 500, operation_ns: 500, ..Default::default() };
        config.controller = ControllerConfig { cores: 4, ..costs };
    }
    if workload.name.ends_with("-bare") {
        (config.link, config.controller) = Default::default();
    }
    config.timing.untimed = workload.name.ends_with("-untimed");
    if workload.name == "sequential-4k" {
        config.buffer.bytes = 1 << 20; // halves of a page meet in the buffer
    }
    config
}

const LOOK_AHEAD: u64 = 4;

/// The named workload through the replayer; the drive's digest.
fn replay(name: &str, requests: u64) -> u64 {
    let drive = Wanted { device: name, ..Wanted::default() }.load().expect("a preset");
    let asked = Asked { workload: name.into(), requests: Some(requests), seed: 1, ..Asked::default() };
    let prepared = asked.prepare(&drive).expect("a workload");
    let ssd = Ssd::new(&drive.config, 0, 1).expect("a valid device");
    let (stop, mut quiet) = (AtomicBool::new(false), |_: &Progress| {});
    let mut replayer = Replayer::new(ssd, Watch { stop: &stop, progress: &mut quiet });
    replayer.run(prepared.phases).expect("nothing is lost");
    replayer.ssd.digest()
}

/// Carries the workload out and returns the drive's digest.
fn run(workload: &Workload, requests: u64) -> u64 {
    if workload.name == REPLAYED {
        return replay(workload.device, requests);
    }
    let mut ssd = Ssd::new(&device(workload), 0, 1).expect("a valid device");
    let name = workload.name.trim_end_matches("-machine").trim_end_matches("-bare");
    let mut draw = Stream::new(1, name);
    let pages = u64::from(ssd.layout().logical_pages);
    let of_scheme = workload.device == SCHEME;
    let halves = ssd.layout().logical_sectors / 8;
    let mut done = vec![];
    let mut next = move |id: u64| match name {
        // Small requests that lie anywhere, a third of them over a border between pages.
        _ if of_scheme => {
            let op = if draw.chance(0.3) { Op::Read } else { Op::Write };
            (op, draw.below(halves * 8 * 6 / 10), 1 + draw.below(16))
        }
        "common" => {
            let op = if draw.chance(0.3) { Op::Read } else { Op::Write };
            (op, draw.below(halves * 6 / 10) * 8, 8)
        }
        "demo" => (Op::Write, draw.below(halves * 8), 1),
        "sequential-4k" => (Op::Write, id % halves * 8, 8_u64),
        _ => (Op::Write, if id < pages { id } else { draw.below(pages) } * 16, 16),
    };
    // As the replayer does, the drive is told a little ahead where the next requests go.
    let mut window: VecDeque<(Op, u64, u64)> = (0..2 * LOOK_AHEAD).map(&mut next).collect();
    for id in 0..requests {
        let soon = next(id + 2 * LOOK_AHEAD);
        ssd.prefetch_map(soon.1);
        ssd.prefetch_page(window[LOOK_AHEAD as usize].1);
        window.push_back(soon);
        let (op, lsn, sectors) = window.pop_front().expect("the window is full");
        let at = id * workload.gap;
        ssd.advance(at, &mut done);
        done.clear();
        ssd.submit(at, &Command { id, op, lsn, sectors, fua: false, stream: 0, data: &[] });
    }
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    ssd.digest()
}

fn main() {
    let arguments: Vec<String> = std::env::args().collect();
    if arguments.iter().any(|a| a == "--schemes") {
        println!("{}", schemes().join("\n"));
        return;
    }
    if let Some(at) = arguments.iter().position(|a| a == "--once") {
        let name = arguments.get(at + 1).map_or("", String::as_str);
        let kept = WORKLOADS.into_iter().find(|w| w.name == name).or_else(|| of_scheme(name));
        let workload = &kept.expect(
            "common, gc20, gc10, sequential-4k, common-replayed, common-machine, gc20-machine, gc10-untimed, demo, demo-bare or scheme-NAME",
        );
        let requests = arguments.get(at + 2).and_then(|n| n.parse().ok()).unwrap_or(workload.requests);
        println!("{name} {requests} {:016x}", run(workload, requests));
        return;
    }
    let mut criterion = Criterion::default().sample_size(10).configure_from_args();
    let mut group = criterion.benchmark_group("simulate");
    for workload in &WORKLOADS {
        group.throughput(Throughput::Elements(workload.requests));
        group.bench_function(BenchmarkId::from_parameter(workload.name), |b| {
            b.iter(|| run(workload, workload.requests));
        });
    }
    group.finish();
    criterion.final_summary();
}
