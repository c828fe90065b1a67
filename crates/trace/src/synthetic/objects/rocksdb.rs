//! RocksDB under db_bench's fillrandom, as files: memtable flushes, levels, compactions.
//!
//! Memtables of 64 MB become L0 files. Four L0 files and the L1 files are compacted to L1; L1 may
//! hold 256 MB, each further level ten times more; a level that is too large gives one file, in turn
//! over its key range, to be merged with what overlaps it below. Keys are uniform over a space half as
//! large again as the instance's share of the volume; a key that exists in the level below replaces it.
//! Up to four compactions and one flush run at a time and take turns, a request each, as the
//! queues of the kernel interleave them; a file ends with fsync; flushes slow down and stop as L0 fills, as the
//! defaults have it. Each job ends with a record in MANIFEST. The log of writes lies elsewhere.
//! Sizes shrink with the volume, so that a small device sees as many files as the paper's.

use super::volume::{BLOCK, File, Io, Volume};
use nandle_random::Stream;

const LEVELS: usize = 5;
/// Bytes that a writer hands over in its turn.
const CHUNK: u64 = super::volume::LARGEST;
/// L0 files that begin a compaction, that slow the flushes down, that stop them.
const L0: (usize, usize, usize) = (4, 20, 36);
const COMPACTIONS: usize = 4;
/// While compactions run, a flush writes in one turn of so many: memtables fill at the speed of the
/// users. Table 2 has 140 us an operation for each of four threads, that is 28,000 pairs of 116 bytes
/// or 3.3 MB a second of an instance, 13 MB of all four, beside a drive of about 100 MB a second.
const USERS: u32 = 8;

/// A file of a level: its keys as a part of 2^32, its contents.
#[derive(Clone, Debug)]
struct Table {
    from: u64,
    to: u64,
    file: File,
    busy: bool,
}

/// A flush, or a compaction, at work.
struct Job {
    /// Level that it writes to, and the files that it replaces: (level, object).
    level: usize,
    inputs: Vec<(usize, u32)>,
    /// Bytes to write in all, and what of the input is read.
    left: u64,
    total: u64,
    reading: Vec<(File, u64)>,
    keys: (u64, u64),
    current: Option<File>,
    done: Vec<Table>,
    streak: u64,
}

pub(super) struct RocksDb {
    levels: Vec<Vec<Table>>,
    cursor: [u64; LEVELS],
    jobs: Vec<Job>,
    turn: usize,
    manifest: Option<File>,
    parent: (u64, u64),
    table_bytes: u64,
    /// Key space in bytes.
    space: u64,
    stream: Stream,
    slow: u32,
}

const KEYS: u64 = 1 << 32;

impl RocksDb {
    pub fn new(share: u64, table_bytes: u64, parent: (u64, u64), stream: Stream) -> Self {
        Self {
            levels: vec![vec![]; LEVELS],
            cursor: [0; LEVELS],
            jobs: vec![],
            turn: 0,
            manifest: None,
            parent,
            table_bytes,
            space: share / 2 * 3,
            stream,
            slow: 0,
        }
    }

    fn limit(&self, level: usize) -> u64 {
        4 * self.table_bytes * 10_u64.pow(level as u32 - 1)
    }

    fn bytes(&self, level: usize) -> u64 {
        self.levels[level].iter().filter(|t| !t.busy).map(|t| t.file.bytes).sum()
    }

    /// Begins whatever may begin.
    fn schedule(&mut self) {
        let level0 = self.levels[0].len();
        let flushing = self.jobs.iter().any(|j| j.inputs.is_empty());
        if !flushing && level0 < L0.2 {
            // The arena's overhead leaves a little less than the memtable's size.
            let bytes = self.table_bytes / 100 * (90 + self.stream.below(8));
            self.begin(0, vec![], bytes, (0, KEYS));
        }
        while self.jobs.iter().filter(|j| !j.inputs.is_empty()).count() < COMPACTIONS && self.compact() {}
    }

    /// Begins the compaction of the level that is fullest for its size.
    fn compact(&mut self) -> bool {
        let score = |db: &Self, level: usize| match level {
            0 => db.levels[0].iter().filter(|t| !t.busy).count() as f64 / L0.0 as f64,
            _ => db.bytes(level) as f64 / db.limit(level) as f64,
        };
        let mut order: Vec<usize> = (0..LEVELS - 1).filter(|&l| score(self, l) >= 1.0).collect();
        order.sort_by(|&a, &b| score(self, b).total_cmp(&score(self, a)));
        order.into_iter().any(|level| self.compact_level(level))
    }

