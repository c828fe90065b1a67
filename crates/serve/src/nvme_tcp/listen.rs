//! Sockets: a thread that accepts, and two threads for each connection, one that reads and one for what its
//! socket does not take at once.

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use super::Address;
use super::logs::critical_warning;
use super::model::Model;
use super::session::{Action, Session, Ticket};
use super::subsystem::{Culprit, Event, Subsystem};
use super::wire::{Done, Encoder, Out, PORT, Status};
use crate::budget::Account;
use crate::clients::{Arrival, Due};
use crate::deadline::Hearing;
use crate::listen::{Clients, Listening, Manner, Place, Stream};
use crate::lock::lock;
use crate::outbox::{self, Outbox, Pending};
use crate::tls::Tls;
use crate::{Device, Error, Fault, Io, Outcome};

/// Connections at a time; further ones are turned away.
pub const MOST_CLIENTS: usize = 128;
/// How often the drive's health is looked after.
const HEALTH: Duration = Duration::from_secs(1);
/// PDUs that may be taken while answers are held back for others that are there to be read.
const MOST_CORKED: u32 = 32;

/// What is noted of a connection.
#[derive(Default)]
struct Note {
    /// The controller whose it is.
    controller: Option<u16>,
    /// Of an admin queue: what is sent to the host unasked.
    to_host: Option<Arc<ToHost>>,
}

/// Ends asynchronous event requests.
fn deliver(clients: &Clients<Note>, ended: Vec<(u16, Done)>) {
    for (controller, done) in ended {
        clients.each(|note| {
            if let (true, Some(to_host)) = (note.controller == Some(controller), &note.to_host) {
                to_host.say(Out::Done(done.clone()));
            }
        });
    }
    outbox::flush();
}

struct Shared {
    device: Device,
    model: Arc<Model>,
    subsystem: Mutex<Subsystem>,
    /// The image cannot be written any more: hosts are to be told.
    broken: AtomicBool,
    closing: Mutex<bool>,
    wake: Condvar,
}

/// A port at which hosts are served, until dropped.
pub struct Server {
    listening: Listening<Note>,
    shared: Arc<Shared>,
    watching: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `address` and serves whoever comes, until dropped; with `tls`, hosts that speak it from the first byte
    /// on, and no others.
    ///
    /// # Errors
    /// If the address cannot be had, or the drive is none that NVMe can describe.
    pub fn start(address: Address, device: Device, model: Model, tls: Option<&Tls>) -> Result<Self, Error> {
        let sector = model.shape.sector_bytes;
        if !sector.is_power_of_two() || sector < 512 {
            return Err(Error::input(format!(
                "--nvme-tcp: geometry.sector_bytes = {sector}; expected a power of two of at least 512"
            )));
        }
        let subsystem = Subsystem::new(model);
        let model = subsystem.model.clone();
        let shared = Arc::new(Shared {
            device,
            model,
            subsystem: Mutex::new(subsystem),
            broken: AtomicBool::new(false),
            closing: Mutex::new(false),
            wake: Condvar::new(),
        });
        let manner = Manner { option: "--nvme-tcp", thread: "nvme", most: MOST_CLIENTS };
        let serve = {
            let (shared, tls) = (shared.clone(), tls.cloned());
            move |stream: &Arc<Stream>, slot, clients: &Clients<Note>| {
                let portal =
                    stream.portal().unwrap_or(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), PORT));
                let serve = |stream: &Arc<Stream>| {
                    let device = shared.device.client("nvme-tcp", "namespace 1");
                    let account = device.account();
                    let mut session = Session::of(portal, account.clone(), device.buffers().clone());
                    let connection = Connection { device, account, stream, slot, clients, shared: &shared };
                    let result = connection.converse(&mut session);
                    connection.depart(&session);
                    result
                };
                let _ = match &tls {
                    None => serve(stream),
                    Some(tls) => {
                        tls.accept(stream).and_then(|inside| inside.serve(stream, "nvme tls", serve))
                    }
                };
            }
        };
        let listening = Listening::start(&Place::Tcp(address.0), manner, serve)?;
        let watching = {
            let (shared, clients) = (shared.clone(), listening.clients().clone());
            let run = move || watch(&shared, &clients);
            let thread = std::thread::Builder::new().name("nvme health".into()).spawn(run);
            thread.map_err(|e| Error::io("a thread for the drive's health", e))?
        };
        Ok(Self { listening, shared, watching: Some(watching) })
    }

    /// Where it listens, with the port that was chosen if 0 was asked for.
    #[must_use]
    pub fn address(&self) -> Address {
        match self.listening.place() {
            Place::Tcp(at) => Address(*at),
            Place::Unix { .. } => unreachable!("it was started at a TCP port"),
        }
    }

    /// The name of the subsystem.
    #[must_use]
    pub fn nqn(&self) -> &str {
        &self.shared.model.nqn
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        *lock(&self.shared.closing) = true;
        self.shared.wake.notify_all();
        if let Some(thread) = self.watching.take() {
            let _ = thread.join();
        }
        let ended = lock(&self.shared.subsystem).happened(Event::Shutdown);
        deliver(self.listening.clients(), ended);
    }
}

