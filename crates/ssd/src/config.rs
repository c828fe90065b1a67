//! What a device is: every setting, its unit, its default and its range.

use nandle_nand::{CellKind, FaultConfig, Geometry, NandConfig, ProgramOrder, Timing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::allocation::AllocationKind;
use crate::buffer::BufferKind;
use crate::buffer::pc_lru::{Insert, PcLruConfig};
use crate::mapping::MappingKind;
use crate::mapping::across::AcrossConfig;
use crate::mapping::compaction::{CompactedConfig, Packing};
use crate::mapping::mrsm::MrsmConfig;
use crate::mapping::multi_version::MultiVersionConfig;
use crate::pacing::PacingKind;
use crate::streams::{StreamsConfig, StreamsKind};
use crate::victim::VictimKind;

/// A device: flash, firmware and scheme.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DeviceConfig {
    /// Short name.
    #[serde(default)]
    pub name: String,
    /// One line on what it models.
    #[serde(default)]
    pub description: String,
    /// Over-provisioning: (raw - logical) / logical bytes.
    pub op_ratio: f64,
    /// Shape of the flash.
    pub geometry: Geometry,
    /// Cells of the flash.
    #[serde(default)]
    pub cell: CellConfig,
    /// Durations.
    pub timing: Timing,
    /// Write buffer.
    #[serde(default)]
    pub buffer: BufferConfig,
    /// Mapping-table cache.
    #[serde(default)]
    pub map_cache: MapCacheConfig,
    /// Garbage collection.
    #[serde(default)]
    pub gc: GcConfig,
    /// Wear and bad blocks.
    #[serde(default)]
    pub wear: WearConfig,
    /// Power loss. Without this table no checkpoints are written, as on the papers' drives.
    #[serde(default = "RecoveryConfig::none")]
    pub recovery: RecoveryConfig,
    /// Operations that fail.
    #[serde(default, skip_serializing_if = "FaultConfig::is_none")]
    pub faults: FaultConfig,
    /// Host queue.
    #[serde(default)]
    pub queue: QueueConfig,
    /// Policies.
    #[serde(default)]
    pub scheme: SchemeConfig,
    /// Settings of the stream policies.
    #[serde(default)]
    pub streams: StreamsConfig,
    /// State before the first request.
    #[serde(default)]
    pub precondition: Precondition,
}

/// `[cell]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CellConfig {
    /// Bits per cell.
    pub kind: CellKind,
    /// Which order of programs the flash insists on.
    pub program_order: ProgramOrder,
    /// Erases that a block stands; 0 = without limit.
    pub endurance: u32,
    /// A power cut during the program of an upper page also destroys the lower pages of its word line
    /// (cells programmed page by page: MLC and up). Takes `recovery.plp`: lower pages are not backed up.
    pub paired_pages: bool,
}

impl Default for CellConfig {
    fn default() -> Self {
        Self { kind: CellKind::Slc, program_order: ProgramOrder::Strict, endurance: 0, paired_pages: false }
    }
}

/// `[buffer]`: volatile RAM for writes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct BufferConfig {
    /// Capacity in bytes, counted in whole sectors; 0 = no buffer.
    pub bytes: u64,
}

/// `[map_cache]`: how much of the mapping table stays in RAM.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct MapCacheConfig {
    /// Capacity in bytes, counted in whole translation pages; 0 = the whole table is in RAM.
    pub bytes: u64,
    /// Bytes of a plain page's mapping entry (4 to 16): 4 hold an address, 8 also the state of its
    /// sectors (SSDSim's). Schemes with larger entries add to it.
    pub entry_bytes: u32,
}

impl Default for MapCacheConfig {
    fn default() -> Self {
        Self { bytes: 0, entry_bytes: 4 }
    }
}

/// `[gc]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct GcConfig {
    /// Which block is collected.
    pub victim: VictimKind,
    /// Candidates drawn by `victim = "d-choices"` (1 to 1024).
    pub d: u32,
    /// Share of a plane's blocks at which collection begins in the background; at least one block
    /// more than `hard` is kept whatever the share.
    pub soft: f64,
    /// Share of a plane's blocks that host writes never take; at least one block whatever the share.
    pub hard: f64,
    /// Copies of one plane under way at a time (1 to 1024).
    pub copies_in_flight: u32,
    /// Page-type policies: collect in the background when fewer pages of the types that small or
    /// partial writes need are left than the soft watermark's blocks have; false = only when such a
    /// write waits for one (PAPA's emergency collection alone).
    pub types_ahead: bool,
}

