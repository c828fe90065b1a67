//! MRSM: regions mapped by page or by sub-page, as their writes ask.
//!
//! Chen, Tsao, Chang, "Beyond address mapping: a user-oriented multiregional space management design
//! for 3-D NAND flash memory", IEEE TCAD 2020, as far as Across-FTL's paper (ICPP 2023, sections 1,
//! 2.2, 4.1 and 4.2) describes it: sub-page mapping avoids read-modify-writes, the granularity
//! follows the user's behaviour, the entries live in a tree, and the table is so large that its
//! entries are loaded on demand. The rest is ours:
//! - The logical space is cut into regions of `region_pages` pages. A region starts with one entry
//!   per page; after `switch_after` partial updates it has one entry per sub-page. When as many full
//!   pages as the region has have been written without a partial one between them, and nothing in it
//!   is scattered any more, it returns to pages.
//! - By page, a write is placed as page mapping does. By sub-page, only the sub-pages that it touches
//!   are written, packed with the others of the same request (or of the same batch, if a buffer
//!   destages one) into one physical page; a sub-page that it covers only in part is completed by
//!   reading its old sectors. Nothing waits for company: a write is complete when its page is on flash.
//! - The entries of a region are the nodes of a perfectly balanced search tree over its pages or
//!   sub-pages; a look-up walks from the root and costs one DRAM access per node, and one for the
//!   region's root pointer. A node is a plain entry and two links of 16 bits. Nodes lie in
//!   translation pages in the order of their keys; a look-up needs the page of the node that it ends at.
//! - Physical pages beside the home pages are limited per plane, to half of what the plane can spare;
//!   beyond that, a write brings its logical page together again. Garbage collection packs the live
//!   sub-pages of several pages of its victim into one.
//! - After a power cut a region is by sub-page if any of its pages is scattered.

use nandle_nand::{Cause, Extent, OpId, PageUse, Ppn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::{SmallVec, smallvec};

use super::{Part, Write, page};
use crate::allocation::{PageClass, Role};
use crate::config::{DeviceConfig, Layout};
use crate::flash::{Flash, Owner, Page, Reads, compact};
use crate::fragments::{Fragment, Fragments, run_mask, runs};
use crate::map_cache::{MapCache, table::Table};

/// `[scheme.mrsm]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MrsmConfig {
    /// Sub-pages of a page (2 to 16, at most one per sector; must divide the page's sectors).
    pub sub_pages: u32,
    /// Logical pages of a region (2 to 32768 / `sub_pages`).
    pub region_pages: u32,
    /// Partial updates after which a region is mapped by sub-page.
    pub switch_after: u32,
}

impl Default for MrsmConfig {
    fn default() -> Self {
        Self { sub_pages: 2, region_pages: 8192, switch_after: 16 }
    }
}

/// What happened to regions and sub-pages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MrsmStats {
    /// Regions that went from pages to sub-pages.
    pub split_regions: u64,
    /// Regions that went back.
    pub joined_regions: u64,
    /// Sub-pages written by themselves.
    pub sub_page_writes: u64,
    /// Of these, completed by a read.
    pub sub_page_updates: u64,
    /// Physical pages that they went to.
    pub packed_pages: u64,
    /// Writes that brought their page together because there was no page to spare.
    pub refused: u64,
    /// Pages that garbage collection packed into another one's copy.
    pub gc_packed: u64,
}

/// Links of a tree node.
const LINK_BYTES: u32 = 4;

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    by_sub_page: bool,
    /// Partial updates while mapped by page.
    partial: u32,
    /// Full pages written since the last partial one.
    full: u32,
}

/// The regions and what their entries take.
#[derive(Clone, Debug)]
pub struct Regions {
    regions: Vec<Region>,
    region_pages: u32,
    sub_pages: u32,
    switch_after: u32,
    nodes_per_page: u32,
    /// Translation pages of a region by sub-page.
    pages_per_region: u32,
    /// Live physical pages beside the home pages.
    beside: Vec<u32>,
    /// Bit per physical page: it is one of them.
    is_beside: Vec<u64>,
}

