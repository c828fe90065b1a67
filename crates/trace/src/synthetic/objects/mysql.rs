//! MySQL 5.7 (the paper's) under TPC-C, as page reads and writes: the buffer pool's misses, the
//! doublewrite buffer and the tablespace.
//!
//! *Clients*: 32 (section 6.2). Each takes a free frame of the buffer pool for a page that it will change, and reads the
//! page into it if the pool has it no more: 10 GB (`my-config1.cnf` in the authors' repository) for a database of 8 GB at
//! the beginning. Where there is no free frame, they wait. *Page cleaner*: keeps `innodb_lru_scan_depth` (default 1024) frames free. A
//! frame becomes free by writing its page: up to 120 pages (`srv_doublewrite_batch_size`) go one after
//! the other to the doublewrite buffer of 2 MB, whose other 8 pages are for single flushes; it is
//! made durable, the pages go to their places all at once, and these are made durable. All cleaner threads share
//! the one buffer and wait for the batch under way (`buf_dblwr_t::batch_running`; Percona's parallel
//! doublewrite blueprint measures it), so one thread stands for them. A batch begins at the
//! buffer's start: the old contents are trimmed and it is FlashAlloc-ed again (section 5.1). The log,
//! flushed at every commit, lies on another device (section 6.1): commits do not reach this one.
//!
//! Ours: three quarters of the updates go to a fifth of the pages (the skew of TPC-C's tables behind a
//! buffer pool, after Leutenegger and Dias, which the paper cites); one page write in eight is a new page of
//! a growing table; which pages a pool smaller than the database lacks is left to chance.

use super::volume::{Io, Volume};
use crate::{Op, Turn};
use nandle_random::{Permutation, Stream};

const PAGE: u64 = 16 << 10;
/// Pages of a batch.
const BATCH: u64 = 120;
const DOUBLEWRITE: u64 = 2 << 20;
/// Frames that the page cleaner keeps free.
const FREE: u64 = 1024;
/// The tablespace grows by so much at a time.
const GROWTH: u64 = 4 << 20;
// Stream ids behind those of RocksDB's files.
const DOUBLEWRITE_STREAM: u16 = 5;
const DATA_STREAM: u16 = 6;

/// What a thread does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Thread {
    /// All clients: they differ in nothing.
    Clients,
    /// Page cleaner.
    Cleaner,
}

/// The threads, and what each has in flight: a read a client, a batch as a whole.
pub(super) const THREADS: [(Thread, u32); 2] = [(Thread::Clients, 32), (Thread::Cleaner, BATCH as u32)];

impl Thread {
    pub fn name(self) -> &'static str {
        match self {
            Self::Clients => "clients",
            Self::Cleaner => "cleaner",
        }
    }
}

pub(super) struct MySql {
    doublewrite: (u64, u64),
    object: u32,
    /// Extents of the tablespace, and where each begins in it.
    space: Vec<(u64, u64, u64)>,
    pages: u64,
    room: u64,
    parent: (u64, u64),
    stream: Stream,
    /// Which pages are hot: the first fifth of it.
    hot: Permutation,
    /// Pages that the buffer pool holds.
    pool: u64,
    /// Free frames of the buffer pool.
    free: u64,
    /// Frames that the batch under way will have freed.
    flushing: u64,
}

impl MySql {
    /// A database of `initial` bytes, whose writing is added to `io`, behind a buffer `pool` of so many; none if there is no
    /// room.
    pub fn new(
        initial: u64,
        pool: u64,
        parent: (u64, u64),
        volume: &mut Volume,
        mut stream: Stream,
        io: &mut Io,
    ) -> Option<Self> {
        let Volume::Ext4(fs) = volume else { return None };
        let doublewrite = *fs.allocate(DOUBLEWRITE, 0)?.first()?;
        let pages = initial / PAGE;
        let mut sql = Self {
            doublewrite,
            object: 0,
            space: vec![],
            pages: 0,
            room: 0,
            parent,
            hot: Permutation::new(pages, &mut stream),
            stream,
            pool: pool / PAGE,
            free: FREE,
            flushing: 0,
        };
        while sql.pages < pages {
            sql.grow(volume, GROWTH.max(initial / 64 / PAGE * PAGE))?;
            sql.pages = sql.room;
        }
        sql.pages = pages;
        for &(offset, _, bytes) in &sql.space {
            io.transfer(Op::Write, offset, bytes, DATA_STREAM, 0);
        }
        Some(sql)
    }

    fn grow(&mut self, volume: &mut Volume, bytes: u64) -> Option<()> {
        let Volume::Ext4(fs) = volume else { return None };
        // After the last extent, as ext4 extends a file.
        let goal = match self.space.last() {
            Some(&(offset, _, bytes)) => offset + bytes,
            None => fs.goal(self.parent),
        };
        for (offset, n) in fs.allocate(bytes, goal)? {
            let n = n / PAGE * PAGE;
            if n > 0 {
                self.space.push((offset, self.room * PAGE, n));
                self.room += n / PAGE;
            }
        }
        Some(())
    }

    fn place(&self, page: u64) -> u64 {
        let at = page * PAGE;
        let n = self.space.partition_point(|&(_, first, _)| first <= at) - 1;
        let (offset, first, _) = self.space[n];
        offset + at - first
    }

    /// A page to be updated.
    fn pick(&mut self) -> u64 {
        let old = self.hot.len();
        let fifth = (old / 5).max(1);
        if self.stream.chance(0.75) {
            self.hot.at(self.stream.below(fifth))
        } else {
            self.stream.below(self.pages)
        }
    }

    /// The next step of a thread; none if the volume is full.
    pub fn step(&mut self, thread: Thread, volume: &mut Volume, io: &mut Io) -> Option<Turn> {
        match thread {
            Thread::Clients => {
                while self.free > 0 {
                    self.free -= 1;
                    let page = self.pick();
                    let lacking = self.pages.saturating_sub(self.pool) as f64 / self.pages as f64;
                    if self.stream.chance(lacking) {
                        io.push(Op::Read, self.place(page), PAGE, DATA_STREAM, 0);
                        return Some(Turn::Requests);
                    }
                }
                Some(Turn::Wait)
            }
            Thread::Cleaner => {
                self.free += std::mem::take(&mut self.flushing);
                if self.free + BATCH > FREE {
                    return Some(Turn::Wait);
                }
                self.batch(volume, io).map(|()| Turn::Requests)
            }
        }
    }

    /// One batch of dirty pages: to the doublewrite buffer, then to their places.
    fn batch(&mut self, volume: &mut Volume, io: &mut Io) -> Option<()> {
        let mut pages = vec![];
        for _ in 0..BATCH {
            pages.push(if self.stream.chance(0.125) {
                if self.pages == self.room {
                    self.grow(volume, GROWTH)?;
                }
                self.pages += 1;
                self.pages - 1
            } else {
                self.pick()
            });
        }
        let (start, length) = self.doublewrite;
        if self.object > 0 {
            io.push(Op::Trim, start, length, DOUBLEWRITE_STREAM, self.object);
        }
        self.object = io.new_object();
        io.push(Op::FlashAlloc, start, length, DOUBLEWRITE_STREAM, self.object);
        io.transfer(Op::Write, start, BATCH * PAGE, DOUBLEWRITE_STREAM, self.object);
        io.flush();
        for page in pages {
            io.push(Op::Write, self.place(page), PAGE, DATA_STREAM, 0);
        }
        io.flush();
        self.flushing = BATCH;
        Some(())
    }
}
