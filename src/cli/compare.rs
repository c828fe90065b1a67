//! `nandle compare`: several schemes on the same requests, side by side.

use std::collections::BTreeSet;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use nandle_lab::Error;
use nandle_lab::batch::{How, Job, Labels, State, check, id_of, work};
use nandle_lab::config::{split_outside_brackets, whole};
use nandle_lab::measure::metrics::METRICS;
use nandle_lab::measure::summary::Summary;
use nandle_lab::output::{self, Order};
use nandle_lab::report;
use nandle_lab::run::Run;
use nandle_lab::workload::Traces;
use serde_json::json;

use super::args;
use super::terminal::{self, Failure, put, stop_on_interrupt};
use crate::progress::Runs;
use crate::table;

/// `nandle compare`
pub fn compare(args: Box<args::Compare>) -> Result<(), Failure> {
    let schemes = split_outside_brackets(&args.schemes, ',');
    if schemes.len() < 2 || schemes.iter().any(|s| s.is_empty()) {
        return Err(Failure::Input(format!(
            "--schemes {}: expected two or more, separated by commas, such as baseline,waflash",
            args.schemes
        )));
    }
    let jobs = jobs(&args, &schemes)?;
    if let Some(path) = &args.json {
        let device = whole(args.device.name());
        let inputs =
            args.workload.iter().map(String::as_str).chain([device]).chain(args.device.age_with.as_deref());
        output::file(path, inputs.map(Path::new))?;
    }
    if let Some(dir) = &args.output {
        output::directory(dir)?;
    }
    let stop = stop_on_interrupt();
    let watch = Runs::new(jobs.len());
    let how = How { workers: args.jobs, retry: true };
    let states = work(&jobs, how, stop, &|event| watch.event(&jobs, event))?;
    watch.finish();
    let done: Vec<(&Job, &State)> = jobs.iter().zip(&states).filter(|(_, s)| s.summary().is_some()).collect();
    let report = match &args.output {
        Some(dir) if !done.is_empty() => Some(write(dir, &done, jobs.len())),
        _ => None,
    };
    show(&args, &done, report.as_ref().and_then(|report| report.as_deref().ok()))?;
    report.transpose()?;
    let failed: Vec<String> = jobs
        .iter()
        .zip(&states)
        .filter_map(|(job, state)| match state {
            State::Failed(error) => Some(format!("{}: {error}", job.labels)),
            _ => None,
        })
        .collect();
    if !failed.is_empty() {
        return Err(Failure::Ran(failed.join("\n")));
    }
    if done.len() < jobs.len() {
        return Err(Failure::Ran(format!("interrupted: {} of {} runs were done", done.len(), jobs.len())));
    }
    all_steady(done.iter().map(|(job, state)| (*job, *state)))
}

/// Whether all runs that were to go on until they are steady are.
pub(super) fn all_steady<'a>(runs: impl Iterator<Item = (&'a Job, &'a State)>) -> Result<(), Failure> {
    let moving: Vec<String> = runs
        .filter(|(job, _)| job.run.asked.until.is_some())
        .filter_map(|(job, state)| Some((job, state.summary().filter(|s| !s.steady.reached)?)))
        .map(|(job, summary)| format!("{}: {}", job.labels, summary.steady_state_reason))
        .collect();
    if moving.is_empty() {
        return Ok(());
    }
    let runs = if moving.len() == 1 { "1 run is".into() } else { format!("{} runs are", moving.len()) };
    Err(Failure::Ran(format!("{runs} not steady\n  {}", moving.join("\n  "))))
}

fn jobs(args: &args::Compare, schemes: &[&str]) -> Result<Vec<Job>, Failure> {
    let traces = Traces::default();
    let mut jobs: Vec<Job> = Vec::new();
    for workload in &args.workload {
        for &scheme in schemes {
            let drive = args.device.load_as(Some(scheme)).map_err(|e| match e {
                Error::Input(what) => Error::Input(
                    what.replace("--scheme ", "--schemes ")
                        .replace("with this scheme", &format!("with the scheme {scheme}")),
                ),
                other => other,
            })?;
            let drive = args.issue.clocked(drive);
            let asked = args.issue.asked(workload);
            let (seed, verify, io_log) = (args.issue.seed, args.issue.verify, args.issue.io_log);
            let power_cuts = args.issue.power_cut_at.clone();
            let output = args.output.clone();
            let mut run = Run { drive, asked, seed, verify, power_cuts, output, io_log, explain: 0 };
            // What cannot be had is said before anything runs.
            check(&run)?;
            let id = id_of(&run, &traces)?;
            run.output =
                run.output.map(|dir| dir.join(format!("{}-{}-{id}", plain(workload), plain(scheme))));
            let labels = Labels {
                device: args.device.name().to_owned(),
                scheme: scheme.to_owned(),
                workload: workload.clone(),
                seed,
                overrides: args.device.sets.clone(),
            };
            if !jobs.iter().any(|job| job.id == id) {
                jobs.push(Job { id, labels, run });
            }
        }
    }
    Ok(jobs)
}

