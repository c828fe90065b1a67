//! What an experiment works with: how it was asked for, drives, and runs on several threads.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use crate::Error;
use crate::config::{Drive, Wanted};

/// How an evaluation is repeated.
#[derive(Clone, Debug)]
pub struct Options {
    /// Smaller devices and fewer requests: well under a minute.
    pub quick: bool,
    /// Only this claim.
    pub claim: Option<String>,
    /// Runs at a time.
    pub threads: usize,
    /// Seed of devices and generated workloads.
    pub seed: u64,
    /// Folder of real traces; the experiments that use them are left out without.
    pub traces: Option<PathBuf>,
}

impl Default for Options {
    fn default() -> Self {
        Self { quick: false, claim: None, threads: 1, seed: 1, traces: None }
    }
}

/// A preset with settings of its own.
pub(super) fn preset(device: &str, scheme: Option<&str>, sets: &[String]) -> Result<Drive, Error> {
    Wanted { device, scheme, sets }.load()
}

/// How far an evaluation has come.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// Runs done.
    pub done: usize,
    /// Runs known so far.
    pub total: usize,
    /// The run that ended last.
    pub name: &'a str,
}

/// What an experiment works with.
pub(super) struct Bench<'a> {
    pub options: &'a Options,
    /// The folder of real traces, if there is one.
    pub traces: Option<PathBuf>,
    done: AtomicUsize,
    total: AtomicUsize,
    progress: &'a (dyn Fn(&Step<'_>) + Sync),
    pub stop: &'a AtomicBool,
}

impl<'a> Bench<'a> {
    pub fn new(
        options: &'a Options,
        traces: Option<PathBuf>,
        progress: &'a (dyn Fn(&Step<'_>) + Sync),
        stop: &'a AtomicBool,
    ) -> Self {
        Self { options, traces, done: AtomicUsize::new(0), total: AtomicUsize::new(0), progress, stop }
    }

    /// Runs done, and runs known so far.
    pub fn runs(&self) -> (usize, usize) {
        (self.done.load(Ordering::Relaxed), self.total.load(Ordering::Relaxed))
    }

    /// Whether any of these claims is asked for.
    pub fn wants(&self, claims: &[&str]) -> bool {
        self.options.claim.as_deref().is_none_or(|only| claims.contains(&only))
    }

    /// Does every job, several at a time; results are in the order of the jobs.
    pub fn each<J: Sync, T: Send>(
        &self,
        jobs: &[J],
        name: impl Fn(&J) -> String + Sync,
        work: impl Fn(&J) -> Result<T, Error> + Sync,
    ) -> Result<Vec<T>, Error> {
        self.total.fetch_add(jobs.len(), Ordering::Relaxed);
        let next = AtomicUsize::new(0);
        let results: Mutex<Vec<Option<Result<T, Error>>>> = Mutex::new(jobs.iter().map(|_| None).collect());
        std::thread::scope(|scope| {
            for _ in 0..self.options.threads.clamp(1, jobs.len().max(1)) {
                scope.spawn(|| {
                    loop {
                        if self.stop.load(Ordering::Relaxed) {
                            break;
                        }
                        let mine = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(mine) else { break };
                        let result = match work(job) {
                            Err(Error::Interrupted) => break,
                            other => other.map_err(|e| Error::Of { run: name(job), source: Box::new(e) }),
                        };
                        let failed = result.is_err();
                        results.lock().expect("no run panicked")[mine] = Some(result);
                        if failed {
                            next.store(jobs.len(), Ordering::Relaxed);
                        }
                        let step = Step {
                            done: self.done.fetch_add(1, Ordering::Relaxed) + 1,
                            total: self.total.load(Ordering::Relaxed),
                            name: &name(job),
                        };
                        (self.progress)(&step);
                    }
                });
            }
        });
        // After a failure the rest is missing: the first failure is what to report.
        let results = results.into_inner().expect("no run panicked");
        let interrupted = self.stop.load(Ordering::Relaxed) && results.iter().any(Option::is_none);
        let done: Vec<T> = results.into_iter().flatten().collect::<Result<_, _>>()?;
        if interrupted { Err(Error::Interrupted) } else { Ok(done) }
    }
}
