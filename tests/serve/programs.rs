//! Goal: RocksDB and MariaDB run unmodified on the served drive and get objects of FlashAlloc.
//! Method: `examples/programs/run.sh` in a small size, as a user would call it; it says what it lacks. What the
//! programs themselves check of their data is checked by them; here only that all came to a good end.
#![cfg(target_os = "linux")]

use crate::served;

use std::process::Command;

use serde_json::Value;

fn run(program: &str, more: &[&str]) {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/programs/run.sh");
    let preload = served::libraries().join("libnandle_preload.so");
    let out = Command::new("bash")
        .args([script, program, "--nandle", env!("CARGO_BIN_EXE_nandle"), "--only", "flashalloc", "-o"])
        .arg(dir.path())
        .arg("--preload")
        .arg(preload)
        .args(more)
        .output()
        .expect("bash");
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    if out.status.code() == Some(77) {
        return eprintln!("{said}");
    }
    assert!(out.status.success(), "{said}");
    let text = std::fs::read_to_string(dir.path().join(format!("{program}.results.json"))).expect("results");
    let results: Value = serde_json::from_str(&text).expect("JSON");
    let number = |name: &str| results["flashalloc"][name].as_f64().unwrap_or(f64::NAN);
    assert!(number("FlashAlloc calls") > 3.0 && number("WAF") > 0.9, "{said}");
    assert!(number("errors of the library") == 0.0, "{said}");
}

#[test]
fn rocksdb_runs_with_objects() {
    run("rocksdb", &["--size", "0.5", "--fill", "12"]);
}

#[test]
fn mariadb_runs_with_objects() {
    run("mariadb", &["--size", "0.5", "--seconds", "5"]);
}
