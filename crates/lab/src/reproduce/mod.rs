//! The papers' experiments, run again.

pub mod across;

/// One claim of a paper beside what comes out here.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// The claim's name.
    pub id: &'static str,
    /// What is compared, and on which workload.
    pub what: String,
    /// The paper's value.
    pub paper: f64,
    /// Ours.
    pub ours: f64,
    /// Whether ours says what the paper says: see the experiment for its rule.
    pub met: bool,
}
