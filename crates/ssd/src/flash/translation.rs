//! The mapping table in flash: translation pages loaded and written back.

use std::collections::BTreeMap;

use nandle_nand::{Cause, Note, OpId, PageUse};

use super::Flash;
use crate::map::FragmentList;
use crate::media::Waiter;
use crate::space::{GroupId, PageClass};

impl Flash {
    /// The host needs the entry of `lpn` in a table of one access: the load it has to wait for, if any.
    #[inline(always)]
    pub(crate) fn look_up(&mut self, lpn: u32) -> Option<OpId> {
        self.stats.dram_accesses += 1;
        self.map.cache()?;
        self.load_map_page(self.map.page_of(lpn), None, false)
    }

    /// Look-ups of the mapping table took `accesses` of DRAM.
    #[inline]
    pub fn count_accesses(&mut self, accesses: u32) {
        self.stats.dram_accesses += u64::from(accesses);
    }

    /// Brings the translation page of `lpn` into RAM, in the background.
    pub fn load_map_page_of(&mut self, lpn: u32) -> Option<OpId> {
        self.load_map_page(self.map.page_of(lpn), None, true)
    }

    /// Brings translation page `page` into RAM after `after`; what has to be waited for.
    ///
    /// # Panics
    /// If the page in flash is not what the map says.
    pub fn load_map_page(&mut self, page: u32, after: Option<OpId>, background: bool) -> Option<OpId> {
        let Some(cache) = self.map.cache_mut() else { return after };
        let cached = cache.is_cached(page);
        cache.touch(page, false);
        if cached {
            self.stats.cache_hits += 1;
            return after;
        }
        self.stats.cache_misses += 1;
        let op = self.map.location(page).filter(|&ppn| !self.media.is_open(ppn)).map(|ppn| {
            if let Some(note) = self.array().note(ppn) {
                let entries = self.map.entries(page, self.array());
                assert!(*note == *entries, "translation page {page} in flash is not what the map says");
            }
            let sectors = self.sectors_per_page();
            self.media.read::<false>(ppn, sectors, Cause::Map, background, after.as_slice(), Waiter::NOBODY)
        });
        if !background {
            self.shrink_map_cache();
        }
        op.or(after)
    }

    /// Updates of the mapping table took `accesses` of DRAM.
    #[inline]
    pub fn count_updates(&mut self, accesses: u32) {
        self.stats.dram_updates += u64::from(accesses);
    }

    /// The entry of `lpn` changed; its translation page is in RAM.
    #[inline]
    pub fn map_changed(&mut self, lpn: u32) {
        self.map_changed_of::<false>(lpn);
    }
    #[inline(always)]
    pub(super) fn map_changed_of<const PLAIN: bool>(&mut self, lpn: u32) {
        if !PLAIN && self.map.follows() {
            if self.map.tree().is_some() {
                return self.nodes_changed(lpn);
            }
            let page = self.map.page_of(lpn);
            if let Some(cache) = self.map.cache_mut() {
                cache.touch(page, true);
            }
        }
        self.stats.dram_updates += 1;
    }

    /// Garbage collection changed the entry of `lpn`.
    #[inline]
    pub fn map_moved(&mut self, lpn: u32) {
        if self.map.follows() {
            if self.map.tree().is_some() {
                return self.nodes_changed(lpn);
            }
            self.map_page_changed(self.map.page_of(lpn));
        }
        self.stats.dram_updates += 1;
    }

    /// The same where the table is a tree: which nodes, and their translation pages.
    #[inline(never)]
    fn nodes_changed(&mut self, lpn: u32) {
        let Some(change) = self.map.follow_pieces(lpn, self.media.array()) else { return };
        let levels = self.map.tree().map_or(0, |tree| tree.levels());
        let (changed, linked) = change.nodes;
        self.count_updates(changed * (levels + 1) + linked * (levels + 2));
        if change.own {
            self.map_page_changed(self.map.page_of(lpn));
        }
        change.pages.into_iter().for_each(|page| self.map_page_changed(page));
    }

    /// At power-on: the nodes of a tree are those of the logical pages `lists`, beside those that lie whole.
    pub(crate) fn restore_tree(&mut self, lists: &BTreeMap<u32, FragmentList>) {
        let Some(mut tree) = self.map.tree_mut().map(std::mem::take) else { return };
        tree.restore(
            |page| {
                let ppn = self.map.location(page)?;
                self.array().note(ppn).map(Note::bytes)
            },
            lists,
        );
        if let Some(place) = self.map.tree_mut() {
            *place = tree;
        }
    }

    /// Translation page `page` changed behind the host's back: it is loaded if need be, beyond the
    /// cache's capacity; host requests pay the excess back.
    pub fn map_page_changed(&mut self, page: u32) {
        let Some(cache) = self.map.cache_mut() else { return };
        let (cached, location) = (cache.is_cached(page), cache.location(page));
        cache.touch(page, true);
        if !cached {
            // The entry has changed already: no comparison with what is in flash.
            self.stats.cache_misses += 1;
            if let Some(ppn) = location
                && !self.media.is_open(ppn)
            {
                let sectors = self.sectors_per_page();
                self.media.read::<false>(ppn, sectors, Cause::Map, true, &[], Waiter::NOBODY);
            }
        }
    }

    /// Bytes of the whole mapping table at present.
    pub fn mapping_bytes(&self) -> u64 {
        self.map.bytes()
    }

    /// Evicts translation pages until the cache fits, as long as there is room to write them back.
    fn shrink_map_cache(&mut self) {
        loop {
            let Some(cache) = self.map.cache() else { return };
            let Some(page) = cache.least_recent().filter(|_| cache.over()) else { return };
            if cache.is_dirty(page) && !self.write_map_page(page) {
                return;
            }
            if let Some(cache) = self.map.cache_mut() {
                cache.evict(page);
            }
        }
    }

    fn write_map_page(&mut self, page: u32) -> bool {
        let Some(plane) = self.choose_plane(page, GroupId::System, PageClass::SYSTEM) else { return false };
        let entries = self.map.entries(page, self.array());
        let (ppn, op) = self.append_system(plane, GroupId::System, PageUse::Map, page, Cause::Map, &[]);
        self.media.array_mut().set_note(ppn, Note::new(&entries));
        if let Some(cache) = self.map.cache_mut() {
            let old = cache.location(page);
            cache.set_location(page, ppn);
            cache.clean(page);
            if let Some(old) = old {
                self.media.supersede(old, op);
                self.died(old);
            }
        }
        true
    }
}
