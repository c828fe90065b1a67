//! What is left when the power goes.

use crate::op::{Kind, NONE};
use crate::schedule::{Nand, Phase};
use crate::{Array, Block, BlockCondition, PageUse, Ppn};

/// The flash without power: only what was programmed.
#[derive(Clone, Debug)]
pub struct Silicon(pub Array);

impl Nand {
    /// Cuts the power now. Operations that had not reached the array leave no trace; a running
    /// program leaves its page torn, a running erase leaves its block undefined.
    pub fn cut_power(mut self) -> Silicon {
        let mut in_array = vec![];
        for die in &self.dies {
            let suspended = die.suspended.as_ref().map(|s| s.op);
            let running = (die.phase == Phase::Array && die.op != NONE).then_some(die.op);
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
                    let index = self.array.index(ppn);
                    self.array.oob.tear(index);
                    self.array.note_change(crate::Change::Page(ppn));
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
                self.array.undefine(block);
            }
        }
        Silicon(self.array)
    }
}

impl Array {
    /// Leaves `block` as an interrupted erase does: nothing in it can be trusted.
    fn undefine(&mut self, block: Block) {
        let pages = self.geometry.pages_per_block;
        for page in 0..pages {
            let ppn = self.geometry.ppn(block, page);
            if self.page_use(ppn) != PageUse::Erased {
                let index = self.index(ppn);
                self.oob.tear(index);
            }
        }
        self.blocks[block.0 as usize].condition = BlockCondition::Undefined;
        self.note_change(crate::Change::Block(block));
    }
}
