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

/// `sectors` sectors from `lsn` were trimmed at sequence number `seq`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TrimRecord {
    pub lsn: u64,
    pub sectors: u64,
    pub seq: u64,
}

impl TrimRecord {
    pub fn to_bytes(self) -> [u8; RECORD_BYTES as usize] {
        let mut out = [0; RECORD_BYTES as usize];
        for (n, value) in [self.lsn, self.sectors, self.seq].into_iter().enumerate() {
            out[8 * n..8 * n + 8].copy_from_slice(&value.to_le_bytes());
        }
        out
    }
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |n: usize| Some(u64::from_le_bytes(bytes.get(8 * n..8 * n + 8)?.try_into().ok()?));
        Some(Self { lsn: word(0)?, sectors: word(1)?, seq: word(2)? })
    }
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
    pub fn to_bytes(self) -> [u8; RECORD_BYTES as usize] {
        let words = match self {
            Self::Trim(trim) => return trim.to_bytes(),
            Self::Object(ObjectRecord::Range { lsn, sectors, home, blocks, born }) => {
                [lsn | u64::from(blocks) << WIDE, sectors | u64::from(home) << WIDE, born | 1 << KIND]
            }
            Self::Object(ObjectRecord::End { born, seq }) => [born, 0, seq | 2 << KIND],
            Self::Object(ObjectRecord::Anew { seq, instances, ranges }) => {
                [instances, ranges, seq | 3 << KIND]
            }
        };
        let mut out = [0; RECORD_BYTES as usize];
        for (n, word) in words.into_iter().enumerate() {
            out[8 * n..8 * n + 8].copy_from_slice(&word.to_le_bytes());
        }
        out
    }
    pub fn from_bytes(bytes: &[u8]) -> Option<Self> {
        let word = |n: usize| Some(u64::from_le_bytes(bytes.get(8 * n..8 * n + 8)?.try_into().ok()?));
        let (a, b, c) = (word(0)?, word(1)?, word(2)?);
        let (seq, low) = (c & ((1 << KIND) - 1), |word: u64| word & ((1 << WIDE) - 1));
        match c >> KIND {
            0 => TrimRecord::from_bytes(bytes).map(Self::Trim),
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
        let bytes = record(7, 8, 9).to_bytes();
        assert_eq!(Record::from_bytes(&bytes), Some(Record::Trim(record(7, 8, 9))));
    }

    #[test]
    fn object_records_survive_their_encoding() {
        let range = ObjectRecord::Range {
            lsn: (1 << 40) - 1,
            sectors: 77,
            home: 65_535,
            blocks: (1 << 24) - 1,
            born: 5,
        };
        let anew = ObjectRecord::Anew { seq: 7, instances: 2, ranges: 3 };
        for record in [range, ObjectRecord::End { born: 5, seq: 9 }, anew] {
            let record = Record::Object(record);
            assert_eq!(Record::from_bytes(&record.to_bytes()), Some(record));
        }
    }
}
