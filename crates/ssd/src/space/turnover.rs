//! The turnover of blocks: taken up again, closed, given up, avoided, erased.

use nandle_nand::Block;

use super::{GroupId, Space};
use crate::media::Media;

impl Space {
    /// Whether `block`, which has no programs under way, is to be closed.
    #[inline]
    pub(crate) fn may_close(&self, block: Block, full: bool, media: &Media) -> bool {
        let Some(dedicated) = &self.dedicated else { return full };
        let Some(number) = self.blocks.group(block) else { return full };
        let plane = media.geometry().plane_of(block);
        let survivors = dedicated.survivor_block(number, plane, media.array()) == Some(block);
        !dedicated.group(number).is_open() && (full || !survivors)
    }

    /// The best partially written victim of `plane`, with its dead pages.
    pub(crate) fn partial_victim(&self, plane: u32, convert: bool, media: &Media) -> Option<(u32, Block)> {
        self.frontiers.partial_victim(plane, convert, media, &self.blocks)
    }
    /// No further page of the partially written `block` is written: it is closed.
    pub(crate) fn give_up(&mut self, plane: u32, block: Block, media: &Media) {
        self.frontiers.give_up(plane, block, media.array(), &mut self.blocks);
        self.blocks.close(block, media.now());
    }
    /// No further page of `block`, in which a program failed, is taken.
    pub(crate) fn avoid(&mut self, block: Block, media: &Media) {
        let plane = media.geometry().plane_of(block);
        self.frontiers.avoid(plane, block, media.array(), &mut self.blocks);
        if let (Some(number), Some(dedicated)) = (self.blocks.group(block), &mut self.dedicated) {
            dedicated.avoid(number, block);
        }
    }
    /// At power-on: `block` was being written for `group`. False if that place is taken.
    pub(crate) fn resume(&mut self, group: GroupId, block: Block, media: &Media) -> bool {
        let plane = media.geometry().plane_of(block);
        self.frontiers.resume(plane, group, block, media.array(), &mut self.blocks)
    }
    /// A block was erased and is free again, or (with `failed`) bad.
    pub(crate) fn erased(&mut self, block: Block, failed: bool, media: &Media) {
        if let (Some(number), Some(dedicated)) = (self.blocks.group(block), &mut self.dedicated) {
            dedicated.released(number, block);
        }
        if failed {
            self.blocks.retire(block);
        } else {
            self.blocks.put_free(block, media.array().erases(block));
        }
    }
}
