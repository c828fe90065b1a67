//! Collection: garbage collection and static wear levelling, one job a plane, a few copies at a time.
//!
//! A job picks a victim, moves its live pages, and erases it; the erase waits by itself until
//! every copy is on flash. Within a plane there is always room for a victim's survivors, because
//! host writes leave the last free blocks alone and a victim has at least one dead page.

use std::collections::VecDeque;

use nandle_nand::{Block, Done, OpId, Ppn};
use nandle_random::Stream;

mod choose;
mod config;
mod dedicated;
mod failures;
mod job;
pub mod victim;
mod work;

pub use config::{GcConfig, SurvivorsKind};
pub use work::Keeper;
pub(crate) use work::Work;

use crate::flash::Flash;
use crate::schemes::Schemes;
use failures::Failures;
use work::Job;

/// Collection of all planes.
#[derive(Clone, Debug)]
pub struct Collect {
    jobs: Vec<Job>,
    config: GcConfig,
    /// `wear.static_gap`
    wear_gap: u32,
    draw: Stream,
    failures: Failures,
    /// Planes whose next copy waits for those of others, in the order in which they began to wait.
    waiting: VecDeque<u32>,
    /// Erases under way of dedicated blocks that no job has.
    erasing: u32,
}

impl Collect {
    /// `width` = blocks of the flash in one that is collected.
    pub(crate) fn new(config: &GcConfig, width: u32, wear_gap: u32, planes: u32, seed: u64) -> Self {
        let copies_in_flight = config.copies_in_flight * width;
        Self {
            jobs: vec![Job::default(); planes as usize],
            config: GcConfig { copies_in_flight, ..config.clone() },
            wear_gap,
            draw: Stream::new(seed, "gc victim"),
            failures: Failures::default(),
            waiting: VecDeque::new(),
            erasing: 0,
        }
    }

    /// Whether [`Collect::run`] has anything to look at.
    #[inline]
    pub(crate) fn is_wanted<const PLAIN: bool>(&self, flash: &Flash, schemes: &Schemes) -> bool {
        !flash.space().looks().is_empty()
            || !PLAIN && !flash.blocks().emptied().is_empty()
            || schemes.objects_ref().is_some()
    }

    /// Looks after every plane in which something changed.
    pub(crate) fn run(&mut self, work: &mut Work<'_>) {
        if !work.flash.blocks().emptied().is_empty() {
            self.erase_emptied(work);
        }
        loop {
            while let Some(plane) = work.flash.space_mut().next_look() {
                self.collect_plane(plane, work);
            }
            if let Some(plane) = self.next_waiting(work.flash) {
                self.collect_plane(plane, work);
            } else if !self.merge_for_object(work) {
                return;
            }
        }
    }

    /// Whether the drive has as many copies under way as it may.
    #[inline]
    fn is_at_total(&self, flash: &Flash) -> bool {
        let total = self.config.copies_in_flight_total;
        total > 0 && flash.copies_of_all() >= total
    }

    /// The plane that waited longest for copies of others, if one may go on.
    fn next_waiting(&mut self, flash: &Flash) -> Option<u32> {
        if self.waiting.is_empty() || self.is_at_total(flash) { None } else { self.waiting.pop_front() }
    }

    /// An operation of collection's is done, or one that it has to know of.
    pub(crate) fn copy_done(&mut self, op: OpId, ppn: Ppn, flash: &mut Flash) {
        let plane = self.failures.job_of(op, flash.media().plane_of(ppn));
        flash.copy_done(plane);
        flash.space_mut().look_at(plane);
    }

    /// A program came to its end.
    #[inline(always)]
    pub(crate) fn program_done<const PLAIN: bool>(&mut self, ppn: Ppn, flash: &mut Flash) {
        let block = flash.geometry().block_of(ppn);
        if flash.array().is_doomed_of::<PLAIN>(block) {
            self.failures.close(block, flash);
        } else {
            flash.program_done::<PLAIN>(ppn);
        }
    }

    /// A program failed: it is ordered again elsewhere. False if there is no page left in the whole
    /// drive; then what it held is lost.
    #[cold]
    pub(crate) fn program_failed(&mut self, done: &Done, work: &mut Work<'_>) -> bool {
        let repeated = self.failures.program_failed(done, work);
        if repeated {
            self.program_done::<false>(done.ppn, work.flash);
        }
        repeated
    }

    /// Programs may fail: a block of each plane stands by for those that do.
    pub(crate) fn expect_failures(&mut self, flash: &mut Flash) {
        self.failures.expect();
        (0..flash.geometry().planes()).for_each(|plane| self.failures.stand_by(plane, flash));
    }

    /// Whether failures have taken anything from the drive since power-on.
    pub(crate) fn has_failed(flash: &Flash) -> bool {
        flash.stats().program_failures + flash.stats().erase_failures > 0 || flash.is_read_only()
    }

    /// At power-on: a closed block in which a program failed is to be emptied.
    pub(crate) fn note_doomed(&mut self, block: Block, flash: &mut Flash) {
        self.failures.note(block, flash);
    }

    /// Open blocks that nothing is written to but repeated programs.
    pub(crate) fn blocks_apart(&self) -> Vec<Block> {
        self.failures.blocks_apart()
    }
}
