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
//! Everything is derived from the fragments: the page of an area says so in its out-of-band area, and
//! its sectors lie away from home, with a negative shift in the first logical page and a positive one
//! in the second. So garbage collection moves an area as a unit, and recovery finds it by itself.
//!
//! What is no area is placed by an inner scheme: by page mapping, or as versions and compacted pages
//! (`across+multi-version`, `across+compaction`).

use std::collections::{BTreeMap, BTreeSet};

use nandle_nand::{Array, Cause, Extent, Extents, OpId, PageUse, Ppn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::multi_version::MultiVersion;
use super::{Part, Write, page};
use crate::allocation::PageClass;
use crate::config::{DeviceConfig, Layout};
use crate::flash::{Contents, Flash, Owner, Page, Reads};
use crate::fragments::{Fragment, FragmentList, Fragments, run_mask, runs};
use crate::map_cache::{MapCache, table::Table};
use crate::striping::Striping;

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

/// Bytes of AIdx with its bit for the second page.
const INDEX_BYTES: u32 = 3;
/// Bytes of an AMT entry: Off, Size, APPN.
const AMT_BYTES: u32 = 8;
/// No area: the paper's -1.
const NONE: u32 = u32::MAX;
/// Most AMT entries that AIdx can tell apart.
const MOST: usize = (1 << 23) - 1;

/// An entry of the across-page mapping table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AmtEntry {
    /// First sector, counted from the start of the area's first logical page.
    pub offset: u8,
    /// Sectors from the first to the last that live.
    pub size: u8,
    /// The physical page.
    pub appn: Ppn,
}

impl AmtEntry {
    /// Whether it spans the sectors `mask` of its first (0) or second (1) logical page.
    fn spans(&self, mask: u64, half: u32, spp: u32) -> bool {
        let first = mask.trailing_zeros() + half * spp;
        let end = 64 - mask.leading_zeros() + half * spp;
        u32::from(self.offset) <= first && end <= u32::from(self.offset) + u32::from(self.size)
    }
}

/// The AIdx field of the page mapping table, and the across-page mapping table.
#[derive(Clone, Debug)]
pub struct Areas {
    /// AIdx of each logical page.
    index: Vec<u32>,
    amt: Vec<AmtEntry>,
    /// AMT entries to be used again.
    free: Vec<u32>,
    in_plane: Vec<u32>,
    /// First logical page of the area whose AMT entry was read last.
    latched: u32,
    pmt_pages: u32,
    amt_per_page: u32,
}

impl Areas {
    /// PMT entries of a translation page, and translation pages of PMT and AMT.
    pub(crate) fn shape(page: u32, entry: u32, logical_pages: u32) -> (u32, u32) {
        let per_page = page / (entry + INDEX_BYTES);
        (per_page, logical_pages.div_ceil(per_page) + logical_pages.div_ceil(page / AMT_BYTES))
    }

    pub(crate) fn new(config: &DeviceConfig, layout: &Layout) -> Self {
        Self {
            index: vec![NONE; layout.logical_pages as usize],
            amt: Vec::new(),
            free: Vec::new(),
            in_plane: vec![0; config.geometry.planes() as usize],
            latched: NONE,
            pmt_pages: layout.logical_pages.div_ceil(layout.entries_per_map_page),
            amt_per_page: config.geometry.page_bytes / AMT_BYTES,
        }
    }

    /// Areas at present.
    pub fn live(&self) -> u32 {
        (self.amt.len() - self.free.len()) as u32
    }

    /// The area over the border behind logical page `first`: AIdx and its entry.
    #[inline]
    pub fn at(&self, first: u32) -> Option<(u32, AmtEntry)> {
        let index = *self.index.get(first as usize)?;
        (index != NONE).then(|| (index, self.amt[index as usize]))
    }

    /// Translation page of an AMT entry.
    fn amt_page(&self, index: u32) -> u32 {
        self.pmt_pages + index / self.amt_per_page
    }

    pub(crate) fn bytes(&self, entry: u32, logical_pages: u64) -> u64 {
        logical_pages * u64::from(entry + INDEX_BYTES) + self.amt.len() as u64 * u64::from(AMT_BYTES)
    }

