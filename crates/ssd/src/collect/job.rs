//! A job: one victim of a plane, emptied a few copies at a time and erased.

use nandle_nand::{Block, Done, Ppn};
use smallvec::SmallVec;

use super::Collect;
use super::work::{Job, Work};
use crate::flash::Flash;
use crate::space::{GroupId, Need, PageClass};

/// Why a victim is emptied, where that is not to make room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Purpose {
    /// To make room.
    Room,
    /// So that another group gets a clean block; its survivors stay in this group.
    KeepGroup(u16),
    /// Because its data is cold and other blocks are worn.
    Wear,
    /// It is of the SLC cache, which folds it.
    Fold,
}

impl Collect {
    /// Whether a job is under way in `plane`.
    #[inline]
    pub(super) fn is_active(&self, plane: u32) -> bool {
        self.jobs[plane as usize].victim.is_some()
    }

    pub(super) fn collect_plane(&mut self, plane: u32, work: &mut Work<'_>) {
        let slot = plane as usize;
        if self.failures.are_expected() {
            self.failures.stand_by(plane, work.flash);
        }
        if work.flash.gathers() {
            work.flash.forget_copy_read();
            self.erase_set_aside(plane, false, work);
        }
        if self.jobs[slot].victim.is_none() {
            if !self.jobs[slot].leaving.is_empty() {
                return;
            }
            self.take_up(plane, work);
            if self.jobs[slot].victim.is_none() && !self.jobs[slot].emptied.is_empty() {
                self.erase_set_aside(plane, true, work);
            }
        }
        let Job { victim: Some(block), erasing: false, wear, .. } = self.jobs[slot] else { return };
        self.credit(plane, work);
        while work.flash.copies(plane) < self.config.copies_in_flight {
            let Some(page) = work.flash.blocks().next_live(block, self.jobs[slot].cursor) else {
                if work.flash.gathers() {
                    return self.set_aside(plane, block, work);
                }
                // Copies may still be under way: the erase waits for them.
                self.jobs[slot].erasing = Self::erase(block, work);
                return;
            };
            if self.is_at_total(work.flash) {
                if !self.waiting.contains(&plane) {
                    self.waiting.push_back(plane);
                }
                return;
            }
            if !self.may_copy(plane) {
                return;
            }
            let Some(group) = self.group_of_copies(plane, work.flash) else {
                if wear && self.leave_cold_data(plane, block, work.flash) {
                    return self.collect_plane(plane, work);
                }
                return self.erase_for_room(plane, work);
            };
            self.copy_page(block, page, plane, group, wear, work);
            self.jobs[slot].cursor = page;
        }
    }

    /// Host writes since it was last looked at pay for copies of the job of `plane`; nothing holds back a job that is
    /// urgent.
    #[inline]
    fn credit(&mut self, plane: u32, work: &Work<'_>) {
        let job = &mut self.jobs[plane as usize];
        let Some(seen) = job.paced else { return };
        let flash = &*work.flash;
        let called = work.schemes.objects_ref().is_some_and(|objects| objects.demand() > 0);
        let Some((copies, of)) = flash.space().pace(plane, job.valid).filter(|_| !called) else {
            job.paid = u64::MAX;
            return;
        };
        let host = flash.programs().1;
        let planes = u64::from(flash.geometry().planes());
        if job.paid == u64::MAX {
            job.paid = 0;
        }
        // In 1024ths, so that slow planes are paid for as well.
        job.paid += (host - seen) * 1024 * copies / (of * planes);
        job.paced = Some(host);
    }

    /// Whether the next copy of the job of `plane` is paid for.
    #[inline]
    fn may_copy(&mut self, plane: u32) -> bool {
        let job = &mut self.jobs[plane as usize];
        if job.paced.is_none() || job.paid == u64::MAX {
            return true;
        }
        let paid = job.paid >= 1024;
        job.paid -= if paid { 1024 } else { 0 };
        paid
    }

    /// A victim is empty. Its last copies may share a page with those of the next one: sealing the page for
    /// its erase would waste what is left of it.
    #[inline(never)]
    fn set_aside(&mut self, plane: u32, block: Block, work: &mut Work<'_>) {
        let job = &mut self.jobs[plane as usize];
        job.victim = None;
        job.emptied.push(block);
        self.collect_plane(plane, work);
    }

    /// The survivors of the present victim wait for room, which former ones hold.
    fn erase_for_room(&mut self, plane: u32, work: &mut Work<'_>) {
        for block in std::mem::take(&mut self.jobs[plane as usize].emptied) {
            let job = &mut self.jobs[plane as usize];
            if Self::erase(block, work) { job.leaving.push(block) } else { job.emptied.push(block) }
        }
    }

