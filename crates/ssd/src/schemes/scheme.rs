//! What a scheme is: one trait, whose methods all have answers for schemes that have nothing to say.
//!
//! A scheme is asked in the order of its drive's list. It sees the facade of the layers below
//! ([`Flash`], [`Buffer`]) and keeps what it knows to itself: what it counts it names ([`Published::COUNTERS`]),
//! what must survive a power cut it records or finds again in the out-of-band areas
//! ([`Scheme::restore`]).

use std::any::Any;
use std::fmt::Debug;

use nandle_nand::{Block, CellKind, Geometry, Oob, OpId, Ppn, ProgramOrder, Time};
use smallvec::SmallVec;

use crate::buffer::{Buffer, BufferPlan, Entry, Victims};
use crate::error::ConfigError;
use crate::flash::{Flash, Part, SchemeRecord, Write};
use crate::map::{Fragment, TableShape};
use crate::space::{Candidates, GroupId, PageClass, SpacePlan, Striping};

/// Physical pages.
pub type Pages = SmallVec<[Ppn; 4]>;

/// Which question a scheme answers: a key of `[scheme]`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Seam {
    /// What waits in RAM and what leaves first.
    Buffer,
    /// How a write is placed.
    Mapping,
    /// Whether small partial pages that leave the buffer together share a physical page.
    Compaction,
    /// Which page type a write gets.
    Allocation,
    /// Which writes share blocks.
    Streams,
}

impl Seam {
    /// Its key in a device file.
    pub fn key(self) -> &'static str {
        match self {
            Self::Buffer => "scheme.buffer",
            Self::Mapping => "scheme.mapping",
            Self::Compaction => "scheme.compaction",
            Self::Allocation => "scheme.allocation",
            Self::Streams => "scheme.streams",
        }
    }
}

/// What a scheme, or one of the baseline's policies, is called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Name {
    /// Which question it answers.
    pub seam: Seam,
    /// Its name.
    pub name: &'static str,
    /// One line on it.
    pub line: &'static str,
}

/// What schemes are told of the device that they are to run on.
#[derive(Clone, Debug)]
pub struct Facts<'a> {
    /// Shape of the flash.
    pub geometry: &'a Geometry,
    /// Bits per cell.
    pub cell: CellKind,
    /// The order of programs that the flash insists on.
    pub order: ProgramOrder,
    /// Bytes of the write buffer.
    pub buffer_bytes: u64,
    /// `scheme.striping` is a fixed order of the planes.
    pub static_striping: bool,
    /// `scheme.striping`.
    pub striping: &'a str,
    /// The names of the drive's schemes.
    pub names: &'a [&'a str],
}

impl Facts<'_> {
    /// Whether a scheme was chosen by this name.
    pub fn chosen(&self, name: &str) -> bool {
        self.names.contains(&name)
    }
}

/// What the schemes of a drive ask of the layers below, put together before these are built.
#[derive(Clone, Debug)]
pub struct Plan {
    /// Blocks, groups and frontiers.
    pub space: SpacePlan,
    /// The write buffer.
    pub buffer: BufferPlan,
    /// The mapping table.
    pub table: TableShape,
    /// Blocks of each plane that are set aside for pages beyond one per logical page.
    pub surplus_blocks: u32,
    /// Most programs in one plane that room is asked for at once.
    pub pages_at_once: u32,
    /// Logical pages may lie in several places: checkpoints take more pages.
    pub scatters: bool,
    /// What placing a write may take.
    pub reach: Reach,
    /// The scheme that packs parts of pages by itself, if one does.
    pub packs: Option<&'static str>,
}

impl Default for Plan {
    fn default() -> Self {
        Self {
            space: SpacePlan::default(),
            buffer: BufferPlan::LRU,
            table: TableShape::Flat,
            surplus_blocks: 0,
            pages_at_once: 2,
            scatters: false,
            reach: Reach::default(),
            packs: None,
        }
    }
}

/// What placing a part of a write may take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Programs in one plane.
    pub pages: u32,
    /// How many logical pages away from the part.
    pub distance: u32,
    /// A whole page may be written as parts of pages.
    pub mixes_classes: bool,
    /// A buffered run over a page border is best placed as one.
    pub joins_borders: bool,
}

