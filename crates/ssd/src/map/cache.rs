//! Demand-loaded translation pages with LRU and dirty write-back (after DFTL, Gupta et al. 2009).
//!
//! The unit is a translation page, one flash page of the [`Table`](super::table::Table).
//! Only bookkeeping lives here; the flash traffic is ordered two layers up.

use nandle_nand::Ppn;

use crate::linked::{Links, List};

#[derive(Clone, Copy, Debug)]
struct Page {
    links: Links,
    cached: bool,
    dirty: bool,
}

/// The cached translation pages, most recently used first, and where all of them lie in flash.
#[derive(Clone, Debug)]
pub struct Cache {
    pages: Vec<Page>,
    /// Global translation directory: flash address + 1 of each translation page, 0 = never written.
    directory: Vec<u32>,
    /// Those in RAM, the least recently used is the oldest.
    used: List,
    cached: u32,
    capacity: u32,
}

impl Cache {
    pub(crate) fn new(map_pages: u32, capacity: u32) -> Self {
        Self {
            pages: vec![Page { links: Links::NONE, cached: false, dirty: false }; map_pages as usize],
            directory: vec![0; map_pages as usize],
            used: List::EMPTY,
            cached: 0,
            capacity,
        }
    }

    /// Translation pages.
    pub fn map_pages(&self) -> u32 {
        self.pages.len() as u32
    }
    /// Translation pages in RAM.
    pub fn cached(&self) -> u32 {
        self.cached
    }
    /// Whether more is cached than there is room for.
    pub(crate) fn over(&self) -> bool {
        self.cached > self.capacity
    }
    pub(crate) fn is_cached(&self, page: u32) -> bool {
        self.pages[page as usize].cached
    }
    pub(crate) fn is_dirty(&self, page: u32) -> bool {
        self.pages[page as usize].dirty
    }
    /// Where translation page `page` lies in flash.
    pub(crate) fn location(&self, page: u32) -> Option<Ppn> {
        self.directory[page as usize].checked_sub(1).map(Ppn)
    }
    pub(crate) fn set_location(&mut self, page: u32, ppn: Ppn) {
        self.directory[page as usize] = ppn.0 + 1;
    }

    /// The page was used: it moves to the front, entering the cache if it was not there.
    pub(crate) fn touch(&mut self, page: u32, dirty: bool) {
        let entry = &mut self.pages[page as usize];
        entry.dirty |= dirty;
        if std::mem::replace(&mut entry.cached, true) {
            if self.used.newest() == Some(page) {
                return;
            }
            self.used.remove(&mut self.pages, page, |page| &mut page.links);
        } else {
            self.cached += 1;
        }
        self.used.push(&mut self.pages, page, |page| &mut page.links);
    }

    /// The least recently used page.
    pub(crate) fn least_recent(&self) -> Option<u32> {
        self.used.oldest()
    }

    /// The page was written back: flash and RAM agree.
    pub(crate) fn clean(&mut self, page: u32) {
        self.pages[page as usize].dirty = false;
    }

    /// The page leaves the cache.
    pub(crate) fn evict(&mut self, page: u32) {
        debug_assert!(!self.pages[page as usize].dirty, "a dirty page is written back first");
        self.used.remove(&mut self.pages, page, |page| &mut page.links);
        self.pages[page as usize].cached = false;
        self.cached -= 1;
    }
}
