//! MV-FTL (section III-B, Figs. 4 and 5): a partial update is programmed alone, as a newer
//! version of its logical page; nothing is read. The older data stays where it is until both are
//! brought together.
//!
//! | sub-request | what is done |
//! | --- | --- |
//! | covers all that is stored | programmed; everything older dies |
//! | partial, one page stored | programmed alone, the newer version |
//! | partial, as many versions as allowed | the newest version is read if it is not covered, the union programmed in its stead; the base is not read |
//! | small partial pages in one batch | one physical page for all of them: [`super::compaction`] |
//!
//! An entry of the map is 32 bits: the physical page number and, in the bits that leaves (PT/F), where
//! the next version is. Where static striping says in which plane a logical page lies, its entry need
//! only say where in the plane: if two such numbers fit, the entry says both (`"indirect"`, the default).
//! Otherwise, or if the table has a place for every logical page, PT/F is a place in a table of page numbers
//! (`"indirect"`), or a distance (`"direct"`). Compacted pages lie in the plane of one of their logical pages,
//! so each takes a place in the table; as many as half an entry has values left. Which sectors a version
//! holds is in its out-of-band area. Versions are merged
//! 1. by garbage collection, when it meets a page of a logical page that has several;
//! 2. after `idle_merge_after_ns` without any work, oldest first;
//! 3. under pressure: surplus pages are bounded by `version_budget`, a share of the pages that hold nothing
//!    else (spare, or not written by the host), and by the table. From three quarters of a bound on, a write
//!    looks for an idle chip with an old version to merge; at the bound partial updates are read, modified
//!    and written until there is room again. When the host writes what it never wrote, the oldest versions
//!    are merged to make room for it.
//!
//! The paper's merges (section III-B) are the first two. Without a bound a full device comes to a
//! halt. Decided here beside it:
//! - Merging while chips are busy would cost a program to save a read; so the third kind waits for
//!   idle chips, and what never gets one costs an RMW, as on a page-mapped device.
//! - A merge by garbage collection programs as many pages as it would have moved. A compacted page of
//!   several logical pages is taken apart only if there are at most `gc_merge` of them and their planes
//!   have room; else it is moved as it is, so collection always gains.
//! - A direct pointer is signed: with b bits left it reaches 2^(b-1) pages either way. A version out of
//!   reach is not written (RMW); one that collection moved out of reach takes a place in the table.
//! - The drive knows which sectors a version holds without reading it: the pattern of a version is
//!   cached with its mapping entry.

use nandle_nand::{Cause, Extent, Extents, OpId, Ppn};
use smallvec::SmallVec;

use super::super::{Pages, Rest};
use super::Waflash;
use super::compaction::{self, Batch, Packing};
use crate::flash::{Flash, Page, Part, Reads, Write};
use crate::map::{Fragment, FragmentList, runs};
use crate::space::{GroupId, PageClass};

/// What a partial update reads before it is programmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Plan {
    /// Nothing: it is programmed alone.
    Alone,
    /// These sectors, as a rule of the newest version.
    Newest(u64),
    /// All that is stored (read-modify-write).
    Everything,
}

impl Waflash {
    // ---- bounds -----------------------------------------------------------------------------

    /// Surplus pages that `plane` may hold.
    pub(super) fn budget(&self, flash: &Flash, plane: u32) -> u32 {
        (f64::from(flash.space().unused_pages(plane)) * self.settings.version_budget) as u32
    }

    /// Whether `quarters` of the room that `plane` has for surplus pages are used up.
    pub(super) fn reached(&self, flash: &Flash, plane: u32, quarters: u32) -> bool {
        let count = flash.blocks().surplus(plane) + flash.space().apart(plane);
        let budget = u64::from(self.budget(flash, plane)) * u64::from(quarters);
        u64::from(count) * 4 >= budget || !flash.space().leaves_claims_theirs()
    }

    /// Whether an entry says both places of its logical page, compacted pages aside.
    fn says_both(&self, flash: &Flash) -> bool {
        self.pointers.both && !flash.space().may_be_claimed()
    }

