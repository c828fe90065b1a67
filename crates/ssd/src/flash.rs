//! What a scheme is handed: the flash with its map, its blocks and its queues.
//!
//! A scheme changes the map at once and states orders; the array works out when. Everything that
//! programs a page goes through [`Flash::append`], everything that gives a page up through the
//! fragment operations here, so that no old copy is lost before its successor is on flash.

use nandle_nand::{Array, Cause, Extent, Extents, Nand, Oob, OpId, PageUse, Ppn, Shape};
use nandle_random::Stream;
use smallvec::SmallVec;

use crate::advisor::Advisors;
use crate::allocation::{Allocation, PageClass, Role};
use crate::blocks::Blocks;
use crate::checkpoint::Checkpoint;
use crate::config::{DeviceConfig, Layout};
use crate::faults::Troubles;
use crate::fragments::{Fragment, FragmentList, Fragments, runs};
use crate::gc::Job;
use crate::log::MetaLog;
use crate::map_cache::{MapCache, on_demand::OnDemand, table::Table};
use crate::stats::Stats;
use crate::streams::{StreamCount, Streams};
use crate::striping::{Dynamic, Striping};

const NONE: u32 = u32::MAX;

/// Who waits for a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Owner {
    /// The request that waits for it, if one does.
    pub request: Option<u32>,
    /// Buffered sectors that it gives back.
    pub release: u32,
}

/// A page about to be written: where, as what, holding what, on whose behalf.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Plane.
    pub plane: u32,
    /// Which open block of the plane.
    pub role: Role,
    /// For page-type policies.
    pub class: PageClass,
    /// What it is used for.
    pub kind: PageUse,
    /// What it holds.
    pub extents: Extents<'a>,
    /// For the accounts.
    pub cause: Cause,
    /// Who waits for it.
    pub owner: Owner,
}

/// The contents of some sectors of a logical page: sector `first + i` is the i-th piece of `bytes`.
/// Empty if contents are not modelled.
#[derive(Clone, Copy, Debug)]
pub struct Contents<'a> {
    /// `Array::unit` bytes a sector.
    pub bytes: &'a [u8],
    /// First sector of the logical page that `bytes` covers.
    pub first: u32,
}

/// Flash reads of one purpose: each physical page once.
pub type Reads = SmallVec<[(Ppn, OpId); 4]>;

/// What the drive does when an operation is done.
#[derive(Clone, Copy, Debug)]
pub(crate) struct OpInfo {
    pub request: u32,
    pub release: u32,
    /// Flush barrier that the program counts for, or [`NONE`].
    pub epoch: u32,
    /// The program that an RMW read belongs to.
    pub rmw_program: u32,
    /// When the first RMW read of this program started; `u64::MAX` = none yet, 0 = not an RMW.
    pub rmw_start: u64,
}

pub(crate) const PLAIN: OpInfo =
    OpInfo { request: NONE, release: 0, epoch: NONE, rmw_program: NONE, rmw_start: 0 };

/// Flash, map, blocks, and what is under way.
#[derive(Clone, Debug)]
pub struct Flash {
    pub(crate) nand: Nand,
    /// Where everything is.
    pub(crate) fragments: Fragments,
    /// Which blocks are what.
    pub(crate) blocks: Blocks,
    pub(crate) allocation: Allocation,
    pub(crate) map: MapCache,
    pub(crate) table: Table,
    pub(crate) log: MetaLog,
    pub(crate) checkpoint: Checkpoint,
    pub(crate) troubles: Troubles,
    pub(crate) jobs: Vec<Job>,
    pub(crate) stats: Stats,
    pub(crate) config: DeviceConfig,
    pub(crate) layout: Layout,
    pub(crate) draw: Stream,
    pub(crate) striping: Striping,
    pub(crate) streams: Streams,
    info: Vec<OpInfo>,
    /// Programs under way for each flush barrier, oldest first; the last one collects new programs.
    pub(crate) epochs: std::collections::VecDeque<u32>,
    pub(crate) first_epoch: u32,
    pub(crate) spp: u32,
    /// The logarithm of `spp`, if that is whole.
    spp_bits: Option<u32>,
    pub(crate) full: u64,
    host_streams: usize,
    sectors_by_cause: [u64; Cause::COUNT],
    /// Planes whose free blocks changed: garbage collection looks at them.
    pub(crate) gc_look: Vec<u32>,
    pub(crate) read_only: bool,
    /// A request gave up waiting: what it waits for may have come.
    pub(crate) progress: bool,
    /// What is at the front of the queue waits for room.
    pub(crate) host_waits: bool,
    /// Decide in place of some policies; none as a rule.
    pub(crate) advisors: Advisors,
}

