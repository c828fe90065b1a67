//! Where collection is to look, why, and how fast it goes on there.

use super::{Limits, Need, PacingKind, Space};

impl Space {
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
        self.need_of::<false>(plane)
    }
    #[inline(always)]
    pub(crate) fn need_of<const PLAIN: bool>(&self, plane: u32) -> Option<Need> {
        let room = self.pacing.wants(self.spare(plane), self.limits.soft, self.limits.kept);
        // Nobody waits for a page of a type where types are not chosen.
        if PLAIN || room == Some(Need::Room) {
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
}
