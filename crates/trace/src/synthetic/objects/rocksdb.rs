//! RocksDB 6.10 (the paper's) under db_bench's fillrandom, as files: memtable flushes, levels, compactions.
//!
//! Options are those of the scripts that the paper's authors published (`run_vanilla.sh` in their repository) and of the
//! logs beside them: memtables, files and L1 of 64 MB, two L0 files begin a compaction, values of 1024 bytes, no
//! compression; four instances have a million keys each, one beside MySQL 26 million.
//!
//! Memtables become L0 files. L0 and what it overlaps in L1 are compacted to L1; L1 may
//! hold 64 MB, each further level ten times more; a level that is too large gives one file, in turn
//! over its key range, to be merged with what overlaps it below. While L0 cannot go down, its newest files are put
//! together to one. Keys are uniform; a key that exists in the level below replaces it.
//! Two threads flush, four compact; each writes and reads 1 MB at a time
//! (`writable_file_max_buffer_size`'s default; direct I/O, section 6.2; the script has 64 MB through the page cache,
//! whose writing back is not modelled), in one request, as the raw logs have it. A file
//! ends with fsync, each job with a record in MANIFEST. The log of writes lies elsewhere.
//!
//! The users' threads write into the memtable as fast as RocksDB lets them. 99% of the operations of
//! Table 2 take at most 18.3 us (with FlashAlloc): taken as the time of one that nothing holds. Four
//! threads (section 2.2) and pairs of 1040 bytes then fill 227 MB/s (the logs: 64 MB in 0.24 s). They are held
//! - while two memtables wait to be flushed (`max_write_buffer_number` 2), which is what holds them in the logs;
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
/// L0 files from which on there may be several compactions at a time.
const L0_SPEEDUP: usize = 4;
/// L0 files that are put together to one, at least; and at most so many files' bytes (`max_compaction_bytes`).
const L0_TOGETHER: (usize, u64) = (4, 25);
/// Memtables that wait to be flushed and stop the users.
const MEMTABLES: usize = 2;
/// The threads of an instance: the first ones flush memtables.
pub(super) const THREADS: [&str; 6] =
    ["flush", "flush", "compaction", "compaction", "compaction", "compaction"];
/// Bytes of a pair in a file: 15 to an aligned block of 16 KiB.
pub(super) const PAIR: u64 = 1092;
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
    /// Bytes of its largest file.
    target: u64,
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
    /// When the memtable being filled is full, in nanoseconds; [`NEVER`]: the users are stopped.
    full_ns: u64,
    /// Memtables that wait to be flushed.
    waiting: usize,
    /// Bytes a second of the users: held by nothing; delayed, with the most and the least.
    users: u64,
    delayed: (u64, u64, u64),
    /// The users are slowed down now; what there was to compact when that was decided.
    delay: bool,
    debt: u64,
}

/// The stream of a level's files: one for each lifetime hint that the authors give (`CalculateSSTWriteHint`).
fn stream(level: usize) -> u16 {
    match level {
        0 | 1 => 1 + level as u16,
        2 | 3 => 3,
        _ => 4,
    }
}

const KEYS: u64 = 1 << 32;
const NEVER: u64 = u64::MAX;

impl RocksDb {
    /// An instance whose keys have `space` bytes in all; `speed` scales bytes a second of the paper's drive to this one.
    pub fn new(
        space: u64,
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
            space,
            stream,
            full_ns: 0,
            waiting: 0,
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
        if thread >= MEMTABLES {
            // Nothing that was not there before: not until a job has started or ended.
            if self.jobs[thread].1 == self.changes || !self.compact(thread) {
                self.jobs[thread].1 = self.changes;
                return Err(Turn::Wait);
            }
            return Ok(());
        }
        if now_ns < self.full_ns {
            return Err(if self.full_ns == NEVER { Turn::Wait } else { Turn::Until(self.full_ns) });
        }
        if self.levels[0].len() >= L0.2 {
            return Err(Turn::Wait);
        }
        // The arena's overhead leaves a little less than the memtable's size.
        let bytes = self.table_bytes / 100 * (90 + self.stream.below(8));
        self.begin(thread, 0, vec![], (bytes, self.table_bytes), (0, KEYS));
        self.waiting += 1;
        self.full_ns = NEVER;
        if self.waiting < MEMTABLES {
            self.fill_memtable(now_ns);
        }
        Ok(())
    }

