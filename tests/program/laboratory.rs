//! Goal: comparisons, sweeps and reports do what docs/laboratory.md says, from the command line.
//! Method: the real program in temporary directories; results against each other, and against the run that the same
//! command makes alone.

use std::collections::BTreeSet;
use std::path::Path;

use serde_json::Value;

use crate::command::{bad, file, good, json, temp};

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
