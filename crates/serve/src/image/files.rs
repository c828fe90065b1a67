//! The files of an image: locked, made, put together from pieces, and named when they are finished.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, FlockOperation, RenameFlags, renameat_with};
use rustix::io::Errno;

use super::medium::Medium;
use super::pieces::{self, Pieces};
use crate::Error;

/// Opens the file at `at` of the image at `path`, and locks it.
pub(super) fn locked(at: &Path, path: &Path, create: bool) -> Result<File, Error> {
    let no = |what: String| Error::input(format!("{}: {what}", path.display()));
    let file = OpenOptions::new().read(true).write(true).create(create).truncate(false).mode(0o600).open(at);
    let file = file.map_err(|e| no(format!("{e}; expected a file that can be written")))?;
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|e| {
        if e == Errno::WOULDBLOCK {
            no("in use by another process; expected an image that is free".into())
        } else {
            Error::io(path.display().to_string(), e)
        }
    })?;
    Ok(file)
}

/// All that the image of `bytes` at `path` lies in. `first` is its first file; if there are others, each has `piece`
/// bytes and is opened like this.
pub(super) fn assembled(
    first: File,
    path: &Path,
    piece: Option<u64>,
    bytes: u64,
    open: &OpenOptions,
) -> Result<Box<dyn Medium>, Error> {
    let Some(each) = piece else { return Ok(Box::new(first)) };
    let mut files = vec![first];
    let count = pieces::count(bytes, each);
    for piece in 1..count {
        let at = pieces::name(path, piece);
        files.push(open.open(&at).map_err(|e| {
            Error::input(format!(
                "{}: {e}; expected the {count} pieces of {} side by side",
                at.display(),
                path.display()
            ))
        })?);
    }
    Ok(Box::new(Pieces::new(files, each)))
}

/// What the image at `path` is called until it is finished.
fn unfinished(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".new");
    name.into()
}

/// All files that the image at `path` may be in, finished or not.
pub fn may_be_in(path: &Path) -> impl Iterator<Item = PathBuf> {
    let names = [path.to_owned(), unfinished(path)];
    names.into_iter().flat_map(|name| (0..pieces::MOST).map(move |piece| pieces::name(&name, piece)))
}

/// Files of a new image that do not have their names yet; without them they are removed.
#[derive(Debug, Default)]
pub(super) struct Unfinished {
    /// Where they lie, and what they are called when they are finished; the first one first.
    names: Vec<(PathBuf, PathBuf)>,
    /// How long each of them is, if there are several.
    pub piece: Option<u64>,
}

impl Unfinished {
    /// Makes the files for an image of `bytes` at `path`: one, or as many as the file system makes it.
    pub fn make(path: &Path, bytes: u64) -> Result<(Box<dyn Medium>, Self), Error> {
        let place = unfinished(path);
        let first = locked(&place, path, true)?;
        let mut this = Self { names: vec![(place.clone(), path.to_owned())], piece: None };
        this.piece = pieces::needed(&first, bytes).map_err(|e| match e.kind() {
            io::ErrorKind::FileTooLarge => too_large(path, bytes),
            _ => Error::io(path.display().to_string(), e),
        })?;
        let Some(each) = this.piece else { return Ok((Box::new(first), this)) };
        let mut files = vec![first];
        for piece in 1..pieces::count(bytes, each) {
            let (at, name) = (pieces::name(&place, piece), pieces::name(path, piece));
            if name.exists() {
                let what = format!("it is in the way of a piece of the new image {}", path.display());
                return Err(Error::input(format!("{}: {what}; expected no such file", name.display())));
            }
            files.push(locked(&at, &at, true)?);
            this.names.push((at, name));
        }
        Ok((Box::new(Pieces::new(files, each)), this))
    }

    /// Gives them their names, the first one last: with its name there is an image. Whether there were any.
    pub fn finish(&mut self) -> io::Result<bool> {
        let any = !self.names.is_empty();
        while let Some((at, name)) = self.names.last() {
            let rename = |flags| renameat_with(CWD, at, CWD, name, flags);
            match rename(RenameFlags::NOREPLACE) {
                // A file system that does not know the flag.
                Err(Errno::INVAL) => rename(RenameFlags::empty())?,
                done => done?,
            }
            self.names.pop();
        }
        Ok(any)
    }
}

impl Drop for Unfinished {
    fn drop(&mut self) {
        for (at, _) in &self.names {
            let _ = fs::remove_file(at);
        }
    }
}

/// Why there is no image of so many bytes.
fn too_large(path: &Path, bytes: u64) -> Error {
    Error::input(format!(
        "{}: the image of this device takes {} (sparse: what is erased takes no room), and there can be no file of such \
         a length here, nor {} that are long enough together; expected another file system, a higher limit (ulimit -f), \
         or a smaller device",
        path.display(),
        nandle_lab::units::bytes(bytes),
        pieces::MOST
    ))
}
