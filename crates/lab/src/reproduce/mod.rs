//! The papers' experiments, run again: a claim each, what the paper says and what comes out here.

pub mod flashalloc;

/// A number that a paper prints, beside ours.
#[derive(Clone, Debug)]
pub struct Finding {
    /// Which claim, as the list of claims names it.
    pub claim: &'static str,
    /// Which of its numbers.
    pub what: &'static str,
    /// The paper's.
    pub paper: f64,
    /// Ours.
    pub ours: f64,
    /// Ours is within a fifth of the paper's.
    pub met: bool,
    /// The workload that it was measured with.
    pub workload: &'static str,
}

impl Finding {
    fn new(claim: &'static str, what: &'static str, paper: f64, ours: f64, workload: &'static str) -> Self {
        Self { claim, what, paper, ours, met: (ours / paper - 1.0).abs() <= 0.2, workload }
    }
}
