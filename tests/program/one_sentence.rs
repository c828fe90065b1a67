//! Goal: what cannot be done, and what an earlier program left half done, ends in one sentence or is mended: no panic,
//! no abort, no corrupted results.
//! Method: the program itself, with too little memory, damaged files, huge requests, killed and simultaneous runs.
#![cfg(target_os = "linux")]

use std::fs;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

const NANDLE: &str = env!("CARGO_BIN_EXE_nandle");

fn nandle(dir: &Path, args: &[&str]) -> Output {
    Command::new(NANDLE).args(args).current_dir(dir).output().expect("nandle")
}

/// The one sentence of a command that must end with exit code 2.
fn refused(out: &Output) -> String {
    let message = String::from_utf8_lossy(&out.stderr).into_owned();
    assert_eq!(out.status.code(), Some(2), "{message}");
    assert_eq!(message.trim().lines().count(), 1, "{message}");
    assert!(message.starts_with("nandle: ") && !message.contains("panicked"), "{message}");
    message
}

/// With at most so many KiB of address space.
fn limited(kib: u64, args: &str) -> Output {
    let script = format!("ulimit -v {kib}; exec '{NANDLE}' {args}");
    Command::new("sh").args(["-c", &script]).output().expect("sh")
}

#[test]
fn too_large_a_drive_is_refused_with_what_it_needs() {
    let large = "--device demo --set geometry.blocks_per_plane=20000";
    for args in [format!("run {large} --requests 10"), format!("serve --nbd unix:/tmp/nobody {large}")] {
        let message = refused(&limited(300_000, &args));
        assert!(message.contains("bytes of memory") && message.contains("ulimit -v"), "{message}");
        let words: Vec<&str> = message.split_whitespace().collect();
        let needs = words.iter().position(|word| *word == "needs").expect("what it needs") + 1;
        let need: u64 = words[needs].parse().expect("a number of bytes");
        assert!(need > 300_000 << 10, "{message}");
        // As much as that is enough, beside code and threads.
        if args.starts_with("run") {
            let out = limited((need >> 10) + 200_000, &args);
            assert!(out.status.success(), "{out:?}");
        }
    }
    // Nothing of that is aborted by an allocation that fails, however much there is.
    for kib in [150_000, 200_000, 250_000, 350_000, 450_000, 600_000] {
        let out = limited(kib, &format!("run {large} --requests 10"));
        assert!(matches!(out.status.code(), Some(0 | 2)), "{kib} KiB: {out:?}");
    }
}

#[test]
fn what_a_server_writes_overwrites_neither_its_image_nor_itself() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let (contents, at) = (b"an image", |name: &str| dir.path().join(name));
    fs::write(at("v.img"), contents).expect("written");
    fs::hard_link(at("v.img"), at("hard")).expect("a link");
    std::os::unix::fs::symlink("v.img", at("soft")).expect("a link");
    std::os::unix::fs::symlink("new.img", at("dangling")).expect("a link");
    fs::create_dir(at("folder")).expect("made");
    let overwrites = "it would overwrite the image";
    for (args, part) in [
        ("--image v.img --json v.img", overwrites),
        ("--image v.img --record ./v.img", overwrites),
        ("--image v.img --json hard", overwrites),
        ("--image v.img --record folder/../soft", overwrites),
        ("--image new.img --json ./folder/../new.img", overwrites),
        ("--image new.img --json dangling", overwrites),
        ("--image new.img --record new.img.1", overwrites),
        ("--image new.img --record new.img.new", overwrites),
        ("--json r.json --record r.json", "--json r.json: --record writes there"),
        ("--json - --record -", "--json -: --record writes there"),
        ("--json /nonexistent/x", "--json /nonexistent/x: No such file"),
        ("--record /nonexistent/x.csv", "--record /nonexistent/x.csv: No such file"),
        ("--record folder", "--record folder: a directory"),
    ] {
        let words: Vec<&str> = ["serve", "--nbd", "unix:s"].into_iter().chain(args.split(' ')).collect();
        let message = refused(&nandle(dir.path(), &words));
        assert!(message.contains(part) && message.contains("; expected "), "{args}: {message}");
    }
    assert_eq!(fs::read(at("v.img")).expect("there"), contents);
    assert!(!at("r.json").exists() && !at("new.img").exists());
}

#[test]
fn damaged_parquet_is_one_error() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let rows: String = (0..3000).map(|n| format!("{},write,{},4096\n", n * 1000, n % 50 * 4096)).collect();
    fs::write(dir.path().join("t.csv"), format!("time_ns,op,offset,bytes\n{rows}")).expect("written");
    let out = nandle(dir.path(), &["trace", "convert", "t.csv", "t.parquet"]);
    assert!(out.status.success(), "{out:?}");
    let sound = fs::read(dir.path().join("t.parquet")).expect("the trace");
    let (mut errors, mut panics) = (0, 0);
    let mut info = |at: usize, mask: u8| {
        let mut bytes = sound.clone();
        bytes[at] ^= mask;
        fs::write(dir.path().join("bad.parquet"), &bytes).expect("written");
        let out = nandle(dir.path(), &["trace", "info", "bad.parquet"]);
        if out.status.code() != Some(0) {
            let message = refused(&out);
            assert!(message.contains("bad.parquet"), "byte {at}: {message}");
            errors += 1;
        }
    };
    // With its mark at both ends it is Parquet, and not any other format.
    let ends = 4..sound.len() - 4;
    for (n, at) in ends.clone().step_by(sound.len() / 100).enumerate() {
        info(at, [0x01, 0x80, 0xff][n % 3]);
    }
    // What the decoder, which is not ours, panics at. Its metadata are in the end.
    for at in ends.rev().take(2000) {
        for mask in [0x01, 0xff] {
            let mut bytes = sound.clone();
            bytes[at] ^= mask;
            let decode = || nandle_table::Reader::bytes(bytes)?.whole();
            if std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode)).is_err() {
                info(at, mask);
                panics += 1;
            }
        }
    }
    assert!(errors > 20 && panics > 0, "{errors} errors, {panics} panics of the decoder");
}