/// Looks after the drive's health, for hosts that want to be told of a change.
fn watch(shared: &Shared, clients: &Clients<Note>) {
    loop {
        let warning = shared.device.look(|| !*lock(&shared.closing), critical_warning);
        if let Some(warning) = warning {
            let ended = lock(&shared.subsystem).health(warning);
            deliver(clients, ended);
        }
        if shared.broken.swap(false, Ordering::Relaxed) {
            let ended = lock(&shared.subsystem).happened(Event::InternalError);
            deliver(clients, ended);
        }
        let closing = lock(&shared.closing);
        let (closing, _) = shared.wake.wait_timeout(closing, HEALTH).unwrap_or_else(PoisonError::into_inner);
        if *closing {
            return;
        }
    }
}

/// What is on its way to a host. Completions say how far the submission queue was read: they have to be encoded in the
/// order in which they are sent.
struct ToHost {
    encoder: Mutex<Encoder>,
    outbox: Arc<Outbox>,
}

impl ToHost {
    fn answer(&self, pending: Pending, out: Out, due: Option<Due>) {
        let mut encoder = lock(&self.encoder);
        pending.answer(encoder.encode(out), due);
    }

    /// What no request that is under way waits for.
    fn say(&self, out: Out) {
        let mut encoder = lock(&self.encoder);
        self.outbox.say(encoder.encode(out));
    }
}

/// A connection.
struct Connection<'a> {
    device: Device,
    account: Arc<Account>,
    stream: &'a Arc<Stream>,
    slot: usize,
    clients: &'a Clients<Note>,
    shared: &'a Arc<Shared>,
}

