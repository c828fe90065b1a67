//! Goal: `nandle reproduce` gives every claim of every paper a verdict, the same with any number of
//! threads, and says what is wrong with bad input.
//! Method: the command on single claims at quick size, and whole those papers that take seconds; all papers whole when
//! `NANDLE_NIGHTLY` is set.
//! Expectations are the papers' directions, and only those that do come out.

use std::sync::OnceLock;
use std::sync::atomic::AtomicBool;

use assert_cmd::Command;
use nandle_lab::workload::Asked;
use nandle_studies::reproduce::ledger::Row;
use nandle_studies::reproduce::traces::{self, Real};
use nandle_studies::reproduce::{Kind, Options, Paper, Report, Verdict, across, run};

fn nandle() -> Command {
    let mut command = Command::cargo_bin("nandle").expect("the program");
    command.env_remove("NANDLE_TRACES").arg("reproduce");
    command
}

/// What the command says of claims of `paper`: what the published tables say.
fn report(paper: &str, arguments: &[&str]) -> (Report, String) {
    let run = nandle().args([paper, "--quick", "--json", "-"]).args(arguments).assert().success();
    let text = String::from_utf8(run.get_output().stdout.clone()).expect("text");
    let report: Report = serde_json::from_str(&text).expect("a report");
    let markdown = report.markdown();
    let published = published(paper);
    for line in
        markdown.lines().filter(|l| l.starts_with("| ") && report.claims.iter().any(|c| l.contains(&c.id)))
    {
        assert!(
            published.contains(line),
            "docs/reproduction/data/{paper} is stale: it lacks\n{line}\n{RENEW}"
        );
    }
    (report, text)
}

const RENEW: &str = "nandle reproduce NAME --quick -o docs/reproduction/data/NAME writes it anew";
const RENEW_FULL: &str = "nandle reproduce NAME -o docs/reproduction/data/full-size/NAME writes it anew";

/// The papers whose predictions are counted.
const COUNTED: [&str; 5] = ["waflash", "pc-lru-poster", "papa", "across", "flashalloc"];

/// A file of the documentation, or of the tables behind it.
fn page(path: &str) -> String {
    let file = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&file).unwrap_or_else(|e| panic!("{file}: {e}"))
}

/// The tables of `paper` at quick size that the documentation has.
fn published(paper: &str) -> String {
    page(&format!("docs/reproduction/data/{paper}/reproduction.md"))
}

/// All of `paper`, which is what the documentation has of it, to the last figure of its tables.
fn whole(paper: Paper, quick: bool) -> Report {
    let options = Options { quick, threads: 2, ..Options::default() };
    let report = run(paper, &options, &AtomicBool::new(false), &|_| {}).expect("it runs");
    let (folder, renew) = if quick { ("data", RENEW) } else { ("data/full-size", RENEW_FULL) };
    let folder = format!("docs/reproduction/{folder}/{}", paper.name());
    let (ours, published) = (report.markdown(), page(&format!("{folder}/reproduction.md")));
    let stale = ours.lines().zip(published.lines()).find(|(ours, published)| ours != published);
    assert!(ours == published, "{folder} is stale; {renew}\nfirst difference: {stale:?}");
    let ledger = serde_json::to_string_pretty(&report.ledger()).expect("plain data");
    assert!(
        ledger + "\n" == page(&format!("{folder}/ledger.json")),
        "{folder}/ledger.json is stale; {renew}"
    );
    report
}

/// WAFLASH at quick size, run once for all who look at it.
fn waflash() -> &'static Report {
    static REPORT: OnceLock<Report> = OnceLock::new();
    REPORT.get_or_init(|| whole(named("waflash"), true))
}

fn named(name: &str) -> Paper {
    Paper::all().find(|paper| paper.name() == name).expect("a paper of this name")
}

/// The figures of a claim whose description contains `what`.
fn ours(report: &Report, id: &str, what: &str) -> f64 {
    let claim = report.claims.iter().find(|c| c.id == id && c.what.contains(what));
    let claim = claim.unwrap_or_else(|| panic!("{id} {what}: {:?}", report.claims));
    claim.ours.unwrap_or_else(|| panic!("{id} {what} was not computed: {}", claim.why))
}

#[test]
fn threads_change_nothing() {
    let (one, first) = report("waflash", &["--claim", "waflash-openssd", "-j", "1"]);
    let (_, second) = report("waflash", &["--claim", "waflash-openssd", "-j", "3"]);
    assert_eq!(first, second);
    assert!(one.claims.iter().all(|c| c.id == "waflash-openssd"), "{:?}", one.claims);
    let ratio = ours(&one, "waflash-openssd", "latency");
    assert!((0.3..1.0).contains(&ratio), "WAFLASH is faster under random writes: {ratio}");
    assert!(one.tables.iter().all(|t| t.rows.iter().all(|r| r.len() == t.columns.len())));
}

