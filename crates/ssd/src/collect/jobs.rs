//! Garbage collection and static wear levelling: one job per plane, a few copies at a time.
//!
//! A job picks a victim, moves its live pages, and erases it; the erase waits by itself until
//! every copy is on flash. Within a plane there is always room for a victim's survivors, because
//! host writes leave the last free blocks alone and a victim has at least one dead page.

use nandle_nand::{Block, Done, Extents};

use crate::allocation::{PageClass, Role};
use crate::flash::Flash;
use crate::mapping::Mapping;
use crate::striping::Striping;
use crate::victim;

/// Why a plane is collected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Need {
    /// Pages run out.
    Room,
    /// A host write waits for a page of its type; there are others.
    PageType,
    /// One will, soon.
    PageTypeSoon,
}

/// What collection is doing in one plane.
#[derive(Clone, Debug, Default)]
pub(crate) struct Job {
    victim: Option<Block>,
    /// Pages before this one need no more looking at.
    cursor: u32,
    /// Copies under way.
    copies: u32,
    erasing: bool,
    /// Moves cold data instead of collecting garbage.
    wear: bool,
    /// Where the copies go if there is room.
    role: Option<Role>,
    /// No victim would gain anything when one was last wanted.
    stuck: bool,
    /// Next closed block that static wear levelling looks at.
    wear_cursor: usize,
    most_erases: u32,
    /// A host write waits for a page of its type, which others being left cannot give.
    pub(crate) called: bool,
}

impl Flash {
    /// Whether [`Flash::collect`] has anything to look at.
    #[inline]
    pub(crate) fn wants_collection(&self) -> bool {
        !self.gc_look.is_empty() || !self.blocks.emptied().is_empty() || self.streams.flashalloc().is_some()
    }

    /// Looks after every plane in which something changed.
    pub(crate) fn collect(&mut self, mapping: &mut Mapping) {
        if !self.blocks.emptied().is_empty() {
            self.erase_emptied();
        }
        loop {
            while let Some(plane) = self.gc_look.pop() {
                self.collect_plane(plane, mapping);
            }
            if !self.merge_for_object() {
                return;
            }
        }
    }

    /// A write found no room. With dynamic striping, and with objects about, pages die in planes that
    /// nothing was written to, so a plane that had nothing to collect when it was last looked at may
    /// have now.
    pub(crate) fn look_everywhere(&mut self) {
        let objects = self.streams.flashalloc().is_some_and(|f| f.spread);
        if objects || matches!(self.striping, Striping::Dynamic(_)) {
            self.gc_look.extend(0..self.geometry().planes());
        }
    }

    fn collect_plane(&mut self, plane: u32, mapping: &mut Mapping) {
        let slot = plane as usize;
        if self.jobs[slot].victim.is_none() {
            self.take_up_job(plane);
        }
        let Job { victim: Some(block), erasing: false, wear, .. } = self.jobs[slot] else { return };
        while self.jobs[slot].copies < self.config.gc.copies_in_flight {
            let Some(page) = self.blocks.next_live(block, self.jobs[slot].cursor) else {
                // Copies may still be under way: the erase waits for them.
                self.jobs[slot].erasing = self.erase(block);
                return;
            };
            let ppn = self.geometry().ppn(block, page);
            let Some(role) = self.copy_role(plane) else { return };
            let from = Role::from_number(self.array().stream(ppn));
            self.stats.gc_moved_pages += 1;
            self.stats.wear_moved_pages += u64::from(wear);
            let copies = mapping.relocate(self, ppn, plane, role);
            for _ in 0..copies {
                self.count_stream(from, 0);
            }
            self.prefetch_next(block, page);
            let job = &mut self.jobs[slot];
            job.cursor = page;
            job.copies += copies;
        }
    }

    /// Finds `plane` a victim, if it needs one and there is one.
    #[inline(never)]
    fn take_up_job(&mut self, plane: u32) {
        if let Some(block) = self.doomed_victim(plane) {
            return self.begin(plane, block, false, None);
        }
        let need = self.need(plane);
        let mut victim = need.and_then(|need| self.choose_victim(plane, need));
        while need == Some(Need::Room)
            && victim.is_none()
            && self.host_waits
            && self.nand.in_flight() == 0
            && self.urgent(plane)
            && self.end_oldest_object()
        {
            victim = self.choose_victim(plane, Need::Room);
        }
        let stuck = need.is_some() && victim.is_none();
        // What waits for this plane may go elsewhere.
        let elsewhere = self.streams.flashalloc().is_some_and(|f| f.spread);
        let job = &mut self.jobs[plane as usize];
        self.progress |= stuck && !job.stuck && elsewhere;
        job.stuck = stuck;
        let (Some(need), Some(block)) = (need, victim) else { return };
        self.stats.allocation.emergency_gcs += u64::from(need == Need::PageType);
        self.stats.allocation.proactive_gcs += u64::from(need == Need::PageTypeSoon);
        self.start(plane, block, false, None);
    }