impl Regions {
    /// Nodes of a translation page, and translation pages in all.
    pub(crate) fn shape(config: &DeviceConfig, logical_pages: u32) -> (u32, u32) {
        let MrsmConfig { sub_pages, region_pages, .. } = config.scheme.mrsm;
        let sub_pages = sub_pages.max(1);
        let nodes = config.geometry.page_bytes / (config.map_cache.entry_bytes + LINK_BYTES);
        let nodes = (nodes / sub_pages * sub_pages).max(sub_pages);
        let regions = logical_pages.div_ceil(region_pages.max(1));
        (nodes, regions * (region_pages * sub_pages).div_ceil(nodes))
    }

    pub(crate) fn new(config: &DeviceConfig, layout: &Layout) -> Self {
        let MrsmConfig { sub_pages, region_pages, switch_after } = config.scheme.mrsm;
        Self {
            regions: vec![Region::default(); layout.logical_pages.div_ceil(region_pages) as usize],
            region_pages,
            sub_pages,
            switch_after,
            nodes_per_page: layout.entries_per_map_page,
            pages_per_region: (region_pages * sub_pages).div_ceil(layout.entries_per_map_page),
            beside: vec![0; config.geometry.planes() as usize],
            is_beside: Vec::new(),
        }
    }

    /// Regions mapped by sub-page, of how many.
    pub fn split(&self) -> (usize, usize) {
        (self.regions.iter().filter(|r| r.by_sub_page).count(), self.regions.len())
    }

    fn region(&self, lpn: u32) -> usize {
        (lpn / self.region_pages) as usize
    }

    pub(crate) fn page_of(&self, lpn: u32) -> u32 {
        let region = lpn / self.region_pages;
        let nodes = if self.regions[region as usize].by_sub_page { self.sub_pages } else { 1 };
        region * self.pages_per_region + lpn % self.region_pages * nodes / self.nodes_per_page
    }

    pub(crate) fn bytes(&self, entry: u32, logical_pages: u64) -> u64 {
        let (split, _) = self.split();
        let split_pages = (split as u64 * u64::from(self.region_pages)).min(logical_pages);
        let nodes = logical_pages + split_pages * u64::from(self.sub_pages - 1);
        nodes * u64::from(entry + LINK_BYTES)
    }

    pub(crate) fn entries(&self, page: u32, fragments: &Fragments) -> Vec<u8> {
        let region = page / self.pages_per_region;
        let nodes = if self.regions[region as usize].by_sub_page { self.sub_pages } else { 1 };
        let per_page = self.nodes_per_page / nodes;
        let first = page % self.pages_per_region * per_page;
        let last = (first + per_page).min(self.region_pages).max(first);
        let base = region * self.region_pages;
        fragments.words(base + first, (base + last).min(fragments.len()))
    }

    /// Nodes on the way to the entry `key` (from 0) of a balanced search tree of `size` entries.
    fn depth(key: u32, size: u32) -> u32 {
        let levels = u32::BITS - size.leading_zeros();
        levels - (key + 1).trailing_zeros()
    }

    /// DRAM accesses of the look-up of the sectors `mask` of `lpn`.
    fn accesses(&self, lpn: u32, mask: u64, spp: u32) -> u32 {
        let key = lpn % self.region_pages;
        if !self.regions[self.region(lpn)].by_sub_page {
            return 1 + Self::depth(key, self.region_pages);
        }
        let sectors = spp / self.sub_pages;
        let size = self.region_pages * self.sub_pages;
        (0..self.sub_pages)
            .filter(|sub| mask & run_mask(sub * sectors, sectors) != 0)
            .map(|sub| 1 + Self::depth(key * self.sub_pages + sub, size))
            .sum()
    }
}

