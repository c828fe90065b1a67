//! Multi-stream SSD (Kang et al., HotStorage 2014), as FlashAlloc's authors prototyped it to compare
//! with (section 6.4): each write carries a stream id, each stream has its own open blocks, and
//! garbage collection is not aware of streams, so that the survivors of all of them meet again in
//! the same blocks.
//!
//! An id beyond the streams that the drive has wraps around: that is what a conflict between
//! tenants comes to (section 7). Streams need no opening or closing, unlike the NVMe directive.

use crate::allocation::Role;

/// So many streams.
#[derive(Clone, Debug)]
pub struct MultiStream {
    count: u16,
}

impl MultiStream {
    pub(super) fn new(count: u32) -> Self {
        Self { count: count as u16 }
    }

    /// The stream of the host's id.
    #[inline]
    pub(super) fn role(&self, hint: u16) -> Role {
        Role::Host(hint % self.count)
    }
}
