//! Flush barriers: which programs a flush waits for.
//!
//! Every program that makes host data durable is counted for the open barrier. A flush closes it; when
//! the counts of a barrier and of all before it are zero, its flush is complete.

use std::collections::VecDeque;

#[derive(Clone, Debug, Default)]
pub(super) struct Barriers {
    /// Programs under way for the open barrier, which is almost always the only one.
    open: u32,
    /// Number of the open barrier.
    number: u32,
    /// Programs under way for each closed barrier, oldest first.
    closed: VecDeque<u32>,
}

impl Barriers {
    /// Another program for the open barrier, whose number is returned.
    #[inline]
    pub fn enter(&mut self) -> u32 {
        self.open += 1;
        self.number
    }
    /// Number of the oldest barrier.
    #[inline]
    fn first(&self) -> u32 {
        self.number.wrapping_sub(self.closed.len() as u32)
    }
    /// Closes the open barrier and returns its number.
    pub fn close(&mut self) -> u32 {
        let number = self.number;
        self.closed.push_back(std::mem::take(&mut self.open));
        self.number = number.wrapping_add(1);
        number
    }
    /// A program of barrier `number` is done.
    #[inline]
    pub fn leave(&mut self, number: u32) {
        if number == self.number {
            self.open -= 1;
        } else {
            let place = number.wrapping_sub(self.first());
            self.closed[place as usize] -= 1;
        }
    }
    /// Whether everything of a closed barrier, and of those before it, is done.
    pub fn is_passed(&mut self, number: u32) -> bool {
        while self.closed.front() == Some(&0) {
            self.closed.pop_front();
        }
        (number.wrapping_sub(self.first()) as i32) < 0
    }
}
