//! The checkpoint, taken a step further: what a section says, and when the next one goes to flash.

use nandle_nand::{Cause, Note, OpId, PageUse, Ppn};

use super::super::Durability;
use super::*;
use crate::flash::Flash;
use crate::schemes::Schemes;
use crate::space::{GroupId, PageClass};

impl Durability {
    /// Takes the checkpoint one step further if it is time and there is room.
    #[inline(always)]
    pub(crate) fn keep_checkpoint(&mut self, flash: &mut Flash, schemes: &mut Schemes) {
        let (c, programs) = (&self.checkpoint, flash.programs());
        if c.interval != 0
            && programs.0 - c.since.0 >= c.interval * u64::from(flash.media().slots())
            && programs.1 > c.since.1
            && !flash.is_read_only()
        {
            self.step_checkpoint(flash, schemes);
        }
    }

    #[inline(never)]
    fn step_checkpoint(&mut self, flash: &mut Flash, schemes: &mut Schemes) {
        // One at a time: the pages of the ring reach the flash in the order of their numbers.
        let newest = self.checkpoint.ring.back().map(|kept| kept.ppn);
        if newest.is_some_and(|ppn| flash.media().program_of(ppn).is_some()) {
            return;
        }
        self.forget_superseded(flash);
        if !flash.records().is_empty() {
            self.write_log(flash, schemes, None);
        }
        if !flash.records().is_empty() {
            return;
        }
        let mut programs: SmallVec<[OpId; 4]> = SmallVec::new();
        // As many sections as one program takes.
        for _ in 0..flash.media().slots() {
            if !self.write_section(flash, &mut programs) {
                break;
            }
        }
        flash.seal_ops(&programs);
    }

    /// What the newest page supersedes, which is on flash, no recovery reads any more: what it says would else stay in
    /// memory until its block is erased, many rounds of it.
    fn forget_superseded(&mut self, flash: &mut Flash) {
        let array = flash.media_mut().array_mut();
        for kept in std::mem::take(&mut self.checkpoint.superseded) {
            // Its block may have been erased since.
            let still = array.page_use(kept.ppn) == PageUse::Checkpoint
                && array.lpn_at_home(kept.ppn) == Some(kept.number);
            if still && !array.keeps_stale() {
                array.forget_note(kept.ppn);
            }
        }
    }

    /// Writes the next section, if there is room for it.
    fn write_section(&mut self, flash: &mut Flash, programs: &mut SmallVec<[OpId; 4]>) -> bool {
        let (group, class) = (GroupId::System, PageClass::SYSTEM);
        if !flash.has_room(self.checkpoint.number, group, class, 1) {
            return false;
        }
        let drafts = self.draft_checkpoint(flash);
        if self.checkpoint.ring.len() + drafts.len() > self.checkpoint.most
            && drafts.first().is_none_or(|draft| self.obsolete(draft.covers) == 0)
        {
            // More is scattered than was planned for: recovery scans everything until a round fits.
            self.drop_checkpoint(flash);
            return false;
        }
        let (count, planes) = (drafts.len() as u32, flash.geometry().planes());
        let room = |plane| flash.room(plane, group, class) >= count.div_ceil(planes);
        if count > 1 && !(0..planes).all(room) {
            return false;
        }
        self.checkpoint.since = flash.programs();
        for draft in drafts {
            programs.push(self.write_checkpoint(flash, draft));
        }
        true
    }

