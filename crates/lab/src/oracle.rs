//! The one judge of correctness: a plain array that remembers every sector's writes.
//!
//! Each write carries a stamp, unique and ascending; a sector stores its stamp together with its
//! own number, so a sector that shows up in another's place is seen. For every sector the oracle
//! keeps a range, not a value: a read may return anything from the last write that was
//! acknowledged before the read was submitted up to the last one submitted; after a power cut,
//! anything from the last write that was durable.

use std::collections::HashMap;

use nandle_io::{Command, Completion, Op, Status};

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
    /// Newest stamp that was a trim.
    trimmed: u64,
}

#[derive(Clone, Debug)]
struct Pending {
    op: Op,
    lsn: u64,
    sectors: u64,
    fua: bool,
    stamp: u64,
    /// For a read: what each sector may return at least; for a flush: what it makes durable.
    floor: Vec<u64>,
    covers: Vec<(u64, u64, u64)>,
}

/// A read that returned what no correct drive could return.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// Sector.
    pub lsn: u64,
    /// Stamp found (0 = nothing), or `u64::MAX` if another sector's data was found.
    pub found: u64,
    /// Least and greatest stamp allowed.
    pub allowed: (u64, u64),
}

/// The plain array.
#[derive(Clone, Debug)]
pub struct Oracle {
    sectors: Vec<Sector>,
    pending: HashMap<u64, Pending>,
    /// Writes and trims acknowledged since the last flush was submitted: (lsn, sectors, stamp).
    unflushed: Vec<(u64, u64, u64)>,
    stamp: u64,
    /// What is acknowledged is durable (`recovery.plp`).
    protected: bool,
    /// Sectors that the drive reported as unreadable instead of returning them.
    pub unreadable: u64,
    /// Sectors compared so far.
    pub checked: u64,
    /// Wrong sectors so far; the first few are kept.
    pub mismatches: u64,
    /// The first mismatches.
    pub first: Vec<Mismatch>,
}

impl Oracle {
    /// An oracle for a drive of `logical_sectors` sectors, all never written.
    pub fn new(logical_sectors: u64) -> Self {
        Self {
            sectors: vec![Sector::default(); logical_sectors as usize],
            pending: HashMap::new(),
            unflushed: Vec::new(),
            stamp: 0,
            protected: false,
            unreadable: 0,
            checked: 0,
            mismatches: 0,
            first: Vec::new(),
        }
    }

    /// From now on everything that is acknowledged has to survive a power cut.
    pub fn protect(&mut self) {
        self.protected = true;
    }

    /// The contents to submit with a write of `sectors` sectors from `lsn`, to be followed by
    /// [`Oracle::submitted`].
    pub fn contents(&self, lsn: u64, sectors: u64) -> Vec<u8> {
        let stamp = self.stamp + 1;
        (lsn..lsn + sectors)
            .flat_map(|lsn| (stamp << LSN_BITS | lsn & ((1 << LSN_BITS) - 1)).to_le_bytes())
            .collect()
    }

    /// The request is about to be submitted.
    pub fn submitted(&mut self, command: &Command<'_>) {
        let end = command.lsn.saturating_add(command.sectors).min(self.sectors.len() as u64);
        let range = command.lsn.min(end) as usize..end as usize;
        self.stamp += 1;
        let mut pending = Pending {
            op: command.op,
            lsn: command.lsn,
            sectors: range.len() as u64,
            fua: command.fua,
            stamp: self.stamp,
            floor: Vec::new(),
            covers: Vec::new(),
        };
        match command.op {
            Op::Read => pending.floor = self.sectors[range].iter().map(|s| s.acknowledged).collect(),
            Op::Write => self.sectors[range].iter_mut().for_each(|s| s.newest = self.stamp),
            Op::Trim => self.sectors[range].iter_mut().for_each(|s| {
                s.newest = self.stamp;
                s.trimmed = self.stamp;
            }),
            Op::FlashAlloc | Op::FlashFree => {}
            Op::Flush => pending.covers = std::mem::take(&mut self.unflushed),
        }
        self.pending.insert(command.id, pending);
    }