    /// Cold data that finds no room stays where it is, if nothing is under way that could bring some: what there was when
    /// its move began may have gone to pages programmed before they were full, or to the drive's own. Whether it was left:
    /// then the plane can take a victim that brings room.
    #[cold]
    fn leave_cold_data(&mut self, plane: u32, block: Block, flash: &mut Flash) -> bool {
        let job = &mut self.jobs[plane as usize];
        if flash.media().in_flight() > 0 || !job.emptied.is_empty() {
            return false;
        }
        (job.victim, job.wear) = (None, false);
        let now = flash.media().now();
        flash.space_mut().blocks_mut().leave_victim(block, now);
        true
    }

    /// Orders the erase of former victims whose copies are all on their way, and of the others if there is no
    /// next victim while room is wanted; `last`: there is none, so that the SLC cache wants its own.
    fn erase_set_aside(&mut self, plane: u32, last: bool, work: &mut Work<'_>) {
        let job = &self.jobs[plane as usize];
        let alone = job.victim.is_none() && job.leaving.is_empty() && work.flash.space().is_stuck(plane);
        let called = work.schemes.objects_ref().is_some_and(|objects| objects.demand() > 0);
        let cached = last && job.emptied.iter().any(|&block| work.flash.blocks().is_cached(block));
        let now = alone || called || cached || job.emptied.len() > 1;
        let mut left: SmallVec<[Block; 2]> = SmallVec::new();
        for block in std::mem::take(&mut self.jobs[plane as usize].emptied) {
            if (now || !work.flash.is_held(block)) && Self::erase(block, work) {
                self.jobs[plane as usize].leaving.push(block);
            } else {
                left.push(block);
            }
        }
        self.jobs[plane as usize].emptied = left;
    }

    /// Moves a page of a victim.
    #[inline]
    fn copy_page(
        &mut self,
        block: Block,
        page: u32,
        plane: u32,
        group: GroupId,
        wear: bool,
        work: &mut Work<'_>,
    ) {
        let Work { flash, schemes, keeper } = work;
        let ppn = flash.geometry().ppn(block, page);
        let from = GroupId::from_number(flash.array().stream(ppn));
        let cached = flash.blocks().is_cached(block);
        flash.copies_for(from);
        let count = flash.stats_mut();
        count.gc_moved_pages += 1;
        count.wear_moved_pages += u64::from(wear);
        count.slc.folded_pages += u64::from(cached);
        let copies = if flash.array().page_use(ppn).is_data() {
            schemes.relocate(flash, ppn, plane, group)
        } else {
            keeper.moved(flash.move_system(ppn, plane, group));
            1
        };
        for _ in 0..copies {
            flash.count_stream(from, false);
        }
        prefetch_ahead(flash, ppn, page);
    }

    /// Finds `plane` a victim, if it needs one and there is one.
    #[inline(never)]
    fn take_up(&mut self, plane: u32, work: &mut Work<'_>) {
        if let Some(block) = self.failures.next_victim(plane, work.flash) {
            return self.begin(plane, block, Purpose::Room, work.flash);
        }
        let need = work.flash.space().need(plane);
        let mut victim = need.and_then(|need| self.choose(plane, need, work));
        while need == Some(Need::Room)
            && victim.is_none()
            && work.flash.space().host_waits()
            && work.flash.media().in_flight() == 0
            && work.flash.space().is_urgent(plane)
            && work.schemes.objects().is_some_and(|objects| objects.end_oldest(work.flash))
        {
            victim = self.choose(plane, Need::Room, work);
        }
        if need == Some(Need::Room)
            && victim.is_none()
            && let Some(block) = self.failures.emptiest(plane, work.flash)
            && self.survivors_fit(work.flash, plane, block)
        {
            self.failures.take(block);
            return self.begin(plane, block, Purpose::Room, work.flash);
        }
        let space = work.flash.space_mut();
        let stuck = need.is_some_and(|need| need != Need::CheapRoom) && victim.is_none();
        if stuck && !space.is_stuck(plane) && space.is_off_home() {
            // What waits for this plane may go elsewhere.
            space.note_progress();
        }
        space.set_stuck(plane, stuck);
        if need.is_none()
            && let Some(block) = work.flash.space().fold_victim(plane, work.flash.media())
        {
            return self.start(plane, block, Purpose::Fold, work.flash);
        }
        let (Some(need), Some(block)) = (need, victim) else { return };
        let counts = &mut work.flash.stats_mut().collection;
        counts.emergency_gcs += u64::from(need == Need::PageType);
        counts.proactive_gcs += u64::from(need == Need::PageTypeSoon);
        self.start(plane, block, Purpose::Room, work.flash);
    }

