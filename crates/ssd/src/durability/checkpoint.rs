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

use std::collections::VecDeque;

use nandle_nand::{Cause, OpId, PageUse, Ppn};
use smallvec::SmallVec;

use super::Durability;
use crate::flash::Flash;
use crate::map::Fragment;
use crate::schemes::Schemes;
use crate::space::{GroupId, PageClass};

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
    bytes: std::sync::Arc<[u8]>,
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}
fn long(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

impl Header {
    fn write(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.seq.to_le_bytes());
        out.extend_from_slice(&self.since.to_le_bytes());
        for value in [self.front, self.first, self.count, self.log_pages] {
            out.extend_from_slice(&value.to_le_bytes());
        }
        out.extend_from_slice(&self.part.to_le_bytes());
        out.extend_from_slice(&self.parts.to_le_bytes());
        out.resize(HEADER_BYTES, 0);
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
    pub fn read(bytes: &std::sync::Arc<[u8]>) -> Option<Self> {
        let header = Header::read(bytes)?;
        (bytes.len() >= HEADER_BYTES).then(|| Self { header, bytes: bytes.clone() })
    }

    /// Each key with its fragments: for a translation page, one without sectors. A fragment alone at
    /// home has no sectors either: its page's out-of-band area names them.
    pub fn entries(&self, mut each: impl FnMut(u32, SmallVec<[Fragment; 2]>)) {
        let mut at = HEADER_BYTES;
        for key in self.header.first..self.header.first + self.header.count {
            let Some(entry) = word(&self.bytes, at) else { return };
            at += 4;
            let mut list = SmallVec::new();
            if entry & LIST == 0 {
                list.extend(entry.checked_sub(1).map(|ppn| Fragment { mask: 0, ppn: Ppn(ppn), shift: 0 }));
            } else {
                for _ in 0..entry & !LIST {
                    let (Some(mask), Some(ppn)) = (long(&self.bytes, at), word(&self.bytes, at + 8)) else {
                        return;
                    };
                    let shift = self.bytes.get(at + 12).map_or(0, |&byte| byte as i8);
                    list.push(Fragment { mask, ppn: Ppn(ppn), shift });
                    at += FRAGMENT_BYTES;
                }
            }
            each(key, list);
        }
    }

    /// The log's pages: number and place.
    pub fn log_pages(&self) -> impl Iterator<Item = (u32, Ppn)> + '_ {
        let start = self.bytes.len().saturating_sub(self.header.log_pages as usize * LOG_ENTRY_BYTES);
        self.bytes[start..]
            .chunks_exact(LOG_ENTRY_BYTES)
            .filter_map(|pair| Some((word(pair, 0)?, Ppn(word(pair, 4)?))))
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

impl Durability {
    /// Takes the checkpoint one step further if it is time and there is room.
    #[inline]
    pub(crate) fn keep_checkpoint(&mut self, flash: &mut Flash, schemes: &mut Schemes) {
        let (c, programs) = (&self.checkpoint, flash.programs());
        if c.interval != 0
            && programs.0 - c.since.0 >= c.interval
            && programs.1 > c.since.1
            && !flash.is_read_only()
        {
            self.step_checkpoint(flash, schemes);
        }
    }

    fn step_checkpoint(&mut self, flash: &mut Flash, schemes: &mut Schemes) {
        // One at a time: the pages of the ring reach the flash in the order of their numbers.
        let newest = self.checkpoint.ring.back().map(|kept| kept.ppn);
        if newest.is_some_and(|ppn| flash.media().program_of(ppn).is_some()) {
            return;
        }
        if !flash.records().is_empty() {
            self.write_log(flash, schemes, None);
        }
        let (group, class) = (GroupId::System, PageClass::SYSTEM);
        if !flash.records().is_empty() || !flash.has_room(self.checkpoint.number, group, class, 1) {
            return;
        }
        let drafts = self.draft_checkpoint(flash);
        if self.checkpoint.ring.len() + drafts.len() > self.checkpoint.most
            && drafts.first().is_none_or(|draft| self.obsolete(draft.covers) == 0)
        {
            // More is scattered than was planned for: recovery scans everything until a round fits.
            self.drop_checkpoint(flash);
            return;
        }
        let (count, planes) = (drafts.len() as u32, flash.geometry().planes());
        let room = |plane| flash.room(plane, group, class) >= count.div_ceil(planes);
        if count > 1 && !(0..planes).all(room) {
            return;
        }
        self.checkpoint.since = flash.programs();
        for draft in drafts {
            self.write_checkpoint(flash, draft);
        }
    }

    /// The next section, and the list of the log's pages if it is the last one.
    fn draft_checkpoint(&self, flash: &mut Flash) -> Vec<Draft> {
        let keys = keys(flash);
        let page_bytes = flash.geometry().page_bytes as usize;
        let seq = flash.media_mut().array_mut().take_seq();
        let first = self.checkpoint.cursor;
        let mut body = vec![];
        let mut key = first;
        while key < keys {
            let before = body.len();
            write_entry(flash, key, &mut body);
            if HEADER_BYTES + body.len() > page_bytes {
                body.truncate(before);
                break;
            }
            key += 1;
        }
        let plain =
            Header { seq, front: 0, since: 0, first, count: key - first, log_pages: 0, part: 0, parts: 0 };
        let mut drafts = vec![];
        if key > first {
            drafts.push(Draft { header: plain, body, covers: key, until: key });
        }
        if key < keys {
            return drafts;
        }
        let per_page = (page_bytes - HEADER_BYTES) / LOG_ENTRY_BYTES;
        let list = self.log.pages();
        let entry = |body: &mut Vec<u8>, &(number, ppn): &(u32, Ppn)| {
            body.extend_from_slice(&number.to_le_bytes());
            body.extend_from_slice(&ppn.0.to_le_bytes());
        };
        if let Some(last) = drafts.last_mut()
            && HEADER_BYTES + last.body.len() + list.len() * LOG_ENTRY_BYTES <= page_bytes
        {
            list.iter().for_each(|pair| entry(&mut last.body, pair));
            (last.header.log_pages, last.header.parts) = (list.len() as u32, 1);
            (last.covers, last.until) = (keys + 1, keys + 1);
            return drafts;
        }
        let parts = list.len().div_ceil(per_page).max(1);
        for part in 0..parts {
            let some = &list[part * per_page..list.len().min((part + 1) * per_page)];
            let mut body = vec![];
            some.iter().for_each(|pair| entry(&mut body, pair));
            let header = Header {
                first: keys,
                count: 0,
                log_pages: some.len() as u32,
                part: part as u16,
                parts: parts as u16,
                ..plain
            };
            // The list counts as a whole: an older one does until the last part is there.
            let covers = keys + u32::from(part + 1 == parts);
            drafts.push(Draft { header, body, covers, until: keys + 1 });
        }
        drafts
    }

    /// Pages of the last round that no longer count when this one has come to `covers`.
    fn obsolete(&self, covers: u32) -> usize {
        let c = &self.checkpoint;
        c.ring.iter().take_while(|kept| kept.round != c.round && kept.until <= covers).count()
    }

    fn write_checkpoint(&mut self, flash: &mut Flash, draft: Draft) {
        let keys = keys(flash);
        let Draft { mut header, body, covers, until } = draft;
        let number = self.checkpoint.number;
        let gone = self.obsolete(covers);
        let old: Vec<Kept> = self.checkpoint.ring.drain(..gone).collect();
        self.checkpoint.complete |= covers > keys;
        let oldest = self.checkpoint.ring.front();
        (header.front, header.since) = match oldest {
            Some(kept) => (kept.number, kept.seq),
            None => (number, header.seq),
        };
        if !self.checkpoint.complete {
            header.since = 0;
        }
        let mut bytes = Vec::with_capacity(HEADER_BYTES + body.len());
        header.write(&mut bytes);
        bytes.extend_from_slice(&body);

        let after: Vec<OpId> = flash.media().pending_programs().collect();
        let plane = flash.choose_plane(number, GroupId::System, PageClass::SYSTEM).expect("reserved");
        let (kind, group) = (PageUse::Checkpoint, GroupId::System);
        let (ppn, op) = flash.append_system(plane, group, kind, number, Cause::Meta, &after);
        flash.media_mut().array_mut().set_note(ppn, bytes.into());
        for kept in old {
            flash.media_mut().supersede(kept.ppn, op);
            flash.died(kept.ppn);
        }
        let c = &mut self.checkpoint;
        c.number += 1;
        c.ring.push_back(Kept { number, ppn, seq: header.seq, round: c.round, until });
        if covers > keys {
            (c.cursor, c.round) = (0, c.round + 1);
        } else {
            c.cursor = covers;
        }
        flash.stats_mut().checkpoint_pages += 1;
    }

    /// The checkpoint starts again: no page of it counts any more.
    fn drop_checkpoint(&mut self, flash: &mut Flash) {
        for kept in std::mem::take(&mut self.checkpoint.ring) {
            flash.died(kept.ppn);
        }
        let c = &mut self.checkpoint;
        (c.cursor, c.round, c.complete) = (0, c.round + 1, false);
        c.since.0 = flash.programs().0;
        flash.stats_mut().checkpoints_dropped += 1;
    }

    /// What was decided at `seq` goes to another place than checkpoint pages that wait for it say:
    /// these are emptied before they are written.
    pub(super) fn void_checkpoint(&mut self, flash: &mut Flash, seq: u64) {
        let stale: Vec<Kept> = self
            .checkpoint
            .ring
            .iter()
            .filter(|k| flash.media().program_of(k.ppn).is_some() && flash.array().seq(k.ppn) > seq)
            .copied()
            .collect();
        if stale.is_empty() {
            return;
        }
        for kept in stale {
            let (seq, front) = (kept.seq, kept.number);
            let none = Header { seq, front, since: 0, first: 0, count: 0, log_pages: 0, part: 0, parts: 0 };
            let mut bytes = vec![];
            none.write(&mut bytes);
            flash.media_mut().array_mut().set_note(kept.ppn, bytes.into());
        }
        self.drop_checkpoint(flash);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_say_what_was_written() {
        let header =
            Header { seq: 7, front: 3, since: 5, first: 10, count: 3, log_pages: 2, part: 0, parts: 1 };
        let mut bytes = vec![];
        header.write(&mut bytes);
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(&43_u32.to_le_bytes());
        bytes.extend_from_slice(&(LIST | 1).to_le_bytes());
        bytes.extend_from_slice(&6_u64.to_le_bytes());
        bytes.extend_from_slice(&9_u32.to_le_bytes());
        bytes.push(-2_i8 as u8);
        for value in [1_u32, 2, 3, 4] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        let slice = Slice::read(&bytes.clone().into()).expect("whole");
        assert_eq!(slice.header, header);
        let mut found = vec![];
        slice.entries(|key, list| found.push((key, list.to_vec())));
        let alone = Fragment { mask: 0, ppn: Ppn(42), shift: 0 };
        let away = Fragment { mask: 6, ppn: Ppn(9), shift: -2 };
        assert_eq!(found, [(10, vec![]), (11, vec![alone]), (12, vec![away])]);
        assert_eq!(slice.log_pages().collect::<Vec<_>>(), [(1, Ppn(2)), (3, Ppn(4))]);
        assert!(Slice::read(&bytes[..30].to_vec().into()).is_none());
    }
}
