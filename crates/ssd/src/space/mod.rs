//! Space: which blocks are what, who writes them, and where the next page goes.
//!
//! Knows groups, not what they stand for: streams, reclaim-unit handles and objects are all groups of
//! writes with blocks of their own. Orders nothing and changes no map.

use nandle_nand::{Block, Geometry, Ppn};

mod beyond;
mod blocks;
mod cached;
pub mod claims;
mod config;
mod dedicated;
mod dedicated_blocks;
mod frontiers;
mod group;
mod groups;
mod in_order;
mod looks;
mod pacing;
mod page_types;
mod partial_blocks;
mod room;
mod slc;
mod striping;
mod surplus;
mod turnover;
mod typed;

pub use blocks::{Blocks, Candidates, State};
pub use config::{SuperblockConfig, WearConfig};
pub use dedicated::{Dedicated, DedicatedPlan, Group, NewGroup};
pub use group::{GroupId, PageClass};
pub use pacing::{Need, PacingKind};
pub use page_types::{Note, PageTypes, Step, Steps};
pub use slc::{Fold, SlcConfig};
pub use striping::Striping;

use crate::error::ConfigError;
use crate::media::Media;
use frontiers::Frontiers;
use slc::Cache;

/// Shares of each plane's blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Free blocks that host writes never take.
    pub hard: u32,
    /// Free blocks below which collection runs.
    pub soft: u32,
    /// Free blocks below which host writes may find no room.
    pub kept: u32,
    /// Blocks that all logical pages and what the drive stores for itself fill.
    pub data: u32,
    /// Blocks that surplus pages may take at the least.
    pub surplus: u32,
    /// Least good blocks with which all logical pages and the reserve fit.
    pub least: u32,
}

/// What the schemes of a drive ask of its space.
#[derive(Clone, Debug)]
pub struct SpacePlan {
    /// Host streams, each with open blocks of its own.
    pub streams: u16,
    /// Collection keeps the survivors of each stream apart.
    pub survivors_apart: bool,
    /// There are dedicated groups.
    pub dedicated: Option<DedicatedPlan>,
    /// Page types are chosen.
    pub page_types: Option<PageTypes>,
    /// Pages beyond one per logical page are tracked; true: one that becomes the only page of its logical
    /// page is none any more.
    pub surplus: Option<bool>,
}

impl Default for SpacePlan {
    fn default() -> Self {
        Self { streams: 1, survivors_apart: false, dedicated: None, page_types: None, surplus: None }
    }
}

impl SpacePlan {
    /// Host streams and the groups of their survivors.
    pub fn host_groups(&self) -> u32 {
        u32::from(self.streams) * if self.survivors_apart { 2 } else { 1 }
    }
}

/// What the device file says of it.
#[derive(Clone, Copy, Debug)]
pub struct SpaceSettings<'a> {
    /// `scheme.striping`.
    pub striping: &'a str,
    /// `scheme.pacing`.
    pub pacing: PacingKind,
    /// `wear.dynamic`.
    pub by_wear: bool,
    /// `gc.types_ahead`.
    pub types_ahead: bool,
    /// Logical pages.
    pub logical_pages: u32,
    /// `[slc]`, and the blocks of each plane that are the cache's own.
    pub slc: (&'a SlcConfig, u32),
}

/// Where a page goes.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// The page.
    pub ppn: Ppn,
    /// Its plane.
    pub plane: u32,
    /// The group that it is written for at last: the host's where a dedicated group is at its end.
    pub group: GroupId,
}

/// Blocks, groups and write frontiers of a drive.
#[derive(Clone, Debug)]
pub struct Space {
    blocks: Blocks,
    frontiers: Frontiers,
    striping: Striping,
    dedicated: Option<Box<Dedicated>>,
    cache: Option<Box<Cache>>,
    streams: u16,
    survivors_apart: bool,
    limits: Limits,
    pacing: PacingKind,
    types_ahead: bool,
    /// Planes whose free blocks changed: collection looks at them.
    look: Vec<u32>,
    /// A host write waits for a page of its type, which others being left cannot give.
    called: Vec<bool>,
    /// Collection found nothing to gain in the plane when it last looked.
    stuck: Vec<bool>,
    /// A surplus page that becomes the only page of its logical page is none any more.
    surplus_settles: bool,
    /// Pages of each plane that are more than one per logical page and not marked as surplus.
    apart: Vec<u32>,
    /// What is at the front of the host's queue waits for room.
    host_waits: bool,
    /// Room may have come for what waits.
    progress: bool,
    /// Host pages written to each stream.
    host_pages: Vec<u64>,
    /// Survivors that found no place with their own group.
    mixed_pages: u64,
    planes: u32,
    pages_per_block: u32,
    /// A write that found room found it in its home plane.
    stays_home: bool,
    /// Where units share pages: the plane in which each group last opened one.
    gathering: Vec<u32>,
}