    /// Whether a version that is not compacted needs no place in the table.
    pub(super) fn in_entry(&self, flash: &Flash) -> bool {
        self.pointers.direct || self.says_both(flash)
    }

    /// Places of the table in use.
    pub(super) fn places(&self, flash: &Flash) -> u32 {
        if self.says_both(flash) { flash.blocks().shared_total() } else { flash.blocks().surplus_total() }
    }

    /// Whether `quarters` of the table are in use.
    pub(super) fn table_reached(&self, flash: &Flash, quarters: u32) -> bool {
        let places = u64::from(self.places(flash));
        !self.pointers.direct && places * 4 >= u64::from(self.pointers.slots) * u64::from(quarters)
    }

    /// Whether `plane`, or any plane, takes another version.
    fn has_budget(&self, flash: &Flash, plane: Option<u32>) -> bool {
        (self.in_entry(flash) || !self.table_reached(flash, 4))
            && match plane {
                Some(plane) => !self.reached(flash, plane, 4),
                None => (0..flash.geometry().planes()).any(|plane| !self.reached(flash, plane, 4)),
            }
    }

    /// Whether `plane` takes another compacted page.
    fn takes_batch(&self, flash: &Flash, plane: u32) -> bool {
        !self.table_reached(flash, 4) && !self.reached(flash, plane, 4)
    }

    /// Bytes of the table's places in use; what points past the table counts as one.
    pub(super) fn table_bytes(&self, flash: &Flash) -> u64 {
        let places = if self.pointers.direct {
            let g = flash.geometry();
            let far = |two: &[Fragment]| !self.pointers.reaches(g, two[0].ppn, two[1].ppn);
            (0..flash.logical_pages()).filter(|&lpn| flash.plain(lpn).windows(2).any(far)).count() as u64
        } else {
            u64::from(self.places(flash))
        };
        places * u64::from(self.pointers.slot_bytes)
    }

    // ---- placing ----------------------------------------------------------------------------

    /// Whether a small partial page of `lpn` may go to a compacted page.
    pub(super) fn compacts(&self, flash: &Flash, lpn: u32, mask: u64, rewrite: Option<u64>) -> bool {
        self.packing.is_some_and(|packing| packing.is_small(mask) && packing.start(mask).fits(1))
            && self.plan(flash, lpn, mask, rewrite) == Plan::Alone
    }

    /// What has to be read before `mask` of `lpn` is written, budget and pointers aside.
    fn plan(&self, flash: &Flash, lpn: u32, mask: u64, rewrite: Option<u64>) -> Plan {
        let list = flash.plain(lpn);
        if let Some(rest) = self.advised(mask, &list, rewrite) {
            return if rest == 0 { Plan::Alone } else { Plan::Newest(rest) };
        }
        if pages(&list) < self.settings.max_versions as usize {
            return Plan::Alone;
        }
        match in_page(&list, list[0].ppn) & !mask {
            0 => Plan::Alone,
            rest => Plan::Newest(rest),
        }
    }

    /// What another policy wants rewritten with `mask`, if that leaves no more pages than allowed.
    #[inline]
    fn advised(&self, mask: u64, list: &FragmentList, rewrite: Option<u64>) -> Option<u64> {
        let rest = rewrite.filter(|_| self.versions)? & keep(list, mask);
        let left: FragmentList = list.iter().filter(|f| f.mask & !(mask | rest) != 0).copied().collect();
        (pages(&left) < self.settings.max_versions as usize).then_some(rest)
    }

