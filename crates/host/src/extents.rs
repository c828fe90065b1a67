//! Where on the drive a file lies.
//!
//! FIEMAP (Linux, `Documentation/filesystems/fiemap.rst`) tells the file's ranges on the block device
//! of its file system; sysfs tells where that device begins on the drive if it is a partition or a
//! loop device with an offset. Only file systems on one device whose FIEMAP means that device are
//! taken: ext2 to ext4, xfs and f2fs.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::path::PathBuf;

/// A range of a file and its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First byte in the file.
    pub logical: u64,
    /// First byte on the block device of the file system ([`extents`]) or on the drive
    /// ([`Place::extents`]).
    pub physical: u64,
    /// Bytes.
    pub bytes: u64,
    /// It was allocated, but never written.
    pub unwritten: bool,
}

/// Where a file system begins on the drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// The block device of the file system (`st_dev` of its files).
    pub device: u64,
    /// First byte of that device on the drive.
    pub offset: u64,
}

/// `FS_IOC_FIEMAP`: `_IOWR('f', 11, struct fiemap)`.
const FIEMAP: libc::c_ulong = 0xc020_660b;
/// Extents asked for at a time.
const BATCH: usize = 128;
/// More extents than this are those of a file that is no object.
const MOST: usize = 1 << 16;

/// Flags of extents.
mod flag {
    pub const LAST: u32 = 0x1;
    pub const UNWRITTEN: u32 = 0x800;
    /// What has no place of its own on the device: unknown, delayed, encoded, encrypted, not aligned,
    /// inline, tail, shared.
    pub const ELSEWHERE: u32 = 0x2 | 0x4 | 0x8 | 0x80 | 0x100 | 0x200 | 0x400 | 0x2000;
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct RawExtent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved64: [u64; 2],
    flags: u32,
    reserved: [u32; 3],
}

#[repr(C)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extents: [RawExtent; BATCH],
}

/// The parts of `bytes` bytes from `start` of a file that have a place on its block device, in the
/// file's order; neighbours on the device are one.
///
/// # Errors
/// If the file system does not say (tmpfs, overlayfs, a pipe), or the file is in too many pieces.
pub fn extents(file: BorrowedFd<'_>, start: u64, bytes: u64) -> io::Result<Vec<Extent>> {
    let end = start.saturating_add(bytes);
    let mut found: Vec<Extent> = Vec::new();
    let mut request = Box::new(Request {
        start,
        length: end - start,
        flags: 0,
        mapped: 0,
        count: BATCH as u32,
        reserved: 0,
        extents: [RawExtent::default(); BATCH],
    });
    while request.start < end {
        request.length = end - request.start;
        request.mapped = 0;
        #[allow(unsafe_code)]
        // SAFETY: the request is a `struct fiemap` with room for `count` extents, and lives through the call.
        let result = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut *request) };
        if result < 0 {
            let e = io::Error::last_os_error();
            if e.kind() == io::ErrorKind::Interrupted {
                continue;
            }
            return Err(e);
        }
        let mapped = &request.extents[..(request.mapped as usize).min(BATCH)];
        let Some(last) = mapped.last() else { break };
        for raw in mapped {
            add(&mut found, raw, start, end);
        }
        if found.len() > MOST {
            return Err(io::Error::other(format!("a file in more than {MOST} pieces")));
        }
        let next = last.logical.saturating_add(last.length);
        if last.flags & flag::LAST != 0 || next <= request.start {
            break;
        }
        request.start = next;
    }
    Ok(found)
}

