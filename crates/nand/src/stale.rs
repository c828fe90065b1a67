//! Contents that nobody asks for any more: they are kept until what supersedes them is on flash, and no longer. So a
//! drive takes memory for what it stores, not for all of its flash.

use crate::{OpId, Ppn};

/// What is forgotten when an operation is done.
#[derive(Clone, Debug, Default)]
pub(crate) struct Stale {
    /// By operation: pages, and sectors of each.
    by_op: Vec<Vec<(Ppn, u64)>>,
}

impl Stale {
    /// Nobody asks for these sectors once `op` is done.
    pub fn put(&mut self, op: OpId, ppn: Ppn, sectors: u64) {
        let at = op.0 as usize;
        if at >= self.by_op.len() {
            self.by_op.resize_with(at + 1, Vec::new);
        }
        self.by_op[at].push((ppn, sectors));
    }

    /// What nobody asks for once the operation is done; that is none from now on.
    pub fn take(&mut self, op: OpId) -> impl Iterator<Item = (Ppn, u64)> + '_ {
        self.by_op.get_mut(op.0 as usize).into_iter().flat_map(|of| of.drain(..))
    }
}
