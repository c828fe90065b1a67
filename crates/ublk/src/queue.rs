//! One queue of a device: requests come, answers go.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;

use io_uring::{IoUring, opcode, squeue, types};
use rustix::buffer::spare_capacity;
use rustix::event::{EventfdFlags, PollFlags, eventfd};
use rustix::io::Errno;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};

use crate::uapi::{self, Descriptor, op};

/// Of a completion that is the waker's.
const WOKEN: u64 = u64::MAX;

/// What happened at a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// There is a request with this tag.
    Request(u16),
    /// There will be no more requests with this tag: the device is being removed.
    Over(u16),
}

/// Wakes the thread that waits at a queue.
#[derive(Clone)]
pub struct Waker(Arc<OwnedFd>);

impl Waker {
    /// Wakes it, or has it not sleep the next time.
    pub fn wake(&self) {
        // Full: it is awake as long as it has not read what is there.
        let _ = rustix::io::write(&*self.0, &1_u64.to_ne_bytes());
    }
}

/// The descriptors of a queue's requests, as the kernel writes them.
struct Descriptors {
    at: NonNull<std::ffi::c_void>,
    bytes: usize,
}

impl Drop for Descriptors {
    #[allow(unsafe_code)]
    fn drop(&mut self) {
        // SAFETY: what was mapped, and nothing refers to it any more.
        let _ = unsafe { munmap(self.at.as_ptr(), self.bytes) };
    }
}

/// A queue, on the thread that made it.
pub struct Queue {
    ring: IoUring,
    device: Arc<OwnedFd>,
    id: u16,
    depth: u16,
    descriptors: Descriptors,
    waker: Waker,
    is_watched: bool,
}

impl Queue {
    /// The queue `id` of a device, `depth` requests deep. From now on it waits for requests; all later calls are
    /// to come from the same thread.
    ///
    /// # Errors
    /// If the system has no ring for it, or depth or number are not the device's.
    #[allow(unsafe_code)]
    pub fn new(device: Arc<OwnedFd>, id: u16, depth: u16) -> io::Result<Self> {
        let (offset, bytes) = uapi::descriptors(id, depth, rustix::param::page_size());
        // SAFETY: a new mapping, which nothing else refers to.
        let at = unsafe {
            mmap(std::ptr::null_mut(), bytes, ProtFlags::READ, MapFlags::SHARED, &*device, offset)?
        };
        let at = NonNull::new(at).ok_or(io::ErrorKind::OutOfMemory)?;
        let descriptors = Descriptors { at, bytes };
        // One entry for each tag, one for the waker.
        let ring = IoUring::builder()
            .setup_single_issuer()
            .setup_coop_taskrun()
            .setup_submit_all()
            .build(u32::from(depth) + 1)?;
        let waker = Waker(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?));
        let mut this = Self { ring, device, id, depth, descriptors, waker, is_watched: false };
        for tag in 0..depth {
            this.command(op::FETCH_REQ, tag, 0)?;
        }
        this.ring.submit()?;
        Ok(this)
    }

    #[allow(unsafe_code)]
    fn push(&mut self, entry: &squeue::Entry) -> io::Result<()> {
        if self.ring.submission().is_full() {
            self.ring.submit()?;
        }
        // SAFETY: no entry of ours has an address in it, and the files are open as long as the ring.
        unsafe { self.ring.submission().push(entry) }.map_err(|_| io::ErrorKind::ResourceBusy.into())
    }

    fn command(&mut self, op: u32, tag: u16, result: i32) -> io::Result<()> {
        let entry = opcode::UringCmd16::new(types::Fd(self.device.as_raw_fd()), op)
            .cmd(uapi::io_command(self.id, tag, result))
            .build();
        self.push(&entry.user_data(u64::from(tag)))
    }

    /// Requests that it may have at a time; their tags are below.
    #[must_use]
    pub fn depth(&self) -> u16 {
        self.depth
    }

    /// Wakes whoever [waits](Self::wait).
    #[must_use]
    pub fn waker(&self) -> Waker {
        self.waker.clone()
    }

    /// The request that has come with a tag.
    ///
    /// # Panics
    /// If the tag is not below the depth.
    #[must_use]
    #[allow(unsafe_code)]
    pub fn descriptor(&self, tag: u16) -> Descriptor {
        assert!(tag < self.depth, "tag {tag} of {}", self.depth);
        let at = self.descriptors.at.as_ptr().cast::<u8>();
        // SAFETY: within the mapping, whose first `depth` entries they are, at a multiple of 8. The kernel
        // has written it before the completion that was seen; volatile, as it is not ours.
        let bytes =
            unsafe { at.add(usize::from(tag) * Descriptor::BYTES).cast::<[u8; 16]>().read_volatile() };
        Descriptor::of(&bytes)
    }

    /// The data of a request that writes.
    ///
    /// # Errors
    /// If there is no such request, or it has less.
    pub fn fetch(&self, tag: u16, bytes: usize) -> io::Result<Vec<u8>> {
        let mut data = Vec::with_capacity(bytes);
        while data.len() < bytes {
            let at = uapi::data_offset(self.id, tag) + data.len() as u64;
            match rustix::io::pread(&*self.device, spare_capacity(&mut data), at) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(_) | Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        data.truncate(bytes);
        Ok(data)
    }

    /// Gives a request that reads its data.
    ///
    /// # Errors
    /// If there is no such request, or it wants less.
    pub fn give(&self, tag: u16, mut data: &[u8]) -> io::Result<()> {
        let mut at = uapi::data_offset(self.id, tag);
        while !data.is_empty() {
            match rustix::io::pwrite(&*self.device, data, at) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(n) => {
                    data = data.get(n..).unwrap_or_default();
                    at += n as u64;
                }
                Err(Errno::INTR) => {}
                Err(e) => return Err(e.into()),
            }
        }
        Ok(())
    }

    /// Answers a request: bytes that were read or written, or an error number below zero. It leaves with the next
    /// [wait](Self::wait).
    ///
    /// # Errors
    /// If the ring takes no more.
    pub fn commit(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.command(op::COMMIT_AND_FETCH_REQ, tag, result)
    }

    /// Sends the answers that were committed, and waits for events if `block`, or until somebody wakes it.
    ///
    /// # Errors
    /// If the ring is broken.
    pub fn wait(&mut self, block: bool, events: &mut Vec<Event>) -> io::Result<()> {
        if !self.is_watched {
            let entry =
                opcode::PollAdd::new(types::Fd(self.waker.0.as_raw_fd()), u32::from(PollFlags::IN.bits()));
            self.push(&entry.build().user_data(WOKEN))?;
            self.is_watched = true;
        }
        match self.ring.submit_and_wait(usize::from(block)) {
            Ok(_) => {}
            Err(e) if matches!(e.kind(), io::ErrorKind::Interrupted | io::ErrorKind::ResourceBusy) => {}
            Err(e) => return Err(e),
        }
        for entry in self.ring.completion() {
            if entry.user_data() == WOKEN {
                self.is_watched = false;
                let _ = rustix::io::read(&*self.waker.0, &mut [0; 8]);
                continue;
            }
            let tag = entry.user_data() as u16;
            events.push(if entry.result() >= 0 { Event::Request(tag) } else { Event::Over(tag) });
        }
        Ok(())
    }
}
