//! The out-of-band area: what a physical page says of itself, and the only reverse map there is.

use smallvec::SmallVec;

use crate::{Ppn, Zeros};

/// What a physical page is used for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum PageUse {
    /// Not programmed since the last erase.
    Erased = 0,
    /// Host sectors.
    Data = 1,
    /// Entries of the mapping table (a translation page).
    Map = 2,
    /// Records of the metadata log.
    Meta = 3,
    /// Nothing: programmed to close a gap.
    Padding = 4,
    /// A program failed or was cut off by a power loss: unreadable.
    Torn = 5,
    /// A part of a checkpoint of the map.
    Checkpoint = 6,
}

impl PageUse {
    fn from_bits(bits: u64) -> Self {
        match bits & 7 {
            0 => Self::Erased,
            1 => Self::Data,
            2 => Self::Map,
            3 => Self::Meta,
            4 => Self::Padding,
            6 => Self::Checkpoint,
            _ => Self::Torn,
        }
    }

    /// Whether it holds host sectors.
    #[inline]
    pub fn is_data(self) -> bool {
        self == Self::Data
    }
}

/// A run of consecutive sectors stored in a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extent {
    /// First logical sector (for [`PageUse::Map`] and [`PageUse::Meta`]: the page's number times sectors per page).
    pub lsn: u64,
    /// How many sectors (1 to 64).
    pub sectors: u8,
    /// Where the first one lies, in sectors from the start of the page.
    pub at: u8,
}

/// What is written to a page's out-of-band area.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Oob<'a> {
    /// What the page is used for.
    pub kind: PageUse,
    /// Who placed it there and looks after it: [`Oob::PLAIN`] unless the extents are a list.
    pub owner: u8,
    /// Which stream wrote it.
    pub stream: u16,
    /// What it holds.
    pub extents: Extents<'a>,
}

impl Oob<'_> {
    /// The owner of pages that nobody looks after in particular.
    pub const PLAIN: u8 = 0;
    /// The largest number of an owner.
    pub const LAST_OWNER: u8 = 63;
}

/// The extents of a page; the common shape (one run at home, sector i of its logical page at offset
/// i) takes no memory beyond one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extents<'a> {
    /// `len` sectors from sector `start` of logical page `lpn`, at the same offset of the physical page.
    Home {
        /// Logical page.
        lpn: u32,
        /// First sector within it.
        start: u8,
        /// Sectors.
        len: u8,
    },
    /// Anything else.
    List(&'a [Extent]),
}

impl Extents<'_> {
    /// All extents as (lsn, sectors, at), whatever the shape; `spp` = sectors per page.
    pub fn each(self, spp: u32, mut f: impl FnMut(Extent)) {
        match self {
            Self::Home { lpn, start, len } => {
                f(Extent { lsn: u64::from(lpn) * u64::from(spp) + u64::from(start), sectors: len, at: start })
            }
            Self::List(list) => list.iter().copied().for_each(f),
        }
    }
}

const LIST: u64 = 8;

/// Of a drive of more pages most runs write few, some in each plane: huge pages would mostly stay empty.
const LARGE: usize = 1 << 25;

/// The out-of-band areas of all pages, one word each; extent lists lie in a side table.
#[derive(Clone, Debug)]
pub(crate) struct OobStore {
    words: Zeros<u64, 8>,
    lists: Vec<SmallVec<[Extent; 2]>>,
    free: Vec<u32>,
}

// word: kind 3 | list 1 | lpn or list index 32 | start (of a list: owner) 6 | len-1 6 | stream 16
impl OobStore {
    pub fn new(pages: usize) -> Self {
        Self {
            words: if pages <= LARGE { Zeros::new(pages) } else { Zeros::sparse(pages) },
            lists: Vec::new(),
            free: Vec::new(),
        }
    }
    /// Most of them are about to be written.
    pub fn expect_full(&mut self) {
        self.words.expect_full();
    }
    #[inline(always)]
    pub fn set(&mut self, index: usize, oob: &Oob<'_>) {
        debug_assert_eq!(self.words.at(index), 0, "program over a written page");
        debug_assert!(oob.owner == Oob::PLAIN || matches!(oob.extents, Extents::List(_)));
        let tail = |start: u64, len: u64| start << 36 | (len - 1) << 42 | u64::from(oob.stream) << 48;
        let shape = match oob.extents {
            Extents::Home { lpn, start, len } => u64::from(lpn) << 4 | tail(u64::from(start), u64::from(len)),
            Extents::List(list) => {
                LIST | u64::from(self.keep_list(list)) << 4 | tail(u64::from(oob.owner & Oob::LAST_OWNER), 1)
            }
        };
        self.words.set(index, oob.kind as u64 | shape);
    }
    /// Lays an extent list in the side table.
    fn keep_list(&mut self, list: &[Extent]) -> u32 {
        let slot = self.free.pop().unwrap_or_else(|| {
            self.lists.push(SmallVec::new());
            (self.lists.len() - 1) as u32
        });
        self.lists[slot as usize].extend_from_slice(list);
        slot
    }
    #[inline]
    pub fn get(&self, index: usize) -> Oob<'_> {
        let word = self.words.at(index);
        let number = (word >> 4) as u32;
        let owner = self.owner(index);
        let extents = if word & LIST == 0 {
            Extents::Home { lpn: number, start: (word >> 36 & 63) as u8, len: (word >> 42 & 63) as u8 + 1 }
        } else {
            Extents::List(&self.lists[number as usize])
        };
        Oob { kind: PageUse::from_bits(word), owner, stream: (word >> 48) as u16, extents }
    }
    /// The logical page of a page that holds one at home.
    #[inline]
    pub fn lpn_at_home(&self, index: usize) -> Option<u32> {
        let word = self.words.at(index);
        (word & LIST == 0).then_some((word >> 4) as u32)
    }
    #[inline]
    pub fn kind(&self, index: usize) -> PageUse {
        PageUse::from_bits(self.words.at(index))
    }
    #[inline]
    pub fn owner(&self, index: usize) -> u8 {
        let word = self.words.at(index);
        if word & LIST == 0 { Oob::PLAIN } else { (word >> 36 & 63) as u8 }
    }
    #[inline]
    pub fn stream(&self, index: usize) -> u16 {
        (self.words.at(index) >> 48) as u16
    }
    #[inline]
    pub fn clear(&mut self, index: usize) {
        let word = self.words.at(index);
        self.words.set(index, 0);
        if word & LIST != 0 {
            let slot = (word >> 4) as u32;
            self.lists[slot as usize] = SmallVec::new();
            self.free.push(slot);
        }
    }
    #[inline]
    pub fn has_lists(&self) -> bool {
        self.lists.len() > self.free.len()
    }
    pub fn tear(&mut self, index: usize) {
        self.clear(index);
        self.words.set(index, PageUse::Torn as u64);
    }
    /// Brings the word near before it is needed.
    #[inline]
    pub fn prefetch(&self, index: usize) {
        self.words.prefetch(index);
    }
}

/// Formats a page address for messages.
pub(crate) fn page_name(ppn: Ppn) -> String {
    format!("page {:#x}", ppn.0)
}
