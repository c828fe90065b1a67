//! What a device is: every setting, its unit, its default and its range.

use nandle_nand::{CellKind, FaultConfig, Geometry, NandConfig, ProgramOrder, Superblocks, Timing};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::buffer::{BufferConfig, FifoEvict, FifoReads, Release};
use crate::collect::{GcConfig, SurvivorsKind};
use crate::controller::ControllerConfig;
use crate::durability::{RecoveryConfig, SystemPages};
use crate::error::ConfigError;
use crate::link::LinkConfig;
use crate::map::{MapCacheConfig, MappingConfig, TableSize};
use crate::media::CellConfig;
use crate::schemes::{Facts, Plan, SchemeConfig, StreamsConfig};
use crate::space::{
    Limits, PacingKind, PageTypes, SlcConfig, SpacePlan, Striping, SuperblockConfig, WearConfig,
};

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
    /// Host link.
    #[serde(default, skip_serializing_if = "LinkConfig::is_off")]
    pub link: LinkConfig,
    /// Processor cores.
    #[serde(default, skip_serializing_if = "ControllerConfig::is_off")]
    pub controller: ControllerConfig,
    /// Write buffer.
    #[serde(default)]
    pub buffer: BufferConfig,
    /// Mapping unit.
    #[serde(default, skip_serializing_if = "MappingConfig::is_page")]
    pub mapping: MappingConfig,
    /// Writes that are never torn.
    #[serde(default, skip_serializing_if = "AtomicConfig::is_none")]
    pub atomic: AtomicConfig,
    /// Mapping-table cache.
    #[serde(default)]
    pub map_cache: MapCacheConfig,
    /// Garbage collection.
    #[serde(default)]
    pub gc: GcConfig,
    /// What blocks are made of.
    #[serde(default, skip_serializing_if = "SuperblockConfig::is_default")]
    pub superblock: SuperblockConfig,
    /// SLC cache.
    #[serde(default, skip_serializing_if = "SlcConfig::is_default")]
    pub slc: SlcConfig,
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

/// `[atomic]`: writes that are seen whole or not at all, if they cross no border of mapping units. A unit's sectors move in the
/// map together, so a drive can promise that for as much as a unit, and no more.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct AtomicConfig {
    /// Bytes of a write that other commands see whole or not at all (NVMe: AWUN, NAWUN); 0 = one sector.
    pub write_bytes: u32,
    /// Bytes of a write that a power cut leaves whole or not at all (NVMe: AWUPF, NAWUPF); 0 = one sector.
    pub power_fail_bytes: u32,
}

impl AtomicConfig {
    /// Nothing is promised beyond a sector.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }

    /// Whether a drive with such sectors and mapping units can promise it.
    fn validate(&self, sector: u32, unit: u32) -> Result<(), ConfigError> {
        for (field, bytes) in
            [("atomic.write_bytes", self.write_bytes), ("atomic.power_fail_bytes", self.power_fail_bytes)]
        {
            if bytes != 0 && (!bytes.is_multiple_of(sector) || bytes > unit) {
                let expected = format!(
                    "0, or whole sectors ({sector}) up to a mapping unit ({unit}; mapping.unit_bytes)"
                );
                return Err(ConfigError::new(field, bytes, expected));
            }
        }
        if self.power_fail_bytes > self.write_bytes {
            let expected = format!("at least atomic.power_fail_bytes, {}", self.power_fail_bytes);
            return Err(ConfigError::new("atomic.write_bytes", self.write_bytes, expected));
        }
        Ok(())
    }
}

/// `[queue]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct QueueConfig {
    /// Requests that the device works on at a time (1 to 65536); further ones wait in the host.
    pub depth: u32,
    /// Which writes a write holds back that waits for room.
    #[serde(skip_serializing_if = "QueueOrder::is_default")]
    pub order: QueueOrder,
}

/// `queue.order`: which writes a write holds back that waits for room.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum QueueOrder {
    /// All that came later: one queue for the whole drive.
    Arrival,
    /// Those that go to the same planes, or to the same sectors; where any plane serves, all that came later. Of a
    /// buffer the oldest entry whose plane has room leaves if what the policy chose waits for its own.
    #[default]
    Plane,
}

