//! Where the files of a traced program lie on their drive, as their file system says.
//!
//! It is asked when it knows: after a flush, an allocation or a file that took another's place, because until then blocks
//! may have been promised and not chosen (delayed allocation); and before anything is given back, because then it is
//! forgotten.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use libc::c_long;
use nix::unistd::Pid;

use crate::Error;
use crate::calls::{Call, Follower};
use crate::event::{FileId, Piece, What};

/// Says where an open file lies; what has no place yet is left out.
pub type Locate = fn(BorrowedFd<'_>) -> io::Result<Vec<Piece>>;

/// Whether files in this folder have places at all: one is written and asked for.
pub(crate) fn probe(folder: &Path, locate: Locate) -> Result<(), Error> {
    let placed = || {
        let file = tempfile::NamedTempFile::new_in(folder)?;
        std::fs::write(file.path(), [1; 4096])?;
        file.as_file().sync_all()?;
        locate(file.as_file().as_fd())
    };
    placed().map(|_| ()).map_err(Error::NoPlaces)
}

impl Follower<'_> {
    /// What a call gives back is asked for before it is gone.
    pub(crate) fn ask_before(&mut self, pid: Pid, call: &Call) {
        let [a, b, c, d, ..] = call.args;
        let here = libc::AT_FDCWD as u64;
        let truncates = |flags: u64| flags as i32 & libc::O_TRUNC != 0;
        let place = match call.number {
            libc::SYS_ftruncate | libc::SYS_fallocate => {
                if let Some(file) = self.file(pid, a) {
                    self.ask(pid, file, Some(a));
                    self.placed.remove(&file);
                }
                return;
            }
            libc::SYS_truncate => self.place(pid, here, a),
            libc::SYS_unlinkat => self.place(pid, a, b),
            libc::SYS_renameat2 => self.place(pid, c, d),
            libc::SYS_openat if truncates(c) => self.place(pid, a, b),
            number => self.old_place(pid, number, call.args),
        };
        if let Some(file) = place.and_then(|place| self.find(&place)) {
            self.ask(pid, file, None);
            // What comes to lie there again is told again.
            self.placed.remove(&file);
        }
    }

    /// The same of calls that only older architectures have.
    #[cfg(target_arch = "x86_64")]
    fn old_place(&self, pid: Pid, number: c_long, args: [u64; 6]) -> Option<crate::event::Place> {
        let here = libc::AT_FDCWD as u64;
        match number {
            libc::SYS_unlink | libc::SYS_creat => self.place(pid, here, args[0]),
            libc::SYS_open if args[1] as i32 & libc::O_TRUNC != 0 => self.place(pid, here, args[0]),
            libc::SYS_rename => self.place(pid, here, args[1]),
            libc::SYS_renameat => self.place(pid, args[2], args[3]),
            _ => None,
        }
    }

    #[cfg(not(target_arch = "x86_64"))]
    fn old_place(&self, pid: Pid, number: c_long, args: [u64; 6]) -> Option<crate::event::Place> {
        (number == libc::SYS_renameat).then(|| self.place(pid, args[2], args[3]))?
    }

    /// Asks where a file lies, by its descriptor if there is one, else by its name, and enters what is new.
    pub(crate) fn ask(&mut self, pid: Pid, file: FileId, fd: Option<u64>) {
        if self.locate.is_some() {
            let by_fd = fd.map(|fd| PathBuf::from(format!("/proc/{pid}/fd/{}", fd as i32)));
            let real = by_fd.or_else(|| self.name_of(file));
            self.ask_at(pid, file, real);
        }
    }

    /// Asks where the file `real` lies, which is `file`.
    pub(crate) fn ask_at(&mut self, pid: Pid, file: FileId, real: Option<PathBuf>) {
        let (Some(locate), Some(real)) = (self.locate, real) else { return };
        if self.recorder.lock().tree.contents(file).is_none() {
            return;
        }
        // What cannot be opened keeps the place that it had.
        if let Ok(real) = File::open(real)
            && let Ok(pieces) = locate(real.as_fd())
        {
            self.enter(pid, file, pieces);
        }
    }

    /// Asks for every file that has a name; `sync`: when all of it was written.
    pub(crate) fn ask_all(&mut self, pid: Pid, sync: bool) {
        let Some(locate) = self.locate else { return };
        let files = self.recorder.lock().tree.walk();
        for (path, file) in files {
            if self.recorder.lock().tree.contents(file).is_none() {
                continue;
            }
            let Ok(real) = File::open(self.path.join(path)) else { continue };
            if sync && real.sync_all().is_err() {
                continue;
            }
            if let Ok(pieces) = locate(real.as_fd()) {
                self.enter(pid, file, pieces);
            }
        }
    }

    fn enter(&mut self, pid: Pid, file: FileId, pieces: Vec<Piece>) {
        if self.placed.get(&file).is_none_or(|before| **before != pieces) {
            let pieces: std::sync::Arc<[Piece]> = pieces.into();
            self.placed.insert(file, pieces.clone());
            self.record(pid, What::Placed { file, pieces });
        }
    }

    fn name_of(&self, file: FileId) -> Option<PathBuf> {
        let path = self.recorder.lock().tree.walk().into_iter().find(|(_, other)| *other == file)?.0;
        Some(self.path.join(path))
    }
}
