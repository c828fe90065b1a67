//! Goal: FlashAlloc does for its workloads what the paper says, as far as it does.
//! Method: four chips of the paper's drive, a workload under two stream policies;
//! `nandle reproduce flashalloc` runs the whole.

use std::sync::atomic::AtomicBool;

use nandle_studies::reproduce::flashalloc::calibration::{points_of, sizes};
use nandle_studies::reproduce::flashalloc::{Callers, Firmware, Host, drive, run};

/// Fig 5a: with an object for every overwrite nothing is left to copy.
#[test]
fn random_2_mib_overwrites_need_no_copies() {
    let [vanilla, ours] = ["by-time", "flashalloc"].map(|policy| {
        let config = drive(16, policy, Firmware::IgnoresTrims).expect("a preset");
        let host = Host { trims: false, ..Host::with(Callers::All) };
        run("fio-2m-8", &config, 1, host, &AtomicBool::new(false)).expect("it runs")
    });
    assert!(vanilla.waf() > 1.8, "{}", vanilla.waf());
    // The files were laid out without objects: their blocks are merged in the first half.
    assert!(ours.waf() < 1.25, "{}", ours.waf());
    assert!(ours.waf_of_last(0.5) < 1.06, "{}", ours.waf_of_last(0.5));
    assert!(ours.throughput() > 1.4 * vanilla.throughput());
    assert!(ours.calls.refused < ours.calls.honoured / 25, "{:?}", ours.calls);
}

/// Fig 4d: tenants go at speeds of their own, and who does not call is as on the vanilla drive.
#[test]
fn tenants_part_and_their_bytes_are_the_hosts() {
    let go = |policy, callers| {
        // Both as fast, whichever firmware it is.
        let mut config = drive(16, policy, Firmware::Logged).expect("a preset");
        config.controller = drive(16, "by-time", Firmware::Logged).expect("a preset").controller;
        run("rocksdb+mysql", &config, 1, Host::with(callers), &AtomicBool::new(false)).expect("it runs")
    };
    let vanilla = go("by-time", Callers::All);
    let nobody = go("flashalloc", Callers::Nobody);
    let ours = go("flashalloc", Callers::All);
    let alone = go("flashalloc", Callers::Only("mysql"));
    assert_eq!(
        (vanilla.ns, vanilla.bytes()),
        (nobody.ns, nobody.bytes()),
        "without calls it is the vanilla drive"
    );
    for o in [&vanilla, &ours, &alone] {
        let users: u64 = o.users.iter().map(|u| u.latency[1].bytes).sum();
        assert_eq!(users, o.writes.bytes);
        // What each tenant got done, interval by interval.
        for (tenant, user) in [0, 3].into_iter().enumerate() {
            let done: u64 = o.written.iter().map(|part| part.done[tenant]).sum();
            assert_eq!(done, o.users[user].latency[1].bytes);
            assert!(o.written.iter().filter(|part| part.done[tenant] > 0).count() > 10);
        }
        let names: Vec<&str> = o.users.iter().map(|u| u.name.as_str()).collect();
        assert_eq!(names, ["rocksdb flush", "rocksdb compaction", "mysql clients", "mysql cleaner"]);
        assert_eq!(o.users[2].latency[1].requests, 0, "clients read");
    }
    assert!(alone.calls.honoured > 0 && alone.calls.honoured < ours.calls.honoured);
    assert!(ours.waf() < vanilla.waf());
}

/// Authors' raw logs: a request takes so long for its size, whatever the firmware, as long as nothing is copied.
#[test]
fn a_request_takes_the_board_what_its_logs_say() {
    let sizes = sizes(1, &AtomicBool::new(false)).expect("it runs");
    assert!(sizes.iter().any(|s| s.0 == "flashalloc" && s.1 > 60.0), "four instances' too");
    for (policy, pages, logged, ours) in sizes {
        assert!((0.8..1.2).contains(&(ours / logged)), "{policy}, {pages} pages: {logged} us, ours {ours}");
    }
}

/// Authors' raw logs: what the host gets follows from the write amplification alone. Each policy takes half a minute.
#[test]
fn the_board_slows_as_its_logs_say() {
    let policies = ["flashalloc", "by-time", "multi-stream"];
    let tried = if std::env::var_os("NANDLE_NIGHTLY").is_some() { 3 } else { 1 };
    for policy in &policies[..tried] {
        for p in points_of(policy, 1, &AtomicBool::new(false)).expect("it runs") {
            let ratio = p.ours_mib_s.expect("some share of the drive has copies enough") / p.logged_mib_s;
            assert!((0.8..1.2).contains(&ratio), "{p:?}");
        }
    }
}
