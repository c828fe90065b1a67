//! Page types in an order of preference for each class of writes, which an advisor gave
//! ([`crate::Advisor::page_types`]).
//!
//! A write takes the first type of its order that a half-written block has next; where the fastest type
//! has its turn a fresh block will do. No type is ever refused, so no write waits for one. Garbage
//! collection's survivors open no fresh block while a page is left elsewhere, and cold data fills blocks
//! one by one, as under the other policies.

use nandle_nand::{Array, Ppn};

use super::{PageClass, Role, begun::Begun};
use crate::advisor::PageTypes;
use crate::blocks::Blocks;

/// All page types for each class, the best first.
type Orders = [PageTypes; 4];

/// The half-written blocks, and what is preferred.
#[derive(Clone, Debug)]
pub struct Preferred {
    pub(super) begun: Begun,
    orders: Orders,
}

/// Where a class has its order.
#[inline]
fn place(class: PageClass) -> usize {
    usize::from(class.full) << 1 | usize::from(class.alone)
}

/// The orders that `says` gives, each made whole; none if it has nothing to say.
pub(super) fn orders(bits: usize, says: impl Fn(PageClass, usize) -> PageTypes) -> Option<Orders> {
    let mut spoke = false;
    let mut orders = Orders::default();
    for (full, alone) in [(false, false), (false, true), (true, false), (true, true)] {
        let class = PageClass { full, alone };
        let said = says(class, bits);
        spoke |= !said.is_empty();
        let order = &mut orders[place(class)];
        for kind in said.into_iter().chain(0..bits) {
            if kind < bits && !order.contains(&kind) {
                order.push(kind);
            }
        }
    }
    spoke.then_some(orders)
}

impl Preferred {
    pub(super) fn new(begun: Begun, orders: Orders) -> Self {
        Self { begun, orders }
    }

    #[inline]
    pub(super) fn take(
        &mut self,
        plane: u32,
        role: Role,
        class: PageClass,
        array: &Array,
        blocks: &mut Blocks,
    ) -> Option<Ppn> {
        let Self { begun, orders } = self;
        if role == Role::Wear {
            return begun.take_cold(plane, array, blocks);
        }
        for &kind in &orders[place(class)] {
            if let Some(ppn) = begun.take(plane, role, kind, array, blocks) {
                return Some(ppn);
            }
            if kind == 0
                && role != Role::Gc
                && let Some(ppn) = begun.open(plane, role, array, blocks)
            {
                return Some(ppn);
            }
        }
        begun.open(plane, role, array, blocks)
    }
}
