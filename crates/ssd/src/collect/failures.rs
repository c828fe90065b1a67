//! What the drive makes of programs that fail.
//!
//! A program that fails is repeated in another block, under the version of the first attempt, before
//! anything that waits for it goes on. Each plane has such a block standing by, because collection may be
//! using the last free one. No further page of the block is written if its plane can spare the
//! rest of it; its live pages are moved as soon as the plane can spare the room, and the erase behind
//! that takes it out of use.

use nandle_nand::{Block, Cause, Done, Extents, Oob, OpId, PageUse, Ppn};
use smallvec::SmallVec;

use super::work::Work;
use crate::flash::{Flash, Moved};
use crate::map::{Fragment, FragmentList};
use crate::space::{GroupId, PageClass, State};

/// Failures that are being dealt with.
#[derive(Clone, Debug, Default)]
pub(super) struct Failures {
    /// Full or avoided blocks in which a program failed, to be emptied.
    doomed: Vec<Block>,
    /// Partially written blocks of which no further page is written.
    avoided: Vec<Block>,
    /// The blocks that repeated programs go to, the older ones of a plane first.
    rescue: Vec<Block>,
    /// Those of them in which a program failed, until another one stands by in their plane.
    last_resort: Vec<Block>,
    /// Programs may fail: each plane has such a block before one does.
    expected: bool,
    /// Copies of garbage collection that were repeated in another plane, and whose job they are of.
    strays: Vec<(OpId, u32)>,
}

impl Failures {
    /// Open blocks that the frontiers do not know.
    pub fn blocks_apart(&self) -> Vec<Block> {
        [self.avoided.as_slice(), &self.rescue, &self.last_resort].concat()
    }

    /// A program failed: it is ordered again elsewhere. False if there is no page left.
    pub fn program_failed(&mut self, done: &Done, work: &mut Work<'_>) -> bool {
        let flash = &mut *work.flash;
        flash.stats_mut().program_failures += 1;
        let (from, op) = (done.ppn, done.op);
        let block = flash.geometry().block_of(from);
        let plane = flash.geometry().plane_of(block);
        let full = flash.array().is_full(block);
        if let Some(at) = self.rescue.iter().position(|&b| b == block) {
            self.last_resort.push(self.rescue.remove(at));
        } else if !full
            && !self.avoided.contains(&block)
            && !self.last_resort.contains(&block)
            // Of a superblock several columns may fail at once: the first failure may have closed it.
            && flash.blocks().state(block) == State::Open
            && can_spare(plane, flash)
        {
            let (space, media) = flash.space_and_media();
            space.avoid(block, media);
            self.avoided.push(block);
        }
        let seq = flash.array().seq(from);
        work.keeper.doubt(flash, seq);
        let class = PageClass::of_label(flash.array().oob(from).stream);
        let Some(to) = self.rescue_page(plane, flash) else {
            flash.stats_mut().programs_lost += 1;
            flash.media_mut().abandon(op);
            flash.set_read_only(true);
            return false;
        };
        if done.cause == Cause::Gc {
            let job = self.job_of(op, plane);
            self.strays.push((op, job));
        }
        repeat(work, op, from, to, class.label(GroupId::Survivors));
        true
    }

    /// Whether programs may fail, so that blocks stand by for them.
    #[inline]
    pub fn are_expected(&self) -> bool {
        self.expected
    }
    pub fn expect(&mut self) {
        self.expected = true;
    }

    /// Takes a block of `plane` for repeated programs if less than half of one is left, as long as that leaves
    /// collection what it works with.
    pub fn stand_by(&mut self, plane: u32, flash: &mut Flash) {
        let pages = flash.geometry().pages_per_block;
        let of_plane = |block: &Block| flash.geometry().plane_of(*block) == plane;
        let left = |&block: &Block| pages - flash.array().pages_programmed(block);
        let left: u32 = self.rescue.iter().filter(|block| of_plane(block)).map(left).sum();
        let space = flash.space();
        if 2 * left >= pages || space.spare(plane) <= space.limits().hard {
            return;
        }
        let (failed, others): (Vec<Block>, Vec<Block>) =
            self.last_resort.iter().copied().partition(|block| of_plane(block));
        let Some(block) = flash.space_mut().blocks_mut().take_free(plane, false) else { return };
        flash.space_mut().look_at(plane);
        self.rescue.push(block);
        self.last_resort = others;
        for block in failed {
            self.avoided.push(block);
            self.close(block, flash);
        }
    }

