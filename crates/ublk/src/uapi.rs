//! What `<linux/ublk_cmd.h>` says: opcodes, flags, and structures as bytes (in the machine's byte order).
//!
//! Structures are those of Linux 6.1 and later, of which later kernels take and give longer ones.

use rustix::ioctl::{Opcode, opcode};

/// The node through which devices are made and removed.
pub const CONTROL_PATH: &str = "/dev/ublk-control";
/// Bytes of a sector in all counts, whatever the device's logical block.
pub const SECTOR: u64 = 512;
/// Requests of a queue that the kernel allows (`UBLK_MAX_QUEUE_DEPTH`).
pub const MAX_QUEUE_DEPTH: u16 = 4096;
/// `queue_id` of a command that is for no queue in particular.
pub const NO_QUEUE: u16 = u16::MAX;
/// `dev_id` that leaves the choice to the kernel.
pub const ANY_DEVICE: u32 = u32::MAX;
/// Where the data of requests lies in the device's file, for `pread` and `pwrite` (`UBLKSRV_IO_BUF_OFFSET`).
const IO_BUF_OFFSET: u64 = 0x8000_0000;
/// Bits of the offset within a request (`UBLK_IO_BUF_BITS`), and of tag and offset together (`UBLK_QID_OFF`).
const IO_BUF_BITS: u32 = 25;
const QID_OFFSET: u32 = 41;

/// Opcodes, encoded as for `ioctl` (`UBLK_U_CMD_*`, `UBLK_U_IO_*`; Linux 6.4).
pub mod op {
    #![allow(missing_docs)]
    use super::{Opcode, opcode};

    pub const GET_DEV_INFO: Opcode = opcode::read::<[u8; 32]>(b'u', 0x02);
    pub const ADD_DEV: Opcode = opcode::read_write::<[u8; 32]>(b'u', 0x04);
    pub const DEL_DEV: Opcode = opcode::read_write::<[u8; 32]>(b'u', 0x05);
    pub const START_DEV: Opcode = opcode::read_write::<[u8; 32]>(b'u', 0x06);
    pub const STOP_DEV: Opcode = opcode::read_write::<[u8; 32]>(b'u', 0x07);
    pub const SET_PARAMS: Opcode = opcode::read_write::<[u8; 32]>(b'u', 0x08);
    pub const GET_FEATURES: Opcode = opcode::read::<[u8; 32]>(b'u', 0x13);
    pub const FETCH_REQ: Opcode = opcode::read_write::<[u8; 16]>(b'u', 0x20);
    pub const COMMIT_AND_FETCH_REQ: Opcode = opcode::read_write::<[u8; 16]>(b'u', 0x21);
}

/// Flags of devices, which are features of the driver too (`UBLK_F_*`).
pub mod feature {
    #![allow(missing_docs)]
    pub const CMD_IOCTL_ENCODE: u64 = 1 << 6;
    pub const USER_COPY: u64 = 1 << 7;
}

/// States of devices (`UBLK_S_*`).
pub mod state {
    #![allow(missing_docs)]
    pub const DEAD: u16 = 0;
    pub const LIVE: u16 = 1;
    pub const QUIESCED: u16 = 2;
}

/// What a request asks for: the lowest byte of [`Descriptor::op_flags`] (`UBLK_IO_OP_*`).
pub mod io_op {
    #![allow(missing_docs)]
    pub const READ: u8 = 0;
    pub const WRITE: u8 = 1;
    pub const FLUSH: u8 = 2;
    pub const DISCARD: u8 = 3;
    pub const WRITE_ZEROES: u8 = 5;
}

/// Flags in [`Descriptor::op_flags`] (`UBLK_IO_F_*`).
pub mod io_flag {
    #![allow(missing_docs)]
    pub const FUA: u32 = 1 << 13;
    pub const NOUNMAP: u32 = 1 << 15;
}

