//! FlashAlloc (Park et al., PVLDB 16(11), 2023): the host names the logical ranges of an object, and
//! the drive keeps the object's pages in flash blocks of its own (section 4).
//!
//! `FlashAlloc({LBA, LENGTH}*)` makes an *FA instance*: its ranges, as many clean blocks as they need,
//! striped over the planes, and the place of the next write. A write is matched page by page
//! (a flag a logical page tells the common miss, section 5.2) and appended to its instance in order of
//! arrival; an overwrite takes a further page. When its pages are used up the instance is at its end
//! and later writes are normal; its blocks stay dedicated until they are erased.
//!
//! *GC-By-Block-Type* (section 4.3): collection for normal writes takes normal victims only. A call
//! that lacks clean blocks merges blocks until it has them: normal ones, the emptiest of the device
//! first, or those of one object whose live pages fit fewer blocks. Blocks of an object without a
//! live page are erased whole, as a trim of the object leaves them.
//!
//! Where the paper is silent:
//! - A trim takes its sectors out of the instance; trimmed wholly, the instance is at its end and its
//!   unwritten blocks are normal again. So they are after `FlashFree`, which the paper lacks: a file
//!   that turned out shorter than it was allocated would keep clean blocks for ever.
//! - A page on the border of two ranges belongs to the object that comes first in it.
//! - A call may take what a normal write may: all clean blocks but those that collection works with.
//! - A call that lacks blocks waits in the host's queue while others are merged. It is refused when
//!   nothing is left to merge, and at once if all live instances together could hold more pages at the
//!   cost of other data than the drive has to spare: dedicated pages beyond the object's size, and
//!   older copies of its pages elsewhere, which stay live until they are overwritten.
//! - If normal blocks are all fully valid, collection for normal writes does take blocks of ended
//!   objects, and their survivors become normal: only in this way does a drive whose objects were
//!   overwritten piecemeal not stop (`Stats::dedicated_demoted`).
//! - Of planes that have clean blocks, objects get those first in which the fewest blocks of objects are
//!   being written, so that small objects written side by side share no plane.
//! - Under static striping a page of an object lies in any plane. A normal write whose own plane can
//!   gain nothing goes to another one.
//!
//! Beyond the paper, each off by default: blocks taken when first written (`on_demand`, footnote 1),
//! tiny objects of one stream id in one block (`share_tiny`, footnote 2), collection of ended objects whose
//! pages die one by one (`collect_ended`), and objects that nobody
//! announced: aligned ranges (`auto_align`) and sequential runs (`auto_run`). Those are only made
//! of blocks that are clean already, and the oldest ends when there are more than `auto_live`. An aligned
//! range that begins with a write of one page at most, which may be a random one, is an object from the next
//! write on, if that goes on where the first ended. Nobody promised that the pages of such an object die
//! together: when it has ended, collection takes its blocks for normal ones (until a power-on, which
//! does not tell them from the others).

use nandle_nand::{Block, Geometry, Ppn};
use smallvec::SmallVec;

use super::StreamsConfig;
use super::objects::{Instance, Objects};
use crate::allocation::{PageClass, Role};
use crate::blocks::State;
use crate::flash::Flash;
use crate::log::{ObjectRecord, Record};
use crate::striping::Striping;

/// Sequential writes watched at a time.
const RUNS: usize = 64;

/// Why a call was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Refusal {
    /// Blocks are being merged for it: try again.
    Wait,
    /// A live instance has some of the sectors.
    Overlap,
    /// There are no clean blocks for it.
    NoSpace,
}

/// A live FA instance, as the query command lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InstanceInfo {
    /// What is left of its ranges: (first sector, sectors).
    pub ranges: Vec<(u64, u64)>,
    /// Pages that it may still write.
    pub pages_left: u64,
    /// Dedicated blocks that hold its pages or wait for them.
    pub blocks: u32,
    /// The drive began it by itself.
    pub auto: bool,
}

