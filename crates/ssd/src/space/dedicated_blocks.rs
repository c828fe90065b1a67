//! Blocks and pages for dedicated groups, taken from those that are free.

use nandle_nand::{Block, Ppn};

use super::{GroupId, NewGroup, PageClass, Space, State};
use crate::media::Media;

impl Space {
    /// Clean blocks of `plane` that a dedicated group may have: like a normal write, all but those that
    /// collection works with.
    #[inline]
    pub(super) fn clean_blocks(&self, plane: u32) -> u32 {
        self.blocks.free(plane).saturating_sub(self.limits.hard)
    }
    /// The same of all planes.
    pub fn all_clean_blocks(&self) -> u32 {
        (0..self.planes).map(|plane| self.clean_blocks(plane)).sum()
    }

    /// Whether the claim that `lpn` belongs to takes `pages` more in its group.
    pub(super) fn dedicated_takes(&self, lpn: u32, number: u16, pages: u32, media: &Media) -> bool {
        let clean = self.any_clean_block().is_some();
        self.dedicated.as_ref().is_some_and(|d| d.takes(lpn, number, pages, clean, media.array()))
    }

    /// The plane that a group which takes blocks when they are first written would take one of.
    pub(super) fn any_clean_block(&self) -> Option<u32> {
        let dedicated = self.dedicated.as_ref().filter(|d| d.takes_on_demand())?;
        let planes = dedicated.planes_in_turn();
        planes.filter(|&plane| self.clean_blocks(plane) > 0).max_by_key(|&plane| self.clean_blocks(plane))
    }

    /// The plane of the next page of a group, which has one.
    pub(super) fn dedicated_plane(&mut self, number: u16, media: &Media) -> Option<u32> {
        if self.dedicated.as_ref()?.wants_block(number, media.array())
            && let Some(plane) = self.any_clean_block()
            && let Some(block) = self.blocks.take_free(plane, false)
        {
            self.blocks.dedicate(block, number);
            self.dedicated.as_mut()?.add_owed(number, block);
        }
        let block = self.dedicated.as_mut()?.next_block(number)?;
        Some(media.geometry().plane_of(block))
    }

    /// The next page of the claim that `lpn` belongs to, if that is in group `number`.
    pub(super) fn take_in_group(&mut self, lpn: u32, number: u16, media: &Media) -> Option<Ppn> {
        self.dedicated_plane(number, media)?;
        self.dedicated.as_mut()?.take(lpn, number, media.array())
    }

    /// Pages that survivors of a group find in `plane` without another block.
    pub(crate) fn survivor_room(&self, number: u16, plane: u32, media: &Media) -> u32 {
        let block = self.dedicated.as_ref().and_then(|d| d.survivor_block(number, plane, media.array()));
        block.map_or(0, |b| self.pages_per_block - media.array().pages_programmed(b))
    }

    /// The next page for survivors of a group in `plane`.
    pub(super) fn take_for_survivor(&mut self, number: u16, plane: u32, media: &Media) -> Option<Ppn> {
        let dedicated = self.dedicated.as_mut()?;
        let block = match dedicated.survivor_block(number, plane, media.array()) {
            Some(block) => block,
            None => {
                let block = self.blocks.take_free(plane, false)?;
                self.blocks.dedicate(block, number);
                dedicated.open_survivors(number, block);
                block
            }
        };
        let ppn = media.array().next_strict(block)?;
        if media.array().pages_programmed(block) + 1 == self.pages_per_block {
            dedicated.close_survivors(number, block);
        }
        Some(ppn)
    }

    /// Takes clean blocks, spread over the planes, a round over all of them at a time: first those that have
    /// the fewest blocks of dedicated groups to write and, of these, most clean ones. A plane that
    /// would have to collect garbage for it counts as if it had one more.
    pub(crate) fn take_clean_blocks(&mut self, count: u32, media: &Media) -> Vec<Block> {
        let mut out = Vec::with_capacity(count as usize);
        let Some(dedicated) = &self.dedicated else { return out };
        let mut writing = vec![0_u32; self.planes as usize];
        for block in dedicated.unfinished_blocks() {
            writing[media.geometry().plane_of(block) as usize] += 1;
        }
        while out.len() < count as usize {
            let Some(dedicated) = &self.dedicated else { break };
            let turn = dedicated.turn();
            let mut order: Vec<u32> = dedicated.planes_in_turn().collect();
            let load = |plane: u32| {
                let collects = self.blocks.free(plane) <= self.limits.soft;
                (writing[plane as usize] + u32::from(collects), std::cmp::Reverse(self.clean_blocks(plane)))
            };
            order.sort_by_key(|&plane| load(plane));
            for plane in order {
                if out.len() < count as usize && self.clean_blocks(plane) > 0 {
                    out.extend(self.blocks.take_free(plane, false));
                }
            }
            if let Some(dedicated) = &mut self.dedicated {
                dedicated.set_turn(turn + out.len());
            }
        }
        out
    }

