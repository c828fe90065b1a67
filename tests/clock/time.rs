//! Goal: what clients of a served drive are told of time is true. What waits in sockets and in answers is counted, as
//! far as the client itself measures it; a host that is too slow is said to be; with `--dilation` clients get what
//! the drive does in virtual time.
//! Method: clients of our own with clocks of their own, bursts that take the host longer than the drive, and the same
//! closed loop against the served drive and against `nandle-ssd` itself. Times of the machine are compared with times
//! of the machine; where it was too busy to say anything the drive is slowed down further.

use crate::served;

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use nandle_io::{Command, Op};
use nandle_lab::config::{Drive, Wanted};
use nandle_random::Stream;
use nandle_serve::http;
use nandle_serve::nbd::wire::command;
use nandle_ssd::Ssd;
use serde_json::Value;
use served::Served;

/// What a server wrote to `out.json`, and what it said, when it was stopped.
fn stopped(served: Served, dir: &std::path::Path) -> (Value, String) {
    let said = served.stop();
    let text = std::fs::read_to_string(dir.join("out.json")).expect("written");
    (serde_json::from_str(&text).expect("JSON"), said)
}

fn of(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("{path} in {value:#}"))
}

#[test]
fn what_waits_in_sockets_is_late_and_the_host_is_said_to_be_too_slow() {
    let dir = tempfile::tempdir().expect("a directory");
    // What was never written takes the drive 2 us: a burst of large reads takes the host far longer.
    let page = format!("unix:{}", dir.path().join("page").display());
    let args = ["--device", "demo-page", "--json", "out.json", "--http", &page];
    let mut served = Served::start(dir.path(), &args);
    let about = served.line("nbd");
    assert!(about.contains("nbd+unix"), "{about}");
    let mut client = served.client();
    let (mut sent, mut took) = (HashMap::new(), 0.0);
    const REQUESTS: u64 = 400;
    for round in 0..4 {
        for n in 0..REQUESTS / 4 {
            let at = Instant::now();
            let offset = (round * 100 + n) % 64 * 131_072;
            sent.insert(client.send(command::READ, 0, offset, 131_072, &[]).expect("sent"), at);
        }
        while client.under_way() > 0 {
            let (cookie, error, _) = client.receive().expect("an answer");
            assert_eq!(error, 0);
            took += sent[&cookie].elapsed().as_secs_f64() * 1e9;
        }
    }
    // The page has a banner, the metrics a gauge, `nandle stat` a line.
    let at: http::Address = page.parse().expect("an address");
    let get = |path: &str| http::get(&at, path).expect("an answer");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !get("/live.json").contains("the host could not keep up from ") {
        assert!(Instant::now() < deadline, "{}", get("/live.json"));
        std::thread::sleep(Duration::from_millis(100));
    }
    assert!(get("/").contains("id=\"overload\" role=\"alert\""));
    let metrics = get("/metrics");
    assert!(
        metrics.contains("nandle_kept_up 0\n")
            && metrics.contains("nandle_client_answers_total{transport=\"nbd\"")
    );
    let stat = served::good(env!("CARGO_BIN_EXE_nandle"), &["stat", "--at", &page], dir.path());
    assert!(stat.contains("achieved/s") && stat.contains("the host could not keep up from "), "{stat}");
    drop(client);
    let (out, said) = stopped(served, dir.path());
    let mean = took / REQUESTS as f64;
    let (modelled, achieved) = (of(&out, "/modelled/lat_ns/mean"), of(&out, "/achieved/lat_ns/mean"));
    // The answers' way through the socket and the client's own reading are all that it cannot see; what it did not see
    // come counts from the earliest time possible.
    assert!(
        achieved > 0.5 * mean && achieved < 1.5 * mean,
        "achieved {achieved} ns, by the client {mean} ns"
    );
    assert!(modelled * 2.0 < achieved, "modelled {modelled} ns, achieved {achieved} ns");
    assert_eq!(of(&out, "/achieved/requests"), REQUESTS as f64);
    assert_eq!((out["timing"].as_str(), out["kept_up"].as_bool()), (Some("real"), Some(false)));
    let late = &out["lateness_ns"];
    assert!(of(late, "/p50") <= of(late, "/p99") && of(late, "/p99") <= of(late, "/max"), "{late}");
    let overload = out["overload"].as_array().expect("a list");
    assert!(
        !overload.is_empty() && of(&overload[0], "/from_ns") < of(&overload[0], "/to_ns"),
        "{overload:?}"
    );
    assert!(
        said.contains("the host could not keep up from ") && said.contains("are not the drive's"),
        "{said}"
    );
    // The client is named where its cost is.
    let users = out["users"].as_array().expect("a list");
    assert_eq!(users.len(), 1, "{users:?}");
    assert!(users[0]["name"].as_str().is_some_and(|name| name.starts_with("nbd nandle #")));
    assert_eq!(of(&users[0], "/read/bytes"), (REQUESTS * 131_072) as f64);
    assert_eq!(out["clients"][0]["export"], "nandle");
}

