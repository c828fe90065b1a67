//! Writes that go straight to flash, together with what the buffer holds of their pages.

use nandle_nand::OpId;

use super::Ssd;
use super::demand::{Asking, Demand, Wait, reserve_one};
use super::queue::Blocked;
use super::request::Request;
use crate::flash::page::{Run, put_run};
use crate::flash::{Part, Ticket, Write};
use crate::map::run_mask;
use crate::media::{Contents, Waiter};
use crate::space::{GroupId, PageClass};

/// What a write into flash has for one logical page.
#[derive(Clone, Copy)]
struct Piece {
    lpn: u32,
    /// Sectors of the request, and how many.
    mask: u64,
    len: u64,
    load: Option<OpId>,
    /// Where they begin in the request's data.
    from: usize,
    /// With those that waited in the buffer: all of them, and how many were buffered.
    union: u64,
    release: u32,
    /// Where in the buffer their contents are, if some were.
    page: usize,
}

impl Piece {
    #[inline]
    fn new((lpn, mask, len): (u32, u64, u64)) -> Self {
        Self { lpn, mask, len, load: None, from: 0, union: mask, release: 0, page: 0 }
    }
    /// The contents of those that did not wait in the buffer are in `data`.
    #[inline]
    fn part<'a>(&self, alone: bool, data: &'a [u8], unit: usize) -> Part<'a> {
        let &Self { lpn, union: mask, release, load, page, .. } = self;
        let contents = if release > 0 {
            Contents::Aside { page }
        } else {
            let bytes = &data[self.from..self.from + self.len as usize * unit];
            Contents::Bytes { bytes, first: self.mask.trailing_zeros() }
        };
        Part { lpn, mask, held: 0, alone, contents, release, load, rewrite: None }
    }
}

