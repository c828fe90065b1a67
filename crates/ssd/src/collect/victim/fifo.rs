//! FIFO: the block that was closed first. A fully valid one is passed over (it would free nothing),
//! as it is rewritten elsewhere only by wear levelling.

use nandle_nand::Block;

use crate::space::Candidates;

/// The oldest closed block that has an invalid page.
pub(crate) fn pick(from: &Candidates<'_>) -> Option<Block> {
    from.by_age().find(|&block| from.gains(block))
}
