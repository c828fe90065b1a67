//! The flash outside of the process: what changes on it, and how it is laid down again.
//!
//! Only what operations have finished is a change; a program or erase under way is none, as after a
//! power cut. So a copy that follows the changes in their order is always a flash that a power cut
//! could have left.

use crate::{Array, Block, BlockCondition, Change, Oob, PageUse, Ppn};

/// Pages that no flash could hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("page {page} of block {block} is programmed out of order or twice")]
pub struct NotFlash {
    /// Block, counted within its plane.
    pub block: u32,
    /// Page of the block.
    pub page: u32,
}

impl Array {
    /// From now on changes are noted, to be taken by [`Array::take_changes`].
    pub fn keep_changes(&mut self) {
        self.changes.get_or_insert_default();
    }

    /// Moves the changes since the last call into `into`, oldest first.
    pub fn take_changes(&mut self, into: &mut Vec<Change>) {
        if let Some(changes) = &mut self.changes {
            into.append(changes);
        }
    }

    /// The number that the next page to be programmed gets.
    pub fn next_seq(&self) -> u64 {
        self.next_seq
    }

    /// Lays down a block without pages: how often it was erased, its condition, and whether a program
    /// failed in it.
    pub fn restore_block(&mut self, block: Block, erases: u32, condition: BlockCondition, doomed: bool) {
        let (at, width) = (self.at(block), self.weave.width);
        let state = &mut self.blocks[at];
        (state.erases, state.condition, state.doomed) = (erases, condition, doomed);
        // In which column is not known any more.
        state.failed = doomed && width > 1;
    }

    /// Sequence numbers up to and including `seq` have been used.
    pub fn restore_seq(&mut self, seq: u64) {
        self.next_seq = self.next_seq.max(seq + 1);
    }

    /// Lays down a page that was programmed with sequence number `seq` and holds version `version`, or
    /// (without `oob`) one that was torn. The pages of a block come in the order of their programs.
    ///
    /// # Errors
    /// If flash could not hold it after those before it.
    pub fn restore_page(
        &mut self,
        ppn: Ppn,
        (seq, version): (u64, u64),
        oob: Option<&Oob<'_>>,
    ) -> Result<(), NotFlash> {
        let (block, page) = (self.geometry.block_of(ppn), self.geometry.page_of(ppn));
        let index = self.index(ppn);
        let not_flash = NotFlash { block: block.0 & ((1 << self.geometry.block_bits()) - 1), page };
        if page >= self.geometry.pages_per_block {
            return Err(not_flash);
        }
        if self.page_use(self.first_slot(ppn)) == PageUse::Erased {
            self.restore_together(ppn, seq).ok_or(not_flash)?;
        } else if self.page_use(ppn) != PageUse::Torn || self.seq(ppn) != seq || self.slot_bits == 0 {
            return Err(not_flash);
        }
        match oob {
            Some(oob) => {
                self.oob.clear(index);
                self.oob.set(index, oob);
                if version != seq {
                    self.versions.insert(ppn.0, version);
                }
            }
            None => self.oob.tear(index),
        }
        Ok(())
    }

    /// Whether `ppn` may be programmed next. Which pages of a superblock are missing is seen when all are there
    /// (`Array::close_gaps`).
    pub fn may_program(&self, ppn: Ppn) -> bool {
        let state = &self.blocks[self.at_column(ppn)];
        self.weave.width > 1 || self.cell.allows(state.slc, &state.done, self.place(ppn).0)
    }

    /// Lays down all that one program filled with `ppn`, as torn until more is known of it.
    fn restore_together(&mut self, ppn: Ppn, seq: u64) -> Option<()> {
        if !self.may_program(ppn) {
            // Of a block whose pages are all torn so far it is not known how it was written.
            let state = &self.blocks[self.at_column(ppn)];
            let in_slc_mode = self.slc_labels.is_some() && state.done[1..] == [0; 3];
            if !in_slc_mode || !self.cell.allows(true, &state.done, self.place(ppn).0) {
                return None;
            }
            let at = self.at(self.geometry.block_of(ppn));
            self.blocks[at].slc = true;
        }
        let (kind, slots, column) = (self.page_type(ppn), self.slots(), self.at_column(ppn));
        let block = self.at(self.geometry.block_of(ppn));
        self.blocks[column].done[kind] += 1;
        let state = &mut self.blocks[block];
        if state.programmed == 0 {
            state.first_seq = seq;
        }
        let delta = u32::try_from(seq.checked_sub(state.first_seq)?).ok()?;
        state.programmed += slots;
        self.restore_seq(seq);
        for ppn in self.together(ppn) {
            let index = self.index(ppn);
            self.seq[index] = delta;
            self.oob.tear(index);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cell, CellKind, Extents, Geometry, PageUse, ProgramOrder};

    fn array() -> Array {
        let geometry = Geometry {
            channels: 1,
            chips_per_channel: 1,
            dies_per_chip: 1,
            planes_per_die: 1,
            blocks_per_plane: 4,
            pages_per_block: 4,
            page_bytes: 4096,
            sector_bytes: 4096,
            oob_bytes: 0,
        };
        let cell = Cell::new(CellKind::Slc, ProgramOrder::Strict, 4);
        Array::new(geometry, cell, 4096)
    }

    #[test]
    fn what_is_laid_down_is_there_and_in_order() {
        let mut array = array();
        let ppn = |block, page| array.geometry().ppn(Block(block), page);
        let (first, second, third) = (ppn(1, 0), ppn(1, 1), ppn(1, 3));
        let oob = Oob {
            kind: PageUse::Data,
            owner: Oob::PLAIN,
            stream: 3,
            extents: Extents::Home { lpn: 7, start: 0, len: 1 },
        };
        array.restore_block(Block(1), 9, BlockCondition::Good, false);
        array.restore_page(first, (20, 4), Some(&oob)).expect("in order");
        array.restore_page(second, (25, 25), None).expect("in order");
        assert_eq!((array.oob(first), array.seq(first), array.version(first)), (oob, 20, 4));
        assert_eq!((array.page_use(second), array.seq(second)), (PageUse::Torn, 25));
        assert_eq!((array.next_seq(), array.erases(Block(1))), (26, 9));
        assert_eq!(array.restore_page(third, (30, 30), Some(&oob)), Err(NotFlash { block: 1, page: 3 }));
        assert_eq!(array.restore_page(first, (31, 31), Some(&oob)), Err(NotFlash { block: 1, page: 0 }));
    }

    #[test]
    fn changes_are_noted_once_asked_for() {
        let mut array = array();
        array.erase(Block(0));
        array.keep_changes();
        array.erase(Block(1));
        array.set_bad(Block(2));
        let mut changes = vec![];
        array.take_changes(&mut changes);
        assert_eq!(changes, [Change::Erased(Block(1)), Change::Block(Block(2))]);
        array.take_changes(&mut changes);
        assert_eq!(changes.len(), 2);
    }
}