#[test]
fn verification_takes_what_is_written_and_a_bounded_part_of_what_is_asked_for() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let run = |device: &[&str], lines: String| {
        fs::write(dir.path().join("t.csv"), format!("time_ns,op,offset,bytes\n{lines}")).expect("written");
        let args = ["run", "--workload", "t.csv", "--json", "summary.json", "--verify"];
        nandle(dir.path(), &[&args[..], device].concat())
    };
    // 931 GiB, of which 4 are written and read.
    let size = 1_u64 << 32;
    let out = run(&["--device", "modern-tlc"], format!("0,write,0,{size}\n1,read,0,{size}\n"));
    assert!(out.status.success(), "{out:?}");
    let text = fs::read_to_string(dir.path().join("summary.json")).expect("the summary");
    let summary: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    // The read, and all of it once more in the end.
    assert_eq!(summary["integrity"]["checked_sectors"].as_u64(), Some(2 * size / 4096), "{summary}");
    let peak = summary["peak_rss_bytes"].as_u64().expect("its memory");
    assert!(peak < 400 << 20, "{peak}");
    // Two hundred such reads of small sectors at a time would keep 64 MiB each.
    let drive =
        ["--device", "demo", "--set", "geometry.blocks_per_plane=600", "--set", "geometry.sector_bytes=512"];
    let drive = [&drive[..], &["--set", "queue.depth=256", "--replay", "open"]].concat();
    let message = refused(&run(&drive, (0..200).map(|n| format!("{n},read,0,{size}\n")).collect()));
    assert!(message.contains("--verify keeps what requests under way hold"), "{message}");
    let out = run(&drive, (0..10).map(|n| format!("{n},read,0,{size}\n")).collect());
    assert!(out.status.success(), "{out:?}");
}

#[test]
fn a_drive_takes_memory_for_what_is_written_and_not_for_its_size() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let args = ["run", "--device", "modern-tlc-16tb", "--requests", "300000", "--json", "-"];
    let out = nandle(dir.path(), &args);
    assert!(out.status.success(), "{out:?}");
    let summary: serde_json::Value = serde_json::from_slice(&out.stdout).expect("JSON");
    // Its map alone is 4 GiB, of which so many random writes touch 1.1 GiB a page of memory at a time.
    let peak = summary["peak_rss_bytes"].as_u64().expect("its memory");
    assert!(peak < 600 << 20, "{peak}");
}

#[test]
fn what_a_killed_run_left_is_done_again() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let long = ["run", "--requests", "100000000", "-o", "out", "--io-log"];
    let mut child = Command::new(NANDLE)
        .args(long)
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("nandle");
    let deadline = Instant::now() + Duration::from_secs(30);
    while !dir.path().join("out/io.parquet").exists() {
        assert!(Instant::now() < deadline, "it never began");
        std::thread::sleep(Duration::from_millis(10));
    }
    // Meanwhile nobody else works there.
    let message = refused(&nandle(dir.path(), &["run", "--requests", "100", "-o", "out"]));
    assert!(message.contains("another process is at this run"), "{message}");
    child.kill().expect("killed");
    child.wait().expect("its end");
    let out = nandle(dir.path(), &["run", "--requests", "100", "-o", "out"]);
    assert!(out.status.success(), "{out:?}");
    assert!(dir.path().join("out/manifest.json").exists() && !dir.path().join("out/io.parquet").exists());
    // What is no run's is left alone.
    fs::create_dir(dir.path().join("mine")).expect("a directory");
    fs::write(dir.path().join("mine/letter.txt"), "dear").expect("written");
    let message = refused(&nandle(dir.path(), &["run", "--requests", "100", "-o", "mine"]));
    assert!(message.contains("letter.txt is in it"), "{message}");
}

#[test]
fn two_sweeps_in_one_directory_do_not_disturb_each_other() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let grid = "workloads = [\"random-write\"]\nseeds = [1, 2, 3, 4]\nrequests = 60000\n";
    fs::write(dir.path().join("grid.toml"), grid).expect("written");
    let start = || {
        let mut command = Command::new(NANDLE);
        command.args(["sweep", "grid.toml", "--jobs", "1"]).current_dir(dir.path());
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("nandle")
    };
    let first = start();
    let deadline = Instant::now() + Duration::from_secs(30);
    let started = || {
        fs::read_dir(dir.path().join("grid.runs"))
            .is_ok_and(|mut runs| runs.any(|run| run.is_ok_and(|run| run.path().join("latency").is_dir())))
    };
    while !started() {
        assert!(Instant::now() < deadline, "it never began");
        std::thread::sleep(Duration::from_millis(2));
    }
    let second = start().wait_with_output().expect("its end");
    let message = refused(&second);
    assert!(message.contains("another process is at this run"), "{message}");
    let first = first.wait_with_output().expect("its end");
    assert!(first.status.success() && String::from_utf8_lossy(&first.stdout).contains("4 done"), "{first:?}");
    let again = start().wait_with_output().expect("its end");
    assert!(String::from_utf8_lossy(&again.stdout).contains("4 done before"), "{again:?}");
}
