//! Where clients come in: addresses, the thread that accepts, and a thread for each client.

use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nandle_host::address::tcp;
use rustix::net::sockopt::set_socket_send_buffer_size;

use crate::Error;
use crate::lock::lock;

/// Clients that wait to be accepted.
const BACKLOG: i32 = 128;
/// Bytes of answers that the system is asked to keep for a client of a socket in the file system.
const SEND_BUFFER: usize = 1 << 20;
/// How long a client that is turned out may take to leave.
const GIVES_WAY: Duration = Duration::from_secs(1);
/// How long clients may take to hear what was already answered, when the server ends.
const FAREWELL: Duration = Duration::from_millis(500);

/// A TCP port or a socket in the file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Place {
    /// A TCP port.
    Tcp(SocketAddr),
    /// A socket in the file system.
    Unix {
        /// Where.
        path: PathBuf,
        /// Who may connect: the permissions that it is made with.
        mode: u32,
    },
}

/// Sockets are their owner's, unless told otherwise.
const OWNERS: u32 = 0o600;

impl Place {
    /// A socket in the file system that is its owner's.
    #[must_use]
    pub fn unix(path: impl Into<PathBuf>) -> Self {
        Self::Unix { path: path.into(), mode: OWNERS }
    }

    /// Of what [`tcp`] takes, or `unix:PATH`, or a path with a slash.
    ///
    /// # Errors
    /// What was expected.
    pub fn parse(text: &str, port: u16) -> Result<Self, String> {
        let place = match text.strip_prefix("unix:").or_else(|| text.contains('/').then_some(text)) {
            Some(path) => (!path.is_empty()).then(|| Self::unix(path)),
            None => tcp(text, port).map(Self::Tcp),
        };
        place.ok_or_else(|| {
            format!(
                "{text:?}: expected unix:PATH, HOST:PORT, :PORT, PORT or an IP address (loopback by default)"
            )
        })
    }

    /// The same with other permissions, if it is a socket in the file system.
    #[must_use]
    pub fn with_mode(self, mode: u32) -> Self {
        match self {
            Self::Unix { path, .. } => Self::Unix { path, mode },
            tcp @ Self::Tcp(_) => tcp,
        }
    }

    /// Whether others than this machine may reach it.
    #[must_use]
    pub fn is_public(&self) -> bool {
        matches!(self, Self::Tcp(at) if !at.ip().is_loopback())
    }

    /// Connects to it.
    ///
    /// # Errors
    /// If nobody takes the connection by then.
    pub fn connect(&self, by: Instant) -> io::Result<Stream> {
        use rustix::net;
        let left = || by.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        match self {
            Self::Tcp(at) => {
                let left = left().ok_or(io::ErrorKind::TimedOut)?;
                TcpStream::connect_timeout(at, left).map(Stream::Tcp)
            }
            Self::Unix { path, .. } => {
                let flags = net::SocketFlags::CLOEXEC | net::SocketFlags::NONBLOCK;
                let (family, kind) = (net::AddressFamily::UNIX, net::SocketType::STREAM);
                let socket = net::socket_with(family, kind, flags, None)?;
                // It would wait for ever for a server whose queue is full.
                while let Err(e) = net::connect(&socket, &net::SocketAddrUnix::new(path)?) {
                    if e != rustix::io::Errno::AGAIN {
                        return Err(e.into());
                    }
                    left().ok_or(io::ErrorKind::TimedOut)?;
                    std::thread::sleep(Duration::from_millis(10));
                }
                let stream = UnixStream::from(socket);
                stream.set_nonblocking(false)?;
                Ok(Stream::Unix(stream))
            }
        }
    }
}

/// A connection.
#[derive(Debug)]
pub enum Stream {
    /// By TCP.
    Tcp(TcpStream),
    /// By a socket in the file system.
    Unix(UnixStream),
}

