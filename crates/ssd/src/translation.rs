//! The mapping table in flash: translation pages loaded, written back, and written for the drive's own use.

use nandle_nand::{Cause, Extents, OpId, PageUse, Ppn};

use crate::allocation::{PageClass, Role};
use crate::flash::{Flash, Owner, PLAIN, Page};
use crate::map_cache::{MapCache, table::Table};

impl Flash {
    /// The host needs the entry for the sectors `mask` of `lpn`: the load it has to wait for, if any.
    #[inline]
    pub(crate) fn look_up(&mut self, lpn: u32, mask: u64) -> Option<OpId> {
        match &self.table {
            Table::Page => {
                self.stats.dram_accesses += 1;
                match &self.map {
                    MapCache::Everything => None,
                    MapCache::OnDemand(_) => {
                        self.load_map_page(lpn / self.layout.entries_per_map_page, None, false)
                    }
                }
            }
            Table::Across(_) => self.look_up_areas(lpn, mask),
            Table::Regions(_) => self.look_up_region(lpn, mask),
        }
    }

    /// Brings the translation page of `lpn` into RAM, in the background.
    pub(crate) fn load_map_page_of(&mut self, lpn: u32) -> Option<OpId> {
        let page = self.table.page_of(lpn, &self.layout);
        self.load_map_page(page, None, true)
    }

    /// Brings translation page `page` into RAM after `after`; what has to be waited for.
    pub(crate) fn load_map_page(&mut self, page: u32, after: Option<OpId>, background: bool) -> Option<OpId> {
        let MapCache::OnDemand(map) = &mut self.map else { return after };
        if map.is_cached(page) {
            self.stats.cache_hits += 1;
            map.touch(page, false);
            return after;
        }
        self.stats.cache_misses += 1;
        map.touch(page, false);
        let location = map.location(page);
        let op = location.map(|ppn| {
            if let Some(note) = self.nand.array().note(ppn) {
                let entries = self.table.entries(page, &self.fragments, &self.layout);
                assert!(**note == *entries, "translation page {page} in flash is not what the map says");
            }
            let op = self.nand.read(ppn, self.spp, Cause::Map, background, after.as_slice());
            self.set_info(op, PLAIN);
            op
        });
        if !background {
            self.shrink_map_cache();
        }
        op.or(after)
    }

    /// The entry of `lpn` changed; its translation page is in RAM.
    #[inline]
    pub(crate) fn map_changed(&mut self, lpn: u32) {
        if let MapCache::OnDemand(map) = &mut self.map {
            map.touch(self.table.page_of(lpn, &self.layout), true);
        }
    }

    /// Garbage collection changed the entry of `lpn`.
    pub(crate) fn map_moved(&mut self, lpn: u32) {
        let page = self.table.page_of(lpn, &self.layout);
        self.map_page_changed(page);
    }

    /// Translation page `page` changed behind the host's back: it is loaded if need be, beyond the
    /// cache's capacity; host requests pay the excess back.
    pub(crate) fn map_page_changed(&mut self, page: u32) {
        if let MapCache::OnDemand(map) = &mut self.map {
            if !map.is_cached(page) {
                // The entry has changed already: no comparison with what is in flash.
                self.stats.cache_misses += 1;
                if let Some(ppn) = map.location(page) {
                    let op = self.nand.read(ppn, self.spp, Cause::Map, true, &[]);
                    self.set_info(op, PLAIN);
                }
            }
            if let MapCache::OnDemand(map) = &mut self.map {
                map.touch(page, true);
            }
        }
    }

    /// Bytes of the whole mapping table at present.
    pub fn mapping_bytes(&self) -> u64 {
        self.table.bytes(self.config.map_cache.entry_bytes, &self.layout)
    }

    /// Evicts translation pages until the cache fits, as long as there is room to write them back.
    pub(crate) fn shrink_map_cache(&mut self) {
        loop {
            let MapCache::OnDemand(map) = &self.map else { return };
            let Some(page) = map.least_recent().filter(|_| map.over()) else { return };
            if map.is_dirty(page) && !self.write_map_page(page) {
                return;
            }
            if let MapCache::OnDemand(map) = &mut self.map {
                map.evict(page);
            }
        }
    }

    fn write_map_page(&mut self, page: u32) -> bool {
        let Some(plane) = self.choose_plane(page, Role::System, PageClass::SYSTEM) else { return false };
        let entries = self.table.entries(page, &self.fragments, &self.layout);
        let (ppn, op) = self.append_system(plane, Role::System, PageUse::Map, page, Cause::Map);
        self.nand.array_mut().set_note(ppn, entries.into());
        if let MapCache::OnDemand(map) = &mut self.map {
            let old = map.location(page);
            map.set_location(page, ppn);
            map.clean(page);
            if let Some(old) = old {
                self.nand.supersede(old, op);
                self.blocks.set_dead(old, self.nand.now());
            }
        }
        true
    }

    pub(crate) fn append_system(
        &mut self,
        plane: u32,
        role: Role,
        kind: PageUse,
        number: u32,
        cause: Cause,
    ) -> (Ppn, OpId) {
        let extents = Extents::Home { lpn: number, start: 0, len: self.spp as u8 };
        let (class, owner) = (PageClass::SYSTEM, Owner::default());
        self.append(&Page { plane, role, class, kind, extents, cause, owner }, &[])
    }
}
