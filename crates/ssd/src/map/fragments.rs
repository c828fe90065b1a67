//! The logical-to-physical map: for each logical page, where the newest data of its sectors lies.
//!
//! A logical page is a list of fragments, newest first, whose masks do not overlap: each live
//! sector has one owner. The common case, one fragment at home in one physical page (sector i at
//! offset i), is one word; anything else is a list in a side table. In word form the page's
//! out-of-band area says which sectors it holds, so nothing is kept twice.

use std::ops::Range;

use nandle_nand::{Array, Extents, Ppn};
use prefetch_index::prefetch_index;
use smallvec::SmallVec;

use super::sectors::run_mask;
use super::words::Words;

/// A part of a logical page: some sectors, in one physical page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment {
    /// Bit i: sector i of the logical page is here.
    pub mask: u64,
    /// Where.
    pub ppn: Ppn,
    /// Offset in the physical page minus sector number.
    pub shift: i8,
}

impl Fragment {
    /// Bit i: sector i of the physical page.
    pub fn sectors(&self) -> u64 {
        if self.shift < 0 { self.mask >> -self.shift } else { self.mask << self.shift }
    }
}

/// What a logical page was stored by before.
#[derive(Debug)]
pub(crate) enum Before {
    /// Nothing of it was stored.
    Nothing,
    /// One physical page, at home.
    Single(Ppn),
    /// Its fragments, newest first.
    List(FragmentList),
}

/// The fragments of one logical page, newest first.
pub type FragmentList = SmallVec<[Fragment; 2]>;

const LIST: u32 = 1 << 31;

/// The map of all logical pages.
#[derive(Clone, Debug)]
pub struct Fragments {
    words: Words,
    lists: Vec<FragmentList>,
    free: Vec<u32>,
    sectors_per_page: u32,
    full: u64,
}

/// The sectors of `lpn` that `ppn` stores at home, by its out-of-band area.
pub(super) fn home_mask(array: &Array, ppn: Ppn, lpn: u32, sectors_per_page: u32) -> u64 {
    match array.oob(ppn).extents {
        Extents::Home { start, len, .. } => run_mask(u32::from(start), u32::from(len)),
        Extents::List(list) => list
            .iter()
            .filter(|e| e.lsn / u64::from(sectors_per_page) == u64::from(lpn))
            .map(|e| (u32::from(e.at), (e.lsn % u64::from(sectors_per_page)) as u32, u32::from(e.sectors)))
            .filter(|&(at, start, _)| at == start)
            .fold(0, |mask, (_, start, len)| mask | run_mask(start, len)),
    }
}

impl Fragments {
    pub(crate) fn new(logical_pages: u32, sectors_per_page: u32) -> Self {
        Self {
            words: Words::new(logical_pages as usize),
            lists: Vec::new(),
            free: Vec::new(),
            sectors_per_page,
            full: run_mask(0, sectors_per_page),
        }
    }

