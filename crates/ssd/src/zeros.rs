//! A long row of words that are 0 at first, each page of memory taken at its first touch.
//!
//! Rows that lie by logical page are read all over: in pages of 4 KiB the processor looks most of them up anew, which took
//! 3 (a map of 15 MB) to 12% (4 TB) of a run's time. In huge pages it does not.

use std::ops::Range;

use memmap2::MmapMut;
use nandle_nand::memory;
use prefetch_index::prefetch_index;

const WORD: usize = size_of::<u32>();
/// From so many bytes on a row is worth huge pages.
const LONG: usize = 2 << 20;

#[derive(Debug)]
pub(crate) struct Zeros(MmapMut);

impl Zeros {
    pub fn new(len: usize) -> Self {
        let bytes = WORD * len;
        Self(memory::zeros(bytes, bytes >= LONG))
    }

    /// The words as bytes, whose alignment need not be looked at.
    #[inline(always)]
    fn words(&self) -> &[[u8; WORD]] {
        self.0.as_chunks().0
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.words().len()
    }

    /// A word; none behind the last one.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<u32> {
        self.words().get(at).map(|&word| u32::from_ne_bytes(word))
    }

    /// A word that is there.
    #[inline(always)]
    pub fn at(&self, at: usize) -> u32 {
        u32::from_ne_bytes(self.words()[at])
    }

    #[inline(always)]
    pub fn set(&mut self, at: usize, word: u32) {
        self.0.as_chunks_mut().0[at] = word.to_ne_bytes();
    }

    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = u32> + '_ {
        self.words()[range].iter().map(|&word| u32::from_ne_bytes(word))
    }

    /// Brings a word into the processor's cache.
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        prefetch_index(self.words(), at);
    }
}

impl Clone for Zeros {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.words().len());
        copy.0.copy_from_slice(&self.0);
        copy
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_length_are_zero_and_copies_are_their_own() {
        for len in [0, 1, 1023, LONG / WORD, LONG / WORD + 1] {
            let mut row = Zeros::new(len);
            assert_eq!((row.len(), row.get(len)), (len, None));
            assert!(row.range(0..len).all(|word| word == 0));
            let Some(last) = len.checked_sub(1) else { continue };
            row.set(last, 7);
            let copy = row.clone();
            row.set(last, 0x0102_0304);
            assert_eq!((copy.at(last), row.get(last)), (7, Some(0x0102_0304)));
        }
    }
}
