//! MRSM: regions mapped by page or by pieces of any size, as their writes ask.
//!
//! Chen, Tsao, Chang, "Beyond address mapping: a user-oriented multiregional space management design
//! for 3-D NAND flash memory", IEEE TCAD 2020, as far as Across-FTL's paper (ICPP 2023, sections 1,
//! 2.2, 4.1 and 4.2) describes it: sub-page mapping avoids read-modify-writes, the granularity
//! follows the user's behaviour, the entries live in a tree, and the table is so large that its
//! entries are loaded on demand. The rest is ours:
//! - The logical space is cut into regions of `region_pages` pages. A region starts by page; after
//!   `switch_after` partial updates it is mapped by piece. When as many full pages as the region has have been
//!   written without a partial one between them, and nothing in it is scattered any more, it returns to pages.
//! - By page, a write is placed as page mapping does. By piece, exactly the sectors that are written are
//!   programmed, packed with those of the other pages of the same request (or of the same batch, if a buffer
//!   destages one) into one physical page; nothing is read, and old pieces shrink or are cut in two
//!   (section 4.2.2: overwriting the old data directly). Nothing waits for company: a write is complete when its
//!   page is on flash.
//! - A write that would leave a logical page in more than `pieces` pieces reads the others and brings it together.
//! - The entries, one a piece (section 2.2: offset and size), are the nodes of one search tree over the whole
//!   device, a shape of the core's mapping table.
//! - Physical pages beside the home pages are limited per plane, to half of what the plane can spare;
//!   beyond that, a write brings its logical page together again. Garbage collection packs the live pieces of
//!   several pages of its victim into one, where those that follow each other become one.
//! - After a power cut a region is by piece if any of its pages is scattered.

use std::collections::{BTreeMap, BTreeSet};

use nandle_nand::{Extent, OpId, Ppn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::{Counter, Facts, Interests, Name, Plan, Published, Rest, Scheme, Seam, refuse_second_table};
use crate::error::ConfigError;
use crate::flash::{Flash, Page, Part, Write, compact};
use crate::map::tree::{Tree, pieces_behind};
use crate::map::{Fragment, FragmentList, TableShape, run_mask, runs};
use crate::space::{GroupId, PageClass};

mod collect;

/// `[scheme.mrsm]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MrsmConfig {
    /// Most pieces of a logical page (2 to 16): a write that would leave more brings the page together.
    pub pieces: u32,
    /// Logical pages of a region (2 to 32768).
    pub region_pages: u32,
    /// Partial updates after which a region is mapped by piece.
    pub switch_after: u32,
}

impl Default for MrsmConfig {
    /// Three pieces are what a write into the midst of a page leaves, or writes over both of its borders. With a
    /// node twice as large as an entry, a table of 2.4 times page mapping's (section 4.2.4) has 1.2 nodes a page.
    fn default() -> Self {
        Self { pieces: 3, region_pages: 8192, switch_after: 16 }
    }
}

/// What happened to regions and pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MrsmStats {
    /// Regions that went from pages to pieces.
    pub split_regions: u64,
    /// Regions that went back.
    pub joined_regions: u64,
    /// Partial pages written by themselves.
    pub pieces_written: u64,
    /// Writes that brought their page together because it would have had too many pieces.
    pub merged: u64,
    /// Physical pages that pieces went to.
    pub packed_pages: u64,
    /// Writes that brought their page together because there was no page to spare.
    pub refused: u64,
    /// Pages that garbage collection packed into another one's copy.
    pub gc_packed: u64,
}

#[derive(Clone, Copy, Debug, Default)]
struct Region {
    /// Mapped by piece.
    split: bool,
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

/// Whether `lpn` needs no more than one entry.
fn is_whole(flash: &Flash, lpn: u32) -> bool {
    let list = flash.fragments().get(lpn, flash.array());
    list.iter().all(|f| f.shift == 0) && list.len() <= 1
}

impl Mrsm {
    /// What happened to regions and pieces.
    pub fn stats(&self) -> &MrsmStats {
        &self.stats
    }

    fn region_of(&self, lpn: u32) -> usize {
        (lpn / self.settings.region_pages) as usize
    }
    fn is_split(&self, lpn: u32) -> bool {
        self.regions[self.region_of(lpn)].split
    }

