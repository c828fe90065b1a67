//! File systems below the data stores: where files lie, and what reaches the device.
//!
//! [`Ext4`]: extents, first fit from the parent directory's part of the volume; a file that finds no
//! hole gets several, so files come in pieces as the volume ages; a deleted or truncated file is
//! discarded. [`F2fs`]: logs of 2 MiB segments (hot, warm and cold data, nodes), out-of-place, cleaned when free segments run low;
//! with slack space recycling, data go to the holes of old segments before it comes to that. It discards clean segments
//! when nothing was asked of it for 5 s (`is_idle` in FlashAlloc's host/f2fs and in Linux 5.4), so never under load.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use crate::{Op, Request};

/// File-system block.
pub(super) const BLOCK: u64 = 4096;
/// F2FS segment.
pub(super) const SEGMENT: u64 = 2 << 20;

/// Requests on their way to the device.
pub(super) struct Io {
    pub queue: VecDeque<Request>,
    /// Largest request that the kernel issues.
    pub largest: u64,
    /// Trimmed in the queue: free for others once that is issued ([`Volume::free`]), as ext4 has it.
    pub freed: Vec<(u64, u64)>,
    objects: u32,
}

impl Io {
    pub fn new(largest: u64) -> Self {
        Self { queue: VecDeque::new(), largest, freed: vec![], objects: 0 }
    }
    pub fn push(&mut self, op: Op, offset: u64, bytes: u64, stream: u16, object: u32) {
        self.queue.push_back(Request { time_ns: 0, offset, bytes, object, stream, op, fua: false });
    }
    /// Cuts a transfer into requests.
    pub fn transfer(&mut self, op: Op, offset: u64, bytes: u64, stream: u16, object: u32) {
        let mut at = offset;
        while at < offset + bytes {
            let stop = (at + self.largest).min(offset + bytes);
            self.push(op, at, stop - at, stream, object);
            at = stop;
        }
    }
    pub fn flush(&mut self) {
        self.push(Op::Flush, 0, 0, 0, 0);
    }
    /// A trim of what nobody uses any more.
    fn discard(&mut self, offset: u64, bytes: u64, stream: u16, object: u32) {
        self.push(Op::Trim, offset, bytes, stream, object);
        self.freed.push((offset, bytes));
    }
    pub fn new_object(&mut self) -> u32 {
        self.objects += 1;
        self.objects
    }
}

/// A file.
#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub object: u32,
    pub stream: u16,
    /// Where it lies: (offset, bytes), in file order.
    pub extents: Vec<(u64, u64)>,
    /// Bytes written.
    pub bytes: u64,
}

impl File {
    /// The pieces of `from..from + bytes`.
    fn pieces(&self, from: u64, bytes: u64) -> Vec<(u64, u64)> {
        let (mut base, mut out) = (0, vec![]);
        for &(start, length) in &self.extents {
            let (a, b) = (from.max(base), (from + bytes).min(base + length));
            if a < b {
                out.push((start + a - base, b - a));
            }
            base += length;
        }
        out
    }
}

/// The file system.
pub(super) enum Volume {
    Ext4(Ext4),
    F2fs(Box<F2fs>),
}

impl Volume {
    /// A file of up to `bytes`, with its space where the file system gives it beforehand; none if the
    /// volume is full. `parent`: a number for its directory, of `parents`.
    pub fn create(&mut self, bytes: u64, parent: (u64, u64), stream: u16, io: &mut Io) -> Option<File> {
        let object = io.new_object();
        match self {
            Self::Ext4(fs) => {
                let extents = fs.allocate(bytes, fs.goal(parent))?;
                for &(offset, bytes) in &extents {
                    io.push(Op::FlashAlloc, offset, bytes, stream, object);
                }
                Some(File { object, stream, extents, bytes: 0 })
            }
            Self::F2fs(fs) => fs.has_space(bytes).then(|| File { object, stream, ..File::default() }),
        }
    }

    /// Appends to a file.
    pub fn append(&mut self, file: &mut File, bytes: u64, io: &mut Io) {
        match self {
            Self::Ext4(_) => {
                for (offset, n) in file.pieces(file.bytes, bytes) {
                    io.transfer(Op::Write, offset, n, file.stream, file.object);
                }
            }
            Self::F2fs(fs) => fs.append(file, bytes, io),
        }
        file.bytes += bytes;
    }

