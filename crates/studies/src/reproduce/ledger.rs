//! Every figure of a report as one plain row: `ledger.json`, for who counts figures over all papers.

use serde::{Deserialize, Serialize};

use super::{Claim, Kind, Report, Verdict};

/// A figure that a paper publishes, and what became of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// What `nandle reproduce` calls the paper.
    pub paper: String,
    /// The claim that it belongs to.
    pub claim: String,
    /// Figure or section of the paper.
    pub place: String,
    /// What is measured.
    pub what: String,
    /// What stood in for the paper's workload.
    pub workload: String,
    /// The paper's figure; of a range, the end that is nearer to ours.
    pub paper_value: f64,
    /// Both ends of a range; absent where the paper has one figure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub paper_range: Option<[f64; 2]>,
    /// Ours; none if it was not computed.
    pub ours: Option<f64>,
    /// What it can show.
    pub kind: Kind,
    /// `met`, `not met` or `not computed`; right in direction only is not met.
    pub verdict: String,
    /// A setting was chosen so that it comes out.
    pub fitted: bool,
    /// Why ours differs, or why there is none; empty where it is met.
    pub reason: String,
}

impl Report {
    /// Its figures, each a row.
    #[must_use]
    pub fn ledger(&self) -> Vec<Row> {
        self.claims.iter().map(|claim| row(self.paper.name(), claim)).collect()
    }
}

fn row(paper: &str, claim: &Claim) -> Row {
    let verdict = match claim.verdict {
        Verdict::Met | Verdict::NotComputed => claim.verdict,
        Verdict::Direction | Verdict::NotMet | Verdict::Worse => Verdict::NotMet,
    };
    Row {
        paper: paper.into(),
        claim: claim.id.clone(),
        place: claim.place.clone(),
        what: claim.what.clone(),
        workload: claim.workload.clone(),
        paper_value: claim.paper,
        paper_range: claim.range(),
        ours: claim.ours,
        kind: claim.kind,
        verdict: verdict.words().into(),
        fitted: claim.fitted,
        reason: claim.why.clone(),
    }
}