    /// The pages that are read before `mask` of `lpn` is programmed.
    pub(super) fn pages_read(&self, flash: &Flash, lpn: u32, mask: u64, rewrite: Option<u64>) -> Pages {
        let list = flash.plain(lpn);
        if keep(&list, mask) == 0 {
            return Pages::new();
        }
        let plan = if self.compacts(flash, lpn, mask, rewrite) {
            Plan::Alone
        } else if self.versions && self.has_budget(flash, flash.space().home_plane(lpn)) {
            self.plan(flash, lpn, mask, rewrite)
        } else {
            Plan::Everything
        };
        match plan {
            Plan::Alone => Pages::new(),
            Plan::Newest(rest) => list.iter().filter(|f| f.mask & rest != 0).map(|f| f.ppn).collect(),
            Plan::Everything => list.iter().filter(|f| f.mask & !mask != 0).map(|f| f.ppn).collect(),
        }
    }

    /// Places a write; how many programs its request waits for.
    pub(super) fn place_write(&mut self, flash: &mut Flash, write: &Write<'_>, rest: &mut dyn Rest) -> u32 {
        let mut programs = 0;
        let mut batch = Batch::default();
        for part in write.parts {
            let joins = |packing: &Packing| {
                write.parts.len() > 1
                    && packing.is_small(part.mask)
                    && self.compacts(flash, part.lpn, part.mask, part.rewrite)
            };
            match self.packing.filter(joins) {
                Some(packing) => {
                    if !batch.admits(flash, &packing, write.stream, part) {
                        programs += self.place_batch(flash, write, &batch, rest);
                        batch = Batch::default();
                        batch.admits(flash, &packing, write.stream, part);
                    }
                    batch.parts.push(*part);
                }
                None => {
                    self.place_one(flash, write, part, rest);
                    programs += 1;
                }
            }
        }
        programs += self.place_batch(flash, write, &batch, rest);
        self.relieve(flash);
        programs
    }

    fn place_batch(
        &mut self,
        flash: &mut Flash,
        write: &Write<'_>,
        batch: &Batch<'_>,
        rest: &mut dyn Rest,
    ) -> u32 {
        if let (Some(packing), Some(plane), 2..) =
            (self.packing, self.plane_of_batch(flash, write, batch), batch.parts.len())
        {
            self.stats.compacted_extents += compaction::place(flash, &packing, write, &batch.parts, plane);
            self.stats.compacted_pages += 1;
            return 1;
        }
        for part in &batch.parts {
            self.place_one(flash, write, part, rest);
        }
        batch.parts.len() as u32
    }

    /// The least busy of the planes of a batch's logical pages that take another surplus page.
    fn plane_of_batch(&self, flash: &mut Flash, write: &Write<'_>, batch: &Batch<'_>) -> Option<u32> {
        let first = batch.parts.first()?;
        let class = PageClass { full: false, alone: first.alone };
        let group = flash.host_group(first.lpn, write.stream);
        if flash.space().home_plane(first.lpn).is_none() {
            let plane = flash.choose_plane(first.lpn, group, class)?;
            return (self.takes_batch(flash, plane) && self.all_reach(flash, batch, plane, group))
                .then_some(plane);
        }
        let mut best: Option<(u32, u32)> = None;
        for part in &batch.parts {
            let plane = flash.space().home_plane(part.lpn)?;
            let load = flash.media().load(plane);
            // A plane that can gain nothing may have none: its pages go elsewhere, each by itself.
            let has_room = matches!(group, GroupId::Dedicated(_)) || flash.room(plane, group, class) > 0;
            if best.is_none_or(|(least, _)| load < least)
                && has_room
                && self.takes_batch(flash, plane)
                && self.all_reach(flash, batch, plane, group)
            {
                best = Some((load, plane));
            }
        }
        best.map(|(_, plane)| plane)
    }

    /// Whether the entries of a whole batch can point from the next page of `plane` to what they have.
    fn all_reach(&self, flash: &Flash, batch: &Batch<'_>, plane: u32, group: GroupId) -> bool {
        !self.pointers.direct
            || batch.parts.iter().all(|part| {
                let list = flash.plain(part.lpn);
                self.reaches(flash, &list, part.mask, plane, group)
            })
    }