impl QueueOrder {
    fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

impl Default for QueueConfig {
    fn default() -> Self {
        Self { depth: 1024, order: QueueOrder::default() }
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
    /// The drive is as random writes of all of it leave it in the long run: full, all logical pages live, at random
    /// places, the fewer the older a block is. Then `used` and `valid` are 0.
    pub steady: bool,
    /// A trace to replay first, without time.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub age_with: Option<String>,
}

/// How mapping units and pages of the flash fit.
#[derive(Clone, Copy, Debug)]
struct Fit {
    /// Units of a page.
    slots: u32,
    /// Pages of a unit, each in a plane of its own.
    gang: u32,
}

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
    /// Free blocks of a plane that data never take.
    pub kept_blocks: u32,
    /// Blocks of a plane that writes keep open.
    pub open_blocks: u32,
    /// Mapping entries of a translation page.
    pub entries_per_map_page: u32,
    /// Translation pages of the whole table; 0 if it stays in RAM.
    pub map_pages: u32,
    /// Most pages that the checkpoint may keep live.
    pub checkpoint_pages: u32,
    /// Blocks of a plane that are the SLC cache's own.
    pub slc_blocks: u32,
    /// Blocks of a plane that pages beyond one per logical page may take at the least.
    pub version_blocks: u32,
    /// Blocks of a plane that all logical pages and what the drive stores for itself fill.
    pub data_blocks: u32,
    /// Least good blocks of a plane with which all logical pages and the reserve fit.
    pub least_blocks: u32,
}

impl Layout {
    /// The shares of each plane's blocks.
    pub(crate) fn limits(&self) -> Limits {
        Limits {
            hard: self.hard_blocks,
            soft: self.soft_blocks,
            kept: self.kept_blocks,
            data: self.data_blocks,
            surplus: self.version_blocks,
            least: self.least_blocks,
        }
    }
}

impl DeviceConfig {
    /// The flash part.
    pub fn nand(&self) -> NandConfig {
        let Fit { slots, gang } = self.fit();
        let mut timing = self.timing.clone();
        timing.transfer_ns_per_page =
            timing.transfer_ns_per_page.map(|ns| ns * u64::from(gang) / u64::from(slots));
        NandConfig {
            geometry: self.unit_geometry(),
            slots,
            gang,
            superblocks: self.superblocks(),
            kind: self.cell.kind,
            order: self.cell.program_order,
            endurance: self.cell.endurance,
            timing,
            paired_pages: self.cell.paired_pages,
            slc: self.slc.mode(),
        }
    }

    /// Bytes of a mapping unit.
    pub fn unit_bytes(&self) -> u32 {
        if self.mapping.is_page() { self.geometry.page_bytes } else { self.mapping.unit_bytes }
    }

    /// How mapping units and pages of the flash fit.
    fn fit(&self) -> Fit {
        let (unit, page) = (self.unit_bytes(), self.geometry.page_bytes);
        Fit { slots: (page / unit).max(1), gang: (unit / page).max(1) }
    }

    /// The shape of the flash as the drive addresses it: a page holds one mapping unit. Smaller units are pages
    /// of their own, of which one program fills several; larger ones lie in planes that work as one. A superblock
    /// is a block, and the planes that it lies on are one.
    pub fn unit_geometry(&self) -> Geometry {
        self.superblocks().map_or_else(|| self.flash_geometry(), |superblocks| superblocks.addressed())
    }

    /// How blocks of the flash make up superblocks, if they do.
    fn superblocks(&self) -> Option<Superblocks> {
        (self.scheme.striping == Striping::SUPERBLOCK).then(|| {
            let flash = self.flash_geometry();
            let dies = if self.superblock.dies == 0 { flash.dies() } else { self.superblock.dies };
            let planes_first = self.timing.multi_plane;
            Superblocks { flash, dies, parity: self.superblock.parity, planes_first }
        })
    }

    /// Blocks of the flash in one that the drive addresses.
    pub(crate) fn blocks_in_one(&self) -> u32 {
        self.superblocks().map_or(1, |superblocks| superblocks.width())
    }

