//! Faults on order, while the drive is served: a socket in the file system, at which one line of JSON is an [`Order`] and
//! the next one the [`Answer`].
//!
//! Faults of commands (late, failed, no room) and write protection are the server's: [`crate::driver`] has them
//! before the drive sees the command. Faults of the flash (sectors, dies) are the drive's own, in its image too.

mod snapshot;

use std::io::{self, BufRead, BufReader, Read};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nandle_io::Op;
use nandle_lab::config::Drive;
use nandle_ssd::nand::Time;
use serde::{Deserialize, Serialize};

use crate::deadline::{Timed, send_all};
use crate::listen::{Clients, Listening, Manner, Place, Stream};
use crate::{Device, Error};

/// Clients at a time.
const MOST_CLIENTS: usize = 16;
/// Bytes of an order.
const MOST_ORDER: u64 = 64 << 10;
/// Bytes of an answer.
const MOST_ANSWER: u64 = 1 << 20;
/// How long an order may take to come, and its answer to leave.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long an order may take: a snapshot writes a file.
const LONGEST: Duration = Duration::from_secs(3600);

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

/// A control socket, until dropped.
pub struct Server {
    listening: Listening<()>,
}

impl Server {
    /// Listens at `path`, with these permissions, for orders to `device`, which is `drive` with this seed.
    ///
    /// # Errors
    /// If the socket cannot be had.
    pub fn start(path: &Path, mode: u32, device: &Device, drive: &Drive, seed: u64) -> Result<Self, Error> {
        let manner = Manner { option: "--ctl", thread: "ctl", most: MOST_CLIENTS };
        let place = Place::Unix { path: path.to_owned(), mode };
        let (device, drive) = (device.clone(), drive.clone());
        let serve = move |stream: &Arc<Stream>, slot, clients: &Clients<()>| {
            let carry_out = |order| match order {
                Order::Snapshot { file, flush } => snapshot::take(&device, &drive, seed, &file, flush),
                order => device.order(order).unwrap_or_else(gone),
            };
            let _ = converse(stream, &carry_out, &|| clients.settled(slot));
        };
        Ok(Self { listening: Listening::start(&place, manner, serve)? })
    }

    /// Where it listens.
    #[must_use]
    pub fn path(&self) -> Option<&Path> {
        match self.listening.place() {
            Place::Unix { path, .. } => Some(path),
            Place::Tcp(_) => None,
        }
    }
}

/// The drive has ended.
fn gone() -> Answer {
    Answer::Refused("the drive is shutting down".into())
}

/// Hears orders until the client has no more.
fn converse(stream: &Stream, carry_out: &dyn Fn(Order) -> Answer, settled: &dyn Fn()) -> io::Result<()> {
    loop {
        let mut line = String::new();
        let mut reader = BufReader::new(Timed::until(stream, Instant::now() + PATIENCE)).take(MOST_ORDER);
        if reader.read_line(&mut line)? == 0 {
            return Ok(());
        }
        settled();
        let answer = match serde_json::from_str(&line) {
            Ok(order) => carry_out(order),
            Err(e) => Answer::Refused(format!("an order that is not understood: {e}")),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        send_all(stream, text.as_bytes(), Instant::now() + PATIENCE)?;
    }
}

/// Has the drive at the socket `path` carry an order out.
///
/// # Errors
/// If nobody hears it there, or the answer is none.
pub fn ask(path: &Path, order: &Order) -> io::Result<Answer> {
    let place = Place::Unix { path: path.to_owned(), mode: 0 };
    let stream = place.connect(Instant::now() + PATIENCE)?;
    let mut text = serde_json::to_string(order)?;
    text.push('\n');
    send_all(&stream, text.as_bytes(), Instant::now() + PATIENCE)?;
    let mut line = String::new();
    BufReader::new(Timed::until(&stream, Instant::now() + LONGEST)).take(MOST_ANSWER).read_line(&mut line)?;
    if line.is_empty() {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "the server went away without an answer"));
    }
    Ok(serde_json::from_str(&line)?)
}
