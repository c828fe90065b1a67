//! The drive's sizes and limits as the kernel wants them, and the kernel's requests as the drive wants them.

use nandle_io::Status;
use nandle_ublk::uapi::{Descriptor, DeviceInfo, Parameters, SECTOR, attribute, feature, io_flag, io_op};
use rustix::io::Errno;

use crate::{Fault, Io, Shape};

/// Longest transfer in bytes.
pub const MOST_BYTES: u32 = 1 << 20;
/// Queues: the drive has one thread, and a few others that copy its data keep it busy.
const MOST_QUEUES: usize = 4;
/// Requests of a queue.
const MOST_DEPTH: u32 = 256;
/// Sectors of a request without data: the kernel counts its bytes in 32 bits, and pieces are to be of whole blocks.
const MOST_SECTORS: u32 = 1 << 22;
/// The kernel's logical blocks are at most its pages.
const MOST_LOGICAL: u32 = 4096;

/// What is asked of the kernel: a queue for each processor, up to four, each as deep as the drive's queue (so that
/// one program alone can fill it), up to 256. `id` is the number in the device's name.
#[must_use]
pub fn device(shape: &Shape, id: u32, processors: usize) -> DeviceInfo {
    DeviceInfo {
        nr_hw_queues: processors.clamp(1, MOST_QUEUES) as u16,
        queue_depth: shape.queue_depth.clamp(1, MOST_DEPTH) as u16,
        max_io_buf_bytes: MOST_BYTES,
        dev_id: id,
        flags: feature::USER_COPY | feature::CMD_IOCTL_ENCODE,
        ..DeviceInfo::default()
    }
}

/// The block device's limits: the sector is the logical block, the flash page the physical one and the smallest
/// request that costs nothing more; `longest` is the longest transfer in bytes.
#[must_use]
pub fn parameters(shape: &Shape, longest: u32) -> Parameters {
    let logical = shape.sector_bytes.min(MOST_LOGICAL).ilog2() as u8;
    let page = shape.page_bytes.max(shape.sector_bytes).ilog2() as u8;
    let sectors = |bytes: u64| bytes / SECTOR;
    // A request of no whole sectors would be one that no transfer fits in.
    let whole = (longest / shape.sector_bytes).max(1) * shape.sector_bytes;
    Parameters {
        attributes: attribute::VOLATILE_CACHE | attribute::FUA,
        logical_bs_shift: logical,
        physical_bs_shift: page,
        io_opt_shift: page,
        io_min_shift: page,
        max_sectors: sectors(u64::from(whole)) as u32,
        dev_sectors: sectors(shape.bytes),
        discard_granularity: shape.sector_bytes,
        max_discard_sectors: MOST_SECTORS,
        max_write_zeroes_sectors: MOST_SECTORS,
        max_discard_segments: 1,
    }
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// This; its answer is so many bytes.
    Do(Io, u32),
    /// To store so many bytes, which are yet to be fetched.
    Store {
        /// First byte.
        offset: u64,
        /// Bytes.
        bytes: u32,
        /// Durable before it is answered.
        fua: bool,
    },
    /// An answer at once.
    Refuse(Errno),
}

impl Asked {
    /// Bytes that are kept for it until it is answered.
    #[must_use]
    pub fn weight(&self) -> u64 {
        match self {
            Self::Do(_, bytes) | Self::Store { bytes, .. } => u64::from(*bytes),
            Self::Refuse(_) => 0,
        }
    }
}

/// A request; ranges beyond the device are the drive's to refuse.
#[must_use]
pub fn request(from: &Descriptor) -> Asked {
    // Its first sector means nothing, and is none.
    if from.op() == io_op::FLUSH {
        return Asked::Do(Io::flush(), 0);
    }
    let Some(offset) = from.start_sector.checked_mul(SECTOR) else { return Asked::Refuse(Errno::INVAL) };
    let bytes = u64::from(from.nr_sectors) * SECTOR;
    let fua = from.op_flags & io_flag::FUA != 0;
    let transfer = u32::try_from(bytes).ok().filter(|n| (1..=MOST_BYTES).contains(n));
    match (from.op(), transfer) {
        (io_op::READ, Some(bytes)) => Asked::Do(Io::read(offset, bytes.into()), bytes),
        (io_op::WRITE, Some(bytes)) => Asked::Store { offset, bytes, fua },
        (io_op::READ | io_op::WRITE, None) => Asked::Refuse(Errno::INVAL),
        (io_op::DISCARD, _) => Asked::Do(Io::trim(offset, bytes).fua(fua), 0),
        (io_op::WRITE_ZEROES, _) => {
            let may_trim = from.op_flags & io_flag::NOUNMAP == 0;
            Asked::Do(Io::zeros(offset, bytes, may_trim).fua(fua), 0)
        }
        _ => Asked::Refuse(Errno::OPNOTSUPP),
    }
}

/// The error number that stands for a fault, as the kernel's block layer tells them apart.
#[must_use]
pub fn errno(fault: Fault) -> Errno {
    match fault {
        Fault::Drive(status) => errno_of(status),
        Fault::Image | Fault::Gone | Fault::Failed => Errno::IO,
        Fault::Full => Errno::NOSPC,
    }
}

