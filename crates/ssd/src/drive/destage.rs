//! The write buffer at work: writes go in, and what the policy chooses leaves for flash.

use nandle_io::Op;
use nandle_nand::OpId;
use smallvec::SmallVec;

use super::Ssd;
use super::demand::{Asking, Demand, Wait, reserve_one};
use super::queue::Blocked;
use super::request::Request;
use crate::buffer::{Buffer, Entry, Incoming, Victims};
use crate::config::QueueOrder;
use crate::flash::{Part, Ticket, Write};
use crate::media::Contents;
use crate::space::{GroupId, PageClass};

/// What decides whether a write of one page finds room: its plane if that is fixed, its group and, where page types are
/// chosen, the class of its page.
type Takes = (Option<u32>, GroupId, Option<PageClass>);

/// Entries of the buffer that are looked at where the policy's choice has to wait.
const WINDOW: usize = 32;

impl Ssd {
    /// Host bookkeeping of one write sub-request, before it takes effect.
    #[inline(always)]
    pub(super) fn count_part(&mut self, lpn: u32, mask: u64) {
        if mask != self.flash.full_mask() {
            self.flash.stats_mut().partial_writes += 1;
            let buffered = self.buffer.as_ref().map_or(0, |b| b.mask(lpn));
            if (self.flash.stored(lpn, u64::MAX) | buffered) & !mask != 0 {
                self.flash.stats_mut().partial_updates += 1;
            }
        }
    }

    /// Notes how much room a write will need in the buffer.
    #[inline(always)]
    pub(super) fn claim_room(&mut self, slot: u32) {
        let Some(buffer) = &self.buffer else { return };
        let Request { op: Op::Write, fua: false, lsn, sectors, .. } = self.requests[slot] else {
            return;
        };
        let (lpn, mask, mut cursor) = self.part(lsn, sectors, 0);
        let mut short = buffer.takes(lpn, mask);
        while cursor < sectors {
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            cursor += len;
            short += buffer.takes(lpn, mask);
        }
        self.requests[slot].short = short;
        self.short += short;
    }