impl Stream {
    pub(crate) fn fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tcp(s) => s.as_fd(),
            Self::Unix(s) => s.as_fd(),
        }
    }

    /// Has the system keep more answers for a client that does not take them at once, as it does for TCP by itself. Only
    /// where nobody asks when an answer left: this hides how long it lies there.
    pub(crate) fn hold_more(&self) {
        if let Self::Unix(s) = self {
            let _ = set_socket_send_buffer_size(s, SEND_BUFFER);
        }
    }

    /// Ends it, in one direction or in both.
    pub fn shut(&self, how: Shutdown) {
        let _ = match self {
            Self::Tcp(s) => s.shutdown(how),
            Self::Unix(s) => s.shutdown(how),
        };
    }

    /// The server's own address, if the client came by TCP.
    #[must_use]
    pub fn portal(&self) -> Option<SocketAddr> {
        if let Self::Tcp(s) = self { s.local_addr().ok() } else { None }
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

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    fn bind(place: &Place) -> io::Result<(Self, Place)> {
        match place {
            Place::Tcp(at) => {
                let listener = TcpListener::bind(at)?;
                let at = listener.local_addr()?;
                Ok((Self::Tcp(listener), Place::Tcp(at)))
            }
            Place::Unix { path, mode } => Ok((Self::Unix(bind(path, *mode)?), place.clone())),
        }
    }

    fn wake(&self) {
        match self {
            Self::Tcp(l) => wake(l),
            Self::Unix(l) => wake(l),
        }
    }

    fn accept(&self) -> io::Result<Stream> {
        match self {
            Self::Tcp(l) => l.accept().map(|(s, _)| {
                let _ = s.set_nodelay(true);
                notice_death(&s);
                Stream::Tcp(s)
            }),
            Self::Unix(l) => l.accept().map(|(s, _)| Stream::Unix(s)),
        }
    }
}

/// Has the system find out when a client's machine is gone: it would keep its slot for ever. Where that cannot be set, it
/// does.
fn notice_death(stream: &TcpStream) {
    use rustix::net::sockopt;
    let _ = sockopt::set_tcp_keepidle(stream, Duration::from_secs(60));
    let _ = sockopt::set_tcp_keepintvl(stream, Duration::from_secs(15));
    let _ = sockopt::set_tcp_keepcnt(stream, 4);
    let _ = sockopt::set_socket_keepalive(stream, true);
}

