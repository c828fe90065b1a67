//! Host reads: what is in the buffer, and flash reads for the rest.

use nandle_io::Status;
use nandle_nand::Cause;

use super::Ssd;
use super::queue::Blocked;
use super::request::Request;
use crate::buffer::Buffer;
use crate::map::runs;

/// Most logical pages of a read of which is known beforehand where they lie.
const AHEAD: u32 = 64;

impl Ssd {
    #[inline(always)]
    pub(super) fn read(&mut self, slot: u32) {
        let Request { lsn, sectors, .. } = self.requests[slot];
        let mut cursor = 0;
        let mut reads = std::mem::take(&mut self.reads);
        let mut data = std::mem::take(&mut self.requests[slot].data);
        data.clear();
        data.reserve(sectors as usize * self.unit());
        let mut flashed = false;
        while cursor < sectors {
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            if cursor == 0 && len < sectors {
                self.prefetch_parts(lsn, sectors);
            }
            cursor += len;
            let buffered = self.buffer.as_ref().map_or(0, |b| b.mask(lpn)) & mask;
            let rest = mask & !buffered;
            let before = reads.len();
            if rest != 0 {
                let load = self.schemes.look_up(&mut self.flash, lpn, rest);
                self.flash.read(lpn, rest, Cause::Host, Some(slot), load.as_slice(), &mut reads);
                self.requests[slot].remaining += (reads.len() - before) as u32;
                flashed |= !reads.is_empty();
                if let Some(op) = load
                    && reads.len() == before
                {
                    // Only the map says that there is nothing: its load is waited for.
                    self.flash.media_mut().wait_for(op, slot);
                    self.requests[slot].remaining += 1;
                }
                let stored = self.flash.stored(lpn, rest);
                self.flash.stats_mut().unmapped_reads += u64::from(stored != rest);
            }
            if self.unit() > 0 {
                if cursor < sectors {
                    self.flash.prefetch_bytes(lpn + 1);
                }
                self.collect_data(lpn, mask, buffered, &mut data);
            }
            let gone = self.flash.unreadable(lpn, rest);
            if gone != 0 {
                self.read_failed(slot, lpn, gone);
            }
            if before > 2 {
                // Only pages of this logical page can be shared with the next one.
                reads.drain(..before);
            }
        }
        if flashed {
            self.schemes.host_read(&self.flash, lsn, sectors);
        }
        reads.clear();
        self.reads = reads;
        self.requests[slot].data = data;
        self.release(slot);
    }

    /// Brings what is known of the pages of a read into the processor's cache: they may lie anywhere.
    #[inline(never)]
    fn prefetch_parts(&self, lsn: u64, sectors: u64) {
        let page = |lsn: u64| self.flash.media().split(lsn).0;
        let (first, last) = (page(lsn), page(lsn + sectors - 1));
        (first..=last.min(first + AHEAD)).for_each(|lpn| self.flash.prefetch_stored(lpn));
    }

    /// Whether what is buffered of a read leaves before it is answered.
    #[inline]
    pub(super) fn waits_for_destage(&self, slot: u32) -> bool {
        let destages = self.buffer.as_ref().is_some_and(Buffer::destages_reads);
        destages && !self.flash.is_read_only() && {
            let Request { lsn, sectors, .. } = self.requests[slot];
            self.is_buffered(lsn, sectors)
        }
    }

    /// Whether some of these sectors are in the buffer.
    fn is_buffered(&self, lsn: u64, sectors: u64) -> bool {
        let Some(buffer) = &self.buffer else { return false };
        let mut cursor = 0;
        while cursor < sectors {
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            if buffer.mask(lpn) & mask != 0 {
                return true;
            }
            cursor += len;
        }
        false
    }

    /// Whether the newest buffered request that has some of these sectors has all of them.
    fn is_in_one_request(&self, lsn: u64, sectors: u64) -> bool {
        let Some(buffer) = &self.buffer else { return false };
        let (mut newest, mut whole, mut cursor) = (None, true, 0);
        while cursor < sectors {
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            let found = buffer.newest_of(lpn, mask);
            whole &=
                found.is_some_and(|(request, has)| has == mask && *newest.get_or_insert(request) == request);
            cursor += len;
        }
        whole
    }

