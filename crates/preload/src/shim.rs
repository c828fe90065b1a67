//! What the drive is told, and what was counted.

use std::cell::Cell;
use std::collections::HashMap;
use std::ffi::{c_char, c_int};
use std::fmt;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::PathBuf;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};
use std::sync::{Mutex, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use libc::{off64_t, size_t};
use nandle_host::drive::{Refusal, ranges};
use nandle_host::extents::device_of;
use nandle_host::{Drive, Extent, Place};
use nandle_io::Status;

use crate::errno;
use crate::settings::{Debug, Settings};

/// How long the program is kept waiting for a drive that does not answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// A drive that could not be reached is tried again after this long, then twice as long...
const PAUSE: Duration = Duration::from_millis(500);
/// ... up to this long.
const MOST_PAUSE: Duration = Duration::from_secs(60);

/// No smaller than a block of any of the file systems.
const BLOCK: u64 = 1 << 16;

static SETTINGS: OnceLock<Settings> = OnceLock::new();
/// The state of the process that has its number in it; a forked child makes its own, for the connection
/// and the locks in this one are its parent's.
static STATE: AtomicPtr<State> = AtomicPtr::new(std::ptr::null_mut());

thread_local! {
    /// A signal handler that comes in the midst of our work goes straight to the system.
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

struct State {
    process: u32,
    place: OnceLock<Option<Place>>,
    link: Mutex<Link>,
    counts: Counts,
}

#[derive(Default)]
struct Link {
    drive: Option<Drive>,
    not_before: Option<Instant>,
    pause: Duration,
    /// Cyclic regions, by file and number: bytes written since the region was made an object.
    cycles: HashMap<(u64, usize), u64>,
}

#[derive(Default)]
struct Counts {
    objects: AtomicU64,
    ranges: AtomicU64,
    bytes: AtomicU64,
    ended: AtomicU64,
    trims: AtomicU64,
    trimmed: AtomicU64,
    overlaps: AtomicU64,
    no_blocks: AtomicU64,
    errors: AtomicU64,
}

fn add(count: &AtomicU64, n: u64) {
    count.fetch_add(n, Ordering::Relaxed);
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let n = |count: &AtomicU64| count.load(Ordering::Relaxed);
        write!(f, "{} objects in {} ranges, {} bytes; ", n(&self.objects), n(&self.ranges), n(&self.bytes))?;
        write!(f, "{} ended early; ", n(&self.ended))?;
        write!(f, "{} trims, {} bytes; ", n(&self.trims), n(&self.trimmed))?;
        write!(f, "refused: {} overlaps, {} without clean blocks; ", n(&self.overlaps), n(&self.no_blocks))?;
        write!(f, "{} errors", n(&self.errors))
    }
}

/// Reads the settings; whether there is anything to do.
pub(crate) fn begin() -> bool {
    match Settings::read(|name| std::env::var_os(name)) {
        Ok(None) => false,
        Ok(Some(settings)) => SETTINGS.set(settings).is_ok(),
        Err(what) => {
            // The user asked for it, and would wait for it in vain.
            let _ = writeln!(io::stderr(), "nandle-preload: {what}; the program runs without");
            false
        }
    }
}

/// Says what was done, if it was asked for and anything was.
pub(crate) fn end() {
    let Some(settings) = SETTINGS.get() else { return };
    let state = STATE.load(Ordering::Acquire);
    #[allow(unsafe_code)]
    // SAFETY: null, or leaked by `state`.
    let Some(state) = (unsafe { state.as_ref() }) else { return };
    if state.process == std::process::id() {
        settings.say(&state.counts.to_string());
    }
}

impl Settings {
    fn say(&self, what: &str) {
        let line = format!("nandle-preload[{}]: {what}\n", std::process::id());
        let _ = match &self.debug {
            Debug::Off => Ok(()),
            Debug::Stderr => io::stderr().write_all(line.as_bytes()),
            Debug::File(path) => std::fs::OpenOptions::new()
                .append(true)
                .create(true)
                .open(path)
                .and_then(|mut file| file.write_all(line.as_bytes())),
        };
    }
}

#[allow(unsafe_code)]
fn state() -> &'static State {
    let process = std::process::id();
    let old = STATE.load(Ordering::Acquire);
    // SAFETY: null, or leaked below and never freed.
    if let Some(state) = unsafe { old.as_ref() }
        && state.process == process
    {
        return state;
    }
    let new = Box::into_raw(Box::new(State {
        process,
        place: OnceLock::new(),
        link: Mutex::default(),
        counts: Counts::default(),
    }));
    match STATE.compare_exchange(old, new, Ordering::AcqRel, Ordering::Acquire) {
        // SAFETY: just made, and never freed from here on.
        Ok(_) => unsafe { &*new },
        Err(other) => {
            // SAFETY: `new` was seen by nobody; `other` was leaked by a thread of this process.
            unsafe {
                drop(Box::from_raw(new));
                &*other
            }
        }
    }
}