    /// Takes a closed block as the victim of its plane.
    pub(super) fn start(&mut self, plane: u32, block: Block, purpose: Purpose, flash: &mut Flash) {
        let valid = flash.blocks().valid(block);
        let bucket = (valid * 20 / flash.geometry().pages_per_block) as usize;
        let apart = flash.blocks().is_apart(block);
        let cached = flash.blocks().is_cached(block);
        let stats = flash.stats_mut();
        stats.gc_invocations += 1;
        stats.victim_valid[bucket] += 1;
        stats.slc.folds += u64::from(cached);
        if apart {
            let dedicated = u64::from(!cached);
            stats.victim_valid_dedicated[bucket] += dedicated;
            stats.dedicated_demoted += dedicated * u64::from(!matches!(purpose, Purpose::KeepGroup(_)));
        }
        let blocks = flash.space_mut().blocks_mut();
        if blocks.group(block).is_some() {
            blocks.forget_emptied(block);
        }
        blocks.take_victim(block);
        self.begin(plane, block, purpose, flash);
    }

    /// A victim becomes the job of its plane.
    fn begin(&mut self, plane: u32, block: Block, purpose: Purpose, flash: &mut Flash) {
        let first = flash.array().nth_strict(block, 0).unwrap_or(flash.geometry().ppn(block, 0));
        let from = GroupId::from_number(flash.array().stream(first));
        let group = match purpose {
            Purpose::Wear => GroupId::Cold,
            Purpose::KeepGroup(number) => GroupId::DedicatedSurvivors(number),
            Purpose::Room | Purpose::Fold => flash.space().survivors_of(from),
        };
        let job = &mut self.jobs[plane as usize];
        (job.victim, job.cursor, job.erasing) = (Some(block), 0, false);
        (job.wear, job.group) = (purpose == Purpose::Wear, Some(group));
        let paced = purpose == Purpose::Room && flash.space().is_paced();
        (job.paced, job.paid) = (paced.then(|| flash.programs().1), 0);
        job.valid = flash.blocks().valid(block);
        flash.space_mut().set_stuck(plane, false);
        (0..AHEAD).for_each(|page| prefetch_ahead(flash, flash.geometry().ppn(block, page), page));
    }

    /// Where copies go. After a power cut in the middle of a collection, torn pages may have used up
    /// what was kept for it: then any open block of the plane serves.
    fn group_of_copies(&mut self, plane: u32, flash: &mut Flash) -> Option<GroupId> {
        let own = self.jobs[plane as usize].group.unwrap_or(GroupId::Survivors);
        let (space, media) = (flash.space(), flash.media());
        if !space.chooses_types() && space.has_pages(plane, own, PageClass::SYSTEM, 1, media) {
            return Some(own);
        }
        let groups = [own, GroupId::Survivors, GroupId::Host(0), GroupId::System];
        // Survivors keep the class that they were written with, whichever that is.
        let classes = [PageClass::SYSTEM, PageClass { full: false, alone: true }];
        let classes = &classes[..1 + usize::from(space.chooses_types())];
        let fits = |&group: &GroupId| classes.iter().all(|&class| flash.room(plane, group, class) > 0);
        let group = groups.into_iter().find(fits)?;
        flash.space_mut().survivor_went(own, group);
        Some(group)
    }

    /// Orders the erase of a victim without live data. Records that it waits for go to flash first; false if
    /// there is no room for them yet.
    pub(super) fn erase(block: Block, work: &mut Work<'_>) -> bool {
        let Work { flash, schemes, keeper } = work;
        let plane = flash.geometry().plane_of(block);
        if flash.blocks().awaits_record(block) {
            if !flash.records().is_empty() {
                keeper.write_records(flash, schemes, Some(plane));
                if !flash.records().is_empty() {
                    return false;
                }
            }
            keeper.hold(flash, block);
        }
        flash.seal_holders(block);
        let background = !flash.space().is_urgent(plane);
        let cached = flash.blocks().is_cached(block);
        flash.stats_mut().slc.erases += u64::from(cached);
        flash.space_mut().blocks_mut().set_erasing(block);
        flash.media_mut().erase(block, background);
        true
    }

