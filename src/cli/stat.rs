//! `nandle stat` and `nandle top`: what a served drive says of itself.

use std::fmt::Write;
use std::time::{Duration, Instant};

use console::Term;
use nandle_lab::units::{bytes, count, time};
use nandle_serve::http;
use serde_json::Value;

use super::args;
use super::terminal::{Failure, say, stop_on_interrupt, tell};

/// The keys of /live.json that are for drawing.
const DRAWN: [&str; 1] = ["series"];
/// How often a waiting `nandle top` looks for Ctrl-C.
const NAP: Duration = Duration::from_millis(50);

fn ask(at: &http::Address) -> Result<Value, Failure> {
    let fail = |e: &dyn std::fmt::Display| {
        Failure::Input(format!("--at {at}: {e}; expected a drive under `nandle serve --http`"))
    };
    let text = http::get(at, "/live.json").map_err(|e| match e.kind() {
        std::io::ErrorKind::TimedOut => Failure::Ran(format!("--at {at}: {e}")),
        _ => fail(&e),
    })?;
    let value: Value = serde_json::from_str(&text).map_err(|e| fail(&e))?;
    if value["schema_version"] != 1 || value["scheme"].as_str().is_none() {
        return Err(fail(&"not what a served drive says"));
    }
    Ok(value)
}

/// `nandle stat`
pub fn stat(args: &args::Stat) -> Result<(), Failure> {
    let mut value = ask(&args.at)?;
    if args.json {
        if let Value::Object(map) = &mut value {
            DRAWN.iter().for_each(|key| drop(map.shift_remove(*key)));
        }
        value["blocks"]["map"] = Value::Null;
        return say(&format!("{value:#}\n"));
    }
    say(&table(&value))
}

/// `nandle top`
pub fn top(args: &args::Top) -> Result<(), Failure> {
    let stop = stop_on_interrupt();
    let term = Term::stdout();
    let screen = term.is_term();
    let mut left = args.count.unwrap_or(u64::MAX);
    let mut head = true;
    let mut failures = 0;
    let interval = Duration::from_secs_f64(args.interval);
    let result = loop {
        let next = Instant::now() + interval;
        match ask(&args.at) {
            Ok(value) if screen => {
                failures = 0;
                show(&term, &table(&value));
            }
            Ok(value) => {
                failures = 0;
                tell(&line(&value, std::mem::take(&mut head)))?;
            }
            // The first time it is the address; later it may come back.
            Err(e) if head && failures == 0 && left == args.count.unwrap_or(u64::MAX) => break Err(e),
            Err(_) if failures < 2 => failures += 1,
            Err(_) => break Err(Failure::Ran(format!("--at {}: the server is gone", args.at))),
        }
        left -= 1;
        while left > 0 && Instant::now() < next && !stop.load(std::sync::atomic::Ordering::Relaxed) {
            std::thread::sleep(NAP.min(next.saturating_duration_since(Instant::now())));
        }
        if left == 0 || stop.load(std::sync::atomic::Ordering::Relaxed) {
            break Ok(());
        }
    };
    if screen {
        let _ = term.show_cursor();
    }
    result
}

/// Draws over what was there, without flicker.
fn show(term: &Term, text: &str) {
    let (height, width) = term.size();
    let mut out = String::from("\u{1b}[H");
    for line in text.lines().take(usize::from(height).saturating_sub(1)) {
        out.extend(line.chars().take(width.into()));
        out.push_str("\u{1b}[K\n");
    }
    out.push_str("\u{1b}[J");
    let _ = term.hide_cursor();
    let _ = term.write_str(&out);
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or(0.0)
}

fn whole(value: &Value) -> u64 {
    value.as_u64().unwrap_or(0)
}

fn waf(value: &Value) -> String {
    value.as_f64().map_or_else(|| "-".into(), |waf| format!("{waf:.3}"))
}

fn rate(value: &Value) -> String {
    let Some(n) = value.as_f64() else { return "-".into() };
    if n >= 9.95 { count(n.round() as u64) } else { format!("{n:.1}") }
}

fn percentile(latency: &Value, share: &str) -> String {
    match whole(&latency["max"]) {
        0 => "-".into(),
        _ => time(number(&latency["percentile"][share])),
    }
}

const PARTS: [(&str, &str); 7] = [
    ("host", "host"),
    ("padding", "padding"),
    ("gc", "garbage collection"),
    ("merge", "merges"),
    ("map", "map"),
    ("meta", "metadata"),
    ("parity", "parity"),
];