impl Flash {
    pub(crate) fn new(config: &DeviceConfig, layout: &Layout, mut nand: Nand, seed: u64) -> Self {
        nand.inject(&config.faults, seed);
        let g = &config.geometry;
        let map = if layout.map_pages == 0 {
            MapCache::Everything
        } else {
            let capacity = (config.map_cache.bytes / u64::from(g.page_bytes)) as u32;
            MapCache::OnDemand(Box::new(OnDemand::new(layout.map_pages, capacity)))
        };
        let mut blocks = Blocks::new(g, config.wear.dynamic);
        if layout.version_blocks > 0 {
            blocks.track_extra();
        }
        Self {
            fragments: Fragments::new(layout.logical_pages, g.sectors_per_page()),
            blocks,
            allocation: Allocation::new(
                config.scheme.allocation,
                nand.array(),
                config.scheme.streams.host_streams(&config.streams),
                layout.hard_blocks,
                seed,
            ),
            map,
            table: Table::new(config, layout),
            log: MetaLog::default(),
            checkpoint: Checkpoint::default(),
            troubles: Troubles::default(),
            jobs: vec![Job::default(); g.planes() as usize],
            stats: Stats::default(),
            draw: Stream::new(seed, "gc victim"),
            striping: Striping::new(&config.scheme.striping, g).expect("validated"),
            streams: Streams::new(config.scheme.streams, &config.streams, nand.array(), layout.logical_pages),
            info: Vec::new(),
            epochs: std::iter::once(0).collect(),
            first_epoch: 0,
            spp: g.sectors_per_page(),
            spp_bits: g.sectors_per_page().is_power_of_two().then(|| g.sectors_per_page().trailing_zeros()),
            full: g.full_mask(),
            host_streams: config.scheme.streams.host_streams(&config.streams) as usize,
            sectors_by_cause: [0; Cause::COUNT],
            gc_look: Vec::new(),
            read_only: false,
            progress: false,
            host_waits: false,
            advisors: Advisors::new(),
            config: config.clone(),
            layout: layout.clone(),
            nand,
        }
    }