/// A sub-page on its way to flash.
#[derive(Clone, Copy)]
struct Slot {
    /// Which part of the write, which sub-page of its logical page.
    part: usize,
    sub: u32,
    /// Its last one in this write.
    last: bool,
}

/// Places each part by the granularity of its region; sub-pages are packed together.
pub(crate) fn place(flash: &mut Flash, write: &Write<'_>) -> u32 {
    let mut programs = 0;
    let mut slots: SmallVec<[Slot; 16]> = SmallVec::new();
    for (n, part) in write.parts.iter().enumerate() {
        let touched = flash.observe(part, write.parts.len() == 1);
        if touched == 0 {
            page::place_part(flash, write, part);
            programs += 1;
            continue;
        }
        let sub_pages = flash.regions().sub_pages;
        for sub in (0..sub_pages).filter(|sub| touched >> sub & 1 != 0) {
            slots.push(Slot { part: n, sub, last: touched >> sub == 1 });
            if slots.len() as u32 == sub_pages {
                flash.write_slots(write, &slots);
                programs += 1;
                slots.clear();
            }
        }
    }
    if !slots.is_empty() {
        flash.write_slots(write, &slots);
        programs += 1;
    }
    programs
}

impl Flash {
    fn regions(&self) -> &Regions {
        match &self.table {
            Table::Regions(regions) => regions,
            _ => unreachable!("only MRSM has regions"),
        }
    }
    fn regions_mut(&mut self) -> &mut Regions {
        match &mut self.table {
            Table::Regions(regions) => regions,
            _ => unreachable!("only MRSM has regions"),
        }
    }

    /// The region sees a write; the sub-pages to be written by themselves, or 0 for the page way.
    fn observe(&mut self, part: &Part<'_>, alone: bool) -> u32 {
        let full = part.mask == self.full;
        let others = if full { 0 } else { self.stored(part.lpn, !part.mask) };
        let spp = self.spp;
        let regions = self.regions_mut();
        let (number, switch_after, size) =
            (regions.region(part.lpn), regions.switch_after, regions.region_pages);
        let region = &mut regions.regions[number];
        region.full = if full { region.full + 1 } else { 0 };
        if !region.by_sub_page {
            region.partial += u32::from(others != 0);
            if region.partial >= switch_after {
                self.switch_region(number, true);
                self.stats.mrsm.split_regions += 1;
            }
        } else if region.full >= size {
            region.full = 0;
            let pages = number as u32 * size..((number as u32 + 1) * size).min(self.fragments.len());
            if pages.clone().all(|lpn| self.is_whole(lpn)) {
                self.switch_region(number, false);
                self.stats.mrsm.joined_regions += 1;
            }
        }
        let regions = self.regions();
        if full || !regions.regions[number].by_sub_page {
            return 0;
        }
        let sectors = spp / regions.sub_pages;
        let all = (1 << regions.sub_pages) - 1;
        let touched = (0..regions.sub_pages)
            .filter(|sub| part.mask & run_mask(sub * sectors, sectors) != 0)
            .fold(0, |touched, sub| touched | 1 << sub);
        if touched == all {
            return 0;
        }
        // By itself, a write that leaves nothing behind may as well make the page's home.
        let behind = (0..regions.sub_pages)
            .filter(|sub| touched >> sub & 1 == 0)
            .fold(0, |mask, sub| mask | run_mask(sub * sectors, sectors));
        if alone && others & behind == 0 {
            return 0;
        }
        let plane = match &self.striping {
            crate::striping::Striping::Static(order) => Some(order.plane(part.lpn)),
            crate::striping::Striping::Dynamic(_) => None,
        };
        let ppb = self.geometry().pages_per_block;
        let spare = |plane| self.blocks.good(plane).saturating_sub(self.layout.least_blocks) * ppb / 2;
        let room = match plane {
            Some(plane) => regions.beside[plane as usize] < spare(plane),
            None => regions.beside.iter().sum::<u32>() < (0..self.geometry().planes()).map(spare).sum(),
        };
        if !room {
            self.stats.mrsm.refused += 1;
            return 0;
        }
        touched
    }