impl Space {
    pub(crate) fn new(
        plan: &SpacePlan,
        settings: SpaceSettings<'_>,
        limits: Limits,
        media: &Media,
        seed: u64,
    ) -> Result<Self, ConfigError> {
        let array = media.array();
        let g: &Geometry = array.geometry();
        let planes = g.planes();
        let mut blocks = Blocks::new(g, settings.by_wear);
        let gathers = array.slots() > 1;
        if plan.surplus.is_some() || gathers {
            // Counts live pages by plane as well.
            blocks.track_surplus();
        }
        blocks.set_least_gain(array.slots());
        let (slc, of_cache) = settings.slc;
        blocks.set_cache(of_cache);
        let rules = plan.page_types.as_ref();
        Ok(Self {
            blocks,
            frontiers: Frontiers::new(rules, array, plan.host_groups(), limits.hard, seed),
            striping: Striping::new(settings.striping, g)?.by_pages(gathers),
            gathering: vec![0; if gathers { GroupId::count(plan.host_groups()) as usize } else { 0 }],
            dedicated: plan.dedicated.map(|plan| Box::new(Dedicated::new(g, settings.logical_pages, plan))),
            cache: (!slc.is_off()).then(|| Box::new(Cache::new(slc, array.slc_pages()))),
            streams: plan.streams,
            survivors_apart: plan.survivors_apart,
            limits,
            pacing: settings.pacing,
            types_ahead: settings.types_ahead,
            look: Vec::new(),
            called: vec![false; planes as usize],
            stuck: vec![false; planes as usize],
            surplus_settles: plan.surplus == Some(true),
            apart: vec![0; planes as usize],
            host_waits: false,
            progress: false,
            host_pages: vec![0; usize::from(plan.streams)],
            mixed_pages: 0,
            planes,
            pages_per_block: g.pages_per_block,
            stays_home: plan.dedicated.is_none() && !gathers && rules.is_none(),
        })
    }

    /// The blocks.
    #[inline]
    pub fn blocks(&self) -> &Blocks {
        &self.blocks
    }
    #[inline]
    pub(crate) fn blocks_mut(&mut self) -> &mut Blocks {
        &mut self.blocks
    }
    /// The shares of each plane's blocks.
    #[inline]
    pub fn limits(&self) -> &Limits {
        &self.limits
    }
    #[inline]
    fn home(&self, lpn: u32) -> Option<u32> {
        match &self.striping {
            Striping::Static(order) => Some(order.plane(lpn)),
            Striping::Dynamic(_) => None,
        }
    }
    /// Whether nothing is special: one stream, one open block for each group and plane, no block that is the SLC cache's
    /// or dedicated, and no pages beyond one per logical page.
    pub(crate) fn is_plain(&self) -> bool {
        self.stays_home
            && self.cache.is_none()
            && (self.streams, self.survivors_apart) == (1, false)
            && !self.blocks.tracks_surplus()
    }
    /// The plane that pages of `lpn` alone must lie in; none if any plane does.
    #[inline]
    pub fn home_plane(&self, lpn: u32) -> Option<u32> {
        self.home(lpn)
    }
    /// Whether the logical page number alone says where a page goes.
    #[inline]
    pub fn stripes_by_number(&self) -> bool {
        self.striping.is_static()
    }

    /// Checks that every count agrees with what it counts; for tests. `apart`: open blocks that are
    /// nobody's.
    pub(crate) fn check(&self, media: &Media, apart: &[Block]) {
        self.blocks.check();
        self.frontiers.check(media.array(), &self.blocks, apart);
        let Some(dedicated) = &self.dedicated else { return };
        dedicated.claims().check();
        for (block, state) in self.blocks.each() {
            let Some(number) = self.blocks.group(block) else { continue };
            assert!(!matches!(state, State::Free | State::Bad), "a free block that is dedicated");
            let blocks = dedicated.group(number).blocks();
            assert!(blocks.contains(&block), "{block:?} is not in the books of group {number}");
            for page in 0..self.pages_per_block {
                let ppn = media.geometry().ppn(block, page);
                if self.blocks.is_live(ppn) {
                    let written_for = GroupId::from_number(media.array().oob(ppn).stream);
                    assert_eq!(written_for, GroupId::Dedicated(number), "{block:?} holds another group's");
                }
            }
        }
    }
}
