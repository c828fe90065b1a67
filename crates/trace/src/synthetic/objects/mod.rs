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

use super::{Entry, Phase, Replay, Target, Workload};
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
        name: "f2fs",
        line: "FlashAlloc Fig 4b: four RocksDB instances on F2FS until the device is full",
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
    let stream = Stream::new(target.seed, "workload/fio-2m");
    let fill = Fio {
        threads: vec![vec![]; 1],
        chunks: threads * chunks,
        layout: Some(0),
        ..Fio::new(stream.clone())
    };
    let run = Fio { threads: vec![vec![]; threads as usize], chunks, left: requests, ..Fio::new(stream) };
    let layout = threads * chunks * (CHUNK / LARGEST);
    // A direct write of 2 MiB is in flight as a whole.
    let iodepth = (threads * CHUNK / LARGEST) as u32;
    Ok(workload(
        vec![
            Phase::new(Replay::Closed { iodepth: 32 }, fill).counted(layout),
            Phase::new(Replay::Closed { iodepth }, run).counted(requests),
        ],
        vec![format!("{threads} files of {} MiB; offsets drawn with replacement", chunks * CHUNK / MIB)],
    ))
}

/// Threads that overwrite chunks of their own file, or (`layout`) one that writes all once. They are alike,
/// and one user: a request of each in turn, as NVMe's round robin takes them from the queues of the cores.
struct Fio {
    threads: Vec<Vec<Request>>,
    chunks: u64,
    layout: Option<u64>,
    left: u64,
    turn: usize,
    stream: Stream,
    object: u32,
}

impl Fio {
    fn new(stream: Stream) -> Self {
        Self { threads: vec![], chunks: 0, layout: None, left: u64::MAX, turn: 0, stream, object: 0 }
    }

    fn refill(&mut self, thread: usize) -> bool {
        let chunk = match &mut self.layout {
            Some(next) if *next == self.chunks => return false,
            Some(next) => {
                *next += 1;
                *next - 1
            }
            None => thread as u64 * self.chunks + self.stream.below(self.chunks),
        };
        self.object += 1;
        let request = |op, offset, bytes| Request {
            time_ns: 0,
            offset,
            bytes,
            object: self.object,
            stream: thread as u16,
            op,
            fua: false,
        };
        let pieces = (0..CHUNK / LARGEST).rev();
        self.threads[thread] =
            pieces.map(|n| request(Op::Write, chunk * CHUNK + n * LARGEST, LARGEST)).collect();
        if self.layout.is_none() {
            self.threads[thread].push(request(Op::FlashAlloc, chunk * CHUNK, CHUNK));
        }
        true
    }
}

impl Source for Fio {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        for _ in 0..self.left.min(max as u64) {
            let thread = self.turn;
            if self.threads[thread].is_empty() && !self.refill(thread) {
                break;
            }
            out.extend(self.threads[thread].pop());
            self.left -= 1;
            // A call is answered before its write begins.
            if out.last().is_some_and(|r| r.op == Op::Write) {
                self.turn = (thread + 1) % self.threads.len();
            }
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
