//! Across-FTL: requests that straddle a page border get a page of their own.
//!
//! Cai et al., "Re-aligning across-page requests for flash-based solid-state drives", ICPP 2023.
//! A write no larger than a page that spans two logical pages (an across-page request) takes two
//! programs, and often two read-modify-writes, on a page-mapped drive. Here its sectors go to one
//! physical page, an *across-page area* (section 3.1). The table has two levels (section 3.2): the
//! page mapping table PMT has a field AIdx, -1 or the index of an entry of the across-page mapping
//! table AMT (Off, Size, APPN). Updates merge into the area as long as it fits a page (AMerge), else
//! the area is dissolved (ARollback, section 3.3.1).
//!
//! What the paper leaves open, and what we do:
//! - AIdx stands at the first of the area's two logical pages; one bit in the entry of the second
//!   says that the entry before it is to be looked at. Together they are three bytes.
//! - Areas never overlap; a logical page may belong to the areas on both its sides. A run that would
//!   need sectors of the area on another border dissolves that one.
//! - A write that covers all live sectors of an area kills it without a read.
//! - A write that overlaps the areas on both sides of its page dissolves both.
//! - Writes within one page merge only if they overlap the area, as in Fig 6; touching it is not enough.
//! - The base page of an area stays live, so each area costs a physical page. Their number is
//!   limited per plane, to half of what the plane can spare; beyond that, across-page writes are
//!   placed normally.
//! - Sectors of an area die one by one, by trim too; Off and Size span those that live. An area that
//!   no longer straddles the border is dissolved by the next write that overlaps it.
//!
//! With `shrink` (ours) an area gives up the sectors that are overwritten instead of rolling back.
//!
//! Everything is derived from the fragments: the out-of-band area of an area's page names this scheme as its owner, and
//! its sectors lie away from home, with a negative shift in the first logical page and a positive one
//! in the second. So garbage collection moves an area as a unit, and recovery finds it by itself.
//!
//! What is no area is passed on, with the sectors that areas hold: to page mapping, or to what follows in
//! the drive's list (`across+multi-version`, `across+compaction`).

use nandle_nand::{OpId, Ppn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{
    Counter, Facts, Interests, Name, Plan, Published, Reach, Rest, Scheme, Seam, refuse_second_table,
};
use crate::error::ConfigError;
use crate::flash::{Flash, Part, Write};
use crate::map::{Fragment, TableShape};
use crate::space::GroupId;

mod areas;
mod place;

/// `[scheme.across]`
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AcrossConfig {
    /// An area gives up overwritten sectors instead of rolling back (not in the paper).
    pub shrink: bool,
}

/// What happened to across-page areas.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AcrossStats {
    /// Across-page writes that made a new area.
    pub direct_writes: u64,
    /// Across-page writes merged into an area.
    pub profitable_merges: u64,
    /// Other writes merged into an area.
    pub unprofitable_merges: u64,
    /// Areas dissolved by a write that did not fit.
    pub rollbacks: u64,
    /// Areas that gave up overwritten sectors instead (`shrink`).
    pub shrinks: u64,
    /// Across-page writes placed normally because there was no page to spare for an area.
    pub refused: u64,
    /// Reads answered from an area alone.
    pub direct_reads: u64,
    /// Reads that needed an area and other pages.
    pub merged_reads: u64,
}

/// No area.
const NONE: u32 = u32::MAX;

/// Areas over page borders.
#[derive(Clone, Debug)]
pub struct Across {
    /// Areas shrink instead of rolling back.
    shrink: bool,
    /// First logical page of the area whose AMT entry was read last.
    latched: u32,
    stats: AcrossStats,
}

impl Across {
    /// What happened to across-page areas.
    pub fn stats(&self) -> &AcrossStats {
        &self.stats
    }

    /// Address translation of the sectors `mask` of `lpn` (section 3.2): the entry of the page, the
    /// AMT entry that it points to, and, if the bit says so, the same for the page before. The entry
    /// read last is at hand: a request that lies in an area needs it once.
    fn translate(&mut self, flash: &mut Flash, lpn: u32, mask: u64) -> Option<OpId> {
        let spp = flash.sectors_per_page();
        let annex = flash.map().annex()?;
        let latched = self.latched;
        if latched != NONE
            && latched + 1 == lpn
            && annex.at(latched).is_some_and(|(_, entry)| areas::spans(&entry, mask, 1, spp))
        {
            return None;
        }
        let own = annex.at(lpn);
        let before = if lpn > 0 { annex.at(lpn - 1) } else { None };
        let own_page = annex.page_of(lpn);
        let page_before = before.map(|_| annex.page_of(lpn - 1));
        let records = [own, before].map(|area| area.map(|(place, _)| annex.page_of_record(place)));
        flash.count_accesses(1);
        let mut load = flash.load_map_page(own_page, None, false);
        self.latched = NONE;
        if let (Some(page), Some((_, entry))) = (records[0], own) {
            flash.count_accesses(1);
            load = flash.load_map_page(page, load, false);
            self.latched = lpn;
            if areas::spans(&entry, mask, 0, spp) {
                return load;
            }
        }
        if let (Some(first), Some(page)) = (page_before, records[1]) {
            flash.count_accesses(2);
            if first != own_page {
                load = flash.load_map_page(first, load, false);
            }
            load = flash.load_map_page(page, load, false);
        }
        load
    }
}

