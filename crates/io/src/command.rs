//! A command in sectors, and its end.

use alloc::vec::Vec;
use core::fmt;

use crate::{Op, Range};

/// A host request, in sectors.
#[derive(Clone, Copy, Debug)]
pub struct Command<'a> {
    /// The host's name for it, handed back on completion.
    pub id: u64,
    /// What is asked for.
    pub op: Op,
    /// First sector.
    pub lsn: u64,
    /// Sectors; 0 for a flush.
    pub sectors: u64,
    /// Durable before it completes (writes).
    pub fua: bool,
    /// Host stream.
    pub stream: u16,
    /// Contents of a write, as many bytes a sector as the drive keeps; empty if contents are not
    /// modelled. Of a FlashAlloc: its ranges as [`crate::encode`] lays them out; empty if it has one,
    /// which `lsn` and `sectors` name.
    pub data: &'a [u8],
}

impl Command<'_> {
    /// The ranges that it names.
    ///
    /// # Errors
    /// [`Status::OutOfRange`] if a FlashAlloc's data are no whole ranges.
    pub fn ranges(&self) -> Result<Vec<Range>, Status> {
        let listed = if self.op == Op::FlashAlloc { self.data } else { &[] };
        Range::list(self.lsn, self.sectors, listed)
    }
}

/// How a request ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Status {
    /// Done.
    Ok,
    /// Beyond the device's last sector, or of no length.
    OutOfRange,
    /// The flash is worn out: no more writes.
    ReadOnly,
    /// FlashAlloc: a live instance has some of the sectors.
    Overlap,
    /// FlashAlloc: more ranges than the drive takes.
    TooManyRanges,
    /// FlashAlloc: no clean blocks can be had without giving up what the drive needs itself.
    NoCleanBlocks,
    /// The drive's stream policy does not know the command.
    Unsupported,
    /// The flash did not return some of the sectors: see [`Completion::unreadable`].
    MediaError,
}

impl Status {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Ok,
        Self::OutOfRange,
        Self::ReadOnly,
        Self::Overlap,
        Self::TooManyRanges,
        Self::NoCleanBlocks,
        Self::Unsupported,
        Self::MediaError,
    ];

    /// The name in files and for programs.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Ok => "ok",
            Self::OutOfRange => "out-of-range",
            Self::ReadOnly => "read-only",
            Self::Overlap => "overlap",
            Self::TooManyRanges => "too-many-ranges",
            Self::NoCleanBlocks => "no-clean-blocks",
            Self::Unsupported => "unsupported",
            Self::MediaError => "media-error",
        }
    }
}

/// What it means to whoever asked.
impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ok => "done",
            Self::OutOfRange => "beyond the end of the device, or of no length",
            Self::ReadOnly => "the flash is worn out: no more writes",
            Self::Overlap => "an object has some of the sectors already",
            Self::TooManyRanges => "more ranges than the drive takes",
            Self::NoCleanBlocks => "the drive has no clean blocks for it",
            Self::Unsupported => "the drive's stream policy does not know the command",
            Self::MediaError => "the flash cannot return the data",
        })
    }
}

/// A request is complete.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Completion {
    /// The host's name for it.
    pub id: u64,
    /// When: nanoseconds of the drive's time.
    pub at: u64,
    /// How.
    pub status: Status,
    /// What a read returned, as many bytes a sector as the drive keeps; zeros where nothing is stored.
    pub data: Vec<u8>,
    /// Of a read with [`Status::MediaError`]: the sectors that the flash did not return, as (first,
    /// how many), ascending. The others are as they should be.
    pub unreadable: Vec<(u64, u64)>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn every_status_has_a_name_and_a_text_of_its_own() {
        for (n, status) in Status::ALL.into_iter().enumerate() {
            for other in &Status::ALL[..n] {
                assert_ne!(status.name(), other.name());
                assert_ne!(status.to_string(), other.to_string());
            }
        }
    }
}
