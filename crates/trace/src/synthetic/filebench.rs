//! Filebench's personalities as block workloads (WAFLASH, section V-B).
//!
//! Random write: one file of 5 GB, 3 threads. File server: 10,000 files of 128 KB on average, 50
//! threads. Web server: 1000 files of 16 KB, 100 threads. Web proxy: 10,000 files of 128 KB, 100
//! threads. The paper varies the request size from 1 to 9 KB: `filebench-fileserver:4k` fixes it,
//! without an argument each operation draws one of the nine. The loops are those of Filebench's own
//! `.f` files, as they reach a device below a file system that caches nothing and journals nothing
//! (said in the notes). File sizes are gamma distributed with shape 1.5, Filebench's default.
//!
//! A thread does one request at a time, so a personality is a closed loop as deep as its threads;
//! the threads take turns.

use super::{Entry, Phase, Replay, Target, Workload};
use crate::{Error, Op, Request, Source};
use nandle_random::{Gamma, Stream};
use std::collections::{BTreeMap, VecDeque};

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "filebench-randomwrite[:SIZE]",
        line: "Filebench random write: one 5 GB file, 3 threads, requests of SIZE (else 1 to 9 KiB)",
        make,
    },
    Entry {
        name: "filebench-fileserver[:SIZE]",
        line: "Filebench file server: 10,000 files of 128 KiB on average, 50 threads",
        make,
    },
    Entry {
        name: "filebench-webserver[:SIZE]",
        line: "Filebench web server: 1000 files of 16 KiB on average, 100 threads",
        make,
    },
    Entry {
        name: "filebench-webproxy[:SIZE]",
        line: "Filebench web proxy: 10,000 files of 128 KiB on average, 100 threads",
        make,
    },
];

/// File-system block: extents start and end on its borders, bytes.
const BLOCK: u64 = 4096;
/// Most bytes of an append, which is one write of any size up to it (Filebench's `appendfilerand` with an `iosize` of
/// `$meanappendsize`).
const APPEND: u64 = 16 << 10;
/// Requests unless asked otherwise.
const REQUESTS: u64 = 1_000_000;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Personality {
    RandomWrite,
    FileServer,
    WebServer,
    WebProxy,
}

struct Setting {
    personality: Personality,
    files: u64,
    mean_bytes: u64,
    threads: u32,
}

fn setting(name: &str) -> Setting {
    let of = |personality, files, mean_bytes, threads| Setting { personality, files, mean_bytes, threads };
    match name {
        "filebench-randomwrite" => of(Personality::RandomWrite, 1, 5 << 30, 3),
        "filebench-fileserver" => of(Personality::FileServer, 10_000, 128 << 10, 50),
        "filebench-webserver" => of(Personality::WebServer, 1000, 16 << 10, 100),
        _ => of(Personality::WebProxy, 10_000, 128 << 10, 100),
    }
}

fn make(name: &'static str, argument: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let size = match argument {
        None => None,
        Some(text) => match bytes(text) {
            Some(size) if (512..=1 << 20).contains(&size) => Some(size),
            _ => {
                return Err(Error::Input(format!(
                    "{name}:{text}: expected a request size from 512 to 1m, such as 4k"
                )));
            }
        },
    };
    let mut setting = setting(name);
    let mut notes = vec![
        "as below a file system without cache, journal or discard: every read and write reaches the device, deleting and stat do not".to_owned(),
    ];
    // The files may fill half of the device: room for files that grow, and for a log.
    let most = target.logical_bytes / 2;
    if setting.files * setting.mean_bytes > most {
        if setting.files == 1 {
            setting.mean_bytes = most / BLOCK * BLOCK;
            notes.push(format!("file scaled down to {} MiB to fit the device", setting.mean_bytes >> 20));
        } else {
            setting.mean_bytes = setting.mean_bytes.min(most / 16);
            setting.files = (most / setting.mean_bytes).max(8);
            notes.push(format!("{} files, to fit the device", setting.files));
        }
    }
    let requests = target.requests.unwrap_or(REQUESTS);
    let mut bench = Bench::new(name, &setting, size, target);
    let fill = Fill { extents: bench.extents(), next: 0, at: 0 };
    let filling = fill.count();
    bench.left = requests;
    let phases = vec![
        Phase::new(Replay::Closed { iodepth: 32 }, fill).counted(filling),
        Phase::new(Replay::Closed { iodepth: setting.threads }, bench).counted(requests),
    ];
    Ok(Workload { name: name.to_owned(), phases, notes })
}

