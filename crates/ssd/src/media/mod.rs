//! The lowest layer: the flash array with its clock, what is under way, and who waits for it.

use nandle_nand::{
    Array, Cause, Change, Counters, Done, FaultConfig, Nand, NandConfig, Oob, OpId, PageUse, Ppn, Shape,
    Silicon, Time, Timing,
};

mod barriers;
mod config;
mod gathering;
mod open_pages;
mod ordering;
mod waiters;

pub use config::CellConfig;
pub use open_pages::OpenPage;
pub(crate) use waiters::Left;
pub use waiters::Waiter;

use crate::controller::Controller;
use barriers::Barriers;
use waiters::Waiters;

/// A page as it is handed to the flash.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// What its out-of-band area says.
    pub oob: Oob<'a>,
    /// How many sectors it holds.
    pub sectors: u32,
    /// For the accounts.
    pub cause: Cause,
    /// Nothing of the host's waits for it.
    pub background: bool,
    /// A FLUSH waits for it: it makes host data durable.
    pub durable: bool,
    /// Who waits for it.
    pub waiter: Waiter,
}

/// What a step did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stepped {
    /// The flash did something.
    Flash,
    /// The controller ordered an operation.
    Order,
    /// The controller has handled the host's command in this slot.
    Command(u32),
}

/// Flash, clock, and who waits for what.
#[derive(Clone, Debug)]
pub struct Media {
    nand: Nand,
    waiters: Waiters,
    barriers: Barriers,
    sectors_per_page: u32,
    /// The logarithm of the sectors of a page, if that is whole.
    sector_bits: Option<u32>,
    full: u64,
    /// Live sectors programmed, by cause.
    sectors_by_cause: [u64; Cause::COUNT],
    slots: u32,
    /// Sectors of a page of one plane: fewer than those of a page where planes work together.
    sectors_of_plane: u32,
    /// Pages that are being filled.
    open: Vec<OpenPage>,
    /// Who orders the operations, if that takes time.
    controller: Option<Box<Controller>>,
}

impl Media {
    pub(crate) fn new(mut nand: Nand, faults: &FaultConfig, seed: u64) -> Self {
        nand.inject(faults, seed);
        let spp = nand.geometry().sectors_per_page();
        Self {
            waiters: Waiters::default(),
            barriers: Barriers::default(),
            sectors_per_page: spp,
            sector_bits: spp.is_power_of_two().then(|| spp.trailing_zeros()),
            full: nand.geometry().full_mask(),
            slots: nand.array().slots(),
            sectors_of_plane: spp / nand.gang(),
            open: Vec::new(),
            controller: None,
            sectors_by_cause: [0; Cause::COUNT],
            nand,
        }
    }

    // ---- shape and state ------------------------------------------------------------------------

    /// Whether neither the array nor what happens in it is special.
    pub(crate) fn is_plain(&self) -> bool {
        self.nand.is_plain()
    }
    /// The physical truth.
    #[inline]
    pub fn array(&self) -> &Array {
        self.nand.array()
    }
    #[inline]
    pub(crate) fn array_mut(&mut self) -> &mut Array {
        self.nand.array_mut()
    }
    /// The shape.
    #[inline]
    pub fn geometry(&self) -> &Shape {
        self.nand.geometry()
    }
    pub(crate) fn timing(&self) -> &Timing {
        self.nand.timing()
    }
    /// Sectors of a page.
    #[inline]
    pub fn sectors_per_page(&self) -> u32 {
        self.sectors_per_page
    }
    /// The mask of a full page.
    #[inline]
    pub fn full_mask(&self) -> u64 {
        self.full
    }
    /// The logical page of a sector, and the sector's place in it.
    #[inline]
    pub fn split(&self, lsn: u64) -> (u32, u64) {
        let spp = u64::from(self.sectors_per_page);
        match self.sector_bits {
            Some(bits) => ((lsn >> bits) as u32, lsn & (spp - 1)),
            None => ((lsn / spp) as u32, lsn % spp),
        }
    }
    /// The plane of a page.
    #[inline]
    pub fn plane_of(&self, ppn: Ppn) -> u32 {
        self.geometry().plane_of(self.geometry().block_of(ppn))
    }
    /// Whether the chip that holds `plane` has nothing to do.
    #[inline]
    pub fn chip_is_idle(&self, plane: u32) -> bool {
        let g = self.geometry();
        if self.array().width() > 1 {
            return self.nand.load_of_plane(plane) == 0;
        }
        let chip = g.chip_of_die(g.die_of_plane(plane));
        (chip * g.dies_per_chip..(chip + 1) * g.dies_per_chip).all(|die| self.nand.load(die) == 0)
    }
    /// Operations at the die of `plane`, or at those of its superblocks, under way or queued.
    #[inline]
    pub fn load(&self, plane: u32) -> u32 {
        self.nand.load_of_plane(plane)
    }
    /// Operations at the die of a page, under way or queued.
    #[inline]
    pub fn load_of_die(&self, die: u32) -> u32 {
        self.nand.load(die)
    }
    /// Whether a die has nothing to do.
    pub(crate) fn has_idle_die(&self) -> bool {
        self.nand.has_idle_die()
    }
    /// Whether the die of `plane`, or one of those of its superblocks, has nothing to do.
    pub(crate) fn has_idle_die_at(&self, plane: u32) -> bool {
        self.nand.has_idle_die_at(plane)
    }
    /// Operations under way.
    #[inline]
    pub fn in_flight(&self) -> u32 {
        self.nand.in_flight() - self.open.len() as u32
    }