/// What a device is ([`Parameters::attributes`], `UBLK_ATTR_*`).
pub mod attribute {
    #![allow(missing_docs)]
    pub const VOLATILE_CACHE: u32 = 1 << 2;
    pub const FUA: u32 = 1 << 3;
}

/// Lays fields one after the other.
struct Layout<const N: usize> {
    bytes: [u8; N],
    at: usize,
}

impl<const N: usize> Layout<N> {
    const fn new() -> Self {
        Self { bytes: [0; N], at: 0 }
    }

    fn put(mut self, field: &[u8]) -> Self {
        self.bytes[self.at..self.at + field.len()].copy_from_slice(field);
        self.at += field.len();
        self
    }
}

fn take<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    std::array::from_fn(|n| bytes[at + n])
}

/// `struct ublksrv_ctrl_cmd`: a command to [`CONTROL_PATH`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ControlCommand {
    /// The device.
    pub dev_id: u32,
    /// Bytes of the command's buffer.
    pub len: u16,
    /// Address of the command's buffer.
    pub addr: u64,
    /// An argument.
    pub data: u64,
}

impl ControlCommand {
    /// As the kernel takes it.
    #[must_use]
    pub fn bytes(&self) -> [u8; 32] {
        Layout::new()
            .put(&self.dev_id.to_ne_bytes())
            .put(&NO_QUEUE.to_ne_bytes())
            .put(&self.len.to_ne_bytes())
            .put(&self.addr.to_ne_bytes())
            .put(&self.data.to_ne_bytes())
            .bytes
    }
}

/// `struct ublksrv_ctrl_dev_info`: what a device is asked to be, and what it became.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceInfo {
    /// Queues; the kernel makes no more than it has processors.
    pub nr_hw_queues: u16,
    /// Requests of a queue.
    pub queue_depth: u16,
    /// Of [`state`].
    pub state: u16,
    /// The longest request in bytes.
    pub max_io_buf_bytes: u32,
    /// The number in its name.
    pub dev_id: u32,
    /// The process that started it.
    pub ublksrv_pid: i32,
    /// Of [`feature`].
    pub flags: u64,
}

impl DeviceInfo {
    /// Its size.
    pub const BYTES: usize = 64;

    /// As the kernel takes it.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        Layout::new()
            .put(&self.nr_hw_queues.to_ne_bytes())
            .put(&self.queue_depth.to_ne_bytes())
            .put(&self.state.to_ne_bytes())
            .put(&[0; 2])
            .put(&self.max_io_buf_bytes.to_ne_bytes())
            .put(&self.dev_id.to_ne_bytes())
            .put(&self.ublksrv_pid.to_ne_bytes())
            .put(&[0; 4])
            .put(&self.flags.to_ne_bytes())
            .bytes
    }

    /// As the kernel gives it.
    ///
    /// # Panics
    /// If it is shorter.
    #[must_use]
    pub fn of(bytes: &[u8]) -> Self {
        Self {
            nr_hw_queues: u16::from_ne_bytes(take(bytes, 0)),
            queue_depth: u16::from_ne_bytes(take(bytes, 2)),
            state: u16::from_ne_bytes(take(bytes, 4)),
            max_io_buf_bytes: u32::from_ne_bytes(take(bytes, 8)),
            dev_id: u32::from_ne_bytes(take(bytes, 12)),
            ublksrv_pid: i32::from_ne_bytes(take(bytes, 16)),
            flags: u64::from_ne_bytes(take(bytes, 24)),
        }
    }
}