#[test]
fn a_drive_that_is_slower_than_the_host_is_kept_up_with() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = [
        "--device",
        "demo-page",
        "--json",
        "out.json",
        "--set",
        "buffer.bytes=0",
        "--set",
        "timing.read_ns=[50000000,50000000,50000000]",
    ];
    let served = Served::start(dir.path(), &args);
    let mut client = served.client();
    client.write(0, &[1; 65536]);
    for n in 0..30 {
        client.read(n % 16 * 4096, 4096);
    }
    drop(client);
    let (out, said) = stopped(served, dir.path());
    // Tolerated are 5 ms of 50: a machine that is later than that with more than a tenth says so itself.
    let late = of(&out, "/lateness_ns/p50");
    assert!(late > 0.0, "no machine is as fast as that");
    if late < 5e6 && of(&out, "/lateness_ns/p99") < 5e6 {
        assert_eq!(out["kept_up"], true, "{said}");
        assert!(said.contains("the host kept up with the drive"), "{said}");
    }
    assert!(of(&out, "/modelled/lat_ns/p50") > 49e6 && of(&out, "/achieved/lat_ns/p50") > 49e6);
}

/// Reads and writes at random, the same for everybody.
struct Loop {
    draw: Stream,
    pages: u64,
}

const PAGE: u32 = 4096;

impl Loop {
    fn new(drive: &Drive) -> Self {
        Self { draw: Stream::new(7, "closed loop"), pages: drive.layout.logical_bytes / u64::from(PAGE) }
    }

    /// Whether it is a write, and the page.
    fn next(&mut self) -> (bool, u64) {
        (self.draw.below(10) < 3, self.draw.below(self.pages))
    }
}

/// Requests a second and mean latency in nanoseconds, of `count` requests, `depth` at a time.
type Figures = (f64, f64);

/// In virtual time, by the drive alone.
fn simulated(drive: &Drive, depth: usize, count: usize) -> Figures {
    let mut ssd = Ssd::new(&drive.config, 0, 1).expect("a drive");
    drive.complete(&mut ssd);
    let mut requests = Loop::new(drive);
    let sectors = u64::from(PAGE / drive.config.geometry.sector_bytes);
    let (mut sent, mut took, mut over) = (VecDeque::new(), 0_u64, 0);
    let mut starts = vec![0; count];
    let mut done = Vec::new();
    while over < count {
        while sent.len() < count && sent.len() - over < depth && ssd.accepts() {
            let (write, page) = requests.next();
            let op = if write { Op::Write } else { Op::Read };
            let id = sent.len() as u64;
            starts[id as usize] = ssd.now();
            sent.push_back(id);
            let (lsn, now) = (page * sectors, ssd.now());
            ssd.submit(now, &Command { id, op, lsn, sectors, fua: false, stream: 0, data: &[] });
        }
        let next = ssd.next_event().expect("something goes on");
        ssd.advance(next, &mut done);
        for completion in done.drain(..) {
            took += completion.at - starts[completion.id as usize];
            over += 1;
        }
    }
    (count as f64 * 1e9 / ssd.now() as f64, took as f64 / count as f64)
}

