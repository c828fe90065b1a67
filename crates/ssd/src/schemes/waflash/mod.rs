//! WAFLASH: partial pages as newer versions of their logical pages (`versions`), and small ones packed
//! together into one physical page (`compaction`). Either works without the other. Its third part, the
//! write buffer, is a scheme of its own: PC-LRU.

use nandle_nand::{Ppn, Time};

use super::{Counter, Facts, Interests, Name, Pages, Plan, Published, Rest, Scheme, Seam, Surroundings};
use crate::buffer::{Buffer, Entry, Victims};
use crate::error::ConfigError;
use crate::flash::{Flash, Part, Write};
use crate::space::GroupId;

pub mod compaction;
mod merge;
mod pointers;
mod versions;

pub use compaction::{CompactedConfig, HeaderKind, Packing};
pub use pointers::{MultiVersionConfig, PointerKind};

use pointers::Pointers;

/// What multi-version storage and compaction did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MultiVersionStats {
    /// Partial pages programmed beside their older data.
    pub versions_written: u64,
    /// Logical pages brought together by garbage collection.
    pub merges_gc: u64,
    /// In idle time.
    pub merges_idle: u64,
    /// Because surplus pages ran short.
    pub merges_pressure: u64,
    /// Partial updates that were read, modified and written because surplus pages had run out.
    pub refused: u64,
    /// Physical pages filled with small partial pages.
    pub compacted_pages: u64,
    /// Runs of sectors in them.
    pub compacted_extents: u64,
}

/// Places partial updates as versions, or small ones together, or both.
#[derive(Clone, Debug)]
pub struct Waflash {
    settings: MultiVersionConfig,
    /// Partial updates become versions; else only compaction keeps surplus pages.
    versions: bool,
    packing: Option<Packing>,
    pointers: Pointers,
    /// The plane whose surplus pages are looked at next.
    turn: u32,
    stats: MultiVersionStats,
}

/// Partial updates become versions.
const VERSIONS: &str = "multi-version";
/// Small partial pages are packed together.
const COMPACTION: &str = "compaction";

impl Waflash {
    /// What it did.
    pub fn stats(&self) -> &MultiVersionStats {
        &self.stats
    }
}

impl Scheme for Waflash {
    fn interests(&self) -> Interests {
        let base = Interests::PLACE.and(Interests::RELOCATE).and(Interests::IDLE);
        if self.packing.is_some() { base.and(Interests::DESTAGE) } else { base }
    }

    /// The small partial page `slot` together with others of its region that share a physical page
    /// with it.
    fn accompany(&self, near: &dyn Surroundings, buffer: &Buffer, slot: u32) -> Option<Victims> {
        let packing = self.packing?;
        let joins = |entry: &Entry| {
            let rewrite = near.rewrites(entry.lpn, entry.mask);
            self.compacts(near.flash(), entry.lpn, entry.mask, rewrite)
        };
        let first = buffer.entry(slot);
        if !packing.is_small(first.mask) || !joins(first) {
            return None;
        }
        let mut victims = Victims::from_slice(&[slot]);
        let mut page = packing.start(first.mask);
        for lpn in buffer.small_around(first.lpn, packing.region_pages) {
            if page.is_filled() {
                break;
            }
            let Some(other) = buffer.slot(lpn) else { continue };
            let entry = buffer.entry(other);
            if entry.stream == first.stream && page.fits(entry.mask) && joins(entry) {
                page.add(entry.mask);
                victims.push(other);
            }
        }
        Some(victims)
    }

    fn place(&mut self, flash: &mut Flash, write: &Write<'_>, rest: &mut dyn Rest) -> u32 {
        self.place_write(flash, write, rest)
    }
    fn place_part(&mut self, flash: &mut Flash, write: &Write<'_>, part: &Part<'_>, rest: &mut dyn Rest) {
        self.place_one(flash, write, part, rest);
    }
    fn placed(&mut self, flash: &mut Flash, write: &Write<'_>) {
        self.make_room_for(flash, write);
    }
    fn reads_before(&self, flash: &Flash, lpn: u32, mask: u64, rewrite: Option<u64>) -> Option<Pages> {
        Some(self.pages_read(flash, lpn, mask, rewrite))
    }
    fn relocate(&mut self, flash: &mut Flash, ppn: Ppn, plane: u32, group: GroupId) -> Option<u32> {
        self.move_versions(flash, ppn, plane, group)
    }
    fn idle_after(&self) -> Option<Time> {
        Some(self.settings.idle_merge_after_ns).filter(|&ns| ns > 0)
    }
    fn idle(&mut self, flash: &mut Flash) -> bool {
        self.merge_idle(flash)
    }
    fn without_time(&self) -> Option<&'static str> {
        Some(
            "WAFLASH merges in idle time only in the gaps between arrivals, and finds every chip idle under pressure",
        )
    }
    fn make_way(&mut self, flash: &mut Flash) -> bool {
        self.leave_room(flash)
    }

    /// Of each logical page the oldest page of its own stays unmarked, all its others are surplus, in the
    /// order in which they were written.
    fn restore(&mut self, flash: &mut Flash) {
        let array = flash.array();
        let spp = flash.sectors_per_page();
        let mut surplus = std::collections::BTreeSet::new();
        let mut own = std::collections::BTreeSet::new();
        for lpn in 0..flash.logical_pages() {
            let list = flash.plain(lpn);
            let alone = |ppn: Ppn| {
                let mut alone = true;
                array.oob(ppn).extents.each(spp, |e| alone &= e.lsn / u64::from(spp) == u64::from(lpn));
                alone
            };
            own.extend(list.iter().rev().map(|f| f.ppn).find(|&ppn| alone(ppn)));
            surplus.extend(list.iter().map(|f| (array.seq(f.ppn), f.ppn)));
        }
        for (_, ppn) in surplus {
            if !own.contains(&ppn) {
                flash.mark_surplus(ppn);
            }
        }
    }
    fn footprint(&self, flash: &Flash) -> u64 {
        self.table_bytes(flash)
    }
    fn reset_counters(&mut self) {
        self.stats = MultiVersionStats::default();
    }
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

