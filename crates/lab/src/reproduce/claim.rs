//! A figure that a paper publishes beside ours, and whether it is met.

use serde::{Deserialize, Serialize};

/// When ours says what the paper says.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule", content = "margin")]
pub enum Rule {
    /// Within this share of the paper's figure.
    Value(f64),
    /// Within so much of the paper's figure, which is itself a share.
    Points(f64),
    /// A ratio, within this share of the paper's.
    Ratio(f64),
    /// A ratio, on the paper's side of 1, and within this share of the paper's or further from 1.
    Gain(f64),
    /// At most so much above the paper's, as a share of it.
    AtMost(f64),
    /// Below the paper's figure.
    Below,
}

/// What became of a claim.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Ours says what the paper says.
    Met,
    /// The effect goes the paper's way but its size does not.
    Direction,
    /// It does not come out.
    NotMet,
    /// It was not tried.
    NotComputed,
}

impl Verdict {
    /// As people read it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Direction => "direction only",
            Self::NotMet => "not met",
            Self::NotComputed => "not computed",
        }
    }
}

/// A figure that a paper publishes, beside ours.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Claim {
    /// The claim that it belongs to.
    pub id: String,
    /// Figure or section of the paper.
    pub place: String,
    /// What is measured.
    pub what: String,
    /// What stood in for the paper's workload.
    pub workload: String,
    /// The paper's figure.
    pub paper: f64,
    /// Ours; none if it was not computed.
    pub ours: Option<f64>,
    /// When ours counts as the same.
    #[serde(flatten)]
    pub rule: Rule,
    /// What follows.
    pub verdict: Verdict,
    /// Why ours differs, where known, or why there is none.
    pub why: String,
}

impl Claim {
    /// A figure of the paper, and ours.
    pub(super) fn new(
        id: &str,
        place: &str,
        what: impl Into<String>,
        workload: impl Into<String>,
        paper: f64,
        ours: f64,
        rule: Rule,
    ) -> Self {
        let ours = ours.is_finite().then_some(ours);
        let verdict = ours.map_or(Verdict::NotComputed, |ours| rule.verdict(paper, ours));
        let why = if ours.is_some() { "" } else { "nothing of the kind happened in the runs" };
        Self {
            id: id.into(),
            place: place.into(),
            what: what.into(),
            workload: workload.into(),
            paper,
            ours,
            rule,
            verdict,
            why: why.into(),
        }
    }

    /// The same with a reason, which is dropped where the claim is met.
    pub(super) fn because(mut self, why: &str) -> Self {
        if matches!(self.verdict, Verdict::Direction | Verdict::NotMet) {
            self.why = why.into();
        }
        self
    }
}

impl Rule {
    fn verdict(self, paper: f64, ours: f64) -> Verdict {
        let near = |share: f64| (ours - paper).abs() <= share * paper.abs();
        let same_side = (paper > 1.0) == (ours > 1.0) && (paper < 1.0) == (ours < 1.0);
        let met = match self {
            Self::Value(share) | Self::Ratio(share) => near(share),
            Self::Points(points) => (ours - paper).abs() <= points,
            Self::Gain(share) if paper < 1.0 => same_side && ours <= paper * (1.0 + share),
            Self::Gain(share) => same_side && ours >= paper * (1.0 - share),
            Self::AtMost(share) => ours <= paper * (1.0 + share),
            Self::Below => ours < paper,
        };
        match self {
            _ if met => Verdict::Met,
            Self::Ratio(_) | Self::Gain(_) if same_side => Verdict::Direction,
            _ => Verdict::NotMet,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_rules() {
        use Verdict::{Direction, Met, NotMet};
        for (rule, paper, ours, verdict) in [
            (Rule::Value(0.2), 3.0, 3.5, Met),
            (Rule::Value(0.2), 3.0, 3.7, NotMet),
            (Rule::Points(0.05), 0.43, 0.47, Met),
            (Rule::Points(0.05), 0.43, 0.49, NotMet),
            (Rule::Ratio(0.2), 0.5, 0.2, Direction),
            (Rule::Ratio(0.05), 0.9, 1.01, NotMet),
            (Rule::Gain(0.1), 0.9, 0.5, Met),
            (Rule::Gain(0.1), 0.95, 1.01, NotMet),
            (Rule::Gain(0.1), 0.5, 0.8, Direction),
            (Rule::Gain(0.2), 2.25, 1.08, Direction),
            (Rule::Gain(0.2), 2.25, 4.0, Met),
            (Rule::AtMost(0.1), 0.026, 0.0, Met),
            (Rule::AtMost(0.1), 0.026, 0.03, NotMet),
            (Rule::Below, 1.0, 1.0, NotMet),
        ] {
            assert_eq!(rule.verdict(paper, ours), verdict, "{rule:?} {paper} {ours}");
        }
        let none = Claim::new("a", "b", "c", "d", 1.0, f64::NAN, Rule::Value(1.0));
        assert_eq!((none.ours, none.verdict), (None, Verdict::NotComputed));
    }
}
