//! Goal: file systems and programs run on the served device through FUSE and a loop device, their
//! discards arrive as trims, and a file system survives the death of the server.
//! Method: mkfs, mount, tar, sqlite, fstrim, fsck as they are. Needs root, /dev/fuse and a free loop
//! device; says aloud what is missing where it skips. Everything is taken down again, also on failure.
#![cfg(target_os = "linux")]

use crate::served;

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use nandle_random::Stream;
use served::bench::Bench;
use served::{good, has};

fn is_mounted(path: &str) -> bool {
    std::fs::read_to_string("/proc/self/mounts").is_ok_and(|m| m.split_whitespace().any(|word| word == path))
}

/// The number before ` word` in a report.
fn count(report: &str, word: &str) -> u64 {
    let line = report.lines().find(|line| line.trim_start().starts_with(word));
    let number = line.and_then(|line| line.split_whitespace().nth(1)).expect(word);
    number.replace(',', "").parse().expect("a number")
}

#[test]
fn the_file_is_the_device() {
    use std::os::unix::fs::FileExt;
    let Some(bench) = Bench::new(&[]) else { return };
    let server = bench.serve(&["--timing", "off"]);
    let disk =
        std::fs::OpenOptions::new().read(true).write(true).open(bench.path("fuse/disk")).expect("opened");
    let size = disk.metadata().expect("there").len();
    assert_eq!(size, server.client().bytes);
    disk.write_all_at(b"unaligned", 5000).expect("written");
    disk.sync_all().expect("flushed");
    // The other transport sees the same device.
    assert_eq!(server.client().read(4999, 11), b"\0unaligned\0");
    let mut client = server.client();
    client.write(1 << 20, &[7; 8192]);
    let mut back = [0; 8192];
    disk.read_exact_at(&mut back, 1 << 20).expect("read");
    assert_eq!(back, [7; 8192]);
    assert!(disk.write_at(b"x", size).is_err(), "beyond the end");
    assert!(disk.set_len(size + 1).is_err());
    good(
        "fallocate",
        &["--punch-hole", "-o", "4096", "-l", "8192", &bench.path("fuse/disk")],
        bench.dir.path(),
    );
    assert_eq!(client.read(5000, 9), [0; 9]);
    drop(disk);
    let said = server.stop();
    assert!(count(&said, "trim") >= 1, "{said}");
}

#[test]
fn a_file_system_on_a_loop_device() {
    let Some(mut bench) = Bench::new(&["losetup", "mkfs.ext4", "fsck.ext4", "sqlite3", "tar", "fstrim"])
    else {
        return;
    };
    let image = bench.path("flash.img");
    let args = ["--timing", "off", "--image", &image];
    let server = bench.serve(&args);
    let Some(device) = bench.attach() else { return };
    let here = bench.dir.path().to_owned();
    let fs = bench.path("fs");
    good("mkfs.ext4", &["-q", "-F", &device], &here);
    good("mount", &["-o", "discard", &device, &fs], &here);

    // A database, an archive, and a file of known contents that is synced.
    let database = format!("{fs}/data.db");
    let sql = "create table t(a integer primary key, b text); \
               with recursive n(i) as (select 1 union all select i+1 from n where i<20000) \
               insert into t select i, hex(randomblob(40)) from n; select count(*) from t;";
    assert_eq!(good("sqlite3", &[&database, sql], &here).trim(), "20000");
    let mut bytes = vec![0_u8; 8 << 20];
    let mut draw = Stream::new(1, "file");
    bytes.chunks_exact_mut(8).for_each(|chunk| chunk.copy_from_slice(&draw.word().to_le_bytes()));
    let kept = PathBuf::from(&fs).join("kept");
    std::fs::write(&kept, &bytes).expect("written");
    good("tar", &["cf", &format!("{fs}/archive.tar"), "-C", &fs, "kept"], &here);
    good("sync", &["-f", &kept.display().to_string()], &here);
    if has("fio") {
        let directory = format!("--directory={fs}");
        let job = ["--name=f", "--rw=randrw", "--bs=4k", "--size=8m", "--iodepth=16", "--ioengine=libaio"];
        let rest = ["--direct=1", "--verify=crc32c", &directory];
        good("fio", &[&job[..], &rest[..]].concat(), &here);
    }

    // The server dies with the file system mounted and in use.
    let busy = std::thread::spawn({
        let file = format!("{fs}/busy");
        move || {
            let started = Instant::now();
            while started.elapsed() < Duration::from_secs(20) {
                if std::fs::write(&file, vec![1_u8; 1 << 20]).is_err() {
                    return;
                }
            }
        }
    });
    std::thread::sleep(Duration::from_millis(300));
    server.kill();
    bench.detach();
    busy.join().expect("no panic");
    let server = bench.serve(&args);
    let Some(device) = bench.attach() else { return };
    // Replaying the journal is what a crash asks for; then nothing is left to repair.
    let journal = Command::new("fsck.ext4").args(["-p", &device]).status().expect("fsck starts");
    assert!(journal.code().is_some_and(|code| code <= 1), "{journal}");
    good("fsck.ext4", &["-f", "-n", &device], &here);
    good("mount", &["-o", "discard", &device, &fs], &here);
    assert!(std::fs::read(&kept).expect("there") == bytes, "a synced file changed");
    assert_eq!(
        good("sqlite3", &[&database, "pragma integrity_check; select count(*) from t"], &here),
        "ok\n20000\n"
    );

    // What is deleted arrives as trims.
    std::fs::remove_file(format!("{fs}/archive.tar")).expect("removed");
    good("sync", &["-f", &fs], &here);
    assert!(is_mounted(&fs));
    good("fstrim", &[&fs], &here);
    good("umount", &[&fs], &here);
    good("fsck.ext4", &["-f", "-n", &device], &here);
    good("losetup", &["-d", &device], &here);
    bench.loops.clear();
    let said = server.stop();
    assert!(count(&said, "trim") > 2, "{said}");
    assert!(count(&said, "flush") > 2, "{said}");
    assert!(!is_mounted(&bench.path("fuse")));
}
