//! The write buffer: volatile RAM for writes, sectors allocated singly, entries keyed by logical page.

use smallvec::SmallVec;

use crate::flash::Flash;

pub mod fifo;
pub mod lru;

crate::catalog! {
    /// What waits in RAM and what leaves first.
    pub enum BufferKind {
        /// The least recently written page (SSDSim's); no buffer if `buffer.bytes` is 0.
        Lru = "lru",
        /// The oldest request, all its pages (VSSIM's).
        Fifo = "fifo",
    }
}

impl BufferKind {
    /// Whether the policy makes no sense without `buffer.bytes`.
    pub(crate) fn needs_ram(self) -> bool {
        self != Self::Lru
    }
}

const NONE: u32 = u32::MAX;

/// Dirty sectors of one logical page.
#[derive(Clone, Copy, Debug)]
pub struct Entry {
    /// Logical page.
    pub lpn: u32,
    /// Its buffered sectors.
    pub mask: u64,
    /// Number of the request that brought it in.
    pub request: u64,
    /// Its stream.
    pub stream: u16,
    newer: u32,
    older: u32,
}

/// The slots chosen to leave.
pub type Victims = SmallVec<[u32; 4]>;

/// Buffered pages in the order of their policy.
#[derive(Clone, Debug)]
pub struct Buffer {
    kind: BufferKind,
    /// Slot + 1 of each logical page, 0 = not buffered.
    index: Vec<u32>,
    entries: Vec<Entry>,
    free: Vec<u32>,
    newest: u32,
    oldest: u32,
    len: u32,
    partial: u32,
    /// Sectors held by entries.
    held: u64,
    /// Sectors on their way to flash.
    leaving: u64,
    capacity: u64,
    full: u64,
    unit: usize,
    page_bytes: usize,
    data: Vec<u8>,
}

impl Buffer {
    pub(crate) fn new(
        kind: BufferKind,
        capacity_sectors: u64,
        logical_pages: u32,
        full: u64,
        unit: usize,
    ) -> Self {
        Self {
            kind,
            index: vec![0; logical_pages as usize],
            entries: Vec::new(),
            free: Vec::new(),
            newest: NONE,
            oldest: NONE,
            len: 0,
            partial: 0,
            held: 0,
            leaving: 0,
            capacity: capacity_sectors,
            full,
            unit,
            page_bytes: full.count_ones() as usize * unit,
            data: Vec::new(),
        }
    }

    /// Entries.
    pub fn len(&self) -> u32 {
        self.len
    }
    /// Whether nothing is buffered (writes on their way to flash aside).
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
    /// Entries that do not fill their page.
    pub fn partial_pages(&self) -> u32 {
        self.partial
    }
    /// An entry.
    pub fn entry(&self, slot: u32) -> &Entry {
        &self.entries[slot as usize]
    }
    /// The oldest entry by the policy's order.
    pub fn oldest(&self) -> Option<u32> {
        (self.oldest != NONE).then_some(self.oldest)
    }
    /// The entry after `slot`, towards the newest.
    pub fn newer(&self, slot: u32) -> Option<u32> {
        let newer = self.entries[slot as usize].newer;
        (newer != NONE).then_some(newer)
    }

    /// The slot of `lpn`.
    #[inline]
    pub fn slot(&self, lpn: u32) -> Option<u32> {
        self.index[lpn as usize].checked_sub(1)
    }
    /// The buffered sectors of `lpn`.
    #[inline]
    pub fn mask(&self, lpn: u32) -> u64 {
        self.slot(lpn).map_or(0, |slot| self.entries[slot as usize].mask)
    }
    /// Sectors that a write of `mask` to `lpn` takes beyond those that there is room for.
    #[inline]
    pub(crate) fn missing(&self, lpn: u32, mask: u64) -> u64 {
        let new = u64::from((mask & !self.mask(lpn)).count_ones());
        (self.held + self.leaving + new).saturating_sub(self.capacity)
    }
    /// Sectors on their way to flash.
    #[inline]
    pub(crate) fn leaving(&self) -> u64 {
        self.leaving
    }

