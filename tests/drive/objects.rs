//! Goal: the ordinary run shows what FlashAlloc, multi-stream and FDP do with an object-aware workload.
//! Method: the real program on the paper's drive, four chips of sixty-four; the books must balance.

use assert_cmd::Command;
use serde_json::Value;

fn run(scheme: &str, more: &[&str]) -> Value {
    run_workload("rocksdb", scheme, more)
}

fn run_workload(workload: &str, scheme: &str, more: &[&str]) -> Value {
    let mut args = vec!["run", "--device", "flashalloc-cosmos", "--workload", workload, "--json", "-"];
    // A sixteenth of the drive, with room for the open blocks of eight handles and of what survives of each.
    args.extend([
        "--set",
        "op_ratio=0.25",
        "--set",
        "gc.survivors=apart",
        "--set",
        "geometry.channels=4",
        "--set",
        "geometry.chips_per_channel=1",
        "--scheme",
        scheme,
    ]);
    args.extend(more);
    let out = Command::cargo_bin("nandle").expect("built").args(&args).output().expect("it runs");
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    serde_json::from_slice(&out.stdout).expect("JSON")
}

fn sum(rows: &Value, key: &str) -> u64 {
    rows.as_array().expect("rows").iter().map(|row| row[key].as_u64().expect("a count")).sum()
}

#[test]
fn objects_have_blocks_of_their_own_and_the_books_balance() {
    let vanilla = run("by-time", &[]);
    let waf = |s: &Value| s["waf"].as_f64().expect("it wrote");
    assert!(vanilla["trace"]["hints_ignored"].as_u64() > Some(0));
    for scheme in ["flashalloc", "multi-stream(8)", "fdp(8)", "fdp(8,persistently)"] {
        let s = run(scheme, &[]);
        // Which file comes when depends on the drive; that the volume is full in the end does not.
        let bytes = |s: &Value| s["host"]["write"]["bytes"].as_f64().expect("bytes");
        assert!((0.7..1.4).contains(&(bytes(&s) / bytes(&vanilla))), "{scheme}: {}", bytes(&s));
        assert!(waf(&s) < waf(&vanilla), "{scheme}: {} against {}", waf(&s), waf(&vanilla));
        for (s, scheme) in [(&s, scheme), (&vanilla, "by-time")] {
            let streams = &s["streams"];
            assert_eq!(
                sum(&streams["per_stream"], "media_bytes"),
                s["flash"]["bytes_programmed"].as_u64().expect("a count"),
                "{scheme}: every page belongs to a stream"
            );
            assert_eq!(
                sum(&streams["per_class"], "host_bytes"),
                s["host"]["write"]["bytes"].as_u64().expect("a count"),
                "{scheme}: every write has a class"
            );
        }
        let kinds: Vec<&str> = s["streams"]["per_stream"]
            .as_array()
            .expect("rows")
            .iter()
            .filter_map(|row| row["kind"].as_str())
            .collect();
        let streams = &s["streams"];
        if scheme == "flashalloc" {
            assert!(kinds.contains(&"normal") && kinds.contains(&"objects"), "{kinds:?}");
            assert!(streams["flashalloc_calls"].as_u64() > Some(0), "{streams}");
            assert!(streams["block_erases_by_trim"].as_u64() > Some(0), "{streams}");
            assert_eq!(s["trace"]["hints_ignored"], 0);
            assert!(sum(&s["streams"]["per_stream"], "host_bytes") > 0);
        } else {
            let kind = if scheme.starts_with("fdp") { "handle" } else { "stream" };
            assert_eq!(kinds.iter().filter(|&&k| k == kind).count(), 8, "{kinds:?}");
            assert!(s["scheme"].as_str().is_some_and(|name| name.ends_with(')')), "{}", s["scheme"]);
        }
    }
}

#[test]
fn users_share_the_drive_and_the_books_balance() {
    let both = run_workload("rocksdb+mysql", "flashalloc", &[]);
    let again = run_workload("rocksdb+mysql", "flashalloc", &[]);
    assert_eq!(both["digest"], again["digest"], "a run is a function of its configuration and seed");
    for kind in ["read", "write", "trim", "flush"] {
        for key in ["requests", "bytes"] {
            let users = both["users"].as_array().expect("rows");
            let sum: u64 = users.iter().map(|u| u[kind][key].as_u64().expect("a count")).sum();
            assert_eq!(Some(sum), both["host"][kind][key].as_u64(), "{kind} {key}");
        }
    }
    // The power goes while all of them have requests under way.
    let more = ["--verify", "--power-cut-at", "500ms,1s,1500ms", "--requests", "30000"];
    let cut = run_workload("rocksdb+mysql", "flashalloc", &more);
    assert_eq!((&cut["recovery"]["cuts"], &cut["integrity"]["mismatches"]), (&3.into(), &0.into()));
    assert!(cut["trace"]["cut_off"].as_u64() > Some(0));
    assert_eq!(run("flashalloc", &["--requests", "1000"])["users"].as_array().map(Vec::len), Some(2));
}

#[test]
fn objects_lose_nothing() {
    let s = run("flashalloc", &["--verify", "--requests", "20000"]);
    assert_eq!(s["integrity"]["mismatches"], 0);
    assert!(s["integrity"]["checked_sectors"].as_u64() > Some(0));
}

#[test]
fn settings_in_brackets_are_checked() {
    for (scheme, expected) in [
        ("multi-stream(x)", "streams.count = x: invalid type: string \"x\", expected a whole number"),
        ("multi-stream()", "expected a whole number"),
        ("multi-stream(8,9)", "no more than 1, as multi-stream(count)"),
        ("multi-stream(8,count=9)", "expected count once"),
        ("multi-stream(cuont=9)", "did you mean \"count\"?"),
        ("pc-lru(60)", "expected KEY=VALUE instead of \"60\", of insert"),
        ("page+d-choices(2000)", "--scheme d-choices(2000): gc.d = 2000: expected 1 to 1024"),
        ("page+greedy(d=3)", "greedy takes none"),
        ("multi-stream(0)", "1 to 128"),
        ("fdp(8,mostly)", "`initially`, `persistent`, `persistently`"),
        ("fdp(8", "closing bracket"),
        ("lru(3)", "takes none"),
        ("multi-stream(8)+multi-stream(9)", "both answer"),
        ("multistream(8)", "did you mean"),
    ] {
        let out = Command::cargo_bin("nandle")
            .expect("built")
            .args(["run", "--scheme", scheme, "--requests", "10"])
            .output()
            .expect("it runs");
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{scheme}: {said}");
        assert!(said.contains(expected), "{scheme}: {said}");
    }
}
