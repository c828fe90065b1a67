//! Sockets: a thread that accepts, and two threads for each client.
//!
//! The reader waits while too much of its client's is under way, so neither a fast nor a silent
//! client takes more than 64 MiB and a request.

use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::Shutdown;
use std::str::FromStr;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::time::Duration;

use super::session::{Action, Session};
use crate::gate::Gate;
use crate::listen::{Listening, Manner, Place, Stream};
use crate::{Device, Error, Io, plan};

/// Clients at a time; further ones are turned away.
pub const MOST_CLIENTS: usize = 64;
/// How long a client may think between two messages of the negotiation.
const NEGOTIATION: Duration = Duration::from_secs(20);
/// The port that NBD has from IANA.
const PORT: u16 = 10809;

/// Where to listen: `unix:PATH` or a path with a slash, `HOST:PORT`, `:PORT`, `PORT` or `HOST`;
/// loopback if no host is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Address(pub Place);

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Place::parse(text, PORT).map(Self)
    }
}

impl fmt::Display for Address {
    /// As a URI that NBD clients take.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Tcp(address) => write!(f, "nbd://{address}"),
            Place::Unix(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
        }
    }
}

/// What is sent to a client: bytes, and how much room they give back.
struct Outgoing {
    head: Vec<u8>,
    data: Vec<u8>,
    room: Option<u64>,
}

struct Shared {
    device: Device,
    description: String,
}

/// A port or socket at which clients are served, until dropped.
pub struct Server {
    listening: Listening<()>,
}

impl Server {
    /// Listens at `address` and serves whoever comes, until dropped.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn start(address: &Address, device: Device, description: &str) -> Result<Self, Error> {
        let shared = Shared { device, description: description.to_owned() };
        let manner = Manner { option: "--nbd", thread: "nbd", most: MOST_CLIENTS };
        let serve = move |stream: &Stream, _, _: &_| {
            let _ = converse(stream, &shared);
        };
        Ok(Self { listening: Listening::start(&address.0, manner, serve)? })
    }

    /// Where it listens, with the port that was chosen if 0 was asked for.
    #[must_use]
    pub fn address(&self) -> Address {
        Address(self.listening.place().clone())
    }
}

/// A client, from greeting to farewell.
fn converse(stream: &Stream, shared: &Shared) -> io::Result<()> {
    let (mut session, greeting) = Session::new(shared.device.shape(), &shared.description);
    let (to_client, outgoing) = channel();
    let gate = Arc::new(Gate::default());
    std::thread::scope(|scope| {
        let room = &gate;
        let writer = scope.spawn(move || write(stream, &outgoing, room));
        let _ = to_client.send(Outgoing { head: greeting, data: vec![], room: None });
        let result = listen(stream, &mut session, shared, &to_client, &gate);
        // The writer ends when the last answer under way has been sent.
        drop(to_client);
        let written = writer.join().unwrap_or(Ok(()));
        result.and(written)
    })
}

fn listen(
    stream: &Stream,
    session: &mut Session,
    shared: &Shared,
    to_client: &Sender<Outgoing>,
    gate: &Arc<Gate>,
) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    stream.read_timeout(Some(NEGOTIATION))?;
    let mut negotiating = true;
    loop {
        if negotiating && session.is_transmitting() {
            negotiating = false;
            stream.read_timeout(None)?;
        }
        let wanted = session.want();
        if wanted == 0 {
            return Ok(());
        }
        // Grown as the bytes come: a length alone takes no memory.
        let mut bytes = Vec::with_capacity(wanted.min(1 << 20));
        if (&mut reader).take(wanted as u64).read_to_end(&mut bytes)? < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for action in session.take(bytes) {
            match action {
                Action::Send(head) => {
                    gate.enter(0);
                    let _ = to_client.send(Outgoing { head, data: vec![], room: Some(0) });
                }
                Action::Close => return Ok(()),
                Action::Status { ticket, offset, bytes, most } => {
                    gate.enter(0);
                    let (to_client, shape) = (to_client.clone(), shared.device.shape());
                    shared.device.inspect(move |ssd| {
                        let head = ticket.extents(&plan::stored(ssd, &shape, offset, bytes, most));
                        let _ = to_client.send(Outgoing { head, data: vec![], room: Some(0) });
                    });
                }
                Action::Submit(ticket, io) => {
                    let room = match &io {
                        Io::Read { bytes, .. } => u64::from(*bytes),
                        Io::Write { data, .. } => data.len() as u64,
                        _ => 0,
                    };
                    gate.enter(room);
                    let to_client = to_client.clone();
                    shared.device.submit(io, move |outcome| {
                        let (head, data) = ticket.answer(outcome);
                        // A client that has gone needs no answer.
                        let _ = to_client.send(Outgoing { head, data, room: Some(room) });
                    });
                }
            }
        }
    }
}

/// Sends what comes, until nothing more can come. After a failure it only makes room.
fn write(stream: &Stream, outgoing: &Receiver<Outgoing>, gate: &Gate) -> io::Result<()> {
    let mut writer = BufWriter::with_capacity(64 << 10, stream);
    let mut result = Ok(());
    loop {
        let next = match outgoing.try_recv() {
            Ok(next) => Some(next),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                if result.is_ok() {
                    result = writer.flush();
                }
                outgoing.recv().ok()
            }
        };
        if let Some(Outgoing { head, data, room }) = next {
            if result.is_ok() {
                result = writer.write_all(&head).and_then(|()| writer.write_all(&data));
            }
            if let Some(room) = room {
                gate.leave(room);
            }
            if result.is_err() {
                stream.shut(Shutdown::Both);
            }
        } else {
            return result.and_then(|()| writer.flush());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_as_uris() {
        let shown = |text: &str| text.parse::<Address>().map(|a| a.to_string());
        assert_eq!(shown("localhost").as_deref(), Ok("nbd://127.0.0.1:10809"));
        assert_eq!(shown("unix:x").as_deref(), Ok("nbd+unix:///?socket=x"));
        assert!(shown("unix:").is_err());
    }
}
