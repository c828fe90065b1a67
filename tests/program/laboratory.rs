//! Goal: comparisons, sweeps and reports do what docs/laboratory.md says, from the command line.
//! Method: the real program in temporary directories; results against each other, against the run that
//! the same command makes alone, and fio's tree against fio's own where there is one.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::command::{bad, good, temp, text};

fn json(text: &str) -> Value {
    serde_json::from_str(text).expect("JSON")
}

fn file(path: impl AsRef<Path>) -> String {
    let path = path.as_ref();
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What every page must be: whole, alone, and without anything that a browser would fetch.
fn assert_page(html: &str, parts: &[&str]) {
    assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
    // The library that draws the charts names its home in its first line.
    let own = html.replace("https://github.com/leeoniya/uPlot", "");
    for outside in ["http://", "https://", "src=", "@import", "url(", "fetch(", "import("] {
        assert!(!own.contains(outside), "the page has {outside}");
    }
    for data in html.split("<script type=\"application/json\">").skip(1) {
        let data = data.split("</script>").next().expect("its end");
        serde_json::from_str::<Value>(data).unwrap_or_else(|e| panic!("{e}: {data}"));
    }
    let (html, charts) = match html.split_once("<script>") {
        Some((body, _)) => (format!("{body}</body></html>"), html.contains("new uPlot(")),
        None => (html.to_owned(), false),
    };
    assert_eq!(html.contains("class=\"plot\""), charts, "charts come with what draws them");
    for tag in ["section", "div", "table", "details", "ul"] {
        let opened = html.matches(&format!("<{tag} ")).count() + html.matches(&format!("<{tag}>")).count();
        assert_eq!(opened, html.matches(&format!("</{tag}>")).count(), "<{tag}>");
    }
    assert!(!html.contains("NaN") && !html.contains("=\"inf"), "a figure is no number");
    assert!(html.contains("prefers-color-scheme: dark") && html.contains("data:text/csv"));
    for part in parts {
        assert!(html.contains(part), "the page lacks {part:?}");
    }
}

#[test]
fn a_comparison_serves_every_scheme_the_same_requests() {
    let dir = temp();
    let args = ["--device", "gc20", "--requests", "20000", "--verify"];
    let mut all =
        vec!["compare", "--schemes", "page,multi-version,fdp(4,persistently)", "-w", "random-write", "mixed"];
    all.extend(args);
    let list = json(&good(&[&all[..], &["--json", "-"]].concat(), dir.path()));
    let runs = list.as_array().expect("a list");
    assert_eq!(runs.len(), 6);
    for run in runs {
        let base =
            runs.iter().find(|r| r["summary"]["workload"] == run["summary"]["workload"]).expect("the first");
        let bytes = |r: &Value| {
            (r["summary"]["host"]["read"]["bytes"].clone(), r["summary"]["host"]["write"]["bytes"].clone())
        };
        assert_eq!(bytes(run), bytes(base), "the same requests");
        let ratio = run["ratios"]["waf"].as_f64().expect("a ratio");
        let waf = |r: &Value| r["summary"]["waf"].as_f64().expect("it wrote");
        assert!((ratio - waf(run) / waf(base)).abs() < 1e-9);
        assert_eq!(run["summary"]["integrity"]["mismatches"], 0);
    }
    // A run of a comparison is the run that it would be alone.
    let mut alone = vec!["run", "--scheme", "multi-version", "-w", "mixed", "--json", "-"];
    alone.extend(args);
    let alone = json(&good(&alone, dir.path()));
    let same = runs
        .iter()
        .any(|r| r["summary"]["digest"] == alone["digest"] && r["labels"]["scheme"] == "multi-version");
    assert!(same, "{}", alone["digest"]);

    let table = good(&[&all[..], &["-o", "cmp", "-j", "2"]].concat(), dir.path());
    for part in [
        "multi-version",
        "fdp(4,persistently)",
        "1.00x",
        "WAF",
        "write latency, 99%",
        "no verdict, for 3 of 3 runs were not steady",
        "cmp/report.html",
    ] {
        assert!(table.contains(part), "no {part:?} in\n{table}");
    }
    let html = file(dir.path().join("cmp/report.html"));
    assert_page(
        &html,
        &[
            "What WAF is made of",
            "less is better",
            "WAF over time",
            "How busy the chips were",
            "Latency of writes",
        ],
    );
    let before = html.clone();
    std::fs::remove_file(dir.path().join("cmp/report.html")).expect("removed");
    assert!(good(&["report", "cmp"], dir.path()).contains("cmp/report.html"));
    assert_eq!(file(dir.path().join("cmp/report.html")), before, "a report is made again as it was");
}

/// Requests that cover whole pages leave nothing to schemes for partial ones.
#[test]
fn schemes_that_have_nothing_to_act_on_are_no_better_and_no_worse_but_the_same() {
    let dir = temp();
    let args = "compare --device gc20@1/4 --schemes page,across -w gc20 --until steady -o out";
    let said = good(&args.split(' ').collect::<Vec<_>>(), dir.path());
    assert!(said.contains("gc20: across does as page: the same pages in the same time."), "{said}");
}

/// Runs that each went on until they were steady: neither table nor report compares what they add up to.
#[test]
fn counts_of_runs_of_unequal_length_are_not_compared() {
    let dir = temp();
    let programmed = |length: &str| {
        let args = format!(
            "compare --device gc20@1/4 --schemes page,page+victim=fifo -w gc20 --untimed -o out {length}"
        );
        good(&args.split(' ').collect::<Vec<_>>(), dir.path());
        let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("a report");
        let row = page.split("<td>pages programmed</td>").nth(1).and_then(|rest| rest.split("</tr>").next());
        (row.expect("a row").to_owned(), page.contains("of unequal length"))
    };
    let (row, said) = programmed("--requests 20k");
    assert!(row.contains("x</small>") && !said, "{row}");
    let (row, said) = programmed("--until steady");
    assert!(!row.contains("x</small>") && said, "{row}");
}

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

const CLAIMS: &str = r#"{ "schema_version": 1, "version": "0.1.0", "paper": "waflash", "title": "A paper", "quick": true, "seed": 1,
    "tables": [], "notes": [], "claims": [] }"#;

