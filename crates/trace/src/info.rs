//! What a trace consists of: sizes, shares, addresses, and what its writes do to flash pages.

use crate::{Error, Op, Request, Source};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::mpsc::sync_channel;

/// Footprints and reuse count pages of this size, whatever the sizes asked for.
const FOOTPRINT_PAGE: u64 = 4096;
/// Pages whose state shares a word.
const GROUP: u64 = 16;
/// Bytes whose pages, of every size, lie side by side in memory; more if a page is larger.
const REGION: u64 = 64 << 10;
/// Regions that are found by one entry: the entries of most traces fit a near cache.
const CHUNK: u64 = 16;
/// The lowest bit of each page of a word.
const ONE: u64 = 0x1111_1111_1111_1111;
const READ: u64 = 1;
const WRITTEN: u64 = 2;
/// Written and not trimmed since: a partial write finds something to merge with.
const LIVE: u64 = 4;
/// The last write to the page was partial.
const PARTIAL: u64 = 8;
const SECOND: u64 = 1_000_000_000;
/// Regions of one read or write that are looked at; only nonsense is longer.
const MAX_REGIONS: u64 = 1 << 18;
/// Requests that reader and collector hand over at a time, and how often before one waits: so seldom that both have
/// a processor.
const BATCH: usize = 1024;
const BATCHES: usize = 64;

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoOptions {
    /// Sector of the device in bytes: requests not made of whole ones are counted.
    pub sector_bytes: u64,
    /// Flash page sizes in bytes for which alignment is described: powers of two, at least 512.
    pub page_bytes: Vec<u64>,
    /// Bound on memory: chunks of 1 MiB whose pages are remembered, about 400 bytes each.
    pub max_entries: usize,
}

impl Default for InfoOptions {
    fn default() -> Self {
        InfoOptions { sector_bytes: 512, page_bytes: vec![4 << 10, 8 << 10, 16 << 10], max_entries: 1 << 20 }
    }
}

/// How the requests lie on pages of one size.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct PageInfo {
    /// Page size in bytes.
    pub page_bytes: u64,
    /// Writes whose first or last byte is not at a page's boundary.
    pub unaligned_writes: u64,
    /// ... as a percentage of all writes.
    pub unaligned_writes_pct: f64,
    /// Reads and writes no longer than a page that touch two pages.
    pub across_page: u64,
    /// ... as a percentage of all reads and writes.
    pub across_page_pct: f64,
    /// Page-sized pieces that the writes fall into: the sub-requests of a page-mapped FTL.
    pub sub_writes: u64,
    /// Sub-requests that do not fill their page (PAPA, Fig. 5).
    pub partial_writes: u64,
    /// ... as a percentage of the sub-requests.
    pub partial_writes_pct: f64,
    /// Partial sub-requests to a page written before and not trimmed since (PAPA, Fig. 5).
    pub partial_updates: u64,
    /// ... as a percentage of the sub-requests.
    pub partial_updates_pct: f64,
    /// Partial updates whose page was last written by a partial write (PAPA, Fig. 7).
    pub partial_updates_of_partial: u64,
    /// ... as a percentage of the partial updates.
    pub partial_updates_of_partial_pct: f64,
    /// Writes with at least one partial sub-request.
    pub requests_with_partial_write: u64,
    /// ... as a percentage of all writes.
    pub requests_with_partial_write_pct: f64,
    /// Writes with at least one partial update.
    pub requests_with_partial_update: u64,
    /// ... as a percentage of all writes.
    pub requests_with_partial_update_pct: f64,
}

/// Count and size of the requests of one operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct OpInfo {
    /// Requests.
    pub requests: u64,
    /// Sum of their sizes in bytes.
    pub bytes: u64,
    /// Mean size in bytes; 0 without requests.
    pub mean_bytes: f64,
    /// Largest size in bytes.
    pub max_bytes: u64,
    /// Percentage that start where the previous request of the same operation ended.
    pub sequential_pct: f64,
}