/// Free space: offset to length, neighbours joined. First fit from where the last search ended, as
/// file systems do.
struct Space {
    free: BTreeMap<u64, u64>,
    cursor: u64,
}

impl Space {
    fn new(bytes: u64) -> Self {
        Self { free: BTreeMap::from([(0, bytes / BLOCK * BLOCK)]), cursor: 0 }
    }

    /// Up to `bytes` (a multiple of [`BLOCK`]) in one extent; `None` when nothing is free. Gives
    /// the first hole that holds it all, else the largest of all holes.
    fn take(&mut self, bytes: u64) -> Option<(u64, u64)> {
        let from_cursor = self.free.range(self.cursor..).chain(self.free.range(..self.cursor));
        let fit =
            from_cursor.into_iter().find(|h| *h.1 >= bytes).or_else(|| self.free.iter().max_by_key(|h| *h.1));
        let (&at, &hole) = fit?;
        let taken = bytes.min(hole);
        self.free.remove(&at);
        if hole > taken {
            self.free.insert(at + taken, hole - taken);
        }
        self.cursor = at + taken;
        Some((at, taken))
    }

    fn give(&mut self, mut at: u64, mut bytes: u64) {
        if let Some((&before, &length)) = self.free.range(..at).next_back()
            && before + length == at
        {
            self.free.remove(&before);
            (at, bytes) = (before, length + bytes);
        }
        if let Some(after) = self.free.remove(&(at + bytes)) {
            bytes += after;
        }
        self.free.insert(at, bytes);
    }
}

/// A file: its length and the extents that hold it.
#[derive(Default)]
struct File {
    bytes: u64,
    /// Threads that have yet to write what they planned to: nobody else opens the file meanwhile.
    writers: u32,
    extents: Vec<(u64, u64)>,
}

impl File {
    fn capacity(&self) -> u64 {
        self.extents.iter().map(|e| e.1).sum()
    }

    /// Cuts `from..from + bytes` of the file into requests of at most `size`, broken also where the
    /// file is.
    fn requests(&self, op: Op, from: u64, bytes: u64, size: u64, out: &mut VecDeque<(Op, u64, u64)>) {
        let end = (from + bytes).min(self.bytes);
        let mut base = 0;
        for &(start, length) in &self.extents {
            let mut at = from.max(base);
            while at < end.min(base + length) {
                // Requests keep to multiples of their size within the file, as a program's do.
                let next = ((at - from) / size + 1) * size + from;
                let stop = next.min(end).min(base + length);
                out.push_back((op, start + at - base, stop - at));
                at = stop;
            }
            base += length;
        }
    }
}

struct Bench {
    personality: Personality,
    stream: Stream,
    sizes: Gamma,
    /// The request size, or 1 to 9 KiB.
    size: Option<u64>,
    space: Space,
    files: Vec<File>,
    /// What the web server appends to.
    log: File,
    /// Requests that each thread still has to do before its next turn of the loop.
    threads: Vec<VecDeque<(Op, u64, u64)>>,
    /// The files that each thread writes in this turn.
    writing: Vec<Vec<usize>>,
    turn: usize,
    left: u64,
}

impl Bench {
    fn new(name: &str, setting: &Setting, size: Option<u64>, target: &Target) -> Self {
        let mut bench = Self {
            personality: setting.personality,
            stream: Stream::new(target.seed, &format!("workload/{name}")),
            sizes: Gamma::with_mean(setting.mean_bytes as f64, 1.5),
            size,
            space: Space::new(target.logical_bytes),
            files: Vec::new(),
            log: File::default(),
            threads: vec![VecDeque::new(); setting.threads as usize],
            writing: vec![Vec::new(); setting.threads as usize],
            turn: 0,
            left: 0,
        };
        for _ in 0..setting.files {
            let bytes = if setting.files == 1 { setting.mean_bytes } else { bench.file_bytes() };
            let mut file = File::default();
            grow(&mut bench.space, &mut file, bytes);
            bench.files.push(file);
        }
        bench
    }

