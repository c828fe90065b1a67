//! MCA, "A Buffer Replacement Algorithm Exploiting Multi-Chip Parallelism in Solid State Disks"
//! (Seol et al., CASES 2009), as WAFLASH describes it (sections V-E and VI): LRU, but the eviction of
//! a partial page whose read-modify-write would wait for a busy chip is put off.
//!
//! Decided here: the entry at the tail swaps places with the one above it, once per choice; only the
//! read counts, so a page that needs none is never put off. There is no bound on how often an entry
//! is put off: each time one other page leaves in its stead.

use super::{Buffer, Entry, Victims};

/// The tail, or the entry above a partial tail for whose old data `waits` says that its chip is busy.
pub(crate) fn victims(buffer: &mut Buffer, waits: impl FnOnce(&Entry) -> bool) -> Victims {
    let Some(tail) = buffer.oldest() else { return Victims::new() };
    let above = buffer.newer(tail).filter(|_| !buffer.is_full(tail) && waits(buffer.entry(tail)));
    if above.is_some() {
        buffer.swap_oldest();
    }
    [above.unwrap_or(tail)].into_iter().collect()
}
