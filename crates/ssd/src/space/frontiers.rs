//! Write frontiers: which page of a plane a write of a group gets.

use nandle_nand::{Array, Block, Ppn};
use nandle_random::Stream;

use super::blocks::Blocks;
use super::group::{GroupId, PageClass};
use super::in_order::InOrder;
use super::page_types::{Note, PageTypes, Step};
use super::partial_blocks::PartialBlocks;
use crate::media::Media;

/// The open blocks of all planes.
#[derive(Clone, Debug)]
pub(super) enum Frontiers {
    /// One open block for each group, written in order.
    InOrder(InOrder),
    /// Partially written blocks by page type, and the rules by which types are chosen.
    Typed(Box<Typed>),
}

/// Page types are chosen.
#[derive(Clone, Debug)]
pub(super) struct Typed {
    partial: PartialBlocks,
    rules: PageTypes,
    draw: Stream,
    noted: [u64; Note::COUNT],
}

impl Typed {
    /// The page types that `group` may get for a page of `class`.
    #[inline]
    fn kinds(&self, group: GroupId, class: PageClass) -> std::ops::Range<usize> {
        if let GroupId::Host(_) = group { self.rules.allowed(class) } else { 0..self.partial.bits() }
    }

    fn take(
        &mut self,
        plane: u32,
        group: GroupId,
        class: PageClass,
        array: &Array,
        blocks: &mut Blocks,
    ) -> Option<Ppn> {
        let Self { partial, rules, draw, noted } = self;
        if group == GroupId::Cold {
            return partial.take_cold(plane, array, blocks);
        }
        for &step in rules.steps(class, group == GroupId::Survivors) {
            let (found, note) = match step {
                Step::Take(kind, note) => (partial.take(plane, group, kind, array, blocks), note),
                Step::Any(from, to) => {
                    (partial.take_any(plane, group, from..to, draw, array, blocks), Note::NONE)
                }
                Step::AnyBlock(from, to) => {
                    (partial.take_of_any_block(plane, group, from..to, draw, array, blocks), Note::NONE)
                }
                Step::Open(note) => (partial.open(plane, group, array, blocks), note),
            };
            if found.is_some() {
                noted[usize::from(note.0)] += 1;
                return found;
            }
        }
        None
    }
}

impl Frontiers {
    /// `reserve` = free blocks of each plane that host writes never take.
    pub fn new(rules: Option<&PageTypes>, array: &Array, streams: u32, reserve: u32, seed: u64) -> Self {
        match rules {
            None => Self::InOrder(InOrder::new(array.geometry().planes(), streams)),
            Some(rules) => Self::Typed(Box::new(Typed {
                partial: PartialBlocks::new(array, streams, reserve),
                draw: Stream::new(seed, rules.name()),
                rules: rules.clone(),
                noted: [0; Note::COUNT],
            })),
        }
    }

    /// From now on pages are chosen by other rules, if types are chosen at all.
    pub fn set_rules(&mut self, rules: PageTypes) {
        if let Self::Typed(typed) = self {
            typed.rules = rules;
        }
    }

    /// The next page for `group` in `plane`, opening a block if needed; none if that takes a block
    /// and none is free, or if no page of a type that it may have is left.
    #[inline(always)]
    pub fn take<const PLAIN: bool>(
        &mut self,
        plane: u32,
        group: GroupId,
        class: PageClass,
        array: &Array,
        blocks: &mut Blocks,
    ) -> Option<Ppn> {
        match self {
            Self::InOrder(open) => open.take::<PLAIN>(plane, group, array, blocks),
            Self::Typed(typed) => typed.take(plane, group, class, array, blocks),
        }
    }

    /// The page that [`Frontiers::take`] would give, where that is known before a block is opened.
    pub fn peek(&self, plane: u32, group: GroupId, array: &Array) -> Option<Ppn> {
        match self {
            Self::InOrder(open) => open.peek(plane, group, array),
            Self::Typed(_) => None,
        }
    }

    /// Whether the page that [`Frontiers::peek`] tells of is programmed with others that are there already.
    #[inline]
    pub fn is_filling(&self, plane: u32, group: GroupId, array: &Array) -> bool {
        match self {
            Self::InOrder(open) => open.is_filling(plane, group, array),
            Self::Typed(_) => false,
        }
    }