    /// Everything that the files occupy, in the order of their creation.
    fn extents(&self) -> Vec<(u64, u64)> {
        self.files.iter().flat_map(|f| f.extents.iter().copied()).collect()
    }

    fn file_bytes(&mut self) -> u64 {
        // A draw far out in the tail must not swallow a small device.
        let most = self.sizes_cap();
        (self.sizes.sample(&mut self.stream) as u64).clamp(512, most) / 512 * 512
    }

    fn sizes_cap(&self) -> u64 {
        let total: u64 = self.space.free.values().sum();
        (total / 8).max(BLOCK)
    }

    fn io_size(&mut self) -> u64 {
        self.size.unwrap_or_else(|| (1 + self.stream.below(9)) << 10)
    }

    /// A file that nobody writes; where all are being written (few files, many threads), any.
    fn pick(&mut self) -> usize {
        let mut index = 0;
        for _ in 0..16 {
            index = self.stream.below(self.files.len() as u64) as usize;
            if self.files[index].writers == 0 {
                break;
            }
        }
        index
    }

    fn writes(&mut self, thread: usize, index: usize) {
        self.files[index].writers += 1;
        self.writing[thread].push(index);
    }

    fn read_whole(&mut self, thread: usize) {
        let (index, size) = (self.pick(), self.io_size());
        let file = &self.files[index];
        file.requests(Op::Read, 0, file.bytes, size, &mut self.threads[thread]);
    }

    /// Deletes a file and creates an empty one in its stead.
    fn create(&mut self) -> (usize, File) {
        let index = self.pick();
        let old = std::mem::take(&mut self.files[index]);
        old.extents.into_iter().for_each(|(at, bytes)| self.space.give(at, bytes));
        (index, File { writers: old.writers, ..File::default() })
    }

    /// Deletes a file and creates one of a new size in its stead, written wholly.
    fn replace(&mut self, thread: usize) {
        let (index, mut file) = self.create();
        let (bytes, size) = (self.file_bytes(), self.io_size());
        grow(&mut self.space, &mut file, bytes);
        file.requests(Op::Write, 0, file.bytes, size, &mut self.threads[thread]);
        self.files[index] = file;
        self.writes(thread, index);
    }

    /// Deletes a file and creates one in its stead, to which it appends once.
    fn restart(&mut self, thread: usize) {
        let (index, mut file) = self.create();
        self.append_to(&mut file, thread);
        self.files[index] = file;
        self.writes(thread, index);
    }

    fn append(&mut self, thread: usize) {
        let index = self.pick();
        let mut file = std::mem::take(&mut self.files[index]);
        self.append_to(&mut file, thread);
        self.files[index] = file;
        self.writes(thread, index);
    }

    fn append_log(&mut self, thread: usize) {
        let mut log = std::mem::take(&mut self.log);
        // Rotated when it has an eighth of the space: Filebench's runs are too short to fill it.
        if log.bytes > self.sizes_cap() {
            log.extents.drain(..).for_each(|(at, bytes)| self.space.give(at, bytes));
            log.bytes = 0;
        }
        self.append_to(&mut log, thread);
        self.log = log;
    }

    fn append_to(&mut self, file: &mut File, thread: usize) {
        let bytes = (1 + self.stream.below(APPEND / 512)) * 512;
        let from = file.bytes;
        grow(&mut self.space, file, bytes);
        file.requests(Op::Write, from, file.bytes - from, APPEND, &mut self.threads[thread]);
    }

    /// One turn of the personality's loop for `thread`.
    fn turn(&mut self, thread: usize) {
        match self.personality {
            Personality::RandomWrite => {
                // Filebench rounds the random offset down to a multiple of the request size.
                let size = self.io_size();
                let file = &self.files[0];
                let slots = (file.bytes / size).max(1);
                let from = self.stream.below(slots) * size;
                file.requests(Op::Write, from, size, size, &mut self.threads[thread]);
            }
            // create and write whole, append, read whole, delete, stat
            Personality::FileServer => {
                self.replace(thread);
                self.append(thread);
                self.read_whole(thread);
            }
            // ten times open and read whole, then append to the log
            Personality::WebServer => {
                (0..10).for_each(|_| self.read_whole(thread));
                self.append_log(thread);
            }
            // delete, create and append, five times open and read whole
            Personality::WebProxy => {
                self.restart(thread);
                (0..5).for_each(|_| self.read_whole(thread));
            }
        }
    }

