//! What is known of areas: by the fragments, and by the tables that follow them.

use std::collections::BTreeSet;

use nandle_nand::{Note, Ppn};
use smallvec::SmallVec;

use super::{Across, NONE, OWNER};
use crate::flash::Flash;
use crate::map::annex::Record;

/// The sectors of an area: in its first and in its second logical page, and where they lie.
#[derive(Clone, Copy, Debug)]
pub(super) struct Area {
    pub first: u32,
    /// Live sectors in the two logical pages.
    pub masks: [u64; 2],
    pub appn: Ppn,
}

impl Area {
    pub fn mask_in(&self, lpn: u32) -> u64 {
        self.masks[(lpn - self.first) as usize]
    }
}

/// Whether an AMT entry spans the sectors `mask` of its first (0) or second (1) logical page.
pub(super) fn spans(entry: &Record, mask: u64, half: u32, spp: u32) -> bool {
    let first = mask.trailing_zeros() + half * spp;
    let end = 64 - mask.leading_zeros() + half * spp;
    u32::from(entry.offset) <= first && end <= u32::from(entry.offset) + u32::from(entry.size)
}

/// First sector and end of two masks, counted from the start of the first logical page.
pub(super) fn hull(masks: [u64; 2], spp: u32) -> (u32, u32) {
    let low = if masks[0] != 0 { masks[0].trailing_zeros() } else { spp + masks[1].trailing_zeros() };
    let high =
        if masks[1] != 0 { spp + 64 - masks[1].leading_zeros() } else { 64 - masks[0].leading_zeros() };
    (low, high)
}

/// Whether `ppn` is an across-page area.
#[inline]
pub(super) fn is_area(flash: &Flash, ppn: Ppn) -> bool {
    flash.media().is_owned_by(ppn, OWNER)
}

/// Whether there is an area over the border behind logical page `border`.
#[inline]
pub(super) fn has_area(flash: &Flash, border: u32) -> bool {
    flash.map().annex().is_some_and(|annex| annex.at(border).is_some())
}

/// The live sectors of the area over the border behind `first`, by the fragments.
///
/// After a power cut an older area may be back over the same border, because what replaced it was
/// not on flash yet. Its sectors stay where they are until they are overwritten; the area is the
/// one that AMT knows, or else the newest.
pub(super) fn area_of(flash: &Flash, first: u32) -> Option<Area> {
    let mut pages: SmallVec<[Area; 2]> = SmallVec::new();
    for half in [0, 1] {
        if first + half >= flash.logical_pages() {
            break;
        }
        for f in flash.fragments().get(first + half, flash.array()) {
            if is_area(flash, f.ppn) && (f.shift < 0) == (half == 0) {
                let at = pages.iter().position(|area| area.appn == f.ppn).unwrap_or_else(|| {
                    pages.push(Area { first, masks: [0; 2], appn: f.ppn });
                    pages.len() - 1
                });
                pages[at].masks[half as usize] |= f.mask;
            }
        }
    }
    if pages.len() > 1 {
        let known = flash.map().annex().and_then(|annex| annex.at(first)).map(|(_, entry)| entry.ppn);
        let key = |area: &Area| (Some(area.appn) == known, flash.array().seq(area.appn));
        return pages.into_iter().max_by_key(key);
    }
    pages.pop()
}

/// The sectors of `lpn` that lie in areas.
pub(super) fn in_areas(flash: &Flash, lpn: u32, but: Option<Ppn>) -> u64 {
    let list = flash.fragments().get(lpn, flash.array());
    list.iter().filter(|f| is_area(flash, f.ppn) && Some(f.ppn) != but).fold(0, |mask, f| mask | f.mask)
}

/// Whether there is a physical page to spare for a new area behind `first`.
pub(super) fn can_spare(flash: &Flash, first: u32) -> bool {
    let (Some(annex), space) = (flash.map().annex(), flash.space()) else { return false };
    let spare = |plane| space.beyond_need(plane) / 2;
    // Other pages beyond one a logical page lie in what the host has not written first.
    let others = |plane| space.blocks().surplus(plane).saturating_sub(space.unwritten_pages(plane));
    annex.has_room()
        && space.leaves_claims_theirs()
        && match space.home_plane(first) {
            Some(plane) => space.apart(plane) + others(plane) < spare(plane),
            None => {
                let planes = 0..flash.geometry().planes();
                annex.live() + planes.clone().map(others).sum::<u32>() < planes.map(spare).sum()
            }
        }
}

impl Across {
    /// The areas on both sides of `lpn` may have changed.
    #[inline]
    pub(super) fn areas_follow(&mut self, flash: &mut Flash, lpn: u32) {
        let (before, behind) = (lpn > 0 && has_area(flash, lpn - 1), has_area(flash, lpn));
        if before {
            self.area_follows(flash, lpn - 1);
        }
        if behind {
            self.area_follows(flash, lpn);
        }
    }

