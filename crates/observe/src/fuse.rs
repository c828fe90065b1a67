//! A folder in memory that the kernel mounts: every call on it is seen, whoever makes it.
//!
//! The kernel's cache is in front of it in its write-through way: a `write` arrives here before it returns;
//! what is written through a mapping arrives with `msync`, with the last `close`, or when the kernel
//! thinks fit. Reads arrive if the cache does not have the bytes.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BackgroundSession, BsdFileFlags, Config, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags,
    Generation, INodeNo, InitFlags, KernelConfig, LockOwner, MountOption, OpenFlags, RenameFlags, ReplyAttr,
    ReplyCreate, ReplyData, ReplyDirectory, ReplyEmpty, ReplyEntry, ReplyLseek, ReplyOpen, ReplyStatfs,
    ReplyWrite, Request, TimeOrNow, WriteFlags,
};
use nix::fcntl::OFlag;
use rustix::fs::FallocateFlags;
use rustix::mount::UnmountFlags;

use crate::event::{FileId, Kind, Place, What};
use crate::recorder::Recorder;
use crate::tree::{Node, PAGE, Tree};

/// Nothing changes but by the kernel's own calls: it may believe what it was told for so long.
const BELIEVE: Duration = Duration::from_secs(3600);
/// The largest write.
const MOST_WRITE: u32 = 1 << 20;
/// What `statfs` says: room for anything.
const ROOM: u64 = 1 << 40;

/// A mounted folder; unmounted when dropped.
pub struct Mounted {
    path: PathBuf,
    session: Option<BackgroundSession>,
}

/// Mounts the recorder's files at the directory `path`.
///
/// # Errors
/// If this user may not.
pub fn mount(path: &Path, recorder: Recorder) -> io::Result<Mounted> {
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName("nandle".into()),
        MountOption::NoDev,
        MountOption::NoSuid,
        MountOption::NoAtime,
    ];
    let session = fuser::spawn_mount(
        Watched { recorder, listings: Mutex::default(), opened: AtomicU64::new(0) },
        path,
        &config,
    )?;
    Ok(Mounted { path: path.to_owned(), session: Some(session) })
}

impl Drop for Mounted {
    fn drop(&mut self) {
        let detached = rustix::mount::unmount(&self.path, UnmountFlags::DETACH).is_ok();
        if let Some(session) = self.session.take() {
            if detached {
                // It ends with the last file that is open in it.
                std::mem::forget(session);
            } else {
                let _ = session.umount_and_join();
            }
        }
    }
}

/// The names in an open folder as they were when it was opened, so that none is left out while others go.
type Listing = Vec<(OsString, FileId, FileType)>;

struct Watched {
    recorder: Recorder,
    listings: Mutex<HashMap<u64, Arc<Listing>>>,
    opened: AtomicU64,
}

fn is_durable(flags: i32) -> bool {
    OFlag::from_bits_truncate(flags).intersects(OFlag::O_SYNC | OFlag::O_DSYNC)
}

fn attr(tree: &Tree, file: FileId) -> Option<FileAttr> {
    let inode = tree.get(file)?;
    let (kind, size) = match &inode.node {
        Node::File(contents) => (FileType::RegularFile, contents.size()),
        Node::Folder(entries) => (FileType::Directory, entries.len() as u64),
        Node::Link(path) => (FileType::Symlink, path.as_os_str().len() as u64),
    };
    Some(FileAttr {
        ino: INodeNo(file),
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm: (inode.mode & 0o7777) as u16,
        nlink: inode.links,
        uid: rustix::process::getuid().as_raw(),
        gid: rustix::process::getgid().as_raw(),
        rdev: 0,
        flags: 0,
        blksize: PAGE as u32,
    })
}

fn place(folder: INodeNo, name: &OsStr) -> Place {
    Place { folder: folder.0, name: name.to_owned() }
}

