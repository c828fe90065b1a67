//! Faults on order: a die that answers no more, sectors that cannot be corrected.

use super::Nand;
use crate::fault::Faults;
use crate::{FaultConfig, Ppn};

impl Nand {
    /// Die `die` answers no more: what it holds of data cannot be read from now on, unless it can be rebuilt from
    /// parity, and all programs and erases in it fail. What the drive keeps for itself it has elsewhere too.
    pub fn lose_die(&mut self, die: u32) {
        let faults = self.faults.get_or_insert_with(|| Box::new(Faults::new(&FaultConfig::default(), 0)));
        if faults.is_gone(die) {
            return;
        }
        faults.gone.push(die);
        (self.copies_at_once, self.copies_whole) = (false, false);
        let geometry = self.geometry().clone();
        let blocks = (0..geometry.planes()).flat_map(|plane| geometry.blocks_of(plane));
        for block in blocks {
            let pages = (0..geometry.pages_per_block).map(|page| geometry.ppn(block, page));
            for ppn in pages.filter(|&ppn| self.array.page_use(ppn).is_data()).collect::<Vec<_>>() {
                // What is being programmed fails, and is programmed elsewhere.
                if self.array.die_of(ppn) != die || self.program_of(ppn).is_some() {
                    continue;
                }
                if self.array.rest_of_stripe(ppn).is_some() {
                    self.array.set_rebuilt(ppn, true);
                } else {
                    self.array.lose_page(ppn);
                    self.array.note_loss(ppn);
                }
            }
        }
    }

    /// The sectors `mask` of page `ppn` cannot be corrected from now on.
    pub fn lose_sectors(&mut self, ppn: Ppn, mask: u64) {
        self.array.lose(ppn, mask);
        if self.program_of(ppn).is_none() {
            self.array.note_loss(ppn);
        }
    }
}