/// No output replaces what is read for it, by whatever name; two reports are not written to one file.
#[test]
fn results_do_not_overwrite_what_they_are_made_of() {
    let dir = temp();
    let at = |name: &str| dir.path().join(name);
    for name in ["r1.json", "r2.json", "r3.html"] {
        std::fs::write(at(name), CLAIMS).expect("written");
    }
    std::fs::hard_link(at("r1.json"), at("hard.html")).expect("linked");
    std::os::unix::fs::symlink("r1.json", at("soft.html")).expect("linked");
    good(&["trace", "generate", "mixed", "--requests", "500", "-o", "a.csv"], dir.path());
    good(&["run", "-d", "gc20@1/8", "-w", "a.csv", "--io-log", "-o", "rr1"], dir.path());
    good(&["trace", "convert", "a.csv", "rr1/io.parquet"], dir.path());
    let before = |name: &str| std::fs::read(at(name)).expect("there");
    let names = ["r1.json", "r3.html", "a.csv", "rr1/summary.json", "rr1/io.parquet"];
    let all = || names.map(before);
    let kept = all();
    for (args, said) in [
        ("report r1.json -o r1.json", "would be overwritten"),
        ("report r1.json -o hard.html", "would be overwritten"),
        ("report r1.json -o soft.html", "would be overwritten"),
        ("report r3.html", "would be overwritten"),
        ("report rr1 -o rr1/summary.json", "would be overwritten"),
        ("run -w a.csv --json a.csv", "would be overwritten"),
        ("run -w rr1/io.parquet -o rr1", "would be removed"),
        ("compare --schemes page,across -w a.csv --json a.csv", "would be overwritten"),
        ("cost a.csv --json a.csv", "would be overwritten"),
        ("report r1.json r2.json -o both.html", "a page of its own"),
        ("report rr1 r2.json -o both.html", "a page of its own"),
    ] {
        let message = bad(&args.split(' ').collect::<Vec<_>>(), 2, dir.path());
        assert!(message.contains(said) && message.trim_end().lines().count() == 1, "{args}: {message}");
    }
    assert!(all() == kept && !at("both.html").exists());
    good(&["report", "rr1", "-o", "rr1/report.html"], dir.path());
}