/// What of an extent lies between `start` and `end` of the file.
fn add(found: &mut Vec<Extent>, raw: &RawExtent, start: u64, end: u64) {
    if raw.flags & flag::ELSEWHERE != 0 {
        return;
    }
    let (from, to) = (raw.logical.max(start), raw.logical.saturating_add(raw.length).min(end));
    if from >= to {
        return;
    }
    let new = Extent {
        logical: from,
        physical: raw.physical.saturating_add(from - raw.logical),
        bytes: to - from,
        unwritten: raw.flags & flag::UNWRITTEN != 0,
    };
    if let Some(old) = found.last_mut()
        && old.logical + old.bytes == new.logical
        && old.physical + old.bytes == new.physical
        && old.unwritten == new.unwritten
    {
        old.bytes += new.bytes;
    } else {
        found.push(new);
    }
}

/// `st_dev` of an open file; none if it is no regular file.
///
/// # Errors
/// If the system does not say.
pub fn device_of(file: BorrowedFd<'_>) -> io::Result<Option<u64>> {
    Ok(stat(file)?.filter(|s| s.st_mode & libc::S_IFMT == libc::S_IFREG).map(|s| s.st_dev))
}

#[allow(unsafe_code)]
fn stat(file: BorrowedFd<'_>) -> io::Result<Option<libc::stat64>> {
    let mut stat = std::mem::MaybeUninit::<libc::stat64>::zeroed();
    // SAFETY: `stat` has room for the structure, which is plain data: zeros are a value of it.
    let (result, stat) = unsafe { (libc::fstat64(file.as_raw_fd(), stat.as_mut_ptr()), stat.assume_init()) };
    if result == 0 { Ok(Some(stat)) } else { Err(io::Error::last_os_error()) }
}

impl Place {
    /// The place of the file system that `file` (a file or directory) is on. `offset` says where its
    /// device begins on the drive; without it sysfs is asked.
    ///
    /// # Errors
    /// If it is none of those whose FIEMAP means one block device, or sysfs cannot be read.
    pub fn of(file: BorrowedFd<'_>, offset: Option<u64>) -> io::Result<Self> {
        let kind = file_system(file)?;
        if ![0xef53, 0x5846_5342, 0xf2f5_2010].contains(&kind) {
            return Err(io::Error::other(format!(
                "a file system of type {kind:#x}: expected ext2, ext3, ext4, xfs or f2fs"
            )));
        }
        let device = stat(file)?.map_or(0, |s| s.st_dev);
        let offset = match offset {
            Some(offset) => offset,
            None => begins_at(device)?,
        };
        Ok(Self { device, offset })
    }

    /// The parts of a file on this file system as ranges of the drive, in the file's order.
    ///
    /// # Errors
    /// If the file is on another file system, or that does not say.
    pub fn extents(&self, file: BorrowedFd<'_>, start: u64, bytes: u64) -> io::Result<Vec<Extent>> {
        if device_of(file)? != Some(self.device) {
            return Err(io::Error::other("not a regular file of the drive's file system"));
        }
        let mut found = extents(file, start, bytes)?;
        for extent in &mut found {
            extent.physical = extent.physical.saturating_add(self.offset);
        }
        Ok(found)
    }
}

/// `f_type` of the file system that a file is on.
fn file_system(file: BorrowedFd<'_>) -> io::Result<u64> {
    let mut stat = std::mem::MaybeUninit::<libc::statfs64>::zeroed();
    #[allow(unsafe_code)]
    // SAFETY: `stat` has room for the structure, which is plain data: zeros are a value of it.
    let (result, stat) =
        unsafe { (libc::fstatfs64(file.as_raw_fd(), stat.as_mut_ptr()), stat.assume_init()) };
    // The type of `f_type` depends on the architecture.
    #[allow(clippy::unnecessary_cast)]
    if result == 0 { Ok(stat.f_type as u64) } else { Err(io::Error::last_os_error()) }
}

