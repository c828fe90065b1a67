//! What is asked of the drive: requests in bytes, on their way and answered.

use std::sync::Arc;
use std::sync::mpsc::Sender;

use nandle_io::{Op, Status};
use nandle_lab::measure::Summary;

use crate::Report;
use crate::clients::{Arrival, Client, Due};
use crate::live::snapshot::Snapshot;
use crate::order::{Answer, Order};

/// A request in bytes, anywhere on the device: [`crate::plan`] makes commands in whole sectors of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Io {
    /// What is asked for.
    pub op: Op,
    /// First byte.
    pub offset: u64,
    /// Bytes; 0 for a flush.
    pub bytes: u64,
    /// As of [`nandle_io::Command`], but that a write without any stores zeros.
    pub data: Vec<u8>,
    /// Durable before it is answered.
    pub fua: bool,
    /// Host stream or placement identifier of a write; 0 for none.
    pub stream: u16,
    /// Of a trim: what is no whole sector becomes zero too, instead of staying as it is.
    pub exact: bool,
}

impl Io {
    fn new(op: Op, offset: u64, bytes: u64) -> Self {
        Self { op, offset, bytes, data: Vec::new(), fua: false, stream: 0, exact: false }
    }

    /// Return bytes.
    #[must_use]
    pub fn read(offset: u64, bytes: u64) -> Self {
        Self::new(Op::Read, offset, bytes)
    }

    /// Store bytes.
    #[must_use]
    pub fn write(offset: u64, data: Vec<u8>) -> Self {
        Self { bytes: data.len() as u64, data, ..Self::new(Op::Write, offset, 0) }
    }

    /// Forget the whole sectors within; what is read there afterwards is zero.
    #[must_use]
    pub fn trim(offset: u64, bytes: u64) -> Self {
        Self::new(Op::Trim, offset, bytes)
    }

    /// Store zeros; with `may_trim` the drive may forget the sectors instead of programming them.
    #[must_use]
    pub fn zeros(offset: u64, bytes: u64, may_trim: bool) -> Self {
        let op = if may_trim { Op::Trim } else { Op::Write };
        Self { exact: may_trim, ..Self::new(op, offset, bytes) }
    }

    /// Make durable whatever was answered before.
    #[must_use]
    pub fn flush() -> Self {
        Self::new(Op::Flush, 0, 0)
    }

    /// FlashAlloc: whole sectors belong to one object.
    #[must_use]
    pub fn object(offset: u64, bytes: u64) -> Self {
        Self::new(Op::FlashAlloc, offset, bytes)
    }

    /// FlashAlloc: the ranges of a list ([`nandle_io::encode`]) belong to one object.
    #[must_use]
    pub fn object_of(list: Vec<u8>) -> Self {
        Self { data: list, ..Self::object(0, 0) }
    }

    /// FlashFree: the objects that have some of the sectors are at their end; their pages stay.
    #[must_use]
    pub fn object_ends(offset: u64, bytes: u64) -> Self {
        Self::new(Op::FlashFree, offset, bytes)
    }

    /// The same, durable before it is answered or not.
    #[must_use]
    pub fn fua(self, fua: bool) -> Self {
        Self { fua, ..self }
    }

    /// The same of a host stream.
    #[must_use]
    pub fn stream(self, stream: u16) -> Self {
        Self { stream, ..self }
    }

    /// Bytes that it or its answer takes.
    #[must_use]
    pub fn weight(&self) -> u64 {
        match self.op {
            Op::Read => self.bytes,
            _ => self.data.len() as u64,
        }
    }
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// The drive ended it so, and not with [`Status::Ok`].
    Drive(Status),
    /// The image file cannot be written: nothing can be promised any more.
    Image,
    /// The server is shutting down.
    Gone,
    /// It was ordered to fail ([`crate::ctl`]).
    Failed,
    /// There was ordered to be no room.
    Full,
}

impl std::fmt::Display for Fault {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Drive(status) => status.fmt(f),
            Self::Image => f.write_str("the image cannot be written"),
            Self::Gone => f.write_str("shutting down"),
            Self::Failed => f.write_str("the drive failed"),
            Self::Full => f.write_str("there is no room"),
        }
    }
}

/// What a read returned (empty for everything else), or why the request failed.
pub type Outcome = Result<Vec<u8>, Fault>;

/// What is done with the outcome, and when it should have left: that is known in real time alone, and where the drive
/// was asked.
pub(crate) type Reply = Box<dyn FnOnce(Outcome, Option<Due>) + Send>;

/// A request on its way to the driver.
pub(crate) struct Job {
    /// When it came.
    pub came: Arrival,
    pub client: Arc<Client>,
    pub io: Io,
    pub reply: Reply,
}

/// What is asked of the driver itself.
pub(crate) enum Message {
    Report(Sender<Report>),
    Snapshot(Sender<Snapshot>),
    Summary(Sender<Box<Summary>>),
    Order(Order, Sender<Answer>),
}
