//! Dedicated groups: blocks that only the writes of one group go to, and that are collected by
//! themselves.
//!
//! Which writes those are, claims say ([`super::claims`]). A group's pages go to its open blocks in
//! turn, at most one a plane, in order of arrival. It has one claim as a rule; a group that is kept open
//! for a stream takes several, and then they end one by one. When no claim is left and none will come the
//! group is closed: nothing of the host's is written to it any more, and its blocks stay dedicated until
//! they are erased.

use std::collections::{BTreeMap, VecDeque};

use nandle_nand::{Array, Block, Geometry, Ppn};
use smallvec::SmallVec;

use super::claims::{Claim, Claims};
use super::group::{GroupId, MOST_DEDICATED};
use super::striping::order::Order;

/// What is asked of dedicated groups.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DedicatedPlan {
    /// They take their blocks when these are first written.
    pub on_demand: bool,
    /// Claims may come without an announcement.
    pub unannounced: bool,
}

/// Blocks of one group.
#[derive(Clone, Debug, Default)]
pub struct Group {
    /// Every block that was written for it and is not erased.
    blocks: Vec<Block>,
    /// Open blocks that take the next pages, in turn.
    open: VecDeque<Block>,
    /// Blocks without a page, for when the open ones are full.
    clean: VecDeque<Block>,
    /// Blocks that it may still take, when they are first written.
    owed: u32,
    /// Its claims.
    claims: u32,
    /// Nobody promised that its pages die together: once closed it is collected like normal blocks.
    guessed: bool,
    /// It is kept open for further claims of this stream.
    stream: Option<u16>,
    /// Pages left in open and clean blocks that no claim has.
    unclaimed: u64,
    /// Where collection puts survivors, one open block a plane.
    survivors: SmallVec<[Block; 1]>,
}

impl Group {
    /// Every block that was written for it, or waits to be, and is not erased.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }
    /// Its claims.
    pub fn claims(&self) -> u32 {
        self.claims
    }
    pub(crate) fn is_guessed(&self) -> bool {
        self.guessed
    }
    /// Whether claims still write to it, so that its blocks stay open.
    pub(crate) fn is_open(&self) -> bool {
        self.claims > 0 || self.stream.is_some()
    }
}

/// What is given to a new group.
#[derive(Clone, Debug, Default)]
pub struct NewGroup {
    /// Clean blocks.
    pub blocks: Vec<Block>,
    /// Blocks that it takes when they are first written.
    pub owed: u32,
    /// Keeps it open for further claims of this stream.
    pub stream: Option<u16>,
}

/// The dedicated groups of a drive and their claims.
#[derive(Clone, Debug)]
pub struct Dedicated {
    groups: Vec<Group>,
    free: Vec<u16>,
    /// Groups that are kept open, by stream.
    by_stream: BTreeMap<u16, u16>,
    claims: Claims,
    /// Claims whose last page has just been written.
    exhausted: Vec<u32>,
    plan: DedicatedPlan,
    /// Whose turn it is among planes.
    turn: usize,
    /// Planes, channel by channel.
    planes: Vec<u32>,
    pages_per_block: u64,
    /// Groups have been here: pages may lie off their home planes.
    off_home: bool,
    /// Pages that claims may keep from other data, at worst.
    cost: u64,
}

impl Dedicated {
    pub(super) fn new(geometry: &Geometry, logical_pages: u32, plan: DedicatedPlan) -> Self {
        let order = Order::by_channel(geometry);
        Self {
            groups: Vec::new(),
            free: Vec::new(),
            by_stream: BTreeMap::new(),
            claims: Claims::new(logical_pages, geometry.sectors_per_page()),
            exhausted: Vec::new(),
            plan,
            turn: 0,
            planes: (0..geometry.planes()).map(|n| order.plane(n)).collect(),
            pages_per_block: u64::from(geometry.pages_per_block),
            off_home: false,
            cost: 0,
        }
    }

