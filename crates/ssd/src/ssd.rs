//! The drive: commands in, completions out.
//!
//! Writes, trims and flushes take effect in the order of their submission, one behind the other;
//! reads overtake them while they wait for room. A request completes `dram_ns` after its last flash
//! operation, or after its submission if it needs none.

use std::collections::VecDeque;
use std::sync::Arc;

use nandle_io::{Command, Completion, Op, Range, Status};
use nandle_nand::{Cause, Counters, Done, Kind, Nand, OpId, Silicon, Time};
use smallvec::SmallVec;

use crate::advisor::Advisor;
use crate::allocation::{PageClass, Role};
use crate::buffer::{Buffer, Entry};
use crate::config::{ConfigError, DeviceConfig, Layout};
use crate::explain::Operation;
use crate::flash::{Contents, Flash};
use crate::fragments::{run_mask, runs};
use crate::map_cache::MapCache;
use crate::mapping::compaction::Packing;
use crate::mapping::{Mapping, Part, Write};
use crate::recovery::{Look, RecoveryReport};
use crate::stats::Stats;
use crate::streams::flashalloc::Refusal;

const NONE: u32 = u32::MAX;

#[derive(Clone, Debug)]
struct Request {
    id: u64,
    op: Op,
    fua: bool,
    stream: u16,
    status: Status,
    lsn: u64,
    sectors: u64,
    /// Sectors already placed.
    cursor: u64,
    /// Buffered sectors that it was short of when it came, for a write into the buffer.
    short: u64,
    /// What it still waits for.
    remaining: u32,
    data: Vec<u8>,
    unreadable: Vec<(u64, u64)>,
    number: u64,
    /// The stream policy has seen it.
    noticed: bool,
}

impl Request {
    const VACANT: Self = Self {
        id: 0,
        op: Op::Flush,
        fua: false,
        stream: 0,
        status: Status::Ok,
        lsn: 0,
        sectors: 0,
        cursor: 0,
        short: 0,
        remaining: 0,
        data: Vec::new(),
        unreadable: Vec::new(),
        number: 0,
        noticed: false,
    };
}

/// A drive in time. Plain data: a clone goes its own way from here on.
#[derive(Clone, Debug)]
pub struct Ssd {
    pub(crate) flash: Flash,
    mapping: Mapping,
    buffer: Option<Buffer>,
    requests: Vec<Request>,
    free: Vec<u32>,
    /// Writes, trims and flushes that are not placed yet, oldest first.
    queue: VecDeque<u32>,
    /// Complete requests whose `dram_ns` are running.
    delayed: VecDeque<(Time, u32)>,
    /// Flushes that wait for the programs of an epoch.
    flushes: VecDeque<(u32, u32)>,
    reads: SmallVec<[(nandle_nand::Ppn, OpId); 4]>,
    /// Contents of the pages of a write that waited in the buffer in part.
    pages: [Vec<u8>; 2],
    outstanding: u32,
    next_number: u64,
    /// Since when the front of the queue waits for free blocks, and for buffer room.
    stalled: Option<Time>,
    waiting: Option<Time>,
    /// When the mapping scheme may use the drive's idleness.
    idle_at: Option<Time>,
    /// Operations that have ended, if someone wants to know.
    pub(crate) operations: Option<Vec<Operation>>,
    /// The power is gone and the capacitors carry on: what is in RAM must reach the flash now.
    on_capacitors: bool,
    /// `short` of all requests in the queue, added up: room is made for all of them at once.
    short: u64,
    digest: u64,
    recovery: Option<RecoveryReport>,
}

/// What a write into flash has for one logical page.
#[derive(Clone, Copy)]
struct Piece {
    lpn: u32,
    /// Sectors of the request, and how many.
    mask: u64,
    len: u64,
    load: Option<OpId>,
    /// Where they begin in the request's data.
    from: usize,
    /// With those that waited in the buffer: all of them, and how many were buffered.
    union: u64,
    release: u32,
}

impl Piece {
    #[inline]
    fn new((lpn, mask, len): (u32, u64, u64)) -> Self {
        Self { lpn, mask, len, load: None, from: 0, union: mask, release: 0 }
    }
    /// `page` = the page's contents, for what waited in the buffer; else they are in `data`.
    #[inline]
    fn part<'a>(&self, data: &'a [u8], page: &'a [u8], unit: usize) -> Part<'a> {
        let contents = if self.release > 0 {
            Contents { bytes: page, first: 0 }
        } else {
            let bytes = &data[self.from..self.from + self.len as usize * unit];
            Contents { bytes, first: self.mask.trailing_zeros() }
        };
        let &Self { lpn, union: mask, release, load, .. } = self;
        Part { lpn, mask, contents, release, load }
    }
}

/// Why the front of the queue cannot go on.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Blocked {
    Flash,
    Buffer,
}

impl Ssd {
    /// A new drive, preconditioned as its configuration says. `unit` bytes of contents are kept for
    /// each sector: 0 for none, 8 for a stamp, `sector_bytes` for the data.
    ///
    /// # Errors
    /// If the configuration does not stand: field, value and what was expected.
    pub fn new(config: &DeviceConfig, unit: usize, seed: u64) -> Result<Self, ConfigError> {
        let layout = config.validate()?;
        let nand = Nand::new(&config.nand(), unit);
        let mut ssd = Self::assemble(config, &layout, nand, seed);
        ssd.flash.format(seed);
        Ok(ssd)
    }

    /// The drive after a power cut: map, blocks and log are rebuilt from the flash.
    ///
    /// # Errors
    /// If the configuration does not stand.
    pub fn power_on(config: &DeviceConfig, silicon: Silicon, seed: u64) -> Result<Self, ConfigError> {
        let ssd = Self::recovered(config, silicon, seed, Look::Checkpoint, None)?;
        Ok(ssd.expect("the power stays"))
    }

