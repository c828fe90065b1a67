//! Which page of a plane a write goes to (BLAlloc): page type and open block.

use nandle_nand::{Array, Block, Ppn};

use crate::blocks::Blocks;

pub mod strict;

crate::catalog! {
    /// Which page type a write gets.
    pub enum AllocationKind {
        /// One open block a plane, in shadow order: page types come out even (the baseline).
        Strict = "strict",
    }
}

/// What a page is written with, as page-type policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageClass {
    /// The write that caused it covers the whole page (an RMW of a few sectors does not).
    pub full: bool,
    /// The host request that caused it falls in one logical page.
    pub alone: bool,
}

impl PageClass {
    /// Pages that the drive writes for itself.
    pub const SYSTEM: Self = Self { full: true, alone: false };
}

/// For whom a page is written; each role keeps its own open block in each plane.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Garbage collection's survivors.
    Gc,
    /// Cold data moved to worn blocks by static wear levelling.
    Wear,
    /// Translation pages and the metadata log.
    System,
    /// Host data of one stream.
    Host(u16),
    /// Host data of an object, in its dedicated blocks: there is no choice of plane or page type.
    Object(u16),
    /// What collection keeps of an object, in blocks of the same object.
    Survivor(u16),
}

/// The number of the first object.
const OBJECTS: u16 = 0x1000;

impl Role {
    /// Its number, as written to the out-of-band area.
    pub fn number(self) -> u16 {
        match self {
            Self::Gc => 0,
            Self::Wear => 1,
            Self::System => 2,
            Self::Host(stream) => 3 + stream,
            Self::Object(home) | Self::Survivor(home) => OBJECTS + home,
        }
    }
    /// The role of a number.
    pub fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Gc,
            1 => Self::Wear,
            2 => Self::System,
            n if n < OBJECTS => Self::Host(n - 3),
            n => Self::Object(n - OBJECTS),
        }
    }
    /// Roles of a device with `host_streams` streams.
    pub fn count(host_streams: u32) -> u32 {
        3 + host_streams
    }
    /// Whether it may take the blocks that host writes leave.
    pub fn may_use_reserve(self) -> bool {
        matches!(self, Self::Gc | Self::Wear | Self::Survivor(_))
    }
}

/// The open blocks of all planes, under the chosen policy.
#[derive(Clone, Debug)]
pub enum Allocation {
    /// See [`strict`].
    Strict(strict::Strict),
}

impl Allocation {
    pub(crate) fn new(kind: AllocationKind, planes: u32, host_streams: u32) -> Self {
        match kind {
            AllocationKind::Strict => Self::Strict(strict::Strict::new(planes, host_streams)),
        }
    }
    /// The next page for `role` in `plane`, opening a block if needed; none if that takes a block
    /// and none is free.
    #[inline]
    pub(crate) fn take(
        &mut self,
        plane: u32,
        role: Role,
        _class: PageClass,
        array: &Array,
        blocks: &mut Blocks,
    ) -> Option<Ppn> {
        match self {
            Self::Strict(strict) => strict.take(plane, role, array, blocks),
        }
    }
    /// Pages of `class` that `role` can write in `plane` before it needs a fresh block.
    #[inline]
    pub(crate) fn left(&self, plane: u32, role: Role, _class: PageClass, array: &Array) -> u32 {
        match self {
            Self::Strict(strict) => strict.left(plane, role, array),
        }
    }
    /// At power-on: `block` was being written for `role`. False if that place is taken.
    pub(crate) fn resume(&mut self, plane: u32, role: Role, block: Block) -> bool {
        match self {
            Self::Strict(strict) => strict.resume(plane, role, block),
        }
    }
}
