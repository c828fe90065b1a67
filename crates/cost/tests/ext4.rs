//! Goal: the block requests of a recording are those that ext4 would make.
//! Method: small histories counted by hand after ext4's documentation; SQLite on a real ext4, with the kernel's own
//! count of what was written beside ours (root, mkfs.ext4 and a loop device; said aloud where that is not to be had).

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::atomic::AtomicBool;

use nandle_cost::ext4::{BLOCK, FileSystem};
use nandle_cost::kinds::Kind;
use nandle_cost::record::Recording;
use nandle_io::Op;
use nandle_observe::event::{Event, Kind as Node, Place, ROOT, What};
use nandle_observe::tree::Tree;
use nandle_observe::{Means, Task};
use nandle_trace::Request;

const MS: u64 = 1_000_000;

fn create(name: &str, file: u64) -> What {
    What::Create { place: Place { folder: ROOT, name: name.into() }, file, kind: Node::File, mode: 0o644 }
}

fn write(file: u64, block: u64, blocks: u64) -> What {
    What::Write {
        file,
        offset: block * BLOCK,
        data: vec![1; (blocks * BLOCK) as usize].into(),
        durable: false,
    }
}

fn requests(what: &[(u64, What)]) -> Vec<Request> {
    let mut volume = FileSystem::new(&Tree::default());
    for (ms, what) in what {
        volume.apply(&Event { what: what.clone(), at_ns: ms * MS, process: 0 });
    }
    volume.finish().requests
}

/// Operation, kind and blocks of each.
fn plain(requests: &[Request]) -> Vec<(Op, Kind, u64, bool)> {
    requests.iter().map(|r| (r.op, Kind::ALL[usize::from(r.stream)], r.bytes / BLOCK, r.fua)).collect()
}

#[test]
fn a_new_file_is_data_then_a_commit() {
    let found = requests(&[
        (0, create("a.db", 2)),
        (1, write(2, 0, 3)),
        (2, What::Flush { file: 2, data_only: false }),
    ]);
    // The journal: a descriptor; inodes of file and folder (one block), the folder's block, the bitmaps of blocks and of
    // inodes, the descriptor of their group.
    let expected = [
        (Op::Write, Kind::Table, 3, false),
        (Op::Write, Kind::Journal, 6, false),
        (Op::Flush, Kind::Journal, 0, false),
        (Op::Write, Kind::Journal, 1, true),
    ];
    assert_eq!(plain(&found), expected);
}

#[test]
fn an_overwrite_with_fdatasync_is_data_and_a_flush() {
    let mut what =
        vec![(0, create("a.db", 2)), (1, write(2, 0, 8)), (2, What::Flush { file: 2, data_only: false })];
    let before = requests(&what).len();
    what.extend([(3, write(2, 5, 1)), (4, What::Flush { file: 2, data_only: true })]);
    let found = requests(&what);
    let expected = [(Op::Write, Kind::Table, 1, false), (Op::Flush, Kind::Other, 0, false)];
    assert_eq!(plain(&found[before..before + 2]), expected);
    // With fsync the time of the change is committed as well.
    what[4].1 = What::Flush { file: 2, data_only: false };
    assert_eq!(plain(&requests(&what)[before..]).len(), 4);
}

#[test]
fn what_nobody_flushes_is_written_after_half_a_minute_or_at_the_end() {
    let what = [(0, create("a", 2)), (1, write(2, 0, 1)), (6_000, create("b", 3)), (31_000, create("c", 4))];
    let found = requests(&what);
    let data: Vec<u64> =
        found.iter().filter(|r| r.stream == 0 && r.op == Op::Write).map(|r| r.time_ns / MS).collect();
    assert_eq!(data, [31_000]);
    let commits: Vec<u64> = found.iter().filter(|r| r.fua).map(|r| r.time_ns / MS).collect();
    assert_eq!(commits, [6_000, 31_000, 31_000], "every five seconds, and at the end");
}

#[test]
fn what_is_overwritten_or_deleted_in_the_cache_is_not_written() {
    let unlink = What::Unlink { place: Place { folder: ROOT, name: "a".into() }, file: 2 };
    let found = requests(&[(0, create("a", 2)), (1, write(2, 0, 9)), (2, unlink)]);
    assert!(found.iter().all(|r| r.stream == Kind::Journal as u16), "{found:?}");
    let what = [(0, create("a", 2)), (1, write(2, 0, 1)), (2, write(2, 0, 1))];
    let data = requests(&what).iter().filter(|r| r.op == Op::Write && r.stream == 0).count();
    assert_eq!(data, 1);
}