/// `struct ublk_params` with its parts `basic` and `discard`: sizes and limits of the block device.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Parameters {
    /// Of [`attribute`].
    pub attributes: u32,
    /// Logical block, as a power of two.
    pub logical_bs_shift: u8,
    /// Physical block, as a power of two.
    pub physical_bs_shift: u8,
    /// Optimal request, as a power of two.
    pub io_opt_shift: u8,
    /// Smallest request without a penalty, as a power of two.
    pub io_min_shift: u8,
    /// Longest request.
    pub max_sectors: u32,
    /// Size of the device.
    pub dev_sectors: u64,
    /// Bytes to whose multiples discards should begin and end.
    pub discard_granularity: u32,
    /// Longest discard; 0 = none is possible.
    pub max_discard_sectors: u32,
    /// Longest request to write zeroes; 0 = none is possible.
    pub max_write_zeroes_sectors: u32,
    /// Ranges of a discard.
    pub max_discard_segments: u16,
}

impl Parameters {
    /// Its size.
    pub const BYTES: usize = 60;
    /// `UBLK_PARAM_TYPE_BASIC | UBLK_PARAM_TYPE_DISCARD`.
    const TYPES: u32 = 1 | 1 << 1;

    /// As the kernel takes it.
    #[must_use]
    pub fn bytes(&self) -> [u8; Self::BYTES] {
        Layout::new()
            .put(&(Self::BYTES as u32).to_ne_bytes())
            .put(&Self::TYPES.to_ne_bytes())
            .put(&self.attributes.to_ne_bytes())
            .put(&[self.logical_bs_shift, self.physical_bs_shift, self.io_opt_shift, self.io_min_shift])
            .put(&self.max_sectors.to_ne_bytes())
            // No chunks that requests may not straddle.
            .put(&[0; 4])
            .put(&self.dev_sectors.to_ne_bytes())
            // No boundary in memory.
            .put(&[0; 8])
            // Discards are aligned to the device's beginning.
            .put(&[0; 4])
            .put(&self.discard_granularity.to_ne_bytes())
            .put(&self.max_discard_sectors.to_ne_bytes())
            .put(&self.max_write_zeroes_sectors.to_ne_bytes())
            .put(&self.max_discard_segments.to_ne_bytes())
            .bytes
    }
}

/// `struct ublksrv_io_desc`: a request to the block device. Its `addr` means nothing here.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Descriptor {
    /// Of [`io_op`] and [`io_flag`].
    pub op_flags: u32,
    /// Sectors.
    pub nr_sectors: u32,
    /// First sector.
    pub start_sector: u64,
}

impl Descriptor {
    /// Its size.
    pub const BYTES: usize = 24;

    /// Of its first 16 bytes.
    #[must_use]
    pub fn of(bytes: &[u8; 16]) -> Self {
        Self {
            op_flags: u32::from_ne_bytes(take(bytes, 0)),
            nr_sectors: u32::from_ne_bytes(take(bytes, 4)),
            start_sector: u64::from_ne_bytes(take(bytes, 8)),
        }
    }

    /// What it asks for, of [`io_op`].
    #[must_use]
    pub fn op(&self) -> u8 {
        self.op_flags as u8
    }
}

/// `struct ublksrv_io_cmd`: asks for the next request with a tag, and perhaps answers the last one. Without the
/// address of a buffer.
#[must_use]
pub fn io_command(queue: u16, tag: u16, result: i32) -> [u8; 16] {
    Layout::new().put(&queue.to_ne_bytes()).put(&tag.to_ne_bytes()).put(&result.to_ne_bytes()).bytes
}

/// Where the data of a queue's request lies in the device's file.
#[must_use]
pub fn data_offset(queue: u16, tag: u16) -> u64 {
    IO_BUF_OFFSET + (u64::from(queue) << QID_OFFSET | u64::from(tag) << IO_BUF_BITS)
}

/// Where a queue's descriptors lie in the device's file, for `mmap`, and how long they are.
#[must_use]
pub fn descriptors(queue: u16, depth: u16, page: usize) -> (u64, usize) {
    let bytes = |depth: u16| (usize::from(depth) * Descriptor::BYTES).next_multiple_of(page);
    (u64::from(queue) * bytes(MAX_QUEUE_DEPTH) as u64, bytes(depth))
}
