//! Goal: the latency that a served drive says it achieved is the one that its client measured, also where the host's
//! part is all there is, and on drives whose own part is most of it.
//! Method: fio's NBD engine on a socket of the file system and on TCP, and our initiator on NVMe/TCP, each with one
//! request at a time, in many short runs, of which those are judged in which the machine had least else to do. What the
//! client takes itself no server sees. On a slow host that is a third of an ordinary drive's latency, so it is measured
//! there, on a fast drive; on a busy one only what is too much is an error.

use crate::served;

use std::net::SocketAddr;
use std::path::Path;
use std::time::{Duration, Instant};

use nandle_host::initiator::{Host, Options, blocks};
use nandle_host::wire::op;
use nandle_random::Stream;
use serde_json::Value;
use served::{Served, good, has};

/// Bytes that are read from, which were written before.
const AREA: u64 = 8 << 20;
/// Runs on each transport, those of them that are judged, and how long each takes.
const RUNS: usize = 7;
const BEST: usize = 3;
const TIME: Duration = Duration::from_millis(300);
/// Times that it is tried on a machine that is busy.
const ATTEMPTS: usize = 4;

/// A drive as fast as no host is, and one as fast as most.
const FAST: &[&str] = &[
    "timing.read_ns=[2000,2000,2000]",
    "timing.program_ns=[4000,4000,4000]",
    "timing.erase_ns=10000",
    "timing.bus_mb_s=20000",
];
const ORDINARY: &[&str] = &["timing.read_ns=[93580,93580,93580]", "buffer.bytes=0"];

/// Mean latency of reads of 4 KiB, in nanoseconds, by fio.
fn by_fio(uri: &str, dir: &Path) -> f64 {
    let (uri, size) = (format!("--uri={uri}"), format!("--size={AREA}"));
    let time = format!("--runtime={}ms", TIME.as_millis());
    let job = ["--name=x", "--ioengine=nbd", "--rw=randread", "--bs=4k", "--norandommap", "--time_based"];
    let out = good("fio", &[&job[..], &["--output-format=json", &uri, &size, &time]].concat(), dir);
    let json = &out[out.find('{').expect("JSON")..];
    let out: Value = serde_json::from_str(json).expect("JSON");
    out.pointer("/jobs/0/read/lat_ns/mean").and_then(Value::as_f64).expect("a mean")
}