    /// The physical truth.
    #[inline]
    pub fn array(&self) -> &Array {
        self.nand.array()
    }
    /// The shape.
    #[inline]
    pub fn geometry(&self) -> &Shape {
        self.nand.geometry()
    }
    /// The map.
    pub fn fragments(&self) -> &Fragments {
        &self.fragments
    }
    /// The blocks.
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }
    /// FDP's handles, if that is the stream policy.
    pub fn fdp(&self) -> Option<&crate::streams::fdp::Fdp> {
        self.streams.fdp()
    }
    /// Flash operations so far.
    pub fn counters(&self) -> &nandle_nand::Counters {
        self.nand.counters()
    }
    /// Nanoseconds that each die and each channel was busy.
    pub fn busy_ns(&self) -> (Vec<u64>, Vec<u64>) {
        self.nand.busy_ns()
    }
    /// Sectors of a page.
    #[inline]
    pub fn sectors_per_page(&self) -> u32 {
        self.spp
    }
    /// The logical page of a sector, and the sector's place in it.
    #[inline]
    pub(crate) fn split(&self, lsn: u64) -> (u32, u64) {
        let spp = u64::from(self.spp);
        match self.spp_bits {
            Some(bits) => ((lsn >> bits) as u32, lsn & (spp - 1)),
            None => ((lsn / spp) as u32, lsn % spp),
        }
    }
    /// The mask of a full page.
    #[inline]
    pub fn full_mask(&self) -> u64 {
        self.full
    }
    /// Live sectors programmed by cause (the rest of a page is padding).
    pub fn sectors_by_cause(&self) -> [u64; Cause::COUNT] {
        self.sectors_by_cause
    }

    /// Brings what is known of the page of `lpn` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, lpn: u32) {
        if lpn < self.fragments.len() {
            match self.fragments.single(lpn) {
                Some(ppn) => self.prefetch_ppn(ppn),
                None => self.fragments.prefetch_list(lpn),
            }
        }
    }

    /// The same for the pages of a list that [`Flash::prefetch`] brought.
    #[inline]
    pub(crate) fn prefetch_listed(&self, lpn: u32) {
        if self.fragments.lists_in_use() > 0 && lpn < self.fragments.len() {
            self.fragments.list(lpn).iter().for_each(|f| self.prefetch_ppn(f.ppn));
        }
    }

    #[inline]
    fn prefetch_ppn(&self, ppn: Ppn) {
        self.nand.array().prefetch(ppn);
        self.blocks.prefetch(ppn);
    }

    // ---- room -------------------------------------------------------------------------------

    /// Whether `role` can write `pages` pages of `class` in `plane` now: [`Flash::room`], where the open
    /// block mostly decides.
    #[inline]
    pub(crate) fn has_pages(&self, plane: u32, role: Role, class: PageClass, pages: u32) -> bool {
        let of_object = matches!(role, Role::Object(_) | Role::Survivor(_));
        !of_object && self.allocation.left(plane, role, self.nand.array()) >= pages
            || self.room(plane, role, class) >= pages
    }

    /// Pages of `class` that `role` can write in `plane` now.
    pub fn room(&self, plane: u32, role: Role, class: PageClass) -> u32 {
        let left = match role {
            Role::Object(_) => 0,
            Role::Survivor(home) => self.survivor_room(home, plane),
            _ if self.allocation.chooses_types() => {
                return self.allocation.room(plane, role, class, self.nand.array(), &self.blocks);
            }
            _ => self.allocation.left(plane, role, self.nand.array()),
        };
        let reserve = if self.streams.may_use_reserve(role) { 0 } else { self.layout.hard_blocks };
        let blocks = self.blocks.free(plane).saturating_sub(reserve);
        left + blocks * self.geometry().pages_per_block
    }

    /// A write waits for a page of its class: planes that lack one are collected although others are
    /// left.
    pub(crate) fn call_for(&mut self, lpn: u32, role: Role, class: PageClass, pages: u32) {
        if !self.allocation.chooses_types() || self.has_room(lpn, role, class, pages) {
            return;
        }
        let planes = match &self.striping {
            Striping::Static(order) => order.plane(lpn)..order.plane(lpn) + 1,
            Striping::Dynamic(_) => 0..self.geometry().planes(),
        };
        for plane in planes {
            self.jobs[plane as usize].called = true;
            self.gc_look.push(plane);
        }
    }

    /// Whether `pages` writes of `lpn` by `role` find a plane.
    #[inline(always)]
    pub fn has_room(&self, lpn: u32, role: Role, class: PageClass, pages: u32) -> bool {
        let role = match role {
            Role::Object(home) if self.object_takes(lpn, home, pages) => return true,
            // An object at its end goes on in normal blocks.
            Role::Object(_) => Role::Host(0),
            role => role,
        };
        match &self.striping {
            Striping::Static(order) => {
                let home = order.plane(lpn);
                self.has_pages(home, role, class, pages)
                    || self.overflows(home) && self.some_plane_has_pages(role, class, pages)
            }
            Striping::Dynamic(_) => self.some_plane_has_pages(role, class, pages),
        }
    }

    fn some_plane_has_pages(&self, role: Role, class: PageClass, pages: u32) -> bool {
        (0..self.geometry().planes()).any(|plane| self.room(plane, role, class) >= pages)
    }

    /// Whether writes of `plane` go elsewhere when it has no room: only where objects brought pages of
    /// other planes, and it cannot make room by itself.
    #[inline]
    fn overflows(&self, plane: u32) -> bool {
        self.streams.flashalloc().is_some_and(|f| f.spread) && self.is_stuck(plane)
    }

    /// The plane for the next write of `lpn` by `role`, if one has room.
    #[inline(always)]
    pub fn choose_plane(&mut self, lpn: u32, role: Role, class: PageClass) -> Option<u32> {
        let role = match role {
            Role::Object(home) if self.object_takes(lpn, home, 1) => return self.object_plane(home),
            Role::Object(_) => Role::Host(0),
            role => role,
        };
        if let Striping::Static(order) = &self.striping {
            let plane = order.plane(lpn);
            if self.has_pages(plane, role, class, 1) {
                return Some(plane);
            }
        }
        self.choose_other_plane(lpn, role, class)
    }

    /// As [`Flash::choose_plane`], where the plane of `lpn` has no room or there is none.
    fn choose_other_plane(&mut self, lpn: u32, role: Role, class: PageClass) -> Option<u32> {
        let planes = self.geometry().planes();
        if let Striping::Static(order) = &self.striping {
            let plane = order.plane(lpn);
            if !self.overflows(plane) {
                return None;
            }
            return (0..planes)
                .max_by_key(|&p| self.room(p, role, class))
                .filter(|&p| self.room(p, role, class) > 0);
        }
        let mut striping = std::mem::replace(&mut self.striping, Striping::idle());
        let has_room = |plane| self.room(plane, role, class) > 0;
        let plane = match &mut striping {
            Striping::Dynamic(Dynamic::LeastBusy(busy)) => busy.choose(planes, |plane| {
                has_room(plane).then(|| self.nand.load(self.geometry().die_of_plane(plane)))
            }),
            Striping::Dynamic(Dynamic::BlockByBlock(by_block)) => {
                let goes_on = |plane| self.allocation.left(plane, role, self.nand.array()) > 0;
                by_block.choose(role.number(), planes, goes_on, has_room)
            }
            Striping::Static(_) => unreachable!("dealt with"),
        };
        self.striping = striping;
        plane
    }

    /// The page that the next write of `role` in `plane` gets, if an open block says so.
    pub(crate) fn next_page(&self, plane: u32, role: Role, class: PageClass) -> Option<Ppn> {
        match role {
            Role::Object(_) | Role::Survivor(_) => None,
            _ => self.allocation.peek(plane, role, class, self.nand.array()),
        }
    }

    /// Where host data of `lpn`, written with the host's stream id `hint`, goes.
    #[inline]
    pub fn host_role(&self, lpn: u32, hint: u16) -> Role {
        self.streams.role(lpn, hint)
    }

    /// Whether the chip that holds `plane` has nothing to do.
    #[inline]
    pub fn plane_is_idle(&self, plane: u32) -> bool {
        let g = self.geometry();
        let chip = g.chip_of_die(g.die_of_plane(plane));
        (chip * g.dies_per_chip..(chip + 1) * g.dies_per_chip).all(|die| self.nand.load(die) == 0)
    }

    // ---- orders -----------------------------------------------------------------------------

    #[inline]
    pub(crate) fn set_info(&mut self, op: OpId, info: OpInfo) {
        match self.info.get_mut(op.0 as usize) {
            Some(slot) => *slot = info,
            None => self.add_info(op, info),
        }
    }

    #[cold]
    fn add_info(&mut self, op: OpId, info: OpInfo) {
        self.info.resize(op.0 as usize, PLAIN);
        self.info.push(info);
    }

    #[inline]
    pub(crate) fn info(&self, op: OpId) -> OpInfo {
        self.info[op.0 as usize]
    }

    pub(crate) fn rmw_read_started(&mut self, program: u32, started: u64) {
        let start = &mut self.info[program as usize].rmw_start;
        *start = (*start).min(started);
    }

    /// Orders a read of `mask` of logical page `lpn`, one flash read per physical page, on behalf of
    /// `cause`. The reads are added to `out`. Sectors that are not stored cost nothing.
    pub fn read(
        &mut self,
        lpn: u32,
        mask: u64,
        cause: Cause,
        request: Option<u32>,
        after: &[OpId],
        out: &mut Reads,
    ) {
        for f in self.fragments.get(lpn, self.nand.array()) {
            let wanted = (f.mask & mask).count_ones();
            if wanted == 0 || out.iter().any(|&(ppn, _)| ppn == f.ppn) {
                continue;
            }
            let op = self.nand.read(f.ppn, wanted, cause, false, after);
            self.set_info(op, OpInfo { request: request.unwrap_or(NONE), ..PLAIN });
            out.push((f.ppn, op));
        }
    }

    /// `request` waits for a map load that no flash read follows.
    pub(crate) fn wait_for_load(&mut self, load: OpId, request: u32) {
        self.info[load.0 as usize].request = request;
    }

    /// Which sectors of `mask` are stored for `lpn`.
    #[inline]
    pub(crate) fn stored(&self, lpn: u32, mask: u64) -> u64 {
        if self.fragments.is_unmapped(lpn) { 0 } else { self.fragments.mask(lpn, self.nand.array()) & mask }
    }

    /// Writes one page and makes it live. It starts when `after` are done.
    ///
    /// # Panics
    /// If the plane has no page for it: callers look at [`Flash::room`] first.
    pub fn append(&mut self, page: &Page<'_>, after: &[OpId]) -> (Ppn, OpId) {
        let &Page { plane, role, class, kind, extents, cause, owner } = page;
        let sectors = match extents {
            Extents::Home { len, .. } => u32::from(len),
            Extents::List(list) => list.iter().map(|e| u32::from(e.sectors)).sum(),
        };
        let (ppn, plane, role) = self.take_page(plane, role, class, extents);
        let background = self.streams.may_use_reserve(role) && !self.urgent(plane);
        let oob = Oob { kind, stream: class.label(role), extents };
        let op = self.nand.program(ppn, &oob, cause, background, after);
        self.blocks.set_live(ppn);
        self.sectors_by_cause[cause as usize] += u64::from(sectors);
        if cause != Cause::Gc {
            self.count_stream(role, if cause == Cause::Host { u64::from(sectors) } else { 0 });
        }
        let of_checkpoint = kind == PageUse::Checkpoint;
        self.checkpoint.programs += u64::from(!of_checkpoint);
        self.checkpoint.by_host |= !of_checkpoint && matches!(cause, Cause::Host | Cause::Meta);
        // Nothing of the host's waits for copies and checkpoints.
        let epoch = if cause == Cause::Gc || of_checkpoint {
            NONE
        } else {
            *self.epochs.back_mut().expect("one epoch is always open") += 1;
            self.first_epoch.wrapping_add(self.epochs.len() as u32 - 1)
        };
        self.set_info(
            op,
            OpInfo { request: owner.request.unwrap_or(NONE), release: owner.release, epoch, ..PLAIN },
        );
        if self.need(plane).is_some() {
            self.gc_look.push(plane);
        }
        if let Role::Object(_) = role {
            self.object_wrote(first_page(extents, self.spp));
        }
        (ppn, op)
    }

    /// The next page for `role`: its address, plane, and the role that it is written for at last.
    #[inline]
    fn take_page(
        &mut self,
        plane: u32,
        role: Role,
        class: PageClass,
        extents: Extents<'_>,
    ) -> (Ppn, u32, Role) {
        if let Role::Object(_) | Role::Survivor(_) = role {
            return self.take_page_of_object(plane, role, class, extents);
        }
        let stats = &mut self.stats.allocation;
        let ppn = self.allocation.take(plane, role, class, self.nand.array(), &mut self.blocks, stats);
        (ppn.expect("room was checked"), plane, role)
    }

    fn take_page_of_object(
        &mut self,
        plane: u32,
        role: Role,
        class: PageClass,
        extents: Extents<'_>,
    ) -> (Ppn, u32, Role) {
        let (plane, role) = match role {
            Role::Object(home) => {
                let lpn = first_page(extents, self.spp);
                if let Some(ppn) = self.take_in_object(lpn, home) {
                    return (ppn, self.geometry().plane_of(self.geometry().block_of(ppn)), role);
                }
                let role = Role::Host(0);
                let fits = self.room(plane, role, class) > 0;
                (
                    if fits { plane } else { self.choose_plane(lpn, role, class).expect("room was checked") },
                    role,
                )
            }
            Role::Survivor(home) => {
                return (self.take_for_survivor(home, plane).expect("room was checked"), plane, role);
            }
            _ => (plane, role),
        };
        let stats = &mut self.stats.allocation;
        let ppn = self.allocation.take(plane, role, class, self.nand.array(), &mut self.blocks, stats);
        (ppn.expect("room was checked"), plane, role)
    }

    /// A page was programmed for `role`, with `host` sectors of the host's (0 for a copy).
    pub(crate) fn count_stream(&mut self, role: Role, host: u64) {
        let last = self.host_streams + 1;
        if self.stats.streams.is_empty() {
            self.stats.streams = vec![StreamCount::default(); last + 1];
        }
        let slot = match role {
            Role::Host(stream) => usize::from(stream),
            Role::Object(_) | Role::Survivor(_) => last - 1,
            _ => last,
        };
        let count = &mut self.stats.streams[slot];
        count.host_sectors += host;
        count.media_sectors += u64::from(self.spp);
        if host > 0 {
            self.streams.wrote(role);
        }
    }

    /// Marks `program` as the end of a read-modify-write whose reads are `reads`.
    pub fn mark_rmw(&mut self, program: OpId, reads: impl IntoIterator<Item = OpId>) {
        self.stats.rmw_count += 1;
        self.info[program.0 as usize].rmw_start = u64::MAX;
        for read in reads {
            self.info[read.0 as usize].rmw_program = program.0;
        }
    }

    /// Whether collection of `plane` is what host writes wait for.
    #[inline(always)]
    pub(crate) fn urgent(&self, plane: u32) -> bool {
        self.jobs[plane as usize].called || self.spare(plane) <= self.layout.hard_blocks
    }

    /// Blocks' worth of pages that collection can write in `plane`.
    #[inline]
    pub(crate) fn spare(&self, plane: u32) -> u32 {
        self.allocation.spare(plane, &self.blocks)
    }

    /// Sectors of a host write have been programmed.
    #[inline]
    pub fn count_host_sectors(&mut self, mask: u64) {
        let sectors = if mask == self.full { self.spp } else { mask.count_ones() };
        self.stats.host_sectors_programmed += u64::from(sectors);
    }

    /// Copies the contents of the stored sectors `mask` of `lpn` to `ppn`, `shift` sectors from home.
    pub fn carry(&mut self, lpn: u32, mask: u64, ppn: Ppn, shift: i32) {
        if mask == 0 || self.nand.array().unit() == 0 && !self.nand.array().any_lost() {
            return;
        }
        for f in self.fragments.get(lpn, self.nand.array()) {
            for (start, len) in runs(f.mask & mask) {
                let from = (start as i32 + i32::from(f.shift)) as u32;
                self.nand.array_mut().copy(f.ppn, from, ppn, (start as i32 + shift) as u32, len);
            }
        }
    }

    /// Stores the contents of the sectors `mask` of a logical page in `ppn`, `shift` sectors from home.
    pub fn fill(&mut self, ppn: Ppn, mask: u64, shift: i32, contents: Contents<'_>) {
        let unit = self.nand.array().unit();
        if unit == 0 {
            return;
        }
        for (start, len) in runs(mask) {
            let from = (start - contents.first) as usize * unit;
            let bytes = &contents.bytes[from..from + len as usize * unit];
            self.nand.array_mut().fill(ppn, (start as i32 + shift) as u32, bytes);
        }
    }

    // ---- the map ----------------------------------------------------------------------------

    /// `ppn` lost a fragment: if that was its last live sector the page is dead.
    fn lost(&mut self, ppn: Ppn) {
        let shared = match self.nand.array().oob(ppn).extents {
            Extents::Home { .. } => false,
            Extents::List(list) => {
                let spp = u64::from(self.spp);
                list.iter().any(|e| self.fragments.refers((e.lsn / spp) as u32, ppn))
            }
        };
        if !shared {
            self.died(ppn);
        }
    }

    /// `lpn` is stored by `ppn` alone from now on, at home; all older fragments die once `op` is done.
    #[inline]
    pub fn replace(&mut self, lpn: u32, ppn: Ppn, op: OpId) {
        if let Some(old) = self.fragments.single(lpn) {
            self.nand.supersede(old, op);
            self.fragments.set_single(lpn, ppn);
            if self.nand.array().has_lists() {
                self.lost(old);
            } else {
                self.died(old);
            }
        } else {
            let old = self.fragments.get(lpn, self.nand.array());
            self.fragments.set_single(lpn, ppn);
            for (n, f) in old.iter().enumerate() {
                self.nand.supersede(f.ppn, op);
                if !old[..n].iter().any(|g| g.ppn == f.ppn) {
                    self.lost(f.ppn);
                }
            }
        }
        self.map_changed(lpn);
    }

    /// `fragment` is the newest data of its sectors of `lpn`; older fragments keep the rest.
    pub fn attach(&mut self, lpn: u32, fragment: Fragment, op: OpId) {
        self.attach_beside(lpn, fragment, op);
        self.map_changed(lpn);
    }

    /// As [`Flash::attach`], for a fragment whose entry lies elsewhere than that of its logical page.
    pub(crate) fn attach_beside(&mut self, lpn: u32, fragment: Fragment, op: OpId) {
        let old = self.fragments.get(lpn, self.nand.array());
        self.shrink(lpn, &old, fragment.mask, Some(op), smallvec::smallvec![fragment]);
    }

    /// The sectors `mask` of `lpn` are no longer stored.
    pub(crate) fn detach(&mut self, lpn: u32, mask: u64) {
        let old = self.fragments.get(lpn, self.nand.array());
        if old.iter().any(|f| f.mask & mask != 0) {
            for f in old.iter().filter(|f| f.mask & mask != 0) {
                self.blocks.mark_trimmed(self.geometry().block_of(f.ppn));
            }
            self.shrink(lpn, &old, mask, None, FragmentList::new());
            self.map_changed(lpn);
        }
    }

    /// Takes `mask` away from the fragments `old`; what is left follows `list`, which becomes the map of `lpn`.
    pub(crate) fn shrink(
        &mut self,
        lpn: u32,
        old: &[Fragment],
        mask: u64,
        by: Option<OpId>,
        mut list: FragmentList,
    ) {
        let mut touched: SmallVec<[Ppn; 4]> = SmallVec::new();
        for f in old {
            if f.mask & mask != 0 {
                if let Some(op) = by {
                    self.nand.supersede(f.ppn, op);
                }
                if !touched.contains(&f.ppn) {
                    touched.push(f.ppn);
                }
            }
            if f.mask & !mask != 0 {
                list.push(Fragment { mask: f.mask & !mask, ..*f });
            }
        }
        touched.retain(|ppn| list.iter().all(|f| f.ppn != *ppn));
        self.fragments.set(lpn, list, self.nand.array());
        touched.into_iter().for_each(|ppn| self.lost(ppn));
        self.settle_extra(lpn);
    }

    /// Orders the read of a page to be copied by garbage collection.
    pub(crate) fn read_copy(&mut self, ppn: Ppn, background: bool) -> OpId {
        let read = self.nand.read(ppn, self.spp, Cause::Gc, background, &[]);
        self.set_info(read, PLAIN);
        read
    }

    /// Moves a page as it is, with only its live sectors, into `plane`; its fragments follow.
    pub fn relocate(&mut self, ppn: Ppn, plane: u32, role: Role) -> Ppn {
        let cause = Cause::Gc;
        let urgent = self.urgent(plane);
        let read = self.read_copy(ppn, !urgent);
        let oob = self.nand.array().oob(ppn);
        let kind = oob.kind;
        if !kind.is_data() {
            let Extents::Home { lpn: number, start, len } = oob.extents else {
                unreachable!("system pages have one extent")
            };
            let extents = Extents::Home { lpn: number, start, len };
            let class = PageClass::SYSTEM;
            let page = Page { plane, role, class, kind, extents, cause, owner: Owner::default() };
            let (to, op) = self.append(&page, &[read]);
            self.nand.supersede(ppn, op);
            let note = self.nand.array().note(ppn).cloned();
            if let Some(note) = note {
                self.nand.array_mut().set_note(to, note);
            }
            match kind {
                PageUse::Map => {
                    if let MapCache::OnDemand(map) = &mut self.map {
                        debug_assert_eq!(map.location(number), Some(ppn));
                        map.set_location(number, to);
                    }
                }
                PageUse::Checkpoint => self.checkpoint.moved(number, to),
                _ => {
                    let entry = self.log.pages.iter_mut().find(|(n, _)| *n == number);
                    entry.expect("a live log page is listed").1 = to;
                }
            }
            self.died(ppn);
            return to;
        }
        if let Extents::Home { lpn, start, len } = oob.extents
            && self.fragments.single(lpn) == Some(ppn)
        {
            // One logical page, all of it live: the word moves.
            let extents = Extents::Home { lpn, start, len };
            let class = PageClass::of_label(oob.stream);
            let page = Page { plane, role, class, kind, extents, cause, owner: Owner::default() };
            let (to, op) = self.append(&page, &[read]);
            self.nand.array_mut().copy(ppn, u32::from(start), to, u32::from(start), u32::from(len));
            self.nand.supersede(ppn, op);
            self.fragments.set_single(lpn, to);
            self.died(ppn);
            self.map_moved(lpn);
            self.nand.pair_copyback(read, op);
            return to;
        }
        let live = self.fragments.live_in(ppn, self.nand.array());
        debug_assert!(!live.is_empty(), "relocation of a dead page");
        let mut extents: SmallVec<[Extent; 4]> = SmallVec::new();
        for (lpn, f) in &live {
            let base = u64::from(*lpn) * u64::from(self.spp);
            for (start, len) in runs(f.mask) {
                extents.push(Extent {
                    lsn: base + u64::from(start),
                    sectors: len as u8,
                    at: (start as i32 + i32::from(f.shift)) as u8,
                });
            }
        }
        let class = PageClass::of_label(oob.stream);
        let shape = compact(&extents, self.spp);
        let page = Page { plane, role, class, kind, extents: shape, cause, owner: Owner::default() };
        let (to, op) = self.append(&page, &[read]);
        for e in &extents {
            self.nand.array_mut().copy(ppn, u32::from(e.at), to, u32::from(e.at), u32::from(e.sectors));
        }
        self.nand.supersede(ppn, op);
        let mut seen: SmallVec<[u32; 4]> = SmallVec::new();
        for (lpn, _) in &live {
            if seen.contains(lpn) {
                continue;
            }
            seen.push(*lpn);
            let mut list = self.fragments.get(*lpn, self.nand.array());
            list.iter_mut().filter(|f| f.ppn == ppn).for_each(|f| f.ppn = to);
            self.fragments.set(*lpn, list, self.nand.array());
        }
        if self.holds_area(live[0].1) {
            self.area_moved(live[0].0, live[0].1);
        } else {
            seen.into_iter().for_each(|lpn| self.map_moved(lpn));
        }
        if self.blocks.is_extra(ppn) {
            self.mark_extra(to);
        }
        self.died(ppn);
        self.nand.pair_copyback(read, op);
        to
    }

    /// A program came to its end: a full block without programs under way is closed.
    #[inline]
    pub(crate) fn program_done(&mut self, ppn: Ppn) {
        let block = self.geometry().block_of(ppn);
        let full = self.nand.array().pages_programmed(block) == self.geometry().pages_per_block;
        if self.nand.array().is_doomed(block) {
            self.close_doomed(block);
        } else if !self.nand.programs_pending(block) && self.may_close(block, full) {
            self.blocks.close(block, self.nand.now());
            self.gc_look.push(self.geometry().plane_of(block));
        } else if self.jobs[self.geometry().plane_of(block) as usize].called {
            // A half-written block without programs under way may be collected.
            self.gc_look.push(self.geometry().plane_of(block));
        }
    }
}

/// The logical page that a physical page is written for (the first of several).
#[inline]
fn first_page(extents: Extents<'_>, spp: u32) -> u32 {
    match extents {
        Extents::Home { lpn, .. } => lpn,
        Extents::List(list) => (list[0].lsn / u64::from(spp)) as u32,
    }
}

/// The shortest form of a page's extents.
pub(crate) fn compact(extents: &[Extent], spp: u32) -> Extents<'_> {
    match extents {
        [e] if e.lsn % u64::from(spp) == u64::from(e.at) => {
            Extents::Home { lpn: (e.lsn / u64::from(spp)) as u32, start: e.at, len: e.sectors }
        }
        list => Extents::List(list),
    }
}
