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

/// Sectors that are kept together, once one of them is written or trimmed.
const TOGETHER: usize = 1024;

/// A range of stamps for every sector. A large drive of which little is written takes little.
#[derive(Clone, Debug)]
pub(super) struct Sectors {
    count: u64,
    chunks: Vec<Option<Box<[Sector; TOGETHER]>>>,
}

/// A stamp for each sector of a read: stamps in a row that are the same, and how many. What was written at once takes
/// no room sector by sector.
#[derive(Clone, Debug, Default)]
pub(super) struct Floors(Vec<(u64, u64)>);

impl Floors {
    /// Sector by sector.
    pub fn each(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().flat_map(|&(floor, count)| std::iter::repeat_n(floor, count as usize))
    }
}

/// A sector that holds none of the writes that it may hold.
pub(super) struct Wrong {
    pub found: Found,
    /// Oldest and newest stamp that would have been right.
    pub expected: (u64, u64),
}

impl Sectors {
    /// So many, never written.
    pub fn new(sectors: u64) -> Self {
        let chunks = sectors.div_ceil(TOGETHER as u64) as usize;
        Self { count: sectors, chunks: vec![None; chunks] }
    }

    fn get(&self, lsn: u64) -> Sector {
        let (chunk, at) = (lsn as usize / TOGETHER, lsn as usize % TOGETHER);
        self.chunks[chunk].as_ref().map_or_else(Sector::default, |chunk| chunk[at])
    }

    fn change(&mut self, lsn: u64) -> &mut Sector {
        let (chunk, at) = (lsn as usize / TOGETHER, lsn as usize % TOGETHER);
        &mut self.chunks[chunk].get_or_insert_with(|| Box::new([Sector::default(); TOGETHER]))[at]
    }

    /// Calls `change` for each sector of a range.
    fn each(&mut self, range: Range<u64>, mut change: impl FnMut(&mut Sector)) {
        range.for_each(|lsn| change(self.change(lsn)));
    }

    /// A write or trim is on its way.
    pub fn submitted(&mut self, range: Range<u64>, stamp: u64, trim: bool) {
        self.each(range, |s| {
            s.newest = stamp;
            s.trimmed = if trim { stamp } else { s.trimmed };
        });
    }

    /// A write or trim is complete.
    pub fn acknowledged(&mut self, range: Range<u64>, stamp: u64) {
        self.each(range, |s| s.acknowledged = s.acknowledged.max(stamp));
    }

    /// A write or trim has to survive a power cut.
    pub fn durable(&mut self, range: Range<u64>, stamp: u64) {
        self.each(range, |s| s.durable = s.durable.max(stamp));
    }

    /// The oldest stamps that a read submitted now may return.
    pub fn floors(&self, range: Range<u64>) -> Floors {
        let mut runs: Vec<(u64, u64)> = Vec::new();
        for s in range.map(|lsn| self.get(lsn)) {
            match runs.last_mut() {
                Some((floor, count)) if *floor == s.acknowledged => *count += 1,
                _ => runs.push((s.acknowledged, 1)),
            }
        }
        Floors(runs)
    }

    /// The oldest stamp that may be found after a power cut.
    pub fn durable_floor(&self, lsn: u64) -> u64 {
        self.get(lsn).durable
    }

    /// Compares what a sector was found to hold with what it may hold: nothing older than `floor`.
    pub fn compare(&self, lsn: u64, bytes: &[u8], floor: u64) -> Result<(), Wrong> {
        let sector = self.get(lsn);
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
        *self.change(lsn) = match find(lsn, bytes) {
            Found::Write(found) => Sector { acknowledged: found, durable: found, newest: found, trimmed: 0 },
            _ if self.get(lsn).newest == 0 => return,
            _ => Sector { acknowledged: stamp, durable: stamp, newest: stamp, trimmed: stamp },
        };
    }

    /// A power cut left a sector that the drive does not return.
    pub fn unreturned(&mut self, lsn: u64) {
        self.change(lsn).acknowledged = self.durable_floor(lsn);
    }

    /// The next sectors from `lsn` on that have ever been written or trimmed: the first, and how many, `most`
    /// at most.
    pub fn touched(&self, lsn: u64, most: u64) -> Option<(u64, u64)> {
        let mut first = lsn;
        while first < self.count && self.get(first).newest == 0 {
            let chunk = first as usize / TOGETHER;
            first =
                if self.chunks[chunk].is_some() { first + 1 } else { (chunk as u64 + 1) * TOGETHER as u64 };
        }
        let run = (first..self.count).take(most as usize).take_while(|&lsn| self.get(lsn).newest > 0).count();
        (run > 0).then_some((first, run as u64))
    }
}

/// What the write `stamp` puts into sectors.
pub(super) fn contents(range: Range<u64>, stamp: u64) -> Vec<u8> {
    let mut out = Vec::with_capacity((range.end - range.start) as usize * UNIT);
    range.for_each(|lsn| out.extend((stamp << LSN_BITS | own(lsn)).to_le_bytes()));
    out
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_touched_is_found_and_a_large_drive_takes_little() {
        let mut sectors = Sectors::new((1 << 32) + 5);
        assert_eq!(sectors.touched(0, 9), None);
        sectors.submitted(4090..4100, 1, false);
        sectors.submitted((1 << 32) + 4..(1 << 32) + 5, 2, true);
        assert_eq!(sectors.touched(0, 256), Some((4090, 10)));
        assert_eq!(sectors.touched(4092, 3), Some((4092, 3)));
        assert_eq!(sectors.touched(4100, 256), Some(((1 << 32) + 4, 1)));
        assert_eq!(sectors.touched((1 << 32) + 5, 256), None);
        sectors.survived(77_777, &[0; UNIT], 3);
        assert_eq!(sectors.chunks.iter().flatten().count(), 3);
    }

    #[test]
    fn floors_are_those_of_each_sector_and_what_was_written_at_once_takes_one() {
        let mut sectors = Sectors::new(1 << 20);
        assert_eq!(sectors.floors(0..1 << 20).0, [(0, 1 << 20)]);
        assert!(sectors.chunks.iter().all(Option::is_none), "a look takes memory");
        sectors.acknowledged(0..1 << 20, 7);
        assert_eq!(sectors.floors(5..1 << 20).0.len(), 1);
        sectors.acknowledged(100..300, 8);
        sectors.acknowledged(200..201, 9);
        let floors = sectors.floors(50..400);
        assert_eq!(floors.0.len(), 5);
        let expected: Vec<u64> = (50_u64..400).map(|lsn| sectors.get(lsn).acknowledged).collect();
        assert_eq!(floors.each().collect::<Vec<_>>(), expected);
    }
}