    /// Sends what is queued before the newest sectors of a read to flash, and it itself; the read is answered when the
    /// dies have it.
    pub(super) fn read_behind_destage(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, .. } = self.requests[slot];
        if self.requests[slot].cursor == 0 && self.is_in_one_request(lsn, sectors) {
            let mut data = std::mem::take(&mut self.requests[slot].data);
            data.clear();
            let mut cursor = 0;
            while cursor < sectors && self.unit() > 0 {
                let (lpn, mask, len) = self.part(lsn, sectors, cursor);
                self.collect_data(lpn, mask, mask, &mut data);
                cursor += len;
            }
            let request = &mut self.requests[slot];
            (request.data, request.cursor) = (data, sectors);
        }
        while self.is_buffered(lsn, sectors) {
            if self.flash.media().is_held() {
                return Some(Blocked::Controller);
            }
            if !self.evict() {
                return Some(Blocked::Flash);
            }
        }
        if self.buffer.as_ref().is_some_and(|buffer| buffer.leaving() > 0) {
            return Some(Blocked::Buffer);
        }
        if self.requests[slot].cursor == 0 {
            self.read(slot)
        } else {
            self.release(slot)
        }
        None
    }

    /// What a read of `sectors` sectors from `lsn` would return now, and the sectors that it would not
    /// (first, how many), in no time.
    pub fn contents(&self, lsn: u64, sectors: u64) -> (Vec<u8>, Vec<(u64, u64)>) {
        let (mut data, mut gone) = (Vec::new(), Vec::new());
        let mut cursor = 0;
        while cursor < sectors {
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            cursor += len;
            let buffered = self.buffer.as_ref().map_or(0, |b| b.mask(lpn)) & mask;
            self.collect_data(lpn, mask, buffered, &mut data);
            let base = u64::from(lpn) * u64::from(self.flash.sectors_per_page());
            let lost = runs(self.flash.unreadable(lpn, mask & !buffered));
            gone.extend(lost.map(|(start, len)| (base + u64::from(start), u64::from(len))));
        }
        (data, gone)
    }

    /// The flash does not return the sectors `gone` of `lpn`.
    #[cold]
    fn read_failed(&mut self, slot: u32, lpn: u32, gone: u64) {
        self.flash.stats_mut().unreadable_sectors += u64::from(gone.count_ones());
        let base = u64::from(lpn) * u64::from(self.flash.sectors_per_page());
        let request = &mut self.requests[slot];
        request.status = Status::MediaError;
        for (start, len) in runs(gone) {
            let (first, count) = (base + u64::from(start), u64::from(len));
            match request.unreadable.last_mut() {
                Some((last, n)) if *last + *n == first => *n += count,
                _ => request.unreadable.push((first, count)),
            }
        }
    }

    fn collect_data(&self, lpn: u32, mask: u64, buffered: u64, out: &mut Vec<u8>) {
        let unit = self.unit();
        let first = mask.trailing_zeros();
        let array = self.flash.array();
        let fragments = self.flash.fragments().get(lpn, array);
        let gone = self.flash.unreadable(lpn, mask);
        // Mostly all of it lies in one place.
        if let &[f] = fragments.as_slice()
            && mask & !f.mask | buffered | gone == 0
        {
            let at = (first as i32 + i32::from(f.shift)) as u32;
            for sector in array.sectors(f.ppn, at, mask.count_ones()) {
                out.extend_from_slice(sector);
            }
            return;
        }
        let base = out.len();
        out.resize(base + mask.count_ones() as usize * unit, 0);
        let place = |sector: u32| base + (sector - first) as usize * unit;
        for f in fragments {
            for (start, len) in runs(f.mask & mask & !buffered & !gone) {
                let at = (start as i32 + i32::from(f.shift)) as u32;
                let bytes = &mut out[place(start)..place(start) + len as usize * unit];
                array.read(f.ppn, at, bytes);
            }
        }
        if let Some(buffer) = &self.buffer {
            let mut left = buffered;
            for slot in buffer.slots(lpn) {
                let page = buffer.page(slot);
                let here = left & buffer.entry(slot).mask;
                left &= !here;
                for (start, len) in runs(here) {
                    let bytes = &mut out[place(start)..place(start) + len as usize * unit];
                    array.read_aside(page + start as usize, bytes);
                }
            }
        }
    }
}