impl Connection<'_> {
    /// From its first byte to its last.
    fn converse(&self, session: &mut Session) -> io::Result<()> {
        let to_host = Arc::new(ToHost {
            encoder: Mutex::default(),
            outbox: Outbox::new(
                self.stream,
                self.account.clone(),
                self.device.whose().clone(),
                self.device.buffers(),
            ),
        });
        std::thread::scope(|scope| {
            let writer = std::thread::Builder::new().name("nvme writer".into());
            writer.spawn_scoped(scope, || to_host.outbox.write())?;
            let result = self.listen(session, &to_host);
            self.clients.note(self.slot, |note| note.to_host = None);
            session.forget();
            to_host.outbox.end();
            result
        })
    }

    fn listen(&self, session: &mut Session, to_host: &Arc<ToHost>) -> io::Result<()> {
        let Self { stream, shared, .. } = *self;
        let mut hearing = Hearing::new(stream);
        let mut corked = 0;
        let mut owed = None::<(u64, u64)>;
        loop {
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
            hearing.fill(session.is_amid(), session.place())?;
            let before = session.queue();
            let (mut actions, silence) = {
                let mut subsystem = lock(&shared.subsystem);
                session.heard(hearing.arrival());
                let actions = session.take(&mut subsystem);
                (actions, keep_alive(session, &subsystem))
            };
            hearing.may_be_silent(silence);
            if let (None, Some((controller, queue))) = (before, session.queue()) {
                hearing.settled();
                hearing.may_wink(self.device.wink());
                if self.device.whose().is_timed() {
                    hearing.note_arrivals(self.device.whose());
                }
                self.clients.settled(self.slot);
                let to_host = (queue == 0).then(|| to_host.clone());
                self.clients.note(self.slot, |note| {
                    (note.controller, note.to_host) = (Some(controller), to_host);
                });
            }
            // A host whose data nobody has room for is not heard until there is some.
            if let Some(bytes) = session.lacks() {
                outbox::flush();
                actions.extend(session.goes_on(self.account.enter(bytes)));
                hearing.held_back();
            }
            if session.owed().map(|owed| owed.1) != owed.map(|owed| owed.1) {
                owed = session.owed();
                hearing.owes(owed.map(|owed| owed.0 as usize));
            }
            for action in actions {
                match action {
                    Action::Close => return Ok(()),
                    Action::Send(out) => {
                        let room = if let Out::Done(done) = &out { done.data.len() } else { 0 };
                        to_host.answer(Pending::new(&to_host.outbox, room as u64), out, None);
                    }
                    Action::Look(cid, look) => {
                        let pending = Pending::new(&to_host.outbox, look.bytes());
                        let (to_host, all) = (to_host.clone(), shared.clone());
                        let culprit = session.queue().map(|(_, queue)| Culprit::at(queue, cid));
                        self.device.inspect(move |ssd| {
                            let mut done = Done::new(cid, Status::OK);
                            match (look.answer(ssd, &all.model), culprit) {
                                (Ok(data), _) => done.data = data,
                                (Err(status), culprit) => {
                                    done.status = status;
                                    lock(&all.subsystem).failed(&culprit.unwrap_or_default(), status);
                                }
                            }
                            to_host.answer(pending, Out::Done(done), None);
                        });
                    }
                    Action::Flush(id) => {
                        let all = shared.clone();
                        self.device.submit_corked(Io::flush(), session.came(), move |outcome, _| {
                            lock(&all.subsystem).flushed(id, outcome.is_ok());
                        });
                        outbox::flush_others(&to_host.outbox);
                    }
                    // Those that send nothing to the host unasked.
                    Action::CloseQueues(id) => {
                        self.clients.shut(|note| note.controller == Some(id) && note.to_host.is_none());
                    }
                    Action::Submit(ticket, ios) => {
                        let weight = ios.iter().map(Io::weight).sum();
                        let pending = match session.take_room() {
                            Some(room) => Pending::of(&to_host.outbox, room),
                            None => Pending::wait(&to_host.outbox, weight, &mut hearing),
                        };
                        submit(ticket, ios, session.came(), pending, self, to_host);
                        outbox::flush_others(&to_host.outbox);
                    }
                    Action::NextUnits(ticket, handles) => {
                        let pending = Pending::new(&to_host.outbox, 0);
                        self.device.next_units(handles, answering(ticket, pending, shared, to_host));
                    }
                }
            }
        }
    }

    /// Without its admin queue a controller has no other queues.
    fn depart(&self, session: &Session) {
        let Some((controller, queue)) = session.queue() else { return };
        lock(&self.shared.subsystem).left(controller, queue, session.resets());
        if queue == 0 {
            self.clients.shut(|note| note.controller == Some(controller));
        }
    }
}

/// How long a host may be silent, as its keep alive timer says.
fn keep_alive(session: &Session, subsystem: &Subsystem) -> Option<Duration> {
    match session.queue() {
        Some((id, 0)) => {
            let ms = subsystem.controller(id).map_or(0, |c| c.keep_alive_ms);
            (ms > 0).then(|| Duration::from_millis(ms.into()))
        }
        _ => None,
    }
}

/// Answers a command when its outcome is there.
fn answering(
    ticket: Ticket,
    pending: Pending,
    shared: &Arc<Shared>,
    to_host: &Arc<ToHost>,
) -> impl FnOnce(Outcome, Option<Due>) + Send + 'static {
    let (to_host, all) = (to_host.clone(), shared.clone());
    move |outcome: Outcome, due| {
        if outcome == Err(Fault::Image) {
            all.broken.store(true, Ordering::Relaxed);
        }
        let culprit = ticket.culprit;
        let done = ticket.done(outcome);
        if done.status != Status::OK {
            lock(&all.subsystem).failed(&culprit, done.status);
        }
        to_host.answer(pending, Out::Done(done), due);
    }
}

fn submit(
    ticket: Ticket,
    ios: Vec<Io>,
    came: Option<Arrival>,
    pending: Pending,
    from: &Connection<'_>,
    to_host: &Arc<ToHost>,
) {
    let answer = answering(ticket, pending, from.shared, to_host);
    // The last of several requests to end answers for all, with the first failure.
    let left = ios.len();
    if left == 0 {
        return answer(Ok(vec![]), None);
    }
    let all = Arc::new(Mutex::new((left, Ok(vec![]), Some(answer), None::<Due>)));
    for io in ios {
        let all = all.clone();
        from.device.submit_corked(io, came, move |outcome, due| {
            let mut all = lock(&all);
            all.0 -= 1;
            all.3 = due.map(|due| all.3.map_or(due, |others| others.and(due))).or(all.3);
            if all.1.is_ok() {
                all.1 = outcome;
            }
            if all.0 == 0
                && let Some(answer) = all.2.take()
            {
                answer(std::mem::replace(&mut all.1, Ok(vec![])), all.3);
            }
        });
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
