//! Goal: what is known to lose data is found, and what is known not to passes.
//! Method: SQLite, LMDB, bbolt, RocksDB, PostgreSQL, MariaDB and a small log-structured store as they are, in both file systems
//! and watched both ways. What must come out was written by others: SQLite's manual on `synchronous`, LMDB's on
//! `MDB_NOSYNC`, bbolt's issue 567, PostgreSQL's manual on `full_page_writes`, MariaDB's on `innodb_doublewrite`. Programs
//! that are not installed are said to be missing; MariaDB's thousands of states are for NANDLE_NIGHTLY=1.

use crate::common::{
    LMDB, LOG_STORE, MARIADB, POSTGRES, ROCKSDB, SQLITE, Test, bbolt, has, has_fuse, is_nightly, python,
    states,
};
use nandle_crash::model::{FileSystem, Lie};
use nandle_observe::Means;
use nandle_observe::event::What;

#[test]
fn sqlite_that_flushes_passes() {
    for (run, check) in [
        ("run --journal wal --synchronous full", "check --acknowledged"),
        ("run --journal delete --synchronous full", "check"),
        ("run --journal delete --synchronous extra", "check --acknowledged"),
        ("run --journal truncate --synchronous full", "check --acknowledged"),
        ("run --journal wal --synchronous normal", "check"),
    ] {
        for fs in [FileSystem::Posix, FileSystem::Ext4] {
            let Some(outcome) = Test::new(SQLITE, run, check).fs(fs).go() else { return };
            assert_eq!(outcome.failed, 0, "{run}, {check}, {fs:?}");
            assert!(outcome.states > states(300) && outcome.flushes() > 20, "{run}: {}", outcome.states);
        }
    }
}

#[test]
fn sqlite_that_does_not_flush_is_found() {
    for journal in ["wal", "delete"] {
        for fs in [FileSystem::Posix, FileSystem::Ext4] {
            let run = format!("run --journal {journal} --synchronous off");
            let Some(outcome) = Test::new(SQLITE, &run, "check").fs(fs).go() else { return };
            assert!(outcome.failed > 0, "{run}, {fs:?}");
            assert!(outcome.first.is_some());
        }
    }
}

#[test]
fn what_was_acknowledged_and_not_flushed_is_missed() {
    // https://www.sqlite.org/pragma.html#pragma_synchronous: in WAL mode NORMAL "does lose durability"; with FULL
    // a deleted rollback journal may come back, which EXTRA is for.
    for run in ["run --journal wal --synchronous normal", "run --journal delete --synchronous full"] {
        let Some(outcome) = Test::new(SQLITE, run, "check --acknowledged").go() else { return };
        assert!(outcome.failed > 0, "{run}");
    }
}

#[test]
fn one_fsync_less_is_found_and_told() {
    for means in [Means::Fuse, Means::Calls] {
        if means == Means::Fuse && !has_fuse() {
            continue;
        }
        for fs in [FileSystem::Posix, FileSystem::Ext4] {
            let whole = Test::new(LOG_STORE, "run", "check").fs(fs).means(means).go();
            let Some(whole) = whole else { return };
            assert!(
                whole.exhaustive && whole.states > 100 && whole.failed == 0,
                "{fs:?} {means:?}: {}",
                whole.failed
            );
            let test = Test::new(LOG_STORE, "run --forget-fsync", "check").fs(fs).means(means);
            let Some(outcome) = test.go() else { return };
            assert!(outcome.failed > 0, "{fs:?}, {means:?}");
            let story = test.explain(&outcome);
            let decisive: Vec<_> = story.writes.iter().filter(|written| written.decisive).collect();
            let told: Vec<(&str, &str, &str)> = (decisive.iter())
                .map(|written| {
                    let fate = match written.fate {
                        nandle_crash::story::Fate::Reached => "reached",
                        nandle_crash::story::Fate::Torn => "torn",
                        _ => "lost",
                    };
                    (written.event, written.path.as_str(), fate)
                })
                .collect();
            assert_eq!(told.len(), 2, "{}", story.story);
            assert_eq!(told[1], ("rename", "MANIFEST.new -> MANIFEST", "reached"), "{}", story.story);
            assert_eq!((told[0].0, told[0].1), ("write", "000002.log"), "{}", story.story);
            assert_ne!(told[0].2, "reached", "{}", story.story);
        }
    }
}