#[test]
fn buffers_on_the_twins() {
    let id = "waflash-vs-mca";
    let (pc_lru, mca) = (ours(waflash(), id, "pc-lru"), ours(waflash(), id, "mca"));
    assert!(pc_lru < mca && mca < 1.0, "pc-lru {pc_lru}, mca {mca}, lru 1");
}

/// A counter of a real drive: the Micron's amplification of uniform writes over 50%, 70% and 80% of it, to which
/// nothing was fitted.
#[test]
fn the_micron_amplifies_as_its_counter_says() {
    let (report, _) = report("real-drives", &["--claim", "real-waf-uniform", "-j", "2"]);
    let predicted = report.claims.iter().filter(|c| c.place == "counter" && c.predicts());
    let figures: Vec<(f64, f64)> = predicted.map(|c| (c.paper, c.ours.expect("computed"))).collect();
    assert!(figures.len() >= 3, "{:?}", report.claims);
    for (theirs, ours) in figures {
        assert!((ours / theirs - 1.0).abs() < 0.05, "{ours} for {theirs}");
    }
}

/// Neither the die's times nor its controller were chosen by this figure: the first minute of random writes.
#[test]
fn the_micron_takes_random_writes_as_fast_as_measured() {
    let (report, _) = report("real-drives", &["--claim", "real-throughput", "-j", "2"]);
    let fresh = report.claims.iter().find(|c| c.what.contains("micron-7450-max") && c.what.contains("fresh"));
    let fresh = fresh.expect("the Micron's fresh throughput");
    let ours = fresh.ours.expect("computed");
    assert!((ours / fresh.paper - 1.0).abs() < 0.15, "{ours} for {}", fresh.paper);
}

#[test]
fn unaligned_writes_make_tails() {
    let table = waflash().tables.iter().find(|t| t.title.contains("to none")).expect("the table by rate");
    let ratios = table.rows.iter().map(|r| serde_json::to_value(&r[1]).expect("plain data"));
    // At every rate, with a buffer and without.
    assert!(ratios.into_iter().all(|r| r.as_f64().expect("a figure") > 1.5), "{table:?}");
}

#[test]
fn the_ledger_has_every_figure_with_its_kind() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = folder.path().to_str().expect("text");
    let (report, _) = report("waflash", &["--claim", "waflash-unaligned-8k", "-o", out]);
    let text = std::fs::read_to_string(folder.path().join("ledger.json")).expect("the ledger");
    let rows: Vec<Row> = serde_json::from_str(&text).expect("rows");
    assert_eq!(rows, report.ledger());
    // The shares that the twins are drawn from; nothing is predicted.
    assert!(rows.len() == 4 && rows.iter().all(|r| r.kind == Kind::Input && !r.fitted), "{rows:?}");
    assert_eq!(report.predictions(), (0, 0), "{}", report.tally());
    let raw: Vec<serde_json::Value> = serde_json::from_str(&text).expect("rows");
    assert_eq!(raw[0]["paper"], "waflash", "{text}");
    assert!(raw.iter().all(|r| r["kind"] == "input" && r["verdict"] == "met"), "{text}");
}

#[test]
fn aligned_traces_lose_nothing_under_across() {
    let beside = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folders = std::fs::read_dir(beside).into_iter().flatten().flatten().map(|e| e.path().join("traces"));
    let named = std::env::var_os("NANDLE_TRACES").map(std::path::PathBuf::from);
    let find = |real: &Real| named.iter().cloned().chain(folders).find_map(|folder| real.find(&folder));
    let Some(path) = find(&traces::IOZONE) else {
        eprintln!("skipped: {} is not there; NANDLE_TRACES names a folder with it", traces::IOZONE.file);
        return;
    };
    let asked = Asked {
        workload: path.to_string_lossy().into_owned(),
        seed: 1,
        requests: Some(2_000),
        ..Asked::default()
    };
    let [page, across] = ["page", "across"].map(|mapping| {
        let drive = across::device(mapping, 8192, true, 1).expect("a preset");
        across::run(&asked, &drive).expect("it runs")
    });
    assert!(page.writes.iter().sum::<u64>() == 2_000 && page.requests[1] < 50, "{page:?}");
    let ratio = across.io_s() / page.io_s();
    assert!((0.98..1.01).contains(&ratio), "{ratio}");
}

