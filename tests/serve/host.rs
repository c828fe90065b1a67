//! Goal: programs that know nothing of FlashAlloc get their files into flash blocks of their own, by
//! `libnandle_preload.so`; programs that know of it by `libnandle`; and neither is ever harmed.
//! Method: C programs built here by `cc`, on ext4 on a loop device on the served drive's FUSE file; the drive
//! says which objects live. Needs root, /dev/fuse, a loop device and a C compiler; says aloud what is missing.
#![cfg(target_os = "linux")]

use crate::served;

use std::path::Path;
use std::process::{Command, Output};

use nandle_serve::nvme_tcp::Address;
use nandle_serve::nvme_tcp::host::{Host, Options};
use served::bench::Bench;
use served::{Served, good, has, libraries};

const ROOT: &str = env!("CARGO_MANIFEST_DIR");
const DEVICE: &[&str] =
    &["--timing", "off", "--scheme", "flashalloc", "--set", "op_ratio=0.5", "--nvme-tcp", ":0"];

/// A program of ours, built; none, and says so, without a compiler.
fn compiled(bench: &Bench, source: &str, more: &[&str]) -> Option<String> {
    let out = bench.path(source.trim_end_matches(".c"));
    let path = format!("{ROOT}/tests/served/{source}");
    let include = format!("-I{ROOT}/crates/capi/include");
    let args = ["-std=gnu11", "-Wall", "-Wextra", "-Werror", &include, "-o", &out, &path];
    has("cc").then(|| good("cc", &[&args[..], more].concat(), bench.dir.path()))?;
    Some(out)
}

/// A drive with an ext4 file system on it.
fn mounted(programs: &[&str]) -> Option<(Bench, Served, Host, String)> {
    let mut bench = Bench::new(&[&["losetup", "mkfs.ext4", "cc"], programs].concat())?;
    let mut server = bench.serve(DEVICE);
    let at = server.nvme();
    let device = bench.attach()?;
    good("mkfs.ext4", &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0", &device], bench.dir.path());
    good("mount", &[&device, &bench.path("fs")], bench.dir.path());
    let host = Host::connect(at, &Options::default()).expect("a subsystem");
    Some((bench, server, host, at.to_string()))
}

fn said(out: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr))
}

/// Numbers before each of the words in a report of the preloaded library, all processes together.
fn counted(text: &str, words: &[&str]) -> Vec<u64> {
    let of = |line: &str, word: &str| {
        let before = line.split(&format!(" {word}")).next().filter(|before| before.len() < line.len());
        before.and_then(|b| b.rsplit(' ').next()).and_then(|n| n.parse::<u64>().ok()).unwrap_or(0)
    };
    let lines = || text.lines().filter(|line| line.contains("nandle-preload["));
    words.iter().map(|word| lines().map(|line| of(line, word)).sum()).collect()
}

#[test]
fn a_c_program_uses_the_library() {
    let Some((bench, server, mut host, at)) = mounted(&[]) else { return };
    let libraries = libraries();
    let folder = libraries.display().to_string();
    for (form, library) in [("shared", "libnandle.so"), ("static", "libnandle.a")] {
        let library = libraries.join(library).display().to_string();
        let more = ["-lpthread", "-ldl", "-lm"];
        let Some(program) = compiled(&bench, "library.c", &[&[&library[..]], &more[..]].concat()) else {
            return;
        };
        let file = bench.path(&format!("fs/{form}"));
        let out = Command::new(program).args([&at, &file]).env("LD_LIBRARY_PATH", &folder).output();
        let out = out.expect("it starts");
        assert!(out.status.success(), "{form}: {}", said(&out));
        assert_eq!(host.instances().expect("a number"), 0);
    }
    let header = [&format!("-I{ROOT}/crates/capi/include"), "-fsyntax-only", "-Wall", "-Wextra", "-Werror"];
    if has("c++") {
        let source = bench.path("header.cpp");
        std::fs::write(&source, "#include <nandle.h>\nint main() { nandle_close(nullptr); }\n")
            .expect("written");
        good("c++", &[&header[..], &[&source]].concat(), bench.dir.path());
    }
    drop((host, bench, server));
}