impl Default for GcConfig {
    fn default() -> Self {
        Self {
            victim: VictimKind::Greedy,
            d: 8,
            soft: 0.0,
            hard: 0.0,
            copies_in_flight: 4,
            types_ahead: true,
        }
    }
}

/// `[wear]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct WearConfig {
    /// Take the least worn free block first (dynamic wear levelling); false = oldest first.
    pub dynamic: bool,
    /// Move the data of a block that is this many erases behind its plane's most worn block; 0 = never.
    pub static_gap: u32,
    /// Share of blocks that are bad from the factory (0 to 0.5), drawn by the seed.
    pub factory_bad: f64,
}

impl Default for WearConfig {
    fn default() -> Self {
        Self { dynamic: true, static_gap: 0, factory_bad: 0.0 }
    }
}

/// `[recovery]`: what a power cut costs.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct RecoveryConfig {
    /// Pages programmed from one page of the rolling checkpoint to the next (0 = no checkpoints;
    /// recovery then reads the out-of-band area of every page). Its share of all programs is one in
    /// this many; recovery scans about this many pages for each page that a whole checkpoint takes.
    pub checkpoint_interval: u32,
    /// Power-loss protection: capacitors keep the drive running until everything that was acknowledged
    /// is on flash, so that acknowledged writes are durable: a FLUSH is answered at once, FUA asks for no more.
    pub plp: bool,
}

impl RecoveryConfig {
    /// No checkpoints, no protection.
    pub fn none() -> Self {
        Self { checkpoint_interval: 0, plp: false }
    }
}

impl Default for RecoveryConfig {
    fn default() -> Self {
        Self { checkpoint_interval: 128, plp: false }
    }
}

/// `[queue]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// Requests that the device works on at a time (1 to 65536); further ones wait in the host.
    pub depth: u32,
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { depth: 1024 }
    }
}

/// `[scheme]`: one policy per question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct SchemeConfig {
    /// What waits in RAM and what leaves first.
    pub buffer: BufferKind,
    /// How a write is placed.
    pub mapping: MappingKind,
    /// Small partial pages that leave the buffer together share a physical page (WAFLASH).
    pub compaction: bool,
    /// Which plane a page goes to: a static order over C(hannel) W(ay = chip) D(ie) P(lane), fastest
    /// first, as "CWDP"; "dynamic" (first idle, else least queued); or "block-by-block" (a stream fills a
    /// block, then goes on in the next plane).
    pub striping: String,
    /// Which page type it goes to.
    pub allocation: AllocationKind,
    /// Which writes share blocks.
    pub streams: StreamsKind,
    /// When garbage is collected.
    pub pacing: PacingKind,
    /// Settings of `mapping = "across"`.
    pub across: AcrossConfig,
    /// Settings of `mapping = "mrsm"`.
    pub mrsm: MrsmConfig,
    /// Of buffer = "pc-lru".
    pub pc_lru: PcLruConfig,
    /// Of mapping = "multi-version"; bounds and merges also of compaction.
    pub multi_version: MultiVersionConfig,
    /// Of compaction = true.
    pub compacted: CompactedConfig,
}

impl Default for SchemeConfig {
    fn default() -> Self {
        Self {
            buffer: BufferKind::default(),
            mapping: MappingKind::default(),
            compaction: false,
            striping: "CWDP".into(),
            allocation: AllocationKind::default(),
            streams: StreamsKind::default(),
            pacing: PacingKind::default(),
            across: AcrossConfig::default(),
            mrsm: MrsmConfig::default(),
            pc_lru: PcLruConfig::default(),
            multi_version: MultiVersionConfig::default(),
            compacted: CompactedConfig::default(),
        }
    }
}

/// `[precondition]`: the state before the first request, reached in no simulated time.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Precondition {
    /// Share of the physical pages that are programmed (valid or not).
    pub used: f64,
    /// Share of the physical pages that hold live data.
    pub valid: f64,
    /// A trace to replay first, without time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_with: Option<String>,
}

