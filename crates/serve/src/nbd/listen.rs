//! Sockets: two threads for each client, one that reads and one for what its socket does not take at once.
//!
//! The reader waits while too much of its client's is under way, so neither a fast nor a silent
//! client takes more than 64 MiB and a request.

use std::fmt;
use std::io::{self, BufReader, Read};
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use super::session::{Action, Session};
use crate::listen::{Listening, Manner, Place, Stream};
use crate::outbox::{self, Outbox, Pending};
use crate::{Device, Error, plan};

/// Clients at a time; further ones are turned away.
pub const MOST_CLIENTS: usize = 64;
/// How long a client may think between two messages of the negotiation.
const NEGOTIATION: Duration = Duration::from_secs(20);
/// Requests whose answers may be held back while further ones are there to be read.
const MOST_CORKED: u32 = 32;
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

impl Address {
    /// The same with other permissions, if it is a socket in the file system.
    #[must_use]
    pub fn with_mode(self, mode: u32) -> Self {
        Self(self.0.with_mode(mode))
    }
}

impl fmt::Display for Address {
    /// As a URI that NBD clients take.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Place::Tcp(address) => write!(f, "nbd://{address}"),
            Place::Unix { path, .. } => write!(f, "nbd+unix:///?socket={}", path.display()),
        }
    }
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
        let serve = move |stream: &Arc<Stream>, _, _: &_| {
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
fn converse(stream: &Arc<Stream>, shared: &Shared) -> io::Result<()> {
    let (mut session, greeting) = Session::new(shared.device.shape(), &shared.description);
    let outbox = Outbox::new(stream);
    std::thread::scope(|scope| {
        let writer = std::thread::Builder::new().name("nbd writer".into());
        writer.spawn_scoped(scope, || outbox.write())?;
        Pending::new(&outbox, 0).answer([greeting]);
        let result = listen(stream, &mut session, shared, &outbox);
        outbox.end();
        result
    })
}

fn listen(stream: &Stream, session: &mut Session, shared: &Shared, outbox: &Arc<Outbox>) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    stream.read_timeout(Some(NEGOTIATION))?;
    let mut negotiating = true;
    let mut corked = 0;
    loop {
        if negotiating && session.is_transmitting() {
            negotiating = false;
            stream.read_timeout(None)?;
        }
        let wanted = session.want();
        if wanted == 0 {
            return Ok(());
        }
        // Before this thread waits, or has held answers back for long.
        corked += 1;
        if reader.buffer().len() < wanted || corked > MOST_CORKED {
            outbox::flush();
            corked = 0;
        }
        // Grown as the bytes come: a length alone takes no memory.
        let mut bytes = Vec::with_capacity(wanted.min(1 << 20));
        if (&mut reader).take(wanted as u64).read_to_end(&mut bytes)? < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        for action in session.take(bytes) {
            match action {
                Action::Send(head) => Pending::new(outbox, 0).answer([head]),
                Action::Close => return Ok(()),
                Action::Status { ticket, offset, bytes, most } => {
                    let (pending, shape) = (Pending::new(outbox, 0), shared.device.shape());
                    shared.device.inspect(move |ssd| {
                        let extents = plan::stored(ssd, &shape, offset, bytes, most);
                        pending.answer([ticket.extents(&extents)]);
                    });
                }
                Action::Submit(ticket, io) => {
                    let pending = Pending::new(outbox, io.weight());
                    shared.device.submit_corked(io, move |outcome| {
                        let (head, data) = ticket.answer(outcome);
                        pending.answer([head, data]);
                    });
                }
            }
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
