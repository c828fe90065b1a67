//! From bytes to commands in whole sectors.
//!
//! Reads are rounded outward and cut to size, trims inward. A write that does not fill its first or
//! last sector is a read-modify-write: the drive sees a read of the sectors and a write of all of
//! them, and the host's account a write of what it wrote. Zeros are a trim where the host allows it, else writes.

use std::collections::VecDeque;

use nandle_io::{Op, Range, Status, encode};
use nandle_ssd::Ssd;

use crate::{Io, Shape};

/// A command to the drive; the steps of a request follow each other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// What is asked for.
    pub op: Op,
    /// First sector.
    pub lsn: u64,
    /// Sectors.
    pub sectors: u64,
    /// Durable before it completes.
    pub fua: bool,
    /// Host stream.
    pub stream: u16,
    /// As of [`nandle_io::Command`]; a write without any is one of zeros, in as many commands as it takes.
    pub data: Vec<u8>,
    /// What becomes of its answer.
    pub then: Then,
    /// Bytes that were asked for, if they are not all of its sectors'.
    pub bytes: Option<u64>,
}

/// What becomes of the answer of a command.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Then {
    /// Nothing.
    Nothing,
    /// What was asked for are `bytes` bytes from byte `skip` of it.
    Answer {
        /// Bytes before what was asked for.
        skip: usize,
        /// Bytes that were asked for.
        bytes: usize,
    },
    /// `data` are laid over it from byte `skip`, and all of it is written where it was read.
    Write {
        /// Where it was read.
        lsn: u64,
        /// Bytes that stay as they are.
        skip: usize,
        /// What is new.
        data: Vec<u8>,
        /// Durable before it completes.
        fua: bool,
        /// Host stream.
        stream: u16,
    },
}

impl Step {
    /// A command without contents, of whose answer nothing becomes.
    #[must_use]
    pub fn new(op: Op, lsn: u64, sectors: u64) -> Self {
        Self { op, lsn, sectors, fua: false, stream: 0, data: Vec::new(), then: Then::Nothing, bytes: None }
    }

    /// Whether it is the first half of a read-modify-write.
    #[must_use]
    pub fn merges(&self) -> bool {
        matches!(self.then, Then::Write { .. })
    }

    /// The sectors that it changes, as a range; none for reads and flushes.
    #[must_use]
    pub fn changes(&self) -> Option<(u64, u64)> {
        let changes = matches!(self.op, Op::Write | Op::Trim) || self.merges();
        changes.then_some((self.lsn, self.lsn + self.sectors))
    }
}

/// The steps of a request; none if there is nothing to do.
///
/// # Errors
/// If it reaches beyond the end of the device, or an object is of no whole sectors.
pub fn steps(io: Io, shape: &Shape) -> Result<VecDeque<Step>, Status> {
    let mut plan = Plan { sector: u64::from(shape.sector_bytes), steps: VecDeque::new() };
    let Io { op, offset, bytes, data, fua, stream, exact } = io;
    let end = offset.checked_add(bytes).filter(|&end| end <= shape.bytes).ok_or(Status::OutOfRange)?;
    match op {
        Op::Read => plan.read(offset, end),
        Op::Write if data.is_empty() => plan.zero(offset, end, Op::Write, fua),
        Op::Write => plan.write(offset, data, fua, stream),
        Op::Trim if exact => plan.zero(offset, end, Op::Trim, fua),
        Op::Trim => {
            let (from, to) = plan.inside(offset, end);
            plan.trim(from, to, fua);
        }
        Op::Flush => plan.steps.push_back(Step::new(Op::Flush, 0, 0)),
        Op::FlashFree => {
            let (from, to) = plan.around(offset, end);
            if from < to {
                plan.steps.push_back(Step::new(Op::FlashFree, from, to - from));
            }
        }
        Op::FlashAlloc => {
            let whole = offset.is_multiple_of(plan.sector) && end.is_multiple_of(plan.sector);
            let ranges = Range::list(offset / plan.sector, bytes / plan.sector, &data)?;
            let sectors = shape.bytes / plan.sector;
            if !whole || ranges.iter().any(|range| range.sectors == 0 || !range.fits(sectors)) {
                return Err(Status::OutOfRange);
            }
            plan.steps.push_back(Step { data: encode(&ranges)?, ..Step::new(Op::FlashAlloc, 0, 0) });
        }
    }
    Ok(plan.steps)
}