impl Scheme for Across {
    fn interests(&self) -> Interests {
        let all = [Interests::RELOCATE, Interests::LOOK_UP, Interests::HOST_READ, Interests::TRIM];
        all.into_iter().fold(Interests::PLACE, Interests::and)
    }
    fn place(&mut self, flash: &mut Flash, write: &Write<'_>, rest: &mut dyn Rest) -> u32 {
        self.place_write(flash, write, rest)
    }
    fn place_part(&mut self, flash: &mut Flash, write: &Write<'_>, part: &Part<'_>, rest: &mut dyn Rest) {
        self.place_beside(flash, write, part, false, rest);
    }
    fn look_up(&mut self, flash: &mut Flash, lpn: u32, mask: u64) -> Option<Option<OpId>> {
        Some(self.translate(flash, lpn, mask))
    }

    /// A host read goes to flash: direct or merged, if an area is in it.
    fn host_read(&mut self, flash: &Flash, lsn: u64, sectors: u64) {
        let Some(annex) = flash.map().annex() else { return };
        let spp = u64::from(flash.sectors_per_page());
        let (first, last) = ((lsn / spp) as u32, ((lsn + sectors - 1) / spp) as u32);
        let mut touched = false;
        for border in first.saturating_sub(1)..=last {
            let Some((_, entry)) = annex.at(border) else { continue };
            let from = u64::from(border) * spp + u64::from(entry.offset);
            let to = from + u64::from(entry.size);
            if from <= lsn && lsn + sectors <= to {
                self.stats.direct_reads += 1;
                return;
            }
            touched |= from < lsn + sectors && lsn < to;
        }
        self.stats.merged_reads += u64::from(touched);
    }
    fn trimmed_page(&mut self, flash: &mut Flash, lpn: u32) {
        self.areas_follow(flash, lpn);
    }

    fn relocate(&mut self, flash: &mut Flash, ppn: Ppn, plane: u32, group: GroupId) -> Option<u32> {
        if !flash.media().is_owned_by(ppn, OWNER) {
            return None;
        }
        let (.., fragment) = flash.relocate_fragments(ppn, plane, group);
        if let Some((lpn, fragment)) = fragment {
            let to = Fragment { ppn, ..fragment };
            self.page_went(flash, lpn, to);
        }
        Some(1)
    }
    fn page_went(&mut self, flash: &mut Flash, lpn: u32, fragment: Fragment) {
        self.area_follows(flash, if fragment.shift < 0 { lpn } else { lpn - 1 });
    }

    fn restore(&mut self, flash: &mut Flash) {
        self.restore_areas(flash);
    }
    fn check(&self, flash: &Flash) {
        areas::check(flash);
    }
    fn reset_counters(&mut self) {
        self.stats = AcrossStats::default();
    }
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

/// Written to the out-of-band areas of areas.
const OWNER: u8 = 1;
/// What it is called.
const NAME: &str = "across";

impl Published for Across {
    const NAMES: &'static [Name] = &[Name {
        seam: Seam::Mapping,
        name: NAME,
        line: "Writes over a page border get a page of their own (Across-FTL).",
    }];
    const OWNER: u8 = OWNER;
    const COUNTERS: &'static [Counter<Self>] = &[
        Counter::new("across.direct_writes", "across-page writes that made a new area", |own, _| {
            own.stats.direct_writes
        }),
        Counter::new("across.profitable_merges", "across-page writes merged into an area", |own, _| {
            own.stats.profitable_merges
        }),
        Counter::new("across.unprofitable_merges", "other writes merged into an area", |own, _| {
            own.stats.unprofitable_merges
        }),
        Counter::new("across.rollbacks", "areas dissolved by a write that did not fit", |own, _| {
            own.stats.rollbacks
        }),
        Counter::new(
            "across.shrinks",
            "areas that gave up overwritten sectors instead (`shrink`)",
            |own, _| own.stats.shrinks,
        ),
        Counter::new(
            "across.refused",
            "across-page writes placed normally: no page to spare for an area",
            |own, _| own.stats.refused,
        ),
        Counter::new("across.areas_live", "areas at the end", |_, flash| {
            flash.map().annex().map_or(0, |annex| u64::from(annex.live()))
        }),
        Counter::new("across.direct_reads", "reads answered from an area alone", |own, _| {
            own.stats.direct_reads
        }),
        Counter::new("across.merged_reads", "reads that needed an area and other pages", |own, _| {
            own.stats.merged_reads
        }),
    ];
    type Config<'a> = &'a AcrossConfig;

    fn plan(_: &AcrossConfig, _: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError> {
        refuse_second_table(NAME, plan)?;
        plan.table = TableShape::Annex;
        plan.scatters = true;
        // The page, and its share of areas on both sides; for each of the two parts of a run.
        plan.pages_at_once = plan.pages_at_once.max(6);
        plan.reach =
            Reach { pages: plan.reach.pages.max(3), distance: 1, mixes_classes: true, joins_borders: true };
        Ok(())
    }
    fn inherit(&mut self, before: &Self) {
        self.stats = before.stats.clone();
    }
    fn new(config: &AcrossConfig, _: &Facts<'_>, _: u32) -> Self {
        Self { shrink: config.shrink, latched: NONE, stats: AcrossStats::default() }
    }
}
