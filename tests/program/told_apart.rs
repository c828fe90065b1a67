//! Goal: tables and reports average runs that differ in nothing but their seeds, and name what else differs.
//! Method: the real program; runs that were asked to do different things, side by side.

use crate::command::{file, good, json, temp};

/// The rows of the tables of averages of a report, a row's name and its mean read or write latency's cell.
fn rows(page: &str) -> Vec<String> {
    let cells = page.split("<td class=\"name\">").skip(1);
    cells.map(|row| row.split("</tr>").next().expect("its end").replace("<wbr>", "")).collect()
}

/// What runs were asked to do beside workload and seed tells them apart: only seeds are averaged.
#[test]
fn runs_that_were_asked_to_do_different_things_are_no_seeds_of_each_other() {
    let dir = temp();
    let run = |more: &str, out: &str| {
        let args = format!("run -d demo@1/4 -w random-read --requests 2000 {more} -o {out}");
        good(&args.split_whitespace().collect::<Vec<_>>(), dir.path());
    };
    run("--iodepth 1", "q1");
    run("--iodepth 32", "q32");
    run("--iodepth 32 --seed 2", "q32b");
    good(&["report", "q1", "q32", "q32b", "-o", "both.html"], dir.path());
    let page = file(dir.path().join("both.html"));
    let found = rows(&page);
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(
        found[0].starts_with("lru+page, iodepth=1<") && found[1].starts_with("lru+page, iodepth=32<"),
        "{found:?}"
    );
    assert!(!found[0].contains(" to ") && found[1].contains(" to "), "a range over seeds alone: {found:?}");
    let manifest = json(&file(dir.path().join("q32/manifest.json")));
    assert_eq!(manifest["asked"], serde_json::json!({ "requests": 2000, "iodepth": 32 }));
    // Directories of earlier versions do not say what was asked: what has one seed is still no repetition.
    for name in ["q1", "q32"] {
        let path = dir.path().join(name).join("manifest.json");
        let mut manifest = json(&file(&path));
        manifest.as_object_mut().expect("an object").remove("asked").expect("it was there");
        std::fs::write(path, manifest.to_string()).expect("written");
    }
    good(&["report", "q1", "q32", "-o", "both.html"], dir.path());
    let found = rows(&file(dir.path().join("both.html")));
    assert_eq!(found.len(), 2, "{found:?}");
    assert!(found[0].starts_with("lru+page, run=q1<") && !found[0].contains(" to "), "{found:?}");
}

/// Two traces of one name are two workloads, in the table, the report and the verdict.
#[test]
fn traces_of_one_name_are_not_one_workload() {
    let dir = temp();
    for (folder, seed) in [("ta", "1"), ("tb", "2")] {
        std::fs::create_dir(dir.path().join(folder)).expect("made");
        let to = format!("{folder}/t.csv");
        good(&["trace", "generate", "mixed", "--requests", "2000", "--seed", seed, "-o", &to], dir.path());
    }
    let args = "compare -d demo-page@1/4 --schemes page,multi-version -w ta/t.csv tb/t.csv --replay closed --untimed";
    let table = good(&args.split(' ').collect::<Vec<_>>(), dir.path());
    for head in
        ["| ta/t.csv | seed 1", "| tb/t.csv | seed 1", "\nta/t.csv: no verdict, for 2 of 2", "\ntb/t.csv: no"]
    {
        assert_eq!(table.matches(head).count(), 1, "{head}: {table}");
    }
    let grid = "devices = ['demo-page@1/4']\nworkloads = ['ta/t.csv', 'tb/t.csv']\nreplay = 'closed'\nuntimed = true\n";
    std::fs::write(dir.path().join("g.toml"), grid).expect("written");
    good(&["sweep", "g.toml"], dir.path());
    let page = file(dir.path().join("g.runs/report.html"));
    for head in ["<h2>ta/t.csv on demo-page@1/4</h2>", "<h2>tb/t.csv on demo-page@1/4</h2>"] {
        assert!(page.contains(head), "{head}");
    }
    let found = rows(&page);
    assert!(found.len() == 2 && found.iter().all(|row| !row.contains(" to ")), "{found:?}");
}

/// A sweep's table and report are of the runs that its file asks for now.
#[test]
fn what_a_sweep_no_longer_asks_for_is_left_out() {
    let dir = temp();
    let sweep = |requests: u64| {
        let grid = format!("devices = ['gc20@1/8']\nworkloads = ['random-write']\nrequests = {requests}\n");
        std::fs::write(dir.path().join("g.toml"), grid).expect("written");
        good(&["sweep", "g.toml"], dir.path());
        good(&["gather", "g.runs"], dir.path())
    };
    let said = sweep(100);
    assert!(said.contains(" 1 runs") && !said.contains("left out"), "{said}");
    let said = sweep(200);
    assert!(said.contains(" 1 runs") && said.matches("left out, not of the sweep").count() == 1, "{said}");
    assert_eq!(rows(&file(dir.path().join("g.runs/report.html"))).len(), 1);
    // Without the list all runs count, and what was asked tells them apart.
    std::fs::remove_file(dir.path().join("g.runs/report.json")).expect("removed");
    assert!(good(&["gather", "g.runs"], dir.path()).contains(" 2 runs"));
    good(&["report", "g.runs"], dir.path());
    let found = rows(&file(dir.path().join("g.runs/report.html")));
    assert!(found.len() == 2 && found.iter().any(|row| row.starts_with("page, requests=200<")), "{found:?}");
}
