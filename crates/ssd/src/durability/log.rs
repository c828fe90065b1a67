//! The metadata log: what the out-of-band areas cannot tell.
//!
//! A trim leaves no page behind, so without a record an older copy would come back after a power
//! cut. Records collect in RAM and are written, a page at a time, when a page is full, when a
//! flush asks for it, or before a block with trimmed sectors is erased. When too many log pages
//! are live the whole set of records is written again and the old pages die.
//!
//! Records of schemes are in it too; what they say is the schemes' affair.

use std::collections::BTreeMap;

use nandle_nand::Ppn;

use crate::flash::{Record, SchemeRecord, TrimRecord};

/// Bytes of a record: first sector, sectors, sequence number.
pub(super) const RECORD_BYTES: u32 = 24;

/// In a record's count of sectors: a bitmap of them follows.
const BITMAP: u64 = 1 << 63;

// Three words. The last one: kind 8 (0 = a trim) | sequence number 56.
const KIND: u32 = 56;

fn words(record: Record) -> [u64; 3] {
    match record {
        Record::Trim(TrimRecord { lsn, sectors, seq }) => [lsn, sectors, seq],
        Record::Scheme(SchemeRecord { kind, seq, words: [a, b] }) => [a, b, seq | u64::from(kind) << KIND],
    }
}

fn from_words([a, b, c]: [u64; 3]) -> Record {
    match (c >> KIND) as u8 {
        0 => Record::Trim(TrimRecord { lsn: a, sectors: b, seq: c }),
        kind => Record::Scheme(SchemeRecord { kind, seq: c & ((1 << KIND) - 1), words: [a, b] }),
    }
}

fn write(record: Record, out: &mut Vec<u8>) {
    words(record).iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Logical sectors that one log page can describe as a bitmap.
pub(super) fn sectors_per_bitmap(page_bytes: u32) -> u64 {
    u64::from(page_bytes - RECORD_BYTES) * 8
}

/// The most log pages that can be live at a time on a device of `sectors` logical sectors: the whole
/// set as bitmaps, twice over before it is written again, and the new one beside it.
pub(super) fn most_pages(sectors: u64, page_bytes: u32) -> u32 {
    3 * (sectors.div_ceil(sectors_per_bitmap(page_bytes)) as u32 + 1) + 2
}

/// What a log page says.
pub(super) fn read_page(mut bytes: &[u8], mut found: impl FnMut(Record)) {
    while let Some((head, rest)) = bytes.split_at_checked(RECORD_BYTES as usize) {
        let word = |n: usize| u64::from_le_bytes(head[8 * n..8 * n + 8].try_into().unwrap_or_default());
        let (lsn, count, seq) = (word(0), word(1), word(2));
        bytes = rest;
        if count & BITMAP == 0 || seq >> KIND != 0 {
            found(from_words([lsn, count, seq]));
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
pub(super) fn write_pages(records: &[Record], page_bytes: u32) -> Vec<Vec<u8>> {
    let mut pages = vec![];
    for chunk in records.chunks((page_bytes / RECORD_BYTES) as usize) {
        let mut page = Vec::with_capacity(page_bytes as usize);
        chunk.iter().for_each(|&record| write(record, &mut page));
        pages.push(page);
    }
    pages
}

/// A page that holds the sectors `of` within a window from `lsn` as a bitmap.
pub(super) fn write_bitmap(lsn: u64, of: &[TrimRecord], seq: u64, page_bytes: u32) -> Vec<u8> {
    let sectors = sectors_per_bitmap(page_bytes);
    let mut page = Vec::with_capacity(page_bytes as usize);
    write(Record::Trim(TrimRecord { lsn, sectors: sectors | BITMAP, seq }), &mut page);
    let mut bits = vec![0_u8; sectors as usize / 8];
    for n in of.iter().flat_map(|r| r.lsn - lsn..r.lsn + r.sectors - lsn) {
        bits[n as usize / 8] |= 1 << (n % 8);
    }
    page.extend_from_slice(&bits);
    page
}

/// The trims that older copies must not undo, and the log's pages in flash.
#[derive(Clone, Debug, Default)]
pub(super) struct Log {
    /// Every range that is trimmed, with the newest sequence number: first sector -> (end, seq).
    trimmed: BTreeMap<u64, (u64, u64)>,
    /// Live log pages, oldest first: (number in the out-of-band area, where).
    pages: Vec<(u32, Ppn)>,
    next_page: u32,
}

impl Log {
    /// Live log pages, oldest first.
    pub fn pages(&self) -> &[(u32, Ppn)] {
        &self.pages
    }
    pub fn next_page(&self) -> u32 {
        self.next_page
    }
    /// A page was written, or found at power-on.
    pub fn add_page(&mut self, number: u32, ppn: Ppn) {
        self.pages.push((number, ppn));
        self.next_page = self.next_page.max(number + 1);
    }
    pub fn take_pages(&mut self) -> Vec<(u32, Ppn)> {
        std::mem::take(&mut self.pages)
    }
    /// A page is somewhere else now.
    pub fn moved(&mut self, number: u32, to: Ppn) {
        if let Some(entry) = self.pages.iter_mut().find(|(n, _)| *n == number) {
            entry.1 = to;
        }
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
        let mut log = Log::default();
        let record = |lsn, sectors, seq| TrimRecord { lsn, sectors, seq };
        log.learn(record(0, 10, 1));
        log.learn(record(20, 10, 2));
        log.learn(record(5, 20, 3));
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
        // What schemes say, too, whatever it is.
        let scheme = |kind, seq| Record::Scheme(SchemeRecord { kind, seq, words: [u64::MAX, 1 << 63 | 7] });
        let records = [scheme(1, 5), scheme(255, 9), trim(1, 2, 10)];
        found.clear();
        read_page(&write_pages(&records, 512)[0], |r| found.push(r));
        assert_eq!(found, records);
        // Damaged pages end the reading, nothing else.
        read_page(&page[..200], |_| unreachable!("the bitmap is cut off"));
    }
}
