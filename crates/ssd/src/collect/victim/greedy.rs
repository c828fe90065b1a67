//! Greedy: the fewest valid pages; of equals, the one that has been so for longest.

use nandle_nand::Block;

use crate::space::Candidates;

/// The head of the lowest bucket.
pub(crate) fn pick(from: &Candidates<'_>) -> Option<Block> {
    from.buckets().next().map(|(_, block)| block)
}
