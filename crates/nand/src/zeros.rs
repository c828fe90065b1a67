//! A long row of words that are 0 at first, each page of memory taken at its first touch.
//!
//! Rows that lie by logical or physical page are read all over: in pages of 4 KiB the processor looks most of them up anew,
//! which took 3 (a map of 15 MB) to 12% (4 TB) of a run's time. In huge pages it does not.

use std::marker::PhantomData;
use std::ops::Range;

use memmap2::MmapMut;
use prefetch_index::prefetch_index;

use crate::memory;

/// From so many bytes on a row is worth huge pages.
const LONG: usize = 2 << 20;

/// A word of `N` bytes.
pub trait Word<const N: usize> {
    /// From what lies in memory.
    fn read(bytes: [u8; N]) -> Self;
    /// As it lies in memory.
    fn bytes(self) -> [u8; N];
}

macro_rules! words {
    ($($word:ty, $bytes:literal;)*) => { $(
        impl Word<$bytes> for $word {
            #[inline(always)]
            fn read(bytes: [u8; $bytes]) -> Self {
                Self::from_ne_bytes(bytes)
            }
            #[inline(always)]
            fn bytes(self) -> [u8; $bytes] {
                self.to_ne_bytes()
            }
        }
    )* };
}

words! { u32, 4; u64, 8; }

/// A row of words `W` of `N` bytes.
#[derive(Debug)]
pub struct Zeros<W, const N: usize>(MmapMut, PhantomData<W>);

impl<W: Word<N>, const N: usize> Zeros<W, N> {
    /// A row of `len` words.
    #[must_use]
    pub fn new(len: usize) -> Self {
        let bytes = N * len;
        Self(memory::zeros(bytes, bytes >= LONG), PhantomData)
    }

    /// The same of which few will be written, here and there.
    #[must_use]
    pub fn sparse(len: usize) -> Self {
        Self(memory::zeros(N * len, false), PhantomData)
    }

    /// Most of them will be written all the same.
    pub fn expect_full(&mut self) {
        memory::in_huge_pages(&self.0);
    }

    /// The words as bytes, whose alignment need not be looked at.
    #[inline(always)]
    fn words(&self) -> &[[u8; N]] {
        self.0.as_chunks().0
    }

    #[cfg(test)]
    fn len(&self) -> usize {
        self.words().len()
    }

    /// A word; none behind the last one.
    #[inline(always)]
    pub fn get(&self, at: usize) -> Option<W> {
        self.words().get(at).map(|&word| W::read(word))
    }

    /// A word that is there.
    #[inline(always)]
    pub fn at(&self, at: usize) -> W {
        W::read(self.words()[at])
    }

    /// Writes a word.
    #[inline(always)]
    pub fn set(&mut self, at: usize, word: W) {
        self.0.as_chunks_mut().0[at] = word.bytes();
    }

    /// The words of `range`.
    pub fn range(&self, range: Range<usize>) -> impl Iterator<Item = W> + '_ {
        self.words()[range].iter().map(|&word| W::read(word))
    }

    /// Brings a word into the processor's cache.
    #[inline(always)]
    pub fn prefetch(&self, at: usize) {
        prefetch_index(self.words(), at);
    }
}

impl<W: Word<N>, const N: usize> Clone for Zeros<W, N> {
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
        for len in [0, 1, 1023, LONG / 4, LONG / 4 + 1] {
            let mut row = Zeros::<u32, 4>::new(len);
            assert_eq!((row.len(), row.get(len)), (len, None));
            assert!(row.range(0..len).all(|word| word == 0));
            let Some(last) = len.checked_sub(1) else { continue };
            row.set(last, 7);
            let copy = row.clone();
            row.set(last, 0x0102_0304);
            assert_eq!((copy.at(last), row.get(last)), (7, Some(0x0102_0304)));
        }
        let mut long = Zeros::<u64, 8>::new(3);
        long.set(1, u64::MAX - 1);
        assert_eq!(long.range(0..3).collect::<Vec<_>>(), [0, u64::MAX - 1, 0]);
    }
}