    /// As [`DeviceConfig::unit_geometry`], of blocks and planes as they are.
    fn flash_geometry(&self) -> Geometry {
        let Fit { slots, gang } = self.fit();
        let g = &self.geometry;
        Geometry {
            planes_per_die: g.planes_per_die / gang,
            pages_per_block: g.pages_per_block * slots,
            page_bytes: self.unit_bytes(),
            oob_bytes: g.oob_bytes * gang / slots,
            ..g.clone()
        }
    }

    fn check_unit(&self) -> Result<(), ConfigError> {
        let (unit, g) = (self.mapping.unit_bytes, &self.geometry);
        let page = g.page_bytes;
        let err = |expected: String| Err(ConfigError::new("mapping.unit_bytes", unit, expected));
        if self.mapping.is_page() || unit == page {
            return Ok(());
        }
        let ratio = unit.max(page) / unit.min(page);
        if !unit.max(page).is_multiple_of(unit.min(page)) || !ratio.is_power_of_two() {
            return err(format!(
                "a page ({page}) divided by or times a power of two, such as {} or {}",
                page / 2,
                page * 2
            ));
        }
        if unit < page {
            if !unit.is_multiple_of(g.sector_bytes) {
                return err(format!("whole sectors: at least {}", g.sector_bytes));
            }
            let slots = u64::from(g.pages_per_block) * u64::from(ratio);
            if slots > 65535 {
                let least = page / (65535 / g.pages_per_block).max(1).next_power_of_two();
                return err(format!("at most 65535 units in a block, here {slots}: at least {least} bytes"));
            }
        } else {
            let most = page << g.planes_per_die.trailing_zeros();
            if unit > most {
                return err(format!(
                    "at most {most}: a unit lies on one page of each of a die's {} planes",
                    g.planes_per_die
                ));
            }
            if unit / g.sector_bytes > 64 {
                return err(format!(
                    "at most 64 sectors, {} bytes: use geometry.sector_bytes = 4096 for larger ones",
                    64 * g.sector_bytes
                ));
            }
        }
        self.flash_geometry()
            .validate()
            .map_err(|e| ConfigError::new("mapping.unit_bytes", unit, format!("a larger unit: geometry.{e}")))
    }

    /// Whether blocks make up whole superblocks, and stripes of parity whole rows of them.
    fn check_superblock(&self) -> Result<(), ConfigError> {
        let SuperblockConfig { dies, parity } = self.superblock;
        if self.scheme.striping != Striping::SUPERBLOCK {
            for (field, value) in [("superblock.dies", dies), ("superblock.parity", parity)] {
                if value != 0 {
                    let expected = format!("0 unless scheme.striping = {:?}", Striping::SUPERBLOCK);
                    return Err(ConfigError::new(field, value, expected));
                }
            }
            return Ok(());
        }
        let flash = self.flash_geometry();
        if dies != 0 && !flash.dies().is_multiple_of(dies) {
            let works = (1..dies.min(flash.dies())).rev().find(|n| flash.dies().is_multiple_of(*n));
            let expected = format!("a divisor of the {} dies, such as {}", flash.dies(), works.unwrap_or(1));
            return Err(ConfigError::new("superblock.dies", dies, expected));
        }
        if self.wear.static_gap > 0 && (dies == 0 || dies == flash.dies()) {
            let expected = match (1..flash.dies()).rev().find(|n| flash.dies().is_multiple_of(*n)) {
                Some(works) => {
                    format!("0, or superblock.dies = {works} or less: cold data leave by another set of dies")
                }
                None => "0: there is one set of dies, and cold data leave by another".into(),
            };
            return Err(ConfigError::new("wear.static_gap", self.wear.static_gap, expected));
        }
        let width = self.blocks_in_one();
        if parity == 1 || parity != 0 && !width.is_multiple_of(parity) {
            let works = (2..=width).rev().find(|&n| n <= parity.max(2) && width.is_multiple_of(n));
            let expected = match works.or((width > 1).then_some(width)) {
                Some(works) => format!("0, or a divisor of a superblock's {width} blocks, such as {works}"),
                None => "0: a superblock of one block has no parity".into(),
            };
            return Err(ConfigError::new("superblock.parity", parity, expected));
        }
        self.unit_geometry().check_addresses().map_err(|e| {
            let expected = format!("{}, or fewer dies in superblock.dies", e.expected);
            ConfigError::new("geometry.blocks_per_plane", e.value, expected)
        })
    }