/// The same by NVMe/TCP.
fn by_initiator(address: SocketAddr) -> f64 {
    let mut host = Host::connect(address, &Options::default()).expect("a subsystem");
    let mut draw = Stream::new(1, "places");
    let (began, mut reads, mut took) = (Instant::now(), 0.0, 0.0);
    while began.elapsed() < TIME {
        let lba = draw.below(AREA / 4096);
        let at = Instant::now();
        host.io.command(blocks(op::READ, lba, 1), &[], 4096).expect("an answer");
        took += at.elapsed().as_nanos() as f64;
        reads += 1.0;
    }
    took / reads
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What each client measured, and what the server said of it; by transport.
fn measure(sets: &[&str]) -> Vec<(&'static str, Vec<(f64, f64)>)> {
    let dir = served::temp();
    let mut args =
        vec!["--device", "demo-page", "--nbd", "127.0.0.1:0", "--nvme-tcp", ":0", "--json", "out.json"];
    sets.iter().for_each(|set| args.extend(["--set", set]));
    let mut server = Served::start(dir.path(), &args);
    let unix = server.uri();
    let line = (0..2).map(|_| server.line("nbd")).find(|line| line.contains("nbd://")).expect("a line");
    let tcp = line.split_whitespace().find(|word| word.starts_with("nbd://")).expect("a URI").to_owned();
    let nvme = server.nvme();
    let mut client = server.client();
    (0..AREA).step_by(1 << 20).for_each(|at| client.write(at, &[7; 1 << 20]));
    client.flush();
    drop(client);
    let mut all = vec![("NVMe/TCP", vec![])];
    if has("fio") {
        all.extend([("NBD", vec![]), ("NBD by TCP", vec![])]);
    }
    // By turns: whatever else the machine does is in all of them.
    let mut asked = vec![];
    for _ in 0..RUNS {
        for (n, (name, _)) in all.iter().enumerate() {
            let mean = match *name {
                "NBD" => by_fio(&unix, dir.path()),
                "NBD by TCP" => by_fio(&tcp, dir.path()),
                _ => by_initiator(nvme),
            };
            asked.push((n, mean));
        }
    }
    server.stop();
    let text = std::fs::read_to_string(dir.path().join("out.json")).expect("written");
    let out: Value = serde_json::from_str(&text).expect("JSON");
    // In the order in which they came; the first one wrote, and others only asked how large the drive is.
    let rows = out["clients"].as_array().expect("a list").iter().skip(1);
    let means = rows.filter_map(|row| {
        let answers = row.pointer("/achieved/requests")?.as_u64()?;
        (answers > 0).then_some(row.pointer("/achieved/lat_ns/mean")?.as_f64()?)
    });
    let means: Vec<f64> = means.collect();
    assert_eq!(means.len(), asked.len(), "one for each run: {out:#}");
    for ((n, asked), said) in asked.into_iter().zip(means) {
        all[n].1.push((asked, said));
    }
    all
}

/// Of the best runs of a client: the medians of what it measured and of the share that the server says; and whether the
/// machine was busy with something else.
fn best(mut runs: Vec<(f64, f64)>) -> (f64, f64, bool) {
    runs.sort_by(|a, b| a.0.total_cmp(&b.0));
    runs.truncate(BEST);
    let ratio = median(runs.iter().map(|(client, said)| said / client).collect());
    (runs[BEST / 2].0, ratio, runs[BEST - 1].0 > 2.0 * runs[0].0)
}

/// Whether what the server says is `least` to `most` of what clients measured, at one of several times. What they take
/// themselves, by the drive `idle`, does not count for the lower bound. A client that is held up itself measures more
/// than the server can see.
fn compare(sets: &[&str], idle: Option<&[&str]>, least: f64, most: f64) {
    for attempt in 1..=ATTEMPTS {
        let (mut busy, mut high, mut low) = (false, vec![], vec![]);
        let unseen = |(_, runs): (_, Vec<(f64, f64)>)| {
            let (client, ratio, _) = best(runs);
            client * (1.0 - ratio).max(0.0)
        };
        let own: Vec<f64> =
            idle.map_or_else(Vec::new, |idle| measure(idle).into_iter().map(unseen).collect());
        for (n, (name, runs)) in measure(sets).into_iter().enumerate() {
            let (client, ratio, held_up) = best(runs);
            let own = own.get(n).map_or(0.0, |own| own / client);
            eprintln!("{name}: {client:.0} ns by the client, {own:.2} its own; of it achieved {ratio:.2}");
            busy |= held_up;
            high.extend((ratio > most).then(|| format!("{name}: {ratio:.2}")));
            low.extend((ratio < least * (1.0 - own)).then(|| format!("{name}: {ratio:.2}")));
        }
        if high.is_empty() && low.is_empty() {
            return;
        }
        let forgiven = high.is_empty() && busy;
        assert!(attempt < ATTEMPTS || forgiven, "not {least} to {most}: {high:?}, {low:?}");
    }
}

#[test]
fn a_drive_faster_than_the_host_is_said_to_be_as_slow_as_its_client_finds_it() {
    // The client's own part is as long as the drive's.
    compare(FAST, None, 0.3, 1.15);
}

#[test]
fn a_drive_slower_than_the_host_is_said_to_be_as_slow_as_its_client_finds_it() {
    compare(ORDINARY, Some(FAST), 0.8, 1.15);
}