#[test]
fn lmdb_without_syncs_is_found() {
    let Some(python) = python("lmdb") else { return };
    let test =
        |run: &str, check: &str| Test::with(&python, LMDB, run, check).fs(FileSystem::Ext4).states(400);
    let outcome = test("run --nosync", "check").go().expect("a system that can be watched");
    assert!(outcome.failed > 20, "{}", outcome.failed);
    // With syncs, but for the moment in which the database is made (docs/crash-test.md), nothing is lost.
    let outcome = test("run", "check --acknowledged").made_by("make").go().expect("as above");
    assert_eq!(outcome.failed, 0);
    assert!(outcome.flushes() > 50);
}

#[test]
fn bbolt_whose_first_pages_are_torn_is_found() {
    // https://github.com/etcd-io/bbolt/issues/567: the first four pages are one write, and a part of it may be there.
    let Some(program) = bbolt() else { return };
    for fs in [FileSystem::Posix, FileSystem::Ext4] {
        let test = || Test::of(&program, "run", "check").fs(fs).states(400);
        let Some(outcome) = test().go() else { return };
        assert!(outcome.failed > 0, "{fs:?}");
        let story = test().explain(&outcome).story;
        // In part, or only as the size of the file.
        assert!(
            story.contains("write  keys.db 16384 bytes at 0: ") && story.contains("invalid database"),
            "{story}"
        );
        // Behind that moment it keeps what it acknowledged.
        let Some(outcome) = test().made_by("make").go() else { return };
        assert_eq!((outcome.failed, outcome.flushes() > 50), (0, true), "{fs:?}");
    }
}

#[test]
fn rocksdb_that_syncs_passes() {
    let Some(python) = python("rocksdict") else { return };
    for fs in [FileSystem::Posix, FileSystem::Ext4] {
        let test =
            |run: &str, check: &str| Test::with(&python, ROCKSDB, run, check).fs(fs).states(states(300));
        let Some(outcome) = test("run", "check --acknowledged").go() else { return };
        assert_eq!((outcome.failed, outcome.flushes() > 100), (0, true), "{fs:?}");
        // Without sync, a beginning of what was done; but not all of it.
        let Some(outcome) = test("run --no-sync", "check --acknowledged").go() else { return };
        assert!(outcome.failed > 0, "{fs:?}");
    }
}

#[test]
fn postgres_that_writes_full_pages_passes() {
    if !has("/usr/lib/postgresql/*/bin/postgres") {
        return;
    }
    let states = if is_nightly() { 1000 } else { 40 };
    let test = |run: &str| Test::new(POSTGRES, run, "check").states(states).made_by("make");
    let Some(outcome) = test("run").go() else { return };
    assert_eq!((outcome.failed, outcome.flushes() > 60), (0, true), "{:?}", outcome.first.map(|f| f.verdict));
    if !is_nightly() {
        eprintln!("skipped: torn pages of PostgreSQL, NANDLE_NIGHTLY is not set");
        return;
    }
    // Pages of 8 KiB that nobody can repair are torn between their halves, unless the drive keeps them whole.
    let torn = || test("run --no-full-page-writes");
    let Some(outcome) = torn().go() else { return };
    assert!(outcome.failed > 0);
    let Some(outcome) = torn().atomic(8192).go() else { return };
    assert_eq!(outcome.failed, 0, "{:?}", outcome.first.map(|f| f.verdict));
}

