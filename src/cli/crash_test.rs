//! `nandle crash-test`: a program, what a power cut may leave of its files, and the program's own check.

use std::path::Path;
use std::time::Duration;

use nandle_crash::again::Saved;
use nandle_crash::campaign::{Campaign, Failed, Outcome, means, output_of};
use nandle_crash::check::{Bench, Check, Verdict};
use nandle_crash::model;
use nandle_crash::shrink::smallest;
use nandle_crash::story::{Failure as Told, Names, tell};
use nandle_lab::output;
use nandle_lab::units::count;
use nandle_observe::Task;
use serde::Serialize;

use super::args::workers;
use super::terminal::{Failure, put, remark, say, stop_on_interrupt};
use super::watched::{CrashTest, FileSystem, Lie, files_of};
use crate::progress::bar;

impl From<nandle_crash::Error> for Failure {
    fn from(e: nandle_crash::Error) -> Self {
        Self::Input(e.to_string())
    }
}

/// What `--json` writes.
#[derive(Debug, Serialize)]
struct Report {
    schema_version: u32,
    complete: bool,
    states: u64,
    failed: u64,
    exhaustive: bool,
    moments: usize,
    changes: usize,
    flushes: usize,
    lie: Option<String>,
    seed: u64,
    watched_by: &'static str,
    checks_ns: u64,
    states_per_s: f64,
    first_failure: Option<Told>,
}

/// `nandle crash-test`
pub fn crash_test(args: &CrashTest) -> Result<(), Failure> {
    if let Some(path) = &args.again {
        return again(path, args);
    }
    if let Some(path) = &args.json {
        output::file(path, [])?;
    }
    let campaign = campaign(args)?;
    output::file(&args.save, []).map_err(|e| Failure::Input(format!("--save {e}")))?;
    let stop = stop_on_interrupt();
    let bar = bar(campaign.states, "[{bar:32}] {human_pos}/{human_len} states, {eta} left{msg}");
    let done = campaign.go(stop, &|checked, _| bar.set_position(checked));
    bar.finish_and_clear();
    let outcome = done?;
    let (mut told, mut kept) = (None, Ok(()));
    if let Some(first) = &outcome.first {
        let (mut story, saved) = explain(&campaign, &outcome, first)?;
        // What was found is told, whether it can be kept or not.
        kept = saved.write(&args.save);
        story.again = kept.is_ok().then(|| args.save.display().to_string());
        told = Some(story);
    }
    let report = report(&campaign, &outcome, told);
    let failed = report.failed;
    if args.json.as_deref() != Some(Path::new("-")) {
        say(&words(&report))?;
    }
    if let Some(path) = &args.json {
        put(path, &report)?;
    }
    for line in remarks(&report, &campaign) {
        remark(&format!("nandle: {line}"));
    }
    let unkept = kept.err().map_or_else(String::new, |e| format!("; --save {e}"));
    match failed {
        0 => Ok(()),
        n => {
            let (n, of) = (count(n), count(report.states));
            Err(Failure::Ran(format!("{n} of {of} states failed the check{unkept}")))
        }
    }
}

fn campaign(args: &CrashTest) -> Result<Campaign, Failure> {
    if let Some(disk) = args.mount.as_ref().filter(|disk| args.check_stays && disk.is_in_guest()) {
        return Err(Failure::Input(format!(
            "--check-stays: {} is mounted in a kernel that ends with each check; expected a check that is run for each state",
            disk.kind
        )));
    }
    let files = files_of(args.dir.as_ref())?;
    let tree = match &args.mount {
        Some(disk) => disk.make(&files).map_err(nandle_crash::Error::from)?,
        None => files,
    };
    let task = Task {
        command: vec![args.run.clone().unwrap_or_default()],
        tree,
        means: args.watch.into(),
        disk: args.mount.clone(),
        places: None,
        reads: false,
        echo: false,
    };
    Ok(Campaign {
        task,
        check: Check {
            command: args.check.clone().unwrap_or_default(),
            stays: args.check_stays,
            patience: Duration::from_secs(args.patience),
            disk: args.mount.clone(),
        },
        states: args.states,
        fs: match args.fs {
            FileSystem::Posix => model::FileSystem::Posix,
            FileSystem::Ext4 => model::FileSystem::Ext4,
        },
        lie: args.lie.map(|lie| match lie {
            Lie::IgnoreFlush => model::Lie::IgnoreFlush,
            Lie::IgnoreFua => model::Lie::IgnoreFua,
            Lie::Tear => model::Lie::Tear,
            Lie::ReorderAcrossFlush => model::Lie::ReorderAcrossFlush,
        }),
        atomic: args.atomic.unwrap_or(0),
        seed: args.seed,
        jobs: args.jobs.map_or_else(workers, usize::from),
    })
}

