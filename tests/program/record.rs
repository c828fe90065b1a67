//! Goal: `nandle record` and `nandle cost` answer what a program costs a drive, as documented.
//! Method: the documented recipe run again, its figures beside those of the page; a trace whose write
//! amplification is known; bad input.
#![cfg(target_os = "linux")]

use std::path::Path;
use std::process::Output;

use assert_cmd::Command;
use serde_json::Value;

fn nandle(args: &[&str], dir: &Path) -> Output {
    Command::cargo_bin("nandle").expect("built").args(args).current_dir(dir).output().expect("it runs")
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

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

#[test]
fn the_documented_recipe_gives_the_documented_figures() {
    let page = documented();
    let (_, after) = page.split_once("<!-- tests/program/record.rs runs this -->").expect("the mark");
    let mut blocks = after.split("```").skip(1).step_by(2);
    let recipe = blocks.next().expect("a recipe").trim_start_matches("sh").to_owned();
    let expected =
        blocks.next().expect("what it says").trim_start_matches("text").trim_matches('\n').to_owned();
    let dir = tempfile::tempdir().expect("a directory");
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    std::fs::copy(root.join("examples/crash/sqlite.py"), dir.path().join("sqlite.py")).expect("copied");
    let program = assert_cmd::cargo::cargo_bin("nandle");
    let folder = program.parent().expect("a folder").display().to_string();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap_or_default());
    // By night all eight; by day two of them.
    let (record, _) = recipe.split_once("nandle cost").expect("two commands");
    let nightly = std::env::var_os("NANDLE_NIGHTLY").is_some();
    let cost =
        if nightly { &recipe[record.len()..] } else { "nandle cost wal-4096.parquet delete-4096.parquet" };
    let output = std::process::Command::new("sh")
        .args(["-ec", &format!("{record}{cost}")])
        .env("PATH", path)
        .current_dir(dir.path())
        .output()
        .expect("it runs");
    assert!(output.status.success(), "{}", said(&output));
    let version = std::process::Command::new("python3")
        .args(["-c", "import sqlite3; print(sqlite3.sqlite_version)"])
        .output()
        .expect("it runs");
    let version = String::from_utf8_lossy(&version.stdout).trim().to_owned();
    let same = page.contains(&format!("SQLite {version}"));
    let found = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(
        found.trim_end().lines().count(),
        if nightly { expected.lines().count() } else { 3 },
        "{found}"
    );
    for found in found.lines().skip(1) {
        let found = words(found);
        let line = expected.lines().find(|line| line.starts_with(&found[0])).expect("a documented line");
        let expected = words(line);
        if !same {
            continue;
        }
        // A recording that takes longer has more commits in the background; no more than that may differ.
        let near = |what: &str, found: f64, expected: f64, within: f64| {
            assert!((found / expected - 1.0).abs() < within, "{line}: {what} {found}, documented {expected}");
        };
        near("by the program", size(&found[1..3]), size(&expected[1..3]), 0.01);
        near("by the file system", size(&found[3..5]), size(&expected[3..5]), 0.05);
        for at in [5, 6] {
            near("amplification", number(&found[at]), number(&expected[at]), 0.1);
        }
    }
    if !same {
        eprintln!("figures not compared: SQLite {version} is here, docs/cost.md is of another");
    }
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
    std::fs::create_dir(dir.path().join("made")).expect("made");
    let make = format!("NANDLE_DIR=made python3 {script} make");
    let made = std::process::Command::new("sh").args(["-c", &make]).current_dir(dir.path()).status();
    assert!(made.expect("the shell starts").success());
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