    /// Puts a write in, merging it with what is there.
    pub(crate) fn insert(
        &mut self,
        lpn: u32,
        mask: u64,
        request: u64,
        stream: u16,
        first: u32,
        bytes: &[u8],
    ) {
        let slot = match self.slot(lpn) {
            Some(slot) => {
                let entry = &mut self.entries[slot as usize];
                let was_partial = entry.mask != self.full;
                self.held += u64::from((mask & !entry.mask).count_ones());
                entry.mask |= mask;
                if was_partial && entry.mask == self.full {
                    self.partial -= 1;
                }
                entry.stream = stream;
                if self.kind == BufferKind::Lru {
                    self.unlink(slot);
                    self.link_newest(slot);
                }
                slot
            }
            None => {
                let entry = Entry { lpn, mask, request, stream, newer: NONE, older: NONE };
                let slot = self.free.pop().unwrap_or(self.entries.len() as u32);
                if slot as usize == self.entries.len() {
                    self.entries.push(entry);
                    self.data.resize(self.entries.len() * self.page_bytes, 0);
                } else {
                    self.entries[slot as usize] = entry;
                }
                self.index[lpn as usize] = slot + 1;
                self.held += u64::from(mask.count_ones());
                self.len += 1;
                self.partial += u32::from(mask != self.full);
                self.link_newest(slot);
                slot
            }
        };
        if self.unit > 0 {
            for (start, len) in crate::fragments::runs(mask) {
                let to = slot as usize * self.page_bytes + start as usize * self.unit;
                let from = (start - first) as usize * self.unit;
                let n = len as usize * self.unit;
                self.data[to..to + n].copy_from_slice(&bytes[from..from + n]);
            }
        }
    }

    /// The contents of a slot, from sector 0 of its page.
    pub(crate) fn contents(&self, slot: u32) -> &[u8] {
        &self.data[slot as usize * self.page_bytes..(slot as usize + 1) * self.page_bytes]
    }

    /// Overwrites the sectors `mask` in the contents of an entry that is about to leave.
    pub(crate) fn merge_contents(&mut self, slot: u32, mask: u64, contents: crate::flash::Contents<'_>) {
        for (start, len) in crate::fragments::runs(mask) {
            let n = len as usize * self.unit;
            let to = slot as usize * self.page_bytes + start as usize * self.unit;
            let from = (start - contents.first) as usize * self.unit;
            self.data[to..to + n].copy_from_slice(&contents.bytes[from..from + n]);
        }
    }

    /// Takes an entry out; its sectors are on their way to flash until [`Buffer::release`].
    pub(crate) fn take(&mut self, slot: u32) -> Entry {
        let entry = self.remove(slot);
        self.leaving += u64::from(entry.mask.count_ones());
        entry
    }

    fn remove(&mut self, slot: u32) -> Entry {
        self.unlink(slot);
        let entry = self.entries[slot as usize];
        self.index[entry.lpn as usize] = 0;
        self.held -= u64::from(entry.mask.count_ones());
        self.len -= 1;
        self.partial -= u32::from(entry.mask != self.full);
        self.free.push(slot);
        entry
    }

    /// `sectors` that were leaving are on flash.
    pub(crate) fn release(&mut self, sectors: u32) {
        self.leaving -= u64::from(sectors);
    }

    /// Sectors `mask` of `lpn` are no longer wanted.
    pub(crate) fn trim(&mut self, lpn: u32, mask: u64) {
        let Some(slot) = self.slot(lpn) else { return };
        let entry = &mut self.entries[slot as usize];
        if entry.mask & !mask == 0 {
            self.remove(slot);
        } else if entry.mask & mask != 0 {
            self.held -= u64::from((entry.mask & mask).count_ones());
            self.partial += u32::from(entry.mask == self.full);
            entry.mask &= !mask;
        }
    }

    /// Who leaves next, given what the chips are doing. All of them are placed together.
    pub(crate) fn victims(&mut self, _flash: &Flash) -> Victims {
        match self.kind {
            BufferKind::Lru => lru::victims(self),
            BufferKind::Fifo => fifo::victims(self),
        }
    }

    fn link_newest(&mut self, slot: u32) {
        let entry = &mut self.entries[slot as usize];
        (entry.newer, entry.older) = (NONE, self.newest);
        match self.newest {
            NONE => self.oldest = slot,
            newest => self.entries[newest as usize].newer = slot,
        }
        self.newest = slot;
    }

    fn unlink(&mut self, slot: u32) {
        let Entry { newer, older, .. } = self.entries[slot as usize];
        match newer {
            NONE => self.newest = older,
            newer => self.entries[newer as usize].older = older,
        }
        match older {
            NONE => self.oldest = newer,
            older => self.entries[older as usize].newer = newer,
        }
    }
}