    pub fn read(&self, file: &File, from: u64, bytes: u64, io: &mut Io) {
        let pieces = match self {
            Self::Ext4(_) => file.pieces(from, bytes.min(file.bytes.saturating_sub(from))),
            // Where the cleaner left them: the order within the file does not matter to the device.
            Self::F2fs(fs) => File { extents: fs.pieces(file.object), ..File::default() }.pieces(from, bytes),
        };
        for (offset, n) in pieces {
            io.transfer(Op::Read, offset, n, file.stream, file.object);
        }
    }

    /// The file is complete: what it did not use is given back, and it is made durable.
    pub fn close(&mut self, file: &mut File, io: &mut Io) {
        match self {
            Self::Ext4(fs) => {
                let used = file.bytes.div_ceil(BLOCK) * BLOCK;
                let all: u64 = file.extents.iter().map(|e| e.1).sum();
                let tail = file.pieces(used, all - used);
                io.flush();
                if !tail.is_empty() {
                    if let Some(&(offset, bytes)) = file.pieces(0, used).first() {
                        io.push(Op::FlashFree, offset, bytes, file.stream, file.object);
                    }
                    file.extents = file.pieces(0, used);
                    for (offset, bytes) in tail {
                        io.discard(offset, bytes, file.stream, file.object);
                    }
                }
                fs.commit(io);
            }
            Self::F2fs(fs) => fs.sync(io),
        }
    }

    pub fn delete(&mut self, file: &File, io: &mut Io) {
        match self {
            Self::Ext4(_) => {
                for &(offset, bytes) in &file.extents {
                    io.discard(offset, bytes, file.stream, file.object);
                }
            }
            Self::F2fs(fs) => fs.delete(file),
        }
    }

    /// Space whose trims have been issued is free.
    pub fn free(&mut self, ranges: &mut Vec<(u64, u64)>) {
        if let Self::Ext4(fs) = self {
            ranges.drain(..).for_each(|(offset, bytes)| fs.free.give(offset, bytes));
        }
    }

    /// Rewrites a small file's last block and makes it durable.
    pub fn note(&mut self, file: &mut File, io: &mut Io) {
        match self {
            Self::Ext4(fs) => {
                let all: u64 = file.extents.iter().map(|e| e.1).sum();
                for (offset, n) in file.pieces(file.bytes / BLOCK * BLOCK % all, BLOCK) {
                    io.push(Op::Write, offset, n, 0, file.object);
                }
                io.flush();
                fs.commit(io);
            }
            Self::F2fs(fs) => {
                fs.write_log(HOT, BLOCK, file.object, io);
                fs.sync(io);
            }
        }
    }
}

/// Free space: offset to length, neighbours joined.
#[derive(Default)]
pub(super) struct Free {
    holes: BTreeMap<u64, u64>,
}

impl Free {
    pub fn give(&mut self, mut at: u64, mut bytes: u64) {
        if let Some((&before, &length)) = self.holes.range(..at).next_back()
            && before + length == at
        {
            self.holes.remove(&before);
            (at, bytes) = (before, length + bytes);
        }
        if let Some(after) = self.holes.remove(&(at + bytes)) {
            bytes += after;
        }
        self.holes.insert(at, bytes);
    }

    fn take(&mut self, hole: u64, at: u64, bytes: u64) {
        let length = self.holes.remove(&hole).unwrap_or(0);
        if at > hole {
            self.holes.insert(hole, at - hole);
        }
        if hole + length > at + bytes {
            self.holes.insert(at + bytes, hole + length - at - bytes);
        }
    }

    fn total(&self) -> u64 {
        self.holes.values().sum()
    }
}

pub(super) struct Ext4 {
    pub free: Free,
    /// First byte of data, and the end.
    data: (u64, u64),
    /// The journal: start, length, next.
    journal: (u64, u64, u64),
    /// Inode tables and bitmaps: start, length.
    tables: (u64, u64),
    commits: u64,
}

impl Ext4 {
    pub fn new(logical_bytes: u64) -> Self {
        let unit = 1 << 20;
        // As mke2fs: a journal of 1/128 (at most 128 MiB), inode tables of 1/64 of the volume.
        let journal = (logical_bytes / 128 / unit * unit).clamp(unit, 128 << 20);
        let tables = (logical_bytes / 64 / unit * unit).max(unit);
        let start = journal + tables;
        let end = logical_bytes / unit * unit;
        let mut free = Free::default();
        free.give(start, end - start);
        Self { free, data: (start, end), journal: (0, journal, 0), tables: (journal, tables), commits: 0 }
    }