    /// Whether `lpn` needs no more than one entry.
    fn is_whole(&self, lpn: u32) -> bool {
        self.fragments.is_unmapped(lpn)
            || self.fragments.get(lpn, self.nand.array()).iter().all(|f| f.shift == 0)
                && self.fragments.get(lpn, self.nand.array()).len() == 1
    }

    /// All translation pages of the region are written anew.
    fn switch_region(&mut self, number: usize, by_sub_page: bool) {
        let regions = self.regions_mut();
        regions.regions[number] = Region { by_sub_page, ..Region::default() };
        let nodes = regions.region_pages * if by_sub_page { regions.sub_pages } else { 1 };
        let (pages, used) = (regions.pages_per_region, nodes.div_ceil(regions.nodes_per_page));
        for n in 0..pages {
            let page = number as u32 * pages + n;
            let written = matches!(&self.map, MapCache::OnDemand(map) if map.location(page).is_some());
            if n < used || written {
                self.map_page_changed(page);
            }
        }
    }

    /// Programs up to a page of sub-pages.
    fn write_slots(&mut self, write: &Write<'_>, slots: &[Slot]) {
        let sectors = self.spp / self.regions().sub_pages;
        let lead = &write.parts[slots[0].part];
        let home = slots.iter().all(|slot| slot.part == slots[0].part);
        let mut after: SmallVec<[OpId; 4]> = SmallVec::new();
        slots.iter().filter_map(|slot| write.parts[slot.part].load).for_each(|load| after.push(load));
        let mut reads = Reads::new();
        // Page, sectors of the write, sectors kept, distance from home.
        let mut pieces: SmallVec<[(usize, u64, u64, i32); 4]> = SmallVec::new();
        for (n, slot) in slots.iter().enumerate() {
            let part = &write.parts[slot.part];
            let within = run_mask(slot.sub * sectors, sectors);
            let keep = self.stored(part.lpn, within & !part.mask);
            if keep != 0 {
                self.read(part.lpn, keep, Cause::Rmw, None, &after, &mut reads);
                self.stats.mrsm.sub_page_updates += 1;
            }
            let at = if home { slot.sub } else { n as u32 };
            let shift = (at as i32 - slot.sub as i32) * sectors as i32;
            pieces.push((slot.part, part.mask & within, keep, shift));
        }
        after.extend(reads.iter().map(|&(_, op)| op));
        let mut extents: SmallVec<[Extent; 4]> = SmallVec::new();
        for &(n, mask, keep, shift) in &pieces {
            let base = u64::from(write.parts[n].lpn) * u64::from(self.spp);
            for (start, len) in runs(mask | keep) {
                let at = (start as i32 + shift) as u8;
                extents.push(Extent { lsn: base + u64::from(start), sectors: len as u8, at });
            }
        }
        let (role, class) =
            (self.host_role(lead.lpn, write.stream), PageClass { full: false, alone: write.alone });
        let plane = self.choose_plane(lead.lpn, role, class).expect("room was checked");
        let release = slots.iter().filter(|slot| slot.last).map(|slot| write.parts[slot.part].release).sum();
        let owner = Owner { request: write.request, release };
        let (kind, cause, extents) = (PageUse::Data, Cause::Host, compact(&extents, self.spp));
        let (ppn, op) = self.append(&Page { plane, role, class, kind, extents, cause, owner }, &after);
        self.set_beside(ppn);
        if !reads.is_empty() {
            self.mark_rmw(op, reads.iter().map(|&(_, read)| read));
        }
        for &(n, mask, keep, shift) in &pieces {
            let part = &write.parts[n];
            self.count_host_sectors(mask);
            self.carry(part.lpn, keep, ppn, shift);
            self.fill(ppn, mask, shift, part.contents);
        }
        for &(n, mask, keep, shift) in &pieces {
            self.attach_piece(write.parts[n].lpn, mask | keep, ppn, shift, op);
            self.map_changed(write.parts[n].lpn);
        }
        self.stats.mrsm.sub_page_writes += slots.len() as u64;
        self.stats.mrsm.packed_pages += 1;
    }