    fn request(&mut self) -> Request {
        loop {
            let thread = self.turn;
            self.turn = (thread + 1) % self.threads.len();
            if self.threads[thread].is_empty() {
                for index in std::mem::take(&mut self.writing[thread]) {
                    self.files[index].writers -= 1;
                }
                self.turn(thread);
            }
            if let Some((op, offset, bytes)) = self.threads[thread].pop_front() {
                return Request { time_ns: 0, offset, bytes, object: 0, stream: 0, op, fua: false };
            }
        }
    }
}

/// Makes `file` longer by `bytes`, or by as much as there is room for.
fn grow(space: &mut Space, file: &mut File, bytes: u64) {
    let wanted = file.bytes + bytes;
    let mut missing = wanted.saturating_sub(file.capacity()).div_ceil(BLOCK) * BLOCK;
    while missing > 0 {
        let Some((at, taken)) = space.take(missing) else { break };
        match file.extents.last_mut() {
            Some(last) if last.0 + last.1 == at => last.1 += taken,
            _ => file.extents.push((at, taken)),
        }
        missing -= taken;
    }
    file.bytes = wanted.min(file.capacity());
}

impl Source for Bench {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        out.extend((0..count).map(|_| self.request()));
        Ok(())
    }
}

/// Writes the files once, in requests of up to [`Fill::UNIT`].
struct Fill {
    extents: Vec<(u64, u64)>,
    next: usize,
    at: u64,
}

impl Fill {
    const UNIT: u64 = 1 << 20;

    fn count(&self) -> u64 {
        self.extents.iter().map(|e| e.1.div_ceil(Self::UNIT)).sum()
    }
}

impl Source for Fill {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        for _ in 0..max {
            let Some(&(start, length)) = self.extents.get(self.next) else { break };
            let bytes = Self::UNIT.min(length - self.at);
            let offset = start + self.at;
            self.at += bytes;
            if self.at == length {
                (self.next, self.at) = (self.next + 1, 0);
            }
            out.push(Request { time_ns: 0, offset, bytes, object: 0, stream: 0, op: Op::Write, fua: false });
        }
        Ok(())
    }
}

