//! Goal: programs are tested on real file systems too: what the kernel's ext4 and xfs leave of their files after a power cut.
//! Method: SQLite, a small store and a file without its folder flushed, on a loop device, the file system mounted anew for each
//! state. What must come out was written by others: SQLite's manual, ext4's on `barrier`, and that ext4 and xfs commit
//! a new file's name with its `fsync`, which POSIX does not promise. Needs root; says aloud what is missing where it skips.

use crate::common::{LOG_STORE, SQLITE, Test, has_file_system, states};
use nandle_crash::model::Lie;
use nandle_observe::tree::Tree;

/// States of one test at night: each is mounted.
const STATES: u64 = 80;

fn on(kind: &str, options: &str, script: &str, run: &str, check: &str) -> Test {
    Test::new(script, run, check).states(states(STATES)).on(kind, options)
}

#[test]
fn what_flushes_passes_and_what_does_not_is_found() {
    for kind in ["ext4", "xfs"] {
        if !has_file_system(kind) {
            continue;
        }
        let run = "run --transfers 6 --synchronous";
        let test = on(kind, "", SQLITE, &format!("{run} full"), "check --acknowledged");
        let outcome = test.go().expect("a system that can mount");
        let said = outcome.first.as_ref().map(|first| first.verdict.clone());
        assert_eq!((outcome.failed, outcome.flushes() > 10), (0, true), "{kind}: {said:?}");
        assert!(outcome.states >= states(STATES) / 2, "{kind}: {}", outcome.states);
        // What nobody flushes is written when the file system is unmounted: there are states to be found.
        let outcome =
            on(kind, "", SQLITE, &format!("{run} off"), "check --acknowledged").go().expect("as above");
        assert!(outcome.failed > 0, "{kind}");
        let outcome = on(kind, "", LOG_STORE, "run", "check").go().expect("as above");
        assert_eq!(outcome.failed, 0, "{kind}: {:?}", outcome.first.map(|first| first.verdict));
    }
}

#[test]
fn who_may_not_mount_has_a_kernel_of_his_own() {
    // A second or two a state: it boots for each.
    if std::env::var_os("NANDLE_NIGHTLY").is_none()
        || !nandle_observe::uml::is_there()
        || !has_file_system("ext4")
    {
        println!("skipped: NANDLE_NIGHTLY=1, and linux.uml (package user-mode-linux) on the PATH");
        return;
    }
    let run = "run --transfers 6 --synchronous full";
    let test = |options| on("ext4", options, SQLITE, run, "check --acknowledged").states(12).go();
    let outcome = test("uml").expect("a kernel that boots");
    let said = outcome.first.as_ref().map(|first| first.verdict.clone());
    assert_eq!((outcome.failed, outcome.flushes() > 10), (0, true), "{said:?}");
    assert!(outcome.states >= 10, "{}", outcome.states);
    let outcome = test("uml,nobarrier").expect("as above");
    assert!(outcome.failed > 0, "it sends the drive no flush");
}

#[test]
fn one_fsync_less_is_found_on_a_real_file_system() {
    if !has_file_system("xfs") {
        return;
    }
    // Delayed allocation: the name is committed, the data are not.
    let test = Test::new(LOG_STORE, "run --forget-fsync", "check").states(states(300)).on("xfs", "");
    let outcome = test.go().expect("a system that can mount");
    assert!(outcome.failed > 0);
    let story = test.explain(&outcome).story;
    assert!(story.contains("disk") && story.contains("The check: "), "{story}");
}

#[test]
fn a_file_system_that_does_not_flush_or_a_drive_that_lies_is_found() {
    if !has_file_system("ext4") {
        return;
    }
    let run = "run --transfers 6 --synchronous full";
    // Without barriers ext4 sends the drive no flush: https://docs.kernel.org/admin-guide/ext4.html.
    let outcome =
        on("ext4", "nobarrier", SQLITE, run, "check --acknowledged").go().expect("a system that can mount");
    assert!(outcome.failed > 0);
    let outcome = on("ext4", "", SQLITE, run, "check --acknowledged").lie(Lie::IgnoreFlush).go();
    assert!(outcome.expect("as above").failed > 0);
}

#[test]
fn the_name_of_a_flushed_file_is_there_though_posix_does_not_promise_it() {
    let run = "import os; d = os.environ['NANDLE_DIR']; f = os.open(d + '/new', os.O_CREAT | os.O_RDWR); os.write(f, b'x' * 5000); \
               os.fsync(f); print('done', flush=True)";
    let check = "import os, sys\nfor line in sys.stdin:\n p = line.strip()\n said = open(p + '.output').read()\n \
                 there = os.path.exists(p + '/new') and os.path.getsize(p + '/new') == 5000\n \
                 print('ok' if there or not said else 'not there', flush=True)";
    let test = || {
        let mut test = Test::new(LOG_STORE, "run", "check").states(states(STATES));
        test.campaign.task.command = vec!["python3".into(), "-c".into(), run.into()];
        test.campaign.check.command = format!("exec python3 -c \"{check}\"");
        test.campaign.task.tree = Tree::default();
        test
    };
    let Some(outcome) = test().go() else { return };
    assert!(outcome.failed > 0, "POSIX: the folder was not flushed");
    for kind in ["ext4", "xfs"] {
        if !has_file_system(kind) {
            continue;
        }
        let outcome = test().on(kind, "").go().expect("a system that can mount");
        assert_eq!(outcome.failed, 0, "{kind}: {:?}", outcome.first.map(|first| first.verdict));
    }
}