/// A setting that makes no sense: field, value and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {value}: expected {expected}")]
pub struct ConfigError {
    /// Full name, as `--set` takes it.
    pub field: String,
    /// What was given.
    pub value: String,
    /// What would do.
    pub expected: String,
}

impl ConfigError {
    pub(crate) fn new(field: &str, value: impl ToString, expected: impl Into<String>) -> Self {
        Self { field: field.into(), value: value.to_string(), expected: expected.into() }
    }
}

/// Bytes of an address in a mapping entry.
pub(crate) const ENTRY_BYTES: u32 = 4;

/// What follows from a valid configuration.
#[derive(Clone, Debug, PartialEq)]
pub struct Layout {
    /// Logical pages.
    pub logical_pages: u32,
    /// Logical sectors that the host may address.
    pub logical_sectors: u64,
    /// Logical bytes.
    pub logical_bytes: u64,
    /// Free blocks of a plane that host writes never take.
    pub hard_blocks: u32,
    /// Free blocks of a plane below which collection runs.
    pub soft_blocks: u32,
    /// Blocks of a plane that writes keep open.
    pub open_blocks: u32,
    /// Mapping entries of a translation page.
    pub entries_per_map_page: u32,
    /// Translation pages of the whole table; 0 if it stays in RAM.
    pub map_pages: u32,
    /// Most pages that the checkpoint may keep live.
    pub checkpoint_pages: u32,
    /// Blocks of a plane that versions of logical pages may take at the least.
    pub version_blocks: u32,
    /// Blocks of a plane that all logical pages and what the drive stores for itself fill.
    pub data_blocks: u32,
    /// Least good blocks of a plane with which all logical pages and the reserve fit.
    pub least_blocks: u32,
}

impl DeviceConfig {
    /// The flash part.
    pub fn nand(&self) -> NandConfig {
        NandConfig {
            geometry: self.geometry.clone(),
            kind: self.cell.kind,
            order: self.cell.program_order,
            endurance: self.cell.endurance,
            timing: self.timing.clone(),
            paired_pages: self.cell.paired_pages,
        }
    }

    /// Checks the settings of schemes that keep several pages of a logical page; the blocks of a plane
    /// that are set aside for these.
    fn validate_versions(&self) -> Result<u32, ConfigError> {
        let (v, pc_lru) = (&self.scheme.multi_version, &self.scheme.pc_lru);
        if !(2..=8).contains(&v.max_versions) {
            return Err(ConfigError::new("scheme.multi_version.max_versions", v.max_versions, "2 to 8"));
        }
        for (field, value) in [("version_budget", v.version_budget), ("table_share", v.table_share)] {
            if !(0.0..=1.0).contains(&value) {
                return Err(ConfigError::new(&format!("scheme.multi_version.{field}"), value, "0 to 1"));
            }
        }
        if pc_lru.passes == 0 && matches!(pc_lru.insert, Insert::At(_)) {
            return Err(ConfigError::new(
                "scheme.pc_lru.passes",
                pc_lru.passes,
                "at least 1 with insert = \"at(n)\"",
            ));
        }
        if self.scheme.compaction {
            Packing::new(self)?;
        }
        Ok(u32::from(self.scheme.compaction || self.scheme.mapping.has_versions()))
    }

