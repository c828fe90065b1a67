//! A drive as programs speak to it: ranges in bytes, files, objects.

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Duration;

use nandle_io::{Range, Status};

use crate::initiator::{Host, Options};
use crate::wire::Done;
use crate::{Address, Extent, Place};

/// Ranges of one command.
const MOST_RANGES: usize = 256;

/// Why the drive did not do what it was asked for.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// The drive said so, and not [`Status::Ok`].
    #[error("{0}")]
    Drive(Status),
    /// No whole logical block of the drive is among what was named.
    #[error("nothing on the drive to speak of: no whole logical block")]
    Nothing,
    /// Another status of NVMe.
    #[error("status code type {}, code {:02x}h", .0 >> 8, .0 & 0xff)]
    Other(u16),
    /// Connection, or file system.
    #[error(transparent)]
    Io(#[from] io::Error),
}

/// What an answer says.
///
/// # Errors
/// The reason, if the drive refused.
pub fn judge(done: &Done) -> Result<(), Refusal> {
    match done.status.of_drive() {
        Some(Status::Ok) => Ok(()),
        Some(status) => Err(Refusal::Drive(status)),
        None => Err(Refusal::Other(done.status.code())),
    }
}

/// A connection to a drive under `nandle serve --nvme-tcp`.
pub struct Drive {
    host: Host,
    block: u64,
}

impl Drive {
    /// Connects. `patience` bounds the wait for the connection as a whole, and for each answer as a whole (a minute if
    /// none).
    ///
    /// # Errors
    /// If nobody is there, or it is no NVMe/TCP subsystem.
    pub fn connect(at: Address, patience: Option<Duration>) -> io::Result<Self> {
        let mut host = Host::connect(at.0, &Options { patience, ..Options::default() })?;
        let block = u64::from(host.block_bytes()?);
        Ok(Self { host, block })
    }

    /// Bytes of a logical block.
    #[must_use]
    pub fn block_bytes(&self) -> u64 {
        self.block
    }

    /// FlashAlloc: these ranges of logical blocks are one object.
    ///
    /// # Errors
    /// If the drive refuses, or the connection fails.
    pub fn flashalloc_blocks(&mut self, ranges: &[Range]) -> Result<(), Refusal> {
        judge(&self.host.flashalloc(ranges)?)
    }

    /// FlashAlloc: these ranges (first byte, bytes) are one object; what is no whole block is left out.
    /// More than 256 ranges are several objects.
    ///
    /// # Errors
    /// If the drive refuses, or the connection fails.
    pub fn flashalloc(&mut self, ranges: &[(u64, u64)]) -> Result<(), Refusal> {
        let blocks = self.blocks(ranges);
        for part in blocks.chunks(MOST_RANGES) {
            self.flashalloc_blocks(part)?;
        }
        if blocks.is_empty() { Err(Refusal::Nothing) } else { Ok(()) }
    }

    /// [`Self::flashalloc`], of room that may have been an older object's: that one ends first.
    ///
    /// # Errors
    /// If the drive refuses, or the connection fails.
    pub fn flashalloc_anew(&mut self, ranges: &[(u64, u64)]) -> Result<(), Refusal> {
        let blocks = self.blocks(ranges);
        for part in blocks.chunks(MOST_RANGES) {
            judge(&self.host.flashalloc_anew(part)?)?;
        }
        if blocks.is_empty() { Err(Refusal::Nothing) } else { Ok(()) }
    }

    /// FlashFree: the objects that have some of these ranges (first byte, bytes) end. What they hold stays;
    /// clean blocks that they did not use are given back.
    ///
    /// # Errors
    /// If the drive refuses, or the connection fails.
    pub fn flashfree(&mut self, ranges: &[(u64, u64)]) -> Result<(), Refusal> {
        for part in self.blocks(ranges).chunks(MOST_RANGES) {
            judge(&self.host.flashfree(part)?)?;
        }
        Ok(())
    }

    /// Trims these ranges (first byte, bytes); what is no whole block stays.
    ///
    /// # Errors
    /// If the drive refuses, or the connection fails.
    pub fn trim(&mut self, ranges: &[(u64, u64)]) -> Result<(), Refusal> {
        for part in self.blocks(ranges).chunks(MOST_RANGES) {
            judge(&self.host.trim(part)?)?;
        }
        Ok(())
    }

    /// FlashAlloc for `bytes` bytes from `start` of a file: its places on the drive are one object.
    /// Returns them.
    ///
    /// # Errors
    /// If the drive refuses, the connection fails, or the file has no place on the drive.
    pub fn flashalloc_file(
        &mut self,
        place: &Place,
        file: BorrowedFd<'_>,
        start: u64,
        bytes: u64,
    ) -> Result<Vec<Extent>, Refusal> {
        let extents = place.extents(file, start, bytes)?;
        self.flashalloc(&ranges(&extents))?;
        Ok(extents)
    }

    /// How many objects live.
    ///
    /// # Errors
    /// If the connection fails, or the drive knows no objects.
    pub fn instances(&mut self) -> io::Result<u32> {
        self.host.instances()
    }

    fn blocks(&self, ranges: &[(u64, u64)]) -> Vec<Range> {
        whole_blocks(ranges, self.block)
    }
}

/// The places of extents on the drive.
#[must_use]
pub fn ranges(extents: &[Extent]) -> Vec<(u64, u64)> {
    extents.iter().map(|e| (e.physical, e.bytes)).collect()
}

/// The whole blocks of ranges (first byte, bytes), in ranges that a list has room for.
fn whole_blocks(ranges: &[(u64, u64)], block: u64) -> Vec<Range> {
    let mut out = vec![];
    for &(offset, bytes) in ranges {
        let (mut from, to) = (offset.div_ceil(block), offset.saturating_add(bytes) / block);
        while from < to {
            let sectors = (to - from).min(u32::MAX.into());
            out.push(Range { first: from, sectors });
            from += sectors;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_are_rounded_inward_to_blocks() {
        let far = (1_u64 << 32) + 5;
        let most = u64::from(u32::MAX);
        assert_eq!(
            whole_blocks(&[(100, 4096), (4096, 8192), (8191, 4098), (1 << 40, far * 4096)], 4096),
            [(1, 2), (2, 1), (1 << 28, most), ((1 << 28) + most, 6)]
                .map(|(first, sectors)| Range { first, sectors })
        );
        assert!(whole_blocks(&[(1, 4095), (0, 0)], 4096).is_empty());
    }

    #[test]
    fn what_the_drive_says_survives_nvme() {
        for status in Status::ALL {
            for word in [status.into(), crate::wire::Status::of_write(status)] {
                match judge(&Done::new(1, word)) {
                    Ok(()) => assert_eq!(status, Status::Ok),
                    Err(Refusal::Drive(told)) => assert!(told == status && status != Status::Ok),
                    Err(other) => panic!("{status:?}: {other}"),
                }
            }
        }
        let done = Done::new(1, crate::wire::Status::INTERNAL);
        assert!(matches!(judge(&done), Err(Refusal::Other(0x06))));
    }
}
