//! Requests that are queued by themselves (`buffer.fifo_merge = false`): VSSIM's `firm_buffer_manager.c`.
//!
//! A page has an entry for each request that wrote to it, the newest first. Decided here: what is dropped is free at
//! once.

use super::Buffer;
use super::incoming::{Incoming, Tail};
use crate::map::runs;

impl Buffer {
    /// The slots of `lpn`, the newest first.
    #[inline]
    pub(crate) fn slots(&self, lpn: u32) -> impl Iterator<Item = u32> + '_ {
        std::iter::successors(self.slot(lpn), |&slot| self.entries[slot as usize].below)
    }

    /// The buffered sectors of `lpn` in all of its entries.
    #[cold]
    pub(super) fn mask_of_all(&self, lpn: u32) -> u64 {
        self.slots(lpn).fold(0, |all, slot| all | self.entries[slot as usize].mask)
    }

    /// The newest request that wrote some of the sectors `mask` of `lpn`, and those that it has of them.
    pub(crate) fn newest_of(&self, lpn: u32, mask: u64) -> Option<(u64, u64)> {
        let has = |slot: u32| (self.entry(slot).request, self.entry(slot).mask & mask);
        self.slots(lpn).map(has).find(|&(_, some)| some != 0)
    }

    /// Whether no older entry of its page has to leave before this one.
    #[inline]
    pub(crate) fn leaves_first(&self, slot: u32) -> bool {
        self.entries[slot as usize].below.is_none()
    }

    /// Whether the buffer is being emptied: nothing comes in until it is.
    pub(crate) fn drains(&mut self) -> bool {
        self.draining &= !self.is_empty();
        self.draining
    }

    /// There is no room; where a full buffer is emptied, that begins.
    pub(crate) fn begin_draining(&mut self) {
        self.draining = self.plan.evict_all && !self.is_empty();
    }

    /// The request that the part `mask` of `lpn` of a write counts to, and the entry that it goes into, if it joins
    /// one. Requests that the write covers lose what they have of the page.
    pub(super) fn queue(&mut self, lpn: u32, mask: u64, write: Incoming) -> (u64, Option<u32>) {
        let from = self.first_sector(lpn) + u64::from(mask.trailing_zeros());
        let newest = self.all.newest().map(|slot| self.entries[slot as usize].request);
        let tail = self.tail.filter(|tail| Some(tail.request) == newest).filter(|tail| {
            let goes_on = tail.range.0 < from
                && (from == tail.range.1 || from < tail.range.1 && tail.range.1 < write.range.1);
            tail.joined == write.number || goes_on
        });
        let to = from + u64::from(mask.count_ones());
        let tail = match tail {
            Some(tail) => {
                let range = (tail.range.0, tail.range.1.max(to));
                Tail { joined: write.number, range, ..tail }
            }
            None => Tail { request: write.number, joined: write.number, range: (from, to) },
        };
        self.tail = Some(tail);
        let mut next = self.slot(lpn);
        let into = next.filter(|&slot| self.entries[slot as usize].request == tail.request);
        while let Some(slot) = next {
            next = self.entries[slot as usize].below;
            if Some(slot) != into && self.covers(write.range, slot) {
                self.remove(slot);
            }
        }
        (tail.request, into)
    }

    /// Whether all that is left of the request of `slot` lies within `range`.
    fn covers(&self, range: (u64, u64), slot: u32) -> bool {
        let request = self.entry(slot).request;
        let within = |&slot: &u32| {
            let entry = self.entry(slot);
            let first = self.first_sector(entry.lpn);
            range.0 <= first + u64::from(entry.mask.trailing_zeros())
                && first + 64 - u64::from(entry.mask.leading_zeros()) <= range.1
        };
        let same = |slot: &u32| self.entry(*slot).request == request;
        std::iter::successors(Some(slot), |&slot| self.newer(slot)).take_while(same).all(|slot| within(&slot))
            && std::iter::successors(Some(slot), |&slot| self.entry(slot).order.older())
                .take_while(same)
                .all(|slot| within(&slot))
    }

    fn first_sector(&self, lpn: u32) -> u64 {
        u64::from(lpn) * u64::from(self.full.count_ones())
    }

    /// Takes `slot` out of the entries of its page.
    pub(super) fn unchain(&mut self, slot: u32) {
        let entry = self.entries[slot as usize];
        let above = self.slots(entry.lpn).take_while(|&other| other != slot).last();
        match (above, entry.below) {
            (Some(above), below) => self.entries[above as usize].below = below,
            (None, Some(below)) => self.index.replace(entry.lpn, below),
            (None, None) => self.index.remove(entry.lpn),
        }
    }

    /// All that is buffered of `lpn` as one entry; `carry` is told which contents go where, and how many sectors.
    pub(crate) fn assembled(&mut self, lpn: u32, mut carry: impl FnMut(usize, usize, u32)) -> Option<u32> {
        let newest = self.slot(lpn)?;
        while let Some(older) = self.entries[newest as usize].below {
            let had = self.entries[newest as usize].mask;
            let add = self.entries[older as usize].mask & !had;
            for (start, len) in runs(add) {
                let at = start as usize;
                carry(self.page(older) + at, self.page(newest) + at, len);
            }
            self.remove(older);
            self.held += u64::from(add.count_ones());
            self.entries[newest as usize].mask |= add;
            self.partial -= u32::from(had != self.full && had | add == self.full);
        }
        self.update_small(lpn);
        Some(newest)
    }
}

