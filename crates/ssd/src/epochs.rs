//! Flush barriers: which programs a flush waits for.
//!
//! Every program that makes host data durable is counted for the open epoch. A flush closes it;
//! when the counts of an epoch and of all before it are zero, its flush is complete.

use crate::flash::Flash;

impl Flash {
    /// Closes the open epoch and returns its number.
    pub(crate) fn close_epoch(&mut self) -> u32 {
        let number = self.first_epoch.wrapping_add(self.epochs.len() as u32 - 1);
        self.epochs.push_back(0);
        number
    }
    pub(crate) fn leave_epoch(&mut self, number: u32) {
        self.epochs[number.wrapping_sub(self.first_epoch) as usize] -= 1;
    }
    /// Drops closed epochs that are done, oldest first.
    pub(crate) fn retire_epochs(&mut self) {
        while self.epochs.len() > 1 && self.epochs[0] == 0 {
            self.epochs.pop_front();
            self.first_epoch = self.first_epoch.wrapping_add(1);
        }
    }
    /// Whether everything of a closed epoch, and of those before it, is done.
    pub(crate) fn epoch_is_done(&self, number: u32) -> bool {
        number.wrapping_sub(self.first_epoch) as i32 <= -1
    }
}
