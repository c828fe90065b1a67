//! Which slot of the buffer a logical page has.
//!
//! The buffer is small and the drive may be large, so slots are kept for runs of neighbouring pages, and only for runs
//! of which a page is buffered.

use nandle_nand::Zeros;
use prefetch_index::prefetch_index;

/// Pages in a run, as a power of two.
const BITS: u32 = 6;
const PAGES: usize = 1 << BITS;

/// Slots by logical page.
#[derive(Clone, Debug)]
pub(super) struct Index {
    /// The place of each run in `slots`; run 0 there has no slots and stands for all those that are not kept.
    runs: Zeros<u32, 4>,
    /// Slot + 1 of each page of the runs that are kept, 0 = not buffered.
    slots: Vec<[u32; PAGES]>,
    /// Slots in each of these runs.
    used: Vec<u8>,
    /// Places in `slots` that nobody uses.
    free: Vec<u32>,
}

impl Index {
    pub fn new(logical_pages: u32) -> Self {
        Self {
            runs: Zeros::new((logical_pages as usize).div_ceil(PAGES)),
            slots: vec![[0; PAGES]],
            used: vec![0],
            free: Vec::new(),
        }
    }

    /// The slot of `lpn`; none if it lies behind the last page.
    #[inline(always)]
    pub fn slot(&self, lpn: u32) -> Option<u32> {
        let run = self.runs.get((lpn >> BITS) as usize)?;
        self.slots[run as usize][lpn as usize % PAGES].checked_sub(1)
    }

    /// Brings what says where the slot of `lpn` is into the processor's cache.
    #[inline]
    pub fn prefetch_run(&self, lpn: u32) {
        self.runs.prefetch((lpn >> BITS) as usize);
    }
    /// Then its slot.
    #[inline]
    pub fn prefetch_slot(&self, lpn: u32) {
        if let Some(run) = self.runs.get((lpn >> BITS) as usize) {
            prefetch_index(self.slots.as_flattened(), run as usize * PAGES + lpn as usize % PAGES);
        }
    }

    /// `lpn`, which has no slot, gets this one.
    pub fn insert(&mut self, lpn: u32, slot: u32) {
        let at = (lpn >> BITS) as usize;
        let mut run = self.runs.at(at);
        if run == 0 {
            run = self.free.pop().unwrap_or_else(|| {
                self.slots.push([0; PAGES]);
                self.used.push(0);
                self.slots.len() as u32 - 1
            });
            self.runs.set(at, run);
        }
        let run = run as usize;
        self.slots[run][lpn as usize % PAGES] = slot + 1;
        self.used[run] += 1;
    }

    /// `lpn`, which has a slot, has this one now.
    pub fn replace(&mut self, lpn: u32, slot: u32) {
        let run = self.runs.at((lpn >> BITS) as usize) as usize;
        self.slots[run][lpn as usize % PAGES] = slot + 1;
    }

    /// `lpn` has no slot any more.
    pub fn remove(&mut self, lpn: u32) {
        let at = (lpn >> BITS) as usize;
        let run = self.runs.at(at);
        self.slots[run as usize][lpn as usize % PAGES] = 0;
        self.used[run as usize] -= 1;
        if self.used[run as usize] == 0 {
            self.runs.set(at, 0);
            self.free.push(run);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use nandle_random::Stream;

    use super::*;

    #[test]
    fn it_is_a_map_whose_size_is_that_of_what_it_holds() {
        let pages = 100_000;
        let (mut index, mut truth) = (Index::new(pages), BTreeMap::new());
        let mut draw = Stream::new(1, "index");
        for step in 0..50_000 {
            let lpn = draw.below(u64::from(pages)) as u32;
            if truth.len() == 200 {
                let &other =
                    truth.keys().min_by_key(|&&other: &&u32| other.abs_diff(lpn)).expect("there are 200");
                index.remove(other);
                truth.remove(&other);
            }
            if truth.insert(lpn, step).is_none() {
                index.insert(lpn, step);
            } else {
                truth.insert(lpn, index.slot(lpn).expect("it was inserted"));
            }
            assert_eq!(index.slot(lpn), truth.get(&lpn).copied());
            let other = draw.below(u64::from(pages)) as u32;
            assert_eq!(index.slot(other), truth.get(&other).copied());
        }
        assert!((0..pages).all(|lpn| index.slot(lpn) == truth.get(&lpn).copied()));
        assert_eq!(index.slot(pages + 64), None);
        assert!(index.slots.len() <= 201, "{} runs are kept for 200 pages", index.slots.len());
    }
}