    /// Checks every setting against its range and against the others.
    ///
    /// # Errors
    /// The first setting that cannot stand. For a logical size that leaves garbage collection no
    /// room, the message names the least `op_ratio` that works.
    pub fn validate(&self) -> Result<Layout, ConfigError> {
        let g = &self.geometry;
        g.validate().map_err(|e| ConfigError::new(&format!("geometry.{}", e.field), e.value, e.expected))?;
        self.timing
            .validate(self.cell.kind)
            .map_err(|e| ConfigError::new(&format!("timing.{}", e.field), e.value, e.expected))?;
        let share = |field: &str, value: f64, high: f64| {
            if (0.0..=high).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::new(field, value, format!("0 to {high}")))
            }
        };
        let count = |field: &str, value: u32, high: u32| {
            if (1..=high).contains(&value) {
                Ok(())
            } else {
                Err(ConfigError::new(field, value, format!("1 to {high}")))
            }
        };
        share("gc.soft", self.gc.soft, 0.9)?;
        share("gc.hard", self.gc.hard, 0.9)?;
        count("gc.copies_in_flight", self.gc.copies_in_flight, 1024)?;
        count("gc.d", self.gc.d, 1024)?;
        count("queue.depth", self.queue.depth, 65536)?;
        share("wear.factory_bad", self.wear.factory_bad, 0.5)?;
        if self.gc.soft > 0.0 && self.gc.soft < self.gc.hard {
            return Err(ConfigError::new(
                "gc.soft",
                self.gc.soft,
                format!("at least gc.hard, {}", self.gc.hard),
            ));
        }
        if !(0.0..=1000.0).contains(&self.op_ratio) {
            return Err(ConfigError::new("op_ratio", self.op_ratio, "(raw - logical) / logical, 0 to 1000"));
        }
        crate::striping::Striping::new(&self.scheme.striping, g)?;
        let allocation = self.scheme.allocation;
        if allocation.chooses_types() && self.cell.kind == CellKind::Slc {
            let expected = format!("mlc, tlc or qlc for scheme.allocation = {:?}", allocation.name());
            return Err(ConfigError::new("cell.kind", "slc", expected));
        }
        if allocation.chooses_types() && self.scheme.striping == "block-by-block" {
            let expected = format!("an order or dynamic for scheme.allocation = {:?}", allocation.name());
            return Err(ConfigError::new("scheme.striping", "block-by-block", expected));
        }
        if allocation.chooses_types() && self.cell.program_order == ProgramOrder::Strict {
            let expected = format!("relaxed for scheme.allocation = {:?}", allocation.name());
            return Err(ConfigError::new("cell.program_order", "strict", expected));
        }
        for (field, rate) in [
            ("program_rate", self.faults.program_rate),
            ("erase_rate", self.faults.erase_rate),
            ("read_rate", self.faults.read_rate),
        ] {
            share(&format!("faults.{field}"), rate, 0.5)?;
        }
        if self.cell.paired_pages && self.cell.kind == CellKind::Slc {
            return Err(ConfigError::new("cell.paired_pages", true, "false with cell.kind = \"slc\""));
        }
        if self.cell.paired_pages && !self.recovery.plp {
            let expected = "false, or recovery.plp = true: lower pages are not backed up";
            return Err(ConfigError::new("cell.paired_pages", true, expected));
        }
        if self.buffer.bytes > 1 << 40 {
            return Err(ConfigError::new("buffer.bytes", self.buffer.bytes, "at most 1 TiB"));
        }
        if self.scheme.buffer.needs_ram() && self.buffer.bytes < u64::from(g.page_bytes) {
            return Err(ConfigError::new(
                "buffer.bytes",
                self.buffer.bytes,
                format!(
                    "at least one page ({}) for scheme.buffer = {:?}",
                    g.page_bytes,
                    self.scheme.buffer.name()
                ),
            ));
        }
        if self.map_cache.bytes != 0 && self.map_cache.bytes < 2 * u64::from(g.page_bytes) {
            return Err(ConfigError::new(
                "map_cache.bytes",
                self.map_cache.bytes,
                format!("0 (whole table in RAM) or at least two translation pages ({})", 2 * g.page_bytes),
            ));
        }

        if self.scheme.mapping == MappingKind::Mrsm {
            let MrsmConfig { sub_pages, region_pages, .. } = self.scheme.mrsm;
            if !(2..=16).contains(&sub_pages) || !g.sectors_per_page().is_multiple_of(sub_pages) {
                let expected =
                    format!("2 to 16, a divisor of the {} sectors of a page", g.sectors_per_page());
                return Err(ConfigError::new("scheme.mrsm.sub_pages", sub_pages, expected));
            }
            if !(2..=32768 / sub_pages).contains(&region_pages) {
                let expected = format!("2 to {}", 32768 / sub_pages);
                return Err(ConfigError::new("scheme.mrsm.region_pages", region_pages, expected));
            }
        }
        if self.scheme.compaction && self.scheme.mapping == MappingKind::Mrsm {
            return Err(ConfigError::new(
                "scheme.compaction",
                true,
                "false: mapping \"mrsm\" packs parts of pages by itself",
            ));
        }
        if !(4..=16).contains(&self.map_cache.entry_bytes) {
            return Err(ConfigError::new("map_cache.entry_bytes", self.map_cache.entry_bytes, "4 to 16"));
        }
        let version_blocks = self.validate_versions()?;

        let per_plane = g.blocks_per_plane;
        let blocks = |share: f64| (share * f64::from(per_plane)).ceil() as u32;
        let hard_blocks = blocks(self.gc.hard).max(1);
        // Collection makes room for all that placing one write may program.
        let at_once = self.scheme.mapping.pages_at_once().div_ceil(g.pages_per_block);
        let soft_blocks = blocks(self.gc.soft).max(hard_blocks + at_once);
        self.streams.validate(g.sector_bytes)?;
        let open_blocks = self.scheme.streams.host_streams(&self.streams) + 1;
        let wide = g.pages() as f64 / (1.0 + self.op_ratio);
        let logical_pages = (wide.floor() as u64).max(1) as u32;
        let (entries_per_map_page, table_pages) = crate::map_cache::table::shape(self, logical_pages);
        let map_pages = if self.map_cache.bytes == 0 { 0 } else { table_pages };
        let factory_bad = blocks(self.wear.factory_bad);
        // Programs that fail are repeated in a block of their own.
        let repeats = self.faults.program_rate > 0.0 || !self.faults.programs.is_empty();
        // Kept beside the data: the reserve, the open blocks (data and system), and one block whose
        // pages are all garbage, so that collection always gains. Translation pages and the
        // metadata log take pages like data.
        let overhead = soft_blocks
            + open_blocks
            + 1
            + 1
            + u32::from(self.wear.static_gap > 0)
            + version_blocks
            + u32::from(repeats);
        let logical_sectors = u64::from(logical_pages) * u64::from(g.sectors_per_page());
        let log_pages = crate::log::most_pages(logical_sectors, g.page_bytes);
        let checkpoint_pages = crate::checkpoint::most_pages(self, logical_pages, map_pages, log_pages);
        let system_pages =
            u64::from(map_pages) + u64::from(log_pages) + u64::from(checkpoint_pages) + u64::from(g.planes());
        let data_pages = |logical: u64| (logical + system_pages).div_ceil(u64::from(g.planes()));
        let data_blocks = data_pages(u64::from(logical_pages)).div_ceil(u64::from(g.pages_per_block)) as u32;
        let least_blocks = data_blocks + overhead;
        if least_blocks + factory_bad > per_plane {
            let room = u64::from(per_plane.saturating_sub(overhead + factory_bad))
                * u64::from(g.pages_per_block)
                * u64::from(g.planes());
            let room = room.saturating_sub(system_pages);
            let expected = if room == 0 {
                format!(
                    "more than {} blocks a plane: the reserve and the open blocks alone take that many",
                    overhead + factory_bad
                )
            } else {
                let least = (g.pages() as f64 / room as f64 - 1.0) * 1e4;
                format!(
                    "at least {:.4}: garbage collection keeps {overhead} blocks of each plane's {per_plane} for itself{}",
                    least.ceil() / 1e4,
                    if factory_bad > 0 { format!(" and {factory_bad} are bad") } else { String::new() }
                )
            };
            return Err(ConfigError::new("op_ratio", self.op_ratio, expected));
        }
        let p = &self.precondition;
        share("precondition.used", p.used, 1.0)?;
        share("precondition.valid", p.valid, 1.0)?;
        if p.valid > p.used {
            return Err(ConfigError::new("precondition.valid", p.valid, format!("at most used, {}", p.used)));
        }
        if p.valid * g.pages() as f64 > f64::from(logical_pages) {
            let most = f64::from(logical_pages) / g.pages() as f64;
            return Err(ConfigError::new(
                "precondition.valid",
                p.valid,
                format!("at most {most:.4}, the logical share of the physical pages"),
            ));
        }
        let most = 1.0 - f64::from(soft_blocks + open_blocks + 1 + factory_bad) / f64::from(per_plane);
        if p.used > most {
            return Err(ConfigError::new(
                "precondition.used",
                p.used,
                format!(
                    "at most {most:.4}: {} blocks of each plane stay free or open",
                    soft_blocks + open_blocks + 1
                ),
            ));
        }
        Ok(Layout {
            logical_pages,
            logical_sectors,
            logical_bytes: logical_sectors * u64::from(g.sector_bytes),
            hard_blocks,
            soft_blocks,
            open_blocks,
            entries_per_map_page,
            map_pages,
            checkpoint_pages,
            version_blocks,
            data_blocks,
            least_blocks,
        })
    }
}
