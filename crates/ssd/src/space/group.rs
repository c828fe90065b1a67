//! Groups: who writes a block, and who is collected together.

/// The group that a page is written for. Each has its own open blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupId {
    /// Garbage collection's survivors.
    Survivors,
    /// Cold data moved to worn blocks by static wear levelling.
    Cold,
    /// Translation pages, the metadata log, checkpoints.
    System,
    /// Host data of one stream.
    Host(u16),
    /// Host data in blocks in SLC mode.
    Cache,
    /// Host data in blocks that are dedicated to this group: there is no choice of plane or page type.
    Dedicated(u16),
    /// What collection keeps of a dedicated group, in blocks of the same group.
    DedicatedSurvivors(u16),
}

/// The number of the first dedicated group.
const DEDICATED: u16 = 0x1000;
/// Most dedicated groups at a time: what an out-of-band number can tell apart.
pub(super) const MOST_DEDICATED: usize = 0x7000;

/// The number of the SLC cache.
const CACHE: u16 = DEDICATED - 1;

/// Bit of the out-of-band label: the write covered only part of its page.
const PARTIAL: u16 = 1 << 15;

impl GroupId {
    /// Its number, as written to the out-of-band area.
    pub fn number(self) -> u16 {
        match self {
            Self::Survivors => 0,
            Self::Cold => 1,
            Self::System => 2,
            Self::Host(stream) => 3 + stream,
            Self::Cache => CACHE,
            Self::Dedicated(group) | Self::DedicatedSurvivors(group) => DEDICATED + group,
        }
    }
    /// The group of a number, or of an out-of-band label.
    pub fn from_number(number: u16) -> Self {
        match number & !PARTIAL {
            0 => Self::Survivors,
            1 => Self::Cold,
            2 => Self::System,
            CACHE => Self::Cache,
            n if n < DEDICATED => Self::Host(n - 3),
            n => Self::Dedicated(n - DEDICATED),
        }
    }
    /// Groups with open blocks of their own on a device with `streams` host streams.
    pub(super) fn count(streams: u32) -> u32 {
        3 + streams + 1
    }
    /// Its place among these.
    #[inline]
    pub(super) fn place(self, streams: u32) -> usize {
        match self {
            Self::Cache => 3 + streams as usize,
            of_its_own => usize::from(of_its_own.number()),
        }
    }
    /// What the out-of-band area says of pages of the SLC cache.
    pub(crate) const CACHE_LABELS: [u16; 2] = [CACHE, CACHE | PARTIAL];
    /// Whether collection fills it, so that it may take the blocks that host writes leave.
    pub fn is_collected_into(self) -> bool {
        matches!(self, Self::Survivors | Self::Cold | Self::DedicatedSurvivors(_))
    }
}

/// What a page is written with, as page-type policies see it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PageClass {
    /// The write that caused it covers the whole page (an RMW of a few sectors does not).
    pub full: bool,
    /// The host request that caused it falls in one logical page.
    pub alone: bool,
}

impl PageClass {
    /// Pages that the drive writes for itself.
    pub const SYSTEM: Self = Self { full: true, alone: false };
    /// All classes.
    pub const ALL: [Self; 4] = [
        Self { full: false, alone: false },
        Self { full: false, alone: true },
        Self { full: true, alone: false },
        Self { full: true, alone: true },
    ];

    /// What the out-of-band area says of a page's group and class.
    pub fn label(self, group: GroupId) -> u16 {
        group.number() | if self.full { 0 } else { PARTIAL }
    }
    /// The class of a page that survives garbage collection.
    pub fn of_label(label: u16) -> Self {
        Self { full: label & PARTIAL == 0, alone: false }
    }
}
