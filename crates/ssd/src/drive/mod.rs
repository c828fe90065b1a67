//! The drive: commands in, completions out.
//!
//! Writes, trims and flushes take effect in the order of their submission, one behind the other;
//! reads overtake them while they wait for room. A request completes `dram_ns` after its last flash
//! operation, or after it took effect if it needs none; host link and controller add their time before and after.

use std::collections::VecDeque;

use nandle_io::{Command, Op, Range, Status};
use nandle_nand::{Counters, Done, Nand, Time};

mod check;
mod demand;
mod destage;
mod explain;
mod faults;
mod front;
mod inspect;
mod operation;
mod power;
mod precondition;
mod queue;
mod reads;
mod request;
mod time;
mod turns;
mod untimed;
mod waiting;
mod writes;

pub use inspect::{Finding, Inspection};
pub use operation::Operation;

use crate::buffer::{Buffer, Release};
use crate::collect::{Collect, Work};
use crate::config::{DeviceConfig, Layout};
use crate::controller::Controller;
use crate::durability::{Durability, RecoveryReport, SystemPages};
use crate::error::ConfigError;
use crate::flash::{Flash, Reads, Stats};
use crate::link::Link;
use crate::map::{Map, run_mask};
use crate::media::Media;
use crate::schemes::{ObjectInfo, Plan, Scheme, Schemes};
use crate::space::{PageClass, PageTypes, Space, SpaceSettings};
use request::Requests;
use turns::Turns;
use waiting::Waiting;

/// A drive in time. Plain data: a clone goes its own way from here on.
#[derive(Clone, Debug)]
pub struct Ssd {
    config: DeviceConfig,
    layout: Layout,
    flash: Flash,
    schemes: Schemes,
    collect: Collect,
    durability: Durability,
    buffer: Option<Buffer>,
    requests: Requests,
    /// The host link, if it takes time.
    link: Option<Box<Link>>,
    /// Who takes effect when, of commands that took time to come.
    turns: Turns,
    /// Writes, trims and flushes that are not placed yet, oldest first.
    queue: VecDeque<u32>,
    /// Who in it waits for room, and where.
    wait_for: Waiting,
    /// Complete requests whose `dram_ns` are running, or whose answers are on the link, in the order in which the
    /// host has them.
    delayed: VecDeque<(Time, u32)>,
    /// Flushes that wait for the programs of a barrier.
    flushes: VecDeque<(u32, u32)>,
    /// Programs that failed with what has just ended.
    failed: Vec<Done>,
    /// The barrier of a program whose contents were lost, until a flush has said so.
    lost_behind: Option<u32>,
    reads: Reads,
    outstanding: u32,
    /// Since when the front of the queue waits for free blocks, and for buffer room.
    stalled: Option<Time>,
    waiting: Option<Time>,
    /// When the schemes may use the drive's idleness.
    idle_at: Option<Time>,
    /// Operations that have ended, if someone wants to know.
    operations: Option<Vec<Operation>>,
    /// More than operations ends with an event: a die has taken a page, and its room in the buffer is free; copies were
    /// over when they were ordered.
    ends_more: bool,
    /// The power is gone and the capacitors carry on: what is in RAM must reach the flash now.
    on_capacitors: bool,
    /// `short` of all requests in the queue, added up: room is made for all of them at once.
    short: u64,
    digest: u64,
    recovery: Option<RecoveryReport>,
}

impl Ssd {
    /// A new drive, preconditioned as its configuration says. `unit` bytes of contents are kept for
    /// each sector: 0 for none, 8 for a stamp, `sector_bytes` for the data.
    ///
    /// # Errors
    /// If the configuration does not stand: field, value and what was expected.
    pub fn new(config: &DeviceConfig, unit: usize, seed: u64) -> Result<Self, ConfigError> {
        let mut ssd = Self::assemble(config, seed, |nand| Nand::new(nand, unit))?;
        ssd.format(seed);
        ssd.expect_failures();
        Ok(ssd)
    }