/// Runs `work` with `errno` as it was, unless this thread is in here already. A panic ends here.
#[allow(unsafe_code)]
fn aside(work: impl FnOnce(&'static Settings, &'static State)) {
    let Some(settings) = SETTINGS.get() else { return };
    if INSIDE.try_with(|inside| inside.replace(true)).unwrap_or(true) {
        return;
    }
    // SAFETY: this thread's own.
    let before = unsafe { *errno() };
    let state = state();
    if std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| work(settings, state))).is_err() {
        add(&state.counts.errors, 1);
    }
    // SAFETY: this thread's own.
    unsafe {
        *errno() = before;
    }
    let _ = INSIDE.try_with(|inside| inside.set(false));
}

impl State {
    fn failed(&self, settings: &Settings, what: &str, why: &dyn fmt::Display) {
        add(&self.counts.errors, 1);
        settings.say(&format!("{what}: {why}"));
    }

    /// Where the drive's file system is; none if it is not there, which is said once.
    fn place(&self, settings: &Settings) -> Option<Place> {
        *self.place.get_or_init(|| {
            let found =
                std::fs::File::open(&settings.fs).and_then(|fs| Place::of(fs.as_fd(), settings.offset));
            found.map_err(|e| self.failed(settings, &settings.fs.display().to_string(), &e)).ok()
        })
    }

    /// The path of an open file on the drive that the settings ask for.
    fn wanted(&self, settings: &Settings, file: BorrowedFd<'_>) -> Option<(Place, PathBuf)> {
        let place = self.place(settings)?;
        let here = device_of(file).ok().flatten() == Some(place.device);
        if !here {
            return None;
        }
        let path = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd())).ok()?;
        Some((place, path))
    }

    /// Has `ask` speak to the drive; what it says is counted.
    fn ask(
        &self,
        settings: &Settings,
        link: &mut Link,
        path: &std::path::Path,
        ask: impl FnOnce(&mut Drive) -> Result<(), Refusal>,
    ) -> bool {
        if link.drive.is_none() {
            if link.not_before.is_some_and(|at| Instant::now() < at) {
                add(&self.counts.errors, 1);
                return false;
            }
            match Drive::connect(settings.to, Some(PATIENCE)) {
                Ok(drive) => link.drive = Some(drive),
                Err(e) => {
                    self.pause(settings, link, &e);
                    return false;
                }
            }
        }
        let Some(drive) = &mut link.drive else { return false };
        match ask(drive) {
            Ok(()) => {
                link.pause = Duration::ZERO;
                true
            }
            Err(Refusal::Io(e)) => {
                // What came of the command nobody knows: a connection in the midst of one is of no use.
                self.pause(settings, link, &e);
                false
            }
            Err(Refusal::Drive(Status::Overlap)) => {
                add(&self.counts.overlaps, 1);
                false
            }
            Err(Refusal::Drive(Status::NoCleanBlocks)) => {
                add(&self.counts.no_blocks, 1);
                false
            }
            Err(other) => {
                self.failed(settings, &path.display().to_string(), &other);
                false
            }
        }
    }

    fn pause(&self, settings: &Settings, link: &mut Link, why: &io::Error) {
        self.failed(settings, &settings.to.to_string(), why);
        link.drive = None;
        link.pause = (link.pause * 2).clamp(PAUSE, MOST_PAUSE);
        link.not_before = Some(Instant::now() + link.pause);
    }

    fn link(&self) -> std::sync::MutexGuard<'_, Link> {
        self.link.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn made(&self, extents: &[Extent]) {
        add(&self.counts.objects, 1);
        add(&self.counts.ranges, extents.len() as u64);
        add(&self.counts.bytes, extents.iter().map(|e| e.bytes).sum());
    }

    fn trim(&self, settings: &Settings, path: &std::path::Path, extents: &[Extent]) {
        if !extents.is_empty()
            && self.ask(settings, &mut self.link(), path, |drive| drive.trim(&ranges(extents)))
        {
            add(&self.counts.trims, 1);
            add(&self.counts.trimmed, extents.iter().map(|e| e.bytes).sum());
        }
    }
}

