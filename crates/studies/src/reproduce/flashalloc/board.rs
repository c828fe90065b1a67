//! The drive: the authors' Cosmos+ board, under a stream policy and one of their firmwares.

use nandle_lab::Error;
use nandle_ssd::DeviceConfig;
use nandle_ssd::collect::SurvivorsKind;

use super::super::preset;

/// The policies that are compared.
pub const POLICIES: [&str; 4] = [BY_TIME, FLASHALLOC, MULTI_STREAM, FDP];
pub(super) const BY_TIME: &str = "by-time";
pub(super) const FLASHALLOC: &str = "flashalloc";
pub(super) const MULTI_STREAM: &str = "multi-stream";
pub(super) const FDP: &str = "fdp";

/// What a copy takes FlashAlloc's firmware longer than vanilla's by the logs of both (`logs.py`): 37 us (WAF 1.1) to 124 us
/// (2.85), here one value through all rows. A request takes both the same.
const FLASHALLOC_COPY_NS: u64 = 60_000;

/// Which of the authors' firmware a drive has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Firmware {
    /// That of the logs of two tenants: trims are honoured, and then collection copies one page at a time, but by
    /// multi-stream's, which ignores them and copies on all dies at once.
    Logged,
    /// That of fio: it ignores trims.
    IgnoresTrims,
}

impl Firmware {
    /// The one that was used with a workload.
    pub(super) fn of(workload: &str) -> Self {
        if workload.starts_with("fio") { Self::IgnoresTrims } else { Self::Logged }
    }
    /// Whether it honours trims under a policy.
    pub fn trims(self, policy: &str) -> bool {
        self == Self::Logged && policy != MULTI_STREAM
    }
}

/// The paper's drive under a policy (a stream of multi-stream writes one block at a time, as in the authors'
/// prototype) and a firmware, with one chip in `scale` (1, 2, 4, 8 or 16), and as much of its buffer and its queue: what
/// collection keeps of each plane stays the same share of it.
///
/// # Errors
/// If the preset is damaged.
pub fn drive(scale: u32, policy: &str, firmware: Firmware) -> Result<DeviceConfig, Error> {
    let mut config = preset("flashalloc-cosmos", None, &[])?.config;
    let chips = (config.geometry.chips_per_channel * config.geometry.channels / scale).max(1);
    config.geometry.channels = config.geometry.channels.min(chips);
    config.geometry.chips_per_channel = chips / config.geometry.channels;
    config.buffer.bytes /= u64::from(scale);
    config.queue.depth /= scale;
    config.scheme.streams = policy.into();
    config.streams.count = 8;
    if policy == MULTI_STREAM {
        config.scheme.striping = "block-by-block".into();
    }
    if policy == MULTI_STREAM || policy == FDP {
        // The block that survivors go to is no stream's.
        config.gc.survivors = SurvivorsKind::Apart;
    }
    if !firmware.trims(policy) {
        config.gc.copies_in_flight_total = 0;
    } else if policy == FLASHALLOC {
        config.controller.copy_ns += FLASHALLOC_COPY_NS;
    }
    Ok(config)
}