    /// Puts a write into the buffer, which makes room for it.
    pub(super) fn write_buffered(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, stream, number, .. } = self.requests[slot];
        while self.requests[slot].cursor < sectors {
            let cursor = self.requests[slot].cursor;
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            let takes = loop {
                let Some(buffer) = &mut self.buffer else { return None };
                let drains = buffer.drains();
                let takes = buffer.takes(lpn, mask);
                let missing = buffer.short_of(takes);
                if missing == 0 && !drains {
                    break takes;
                }
                // Room is made for everything that waits, not only for the first; room that is on its
                // way counts.
                let wanted = missing.max(buffer.short_of(self.short));
                // What waits in pages that are being filled leaves only with more.
                let gathered = self.flash.media().open_pages().iter().map(|page| u64::from(page.release));
                if !drains && buffer.leaving() - gathered.sum::<u64>() >= wanted {
                    return Some(Blocked::Buffer);
                }
                buffer.begin_draining();
                if self.flash.media().is_held() {
                    return Some(Blocked::Controller);
                }
                if !self.evict() {
                    let leaving = self.buffer.as_ref().is_some_and(|b| b.leaving() > 0);
                    return Some(if leaving { Blocked::Buffer } else { Blocked::Flash });
                }
            };
            self.count_part(lpn, mask);
            let unit = self.unit();
            let Some(buffer) = &mut self.buffer else { return None };
            let hit = buffer.slot(lpn).is_some();
            let stats = self.flash.stats_mut();
            stats.buffer_hits += u64::from(hit);
            stats.buffer_misses += u64::from(!hit);
            let request = &mut self.requests[slot];
            let from = cursor as usize * unit;
            let bytes = &request.data[from..from + len as usize * unit];
            let new = takes.min(request.short);
            let write = Incoming { number, stream, range: (lsn, lsn + sectors) };
            let entry = buffer.insert(lpn, mask, write);
            let page = buffer.page(entry);
            let array = self.flash.media_mut().array_mut();
            array.set_aside(page + mask.trailing_zeros() as usize, bytes);
            request.cursor += len;
            request.short -= new;
            self.short -= new;
        }
        None
    }

    /// What entries of the buffer that leave together may take.
    fn demand_of(&self, slots: &[u32]) -> Demand {
        let mut demand = Demand::default();
        let Some(buffer) = &self.buffer else { return demand };
        let (full, count) = (self.flash.full_mask(), slots.len() as u32);
        for &slot in slots {
            let entry = buffer.entry(slot);
            let &Entry { lpn, stream, alone, .. } = entry;
            let part = Asking { lpn, stream, full: entry.mask == full, alone };
            demand.add(part, count, self.schemes.reach(), &self.flash);
        }
        demand
    }

    /// Makes sure of what these entries may take.
    #[inline]
    fn reserve_entries(&mut self, slots: &[u32]) -> Result<Ticket, Wait> {
        if let (&[slot], Some(buffer), true) = (slots, &self.buffer, self.schemes.reach_is_least()) {
            let &Entry { lpn, stream, mask, alone, .. } = buffer.entry(slot);
            let full = mask == self.flash.full_mask();
            if let Some(ticket) = reserve_one(&self.flash, Asking { lpn, stream, full, alone }) {
                return Ok(ticket);
            }
        }
        self.demand_of(slots).reserve(&mut self.flash)
    }

    /// The oldest entry of the buffer, of those looked at, that finds room.
    #[cold]
    fn other_victim(&self) -> Option<u32> {
        let buffer = self.buffer.as_ref()?;
        if self.wait_for.no_victim
            || self.config.queue.order != QueueOrder::Plane
            || !self.flash.space().stripes_by_number()
        {
            return None;
        }
        let (space, full, alike) =
            (self.flash.space(), self.flash.full_mask(), self.schemes.reach_is_least());
        // Where a write takes one page, what found none speaks for all that would take the same.
        let typed = space.chooses_types();
        let mut without: SmallVec<[Takes; 8]> = SmallVec::new();
        let oldest = std::iter::successors(buffer.oldest(), |&slot| buffer.newer(slot)).take(WINDOW);
        oldest.into_iter().find(|&slot| {
            let &Entry { lpn, mask, stream, alone, .. } = buffer.entry(slot);
            let class = typed.then_some(PageClass { full: mask == full, alone });
            let takes = (space.home_plane(lpn), self.flash.host_group(lpn, stream), class);
            if !buffer.leaves_first(slot) || alike && without.contains(&takes) {
                return false;
            }
            let finds = self.demand_of(&[slot]).is_met(&self.flash);
            if !finds {
                without.push(takes);
            }
            finds
        })
    }

    /// While dies idle and more than half of the buffer is taken, what would leave next leaves: the policy's
    /// choice, or the oldest entry for an idle die where that is busy.
    #[inline(never)]
    pub(super) fn clean_ahead(&mut self) {
        while self.buffer.as_ref().is_some_and(Buffer::is_half_full)
            && !self.flash.media().is_held()
            && self.flash.media().has_idle_die()
        {
            let Some(buffer) = &mut self.buffer else { return };
            let slots = self.schemes.destage(&self.flash, buffer);
            let idle = |slot: u32| {
                let plane = self.flash.space().home_plane(buffer.entry(slot).lpn);
                plane.is_none_or(|plane| self.flash.media().has_idle_die_at(plane))
            };
            let slots = if slots.first().is_none_or(|&slot| idle(slot)) {
                slots
            } else {
                let oldest = std::iter::successors(buffer.oldest(), |&slot| buffer.newer(slot)).take(WINDOW);
                let Some(other) = oldest.into_iter().find(|&slot| buffer.leaves_first(slot) && idle(slot))
                else {
                    return;
                };
                Victims::from_slice(&[other])
            };
            if !self.send_to_flash(slots) {
                return;
            }
        }
    }

    /// Sends the policy's next victims to flash, together; false if there is no room for them.
    pub(super) fn evict(&mut self) -> bool {
        let Some(buffer) = &mut self.buffer else { return false };
        let slots = self.schemes.destage(&self.flash, buffer);
        self.send_to_flash(slots)
    }

    /// Sends entries of the buffer to flash, together with what belongs to them; false if there is no room.
    fn send_to_flash(&mut self, mut slots: Victims) -> bool {
        let Some(buffer) = &mut self.buffer else { return false };
        if self.schemes.reach().joins_borders {
            buffer.join_border(&mut slots);
        }
        if !buffer.merges() {
            let chosen = slots.first().copied();
            slots.retain(|slot| buffer.leaves_first(*slot));
            // A policy that does not know of older entries of its page chose: those leave first.
            if slots.is_empty() {
                slots.extend(chosen.and_then(|slot| buffer.slots(buffer.entry(slot).lpn).last()));
            }
        }
        if slots.len() > 1 {
            // What leaves together goes to the same blocks.
            let group = |slot: u32| {
                let entry = buffer.entry(slot);
                self.flash.host_group(entry.lpn, entry.stream)
            };
            let first = group(slots[0]);
            slots.retain(|slot| group(*slot) == first);
        }
        if slots.len() > 1 && !self.demand_of(&slots).is_met(&self.flash) {
            slots.truncate(1);
        }
        if slots.is_empty() {
            return false;
        }
        let ticket = match self.reserve_entries(&slots) {
            Ok(ticket) => ticket,
            Err(Wait) => {
                // What the policy chose waits for its plane; the oldest entry that goes to another one leaves.
                let Some(other) = self.other_victim() else {
                    self.wait_for.no_victim = true;
                    return false;
                };
                slots.clear();
                slots.push(other);
                let Ok(ticket) = self.reserve_entries(&slots) else { return false };
                ticket
            }
        };
        self.wait_for.no_victim = false;
        match slots.as_slice() {
            &[slot] => self.send_one(slot, ticket),
            all => self.send_together(all, ticket),
        }
    }

    /// Sends one entry of the buffer to flash by itself: mostly there is no other.
    #[inline(always)]
    fn send_one(&mut self, slot: u32, mut ticket: Ticket) -> bool {
        let Some(buffer) = &self.buffer else { return false };
        self.prefetch_next(buffer, slot);
        let &Entry { lpn, mask, .. } = buffer.entry(slot);
        let load = self.schemes.look_up(&mut self.flash, lpn, mask);
        if self.flash.map().cache().is_some() {
            let Ok(again) = self.reserve_entries(&[slot]) else { return false };
            ticket = again;
        }
        let Some(entry) = self.take_entry(slot) else { return false };
        let Some(buffer) = &self.buffer else { return false };
        let parts = [leaving(buffer, &entry, slot, load)];
        let write = Write { parts: &parts, request: None, stream: entry.stream, range: (0, 0) };
        self.schemes.place(&mut self.flash, ticket, &write);
        self.settle_objects();
        true
    }

    /// The entries that came after `slot` mostly leave after it, and came long ago: brings what is known of the next three
    /// pages into the processor's cache, the nearer its turn the more of it.
    #[inline(always)]
    fn prefetch_next(&self, buffer: &Buffer, slot: u32) {
        let mut leaving = std::iter::successors(buffer.newer(slot), |&slot| buffer.newer(slot));
        let mut next = || leaving.next().map(|slot| buffer.entry(slot).lpn);
        if let Some(lpn) = next() {
            self.flash.prefetch(lpn);
        }
        if let Some(lpn) = next() {
            buffer.prefetch_slot(lpn);
            self.flash.fragments().prefetch(lpn);
        }
        if let Some(lpn) = next() {
            buffer.prefetch_run(lpn);
            self.flash.fragments().prefetch_leaf(lpn);
        }
    }

    /// Sends entries of the buffer to flash as one write.
    #[inline(never)]
    fn send_together(&mut self, slots: &[u32], mut ticket: Ticket) -> bool {
        let mut loads: SmallVec<[Option<OpId>; 4]> = SmallVec::new();
        for &slot in slots {
            let Some(buffer) = &self.buffer else { return false };
            let &Entry { lpn, mask, .. } = buffer.entry(slot);
            loads.push(self.schemes.look_up(&mut self.flash, lpn, mask));
        }
        if self.flash.map().cache().is_some() {
            let Ok(again) = self.reserve_entries(slots) else { return false };
            ticket = again;
        }
        let mut entries: SmallVec<[(u32, Entry, Option<OpId>); 4]> = SmallVec::new();
        for (&slot, &load) in slots.iter().zip(&loads) {
            let Some(entry) = self.take_entry(slot) else { return false };
            entries.push((slot, entry, load));
        }
        entries.sort_unstable_by_key(|(_, entry, _)| entry.lpn);
        let Some(buffer) = &self.buffer else { return false };
        let stream = entries[0].1.stream;
        let parts = entries.iter().map(|(slot, entry, load)| leaving(buffer, entry, *slot, *load));
        let parts: SmallVec<[Part<'_>; 4]> = parts.collect();
        let write = Write { parts: &parts, request: None, stream, range: (0, 0) };
        self.schemes.place(&mut self.flash, ticket, &write);
        drop(parts);
        self.settle_objects();
        true
    }

    /// Takes an entry out of the buffer, to be placed.
    #[inline(always)]
    fn take_entry(&mut self, slot: u32) -> Option<Entry> {
        let buffer = self.buffer.as_mut()?;
        let full = self.flash.full_mask();
        let stats = self.flash.stats_mut();
        stats.partial_pages_sum += u64::from(buffer.partial_pages());
        let entry = buffer.take(slot);
        stats.evictions += 1;
        stats.evicted_partial_pages += u64::from(entry.mask != full);
        Some(entry)
    }
}

/// An entry that was in `slot` of the buffer, as part of a write.
#[inline(always)]
fn leaving<'a>(buffer: &Buffer, entry: &Entry, slot: u32, load: Option<OpId>) -> Part<'a> {
    let &Entry { lpn, mask, alone, .. } = entry;
    let contents = Contents::Aside { page: buffer.page(slot) };
    Part { lpn, mask, held: 0, alone, contents, release: mask.count_ones(), load, rewrite: None }
}