/// What a trace is: counts, sizes, alignment, footprint, rates.
///
/// Percentages and means are over reads and writes only, unless they say otherwise.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Info {
    /// Requests of every kind.
    pub requests: u64,
    /// Reads.
    pub read: OpInfo,
    /// Writes.
    pub write: OpInfo,
    /// Trims (discards).
    pub trim: OpInfo,
    /// Flushes.
    pub flushes: u64,
    /// FlashAlloc and FlashFree commands.
    pub flashalloc: u64,
    /// Writes as a percentage of reads and writes.
    pub write_pct: f64,
    /// Mean size of reads and writes in bytes.
    pub mean_bytes: f64,
    /// Reads and writes that start or end inside a sector.
    pub sub_sector: u64,
    /// Alignment per page size.
    pub pages: Vec<PageInfo>,
    /// Distinct 4 KiB pages read or written, in bytes.
    pub footprint_bytes: u64,
    /// Distinct 4 KiB pages read, in bytes.
    pub read_footprint_bytes: u64,
    /// Distinct 4 KiB pages written, in bytes.
    pub write_footprint_bytes: u64,
    /// 4 KiB page reads per distinct page read; 0 without reads.
    pub read_reuse: f64,
    /// 4 KiB page writes per distinct page written; 0 without writes.
    pub write_reuse: f64,
    /// The map of pages was full: footprints and partial updates are lower bounds.
    pub footprint_truncated: bool,
    /// End of the highest read or write, in bytes.
    pub end_bytes: u64,
    /// Bytes of the pieces of 1 MiB that are read or written (16 of the largest pages, where those are larger than
    /// 64 KiB): a drive as large holds the trace when they lie side by side.
    pub drive_bytes: u64,
    /// Time of the last request in nanoseconds, the first being at 0.
    pub duration_ns: u64,
    /// Mean requests (of every kind) per second; null if all come at once.
    pub mean_rate: Option<f64>,
    /// Mean bytes read and written per second; null if all come at once.
    pub mean_bytes_per_s: Option<f64>,
    /// Most requests in a second, counted in whole seconds from the first request.
    pub peak_rate: u64,
    /// Most bytes read and written in a second.
    pub peak_bytes_per_s: u64,
    /// Percentage of reads and writes that start where the previous one, of either kind, ended.
    pub sequential_pct: f64,
}

impl Info {
    /// Reads `source` to its end and describes it. Memory is constant apart from the map of pages, which is bounded.
    ///
    /// # Errors
    /// Those of the source, sectors of 0 bytes, page sizes that are no powers of two.
    pub fn of(source: &mut dyn Source, options: &InfoOptions) -> Result<Info, Error> {
        let mut collector = Collector::new(options)?;
        let (sender, filled) = sync_channel(BATCHES);
        let (back, emptied) = sync_channel(BATCHES);
        for _ in 0..BATCHES {
            back.try_send(Vec::with_capacity(BATCH)).expect("room for each");
        }
        // Reading a compressed trace costs about as much as describing it.
        std::thread::scope(|scope| {
            let reader = scope.spawn(move || -> Result<(), Error> {
                while let Ok(mut requests) = emptied.recv() {
                    source.fill(&mut requests, BATCH)?;
                    if requests.is_empty() || sender.send(requests).is_err() {
                        break;
                    }
                }
                Ok(())
            });
            for mut requests in filled {
                for request in &requests {
                    collector.add(request);
                }
                requests.clear();
                // Refused once the reader is at its end.
                let _ = back.send(requests);
            }
            reader.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        })?;
        Ok(collector.finish())
    }
}

/// A trace that reaches beyond a drive is cut into pieces of this many address bits, of which those that it touches are laid
/// side by side: 1 MiB, and more where a very wide trace would need a large table of them.
#[must_use]
pub fn piece_bits(end_bytes: u64) -> u32 {
    let mut bits = 20;
    while end_bytes >> bits > 1 << 24 {
        bits += 1;
    }
    bits
}

/// Pages of one size within a region.
#[derive(Clone, Copy)]
struct Pages {
    shift: u32,
    /// The first of a region's words that is theirs.
    word: usize,
}

/// State of the pages of all sizes, four bits each.
struct PageMap {
    region: u64,
    sizes: Vec<Pages>,
    /// Words a region.
    stride: usize,
    /// Where a chunk's words begin.
    chunks: FxHashMap<u64, usize>,
    words: Vec<u64>,
    max: usize,
    full: bool,
}