    /// AIdx and the bit for the second page, as stored with the entry of `lpn`.
    fn field(&self, lpn: u32) -> u32 {
        let index = self.index[lpn as usize] & MOST as u32;
        let left = lpn > 0 && self.index[lpn as usize - 1] != NONE;
        index | u32::from(left) << 23
    }

    pub(crate) fn entries(
        &self,
        page: u32,
        fragments: &Fragments,
        array: &Array,
        layout: &Layout,
    ) -> Vec<u8> {
        let mut out = Vec::new();
        if let Some(page) = page.checked_sub(self.pmt_pages) {
            let first = (page * self.amt_per_page) as usize;
            let last = (first + self.amt_per_page as usize).min(self.amt.len());
            for entry in self.amt.get(first..last).unwrap_or_default() {
                out.extend_from_slice(&[entry.offset, entry.size]);
                out.extend_from_slice(&entry.appn.0.to_le_bytes());
            }
            // Entries that were never used read as zeros, as in a page that was never written.
            let used = out.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            out.truncate(used);
            return out;
        }
        let first = page * layout.entries_per_map_page;
        for lpn in first..(first + layout.entries_per_map_page).min(layout.logical_pages) {
            out.extend_from_slice(&own_entry(fragments, array, lpn).to_le_bytes());
            // Stored as the complement, so that "none" reads as zero.
            out.extend_from_slice(&(self.field(lpn) ^ MOST as u32).to_le_bytes()[..3]);
        }
        out
    }

    /// AIdx fields as a translation page holds them.
    fn stored_fields(note: &[u8]) -> impl Iterator<Item = u32> {
        note.chunks_exact(7).map(|e| {
            let field = u32::from_le_bytes([e[4], e[5], e[6], 0]) & MOST as u32 ^ MOST as u32;
            if field == MOST as u32 { NONE } else { field }
        })
    }
}

/// Who places what is no area.
#[derive(Clone, Debug)]
pub enum Inner {
    /// Page mapping.
    Page,
    /// Versions, compacted pages, or both.
    MultiVersion(Box<MultiVersion>),
}

impl Inner {
    fn place(&mut self, flash: &mut Flash, write: &Write<'_>) -> u32 {
        match self {
            Self::Page => page::place(flash, write),
            Self::MultiVersion(scheme) => scheme.place(flash, write),
        }
    }

    /// Places a part, but for the sectors `held`, which stay in areas.
    fn place_beside(&mut self, flash: &mut Flash, write: &Write<'_>, part: &Part<'_>, held: u64) {
        match self {
            Self::Page => page::place_beside(flash, write, part, held, &mut Reads::new()),
            Self::MultiVersion(scheme) => scheme.place_part(flash, write, part, held),
        }
    }
}

/// The sectors of an area: in its first and in its second logical page, and where they lie.
#[derive(Clone, Copy, Debug)]
struct Area {
    first: u32,
    /// Live sectors in the two logical pages.
    masks: [u64; 2],
    appn: Ppn,
}

impl Area {
    fn mask_in(&self, lpn: u32) -> u64 {
        self.masks[(lpn - self.first) as usize]
    }
}

/// The live sectors of the area over the border behind `first`, by the fragments.
///
/// After a power cut an older area may be back over the same border, because what replaced it was
/// not on flash yet. Its sectors stay where they are until they are overwritten; the area is the
/// one that AMT knows, or else the newest.
fn area_of(flash: &Flash, first: u32) -> Option<Area> {
    let mut pages: SmallVec<[Area; 2]> = SmallVec::new();
    for half in [0, 1] {
        if first + half >= flash.fragments.len() {
            break;
        }
        for f in flash.fragments.get(first + half, flash.array()) {
            if flash.is_area(f.ppn) && (f.shift < 0) == (half == 0) {
                let at = pages.iter().position(|area| area.appn == f.ppn).unwrap_or_else(|| {
                    pages.push(Area { first, masks: [0; 2], appn: f.ppn });
                    pages.len() - 1
                });
                pages[at].masks[half as usize] |= f.mask;
            }
        }
    }
    if pages.len() > 1 {
        let known = flash.areas().and_then(|areas| areas.at(first)).map(|(_, entry)| entry.appn);
        let key = |area: &Area| (Some(area.appn) == known, flash.array().seq(area.appn));
        return pages.into_iter().max_by_key(key);
    }
    pages.pop()
}

