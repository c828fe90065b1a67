//! Which logical ranges are claimed for dedicated groups.
//!
//! A claim is a set of ranges, the group that their writes go to, and how many pages they may still take
//! there. The common miss, a write that nobody claims, is one bit a logical page; the rest is the
//! control plane: ordered maps and lists, whose cost nobody sees.

use std::collections::BTreeMap;

use smallvec::SmallVec;

/// A claim.
#[derive(Clone, Debug, Default)]
pub struct Claim {
    /// It is one, and no free place in the table.
    pub live: bool,
    /// Where its writes go.
    pub group: u16,
    /// What is left of its ranges, as (first sector, end).
    pub ranges: SmallVec<[(u64, u64); 1]>,
    /// Pages that it may still write.
    pub left: u64,
    /// Blocks that its group was given for it.
    pub blocks: u32,
}

/// All claims of a drive.
#[derive(Clone, Debug)]
pub struct Claims {
    /// Bit per logical page: a claim has a part of it.
    flags: Vec<u64>,
    /// First sector -> (end, claim).
    ranges: BTreeMap<u64, (u64, u32)>,
    table: Vec<Claim>,
    free: Vec<u32>,
    sectors_per_page: u64,
}

impl Claims {
    pub(super) fn new(logical_pages: u32, sectors_per_page: u32) -> Self {
        Self {
            flags: vec![0; (logical_pages as usize).div_ceil(64)],
            ranges: BTreeMap::new(),
            table: Vec::new(),
            free: Vec::new(),
            sectors_per_page: u64::from(sectors_per_page),
        }
    }

    pub(super) fn sectors_per_page(&self) -> u64 {
        self.sectors_per_page
    }

    // ---- whose is a page ------------------------------------------------------------------------

    /// Whether a claim has a part of `lpn`.
    #[inline]
    pub fn is_flagged(&self, lpn: u32) -> bool {
        self.flags[lpn as usize / 64] >> (lpn % 64) & 1 == 1
    }

    /// The claim that `lpn` belongs to: of those that have a part of it, the first in the page.
    pub fn find(&self, lpn: u32) -> Option<u32> {
        let (from, to) =
            (u64::from(lpn) * self.sectors_per_page, (u64::from(lpn) + 1) * self.sectors_per_page);
        let before = self.ranges.range(..=from).next_back().filter(|(_, (end, _))| *end > from);
        let (_, &(_, claim)) = before.or_else(|| self.ranges.range(from..to).next())?;
        Some(claim)
    }

    /// Claims that have sectors in a range, each once.
    pub fn overlapping(&self, start: u64, end: u64) -> SmallVec<[u32; 4]> {
        let mut out: SmallVec<[u32; 4]> = SmallVec::new();
        let first = self.ranges.range(..=start).next_back().filter(|(_, (e, _))| *e > start);
        let rest = self.ranges.range(start + 1..end.max(start + 1));
        for (_, &(_, claim)) in first.into_iter().chain(rest) {
            if !out.contains(&claim) {
                out.push(claim);
            }
        }
        out
    }

    /// The claim in a place of the table.
    #[inline]
    pub fn get(&self, slot: u32) -> &Claim {
        &self.table[slot as usize]
    }
    pub(crate) fn get_mut(&mut self, slot: u32) -> &mut Claim {
        &mut self.table[slot as usize]
    }
    /// Places of the table.
    pub fn slots(&self) -> u32 {
        self.table.len() as u32
    }
    /// All claims with their places.
    pub fn live(&self) -> impl Iterator<Item = (u32, &Claim)> {
        (0..).zip(&self.table).filter(|(_, claim)| claim.live)
    }
    /// Ranges of all claims.
    pub fn range_count(&self) -> usize {
        self.ranges.len()
    }

    fn pages(&self, start: u64, end: u64) -> std::ops::Range<u64> {
        start / self.sectors_per_page..end.div_ceil(self.sectors_per_page)
    }

    fn flag(&mut self, start: u64, end: u64, set: bool) {
        let pages = self.pages(start, end);
        for lpn in pages.clone() {
            let (word, bit) = (lpn as usize / 64, 1 << (lpn % 64));
            if set {
                self.flags[word] |= bit;
            } else {
                self.flags[word] &= !bit;
            }
        }
        if !set {
            // The pages at its ends may have another owner, who keeps them.
            for lpn in [pages.start, pages.end - 1] {
                if self.find(lpn as u32).is_some() {
                    self.flags[lpn as usize / 64] |= 1 << (lpn % 64);
                }
            }
        }
    }

    // ---- the life of a claim ----------------------------------------------------------------------

    /// Enters a claim whose ranges nobody has; its place.
    pub(crate) fn enter(&mut self, claim: Claim) -> u32 {
        let slot = self.free.pop().unwrap_or(self.table.len() as u32);
        for &(start, end) in &claim.ranges {
            self.ranges.insert(start, (end, slot));
            self.flag(start, end, true);
        }
        match self.table.get_mut(slot as usize) {
            Some(place) => *place = claim,
            None => self.table.push(claim),
        }
        slot
    }

    /// A claim gets another range, which nobody has.
    pub(crate) fn extend(&mut self, slot: u32, (start, end): (u64, u64)) {
        self.table[slot as usize].ranges.push((start, end));
        self.ranges.insert(start, (end, slot));
        self.flag(start, end, true);
    }

    /// Takes sectors out of whatever claims have them; those that have none left are returned.
    pub(crate) fn forget(&mut self, start: u64, end: u64) -> SmallVec<[u32; 4]> {
        let mut over = SmallVec::new();
        for slot in self.overlapping(start, end) {
            let ranges = std::mem::take(&mut self.table[slot as usize].ranges);
            for (from, to) in ranges {
                if to <= start || from >= end {
                    self.table[slot as usize].ranges.push((from, to));
                    continue;
                }
                self.ranges.remove(&from);
                for (from, to) in [(from, start), (end, to)] {
                    if from < to {
                        self.ranges.insert(from, (to, slot));
                        self.table[slot as usize].ranges.push((from, to));
                    }
                }
                self.flag(from.max(start), to.min(end), false);
            }
            if self.table[slot as usize].ranges.is_empty() {
                over.push(slot);
            }
        }
        over
    }

    /// A claim gives up all of its ranges.
    pub(super) fn give_up(&mut self, slot: u32) {
        for (start, end) in std::mem::take(&mut self.table[slot as usize].ranges) {
            self.ranges.remove(&start);
            self.flag(start, end, false);
        }
    }

    /// Removes a claim; its place may be used again.
    pub(crate) fn remove(&mut self, slot: u32) {
        self.give_up(slot);
        self.table[slot as usize].live = false;
        self.free.push(slot);
    }

    /// Checks ranges, flags and table against each other; for tests.
    pub(crate) fn check(&self) {
        let mut sum = 0;
        for (slot, claim) in self.live() {
            assert!(!claim.ranges.is_empty(), "a claim without sectors");
            for &(start, end) in &claim.ranges {
                assert_eq!(self.ranges.get(&start), Some(&(end, slot)));
                assert!(self.pages(start, end).all(|lpn| self.is_flagged(lpn as u32)));
                sum += 1;
            }
        }
        assert_eq!(sum, self.ranges.len(), "a range without a claim");
        let mut last = 0;
        for (&start, &(end, _)) in &self.ranges {
            assert!(start >= last && end > start, "ranges overlap");
            last = end;
        }
        for lpn in (0..self.flags.len() as u32 * 64).filter(|&lpn| self.is_flagged(lpn)) {
            assert!(self.find(lpn).is_some(), "page {lpn} is flagged for nobody");
        }
    }
}
