//! The device, its threads, and how it comes and goes.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use nandle_ublk::uapi::{self, CONTROL_PATH, DeviceInfo, feature, state};
use nandle_ublk::{Control, Event, Queue, block_device, open_device};
use rustix::io::Errno;

use super::{blk, queue};
use crate::budget::MOST_BYTES_UNDER_WAY;
use crate::lock::lock;
use crate::{Device, Error};

/// How long the kernel may take to notice that the process behind a device is dead, and to clear up.
const CLEARING: Duration = Duration::from_secs(5);
/// The same, as long as the process is still to be seen.
const DYING: Duration = Duration::from_secs(1);
/// How long the last user of a device that is going may take to close it.
const FAREWELL: Duration = Duration::from_secs(2);
/// Between two looks.
const PAUSE: Duration = Duration::from_millis(50);

/// What else there is where ublk is not.
const INSTEAD: &str = "or --fuse with a loop device, or --nbd";

struct Shared {
    id: u32,
    control: Mutex<Control>,
    /// We are taking it away ourselves.
    closing: AtomicBool,
    /// What a queue ended of.
    failed: Mutex<Option<io::Error>>,
}

/// A block device; removed when dropped.
pub struct Server {
    shared: Arc<Shared>,
    queues: Vec<JoinHandle<()>>,
    is_deleted: bool,
}

/// Takes a block device away, from any thread.
#[derive(Clone)]
pub struct Handle(Arc<Shared>);

impl Handle {
    /// Takes the block device away. The kernel first has the file systems on it write what they have still to
    /// write, so the drive should be running. Blocks.
    pub fn stop(&self) {
        self.0.closing.store(true, Ordering::SeqCst);
        // Gone already, or never there: all the same.
        let _ = lock(&self.0.control).stop(self.0.id);
    }
}

/// What a control node that is not as it should be means.
fn no_control(e: &io::Error) -> Error {
    let expected = match e.kind() {
        io::ErrorKind::NotFound => {
            format!("expected Linux 6.5 or newer with its driver (modprobe ublk_drv), {INSTEAD}")
        }
        io::ErrorKind::PermissionDenied => format!("expected root, {INSTEAD}"),
        _ => format!("expected io_uring (sysctl kernel.io_uring_disabled), {INSTEAD}"),
    };
    Error::input(format!("--ublk: {CONTROL_PATH}: {e}; {expected}"))
}

/// Whether devices can be made here, and what would help.
///
/// # Errors
/// Why not, and what was expected.
pub fn check() -> Result<(), Error> {
    control().map(drop)
}

fn control() -> Result<Control, Error> {
    let mut control = Control::open().map_err(|e| no_control(&e))?;
    match control.features() {
        Ok(features) if features & feature::USER_COPY != 0 => Ok(control),
        Err(e) if e.kind() == io::ErrorKind::PermissionDenied => Err(no_control(&e)),
        _ => Err(Error::input(format!(
            "--ublk: this kernel's driver cannot copy by pread and pwrite (UBLK_F_USER_COPY); expected Linux 6.5 or \
             newer, {INSTEAD}"
        ))),
    }
}

/// Makes the device that is asked for, in the place of one whose server is dead.
fn add(control: &mut Control, asked: &DeviceInfo) -> Result<DeviceInfo, Error> {
    let id = asked.dev_id;
    let began = Instant::now();
    loop {
        let e = match control.add(asked) {
            Ok(info) => return Ok(info),
            Err(e) => e,
        };
        if e.kind() == io::ErrorKind::PermissionDenied {
            return Err(no_control(&e));
        }
        if e.kind() != io::ErrorKind::AlreadyExists {
            return Err(Error::io("--ublk: the kernel made no device", e));
        }
        let path = block_device(id);
        let path = path.display();
        // None: gone in the meantime.
        let there = control.info(id).ok();
        // One that waits for its own server to come back is not dead, and one that is open is about to start.
        if there.is_some_and(|there| there.state == state::DEAD) && open_device(id).is_ok() {
            match control.delete(id, CLEARING) {
                Err(e) if e.kind() == io::ErrorKind::TimedOut => {
                    return Err(Error::input(format!(
                        "--ublk={id}: {path} is still in use, though its server is dead; expected it to be unmounted \
                         and closed, or another number"
                    )));
                }
                Err(e) if e.raw_os_error() != Some(Errno::NODEV.raw_os_error()) => {
                    return Err(Error::io(format!("--ublk={id}: the dead device cannot be deleted"), e));
                }
                _ => {}
            }
        }
        let process = there.and_then(|there| u32::try_from(there.ublksrv_pid).ok()).filter(|&n| n > 0);
        let is_alive = process.is_some_and(|n| PathBuf::from(format!("/proc/{n}")).exists());
        if began.elapsed() > if is_alive { DYING } else { CLEARING } {
            let by = process.map_or(String::new(), |n| format!(" by process {n}"));
            return Err(Error::input(format!(
                "--ublk={id}: {path} is served{by}; expected a number that is free, or --ublk alone for any"
            )));
        }
        std::thread::sleep(PAUSE);
    }
}

