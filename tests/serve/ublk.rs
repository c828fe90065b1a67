//! Goal: a served drive is a block device of Linux's own, and where that cannot be it is said why.
//! Method: the real program; with NANDLE_GUEST=1 (it takes minutes) in a virtual machine whose kernel has the
//! driver: file systems, fio, ends of every kind. What is asked and answered at a queue is tested without a kernel
//! in `crates/serve/src/ublk`, structures against the kernel's header in `crates/ublk/tests`.
#![cfg(all(feature = "ublk", target_os = "linux"))]

use std::path::Path;
use std::process::{Command, Stdio};

fn nandle(args: &[&str]) -> (Option<i32>, String) {
    let out = Command::new(env!("CARGO_BIN_EXE_nandle")).args(args).stdin(Stdio::null()).output();
    let out = out.expect("it runs");
    let text = [out.stdout, out.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
    (out.status.code(), text)
}

#[test]
fn where_it_cannot_be_it_says_why() {
    for args in [["serve", "--ublk=x"], ["serve", "--ublk=1048576"], ["serve", "--ublk=-1"]] {
        let (code, said) = nandle(&args);
        assert!(code == Some(2) && said.contains("--ublk"), "{args:?}: {code:?} {said}");
    }
    if Path::new("/dev/ublk-control").exists() {
        return eprintln!("SKIPPED: this machine has ublk");
    }
    let (code, said) = nandle(&["serve", "--ublk"]);
    let expected = ["/dev/ublk-control", "Linux 6.5", "modprobe ublk_drv", "--fuse"];
    assert!(code == Some(2) && expected.iter().all(|word| said.contains(word)), "{code:?} {said}");
    let (code, said) = nandle(&["doctor"]);
    let line = said.lines().find(|line| line.contains("ublk")).expect("a line on ublk");
    assert!(code == Some(0) && line.trim().starts_with("no") && line.contains("modprobe"), "{said}");
}

#[test]
fn linux_finds_a_block_device_and_runs_file_systems() {
    if std::env::var_os("NANDLE_GUEST").is_none() {
        return eprintln!("SKIPPED: a virtual machine takes minutes: NANDLE_GUEST=1 runs it");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/guest/ublk.sh");
    let status = Command::new("bash").args([script, env!("CARGO_BIN_EXE_nandle")]).status();
    // 77: it said why it cannot be run here.
    assert!(matches!(status.expect("bash").code(), Some(0 | 77)));
}