/// What is left of it on a terminal.
fn table(v: &Value) -> String {
    let mut t = String::new();
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let _ = writeln!(
        t,
        "{} | {} | {} raw, {} logical | up for {}",
        text(&v["device"]),
        text(&v["scheme"]),
        bytes(whole(&v["device_bytes"]["raw"])),
        bytes(whole(&v["device_bytes"]["logical"])),
        time(number(&v["wall_ns"]))
    );
    if v["serving"] != true {
        t.push_str("waiting for the drive\n");
        return t;
    }
    let parts: Vec<String> = PARTS
        .iter()
        .map(|(key, name)| (number(&v["waf_parts"][key]), name))
        .filter(|(part, _)| *part > 0.0)
        .map(|(part, name)| format!("{part:.3} {name}"))
        .collect();
    let parts = if parts.is_empty() { "nothing written yet".into() } else { parts.join(" + ") };
    let seconds = whole(&v["now_seconds"]);
    let _ = writeln!(t, "WAF       {} = {parts}", waf(&v["waf"]));
    let _ = writeln!(t, "          {} over the last {seconds} s", waf(&v["now"]["waf"]));
    let _ = writeln!(
        t,
        "\n{:<9} {:>13} {:>11} {:>12} {:>10} {:>10} {:>10} {:>10}   since the start: {:>10} {:>10}",
        "host", "requests", "now: IOPS", "bandwidth", "mean", "50%", "99%", "max", "mean", "99%"
    );
    for kind in ["read", "write", "trim", "flush"] {
        let host = &v["host"][kind];
        if whole(&host["requests"]) == 0 {
            continue;
        }
        let (all, now) = (&host["lat_ns"], &host["now"]["lat_ns"]);
        let bandwidth = match kind {
            "trim" => "-".into(),
            _ => format!("{}/s", bytes(number(&host["now"]["bw_bytes"]).round() as u64)),
        };
        let mean = |l: &Value| if whole(&l["max"]) == 0 { "-".into() } else { time(number(&l["mean"])) };
        let max = |l: &Value| if whole(&l["max"]) == 0 { "-".into() } else { time(number(&l["max"])) };
        let _ = writeln!(
            t,
            "  {kind:<7} {:>13} {:>11} {bandwidth:>12} {:>10} {:>10} {:>10} {:>10}                    {:>10} {:>10}",
            count(whole(&host["requests"])),
            rate(&host["now"]["iops"]),
            mean(now),
            percentile(now, "50.000000"),
            percentile(now, "99.000000"),
            max(now),
            mean(all),
            percentile(all, "99.000000"),
        );
    }
    let blocks = &v["blocks"];
    let _ = writeln!(
        t,
        "\nblocks    {} of {} free, {} in the scarcest of {} planes, {} bad{}",
        count(whole(&blocks["free"])),
        count(whole(&blocks["total"])),
        whole(&blocks["free_min"]),
        whole(&blocks["planes"]),
        whole(&blocks["bad"]),
        if v["read_only"] == true { "; READ-ONLY" } else { "" }
    );
    let programs = &v["flash"]["programs"];
    let _ = writeln!(
        t,
        "programs  {}: {} host, {} collection, {} merges, {} map, {} metadata, {} parity; {} erases",
        count(whole(&programs["total"])),
        count(whole(&programs["host"])),
        count(whole(&programs["gc"])),
        count(whole(&programs["merge"])),
        count(whole(&programs["map"])),
        count(whole(&programs["meta"])),
        count(whole(&programs["parity"])),
        count(whole(&v["flash"]["erases"]))
    );
    let _ = writeln!(
        t,
        "queue     {} in the drive, {} waiting; {} refused",
        whole(&v["outstanding"]),
        whole(&v["waiting"]),
        count(whole(&v["refused"]))
    );
    match &v["lateness_ns"] {
        Value::Null if v["timing"] == "none" => t.push_str("lateness  the drive has no clocks\n"),
        Value::Null => t.push_str("lateness  timing is off\n"),
        late => {
            let _ = writeln!(
                t,
                "lateness  answers after they were due, now: 50% {}, 99% {}, max {}",
                percentile(&late["now"], "50.000000"),
                percentile(&late["now"], "99.000000"),
                time(number(&late["now"]["max"]))
            );
            clients(&mut t, v);
        }
    }
    let streams = v["streams"].as_array().map_or(&[][..], Vec::as_slice);
    let written: Vec<&Value> = streams.iter().filter(|s| whole(&s["media_bytes"]) > 0).collect();
    if written.len() > 1 {
        let _ = writeln!(
            t,
            "\n{:<20} {:>12} {:>12} {:>8} {:>14}",
            "streams", "host", "media", "WAF", "of the drive's"
        );
        for stream in written {
            let name = format!("{} {}", text(&stream["kind"]), whole(&stream["stream"]));
            let (host, media) = (whole(&stream["host_bytes"]), whole(&stream["media_bytes"]));
            let _ = writeln!(
                t,
                "  {name:<18} {:>12} {:>12} {:>8} {:>14}",
                bytes(host),
                bytes(media),
                waf(&stream["waf"]),
                waf(&stream["waf_part"])
            );
        }
    }
    shadows(&mut t, v);
    t
}

