//! The papers whose evaluations can be repeated.

use nandle_lab::Error;
use serde::{Deserialize, Serialize};

/// A paper whose evaluation can be repeated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Paper {
    /// WAFLASH.
    Waflash,
    /// The PC-LRU poster.
    PcLruPoster,
    /// PAPA.
    Papa,
    /// Across-FTL, ICPP 2023.
    Across,
    /// FlashAlloc, PVLDB 16(11), 2023.
    Flashalloc,
    /// None of them: drives that were measured.
    RealDrives,
    /// None of them: all schemes together, on the papers' own workloads.
    Ablation,
}

/// What `nandle reproduce` calls each, and one line on it.
const NAMED: [(Paper, &str, &str); 7] = [
    (Paper::Waflash, "waflash", "WAFLASH: partial pages wait, are written as versions, and share pages"),
    (Paper::PcLruPoster, "pc-lru-poster", "PC-LRU (poster): full pages leave the write buffer first"),
    (Paper::Papa, "papa", "PAPA: partial pages on fast page types"),
    (Paper::Across, "across", "Across-FTL: across-page requests in areas of their own"),
    (Paper::Flashalloc, "flashalloc", "FlashAlloc: blocks dedicated to objects"),
    (
        Paper::RealDrives,
        "real-drives",
        "Real drives: write amplification, throughput and latency as measured",
    ),
    (
        Paper::Ablation,
        "ablation",
        "All schemes together: every set of them on each paper's own workload and metric",
    ),
];

impl Paper {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Self> {
        NAMED.iter().map(|(paper, ..)| *paper)
    }

    fn named_as(self) -> (&'static str, &'static str) {
        let found = NAMED.iter().find(|(paper, ..)| *paper == self);
        found.map(|(_, name, title)| (*name, *title)).expect("every paper has a name")
    }

    /// What `nandle reproduce` calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.named_as().0
    }

    /// One line on it.
    #[must_use]
    pub fn title(self) -> &'static str {
        self.named_as().1
    }

    /// The paper called `name`.
    ///
    /// # Errors
    /// If there is none.
    pub fn named(name: &str) -> Result<Self, Error> {
        Self::all().find(|p| p.name() == name).ok_or_else(|| {
            let names: Vec<&str> = Self::all().map(Self::name).collect();
            Error::Input(format!("{name}: no paper of that name; expected one of {}", names.join(", ")))
        })
    }
}