    /// Cuts the power and powers the drive on again: clock, counters and digest go on, and the
    /// recovery takes its time. Requests under way are gone.
    ///
    /// # Errors
    /// If the configuration does not stand.
    pub fn power_cycle(mut self, seed: u64) -> Result<Self, ConfigError> {
        let hold_up_ns = if self.flash.config.recovery.plp { self.flush_on_capacitors() } else { 0 };
        let config = self.flash.config.clone();
        let (at, digest) = (self.now(), self.digest);
        let (stats, counters) = (self.flash.stats.clone(), self.counters().clone());
        let busy = self.flash.busy_ns();
        let advisors = std::mem::take(&mut self.flash.advisors);
        let silicon = self.flash.nand.cut_power(config.recovery.plp);
        let layout = config.validate()?;
        let mut ssd = Self::assemble(&config, &layout, Nand::power_on(&config.nand(), silicon), seed);
        let mut report = ssd.flash.recover(Look::Checkpoint, None).expect("the power stays");
        report.hold_up_ns = hold_up_ns;
        let digest = nandle_random::mix(digest ^ at ^ report.time_ns);
        ssd.flash.nand.carry_over(at + report.time_ns, counters, &busy);
        (ssd.flash.stats, ssd.digest) = (stats, digest);
        advisors.into_iter().for_each(|advisor| ssd.flash.consult(advisor));
        ssd.start(report);
        Ok(ssd)
    }

    /// The recovery is over: the drive begins to work.
    fn start(&mut self, report: RecoveryReport) {
        self.recovery = Some(report);
        self.flash.read_only = !self.flash.fits();
        self.flash.collect(&mut self.mapping);
        self.flash.nand.settle();
    }

    pub(crate) fn recovered(
        config: &DeviceConfig,
        silicon: Silicon,
        seed: u64,
        look: Look,
        erases: Option<u32>,
    ) -> Result<Option<Self>, ConfigError> {
        let layout = config.validate()?;
        let nand = Nand::power_on(&config.nand(), silicon);
        let mut ssd = Self::assemble(config, &layout, nand, seed);
        let Some(report) = ssd.flash.recover(look, erases) else { return Ok(None) };
        ssd.start(report);
        Ok(Some(ssd))
    }

    fn assemble(config: &DeviceConfig, layout: &Layout, nand: Nand, seed: u64) -> Self {
        let unit = nand.array().unit();
        let flash = Flash::new(config, layout, nand, seed);
        let sectors = config.buffer.bytes / u64::from(config.geometry.sector_bytes);
        Self {
            buffer: (sectors > 0).then(|| {
                let packing = Packing::new(config).ok().filter(|_| config.scheme.compaction);
                let (pages, full) = (layout.logical_pages, flash.full_mask());
                Buffer::new(&config.scheme, packing, sectors, pages, full, unit)
            }),
            mapping: Mapping::new(config, layout.logical_pages),
            requests: Vec::new(),
            free: Vec::new(),
            queue: VecDeque::new(),
            delayed: VecDeque::new(),
            flushes: VecDeque::new(),
            reads: SmallVec::new(),
            pages: [const { Vec::new() }; 2],
            outstanding: 0,
            next_number: 0,
            stalled: None,
            waiting: None,
            idle_at: None,
            operations: None,
            on_capacitors: false,
            short: 0,
            digest: 0,
            recovery: None,
            flash,
        }
    }

    /// Cuts the power: RAM is gone, the flash is left as it was at this instant. With `recovery.plp`
    /// the capacitors first carry the drive through a flush of everything that it has taken.
    pub fn cut_power(mut self) -> Silicon {
        let protected = self.flash.config.recovery.plp;
        if protected {
            self.flush_on_capacitors();
        }
        self.flash.nand.cut_power(protected)
    }

    /// Flushes with what is left of the power; nanoseconds that it took.
    fn flush_on_capacitors(&mut self) -> Time {
        let start = self.now();
        self.on_capacitors = true;
        let command =
            Command { id: u64::MAX, op: Op::Flush, lsn: 0, sectors: 0, fua: false, stream: 0, data: &[] };
        self.submit(start, &command);
        let (mut done, mut flushed) = (Vec::new(), false);
        while !flushed && let Some(next) = self.next_event() {
            self.advance(next, &mut done);
            flushed = done.drain(..).any(|completion| completion.id == u64::MAX);
        }
        self.now() - start
    }

    /// Whether what the drive has taken survives a power cut before it is on flash.
    fn ram_is_durable(&self) -> bool {
        self.flash.config.recovery.plp && !self.on_capacitors
    }

    /// How long the capacitors would have to last if the power went now (ns), and the pages that would
    /// be programmed meanwhile; nothing without `recovery.plp`. Real drives need less of either: they
    /// dump their RAM to a place that is kept erased for it, instead of flushing.
    pub fn hold_up(&self) -> (Time, u64) {
        if !self.flash.config.recovery.plp {
            return (0, 0);
        }
        let mut drive = self.clone();
        let programs = |ssd: &Self| ssd.counters().programs.iter().flatten().sum::<u64>();
        let before = programs(&drive);
        let time = drive.flush_on_capacitors();
        (time, programs(&drive) - before)
    }

    /// From now on `advisor` decides where it has something to say, and advisors given before it have
    /// not.
    pub fn consult(&mut self, advisor: Arc<dyn Advisor>) {
        self.flash.consult(advisor);
    }

