//! Goal: `nandle record` and `nandle cost` answer what a program costs a drive, as documented.
//! Method: the documented recipe run again, its figures beside those of the page; a trace whose write
//! amplification is known; bad input.
#![cfg(target_os = "linux")]

use std::collections::BTreeSet;
use std::path::Path;

use assert_cmd::Command;
use nandle_io::Op;
use serde_json::Value;

use crate::command::{nandle, said};

/// The stream of the journal.
const JOURNAL: u16 = nandle_cost::kinds::Kind::Journal as u16;

fn documented() -> String {
    std::fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/cost.md")).expect("there")
}

fn number(word: &str) -> f64 {
    word.parse().unwrap_or_else(|_| panic!("{word:?}: expected a number"))
}

/// A number of bytes and its unit.
fn size(words: &[String]) -> f64 {
    let unit = ["B", "KiB", "MiB", "GiB"].iter().position(|&unit| unit == words[1]).expect("a unit");
    number(&words[0]) * 1024f64.powi(i32::try_from(unit).expect("small"))
}

fn words(line: &str) -> Vec<String> {
    line.split_whitespace().map(str::to_owned).collect()
}

/// The recipe behind a mark of the page, run with these scripts beside it, its figures beside those of the page: how far
/// what is written and what it costs may differ. By day `by_day` is costed only.
fn compare(mark: &str, scripts: &[&str], by_day: &[&str], within: [f64; 3], same: bool) {
    let page = documented();
    let (_, after) = page.split_once(&format!("<!-- {mark} -->")).expect("the mark");
    let mut blocks = after.split("```").skip(1).step_by(2);
    let recipe = blocks.next().expect("a recipe").trim_start_matches("sh").to_owned();
    let expected =
        blocks.next().expect("what it says").trim_start_matches("text").trim_matches('\n').to_owned();
    let dir = tempfile::tempdir().expect("a directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for script in scripts {
        let name = Path::new(script).file_name().expect("a name");
        std::fs::copy(root.join(script), dir.path().join(name)).expect("copied");
    }
    let program = assert_cmd::cargo::cargo_bin("nandle");
    let folder = program.parent().expect("a folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    let (record, cost) = recipe.rsplit_once("nandle cost").expect("two commands");
    let nightly = std::env::var_os("NANDLE_NIGHTLY").is_some();
    let traces = if nightly { cost.to_owned() } else { format!(" {}", by_day.join(" ")) };
    let output = std::process::Command::new("sh")
        .args(["-ec", &format!("{record}nandle cost{traces}")])
        .env("PATH", path)
        .current_dir(dir.path())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    let lines = if nightly { expected.lines().count() } else { by_day.len() + 1 };
    assert_eq!(found.trim_end().lines().count(), lines, "{found}");
    for found in found.lines().skip(1) {
        let found = words(found);
        let line = expected.lines().find(|line| line.starts_with(&found[0])).expect("a documented line");
        let expected = words(line);
        if !same {
            continue;
        }
        let near = |what: &str, found: f64, expected: f64, within: f64| {
            assert!((found / expected - 1.0).abs() < within, "{line}: {what} {found}, documented {expected}");
        };
        near("by the program", size(&found[1..3]), size(&expected[1..3]), within[0]);
        near("by the file system", size(&found[3..5]), size(&expected[3..5]), within[1]);
        for at in [5, 6] {
            near("amplification", number(&found[at]), number(&expected[at]), within[2]);
        }
    }
    if !same {
        eprintln!("figures not compared: another version than that of docs/cost.md is here");
    }
}

#[test]
fn the_documented_recipe_gives_the_documented_figures() {
    let version = std::process::Command::new("python3")
        .args(["-c", "import sqlite3; print(sqlite3.sqlite_version)"])
        .output()
        .expect("it runs");
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let same = documented().contains(&format!("SQLite {version}"));
    let by_day = ["wal-4096.parquet", "delete-4096.parquet"];
    // A recording that takes longer has more commits in the background; no more than that may differ.
    compare(
        "tests/program/record.rs runs this",
        &["examples/crash/sqlite.py"],
        &by_day,
        [0.01, 0.05, 0.1],
        same,
    );
}

#[test]
fn what_servers_cost_is_what_is_documented() {
    let there = |path: &str| Path::new(path).exists();
    if std::env::var_os("NANDLE_NIGHTLY").is_none()
        || ![
            "/usr/bin/db_bench",
            "/usr/sbin/mariadbd",
            "/usr/bin/sysbench",
            "/usr/lib/postgresql/15/bin/pgbench",
        ]
        .into_iter()
        .all(there)
    {
        eprintln!("SKIPPED: needs NANDLE_NIGHTLY, and db_bench, MariaDB, sysbench and PostgreSQL 15");
        return;
    }
    let scripts = ["examples/cost/db_bench.sh", "examples/cost/sysbench.sh", "examples/cost/pgbench.sh"];
    // Servers write pages by the clock: on a busy machine a run takes longer, and more often writes the same page.
    compare("tests/program/record.rs runs this by night", &scripts, &[], [0.25, 0.25, 0.2], true);
}

#[test]
fn whole_pages_written_in_order_cost_nothing_more() {
    // One file of the size of many flash blocks, written from its beginning to its end again and again.
    let dir = tempfile::tempdir().expect("a directory");
    let run = "dd if=/dev/zero of=$NANDLE_DIR/a bs=1M count=96 conv=fsync 2>/dev/null";
    let recorded = nandle(&["record", "-o", "t.parquet", "--", run], dir.path());
    assert!(recorded.status.success(), "{}", said(&recorded));
    let told: Value = serde_json::from_str(
        &std::fs::read_to_string(dir.path().join("t.parquet.files.json")).expect("written"),
    )
    .expect("JSON");
    assert_eq!(told["logical_bytes"], 96 << 20);
    assert_eq!(told["kinds"]["other"]["block_bytes"], 96 << 20);
    // One copy on a drive that holds little else.
    let args = ["cost", "t.parquet", "--share", "0.2", "--json", "-"];
    let output = nandle(&args, dir.path());
    assert!(output.status.success(), "{}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let waf = answer["cost"]["waf"].as_f64().expect("a number");
    assert!((0.99..1.6).contains(&waf), "{waf}");
    let parts: f64 =
        answer["cost"]["waf_parts"].as_object().expect("parts").values().filter_map(Value::as_f64).sum();
    assert!(parts >= 0.99, "{answer:#}");
    assert!(answer["helps"].as_array().is_some_and(|helps| helps.len() > 1));
}

#[test]
fn the_program_is_left_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = [
        "record",
        "-o",
        "t.csv",
        "--",
        "sh",
        "-c",
        "echo said; echo kept > $NANDLE_DIR/f; cat $NANDLE_DIR/f",
    ];
    let output = nandle(&args, dir.path());
    assert!(output.status.success(), "{}", said(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "said\nkept\n");
    let info = nandle(&["trace", "info", "t.csv", "--json"], dir.path());
    let info: Value = serde_json::from_slice(&info.stdout).expect("JSON");
    assert!(info["requests"].as_u64() > Some(2), "{info}");
}

/// Threads, a child, `O_DSYNC`, `O_DIRECT`, a mapping with `msync`, `fallocate`, `truncate`, `unlink`.
const WAYS_TO_WRITE: &str = r#"import mmap, os, threading, ctypes
d = os.environ["NANDLE_DIR"]
def thread(n):
    f = os.open(f"{d}/thread{n}.log", os.O_CREAT | os.O_WRONLY | os.O_APPEND)
    for _ in range(10): os.write(f, b"t" * 4096); os.fdatasync(f)
ts = [threading.Thread(target=thread, args=(n,)) for n in range(3)]
[t.start() for t in ts]; [t.join() for t in ts]
if os.fork() == 0:
    f = os.open(f"{d}/child.db", os.O_CREAT | os.O_WRONLY | os.O_DSYNC); os.pwrite(f, b"c" * 8192, 4096); os._exit(0)
os.wait()
m = mmap.mmap(-1, 8192); m.write(b"d" * 8192)
f = os.open(f"{d}/direct.db", os.O_CREAT | os.O_RDWR | os.O_DIRECT); os.pwritev(f, [m], 0); os.fsync(f)
f = os.open(f"{d}/mapped.mdb", os.O_CREAT | os.O_RDWR); os.ftruncate(f, 65536)
m = mmap.mmap(f, 65536); m[8192:12288] = b"m" * 4096; m.flush(); m[20000:20010] = b"x" * 10; m.flush(); m.close()
os.posix_fallocate(f, 65536, 65536); os.truncate(f"{d}/mapped.mdb", 16384); os.unlink(f"{d}/direct.db")
"#;

#[test]
fn all_ways_to_write_are_seen() {
    let dir = tempfile::tempdir().expect("a directory");
    let written = |how: &str| -> Option<Value> {
        let args = ["record", "--watch", how, "-o", "t.csv", "--", "python3", "-c", WAYS_TO_WRITE];
        let output = nandle(&args, dir.path());
        if !output.status.success() {
            let why = said(&output);
            assert!(why.contains("no FUSE") || why.contains("cannot be traced"), "{why}");
            eprintln!("SKIPPED: {why}");
            return None;
        }
        let text = std::fs::read_to_string(dir.path().join("t.csv.files.json")).expect("written");
        let told: Value = serde_json::from_str(&text).expect("JSON");
        // 3 times 10 of threads, one write that is durable by itself, one of the file written directly, two of pages mapped.
        assert_eq!(told["flushes"], 34, "{how}");
        Some(told["files"].clone())
    };
    let expected = [
        ("thread0.log", 40_960),
        ("thread1.log", 40_960),
        ("thread2.log", 40_960),
        ("child.db", 8192),
        ("direct.db", 8192),
        // Pages: 4 KiB in place, and 10 bytes that make another one dirty.
        ("mapped.mdb", 8192),
    ];
    for how in ["calls", "fuse"] {
        let Some(files) = written(how) else { continue };
        let mut found: Vec<(String, u64)> = (files.as_array().expect("files").iter())
            .map(|file| {
                let path = file["path"].as_str().expect("a path").to_owned();
                (path, file["logical_bytes"].as_u64().expect("a number"))
            })
            .collect();
        found.sort();
        let mut expected = expected.map(|(path, bytes)| (path.to_owned(), bytes));
        expected.sort();
        assert_eq!(found, expected, "{how}");
    }
    // What cannot be followed is refused, with the way out.
    let ring = "import ctypes, os; open(os.environ['NANDLE_DIR'] + '/a', 'w').write('x'); \
                ctypes.CDLL(None).syscall(425, 8, ctypes.create_string_buffer(256))";
    let output =
        nandle(&["record", "--watch", "calls", "-o", "t.csv", "--", "python3", "-c", ring], dir.path());
    assert_eq!(output.status.code(), Some(2), "{}", said(&output));
    assert!(
        said(&output).contains("uses io_uring") && said(&output).contains("--watch fuse"),
        "{}",
        said(&output)
    );
}

#[test]
fn what_strace_wrote_costs_what_the_program_does() {
    let dir = tempfile::tempdir().expect("a directory");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/crash/sqlite.py").display().to_string();
    std::fs::create_dir(dir.path().join("files")).expect("made");
    let trace = "--trace=%file,%desc,msync,sync,syncfs";
    let strace = std::process::Command::new("strace")
        .args(["-f", "-ttt", "-y", "-o", "log", trace, "python3", &script, "run", "--journal", "delete"])
        .env("NANDLE_DIR", dir.path().join("files"))
        .current_dir(dir.path())
        .output();
    if !strace.is_ok_and(|output| output.status.success()) {
        eprintln!("SKIPPED: needs strace, and a system that allows it");
        return;
    }
    let by_strace = ["record", "--strace", "log", "--under", "files", "-o", "strace.csv"];
    let output = nandle(&by_strace, dir.path());
    assert!(output.status.success(), "{}", said(&output));
    let run = format!("python3 '{script}' run --journal delete");
    let output = nandle(&["record", "--watch", "calls", "-o", "calls.csv", "--", &run], dir.path());
    assert!(output.status.success(), "{}", said(&output));
    let told = |trace: &str| -> Value {
        let text = std::fs::read_to_string(dir.path().join(format!("{trace}.files.json"))).expect("written");
        serde_json::from_str(&text).expect("JSON")
    };
    let (strace, calls) = (told("strace.csv"), told("calls.csv"));
    for key in ["logical_bytes", "flushes"] {
        assert_eq!(strace[key], calls[key], "{key}");
    }
    for kind in ["table", "log"] {
        assert_eq!(strace["kinds"][kind], calls["kinds"][kind], "{kind}");
    }
    // A commit in the background more or less.
    let journal = |told: &Value| told["kinds"]["journal"]["block_bytes"].as_f64().expect("a number");
    assert!((journal(&strace) / journal(&calls) - 1.0).abs() < 0.05);
}

#[test]
fn a_doublewrite_buffer_is_told_by_its_contents() {
    // Pages go to two slots first, then to their places, as InnoDB's do.
    let dir = tempfile::tempdir().expect("a directory");
    let run = "import os, random\nrandom.seed(1)\nf = os.open(os.environ['NANDLE_DIR'] + '/t.ibd', os.O_CREAT | os.O_RDWR)\n\
               os.ftruncate(f, 16 << 20); os.fsync(f)\nfor n in range(60):\n p = [random.randbytes(16384) for _ in range(2)]\n \
               os.pwrite(f, p[0] + p[1], 1 << 20); os.fdatasync(f)\n \
               [os.pwrite(f, page, (2 << 20) + random.randrange(500) * 16384) for page in p]; os.fdatasync(f)";
    let recorded = nandle(&["record", "-o", "t.parquet", "--", "python3", "-c", run], dir.path());
    assert!(recorded.status.success(), "{}", said(&recorded));
    let text = std::fs::read_to_string(dir.path().join("t.parquet.files.json")).expect("written");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    let kinds = &told["kinds"];
    assert_eq!(kinds["doublewrite"]["logical_bytes"], 60 * 32_768);
    assert_eq!(kinds["doublewrite"]["block_bytes"], 60 * 32_768);
    assert_eq!(kinds["table"]["logical_bytes"], 60 * 32_768);
    assert_eq!(told["doubled_page"], 16_384);
    let args = ["cost", "t.parquet", "--set", "mapping.unit_bytes=16384", "--json", "-"];
    let output = nandle(&args, dir.path());
    assert!(output.status.success(), "{}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let gain = |name: &str| {
        let helps = answer["helps"].as_array().expect("helps");
        let help =
            helps.iter().find(|help| help["name"] == name).unwrap_or_else(|| panic!("{name} in {answer:#}"));
        help["gain"].as_f64().unwrap_or_else(|| panic!("{help:#}"))
    };
    // Half of the pages are copies; the journal stays.
    assert!((0.2..0.6).contains(&gain("atomic writes")), "{answer:#}");
    // Eight flushes: of four copies of two pages one pair is left.
    assert!(gain("group commit x8") > 0.3, "{answer:#}");
    assert!(gain("direct I/O") > 0.1, "{answer:#}");
}

/// Two files that grow in turn, holes, room that is allocated and written in part, what nobody flushes, what is deleted,
/// shortened, replaced. Each is kept under a name outside, for others to look at.
const WAYS_TO_LIE: &str = r#"import os, sys
d, kept = os.environ["NANDLE_DIR"], sys.argv[1]
def open_(name): return os.open(f"{d}/{name}", os.O_CREAT | os.O_RDWR)
def keep(name): os.link(f"{d}/{name}", f"{kept}/{name}")
def put(f, block, blocks=1): os.pwrite(f, os.urandom(4096 * blocks), 4096 * block)
a, b = open_("turns-a.db"), open_("turns-b.db")
for n in range(40):
    for f in a, b: put(f, n); os.fsync(f)
f = open_("holes.db"); put(f, 0); put(f, 300, 5); put(f, 77, 2); os.fsync(f); put(f, 301)
os.pread(f, 4096 * 400, 0)
f = open_("allocated.log"); os.posix_fallocate(f, 0, 1 << 20); put(f, 20, 30); os.fdatasync(f)
f = open_("unflushed.tmp"); put(f, 0, 50)
f = open_("deleted.db"); put(f, 0, 16); os.fsync(f); keep("deleted.db"); os.unlink(f"{d}/deleted.db"); put(f, 3); os.fsync(f)
f = open_("shortened.db"); put(f, 0, 64); os.fsync(f); os.ftruncate(f, 4096 * 10); put(f, 9, 4); os.fsync(f)
f = open_("replaced.db"); put(f, 0, 8); os.fsync(f); keep("replaced.db")
f = open_("new.db"); put(f, 0, 8); os.rename(f"{d}/new.db", f"{d}/replaced.db"); os.link(f"{d}/replaced.db", f"{kept}/new.db")
f = os.open(f"{d}/durable.log", os.O_CREAT | os.O_RDWR | os.O_DSYNC); put(f, 0, 3)
for name in "turns-a.db", "turns-b.db", "holes.db", "allocated.log", "unflushed.tmp", "shortened.db", "durable.log": keep(name)
"#;

/// The blocks of a file that hold what was written, as e2fsprogs have them.
fn filefrag(file: &Path) -> Option<BTreeSet<u64>> {
    let output = std::process::Command::new("filefrag").arg("-v").arg(file).output().ok()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("blocks of 4096 bytes"), "{}", said(&output));
    let mut blocks = BTreeSet::new();
    // Number, blocks of the file, blocks of the drive, length, flags; a place that goes on has no column for the expected.
    for line in text.lines().filter(|line| line.contains("..")) {
        let fields: Vec<&str> = line.split(':').map(str::trim).collect();
        let (first, last) = fields[2].split_once("..").expect("a range");
        if !fields.last().expect("flags").contains("unwritten") {
            let block = |text: &str| text.trim().parse::<u64>().expect("a block");
            blocks.extend(block(first)..=block(last));
        }
    }
    Some(blocks)
}

/// Records with files in `dir`, and compares where they lie.
fn lie_where_filefrag_says(dir: &Path) {
    let kept = dir.join("kept");
    std::fs::create_dir(&kept).expect("made");
    let args = ["record", "--layout", "fiemap", "-o", "t.csv", "--", "python3", "-c", WAYS_TO_LIE];
    let output = Command::cargo_bin("nandle")
        .expect("built")
        .args(args)
        .arg(&kept)
        .env("TMPDIR", dir)
        .current_dir(dir)
        .output()
        .expect("it runs");
    assert!(output.status.success() && !said(&output).contains("told no place"), "{}", said(&output));
    let text = std::fs::read_to_string(dir.join("t.csv.files.json")).expect("written");
    let told: Value = serde_json::from_str(&text).expect("JSON");
    assert_eq!((&told["layout"], &told["unplaced_bytes"]), (&"fiemap".into(), &0.into()));
    let mut trace =
        nandle_trace::open(&dir.join("t.csv"), &nandle_trace::Options::default()).expect("a trace");
    let mut requests = Vec::new();
    nandle_trace::Source::fill(&mut trace, &mut requests, usize::MAX).expect("readable");
    let blocks = |op: Op, object: u64| -> BTreeSet<u64> {
        let of =
            requests.iter().filter(|r| r.op == op && u64::from(r.object) == object && r.stream != JOURNAL);
        of.flat_map(|r| r.offset / 4096..(r.offset + r.bytes) / 4096).collect()
    };
    let trimmed = blocks(Op::Trim, 0);
    let mut all = BTreeSet::new();
    for file in told["files"].as_array().expect("files") {
        let (name, object) =
            (file["path"].as_str().expect("a name"), file["object"].as_u64().expect("a number"));
        let Some(is) = filefrag(&kept.join(name)) else { return eprintln!("SKIPPED: no filefrag") };
        let mut was = blocks(Op::Write, object);
        match name {
            "shortened.db" => {
                let gone: BTreeSet<u64> = was.difference(&is).copied().collect();
                assert!(
                    gone.is_subset(&trimmed) && gone.len() >= 50,
                    "{name}: {gone:?}, trimmed {trimmed:?}"
                );
                was.retain(|block| is.contains(block));
            }
            // Trimmed, but for the block that is written when the name is gone.
            "deleted.db" => assert_eq!(is.difference(&trimmed).count(), 1, "{name}: {trimmed:?}"),
            "replaced.db" => assert!(is.is_subset(&trimmed), "{name}: {trimmed:?}"),
            _ => {}
        }
        assert_eq!(was, is, "{name}");
        // Of what was read nothing lies in a hole.
        assert!(blocks(Op::Read, object).is_subset(&is), "{name}");
        all.extend(is);
    }
    assert_eq!(all.len(), 40 * 2 + 8 + 30 + 50 + 16 + 13 + 8 + 8 + 3);
    // Journal and metadata are the model's, and lie behind.
    let last = all.last().expect("blocks") * 4096;
    assert!(requests.iter().filter(|r| r.stream == JOURNAL && r.bytes > 0).all(|r| r.offset > last));
}

#[test]
fn files_lie_where_their_file_system_says() {
    let dir = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a directory");
    let args = ["record", "--layout", "fiemap", "-o", "t.csv", "--", "echo x > $NANDLE_DIR/f"];
    let mut probe = Command::cargo_bin("nandle").expect("built");
    let output =
        probe.args(args).env("TMPDIR", dir.path()).current_dir(dir.path()).output().expect("it runs");
    if !output.status.success() {
        let why = said(&output);
        assert!(why.contains("--layout fiemap: the folder") || why.contains("cannot be traced"), "{why}");
        return eprintln!("SKIPPED: {why}");
    }
    lie_where_filefrag_says(dir.path());
}

#[test]
fn where_no_file_system_says_a_sentence_does() {
    let here = tempfile::tempdir().expect("a directory");
    let record = |tmp: &Path, more: &[&str], part: &str| {
        let args =
            [&["record", "--layout", "fiemap", "-o", "t.csv"], more, &["--", "echo x > $NANDLE_DIR/f"]]
                .concat();
        let mut command = Command::cargo_bin("nandle").expect("built");
        let output =
            command.args(args).env("TMPDIR", tmp).current_dir(here.path()).output().expect("it runs");
        let text = said(&output);
        assert_eq!((output.status.code(), text.trim().lines().count()), (Some(2), 1), "{text}");
        assert!(text.contains(part), "{text}");
    };
    record(here.path(), &["--watch", "fuse"], "expected --watch calls");
    // Memory.
    record(
        Path::new("/dev/shm"),
        &[],
        "expected a TMPDIR on ext4, xfs or f2fs with blocks of 4 KiB, or --layout ext4",
    );
    let run = |program: &str, args: &[&str]| {
        std::process::Command::new(program).args(args).output().is_ok_and(|output| output.status.success())
    };
    for make in ["mkfs.ext4 -q -F -b 1024", "mkfs.xfs -q -f"] {
        let (image, at) = (here.path().join("image"), here.path().join("at"));
        let (image, at) = (image.to_string_lossy().into_owned(), at.to_string_lossy().into_owned());
        let _ = std::fs::create_dir(&at);
        let made = format!(
            "rm -f {image} && truncate -s 320M {image} && {make} {image} && mount -o loop {image} {at}"
        );
        if !run("sh", &["-c", &made]) {
            eprintln!("SKIPPED: {make}: needs root, that program and a loop device");
            continue;
        }
        let judged = std::panic::catch_unwind(|| match make.contains("1024") {
            true => record(Path::new(&at), &[], "blocks smaller than 4 KiB"),
            false => lie_where_filefrag_says(Path::new(&at)),
        });
        assert!(run("umount", &[&at]));
        if let Err(why) = judged {
            std::panic::resume_unwind(why);
        }
    }
}

#[test]
fn bad_input_is_one_sentence() {
    let dir = tempfile::tempdir().expect("a directory");
    std::fs::write(
        dir.path().join("empty.csv"),
        "time_ns,op,offset,bytes,stream,object,fua\n0,read,0,4096,0,0,0\n",
    )
    .expect("written");
    for (args, part) in [
        (vec!["record", "-o", "t.csv", "--", "true"], "wrote to no file in $NANDLE_DIR"),
        (vec!["record", "-o", "t.csv", "--", "exit 3"], "ended with exit 3"),
        (vec!["record", "-o", "t.csv", "--", "no-such-program", "x"], "no-such-program"),
        (vec!["record", "-o", "t.csv", "--strace", "empty.csv"], "strace -f -ttt -y"),
        (vec!["record", "-o", "t.csv", "--strace", "none"], "none: "),
        (vec!["cost", "none.parquet"], "none.parquet"),
        (vec!["cost", "empty.csv"], "nothing is written in it"),
        (vec!["cost", "empty.csv", "--share", "2"], "expected a share"),
    ] {
        let output = nandle(&args, dir.path());
        let text = said(&output);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
    }
}

#[test]
fn what_never_flushes_has_no_latency_of_flushes() {
    let dir = tempfile::tempdir().expect("a directory");
    let rows: String = (0..200).map(|n| format!("{n},write,{},4096\n", n * 4096)).collect();
    std::fs::write(dir.path().join("t.csv"), format!("time_ns,op,offset,bytes\n{rows}")).expect("written");
    let output = nandle(
        &["cost", "t.csv", "-d", "gc20@1/8", "--until", "steady", "--at-most", "1", "--json", "a.json"],
        dir.path(),
    );
    let text = said(&output);
    let row = text.lines().find(|line| line.starts_with("as it is")).unwrap_or_else(|| panic!("{text}"));
    // WAF and flash bytes a byte, then fsync's two.
    let columns: Vec<&str> = row["as it is".len()..].split_whitespace().collect();
    assert_eq!(columns[2..4], ["-", "-"], "{text}");
    let answer = std::fs::read_to_string(dir.path().join("a.json")).expect("written");
    let answer: Value = serde_json::from_str(&answer).expect("JSON");
    assert_eq!(answer["cost"]["fsync_lat_ns"], serde_json::json!({}));
}

#[test]
fn a_fraction_of_a_drive_is_simulated_until_it_is_steady() {
    // One file, written from its beginning to its end again and again: as above, whatever the fraction.
    let dir = tempfile::tempdir().expect("a directory");
    let run = "dd if=/dev/zero of=$NANDLE_DIR/a bs=1M count=24 conv=fsync 2>/dev/null";
    let recorded = nandle(&["record", "-o", "t.parquet", "--", run], dir.path());
    assert!(recorded.status.success(), "{}", said(&recorded));
    let cost = ["cost", "t.parquet", "--share", "0.2"];
    let args = [&cost[..], &["--device", "demo@1/2", "--until", "steady", "--json", "-"]].concat();
    let output = nandle(&args, dir.path());
    assert!(output.status.success(), "{}", said(&output));
    let answer: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let number = |value: &Value| value.as_f64().expect("a number");
    let share = number(&answer["simulated_bytes"]) / number(&answer["device_bytes"]);
    assert!((share - 0.5).abs() < 0.02, "{share}");
    assert!((0.99..1.6).contains(&number(&answer["cost"]["waf"])), "{answer:#}");
    assert_eq!(answer["cost"]["steady"], true);
    // It may be steady at the earliest when three windows of half a drive write are alike.
    assert!(number(&answer["cost"]["drive_writes"]) >= 1.5);
    for (args, part) in [
        (&["--device", "demo@1/999"][..], "too few blocks"),
        (&["--until", "steady", "--band", "7"], "--band 7"),
    ] {
        let output = nandle(&[&cost[..], args].concat(), dir.path());
        assert_eq!(output.status.code(), Some(2));
        assert!(said(&output).contains(part), "{}", said(&output));
    }
}

#[test]
fn without_doublewrite_half_as_much_is_written() {
    // MariaDB's manual: with the doublewrite buffer pages are written twice. Recordings of a few minutes, by night.
    let there = |path: &str| Path::new(path).exists();
    if std::env::var_os("NANDLE_NIGHTLY").is_none() || !there("/usr/sbin/mariadbd") || !there("/dev/fuse") {
        eprintln!("SKIPPED: needs NANDLE_NIGHTLY, mariadbd and /dev/fuse");
        return;
    }
    let dir = tempfile::tempdir().expect("a directory");
    let script =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("examples/crash/mariadb.py").display().to_string();
    let made = dir.path().join("made");
    std::fs::create_dir(&made).expect("made");
    let make =
        std::process::Command::new("python3").args([&script, "make"]).env("NANDLE_DIR", &made).status();
    assert!(make.expect("Python starts").success());
    for (trace, option) in [("off.parquet", ""), ("on.parquet", "--doublewrite")] {
        let run = format!("python3 {script} run {option}");
        let output =
            nandle(&["record", "--watch", "fuse", "-o", trace, "--dir", "made", "--", &run], dir.path());
        assert!(output.status.success(), "{}", said(&output));
    }
    let args = ["cost", "off.parquet", "on.parquet", "--set", "mapping.unit_bytes=16384", "--json", "-"];
    let output = nandle(&args, dir.path());
    let answers: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let of = |n: usize| {
        let number = |value: &Value| value.as_f64().expect("a number");
        let logical = number(&answers[n]["logical_bytes"]);
        (logical, logical * number(&answers[n]["cost"]["flash_bytes_per_logical_byte"]))
    };
    let (off, on) = (of(0), of(1));
    for (what, ratio) in [("written", on.0 / off.0), ("of flash", on.1 / off.1)] {
        assert!((1.5..3.0).contains(&ratio), "{what}: {ratio:.2} times as much");
    }
}
