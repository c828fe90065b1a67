//! A figure that a paper publishes beside ours, and whether it is met.

use serde::{Deserialize, Serialize};

/// What a figure can show. Only predictions count as met.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// The workload or the drive was made from it: that it comes out says that they are what they are meant to be.
    Input,
    /// Only a bound, or which of two is the larger.
    Direction,
    /// Nothing here was made from it.
    #[default]
    Prediction,
}

impl Kind {
    /// As people read it.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Input => "input",
            Self::Direction => "direction",
            Self::Prediction => "prediction",
        }
    }
}

/// When ours says what the paper says. All margins but those of bounds have two sides.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "rule", content = "margin")]
pub enum Rule {
    /// Within this share of the paper's figure.
    Value(f64),
    /// Within so much of the paper's figure, which is itself a share, and within half of it.
    Points(f64),
    /// A ratio: on the paper's side of 1, within this share of the paper's, and within half of its distance from 1.
    Ratio(f64),
    /// A bound: at most so much above the paper's, as a share of it.
    AtMost(f64),
    /// A bound: below the paper's figure.
    Below,
    /// A range of ratios: between its ends, the lesser first. How far ours may be off is the paper's to say, so there is
    /// no margin beside.
    Within([f64; 2]),
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
    /// A ratio on the other side of 1: what the paper says is better is worse here, or the reverse.
    Worse,
    /// It was not tried.
    NotComputed,
}

impl Verdict {
    /// All of them, the best first.
    pub(super) const ALL: [Self; 5] =
        [Self::Met, Self::Direction, Self::NotMet, Self::Worse, Self::NotComputed];

    /// As people read it.
    #[must_use]
    pub fn words(self) -> &'static str {
        match self {
            Self::Met => "met",
            Self::Direction => "direction only",
            Self::NotMet => "not met",
            Self::Worse => "worse",
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
    /// The paper's figure; of a range, the end that is nearer to ours.
    pub paper: f64,
    /// Ours; none if it was not computed.
    pub ours: Option<f64>,
    /// When ours counts as the same.
    #[serde(flatten)]
    pub rule: Rule,
    /// What it can show.
    pub kind: Kind,
    /// A setting was chosen so that this figure comes out: it counts as no prediction.
    pub fitted: bool,
    /// What follows.
    pub verdict: Verdict,
    /// Why ours differs, where known, or why there is none.
    pub why: String,
}

impl Claim {
    /// A figure of the paper, and ours. A bound is a direction, everything else a prediction, if nothing else is
    /// said ([`Claim::input`], [`Claim::fitted`]).
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
        let paper = rule.end(paper, ours);
        let verdict = ours.map_or(Verdict::NotComputed, |ours| rule.verdict(paper, ours));
        let why = if ours.is_some() { "" } else { "nothing of the kind happened in the runs" };
        let kind = match rule {
            Rule::AtMost(_) | Rule::Below => Kind::Direction,
            Rule::Value(_) | Rule::Points(_) | Rule::Ratio(_) | Rule::Within(_) => Kind::Prediction,
        };
        Self {
            id: id.into(),
            place: place.into(),
            what: what.into(),
            workload: workload.into(),
            paper,
            ours,
            rule,
            kind,
            fitted: false,
            verdict,
            why: why.into(),
        }
    }

    /// The same with a reason, which is dropped where the claim is met.
    pub(super) fn because(mut self, why: &str) -> Self {
        if matches!(self.verdict, Verdict::Direction | Verdict::NotMet | Verdict::Worse) {
            self.why = why.into();
        }
        self
    }

    /// The same where the workload or the drive was made from the paper's figure.
    pub(super) fn input(mut self) -> Self {
        self.kind = Kind::Input;
        self
    }

    /// The same where a setting was chosen so that it comes out.
    #[must_use]
    pub fn fitted(mut self) -> Self {
        self.fitted = true;
        self
    }

    /// Both ends, where the paper has a range.
    #[must_use]
    pub fn range(&self) -> Option<[f64; 2]> {
        if let Rule::Within(ends) = self.rule { Some(ends) } else { None }
    }

    /// Whether it counts: what nothing was made from or fitted to.
    #[must_use]
    pub fn predicts(&self) -> bool {
        self.kind == Kind::Prediction && !self.fitted
    }
}

