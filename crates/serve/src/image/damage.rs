//! What is wrong with a page record, for people.

use nandle_ssd::nand::{Geometry, PageUse};

use super::record::{Found, PAGE_HEAD, PageRecord, read_page};

/// The bytes where a page's record should be.
pub(super) struct Slot {
    bytes: Vec<u8>,
    page_bytes: usize,
}

impl Slot {
    pub fn new(bytes: &[u8], geometry: &Geometry) -> Self {
        Self { bytes: bytes.to_vec(), page_bytes: geometry.page_bytes as usize }
    }

    /// The record, as long as it says that it was meant to be.
    fn record(&self, ppn: u32) -> Option<(PageRecord, &[u8])> {
        let read = PageRecord::read(ppn, &self.bytes[..PAGE_HEAD])?;
        let length = if read.kind.is_data() {
            self.page_bytes
        } else if read.kind == PageUse::Torn {
            // A head that makes no sense may still have the length.
            u32::from_le_bytes([self.bytes[12], self.bytes[13], self.bytes[14], self.bytes[15]]) as usize
        } else {
            read.length
        };
        let end = PAGE_HEAD.saturating_add(length).min(self.bytes.len());
        Some((read, &self.bytes[..end]))
    }

    /// What is wrong with it, beside a copy of the head that was written.
    pub fn describe(&self, ppn: u32, copy: &PageRecord) -> String {
        if self.bytes.iter().all(|&byte| byte == 0) {
            return "its record is gone".into();
        }
        if let Found::Sound(page) = read_page(ppn, &self.bytes) {
            let older = page.record.seq < copy.seq;
            return if older { "an older record is in its place" } else { "another record is in its place" }
                .into();
        }
        let ppn_here = u32::from_le_bytes([self.bytes[8], self.bytes[9], self.bytes[10], self.bytes[11]]);
        if matches!(read_page(ppn_here, &self.bytes), Found::Sound(_)) {
            return "the record of another page is in its place".into();
        }
        self.wrong(ppn)
    }

    /// What is wrong with it, by itself, and what it says that it held.
    pub fn describe_alone(&self, ppn: u32, sectors_per_page: u32) -> String {
        let says =
            self.record(ppn).map(|(read, _)| held(&read, sectors_per_page)).filter(|held| !held.is_empty());
        match says {
            Some(held) => format!("{}; it says that it held sectors ({held})", self.wrong(ppn)),
            None => format!("{}; what it held is not known", self.wrong(ppn)),
        }
    }

    fn wrong(&self, ppn: u32) -> String {
        let Some((read, record)) = self.record(ppn) else { return "its out-of-band area is gone".into() };
        match flipped(record) {
            Some(at) if at < PAGE_HEAD => format!("byte {at} of its out-of-band area is wrong"),
            Some(at) => format!("byte {} of its contents is wrong", at - PAGE_HEAD),
            None if read.kind == PageUse::Torn => "its out-of-band area makes no sense".into(),
            None => "its checksum is wrong".into(),
        }
    }
}

/// The sectors that a page of data held.
pub(super) fn held(page: &PageRecord, sectors_per_page: u32) -> String {
    let runs: Vec<String> = match page.home {
        Some((lpn, start, len)) if page.kind.is_data() => {
            vec![format!("{len} from {}", u64::from(lpn) * u64::from(sectors_per_page) + u64::from(start))]
        }
        _ if page.kind.is_data() => {
            page.extents.iter().take(4).map(|e| format!("{} from {}", e.sectors, e.lsn)).collect()
        }
        _ => vec![],
    };
    runs.join(", ") + if page.kind.is_data() && page.extents.len() > 4 { ", ..." } else { "" }
}

/// The one byte of a page record that, if it alone is wrong, explains its wrong checksum.
///
/// A checksum is linear: right and wrong one differ by what the wrong bits alone come to. Going back
/// from the end a byte at a time, that difference is a row of the table where the byte was.
fn flipped(record: &[u8]) -> Option<usize> {
    const POLYNOMIAL: u32 = 0xedb8_8320; // CRC-32 of IEEE 802.3, reflected
    let stored = u32::from_le_bytes(record.get(4..8)?.try_into().ok()?);
    let mut differs = stored ^ crc32fast::hash(&record[8..]);
    if differs == 0 {
        // The checksum covers neither itself nor the mark before it.
        return (0..4).find(|&at| record[at] != b"page"[at]);
    }
    let table: [u32; 256] = std::array::from_fn(|n| {
        (0..8).fold(n as u32, |c, _| c >> 1 ^ if c & 1 == 1 { POLYNOMIAL } else { 0 })
    });
    let mut row = [0_u32; 256];
    table.iter().enumerate().for_each(|(n, word)| row[(word >> 24) as usize] = n as u32);
    let bytes = differs.to_le_bytes();
    if bytes.iter().filter(|&&byte| byte != 0).count() == 1 {
        return bytes.iter().position(|&byte| byte != 0).map(|n| 4 + n);
    }
    for at in (8..record.len()).rev() {
        if table[1..].contains(&differs) {
            return Some(at);
        }
        let n = row[(differs >> 24) as usize];
        differs = (differs ^ table[n as usize]) << 8 | n;
    }
    None
}