    /// Die `die` answers no more.
    pub(crate) fn lose_die(&mut self, die: u32) {
        self.nand.lose_die(die);
    }
    /// The sectors `mask` of a page cannot be corrected any more.
    pub(crate) fn lose_sectors(&mut self, ppn: Ppn, mask: u64) {
        self.nand.lose_sectors(ppn, mask);
    }

    // ---- accounts ---------------------------------------------------------------------------------

    /// Flash operations so far.
    pub fn counters(&self) -> &Counters {
        self.nand.counters()
    }
    /// Nanoseconds that each die and each channel was busy.
    pub fn busy_ns(&self) -> (Vec<u64>, Vec<u64>) {
        self.nand.busy_ns()
    }
    /// Live sectors programmed by cause (the rest of a page is padding).
    pub fn sectors_by_cause(&self) -> [u64; Cause::COUNT] {
        self.sectors_by_cause
    }
    pub(crate) fn reset_counters(&mut self) {
        self.nand.reset_counters();
        if let Some(controller) = &mut self.controller {
            controller.reset_counters();
        }
    }
    /// The clock, counters and busy times of a drive that was powered off go on.
    pub(crate) fn carry_over(&mut self, now: Time, counters: Counters, busy: &(Vec<u64>, Vec<u64>)) {
        self.nand.carry_over(now, counters, busy);
    }

    // ---- orders -----------------------------------------------------------------------------------

    /// Sectors that leave the flash for those of `mask`, `shift` sectors from home, with the whole pages that
    /// they lie in.
    #[inline]
    pub(crate) fn sectors_read(&self, mask: u64, shift: i8) -> u32 {
        let wanted = mask.count_ones();
        if self.sectors_of_plane == self.sectors_per_page || wanted == 0 || self.timing().partial_transfer {
            return wanted;
        }
        let at = if shift >= 0 { mask << shift } else { mask >> -shift };
        let page = u64::MAX >> (64 - self.sectors_of_plane);
        let pages = (0..self.sectors_per_page).step_by(self.sectors_of_plane as usize);
        let touched = pages.filter(|&first| at >> first & page != 0);
        touched.count() as u32 * self.sectors_of_plane
    }

    /// Orders a read of `sectors` sectors of `ppn`, to start when `after` are done.
    #[inline(always)]
    pub(crate) fn read<const PLAIN: bool>(
        &mut self,
        ppn: Ppn,
        sectors: u32,
        cause: Cause,
        background: bool,
        after: &[OpId],
        waiter: Waiter,
    ) -> OpId {
        let op = self.nand.read_on::<PLAIN>(ppn, sectors, cause, background, after);
        self.waiters.enter(op, waiter);
        if cause == Cause::Rmw
            && let Some(controller) = &mut self.controller
        {
            controller.hold(op);
        }
        op
    }

    /// Orders a program of `ppn`, to start when `after` are done.
    #[inline(always)]
    pub(crate) fn program<const PLAIN: bool>(
        &mut self,
        ppn: Ppn,
        record: &Record<'_>,
        after: &[OpId],
    ) -> OpId {
        let &Record { ref oob, sectors, cause, background, durable, waiter } = record;
        self.sectors_by_cause[cause as usize] += u64::from(sectors);
        let op = if !PLAIN && self.slots > 1 {
            self.enter(ppn, &{ *record }, after)
        } else {
            let op = self.nand.program_on::<PLAIN>(ppn, oob, cause, background, after);
            let barrier = durable.then(|| self.barriers.enter());
            self.waiters.enter_program(op, waiter, barrier);
            op
        };
        if let Some(controller) = &mut self.controller
            && cause != Cause::Host
        {
            controller.note_unit(op, cause);
        }
        op
    }

