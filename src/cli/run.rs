//! `nandle run`: one simulation, and what it shows in the end.

use std::path::Path;

use args::OutputFormat;
use nandle_lab::config::whole;
use nandle_lab::output;
use nandle_lab::run::{Outcome, Run};

use super::args;
use super::terminal::{Failure, json_text, put, say, show, stop_on_interrupt};
use crate::progress::Bar;
use crate::table;

/// `nandle run`
pub fn run(args: Box<args::Run>) -> Result<(), Failure> {
    let drive = args.issue.clocked(args.device.load()?);
    if let Some(path) = &args.json {
        let inputs = [args.workload.as_str(), whole(args.device.name())]
            .into_iter()
            .chain(args.device.age_with.as_deref());
        output::file(path, inputs.map(Path::new))?;
    }
    let job = Run {
        drive,
        asked: args.issue.asked(&args.workload),
        seed: args.issue.seed,
        verify: args.issue.verify,
        power_cuts: args.issue.power_cut_at.clone(),
        output: args.output.clone(),
        io_log: args.issue.io_log,
        explain: args.explain,
    };
    let stop = stop_on_interrupt();
    let mut bar = Bar::new();
    let outcome = job.go(stop, &mut |progress| bar.update(progress));
    bar.finish();
    let outcome = outcome?;
    report(&args, &outcome)?;
    if let Some(e) = outcome.unwritten {
        return Err(e.into());
    }
    verdict(&outcome, args.issue.settling.until.is_some())
}

fn report(args: &args::Run, outcome: &Outcome) -> Result<(), Failure> {
    let mut unwritten = Ok(());
    if let Some(path) = &args.json {
        unwritten = put(path, &outcome.summary);
        if path.as_os_str() == "-" {
            return unwritten;
        }
    }
    match args.output_format {
        OutputFormat::Table => {}
        OutputFormat::FioJson => {
            let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
            let tree = nandle_lab::logs::fio(outcome, now.map_or(0, |since| since.as_secs()));
            say(&json_text(&tree))?;
            return unwritten;
        }
    }
    let mut text = outcome.explained.clone();
    if !text.is_empty() {
        text.push('\n');
    }
    text += &table::summary(&outcome.summary);
    let wrote = [outcome.unwritten.is_none(), unwritten.is_ok()];
    for ((what, path), wrote) in
        [("run directory", &args.output), ("summary", &args.json)].into_iter().zip(wrote)
    {
        if let Some(path) = path.as_ref().filter(|_| wrote) {
            text += &format!("{what}: {}\n", path.display());
        }
    }
    show(&text)?;
    unwritten
}

fn verdict(outcome: &Outcome, asked_until: bool) -> Result<(), Failure> {
    if let Some(mut what) = outcome.summary.failure() {
        outcome.complaints.iter().for_each(|complaint| what += &format!("\n  {complaint}"));
        return Err(Failure::Ran(what));
    }
    if !outcome.summary.complete {
        return Err(Failure::Ran("interrupted: the report covers what was simulated so far".into()));
    }
    if asked_until && !outcome.summary.steady.reached {
        return Err(Failure::Ran(format!(
            "not steady: {} ({:.2} drive writes)",
            outcome.summary.steady_state_reason, outcome.summary.drive_writes
        )));
    }
    Ok(())
}