    /// A page for a repeated program: in a block that nothing else is written to, because whatever is on
    /// order in another block may wait for just this program. Rather than lose what it holds, the drive goes
    /// on in a block in which a program failed, and takes at last what collection works with.
    fn rescue_page(&mut self, plane: u32, flash: &mut Flash) -> Option<Ppn> {
        let others = (0..flash.geometry().planes()).filter(|&p| p != plane);
        let planes = || std::iter::once(plane).chain(others.clone());
        for plane in planes() {
            self.stand_by(plane, flash);
            if let Some(ppn) = next_page(&mut self.rescue, plane, flash) {
                return Some(ppn);
            }
        }
        if let Some(ppn) = planes().find_map(|plane| next_page(&mut self.last_resort, plane, flash)) {
            return Some(ppn);
        }
        let (plane, block) = planes()
            .find_map(|plane| Some((plane, flash.space_mut().blocks_mut().take_free(plane, false)?)))?;
        flash.space_mut().look_at(plane);
        self.rescue.push(block);
        next_page(&mut self.rescue, plane, flash)
    }

    /// The plane whose collection job ordered the copy `op`, which ran in `plane`.
    #[inline]
    pub fn job_of(&mut self, op: OpId, plane: u32) -> u32 {
        if self.strays.is_empty() {
            return plane;
        }
        match self.strays.iter().position(|&(stray, _)| stray == op) {
            Some(at) => self.strays.swap_remove(at).1,
            None => plane,
        }
    }

    /// A block in which a program failed is closed as soon as nothing in it is under way.
    pub fn close(&mut self, block: Block, flash: &mut Flash) {
        let over = flash.array().is_full(block) || self.avoided.contains(&block);
        if over && !flash.media().programs_pending(block) && flash.blocks().state(block) == State::Open {
            self.avoided.retain(|&b| b != block);
            let now = flash.media().now();
            flash.space_mut().blocks_mut().close(block, now);
            self.note(block, flash);
        }
    }

    /// A closed block is to be emptied and taken out of use; it is no candidate for collection, which
    /// would gain nothing.
    pub fn note(&mut self, block: Block, flash: &mut Flash) {
        let plane = flash.geometry().plane_of(block);
        let blocks = flash.space_mut().blocks_mut();
        if blocks.group(block).is_some() {
            blocks.forget_emptied(block);
        }
        blocks.take_victim(block);
        self.doomed.push(block);
        flash.space_mut().look_at(plane);
    }

    /// The next block of `plane` to be emptied because a program in it failed.
    #[inline]
    pub fn next_victim(&mut self, plane: u32, flash: &Flash) -> Option<Block> {
        if self.doomed.is_empty() {
            return None;
        }
        let spare = can_spare(plane, flash);
        let at = self.doomed.iter().position(|&block| {
            flash.geometry().plane_of(block) == plane && (spare || flash.blocks().valid(block) == 0)
        })?;
        Some(self.doomed.swap_remove(at))
    }

    /// Of the superblocks of `plane` in which a program failed, the one with the fewest live pages: another block may
    /// take the place of the one that failed, so that emptying it gains room. It stays one to be emptied.
    pub fn emptiest(&self, plane: u32, flash: &Flash) -> Option<Block> {
        let of_plane = |block: &Block| flash.geometry().plane_of(*block) == plane;
        let doomed = self.doomed.iter().copied().filter(|_| flash.array().width() > 1);
        doomed.filter(of_plane).min_by_key(|&block| flash.blocks().valid(block))
    }
    pub fn take(&mut self, block: Block) {
        self.doomed.retain(|&b| b != block);
    }
}

