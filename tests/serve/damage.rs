//! Goal: whatever goes wrong with an image while it is served, under load, clients get the right data or an error,
//! from that server and from the next one, and never older data.
//! Method: lives of the real server on images of their own. A preload library written in C makes one of its writes
//! fail, short, lost, torn or misdirected, or the disk full; or the test changes a bit of the file beside the server. A
//! client that knows what every sector may hold reads from the server while it is there, and after SIGKILL from the
//! next one. `NANDLE_IMAGE_LIVES=N`: so many lives for each kind of fault.
#![cfg(target_os = "linux")]

use std::fs;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

use crate::served;
use nandle_random::Stream;
use served::writer::Writer;
use served::{SMALL, Served, good, has};

// The next server is to find the damage, not this one's own look at its image (`image.rs`).
const IMAGE: &[&str] = &["--image", "flash.img", "--timing", "off"];
/// Kinds that the server itself is told of; the others damage what was written.
const TOLD: [&str; 3] = ["error", "full", "short"];
const UNTOLD: [&str; 4] = ["lost", "torn", "misdirected", "rot"];

/// What became of the lives with faults of one kind.
#[derive(Debug, Default)]
struct Tally {
    lives: u64,
    hit: u64,
    answers: u64,
    refused: u64,
    lost: u64,
    unreadable: u64,
}

/// One bit of the file changes where something was written; whether there was anything.
fn rot(path: &Path, draw: &mut Stream) -> bool {
    let file = fs::File::options().read(true).write(true).open(path).expect("the image");
    let pages = file.metadata().expect("its length").len() / 4096;
    for _ in 0..10_000 {
        let at = (16 + draw.below(pages - 16)) * 4096;
        let mut page = [0; 4096];
        file.read_exact_at(&mut page, at).expect("read");
        if page.iter().any(|&byte| byte != 0) {
            let bit = draw.below(4096 * 8);
            let byte = page[(bit / 8) as usize] ^ 1 << (bit % 8);
            file.write_all_at(&[byte], at + bit / 8).expect("written");
            return true;
        }
    }
    false
}

fn fsck(dir: &Path) -> Output {
    let mut nandle = Command::new(served::program());
    nandle.args(["fsck", "flash.img"]).current_dir(dir).output().expect("nandle")
}

fn life(dir: &Path, library: &Path, scheme: &str, kind: &str, draw: &mut Stream, tally: &mut Tally) {
    let what = format!("{scheme}, {kind}, life {}", tally.lives);
    let (path, hit) = (dir.join("flash.img"), dir.join("hit"));
    let _ = (fs::remove_file(&path), fs::remove_file(&hit));
    // Block records of a new image come first.
    let plan = format!("{kind} {} {}", 400 + draw.below(1500), draw.below(1 << 30));
    let (library, marker) = (library.display().to_string(), hit.display().to_string());
    let variables = [
        ("LD_PRELOAD", library.as_str()),
        ("NANDLE_DISK", plan.as_str()),
        ("NANDLE_DISK_HIT", marker.as_str()),
    ];
    let variables = if kind == "rot" { &[][..] } else { &variables };
    let server = Served::start_ailing(dir, &[SMALL, IMAGE, &["--scheme", scheme]].concat(), variables);
    let client = server.client();
    let sectors = client.bytes / 4096;
    let mut writer = Writer::new(client, sectors);
    writer.may_fail = true;
    tally.lives += 1;
    let began = Instant::now();
    let mut rotten = false;
    let mut ended = Ok(());
    // Until it has happened, and for a little after that.
    while ended.is_ok() && began.elapsed() < Duration::from_secs(20) {
        ended = writer.work(draw, Instant::now() + Duration::from_millis(100));
        if ended.is_ok() {
            ended = writer.drain();
        }
        if ended.is_ok() {
            writer.check(draw, 100, &what);
        }
        if kind == "rot" && !rotten && writer.answers > 1000 {
            rotten = rot(&path, draw);
        } else if rotten || hit.exists() && !["error", "full"].contains(&kind) {
            break;
        }
    }
    tally.answers += writer.answers;
    tally.hit += u64::from(rotten || hit.exists());
    assert!(rotten || hit.exists(), "{what}: nothing went wrong after {} answers", writer.answers);
    if ended.is_err() {
        assert!(["error", "full"].contains(&kind), "{what}: the server failed");
        assert_eq!(server.fails(), 1, "{what}");
        let said = fs::read_to_string(dir.join("stderr")).expect("complaints");
        assert!(said.contains("flash.img") && said.lines().count() == 1, "{what}: {said}");
    } else {
        server.kill();
    }
    let clean = fsck(dir).status.success();
    let mut next = None;
    if clean {
        next = Some(Served::start(dir, IMAGE));
    } else {
        assert!(UNTOLD.contains(&kind), "{what} is taken for damage: {:?}", fsck(dir));
        tally.refused += 1;
        let serve = |more: &[&str]| {
            let args = [&["serve", "--nbd", "unix:other"], IMAGE, more].concat();
            Command::new(served::program()).args(args).current_dir(dir).output().expect("it runs")
        };
        assert_eq!(serve(&[]).status.code(), Some(2), "{what}: fsck fails it, serve does not");
        let report = fsck(dir);
        if String::from_utf8_lossy(&report.stdout).contains("no drive starts from it") {
            assert_eq!(serve(&["--damaged-ok"]).status.code(), Some(2), "{what}");
            tally.lost += 1;
        } else {
            next = Some(Served::start_ailing(dir, &[IMAGE, &["--damaged-ok"]].concat(), &[]));
        }
    }
    let Some(next) = next else { return };
    let mut client = next.client();
    writer.switched_on_again(next.client());
    if clean {
        assert!(writer.judge(&mut client, &what) > 0, "{what}: nothing is there");
    } else {
        tally.unreadable += writer.judge_damaged(&mut client, &what);
    }
    drop(client);
    next.kill();
    assert!(fsck(dir).status.success(), "{what}: what was accepted is there again");
}

#[test]
fn right_data_or_an_error_while_it_is_served() {
    if !has("cc") {
        return;
    }
    let temp = tempfile::tempdir().expect("a temporary directory");
    let library = temp.path().join("disk.so");
    let source = format!("{}/tests/served/disk.c", env!("CARGO_MANIFEST_DIR"));
    let out = library.display().to_string();
    let how = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o", &out, &source, "-ldl"];
    good("cc", &how, temp.path());
    let lives = match std::env::var("NANDLE_IMAGE_LIVES") {
        Ok(n) => n.parse().expect("NANDLE_IMAGE_LIVES is a number of lives"),
        Err(_) if std::env::var_os("NANDLE_NIGHTLY").is_some() => 40,
        Err(_) => 2,
    };
    let mut draw = Stream::new(1, "damage");
    let mut noticed = 0;
    for kind in TOLD.into_iter().chain(UNTOLD) {
        let mut tally = Tally::default();
        for n in 0..lives {
            let scheme = ["page", "waflash"][n % 2];
            life(temp.path(), &library, scheme, kind, &mut draw, &mut tally);
        }
        println!("{kind:<12} {tally:?}");
        noticed += tally.refused;
    }
    assert!(noticed > 0, "no damage was ever noticed");
}
