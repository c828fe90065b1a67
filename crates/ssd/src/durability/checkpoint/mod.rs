//! A rolling checkpoint of the map, so that recovery reads what was written lately and no more.
//!
//! Every `recovery.checkpoint_interval` programmed pages the next section of the map goes to flash as
//! one page: the fragments of so many logical pages as fit, then the places of the translation pages,
//! then those of the log's pages. At the end it starts again, so a whole checkpoint is what the pages of
//! one round hold, each as of its own sequence number. Nothing stops while it is written.
//!
//! A section is a base to build on: everything with a larger sequence number is replayed over it. For
//! that its page must not be on flash before all that it refers to is, so its program waits for every
//! program under way, and trims are recorded first. Whatever is superseded later is superseded by
//! something with a larger sequence number that is on flash before the block of the old copy is erased.
//!
//! The pages need no fixed place: they were all written within the last round, which is just what
//! recovery scans, from the newest block backwards. Each says which page of the ring is the oldest that
//! still counts, and from which sequence number on everything has to be replayed.

mod steps;

use std::collections::VecDeque;

use nandle_nand::{Note, Ppn};
use smallvec::SmallVec;

use crate::flash::Flash;
use crate::map::Fragment;

/// Bytes before the entries: see [`Header`].
const HEADER_BYTES: usize = 40;
/// In an entry: a count of fragments follows, not one address.
const LIST: u32 = 1 << 31;
/// Sectors, page, distance from home.
const FRAGMENT_BYTES: usize = 13;
/// Number and place of a page of the log.
const LOG_ENTRY_BYTES: usize = 8;

/// Most pages of checkpoint that are live at a time; the rest of the device is planned without them.
/// `scatters`: logical pages may lie in several places.
pub(crate) fn most_pages(
    page_bytes: u32,
    logical_pages: u32,
    map_pages: u32,
    log_pages: u32,
    scatters: bool,
) -> u32 {
    let room = (page_bytes as usize - HEADER_BYTES) as u64;
    let bytes =
        4 * (u64::from(logical_pages) + u64::from(map_pages)) + LOG_ENTRY_BYTES as u64 * u64::from(log_pages);
    (bytes.div_ceil(room) * if scatters { 4 } else { 2 } + 2) as u32
}

/// What precedes the entries of a checkpoint page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// The entries hold as of this sequence number.
    pub seq: u64,
    /// With this page the ring begins at the page of this number.
    pub front: u32,
    /// Everything of a larger sequence number is to be replayed; 0 = the ring does not cover the map.
    pub since: u64,
    /// The first key and how many keys there are: logical pages, then translation pages.
    pub first: u32,
    pub count: u32,
    /// Pages of the log that are listed, in this part of so many; 0 parts = none are.
    pub log_pages: u32,
    pub part: u16,
    pub parts: u16,
}

/// What a checkpoint page says.
#[derive(Clone, Debug)]
pub(super) struct Slice {
    pub header: Header,
    note: Note,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Header {
    fn bytes(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEADER_BYTES);
        out.extend_from_slice(&self.seq.to_le_bytes());
        out.extend_from_slice(&self.since.to_le_bytes());
        for value in [self.front, self.first, self.count, self.log_pages] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.part.to_le_bytes());
        out.extend_from_slice(&self.parts.to_le_bytes());
        out.resize(HEADER_BYTES, 0);
        out
    }
    fn read(bytes: &[u8]) -> Option<Self> {
        let parts = word(bytes, 32)?;
        Some(Self {
            seq: long(bytes, 0)?,
            since: long(bytes, 8)?,
            front: word(bytes, 16)?,
            first: word(bytes, 20)?,
            count: word(bytes, 24)?,
            log_pages: word(bytes, 28)?,
            part: parts as u16,
            parts: (parts >> 16) as u16,
        })
    }
}

impl Slice {
    /// What the page holds; none if it is cut off.
    pub fn read(note: &Note) -> Option<Self> {
        let line = note.lines().next().filter(|line| line.len() >= HEADER_BYTES)?;
        Some(Self { header: Header::read(line)?, note: note.clone() })
    }

    /// Each key with its fragments: for a translation page, one without sectors. A fragment alone at
    /// home has no sectors either: its page's out-of-band area names them.
    pub fn entries(&self, mut each: impl FnMut(u32, SmallVec<[Fragment; 2]>)) {
        let (bytes, mut at) = (self.note.bytes(), HEADER_BYTES);
        for key in self.header.first..self.header.first + self.header.count {
            let Some(entry) = word(&bytes, at) else { return };
            at += 4;
            let mut list = SmallVec::new();
            if entry & LIST == 0 {
                list.extend(entry.checked_sub(1).map(|ppn| Fragment { mask: 0, ppn: Ppn(ppn), shift: 0 }));
            } else {
                for _ in 0..entry & !LIST {
                    let (Some(mask), Some(ppn)) = (long(&bytes, at), word(&bytes, at + 8)) else {
                        return;
                    };
                    let shift = bytes.get(at + 12).map_or(0, |&byte| byte as i8);
                    list.push(Fragment { mask, ppn: Ppn(ppn), shift });
                    at += FRAGMENT_BYTES;
                }
            }
            each(key, list);
        }
    }

