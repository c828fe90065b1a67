//! How a write is placed, and when fragments are merged.

use nandle_nand::{OpId, Ppn, Time};
use smallvec::SmallVec;

use crate::allocation::Role;
use crate::config::DeviceConfig;
use crate::flash::{Contents, Flash};
use across::Inner;
use multi_version::MultiVersion;

pub mod across;
pub mod compaction;
pub mod mrsm;
pub mod multi_version;
pub mod page;

crate::catalog! {
    /// How a write is placed.
    pub enum MappingKind {
        /// One physical page per logical page; partial updates read, modify and write (the baseline).
        Page = "page",
        /// Partial updates are written as newer versions of their page, merged later (WAFLASH).
        MultiVersion = "multi-version",
        /// Writes over a page border get a page of their own (Across-FTL).
        Across = "across",
        /// Regions mapped by page or by sub-page, sub-pages packed together (MRSM).
        Mrsm = "mrsm",
        /// Across-page areas for writes over a border, versions for other partial updates.
        AcrossVersions = "across+multi-version",
    }
}

impl MappingKind {
    /// Whether writes over a page border get a page of their own.
    pub fn has_areas(self) -> bool {
        matches!(self, Self::Across | Self::AcrossVersions)
    }
    /// Whether partial updates are written as versions.
    pub fn has_versions(self) -> bool {
        matches!(self, Self::MultiVersion | Self::AcrossVersions)
    }
    /// Most programs in one plane that room is asked for at once: those of the two parts of a run.
    pub(crate) fn pages_at_once(self) -> u32 {
        if self.has_areas() { 6 } else { 2 }
    }
}

/// Some sectors of one logical page, on their way to flash.
#[derive(Clone, Copy, Debug)]
pub struct Part<'a> {
    /// Logical page.
    pub lpn: u32,
    /// Its sectors.
    pub mask: u64,
    /// Their contents.
    pub contents: Contents<'a>,
    /// Buffered sectors that its program gives back.
    pub release: u32,
    /// The load of its mapping entry, if that is under way.
    pub load: Option<OpId>,
}

/// What is placed together: one part as a rule; the two parts of a run that straddles a page border
/// (a host request no larger than a page); or what a buffer destages in one batch.
#[derive(Clone, Copy, Debug)]
pub struct Write<'a> {
    /// In ascending order.
    pub parts: &'a [Part<'a>],
    /// The request that waits for all of its programs, if one does.
    pub request: Option<u32>,
    /// The host's stream id.
    pub stream: u16,
    /// The host request fell in one logical page.
    pub alone: bool,
    /// The host request's first sector and end; nothing for what a buffer destages.
    pub range: (u64, u64),
}

/// A mapping scheme with its state.
#[derive(Clone, Debug)]
pub enum Mapping {
    /// See [`page`].
    Page,
    /// See [`across`].
    Across {
        /// Areas shrink instead of rolling back.
        shrink: bool,
        /// What places everything else.
        inner: Inner,
    },
    /// See [`mrsm`].
    Mrsm,
    /// See [`multi_version`] and [`compaction`].
    MultiVersion(Box<MultiVersion>),
}

impl Mapping {
    pub(crate) fn new(config: &DeviceConfig, logical_pages: u32) -> Self {
        let kind = config.scheme.mapping;
        let versions = (kind.has_versions() || config.scheme.compaction)
            .then(|| Box::new(MultiVersion::new(config, logical_pages, kind.has_versions())));
        match (kind, versions) {
            (MappingKind::Mrsm, _) => Self::Mrsm,
            (kind, versions) if kind.has_areas() => Self::Across {
                shrink: config.scheme.across.shrink,
                inner: versions.map_or(Inner::Page, Inner::MultiVersion),
            },
            (_, Some(scheme)) => Self::MultiVersion(scheme),
            (_, None) => Self::Page,
        }
    }

    /// The scheme that keeps versions or compacted pages, if there is one.
    #[inline]
    fn versions(&self) -> Option<&MultiVersion> {
        match self {
            Self::MultiVersion(scheme) | Self::Across { inner: Inner::MultiVersion(scheme), .. } => {
                Some(scheme)
            }
            Self::Page | Self::Mrsm | Self::Across { inner: Inner::Page, .. } => None,
        }
    }
    #[inline]
    fn versions_mut(&mut self) -> Option<&mut MultiVersion> {
        match self {
            Self::MultiVersion(scheme) | Self::Across { inner: Inner::MultiVersion(scheme), .. } => {
                Some(scheme)
            }
            Self::Page | Self::Mrsm | Self::Across { inner: Inner::Page, .. } => None,
        }
    }