/// The first failure made small and told, and what is kept of it.
fn explain(campaign: &Campaign, outcome: &Outcome, first: &Failed) -> Result<(Told, Saved), Failure> {
    let observation = &outcome.observation;
    let output = output_of(&observation.events);
    let sweep = campaign.sweep(&observation.before, &observation.events);
    let mut bench = Bench::new(&campaign.check)?;
    let smallest = smallest(first, &sweep, &mut bench, &output)?;
    let names = Names::new(&observation.before, &observation.events);
    let told = tell(&names, &smallest, (first.number, first.sort), campaign.lie, &output);
    let state = smallest.moment.build(&smallest.choice);
    let saved = Saved::new(&campaign.check, &state, &output[..smallest.moment.said], &told.story);
    Ok((told, saved))
}

fn report(campaign: &Campaign, outcome: &Outcome, first_failure: Option<Told>) -> Report {
    let seconds = outcome.took.as_secs_f64();
    Report {
        schema_version: 1,
        complete: !outcome.stopped,
        states: outcome.states,
        failed: outcome.failed,
        exhaustive: outcome.exhaustive,
        moments: outcome.moments,
        changes: outcome.changes(),
        flushes: outcome.flushes(),
        lie: campaign.lie.map(|lie| name(lie).to_owned()),
        seed: campaign.seed,
        watched_by: means(outcome.observation.means),
        checks_ns: u64::try_from(outcome.took.as_nanos()).unwrap_or(u64::MAX),
        states_per_s: if seconds > 0.0 { outcome.states as f64 / seconds } else { 0.0 },
        first_failure,
    }
}

fn name(lie: model::Lie) -> &'static str {
    match lie {
        model::Lie::IgnoreFlush => "ignore-flush",
        model::Lie::IgnoreFua => "ignore-fua",
        model::Lie::Tear => "tear",
        model::Lie::ReorderAcrossFlush => "reorder-across-flush",
    }
}

fn words(report: &Report) -> String {
    let mut text = format!(
        "{} changes of files, {} flushes, watched by {}\n{} states at {} moments{}, {:.0} a second: {} failed\n",
        count(report.changes as u64),
        count(report.flushes as u64),
        report.watched_by,
        count(report.states),
        count(report.moments as u64),
        if report.exhaustive { ", all that there are" } else { "" },
        report.states_per_s,
        count(report.failed),
    );
    if !report.complete {
        text += "partial: ended by Ctrl-C\n";
    }
    if let Some(told) = &report.first_failure {
        text += "\nThe first failure, made as small as it goes:\n";
        text += &told.story;
        if let Some(again) = &told.again {
            text += &format!("To check it again: nandle crash-test --again {again}\n");
        }
    }
    text
}

/// What the user should know beside the result.
fn remarks(report: &Report, campaign: &Campaign) -> Vec<String> {
    let mut lines = Vec::new();
    if report.flushes == 0 {
        lines.push(
            "the program never flushed (no fsync, fdatasync or O_SYNC on its files): nothing that it wrote is promised to last".into(),
        );
    }
    if report.failed == 0 && report.flushes == 0 {
        lines.push("all states passed all the same: make sure that the check can fail".into());
    } else if let (0, Some(lie)) = (report.failed, campaign.lie) {
        lines.push(format!(
            "all states passed though the drive lied ({}): make sure that the check can fail, or raise --states",
            name(lie)
        ));
    }
    lines
}

/// Checks a failure that was kept.
fn again(path: &Path, args: &CrashTest) -> Result<(), Failure> {
    let saved = Saved::read(path)?;
    let verdict: Verdict = saved.check(args.check.as_deref(), args.into.as_deref())?;
    if args.json.as_deref() != Some(Path::new("-")) {
        say(&format!("{}\nNow: {}\n{}\n", saved.story.trim_end(), verdict.how, verdict.said))?;
    }
    if let Some(path) = &args.json {
        put(path, &verdict)?;
    }
    if verdict.passed { Ok(()) } else { Err(Failure::Ran(format!("{}: it fails", path.display()))) }
}
