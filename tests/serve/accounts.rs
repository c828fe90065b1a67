//! Goal: what a served drive counts by client, transport and stream adds up to what it counts of the whole, and is the
//! same wherever it is shown.
//! Method: clients of our own that know what they sent; the summary, `/metrics`, `nandle stat` and the table at the end
//! read side by side, and the flash's own counters beside the sums.

use crate::served;

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::time::Duration;

use nandle_random::Stream;
use nandle_serve::nbd::wire::command;
use nandle_serve::nvme_tcp::host::{Host, Options, blocks};
use nandle_serve::nvme_tcp::wire::op;
use serde_json::Value;
use served::{Client, SMALL, Served, good, temp, with};

const MIB: u64 = 1 << 20;

fn start(dir: &Path, more: &[&str]) -> (Served, SocketAddr) {
    let mut server = Served::start(dir, &with(&with(SMALL, more), &["--http", ":0"]));
    let line = server.line("http");
    let at = line.trim().trim_start_matches("http   http://").trim_end_matches('/').parse();
    (server, at.expect("an address"))
}

fn get(at: SocketAddr, path: &str) -> String {
    let mut stream = TcpStream::connect(at).expect("a connection");
    write!(stream, "GET {path} HTTP/1.1\r\nHost: {at}\r\nConnection: close\r\n\r\n").expect("sent");
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("text");
    answer.split_once("\r\n\r\n").expect("a head").1.to_owned()
}

/// The summary and the metrics, some seconds after the last request.
fn shown(at: SocketAddr) -> (Value, String) {
    std::thread::sleep(Duration::from_millis(2500));
    (serde_json::from_str(&get(at, "/summary.json")).expect("JSON"), get(at, "/metrics"))
}

/// Samples of a family: labels and value.
fn samples<'a>(metrics: &'a str, name: &str) -> Vec<(&'a str, f64)> {
    let of = |line: &'a str| {
        let rest = line.strip_prefix("nandle_")?.strip_prefix(name)?;
        let (labels, value) = rest.rsplit_once(' ')?;
        (labels.is_empty() || labels.starts_with('{')).then(|| (labels, value.parse().expect("a number")))
    };
    metrics.lines().filter_map(of).collect()
}

fn sum(samples: &[(&str, f64)]) -> f64 {
    samples.iter().map(|(_, value)| value).sum()
}

fn number(value: &Value, path: &str) -> u64 {
    value.pointer(path).and_then(Value::as_u64).unwrap_or_else(|| panic!("no {path}: {value:#}"))
}

fn real(value: &Value, path: &str) -> f64 {
    value.pointer(path).and_then(Value::as_f64).unwrap_or_else(|| panic!("no {path}: {value:#}"))
}

#[test]
fn each_client_is_charged_what_its_writes_took() {
    let dir = temp();
    let (server, at) = start(dir.path(), &["--timing", "off"]);
    let (mut whole, mut small) = (server.client(), server.client());
    let mut draw = Stream::new(1, "charged");
    // Whole pages, each once, among sectors of another client that are written again and again.
    let mut small_writes = |small: &mut Client, times: u64| {
        (0..times).for_each(|_| small.write((16 * MIB) + draw.below(1024) * 4096, &[2; 4096]));
    };
    for page in 0..512 {
        whole.write(page * 16384, &[1; 16384]);
        small_writes(&mut small, 8);
    }
    drop(whole);
    small_writes(&mut small, 20_000);
    small.flush();
    let (summary, metrics) = shown(at);
    let users = summary["users"].as_array().expect("users");
    assert_eq!(users.len(), 2, "{users:#?}");
    let page = real(&summary, "/flash/bytes_programmed") / real(&summary, "/flash/programs/total");
    let pages = |path: &str| (real(&summary, path) * page) as u64;
    let of = |n: usize, key: &str| number(&users[n], &format!("/{key}"));
    assert_eq!(of(0, "write/bytes"), 512 * 16384);
    assert_eq!(of(0, "programmed_bytes"), 512 * 16384, "whole pages, each programmed once");
    assert!(of(0, "copied_bytes") > 0, "what it left behind is moved for it: {users:#?}");
    // Each of the other's sectors fills a page of 16 KiB, but for those that met in the buffer.
    assert!(of(1, "programmed_bytes") > 2 * of(1, "write/bytes"), "{users:#?}");
    let all = |key: &str| of(0, key) + of(1, key);
    assert_eq!(
        all("programmed_bytes"),
        pages("/flash/programs/host"),
        "all that was programmed for the host"
    );
    let copied = pages("/flash/programs/gc") + pages("/flash/programs/merge");
    // What is being moved is not over yet.
    let under_way = copied - all("copied_bytes");
    assert!(copied > 100 * 16384 && under_way <= 64 * 16384, "{copied} {under_way}");
    for user in users {
        let charged = real(user, "/programmed_bytes") + real(user, "/copied_bytes");
        assert!((real(user, "/waf") - charged / real(user, "/write/bytes")).abs() < 1e-9);
    }
    for (key, name) in
        [("programmed_bytes", "client_programmed_bytes_total"), ("copied_bytes", "client_copied_bytes_total")]
    {
        let values: Vec<u64> = samples(&metrics, name).into_iter().map(|(_, v)| v as u64).collect();
        assert_eq!(values, [of(0, key), of(1, key)], "{metrics}");
    }
    let said = server.stop();
    assert_eq!(said.lines().filter(|line| line.starts_with("  - flash ")).count(), 2, "{said}");
}