    /// Begins the compaction of the level that is fullest for its size.
    fn compact(&mut self, thread: usize) -> bool {
        let compacts = |(job, _): &(Option<Job>, u64)| job.is_some();
        if self.levels[0].len() < L0_SPEEDUP && self.jobs[MEMTABLES..].iter().any(compacts) {
            return false;
        }
        let score = |db: &Self, level: usize| {
            let bytes = db.bytes(level) as f64 / db.limit(level.max(1)) as f64;
            let files = db.levels[level].iter().filter(|t| !t.busy).count();
            if level == 0 { bytes.max(files as f64 / L0.0 as f64) } else { bytes }
        };
        let mut order: Vec<usize> = (0..LEVELS - 1).filter(|&l| score(self, l) >= 1.0).collect();
        order.sort_by(|&a, &b| score(self, b).total_cmp(&score(self, a)));
        let mut l0_waits = false;
        for level in order {
            // L1 begins nothing else while L0 waits for it.
            if level == 1 && l0_waits {
                continue;
            }
            if self.compact_level(thread, level) || level == 0 && self.compact_within_l0(thread) {
                return true;
            }
            l0_waits |= level == 0;
        }
        false
    }

    /// Puts the newest files of L0 together to one, as long as each saves as much as the one before
    /// (`FindIntraL0Compaction` in RocksDB's `db/compaction/compaction_picker.cc`).
    fn compact_within_l0(&mut self, thread: usize) -> bool {
        let files = &self.levels[0];
        if files.len() < L0.0 + 2 {
            return false;
        }
        let (mut count, mut bytes, mut each) = (0, 0, u64::MAX);
        for table in files.iter().rev() {
            let all = bytes + table.file.bytes;
            let with = all.checked_div(count as u64).unwrap_or(u64::MAX);
            if table.busy || with > each || all > L0_TOGETHER.1 * self.table_bytes {
                break;
            }
            (count, bytes, each) = (count + 1, all, with);
        }
        if count < L0_TOGETHER.0 {
            return false;
        }
        let chosen = files.len() - count..files.len();
        let total = self.union(&self.levels[0][chosen.clone()]);
        let inputs = self.take(0, chosen);
        self.begin(thread, 0, inputs, (total, bytes), (0, KEYS));
        true
    }

    /// Bytes of several files over all keys, put together.
    fn union(&self, tables: &[Table]) -> u64 {
        let space = self.space as f64;
        let add = |all: f64, bytes: f64| all + bytes * (1.0 - all / space).max(0.0);
        tables.iter().map(|t| t.file.bytes as f64).fold(0.0, add) as u64
    }

    /// Files of a level that a job takes.
    fn take(&mut self, level: usize, chosen: impl IntoIterator<Item = usize>) -> Vec<(usize, u32)> {
        let tables = &mut self.levels[level];
        let one = |n: usize| {
            tables[n].busy = true;
            (level, tables[n].file.object)
        };
        chosen.into_iter().map(one).collect()
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
        let lower_bytes: u64 = lower.iter().map(|&n| below[n].file.bytes).sum();
        let upper_bytes = if level == 0 {
            self.union(&self.levels[0])
        } else {
            upper.iter().map(|&n| self.levels[level][n].file.bytes).sum()
        };
        let from = lower.iter().map(|&n| below[n].from).chain([from]).min().unwrap_or(from);
        let to = lower.iter().map(|&n| below[n].to).chain([to]).max().unwrap_or(to);
        // A key of the upper files exists below as often as the keys there are dense.
        let width = (self.space as f64 * (to - from) as f64 / KEYS as f64).max(1.0);
        let same = (upper_bytes as f64 * (lower_bytes as f64 / width).min(1.0)) as u64;
        let total = (upper_bytes + lower_bytes).saturating_sub(same).max(1 << 16);
        let mut inputs = self.take(level, upper);
        inputs.extend(self.take(level + 1, lower));
        self.begin(thread, level + 1, inputs, (total, self.table_bytes), (from, to));
        true
    }

