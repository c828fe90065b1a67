//! Objects that nobody announced: aligned ranges and sequential runs of writes.

use super::super::StreamsConfig;
use super::FlashAlloc;
use crate::flash::Flash;

/// Sequential writes watched at a time.
const WATCHED: usize = 64;

/// The ends of sequential writes.
#[derive(Clone, Debug)]
pub(super) struct Runs {
    /// (next sector, length so far), the most recent last.
    ends: Vec<(u64, u64)>,
    /// Sectors of an aligned range, and of the least run; 0 = never.
    align: u64,
    least: u64,
    page: u64,
    /// Sectors of a block.
    block: u64,
}

impl Runs {
    pub fn new(config: &StreamsConfig, sector_bytes: u32, page: u32, block: u64) -> Self {
        let sectors = |bytes: u64| bytes / u64::from(sector_bytes);
        let (align, least) = (sectors(config.auto_align), sectors(config.auto_run));
        Self { ends: Vec::new(), align, least, page: u64::from(page), block }
    }

    /// A write of `sectors` sectors from `lsn` comes: the range that it makes an object of, if it does.
    fn watch(&mut self, lsn: u64, sectors: u64, logical: u64) -> Option<(u64, u64)> {
        if self.align == 0 && self.least == 0 {
            return None;
        }
        let known = self.ends.iter().position(|&(next, _)| next == lsn);
        let before = known.map_or(0, |n| self.ends.remove(n).1);
        if self.ends.len() == WATCHED {
            self.ends.remove(0);
        }
        self.ends.push((lsn + sectors, before + sectors));
        let mut range = None;
        if self.align > 0 {
            let into = lsn % self.align;
            let on_its_way = before > 0 || sectors > self.page;
            if into <= before && on_its_way && lsn - into + self.align <= logical {
                range = Some((lsn, self.align - into));
            }
        }
        if self.least > 0 && before >= self.least && lsn + self.block <= logical {
            range = range.or(Some((lsn, self.block)));
        }
        range
    }
}

impl FlashAlloc {
    /// A host write is about to be carried out: it may make an object.
    pub(super) fn guess(&mut self, flash: &mut Flash, lsn: u64, sectors: u64, stream: u16) {
        let logical = u64::from(flash.logical_pages()) * u64::from(flash.sectors_per_page());
        let Some((lsn, n)) = self.runs.watch(lsn, sectors, logical) else { return };
        let claimed = |d: &crate::space::Dedicated| !d.claims().overlapping(lsn, lsn + n).is_empty();
        if !flash.space().dedicated().is_some_and(claimed) {
            // Without a clean block the write is a normal one.
            let _ = self.make(flash, &[(lsn, n)], stream, true);
        }
    }
}
