//! The files that `nandle serve` writes: no two are the same, and all can be written, before there is a drive.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use nandle_serve::image;

use super::terminal::Failure;

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

/// Which file is at `path`; none if it is no regular file, to which several may write.
fn which(path: &Path) -> Option<Which> {
    let mut path = path.to_owned();
    for _ in 0..MOST_LINKS {
        if let Ok(metadata) = fs::metadata(&path) {
            return metadata.is_file().then(|| Which::There(metadata.dev(), metadata.ino()));
        }
        let Ok(target) = fs::read_link(&path) else { break };
        path = folder(&path).join(target);
    }
    let place = fs::canonicalize(folder(&path)).ok();
    let place = place.zip(path.file_name()).map(|(place, name)| place.join(name));
    Some(Which::New(place.unwrap_or(path)))
}

fn folder(path: &Path) -> &Path {
    path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// Whether a file can be written: why not. What is there stays as it is.
fn is_writable(path: &Path) -> std::io::Result<()> {
    match fs::metadata(path) {
        // Opening a pipe waits for its reader.
        Ok(metadata) if !metadata.is_file() && !metadata.is_dir() => Ok(()),
        Err(e) if e.kind() == ErrorKind::NotFound && fs::symlink_metadata(path).is_err() => {
            OpenOptions::new().write(true).create_new(true).open(path)?;
            fs::remove_file(path)
        }
        _ => OpenOptions::new().write(true).create(true).truncate(false).open(path).map(drop),
    }
}

/// Refuses a trace or a summary that would overwrite the image or each other, or that cannot be written.
pub fn check(image: Option<&Path>, record: Option<&Path>, json: Option<&Path>) -> Result<(), Failure> {
    let no = |option: &str, path: &Path, what: &str, expected: &str| {
        Err(Failure::Input(format!("{option} {}: {what}; expected {expected}", path.display())))
    };
    let is_stdout = |path: &Path| path.as_os_str() == "-";
    let outputs = [("--record", record), ("--json", json)];
    let files: Vec<(&str, &Path)> = outputs
        .into_iter()
        .filter_map(|(option, path)| Some((option, path.filter(|path| !is_stdout(path))?)))
        .collect();
    if let Some(image) = image {
        for &(option, path) in &files {
            let this = which(path);
            if this.is_some() && image::may_be_in(image).any(|part| which(&part) == this) {
                let what = format!("it would overwrite the image {}", image.display());
                return no(option, path, &what, "another file");
            }
        }
    }
    if let (Some(record), Some(json)) = (record, json) {
        let same = match (is_stdout(record), is_stdout(json)) {
            (false, false) => which(json).is_some_and(|this| which(record) == Some(this)),
            (a, b) => a && b,
        };
        if same {
            return no("--json", json, "--record writes there", "another file");
        }
    }
    for (option, path) in files {
        if let Err(e) = is_writable(path) {
            return no(option, path, &e.to_string(), "a file that can be written");
        }
    }
    Ok(())
}
