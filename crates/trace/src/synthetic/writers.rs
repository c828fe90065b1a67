//! Writes of one size, by where they go: what the measured drives were written with.

use nandle_random::{Alias, Permutation, Stream, Zipf};

use crate::{Error, Op, Request, Source};

/// Draws the number of the block that is written next.
pub(super) enum Place {
    /// The first, the second, ...
    InOrder { next: u64, blocks: u64 },
    /// Every block once in random order, then in another order.
    Passes { order: Permutation, next: u64 },
    /// Each equally likely.
    Uniform(u64),
    /// By rank; a scattered rank's block follows from a permutation.
    Zipf(Zipf, Option<Permutation>),
    /// A zone by its writes, then any block of it, scattered: first block and blocks of each.
    Zones(Alias, Vec<(u64, u64)>, Permutation),
}

impl Place {
    pub fn passes(blocks: u64, stream: &mut Stream) -> Self {
        Self::Passes { order: Permutation::new(blocks, stream), next: 0 }
    }

    pub fn next(&mut self, stream: &mut Stream) -> u64 {
        match self {
            Self::InOrder { next, blocks } => {
                let block = *next;
                *next = (block + 1) % *blocks;
                block
            }
            Self::Passes { order, next } => {
                if *next == order.len() {
                    (*order, *next) = (Permutation::new(order.len(), stream), 0);
                }
                *next += 1;
                order.at(*next - 1)
            }
            Self::Uniform(blocks) => stream.below(*blocks),
            Self::Zipf(law, scatter) => {
                let rank = law.sample(stream);
                scatter.as_ref().map_or(rank, |order| order.at(rank))
            }
            Self::Zones(zones, spans, scatter) => {
                let (first, blocks) = spans[zones.sample(stream)];
                scatter.at(first + stream.below(blocks))
            }
        }
    }
}

/// Writes of blocks of one size within a range of the drive.
pub(super) struct Writes {
    pub stream: Stream,
    pub place: Place,
    /// First byte of the range.
    pub base: u64,
    pub block_bytes: u64,
    pub left: u64,
    /// Placement identifier.
    pub handle: u16,
}

impl Writes {
    pub fn next(&mut self) -> Request {
        let offset = self.base + self.place.next(&mut self.stream) * self.block_bytes;
        write(offset, self.block_bytes, self.handle)
    }
}

/// A write in a closed loop.
pub(super) fn write(offset: u64, bytes: u64, handle: u16) -> Request {
    Request { time_ns: 0, offset, bytes, object: 0, stream: handle, op: Op::Write, fua: false }
}

impl Source for Writes {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        out.extend((0..count).map(|_| self.next()));
        Ok(())
    }
}

/// Zones that are written from their beginning to their end, a few at a time.
pub(super) struct Appends {
    pub stream: Stream,
    /// Zones of the range, blocks of a zone, and bytes of a block.
    pub zones: u64,
    pub zone_blocks: u64,
    pub block_bytes: u64,
    /// Whether a zone is discarded when it is opened.
    pub discard: bool,
    /// Requests to come.
    pub left: u64,
    /// Number, and blocks written, of each open zone.
    open: Vec<(u64, u64)>,
    /// The first write of a zone, after its discard.
    due: Option<Request>,
}

impl Appends {
    /// `active` of `zones` are open at a time.
    pub fn new(stream: Stream, zones: u64, zone_blocks: u64, block_bytes: u64, active: u32) -> Self {
        let (open, due) = (Vec::new(), None);
        let mut appends =
            Self { stream, zones, zone_blocks, block_bytes, discard: false, left: 0, open, due };
        for _ in 0..active {
            appends.open_another();
        }
        appends
    }

    /// Opens a zone that is not, each equally likely.
    fn open_another(&mut self) {
        let zone = loop {
            let zone = self.stream.below(self.zones);
            if self.open.iter().all(|(open, _)| *open != zone) {
                break zone;
            }
        };
        self.open.push((zone, 0));
    }

    fn next(&mut self) -> Request {
        if let Some(write) = self.due.take() {
            return write;
        }
        let slot = self.stream.below(self.open.len() as u64) as usize;
        let (zone, written) = self.open[slot];
        if written + 1 < self.zone_blocks {
            self.open[slot].1 += 1;
        } else {
            self.open.swap_remove(slot);
            self.open_another();
        }
        let block = write((zone * self.zone_blocks + written) * self.block_bytes, self.block_bytes, 0);
        if written > 0 || !self.discard {
            return block;
        }
        self.due = Some(block);
        Request { op: Op::Trim, bytes: self.zone_blocks * self.block_bytes, ..block }
    }
}

impl Source for Appends {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        out.extend((0..count).map(|_| self.next()));
        Ok(())
    }
}
