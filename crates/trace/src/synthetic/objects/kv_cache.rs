//! A cache of key-value tensors on flash: objects written once, dropped as a whole.

use nandle_random::Stream;

use super::scale::{LARGEST, MIB};
use super::volume::{Ext4, File, Io, Volume};
use crate::synthetic::{Phase, Replay, Target, Workload};
use crate::{Error, Request, Source};

/// Objects written at a time.
const WRITERS: usize = 16;
/// Share of the device that objects take when it is in balance.
const OCCUPIED: f64 = 0.85;

pub(super) fn kv_cache(_: &'static str, _: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let most = (32 * MIB).min(target.logical_bytes / 256 / MIB * MIB).max(2 * MIB);
    let requests = target.requests.unwrap_or(6 * target.logical_bytes / LARGEST);
    let source = KvCache {
        volume: Volume::Ext4(Ext4::new(target.logical_bytes)),
        io: Io::new(LARGEST),
        live: vec![],
        writing: vec![],
        turn: 0,
        used: 0,
        most,
        wanted: (target.logical_bytes as f64 * OCCUPIED) as u64,
        stream: Stream::new(target.seed, "workload/kv-cache"),
        left: requests,
    };
    Ok(Workload {
        name: String::new(),
        phases: vec![Phase::new(Replay::Closed { iodepth: 32 }, source).counted(requests)],
        notes: vec![format!("objects of 2 to {} MiB, {:.0}% of the device", most / MIB, OCCUPIED * 100.0)],
    })
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
