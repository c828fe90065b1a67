//! A flash operation, as those see it who ask what the drive did.

use nandle_nand::{Cause, Kind, Ppn, Time};

/// A flash operation that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Read, program or erase.
    pub kind: Kind,
    /// On whose account.
    pub cause: Cause,
    /// The page, or the first page of the block that was erased.
    pub ppn: Ppn,
    /// When a die first worked on it, in nanoseconds.
    pub started: Time,
    /// When it was over.
    pub ended: Time,
    /// The host's name for the request that waited for it, if one did. The reads of a
    /// read-modify-write are waited for by its program.
    pub request: Option<u64>,
}
