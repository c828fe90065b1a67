//! Goal: what other tools read of a run has their form and the run's figures.
//! Method: fio's tree against fio's own where there is one; log pages against the summary of the same run.

use std::collections::BTreeSet;

use serde_json::Value;

use crate::command::{file, good, json, temp, text};

fn paths(value: &Value, at: &str, out: &mut BTreeSet<String>) {
    match value {
        // Names of percentiles and of options are data.
        _ if at.ends_with("percentile") || at.ends_with("job options") || at.ends_with("disk_util") => {}
        Value::Object(fields) => {
            for (key, value) in fields {
                out.insert(format!("{at}/{key}"));
                paths(value, &format!("{at}/{key}"), out);
            }
        }
        Value::Array(values) => values.iter().for_each(|v| paths(v, at, out)),
        _ => {}
    }
}

#[test]
fn fio_reads_its_own_tree() {
    let dir = temp();
    let ours =
        json(&good(&["run", "-w", "mixed", "--requests", "5000", "--output-format", "fio-json"], dir.path()));
    let job = &ours["jobs"][0];
    let total = job["read"]["total_ios"].as_u64().zip(job["write"]["total_ios"].as_u64()).expect("counts");
    assert!(total.0 > 0 && total.1 > 0);
    let shares: f64 = ["latency_ns", "latency_us", "latency_ms"]
        .iter()
        .flat_map(|key| job[key].as_object().expect("classes").values())
        .map(|share| share.as_f64().expect("a share"))
        .sum();
    assert!((shares - 100.0).abs() < 0.01, "every request is in one class: {shares}");
    let args = ["--name=x", "--ioengine=null", "--size=4M", "--rw=randrw", "--output-format=json"];
    let Ok(fio) = std::process::Command::new("fio").args(args).current_dir(dir.path()).output() else {
        eprintln!("skipped: no fio to compare with");
        return;
    };
    if !fio.status.success() {
        eprintln!("skipped: fio does not run here: {}", text(&fio.stderr));
        return;
    }
    let (mut theirs, mut mine) = (BTreeSet::new(), BTreeSet::new());
    let theirs_tree = text(&fio.stdout);
    let theirs_tree = &theirs_tree[theirs_tree.find('{').expect("a tree")..];
    paths(&json(theirs_tree), "", &mut theirs);
    paths(&ours, "", &mut mine);
    // Versions add keys; what fio 3.33 has is had.
    let missing: Vec<&String> = theirs
        .iter()
        .filter(|p| !mine.contains(*p) && !p.contains("latency_") && !p.contains("percentile"))
        .collect();
    assert!(missing.is_empty(), "fio also has {missing:?}");
}

#[test]
fn log_pages_have_the_drives_counters() {
    let dir = temp();
    good(&["run", "-w", "mixed", "--requests", "20000", "-o", "r"], dir.path());
    let s = json(&file(dir.path().join("r/summary.json")));
    let page = |name: &str| json(&good(&["report", "--as", name, "r"], dir.path()));
    let smart = page("nvme-smart");
    assert_eq!(smart["host_write_commands"], s["host"]["write"]["requests"]);
    assert_eq!(
        smart["data_units_written"],
        s["host"]["write"]["bytes"].as_u64().expect("bytes").div_ceil(512_000)
    );
    let c0 = page("ocp-c0");
    assert_eq!(c0["Physical media units written"]["lo"], s["flash"]["bytes_programmed"]);
    assert_eq!(c0["Unaligned I/O"], s["host"]["unaligned_writes"]);
    let fdp = page("fdp-stats");
    assert_eq!((&fdp["hbmw"], &fdp["mbmw"]), (&s["host"]["write"]["bytes"], &s["flash"]["bytes_programmed"]));
}

#[test]
fn log_pages_have_what_went_wrong() {
    let dir = temp();
    let run = |set: &[&str]| {
        let out = format!("r{}", dir.path().read_dir().expect("a folder").count());
        let base = ["run", "-d", "demo@1/4", "-w", "mixed", "--requests", "6000", "-o", &out];
        good(&[&base[..], set].concat(), dir.path());
        let page = |name: &str| json(&good(&["report", "--as", name, &out], dir.path()));
        (json(&file(dir.path().join(&out).join("summary.json"))), page("nvme-smart"), page("ocp-c0"))
    };
    let some = |value: &Value| assert!(value.as_u64() > Some(0), "{value}: nothing went wrong");
    let (s, smart, c0) = run(&["--set", "faults.read_rate=0.01", "--set", "faults.program_rate=0.01"]);
    some(&s["faults"]["unreadable_sectors"]);
    some(&s["host"]["rejected"]);
    assert_eq!(s["faults"]["read_only"], true);
    assert_eq!(smart["critical_warning"].as_u64().map(|bits| bits >> 3 & 1), Some(1), "read-only: {smart}");
    assert_eq!(smart["endurance_grp_critical_warning_summary"], smart["critical_warning"]);
    assert_eq!(smart["media_errors"], s["faults"]["unreadable_sectors"]);
    assert_eq!(smart["num_err_log_entries"], s["host"]["rejected"]);
    assert_eq!(c0["Uncorrectable read error count"], s["faults"]["unreadable_sectors"]);
    let (s, smart, c0) = run(&[
        "--set",
        "faults.read_rate=0.01",
        "--set",
        "superblock.parity=8",
        "--set",
        "op_ratio=0.5",
        "--set",
        "timing.read_retry.share=[0.1]",
        "--set",
        "timing.read_retry.ns=50000",
    ]);
    some(&s["flash"]["rebuilt"]);
    some(&s["flash"]["read_retries"]);
    assert_eq!(c0["XOR recovery count"], s["flash"]["rebuilt"]);
    assert_eq!(c0["Soft ecc error count"], s["flash"]["read_retries"]);
    assert_eq!((&smart["power_cycles"], &smart["unsafe_shutdowns"]), (&json("1"), &json("0")));
    assert_eq!((&smart["critical_warning"], &c0["Capacitor health"]), (&json("0"), &json("65535")));
    for (plp, incomplete, carried, health) in [("false", "3", "0", "65535"), ("true", "0", "3", "100")] {
        let (s, smart, c0) = run(&["--power-cut-at", "random:3", "--set", &format!("recovery.plp={plp}")]);
        assert_eq!(s["recovery"]["cuts"], 3);
        assert_eq!((&smart["power_cycles"], &smart["unsafe_shutdowns"]), (&json("4"), &json("3")));
        assert_eq!(c0["Incomplete shutdowns"], json(incomplete), "{plp}");
        assert_eq!(c0["PLP start count"], carried, "{plp}");
        assert_eq!(c0["Capacitor health"], json(health), "{plp}");
    }
}
