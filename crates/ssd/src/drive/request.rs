//! Host requests that are under way.

use nandle_io::{Op, Status};

/// A request that was submitted and is not complete.
#[derive(Clone, Debug)]
pub(super) struct Request {
    pub id: u64,
    pub op: Op,
    pub fua: bool,
    pub stream: u16,
    pub status: Status,
    pub lsn: u64,
    pub sectors: u64,
    /// Sectors already placed.
    pub cursor: u64,
    /// Buffered sectors that it was short of when it came, for a write into the buffer.
    pub short: u64,
    /// What it still waits for.
    pub remaining: u32,
    /// What it brings or returns. In a vacant slot, memory for the next one, in which anything may be.
    pub data: Vec<u8>,
    pub unreadable: Vec<(u64, u64)>,
    pub number: u64,
    /// The stream policy has seen it.
    pub noticed: bool,
    /// Its place among the commands that take effect in the order of their submission.
    pub turn: u64,
}

impl Request {
    const VACANT: Self = Self {
        id: 0,
        op: Op::Flush,
        fua: false,
        stream: 0,
        status: Status::Ok,
        lsn: 0,
        sectors: 0,
        cursor: 0,
        short: 0,
        remaining: 0,
        data: Vec::new(),
        unreadable: Vec::new(),
        number: 0,
        noticed: false,
        turn: 0,
    };
}

/// Bytes of a write's data that a vacant slot keeps room for at most, and all slots together.
const MOST_KEPT: usize = 128 << 10;
const MOST_KEPT_OF_ALL: usize = 16 << 20;

/// All of them, in slots.
#[derive(Clone, Debug, Default)]
pub(super) struct Requests {
    slots: Vec<Request>,
    free: Vec<u32>,
    next_number: u64,
}

impl Requests {
    /// A slot for a request, numbered, and what is in it.
    #[inline(always)]
    pub fn enter(&mut self) -> (u32, &mut Request) {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Request::VACANT);
            (self.slots.len() - 1) as u32
        });
        let request = &mut self.slots[slot as usize];
        request.number = self.next_number;
        self.next_number += 1;
        (slot, request)
    }
    /// A slot is free again.
    #[inline]
    pub fn leave(&mut self, slot: u32) {
        if self[slot].data.capacity() > 0 {
            self.trim(slot);
        }
        self.free.push(slot);
    }
    /// Memory that is new to the process costs a fault for every 4 KiB: a slot keeps what a large write takes, and of
    /// many slots each its share.
    #[inline(never)]
    fn trim(&mut self, slot: u32) {
        let most = MOST_KEPT.min(MOST_KEPT_OF_ALL / self.slots.len());
        let data = &mut self[slot].data;
        if data.capacity() > most {
            *data = Vec::new();
        }
    }
}

impl std::ops::Index<u32> for Requests {
    type Output = Request;
    #[inline]
    fn index(&self, slot: u32) -> &Request {
        &self.slots[slot as usize]
    }
}

impl std::ops::IndexMut<u32> for Requests {
    #[inline]
    fn index_mut(&mut self, slot: u32) -> &mut Request {
        &mut self.slots[slot as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_keeps_the_memory_of_a_large_write_and_many_slots_keep_no_more_than_few() {
        let kept = |number: usize, bytes: usize| {
            let mut requests = Requests::default();
            let slots: Vec<u32> = (0..number).map(|_| requests.enter().0).collect();
            for &slot in &slots {
                requests[slot].data = vec![0; bytes];
            }
            slots.into_iter().for_each(|slot| requests.leave(slot));
            requests.slots.iter().map(|request| request.data.capacity()).sum::<usize>()
        };
        assert_eq!(kept(16, MOST_KEPT), 16 * MOST_KEPT);
        assert_eq!(kept(16, MOST_KEPT + 1), 0);
        assert_eq!((kept(1000, MOST_KEPT), kept(1000, 4096)), (0, 1000 * 4096));
    }
}
