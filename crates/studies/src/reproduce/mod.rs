//! The papers' experiments, and what becomes of their claims here.
//!
//! [`run`] repeats a paper's evaluation and returns a [`Report`]: each claim with the paper's figure beside
//! ours, and the tables that the verdicts come from. Runs are independent of each other and spread
//! over threads; each is a pure function of its configuration, seed and workload, so the report is
//! the same with any number of threads.

pub mod ablation;
pub mod across;
mod bench;
mod claim;
pub mod flashalloc;
pub mod ledger;
mod page;
pub mod papa;
mod paper;
pub mod poster;
pub mod real_drives;
mod report;
mod simulate;
pub mod traces;
pub mod waflash;

use std::sync::atomic::AtomicBool;

use bench::{Bench, preset};
pub use bench::{Options, Step};
pub use claim::{Claim, Kind, Rule, Verdict};
use nandle_lab::Error;
pub use page::render;
pub use paper::Paper;
pub use report::{Cell, Curves, Report, Table};

/// What an experiment is.
struct Experiment {
    paper: Paper,
    /// Names of its claims, in the paper's order.
    claims: &'static [&'static str],
    run: fn(&Bench<'_>, &mut Report) -> Result<(), Error>,
}

const EXPERIMENTS: &[Experiment] = &[
    Experiment { paper: Paper::Waflash, claims: waflash::CLAIMS, run: waflash::reproduce },
    Experiment { paper: Paper::PcLruPoster, claims: poster::CLAIMS, run: poster::reproduce },
    Experiment { paper: Paper::Papa, claims: papa::CLAIMS, run: papa::reproduce },
    Experiment { paper: Paper::Across, claims: across::CLAIMS, run: across::reproduce },
    Experiment { paper: Paper::Flashalloc, claims: flashalloc::CLAIMS, run: flashalloc::reproduce },
    Experiment { paper: Paper::RealDrives, claims: real_drives::CLAIMS, run: real_drives::reproduce },
    Experiment { paper: Paper::Ablation, claims: ablation::CLAIMS, run: ablation::reproduce },
];

fn experiment(paper: Paper) -> &'static Experiment {
    EXPERIMENTS.iter().find(|e| e.paper == paper).expect("every paper has an experiment")
}

impl Paper {
    /// Names of its claims.
    #[must_use]
    pub fn claims(self) -> &'static [&'static str] {
        experiment(self).claims
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
    let experiment = experiment(paper);
    if let Some(claim) = options.claim.as_deref().filter(|c| !experiment.claims.contains(c)) {
        return Err(Error::Input(format!(
            "--claim {claim}: {} makes no claim of that name; expected one of {}",
            paper.name(),
            experiment.claims.join(", ")
        )));
    }
    let bench = Bench::new(options, traces::folder(options.traces.as_deref())?, progress, stop);
    let mut report = Report::new(paper, options);
    match (experiment.run)(&bench, &mut report) {
        Err(Error::Interrupted) => {
            report.partial = true;
            let (done, total) = bench.runs();
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
