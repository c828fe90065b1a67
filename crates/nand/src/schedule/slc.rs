//! Times of blocks in SLC mode.

use super::Nand;
use crate::slc::SlcMode;
use crate::{PageType, Ppn};

impl Nand {
    /// How long the array takes to program `ppn`, a page of type `kind`.
    #[inline(always)]
    pub(super) fn program_ns(&self, ppn: Ppn, kind: PageType) -> u64 {
        self.in_slc_mode(ppn).and_then(|slc| slc.program_ns).unwrap_or_else(|| self.timing.program(kind))
    }

    /// ... and to read it.
    #[inline(always)]
    pub(super) fn read_ns(&self, ppn: Ppn, kind: PageType) -> u64 {
        self.in_slc_mode(ppn).and_then(|slc| slc.read_ns).unwrap_or_else(|| self.timing.read(kind))
    }

    #[inline(always)]
    fn in_slc_mode(&self, ppn: Ppn) -> Option<&SlcMode> {
        let slc = self.slc.as_ref()?;
        self.array.is_slc(self.geometry().block_of(ppn)).then_some(slc)
    }
}
