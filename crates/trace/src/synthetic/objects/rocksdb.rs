//! RocksDB 6.10 (the paper's) under db_bench's fillrandom, as files: memtable flushes, levels, compactions.
//!
//! Options are those of the script that the paper's authors published (`run_vanilla.sh` in their repository):
//! memtables, files and L1 of 64 MB, two L0 files begin a compaction, values of 1024 bytes, no compression.
//!
//! Memtables become L0 files. Two L0 files and the L1 files are compacted to L1; L1 may
//! hold 64 MB, each further level ten times more; a level that is too large gives one file, in turn
//! over its key range, to be merged with what overlaps it below. Keys are uniform over a space half as
//! large again as the instance's share of the volume; a key that exists in the level below replaces it.
//! One thread flushes, four compact (section 2.2); each writes and reads 1 MB at a time
//! (`writable_file_max_buffer_size`'s default; direct I/O, section 6.2; the script has 64 MB through the page cache,
//! whose writing back is not modelled), in one request, as the raw logs have it. A file
//! ends with fsync, each job with a record in MANIFEST. The log of writes lies elsewhere.
//!
//! The users' threads write into the memtable as fast as RocksDB lets them. 99% of the operations of
//! Table 2 take at most 18.3 us (with FlashAlloc): taken as the time of one that nothing holds. Four
//! threads (section 2.2) and pairs of 1040 bytes then fill 227 MB/s, more than the drive takes. They are held
//! - while a memtable waits for the one before it to be flushed (`max_write_buffer_number` 2);
//! - from 20 files in L0 on, to `delayed_write_rate` (8 MB/s, db_bench's default), which goes down by
//!   a fifth with every job that leaves more to compact, up by a quarter with every other, and down to 0.6 of it
//!   close to the stop (`SetupDelay` in RocksDB's `db/column_family.cc`);
//! - at 36 files in L0, until there are fewer.
//!
//! Sizes and speeds shrink with the volume, so that a small device sees as many files as the paper's.

use super::volume::{BLOCK, File, Io, Volume};
use crate::Turn;
use nandle_random::Stream;

const LEVELS: usize = 5;
/// L0 files that begin a compaction, that slow the users down, that stop them.
const L0: (usize, usize, usize) = (2, 20, 36);
/// The threads of an instance: the first flushes memtables.
pub(super) const THREADS: [&str; 5] = ["flush", "compaction", "compaction", "compaction", "compaction"];
/// Bytes that a thread writes, and reads, at a time.
pub(super) const BURST: u64 = 1 << 20;
/// Bytes a second into the memtable: four threads, 1040 bytes in 18.3 us each.
const USERS: u64 = 4 * 1040 * 1_000_000_000 / 18_300;
/// The same while there are too many files in L0, at most and at least.
const DELAYED: (u64, u64) = (8 << 20, 16 << 10);

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
}

pub(super) struct RocksDb {
    levels: Vec<Vec<Table>>,
    cursor: [u64; LEVELS],
    /// What each thread is at, and how many jobs had ended when it last found nothing.
    jobs: [(Option<Job>, u64); THREADS.len()],
    /// Jobs that have started or ended.
    changes: u64,
    manifest: Option<File>,
    parent: (u64, u64),
    table_bytes: u64,
    /// Key space in bytes.
    space: u64,
    stream: Stream,
    /// When the memtable being filled is full, in nanoseconds.
    full_ns: u64,
    /// Bytes a second of the users: held by nothing; delayed, with the most and the least.
    users: u64,
    delayed: (u64, u64, u64),
    /// The users are slowed down now; what there was to compact when that was decided.
    delay: bool,
    debt: u64,
}

const KEYS: u64 = 1 << 32;

impl RocksDb {
    /// An instance for `share` bytes of the volume; `speed` scales bytes a second of the paper's drive to this one.
    pub fn new(
        share: u64,
        table_bytes: u64,
        speed: impl Fn(u64) -> u64,
        parent: (u64, u64),
        stream: Stream,
    ) -> Self {
        let mut db = Self {
            levels: vec![vec![]; LEVELS],
            cursor: [0; LEVELS],
            jobs: std::array::from_fn(|_| (None, u64::MAX)),
            changes: 0,
            manifest: None,
            parent,
            table_bytes,
            space: share / 2 * 3,
            stream,
            full_ns: 0,
            users: speed(USERS),
            delayed: (speed(DELAYED.0), speed(DELAYED.0), speed(DELAYED.1)),
            delay: false,
            debt: 0,
        };
        db.fill_memtable(0);
        db
    }

    fn limit(&self, level: usize) -> u64 {
        self.table_bytes * 10_u64.pow(level as u32 - 1)
    }

    fn bytes(&self, level: usize) -> u64 {
        self.levels[level].iter().filter(|t| !t.busy).map(|t| t.file.bytes).sum()
    }

    /// The users begin a memtable.
    fn fill_memtable(&mut self, now_ns: u64) {
        let rate = if self.delay { self.delayed.0 } else { self.users };
        self.full_ns = now_ns + self.table_bytes * 1_000_000_000 / rate;
    }

