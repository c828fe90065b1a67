//! Goal: what a failing drive does to `fsync` through a real file system can be shown: an error that is told once, a page that is
//! clean though it was never written, a drive without room, a name that was never flushed.
//! Method: ext4 and xfs on a loop device on the served drive, which fails as `nandle ctl` orders. What must be seen is what
//! Rebello et al. (Can Applications Recover from fsync Failures?, ATC 2020) saw of both. Needs root, /dev/fuse, a free
//! loop device; says aloud what is missing where it skips.
#![cfg(target_os = "linux")]

use crate::served;

use std::fs::File;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::FileExt;
use std::process::Command;

use rustix::io::Errno;
use served::bench::Bench;
use served::good;

const PAGE: usize = 4096;

fn ctl(bench: &Bench, words: &str) {
    let mut command = Command::new(served::program());
    let out =
        command.arg("ctl").arg(bench.path("ctl")).args(words.split(' ')).output().expect("nandle starts");
    assert!(out.status.success(), "{words}: {}", String::from_utf8_lossy(&out.stderr));
}

/// A file system of this kind on a new drive; none, and says so, if there cannot be one.
fn mounted(kind: &str, image: &str) -> Option<(Bench, served::Served)> {
    let mkfs = format!("mkfs.{kind}");
    let mut bench = Bench::new(&["losetup", &mkfs])?;
    if !std::fs::read_to_string("/proc/filesystems")
        .is_ok_and(|known| known.split_whitespace().any(|k| k == kind))
    {
        eprintln!("SKIPPED: this kernel has no {kind}");
        return None;
    }
    let (ctl, image) = (bench.path("ctl"), bench.path(image));
    // Xfs takes no less than 300 MB.
    let device = ["--device", "demo", "--set", "geometry.blocks_per_plane=128"];
    let server = bench.serve(&[&device[..], &["--timing", "off", "--ctl", &ctl, "--image", &image]].concat());
    let device = bench.attach()?;
    let here = bench.dir.path().to_owned();
    let force = if kind == "xfs" { "-f" } else { "-F" };
    good(&mkfs, &["-q", force, &device], &here);
    good("mount", &[&device, &bench.path("fs")], &here);
    Some((bench, server))
}

/// What is on the drive of a page that is clean in the cache.
fn uncached(file: &File, path: &str) -> Vec<u8> {
    rustix::fs::fadvise(file, 0, None, rustix::fs::Advice::DontNeed).expect("dropped");
    let mut found = vec![0; PAGE];
    File::open(path).expect("there").read_exact_at(&mut found, 0).expect("read");
    found
}

fn an_error_is_told_once_and_the_page_is_clean(kind: &str) {
    let Some((bench, server)) = mounted(kind, "drive.img") else { return };
    let path = bench.path("fs/file");
    let file = File::options().create(true).read(true).write(true).truncate(true).open(&path).expect("made");
    file.write_all_at(&[b'a'; PAGE], 0).expect("written");
    file.sync_all().expect("flushed");
    good("sync", &["-f", &path], bench.dir.path());
    // Once.
    file.write_all_at(&[b'b'; PAGE], 0).expect("into the cache");
    ctl(&bench, "fail write --requests 1");
    let error = file.sync_data().expect_err("the write-back failed");
    assert_eq!(error.raw_os_error(), Some(Errno::IO.raw_os_error()), "{kind}");
    file.sync_data().expect("the page is clean, and nothing is written");
    let mut cached = [0; PAGE];
    file.read_exact_at(&mut cached, 0).expect("read");
    assert_eq!(cached, [b'b'; PAGE], "{kind}: what the program sees");
    assert_eq!(uncached(&file, &path), [b'a'; PAGE], "{kind}: what the drive has");
    // Written again, it is there.
    file.write_all_at(&[b'c'; PAGE], 0).expect("into the cache");
    file.sync_data().expect("flushed");
    assert_eq!(uncached(&file, &path), [b'c'; PAGE], "{kind}");
    // For ever: each attempt to write it fails, and a drive without room is one that fails.
    for order in ["fail write", "full"] {
        ctl(&bench, order);
        for _ in 0..2 {
            // Ext4 takes no writes any more once its journal could not be written.
            let done = file.write_all_at(&[b'd'; PAGE], 0).and_then(|()| file.sync_data());
            let errors = [Errno::IO, Errno::NOSPC, Errno::ROFS].map(|e| Some(e.raw_os_error()));
            let error = done.expect_err(order).raw_os_error();
            assert!(
                errors[..if kind == "ext4" { 3 } else { 2 }].contains(&error),
                "{kind} {order}: {error:?}"
            );
        }
        ctl(&bench, "clear");
        assert_eq!(uncached(&file, &path), [b'c'; PAGE], "{kind}: {order}");
    }
    drop(file);
    drop(bench);
    server.kill();
}

fn a_name_that_was_never_flushed_is_not_there(kind: &str) {
    let Some((mut bench, server)) = mounted(kind, "drive.img") else { return };
    let write = |name: &str, flush: bool| {
        let mut file = File::create(bench.path(&format!("fs/{name}"))).expect("made");
        file.write_all(name.as_bytes()).expect("written");
        if flush {
            file.sync_all().expect("flushed");
        }
    };
    write("flushed", true);
    write("new", true);
    File::open(bench.path("fs")).and_then(|folder| folder.sync_all()).expect("flushed");
    // Its data is on flash, under another name.
    std::fs::rename(bench.path("fs/new"), bench.path("fs/renamed")).expect("renamed");
    write("forgotten", false);
    ctl(&bench, &format!("snapshot {}", bench.path("cut.img")));
    bench.detach();
    server.kill();
    // The drive as the power cut left it.
    let server = bench.serve(&["--timing", "off", "--image", &bench.path("cut.img")]);
    let Some(device) = bench.attach() else { return };
    good("mount", &[&device, &bench.path("fs")], bench.dir.path());
    let read = |name: &str| std::fs::read_to_string(bench.path(&format!("fs/{name}"))).map_err(|e| e.kind());
    assert_eq!(read("flushed").as_deref(), Ok("flushed"), "{kind}");
    assert_eq!((read("renamed"), read("new").as_deref()), (Err(ErrorKind::NotFound), Ok("new")), "{kind}");
    assert_eq!(read("forgotten"), Err(ErrorKind::NotFound), "{kind}");
    drop(bench);
    server.kill();
}

#[test]
fn an_error_is_told_once_by_ext4() {
    an_error_is_told_once_and_the_page_is_clean("ext4");
}

#[test]
fn an_error_is_told_once_by_xfs() {
    an_error_is_told_once_and_the_page_is_clean("xfs");
}

#[test]
fn a_name_that_was_never_flushed_is_not_there_on_ext4() {
    a_name_that_was_never_flushed_is_not_there("ext4");
}

#[test]
fn a_name_that_was_never_flushed_is_not_there_on_xfs() {
    a_name_that_was_never_flushed_is_not_there("xfs");
}