/// The entry of `lpn` in PMT, beside AIdx: its page, or a word that stands for all of its pages.
fn own_entry(fragments: &Fragments, array: &Array, lpn: u32) -> u32 {
    if let Some(ppn) = fragments.single(lpn) {
        return ppn.0 + 1;
    }
    let (mut entry, mut last) = (0, None);
    for f in fragments.get(lpn, array) {
        if array.page_use(f.ppn) != PageUse::Area && last != Some(f.ppn) {
            let word = f.ppn.0 + 1;
            entry = if last.is_none() { word } else { nandle_random::mix(u64::from(entry ^ word)) as u32 };
            last = Some(f.ppn);
        }
    }
    entry
}

/// The sectors of `lpn` that lie in areas.
fn in_areas(flash: &Flash, lpn: u32, but: Option<Ppn>) -> u64 {
    let list = flash.fragments.get(lpn, flash.array());
    list.iter().filter(|f| flash.is_area(f.ppn) && Some(f.ppn) != but).fold(0, |mask, f| mask | f.mask)
}

/// First sector and end of two masks, counted from the start of the first logical page.
fn hull(masks: [u64; 2], spp: u32) -> (u32, u32) {
    let low = if masks[0] != 0 { masks[0].trailing_zeros() } else { spp + masks[1].trailing_zeros() };
    let high =
        if masks[1] != 0 { spp + 64 - masks[1].leading_zeros() } else { 64 - masks[0].leading_zeros() };
    (low, high)
}