    pub(super) fn sectors_per_page(&self) -> u32 {
        self.sectors_per_page
    }
    /// Logical pages.
    pub fn len(&self) -> u32 {
        self.words.len() as u32
    }
    /// Whether there are no logical pages.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
    /// Whether the words lie in leaves, whose places are to be brought near before the words are.
    #[inline]
    pub(crate) fn have_leaves(&self) -> bool {
        self.words.in_leaves()
    }
    /// Brings what leads to the word of `lpn` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch_leaf(&self, lpn: u32) {
        self.words.prefetch_leaf(lpn);
    }
    /// Brings the word of `lpn` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, lpn: u32) {
        self.words.prefetch(lpn);
    }
    /// Brings the list of `lpn` near, if it has one: the word must be near already.
    #[inline]
    pub(crate) fn prefetch_list(&self, lpn: u32) {
        let word = self.words.get(lpn);
        if word & LIST != 0 {
            prefetch_index(&self.lists, (word & !LIST) as usize);
        }
    }
    /// The list of `lpn`; empty if its word is all that it needs.
    #[inline]
    pub(crate) fn list(&self, lpn: u32) -> &[Fragment] {
        let word = self.words.get(lpn);
        if word & LIST == 0 { &[] } else { &self.lists[(word & !LIST) as usize] }
    }
    /// Whether nothing of `lpn` is stored.
    #[inline]
    pub fn is_unmapped(&self, lpn: u32) -> bool {
        self.words.get(lpn) == 0
    }
    /// The only physical page of `lpn`, if it has just one, at home.
    #[inline]
    pub fn single(&self, lpn: u32) -> Option<Ppn> {
        let word = self.words.get(lpn);
        (word != 0 && word & LIST == 0).then(|| Ppn(word - 1))
    }
    /// Logical pages that need more than their word.
    pub fn lists_in_use(&self) -> usize {
        self.lists.len() - self.free.len()
    }

    /// The logical pages of which something is stored: of a large drive that is nearly empty the others are passed over
    /// quickly.
    pub fn mapped(&self) -> impl Iterator<Item = u32> + '_ {
        self.words.written(0..self.len()).map(|(lpn, _)| lpn)
    }
    /// Writes the words of the logical pages of `range` to `out`, which holds zeros, up to the first that needs more than
    /// its word: which that is.
    pub(crate) fn copy_words(&self, range: Range<u32>, out: &mut [[u8; 4]]) -> Option<u32> {
        if self.lists_in_use() == 0
            && let Some(row) = self.words.row(range.clone())
        {
            out.iter_mut().zip(row).for_each(|(place, word)| *place = word.to_le_bytes());
            return None;
        }
        let first = range.start;
        self.words.written(range).find_map(|(lpn, word)| {
            if word & LIST != 0 {
                return Some(lpn);
            }
            out[(lpn - first) as usize] = word.to_le_bytes();
            None
        })
    }

    /// All fragments of `lpn`, newest first.
    // Always: by itself the compiler makes calls of these two, 2% of a run.
    #[inline(always)]
    pub fn get(&self, lpn: u32, array: &Array) -> FragmentList {
        let word = self.words.get(lpn);
        if word == 0 {
            FragmentList::new()
        } else if word & LIST == 0 {
            let ppn = Ppn(word - 1);
            let mask = home_mask(array, ppn, lpn, self.sectors_per_page);
            SmallVec::from_slice(&[Fragment { mask, ppn, shift: 0 }])
        } else {
            SmallVec::from_slice(&self.lists[(word & !LIST) as usize])
        }
    }

    /// The sectors of `lpn` that `ppn` has at home, whether or not it is what stores them now.
    pub(crate) fn at_home(&self, lpn: u32, ppn: Ppn, array: &Array) -> u64 {
        home_mask(array, ppn, lpn, self.sectors_per_page)
    }

    /// The sectors of `lpn` that are stored.
    #[inline(always)]
    pub fn mask(&self, lpn: u32, array: &Array) -> u64 {
        match self.words.get(lpn) {
            0 => 0,
            word if word & LIST == 0 => home_mask(array, Ppn(word - 1), lpn, self.sectors_per_page),
            word => self.lists[(word & !LIST) as usize].iter().fold(0, |mask, f| mask | f.mask),
        }
    }

    /// `lpn` is now stored by `ppn` alone, at home, in exactly the sectors that its out-of-band area names.
    #[inline]
    pub(crate) fn set_single(&mut self, lpn: u32, ppn: Ppn) {
        self.put(lpn, ppn.0 + 1);
    }

    /// As [`Fragments::set_single`]; what `lpn` was stored by before.
    #[inline(always)]
    pub(crate) fn replace(&mut self, lpn: u32, ppn: Ppn) -> Before {
        match self.words.replace(lpn, ppn.0 + 1) {
            0 => Before::Nothing,
            word if word & LIST == 0 => Before::Single(Ppn(word - 1)),
            word => Before::List(self.drop_list(word)),
        }
    }

    /// A word instead of what there was.
    #[inline]
    fn put(&mut self, lpn: u32, word: u32) {
        let before = self.words.replace(lpn, word);
        if before & LIST != 0 {
            self.drop_list(before);
        }
    }

    /// `lpn` is now stored by `list`.
    pub(crate) fn set(&mut self, lpn: u32, list: FragmentList, array: &Array) {
        debug_assert!(
            list.iter().map(|f| f.mask.count_ones()).sum::<u32>()
                == list.iter().fold(0, |m, f| m | f.mask).count_ones(),
            "a sector with two owners: {list:?}"
        );
        debug_assert!(list.iter().all(|f| f.mask != 0 && f.mask & !self.full == 0));
        let one_word = match list.as_slice() {
            [] => Some(0),
            [f] if f.shift == 0 && f.mask == home_mask(array, f.ppn, lpn, self.sectors_per_page) => {
                Some(f.ppn.0 + 1)
            }
            _ => None,
        };
        if let Some(word) = one_word {
            return self.put(lpn, word);
        }
        let word = self.words.get(lpn);
        if word & LIST != 0 {
            self.lists[(word & !LIST) as usize] = list;
        } else {
            let slot = self.free.pop().unwrap_or_else(|| {
                self.lists.push(FragmentList::new());
                (self.lists.len() - 1) as u32
            });
            self.lists[slot as usize] = list;
            self.put(lpn, LIST | slot);
        }
    }

    fn drop_list(&mut self, word: u32) -> FragmentList {
        let slot = word & !LIST;
        self.free.push(slot);
        std::mem::take(&mut self.lists[slot as usize])
    }

    /// Whether a fragment of `lpn` lies in `ppn`.
    pub fn refers(&self, lpn: u32, ppn: Ppn) -> bool {
        let word = self.words.get(lpn);
        if word & LIST == 0 {
            word == ppn.0 + 1
        } else {
            self.lists[(word & !LIST) as usize].iter().any(|f| f.ppn == ppn)
        }
    }

    /// A hash of the whole map: two devices with the same hash answer every read from the same page.
    pub fn digest(&self) -> u64 {
        let mut hash = 0_u64;
        self.words.written(0..self.len()).for_each(|(lpn, word)| {
            let mut add = |value: u64| hash = nandle_random::mix(hash ^ value);
            add(u64::from(lpn));
            if word & LIST == 0 {
                add(u64::from(word));
            } else {
                for f in &self.lists[(word & !LIST) as usize] {
                    add(f.mask);
                    add(u64::from(f.ppn.0) << 8 | u64::from(f.shift as u8));
                }
            }
        });
        hash
    }

    /// The 32-bit entries of translation page `number` as they would be written to flash.
    pub(super) fn entries(&self, number: u32, per_page: u32) -> Vec<u8> {
        let first = number * per_page;
        self.words(first, (first + per_page).min(self.len()))
    }

    /// The 32-bit entries of the logical pages from `first` up to `last`.
    pub(super) fn words(&self, first: u32, last: u32) -> Vec<u8> {
        let first = first.min(last);
        let mut out = Vec::with_capacity(4 * (last - first) as usize);
        for word in (first..last).map(|lpn| self.words.get(lpn)) {
            if word & LIST == 0 {
                out.extend_from_slice(&word.to_le_bytes());
            } else {
                // The list's contents, hashed: the entry stands for all of it.
                let list = &self.lists[(word & !LIST) as usize];
                let hash = list.iter().fold(0, |h, f| nandle_random::mix(h ^ f.mask ^ u64::from(f.ppn.0)));
                out.extend_from_slice(&(hash as u32 | LIST).to_le_bytes());
            }
        }
        out
    }

    /// The live extents of `ppn` as (logical page, its fragments there).
    pub(crate) fn live_in(&self, ppn: Ppn, array: &Array) -> SmallVec<[(u32, Fragment); 2]> {
        let spp = self.sectors_per_page;
        let oob = array.oob(ppn);
        debug_assert!(oob.kind.is_data());
        let mut out = SmallVec::new();
        let mut last = u32::MAX;
        oob.extents.each(spp, |e| {
            let lpn = (e.lsn / u64::from(spp)) as u32;
            if lpn == last || out.iter().any(|&(seen, _)| seen == lpn) {
                return;
            }
            last = lpn;
            for f in self.get(lpn, array) {
                if f.ppn == ppn {
                    out.push((lpn, f));
                }
            }
        });
        out
    }
}