#[test]
fn what_is_deleted_is_trimmed_and_used_again() {
    let flush = |file| What::Flush { file, data_only: false };
    let unlink = What::Unlink { place: Place { folder: ROOT, name: "a".into() }, file: 2 };
    let what = [
        (0, create("a", 2)),
        (1, write(2, 0, 16)),
        (2, flush(2)),
        (3, unlink),
        (4, create("b", 3)),
        (5, flush(3)),
        (6, write(3, 0, 16)),
        (7, flush(3)),
    ];
    let found = requests(&what);
    let of = |op: Op, object: u32| {
        found.iter().find(|r| r.op == op && (op == Op::Trim || r.object == object)).copied()
    };
    let (first, trim, second) = (of(Op::Write, 2), of(Op::Trim, 0), of(Op::Write, 3));
    let (first, trim, second) = (first.expect("a"), trim.expect("trimmed"), second.expect("b"));
    assert_eq!((trim.offset, trim.bytes), (first.offset, 16 * BLOCK));
    assert_eq!(second.offset, first.offset);
}

#[test]
fn bytes_are_whole_blocks_and_lie_within_the_volume_apart() {
    // Two files that grow in turn do not share blocks.
    let mut what = vec![(0, create("a", 2)), (0, create("b", 3))];
    for n in 0..200 {
        what.push((n, write(2 + n % 2, n / 2, 1)));
        what.push((n, What::Flush { file: 2 + n % 2, data_only: true }));
    }
    let mut owner = std::collections::HashMap::new();
    let mut runs = 0;
    for request in requests(&what).iter().filter(|r| r.object != 0 && r.op == Op::Write) {
        assert_eq!((request.offset % BLOCK, request.bytes % BLOCK), (0, 0));
        runs += 1;
        for block in request.offset / BLOCK..(request.offset + request.bytes) / BLOCK {
            assert_eq!(*owner.entry(block).or_insert(request.object), request.object);
        }
    }
    assert_eq!((owner.len(), runs), (200, 200));
}

/// A real ext4 on a loop device; taken down when dropped.
struct Real {
    device: String,
    dir: tempfile::TempDir,
}

impl Real {
    fn new() -> Option<Self> {
        let dir = tempfile::tempdir().ok()?;
        let image = dir.path().join("image");
        std::fs::File::create(&image).ok()?.set_len(1 << 30).ok()?;
        let image = image.to_string_lossy().into_owned();
        let run = |program: &str, args: &[&str]| {
            let output = Command::new(program).args(args).output().ok()?;
            output.status.success().then(|| String::from_utf8_lossy(&output.stdout).trim().to_owned())
        };
        run("mkfs.ext4", &["-q", "-E", "lazy_itable_init=0,lazy_journal_init=0", &image])?;
        let device = run("losetup", &["--find", "--show", &image])?;
        let real = Self { device, dir };
        std::fs::create_dir(real.path()).ok()?;
        run("mount", &[&real.device, &real.path().to_string_lossy()])?;
        Some(real)
    }

    fn path(&self) -> PathBuf {
        self.dir.path().join("mounted")
    }

    /// Bytes written so far, as the kernel counts them.
    fn written(&self) -> u64 {
        let _ = Command::new("sync").arg("-f").arg(self.path()).status();
        let name = self.device.trim_start_matches("/dev/");
        let text = std::fs::read_to_string(format!("/sys/block/{name}/stat")).expect("counters");
        text.split_whitespace().nth(6).and_then(|n| n.parse::<u64>().ok()).expect("sectors") * 512
    }
}

impl Drop for Real {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(self.path()).status();
        let _ = Command::new("losetup").args(["-d", &self.device]).status();
    }
}

#[test]
fn sqlite_writes_as_many_bytes_as_on_a_real_ext4() {
    let Some(real) = Real::new() else {
        eprintln!("skipped: needs root, mkfs.ext4 and a loop device");
        return;
    };
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/crash/sqlite.py");
    for how in [
        "--journal wal",
        "--journal wal --synchronous normal",
        "--journal wal --page-bytes 16384",
        "--journal delete",
        "--journal delete --page-bytes 512",
        "--journal truncate",
    ] {
        let line = format!("python3 '{}' run --transfers 100 {how}", script.display());
        let folder = real.path().join("db");
        let _ = std::fs::remove_dir_all(&folder);
        std::fs::create_dir(&folder).expect("made");
        let before = real.written();
        let status = Command::new("sh")
            .args(["-c", &line])
            .env("NANDLE_DIR", &folder)
            .stdout(std::process::Stdio::null())
            .status();
        assert!(status.is_ok_and(|status| status.success()), "{line}");
        let theirs = (real.written() - before) as f64;
        let task = Task {
            command: vec![line],
            tree: Tree::default(),
            means: Means::Any,
            disk: None,
            places: None,
            reads: true,
            echo: false,
        };
        let ours = Recording::make(task, &AtomicBool::new(false)).expect("recorded").written() as f64;
        eprintln!(
            "{how}: ext4 {:.0} KiB, ours {:.0} KiB, {:+.1}%",
            theirs / 1024.0,
            ours / 1024.0,
            (ours / theirs - 1.0) * 100.0
        );
        assert!((0.88..1.12).contains(&(ours / theirs)), "{how}: ext4 {theirs}, ours {ours}");
    }
}
