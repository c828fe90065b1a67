//! The papers' experiments, and what becomes of their claims here.
//!
//! [`run`] repeats a paper's evaluation and returns a [`Report`]: each claim with the paper's figure beside
//! ours, and the tables that the verdicts come from. Runs are independent of each other and spread
//! over threads; each is a pure function of its configuration, seed and workload, so the report is
//! the same with any number of threads.

pub mod across;
mod claim;
pub mod flashalloc;
pub mod papa;
pub mod poster;
mod report;
mod simulate;
pub mod traces;
pub mod waflash;

pub use claim::{Claim, Rule, Verdict};
pub use report::{Cell, Report, Table};

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crate::Error;

/// A paper whose evaluation can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// WAFLASH.
    Waflash,
    /// The PC-LRU poster.
    PcLruPoster,
    /// PAPA, TCAD.
    Papa,
    /// Across-FTL, ICPP 2023.
    Across,
    /// FlashAlloc, PVLDB 16(11), 2023.
    Flashalloc,
}

/// What an experiment is.
struct Experiment {
    paper: Paper,
    name: &'static str,
    title: &'static str,
    /// Names of its claims, in the paper's order.
    claims: &'static [&'static str],
    run: fn(&Bench<'_>, &mut Report) -> Result<(), Error>,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment {
        paper: Paper::Waflash,
        name: "waflash",
        title: "WAFLASH: partial pages wait, are written as versions, and share pages",
        claims: waflash::CLAIMS,
        run: waflash::reproduce,
    },
    Experiment {
        paper: Paper::PcLruPoster,
        name: "pc-lru-poster",
        title: "PC-LRU (poster): full pages leave the write buffer first",
        claims: poster::CLAIMS,
        run: poster::reproduce,
    },
    Experiment {
        paper: Paper::Papa,
        name: "papa",
        title: "PAPA: partial pages on fast page types",
        claims: papa::CLAIMS,
        run: papa::reproduce,
    },
    Experiment {
        paper: Paper::Across,
        name: "across",
        title: "Across-FTL: across-page requests in areas of their own",
        claims: across::CLAIMS,
        run: across::reproduce,
    },
    Experiment {
        paper: Paper::Flashalloc,
        name: "flashalloc",
        title: "FlashAlloc: blocks dedicated to objects",
        claims: flashalloc::CLAIMS,
        run: flashalloc::reproduce,
    },
];

impl Paper {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        EXPERIMENTS.iter().map(|e| e.paper)
    }

    fn experiment(self) -> &'static Experiment {
        EXPERIMENTS.iter().find(|e| e.paper == self).expect("every paper has an experiment")
    }

    /// What `nandle reproduce` calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.experiment().name
    }

    /// One line on it.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.experiment().title
    }

    /// Names of its claims.
    #[must_use]
    pub fn claims(self) -> &'static [&'static str] {
        self.experiment().claims
    }

    /// The paper called `name`.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self, Error> {
        Self::all().find(|p| p.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::name).collect();
            Error::input(format!("{name}: no paper of that name; expected one of {}", names.join(", ")))
        })
    }
}

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
struct Bench<'a> {
    options: &'a Options,
    done: AtomicUsize,
    total: AtomicUsize,
    progress: &'a (dyn Fn(&Step<'_>) + Sync),
}

impl Bench<'_> {
    /// Whether any of these claims is asked for.
    fn wants(&self, claims: &[&str]) -> bool {
        self.options.claim.as_deref().is_none_or(|only| claims.contains(&only))
    }

    /// Does every job, several at a time; results are in the order of the jobs.
    fn each<J: Sync, T: Send>(
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
                        let mine = next.fetch_add(1, Ordering::Relaxed);
                        let Some(job) = jobs.get(mine) else { break };
                        let result = work(job).map_err(|e| Error::Of { run: name(job), source: Box::new(e) });
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
        results.into_inner().expect("no run panicked").into_iter().flatten().collect()
    }
}

/// Repeats a paper's evaluation.
///
/// # Errors
/// If there is no such claim, a trace cannot be read, or a simulation fails.
pub fn run(paper: Paper, options: &Options, progress: &(dyn Fn(&Step<'_>) + Sync)) -> Result<Report, Error> {
    let experiment = paper.experiment();
    if let Some(claim) = options.claim.as_deref().filter(|c| !experiment.claims.contains(c)) {
        return Err(Error::input(format!(
            "--claim {claim}: {} makes no claim of that name; expected one of {}",
            experiment.name,
            experiment.claims.join(", ")
        )));
    }
    let bench = Bench { options, done: AtomicUsize::new(0), total: AtomicUsize::new(0), progress };
    let mut report = Report::new(paper, options);
    (experiment.run)(&bench, &mut report)?;
    if let Some(only) = &options.claim {
        report.claims.retain(|c| c.id == *only);
    }
    report.claims.sort_by_key(|c| experiment.claims.iter().position(|id| *id == c.id));
    Ok(report)
}
