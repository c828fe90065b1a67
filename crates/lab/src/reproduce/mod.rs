//! The papers' experiments, and what becomes of their claims here.

pub mod across;
pub mod flashalloc;
pub mod papa;

/// A figure that a paper publishes, beside ours.
#[derive(Clone, Debug, PartialEq)]
pub struct Claim {
    /// Its name.
    pub id: &'static str,
    /// Figure or section of the paper.
    pub place: &'static str,
    /// What is measured.
    pub what: String,
    /// The paper's figure.
    pub paper: f64,
    /// Ours.
    pub ours: f64,
    /// What may lie between the two: a share of the paper's figure, or points of a share.
    pub tolerance: Tolerance,
}

/// How far a reproduction may be off.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Tolerance {
    /// Relative to the paper's figure.
    Relative(f64),
    /// Absolute.
    Points(f64),
}

impl Claim {
    /// Whether ours is near enough.
    pub fn met(&self) -> bool {
        let off = (self.ours - self.paper).abs();
        match self.tolerance {
            Tolerance::Relative(share) => off <= share * self.paper.abs(),
            Tolerance::Points(points) => off <= points,
        }
    }
}