    /// What the recovery took that this drive was powered on with; none for a new one.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.recovery.as_ref()
    }

    /// From now on, what changes on flash is noted, to be taken by [`Ssd::take_changes`].
    pub fn keep_changes(&mut self) {
        self.flash.nand.array_mut().keep_changes();
    }
    /// Moves what has changed on flash since the last call into `into`, oldest first.
    pub fn take_changes(&mut self, into: &mut Vec<nandle_nand::Change>) {
        self.flash.nand.array_mut().take_changes(into);
    }

    /// Bytes of contents kept per sector.
    pub fn unit(&self) -> usize {
        self.flash.array().unit()
    }
    /// The configuration.
    pub fn config(&self) -> &DeviceConfig {
        &self.flash.config
    }
    /// What follows from the configuration.
    pub fn layout(&self) -> &Layout {
        &self.flash.layout
    }
    /// Counters.
    pub fn stats(&self) -> &Stats {
        &self.flash.stats
    }
    /// Flash operations by cause and page type.
    pub fn counters(&self) -> &Counters {
        self.flash.nand.counters()
    }
    /// All counters count from zero again: a preparation is over and the measured part begins.
    pub fn reset_counters(&mut self) {
        self.flash.stats = Stats::default();
        self.flash.nand.reset_counters();
    }
    /// Flash, map and blocks, to look at.
    pub fn flash(&self) -> &Flash {
        &self.flash
    }
    /// The write buffer, if there is one.
    pub fn buffer(&self) -> Option<&Buffer> {
        self.buffer.as_ref()
    }
    /// Bytes of RAM that the whole mapping table takes now, and those of page mapping.
    pub fn mapping_bytes(&self) -> (u64, u64) {
        (self.mapping.bytes(&self.flash), Mapping::Page.bytes(&self.flash))
    }
    /// Requests submitted and not complete.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }
    /// Whether the device takes another request now.
    pub fn accepts(&self) -> bool {
        self.outstanding < self.flash.config.queue.depth
    }
    /// The present time.
    pub fn now(&self) -> Time {
        self.flash.nand.now()
    }
    /// FDP: the reclaim-unit handle goes on to its next unit; nothing without such a handle. Units are
    /// counted pages, so what the last one had left is not lost.
    pub fn next_reclaim_unit(&mut self, handle: u16) {
        self.flash.streams.next_reclaim_unit(handle);
    }
    /// Whether the flash is worn out.
    pub fn is_read_only(&self) -> bool {
        self.flash.read_only
    }
    /// A hash of every completion so far and of where everything is now.
    pub fn digest(&self) -> u64 {
        nandle_random::mix(self.digest ^ self.flash.fragments.digest())
    }

    /// The host is about to ask for sector `lsn`: brings its place in the map into the processor's
    /// cache. Changes nothing but how long the next requests take to simulate.
    #[inline]
    pub fn prefetch_map(&self, lsn: u64) {
        self.flash.fragments.prefetch(self.flash.split(lsn).0);
    }
    /// As [`Ssd::prefetch_map`], some requests later: now that the map's word is near, what it leads to.
    #[inline]
    pub fn prefetch_page(&self, lsn: u64) {
        self.flash.prefetch(self.flash.split(lsn).0);
    }
    /// As [`Ssd::prefetch_page`], some requests later: the pages of a logical page that lies in several.
    #[inline]
    pub fn prefetch_pages(&self, lsn: u64) {
        self.flash.prefetch_listed(self.flash.split(lsn).0);
    }

    /// Hands a request over at time `at`, which must not lie before anything already carried out.
    /// It completes in a later [`Ssd::advance`], even if at the same time.
    pub fn submit(&mut self, at: Time, command: &Command<'_>) {
        self.flash.nand.advance(at);
        self.idle_at = None;
        self.outstanding += 1;
        let number = self.next_number;
        self.next_number += 1;
        let status = self.refuse(command);
        let fua = command.fua && !self.ram_is_durable();
        let slot = self.free.pop().unwrap_or_else(|| {
            self.requests.push(Request::VACANT);
            (self.requests.len() - 1) as u32
        });
        // Field by field: a vacant slot's vectors are empty, and stay as they are.
        let request = &mut self.requests[slot as usize];
        (request.id, request.number) = (command.id, number);
        (request.op, request.fua, request.stream) = (command.op, fua, command.stream);
        (request.lsn, request.sectors, request.cursor) = (command.lsn, command.sectors, 0);
        (request.status, request.noticed, request.short) = (status, false, 0);
        request.remaining = 1; // released when everything of it is placed
        if status != Status::Ok {
            self.flash.stats.rejected += 1;
            self.release(slot);
            return;
        }
        self.count(command);
        if command.op == Op::Read {
            self.read(slot);
        } else {
            if self.flash.array().unit() > 0 || command.op == Op::FlashAlloc {
                self.requests[slot as usize].data.extend_from_slice(command.data);
            }
            let place = if command.op == Op::FlashAlloc { self.place_of_call() } else { self.queue.len() };
            self.queue.insert(place, slot);
            self.claim_room(slot);
            if place == 0 || self.short > 0 {
                self.pump();
            }
        }
        self.attend();
        self.flash.nand.settle();
    }

    /// Where a FlashAlloc command queues up: NVMe gives commands no order, and it need not wait until writes
    /// before it find room; but trims may be of its own range.
    #[inline(never)]
    fn place_of_call(&self) -> usize {
        let stays = |&slot: &u32| !matches!(self.requests[slot as usize].op, Op::Write | Op::Flush);
        self.queue.iter().rposition(stays).map_or(0, |last| last + 1)
    }

    /// Collects garbage; if that lets the queue go on, carries it on.
    #[inline(always)]
    fn attend(&mut self) {
        if self.flash.wants_collection() {
            self.flash.collect(&mut self.mapping);
        }
        while std::mem::take(&mut self.flash.progress) && !self.queue.is_empty() {
            self.pump();
            self.flash.collect(&mut self.mapping);
        }
        self.flash.keep_checkpoint();
        if !self.queue.is_empty() && self.flash.nand.in_flight() == 0 && self.flash.has_failed() {
            self.give_up();
        }
    }

    /// Failures of the flash took the room that collection works with, and nothing is under way that
    /// could give some back: the drive takes no more writes, and what waits is refused.
    #[cold]
    fn give_up(&mut self) {
        self.flash.read_only = true;
        while let Some(slot) = self.queue.pop_front() {
            self.short -= std::mem::take(&mut self.requests[slot as usize].short);
            self.requests[slot as usize].status = Status::ReadOnly;
            self.flash.stats.rejected += 1;
            self.release(slot);
        }
    }

    fn refuse(&self, command: &Command<'_>) -> Status {
        if command.op.concerns_objects() {
            return self.refuse_object(command);
        }
        let end = command.lsn.checked_add(command.sectors);
        if command.op != Op::Flush
            && (command.sectors == 0 || end.is_none_or(|end| end > self.flash.layout.logical_sectors))
        {
            Status::OutOfRange
        } else if command.op == Op::Write && self.flash.read_only {
            Status::ReadOnly
        } else {
            Status::Ok
        }
    }

    fn refuse_object(&self, command: &Command<'_>) -> Status {
        let Some(most) = self.flash.most_ranges() else { return Status::Unsupported };
        let sectors = self.flash.layout.logical_sectors;
        match command.ranges().and_then(|ranges| Range::check_object(&ranges, most as usize, sectors)) {
            Ok(()) => Status::Ok,
            Err(status) => status,
        }
    }

    fn count(&mut self, command: &Command<'_>) {
        let start = self.flash.split(command.lsn).1;
        let stats = &mut self.flash.stats;
        let spp = u64::from(self.flash.spp);
        let kind = command.op as usize;
        stats.requests[kind] += 1;
        stats.bytes[kind] += command.sectors * u64::from(self.flash.config.geometry.sector_bytes);
        if command.op.moves_data() {
            let aligned = start == 0 && (command.sectors == spp || command.sectors.is_multiple_of(spp));
            stats.unaligned_writes += u64::from(command.op == Op::Write && !aligned);
            stats.across_page_requests += u64::from(command.sectors <= spp && start + command.sectors > spp);
        }
    }

    /// The part of a request that falls in the page of its sector `cursor`: page, mask, sectors.
    #[inline]
    fn part(&self, lsn: u64, sectors: u64, cursor: u64) -> (u32, u64, u64) {
        let (lpn, start) = self.flash.split(lsn + cursor);
        let len = (u64::from(self.flash.spp) - start).min(sectors - cursor);
        (lpn, run_mask(start as u32, len as u32), len)
    }

    // ---- reads ------------------------------------------------------------------------------

    fn read(&mut self, slot: u32) {
        let Request { lsn, sectors, .. } = self.requests[slot as usize];
        let mut cursor = 0;
        let mut reads = std::mem::take(&mut self.reads);
        let mut data = Vec::new();
        let mut flashed = false;
        while cursor < sectors {
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            cursor += len;
            let buffered = self.buffer.as_ref().map_or(0, |b| b.mask(lpn)) & mask;
            let rest = mask & !buffered;
            let before = reads.len();
            if rest != 0 {
                let load = self.flash.look_up(lpn, rest);
                self.flash.read(lpn, rest, Cause::Host, Some(slot), load.as_slice(), &mut reads);
                self.requests[slot as usize].remaining += (reads.len() - before) as u32;
                flashed |= !reads.is_empty();
                if let Some(op) = load
                    && reads.len() == before
                {
                    // Only the map says that there is nothing: its load is waited for.
                    self.flash.wait_for_load(op, slot);
                    self.requests[slot as usize].remaining += 1;
                }
                let stored = self.flash.stored(lpn, rest);
                self.flash.stats.unmapped_reads += u64::from(stored != rest);
            }
            if self.unit() > 0 {
                self.collect_data(lpn, mask, buffered, &mut data);
            }
            let gone = self.flash.unreadable(lpn, rest);
            if gone != 0 {
                self.read_failed(slot, lpn, gone);
            }
            if before > 2 {
                // Only pages of this logical page can be shared with the next one.
                reads.drain(..before);
            }
        }
        if flashed {
            self.flash.count_area_read(lsn, sectors);
        }
        reads.clear();
        self.reads = reads;
        self.requests[slot as usize].data = data;
        self.release(slot);
    }

    /// What a read of `sectors` sectors from `lsn` would return now, and the sectors that it would not
    /// (first, how many), in no time.
    pub fn contents(&self, lsn: u64, sectors: u64) -> (Vec<u8>, Vec<(u64, u64)>) {
        let (mut data, mut gone) = (Vec::new(), Vec::new());
        let mut cursor = 0;
        while cursor < sectors {
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            cursor += len;
            let buffered = self.buffer.as_ref().map_or(0, |b| b.mask(lpn)) & mask;
            self.collect_data(lpn, mask, buffered, &mut data);
            let base = u64::from(lpn) * u64::from(self.flash.spp);
            let lost = runs(self.flash.unreadable(lpn, mask & !buffered));
            gone.extend(lost.map(|(start, len)| (base + u64::from(start), u64::from(len))));
        }
        (data, gone)
    }

    /// The flash does not return the sectors `gone` of `lpn`.
    #[cold]
    fn read_failed(&mut self, slot: u32, lpn: u32, gone: u64) {
        self.flash.stats.unreadable_sectors += u64::from(gone.count_ones());
        let base = u64::from(lpn) * u64::from(self.flash.spp);
        let request = &mut self.requests[slot as usize];
        request.status = Status::MediaError;
        for (start, len) in runs(gone) {
            let (first, count) = (base + u64::from(start), u64::from(len));
            match request.unreadable.last_mut() {
                Some((last, n)) if *last + *n == first => *n += count,
                _ => request.unreadable.push((first, count)),
            }
        }
    }

    fn collect_data(&self, lpn: u32, mask: u64, buffered: u64, out: &mut Vec<u8>) {
        let unit = self.unit();
        let first = mask.trailing_zeros();
        let base = out.len();
        out.resize(base + mask.count_ones() as usize * unit, 0);
        let place = |sector: u32| base + (sector - first) as usize * unit;
        let gone = self.flash.unreadable(lpn, mask);
        for f in self.flash.fragments.get(lpn, self.flash.array()) {
            for (start, len) in runs(f.mask & mask & !buffered & !gone) {
                let at = (start as i32 + i32::from(f.shift)) as u32;
                let bytes = &mut out[place(start)..place(start) + len as usize * unit];
                self.flash.array().read(f.ppn, at, bytes);
            }
        }
        if let Some(buffer) = &self.buffer
            && let Some(slot) = buffer.slot(lpn)
        {
            let page = buffer.contents(slot);
            for (start, len) in runs(buffered) {
                let from = start as usize * unit;
                let n = len as usize * unit;
                out[place(start)..place(start) + n].copy_from_slice(&page[from..from + n]);
            }
        }
    }

    // ---- writes, trims, flushes ----------------------------------------------------------------

    /// Carries the queue on as far as it goes.
    fn pump(&mut self) {
        let mut blocked = None;
        while let Some(&slot) = self.queue.front() {
            let request = &mut self.requests[slot as usize];
            if request.op == Op::Write && !std::mem::replace(&mut request.noticed, true) {
                let advised = self.flash.advised_stream(request.lsn, request.sectors, request.stream);
                request.stream = advised.unwrap_or(request.stream);
                self.flash.notice_write(request.lsn, request.sectors, request.stream);
            }
            blocked = match (request.op, self.buffer.is_some()) {
                (Op::Write, _) if self.flash.read_only => {
                    self.requests[slot as usize].status = Status::ReadOnly;
                    self.flash.stats.rejected += 1;
                    None
                }
                (Op::Write, true) if !request.fua => self.write_buffered(slot),
                (Op::Write, _) => self.write_through(slot),
                (Op::Trim, _) => self.trim(slot),
                (Op::FlashAlloc, _) => self.flash_alloc(slot),
                (Op::FlashFree, _) => self.flash_free(slot),
                (Op::Flush, _) => self.flush(slot),
                (Op::Read, _) => unreachable!("reads are not queued"),
            };
            if blocked.is_some() {
                break;
            }
            self.queue.pop_front();
            self.short -= std::mem::take(&mut self.requests[slot as usize].short);
            if self.requests[slot as usize].op != Op::Flush {
                self.release(slot);
            }
        }
        self.flash.host_waits = blocked == Some(Blocked::Flash);
        if blocked.is_some() || self.stalled.is_some() || self.waiting.is_some() {
            self.note_wait(blocked);
        }
    }

    /// Notes since when the front of the queue waits, and for what, or that it goes on.
    #[inline(never)]
    fn note_wait(&mut self, blocked: Option<Blocked>) {
        if self.flash.host_waits {
            self.flash.look_everywhere();
        }
        let now = self.now();
        let note = |since: &mut Option<Time>, is: bool, sum: &mut u64| match (*since, is) {
            (None, true) => *since = Some(now),
            (Some(start), false) => {
                *sum += now - start;
                *since = None;
            }
            _ => {}
        };
        note(&mut self.stalled, blocked == Some(Blocked::Flash), &mut self.flash.stats.foreground_ns);
        note(&mut self.waiting, blocked == Some(Blocked::Buffer), &mut self.flash.stats.buffer_wait_ns);
    }

    /// Host bookkeeping of one write sub-request, before it takes effect.
    #[inline]
    fn count_part(&mut self, lpn: u32, mask: u64) {
        if mask != self.flash.full_mask() {
            self.flash.stats.partial_writes += 1;
            let buffered = self.buffer.as_ref().map_or(0, |b| b.mask(lpn));
            if (self.flash.stored(lpn, u64::MAX) | buffered) & !mask != 0 {
                self.flash.stats.partial_updates += 1;
            }
        }
    }

    /// What writes of `lpn` may need: logical page, role and class, until `one` says no.
    fn needs(
        &self,
        lpn: u32,
        stream: u16,
        (full, alone): (bool, bool),
        mut one: impl FnMut(u32, Role, PageClass) -> bool,
    ) -> bool {
        // A whole page may be written as parts of pages.
        let parts_too = full && self.mapping.mixes_classes();
        let mut page = |near| {
            let role = self.flash.host_role(near, stream);
            one(near, role, PageClass { full, alone })
                && (!parts_too || one(near, role, PageClass { full: false, alone }))
        };
        match self.mapping.reach() {
            0 => page(lpn),
            reach => {
                let last = (lpn + reach).min(self.flash.layout.logical_pages - 1);
                (lpn.saturating_sub(reach)..=last).all(page)
            }
        }
    }

    /// Whether the flash takes `parts` writes of `lpn` now.
    #[inline(always)]
    fn has_room(&self, lpn: u32, stream: u16, full: bool, alone: bool, parts: u32) -> bool {
        let pages = parts * self.mapping.pages_per_part();
        if self.mapping.stays_at_home() {
            let role = self.flash.host_role(lpn, stream);
            return self.flash.has_room(lpn, role, PageClass { full, alone }, pages);
        }
        self.needs(lpn, stream, (full, alone), |lpn, role, class| {
            self.flash.has_room(lpn, role, class, pages)
        })
    }

    /// `parts` writes of `lpn` wait for pages of their class.
    fn call_for(&mut self, lpn: u32, stream: u16, full: bool, alone: bool, parts: u32) {
        let pages = parts * self.mapping.pages_per_part();
        let mut all: SmallVec<[(u32, Role, PageClass); 6]> = SmallVec::new();
        self.needs(lpn, stream, (full, alone), |lpn, role, class| {
            all.push((lpn, role, class));
            true
        });
        all.into_iter().for_each(|(lpn, role, class)| self.flash.call_for(lpn, role, class, pages));
    }

    /// Places a write straight into flash, together with what the buffer holds of its pages.
    fn write_through(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, .. } = self.requests[slot as usize];
        let spp = u64::from(self.flash.spp);
        if self.flash.split(lsn).1 + sectors <= spp {
            return self.write_pieces(slot, [Piece::new(self.part(lsn, sectors, 0))], true);
        }
        self.write_parts(slot)
    }

    /// As [`Ssd::write_through`], for a request of several logical pages.
    fn write_parts(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, stream, .. } = self.requests[slot as usize];
        let spp = u64::from(self.flash.spp);
        loop {
            let cursor = self.requests[slot as usize].cursor;
            if cursor == sectors {
                return None;
            }
            let first = Piece::new(self.part(lsn, sectors, cursor));
            // A run no larger than a page that straddles a border is placed as one.
            let straddles = sectors <= spp && cursor == 0 && self.same_blocks(lsn, sectors, stream);
            let blocked = if straddles {
                let second = Piece::new(self.part(lsn, sectors, cursor + first.len));
                self.write_pieces(slot, [first, second], false)
            } else {
                self.write_pieces(slot, [first], false)
            };
            if blocked.is_some() {
                return blocked;
            }
        }
    }

    /// Places the next pieces of a request together.
    #[inline]
    fn write_pieces<const N: usize>(
        &mut self,
        slot: u32,
        mut pieces: [Piece; N],
        alone: bool,
    ) -> Option<Blocked> {
        let Request { lsn, sectors, stream, mut cursor, .. } = self.requests[slot as usize];
        let unit = self.unit();
        if !self.pieces_fit(&pieces, stream, alone) {
            return Some(Blocked::Flash);
        }
        for piece in &mut pieces {
            piece.load = self.flash.look_up(piece.lpn, piece.mask);
        }
        // Translation pages that had to go may have taken the room.
        if matches!(self.flash.map, MapCache::OnDemand(_)) && !self.pieces_fit(&pieces, stream, alone) {
            return Some(Blocked::Flash);
        }
        for (n, piece) in pieces.iter_mut().enumerate() {
            self.count_part(piece.lpn, piece.mask);
            piece.from = cursor as usize * unit;
            cursor += piece.len;
            if let Some(buffer) = &mut self.buffer
                && let Some(entry) = buffer.slot(piece.lpn)
            {
                let bytes = &self.requests[slot as usize].data[piece.from..cursor as usize * unit];
                let contents = Contents { bytes, first: piece.mask.trailing_zeros() };
                buffer.merge_contents(entry, piece.mask, contents);
                self.pages[n].clear();
                self.pages[n].extend_from_slice(buffer.contents(entry));
                let entry = buffer.take(entry);
                (piece.union, piece.release) = (piece.mask | entry.mask, entry.mask.count_ones());
            }
        }
        let data = &self.requests[slot as usize].data;
        let parts: [Part<'_>; N] = std::array::from_fn(|n| pieces[n].part(data, &self.pages[n], unit));
        let write = Write { parts: &parts, request: Some(slot), stream, alone, range: (lsn, lsn + sectors) };
        let programs = self.mapping.place(&mut self.flash, &write);
        let request = &mut self.requests[slot as usize];
        request.remaining += programs;
        request.cursor = cursor;
        None
    }

    /// Whether the pieces of a write, placed together, find room now; if not, it is called for.
    #[inline]
    fn pieces_fit<const N: usize>(&mut self, pieces: &[Piece; N], stream: u16, alone: bool) -> bool {
        let (full, count) = (self.flash.full_mask(), N as u32);
        let fit = pieces.iter().all(|p| self.has_room(p.lpn, stream, p.mask == full, alone, count));
        if !fit {
            pieces.iter().for_each(|p| self.call_for(p.lpn, stream, p.mask == full, alone, count));
        }
        fit
    }

    /// Notes how much room a write will need in the buffer.
    fn claim_room(&mut self, slot: u32) {
        let Request { op: Op::Write, fua: false, lsn, sectors, .. } = self.requests[slot as usize] else {
            return;
        };
        let Some(buffer) = &self.buffer else { return };
        let (mut cursor, mut short) = (0, 0);
        while cursor < sectors {
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            cursor += len;
            short += u64::from((mask & !buffer.mask(lpn)).count_ones());
        }
        self.requests[slot as usize].short = short;
        self.short += short;
    }

    /// Whether the first and the last page of a request go to the same blocks.
    fn same_blocks(&self, lsn: u64, sectors: u64, stream: u16) -> bool {
        let page = |lsn: u64| self.flash.split(lsn).0;
        self.flash.host_role(page(lsn), stream) == self.flash.host_role(page(lsn + sectors - 1), stream)
    }

    fn write_buffered(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, stream, number, .. } = self.requests[slot as usize];
        while self.requests[slot as usize].cursor < sectors {
            let cursor = self.requests[slot as usize].cursor;
            let (lpn, mask, len) = self.part(lsn, sectors, cursor);
            loop {
                let buffer = self.buffer.as_ref().expect("buffered");
                let missing = buffer.missing(lpn, mask);
                if missing == 0 {
                    break;
                }
                // Room is made for everything that waits, not only for the first; room that is on its
                // way counts.
                let wanted = missing.max(buffer.short_of(self.short));
                if buffer.leaving() >= wanted {
                    return Some(Blocked::Buffer);
                }
                if !self.evict() {
                    let leaving = self.buffer.as_ref().is_some_and(|b| b.leaving() > 0);
                    return Some(if leaving { Blocked::Buffer } else { Blocked::Flash });
                }
            }
            self.count_part(lpn, mask);
            let unit = self.unit();
            let buffer = self.buffer.as_mut().expect("buffered");
            let hit = buffer.slot(lpn).is_some();
            self.flash.stats.buffer_hits += u64::from(hit);
            self.flash.stats.buffer_misses += u64::from(!hit);
            let request = &mut self.requests[slot as usize];
            let from = cursor as usize * unit;
            let bytes = &request.data[from..from + len as usize * unit];
            let new = u64::from((mask & !buffer.mask(lpn)).count_ones()).min(request.short);
            buffer.insert(lpn, mask, number, stream, mask.trailing_zeros(), bytes);
            request.cursor += len;
            request.short -= new;
            self.short -= new;
        }
        None
    }

    fn call_for_entries(&mut self, slots: &[u32]) {
        for &slot in slots {
            let Some(buffer) = &self.buffer else { return };
            let entry = *buffer.entry(slot);
            let full = entry.mask == self.flash.full_mask();
            self.call_for(entry.lpn, entry.stream, full, slots.len() == 1, slots.len() as u32);
        }
    }

    /// Sends the policy's next victims to flash, together; false if there is no room for them.
    fn evict(&mut self) -> bool {
        let Some(buffer) = &mut self.buffer else { return false };
        let mut slots = buffer.victims(&self.flash, &self.mapping);
        if self.mapping.joins_borders() {
            buffer.join_border(&mut slots);
        }
        if slots.len() > 1 {
            // What leaves together goes to the same blocks.
            let role = |slot: u32| {
                let entry = buffer.entry(slot);
                self.flash.host_role(entry.lpn, entry.stream)
            };
            let first = role(slots[0]);
            slots.retain(|slot| role(*slot) == first);
        }
        let full = self.flash.full_mask();
        let room = |ssd: &Self, slots: &[u32]| {
            let Some(buffer) = &ssd.buffer else { return false };
            slots.iter().all(|&slot| {
                let entry = buffer.entry(slot);
                let (whole, count) = (entry.mask == full, slots.len() as u32);
                ssd.has_room(entry.lpn, entry.stream, whole, count == 1, count)
            })
        };
        if slots.len() > 1 && !room(self, &slots) {
            slots.truncate(1);
        }
        if slots.is_empty() || !room(self, &slots) {
            self.call_for_entries(&slots);
            return false;
        }
        let mut loads: SmallVec<[Option<OpId>; 4]> = SmallVec::new();
        for &slot in &slots {
            let Some(buffer) = &self.buffer else { return false };
            let Entry { lpn, mask, .. } = *buffer.entry(slot);
            loads.push(self.flash.look_up(lpn, mask));
        }
        if !room(self, &slots) {
            self.call_for_entries(&slots);
            return false;
        }
        let Some(buffer) = &mut self.buffer else { return false };
        let mut entries: SmallVec<[(u32, Entry, Option<OpId>); 4]> = SmallVec::new();
        for (&slot, &load) in slots.iter().zip(&loads) {
            let stats = &mut self.flash.stats;
            stats.partial_pages_sum += u64::from(buffer.partial_pages());
            let entry = buffer.take(slot);
            stats.evictions += 1;
            stats.evicted_partial_pages += u64::from(entry.mask != full);
            entries.push((slot, entry, load));
        }
        entries.sort_unstable_by_key(|(_, entry, _)| entry.lpn);
        let stream = entries[0].1.stream;
        let parts: SmallVec<[Part<'_>; 4]> = entries
            .iter()
            .map(|&(slot, entry, load)| Part {
                lpn: entry.lpn,
                mask: entry.mask,
                contents: Contents { bytes: buffer.contents(slot), first: 0 },
                release: entry.mask.count_ones(),
                load,
            })
            .collect();
        self.mapping.place(
            &mut self.flash,
            &Write { parts: &parts, request: None, stream, alone: parts.len() == 1, range: (0, 0) },
        );
        true
    }

    fn trim(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, .. } = self.requests[slot as usize];
        if !self.flash.log_has_room() {
            return Some(Blocked::Flash);
        }
        if let Some(buffer) = &mut self.buffer {
            let spp = u64::from(self.flash.spp);
            if !buffer.is_empty() {
                let mut cursor = 0;
                while cursor < sectors {
                    let from = lsn + cursor;
                    let len = (spp - from % spp).min(sectors - cursor);
                    buffer.trim((from / spp) as u32, run_mask((from % spp) as u32, len as u32));
                    cursor += len;
                }
            }
        }
        self.flash.trim(lsn, sectors);
        None
    }

    fn flash_alloc(&mut self, slot: u32) -> Option<Blocked> {
        if !self.flash.log_has_room() {
            return Some(Blocked::Flash);
        }
        let Request { lsn, sectors, stream, ref data, .. } = self.requests[slot as usize];
        let ranges = Range::list(lsn, sectors, data).expect("checked when it was submitted");
        let ranges: Vec<_> = ranges.iter().map(|range| (range.first, range.sectors)).collect();
        let begun = if self.mapping.give_way(&mut self.flash) {
            self.flash.flash_alloc(&ranges, stream)
        } else if self.flash.may_gain_room() {
            Err(Refusal::Wait)
        } else {
            Err(Refusal::NoSpace)
        };
        let status = match begun {
            Ok(()) => Status::Ok,
            Err(Refusal::Wait) => return Some(Blocked::Flash),
            Err(Refusal::Overlap) => Status::Overlap,
            Err(Refusal::NoSpace) => Status::NoCleanBlocks,
        };
        self.requests[slot as usize].status = status;
        self.flash.stats.flashalloc_calls += 1;
        self.flash.stats.rejected += u64::from(status != Status::Ok);
        None
    }

    fn flash_free(&mut self, slot: u32) -> Option<Blocked> {
        let Request { lsn, sectors, .. } = self.requests[slot as usize];
        self.flash.flash_free(lsn, sectors);
        None
    }

    fn flush(&mut self, slot: u32) -> Option<Blocked> {
        if self.ram_is_durable() {
            self.release(slot);
            return None;
        }
        while self.buffer.as_ref().is_some_and(|b| !b.is_empty()) {
            if !self.evict() {
                return Some(Blocked::Flash);
            }
        }
        if !self.flash.log_is_clean() {
            self.flash.write_log(None);
            if !self.flash.log_is_clean() {
                return Some(Blocked::Flash);
            }
        }
        // Everything before the flush is in the epochs up to this one; later writes open the next.
        let epoch = self.flash.close_epoch();
        self.flushes.push_back((epoch, slot));
        self.complete_flushes();
        None
    }

    fn complete_flushes(&mut self) {
        self.flash.retire_epochs();
        while let Some(&(epoch, slot)) = self.flushes.front() {
            if !self.flash.epoch_is_done(epoch) {
                return;
            }
            self.flushes.pop_front();
            self.release(slot);
        }
    }

    /// One of the things that the request waits for has happened.
    fn release(&mut self, slot: u32) {
        let request = &mut self.requests[slot as usize];
        request.remaining -= 1;
        if request.remaining == 0 {
            let at = self.flash.nand.now() + self.flash.config.timing.dram_ns;
            self.delayed.push_back((at, slot));
        }
    }

    // ---- time -------------------------------------------------------------------------------

    /// When the next thing happens, if anything is under way.
    pub fn next_event(&mut self) -> Option<Time> {
        let flash = self.flash.nand.next_event();
        let delayed = self.delayed.front().map(|&(at, _)| at);
        [flash, delayed, self.idle_at].into_iter().flatten().min()
    }

    /// Nothing is under way: the mapping scheme gets its turn after a while.
    fn watch_idleness(&mut self) {
        if self.outstanding == 0 && self.flash.nand.in_flight() == 0 && self.idle_at.is_none() {
            self.idle_at = self.mapping.idle_after().map(|after| self.now() + after);
        }
    }

    fn use_idleness(&mut self, at: Time) {
        self.idle_at = None;
        self.flash.nand.advance(at);
        if self.mapping.idle(&mut self.flash) {
            self.flash.collect(&mut self.mapping);
            self.flash.nand.settle();
            if self.flash.nand.in_flight() == 0 {
                self.watch_idleness();
            }
        }
    }

    /// Carries out everything up to and including time `to`; completions are added to `done`.
    pub fn advance(&mut self, to: Time, done: &mut Vec<Completion>) {
        loop {
            let flash = self.flash.nand.next_event().unwrap_or(Time::MAX);
            if let Some(&(at, slot)) = self.delayed.front()
                && at <= flash
                && at <= to
            {
                self.delayed.pop_front();
                self.complete(at, slot, done);
                continue;
            }
            if let Some(at) = self.idle_at
                && at <= flash
                && at <= to
            {
                self.use_idleness(at);
                continue;
            }
            if flash > to {
                break;
            }
            self.flash.nand.step();
            let ended = self.flash.nand.done().len();
            if ended == 0 {
                // A phase of an operation ended, no more.
                self.flash.nand.settle();
                continue;
            }
            for n in 0..ended {
                let done = self.flash.nand.done()[n];
                self.operation_done(&done);
            }
            if std::mem::take(&mut self.flash.progress) && !self.queue.is_empty() {
                self.pump();
            }
            self.attend();
            self.flash.nand.settle();
            self.watch_idleness();
        }
        if to > self.flash.nand.now() && to != Time::MAX {
            self.flash.nand.advance(to);
        }
    }

    fn complete(&mut self, at: Time, slot: u32, done: &mut Vec<Completion>) {
        let request = &mut self.requests[slot as usize];
        let data = if request.op == Op::Read { std::mem::take(&mut request.data) } else { Vec::new() };
        request.data = Vec::new();
        self.digest = nandle_random::mix(self.digest ^ request.id.rotate_left(32) ^ at);
        let unreadable = std::mem::take(&mut request.unreadable);
        done.push(Completion { id: request.id, at, status: request.status, data, unreadable });
        self.free.push(slot);
        self.outstanding -= 1;
        self.watch_idleness();
    }

    fn operation_done(&mut self, done: &Done) {
        if done.failed && done.kind == Kind::Program && self.flash.program_failed(done) {
            return;
        }
        let info = self.flash.info(done.op);
        if self.operations.is_some() {
            let request = (info.request != NONE).then(|| self.requests[info.request as usize].id);
            self.note_operation(done, request);
        }
        match done.kind {
            Kind::Read => {
                if info.rmw_program != NONE {
                    self.flash.rmw_read_started(info.rmw_program, done.started);
                }
            }
            Kind::Program => {
                if info.rmw_start != 0 {
                    self.flash.stats.rmw_ns += self.now() - info.rmw_start;
                }
                if info.release > 0
                    && let Some(buffer) = &mut self.buffer
                {
                    buffer.release(info.release);
                    self.flash.progress = true;
                }
                if info.epoch != NONE {
                    self.flash.leave_epoch(info.epoch);
                    if !self.flushes.is_empty() {
                        self.complete_flushes();
                    }
                }
                self.flash.program_done(done.ppn);
                if done.cause == Cause::Gc {
                    let geometry = self.flash.geometry();
                    let plane = geometry.plane_of(geometry.block_of(done.ppn));
                    let job = self.flash.job_of(done.op, plane);
                    self.flash.copy_done(job);
                }
            }
            Kind::Erase => self.flash.erase_done(done),
        }
        if info.request != NONE {
            self.release(info.request);
        }
    }

    /// Checks that map, blocks and out-of-band areas agree; slow, for tests.
    ///
    /// # Panics
    /// If they do not.
    pub fn check(&self) {
        self.flash.check();
    }
}
