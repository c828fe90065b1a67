//! Faults on order, while the drive is served: a socket in the file system, at which one line of JSON is an [`Order`] and
//! the next one the [`Answer`].
//!
//! Faults of commands (late, failed, no room) and write protection are the server's: [`crate::driver`] has them
//! before the drive sees the command. Faults of the flash (sectors, dies) are the drive's own, in its image too.

mod snapshot;

use std::io::{self, BufRead, BufReader, Read};
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use nandle_lab::config::Drive;

use crate::deadline::{Timed, send_all};
use crate::listen::{Clients, Listening, Manner, Place, Stream};
use crate::order::{Answer, Order};
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
                order => device.order(order).unwrap_or_else(Answer::gone),
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

/// Hears orders until the client has no more.
fn converse(stream: &Stream, carry_out: &dyn Fn(Order) -> Answer, settled: &dyn Fn()) -> io::Result<()> {
    // Orders that came together are carried out one after the other.
    let mut reader = BufReader::new(Timed::until(stream, Instant::now()));
    loop {
        let mut line = String::new();
        reader.get_mut().give_until(Instant::now() + PATIENCE);
        if reader.by_ref().take(MOST_ORDER).read_line(&mut line)? == 0 {
            return Ok(());
        }
        settled();
        let too_long = line.len() as u64 == MOST_ORDER && !line.ends_with('\n');
        let answer = match serde_json::from_str(&line) {
            _ if too_long => Answer::Refused(format!("an order of more than {MOST_ORDER} bytes")),
            Ok(order) => carry_out(order),
            Err(e) => Answer::Refused(format!("an order that is not understood: {e}")),
        };
        let mut text = serde_json::to_string(&answer)?;
        text.push('\n');
        send_all(stream, text.as_bytes(), Instant::now() + PATIENCE)?;
        if too_long {
            return Ok(());
        }
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