/// A directory is an earlier run's by what its files say, not by their names.
#[test]
fn directories_of_others_are_left_alone() {
    let dir = temp();
    let at = |name: &str| dir.path().join(name);
    let theirs = [
        ("web/manifest.json", "{ \"name\": \"My app\", \"start_url\": \"/\" }"),
        ("web/index.html", "<p>mine"),
        ("web/report.html", "<p>mine"),
        ("own/summary.json", "{}"),
        ("own/report.html", "<p>mine"),
        ("list/report.json", "[1]"),
    ];
    for (name, text) in theirs {
        std::fs::create_dir_all(at(name).parent().expect("a folder")).expect("made");
        std::fs::write(at(name), text).expect("written");
    }
    for args in [
        "run -d gc20@1/8 --requests 100 -o web",
        "run -d gc20@1/8 --requests 100 -o own",
        "compare -d gc20@1/8 --schemes page,across --requests 100 -o web",
        "compare -d gc20@1/8 --schemes page,across --requests 100 -o own",
        "compare -d gc20@1/8 --schemes page,across --requests 100 -o list",
        "sweep g.toml -o own",
    ] {
        std::fs::write(at("g.toml"), "workloads = ['random-write']\nrequests = 100\n").expect("written");
        let message = bad(&args.split(' ').collect::<Vec<_>>(), 2, dir.path());
        assert!(message.contains("; expected a"), "{args}: {message}");
    }
    for (name, text) in theirs {
        assert_eq!(file(at(name)), text, "{name}");
    }
    for folder in ["web", "own", "list"] {
        let names = std::fs::read_dir(at(folder)).expect("readable").count();
        assert_eq!(names, theirs.iter().filter(|(name, _)| name.starts_with(folder)).count(), "{folder}");
    }
    // What nandle wrote is taken over, whole or not, with what somebody put beside it.
    let run = ["run", "-d", "gc20@1/8", "--requests", "100", "-o", "mine"];
    good(&run, dir.path());
    std::fs::write(at("mine/notes.txt"), "mine").expect("written");
    good(&run, dir.path());
    assert_eq!(file(at("mine/notes.txt")), "mine");
    for name in ["notes.txt", "manifest.json"] {
        std::fs::remove_file(at("mine").join(name)).expect("removed");
    }
    good(&run, dir.path());
    let compare = "compare -d gc20@1/8 --schemes page,across --requests 100 -o all";
    let compare: Vec<&str> = compare.split(' ').collect();
    good(&compare, dir.path());
    good(&compare, dir.path());
}

/// Where results cannot go is said before anything runs; what fails later takes no table with it.
#[test]
fn outputs_are_tried_before_the_work() {
    let dir = temp();
    std::fs::write(dir.path().join("t.csv"), "time_ns,op,offset,bytes\n0,write,0,4096\n").expect("written");
    // Had they run, these would take hours, or leave a file.
    let long = "--requests 100G";
    for args in [
        format!("run {long} --json /nonexistent/x"),
        format!("run {long} --json ."),
        format!("run {long} --json new/"),
        format!("compare --schemes page,across {long} --json /nonexistent/x"),
        format!("compare --schemes page,across {long} -o t.csv/x"),
        "cost t.csv --json /nonexistent/x".to_owned(),
        "cost t.csv nosuch.csv -o co".to_owned(),
        "crash-test --run touch --check true --json /nonexistent/x".to_owned(),
        "record -o /nonexistent/x.csv -- touch ran".to_owned(),
    ] {
        let message = bad(&args.split(' ').collect::<Vec<_>>(), 2, dir.path());
        assert_eq!(message.trim_end().lines().count(), 1, "{args}: {message}");
    }
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 1, "nothing was done");
    for args in ["run -d gc20@1/8 --requests 100", "compare -d gc20@1/8 --schemes page,across --requests 100"]
    {
        let args = format!("{args} --json /dev/full");
        let out = crate::command::nandle(&args.split(' ').collect::<Vec<_>>(), dir.path());
        let (table, why) = (text(&out.stdout), text(&out.stderr));
        assert_eq!(out.status.code(), Some(1), "{why}");
        assert!(table.contains("WAF") && !table.contains("summary: "), "{table}");
        assert!(why.contains("/dev/full: No space left"), "{why}");
    }
}

#[test]
fn a_comparison_says_once_that_the_trace_does_not_fit() {
    let dir = temp();
    good(&["trace", "generate", "mixed", "--requests", "2k", "-o", "t.csv"], dir.path());
    let compare = |device: &str| {
        good(&["compare", "--device", device, "--schemes", "baseline,waflash", "-w", "t.csv"], dir.path())
    };
    assert_eq!(compare("demo-page@1/4").matches("they share the device").count(), 1);
    assert!(!compare("modern-tlc@1/8").contains("they share the device"));
}