    /// The physical pages that placing `mask` of `lpn` reads first.
    pub(crate) fn reads_before(&self, flash: &Flash, lpn: u32, mask: u64) -> SmallVec<[Ppn; 4]> {
        if mask == flash.full_mask() {
            return SmallVec::new();
        }
        match self.versions() {
            None => {
                let list = flash.fragments.get(lpn, flash.array());
                list.iter().filter(|f| f.mask & !mask != 0).map(|f| f.ppn).collect()
            }
            Some(scheme) => scheme.reads_before(flash, lpn, mask),
        }
    }

    /// Whether a small partial page is placed together with others.
    pub(crate) fn compacts(&self, flash: &Flash, lpn: u32, mask: u64) -> bool {
        self.versions().is_some_and(|scheme| scheme.compacts(flash, lpn, mask))
    }

    /// Bytes of RAM that the whole map takes: 4 for each logical page, and what the scheme adds.
    pub(crate) fn bytes(&self, flash: &Flash) -> u64 {
        flash.mapping_bytes() + self.versions().map_or(0, |scheme| scheme.table_bytes(flash))
    }

    /// Programs that placing one part may take, in one plane.
    #[inline]
    pub(crate) fn pages_per_part(&self) -> u32 {
        match self {
            Self::Page | Self::Mrsm | Self::MultiVersion(_) => 1,
            // The page, and its share of areas on both sides.
            Self::Across { .. } => 3,
        }
    }

    /// How many logical pages away from a part placing it may program.
    #[inline]
    pub(crate) fn reach(&self) -> u32 {
        match self {
            Self::Page | Self::Mrsm | Self::MultiVersion(_) => 0,
            Self::Across { .. } => 1,
        }
    }

    /// Whether placing a part programs that page and no other, and a whole page as one.
    #[inline]
    pub(crate) fn stays_at_home(&self) -> bool {
        matches!(self, Self::Page | Self::MultiVersion(_))
    }

    /// Whether it may write a whole page as parts of pages.
    #[inline]
    pub(crate) fn mixes_classes(&self) -> bool {
        matches!(self, Self::Across { .. } | Self::Mrsm)
    }

    /// Whether a buffered run over a page border is best placed as one.
    pub(crate) fn joins_borders(&self) -> bool {
        matches!(self, Self::Across { .. } | Self::Mrsm)
    }

    /// Places a write and returns how many programs its request has to wait for. The caller has made
    /// sure of room for [`Mapping::pages_per_part`] pages per part.
    #[inline(always)]
    pub(crate) fn place(&mut self, flash: &mut Flash, write: &Write<'_>) -> u32 {
        if let Self::Page = self {
            return page::place(flash, write);
        }
        self.place_otherwise(flash, write)
    }

    fn place_otherwise(&mut self, flash: &mut Flash, write: &Write<'_>) -> u32 {
        let programs = match self {
            Self::Page => page::place(flash, write),
            Self::Across { shrink, inner } => across::place(flash, write, *shrink, inner),
            Self::Mrsm => mrsm::place(flash, write),
            Self::MultiVersion(scheme) => scheme.place(flash, write),
        };
        if let Some(scheme) = self.versions_mut() {
            scheme.placed(flash, write);
        }
        programs
    }

    /// Moves a live page of a victim; returns how many programs with [`Cause::Gc`] that took.
    ///
    /// [`Cause::Gc`]: nandle_nand::Cause::Gc
    #[inline]
    pub(crate) fn relocate(&mut self, flash: &mut Flash, ppn: Ppn, plane: u32, role: Role) -> u32 {
        if let Some(scheme) = self.versions_mut() {
            return scheme.relocate(flash, ppn, plane, role);
        }
        match self {
            Self::Mrsm => flash.relocate_sub_pages(ppn, plane, role),
            _ => _ = flash.relocate(ppn, plane, role),
        }
        1
    }

    /// An object is about to claim blocks, and the scheme leaves it some. False if that takes time.
    pub(crate) fn give_way(&mut self, flash: &mut Flash) -> bool {
        self.versions_mut().is_none_or(|scheme| scheme.give_way(flash))
    }

    /// After how long without any work the drive calls [`Mapping::idle`], if ever.
    pub(crate) fn idle_after(&self) -> Option<Time> {
        self.versions().and_then(MultiVersion::idle_after)
    }

    /// The drive has been idle: a little background work. False if there is none left.
    pub(crate) fn idle(&mut self, flash: &mut Flash) -> bool {
        self.versions_mut().is_some_and(|scheme| scheme.idle(flash))
    }
}
