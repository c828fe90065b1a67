//! A long row of words that are 0 at first, each page of memory taken at its first touch.
//!
//! Rows that lie by logical page are read all over: in pages of 4 KiB the processor looks most of them up anew, which took
//! 3 (a map of 15 MB) to 12% (4 TB) of a run's time. In huge pages it does not.

use std::ops::{Deref, DerefMut};

use memmap2::MmapMut;
use nandle_nand::memory;

const WORD: usize = size_of::<u32>();
/// From so many bytes on a row is worth huge pages.
const LONG: usize = 2 << 20;

#[derive(Debug)]
pub(crate) struct Zeros {
    memory: MmapMut,
    len: usize,
}

impl Zeros {
    pub fn new(len: usize) -> Self {
        let bytes = WORD * len;
        let memory = memory::zeros(bytes, bytes >= LONG);
        Self { memory, len }
    }
}

impl Clone for Zeros {
    fn clone(&self) -> Self {
        let mut copy = Self::new(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl Deref for Zeros {
    type Target = [u32];

    #[inline]
    fn deref(&self) -> &[u32] {
        bytemuck::cast_slice(&self.memory[..WORD * self.len])
    }
}

impl DerefMut for Zeros {
    #[inline]
    fn deref_mut(&mut self) -> &mut [u32] {
        bytemuck::cast_slice_mut(&mut self.memory[..WORD * self.len])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_any_length_are_zero_and_copies_are_their_own() {
        for len in [0, 1, 1023, LONG / WORD, LONG / WORD + 1] {
            let mut row = Zeros::new(len);
            assert_eq!((row.len(), row.iter().all(|&word| word == 0)), (len, true));
            if let Some(last) = row.last_mut() {
                *last = 7;
            }
            let copy = row.clone();
            row.fill(1);
            assert_eq!(copy.last().copied(), (len > 0).then_some(7));
        }
    }
}
