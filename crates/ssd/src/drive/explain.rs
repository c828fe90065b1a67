//! What the flash did, operation by operation, for those who ask.

use nandle_nand::Done;

use super::Ssd;
use super::operation::Operation;

impl Ssd {
    /// From now on (or no longer) operations are noted as they end, to be taken by
    /// [`Ssd::take_operations`].
    pub fn keep_operations(&mut self, keep: bool) {
        self.operations = keep.then(Vec::new);
        self.flash.media_mut().tell_reads(keep);
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
