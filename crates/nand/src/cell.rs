//! Bits per cell, page types, and the order in which a block's pages may be programmed.
//!
//! A block of b-bit cells has one page of each type per word line. Page number = word line x b +
//! type, so the type of a page is its number modulo b. Which order is legal follows PAPA, section
//! V-B: rules 1 to 5 always (`relaxed`), 6 and 7 too in the conventional order (`strict`).

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Bits stored in a cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum CellKind {
    /// 1 bit.
    Slc,
    /// 2 bits: LSB and MSB; nandle calls the second CSB so that types count upward alike everywhere.
    Mlc,
    /// 3 bits: LSB, CSB, MSB.
    Tlc,
    /// 4 bits: LSB, CSB, MSB, TSB.
    Qlc,
}

impl CellKind {
    /// Bits per cell = page types.
    pub fn bits(self) -> u32 {
        self as u32 + 1
    }
}

/// Which of a cell's bits a page stores: 0 = LSB (fastest), 1 = CSB, 2 = MSB, 3 = TSB.
pub type PageType = usize;

/// Which program order the flash insists on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ProgramOrder {
    /// PAPA's rules 1 to 7: one legal sequence, the shadow order.
    Strict,
    /// PAPA's rules 1 to 5: types may run ahead of each other.
    Relaxed,
}

/// A block's cells: how many pages of each type, and what may be programmed next.
#[derive(Clone, Debug)]
pub struct Cell {
    bits: u32,
    order: ProgramOrder,
    /// Pages of each type in a block; the last word line may be incomplete.
    pages: [u16; 4],
    /// The shadow order: page numbers in the sequence of rules 1 to 7.
    sequence: Box<[u16]>,
}

impl Cell {
    /// The cells of a block of `pages_per_block` pages.
    pub fn new(kind: CellKind, order: ProgramOrder, pages_per_block: u32) -> Self {
        let bits = kind.bits();
        let mut pages = [0; 4];
        for (kind, count) in pages.iter_mut().enumerate().take(bits as usize) {
            *count = ((pages_per_block + bits - 1 - kind as u32) / bits) as u16;
        }
        let word_lines = u32::from(pages[0]);
        let mut sequence = Vec::with_capacity(pages_per_block as usize);
        for diagonal in 0..word_lines + bits - 1 {
            for kind in 0..bits.min(diagonal + 1) {
                let line = diagonal - kind;
                if line < u32::from(pages[kind as usize]) {
                    sequence.push((line * bits + kind) as u16);
                }
            }
        }
        debug_assert_eq!(sequence.len(), pages_per_block as usize);
        Self { bits, order, pages, sequence: sequence.into() }
    }

    /// The type of page number `page`.
    #[inline]
    pub fn page_type(&self, page: u32) -> PageType {
        if self.bits == 1 { 0 } else { (page % self.bits) as usize }
    }
    /// Bits per cell = page types.
    pub fn bits(&self) -> u32 {
        self.bits
    }
    /// Pages of each type in a block.
    pub fn pages_of_type(&self) -> [u16; 4] {
        self.pages
    }
    /// The order the flash insists on.
    pub fn order(&self) -> ProgramOrder {
        self.order
    }
    /// The `n`th page (from 0) of the shadow order.
    #[inline]
    pub fn strict_page(&self, n: u32) -> u32 {
        u32::from(self.sequence[n as usize])
    }
    /// The next page of type `kind` when `done` pages of each type are programmed, if the order allows it now.
    #[inline]
    pub fn next_of_type(&self, done: &[u16; 4], kind: PageType) -> Option<u32> {
        let line = done[kind];
        (line < self.pages[kind] && self.allowed(done, kind))
            .then(|| u32::from(line) * self.bits + kind as u32)
    }

    /// Whether the next page of type `kind` may be programmed.
    #[inline]
    fn allowed(&self, done: &[u16; 4], kind: PageType) -> bool {
        let line = i32::from(done[kind]);
        // Rules 4 and 5: lower types must be ahead by one word line per type between, plus one.
        let lower = (0..kind)
            .all(|s| i32::from(done[s]) >= (line + (kind - s) as i32 + 1).min(i32::from(self.pages[s])));
        // Rules 6 and 7: and not further ahead than that.
        let higher = self.order == ProgramOrder::Relaxed
            || (kind + 1..self.bits as usize).all(|u| i32::from(done[u]) >= line - (u - kind) as i32);
        lower && higher
    }

    /// As [`Cell::may_program`]; in a block in SLC mode the first page of each word line follows that of the one before.
    #[inline(always)]
    pub(crate) fn allows(&self, slc: bool, done: &[u16; 4], page: u32) -> bool {
        if slc { page == u32::from(done[0]) * self.bits } else { self.may_program(done, page) }
    }

    /// Whether `page` may be programmed when `done` pages of each type are (rules 1 to 3: in order within a type).
    #[inline(always)]
    pub fn may_program(&self, done: &[u16; 4], page: u32) -> bool {
        if self.bits == 1 {
            return page == u32::from(done[0]);
        }
        let kind = self.page_type(page);
        page / self.bits == u32::from(done[kind]) && self.allowed(done, kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shadow_order_is_the_papers() {
        // PAPA Fig. 3: L0 L1 C0 L2 C1 M0 L3 C2 M1 ..., page number = word line x 3 + type.
        let cell = Cell::new(CellKind::Tlc, ProgramOrder::Strict, 12);
        let order: Vec<u32> = (0..12).map(|n| cell.strict_page(n)).collect();
        assert_eq!(order, [0, 3, 1, 6, 4, 2, 9, 7, 5, 10, 8, 11]);
    }

    #[test]
    fn strict_allows_exactly_its_sequence() {
        for (kind, pages) in [
            (CellKind::Slc, 7),
            (CellKind::Mlc, 13),
            (CellKind::Tlc, 64),
            (CellKind::Tlc, 12),
            (CellKind::Qlc, 30),
        ] {
            let cell = Cell::new(kind, ProgramOrder::Strict, pages);
            let mut done = [0_u16; 4];
            for n in 0..pages {
                let legal: Vec<u32> = (0..pages).filter(|&p| cell.may_program(&done, p)).collect();
                assert!(legal.contains(&cell.strict_page(n)), "{kind:?} {n}: {legal:?}");
                // Rules 1 to 7 leave no choice in the interior of a block.
                if n > 2 * kind.bits() && n + 2 * kind.bits() * kind.bits() < pages {
                    assert_eq!(legal.len(), 1, "{kind:?} {n}: {legal:?}");
                }
                done[cell.page_type(cell.strict_page(n))] += 1;
            }
        }
    }

    #[test]
    fn relaxed_allows_all_lsb_first() {
        let cell = Cell::new(CellKind::Tlc, ProgramOrder::Relaxed, 12);
        let mut done = [0; 4];
        for kind in 0..3 {
            for _ in 0..4 {
                let page = cell.next_of_type(&done, kind).expect("legal");
                assert!(cell.may_program(&done, page));
                done[kind] += 1;
            }
        }
        // ... but never a CSB page before the next word line's LSB page (rule 4).
        assert!(!cell.may_program(&[1, 0, 0, 0], 1));
        assert!(cell.may_program(&[2, 0, 0, 0], 1));
    }
}
