//! Trims, and the traffic of the metadata log ([`super::log`]).

use nandle_nand::{Block, Cause, Note, OpId, PageUse};
use smallvec::SmallVec;

use super::Durability;
use super::log::{RECORD_BYTES, sectors_per_bitmap, write_bitmap, write_pages};
use crate::flash::{Flash, Record, TrimRecord};
use crate::map::{run_mask, runs};
use crate::schemes::Schemes;
use crate::space::{GroupId, PageClass};

/// The part of the sectors from `lsn` up to `end` that falls in logical page `lpn`, as a mask.
pub(super) fn mask_in(lpn: u64, lsn: u64, end: u64, spp: u64) -> u64 {
    let from = lsn.max(lpn * spp) - lpn * spp;
    let to = end.min((lpn + 1) * spp) - lpn * spp;
    run_mask(from as u32, (to - from) as u32)
}

fn records_per_page(flash: &Flash) -> u32 {
    flash.geometry().page_bytes / RECORD_BYTES
}

fn stores_any(flash: &Flash, lsn: u64, sectors: u64) -> bool {
    let spp = u64::from(flash.sectors_per_page());
    let end = lsn + sectors;
    (lsn / spp..=(end - 1) / spp).any(|lpn| flash.stored(lpn as u32, mask_in(lpn, lsn, end, spp)) != 0)
}

impl Durability {
    /// The sectors from `lsn` are no longer stored; the record waits in RAM.
    pub(crate) fn trim(&mut self, flash: &mut Flash, schemes: &mut Schemes, lsn: u64, sectors: u64) {
        let spp = u64::from(flash.sectors_per_page());
        let end = lsn + sectors;
        let emptied = flash.blocks().emptied().len();
        for lpn in lsn / spp..=(end - 1) / spp {
            if flash.fragments().is_unmapped(lpn as u32) {
                continue;
            }
            flash.load_map_page_of(lpn as u32);
            flash.detach(lpn as u32, mask_in(lpn, lsn, end, spp));
            schemes.trimmed_page(flash, lpn as u32);
        }
        let seq = flash.media_mut().array_mut().take_seq();
        let record = TrimRecord { lsn, sectors, seq };
        flash.record(Record::Trim(record));
        self.log.learn(record);
        schemes.trimmed(flash, lsn, sectors);
        let emptied = flash.blocks().emptied().len() - emptied;
        flash.stats_mut().trim_records += 1;
        flash.stats_mut().block_erases_by_trim += emptied as u64;
        self.keep_log_short(flash, schemes);
    }

    /// Writes the log when a page of records waits.
    pub(crate) fn keep_log_short(&mut self, flash: &mut Flash, schemes: &mut Schemes) {
        if flash.records().len() as u32 >= records_per_page(flash) {
            self.write_log(flash, schemes, None);
        }
    }

    /// Whether another record finds room.
    pub(crate) fn has_room(&self, flash: &Flash) -> bool {
        (flash.records().len() as u32) < records_per_page(flash) - 1
            || flash.has_room(self.log.next_page(), GroupId::System, PageClass::SYSTEM, 1)
    }

    /// Writes all records that wait, or the whole log again if that halves it. With `plane`, a block of
    /// that plane is about to be erased: its collection blocks serve if there is no other room.
    /// What finds no room goes on waiting.
    pub(crate) fn write_log(&mut self, flash: &mut Flash, schemes: &mut Schemes, plane: Option<u32>) {
        if self.rewrite_log(flash, schemes, plane) {
            return;
        }
        let page_bytes = flash.geometry().page_bytes;
        let per_page = records_per_page(flash) as usize;
        let mut programs: SmallVec<[OpId; 4]> = SmallVec::new();
        while !flash.records().is_empty() {
            let Some(place) = self.log_place(flash, plane, 1) else { break };
            let count = per_page.min(flash.records().len());
            let page = write_pages(&flash.records()[..count], page_bytes).swap_remove(0);
            let Some(op) = self.write_log_page(flash, place, page) else { break };
            programs.push(op);
            flash.drop_records(count);
        }
        flash.seal_ops(&programs);
    }

    /// Where `pages` log pages find room: in their usual places (none), or in the collection blocks of a plane.
    fn log_place(&self, flash: &Flash, plane: Option<u32>, pages: u32) -> Option<Option<(u32, GroupId)>> {
        let class = PageClass::SYSTEM;
        let planes = flash.geometry().planes();
        // Consecutive log pages go round the planes.
        let usual = if pages == 1 {
            flash.has_room(self.log.next_page(), GroupId::System, class, 1)
        } else {
            (0..planes).all(|p| flash.room(p, GroupId::System, class) >= pages.div_ceil(planes))
        };
        if usual {
            return Some(None);
        }
        // Survivors with blocks of their own, and cold data, may have used the reserve up: any open block serves.
        let urgent = plane.into_iter().map(|plane| (plane, GroupId::Survivors));
        let others = (0..if plane.is_some() { planes } else { 0 }).map(|plane| (plane, GroupId::System));
        let cold = plane.into_iter().map(|plane| (plane, GroupId::Cold));
        let fits = |&(plane, group): &(u32, GroupId)| flash.room(plane, group, class) >= pages;
        urgent.chain(others).chain(cold).find(fits).map(Some)
    }

