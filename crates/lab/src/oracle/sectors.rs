//! What each sector may hold.

use std::ops::Range;

use super::complaint::Found;

/// Bytes that the oracle keeps (and the drive must keep) per sector.
pub const UNIT: usize = 8;

const LSN_BITS: u32 = 24;

#[derive(Clone, Copy, Debug, Default)]
struct Sector {
    /// Oldest stamp that a reader may still see.
    acknowledged: u64,
    /// Oldest stamp that may be seen after a power cut.
    durable: u64,
    /// Newest stamp submitted.
    newest: u64,
    /// Newest stamp that was a trim, or a power cut that left nothing.
    trimmed: u64,
}

/// A range of stamps for every sector.
#[derive(Clone, Debug)]
pub(super) struct Sectors(Vec<Sector>);

/// A sector that holds none of the writes that it may hold.
pub(super) struct Wrong {
    pub found: Found,
    /// Oldest and newest stamp that would have been right.
    pub expected: (u64, u64),
}

impl Sectors {
    /// So many, never written.
    pub fn new(sectors: u64) -> Self {
        Self(vec![Sector::default(); sectors as usize])
    }

    fn of(&mut self, range: Range<u64>) -> &mut [Sector] {
        &mut self.0[range.start as usize..range.end as usize]
    }

    /// A write or trim is on its way.
    pub fn submitted(&mut self, range: Range<u64>, stamp: u64, trim: bool) {
        for s in self.of(range) {
            s.newest = stamp;
            s.trimmed = if trim { stamp } else { s.trimmed };
        }
    }

    /// A write or trim is complete.
    pub fn acknowledged(&mut self, range: Range<u64>, stamp: u64) {
        self.of(range).iter_mut().for_each(|s| s.acknowledged = s.acknowledged.max(stamp));
    }

    /// A write or trim has to survive a power cut.
    pub fn durable(&mut self, range: Range<u64>, stamp: u64) {
        self.of(range).iter_mut().for_each(|s| s.durable = s.durable.max(stamp));
    }

    /// The oldest stamps that a read submitted now may return.
    pub fn floors(&self, range: Range<u64>) -> Vec<u64> {
        self.0[range.start as usize..range.end as usize].iter().map(|s| s.acknowledged).collect()
    }

    /// The oldest stamp that may be found after a power cut.
    pub fn durable_floor(&self, lsn: u64) -> u64 {
        self.0[lsn as usize].durable
    }

    /// Compares what a sector was found to hold with what it may hold: nothing older than `floor`.
    pub fn compare(&self, lsn: u64, bytes: &[u8], floor: u64) -> Result<(), Wrong> {
        let sector = self.0[lsn as usize];
        let found = find(lsn, bytes);
        let good = match found {
            Found::Nothing => floor == 0 || sector.trimmed >= floor,
            Found::Write(stamp) => stamp != 0 && (floor..=sector.newest).contains(&stamp),
            Found::Foreign => false,
        };
        if good { Ok(()) } else { Err(Wrong { found, expected: (floor, sector.newest) }) }
    }

    /// What a power cut at `stamp` left in a sector is the truth from now on.
    pub fn survived(&mut self, lsn: u64, bytes: &[u8], stamp: u64) {
        let s = &mut self.0[lsn as usize];
        *s = match find(lsn, bytes) {
            Found::Write(found) => Sector { acknowledged: found, durable: found, newest: found, trimmed: 0 },
            _ if s.newest == 0 => Sector::default(),
            _ => Sector { acknowledged: stamp, durable: stamp, newest: stamp, trimmed: stamp },
        };
    }

    /// A power cut left a sector that the drive does not return.
    pub fn unreturned(&mut self, lsn: u64) {
        let s = &mut self.0[lsn as usize];
        s.acknowledged = s.durable;
    }

    /// The next sectors from `lsn` on that have ever been written or trimmed: the first, and how many, `most`
    /// at most.
    pub fn touched(&self, lsn: u64, most: u64) -> Option<(u64, u64)> {
        let rest = self.0.get(lsn as usize..)?;
        let skipped = rest.iter().position(|s| s.newest > 0)?;
        let run = rest[skipped..].iter().take(most as usize).take_while(|s| s.newest > 0).count();
        Some((lsn + skipped as u64, run as u64))
    }
}

/// What the write `stamp` puts into sectors.
pub(super) fn contents(range: Range<u64>, stamp: u64) -> Vec<u8> {
    range.flat_map(|lsn| (stamp << LSN_BITS | own(lsn)).to_le_bytes()).collect()
}

fn own(lsn: u64) -> u64 {
    lsn & ((1 << LSN_BITS) - 1)
}

fn find(lsn: u64, bytes: &[u8]) -> Found {
    let Ok(bytes) = <[u8; UNIT]>::try_from(bytes) else { return Found::Foreign };
    match u64::from_le_bytes(bytes) {
        0 => Found::Nothing,
        word if own(word) == own(lsn) => Found::Write(word >> LSN_BITS),
        _ => Found::Foreign,
    }
}
