//! LRU, SSDSim's buffer and the baseline: the page that was written least recently leaves first.

use super::{Buffer, Victims};

/// The tail entry.
pub(crate) fn victims(buffer: &Buffer) -> Victims {
    buffer.oldest().into_iter().collect()
}
