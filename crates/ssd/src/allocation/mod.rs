//! Which page of a plane a write goes to (BLAlloc): page type and open block.

use nandle_nand::{Array, Block, Nand, Ppn};

use crate::advisor::PageTypes;
use crate::blocks::Blocks;

pub mod begun;
pub mod lsb_first;
pub mod papa;
pub mod preferred;
pub mod size_based;
pub mod strict;

crate::catalog! {
    /// Which page type a write gets.
    pub enum AllocationKind {
        /// One open block a plane, in shadow order: page types come out even (the baseline).
        Strict = "strict",
        /// All LSB pages of free blocks first, then the other types with equal probability.
        LsbFirst = "lsb-first",
        /// LSB pages for requests within one logical page, CSB and MSB pages for larger ones.
        SizeBased = "size-based",
        /// LSB pages for partial writes, CSB and MSB pages for full ones (PAPA).
        Papa = "papa",
    }
}

impl AllocationKind {
    /// Whether it chooses page types, which takes a relaxed program order and more than one type.
    pub fn chooses_types(self) -> bool {
        self != Self::Strict
    }
}

/// What page-type policies had to resort to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct AllocationStats {
    /// Collections begun only because a host write found no page of its type.
    pub emergency_gcs: u64,
    /// Collections begun only because pages of the type that some host writes need were running out.
    pub proactive_gcs: u64,
    /// Victims that were not full: their unwritten pages went unused.
    pub unfinished_victims: u64,
    /// Partial host writes that took a CSB page (QLC: MSB) because no LSB page was left.
    pub backup_csb: u64,
    /// Full host and system writes that took an MSB page (QLC: TSB) because no CSB page was left.
    pub backup_msb: u64,
    /// Full host and system writes that took an LSB page because no block had anything else.
    pub full_on_fast: u64,
    /// Survivors of collection, partial when written, that took a page of the slowest type.
    pub slow_survivors: u64,
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

    /// What the out-of-band area says of a page's role and class.
    pub(crate) fn label(self, role: Role) -> u16 {
        role.number() | if self.full { 0 } else { PARTIAL }
    }
    /// The class of a page that survives garbage collection.
    pub(crate) fn of_label(label: u16) -> Self {
        Self { full: label & PARTIAL == 0, alone: false }
    }
}

/// Bit of the out-of-band label: the write covered only part of its page.
const PARTIAL: u16 = 1 << 15;

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
        match number & !PARTIAL {
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
    /// See [`lsb_first`].
    LsbFirst(lsb_first::LsbFirst),
    /// See [`size_based`].
    SizeBased(size_based::SizeBased),
    /// See [`papa`].
    Papa(papa::Papa),
    /// See [`preferred`].
    Preferred(preferred::Preferred),
}