    /// What schemes are told of the device.
    pub(crate) fn facts<'a>(&'a self, geometry: &'a Geometry) -> Facts<'a> {
        let striping = Striping::new(&self.scheme.striping, geometry);
        Facts {
            geometry,
            cell: self.cell.kind,
            order: self.cell.program_order,
            buffer_bytes: self.buffer.bytes,
            // Where units share pages, planes are chosen for pages, not for units.
            static_striping: self.fit().slots == 1 && striping.is_ok_and(|striping| striping.is_static()),
            striping: &self.scheme.striping,
            names: &[],
        }
    }

    /// What the sizes of the mapping table follow from.
    pub(crate) fn table_size(&self, logical_pages: u32) -> TableSize {
        TableSize { page_bytes: self.unit_bytes(), entry_bytes: self.map_cache.entry_bytes, logical_pages }
    }

    /// Checks every setting against its range and against the others.
    ///
    /// # Errors
    /// The first setting that cannot stand. For a logical size that leaves garbage collection no
    /// room, the message names the least `op_ratio` that works.
    pub fn validate(&self) -> Result<Layout, ConfigError> {
        self.plan().map(|(_, layout)| layout)
    }

    /// As [`DeviceConfig::validate`], with what the schemes ask of the layers.
    pub(crate) fn plan(&self) -> Result<(Plan, Layout), ConfigError> {
        self.check_settings()?;
        let geometry = self.unit_geometry();
        let mut plan = self.scheme.plan(&self.streams, &self.facts(&geometry))?;
        if self.gc.survivors == SurvivorsKind::WithHost && plan.space.page_types.is_none() {
            self.check_survivors(&plan)?;
            plan.space.page_types = Some(PageTypes::block_by_block(self.cell.kind.bits() as usize));
        }
        // A device file says how its FIFO works; it matters once FIFO is chosen.
        if self.scheme.buffer == "fifo" {
            plan.buffer.merge = self.buffer.fifo_merge;
            plan.buffer.evict_all = self.buffer.fifo_evict == FifoEvict::All;
            plan.buffer.destage_reads = self.buffer.fifo_reads == FifoReads::Destage;
        }
        if let (Some(types), true) = (&plan.space.page_types, self.fit().slots > 1) {
            let expected = format!(
                "{} or more with page types chosen by {:?}, which looks at what a page is written for: units \
                 of several writes share one",
                self.geometry.page_bytes,
                types.name()
            );
            return Err(ConfigError::new("mapping.unit_bytes", self.mapping.unit_bytes, expected));
        }
        self.check_slc(&plan.space)?;
        let layout = self.lay_out(&plan)?;
        self.check_precondition(&layout)?;
        Ok((plan, layout))
    }

    /// What survivors and host writes cannot share open blocks with.
    fn check_survivors(&self, plan: &Plan) -> Result<(), ConfigError> {
        let expected = if self.cell.kind.bits() > 1 && self.cell.program_order == ProgramOrder::Strict {
            "apart, or cell.program_order = \"relaxed\""
        } else if self.fit().slots > 1 {
            "apart with mapping units smaller than a page"
        } else if !self.slc.is_off() {
            "apart with an SLC cache"
        } else if plan.space.survivors_apart {
            "apart with streams.isolation = \"persistently\""
        } else if let "superblock" | "block-by-block" = self.scheme.striping.as_str() {
            "apart, or scheme.striping = \"dynamic\", \"round-robin\" or an order of planes"
        } else {
            return Ok(());
        };
        Err(ConfigError::new("gc.survivors", self.gc.survivors.name(), expected))
    }