impl Server {
    /// Makes a device, with the number `id` if there is one, in the place of one of this number whose server is
    /// dead. Its queues wait; the block device comes with [`Server::start`].
    ///
    /// # Errors
    /// If the kernel has no ublk, the number is taken, or the caller may not.
    pub fn prepare(id: Option<u32>, device: &Device) -> Result<Self, Error> {
        let device = &device.client("ublk", "disk");
        let shape = device.shape();
        let mut control = control()?;
        let processors = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        let info = add(&mut control, &blk::device(&shape, id.unwrap_or(uapi::ANY_DEVICE), processors))?;
        let id = info.dev_id;
        let shared = Shared {
            id,
            control: Mutex::new(control),
            closing: AtomicBool::new(false),
            failed: Mutex::default(),
        };
        // From here on it is deleted again if something fails.
        let mut this = Self { shared: Arc::new(shared), queues: vec![], is_deleted: false };
        let parameters = blk::parameters(&shape, info.max_io_buf_bytes.min(blk::MOST_BYTES));
        let fail = |what: &str, e: io::Error| Error::io(format!("--ublk: {what}"), e);
        lock(&this.shared.control)
            .set_parameters(id, &parameters)
            .map_err(|e| fail("the kernel does not take the device's limits", e))?;
        let file = open_device(id).map_err(|e| fail(&format!("/dev/ublkc{id}"), e))?;
        let most_under_way = MOST_BYTES_UNDER_WAY / u64::from(info.nr_hw_queues.max(1));
        let (ready, made) = channel();
        for number in 0..info.nr_hw_queues {
            let (file, device, shared) = (file.clone(), device.clone(), this.shared.clone());
            let ready = ready.clone();
            let run = move || {
                let result = converse(file, number, info.queue_depth, &device, most_under_way, ready);
                if let Err(e) = result {
                    lock(&shared.failed).get_or_insert(e);
                }
                // Deleted by somebody else, or broken: nobody can reach the drive here any more.
                if !shared.closing.load(Ordering::SeqCst) {
                    device.stop();
                }
            };
            let thread = std::thread::Builder::new().name(format!("ublk {number}")).spawn(run);
            this.queues.push(thread.map_err(|e| fail("a thread", e))?);
        }
        drop((ready, file));
        if made.iter().count() < this.queues.len() {
            this.shared.closing.store(true, Ordering::SeqCst);
            let e = lock(&this.shared.failed).take().unwrap_or_else(|| io::ErrorKind::Other.into());
            return Err(fail("its queues", e));
        }
        Ok(this)
    }

    /// Has the block device appear. The kernel looks for partitions before this returns, so the drive must be
    /// running already.
    ///
    /// # Errors
    /// If the kernel refuses.
    pub fn start(&self) -> Result<(), Error> {
        let path = self.path();
        lock(&self.shared.control)
            .start(self.shared.id)
            .map_err(|e| Error::io(format!("--ublk: {} was not made", path.display()), e))
    }

    /// The block device.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        block_device(self.shared.id)
    }

    /// What takes the block device away.
    #[must_use]
    pub fn handle(&self) -> Handle {
        Handle(self.shared.clone())
    }

    /// Removes the device; whether it is gone, or goes when its last user closes it.
    ///
    /// # Errors
    /// What a queue ended of, if not of this.
    pub fn end(mut self) -> Result<bool, Error> {
        let is_gone = self.delete();
        match lock(&self.shared.failed).take() {
            Some(e) => Err(Error::io(format!("--ublk: the queues of {}", self.path().display()), e)),
            None => Ok(is_gone),
        }
    }

    fn delete(&mut self) -> bool {
        self.is_deleted = true;
        self.handle().stop();
        for queue in self.queues.drain(..) {
            let _ = queue.join();
        }
        let deleted = lock(&self.shared.control).delete(self.shared.id, FAREWELL);
        !deleted.is_err_and(|e| e.kind() == io::ErrorKind::TimedOut)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if !self.is_deleted {
            self.delete();
        }
    }
}

/// What a queue's thread does; `ready` is told when the kernel can send requests, and dropped in any case.
fn converse(
    file: Arc<OwnedFd>,
    number: u16,
    depth: u16,
    device: &Device,
    most_under_way: u64,
    ready: Sender<()>,
) -> io::Result<()> {
    super::serves_the_kernel();
    let mut queue = Queue::new(file, number, depth)?;
    // What the kernel does not take comes back at once; nothing else can come before the start.
    let mut events = vec![];
    queue.wait(false, &mut events)?;
    if events.iter().any(|event| matches!(event, Event::Over(_))) {
        return Err(io::Error::other("the kernel does not take its commands"));
    }
    let _ = ready.send(());
    drop(ready);
    let waker = queue.waker();
    queue::serve(&mut queue, device, most_under_way, move || waker.wake())
}
