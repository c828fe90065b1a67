//! Lines per second of the readers that matter for long traces. Run with `cargo bench -p nandle-trace`.
#![allow(missing_docs)] // Criterion's macros make public items.

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use nandle_trace::{Options, Source, open};
use std::fmt::Write;
use std::hint::black_box;

const LINES: u64 = 1_000_000;

fn text(line: impl Fn(&mut String, u64)) -> String {
    let mut text = String::new();
    for i in 0..LINES {
        line(&mut text, i);
    }
    text
}

fn parse(c: &mut Criterion) {
    let address = |i: u64| i.wrapping_mul(0x9e37_79b9_7f4a_7c15) % (1 << 27) * 512;
    let op = |i: u64| if i.is_multiple_of(3) { "Read" } else { "Write" };
    let traces = [
        (
            "msr",
            text(|t, i| {
                let time = 128_166_372_003_061_629 + i * 997;
                let _ = writeln!(
                    t,
                    "{time},hm,0,{},{},{},{}",
                    op(i),
                    address(i),
                    4096 + i % 8 * 512,
                    1000 + i % 5000
                );
            }),
        ),
        (
            "mqsim",
            text(|t, i| {
                let _ = writeln!(t, "{} 0 {} {} {}", i * 99_700, address(i) / 512, 8 + i % 8, i % 2);
            }),
        ),
        (
            "nandle",
            String::from("time_ns,op,offset,bytes,stream,object,fua\n")
                + &text(|t, i| {
                    let op = if i.is_multiple_of(3) { "read" } else { "write" };
                    let _ = writeln!(t, "{},{op},{},{},0,0,0", i * 99_700, address(i), 4096 + i % 8 * 512);
                }),
        ),
    ];
    let mut group = c.benchmark_group("parse");
    group.throughput(Throughput::Elements(LINES)).sample_size(10);
    let folder = tempfile::tempdir().expect("a temporary folder");
    for (name, text) in traces {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("room for the trace");
        group.bench_function(name, |b| {
            b.iter(|| {
                let mut trace = open(&path, &Options::default()).expect("a trace");
                let (mut requests, mut sum) = (Vec::with_capacity(4096), 0u64);
                loop {
                    requests.clear();
                    trace.fill(&mut requests, 4096).expect("requests");
                    if requests.is_empty() {
                        return black_box(sum);
                    }
                    sum = requests.iter().fold(sum, |sum, r| sum.wrapping_add(r.offset));
                }
            });
        });
    }
    group.finish();
}

criterion_group!(benches, parse);
criterion_main!(benches);