impl Rule {
    fn verdict(self, paper: f64, ours: f64) -> Verdict {
        let off = (ours - paper).abs();
        let near = |share: f64| off <= share * paper.abs();
        let side = |figure: f64| (figure > 1.0, figure < 1.0);
        let same_side = side(paper) == side(ours);
        let met = match self {
            Self::Value(share) => near(share),
            Self::Points(points) => off <= points && near(HALF),
            Self::Ratio(share) if paper == 1.0 => near(share),
            Self::Ratio(share) => same_side && near(share) && off <= HALF * (paper - 1.0).abs(),
            Self::AtMost(share) => ours <= paper * (1.0 + share),
            Self::Below => ours < paper,
            Self::Within([least, most]) => (least..=most).contains(&ours),
        };
        match self {
            _ if met => Verdict::Met,
            Self::Ratio(_) | Self::Within(_) if same_side => Verdict::Direction,
            Self::Ratio(_) | Self::Within(_) if paper != 1.0 && ours != 1.0 => Verdict::Worse,
            _ => Verdict::NotMet,
        }
    }

    /// The paper's figure, or that end of its range which is nearer to ours.
    fn end(self, paper: f64, ours: Option<f64>) -> f64 {
        match (self, ours) {
            (Self::Within([least, most]), Some(ours)) if (ours - least).abs() < (ours - most).abs() => least,
            (Self::Within([_, most]), _) => most,
            _ => paper,
        }
    }
}

/// However wide a margin is: what is further off than half of an effect has not its size.
const HALF: f64 = 0.5;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn verdicts_follow_the_rules() {
        use Verdict::{Direction, Met, NotMet, Worse};
        for (rule, paper, ours, verdict) in [
            (Rule::Value(0.2), 3.0, 3.5, Met),
            (Rule::Value(0.2), 3.0, 3.7, NotMet),
            (Rule::Points(0.05), 0.43, 0.47, Met),
            (Rule::Points(0.05), 0.43, 0.49, NotMet),
            (Rule::Points(0.05), 0.008, 0.0, NotMet),
            (Rule::Points(0.05), 0.008, 0.006, Met),
            (Rule::Ratio(0.2), 0.5, 0.2, Direction),
            (Rule::Ratio(0.2), 0.5, 0.55, Met),
            (Rule::Ratio(0.05), 0.9, 1.01, Worse),
            (Rule::Ratio(0.1), 0.98, 1.0, NotMet),
            (Rule::Ratio(0.1), 0.98, 0.995, Direction),
            (Rule::Ratio(0.1), 1.61, 3.49, Direction),
            (Rule::Ratio(0.2), 1.055, 0.95, Worse),
            (Rule::Ratio(0.2), 1.0, 1.1, Met),
            (Rule::Ratio(0.2), 1.0, 1.3, NotMet),
            (Rule::AtMost(0.1), 0.026, 0.0, Met),
            (Rule::AtMost(0.1), 0.026, 0.03, NotMet),
            (Rule::Below, 1.0, 1.0, NotMet),
            (Rule::Below, 0.95, 0.831, Met),
            (Rule::Within([0.805, 0.91]), 0.805, 0.805, Met),
            (Rule::Within([0.805, 0.91]), 0.805, 0.80, Direction),
            (Rule::Within([0.805, 0.91]), 0.91, 0.91, Met),
            (Rule::Within([0.805, 0.91]), 0.91, 0.949, Direction),
            (Rule::Within([0.805, 0.91]), 0.91, 1.002, Worse),
            (Rule::Within([0.805, 0.91]), 0.91, 1.0, NotMet),
        ] {
            assert_eq!(rule.verdict(paper, ours), verdict, "{rule:?} {paper} {ours}");
        }
        let none = Claim::new("a", "b", "c", "d", 1.0, f64::NAN, Rule::Value(1.0));
        assert_eq!((none.ours, none.verdict), (None, Verdict::NotComputed));
        // A range stands with the end that ours is nearer to.
        for (ours, end) in [(0.7, 0.805), (0.85, 0.805), (0.949, 0.91), (f64::NAN, 0.91)] {
            let claim = Claim::new("a", "b", "c", "d", f64::NAN, ours, Rule::Within([0.805, 0.91]));
            assert_eq!((claim.paper, claim.range()), (end, Some([0.805, 0.91])));
            assert!(claim.predicts());
        }
    }

    #[test]
    fn bounds_inputs_and_fits_are_no_predictions() {
        let claim = |rule| Claim::new("a", "b", "c", "d", 1.0, 1.0, rule);
        assert!(claim(Rule::Ratio(0.1)).predicts());
        assert!(!claim(Rule::Below).predicts() && !claim(Rule::AtMost(0.1)).predicts());
        assert!(!claim(Rule::Ratio(0.1)).input().predicts());
        assert!(!claim(Rule::Ratio(0.1)).fitted().predicts());
    }
}