/// Logical pages that a survey looks at in all, and at a time.
const MOST_PAGES: u64 = 16 << 10;
const SLICE: u64 = 64;

/// Which bytes of a range are stored: looked up in slices, so that requests need not wait for the whole.
#[derive(Debug)]
pub struct Survey {
    shape: Shape,
    at: u64,
    end: u64,
    most: usize,
    extents: Vec<(u64, bool)>,
}

impl Survey {
    /// Of `bytes` bytes from `offset`, or of fewer if that would be more than `most` extents or long to look up, but
    /// of some. A range that is not of whole sectors has the state of the sectors that it touches.
    #[must_use]
    pub fn new(shape: &Shape, offset: u64, bytes: u64, most: usize) -> Self {
        let last = (offset / u64::from(shape.page_bytes) + MOST_PAGES) * u64::from(shape.page_bytes);
        let end = offset.saturating_add(bytes).min(shape.bytes).min(last);
        Self { shape: *shape, at: offset, end, most, extents: vec![] }
    }

    /// Looks at the next few pages; whether that was all.
    pub fn go_on(&mut self, ssd: &Ssd) -> bool {
        let page = u64::from(self.shape.page_bytes);
        let sector = u64::from(self.shape.sector_bytes);
        for _ in 0..SLICE {
            let lpn = self.at / page;
            if self.at >= self.end {
                return true;
            }
            let mask = {
                let number = lpn as u32;
                let fragments = ssd.flash().fragments().get(number, ssd.flash().array());
                let buffered = ssd.buffer().map_or(0, |buffer| buffer.mask(number));
                fragments.iter().fold(buffered, |all, fragment| all | fragment.mask)
            };
            while self.at < self.end && self.at / page == lpn {
                let is_stored = mask >> (self.at / sector % (page / sector)) & 1 == 1;
                let next = ((self.at / sector + 1) * sector).min(self.end);
                let extents = self.extents.len();
                match self.extents.last_mut() {
                    Some((length, same)) if *same == is_stored => *length += next - self.at,
                    _ if extents == self.most => return true,
                    _ => self.extents.push((next - self.at, is_stored)),
                }
                self.at = next;
            }
        }
        self.at >= self.end
    }

    /// Extents (bytes, whether they are stored), one after the other.
    #[must_use]
    pub fn extents(&self) -> &[(u64, bool)] {
        &self.extents
    }
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

    fn read(&mut self, offset: u64, end: u64) {
        let (from, to) = self.around(offset, end);
        if offset < end {
            let skip = (offset - from * self.sector) as usize;
            let then = Then::Answer { skip, bytes: (end - offset) as usize };
            self.steps.push_back(Step {
                then,
                bytes: Some(end - offset),
                ..Step::new(Op::Read, from, to - from)
            });
        }
    }

    fn write(&mut self, offset: u64, data: Vec<u8>, fua: bool, stream: u16) {
        if data.is_empty() {
            return;
        }
        let end = offset + data.len() as u64;
        let (lsn, to) = self.around(offset, end);
        let whole = offset.is_multiple_of(self.sector) && end.is_multiple_of(self.sector);
        self.steps.push_back(if whole {
            Step { fua, stream, data, ..Step::new(Op::Write, lsn, to - lsn) }
        } else {
            let skip = (offset - lsn * self.sector) as usize;
            let then = Then::Write { lsn, skip, data, fua, stream };
            Step { then, ..Step::new(Op::Read, lsn, to - lsn) }
        });
    }

    fn trim(&mut self, from: u64, to: u64, fua: bool) {
        if from < to {
            self.steps.push_back(Step::new(Op::Trim, from, to - from));
            if fua {
                self.steps.push_back(Step::new(Op::Flush, 0, 0));
            }
        }
    }

