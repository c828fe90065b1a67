//! `libnandle`, the C library: see `include/nandle.h`, which is its documentation.

use std::ffi::{CStr, c_char, c_int};
use std::os::fd::BorrowedFd;
use std::panic::{AssertUnwindSafe, catch_unwind};

use nandle_host::drive::ranges;
use nandle_host::{Address, Drive, Place, Refusal};
use nandle_io::Status;

const OTHER: c_int = -7;
const EIO: c_int = -8;
const EINVAL: c_int = -9;

/// `nandle_range`
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Range {
    offset: u64,
    length: u64,
}

fn number(refusal: &Refusal) -> c_int {
    match refusal {
        Refusal::Drive(status) => status_number(*status),
        Refusal::Nothing => -6,
        Refusal::Other(_) => OTHER,
        Refusal::Io(_) => EIO,
    }
}

/// What `nandle.h` calls each end of a command.
fn status_number(status: Status) -> c_int {
    match status {
        Status::Ok => 0,
        Status::Overlap => -1,
        Status::NoCleanBlocks => -2,
        Status::Unsupported => -3,
        Status::OutOfRange => -4,
        Status::TooManyRanges => -5,
        Status::ReadOnly | Status::MediaError => OTHER,
    }
}

/// No panic goes through C; its result is that of a failure.
fn guarded<T>(otherwise: T, work: impl FnOnce() -> T) -> T {
    catch_unwind(AssertUnwindSafe(work)).unwrap_or(otherwise)
}

fn code(result: Result<(), Refusal>) -> c_int {
    result.map_or_else(|refusal| number(&refusal), |()| 0)
}

/// `nandle_open`
///
/// # Safety
/// `address` is null or a string that ends with a zero.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandle_open(address: *const c_char) -> *mut Drive {
    if address.is_null() {
        return std::ptr::null_mut();
    }
    // SAFETY: the caller's promise.
    let text = unsafe { CStr::from_ptr(address) };
    guarded(std::ptr::null_mut(), || {
        let at = text.to_str().ok().and_then(|text| text.parse::<Address>().ok());
        let drive = at.and_then(|at| Drive::connect(at, None).ok());
        drive.map_or(std::ptr::null_mut(), |drive| Box::into_raw(Box::new(drive)))
    })
}

/// `nandle_close`
///
/// # Safety
/// `drive` is null or came from `nandle_open`, and is not used any more.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandle_close(drive: *mut Drive) {
    if !drive.is_null() {
        // SAFETY: the caller's promise.
        let drive = unsafe { Box::from_raw(drive) };
        guarded((), || drop(drive));
    }
}

/// `nandle_block_bytes`
///
/// # Safety
/// `drive` is null or came from `nandle_open`.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandle_block_bytes(drive: *const Drive) -> u32 {
    // SAFETY: the caller's promise.
    unsafe { drive.as_ref() }.map_or(0, |drive| drive.block_bytes() as u32)
}

/// The caller's drive and ranges; none if a pointer is null.
#[allow(unsafe_code)]
unsafe fn given<'a>(
    drive: *mut Drive,
    list: *const Range,
    count: usize,
) -> Option<(&'a mut Drive, Vec<(u64, u64)>)> {
    if list.is_null() && count > 0 {
        return None;
    }
    // SAFETY: the caller's promise; an empty list needs no place.
    let (drive, list) = unsafe {
        let list = if count == 0 { &[] } else { std::slice::from_raw_parts(list, count) };
        (drive.as_mut()?, list)
    };
    Some((drive, list.iter().map(|range| (range.offset, range.length)).collect()))
}

/// `nandle_flashalloc`
///
/// # Safety
/// `drive` came from `nandle_open`, `list` has `count` ranges.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandle_flashalloc(drive: *mut Drive, list: *const Range, count: usize) -> c_int {
    // SAFETY: the caller's promise.
    let Some((drive, ranges)) = (unsafe { given(drive, list, count) }) else { return EINVAL };
    guarded(EIO, || code(drive.flashalloc(&ranges)))
}

/// `nandle_trim`
///
/// # Safety
/// As of `nandle_flashalloc`.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandle_trim(drive: *mut Drive, list: *const Range, count: usize) -> c_int {
    // SAFETY: the caller's promise.
    let Some((drive, ranges)) = (unsafe { given(drive, list, count) }) else { return EINVAL };
    guarded(EIO, || code(drive.trim(&ranges)))
}

/// `nandle_objects`
///
/// # Safety
/// `drive` is null or came from `nandle_open`.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandle_objects(drive: *mut Drive) -> i64 {
    // SAFETY: the caller's promise.
    let Some(drive) = (unsafe { drive.as_mut() }) else { return i64::from(EINVAL) };
    guarded(i64::from(EIO), || drive.instances().map_or(i64::from(EIO), i64::from))
}

/// Descriptor 0 and up; the system says whether it is one.
#[allow(unsafe_code)]
fn file<'a>(fd: c_int) -> Option<BorrowedFd<'a>> {
    // SAFETY: the caller's descriptor stays open through the call.
    (fd >= 0).then(|| unsafe { BorrowedFd::borrow_raw(fd) })
}

/// `nandle_extents`
///
/// # Safety
/// `list` has room for `most` ranges.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandle_extents(
    fd: c_int,
    start: u64,
    bytes: u64,
    list: *mut Range,
    most: usize,
) -> i64 {
    let Some(file) = file(fd).filter(|_| most == 0 || !list.is_null()) else { return i64::from(EINVAL) };
    guarded(i64::from(EIO), || {
        let Ok(found) = Place::of(file, None).and_then(|place| place.extents(file, start, bytes)) else {
            return i64::from(EIO);
        };
        for (n, (offset, length)) in ranges(&found).into_iter().take(most).enumerate() {
            // SAFETY: within the caller's room.
            unsafe { list.add(n).write(Range { offset, length }) };
        }
        found.len() as i64
    })
}

/// `nandle_flashalloc_fd`
///
/// # Safety
/// `drive` came from `nandle_open`.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub unsafe extern "C" fn nandle_flashalloc_fd(drive: *mut Drive, fd: c_int, start: u64, bytes: u64) -> i64 {
    // SAFETY: the caller's promise.
    let (Some(drive), Some(file)) = (unsafe { drive.as_mut() }, file(fd)) else { return i64::from(EINVAL) };
    guarded(i64::from(EIO), || {
        let made = Place::of(file, None)
            .map_err(Refusal::from)
            .and_then(|place| drive.flashalloc_file(&place, file, start, bytes));
        made.map_or_else(|refusal| i64::from(number(&refusal)), |extents| extents.len() as i64)
    })
}

/// `nandle_error`
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
pub extern "C" fn nandle_error(error: i64) -> *const c_char {
    let text = match error {
        0.. => c"no error",
        -1 => c"an object has some of the blocks already",
        -2 => c"the drive has no clean blocks for it",
        -3 => c"the drive's stream policy is not flashalloc",
        -4 => c"a range reaches beyond the end of the drive",
        -5 => c"more ranges than the drive takes",
        -6 => c"no whole logical block was named",
        -7 => c"the drive answered with another status",
        -8 => c"the connection, the file or its file system failed",
        -9 => c"a null pointer, or text that makes no sense",
        _ => c"no such error",
    };
    text.as_ptr()
}
