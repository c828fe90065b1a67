//! What a transport sees of the drive: a shape, and a queue that takes requests.

use std::sync::mpsc::{Receiver, Sender, SyncSender, sync_channel};
use std::time::Instant;

use nandle_ssd::Ssd;
use nandle_ssd::nand::Time;

use crate::Report;

/// A request in bytes, anywhere on the device: [`crate::plan`] makes whole sectors of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Io {
    /// Return bytes.
    Read {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u32,
    },
    /// Store bytes.
    Write {
        /// First byte.
        offset: u64,
        /// What to store.
        data: Vec<u8>,
        /// Durable before it is answered.
        fua: bool,
        /// Host stream or placement identifier; 0 for none.
        stream: u16,
    },
    /// Forget the whole sectors within; what is read there afterwards is zero.
    Trim {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// Durable before it is answered.
        fua: bool,
    },
    /// Store zeros.
    Zero {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u64,
        /// The drive may forget the sectors instead of programming zeros.
        may_trim: bool,
        /// Durable before it is answered.
        fua: bool,
    },
    /// Make durable whatever was answered before.
    Flush,
    /// FlashAlloc: these ranges (first byte, bytes), of whole sectors, belong to one object.
    FlashAlloc {
        /// The ranges.
        ranges: Vec<(u64, u64)>,
    },
    /// FlashFree: the objects that have some of these ranges' sectors are at their end; their pages stay.
    FlashFree {
        /// The ranges.
        ranges: Vec<(u64, u64)>,
    },
    /// FDP: these handles go on to their next reclaim unit.
    NextUnits {
        /// The handles.
        handles: Vec<u16>,
    },
}

/// Why a request failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Fault {
    /// It reaches beyond the end of the device.
    OutOfRange,
    /// The flash is worn out: no more writes.
    ReadOnly,
    /// The drive does not know the command.
    Unsupported,
    /// The flash cannot return some of the sectors.
    Media,
    /// FlashAlloc: an object has some of the sectors already.
    Overlap,
    /// FlashAlloc: more ranges than the drive takes.
    TooManyRanges,
    /// FlashAlloc: there are no clean blocks for the object.
    NoCleanBlocks,
    /// The image file cannot be written: nothing can be promised any more.
    Image,
    /// The server is shutting down.
    Gone,
}

/// What a read returned (empty for everything else), or why the request failed.
pub type Outcome = Result<Vec<u8>, Fault>;

pub(crate) type Reply = Box<dyn FnOnce(Outcome) + Send>;

/// A request on its way to the driver.
pub(crate) struct Job {
    /// When the transport had it whole.
    pub arrival: Time,
    pub io: Io,
    pub reply: Reply,
}

pub(crate) enum Message {
    Job(Job),
    Report(Sender<Report>),
    Inspect(Box<dyn FnOnce(&Ssd) + Send>),
    Stop,
}

/// Sizes that transports announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of the device.
    pub bytes: u64,
    /// Smaller requests cost a read-modify-write of this many bytes.
    pub sector_bytes: u32,
    /// The flash page: smaller requests may cost a read-modify-write in the drive.
    pub page_bytes: u32,
    /// Requests that the drive works on at a time.
    pub queue_depth: u32,
}

/// The wall clock, as the drive's time: nanoseconds since it was switched on.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    start: Instant,
}

impl Clock {
    pub(crate) fn started() -> Self {
        Self { start: Instant::now() }
    }

    /// Nanoseconds since the drive was switched on.
    #[must_use]
    pub fn now(&self) -> Time {
        u64::try_from(self.start.elapsed().as_nanos()).unwrap_or(u64::MAX)
    }
}

/// A handle to the drive, for transports; a clone is another handle to the same drive.
#[derive(Clone, Debug)]
pub struct Device {
    sender: SyncSender<Message>,
    shape: Shape,
    clock: Clock,
}

/// Requests on their way to the driver before a transport is made to wait.
const QUEUE: usize = 1024;

impl Device {
    pub(crate) fn channel(shape: Shape, clock: Clock) -> (Self, Receiver<Message>) {
        let (sender, receiver) = sync_channel(QUEUE);
        (Self { sender, shape, clock }, receiver)
    }

    /// Sizes that transports announce.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Hands a request over, waiting while too many are on their way. `reply` is called once, on
    /// the driver's thread, and must not block.
    pub fn submit(&self, io: Io, reply: impl FnOnce(Outcome) + Send + 'static) {
        let job = Job { arrival: self.clock.now(), io, reply: Box::new(reply) };
        if let Err(failed) = self.sender.send(Message::Job(job))
            && let Message::Job(job) = failed.0
        {
            (job.reply)(Err(Fault::Gone));
        }
    }

    /// What the drive has done so far; none if it is gone.
    #[must_use]
    pub fn report(&self) -> Option<Report> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.sender.send(Message::Report(sender)).ok()?;
        receiver.recv().ok()
    }

    /// Has `look` called on the driver's thread, between two requests; it must not block. If the drive
    /// is gone `look` is dropped.
    pub fn inspect(&self, look: impl FnOnce(&Ssd) + Send + 'static) {
        let _ = self.sender.send(Message::Inspect(Box::new(look)));
    }

    /// Asks the drive to finish what it has, flush, and end. Returns at once.
    pub fn stop(&self) {
        let _ = self.sender.send(Message::Stop);
    }
}