/// The policy's state.
#[derive(Clone, Debug)]
pub struct FlashAlloc {
    pub(crate) objects: Objects,
    config: StreamsConfig,
    /// Objects have been here: pages may lie off their home planes.
    pub(crate) spread: bool,
    /// Clean blocks that the call at the front of the queue waits for.
    demand: u32,
    /// Nothing is left to merge for it.
    failed: bool,
    /// Erases under way of blocks that no collection job has.
    erasing: u32,
    /// Whose turn it is among planes.
    turn: u32,
    /// Planes, channel by channel.
    planes: Vec<u32>,
    /// Ends of sequential writes: (next sector, length so far), the most recent last.
    runs: Vec<(u64, u64)>,
}

impl FlashAlloc {
    pub(super) fn new(config: &StreamsConfig, geometry: &Geometry, logical_pages: u32) -> Self {
        let Ok(Striping::Static(order)) = Striping::new("CWDP", geometry) else {
            unreachable!("a legal order")
        };
        Self {
            objects: Objects::new(geometry, logical_pages),
            config: config.clone(),
            spread: false,
            demand: 0,
            failed: false,
            erasing: 0,
            turn: 0,
            planes: (0..geometry.planes()).map(|n| order.plane(n)).collect(),
            runs: Vec::new(),
        }
    }

    /// Whether blocks may be objects' before they are written.
    pub(crate) fn may_claim(&self) -> bool {
        self.spread || self.config.auto_align > 0 || self.config.auto_run > 0
    }

    /// Matches a page with its instance.
    #[inline]
    pub(super) fn role(&self, lpn: u32) -> Role {
        if self.objects.is_flagged(lpn) { self.matched(lpn) } else { Role::Host(0) }
    }

    fn matched(&self, lpn: u32) -> Role {
        let Some(slot) = self.objects.find(lpn) else { return Role::Host(0) };
        let instance = &self.objects.instances[slot as usize];
        if instance.left > 0 { Role::Object(instance.home) } else { Role::Host(0) }
    }
}

impl Flash {
    /// The live FA instances.
    pub fn flashalloc_instances(&self) -> Vec<InstanceInfo> {
        let Some(f) = self.streams.flashalloc() else { return vec![] };
        let live = f.objects.instances.iter().filter(|i| i.born != 0);
        live.map(|i| InstanceInfo {
            ranges: i.ranges.iter().map(|&(start, end)| (start, end - start)).collect(),
            pages_left: i.left,
            blocks: f.objects.home(i.home).blocks.len() as u32,
            auto: i.auto,
        })
        .collect()
    }

    /// How many instances are live.
    pub fn instances_live(&self) -> u32 {
        self.streams.flashalloc().map_or(0, |f| f.objects.live)
    }

    /// Most ranges of a call; none if the policy is another one.
    pub(crate) fn most_ranges(&self) -> Option<u32> {
        self.streams.flashalloc().map(|f| f.config.max_ranges)
    }

    /// Clean blocks of `plane` that an object may have: like a normal write, all but those that collection
    /// works with.
    #[inline]
    fn clean_blocks(&self, plane: u32) -> u32 {
        self.blocks.free(plane).saturating_sub(self.layout.hard_blocks)
    }

    fn all_clean_blocks(&self) -> u32 {
        (0..self.geometry().planes()).map(|plane| self.clean_blocks(plane)).sum()
    }

    /// Pages beyond what all logical pages and the reserve need.
    fn pages_beyond_need(&self) -> u64 {
        let blocks: u32 = (0..self.geometry().planes())
            .map(|plane| self.blocks.good(plane).saturating_sub(self.layout.least_blocks))
            .sum();
        u64::from(blocks) * u64::from(self.geometry().pages_per_block)
    }

    // ---- the commands ---------------------------------------------------------------------------

