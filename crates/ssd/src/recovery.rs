//! Power-on after a cut: everything is rebuilt from what the flash says of itself.
//!
//! | step | what |
//! | --- | --- |
//! | scan | read the out-of-band area of every programmed page |
//! | replay | extents and trims in the order of their sequence numbers: the newest wins |
//! | blocks | erased, half-written, full or undefined; half-written ones go on being written |
//! | areas, regions | what lies away from home says which areas there are and which regions need sub-pages |
//! | log | live log pages are kept, translation pages are compared with the map |
//! | erase | full blocks without live data are erased |

use nandle_nand::{Array, Block, BlockCondition, Extents, PageUse, Ppn};
use smallvec::SmallVec;

use crate::allocation::Role;
use crate::blocks::State;
use crate::flash::Flash;
use crate::fragments::{Fragment, run_mask};
use crate::log::{ObjectRecord, Record, read_page};
use crate::map_cache::MapCache;

enum Found {
    Data(Ppn),
    Record(Record),
}

impl Flash {
    /// Rebuilds map, blocks and log from the array.
    pub(crate) fn recover(&mut self) {
        let mut found = self.scan();
        found.sort_by_key(|&(seq, _)| seq);
        let objects: Vec<ObjectRecord> = found
            .iter()
            .filter_map(|(_, found)| match found {
                Found::Record(Record::Object(record)) => Some(*record),
                _ => None,
            })
            .collect();
        self.streams.expect(&objects);
        self.replay(&found);
        self.restore_blocks();
        self.restore_areas();
        self.restore_regions();
        self.resume_objects();
        self.restore_map_cache();
        self.erase_dead_blocks();
    }

    /// Blocks without live data are erased at once: everything that supersedes them is on flash.
    fn erase_dead_blocks(&mut self) {
        let dead: Vec<Block> = self
            .blocks
            .each()
            .filter(|&(block, state)| state == State::Closed && self.blocks.valid(block) == 0)
            .map(|(block, _)| block)
            .collect();
        for block in dead {
            self.blocks.condemn(block);
            self.blocks.set_erasing(block);
            self.nand.array_mut().erase(block);
            let erases = self.array().erases(block);
            if let Some(home) = self.blocks.object(block) {
                self.blocks.forget_emptied(block);
                self.object_erased(home, block, true);
            }
            self.blocks.put_free(block, erases);
        }
    }

    /// Every page that says something, with its sequence number; undefined blocks are erased.
    fn scan(&mut self) -> Vec<(u64, Found)> {
        let mut found = vec![];
        let blocks: Vec<Block> =
            (0..self.geometry().planes()).flat_map(|p| self.geometry().blocks_of(p)).collect();
        for block in blocks {
            match self.array().condition(block) {
                BlockCondition::Bad => continue,
                BlockCondition::Undefined => {
                    self.nand.array_mut().erase(block);
                    continue;
                }
                BlockCondition::Good => {}
            }
            for page in 0..self.geometry().pages_per_block {
                let ppn = self.geometry().ppn(block, page);
                let array = self.nand.array();
                match array.page_use(ppn) {
                    PageUse::Data => found.push((array.seq(ppn), Found::Data(ppn))),
                    PageUse::Meta => {
                        let note = array.note(ppn).map_or(&[][..], |note| note);
                        read_page(note, |record| found.push((record.seq(), Found::Record(record))));
                    }
                    PageUse::Map | PageUse::Erased | PageUse::Padding | PageUse::Torn => {}
                }
            }
        }
        found
    }

    fn replay(&mut self, found: &[(u64, Found)]) {
        for (_, found) in found {
            match found {
                Found::Data(ppn) => {
                    let mut parts: SmallVec<[(u32, Fragment); 2]> = SmallVec::new();
                    fragments_of(self.nand.array(), *ppn, self.spp, &mut parts);
                    for &(lpn, fragment) in &parts {
                        // A page larger than the device: another configuration wrote it.
                        if lpn < self.fragments.len() {
                            self.restore(lpn, fragment.mask, Some(fragment));
                        }
                    }
                }
                Found::Record(Record::Object(record)) => self.streams.learn(record),
                Found::Record(Record::Trim(record)) => {
                    self.log.learn(*record);
                    self.streams.forget(record.lsn, record.sectors);
                    let spp = u64::from(self.spp);
                    let end = record.lsn + record.sectors;
                    for lpn in record.lsn / spp..end.div_ceil(spp).min(u64::from(self.fragments.len())) {
                        if !self.fragments.is_unmapped(lpn as u32) {
                            let from = record.lsn.max(lpn * spp) - lpn * spp;
                            let to = end.min((lpn + 1) * spp) - lpn * spp;
                            self.restore(lpn as u32, run_mask(from as u32, (to - from) as u32), None);
                        }
                    }
                }
            }
        }
    }

    /// The sectors `mask` of `lpn` now lie in `fragment`, or nowhere. Fragments of the same page
    /// come one by one; the last one sees all of them.
    fn restore(&mut self, lpn: u32, mask: u64, fragment: Option<Fragment>) {
        let mut list: SmallVec<[Fragment; 2]> = fragment.into_iter().collect();
        for f in self.fragments.get(lpn, self.nand.array()) {
            if f.mask & !mask != 0 {
                list.push(Fragment { mask: f.mask & !mask, ..f });
            }
        }
        self.fragments.set(lpn, merge_same_place(list), self.nand.array());
    }

