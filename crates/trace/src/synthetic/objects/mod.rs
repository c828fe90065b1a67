//! Object-aware workloads: data stores as they reach the device, with the calls that name their
//! objects (FlashAlloc, sections 2, 5 and 6).
//!
//! Every file or segment that the paper's authors taught to call FlashAlloc begins with
//! [`Op::FlashAlloc`] requests, one a range: neighbours of one `object` are one call. A replayer that
//! leaves them out has the *vanilla* workload, the same in everything else. Writes carry stream ids by
//! kind of file and level, as the authors assigned them for their multi-stream prototype.
//!
//! Threads of the stores are users of their own ([`super::User`]), each in its own closed loop: what one waits
//! for, only it waits for. Which file comes when depends on the drive, as it does in reality.
//!
//! Sizes are the paper's on a device of its size, and shrink with smaller ones; so do speeds, that a
//! smaller drive of fewer dies sees the same history.

mod mysql;
mod rocksdb;
mod stores;
mod volume;

use super::{Entry, Phase, Replay, Target, User, Workload};
use crate::{Error, Op, Request, Source};
use nandle_random::Stream;
use stores::stores;
use volume::{Ext4, File, Io, LARGEST, Volume};

/// Logical bytes of the paper's device: 16 GB less a tenth.
const PAPER_BYTES: u64 = 15_461_882_265;
const MIB: u64 = 1 << 20;

pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        name: "fio-2m-8",
        line: "FlashAlloc Fig 5a: 8 threads, a file of an eighth of the device each, random 2 MiB overwrites",
        make: fio,
    },
    Entry {
        name: "fio-2m-32",
        line: "FlashAlloc Fig 5b: the same with 32 threads and files of a quarter of that",
        make: fio,
    },
    Entry {
        name: "rocksdb",
        line: "one RocksDB on ext4, db_bench fillrandom from empty until the device is full",
        make: stores,
    },
    Entry {
        name: "rocksdb-x4",
        line: "FlashAlloc Fig 4a: four RocksDB instances on ext4 until the device is full",
        make: stores,
    },
    Entry {
        name: "f2fs[:ssr]",
        line: "FlashAlloc Fig 4b: four RocksDB instances on F2FS until the device is full; ssr: with slack space recycling",
        make: stores,
    },
    Entry {
        name: "mysql",
        line: "FlashAlloc Fig 4c: TPC-C on InnoDB from 8 GB (scaled) until the device is full",
        make: stores,
    },
    Entry {
        name: "rocksdb+mysql",
        line: "FlashAlloc Fig 4d: one RocksDB and one MySQL on one ext4 until the device is full",
        make: stores,
    },
    Entry {
        name: "kv-cache",
        line: "LLM KV-cache offload: objects of 2 to 32 MiB in three lifetime classes, 16 written at a time",
        make: kv_cache,
    },
];

fn workload(phases: Vec<Phase>, notes: Vec<String>) -> Workload {
    Workload { name: String::new(), phases, notes }
}

/// Bytes of the paper's device scaled to this one, in whole `unit`s, at least one.
fn scaled(bytes: u64, unit: u64, target: &Target) -> u64 {
    let share = target.logical_bytes as f64 / PAPER_BYTES as f64;
    ((bytes as f64 * share.min(1.0)) as u64 / unit * unit).max(unit)
}

// ---- fio ------------------------------------------------------------------------------------------

/// Bytes of an overwrite.
const CHUNK: u64 = 2 * MIB;

fn fio(name: &'static str, _: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let threads = if name == "fio-2m-8" { 8 } else { 32 };
    let chunks = target.logical_bytes / 100 * 98 / threads / CHUNK;
    if chunks < 2 {
        let least = threads * CHUNK * 2 / 98 * 100 + CHUNK;
        return Err(Error::Input(format!(
            "{name}: the device is too small: expected at least {least} bytes"
        )));
    }
    let chunks = chunks.min((2 << 30) / CHUNK * 8 / threads);
    // Unless told otherwise, four times the files.
    let per_chunk = 1 + CHUNK / LARGEST;
    let requests = target.requests.unwrap_or(4 * threads * chunks * per_chunk);
    let layout = threads * chunks * (CHUNK / LARGEST);
    let fill = Layout { next: 0, end: threads * chunks * CHUNK };
    let thread = |n: u64| {
        let stream = Stream::new(target.seed, &format!("workload/fio-2m {n}"));
        // What does not divide evenly, the first threads do.
        let left = requests / threads + u64::from(n < requests % threads);
        let source =
            Fio { first: n * chunks, chunks, chunk: 0, at: 0, left, stream, thread: (n, threads), turn: 0 };
        // A direct write of 2 MiB is in flight as a whole.
        User::closed("fio", (CHUNK / LARGEST) as u32, source)
    };
    Ok(workload(
        vec![
            Phase::new(Replay::Closed { iodepth: 32 }, fill).counted(layout),
            Phase::of((0..threads).map(thread).collect()).counted(requests),
        ],
        vec![format!("{threads} files of {} MiB; offsets drawn with replacement", chunks * CHUNK / MIB)],
    ))
}

/// All files written once, one after the other.
struct Layout {
    next: u64,
    end: u64,
}