fn open_file<'a>(fd: c_int) -> Option<BorrowedFd<'a>> {
    #[allow(unsafe_code)]
    // SAFETY: the caller's descriptor; if it is none the system says so when it is used.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// Room was allocated (if `result` is 0): what of it was never written becomes an object.
pub(crate) fn allocated(result: c_int, fd: c_int, mode: c_int, offset: off64_t, bytes: off64_t) -> c_int {
    let plain = mode & !libc::FALLOC_FL_KEEP_SIZE == 0;
    if result == 0 && plain {
        aside(|settings, state| {
            let (Some(file), Ok(offset), Ok(bytes)) =
                (open_file(fd), u64::try_from(offset), u64::try_from(bytes))
            else {
                return;
            };
            if bytes < settings.min {
                return;
            }
            let Some((place, path)) = state.wanted(settings, file) else { return };
            if !settings.wants(&path) {
                return;
            }
            let mut extents = match place.extents(file, offset, bytes) {
                Ok(extents) => extents,
                Err(e) => return state.failed(settings, &path.display().to_string(), &e),
            };
            // What was written before is in pages of its own already.
            extents.retain(|e| e.unwritten);
            if extents.is_empty() {
                return;
            }
            // The file system may have given out again what it has not discarded yet.
            let ask = |drive: &mut Drive| drive.flashalloc_anew(&ranges(&extents));
            if state.ask(settings, &mut state.link(), &path, ask) {
                state.made(&extents);
            }
        });
    }
    result
}

/// A file is about to be cut: if it gives back room that it never wrote it has turned out shorter than it was
/// allocated, and its object ends. That room is trimmed if the settings say so. (What was written is not: it
/// may be another's before the cut returns.)
pub(crate) fn truncating(fd: c_int, size: off64_t) {
    aside(|settings, state| {
        let (Some(file), Ok(size)) = (open_file(fd), u64::try_from(size)) else { return };
        let Some((place, path)) = state.wanted(settings, file) else { return };
        if !settings.wants(&path) || !is_writable(fd) {
            return;
        }
        // The last block stays, in part.
        let from = size.next_multiple_of(BLOCK);
        match place.extents(file, from, u64::MAX - from) {
            Ok(mut extents) => {
                extents.retain(|e| e.unwritten);
                let free = |drive: &mut Drive| drive.flashfree(&ranges(&extents));
                if !extents.is_empty() && state.ask(settings, &mut state.link(), &path, free) {
                    add(&state.counts.ended, 1);
                }
                if settings.trim {
                    state.trim(settings, &path, &extents);
                }
            }
            Err(e) => state.failed(settings, &path.display().to_string(), &e),
        }
    });
}

#[allow(unsafe_code)]
fn is_writable(fd: c_int) -> bool {
    // SAFETY: asks for flags, nothing else.
    let flags = unsafe { libc::fcntl(fd, libc::F_GETFL) };
    flags >= 0 && flags & libc::O_ACCMODE != libc::O_RDONLY
}

/// A name is about to go. If it was the file's last and nobody has the file open, its blocks are trimmed
/// while we still hold them, so that they cannot be another's yet.
pub(crate) fn unlinking(folder: c_int, path: *const c_char, flags: c_int, real: impl Fn() -> c_int) -> c_int {
    let trims = SETTINGS.get().is_some_and(|settings| settings.trim);
    if !trims || flags & libc::AT_REMOVEDIR != 0 {
        return real();
    }
    let mut held = None;
    aside(|settings, state| {
        let flags = libc::O_RDONLY | libc::O_NONBLOCK | libc::O_NOFOLLOW | libc::O_CLOEXEC;
        #[allow(unsafe_code)]
        // SAFETY: the path is the caller's, and the new descriptor ours alone.
        let file = unsafe {
            let fd = libc::openat(folder, path, flags);
            if fd < 0 {
                return;
            }
            OwnedFd::from_raw_fd(fd)
        };
        let Some((place, path)) = state.wanted(settings, file.as_fd()) else { return };
        if settings.wants(&path)
            && let Ok(extents) = place.extents(file.as_fd(), 0, u64::MAX)
        {
            held = Some((file, path, extents));
        }
    });
    let result = real();
    if let Some((file, path, extents)) = held {
        aside(|settings, state| {
            if result == 0 && is_ours_alone(&file) {
                state.trim(settings, &path, &extents);
            }
            drop(file);
        });
    }
    result
}

/// Whether a file has no name any more, on the disk too, and no other opener: only then is a write
/// lease to be had. Nobody can open it any more, so the lease is never broken.
#[allow(unsafe_code)]
fn is_ours_alone(file: &OwnedFd) -> bool {
    let fd = file.as_raw_fd();
    // SAFETY: plain calls on our own descriptor; `stat` has room for the structure.
    unsafe {
        let mut stat = std::mem::zeroed::<libc::stat64>();
        libc::fstat64(fd, &raw mut stat) == 0
            && stat.st_nlink == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_WRLCK) == 0
            && libc::fcntl(fd, libc::F_SETLEASE, libc::F_UNLCK) == 0
            && libc::fsync(fd) == 0
    }
}

