//! A file that is made beside its place and takes it once it is whole: until then what is there stays.
use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::{Builder, TempPath};

/// What stands for a file that somebody else has opened, and may be writing to.
const OPENED: [&str; 4] = ["/dev/fd", "/dev/stdout", "/dev/stderr", "/proc"];

/// The name that the file has so far; without [`take_place`](Self::take_place) it is removed.
pub(crate) struct Beside {
    name: TempPath,
    place: PathBuf,
}

impl Beside {
    /// A file for `path`; none where bytes have to go straight away, as in pipes and devices.
    pub fn of(path: &Path) -> io::Result<Option<(File, Self)>> {
        let place = match fs::metadata(path) {
            _ if OPENED.iter().any(|opened| path.starts_with(opened)) => return Ok(None),
            // What a link points at is replaced, not the link.
            Ok(meta) if meta.is_file() => path.canonicalize()?,
            Err(e) if e.kind() == io::ErrorKind::NotFound && !path.is_symlink() => path.to_owned(),
            _ => return Ok(None),
        };
        // What may not be written to is not replaced either.
        let old = match OpenOptions::new().write(true).open(&place) {
            Ok(old) => Some(old.metadata()?.permissions()),
            Err(e) if e.kind() == io::ErrorKind::NotFound => None,
            Err(e) => return Err(e),
        };
        let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
        let made = Builder::new().prefix(".nandle-").make_in(folder, |name| File::create_new(name))?;
        let (file, name) = made.into_parts();
        if let Some(permissions) = old {
            file.set_permissions(permissions)?;
        }
        Ok(Some((file, Beside { name, place })))
    }

    pub fn name(&self) -> &Path {
        &self.name
    }

    pub fn take_place(self) -> io::Result<()> {
        self.name.persist(self.place).map_err(|e| e.error)
    }
}