    /// The layers, one on the other.
    fn assemble(
        config: &DeviceConfig,
        seed: u64,
        nand: impl FnOnce(&nandle_nand::NandConfig) -> Nand,
    ) -> Result<Self, ConfigError> {
        let (plan, layout) = config.plan()?;
        let mut media = Media::new(nand(&config.nand()), &config.faults, seed);
        if let Some(controller) = Controller::new(&config.controller).filter(|_| !config.timing.untimed) {
            media.set_controller(controller);
        }
        if config.buffer.release == Release::Handover {
            media.tell_handover();
        }
        let g = &config.unit_geometry();
        let size = config.table_size(layout.logical_pages);
        let map = Map::new(plan.table, size, g.sectors_per_page(), config.map_cache.bytes);
        let settings = SpaceSettings {
            striping: &config.scheme.striping,
            pacing: config.scheme.pacing,
            by_wear: config.wear.dynamic,
            types_ahead: config.gc.types_ahead,
            logical_pages: layout.logical_pages,
            slc: (&config.slc, layout.slc_blocks),
        };
        let space = Space::new(&plan.space, settings, layout.limits(), &media, seed)?;
        let flash = Flash::new(media, map, space, plan.space.host_groups());
        let sectors = config.buffer.bytes / u64::from(g.sector_bytes);
        let buffer =
            (sectors > 0).then(|| Buffer::new(plan.buffer, sectors, layout.logical_pages, flash.full_mask()));
        let page = (g.page_bytes, g.sectors_per_page());
        let (logical, map_pages) = (layout.logical_pages, layout.map_pages);
        let most = SystemPages::most(&config.recovery, page, logical, map_pages, plan.scatters);
        Ok(Self {
            schemes: Self::schemes_of(config, &plan, logical),
            collect: Collect::new(
                &config.gc,
                config.blocks_in_one(),
                config.wear.static_gap,
                g.planes(),
                seed,
            ),
            durability: Durability::new(&config.recovery, most),
            config: config.clone(),
            layout,
            flash,
            buffer,
            requests: Requests::default(),
            link: Link::new(&config.link).filter(|_| !config.timing.untimed).map(Box::new),
            turns: Turns::default(),
            queue: VecDeque::new(),
            wait_for: Waiting::default(),
            delayed: VecDeque::new(),
            flushes: VecDeque::new(),
            failed: Vec::new(),
            lost_behind: None,
            reads: Reads::new(),
            outstanding: 0,
            stalled: None,
            waiting: None,
            idle_at: None,
            operations: None,
            ends_more: config.buffer.release == Release::Handover || config.timing.untimed,
            on_capacitors: false,
            short: 0,
            digest: 0,
            recovery: None,
        })
    }

    fn schemes_of(config: &DeviceConfig, plan: &Plan, logical_pages: u32) -> Schemes {
        Schemes::new(
            &config.scheme,
            &config.streams,
            &config.facts(&config.unit_geometry()),
            plan,
            logical_pages,
        )
    }

    /// Where programs may fail, blocks stand by for those that do.
    fn expect_failures(&mut self) {
        if self.config.faults.fail_programs() {
            self.collect.expect_failures(&mut self.flash);
        }
    }

    /// From now on `scheme`, from outside of the crate, is asked before the drive's own, and after those
    /// that were added before it.
    pub fn add(&mut self, scheme: Box<dyn Scheme>) {
        self.schemes.add(scheme);
        self.prefer_page_types();
    }
    /// Where page types are chosen, those go first that a scheme from outside likes best.
    pub(super) fn prefer_page_types(&mut self) {
        let types = self.config.cell.kind.bits() as usize;
        let order = |class| self.schemes.page_types(class, types);
        if !self.flash.space().chooses_types() || PageClass::ALL.iter().all(|&class| order(class).is_none()) {
            return;
        }
        let rules = PageTypes::new("preferred", types, |class, survivors| {
            PageTypes::preference(&order(class).unwrap_or_default(), types, survivors)
        });
        self.flash.space_mut().set_page_types(rules);
    }

    // ---- to look at ---------------------------------------------------------------------------------