#[test]
fn host_bytes_are_what_clients_sent_where_these_are_less_than_sectors() {
    let dir = temp();
    let (server, at) = start(dir.path(), &["--timing", "off", "--shadow", "baseline"]);
    let mut client = server.client();
    let mut draw = Stream::new(1, "small");
    let (mut sent, mut writes) = (0, 0);
    for n in 0..3000 {
        let bytes = if n % 3 == 0 { 1 + draw.below(9000) } else { 512 };
        let offset = draw.below(8 * MIB / 512) * 512 + if n % 3 == 0 { draw.below(512) } else { 0 };
        client.write(offset, &vec![n as u8; bytes as usize]);
        (sent, writes) = (sent + bytes, writes + 1);
    }
    // Zeros that begin and end within sectors are written at both ends.
    client.ask(command::WRITE_ZEROES, 0, 16 * MIB + 100, 3 * 4096, &[]).expect("zeros");
    let mut read = 0;
    for n in 0..100 {
        let length = 512 + n * 77;
        assert_eq!(client.read(n * 512, length as u32).len() as u64, length);
        read += length;
    }
    client.flush();
    let (summary, metrics) = shown(at);
    let zeros = (4096 - 100) + 100;
    for one in [&summary, &summary["shadows"][0], &serde_json::json!({ "host": summary["users"][0] })] {
        assert_eq!(number(one, "/host/write/bytes"), sent + zeros);
        assert_eq!(number(one, "/host/write/requests"), writes + 2);
        assert_eq!((number(one, "/host/read/bytes"), number(one, "/host/read/requests")), (read, 100));
    }
    assert!(metrics.contains(&format!("nandle_host_bytes_total{{op=\"write\"}} {}\n", sent + zeros)));
    let programmed = real(&summary, "/flash/bytes_programmed");
    assert!((real(&summary, "/waf") - programmed / (sent + zeros) as f64).abs() < 1e-9);
    let parts = summary["waf_parts"].as_object().expect("parts").values().filter_map(Value::as_f64);
    assert!((parts.sum::<f64>() - real(&summary, "/waf")).abs() < 1e-9, "{}", summary["waf_parts"]);
    assert_eq!(summary["shadows"][0]["waf"], summary["waf"]);
}

#[test]
fn streams_and_parity_add_up_to_the_amplification() {
    let dir = temp();
    let superblocks = ["scheme.striping=superblock", "superblock.parity=8", "geometry.blocks_per_plane=40"];
    let mut args = vec!["--timing", "off", "--scheme", "lru+page+fdp(2)"];
    superblocks.iter().for_each(|set| args.extend(["--set", set]));
    let (server, at) = start(dir.path(), &args);
    let mut client = server.client();
    let mut draw = Stream::new(1, "streams");
    let sectors = client.bytes / 4096;
    (0..30_000).for_each(|_| client.write(draw.below(sectors) * 4096, &[1; 4096]));
    client.flush();
    let (summary, metrics) = shown(at);
    assert!(
        real(&summary, "/waf_parts/parity") > 0.05 && real(&summary, "/waf_parts/gc") > 0.1,
        "{summary:#}"
    );
    let parts = samples(&metrics, "stream_write_amplification_part");
    let waf = sum(&samples(&metrics, "write_amplification"));
    assert!(parts.len() > 2 && (sum(&parts) - waf).abs() < 1e-9, "{parts:?} {waf}");
    let said = server.stop();
    let waf = said.lines().find_map(|line| line.strip_prefix("WAF ")).expect("WAF");
    let waf: f64 = waf.split_whitespace().next().and_then(|word| word.parse().ok()).expect("a number");
    let table = said.lines().skip_while(|line| !line.starts_with("streams ")).skip(1);
    let rows: Vec<&str> = table.take_while(|line| line.starts_with("  ")).collect();
    let part = |row: &&str| row.split_whitespace().last().and_then(|word| word.parse::<f64>().ok());
    let of_streams: f64 = rows.iter().filter_map(part).sum();
    assert!(rows.len() > 2 && rows.iter().any(|row| row.contains("parity")), "{said}");
    assert!((of_streams - waf).abs() < 0.0006 * rows.len() as f64, "{of_streams} {waf}: {said}");
}