    pub fn goal(&self, (parent, parents): (u64, u64)) -> u64 {
        let (start, end) = self.data;
        start + (end - start) / BLOCK * parent / parents * BLOCK
    }

    /// Space for a file: one hole if there is one from the goal on, else the largest holes.
    pub fn allocate(&mut self, bytes: u64, goal: u64) -> Option<Vec<(u64, u64)>> {
        let bytes = bytes.div_ceil(BLOCK) * BLOCK;
        if self.free.total() < bytes {
            return None;
        }
        // Large files begin on a border, as the buddy allocator has it.
        let align = if bytes >= 1 << 20 { 64 << 10 } else { BLOCK };
        let up = |at: u64| at.div_ceil(align) * align;
        let fits =
            |(&at, &length): (&u64, &u64)| (at + length).checked_sub(up(at)).is_some_and(|n| n >= bytes);
        let behind = self.free.holes.range(goal..).find(|&(a, l)| fits((a, l)));
        let hole = behind.or_else(|| self.free.holes.range(..goal).find(|&(a, l)| fits((a, l))));
        if let Some((&hole, _)) = hole {
            self.free.take(hole, up(hole), bytes);
            return Some(vec![(up(hole), bytes)]);
        }
        let (mut out, mut left) = (vec![], bytes);
        while left > 0 {
            let (&at, &length) = self.free.holes.iter().max_by_key(|h| *h.1)?;
            let n = length.min(left);
            self.free.take(at, at, n);
            out.push((at, n));
            left -= n;
        }
        out.sort_unstable();
        Some(out)
    }

    /// A journal commit: descriptor, a few metadata blocks, commit block; every fourth is
    /// checkpointed to its home in the tables.
    fn commit(&mut self, io: &mut Io) {
        let blocks = 6;
        let (start, length, next) = self.journal;
        let next = if next + blocks * BLOCK > length { 0 } else { next };
        io.push(Op::Write, start + next, blocks * BLOCK, 0, 0);
        self.journal.2 = next + blocks * BLOCK;
        self.commits += 1;
        if self.commits.is_multiple_of(4) {
            let (start, length) = self.tables;
            for n in 0..6 {
                let slot = nandle_random::mix(self.commits * 8 + n) % (length / BLOCK);
                io.push(Op::Write, start + slot * BLOCK, BLOCK, 0, 0);
            }
        }
        io.flush();
    }
}

// The logs that carry data here: small files that change all the time, files, what the cleaner
// moves, and nodes.
const HOT: usize = 0;
const WARM: usize = 1;
const COLD: usize = 2;
const NODE: usize = 3;

/// A log of F2FS.
#[derive(Default)]
struct Log {
    segment: Option<u64>,
    /// What it may still write of it: (offset in it, bytes).
    left: VecDeque<(u64, u64)>,
}

pub(super) struct F2fs {
    /// First byte of the main area.
    main: u64,
    /// Live bytes of each segment.
    valid: Vec<u64>,
    /// The log that each was last given to.
    log_of: Vec<usize>,
    /// Data of it were deleted since the last checkpoint, which still holds them.
    held: Vec<bool>,
    live: u64,
    /// Segments that the cleaner keeps free.
    reserved: usize,
    /// Writes holes of old segments while no more than twice as many are free.
    recycles: bool,
    free: VecDeque<u64>,
    is_free: Vec<bool>,
    logs: [Log; 4],
    /// Live data: offset -> (bytes, object).
    extents: BTreeMap<u64, (u64, u32)>,
    by_object: BTreeMap<u32, BTreeSet<u64>>,
    meta: (u64, u64),
    since_checkpoint: u32,
    checkpoints: u64,
}

impl F2fs {
    pub fn new(logical_bytes: u64, recycles: bool) -> Self {
        let meta = (logical_bytes / 64 / SEGMENT * SEGMENT).max(2 * SEGMENT);
        let segments = (logical_bytes - meta) / SEGMENT;
        Self {
            main: meta,
            valid: vec![0; segments as usize],
            log_of: vec![WARM; segments as usize],
            held: vec![false; segments as usize],
            live: 0,
            reserved: (segments as usize / 40).max(8),
            recycles,
            free: (0..segments).collect(),
            is_free: vec![true; segments as usize],
            logs: Default::default(),
            extents: BTreeMap::new(),
            by_object: BTreeMap::new(),
            meta: (0, meta),
            since_checkpoint: 0,
            checkpoints: 0,
        }
    }

    /// Room for a file of `bytes` beside the reserve of the cleaner (5%).
    fn has_space(&self, bytes: u64) -> bool {
        self.live + bytes < self.valid.len() as u64 * SEGMENT / 100 * 95
    }

