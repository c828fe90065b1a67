//! `nandle reproduce`: a paper's evaluation repeated, with its progress and its files.

use std::io::IsTerminal;
use std::path::Path;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use nandle_lab::output;
use nandle_studies::reproduce::{self, Options, Paper, Report, Step, render};
use serde_json::json;

use super::args;
use super::terminal::{Failure, put, remark, say, stop_on_interrupt};

/// What a report is written as, beside the page.
const JSON: &str = "reproduction.json";
const MARKDOWN: &str = "reproduction.md";
const LEDGER: &str = "ledger.json";
/// How often a log is told what was done, where there is no terminal to draw on.
const EVERY: Duration = Duration::from_secs(30);

/// `nandle reproduce`
pub fn reproduce(args: args::Reproduce) -> Result<(), Failure> {
    let Some(name) = &args.paper else { return papers(args.json.as_deref()) };
    let paper = Paper::named(name)?;
    if let Some(path) = &args.json {
        output::file(path, [])?;
    }
    if let Some(folder) = &args.output {
        output::directory(folder)?;
        let there = [JSON, MARKDOWN, LEDGER, output::REPORT].map(|name| folder.join(name));
        for path in there.iter().filter(|path| path.exists()) {
            output::file(path, [])?;
        }
    }
    let options = Options {
        quick: args.quick,
        claim: args.claim.clone(),
        threads: args.threads.unwrap_or_else(args::workers),
        seed: args.seed,
        traces: args.traces.clone(),
    };
    let bar = crate::progress::bar(0, "[{bar:32}] {pos}/{len} runs, {elapsed} {msg}");
    let told = Mutex::new(Instant::now());
    let progress = |step: &Step<'_>| {
        bar.set_length(step.total as u64);
        bar.set_position(step.done as u64);
        bar.set_message(step.name.to_owned());
        let mut told = told.lock().expect("no thread panicked");
        if !std::io::stderr().is_terminal() && told.elapsed() >= EVERY {
            *told = Instant::now();
            remark(&format!("{} of {} runs: {}", step.done, step.total, step.name));
        }
    };
    let report = reproduce::run(paper, &options, stop_on_interrupt(), &progress);
    bar.finish_and_clear();
    let report = report?;
    write(&report, &args)?;
    if report.partial {
        return Err(Failure::Ran("interrupted: the report is partial".into()));
    }
    Ok(())
}

/// The report is shown whether its files can be written or not: it may have taken hours.
fn write(report: &Report, args: &args::Reproduce) -> Result<(), Failure> {
    let mut text = report.text(args.tables);
    let mut written = args.output.as_deref().map_or(Ok(()), |folder| save(report, folder));
    if let (Some(folder), Ok(())) = (&args.output, &written) {
        text += &format!("report: {}\n", folder.join(MARKDOWN).display());
    }
    if let Some(path) = &args.json {
        written = written.and(put(path, report));
        if path.as_os_str() == "-" {
            return written;
        }
    }
    say(&text).and(written)
}

fn save(report: &Report, folder: &Path) -> Result<(), Failure> {
    let text = |name: &str, text: &str| {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|e| Failure::Ran(format!("{}: {e}", path.display())))
    };
    std::fs::create_dir_all(folder).map_err(|e| Failure::Ran(format!("{}: {e}", folder.display())))?;
    put(&folder.join(JSON), report)?;
    text(MARKDOWN, &report.markdown())?;
    put(&folder.join(LEDGER), &report.ledger())?;
    text(output::REPORT, &render(report))
}

/// What can be reproduced.
fn papers(json: Option<&Path>) -> Result<(), Failure> {
    if let Some(path) = json {
        let list: Vec<_> = Paper::all()
            .map(|paper| json!({ "name": paper.name(), "title": paper.title(), "claims": paper.claims() }))
            .collect();
        return put(path, &list);
    }
    let mut text = String::new();
    for paper in Paper::all() {
        text += &format!("{:<14} {}\n", paper.name(), paper.title());
        for claim in paper.claims() {
            text += &format!("  {claim}\n");
        }
    }
    say(&(text
        + "\nUse one with `nandle reproduce PAPER`, one claim alone with --claim ID; --quick takes seconds.\n"))
}
