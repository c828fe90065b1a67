//! From bytes to commands in whole sectors.
//!
//! Reads are rounded outward and cut to size, trims inward. A write that does not fill its first or
//! last sector is a read-modify-write: the drive sees a read of the sectors and a write of all of
//! them. Zeros are a trim where the host allows it, else writes.

use std::collections::VecDeque;

use nandle_ssd::{Range, Ssd};

use crate::{Fault, Io, Shape};

/// A command to the drive, or a few; the steps of a request follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Read sectors; what was asked for are `bytes` bytes from byte `skip` of them.
    Read {
        /// First sector.
        lsn: u64,
        /// Sectors.
        sectors: u64,
        /// Bytes before what was asked for.
        skip: usize,
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// Write whole sectors.
    Write {
        /// First sector.
        lsn: u64,
        /// Contents.
        data: Vec<u8>,
        /// Durable before it completes.
        fua: bool,
        /// Host stream.
        stream: u16,
    },
    /// Read sectors, lay `data` over them from byte `skip`, write them.
    Merge {
        /// First sector.
        lsn: u64,
        /// Sectors.
        sectors: u64,
        /// Bytes that stay as they are.
        skip: usize,
        /// What is new.
        data: Vec<u8>,
        /// Durable before it completes.
        fua: bool,
        /// Host stream.
        stream: u16,
    },
    /// Write zeros over whole sectors, in as many commands as it takes.
    Zeros {
        /// First sector.
        lsn: u64,
        /// Sectors.
        sectors: u64,
        /// Durable before it completes.
        fua: bool,
    },
    /// Forget sectors.
    Trim {
        /// First sector.
        lsn: u64,
        /// Sectors.
        sectors: u64,
    },
    /// Make everything durable.
    Flush,
    /// FlashAlloc: the ranges in the drive's own layout ([`nandle_ssd::Op::FlashAlloc`]).
    FlashAlloc(Vec<u8>),
    /// FlashFree: objects with some of these sectors are at their end.
    FlashFree {
        /// First sector.
        lsn: u64,
        /// Sectors.
        sectors: u64,
    },
}

impl Step {
    /// The sectors that it changes, as a range; none for reads and flushes.
    #[must_use]
    pub fn changes(&self, sector_bytes: u64) -> Option<(u64, u64)> {
        match *self {
            Self::Write { lsn, ref data, .. } => Some((lsn, lsn + data.len() as u64 / sector_bytes)),
            Self::Merge { lsn, sectors, .. }
            | Self::Zeros { lsn, sectors, .. }
            | Self::Trim { lsn, sectors } => Some((lsn, lsn + sectors)),
            Self::Read { .. } | Self::Flush | Self::FlashAlloc(_) | Self::FlashFree { .. } => None,
        }
    }
}

/// The steps of a request; none if there is nothing to do.
///
/// # Errors
/// If it reaches beyond the end of the device.
pub fn steps(io: Io, shape: &Shape) -> Result<VecDeque<Step>, Fault> {
    let mut plan = Plan { sector: u64::from(shape.sector_bytes), steps: VecDeque::new() };
    let within = |offset: u64, bytes: u64| {
        let end = offset.checked_add(bytes).ok_or(Fault::OutOfRange)?;
        if end <= shape.bytes { Ok(end) } else { Err(Fault::OutOfRange) }
    };
    match io {
        Io::Read { offset, bytes } => {
            within(offset, u64::from(bytes))?;
            plan.read(offset, bytes);
        }
        Io::Write { offset, data, fua, stream } => {
            within(offset, data.len() as u64)?;
            plan.write(offset, data, fua, stream);
        }
        Io::Trim { offset, bytes, fua } => {
            let end = within(offset, bytes)?;
            let (from, to) = plan.inside(offset, end);
            if from < to {
                plan.steps.push_back(Step::Trim { lsn: from, sectors: to - from });
                if fua {
                    plan.steps.push_back(Step::Flush);
                }
            }
        }
        Io::Zero { offset, bytes, may_trim, fua } => {
            let end = within(offset, bytes)?;
            plan.zero(offset, end, may_trim, fua);
        }
        Io::Flush => plan.steps.push_back(Step::Flush),
        // Nothing that the flash does.
        Io::NextUnits { .. } => {}
        Io::FlashFree { ranges } => {
            for (offset, bytes) in ranges {
                let end = within(offset, bytes)?;
                let (from, to) = plan.around(offset, end);
                if from < to {
                    plan.steps.push_back(Step::FlashFree { lsn: from, sectors: to - from });
                }
            }
        }
        Io::FlashAlloc { ranges } => {
            let mut data = Vec::with_capacity(ranges.len() * Range::BYTES);
            for (offset, bytes) in ranges {
                let end = within(offset, bytes)?;
                let whole = offset.is_multiple_of(plan.sector) && end.is_multiple_of(plan.sector);
                let sectors = u32::try_from(bytes / plan.sector).map_err(|_| Fault::OutOfRange)?;
                if !whole || sectors == 0 {
                    return Err(Fault::OutOfRange);
                }
                data.extend([0; 4]);
                data.extend(sectors.to_le_bytes());
                data.extend((offset / plan.sector).to_le_bytes());
            }
            if data.is_empty() {
                return Err(Fault::OutOfRange);
            }
            plan.steps.push_back(Step::FlashAlloc(data));
        }
    }
    Ok(plan.steps)
}