impl Reach {
    /// Whether placing a part programs that page and no other, and a whole page as one.
    #[inline]
    pub fn is_least(&self) -> bool {
        self.pages == 1 && self.distance == 0 && !self.mixes_classes
    }
}

impl Default for Reach {
    fn default() -> Self {
        Self { pages: 1, distance: 0, mixes_classes: false, joins_borders: false }
    }
}

/// Which questions a scheme has an answer to; nobody else is asked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Interests(u32);

impl Interests {
    /// None.
    pub const NONE: Self = Self(0);
    /// [`Scheme::place`], [`Scheme::place_part`], [`Scheme::placed`], [`Scheme::reads_before`].
    pub const PLACE: Self = Self(1);
    /// [`Scheme::relocate`].
    pub const RELOCATE: Self = Self(1 << 1);
    /// [`Scheme::look_up`].
    pub const LOOK_UP: Self = Self(1 << 2);
    /// [`Scheme::host_read`].
    pub const HOST_READ: Self = Self(1 << 3);
    /// [`Scheme::trimmed_page`], [`Scheme::trimmed`].
    pub const TRIM: Self = Self(1 << 4);
    /// [`Scheme::idle_after`], [`Scheme::idle`].
    pub const IDLE: Self = Self(1 << 5);
    /// [`Scheme::destage`], [`Scheme::accompany`].
    pub const DESTAGE: Self = Self(1 << 6);
    /// [`Scheme::victim`].
    pub const VICTIM: Self = Self(1 << 7);
    /// [`Scheme::stream`].
    pub const STREAM: Self = Self(1 << 8);
    /// [`Scheme::rewrites`].
    pub const REWRITES: Self = Self(1 << 9);
    /// [`Scheme::objects`] and what belongs to it.
    pub const OBJECTS: Self = Self(1 << 10);

    /// These and those.
    #[must_use]
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
    /// Whether any of `other` is among them.
    #[inline]
    pub const fn has_any(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
    /// Whether all of `other` are among them.
    #[inline]
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

/// Why a call that names an object was not carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// Blocks are being merged for it: try again.
    Wait,
    /// A live object has some of the sectors.
    Overlap,
    /// There are no clean blocks for it.
    NoSpace,
}

/// A live object, as the query command lists it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectInfo {
    /// What is left of its ranges: (first sector, sectors).
    pub ranges: Vec<(u64, u64)>,
    /// Pages that it may still write.
    pub pages_left: u64,
    /// Dedicated blocks that hold its pages or wait for them.
    pub blocks: u32,
    /// The drive guessed it from what the host wrote.
    pub auto: bool,
}

/// Objects that the host names: the calls, and what a drive does without them.
pub trait Objects {
    /// Most ranges of a call.
    fn most_ranges(&self) -> u32;
    /// Clears the way for an object: what the drive guessed ends.
    ///
    /// # Errors
    /// If a live object has some of the sectors.
    fn prepare(&mut self, flash: &mut Flash, ranges: &[(u64, u64)]) -> Result<(), Refusal>;
    /// Makes the object, whose ranges nobody has.
    ///
    /// # Errors
    /// If it has to wait for clean blocks, or there are none for it.
    fn name(&mut self, flash: &mut Flash, ranges: &[(u64, u64)], stream: u16) -> Result<(), Refusal>;
    /// The objects that have some of the sectors are complete.
    fn complete(&mut self, flash: &mut Flash, lsn: u64, sectors: u64);
    /// A host write is about to be carried out: it may make an object that nobody named.
    fn notice_write(&mut self, flash: &mut Flash, lsn: u64, sectors: u64, stream: u16);
    /// Objects whose last page has just been written are at their end.
    fn settle(&mut self, flash: &mut Flash);
    /// Nothing is under way and nothing can be collected: the oldest object ends. False if there is none.
    fn end_oldest(&mut self, flash: &mut Flash) -> bool;
    /// The live objects.
    fn list(&self, flash: &Flash) -> Vec<ObjectInfo>;
    /// How many are live.
    fn live(&self) -> u32;
    /// Clean blocks that the call at the front of the queue waits for.
    fn demand(&self) -> u32;
    /// The call that waits is to be tried again; `failed`: nothing is left to merge for it.
    fn answer_demand(&mut self, failed: bool);
    /// Collection for normal writes takes a block of an ended object where it holds less than the best
    /// normal one.
    fn collects_ended(&self) -> bool;
}

