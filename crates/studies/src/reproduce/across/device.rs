//! The device of the paper, and one as large as a real trace asks for.

use nandle_lab::Error;
use nandle_lab::config::Drive;
use nandle_ssd::nand::Geometry;
use nandle_ssd::schemes::mrsm::MrsmConfig;

use super::super::preset;

/// The quick device is so many times smaller than the paper's.
pub(super) const QUICK: u32 = 16;
/// Share of its device that a real trace touches. Assumed, as in PAPA's evaluation.
const FILL: f64 = 0.7;
/// Small blocks, as the devices are small.
const PAGES_PER_BLOCK: u32 = 8;
/// Blocks of a plane beside those of the logical device and its over-provisioning: those that are written and those that
/// collection keeps.
const BESIDE: f64 = 6.0;

/// The paper's device with pages of `page` bytes under a scheme, and 1/`cache` of its mapping cache.
///
/// # Errors
/// If the preset is damaged.
pub fn device(mapping: &str, page: u32, quick: bool, cache: u64) -> Result<Drive, Error> {
    let mut config = preset("across-tlc", None, &[])?.config;
    let scale = if quick { QUICK } else { 1 };
    let g = &mut config.geometry;
    g.blocks_per_plane =
        (u64::from(g.blocks_per_plane) * u64::from(g.page_bytes) / u64::from(page)) as u32 / scale;
    g.page_bytes = page;
    // The threshold, and the blocks being written, stay free.
    let most = 0.9 - 4.0 / f64::from(g.blocks_per_plane);
    config.precondition.used = config.precondition.used.min(most);
    config.map_cache.bytes = (config.map_cache.bytes / u64::from(scale) / cache).max(2 * u64::from(page));
    config.scheme.mapping = mapping.into();
    config.scheme.mrsm = MrsmConfig { region_pages: (64 << 20) / page, ..MrsmConfig::default() };
    let layout = config.validate().map_err(|e| Error::Input(e.to_string()))?;
    Ok(Drive::new(config, layout))
}

/// The same blocks behind what SSDSim ships (the preset `pclru-ssdsim`): its channels, chips, dies and planes, its bus and
/// its time of an erase. The paper names neither these nor others.
pub(super) fn as_shipped(drive: Drive) -> Result<Drive, Error> {
    let mut config = drive.config;
    let ssdsim = preset("pclru-ssdsim", None, &[])?.config;
    let (g, theirs) = (&mut config.geometry, &ssdsim.geometry);
    let blocks = g.planes() * g.blocks_per_plane;
    g.channels = theirs.channels;
    g.chips_per_channel = theirs.chips_per_channel;
    g.dies_per_chip = theirs.dies_per_chip;
    g.planes_per_die = theirs.planes_per_die;
    g.blocks_per_plane = blocks / g.planes();
    config.timing.bus_mb_s = ssdsim.timing.bus_mb_s;
    config.timing.erase_ns = ssdsim.timing.erase_ns;
    let layout = config.validate().map_err(|e| Error::Input(e.to_string()))?;
    Ok(Drive::new(config, layout))
}

/// The paper's device in small, of which a trace that touches so many pages fills [`FILL`]: aged alike, with as large a part
/// of the table in its cache.
pub(super) fn small_device(mapping: &str, page: u32, touched: u64) -> Result<Drive, Error> {
    let mut config = device(mapping, page, true, 1)?.config;
    let logical =
        |g: &Geometry, op: f64| (g.planes() * g.blocks_per_plane * g.pages_per_block) as f64 / (1.0 + op);
    let whole = logical(&config.geometry, config.op_ratio);
    config.geometry.pages_per_block = PAGES_PER_BLOCK;
    let row = f64::from(config.geometry.planes() * PAGES_PER_BLOCK);
    let pages = touched as f64 / FILL;
    let blocks = (pages * (1.0 + config.op_ratio) / row).ceil() + BESIDE;
    config.geometry.blocks_per_plane = blocks as u32;
    config.op_ratio = blocks * row / pages - 1.0;
    config.precondition.used = config.precondition.used.min(0.9 - BESIDE / blocks);
    let cache = config.map_cache.bytes as f64 * pages / whole;
    config.map_cache.bytes = (cache as u64).max(2 * u64::from(page));
    let layout = config.validate().map_err(|e| Error::Input(e.to_string()))?;
    Ok(Drive::new(config, layout))
}
