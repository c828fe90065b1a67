//! Ranges of sectors, and how commands list them.
//!
//! NVMe's Dataset Management and FlashAlloc's command list ranges alike: 16 bytes each, little-endian,
//! of which 4 are attributes that nobody heeds here, 4 the sectors, 8 the first sector.

use alloc::vec;
use alloc::vec::Vec;

use crate::Status;

/// Sectors in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Range {
    /// The first.
    pub first: u64,
    /// How many.
    pub sectors: u64,
}

impl Range {
    /// Bytes of a listed range.
    pub const BYTES: usize = 16;

    /// The sector behind the last one; none if there is no such number.
    #[must_use]
    pub const fn end(self) -> Option<u64> {
        self.first.checked_add(self.sectors)
    }

    /// Whether it ends within a drive of that many sectors.
    #[must_use]
    pub fn fits(self, sectors: u64) -> bool {
        self.end().is_some_and(|end| end <= sectors)
    }

    /// The ranges that a command names: those listed in `data`, or else the one.
    ///
    /// # Errors
    /// As [`decode`].
    pub fn list(first: u64, sectors: u64, data: &[u8]) -> Result<Vec<Self>, Status> {
        if data.is_empty() { Ok(vec![Self { first, sectors }]) } else { decode(data) }
    }

    /// Whether ranges can be those of one object: at most `most`, each with sectors that a drive of
    /// `sectors` has, none in two of them.
    ///
    /// # Errors
    /// [`Status::TooManyRanges`], [`Status::OutOfRange`] or [`Status::Overlap`], in this order.
    pub fn check_object(ranges: &[Self], most: usize, sectors: u64) -> Result<(), Status> {
        if ranges.len() > most {
            return Err(Status::TooManyRanges);
        }
        if ranges.iter().any(|range| range.sectors == 0 || !range.fits(sectors)) {
            return Err(Status::OutOfRange);
        }
        let mut sorted = ranges.to_vec();
        sorted.sort_unstable();
        if sorted.windows(2).any(|pair| pair[0].end() > Some(pair[1].first)) {
            return Err(Status::Overlap);
        }
        Ok(())
    }
}

/// The list of `ranges`.
///
/// # Errors
/// [`Status::OutOfRange`] if one has 2^32 sectors or more.
pub fn encode(ranges: &[Range]) -> Result<Vec<u8>, Status> {
    let mut data = Vec::with_capacity(ranges.len() * Range::BYTES);
    for range in ranges {
        let sectors = u32::try_from(range.sectors).map_err(|_| Status::OutOfRange)?;
        data.extend([0; 4]);
        data.extend(sectors.to_le_bytes());
        data.extend(range.first.to_le_bytes());
    }
    Ok(data)
}

/// The ranges of a list.
///
/// # Errors
/// [`Status::OutOfRange`] if it does not end with a whole range.
pub fn decode(data: &[u8]) -> Result<Vec<Range>, Status> {
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    let ranges = data.chunks_exact(Range::BYTES);
    if !ranges.remainder().is_empty() {
        return Err(Status::OutOfRange);
    }
    Ok(ranges.map(|bytes| Range { first: number(&bytes[8..]), sectors: number(&bytes[4..8]) }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn range(first: u64, sectors: u64) -> Range {
        Range { first, sectors }
    }

    #[test]
    fn ranges_survive_their_list() {
        let edges = [0, 1, 0x0102_0304_0506_0708, u64::MAX];
        let all: Vec<Range> =
            edges.iter().flat_map(|&f| [0, 1, 0xffff_ffff].map(|sectors| range(f, sectors))).collect();
        let data = encode(&all).expect("32 bits each");
        assert_eq!(data.len(), all.len() * Range::BYTES);
        assert_eq!(decode(&data), Ok(all));
    }

    #[test]
    fn a_listed_range_is_as_nvme_lays_it_out() {
        let data = encode(&[range(0x0102_0304_0506_0708, 0x0a0b_0c0d)]).expect("32 bits");
        assert_eq!(data, [0, 0, 0, 0, 0x0d, 0x0c, 0x0b, 0x0a, 8, 7, 6, 5, 4, 3, 2, 1]);
        let attributes = [&[0xff; 4], &data[4..]].concat();
        assert_eq!(decode(&attributes), decode(&data), "attributes do not count");
    }

    #[test]
    fn a_list_that_is_cut_short_is_refused() {
        let data = encode(&[range(1, 2), range(3, 4)]).expect("32 bits");
        for length in 0..=data.len() {
            let whole = length % Range::BYTES == 0;
            let count = decode(&data[..length]).map(|ranges| ranges.len());
            let expected = if whole { Ok(length / Range::BYTES) } else { Err(Status::OutOfRange) };
            assert_eq!(count, expected, "{length} bytes");
        }
        assert_eq!(Range::list(7, 8, &[]), Ok(vec![range(7, 8)]));
        assert_eq!(Range::list(7, 8, &data), decode(&data));
        assert_eq!(Range::list(7, 8, &data[1..]), Err(Status::OutOfRange));
    }

    #[test]
    fn a_list_has_no_room_for_more_than_32_bits_of_sectors() {
        assert_eq!(encode(&[range(0, 1 << 32)]), Err(Status::OutOfRange));
    }

    #[test]
    fn objects_are_of_few_ranges_that_exist_and_do_not_overlap() {
        let check = |ranges: &[Range]| Range::check_object(ranges, 3, 100);
        assert_eq!(check(&[range(90, 10), range(0, 90)]), Ok(()), "in any order, edge to edge");
        assert_eq!(check(&[range(0, 1); 4]), Err(Status::TooManyRanges));
        assert_eq!(check(&[range(0, 0)]), Err(Status::OutOfRange), "no sectors");
        assert_eq!(check(&[range(90, 11)]), Err(Status::OutOfRange));
        assert_eq!(check(&[range(u64::MAX, 2)]), Err(Status::OutOfRange), "no such number");
        assert_eq!(check(&[range(u64::MAX, u64::MAX)]), Err(Status::OutOfRange));
        assert_eq!(check(&[range(50, 10), range(59, 1)]), Err(Status::Overlap));
        assert_eq!(check(&[range(5, 1), range(5, 1)]), Err(Status::Overlap));
    }
}