    /// The region sees a write; whether its sectors are to be written by themselves.
    fn observe(&mut self, flash: &Flash, part: &Part<'_>, alone: bool) -> bool {
        let full = part.mask == flash.full_mask();
        let others = if full { 0 } else { flash.stored(part.lpn, !part.mask) };
        let size = self.settings.region_pages;
        let number = self.region_of(part.lpn);
        let region = &mut self.regions[number];
        region.full = if full { region.full + 1 } else { 0 };
        if !region.split {
            region.partial += u32::from(others != 0);
            if region.partial >= self.settings.switch_after {
                *region = Region { split: true, ..Region::default() };
                self.stats.split_regions += 1;
            }
        } else if region.full >= size {
            region.full = 0;
            let first = number as u32 * size;
            if (first..(first + size).min(flash.logical_pages())).all(|lpn| is_whole(flash, lpn)) {
                *region = Region::default();
                self.stats.joined_regions += 1;
            }
        }
        // By itself, a write that leaves nothing behind may as well make the page's home.
        if full || !self.regions[number].split || alone && others == 0 {
            return false;
        }
        let list = flash.fragments().get(part.lpn, flash.array());
        if pieces_behind(&list, part.mask) > self.settings.pieces {
            self.stats.merged += 1;
            return false;
        }
        let space = flash.space();
        let spare = |plane| space.beyond_need(plane) / 2;
        let room = match space.home_plane(part.lpn) {
            Some(plane) => space.blocks().surplus(plane) < spare(plane),
            None => space.blocks().surplus_total() < (0..flash.geometry().planes()).map(spare).sum(),
        };
        let room = room && space.leaves_claims_theirs();
        self.stats.refused += u64::from(!room);
        room
    }

    /// Programs the sectors of parts that fit a page.
    fn write_packed(&mut self, flash: &mut Flash, write: &Write<'_>, packed: &[usize]) {
        let spp = flash.sectors_per_page();
        let lead = &write.parts[packed[0]];
        let parts = || packed.iter().map(|&n| &write.parts[n]);
        let after: SmallVec<[OpId; 4]> = parts().filter_map(|part| part.load).collect();
        let mut extents: SmallVec<[Extent; 4]> = SmallVec::new();
        let mut next = 0;
        for part in parts() {
            let base = u64::from(part.lpn) * u64::from(spp);
            for (start, len) in runs(part.mask) {
                // Alone, sectors lie where they would at home.
                let at = if packed.len() == 1 { start } else { next };
                extents.push(Extent { lsn: base + u64::from(start), sectors: len as u8, at: at as u8 });
                next += len;
            }
        }
        let group = flash.host_group(lead.lpn, write.stream);
        let class = PageClass { full: false, alone: lead.alone };
        let plane = flash.granted_plane(lead.lpn, group, class);
        let release = parts().map(|part| part.release).sum();
        let page = Page::data(plane, group, class, compact(&extents, spp));
        let (ppn, op) = flash.append(&page.for_request(write.request, release), &after);
        flash.mark_surplus(ppn);
        let mut extents = extents.iter();
        for part in parts() {
            flash.count_host_sectors(part.mask);
            for ((start, len), extent) in runs(part.mask).zip(&mut extents) {
                let (mask, shift) = (run_mask(start, len), i32::from(extent.at) - start as i32);
                flash.fill(ppn, mask, shift, part.contents);
                flash.attach_joined(part.lpn, Fragment { mask, ppn, shift: shift as i8 }, op);
            }
            flash.map_changed(part.lpn);
        }
        self.stats.pieces_written += packed.len() as u64;
        self.stats.packed_pages += 1;
    }
}

impl Scheme for Mrsm {
    fn interests(&self) -> Interests {
        Interests::PLACE.and(Interests::RELOCATE).and(Interests::LOOK_UP)
    }

    /// Places each part by the granularity of its region; pieces are packed together.
    fn place(&mut self, flash: &mut Flash, write: &Write<'_>, rest: &mut dyn Rest) -> u32 {
        let (mut programs, mut filled) = (0, 0);
        let mut packed: SmallVec<[usize; 16]> = SmallVec::new();
        for (n, part) in write.parts.iter().enumerate() {
            if !self.observe(flash, part, write.parts.len() == 1) {
                rest.place_part(flash, write, part);
                programs += 1;
                continue;
            }
            let sectors = part.mask.count_ones();
            if filled + sectors > flash.sectors_per_page() {
                self.write_packed(flash, write, &packed);
                programs += 1;
                packed.clear();
                filled = 0;
            }
            packed.push(n);
            filled += sectors;
        }
        if !packed.is_empty() {
            self.write_packed(flash, write, &packed);
            programs += 1;
        }
        programs
    }

