//! Which blocks are written, and for whom.

use super::Flash;
use crate::space::{GroupId, State};

impl Flash {
    /// Blocks (reclaim units) that are written: for each host group in turn, then all others. Those of a stream's survivors, where
    /// they are kept apart, come behind those of all streams.
    pub fn blocks_of_groups(&self) -> Vec<u64> {
        let (blocks, array) = (self.blocks(), self.array());
        let mut counts = vec![0; self.space().host_groups() as usize + 1];
        let rest = counts.len() - 1;
        for (block, state) in blocks.each() {
            let first = array
                .nth_strict(block, 0)
                .filter(|_| state != State::Free && array.pages_programmed(block) > 0);
            if let Some(first) = first {
                // A page that power was lost in says nothing of who wrote it.
                let group = GroupId::from_number(array.oob(first).stream);
                let of = if let GroupId::Host(n) = group { usize::from(n).min(rest) } else { rest };
                counts[of] += 1;
            }
        }
        counts
    }
}