    /// Each setting against its range, schemes' own aside.
    fn check_settings(&self) -> Result<(), ConfigError> {
        let g = &self.geometry;
        g.validate().map_err(|e| ConfigError::new(&format!("geometry.{}", e.field), e.value, e.expected))?;
        self.check_unit()?;
        self.check_superblock()?;
        let unit = self.unit_bytes();
        self.atomic.validate(g.sector_bytes, unit)?;
        self.timing
            .validate(self.cell.kind)
            .map_err(|e| ConfigError::new(&format!("timing.{}", e.field), e.value, e.expected))?;
        self.link.validate()?;
        self.controller.validate()?;
        self.slc.validate()?;
        ConfigError::share("gc.soft", self.gc.soft, 0.9)?;
        ConfigError::share("gc.hard", self.gc.hard, 0.9)?;
        ConfigError::share("gc.lazy", self.gc.lazy, 1.0)?;
        ConfigError::count("gc.copies_in_flight", self.gc.copies_in_flight, 1024)?;
        let total = self.gc.copies_in_flight_total;
        if total > 1 << 20 {
            return Err(ConfigError::new("gc.copies_in_flight_total", total, "0 to 1048576"));
        }
        ConfigError::count("gc.d", self.gc.d, 1024)?;
        ConfigError::count("queue.depth", self.queue.depth, 65536)?;
        ConfigError::share("wear.factory_bad", self.wear.factory_bad, 0.5)?;
        if self.gc.soft > 0.0 && self.gc.soft < self.gc.hard {
            let expected = format!("at least gc.hard, {}", self.gc.hard);
            return Err(ConfigError::new("gc.soft", self.gc.soft, expected));
        }
        if !(0.0..=1000.0).contains(&self.op_ratio) {
            return Err(ConfigError::new("op_ratio", self.op_ratio, "(raw - logical) / logical, 0 to 1000"));
        }
        Striping::new(&self.scheme.striping, g)?;
        for (field, rate) in [
            ("program_rate", self.faults.program_rate),
            ("erase_rate", self.faults.erase_rate),
            ("read_rate", self.faults.read_rate),
        ] {
            ConfigError::share(&format!("faults.{field}"), rate, 0.5)?;
        }
        if self.cell.paired_pages && self.cell.kind == CellKind::Slc {
            return Err(ConfigError::new("cell.paired_pages", true, "false with cell.kind = \"slc\""));
        }
        if self.cell.paired_pages && !self.recovery.plp {
            let expected = "false, or recovery.plp = true: lower pages are not backed up";
            return Err(ConfigError::new("cell.paired_pages", true, expected));
        }
        if self.buffer.bytes == 0 && (self.buffer.clean_ahead || self.buffer.release != Release::default()) {
            let expected = "at least one page with buffer.release and buffer.clean_ahead";
            return Err(ConfigError::new("buffer.bytes", 0, expected));
        }
        if self.buffer.bytes > 1 << 40 {
            return Err(ConfigError::new("buffer.bytes", self.buffer.bytes, "at most 1 TiB"));
        }
        // A write goes in by units: less room than one would never be enough.
        let (lru, bytes) = (self.scheme.buffer == "lru", self.buffer.bytes);
        if bytes < u64::from(unit) && (bytes > 0 || !lru) {
            let expected = if lru {
                format!("0 (no buffer) or at least one mapping unit ({unit})")
            } else {
                format!("at least one mapping unit ({unit}) for scheme.buffer = {:?}", self.scheme.buffer)
            };
            return Err(ConfigError::new("buffer.bytes", bytes, expected));
        }
        if self.map_cache.bytes != 0 && self.map_cache.bytes < 2 * u64::from(unit) {
            let least = 2 * unit;
            let expected = format!("0 (whole table in RAM) or at least two translation pages ({least})");
            return Err(ConfigError::new("map_cache.bytes", self.map_cache.bytes, expected));
        }
        if !(4..=16).contains(&self.map_cache.entry_bytes) {
            return Err(ConfigError::new("map_cache.entry_bytes", self.map_cache.entry_bytes, "4 to 16"));
        }
        self.streams.validate(g.sector_bytes)
    }