/// Where a block device begins on its drive: a partition's start, a loop device's offset, their sum.
fn begins_at(device: u64) -> io::Result<u64> {
    let (major, minor) = (libc::major(device), libc::minor(device));
    let folder = PathBuf::from(format!("/sys/dev/block/{major}:{minor}"));
    if !folder.exists() {
        return Err(io::Error::other(format!("{}: no such block device", folder.display())));
    }
    if folder.join("dm").exists() || folder.join("md").exists() {
        return Err(io::Error::other("a mapped device: expected to be told where on the drive it begins"));
    }
    let number =
        |path: PathBuf| std::fs::read_to_string(path).ok().and_then(|t| t.trim().parse::<u64>().ok());
    let start = number(folder.join("start")).unwrap_or(0) * 512;
    // A partition's folder lies in that of its disk.
    let disk = if folder.join("partition").exists() { folder.join("..") } else { folder };
    Ok(start + number(disk.join("loop/offset")).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Seek, SeekFrom, Write};
    use std::os::fd::AsFd;

    fn raw(logical: u64, physical: u64, length: u64, flags: u32) -> RawExtent {
        RawExtent { logical, physical, length, flags, ..RawExtent::default() }
    }

    #[test]
    fn extents_are_cut_to_what_was_asked_for_and_joined() {
        let mut found = vec![];
        for extent in [
            raw(0, 1 << 20, 8192, 0),
            raw(8192, (1 << 20) + 8192, 4096, 0),
            raw(12288, (1 << 20) + 12288, 4096, flag::UNWRITTEN),
            raw(16384, 0, 4096, 0x4),
            raw(u64::MAX - 4095, 7 << 20, 8192, 0),
        ] {
            add(&mut found, &extent, 4096, 14000);
        }
        let extent = |logical, physical, bytes, unwritten| Extent { logical, physical, bytes, unwritten };
        let base = 1 << 20;
        assert_eq!(
            found,
            [extent(4096, base + 4096, 8192, false), extent(12288, base + 12288, 14000 - 12288, true)]
        );
    }

    #[test]
    fn the_request_is_laid_out_as_the_kernel_has_it() {
        assert_eq!(std::mem::size_of::<RawExtent>(), 56);
        assert_eq!(std::mem::offset_of!(Request, extents), 32);
    }

    /// What FIEMAP says is where the bytes are: found again on the block device itself.
    #[test]
    fn the_bytes_of_a_file_are_where_its_extents_say() {
        let mut file = tempfile::NamedTempFile::new_in(env!("CARGO_MANIFEST_DIR")).expect("a file");
        let text: Vec<u8> = (0..1_u32 << 14).flat_map(|n| (n ^ 0x5eed_f00d).to_le_bytes()).collect();
        file.write_all(&text).and_then(|()| file.as_file().sync_all()).expect("written");
        let place = match Place::of(file.as_file().as_fd(), None) {
            Ok(place) => place,
            Err(e) => return eprintln!("SKIPPED: this folder is on {e}"),
        };
        let found = place.extents(file.as_file().as_fd(), 0, u64::MAX).expect("extents");
        assert_eq!(found.iter().map(|e| e.bytes).sum::<u64>(), text.len() as u64);
        let name = format!("/dev/block/{}:{}", libc::major(place.device), libc::minor(place.device));
        let Ok(mut disk) = std::fs::File::open(&name) else {
            return eprintln!("SKIPPED: {name} cannot be read");
        };
        // The device's own beginning is not the drive's.
        let offset = place.offset;
        for extent in found {
            let mut bytes = vec![0; extent.bytes as usize];
            disk.seek(SeekFrom::Start(extent.physical - offset)).expect("within");
            disk.read_exact(&mut bytes).expect("read");
            assert!(bytes == text[extent.logical as usize..][..bytes.len()], "{extent:?}");
        }
    }

    #[test]
    fn what_lies_on_no_block_device_is_refused() {
        let (pipe, _other) = std::io::pipe().expect("a pipe");
        assert!(extents(pipe.as_fd(), 0, 4096).is_err());
        assert!(Place::of(pipe.as_fd(), Some(0)).is_err());
        let proc = std::fs::File::open("/proc/self/stat").expect("there");
        let said = Place::of(proc.as_fd(), None).expect_err("no file system on a device").to_string();
        assert!(said.contains("expected ext2"), "{said}");
    }
}