    fn restore_blocks(&mut self) {
        let ppb = self.geometry().pages_per_block;
        // Live bits are set while the blocks are still open, then full ones are closed.
        let mut used = vec![];
        for plane in 0..self.geometry().planes() {
            for block in self.geometry().blocks_of(plane) {
                if self.array().condition(block) == BlockCondition::Bad {
                    continue;
                }
                let pages = self.array().pages_programmed(block);
                if pages == 0 {
                    let erases = self.array().erases(block);
                    self.blocks.put_free(block, erases);
                } else {
                    self.blocks.put_used(block, State::Open, 0);
                    used.push((self.array().seq_of_block(block), plane, block, pages));
                }
            }
        }
        let mut live = std::collections::BTreeSet::new();
        for lpn in 0..self.fragments.len() {
            for f in self.fragments.get(lpn, self.nand.array()) {
                live.insert(f.ppn);
            }
        }
        self.restore_system_pages(&mut live);
        for ppn in live {
            self.blocks.set_live(ppn);
        }
        self.restore_extra();
        used.sort_unstable();
        for (_, plane, block, pages) in used {
            let first = self.geometry().ppn(block, self.array().cell().strict_page(0));
            let role = Role::from_number(self.array().oob(first).stream);
            if let Role::Object(home) = role {
                if !self.streams.has_objects() {
                    self.blocks.close(block, 0);
                } else {
                    self.blocks.dedicate(block, home);
                    self.found_block(home, block);
                }
            } else if pages == ppb
                || !self.allocation.resume(plane, role, block, self.nand.array(), &mut self.blocks)
            {
                self.blocks.close(block, 0);
            }
            self.gc_look.push(plane);
        }
    }

    /// The newest copy of each translation page and all log pages are live.
    fn restore_system_pages(&mut self, live: &mut std::collections::BTreeSet<Ppn>) {
        let mut newest: std::collections::BTreeMap<(u8, u32), (u64, Ppn)> = std::collections::BTreeMap::new();
        let blocks: Vec<Block> = self.blocks.each().map(|(b, _)| b).collect();
        for block in blocks {
            if self.array().condition(block) == BlockCondition::Bad {
                continue;
            }
            for page in 0..self.geometry().pages_per_block {
                let ppn = self.geometry().ppn(block, page);
                let kind = self.array().page_use(ppn);
                if !matches!(kind, PageUse::Map | PageUse::Meta) {
                    continue;
                }
                if let Extents::Home { lpn: number, .. } = self.array().oob(ppn).extents {
                    let seq = self.array().seq(ppn);
                    let entry = newest.entry((kind as u8, number)).or_insert((seq, ppn));
                    if seq > entry.0 {
                        *entry = (seq, ppn);
                    }
                }
            }
        }
        for ((kind, number), (_, ppn)) in newest {
            if kind == PageUse::Meta as u8 {
                self.log.pages.push((number, ppn));
                self.log.next_page = self.log.next_page.max(number + 1);
                live.insert(ppn);
            } else if let MapCache::OnDemand(map) = &mut self.map {
                map.set_location(number, ppn);
                live.insert(ppn);
            }
        }
    }

    /// Translation pages in flash that lag behind the map are dirty in RAM again.
    fn restore_map_cache(&mut self) {
        let MapCache::OnDemand(map) = &mut self.map else { return };
        for page in 0..map.map_pages() {
            let entries = self.table.entries(page, &self.fragments, &self.layout);
            let same = match map.location(page).and_then(|ppn| self.nand.array().note(ppn)) {
                Some(note) => **note == *entries,
                None => entries.iter().all(|&byte| byte == 0),
            };
            if !same {
                map.touch(page, true);
            }
        }
    }
}

/// The fragments that a page's out-of-band area describes.
fn fragments_of(array: &Array, ppn: Ppn, spp: u32, out: &mut SmallVec<[(u32, Fragment); 2]>) {
    array.oob(ppn).extents.each(spp, |e| {
        let (mut lsn, mut at, mut left) = (e.lsn, u32::from(e.at), u32::from(e.sectors));
        while left > 0 {
            let (lpn, start) = ((lsn / u64::from(spp)) as u32, (lsn % u64::from(spp)) as u32);
            let len = left.min(spp - start);
            let shift = (at as i32 - start as i32) as i8;
            let mask = run_mask(start, len);
            match out.iter_mut().find(|(l, f)| *l == lpn && f.shift == shift) {
                Some((_, f)) => f.mask |= mask,
                None => out.push((lpn, Fragment { mask, ppn, shift })),
            }
            lsn += u64::from(len);
            at += len;
            left -= len;
        }
    });
}

/// Joins fragments of the same physical page and shift.
fn merge_same_place(list: SmallVec<[Fragment; 2]>) -> SmallVec<[Fragment; 2]> {
    let mut out: SmallVec<[Fragment; 2]> = SmallVec::new();
    for f in list {
        match out.iter_mut().find(|g| g.ppn == f.ppn && g.shift == f.shift) {
            Some(g) => g.mask |= f.mask,
            None => out.push(f),
        }
    }
    out
}