#[test]
fn transports_are_in_the_metrics_and_one_request_has_no_rate() {
    let dir = temp();
    let mut server = Served::start(
        dir.path(),
        &with(SMALL, &["--nvme-tcp", ":0", "--http", ":0", "--set", "timing.read_ns=[9000,9000,9000]"]),
    );
    let nvme = server.nvme();
    let line = server.line("http");
    let at: SocketAddr =
        line.trim().trim_start_matches("http   http://").trim_end_matches('/').parse().expect("an address");
    let (mut many, mut one) = (server.client(), server.client());
    for n in 0..50 {
        many.read(n * 4096, 4096);
    }
    one.read(0, 4096);
    let mut host = Host::connect(nvme, &Options::default()).expect("a subsystem");
    for n in 0..30 {
        host.io.command(blocks(op::READ, n, 1), &[], 4096).expect("an answer");
    }
    let (summary, metrics) = shown(at);
    let transports = summary["transports"].as_object().expect("transports");
    assert_eq!(transports.keys().collect::<Vec<_>>(), ["nbd", "nvme-tcp"]);
    for (name, path) in [
        ("transport_answers_total", "/achieved/requests"),
        ("transport_bytes_total", "/achieved/bytes"),
        ("transport_asked_iops", "/asked/iops"),
        ("transport_modelled_iops", "/modelled/iops"),
        ("transport_achieved_iops", "/achieved/iops"),
    ] {
        let values = samples(&metrics, name);
        assert_eq!(values.len(), 2, "{name}: {metrics}");
        for (transport, said) in transports {
            let label = format!("{{transport=\"{transport}\"}}");
            let value = values.iter().find(|(labels, _)| *labels == label).expect("a sample").1;
            assert!((value / real(said, path) - 1.0).abs() < 1e-9, "{name}: {value} {said:#}");
        }
    }
    assert_eq!(sum(&samples(&metrics, "transport_answers_total")), real(&summary, "/achieved/requests"));
    assert_eq!(samples(&metrics, "transport_answers_total")[0].1, 51.0);
    let clients = summary["clients"].as_array().expect("clients");
    let single = clients.iter().find(|client| number(client, "/achieved/requests") == 1).expect("one");
    assert!(single["asked"]["iops"].is_null() && real(single, "/achieved/iops") > 0.0, "{single:#}");
    let place = at.to_string();
    let stat = good(env!("CARGO_BIN_EXE_nandle"), &["stat", "--at", &place], dir.path());
    let name = single["name"].as_str().expect("a name");
    let row = stat.lines().find(|line| line.trim_start().starts_with(name)).expect("a row");
    assert_eq!(row.trim_start().trim_start_matches(name).split_whitespace().next(), Some("-"), "{stat}");
}

#[test]
fn rates_without_timing_are_by_the_drives_clock_everywhere() {
    let dir = temp();
    let (server, at) = start(dir.path(), &["--timing", "off"]);
    std::thread::sleep(Duration::from_millis(1200));
    let mut client = server.client();
    (0..2000).for_each(|n| client.write(n * 7 % 1000 * 4096, &[1; 4096]));
    let (summary, _) = shown(at);
    let live: Value = serde_json::from_str(&get(at, "/live.json")).expect("JSON");
    let (now, whole) = (real(&live, "/host/write/now/iops"), real(&summary, "/host/write/iops"));
    assert!((now / whole - 1.0).abs() < 0.05, "{now} {whole}");
}