    /// Begins a job that writes so many bytes, in files of so many.
    fn begin(
        &mut self,
        thread: usize,
        level: usize,
        inputs: Vec<(usize, u32)>,
        (total, target): (u64, u64),
        keys: (u64, u64),
    ) {
        let find = |&(level, object): &(usize, u32)| {
            self.levels[level].iter().find(|t| t.file.object == object).map(|t| (t.file.clone(), 0))
        };
        let total = total.div_ceil(BLOCK) * BLOCK;
        let reading = inputs.iter().filter_map(find).collect();
        let target = target.div_ceil(BLOCK) * BLOCK;
        let job =
            Job { level, inputs, left: total, total, target, reading, keys, current: None, done: vec![] };
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
            Some(job) => self.end(job, now_ns, volume, io),
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
        let parent = self.parent;
        let job = self.jobs[thread].0.as_mut()?;
        let target = job.target;
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
            None => volume.create(target, parent, stream(job.level), io)?,
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

    fn end(&mut self, job: Job, now_ns: u64, volume: &mut Volume, io: &mut Io) {
        if job.level == 0 && job.inputs.is_empty() {
            self.waiting -= 1;
            if self.full_ns == NEVER {
                self.fill_memtable(now_ns);
            }
        }
        // L0 is in the order of its files' age.
        let mut at = self.levels[job.level].len();
        for &(level, object) in &job.inputs {
            if let Some(n) = self.levels[level].iter().position(|t| t.file.object == object) {
                let table = self.levels[level].remove(n);
                volume.delete(&table.file, io);
                if level == job.level {
                    at = at.min(n);
                }
            }
        }
        let tables = &mut self.levels[job.level];
        at = at.min(tables.len());
        tables.splice(at..at, job.done);
        if let Some(manifest) = &mut self.manifest {
            manifest.bytes += 200;
            volume.note(manifest, io);
        }
        self.changes += 1;
        self.set_delay();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An instance with these files in L0, oldest first, in MiB; the first ones at work.
    fn with_l0(mib: &[u64], busy: usize) -> RocksDb {
        let mut db = RocksDb::new(PAIR * 1_000_000, 64 << 20, |s| s, (0, 1), Stream::new(1, "test"));
        let table = |(n, &mib): (usize, &u64)| {
            let file = File { object: n as u32 + 1, bytes: mib << 20, ..File::default() };
            Table { from: 0, to: KEYS, file, busy: n < busy }
        };
        db.levels[0] = mib.iter().enumerate().map(table).collect();
        db
    }

    /// What the authors' run of four instances put together within L0 (`LATENCY/VER1/falloc.log1`).
    #[test]
    fn l0_is_put_together_as_in_the_log() {
        // "Compacting 5@0 files to L0": nine files, of which four go to L1.
        // "Compacting 4@0 files to L0": five, the oldest of 285 MB; it would take more to read than it saves.
        for (mib, busy, taken) in [(&[61; 9][..], 4, 5), (&[272, 61, 61, 61, 61], 0, 4), (&[61; 5], 2, 0)] {
            let mut db = with_l0(mib, busy);
            assert_eq!(db.compact_within_l0(2), taken > 0, "{mib:?}");
            let job = db.jobs[2].0.as_ref();
            assert_eq!(job.map_or(0, |job| job.inputs.len()), taken, "{mib:?}");
            // 5 of 64 MB gave 285 MB, 4 gave 235: a million keys are drawn more than once.
            let logged = [0, 0, 0, 0, 235_202_977, 285_349_961][taken] as f64;
            assert!(job.is_none_or(|job| (job.total as f64 / logged - 1.0).abs() < 0.03), "{taken}");
        }
    }

    /// Two memtables are flushed at a time, and meanwhile nobody writes.
    #[test]
    fn two_memtables_stop_the_users() {
        let mut db = with_l0(&[], 0);
        let first = db.full_ns;
        assert!((200_000_000..320_000_000).contains(&first), "the logs have 0.24 s: {first}");
        assert!(matches!(db.find_job(0, first), Ok(())));
        assert!(matches!(db.find_job(1, first), Err(Turn::Until(_))));
        assert!(matches!(db.find_job(1, 2 * first), Ok(())));
        assert_eq!(db.full_ns, NEVER);
        assert!(matches!(db.find_job(1, NEVER - 1), Err(Turn::Wait)));
    }
}
