//! Cost-benefit: the largest age x (1 - u) / 2u, u = share of valid pages, age = time since the
//! block last lost a page (Rosenblum and Ousterhout 1992; Kawaguchi et al. 1995).
//!
//! Of the blocks with equally many valid pages the oldest is best, and it heads its bucket: only
//! the heads are compared.

use nandle_nand::Block;

use crate::space::Candidates;

/// The best of the buckets' heads.
pub(crate) fn pick(from: &Candidates<'_>, now: u64) -> Option<Block> {
    let pages = from.pages_per_block();
    let mut best: Option<(u128, u128, Block)> = None;
    for (valid, block) in from.buckets() {
        if valid == 0 {
            return Some(block);
        }
        // age (1 - u) / 2u as a fraction, compared by cross-multiplication: exact.
        let benefit = u128::from(now - from.last_invalidated(block) + 1) * u128::from(pages - valid);
        let cost = 2 * u128::from(valid);
        if best.is_none_or(|(b, c, _)| benefit * c > b * cost) {
            best = Some((benefit, cost, block));
        }
    }
    best.map(|(_, _, block)| block)
}
