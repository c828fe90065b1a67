//! MCA, "A Buffer Replacement Algorithm Exploiting Multi-Chip Parallelism in Solid State Disks"
//! (Seol et al., CASES 2009), as WAFLASH describes it (sections V-E and VI): LRU, but the eviction of
//! a partial page whose read-modify-write would wait for a busy chip is put off.
//!
//! Decided here: the entry at the tail swaps places with the one above it, once per choice; only the
//! read counts, so a page that needs none is never put off. There is no bound on how often an entry
//! is put off: each time one other page leaves in its stead.

use super::{Facts, Interests, Name, Plan, Published, Scheme, Seam, Surroundings};
use crate::buffer::{Buffer, Entry, Victims};
use crate::error::ConfigError;

/// The tail, or the entry above it.
#[derive(Clone, Debug)]
pub struct Mca;

/// The tail, or the entry above a partial tail for whose old data `waits` says that its chip is busy.
fn victims(buffer: &mut Buffer, waits: impl FnOnce(&Entry) -> bool) -> Victims {
    let Some(tail) = buffer.oldest() else { return Victims::new() };
    let above = buffer.newer(tail).filter(|_| !buffer.is_full(tail) && waits(buffer.entry(tail)));
    if above.is_some() {
        buffer.swap_oldest();
    }
    [above.unwrap_or(tail)].into_iter().collect()
}

impl Scheme for Mca {
    fn interests(&self) -> Interests {
        Interests::DESTAGE
    }
    fn destage(&mut self, near: &dyn Surroundings, buffer: &mut Buffer) -> Option<Victims> {
        Some(victims(buffer, |entry| near.read_waits(entry)))
    }
    fn without_time(&self) -> Option<&'static str> {
        Some("MCA finds no chip busy, and is LRU")
    }
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

/// What it is called.
const NAME: &str = "mca";

impl Published for Mca {
    const NAMES: &'static [Name] = &[Name {
        seam: Seam::Buffer,
        name: NAME,
        line: "The least recently written page, put off while its read would wait for a chip (CASES'09).",
    }];
    type Config<'a> = ();

    fn plan((): (), _: &Facts<'_>, _: &mut Plan) -> Result<(), ConfigError> {
        Ok(())
    }
    fn new((): (), _: &Facts<'_>, _: u32) -> Self {
        Self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{BufferPlan, Incoming};

    #[test]
    fn a_waiting_partial_tail_swaps_with_the_entry_above() {
        let mut buffer = Buffer::for_tests(BufferPlan::LRU, 10, 0xff);
        for (lpn, mask) in [(0, 1), (1, 0xff), (2, 3), (3, 7)] {
            buffer.insert(lpn, mask, Incoming::for_tests(0));
        }
        let victim = |buffer: &mut Buffer, waits: bool| victims(buffer, |_| waits)[0];
        let unasked = |buffer: &mut Buffer| victims(buffer, |_| panic!("not asked"))[0];
        let lpns = |buffer: &Buffer| buffer.oldest_first().map(|e| e.lpn).collect::<Vec<_>>();
        // Idle: the tail. Busy: the entry above it, full or not, and the tail is the tail again.
        let chosen = victim(&mut buffer, false);
        assert_eq!(buffer.entry(chosen).lpn, 0);
        let chosen = victim(&mut buffer, true);
        assert_eq!((buffer.entry(chosen).lpn, lpns(&buffer)), (1, vec![1, 0, 2, 3]));
        buffer.take(chosen);
        let chosen = victim(&mut buffer, true);
        assert_eq!(buffer.take(chosen).lpn, 2);
        assert_eq!(lpns(&buffer), [0, 3]);
        // A full page needs no read; the last entry has nothing to swap with.
        buffer.insert(0, 0xff, Incoming::for_tests(0));
        buffer.trim(3, 0xff);
        let chosen = unasked(&mut buffer);
        assert_eq!(buffer.entry(chosen).lpn, 0);
        buffer.trim(0, 1);
        let chosen = unasked(&mut buffer);
        assert_eq!(buffer.entry(chosen).lpn, 0);
    }
}
