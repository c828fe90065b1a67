//! `NAME@1/16`: a device with a fraction of its blocks, and what makes it behave like the whole.
//!
//! Dies, blocks and pages are those of the whole drive, of which each plane has fewer. What a drive holds back
//! is a number of blocks, not a share (open blocks, the reserve of collection): a small drive gets as many on top, so
//! that its effective over-provisioning is the whole's. RAM scales too: the mapping cache, and the
//! write buffer as far as the dies, which are as many as before, keep two pages a plane in it.

use nandle_ssd::{DeviceConfig, Layout};
use toml::{Table, Value};

use crate::Error;

/// Sizes of RAM and of regions that scale with the drive, by table.
const SIZES: [&str; 3] = ["buffer", "map_cache", "slc"];
/// Fewest blocks of a plane, those that it holds back aside, that are still like many.
const LEAST: u32 = 8;
/// Pages of each plane that the write buffer has room for, if it had before.
const BUFFERED: u64 = 2;

/// A part of a drive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Fraction {
    parts: u32,
    of: u32,
}

impl std::fmt::Display for Fraction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.parts, self.of)
    }
}

/// The name of the whole device that `name` is a fraction of.
#[must_use]
pub fn whole(name: &str) -> &str {
    split(name).map_or(name, |(whole, _)| whole)
}

/// The device that `name` is a fraction of, and which.
///
/// # Errors
/// If what stands behind the @ is no fraction.
pub(super) fn split(name: &str) -> Result<(&str, Option<Fraction>), Error> {
    let Some((whole, part)) = name.rsplit_once('@').filter(|_| !std::path::Path::new(name).is_file()) else {
        return Ok((name, None));
    };
    let parsed = part.split_once('/').and_then(|(parts, of)| {
        let fraction = Fraction { parts: parts.parse().ok()?, of: of.parse().ok()? };
        (fraction.parts > 0 && fraction.parts <= fraction.of).then_some(fraction)
    });
    match parsed {
        Some(fraction) => Ok((whole, Some(fraction))),
        None => Err(Error::input(format!(
            "{name}: {part:?} is no fraction of a drive: expected one above 0 and at most 1, such as {whole}@1/16"
        ))),
    }
}

/// Whether an override sets a size that scales with the drive.
pub(super) fn scales(set: &str) -> bool {
    let key = set.split('=').next().unwrap_or_default().trim();
    SIZES.iter().any(|section| key.strip_prefix(section) == Some(".bytes"))
}

impl Fraction {
    fn share(self) -> f64 {
        f64::from(self.parts) / f64::from(self.of)
    }

    /// Such a fraction of the device `name`: `full` is the whole one, `plain` the same without a scheme asked for. Schemes hold back
    /// different numbers of blocks, and all are to serve the same logical size.
    ///
    /// # Errors
    /// If the whole device cannot stand, or there is no room for what is held back: the fraction that there is room for.
    pub(super) fn of(
        self,
        name: &str,
        plain: &DeviceConfig,
        full: &DeviceConfig,
    ) -> Result<DeviceConfig, Error> {
        let invalid = |e: nandle_ssd::ConfigError| Error::input(format!("{name}: {e}"));
        let layouts = (plain.validate().map_err(invalid)?, full.validate().map_err(invalid)?);
        if let Some(config) = self.cut(name, (plain, &layouts.0), (full, &layouts.1)) {
            return Ok(config);
        }
        // A smaller one has less than a block of a plane left.
        let most = (self.of / self.parts).min(usable((full, &layouts.1)));
        let mut larger = (1..=most).rev().map(|of| Self { parts: 1, of });
        let stands = |part: &Self| part.cut(name, (plain, &layouts.0), (full, &layouts.1)).is_some();
        let expected = larger.find(stands).map_or_else(|| name.to_owned(), |part| format!("{name}@{part}"));
        Err(Error::input(format!(
            "{name}@{self}: too few blocks are left a plane for what a drive with this scheme holds back of them; expected {expected} or more"
        )))
    }

    /// The same, if it can stand.
    fn cut(
        self,
        name: &str,
        plain: (&DeviceConfig, &Layout),
        full: (&DeviceConfig, &Layout),
    ) -> Option<DeviceConfig> {
        let (config, layout) = full;
        let usable = f64::from(usable(plain));
        let wanted = (self.share() * usable).round();
        let kept = wanted / usable;
        let pages = (f64::from(plain.1.logical_pages) * kept).floor();
        let mine = (f64::from(self::usable(full)) * kept).round() as u32;
        if mine < LEAST {
            return None;
        }
        let mut blocks = mine + held(layout);
        // What is held back may be a share: of fewer blocks it is less.
        for _ in 0..8 {
            let mut small = config.clone();
            small.geometry.blocks_per_plane = blocks;
            // Parity takes of the raw pages too.
            let raw = small.geometry.raw_bytes() as f64 / f64::from(small.unit_bytes());
            small.op_ratio = raw / (pages + 0.5) - 1.0;
            // Shares of the flash become the same shares of what is not held back.
            let room = |config: &DeviceConfig, usable: u32| {
                f64::from(usable) / f64::from(config.geometry.blocks_per_plane)
            };
            let of_usable = room(&small, mine) / room(config, self::usable(full));
            small.precondition.used *= of_usable;
            small.precondition.valid *= of_usable;
            // All that the whole one holds may be live, whatever was rounded since.
            small.precondition.valid = small.precondition.valid.min(pages / raw);
            let small = self.with_sizes(small, kept)?;
            let layout = small.validate().ok()?;
            if held(&layout) + mine == blocks {
                let named = DeviceConfig {
                    name: format!("{name}@{self}"),
                    description: format!("{}; {self} of its blocks", config.description),
                    ..small
                };
                return Some(named);
            }
            blocks = held(&layout) + mine;
        }
        None
    }

    /// With RAM as much smaller as the drive.
    fn with_sizes(self, config: DeviceConfig, kept: f64) -> Option<DeviceConfig> {
        let least = BUFFERED * u64::from(config.geometry.planes()) * u64::from(config.geometry.page_bytes);
        let mut table = Table::try_from(&config).ok()?;
        for section in SIZES {
            let Some(Value::Integer(bytes)) = table.get_mut(section).and_then(|t| t.get_mut("bytes")) else {
                continue;
            };
            let before = *bytes as f64;
            let floor = match section {
                "buffer" => least.max(config.unit_bytes().into()) as f64,
                // Two translation pages are the least that a cache can be.
                "map_cache" => f64::from(2 * config.unit_bytes()),
                _ => 0.0,
            };
            let sector = i64::from(config.geometry.sector_bytes);
            *bytes = (before * kept).max(floor.min(before)) as i64 / sector * sector;
        }
        super::parse::table(&table).ok()
    }
}

/// Blocks of a plane that are held free or open.
fn held(layout: &Layout) -> u32 {
    layout.soft_blocks + layout.open_blocks
}

/// The others.
fn usable((config, layout): (&DeviceConfig, &Layout)) -> u32 {
    config.geometry.blocks_per_plane.saturating_sub(held(layout))
}