impl Watched {
    fn listings(&self) -> MutexGuard<'_, HashMap<u64, Arc<Listing>>> {
        self.listings.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn make(&self, request: &Request, place: Place, kind: Kind, mode: u32) -> Result<FileAttr, Errno> {
        let mut state = self.recorder.lock();
        if state.tree.find(&place).is_some() {
            return Err(Errno::EEXIST);
        }
        if state.tree.entries(place.folder).is_none() {
            return Err(Errno::ENOTDIR);
        }
        let file = state.tree.fresh();
        state.record(What::Create { place, file, kind, mode: mode & 0o7777 }, request.pid());
        attr(&state.tree, file).ok_or(Errno::EIO)
    }

    fn unlink(&self, request: &Request, place: Place, is_folder: bool) -> Result<(), Errno> {
        let mut state = self.recorder.lock();
        let file = state.tree.find(&place).ok_or(Errno::ENOENT)?;
        match state.tree.entries(file) {
            Some(_) if !is_folder => return Err(Errno::EISDIR),
            None if is_folder => return Err(Errno::ENOTDIR),
            Some(entries) if !entries.is_empty() => return Err(Errno::ENOTEMPTY),
            _ => {}
        }
        state.record(What::Unlink { place, file }, request.pid());
        Ok(())
    }

    fn rename(&self, request: &Request, from: Place, to: Place, flags: RenameFlags) -> Result<(), Errno> {
        let mut state = self.recorder.lock();
        let tree = &state.tree;
        let file = tree.find(&from).ok_or(Errno::ENOENT)?;
        let over = tree.find(&to);
        let exchange = flags.contains(RenameFlags::RENAME_EXCHANGE);
        if flags.contains(RenameFlags::RENAME_WHITEOUT) {
            return Err(Errno::EINVAL);
        }
        if over.is_some() && flags.contains(RenameFlags::RENAME_NOREPLACE) {
            return Err(Errno::EEXIST);
        }
        if over.is_none() && exchange {
            return Err(Errno::ENOENT);
        }
        if over == Some(file) {
            return Ok(());
        }
        if tree.is_under(to.folder, file) {
            return Err(Errno::EINVAL);
        }
        if let (Some(over), false) = (over, exchange) {
            match (tree.entries(file), tree.entries(over)) {
                (Some(_), Some(entries)) if !entries.is_empty() => return Err(Errno::ENOTEMPTY),
                (Some(_), None) => return Err(Errno::ENOTDIR),
                (None, Some(_)) => return Err(Errno::EISDIR),
                _ => {}
            }
        }
        state.record(What::Rename { from, to, file, over, exchange }, request.pid());
        Ok(())
    }

    fn allocate(
        &self,
        request: &Request,
        file: FileId,
        offset: u64,
        bytes: u64,
        mode: FallocateFlags,
    ) -> Result<(), Errno> {
        let mut state = self.recorder.lock();
        let size = state.tree.contents(file).ok_or(Errno::EBADF)?.size();
        let end = offset.checked_add(bytes).ok_or(Errno::EFBIG)?;
        let keep = mode.contains(FallocateFlags::KEEP_SIZE);
        let mode = mode - FallocateFlags::KEEP_SIZE;
        let what = if mode == FallocateFlags::PUNCH_HOLE || mode == FallocateFlags::ZERO_RANGE {
            What::Zero { file, offset, bytes }
        } else if mode.is_empty() {
            What::Allocate { file, offset, bytes }
        } else {
            return Err(Errno::EOPNOTSUPP);
        };
        state.record(what, request.pid());
        if !keep && end > size {
            state.record(What::Resize { file, size: end }, request.pid());
        }
        Ok(())
    }
}

fn empty(result: Result<(), Errno>, reply: ReplyEmpty) {
    match result {
        Ok(()) => reply.ok(),
        Err(e) => reply.error(e),
    }
}