impl PageMap {
    fn new(sizes: &[u64], max: usize) -> Self {
        let region = sizes.iter().copied().fold(REGION, u64::max);
        let mut stride = 0;
        let pages = |&bytes: &u64| {
            let word = stride;
            stride += (region / bytes).div_ceil(GROUP) as usize;
            Pages { shift: bytes.trailing_zeros(), word }
        };
        let sizes = sizes.iter().map(pages).collect();
        PageMap { region, sizes, stride, chunks: FxHashMap::default(), words: vec![], max, full: false }
    }

    /// Bytes of the pieces ([`piece_bits`]) that are touched, of a trace that reaches so far.
    fn pieces_bytes(&self, end_bytes: u64) -> u64 {
        let chunk_bits = (self.region * CHUNK).trailing_zeros();
        let bits = piece_bits(end_bytes).max(chunk_bits);
        let mut pieces: Vec<u64> = self.chunks.keys().map(|chunk| chunk >> (bits - chunk_bits)).collect();
        pieces.sort_unstable();
        pieces.dedup();
        (pieces.len() as u64) << bits
    }

    /// Where the words of a region are, made if there is room.
    fn place(&mut self, region: u64) -> Option<usize> {
        let room = self.chunks.len() < self.max;
        let within = (region % CHUNK) as usize * self.stride;
        match self.chunks.entry(region / CHUNK) {
            Entry::Occupied(chunk) => Some(chunk.get() + within),
            Entry::Vacant(entry) if room => {
                let chunk = *entry.insert(self.words.len());
                self.words.resize(chunk + CHUNK as usize * self.stride, 0);
                Some(chunk + within)
            }
            Entry::Vacant(_) => {
                self.full = true;
                None
            }
        }
    }

    /// Forgets the data of the pages that lie wholly in the range.
    fn trim(&mut self, offset: u64, bytes: u64) {
        let Some(last) = offset.saturating_add(bytes).checked_sub(1) else { return };
        let bytes = self.region * CHUNK;
        let range = offset / bytes..=last / bytes;
        if range.end() - range.start() > self.chunks.len() as u64 {
            // Whole-device trims: there are fewer chunks than the range has.
            let known = self.chunks.iter().map(|(&chunk, &place)| (chunk, place));
            let known: Vec<_> = known.filter(|(chunk, _)| range.contains(chunk)).collect();
            known.into_iter().for_each(|(chunk, place)| self.forget(chunk, place, offset, last));
            return;
        }
        for chunk in range {
            if let Some(&place) = self.chunks.get(&chunk) {
                self.forget(chunk, place, offset, last);
            }
        }
    }

    /// Forgets what lies wholly in `first..=last`, bytes, of a chunk.
    fn forget(&mut self, chunk: u64, place: usize, first: u64, last: u64) {
        for within in 0..CHUNK {
            let start = (chunk * CHUNK + within) * self.region;
            let end = start + (self.region - 1);
            if last < start || end < first {
                continue;
            }
            for pages in &self.sizes {
                let from = first.saturating_sub(start).div_ceil(1 << pages.shift);
                // The byte after the last one may be the 2^64th.
                let until = ((last.min(end) - start) + 1) >> pages.shift;
                for (word, mask) in words(from, until) {
                    let word = place + within as usize * self.stride + pages.word + word;
                    self.words[word] &= !(mask * (LIVE | PARTIAL));
                }
            }
        }
    }
}

/// The words that pages `from..until` of a region lie in, and their lowest bits there.
fn words(from: u64, until: u64) -> impl Iterator<Item = (usize, u64)> {
    (from / GROUP..until.div_ceil(GROUP)).filter(move |_| from < until).map(move |word| {
        let (first, last) =
            (from.max(word * GROUP) % GROUP, (until - 1).min(word * GROUP + GROUP - 1) % GROUP);
        (word as usize, ONE << (first * 4) & ONE >> ((GROUP - 1 - last) * 4))
    })
}

struct Collector {
    info: Info,
    map: PageMap,
    sector: u64,
    /// Which of the map's sizes footprints are counted in.
    footprint: usize,
    reads: [u64; 2],
    writes: [u64; 2],
    touched: u64,
    last_end: [Option<u64>; 3],
    sequential: [u64; 3],
    trim_end: Option<u64>,
    sequential_trims: u64,
    window: u64,
    window_requests: u64,
    window_bytes: u64,
    started: Option<u64>,
}

