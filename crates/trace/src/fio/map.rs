//! fio's random map: which blocks of a pass are covered.

use nandle_random::Stream;

/// Blocks in random order, each once a pass. A draw that hits a covered block takes the next one that is not, from
/// there on and round the end, as fio's own map does; when all are covered the next pass begins with none.
pub(super) struct Map {
    /// A bit a block, of a word, of 64 words, and so on: set where all below is covered.
    levels: Vec<Vec<u64>>,
    slots: u64,
    unit: u64,
    left: u64,
}

impl Map {
    /// A map of `slots` blocks of `unit` bytes; of none if it is not to be used.
    pub(super) fn new(slots: u64, unit: u64) -> Self {
        let mut map = Self { levels: vec![], slots, unit, left: 0 };
        map.clear();
        map
    }

    /// No block is covered.
    fn clear(&mut self) {
        self.left = self.slots;
        self.levels.clear();
        let mut bits = self.slots;
        while bits > 0 {
            let words = bits.div_ceil(64);
            let mut level = vec![0; words as usize];
            // What is beyond the end counts as covered.
            if let (Some(last), 1..) = (level.last_mut(), bits % 64) {
                *last = u64::MAX << (bits % 64);
            }
            self.levels.push(level);
            bits = if words > 1 { words } else { 0 };
        }
    }

    /// First byte of the block that comes next.
    pub(super) fn next(&mut self, stream: &mut Stream) -> u64 {
        if self.left == 0 {
            self.clear();
        }
        let drawn = stream.below(self.slots);
        let block = self.free_from(drawn).or_else(|| self.free_from(0)).unwrap_or(drawn);
        self.cover(block);
        block * self.unit
    }

    /// The first block from `at` on that is not covered.
    fn free_from(&self, at: u64) -> Option<u64> {
        let mut at = at;
        let mut level = 0;
        loop {
            let word = self.levels.get(level)?.get((at / 64) as usize).copied();
            let free = !word? & (u64::MAX << (at % 64));
            if free != 0 {
                at = at / 64 * 64 + u64::from(free.trailing_zeros());
                break;
            }
            // On from the next word, whose bit is in the level above.
            at = at / 64 + 1;
            level += 1;
        }
        while level > 0 {
            level -= 1;
            at = at * 64 + u64::from((!self.levels[level][at as usize]).trailing_zeros());
        }
        Some(at)
    }

    fn cover(&mut self, block: u64) {
        self.left -= 1;
        let mut at = block;
        for level in &mut self.levels {
            let word = &mut level[(at / 64) as usize];
            *word |= 1 << (at % 64);
            if *word != u64::MAX {
                break;
            }
            at /= 64;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Beside a plain list of what is covered.
    #[test]
    fn draws_fall_on_the_next_free_block_of_each_pass() {
        for slots in [1, 2, 63, 64, 65, 1000, 4096, 5000] {
            let (mut map, mut draws) = (Map::new(slots, 512), Stream::new(slots, "map"));
            let mut same = draws.clone();
            for pass in 0..3 {
                let mut covered = vec![false; slots as usize];
                for n in 0..slots {
                    let drawn = same.below(slots) as usize;
                    let free = (drawn..covered.len()).chain(0..drawn).find(|&b| !covered[b]);
                    let free = free.expect("not all are covered");
                    covered[free] = true;
                    assert_eq!(
                        map.next(&mut draws),
                        free as u64 * 512,
                        "{slots} blocks, pass {pass}, draw {n}"
                    );
                }
            }
        }
    }
}
