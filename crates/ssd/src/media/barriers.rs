//! Flush barriers: which programs a flush waits for.
//!
//! Every program that makes host data durable is counted for the open barrier. A flush closes it; when
//! the counts of a barrier and of all before it are zero, its flush is complete.

use std::collections::VecDeque;

#[derive(Clone, Debug)]
pub(super) struct Barriers {
    /// Programs under way for each barrier, oldest first; the last one is open.
    counts: VecDeque<u32>,
    /// Number of the oldest.
    first: u32,
}

impl Default for Barriers {
    fn default() -> Self {
        Self { counts: std::iter::once(0).collect(), first: 0 }
    }
}

impl Barriers {
    /// Another program for the open barrier, whose number is returned.
    #[inline]
    pub fn enter(&mut self) -> u32 {
        if let Some(open) = self.counts.back_mut() {
            *open += 1;
        }
        self.newest()
    }
    #[inline]
    fn newest(&self) -> u32 {
        self.first.wrapping_add(self.counts.len() as u32 - 1)
    }
    /// Closes the open barrier and returns its number.
    pub fn close(&mut self) -> u32 {
        let number = self.newest();
        self.counts.push_back(0);
        number
    }
    /// A program of barrier `number` is done.
    #[inline]
    pub fn leave(&mut self, number: u32) {
        self.counts[number.wrapping_sub(self.first) as usize] -= 1;
    }
    /// Whether everything of a closed barrier, and of those before it, is done.
    pub fn is_passed(&mut self, number: u32) -> bool {
        while self.counts.len() > 1 && self.counts[0] == 0 {
            self.counts.pop_front();
            self.first = self.first.wrapping_add(1);
        }
        (number.wrapping_sub(self.first) as i32) < 0
    }
}
