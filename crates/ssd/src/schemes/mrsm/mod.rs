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
//! - The entries of a region are the nodes of a balanced search tree over its pages or sub-pages, a shape
//!   of the core's mapping table.
//! - Physical pages beside the home pages are limited per plane, to half of what the plane can spare;
//!   beyond that, a write brings its logical page together again. Garbage collection packs the live
//!   sub-pages of several pages of its victim into one.
//! - After a power cut a region is by sub-page if any of its pages is scattered.

use nandle_nand::{Cause, Extent, OpId, Ppn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Counter, Facts, Interests, Name, Plan, Published, Rest, Scheme, Seam, refuse_second_table};
use crate::error::ConfigError;
use crate::flash::{Flash, Page, Part, Reads, Write, compact};
use crate::map::{Fragment, TableShape, run_mask, runs};
use crate::space::{GroupId, PageClass};

mod collect;

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

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Partial updates while mapped by page.
    partial: u32,
    /// Full pages written since the last partial one.
    full: u32,
}

/// The regions and what they have seen.
#[derive(Clone, Debug)]
pub struct Mrsm {
    regions: Vec<Region>,
    settings: MrsmConfig,
    stats: MrsmStats,
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

/// Whether `lpn` needs no more than one entry.
fn is_whole(flash: &Flash, lpn: u32) -> bool {
    let list = flash.fragments().get(lpn, flash.array());
    list.iter().all(|f| f.shift == 0) && list.len() <= 1
}

fn is_split(flash: &Flash, lpn: u32) -> bool {
    flash.map().regions().is_some_and(|regions| regions.is_split(regions.of(lpn)))
}

impl Mrsm {
    /// What happened to regions and sub-pages.
    pub fn stats(&self) -> &MrsmStats {
        &self.stats
    }

    /// Sectors of a sub-page.
    fn sectors(&self, flash: &Flash) -> u32 {
        flash.sectors_per_page() / self.settings.sub_pages
    }

    /// The sub-pages that have sectors of `mask`, as bits.
    fn touched(&self, flash: &Flash, mask: u64) -> u32 {
        let sectors = self.sectors(flash);
        (0..self.settings.sub_pages)
            .filter(|sub| mask & run_mask(sub * sectors, sectors) != 0)
            .fold(0, |touched, sub| touched | 1 << sub)
    }

    /// The region sees a write; the sub-pages to be written by themselves, or 0 for the page way.
    fn observe(&mut self, flash: &mut Flash, part: &Part<'_>, alone: bool) -> u32 {
        let full = part.mask == flash.full_mask();
        let others = if full { 0 } else { flash.stored(part.lpn, !part.mask) };
        let size = self.settings.region_pages;
        let number = (part.lpn / size) as usize;
        let split = is_split(flash, part.lpn);
        let region = &mut self.regions[number];
        region.full = if full { region.full + 1 } else { 0 };
        if !split {
            region.partial += u32::from(others != 0);
            if region.partial >= self.settings.switch_after {
                self.switch_region(flash, number, true);
                self.stats.split_regions += 1;
            }
        } else if region.full >= size {
            region.full = 0;
            let pages = number as u32 * size..((number as u32 + 1) * size).min(flash.logical_pages());
            if pages.clone().all(|lpn| is_whole(flash, lpn)) {
                self.switch_region(flash, number, false);
                self.stats.joined_regions += 1;
            }
        }
        if full || !is_split(flash, part.lpn) {
            return 0;
        }
        let touched = self.touched(flash, part.mask);
        if touched == (1 << self.settings.sub_pages) - 1 {
            return 0;
        }
        // By itself, a write that leaves nothing behind may as well make the page's home.
        let sectors = self.sectors(flash);
        let behind = (0..self.settings.sub_pages)
            .filter(|sub| touched >> sub & 1 == 0)
            .fold(0, |mask, sub| mask | run_mask(sub * sectors, sectors));
        if alone && others & behind == 0 {
            return 0;
        }
        let space = flash.space();
        let spare = |plane| space.beyond_need(plane) / 2;
        let room = match space.home_plane(part.lpn) {
            Some(plane) => space.blocks().surplus(plane) < spare(plane),
            None => space.blocks().surplus_total() < (0..flash.geometry().planes()).map(spare).sum(),
        };
        if !room || !space.leaves_claims_theirs() {
            self.stats.refused += 1;
            return 0;
        }
        touched
    }