/// Those that follow a scheme in its drive's list, with page mapping at the end.
pub trait Rest {
    /// Places what the scheme leaves to them; how many programs its request waits for.
    fn place(&mut self, flash: &mut Flash, write: &Write<'_>) -> u32;
    /// Places one part by itself.
    fn place_part(&mut self, flash: &mut Flash, write: &Write<'_>, part: &Part<'_>);
}

/// What a scheme looks at when it chooses what leaves the buffer.
pub trait Surroundings {
    /// The flash.
    fn flash(&self) -> &Flash;
    /// The physical pages that placing `mask` of `lpn` reads first.
    fn reads_before(&self, lpn: u32, mask: u64) -> Pages;
    /// What another scheme wants rewritten with `mask` of `lpn`: see [`Scheme::rewrites`].
    fn rewrites(&self, lpn: u32, mask: u64) -> Option<u64>;

    /// Whether old data that a flush of the entry has to read lies on a busy chip.
    fn read_waits(&self, entry: &Entry) -> bool {
        let media = self.flash().media();
        let reads = self.reads_before(entry.lpn, entry.mask);
        reads.iter().any(|&ppn| !media.chip_is_idle(media.plane_of(ppn)))
    }

    /// Whether a flush of the entry would wait for any chip: one that holds old data which has to be read
    /// first, or the one that its program would go to (with dynamic striping any idle one). A chip is idle
    /// if no operation is in service or queued there.
    fn flush_waits(&self, entry: &Entry) -> bool {
        let flash = self.flash();
        let target_is_idle = match flash.space().home_plane(entry.lpn) {
            Some(plane) => flash.media().chip_is_idle(plane),
            None => {
                let group = flash.host_group(entry.lpn, entry.stream);
                let full = entry.mask == flash.full_mask();
                let class = crate::space::PageClass { full, alone: true };
                let idle = |plane| flash.media().chip_is_idle(plane);
                (0..flash.geometry().planes()).any(|plane| idle(plane) && flash.room(plane, group, class) > 0)
            }
        };
        !target_is_idle || self.read_waits(entry)
    }
}

/// A scheme with its state.
pub trait Scheme: Any + Debug + Send + Sync {
    /// Which questions it has an answer to.
    fn interests(&self) -> Interests {
        Interests::NONE
    }

    // ---- what leaves the buffer ---------------------------------------------------------------------

    /// Which slots of `buffer` leave next, together; none: it has no opinion.
    fn destage(&mut self, _near: &dyn Surroundings, _buffer: &mut Buffer) -> Option<Victims> {
        None
    }
    /// What leaves together with `slot`, which comes first; none: it has no opinion.
    fn accompany(&self, _near: &dyn Surroundings, _buffer: &Buffer, _slot: u32) -> Option<Victims> {
        None
    }

    // ---- where it goes ------------------------------------------------------------------------------