#[test]
fn mariadb_without_doublewrite_needs_a_drive_that_keeps_its_pages() {
    if !is_nightly() {
        eprintln!("skipped: NANDLE_NIGHTLY is not set");
        return;
    }
    if !has("/usr/sbin/mariadbd") || !has_fuse() {
        return;
    }
    let test = |run: &str| {
        Test::new(MARIADB, run, "check").means(Means::Fuse).states(1000).patience(300).made_by("make")
    };
    // An ordinary drive tears them.
    let Some(outcome) = test("run").go() else { return };
    assert!(outcome.failed > 0);
    for test in [test("run").atomic(16384), test("run --doublewrite")] {
        let Some(outcome) = test.go() else { return };
        assert_eq!(outcome.failed, 0, "{:?}", outcome.first.map(|f| f.verdict));
        // Combinations that are drawn twice are tried once.
        assert!(outcome.states > 600, "{} states", outcome.states);
    }
}

#[test]
fn a_check_that_does_not_always_say_the_same_is_told_of() {
    let dir = tempfile::tempdir().expect("a directory");
    // It fails the third time that it is asked, whatever there is.
    let count = dir.path().join("count").display().to_string();
    let mut test = Test::new(LOG_STORE, "run", "check").states(20);
    test.campaign.jobs = 1;
    test.campaign.check.stays = false;
    test.campaign.check.command =
        format!("n=$(cat {count} 2>/dev/null || echo 0); echo $((n + 1)) > {count}; test $n -ne 2");
    let Some(outcome) = test.go() else { return };
    assert_eq!(outcome.failed, 1);
    let story = test.explain(&outcome).story;
    assert!(story.contains("Asked again, it passed"), "{story}");
}

#[test]
fn a_drive_that_lies_fails_what_passes_on_an_honest_one() {
    for lie in [Lie::IgnoreFlush, Lie::IgnoreFua, Lie::ReorderAcrossFlush, Lie::Tear] {
        let test = Test::new(SQLITE, "run", "check --acknowledged").lie(lie);
        let Some(outcome) = test.go() else { return };
        assert!(outcome.failed > 0, "{lie:?}");
    }
}

#[test]
fn both_ways_of_watching_see_the_same() {
    if !has_fuse() {
        return;
    }
    let seen = |means| {
        let outcome = Test::new(LOG_STORE, "run", "check").means(means).states(50).go()?;
        let mut seen: Vec<String> = Vec::new();
        let mut last = None;
        for event in &outcome.observation.events {
            // The kernel may hand a write on in parts.
            match &event.what {
                What::Output(_) => {}
                What::Write { file, offset, data, .. } => {
                    if last != Some((*file, *offset)) {
                        seen.push(format!("write {file} {offset}"));
                    }
                    last = Some((*file, *offset + data.len() as u64));
                }
                what => {
                    last = None;
                    seen.push(format!("{what:?}"));
                }
            }
        }
        Some((seen, outcome.observation.after.digest()))
    };
    let (Some(fuse), Some(calls)) = (seen(Means::Fuse), seen(Means::Calls)) else { return };
    let differs = fuse.0.iter().zip(&calls.0).find(|(a, b)| a != b);
    assert!(differs.is_none() && fuse.0.len() == calls.0.len(), "{differs:?}");
    assert_eq!(fuse.1, calls.1, "what is left");
}

#[test]
fn a_check_that_stays_is_not_bound_by_its_start() {
    let rate = |test: Test| {
        let outcome = test.go()?;
        Some(outcome.states as f64 / outcome.took.as_secs_f64())
    };
    let stays = Test::new(SQLITE, "run", "check").states(400);
    let mut starts = Test::new(SQLITE, "run", "check").states(40);
    starts.campaign.check.stays = false;
    starts.campaign.check.command = starts.campaign.check.command.replace(" --stay", "");
    let (Some(stays), Some(starts)) = (rate(stays), rate(starts)) else { return };
    eprintln!("{stays:.0} states a second, {starts:.0} with a new process each");
    assert!(stays > 3.0 * starts, "{stays:.0} and {starts:.0} states a second");
}