/// The next page of the first of `blocks` in `plane`, which leaves them with its last one.
fn next_page(blocks: &mut Vec<Block>, plane: u32, flash: &Flash) -> Option<Ppn> {
    let at = blocks.iter().position(|&block| flash.geometry().plane_of(block) == plane)?;
    let (block, array) = (blocks[at], flash.array());
    if array.pages_programmed(block) + array.slots() == flash.geometry().pages_per_block {
        blocks.remove(at);
    }
    array.next_strict(block)
}

/// Whether `plane` can spare a block's worth of pages: collection holds no more than this once it has made room.
fn can_spare(plane: u32, flash: &Flash) -> bool {
    flash.space().spare(plane) >= flash.space().limits().kept
}

/// What a page stood for when its program failed.
struct Stood {
    from: Ppn,
    to: Ppn,
    kind: PageUse,
    live: bool,
    surplus: bool,
    owned: bool,
    /// Of one of the drive's own pages.
    number: u32,
    /// Of host data: its fragments, and all fragments of their logical pages.
    held: SmallVec<[(u32, Fragment); 2]>,
    lists: Vec<(u32, FragmentList)>,
}

impl Stood {
    fn new(flash: &Flash, from: Ppn, to: Ppn) -> Self {
        let kind = flash.array().page_use(from);
        let live = flash.blocks().is_live(from);
        let number = match flash.array().oob(from).extents {
            Extents::Home { lpn, .. } => lpn,
            Extents::List(_) => 0,
        };
        let held =
            if live && kind.is_data() { flash.map().live_in(from, flash.array()) } else { SmallVec::new() };
        let list = |&(lpn, _): &(u32, Fragment)| (lpn, flash.fragments().get(lpn, flash.array()));
        Self {
            from,
            to,
            kind,
            live,
            surplus: flash.blocks().is_surplus(from),
            owned: flash.array().owner(from) != Oob::PLAIN,
            number,
            lists: held.iter().map(list).collect(),
            held,
        }
    }
}

/// The program `op` of `from` becomes one of `to`, and so does whatever the map says of `from` and of all that
/// is programmed with it.
fn repeat(work: &mut Work<'_>, op: OpId, from: Ppn, to: Ppn, label: u16) {
    let array = work.flash.array();
    let pairs = array.together(from).zip(array.together(to));
    let all: Vec<Stood> = pairs
        .filter(|&(from, _)| work.flash.array().page_use(from) != PageUse::Padding)
        .map(|(from, to)| Stood::new(work.flash, from, to))
        .collect();
    work.flash.media_mut().reissue(op, to, label);
    let [was, is] = [from, to].map(|ppn| work.flash.geometry().block_of(ppn));
    if work.flash.blocks().awaits_record(was) {
        // Of what was trimmed since it was ordered, an older version may be on flash.
        work.flash.space_mut().blocks_mut().await_record(is);
    }
    work.flash.count_repeated(GroupId::from_number(label));
    all.into_iter().for_each(|stood| follow(work, stood));
}

/// The map follows a page to where it is programmed again.
fn follow(work: &mut Work<'_>, stood: Stood) {
    let Work { flash, schemes, keeper } = work;
    let Stood { from, to, kind, live, surplus, owned, number, held, lists } = stood;
    flash.space_mut().blocks_mut().set_live::<false>(to);
    if !live {
        let now = flash.media().now();
        flash.space_mut().blocks_mut().set_dead::<false>(to, now);
        return;
    }
    if kind.is_data() {
        let lpns = flash.follow_lists(from, to, lists);
        match held.last() {
            Some(&(lpn, fragment)) if owned => schemes.page_went(flash, lpn, fragment),
            _ => lpns.into_iter().for_each(|lpn| flash.map_moved(lpn)),
        }
    } else {
        let moved = Moved { kind, number, to };
        flash.map_page_went(moved);
        keeper.moved(moved);
    }
    if surplus {
        flash.mark_surplus(to);
    }
    flash.died(from);
}
