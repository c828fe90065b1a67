//! The socket, the rings, and a thread that answers.
//!
//! One front end at a time; when it leaves, the next one may come. Its memory stays mapped until the
//! last request that was in it has been answered.

use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;

use vhost::vhost_user::message::VhostUserProtocolFeatures;
use vhost::vhost_user::{Backend, Listener};
use vhost_user_backend::{ShutdownHandle, VhostUserBackend, VhostUserDaemon, VringMutex, VringT};
use virtio_queue::{DescriptorChain, QueueT};
use vm_memory::{
    Bytes, GuestAddress, GuestAddressSpace, GuestMemoryAtomic, GuestMemoryLoadGuard, GuestMemoryMmap,
};
use vmm_sys_util::epoll::EventSet;
use vmm_sys_util::event::{EventConsumer, EventFlag, EventNotifier, new_event_consumer_and_notifier};

use super::blk::{self, Asked};
use crate::budget::{Account, Room};
use crate::clients::{Client, Due};
use crate::deadline::HANDSHAKE;
use crate::listen::Shortage;
use crate::lock::lock;
use crate::{Device, Error, Fault, outbox};

type Memory = GuestMemoryAtomic<GuestMemoryMmap>;
type Guard = GuestMemoryLoadGuard<GuestMemoryMmap>;
type Ring = VringMutex<Memory>;

/// The event that ends the thread of the rings; what is not above the queues the daemon keeps for itself.
const OVER: u16 = blk::QUEUES as u16 + 1;

/// A request whose answer has a place.
struct Open {
    ring: Ring,
    memory: Guard,
    head: u16,
    /// Where the answer goes: data, and the status in the last byte.
    room: Vec<(GuestAddress, u32)>,
    /// What it takes of the bytes under way.
    _taken: Room,
}

struct Answer {
    open: Open,
    /// When it should be there, and for whom.
    due: Option<Due>,
    client: Arc<Client>,
    data: Vec<u8>,
    status: u8,
}

struct Disk {
    device: Device,
    name: String,
    memory: Mutex<Option<Memory>>,
    account: Arc<Account>,
    answers: Mutex<Sender<Answer>>,
    /// The front end has asked for the configuration, or given memory.
    negotiated: AtomicBool,
    /// The channel back to the front end: some front ends take its end for the disk's.
    back: Mutex<Option<Backend>>,
}

/// Bytes of an answer, status included.
fn bytes_of(room: &[(GuestAddress, u32)]) -> u64 {
    room.iter().map(|&(_, n)| u64::from(n)).sum()
}

impl Disk {
    fn take(&self, ring: &Ring, memory: &Guard, chain: DescriptorChain<Guard>) -> io::Result<()> {
        let head = chain.head_index();
        let room: Vec<_> = chain.clone().writable().map(|d| (d.addr(), d.len())).collect();
        let wanted = bytes_of(&room);
        let mut reader = chain.reader(memory).map_err(io::Error::other)?;
        let sent = reader.available_bytes() as u64;
        if wanted == 0 || sent > blk::MOST_BYTES + blk::HEADER as u64 {
            // No place for a status, or more than anybody may send: given back as it is.
            return finish(ring, head, 0);
        }
        let taken = self.account.enter(sent + wanted.min(blk::MOST_BYTES));
        let mut bytes = vec![0; sent as usize];
        reader.read_exact(&mut bytes)?;
        let asked = blk::request(&bytes, wanted - 1);
        let open = Open { ring: ring.clone(), memory: memory.clone(), head, room, _taken: taken };
        let answers = lock(&self.answers).clone();
        let at_once = match &asked {
            Asked::Do(_) => None,
            Asked::Name => {
                let mut name = self.name.clone().into_bytes();
                name.resize(20, 0);
                Some((name, blk::status::OK))
            }
            Asked::Refuse(status) => Some((vec![], *status)),
        };
        if let Some((data, status)) = at_once {
            let client = self.device.whose().clone();
            let _ = answers.send(Answer { open, due: None, client, data, status });
            return Ok(());
        }
        let Asked::Do(ios) = asked else { return Ok(()) };
        // Answered by the last of its parts, with the first fault.
        let left = Arc::new(AtomicU32::new(ios.len() as u32));
        let shared = Arc::new(Mutex::new((Some((open, answers)), None::<Fault>, None::<Due>)));
        for io in ios {
            let (left, shared, client) = (left.clone(), shared.clone(), self.device.whose().clone());
            self.device.submit_corked(io, None, move |outcome, due| {
                let mut shared = lock(&shared);
                shared.2 = due.map(|due| shared.2.map_or(due, |others| others.and(due))).or(shared.2);
                let data = match outcome {
                    Ok(data) => data,
                    Err(fault) => {
                        shared.1.get_or_insert(fault);
                        vec![]
                    }
                };
                if left.fetch_sub(1, Ordering::SeqCst) == 1
                    && let Some((open, answers)) = shared.0.take()
                {
                    let (status, due) = (blk::status_of(shared.1), shared.2);
                    let _ = answers.send(Answer { open, due, client, data, status });
                }
            });
        }
        outbox::flush();
        Ok(())
    }
}