    /// Whether a copy that waits for nothing is over when it is ordered.
    #[inline]
    pub(crate) fn copies_at_once(&self) -> bool {
        self.nand.copies_at_once()
    }
    /// Copies page `from` to `to`, and that is over.
    #[inline(always)]
    pub(crate) fn copy_at_once<const PLAIN: bool>(
        &mut self,
        from: Ppn,
        to: Ppn,
        oob: &Oob<'_>,
        sectors: u32,
    ) {
        self.sectors_by_cause[Cause::Gc as usize] += u64::from(sectors);
        self.nand.copy_at_once::<PLAIN>(from, to, oob, Cause::Gc);
    }

    /// Whether a copy of a page that is on flash is one operation.
    #[inline]
    pub(crate) fn copies_whole(&self) -> bool {
        self.nand.copies_whole()
    }
    /// Orders a copy of page `from` to `to` in the same plane as one operation.
    #[inline(always)]
    pub(crate) fn copy<const PLAIN: bool>(&mut self, from: Ppn, to: Ppn, record: &Record<'_>) -> OpId {
        let &Record { ref oob, sectors, cause, background, waiter, .. } = record;
        self.sectors_by_cause[cause as usize] += u64::from(sectors);
        let op = self.nand.copy_on::<PLAIN>(from, to, oob, cause, background);
        self.waiters.enter(op, waiter);
        op
    }
    /// From now on (or no longer) the ends of the reads of such copies are told.
    pub(crate) fn tell_reads(&mut self, tell: bool) {
        self.nand.tell_reads(tell);
    }

    /// Orders an erase of `block`.
    pub(crate) fn erase(&mut self, block: nandle_nand::Block, background: bool) -> OpId {
        let op = self.nand.erase(block, background);
        self.waiters.enter(op, Waiter::NOBODY);
        op
    }

