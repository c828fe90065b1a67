//! Trims, and the traffic of the metadata log ([`crate::log`]).

use nandle_nand::{Block, Cause, OpId, PageUse};

use crate::allocation::{PageClass, Role};
use crate::flash::{Flash, PLAIN};
use crate::fragments::{run_mask, runs};
use crate::log::{RECORD_BYTES, Record, TrimRecord, sectors_per_bitmap, write_bitmap, write_pages};

impl Flash {
    /// The sectors from `lsn` are no longer stored; the record waits in RAM.
    pub(crate) fn trim(&mut self, lsn: u64, sectors: u64) {
        let spp = u64::from(self.spp);
        let (first, last) = (lsn / spp, (lsn + sectors - 1) / spp);
        let emptied = self.blocks.emptied().len();
        for lpn in first..=last {
            if self.fragments.is_unmapped(lpn as u32) {
                continue;
            }
            let from = lsn.max(lpn * spp) - lpn * spp;
            let to = (lsn + sectors).min((lpn + 1) * spp) - lpn * spp;
            self.load_map_page_of(lpn as u32);
            self.detach(lpn as u32, run_mask(from as u32, (to - from) as u32));
            self.areas_follow(lpn as u32);
        }
        let seq = self.nand.array_mut().take_seq();
        self.log.trim(TrimRecord { lsn, sectors, seq });
        self.trim_objects(lsn, sectors);
        self.stats.trim_records += 1;
        self.stats.block_erases_by_trim += (self.blocks.emptied().len() - emptied) as u64;
        self.keep_log_short();
    }

    /// Writes the log when a page of records waits.
    pub(crate) fn keep_log_short(&mut self) {
        if self.log.pending.len() as u32 >= self.records_per_page() {
            self.write_log(None);
        }
    }

    /// Whether no trim waits to be recorded.
    pub(crate) fn log_is_clean(&self) -> bool {
        self.log.pending.is_empty()
    }

    /// Whether another trim can be recorded.
    pub(crate) fn log_has_room(&self) -> bool {
        (self.log.pending.len() as u32) < self.records_per_page() - 1
            || self.has_room(self.log.next_page, Role::System, PageClass::SYSTEM, 1)
    }

    fn records_per_page(&self) -> u32 {
        self.geometry().page_bytes / RECORD_BYTES
    }

    /// Writes all pending records, or the whole log anew if that halves it. With `plane`, a block of
    /// that plane is about to be erased: its collection blocks serve if there is no other room.
    /// What finds no room stays pending.
    pub(crate) fn write_log(&mut self, plane: Option<u32>) {
        if self.rewrite_log(plane) {
            return;
        }
        let page_bytes = self.geometry().page_bytes;
        let per_page = self.records_per_page() as usize;
        while !self.log.pending.is_empty() {
            let Some(place) = self.log_place(plane, 1) else { return };
            let count = per_page.min(self.log.pending.len());
            let page = write_pages(&self.log.pending[..count], page_bytes).swap_remove(0);
            self.write_log_page(place, page);
            self.log.pending.drain(..count);
        }
    }

    /// Where `pages` log pages find room: in their usual places (none), or in the collection blocks of a plane.
    fn log_place(&self, plane: Option<u32>, pages: u32) -> Option<Option<(u32, Role)>> {
        let class = PageClass::SYSTEM;
        let planes = self.geometry().planes();
        // Consecutive log pages go round the planes.
        let usual = if pages == 1 {
            self.has_room(self.log.next_page, Role::System, class, 1)
        } else {
            (0..planes).all(|p| self.room(p, Role::System, class) >= pages.div_ceil(planes))
        };
        if usual {
            return Some(None);
        }
        // Survivors with blocks of their own may have used the reserve up: any open block serves.
        let urgent = plane.into_iter().map(|plane| (plane, Role::Gc));
        let others = (0..if plane.is_some() { planes } else { 0 }).map(|plane| (plane, Role::System));
        urgent.chain(others).find(|&(plane, role)| self.room(plane, role, class) >= pages).map(Some)
    }