    /// What the recovery took that this drive was powered on with; none for a new one.
    pub fn recovery(&self) -> Option<&RecoveryReport> {
        self.recovery.as_ref()
    }
    /// Whether memory for further contents is taken in huge pages: faster, but each one's first touch holds up whoever
    /// comes then.
    pub fn take_huge_pages(&mut self, yes: bool) {
        self.flash.media_mut().array_mut().take_huge_pages(yes);
    }
    /// From now on, what changes on flash is noted, to be taken by [`Ssd::take_changes`].
    pub fn keep_changes(&mut self) {
        self.flash.media_mut().keep_changes();
    }
    /// From now on sectors are kept until their block is erased, not only until what supersedes them is on flash: for copies
    /// of the flash elsewhere, which may not have that yet.
    pub fn keep_stale(&mut self) {
        self.flash.media_mut().keep_stale();
    }
    /// Moves what has changed on flash since the last call into `into`, oldest first.
    pub fn take_changes(&mut self, into: &mut Vec<nandle_nand::Change>) {
        self.flash.media_mut().take_changes(into);
    }
    /// Bytes of contents kept per sector.
    pub fn unit(&self) -> usize {
        self.flash.array().unit()
    }
    /// The configuration.
    pub fn config(&self) -> &DeviceConfig {
        &self.config
    }
    /// What follows from the configuration.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }
    /// Counters.
    pub fn stats(&self) -> &Stats {
        self.flash.stats()
    }
    /// The same, but that what lies in pages that are being filled does not count as programmed yet: what streams were
    /// written adds up with parity to what the flash has programmed.
    pub fn stats_programmed(&self) -> Stats {
        self.flash.stats_programmed()
    }
    /// Flash operations by cause and page type.
    pub fn counters(&self) -> &Counters {
        self.flash.counters()
    }
    /// Counters of the schemes, as `section.key` and value; 0 for schemes that the drive does not have.
    pub fn scheme_counters(&self) -> Vec<(&'static str, u64)> {
        self.schemes.counters(&self.flash)
    }
    /// One of them; nothing if no scheme counts that.
    pub fn scheme_counter(&self, name: &str) -> Option<u64> {
        self.scheme_counters().into_iter().find(|(known, _)| *known == name).map(|(_, value)| value)
    }
    /// A scheme of the drive, by its type.
    pub fn scheme<S: Scheme>(&self) -> Option<&S> {
        self.schemes.get()
    }
    /// All counters count from zero again: a preparation is over and the measured part begins.
    pub fn reset_counters(&mut self) {
        self.flash.reset_counters();
        self.schemes.reset_counters();
        let now = self.now();
        if let Some(link) = &mut self.link {
            link.reset_counters(now);
        }
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
        let more = self.schemes.footprint(&self.flash);
        (self.flash.mapping_bytes() + more, self.flash.mapping_bytes())
    }
    /// Requests submitted and not complete.
    pub fn outstanding(&self) -> u32 {
        self.outstanding
    }
    /// Whether the device takes another request now.
    pub fn accepts(&self) -> bool {
        self.outstanding < self.config.queue.depth
    }
    /// The present time.
    pub fn now(&self) -> Time {
        self.flash.media().now()
    }
    /// The live objects that the host named, or that the drive guessed.
    pub fn objects(&self) -> Vec<ObjectInfo> {
        self.schemes.objects_ref().map_or_else(Vec::new, |objects| objects.list(&self.flash))
    }
    /// How many objects are live.
    pub fn objects_live(&self) -> u32 {
        self.schemes.objects_ref().map_or(0, |objects| objects.live())
    }
    /// Whether the host can name objects.
    pub fn knows_objects(&self) -> bool {
        self.schemes.objects_ref().is_some()
    }
    /// The stream of number `stream` goes on to its next unit, where streams are kept in units (reclaim
    /// units, NVMe calls them).
    pub fn next_unit(&mut self, stream: u16) {
        self.schemes.next_unit(&self.flash, stream);
    }
    /// Whether the flash is worn out.
    pub fn is_read_only(&self) -> bool {
        self.flash.is_read_only()
    }
    /// A hash of every completion so far and of where everything is now.
    pub fn digest(&self) -> u64 {
        nandle_random::mix(self.digest ^ self.flash.fragments().digest())
    }

    // ---- the processor's cache ----------------------------------------------------------------------