impl Collector {
    fn new(options: &InfoOptions) -> Result<Self, Error> {
        let asked = &options.page_bytes;
        let fits = |p: &u64| p.is_power_of_two() && (512..=1 << 30).contains(p);
        if options.sector_bytes == 0 || asked.len() > 32 || !asked.iter().all(fits) {
            return Err(Error::Input(format!(
                "sectors of {} bytes, pages of {asked:?}: expected at least 1 byte, and at most 32 powers of two from 512 B to 1 GiB",
                options.sector_bytes
            )));
        }
        let mut sizes = options.page_bytes.clone();
        let footprint = sizes.iter().position(|&p| p == FOOTPRINT_PAGE).unwrap_or_else(|| {
            sizes.push(FOOTPRINT_PAGE);
            sizes.len() - 1
        });
        let pages = options.page_bytes.iter();
        let pages = pages.map(|&page_bytes| PageInfo { page_bytes, ..PageInfo::default() }).collect();
        Ok(Collector {
            info: Info { pages, ..Info::default() },
            map: PageMap::new(&sizes, options.max_entries),
            sector: options.sector_bytes,
            footprint,
            reads: [0; 2],
            writes: [0; 2],
            touched: 0,
            last_end: [None; 3],
            sequential: [0; 3],
            trim_end: None,
            sequential_trims: 0,
            window: 0,
            window_requests: 0,
            window_bytes: 0,
            started: None,
        })
    }

    fn add(&mut self, r: &Request) {
        self.info.requests += 1;
        let start = *self.started.get_or_insert(r.time_ns);
        let time = r.time_ns.saturating_sub(start);
        self.info.duration_ns = self.info.duration_ns.max(time);
        if time / SECOND != self.window {
            self.close_window();
            self.window = time / SECOND;
        }
        self.window_requests += 1;
        match r.op {
            Op::Read | Op::Write => {
                self.window_bytes += r.bytes;
                self.data(r);
            }
            Op::Trim => {
                let trim = &mut self.info.trim;
                count(trim, r.bytes);
                self.sequential_trims += u64::from(self.trim_end == Some(r.offset));
                self.trim_end = Some(r.offset.saturating_add(r.bytes));
                self.map.trim(r.offset, r.bytes);
            }
            Op::Flush => self.info.flushes += 1,
            Op::FlashAlloc | Op::FlashFree => self.info.flashalloc += 1,
        }
    }

    /// Whether so many bytes are whole sectors.
    #[inline]
    fn is_whole(&self, bytes: u64) -> bool {
        if self.sector.is_power_of_two() {
            bytes & (self.sector - 1) == 0
        } else {
            bytes.is_multiple_of(self.sector)
        }
    }

