//! Where results go: seen before any work whether they can be put there, and that they replace nothing else.

use std::fs;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Access, access};
use serde::{Deserialize, Serialize};

use crate::Error;

/// Begins the last line of every page, before the version: by it a page of ours is known.
pub(crate) const SIGN: &str = "<footer>nandle ";

/// The report of a run, or of a directory of runs.
pub const REPORT: &str = "report.html";

/// Which runs of a directory its report is of, in which order.
pub const ORDER: &str = "report.json";

/// Symbolic links in a row that are followed to where there is nothing yet.
const MOST_LINKS: u32 = 8;

/// What tells a file from all others.
#[derive(PartialEq, Eq)]
enum Which {
    /// One that is there: device and inode.
    There(u64, u64),
    /// One that will be made.
    New(PathBuf),
}

impl Which {
    /// The file at `path`. Devices and pipes are no files that are overwritten.
    fn of(path: &Path) -> Option<Self> {
        if let Ok(metadata) = fs::metadata(path) {
            return metadata.is_file().then(|| Self::There(metadata.dev(), metadata.ino()));
        }
        let path = followed(path);
        let place = fs::canonicalize(above(&path)).ok().zip(path.file_name());
        Some(Self::New(place.map_or(path.clone(), |(place, name)| place.join(name))))
    }
}

/// Where links lead that end in nothing.
fn followed(path: &Path) -> PathBuf {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        let Ok(target) = fs::read_link(&path) else { break };
        path = above(&path).join(target);
    }
    path
}

/// The directory that a file is in.
fn above(path: &Path) -> &Path {
    path.parent().filter(|above| !above.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether both names lead to one file, by links too, whether it is there or not.
#[must_use]
pub fn same(one: &Path, other: &Path) -> bool {
    Which::of(one).is_some_and(|this| Which::of(other) == Some(this))
}

/// Whether a file may be written there, as far as that can be known without touching it: `-` always, and nothing of
/// `inputs` is to be overwritten.
///
/// # Errors
/// If it cannot, or is one of `inputs`.
pub fn file<'a>(path: &Path, inputs: impl IntoIterator<Item = &'a Path>) -> Result<(), Error> {
    let no = |what: String| {
        Error::input(format!("{}: {what}; expected a file that can be written", path.display()))
    };
    if path.as_os_str() == "-" {
        return Ok(());
    }
    if inputs.into_iter().any(|input| same(path, input)) {
        return Err(Error::input(format!(
            "{}: it is read, and would be overwritten; expected another file",
            path.display()
        )));
    }
    if path.is_dir() || path.as_os_str().as_encoded_bytes().ends_with(b"/") {
        return Err(no("a directory".into()));
    }
    match fs::metadata(path) {
        Ok(_) => access(path, Access::WRITE_OK).map_err(|e| no(io::Error::from(e).to_string())),
        Err(e) if e.kind() == io::ErrorKind::NotFound => {
            folder(above(&followed(path))).map_err(|e| no(e.to_string()))
        }
        Err(e) => Err(no(e.to_string())),
    }
}

/// Whether files may be made in this directory.
fn folder(path: &Path) -> io::Result<()> {
    if !fs::metadata(path)?.is_dir() {
        return Err(io::ErrorKind::NotADirectory.into());
    }
    Ok(access(path, Access::WRITE_OK | Access::EXEC_OK)?)
}

/// Whether a directory of runs may be there, or be made there: what is called as the report, or the list of its runs,
/// and is not one, is somebody else's.
///
/// # Errors
/// If it may not.
pub fn directory(path: &Path) -> Result<(), Error> {
    let no = |e: io::Error| {
        Error::input(format!("{}: {e}; expected a directory that can be written", path.display()))
    };
    let there = path.ancestors().find(|above| above.as_os_str().is_empty() || above.exists());
    let there = there.filter(|above| !above.as_os_str().is_empty());
    folder(there.unwrap_or(Path::new("."))).map_err(no)?;
    // Another shard may be writing the report just now: where our list is, it is ours.
    if Order::read(path).is_some() {
        return Ok(());
    }
    for name in [ORDER, REPORT] {
        let is_foreign = match fs::read(path.join(name)) {
            Ok(text) => !String::from_utf8_lossy(&text).contains(SIGN),
            Err(e) => e.kind() != io::ErrorKind::NotFound,
        };
        if is_foreign {
            return Err(Error::input(format!(
                "{}: nandle did not write it, and would overwrite it; expected another directory",
                path.join(name).display()
            )));
        }
    }
    Ok(())
}

/// The list of the runs of a directory that belong together.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Order {
    /// The report's.
    pub title: String,
    /// Names of their directories.
    pub runs: Vec<String>,
}

impl Order {
    /// The list of these runs.
    #[must_use]
    pub fn of(title: &str, runs: &[PathBuf]) -> Self {
        let name =
            |path: &PathBuf| path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        Self { title: title.to_owned(), runs: runs.iter().map(name).collect() }
    }

    /// The list in a directory, if there is one.
    #[must_use]
    pub fn read(dir: &Path) -> Option<Self> {
        serde_json::from_slice(&fs::read(dir.join(ORDER)).ok()?).ok()
    }

    /// Writes it into a directory, whole at once: other shards read it.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn write(&self, dir: &Path) -> Result<(), Error> {
        let path = dir.join(ORDER);
        let text = serde_json::to_string_pretty(self).unwrap_or_default() + "\n";
        let new = dir.join(format!("{ORDER}.{}", std::process::id()));
        fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).map_err(|e| Error::write(&path, e))
    }
}