    /// FlashAlloc: `ranges` (first sector, sectors), disjoint and on the device, are one object.
    pub(crate) fn flash_alloc(&mut self, ranges: &[(u64, u64)], class: u16) -> Result<(), Refusal> {
        let overlapping = |f: &Self| -> SmallVec<[u32; 4]> {
            let objects = &f.streams.flashalloc().expect("asked before").objects;
            ranges.iter().flat_map(|&(lsn, n)| objects.overlapping(lsn, lsn + n)).collect()
        };
        // What the drive began by itself gives way.
        for slot in overlapping(self) {
            let instance = &self.streams.flashalloc().expect("asked before").objects.instances[slot as usize];
            if instance.auto && instance.born != 0 {
                self.end_instance(slot, true);
            }
        }
        if !overlapping(self).is_empty() {
            return Err(Refusal::Overlap);
        }
        self.keep_log_short();
        self.begin_instance(ranges, class, false)
    }

    /// There will be objects.
    pub(crate) fn expect_objects(&mut self) {
        if let Some(f) = self.streams.flashalloc_mut() {
            f.spread = true;
        }
    }

    /// FlashFree: the instances that have sectors of the range are at their end.
    pub(crate) fn flash_free(&mut self, lsn: u64, sectors: u64) {
        let Some(f) = self.streams.flashalloc() else { return };
        for slot in f.objects.overlapping(lsn, lsn + sectors) {
            self.end_instance(slot, true);
        }
    }

    /// The sectors from `lsn` were trimmed.
    pub(crate) fn trim_objects(&mut self, lsn: u64, sectors: u64) {
        let Some(f) = self.streams.flashalloc_mut() else { return };
        if f.objects.live > 0 {
            for slot in f.objects.forget(lsn, lsn + sectors) {
                self.end_instance(slot, false);
            }
        }
    }

    fn begin_instance(&mut self, ranges: &[(u64, u64)], class: u16, auto: bool) -> Result<(), Refusal> {
        let spp = u64::from(self.spp);
        let ppb = u64::from(self.geometry().pages_per_block);
        let sectors: u64 = ranges.iter().map(|r| r.1).sum();
        let (mut pages, mut held) = (0, 0);
        for &(lsn, n) in ranges {
            for lpn in lsn / spp..(lsn + n).div_ceil(spp) {
                pages += 1;
                held += u64::from(!self.fragments.is_unmapped(lpn as u32));
            }
        }
        let mut blocks = sectors.div_ceil(spp * ppb);
        let f = self.streams.flashalloc_mut().expect("asked before");
        let (on_demand, tiny) = (f.config.on_demand, f.config.share_tiny && pages < ppb);
        let mut home = None;
        if tiny {
            home = f.objects.shared_home(class, pages);
            match home {
                Some(_) => blocks = 0,
                None => {
                    if let Some(closed) = f.objects.seal(class) {
                        self.close_home(closed);
                    }
                }
            }
        }
        let f = self.streams.flashalloc().expect("asked before");
        let left = if tiny { pages } else { blocks * ppb };
        let burden = left.saturating_sub(pages) + held;
        if burden > 0 && f.objects.burden() + burden > self.pages_beyond_need() || !f.objects.has_home() {
            return Err(Refusal::NoSpace);
        }
        if self.all_clean_blocks() < blocks as u32 {
            let f = self.streams.flashalloc_mut().expect("asked before");
            let failed = std::mem::take(&mut f.failed);
            if auto || failed {
                f.demand = 0;
                return Err(Refusal::NoSpace);
            }
            f.demand = blocks as u32;
            return Err(Refusal::Wait);
        }
        let taken = if on_demand { vec![] } else { self.take_clean_blocks(blocks as u32) };
        let owed = if on_demand { blocks as u32 } else { 0 };
        let born = self.nand.array_mut().take_seq();
        let f = self.streams.flashalloc_mut().expect("asked before");
        let home = home.or_else(|| f.objects.new_home(taken.clone(), owed, tiny.then_some(class)));
        let home = home.expect("there is a number for it");
        for &block in &taken {
            self.blocks.dedicate(block, home);
        }
        f.spread = true;
        let ranges = ranges.iter().map(|&(lsn, n)| (lsn, lsn + n)).collect();
        let blocks = blocks as u32;
        let slot = f.objects.begin(Instance { born, home, ranges, left, blocks, burden, auto });
        let surplus = f.objects.surplus_auto(f.config.auto_live);
        self.log.pending.extend(f.objects.records_of(slot).map(Record::Object));
        if let Some(surplus) = surplus {
            self.end_instance(surplus, true);
        }
        Ok(())
    }