/// By a client of the served drive, and what the server said; the dilation undone.
fn measured(sets: &[String], depth: usize, count: usize, dilation: f64) -> (Figures, Value) {
    let dir = tempfile::tempdir().expect("a directory");
    let factor = dilation.to_string();
    let mut args = vec!["--device", "demo-page", "--json", "out.json", "--dilation", &factor];
    sets.iter().for_each(|set| args.extend(["--set", set.as_str()]));
    let served = Served::start(dir.path(), &args);
    let mut client = served.client();
    let drive = Wanted { device: "demo-page", scheme: None, sets }.load().expect("a drive");
    let mut requests = Loop::new(&drive);
    let data = [0; PAGE as usize];
    let (mut starts, mut sent, mut took) = (HashMap::new(), 0, 0.0);
    let began = Instant::now();
    while sent < count || client.under_way() > 0 {
        while sent < count && client.under_way() < depth {
            let (write, page) = requests.next();
            let offset = page * u64::from(PAGE);
            let at = Instant::now();
            let cookie = if write {
                client.send(command::WRITE, 0, offset, PAGE, &data)
            } else {
                client.send(command::READ, 0, offset, PAGE, &[])
            };
            starts.insert(cookie.expect("sent"), at);
            sent += 1;
        }
        let (cookie, error, _) = client.receive().expect("an answer");
        assert_eq!(error, 0);
        took += starts[&cookie].elapsed().as_secs_f64();
    }
    let iops = count as f64 / began.elapsed().as_secs_f64() * dilation;
    let mean = took / count as f64 * 1e9 / dilation;
    drop(client);
    let (out, _) = stopped(served, dir.path());
    ((iops, mean), out)
}

#[test]
fn dilated_time_is_the_drives_at_any_queue_depth() {
    // 8 dies without a write buffer, half of them full: each write is a read-modify-write.
    let sets: Vec<String> = [
        "geometry.channels=4",
        "geometry.blocks_per_plane=64",
        "buffer.bytes=0",
        "queue.depth=256",
        "precondition.used=0.5",
        "precondition.valid=0.5",
    ]
    .map(str::to_owned)
    .to_vec();
    let drive = Wanted { device: "demo-page", scheme: None, sets: &sets }.load().expect("a drive");
    for (depth, count) in [(1, 60), (4, 200), (32, 600), (256, 1200)] {
        let (iops, mean) = simulated(&drive, depth, count);
        let mut dilation = 10.0;
        loop {
            let ((real_iops, real_mean), out) = measured(&sets, depth, count, dilation);
            let floor = of(&out, "/lateness_ns/mean") / of(&out, "/modelled/lat_ns/mean");
            let off = (real_mean / mean - 1.0).abs().max((real_iops / iops - 1.0).abs());
            eprintln!(
                "depth {depth}, dilation {dilation}: {real_iops:.0} of {iops:.0} a second, {real_mean:.0} of {mean:.0} ns; late by {floor:.4}"
            );
            // What the server says of itself is what the client finds.
            assert!((of(&out, "/achieved/lat_ns/mean") / real_mean - 1.0).abs() < 0.05 + floor);
            if off < 0.05 {
                eprintln!("depth {depth}: a dilation of {dilation} is enough");
                break;
            }
            // Only the machine may be the reason, and then more time helps.
            assert!(floor > 0.01 && dilation < 5000.0, "off by {off:.3} with a lateness of {floor:.4}");
            dilation *= 4.0;
        }
    }
}

#[test]
fn a_dilation_that_makes_no_sense_is_refused() {
    for (args, words) in [
        (&["--dilation", "0.5"][..], "expected a factor from 1 to"),
        (&["--dilation", "nan"], "expected a factor from 1 to"),
        (&["--dilation", "2", "--timing", "off"], "expected one of the two"),
    ] {
        let out = std::process::Command::new(served::program())
            .args(["serve", "--device", "demo-page", "--nbd", "unix:/nowhere/at/all"])
            .args(args)
            .output()
            .expect("it starts");
        let said = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{said}");
        assert!(said.contains(words) && said.lines().count() == 1, "{said}");
    }
}
