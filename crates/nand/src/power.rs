//! What is left when the power goes.

use crate::op::{Kind, NONE};
use crate::schedule::{Nand, Phase};
use crate::{Array, Block, BlockCondition, Change, PageUse, Ppn, Silicon};

impl Nand {
    /// Cuts the power now. Operations that had not reached the array leave no trace; a running
    /// program leaves its page torn (with paired pages, also the lower pages of its word line), a
    /// running erase leaves its block undefined. If `protected`, capacitors see what runs in the array
    /// to its end.
    pub fn cut_power(mut self, protected: bool) -> Silicon {
        let mut in_array = vec![];
        for die in &self.dies {
            let suspended = die.suspended.as_ref().map(|s| s.op);
            let reached = die.phase == Phase::Array && die.array_start <= self.now();
            let running = (reached && die.op != NONE).then_some(die.op);
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
                if in_array.contains(&op) {
                    if !protected {
                        self.array.tear(ppn);
                        if self.paired_pages {
                            self.array.tear_lower_pages(ppn);
                        }
                    }
                    self.array.note_program(ppn);
                } else {
                    self.array.unprogram(ppn);
                }
            }
            let state = &mut self.array.blocks[slot];
            (state.chain_head, state.chain_tail, state.holds, state.erase) = (NONE, NONE, 0, NONE);
        }
        for op in in_array {
            let op = &self.ops[op as usize];
            if op.kind == Kind::Erase {
                let block = self.array.geometry.block_of(Ppn(op.ppn));
                if protected {
                    self.array.erase(block);
                    if self.array.is_doomed(block) {
                        self.array.set_bad(block);
                    }
                } else {
                    self.array.interrupt_erase(block);
                }
            }
        }
        Silicon(self.array)
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
    }

    /// The cells of `ppn` hold the lower pages of its word line as well.
    fn tear_lower_pages(&mut self, ppn: Ppn) {
        let (page, kind) = (self.geometry.page_of(ppn) >> self.slot_bits, self.page_type(ppn) as u32);
        let block = self.geometry.block_of(ppn);
        for lower in page - kind..page {
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
        self.blocks[block.0 as usize].condition = BlockCondition::Undefined;
        self.note_change(Change::Block(block));
    }
}