#[test]
fn a_program_that_knows_nothing_gets_objects() {
    let Some((bench, server, mut host, at)) = mounted(&[]) else { return };
    let Some(program) = compiled(&bench, "calls.c", &["-lpthread"]) else { return };
    let preload = libraries().join("libnandle_preload.so");
    let memory = if Path::new("/dev/shm").is_dir() { "/dev/shm" } else { "/tmp" };
    let elsewhere = tempfile::tempdir_in(memory).expect("a directory");
    let log = bench.path("log");
    let run = |to: &str, folder: &str, log: &str| {
        std::fs::create_dir(folder).expect("made");
        let out = Command::new(&program)
            .args([Path::new(folder), elsewhere.path()])
            .env("LD_PRELOAD", &preload)
            .envs([("NANDLE_TO", to), ("NANDLE_FS", &bench.path("fs")), ("NANDLE_FILES", "*.sst")])
            .envs([("NANDLE_TRIM", "1"), ("NANDLE_CYCLIC", "journal@1048576+1048576"), ("NANDLE_DEBUG", log)])
            .output()
            .expect("it starts");
        assert!(out.status.success(), "{}", said(&out));
        assert_eq!(said(&out), "all as expected\n");
        std::fs::read_to_string(log).unwrap_or_default()
    };
    let report = run(&at, &bench.path("fs/on"), &log);
    let words = ["objects", "ended", "trims", "overlaps", "without", "errors"];
    // 1 by a copy, allocated twice, 2 far out, 16 of threads, 1 of the child, 2 of the journal; large.sst turns out
    // shorter; trims: the end of large.sst, a file unlinked and closed, and the journal twice.
    assert_eq!(counted(&report, &words), [23, 1, 4, 0, 0, 0], "{report}");
    assert_eq!(host.instances().expect("a number"), 19, "{report}");
    // Nobody there: everything works, and what did not is counted.
    let report = run("127.0.0.1:1", &bench.path("fs/off"), &bench.path("other log"));
    let counts = counted(&report, &words);
    assert!(counts[0] == 0 && counts[5] > 0, "{report}");
    drop(host);
    good("umount", &[&bench.path("fs")], bench.dir.path());
    drop((bench, server));
}

#[test]
fn without_an_address_or_with_a_bad_one_the_program_runs() {
    let Some(bench) = Bench::new(&["cc"]) else { return };
    let preload = libraries().join("libnandle_preload.so");
    for (variables, part) in [
        (&[][..], ""),
        (&[("NANDLE_TO", "4420")], "nandle-preload: NANDLE_FS is not set: expected"),
        (&[("NANDLE_TO", "x"), ("NANDLE_FS", "/")], "nandle-preload: NANDLE_TO=\"x\": expected HOST:PORT"),
    ] {
        let file = bench.path("file");
        let mut command = Command::new("fallocate");
        command.args(["-l", "1M", &file]).env("LD_PRELOAD", &preload).envs(variables.iter().copied());
        let out = command.output().expect("it starts");
        let text = said(&out);
        assert!(out.status.success() && text.contains(part) && text.is_empty() == part.is_empty(), "{text}");
        assert_eq!(std::fs::metadata(&file).expect("there").len(), 1 << 20);
        std::fs::remove_file(&file).expect("removed");
    }
}

#[test]
fn a_file_is_named_on_the_command_line() {
    let Some((bench, server, mut host, at)) = mounted(&["fallocate"]) else { return };
    let nandle = |args: &[&str]| {
        let out =
            Command::new(env!("CARGO_BIN_EXE_nandle")).args(["flashalloc", "--to", &at]).args(args).output();
        let out = out.expect("it runs");
        (out.status.code(), said(&out))
    };
    let file = bench.path("fs/table");
    good("fallocate", &["-l", "4M", &file], bench.dir.path());
    let (code, text) = nandle(&["--file", &file]);
    assert!(code == Some(0) && text.contains("one object of") && text.contains("4.00 MiB"), "{text}");
    assert_eq!(host.instances().expect("a number"), 1);
    let (code, text) = nandle(&["--file", &file]);
    assert!(code == Some(1) && text.contains("table: the drive refused: an object has"), "{text}");
    for (path, part) in [
        ("/proc/self/stat", "expected ext2, ext3, ext4, xfs or f2fs"),
        ("/not/there", "/not/there: No such file"),
        (&bench.path("fs")[..], "not a regular file"),
    ] {
        let (code, text) = nandle(&["--file", path]);
        assert!(code == Some(2) && text.contains(part), "{text}");
    }
    // Written through the file, found on the drive where it was said to be.
    let at: Address = at.parse().expect("an address");
    std::fs::write(&file, [0x5a; 1 << 20]).expect("written");
    good("sync", &["-f", &file], bench.dir.path());
    let found =
        nandle_host::Place::of(std::os::fd::AsFd::as_fd(&std::fs::File::open(&file).expect("there")), None)
            .and_then(|place| {
                let file = std::fs::File::open(&file)?;
                place.extents(std::os::fd::AsFd::as_fd(&file), 0, 1 << 20)
            })
            .expect("extents");
    assert_eq!(found.iter().map(|e| e.bytes).sum::<u64>(), 1 << 20);
    for extent in found {
        let bytes = server.client().read(extent.physical, extent.bytes as u32);
        assert!(bytes.iter().all(|&byte| byte == 0x5a), "{extent:?} at {at}");
    }
    drop((host, bench));
}
