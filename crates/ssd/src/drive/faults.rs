//! Faults on order, while the drive runs.

use super::Ssd;

impl Ssd {
    /// Die `die` answers no more: what it holds can be read only where parity stands in, and what is programmed in it
    /// fails. False if there is no such die.
    pub fn lose_die(&mut self, die: u32) -> bool {
        let there = die < self.flash.array().flash().dies();
        if there {
            self.flash.media_mut().lose_die(die);
        }
        there
    }

    /// What the flash holds of `sectors` sectors from `lsn` on, within the device, cannot be corrected any more. How
    /// many sectors that is: what was never written, or waits in the buffer, is not on flash.
    pub fn lose_sectors(&mut self, lsn: u64, sectors: u64) -> u64 {
        let (mut cursor, mut lost) = (0, 0);
        while cursor < sectors {
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            cursor += len;
            let buffered = self.buffer.as_ref().map_or(0, |buffer| buffer.mask(lpn));
            for fragment in self.flash.fragments().get(lpn, self.flash.array()) {
                let hit = fragment.mask & mask & !buffered;
                if hit == 0 {
                    continue;
                }
                let shift = u32::from(fragment.shift.unsigned_abs());
                let in_page = if fragment.shift >= 0 { hit << shift } else { hit >> shift };
                self.flash.media_mut().lose_sectors(fragment.ppn, in_page);
                lost += u64::from(hit.count_ones());
            }
        }
        lost
    }

    /// The drive takes no writes, as when its flash is worn out, or takes them again.
    pub fn set_read_only(&mut self, read_only: bool) {
        self.flash.set_read_only(read_only);
    }
}