/// Logical pages that [`stored`] looks at.
const MOST_PAGES: u64 = 16 << 10;

/// Which bytes from `offset` are stored, as extents (bytes, stored) one after the other: of `bytes` bytes,
/// or of fewer if that would be more than `most` extents or long to look up, but of some. A range that
/// is not of whole sectors has the state of the sectors that it touches.
#[must_use]
pub fn stored(ssd: &Ssd, shape: &Shape, offset: u64, bytes: u64, most: usize) -> Vec<(u64, bool)> {
    let sector = u64::from(shape.sector_bytes);
    let page = u64::from(shape.page_bytes);
    let per_page = page / sector;
    let end = offset.saturating_add(bytes).min(shape.bytes);
    let mut out: Vec<(u64, bool)> = Vec::new();
    let mut at = offset;
    for lpn in (offset / page..end.div_ceil(page)).take(MOST_PAGES as usize) {
        let mask = {
            let number = lpn as u32;
            let fragments = ssd.flash().fragments().get(number, ssd.flash().array());
            let buffered = ssd.buffer().map_or(0, |buffer| buffer.mask(number));
            fragments.iter().fold(buffered, |all, fragment| all | fragment.mask)
        };
        while at < end && at / page == lpn {
            let in_page = at / sector % per_page;
            let is_stored = mask >> in_page & 1 == 1;
            let next = ((at / sector + 1) * sector).min(end);
            let extents = out.len();
            match out.last_mut() {
                Some((length, same)) if *same == is_stored => *length += next - at,
                _ if extents == most => return out,
                _ => out.push((next - at, is_stored)),
            }
            at = next;
        }
    }
    out
}

struct Plan {
    sector: u64,
    steps: VecDeque<Step>,
}

impl Plan {
    /// The sectors that lie within a range of bytes.
    fn inside(&self, offset: u64, end: u64) -> (u64, u64) {
        (offset.div_ceil(self.sector), end / self.sector)
    }

    /// The sectors that a range of bytes touches.
    fn around(&self, offset: u64, end: u64) -> (u64, u64) {
        (offset / self.sector, end.div_ceil(self.sector))
    }

    fn read(&mut self, offset: u64, bytes: u32) {
        let (from, to) = self.around(offset, offset + u64::from(bytes));
        if bytes > 0 {
            self.steps.push_back(Step::Read {
                lsn: from,
                sectors: to - from,
                skip: (offset - from * self.sector) as usize,
                bytes: bytes as usize,
            });
        }
    }

