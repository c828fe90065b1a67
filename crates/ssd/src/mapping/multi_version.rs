//! MV-FTL (WAFLASH, section III-B, Figs. 4 and 5): a partial update is programmed alone, as a newer
//! version of its logical page; nothing is read. The older data stays where it is until both are
//! brought together.
//!
//! | sub-request | what is done |
//! | --- | --- |
//! | covers all that is stored | programmed; everything older dies |
//! | partial, one page stored | programmed alone, the newer version |
//! | partial, as many versions as allowed | the newest version is read if it is not covered, the union programmed in its stead; the base is not read |
//! | small partial pages in one batch | one physical page for all of them: [`compaction`] |
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
//! 3. under pressure: extra pages are bounded by `version_budget`, a share of the pages that hold nothing
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

use nandle_nand::{Cause, Extent, Extents, Geometry, OpId, PageUse, Ppn};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use smallvec::SmallVec;

use super::compaction::{self, Group, Packing};
use super::{Part, Write, page};
use crate::allocation::{PageClass, Role};
use crate::config::{DeviceConfig, ENTRY_BYTES};
use crate::flash::{Flash, Owner, PLAIN, Page, Reads};
use crate::fragments::{Fragment, FragmentList, runs};
use crate::striping::Striping;

crate::catalog! {
    /// How an entry points to the next version.
    pub enum PointerKind {
        /// By a place in a table.
        Indirect = "indirect",
        /// By the distance between the two pages.
        Direct = "direct",
    }
}

/// `[scheme.multi_version]`
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MultiVersionConfig {
    /// Physical pages that a logical page may consist of (2 to 8).
    pub max_versions: u32,
    /// How a mapping entry points to the next version.
    pub pointer: PointerKind,
    /// Share of the pages that hold no logical page of their own and are no reserve (spare, or not
    /// written by the host) that versions may take (0 to 1).
    pub version_budget: f64,
    /// Size of the table of page numbers with `pointer = "indirect"`, in shares of the mapping table (0 to 1).
    pub table_share: f64,
    /// Nanoseconds without any work after which versions are merged; 0 = never.
    pub idle_merge_after_ns: u64,
    /// Most logical pages of a compacted page that garbage collection takes apart.
    pub gc_merge: u32,
}

impl Default for MultiVersionConfig {
    fn default() -> Self {
        Self {
            max_versions: 2,
            pointer: PointerKind::Indirect,
            version_budget: 0.5,
            table_share: 0.01,
            idle_merge_after_ns: 10_000_000,
            gc_merge: 2,
        }
    }
}

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

/// Places partial updates as versions, or small ones together, or both.
#[derive(Clone, Debug)]
pub struct MultiVersion {
    settings: MultiVersionConfig,
    /// Partial updates become versions; else only compaction keeps extra pages.
    versions: bool,
    packing: Option<Packing>,
    pointers: Pointers,
    /// The plane whose extra pages are looked at next.
    turn: u32,
}

/// The PT/F part of the mapping entries, and the table.
#[derive(Clone, Debug)]
struct Pointers {
    direct: bool,
    /// An entry has room for two page numbers of the plane.
    both: bool,
    /// Bits beside the physical page number.
    bits: u32,
    slot_bytes: u32,
    /// Places of the table.
    slots: u32,
}

impl Pointers {
    /// `in_place`: all pages of a logical page that are not compacted lie in one plane.
    fn new(settings: &MultiVersionConfig, g: &Geometry, logical_pages: u32, in_place: bool) -> Self {
        let number_bits = 64 - (g.pages() - 1).leading_zeros().min(63);
        let slot_bytes = number_bits.div_ceil(8);
        let bytes = settings.table_share * f64::from(logical_pages) * f64::from(ENTRY_BYTES);
        let slots = (bytes / f64::from(slot_bytes)) as u32;
        // Half an entry is a page of the plane, a place in the table, or nothing.
        let codes = (1_u32 << (4 * ENTRY_BYTES)).saturating_sub(g.blocks_per_plane * g.pages_per_block + 1);
        // A table with a place for each logical page needs no such economy.
        let both = in_place && settings.max_versions == 2 && codes > 0 && slots < logical_pages;
        Self {
            direct: settings.pointer == PointerKind::Direct,
            both,
            bits: (8 * ENTRY_BYTES).saturating_sub(number_bits),
            slot_bytes,
            slots: if both { slots.min(codes) } else { slots },
        }
    }

