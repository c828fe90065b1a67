//! Goal: `--until steady` ends where theory says that a drive comes to rest, says so where it does not, and a
//! fraction of a drive comes to rest where the whole does.
//! Method: closed forms of write amplification (uniform writes under FIFO collection; whole passes over the drive),
//! on fractions of a preset; the real program for what it says and its exit codes.

use std::fmt::Write as _;
use std::sync::atomic::AtomicBool;

use assert_cmd::Command;
use nandle_lab::config::{PRESETS, Wanted};
use nandle_lab::measure::{Summary, Until};
use nandle_lab::run::Run;
use nandle_lab::workload::Asked;

use crate::closed_forms;

fn run(device: &str, sets: &[&str], workload: &str, until: Until) -> Summary {
    let sets: Vec<String> = sets.iter().map(|s| (*s).to_owned()).collect();
    let drive = Wanted { device, scheme: None, sets: &sets }.load().expect("a device");
    let asked = Asked { workload: workload.into(), seed: 3, until: Some(until), ..Asked::default() };
    let run = Run {
        drive,
        asked,
        seed: 3,
        verify: false,
        power_cuts: None,
        output: None,
        io_log: false,
        explain: 0,
    };
    run.go(&AtomicBool::new(false), &mut |_| {}).expect("it runs").summary
}

#[test]
fn uniform_writes_come_to_rest_at_the_theory_on_every_fraction() {
    let mut latencies = Vec::new();
    for device in ["gc20@1/8", "gc20@1/2"] {
        let sets = [
            "geometry.blocks_per_plane=1024",
            "geometry.pages_per_block=16",
            "gc.victim=fifo",
            "gc.copies_in_flight=1",
        ];
        let s = run(device, &sets, "gc20", Until::default());
        assert!(s.steady.reached && s.complete && s.steady_state, "{device}: {}", s.steady_state_reason);
        // A block free and one open, on average, of each of the 32 planes are no spare.
        let held = 32 * 2 * 16 * 8192;
        let rho = (s.device_bytes.raw - held) as f64 / s.device_bytes.logical as f64 - 1.0;
        let theory = closed_forms::theory(rho);
        let waf = s.steady.waf.expect("it wrote");
        println!("{device}: {waf:.3}, theory {theory:.3}, {:.2} drive writes", s.drive_writes);
        assert!((waf / theory - 1.0).abs() < 0.04, "{device}: {waf:.3}, theory {theory:.3}");
        let from = s.steady.from_drive_writes.expect("it wrote");
        // Three windows of half a write of what was written by then (random places leave some out).
        assert!(s.drive_writes - from > 1.1, "{from} of {}", s.drive_writes);
        latencies.push(s.host.write.lat_ns.mean);
    }
    assert!((latencies[0] / latencies[1] - 1.0).abs() < 0.1, "{latencies:?}");
}

#[test]
fn a_trace_repeats_until_the_drive_is_at_rest() {
    let drive = Wanted { device: "gc20@1/16", ..Wanted::default() }.load().expect("a device");
    let chunk = 1 << 20;
    let mut csv = String::from("time_ns,op,offset,bytes\n");
    let count = drive.layout.logical_bytes / chunk;
    for n in 0..count {
        let _ = writeln!(csv, "{},write,{},{chunk}", n * 20_000_000, n * chunk);
    }
    let file = tempfile::Builder::new().suffix(".csv").tempfile().expect("a file");
    std::fs::write(file.path(), csv).expect("written");
    let path = file.path().display().to_string();
    let s = run("gc20@1/16", &[], &path, Until::default());
    assert!(s.steady.reached, "{}", s.steady_state_reason);
    // Whole passes, and victims without a live page.
    assert_eq!(s.trace.submitted % count, 0, "{:?}", s.trace);
    assert!(s.trace.submitted > 3 * count && s.gc.invocations > 0);
    let waf = s.steady.waf.expect("it wrote");
    assert!((0.99..1.03).contains(&waf), "{waf}");
}

#[test]
fn jobs_and_named_workloads_go_on_and_what_cannot_says_so() {
    let job = tempfile::Builder::new().suffix(".fio").tempfile().expect("a file");
    let text = "[a]\nrw=randwrite\nbs=8k\nsize=50%\nnorandommap=1\nnumber_ios=500\niodepth=16\n";
    std::fs::write(job.path(), text).expect("written");
    let until = Until { band: 0.05, ..Until::default() };
    let s = run("gc20@1/16", &[], &job.path().display().to_string(), until);
    assert!(s.steady.reached && s.trace.submitted > 500, "{}", s.steady_state_reason);
    // Half of the drive is written: its drive writes are of that half.
    assert!(s.drive_writes < 10.0, "{}", s.drive_writes);
    let reads = run("gc20@1/16", &[], "random-read", until);
    assert!(!reads.steady.reached && reads.steady_state_reason.contains("wrote nothing"));
    let few = run("gc20@1/16", &[], "gc20", Until { at_most: 1.0, ..until });
    assert!(!few.steady.reached && few.drive_writes < 3.0, "{}", few.drive_writes);
}