impl Allocation {
    /// `reserve` = free blocks of each plane that host writes never take.
    pub(crate) fn new(
        kind: AllocationKind,
        array: &Array,
        host_streams: u32,
        reserve: u32,
        seed: u64,
    ) -> Self {
        let begun = || begun::Begun::new(array, host_streams, reserve);
        match kind {
            AllocationKind::Strict => {
                Self::Strict(strict::Strict::new(array.geometry().planes(), host_streams, reserve))
            }
            AllocationKind::LsbFirst => Self::LsbFirst(lsb_first::LsbFirst::new(begun(), seed)),
            AllocationKind::SizeBased => Self::SizeBased(size_based::SizeBased::new(begun(), seed)),
            AllocationKind::Papa => Self::Papa(papa::Papa::new(begun())),
        }
    }
    /// From now on page types are taken in the order of preference that `says` gives for each class, if
    /// the policy chooses types at all and none was given before.
    pub(crate) fn prefer(&mut self, says: impl Fn(PageClass, usize) -> PageTypes) {
        if matches!(self, Self::Preferred(_)) {
            return;
        }
        let Some(begun) = self.begun() else { return };
        if let Some(order) = preferred::orders(begun.bits(), says) {
            *self = Self::Preferred(preferred::Preferred::new(begun.clone(), order));
        }
    }
    #[inline]
    fn begun(&self) -> Option<&begun::Begun> {
        match self {
            Self::Strict(_) => None,
            Self::LsbFirst(p) => Some(&p.begun),
            Self::SizeBased(p) => Some(&p.begun),
            Self::Papa(p) => Some(&p.begun),
            Self::Preferred(p) => Some(&p.begun),
        }
    }
    fn begun_mut(&mut self) -> Option<&mut begun::Begun> {
        match self {
            Self::Strict(_) => None,
            Self::LsbFirst(p) => Some(&mut p.begun),
            Self::SizeBased(p) => Some(&mut p.begun),
            Self::Papa(p) => Some(&mut p.begun),
            Self::Preferred(p) => Some(&mut p.begun),
        }
    }
    /// The next page for `role` in `plane`, opening a block if needed; none if that takes a block
    /// and none is free, or if no page of the type it needs is left.
    #[inline]
    pub(crate) fn take(
        &mut self,
        plane: u32,
        role: Role,
        class: PageClass,
        array: &Array,
        blocks: &mut Blocks,
        stats: &mut AllocationStats,
    ) -> Option<Ppn> {
        if let Self::Strict(strict) = self {
            return strict.take(plane, role, array, blocks);
        }
        self.take_by_type(plane, role, class, array, blocks, stats)
    }
    fn take_by_type(
        &mut self,
        plane: u32,
        role: Role,
        class: PageClass,
        array: &Array,
        blocks: &mut Blocks,
        stats: &mut AllocationStats,
    ) -> Option<Ppn> {
        match self {
            Self::Strict(strict) => strict.take(plane, role, array, blocks),
            Self::LsbFirst(lsb_first) => lsb_first.take(plane, role, array, blocks),
            Self::SizeBased(size_based) => size_based.take(plane, role, class, array, blocks),
            Self::Papa(papa) => papa.take(plane, role, class, array, blocks, stats),
            Self::Preferred(p) => p.take(plane, role, class, array, blocks),
        }
    }
    /// The page that [`Allocation::take`] would give, where the policy can tell before it opens a block.
    pub(crate) fn peek(&self, plane: u32, role: Role, _class: PageClass, array: &Array) -> Option<Ppn> {
        match self {
            Self::Strict(strict) => strict.peek(plane, role, array),
            Self::LsbFirst(_) | Self::SizeBased(_) | Self::Papa(_) | Self::Preferred(_) => None,
        }
    }
    /// Pages of `class` that `role` can write in `plane` now.
    #[inline]
    pub(crate) fn room(
        &self,
        plane: u32,
        role: Role,
        class: PageClass,
        array: &Array,
        blocks: &Blocks,
    ) -> u32 {
        match self {
            Self::Strict(strict) => strict.room(plane, role, array, blocks),
            Self::LsbFirst(p) => p.begun.room(plane, role, 0..p.begun.bits(), blocks),
            Self::Preferred(p) => p.begun.room(plane, role, 0..p.begun.bits(), blocks),
            Self::SizeBased(p) => p.begun.room(plane, role, p.kinds(role, class), blocks),
            Self::Papa(p) => p.begun.room(plane, role, p.kinds(role, class), blocks),
        }
    }
    /// Pages that `role` can write in `plane` into blocks that are open already, for the last resort
    /// of collection; none where collection shares all open blocks anyway.
    #[inline]
    pub(crate) fn left(&self, plane: u32, role: Role, array: &Array) -> u32 {
        match self {
            Self::Strict(strict) => strict.left(plane, role, array),
            Self::LsbFirst(_) | Self::SizeBased(_) | Self::Papa(_) | Self::Preferred(_) => 0,
        }
    }
    /// Blocks' worth of pages that collection can write in `plane`: what the watermarks are compared
    /// with.
    #[inline(always)]
    pub(crate) fn spare(&self, plane: u32, blocks: &Blocks) -> u32 {
        if let Self::Strict(_) = self {
            return blocks.free(plane);
        }
        self.begun().map_or_else(|| blocks.free(plane), |begun| begun.spare(plane, blocks))
    }
    /// Whether the pages that the most particular host writes can take run out: fewer are left in
    /// `plane` than `soft` blocks have.
    #[inline]
    pub(crate) fn runs_short(&self, plane: u32, soft: u32, blocks: &Blocks) -> bool {
        match self {
            Self::Strict(_) | Self::LsbFirst(_) | Self::Preferred(_) => false,
            Self::SizeBased(p) => p.begun.short_of(plane, size_based::SMALL, soft, blocks),
            Self::Papa(p) => p.begun.short_of(plane, p.partial(), soft, blocks),
        }
    }
    /// Whether host writes may lack a page of their type while others are left.
    #[inline]
    pub(crate) fn chooses_types(&self) -> bool {
        !matches!(self, Self::Strict(_))
    }
    /// The best half-written victim of `plane`, with its dead pages: see [`begun::Begun::victim`].
    pub(crate) fn unfinished_victim(
        &self,
        plane: u32,
        convert: bool,
        nand: &Nand,
        blocks: &Blocks,
    ) -> Option<(u32, Block)> {
        self.begun()?.victim(plane, convert, nand, blocks)
    }
    /// No further page of the half-written `block` is written.
    pub(crate) fn give_up(&mut self, plane: u32, block: Block, array: &Array, blocks: &mut Blocks) {
        if let Some(begun) = self.begun_mut() {
            begun.give_up(plane, block, array, blocks);
        }
    }
    /// No further page of `block`, in which a program failed, is taken.
    pub(crate) fn avoid(&mut self, plane: u32, block: Block, array: &Array, blocks: &mut Blocks) {
        match self {
            Self::Strict(strict) => strict.avoid(block),
            _ => {
                if let Some(begun) = self.begun_mut()
                    && begun.is_queued(block)
                {
                    begun.give_up(plane, block, array, blocks);
                }
            }
        }
    }
    /// At power-on: `block` was being written for `role`. False if that place is taken.
    pub(crate) fn resume(
        &mut self,
        plane: u32,
        role: Role,
        block: Block,
        array: &Array,
        blocks: &mut Blocks,
    ) -> bool {
        if let Self::Strict(strict) = self {
            return strict.resume(plane, role, block);
        }
        self.begun_mut().is_some_and(|begun| begun.resume(plane, role, block, array, blocks))
    }
    /// Checks queues and counts against the array; for tests.
    pub(crate) fn check(&self, array: &Array, blocks: &Blocks, apart: &[Block]) {
        if let Some(begun) = self.begun() {
            begun.check(array, blocks, apart);
        }
    }
}
