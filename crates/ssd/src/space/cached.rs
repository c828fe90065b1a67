//! Room in the SLC cache, and what is folded next.

use nandle_nand::Block;

use super::{GroupId, PageClass, Space};
use crate::media::Media;

impl Space {
    /// Whether there is an SLC cache.
    #[inline]
    pub fn has_cache(&self) -> bool {
        self.cache.is_some()
    }
    /// Pages that the SLC cache takes in `plane` now.
    #[inline]
    pub(super) fn cache_room(&self, plane: u32, media: &Media) -> u32 {
        let Some(cache) = &self.cache else { return 0 };
        let (own, free) = (self.blocks.free_of_cache(plane), self.blocks.free(plane));
        // One more block in SLC mode may not be what begins a collection.
        let more = free > self.limits.soft && cache.may_grow(self.blocks.cached(plane), free);
        self.frontiers.left::<false>(plane, GroupId::Cache, media.array())
            + cache.pages * (own + u32::from(own == 0 && more))
    }
    /// Where in `plane` the next page of the host's data goes: to the SLC cache if that takes it.
    #[inline]
    pub(crate) fn cache_before(&self, plane: u32, group: GroupId, media: &Media) -> GroupId {
        let takes = self.cache.is_some()
            && group == GroupId::Host(0)
            && !self.is_filling(plane, group, media)
            && self.cache_room(plane, media) > 0;
        if takes { GroupId::Cache } else { group }
    }
    /// The block of `plane` that is to be folded now. What is valid of it finds room above the watermark of collection.
    pub(crate) fn fold_victim(&self, plane: u32, media: &Media) -> Option<Block> {
        let cache = self.cache.as_ref()?;
        if !cache.folds(self.cache_room(plane, media) == 0) {
            return None;
        }
        let block = self.blocks.oldest_cached(plane)?;
        let room = self.room(plane, GroupId::Survivors, PageClass::SYSTEM, media);
        (self.blocks.valid(block) <= room).then_some(block)
    }
    /// Whether blocks could be folded if the host were known to be idle.
    pub(crate) fn could_fold(&self) -> bool {
        self.cache.as_ref().is_some_and(|cache| {
            let any = || (0..self.planes).any(|plane| self.blocks.oldest_cached(plane).is_some());
            cache.uses_idleness() && !cache.idle && any()
        })
    }
    /// The host has asked for nothing for a while, or asks again.
    pub(crate) fn set_idle(&mut self, idle: bool) {
        let Some(cache) = &mut self.cache else { return };
        cache.idle = idle;
        if idle {
            self.look.extend(0..self.planes);
        }
    }
    /// As [`Space::room`], for the host's data: the SLC cache or the normal blocks, whichever has more.
    #[inline]
    pub(super) fn host_room(&self, plane: u32, group: GroupId, class: PageClass, media: &Media) -> u32 {
        let room = self.room(plane, group, class, media);
        if group == GroupId::Host(0) { room.max(self.cache_room(plane, media)) } else { room }
    }
    /// At power-on: `block` was written for `group`, or for nobody any more. Whether it may be written on; a block of the
    /// SLC cache's own that does not say that it is one may not.
    pub(crate) fn found_cached(&mut self, group: GroupId, block: Block) -> bool {
        let cached = group == GroupId::Cache;
        if cached || self.blocks.is_of_cache(block) {
            self.blocks.enter_cache(block);
        }
        cached == self.blocks.is_cached(block)
    }
    /// Bytes that its own blocks and those now in SLC mode hold, where a page has `page_bytes`.
    pub fn cache_bytes(&self, page_bytes: u32) -> u64 {
        let Some(cache) = &self.cache else { return 0 };
        let blocks: u32 =
            (0..self.planes).map(|plane| self.blocks.own_of_cache() + self.blocks.cached(plane)).sum();
        u64::from(blocks) * u64::from(cache.pages) * u64::from(page_bytes)
    }
}