fn entry(result: Result<FileAttr, Errno>, reply: ReplyEntry) {
    match result {
        Ok(attr) => reply.entry(&BELIEVE, &attr, Generation(0)),
        Err(e) => reply.error(e),
    }
}

impl Filesystem for Watched {
    fn init(&mut self, _: &Request, kernel: &mut KernelConfig) -> io::Result<()> {
        let _ = kernel.add_capabilities(InitFlags::FUSE_ATOMIC_O_TRUNC | InitFlags::FUSE_BIG_WRITES);
        let _ = kernel.set_max_write(MOST_WRITE);
        Ok(())
    }

    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let state = self.recorder.lock();
        let found = state.tree.find(&place(parent, name)).and_then(|file| attr(&state.tree, file));
        entry(found.ok_or(Errno::ENOENT), reply);
    }

    fn getattr(&self, _: &Request, inode: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match attr(&self.recorder.lock().tree, inode.0) {
            Some(attr) => reply.attr(&BELIEVE, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn setattr(
        &self,
        request: &Request,
        inode: INodeNo,
        mode: Option<u32>,
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
        // Owners and times are no part of what is tested.
        let mut state = self.recorder.lock();
        if let Some(mode) = mode {
            state.tree.set_mode(inode.0, mode & 0o7777);
        }
        if let Some(size) = size {
            state.record(What::Resize { file: inode.0, size }, request.pid());
        }
        match attr(&state.tree, inode.0) {
            Some(attr) => reply.attr(&BELIEVE, &attr),
            None => reply.error(Errno::ENOENT),
        }
    }

    fn readlink(&self, _: &Request, inode: INodeNo, reply: ReplyData) {
        match self.recorder.lock().tree.get(inode.0).map(|inode| &inode.node) {
            Some(Node::Link(path)) => reply.data(path.as_os_str().as_encoded_bytes()),
            _ => reply.error(Errno::EINVAL),
        }
    }

    fn mknod(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        _: u32,
        reply: ReplyEntry,
    ) {
        // Sockets and pipes are nothing that a drive holds.
        let regular = mode & 0o170_000 == 0o100_000 || mode & 0o170_000 == 0;
        let made = if regular {
            self.make(request, place(parent, name), Kind::File, mode & !umask)
        } else {
            Err(Errno::EPERM)
        };
        entry(made, reply);
    }

    fn mkdir(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        entry(self.make(request, place(parent, name), Kind::Folder, mode & !umask), reply);
    }

    fn symlink(&self, request: &Request, parent: INodeNo, name: &OsStr, target: &Path, reply: ReplyEntry) {
        entry(self.make(request, place(parent, name), Kind::Link(target.to_owned()), 0o777), reply);
    }

    fn unlink(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.unlink(request, place(parent, name), false), reply);
    }

    fn rmdir(&self, request: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(self.unlink(request, place(parent, name), true), reply);
    }

    fn rename(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        empty(self.rename(request, place(parent, name), place(new_parent, new_name), flags), reply);
    }

    fn link(&self, request: &Request, inode: INodeNo, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        let mut state = self.recorder.lock();
        let place = place(parent, name);
        if state.tree.find(&place).is_some() {
            return reply.error(Errno::EEXIST);
        }
        state.record(What::Link { place, file: inode.0 }, request.pid());
        entry(attr(&state.tree, inode.0).ok_or(Errno::ENOENT), reply);
    }

    fn open(&self, request: &Request, inode: INodeNo, flags: OpenFlags, reply: ReplyOpen) {
        if OFlag::from_bits_truncate(flags.0).contains(OFlag::O_TRUNC) {
            let mut state = self.recorder.lock();
            if state.tree.contents(inode.0).is_some_and(|contents| contents.size() > 0) {
                state.record(What::Resize { file: inode.0, size: 0 }, request.pid());
            }
        }
        reply.opened(FileHandle(u64::from(is_durable(flags.0))), FopenFlags::FOPEN_KEEP_CACHE);
    }

    fn create(
        &self,
        request: &Request,
        parent: INodeNo,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        match self.make(request, place(parent, name), Kind::File, mode & !umask) {
            Ok(attr) => {
                let handle = FileHandle(u64::from(is_durable(flags)));
                reply.created(&BELIEVE, &attr, Generation(0), handle, FopenFlags::FOPEN_KEEP_CACHE);
            }
            Err(e) => reply.error(e),
        }
    }

    fn read(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        let mut state = self.recorder.lock();
        match state.tree.contents(inode.0) {
            Some(contents) => {
                let data = contents.read(offset, bytes.into());
                if !data.is_empty() {
                    let bytes = data.len() as u64;
                    state.record(What::Read { file: inode.0, offset, bytes }, request.pid());
                }
                reply.data(&data);
            }
            None => reply.error(Errno::EISDIR),
        }
    }

    fn write(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        flags: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        let what = What::Write { file: inode.0, offset, data: data.into(), durable: is_durable(flags.0) };
        self.recorder.lock().record(what, request.pid());
        reply.written(data.len() as u32);
    }

    fn fsync(
        &self,
        request: &Request,
        inode: INodeNo,
        handle: FileHandle,
        data_only: bool,
        reply: ReplyEmpty,
    ) {
        let mut state = self.recorder.lock();
        // Of a file that was opened with O_SYNC the kernel asks for this after each write.
        let is_of_write =
            handle.0 == 1 && matches!(state.last(), Some(What::Write { file, .. }) if *file == inode.0);
        if is_of_write {
            state.make_last_durable();
        } else {
            state.record(What::Flush { file: inode.0, data_only }, request.pid());
        }
        reply.ok();
    }

    fn fsyncdir(&self, request: &Request, inode: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        self.recorder.lock().record(What::FlushFolder { folder: inode.0 }, request.pid());
        reply.ok();
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        reply.error(Errno::ENOSYS);
    }

    fn fallocate(
        &self,
        request: &Request,
        inode: INodeNo,
        _: FileHandle,
        offset: u64,
        bytes: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let mode = FallocateFlags::from_bits_retain(mode as u32);
        empty(self.allocate(request, inode.0, offset, bytes, mode), reply);
    }

    fn lseek(&self, _: &Request, _: INodeNo, _: FileHandle, _: i64, _: i32, reply: ReplyLseek) {
        reply.error(Errno::ENOSYS);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        let blocks = ROOM / PAGE;
        reply.statfs(blocks, blocks, blocks, 1 << 20, 1 << 20, PAGE as u32, 255, PAGE as u32);
    }

    fn opendir(&self, _: &Request, inode: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        let state = self.recorder.lock();
        let Some(entries) = state.tree.entries(inode.0) else { return reply.error(Errno::ENOTDIR) };
        let kind = |file| attr(&state.tree, file).map_or(FileType::RegularFile, |attr| attr.kind);
        let dots = [".", ".."].map(|name| (name.into(), inode.0, FileType::Directory));
        let names = entries.iter().map(|(name, &file)| (name.clone(), file, kind(file)));
        let handle = self.opened.fetch_add(1, Ordering::Relaxed);
        self.listings().insert(handle, Arc::new(dots.into_iter().chain(names).collect()));
        reply.opened(FileHandle(handle), FopenFlags::empty());
    }

    fn readdir(&self, _: &Request, _: INodeNo, handle: FileHandle, offset: u64, mut reply: ReplyDirectory) {
        let listing = self.listings().get(&handle.0).cloned().unwrap_or_default();
        for (next, (name, file, kind)) in (1..).zip(listing.iter()).skip(offset as usize) {
            if reply.add(INodeNo(*file), next, *kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn releasedir(&self, _: &Request, _: INodeNo, handle: FileHandle, _: OpenFlags, reply: ReplyEmpty) {
        self.listings().remove(&handle.0);
        reply.ok();
    }
}