    /// Takes clean blocks, spread over the planes, a round over all of them at a time: first those that have
    /// the fewest blocks of objects to write and, of these, most clean ones. A plane that
    /// would have to collect garbage for it counts as if it had one more.
    fn take_clean_blocks(&mut self, count: u32) -> Vec<Block> {
        let mut out = Vec::with_capacity(count as usize);
        let mut writing = vec![0_u32; self.geometry().planes() as usize];
        for block in self.streams.flashalloc().expect("asked before").objects.unfinished_blocks() {
            writing[self.geometry().plane_of(block) as usize] += 1;
        }
        while out.len() < count as usize {
            let f = self.streams.flashalloc_mut().expect("asked before");
            let (planes, turn) = (f.planes.len(), f.turn as usize);
            let mut order: Vec<u32> = (0..planes).map(|n| f.planes[(turn + n) % planes]).collect();
            let load = |plane: u32| {
                let collects = self.blocks.free(plane) <= self.layout.soft_blocks;
                (writing[plane as usize] + u32::from(collects), std::cmp::Reverse(self.clean_blocks(plane)))
            };
            order.sort_by_key(|&plane| load(plane));
            for plane in order {
                if out.len() < count as usize && self.clean_blocks(plane) > 0 {
                    out.extend(self.blocks.take_free(plane, false));
                }
            }
            let f = self.streams.flashalloc_mut().expect("asked before");
            f.turn = ((turn + out.len()) % planes) as u32;
        }
        out
    }

    /// An instance is at its end; a record of that is kept unless a trim says the same.
    pub(crate) fn end_instance(&mut self, slot: u32, record: bool) {
        let seq = self.nand.array_mut().take_seq();
        let Some(f) = self.streams.flashalloc_mut() else { return };
        let born = f.objects.instances[slot as usize].born;
        let closed = f.objects.end(slot);
        if record {
            self.log.pending.push(Record::Object(ObjectRecord::End { born, seq }));
        }
        if let Some(home) = closed {
            self.close_home(home);
        }
    }

    /// No instance writes to `home` any more: clean blocks are given back, the others closed as soon as
    /// their programs are done.
    fn close_home(&mut self, home: u16) {
        let Some(f) = self.streams.flashalloc_mut() else { return };
        for block in f.objects.strip(home, self.nand.array()) {
            let erases = self.nand.array().erases(block);
            self.blocks.give_back(block, erases);
            self.progress = true;
        }
        let written: SmallVec<[Block; 8]> = self
            .streams
            .flashalloc()
            .map_or_else(SmallVec::new, |f| f.objects.home(home).blocks.iter().copied().collect());
        let guessed = self.streams.flashalloc().is_some_and(|f| f.objects.home(home).guessed);
        for block in written {
            if guessed {
                self.blocks.loosen(block);
            }
            // The end, or the trim that made it, has to be on flash before a block is erased.
            self.blocks.mark_trimmed(block);
            if self.blocks.state(block) == State::Open && !self.nand.programs_pending(block) {
                self.blocks.close(block, self.nand.now());
            }
        }
    }

    // ---- writes ---------------------------------------------------------------------------------

    /// A host write of `sectors` sectors from `lsn` is about to be carried out: it may begin an
    /// object that nobody announced.
    #[inline]
    pub(crate) fn notice_write(&mut self, lsn: u64, sectors: u64, class: u16) {
        if self.streams.has_objects() {
            self.begin_unannounced(lsn, sectors, class);
        }
    }

