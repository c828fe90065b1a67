//! What the sectors of the flash hold. Bytes that were carried from page to page, by collection or because a part
//! of a page changed, are kept once for all the pages that have them; so are bytes that wait beside the flash to be
//! programmed.

use std::ops::Range;

use memmap2::MmapMut;
use prefetch_index::prefetch_index;

use crate::memory::zeros;
use crate::places::{Places, RUN};

/// Memory is taken in pieces of this size, and resident as far as it was written.
const SLAB: usize = 32 << 20;

/// Bytes of a sector that are brought near while the one before it is copied. A processor brings what follows by
/// itself, but not across a border of 4 KiB: 128 KiB from anywhere are read 5 to 15% sooner.
const NEAR: usize = 1 << 10;
/// A line of the processor's cache.
const LINE: usize = 64;

#[derive(Debug)]
pub(crate) struct Contents {
    /// Bytes kept per sector; 0 = contents are not modelled.
    unit: usize,
    /// For each sector of the flash where its bytes are, counted from 1; 0 = nothing was ever stored.
    places: Vec<u32>,
    /// The same for each sector beside the flash, as far as there are some.
    aside: Vec<u32>,
    /// The places, and how many sectors have the bytes of each.
    pool: Places,
    slabs: Vec<MmapMut>,
    /// Places in a slab.
    per_slab: usize,
    /// Memory is taken in huge pages.
    pub huge_pages: bool,
    zeros: Box<[u8]>,
}

impl Contents {
    /// Of `sectors` sectors, nothing stored.
    pub fn new(sectors: usize, unit: usize) -> Self {
        Self {
            unit,
            places: if unit == 0 { Vec::new() } else { vec![0; sectors] },
            aside: Vec::new(),
            pool: Places::new(sectors),
            slabs: Vec::new(),
            per_slab: SLAB.checked_div(unit).unwrap_or(0).clamp(1, sectors.max(1)).next_multiple_of(RUN),
            huge_pages: false,
            zeros: vec![0; unit].into_boxed_slice(),
        }
    }

    /// Bytes kept per sector.
    #[inline]
    pub fn unit(&self) -> usize {
        self.unit
    }

    /// Sectors that bytes are kept for: those of one place are one.
    pub fn kept(&self) -> usize {
        self.pool.used()
    }

    /// The bytes of some sectors, one after the other.
    pub fn run(&self, sectors: Range<usize>) -> impl Iterator<Item = &[u8]> {
        sectors.clone().map(move |sector| {
            if sector + 1 < sectors.end {
                self.prefetch(self.places[sector + 1]);
            }
            self.get(sector)
        })
    }

    /// Brings where the bytes of a sector are into the processor's cache.
    #[inline]
    pub fn prefetch_place(&self, sector: usize) {
        prefetch_index(&self.places, sector);
    }

    /// Then the first of them.
    #[inline]
    pub fn prefetch_bytes(&self, sector: usize) {
        self.prefetch(self.places[sector]);
    }

    /// Brings the first bytes of a place into the processor's cache.
    #[inline]
    fn prefetch(&self, place: u32) {
        if place != 0 {
            let (slab, Range { start, end }) = self.find(place);
            let near = (start..end.min(start + NEAR)).step_by(LINE);
            near.for_each(|at| prefetch_index(&self.slabs[slab][..], at));
        }
    }

    /// The bytes of a sector: zeros if nothing was ever stored.
    #[inline]
    pub fn get(&self, sector: usize) -> &[u8] {
        self.at(self.places[sector])
    }

    #[inline]
    fn at(&self, place: u32) -> &[u8] {
        if place == 0 {
            return &self.zeros;
        }
        let (slab, range) = self.find(place);
        &self.slabs[slab][range]
    }

    /// Whether anything was stored.
    #[inline]
    pub fn has(&self, sector: usize) -> bool {
        self.places[sector] != 0
    }

    #[inline]
    fn find(&self, place: u32) -> (usize, Range<usize>) {
        let number = place as usize - 1;
        let from = number % self.per_slab * self.unit;
        (number / self.per_slab, from..from + self.unit)
    }

    /// Stores the bytes of a sector.
    pub fn set(&mut self, sector: usize, bytes: &[u8]) {
        self.places[sector] = self.store(self.places[sector], bytes);
    }

    /// The place of one user that has these bytes instead of what that user had.
    fn store(&mut self, before: u32, bytes: &[u8]) -> u32 {
        let place = if before != 0 && self.pool.is_sole(before as usize - 1) {
            before
        } else {
            self.release(before);
            let place = self.pool.take();
            if place >= self.slabs.len() * self.per_slab {
                self.slabs.push(zeros(self.per_slab * self.unit, self.huge_pages));
            }
            u32::try_from(place + 1).expect("the flash has fewer than 2^32 sectors")
        };
        let (slab, range) = self.find(place);
        self.slabs[slab][range].copy_from_slice(bytes);
        place
    }