    fn data(&mut self, r: &Request) {
        let write = r.op == Op::Write;
        count(if write { &mut self.info.write } else { &mut self.info.read }, r.bytes);
        let end = r.offset.saturating_add(r.bytes);
        self.info.end_bytes = self.info.end_bytes.max(end);
        self.info.sub_sector += u64::from(!(self.is_whole(r.offset) && self.is_whole(end)));
        for kind in [usize::from(write), 2] {
            self.sequential[kind] += u64::from(self.last_end[kind] == Some(r.offset));
            self.last_end[kind] = Some(end);
        }
        if r.bytes == 0 {
            return;
        }
        let last = end - 1;
        for p in &mut self.info.pages {
            // Powers of two: shifts, no divisions.
            let shift = p.page_bytes.trailing_zeros();
            p.across_page += u64::from(r.bytes <= p.page_bytes && r.offset >> shift != last >> shift);
            let aligned = (r.offset | end) & (p.page_bytes - 1) == 0;
            p.unaligned_writes += u64::from(write && !aligned);
        }
        // A bit for each size.
        let (mut partial_write, mut partial_update) = (0_u64, 0_u64);
        let region = self.map.region;
        let bits = region.trailing_zeros();
        let first_region = r.offset >> bits;
        for number in first_region..=(last >> bits).min(first_region.saturating_add(MAX_REGIONS)) {
            let (start, end_of_region) = (number * region, number * region + (region - 1));
            let (from, to) = (r.offset.max(start), last.min(end_of_region));
            let place = self.map.place(number);
            let sizes = if write { 0..self.map.sizes.len() } else { self.footprint..self.footprint + 1 };
            for size in sizes {
                let Pages { shift, word } = self.map.sizes[size];
                let (first_page, last_page) = ((from - start) >> shift, (to - start) >> shift);
                let inside = (1_u64 << shift) - 1;
                for (group, pages) in words(first_page, last_page + 1) {
                    let mut partial = 0;
                    if from & inside != 0 && first_page / GROUP == group as u64 {
                        partial |= 1 << (first_page % GROUP * 4);
                    }
                    if to & inside != inside && last_page / GROUP == group as u64 {
                        partial |= 1 << (last_page % GROUP * 4);
                    }
                    let mut before = 0;
                    if let Some(place) = place {
                        let bits = &mut self.map.words[place + word + group];
                        before = *bits;
                        *bits = if write {
                            (before & !(pages * PARTIAL)) | (pages * (WRITTEN | LIVE)) | (partial * PARTIAL)
                        } else {
                            before | (pages * READ)
                        };
                        if size == self.footprint {
                            let (counts, bit) =
                                if write { (&mut self.writes, WRITTEN) } else { (&mut self.reads, READ) };
                            counts[0] += ones(pages);
                            counts[1] += ones(pages & !(before / bit));
                            self.touched += ones(pages & !((before / READ) | (before / WRITTEN)));
                        }
                    }
                    let Some(p) = self.info.pages.get_mut(size).filter(|_| write) else { continue };
                    let updates = partial & (before / LIVE);
                    p.sub_writes += ones(pages);
                    p.partial_writes += ones(partial);
                    p.partial_updates += ones(updates);
                    p.partial_updates_of_partial += ones(updates & (before / PARTIAL));
                    partial_write |= u64::from(partial != 0) << size;
                    partial_update |= u64::from(updates != 0) << size;
                }
            }
        }
        for (size, p) in self.info.pages.iter_mut().enumerate() {
            p.requests_with_partial_write += partial_write >> size & 1;
            p.requests_with_partial_update += partial_update >> size & 1;
        }
    }

    fn close_window(&mut self) {
        self.info.peak_rate = self.info.peak_rate.max(self.window_requests);
        self.info.peak_bytes_per_s = self.info.peak_bytes_per_s.max(self.window_bytes);
        (self.window_requests, self.window_bytes) = (0, 0);
    }

    fn finish(mut self) -> Info {
        self.close_window();
        let mut info = self.info;
        let [read, write, all] = self.sequential;
        for (op, sequential) in
            [(&mut info.read, read), (&mut info.write, write), (&mut info.trim, self.sequential_trims)]
        {
            op.mean_bytes = ratio(op.bytes, op.requests);
            op.sequential_pct = pct(sequential, op.requests);
        }
        let (writes, data) = (info.write.requests, info.read.requests + info.write.requests);
        let bytes = info.read.bytes.saturating_add(info.write.bytes);
        info.write_pct = pct(writes, data);
        info.mean_bytes = ratio(bytes, data);
        info.sequential_pct = pct(all, data);
        for p in &mut info.pages {
            p.unaligned_writes_pct = pct(p.unaligned_writes, writes);
            p.across_page_pct = pct(p.across_page, data);
            p.partial_writes_pct = pct(p.partial_writes, p.sub_writes);
            p.partial_updates_pct = pct(p.partial_updates, p.sub_writes);
            p.partial_updates_of_partial_pct = pct(p.partial_updates_of_partial, p.partial_updates);
            p.requests_with_partial_write_pct = pct(p.requests_with_partial_write, writes);
            p.requests_with_partial_update_pct = pct(p.requests_with_partial_update, writes);
        }
        info.footprint_bytes = self.touched * FOOTPRINT_PAGE;
        info.read_footprint_bytes = self.reads[1] * FOOTPRINT_PAGE;
        info.write_footprint_bytes = self.writes[1] * FOOTPRINT_PAGE;
        info.read_reuse = ratio(self.reads[0], self.reads[1]);
        info.write_reuse = ratio(self.writes[0], self.writes[1]);
        info.footprint_truncated = self.map.full;
        info.drive_bytes = self.map.pieces_bytes(info.end_bytes);
        if info.duration_ns > 0 {
            let seconds = info.duration_ns as f64 / SECOND as f64;
            info.mean_rate = Some(info.requests as f64 / seconds);
            info.mean_bytes_per_s = Some(bytes as f64 / seconds);
        }
        info
    }
}

