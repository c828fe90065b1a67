//! A program's system calls followed by `ptrace`, where nothing can be mounted: threads and children too,
//! whatever language they are written in.
//!
//! What a call did is entered when it returns. What is written through a shared mapping is found by comparing
//! the file with what is known of it: with `msync`, `munmap`, a flush, and at the end.

use std::collections::{HashMap, HashSet};
use std::ffi::OsString;
use std::io::IoSliceMut;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStringExt;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::c_long;
use linux_raw_sys::ptrace::{
    PTRACE_GET_SYSCALL_INFO, PTRACE_SYSCALL_INFO_ENTRY, PTRACE_SYSCALL_INFO_EXIT, ptrace_syscall_info,
};
use nix::sys::ptrace::{self, Options};
use nix::sys::signal::{Signal, kill};
use nix::sys::uio::{RemoteIoVec, process_vm_readv};
use nix::sys::wait::{WaitPidFlag, WaitStatus, waitpid};
use nix::unistd::Pid;

use crate::Error;
use crate::event::{FileId, Kind, Piece, Place, ROOT, What};
use crate::places::Locate;
use crate::recorder::{Recorder, State};
use crate::run::listen;
use crate::tree::PAGE;

/// The longest path.
const MOST_PATH: usize = 4096;
/// Bits of `mmap`, `fallocate` and `renameat2`.
const KEEP_SIZE: u64 = libc::FALLOC_FL_KEEP_SIZE as u64;

/// Runs the command in the folder `path`, which holds the recorder's files.
pub(crate) fn run(
    program: &Command,
    path: &Path,
    recorder: &Recorder,
    locate: Option<Locate>,
    echo: bool,
    stop: &AtomicBool,
) -> Result<ExitStatus, Error> {
    let fail = |e: nix::Error| Error::NoTrace(e.to_string());
    let path = path.canonicalize().map_err(Error::Folder)?;
    // It stops itself, so that it is followed from its first call on.
    let mut command = Command::new("sh");
    command
        .args(["-c", "kill -STOP $$; exec \"$@\"", "sh"])
        .arg(program.get_program())
        .args(program.get_args());
    listen(&mut command, &path, recorder, echo).map_err(Error::Folder)?;
    let child = command.spawn().map_err(|e| Error::Start("sh".into(), e))?;
    drop(command);
    let main = Pid::from_raw(child.id().cast_signed());
    let stopped = waitpid(main, Some(WaitPidFlag::WUNTRACED)).map_err(fail)?;
    if !matches!(stopped, WaitStatus::Stopped(..)) {
        return Err(Error::NoTrace(format!("{stopped:?}")));
    }
    let options = Options::PTRACE_O_TRACESYSGOOD
        | Options::PTRACE_O_TRACEFORK
        | Options::PTRACE_O_TRACEVFORK
        | Options::PTRACE_O_TRACECLONE
        | Options::PTRACE_O_TRACEEXEC
        | Options::PTRACE_O_EXITKILL;
    if let Err(e) = ptrace::seize(main, options) {
        let _ = kill(main, Signal::SIGKILL);
        let _ = waitpid(main, None);
        return Err(fail(e));
    }
    kill(main, Signal::SIGCONT).map_err(fail)?;
    let mut follower = Follower {
        path,
        recorder,
        files: HashMap::new(),
        calls: HashMap::new(),
        mapped: HashSet::new(),
        locate,
        placed: HashMap::new(),
    };
    follower.learn_all();
    follower.ask_all(main, true);
    let ended = follower.follow(main, stop);
    follower.end(main);
    recorder.lock().hear();
    ended
}

/// A call under way.
pub(crate) struct Call {
    pub(crate) number: c_long,
    pub(crate) args: [u64; 6],
}

/// Why a thread stopped.
enum Stop {
    /// It makes a call.
    Entry(u64, [u64; 6]),
    /// A call returned; none if it failed.
    Exit(Option<i64>),
}

