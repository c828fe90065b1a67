//! How long everything takes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CellKind, Geometry, PageType};

/// Which waiting operation a free die takes next.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// In the order in which they became ready.
    #[default]
    Fifo,
    /// Reads before programs and erases.
    ReadFirst,
    /// Everything that a host request waits for before background work.
    HostOverGc,
    /// Host reads, host writes, background reads, background writes.
    Priority,
}

/// Whether a host read may interrupt a running operation on its die.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Suspend {
    /// Never.
    #[default]
    None,
    /// A running erase.
    Erase,
    /// A running erase or program.
    ProgramErase,
}

/// Durations in nanoseconds, and the rules of dies and channels.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Timing {
    /// Array read time (tR) per page type, LSB first; a single value serves all types.
    pub read_ns: Vec<u64>,
    /// Array program time (tPROG) per page type, LSB first; a single value serves all types.
    pub program_ns: Vec<u64>,
    /// Block erase time (tBERS).
    pub erase_ns: u64,
    /// Transfer of one page over the channel; give this or `bus_mb_s`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub transfer_ns_per_page: Option<u64>,
    /// Channel speed in 10^6 bytes a second; give this or `transfer_ns_per_page`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bus_mb_s: Option<f64>,
    /// Command and address cycles on the channel before each operation.
    #[serde(default)]
    pub command_ns: u64,
    /// Firmware and DRAM time of a host request, beside its flash operations.
    #[serde(default)]
    pub dram_ns: u64,
    /// Move only the sectors that are asked for over the channel; false = whole pages.
    #[serde(default)]
    pub partial_transfer: bool,
    /// Which waiting operation a free die takes next.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// Whether host reads suspend a running program or erase.
    #[serde(default)]
    pub suspend: Suspend,
    /// Cost of one suspension, paid when the operation resumes.
    #[serde(default)]
    pub suspend_ns: u64,
    /// Copies within a plane stay in the chip: no channel transfer.
    #[serde(default)]
    pub copyback: bool,
    /// One array operation may cover several planes of a die.
    #[serde(default)]
    pub multi_plane: bool,
    /// Multi-plane operations need the same page number in every plane.
    #[serde(default = "yes")]
    pub multi_plane_same_offset: bool,
    /// Planes of a die read independently of each other (AIPR, independent plane reads): a read begins when its plane is
    /// free, and pages leave while other planes read. Programs and erases have the die to themselves.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub independent_plane_reads: bool,
    /// Error correction: how long after its transfer a page that was read is known to be right. Pages follow each
    /// other through the decoder without waiting.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub ecc_ns: u64,
    /// Reads that have to be repeated.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub read_retry: Option<ReadRetry>,
    /// No clocks: operations end in the order in which they may begin, 1 ns after the first of them was ordered, and no
    /// other duration counts. Mapping, placement, collection and wear are as ever; latencies mean nothing.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub untimed: bool,
}

fn is_zero(ns: &u64) -> bool {
    *ns == 0
}

fn yes() -> bool {
    true
}

/// `[timing.read_retry]`: reads that the decoder cannot correct at first, and that the array repeats.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ReadRetry {
    /// Share of the reads that have to be repeated, per page type, LSB first; a single value serves all. A
    /// repeated read fails with the same probability.
    pub share: Vec<f64>,
    /// Added to each share for every thousand erases that the block has seen.
    #[serde(default)]
    pub share_per_1000_erases: f64,
    /// How long each repetition takes in the array.
    pub ns: u64,
    /// Repetitions of one read at most.
    #[serde(default = "ReadRetry::default_most")]
    pub most: u32,
}

impl ReadRetry {
    fn default_most() -> u32 {
        8
    }

    /// Checks the settings for cells with `types` page types.
    fn validate(&self, types: usize) -> Result<(), TimingError> {
        let fail = |field, value: String, expected: String| Err(TimingError { field, value, expected });
        if self.share.len() != 1 && self.share.len() != types {
            let expected = format!("1 value, or {types} (one per page type)");
            return fail("read_retry.share", format!("{:?}", self.share), expected);
        }
        if self.share.iter().any(|share| !(0.0..=1.0).contains(share)) {
            return fail("read_retry.share", format!("{:?}", self.share), "0 to 1".into());
        }
        if !(0.0..=1.0).contains(&self.share_per_1000_erases) {
            let value = self.share_per_1000_erases.to_string();
            return fail("read_retry.share_per_1000_erases", value, "0 to 1".into());
        }
        if self.ns > LONGEST_NS / 1000 {
            return fail("read_retry.ns", self.ns.to_string(), format!("0 to {} ns", LONGEST_NS / 1000));
        }
        if !(1..=1000).contains(&self.most) {
            return fail("read_retry.most", self.most.to_string(), "1 to 1000".into());
        }
        Ok(())
    }
}

