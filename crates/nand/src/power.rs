//! What is left when the power goes.

use crate::op::{Kind, NONE};
use crate::schedule::{Nand, Phase};
use crate::{Array, Block, BlockCondition, Cause, Change, PageUse, Ppn, Silicon};

impl Nand {
    /// Cuts the power now. Operations that had not reached the array leave no trace; a running
    /// program leaves its page torn (with paired pages, also the lower pages of its word line), a
    /// running erase leaves its block undefined. If `protected`, capacitors see what runs in the array
    /// to its end, and what was set aside is kept.
    pub fn cut_power(mut self, protected: bool) -> Silicon {
        let mut in_array: Vec<u32> = self.under_way().into_iter().collect();
        for die in &self.dies {
            let suspended = die.suspended.as_ref().map(|s| s.op);
            let reached = die.phase == Phase::Array && die.array_start <= self.now();
            let running =
                (reached && die.op != NONE && !self.ops[die.op as usize].reads_first()).then_some(die.op);
            for mut op in suspended.into_iter().chain(running) {
                while op != NONE {
                    in_array.push(op);
                    op = self.ops[op as usize].group;
                }
            }
        }
        // Programs on order are undone newest first, so that each block's frontier steps back.
        for slot in 0..self.array.blocks.len() {
            let mut chain = vec![];
            let mut op = self.array.blocks[slot].chain_head;
            while op != NONE {
                chain.push(op);
                op = self.ops[op as usize].chain;
            }
            for &op in chain.iter().rev() {
                let ppn = Ppn(self.ops[op as usize].ppn);
                if self.ops[op as usize].cause == Cause::Parity {
                    // Whether it is counted as programmed is seen at power-on.
                    if !(protected && in_array.contains(&op)) {
                        self.array.lose_parity(ppn);
                    }
                    continue;
                }
                if in_array.contains(&op) {
                    if !protected {
                        self.array.tear(ppn);
                        if self.paired_pages {
                            self.array.tear_lower_pages(ppn);
                        }
                    }
                    let cause = self.ops[op as usize].cause;
                    self.array.note_program(ppn, cause);
                } else {
                    self.array.unprogram(ppn);
                }
            }
            let state = &mut self.array.blocks[slot];
            (state.chain_head, state.chain_tail, state.holds, state.erase) = (NONE, NONE, 0, NONE);
        }
        let mut erased: Vec<Block> = vec![];
        for &op in &in_array {
            let op = &self.ops[op as usize];
            let block = self.array.geometry.block_of(Ppn(op.ppn));
            if op.kind == Kind::Erase && !erased.contains(&block) {
                erased.push(block);
            }
        }
        if self.array.width() > 1 {
            self.note_half_erased(&mut erased);
        }
        for block in erased {
            let at = self.array.at(block);
            let running = |&&op: &&u32| {
                let op = &self.ops[op as usize];
                op.kind == Kind::Erase && self.array.geometry.block_of(Ppn(op.ppn)) == block
            };
            let left = usize::from(self.array.blocks[at].erasing) - in_array.iter().filter(running).count();
            self.array.blocks[at].erasing = 0;
            if protected && left == 0 {
                self.array.erase(block);
                self.array.replace_doomed(block);
            } else {
                self.array.interrupt_erase(block);
            }
        }
        if !protected {
            self.array.forget_aside();
        }
        Silicon(self.array)
    }

    /// Superblocks of which some columns are erased and others not.
    fn note_half_erased(&self, erased: &mut Vec<Block>) {
        let planes = 0..self.geometry().planes();
        for block in planes.flat_map(|plane| self.geometry().blocks_of(plane)) {
            let left = u32::from(self.array.blocks[self.array.at(block)].erasing);
            if left > 0 && left < self.array.width() && !erased.contains(&block) {
                erased.push(block);
            }
        }
    }
}

impl Array {
    /// Leaves `ppn` as an interrupted program does.
    fn tear(&mut self, ppn: Ppn) {
        for ppn in self.together(ppn) {
            let index = self.index(ppn);
            self.oob.tear(index);
            self.note_change(Change::Page(ppn));
        }
        let at = self.at(self.geometry.block_of(ppn));
        if self.blocks[at].programmed == self.slots() {
            // No page says any more how the block was to be written.
            self.blocks[at].slc = false;
        }
    }

    /// The cells of `ppn` hold the lower pages of its word line as well.
    fn tear_lower_pages(&mut self, ppn: Ppn) {
        let (page, kind) = (self.geometry.page_of(ppn) >> self.slot_bits, self.page_type(ppn) as u32);
        let block = self.geometry.block_of(ppn);
        let (row, column) = self.weave.place(page);
        for lower in row - kind..row {
            let Some(lower) = self.weave.page_in(lower, column) else { continue };
            let lower = self.geometry.ppn(block, lower << self.slot_bits);
            if self.page_use(lower) != PageUse::Erased {
                self.tear(lower);
            }
        }
    }

    /// Leaves `block` as an interrupted erase does: nothing in it can be trusted.
    pub fn interrupt_erase(&mut self, block: Block) {
        let pages = self.geometry.pages_per_block;
        for page in 0..pages {
            let ppn = self.geometry.ppn(block, page);
            if self.page_use(ppn) != PageUse::Erased {
                self.tear(ppn);
            }
        }
        let at = self.at(block);
        self.blocks[at].condition = BlockCondition::Undefined;
        self.note_change(Change::Block(block));
    }
}
