//! The requests of a recorded run: a pure function of the workload's words and the drive's size.

use std::collections::VecDeque;

use nandle_random::Stream;
use nandle_ssd::Op;

/// What a line says of its workload.
#[derive(Clone, Debug)]
pub struct Workload {
    pub kind: String,
    pub requests: u64,
    pub seed: u64,
    /// Bytes of contents of a sector.
    pub unit: usize,
    /// Mean time between requests.
    pub gap: u64,
}

impl Workload {
    pub fn parse(text: &str) -> Self {
        let (kind, rest) = text.split_once(' ').expect("a kind, then numbers");
        let number = |key: &str| {
            let mut pairs = rest.split_whitespace().filter_map(|word| word.split_once('='));
            let (_, value) = pairs.find(|(k, _)| *k == key).unwrap_or_else(|| panic!("{text}: no {key}"));
            value.parse::<u64>().unwrap_or_else(|e| panic!("{text}: {key}: {e}"))
        };
        Self {
            kind: kind.into(),
            requests: number("requests"),
            seed: number("seed"),
            unit: number("unit") as usize,
            gap: number("gap"),
        }
    }
}

/// A request.
#[derive(Clone, Debug)]
pub struct Ask {
    pub op: Op,
    pub lsn: u64,
    pub sectors: u64,
    pub fua: bool,
    pub stream: u16,
    /// Ranges of a FlashAlloc call, as the command carries them.
    pub ranges: Vec<u8>,
}

fn ask(op: Op, lsn: u64, sectors: u64) -> Ask {
    Ask { op, lsn, sectors, fua: false, stream: 0, ranges: vec![] }
}

/// FlashAlloc of `ranges`: in the command's data, or, of a single one, in the command itself.
fn call(ranges: &[(u64, u64)], in_data: bool, stream: u16) -> Ask {
    let mut bytes = vec![];
    if in_data || ranges.len() != 1 {
        for &(lsn, sectors) in ranges {
            bytes.extend([0; 4]);
            bytes.extend((sectors as u32).to_le_bytes());
            bytes.extend(lsn.to_le_bytes());
        }
    }
    let (lsn, sectors) = ranges[0];
    Ask { stream, ranges: bytes, ..ask(Op::FlashAlloc, lsn, sectors) }
}

/// An object as its host sees it.
struct File {
    ranges: Vec<(u64, u64)>,
    written: u64,
}

impl File {
    fn sectors(&self) -> u64 {
        self.ranges.iter().map(|(_, n)| n).sum()
    }
    /// The sector after `offset` others, and how many follow in its range.
    fn place(&self, offset: u64) -> (u64, u64) {
        let mut before = 0;
        for &(lsn, sectors) in &self.ranges {
            if offset < before + sectors {
                return (lsn + offset - before, before + sectors - offset);
            }
            before += sectors;
        }
        unreachable!("{offset} is behind the end")
    }
}

/// Who asks.
pub struct Host {
    kind: String,
    gap: u64,
    draw: Stream,
    sectors: u64,
    spp: u64,
    /// Requests left of a burst.
    burst: u64,
    /// Next sectors of sequential writers.
    cursors: [u64; 2],
    chunk: u64,
    open: Vec<File>,
    closed: Vec<File>,
    slot: u64,
    free_slots: Vec<u64>,
    pending: VecDeque<Ask>,
}

impl Host {
    pub fn new(workload: &Workload, sectors: u64, spp: u64, block: u64) -> Self {
        let mut draw = Stream::new(workload.seed, "recorded");
        let space = sectors * 3 / 4;
        let slot = block.min(space / 12).max(1);
        Self {
            kind: workload.kind.clone(),
            gap: workload.gap,
            chunk: 1 + draw.below(4 * spp),
            draw,
            sectors,
            spp,
            burst: 0,
            cursors: [0, sectors / 2],
            open: vec![],
            closed: vec![],
            slot,
            free_slots: (0..space / slot).rev().map(|n| n * slot).collect(),
            pending: VecDeque::new(),
        }
    }

