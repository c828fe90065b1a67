//! Sockets: two threads for each client, one that reads and one for what its socket does not take at once.
//!
//! The reader waits while too much of its client's is under way, or of all clients together (`budget`), and takes
//! no longer for what a client has started than `deadline` allows.

use std::fmt;
use std::io;
use std::str::FromStr;
use std::sync::Arc;

use super::session::{Action, Session, Ticket};
use crate::deadline::Hearing;
use crate::listen::{Clients, Listening, Manner, Place, Stream};
use crate::outbox::{self, Outbox, Pending};
use crate::tls::Tls;
use crate::{Device, Error, plan};

/// Clients at a time; further ones are turned away.
pub const MOST_CLIENTS: usize = 64;
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
    tls: Option<Tls>,
}

/// A port or socket at which clients are served, until dropped.
pub struct Server {
    listening: Listening<()>,
}

impl Server {
    /// Listens at `address` and serves whoever comes, until dropped; with `tls`, those who speak it and no others.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn start(
        address: &Address,
        device: Device,
        description: &str,
        tls: Option<&Tls>,
    ) -> Result<Self, Error> {
        let shared = Shared { device, description: description.to_owned(), tls: tls.cloned() };
        let manner = Manner { option: "--nbd", thread: "nbd", most: MOST_CLIENTS };
        let serve = move |stream: &Arc<Stream>, slot, clients: &Clients<()>| {
            let _ = converse(stream, &shared, &|| clients.settled(slot));
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
fn converse(stream: &Arc<Stream>, shared: &Shared, settled: &dyn Fn()) -> io::Result<()> {
    if let Some(tls) = &shared.tls {
        let flags = super::secure::starttls(stream)?;
        let session = Session::secured(shared.device.shape(), &shared.description, &flags);
        return tls
            .accept(stream)?
            .serve(stream, "nbd tls", |inside| serve(inside, session, None, shared, settled));
    }
    let (session, greeting) = Session::new(shared.device.shape(), &shared.description);
    serve(stream, session, Some(greeting), shared, settled)
}

fn serve(
    stream: &Arc<Stream>,
    mut session: Session,
    greeting: Option<Vec<u8>>,
    shared: &Shared,
    settled: &dyn Fn(),
) -> io::Result<()> {
    let device = shared.device.client("nbd", "nandle");
    if !device.whose().is_timed() {
        stream.hold_more();
    }
    let outbox = Outbox::new(stream, device.account(), device.whose().clone(), device.buffers());
    std::thread::scope(|scope| {
        let writer = std::thread::Builder::new().name("nbd writer".into());
        writer.spawn_scoped(scope, || outbox.write())?;
        if let Some(greeting) = greeting {
            Pending::new(&outbox, 0).answer([greeting], None);
        }
        let result = listen(stream, &mut session, &device, &outbox, settled);
        outbox.end();
        result
    })
}

fn listen(
    stream: &Stream,
    session: &mut Session,
    device: &Device,
    outbox: &Arc<Outbox>,
    settled: &dyn Fn(),
) -> io::Result<()> {
    let mut hearing = Hearing::new(stream);
    let mut corked = 0;
    let mut negotiating = true;
    loop {
        if negotiating && session.is_transmitting() {
            negotiating = false;
            hearing.settled();
            hearing.may_wink(device.wink());
            if device.whose().is_timed() {
                hearing.note_arrivals(device.whose());
            }
            settled();
        }
        let wanted = session.want();
        if wanted == 0 {
            return Ok(());
        }
        // Before this thread waits, or has held answers back for long.
        corked += 1;
        if hearing.buffered() < wanted || corked > MOST_CORKED {
            outbox::flush();
            corked = 0;
        }
        // Data take room while they come, not only when they are there.
        let mut room = session.is_payload().then(|| Pending::wait(outbox, wanted as u64, &mut hearing));
        let mut bytes = device.buffer(wanted);
        hearing.next(wanted, session.is_amid(), &mut bytes)?;
        let came = hearing.arrival();
        for action in session.take(bytes) {
            match action {
                Action::Send(head) => Pending::new(outbox, 0).answer([head], None),
                Action::Close => return Ok(()),
                Action::Status { ticket, offset, bytes, most } => {
                    let shape = device.shape();
                    let mut pending = Some(Pending::new(outbox, Ticket::most_bytes(most)));
                    let mut survey = plan::Survey::new(&shape, offset, bytes, most);
                    device.survey(move |ssd| {
                        let over = pending.as_ref().is_none_or(Pending::is_futile) || survey.go_on(ssd);
                        if over && let Some(pending) = pending.take() {
                            pending.answer([ticket.extents(survey.extents())], None);
                        }
                        over
                    });
                }
                Action::Submit(ticket, io) => {
                    let pending = room.take();
                    let pending = pending.unwrap_or_else(|| Pending::wait(outbox, io.weight(), &mut hearing));
                    let reply = move |outcome, due| {
                        let (head, data) = ticket.answer(outcome);
                        pending.answer([head, data], due);
                    };
                    device.submit_corked(io, came, reply);
                    outbox::flush_others(outbox);
                    outbox.wait_until_read();
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
