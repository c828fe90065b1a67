//! Many runs at a time: a directory each, finished ones left alone, failures kept with their error.
//!
//! A run's directory is named by what the run depends on: the resolved configuration, the workload with
//! its options and the contents of its file, the seed, and the version of the program. The same run
//! asked for again is found done; a changed one is another run.

use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde::{Deserialize, Serialize};
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::config::resolved;
use crate::measure::Summary;
use crate::replay::Progress;
use crate::run::{FAILURE, MANIFEST, Outcome, Run, clear, free};
use crate::workload::{Traces, hex};

/// A run of a batch.
#[derive(Clone, Debug)]
pub struct Job {
    /// Its name: a hash of everything it depends on.
    pub id: String,
    /// What tells it from the others, for people.
    pub labels: Labels,
    /// What is to be done.
    pub run: Run,
}

/// What a run was asked to be.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Labels {
    /// Device: preset or file.
    pub device: String,
    /// Scheme as it was asked for; empty for the device's own.
    pub scheme: String,
    /// Workload: name or file.
    pub workload: String,
    /// Seed.
    pub seed: u64,
    /// Settings of the device that were overridden.
    pub overrides: Vec<String>,
}

impl std::fmt::Display for Labels {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let scheme = if self.scheme.is_empty() { "own scheme" } else { &self.scheme };
        write!(f, "{} | {scheme} | {} | seed {}", self.device, self.workload, self.seed)?;
        self.overrides.iter().try_for_each(|set| write!(f, " | {set}"))
    }
}

/// The name of a run: 16 hexadecimal digits of a SHA-256.
///
/// # Errors
/// If the workload's file cannot be read.
pub fn id_of(run: &Run, traces: &Traces) -> Result<String, Error> {
    let mut hash = Sha256::new();
    let mut put = |text: &str| {
        hash.update((text.len() as u64).to_le_bytes());
        hash.update(text);
    };
    put(env!("CARGO_PKG_VERSION"));
    put(&resolved(&run.drive));
    // Reports call it so.
    put(&run.drive.scheme());
    // A file counts with its contents: where it lies does not matter.
    let mut asked = run.asked.clone();
    for path in [run.asked.file(), run.drive.config.precondition.age_with.as_deref().map(Path::new)] {
        if let Some(path) = path.filter(|path| path.is_file()) {
            put(&traces.hash(path)?.0);
        }
    }
    if asked.file().is_some() {
        asked.workload = Path::new(&asked.workload)
            .file_name()
            .map_or_else(String::new, |n| n.to_string_lossy().into_owned());
    }
    put(&format!("{asked:?}"));
    put(&format!("{} {}", run.seed, run.verify));
    if let Some(cuts) = &run.power_cuts {
        put(&format!("{cuts:?}"));
    }
    Ok(hex(&hash.finalize()[..8]))
}

/// Refuses a run, as one of several, that would be refused when its turn came.
///
/// # Errors
/// If it makes no sense, or would read what no other run can read again.
pub fn check(run: &Run) -> Result<(), Error> {
    let aged = run.drive.config.precondition.age_with.as_deref();
    for (option, name) in [("--workload", Some(run.asked.workload.as_str())), ("--age-with", aged)] {
        if name == Some("-") {
            return Err(Error::input(format!(
                "{option} -: several runs cannot share a pipe; expected a file"
            )));
        }
    }
    run.check()
}

/// What became of a run.
#[derive(Clone, Debug)]
pub enum State {
    /// It was done now.
    Done(Box<Summary>),
    /// It had been done before.
    Kept(Box<Summary>),
    /// It failed now, or before and was not tried again.
    Failed(String),
    /// It was not begun, or interrupted.
    Left,
}

impl State {
    /// The summary of a run that was done.
    #[must_use]
    pub fn summary(&self) -> Option<&Summary> {
        match self {
            Self::Done(summary) | Self::Kept(summary) => Some(summary),
            Self::Failed(_) | Self::Left => None,
        }
    }
}

