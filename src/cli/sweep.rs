//! `nandle sweep` and `nandle gather`: a grid of runs, and one table of their results.

use std::fmt::Write;
use std::path::PathBuf;

use nandle_lab::batch::{self, How, State, work};
use nandle_lab::output::{self, ORDER, Order};
use nandle_lab::run::files_of;
use nandle_lab::sweep::{self, Grid};
use serde_json::json;

use super::args;
use super::terminal::{Failure, json_text, say, show, stop_on_interrupt};
use crate::progress::Runs;
use crate::table;

/// A report of more runs than this is only made when it is asked for: it has all of them in memory.
const REPORTED: usize = 500;

/// `nandle sweep`
pub fn sweep(args: &args::Sweep) -> Result<(), Failure> {
    let mut grid = Grid::read(&args.file)?;
    if let Some(output) = &args.output {
        grid.output = Some(output.clone());
    }
    if let Some(until) = args.settling.until() {
        grid.until = Some(sweep::Goal::Steady);
        (grid.band, grid.at_most) = (Some(until.band), Some(until.at_most));
    }
    grid.untimed |= args.untimed;
    let all = grid.jobs()?;
    let total = all.len();
    let order: Vec<_> = all.iter().filter_map(|job| job.run.output.clone()).collect();
    let jobs = match args.shard {
        Some(shard) => shard.of(all),
        None => all,
    };
    if args.list {
        let (mut text, mut list) = (String::new(), Vec::new());
        for job in &jobs {
            let dir = grid.output().join(&job.id);
            let (state, error) = match (batch::finished(&dir), batch::failure(&dir)) {
                (Some(_), _) => ("done", None),
                (None, Some(error)) => ("failed", Some(error)),
                (None, None) => ("to do", None),
            };
            let why = error.as_ref().map_or_else(String::new, |error| format!(": {error}"));
            let _ = writeln!(text, "{}  {}  {state}{why}", job.id, job.labels);
            list.push(json!({ "run": job.id, "labels": job.labels, "state": state, "error": error }));
        }
        return say(&if args.json { json_text(&list) } else { text });
    }
    output::directory(grid.output())?;
    std::fs::create_dir_all(grid.output())
        .map_err(|e| Failure::Input(format!("{}: {e}", grid.output().display())))?;
    // Reports take the grid's order: the first scheme of the file is what the others are compared with.
    let name = args.file.file_stem().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    Order::of(&format!("Sweep {name}"), &order).write(grid.output())?;
    let stop = stop_on_interrupt();
    let watch = Runs::new(jobs.len());
    let states =
        work(&jobs, How { workers: args.jobs, retry: args.retry }, stop, &|event| watch.event(&jobs, event))?;
    watch.finish();
    let count = |test: fn(&State) -> bool| states.iter().filter(|s| test(s)).count();
    let (done, kept) = (count(|s| matches!(s, State::Done(_))), count(|s| matches!(s, State::Kept(_))));
    let (failed, left) = (count(|s| matches!(s, State::Failed(_))), count(|s| matches!(s, State::Left)));
    let mut text = format!(
        "{}: {} runs{}: {done} done, {kept} done before, {failed} failed, {left} left\n",
        grid.output().display(),
        jobs.len(),
        if jobs.len() < total { format!(" of {total}") } else { String::new() },
    );
    if (1..=REPORTED).contains(&(done + kept)) {
        let _ = writeln!(text, "report: {}", super::report::joint(grid.output())?.display());
    }
    if failed + left == 0 {
        let _ =
            writeln!(text, "`nandle gather {0}` puts the results into one table", grid.output().display());
    }
    let summaries: Vec<_> =
        jobs.iter().zip(&states).filter_map(|(job, state)| Some((&job.labels, state.summary()?))).collect();
    text += &table::sweep(&summaries);
    show(&text)?;
    let errors: Vec<String> = jobs
        .iter()
        .zip(&states)
        .filter_map(|(job, state)| match state {
            State::Failed(error) => Some(format!("{} ({}): {error}", job.id, job.labels)),
            _ => None,
        })
        .collect();
    if !errors.is_empty() {
        let hint = "`nandle sweep --retry` tries them again";
        return Err(Failure::Ran(format!("{} runs failed; {hint}\n  {}", errors.len(), errors.join("\n  "))));
    }
    if left > 0 {
        return Err(Failure::Ran(format!("interrupted with {left} runs to do; the same command goes on")));
    }
    super::compare::all_steady(jobs.iter().zip(&states))
}

/// `nandle gather`
pub fn gather(args: &args::Gather) -> Result<(), Failure> {
    let path = args.output.clone().unwrap_or_else(|| args.dir.join("results.parquet"));
    let gathered = sweep::gather(&args.dir)?;
    let files: Vec<_> =
        gathered.runs.iter().flat_map(|run| files_of(run)).chain([args.dir.join(ORDER)]).collect();
    output::file(&path, files.iter().map(PathBuf::as_path))?;
    sweep::write(&gathered, &path)?;
    let mut text = format!(
        "{}: {} runs, {} figures each\n",
        path.display(),
        gathered.table.rows(),
        gathered.table.columns().len()
    );
    for (dir, error) in &gathered.failed {
        let _ = writeln!(text, "note: left out, failed: {}: {error}", dir.display());
    }
    for dir in &gathered.others {
        let _ = writeln!(text, "note: left out, not of the sweep as its file is now: {}", dir.display());
    }
    for dir in &gathered.left {
        let _ = writeln!(text, "note: left out, interrupted: {}", dir.display());
    }
    say(&text)
}
