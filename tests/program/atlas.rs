//! Goal: `nandle atlas` runs every scheme on every trace and drive, says what was refused and why, and does nothing twice.
//! Method: the real program at its quick size, on twins and on a directory with a trace and a file that is none.

use std::path::Path;

use assert_cmd::Command;
use serde_json::Value;

fn nandle(args: &[&str], dir: &Path) -> (Option<i32>, String, String) {
    let out =
        Command::cargo_bin("nandle").expect("built").args(args).current_dir(dir).output().expect("it runs");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (out.status.code(), text(&out.stdout), text(&out.stderr))
}

fn atlas(dir: &Path) -> Value {
    let text = std::fs::read_to_string(dir.join("atlas/atlas.json")).expect("it was written");
    serde_json::from_str(&text).expect("JSON")
}

#[test]
fn every_scheme_meets_every_trace_on_three_drives() {
    let dir = tempfile::tempdir().expect("a directory");
    let args = ["atlas", "--quick", "--untimed", "--schemes", "waflash,papa,mrsm", "-j", "2"];
    let (code, said, errors) = nandle(&args, dir.path());
    assert_eq!(code, Some(0), "{said}{errors}");
    let atlas = atlas(dir.path());
    let rows = atlas["rows"].as_array().expect("rows");
    // Four schemes with the baseline, two traces, three drives.
    assert_eq!(rows.len(), 4 * 2 * 3, "{said}");
    for row in rows {
        let name = format!("{} on {}, {}", row["scheme"], row["trace"], row["drive"]);
        if row["refused"].is_null() {
            assert!(row["waf"].as_f64().is_some_and(|waf| waf > 0.2), "{name}: {row}");
            assert!(row["verified_sectors"].as_u64() > Some(0), "{name}: {row}");
            assert!(row["map_bytes"].as_u64() > Some(0), "{name}: {row}");
            let parts: f64 =
                row["waf_parts"].as_array().expect("parts").iter().filter_map(Value::as_f64).sum();
            assert!(parts > 0.2, "{name}: {row}");
        } else {
            assert!(row["refused"].as_str().is_some_and(|why| why.contains("expected")), "{name}: {row}");
        }
    }
    let of = |scheme: &str, drive: &str| {
        rows.iter().filter(|r| r["scheme"] == scheme && r["drive"] == drive).collect::<Vec<_>>()
    };
    // Page types need an open order, which today's drives do not have. Pieces are of any size: MRSM stands on all.
    assert!(of("papa", "page").iter().all(|r| r["refused"].is_null()));
    assert!(of("papa", "4K").iter().all(|r| r["refused"].is_string()));
    let mrsm = ["page", "4K", "64K"].into_iter().flat_map(|drive| of("mrsm", drive));
    assert!(mrsm.into_iter().all(|r| r["refused"].is_null()));
    // Units of 64 KiB cost small writes more than pages of 16 KiB, and these more than units of 4 KiB.
    let waf = |drive: &str| of("baseline", drive)[0]["waf"].as_f64().expect("it wrote");
    assert!(
        waf("4K") < waf("page") && waf("page") < waf("64K"),
        "{} {} {}",
        waf("4K"),
        waf("page"),
        waf("64K")
    );

    let page = std::fs::read_to_string(dir.path().join("atlas/atlas.html")).expect("a page");
    for part in [
        "Where each scheme loses",
        "4K: refused (",
        "Twins of published traces",
        "prefers-color-scheme: dark",
    ] {
        assert!(page.contains(part), "no {part:?}");
    }
    assert!(!page.contains("http://") && !page.contains("https://") && !page.contains("src="));
    let csv = std::fs::read_to_string(dir.path().join("atlas/atlas.csv")).expect("a table");
    assert_eq!(csv.lines().count(), 1 + rows.len());

    // The same again does nothing, and a further scheme only its own.
    let (_, said, _) = nandle(&args, dir.path());
    assert!(said.contains(": 0 runs done, 20 done before, 4 refused"), "{said}");
    let more = ["atlas", "--quick", "--untimed", "--schemes", "waflash,papa,mrsm,fifo+page", "-j", "2"];
    let (_, said, _) = nandle(&more, dir.path());
    assert!(said.contains(": 6 runs done, 20 done before, 4 refused"), "{said}");
}

#[test]
fn a_directory_of_traces_is_read_as_it_is() {
    let dir = tempfile::tempdir().expect("a directory");
    let traces = dir.path().join("traces");
    std::fs::create_dir(&traces).expect("made");
    let mut rows = String::new();
    for n in 0..3000_u64 {
        let op = if n % 4 == 0 { "Read" } else { "Write" };
        let time = 128_166_372_003_061_629 + 10_000 * n;
        rows += &format!("{time},hm,0,{op},{},{},100\n", n * 7919 % 4096 * 4096, 4096 * (1 + n % 3));
    }
    std::fs::write(traces.join("small.csv"), rows).expect("written");
    std::fs::write(traces.join("no-trace.bin"), [0_u8; 999]).expect("written");
    std::fs::write(traces.join("MANIFEST.tsv"), "what is here\n").expect("written");
    let args = ["atlas", "--traces", "traces", "--schemes", "multi-version", "--untimed"];
    let (code, said, errors) = nandle(&args, dir.path());
    assert_eq!(code, Some(0), "{said}{errors}");
    assert!(said.contains("note: no-trace.bin left out: ") && !said.contains("MANIFEST"), "{said}");
    let atlas = atlas(dir.path());
    let rows = atlas["rows"].as_array().expect("rows");
    assert_eq!(rows.len(), 2 * 3);
    assert!(rows.iter().any(|r| r["steady"] == true), "{rows:?}");
    // It fits the trace: 16 MiB is less than the smallest drive holds.
    assert!(
        rows.iter().all(|r| r["logical_bytes"].as_u64().is_some_and(|b| (30 << 20..40 << 20).contains(&b)))
    );

    for (args, said) in [
        (&["atlas", "--traces", "gone"][..], "expected a directory of traces"),
        (&["atlas", "--schemes", "waflush"], "waflush"),
    ] {
        let (code, _, errors) = nandle(args, dir.path());
        assert!(
            code == Some(2) && errors.contains(said) && !errors.contains("panicked"),
            "{args:?}: {errors}"
        );
    }
}
