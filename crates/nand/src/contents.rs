//! What the sectors of the flash hold. Bytes that were carried from page to page, by collection or because a part
//! of a page changed, are kept once for all the pages that have them.

use std::ops::Range;

use memmap2::MmapMut;

use crate::memory::zeros;

/// Memory is taken in pieces of this size, and resident as far as it was written.
const SLAB: usize = 32 << 20;

#[derive(Debug)]
pub(crate) struct Contents {
    /// Bytes kept per sector; 0 = contents are not modelled.
    unit: usize,
    /// For each sector of the flash where its bytes are, counted from 1; 0 = nothing was ever stored.
    places: Vec<u32>,
    /// Sectors that have the bytes of each place.
    users: Vec<u32>,
    /// Places without users. The last one is used first: it is the likeliest to be in the processor's cache.
    free: Vec<u32>,
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
            users: Vec::new(),
            free: Vec::new(),
            slabs: Vec::new(),
            per_slab: SLAB.checked_div(unit).unwrap_or(0).clamp(1, sectors.max(1)),
            huge_pages: false,
            zeros: vec![0; unit].into_boxed_slice(),
        }
    }

    /// Bytes kept per sector.
    #[inline]
    pub fn unit(&self) -> usize {
        self.unit
    }

    /// The bytes of a sector: zeros if nothing was ever stored.
    #[inline]
    pub fn get(&self, sector: usize) -> &[u8] {
        match self.places[sector] {
            0 => &self.zeros,
            place => {
                let (slab, range) = self.find(place);
                &self.slabs[slab][range]
            }
        }
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
        self.clear(sector);
        let place = self.free.pop().unwrap_or_else(|| {
            if self.users.len().is_multiple_of(self.per_slab) {
                self.slabs.push(zeros(self.per_slab * self.unit, self.huge_pages));
            }
            self.users.push(0);
            u32::try_from(self.users.len()).expect("the flash has fewer than 2^32 sectors")
        });
        let (slab, range) = self.find(place);
        self.slabs[slab][range].copy_from_slice(bytes);
        self.users[place as usize - 1] = 1;
        self.places[sector] = place;
    }

    /// One sector is to have the bytes of another.
    pub fn share(&mut self, from: usize, to: usize) {
        let place = self.places[from];
        if place != 0 {
            self.users[place as usize - 1] += 1;
        }
        self.clear(to);
        self.places[to] = place;
    }

    /// Forgets the bytes of a sector.
    pub fn clear(&mut self, sector: usize) {
        let place = std::mem::take(&mut self.places[sector]);
        if place != 0 {
            let users = &mut self.users[place as usize - 1];
            *users -= 1;
            if *users == 0 {
                self.free.push(place);
            }
        }
    }
}

impl Clone for Contents {
    fn clone(&self) -> Self {
        // What is not used of the last one stays untouched.
        let copy = |(n, slab): (usize, &MmapMut)| {
            let used = (self.users.len() - n * self.per_slab).min(self.per_slab) * self.unit;
            let mut copy = zeros(slab.len(), false);
            copy[..used].copy_from_slice(&slab[..used]);
            copy
        };
        Self {
            unit: self.unit,
            places: self.places.clone(),
            users: self.users.clone(),
            free: self.free.clone(),
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
            steps in prop::collection::vec((0..4_u8, 0..40_usize, 0..40_usize), 0..400),
        ) {
            let mut contents = Contents::new(40, unit);
            contents.per_slab = 7;
            let mut plain = vec![vec![0; unit]; 40];
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
            }
            let mut used: Vec<u32> = contents.places.iter().copied().filter(|&place| place != 0).collect();
            used.sort_unstable();
            used.dedup();
            prop_assert_eq!(used.len() + contents.free.len(), contents.users.len());
            prop_assert!(contents.users.len() <= 40);
        }
    }
}