/// Whether the parts are one run over the border between their pages, no larger than a page.
fn straddles(parts: &[Part<'_>], full: u64) -> bool {
    parts[0].lpn + 1 == parts[1].lpn && makes_run(parts[0].mask, parts[1].mask, full)
}

/// Whether sectors `a` of a page and `b` of the next one make an across-page run.
pub(crate) fn makes_run(a: u64, b: u64, full: u64) -> bool {
    a != 0
        && b != 0
        && a == full & u64::MAX << a.trailing_zeros()
        && b & b.wrapping_add(1) == 0
        && a.count_ones() + b.count_ones() <= full.count_ones()
}

/// Places runs over page borders in areas and everything else through `inner`.
pub(crate) fn place(flash: &mut Flash, write: &Write<'_>, shrink: bool, inner: &mut Inner) -> u32 {
    let (mut programs, mut n) = (0, 0);
    // Parts that areas have nothing to do with, which the inner scheme may place together.
    let mut plain: SmallVec<[Part<'_>; 2]> = SmallVec::new();
    while n < write.parts.len() {
        let pair = write.parts.get(n..n + 2).filter(|pair| straddles(pair, flash.full_mask()));
        let part = &write.parts[n];
        if let Some(pair) = pair {
            if place_run(flash, write, pair, shrink) {
                programs += 1;
            } else {
                for part in pair {
                    programs += place_part(flash, write, part, false, shrink, inner);
                }
            }
            n += 2;
        } else if has_area(flash, part.lpn.wrapping_sub(1)) || has_area(flash, part.lpn) {
            programs += place_part(flash, write, part, true, shrink, inner);
            n += 1;
        } else {
            plain.push(*part);
            n += 1;
        }
    }
    if !plain.is_empty() {
        programs += inner.place(flash, &Write { parts: &plain, ..*write });
    }
    programs
}

/// An across-page run: a new area, or merged into the one on its border; false if it goes the normal way.
fn place_run(flash: &mut Flash, write: &Write<'_>, pair: &[Part<'_>], shrink: bool) -> bool {
    let (spp, first) = (flash.sectors_per_page(), pair[0].lpn);
    let run = [pair[0].mask, pair[1].mask];
    // Areas on the borders before and behind: the union with one of them is larger than a page.
    let sides = [(first.wrapping_sub(1), 0), (first + 1, 1)];
    let mut touched: SmallVec<[(u32, bool); 2]> = SmallVec::new();
    for (border, half) in sides {
        if has_area(flash, border)
            && let Some(area) = area_of(flash, border)
        {
            let inside = area.mask_in(pair[half].lpn);
            if inside & run[half] == 0 {
                continue;
            }
            let dies = area.masks[half] == 0 && inside & !run[half] == 0;
            if !dies && !shrink {
                return false;
            }
            touched.push((border, !dies));
        }
    }
    let old = if has_area(flash, first) { area_of(flash, first) } else { None };
    match old {
        Some(area) => {
            if !union_fits(run, area.masks, spp) {
                return false;
            }
            flash.stats.across.profitable_merges += 1;
        }
        None => {
            if !flash.can_spare_area(first) {
                flash.stats.across.refused += 1;
                return false;
            }
            flash.stats.across.direct_writes += 1;
        }
    }
    flash.write_area(write, first, [Some(&pair[0]), Some(&pair[1])], old);
    for (border, shrinks) in touched {
        flash.stats.across.shrinks += u64::from(shrinks);
        flash.area_follows(border);
    }
    true
}

/// A part within one page; `merge` = it may be merged into an area that it overlaps. The programs it took.
fn place_part(
    flash: &mut Flash,
    write: &Write<'_>,
    part: &Part<'_>,
    merge: bool,
    shrink: bool,
    inner: &mut Inner,
) -> u32 {
    let (lpn, spp) = (part.lpn, flash.sectors_per_page());
    let borders = [lpn.wrapping_sub(1), lpn].map(|border| has_area(flash, border).then_some(border));
    // The areas that lose sectors to the part and have others left.
    let mut hit: SmallVec<[Area; 2]> = SmallVec::new();
    for border in borders.into_iter().flatten() {
        let Some(area) = area_of(flash, border) else { continue };
        let inside = area.mask_in(lpn);
        let other = if border == lpn { lpn + 1 } else { border };
        // Overwritten as a whole it dies without a read.
        let dies = inside & !part.mask == 0 && area.mask_in(other) & !written(write, other, spp) == 0;
        if inside & part.mask != 0 && !dies {
            hit.push(area);
        }
    }
    if let [area] = hit.as_slice()
        && merge
        && whole(write, part, spp)
        && area.masks[(area.first + 1 - lpn) as usize] != 0
    {
        let half = (lpn - area.first) as usize;
        let (mut run, mut parts) = ([0; 2], [None; 2]);
        (run[half], parts[half]) = (part.mask, Some(part));
        if union_fits(run, area.masks, spp) {
            flash.stats.across.unprofitable_merges += 1;
            flash.write_area(write, area.first, parts, Some(*area));
            flash.areas_follow(lpn);
            return 1;
        }
    }
    // Sectors of areas that stay; pages whose share of a dissolved area goes home.
    let mut held = in_areas(flash, lpn, None) & !part.mask;
    let mut homeless: SmallVec<[(u32, Ppn); 2]> = SmallVec::new();
    if shrink {
        flash.stats.across.shrinks += hit.len() as u64;
        hit.clear();
    }
    for area in &hit {
        held &= !area.mask_in(lpn);
        let other = if area.first == lpn { lpn + 1 } else { area.first };
        if area.mask_in(other) != 0 {
            flash.stats.across.rollbacks += 1;
            if written(write, other, spp) == 0 {
                homeless.push((other, area.appn));
            }
        }
    }
    if hit.is_empty() {
        inner.place_beside(flash, write, part, held);
    } else {
        let mut reads = Reads::new();
        page::place_beside(flash, write, part, held, &mut reads);
        for &(other, appn) in &homeless {
            // Its share of the dissolved area and its base page; what other areas hold stays there.
            let held = in_areas(flash, other, Some(appn));
            let contents = Contents { bytes: &[], first: 0 };
            let rest = Part { lpn: other, mask: 0, contents, release: 0, load: None };
            page::place_beside(flash, write, &rest, held, &mut reads);
        }
    }
    flash.areas_follow(lpn);
    1 + homeless.len() as u32
}

#[inline]
fn has_area(flash: &Flash, border: u32) -> bool {
    matches!(&flash.table, Table::Across(areas) if areas.at(border).is_some())
}

/// The sectors of `lpn` that the host request, or another part of the batch, writes.
fn written(write: &Write<'_>, lpn: u32, spp: u32) -> u64 {
    let base = u64::from(lpn) * u64::from(spp);
    let from = write.range.0.max(base);
    let to = write.range.1.min(base + u64::from(spp));
    let mut mask = if from < to { run_mask((from - base) as u32, (to - from) as u32) } else { 0 };
    for part in write.parts.iter().filter(|p| p.lpn == lpn) {
        mask |= part.mask;
    }
    mask
}

/// Whether the part is one run and all that its request writes.
fn whole(write: &Write<'_>, part: &Part<'_>, spp: u32) -> bool {
    let base = u64::from(part.lpn) * u64::from(spp);
    let (from, to) = write.range;
    (from == to || (from >= base && to <= base + u64::from(spp))) && runs(part.mask).count() == 1
}

/// Whether the union of a run and an area leaves no gap and fits a page.
fn union_fits(run: [u64; 2], area: [u64; 2], spp: u32) -> bool {
    let ((a, b), (c, d)) = (hull(run, spp), hull(area, spp));
    a <= d && c <= b && b.max(d) - a.min(c) <= spp
}

impl Flash {
    /// The across-page tables, if the scheme has them.
    pub fn areas(&self) -> Option<&Areas> {
        match &self.table {
            Table::Across(areas) => Some(areas),
            _ => None,
        }
    }

    /// Whether there is a physical page to spare for a new area behind `first`.
    fn can_spare_area(&self, first: u32) -> bool {
        let Table::Across(areas) = &self.table else { return false };
        let ppb = self.geometry().pages_per_block;
        let spare = |plane| self.blocks.good(plane).saturating_sub(self.layout.least_blocks) * ppb / 2;
        // Versions lie in what the host has not written first.
        let versions = |plane| self.blocks.extra(plane).saturating_sub(self.unwritten_pages(plane));
        (!areas.free.is_empty() || areas.amt.len() < MOST)
            && match &self.striping {
                Striping::Static(order) => {
                    let plane = order.plane(first);
                    areas.in_plane[plane as usize] + versions(plane) < spare(plane)
                }
                Striping::Dynamic(_) => {
                    let planes = 0..self.geometry().planes();
                    areas.live() + planes.clone().map(versions).sum::<u32>() < planes.map(spare).sum()
                }
            }
    }

    /// Programs an area: the parts, and what they leave standing of the area `old` (AMerge).
    fn write_area(
        &mut self,
        write: &Write<'_>,
        first: u32,
        parts: [Option<&Part<'_>>; 2],
        old: Option<Area>,
    ) {
        let spp = self.sectors_per_page();
        let new = parts.map(|part| part.map_or(0, |part| part.mask));
        let was = old.map_or([0; 2], |area| area.masks);
        let keep = [was[0] & !new[0], was[1] & !new[1]];
        let masks = [new[0] | keep[0], new[1] | keep[1]];
        let (low, high) = hull(masks, spp);
        debug_assert!(high - low <= spp && low < spp && high > spp);
        let mut after: SmallVec<[OpId; 4]> = parts.iter().flatten().filter_map(|part| part.load).collect();
        let mut reads = Reads::new();
        for half in [0, 1] {
            if keep[half] != 0 {
                // Both halves lie in the same page: one read.
                self.read(first + half as u32, keep[half], Cause::Rmw, None, &after, &mut reads);
            }
        }
        after.extend(reads.iter().map(|&(_, op)| op));
        let shifts = [-(low as i32), spp as i32 - low as i32];
        let mut extents: SmallVec<[Extent; 2]> = SmallVec::new();
        for half in [0, 1] {
            let base = u64::from(first + half as u32) * u64::from(spp);
            extents.extend(runs(masks[half]).map(|(start, len)| Extent {
                lsn: base + u64::from(start),
                sectors: len as u8,
                at: (start as i32 + shifts[half]) as u8,
            }));
        }
        // An area goes where its first page would: for that page room was checked too.
        let role = self.host_role(first, write.stream);
        let class = PageClass { full: false, alone: write.alone };
        let plane = self.choose_plane(first, role, class).expect("room was checked");
        let release = parts.iter().flatten().map(|part| part.release).sum();
        let owner = Owner { request: write.request, release };
        let kind = PageUse::Area;
        let page =
            Page { plane, role, class, kind, extents: Extents::List(&extents), cause: Cause::Host, owner };
        let (ppn, op) = self.append(&page, &after);
        if !reads.is_empty() {
            let reads: SmallVec<[OpId; 4]> = reads.iter().map(|&(_, op)| op).collect();
            self.mark_rmw(op, reads);
        }
        for half in [0, 1] {
            let lpn = first + half as u32;
            self.carry(lpn, keep[half], ppn, shifts[half]);
            if let Some(part) = parts[half] {
                self.count_host_sectors(part.mask);
                self.fill(ppn, part.mask, shifts[half], part.contents);
            }
        }
        for half in [0, 1] {
            if masks[half] != 0 {
                let lpn = first + half as u32;
                let entry = own_entry(&self.fragments, self.nand.array(), lpn);
                let fragment = Fragment { mask: masks[half], ppn, shift: shifts[half] as i8 };
                self.attach_beside(lpn, fragment, op);
                if own_entry(&self.fragments, self.nand.array(), lpn) != entry {
                    self.map_changed(lpn);
                }
            }
        }
        self.area_follows(first);
    }

    /// The areas on both sides of `lpn` may have changed.
    #[inline]
    pub(crate) fn areas_follow(&mut self, lpn: u32) {
        if let Table::Across(areas) = &self.table {
            let (before, behind) = (lpn > 0 && areas.at(lpn - 1).is_some(), areas.at(lpn).is_some());
            if before {
                self.area_follows(lpn - 1);
            }
            if behind {
                self.area_follows(lpn);
            }
        }
    }

    /// PMT and AMT say what the fragments say of the area behind `first`.
    fn area_follows(&mut self, first: u32) {
        let area = area_of(self, first);
        let changed = self.set_area(first, area);
        let Table::Across(areas) = &self.table else { return };
        let Some((index, renewed)) = changed else { return };
        let mut pages: SmallVec<[u32; 3]> = smallvec::smallvec![areas.amt_page(index)];
        if renewed {
            // AIdx of the first page, and the bit of the second.
            let last = (first + 1).min(self.layout.logical_pages - 1);
            for page in [first, last].map(|lpn| lpn / self.layout.entries_per_map_page) {
                if !pages.contains(&page) {
                    pages.push(page);
                }
            }
        }
        pages.into_iter().for_each(|page| self.map_page_changed(page));
    }

    /// Enters an area, or none, in PMT and AMT; the AMT entry concerned, and whether AIdx changed.
    fn set_area(&mut self, first: u32, area: Option<Area>) -> Option<(u32, bool)> {
        let spp = self.spp;
        let plane = |ppn: Ppn| self.nand.geometry().plane_of(self.nand.geometry().block_of(ppn)) as usize;
        let Table::Across(areas) = &mut self.table else { return None };
        areas.latched = NONE;
        let entry = area.map(|area| {
            let (low, high) = hull(area.masks, spp);
            AmtEntry { offset: low as u8, size: (high - low) as u8, appn: area.appn }
        });
        match (areas.at(first), entry) {
            (None, None) => None,
            (Some((index, old)), Some(new)) => {
                areas.in_plane[plane(old.appn)] -= 1;
                areas.in_plane[plane(new.appn)] += 1;
                areas.amt[index as usize] = new;
                (old != new).then_some((index, false))
            }
            (Some((index, old)), None) => {
                areas.in_plane[plane(old.appn)] -= 1;
                areas.index[first as usize] = NONE;
                areas.amt[index as usize] = AmtEntry { offset: 0, size: 0, appn: Ppn(0) };
                areas.free.push(index);
                Some((index, true))
            }
            (None, Some(new)) => {
                areas.in_plane[plane(new.appn)] += 1;
                let index = areas.free.pop().unwrap_or(areas.amt.len() as u32);
                if index as usize == areas.amt.len() {
                    areas.amt.push(new);
                } else {
                    areas.amt[index as usize] = new;
                }
                areas.index[first as usize] = index;
                Some((index, true))
            }
        }
    }

    /// Whether `ppn` is an across-page area.
    #[inline]
    pub(crate) fn is_area(&self, ppn: Ppn) -> bool {
        matches!(self.table, Table::Across(_)) && self.array().page_use(ppn) == PageUse::Area
    }

    /// Areas in `plane`.
    #[inline]
    pub(crate) fn areas_in(&self, plane: u32) -> u32 {
        self.areas().map_or(0, |areas| areas.in_plane[plane as usize])
    }

    /// All fragments of `lpn` that lie in no area, newest first.
    #[inline]
    pub(crate) fn own(&self, lpn: u32) -> FragmentList {
        let mut list = self.fragments.get(lpn, self.array());
        if matches!(self.table, Table::Across(_)) {
            list.retain(|f| !self.is_area(f.ppn));
        }
        list
    }

    /// Whether a page with this live fragment is an area.
    #[inline]
    pub(crate) fn holds_area(&self, fragment: Fragment) -> bool {
        self.is_area(fragment.ppn)
    }

    /// Garbage collection moved the area that this fragment of `lpn` belongs to.
    pub(crate) fn area_moved(&mut self, lpn: u32, fragment: Fragment) {
        self.area_follows(if fragment.shift < 0 { lpn } else { lpn - 1 });
    }

    /// Address translation of the sectors `mask` of `lpn` (section 3.2): the entry of the page, the
    /// AMT entry that it points to, and, if the bit says so, the same for the page before. The entry
    /// read last is at hand: a request that lies in an area needs it once.
    pub(crate) fn look_up_areas(&mut self, lpn: u32, mask: u64) -> Option<OpId> {
        let spp = self.spp;
        let Table::Across(areas) = &self.table else { return None };
        let latched = areas.latched;
        if latched != NONE
            && latched + 1 == lpn
            && areas.at(latched).is_some_and(|(_, entry)| entry.spans(mask, 1, spp))
        {
            return None;
        }
        let own = areas.at(lpn);
        let before = if lpn > 0 { areas.at(lpn - 1) } else { None };
        let pages =
            [Some(lpn), before.map(|_| lpn - 1)].map(|lpn| lpn.map(|l| l / self.layout.entries_per_map_page));
        let amt = [own, before].map(|area| area.map(|(index, _)| areas.amt_page(index)));
        self.stats.dram_accesses += 1;
        let mut load = self.load_map_page(pages[0].expect("the page's own"), None, false);
        let mut found = NONE;
        if let (Some(page), Some((_, entry))) = (amt[0], own) {
            self.stats.dram_accesses += 1;
            load = self.load_map_page(page, load, false);
            found = lpn;
            if entry.spans(mask, 0, spp) {
                self.latch(found);
                return load;
            }
        }
        if let (Some(pmt), Some(page)) = (pages[1], amt[1]) {
            self.stats.dram_accesses += 2;
            if pages[0] != pages[1] {
                load = self.load_map_page(pmt, load, false);
            }
            load = self.load_map_page(page, load, false);
        }
        self.latch(found);
        load
    }

    fn latch(&mut self, first: u32) {
        if let Table::Across(areas) = &mut self.table {
            areas.latched = first;
        }
    }

    /// A host read of `sectors` sectors from `lsn` goes to flash: direct or merged, if an area is in it.
    pub(crate) fn count_area_read(&mut self, lsn: u64, sectors: u64) {
        let Table::Across(areas) = &self.table else { return };
        let spp = u64::from(self.spp);
        let (first, last) = ((lsn / spp) as u32, ((lsn + sectors - 1) / spp) as u32);
        let mut touched = false;
        for border in first.saturating_sub(1)..=last {
            let Some((_, entry)) = areas.at(border) else { continue };
            let from = u64::from(border) * spp + u64::from(entry.offset);
            let to = from + u64::from(entry.size);
            if from <= lsn && lsn + sectors <= to {
                self.stats.across.direct_reads += 1;
                return;
            }
            touched |= from < lsn + sectors && lsn < to;
        }
        self.stats.across.merged_reads += u64::from(touched);
    }

    /// Power-on: the fragments that lie away from home are areas. AMT entries keep their places
    /// where the translation pages in flash still know them.
    pub(crate) fn restore_areas(&mut self) {
        let Table::Across(areas) = &self.table else { return };
        let mut known: Vec<(u32, u32)> = Vec::new();
        if let MapCache::OnDemand(map) = &self.map {
            for page in 0..areas.pmt_pages {
                let Some(note) = map.location(page).and_then(|ppn| self.nand.array().note(ppn)) else {
                    continue;
                };
                let first = page * self.layout.entries_per_map_page;
                known.extend((first..).zip(Areas::stored_fields(note)).filter(|&(_, index)| index != NONE));
            }
        }
        let borders: BTreeSet<u32> = (0..self.fragments.len())
            .flat_map(|lpn| self.fragments.get(lpn, self.nand.array()).into_iter().map(move |f| (lpn, f)))
            .filter(|(_, f)| self.is_area(f.ppn))
            .map(|(lpn, f)| if f.shift < 0 { lpn } else { lpn - 1 })
            .collect();
        let mut old: BTreeMap<u32, u32> = BTreeMap::new();
        let mut taken = BTreeSet::new();
        for (first, index) in known {
            if borders.contains(&first) && taken.insert(index) {
                old.insert(first, index);
            }
        }
        let end = taken.last().map_or(0, |&last| last + 1);
        if let Table::Across(areas) = &mut self.table {
            areas.amt = vec![AmtEntry { offset: 0, size: 0, appn: Ppn(0) }; end as usize];
            areas.free = (0..end).rev().filter(|index| !taken.contains(index)).collect();
        }
        for (first, index) in old {
            if let Table::Across(areas) = &mut self.table {
                // Its old place is handed out next.
                areas.free.push(index);
            }
            let area = area_of(self, first);
            self.set_area(first, area);
        }
        for first in borders {
            let area = area_of(self, first);
            self.set_area(first, area);
        }
    }

    /// Checks that areas do not overlap and that PMT and AMT agree with the fragments.
    pub(crate) fn check_areas(&self) {
        let Table::Across(areas) = &self.table else { return };
        let spp = self.spp;
        let mut used = BTreeSet::new();
        let mut in_plane = vec![0; areas.in_plane.len()];
        let mut end = 0;
        for first in 0..self.fragments.len() {
            let found = area_of(self, first);
            assert_eq!(found.is_some(), areas.at(first).is_some(), "AIdx of page {first}");
            let (Some(area), Some((index, entry))) = (found, areas.at(first)) else { continue };
            let (low, high) = hull(area.masks, spp);
            assert_eq!(
                (u32::from(entry.offset), u32::from(entry.size), entry.appn),
                (low, high - low, area.appn),
                "AMT entry of page {first}"
            );
            assert!(high - low <= spp, "an area larger than a page behind page {first}");
            assert!(used.insert(index), "two pages with the same AIdx");
            let base = u64::from(first) * u64::from(spp);
            assert!(base + u64::from(low) >= end, "areas overlap at page {first}");
            end = base + u64::from(high);
            in_plane[self.geometry().plane_of(self.geometry().block_of(entry.appn)) as usize] += 1;
        }
        assert_eq!(used.len(), areas.live() as usize, "AMT entries without an owner");
        assert_eq!(in_plane, areas.in_plane);
        assert!(areas.free.iter().all(|index| !used.contains(index)), "an AMT entry that is free and used");
    }
}
