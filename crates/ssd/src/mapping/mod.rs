//! How a write is placed, and when fragments are merged.

use nandle_nand::{OpId, Ppn};

use crate::allocation::Role;
use crate::flash::{Contents, Flash, Owner};

pub mod page;

crate::catalog! {
    /// How a write is placed.
    pub enum MappingKind {
        /// One physical page per logical page; partial updates read, modify and write (the baseline).
        Page = "page",
    }
}

/// One sub-request: some sectors of one logical page, on their way to flash.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// Logical page.
    pub lpn: u32,
    /// Its sectors.
    pub mask: u64,
    /// Their contents.
    pub contents: Contents<'a>,
    /// Whose it is.
    pub owner: Owner,
    /// The load of its mapping entry, if that is under way.
    pub load: Option<OpId>,
}

/// A mapping scheme with its state.
#[derive(Clone, Debug)]
pub enum Mapping {
    /// See [`page`].
    Page,
}

impl Mapping {
    pub(crate) fn new(kind: MappingKind) -> Self {
        match kind {
            MappingKind::Page => Self::Page,
        }
    }

    /// Places a write. The caller has made sure of room ([`Flash::has_room`]).
    #[inline]
    pub(crate) fn place(&mut self, flash: &mut Flash, write: &Write<'_>) {
        match self {
            Self::Page => page::place(flash, write),
        }
    }

    /// Moves a live page of a victim.
    #[inline]
    pub(crate) fn relocate(&mut self, flash: &mut Flash, ppn: Ppn, plane: u32, role: Role) {
        match self {
            Self::Page => flash.relocate(ppn, plane, role),
        };
    }
}
