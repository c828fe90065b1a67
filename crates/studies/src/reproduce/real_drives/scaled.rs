//! Drives at a fraction of their size.
//!
//! Write amplification depends on shares: spare, the reserve, and how large zones are beside the superblock. A drive
//! of four planes with shorter blocks, but as many of them a plane, keeps all of these and fills in seconds. Zones and
//! the requests that fill them shrink as the superblock does.

use nandle_lab::Error;
use nandle_lab::config::Drive;

use super::super::preset;

/// Planes of the small drive, a die each.
const PLANES: u32 = 4;
/// Pages of its blocks, whole and quick.
const PAGES: [u32; 2] = [64, 32];
/// Pages of a block of a drive that keeps all of its dies, but has fewer superblocks.
const EMULATED: u32 = 16;
/// How many times fewer superblocks it has, whole and quick.
const FEWER: [u32; 2] = [8, 16];
/// Superblocks of a preset that collection keeps.
const RESERVE: u32 = 4;
/// Mapping units of the drive that keeps its speed, whole and quick, and bytes of its write buffer.
const UNITS: [u64; 2] = [700_000, 350_000];
const FAST_BUFFER: u64 = 8 << 20;
/// Bytes of its write buffer.
const BUFFER: u64 = 512 << 10;

/// Bytes of a request of WARP's passes.
const PASSES: u64 = 128 << 10;

/// A drive that amplifies as a preset does.
pub struct Small {
    pub drive: Drive,
    /// Its size over that of the preset.
    pub fraction: f64,
    /// Length of its blocks over that of the preset's.
    shorter: f64,
}

/// The preset's drive in small. Parity is left out, and the capacity that it takes: what is compared is amplification
/// over that of sequential writes.
pub fn small(name: &str, quick: bool) -> Result<Small, Error> {
    let full = preset(name, None, &[])?.config;
    let g = &full.geometry;
    let mut sets = vec![];
    if g.page_bytes > full.unit_bytes() {
        let pages = PAGES[usize::from(quick)].min(g.pages_per_block);
        let kept =
            if full.superblock.parity > 1 { 1.0 - 1.0 / f64::from(full.superblock.parity) } else { 1.0 };
        sets.extend([
            format!("geometry.channels={PLANES}"),
            "geometry.chips_per_channel=1".into(),
            "geometry.dies_per_chip=1".into(),
            "geometry.planes_per_die=1".into(),
            format!("geometry.pages_per_block={pages}"),
            "superblock.parity=0".into(),
            format!(
                "geometry.blocks_per_plane={}",
                RESERVE + (f64::from(g.blocks_per_plane - RESERVE) * kept).round() as u32
            ),
            format!("op_ratio={}", (1.0 + full.op_ratio) * kept - 1.0),
            format!("buffer.bytes={}", BUFFER.min(full.buffer.bytes)),
        ]);
    } else {
        // A drive of pages as small as its units: its dies decide how the streams share its time.
        sets.push(format!("geometry.pages_per_block={}", EMULATED.min(g.pages_per_block)));
        let fewer = g.blocks_per_plane / FEWER[usize::from(quick)];
        sets.push(format!("geometry.blocks_per_plane={fewer}"));
    }
    let drive = preset(name, None, &sets)?;
    let fraction = drive.config.geometry.raw_bytes() as f64 / g.raw_bytes() as f64;
    let shorter = f64::from(drive.config.geometry.pages_per_block) / f64::from(g.pages_per_block);
    Ok(Small { drive, fraction, shorter })
}

/// The preset's drive with all of its dies, but short blocks and fewer of them: as fast, and full within seconds. An
/// erase takes as much less time as it frees less, so that its cost a page stays.
pub fn fast(name: &str, quick: bool) -> Result<Drive, Error> {
    let full = preset(name, None, &[])?.config;
    let g = &full.geometry;
    let pages = 8.min(g.pages_per_block);
    let units = |blocks: u32| {
        u64::from(g.planes() * blocks * pages) * u64::from(g.page_bytes) / u64::from(full.unit_bytes())
    };
    let most = UNITS[usize::from(quick)];
    let scale = units(g.blocks_per_plane).div_ceil(most).max(1) as u32;
    let blocks = (g.blocks_per_plane / scale).max(48);
    // The reserve, and the soft watermark, stay the same number of blocks.
    let kept = |blocks: u32| f64::from(blocks - RESERVE) / f64::from(blocks);
    let op = (1.0 + full.op_ratio) * kept(g.blocks_per_plane) / kept(blocks) - 1.0;
    let erase = full.timing.erase_ns * u64::from(pages) / u64::from(g.pages_per_block);
    let sets = [
        format!("geometry.pages_per_block={pages}"),
        format!("geometry.blocks_per_plane={blocks}"),
        format!("timing.erase_ns={}", erase.max(1)),
        format!("op_ratio={op}"),
        format!("gc.soft={}", full.gc.soft * f64::from(g.blocks_per_plane) / f64::from(blocks)),
        format!("buffer.bytes={}", FAST_BUFFER.min(full.buffer.bytes)),
    ];
    preset(name, None, &sets)
}

impl Small {
    /// A workload of the whole drive for this one: sizes of zones shrink with it, and so do the requests that fill
    /// them.
    pub fn workload(&self, whole: &str) -> String {
        let Some((name, arguments)) = whole.split_once(':') else { return whole.to_owned() };
        let unit = u64::from(self.drive.config.geometry.page_bytes);
        if name == "warp-passes" {
            // As many requests a superblock.
            let block = (PASSES as f64 * self.shorter / unit as f64).round().max(1.0) as u64 * unit;
            return format!("{whole},block={block}");
        }
        let mut block = None;
        let mut scaled =
            |argument: &str| match argument.strip_prefix("zone=").and_then(|z| z.strip_suffix('m')) {
                Some(mib) => {
                    block = Some(unit);
                    let zone = mib.parse().unwrap_or(1024.0) * self.fraction * f64::from(1 << 20);
                    format!("zone={}", ((zone / unit as f64).round() as u64).max(1) * unit)
                }
                None => argument.to_owned(),
            };
        let arguments: Vec<String> = arguments.split(',').map(&mut scaled).collect();
        let block = block.map_or_else(String::new, |block| format!(",block={block}"));
        format!("{name}:{}{block}", arguments.join(","))
    }
}