    /// A search for each piece that is wanted, and the loads that it has to wait for.
    fn look_up(&mut self, flash: &mut Flash, lpn: u32, mask: u64) -> Option<Option<OpId>> {
        let tree = flash.map().tree()?;
        let ((searches, pages), levels) = (tree.wanted(lpn, mask), tree.levels());
        flash.count_accesses(searches * levels);
        let own = flash.load_map_page(flash.map().page_of(lpn), None, false);
        Some(pages.into_iter().fold(own, |load, page| flash.load_map_page(page, load, false)))
    }
    fn relocate(&mut self, flash: &mut Flash, ppn: Ppn, plane: u32, group: GroupId) -> Option<u32> {
        self.move_pieces(flash, ppn, plane, group)
    }

    /// Which regions are by piece, which physical pages lie beside home, and where the nodes are.
    fn restore(&mut self, flash: &mut Flash) {
        let mut beside = BTreeSet::new();
        let mut lists: BTreeMap<u32, FragmentList> = BTreeMap::new();
        for lpn in 0..flash.logical_pages() {
            if !is_whole(flash, lpn) {
                let list = flash.fragments().get(lpn, flash.array());
                beside.extend(list.iter().map(|f| f.ppn));
                lists.insert(lpn, list);
                let region = self.region_of(lpn);
                self.regions[region].split = true;
            }
        }
        beside.into_iter().for_each(|ppn| flash.mark_surplus(ppn));
        flash.restore_tree(&lists);
    }
    fn check(&self, flash: &Flash) {
        for lpn in 0..flash.logical_pages() {
            assert!(
                self.is_split(lpn) || is_whole(flash, lpn),
                "page {lpn} is scattered in a region by page"
            );
        }
        if let Some(tree) = flash.map().tree() {
            tree.check(|lpn| flash.fragments().get(lpn, flash.array()));
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
        line: "Regions mapped by page or by pieces of any size, packed together (MRSM).",
    }];
    const COUNTERS: &'static [Counter<Self>] = &[
        Counter::new("mrsm.split_regions", "regions that went from pages to pieces", |own, _| {
            own.stats.split_regions
        }),
        Counter::new("mrsm.joined_regions", "regions that went back from pieces to pages", |own, _| {
            own.stats.joined_regions
        }),
        Counter::new("mrsm.regions_split", "regions mapped by piece at the end", |own, _| {
            own.regions.iter().filter(|region| region.split).count() as u64
        }),
        Counter::new("mrsm.regions", "regions that the logical pages are divided into", |own, _| {
            own.regions.len() as u64
        }),
        Counter::new("mrsm.nodes", "nodes of the tree at the end", |_, flash| {
            flash.map().tree().map_or(0, Tree::nodes)
        }),
        Counter::new("mrsm.levels", "levels of the tree at the end", |_, flash| {
            flash.map().tree().map_or(0, |tree| tree.levels().into())
        }),
        Counter::new("mrsm.pieces_written", "partial pages written by themselves", |own, _| {
            own.stats.pieces_written
        }),
        Counter::new("mrsm.merged", "writes that brought their page together: too many pieces", |own, _| {
            own.stats.merged
        }),
        Counter::new("mrsm.packed_pages", "physical pages that pieces were packed into", |own, _| {
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
        let MrsmConfig { pieces, region_pages, .. } = *config;
        if !(2..=16).contains(&pieces) {
            return Err(ConfigError::new("scheme.mrsm.pieces", pieces, "2 to 16"));
        }
        if !(2..=32768).contains(&region_pages) {
            return Err(ConfigError::new("scheme.mrsm.region_pages", region_pages, "2 to 32768"));
        }
        let pieces = pieces.min(facts.geometry.sectors_per_page());
        refuse_second_table(NAME, plan)?;
        plan.packs = Some(NAME);
        plan.table = TableShape::Tree { pieces };
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