    /// Stores the bytes of a sector beside the flash.
    pub fn set_aside(&mut self, at: usize, bytes: &[u8]) {
        self.reach(at);
        self.aside[at] = self.store(self.aside[at], bytes);
    }

    /// There are so many sectors beside the flash, and one more.
    #[inline]
    fn reach(&mut self, at: usize) {
        if at >= self.aside.len() {
            self.aside.resize(at + 1, 0);
        }
    }

    /// The bytes of a sector beside the flash: zeros if it has none.
    pub fn aside(&self, at: usize) -> &[u8] {
        self.at(self.aside.get(at).copied().unwrap_or(0))
    }

    /// A sector is to have the bytes of one beside the flash, which has none from then on.
    pub fn take_aside(&mut self, from: usize, to: usize) {
        self.clear(to);
        self.places[to] = self.aside.get_mut(from).map_or(0, std::mem::take);
    }

    /// Sectors beside the flash have each other's bytes.
    pub fn swap_aside(&mut self, a: usize, b: usize) {
        self.reach(a.max(b));
        self.aside.swap(a, b);
    }

    /// Nothing is kept beside the flash any more.
    pub fn forget_aside(&mut self) {
        for place in std::mem::take(&mut self.aside) {
            self.release(place);
        }
    }

    /// One sector is to have the bytes of another.
    pub fn share(&mut self, from: usize, to: usize) {
        let place = self.places[from];
        if place != 0 {
            self.pool.share(place as usize - 1);
        }
        self.clear(to);
        self.places[to] = place;
    }

    /// Forgets the bytes of a sector.
    pub fn clear(&mut self, sector: usize) {
        let place = std::mem::take(&mut self.places[sector]);
        self.release(place);
    }

    #[inline]
    fn release(&mut self, place: u32) {
        if place != 0 {
            self.pool.release(place as usize - 1);
        }
    }
}

impl Clone for Contents {
    fn clone(&self) -> Self {
        // What is not used of the last one stays untouched.
        let copy = |(n, slab): (usize, &MmapMut)| {
            let used = (self.pool.len() - n * self.per_slab).min(self.per_slab) * self.unit;
            let mut copy = zeros(slab.len(), false);
            copy[..used].copy_from_slice(&slab[..used]);
            copy
        };
        Self {
            unit: self.unit,
            places: self.places.clone(),
            aside: self.aside.clone(),
            pool: self.pool.clone(),
            slabs: self.slabs.iter().enumerate().map(copy).collect(),
            per_slab: self.per_slab,
            huge_pages: self.huge_pages,
            zeros: self.zeros.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn sectors_hold_what_was_stored_last_and_nothing_is_kept_for_nobody(
            unit in 1..3_usize,
            steps in prop::collection::vec((0..7_u8, 0..40_usize, 0..40_usize), 0..400),
        ) {
            let mut contents = Contents::new(40, unit);
            contents.per_slab = RUN;
            let mut plain = vec![vec![0; unit]; 40];
            let mut aside = vec![vec![0; unit]; 40];
            for (n, &(what, a, b)) in steps.iter().enumerate() {
                match what {
                    0 => {
                        contents.clear(a);
                        plain[a] = vec![0; unit];
                    }
                    1 => {
                        contents.share(a, b);
                        plain[b] = plain[a].clone();
                    }
                    2 => {
                        contents.take_aside(a, b);
                        plain[b] = std::mem::replace(&mut aside[a], vec![0; unit]);
                    }
                    3 => {
                        contents.swap_aside(a, b);
                        aside.swap(a, b);
                    }
                    4 => {
                        let bytes = vec![n as u8 | 1; unit];
                        contents.set_aside(a, &bytes);
                        aside[a] = bytes;
                    }
                    _ => {
                        let bytes = vec![n as u8 | 1; unit];
                        contents.set(a, &bytes);
                        plain[a] = bytes;
                    }
                }
                if n == 200 {
                    contents = contents.clone();
                }
            }
            for (sector, bytes) in plain.iter().enumerate() {
                prop_assert_eq!(contents.get(sector), &bytes[..]);
                prop_assert_eq!(contents.has(sector), bytes[0] != 0);
                prop_assert_eq!(contents.aside(sector), &aside[sector][..]);
            }
            let both = contents.places.iter().chain(&contents.aside);
            let mut used: Vec<u32> = both.copied().filter(|&place| place != 0).collect();
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(used.len() + contents.pool.unused(), contents.pool.len());
            prop_assert!(contents.pool.len() <= 128);
            contents.forget_aside();
            prop_assert_eq!(contents.aside(0), &vec![0; unit][..]);
        }
    }
}
