//! A drive in words: its device file with nothing left out, its size.

use super::{Drive, Preset};
use crate::units::bytes;

/// How it begins.
pub(crate) const RESOLVED: &str = "# Resolved by nandle ";

/// The device file that says everything that was left to defaults, presets, schemes and overrides;
/// read again, it gives the same device.
#[must_use]
pub fn resolved(drive: &Drive) -> String {
    let Drive { config, layout, .. } = drive;
    let raw = config.geometry.raw_bytes();
    let op = (raw as f64 - layout.logical_bytes as f64) / layout.logical_bytes as f64;
    let body = toml::to_string(config).unwrap_or_default();
    format!(
        "{RESOLVED}{}: every setting, defaults included.\n\
         # raw {raw} bytes ({}), logical {} bytes ({}), (raw - logical) / logical = {op:.6}\n\
         # Each plane holds {} blocks free and {} open.\n\n{body}",
        env!("CARGO_PKG_VERSION"),
        bytes(raw),
        layout.logical_bytes,
        bytes(layout.logical_bytes),
        layout.soft_blocks,
        layout.open_blocks,
    )
}

impl Preset {
    /// Its size in a few words, for lists.
    #[must_use]
    pub fn size(&self) -> String {
        let size = |drive: Drive| {
            let (raw, logical) = (drive.config.geometry.raw_bytes(), drive.layout.logical_bytes);
            format!("{} raw, {} logical", bytes(raw), bytes(logical))
        };
        self.load().map(size).unwrap_or_default()
    }
}
