//! Goal: real traces are read as what they are.
//! Method: published traces, which the repository does not hold, are described and compared with an inventory whose
//! numbers were counted by other means. The folder is `NANDLE_TRACES`, or a `traces` with
//! an inventory in a folder beside the workspace; without it the test says so and passes.
use nandle_trace::synthetic::{Target, fit};
use nandle_trace::{Format, Info, InfoOptions, Options, Source, TimeUnit, open};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

fn folder() -> Option<PathBuf> {
    let has_inventory = |folder: &PathBuf| folder.join("MANIFEST.tsv").is_file();
    if let Some(folder) = std::env::var_os("NANDLE_TRACES") {
        return Some(PathBuf::from(folder)).filter(has_inventory);
    }
    let beside = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
    let entries = std::fs::read_dir(beside).ok()?.flatten();
    entries.map(|entry| entry.path().join("traces")).find(has_inventory)
}

/// Footprint and re-use of a trace's twin, which is drawn from what is fitted to it.
#[test]
fn twins_keep_footprint_and_reuse() {
    let Some(folder) = folder() else { return };
    for file in [
        "pc_jpeg_copy.flashsim.xz",
        "rocksdb_flashalloc_v4.blkparse.xz",
        "rocksdb_flashalloc_v7.blkparse.xz",
        "cloudphysics_libcachesim.vscsi.xz",
        "sqlitewal_ext4_inserts.wiscsee.xz",
        "bench_iozone_aligned_100k.disksim.xz",
        "tencent_cbs_sample50000.csv.xz",
    ] {
        let path = folder.join(file);
        if !path.is_file() {
            continue;
        }
        let options = Options { format: Some(expected_format(file)), ..Options::default() };
        let info = |source: &mut dyn Source| Info::of(source, &InfoOptions::default()).unwrap();
        let original = info(&mut open(&path, &options).unwrap());
        let fitted = fit(&mut open(&path, &options).unwrap(), file).unwrap();
        let target =
            Target { logical_bytes: 1 << 40, page_bytes: 16_384, sector_bytes: 512, seed: 1, requests: None };
        let twin = info(&mut fitted.workload(&target).unwrap().into_source());
        for (what, got, want) in [
            ("footprint", twin.footprint_bytes as f64, original.footprint_bytes as f64),
            ("re-use", twin.write_reuse, original.write_reuse),
        ] {
            assert!((got / want - 1.0).abs() < 0.15, "{file}: {what} {got}, of the trace {want}");
        }
        let sequential = twin.write.sequential_pct - original.write.sequential_pct;
        assert!(sequential.abs() < 3.0, "{file}: {sequential} points more are sequential");
    }
}

#[test]
fn statistics_match_the_inventory() {
    let Some(folder) = folder() else {
        eprintln!("no real traces: set NANDLE_TRACES to a folder with MANIFEST.tsv to compare with them");
        return;
    };
    let manifest = std::fs::read_to_string(folder.join("MANIFEST.tsv")).unwrap();
    let mut lines = manifest.lines().map(|l| l.split('\t').collect::<Vec<_>>());
    let names = lines.next().unwrap();
    let mut wrong = Vec::new();
    for fields in lines {
        let row: HashMap<&str, &str> = names.iter().copied().zip(fields).collect();
        let file = row["file"];
        let mut options = Options::default();
        // DiskSim, SSDSim and MQSim files say neither their name nor their unit; the file name does.
        let mut trace = open(&folder.join(file), &options).unwrap_or_else(|e| panic!("{e}"));
        let expected = expected_format(file);
        if trace.format() != expected {
            wrong.push(format!("{file}: found {}, expected {expected}", trace.format()));
            options.format = Some(expected);
            trace = open(&folder.join(file), &options).unwrap();
        }
        if trace.format() == Format::Mqsim {
            let unit = if file.starts_with("msps_dtrs") { TimeUnit::Us } else { TimeUnit::Ns };
            assert_eq!(trace.time_unit(), unit, "{file}");
        }
        let info = Info::of(&mut trace, &InfoOptions::default()).unwrap_or_else(|e| panic!("{e}"));
        let counts = trace.counts();
        assert_eq!(counts.rows, counts.requests + counts.skipped.values().sum::<u64>(), "{file}");
        let mib = |b: u64| b as f64 / f64::from(1 << 20);
        let kib = |b: f64| b / 1024.0;
        let outside = counts.skipped.get("before the partition (negative offset)").copied().unwrap_or(0);
        let got = [
            ("requests", (info.read.requests + info.write.requests + outside) as f64, 0.0),
            ("write_pct", info.write_pct, 0.01),
            ("mean_req_KiB", kib(info.mean_bytes), 0.006),
            ("mean_write_KiB", kib(info.write.mean_bytes), 0.006),
            ("unaligned_writes_8K_pct", info.pages[1].unaligned_writes_pct, 0.006),
            ("unaligned_writes_16K_pct", info.pages[2].unaligned_writes_pct, 0.006),
            ("across_page_8K_pct", info.pages[1].across_page_pct, 0.006),
            ("across_page_16K_pct", info.pages[2].across_page_pct, 0.006),
            ("footprint_MiB", mib(info.footprint_bytes), 0.06),
            ("write_footprint_MiB", mib(info.write_footprint_bytes), 0.06),
            ("write_reuse", info.write_reuse, 0.006),
            // Tencent's seconds are spread, so its second second is a whole one.
            (
                "duration_s",
                info.duration_ns as f64 / 1e9,
                if expected == Format::Tencent { 1.0 } else { 0.06 },
            ),
        ];
        for (key, value, tolerance) in got {
            let Ok(expected) = row[key].parse::<f64>() else { continue };
            if (value - expected).abs() > tolerance {
                wrong.push(format!("{file}: {key} is {value:.3}, expected {expected}"));
            }
        }
        println!("{file}: {} {:?} {:?}", trace.format(), counts, trace.warnings());
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn expected_format(file: &str) -> Format {
    match file.split('.').nth_back(1).unwrap() {
        "csv" if file.starts_with("msps") => Format::Msps,
        "csv" if file.starts_with("msr") => Format::Msr,
        "csv" if file.starts_with("systor") => Format::Systor17,
        "csv" => Format::Tencent,
        "vscsi" => Format::Vscsi,
        "blkparse" => Format::Blkparse,
        "tsv" => Format::Diskmon,
        "flashsim" => Format::Flashsim,
        "wiscsee" => Format::Wiscsee,
        _ if file.starts_with("msr") || file.starts_with("bench") => Format::Disksim,
        _ => Format::Mqsim,
    }
}