    fn segment_of(&self, offset: u64) -> usize {
        ((offset - self.main) / SEGMENT) as usize
    }

    /// The next `bytes` at most of a log, all in one segment: (offset, bytes).
    fn take(&mut self, log: usize, bytes: u64, io: &mut Io) -> (u64, u64) {
        if self.logs[log].left.is_empty() {
            self.next_segment(log, io);
        }
        let Log { segment, left } = &mut self.logs[log];
        let start = self.main + segment.unwrap_or(0) * SEGMENT;
        let (at, n) = left.pop_front().expect("a segment has room");
        if n > bytes {
            left.push_front((at + bytes, n - bytes));
        }
        (start + at, n.min(bytes))
    }

    /// A clean segment, which is announced; or, when few are clean, the holes of the emptiest old one, as F2FS does
    /// it for all but these nodes unless it is mounted with `mode=lfs`.
    fn next_segment(&mut self, log: usize, io: &mut Io) {
        if self.recycles
            && log != NODE
            && self.free.len() <= 2 * self.reserved
            && let Some(segment) = self.emptiest(log).or_else(|| self.emptiest(WARM))
        {
            self.logs[log] = Log { segment: Some(segment), left: self.holes(segment) };
            return;
        }
        let segment = self.free.pop_front().or_else(|| {
            self.checkpoint(io);
            self.free.pop_front()
        });
        let segment = segment.expect("the cleaner keeps segments free");
        (self.is_free[segment as usize], self.log_of[segment as usize]) = (false, log);
        self.logs[log] = Log { segment: Some(segment), left: [(0, SEGMENT)].into() };
        let object = io.new_object();
        io.push(Op::FlashAlloc, self.main + segment * SEGMENT, SEGMENT, log as u16 + 1, object);
    }

    /// The segment of a log with least live data, of those with some.
    fn emptiest(&self, log: usize) -> Option<u64> {
        let usable = |&s: &usize| {
            let partly = self.valid[s] > 0 && self.valid[s] < SEGMENT;
            partly && self.log_of[s] == log && !self.held[s] && !self.is_open(s as u64)
        };
        (0..self.valid.len()).filter(usable).min_by_key(|&s| self.valid[s]).map(|s| s as u64)
    }

    /// What is not live in a segment: (offset in it, bytes).
    fn holes(&self, segment: u64) -> VecDeque<(u64, u64)> {
        let start = self.main + segment * SEGMENT;
        let (mut out, mut at) = (VecDeque::new(), start);
        let live = self.extents.range(start..start + SEGMENT).map(|(&offset, &(n, _))| (offset, n));
        for (offset, n) in live.chain([(start + SEGMENT, 0)]) {
            if offset > at {
                out.push_back((at - start, offset - at));
            }
            at = offset + n;
        }
        out
    }

    fn write_log(&mut self, log: usize, bytes: u64, object: u32, io: &mut Io) {
        let mut left = bytes.div_ceil(BLOCK) * BLOCK;
        while left > 0 {
            let (offset, n) = self.take(log, left, io);
            io.transfer(Op::Write, offset, n, log as u16 + 1, object);
            // Nodes and small files are rewritten soon: what a full segment of them holds is dead.
            if log == WARM || log == COLD {
                let segment = self.segment_of(offset);
                self.valid[segment] += n;
                self.live += n;
                self.extents.insert(offset, (n, object));
                self.by_object.entry(object).or_default().insert(offset);
            }
            left -= n;
        }
    }

    fn append(&mut self, file: &File, bytes: u64, io: &mut Io) {
        self.write_log(WARM, bytes, file.object, io);
        self.clean(io);
    }

    fn pieces(&self, object: u32) -> Vec<(u64, u64)> {
        let mine = self.by_object.get(&object).into_iter().flatten();
        mine.map(|&offset| (offset, self.extents[&offset].0)).collect()
    }

    fn delete(&mut self, file: &File) {
        for offset in self.by_object.remove(&file.object).unwrap_or_default() {
            if let Some((n, _)) = self.extents.remove(&offset) {
                self.drop_bytes(offset, n);
                let segment = self.segment_of(offset);
                self.held[segment] = true;
            }
        }
    }

    fn drop_bytes(&mut self, offset: u64, n: u64) {
        let segment = self.segment_of(offset);
        self.valid[segment] -= n;
        self.live -= n;
    }

