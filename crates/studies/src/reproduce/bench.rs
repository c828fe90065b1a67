//! What an experiment works with: how it was asked for, drives, and runs on several threads.

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use nandle_lab::Error;
use nandle_lab::config::{Drive, Wanted};

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
        let results: Mutex<Vec<Option<T>>> = Mutex::new(jobs.iter().map(|_| None).collect());
        self.spread(jobs.len(), &|n| name(&jobs[n]), &|n| {
            let result = work(&jobs[n])?;
            results.lock().expect("no run panicked")[n] = Some(result);
            Ok(())
        })?;
        Ok(results.into_inner().expect("no run panicked").into_iter().flatten().collect())
    }

    /// Does jobs by their numbers. Apart from [`Bench::each`], which there is a copy of for every kind of job.
    fn spread(
        &self,
        jobs: usize,
        name: &(dyn Fn(usize) -> String + Sync),
        work: &(dyn Fn(usize) -> Result<(), Error> + Sync),
    ) -> Result<(), Error> {
        self.total.fetch_add(jobs, Ordering::Relaxed);
        let (next, succeeded) = (AtomicUsize::new(0), AtomicUsize::new(0));
        // Of several failures the first job's is what to report.
        let failed: Mutex<Option<(usize, Error)>> = Mutex::new(None);
        std::thread::scope(|scope| {
            for _ in 0..self.options.threads.clamp(1, jobs.max(1)) {
                scope.spawn(|| {
                    while !self.stop.load(Ordering::Relaxed) {
                        let mine = next.fetch_add(1, Ordering::Relaxed);
                        if mine >= jobs {
                            break;
                        }
                        match work(mine) {
                            Ok(()) => _ = succeeded.fetch_add(1, Ordering::Relaxed),
                            Err(Error::Interrupted) => break,
                            Err(e) => {
                                let mut failed = failed.lock().expect("no run panicked");
                                if failed.as_ref().is_none_or(|(before, _)| mine < *before) {
                                    *failed =
                                        Some((mine, Error::Of { run: name(mine), source: Box::new(e) }));
                                }
                                next.store(jobs, Ordering::Relaxed);
                            }
                        }
                        let step = Step {
                            done: self.done.fetch_add(1, Ordering::Relaxed) + 1,
                            total: self.total.load(Ordering::Relaxed),
                            name: &name(mine),
                        };
                        (self.progress)(&step);
                    }
                });
            }
        });
        match failed.into_inner().expect("no run panicked") {
            Some((_, e)) => Err(e),
            None if succeeded.into_inner() < jobs => Err(Error::Interrupted),
            None => Ok(()),
        }
    }
}