/// A timing that makes no sense: field, value and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("timing.{field} = {value}: expected {expected}")]
pub struct TimingError {
    /// Name in the device file.
    pub field: &'static str,
    /// What was given.
    pub value: String,
    /// What would do.
    pub expected: String,
}

/// No single operation may take longer: an hour.
const LONGEST_NS: u64 = 3_600_000_000_000;

impl Timing {
    /// Checks every field for cells of `kind`.
    ///
    /// # Errors
    /// The first field out of range.
    pub fn validate(&self, kind: CellKind) -> Result<(), TimingError> {
        let fail = |field, value: String, expected: String| Err(TimingError { field, value, expected });
        let types = kind.bits() as usize;
        for (field, list) in [("read_ns", &self.read_ns), ("program_ns", &self.program_ns)] {
            if list.len() != 1 && list.len() != types {
                return fail(field, format!("{list:?}"), format!("1 value, or {types} (one per page type)"));
            }
            if list.iter().any(|&t| t == 0 || t > LONGEST_NS) {
                return fail(field, format!("{list:?}"), format!("1 to {LONGEST_NS} ns"));
            }
        }
        if self.erase_ns == 0 || self.erase_ns > LONGEST_NS {
            return fail("erase_ns", self.erase_ns.to_string(), format!("1 to {LONGEST_NS} ns"));
        }
        for (field, value) in [
            ("command_ns", self.command_ns),
            ("dram_ns", self.dram_ns),
            ("suspend_ns", self.suspend_ns),
            ("ecc_ns", self.ecc_ns),
        ] {
            if value > LONGEST_NS {
                return fail(field, value.to_string(), format!("0 to {LONGEST_NS} ns"));
            }
        }
        if let Some(retry) = &self.read_retry {
            retry.validate(types)?;
        }
        match (self.transfer_ns_per_page, self.bus_mb_s) {
            (Some(_), Some(_)) | (None, None) => fail(
                "transfer_ns_per_page",
                format!("{:?}", self.transfer_ns_per_page),
                "exactly one of transfer_ns_per_page and bus_mb_s".into(),
            ),
            (Some(ns), None) if ns > LONGEST_NS => {
                fail("transfer_ns_per_page", ns.to_string(), format!("0 to {LONGEST_NS} ns"))
            }
            (None, Some(mb)) if !(0.001..=1e6).contains(&mb) => {
                fail("bus_mb_s", mb.to_string(), "0.001 to 1000000 MB/s".into())
            }
            _ => Ok(()),
        }
    }

    /// `dram_ns`, if time counts.
    #[inline]
    pub fn dram(&self) -> u64 {
        if self.untimed { 0 } else { self.dram_ns }
    }
    /// tR of a page type.
    pub fn read(&self, kind: PageType) -> u64 {
        *self.read_ns.get(kind).unwrap_or(&self.read_ns[0])
    }
    /// tPROG of a page type.
    pub fn program(&self, kind: PageType) -> u64 {
        *self.program_ns.get(kind).unwrap_or(&self.program_ns[0])
    }
    /// Channel time of `sectors` sectors, rounded to whole nanoseconds; of a whole page unless
    /// `partial_transfer`.
    pub fn transfer(&self, geometry: &Geometry, sectors: u32) -> u64 {
        let sectors = if self.partial_transfer { sectors } else { geometry.sectors_per_page() };
        match (self.transfer_ns_per_page, self.bus_mb_s) {
            (Some(ns), _) => ns * u64::from(sectors) / u64::from(geometry.sectors_per_page()),
            (None, Some(mb)) => (f64::from(sectors * geometry.sector_bytes) * 1000.0 / mb).round() as u64,
            (None, None) => 0,
        }
    }
}
