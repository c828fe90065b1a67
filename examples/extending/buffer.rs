//! What leaves the write buffer: of the oldest pages the fullest one.
//!
//! LRU sends a page to flash when its time has come, whatever part of it is there, and a page of which a
//! part is missing costs a read-modify-write. Here a page that is nearly whole goes first and a sliver
//! may wait for its neighbours, but not for ever: only the 64 oldest pages are compared (after FAB, Jo
//! et al. 2006, which compares whole flash blocks).

use nandle_ssd::buffer::{Buffer, Victims};
use nandle_ssd::schemes::{Interests, Scheme, Surroundings};

/// Of the 64 oldest pages the one with the most sectors.
#[derive(Clone, Copy, Debug)]
pub struct Fullest;

impl Scheme for Fullest {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(*self)
    }
    fn interests(&self) -> Interests {
        Interests::DESTAGE
    }

    fn destage(&mut self, _: &dyn Surroundings, buffer: &mut Buffer) -> Option<Victims> {
        let oldest = std::iter::successors(buffer.oldest(), |&slot| buffer.newer(slot)).take(64);
        // Of equals the last one wins: the oldest, seen from the young end.
        let oldest: Vec<u32> = oldest.collect();
        let sectors = |slot: &u32| buffer.entry(*slot).mask.count_ones();
        Some(oldest.into_iter().rev().max_by_key(sectors).into_iter().collect())
    }
}