/// What was asked, modelled and achieved, and when the host was too slow.
fn clients(t: &mut String, v: &Value) {
    let clients = v["clients"].as_array().map_or(&[][..], Vec::as_slice);
    if !clients.is_empty() {
        let _ = writeln!(
            t,
            "\n{:<28} {:>11} {:>11} {:>11} {:>10} {:>10} {:>10}",
            "clients", "asked/s", "modelled/s", "achieved/s", "modelled", "achieved", "late 99%"
        );
    }
    for client in clients {
        let _ = writeln!(
            t,
            "  {:<26} {:>11} {:>11} {:>11} {:>10} {:>10} {:>10}",
            client["name"].as_str().unwrap_or_default(),
            rate(&client["asked"]["iops"]),
            rate(&client["modelled"]["iops"]),
            rate(&client["achieved"]["iops"]),
            time(number(&client["modelled"]["lat_ns"]["mean"])),
            time(number(&client["achieved"]["lat_ns"]["mean"])),
            time(number(&client["lateness_ns"]["p99"]))
        );
    }
    if let Some(complaint) = v["complaint"].as_str() {
        let _ = writeln!(t, "{complaint}");
    }
}

fn shadows(t: &mut String, v: &Value) {
    let shadows = v["shadows"].as_array().map_or(&[][..], Vec::as_slice);
    if shadows.is_empty() {
        return;
    }
    let _ = writeln!(
        t,
        "\n{:<40} {:>8} {:>12} {:>12} {:>12}  behind",
        "schemes under the same requests", "WAF", "erases", "read mean", "write mean"
    );
    let mut row = |name: &str, one: &Value, behind: &str| {
        let mean = |kind: &str| {
            let latency = &one["host"][kind]["lat_ns"];
            if whole(&latency["max"]) == 0 { "-".into() } else { time(number(&latency["mean"])) }
        };
        let _ = writeln!(
            t,
            "  {name:<38} {:>8} {:>12} {:>12} {:>12}  {behind}",
            waf(&one["waf"]),
            count(whole(&one["flash"]["erases"])),
            mean("read"),
            mean("write")
        );
    };
    row(&format!("{} (served)", v["scheme"].as_str().unwrap_or_default()), v, "");
    for shadow in shadows {
        let behind = match (whole(&shadow["missed"]), whole(&shadow["queued"])) {
            _ if shadow["failed"] == true => "FAILED".into(),
            (0, 0) => "no".into(),
            (0, _) => time(number(&shadow["behind_ns"])),
            (missed, _) => format!("{} MISSED", count(missed)),
        };
        row(shadow["scheme"].as_str().unwrap_or_default(), shadow, &behind);
    }
}

/// One line a look, for logs and pipes.
fn line(v: &Value, head: bool) -> String {
    let mut t = String::new();
    if head {
        let _ = writeln!(
            t,
            "{:>9} {:>8} {:>8} {:>10} {:>10} {:>10} {:>12} {:>12} {:>10} {:>10} {:>8} {:>10}",
            "up",
            "WAF",
            "WAF now",
            "reads/s",
            "writes/s",
            "trims/s",
            "read",
            "written",
            "read 99%",
            "write 99%",
            "free",
            "late 99%"
        );
    }
    let now = |kind: &str| &v["host"][kind]["now"];
    let bandwidth = |kind: &str| format!("{}/s", bytes(number(&now(kind)["bw_bytes"]).round() as u64));
    let _ = writeln!(
        t,
        "{:>9} {:>8} {:>8} {:>10} {:>10} {:>10} {:>12} {:>12} {:>10} {:>10} {:>8} {:>10}",
        time(number(&v["wall_ns"])),
        waf(&v["waf"]),
        waf(&v["now"]["waf"]),
        rate(&now("read")["iops"]),
        rate(&now("write")["iops"]),
        rate(&now("trim")["iops"]),
        bandwidth("read"),
        bandwidth("write"),
        percentile(&now("read")["lat_ns"], "99.000000"),
        percentile(&now("write")["lat_ns"], "99.000000"),
        count(whole(&v["blocks"]["free"])),
        percentile(&v["lateness_ns"]["now"], "99.000000")
    );
    t
}
