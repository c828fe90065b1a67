//! Sockets: a thread that accepts, and two threads for each connection.

use std::io::{self, BufReader, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Address;
use super::session::{Action, Session, Ticket};
use super::subsystem::{Model, Subsystem};
use super::wire::{Done, Encoder, Out, Status};
use crate::gate::{Gate, lock};
use crate::{Device, Error, Io, Outcome};

/// Connections at a time; further ones are turned away.
pub const MOST_CLIENTS: usize = 128;
/// How long a host may think before it is connected.
const NEGOTIATION: Duration = Duration::from_secs(20);
/// Answers are sent together up to this many bytes.
const BATCH: usize = 256 << 10;

/// A connection's socket, to shut it, and the controller whose it is.
struct Client {
    stream: TcpStream,
    controller: Option<u16>,
}

struct Shared {
    device: Device,
    model: Arc<Model>,
    subsystem: Mutex<Subsystem>,
    closing: AtomicBool,
    clients: Mutex<Vec<Option<Client>>>,
}

/// A port at which hosts are served.
pub struct Server {
    address: Address,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `address` and serves whoever comes, until dropped.
    ///
    /// # Errors
    /// If the address cannot be had, or the drive is none that NVMe can describe.
    pub fn start(address: Address, device: Device, model: Model) -> Result<Self, Error> {
        let sector = model.shape.sector_bytes;
        if !sector.is_power_of_two() || sector < 512 {
            return Err(Error::input(format!(
                "--nvme-tcp: geometry.sector_bytes = {sector}; expected a power of two of at least 512"
            )));
        }
        let fail = |e: io::Error| {
            Error::input(format!(
                "--nvme-tcp: cannot listen at {address}: {e}; expected an address that is free"
            ))
        };
        let listener = TcpListener::bind(address.0).map_err(fail)?;
        let address = Address(listener.local_addr().map_err(fail)?);
        let subsystem = Subsystem::new(model);
        let shared = Arc::new(Shared {
            device,
            model: subsystem.model.clone(),
            subsystem: Mutex::new(subsystem),
            closing: AtomicBool::new(false),
            clients: Mutex::default(),
        });
        let accepting = {
            let shared = shared.clone();
            let run = move || accept(&listener, &shared);
            std::thread::Builder::new().name("nvme".into()).spawn(run).map_err(fail)?
        };
        Ok(Self { address, shared, accepting: Some(accepting) })
    }

    /// Where it listens, with the port that was chosen if 0 was asked for.
    #[must_use]
    pub fn address(&self) -> Address {
        self.address
    }

    /// The name of the subsystem.
    #[must_use]
    pub fn nqn(&self) -> &str {
        &self.shared.model.nqn
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        // A connection of our own wakes the thread that accepts.
        drop(TcpStream::connect_timeout(&self.address.0, Duration::from_secs(1)));
        if let Some(thread) = self.accepting.take() {
            let _ = thread.join();
        }
        for client in lock(&self.shared.clients).iter().flatten() {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    loop {
        let stream = listener.accept();
        if shared.closing.load(Ordering::SeqCst) {
            return;
        }
        // Out of descriptors, or a host that is gone already: others go on.
        let Ok((stream, _)) = stream else {
            std::thread::sleep(Duration::from_millis(10));
            continue;
        };
        let _ = stream.set_nodelay(true);
        let (Ok(handle), Ok(portal)) = (stream.try_clone(), stream.local_addr()) else { continue };
        let mut clients = lock(&shared.clients);
        let slot = match clients.iter().position(Option::is_none) {
            Some(slot) => slot,
            None if clients.len() < MOST_CLIENTS => {
                clients.push(None);
                clients.len() - 1
            }
            None => continue,
        };
        clients[slot] = Some(Client { stream: handle, controller: None });
        drop(clients);
        let run = {
            let shared = shared.clone();
            move || {
                let mut session = Session::new(portal);
                let _ = converse(&stream, &mut session, slot, &shared);
                let _ = stream.shutdown(Shutdown::Both);
                depart(&session, slot, &shared);
            }
        };
        if std::thread::Builder::new().name("nvme queue".into()).spawn(run).is_err() {
            lock(&shared.clients)[slot] = None;
        }
    }
}

/// Without its admin queue a controller has no other queues.
fn depart(session: &Session, slot: usize, shared: &Shared) {
    let mut clients = lock(&shared.clients);
    clients[slot] = None;
    let Some((controller, queue)) = session.queue() else { return };
    lock(&shared.subsystem).left(controller, queue);
    if queue == 0 {
        for client in clients.iter().flatten().filter(|c| c.controller == Some(controller)) {
            let _ = client.stream.shutdown(Shutdown::Both);
        }
    }
}

/// What is sent to a host, and how much room it gives back.
struct Outgoing {
    out: Out,
    room: Option<u64>,
}

/// A connection, from its first byte to its last.
fn converse(stream: &TcpStream, session: &mut Session, slot: usize, shared: &Shared) -> io::Result<()> {
    let (to_host, outgoing) = channel();
    let gate = Arc::new(Gate::default());
    std::thread::scope(|scope| {
        let room = &gate;
        let writer = scope.spawn(move || write(stream, &outgoing, room));
        let result = listen(stream, session, slot, shared, &to_host, &gate);
        // The writer ends when the last answer under way has been sent.
        drop(to_host);
        let written = writer.join().unwrap_or(Ok(()));
        result.and(written)
    })
}

fn listen(
    stream: &TcpStream,
    session: &mut Session,
    slot: usize,
    shared: &Shared,
    to_host: &Sender<Outgoing>,
    gate: &Arc<Gate>,
) -> io::Result<()> {
    let mut reader = BufReader::with_capacity(64 << 10, stream);
    let mut patience = Some(NEGOTIATION);
    stream.set_read_timeout(patience)?;
    let mut bytes = Vec::new();
    loop {
        let wanted = session.want();
        if wanted == 0 {
            return Ok(());
        }
        // Grown as the bytes come: a length alone takes no memory.
        bytes.clear();
        if (&mut reader).take(wanted as u64).read_to_end(&mut bytes)? < wanted {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let (actions, now) = {
            let mut subsystem = lock(&shared.subsystem);
            let actions = session.take(&bytes, &mut subsystem);
            (actions, keep_alive(session, &subsystem))
        };
        if let Some((controller, _)) = session.queue()
            && let Some(client) = &mut lock(&shared.clients)[slot]
        {
            client.controller = Some(controller);
        }
        if now != patience {
            patience = now;
            stream.set_read_timeout(patience)?;
        }
        for action in actions {
            match action {
                Action::Close => return Ok(()),
                Action::Send(out) => {
                    gate.enter(0);
                    let _ = to_host.send(Outgoing { out, room: Some(0) });
                }
                Action::Look(cid, look) => {
                    gate.enter(0);
                    let (to_host, model) = (to_host.clone(), shared.model.clone());
                    shared.device.inspect(move |ssd| {
                        let mut done = Done::new(cid, Status::OK);
                        match look.answer(ssd, &model) {
                            Ok(data) => done.data = data,
                            Err(status) => done.status = status,
                        }
                        let _ = to_host.send(Outgoing { out: Out::Done(done), room: Some(0) });
                    });
                }
                Action::Submit(ticket, ios) => submit(ticket, ios, &shared.device, to_host, gate),
            }
        }
    }
}

/// How long a host may be silent: before it is connected, then as its keep alive timer says.
fn keep_alive(session: &Session, subsystem: &Subsystem) -> Option<Duration> {
    match session.queue() {
        None => Some(NEGOTIATION),
        Some((id, 0)) => {
            let ms = subsystem.controller(id).map_or(0, |c| c.keep_alive_ms);
            (ms > 0).then(|| Duration::from_millis(ms.into()))
        }
        Some(_) => None,
    }
}

fn submit(ticket: Ticket, ios: Vec<Io>, device: &Device, to_host: &Sender<Outgoing>, gate: &Gate) {
    let room = ios.iter().map(|io| match io {
        Io::Read { bytes, .. } => u64::from(*bytes),
        Io::Write { data, .. } => data.len() as u64,
        _ => 0,
    });
    let room = room.sum();
    gate.enter(room);
    let to_host = to_host.clone();
    let answer = move |outcome: Outcome| {
        // A host that has gone needs no answer.
        let _ = to_host.send(Outgoing { out: Out::Done(ticket.done(outcome)), room: Some(room) });
    };
    // The last of several requests to end answers for all, with the first failure.
    let left = ios.len();
    if left == 0 {
        return answer(Ok(vec![]));
    }
    let all = Arc::new(Mutex::new((left, Ok(vec![]), Some(answer))));
    for io in ios {
        let all = all.clone();
        device.submit(io, move |outcome| {
            let mut all = lock(&all);
            all.0 -= 1;
            if all.1.is_ok() {
                all.1 = outcome;
            }
            if all.0 == 0
                && let Some(answer) = all.2.take()
            {
                answer(std::mem::replace(&mut all.1, Ok(vec![])));
            }
        });
    }
}

/// Sends what comes, until nothing more can come. After a failure it only makes room.
fn write(mut stream: &TcpStream, outgoing: &Receiver<Outgoing>, gate: &Gate) -> io::Result<()> {
    let mut encoder = Encoder::default();
    let mut bytes = Vec::with_capacity(BATCH);
    let mut result = Ok(());
    let mut send = |bytes: &mut Vec<u8>, result: &mut io::Result<()>| {
        if result.is_ok() && !bytes.is_empty() {
            *result = stream.write_all(bytes);
            if result.is_err() {
                let _ = stream.shutdown(Shutdown::Both);
            }
        }
        bytes.clear();
    };
    loop {
        let next = match outgoing.try_recv() {
            Ok(next) => Some(next),
            Err(TryRecvError::Disconnected) => None,
            Err(TryRecvError::Empty) => {
                send(&mut bytes, &mut result);
                outgoing.recv().ok()
            }
        };
        let Some(Outgoing { out, room }) = next else {
            send(&mut bytes, &mut result);
            return result;
        };
        encoder.encode(out, &mut bytes);
        if let Some(room) = room {
            gate.leave(room);
        }
        if bytes.len() >= BATCH {
            send(&mut bytes, &mut result);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_default_to_loopback_and_the_port_of_nvme() {
        let shown = |text: &str| text.parse::<Address>().map(|a| a.to_string());
        for (text, at) in [
            ("4421", "127.0.0.1:4421"),
            (":0", "127.0.0.1:0"),
            ("localhost", "127.0.0.1:4420"),
            ("localhost:7", "127.0.0.1:7"),
            ("0.0.0.0", "0.0.0.0:4420"),
            ("[::1]:99", "[::1]:99"),
            ("::1", "[::1]:4420"),
        ] {
            assert_eq!(shown(text).as_deref(), Ok(at), "{text}");
        }
        for text in ["", "unix:x", "localhost:x", "host:1", "70000", "1.2.3"] {
            assert!(shown(text).is_err_and(|e| e.contains("expected HOST:PORT")), "{text}");
        }
    }
}
