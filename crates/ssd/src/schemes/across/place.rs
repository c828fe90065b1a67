//! Where an across-page run goes, and what becomes of areas that other writes overlap.

use nandle_nand::{Cause, Extent, Extents, OpId, Ppn};
use smallvec::SmallVec;

use super::super::Rest;
use super::areas::{Area, area_of, can_spare, has_area, hull, in_areas};
use super::{Across, OWNER};
use crate::flash::{Flash, Page, Part, Reads, Write, page};
use crate::map::{Fragment, crosses_border, run_mask, runs};
use crate::media::Contents;
use crate::space::PageClass;

/// Whether the parts are one run over the border between their pages, no larger than a page.
fn straddles(parts: &[Part<'_>], full: u64) -> bool {
    parts[0].lpn + 1 == parts[1].lpn && crosses_border(parts[0].mask, parts[1].mask, full)
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

impl Across {
    /// Places runs over page borders in areas, and passes on everything that areas have nothing to do with.
    pub(super) fn place_write(&mut self, flash: &mut Flash, write: &Write<'_>, rest: &mut dyn Rest) -> u32 {
        let (mut programs, mut n) = (0, 0);
        // What follows may place these together.
        let mut plain: SmallVec<[Part<'_>; 2]> = SmallVec::new();
        while n < write.parts.len() {
            let pair = write.parts.get(n..n + 2).filter(|pair| straddles(pair, flash.full_mask()));
            let part = &write.parts[n];
            if let Some(pair) = pair {
                if self.place_run(flash, write, pair) {
                    programs += 1;
                } else {
                    for part in pair {
                        programs += self.place_beside(flash, write, part, false, rest);
                    }
                }
                n += 2;
            } else if has_area(flash, part.lpn.wrapping_sub(1)) || has_area(flash, part.lpn) {
                programs += self.place_beside(flash, write, part, true, rest);
                n += 1;
            } else {
                plain.push(*part);
                n += 1;
            }
        }
        if !plain.is_empty() {
            programs += rest.place(flash, &Write { parts: &plain, ..*write });
        }
        programs
    }

    /// An across-page run: a new area, or merged into the one on its border; false if it goes the normal way.
    fn place_run(&mut self, flash: &mut Flash, write: &Write<'_>, pair: &[Part<'_>]) -> bool {
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
                if !dies && !self.shrink {
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
                self.stats.profitable_merges += 1;
            }
            None => {
                if !can_spare(flash, first) {
                    self.stats.refused += 1;
                    return false;
                }
                self.stats.direct_writes += 1;
            }
        }
        self.write_area(flash, write, first, [Some(&pair[0]), Some(&pair[1])], old);
        for (border, shrinks) in touched {
            self.stats.shrinks += u64::from(shrinks);
            self.area_follows(flash, border);
        }
        true
    }

    /// A part within one page; `merge` = it may be merged into an area that it overlaps. The programs it
    /// took.
    pub(super) fn place_beside(
        &mut self,
        flash: &mut Flash,
        write: &Write<'_>,
        part: &Part<'_>,
        merge: bool,
        rest: &mut dyn Rest,
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
                self.stats.unprofitable_merges += 1;
                self.write_area(flash, write, area.first, parts, Some(*area));
                self.areas_follow(flash, lpn);
                return 1;
            }
        }
        // Sectors of areas that stay; pages whose share of a dissolved area goes home.
        let mut held = in_areas(flash, lpn, None) & !part.mask;
        let mut homeless: SmallVec<[(u32, Ppn); 2]> = SmallVec::new();
        if self.shrink {
            self.stats.shrinks += hit.len() as u64;
            hit.clear();
        }
        for area in &hit {
            held &= !area.mask_in(lpn);
            let other = if area.first == lpn { lpn + 1 } else { area.first };
            if area.mask_in(other) != 0 {
                self.stats.rollbacks += 1;
                if written(write, other, spp) == 0 {
                    homeless.push((other, area.appn));
                }
            }
        }
        let part = Part { held: part.held | held, ..*part };
        if hit.is_empty() {
            rest.place_part(flash, write, &part);
        } else {
            let mut reads = Reads::new();
            page::place_beside(flash, write, &part, &mut reads);
            for &(other, appn) in &homeless {
                // Its share of the dissolved area and its base page; what other areas hold stays there.
                let held = in_areas(flash, other, Some(appn));
                let contents = Contents::NONE;
                let share = Part {
                    lpn: other,
                    mask: 0,
                    held,
                    alone: part.alone,
                    contents,
                    release: 0,
                    load: None,
                    rewrite: None,
                };
                page::place_beside(flash, write, &share, &mut reads);
            }
        }
        self.areas_follow(flash, lpn);
        1 + homeless.len() as u32
    }

    /// Programs an area: the parts, and what they leave standing of the area `old` (AMerge).
    fn write_area(
        &mut self,
        flash: &mut Flash,
        write: &Write<'_>,
        first: u32,
        parts: [Option<&Part<'_>>; 2],
        old: Option<Area>,
    ) {
        let spp = flash.sectors_per_page();
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
                flash.read(first + half as u32, keep[half], Cause::Rmw, None, &after, &mut reads);
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
        // An area goes where its first page would: for that page room was made sure of too.
        let group = flash.host_group(first, write.stream);
        let alone = parts.iter().flatten().next().is_some_and(|part| part.alone);
        let class = PageClass { full: false, alone };
        let plane = flash.granted_plane(first, group, class);
        let release = parts.iter().flatten().map(|part| part.release).sum();
        let page = Page::data(plane, group, class, Extents::List(&extents))
            .for_request(write.request, release)
            .owned_by(OWNER);
        let (ppn, op) = flash.append(&page, &after);
        if !reads.is_empty() {
            flash.mark_rmw(op, reads.iter().map(|&(_, read)| read));
        }
        for half in [0, 1] {
            let lpn = first + half as u32;
            flash.carry(lpn, keep[half], ppn, shifts[half]);
            if let Some(part) = parts[half] {
                flash.count_host_sectors(part.mask);
                flash.fill(ppn, part.mask, shifts[half], part.contents);
            }
        }
        for half in [0, 1] {
            if masks[half] != 0 {
                let lpn = first + half as u32;
                let entry = flash.map().entry(lpn, flash.array());
                let fragment = Fragment { mask: masks[half], ppn, shift: shifts[half] as i8 };
                flash.attach_beside(lpn, fragment, op);
                if flash.map().entry(lpn, flash.array()) != entry {
                    flash.map_changed(lpn);
                }
            }
        }
        self.area_follows(flash, first);
    }
}