    /// The request is complete.
    pub fn completed(&mut self, completion: &Completion) {
        let Some(pending) = self.pending.remove(&completion.id) else { return };
        if !matches!(completion.status, Status::Ok | Status::MediaError) {
            return;
        }
        let range = pending.lsn as usize..(pending.lsn + pending.sectors) as usize;
        match pending.op {
            Op::Read => {
                for (n, bytes) in completion.data.chunks_exact(UNIT).enumerate() {
                    let lsn = pending.lsn + n as u64;
                    if is_in(&completion.unreadable, lsn) {
                        self.unreadable += 1;
                    } else {
                        self.compare(lsn, bytes, pending.floor[n]);
                    }
                }
            }
            Op::Write | Op::Trim => {
                for s in &mut self.sectors[range] {
                    s.acknowledged = s.acknowledged.max(pending.stamp);
                    if pending.fua && pending.op == Op::Write || self.protected {
                        s.durable = s.durable.max(pending.stamp);
                    }
                }
                self.unflushed.push((pending.lsn, pending.sectors, pending.stamp));
            }
            Op::FlashAlloc | Op::FlashFree => {}
            Op::Flush => {
                for (lsn, sectors, stamp) in pending.covers {
                    for s in &mut self.sectors[lsn as usize..(lsn + sectors) as usize] {
                        s.durable = s.durable.max(stamp);
                    }
                }
            }
        }
    }

    fn compare(&mut self, lsn: u64, bytes: &[u8], floor: u64) {
        self.checked += 1;
        let sector = self.sectors[lsn as usize];
        let word = u64::from_le_bytes(bytes.try_into().unwrap_or_default());
        let stamp = word >> LSN_BITS;
        let good = if word == 0 {
            floor == 0 || sector.trimmed >= floor
        } else {
            word & ((1 << LSN_BITS) - 1) == lsn & ((1 << LSN_BITS) - 1)
                && (floor..=sector.newest).contains(&stamp)
        };
        if !good {
            self.mismatches += 1;
            if self.first.len() < 8 {
                let own = word & ((1 << LSN_BITS) - 1) == lsn & ((1 << LSN_BITS) - 1);
                let found = if word == 0 || own { stamp } else { u64::MAX };
                self.first.push(Mismatch { lsn, found, allowed: (floor, sector.newest) });
            }
        }
    }

    /// The power was cut: requests under way are forgotten, and what each sector holds is known
    /// again only when `contents` (the whole device, [`UNIT`] bytes a sector, read after recovery) has
    /// been compared with the promise: nothing older than what was durable. Sectors in `unreadable`
    /// (first, how many) were not returned and are not judged.
    pub fn power_cut(&mut self, contents: &[u8], unreadable: &[(u64, u64)]) {
        self.pending.clear();
        self.unflushed.clear();
        for (lsn, bytes) in contents.chunks_exact(UNIT).enumerate() {
            if is_in(unreadable, lsn as u64) {
                self.unreadable += 1;
                let s = &mut self.sectors[lsn];
                (s.acknowledged, s.durable) = (s.durable, s.durable);
                continue;
            }
            self.compare(lsn as u64, bytes, self.sectors[lsn].durable);
            let stamp = u64::from_le_bytes(bytes.try_into().unwrap_or_default()) >> LSN_BITS;
            // What survived is the truth from now on. "Nothing" is a trim of unknown age.
            let s = &mut self.sectors[lsn];
            if stamp == 0 {
                *s = Sector { trimmed: s.newest, ..Sector::default() };
                s.newest = s.trimmed;
            } else {
                *s = Sector { acknowledged: stamp, durable: stamp, newest: stamp, trimmed: 0 };
            }
        }
    }
}

fn is_in(ranges: &[(u64, u64)], lsn: u64) -> bool {
    ranges.iter().any(|&(first, n)| (first..first + n).contains(&lsn))
}
