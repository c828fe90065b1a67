//! Requests and configuration of a virtio disk.
//!
//! Source: Virtual I/O Device (VIRTIO) 1.2, sections 5.2.3 (feature bits), 5.2.4 (configuration),
//! 5.2.6 (device operation). All numbers are little-endian; a sector is 512 bytes.

use nandle_io::Status;

use crate::{Fault, Io, Shape};

/// Bytes of a sector in requests.
const SECTOR: u64 = 512;
/// Bytes of a request's header.
pub const HEADER: usize = 16;
/// Queues.
pub const QUEUES: usize = 4;
/// Entries of a queue.
pub const QUEUE_SIZE: usize = 256;
/// Largest data of a request.
pub const MOST_BYTES: u64 = 32 << 20;
/// Ranges of a discard.
const SEGMENTS: u32 = 64;
/// Sectors of a range of a discard.
const MOST_SECTORS: u32 = u32::MAX >> 1;

/// Feature bits.
pub mod feature {
    #![allow(missing_docs)]
    pub const SEG_MAX: u64 = 1 << 2;
    pub const BLK_SIZE: u64 = 1 << 6;
    pub const FLUSH: u64 = 1 << 9;
    pub const TOPOLOGY: u64 = 1 << 10;
    pub const MQ: u64 = 1 << 12;
    pub const DISCARD: u64 = 1 << 13;
    pub const WRITE_ZEROES: u64 = 1 << 14;
    pub const INDIRECT: u64 = 1 << 28;
    pub const PROTOCOL: u64 = 1 << 30;
    pub const VERSION_1: u64 = 1 << 32;
    /// What this device offers. Without CONFIG_WCE: a guest may not take the write cache away.
    pub const OURS: u64 =
        SEG_MAX | BLK_SIZE | FLUSH | TOPOLOGY | MQ | DISCARD | WRITE_ZEROES | INDIRECT | PROTOCOL | VERSION_1;
}

/// Types of requests.
pub mod kind {
    #![allow(missing_docs)]
    pub const READ: u32 = 0;
    pub const WRITE: u32 = 1;
    pub const FLUSH: u32 = 4;
    pub const ID: u32 = 8;
    pub const DISCARD: u32 = 11;
    pub const ZEROES: u32 = 13;
}

/// The last byte of an answer.
pub mod status {
    #![allow(missing_docs)]
    pub const OK: u8 = 0;
    pub const FAILED: u8 = 1;
    pub const UNSUPPORTED: u8 = 2;
}

/// What a request asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Asked {
    /// These, and the answer when all of them are done.
    Do(Vec<Io>),
    /// The disk's name.
    Name,
    /// An answer at once.
    Refuse(u8),
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).and_then(|b| b.try_into().ok()).map_or(0, u32::from_le_bytes)
}
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from(u32_at(bytes, at)) | u64::from(u32_at(bytes, at + 4)) << 32
}

/// A request: its bytes, header first, and the room for data in its answer.
#[must_use]
pub fn request(bytes: &[u8], room: u64) -> Asked {
    let failed = Asked::Refuse(status::FAILED);
    let Some((header, body)) = bytes.split_at_checked(HEADER) else { return failed };
    let Some(offset) = u64_at(header, 8).checked_mul(SECTOR) else { return failed };
    let whole = |n: u64| n > 0 && n.is_multiple_of(SECTOR);
    match u32_at(header, 0) {
        kind::READ if body.is_empty() && whole(room) && room <= MOST_BYTES => {
            Asked::Do(vec![Io::read(offset, room)])
        }
        kind::WRITE if whole(body.len() as u64) => Asked::Do(vec![Io::write(offset, body.to_vec())]),
        kind::FLUSH => Asked::Do(vec![Io::flush()]),
        kind::ID => Asked::Name,
        kind @ (kind::DISCARD | kind::ZEROES) => {
            let parts = body.chunks_exact(16);
            if body.is_empty() || !parts.remainder().is_empty() || parts.len() > SEGMENTS as usize {
                return failed;
            }
            let mut ios = vec![];
            for part in parts {
                let (Some(offset), sectors) = (u64_at(part, 0).checked_mul(SECTOR), u32_at(part, 8)) else {
                    return failed;
                };
                // Of the flags only "unmap" is known, and only with zeros.
                let flags = u32_at(part, 12);
                if flags & !1 != 0 || flags == 1 && kind == kind::DISCARD {
                    return Asked::Refuse(status::UNSUPPORTED);
                }
                let bytes = u64::from(sectors) * SECTOR;
                ios.push(match kind {
                    kind::DISCARD => Io::trim(offset, bytes),
                    _ => Io::zeros(offset, bytes, flags == 1),
                });
            }
            Asked::Do(ios)
        }
        kind::READ | kind::WRITE => failed,
        _ => Asked::Refuse(status::UNSUPPORTED),
    }
}

/// The status that stands for the end of a command, or for none.
#[must_use]
pub fn status_of(fault: Option<Fault>) -> u8 {
    match fault {
        None | Some(Fault::Drive(Status::Ok)) => status::OK,
        Some(Fault::Drive(Status::Unsupported)) => status::UNSUPPORTED,
        Some(_) => status::FAILED,
    }
}

