//! What the flash did, operation by operation, for those who ask.

use nandle_nand::{Cause, Done, Kind, Ppn, Time};

use crate::Ssd;

/// A flash operation that is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Read, program or erase.
    pub kind: Kind,
    /// On whose account.
    pub cause: Cause,
    /// The page, or the first page of the block that was erased.
    pub ppn: Ppn,
    /// When a die first worked on it, in nanoseconds.
    pub started: Time,
    /// When it was over.
    pub ended: Time,
    /// The host's name for the request that waited for it, if one did. The reads of a
    /// read-modify-write are waited for by its program.
    pub request: Option<u64>,
}

impl Ssd {
    /// From now on (or no longer) operations are noted as they end, to be taken by
    /// [`Ssd::take_operations`].
    pub fn keep_operations(&mut self, keep: bool) {
        self.operations = keep.then(Vec::new);
    }

    /// The operations that have ended since the last call, in the order in which they ended.
    pub fn take_operations(&mut self) -> Vec<Operation> {
        self.operations.as_mut().map(std::mem::take).unwrap_or_default()
    }

    #[cold]
    pub(crate) fn note_operation(&mut self, done: &Done, request: Option<u64>) {
        let ended = self.now();
        if let Some(list) = &mut self.operations {
            let &Done { kind, cause, ppn, started, .. } = done;
            list.push(Operation { kind, cause, ppn, started, ended, request });
        }
    }
}
