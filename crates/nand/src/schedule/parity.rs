//! Parity of superblocks: its programs, and pages that are rebuilt from their stripe.

use super::Nand;
use crate::op::NONE;
use crate::{Cause, Kind, OpId, Ppn};

impl Nand {
    /// Orders the parity of the stripe that ends with `last`, once what the stripe holds is there to be programmed.
    pub(super) fn program_parity(&mut self, last: Ppn, column: u32, background: bool) {
        let block = self.geometry().block_of(last);
        let plane = self.array.plane_of_column(block, column);
        let kind = self.array.page_type(last);
        let durations = (self.transfer_page, self.timing.program(kind));
        let op = self.new_op_in(plane, last, Kind::Program, Cause::Parity, background, durations);
        self.chain(op, self.array.at(block) + column as usize);
        self.counters.programs[Cause::Parity as usize][kind] += self.gang;
        for ppn in self.array.stripe_of(last) {
            if let Some(OpId(data)) = self.program_of(ppn)
                && self.ops[data as usize].waits > u32::from(self.ops[data as usize].behind)
            {
                self.ops[data as usize].parity = op;
                self.ops[op as usize].waits += 1;
            }
        }
        self.release_wait(op);
    }

    /// What the read `op` of `ppn` returns cannot be corrected. It is rebuilt from what else its stripe holds, if all
    /// of that can be read; else it is lost.
    #[cold]
    pub(super) fn fail_read(&mut self, op: u32, ppn: Ppn, background: bool) {
        if self.rebuild(op, ppn, background) {
            self.counters.rebuilt += 1;
            self.array.set_rebuilt(ppn, true);
            return;
        }
        // Decided here, as everything else: what is copied from the page is lost as well.
        self.array.set_rebuilt(ppn, false);
        self.array.lose_page(ppn);
        if self.program_of(ppn).is_none() {
            self.array.note_loss(ppn);
        }
    }

    /// Reads the rest of a stripe for the read `op` of `ppn`; false if that cannot be read either.
    pub(super) fn rebuild(&mut self, op: u32, ppn: Ppn, background: bool) -> bool {
        let Some((others, last)) = self.array.rest_of_stripe(ppn) else { return false };
        if !others.iter().all(|&other| self.array.is_readable(other)) {
            return false;
        }
        let block = self.geometry().block_of(ppn);
        let kind = self.array.page_type(ppn);
        let Some(column) = self.array.parity_column(last) else { return false };
        let parity = (last, self.array.plane_of_column(block, column), self.parity_program(last, column));
        let data: Vec<(Ppn, u32, Option<OpId>)> =
            others.iter().map(|&other| (other, self.array.plane_of(other), self.program_of(other))).collect();
        let mut sound = true;
        for (other, plane, program) in data.into_iter().chain([parity]) {
            let durations = (self.transfer_page, self.timing.read(kind));
            let read = self.new_op_in(plane, other, Kind::Read, Cause::Parity, background, durations);
            if let Some(program) = program {
                self.wait_for(read, program.0);
            }
            self.wait_for(op, read);
            self.counters.reads[Cause::Parity as usize][kind] += self.gang;
            let die = self.array.flash().die_of_plane(plane);
            if let Some(faults) = &mut self.faults
                && (faults.reads.draw(&mut faults.stream) || faults.is_gone(die))
            {
                sound = false;
                if plane == parity.1 {
                    self.array.lose_parity(last);
                } else if self.array.page_use(other).is_data() {
                    self.array.set_rebuilt(other, true);
                }
            }
            self.release_wait(read);
        }
        sound
    }

    /// The program of the parity of the stripe that ends with `last`, if it is on order or running.
    pub(super) fn parity_program(&self, last: Ppn, column: u32) -> Option<OpId> {
        let mut op =
            self.array.blocks[self.array.at(self.geometry().block_of(last)) + column as usize].chain_head;
        while op != NONE {
            let slot = &self.ops[op as usize];
            if slot.cause == Cause::Parity && slot.ppn == last.0 {
                return Some(OpId(op));
            }
            op = slot.chain;
        }
        None
    }
}