    /// Zeros: `op` on the whole sectors, and writes around them.
    fn zero(&mut self, offset: u64, end: u64, op: Op, fua: bool) {
        let (from, to) = self.inside(offset, end);
        let zeros = |bytes: u64| vec![0; bytes as usize];
        if from >= to {
            return self.write(offset, zeros(end - offset), fua, 0);
        }
        self.write(offset, zeros(from * self.sector - offset), fua, 0);
        self.steps.push_back(Step { fua: fua && op == Op::Write, ..Step::new(op, from, to - from) });
        self.write(to * self.sector, zeros(end - to * self.sector), fua, 0);
        if fua && op == Op::Trim {
            self.steps.push_back(Step::new(Op::Flush, 0, 0));
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
            if let Some((from, to)) = step.changes() {
                assert!(from < to && to <= SHAPE.bytes / 4096, "{step:?}");
            }
            let place = &mut disk[at(step.lsn)..at(step.lsn + step.sectors)];
            match (step.op, step.then) {
                (Op::Read, Then::Answer { skip, bytes }) => out = place[skip..skip + bytes].to_vec(),
                (Op::Read, Then::Write { lsn, skip, data, .. }) => {
                    assert_eq!(lsn, step.lsn);
                    place[skip..skip + data.len()].copy_from_slice(&data);
                }
                (Op::Write, Then::Nothing) if !step.data.is_empty() => place.copy_from_slice(&step.data),
                (Op::Write | Op::Trim, Then::Nothing) => place.fill(0),
                (Op::Flush, Then::Nothing) => {}
                other => panic!("{other:?}"),
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
                0 => Io::read(offset, len),
                1 => Io::write(offset, vec![0xa5; len as usize]).fua(flag),
                2 => Io::trim(offset, len).fua(flag),
                _ => Io::zeros(offset, len, flag).fua(!flag),
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
        assert_eq!(steps(Io::read(end - 1, 2), &SHAPE), Err(Status::OutOfRange));
        assert_eq!(steps(Io::trim(u64::MAX, u64::MAX), &SHAPE), Err(Status::OutOfRange));
        assert_eq!(steps(Io::read(end, 0), &SHAPE), Ok(VecDeque::new()));
    }

    #[test]
    fn durable_zeros_end_with_a_flush() {
        let expected: VecDeque<Step> = [Step::new(Op::Trim, 1, 2), Step::new(Op::Flush, 0, 0)].into();
        assert_eq!(steps(Io::zeros(4096, 8192, true).fua(true), &SHAPE), Ok(expected));
        let durable: VecDeque<Step> = [Step { fua: true, ..Step::new(Op::Write, 1, 2) }].into();
        assert_eq!(steps(Io::zeros(4096, 8192, false).fua(true), &SHAPE), Ok(durable));
    }

    #[test]
    fn objects_are_of_whole_sectors_of_the_device() {
        let range = |first, sectors| Range { first, sectors };
        let list = |ranges: &[Range]| encode(ranges).expect("short ranges");
        let one = |data| Step { data, ..Step::new(Op::FlashAlloc, 0, 0) };
        let planned = |io| steps(io, &SHAPE).map(Vec::from);
        let two = list(&[range(1, 2), range(255, 1)]);
        assert_eq!(planned(Io::object_of(two.clone())), Ok(vec![one(two.clone())]));
        assert_eq!(planned(Io::object(4096, 8192)), Ok(vec![one(list(&[range(1, 2)]))]));
        for refused in [
            Io::object_of(vec![]),
            Io::object_of(two[1..].to_vec()),
            Io::object_of(list(&[range(1, 0)])),
            Io::object_of(list(&[range(255, 2)])),
            Io::object_of(list(&[range(u64::MAX, 2)])),
            Io::object(4096, 0),
            Io::object(4095, 4096),
            Io::object(4096, 4097),
            Io::object(SHAPE.bytes, 4096),
        ] {
            assert_eq!(planned(refused.clone()), Err(Status::OutOfRange), "{refused:?}");
        }
        assert_eq!(planned(Io::object_ends(4095, 2)), Ok(vec![Step::new(Op::FlashFree, 0, 2)]));
    }
}