    /// Writes one page of the log; none if there is no room for it after all.
    fn write_log_page(
        &mut self,
        flash: &mut Flash,
        place: Option<(u32, GroupId)>,
        bytes: Vec<u8>,
    ) -> Option<OpId> {
        let number = self.log.next_page();
        let (plane, group) = match place {
            Some(place) => place,
            None => (flash.choose_plane(number, GroupId::System, PageClass::SYSTEM)?, GroupId::System),
        };
        let (ppn, op) = flash.append_system(plane, group, PageUse::Meta, number, Cause::Meta, &[]);
        flash.media_mut().array_mut().set_note(ppn, Note::new(&bytes));
        self.log.add_page(number, ppn);
        Some(op)
    }

    /// Writes the whole set of trims again if that halves the log; the old pages die.
    fn rewrite_log(&mut self, flash: &mut Flash, schemes: &mut Schemes, plane: Option<u32>) -> bool {
        let per_page = records_per_page(flash) as usize;
        let page_bytes = flash.geometry().page_bytes;
        let sectors = u64::from(flash.logical_pages()) * u64::from(flash.sectors_per_page());
        let windows = sectors.div_ceil(sectors_per_bitmap(page_bytes)) as usize;
        let more = schemes.record_count();
        let least = self.log.range_count().div_ceil(per_page).min(windows + 1) + more.div_ceil(per_page);
        if self.log.pages().len() < 2 * least.max(1) {
            return false;
        }
        self.prune_log(flash);
        let (mut pages, mut records) = self.whole_log(flash);
        let count = pages.len() + (records.len() + more).div_ceil(per_page);
        let Some(place) = self.log_place(flash, plane, count as u32) else { return false };
        // Newer than the bitmaps: what was trimmed before it was claimed is not trimmed again.
        records.extend(schemes.renew_records(flash).into_iter().map(Record::Scheme));
        pages.extend(write_pages(&records, page_bytes));
        let old = self.log.take_pages();
        flash.drop_records(flash.records().len());
        let programs: Vec<OpId> =
            pages.into_iter().filter_map(|page| self.write_log_page(flash, place, page)).collect();
        flash.seal_ops(&programs);
        for (_, ppn) in old {
            // Programs of one log are not ordered among each other: all are waited for.
            for &op in &programs {
                flash.media_mut().supersede(ppn, op);
            }
            flash.died(ppn);
        }
        true
    }

    /// The whole set of trims as pages: records, or a bitmap where there are too many of them.
    fn whole_log(&mut self, flash: &mut Flash) -> (Vec<Vec<u8>>, Vec<Record>) {
        let page_bytes = flash.geometry().page_bytes;
        let window = sectors_per_bitmap(page_bytes);
        let per_page = records_per_page(flash) as usize;
        let mut windows: std::collections::BTreeMap<u64, Vec<TrimRecord>> = std::collections::BTreeMap::new();
        for range in self.log.ranges() {
            let (mut lsn, end) = (range.lsn, range.lsn + range.sectors);
            while lsn < end {
                let to = end.min((lsn / window + 1) * window);
                windows.entry(lsn / window).or_default().push(TrimRecord { lsn, sectors: to - lsn, ..range });
                lsn = to;
            }
        }
        let (mut pages, mut records) = (vec![], vec![]);
        for (number, ranges) in windows {
            if ranges.len() <= per_page {
                records.extend(ranges.into_iter().map(Record::Trim));
                continue;
            }
            // A bitmap is newer than everything in it: sectors that hold newer data, still on its
            // way to flash, keep their own record.
            let (stored, gone): (Vec<_>, Vec<_>) =
                ranges.into_iter().partition(|r| stores_any(flash, r.lsn, r.sectors));
            records.extend(stored.into_iter().map(Record::Trim));
            let seq = flash.media_mut().array_mut().take_seq();
            pages.push(write_bitmap(number * window, &gone, seq, page_bytes));
        }
        (pages, records)
    }

    /// Forgets trims of sectors whose newer data is on flash.
    fn prune_log(&mut self, flash: &Flash) {
        let spp = u64::from(flash.sectors_per_page());
        let ranges: Vec<TrimRecord> = self.log.ranges().collect();
        for range in ranges {
            let end = range.lsn + range.sectors;
            for lpn in range.lsn / spp..=(end - 1) / spp {
                if flash.fragments().is_unmapped(lpn as u32) {
                    continue;
                }
                for f in flash.fragments().get(lpn as u32, flash.array()) {
                    if flash.media().program_of(f.ppn).is_some() {
                        continue;
                    }
                    for (start, len) in runs(f.mask) {
                        let from = (lpn * spp + u64::from(start)).max(range.lsn);
                        let to = (lpn * spp + u64::from(start + len)).min(end);
                        if from < to {
                            self.log.forget(from, to);
                        }
                    }
                }
            }
        }
    }

    /// `block` is not erased before the pages of the log that are under way are on flash.
    pub(super) fn hold_for_log(&self, flash: &mut Flash, block: Block) {
        let ppn = flash.geometry().ppn(block, 0);
        for &(_, page) in self.log.pages() {
            if let Some(op) = flash.media().program_of(page) {
                flash.media_mut().supersede(ppn, op);
            }
        }
    }
}