fn count(op: &mut OpInfo, bytes: u64) {
    op.requests += 1;
    op.bytes = op.bytes.saturating_add(bytes);
    op.max_bytes = op.max_bytes.max(bytes);
}

/// Bits that are set: mostly one or none. Counting them takes twenty instructions where the processor is not
/// known to have one for it.
#[inline]
fn ones(bits: u64) -> u64 {
    if bits & bits.wrapping_sub(1) == 0 { u64::from(bits != 0) } else { u64::from(bits.count_ones()) }
}

fn ratio(a: u64, b: u64) -> f64 {
    if b == 0 { 0.0 } else { a as f64 / b as f64 }
}

fn pct(a: u64, b: u64) -> f64 {
    100.0 * ratio(a, b)
}

impl fmt::Display for Info {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kib = |b: f64| b / 1024.0;
        let mib = |b: u64| b as f64 / f64::from(1 << 20);
        writeln!(
            f,
            "requests            {:>12}   over {:.3} s",
            self.requests,
            self.duration_ns as f64 / 1e9
        )?;
        for (name, op) in [("reads", &self.read), ("writes", &self.write), ("trims", &self.trim)] {
            if op.requests == 0 {
                writeln!(f, "  {name:<18}{:>12}", 0)?;
                continue;
            }
            writeln!(
                f,
                "  {name:<18}{:>12}   mean {:.2} KiB, largest {:.1} KiB, sum {:.1} MiB, {:.1} % sequential",
                op.requests,
                kib(op.mean_bytes),
                kib(op.max_bytes as f64),
                mib(op.bytes),
                op.sequential_pct
            )?;
        }
        if self.flushes > 0 {
            writeln!(f, "  {:<18}{:>12}", "flushes", self.flushes)?;
        }
        if self.flashalloc > 0 {
            writeln!(f, "  {:<18}{:>12}", "FlashAlloc, -Free", self.flashalloc)?;
        }
        writeln!(f, "write share         {:>10.2} %   of reads and writes", self.write_pct)?;
        writeln!(f, "mean size         {:>10.2} KiB", kib(self.mean_bytes))?;
        if let (Some(rate), Some(bytes)) = (self.mean_rate, self.mean_bytes_per_s) {
            writeln!(
                f,
                "rate              {rate:>12.1} /s, {:.2} MiB/s; peak second {} /s, {:.2} MiB/s",
                mib(bytes as u64),
                self.peak_rate,
                mib(self.peak_bytes_per_s)
            )?;
        }
        writeln!(f, "sequential          {:>10.2} %", self.sequential_pct)?;
        let bound = if self.footprint_truncated { " (lower bound: page map full)" } else { "" };
        writeln!(
            f,
            "footprint         {:>10.1} MiB   in 4 KiB pages; read {:.1} MiB ({:.2} times each), written {:.1} MiB \
             ({:.2} times each){bound}",
            mib(self.footprint_bytes),
            mib(self.read_footprint_bytes),
            self.read_reuse,
            mib(self.write_footprint_bytes),
            self.write_reuse
        )?;
        writeln!(
            f,
            "highest address   {:>10.1} MiB   a drive of {:.1} MiB holds it (--fit scale){bound}",
            mib(self.end_bytes),
            mib(self.drive_bytes)
        )?;
        if self.sub_sector > 0 {
            writeln!(f, "not whole sectors   {:>12}", self.sub_sector)?;
        }
        let header: String =
            self.pages.iter().map(|p| format!("{:>10} KiB", kib(p.page_bytes as f64))).collect();
        writeln!(f, "at a page of        {header}")?;
        let mut row = |name: &str, value: fn(&PageInfo) -> f64| {
            let values: String = self.pages.iter().map(|p| format!("{:>12.2} %", value(p))).collect();
            writeln!(f, "  {name:<18}{values}")
        };
        row("unaligned writes", |p| p.unaligned_writes_pct)?;
        row("across-page", |p| p.across_page_pct)?;
        row("partial writes", |p| p.partial_writes_pct)?;
        row("partial updates", |p| p.partial_updates_pct)?;
        row("  of partial pages", |p| p.partial_updates_of_partial_pct)?;
        row("writes w/ partial", |p| p.requests_with_partial_write_pct)?;
        row("writes w/ update", |p| p.requests_with_partial_update_pct)?;
        write!(
            f,
            "Partial writes and updates are shares of the page-sized pieces of writes; the last two rows are shares \
             of writes."
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct List(Vec<Request>);

    impl Source for List {
        fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
            out.extend(self.0.drain(..max.min(self.0.len())));
            Ok(())
        }
    }

