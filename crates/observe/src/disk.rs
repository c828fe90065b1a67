//! A real file system on a drive that is a watched file: mounted by a loop device, as root.
//!
//! What the kernel asks of the drive are then the events: writes of the file `disk`, and flushes of it.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use crate::Error;
use crate::event::{Kind, Place, ROOT, What};
use crate::tree::{PAGE, Page, Tree};

/// The file that is the drive.
pub const DISK: &str = "disk";
/// How often a file system that is in use is asked to go, and how long apart.
const TRIES: u32 = 100;
const PAUSE: Duration = Duration::from_millis(10);

/// A file system, and the drive that it is made on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// `ext4` or `xfs`.
    pub kind: String,
    /// Options of `mount`, separated by commas.
    pub options: String,
    /// Bytes of the drive; 0 for as many as the files at the start suggest.
    pub bytes: u64,
}

/// A file system that is mounted; unmounted when dropped.
pub struct Mounted(PathBuf);

impl Disk {
    /// A drive with this file system and these files on it, in a tree of one file.
    ///
    /// # Errors
    /// If this user may not mount, or the programs for it are missing.
    pub fn make(&self, files: &Tree) -> Result<Tree, Error> {
        if !rustix::process::getuid().is_root() {
            return Err(Error::NoMount(self.kind.clone(), "only root may mount it".into()));
        }
        let work = tempfile::Builder::new().prefix("nandle-disk-").tempdir().map_err(Error::Folder)?;
        let (image, at) = (work.path().join(DISK), work.path().join("files"));
        let held: u64 = files
            .walk()
            .iter()
            .filter_map(|(_, file)| files.contents(*file))
            .map(|contents| contents.size().next_multiple_of(PAGE))
            .sum();
        let least = if self.kind == "xfs" { 320 << 20 } else { 64 << 20 };
        let bytes = if self.bytes > 0 { self.bytes } else { (held * 4).next_multiple_of(1 << 20).max(least) };
        let file = File::create_new(&image).map_err(Error::Folder)?;
        file.set_len(bytes).map_err(Error::Folder)?;
        // What could be left for the kernel to do later is done here, or would be seen as the program's.
        let options: &[&str] = match self.kind.as_str() {
            "xfs" => &["-q", "-f", "-K"],
            _ => &["-q", "-F", "-b", "4096", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
        };
        let mut make = Command::new(format!("mkfs.{}", self.kind));
        self.run(make.args(options).arg(&image))?;
        std::fs::create_dir(&at).map_err(Error::Folder)?;
        if files.walk().is_empty() {
            self.mount(&image, &at)?;
        } else {
            let mounted = self.mount(&image, &at)?;
            files.store(&at).map_err(Error::Folder)?;
            drop(mounted);
        }
        load(&file, bytes).map_err(Error::Folder)
    }

    /// Mounts the drive in the file `image` at the directory `at`.
    ///
    /// # Errors
    /// If it cannot be mounted; what `mount` says of it is in the error.
    pub fn mount(&self, image: &Path, at: &Path) -> Result<Mounted, Error> {
        // Copies of an xfs have one name.
        let ours = if self.kind == "xfs" { "loop,nouuid" } else { "loop" };
        let options = [ours, &self.options].join(",");
        let mut mount = Command::new("mount");
        self.run(mount.args(["-t", &self.kind, "-o", options.trim_end_matches(',')]).arg(image).arg(at))?;
        Ok(Mounted(at.to_owned()))
    }

    fn run(&self, command: &mut Command) -> Result<(), Error> {
        let program = command.get_program().to_string_lossy().into_owned();
        let path = std::env::var("PATH").unwrap_or_default() + ":/usr/sbin:/sbin";
        let output = command.env("PATH", path).output().map_err(|e| {
            Error::NoMount(self.kind.clone(), format!("{program}: {e}; expected that it is installed"))
        })?;
        if output.status.success() {
            return Ok(());
        }
        let said = String::from_utf8_lossy(&output.stderr);
        let said = said.lines().find(|line| !line.trim().is_empty()).unwrap_or("it failed").trim();
        Err(Error::NoMount(self.kind.clone(), format!("{program}: {said}")))
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        for _ in 0..TRIES {
            if rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::empty())
                != Err(rustix::io::Errno::BUSY)
            {
                return;
            }
            std::thread::sleep(PAUSE);
        }
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

/// A tree whose one file is this drive; pages of zeros are left out.
fn load(image: &File, bytes: u64) -> io::Result<Tree> {
    let mut tree = Tree::default();
    let file = tree.fresh();
    let place = Place { folder: ROOT, name: DISK.into() };
    tree.apply(&What::Create { place, file, kind: Kind::File, mode: 0o644 });
    if let Some(contents) = tree.contents_mut(file) {
        let mut at = 0;
        let mut buffer = vec![0; 1 << 20];
        while at < bytes {
            let count = buffer.len().min((bytes - at) as usize);
            image.read_exact_at(&mut buffer[..count], at)?;
            for (index, page) in (at / PAGE..).zip(buffer[..count].chunks(PAGE as usize)) {
                if page.iter().any(|&byte| byte != 0)
                    && let Ok(page) = Page::try_from(page)
                {
                    contents.set_page(index, Some(std::sync::Arc::new(page)));
                }
            }
            at += count as u64;
        }
        contents.set_size(bytes);
    }
    Ok(tree)
}