#[allow(unsafe_code)]
fn stop_of(pid: Pid) -> Option<Stop> {
    let mut info = MaybeUninit::<ptrace_syscall_info>::zeroed();
    let size = size_of_val(&info);
    // SAFETY: the kernel writes `size` bytes at most, all of which are there; zeros are a value of each field; and `op`
    // says which of the union's fields the kernel has filled in.
    unsafe {
        if libc::ptrace(PTRACE_GET_SYSCALL_INFO as _, pid.as_raw(), size, info.as_mut_ptr()) < 0 {
            return None;
        }
        let info = info.assume_init();
        let of = info.__bindgen_anon_1;
        match info.op.into() {
            PTRACE_SYSCALL_INFO_ENTRY => Some(Stop::Entry(of.entry.nr, of.entry.args)),
            PTRACE_SYSCALL_INFO_EXIT => Some(Stop::Exit((of.exit.is_error == 0).then_some(of.exit.rval))),
            _ => None,
        }
    }
}

pub(crate) struct Follower<'a> {
    pub(crate) path: PathBuf,
    pub(crate) recorder: &'a Recorder,
    /// By the system's number: which file of ours it is.
    files: HashMap<u64, FileId>,
    calls: HashMap<Pid, Call>,
    /// Files that are mapped to be written.
    mapped: HashSet<FileId>,
    /// Says where files lie, if that is asked for.
    pub(crate) locate: Option<Locate>,
    /// What it said last.
    pub(crate) placed: HashMap<FileId, Arc<[Piece]>>,
}