    /// The log's pages: number and place.
    pub fn log_pages(&self) -> Vec<(u32, Ppn)> {
        let bytes = self.note.bytes();
        let start = bytes.len().saturating_sub(self.header.log_pages as usize * LOG_ENTRY_BYTES);
        let pairs = bytes[start..].chunks_exact(LOG_ENTRY_BYTES);
        pairs.filter_map(|pair| Some((word(pair, 0)?, Ppn(word(pair, 4)?)))).collect()
    }
}

/// A live checkpoint page.
#[derive(Clone, Copy, Debug)]
struct Kept {
    number: u32,
    ppn: Ppn,
    /// What it holds is as of this sequence number.
    seq: u64,
    round: u32,
    /// It counts until the next round has come beyond this key.
    until: u32,
}

/// The checkpoint as it is under way.
#[derive(Clone, Debug, Default)]
pub(super) struct Checkpoint {
    /// `recovery.checkpoint_interval`; 0 = never.
    interval: u64,
    /// Most pages that may be live at a time.
    most: usize,
    /// Pages programmed when the last step was taken, and those of them that the host caused. Collection
    /// alone takes the checkpoint no further: its copies would bring pages of it that take the room which
    /// they make, and both could go on for ever.
    since: (u64, u64),
    /// The pages that count, oldest first, numbered without gaps.
    ring: VecDeque<Kept>,
    number: u32,
    /// The next key to be written.
    cursor: u32,
    round: u32,
    /// The ring covers the map.
    complete: bool,
    /// Pages that no longer count once the newest one is on flash.
    superseded: Vec<Kept>,
}

impl Checkpoint {
    pub fn new(interval: u32, most: u32) -> Self {
        Self { interval: u64::from(interval), most: most as usize, ..Self::default() }
    }

    /// The pages that count.
    pub fn pages(&self) -> impl Iterator<Item = Ppn> + '_ {
        self.ring.iter().map(|kept| kept.ppn)
    }

    /// Garbage collection moved the page of this number.
    pub fn moved(&mut self, number: u32, to: Ppn) {
        if let Some(kept) = self.ring.iter_mut().find(|kept| kept.number == number) {
            kept.ppn = to;
        }
    }

    /// At power-on: no page numbered up to `number` is to be mistaken for a new one.
    pub fn start_after(&mut self, number: u32) {
        self.number = self.number.max(number + 1);
    }

    /// At power-on: the ring goes on where it was, `slices` in the order of their numbers.
    pub fn resume(&mut self, slices: &[(u32, Ppn, Slice)], keys: u32) {
        for (number, ppn, slice) in slices {
            let h = &slice.header;
            if h.first == 0 && h.count > 0 || self.cursor > keys {
                self.round += 1;
            }
            let last = h.parts > 0 && h.part + 1 == h.parts;
            self.cursor = if last { keys + 1 } else { (h.first + h.count).min(keys) };
            let until = if h.parts > 0 { keys + 1 } else { self.cursor };
            self.ring.push_back(Kept { number: *number, ppn: *ppn, seq: h.seq, round: self.round, until });
            self.complete = h.since > 0;
            self.start_after(*number);
        }
        if self.cursor > keys {
            (self.cursor, self.round) = (0, self.round + 1);
        }
    }
}

/// A page about to be written.
struct Draft {
    header: Header,
    /// The page, in which the header is still to come.
    body: Vec<u8>,
    covers: u32,
    until: u32,
}

/// Keys of the checkpoint: logical pages, and translation pages. The log's pages come behind them.
pub(super) fn keys(flash: &Flash) -> u32 {
    flash.logical_pages() + flash.map().map_pages()
}

fn write_entry(flash: &Flash, key: u32, out: &mut Vec<u8>) {
    let logical = flash.logical_pages();
    let fragments = flash.fragments();
    let place = |ppn: Option<Ppn>| ppn.map_or(0, |ppn| ppn.0 + 1).to_le_bytes();
    if key >= logical {
        out.extend_from_slice(&place(flash.map().location(key - logical)));
    } else if fragments.is_unmapped(key) {
        out.extend_from_slice(&place(None));
    } else if let Some(ppn) = fragments.single(key) {
        out.extend_from_slice(&place(Some(ppn)));
    } else {
        let list = fragments.get(key, flash.array());
        out.extend_from_slice(&(LIST | list.len() as u32).to_le_bytes());
        for f in &list {
            out.extend_from_slice(&f.mask.to_le_bytes());
            out.extend_from_slice(&f.ppn.0.to_le_bytes());
            out.push(f.shift as u8);
        }
    }
}