    /// How the blocks of a plane are shared out.
    fn lay_out(&self, plan: &Plan) -> Result<Layout, ConfigError> {
        let g = &self.unit_geometry();
        let per_plane = g.blocks_per_plane;
        let blocks = |share: f64| (share * f64::from(per_plane)).ceil() as u32;
        // The rule of lazy collection rounds down, and counts the watermark in.
        let lazy = self.scheme.pacing == PacingKind::Lazy;
        let whole = |share: f64| (share * f64::from(per_plane)) as u32;
        let hard_blocks = if lazy { whole(self.gc.hard) } else { blocks(self.gc.hard) }.max(1);
        // Collection makes room for all that placing one write may program.
        let at_once = (plan.pages_at_once * self.fit().slots).div_ceil(g.pages_per_block);
        let soft_blocks = if lazy { whole(self.gc.soft) + 1 } else { blocks(self.gc.soft) };
        let soft_blocks = soft_blocks.max(hard_blocks + at_once);
        // Collection that goes by watermarks alone keeps the soft one; else it is where collection begins if that is
        // to be had.
        let watermark = self.scheme.pacing == PacingKind::Watermark;
        let kept_blocks = if watermark { soft_blocks } else { hard_blocks + at_once };
        let open_blocks = plan.space.host_groups() + 1;
        let wide = self.flash_geometry().pages() as f64 / (1.0 + self.op_ratio);
        let logical_pages = (wide.floor() as u64).max(1) as u32;
        let (entries_per_map_page, table_pages) = plan.table.pages(self.table_size(logical_pages));
        let map_pages = if self.map_cache.bytes == 0 { 0 } else { table_pages };
        let factory_bad = blocks(self.wear.factory_bad);
        // Programs that fail are repeated in a block of their own.
        let repeats = self.faults.fail_programs();
        // Kept beside the data: the reserve, the open blocks (data and system), and one block whose
        // pages are all garbage, so that collection always gains. Translation pages and the
        // metadata log take pages like data.
        let overhead = kept_blocks
            + open_blocks
            + 1
            + 1
            + u32::from(self.wear.static_gap > 0)
            + plan.surplus_blocks
            + u32::from(repeats);
        let logical_sectors = u64::from(logical_pages) * u64::from(g.sectors_per_page());
        let page = (g.page_bytes, g.sectors_per_page());
        let system = SystemPages::most(&self.recovery, page, logical_pages, map_pages, plan.scatters);
        let system_pages = u64::from(map_pages)
            + u64::from(system.log)
            + u64::from(system.checkpoint)
            + u64::from(g.planes());
        let data_pages = (u64::from(logical_pages) + system_pages).div_ceil(u64::from(g.planes()));
        // A block is collected only if that gains a page of the flash: fewer dead units may stay in each.
        let kept = u64::from(g.pages_per_block - (self.fit().slots - 1));
        let data_blocks = data_pages.div_ceil(kept) as u32;
        let least_blocks = data_blocks + overhead;
        if least_blocks + factory_bad > per_plane {
            return Err(self.too_little_spare(overhead, factory_bad, system_pages));
        }
        let slc_blocks = self.slc.blocks(g, self.cell.kind.bits(), self.fit().slots);
        let spare = per_plane - least_blocks - factory_bad;
        if slc_blocks > u64::from(spare) {
            let most = u64::from(spare) * SlcConfig::row_bytes(g, self.cell.kind.bits(), self.fit().slots);
            let expected = format!(
                "at most {most}: {} blocks of each plane's {per_plane} hold data or are kept for collection; or a larger op_ratio",
                least_blocks + factory_bad
            );
            return Err(ConfigError::new("slc.bytes", self.slc.bytes, expected));
        }
        let slc_blocks = slc_blocks as u32;
        Ok(Layout {
            logical_pages,
            logical_sectors,
            logical_bytes: logical_sectors * u64::from(g.sector_bytes),
            hard_blocks,
            soft_blocks,
            kept_blocks,
            open_blocks,
            entries_per_map_page,
            map_pages,
            checkpoint_pages: system.checkpoint,
            slc_blocks,
            version_blocks: plan.surplus_blocks,
            data_blocks,
            least_blocks,
        })
    }