    fn begin_unannounced(&mut self, lsn: u64, sectors: u64, class: u16) {
        let sector = u64::from(self.config.geometry.sector_bytes);
        let block = u64::from(self.geometry().pages_per_block) * u64::from(self.spp);
        let logical = self.layout.logical_sectors;
        if self.streams.flashalloc().is_some_and(|f| f.spread) && !self.log.pending.is_empty() {
            // Instances end without a command that would write the log.
            self.keep_log_short();
        }
        let Some(f) = self.streams.flashalloc_mut() else { return };
        let (align, least) = (f.config.auto_align / sector, f.config.auto_run / sector);
        if align == 0 && least == 0 {
            return;
        }
        let known = f.runs.iter().position(|&(next, _)| next == lsn);
        let before = known.map_or(0, |n| f.runs.remove(n).1);
        if f.runs.len() == RUNS {
            f.runs.remove(0);
        }
        f.runs.push((lsn + sectors, before + sectors));
        let mut range = None;
        if align > 0 {
            let into = lsn % align;
            let on_its_way = before > 0 || sectors > u64::from(self.spp);
            if into <= before && on_its_way && lsn - into + align <= logical {
                range = Some((lsn, align - into));
            }
        }
        if least > 0 && before >= least && lsn + block <= logical {
            range = range.or(Some((lsn, block)));
        }
        if let Some((lsn, n)) = range
            && f.objects.overlapping(lsn, lsn + n).is_empty()
        {
            // Without a clean block the write is a normal one.
            let _ = self.begin_instance(&[(lsn, n)], class, true);
        }
    }

    /// Whether the instance that `lpn` belongs to takes `pages` more.
    pub(crate) fn object_takes(&self, lpn: u32, home: u16, pages: u32) -> bool {
        let Some(f) = self.streams.flashalloc() else { return false };
        let instance = f.objects.find(lpn).map(|slot| &f.objects.instances[slot as usize]);
        let (pages, clean) = (u64::from(pages), self.any_clean_block().is_some());
        instance.is_some_and(|i| i.home == home && i.left >= pages)
            && f.objects.has_pages(home, pages, clean, self.nand.array())
    }

    fn any_clean_block(&self) -> Option<u32> {
        let f = self.streams.flashalloc()?;
        if !f.config.on_demand {
            return None;
        }
        let (planes, turn) = (f.planes.len(), f.turn as usize);
        let order = (0..planes).map(|n| f.planes[(turn + n) % planes]);
        order.filter(|&plane| self.clean_blocks(plane) > 0).max_by_key(|&plane| self.clean_blocks(plane))
    }

    /// The plane of the next page of `home`, which has one.
    pub(crate) fn object_plane(&mut self, home: u16) -> Option<u32> {
        if self.streams.flashalloc()?.objects.wants_block(home, self.nand.array())
            && let Some(plane) = self.any_clean_block()
            && let Some(block) = self.blocks.take_free(plane, false)
        {
            self.blocks.dedicate(block, home);
            let f = self.streams.flashalloc_mut()?;
            f.objects.add_owed(home, block);
            f.turn = (f.turn + 1) % f.planes.len() as u32;
        }
        let block = self.streams.flashalloc_mut()?.objects.next_block(home)?;
        Some(self.geometry().plane_of(block))
    }

    /// The next page of the object that `lpn` belongs to, if that is in `home`.
    pub(crate) fn take_in_object(&mut self, lpn: u32, home: u16) -> Option<Ppn> {
        self.object_plane(home)?;
        let super::Streams::FlashAlloc(f) = &mut self.streams else { return None };
        let slot = f.objects.find(lpn)?;
        let instance = &f.objects.instances[slot as usize];
        if instance.home != home || instance.left == 0 {
            return None;
        }
        f.objects.take(slot, self.nand.array())
    }

    /// Nothing is under way and nothing can be collected, because objects that are not complete hold
    /// blocks whose other pages nobody else may write: the oldest one ends. False if there is none.
    pub(crate) fn end_oldest_object(&mut self) -> bool {
        let oldest = self.streams.flashalloc().and_then(|f| f.objects.oldest());
        if let Some(slot) = oldest {
            self.end_instance(slot, true);
        }
        oldest.is_some()
    }