impl Published for Waflash {
    const NAMES: &'static [Name] = &[
        Name {
            seam: Seam::Mapping,
            name: VERSIONS,
            line: "Partial updates are written as newer versions of their page, merged later (WAFLASH).",
        },
        Name {
            seam: Seam::Compaction,
            name: COMPACTION,
            line: "Small partial pages that leave the buffer together share a physical page (WAFLASH).",
        },
    ];
    const COUNTERS: &'static [Counter<Self>] = &[
        Counter::new(
            "multi_version.versions_written",
            "partial pages programmed beside their older data",
            |own, _| own.stats.versions_written,
        ),
        Counter::new(
            "multi_version.merges_gc",
            "logical pages brought together by garbage collection",
            |own, _| own.stats.merges_gc,
        ),
        Counter::new("multi_version.merges_idle", "logical pages brought together in idle time", |own, _| {
            own.stats.merges_idle
        }),
        Counter::new(
            "multi_version.merges_pressure",
            "logical pages brought together because surplus pages ran short",
            |own, _| own.stats.merges_pressure,
        ),
        Counter::new(
            "multi_version.refused",
            "partial updates read, modified and written for want of surplus pages",
            |own, _| own.stats.refused,
        ),
        Counter::new(
            "multi_version.compacted_pages",
            "physical pages filled with small partial pages",
            |own, _| own.stats.compacted_pages,
        ),
        Counter::new(
            "multi_version.compacted_extents",
            "runs of sectors in pages that small partial pages fill",
            |own, _| own.stats.compacted_extents,
        ),
        Counter::new(
            "multi_version.max_extra_pages",
            "most physical pages at a time beyond one per logical page",
            |_, flash| u64::from(flash.blocks().surplus_peak()),
        ),
    ];
    type Config<'a> = (&'a MultiVersionConfig, &'a CompactedConfig);

    fn plan((v, compacted): Self::Config<'_>, facts: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError> {
        let field = |name: &str| format!("scheme.multi_version.{name}");
        if !(2..=8).contains(&v.max_versions) {
            return Err(ConfigError::new(&field("max_versions"), v.max_versions, "2 to 8"));
        }
        ConfigError::share(&field("version_budget"), v.version_budget, 1.0)?;
        ConfigError::share(&field("table_share"), v.table_share, 1.0)?;
        if let Some(other) = plan.packs {
            let expected = format!("false: mapping {other:?} packs parts of pages by itself");
            return Err(if facts.chosen(COMPACTION) {
                ConfigError::new("scheme.compaction", true, expected)
            } else {
                let expected = format!("{other:?} alone: it packs parts of pages by itself");
                ConfigError::new("scheme.mapping", format!("{other}+{VERSIONS}"), expected)
            });
        }
        if facts.chosen(COMPACTION) {
            plan.buffer.small = Some(Packing::new(compacted, facts.geometry)?.half);
        }
        plan.space.surplus = Some(true);
        plan.surplus_blocks = 1;
        plan.scatters = true;
        Ok(())
    }
    fn inherit(&mut self, before: &Self) {
        self.stats = before.stats.clone();
    }
    fn new((v, compacted): Self::Config<'_>, facts: &Facts<'_>, logical_pages: u32) -> Self {
        let packing = Packing::new(compacted, facts.geometry).ok();
        Self {
            settings: *v,
            versions: facts.chosen(VERSIONS),
            packing: packing.filter(|_| facts.chosen(COMPACTION)),
            pointers: Pointers::new(v, facts.geometry, logical_pages, facts.static_striping),
            turn: 0,
            stats: MultiVersionStats::default(),
        }
    }
}