    /// All translation pages of the region are written again.
    fn switch_region(&mut self, flash: &mut Flash, number: usize, split: bool) {
        self.regions[number] = Region::default();
        let Some(regions) = flash.map_mut().regions_mut() else { return };
        regions.set_split(number, split);
        let (pages, used) = regions.pages_of(number);
        for (n, page) in (0..).zip(pages) {
            if n < used || flash.map().location(page).is_some() {
                flash.map_page_changed(page);
            }
        }
    }

    /// Programs up to a page of sub-pages.
    fn write_slots(&mut self, flash: &mut Flash, write: &Write<'_>, slots: &[Slot]) {
        let sectors = self.sectors(flash);
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
            let keep = flash.stored(part.lpn, within & !part.mask);
            if keep != 0 {
                flash.read(part.lpn, keep, Cause::Rmw, None, &after, &mut reads);
                self.stats.sub_page_updates += 1;
            }
            let at = if home { slot.sub } else { n as u32 };
            let shift = (at as i32 - slot.sub as i32) * sectors as i32;
            pieces.push((slot.part, part.mask & within, keep, shift));
        }
        after.extend(reads.iter().map(|&(_, op)| op));
        let mut extents: SmallVec<[Extent; 4]> = SmallVec::new();
        for &(n, mask, keep, shift) in &pieces {
            let base = u64::from(write.parts[n].lpn) * u64::from(flash.sectors_per_page());
            for (start, len) in runs(mask | keep) {
                let at = (start as i32 + shift) as u8;
                extents.push(Extent { lsn: base + u64::from(start), sectors: len as u8, at });
            }
        }
        let group = flash.host_group(lead.lpn, write.stream);
        let class = PageClass { full: false, alone: write.alone };
        let plane = flash.granted_plane(lead.lpn, group, class);
        let release = slots.iter().filter(|slot| slot.last).map(|slot| write.parts[slot.part].release).sum();
        let page = Page::data(plane, group, class, compact(&extents, flash.sectors_per_page()));
        let (ppn, op) = flash.append(&page.for_request(write.request, release), &after);
        flash.mark_surplus(ppn);
        if !reads.is_empty() {
            flash.mark_rmw(op, reads.iter().map(|&(_, read)| read));
        }
        for &(n, mask, keep, shift) in &pieces {
            let part = &write.parts[n];
            flash.count_host_sectors(mask);
            flash.carry(part.lpn, keep, ppn, shift);
            flash.fill(ppn, mask, shift, part.contents);
        }
        for &(n, mask, keep, shift) in &pieces {
            let lpn = write.parts[n].lpn;
            flash.attach_joined(lpn, Fragment { mask: mask | keep, ppn, shift: shift as i8 }, op);
            flash.map_changed(lpn);
        }
        self.stats.sub_page_writes += slots.len() as u64;
        self.stats.packed_pages += 1;
    }
}

impl Scheme for Mrsm {
    fn interests(&self) -> Interests {
        Interests::PLACE.and(Interests::RELOCATE).and(Interests::LOOK_UP)
    }

    /// Places each part by the granularity of its region; sub-pages are packed together.
    fn place(&mut self, flash: &mut Flash, write: &Write<'_>, rest: &mut dyn Rest) -> u32 {
        let mut programs = 0;
        let mut slots: SmallVec<[Slot; 16]> = SmallVec::new();
        for (n, part) in write.parts.iter().enumerate() {
            let touched = self.observe(flash, part, write.parts.len() == 1);
            if touched == 0 {
                rest.place_part(flash, write, part);
                programs += 1;
                continue;
            }
            let sub_pages = self.settings.sub_pages;
            for sub in (0..sub_pages).filter(|sub| touched >> sub & 1 != 0) {
                slots.push(Slot { part: n, sub, last: touched >> sub == 1 });
                if slots.len() as u32 == sub_pages {
                    self.write_slots(flash, write, &slots);
                    programs += 1;
                    slots.clear();
                }
            }
        }
        if !slots.is_empty() {
            self.write_slots(flash, write, &slots);
            programs += 1;
        }
        programs
    }
    /// The walk to the entry, and the load that it has to wait for.
    fn look_up(&mut self, flash: &mut Flash, lpn: u32, mask: u64) -> Option<Option<OpId>> {
        let sectors = self.sectors(flash);
        let wanted = |sub| mask & run_mask(sub * sectors, sectors) != 0;
        let accesses = flash.map().regions().map_or(0, |regions| regions.accesses(lpn, wanted));
        flash.count_accesses(accesses);
        Some(flash.load_map_page(flash.map().page_of(lpn), None, false))
    }
    fn relocate(&mut self, flash: &mut Flash, ppn: Ppn, plane: u32, group: GroupId) -> Option<u32> {
        self.move_sub_pages(flash, ppn, plane, group)
    }

