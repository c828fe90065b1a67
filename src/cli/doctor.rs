//! `nandle doctor`: whether this machine has what the program can use.

use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use nandle_lab::config::{PRESETS, Wanted};
use nandle_lab::run::Run;
use nandle_lab::units::{count, time};
use nandle_lab::workload::Asked;
use nandle_serve::calibrate::{self, Calibration};
use serde_json::json;

use super::args;
use super::terminal::{Failure, json_text, say};

/// Programs that work with this one, and what for.
const COMPANIONS: [(&str, &str); 6] = [
    ("fio", "job files run here without it; it drives a served device"),
    ("nbd-client", "attaches a served device over NBD"),
    ("nvme", "attaches a served device over NVMe/TCP"),
    ("qemu-system-x86_64", "boots a guest from a served device"),
    ("python3", "reads results.parquet with polars or pandas"),
    ("xz", "traces in .xz are read without it"),
];

/// `nandle doctor`
pub fn doctor(args: &args::Doctor) -> Result<(), Failure> {
    let mut text = format!("nandle {}\n", env!("CARGO_PKG_VERSION"));
    let (mut wrong, mut checks, mut at_hand) = (0, Vec::new(), Vec::new());
    let mut check = |name: &str, result: Result<String, String>| {
        let ok = result.is_ok();
        let (mark, said) = match result {
            Ok(said) => ("ok   ", said),
            Err(said) => {
                wrong += 1;
                ("WRONG", said)
            }
        };
        let _ = writeln!(text, "  {mark} {name:<12} {said}");
        checks.push(json!({ "name": name, "ok": ok, "said": said }));
    };
    check(
        "system",
        Ok(format!("{} {}, {} processors", std::env::consts::OS, std::env::consts::ARCH, args::workers())),
    );
    check("presets", presets());
    check("simulator", simulate());
    check("files", files());
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    text += "not needed, but at hand:\n";
    for (program, what) in COMPANIONS {
        let found = folders.iter().any(|dir| dir.join(program).is_file());
        let _ = writeln!(text, "  {} {program:<19} {what}", if found { "yes" } else { "no " });
        at_hand.push(json!({ "name": program, "found": found, "said": what }));
    }
    #[cfg(all(feature = "ublk", target_os = "linux"))]
    {
        let (mark, said) = match nandle_serve::ublk::check() {
            Ok(()) => ("yes", "a served device can be a block device here, /dev/ublkbN".to_owned()),
            Err(e) => ("no ", e.to_string().trim_start_matches("--ublk: ").to_owned()),
        };
        let _ = writeln!(text, "  {mark} {:<19} {said}", "ublk");
        at_hand.push(json!({ "name": "ublk", "found": mark == "yes", "said": said }));
    }
    let calibration = if args.calibrate { calibrate()? } else { vec![] };
    if args.listing.json {
        let version = env!("CARGO_PKG_VERSION");
        let all = json!({ "version": version, "ok": wrong == 0, "checks": checks, "at_hand": at_hand, "calibration": calibration.iter().map(Calibration::json).collect::<Vec<_>>() });
        text = json_text(&all);
    }
    if args.calibrate && !args.listing.json {
        text += &calibrated(&calibration);
    }
    say(&text)?;
    if wrong > 0 { Err(Failure::Ran(format!("{wrong} checks failed"))) } else { Ok(()) }
}

/// How long each transport is measured.
const CALIBRATION: Duration = Duration::from_secs(2);

fn calibrate() -> Result<Vec<Calibration>, Failure> {
    let dir = std::env::temp_dir().join(format!("nandle-calibration-{}", std::process::id()));
    std::fs::create_dir_all(&dir).map_err(|e| Failure::Ran(format!("{}: {e}", dir.display())))?;
    let all = calibrate::run(&dir, CALIBRATION);
    let _ = std::fs::remove_dir_all(&dir);
    Ok(all?)
}

/// What this machine can serve in real time, by transport.
fn calibrated(all: &[Calibration]) -> String {
    let mut text = format!(
        "in real time, as busy as this machine is now (4 KiB reads of one client, for the rate 32 at a time; see docs/real-time.md):\n  {:<19} {:>12} {:>12} {:>12}\n",
        "", "adds, 50%", "adds, 99%", "requests/s"
    );
    for one in all {
        let [half, most] = one.floor_ns.map(|ns| time(ns as f64));
        let rate = count(one.most_iops as u64);
        let _ = writeln!(text, "  {:<19} {half:>12} {most:>12} {rate:>12}", one.transport);
    }
    text += "a drive of so many times these requests a second wants `nandle serve --dilation` of twice that factor\n";
    text
}

fn presets() -> Result<String, String> {
    for preset in PRESETS {
        preset.load().map_err(|e| format!("{}: {e}", preset.name))?;
    }
    Ok(format!("{} devices load", PRESETS.len()))
}

/// A small run twice, every read compared with the last write, and both ends the same.
fn simulate() -> Result<String, String> {
    let sets = ["geometry.blocks_per_plane=64".to_owned()];
    let drive = Wanted { device: "gc20", scheme: None, sets: &sets }.load().map_err(|e| e.to_string())?;
    let run = Run {
        drive,
        asked: Asked { workload: "mixed".into(), seed: 1, requests: Some(20_000), ..Asked::default() },
        seed: 1,
        verify: true,
        power_cuts: None,
        output: None,
        io_log: false,
        explain: 0,
    };
    let stop = AtomicBool::new(false);
    let once = || run.clone().go(&stop, &mut |_| {}).map_err(|e| e.to_string());
    let (first, second) = (once()?.summary, once()?.summary);
    if let Some(failure) = first.integrity.failure() {
        return Err(failure);
    }
    if first.integrity.checked_sectors == 0 {
        return Err("no sector was verified".into());
    }
    if first.digest != second.digest {
        return Err(format!("the same run ended differently: {} and {}", first.digest, second.digest));
    }
    Ok(format!(
        "{} sectors verified; digest {}; {} requests per CPU s",
        first.integrity.checked_sectors,
        first.digest,
        count(first.requests_per_cpu_s as u64)
    ))
}

fn files() -> Result<String, String> {
    let dir = std::env::temp_dir();
    let path = dir.join(format!("nandle-doctor-{}", std::process::id()));
    std::fs::write(&path, b"x").map_err(|e| format!("{}: {e}", dir.display()))?;
    std::fs::remove_file(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    Ok(format!("{} can be written", dir.display()))
}
