//! What an image lies in: a file, or what a test makes of one.

use std::fs::File;
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

use rustix::fs::{FallocateFlags, SeekFrom};
use rustix::io::Errno;

/// Bytes by their place. Reads and writes may be short, and may be interrupted.
pub(crate) trait Medium: std::fmt::Debug + Send {
    /// Reads what is at `at`; 0 behind the end.
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize>;
    /// Writes to `at`.
    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize>;
    /// Makes zeros of what is there, without keeping them, if the system can.
    fn punch(&self, from: u64, bytes: u64) -> io::Result<()>;
    /// Returns once everything written so far is on the disk.
    fn sync(&self) -> io::Result<()>;
    /// How many bytes there are.
    fn length(&self) -> io::Result<u64>;
    /// From now on there are so many bytes.
    fn set_length(&self, bytes: u64) -> io::Result<()>;
    /// The first place from `from` on where there is no hole; none if there is no such place.
    fn next_data(&self, from: u64) -> io::Result<Option<u64>>;
    /// Whether this is what lies at `path`.
    fn is_at(&self, path: &Path) -> bool;
}

impl Medium for File {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        FileExt::read_at(self, into, at)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        FileExt::write_at(self, bytes, at)
    }

    fn punch(&self, from: u64, bytes: u64) -> io::Result<()> {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        match rustix::fs::fallocate(self, flags, from, bytes) {
            // A file system without holes: what is there stays, and does not count.
            Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
            Err(e) => Err(e.into()),
        }
    }

    fn sync(&self) -> io::Result<()> {
        self.sync_data()
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.set_len(bytes)
    }

    fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        match rustix::fs::seek(self, SeekFrom::Data(from)) {
            Ok(at) => Ok(Some(at)),
            Err(Errno::NXIO) => Ok(None),
            // A file system that knows of no holes.
            Err(_) => Ok(Some(from)),
        }
    }

    fn is_at(&self, path: &Path) -> bool {
        let place = |m: std::fs::Metadata| (m.dev(), m.ino());
        let (mine, theirs) = (self.metadata().map(place), std::fs::metadata(path).map(place));
        matches!((mine, theirs), (Ok(mine), Ok(theirs)) if mine == theirs)
    }
}