/// A socket at `path` that has these permissions from the moment at which it is there.
pub(crate) fn bind(path: &Path, mode: u32) -> io::Result<UnixListener> {
    use rustix::net;
    remove_dead_socket(path);
    let (family, kind) = (net::AddressFamily::UNIX, net::SocketType::STREAM);
    let socket = net::socket_with(family, kind, net::SocketFlags::CLOEXEC, None)?;
    // What a socket's own inode allows is what its name in the file system will.
    rustix::fs::fchmod(&socket, rustix::fs::Mode::from_raw_mode(mode))?;
    net::bind(&socket, &net::SocketAddrUnix::new(path)?)?;
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// Has a thread that waits for a client at this socket look up.
pub(crate) fn wake(listener: impl AsFd) {
    let _ = rustix::net::shutdown(listener, rustix::net::Shutdown::Both);
}

/// A socket that nobody listens at any more is in the way.
fn remove_dead_socket(path: &Path) {
    use std::os::unix::fs::FileTypeExt;
    let is_socket = std::fs::symlink_metadata(path).is_ok_and(|m| m.file_type().is_socket());
    if is_socket && UnixStream::connect(path).is_err_and(|e| e.kind() == io::ErrorKind::ConnectionRefused) {
        let _ = std::fs::remove_file(path);
    }
}

/// A client that is there.
struct Client<N> {
    stream: Arc<Stream>,
    note: N,
    /// Since when it has not said what it wants: it may be turned out for one that comes.
    unsettled: Option<Instant>,
}

/// The clients that are there.
pub(crate) struct Clients<N> {
    slots: Mutex<Vec<Option<Client<N>>>>,
    left: Condvar,
    closing: AtomicBool,
}

impl<N> Clients<N> {
    /// Changes the note on a client.
    pub fn note(&self, slot: usize, f: impl FnOnce(&mut N)) {
        if let Some(Some(client)) = lock(&self.slots).get_mut(slot) {
            f(&mut client.note);
        }
    }

    /// The notes on all clients.
    pub fn each(&self, mut f: impl FnMut(&N)) {
        lock(&self.slots).iter().flatten().for_each(|client| f(&client.note));
    }

    /// Ends the conversations of those that `f` is true for.
    pub fn shut(&self, f: impl Fn(&N) -> bool) {
        let slots = lock(&self.slots);
        slots.iter().flatten().filter(|c| f(&c.note)).for_each(|c| c.stream.shut(Shutdown::Both));
    }

    /// A client's handshake is over: it stays until it leaves.
    pub fn settled(&self, slot: usize) {
        if let Some(Some(client)) = lock(&self.slots).get_mut(slot) {
            client.unsettled = None;
        }
    }

    /// A client that is never more than a visitor comes again.
    pub fn comes_again(&self, slot: usize) {
        if let Some(Some(client)) = lock(&self.slots).get_mut(slot) {
            client.unsettled = Some(Instant::now());
        }
    }

    /// Gives a client a slot: a free one, or that of the one that has been longest in saying what it wants.
    fn enter(&self, stream: &Arc<Stream>, most: usize) -> Option<usize>
    where
        N: Default,
    {
        let mut slots = lock(&self.slots);
        if slots.len() == most && slots.iter().all(Option::is_some) {
            let longest =
                slots.iter().flatten().filter(|c| c.unsettled.is_some()).min_by_key(|c| c.unsettled);
            longest?.stream.shut(Shutdown::Both);
            let by = Instant::now() + GIVES_WAY;
            while slots.iter().all(Option::is_some) {
                let left = by.checked_duration_since(Instant::now())?;
                slots = self.left.wait_timeout(slots, left).unwrap_or_else(PoisonError::into_inner).0;
            }
        }
        let slot = slots.iter().position(Option::is_none).unwrap_or(slots.len());
        if slot == slots.len() {
            slots.push(None);
        }
        let unsettled = Some(Instant::now());
        slots[slot] = Some(Client { stream: stream.clone(), note: N::default(), unsettled });
        Some(slot)
    }

    fn leave(&self, slot: usize) {
        lock(&self.slots)[slot] = None;
        self.left.notify_all();
    }
}

/// What is called for each client, on a thread of its own: the connection and the number of its slot.
type Serve<N> = dyn Fn(&Arc<Stream>, usize, &Clients<N>) + Send + Sync;

/// How a server accepts.
#[derive(Clone, Copy)]
pub(crate) struct Manner {
    /// The option that asked for it, for complaints.
    pub option: &'static str,
    /// The name of its threads.
    pub thread: &'static str,
    /// Clients at a time; a further one takes the slot of one that has not said what it wants, or is turned away.
    pub most: usize,
}

/// A port or socket at which clients are served, until dropped.
pub(crate) struct Listening<N: Send + 'static> {
    place: Place,
    listener: Arc<Listener>,
    clients: Arc<Clients<N>>,
    accepting: Option<JoinHandle<()>>,
}

impl<N: Default + Send + 'static> Listening<N> {
    /// Listens at `place` and has `serve` called for whoever comes.
    ///
    /// # Errors
    /// If the place cannot be had.
    pub fn start(
        place: &Place,
        manner: Manner,
        serve: impl Fn(&Arc<Stream>, usize, &Clients<N>) + Send + Sync + 'static,
    ) -> Result<Self, Error> {
        let fail = |e: io::Error| {
            let at = match place {
                Place::Tcp(at) => at.to_string(),
                Place::Unix { path, .. } => path.display().to_string(),
            };
            Error::input(format!(
                "{}: cannot listen at {at}: {e}; expected an address that is free",
                manner.option
            ))
        };
        let (listener, place) = Listener::bind(place).map_err(fail)?;
        let listener = Arc::new(listener);
        let clients = Arc::new(Clients {
            slots: Mutex::default(),
            left: Condvar::new(),
            closing: AtomicBool::new(false),
        });
        let accepting = {
            let (clients, serve): (_, Arc<Serve<N>>) = (clients.clone(), Arc::new(serve));
            let listener = listener.clone();
            let run = move || accept(&listener, &clients, manner, &serve);
            std::thread::Builder::new().name(manner.thread.into()).spawn(run).map_err(fail)?
        };
        Ok(Self { place, listener, clients, accepting: Some(accepting) })
    }
}