    fn write(&mut self, offset: u64, data: Vec<u8>, fua: bool, stream: u16) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        let (from, to) = self.around(offset, end);
        let whole = offset.is_multiple_of(self.sector) && end.is_multiple_of(self.sector);
        self.steps.push_back(if whole {
            Step::Write { lsn: from, data, fua, stream }
        } else {
            let skip = (offset - from * self.sector) as usize;
            Step::Merge { lsn: from, sectors: to - from, skip, data, fua, stream }
        });
    }

    fn zero(&mut self, offset: u64, end: u64, may_trim: bool, fua: bool) {
        let (from, to) = self.inside(offset, end);
        let zeros = |bytes: u64| vec![0; bytes as usize];
        if from >= to {
            return self.write(offset, zeros(end - offset), fua, 0);
        }
        self.write(offset, zeros(from * self.sector - offset), fua, 0);
        if may_trim {
            self.steps.push_back(Step::Trim { lsn: from, sectors: to - from });
        } else {
            self.steps.push_back(Step::Zeros { lsn: from, sectors: to - from, fua });
        }
        self.write(to * self.sector, zeros(end - to * self.sector), fua, 0);
        if may_trim && fua {
            self.steps.push_back(Step::Flush);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const SHAPE: Shape = Shape { bytes: 1 << 20, sector_bytes: 4096, page_bytes: 16384, queue_depth: 32 };

    /// Carries steps out on a plain array, as the drive would.
    fn apply(disk: &mut [u8], steps: VecDeque<Step>) -> Vec<u8> {
        let mut out = vec![];
        let at = |lsn: u64| lsn as usize * 4096;
        for step in steps {
            if let Some((from, to)) = step.changes(4096) {
                assert!(from < to && to <= SHAPE.bytes / 4096, "{step:?}");
            }
            match step {
                Step::Read { lsn, sectors, skip, bytes } => {
                    out = disk[at(lsn)..at(lsn + sectors)][skip..skip + bytes].to_vec();
                }
                Step::Write { lsn, data, .. } => {
                    assert_eq!(data.len() % 4096, 0);
                    disk[at(lsn)..][..data.len()].copy_from_slice(&data);
                }
                Step::Merge { lsn, sectors, skip, data, .. } => {
                    disk[at(lsn)..at(lsn + sectors)][skip..skip + data.len()].copy_from_slice(&data);
                }
                Step::Zeros { lsn, sectors, .. } | Step::Trim { lsn, sectors } => {
                    disk[at(lsn)..at(lsn + sectors)].fill(0);
                }
                Step::Flush | Step::FlashAlloc(_) | Step::FlashFree { .. } => {}
            }
        }
        out
    }

    proptest! {
        #[test]
        fn bytes_end_up_where_they_belong(offset in 0_u64..1 << 20, len in 0_u64..40_000, kind in 0..4, flag: bool) {
            let len = len.min((1 << 20) - offset);
            let range = offset as usize..(offset + len) as usize;
            let old: Vec<u8> = (0..1_usize << 20).map(|n| (n / 7 % 255) as u8 + 1).collect();
            let (mut disk, mut plain) = (old.clone(), old);
            let io = match kind {
                0 => Io::Read { offset, bytes: len as u32 },
                1 => Io::Write { offset, data: vec![0xa5; len as usize], fua: flag, stream: 0 },
                2 => Io::Trim { offset, bytes: len, fua: flag },
                _ => Io::Zero { offset, bytes: len, may_trim: flag, fua: !flag },
            };
            let out = apply(&mut disk, steps(io, &SHAPE).expect("within the device"));
            match kind {
                0 => prop_assert_eq!(out, plain[range].to_vec()),
                1 => plain[range].fill(0xa5),
                2 => {
                    let (from, to) = (range.start.next_multiple_of(4096), range.end / 4096 * 4096);
                    if from < to { plain[from..to].fill(0) }
                }
                _ => plain[range].fill(0),
            }
            prop_assert!(disk == plain);
        }
    }

    #[test]
    fn what_lies_beyond_is_refused() {
        let end = SHAPE.bytes;
        assert_eq!(steps(Io::Read { offset: end - 1, bytes: 2 }, &SHAPE), Err(Fault::OutOfRange));
        assert_eq!(
            steps(Io::Trim { offset: u64::MAX, bytes: u64::MAX, fua: false }, &SHAPE),
            Err(Fault::OutOfRange)
        );
        assert_eq!(steps(Io::Read { offset: end, bytes: 0 }, &SHAPE), Ok(VecDeque::new()));
    }

    #[test]
    fn durable_zeros_end_with_a_flush() {
        let io = Io::Zero { offset: 4096, bytes: 8192, may_trim: true, fua: true };
        let expected: VecDeque<Step> = [Step::Trim { lsn: 1, sectors: 2 }, Step::Flush].into();
        assert_eq!(steps(io, &SHAPE), Ok(expected));
    }
}
