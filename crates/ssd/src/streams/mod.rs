//! Which writes share blocks.

use nandle_nand::Array;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allocation::Role;
use crate::config::ConfigError;
use crate::log::{ObjectRecord, Record};

pub mod by_time;
pub mod fdp;
pub mod flashalloc;
pub mod multi_stream;
pub(crate) mod objects;

pub use fdp::Isolation;

crate::catalog! {
    /// Which block a write goes to.
    pub enum StreamsKind {
        /// Arrival order, one stream (vanilla).
        ByTime = "by-time",
        /// The host's stream id modulo `streams.count`; garbage collection mixes the streams.
        MultiStream = "multi-stream",
        /// Each object that the host names has blocks of its own.
        FlashAlloc = "flashalloc",
        /// NVMe Flexible Data Placement: `streams.count` reclaim-unit handles.
        Fdp = "fdp",
    }
}

impl StreamsKind {
    /// Host streams, each with an open block per plane.
    pub fn host_streams(self, config: &StreamsConfig) -> u32 {
        match self {
            Self::ByTime | Self::FlashAlloc => 1,
            Self::MultiStream => config.count,
            Self::Fdp if config.isolation == Isolation::Persistently => 2 * config.count,
            Self::Fdp => config.count,
        }
    }
}

/// `[streams]`: settings of the stream policies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct StreamsConfig {
    /// Streams of `multi-stream`, reclaim-unit handles of `fdp` (1 to 128).
    pub count: u32,
    /// `fdp`: bytes of a reclaim unit, counted in whole blocks; 0 = one block of every plane.
    pub reclaim_unit_bytes: u64,
    /// `fdp`: what garbage collection does with the data of different handles.
    pub isolation: Isolation,
    /// `flashalloc`: most ranges of one object (1 to 65536).
    pub max_ranges: u32,
    /// `flashalloc`: dedicated blocks are taken when they are first written, not with the call
    /// (the paper's footnote 1).
    pub on_demand: bool,
    /// `flashalloc`: objects smaller than a block with the same stream id share one (footnote 2).
    pub share_tiny: bool,
    /// `flashalloc`: sequential writes from a multiple of this many bytes on are an object up to the next
    /// multiple, without a call; 0 = never.
    pub auto_align: u64,
    /// `flashalloc`: a run of writes that is sequential for this many bytes goes on in objects of one
    /// block each, without a call; 0 = never.
    pub auto_run: u64,
    /// `flashalloc`: collection for normal writes takes a block of an object that has ended where it holds less
    /// than the best normal one. The paper's rule is never (section 4.3, GC-By-Block-Type).
    pub collect_ended: bool,
    /// `flashalloc`: most objects begun without a call that are live at a time (1 to 65536).
    pub auto_live: u32,
}

impl Default for StreamsConfig {
    fn default() -> Self {
        Self {
            count: 8,
            reclaim_unit_bytes: 0,
            isolation: Isolation::Initially,
            max_ranges: 256,
            on_demand: false,
            share_tiny: false,
            auto_align: 0,
            auto_run: 0,
            collect_ended: false,
            auto_live: 64,
        }
    }
}

impl StreamsConfig {
    pub(crate) fn validate(&self, sector_bytes: u32) -> Result<(), ConfigError> {
        let count = |field: &str, value: u32, high: u32| {
            if (1..=high).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::new(field, value, format!("1 to {high}")))
            }
        };
        count("streams.count", self.count, 128)?;
        count("streams.max_ranges", self.max_ranges, 65536)?;
        count("streams.auto_live", self.auto_live, 65536)?;
        for (field, value) in [("streams.auto_align", self.auto_align), ("streams.auto_run", self.auto_run)] {
            if !value.is_multiple_of(u64::from(sector_bytes)) {
                return Err(ConfigError::new(
                    field,
                    value,
                    format!("a multiple of the sector, {sector_bytes}"),
                ));
            }
        }
        Ok(())
    }
}

/// Bytes of one stream, or of one class of blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StreamCount {
    /// Sectors that the host wrote to it (with what read-modify-write added).
    pub host_sectors: u64,
    /// Sectors' worth of pages programmed for it, by the host and by collection of its blocks.
    pub media_sectors: u64,
}

/// A stream policy with its state.
#[derive(Clone, Debug)]
pub enum Streams {
    /// See [`by_time`].
    ByTime,
    /// See [`multi_stream`].
    MultiStream(multi_stream::MultiStream),
    /// See [`flashalloc`].
    FlashAlloc(Box<flashalloc::FlashAlloc>),
    /// See [`fdp`].
    Fdp(fdp::Fdp),
}

impl Streams {
    pub(crate) fn new(kind: StreamsKind, config: &StreamsConfig, array: &Array, logical_pages: u32) -> Self {
        match kind {
            StreamsKind::ByTime => Self::ByTime,
            StreamsKind::MultiStream => Self::MultiStream(multi_stream::MultiStream::new(config.count)),
            StreamsKind::FlashAlloc => Self::FlashAlloc(Box::new(flashalloc::FlashAlloc::new(
                config,
                array.geometry(),
                logical_pages,
            ))),
            StreamsKind::Fdp => Self::Fdp(fdp::Fdp::new(config, array.geometry())),
        }
    }