    /// Attaches sectors, joining them with what the same page holds of `lpn` at the same distance.
    fn attach_piece(&mut self, lpn: u32, mask: u64, ppn: Ppn, shift: i32, op: OpId) {
        let old = self.fragments.get(lpn, self.nand.array());
        let same = old.iter().find(|f| f.ppn == ppn && i32::from(f.shift) == shift);
        let mask = mask | same.map_or(0, |f| f.mask);
        let list = smallvec![Fragment { mask, ppn, shift: shift as i8 }];
        self.shrink(lpn, &old, mask, Some(op), list);
    }

    fn plane_of_page(&self, ppn: Ppn) -> usize {
        self.geometry().plane_of(self.geometry().block_of(ppn)) as usize
    }

    pub(crate) fn set_beside(&mut self, ppn: Ppn) {
        let plane = self.plane_of_page(ppn);
        let regions = self.regions_mut();
        let word = ppn.0 as usize / 64;
        if word >= regions.is_beside.len() {
            regions.is_beside.resize(word + 1, 0);
        }
        regions.is_beside[word] |= 1 << (ppn.0 % 64);
        regions.beside[plane] += 1;
    }

    /// Whether the scheme counts `ppn` as a page beside home.
    pub(crate) fn lies_beside(&self, ppn: Ppn) -> bool {
        matches!(self.table, Table::Regions(_)) && self.is_beside(ppn)
    }

    fn is_beside(&self, ppn: Ppn) -> bool {
        self.regions().is_beside.get(ppn.0 as usize / 64).is_some_and(|word| word >> (ppn.0 % 64) & 1 != 0)
    }

    /// A page has no live sector left.
    #[inline]
    pub(crate) fn died(&mut self, ppn: Ppn) {
        self.blocks.set_dead(ppn, self.nand.now());
        if matches!(self.table, Table::Regions(_)) && self.is_beside(ppn) {
            let plane = self.plane_of_page(ppn);
            let regions = self.regions_mut();
            regions.is_beside[ppn.0 as usize / 64] &= !(1 << (ppn.0 % 64));
            regions.beside[plane] -= 1;
        }
    }