    /// Page `page` of `block` is on its way: brings what the next copy needs into the processor's cache.
    #[inline]
    fn prefetch_next(&self, block: Block, page: u32) {
        /// Out-of-band words of a cache line.
        const LINE: u32 = 8;
        let array = self.nand.array();
        if page + LINE < self.geometry().pages_per_block {
            array.prefetch(self.geometry().ppn(block, page + LINE));
        }
        if let Some(next) = self.blocks.next_live(block, page + 1)
            && let Extents::Home { lpn, .. } = array.oob(self.geometry().ppn(block, next)).extents
        {
            self.fragments.prefetch(lpn);
        }
    }

    /// Why `plane` should be collected, if it should.
    #[inline(always)]
    pub(crate) fn need(&self, plane: u32) -> Option<Need> {
        let soft = self.layout.soft_blocks;
        if self.config.scheme.pacing.wants(self.spare(plane), soft) {
            Some(Need::Room)
        } else if self.jobs[plane as usize].called {
            Some(Need::PageType)
        } else {
            let soon = self.config.gc.types_ahead && self.allocation.runs_short(plane, soft, &self.blocks);
            soon.then_some(Need::PageTypeSoon)
        }
    }

    /// Where copies go. After a power cut in the middle of a collection, torn pages may have used up
    /// what was kept for it: then any open block of the plane serves.
    fn copy_role(&mut self, plane: u32) -> Option<Role> {
        let own = self.jobs[plane as usize].role.unwrap_or(Role::Gc);
        if !self.allocation.chooses_types() && self.has_pages(plane, own, PageClass::SYSTEM, 1) {
            return Some(own);
        }
        self.other_copy_role(plane, own)
    }

    fn other_copy_role(&mut self, plane: u32, own: Role) -> Option<Role> {
        let roles = [own, Role::Gc, Role::Host(0), Role::System];
        // Survivors keep the class that they were written with, whichever that is.
        let classes = [PageClass::SYSTEM, PageClass { full: false, alone: true }];
        let classes = &classes[..1 + usize::from(self.allocation.chooses_types())];
        let fits = |&role: &Role| classes.iter().all(|&class| self.room(plane, role, class) > 0);
        let role = roles.into_iter().find(fits)?;
        self.streams.survivor_went(own, role);
        Some(role)
    }

    /// Whether a collection job is under way in `plane`.
    #[inline]
    pub(crate) fn job_is_active(&self, plane: u32) -> bool {
        self.jobs[plane as usize].victim.is_some()
    }
    /// Whether collection of `plane` would gain nothing.
    #[inline]
    pub(crate) fn is_stuck(&self, plane: u32) -> bool {
        self.jobs[plane as usize].stuck
    }
    /// Whether collection has something to gain in a plane that wants it.
    pub(crate) fn may_gain_room(&self) -> bool {
        (0..self.geometry().planes()).any(|plane| self.need(plane).is_some() && !self.is_stuck(plane))
    }
    /// Begins to empty `block` so that an object gets a clean one; `home` = the object that it holds.
    pub(crate) fn begin_merge(&mut self, plane: u32, block: Block, home: Option<u16>) {
        self.start(plane, block, false, home);
        self.gc_look.push(plane);
    }

    /// The policy's victim; the emptiest block instead if that one's survivors find no room. For a page
    /// type, or if no full block will do, half-written blocks are candidates too: of all the one
    /// with the most dead pages.
    fn choose_victim(&mut self, plane: u32, need: Need) -> Option<Block> {
        let full = self.choose_full_victim(plane, need);
        if full.is_some() && need == Need::Room {
            return full;
        }
        let convert = need == Need::PageType;
        let unfinished = self.allocation.unfinished_victim(plane, convert, &self.nand, &self.blocks);
        let dead = |block| self.geometry().pages_per_block - self.blocks.valid(block);
        match (full, unfinished) {
            (full, Some((found, block))) if full.is_none_or(|full| found > dead(full)) => {
                self.allocation.give_up(plane, block, self.nand.array(), &mut self.blocks);
                self.blocks.close(block, self.nand.now());
                self.stats.allocation.unfinished_victims += 1;
                Some(block)
            }
            (full, _) => full,
        }
    }

