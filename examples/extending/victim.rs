//! Which block is collected: of the nearly emptiest ones the least worn.
//!
//! Greedy takes the block with the fewest valid pages, and blocks that hold hot data are erased again and
//! again. Here up to four more pages are copied if that spares a worn block (the idea of CAT, Chiang
//! and Chang 1999, without its formula).

use nandle_ssd::flash::Flash;
use nandle_ssd::nand::{Block, Time};
use nandle_ssd::schemes::{Interests, Scheme};
use nandle_ssd::space::Candidates;

/// The least worn block among those within four pages of the emptiest.
#[derive(Clone, Copy, Debug)]
pub struct LeastWorn;

impl Scheme for LeastWorn {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(*self)
    }
    fn interests(&self) -> Interests {
        Interests::VICTIM
    }

    fn victim(&self, flash: &Flash, _plane: u32, from: &Candidates<'_>, _: Time) -> Option<Block> {
        let emptiest = from.closed().iter().map(|&block| from.valid(block)).min()?;
        let near = from.closed().iter().filter(|&&block| from.valid(block) <= emptiest + 4);
        near.copied().min_by_key(|&block| (flash.array().erases(block), from.valid(block), block))
    }
}