/// Under uniform writes nothing is better than greedy collection.
#[test]
fn a_verdict_says_worse_when_it_is_worse_and_nothing_of_drives_that_are_not_steady() {
    let dir = temp();
    let args = ["compare", "--device", "gc20@1/4", "-w", "gc20", "--untimed"];
    let of = |schemes: &str, until: &[&str]| {
        good(&[&args[..], &["--schemes", schemes], until].concat(), dir.path())
    };
    let steady = ["--until", "steady"];
    let said = of("page,page+victim=fifo", &steady);
    assert!(said.contains("gc20: page+victim=fifo is worse, 1.0"), "{said}");
    // Each went on until it was steady: what adds up does not compare.
    assert!(said.contains(" requests; multiples of page") && !said.contains("pages programmed"), "{said}");
    let said = of("page+victim=fifo,page", &steady);
    assert!(said.contains("gc20: page writes least flash, 0.9"), "{said}");
    let said = of("page,page+victim=fifo,page+victim=cost-benefit", &steady);
    assert!(said.contains("all are worse than page; page+victim=fifo comes nearest"), "{said}");
    let said = of("page,page+victim=fifo", &["--requests", "1000"]);
    assert!(said.contains("no verdict") && said.contains("not steady") && !said.contains("worse"), "{said}");

    let grid = "devices = ['gc20@1/4']\nschemes = ['page', 'page+victim=fifo']\nworkloads = ['gc20']\nuntimed = true\n";
    std::fs::write(dir.path().join("g.toml"), format!("{grid}requests = '1k'\n")).expect("written");
    let said = good(&["sweep", "g.toml"], dir.path());
    assert!(said.contains("no verdict, for 2 of 2 runs were not steady"), "{said}");
    std::fs::write(dir.path().join("s.toml"), format!("{grid}until = 'steady'\n")).expect("written");
    let said = good(&["sweep", "s.toml"], dir.path());
    assert_eq!(said.matches("    yes           -  gc20@1/4 | page").count(), 2, "{said}");
    assert!(!said.contains("no verdict"), "{said}");
}

#[test]
fn a_verdict_says_when_collection_copied_nothing() {
    let dir = temp();
    good(&["trace", "generate", "lun6", "--requests", "20k", "-o", "mine.csv"], dir.path());
    let args = ["compare", "--device", "demo-page@1/4", "--schemes", "baseline,across", "-w", "mine.csv"];
    let until = ["--replay", "closed", "--iodepth", "32", "--until", "steady", "--band", "0.05"];
    let of = |fill: &[&str]| good(&[&args[..], &until, fill].concat(), dir.path());
    let (alone, among) = (of(&[]), of(&["--fill", "80%"]));
    let nothing = "Collection copied nothing: on a drive that holds other data (--fill) it does";
    assert!(alone.contains("once steady") && alone.contains(nothing), "{alone}");
    assert!(among.contains("once steady") && !among.contains(nothing), "{among}");
    assert!(among.contains("of WAF, collection"), "{among}");
}

#[test]
fn bad_comparisons_are_refused_before_anything_runs() {
    let dir = temp();
    for (args, said) in [
        (&["--schemes", "page"][..], "two or more"),
        (&["--schemes", "page,,lru"], "two or more"),
        (&["--schemes", "page,mutli-version"], "--schemes mutli-version"),
        (&["--schemes", "page,multi-version", "-w", "nothing-such"], "nothing-such"),
        (&["--schemes", "page,multi-version", "-w", "-"], "pipe"),
        (&["--schemes", "page,multi-version", "--io-log"], "-o DIR"),
        (&["--schemes", "page,multi-version", "--scheme", "page"], "cannot be used with"),
        (&["--schemes", "page,multi-version", "--iodepth", "0"], "--iodepth 0: expected 1 to 65536"),
        (&["--schemes", "page,multi-version", "--age-with", "nosuch.csv"], "nosuch.csv: no such file"),
        (&["--schemes", "page,multi-version", "--age-with", "-"], "--age-with -: several runs cannot"),
        (&["--schemes", "page,multi-version", "--untimed", "--io-log", "-o", "out"], "without --untimed"),
        (&["--schemes", "page,multi-version", "--untimed", "--power-cut-at", "1ms", "-o", "out"], "random:N"),
        (&["--schemes", "page,multi-version", "--replay", "think", "--iodepth", "2"], "--replay closed"),
    ] {
        let message =
            bad(&[&["compare", "--device", "gc20", "--requests", "100"], args].concat(), 2, dir.path());
        assert!(message.contains(said), "{args:?}: {message}");
    }
    let until = ["--schemes", "page,multi-version", "--until", "steady", "--band", "7", "-o", "out"];
    let message = bad(&[&["compare", "--device", "gc20"], &until[..]].concat(), 2, dir.path());
    assert!(message.contains("--band 7"), "{message}");
    assert_eq!(std::fs::read_dir(dir.path()).expect("readable").count(), 0);
}