    /// Time from one request to the next.
    pub fn pause(&mut self) -> u64 {
        if self.draw.below(400) == 0 {
            return 30_000_000; // long enough for what a drive does when it is idle
        }
        if self.kind != "bursts" {
            return self.draw.below(2 * self.gap);
        }
        if self.burst > 0 {
            self.burst -= 1;
            return 0;
        }
        self.burst = 20 + self.draw.below(380);
        self.burst * self.gap
    }

    /// The next request.
    pub fn next(&mut self) -> Ask {
        if let Some(ask) = self.pending.pop_front() {
            return ask;
        }
        match self.kind.as_str() {
            "mixed" | "bursts" => self.mixed(),
            "cuts" if self.draw.chance(0.3) => self.objects(),
            "cuts" | "streams" => self.streams(),
            "objects" => self.objects(),
            "sequential" => self.sequential(),
            other => panic!("no workload {other}"),
        }
    }

    fn length(&mut self) -> u64 {
        let spp = self.spp;
        let length = match self.draw.below(10) {
            0..=4 => 1 + self.draw.below(spp),
            5 | 6 => spp,
            7 | 8 => 1 + self.draw.below(3 * spp),
            _ => spp + self.draw.below(4 * spp),
        };
        length.min(self.sectors)
    }

    /// A request in `span` sectors from `first` on.
    fn any(&mut self, first: u64, span: u64) -> Ask {
        let length = self.length().min(span);
        let hot = self.draw.chance(0.5);
        let span = if hot { (span / 10).max(length) } else { span };
        let mut lsn = first + self.draw.below(span - length + 1);
        if self.draw.chance(0.3) {
            lsn = lsn / self.spp * self.spp;
        }
        let op = match self.draw.below(100) {
            0..=24 => Op::Read,
            25..=89 => Op::Write,
            90..=96 => Op::Trim,
            _ => return ask(Op::Flush, 0, 0),
        };
        Ask { fua: op == Op::Write && self.draw.chance(0.03), ..ask(op, lsn, length) }
    }

    fn mixed(&mut self) -> Ask {
        if self.draw.below(300) == 0 {
            return ask(Op::Write, self.sectors - 1, 2); // beyond the end
        }
        self.any(0, self.sectors)
    }

    /// Six streams, each mostly in its own sixth of the drive.
    fn streams(&mut self) -> Ask {
        let stream = self.draw.below(6);
        let sixth = self.sectors / 6;
        let (first, span) =
            if self.draw.chance(0.1) { (0, self.sectors) } else { (stream * sixth, sixth.max(1)) };
        // The higher the stream, the fewer sectors it writes over and over.
        let span = if self.draw.chance(0.6) { (span >> stream.min(4)).max(1) } else { span };
        Ask { stream: stream as u16, ..self.any(first, span) }
    }

    fn sequential(&mut self) -> Ask {
        if self.draw.below(20) == 0 {
            return self.mixed();
        }
        let writer = self.draw.below(2) as usize;
        let at = self.cursors[writer];
        let length = self.chunk.min(self.sectors - at);
        if self.draw.below(8) == 0 {
            return ask(Op::Read, at, length);
        }
        self.cursors[writer] = (at + length) % self.sectors;
        if self.cursors[writer] == 0 {
            self.pending.push_back(ask(Op::Flush, 0, 0));
            self.chunk = 1 + self.draw.below(4 * self.spp);
        }
        Ask { stream: writer as u16, ..ask(Op::Write, at, length) }
    }

    fn objects(&mut self) -> Ask {
        match self.draw.below(100) {
            0..=9 => self.create(),
            10..=69 => self.extend(),
            70..=76 => self.delete(),
            77..=79 => self.trim_part(),
            80..=87 => self.read_object(),
            88..=97 => self.any(self.sectors * 3 / 4, self.sectors / 4),
            98 => self.odd_call(),
            _ => ask(Op::Flush, 0, 0),
        }
    }

