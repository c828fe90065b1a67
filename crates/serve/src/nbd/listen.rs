//! Sockets: a thread that accepts, and two threads for each client.
//!
//! The reader waits while too much of its client's is under way, so neither a fast nor a silent
//! client takes more than 64 MiB and a request.

use std::fmt;
use std::io::{self, BufReader, BufWriter, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::session::{Action, Session};
use crate::gate::{Gate, lock};
use crate::{Device, Error, Io};

/// Clients at a time; further ones are turned away.
pub const MOST_CLIENTS: usize = 64;
/// How long a client may think between two messages of the negotiation.
const NEGOTIATION: Duration = Duration::from_secs(20);
/// The port that NBD has from IANA.
const PORT: u16 = 10809;

/// Where to listen: `unix:PATH` or a path with a slash, `HOST:PORT`, `:PORT`, `PORT` or `HOST`;
/// loopback if no host is given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix(PathBuf),
}

impl FromStr for Address {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let expected = || {
            format!(
                "{text:?}: expected unix:PATH, HOST:PORT, :PORT, PORT or an IP address (loopback by default)"
            )
        };
        if let Some(path) = text.strip_prefix("unix:").or_else(|| text.contains('/').then_some(text)) {
            return if path.is_empty() { Err(expected()) } else { Ok(Self::Unix(path.into())) };
        }
        let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
        if let Ok(port) = text.strip_prefix(':').unwrap_or(text).parse() {
            return Ok(Self::Tcp(SocketAddr::new(loopback, port)));
        }
        if let Ok(ip) = text.parse() {
            return Ok(Self::Tcp(SocketAddr::new(ip, PORT)));
        }
        if let Some(port) = text.strip_prefix("localhost").map(|rest| rest.strip_prefix(':').unwrap_or(rest))
        {
            let port = if port.is_empty() { Ok(PORT) } else { port.parse() };
            return Ok(Self::Tcp(SocketAddr::new(loopback, port.map_err(|_| expected())?)));
        }
        text.parse().map(Self::Tcp).map_err(|_| expected())
    }
}

impl fmt::Display for Address {
    /// As a URI that NBD clients take.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "nbd://{address}"),
            Self::Unix(path) => write!(f, "nbd+unix:///?socket={}", path.display()),
        }
    }
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(s) => Self::Tcp(s.try_clone()?),
            Self::Unix(s) => Self::Unix(s.try_clone()?),
        })
    }
    fn read_timeout(&self, limit: Option<Duration>) -> io::Result<()> {
        match self {
            Self::Tcp(s) => s.set_read_timeout(limit),
            Self::Unix(s) => s.set_read_timeout(limit),
        }
    }
    fn shut(&self) {
        let _ = match self {
            Self::Tcp(s) => s.shutdown(Shutdown::Both),
            Self::Unix(s) => s.shutdown(Shutdown::Both),
        };
    }
}

impl Read for &Stream {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).read(buf),
            Stream::Unix(s) => (&mut &*s).read(buf),
        }
    }
}

impl Write for &Stream {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Tcp(s) => (&mut &*s).write(buf),
            Stream::Unix(s) => (&mut &*s).write(buf),
        }
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
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
    closing: AtomicBool,
    /// A handle to each client's socket, to shut it.
    clients: Mutex<Vec<Option<Stream>>>,
}

/// A port or socket at which clients are served.
pub struct Server {
    address: Address,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `address` and serves whoever comes, until dropped.
    ///
    /// # Errors
    /// If the address cannot be had.
    pub fn start(address: &Address, device: Device, description: &str) -> Result<Self, Error> {
        let fail = |e: io::Error| {
            Error::input(format!("--nbd: cannot listen at {address}: {e}; expected an address that is free"))
        };
        let (listener, address) = match address {
            Address::Tcp(at) => {
                let listener = TcpListener::bind(at).map_err(fail)?;
                let at = listener.local_addr().map_err(fail)?;
                (Listener::Tcp(listener), Address::Tcp(at))
            }
            Address::Unix(path) => {
                remove_dead_socket(path);
                (Listener::Unix(UnixListener::bind(path).map_err(fail)?), address.clone())
            }
        };
        let shared = Arc::new(Shared {
            device,
            description: description.to_owned(),
            closing: AtomicBool::new(false),
            clients: Mutex::default(),
        });
        let accepting = {
            let shared = shared.clone();
            let run = move || accept(&listener, &shared);
            std::thread::Builder::new().name("nbd".into()).spawn(run).map_err(fail)?
        };
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Where it listens, with the port that was chosen if 0 was asked for.
    #[must_use]
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        // A connection of our own wakes the thread that accepts.
        match &self.address {
            Address::Tcp(at) => drop(TcpStream::connect_timeout(at, Duration::from_secs(1))),
            Address::Unix(path) => drop(UnixStream::connect(path)),
        }
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        lock(&self.shared.clients).iter().flatten().for_each(Stream::shut);
        if let Address::Unix(path) = &self.address {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A socket that nobody listens at any more is in the way.
pub(crate) fn remove_dead_socket(path: &Path) {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
        let _ = std::fs::remove_file(path);
    }
}

fn accept(listener: &Listener, shared: &Arc<Shared>) {
    loop {
        let stream = match listener {
            Listener::Tcp(l) => l.accept().map(|(s, _)| {
                let _ = s.set_nodelay(true);
                Stream::Tcp(s)
            }),
            Listener::Unix(l) => l.accept().map(|(s, _)| Stream::Unix(s)),
        };
        if shared.closing.load(Ordering::SeqCst) {
            return;
        }
        // Out of descriptors, or a client that is gone already: others go on.
        let Ok(stream) = stream else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let mut clients = lock(&shared.clients);
        let slot = match clients.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if clients.len() < MOST_CLIENTS => {
                clients.push(None);
                clients.len() - 1
            }
            None => continue,
        };
        let Ok(handle) = stream.try_clone() else { continue };
        clients[slot] = Some(handle);
        drop(clients);
        let run = {
            let shared = shared.clone();
            move || {
                let _ = converse(&stream, &shared);
                stream.shut();
                lock(&shared.clients)[slot] = None;
            }
        };
        if std::thread::Builder::new().name("nbd client".into()).spawn(run).is_err() {
            lock(&shared.clients)[slot] = None;
        }
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
                stream.shut();
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
    fn addresses_default_to_loopback() {
        let shown = |text: &str| text.parse::<Address>().map(|a| a.to_string());
        for (text, uri) in [
            ("10810", "nbd://127.0.0.1:10810"),
            (":0", "nbd://127.0.0.1:0"),
            ("localhost", "nbd://127.0.0.1:10809"),
            ("localhost:7", "nbd://127.0.0.1:7"),
            ("0.0.0.0", "nbd://0.0.0.0:10809"),
            ("[::1]:99", "nbd://[::1]:99"),
            ("unix:x", "nbd+unix:///?socket=x"),
            ("/run/x", "nbd+unix:///?socket=/run/x"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(uri), "{text}");
        }
        for text in ["", "unix:", "localhost:x", "host:1", "70000", "1.2.3"] {
            assert!(shown(text).is_err_and(|e| e.contains("expected unix:PATH")), "{text}");
        }
    }
}