#[test]
fn bad_sweeps_are_refused_before_anything_runs() {
    let dir = temp();
    let write = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).expect("written");
    write("t.csv", "time_ns,op,offset,bytes\n0,write,0,4096\n");
    for (text, said) in [
        ("workloads = ['random-write', 'nosuch']", "nosuch"),
        ("workloads = ['random-write']\niodepth = 0", "--iodepth 0: expected 1 to 65536"),
        ("workloads = ['random-write']\nrequests = 9\nuntil = 'steady'", "without --requests"),
        ("workloads = ['t.csv']\ntime_scale = nan", "--time-scale NaN"),
        ("workloads = ['t.csv', 'random-write']\n[trace]\nvolume = '1'", "--volume is for trace files"),
        ("workloads = ['t.csv', '-']", "several runs cannot share a pipe"),
        ("workloads = ['t.csv']\n[overrides]\n'precondition.age_with' = '-'", "--age-with -: several runs"),
        ("workloads = ['t.csv']\nuntimed = true\nio_log = true", "without --untimed"),
    ] {
        write("g.toml", text);
        let message = bad(&["sweep", "g.toml"], 2, dir.path());
        assert!(message.contains(said) && message.contains("g.toml: "), "{text}: {message}");
        assert!(!dir.path().join("g.runs").exists(), "{text}");
    }
    write("g.toml", "devices = ['demo']\nworkload = ['x']\n");
    let message = bad(&["sweep", "g.toml"], 2, dir.path());
    assert!(message.contains("g.toml:2: "), "{message}");
}

#[test]
fn files_of_a_sweep_lie_beside_it_and_its_runs_are_its_own() {
    let dir = temp();
    let sub = dir.path().join("sub");
    std::fs::create_dir(&sub).expect("room");
    let trace = |rows: usize| {
        let row = |n: usize| format!("{n},write,{},4096\n", n * 4096);
        format!("time_ns,op,offset,bytes\n{}", (0..rows).map(row).collect::<String>())
    };
    std::fs::write(dir.path().join("t.csv"), trace(3)).expect("written");
    std::fs::write(sub.join("t.csv"), trace(5)).expect("written");
    std::fs::write(sub.join("a.csv"), trace(7)).expect("written");
    std::fs::write(sub.join("d.toml"), good(&["validate", "gc20"], dir.path())).expect("written");
    let grid =
        "devices = ['d.toml@1/4']\nworkloads = ['t.csv']\n[overrides]\n'precondition.age_with' = ['a.csv']\n";
    for (name, more) in [("v1.2.toml", ""), ("v1.3.toml", "seeds = [2]\n"), ("v1", "seeds = [3]\n")] {
        std::fs::write(sub.join(name), format!("{more}{grid}")).expect("written");
        good(&["sweep", &format!("sub/{name}")], dir.path());
    }
    for name in ["v1.2.runs", "v1.3.runs", "v1.runs"] {
        assert!(good(&["gather", &format!("sub/{name}")], dir.path()).contains(": 1 runs"), "{name}");
        let run = std::fs::read_dir(sub.join(name))
            .expect("there")
            .flatten()
            .map(|e| e.path().join("summary.json"));
        let run = run.filter(|path| path.is_file()).map(file).next().expect("a run");
        let summary: Value = serde_json::from_str(&run).expect("JSON");
        assert_eq!(summary["host"]["write"]["requests"], 5, "{name}");
        assert_eq!(summary["prepare"]["requests"], 7, "{name}");
    }
}

const GRID: &str = "
devices = ['gc20', 'small.toml']
schemes = ['page', 'multi-version']
workloads = ['random-write', 'trace.csv']
seeds = [1, 2]
requests = 4000
verify = true
[overrides]
'gc.victim' = ['greedy', 'fifo']
";

/// A directory with a grid, a device file and a trace.
fn laboratory() -> tempfile::TempDir {
    let dir = temp();
    std::fs::write(dir.path().join("grid.toml"), GRID).expect("written");
    let device = good(&["validate", "gc20", "--set", "op_ratio=0.4", "--set", "name=small"], dir.path());
    std::fs::write(dir.path().join("small.toml"), device).expect("written");
    good(&["trace", "generate", "mixed", "--requests", "3000", "-o", "trace.csv"], dir.path());
    dir
}

#[test]
fn a_sweep_comes_out_the_same_however_it_is_done() {
    let dir = laboratory();
    let gathered = |name: &str| {
        good(&["gather", name], dir.path());
        std::fs::read(dir.path().join(name).join("results.parquet")).expect("a table")
    };
    good(&["sweep", "grid.toml", "-o", "one", "-j", "1"], dir.path());
    let one = gathered("one");
    good(&["sweep", "grid.toml", "-o", "two", "-j", "2"], dir.path());
    assert!(gathered("two") == one, "two threads");
    for shard in ["4/4", "2/4", "1/4", "3/4"] {
        good(&["sweep", "grid.toml", "-o", "four", "--shard", shard], dir.path());
    }
    assert!(gathered("four") == one, "four shards, in another order");
    let table = good(&["gather", "one", "-o", "elsewhere.parquet"], dir.path());
    assert!(table.contains("32 runs"), "{table}");
    assert!(std::fs::read(dir.path().join("elsewhere.parquet")).expect("a table") == one);

    // A finished run is left alone, a missing one is done again.
    let runs: Vec<_> = std::fs::read_dir(dir.path().join("one"))
        .expect("readable")
        .flatten()
        .map(|e| e.path())
        .filter(|p| p.is_dir())
        .collect();
    assert_eq!(runs.len(), 32);
    // Interrupted: everything is there but the manifest, which is written last.
    std::fs::remove_file(runs[0].join("manifest.json")).expect("removed");
    std::fs::remove_dir_all(&runs[1]).expect("removed");
    let said = good(&["sweep", "grid.toml", "-o", "one"], dir.path());
    assert!(said.contains("2 done, 30 done before"), "{said}");
    assert!(gathered("one") == one, "after an interruption");

    let html = &["report", runs[2].to_str().expect("plain")];
    assert!(good(html, dir.path()).contains("report.html"));
    good(&["report", "one"], dir.path());
    assert_page(&file(dir.path().join("one/report.html")), &["Charts of the first"]);
}

