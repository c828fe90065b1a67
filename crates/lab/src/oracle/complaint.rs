//! What the oracle has to say against a drive.

use std::fmt;

use nandle_ssd::{Op, Status};

use super::rules::Allowed;

/// Something that no correct drive does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// The request, unless it is about what was read back after a power cut.
    pub id: Option<u64>,
    /// The sector, or the first one of the request.
    pub lsn: u64,
    /// What is wrong.
    pub fault: Fault,
}

/// What a sector was found to hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// Zeros.
    Nothing,
    /// This write to it.
    Write(u64),
    /// What no write ever gave to this sector.
    Foreign,
}

/// What is wrong, and what would have been right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No such request is under way: it was never submitted, was answered before, or ended with the power.
    NotUnderWay {
        /// The answer.
        status: Status,
    },
    /// The host gave two requests the same id at a time.
    IdInUse,
    /// The drive is at rest, and the request has no answer.
    NeverAnswered,
    /// The drive may not answer this request so.
    Status {
        /// What was asked for.
        op: Op,
        /// The answer.
        found: Status,
        /// What it may be.
        expected: Allowed,
    },
    /// Too many or too few bytes came with the answer.
    Length {
        /// Bytes that came.
        found: u64,
        /// Bytes that should have.
        expected: u64,
    },
    /// A media error that names no sector.
    NothingUnreadable,
    /// A range of unreadable sectors that is empty, outside of the request, not behind the one before, or
    /// reported without a media error.
    Unreadable {
        /// Sectors of the range.
        sectors: u64,
    },
    /// The sector is none of the writes that it may be.
    Contents {
        /// What it is.
        found: Found,
        /// Oldest and newest write that it may be.
        expected: (u64, u64),
    },
    /// After a power cut the sector is older than what was durable, or what nobody wrote.
    Lost {
        /// What it is.
        found: Found,
        /// The durable write, and the newest one.
        expected: (u64, u64),
    },
    /// What was read back after a power cut is not the whole device.
    ReadBack {
        /// Bytes that came.
        found: u64,
        /// Bytes of the device.
        expected: u64,
    },
}

impl Complaint {
    /// Whether it is about what a sector holds, not about the completion.
    pub(super) fn of_contents(&self) -> bool {
        matches!(self.fault, Fault::Contents { .. } | Fault::Lost { .. })
    }
}

impl fmt::Display for Complaint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.id {
            Some(id) => write!(f, "request {id}, sector {}: {}", self.lsn, self.fault),
            None => write!(f, "after a power cut, sector {}: {}", self.lsn, self.fault),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotUnderWay { status } => {
                write!(f, "answered {status:?}, expected no answer: it is not under way")
            }
            Self::IdInUse => write!(f, "submitted while a request of the same id is under way"),
            Self::NeverAnswered => write!(f, "never answered"),
            Self::Status { op, found, expected } => {
                write!(f, "{op:?} answered {found:?}, expected {expected}")
            }
            Self::Length { found, expected } => write!(f, "{found} bytes returned, expected {expected}"),
            Self::NothingUnreadable => write!(f, "a media error that names no sector"),
            Self::Unreadable { sectors } => {
                write!(f, "{sectors} sectors from here reported as unreadable, expected none")
            }
            Self::Contents { found, expected: (least, most) } => {
                write!(f, "{found} found, expected writes {least} to {most}")
            }
            Self::Lost { found, expected: (least, most) } => {
                write!(f, "{found} found, expected writes {least} (durable) to {most}")
            }
            Self::ReadBack { found, expected } => {
                write!(f, "{found} bytes read back, expected {expected}, the whole device")
            }
        }
    }
}

impl fmt::Display for Found {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Nothing => write!(f, "nothing"),
            Self::Write(stamp) => write!(f, "write {stamp}"),
            Self::Foreign => write!(f, "what was never written there"),
        }
    }
}
