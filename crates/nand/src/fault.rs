//! Faults: programs and erases that fail, reads that return nothing.
//!
//! A fault is a property of the flash, drawn from a stream of its own or named by the number of the
//! operation; what the drive makes of it is the drive's affair.

use nandle_random::Stream;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[faults]`: which operations fail. The settings of operations are their numbers, counted from 1
/// since power-on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct FaultConfig {
    /// Probability that a program fails (0 to 0.5).
    pub program_rate: f64,
    /// Probability that an erase fails (0 to 0.5).
    pub erase_rate: f64,
    /// Probability that a read of a data page is uncorrectable, from then on and for good (0 to 0.5).
    pub read_rate: f64,
    /// Programs that fail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<u64>,
    /// Erases that fail.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub erases: Vec<u64>,
    /// Reads of data pages that are uncorrectable.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub reads: Vec<u64>,
}

impl FaultConfig {
    /// Whether anything can fail.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
    /// Whether programs can.
    pub fn fail_programs(&self) -> bool {
        self.program_rate > 0.0 || !self.programs.is_empty()
    }
}

/// What can fail, counted.
#[derive(Clone, Debug)]
pub(crate) struct Lot {
    rate: f64,
    numbers: Vec<u64>,
    count: u64,
}

impl Lot {
    fn new(rate: f64, numbers: &[u64]) -> Self {
        Self { rate, numbers: numbers.to_vec(), count: 0 }
    }
    /// Whether the next operation fails.
    pub fn draw(&mut self, stream: &mut Stream) -> bool {
        self.count += 1;
        self.numbers.contains(&self.count) | (self.rate > 0.0 && stream.chance(self.rate))
    }
}

/// The faults to come.
#[derive(Clone, Debug)]
pub(crate) struct Faults {
    pub stream: Stream,
    pub programs: Lot,
    pub erases: Lot,
    pub reads: Lot,
    /// Dies that answer no more.
    pub gone: Vec<u32>,
}

impl Faults {
    pub fn new(config: &FaultConfig, seed: u64) -> Self {
        Self {
            stream: Stream::new(seed, "faults"),
            programs: Lot::new(config.program_rate, &config.programs),
            erases: Lot::new(config.erase_rate, &config.erases),
            reads: Lot::new(config.read_rate, &config.reads),
            gone: Vec::new(),
        }
    }
    /// Whether `die` answers no more.
    pub fn is_gone(&self, die: u32) -> bool {
        self.gone.contains(&die)
    }
}