#[test]
fn the_columns_of_a_table_are_the_keys_of_the_summary() {
    use parquet::file::reader::{FileReader, SerializedFileReader};
    let dir = laboratory();
    good(&["sweep", "grid.toml", "-o", "one", "--shard", "1/8"], dir.path());
    good(&["gather", "one"], dir.path());
    let table = std::fs::File::open(dir.path().join("one/results.parquet")).expect("a table");
    let reader = SerializedFileReader::new(table).expect("Parquet");
    let names: BTreeSet<String> = reader
        .metadata()
        .file_metadata()
        .schema_descr()
        .columns()
        .iter()
        .map(|c| c.path().string().replace('"', ""))
        .collect();
    let names: String = names.into_iter().collect::<Vec<_>>().join("\n");
    for key in
        ["run", "scheme", "waf", "waf_parts.gc", "host.write.lat_ns.mean", "config.gc.victim", "trace_sha256"]
    {
        assert!(names.lines().any(|name| name == key), "no {key} in\n{names}");
    }
    assert!(!names.lines().any(|name| name == "cpu_s"), "the machine's speed is no result");
    assert_eq!(reader.metadata().file_metadata().num_rows(), 4);
}

#[test]
fn failures_are_kept_and_tried_again_when_asked() {
    let dir = temp();
    let grid = "devices = ['gc20']\nschemes = ['page', 'multi-version']\nworkloads = ['random-write', 'broken.csv']\nrequests = 500\n";
    std::fs::write(dir.path().join("g.toml"), grid).expect("written");
    let broken = "time_ns,op,offset,bytes\n0,write,0,4096\n1,write,zero,4096\n";
    std::fs::write(dir.path().join("broken.csv"), broken).expect("written");
    let said = bad(&["sweep", "g.toml"], 1, dir.path());
    assert!(said.contains("2 runs failed") && said.contains("broken.csv:3"), "{said}");
    let failures: Vec<_> = std::fs::read_dir(dir.path().join("g.runs"))
        .expect("the default place")
        .flatten()
        .map(|e| e.path().join("failure.json"))
        .filter(|p| p.is_file())
        .collect();
    assert_eq!(failures.len(), 2);
    // What is kept is what is said, until it is tried again.
    for path in &failures {
        std::fs::write(path, file(path).replace("broken.csv:3", "an old error")).expect("written");
    }
    let said = bad(&["sweep", "g.toml"], 1, dir.path());
    assert!(said.contains("an old error") && !said.contains("broken.csv:3"), "{said}");
    assert!(bad(&["sweep", "g.toml", "--retry"], 1, dir.path()).contains("broken.csv:3"));
    let list = good(&["sweep", "g.toml", "--list"], dir.path());
    assert_eq!((list.matches("  done").count(), list.matches("failed: ").count()), (2, 2), "{list}");
    let gathered = good(&["gather", "g.runs"], dir.path());
    assert!(gathered.contains("2 runs") && gathered.matches("left out, failed").count() == 2, "{gathered}");
}