    /// The claims.
    #[inline]
    pub fn claims(&self) -> &Claims {
        &self.claims
    }
    pub(crate) fn claims_mut(&mut self) -> &mut Claims {
        &mut self.claims
    }
    /// A group.
    pub fn group(&self, number: u16) -> &Group {
        &self.groups[usize::from(number)]
    }
    /// Pages that claims may keep from other data, at worst.
    pub fn cost(&self) -> u64 {
        self.cost
    }
    pub(crate) fn set_cost(&mut self, pages: u64) {
        self.cost = pages;
    }
    /// Whether pages may lie off their home planes.
    #[inline]
    pub fn off_home(&self) -> bool {
        self.off_home
    }
    pub(crate) fn set_off_home(&mut self) {
        self.off_home = true;
    }
    /// Whether blocks may be claimed before they are written.
    pub(super) fn may_claim(&self) -> bool {
        self.off_home || self.plan.unannounced
    }
    pub(crate) fn takes_on_demand(&self) -> bool {
        self.plan.on_demand
    }

    /// The group that writes of `lpn` go to.
    #[inline]
    pub(super) fn group_of(&self, lpn: u32) -> GroupId {
        if self.claims.is_flagged(lpn) { self.claimed(lpn) } else { GroupId::Host(0) }
    }

    fn claimed(&self, lpn: u32) -> GroupId {
        let Some(slot) = self.claims.find(lpn) else { return GroupId::Host(0) };
        let claim = self.claims.get(slot);
        if claim.left > 0 { GroupId::Dedicated(claim.group) } else { GroupId::Host(0) }
    }

    /// Claims whose last page has been written since this was last asked.
    pub(crate) fn take_exhausted(&mut self) -> Vec<u32> {
        std::mem::take(&mut self.exhausted)
    }

    // ---- the life of a group ----------------------------------------------------------------------

    /// Whether another group can be made.
    pub(crate) fn has_number(&self) -> bool {
        !self.free.is_empty() || self.groups.len() < MOST_DEDICATED
    }

    /// A group of blocks that are clean; none if all numbers are taken.
    pub(super) fn create(&mut self, new: NewGroup) -> Option<u16> {
        let number = match self.free.pop() {
            Some(number) => number,
            None if self.groups.len() < MOST_DEDICATED => {
                self.groups.push(Group::default());
                (self.groups.len() - 1) as u16
            }
            None => return None,
        };
        let NewGroup { blocks, owed, stream } = new;
        let unclaimed = (blocks.len() as u64 + u64::from(owed)) * self.pages_per_block;
        self.groups[usize::from(number)] = Group {
            clean: blocks.iter().copied().collect(),
            blocks,
            owed,
            stream,
            unclaimed,
            ..Group::default()
        };
        if let Some(stream) = stream {
            self.by_stream.insert(stream, number);
        }
        Some(number)
    }

    /// The group that is kept open for a stream, if it has `pages` left.
    pub(crate) fn open_for(&self, stream: u16, pages: u64) -> Option<u16> {
        let &number = self.by_stream.get(&stream)?;
        (self.groups[usize::from(number)].unclaimed >= pages).then_some(number)
    }

    /// No more claims of a stream for its group; the group, if nothing keeps it open then.
    pub(crate) fn seal(&mut self, stream: u16) -> Option<u16> {
        let number = self.by_stream.remove(&stream)?;
        let group = &mut self.groups[usize::from(number)];
        group.stream = None;
        (group.claims == 0).then_some(number)
    }

    /// Enters a claim, whose ranges nobody has; `guessed`: nobody promised that its pages die together.
    pub(crate) fn claim(&mut self, claim: Claim, guessed: bool) -> u32 {
        let group = &mut self.groups[usize::from(claim.group)];
        group.claims += 1;
        group.guessed = guessed && group.stream.is_none();
        group.unclaimed = group.unclaimed.saturating_sub(claim.left);
        self.claims.enter(claim)
    }

    /// Ends a claim; its group, if that is to be closed with it.
    pub(crate) fn end(&mut self, slot: u32) -> Option<u16> {
        let number = self.claims.get(slot).group;
        self.claims.remove(slot);
        self.exhausted.retain(|&other| other != slot);
        let group = &mut self.groups[usize::from(number)];
        group.claims -= 1;
        (group.claims == 0 && group.stream.is_none()).then_some(number)
    }