    /// What an SLC cache cannot be had with.
    fn check_slc(&self, plan: &SpacePlan) -> Result<(), ConfigError> {
        if self.slc.is_off() {
            return Ok(());
        }
        let (field, value) = match self.slc.bytes {
            0 => ("slc.dynamic_share", self.slc.dynamic_share.to_string()),
            bytes => ("slc.bytes", bytes.to_string()),
        };
        let err = |expected: String| Err(ConfigError::new(field, &value, expected));
        let bits = self.cell.kind.bits();
        if bits == 1 {
            return err("0 with cell.kind = \"slc\": all blocks are SLC".into());
        }
        if self.geometry.pages_per_block < 2 * bits {
            return err(format!("0 with blocks of fewer than {} pages", 2 * bits));
        }
        if let name @ ("superblock" | "block-by-block") = self.scheme.striping.as_str() {
            return err(format!(
                "0 with scheme.striping = {name:?}: use \"dynamic\" or an order of planes with an SLC cache"
            ));
        }
        if plan.page_types.is_some() {
            return err(
                "0 where page types are chosen (scheme.allocation): use scheme.allocation = \"strict\""
                    .into(),
            );
        }
        let one_group = plan.streams == 1 && !plan.survivors_apart && plan.dedicated.is_none();
        if !one_group || plan.surplus.is_some() {
            return err(
                "0 with schemes that keep streams or objects apart, or several pages of one logical page: \
                        use scheme.mapping = \"page\" and scheme.streams = \"by-time\""
                    .into(),
            );
        }
        Ok(())
    }

    /// The logical size leaves collection no room: what would.
    fn too_little_spare(&self, overhead: u32, factory_bad: u32, system_pages: u64) -> ConfigError {
        let g = &self.unit_geometry();
        let per_plane = g.blocks_per_plane;
        let room = u64::from(per_plane.saturating_sub(overhead + factory_bad))
            * u64::from(g.pages_per_block - (self.fit().slots - 1))
            * u64::from(g.planes());
        let room = room.saturating_sub(system_pages);
        let expected = if room == 0 {
            format!(
                "more than {} blocks a plane: the reserve and the open blocks alone take that many",
                overhead + factory_bad
            )
        } else {
            let least = (self.flash_geometry().pages() as f64 / room as f64 - 1.0) * 1e4;
            format!(
                "at least {:.4}: garbage collection keeps {overhead} blocks of each plane's {per_plane} for itself{}",
                least.ceil() / 1e4,
                if factory_bad > 0 { format!(" and {factory_bad} are bad") } else { String::new() }
            )
        };
        ConfigError::new("op_ratio", self.op_ratio, expected)
    }

    /// Whether the state before the first request can be reached.
    fn check_precondition(&self, layout: &Layout) -> Result<(), ConfigError> {
        let (p, g) = (&self.precondition, &self.unit_geometry());
        ConfigError::share("precondition.used", p.used, 1.0)?;
        ConfigError::share("precondition.valid", p.valid, 1.0)?;
        if p.steady && p.used.max(p.valid) > 0.0 {
            let expected = "false, or used and valid 0: the drive is full and all logical pages are live";
            return Err(ConfigError::new("precondition.steady", true, expected));
        }
        if p.valid > p.used {
            let expected = format!("at most used, {}", p.used);
            return Err(ConfigError::new("precondition.valid", p.valid, expected));
        }
        if (p.valid * g.pages() as f64).round() > f64::from(layout.logical_pages) {
            let most = f64::from(layout.logical_pages) / g.pages() as f64;
            let expected =
                format!("at most {}, the logical share of the physical pages", (most * 1e6).floor() / 1e6);
            return Err(ConfigError::new("precondition.valid", p.valid, expected));
        }
        let factory_bad = (self.wear.factory_bad * f64::from(g.blocks_per_plane)).ceil() as u32;
        let kept = layout.kept_blocks + layout.open_blocks + 1 + layout.slc_blocks;
        let most = 1.0 - f64::from(kept + factory_bad) / f64::from(g.blocks_per_plane);
        if p.used > most {
            let expected = format!("at most {most:.4}: {kept} blocks of each plane stay free or open");
            return Err(ConfigError::new("precondition.used", p.used, expected));
        }
        Ok(())
    }
}