impl Ssd {
    /// Places a write straight into flash, together with what the buffer holds of its pages.
    pub(super) fn write_through(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, .. } = self.requests[slot];
        let spp = u64::from(self.flash.sectors_per_page());
        let (lpn, start) = self.flash.media().split(lsn);
        if start + sectors <= spp {
            let mask = run_mask(start as u32, sectors as u32);
            return self.write_pieces(slot, [Piece::new((lpn, mask, sectors))], true);
        }
        self.write_parts(slot)
    }

    /// On a plain drive, places a write that nobody is in front of, if it falls in one logical page of which nothing else
    /// stays: what the general way comes to then, in a third fewer instructions. Whether it did; if not, nothing happened.
    #[inline(always)]
    pub(super) fn write_run(&mut self, slot: u32) -> bool {
        let Request { lsn, sectors, .. } = self.requests[slot];
        let flash = &mut self.flash;
        let alone = self.buffer.is_none() && self.schemes.leave_writes_alone();
        if !alone || flash.is_read_only() || flash.media().controller().is_some() {
            return false;
        }
        let (lpn, start) = flash.media().split(lsn);
        if start + sectors > u64::from(flash.sectors_per_page()) {
            return false;
        }
        let (start, len) = (start as u32, sectors as u32);
        let mask = run_mask(start, len);
        let full = mask == flash.full_mask();
        let class = PageClass { full, alone: true };
        let stays = !full && flash.stored(lpn, !mask) != 0;
        if stays || !flash.has_room_of::<true>(lpn, GroupId::Host(0), class, 1) {
            return false;
        }
        let (group, plane) = (GroupId::Host(0), flash.granted_plane_of::<true>(lpn, GroupId::Host(0), class));
        flash.spend(Ticket::new(1));
        flash.count_accesses(1);
        flash.stats_mut().partial_writes += u64::from(!full);
        let contents = Contents::Bytes { bytes: &self.requests[slot].data, first: start };
        let run = Run { lpn, start, len, mask, group, plane, class };
        put_run::<true>(flash, run, Waiter::request(Some(slot)), contents, &[]);
        // What it waited for was to be placed, and is its program now.
        let request = &mut self.requests[slot];
        (request.noticed, request.cursor) = (true, sectors);
        self.wait_for.requests = 0;
        true
    }

    /// As [`Ssd::write_through`], for a request of several logical pages.
    fn write_parts(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, stream, .. } = self.requests[slot];
        let spp = u64::from(self.flash.sectors_per_page());
        loop {
            let cursor = self.requests[slot].cursor;
            if cursor == sectors {
                return None;
            }
            if self.flash.media().is_held() {
                return Some(Blocked::Controller);
            }
            let first = Piece::new(self.part(lsn, sectors, cursor));
            // A run no larger than a page that straddles a border is placed as one.
            let straddles = sectors <= spp && cursor == 0 && self.same_blocks(lsn, sectors, stream);
            let blocked = if straddles {
                let second = Piece::new(self.part(lsn, sectors, cursor + first.len));
                self.write_pieces(slot, [first, second], false)
            } else {
                self.write_pieces(slot, [first], false)
            };
            if blocked.is_some() {
                return blocked;
            }
        }
    }

    /// Places the next pieces of a request together.
    #[inline(always)]
    fn write_pieces<const N: usize>(
        &mut self,
        slot: u32,
        mut pieces: [Piece; N],
        alone: bool,
    ) -> Option<Blocked> {
        let Request { lsn, sectors, stream, mut cursor, .. } = self.requests[slot];
        let unit = self.unit();
        let Ok(mut ticket) = self.reserve_pieces(&pieces, stream, alone) else { return Some(Blocked::Flash) };
        for piece in &mut pieces {
            piece.load = self.schemes.look_up(&mut self.flash, piece.lpn, piece.mask);
        }
        // Translation pages that had to go may have taken the room.
        if self.flash.map().cache().is_some() {
            let Ok(again) = self.reserve_pieces(&pieces, stream, alone) else { return Some(Blocked::Flash) };
            ticket = again;
        }
        for piece in &mut pieces {
            self.count_part(piece.lpn, piece.mask);
            piece.from = cursor as usize * unit;
            cursor += piece.len;
            if let Some(buffer) = &mut self.buffer
                && let array = self.flash.media_mut().array_mut()
                && let Some(entry) = buffer.assembled(piece.lpn, |a, b, n| array.swap_aside(a, b, n))
            {
                let bytes = &self.requests[slot].data[piece.from..cursor as usize * unit];
                piece.page = buffer.page(entry);
                array.set_aside(piece.page + piece.mask.trailing_zeros() as usize, bytes);
                let entry = buffer.take(entry);
                (piece.union, piece.release) = (piece.mask | entry.mask, entry.mask.count_ones());
            }
        }
        let data = &self.requests[slot].data;
        let parts: [Part<'_>; N] = std::array::from_fn(|n| pieces[n].part(alone, data, unit));
        let write = Write { parts: &parts, request: Some(slot), stream, range: (lsn, lsn + sectors) };
        let programs = self.schemes.place(&mut self.flash, ticket, &write);
        self.settle_objects();
        let request = &mut self.requests[slot];
        request.remaining += programs;
        request.cursor = cursor;
        None
    }

    /// Makes sure of room for the pieces of a write, placed together.
    #[inline(always)]
    fn reserve_pieces<const N: usize>(
        &mut self,
        pieces: &[Piece; N],
        stream: u16,
        alone: bool,
    ) -> Result<Ticket, Wait> {
        let full = self.flash.full_mask();
        let asking = |piece: &Piece| Asking { lpn: piece.lpn, stream, full: piece.mask == full, alone };
        if N == 1
            && self.schemes.reach_is_least()
            && let Some(ticket) = reserve_one(&self.flash, asking(&pieces[0]))
        {
            return Ok(ticket);
        }
        let reach = self.schemes.reach();
        let mut demand = Demand::default();
        pieces.iter().for_each(|piece| demand.add(asking(piece), N as u32, reach, &self.flash));
        demand.reserve(&mut self.flash)
    }

    /// Whether the first and the last page of a request go to the same blocks.
    fn same_blocks(&self, lsn: u64, sectors: u64, stream: u16) -> bool {
        let page = |lsn: u64| self.flash.media().split(lsn).0;
        let last = page(lsn + sectors - 1);
        self.flash.host_group(page(lsn), stream) == self.flash.host_group(last, stream)
    }
}