    /// `old` may be lost only when `by` is done.
    #[inline(always)]
    pub(crate) fn supersede(&mut self, old: Ppn, by: OpId) {
        self.supersede_on::<false>(old, by);
    }
    #[inline(always)]
    pub(crate) fn supersede_on<const PLAIN: bool>(&mut self, old: Ppn, by: OpId) {
        if !PLAIN && self.is_open(old) {
            return self.supersede_open(old, by);
        }
        self.nand.supersede_on::<PLAIN>(old, by);
    }
    /// Whether sectors are forgotten as soon as they may be lost.
    #[inline]
    pub(crate) fn forgets(&self) -> bool {
        self.nand.forgets()
    }
    /// As [`Media::supersede`], of some sectors of `old`: nobody asks for them once `by` is done.
    pub(crate) fn forget_after(&mut self, old: Ppn, sectors: u64, by: OpId) {
        if !self.is_open(old) {
            self.nand.forget_after(old, sectors, by);
        }
    }
    /// A read and the program that waits for it copy a page within a plane.
    #[inline]
    pub(crate) fn pair_copyback(&mut self, read: OpId, program: OpId) {
        if self.slots == 1 {
            self.nand.pair_copyback(read, program);
        }
    }
    /// A program that failed goes on as one of `to`.
    pub(crate) fn reissue(&mut self, op: OpId, to: Ppn, stream: u16) {
        self.nand.reissue(op, to, stream);
    }
    /// A program that failed is given up.
    pub(crate) fn abandon(&mut self, op: OpId) {
        self.nand.abandon(op);
    }
    /// The program of `ppn` that is under way, if one is.
    #[inline]
    pub(crate) fn program_of(&self, ppn: Ppn) -> Option<OpId> {
        self.nand.program_of(ppn)
    }
    pub(crate) fn pending_programs(&self) -> impl Iterator<Item = OpId> + '_ {
        self.nand.pending_programs()
    }
    /// Whether programs of `block` are under way.
    #[inline]
    pub(crate) fn programs_pending(&self, block: nandle_nand::Block) -> bool {
        self.nand.programs_pending(block)
    }
    #[inline(always)]
    pub(crate) fn programs_pending_on<const PLAIN: bool>(&self, block: nandle_nand::Block) -> bool {
        self.nand.programs_pending_on::<PLAIN>(block)
    }
    /// Marks `program` as the end of a read-modify-write that reads with `reads`.
    pub(crate) fn mark_rmw(&mut self, program: OpId, reads: impl IntoIterator<Item = OpId>) {
        self.waiters.mark_rmw(program, reads);
    }
    /// `request` waits for the read `op`.
    pub(crate) fn wait_for(&mut self, op: OpId, request: u32) {
        self.waiters.wait_for(op, request);
    }
    /// Who waited for an operation that is done; a read of a read-modify-write tells its program when
    /// it started.
    #[inline]
    pub(crate) fn leave(&mut self, done: &Done) -> Left {
        self.waiters.leave(done)
    }

    // ---- flush barriers ---------------------------------------------------------------------------

    /// Everything durable from now on belongs to the next barrier; the number of this one.
    pub(crate) fn close_barrier(&mut self) -> u32 {
        self.barriers.close()
    }
    /// A program that counted for barrier `number` is done.
    #[inline]
    pub(crate) fn leave_barrier(&mut self, number: u32) {
        self.barriers.leave(number);
    }
    /// Whether everything before barrier `number` was closed is done.
    pub(crate) fn barrier_is_passed(&mut self, number: u32) -> bool {
        self.barriers.is_passed(number)
    }

    // ---- time -------------------------------------------------------------------------------------

    /// The present time.
    #[inline]
    pub fn now(&self) -> Time {
        self.nand.now()
    }
    /// When the next thing happens; [`Time::MAX`] if nothing is under way.
    #[inline]
    pub(crate) fn next_time(&self) -> Time {
        if self.controller.is_some() { self.next_of_both() } else { self.nand.next_time() }
    }
    #[inline]
    pub(crate) fn advance(&mut self, to: Time) {
        self.nand.advance(to);
    }
    /// Carries out the next event: what flash operations came to their end is in [`Media::done`], what else
    /// happened is returned.
    #[inline(always)]
    pub(crate) fn step<const PLAIN: bool>(&mut self) -> Stepped {
        if let Some(at) = self.controller_is_next() {
            return self.step_controller(at);
        }
        self.nand.step_on::<PLAIN>();
        Stepped::Flash
    }
    #[inline]
    pub(crate) fn done(&self) -> &[Done] {
        self.nand.done()
    }
    /// Whether a die may have fallen idle with the last step though [`Media::done`] does not say so.
    #[inline]
    pub(crate) fn ended_untold(&self) -> bool {
        self.nand.ended_untold()
    }
    #[inline(always)]
    pub(crate) fn settle(&mut self) {
        self.settle_on::<false>();
    }
    #[inline(always)]
    pub(crate) fn settle_on<const PLAIN: bool>(&mut self) {
        self.nand.settle_on::<PLAIN>();
        if self.controller.is_some() {
            self.order_ready();
        }
    }

    // ---- power ------------------------------------------------------------------------------------

    /// The flash of a drive that is powered on.
    pub(crate) fn power_on(config: &NandConfig, silicon: Silicon) -> Nand {
        Nand::power_on(config, silicon)
    }
    /// The power goes; `protected`: lower pages survive.
    pub(crate) fn cut_power(self, protected: bool) -> Silicon {
        self.nand.cut_power(protected)
    }
    pub(crate) fn keep_changes(&mut self) {
        self.nand.array_mut().keep_changes();
    }
    pub(crate) fn keep_stale(&mut self) {
        self.nand.keep_stale();
    }
    pub(crate) fn take_changes(&mut self, into: &mut Vec<Change>) {
        self.nand.array_mut().take_changes(into);
    }

    // ---- contents ---------------------------------------------------------------------------------

    /// Stores the contents of the sectors `mask` of a logical page in `ppn`, `shift` sectors from home.
    pub(crate) fn fill(
        &mut self,
        ppn: Ppn,
        runs: impl Iterator<Item = (u32, u32)>,
        shift: i32,
        data: Contents<'_>,
    ) {
        let unit = self.nand.array().unit();
        let array = self.nand.array_mut();
        for (start, len) in runs {
            let to = (start as i32 + shift) as u32;
            match data {
                Contents::Bytes { bytes, first } => {
                    let from = (start - first) as usize * unit;
                    array.fill(ppn, to, &bytes[from..from + len as usize * unit]);
                }
                Contents::Aside { page } => array.fill_from_aside(ppn, to, page + start as usize, len),
            }
        }
    }
    /// Whether `ppn` holds host sectors that `owner` looks after.
    #[inline]
    pub fn is_owned_by(&self, ppn: Ppn, owner: u8) -> bool {
        self.array().owner(ppn) == owner && self.array().page_use(ppn) == PageUse::Data
    }
}

/// Where the contents of some sectors of a logical page are, which are programmed once.
#[derive(Clone, Copy, Debug)]
pub enum Contents<'a> {
    /// In memory; empty if contents are not modelled.
    Bytes {
        /// `Array::unit` bytes a sector.
        bytes: &'a [u8],
        /// First sector of the logical page that `bytes` covers.
        first: u32,
    },
    /// Kept beside the flash, from where they move.
    Aside {
        /// Where its sector 0 is, or would be.
        page: usize,
    },
}

impl Contents<'_> {
    /// Of a write without sectors.
    pub const NONE: Contents<'static> = Contents::Bytes { bytes: &[], first: 0 };
}