    /// Whether an entry can say how far `to` is from `from`.
    fn reaches(&self, g: &Geometry, from: Ppn, to: Ppn) -> bool {
        let number = |ppn: Ppn| {
            let block = g.block_of(ppn);
            let in_plane = u64::from(block.0 & ((1 << g.block_bits()) - 1));
            let block = u64::from(g.plane_of(block)) * u64::from(g.blocks_per_plane) + in_plane;
            (block * u64::from(g.pages_per_block) + u64::from(g.page_of(ppn))) as i64
        };
        let half = if self.bits == 0 { 0 } else { 1_i64 << (self.bits - 1) };
        (-half..half).contains(&(number(to) - number(from)))
    }
}

impl MultiVersion {
    pub(crate) fn new(config: &DeviceConfig, logical_pages: u32, versions: bool) -> Self {
        let scheme = &config.scheme;
        let packing = Packing::new(config).ok().filter(|_| scheme.compaction);
        Self {
            settings: scheme.multi_version,
            versions,
            packing,
            pointers: Pointers::new(
                &scheme.multi_version,
                &config.geometry,
                logical_pages,
                Striping::new(&scheme.striping, &config.geometry).is_ok_and(|s| s.is_static()),
            ),
            turn: 0,
        }
    }

    pub(crate) fn idle_after(&self) -> Option<u64> {
        Some(self.settings.idle_merge_after_ns).filter(|&ns| ns > 0)
    }

    // ---- bounds -----------------------------------------------------------------------------

    /// Extra pages that `plane` may hold.
    fn budget(&self, flash: &Flash, plane: u32) -> u32 {
        (f64::from(flash.unused_pages(plane)) * self.settings.version_budget) as u32
    }

    /// Whether `quarters` of the room that `plane` has for extra pages are used up.
    fn reached(&self, flash: &Flash, plane: u32, quarters: u32) -> bool {
        let count = flash.blocks.extra(plane) + flash.areas_in(plane);
        u64::from(count) * 4 >= u64::from(self.budget(flash, plane)) * u64::from(quarters)
    }

    /// Whether an entry says both places of its logical page, compacted pages aside.
    fn says_both(&self, flash: &Flash) -> bool {
        self.pointers.both && !flash.objects_may_come()
    }

    /// Whether a version that is not compacted needs no place in the table.
    fn in_entry(&self, flash: &Flash) -> bool {
        self.pointers.direct || self.says_both(flash)
    }

    /// Places of the table in use.
    fn places(&self, flash: &Flash) -> u32 {
        if self.says_both(flash) { flash.blocks.shared_total() } else { flash.blocks.extra_total() }
    }

