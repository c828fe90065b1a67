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
    /// Appends to zones that are open.
    Appends(Appends),
}

/// Zones that are written from their beginning to their end, a few at a time.
pub(super) struct Appends {
    /// Zones of the range, and blocks of a zone.
    pub zones: u64,
    pub zone_blocks: u64,
    /// Number, and blocks written, of each open zone.
    pub open: Vec<(u64, u64)>,
}

impl Appends {
    /// `active` zones drawn from all.
    pub fn new(zones: u64, zone_blocks: u64, active: u32, stream: &mut Stream) -> Self {
        let mut appends = Self { zones, zone_blocks, open: Vec::new() };
        for _ in 0..active {
            let zone = appends.unopened(stream);
            appends.open.push((zone, 0));
        }
        appends
    }

    /// A zone that is not open, each equally likely.
    fn unopened(&self, stream: &mut Stream) -> u64 {
        loop {
            let zone = stream.below(self.zones);
            if self.open.iter().all(|(open, _)| *open != zone) {
                return zone;
            }
        }
    }

    fn next(&mut self, stream: &mut Stream) -> u64 {
        let slot = stream.below(self.open.len() as u64) as usize;
        let (zone, written) = self.open[slot];
        if written + 1 < self.zone_blocks {
            self.open[slot].1 += 1;
        } else {
            self.open.swap_remove(slot);
            let other = self.unopened(stream);
            self.open.push((other, 0));
        }
        zone * self.zone_blocks + written
    }
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
            Self::Appends(appends) => appends.next(stream),
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