    /// The instance of `lpn` is at its end if that was its last page.
    pub(crate) fn object_wrote(&mut self, lpn: u32) {
        let Some(f) = self.streams.flashalloc() else { return };
        if let Some(slot) = f.objects.find(lpn)
            && f.objects.instances[slot as usize].left == 0
        {
            self.end_instance(slot, true);
        }
    }

    /// Whether `block`, which has no programs under way, is to be closed.
    #[inline]
    pub(crate) fn may_close(&self, block: Block, full: bool) -> bool {
        match self.blocks.object(block) {
            None => full,
            Some(home) => {
                let Some(f) = self.streams.flashalloc() else { return full };
                let plane = self.geometry().plane_of(block);
                let survivors = f.objects.survivor_block(home, plane, self.array()) == Some(block);
                !f.objects.is_open(home) && (full || !survivors)
            }
        }
    }

    // ---- GC-By-Block-Type -----------------------------------------------------------------------

    /// Pages that survivors of `home` find in `plane` without another block.
    pub(crate) fn survivor_room(&self, home: u16, plane: u32) -> u32 {
        let block =
            self.streams.flashalloc().and_then(|f| f.objects.survivor_block(home, plane, self.array()));
        block.map_or(0, |b| self.geometry().pages_per_block - self.array().pages_programmed(b))
    }

    /// The next page for survivors of `home` in `plane`.
    pub(crate) fn take_for_survivor(&mut self, home: u16, plane: u32) -> Option<Ppn> {
        let open = self.streams.flashalloc()?.objects.survivor_block(home, plane, self.array());
        let block = match open {
            Some(block) => block,
            None => {
                let block = self.blocks.take_free(plane, false)?;
                self.blocks.dedicate(block, home);
                self.streams.flashalloc_mut()?.objects.open_survivors(home, block);
                block
            }
        };
        let ppn = self.array().next_strict(block)?;
        if self.array().pages_programmed(block) + 1 == self.geometry().pages_per_block {
            self.streams.flashalloc_mut()?.objects.close_survivors(home, block);
        }
        Some(ppn)
    }

    /// Orders the erase of blocks of objects that hold nothing. Those that wait for a record of the log
    /// wait until it is written anyway, or the blocks are needed.
    pub(crate) fn erase_emptied(&mut self) {
        let Some(f) = self.streams.flashalloc() else { return };
        let pressed = f.demand > 0
            || self.gc_look.iter().any(|&plane| self.blocks.free(plane) < self.layout.soft_blocks);
        if pressed && !self.log.pending.is_empty() {
            self.write_log(None);
        }
        let mut n = 0;
        while let Some(&block) = self.blocks.emptied().get(n) {
            if self.blocks.is_trimmed(block) && !self.log.pending.is_empty() {
                n += 1;
                continue;
            }
            self.blocks.forget_emptied(block);
            self.blocks.condemn(block);
            let ordered = self.erase(block);
            debug_assert!(ordered, "no record waits");
            self.stats.victim_valid_dedicated[0] += 1;
            if let Some(f) = self.streams.flashalloc_mut() {
                f.erasing += 1;
            }
        }
    }

    /// `block`, of an object, is erased. `job`: by a collection job.
    pub(crate) fn object_erased(&mut self, home: u16, block: Block, job: bool) {
        if let Some(f) = self.streams.flashalloc_mut() {
            f.objects.released(home, block);
            f.erasing -= u32::from(!job);
        }
    }

    /// A victim among blocks of ended objects, for a plane whose normal blocks gain nothing while the host
    /// waits.
    pub(crate) fn dedicated_victim(&self, plane: u32) -> Option<Block> {
        self.streams.flashalloc().filter(|_| self.host_waits)?;
        self.blocks.dedicated(plane).buckets().next().map(|(_, block)| block)
    }

