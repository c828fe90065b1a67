//! Space: which blocks are what, who writes them, and where the next page goes.
//!
//! Knows groups, not what they stand for: streams, reclaim-unit handles and objects are all groups of
//! writes with blocks of their own. Orders nothing and changes no map.

use nandle_nand::{Block, Geometry, Ppn};

mod blocks;
mod cached;
pub mod claims;
mod config;
mod dedicated;
mod frontiers;
mod group;
mod in_order;
mod pacing;
mod page_types;
mod partial_blocks;
mod slc;
mod striping;
mod surplus;

pub use blocks::{Blocks, Candidates, State};
pub use config::{SuperblockConfig, WearConfig};
pub use dedicated::{Dedicated, DedicatedPlan, Group, NewGroup};
pub use group::{GroupId, PageClass};
pub use pacing::{Need, PacingKind};
pub use page_types::{Note, PageTypes, Step, Steps};
pub use slc::{Fold, SlcConfig};
pub use striping::Striping;

use crate::error::ConfigError;
use crate::media::Media;
use frontiers::Frontiers;
use slc::Cache;
use striping::Dynamic;

/// Shares of each plane's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Free blocks that host writes never take.
    pub hard: u32,
    /// Free blocks below which collection runs.
    pub soft: u32,
    /// Free blocks below which host writes may find no room.
    pub kept: u32,
    /// Blocks that all logical pages and what the drive stores for itself fill.
    pub data: u32,
    /// Blocks that surplus pages may take at the least.
    pub surplus: u32,
    /// Least good blocks with which all logical pages and the reserve fit.
    pub least: u32,
}

/// What the schemes of a drive ask of its space.
#[derive(Clone, Debug)]
pub struct SpacePlan {
    /// Host streams, each with open blocks of its own.
    pub streams: u16,
    /// Collection keeps the survivors of each stream apart.
    pub survivors_apart: bool,
    /// There are dedicated groups.
    pub dedicated: Option<DedicatedPlan>,
    /// Page types are chosen.
    pub page_types: Option<PageTypes>,
    /// Pages beyond one per logical page are tracked; true: one that becomes the only page of its logical
    /// page is none any more.
    pub surplus: Option<bool>,
}

impl Default for SpacePlan {
    fn default() -> Self {
        Self { streams: 1, survivors_apart: false, dedicated: None, page_types: None, surplus: None }
    }
}

impl SpacePlan {
    /// Host streams and the groups of their survivors.
    pub fn host_groups(&self) -> u32 {
        u32::from(self.streams) * if self.survivors_apart { 2 } else { 1 }
    }
}

/// What the device file says of it.
#[derive(Clone, Copy, Debug)]
pub struct SpaceSettings<'a> {
    /// `scheme.striping`.
    pub striping: &'a str,
    /// `scheme.pacing`.
    pub pacing: PacingKind,
    /// `wear.dynamic`.
    pub by_wear: bool,
    /// `gc.types_ahead`.
    pub types_ahead: bool,
    /// Logical pages.
    pub logical_pages: u32,
    /// `[slc]`, and the blocks of each plane that are the cache's own.
    pub slc: (&'a SlcConfig, u32),
}

/// Where a page goes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The page.
    pub ppn: Ppn,
    /// Its plane.
    pub plane: u32,
    /// The group that it is written for at last: the host's where a dedicated group is at its end.
    pub group: GroupId,
}

/// Blocks, groups and write frontiers of a drive.
#[derive(Clone, Debug)]
pub struct Space {
    blocks: Blocks,
    frontiers: Frontiers,
    striping: Striping,
    dedicated: Option<Box<Dedicated>>,
    cache: Option<Box<Cache>>,
    streams: u16,
    survivors_apart: bool,
    limits: Limits,
    pacing: PacingKind,
    types_ahead: bool,
    /// Planes whose free blocks changed: collection looks at them.
    look: Vec<u32>,
    /// A host write waits for a page of its type, which others being left cannot give.
    called: Vec<bool>,
    /// Collection found nothing to gain in the plane when it last looked.
    stuck: Vec<bool>,
    /// A surplus page that becomes the only page of its logical page is none any more.
    surplus_settles: bool,
    /// Pages of each plane that are more than one per logical page and not marked as surplus.
    apart: Vec<u32>,
    /// What is at the front of the host's queue waits for room.
    host_waits: bool,
    /// Room may have come for what waits.
    progress: bool,
    /// Host pages written to each stream.
    host_pages: Vec<u64>,
    /// Survivors that found no place with their own group.
    mixed_pages: u64,
    planes: u32,
    pages_per_block: u32,
    /// Where units share pages: the plane in which each group last opened one.
    gathering: Vec<u32>,
}