/// Gives a request back to the guest.
fn finish(ring: &Ring, head: u16, bytes: u32) -> io::Result<()> {
    ring.add_used(head, bytes).map_err(io::Error::other)?;
    if ring.needs_notification().map_err(io::Error::other)? {
        ring.signal_used_queue()?;
    }
    Ok(())
}

/// Writes answers to where the guest wants them, in the order in which they come.
fn answer(answers: &Receiver<Answer>) {
    for Answer { open, due, client, data, status } in answers {
        let Open { ring, memory, head, room, _taken } = open;
        let place = bytes_of(&room) - 1;
        let mut rest = &data[..data.len().min(place as usize)];
        let used = rest.len() as u32 + 1;
        let mut at = 0;
        // A guest whose buffers lie outside of its memory gets nothing.
        for (address, bytes) in room {
            let end = at + u64::from(bytes);
            let now = rest.len().min(bytes as usize);
            let _ = memory.write_slice(&rest[..now], address);
            rest = &rest[now..];
            if (at..end).contains(&place) {
                let _ = memory.write_obj(status, GuestAddress(address.0.wrapping_add(place - at)));
            }
            at = end;
        }
        // A ring that is gone needs no answer.
        let _ = finish(&ring, head, used);
        client.answered(due.as_slice(), false);
    }
}

impl VhostUserBackend for Disk {
    type Bitmap = ();
    type Vring = Ring;

    fn num_queues(&self) -> usize {
        blk::QUEUES
    }

    fn max_queue_size(&self) -> usize {
        blk::QUEUE_SIZE
    }

    fn features(&self) -> u64 {
        blk::feature::OURS
    }

    fn protocol_features(&self) -> VhostUserProtocolFeatures {
        use VhostUserProtocolFeatures as P;
        P::CONFIG | P::MQ | P::BACKEND_REQ | P::REPLY_ACK
    }

    fn set_event_idx(&self, _: bool) {}

    fn get_config(&self, offset: u32, size: u32) -> Vec<u8> {
        self.negotiated.store(true, Ordering::SeqCst);
        let config = blk::config(&self.device.shape());
        let mut out: Vec<u8> = config.iter().copied().skip(offset as usize).take(size as usize).collect();
        out.resize(size.min(256) as usize, 0);
        out
    }

    fn update_memory(&self, memory: Memory) -> io::Result<()> {
        self.negotiated.store(true, Ordering::SeqCst);
        *lock(&self.memory) = Some(memory);
        Ok(())
    }

    fn set_backend_req_fd(&self, back: Backend) {
        *lock(&self.back) = Some(back);
    }

    fn handle_event(&self, event: u16, set: EventSet, rings: &[Ring], _: usize) -> io::Result<()> {
        if event == OVER {
            // An error is what ends the thread.
            return Err(io::ErrorKind::ConnectionAborted.into());
        }
        let (Some(ring), true) = (rings.get(usize::from(event)), set == EventSet::IN) else { return Ok(()) };
        let Some(memory) = lock(&self.memory).as_ref().map(Memory::memory) else { return Ok(()) };
        // An error would end the thread that serves all rings: a guest that breaks one waits in vain at that one.
        let mut told = false;
        loop {
            let _ = ring.disable_notification();
            let mut some = false;
            loop {
                let chain = ring.get_mut().get_queue_mut().pop_descriptor_chain(memory.clone());
                let Some(chain) = chain else { break };
                some = true;
                let head = chain.head_index();
                if self.take(ring, &memory, chain).is_err() {
                    let _ = finish(ring, head, 0);
                }
            }
            // There is more, it says, and nothing comes: a ring that makes no sense, until the next kick.
            let broken = told && !some;
            told = ring.enable_notification().unwrap_or(false);
            if !told || broken {
                return Ok(());
            }
        }
    }
}

/// A front end's rings and the thread that looks after them.
///
/// The thread's end has an event of ours: of the one that a daemon asks its backend for, the daemon never closes the
/// descriptor.
struct Daemon {
    daemon: VhostUserDaemon<Arc<Disk>>,
    over: (EventConsumer, EventNotifier),
}