    fn compact_level(&mut self, level: usize) -> bool {
        let upper: Vec<usize> = if level == 0 {
            // All of L0, one compaction at a time.
            if self.levels[0].iter().any(|t| t.busy) {
                return false;
            }
            (0..self.levels[0].len()).collect()
        } else {
            let tables = &self.levels[level];
            let after = |n: &usize| (tables[*n].from < self.cursor[level], tables[*n].from);
            match (0..tables.len()).filter(|&n| !tables[n].busy).min_by_key(after) {
                Some(n) => vec![n],
                None => return false,
            }
        };
        let from = upper.iter().map(|&n| self.levels[level][n].from).min().unwrap_or(0);
        let to = upper.iter().map(|&n| self.levels[level][n].to).max().unwrap_or(KEYS);
        let below = &self.levels[level + 1];
        let lower: Vec<usize> =
            (0..below.len()).filter(|&n| below[n].from < to && below[n].to > from).collect();
        if lower.iter().any(|&n| below[n].busy) {
            return false;
        }
        self.cursor[level] = to % KEYS;
        let upper_bytes: u64 = upper.iter().map(|&n| self.levels[level][n].file.bytes).sum();
        let lower_bytes: u64 = lower.iter().map(|&n| below[n].file.bytes).sum();
        let from = lower.iter().map(|&n| below[n].from).chain([from]).min().unwrap_or(from);
        let to = lower.iter().map(|&n| below[n].to).chain([to]).max().unwrap_or(to);
        // A key of the upper files exists below as often as the keys there are dense.
        let width = (self.space as f64 * (to - from) as f64 / KEYS as f64).max(1.0);
        let same = (upper_bytes as f64 * (lower_bytes as f64 / width).min(1.0)) as u64;
        let within = if level == 0 { upper_bytes as f64 * upper_bytes as f64 / width / 2.0 } else { 0.0 };
        let total = (upper_bytes + lower_bytes).saturating_sub(same + within as u64).max(1 << 16);
        let mut inputs = vec![];
        for (level, list) in [(level, upper), (level + 1, lower)] {
            for n in list {
                self.levels[level][n].busy = true;
                inputs.push((level, self.levels[level][n].file.object));
            }
        }
        self.begin(level + 1, inputs, total, (from, to));
        true
    }

    fn begin(&mut self, level: usize, inputs: Vec<(usize, u32)>, total: u64, keys: (u64, u64)) {
        let find = |&(level, object): &(usize, u32)| {
            self.levels[level].iter().find(|t| t.file.object == object).map(|t| (t.file.clone(), 0))
        };
        let total = total.div_ceil(BLOCK) * BLOCK;
        let reading = inputs.iter().filter_map(find).collect();
        self.jobs.push(Job {
            level,
            inputs,
            left: total,
            total,
            reading,
            keys,
            current: None,
            done: vec![],
            streak: 0,
        });
    }

    /// The next piece of work of one job; false if the volume is full.
    pub fn step(&mut self, volume: &mut Volume, io: &mut Io) -> bool {
        if self.manifest.is_none() {
            self.manifest = volume.create(256 << 10, self.parent, 0, io);
        }
        self.schedule();
        self.turn = (self.turn + 1) % self.jobs.len().max(1);
        let turn = self.turn;
        let waiting = self.jobs.len() > 1;
        let delayed = self.levels[0].len() >= L0.1;
        let Some(job) = self.jobs.get_mut(turn) else { return false };
        if job.inputs.is_empty() && waiting {
            // Delayed writes: a memtable takes twice as long to fill.
            self.slow += 1;
            if !self.slow.is_multiple_of(USERS * (1 + u32::from(delayed))) {
                return true;
            }
        }
        // Inputs are read in step with what is written.
        if let Some((file, at)) = job.reading.last_mut() {
            volume.read(file, *at, CHUNK, io);
            *at += CHUNK;
            if *at >= file.bytes {
                job.reading.pop();
            }
        }
        let target = self.table_bytes;
        if job.current.is_none() && job.left > 0 {
            let stream = 1 + job.level.min(3) as u16;
            match volume.create(target, self.parent, stream, io) {
                Some(file) => (job.current, job.streak) = (Some(file), 0),
                None => return false,
            }
        }
        if let Some(file) = &mut job.current {
            let n = CHUNK.min(job.left).min(target - file.bytes);
            volume.append(file, n, io);
            job.left -= n;
            if job.left == 0 || file.bytes >= target {
                let mut file = job.current.take().unwrap_or_default();
                volume.close(&mut file, io);
                let at = |done: u64| {
                    job.keys.0 + ((job.keys.1 - job.keys.0) as f64 * done as f64 / job.total as f64) as u64
                };
                let written = job.total - job.left;
                let (from, to) =
                    if job.level == 0 { job.keys } else { (at(written - file.bytes), at(written)) };
                job.done.push(Table { from, to, file, busy: false });
            }
        }
        if job.left == 0 {
            let job = self.jobs.swap_remove(turn);
            for (level, object) in &job.inputs {
                if let Some(n) = self.levels[*level].iter().position(|t| t.file.object == *object) {
                    let table = self.levels[*level].swap_remove(n);
                    volume.delete(&table.file, io);
                }
            }
            self.levels[job.level].extend(job.done);
            if let Some(manifest) = &mut self.manifest {
                manifest.bytes += 200;
                volume.note(manifest, io);
            }
        }
        true
    }
}