    /// An erase has come to its end: the block is free, or bad.
    pub(crate) fn erase_done(&mut self, done: &Done, flash: &mut Flash) {
        let block = flash.geometry().block_of(done.ppn);
        let plane = flash.geometry().plane_of(block);
        let erases = flash.array().erases(block);
        let job = &mut self.jobs[plane as usize];
        let set_aside = job.leaving.contains(&block);
        job.leaving.retain(|other| *other != block);
        let ours = set_aside || job.victim == Some(block);
        if flash.blocks().group(block).is_some() {
            self.erasing -= u32::from(!ours);
        }
        let (space, media) = flash.space_and_media();
        space.erased(block, done.failed, media);
        if done.failed {
            flash.stats_mut().erase_failures += 1;
            let worn_out = !flash.space().fits();
            flash.set_read_only(flash.is_read_only() || worn_out);
        }
        let job = &mut self.jobs[plane as usize];
        job.most_erases = job.most_erases.max(erases);
        let space = flash.space_mut();
        if ours {
            if !set_aside {
                (job.victim, job.erasing) = (None, false);
            }
            space.answer_call(plane);
        }
        space.note_progress();
        space.look_at(plane);
        if ours && job.victim.is_none() && self.wear_gap > 0 && space.spare(plane) > space.limits().hard {
            self.level(plane, flash);
        }
    }

    /// Whether the cold data on its way in some plane takes all that host writes leave there: the erase of the
    /// block that it leaves may not have to wait for a record, which would find no room.
    pub(crate) fn fills_a_plane(&self, flash: &Flash) -> bool {
        (0..).zip(&self.jobs).any(|(plane, job)| {
            let cold = job.victim.filter(|_| job.wear && !job.erasing);
            cold.is_some_and(|block| fills(plane, flash.blocks().valid(block), flash))
        })
    }

    /// Static wear levelling: one closed block is looked at after each erase. It is left alone if moving it
    /// would leave no room for the record that its erase waits for.
    fn level(&mut self, plane: u32, flash: &mut Flash) {
        let closed = flash.blocks().closed(plane);
        if closed.is_empty() {
            return;
        }
        let job = &mut self.jobs[plane as usize];
        let block = closed[job.wear_cursor % closed.len()];
        let behind = job.most_erases.saturating_sub(flash.array().erases(block));
        job.wear_cursor += 1;
        let waits = flash.blocks().awaits_record(block) && fills(plane, flash.blocks().valid(block), flash);
        if behind > self.wear_gap && !waits {
            self.start(plane, block, Purpose::Wear, flash);
        }
    }
}

/// Whether so many pages of cold data take all that host writes leave in `plane`.
fn fills(plane: u32, pages: u32, flash: &Flash) -> bool {
    let room = |group| flash.room(plane, group, PageClass::SYSTEM);
    let per_block = flash.geometry().pages_per_block;
    // Either group may have the free blocks.
    let free = flash.blocks().free(plane) * per_block;
    let (cold, survivors) = (room(GroupId::Cold) - free, room(GroupId::Survivors) - free);
    let reserve = flash.space().limits().hard * per_block;
    // Where page types are chosen, survivors and host share open blocks.
    let kept = if flash.space().chooses_types() {
        reserve.min(survivors + free)
    } else {
        survivors + reserve.min(free)
    };
    pages >= cold + kept
}

/// So many pages before it is copied, what is known of a page is brought into the processor's cache: a few turns of a
/// plane among all others, and few enough to be still there.
const AHEAD: u32 = 16;

/// The page at `ppn`, of this number in its block, is on its way: brings what later copies need into the processor's
/// cache. That of all pages of a victim at once would be gone again when its last ones are copied.
#[inline]
fn prefetch_ahead(flash: &Flash, ppn: Ppn, page: u32) {
    /// Out-of-band words of a cache line.
    const LINE: u32 = 8;
    let (array, fragments) = (flash.array(), flash.fragments());
    let later = |by: u32| (page + by < flash.geometry().pages_per_block).then_some(Ppn(ppn.0 + by));
    let Some(next) = later(AHEAD) else { return };
    if let Some(lpn) = array.lpn_at_home(next) {
        fragments.prefetch(lpn);
    }
    let Some(after) = later(2 * AHEAD) else { return };
    array.prefetch_oob(after);
    if fragments.have_leaves()
        && let Some(lpn) = later(2 * AHEAD - LINE).and_then(|ppn| array.lpn_at_home(ppn))
    {
        fragments.prefetch_leaf(lpn);
    }
}