    /// Whether the users are to be slowed down, and how much, now that a job has ended.
    fn set_delay(&mut self) {
        let files = self.levels[0].len();
        let beyond = |level: usize| self.bytes(level).saturating_sub(self.limit(level));
        let level0 = if files >= L0.0 { self.bytes(0) } else { 0 };
        let debt = level0 + (1..LEVELS - 1).map(beyond).sum::<u64>();
        let before = std::mem::replace(&mut self.delay, files >= L0.1);
        let (rate, most, least) = self.delayed;
        let change = match (before, self.delay) {
            (false, _) => 1.0,
            (true, false) => 1.4,
            _ if files + 2 >= L0.2 => 0.6,
            _ if self.debt <= debt => 0.8,
            _ => 1.25,
        };
        self.delayed.0 = ((rate as f64 * change) as u64).clamp(least, most);
        self.debt = debt;
    }

    /// A job for an idle thread, if there is one; else when to look again.
    fn find_job(&mut self, thread: usize, now_ns: u64) -> Result<(), Turn> {
        if thread > 0 {
            // Nothing that was not there before: not until a job has started or ended.
            if self.jobs[thread].1 == self.changes || !self.compact(thread) {
                self.jobs[thread].1 = self.changes;
                return Err(Turn::Wait);
            }
            return Ok(());
        }
        if now_ns < self.full_ns {
            return Err(Turn::Until(self.full_ns));
        }
        if self.levels[0].len() >= L0.2 {
            return Err(Turn::Wait);
        }
        // The arena's overhead leaves a little less than the memtable's size.
        let bytes = self.table_bytes / 100 * (90 + self.stream.below(8));
        self.begin(thread, 0, vec![], bytes, (0, KEYS));
        self.fill_memtable(now_ns);
        Ok(())
    }

    /// Begins the compaction of the level that is fullest for its size.
    fn compact(&mut self, thread: usize) -> bool {
        let score = |db: &Self, level: usize| match level {
            0 => db.levels[0].iter().filter(|t| !t.busy).count() as f64 / L0.0 as f64,
            _ => db.bytes(level) as f64 / db.limit(level) as f64,
        };
        let mut order: Vec<usize> = (0..LEVELS - 1).filter(|&l| score(self, l) >= 1.0).collect();
        order.sort_by(|&a, &b| score(self, b).total_cmp(&score(self, a)));
        order.into_iter().any(|level| self.compact_level(thread, level))
    }

    fn compact_level(&mut self, thread: usize, level: usize) -> bool {
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
        self.begin(thread, level + 1, inputs, total, (from, to));
        true
    }

    fn begin(
        &mut self,
        thread: usize,
        level: usize,
        inputs: Vec<(usize, u32)>,
        total: u64,
        keys: (u64, u64),
    ) {
        let find = |&(level, object): &(usize, u32)| {
            self.levels[level].iter().find(|t| t.file.object == object).map(|t| (t.file.clone(), 0))
        };
        let total = total.div_ceil(BLOCK) * BLOCK;
        let reading = inputs.iter().filter_map(find).collect();
        let job = Job { level, inputs, left: total, total, reading, keys, current: None, done: vec![] };
        self.jobs[thread].0 = Some(job);
        self.changes += 1;
    }

    /// The next step of a thread; none if the volume is full.
    pub fn step(&mut self, thread: usize, now_ns: u64, volume: &mut Volume, io: &mut Io) -> Option<Turn> {
        if self.manifest.is_none() {
            self.manifest = Some(volume.create(256 << 10, self.parent, 0, io)?);
        }
        match self.jobs[thread].0.take_if(|job| job.left == 0) {
            // Its files are durable: they take the place of its inputs.
            Some(job) => self.end(job, volume, io),
            None => {
                if self.jobs[thread].0.is_none()
                    && let Err(turn) = self.find_job(thread, now_ns)
                {
                    return Some(if io.queue.is_empty() { turn } else { Turn::Requests });
                }
                self.go_on(thread, volume, io)?;
            }
        }
        Some(Turn::Requests)
    }

    /// The next piece of a job.
    fn go_on(&mut self, thread: usize, volume: &mut Volume, io: &mut Io) -> Option<()> {
        let (target, parent) = (self.table_bytes, self.parent);
        let job = self.jobs[thread].0.as_mut()?;
        // Inputs are read in step with what is written.
        if let Some((file, at)) = job.reading.last_mut() {
            volume.read(file, *at, io.largest, io);
            *at += io.largest;
            if *at >= file.bytes {
                job.reading.pop();
            }
        }
        let mut file = match job.current.take() {
            Some(file) => file,
            None => volume.create(target, parent, 1 + job.level.min(3) as u16, io)?,
        };
        let n = io.largest.min(job.left).min(target - file.bytes);
        volume.append(&mut file, n, io);
        job.left -= n;
        if job.left > 0 && file.bytes < target {
            job.current = Some(file);
            return Some(());
        }
        volume.close(&mut file, io);
        let at = |done: u64| {
            job.keys.0 + ((job.keys.1 - job.keys.0) as f64 * done as f64 / job.total as f64) as u64
        };
        let written = job.total - job.left;
        let (from, to) = if job.level == 0 { job.keys } else { (at(written - file.bytes), at(written)) };
        job.done.push(Table { from, to, file, busy: false });
        Some(())
    }

    fn end(&mut self, job: Job, volume: &mut Volume, io: &mut Io) {
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
        self.changes += 1;
        self.set_delay();
    }
}