impl Space {
    pub(crate) fn new(
        plan: &SpacePlan,
        settings: SpaceSettings<'_>,
        limits: Limits,
        media: &Media,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        let array = media.array();
        let g: &Geometry = array.geometry();
        let planes = g.planes();
        let mut blocks = Blocks::new(g, settings.by_wear);
        let gathers = array.slots() > 1;
        if plan.surplus.is_some() || gathers {
            // Counts live pages by plane as well.
            blocks.track_surplus();
        }
        blocks.set_least_gain(array.slots());
        let (slc, of_cache) = settings.slc;
        blocks.set_cache(of_cache);
        let rules = plan.page_types.as_ref();
        Ok(Self {
            blocks,
            frontiers: Frontiers::new(rules, array, plan.host_groups(), limits.hard, seed),
            striping: Striping::new(settings.striping, g)?.by_pages(gathers),
            gathering: vec![0; if gathers { GroupId::count(plan.host_groups()) as usize } else { 0 }],
            dedicated: plan.dedicated.map(|plan| Box::new(Dedicated::new(g, settings.logical_pages, plan))),
            cache: (!slc.is_off()).then(|| Box::new(Cache::new(slc, array.slc_pages()))),
            streams: plan.streams,
            survivors_apart: plan.survivors_apart,
            limits,
            pacing: settings.pacing,
            types_ahead: settings.types_ahead,
            look: Vec::new(),
            called: vec![false; planes as usize],
            stuck: vec![false; planes as usize],
            surplus_settles: plan.surplus == Some(true),
            apart: vec![0; planes as usize],
            host_waits: false,
            progress: false,
            host_pages: vec![0; usize::from(plan.streams)],
            mixed_pages: 0,
            planes,
            pages_per_block: g.pages_per_block,
        })
    }

