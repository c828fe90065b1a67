//! `nandle cost`: what a recorded program costs an aged drive, and what would help.

use nandle_cost::cost::{Answer, Cost, Question};
use nandle_lab::output;
use nandle_lab::units::{bytes, count, time};
use std::fmt::Write;
use std::path::PathBuf;

use super::args::workers;
use super::terminal::{Failure, put, say, stop_on_interrupt};
use super::watched;
use crate::progress::Runs;

/// `nandle cost`
pub fn cost(args: &watched::Cost) -> Result<(), Failure> {
    let jobs = args.jobs.map_or_else(workers, usize::from);
    let stop = stop_on_interrupt();
    if let Some(path) = &args.json {
        output::file(path, args.traces.iter().map(PathBuf::as_path))?;
    }
    let many = args.traces.len() > 1;
    let output = |number: usize| {
        let dir = args.output.as_ref()?;
        Some(if many { dir.join((number + 1).to_string()) } else { dir.clone() })
    };
    // What cannot be had is said before anything runs; a pipe can be opened only once.
    for (number, trace) in args.traces.iter().enumerate() {
        output(number).map_or(Ok(()), |dir| output::directory(&dir))?;
        if trace.as_os_str() != "-" && (trace.is_file() || !trace.exists()) {
            nandle_trace::open(trace, &nandle_trace::Options::default())?;
        }
    }
    let mut answers = Vec::new();
    for (number, trace) in args.traces.iter().enumerate() {
        let question = Question {
            device: args.device.clone(),
            sets: args.sets.clone(),
            share: args.share,
            drive_writes: args.drive_writes,
            until: args.settling.until(),
            whole: args.whole,
            helps: !many,
            jobs,
            seed: args.seed,
            output: output(number),
        };
        let watch = std::sync::OnceLock::new();
        let answer = question.answer(trace, stop, &|jobs, event| {
            watch.get_or_init(|| Runs::new(jobs.len())).event(jobs, event);
        });
        if let Some(watch) = watch.get() {
            watch.finish();
        }
        answers.push(answer?);
    }
    let mut unwritten = Ok(());
    if let Some(path) = &args.json {
        unwritten = match answers.as_slice() {
            [answer] => put(path, answer),
            many => put(path, &many),
        };
        if path.as_os_str() == "-" {
            return unwritten;
        }
    }
    say(&if let [answer] = answers.as_slice() { one(answer) } else { several(&answers) })?;
    unwritten
}

fn years(cost: &Cost) -> String {
    match cost.lifetime_years {
        None => "-".into(),
        Some(years) if years > 1000.0 => "over 1,000".into(),
        Some(years) => format!("{years:.1}"),
    }
}

fn fsync(cost: &Cost, which: &str) -> String {
    cost.fsync_lat_ns.get(which).map_or_else(|| "-".into(), |&ns| time(ns))
}

const HEADS: &str = "  WAF   flash B/B   fsync p50    fsync p99    runs/h  years";

fn row(cost: &Cost) -> String {
    format!(
        "{:>5.2} {:>11.2} {:>11} {:>12} {:>9} {:>6}",
        cost.waf,
        cost.flash_bytes_per_logical_byte,
        fsync(cost, "p50"),
        fsync(cost, "p99"),
        count(cost.runs_per_hour.round() as u64),
        years(cost)
    )
}

fn one(answer: &Answer) -> String {
    let mut text = format!(
        "{} on {}, {}: simulated on {}, of which {} databases at work fill {:.0}%, cold data the rest\n",
        answer.trace,
        answer.device,
        bytes(answer.device_bytes),
        bytes(answer.simulated_bytes),
        count(answer.copies),
        answer.share * 100.0,
    );
    let _ = writeln!(
        text,
        "recorded  {} by the program, {} by the file system, {} flushes in {}",
        bytes(answer.logical_bytes),
        bytes(answer.block_bytes),
        count(answer.flushes),
        time(answer.duration_ns as f64)
    );
    for (kind, of) in &answer.kinds {
        let factor = |factor: Option<f64>| factor.map_or_else(|| "-".into(), |factor| format!("{factor:.2}"));
        let _ = writeln!(
            text,
            "  {kind:<10} {:>10} -> {:>10}  x{:<6} WAF apart {}",
            bytes(of.bytes.logical_bytes),
            bytes(of.bytes.block_bytes),
            factor(of.file_system_factor),
            factor(of.waf_apart)
        );
    }
    let _ = writeln!(text, "\n{:<18} {HEADS}   gain", "");
    let _ = writeln!(text, "{:<18} {}", "as it is", row(&answer.cost));
    for help in &answer.helps {
        match (&help.cost, help.gain) {
            (Some(cost), Some(gain)) => {
                let _ = writeln!(text, "{:<18} {} {:>5.1}%", help.name, row(cost), gain * 100.0);
            }
            _ => {
                let why = help.refused.as_deref().unwrap_or("interrupted");
                let _ = writeln!(text, "{:<18} cannot be had: {why}", help.name);
            }
        }
    }
    let parts: Vec<String> = (answer.cost.waf_parts.iter())
        .filter(|(_, part)| **part >= 0.005)
        .map(|(name, part)| format!("{name} {part:.2}"))
        .collect();
    let steady = if answer.cost.steady { "steady" } else { "NOT steady" };
    let _ = writeln!(
        text,
        "\nWAF as it is: {}; {steady} after {:.1} drive writes",
        parts.join(", "),
        answer.cost.drive_writes
    );
    if let Some(report) = &answer.report {
        let _ = writeln!(text, "report: {report}");
    }
    text
}

fn several(answers: &[Answer]) -> String {
    let wide = answers.iter().map(|answer| answer.trace.len()).max().unwrap_or(0);
    let mut text = format!("{:<wide$} {:>10} {:>10} {HEADS}\n", "", "program", "drive");
    for answer in answers {
        let _ = writeln!(
            text,
            "{:<wide$} {:>10} {:>10} {}",
            answer.trace,
            bytes(answer.logical_bytes),
            bytes(answer.block_bytes),
            row(&answer.cost)
        );
    }
    text
}
