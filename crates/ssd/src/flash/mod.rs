//! What a scheme is handed: the flash with its map and its space.
//!
//! A scheme changes the map at once and states orders; the array works out when. Everything that
//! programs a page goes through [`Flash::append`], everything that gives a page up through
//! `liveness`, so that no old copy is lost before its successor is on flash.

use nandle_nand::{Array, Cause, Oob, OpId, PageUse, Ppn, Shape};
use smallvec::SmallVec;

mod assembly;
mod counted;
mod liveness;
pub(crate) mod page;
mod records;
mod relocate;
mod stats;
mod ticket;
mod translation;
mod unprogrammed;
mod write;
mod written;

pub use records::{Record, SchemeRecord, TrimRecord};
pub use relocate::Moved;
pub use stats::{CollectionStats, SlcStats, Stats, StreamCount};
pub use ticket::Ticket;
pub use write::{Part, Write};

use crate::map::{FragmentList, Fragments, Map, runs};
use crate::media::{Contents, Media, Waiter};
use crate::space::{Blocks, GroupId, PageClass, Space};
use counted::Unprogrammed;
use nandle_nand::{Extent, Extents};

/// A page about to be written: where, as what, holding what, on whose behalf.
#[derive(Clone, Copy, Debug)]
pub struct Page<'a> {
    /// Plane.
    pub plane: u32,
    /// Which group's open block.
    pub group: GroupId,
    /// For page-type policies.
    pub class: PageClass,
    /// What it is used for.
    pub kind: PageUse,
    /// Which scheme looks after it: [`Oob::PLAIN`] unless the extents are a list.
    pub owner: u8,
    /// What it holds.
    pub extents: Extents<'a>,
    /// For the accounts.
    pub cause: Cause,
    /// Who waits for it.
    pub waiter: Waiter,
}

impl<'a> Page<'a> {
    /// A page of host data that nobody looks after in particular.
    pub fn data(plane: u32, group: GroupId, class: PageClass, extents: Extents<'a>) -> Self {
        let (kind, owner, cause, waiter) = (PageUse::Data, Oob::PLAIN, Cause::Host, Waiter::NOBODY);
        Self { plane, group, class, kind, owner, extents, cause, waiter }
    }
    /// On whose account it is written.
    #[must_use]
    pub fn because(self, cause: Cause) -> Self {
        Self { cause, ..self }
    }
    /// Who waits for it.
    #[must_use]
    pub fn for_request(self, request: Option<u32>, release: u32) -> Self {
        Self { waiter: Waiter { request, release }, ..self }
    }
    /// Which scheme looks after it from now on.
    #[must_use]
    pub fn owned_by(self, owner: u8) -> Self {
        Self { owner, ..self }
    }
}

/// What a power cut leaves of a drive's accounts.
#[derive(Clone, Debug)]
pub(crate) struct Accounts {
    counters: nandle_nand::Counters,
    busy: (Vec<u64>, Vec<u64>),
    stats: Stats,
    unprogrammed: Unprogrammed,
    notes: [u64; crate::space::Note::COUNT],
    surplus_peak: u32,
}

/// Flash reads of one purpose: each physical page once.
pub type Reads = SmallVec<[(Ppn, OpId); 4]>;

/// Flash, map and space.
#[derive(Clone, Debug)]
pub struct Flash {
    media: Media,
    map: Map,
    space: Space,
    stats: Stats,
    /// What of the streams' counts is not programmed.
    unprogrammed: Unprogrammed,
    /// Whom collection copies for.
    copied_for: GroupId,
    /// Records that are not yet on flash.
    records: Vec<Record>,
    read_only: bool,
    /// Pages programmed so far but for those of checkpoints, and those of them that the host caused.
    programs: (u64, u64),
    /// Streams whose accounts are kept: the host's groups.
    host_groups: usize,
    /// Copies of garbage collection under way, by plane.
    copies: Vec<u32>,
    /// Planes of copies that were over when they were ordered, and count as under way until the next event.
    over: Vec<u32>,
    /// The stream that the page of the host which was written last counts for.
    counted: usize,
    /// Pages that the ticket of the write being placed still grants.
    granted: u32,
    /// The read that the next copies of the same page share.
    copy_read: Option<(Ppn, OpId)>,
    /// See [`Flash::is_plain`].
    plain: bool,
}