    /// The blocks.
    #[inline]
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }
    #[inline]
    pub(crate) fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }
    /// The shares of each plane's blocks.
    #[inline]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
    #[inline]
    fn home(&self, lpn: u32) -> Option<u32> {
        match &self.striping {
            Striping::Static(order) => Some(order.plane(lpn)),
            Striping::Dynamic(_) => None,
        }
    }
    /// The plane that pages of `lpn` alone must lie in; none if any plane does.
    #[inline]
    pub fn home_plane(&self, lpn: u32) -> Option<u32> {
        self.home(lpn)
    }
    /// Whether the logical page number alone says where a page goes.
    #[inline]
    pub fn stripes_by_number(&self) -> bool {
        self.striping.is_static()
    }

    // ---- groups -----------------------------------------------------------------------------------

    /// The group of host data of `lpn`, written with the host's stream id `hint`.
    #[inline]
    pub fn host_group(&self, lpn: u32, hint: u16) -> GroupId {
        match &self.dedicated {
            None if self.streams == 1 => GroupId::Host(0),
            None => GroupId::Host(hint % self.streams),
            Some(dedicated) => dedicated.group_of(lpn),
        }
    }
    /// Host streams.
    #[inline]
    pub fn streams(&self) -> u16 {
        self.streams
    }
    /// Whether the group is that of a stream's survivors.
    #[inline]
    fn is_of_survivors(&self, group: GroupId) -> bool {
        self.survivors_apart && matches!(group, GroupId::Host(n) if n >= self.streams)
    }
    /// Whether `group` may take the blocks that host writes leave.
    #[inline]
    pub fn may_use_reserve(&self, group: GroupId) -> bool {
        group.is_collected_into() || self.is_of_survivors(group)
    }
    /// Where garbage collection puts what survives of a block that was written for `from`.
    #[inline]
    pub fn survivors_of(&self, from: GroupId) -> GroupId {
        match from {
            GroupId::Host(stream) if self.survivors_apart => {
                GroupId::Host(self.streams + stream % self.streams)
            }
            _ => GroupId::Survivors,
        }
    }
    /// A survivor that belonged to `own` went to `group`.
    #[inline]
    pub(crate) fn survivor_went(&mut self, own: GroupId, group: GroupId) {
        self.mixed_pages += u64::from(self.is_of_survivors(own) && own != group);
    }
    /// Survivors of streams that are kept apart that had to be mixed with others.
    pub fn mixed_pages(&self) -> u64 {
        self.mixed_pages
    }
    /// A page with host data was written for `group`.
    #[inline]
    pub(crate) fn count_host_page(&mut self, group: GroupId) {
        if let GroupId::Host(stream) = group
            && let Some(count) = self.host_pages.get_mut(usize::from(stream))
        {
            *count += 1;
        }
    }
    /// Host pages written to a stream since power-on.
    pub fn host_pages(&self, stream: u16) -> u64 {
        self.host_pages.get(usize::from(stream)).copied().unwrap_or(0)
    }
    /// The dedicated groups, if the drive may have any.
    #[inline]
    pub fn dedicated(&self) -> Option<&Dedicated> {
        self.dedicated.as_deref()
    }
    #[inline]
    pub(crate) fn dedicated_mut(&mut self) -> Option<&mut Dedicated> {
        self.dedicated.as_deref_mut()
    }
    /// Whether blocks may be claimed before they are written.
    #[inline]
    pub fn may_be_claimed(&self) -> bool {
        self.dedicated.as_ref().is_some_and(|d| d.may_claim())
    }
    /// Whether pages may lie off their home planes.
    #[inline]
    pub fn is_off_home(&self) -> bool {
        self.dedicated.as_ref().is_some_and(|d| d.off_home())
    }

    // ---- who looks where --------------------------------------------------------------------------

    /// Collection looks at `plane` again.
    #[inline]
    pub(crate) fn look_at(&mut self, plane: u32) {
        self.look.push(plane);
    }
    /// The next plane that collection looks at.
    #[inline]
    pub(crate) fn next_look(&mut self) -> Option<u32> {
        self.look.pop()
    }
    /// The planes that collection is to look at.
    #[inline]
    pub(crate) fn looks(&self) -> &[u32] {
        &self.look
    }
    /// A write found no room. With dynamic striping, and off their home planes, pages die in planes that
    /// nothing was written to, so a plane that had nothing to collect when it was last looked at may
    /// have now.
    pub(crate) fn look_everywhere(&mut self) {
        if self.is_off_home() || !self.striping.is_static() || self.is_paced() {
            self.look.extend(0..self.planes);
        }
    }
    /// Whether a host write waits for a page of its type in `plane`.
    #[inline]
    pub(crate) fn is_called(&self, plane: u32) -> bool {
        self.called[plane as usize]
    }
    pub(crate) fn answer_call(&mut self, plane: u32) {
        self.called[plane as usize] = false;
    }
    /// Whether collection of `plane` would gain nothing.
    #[inline]
    pub fn is_stuck(&self, plane: u32) -> bool {
        self.stuck[plane as usize]
    }
    pub(crate) fn set_stuck(&mut self, plane: u32, stuck: bool) {
        self.stuck[plane as usize] = stuck;
    }
    /// Whether what is at the front of the host's queue waits for room.
    #[inline]
    pub(crate) fn host_waits(&self) -> bool {
        self.host_waits
    }
    pub(crate) fn set_host_waits(&mut self, waits: bool) {
        self.host_waits = waits;
    }
    /// Room may have come for what waits.
    #[inline]
    pub(crate) fn note_progress(&mut self) {
        self.progress = true;
    }
    #[inline]
    pub(crate) fn take_progress(&mut self) -> bool {
        std::mem::take(&mut self.progress)
    }

    /// Why `plane` should be collected, if it should.
    #[inline(always)]
    pub fn need(&self, plane: u32) -> Option<Need> {
        let room = self.pacing.wants(self.spare(plane), self.limits.soft, self.limits.kept);
        if room == Some(Need::Room) {
            room
        } else if self.called[plane as usize] {
            Some(Need::PageType)
        } else {
            let soon = self.types_ahead && self.frontiers.runs_short(plane, self.limits.soft, &self.blocks);
            if soon { Some(Need::PageTypeSoon) } else { room }
        }
    }
    /// Whether collection has something to gain in a plane that wants it.
    pub(crate) fn may_gain_room(&self) -> bool {
        (0..self.planes).any(|plane| self.need(plane).is_some() && !self.is_stuck(plane))
    }
    /// Whether host writes set the pace of collection.
    #[inline]
    pub(crate) fn is_paced(&self) -> bool {
        self.pacing == PacingKind::Rate
    }
    /// How fast collection goes on in `plane` where host writes set its pace: copies for each page that is written
    /// there, as a fraction, if a block with `valid` valid pages is collected. None if nothing holds it back.
    pub(crate) fn pace(&self, plane: u32, valid: u32) -> Option<(u64, u64)> {
        if !self.is_paced() || self.host_waits || self.is_urgent(plane) {
            return None;
        }
        let Limits { soft, hard, .. } = self.limits;
        // As many copies as keep the number of free blocks where it is, half-way between the watermarks.
        let below = 2 * u64::from(soft.saturating_sub(self.spare(plane)).max(1));
        let gained = u64::from(self.pages_per_block.saturating_sub(valid).max(1));
        Some((below * u64::from(valid), u64::from((soft - hard).max(1)) * gained))
    }
    /// Whether collection of `plane` is what host writes wait for.
    #[inline(always)]
    pub fn is_urgent(&self, plane: u32) -> bool {
        self.called[plane as usize] || self.spare(plane) <= self.limits.hard
    }
    /// Blocks' worth of pages that collection can write in `plane`.
    #[inline]
    pub fn spare(&self, plane: u32) -> u32 {
        self.frontiers.spare(plane, &self.blocks)
    }
    /// Whether all logical pages and the reserve still fit the good blocks.
    pub fn fits(&self) -> bool {
        (0..self.planes).all(|plane| self.blocks.good(plane) >= self.limits.least)
    }

    // ---- room -------------------------------------------------------------------------------------

    /// Whether `group` can write `pages` pages of `class` in `plane` now: [`Space::room`], where the open
    /// block mostly decides.
    #[inline]
    pub fn has_pages(&self, plane: u32, group: GroupId, class: PageClass, pages: u32, media: &Media) -> bool {
        let dedicated = matches!(group, GroupId::Dedicated(_) | GroupId::DedicatedSurvivors(_));
        !dedicated && self.frontiers.left(plane, group, media.array()) >= pages
            || self.host_room(plane, group, class, media) >= pages
    }

    /// Pages of `class` that `group` can write in `plane` now.
    pub fn room(&self, plane: u32, group: GroupId, class: PageClass, media: &Media) -> u32 {
        let left = match group {
            GroupId::Dedicated(_) => 0,
            GroupId::DedicatedSurvivors(number) => self.survivor_room(number, plane, media),
            _ => match self.frontiers.typed_room(plane, group, class, &self.blocks) {
                Some(room) => return room,
                None => self.frontiers.left(plane, group, media.array()),
            },
        };
        let reserve = if self.may_use_reserve(group) { 0 } else { self.limits.hard };
        left + self.blocks.free(plane).saturating_sub(reserve) * self.pages_per_block
    }

    /// Pages that `group` can write in `plane` into the block that is open for it.
    #[inline]
    pub(crate) fn left_in_open(&self, plane: u32, group: GroupId, media: &Media) -> u32 {
        self.frontiers.left(plane, group, media.array())
    }

    /// Whether `pages` writes of `lpn` by `group` find a plane.
    #[inline(always)]
    pub fn has_room(&self, lpn: u32, group: GroupId, class: PageClass, pages: u32, media: &Media) -> bool {
        let group = match group {
            GroupId::Dedicated(number) if self.dedicated_takes(lpn, number, pages, media) => return true,
            // A dedicated group at its end goes on in normal blocks.
            GroupId::Dedicated(_) => GroupId::Host(0),
            group => group,
        };
        match self.home(lpn) {
            Some(home) => {
                self.has_pages(home, group, class, pages, media)
                    || self.overflows(home) && self.some_plane_has(group, class, pages, media)
            }
            None => self.some_plane_has(group, class, pages, media),
        }
    }

    fn some_plane_has(&self, group: GroupId, class: PageClass, pages: u32, media: &Media) -> bool {
        (0..self.planes).any(|plane| self.host_room(plane, group, class, media) >= pages)
    }

    /// Whether writes of `plane` go elsewhere when it has no room: only where dedicated groups brought
    /// pages of other planes, and it cannot make room by itself.
    #[inline]
    fn overflows(&self, plane: u32) -> bool {
        self.is_off_home() && self.is_stuck(plane)
    }

    /// A write waits for a page of its class: planes that lack one are collected although others are
    /// left.
    pub(crate) fn call_for(&mut self, lpn: u32, group: GroupId, class: PageClass, pages: u32, media: &Media) {
        if !self.frontiers.chooses_types() || self.has_room(lpn, group, class, pages, media) {
            return;
        }
        let planes = match self.home(lpn) {
            Some(plane) => plane..plane + 1,
            None => 0..self.planes,
        };
        for plane in planes {
            self.called[plane as usize] = true;
            self.look.push(plane);
        }
    }

    /// The plane for the next write of `lpn` by `group`, if one has room.
    #[inline(always)]
    pub fn choose_plane(&mut self, lpn: u32, group: GroupId, class: PageClass, media: &Media) -> Option<u32> {
        let group = match group {
            GroupId::Dedicated(number) if self.dedicated_takes(lpn, number, 1, media) => {
                return self.dedicated_plane(number, media);
            }
            GroupId::Dedicated(_) => GroupId::Host(0),
            group => group,
        };
        if let Some(plane) = self.gathers_in(group, media) {
            return Some(plane);
        }
        if let Some(plane) = self.home(lpn)
            && self.has_pages(plane, group, class, 1, media)
        {
            return Some(plane);
        }
        self.choose_other_plane(lpn, group, class, media)
    }

    /// As [`Space::choose_plane`], where the plane of `lpn` has no room or there is none.
    fn choose_other_plane(
        &mut self,
        lpn: u32,
        group: GroupId,
        class: PageClass,
        media: &Media,
    ) -> Option<u32> {
        if let Some(plane) = self.home(lpn) {
            if !self.overflows(plane) {
                return None;
            }
            return (0..self.planes)
                .max_by_key(|&p| self.room(p, group, class, media))
                .filter(|&p| self.room(p, group, class, media) > 0);
        }
        let mut striping = std::mem::replace(&mut self.striping, Striping::idle());
        let has_room = |plane| self.host_room(plane, group, class, media) > 0;
        let live = |plane| u64::from(self.blocks.live(plane));
        let plane = match &mut striping {
            // Of planes with as much to do the one with the least data: else some would have less to spare.
            Striping::Dynamic(Dynamic::LeastBusy(busy)) if !self.gathering.is_empty() => {
                let load = |plane| u64::from(media.load(plane)) << 32 | live(plane);
                busy.choose(self.planes, |plane| has_room(plane).then(|| load(plane)))
            }
            Striping::Dynamic(Dynamic::LeastFull(full)) => {
                full.choose(self.planes, |plane| has_room(plane).then(|| live(plane)))
            }
            Striping::Dynamic(Dynamic::LeastBusy(busy)) => {
                busy.choose(self.planes, |plane| has_room(plane).then(|| u64::from(media.load(plane))))
            }
            Striping::Dynamic(Dynamic::BlockByBlock(by_block)) => {
                let goes_on = |plane| self.frontiers.left(plane, group, media.array()) > 0;
                by_block.choose(group.number(), self.planes, goes_on, has_room)
            }
            Striping::Static(_) => None,
        };
        self.striping = striping;
        if let (Some(plane), false) = (plane, self.gathering.is_empty()) {
            let streams = self.host_groups();
            self.gathering[group.place(streams)] = plane;
            if group == GroupId::Host(0) {
                self.gathering[GroupId::Cache.place(streams)] = plane;
            }
        }
        plane
    }

    /// The plane in which `group` has a page that is not full yet, where units share pages.
    #[inline(always)]
    fn gathers_in(&self, group: GroupId, media: &Media) -> Option<u32> {
        if self.gathering.is_empty() { None } else { self.filling_plane(group, media) }
    }

    fn filling_plane(&self, group: GroupId, media: &Media) -> Option<u32> {
        let in_part = |group: GroupId| {
            let plane = self.gathering[group.place(self.host_groups())];
            self.is_filling(plane, group, media).then_some(plane)
        };
        let cache = (self.cache.is_some() && group == GroupId::Host(0)).then(|| in_part(GroupId::Cache));
        cache.flatten().or_else(|| in_part(group))
    }

    /// Host groups with open blocks of their own.
    #[inline]
    pub(crate) fn host_groups(&self) -> u32 {
        u32::from(self.streams) * if self.survivors_apart { 2 } else { 1 }
    }

    /// Whether the next page of `group` in `plane` is programmed with others that are there already.
    #[inline]
    fn is_filling(&self, plane: u32, group: GroupId, media: &Media) -> bool {
        let next = self.frontiers.peek(plane, group, media.array());
        next.is_some_and(|next| media.array().first_slot(next) != next)
    }

    /// The page that the next write of `group` in `plane` gets, if an open block says so.
    pub(crate) fn next_page(&self, plane: u32, group: GroupId, media: &Media) -> Option<Ppn> {
        match group {
            GroupId::Dedicated(_) | GroupId::DedicatedSurvivors(_) => None,
            _ => self.frontiers.peek(plane, group, media.array()),
        }
    }

    /// Takes the next page of `plane` for `group`, which holds `lpn` (first).
    #[inline(always)]
    pub(crate) fn take(
        &mut self,
        lpn: u32,
        plane: u32,
        group: GroupId,
        class: PageClass,
        media: &Media,
    ) -> Option<Place> {
        if let GroupId::Dedicated(_) | GroupId::DedicatedSurvivors(_) = group {
            return self.take_dedicated(lpn, plane, group, class, media);
        }
        let ppn = self.frontiers.take(plane, group, class, media.array(), &mut self.blocks)?;
        Some(Place { ppn, plane, group })
    }

    fn take_dedicated(
        &mut self,
        lpn: u32,
        plane: u32,
        group: GroupId,
        class: PageClass,
        media: &Media,
    ) -> Option<Place> {
        match group {
            GroupId::Dedicated(number) => {
                if let Some(ppn) = self.take_in_group(lpn, number, media) {
                    return Some(Place { ppn, plane: media.plane_of(ppn), group });
                }
                let group = GroupId::Host(0);
                let fits = self.room(plane, group, class, media) > 0;
                let plane = if fits { plane } else { self.choose_plane(lpn, group, class, media)? };
                self.take(lpn, plane, group, class, media)
            }
            GroupId::DedicatedSurvivors(number) => {
                let ppn = self.take_for_survivor(number, plane, media)?;
                Some(Place { ppn, plane, group })
            }
            _ => None,
        }
    }

    // ---- blocks -----------------------------------------------------------------------------------

    /// Whether `block`, which has no programs under way, is to be closed.
    #[inline]
    pub(crate) fn may_close(&self, block: Block, full: bool, media: &Media) -> bool {
        let Some(dedicated) = &self.dedicated else { return full };
        let Some(number) = self.blocks.group(block) else { return full };
        let plane = media.geometry().plane_of(block);
        let survivors = dedicated.survivor_block(number, plane, media.array()) == Some(block);
        !dedicated.group(number).is_open() && (full || !survivors)
    }

    /// The best partially written victim of `plane`, with its dead pages.
    pub(crate) fn partial_victim(&self, plane: u32, convert: bool, media: &Media) -> Option<(u32, Block)> {
        self.frontiers.partial_victim(plane, convert, media, &self.blocks)
    }
    /// No further page of the partially written `block` is written: it is closed.
    pub(crate) fn give_up(&mut self, plane: u32, block: Block, media: &Media) {
        self.frontiers.give_up(plane, block, media.array(), &mut self.blocks);
        self.blocks.close(block, media.now());
    }
    /// No further page of `block`, in which a program failed, is taken.
    pub(crate) fn avoid(&mut self, block: Block, media: &Media) {
        let plane = media.geometry().plane_of(block);
        self.frontiers.avoid(plane, block, media.array(), &mut self.blocks);
        if let (Some(number), Some(dedicated)) = (self.blocks.group(block), &mut self.dedicated) {
            dedicated.avoid(number, block);
        }
    }
    /// At power-on: `block` was being written for `group`. False if that place is taken.
    pub(crate) fn resume(&mut self, group: GroupId, block: Block, media: &Media) -> bool {
        let plane = media.geometry().plane_of(block);
        self.frontiers.resume(plane, group, block, media.array(), &mut self.blocks)
    }
    /// A block was erased and is free again, or (with `failed`) bad.
    pub(crate) fn erased(&mut self, block: Block, failed: bool, media: &Media) {
        if let (Some(number), Some(dedicated)) = (self.blocks.group(block), &mut self.dedicated) {
            dedicated.released(number, block);
        }
        if failed {
            self.blocks.retire(block);
        } else {
            self.blocks.put_free(block, media.array().erases(block));
        }
    }

    // ---- page types -------------------------------------------------------------------------------

    /// Whether page types are chosen.
    #[inline]
    pub fn chooses_types(&self) -> bool {
        self.frontiers.chooses_types()
    }
    /// From now on page types are chosen by other rules, if they are chosen at all.
    pub(crate) fn set_page_types(&mut self, rules: PageTypes) {
        self.frontiers.set_rules(rules);
    }
    /// Pages that were found by steps of the page-type rules with this note.
    pub fn noted(&self, note: Note) -> u64 {
        self.frontiers.noted(note)
    }
    pub(crate) fn notes(&self) -> [u64; Note::COUNT] {
        std::array::from_fn(|n| self.frontiers.noted(Note(n as u8)))
    }
    pub(crate) fn reset_notes(&mut self) {
        self.frontiers.set_notes([0; Note::COUNT]);
    }
    /// Counts go on where they were before a power cut.
    pub(crate) fn carry_over(&mut self, notes: [u64; Note::COUNT], surplus_peak: u32) {
        self.frontiers.set_notes(notes);
        self.blocks.set_peak(surplus_peak);
    }

    // ---- pages beyond one per logical page --------------------------------------------------------

    /// Whether surplus pages have to be looked after when a logical page loses others.
    #[inline]
    pub(crate) fn surplus_settles(&self) -> bool {
        self.surplus_settles && self.blocks.surplus_total() > 0
    }

    /// Pages of `plane` that are more than one per logical page and not marked as surplus.
    #[inline]
    pub fn apart(&self, plane: u32) -> u32 {
        self.apart[plane as usize]
    }
    #[inline]
    pub(crate) fn add_apart(&mut self, plane: u32) {
        self.apart[plane as usize] += 1;
    }
    #[inline]
    pub(crate) fn drop_apart(&mut self, plane: u32) {
        self.apart[plane as usize] -= 1;
    }
    /// Pages of `plane` beyond what all logical pages and the reserve need.
    #[inline]
    pub fn beyond_need(&self, plane: u32) -> u32 {
        self.blocks.good(plane).saturating_sub(self.limits.least) * self.pages_per_block
    }
    /// Pages of `plane` that collection can fill and that hold no logical page of their own: those that
    /// are spare, and those that the host has not written.
    pub fn unused_pages(&self, plane: u32) -> u32 {
        let reserves = self.limits.least - self.limits.data - self.limits.surplus;
        let room = self.blocks.good(plane).saturating_sub(reserves) * self.pages_per_block;
        room.saturating_sub(self.own_pages(plane))
    }
    /// Logical pages of `plane` that the host has not written.
    pub fn unwritten_pages(&self, plane: u32) -> u32 {
        let data = self.limits.data * self.pages_per_block;
        data.saturating_sub(self.own_pages(plane))
    }
    /// Live pages of `plane` that are not more than one per logical page (one about to be counted as such
    /// is left out already). Where blocks may be claimed all logical pages count.
    fn own_pages(&self, plane: u32) -> u32 {
        if self.may_be_claimed() {
            return self.limits.data * self.pages_per_block;
        }
        self.blocks.live(plane).saturating_sub(self.blocks.surplus(plane) + self.apart(plane))
    }

    // ---- dedicated groups -------------------------------------------------------------------------

    /// Clean blocks of `plane` that a dedicated group may have: like a normal write, all but those that
    /// collection works with.
    #[inline]
    fn clean_blocks(&self, plane: u32) -> u32 {
        self.blocks.free(plane).saturating_sub(self.limits.hard)
    }
    /// The same of all planes.
    pub fn all_clean_blocks(&self) -> u32 {
        (0..self.planes).map(|plane| self.clean_blocks(plane)).sum()
    }

    /// Whether the claim that `lpn` belongs to takes `pages` more in its group.
    fn dedicated_takes(&self, lpn: u32, number: u16, pages: u32, media: &Media) -> bool {
        let clean = self.any_clean_block().is_some();
        self.dedicated.as_ref().is_some_and(|d| d.takes(lpn, number, pages, clean, media.array()))
    }

    /// The plane that a group which takes blocks when they are first written would take one of.
    fn any_clean_block(&self) -> Option<u32> {
        let dedicated = self.dedicated.as_ref().filter(|d| d.takes_on_demand())?;
        let planes = dedicated.planes_in_turn();
        planes.filter(|&plane| self.clean_blocks(plane) > 0).max_by_key(|&plane| self.clean_blocks(plane))
    }

    /// The plane of the next page of a group, which has one.
    fn dedicated_plane(&mut self, number: u16, media: &Media) -> Option<u32> {
        if self.dedicated.as_ref()?.wants_block(number, media.array())
            && let Some(plane) = self.any_clean_block()
            && let Some(block) = self.blocks.take_free(plane, false)
        {
            self.blocks.dedicate(block, number);
            self.dedicated.as_mut()?.add_owed(number, block);
        }
        let block = self.dedicated.as_mut()?.next_block(number)?;
        Some(media.geometry().plane_of(block))
    }

    /// The next page of the claim that `lpn` belongs to, if that is in group `number`.
    fn take_in_group(&mut self, lpn: u32, number: u16, media: &Media) -> Option<Ppn> {
        self.dedicated_plane(number, media)?;
        self.dedicated.as_mut()?.take(lpn, number, media.array())
    }

    /// Pages that survivors of a group find in `plane` without another block.
    pub(crate) fn survivor_room(&self, number: u16, plane: u32, media: &Media) -> u32 {
        let block = self.dedicated.as_ref().and_then(|d| d.survivor_block(number, plane, media.array()));
        block.map_or(0, |b| self.pages_per_block - media.array().pages_programmed(b))
    }

    /// The next page for survivors of a group in `plane`.
    fn take_for_survivor(&mut self, number: u16, plane: u32, media: &Media) -> Option<Ppn> {
        let dedicated = self.dedicated.as_mut()?;
        let block = match dedicated.survivor_block(number, plane, media.array()) {
            Some(block) => block,
            None => {
                let block = self.blocks.take_free(plane, false)?;
                self.blocks.dedicate(block, number);
                dedicated.open_survivors(number, block);
                block
            }
        };
        let ppn = media.array().next_strict(block)?;
        if media.array().pages_programmed(block) + 1 == self.pages_per_block {
            dedicated.close_survivors(number, block);
        }
        Some(ppn)
    }

    /// Takes clean blocks, spread over the planes, a round over all of them at a time: first those that have
    /// the fewest blocks of dedicated groups to write and, of these, most clean ones. A plane that
    /// would have to collect garbage for it counts as if it had one more.
    pub(crate) fn take_clean_blocks(&mut self, count: u32, media: &Media) -> Vec<Block> {
        let mut out = Vec::with_capacity(count as usize);
        let Some(dedicated) = &self.dedicated else { return out };
        let mut writing = vec![0_u32; self.planes as usize];
        for block in dedicated.unfinished_blocks() {
            writing[media.geometry().plane_of(block) as usize] += 1;
        }
        while out.len() < count as usize {
            let Some(dedicated) = &self.dedicated else { break };
            let turn = dedicated.turn();
            let mut order: Vec<u32> = dedicated.planes_in_turn().collect();
            let load = |plane: u32| {
                let collects = self.blocks.free(plane) <= self.limits.soft;
                (writing[plane as usize] + u32::from(collects), std::cmp::Reverse(self.clean_blocks(plane)))
            };
            order.sort_by_key(|&plane| load(plane));
            for plane in order {
                if out.len() < count as usize && self.clean_blocks(plane) > 0 {
                    out.extend(self.blocks.take_free(plane, false));
                }
            }
            if let Some(dedicated) = &mut self.dedicated {
                dedicated.set_turn(turn + out.len());
            }
        }
        out
    }

    /// Makes a dedicated group; none if all numbers are taken.
    pub(crate) fn create_group(&mut self, new: NewGroup) -> Option<u16> {
        let blocks = new.blocks.clone();
        let number = self.dedicated.as_mut()?.create(new)?;
        blocks.into_iter().for_each(|block| self.blocks.dedicate(block, number));
        Some(number)
    }

    /// Nothing writes to a group any more: clean blocks are given back, the others closed as soon as
    /// their programs are done. They are not erased before the record of it is on flash.
    pub(crate) fn close_group(&mut self, number: u16, media: &Media) {
        let Some(dedicated) = &mut self.dedicated else { return };
        for block in dedicated.strip(number, media.array()) {
            self.blocks.give_back(block, media.array().erases(block));
            self.progress = true;
        }
        let group = dedicated.group(number);
        let guessed = group.is_guessed();
        for block in group.blocks().to_vec() {
            if guessed {
                self.blocks.mingle(block);
            }
            self.blocks.await_record(block);
            if self.blocks.state(block) == State::Open && !media.programs_pending(block) {
                self.blocks.close(block, media.now());
            }
        }
    }

    /// Two blocks or more of one closed group whose live pages fit fewer: the emptiest of them, with its
    /// live pages and its group.
    pub(crate) fn merge_victim(&self, plane: u32, media: &Media) -> Option<(u32, Block, u16)> {
        let dedicated = self.dedicated.as_ref()?;
        let ppb = self.pages_per_block;
        dedicated
            .closed()
            .filter(|(_, group)| group.blocks().len() > 1)
            .filter_map(|(number, group)| {
                let own = || {
                    group.blocks().iter().copied().filter(|&b| {
                        let closed = self.blocks.state(b) == State::Closed && self.blocks.is_apart(b);
                        closed && media.geometry().plane_of(b) == plane
                    })
                };
                let emptiest = own().min_by_key(|&b| (self.blocks.valid(b), b))?;
                let valid = self.blocks.valid(emptiest);
                let dead: u32 = own().map(|b| ppb - self.blocks.valid(b)).sum();
                let survivors = GroupId::DedicatedSurvivors(number);
                let fits = valid > 0 && valid <= self.survivor_room(number, plane, media)
                    || own().count() > 1
                        && dead >= ppb
                        && valid <= self.room(plane, survivors, PageClass::SYSTEM, media);
                fits.then_some((valid, emptiest, number))
            })
            .min()
    }

    /// At power-on: `block` was written for a dedicated group; it stays open until all blocks are known.
    pub(crate) fn found_block(&mut self, number: u16, block: Block) {
        if let Some(dedicated) = &mut self.dedicated {
            self.blocks.dedicate(block, number);
            dedicated.found_block(number, block);
        }
    }

    /// At power-on: a claim goes on with `left` pages, and its group gets clean blocks.
    pub(crate) fn resume_claim(&mut self, slot: u32, left: u64, more: NewGroup, media: &Media) {
        let Some(dedicated) = &mut self.dedicated else { return };
        let number = dedicated.claims().get(slot).group;
        for &block in &more.blocks {
            self.blocks.dedicate(block, number);
        }
        dedicated.resume(slot, left, more, media.array());
    }

    /// At power-on, when all claims have been resumed: open blocks of closed groups are closed.
    pub(crate) fn close_resumed(&mut self, media: &Media) {
        let open: Vec<Block> = self
            .blocks
            .each()
            .filter(|&(block, state)| state == State::Open && self.blocks.group(block).is_some())
            .map(|(block, _)| block)
            .collect();
        for block in open {
            let full = media.array().pages_programmed(block) == self.pages_per_block;
            if self.may_close(block, full, media) {
                self.blocks.close(block, 0);
            }
        }
    }

    // ---- checks -----------------------------------------------------------------------------------

    /// Checks that every count agrees with what it counts; for tests. `apart`: open blocks that are
    /// nobody's.
    pub(crate) fn check(&self, media: &Media, apart: &[Block]) {
        self.blocks.check();
        self.frontiers.check(media.array(), &self.blocks, apart);
        let Some(dedicated) = &self.dedicated else { return };
        dedicated.claims().check();
        for (block, state) in self.blocks.each() {
            let Some(number) = self.blocks.group(block) else { continue };
            assert!(!matches!(state, State::Free | State::Bad), "a free block that is dedicated");
            let blocks = dedicated.group(number).blocks();
            assert!(blocks.contains(&block), "{block:?} is not in the books of group {number}");
            for page in 0..self.pages_per_block {
                let ppn = media.geometry().ppn(block, page);
                if self.blocks.is_live(ppn) {
                    let written_for = GroupId::from_number(media.array().oob(ppn).stream);
                    assert_eq!(written_for, GroupId::Dedicated(number), "{block:?} holds another group's");
                }
            }
        }
    }
}
