//! What a served drive can be told to do while it is used: to fail, to slow down, to be copied; and what it answers.

use std::path::PathBuf;

use nandle_io::Op;
use nandle_ssd::nand::Time;
use serde::{Deserialize, Serialize};

/// A command that faults are for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Reads.
    Read,
    /// Writes, of zeros too.
    Write,
    /// Discards.
    Trim,
    /// Flushes.
    Flush,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Read, Self::Write, Self::Trim, Self::Flush];

    /// The drive's name for it.
    #[must_use]
    pub const fn op(self) -> Op {
        match self {
            Self::Read => Op::Read,
            Self::Write => Op::Write,
            Self::Trim => Op::Trim,
            Self::Flush => Op::Flush,
        }
    }
}

/// What is asked of the drive.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "order", rename_all = "kebab-case", deny_unknown_fields)]
pub enum Order {
    /// Say which faults there are.
    Show,
    /// Commands of these kinds reach the drive so many nanoseconds late: the next `requests`, or all.
    Latency {
        /// Nanoseconds; 0 ends it.
        ns: Time,
        /// Which commands.
        of: Vec<Kind>,
        /// How many; all from now on if not given.
        requests: Option<u64>,
    },
    /// Commands of this kind fail and do nothing: the next `requests`, or all.
    Fail {
        /// Which commands.
        of: Kind,
        /// How many; all from now on if not given.
        requests: Option<u64>,
    },
    /// What the flash holds of these bytes cannot be corrected any more, until it is written again.
    MediaError {
        /// First byte.
        offset: u64,
        /// How many; all sectors that they touch.
        bytes: u64,
    },
    /// A die answers no more, for as long as the drive is on.
    Die {
        /// Its number.
        die: u32,
    },
    /// The drive takes no writes.
    ReadOnly {
        /// Or takes them again.
        on: bool,
    },
    /// There is no room for what is written.
    Full {
        /// Or there is again.
        on: bool,
    },
    /// Commands are on time and none fails, the drive takes writes and has room. What the flash lost stays lost.
    Clear,
    /// A new image: what a power cut at this moment would leave.
    Snapshot {
        /// Where; there must be no such file.
        file: PathBuf,
        /// Flush first: everything that was answered is in it.
        flush: bool,
    },
    /// Cut the power, and end.
    PowerCut,
}

/// Commands that are late, or fail.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Late {
    /// Which commands.
    pub of: Kind,
    /// How late in nanoseconds; 0 of those that fail.
    pub ns: Time,
    /// How many more; none for all.
    pub requests_left: Option<u64>,
}

/// The faults that there are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Standing {
    /// Commands that are late.
    pub latency: Vec<Late>,
    /// Commands that fail.
    pub fail: Vec<Late>,
    /// The drive was told to take no writes.
    pub read_only: bool,
    /// There is no room.
    pub full: bool,
    /// Dies that answer no more.
    pub dies_gone: Vec<u32>,
    /// Sectors that were made unreadable so far.
    pub sectors_lost: u64,
}

/// What came of an order.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Answer {
    /// It was carried out: what was done, and the faults that there are now.
    Done {
        /// In words.
        said: String,
        /// All of them.
        faults: Standing,
    },
    /// It makes no sense, or cannot be done here: why.
    Refused(String),
}

impl Answer {
    /// The drive has ended.
    #[must_use]
    pub fn gone() -> Self {
        Self::Refused("the drive is shutting down".into())
    }
}