/// How runs are done.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// Threads; each run has one.
    pub workers: usize,
    /// Runs that failed before are tried again.
    pub retry: bool,
}

/// What happens while a batch runs.
#[derive(Clone, Copy, Debug)]
pub enum Event<'a> {
    /// A run (its place among the jobs) has come so far.
    Progress(usize, &'a Progress),
    /// A run is over.
    Over(usize, &'a State),
}

/// Jobs that nobody has begun. Runs that differ in their seed alone take about as long as each other, so one of
/// each kind goes first and then the longest, lest all but one worker wait for the last.
struct Queue {
    /// Number and kind of a job, in order.
    waiting: Vec<(usize, usize)>,
    /// How long a job of each kind took; none yet while the first is under way.
    took: Vec<Option<Duration>>,
}

impl Queue {
    fn new<'a>(jobs: impl Iterator<Item = &'a Labels>) -> Self {
        let mut kinds = HashMap::new();
        let kind = |(number, labels): (usize, &Labels)| {
            let next = kinds.len();
            (number, *kinds.entry(Labels { seed: 0, ..labels.clone() }).or_insert(next))
        };
        let waiting = jobs.enumerate().map(kind).collect();
        Self { waiting, took: vec![None; kinds.len()] }
    }

    /// The job to begin now, and its kind.
    fn next(&mut self) -> Option<(usize, usize)> {
        // Of the jobs that are equal by this, the first.
        let longest = |&(place, &(_, kind)): &(usize, &(usize, usize))| {
            (self.took[kind].unwrap_or(Duration::MAX), std::cmp::Reverse(place))
        };
        let (place, _) = self.waiting.iter().enumerate().max_by_key(longest)?;
        let (number, kind) = self.waiting.remove(place);
        // Until it is known, one of a kind is enough.
        self.took[kind].get_or_insert(Duration::ZERO);
        Some((number, kind))
    }
}