#[test]
fn fractions_keep_the_ratios_of_every_preset() {
    for preset in PRESETS {
        let whole = preset.load().expect("a preset");
        for of in [2, 4] {
            let name = format!("{}@1/{of}", preset.name);
            let part = Wanted { device: &name, ..Wanted::default() }.load().expect(&name);
            let (g, h) = (&whole.config.geometry, &part.config.geometry);
            assert_eq!(part.config.name, name);
            assert_eq!(
                (g.planes(), g.pages_per_block, g.page_bytes),
                (h.planes(), h.pages_per_block, h.page_bytes)
            );
            let size = whole.layout.logical_bytes as f64 / part.layout.logical_bytes as f64;
            assert!((size / f64::from(of) - 1.0).abs() < 0.03, "{name}: {size}");
            // What is left of the raw blocks is the same multiple of the logical size.
            let effective = |d: &nandle_lab::config::Drive| {
                let held = d.layout.soft_blocks + d.layout.open_blocks;
                let g = &d.config.geometry;
                f64::from(g.blocks_per_plane - held) * f64::from(g.planes()) * f64::from(g.pages_per_block)
                    / f64::from(d.layout.logical_pages)
            };
            let (whole, part) = (effective(&whole), effective(&part));
            assert!((whole / part - 1.0).abs() < 0.005, "{name}: {whole} and {part}");
        }
    }
    // All schemes serve the same logical size.
    let of = |scheme| Wanted { device: "modern-tlc@1/16", scheme, sets: &[] }.load().expect("a device");
    let plain = of(None);
    for scheme in ["papa", "multi-stream(8)", "across"] {
        assert_eq!(of(Some(scheme)).layout.logical_bytes, plain.layout.logical_bytes, "{scheme}");
    }
    // Sizes given by hand are meant as they stand.
    let sets = ["buffer.bytes=4Mi".to_owned()];
    let by_hand = Wanted { device: "modern-tlc@1/16", scheme: None, sets: &sets }.load().expect("a device");
    assert_eq!(by_hand.config.buffer.bytes, 4 << 20);
}

fn nandle(args: &[&str]) -> (Option<i32>, String, String) {
    let out = Command::cargo_bin("nandle").expect("built").args(args).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

#[test]
fn bad_fractions_name_one_that_works() {
    for (name, expected) in [
        ("demo@0/4", "demo@1/16"),
        ("demo@5/4", "demo@1/16"),
        ("demo@half", "demo@1/16"),
        ("nope@1/4", "no device is called \"nope\""),
        ("modern-tlc@1/5000", "expected modern-tlc@1/"),
    ] {
        let (code, _, said) = nandle(&["validate", name]);
        assert!(code == Some(2) && said.contains(expected) && said.trim().lines().count() == 1, "{said}");
        if let Some(works) = said.split("expected ").nth(1).filter(|_| name.contains("5000")) {
            let works = works.split_whitespace().next().expect("a name");
            assert_eq!(nandle(&["validate", works]).0, Some(0), "{works}");
        }
    }
}

#[test]
fn runs_that_are_not_steady_say_so_and_are_not_concluded_from() {
    let (code, table, said) =
        nandle(&["run", "--device", "gc20@1/16", "--until", "steady", "--at-most", "1"]);
    assert!(code == Some(1) && said.contains("not steady") && said.lines().count() == 1, "{said}");
    assert!(table.contains("steady state: no"), "{table}");
    let few = ["compare", "--schemes", "page,waflash", "--requests", "2k", "-j", "1"];
    let (code, table, said) = nandle(&few);
    assert!(
        code == Some(0) && table.contains("no verdict") && !table.contains("least flash"),
        "{table}{said}"
    );
    let steady = table.lines().find(|line| line.trim_start().starts_with("steady")).expect("a row");
    assert_eq!(steady.matches("no").count(), 2, "{steady}");
    for bad in [
        &["run", "--until", "steady", "--requests", "10"][..],
        &["run", "--until", "steady", "--band", "0"],
        &["run", "--until", "steady", "--at-most", "0.5"],
        &["run", "--until", "steady", "--workload", "-"],
        &["run", "--band", "0.1"],
        &["run", "--requests", "1.23456k"],
    ] {
        let (code, _, said) = nandle(bad);
        assert!(code == Some(2) && !said.contains("panicked"), "{bad:?}: {said}");
    }
}

#[test]
fn lists_are_json_too() {
    for (list, keys) in [
        ("presets", &["name", "description", "raw_bytes", "logical_bytes"][..]),
        ("schemes", &["seam", "name", "description"]),
        ("workloads", &["name", "description"]),
    ] {
        let (_, text, _) = nandle(&[list, "--json"]);
        let rows: Vec<serde_json::Value> = serde_json::from_str(&text).expect("a list");
        let (_, plain, _) = nandle(&[list]);
        assert!(
            rows.len() > 10 && rows.iter().all(|row| keys.iter().all(|k| row[k] != serde_json::Value::Null))
        );
        // Nothing is in one and not in the other.
        let missing = rows.iter().find(|row| !plain.contains(row["name"].as_str().expect("a name")));
        assert_eq!(missing, None);
    }
    let (code, text, _) = nandle(&["doctor", "--json"]);
    let doctor: serde_json::Value = serde_json::from_str(&text).expect("an object");
    assert!(code == Some(0) && doctor["ok"] == true && doctor["checks"][1]["name"] == "presets", "{text}");
}

#[test]
fn a_drive_write_is_of_the_whole_range_however_skewed_it_begins() {
    // The first thousand writes of an OLTP trace are the same few pages several times over.
    let s = run("demo", &["geometry.blocks_per_plane=48"], "fin", Until { at_most: 1.0, ..Until::default() });
    assert!(
        s.drive_writes > 0.5,
        "given up after {} drive writes: {}",
        s.drive_writes,
        s.steady_state_reason
    );
}
