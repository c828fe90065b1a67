//! A FUSE file system of one file, `disk`: the device for `losetup`, or for programs as it is.
//!
//! Read and write are the drive's; `fallocate` with `PUNCH_HOLE` is a trim, with `ZERO_RANGE` zeros
//! (which the drive may keep as a trim); `fsync` is a flush. The kernel's own limit on requests
//! under way (12 by default) is raised to the drive's queue depth. [`blk`] is what that comes to, without the kernel.

pub mod blk;

use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, ReplyAttr, ReplyData,
    ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use nandle_io::Status;
use rustix::mount::UnmountFlags;

use self::blk::Asked;
use crate::{Device, Error, Fault, Io};

/// The file's name.
pub const NAME: &str = "disk";
const DISK: INodeNo = INodeNo(2);
/// Nothing changes but by us: the kernel may believe what it was told for so long.
const BELIEVE: Duration = Duration::from_secs(3600);
/// The largest write.
const MOST_WRITE: u32 = 1 << 20;

/// A mounted file system; unmounted when dropped.
pub struct Mounted {
    path: PathBuf,
    session: Option<BackgroundSession>,
}

/// Mounts the device at the directory `path`.
///
/// # Errors
/// If there is no such directory, or it cannot be mounted there.
pub fn mount(path: &Path, device: Device) -> Result<Mounted, Error> {
    let fail = |e: io::Error| {
        let expected = "root, or fusermount3, and /dev/fuse";
        Error::input(format!("--fuse: cannot mount at {}: {e}; expected {expected}", path.display()))
    };
    match std::fs::metadata(path) {
        Ok(m) if m.is_dir() => {}
        // What a server that was killed leaves behind.
        Err(e) if e.kind() == io::ErrorKind::NotConnected => {
            rustix::mount::unmount(path, UnmountFlags::DETACH).map_err(|_| {
                Error::input(format!(
                    "{}: a dead mount is in the way; expected an empty directory (umount -l it)",
                    path.display()
                ))
            })?;
        }
        _ => return Err(Error::input(format!("{}: expected a directory to mount at", path.display()))),
    }
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("nandle".into()),
        MountOption::DefaultPermissions,
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoAtime,
    ];
    let session =
        fuser::spawn_mount(Disk { device: device.client("fuse", NAME) }, path, &config).map_err(fail)?;
    Ok(Mounted { path: path.to_owned(), session: Some(session) })
}

impl Mounted {
    /// The file.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.path.join(NAME)
    }
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // A file that is in use (a loop device) keeps the file system alive: it is taken out of sight
        // and ends with its last user. Who may not unmount asks fuser's helper.
        let detached = rustix::mount::unmount(&self.path, UnmountFlags::DETACH).is_ok();
        if let Some(session) = self.session.take() {
            if detached {
                std::mem::forget(session);
            } else {
                let _ = session.umount_and_join();
            }
        }
    }
}

struct Disk {
    device: Device,
}

fn errno(fault: Fault) -> Errno {
    match fault {
        Fault::Drive(status) => errno_of(status),
        Fault::Image | Fault::Gone | Fault::Failed => Errno::EIO,
        Fault::Full => Errno::ENOSPC,
    }
}

/// The error number that stands for a command's failure.
fn errno_of(status: Status) -> Errno {
    match status {
        Status::OutOfRange => Errno::EINVAL,
        Status::ReadOnly => Errno::EROFS,
        Status::Unsupported | Status::Overlap | Status::TooManyRanges | Status::NoCleanBlocks => {
            Errno::EOPNOTSUPP
        }
        // A success that failed would be a fault of ours.
        Status::MediaError | Status::Ok => Errno::EIO,
    }
}

impl Disk {
    fn attr(&self, inode: INodeNo) -> FileAttr {
        let is_disk = inode == DISK;
        let size = if is_disk { self.device.shape().bytes } else { 0 };
        FileAttr {
            ino: inode,
            size,
            blocks: size / 512,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind: if is_disk { FileType::RegularFile } else { FileType::Directory },
            perm: if is_disk { 0o600 } else { 0o700 },
            nlink: 1,
            uid: rustix::process::getuid().as_raw(),
            gid: rustix::process::getgid().as_raw(),
            rdev: 0,
            flags: 0,
            blksize: self.device.shape().page_bytes,
        }
    }