/// Does `jobs`; the states come in their order. Jobs with an output directory are skipped where that
/// holds the finished run. With `stop` set from outside, runs under way end and count as left.
///
/// # Errors
/// None of a run's own: those are its state. Only what would fail every run, an unwritable directory, and a run that
/// another process is at.
pub fn work(
    jobs: &[Job],
    how: How,
    stop: &AtomicBool,
    watch: &(dyn Fn(Event<'_>) + Sync),
) -> Result<Vec<State>, Error> {
    let traces = Traces::default();
    let queue = Mutex::new(Queue::new(jobs.iter().map(|job| &job.labels)));
    let states: Mutex<Vec<State>> = Mutex::new(vec![State::Left; jobs.len()]);
    let broken: Mutex<Option<Error>> = Mutex::new(None);
    std::thread::scope(|scope| {
        for _ in 0..how.workers.clamp(1, jobs.len().max(1)) {
            scope.spawn(|| {
                loop {
                    let next = lock(&queue).next();
                    let Some((n, kind)) = next else { return };
                    let started = Instant::now();
                    if stop.load(Ordering::Relaxed) || lock(&broken).is_some() {
                        return;
                    }
                    match one(&jobs[n], n, how, &traces, stop, watch) {
                        Ok(state) => {
                            lock(&queue).took[kind] =
                                matches!(state, State::Done(_)).then(|| started.elapsed());
                            watch(Event::Over(n, &state));
                            lock(&states)[n] = state;
                        }
                        Err(e) => {
                            *lock(&broken) = Some(e);
                            return;
                        }
                    }
                }
            });
        }
    });
    match broken.into_inner().unwrap_or_else(PoisonError::into_inner) {
        Some(e) => Err(e),
        None => Ok(states.into_inner().unwrap_or_else(PoisonError::into_inner)),
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

fn one(
    job: &Job,
    number: usize,
    how: How,
    traces: &Traces,
    stop: &AtomicBool,
    watch: &(dyn Fn(Event<'_>) + Sync),
) -> Result<State, Error> {
    let dir = job.run.output.as_deref();
    if let Some(dir) = dir {
        if let Some(summary) = finished(dir) {
            return Ok(State::Kept(Box::new(summary)));
        }
        if let Some(error) = failure(dir).filter(|_| !how.retry) {
            return Ok(State::Failed(error));
        }
        // What is somebody else's is neither removed nor marked as failed.
        free(dir)?;
    }
    let mut progress = |p: &Progress| watch(Event::Progress(number, p));
    let run = job.run.clone();
    let done = catch_unwind(AssertUnwindSafe(|| run.go_with(Some(traces), stop, &mut progress)));
    let error = match done {
        Ok(Ok(Outcome { unwritten: Some(e), .. })) => e.to_string(),
        Ok(Ok(outcome)) => match outcome.summary.failure() {
            Some(failure) => failure,
            None if outcome.summary.complete => return Ok(State::Done(Box::new(outcome.summary))),
            None => return Ok(State::Left),
        },
        // Somebody else's run is left alone.
        Ok(Err(e @ Error::Busy(_))) => return Err(e),
        Ok(Err(e)) => e.to_string(),
        Err(panic) => {
            let what = panic.downcast_ref::<String>().map(String::as_str);
            let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
            format!("panic: {what} (this is a bug of the simulator: please report the configuration)")
        }
    };
    if let Some(dir) = dir {
        clear(dir)?;
        std::fs::create_dir_all(dir).map_err(|e| Error::write(dir, e))?;
        let path = dir.join(FAILURE);
        let mut text =
            serde_json::to_string_pretty(&json!({ "error": error, "labels": job.labels, "id": job.id }))
                .unwrap_or_default();
        text.push('\n');
        std::fs::write(&path, text).map_err(|e| Error::write(&path, e))?;
    }
    Ok(State::Failed(error))
}

/// The summary of the finished run in `dir`, if there is one.
#[must_use]
pub fn finished(dir: &Path) -> Option<Summary> {
    let text = |name: &str| std::fs::read_to_string(dir.join(name)).ok();
    // The manifest is written when everything else is.
    let manifest: serde_json::Value = serde_json::from_str(&text(MANIFEST)?).ok()?;
    let summary: Summary = serde_json::from_str(&text("summary.json")?).ok()?;
    let whole = manifest.get("complete") == Some(&json!(true))
        && manifest.get("digest") == Some(&json!(summary.digest));
    (whole && summary.complete && summary.failure().is_none()).then_some(summary)
}

/// The error of the failed run in `dir`, if it is one.
#[must_use]
pub fn failure(dir: &Path) -> Option<String> {
    let text = std::fs::read_to_string(dir.join(FAILURE)).ok()?;
    let value: serde_json::Value = serde_json::from_str(&text).ok()?;
    Some(value.get("error")?.as_str()?.to_owned())
}

/// The run directories in `dir`, sorted by name.
///
/// # Errors
/// If it cannot be read.
pub fn runs_in(dir: &Path) -> Result<Vec<PathBuf>, Error> {
    let fail =
        |e: std::io::Error| Error::input(format!("{}: {e}; expected a directory of runs", dir.display()));
    let mut found = Vec::new();
    for entry in std::fs::read_dir(dir).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        if path.is_dir() && (path.join(MANIFEST).is_file() || path.join(FAILURE).is_file()) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_each_kind_goes_first_and_then_the_longest() {
        let labels = |scheme: &str, seed| Labels { scheme: scheme.into(), seed, ..Labels::default() };
        let jobs =
            [("short", 1), ("short", 2), ("long", 1), ("long", 2), ("long", 3), ("middle", 1), ("middle", 2)]
                .map(|(scheme, seed)| labels(scheme, seed));
        let mut queue = Queue::new(jobs.iter());
        let mut order = Vec::new();
        while let Some((number, kind)) = queue.next() {
            order.push(number);
            let ms =
                [("short", 1), ("middle", 5), ("long", 9)].iter().find(|(s, _)| *s == jobs[number].scheme);
            queue.took[kind] = ms.map(|&(_, ms)| Duration::from_millis(ms));
        }
        assert_eq!(order, [0, 2, 5, 3, 4, 6, 1]);
    }
}