    /// Places a write, or some of its parts, and passes on the rest; how many programs its request waits
    /// for. Room for what [`Plan::reach`] says has been made sure of.
    fn place(&mut self, flash: &mut Flash, write: &Write<'_>, rest: &mut dyn Rest) -> u32 {
        rest.place(flash, write)
    }
    /// Places one part of a write by itself, or passes it on; one program of its request's is for it.
    fn place_part(&mut self, flash: &mut Flash, write: &Write<'_>, part: &Part<'_>, rest: &mut dyn Rest) {
        rest.place_part(flash, write, part);
    }
    /// All of a write is placed, by whoever.
    fn placed(&mut self, _flash: &mut Flash, _write: &Write<'_>) {}
    /// The physical pages that placing `mask` of `lpn`, not a whole page, reads first; none: it is not
    /// the one that places it. `rewrite`: what another scheme wants rewritten along with it.
    fn reads_before(&self, _flash: &Flash, _lpn: u32, _mask: u64, _rewrite: Option<u64>) -> Option<Pages> {
        None
    }
    /// How a partial update of `lpn` is placed: which of its `stored` sectors, none of which are among those
    /// written (`mask`), are read and programmed together with them. All of them is read-modify-write,
    /// none of them a version that holds only what was written. An answer that leaves the logical page in
    /// more pages than it may have counts as none.
    fn rewrites(&self, _flash: &Flash, _lpn: u32, _mask: u64, _stored: u64) -> Option<u64> {
        None
    }
    /// In which order writes of a class like the `types` page types, fastest = 0; empty: it has no opinion.
    /// Asked when the scheme is added, and at power-on, where the drive's own scheme chooses page types.
    fn page_types(&self, _class: PageClass, _types: usize) -> Vec<usize> {
        Vec::new()
    }
    /// The stream of a write of `sectors` sectors from `lsn`, for which the host gave the id `hint`.
    fn stream(&self, _flash: &Flash, _lsn: u64, _sectors: u64, _hint: u16) -> Option<u16> {
        None
    }
    /// The host has a stream go on to its next unit.
    fn next_unit(&mut self, _flash: &Flash, _stream: u16) {}
    /// Objects that the host names, if the scheme knows any.
    fn objects(&mut self) -> Option<&mut dyn Objects> {
        None
    }
    /// The same, to look at.
    fn objects_ref(&self) -> Option<&dyn Objects> {
        None
    }

    // ---- the map ------------------------------------------------------------------------------------

    /// The host needs the entry for the sectors `mask` of `lpn`: the load that it has to wait for, if any.
    /// None: the table has one entry a logical page.
    fn look_up(&mut self, _flash: &mut Flash, _lpn: u32, _mask: u64) -> Option<Option<OpId>> {
        None
    }
    /// A host read of `sectors` sectors from `lsn` goes to flash.
    fn host_read(&mut self, _flash: &Flash, _lsn: u64, _sectors: u64) {}
    /// Sectors of `lpn` were trimmed.
    fn trimmed_page(&mut self, _flash: &mut Flash, _lpn: u32) {}
    /// The sectors from `lsn` were trimmed, page by page.
    fn trimmed(&mut self, _flash: &mut Flash, _lsn: u64, _sectors: u64) {}

    // ---- collection ---------------------------------------------------------------------------------

    /// Which closed block of `plane` is collected next, at `now`; a block without a dead page is no answer.
    fn victim(&self, _flash: &Flash, _plane: u32, _from: &Candidates<'_>, _now: Time) -> Option<Block> {
        None
    }
    /// Moves a live page of a victim into `plane`; how many programs with `Cause::Gc` that took. None: it
    /// moves as it is.
    fn relocate(&mut self, _flash: &mut Flash, _ppn: Ppn, _plane: u32, _group: GroupId) -> Option<u32> {
        None
    }
    /// A page that it owns is now somewhere else, though it did not move it: `fragment` of `lpn` is in it.
    fn page_went(&mut self, _flash: &mut Flash, _lpn: u32, _fragment: Fragment) {}
    /// After how long without any work [`Scheme::idle`] is called, if ever.
    fn idle_after(&self) -> Option<Time> {
        None
    }
    /// The drive has been idle: a little background work. False if there is none left.
    fn idle(&mut self, _flash: &mut Flash) -> bool {
        false
    }
    /// What it takes for granted on a drive without clocks (`timing.untimed`), if it looks at time or at what is busy.
    fn without_time(&self) -> Option<&'static str> {
        None
    }
    /// Objects are about to claim blocks: it leaves them some. False if that takes time.
    fn make_way(&mut self, _flash: &mut Flash) -> bool {
        true
    }

    // ---- power cuts -----------------------------------------------------------------------------------

    /// How many records describe what it knows.
    fn record_count(&self) -> usize {
        0
    }
    /// These records, under new sequence numbers.
    fn renew_records(&mut self, _flash: &mut Flash) -> Vec<SchemeRecord> {
        Vec::new()
    }
    /// At power-on: all records that were found, in no order.
    fn expect_records(&mut self, _records: &[SchemeRecord]) {}
    /// At power-on: a record, in the order of sequence numbers among trims.
    fn learn(&mut self, _flash: &mut Flash, _record: &SchemeRecord) {}
    /// At power-on: a range was trimmed, in the same order.
    fn forget(&mut self, _flash: &mut Flash, _lsn: u64, _sectors: u64) {}
    /// At power-on: the map and the blocks are known.
    fn restore(&mut self, _flash: &mut Flash) {}

