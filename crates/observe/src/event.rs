//! What a program did to its files.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;

/// A file, folder or link, whatever its names are; never used twice.
pub type FileId = u64;

/// The observed folder itself.
pub const ROOT: FileId = 1;

/// A part of a file, and where it lies on the drive of its file system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// First byte in the file.
    pub offset: u64,
    /// First byte on the drive.
    pub at: u64,
    /// Bytes.
    pub bytes: u64,
}

/// What a new file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link to this path.
    Link(PathBuf),
}

/// A name in a folder.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Place {
    /// The folder.
    pub folder: FileId,
    /// The name in it.
    pub name: OsString,
}

/// One thing that was done, with success.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum What {
    /// Bytes were written.
    Write {
        /// Of which file.
        file: FileId,
        /// From which byte on.
        offset: u64,
        /// The bytes.
        data: Arc<[u8]>,
        /// The write returned only when they were durable (`O_SYNC`, `O_DSYNC`).
        durable: bool,
    },
    /// Bytes were read that the kernel did not have in its cache.
    Read {
        /// Of which file.
        file: FileId,
        /// From which byte on.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// The size was set (`ftruncate`, `O_TRUNC`, an allocation beyond the end).
    Resize {
        /// Of which file.
        file: FileId,
        /// The new size, bytes.
        size: u64,
    },
    /// A range became zeros (a hole, or zeroed room); the size stays.
    Zero {
        /// Of which file.
        file: FileId,
        /// From which byte on.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// Room was reserved; contents and size stay.
    Allocate {
        /// For which file.
        file: FileId,
        /// From which byte on.
        offset: u64,
        /// How many.
        bytes: u64,
    },
    /// The file system said where a file lies.
    Placed {
        /// Which file.
        file: FileId,
        /// In the file's order; what has no place is left out.
        pieces: Arc<[Piece]>,
    },
    /// A new file got its first name.
    Create {
        /// Its name.
        place: Place,
        /// The file.
        file: FileId,
        /// What it is.
        kind: Kind,
        /// Permissions.
        mode: u32,
    },
    /// A file got another name.
    Link {
        /// The name.
        place: Place,
        /// The file.
        file: FileId,
    },
    /// A name went.
    Unlink {
        /// Which.
        place: Place,
        /// The file that had it.
        file: FileId,
    },
    /// A name became another.
    Rename {
        /// The old name.
        from: Place,
        /// The new one; what had it before lost it.
        to: Place,
        /// The file.
        file: FileId,
        /// The file that had the new name; with `exchange` it has the old one now.
        over: Option<FileId>,
        /// The two changed places.
        exchange: bool,
    },
    /// `fsync` or `fdatasync` of a file returned.
    Flush {
        /// Which.
        file: FileId,
        /// It was `fdatasync`.
        data_only: bool,
    },
    /// `fsync` of a folder returned.
    FlushFolder {
        /// Which.
        folder: FileId,
    },
    /// `sync` or `syncfs` returned.
    FlushAll,
    /// The program wrote to its standard output: what it has promised its users so far.
    Output(Arc<[u8]>),
}

impl What {
    /// Whether this asks that something be durable.
    #[must_use]
    pub fn is_flush(&self) -> bool {
        matches!(
            self,
            Self::Flush { .. }
                | Self::FlushFolder { .. }
                | Self::FlushAll
                | Self::Write { durable: true, .. }
        )
    }

    /// Whether this changes files.
    #[must_use]
    pub fn is_change(&self) -> bool {
        !matches!(
            self,
            Self::Read { .. }
                | Self::Allocate { .. }
                | Self::Placed { .. }
                | Self::Flush { .. }
                | Self::FlushFolder { .. }
                | Self::FlushAll
                | Self::Output(_)
        )
    }
}

/// Something that was done, and when.
#[derive(Clone, Debug)]
pub struct Event {
    /// What.
    pub what: What,
    /// When, nanoseconds after the program's start.
    pub at_ns: u64,
    /// The process that did it; 0 if it was the kernel for it.
    pub process: u32,
}