#[test]
#[cfg(unix)]
fn an_interrupted_sweep_goes_on_where_it_was() {
    let dir = temp();
    let grid = "devices = ['gc20']\nschemes = ['page']\nworkloads = ['random-write']\nseeds = [1, 2, 3, 4]\nrequests = 400000\n";
    std::fs::write(dir.path().join("g.toml"), grid).expect("written");
    let program = assert_cmd::cargo::cargo_bin("nandle");
    let mut child = std::process::Command::new(program)
        .args(["sweep", "g.toml", "-j", "1"])
        .current_dir(dir.path())
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("it runs");
    // As soon as the second run has started, the first is done.
    let started = || {
        let entries = std::fs::read_dir(dir.path().join("g.runs"));
        entries.map_or(0, |found| found.flatten().filter(|entry| entry.path().is_dir()).count())
    };
    for _ in 0..6000 {
        if started() >= 2 {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let pid = child.id().to_string();
    let killed = std::process::Command::new("kill").args(["-INT", &pid]).status().expect("kill");
    assert!(killed.success());
    let status = child.wait().expect("it ends");
    assert_eq!(status.code(), Some(1), "it says that it is not done");
    let page = || std::fs::read_to_string(dir.path().join("g.runs/report.html")).expect("a report");
    assert!(page().contains("(partial: "), "the report says that runs are missing");
    let said = good(&["sweep", "g.toml"], dir.path());
    let before: usize = said
        .split(" done, ")
        .nth(1)
        .and_then(|rest| rest.split(' ').next())
        .and_then(|n| n.parse().ok())
        .expect("a count");
    assert!((1..4).contains(&before), "{said}");
    assert!(!page().contains("(partial: "), "the report is whole");
    assert!(good(&["gather", "g.runs"], dir.path()).contains("4 runs"));
}

/// Starts nandle, sends it a Ctrl-C once `ready`, and returns its exit code and what it printed.
#[cfg(unix)]
fn interrupted(dir: &Path, args: &[&str], ready: impl Fn() -> bool) -> (Option<i32>, String) {
    use std::process::{Command, Stdio};
    let program = assert_cmd::cargo::cargo_bin("nandle");
    let mut child = Command::new(program)
        .args(args)
        .current_dir(dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("it runs");
    for _ in 0..6000 {
        if ready() || child.try_wait().expect("asked").is_some() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let sent = Command::new("kill").args(["-INT", &child.id().to_string()]).status().expect("kill");
    assert!(sent.success(), "it had ended before");
    let out = child.wait_with_output().expect("it ends");
    (out.status.code(), String::from_utf8_lossy(&out.stdout).into_owned())
}

#[test]
#[cfg(unix)]
fn an_interrupted_comparison_reports_what_is_done() {
    let dir = temp();
    let args = "compare --device gc20 --schemes page,multi-version,across,cost-benefit -w random-write --requests 400000 -j 1 -o out";
    let args: Vec<&str> = args.split(' ').collect();
    let directories = || {
        let entries = std::fs::read_dir(dir.path().join("out"));
        entries.map_or(0, |found| found.flatten().filter(|entry| entry.path().is_dir()).count())
    };
    let (code, _) = interrupted(dir.path(), &args, || directories() >= 2);
    assert_eq!(code, Some(1));
    let page = std::fs::read_to_string(dir.path().join("out/report.html")).expect("a report");
    assert!(page.contains("(partial: ") && page.contains(" of 4 runs)"));
}

#[test]
#[cfg(unix)]
fn an_interrupted_reproduction_reports_what_is_done() {
    let dir = temp();
    let args: Vec<&str> = "reproduce ablation -j 1 -o out".split(' ').collect();
    let started = std::time::Instant::now();
    // There is nothing to be seen of a run that has started: after a second one has.
    let (code, said) = interrupted(dir.path(), &args, || started.elapsed().as_secs() >= 2);
    assert_eq!(code, Some(1));
    assert!(said.contains("(partial)") && said.contains("Interrupted after"), "{said}");
    let file = |name: &str| std::fs::read_to_string(dir.path().join("out").join(name)).expect("a report");
    let json: serde_json::Value = serde_json::from_str(&file("reproduction.json")).expect("JSON");
    assert_eq!(json["partial"], true);
    assert!(json["notes"].to_string().contains("ablation-flashalloc"), "{}", json["notes"]);
    assert!(file("report.html").contains("(partial)") && file("reproduction.md").contains("(partial)"));
}

#[test]
fn bad_sweeps_name_what_is_wrong() {
    let dir = temp();
    for (grid, said) in [
        ("workloads = ['random-write']\nshemes = ['page']", "unknown field `shemes`"),
        ("devices = ['gc20']", "no workloads"),
        ("workloads = ['random-write']\nschemes = ['pgae']", "did you mean"),
        ("workloads = ['random-write']\ndevices = ['gone.toml']", "no such device file"),
        ("workloads = ['random-write'\n", "g.toml:"),
        ("workloads = ['random-write']\n[overrides]\n'op_ratio' = [0.0]", "op_ratio"),
    ] {
        std::fs::write(dir.path().join("g.toml"), grid).expect("written");
        let message = bad(&["sweep", "g.toml"], 2, dir.path());
        assert!(message.contains(said), "{grid}: {message}");
    }
    for (args, said) in [
        (&["sweep", "gone.toml"][..], "gone.toml"),
        (&["sweep", "g.toml", "--shard", "5/4"], "i from 1 to n"),
        (&["gather", "gone"], "gone"),
        (&["gather", "."], "no finished run"),
        (&["report", "."], "no finished run"),
        (&["report", "gone"], "gone"),
        (&["report", "--as", "ocp-c0", "."], "manifest.json"),
        (&["report", "--as", "smart", "."], "nvme-smart"),
    ] {
        let message = bad(args, 2, dir.path());
        assert!(message.contains(said), "{args:?}: {message}");
    }
}

#[test]
fn a_run_directory_is_whole_and_its_report_can_be_made_again() {
    let dir = temp();
    let args = [
        "run",
        "--device",
        "demo-page",
        "-w",
        "mixed",
        "--requests",
        "120000",
        "--set",
        "map_cache.bytes=256KiB",
        "-o",
        "r",
        "--io-log",
    ];
    good(&args, dir.path());
    for name in [
        "config.resolved.toml",
        "manifest.json",
        "summary.json",
        "timeseries.parquet",
        "latency/write.hlog",
        "latency/read.hlog",
        "io.parquet",
        "report.html",
    ] {
        assert!(dir.path().join("r").join(name).is_file(), "no {name}");
    }
    let html = file(dir.path().join("r/report.html"));
    assert_page(
        &html,
        &[
            "Each host byte cost",
            "Latency of reads",
            "WAF over time",
            "Flash operations by cause",
            "Page types",
            "How busy the chips were",
            "Valid pages per victim",
            "Mapping cache",
            "config.resolved.toml",
        ],
    );
    good(&["report", "r"], dir.path());
    assert_eq!(file(dir.path().join("r/report.html")), html);
    // The chart's data are the summary's figures.
    let summary = json(&file(dir.path().join("r/summary.json")));
    let erased = format!("{:.3}", summary["waf"].as_f64().expect("it wrote"));
    assert!(html.contains(&format!("WAF {erased}")), "{erased}");
    // Damage is named.
    std::fs::write(dir.path().join("r/timeseries.parquet"), b"PAR1 not").expect("written");
    assert!(bad(&["report", "r"], 2, dir.path()).contains("timeseries.parquet"));
    std::fs::write(dir.path().join("r/latency/read.hlog"), b"what\x00").expect("written");
    std::fs::write(dir.path().join("r/summary.json"), b"{}").expect("written");
    assert!(bad(&["report", "r"], 2, dir.path()).contains("summary.json"));
}

#[test]
fn streams_and_objects_have_their_chart() {
    let dir = temp();
    let small =
        ["--set", "geometry.channels=4", "--set", "geometry.chips_per_channel=1", "--requests", "20000"];
    let args = ["run", "--device", "flashalloc-cosmos", "--scheme", "flashalloc", "-w", "rocksdb", "-o", "r"];
    good(&[&args[..], &small].concat(), dir.path());
    assert_page(&file(dir.path().join("r/report.html")), &["WAF by stream", "objects"]);
}

#[test]
fn a_ledger_of_claims_becomes_a_page() {
    let dir = temp();
    let claims = r#"{ "schema_version": 1, "version": "0.1.0", "paper": "waflash", "title": "A paper", "quick": true, "seed": 1,
        "tables": [], "notes": [], "claims": [
        { "id": "x", "place": "Fig 1", "what": "WAF <of> it", "workload": "w", "paper": 2.0, "ours": 3.5, "rule": "value",
          "margin": 0.1, "kind": "prediction", "fitted": false, "verdict": "not-met", "why": "no" }] }"#;
    std::fs::write(dir.path().join("claims.json"), claims).expect("written");
    good(&["report", "claims.json"], dir.path());
    assert_page(&file(dir.path().join("claims.html")), &["not met", "WAF &lt;of&gt; it", "1.75x"]);
    std::fs::write(dir.path().join("none.json"), "{}").expect("written");
    assert!(bad(&["report", "none.json"], 2, dir.path()).contains("expected the JSON of a reproduction"));
}

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

#[test]
fn the_program_looks_after_its_users() {
    let dir = temp();
    let said = good(&["doctor"], dir.path());
    assert!(said.contains("sectors verified") && !said.contains("WRONG"), "{said}");
    for shell in ["bash", "zsh", "fish", "powershell", "elvish"] {
        assert!(good(&["completions", shell], dir.path()).contains("compare"), "{shell}");
    }
    std::fs::create_dir(dir.path().join("pages")).expect("room");
    std::fs::write(dir.path().join("pages/mine.txt"), "mine").expect("written");
    let said = good(&["man", "pages"], dir.path());
    let written = std::fs::read_dir(dir.path().join("pages")).expect("there").count() - 1;
    assert!(said.starts_with(&format!("{written} pages in pages")), "{said}");
    assert!(file(dir.path().join("pages/nandle-sweep.1")).contains("shard"));
}
