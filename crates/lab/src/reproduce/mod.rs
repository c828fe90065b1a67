//! The papers' experiments, and what becomes of their claims here.
//!
//! [`run`] repeats a paper's evaluation and returns a [`Report`]: each claim with the paper's figure beside
//! ours, and the tables that the verdicts come from. Runs are independent of each other and spread
//! over threads; each is a pure function of its configuration, seed and workload, so the report is
//! the same with any number of threads.

pub mod ablation;
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
pub use report::{Cell, Curves, Report, Table};

use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use serde::{Deserialize, Serialize};

use crate::Error;
use crate::config::{Drive, Wanted};

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
    /// None of them: all schemes together, on the papers' own workloads.
    Ablation,
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
    Experiment {
        paper: Paper::Ablation,
        name: "ablation",
        title: "All schemes together: every set of them on each paper's own workload and metric",
        claims: ablation::CLAIMS,
        run: ablation::reproduce,
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

/// A preset with settings of its own.
fn preset(device: &str, scheme: Option<&str>, sets: &[String]) -> Result<Drive, Error> {
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
struct Bench<'a> {
    options: &'a Options,
    /// The folder of real traces, if there is one.
    traces: Option<PathBuf>,
    done: AtomicUsize,
    total: AtomicUsize,
    progress: &'a (dyn Fn(&Step<'_>) + Sync),
    stop: &'a AtomicBool,
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

/// Repeats a paper's evaluation. With `stop` set from outside no further run begins; the report has what
/// was concluded until then and is marked partial.
///
/// # Errors
/// If there is no such claim, a trace cannot be read, or a simulation fails.
pub fn run(
    paper: Paper,
    options: &Options,
    stop: &AtomicBool,
    progress: &(dyn Fn(&Step<'_>) + Sync),
) -> Result<Report, Error> {
    let experiment = paper.experiment();
    if let Some(claim) = options.claim.as_deref().filter(|c| !experiment.claims.contains(c)) {
        return Err(Error::input(format!(
            "--claim {claim}: {} makes no claim of that name; expected one of {}",
            experiment.name,
            experiment.claims.join(", ")
        )));
    }
    let bench = Bench {
        options,
        traces: traces::folder(options.traces.as_deref())?,
        done: AtomicUsize::new(0),
        total: AtomicUsize::new(0),
        progress,
        stop,
    };
    let mut report = Report::new(paper, options);
    match (experiment.run)(&bench, &mut report) {
        Err(Error::Interrupted) => {
            report.partial = true;
            let (done, total) = (bench.done.into_inner(), bench.total.into_inner());
            let wanted = |id: &&str| options.claim.as_deref().is_none_or(|only| only == *id);
            let missing: Vec<&str> = (experiment.claims.iter().copied().filter(wanted))
                .filter(|id| !report.claims.iter().any(|claim| claim.id == *id))
                .collect();
            report.notes.push(format!(
                "Interrupted after {done} runs ({total} were planned until then); claims without a figure: {}.",
                if missing.is_empty() { "none".into() } else { missing.join(", ") }
            ));
        }
        other => other?,
    }
    if let Some(only) = &options.claim {
        report.claims.retain(|c| c.id == *only);
    }
    report.claims.sort_by_key(|c| experiment.claims.iter().position(|id| *id == c.id));
    Ok(report)
}