    fn write_log_page(&mut self, place: Option<(u32, Role)>, bytes: Vec<u8>) -> OpId {
        let number = self.log.next_page;
        self.log.next_page += 1;
        let (plane, role) = match place {
            Some(place) => place,
            None => {
                let plane = self.choose_plane(number, Role::System, PageClass::SYSTEM);
                (plane.expect("room was checked"), Role::System)
            }
        };
        let (ppn, op) = self.append_system(plane, role, PageUse::Meta, number, Cause::Meta);
        self.nand.array_mut().set_note(ppn, bytes.into());
        self.log.pages.push((number, ppn));
        op
    }

    /// Writes the whole set of trims anew if that halves the log; the old pages die.
    fn rewrite_log(&mut self, plane: Option<u32>) -> bool {
        let per_page = self.records_per_page() as usize;
        let windows = self.layout.logical_sectors.div_ceil(sectors_per_bitmap(self.geometry().page_bytes));
        let objects = self.streams.record_count();
        let least =
            self.log.range_count().div_ceil(per_page).min(windows as usize + 1) + objects.div_ceil(per_page);
        if self.log.pages.len() < 2 * least.max(1) {
            return false;
        }
        self.prune_log();
        let (mut pages, mut records) = self.whole_log();
        let count = pages.len() + (records.len() + objects).div_ceil(per_page);
        let Some(place) = self.log_place(plane, count as u32) else { return false };
        // Newer than the bitmaps: what was trimmed before it was allocated is not trimmed again.
        records.extend(self.streams.records_anew(self.nand.array_mut()));
        pages.extend(write_pages(&records, self.geometry().page_bytes));
        let old = std::mem::take(&mut self.log.pages);
        self.log.pending.clear();
        let programs: Vec<OpId> = pages.into_iter().map(|page| self.write_log_page(place, page)).collect();
        for (_, ppn) in old {
            // Programs of one log are not ordered among each other: all are waited for.
            for &op in &programs {
                self.nand.supersede(ppn, op);
            }
            self.blocks.set_dead(ppn, self.nand.now());
        }
        true
    }

    /// The whole set of trims as pages: records, or a bitmap where there are too many of them.
    fn whole_log(&mut self) -> (Vec<Vec<u8>>, Vec<Record>) {
        let page_bytes = self.geometry().page_bytes;
        let window = sectors_per_bitmap(page_bytes);
        let per_page = self.records_per_page() as usize;
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
                ranges.into_iter().partition(|r| self.stores_any(r.lsn, r.sectors));
            records.extend(stored.into_iter().map(Record::Trim));
            let seq = self.nand.array_mut().take_seq();
            pages.push(write_bitmap(number * window, &gone, seq, page_bytes));
        }
        (pages, records)
    }

    fn stores_any(&self, lsn: u64, sectors: u64) -> bool {
        let spp = u64::from(self.spp);
        (lsn / spp..=(lsn + sectors - 1) / spp).any(|lpn| {
            let (from, to) =
                (lsn.max(lpn * spp) - lpn * spp, (lsn + sectors).min((lpn + 1) * spp) - lpn * spp);
            self.stored(lpn as u32, run_mask(from as u32, (to - from) as u32)) != 0
        })
    }

    /// Forgets trims of sectors whose newer data is on flash.
    fn prune_log(&mut self) {
        let spp = u64::from(self.spp);
        let ranges: Vec<TrimRecord> = self.log.ranges().collect();
        for range in ranges {
            let end = range.lsn + range.sectors;
            for lpn in range.lsn / spp..=(end - 1) / spp {
                if self.fragments.is_unmapped(lpn as u32) {
                    continue;
                }
                for f in self.fragments.get(lpn as u32, self.nand.array()) {
                    if self.nand.program_of(f.ppn).is_some() {
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

    /// Orders the erase of a victim without live data. Trims that killed its pages go to flash
    /// first; false if there is no room for them yet.
    pub(crate) fn erase(&mut self, block: Block) -> bool {
        let plane = self.geometry().plane_of(block);
        if self.blocks.is_trimmed(block) {
            if !self.log.pending.is_empty() {
                self.write_log(Some(plane));
                if !self.log.pending.is_empty() {
                    return false;
                }
            }
            let ppn = self.geometry().ppn(block, 0);
            for n in 0..self.log.pages.len() {
                if let Some(op) = self.nand.program_of(self.log.pages[n].1) {
                    self.nand.supersede(ppn, op);
                }
            }
        }
        self.blocks.set_erasing(block);
        let op = self.nand.erase(block, !self.urgent(plane));
        self.set_info(op, PLAIN);
        true
    }
}