    /// Where host data of logical page `lpn`, written with the host's stream id `hint`, goes.
    #[inline]
    pub(crate) fn role(&self, lpn: u32, hint: u16) -> Role {
        if let Self::ByTime = self { by_time::role() } else { self.role_by_policy(lpn, hint) }
    }
    fn role_by_policy(&self, lpn: u32, hint: u16) -> Role {
        match self {
            Self::ByTime => by_time::role(),
            Self::MultiStream(streams) => streams.role(hint),
            Self::FlashAlloc(flashalloc) => flashalloc.role(lpn),
            Self::Fdp(fdp) => fdp.role(hint),
        }
    }

    /// Where garbage collection puts what survives of a block that was written for `from`.
    #[inline]
    pub(crate) fn survivors(&self, from: Role) -> Role {
        match self {
            Self::Fdp(fdp) => fdp.survivors(from),
            _ => Role::Gc,
        }
    }

    /// A survivor that belonged to `own` went to `role`.
    #[inline]
    pub(crate) fn survivor_went(&mut self, own: Role, role: Role) {
        if let Self::Fdp(fdp) = self {
            fdp.mixed_pages += u64::from(fdp.is_survivors(own) && own != role);
        }
    }

    /// Whether `role` may take the blocks that host writes leave.
    #[inline]
    pub(crate) fn may_use_reserve(&self, role: Role) -> bool {
        role.may_use_reserve() || matches!(self, Self::Fdp(fdp) if fdp.is_survivors(role))
    }

    /// FlashAlloc's state, if that is the policy.
    #[inline]
    pub(crate) fn flashalloc(&self) -> Option<&flashalloc::FlashAlloc> {
        match self {
            Self::FlashAlloc(flashalloc) => Some(flashalloc),
            _ => None,
        }
    }
    #[inline]
    pub(crate) fn flashalloc_mut(&mut self) -> Option<&mut flashalloc::FlashAlloc> {
        match self {
            Self::FlashAlloc(flashalloc) => Some(flashalloc),
            _ => None,
        }
    }

    /// Whether the host's stream ids mean something.
    pub(crate) fn has_several(&self) -> bool {
        matches!(self, Self::MultiStream(_) | Self::Fdp(_))
    }

    /// FDP's state, if that is the policy.
    pub fn fdp(&self) -> Option<&fdp::Fdp> {
        match self {
            Self::Fdp(fdp) => Some(fdp),
            _ => None,
        }
    }

    /// The reclaim-unit handle goes on to its next unit.
    pub(crate) fn next_reclaim_unit(&mut self, handle: u16) {
        if let Self::Fdp(fdp) = self {
            fdp.next_unit(handle);
        }
    }

    /// A page was programmed for `role`.
    #[inline]
    pub(crate) fn wrote(&mut self, role: Role) {
        if let Self::Fdp(fdp) = self {
            fdp.wrote(role);
        }
    }

    /// No further page of `block` of an object, in which a program failed, is taken.
    pub(crate) fn avoid(&mut self, home: u16, block: nandle_nand::Block) {
        if let Some(flashalloc) = self.flashalloc_mut() {
            flashalloc.objects.avoid(home, block);
        }
    }

    /// Whether blocks can be dedicated to objects.
    #[inline]
    pub(crate) fn has_objects(&self) -> bool {
        matches!(self, Self::FlashAlloc(_))
    }

    // ---- the metadata log ---------------------------------------------------------------------

    /// Records that describe all live instances.
    pub(crate) fn record_count(&self) -> usize {
        self.flashalloc().map_or(0, |f| f.objects.record_count())
    }
    /// These records, under new sequence numbers.
    pub(crate) fn records_anew(&mut self, array: &mut Array) -> Vec<Record> {
        let records = self.flashalloc_mut().map_or_else(Vec::new, |f| f.objects.records_anew(array));
        records.into_iter().map(Record::Object).collect()
    }
    /// At power-on: all records of objects that were found.
    pub(crate) fn expect(&mut self, records: &[ObjectRecord]) {
        if let Some(flashalloc) = self.flashalloc_mut() {
            flashalloc.objects.expect(records);
        }
    }
    /// At power-on: a record, in the order of their sequence numbers.
    pub(crate) fn learn(&mut self, record: &ObjectRecord) {
        if let Some(flashalloc) = self.flashalloc_mut() {
            flashalloc.objects.learn(record);
        }
    }
    /// At power-on: a range was trimmed.
    pub(crate) fn forget(&mut self, lsn: u64, sectors: u64) {
        if let Some(flashalloc) = self.flashalloc_mut() {
            flashalloc.objects.forget(lsn, lsn + sectors);
        }
    }
}
