//! MySQL/InnoDB under TPC-C, as page writes: the doublewrite buffer and the tablespace.
//!
//! Dirty pages of 16 KB leave in batches of 64: first, one after the other, to the doublewrite
//! buffer of 2 MB, then to their places. When the buffer begins anew its old contents are trimmed and
//! it is FlashAlloc-ed again. Three quarters of the updates go to a fifth of the pages (the skew of
//! TPC-C's tables behind a buffer pool, after Leutenegger and Dias, which the paper cites); one page
//! write in eight is a new page of a growing table. The redo log lies elsewhere. A read for each page
//! that is written stands for the buffer pool's misses.

use super::volume::{Io, Volume};
use crate::{Op, Request};
use nandle_random::{Permutation, Stream};
use std::collections::VecDeque;

const PAGE: u64 = 16 << 10;
const BATCH: u64 = 64;
const DOUBLEWRITE: u64 = 2 << 20;
/// Requests in one turn.
const TURN: usize = 8;
/// The tablespace grows by so much at a time.
const GROWTH: u64 = 4 << 20;
// Stream ids behind those of RocksDB's files.
const DOUBLEWRITE_STREAM: u16 = 5;
const DATA_STREAM: u16 = 6;

pub(super) struct MySql {
    doublewrite: (u64, u64),
    next: u64,
    object: u32,
    /// Extents of the tablespace, and where each begins in it.
    space: Vec<(u64, u64, u64)>,
    pages: u64,
    room: u64,
    parent: (u64, u64),
    stream: Stream,
    /// Which pages are hot: the first fifth of it.
    hot: Permutation,
    /// The rest of the batch under way.
    pending: VecDeque<Request>,
}

impl MySql {
    /// A database of `initial` bytes, whose writing is added to `io`; none if there is no room.
    pub fn new(
        initial: u64,
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
            next: 0,
            object: io.new_object(),
            space: vec![],
            pages: 0,
            room: 0,
            parent,
            hot: Permutation::new(pages, &mut stream),
            stream,
            pending: VecDeque::new(),
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

    /// Some requests; false if the volume is full.
    pub fn step(&mut self, volume: &mut Volume, io: &mut Io) -> bool {
        if self.pending.is_empty() && !self.batch(volume, io) {
            return false;
        }
        for _ in 0..TURN {
            io.queue.extend(self.pending.pop_front());
        }
        true
    }

    /// One batch of dirty pages: to the doublewrite buffer, then to their places.
    fn batch(&mut self, volume: &mut Volume, io: &mut Io) -> bool {
        let mut out = Io::default();
        let mut pages = vec![];
        for _ in 0..BATCH {
            let page = if self.stream.chance(0.125) {
                if self.pages == self.room && self.grow(volume, GROWTH).is_none() {
                    return false;
                }
                self.pages += 1;
                self.pages - 1
            } else {
                self.pick()
            };
            let missed = self.pick();
            out.push(Op::Read, self.place(missed), PAGE, DATA_STREAM, 0);
            pages.push(page);
        }
        let (start, length) = self.doublewrite;
        if self.next.is_multiple_of(length) {
            if self.next > 0 {
                out.push(Op::Trim, start, length, DOUBLEWRITE_STREAM, self.object);
            }
            self.object = io.new_object();
            out.push(Op::FlashAlloc, start, length, DOUBLEWRITE_STREAM, self.object);
        }
        let at = start + self.next % length;
        out.transfer(Op::Write, at, BATCH * PAGE, DOUBLEWRITE_STREAM, self.object);
        self.next += BATCH * PAGE;
        out.flush();
        for page in pages {
            out.push(Op::Write, self.place(page), PAGE, DATA_STREAM, 0);
        }
        out.flush();
        self.pending = out.queue;
        true
    }
}