    /// Moves a page of a victim; sub-pages of further pages of the victim go along as far as they fit.
    pub(crate) fn relocate_sub_pages(&mut self, ppn: Ppn, plane: u32, role: Role) {
        if self.nand.array().page_use(ppn) != PageUse::Data || !self.is_beside(ppn) {
            self.relocate(ppn, plane, role);
            return;
        }
        let (sub_pages, spp) = (self.regions().sub_pages, self.spp);
        let sectors = spp / sub_pages;
        let mut pages: SmallVec<[Ppn; 4]> = SmallVec::new();
        // Logical page, sub-page, its sectors, how far from home they lie now.
        let mut moved: SmallVec<[(u32, u32, u64, i8); 16]> = SmallVec::new();
        let block = self.geometry().block_of(ppn);
        let mut next = Some(self.geometry().page_of(ppn));
        while let Some(number) = next {
            let from = self.geometry().ppn(block, number);
            next = self.blocks.next_live(block, number + 1);
            if self.nand.array().page_use(from) != PageUse::Data || !self.is_beside(from) {
                continue;
            }
            let mut found: SmallVec<[(u32, u32, u64, i8); 16]> = SmallVec::new();
            for (lpn, f) in self.fragments.live_in(from, self.nand.array()) {
                for sub in 0..sub_pages {
                    let mask = f.mask & run_mask(sub * sectors, sectors);
                    if mask != 0 {
                        found.push((lpn, sub, mask, f.shift));
                    }
                }
            }
            if moved.len() + found.len() <= sub_pages as usize {
                moved.extend(found);
                pages.push(from);
            }
            if moved.len() == sub_pages as usize {
                break;
            }
        }
        if pages.len() == 1 {
            let to = self.relocate(ppn, plane, role);
            self.set_beside(to);
            return;
        }
        let urgent = self.urgent(plane);
        let mut after: SmallVec<[OpId; 4]> = SmallVec::new();
        for &from in &pages {
            after.push(self.read_copy(from, !urgent));
        }
        let base = |lpn: u32| u64::from(lpn) * u64::from(spp);
        let mut extents: SmallVec<[Extent; 16]> = SmallVec::new();
        for (at, &(lpn, sub, mask, _)) in moved.iter().enumerate() {
            for (start, len) in runs(mask) {
                let at = (start + at as u32 * sectors - sub * sectors) as u8;
                extents.push(Extent { lsn: base(lpn) + u64::from(start), sectors: len as u8, at });
            }
        }
        let class = PageClass { full: false, alone: true };
        let (kind, cause, owner) = (PageUse::Data, Cause::Gc, Owner::default());
        let extents = compact(&extents, spp);
        let (to, op) = self.append(&Page { plane, role, class, kind, extents, cause, owner }, &after);
        self.set_beside(to);
        for (at, &(lpn, sub, mask, _)) in moved.iter().enumerate() {
            let shift = (at as i32 - sub as i32) * sectors as i32;
            self.carry(lpn, mask, to, shift);
        }
        for (at, &(lpn, sub, mask, _)) in moved.iter().enumerate() {
            let shift = (at as i32 - sub as i32) * sectors as i32;
            self.attach_piece(lpn, mask, to, shift, op);
            let page = self.table.page_of(lpn, &self.layout);
            self.map_page_changed(page);
        }
        self.stats.gc_moved_pages += pages.len() as u64 - 1;
        self.stats.mrsm.gc_packed += pages.len() as u64 - 1;
    }

    /// The look-up of the sectors `mask` of `lpn`: the walk, and the load it has to wait for.
    pub(crate) fn look_up_region(&mut self, lpn: u32, mask: u64) -> Option<OpId> {
        let spp = self.spp;
        self.stats.dram_accesses += u64::from(self.regions().accesses(lpn, mask, spp));
        let page = self.regions().page_of(lpn);
        self.load_map_page(page, None, false)
    }

    /// Power-on: which regions need sub-pages, and which physical pages lie beside home.
    pub(crate) fn restore_regions(&mut self) {
        if !matches!(self.table, Table::Regions(_)) {
            return;
        }
        let mut beside = std::collections::BTreeSet::new();
        for lpn in 0..self.fragments.len() {
            if !self.is_whole(lpn) {
                let number = self.regions().region(lpn);
                self.regions_mut().regions[number].by_sub_page = true;
                beside.extend(self.fragments.get(lpn, self.nand.array()).iter().map(|f| f.ppn));
            }
        }
        for ppn in beside {
            self.set_beside(ppn);
        }
    }

    /// Checks that only regions by sub-page hold scattered pages and that the count of pages
    /// beside home is right.
    pub(crate) fn check_regions(&self) {
        let Table::Regions(regions) = &self.table else { return };
        for lpn in 0..self.fragments.len() {
            let split = regions.regions[regions.region(lpn)].by_sub_page;
            assert!(split || self.is_whole(lpn), "page {lpn} is scattered in a region by page");
        }
        let mut beside = vec![0; regions.beside.len()];
        for (n, word) in regions.is_beside.iter().enumerate() {
            for bit in (0..64).filter(|bit| word >> bit & 1 != 0) {
                let ppn = Ppn(n as u32 * 64 + bit);
                assert!(self.blocks.is_live(ppn), "a dead page beside home");
                beside[self.plane_of_page(ppn)] += 1;
            }
        }
        assert_eq!(beside, regions.beside);
    }
}