    /// Whether an entry can point from the next page of `plane` to what `mask` leaves of `list`.
    fn reaches(&self, flash: &Flash, list: &FragmentList, mask: u64, plane: u32, group: GroupId) -> bool {
        let Some(old) = list.iter().find(|f| f.mask & !mask != 0) else { return true };
        !self.pointers.direct
            || flash
                .next_page(plane, group)
                .is_some_and(|new| self.pointers.reaches(flash.geometry(), new, old.ppn))
    }

    /// Programs one part: as a version, as the only page, or after an RMW.
    pub(super) fn place_one(
        &mut self,
        flash: &mut Flash,
        write: &Write<'_>,
        part: &Part<'_>,
        rest: &mut dyn Rest,
    ) {
        let &Part { lpn, mask, contents, release, load, rewrite, .. } = part;
        let list = flash.plain(lpn);
        if !self.versions || keep(&list, mask) == 0 {
            return rest.place_part(flash, write, part);
        }
        let plan = self.plan(flash, lpn, mask, rewrite);
        let more = if let Plan::Newest(more) = plan { more } else { 0 };
        let union = mask | more;
        let stays = keep(&list, union) != 0;
        let group = flash.host_group(lpn, write.stream);
        let class = PageClass { full: false, alone: part.alone };
        let plane = flash.granted_plane(lpn, group, class);
        // A version that takes the place of another in the same plane needs no budget.
        let newest = list[0].ppn;
        let replaces = in_page(&list, newest) & !union == 0
            && flash.blocks().is_surplus(newest)
            && flash.media().plane_of(newest) == plane
            && matches!(flash.array().oob(newest).extents, Extents::Home { .. });
        let admitted = !stays || replaces || self.has_budget(flash, Some(plane));
        if !admitted || !self.reaches(flash, &list, union, plane, group) {
            self.stats.refused += 1;
            return rest.place_part(flash, write, part);
        }
        let mut after: SmallVec<[OpId; 4]> = load.into_iter().collect();
        let mut reads = Reads::new();
        if more != 0 {
            flash.read(lpn, more, Cause::Rmw, None, &after, &mut reads);
            after.extend(reads.iter().map(|&(_, op)| op));
        }
        let extents = extents_at_home(flash, lpn, union);
        let page = Page::data(plane, group, class, shape(lpn, &extents)).for_request(write.request, release);
        let (ppn, op) = flash.append(&page, &after);
        if more != 0 {
            flash.mark_rmw(op, reads.iter().map(|&(_, op)| op));
        }
        flash.count_host_sectors(mask);
        flash.carry(lpn, more, ppn, 0);
        flash.fill(ppn, mask, 0, contents);
        flash.attach(lpn, Fragment { mask: union, ppn, shift: 0 }, op);
        if stays {
            flash.mark_surplus(ppn);
            self.stats.versions_written += 1;
        }
    }
}

/// Distinct physical pages of a list.
pub(super) fn pages(list: &[Fragment]) -> usize {
    (0..list.len()).filter(|&n| list[..n].iter().all(|f| f.ppn != list[n].ppn)).count()
}

/// The sectors of a list that `mask` leaves standing.
pub(super) fn keep(list: &[Fragment], mask: u64) -> u64 {
    list.iter().fold(0, |all, f| all | f.mask) & !mask
}

/// The sectors of a list that lie in `ppn`.
pub(super) fn in_page(list: &[Fragment], ppn: Ppn) -> u64 {
    list.iter().filter(|f| f.ppn == ppn).fold(0, |all, f| all | f.mask)
}

pub(super) fn extents_at_home(flash: &Flash, lpn: u32, mask: u64) -> SmallVec<[Extent; 2]> {
    let base = u64::from(lpn) * u64::from(flash.sectors_per_page());
    runs(mask)
        .map(|(start, len)| Extent { lsn: base + u64::from(start), sectors: len as u8, at: start as u8 })
        .collect()
}

pub(super) fn shape(lpn: u32, extents: &[Extent]) -> Extents<'_> {
    match extents {
        [e] => Extents::Home { lpn, start: e.at, len: e.sectors },
        list => Extents::List(list),
    }
}
