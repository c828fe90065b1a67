//! The metadata log: what the out-of-band areas cannot tell.
//!
//! A trim leaves no page behind, so without a record an older copy would come back after a power
//! cut. Records collect in RAM and are written, a page at a time, when a page is full, when a
//! flush asks for it, or before a block with trimmed sectors is erased. When too many log pages
//! are live the whole set of records is written anew and the old pages die.
//!
//! FlashAlloc's instances are in it too: a record for each range when one is made, and a record of
//! its end.

use std::collections::BTreeMap;

use nandle_nand::Ppn;

/// Bytes of a record: first sector, sectors, sequence number.
pub(crate) const RECORD_BYTES: u32 = 24;

/// In a record's count of sectors: a bitmap of them follows.
const BITMAP: u64 = 1 << 63;

/// `sectors` sectors from `lsn` were trimmed at sequence number `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrimRecord {
    pub lsn: u64,
    pub sectors: u64,
    pub seq: u64,
}

/// What happened to a FlashAlloc instance. `born`, the sequence number of its making, names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ObjectRecord {
    /// It has the range `sectors` sectors from `lsn`; `blocks` blocks in all, all of them in `home`.
    Range { lsn: u64, sectors: u64, home: u16, blocks: u32, born: u64 },
    /// It is at its end.
    End { born: u64, seq: u64 },
    /// All instances are named anew: by the next `instances` sequence numbers, in `ranges` records.
    /// Once all of those are on flash, older records say nothing.
    Anew { seq: u64, instances: u64, ranges: u64 },
}

/// A record of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Record {
    Trim(TrimRecord),
    Object(ObjectRecord),
}

// Three words. The last one: kind 8 | sequence number 56. A range: blocks 24 | lsn 40, home 16 | sectors 40.
const KIND: u32 = 56;
const WIDE: u32 = 40;

impl Record {
    fn words(self) -> [u64; 3] {
        match self {
            Self::Trim(TrimRecord { lsn, sectors, seq }) => [lsn, sectors, seq],
            Self::Object(ObjectRecord::Range { lsn, sectors, home, blocks, born }) => {
                [lsn | u64::from(blocks) << WIDE, sectors | u64::from(home) << WIDE, born | 1 << KIND]
            }
            Self::Object(ObjectRecord::End { born, seq }) => [born, 0, seq | 2 << KIND],
            Self::Object(ObjectRecord::Anew { seq, instances, ranges }) => {
                [instances, ranges, seq | 3 << KIND]
            }
        }
    }
    fn from_words([a, b, c]: [u64; 3]) -> Option<Self> {
        let (seq, low) = (c & ((1 << KIND) - 1), |word: u64| word & ((1 << WIDE) - 1));
        match c >> KIND {
            0 => Some(Self::Trim(TrimRecord { lsn: a, sectors: b, seq: c })),
            1 => Some(Self::Object(ObjectRecord::Range {
                lsn: low(a),
                sectors: low(b),
                home: (b >> WIDE) as u16,
                blocks: (a >> WIDE) as u32,
                born: seq,
            })),
            2 => Some(Self::Object(ObjectRecord::End { born: a, seq })),
            3 => Some(Self::Object(ObjectRecord::Anew { seq, instances: a, ranges: b })),
            _ => None,
        }
    }
    fn write(self, out: &mut Vec<u8>) {
        self.words().iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
    }
    /// When it was made, among everything that is written.
    pub fn seq(&self) -> u64 {
        match *self {
            Self::Trim(TrimRecord { seq, .. })
            | Self::Object(
                ObjectRecord::Range { born: seq, .. }
                | ObjectRecord::End { seq, .. }
                | ObjectRecord::Anew { seq, .. },
            ) => seq,
        }
    }
}

/// Logical sectors that one log page can describe as a bitmap.
pub(crate) fn sectors_per_bitmap(page_bytes: u32) -> u64 {
    u64::from(page_bytes - RECORD_BYTES) * 8
}

/// The most log pages that can be live at a time on a device of `sectors` logical sectors: the whole
/// set as bitmaps, twice over before it is written anew, and the new one beside it.
pub(crate) fn most_pages(sectors: u64, page_bytes: u32) -> u32 {
    3 * (sectors.div_ceil(sectors_per_bitmap(page_bytes)) as u32 + 1) + 2
}

/// What a log page says.
pub(crate) fn read_page(mut bytes: &[u8], mut found: impl FnMut(Record)) {
    while let Some((head, rest)) = bytes.split_at_checked(RECORD_BYTES as usize) {
        let word = |n: usize| u64::from_le_bytes(head[8 * n..8 * n + 8].try_into().unwrap_or_default());
        let (lsn, count, seq) = (word(0), word(1), word(2));
        bytes = rest;
        if count & BITMAP == 0 {
            Record::from_words([lsn, count, seq]).into_iter().for_each(&mut found);
            continue;
        }
        let Some((bits, rest)) = bytes.split_at_checked((count & !BITMAP).div_ceil(8) as usize) else {
            return;
        };
        bytes = rest;
        let mut start = None;
        for n in 0..=count & !BITMAP {
            let set = n < count & !BITMAP && bits[n as usize / 8] >> (n % 8) & 1 == 1;
            match (start, set) {
                (None, true) => start = Some(n),
                (Some(from), false) => {
                    found(Record::Trim(TrimRecord { lsn: lsn + from, sectors: n - from, seq }));
                    start = None;
                }
                _ => {}
            }
        }
    }
}