impl Daemon {
    fn new(disk: &Arc<Disk>) -> io::Result<Self> {
        let over = new_event_consumer_and_notifier(EventFlag::NONBLOCK | EventFlag::CLOEXEC)?;
        let memory = Memory::new(GuestMemoryMmap::new());
        let daemon = VhostUserDaemon::new("vhost user".into(), disk.clone(), memory)
            .map_err(|e| io::Error::other(e.to_string()))?;
        for rings in daemon.get_epoll_handlers() {
            if let Err(e) = rings.register_listener(over.0.as_raw_fd(), EventSet::IN, OVER.into()) {
                // Nothing could end the thread, which dropping the daemon would wait for.
                std::mem::forget(daemon);
                return Err(e);
            }
        }
        Ok(Self { daemon, over })
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        let _ = self.over.1.notify();
    }
}

struct Shared {
    closing: AtomicBool,
    connected: Mutex<Option<ShutdownHandle>>,
}

/// The next front end, from its first message to its last.
///
/// # Errors
/// If the system has nothing to serve it with.
fn serve(disk: &Arc<Disk>, listener: &mut Listener, shared: &Shared) -> io::Result<()> {
    let mut front = Daemon::new(disk)?;
    disk.negotiated.store(false, Ordering::SeqCst);
    front.daemon.start(listener).map_err(|e| io::Error::other(e.to_string()))?;
    *lock(&shared.connected) = front.daemon.shutdown_handle();
    if shared.closing.load(Ordering::SeqCst) {
        front.daemon.request_shutdown();
    }
    let handle = front.daemon.shutdown_handle();
    let gone = (Mutex::new(false), Condvar::new());
    std::thread::scope(|scope| {
        // There is one front end at a time: one that says nothing must not keep others away.
        let watch = || {
            let over = gone.1.wait_timeout_while(lock(&gone.0), HANDSHAKE, |gone| !*gone);
            let left = *over.unwrap_or_else(PoisonError::into_inner).0;
            if let (Some(handle), false) = (&handle, left || disk.negotiated.load(Ordering::SeqCst)) {
                handle.shutdown();
            }
        };
        let watching = std::thread::Builder::new().name("vhost handshake".into()).spawn_scoped(scope, watch);
        // How a front end leaves is its own affair.
        let _ = front.daemon.wait();
        *lock(&gone.0) = true;
        gone.1.notify_all();
        drop(watching);
    });
    *lock(&shared.connected) = None;
    *lock(&disk.back) = None;
    *lock(&disk.memory) = None;
    Ok(())
}

/// A socket at which virtual machines find the disk.
pub struct Server {
    path: PathBuf,
    listener: UnixListener,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens at `path`, a socket with the permissions `mode`, until dropped; `name` is the disk's serial number to
    /// its guests (20 bytes).
    ///
    /// # Errors
    /// If the socket cannot be made.
    pub fn start(path: &Path, mode: u32, device: Device, name: &str) -> Result<Self, Error> {
        let fail = |e: &dyn std::fmt::Display| {
            let at = path.display();
            Error::input(format!("--vhost-user: cannot listen at {at}: {e}; expected a path that is free"))
        };
        let listener = crate::listen::bind(path, mode).map_err(|e| fail(&e))?;
        let mut accepting = Listener::from(listener.try_clone().map_err(|e| fail(&e))?);
        let (to_answer, answers) = channel();
        let answering =
            std::thread::Builder::new().name("vhost answers".into()).spawn(move || answer(&answers));
        answering.map_err(|e| fail(&e))?;
        let disk = Arc::new(Disk {
            account: device.account(),
            device: device.client("vhost-user", "disk"),
            name: name.to_owned(),
            memory: Mutex::default(),
            answers: Mutex::new(to_answer),
            negotiated: AtomicBool::new(false),
            back: Mutex::default(),
        });
        let shared = Arc::new(Shared { closing: AtomicBool::new(false), connected: Mutex::default() });
        let run = {
            let shared = shared.clone();
            move || {
                let mut shortage = Shortage::of("--vhost-user");
                while !shared.closing.load(Ordering::SeqCst) {
                    match serve(&disk, &mut accepting, &shared) {
                        Err(e) if !shared.closing.load(Ordering::SeqCst) => shortage.wait(&e),
                        Ok(()) | Err(_) => {}
                    }
                }
            }
        };
        let thread =
            std::thread::Builder::new().name("vhost user".into()).spawn(run).map_err(|e| fail(&e))?;
        Ok(Self { path: path.to_owned(), listener, shared, thread: Some(thread) })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.closing.store(true, Ordering::SeqCst);
        if let Some(connected) = &*lock(&self.shared.connected) {
            connected.shutdown();
        }
        crate::listen::wake(&self.listener);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
        let _ = std::fs::remove_file(&self.path);
    }
}
