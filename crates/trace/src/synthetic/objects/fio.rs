//! fio's threads that overwrite whole chunks of their own files, each after a call (FlashAlloc, figure 5).

use nandle_random::Stream;

use super::scale::{CHUNK, MIB, largest};
use crate::synthetic::{Phase, Replay, Target, User, Workload};
use crate::{Error, Op, Request, Source};

pub(super) fn fio(name: &'static str, _: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let threads = if name == "fio-2m-8" { 8 } else { 32 };
    let chunks = target.logical_bytes / 100 * 98 / threads / CHUNK;
    if chunks < 2 {
        let least = threads * CHUNK * 2 / 98 * 100 + CHUNK;
        return Err(Error::Input(format!(
            "{name}: the device is too small: expected at least {least} bytes"
        )));
    }
    let chunks = chunks.min((2 << 30) / CHUNK * 8 / threads);
    let piece = largest(target);
    // Unless told otherwise, four times the files.
    let per_chunk = 1 + CHUNK / piece;
    let requests = target.requests.unwrap_or(4 * threads * chunks * per_chunk);
    let layout = threads * chunks * CHUNK / piece;
    let fill = Layout { next: 0, end: threads * chunks * CHUNK, piece };
    let thread = |n: u64| {
        let stream = Stream::new(target.seed, &format!("workload/fio-2m {n}"));
        // What does not divide evenly, the first threads do.
        let left = requests / threads + u64::from(n < requests % threads);
        let source = Fio {
            first: n * chunks,
            chunks,
            chunk: 0,
            at: 0,
            left,
            piece,
            stream,
            thread: (n, threads),
            turn: 0,
        };
        // A direct write of 2 MiB is in flight as a whole.
        User::closed("fio", (CHUNK / piece) as u32, source)
    };
    Ok(Workload {
        name: String::new(),
        phases: vec![
            Phase::new(Replay::Closed { iodepth: 32 }, fill).counted(layout),
            Phase::of((0..threads).map(thread).collect()).counted(requests),
        ],
        notes: vec![format!(
            "{threads} files of {} MiB; offsets drawn with replacement",
            chunks * CHUNK / MIB
        )],
    })
}

/// All files written once, one after the other.
struct Layout {
    next: u64,
    end: u64,
    /// Bytes of a request.
    piece: u64,
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
                bytes: self.piece,
                object: 1 + (self.next / CHUNK) as u32,
                stream: 0,
                op: Op::Write,
                fua: false,
            });
            self.next += self.piece;
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
    /// Bytes of a request.
    piece: u64,
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
                n => (Op::Write, (n - 1) * self.piece, self.piece),
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
            self.at = (self.at + 1) % (1 + CHUNK / self.piece);
            self.left -= 1;
        }
        Ok(())
    }
}