/// The pages that hold `records`.
pub(crate) fn write_pages(records: &[Record], page_bytes: u32) -> Vec<Vec<u8>> {
    let mut pages = vec![];
    for chunk in records.chunks((page_bytes / RECORD_BYTES) as usize) {
        let mut page = Vec::with_capacity(page_bytes as usize);
        chunk.iter().for_each(|record| record.write(&mut page));
        pages.push(page);
    }
    pages
}

/// A page that holds the sectors `of` within a window from `lsn` as a bitmap.
pub(crate) fn write_bitmap(lsn: u64, of: &[TrimRecord], seq: u64, page_bytes: u32) -> Vec<u8> {
    let sectors = sectors_per_bitmap(page_bytes);
    let mut page = Vec::with_capacity(page_bytes as usize);
    Record::Trim(TrimRecord { lsn, sectors: sectors | BITMAP, seq }).write(&mut page);
    let mut bits = vec![0_u8; sectors as usize / 8];
    for n in of.iter().flat_map(|r| r.lsn - lsn..r.lsn + r.sectors - lsn) {
        bits[n as usize / 8] |= 1 << (n % 8);
    }
    page.extend_from_slice(&bits);
    page
}

/// Records in RAM, and the log's pages in flash.
#[derive(Clone, Debug, Default)]
pub(crate) struct MetaLog {
    /// Not yet on flash.
    pub pending: Vec<Record>,
    /// Every range that is trimmed, with the newest sequence number: first sector -> (end, seq).
    trimmed: BTreeMap<u64, (u64, u64)>,
    /// Live log pages, oldest first: (number in the out-of-band area, where).
    pub pages: Vec<(u32, Ppn)>,
    pub next_page: u32,
}

impl MetaLog {
    /// A range was trimmed: it replaces whatever older records say of it.
    pub fn trim(&mut self, record: TrimRecord) {
        self.pending.push(Record::Trim(record));
        self.learn(record);
    }

    /// Enters a record into the set of trimmed ranges; records come in ascending sequence.
    pub fn learn(&mut self, record: TrimRecord) {
        let (start, end) = (record.lsn, record.lsn + record.sectors);
        self.forget(start, end);
        self.trimmed.insert(start, (end, record.seq));
    }

    /// Removes a range from the set.
    pub fn forget(&mut self, start: u64, end: u64) {
        let overlapping: Vec<_> = self
            .trimmed
            .range(..end)
            .rev()
            .take_while(|(_, (e, _))| *e > start)
            .map(|(&s, &(e, q))| (s, e, q))
            .collect();
        for (s, e, seq) in overlapping {
            self.trimmed.remove(&s);
            if s < start {
                self.trimmed.insert(s, (start, seq));
            }
            if e > end {
                self.trimmed.insert(end, (e, seq));
            }
        }
    }

    /// Every range that is trimmed.
    pub fn ranges(&self) -> impl Iterator<Item = TrimRecord> + '_ {
        self.trimmed.iter().map(|(&lsn, &(end, seq))| TrimRecord { lsn, sectors: end - lsn, seq })
    }
    /// How many ranges are trimmed.
    pub fn range_count(&self) -> usize {
        self.trimmed.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn newer_trims_replace_older_ones() {
        let mut log = MetaLog::default();
        let record = |lsn, sectors, seq| TrimRecord { lsn, sectors, seq };
        log.trim(record(0, 10, 1));
        log.trim(record(20, 10, 2));
        log.trim(record(5, 20, 3));
        assert_eq!(log.ranges().collect::<Vec<_>>(), [record(0, 5, 1), record(5, 20, 3), record(25, 5, 2)]);
        log.forget(7, 9);
        assert_eq!(log.range_count(), 4);
    }

    #[test]
    fn pages_say_what_was_written() {
        let record = |lsn, sectors, seq| TrimRecord { lsn, sectors, seq };
        let trim = |lsn, sectors, seq| Record::Trim(TrimRecord { lsn, sectors, seq });
        let records: Vec<_> = (0..50).map(|n| trim(n * 10, 1 + n % 3, n)).collect();
        let mut found = vec![];
        for page in write_pages(&records, 512) {
            assert!(page.len() <= 512);
            read_page(&page, |r| found.push(r));
        }
        assert_eq!(found, records);
        let page = write_bitmap(100, &[record(100, 2, 0), record(107, 1, 0), record(4003, 1, 0)], 77, 512);
        assert_eq!(page.len(), 512);
        found.clear();
        read_page(&page, |r| found.push(r));
        assert_eq!(found, [trim(100, 2, 77), trim(107, 1, 77), trim(4003, 1, 77)]);
        // What is said of objects, too.
        let blocks = (1 << 24) - 1;
        let range = ObjectRecord::Range { lsn: (1 << 40) - 1, sectors: 77, home: 65_535, blocks, born: 5 };
        let anew = ObjectRecord::Anew { seq: 7, instances: 2, ranges: 3 };
        let records = [range, ObjectRecord::End { born: 5, seq: 9 }, anew].map(Record::Object);
        found.clear();
        read_page(&write_pages(&records, 512)[0], |r| found.push(r));
        assert_eq!(found, records);
        // Damaged pages end the reading, nothing else.
        read_page(&page[..200], |_| unreachable!("the bitmap is cut off"));
    }
}