/// The end of a path, with letters that are safe in names of directories.
fn plain(name: &str) -> String {
    let end =
        Path::new(name).file_name().map_or_else(|| name.to_owned(), |n| n.to_string_lossy().into_owned());
    let kept: String =
        end.chars().map(|c| if c.is_ascii_alphanumeric() || "._".contains(c) { c } else { '-' }).collect();
    kept.trim_matches('-').to_owned()
}

/// What is to be known of the runs of a group: once, and of whom if it is not of all.
fn notes(members: &[(&str, &Summary)]) -> String {
    let mut text = String::new();
    let mut said = BTreeSet::new();
    for note in members.iter().flat_map(|(_, summary)| &summary.notes).filter(|&note| said.insert(note)) {
        let of: Vec<&str> =
            members.iter().filter(|(_, s)| s.notes.contains(note)).map(|&(name, _)| name).collect();
        let whose = if of.len() == members.len() { String::new() } else { format!("{}: ", of.join(", ")) };
        let _ = writeln!(text, "note: {whose}{note}");
    }
    text
}

/// The joint report, and which runs it is of.
fn write(dir: &Path, done: &[(&Job, &State)], wanted: usize) -> Result<PathBuf, Failure> {
    let dirs: Vec<PathBuf> = done.iter().filter_map(|(job, _)| job.run.output.clone()).collect();
    let title = "Comparison of schemes";
    Order::of(title, &dirs).write(dir)?;
    let title = super::report::marked(title, dirs.len(), wanted);
    Ok(report::write_runs(&title, &dirs, &dir.join("report.html"))?)
}

fn show(args: &args::Compare, done: &[(&Job, &State)], report: Option<&Path>) -> Result<(), Failure> {
    let summaries: Vec<_> = done.iter().filter_map(|(_, state)| state.summary()).collect();
    // As their files are called, and by their paths where two are called alike.
    let named = |n: usize| {
        let (name, path) = (summaries[n].workload.as_str(), done[n].0.labels.workload.as_str());
        let is_other = |m: usize| summaries[m].workload == name && done[m].0.labels.workload != path;
        if (0..done.len()).any(is_other) { path } else { name }
    };
    let names: Vec<&str> = (0..done.len()).map(named).collect();
    let groups = report::grouped(names.iter().copied().zip(summaries.iter().copied()));
    let mut unwritten = Ok(());
    if let Some(path) = &args.json {
        let mut list = Vec::new();
        for group in &groups {
            let first = summaries[group[0]];
            for &n in group {
                let ratios: serde_json::Map<String, serde_json::Value> = METRICS
                    .iter()
                    .map(|m| {
                        let pair = (m.of)(summaries[n]).zip((m.of)(first).filter(|&b| b != 0.0));
                        (m.key.to_owned(), json!(pair.map(|(v, b)| v / b)))
                    })
                    .collect();
                list.push(json!({
                    "labels": done[n].0.labels, "run": done[n].0.id, "baseline": first.scheme,
                    "ratios": ratios, "summary": summaries[n],
                }));
            }
        }
        unwritten = put(path, &list);
        if path.as_os_str() == "-" {
            return unwritten;
        }
    }
    let mut text = String::new();
    for group in &groups {
        let members: Vec<_> =
            group.iter().map(|&n| (done[n].0.labels.scheme.as_str(), summaries[n])).collect();
        let workload = names[group[0]];
        text += &table::comparison(workload, &members);
        text += &notes(&members);
        if let Some(verdict) = report::best(workload, &members) {
            let _ = writeln!(text, "{verdict}\n");
        }
    }
    if let Some(report) = report {
        let _ = writeln!(text, "report: {}", report.display());
    }
    terminal::show(&text)?;
    unwritten
}