fn errno_of(status: Status) -> Errno {
    match status {
        Status::OutOfRange => Errno::INVAL,
        Status::ReadOnly => Errno::ROFS,
        Status::Unsupported | Status::Overlap | Status::TooManyRanges | Status::NoCleanBlocks => {
            Errno::OPNOTSUPP
        }
        // "Critical medium error".
        Status::MediaError => Errno::NODATA,
        // A success that failed would be a fault of ours.
        Status::Ok => Errno::IO,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandle_io::Op;
    use proptest::prelude::*;

    fn shape(sector_bytes: u32, page_bytes: u32, queue_depth: u32) -> Shape {
        Shape { bytes: 1 << 30, sector_bytes, page_bytes, queue_depth }
    }

    #[test]
    fn requests_are_understood() {
        let ask = |op: u8, flags: u32, start_sector: u64, nr_sectors: u32| {
            request(&Descriptor { op_flags: u32::from(op) | flags, nr_sectors, start_sector })
        };
        assert_eq!(ask(io_op::READ, 0, 9, 2), Asked::Do(Io::read(4608, 1024), 1024));
        assert_eq!(ask(io_op::WRITE, 0, 1, 1), Asked::Store { offset: 512, bytes: 512, fua: false });
        assert_eq!(
            ask(io_op::WRITE, io_flag::FUA | 1 << 8, 1, 1),
            Asked::Store { offset: 512, bytes: 512, fua: true }
        );
        assert_eq!(ask(io_op::FLUSH, 1 << 11, u64::MAX, 0), Asked::Do(Io::flush(), 0));
        let trim = Io::trim(4096, 1 << 31);
        assert_eq!(ask(io_op::DISCARD, 0, 8, 1 << 22), Asked::Do(trim, 0));
        for (flag, may_trim) in [(0, true), (io_flag::NOUNMAP, false)] {
            let zero = Io::zeros(4096, 8192, may_trim);
            assert_eq!(ask(io_op::WRITE_ZEROES, flag, 8, 16), Asked::Do(zero, 0));
        }
        // More than was agreed on, nothing, beyond all numbers; write same, zones.
        for (op, start, sectors, expected) in [
            (io_op::READ, 0, 0, Errno::INVAL),
            (io_op::READ, 0, (MOST_BYTES >> 9) + 1, Errno::INVAL),
            (io_op::WRITE, 0, u32::MAX, Errno::INVAL),
            (io_op::DISCARD, u64::MAX, 1, Errno::INVAL),
            (4, 0, 8, Errno::OPNOTSUPP),
            (13, 0, 8, Errno::OPNOTSUPP),
        ] {
            assert_eq!(ask(op, 0, start, sectors), Asked::Refuse(expected), "{op} {start} {sectors}");
        }
    }

    #[test]
    fn failures_differ_where_the_kernel_can_tell() {
        let told = [Status::OutOfRange, Status::ReadOnly, Status::Unsupported, Status::MediaError];
        let mut codes = told.map(|status| errno(Fault::Drive(status)).raw_os_error()).to_vec();
        codes.push(errno(Fault::Gone).raw_os_error());
        codes.sort_unstable();
        codes.dedup();
        assert!(codes.len() == told.len() + 1 && codes[0] > 0, "{codes:?}");
    }

    proptest! {
        #[test]
        fn any_descriptor_is_an_answer(op_flags: u32, nr_sectors: u32, start_sector: u64) {
            let descriptor = Descriptor { op_flags, nr_sectors, start_sector };
            let bytes = u64::from(nr_sectors) * 512;
            let asked = request(&descriptor);
            prop_assert!(asked.weight() <= u64::from(MOST_BYTES));
            match asked {
                Asked::Do(Io { op: Op::Read, offset, bytes: n, .. }, weight) => {
                    prop_assert_eq!((offset, n, u64::from(weight)), (start_sector * 512, bytes, bytes));
                }
                Asked::Store { offset, bytes: n, fua } => {
                    prop_assert_eq!((offset, u64::from(n)), (start_sector * 512, bytes));
                    prop_assert_eq!(fua, op_flags >> 13 & 1 == 1);
                }
                Asked::Do(Io { op: Op::Trim | Op::Write, offset, bytes: n, data, .. }, 0) => {
                    prop_assert_eq!((offset, n, data), (start_sector * 512, bytes, vec![]));
                }
                Asked::Do(Io { op: Op::Flush, .. }, 0) | Asked::Refuse(Errno::INVAL | Errno::OPNOTSUPP) => {}
                other => prop_assert!(false, "{:?}", other),
            }
        }

        /// What the driver checks before it takes them (`ublk_validate_params`), and what the drive is.
        #[test]
        fn limits_are_the_drives_and_the_kernels(
            small: bool, sectors in 0_u32..7, depth in 1_u32..65536, processors in 1_usize..200, id: u32
        ) {
            let sector = if small { 512 } else { 4096 };
            let shape = shape(sector, sector << sectors, depth);
            let info = device(&shape, id, processors);
            prop_assert!(usize::from(info.nr_hw_queues) == processors.min(4) && info.dev_id == id);
            prop_assert_eq!(u32::from(info.queue_depth), depth.min(256));
            let p = parameters(&shape, info.max_io_buf_bytes);
            prop_assert_eq!((1 << p.logical_bs_shift, 1 << p.physical_bs_shift), (sector, shape.page_bytes));
            prop_assert!((9..=12).contains(&p.logical_bs_shift) && p.logical_bs_shift <= p.physical_bs_shift);
            prop_assert!(p.max_sectors > 0 && p.max_sectors <= info.max_io_buf_bytes >> 9);
            prop_assert!((p.max_sectors * 512).is_multiple_of(sector));
            prop_assert_eq!(p.dev_sectors * 512, shape.bytes);
            prop_assert!(p.discard_granularity == sector && p.max_discard_segments == 1);
        }
    }
}