#[cfg(test)]
mod tests {
    use super::super::BufferPlan;
    use super::*;

    /// Pages of eight sectors; a write of `n` sectors from `first` in one page.
    fn write(buffer: &mut Buffer, number: u64, first: u64, n: u32) {
        let incoming = Incoming { number, stream: 0, range: (first, first + u64::from(n)) };
        let at = (first % 8) as u32;
        buffer.insert((first / 8) as u32, ((1 << n) - 1) << at, incoming);
    }
    fn queued(buffer: &Buffer) -> Vec<(u64, u32, u64)> {
        buffer.oldest_first().map(|entry| (entry.request, entry.lpn, entry.mask)).collect()
    }

    #[test]
    fn a_write_joins_the_tail_that_it_continues_and_drops_what_it_covers() {
        let plan = BufferPlan { by_request: true, merge: false, ..BufferPlan::LRU };
        let mut buffer = Buffer::for_tests(plan, 10, 0xff);
        write(&mut buffer, 1, 0, 4);
        write(&mut buffer, 2, 4, 2);
        assert_eq!(queued(&buffer), [(1, 0, 0x3f)], "it goes on");
        write(&mut buffer, 3, 20, 2);
        write(&mut buffer, 4, 6, 2);
        assert_eq!(queued(&buffer), [(1, 0, 0x3f), (3, 2, 0x30), (4, 0, 0xc0)], "not at the tail");
        write(&mut buffer, 5, 1, 2);
        assert_eq!((buffer.mask(0), buffer.slots(0).count(), buffer.partial_pages()), (0xff, 3, 4));
        write(&mut buffer, 6, 5, 3);
        let left = [(1, 0, 0x3f), (3, 2, 0x30), (5, 0, 6), (6, 0, 0xe0)];
        assert_eq!(queued(&buffer), left, "what is covered is dropped, what is covered in part is not");
        let oldest = buffer.oldest().expect("an entry");
        assert!(buffer.leaves_first(oldest) && !buffer.leaves_first(buffer.slot(0).expect("an entry")));
        buffer.trim(0, 0x0f);
        assert_eq!(queued(&buffer), [(1, 0, 0x30), (3, 2, 0x30), (6, 0, 0xe0)]);
        let whole = buffer.assembled(0, |_, _, _| ()).expect("an entry");
        assert_eq!((buffer.entry(whole).mask, buffer.len(), buffer.held), (0xf0, 2, 6));
        buffer.take(whole);
        assert_eq!((queued(&buffer), buffer.mask(0)), (vec![(3, 2, 0x30)], 0));
    }
}