    /// The next section, and the list of the log's pages if it is the last one.
    fn draft_checkpoint(&self, flash: &mut Flash) -> Vec<Draft> {
        let keys = keys(flash);
        let page_bytes = flash.geometry().page_bytes as usize;
        let first = self.checkpoint.cursor;
        if flash.gathers() {
            // What it says must be on flash before it is.
            flash.seal_units(first, first + (page_bytes / 4) as u32);
        }
        let seq = flash.media_mut().array_mut().take_seq();
        let mut body = vec![0; page_bytes];
        let (mut at, mut key) = (HEADER_BYTES, first);
        let mut entry = vec![];
        while key < keys {
            // Most entries are one word, and of a large drive most of these stay 0.
            if key < flash.logical_pages() {
                let end = flash.logical_pages().min(key + ((page_bytes - at) / 4) as u32);
                let list = flash.fragments().copy_words(key..end, body[at..].as_chunks_mut().0);
                let next = list.unwrap_or(end);
                at += 4 * (next - key) as usize;
                key = next;
                if list.is_none() && key < flash.logical_pages() || key == keys {
                    break;
                }
            }
            entry.clear();
            write_entry(flash, key, &mut entry);
            let Some(place) = body.get_mut(at..at + entry.len()) else { break };
            place.copy_from_slice(&entry);
            at += entry.len();
            key += 1;
        }
        body.truncate(at);
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
            && last.body.len() + list.len() * LOG_ENTRY_BYTES <= page_bytes
        {
            list.iter().for_each(|pair| entry(&mut last.body, pair));
            (last.header.log_pages, last.header.parts) = (list.len() as u32, 1);
            (last.covers, last.until) = (keys + 1, keys + 1);
            return drafts;
        }
        let parts = list.len().div_ceil(per_page).max(1);
        for part in 0..parts {
            let some = &list[part * per_page..list.len().min((part + 1) * per_page)];
            let mut body = vec![0; HEADER_BYTES];
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

    fn write_checkpoint(&mut self, flash: &mut Flash, draft: Draft) -> OpId {
        let keys = keys(flash);
        let Draft { mut header, mut body, covers, until } = draft;
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
        body[..HEADER_BYTES].copy_from_slice(&header.bytes());

        let after: Vec<OpId> = flash.media().pending_programs().collect();
        let plane = flash.granted_plane(number, GroupId::System, PageClass::SYSTEM);
        let (kind, group) = (PageUse::Checkpoint, GroupId::System);
        let (ppn, op) = flash.append_system(plane, group, kind, number, Cause::Meta, &after);
        flash.media_mut().array_mut().set_note(ppn, Note::new(&body));
        for &kept in &old {
            flash.media_mut().supersede(kept.ppn, op);
            flash.died(kept.ppn);
        }
        self.checkpoint.superseded.extend(old);
        let c = &mut self.checkpoint;
        c.number += 1;
        c.ring.push_back(Kept { number, ppn, seq: header.seq, round: c.round, until });
        if covers > keys {
            (c.cursor, c.round) = (0, c.round + 1);
        } else {
            c.cursor = covers;
        }
        flash.stats_mut().checkpoint_pages += 1;
        op
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
    /// these are emptied before they are written. A page that collection copies waited when it was new: pages that
    /// came after it count on it.
    pub(in crate::durability) fn void_checkpoint(&mut self, flash: &mut Flash, seq: u64) {
        let stale: Vec<Kept> = self
            .checkpoint
            .ring
            .iter()
            .filter(|k| flash.media().program_of(k.ppn).is_some() && k.seq > seq)
            .copied()
            .collect();
        if stale.is_empty() {
            return;
        }
        for kept in stale {
            let (seq, front) = (kept.seq, kept.number);
            let none = Header { seq, front, since: 0, first: 0, count: 0, log_pages: 0, part: 0, parts: 0 };
            flash.media_mut().array_mut().set_note(kept.ppn, Note::new(&none.bytes()));
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
        let mut bytes = header.bytes();
        bytes.extend_from_slice(&0_u32.to_le_bytes());
        bytes.extend_from_slice(&43_u32.to_le_bytes());
        bytes.extend_from_slice(&(LIST | 1).to_le_bytes());
        bytes.extend_from_slice(&6_u64.to_le_bytes());
        bytes.extend_from_slice(&9_u32.to_le_bytes());
        bytes.push(-2_i8 as u8);
        for value in [1_u32, 2, 3, 4] {
            bytes.extend_from_slice(&value.to_le_bytes());
        }
        let slice = Slice::read(&Note::new(&bytes)).expect("whole");
        assert_eq!(slice.header, header);
        let mut found = vec![];
        slice.entries(|key, list| found.push((key, list.to_vec())));
        let alone = Fragment { mask: 0, ppn: Ppn(42), shift: 0 };
        let away = Fragment { mask: 6, ppn: Ppn(9), shift: -2 };
        assert_eq!(found, [(10, vec![]), (11, vec![alone]), (12, vec![away])]);
        assert_eq!(slice.log_pages(), [(1, Ppn(2)), (3, Ppn(4))]);
        assert!(Slice::read(&Note::new(&bytes[..30])).is_none());
    }
}
