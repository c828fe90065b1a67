use crate::{Error, Op, Request, Source};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::collections::hash_map::Entry;
use std::fmt;
use std::sync::mpsc::sync_channel;

/// Footprints and reuse count pages of this size, whatever the sizes asked for.
const FOOTPRINT_PAGE: u64 = 4096;
/// Pages whose state shares one entry of a map.
const GROUP: u64 = 16;
/// The lowest bit of each page of a group.
const ONE: u64 = 0x1111_1111_1111_1111;
const READ: u64 = 1;
const WRITTEN: u64 = 2;
/// Written and not trimmed since: a partial write finds something to merge with.
const LIVE: u64 = 4;
/// The last write to the page was partial.
const PARTIAL: u64 = 8;
const SECOND: u64 = 1_000_000_000;
/// Pages of one read or write that are looked at; only nonsense is longer.
const MAX_PAGES: u64 = 1 << 22;
/// Requests that reader and collector hand over at a time, and how often before one waits.
const BATCH: usize = 4096;
const BATCHES: usize = 4;

/// What to look at.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InfoOptions {
    /// Sector of the device in bytes: requests not made of whole ones are counted.
    pub sector_bytes: u64,
    /// Flash page sizes in bytes for which alignment is described.
    pub page_bytes: Vec<u64>,
    /// Bound on memory: entries of each page map, about 20 bytes each and good for 16 neighbouring pages.
    pub max_entries: usize,
}

impl Default for InfoOptions {
    fn default() -> Self {
        InfoOptions { sector_bytes: 512, page_bytes: vec![4 << 10, 8 << 10, 16 << 10], max_entries: 16 << 20 }
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
    /// The page maps were full: footprints and partial updates are lower bounds.
    pub footprint_truncated: bool,
    /// End of the highest read or write, in bytes.
    pub end_bytes: u64,
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
    /// Reads `source` to its end and describes it. Memory is constant apart from the page maps, which are bounded.
    ///
    /// # Errors
    /// Those of the source, and page or sector sizes of 0 bytes.
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

/// State of pages of one size, four bits each.
struct PageMap {
    page: u64,
    groups: FxHashMap<u64, u64>,
    max: usize,
    full: bool,
}

impl PageMap {
    fn new(page: u64, max: usize) -> Self {
        PageMap { page, groups: FxHashMap::default(), max, full: false }
    }

    /// The states of a group's pages, to be changed; none if the map is full.
    fn group(&mut self, group: u64) -> Option<&mut u64> {
        let room = self.groups.len() < self.max;
        match self.groups.entry(group) {
            Entry::Occupied(bits) => Some(bits.into_mut()),
            Entry::Vacant(place) if room => Some(place.insert(0)),
            Entry::Vacant(_) => {
                self.full = true;
                None
            }
        }
    }

    /// Forgets the data of the pages that lie wholly in the range.
    fn trim(&mut self, offset: u64, bytes: u64) {
        let (from, to) = (offset.div_ceil(self.page), offset.saturating_add(bytes) / self.page);
        if from >= to {
            return;
        }
        if (to - from) / GROUP > self.groups.len() as u64 {
            // Whole-device trims: there are fewer groups than pages in the range.
            for (&group, bits) in &mut self.groups {
                for i in (0..GROUP).filter(|i| (from..to).contains(&(group * GROUP + i))) {
                    *bits &= !((LIVE | PARTIAL) << (i * 4));
                }
            }
            return;
        }
        for page in from..to {
            let (group, shift) = (page / GROUP, page % GROUP * 4);
            if let Some(bits) = self.groups.get_mut(&group) {
                *bits &= !((LIVE | PARTIAL) << shift);
            }
        }
    }
}

struct Collector {
    info: Info,
    maps: Vec<PageMap>,
    sector: u64,
    /// Where the map for footprints is.
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
        if options.sector_bytes == 0 || options.page_bytes.contains(&0) {
            return Err(Error::Input("sector and page sizes must be at least 1 byte".into()));
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
            maps: sizes.into_iter().map(|p| PageMap::new(p, options.max_entries)).collect(),
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
                for map in &mut self.maps {
                    map.trim(r.offset, r.bytes);
                }
            }
            Op::Flush => self.info.flushes += 1,
            Op::FlashAlloc | Op::FlashFree => self.info.flashalloc += 1,
        }
    }

