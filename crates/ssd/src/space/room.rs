//! Room: in which plane the next page of a group goes, whether there is one, and which it is.

use nandle_nand::Ppn;

use super::striping::{Dynamic, Striping};
use super::{GroupId, PageClass, Place, Space};
use crate::media::Media;

impl Space {
    /// Whether `group` can write `pages` pages of `class` in `plane` now: [`Space::room`], where the open
    /// block mostly decides.
    #[inline(always)]
    pub fn has_pages(&self, plane: u32, group: GroupId, class: PageClass, pages: u32, media: &Media) -> bool {
        self.has_pages_of::<false>(plane, group, class, pages, media)
    }
    #[inline(always)]
    pub(crate) fn has_pages_of<const PLAIN: bool>(
        &self,
        plane: u32,
        group: GroupId,
        class: PageClass,
        pages: u32,
        media: &Media,
    ) -> bool {
        let dedicated = matches!(group, GroupId::Dedicated(_) | GroupId::DedicatedSurvivors(_));
        (PLAIN || !dedicated) && self.frontiers.left::<PLAIN>(plane, group, media.array()) >= pages
            || self.host_room(plane, group, class, media) >= pages
    }

    /// Pages of `class` that `group` can write in `plane` now.
    pub fn room(&self, plane: u32, group: GroupId, class: PageClass, media: &Media) -> u32 {
        let left = match group {
            GroupId::Dedicated(_) => 0,
            GroupId::DedicatedSurvivors(number) => self.survivor_room(number, plane, media),
            _ => match self.frontiers.typed_room(plane, group, class, &self.blocks) {
                Some(room) => return room,
                None => self.frontiers.left::<false>(plane, group, media.array()),
            },
        };
        let reserve = if self.may_use_reserve(group) { 0 } else { self.limits.hard };
        left + self.blocks.free(plane).saturating_sub(reserve) * self.pages_per_block
    }

    /// Pages that `group` can write in `plane` into the block that is open for it.
    #[inline]
    pub(crate) fn left_in_open(&self, plane: u32, group: GroupId, media: &Media) -> u32 {
        self.frontiers.left::<false>(plane, group, media.array())
    }

    /// Whether `pages` writes of `lpn` by `group` find a plane.
    #[inline(always)]
    pub(crate) fn has_room_of<const PLAIN: bool>(
        &self,
        lpn: u32,
        group: GroupId,
        class: PageClass,
        pages: u32,
        media: &Media,
    ) -> bool {
        let group = match group {
            _ if PLAIN => group,
            GroupId::Dedicated(number) if self.dedicated_takes(lpn, number, pages, media) => return true,
            // A dedicated group at its end goes on in normal blocks.
            GroupId::Dedicated(_) => GroupId::Host(0),
            group => group,
        };
        match self.home(lpn) {
            Some(home) => {
                self.has_pages_of::<PLAIN>(home, group, class, pages, media)
                    || self.overflows(home) && self.some_plane_has(group, class, pages, media)
            }
            None => self.some_plane_has(group, class, pages, media),
        }
    }

    pub(super) fn some_plane_has(&self, group: GroupId, class: PageClass, pages: u32, media: &Media) -> bool {
        let room = |plane| self.host_room(plane, group, class, media);
        if let Striping::Dynamic(Dynamic::InTurn(turns)) = &self.striping {
            return turns.has_room(self.planes, pages, room, |plane| self.is_stuck(plane));
        }
        (0..self.planes).any(|plane| self.has_free_block(plane, group, pages) || room(plane) >= pages)
    }

    /// Whether `group` finds a free block for `pages` pages in `plane`: part of [`Space::room`], which mostly decides.
    #[inline]
    fn has_free_block(&self, plane: u32, group: GroupId, pages: u32) -> bool {
        !self.frontiers.chooses_types()
            && group == GroupId::Host(0)
            && self.blocks.free(plane) > self.limits.hard
            && self.pages_per_block >= pages
    }

    /// Whether writes of `plane` go elsewhere when it has no room: only where dedicated groups brought
    /// pages of other planes, and it cannot make room by itself.
    #[inline]
    pub(super) fn overflows(&self, plane: u32) -> bool {
        self.is_off_home() && self.is_stuck(plane)
    }

    /// A write waits for a page of its class: planes that lack one are collected although others are
    /// left.
    pub(crate) fn call_for(&mut self, lpn: u32, group: GroupId, class: PageClass, pages: u32, media: &Media) {
        if !self.frontiers.chooses_types() || self.has_room_of::<false>(lpn, group, class, pages, media) {
            return;
        }
        let planes = match self.home(lpn) {
            Some(plane) => plane..plane + 1,
            None => 0..self.planes,
        };
        for plane in planes {
            // In strict turns another plane may have what this one lacks.
            if self.host_room(plane, group, class, media) < pages {
                self.called[plane as usize] = true;
                self.look.push(plane);
            }
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

    /// As [`Space::choose_plane`] for a write that found room before.
    #[inline(always)]
    pub(crate) fn granted_plane<const PLAIN: bool>(
        &mut self,
        lpn: u32,
        group: GroupId,
        class: PageClass,
        media: &Media,
    ) -> Option<u32> {
        match self.home(lpn) {
            Some(plane) if PLAIN || self.stays_home => Some(plane),
            _ => self.choose_plane(lpn, group, class, media),
        }
    }

    /// As [`Space::choose_plane`], where the plane of `lpn` has no room or there is none.
    pub(super) fn choose_other_plane(
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
            Striping::Dynamic(Dynamic::InTurn(turns)) => turns.choose(self.planes, has_room),
            Striping::Dynamic(Dynamic::BlockByBlock(by_block)) => {
                let goes_on = |plane| self.frontiers.left::<false>(plane, group, media.array()) > 0;
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
    pub(super) fn gathers_in(&self, group: GroupId, media: &Media) -> Option<u32> {
        if self.gathering.is_empty() { None } else { self.filling_plane(group, media) }
    }

    pub(super) fn filling_plane(&self, group: GroupId, media: &Media) -> Option<u32> {
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
    pub(super) fn is_filling(&self, plane: u32, group: GroupId, media: &Media) -> bool {
        self.frontiers.is_filling(plane, group, media.array())
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
    pub(crate) fn take<const PLAIN: bool>(
        &mut self,
        lpn: u32,
        plane: u32,
        group: GroupId,
        class: PageClass,
        media: &Media,
    ) -> Option<Place> {
        if !PLAIN && let GroupId::Dedicated(_) | GroupId::DedicatedSurvivors(_) = group {
            // Field by field: what a call leaves in memory is read back in other pieces than it was written.
            let Place { ppn, plane, group } = self.take_dedicated(lpn, plane, group, class, media)?;
            return Some(Place { ppn, plane, group });
        }
        let ppn = self.frontiers.take::<PLAIN>(plane, group, class, media.array(), &mut self.blocks)?;
        Some(Place { ppn, plane, group })
    }

    pub(super) fn take_dedicated(
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
                self.take::<false>(lpn, plane, group, class, media)
            }
            GroupId::DedicatedSurvivors(number) => {
                let ppn = self.take_for_survivor(number, plane, media)?;
                Some(Place { ppn, plane, group })
            }
            _ => None,
        }
    }
}
