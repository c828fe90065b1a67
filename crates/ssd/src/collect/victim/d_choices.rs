//! d-choices: the fewest valid pages among d blocks drawn with replacement (Van Houdt 2013).

use nandle_nand::Block;
use nandle_random::Stream;

use crate::space::Candidates;

/// The best of `d` random draws; if all of them are fully valid, the greedy choice, so that a
/// full plane never stops for want of luck.
pub(crate) fn pick(from: &Candidates<'_>, d: u32, draw: &mut Stream) -> Option<Block> {
    let closed = from.closed();
    if closed.is_empty() {
        return None;
    }
    (0..d)
        .map(|_| closed[draw.below(closed.len() as u64) as usize])
        .min_by_key(|&block| from.valid(block))
        .filter(|&block| from.gains(block))
        .or_else(|| super::greedy::pick(from))
}