    /// Pages of `class` that `group` can write in `plane` now, where page types are chosen.
    #[inline]
    pub fn typed_room(&self, plane: u32, group: GroupId, class: PageClass, blocks: &Blocks) -> Option<u32> {
        match self {
            Self::InOrder(_) => None,
            Self::Typed(typed) => Some(typed.partial.room(plane, group, typed.kinds(group, class), blocks)),
        }
    }

    /// Pages that `group` can write in `plane` into the block that is open for it; none where
    /// collection shares all open blocks anyway.
    #[inline(always)]
    pub fn left<const PLAIN: bool>(&self, plane: u32, group: GroupId, array: &Array) -> u32 {
        match self {
            Self::InOrder(open) => open.left::<PLAIN>(plane, group, array),
            Self::Typed(_) => 0,
        }
    }

    /// Blocks' worth of pages that collection can write in `plane`: what the watermarks are compared
    /// with.
    #[inline(always)]
    pub fn spare(&self, plane: u32, blocks: &Blocks) -> u32 {
        match self {
            Self::InOrder(_) => blocks.free(plane),
            Self::Typed(typed) => typed.partial.spare(plane, blocks),
        }
    }

    /// Whether the pages that the most particular host writes can take run out: fewer are left in
    /// `plane` than `soft` blocks have.
    #[inline]
    pub fn runs_short(&self, plane: u32, soft: u32, blocks: &Blocks) -> bool {
        match self {
            Self::InOrder(_) => false,
            Self::Typed(typed) => {
                let narrowest = typed.rules.narrowest();
                narrowest.is_some_and(|kinds| typed.partial.short_of(plane, kinds, soft, blocks))
            }
        }
    }

    /// Whether host writes may lack a page of their type while others are left.
    #[inline]
    pub fn chooses_types(&self) -> bool {
        matches!(self, Self::Typed(_))
    }

    /// Pages that were found by steps with this note.
    pub fn noted(&self, note: Note) -> u64 {
        match self {
            Self::InOrder(_) => 0,
            Self::Typed(typed) => typed.noted[usize::from(note.0)],
        }
    }
    pub fn set_notes(&mut self, notes: [u64; Note::COUNT]) {
        if let Self::Typed(typed) = self {
            typed.noted = notes;
        }
    }

    /// The best partially written victim of `plane`, with its dead pages: see [`PartialBlocks::victim`].
    pub fn partial_victim(
        &self,
        plane: u32,
        convert: bool,
        media: &Media,
        blocks: &Blocks,
    ) -> Option<(u32, Block)> {
        match self {
            Self::InOrder(_) => None,
            Self::Typed(typed) => typed.partial.victim(plane, convert, media, blocks),
        }
    }

    /// No further page of the partially written `block` is written.
    pub fn give_up(&mut self, plane: u32, block: Block, array: &Array, blocks: &mut Blocks) {
        if let Self::Typed(typed) = self {
            typed.partial.give_up(plane, block, array, blocks);
        }
    }

    /// No further page of `block`, in which a program failed, is taken.
    pub fn avoid(&mut self, plane: u32, block: Block, array: &Array, blocks: &mut Blocks) {
        match self {
            Self::InOrder(open) => open.avoid(block),
            Self::Typed(typed) => {
                if typed.partial.is_queued(block) {
                    typed.partial.give_up(plane, block, array, blocks);
                }
            }
        }
    }

    /// At power-on: `block` was being written for `group`. False if that place is taken.
    pub fn resume(
        &mut self,
        plane: u32,
        group: GroupId,
        block: Block,
        array: &Array,
        blocks: &mut Blocks,
    ) -> bool {
        match self {
            Self::InOrder(open) => open.resume(plane, group, block),
            Self::Typed(typed) => typed.partial.resume(plane, group, block, array, blocks),
        }
    }

    /// Checks queues and counts against the array; for tests. `apart`: open blocks that are nobody's.
    pub fn check(&self, array: &Array, blocks: &Blocks, apart: &[Block]) {
        if let Self::Typed(typed) = self {
            typed.partial.check(array, blocks, apart);
        }
    }
}