    fn empty(&self, io: Io, reply: ReplyEmpty) {
        self.device.submit(io, move |outcome| match outcome {
            Ok(_) => reply.ok(),
            Err(fault) => reply.error(errno(fault)),
        });
    }
}

impl Filesystem for Disk {
    fn init(&mut self, _: &Request, kernel: &mut KernelConfig) -> io::Result<()> {
        // What an older kernel does not know is done without.
        let _ = kernel.add_capabilities(InitFlags::FUSE_ASYNC_DIO);
        let depth = u16::try_from(self.device.shape().queue_depth).unwrap_or(u16::MAX).max(12);
        let _ = kernel.set_max_background(depth);
        let _ = kernel.set_congestion_threshold(depth);
        let _ = kernel.set_max_write(MOST_WRITE);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        if parent == INodeNo::ROOT && name == NAME {
            reply.entry(&BELIEVE, &self.attr(DISK), Generation(0));
        } else {
            reply.error(Errno::ENOENT);
        }
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        reply.attr(&BELIEVE, &self.attr(inode));
    }

    fn setattr(
        &self,
        _: &Request,
        inode: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        // A device has one size; owners and times are nobody's business.
        match size {
            Some(size) if size != self.device.shape().bytes => reply.error(Errno::EPERM),
            _ => reply.attr(&BELIEVE, &self.attr(inode)),
        }
    }

    fn open(&self, _: &Request, _: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let flags = FopenFlags::FOPEN_PARALLEL_DIRECT_WRITES | FopenFlags::FOPEN_NOFLUSH;
        reply.opened(FileHandle(1), flags);
    }

    fn read(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let Some(io) = blk::read(&self.device.shape(), offset, bytes) else { return reply.data(&[]) };
        self.device.submit(io, move |outcome| match outcome {
            Ok(data) => reply.data(&data),
            Err(fault) => reply.error(errno(fault)),
        });
    }

    fn write(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let data = &data[..blk::room(&self.device.shape(), offset, data.len())];
        if data.is_empty() {
            return reply.error(Errno::ENOSPC);
        }
        let length = data.len() as u32;
        let mut buffer = self.device.buffer(data.len());
        buffer.clear();
        buffer.extend_from_slice(data);
        self.device.submit(Io::write(offset, buffer), move |outcome| match outcome {
            Ok(_) => reply.written(length),
            Err(fault) => reply.error(errno(fault)),
        });
    }

    fn fsync(&self, _: &Request, _: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.empty(Io::flush(), reply);
    }

    fn fallocate(
        &self,
        _: &Request,
        _: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        match blk::fallocate(&self.device.shape(), offset, bytes, mode) {
            Asked::Do(io) => self.empty(io, reply),
            Asked::Done => reply.ok(),
            Asked::Refuse(errno) => reply.error(errno),
        }
    }

    fn readdir(&self, _: &Request, _: INodeNo, _: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let entries = [
            (INodeNo::ROOT, FileType::Directory, "."),
            (INodeNo::ROOT, FileType::Directory, ".."),
            (DISK, FileType::RegularFile, NAME),
        ];
        for (next, (inode, kind, name)) in (1..).zip(entries).skip(offset.min(3) as usize) {
            if reply.add(inode, next, kind, name) {
                break;
            }
        }
        reply.ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn failures_differ_where_a_file_system_can_tell() {
        for status in Status::ALL.into_iter().filter(|&status| status != Status::Ok) {
            let expected = match status {
                Status::OutOfRange => Errno::EINVAL,
                Status::ReadOnly => Errno::EROFS,
                Status::MediaError => Errno::EIO,
                _ => Errno::EOPNOTSUPP,
            };
            assert_eq!(errno(Fault::Drive(status)), expected, "{status}");
        }
    }
}
