//! How a write is placed: a map of half pages.
//!
//! A page map reads and writes a whole page for each update of a few sectors; versions write these
//! sectors alone and pay when they are read or merged. Here a logical page has two halves, each of which
//! may lie in a page of its own: an update completes the half that it touches and leaves the other where
//! it is (a sub-page map in the smallest size).

use nandle_ssd::flash::Flash;
use nandle_ssd::schemes::{Interests, Scheme};

/// Completes the touched half.
#[derive(Clone, Copy, Debug)]
pub struct Halves;

impl Scheme for Halves {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(*self)
    }
    fn interests(&self) -> Interests {
        Interests::REWRITES
    }

    fn rewrites(&self, flash: &Flash, _lpn: u32, mask: u64, stored: u64) -> Option<u64> {
        let sectors = flash.sectors_per_page();
        let lower = (1 << (sectors / 2)) - 1;
        let upper = flash.full_mask() & !lower;
        let touched = [lower, upper].into_iter().filter(|half| half & mask != 0);
        Some(stored & touched.fold(0, |all, half| all | half))
    }
}