    fn request(time_ns: u64, op: Op, offset: u64, bytes: u64) -> Request {
        Request { time_ns, offset, bytes, object: 0, stream: 0, op, fua: false }
    }

    #[test]
    fn a_hand_counted_trace() {
        let k = 1024;
        let list = vec![
            request(0, Op::Write, 0, 16 * k),           // pages 0, 1 of 8 KiB, full
            request(1, Op::Write, 4 * k, 8 * k),        // across: two partial updates of full pages
            request(2, Op::Write, 0, 4 * k),            // partial update of a partial page
            request(3, Op::Write, 32 * k, 4 * k),       // partial write of a new page
            request(4, Op::Trim, 0, 8 * k),             // page 0 forgotten
            request(5, Op::Write, 0, 4 * k),            // partial write, no update
            request(2_000_000_000, Op::Read, 4 * k, k), // follows the write, but not a read
            request(2_000_000_001, Op::Flush, 0, 0),
        ];
        let info = Info::of(&mut List(list), &InfoOptions::default()).unwrap();
        let p = &info.pages[1];
        assert_eq!((p.page_bytes, p.sub_writes, p.partial_writes, p.partial_updates), (8192, 7, 5, 3));
        assert_eq!((p.partial_updates_of_partial, p.across_page, p.unaligned_writes), (1, 1, 4));
        assert_eq!((p.requests_with_partial_write, p.requests_with_partial_update), (4, 2));
        assert_eq!((info.requests, info.write.requests, info.flushes, info.trim.bytes), (8, 5, 1, 8192));
        assert_eq!(info.write_footprint_bytes, 5 * 4096);
        assert_eq!(info.footprint_bytes, 5 * 4096);
        assert_eq!((info.peak_rate, info.duration_ns, info.end_bytes), (6, 2_000_000_001, 36 * k));
        assert_eq!(info.drive_bytes, 1 << 20);
        assert!((info.sequential_pct - 100.0 / 6.0).abs() < 1e-9 && info.read.sequential_pct == 0.0);
        let text = info.to_string();
        assert!(text.contains("unaligned writes"), "{text}");
        let json = serde_json::to_string(&info).unwrap();
        assert_eq!(serde_json::from_str::<Info>(&json).unwrap(), info);
    }

    #[test]
    fn a_very_wide_trace_takes_a_drive_of_the_pieces_that_it_is_cut_into() {
        // 64 TiB: pieces of 4 MiB, of which the first and the last are touched, the first in three places.
        let offsets = [0, 1 << 20, 3 << 20, (1 << 46) - 4096];
        let list = offsets.map(|offset| request(0, Op::Write, offset, 4096)).to_vec();
        let info = Info::of(&mut List(list), &InfoOptions::default()).unwrap();
        assert_eq!((piece_bits(info.end_bytes), info.drive_bytes), (22, 2 << 22));
    }

    #[test]
    fn the_page_map_is_bounded() {
        let list = (0..1000).map(|i| request(i, Op::Write, i << 20, 4096)).collect();
        let options = InfoOptions { max_entries: 10, ..InfoOptions::default() };
        let info = Info::of(&mut List(list), &options).unwrap();
        assert!(info.footprint_truncated);
        assert_eq!(info.write_footprint_bytes, 10 * 4096);
        let trims = vec![request(0, Op::Write, 4096, 8192), request(1, Op::Trim, 0, 1 << 62)];
        assert_eq!(Info::of(&mut List(trims), &InfoOptions::default()).unwrap().trim.requests, 1);
        assert_eq!(Info::of(&mut List(Vec::new()), &InfoOptions::default()).unwrap().mean_rate, None);
    }
}