    /// The host is about to ask for sector `lsn`: brings what leads to its place in a large map into the processor's
    /// cache. Changes nothing but how long the next requests take to simulate.
    #[inline]
    pub fn prefetch_leaf(&self, lsn: u64) {
        self.flash.fragments().prefetch_leaf(self.flash.media().split(lsn).0);
    }
    /// As [`Ssd::prefetch_leaf`], some requests later: its place in the map.
    #[inline]
    pub fn prefetch_map(&self, lsn: u64) {
        let lpn = self.flash.media().split(lsn).0;
        if let Some(buffer) = &self.buffer {
            buffer.prefetch_run(lpn);
        }
        self.flash.fragments().prefetch(lpn);
    }
    /// As [`Ssd::prefetch_map`], some requests later: now that the map's word is near, what it leads to.
    #[inline]
    pub fn prefetch_page(&self, lsn: u64) {
        let lpn = self.flash.media().split(lsn).0;
        if let Some(buffer) = &self.buffer {
            buffer.prefetch_slot(lpn);
        }
        self.flash.prefetch(lpn);
    }
    /// As [`Ssd::prefetch_page`], some requests later: the pages of a logical page that lies in several.
    #[inline]
    pub fn prefetch_pages(&self, lsn: u64) {
        self.flash.prefetch_listed(self.flash.media().split(lsn).0);
    }

    // ---- submission ---------------------------------------------------------------------------------

    /// Hands a request over at time `at`, which must not lie before anything already carried out.
    /// It completes in a later [`Ssd::advance`], even if at the same time.
    pub fn submit(&mut self, at: Time, command: &Command<'_>) {
        let bring = |data: &mut Vec<u8>| {
            data.clear();
            if command.op != Op::Read {
                data.extend_from_slice(command.data);
            }
        };
        if self.flash.is_plain() {
            self.enter::<true>(at, command, bring);
        } else {
            self.enter::<false>(at, command, bring);
        }
    }

    /// The same for a command that brings memory instead of data: a write's data are in it, and a read's will come in
    /// it. `memory` is exchanged for some that the drive does not need any more, in which anything may be.
    pub fn submit_with(&mut self, at: Time, command: &Command<'_>, memory: &mut Vec<u8>) {
        debug_assert!(command.data.is_empty() && command.op.moves_data(), "{command:?}");
        self.enter::<false>(at, command, |data| {
            if command.op == Op::Read {
                memory.clear();
            }
            std::mem::swap(data, memory);
        });
    }

    #[inline(always)]
    fn enter<const PLAIN: bool>(
        &mut self,
        at: Time,
        command: &Command<'_>,
        bring: impl FnOnce(&mut Vec<u8>),
    ) {
        self.flash.media_mut().advance(at);
        self.idle_at = None;
        if !PLAIN {
            self.flash.space_mut().set_idle(false);
        }
        self.outstanding += 1;
        let status = self.refuse(command);
        let has_contents = self.unit() > 0;
        let fua = command.fua && !self.ram_is_durable();
        if status == Status::Ok {
            self.count(command);
        } else {
            self.flash.stats_mut().rejected += 1;
        }
        let (slot, request) = self.requests.enter();
        // Field by field: a vacant slot's memory stays as it is.
        request.id = command.id;
        (request.op, request.fua, request.stream) = (command.op, fua, command.stream);
        (request.lsn, request.sectors, request.cursor) = (command.lsn, command.sectors, 0);
        (request.status, request.noticed, request.short) = (status, false, 0);
        request.remaining = 1; // released when everything of it is placed
        if status == Status::Ok && (has_contents || command.op == Op::FlashAlloc) {
            bring(&mut request.data);
        } else {
            request.data.clear();
        }
        if self.takes_at_once() {
            self.take::<PLAIN>(slot, command.op, status);
            if status != Status::Ok {
                return;
            }
        } else {
            // Nothing has happened yet.
            return self.send(at, slot);
        }
        self.look_after::<PLAIN>();
        self.flash.media_mut().settle_on::<PLAIN>();
    }

    #[inline(always)]
    fn refuse(&self, command: &Command<'_>) -> Status {
        if command.op.concerns_objects() {
            return self.refuse_object(command);
        }
        let end = command.lsn.checked_add(command.sectors);
        if command.op != Op::Flush
            && (command.sectors == 0 || end.is_none_or(|end| end > self.layout.logical_sectors))
        {
            Status::OutOfRange
        } else if command.op == Op::Write && self.flash.is_read_only() {
            Status::ReadOnly
        } else {
            Status::Ok
        }
    }

