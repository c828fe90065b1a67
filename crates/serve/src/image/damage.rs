//! What is wrong with a page record, for people.

use nandle_ssd::nand::PageUse;

use super::record::{Found, PAGE_HEAD, PageRecord, read_page};

/// The bytes where a page's record should be.
pub(super) struct Slot(Vec<u8>);

impl Slot {
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.to_vec())
    }

    fn record(&self, ppn: u32) -> Option<PageRecord> {
        PageRecord::read(ppn, &self.0[..PAGE_HEAD])
    }

    /// What is wrong with it, beside a copy of the head that was written.
    pub fn describe(&self, ppn: u32, copy: &PageRecord) -> String {
        if self.0.iter().all(|&byte| byte == 0) {
            return "its record is gone".into();
        }
        if let Found::Sound(page) = read_page(ppn, &self.0) {
            let older = page.record.seq < copy.seq;
            return if older { "an older record is in its place" } else { "another record is in its place" }
                .into();
        }
        let ppn_here = u32::from_le_bytes([self.0[8], self.0[9], self.0[10], self.0[11]]);
        if matches!(read_page(ppn_here, &self.0), Found::Sound(_)) {
            return "the record of another page is in its place".into();
        }
        self.wrong(ppn)
    }

    /// What is wrong with it, by itself, and what it says that it held.
    pub fn describe_alone(&self, ppn: u32, sectors_per_page: u32) -> String {
        let says = self.record(ppn).map(|read| held(&read, sectors_per_page)).filter(|held| !held.is_empty());
        match says {
            Some(held) => format!("{}; it says that it held sectors ({held})", self.wrong(ppn)),
            None => format!("{}; what it held is not known", self.wrong(ppn)),
        }
    }

    fn wrong(&self, ppn: u32) -> String {
        match self.record(ppn) {
            None => "its out-of-band area is gone".into(),
            Some(read) if read.kind == PageUse::Torn => "its out-of-band area makes no sense".into(),
            Some(_) => "its checksum is wrong".into(),
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