    fn choose_full_victim(&mut self, plane: u32, need: Need) -> Option<Block> {
        let (now, class) = (self.nand.now(), PageClass::SYSTEM);
        let candidates = self.blocks.candidates(plane);
        if need == Need::Room {
            let advised = self.advised_victim(plane, &candidates);
            let Some(block) =
                advised.or_else(|| victim::pick(&self.config.gc, &candidates, now, &mut self.draw))
            else {
                return self.dedicated_victim(plane).filter(|&block| self.survivors_fit(plane, block));
            };
            if self.blocks.valid(block) <= self.room(plane, Role::Gc, class) {
                return Some(self.emptier_ended(plane, block).unwrap_or(block));
            }
        }
        let block = victim::greedy::pick(&candidates)?;
        if self.survivors_fit(plane, block) {
            return Some(block);
        }
        self.dedicated_victim(plane).filter(|&block| self.survivors_fit(plane, block))
    }

    fn survivors_fit(&self, plane: u32, block: Block) -> bool {
        let class = PageClass::SYSTEM;
        let open = self.allocation.left(plane, Role::Host(0), self.array())
            + self.allocation.left(plane, Role::System, self.array());
        self.blocks.valid(block) <= self.room(plane, Role::Gc, class) + open
    }

    fn start(&mut self, plane: u32, block: Block, wear: bool, home: Option<u16>) {
        let valid = self.blocks.valid(block);
        let bucket = (valid * 20 / self.geometry().pages_per_block) as usize;
        self.stats.gc_invocations += 1;
        self.stats.victim_valid[bucket] += 1;
        if self.blocks.is_apart(block) {
            self.stats.victim_valid_dedicated[bucket] += 1;
            self.stats.dedicated_demoted += u64::from(home.is_none());
        }
        if self.blocks.object(block).is_some() {
            self.blocks.forget_emptied(block);
        }
        self.blocks.condemn(block);
        self.begin(plane, block, wear, home);
    }

    /// A condemned block becomes the job of its plane.
    fn begin(&mut self, plane: u32, block: Block, wear: bool, home: Option<u16>) {
        let first = self.geometry().ppn(block, self.array().cell().strict_page(0));
        let from = Role::from_number(self.array().oob(first).stream);
        let role = match home {
            _ if wear => Role::Wear,
            Some(home) => Role::Survivor(home),
            None => self.streams.survivors(from),
        };
        let job = &mut self.jobs[plane as usize];
        (job.victim, job.cursor, job.wear, job.erasing) = (Some(block), 0, wear, false);
        (job.role, job.stuck) = (Some(role), false);
    }

    /// A copy is on flash.
    pub(crate) fn copy_done(&mut self, plane: u32) {
        self.jobs[plane as usize].copies -= 1;
        self.gc_look.push(plane);
    }

    /// An erase has come to its end: the block is free, or bad.
    pub(crate) fn erase_done(&mut self, done: &Done) {
        let block = self.geometry().block_of(done.ppn);
        let plane = self.geometry().plane_of(block);
        let erases = self.array().erases(block);
        let ours = self.jobs[plane as usize].victim == Some(block);
        if let Some(home) = self.blocks.object(block) {
            self.object_erased(home, block, ours);
        }
        if done.failed {
            self.stats.erase_failures += 1;
            self.blocks.retire(block);
            self.read_only |= !self.fits();
        } else {
            self.blocks.put_free(block, erases);
        }
        let job = &mut self.jobs[plane as usize];
        if ours {
            job.victim = None;
            job.erasing = false;
            job.called = false;
        }
        job.most_erases = job.most_erases.max(erases);
        self.progress = true;
        self.gc_look.push(plane);
        if ours && self.config.wear.static_gap > 0 && self.spare(plane) > self.layout.hard_blocks {
            self.level(plane);
        }
    }

    /// Static wear levelling: one closed block is looked at after each erase.
    fn level(&mut self, plane: u32) {
        let closed = self.blocks.closed(plane);
        if closed.is_empty() {
            return;
        }
        let job = &self.jobs[plane as usize];
        let block = closed[job.wear_cursor % closed.len()];
        let behind = job.most_erases.saturating_sub(self.array().erases(block));
        self.jobs[plane as usize].wear_cursor += 1;
        if behind > self.config.wear.static_gap {
            self.start(plane, block, true, None);
        }
    }

    /// Whether all logical pages and the reserve still fit the good blocks.
    pub(crate) fn fits(&self) -> bool {
        let least = self.layout.least_blocks;
        (0..self.geometry().planes()).all(|plane| self.blocks.good(plane) >= least)
    }
}
