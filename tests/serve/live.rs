//! Goal: what a served drive shows of itself is true, whoever asks and however badly, and what it is
//! compared with is what a simulation of the same requests gives.
//! Method: the real server under load from a client of our own; its page in headless Chromium, its
//! metrics read by Prometheus' own Python parser, its map by libnbd's and QEMU's tools, its shadows
//! beside `nandle run` on the trace that was recorded.

use crate::served;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use nandle_random::Stream;
use nandle_serve::nbd::wire::command;
use serde_json::Value;
use served::{SMALL, Served, good, has, temp, with};

const SECTOR: usize = 4096;

fn json(text: &str) -> Value {
    serde_json::from_str(text).unwrap_or_else(|e| panic!("{e}: {text}"))
}

/// A server with a page, and where that is.
fn start(dir: &Path, args: &[&str]) -> (Served, SocketAddr) {
    let mut server = Served::start(dir, &with(args, &["--http", ":0"]));
    let line = server.line("http");
    let at = line.trim().trim_start_matches("http   http://").trim_end_matches('/').parse();
    (server, at.expect("an address"))
}

/// Sends bytes, returns what comes until the end or for `patience`.
fn raw(at: SocketAddr, bytes: &[u8], patience: Duration) -> String {
    let mut stream = TcpStream::connect(at).expect("a connection");
    stream.set_read_timeout(Some(patience)).expect("set");
    let _ = stream.write_all(bytes);
    let mut answer = Vec::new();
    let mut part = [0; 4096];
    while let Ok(n @ 1..) = stream.read(&mut part) {
        answer.extend(&part[..n]);
    }
    String::from_utf8_lossy(&answer).into_owned()
}

fn get(at: SocketAddr, path: &str) -> String {
    let request = format!("GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n");
    let answer = raw(at, request.as_bytes(), Duration::from_secs(20));
    let (head, body) = answer.split_once("\r\n\r\n").unwrap_or_else(|| panic!("{path}: {answer}"));
    assert!(head.starts_with("HTTP/1.1 200 OK\r\n"), "{path}: {head}");
    body.to_owned()
}

/// Writes and reads at random, `requests` of each, up to 16 at a time.
fn load(server: &Served, requests: u64, seed: &str) {
    let mut client = server.client();
    let sectors = client.bytes / SECTOR as u64;
    let mut draw = Stream::new(3, seed);
    let mut under_way = 0;
    for n in 0..2 * requests {
        let offset = draw.word() % sectors * SECTOR as u64;
        let op = if n % 2 == 0 { command::WRITE } else { command::READ };
        let data = if n % 2 == 0 { vec![n as u8; SECTOR] } else { vec![] };
        client.send(op, 0, offset, SECTOR as u32, &data).expect("sent");
        under_way += 1;
        if under_way == 16 {
            assert_eq!(client.receive().expect("an answer").1, 0);
            under_way -= 1;
        }
    }
    for _ in 0..under_way {
        assert_eq!(client.receive().expect("an answer").1, 0);
    }
}