/// A byte count such as `4k`, `1m` or `512` (powers of 1024).
fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::measure::{drain, target};
    use crate::synthetic::named;

    fn phases(name: &str, logical_bytes: u64, requests: u64) -> [(Replay, Vec<Request>); 2] {
        let workload = named(name, &target(logical_bytes, requests)).unwrap();
        let all: Vec<_> =
            workload.phases.into_iter().map(|p| (p.users[0].replay, drain(p.into_source()))).collect();
        all.try_into().unwrap()
    }

    fn share_of_reads(requests: &[Request]) -> f64 {
        let total: u64 = requests.iter().map(|r| r.bytes).sum();
        requests.iter().filter(|r| r.op == Op::Read).map(|r| r.bytes).sum::<u64>() as f64 / total as f64
    }

    #[test]
    fn random_write_is_one_file_and_mostly_unaligned() {
        let [fill, run] = phases("filebench-randomwrite:5k", 32 << 30, 20_000);
        assert_eq!(fill.1.iter().map(|r| r.bytes).sum::<u64>(), 5 << 30);
        assert_eq!(run.0, Replay::Closed { iodepth: 3 });
        assert!(run.1.iter().all(|r| r.op == Op::Write && r.bytes == 5 << 10 && r.offset % (5 << 10) == 0));
        let [_, any] = phases("filebench-randomwrite", 32 << 30, 20_000);
        for size in 1..=9 {
            let share = any.1.iter().filter(|r| r.bytes == size << 10).count() as f64 / 2e4;
            assert!((share - 1.0 / 9.0).abs() < 0.01, "{size} KiB: {share}");
        }
    }

    #[test]
    fn file_sizes_have_the_personality_s_mean() {
        for (name, files, mean) in [
            ("fileserver", 10_000.0, 131_072.0),
            ("webserver", 1000.0, 16_384.0),
            ("webproxy", 10_000.0, 131_072.0),
        ] {
            let [fill, run] = phases(&format!("filebench-{name}:4k"), 32 << 30, 100);
            // Extents are whole blocks: half a block more than the files on average.
            let got = fill.1.iter().map(|r| r.bytes).sum::<u64>() as f64 / files - 2048.0;
            assert!((got / mean - 1.0).abs() < 0.05, "{name}: {got}");
            let threads = if name == "fileserver" { 50 } else { 100 };
            assert_eq!(run.0, Replay::Closed { iodepth: threads });
        }
    }

    #[test]
    fn mixes_of_reads_and_writes_follow_the_loops() {
        // Bytes a turn: file server writes 128 + 8, reads 128 (and what was appended); web server
        // reads 10 * 16, appends 8; web proxy writes 8, reads five files, of 128 as long as they are the first ones.
        for (name, want) in [("fileserver", 0.49), ("webserver", 160.0 / 168.0), ("webproxy", 0.98)] {
            let [_, run] = phases(&format!("filebench-{name}:8k"), 32 << 30, 400_000);
            let got = share_of_reads(&run.1);
            assert!((got - want).abs() < 0.03, "{name}: {got}, want {want}");
        }
    }

    #[test]
    fn files_never_share_space_and_reads_hit_written_data() {
        let logical = 8 << 30;
        let [fill, run] = phases("filebench-fileserver:3k", logical, 500_000);
        let mut written = vec![false; (logical / BLOCK) as usize];
        for r in &fill.1 {
            for block in r.offset / BLOCK..(r.offset + r.bytes) / BLOCK {
                assert!(!std::mem::replace(&mut written[block as usize], true), "block {block} twice");
            }
        }
        let mut unwritten = 0;
        for r in &run.1 {
            let blocks = r.offset / BLOCK..(r.offset + r.bytes).div_ceil(BLOCK);
            if r.op == Op::Write {
                blocks.for_each(|block| written[block as usize] = true);
            } else {
                unwritten += blocks.filter(|&block| !written[block as usize]).count();
            }
        }
        assert_eq!(unwritten, 0);
    }

    #[test]
    fn space_is_conserved() {
        let mut space = Space::new(1 << 20);
        let mut held = Vec::new();
        let mut stream = Stream::new(1, "space");
        for _ in 0..10_000 {
            if stream.chance(0.5) || held.is_empty() {
                held.extend(space.take((1 + stream.below(20)) * BLOCK));
            } else {
                let (at, bytes): (u64, u64) = held.swap_remove(stream.below(held.len() as u64) as usize);
                space.give(at, bytes);
            }
            let free: u64 = space.free.values().sum();
            assert_eq!(free + held.iter().map(|h| h.1).sum::<u64>(), 1 << 20);
            let mut ends = space.free.iter().map(|(a, b)| (*a, a + b));
            let mut last = ends.next();
            for next in ends {
                assert!(last.unwrap().1 < next.0, "neighbours not joined");
                last = Some(next);
            }
        }
        held.into_iter().for_each(|(at, bytes)| space.give(at, bytes));
        assert_eq!(space.free, BTreeMap::from([(0, 1 << 20)]));
    }

    #[test]
    fn small_devices_get_fewer_files_and_say_so() {
        for name in ["randomwrite", "fileserver", "webserver", "webproxy"] {
            let name = format!("filebench-{name}");
            let workload = named(&name, &target(8 << 20, 50_000)).unwrap();
            assert!(workload.notes.len() > 1, "{name}: {:?}", workload.notes);
            assert!(drain(workload.into_source()).iter().all(|r| r.offset + r.bytes <= 8 << 20), "{name}");
        }
        let error = named("filebench-webproxy:banana", &target(1 << 30, 1)).unwrap_err().to_string();
        assert!(error.contains("expected a request size"), "{error}");
    }
}
