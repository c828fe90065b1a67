//! `/dev/ublk-control`.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use io_uring::{IoUring, cqueue, opcode, squeue, types};
use rustix::fs::{Mode, OFlags, open};
use rustix::io::Errno;
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

    /// Sends a command, and waits until it is over: no longer than `patience`, if there is one. What it left in
    /// its buffer.
    #[allow(unsafe_code)]
    fn run(
        &mut self,
        op: Opcode,
        dev_id: u32,
        data: u64,
        mut buffer: Vec<u8>,
        patience: Option<Duration>,
    ) -> io::Result<Vec<u8>> {
        let addr = if buffer.is_empty() { 0 } else { buffer.as_mut_ptr() as u64 };
        let command = ControlCommand { dev_id, len: buffer.len() as u16, addr, data };
        let mut bytes = [0; 80];
        bytes[..32].copy_from_slice(&command.bytes());
        self.number += 1;
        let entry = opcode::UringCmd80::new(types::Fd(self.node.as_raw_fd()), op).cmd(bytes).build();
        let entry = entry.user_data(self.number);
        // SAFETY: the node is open as long as the ring, and the buffer is never freed if the command may not be
        // over.
        unsafe { self.ring.submission().push(&entry) }.map_err(|_| io::ErrorKind::ResourceBusy)?;
        match self.wait(patience) {
            Ok(result) if result < 0 => Err(io::Error::from_raw_os_error(-result)),
            Ok(_) => Ok(buffer),
            Err(e) => {
                std::mem::forget(buffer);
                Err(e)
            }
        }
    }

    /// What the last command returned.
    fn wait(&mut self, patience: Option<Duration>) -> io::Result<i32> {
        let end = patience.map(|patience| Instant::now() + patience);
        loop {
            let number = self.number;
            if let Some(answer) = self.ring.completion().find(|answer| answer.user_data() == number) {
                return Ok(answer.result());
            }
            let waited = match end.map(|end| end.saturating_duration_since(Instant::now())) {
                Some(Duration::ZERO) => return Err(io::ErrorKind::TimedOut.into()),
                Some(left) => {
                    let left = types::Timespec::from(left);
                    self.ring.submitter().submit_with_args(1, &types::SubmitArgs::new().timespec(&left))
                }
                None => self.ring.submit_and_wait(1),
            };
            match waited.map_err(|e| Errno::from_io_error(&e)) {
                // The time is over, a signal, or the kernel is short of something: looked at again above.
                Ok(_) | Err(Some(Errno::TIME | Errno::INTR | Errno::AGAIN | Errno::BUSY)) => {}
                Err(e) => return Err(e.map_or_else(|| io::ErrorKind::Other.into(), Into::into)),
            }
        }
    }

    /// What the driver can do, of [`crate::uapi::feature`].
    ///
    /// # Errors
    /// If it is older than the question (Linux 6.5).
    pub fn features(&mut self) -> io::Result<u64> {
        let features = self.run(op::GET_FEATURES, u32::MAX, 0, vec![0; 8], None)?;
        Ok(features.try_into().map_or(0, u64::from_ne_bytes))
    }

    /// Makes a device; what it became.
    ///
    /// # Errors
    /// `AlreadyExists` if there is one of this number.
    pub fn add(&mut self, info: &DeviceInfo) -> io::Result<DeviceInfo> {
        let bytes = self.run(op::ADD_DEV, info.dev_id, 0, info.bytes().to_vec(), None)?;
        Ok(DeviceInfo::of(&bytes))
    }

    /// What a device is.
    ///
    /// # Errors
    /// If there is no such device.
    pub fn info(&mut self, id: u32) -> io::Result<DeviceInfo> {
        let bytes = self.run(op::GET_DEV_INFO, id, 0, vec![0; DeviceInfo::BYTES], None)?;
        Ok(DeviceInfo::of(&bytes))
    }

    /// Says how large the device is, and what it takes. Before it is started.
    ///
    /// # Errors
    /// `InvalidInput` if they make no sense to the kernel.
    pub fn set_parameters(&mut self, id: u32, parameters: &Parameters) -> io::Result<()> {
        self.run(op::SET_PARAMS, id, 0, parameters.bytes().to_vec(), None).map(drop)
    }

    /// Makes the block device. Its queues must be waiting for requests: the kernel reads from it before this
    /// returns, to look for partitions.
    ///
    /// # Errors
    /// If the kernel cannot.
    pub fn start(&mut self, id: u32) -> io::Result<()> {
        self.run(op::START_DEV, id, u64::from(std::process::id()), vec![], None).map(drop)
    }

    /// Takes the block device away, after what file systems on it still have to write. Its queues end.
    ///
    /// # Errors
    /// If the kernel cannot.
    pub fn stop(&mut self, id: u32) -> io::Result<()> {
        self.run(op::STOP_DEV, id, 0, vec![], None).map(drop)
    }

    /// Removes a device, once nobody has it open any more.
    ///
    /// # Errors
    /// `TimedOut` if somebody still has after `patience`: then it goes when they leave.
    pub fn delete(&mut self, id: u32, patience: Duration) -> io::Result<()> {
        self.run(op::DEL_DEV, id, 0, vec![], Some(patience)).map(drop)
    }
}
