//! FIFO, VSSIM's buffer: the oldest request leaves first, with all its pages, partial or not
//! (WAFLASH, section IV). An overwrite merges into the entry and does not make it younger.

use super::{Buffer, Victims};

/// All entries that came in with the oldest request.
pub(super) fn victims(buffer: &Buffer) -> Victims {
    let Some(oldest) = buffer.oldest() else { return Victims::new() };
    let request = buffer.entry(oldest).request;
    std::iter::successors(Some(oldest), |&slot| buffer.newer(slot))
        .take_while(|&slot| buffer.entry(slot).request == request)
        .collect()
}