    /// With `streams.collect_ended`, a block of an ended object that holds less than `normal`.
    pub(crate) fn emptier_ended(&self, plane: u32, normal: Block) -> Option<Block> {
        self.streams.flashalloc().filter(|f| f.config.collect_ended)?;
        let (valid, block) = self.blocks.dedicated(plane).buckets().next()?;
        (valid < self.blocks.valid(normal)).then_some(block)
    }

    /// Two blocks or more of one ended object whose live pages fit fewer: the emptiest of them.
    fn merge_victim(&self, plane: u32) -> Option<(u32, Block, u16)> {
        let f = self.streams.flashalloc()?;
        let ppb = self.geometry().pages_per_block;
        f.objects
            .closed_homes()
            .filter(|(_, h)| h.blocks.len() > 1)
            .filter_map(|(home, h)| {
                let own = || {
                    h.blocks.iter().copied().filter(|&b| {
                        let closed = self.blocks.state(b) == State::Closed && self.blocks.is_apart(b);
                        closed && self.geometry().plane_of(b) == plane
                    })
                };
                let emptiest = own().min_by_key(|&b| (self.blocks.valid(b), b))?;
                let valid = self.blocks.valid(emptiest);
                let dead: u32 = own().map(|b| ppb - self.blocks.valid(b)).sum();
                let fits = valid > 0 && valid <= self.survivor_room(home, plane)
                    || own().count() > 1
                        && dead >= ppb
                        && valid <= self.room(plane, Role::Survivor(home), PageClass::SYSTEM);
                fits.then_some((valid, emptiest, home))
            })
            .min()
    }

    /// Begins to merge blocks for the call that waits for clean ones; true if planes have to be looked
    /// after.
    pub(crate) fn merge_for_object(&mut self) -> bool {
        let Some(f) = self.streams.flashalloc() else { return false };
        if f.demand == 0 {
            return false;
        }
        let (demand, erasing) = (f.demand, f.erasing);
        let clean = self.all_clean_blocks();
        if clean >= demand {
            return self.settle_demand(false);
        }
        let planes = self.geometry().planes();
        let active = (0..planes).filter(|&plane| self.job_is_active(plane)).count() as u32 + erasing;
        let mut wanted = (demand - clean).saturating_sub(active);
        if wanted == 0 {
            return false;
        }
        let mut victims: Vec<(u32, u32, Block, Option<u16>)> = vec![];
        for plane in (0..planes).filter(|&plane| !self.job_is_active(plane)) {
            let room = self.room(plane, Role::Gc, PageClass::SYSTEM);
            let normal = self.blocks.candidates(plane).buckets().next();
            victims.extend(normal.filter(|v| v.0 <= room).map(|(valid, block)| (valid, plane, block, None)));
            victims.extend(
                self.merge_victim(plane).map(|(valid, block, home)| (valid, plane, block, Some(home))),
            );
        }
        victims.sort_unstable();
        let mut begun = 0;
        for (_, plane, block, home) in victims {
            if wanted > 0 && !self.job_is_active(plane) {
                self.begin_merge(plane, block, home);
                (wanted, begun) = (wanted - 1, begun + 1);
            }
        }
        if begun == 0 && active == 0 {
            return self.settle_demand(true);
        }
        begun > 0
    }

    /// The call that waited is tried again.
    fn settle_demand(&mut self, failed: bool) -> bool {
        if let Some(f) = self.streams.flashalloc_mut() {
            (f.demand, f.failed) = (0, failed);
        }
        self.progress = true;
        false
    }

    // ---- power-on -------------------------------------------------------------------------------

    /// `block` was written for `home`; it stays open until all blocks are known.
    pub(crate) fn found_block(&mut self, home: u16, block: Block) {
        if let Some(f) = self.streams.flashalloc_mut() {
            f.objects.found_block(home, block);
        }
    }