    /// Which regions need sub-pages, and which physical pages lie beside home.
    fn restore(&mut self, flash: &mut Flash) {
        let mut beside = std::collections::BTreeSet::new();
        for lpn in 0..flash.logical_pages() {
            if !is_whole(flash, lpn) {
                let list = flash.fragments().get(lpn, flash.array());
                beside.extend(list.iter().map(|f| f.ppn));
                if let Some(regions) = flash.map_mut().regions_mut() {
                    regions.set_split(regions.of(lpn), true);
                }
            }
        }
        beside.into_iter().for_each(|ppn| flash.mark_surplus(ppn));
    }
    fn check(&self, flash: &Flash) {
        for lpn in 0..flash.logical_pages() {
            let whole = is_split(flash, lpn) || is_whole(flash, lpn);
            assert!(whole, "page {lpn} is scattered in a region by page");
        }
    }
    fn reset_counters(&mut self) {
        self.stats = MrsmStats::default();
    }
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

/// What it is called.
const NAME: &str = "mrsm";

impl Published for Mrsm {
    const NAMES: &'static [Name] = &[Name {
        seam: Seam::Mapping,
        name: NAME,
        line: "Regions mapped by page or by sub-page, sub-pages packed together (MRSM).",
    }];
    const COUNTERS: &'static [Counter<Self>] = &[
        Counter::new("mrsm.split_regions", "regions that went from pages to sub-pages", |own, _| {
            own.stats.split_regions
        }),
        Counter::new("mrsm.joined_regions", "regions that went back from sub-pages to pages", |own, _| {
            own.stats.joined_regions
        }),
        Counter::new("mrsm.regions_split", "regions mapped by sub-page at the end", |_, flash| {
            flash.map().regions().map_or(0, |all| all.count_split() as u64)
        }),
        Counter::new("mrsm.regions", "regions that the logical pages are divided into", |_, flash| {
            flash.map().regions().map_or(0, |all| all.len() as u64)
        }),
        Counter::new("mrsm.sub_page_writes", "sub-pages written by themselves", |own, _| {
            own.stats.sub_page_writes
        }),
        Counter::new(
            "mrsm.sub_page_updates",
            "sub-pages written by themselves whose other sectors were read first",
            |own, _| own.stats.sub_page_updates,
        ),
        Counter::new("mrsm.packed_pages", "physical pages that sub-pages were packed into", |own, _| {
            own.stats.packed_pages
        }),
        Counter::new(
            "mrsm.refused",
            "writes that brought their page together: no page to spare",
            |own, _| own.stats.refused,
        ),
        Counter::new(
            "mrsm.gc_packed",
            "pages that garbage collection packed into another one's copy",
            |own, _| own.stats.gc_packed,
        ),
    ];
    type Config<'a> = &'a MrsmConfig;

    fn plan(config: &MrsmConfig, facts: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError> {
        let MrsmConfig { sub_pages, region_pages, .. } = *config;
        let sectors = facts.geometry.sectors_per_page();
        if !(2..=16).contains(&sub_pages) || !sectors.is_multiple_of(sub_pages) {
            let expected = format!("2 to 16, a divisor of the {sectors} sectors of a page");
            return Err(ConfigError::new("scheme.mrsm.sub_pages", sub_pages, expected));
        }
        if !(2..=32768 / sub_pages).contains(&region_pages) {
            let expected = format!("2 to {}", 32768 / sub_pages);
            return Err(ConfigError::new("scheme.mrsm.region_pages", region_pages, expected));
        }
        refuse_second_table(NAME, plan)?;
        plan.packs = Some(NAME);
        plan.table = TableShape::Regions { pages: region_pages, nodes: sub_pages };
        plan.scatters = true;
        plan.space.surplus = Some(false);
        plan.reach.mixes_classes = true;
        plan.reach.joins_borders = true;
        Ok(())
    }
    fn inherit(&mut self, before: &Self) {
        self.stats = before.stats.clone();
    }
    fn new(config: &MrsmConfig, _: &Facts<'_>, logical_pages: u32) -> Self {
        let regions = logical_pages.div_ceil(config.region_pages);
        Self {
            regions: vec![Region::default(); regions as usize],
            settings: config.clone(),
            stats: MrsmStats::default(),
        }
    }
}
