//! Which blocks are free, and which a file gets.

use std::collections::BTreeMap;

/// Free blocks of a volume without end: what lies behind the last one ever used is free.
#[derive(Clone, Debug)]
pub(crate) struct Allocator {
    /// Free runs below `end`: first block and how many.
    free: BTreeMap<u64, u64>,
    /// Nothing at or behind this block was ever used.
    end: u64,
}

impl Allocator {
    pub fn new(first: u64) -> Self {
        Self { free: BTreeMap::new(), end: first }
    }

    /// Blocks that were ever used, from the volume's beginning.
    #[cfg(test)]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// A run of at most `count` blocks: at `goal` if that is free, else the first that is long enough, else
    /// new ones.
    pub fn take(&mut self, goal: Option<u64>, count: u64) -> (u64, u64) {
        if let Some(goal) = goal {
            if goal == self.end {
                self.end += count;
                return (goal, count);
            }
            let run = self.free.range(..=goal).next_back().map(|(&first, &blocks)| (first, blocks));
            if let Some((first, blocks)) = run
                && goal < first + blocks
            {
                let taken = count.min(first + blocks - goal);
                self.cut(first, blocks, goal, taken);
                return (goal, taken);
            }
        }
        let fits =
            self.free.iter().find(|(_, blocks)| **blocks >= count).map(|(&first, &blocks)| (first, blocks));
        if let Some((first, blocks)) = fits {
            self.cut(first, blocks, first, count);
            return (first, count);
        }
        let first = self.end;
        self.end += count;
        (first, count)
    }

    fn cut(&mut self, first: u64, blocks: u64, from: u64, taken: u64) {
        self.free.remove(&first);
        if from > first {
            self.free.insert(first, from - first);
        }
        let left = first + blocks - (from + taken);
        if left > 0 {
            self.free.insert(from + taken, left);
        }
    }

    /// Gives a run back.
    pub fn give(&mut self, first: u64, count: u64) {
        let (mut first, mut count) = (first, count);
        let before = self.free.range(..first).next_back().map(|(&at, &blocks)| (at, blocks));
        if let Some((at, blocks)) = before
            && at + blocks == first
        {
            self.free.remove(&at);
            (first, count) = (at, count + blocks);
        }
        if let Some(blocks) = self.free.remove(&(first + count)) {
            count += blocks;
        }
        self.free.insert(first, count);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_are_taken_at_the_goal_and_given_back_whole() {
        let mut blocks = Allocator::new(10);
        assert_eq!(blocks.take(None, 4), (10, 4));
        assert_eq!(blocks.take(Some(14), 4), (14, 4));
        blocks.give(11, 2);
        assert_eq!(blocks.take(Some(12), 4), (12, 1), "as far as it is free");
        assert_eq!(blocks.take(None, 2), (18, 2), "what is too short is passed over");
        blocks.give(12, 1);
        blocks.give(10, 1);
        blocks.give(13, 1);
        assert_eq!(blocks.take(None, 4), (10, 4), "runs that meet are one");
        assert_eq!(blocks.end(), 20);
    }
}