    fn is_open(&self, segment: u64) -> bool {
        self.logs.iter().any(|log| log.segment == Some(segment) && !log.left.is_empty())
    }

    /// fsync: the file's node block; now and then a checkpoint.
    fn sync(&mut self, io: &mut Io) {
        self.write_log(NODE, BLOCK, 0, io);
        io.flush();
        self.since_checkpoint += 1;
        if self.since_checkpoint >= 4 {
            self.checkpoint(io);
        }
    }

    /// A checkpoint: NAT, SIT and checkpoint blocks at their places. Segments that hold nothing are clean from then on.
    fn checkpoint(&mut self, io: &mut Io) {
        (self.since_checkpoint, self.checkpoints) = (0, self.checkpoints + 1);
        let (start, length) = self.meta;
        for n in 0..8 {
            let slot = nandle_random::mix(self.checkpoints * 8 + n) % (length / BLOCK);
            io.push(Op::Write, start + slot * BLOCK, BLOCK, 0, 0);
        }
        io.flush();
        self.held.fill(false);
        for segment in 0..self.valid.len() as u64 {
            let n = segment as usize;
            if self.valid[n] == 0 && !self.is_free[n] && !self.is_open(segment) {
                self.free.push_back(segment);
                self.is_free[n] = true;
            }
        }
    }

    /// Moves what is live in the emptiest segments until enough are free.
    fn clean(&mut self, io: &mut Io) {
        let least = self.reserved;
        for _ in 0..4 {
            if self.free.len() >= least {
                return;
            }
            self.checkpoint(io);
            if self.free.len() >= least {
                return;
            }
            let victim = (0..self.valid.len())
                .filter(|&s| self.valid[s] > 0 && self.valid[s] < SEGMENT && !self.is_open(s as u64))
                .min_by_key(|&s| self.valid[s]);
            let Some(victim) = victim else { return };
            // Nothing is to be moved into itself.
            self.held[victim] = true;
            let start = self.main + victim as u64 * SEGMENT;
            let live: Vec<(u64, (u64, u32))> =
                self.extents.range(start..start + SEGMENT).map(|(&o, &e)| (o, e)).collect();
            for (offset, (n, object)) in live {
                io.transfer(Op::Read, offset, n, 0, object);
                self.write_log(COLD, n, object, io);
                self.extents.remove(&offset);
                self.by_object.entry(object).or_default().remove(&offset);
                self.drop_bytes(offset, n);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nandle_random::Stream;

    /// Files come and go until segments run low, with and without recycling: nobody's data are written over, and
    /// only recycling writes without a call.
    #[test]
    fn no_two_files_lie_in_one_place() {
        for recycles in [false, true] {
            let mut volume = Volume::F2fs(Box::new(F2fs::new(256 << 20, recycles)));
            let (mut io, mut draw) = (Io::new(128 << 10), Stream::new(1, "files"));
            let mut files: Vec<(File, u64)> = vec![];
            let (mut written, mut called) = (0, 0);
            for _ in 0..4000 {
                let most = 64 << 10 << draw.below(6);
                if files.len() < 200
                    && let Some(file) = volume.create(most, (0, 1), 0, &mut io)
                {
                    files.push((file, most));
                } else {
                    let n = draw.below(files.len() as u64) as usize;
                    volume.delete(&files.swap_remove(n).0, &mut io);
                }
                for (file, most) in &mut files {
                    let n = (64 << 10).min(*most - file.bytes);
                    if n > 0 && draw.chance(0.3) {
                        volume.append(file, n, &mut io);
                    }
                }
                if draw.chance(0.2) {
                    files.first_mut().into_iter().for_each(|(file, _)| volume.close(file, &mut io));
                }
                for request in io.queue.drain(..) {
                    match request.op {
                        Op::Write => written += request.bytes,
                        Op::FlashAlloc => called += request.bytes,
                        _ => {}
                    }
                }
                let Volume::F2fs(fs) = &volume else { unreachable!() };
                let mut places: Vec<(u64, u64)> = vec![];
                for (file, _) in &files {
                    let own = fs.pieces(file.object);
                    assert_eq!(own.iter().map(|p| p.1).sum::<u64>(), file.bytes);
                    places.extend(own);
                }
                places.sort_unstable();
                assert!(places.is_sorted_by(|a, b| a.0 + a.1 <= b.0));
            }
            assert!(written > 3 * (256 << 20), "{written}");
            // All that is written lies in announced segments, metadata apart.
            assert_eq!(called * 10 < written * 9, recycles, "{called} {written}");
        }
    }
}
