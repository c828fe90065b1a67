//! A word for each logical page: a small drive's all in a row, a large one's in leaves that appear when they are written.

use std::ops::Range;

use nandle_nand::Zeros;

/// Words of a leaf: a line of the processor's cache.
const LEAF: usize = 16;
/// So many leaves are brought into the processor's cache together: of a large drive few of them are in use.
const TOGETHER: usize = 128;
/// From so many pages on there are leaves. A few writes touch a row of that length all over, each a page of memory of its
/// own: on 16 TB that took more than half of a run's time, and four times the memory.
const LARGE: usize = 1 << 22;

/// The words, of which those never written are 0.
#[derive(Clone, Debug)]
pub(super) struct Words {
    len: usize,
    in_leaves: bool,
    /// The words in a row, or leaf after leaf, of which the first stays 0.
    words: Zeros<u32, 4>,
    /// The leaf of every so many pages, 0 where none was written; empty if the words are in a row.
    leaves: Zeros<u32, 4>,
    /// Leaves in use, the first among them.
    used: u32,
}

impl Words {
    pub(super) fn new(len: usize) -> Self {
        Self::with(len, len >= LARGE)
    }

    fn with(len: usize, in_leaves: bool) -> Self {
        let leaves = if in_leaves { len.div_ceil(LEAF) } else { 0 };
        let words = if in_leaves { LEAF * (leaves + 1) } else { len };
        Self { len, in_leaves, words: Zeros::new(words), leaves: Zeros::new(leaves), used: 1 }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    #[inline]
    pub(super) fn in_leaves(&self) -> bool {
        self.in_leaves
    }

    #[inline(always)]
    fn place(&self, page: u32) -> usize {
        let page = page as usize;
        if self.in_leaves { self.leaves.at(page / LEAF) as usize * LEAF + page % LEAF } else { page }
    }

    #[inline(always)]
    pub(super) fn get(&self, page: u32) -> u32 {
        self.words.at(self.place(page))
    }

    /// Writes a word, and gives what it was.
    #[inline(always)]
    pub(super) fn replace(&mut self, page: u32, word: u32) -> u32 {
        let mut place = self.place(page);
        // Unwritten pages share the first leaf.
        if place < LEAF && self.in_leaves {
            place += self.leaf(page);
        }
        let before = self.words.at(place);
        self.words.set(place, word);
        before
    }

    /// Where a new leaf for `page` begins.
    #[cold]
    fn leaf(&mut self, page: u32) -> usize {
        let leaf = self.used;
        self.used += 1;
        self.leaves.set(page as usize / LEAF, leaf);
        leaf as usize * LEAF
    }

    /// Brings into the processor's cache what says where a word is, if something does.
    #[inline]
    pub(super) fn prefetch_leaf(&self, page: u32) {
        if self.in_leaves {
            self.leaves.prefetch(page as usize / LEAF);
        }
    }

    /// Then the word.
    #[inline]
    pub(super) fn prefetch(&self, page: u32) {
        let page = page as usize;
        if !self.in_leaves {
            self.words.prefetch(page);
        } else if let Some(leaf) = self.leaves.get(page / LEAF) {
            self.words.prefetch(leaf as usize * LEAF + page % LEAF);
        }
    }

    /// The words of `range`, if they lie in a row.
    pub(super) fn row(&self, range: Range<u32>) -> Option<impl Iterator<Item = u32> + '_> {
        (!self.in_leaves).then(|| self.words.range(range.start as usize..range.end as usize))
    }

    /// The pages within `range` whose words are not 0, with these.
    pub(super) fn written(&self, range: Range<u32>) -> impl Iterator<Item = (u32, u32)> + '_ {
        let (start, end) = (range.start as usize, range.end as usize);
        // In a row there is one part, which holds all pages.
        let row = (!self.in_leaves).then_some((start, start, end - start));
        let numbers = if self.in_leaves { start / LEAF..end.div_ceil(LEAF) } else { 0..0 };
        let last = numbers.end;
        let leaves = numbers.step_by(TOGETHER).flat_map(move |first| {
            let some = first..last.min(first + TOGETHER);
            // Leaves lie in the order in which they were written.
            some.clone().for_each(|n| self.prefetch((n * LEAF) as u32));
            some.clone().zip(self.leaves.range(some)).filter(|&(_, leaf)| leaf != 0)
        });
        let leaves = leaves.map(move |(n, leaf)| {
            let (from, to) = (start.max(n * LEAF), end.min((n + 1) * LEAF));
            (from, leaf as usize * LEAF + from % LEAF, to - from)
        });
        row.into_iter().chain(leaves).flat_map(|(page, at, len)| {
            let words = self.words.range(at..at + len).enumerate();
            words.filter(|&(_, word)| word != 0).map(move |(n, word)| ((page + n) as u32, word))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn leaves_hold_what_a_row_holds(
            writes in prop::collection::vec((0_u32..5000, 0_u32..3), 0..300),
            (start, end) in (0_u32..=5000, 0_u32..=5000),
        ) {
            let (mut row, mut leaves) = (Words::with(5000, false), Words::with(5000, true));
            for (page, word) in writes {
                let before = row.replace(page, word);
                prop_assert_eq!(leaves.replace(page, word), before);
            }
            prop_assert!((0..5000).all(|page| row.get(page) == leaves.get(page)));
            let part = start.min(end)..end;
            let all = part.clone().map(|page| (page, row.get(page))).filter(|&(_, word)| word != 0);
            prop_assert!(row.written(part.clone()).eq(all));
            prop_assert!(row.written(part.clone()).eq(leaves.written(part)));
        }
    }
}