    /// Makes a dedicated group; none if all numbers are taken.
    pub(crate) fn create_group(&mut self, new: NewGroup) -> Option<u16> {
        let blocks = new.blocks.clone();
        let number = self.dedicated.as_mut()?.create(new)?;
        blocks.into_iter().for_each(|block| self.blocks.dedicate(block, number));
        Some(number)
    }

    /// Nothing writes to a group any more: clean blocks are given back, the others closed as soon as
    /// their programs are done. They are not erased before the record of it is on flash.
    pub(crate) fn close_group(&mut self, number: u16, media: &Media) {
        let Some(dedicated) = &mut self.dedicated else { return };
        for block in dedicated.strip(number, media.array()) {
            self.blocks.give_back(block, media.array().erases(block));
            self.progress = true;
        }
        let group = dedicated.group(number);
        let guessed = group.is_guessed();
        for block in group.blocks().to_vec() {
            if guessed {
                self.blocks.mingle(block);
            }
            self.blocks.await_record(block);
            if self.blocks.state(block) == State::Open && !media.programs_pending(block) {
                self.blocks.close(block, media.now());
            }
        }
    }

    /// Two blocks or more of one closed group whose live pages fit fewer: the emptiest of them, with its
    /// live pages and its group.
    pub(crate) fn merge_victim(&self, plane: u32, media: &Media) -> Option<(u32, Block, u16)> {
        let dedicated = self.dedicated.as_ref()?;
        let ppb = self.pages_per_block;
        dedicated
            .closed()
            .filter(|(_, group)| group.blocks().len() > 1)
            .filter_map(|(number, group)| {
                let own = || {
                    group.blocks().iter().copied().filter(|&b| {
                        let closed = self.blocks.state(b) == State::Closed && self.blocks.is_apart(b);
                        closed && media.geometry().plane_of(b) == plane
                    })
                };
                let emptiest = own().min_by_key(|&b| (self.blocks.valid(b), b))?;
                let valid = self.blocks.valid(emptiest);
                let dead: u32 = own().map(|b| ppb - self.blocks.valid(b)).sum();
                let survivors = GroupId::DedicatedSurvivors(number);
                let fits = valid > 0 && valid <= self.survivor_room(number, plane, media)
                    || own().count() > 1
                        && dead >= ppb
                        && valid <= self.room(plane, survivors, PageClass::SYSTEM, media);
                fits.then_some((valid, emptiest, number))
            })
            .min()
    }

    /// At power-on: `block` was written for a dedicated group; it stays open until all blocks are known.
    pub(crate) fn found_block(&mut self, number: u16, block: Block) {
        if let Some(dedicated) = &mut self.dedicated {
            self.blocks.dedicate(block, number);
            dedicated.found_block(number, block);
        }
    }

    /// At power-on: a claim goes on with `left` pages, and its group gets clean blocks.
    pub(crate) fn resume_claim(&mut self, slot: u32, left: u64, more: NewGroup, media: &Media) {
        let Some(dedicated) = &mut self.dedicated else { return };
        let number = dedicated.claims().get(slot).group;
        for &block in &more.blocks {
            self.blocks.dedicate(block, number);
        }
        dedicated.resume(slot, left, more, media.array());
    }

    /// At power-on, when all claims have been resumed: open blocks of closed groups are closed.
    pub(crate) fn close_resumed(&mut self, media: &Media) {
        let open: Vec<Block> = self
            .blocks
            .each()
            .filter(|&(block, state)| state == State::Open && self.blocks.group(block).is_some())
            .map(|(block, _)| block)
            .collect();
        for block in open {
            let full = media.array().pages_programmed(block) == self.pages_per_block;
            if self.may_close(block, full, media) {
                self.blocks.close(block, 0);
            }
        }
    }
}
