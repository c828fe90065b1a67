//! Requests per second of the drive alone, on the common workloads, and of one of them replayed and measured
//! as `nandle run` does it.
//!
//! `cargo bench --bench simulate` times them with criterion; `cargo bench --bench simulate -- --once
//! common 200000` carries one out and prints its digest, for instruction counts
//! (`benches/instructions.py`).

use std::collections::VecDeque;
use std::sync::atomic::AtomicBool;

use criterion::{BenchmarkId, Criterion, Throughput};
use nandle_lab::config::Wanted;
use nandle_lab::replay::{Progress, Replayer, Watch};
use nandle_lab::workload::Asked;
use nandle_random::Stream;
use nandle_ssd::controller::ControllerConfig;
use nandle_ssd::link::LinkConfig;
use nandle_ssd::{Command, DeviceConfig, Op, Ssd};

struct Workload {
    name: &'static str,
    device: &'static str,
    /// Nanoseconds between arrivals.
    gap: u64,
    requests: u64,
}

const WORKLOADS: [Workload; 7] = [
    Workload { name: "common", device: "common", gap: 20_000, requests: 1_000_000 },
    Workload { name: "gc20", device: "gc20", gap: 200_000, requests: 2_000_000 },
    Workload { name: "gc10", device: "gc10", gap: 200_000, requests: 2_000_000 },
    Workload { name: "sequential-4k", device: "common", gap: 20_000, requests: 1_000_000 },
    Workload { name: REPLAYED, device: "common", gap: 20_000, requests: 1_000_000 },
    Workload { name: "common-machine", device: "common", gap: 20_000, requests: 1_000_000 },
    Workload { name: "gc20-machine", device: "gc20", gap: 200_000, requests: 2_000_000 },
];

/// `common` through the replayer.
const REPLAYED: &str = "common-replayed";

fn device(workload: &Workload) -> DeviceConfig {
    let wanted = Wanted { device: workload.device, ..Wanted::default() };
    let mut config = wanted.load().expect("a preset").config;
    if workload.name.ends_with("-machine") {
        config.link = LinkConfig { mb_s: 3500.0, command_ns: 1000 };
        let costs =
            ControllerConfig { command_ns: 2000, unit_ns: 500, operation_ns: 500, ..Default::default() };
        config.controller = ControllerConfig { cores: 4, ..costs };
    }
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
    let name = workload.name.trim_end_matches("-machine");
    let mut draw = Stream::new(1, name);
    let pages = u64::from(ssd.layout().logical_pages);
    let halves = ssd.layout().logical_sectors / 8;
    let mut done = vec![];
    let mut next = move |id: u64| match name {
        "common" => {
            let op = if draw.chance(0.3) { Op::Read } else { Op::Write };
            (op, draw.below(halves * 6 / 10) * 8, 8)
        }
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
    if let Some(at) = arguments.iter().position(|a| a == "--once") {
        let name = arguments.get(at + 1).map_or("", String::as_str);
        let workload = WORKLOADS
            .iter()
            .find(|w| w.name == name)
            .expect("common, gc20, gc10, sequential-4k, common-replayed, common-machine or gc20-machine");
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