/// A write is about to be made. At the beginning of a cyclic region whose object is used up the region is
/// trimmed and becomes a new object.
pub(crate) fn writing(fd: c_int, offset: off64_t, bytes: size_t) {
    if SETTINGS.get().is_none_or(|settings| settings.cyclic.is_empty()) {
        return;
    }
    aside(|settings, state| {
        let (Some(file), Ok(offset)) = (open_file(fd), u64::try_from(offset)) else { return };
        let within = |c: &crate::settings::Cyclic| offset >= c.offset && offset < c.offset + c.bytes;
        if !settings.cyclic.iter().any(within) {
            return;
        }
        let Some((place, path)) = state.wanted(settings, file) else { return };
        let fits = |c: &crate::settings::Cyclic| within(c) && c.files.fits(&path);
        let Some(number) = settings.cyclic.iter().position(fits) else { return };
        let region = &settings.cyclic[number];
        let key = (inode(fd), number);
        let mut link = state.link();
        let used = link.cycles.get(&key).copied();
        let begins = offset == region.offset && used.is_none_or(|n| n + bytes as u64 > region.bytes);
        let mut used = used.unwrap_or(0);
        if begins {
            used = 0;
            let extents = match place.extents(file, region.offset, region.bytes) {
                Ok(extents) => extents,
                Err(e) => return state.failed(settings, &path.display().to_string(), &e),
            };
            let ranges = ranges(&extents);
            if state.ask(settings, &mut link, &path, |drive| {
                drive.trim(&ranges)?;
                drive.flashalloc(&ranges)
            }) {
                state.made(&extents);
                add(&state.counts.trims, 1);
                add(&state.counts.trimmed, ranges.iter().map(|r| r.1).sum());
            }
        }
        link.cycles.insert(key, used + bytes as u64);
    });
}

#[allow(unsafe_code)]
fn inode(fd: c_int) -> u64 {
    // SAFETY: `stat` has room for the structure, which is plain data.
    unsafe {
        let mut stat = std::mem::zeroed::<libc::stat64>();
        if libc::fstat64(fd, &raw mut stat) == 0 { stat.st_ino } else { 0 }
    }
}
