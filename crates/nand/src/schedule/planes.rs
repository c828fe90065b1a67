//! Dies whose planes read independently: a read begins as soon as its plane is free, whatever the others read, and
//! pages leave one after the other while other planes are still in the array.

use super::{Nand, Phase};
use crate::op::{NONE, Op};
use crate::{Kind, Time};

impl Nand {
    /// The die begins to read, with `op`.
    pub(super) fn read_apart(&mut self, die_number: u32, op: u32) {
        let die = &mut self.dies[die_number as usize];
        // The die itself does nothing but this.
        (die.phase, die.op) = (Phase::Reads, NONE);
        let reading = &mut self.reading[die_number as usize];
        (reading.since, reading.transferred) = (self.now, 0);
        let end = self.read_plane(die_number, op);
        self.timers.set(die_number, end);
        self.read_planes(die_number);
    }

    /// Begins every read of this die that may begin now; a die that has none is free.
    #[inline(never)]
    pub(super) fn read_planes(&mut self, die_number: u32) {
        let first = self.reading[die_number as usize].array.last().copied();
        while let Some(op) = self.next_read(die_number) {
            self.begin(op);
            self.read_plane(die_number, op);
        }
        let reading = &self.reading[die_number as usize];
        let next = reading.array.last().copied();
        if let Some((end, _)) = next
            && next != first
        {
            if first.is_some() {
                self.timers.clear(die_number);
            }
            self.timers.set(die_number, end);
        }
        if reading.planes == 0 {
            self.dies[die_number as usize].busy_ns += self.now - reading.since - reading.transferred;
            self.leave(die_number);
        }
    }

    /// The plane of `op` reads; until when.
    fn read_plane(&mut self, die_number: u32, op: u32) -> Time {
        let slot = &self.ops[op as usize];
        let end = self.now + self.timing.command_ns + slot.array_ns;
        let reading = &mut self.reading[die_number as usize];
        reading.planes |= self.array.flash().plane_bit(slot.plane);
        let at = reading.array.partition_point(|&(other, _)| other > end);
        reading.array.insert(at, (end, op));
        // Any operation: the die looks up what follows it, and has no use for that.
        self.dies[die_number as usize].member = op;
        end
    }

    /// The next read of this die whose plane is free, if it is a read's turn; it is taken out of its queue.
    fn next_read(&mut self, die_number: u32) -> Option<u32> {
        let die = &mut self.dies[die_number as usize];
        let class = if die.suspended.is_some() {
            // What was suspended goes on as soon as no host read waits.
            (die.filled & 1 != 0).then_some(0)
        } else {
            die.pick_class(self.timing.scheduler, &self.ops)
        }?;
        let busy = self.reading[die_number as usize].planes;
        let flash = self.array.flash();
        let fits = |op: &Op| op.kind == Kind::Read && busy & flash.plane_bit(op.plane) == 0;
        die.take(class, &mut self.ops, fits)
    }

    /// The array is done with the next read of a die, or with several.
    #[inline(never)]
    pub(super) fn plane_done(&mut self, die_number: u32) {
        let mut next = None;
        while let Some(&(end, op)) = self.reading[die_number as usize].array.last() {
            if end > self.now {
                next = Some(end);
                break;
            }
            let reading = &mut self.reading[die_number as usize];
            reading.array.pop();
            if self.ops[op as usize].copyback {
                // It stays in the register, from which it is programmed.
                self.free_plane(die_number, op);
                self.finish::<false>(op);
                continue;
            }
            reading.registers.push_back(op);
            if reading.registers.len() == 1 {
                self.send_next(die_number);
            }
        }
        if let Some(end) = next {
            self.timers.set(die_number, end);
        }
    }

    fn send_next(&mut self, die_number: u32) {
        if let Some(&op) = self.reading[die_number as usize].registers.front() {
            let duration = self.channel_time(op);
            self.reading[die_number as usize].transferred += duration;
            self.want_channel::<false>(die_number, duration);
        }
    }

    /// A page has left the die.
    #[inline(never)]
    pub(super) fn page_sent(&mut self, die_number: u32) {
        let Some(op) = self.reading[die_number as usize].registers.pop_front() else { return };
        self.send_next(die_number);
        self.free_plane(die_number, op);
        self.decode::<false>(op);
    }

    fn free_plane(&mut self, die_number: u32, op: u32) {
        let plane = self.array.flash().plane_bit(self.ops[op as usize].plane);
        self.reading[die_number as usize].planes &= !plane;
        self.look_at(die_number);
    }
}