/// The first view in which everything that was asked for is counted.
fn settled(at: SocketAddr, requests: u64) -> Value {
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        let view = json(&get(at, "/live.json"));
        if view["host"]["write"]["requests"].as_u64() >= Some(requests) && !view["blocks"]["map"].is_null() {
            return view;
        }
        assert!(Instant::now() < deadline, "{view}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn what_is_shown_is_what_was_done() {
    let dir = temp();
    let (server, at) = start(dir.path(), &with(SMALL, &["--timing", "off", "--json", "served.json"]));
    load(&server, 6000, "shown");
    let view = settled(at, 6000);
    let metrics = get(at, "/metrics");
    let summary = json(&get(at, "/summary.json"));
    for key in ["read", "write"] {
        assert_eq!(view["host"][key]["requests"], 6000);
        assert_eq!(view["host"][key]["requests"], summary["host"][key]["requests"]);
        let line = format!("nandle_host_requests_total{{op=\"{key}\"}} 6000\n");
        assert!(metrics.contains(&line), "{metrics}");
        let percentile = |v: &Value| v["lat_ns"]["percentile"]["99.000000"].as_f64().expect("a number");
        let (shown, exact) = (percentile(&view["host"][key]), percentile(&summary["host"][key]));
        assert!((shown / exact - 1.0).abs() < 0.02, "{key}: {shown} {exact}");
    }
    assert!(summary["flash"]["erases"].as_u64() > Some(10), "too little load to mean anything");
    for (key, path) in [("waf", "/waf"), ("waf_parts", "/waf_parts"), ("streams", "/streams/per_stream")] {
        assert_eq!(Some(&view[key]), summary.pointer(path), "{key}");
    }
    for key in ["total", "gc", "host", "map", "meta"] {
        assert_eq!(view["flash"]["programs"][key], summary["flash"]["programs"][key], "{key}");
    }
    let parts = view["waf_parts"].as_object().expect("parts").values();
    let sum: f64 = parts.map(|part| part.as_f64().expect("a number")).sum();
    assert!((sum - view["waf"].as_f64().expect("written")).abs() < 1e-9);
    let of_streams = view["streams"].as_array().expect("streams").iter();
    let sum: f64 = of_streams.map(|stream| stream["waf_part"].as_f64().expect("a number")).sum();
    assert!((sum - view["waf"].as_f64().expect("written")).abs() < 1e-9, "streams add up to {sum}");
    // The map counts every block, and agrees with the counters.
    let map = &view["blocks"]["map"];
    let of = |key: &str| map[key].as_u64().expect("a count");
    let all: u64 = ["free", "open", "closed", "victim", "erasing", "bad"].map(of).iter().sum();
    assert_eq!(
        (Some(all), Some(of("free"))),
        (view["blocks"]["total"].as_u64(), view["blocks"]["free"].as_u64())
    );
    assert_eq!(map["states"].as_str().map(str::len), map["valid_percent"].as_array().map(Vec::len));
    assert!(map["valid_percent"].as_array().expect("cells").iter().any(|v| v.as_u64() > Some(50)));
    // Every second of the series adds up to all requests.
    let series = &view["series"]["recent"];
    assert_eq!(series["wall_ns"].as_array().map(Vec::len), series["write_iops"].as_array().map(Vec::len));
    server.stop();
    let ended = json(&std::fs::read_to_string(dir.path().join("served.json")).expect("a summary"));
    assert_eq!(ended["host"]["write"]["lat_ns"], summary["host"]["write"]["lat_ns"]);
    assert_eq!((&ended["complete"], &summary["complete"]), (&Value::Bool(true), &Value::Bool(false)));
}

#[test]
fn an_idle_drive_has_no_amplification_and_no_latency() {
    let dir = temp();
    let (_server, at) = start(dir.path(), SMALL);
    let deadline = Instant::now() + Duration::from_secs(30);
    let view = loop {
        let view = json(&get(at, "/live.json"));
        if view["serving"] == true {
            break view;
        }
        assert!(Instant::now() < deadline);
    };
    assert!(view["waf"].is_null() && view["timing"] == "real", "{view}");
    assert_eq!(view["host"]["read"]["now"]["lat_ns"]["max"], 0);
    assert!(!get(at, "/metrics").contains("write_amplification"));
    assert!(json(&get(at, "/summary.json"))["waf"].is_null());
}

#[test]
fn bad_requests_get_a_clean_status_and_hold_nobody_up() {
    let dir = temp();
    let (server, at) = start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let status = |bytes: &[u8]| {
        let answer = raw(at, bytes, Duration::from_secs(20));
        answer.lines().next().unwrap_or_default().to_owned()
    };
    let long = format!("GET / HTTP/1.1\r\nA: {}\r\n\r\n", "x".repeat(20_000));
    for (bytes, expected) in [
        (&b"GET /nothing HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"[..], "404"),
        (b"GET /../../etc/passwd HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", "404"),
        (
            b"GET http://localhost:18420/metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n",
            "200",
        ),
        (b"GET /metrics HTTP/1.1\r\nConnection: close\r\n\r\n", "400"),
        (b"POST /live.json HTTP/1.1\r\nConnection: close\r\n\r\n", "405"),
        (b"GET / HTTP/1.1\r\nContent-Length: 7\r\n\r\nabcdefg", "413"),
        (b"\x16\x03\x01\x00\xa5\x01\x00\x00\xa1\x03\x03", "400"),
        (b"\x00\xff\xfe garbage\r\n\r\n", "400"),
        (b"GET / HTTP/9.9\r\n\r\n", "505"),
        (long.as_bytes(), "431"),
    ] {
        let line = status(bytes);
        assert!(
            line.starts_with(&format!("HTTP/1.1 {expected} ")),
            "{:?}: {line}",
            String::from_utf8_lossy(bytes)
        );
    }
    // HEAD has the length and nothing else; two requests may share a connection.
    let head = b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    let head = raw(at, head, Duration::from_secs(20));
    assert!(head.contains("Content-Length: ") && head.ends_with("\r\n\r\n"), "{head}");
    let two = b"HEAD /metrics HTTP/1.1\r\nHost: localhost\r\n\r\nHEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n";
    assert_eq!(raw(at, two, Duration::from_secs(20)).matches("HTTP/1.1 200 OK").count(), 2);
    // Noise of every kind.
    let mut draw = Stream::new(1, "noise");
    for n in 0..40 {
        let noise: Vec<u8> = (0..n * 31).map(|_| draw.word() as u8).collect();
        let mut bytes = if n % 2 == 0 { b"GET /live.json HTTP/1.1\r\n".to_vec() } else { vec![] };
        bytes.extend(noise);
        let mut stream = TcpStream::connect(at).expect("a connection");
        let _ = stream.write_all(&bytes);
    }
    // As many clients as there may be, that say half a word, or ask and never listen.
    let slow: Vec<TcpStream> = (0..32)
        .filter_map(|n| {
            let mut stream = TcpStream::connect(at).ok()?;
            let words =
                if n % 2 == 0 { "GET / HT" } else { "GET /live.json HTTP/1.1\r\nHost: localhost\r\n\r\n" };
            stream.write_all(words.repeat(if n % 2 == 0 { 1 } else { 50 }).as_bytes()).ok()?;
            Some(stream)
        })
        .collect();
    load(&server, 500, "beside");
    drop(slow);
    // Whoever comes before the server has noticed that they are gone is turned away.
    let deadline = Instant::now() + Duration::from_secs(60);
    while raw(at, b"HEAD / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", Duration::from_secs(20))
        .is_empty()
    {
        assert!(Instant::now() < deadline, "nobody is let in");
        std::thread::sleep(Duration::from_millis(50));
    }
    assert_eq!(settled(at, 500)["host"]["write"]["requests"], 500);
    server.stop();
}

// ---- shadows ------------------------------------------------------------------------------------------

#[test]
fn shadows_do_what_a_simulation_of_the_same_requests_does() {
    let dir = temp();
    // One at a time in real time, and many without: in both, arrivals are what the trace says.
    let shadows = "baseline,waflash,lru+page+multi-stream(2)";
    let more = ["--timing", "off", "--shadow", shadows, "--record", "t.csv", "--json", "served.json"];
    let (server, at) = start(dir.path(), &with(SMALL, &more));
    load(&server, 6000, "shadows");
    let mut client = server.client();
    client.ask(command::TRIM, 0, 0, 1 << 20, &[]).expect("a trim");
    client.write(1000, &[7; 9000]);
    client.flush();
    let live = settled(at, 6001);
    assert_eq!(live["shadows"].as_array().map(Vec::len), Some(3));
    let listed = json(&get(at, "/summary.json"));
    assert_eq!(listed["shadows"][1]["scheme"], live["shadows"][1]["scheme"]);
    let metrics = get(at, "/metrics");
    assert!(metrics.contains("nandle_shadow_missed_total{scheme="), "{metrics}");
    assert!(metrics.contains(",timing=\"off\",version="), "{metrics}");
    server.stop();
    let served = json(&std::fs::read_to_string(dir.path().join("served.json")).expect("a summary"));
    assert!(served["flash"]["erases"].as_u64() > Some(10), "too little load to mean anything");
    for (n, scheme) in ["baseline", "waflash", "lru+page+multi-stream(2)"].into_iter().enumerate() {
        let shadow = &served["shadows"][n];
        assert_eq!((&shadow["shadow"]["missed"], &shadow["shadow"]["queued"]), (&0.into(), &0.into()));
        assert_eq!(shadow["complete"], true);
        let run = with(&with(&["run"], SMALL), &["--scheme", scheme, "--workload", "t.csv", "--json", "-"]);
        let replayed = json(&good(env!("CARGO_BIN_EXE_nandle"), &run, dir.path()));
        assert_eq!((&shadow["scheme"], &replayed["scheme"]), (&scheme.into(), &scheme.into()));
        for key in ["resolved_scheme", "flash", "buffer", "gc", "wear", "multi_version"] {
            assert_eq!(shadow[key], replayed[key], "{scheme}: {key}");
        }
        // The write that is not of whole sectors was a read and a write of three to the drive.
        let of = |s: &Value, path: &str| s.pointer(path).and_then(Value::as_u64).expect("a count");
        for (path, more) in [("/host/all/requests", 1), ("/host/write/bytes", 3 * 4096 - 9000)] {
            assert_eq!(of(shadow, path) + more, of(&replayed, path), "{scheme}: {path}");
        }
        // The flush at the end takes its time, live as in the replay.
        if n == 0 {
            assert_eq!(served["host"]["flush"], replayed["host"]["flush"]);
        }
    }
    // The first is the scheme that is served.
    for key in ["flash", "waf", "wear"] {
        assert_eq!(served["shadows"][0][key], served[key], "{key}");
    }
    assert_ne!(served["shadows"][1]["waf"], served["waf"]);
    assert!(served["host"]["flush"]["lat_ns"]["max"].as_u64() > Some(0));
}

#[test]
fn shadows_are_in_the_report_and_wrong_ones_refused() {
    let dir = temp();
    let server = Served::start(dir.path(), &with(SMALL, &["--timing", "off", "--shadow", "waflash"]));
    load(&server, 500, "report");
    let said = server.stop();
    assert!(said.contains("the same requests under other schemes") && said.contains("waflash"), "{said}");
    // One that this device has no room for is named, and the others and the drive go on; each is called as it was asked.
    let some = "fdp(8,persistently),waflash,papa";
    let server =
        Served::start_limited(dir.path(), 1024, &with(SMALL, &["--timing", "off", "--shadow", some]));
    load(&server, 50, "left out");
    let said = server.stop();
    assert!(said.contains("waflash") && !said.contains("papa"), "{said}");
    let complaints = std::fs::read_to_string(dir.path().join("stderr")).expect("what it said");
    for left_out in ["fdp(8,persistently)", "papa"] {
        let what = format!("--shadow {left_out} does not fit this device and is left out: ");
        assert!(complaints.contains(&what), "{left_out}: {complaints}");
    }
    let nine = ["page"; 9].join(",");
    for (list, what) in [("pagee", "did you mean"), (nine.as_str(), "at most 8"), ("", "--shadow")] {
        let args = ["serve", "--nbd", "unix:s", "--shadow", list];
        let out = Command::new(env!("CARGO_BIN_EXE_nandle")).args(args).current_dir(dir.path()).output();
        let out = out.expect("it runs");
        let message = String::from_utf8_lossy(&out.stderr).into_owned();
        assert_eq!(out.status.code(), Some(2), "{list}: {message}");
        assert!(message.contains(what), "{list}: {message}");
    }
}

#[test]
fn without_clocks_there_are_rates_by_the_wall_and_no_latencies() {
    let dir = temp();
    let at = format!("unix:{}", dir.path().join("page").display());
    let server =
        Served::start(dir.path(), &with(SMALL, &["--timing", "none", "--shadow", "waflash", "--http", &at]));
    std::thread::sleep(Duration::from_millis(1200));
    load(&server, 400, "none");
    std::thread::sleep(Duration::from_millis(1500));
    let nandle = |args: &[&str]| good(env!("CARGO_BIN_EXE_nandle"), args, dir.path());
    let value = json(&nandle(&["stat", "--at", &at, "--json"]));
    assert_eq!((&value["timing"], &value["lateness_ns"]), (&"none".into(), &Value::Null));
    for write in [&value["host"]["write"], &value["shadows"][0]["host"]["write"]] {
        assert_eq!((&write["requests"], &write["lat_ns"]["max"]), (&400.into(), &0.into()), "{value:#}");
    }
    let rate = value["host"]["write"]["now"]["iops"].as_f64().expect("a rate");
    assert!((1.0..=400.0).contains(&rate), "{rate}: there are 400 in more than a second");
    let table = nandle(&["stat", "--at", &at]);
    assert!(table.contains("lateness  the drive has no clocks"), "{table}");
    let told = server.stop();
    assert!(told.contains("the drive had no clocks") && !told.contains(" each)"), "{told}");
}

// ---- nandle stat, nandle top --------------------------------------------------------------------------

#[test]
fn stat_and_top_show_a_served_drive() {
    let dir = temp();
    let at = format!("unix:{}", dir.path().join("page").display());
    let args = ["--timing", "off", "--shadow", "waflash", "--http", &at];
    let server = Served::start(dir.path(), &with(SMALL, &args));
    load(&server, 400, "stat");
    // One that only trims has its figures too.
    let mut trims = server.client();
    for n in 0..8 {
        trims.ask(command::TRIM, 0, n << 20, 1 << 20, &[]).expect("a trim");
    }
    drop(trims);
    std::thread::sleep(Duration::from_millis(2500));
    let nandle = |args: &[&str]| good(env!("CARGO_BIN_EXE_nandle"), args, dir.path());
    let table = nandle(&["stat", "--at", &at]);
    for word in ["WAF", "400", "blocks", "lateness  timing is off", "(served)", "waflash"] {
        assert!(table.contains(word), "{word}: {table}");
    }
    let value = json(&nandle(&["stat", "--at", &at, "--json"]));
    assert_eq!((&value["host"]["write"]["requests"], &value["series"]), (&400.into(), &Value::Null));
    let trim = &value["host"]["trim"];
    assert_eq!((&trim["requests"], &trim["bytes"]), (&8.into(), &(8 << 20).into()));
    assert!(trim["now"]["iops"].is_number() && trim["now"].get("bw_bytes").is_none(), "{trim}");
    let lines = nandle(&["top", "--at", &at, "-n", "3", "--interval", "0.2"]);
    assert_eq!(lines.lines().count(), 4, "a head and three lines: {lines}");
    let mut columns = lines.lines().map(|line| line.split("  ").map(str::trim).filter(|w| !w.is_empty()));
    let column = columns.next().and_then(|mut head| head.position(|word| word == "trims/s"));
    let trims = columns.next().and_then(|mut line| line.nth(column.expect("a column")));
    assert!(trims.and_then(|n| n.parse::<f64>().ok()) > Some(0.0), "{lines}");
    let said = server.stop();
    let rows: Vec<&str> = said.lines().filter(|line| line.starts_with("  - trim ")).collect();
    assert!(rows.len() == 1 && rows[0].split_whitespace().nth(2) == Some("8"), "{said}");
    let refused = |args: &[&str]| {
        let out = Command::new(env!("CARGO_BIN_EXE_nandle")).args(args).output().expect("it runs");
        assert_eq!(out.status.code(), Some(2), "{args:?}");
        String::from_utf8_lossy(&out.stderr).into_owned()
    };
    assert!(refused(&["stat", "--at", &at]).contains("expected a drive under `nandle serve --http`"));
    assert!(refused(&["top", "--at", &at]).contains("expected a drive"));
    assert!(refused(&["top", "--at", "nowhere:x"]).contains("expected unix:PATH"));
    assert!(refused(&["top", "--interval", "0"]).contains("expected 0.1 to 3600 seconds"));
}

// ---- programs that others wrote -------------------------------------------------------------------------

/// A Python that has Prometheus' client: the system's, or that of the tests.
fn python() -> Option<String> {
    let venv = Path::new(env!("CARGO_MANIFEST_DIR")).join("target/python-venv/bin/python");
    let candidates = ["python3".to_owned(), "/usr/bin/python3".to_owned(), venv.display().to_string()];
    let found = candidates.into_iter().find(|python| {
        let import = ["-c", "import prometheus_client.parser"];
        let status = Command::new(python).args(import).stderr(Stdio::null()).status();
        status.is_ok_and(|status| status.success())
    });
    if found.is_none() {
        eprintln!("SKIPPED: no Python with prometheus_client (./test installs it where it can)");
    }
    found
}

#[test]
fn prometheus_reads_the_metrics() {
    let Some(python) = python() else { return };
    let dir = temp();
    let (server, at) = start(dir.path(), &with(SMALL, &["--timing", "off", "--shadow", "waflash"]));
    load(&server, 3000, "metrics");
    let view = settled(at, 3000);
    std::fs::write(dir.path().join("metrics"), get(at, "/metrics")).expect("written");
    let script = "
import json, sys
from prometheus_client.parser import text_string_to_metric_families as parse
families = list(parse(open('metrics').read()))
names = [f.name for f in families]
assert len(names) == len(set(names)), names
for f in families:
    assert f.type in ('counter', 'gauge', 'histogram'), (f.name, f.type)
    assert f.documentation and f.samples, f.name
    seen = [(s.name, tuple(sorted(s.labels.items()))) for s in f.samples]
    assert len(seen) == len(set(seen)), f.name
    if f.type == 'histogram':
        for op in {s.labels.get('op') for s in f.samples}:
            buckets = [s.value for s in f.samples if s.name.endswith('_bucket') and s.labels.get('op') == op]
            assert buckets == sorted(buckets), buckets
            count, = [s.value for s in f.samples if s.name.endswith('_count') and s.labels.get('op') == op]
            assert buckets[-1] == count, (f.name, op)
value = {(s.name, s.labels.get('op')): s.value for f in families for s in f.samples}
print(json.dumps({
    'writes': value['nandle_host_requests_total', 'write'],
    'latencies': value['nandle_host_latency_seconds_count', 'write'],
    'mean_ns': value['nandle_host_latency_seconds_sum', 'write'] / value['nandle_host_latency_seconds_count', 'write'] * 1e9,
    'waf': value['nandle_write_amplification', None],
    'programmed': sum(s.value for f in families for s in f.samples if s.name == 'nandle_flash_programmed_bytes_total'),
}))
";
    let read = json(&good(&python, &["-c", script], dir.path()));
    assert_eq!((read["writes"].as_f64(), read["latencies"].as_f64()), (Some(3000.0), Some(3000.0)));
    assert_eq!(read["programmed"].as_f64(), view["flash"]["bytes_programmed"].as_f64());
    let close = |a: &Value, b: &Value, by: f64| {
        let (a, b) = (a.as_f64().expect("a number"), b.as_f64().expect("a number"));
        assert!((a / b - 1.0).abs() < by, "{a} {b}");
    };
    close(&read["waf"], &view["waf"], 1e-6);
    close(&read["mean_ns"], &view["host"]["write"]["lat_ns"]["mean"], 0.01);
}

#[test]
fn other_programs_see_what_is_stored() {
    let dir = temp();
    let server = Served::start(dir.path(), &with(SMALL, &["--timing", "off"]));
    let mut client = server.client();
    let whole = client.bytes;
    // Sectors 10 to 14 and 100 are stored; of 12 it is forgotten again.
    client.write(10 * 4096, &[1; 5 * 4096]);
    client.write(100 * 4096, &[2; 4096]);
    client.ask(command::TRIM, 0, 12 * 4096, 4096, &[]).expect("a trim");
    let expected: Vec<(u64, u64, bool)> =
        [(0, 10, false), (10, 12, true), (12, 13, false), (13, 15, true), (15, 100, false), (100, 101, true)]
            .into_iter()
            .map(|(from, to, stored)| (from * 4096, (to - from) * 4096, stored))
            .chain([(101 * 4096, whole - 101 * 4096, false)])
            .collect();
    let merged = |list: Vec<(u64, u64, bool)>| {
        let mut out: Vec<(u64, u64, bool)> = vec![];
        for (from, length, stored) in list {
            match out.last_mut() {
                Some(last) if last.2 == stored && last.0 + last.1 == from => last.1 += length,
                _ => out.push((from, length, stored)),
            }
        }
        out
    };
    let number = |v: &Value| v.as_u64().expect("a number");
    let uri = server.uri();
    for flushed in [false, true] {
        if flushed {
            client.flush();
        }
        if has("nbdinfo") {
            let map = json(&good("nbdinfo", &["--map", "--json", &uri], dir.path()));
            let list = map.as_array().expect("a list").iter();
            let list = list.map(|e| (number(&e["offset"]), number(&e["length"]), number(&e["type"]) == 0));
            assert_eq!(merged(list.collect()), expected, "flushed: {flushed}");
        }
        if has("qemu-img") {
            let map = json(&good("qemu-img", &["map", "-f", "raw", "--output=json", &uri], dir.path()));
            let list = map.as_array().expect("a list").iter();
            let list = list.map(|e| (number(&e["start"]), number(&e["length"]), e["data"] == true));
            assert_eq!(merged(list.collect()), expected, "flushed: {flushed}");
        }
    }
    // A copy goes by the map, and loses nothing.
    if has("nbdcopy") {
        good("nbdcopy", &[&uri, "copy"], dir.path());
        let copy = std::fs::read(dir.path().join("copy")).expect("copied");
        assert_eq!(copy.len() as u64, whole);
        for (from, length, stored) in expected {
            let part = &copy[from as usize..(from + length) as usize];
            let byte = if from < 50 * 4096 { 1 } else { 2 };
            assert!(part.iter().all(|&b| b == if stored { byte } else { 0 }), "{from}");
        }
    }
}

// ---- the page in a browser ------------------------------------------------------------------------------

/// Chromium, by its DevTools protocol.
struct Browser {
    child: std::process::Child,
    socket: tungstenite::WebSocket<TcpStream>,
    next: u64,
    complaints: Vec<String>,
    _profile: tempfile::TempDir,
}

impl Browser {
    fn start() -> Option<Self> {
        let names = ["chromium", "chromium-browser", "google-chrome"];
        let there = |name: &&&str| {
            std::env::var_os("PATH")
                .is_some_and(|path| std::env::split_paths(&path).any(|d| d.join(name).is_file()))
        };
        let Some(program) = names.iter().find(there) else {
            eprintln!("SKIPPED: Chromium is not installed (./test installs it where it can)");
            return None;
        };
        let profile = temp();
        let child = Command::new(program)
            .args(["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"])
            .args(["--no-first-run", "--remote-debugging-port=0", "about:blank"])
            .arg(format!("--user-data-dir={}", profile.path().display()))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("it starts");
        let deadline = Instant::now() + Duration::from_secs(120);
        let file = profile.path().join("DevToolsActivePort");
        let port: u16 = loop {
            let text = std::fs::read_to_string(&file).unwrap_or_default();
            if let Some(port) = text.lines().next().and_then(|line| line.parse().ok()) {
                break port;
            }
            assert!(Instant::now() < deadline, "Chromium does not come up");
            std::thread::sleep(Duration::from_millis(50));
        };
        let at = SocketAddr::from(([127, 0, 0, 1], port));
        let pages = loop {
            let pages = json(&get(at, "/json/list"));
            if pages.as_array().is_some_and(|list| list.iter().any(|p| p["type"] == "page")) {
                break pages;
            }
            assert!(Instant::now() < deadline, "{pages}");
            std::thread::sleep(Duration::from_millis(50));
        };
        let page = pages.as_array().expect("a list").iter().find(|p| p["type"] == "page").expect("a page");
        let url = page["webSocketDebuggerUrl"].as_str().expect("an address");
        let stream = TcpStream::connect(at).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(60))).expect("set");
        let (socket, _) = tungstenite::client(url, stream).expect("a web socket");
        let mut browser = Self { child, socket, next: 0, complaints: vec![], _profile: profile };
        for domain in ["Page.enable", "Runtime.enable", "Log.enable"] {
            browser.call(domain, &serde_json::json!({}));
        }
        Some(browser)
    }

    fn call(&mut self, method: &str, params: &Value) -> Value {
        self.next += 1;
        let id = self.next;
        let text = serde_json::json!({ "id": id, "method": method, "params": params }).to_string();
        self.socket.send(tungstenite::Message::text(text)).expect("sent");
        loop {
            let message = self.socket.read().expect("an answer");
            let tungstenite::Message::Text(text) = message else { continue };
            let value = json(&text);
            match value["method"].as_str() {
                Some("Runtime.exceptionThrown" | "Log.entryAdded") => self.complaints.push(value.to_string()),
                None if value["id"] == id => {
                    assert!(value["error"].is_null(), "{method}: {value}");
                    return value["result"].clone();
                }
                _ => {}
            }
        }
    }

    /// What an expression is in the page.
    fn say(&mut self, expression: &str) -> Value {
        let params = serde_json::json!({ "expression": expression, "returnByValue": true });
        let answer = self.call("Runtime.evaluate", &params);
        assert!(answer["exceptionDetails"].is_null(), "{expression}: {answer}");
        answer["result"]["value"].clone()
    }

    fn wait(&mut self, expression: &str) {
        let deadline = Instant::now() + Duration::from_secs(90);
        while self.say(expression) != true {
            assert!(Instant::now() < deadline, "{expression}; {:?}", self.complaints);
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// A window of this size, light or dark.
    fn look(&mut self, width: u32, height: u32, scheme: &str) {
        let size = serde_json::json!({ "width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 600 });
        self.call("Emulation.setDeviceMetricsOverride", &size);
        let media = serde_json::json!({ "features": [{ "name": "prefers-color-scheme", "value": scheme }] });
        self.call("Emulation.setEmulatedMedia", &media);
    }

    /// The picture as bytes of a PNG file.
    fn picture(&mut self) -> Vec<u8> {
        use base64::Engine;
        let answer =
            self.call("Page.captureScreenshot", &serde_json::json!({ "captureBeyondViewport": true }));
        let text = answer["data"].as_str().expect("a picture");
        base64::engine::general_purpose::STANDARD.decode(text).expect("base64")
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn the_page_is_drawn_in_light_and_dark_on_desk_and_phone() {
    let Some(mut browser) = Browser::start() else { return };
    let dir = temp();
    let (server, at) = start(dir.path(), &with(SMALL, &["--timing", "off", "--shadow", "waflash,page"]));
    for n in 0..4 {
        load(&server, 1500, &format!("page {n}"));
        std::thread::sleep(Duration::from_millis(700));
    }
    browser.look(1280, 1600, "light");
    browser.call("Page.navigate", &serde_json::json!({ "url": format!("http://{at}/") }));
    browser.wait(
        "document.readyState === 'complete' && document.getElementById('state').textContent === 'live'",
    );
    browser.wait("data && data.host.write.requests === 6000 && !!data.blocks.map");
    browser.wait("document.querySelectorAll('#shadows tr').length === 4");
    // The figures on the page are those of the JSON.
    let view = settled(at, 6000);
    let waf = format!("{:.3}", view["waf"].as_f64().expect("written"));
    assert_eq!(browser.say("document.querySelector('#tiles .tile b').textContent"), waf.as_str());
    let row = browser.say("[...document.querySelectorAll('#latency tr')].map(r => r.textContent).join('|')");
    assert!(row.as_str().is_some_and(|r| r.contains("write, all6,000")), "{row}");
    assert!(browser.say("document.querySelectorAll('#waf polygon').length").as_u64() >= Some(3));
    assert!(browser.say("document.querySelectorAll('#wlat path').length").as_u64() >= Some(2));
    // Something of every colour is on the map.
    let colours = "(() => { const c = document.getElementById('map'), d = c.getContext('2d').getImageData(0, 0, c.width, c.height).data, s = new Set(); for (let i = 0; i < d.length; i += 4) s.add([d[i], d[i+1], d[i+2], d[i+3]].join()); return s.size; })()";
    assert!(browser.say(colours).as_u64() >= Some(3));
    for mode in ["valid", "stream", "state"] {
        browser.say(&format!("document.querySelector('[data-map={mode}]').click()"));
        let legend = browser.say("document.getElementById('map-legend').textContent");
        assert!(legend.as_str().is_some_and(|l| !l.is_empty()), "{mode}");
    }
    browser.say("document.getElementById('whole').click()");
    assert_eq!(browser.say("document.getElementById('whole').getAttribute('aria-pressed')"), "true");
    // Nothing sticks out, whatever the width; light is light and dark is dark.
    let mut pictures = vec![];
    for (width, height, scheme) in
        [(1280, 1600, "light"), (1280, 1600, "dark"), (390, 844, "dark"), (390, 844, "light")]
    {
        browser.look(width, height, scheme);
        browser.wait("document.documentElement.scrollWidth <= innerWidth");
        let paper = browser.say("getComputedStyle(document.body).backgroundColor");
        let numbers: Vec<u32> = paper
            .as_str()
            .expect("a colour")
            .split(|c: char| !c.is_ascii_digit())
            .filter_map(|n| n.parse().ok())
            .collect();
        assert_eq!(numbers[..3].iter().sum::<u32>() > 384, scheme == "light", "{paper}");
        let picture = browser.picture();
        assert!(picture.starts_with(b"\x89PNG"));
        if let Some(to) = std::env::var_os("NANDLE_PICTURES") {
            let name = format!("live-{width}-{scheme}.png");
            std::fs::write(Path::new(&to).join(name), &picture).expect("written");
        }
        pictures.push(picture);
    }
    pictures.dedup();
    assert_eq!(pictures.len(), 4, "no two look alike");
    // It asks for nothing but its own JSON, and complains of nothing.
    let asked = browser.say("performance.getEntriesByType('resource').map(e => new URL(e.name).pathname).filter(p => p !== '/live.json').join()");
    assert_eq!(asked, "");
    assert!(browser.complaints.is_empty(), "{:?}", browser.complaints);
    server.stop();
    browser.wait("document.getElementById('state').textContent === 'the server is gone'");
}