    /// PMT and AMT say what the fragments say of the area behind `first`.
    pub(super) fn area_follows(&mut self, flash: &mut Flash, first: u32) {
        let area = area_of(flash, first);
        let changed = self.set_area(flash, first, area);
        let Some(annex) = flash.map().annex() else { return };
        let Some((place, renewed)) = changed else { return };
        let fields = if renewed { 2 } else { 0 };
        let mut pages: SmallVec<[u32; 3]> = smallvec::smallvec![annex.page_of_record(place)];
        if renewed {
            // AIdx of the first page, and the bit of the second.
            let last = (first + 1).min(flash.logical_pages() - 1);
            for page in [first, last].map(|lpn| annex.page_of(lpn)) {
                if !pages.contains(&page) {
                    pages.push(page);
                }
            }
        }
        pages.into_iter().for_each(|page| flash.map_page_changed(page));
        flash.count_updates(1 + fields);
    }

    /// Enters an area, or none, in PMT and AMT; the AMT entry concerned, and whether AIdx changed.
    fn set_area(&mut self, flash: &mut Flash, first: u32, area: Option<Area>) -> Option<(u32, bool)> {
        self.latched = NONE;
        let spp = flash.sectors_per_page();
        let entry = area.map(|area| {
            let (low, high) = hull(area.masks, spp);
            Record { offset: low as u8, size: (high - low) as u8, ppn: area.appn }
        });
        let old = flash.map().annex()?.at(first).map(|(_, entry)| entry);
        if let Some(old) = old {
            let plane = flash.media().plane_of(old.ppn);
            flash.space_mut().drop_apart(plane);
        }
        if let Some(new) = entry {
            let plane = flash.media().plane_of(new.ppn);
            flash.space_mut().add_apart(plane);
        }
        flash.map_mut().annex_mut()?.set(first, entry)
    }

    /// Power-on: the fragments that lie in areas say which there are. AMT entries keep their places
    /// where the translation pages in flash still know them.
    pub(super) fn restore_areas(&mut self, flash: &mut Flash) {
        let Some(annex) = flash.map().annex() else { return };
        let known = annex.stored(|page| {
            let ppn = flash.map().location(page)?;
            flash.array().note(ppn).map(Note::bytes)
        });
        let borders: BTreeSet<u32> = (0..flash.logical_pages())
            .flat_map(|lpn| {
                let list = flash.fragments().get(lpn, flash.array());
                list.into_iter().map(move |f| (lpn, f))
            })
            .filter(|(_, f)| is_area(flash, f.ppn))
            .map(|(lpn, f)| if f.shift < 0 { lpn } else { lpn - 1 })
            .collect();
        let Some(annex) = flash.map_mut().annex_mut() else { return };
        for (first, place) in annex.keep_places(known, &borders) {
            if let Some(annex) = flash.map_mut().annex_mut() {
                annex.hand_out(place);
            }
            let area = area_of(flash, first);
            self.set_area(flash, first, area);
        }
        for first in borders {
            let area = area_of(flash, first);
            self.set_area(flash, first, area);
        }
    }
}

/// Checks that areas do not overlap and that PMT and AMT agree with the fragments.
pub(super) fn check(flash: &Flash) {
    let Some(annex) = flash.map().annex() else { return };
    let spp = flash.sectors_per_page();
    let planes = flash.geometry().planes();
    let mut used = BTreeSet::new();
    let mut in_plane = vec![0; planes as usize];
    let mut end = 0;
    for first in 0..flash.logical_pages() {
        let found = area_of(flash, first);
        assert_eq!(found.is_some(), annex.at(first).is_some(), "AIdx of page {first}");
        let (Some(area), Some((place, entry))) = (found, annex.at(first)) else { continue };
        let (low, high) = hull(area.masks, spp);
        assert_eq!(
            (u32::from(entry.offset), u32::from(entry.size), entry.ppn),
            (low, high - low, area.appn),
            "AMT entry of page {first}"
        );
        assert!(high - low <= spp, "an area larger than a page behind page {first}");
        assert!(used.insert(place), "two pages with the same AIdx");
        let base = u64::from(first) * u64::from(spp);
        assert!(base + u64::from(low) >= end, "areas overlap at page {first}");
        end = base + u64::from(high);
        in_plane[flash.media().plane_of(entry.ppn) as usize] += 1;
    }
    let counted: Vec<u32> = (0..planes).map(|plane| flash.space().apart(plane)).collect();
    assert_eq!(in_plane, counted);
    annex.check(&used);
}
