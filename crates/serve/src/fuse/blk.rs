//! What is asked of the file, as the drive wants it.

use fuser::Errno;
use rustix::fs::FallocateFlags;

use crate::{Io, Shape};

/// What `fallocate` asks for.
#[derive(Debug)]
pub enum Asked {
    /// This.
    Do(Io),
    /// Nothing that is not so already.
    Done,
    /// An answer at once.
    Refuse(Errno),
}

/// A read, as far as there is a device; none behind its end.
#[must_use]
pub fn read(shape: &Shape, offset: u64, bytes: u32) -> Option<Io> {
    let left = shape.bytes.saturating_sub(offset);
    (left > 0).then(|| Io::read(offset, u64::from(bytes).min(left)))
}

/// How many of the bytes of a write there is room for.
#[must_use]
pub fn room(shape: &Shape, offset: u64, bytes: usize) -> usize {
    let left = shape.bytes.saturating_sub(offset);
    (bytes as u64).min(left) as usize
}

/// `fallocate` of a range, with the mode's bits as the kernel has them.
#[must_use]
pub fn fallocate(shape: &Shape, offset: u64, bytes: u64, mode: i32) -> Asked {
    let mode = FallocateFlags::from_bits_retain(mode as u32);
    let keep = FallocateFlags::KEEP_SIZE;
    if mode == FallocateFlags::PUNCH_HOLE | keep {
        Asked::Do(Io::trim(offset, bytes))
    } else if mode - keep == FallocateFlags::ZERO_RANGE {
        Asked::Do(Io::zeros(offset, bytes, true))
    } else if (mode - keep).is_empty() {
        // Room is there from the beginning, as far as the device reaches.
        match offset.checked_add(bytes) {
            Some(end) if end <= shape.bytes => Asked::Done,
            _ => Asked::Refuse(Errno::ENOSPC),
        }
    } else {
        Asked::Refuse(Errno::EOPNOTSUPP)
    }
}