impl<N: Send + 'static> Listening<N> {
    /// Where it listens, with the port that was chosen if 0 was asked for.
    pub fn place(&self) -> &Place {
        &self.place
    }

    /// Who is there.
    pub fn clients(&self) -> &Arc<Clients<N>> {
        &self.clients
    }
}

impl<N: Send + 'static> Drop for Listening<N> {
    fn drop(&mut self) {
        self.clients.closing.store(true, Ordering::SeqCst);
        self.listener.wake();
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        // Nothing more is heard; what was answered is still sent, to those who listen.
        let mut slots = lock(&self.clients.slots);
        slots.iter().flatten().for_each(|client| client.stream.shut(Shutdown::Read));
        let deadline = Instant::now() + FAREWELL;
        while slots.iter().any(Option::is_some)
            && let Some(left) = deadline.checked_duration_since(Instant::now())
        {
            slots = self.clients.left.wait_timeout(slots, left).unwrap_or_else(PoisonError::into_inner).0;
        }
        slots.iter().flatten().for_each(|client| client.stream.shut(Shutdown::Both));
        if let Place::Unix { path, .. } = &self.place {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// A time in which the system has no descriptors, memory or threads for another client: those that are there go on,
/// and further ones wait.
pub(crate) struct Shortage {
    option: &'static str,
    /// When it was last told of.
    told: Option<Instant>,
}

/// A shortage that comes back sooner is the same one.
const SAME_SHORTAGE: Duration = Duration::from_secs(60);

impl Shortage {
    /// Of the server that `option` asked for; there is none yet.
    pub fn of(option: &'static str) -> Self {
        Self { option, told: None }
    }

    /// There is one, or a client that was gone before it was accepted: waits a little. Says so, once a minute.
    pub fn wait(&mut self, why: &dyn std::fmt::Display) {
        if self.told.is_none_or(|at| at.elapsed() > SAME_SHORTAGE) {
            self.told = Some(Instant::now());
            let option = self.option;
            let _ = writeln!(
                io::stderr(),
                "nandle: {option}: cannot take another client: {why}; further ones wait"
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn accept<N: Default + Send + 'static>(
    listener: &Listener,
    clients: &Arc<Clients<N>>,
    manner: Manner,
    serve: &Arc<Serve<N>>,
) {
    let mut shortage = Shortage::of(manner.option);
    loop {
        let stream = listener.accept();
        if clients.closing.load(Ordering::SeqCst) {
            return;
        }
        let stream = match stream {
            Ok(stream) => Arc::new(stream),
            Err(e) => {
                shortage.wait(&e);
                continue;
            }
        };
        let Some(slot) = clients.enter(&stream, manner.most) else { continue };
        let run = {
            let (clients, serve) = (clients.clone(), serve.clone());
            move || {
                serve(&stream, slot, &clients);
                stream.shut(Shutdown::Both);
                clients.leave(slot);
            }
        };
        if let Err(e) = std::thread::Builder::new().name(manner.thread.into()).spawn(run) {
            clients.leave(slot);
            shortage.wait(&e);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_default_to_loopback() {
        let shown = |text: &str| match Place::parse(text, 10809) {
            Ok(Place::Tcp(at)) => Ok(at.to_string()),
            Ok(Place::Unix { path, .. }) => Ok(path.display().to_string()),
            Err(e) => Err(e),
        };
        for (text, place) in [
            ("10810", "127.0.0.1:10810"),
            (":0", "127.0.0.1:0"),
            ("localhost", "127.0.0.1:10809"),
            ("localhost:7", "127.0.0.1:7"),
            ("0.0.0.0", "0.0.0.0:10809"),
            ("[::1]:99", "[::1]:99"),
            ("::1", "[::1]:10809"),
            ("unix:x", "x"),
            ("/run/x", "/run/x"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(place), "{text}");
        }
        for text in ["", "unix:", "localhost:x", "host:1", "70000", "1.2.3", "localhost7"] {
            assert!(shown(text).is_err_and(|e| e.contains("expected unix:PATH")), "{text}");
        }
    }
}