    // ---- accounts -------------------------------------------------------------------------------------

    /// Checks its invariants; for tests.
    ///
    /// # Panics
    /// If one does not hold.
    fn check(&self, _flash: &Flash) {}
    /// Bytes of RAM that its part of the map takes beyond the table.
    fn footprint(&self, _flash: &Flash) -> u64 {
        0
    }
    /// Its counters, of a scheme from outside: `to` takes `section.key` and a value for each.
    fn visit(&self, _flash: &Flash, _to: &mut dyn FnMut(&'static str, u64)) {}
    /// They count from zero again.
    fn reset_counters(&mut self) {}

    /// A copy of it; for schemes from outside.
    fn boxed(&self) -> Box<dyn Scheme>;
}

/// A counter of the scheme `S`.
#[derive(Debug)]
pub struct Counter<S: 'static> {
    /// `section.key`, as in `summary.json`.
    pub key: &'static str,
    /// What it counts.
    pub line: &'static str,
    /// Its value.
    pub get: fn(&S, &Flash) -> u64,
}

impl<S> Counter<S> {
    /// A counter.
    pub const fn new(key: &'static str, line: &'static str, get: fn(&S, &Flash) -> u64) -> Self {
        Self { key, line, get }
    }
}

/// What is known of a scheme before there is one.
pub trait Published: Scheme + Clone + Sized {
    /// What configuration files, the command line and the documentation call it.
    const NAMES: &'static [Name];
    /// What it writes to the out-of-band areas of pages that it looks after ([`Oob::PLAIN`]: none). It never
    /// changes, and no two schemes have the same.
    const OWNER: u8 = Oob::PLAIN;
    /// The kinds of records that it writes to the metadata log. They never change, and no two schemes
    /// have the same.
    const RECORD_KINDS: &'static [u8] = &[];
    /// Its counters.
    const COUNTERS: &'static [Counter<Self>] = &[];
    /// Its settings.
    type Config<'a>;
    /// The settings that values in brackets without a key stand for, in order: `streams.count`.
    const POSITIONAL: &'static [&'static str] = &[];
    /// Further settings that it takes in brackets, by their keys; those of its own tables aside.
    const KEYED: &'static [&'static str] = &[];

    /// Checks the settings against the device, and adds to the plan what the scheme asks of the layers.
    ///
    /// # Errors
    /// The first setting that cannot stand.
    fn plan(config: Self::Config<'_>, facts: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError>;
    /// The drive was powered on again: its counters go on where those of `before` were.
    fn inherit(&mut self, _before: &Self) {}
    /// A scheme for a drive of `logical_pages`.
    fn new(config: Self::Config<'_>, facts: &Facts<'_>, logical_pages: u32) -> Self;
}

/// Page types can be chosen where the cells have several and blocks may be written type by type.
pub(super) fn check_page_types(name: &str, facts: &Facts<'_>) -> Result<(), ConfigError> {
    let for_it = format!("for scheme.allocation = {name:?}");
    if facts.cell == CellKind::Slc {
        return Err(ConfigError::new("cell.kind", "slc", format!("mlc, tlc or qlc {for_it}")));
    }
    if facts.striping == "block-by-block" || facts.striping == Striping::SUPERBLOCK {
        let expected = format!("an order or dynamic {for_it}");
        return Err(ConfigError::new("scheme.striping", facts.striping, expected));
    }
    if facts.order == ProgramOrder::Strict {
        return Err(ConfigError::new("cell.program_order", "strict", format!("relaxed {for_it}")));
    }
    Ok(())
}

/// A drive has one mapping table: two schemes that need a shape of their own exclude each other.
pub(super) fn refuse_second_table(name: &str, plan: &Plan) -> Result<(), ConfigError> {
    if plan.table == TableShape::Flat {
        return Ok(());
    }
    let expected = "one scheme with a mapping table of its own";
    Err(ConfigError::new("scheme.mapping", format!("{name} with another"), expected))
}