impl Flash {
    pub(crate) fn new(media: Media, map: Map, space: Space, host_groups: u32) -> Self {
        Self {
            over: Vec::new(),
            copies: vec![0; media.geometry().planes() as usize],
            counted: 0,
            granted: 0,
            copy_read: None,
            plain: media.is_plain() && space.is_plain() && map.is_plain(),
            media,
            map,
            space,
            stats: Stats::default(),
            unprogrammed: Unprogrammed::default(),
            copied_for: GroupId::Survivors,
            records: Vec::new(),
            read_only: false,
            programs: (0, 0),
            host_groups: host_groups as usize,
        }
    }

    /// Whether neither flash nor space nor map is special. What every page goes through is laid out twice, as functions of
    /// `PLAIN`: once for drives of which this holds, once for any.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        self.plain
    }

    // ---- the layers below -------------------------------------------------------------------------

    /// The flash array and its clock.
    #[inline]
    pub fn media(&self) -> &Media {
        &self.media
    }
    #[inline]
    pub(crate) fn media_mut(&mut self) -> &mut Media {
        &mut self.media
    }
    /// The flash array alone: the power goes.
    pub(crate) fn into_media(self) -> Media {
        self.media
    }
    /// The map.
    #[inline]
    pub fn map(&self) -> &Map {
        &self.map
    }
    #[inline]
    pub(crate) fn map_mut(&mut self) -> &mut Map {
        &mut self.map
    }
    /// Blocks and groups.
    #[inline]
    pub fn space(&self) -> &Space {
        &self.space
    }
    #[inline]
    pub(crate) fn space_mut(&mut self) -> &mut Space {
        &mut self.space
    }
    /// Space together with the flash that it looks at.
    #[inline]
    pub(crate) fn space_and_media(&mut self) -> (&mut Space, &mut Media) {
        (&mut self.space, &mut self.media)
    }
    /// The physical truth.
    #[inline]
    pub fn array(&self) -> &Array {
        self.media.array()
    }
    /// The shape.
    #[inline]
    pub fn geometry(&self) -> &Shape {
        self.media.geometry()
    }
    /// Where the sectors of each logical page lie.
    #[inline]
    pub fn fragments(&self) -> &Fragments {
        self.map.fragments()
    }
    /// The blocks.
    #[inline]
    pub fn blocks(&self) -> &Blocks {
        self.space.blocks()
    }
    /// Flash operations so far.
    pub fn counters(&self) -> &nandle_nand::Counters {
        self.media.counters()
    }
    /// Nanoseconds that each die and each channel was busy.
    pub fn busy_ns(&self) -> (Vec<u64>, Vec<u64>) {
        self.media.busy_ns()
    }
    /// Live sectors programmed by cause (the rest of a page is padding).
    pub fn sectors_by_cause(&self) -> [u64; Cause::COUNT] {
        self.media.sectors_by_cause()
    }
    /// Sectors of a page.
    #[inline]
    pub fn sectors_per_page(&self) -> u32 {
        self.media.sectors_per_page()
    }
    /// The mask of a full page.
    #[inline]
    pub fn full_mask(&self) -> u64 {
        self.media.full_mask()
    }
    /// Logical pages.
    #[inline]
    pub fn logical_pages(&self) -> u32 {
        self.map.fragments().len()
    }
    /// Counters.
    #[inline]
    pub fn stats(&self) -> &Stats {
        &self.stats
    }
    #[inline]
    pub(crate) fn stats_mut(&mut self) -> &mut Stats {
        &mut self.stats
    }
    /// The drive was powered on again: its accounts go on where those of `before` were.
    pub(crate) fn carry_over(&mut self, before: Accounts, now: nandle_nand::Time) {
        self.media.carry_over(now, before.counters, &before.busy);
        self.space.carry_over(before.notes, before.surplus_peak);
        self.stats = before.stats;
        self.carry_unprogrammed_over(before.unprogrammed);
    }
    /// The accounts as they stand.
    pub(crate) fn accounts(&self) -> Accounts {
        Accounts {
            counters: self.media.counters().clone(),
            busy: self.media.busy_ns(),
            stats: self.stats.clone(),
            unprogrammed: self.unprogrammed_at_cut(),
            notes: self.space.notes(),
            surplus_peak: self.space.blocks().surplus_peak(),
        }
    }
    pub(crate) fn reset_counters(&mut self) {
        self.stats = Stats::default();
        self.reset_unprogrammed();
        self.media.reset_counters();
        self.space.reset_notes();
        self.space.blocks_mut().set_peak(0);
    }
    /// Whether the flash takes no more writes.
    #[inline]
    pub fn is_read_only(&self) -> bool {
        self.read_only
    }
    pub(crate) fn set_read_only(&mut self, read_only: bool) {
        self.read_only = read_only;
    }
    /// Pages programmed so far but for those of checkpoints, and those of them that the host caused.
    #[inline]
    pub(crate) fn programs(&self) -> (u64, u64) {
        self.programs
    }

    // ---- records ----------------------------------------------------------------------------------

    /// Something that has to be on flash before what it speaks of is erased.
    pub(crate) fn record(&mut self, record: Record) {
        self.records.push(record);
    }
    /// Records that are not yet on flash.
    #[inline]
    pub(crate) fn records(&self) -> &[Record] {
        &self.records
    }
    pub(crate) fn drop_records(&mut self, count: usize) {
        self.records.drain(..count);
    }

    // ---- where to -----------------------------------------------------------------------------------

    /// The group of host data of `lpn`, written with the host's stream id `hint`.
    #[inline]
    pub fn host_group(&self, lpn: u32, hint: u16) -> GroupId {
        self.space.host_group(lpn, hint)
    }
    /// Pages of `class` that `group` can write in `plane` now.
    #[inline]
    pub fn room(&self, plane: u32, group: GroupId, class: PageClass) -> u32 {
        self.space.room(plane, group, class, &self.media)
    }
    /// Whether `pages` writes of `lpn` by `group` find a plane.
    #[inline(always)]
    pub fn has_room(&self, lpn: u32, group: GroupId, class: PageClass, pages: u32) -> bool {
        self.has_room_of::<false>(lpn, group, class, pages)
    }
    #[inline(always)]
    pub(crate) fn has_room_of<const PLAIN: bool>(
        &self,
        lpn: u32,
        group: GroupId,
        class: PageClass,
        pages: u32,
    ) -> bool {
        // A page that requests wait for may have to be programmed half full in between.
        let pages = if PLAIN { pages } else { pages * self.media.slots() };
        self.space.has_room_of::<PLAIN>(lpn, group, class, pages, &self.media)
    }
    /// The plane for the next write of `lpn` by `group`, if one has room.
    #[inline(always)]
    pub fn choose_plane(&mut self, lpn: u32, group: GroupId, class: PageClass) -> Option<u32> {
        self.space.choose_plane(lpn, group, class, &self.media)
    }
    /// The page that the next write of `group` in `plane` gets, if an open block says so.
    pub fn next_page(&self, plane: u32, group: GroupId) -> Option<Ppn> {
        self.space.next_page(plane, group, &self.media)
    }

    // ---- orders -------------------------------------------------------------------------------------

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
        for f in self.map.fragments().get(lpn, self.media.array()) {
            let wanted = self.media.sectors_read(f.mask & mask, f.shift);
            if wanted == 0 || out.iter().any(|&(ppn, _)| ppn == f.ppn) || self.media.is_open(f.ppn) {
                continue;
            }
            if self.gathers() {
                let first = |ppn| self.media.array().first_slot(ppn);
                if let Some(&(_, op)) = out.iter().find(|&&(ppn, _)| first(ppn) == first(f.ppn)) {
                    self.media.widen(op, wanted);
                    continue;
                }
            }
            let op = self.media.read::<false>(f.ppn, wanted, cause, false, after, Waiter::request(request));
            out.push((f.ppn, op));
        }
    }

    /// Orders a read of `sectors` sectors of `ppn` on behalf of `cause`; none if they are in RAM.
    pub fn read_page(
        &mut self,
        ppn: Ppn,
        sectors: u32,
        cause: Cause,
        background: bool,
        after: &[OpId],
    ) -> Option<OpId> {
        if self.media.is_open(ppn) {
            return None;
        }
        Some(self.media.read::<false>(ppn, sectors, cause, background, after, Waiter::NOBODY))
    }

    /// Orders the read of a page to be copied by garbage collection.
    #[inline(always)]
    pub(crate) fn read_copy<const PLAIN: bool>(&mut self, ppn: Ppn, background: bool) -> OpId {
        let mut sectors = self.sectors_per_page();
        if !PLAIN && self.gathers() {
            let first = self.array().first_slot(ppn);
            if let Some((page, read)) = self.copy_read
                && page == first
            {
                return read;
            }
            let live = self.array().together(ppn).filter(|&slot| self.blocks().is_live(slot));
            sectors *= live.count() as u32;
        }
        let read = self.media.read::<PLAIN>(ppn, sectors, Cause::Gc, background, &[], Waiter::NOBODY);
        if !PLAIN && self.gathers() {
            self.copy_read = Some((self.array().first_slot(ppn), read));
        }
        read
    }

    /// Time may have passed: pages that are copied now are read again.
    #[inline]
    pub(crate) fn forget_copy_read(&mut self) {
        self.copy_read = None;
    }
    /// Copies of garbage collection under way in `plane`.
    #[inline]
    pub(crate) fn copies(&self, plane: u32) -> u32 {
        self.copies[plane as usize]
    }
    /// Copies of collection under way in all planes.
    pub(crate) fn copies_of_all(&self) -> u32 {
        self.copies.iter().sum()
    }
    /// A copy that the collection of `plane` ordered is done.
    #[inline]
    pub(crate) fn copy_done(&mut self, plane: u32) {
        self.copies[plane as usize] -= 1;
    }

    /// An event: copies that were over before are under way no more; whether there were some.
    pub(crate) fn end_copies(&mut self) -> bool {
        let some = !self.over.is_empty();
        while let Some(plane) = self.over.pop() {
            self.copies[plane as usize] -= 1;
            self.space.look_at(plane);
        }
        some
    }

    /// Which sectors of `mask` are stored for `lpn`.
    #[inline]
    pub fn stored(&self, lpn: u32, mask: u64) -> u64 {
        let fragments = self.map.fragments();
        fragments.mask(lpn, self.media.array()) & mask
    }

    /// At power-on: `lpn` is stored by `list`.
    pub(crate) fn set_fragments(&mut self, lpn: u32, list: FragmentList) {
        self.map.fragments_mut().set(lpn, list, self.media.array());
    }

    /// All fragments of `lpn` in pages that nobody looks after in particular, newest first.
    #[inline]
    pub fn plain(&self, lpn: u32) -> FragmentList {
        let mut list = self.map.fragments().get(lpn, self.array());
        if self.map.annex().is_some() {
            list.retain(|f| self.array().owner(f.ppn) == Oob::PLAIN);
        }
        list
    }

    /// The sectors of `mask` of a logical page that the flash no longer returns.
    #[inline]
    pub(crate) fn unreadable(&self, lpn: u32, mask: u64) -> u64 {
        if self.array().any_lost() { self.lost_sectors(lpn, mask) } else { 0 }
    }

    #[cold]
    fn lost_sectors(&self, lpn: u32, mask: u64) -> u64 {
        let mut gone = 0;
        for f in self.map.fragments().get(lpn, self.array()) {
            let lost = self.array().lost(f.ppn);
            let at_home = if f.shift >= 0 { lost >> f.shift } else { lost << -f.shift };
            gone |= at_home & f.mask & mask;
        }
        gone
    }

    /// Writes one page and makes it live. It starts when `after` are done. A page of the host's is one that the
    /// ticket of the write being placed grants.
    pub fn append(&mut self, page: &Page<'_>, after: &[OpId]) -> (Ppn, OpId) {
        self.append_here::<false>(page, after)
    }

    /// As [`Flash::append`], laid out in its caller: most of it falls away where use and cause of the page
    /// are known.
    #[inline(always)]
    pub(crate) fn append_here<const PLAIN: bool>(&mut self, page: &Page<'_>, after: &[OpId]) -> (Ppn, OpId) {
        let &Page { plane, group, class, kind, owner, extents, cause, waiter } = page;
        let lpn = first_page(extents, self.sectors_per_page());
        // A copy for what is seldom called: the page itself need not lie in memory.
        let plane = if !PLAIN && self.gathers() { self.ready_plane(&{ *page }, lpn) } else { plane };
        if cause == Cause::Host {
            self.spend_page();
        }
        let group = if !PLAIN && cause == Cause::Host {
            self.space.cache_before(plane, group, &self.media)
        } else {
            group
        };
        let place = match self.space.take::<PLAIN>(lpn, plane, group, class, &self.media) {
            Some(place) => place,
            None => self.take_anywhere(lpn, group, class),
        };
        let may_use_reserve =
            if PLAIN { group.is_collected_into() } else { self.space.may_use_reserve(place.group) };
        let background = may_use_reserve && !self.space.is_urgent(place.plane);
        let of_checkpoint = kind == PageUse::Checkpoint;
        let sectors = sectors_of(extents);
        let record = crate::media::Record {
            oob: Oob { kind, owner, stream: class.label(if PLAIN { group } else { place.group }), extents },
            sectors,
            cause,
            background,
            // Nothing of the host's waits for copies and checkpoints.
            durable: cause != Cause::Gc && !of_checkpoint,
            waiter,
        };
        let op = self.media.program::<PLAIN>(place.ppn, &record, after);
        self.space.blocks_mut().set_live::<PLAIN>(place.ppn);
        if cause != Cause::Gc {
            // What was found elsewhere is of the same group where there are no dedicated ones.
            let group = if PLAIN { group } else { place.group };
            self.count_stream_of::<PLAIN>(group, cause == Cause::Host);
        }
        let of_job = cause == Cause::Gc && (PLAIN || !self.gathers());
        if !PLAIN && matches!(cause, Cause::Gc | Cause::Merge) && self.gathers() {
            self.note_copied(place.ppn, place.group, cause);
        }
        if of_job {
            self.copies[place.plane as usize] += 1;
        }
        if !of_checkpoint {
            self.programs.0 += 1;
            self.programs.1 += u64::from(matches!(cause, Cause::Host | Cause::Meta));
        }
        // Who copies looks by itself whether to go on.
        if !of_job && self.space.need_of::<PLAIN>(place.plane).is_some() {
            self.space.look_at(place.plane);
        }
        (place.ppn, op)
    }

    /// Writes one of the drive's own pages: `number` names it.
    pub(crate) fn append_system(
        &mut self,
        plane: u32,
        group: GroupId,
        kind: PageUse,
        number: u32,
        cause: Cause,
        after: &[OpId],
    ) -> (Ppn, OpId) {
        let extents = Extents::Home { lpn: number, start: 0, len: self.sectors_per_page() as u8 };
        let page = Page { kind, ..Page::data(plane, group, PageClass::SYSTEM, extents) };
        self.append(&page.because(cause), after)
    }

    /// A page was programmed for `group`, for the `host` or as a copy. Whatever of it the host wrote is counted for
    /// the same stream behind it ([`Flash::count_host_sectors`]).
    #[inline]
    pub(crate) fn count_stream(&mut self, group: GroupId, host: bool) {
        self.count_stream_of::<false>(group, host);
    }
    #[inline(always)]
    fn count_stream_of<const PLAIN: bool>(&mut self, group: GroupId, host: bool) {
        let slot = self.stream_of(group);
        if slot >= self.stats.streams.len() {
            self.open_stream_counts(self.host_groups + 2);
        }
        self.stats.streams[slot].media_sectors += u64::from(self.media.sectors_per_page());
        if host {
            if !PLAIN && self.space.has_cache() {
                let count = &mut self.stats.slc;
                *(if group == GroupId::Cache { &mut count.host_pages } else { &mut count.direct_pages }) += 1;
            }
            self.counted = slot;
            self.space.count_host_page(group);
        }
    }

    /// The place of `group` among the streams that are counted.
    #[inline(always)]
    fn stream_of(&self, group: GroupId) -> usize {
        let last = self.host_groups + 1;
        match group {
            GroupId::Host(stream) => usize::from(stream),
            GroupId::Cache => 0,
            GroupId::Dedicated(_) | GroupId::DedicatedSurvivors(_) => last - 1,
            _ => last,
        }
    }

    #[cold]
    fn open_stream_counts(&mut self, count: usize) {
        self.stats.streams = vec![StreamCount::default(); count];
    }

    /// Marks `program` as the end of a read-modify-write whose reads are `reads`.
    pub fn mark_rmw(&mut self, program: OpId, reads: impl IntoIterator<Item = OpId>) {
        self.stats.rmw_count += 1;
        self.media.mark_rmw(program, reads);
    }

    /// These sectors of the page that was written last are what the host wrote: not what was read to fill it up.
    #[inline]
    pub fn count_host_sectors(&mut self, mask: u64) {
        let full = mask == self.full_mask();
        let sectors = if full { self.sectors_per_page() } else { mask.count_ones() };
        self.count_written(sectors);
    }

    /// As [`Flash::count_host_sectors`] of a run of so many sectors.
    #[inline]
    pub(crate) fn count_written(&mut self, sectors: u32) {
        self.stats.host_sectors_programmed += u64::from(sectors);
        self.stats.streams[self.counted].host_sectors += u64::from(sectors);
    }

    /// Copies the contents of the stored sectors `mask` of `lpn` to `ppn`, `shift` sectors from home.
    pub fn carry(&mut self, lpn: u32, mask: u64, ppn: Ppn, shift: i32) {
        if mask != 0 && self.gathers() {
            self.note_carried(ppn, mask.count_ones());
        }
        if mask == 0 || self.array().unit() == 0 && !self.array().any_lost() {
            return;
        }
        for f in self.map.fragments().get(lpn, self.media.array()) {
            for (start, len) in runs(f.mask & mask) {
                let from = (start as i32 + i32::from(f.shift)) as u32;
                self.media.array_mut().copy(f.ppn, from, ppn, (start as i32 + shift) as u32, len);
            }
        }
    }

    /// Stores the contents of the sectors `mask` of a logical page in `ppn`, `shift` sectors from home.
    #[inline]
    pub fn fill(&mut self, ppn: Ppn, mask: u64, shift: i32, contents: Contents<'_>) {
        if self.array().unit() > 0 {
            self.media.fill(ppn, runs(mask), shift, contents);
        }
    }

    // ---- the processor's cache ----------------------------------------------------------------------

    /// Brings what is known of the page of `lpn` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch(&self, lpn: u32) {
        let fragments = self.map.fragments();
        if lpn < fragments.len() {
            match fragments.single(lpn) {
                Some(ppn) => self.prefetch_page(ppn),
                None => fragments.prefetch_list(lpn),
            }
        }
    }
    /// Brings what is needed to read the page of `lpn` into the processor's cache.
    #[inline]
    pub(crate) fn prefetch_stored(&self, lpn: u32) {
        if let Some(ppn) = self.map.fragments().single(lpn) {
            self.media.array().prefetch(ppn);
            self.media.array().prefetch_places(ppn);
        }
    }
    /// The first bytes that it holds, once that is there.
    #[inline(never)]
    pub(crate) fn prefetch_bytes(&self, lpn: u32) {
        if let Some(ppn) = self.map.fragments().single(lpn) {
            self.media.array().prefetch_bytes(ppn);
        }
    }
    /// The same for the pages of a list that [`Flash::prefetch`] brought.
    #[inline]
    pub(crate) fn prefetch_listed(&self, lpn: u32) {
        let fragments = self.map.fragments();
        if fragments.lists_in_use() > 0 && lpn < fragments.len() {
            fragments.list(lpn).iter().for_each(|f| self.prefetch_page(f.ppn));
        }
    }
    #[inline]
    fn prefetch_page(&self, ppn: Ppn) {
        self.media.array().prefetch(ppn);
        self.space.blocks().prefetch(ppn);
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

#[inline]
fn sectors_of(extents: Extents<'_>) -> u32 {
    match extents {
        Extents::Home { len, .. } => u32::from(len),
        Extents::List(list) => list.iter().map(|e| u32::from(e.sectors)).sum(),
    }
}

/// The shortest form of a page's extents.
pub fn compact(extents: &[Extent], spp: u32) -> Extents<'_> {
    match extents {
        [e] if e.lsn % u64::from(spp) == u64::from(e.at) => {
            Extents::Home { lpn: (e.lsn / u64::from(spp)) as u32, start: e.at, len: e.sectors }
        }
        list => Extents::List(list),
    }
}
