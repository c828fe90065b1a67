//! Goal: the latency that a served drive says it achieved is the one that its client measured, also where the host's
//! part is all there is, and on drives whose own part is most of it.
//! Method: fio's NBD engine on a socket of the file system and on TCP, and our initiator on NVMe/TCP, each with one
//! request at a time, in many short runs, of which those are judged in which the machine had least else to do. What it
//! takes to wake both ends up no server sees: on slow hosts that is half as long as an ordinary drive's read, so a bare
//! echo is timed beside them. On a busy one only what is too much is an error.

use crate::served;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::thread;
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

/// Mean time that a page takes back for a byte, with nobody behind it but a thread that waits, in nanoseconds.
fn by_echo() -> f64 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let mut client = TcpStream::connect(listener.local_addr().expect("an address")).expect("a connection");
    let (mut server, _) = listener.accept().expect("a connection");
    [&client, &server].into_iter().for_each(|end| end.set_nodelay(true).expect("no delay"));
    thread::scope(|scope| {
        scope.spawn(move || {
            let mut byte = [0];
            while server.read_exact(&mut byte).is_ok() {
                server.write_all(&[7; 4096]).expect("taken");
            }
        });
        let (began, mut echoes) = (Instant::now(), 0.0);
        while began.elapsed() < TIME {
            client.write_all(&[1]).expect("taken");
            client.read_exact(&mut [0; 4096]).expect("an answer");
            echoes += 1.0;
        }
        let mean = began.elapsed().as_nanos() as f64 / echoes;
        drop(client);
        mean
    })
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// What each client measured, and what the server said of it; by transport.
type Runs = Vec<(&'static str, Vec<(f64, f64)>)>;

/// Runs of all clients, and what echoes took between them.
fn measure(sets: &[&str]) -> (Runs, Vec<f64>) {
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
    let (mut asked, mut echoes) = (vec![], vec![]);
    for _ in 0..RUNS {
        echoes.push(by_echo());
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
    (all, echoes)
}

/// Whether what the server says is at most `most` of what clients measured and at least `least` of what that is without
/// an echo's time, at one of several times. A client that is held up itself measures more than the server can see.
fn compare(sets: &[&str], least: f64, most: f64) {
    for attempt in 1..=ATTEMPTS {
        let (mut busy, mut high, mut low) = (false, vec![], vec![]);
        let (all, mut echoes) = measure(sets);
        echoes.sort_by(f64::total_cmp);
        let echo = median(echoes[..BEST].to_vec());
        for (name, mut runs) in all {
            runs.sort_by(|a, b| a.0.total_cmp(&b.0));
            runs.truncate(BEST);
            let ratio = median(runs.iter().map(|(client, said)| said / client).collect());
            let (best, worst) = (runs[0].0, runs[BEST - 1].0);
            let unseen = median(runs.iter().map(|(client, _)| echo / client).collect());
            eprintln!(
                "{name}: {best:.0} to {worst:.0} ns by the client, of that achieved {ratio:.2}, an echo {unseen:.2}"
            );
            busy |= worst > 2.0 * best;
            high.extend((ratio > most).then(|| format!("{name}: {ratio:.2}")));
            low.extend((ratio < least * (1.0 - unseen)).then(|| format!("{name}: {ratio:.2}")));
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
    compare(FAST, 0.3, 1.15);
}

#[test]
fn a_drive_slower_than_the_host_is_said_to_be_as_slow_as_its_client_finds_it() {
    compare(ORDINARY, 0.8, 1.15);
}
