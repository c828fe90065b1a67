//! Drives at a fraction of their size.
//!
//! Write amplification depends on shares: spare, the reserve, and how large zones are beside the superblock. A drive
//! of four planes with shorter blocks, but as many of them a plane, keeps all of these and fills in seconds. Zones and
//! the requests that fill them shrink as the superblock does.

use super::super::preset;
use crate::Error;
use crate::config::Drive;

/// Planes of the small drive, a die each.
const PLANES: u32 = 4;
/// Pages of its blocks, whole and quick.
const PAGES: [u32; 2] = [64, 32];
/// Bytes of its write buffer.
const BUFFER: u64 = 512 << 10;

/// A drive that amplifies as a preset does.
pub struct Small {
    pub drive: Drive,
    /// Its size over that of the preset.
    pub fraction: f64,
}

/// The preset's drive in small.
pub fn small(name: &str, quick: bool) -> Result<Small, Error> {
    let full = preset(name, None, &[])?;
    let g = &full.config.geometry;
    let pages = PAGES[usize::from(quick)].min(g.pages_per_block);
    let sets = [
        format!("geometry.channels={PLANES}"),
        "geometry.chips_per_channel=1".into(),
        "geometry.dies_per_chip=1".into(),
        "geometry.planes_per_die=1".into(),
        format!("geometry.pages_per_block={pages}"),
        format!("buffer.bytes={}", BUFFER.min(full.config.buffer.bytes)),
    ];
    let drive = preset(name, None, &sets)?;
    let fraction = drive.config.geometry.raw_bytes() as f64 / g.raw_bytes() as f64;
    Ok(Small { drive, fraction })
}

impl Small {
    /// A workload of the whole drive for this one: sizes of zones shrink with it, and so do the requests that fill
    /// them.
    pub fn workload(&self, whole: &str) -> String {
        let Some((name, arguments)) = whole.split_once(':') else { return whole.to_owned() };
        let unit = u64::from(self.drive.config.geometry.page_bytes);
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