    /// Whether `quarters` of the table are in use.
    fn table_reached(&self, flash: &Flash, quarters: u32) -> bool {
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
    fn takes_group(&self, flash: &Flash, plane: u32) -> bool {
        !self.table_reached(flash, 4) && !self.reached(flash, plane, 4)
    }

    /// Bytes of the table's places in use; what points past the table counts as one.
    pub(crate) fn table_bytes(&self, flash: &Flash) -> u64 {
        let places = if self.pointers.direct {
            let g = flash.geometry();
            let far = |two: &[Fragment]| !self.pointers.reaches(g, two[0].ppn, two[1].ppn);
            (0..flash.fragments.len()).filter(|&lpn| flash.own(lpn).windows(2).any(far)).count() as u64
        } else {
            u64::from(self.places(flash))
        };
        places * u64::from(self.pointers.slot_bytes)
    }

    // ---- placing ----------------------------------------------------------------------------

    /// Whether a small partial page of `lpn` may go to a compacted page.
    pub(crate) fn compacts(&self, flash: &Flash, lpn: u32, mask: u64) -> bool {
        self.packing.is_some_and(|packing| packing.is_small(mask) && packing.start(mask).fits(1))
            && self.plan(flash, lpn, mask) == Plan::Alone
    }

    /// What has to be read before `mask` of `lpn` is written, budget and pointers aside.
    fn plan(&self, flash: &Flash, lpn: u32, mask: u64) -> Plan {
        let list = flash.own(lpn);
        if let Some(rest) = self.advised(flash, lpn, mask, &list) {
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

    /// What an advisor would have rewritten with `mask`, if that leaves no more pages than allowed.
    #[inline]
    fn advised(&self, flash: &Flash, lpn: u32, mask: u64, list: &FragmentList) -> Option<u64> {
        if flash.advisors.is_empty() || !self.versions {
            return None;
        }
        let rest = flash.advised_rewrite(lpn, mask, keep(list, mask))?;
        let left: FragmentList = list.iter().filter(|f| f.mask & !(mask | rest) != 0).copied().collect();
        (pages(&left) < self.settings.max_versions as usize).then_some(rest)
    }

    /// The pages that are read before `mask` of `lpn` is programmed.
    pub(crate) fn reads_before(&self, flash: &Flash, lpn: u32, mask: u64) -> SmallVec<[Ppn; 4]> {
        let list = flash.own(lpn);
        if keep(&list, mask) == 0 {
            return SmallVec::new();
        }
        let plan = if self.compacts(flash, lpn, mask) {
            Plan::Alone
        } else if self.versions && self.has_budget(flash, flash.home(lpn)) {
            self.plan(flash, lpn, mask)
        } else {
            Plan::Everything
        };
        match plan {
            Plan::Alone => SmallVec::new(),
            Plan::Newest(rest) => list.iter().filter(|f| f.mask & rest != 0).map(|f| f.ppn).collect(),
            Plan::Everything => list.iter().filter(|f| f.mask & !mask != 0).map(|f| f.ppn).collect(),
        }
    }

    /// Places a write; how many programs its request waits for.
    pub(crate) fn place(&mut self, flash: &mut Flash, write: &Write<'_>) -> u32 {
        let mut programs = 0;
        let mut group = Group::default();
        for part in write.parts {
            match self.packing {
                Some(packing) if write.parts.len() > 1 && self.compacts(flash, part.lpn, part.mask) => {
                    if !group.admits(flash, &packing, write.stream, part) {
                        programs += self.place_group(flash, write, &group);
                        group = Group::default();
                        group.admits(flash, &packing, write.stream, part);
                    }
                    group.parts.push(*part);
                }
                _ => {
                    self.place_part(flash, write, part, 0);
                    programs += 1;
                }
            }
        }
        programs += self.place_group(flash, write, &group);
        self.relieve(flash);
        programs
    }

    fn place_group(&mut self, flash: &mut Flash, write: &Write<'_>, group: &Group<'_>) -> u32 {
        if let (Some(packing), Some(plane), 2..) =
            (self.packing, self.plane_of_group(flash, write, group), group.parts.len())
        {
            compaction::place(flash, &packing, write, &group.parts, plane);
            return 1;
        }
        for part in &group.parts {
            self.place_part(flash, write, part, 0);
        }
        group.parts.len() as u32
    }

    /// The least busy of the planes of a group's logical pages that take another extra page.
    fn plane_of_group(&self, flash: &mut Flash, write: &Write<'_>, group: &Group<'_>) -> Option<u32> {
        let first = group.parts.first()?;
        let class = PageClass { full: false, alone: write.alone };
        let role = flash.host_role(first.lpn, write.stream);
        if flash.home(first.lpn).is_none() {
            let plane = flash.choose_plane(first.lpn, role, class)?;
            return (self.takes_group(flash, plane) && self.all_reach(flash, group, plane, role, class))
                .then_some(plane);
        }
        let mut best: Option<(u32, u32)> = None;
        for part in &group.parts {
            let plane = flash.home(part.lpn)?;
            let load = flash.nand.load(flash.geometry().die_of_plane(plane));
            // A plane that can gain nothing may have none: its pages go elsewhere, each by itself.
            let has_room = matches!(role, Role::Object(_)) || flash.room(plane, role, class) > 0;
            if best.is_none_or(|(least, _)| load < least)
                && has_room
                && self.takes_group(flash, plane)
                && self.all_reach(flash, group, plane, role, class)
            {
                best = Some((load, plane));
            }
        }
        best.map(|(_, plane)| plane)
    }

    /// Whether the entries of a whole group can point from the next page of `plane` to what they have.
    fn all_reach(&self, flash: &Flash, group: &Group<'_>, plane: u32, role: Role, class: PageClass) -> bool {
        !self.pointers.direct
            || group.parts.iter().all(|part| {
                let list = flash.own(part.lpn);
                self.reaches(flash, &list, part.mask, plane, role, class)
            })
    }

    /// Whether an entry can point from the next page of `plane` to what `mask` leaves of `list`.
    fn reaches(
        &self,
        flash: &Flash,
        list: &FragmentList,
        mask: u64,
        plane: u32,
        role: Role,
        class: PageClass,
    ) -> bool {
        let Some(old) = list.iter().find(|f| f.mask & !mask != 0) else { return true };
        !self.pointers.direct
            || flash
                .next_page(plane, role, class)
                .is_some_and(|new| self.pointers.reaches(flash.geometry(), new, old.ppn))
    }

    /// Programs one part: as a version, as the only page, or after an RMW. The sectors `held` lie in
    /// areas, where they stay.
    pub(crate) fn place_part(&mut self, flash: &mut Flash, write: &Write<'_>, part: &Part<'_>, held: u64) {
        let &Part { lpn, mask, contents, release, load } = part;
        let list = flash.own(lpn);
        if !self.versions || keep(&list, mask) == 0 {
            return page::place_beside(flash, write, part, held, &mut Reads::new());
        }
        let plan = self.plan(flash, lpn, mask);
        let rest = if let Plan::Newest(rest) = plan { rest } else { 0 };
        let union = mask | rest;
        let stays = keep(&list, union) != 0;
        let (role, class) =
            (flash.host_role(lpn, write.stream), PageClass { full: false, alone: write.alone });
        let plane = flash.choose_plane(lpn, role, class).expect("room was checked");
        // A version that takes the place of another in the same plane needs no budget.
        let g = flash.geometry();
        let newest = list[0].ppn;
        let replaces = in_page(&list, newest) & !union == 0
            && flash.blocks.is_extra(newest)
            && g.plane_of(g.block_of(newest)) == plane
            && matches!(flash.array().oob(newest).extents, Extents::Home { .. });
        let admitted = !stays || replaces || self.has_budget(flash, Some(plane));
        if !admitted || !self.reaches(flash, &list, union, plane, role, class) {
            flash.stats.multi_version.refused += 1;
            return page::place_beside(flash, write, part, held, &mut Reads::new());
        }
        let mut after: SmallVec<[OpId; 4]> = load.into_iter().collect();
        let mut reads = SmallVec::new();
        if rest != 0 {
            flash.read(lpn, rest, Cause::Rmw, None, &after, &mut reads);
            after.extend(reads.iter().map(|&(_, op)| op));
        }
        let extents = extents_at_home(flash, lpn, union);
        let owner = Owner { request: write.request, release };
        let extents = shape(lpn, &extents);
        let page = Page { plane, role, class, kind: PageUse::Data, extents, cause: Cause::Host, owner };
        let (ppn, op) = flash.append(&page, &after);
        if rest != 0 {
            let reads: SmallVec<[OpId; 4]> = reads.iter().map(|&(_, op)| op).collect();
            flash.mark_rmw(op, reads);
        }
        flash.count_host_sectors(mask);
        flash.carry(lpn, rest, ppn, 0);
        flash.fill(ppn, mask, 0, contents);
        flash.attach(lpn, Fragment { mask: union, ppn, shift: 0 }, op);
        if stays {
            flash.mark_extra(ppn);
            flash.stats.multi_version.versions_written += 1;
        }
    }

    // ---- merging ----------------------------------------------------------------------------

    /// Moves a live page of a victim, merging the versions of its logical pages where that takes no
    /// more room. How many programs in `plane` that took.
    pub(crate) fn relocate(&mut self, flash: &mut Flash, ppn: Ppn, plane: u32, role: Role) -> u32 {
        if flash.array().page_use(ppn) == PageUse::Data
            && let Some(lpns) = self.mergeable(flash, ppn)
        {
            if let [lpn] = lpns[..]
                && flash.home(lpn).is_none_or(|home| home == plane)
            {
                merge(flash, lpn, plane, role, Cause::Gc);
                flash.stats.multi_version.merges_gc += 1;
                return 1;
            }
            if lpns.len() <= self.settings.gc_merge as usize && self.merge_at_home(flash, &lpns) {
                flash.stats.multi_version.merges_gc += lpns.len() as u64;
                return 0;
            }
        }
        flash.relocate(ppn, plane, role);
        1
    }

    /// The logical pages that `ppn` holds data of, if one of them has more data elsewhere.
    fn mergeable(&self, flash: &Flash, ppn: Ppn) -> Option<SmallVec<[u32; 8]>> {
        let array = flash.array();
        if let Extents::Home { lpn, .. } = array.oob(ppn).extents
            && flash.fragments.single(lpn) == Some(ppn)
        {
            return None;
        }
        let mut lpns: SmallVec<[u32; 8]> = SmallVec::new();
        let mut several = false;
        for (lpn, _) in flash.fragments.live_in(ppn, array) {
            if !lpns.contains(&lpn) {
                several |= flash.own(lpn).iter().any(|f| f.ppn != ppn);
                lpns.push(lpn);
            }
        }
        several.then_some(lpns)
    }

    /// Brings each of `lpns` into one page of its own plane, if all of these have room.
    fn merge_at_home(&self, flash: &mut Flash, lpns: &[u32]) -> bool {
        let count = lpns.len() as u32;
        let class = |flash: &Flash, lpn: u32| PageClass {
            full: keep(&flash.own(lpn), 0) == flash.full_mask(),
            alone: true,
        };
        let fits = |&lpn: &u32| flash.has_room(lpn, flash.host_role(lpn, 0), class(flash, lpn), count);
        if !lpns.iter().all(fits) {
            return false;
        }
        for &lpn in lpns {
            let role = flash.host_role(lpn, 0);
            let Some(plane) = flash.choose_plane(lpn, role, class(flash, lpn)) else { return false };
            merge(flash, lpn, plane, role, Cause::Merge);
        }
        true
    }

    /// Merges what the oldest extra page of `plane` holds; how many logical pages that were, none if they
    /// have no room. Where there is nothing to bring together, the page becomes the youngest.
    fn merge_front(&mut self, flash: &mut Flash, plane: u32) -> Option<u64> {
        let ppn = flash.blocks.oldest_extra(plane)?;
        let Some(lpns) = self.mergeable(flash, ppn) else {
            flash.blocks.clear_extra(ppn);
            flash.mark_extra(ppn);
            return Some(0);
        };
        self.merge_at_home(flash, &lpns).then_some(lpns.len() as u64)
    }

    /// Merges the oldest extra page of `plane` that is worth it, if a short look finds it.
    fn merge_oldest(&mut self, flash: &mut Flash, plane: u32) -> u64 {
        for _ in 0..4 {
            match self.merge_front(flash, plane) {
                Some(0) => {}
                merged => return merged.unwrap_or(0),
            }
        }
        0
    }

    /// All of a write is placed. It may have taken room that versions were promised: the oldest are merged.
    pub(crate) fn placed(&mut self, flash: &mut Flash, write: &Write<'_>) {
        for part in write.parts {
            if let Some(f) = flash.own(part.lpn).first() {
                let g = flash.geometry();
                self.make_room(flash, g.plane_of(g.block_of(f.ppn)));
            }
        }
    }

    /// Whether `plane` holds more extra pages than it may.
    fn is_crowded(&self, flash: &Flash, plane: u32) -> bool {
        let extra = flash.blocks.extra(plane);
        extra > 0 && extra + flash.areas_in(plane) > self.budget(flash, plane)
    }

    fn make_room(&mut self, flash: &mut Flash, plane: u32) {
        /// A new page takes the room of one version at most; the others are for what was left over.
        const MOST: u32 = 3;
        for _ in 0..MOST {
            if !self.is_crowded(flash, plane) {
                return;
            }
            let merged = self.merge_oldest(flash, plane);
            if merged == 0 {
                return;
            }
            flash.stats.multi_version.merges_pressure += merged;
        }
    }

    /// Objects come: versions keep to the spare pages, and to their table. False if that has to wait until
    /// collection has made room for what they are merged to.
    pub(crate) fn give_way(&mut self, flash: &mut Flash) -> bool {
        flash.expect_objects();
        for plane in 0..flash.geometry().planes() {
            for _ in 0..flash.blocks.extra(plane) {
                let table_is_full = !self.in_entry(flash) && self.places(flash) > self.pointers.slots;
                if !table_is_full && !self.is_crowded(flash, plane) {
                    break;
                }
                let Some(merged) = self.merge_front(flash, plane) else { return false };
                flash.stats.multi_version.merges_pressure += merged;
            }
        }
        true
    }

    /// Under pressure, an idle chip merges its oldest version: one plane is looked at for each write.
    fn relieve(&mut self, flash: &mut Flash) {
        let plane = self.next_plane(flash);
        // For the table alone no compacted page is taken apart: that costs more programs than its place saves.
        let pressed = self.reached(flash, plane, 3) || !self.in_entry(flash) && self.table_reached(flash, 3);
        if flash.blocks.extra(plane) > 0 && pressed && flash.plane_is_idle(plane) {
            let merged = self.merge_oldest(flash, plane);
            flash.stats.multi_version.merges_pressure += merged;
        }
    }

    fn next_plane(&mut self, flash: &Flash) -> u32 {
        self.turn = (self.turn + 1) % flash.geometry().planes();
        self.turn
    }

    /// The drive is idle: the oldest version of each plane is merged. False if there is none.
    pub(crate) fn idle(&mut self, flash: &mut Flash) -> bool {
        let mut merged = 0;
        for _ in 0..flash.geometry().planes() {
            let plane = self.next_plane(flash);
            merged += self.merge_oldest(flash, plane);
        }
        flash.stats.multi_version.merges_idle += merged;
        merged > 0
    }
}

/// Distinct physical pages of a list.
fn pages(list: &[Fragment]) -> usize {
    (0..list.len()).filter(|&n| list[..n].iter().all(|f| f.ppn != list[n].ppn)).count()
}

/// The sectors of a list that `mask` leaves standing.
fn keep(list: &[Fragment], mask: u64) -> u64 {
    list.iter().fold(0, |all, f| all | f.mask) & !mask
}

/// The sectors of a list that lie in `ppn`.
fn in_page(list: &[Fragment], ppn: Ppn) -> u64 {
    list.iter().filter(|f| f.ppn == ppn).fold(0, |all, f| all | f.mask)
}

fn extents_at_home(flash: &Flash, lpn: u32, mask: u64) -> SmallVec<[Extent; 2]> {
    let base = u64::from(lpn) * u64::from(flash.sectors_per_page());
    runs(mask)
        .map(|(start, len)| Extent { lsn: base + u64::from(start), sectors: len as u8, at: start as u8 })
        .collect()
}

fn shape(lpn: u32, extents: &[Extent]) -> Extents<'_> {
    match extents {
        [e] => Extents::Home { lpn, start: e.at, len: e.sectors },
        list => Extents::List(list),
    }
}

/// Reads all that is stored of `lpn` and programs it as one page of `plane`.
fn merge(flash: &mut Flash, lpn: u32, plane: u32, role: Role, cause: Cause) {
    let background = role.may_use_reserve() && !flash.urgent(plane);
    let mut after: SmallVec<[OpId; 4]> = flash.load_map_page_of(lpn).into_iter().collect();
    let loads = after.len();
    let list = flash.own(lpn);
    for (n, f) in list.iter().enumerate() {
        if list[..n].iter().all(|g| g.ppn != f.ppn) {
            let sectors = in_page(&list, f.ppn).count_ones();
            let read = flash.nand.read(f.ppn, sectors, cause, background, &after[..loads]);
            flash.set_info(read, PLAIN);
            after.push(read);
        }
    }
    let mask = keep(&list, 0);
    let extents = extents_at_home(flash, lpn, mask);
    let page = Page {
        plane,
        role,
        class: PageClass { full: mask == flash.full_mask(), alone: true },
        kind: PageUse::Data,
        extents: shape(lpn, &extents),
        cause,
        owner: Owner::default(),
    };
    let (ppn, op) = flash.append(&page, &after);
    flash.carry(lpn, mask, ppn, 0);
    if flash.stored(lpn, !mask) == 0 {
        flash.replace(lpn, ppn, op);
    } else {
        // The rest lies in areas and stays there.
        flash.attach(lpn, Fragment { mask, ppn, shift: 0 }, op);
    }
}