impl Source for Layout {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        for _ in 0..max {
            if self.next == self.end {
                break;
            }
            out.push(Request {
                time_ns: 0,
                offset: self.next,
                bytes: LARGEST,
                object: 1 + (self.next / CHUNK) as u32,
                stream: 0,
                op: Op::Write,
                fua: false,
            });
            self.next += LARGEST;
        }
        Ok(())
    }
}

/// A thread that overwrites chunks of its own file: a call, then the write.
struct Fio {
    /// Its file: the first chunk, and how many.
    first: u64,
    chunks: u64,
    /// The chunk being written, and the next request of it: 0 = the call.
    chunk: u64,
    at: u64,
    left: u64,
    stream: Stream,
    /// Which thread it is, and of how many.
    thread: (u64, u64),
    turn: u64,
}

impl Source for Fio {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        for _ in 0..self.left.min(max as u64) {
            if self.at == 0 {
                self.chunk = self.first + self.stream.below(self.chunks);
                self.turn += 1;
            }
            let (op, from, bytes) = match self.at {
                0 => (Op::FlashAlloc, 0, CHUNK),
                n => (Op::Write, (n - 1) * LARGEST, LARGEST),
            };
            let (number, threads) = self.thread;
            out.push(Request {
                time_ns: 0,
                offset: self.chunk * CHUNK + from,
                bytes,
                // Behind those of the layout, and of no other thread.
                object: (self.turn * threads + number + 1 + self.chunks * threads) as u32,
                stream: number as u16,
                op,
                fua: false,
            });
            self.at = (self.at + 1) % (1 + CHUNK / LARGEST);
            self.left -= 1;
        }
        Ok(())
    }
}

// ---- KV cache ---------------------------------------------------------------------------------------

/// Objects written at a time.
const WRITERS: usize = 16;
/// Share of the device that objects take when it is in balance.
const OCCUPIED: f64 = 0.85;

fn kv_cache(_: &'static str, _: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let most = (32 * MIB).min(target.logical_bytes / 256 / MIB * MIB).max(2 * MIB);
    let requests = target.requests.unwrap_or(6 * target.logical_bytes / LARGEST);
    let source = KvCache {
        volume: Volume::Ext4(Ext4::new(target.logical_bytes)),
        io: Io::default(),
        live: vec![],
        writing: vec![],
        turn: 0,
        used: 0,
        most,
        wanted: (target.logical_bytes as f64 * OCCUPIED) as u64,
        stream: Stream::new(target.seed, "workload/kv-cache"),
        left: requests,
    };
    Ok(workload(
        vec![Phase::new(Replay::Closed { iodepth: 32 }, source).counted(requests)],
        vec![format!("objects of 2 to {} MiB, {:.0}% of the device", most / MIB, OCCUPIED * 100.0)],
    ))
}

/// Key-value tensors of conversations: written once, dropped as a whole. One in two is dropped soon,
/// three in ten later, the others are shared prefixes that stay; which one goes is drawn by class.
struct KvCache {
    volume: Volume,
    io: Io,
    /// Complete objects and their class.
    live: Vec<(File, u16)>,
    /// Objects being written, with their size.
    writing: Vec<(File, u64)>,
    turn: usize,
    used: u64,
    most: u64,
    wanted: u64,
    stream: Stream,
    left: u64,
}

impl KvCache {
    fn step(&mut self) {
        if self.writing.len() < WRITERS {
            let bytes = 2 * MIB + self.stream.below((self.most - 2 * MIB) / LARGEST + 1) * LARGEST;
            while self.used + bytes > self.wanted && self.drop_one() {}
            let class = match self.stream.below(10) {
                0..=4 => 1,
                5..=7 => 2,
                _ => 3,
            };
            if let Some(file) = self.volume.create(bytes, (0, 1), class, &mut self.io) {
                self.used += bytes;
                self.writing.push((file, bytes));
            } else if !self.drop_one() {
                self.left = 0;
            }
            return;
        }
        let turn = self.turn % self.writing.len();
        self.turn = turn + 1;
        let (file, bytes) = &mut self.writing[turn];
        let n = LARGEST.min(*bytes - file.bytes);
        self.volume.append(file, n, &mut self.io);
        if file.bytes == *bytes {
            let (file, _) = self.writing.swap_remove(turn);
            let class = file.stream;
            self.live.push((file, class));
        }
    }

    /// Drops an object: of some drawn, the one whose class lives shortest.
    fn drop_one(&mut self) -> bool {
        if self.live.is_empty() {
            return false;
        }
        let mut n = self.stream.below(self.live.len() as u64) as usize;
        for _ in 0..2 {
            let other = self.stream.below(self.live.len() as u64) as usize;
            if self.live[other].1 < self.live[n].1 {
                n = other;
            }
        }
        let (file, _) = self.live.swap_remove(n);
        self.used -= file.bytes;
        self.volume.delete(&file, &mut self.io);
        // There is one stream of requests: whatever comes now comes behind the trims.
        self.volume.free(&mut self.io.freed);
        true
    }
}

impl Source for KvCache {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        for _ in 0..max {
            while self.io.queue.is_empty() && self.left > 0 {
                self.step();
            }
            if self.left == 0 {
                break;
            }
            out.extend(self.io.queue.pop_front());
            self.left -= 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