/// The configuration space, up to the write zeroes fields.
#[must_use]
pub fn config(shape: &Shape) -> [u8; 60] {
    let mut out = [0; 60];
    let mut put = |at: usize, bytes: &[u8]| out[at..at + bytes.len()].copy_from_slice(bytes);
    put(0, &(shape.bytes / SECTOR).to_le_bytes());
    put(12, &(QUEUE_SIZE as u32 - 2).to_le_bytes());
    put(20, &shape.sector_bytes.to_le_bytes());
    // The flash page, as the physical block and the smallest that is no read-modify-write.
    let blocks = (shape.page_bytes / shape.sector_bytes).max(1);
    put(24, &[blocks.ilog2() as u8, 0]);
    put(26, &(blocks as u16).to_le_bytes());
    put(32, &[1]);
    put(34, &(QUEUES as u16).to_le_bytes());
    put(36, &MOST_SECTORS.to_le_bytes());
    put(40, &SEGMENTS.to_le_bytes());
    put(44, &(shape.sector_bytes / SECTOR as u32).to_le_bytes());
    put(48, &MOST_SECTORS.to_le_bytes());
    put(52, &SEGMENTS.to_le_bytes());
    put(56, &[1]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes(kind: u32, sector: u64, body: &[u8]) -> Vec<u8> {
        let mut out = kind.to_le_bytes().to_vec();
        out.extend([0; 4]);
        out.extend(sector.to_le_bytes());
        out.extend(body);
        out
    }

    #[test]
    fn requests_are_understood() {
        assert_eq!(request(&bytes(kind::READ, 9, &[]), 1024), Asked::Do(vec![Io::read(4608, 1024)]));
        let write = Io::write(512, vec![7; 512]);
        assert_eq!(request(&bytes(kind::WRITE, 1, &[7; 512]), 0), Asked::Do(vec![write]));
        assert_eq!(request(&bytes(kind::FLUSH, 0, &[]), 0), Asked::Do(vec![Io::flush()]));
        assert_eq!(request(&bytes(kind::ID, 0, &[]), 20), Asked::Name);
        let mut ranges = vec![];
        for (sector, sectors, flags) in [(8_u64, 16_u32, 1_u32), (64, 8, 0)] {
            ranges.extend(sector.to_le_bytes());
            ranges.extend(sectors.to_le_bytes());
            ranges.extend(flags.to_le_bytes());
        }
        assert_eq!(
            request(&bytes(kind::ZEROES, 0, &ranges), 0),
            Asked::Do(vec![Io::zeros(4096, 8192, true), Io::zeros(32768, 4096, false),])
        );
        assert_eq!(
            request(&bytes(kind::DISCARD, 0, &ranges[16..]), 0),
            Asked::Do(vec![Io::trim(32768, 4096)])
        );
        assert_eq!(request(&bytes(kind::DISCARD, 0, &ranges), 0), Asked::Refuse(status::UNSUPPORTED));
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (bytes, room, expected) in [
            (vec![0; 15], 0, status::FAILED),
            (bytes(kind::READ, 0, &[]), 0, status::FAILED),
            (bytes(kind::READ, 0, &[]), 513, status::FAILED),
            (bytes(kind::READ, 0, &[]), MOST_BYTES + 512, status::FAILED),
            (bytes(kind::READ, u64::MAX, &[]), 512, status::FAILED),
            (bytes(kind::WRITE, 0, &[1; 100]), 0, status::FAILED),
            (bytes(kind::DISCARD, 0, &[0; 17]), 0, status::FAILED),
            (bytes(kind::ZEROES, 0, &[0xff; 16]), 0, status::FAILED),
            (bytes(99, 0, &[]), 0, status::UNSUPPORTED),
        ] {
            assert_eq!(request(&bytes, room), Asked::Refuse(expected), "{bytes:?}");
        }
    }

    #[test]
    fn failures_differ_where_virtio_can_tell() {
        assert_eq!(status_of(None), status::OK);
        for drive in Status::ALL {
            let expected = match drive {
                Status::Ok => status::OK,
                Status::Unsupported => status::UNSUPPORTED,
                _ => status::FAILED,
            };
            assert_eq!(status_of(Some(Fault::Drive(drive))), expected, "{drive}");
        }
        assert_eq!(status_of(Some(Fault::Gone)), status::FAILED);
    }

    proptest! {
        #[test]
        fn any_bytes_are_an_answer(bytes in proptest::collection::vec(any::<u8>(), 0..600), room: u64) {
            if let Asked::Do(ios) = request(&bytes, room) {
                prop_assert!(!ios.is_empty() && ios.len() <= SEGMENTS as usize);
            }
        }
    }

    #[test]
    fn the_configuration_says_what_the_drive_is() {
        let shape = Shape { bytes: 1 << 30, sector_bytes: 4096, page_bytes: 16384, queue_depth: 32 };
        let config = config(&shape);
        assert_eq!(u64_at(&config, 0) * 512, 1 << 30);
        assert_eq!((u32_at(&config, 20), config[24], config[32]), (4096, 2, 1));
    }
}
