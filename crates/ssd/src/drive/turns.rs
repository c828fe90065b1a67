//! In what order commands take effect that took time to come.

/// Commands on their way, reads aside, take effect in the order of their submission.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns {
    /// Turns given so far, and the next one to be taken.
    given: u64,
    next: u64,
    /// Turns of commands that wait for others only, and their slots.
    waiting: Vec<(u64, u32)>,
}

impl Turns {
    /// Another command is submitted.
    #[inline]
    pub fn give(&mut self) -> u64 {
        self.given += 1;
        self.given - 1
    }
    /// Whether it is `turn`'s turn, which it then has had; else it has to wait.
    #[inline]
    pub fn take(&mut self, turn: u64, slot: u32) -> bool {
        if turn == self.next {
            self.next += 1;
            return true;
        }
        self.waiting.push((turn, slot));
        false
    }
    /// Who waited for its turn and has it now.
    #[inline]
    pub fn pass_on(&mut self) -> Option<u32> {
        if self.waiting.is_empty() {
            return None;
        }
        let at = self.waiting.iter().position(|&(turn, _)| turn == self.next)?;
        self.next += 1;
        Some(self.waiting.swap_remove(at).1)
    }
}
