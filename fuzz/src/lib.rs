//! What several targets need.

use nandle_lab::config::{Drive, Wanted};

/// A drive of a few MiB, which is built in no time.
#[must_use]
pub fn small_drive(scheme: &str) -> Drive {
    let sets: Vec<String> = [
        "geometry.channels=2",
        "geometry.chips_per_channel=1",
        "geometry.dies_per_chip=1",
        "geometry.planes_per_die=1",
        "geometry.blocks_per_plane=16",
        "geometry.pages_per_block=8",
        "op_ratio=1.5",
        "buffer.bytes=65536",
    ]
    .map(str::to_owned)
    .to_vec();
    Wanted { device: "demo-page", scheme: Some(scheme), sets: &sets }.load().expect("a device that stands")
}
