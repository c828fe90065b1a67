//! What is known of a page that is being filled.

use nandle_nand::{Cause, OpId, Ppn};

/// A page whose program waits until it is full, or sealed.
#[derive(Clone, Copy, Debug)]
pub struct OpenPage {
    /// Its first slot.
    pub first: Ppn,
    /// Its program.
    pub op: OpId,
    /// What it was opened for.
    pub cause: Cause,
    /// Something in it has been superseded.
    pub stale: bool,
    /// A request waits for it.
    pub is_awaited: bool,
    /// It has no slot left.
    pub is_full: bool,
    /// A FLUSH waits for it.
    pub durable: bool,
    /// Buffered sectors that its program gives back.
    pub release: u32,
}

impl OpenPage {
    pub(super) fn new(first: Ppn, op: OpId, cause: Cause) -> Self {
        let (stale, is_awaited, is_full, durable) = (false, false, false, false);
        Self { first, op, cause, stale, is_awaited, is_full, durable, release: 0 }
    }
}