    #[cold]
    fn refuse_object(&self, command: &Command<'_>) -> Status {
        let Some(objects) = self.schemes.objects_ref() else { return Status::Unsupported };
        let most = objects.most_ranges() as usize;
        let check = |ranges: Vec<Range>| Range::check_object(&ranges, most, self.layout.logical_sectors);
        match command.ranges().and_then(check) {
            Ok(()) => Status::Ok,
            Err(status) => status,
        }
    }

    fn count(&mut self, command: &Command<'_>) {
        let start = self.flash.media().split(command.lsn).1;
        let over = self.flash.media().split(command.sectors).1;
        let spp = u64::from(self.flash.sectors_per_page());
        let sector_bytes = u64::from(self.config.geometry.sector_bytes);
        let stats = self.flash.stats_mut();
        let kind = command.op as usize;
        stats.requests[kind] += 1;
        stats.bytes[kind] += command.sectors * sector_bytes;
        if command.op.moves_data() {
            stats.unaligned_writes += u64::from(command.op == Op::Write && start | over != 0);
            stats.across_page_requests += u64::from(command.sectors <= spp && start + command.sectors > spp);
        }
    }

    /// The part of a request that falls in the page of its sector `cursor`: page, mask, sectors.
    #[inline]
    fn part(&self, lsn: u64, sectors: u64, cursor: u64) -> (u32, u64, u64) {
        let (lpn, start) = self.flash.media().split(lsn + cursor);
        let len = (u64::from(self.flash.sectors_per_page()) - start).min(sectors - cursor);
        (lpn, run_mask(start as u32, len as u32), len)
    }

    // ---- what happens by itself ---------------------------------------------------------------------

    /// Collection with what it works with.
    #[inline]
    fn run_collection(&mut self) {
        let Self { flash, schemes, durability, collect, .. } = self;
        collect.run(&mut Work { flash, schemes, keeper: durability });
        self.settle_objects();
    }

    /// Collects garbage; if that lets the queue go on, carries it on.
    #[inline(always)]
    fn look_after<const PLAIN: bool>(&mut self) {
        if self.collect.is_wanted::<PLAIN>(&self.flash, &self.schemes) {
            self.run_collection();
        }
        while self.flash.space_mut().take_progress() && !self.queue.is_empty() {
            self.go_on();
            self.run_collection();
        }
        self.durability.keep_checkpoint(&mut self.flash, &mut self.schemes);
        if self.config.buffer.clean_ahead {
            self.clean_ahead();
        }
        if !PLAIN && self.flash.gathers() && (self.flash.has_page_to_seal() || !self.queue.is_empty()) {
            self.look_after_open_pages();
        }
        if !self.queue.is_empty() && self.flash.media().in_flight() == 0 && Collect::has_failed(&self.flash) {
            self.give_up();
        }
    }

    /// Pages that are being filled are programmed if somebody waits for them.
    #[inline(never)]
    fn look_after_open_pages(&mut self) {
        self.flash.seal_awaited();
        let waits = |drive: &Self| !drive.queue.is_empty() && drive.flash.media().in_flight() == 0;
        if waits(self) {
            // Nothing is under way that could let the queue go on but what was not programmed yet.
            self.flash.seal_if(|_, _| true);
        }
    }

    /// Failures of the flash took the room that collection works with, and nothing is under way that
    /// could give some back: the drive takes no more writes, and what waits is refused.
    #[cold]
    fn give_up(&mut self) {
        self.flash.set_read_only(true);
        while let Some(slot) = self.queue.pop_front() {
            if self.requests[slot].op == Op::Read {
                self.read(slot);
                continue;
            }
            self.short -= std::mem::take(&mut self.requests[slot].short);
            self.requests[slot].status = Status::ReadOnly;
            self.flash.stats_mut().rejected += 1;
            self.release(slot);
        }
    }

    /// One of the things that the request waits for has happened.
    #[inline(always)]
    fn release(&mut self, slot: u32) {
        let request = &mut self.requests[slot];
        request.remaining -= 1;
        if request.remaining == 0 {
            self.answer_now(slot);
        }
    }

    /// A request waits for nothing any more.
    #[inline(never)]
    fn answer_now(&mut self, slot: u32) {
        let at = self.flash.media().now() + self.config.timing.dram();
        self.answer(at, slot);
    }

    /// Checks that map, blocks and out-of-band areas agree; slow, for tests.
    ///
    /// # Panics
    /// If they do not.
    pub fn check(&self) {
        self.check_state();
    }
}