#[test]
fn bad_input_is_one_clear_error() {
    for (arguments, expected) in [
        (["nonsense", "--quick"].as_slice(), "nonsense: no paper of that name; expected one of waflash"),
        (
            &["papa", "--claim", "papa-x"],
            "--claim papa-x: papa makes no claim of that name; expected one of papa-",
        ),
        (&["across", "--quick", "--traces", "/nowhere"], "/nowhere: no such folder"),
    ] {
        let run = nandle().args(arguments).assert().code(2);
        let said = String::from_utf8_lossy(&run.get_output().stderr).into_owned();
        assert!(said.contains(expected) && said.trim().lines().count() == 1, "{said}");
    }
    let list = nandle().assert().success();
    let said = String::from_utf8_lossy(&list.get_output().stdout).into_owned();
    assert_eq!(Paper::all().count(), 7);
    for paper in Paper::all() {
        assert!(said.contains(paper.name()) && paper.claims().iter().all(|c| said.contains(c)), "{said}");
    }
}

/// The others take minutes: at night.
#[test]
fn papers_that_take_seconds_are_as_published() {
    waflash();
    whole(named("pc-lru-poster"), true);
}

/// Fig 9b, and what is behind it: the published table of six twins under three mappings, to the last figure.
#[test]
fn realigned_writes_are_faster() {
    let (report, _) = report("across", &["--claim", "across-write-latency", "-j", "2"]);
    let ratio = ours(&report, "across-write-latency", "to page");
    assert!((ratio / 0.911 - 1.0).abs() < 0.1, "{ratio}");
    let published = published("across");
    let ours = report.markdown();
    let table = ours.lines().filter(|line| line.starts_with("| lun"));
    let stale: Vec<&str> = table.clone().filter(|line| !published.contains(line)).collect();
    assert!(
        table.count() == 18 && stale.is_empty(),
        "docs/reproduction/data/across lacks {stale:?}\n{RENEW}"
    );
}

#[test]
fn every_claim_gets_a_verdict() {
    if std::env::var_os("NANDLE_NIGHTLY").is_none() {
        eprintln!("skipped: minutes; NANDLE_NIGHTLY=1 runs all papers at quick size");
        return;
    }
    for paper in Paper::all() {
        let report = whole(paper, true);
        for id in paper.claims() {
            let of = || report.claims.iter().filter(|c| c.id == *id);
            assert!(of().count() > 0, "{id}");
            let silent = of().find(|c| c.verdict != Verdict::Met && c.why.is_empty());
            assert_eq!(silent, None, "a claim that is not met says why");
        }
        assert!(report.claims.iter().any(|c| c.verdict == Verdict::Met), "{}", paper.name());
    }
}

#[test]
fn full_sizes_are_as_published() {
    if std::env::var_os("NANDLE_NIGHTLY").is_none() {
        eprintln!("skipped: half an hour; NANDLE_NIGHTLY=1 runs papers and real drives at full size");
        return;
    }
    for paper in Paper::all().filter(|paper| paper.name() != "ablation") {
        whole(paper, false);
    }
}

#[test]
fn the_pages_count_what_the_ledgers_have() {
    let (pages, mut all) = (page("docs/reproduction/README.md"), [(0, 0); 2]);
    for paper in COUNTED {
        let row = pages.lines().find(|line| line.contains(&format!("({paper}.md) |"))).expect("a row");
        for (size, (folder, all)) in ["data", "data/full-size"].into_iter().zip(&mut all).enumerate() {
            let ledger = page(&format!("docs/reproduction/{folder}/{paper}/ledger.json"));
            let rows: Vec<serde_json::Value> = serde_json::from_str(&ledger).expect("a ledger");
            let predictions = || rows.iter().filter(|r| r["kind"] == "prediction" && r["fitted"] == false);
            let (met, of) = (predictions().filter(|r| r["verdict"] == "met").count(), predictions().count());
            *all = (all.0 + met, all.1 + of);
            let said = row.split('|').nth(2 + size).expect("a cell").trim();
            assert_eq!(said, format!("{met} of {of}"), "{folder}/{paper}\n{row}");
        }
    }
    let [(met, of), (full, of_full)] = all;
    assert!(pages.contains(&format!("| all | {met} of {of} | {full} of {of_full} |")), "{all:?}");
    let readme = page("README.md");
    assert!(
        readme.contains(&format!("of {of} figures")) && readme.contains(&format!("{met} are met")),
        "{met} of {of}"
    );
}
