//! `/dev/ublk-control`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::{Mode, OFlags, open};
use rustix::ioctl::Opcode;

use crate::uapi::{CONTROL_PATH, ControlCommand, DeviceInfo, Parameters, op};

/// A device's block device.
#[must_use]
pub fn block_device(id: u32) -> PathBuf {
    format!("/dev/ublkb{id}").into()
}

/// Opens a device's other side, where its requests are to be had. One process at a time may.
///
/// # Errors
/// `ResourceBusy` if another one has it.
pub fn open_device(id: u32) -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(open(format!("/dev/ublkc{id}"), OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?))
}

/// Makes and removes devices.
pub struct Control {
    ring: IoUring<squeue::Entry128, cqueue::Entry>,
    node: OwnedFd,
    /// Of the last command: an answer to an older one, which was not waited for, is nobody's.
    number: u64,
}

impl Control {
    /// Opens the kernel's control node.
    ///
    /// # Errors
    /// `NotFound` if the driver is not loaded, `PermissionDenied` if the caller may not, or as `io_uring_setup`.
    pub fn open() -> io::Result<Self> {
        let node = open(CONTROL_PATH, OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
        Ok(Self { ring: IoUring::builder().build(4)?, node, number: 0 })
    }

    /// Sends a command whose buffer is `buffer`, and waits for what it returns. Without a buffer it is waited for
    /// no longer than `patience`.
    #[allow(unsafe_code)]
    fn run(
        &mut self,
        op: Opcode,
        dev_id: u32,
        data: u64,
        buffer: &mut [u8],
        patience: Option<Duration>,
    ) -> io::Result<u32> {
        debug_assert!(buffer.is_empty() || patience.is_none(), "the kernel may still use the buffer");
        let addr = if buffer.is_empty() { 0 } else { buffer.as_mut_ptr() as u64 };
        let command = ControlCommand { dev_id, len: buffer.len() as u16, addr, data };
        let mut bytes = [0; 80];
        bytes[..32].copy_from_slice(&command.bytes());
        self.number += 1;
        let entry = opcode::UringCmd80::new(types::Fd(self.node.as_raw_fd()), op).cmd(bytes).build();
        let entry = entry.user_data(self.number);
        // SAFETY: the node is open as long as the ring, and this does not return before the command is
        // over if it has a buffer.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::ResourceBusy)?;
        let end = patience.map(|patience| Instant::now() + patience);
        loop {
            while let Some(answer) = self.ring.completion().next() {
                if answer.user_data() != self.number {
                    continue;
                }
                return u32::try_from(answer.result())
                    .map_err(|_| io::Error::from_raw_os_error(-answer.result()));
            }
            let waited = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Err(io::ErrorKind::TimedOut.into()),
                Some(left) => {
                    let left = types::Timespec::from(left);
                    self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&left))
                }
                None => self.ring.submit_and_wait(1),
            };
            match waited {
                Ok(_) => {}
                // The time is over, a signal, or the kernel is short of something: looked at again above.
                Err(e) if e.raw_os_error() == Some(rustix::io::Errno::TIME.raw_os_error()) => {}
                Err(e)
                    if matches!(
                        e.kind(),
                        io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock | io::ErrorKind::ResourceBusy
                    ) => {}
                // Nothing that this ring was given can be trusted to be over.
                Err(e) if !buffer.is_empty() => panic!("io_uring_enter with a command under way: {e}"),
                Err(e) => return Err(e),
            }
        }
    }

    /// What the driver can do, of [`crate::uapi::feature`].
    ///
    /// # Errors
    /// If it is older than the question (Linux 6.5).
    pub fn features(&mut self) -> io::Result<u64> {
        let mut features = [0; 8];
        self.run(op::GET_FEATURES, u32::MAX, 0, &mut features, None)?;
        Ok(u64::from_ne_bytes(features))
    }

    /// Makes a device; what it became.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one of this number.
    pub fn add(&mut self, info: &DeviceInfo) -> io::Result<DeviceInfo> {
        let mut bytes = info.bytes();
        self.run(op::ADD_DEV, info.dev_id, 0, &mut bytes, None)?;
        Ok(DeviceInfo::of(&bytes))
    }

    /// What a device is.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn info(&mut self, id: u32) -> io::Result<DeviceInfo> {
        let mut bytes = [0; DeviceInfo::BYTES];
        self.run(op::GET_DEV_INFO, id, 0, &mut bytes, None)?;
        Ok(DeviceInfo::of(&bytes))
    }

    /// Says how large the device is, and what it takes. Before it is started.
    ///
    /// # Errors
    /// `InvalidInput` if they make no sense to the kernel.
    pub fn set_parameters(&mut self, id: u32, parameters: &Parameters) -> io::Result<()> {
        self.run(op::SET_PARAMS, id, 0, &mut parameters.bytes(), None).map(drop)
    }

    /// Makes the block device. Its queues must be waiting for requests: the kernel reads from it before this
    /// returns, to look for partitions.
    ///
    /// # Errors
    /// If the kernel cannot.
    pub fn start(&mut self, id: u32) -> io::Result<()> {
        self.run(op::START_DEV, id, u64::from(std::process::id()), &mut [], None).map(drop)
    }

    /// Takes the block device away, after what file systems on it still have to write. Its queues end.
    ///
    /// # Errors
    /// If the kernel cannot.
    pub fn stop(&mut self, id: u32) -> io::Result<()> {
        self.run(op::STOP_DEV, id, 0, &mut [], None).map(drop)
    }

    /// Removes a device, once nobody has it open any more.
    ///
    /// # Errors
    /// `TimedOut` if somebody still has after `patience`: then it goes when they leave.
    pub fn delete(&mut self, id: u32, patience: Duration) -> io::Result<()> {
        self.run(op::DEL_DEV, id, 0, &mut [], Some(patience)).map(drop)
    }
}
