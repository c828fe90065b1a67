//! `libnandle_preload.so`: FlashAlloc for programs that know nothing of it.
//!
//! With `LD_PRELOAD`, a `fallocate` or `posix_fallocate` of a regular file is carried out as always;
//! then FIEMAP says where the file got its room, and the drive is told that this is one object
//! (Park et al., PVLDB 16(11), 2023, section 5: what RocksDB was changed for). Settings are environment
//! variables (`settings.rs`); without `NANDLE_TO` nothing is done at all.
//!
//! Whatever fails is counted and leaves the program alone: its calls return what the system said,
//! `errno` included. A process that was forked makes its own connection.
#![cfg(target_os = "linux")]

mod settings;
mod shim;

use std::ffi::{CStr, c_char, c_int, c_void};
use std::sync::atomic::{AtomicPtr, Ordering};

use libc::{off64_t, size_t, ssize_t};

/// The next definition of a function after ours, looked up once.
struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

impl Real {
    const fn new(name: &'static CStr) -> Self {
        Self { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    #[allow(unsafe_code)]
    fn get(&self) -> *mut c_void {
        let mut found = self.found.load(Ordering::Relaxed);
        if found.is_null() {
            // SAFETY: a name that ends with a zero.
            found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
            self.found.store(found, Ordering::Relaxed);
        }
        found
    }
}

#[allow(unsafe_code)]
fn errno() -> *mut c_int {
    // SAFETY: always the address of this thread's own.
    unsafe { libc::__errno_location() }
}

/// Defines functions under the names of the C library's: `real` calls the one that was meant.
macro_rules! interpose {
    ($($names:literal fn $name:ident($($arg:ident: $type:ty),*) -> $result:ty, $missing:expr, |$real:ident| $body:expr;)*) => {$(
        #[doc = concat!("`", stringify!($name), "` of the C library, and what the drive is told of it.")]
        ///
        /// # Safety
        /// As of the C library's.
        #[allow(unsafe_code, clippy::missing_safety_doc)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $result {
            static REAL: Real = Real::new($names);
            let found = REAL.get();
            let $real = || -> $result {
                if found.is_null() {
                    return $missing;
                }
                // SAFETY: the C library's function of this name has this type, and the caller keeps its contract.
                unsafe {
                    let call: unsafe extern "C" fn($($type),*) -> $result = std::mem::transmute(found);
                    call($($arg),*)
                }
            };
            $body
        }
    )*};
}

fn no_such_call() -> c_int {
    #[allow(unsafe_code)]
    // SAFETY: this thread's own.
    unsafe {
        *errno() = libc::ENOSYS;
    }
    -1
}

interpose! {
    c"fallocate" fn fallocate(fd: c_int, mode: c_int, offset: off64_t, bytes: off64_t) -> c_int, no_such_call(),
        |real| shim::allocated(real(), fd, mode, offset, bytes);
    c"fallocate64" fn fallocate64(fd: c_int, mode: c_int, offset: off64_t, bytes: off64_t) -> c_int, no_such_call(),
        |real| shim::allocated(real(), fd, mode, offset, bytes);
    c"posix_fallocate" fn posix_fallocate(fd: c_int, offset: off64_t, bytes: off64_t) -> c_int, libc::ENOSYS,
        |real| shim::allocated(real(), fd, 0, offset, bytes);
    c"posix_fallocate64" fn posix_fallocate64(fd: c_int, offset: off64_t, bytes: off64_t) -> c_int, libc::ENOSYS,
        |real| shim::allocated(real(), fd, 0, offset, bytes);
    c"ftruncate" fn ftruncate(fd: c_int, size: off64_t) -> c_int, no_such_call(),
        |real| { shim::truncating(fd, size); real() };
    c"ftruncate64" fn ftruncate64(fd: c_int, size: off64_t) -> c_int, no_such_call(),
        |real| { shim::truncating(fd, size); real() };
    c"unlink" fn unlink(path: *const c_char) -> c_int, no_such_call(),
        |real| shim::unlinking(libc::AT_FDCWD, path, 0, real);
    c"unlinkat" fn unlinkat(folder: c_int, path: *const c_char, flags: c_int) -> c_int, no_such_call(),
        |real| shim::unlinking(folder, path, flags, real);
    c"pwrite" fn pwrite(fd: c_int, data: *const c_void, bytes: size_t, offset: off64_t) -> ssize_t, no_such_call() as ssize_t,
        |real| { shim::writing(fd, offset, bytes); real() };
    c"pwrite64" fn pwrite64(fd: c_int, data: *const c_void, bytes: size_t, offset: off64_t) -> ssize_t, no_such_call() as ssize_t,
        |real| { shim::writing(fd, offset, bytes); real() };
}

/// Run by the dynamic linker before the program: settings are read while there is one thread.
#[allow(unsafe_code)]
#[used]
#[unsafe(link_section = ".init_array")]
static BEGIN: extern "C" fn() = {
    extern "C" fn begin() {
        if shim::begin() {
            extern "C" fn end() {
                shim::end();
            }
            // SAFETY: a function without arguments that may be called at any time.
            unsafe {
                libc::atexit(end);
            }
        }
    }
    begin
};
