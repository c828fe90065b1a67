//! FlashAlloc's experiments: every workload under every stream policy, and what becomes of the claims.
//!
//! `SCALE=1` takes the paper's size (long), `BUFFER=0` the drive without its write buffer, `ONLY=a,b`
//! some of the workloads.

use nandle_lab::config::Wanted;
use nandle_lab::reproduce::flashalloc::{POLICIES, drive, findings, run};

fn cosmos() -> nandle_ssd::DeviceConfig {
    let mut config =
        Wanted { device: "flashalloc-cosmos", ..Default::default() }.load().expect("a preset").config;
    if let Some(bytes) = std::env::var("BUFFER").ok().and_then(|s| s.parse().ok()) {
        config.buffer.bytes = bytes;
    }
    config
}

fn main() {
    let scale = std::env::var("SCALE").ok().and_then(|s| s.parse().ok()).unwrap_or(8);
    let only = std::env::var("ONLY").ok();
    let mut outcomes = vec![];
    for workload in
        ["fio-2m-8", "fio-2m-32", "rocksdb-x4", "f2fs", "mysql", "rocksdb+mysql", "rocksdb", "kv-cache"]
    {
        if only.as_ref().is_some_and(|only| !only.split(',').any(|o| o == workload)) {
            continue;
        }
        for policy in POLICIES {
            let o = run(workload, &drive(cosmos(), scale, policy), 1).expect("it runs");
            let waf: Vec<String> = o.points.iter().map(|p| format!("{:.2}", p.waf)).collect();
            println!(
                "{workload:14} {:13} WAF {:.2} (late {:.2})  {:6.1} MB/s  tenants {:.1} {:.1}  write us {:.0}/{:.0}/{:.0}  read us {:.0}  calls {:?} moved {} demoted {} programs {:?}\n    {}",
                policy.name(),
                o.waf(),
                o.waf_late(),
                o.throughput() / 1e6,
                o.tenant(0) / 1e6,
                o.tenant(1) / 1e6,
                o.write_ns[0] / 1e3,
                o.write_ns[1] / 1e3,
                o.write_ns[2] / 1e3,
                o.read_ns / 1e3,
                o.calls,
                o.moved,
                o.demoted,
                o.programs,
                waf.join(" ")
            );
            outcomes.push(o);
        }
    }
    for f in findings(&outcomes) {
        let met = if f.met { "met" } else { "NOT MET" };
        println!(
            "{:26} {:26} paper {:5.2} ours {:5.2}  {met}  ({})",
            f.claim, f.what, f.paper, f.ours, f.workload
        );
    }
}