    fn data(&mut self, r: &Request) {
        let write = r.op == Op::Write;
        count(if write { &mut self.info.write } else { &mut self.info.read }, r.bytes);
        let end = r.offset.saturating_add(r.bytes);
        self.info.end_bytes = self.info.end_bytes.max(end);
        self.info.sub_sector +=
            u64::from(!(r.offset.is_multiple_of(self.sector) && end.is_multiple_of(self.sector)));
        for kind in [usize::from(write), 2] {
            self.sequential[kind] += u64::from(self.last_end[kind] == Some(r.offset));
            self.last_end[kind] = Some(end);
        }
        if r.bytes == 0 {
            return;
        }
        for (i, map) in self.maps.iter_mut().enumerate() {
            let page = map.page;
            let (first, last) = (r.offset / page, (end - 1) / page);
            let cut = [!r.offset.is_multiple_of(page), !end.is_multiple_of(page)];
            let mut own = self.info.pages.get_mut(i);
            if let Some(p) = &mut own {
                p.across_page += u64::from(r.bytes <= page && first != last);
                p.unaligned_writes += u64::from(write && (cut[0] || cut[1]));
            }
            let is_footprint = i == self.footprint;
            if !(write || is_footprint) {
                continue;
            }
            let (mut partial_write, mut partial_update) = (false, false);
            let end_page = last.min(first.saturating_add(MAX_PAGES));
            for group in first / GROUP..=end_page / GROUP {
                let (from, to) = (first.max(group * GROUP), end_page.min(group * GROUP + GROUP - 1));
                let pages = ONE << (from % GROUP * 4) & ONE >> ((GROUP - 1 - to % GROUP) * 4);
                let mut partial = 0;
                if cut[0] && from == first {
                    partial |= 1 << (first % GROUP * 4);
                }
                if cut[1] && to == last {
                    partial |= 1 << (last % GROUP * 4);
                }
                let known = map.group(group);
                let before = known.as_deref().copied().unwrap_or_default();
                let is_known = known.is_some();
                if let Some(bits) = known {
                    *bits = if write {
                        before & !(pages * PARTIAL) | pages * (WRITTEN | LIVE) | partial * PARTIAL
                    } else {
                        before | pages * READ
                    };
                }
                if is_footprint && is_known {
                    let (counts, bit) =
                        if write { (&mut self.writes, WRITTEN) } else { (&mut self.reads, READ) };
                    counts[0] += ones(pages);
                    counts[1] += ones(pages & !(before / bit));
                    self.touched += ones(pages & !(before / READ | before / WRITTEN));
                }
                let Some(p) = own.as_deref_mut().filter(|_| write) else { continue };
                let updates = partial & before / LIVE;
                p.sub_writes += ones(pages);
                p.partial_writes += ones(partial);
                p.partial_updates += ones(updates);
                p.partial_updates_of_partial += ones(updates & before / PARTIAL);
                partial_write |= partial != 0;
                partial_update |= updates != 0;
            }
            if let Some(p) = own {
                p.requests_with_partial_write += u64::from(partial_write);
                p.requests_with_partial_update += u64::from(partial_update);
            }
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
        info.footprint_truncated = self.maps.iter().any(|m| m.full);
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

fn ones(bits: u64) -> u64 {
    u64::from(bits.count_ones())
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
        writeln!(f, "highest address   {:>10.1} MiB", mib(self.end_bytes))?;
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
        assert!((info.sequential_pct - 100.0 / 6.0).abs() < 1e-9 && info.read.sequential_pct == 0.0);
        let text = info.to_string();
        assert!(text.contains("unaligned writes"), "{text}");
        let json = serde_json::to_string(&info).unwrap();
        assert_eq!(serde_json::from_str::<Info>(&json).unwrap(), info);
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