    /// Instances go on where their blocks end; clean blocks are dedicated to them anew.
    pub(crate) fn resume_objects(&mut self) {
        let Some(f) = self.streams.flashalloc_mut() else { return };
        let on_demand = f.config.on_demand;
        let mut over = vec![];
        for slot in f.objects.learned() {
            let f = self.streams.flashalloc().expect("asked before");
            let Instance { home, blocks, ref ranges, .. } = f.objects.instances[slot as usize];
            let ranges: Vec<(u64, u64)> = ranges.iter().copied().collect();
            let own: Vec<Block> = f.objects.home(home).blocks.clone();
            let shared = f.config.share_tiny && f.objects.home(home).instances > 1 || blocks == 0;
            let spp = u64::from(self.spp);
            let ppb = u64::from(self.geometry().pages_per_block);
            let pages: u64 = ranges.iter().map(|&(s, e)| e.div_ceil(spp) - s / spp).sum();
            let used: u64 = own.iter().map(|&b| u64::from(self.array().pages_programmed(b))).sum();
            let mut left = (u64::from(blocks) * ppb).saturating_sub(used);
            if shared {
                // Which of the pages were its own is not asked: it gets at most what is left.
                let open: u64 = own.iter().map(|&b| ppb - u64::from(self.array().pages_programmed(b))).sum();
                left = pages.min(open + left);
            }
            let missing = blocks.saturating_sub(own.len() as u32);
            let count = missing.min(self.all_clean_blocks());
            let clean = if on_demand { vec![] } else { self.take_clean_blocks(count) };
            let owed = if on_demand { count } else { 0 };
            for &block in &clean {
                self.blocks.dedicate(block, home);
            }
            let open: u64 = own.iter().map(|&b| ppb - u64::from(self.array().pages_programmed(b))).sum();
            left = left.min(open + u64::from(count) * ppb);
            let held = ranges.iter().flat_map(|&(s, e)| s / spp..e.div_ceil(spp));
            let held = held.filter(|&lpn| !self.fragments.is_unmapped(lpn as u32)).count() as u64;
            let burden = left.saturating_sub(pages) + held;
            let f = self.streams.flashalloc_mut().expect("asked before");
            f.objects.resume(slot, left, burden, clean, owed, self.nand.array());
            if left == 0 {
                over.push(slot);
            }
        }
        for slot in over {
            self.end_instance(slot, true);
        }
        let left: Vec<Block> = self
            .blocks
            .each()
            .filter(|&(block, state)| state == State::Open && self.blocks.object(block).is_some())
            .map(|(block, _)| block)
            .collect();
        for block in left {
            let full = self.array().pages_programmed(block) == self.geometry().pages_per_block;
            if self.may_close(block, full) {
                self.blocks.close(block, 0);
            }
        }
        self.find_spread();
    }

    fn find_spread(&mut self) {
        let spread = (0..self.fragments.len()).any(|lpn| match &self.striping {
            Striping::Static(order) => {
                let home = order.plane(lpn);
                let list = self.fragments.get(lpn, self.nand.array());
                list.iter().any(|f| self.geometry().plane_of(self.geometry().block_of(f.ppn)) != home)
            }
            Striping::Dynamic(_) => false,
        });
        if let Some(f) = self.streams.flashalloc_mut() {
            f.spread |= spread || f.objects.live > 0;
        }
    }

    /// Checks the books of objects: their blocks hold nobody else's pages.
    pub(crate) fn check_objects(&self) {
        let Some(f) = self.streams.flashalloc() else { return };
        f.objects.check();
        for (block, state) in self.blocks.each() {
            let Some(home) = self.blocks.object(block) else { continue };
            assert!(!matches!(state, State::Free | State::Bad), "a free block of an object");
            assert!(f.objects.home(home).blocks.contains(&block), "{block:?} is not in the books of {home}");
            for page in 0..self.geometry().pages_per_block {
                let ppn = self.geometry().ppn(block, page);
                if self.blocks.is_live(ppn) {
                    let written_for = Role::from_number(self.array().oob(ppn).stream);
                    assert_eq!(written_for, Role::Object(home), "{block:?} holds another object");
                }
            }
        }
    }
}