    fn create(&mut self) -> Ask {
        if self.open.len() >= 5 || self.free_slots.len() < 3 {
            return self.extend();
        }
        let slots = 1 + self.draw.below(3);
        let mut ranges = vec![];
        for _ in 0..slots {
            let place = self.draw.below(self.free_slots.len() as u64) as usize;
            let lsn = self.free_slots.swap_remove(place);
            // Some objects do not fill their slots.
            let short = if self.draw.chance(0.3) { self.draw.below(self.slot) } else { 0 };
            ranges.push((lsn, self.slot - short));
        }
        self.open.push(File { ranges: ranges.clone(), written: 0 });
        if self.draw.chance(0.15) {
            return self.extend(); // an object that the drive is not told of
        }
        let (in_data, stream) = (self.draw.chance(0.5), self.draw.below(3) as u16);
        call(&ranges, in_data, stream)
    }

    fn extend(&mut self) -> Ask {
        if self.open.is_empty() {
            return self.any(self.sectors * 3 / 4, self.sectors / 4);
        }
        let chosen = self.draw.below(self.open.len() as u64) as usize;
        let (at, left) = self.open[chosen].place(self.open[chosen].written);
        let length = (1 + self.draw.below(3 * self.spp)).min(left);
        self.open[chosen].written += length;
        if self.open[chosen].written == self.open[chosen].sectors() {
            let file = self.open.swap_remove(chosen);
            if self.draw.chance(0.6) {
                let (lsn, sectors) = file.ranges[0];
                self.pending.push_back(ask(Op::FlashFree, lsn, sectors));
            }
            self.closed.push(file);
        }
        Ask { fua: self.draw.chance(0.02), ..ask(Op::Write, at, length) }
    }

    fn delete(&mut self) -> Ask {
        let from_open = self.draw.chance(0.1);
        let files = if from_open { &mut self.open } else { &mut self.closed };
        if files.is_empty() {
            return self.extend();
        }
        let chosen = self.draw.below(files.len() as u64) as usize;
        for (lsn, sectors) in files.swap_remove(chosen).ranges {
            self.pending.push_back(ask(Op::Trim, lsn, sectors));
            self.free_slots.push(lsn / self.slot * self.slot);
        }
        self.pending.pop_front().expect("an object has a range")
    }

    fn some_range(&mut self) -> (u64, u64) {
        let all = self.open.iter().chain(&self.closed).flat_map(|file| &file.ranges);
        let all: Vec<(u64, u64)> = all.copied().collect();
        if all.is_empty() {
            return (0, self.slot);
        }
        let (lsn, sectors) = all[self.draw.below(all.len() as u64) as usize];
        let from = self.draw.below(sectors);
        (lsn + from, 1 + self.draw.below((sectors - from).min(4 * self.spp)))
    }

    fn trim_part(&mut self) -> Ask {
        let (lsn, sectors) = self.some_range();
        ask(Op::Trim, lsn, sectors)
    }

    fn read_object(&mut self) -> Ask {
        let (lsn, sectors) = self.some_range();
        ask(Op::Read, lsn, sectors)
    }

    /// Calls that overlap a live object or each other, have too many ranges or lie beyond the end; writes
    /// over an object.
    fn odd_call(&mut self) -> Ask {
        let (lsn, sectors) = self.some_range();
        match self.draw.below(5) {
            0 => call(&[(lsn, sectors)], false, 0),
            1 => call(&[(lsn, sectors), (lsn, sectors)], true, 0),
            2 => call(&(0..300).map(|n| (n % self.sectors, 1)).collect::<Vec<_>>(), true, 0),
            3 => call(&[(self.sectors - 1, 2)], true, 0),
            _ => ask(Op::Write, lsn, sectors),
        }
    }
}