impl Follower<'_> {
    fn learn_all(&mut self) {
        let state = self.recorder.lock();
        if let Ok(meta) = std::fs::metadata(&self.path) {
            self.files.insert(meta.ino(), ROOT);
        }
        for (path, file) in state.tree.walk() {
            if let Ok(meta) = std::fs::symlink_metadata(self.path.join(path)) {
                self.files.insert(meta.ino(), file);
            }
        }
    }

    fn follow(&mut self, main: Pid, stop: &AtomicBool) -> Result<ExitStatus, Error> {
        let flags = WaitPidFlag::__WALL | WaitPidFlag::from_bits_retain(libc::__WNOTHREAD);
        loop {
            let status = match waitpid(None, Some(flags)) {
                Ok(status) => status,
                Err(nix::Error::EINTR) => continue,
                Err(e) => return Err(Error::NoTrace(e.to_string())),
            };
            if stop.load(Ordering::Relaxed) {
                let _ = kill(main, Signal::SIGKILL);
            }
            match status {
                WaitStatus::Exited(pid, code) if pid == main => return Ok(ExitStatus::from_raw(code << 8)),
                WaitStatus::Signaled(pid, signal, _) if pid == main => {
                    return Ok(ExitStatus::from_raw(signal as i32));
                }
                WaitStatus::Exited(pid, _) | WaitStatus::Signaled(pid, ..) => {
                    self.calls.remove(&pid);
                }
                WaitStatus::PtraceSyscall(pid) => {
                    self.syscall(pid)?;
                    let _ = ptrace::syscall(pid, None);
                }
                WaitStatus::PtraceEvent(pid, ..) => {
                    let _ = ptrace::syscall(pid, None);
                }
                WaitStatus::Stopped(pid, signal) => {
                    let _ = ptrace::syscall(pid, Some(signal));
                }
                _ => {}
            }
        }
    }

    /// Whoever is left is ended: the program is over.
    fn end(&mut self, main: Pid) {
        let left: HashSet<Pid> = self.calls.keys().copied().collect();
        for pid in left.into_iter().filter(|&pid| pid != main) {
            let _ = kill(pid, Signal::SIGKILL);
            let _ = waitpid(pid, Some(WaitPidFlag::__WALL));
        }
        self.compare_mapped(Pid::from_raw(0));
        self.ask_all(Pid::from_raw(0), true);
    }

    fn syscall(&mut self, pid: Pid) -> Result<(), Error> {
        match stop_of(pid) {
            Some(Stop::Entry(nr, args)) => {
                if nr == libc::SYS_io_uring_setup as u64 {
                    let _ = kill(pid, Signal::SIGKILL);
                    return Err(Error::Unseen(
                        "the program uses io_uring, whose writes ptrace does not see; expected FUSE (--watch fuse), or a program told to use another way".into(),
                    ));
                }
                let call = Call { number: nr as c_long, args };
                self.before(pid, &call);
                self.calls.insert(pid, call);
            }
            Some(Stop::Exit(result)) => {
                if let Some(call) = self.calls.remove(&pid)
                    && let Some(result) = result
                {
                    self.after(pid, &call, result);
                }
            }
            None => {}
        }
        Ok(())
    }

    /// What has to be looked at before a call is made.
    fn before(&mut self, pid: Pid, call: &Call) {
        if matches!(call.number, libc::SYS_munmap | libc::SYS_exit_group | libc::SYS_execve) {
            self.compare_mapped(pid);
        }
        if self.locate.is_some() {
            self.ask_before(pid, call);
        }
    }

    /// Enters what was written through mappings.
    fn compare_mapped(&self, pid: Pid) {
        for &file in &self.mapped {
            self.compare(file, pid.as_raw());
        }
    }

    fn after(&mut self, pid: Pid, call: &Call, result: i64) {
        let [a, b, c, d, e, _] = call.args;
        match call.number {
            #[cfg(target_arch = "x86_64")]
            libc::SYS_open => self.opened(pid, libc::AT_FDCWD as u64, a, b, c, result),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_creat => {
                let flags = (libc::O_CREAT | libc::O_WRONLY | libc::O_TRUNC) as u64;
                self.opened(pid, libc::AT_FDCWD as u64, a, flags, b, result);
            }
            libc::SYS_openat => self.opened(pid, a, b, c, d, result),
            libc::SYS_openat2 => {
                let how = self.memory(pid, c, 16).unwrap_or_default();
                let word = |at: usize| {
                    how.get(at..at + 8).and_then(|b| b.try_into().ok()).map_or(0, u64::from_ne_bytes)
                };
                self.opened(pid, a, b, word(0), word(8), result);
            }
            libc::SYS_write | libc::SYS_writev => self.written(pid, call, None, result as u64),
            libc::SYS_pwrite64 | libc::SYS_pwritev | libc::SYS_pwritev2 => {
                self.written(pid, call, Some(d), result as u64);
            }
            libc::SYS_read | libc::SYS_readv => self.was_read(pid, a, None, result as u64),
            libc::SYS_pread64 | libc::SYS_preadv | libc::SYS_preadv2 => {
                self.was_read(pid, a, Some(d), result as u64)
            }
            libc::SYS_copy_file_range => self.compare_fd(pid, c),
            libc::SYS_sendfile => self.compare_fd(pid, a),
            libc::SYS_splice => self.compare_fd(pid, c),
            libc::SYS_ftruncate => {
                if let Some(file) = self.file(pid, a) {
                    self.record(pid, What::Resize { file, size: b });
                }
            }
            libc::SYS_truncate => {
                if let Some(place) = self.place(pid, libc::AT_FDCWD as u64, a)
                    && let Some(file) = self.find(&place)
                {
                    self.record(pid, What::Resize { file, size: b });
                }
            }
            libc::SYS_fallocate => self.allocated(pid, a, b, c, d),
            libc::SYS_fsync | libc::SYS_fdatasync => {
                if let Some(file) = self.file(pid, a) {
                    self.flushed(pid, file, a, call.number == libc::SYS_fdatasync);
                }
            }
            libc::SYS_sync | libc::SYS_syncfs => {
                self.compare_mapped(pid);
                self.ask_all(pid, false);
                self.record(pid, What::FlushAll);
            }
            libc::SYS_mmap => {
                let shared = d & (libc::MAP_SHARED | libc::MAP_SHARED_VALIDATE) as u64 != 0;
                if shared
                    && c & libc::PROT_WRITE as u64 != 0
                    && let Some(file) = self.file(pid, e)
                {
                    self.mapped.insert(file);
                }
            }
            libc::SYS_msync => self.mapping_flushed(pid, a, b, c),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_rename => self.renamed(pid, libc::AT_FDCWD as u64, a, libc::AT_FDCWD as u64, b, 0),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_link => self.linked(pid, libc::AT_FDCWD as u64, b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_unlink | libc::SYS_rmdir => self.unlinked(pid, libc::AT_FDCWD as u64, a),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mkdir => self.created_at(pid, libc::AT_FDCWD as u64, a),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_symlink => self.created_at(pid, libc::AT_FDCWD as u64, b),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_mknod => self.created_at(pid, libc::AT_FDCWD as u64, a),
            #[cfg(target_arch = "x86_64")]
            libc::SYS_renameat => self.renamed(pid, a, b, c, d, 0),
            libc::SYS_renameat2 => self.renamed(pid, a, b, c, d, e),
            libc::SYS_linkat => self.linked(pid, c, d),
            libc::SYS_unlinkat => self.unlinked(pid, a, b),
            libc::SYS_mkdirat | libc::SYS_mknodat => self.created_at(pid, a, b),
            libc::SYS_symlinkat => self.created_at(pid, b, c),
            _ => {}
        }
    }

    pub(crate) fn record(&self, pid: Pid, what: What) {
        self.recorder.lock().record(what, pid.as_raw().cast_unsigned());
    }

    pub(crate) fn find(&self, place: &Place) -> Option<FileId> {
        self.recorder.lock().tree.find(place)
    }

    /// The file of ours that a descriptor stands for.
    pub(crate) fn file(&self, pid: Pid, fd: u64) -> Option<FileId> {
        let meta = std::fs::metadata(format!("/proc/{pid}/fd/{}", fd as i32)).ok()?;
        let file = *self.files.get(&meta.ino())?;
        // Numbers are the file system's: the same elsewhere is another file.
        let ours = std::fs::metadata(&self.path).ok()?;
        (ours.dev() == meta.dev()).then_some(file)
    }

    fn memory(&self, pid: Pid, at: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut data = vec![0; bytes];
        let mut have = 0;
        while have < bytes {
            let remote = [RemoteIoVec { base: at as usize + have, len: bytes - have }];
            let count = process_vm_readv(pid, &mut [IoSliceMut::new(&mut data[have..])], &remote).ok()?;
            if count == 0 {
                return None;
            }
            have += count;
        }
        Some(data)
    }

    fn text(&self, pid: Pid, at: u64) -> Option<OsString> {
        let mut text = Vec::new();
        while text.len() < MOST_PATH {
            // To the end of the page: what comes behind it may not be there.
            let position = at as usize + text.len();
            let part =
                self.memory(pid, position as u64, (PAGE as usize - position % PAGE as usize).min(256))?;
            if let Some(end) = part.iter().position(|&byte| byte == 0) {
                text.extend_from_slice(&part[..end]);
                return Some(OsString::from_vec(text));
            }
            text.extend_from_slice(&part);
        }
        None
    }

    /// The name in our folder that a path of the program's means.
    pub(crate) fn place(&self, pid: Pid, folder: u64, path: u64) -> Option<Place> {
        let path = PathBuf::from(self.text(pid, path)?);
        let whole = if path.is_absolute() {
            path
        } else if folder as i32 == libc::AT_FDCWD {
            std::fs::read_link(format!("/proc/{pid}/cwd")).ok()?.join(path)
        } else {
            std::fs::read_link(format!("/proc/{pid}/fd/{}", folder as i32)).ok()?.join(path)
        };
        let name = whole.file_name()?.to_owned();
        let above = whole.parent()?.canonicalize().ok()?;
        let mut folder = ROOT;
        let state = self.recorder.lock();
        for part in above.strip_prefix(&self.path).ok()? {
            folder = state.tree.find(&Place { folder, name: part.to_owned() })?;
        }
        Some(Place { folder, name })
    }

    fn real(&self, state: &State, place: &Place) -> Option<PathBuf> {
        if place.folder == ROOT {
            return Some(self.path.join(&place.name));
        }
        let (path, _) = state.tree.walk().into_iter().find(|(_, file)| *file == place.folder)?;
        Some(self.path.join(path).join(&place.name))
    }

    fn opened(&mut self, pid: Pid, folder: u64, path: u64, flags: u64, mode: u64, fd: i64) {
        let flags = flags as i32;
        if flags & (libc::O_CREAT | libc::O_TRUNC) == 0 || flags & libc::O_TMPFILE == libc::O_TMPFILE {
            return;
        }
        let Some(place) = self.place(pid, folder, path) else { return };
        match self.find(&place) {
            None => self.create(pid, place, Kind::File, mode as u32),
            Some(_) if flags & libc::O_TRUNC != 0 => {
                let Some(file) = self.file(pid, fd as u64) else { return };
                let size = self.recorder.lock().tree.contents(file).map_or(0, |contents| contents.size());
                if size > 0 {
                    self.record(pid, What::Resize { file, size: 0 });
                }
            }
            Some(_) => {}
        }
    }

    fn create(&mut self, pid: Pid, place: Place, kind: Kind, mode: u32) {
        let mut state = self.recorder.lock();
        let Some(meta) = self.real(&state, &place).and_then(|path| std::fs::symlink_metadata(path).ok())
        else {
            return;
        };
        let mode = if kind == Kind::File { meta.mode() & 0o7777 } else { mode & 0o7777 };
        let file = state.tree.fresh();
        self.files.insert(meta.ino(), file);
        state.record(What::Create { place, file, kind, mode }, pid.as_raw().cast_unsigned());
    }

    fn created_at(&mut self, pid: Pid, folder: u64, path: u64) {
        let Some(place) = self.place(pid, folder, path) else { return };
        let real = self.real(&self.recorder.lock(), &place);
        let Some((meta, real)) = real.and_then(|path| Some((std::fs::symlink_metadata(&path).ok()?, path)))
        else {
            return;
        };
        let kind = if meta.is_dir() {
            Kind::Folder
        } else if meta.is_symlink() {
            Kind::Link(std::fs::read_link(real).unwrap_or_default())
        } else if meta.is_file() {
            Kind::File
        } else {
            return;
        };
        self.create(pid, place, kind, meta.mode());
    }

    fn linked(&mut self, pid: Pid, folder: u64, path: u64) {
        let Some(place) = self.place(pid, folder, path) else { return };
        let real = self.real(&self.recorder.lock(), &place);
        let file =
            real.and_then(|path| self.files.get(&std::fs::symlink_metadata(path).ok()?.ino()).copied());
        if let Some(file) = file {
            self.record(pid, What::Link { place, file });
        }
    }

    fn unlinked(&mut self, pid: Pid, folder: u64, path: u64) {
        if let Some(place) = self.place(pid, folder, path)
            && let Some(file) = self.find(&place)
        {
            self.record(pid, What::Unlink { place, file });
        }
    }

    fn renamed(&mut self, pid: Pid, from_folder: u64, from: u64, to_folder: u64, to: u64, flags: u64) {
        let (from, to) = (self.place(pid, from_folder, from), self.place(pid, to_folder, to));
        let exchange = flags & u64::from(libc::RENAME_EXCHANGE) != 0;
        match (from, to) {
            (Some(from), Some(to)) => {
                let (Some(file), over) = (self.find(&from), self.find(&to)) else { return };
                if over != Some(file) {
                    // What replaces a file has been given its place (auto_da_alloc).
                    let real = self.real(&self.recorder.lock(), &to);
                    self.ask_at(pid, file, real);
                    self.record(pid, What::Rename { from, to, file, over, exchange });
                }
            }
            // Out of our folder, or into it.
            (Some(place), None) => {
                if let Some(file) = self.find(&place) {
                    self.record(pid, What::Unlink { place, file });
                }
            }
            (None, Some(place)) => {
                if let Some(file) = self.find(&place) {
                    self.record(pid, What::Unlink { place: place.clone(), file });
                }
                let real = self.real(&self.recorder.lock(), &place);
                let Some(meta) = real.and_then(|path| std::fs::symlink_metadata(path).ok()) else { return };
                self.create(pid, place, Kind::File, meta.mode());
                if let Some(&file) = self.files.get(&meta.ino()) {
                    self.compare(file, pid.as_raw());
                }
            }
            (None, None) => {}
        }
    }

    /// Where a descriptor is in its file, and its flags.
    fn position(pid: Pid, fd: u64) -> Option<(u64, i32)> {
        let text = std::fs::read_to_string(format!("/proc/{pid}/fdinfo/{}", fd as i32)).ok()?;
        let field = |name: &str| text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
        Some((field("pos:")?.parse().ok()?, i32::from_str_radix(field("flags:")?, 8).ok()?))
    }

    fn written(&mut self, pid: Pid, call: &Call, offset: Option<u64>, bytes: u64) {
        let Some(file) = self.file(pid, call.args[0]) else { return };
        let Some((position, flags)) = Self::position(pid, call.args[0]) else { return };
        let is_append = flags & libc::O_APPEND != 0;
        let offset = match offset {
            // Of pwritev2, -1 is the position.
            Some(offset) if offset != u64::MAX && !is_append => offset,
            Some(_) if is_append => {
                self.recorder.lock().tree.contents(file).map_or(0, |contents| contents.size())
            }
            _ => position.saturating_sub(bytes),
        };
        let is_vector = matches!(call.number, libc::SYS_writev | libc::SYS_pwritev | libc::SYS_pwritev2);
        let data = if is_vector {
            self.gather(pid, call.args[1], call.args[2], bytes as usize)
        } else {
            self.memory(pid, call.args[1], bytes as usize)
        };
        let asked = call.number == libc::SYS_pwritev2
            && call.args[5] & (libc::RWF_DSYNC | libc::RWF_SYNC) as u64 != 0;
        let durable = asked || flags & (libc::O_SYNC | libc::O_DSYNC) != 0;
        if let Some(data) = data
            && bytes > 0
        {
            if durable {
                self.ask(pid, file, Some(call.args[0]));
            }
            self.record(pid, What::Write { file, offset, data: data.into(), durable });
        }
    }

    fn gather(&self, pid: Pid, vector: u64, count: u64, bytes: usize) -> Option<Vec<u8>> {
        let mut data = Vec::with_capacity(bytes);
        let parts = self.memory(pid, vector, count as usize * 16)?;
        for part in parts.chunks_exact(16) {
            let at = u64::from_ne_bytes(part[..8].try_into().ok()?);
            let length = u64::from_ne_bytes(part[8..].try_into().ok()?) as usize;
            data.extend(self.memory(pid, at, length.min(bytes - data.len()))?);
        }
        Some(data)
    }

    fn was_read(&mut self, pid: Pid, fd: u64, offset: Option<u64>, bytes: u64) {
        if bytes == 0 {
            return;
        }
        if let Some(file) = self.file(pid, fd) {
            let offset =
                offset.or_else(|| Some(Self::position(pid, fd)?.0.saturating_sub(bytes))).unwrap_or(0);
            self.record(pid, What::Read { file, offset, bytes });
        }
    }

    fn allocated(&mut self, pid: Pid, fd: u64, mode: u64, offset: u64, bytes: u64) {
        let Some(file) = self.file(pid, fd) else { return };
        let keeps = mode & KEEP_SIZE != 0;
        let zeros = mode & (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) as u64 != 0;
        let other =
            mode & !(KEEP_SIZE | (libc::FALLOC_FL_PUNCH_HOLE | libc::FALLOC_FL_ZERO_RANGE) as u64) != 0;
        if other {
            // Ranges that move within a file: what came of it is seen.
            return self.compare(file, pid.as_raw());
        }
        let what =
            if zeros { What::Zero { file, offset, bytes } } else { What::Allocate { file, offset, bytes } };
        self.record(pid, what);
        self.ask(pid, file, Some(fd));
        let size = self.recorder.lock().tree.contents(file).map_or(0, |contents| contents.size());
        if !keeps && offset + bytes > size {
            self.record(pid, What::Resize { file, size: offset + bytes });
        }
    }

    fn flushed(&mut self, pid: Pid, file: FileId, fd: u64, data_only: bool) {
        let is_folder = self.recorder.lock().tree.entries(file).is_some();
        if is_folder {
            return self.record(pid, What::FlushFolder { folder: file });
        }
        if self.mapped.contains(&file) {
            self.compare(file, pid.as_raw());
        }
        self.ask(pid, file, Some(fd));
        self.record(pid, What::Flush { file, data_only });
    }

    fn mapping_flushed(&mut self, pid: Pid, at: u64, bytes: u64, flags: u64) {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap_or_default();
        for line in maps.lines() {
            let mut fields = line.split_whitespace();
            let range = fields.next().and_then(|range| {
                let (from, to) = range.split_once('-')?;
                Some(u64::from_str_radix(from, 16).ok()?..u64::from_str_radix(to, 16).ok()?)
            });
            let number = fields.nth(3).and_then(|text| text.parse().ok());
            let (Some(range), Some(file)) = (range, number.and_then(|n: u64| self.files.get(&n).copied()))
            else {
                continue;
            };
            if range.start < at + bytes && at < range.end && self.mapped.contains(&file) {
                self.compare(file, pid.as_raw());
                if flags & libc::MS_SYNC as u64 != 0 {
                    self.ask(pid, file, None);
                    self.record(pid, What::Flush { file, data_only: true });
                }
            }
        }
    }

    fn compare_fd(&mut self, pid: Pid, fd: u64) {
        if let Some(file) = self.file(pid, fd) {
            self.compare(file, pid.as_raw());
        }
    }

    /// Enters what a file holds and the recorder does not know, page by page.
    fn compare(&self, file: FileId, process: i32) {
        let mut state = self.recorder.lock();
        let path = state.tree.walk().into_iter().find(|(_, other)| *other == file).map(|(path, _)| path);
        let Some(real) = path.and_then(|path| std::fs::File::open(self.path.join(path)).ok()) else { return };
        let Ok(size) = real.metadata().map(|meta| meta.len()) else { return };
        let mut found: Vec<(u64, Vec<u8>)> = Vec::new();
        let Some(known) = state.tree.contents(file) else { return };
        let resized = (known.size() != size).then_some(size);
        let mut page = [0; PAGE as usize];
        for index in 0..size.div_ceil(PAGE) {
            let count = PAGE.min(size - index * PAGE) as usize;
            if real.read_exact_at(&mut page[..count], index * PAGE).is_err() {
                break;
            }
            let mut old = known.read(index * PAGE, count as u64);
            old.resize(count, 0);
            if old != page[..count] {
                found.push((index * PAGE, page[..count].to_vec()));
            }
        }
        let process = process.cast_unsigned();
        if let Some(size) = resized {
            state.record(What::Resize { file, size }, process);
        }
        for (offset, data) in found {
            state.record(What::Write { file, offset, data: data.into(), durable: false }, process);
        }
    }
}