    /// Open blocks with room of groups that are being written. A claim that has taken as many pages as its
    /// ranges have is complete, as a rule: the rest of its last block will not be written.
    pub(super) fn unfinished_blocks(&self) -> impl Iterator<Item = Block> + '_ {
        let mut writing = vec![false; self.groups.len()];
        for (_, claim) in self.claims.live() {
            let named: u64 = claim.ranges.iter().map(|(first, end)| end - first).sum();
            let pages = named.div_ceil(self.claims.sectors_per_page());
            let written = claim.left + pages <= u64::from(claim.blocks) * self.pages_per_block;
            writing[usize::from(claim.group)] |= !written;
        }
        let groups = self.groups.iter().zip(writing).filter_map(|(group, writing)| writing.then_some(group));
        groups.flat_map(|group| group.open.iter().chain(&group.clean).copied())
    }

    // ---- pages ------------------------------------------------------------------------------------

    /// Whether the claim of `lpn`, if it is in group `number`, takes `pages` more.
    pub(super) fn takes(
        &self,
        lpn: u32,
        number: u16,
        pages: u32,
        block_is_free: bool,
        array: &Array,
    ) -> bool {
        let claim = self.claims.find(lpn).map(|slot| self.claims.get(slot));
        let pages = u64::from(pages);
        claim.is_some_and(|claim| claim.group == number && claim.left >= pages)
            && self.has_pages(number, pages, block_is_free, array)
    }

    /// Whether `pages` pages can be had from a group, if it may take a block when `block_is_free`.
    fn has_pages(&self, number: u16, pages: u64, block_is_free: bool, array: &Array) -> bool {
        let group = &self.groups[usize::from(number)];
        let left = |&block| self.pages_per_block - u64::from(array.pages_programmed(block));
        let blocks = group.clean.len() as u64 + u64::from(group.owed > 0 && block_is_free);
        // As a rule one page is asked for, and an open block has one.
        group.open.len() as u64 >= pages
            || group.open.iter().map(left).sum::<u64>() + blocks * self.pages_per_block >= pages
    }

    /// Whether the next page of a group takes a block that it does not have yet.
    pub(super) fn wants_block(&self, number: u16, array: &Array) -> bool {
        let group = &self.groups[usize::from(number)];
        // A block that was just taken is used first.
        let fresh = group.open.front().is_some_and(|&block| array.pages_programmed(block) == 0);
        group.owed > 0 && group.clean.is_empty() && group.open.len() < self.planes.len() && !fresh
    }

    /// A group gets a block that it was owed.
    pub(super) fn add_owed(&mut self, number: u16, block: Block) {
        let group = &mut self.groups[usize::from(number)];
        group.owed -= 1;
        group.blocks.push(block);
        group.open.push_front(block);
        self.turn = (self.turn + 1) % self.planes.len();
    }

    /// The block of the next page of a group.
    pub(super) fn next_block(&mut self, number: u16) -> Option<Block> {
        let group = &mut self.groups[usize::from(number)];
        if group.open.is_empty() {
            let count = self.planes.len().min(group.clean.len());
            group.open.extend(group.clean.drain(..count));
        }
        group.open.front().copied()
    }

    /// Takes the next page of the claim that `lpn` belongs to, if that is in group `number`.
    pub(super) fn take(&mut self, lpn: u32, number: u16, array: &Array) -> Option<Ppn> {
        let slot = self.claims.find(lpn)?;
        let claim = self.claims.get(slot);
        if claim.group != number || claim.left == 0 {
            return None;
        }
        let block = self.next_block(number)?;
        let ppn = array.next_strict(block)?;
        let group = &mut self.groups[usize::from(number)];
        group.open.pop_front();
        if !(array.pages_programmed(block) + 1).is_multiple_of(array.slots()) {
            // Units that follow go to the same page.
            group.open.push_front(block);
        } else if u64::from(array.pages_programmed(block)) + 1 < self.pages_per_block {
            group.open.push_back(block);
        }
        let claim = self.claims.get_mut(slot);
        claim.left -= 1;
        if claim.left == 0 {
            // Writes that follow are another claim's, or nobody's.
            self.claims.give_up(slot);
            self.exhausted.push(slot);
        }
        Some(ppn)
    }

    /// Blocks of a closed group that were never written: it has them no longer.
    pub(super) fn strip(&mut self, number: u16, array: &Array) -> Vec<Block> {
        let group = &mut self.groups[usize::from(number)];
        group.owed = 0;
        group.open.clear();
        group.clean.clear();
        let (unwritten, written) = std::mem::take(&mut group.blocks)
            .into_iter()
            .partition(|&block| array.pages_programmed(block) == 0);
        group.blocks = written;
        self.free_if_empty(number);
        unwritten
    }

    /// No further page of `block` is taken.
    pub(super) fn avoid(&mut self, number: u16, block: Block) {
        let group = &mut self.groups[usize::from(number)];
        group.open.retain(|&b| b != block);
        group.survivors.retain(|b| *b != block);
    }

    /// A block of a group was erased.
    pub(super) fn released(&mut self, number: u16, block: Block) {
        let group = &mut self.groups[usize::from(number)];
        group.blocks.retain(|&b| b != block);
        group.survivors.retain(|b| *b != block);
        self.free_if_empty(number);
    }

    fn free_if_empty(&mut self, number: u16) {
        let group = &self.groups[usize::from(number)];
        if group.blocks.is_empty() && !group.is_open() {
            self.free.push(number);
        }
    }

    /// Planes in the order of their turn.
    pub(super) fn planes_in_turn(&self) -> impl Iterator<Item = u32> + '_ {
        (0..self.planes.len()).map(|n| self.planes[(self.turn + n) % self.planes.len()])
    }
    pub(super) fn turn(&self) -> usize {
        self.turn
    }
    pub(super) fn set_turn(&mut self, turn: usize) {
        self.turn = turn % self.planes.len();
    }

    // ---- survivors --------------------------------------------------------------------------------

    /// The open block for survivors of a group in a plane.
    pub(super) fn survivor_block(&self, number: u16, plane: u32, array: &Array) -> Option<Block> {
        let group = &self.groups[usize::from(number)];
        group.survivors.iter().copied().find(|&block| array.geometry().plane_of(block) == plane)
    }
    pub(super) fn open_survivors(&mut self, number: u16, block: Block) {
        let group = &mut self.groups[usize::from(number)];
        group.survivors.push(block);
        group.blocks.push(block);
    }
    pub(super) fn close_survivors(&mut self, number: u16, block: Block) {
        self.groups[usize::from(number)].survivors.retain(|b| *b != block);
    }
    /// All closed groups that have blocks.
    pub(super) fn closed(&self) -> impl Iterator<Item = (u16, &Group)> {
        (0..).zip(&self.groups).filter(|(_, group)| !group.is_open() && !group.blocks.is_empty())
    }

    // ---- power-on ---------------------------------------------------------------------------------

    fn reach(&mut self, number: u16) -> &mut Group {
        let wanted = usize::from(number) + 1;
        if self.groups.len() < wanted {
            self.groups.resize(wanted, Group::default());
        }
        &mut self.groups[wanted - 1]
    }

    /// `block` was written for a group.
    pub(super) fn found_block(&mut self, number: u16, block: Block) {
        self.reach(number).blocks.push(block);
    }

    /// All claims and blocks are known: groups know their claims, and numbers that nobody has are free.
    pub(crate) fn count_claims(&mut self) {
        let groups: Vec<u16> = self.claims.live().map(|(_, claim)| claim.group).collect();
        for number in groups {
            self.reach(number).claims += 1;
        }
        let unused = |n: &u16| {
            let group = &self.groups[usize::from(*n)];
            group.blocks.is_empty() && group.claims == 0
        };
        self.free = (0..self.groups.len() as u16).rev().filter(unused).collect();
    }

    /// Nobody promised that the pages of a claim die together; a group with others of its own may be promised.
    pub(crate) fn note_guess(&mut self, slot: u32) {
        let group = &mut self.groups[usize::from(self.claims.get(slot).group)];
        group.guessed = group.claims == 1;
    }

    /// A claim goes on with `left` pages in the blocks of its group that are not full and in those of
    /// `more`.
    pub(super) fn resume(&mut self, slot: u32, left: u64, more: NewGroup, array: &Array) {
        let claim = self.claims.get_mut(slot);
        claim.left = left;
        let group = &mut self.groups[usize::from(claim.group)];
        if group.open.is_empty() {
            let pages = self.pages_per_block;
            let open = |&&b: &&Block| u64::from(array.pages_programmed(b)) < pages && !array.is_doomed(b);
            let open = group.blocks.iter().filter(open);
            group.open = open.copied().collect();
        }
        group.blocks.extend(&more.blocks);
        group.clean.extend(more.blocks);
        group.owed += more.owed;
    }
}
