//! What the subsystem is, and its limits: what structures, properties and features tell of.

use std::net::SocketAddr;

use nandle_ssd::DeviceConfig;

use crate::Shape;

/// Version of the Base Specification: 2.0.
pub const VERSION: u32 = 0x0002_0000;
/// Temperature in Kelvin of which a host is warned (70 degrees Celsius).
pub const WARM_KELVIN: u16 = 343;
/// FDP event: a write named a placement identifier that there is not.
pub const EVENT_INVALID_PLACEMENT: u8 = 3;
/// Controllers at a time.
pub const MOST_CONTROLLERS: usize = 32;
/// I/O queues of a controller.
pub const MOST_QUEUES: u16 = 16;
/// Entries of a queue.
pub const MOST_ENTRIES: u16 = 128;
/// Keep alive timers are multiples of this, in milliseconds.
pub const KEEP_ALIVE_MS: u32 = 1000;
/// Asynchronous event requests that a controller holds.
pub const MOST_EVENT_REQUESTS: u32 = 4;
/// Entries of the error log that are kept.
pub const MOST_ERRORS: usize = 64;
/// The endurance group, the namespace.
pub(super) const ONE: u16 = 1;
/// The largest range of Verify.
pub(super) const MOST_VERIFIED: u64 = 64 << 20;

/// Where a host reached the drive.
pub type Portal = SocketAddr;

/// What the drive is, as far as structures tell.
#[derive(Clone, Debug)]
pub struct Model {
    /// Sizes.
    pub shape: Shape,
    /// Model number.
    pub name: String,
    /// Universally unique identifier; also the namespace's NGUID.
    pub uuid: [u8; 16],
    /// Name of the subsystem.
    pub nqn: String,
    /// Reclaim-unit handles; 0 without FDP.
    pub handles: u16,
    /// Streams that a host may name; 0 without the directive.
    pub streams: u16,
    /// FlashAlloc is known.
    pub objects: bool,
    /// Logical blocks of a write that is whole to other commands, and after a power cut, if it crosses no border of
    /// mapping units; 0 if nothing is promised beyond one.
    pub atomic: (u32, u32),
}

impl Model {
    /// Of a drive without streams, FDP or FlashAlloc; `identity` tells it from other drives and stays
    /// the same from start to start.
    #[must_use]
    pub fn plain(shape: Shape, name: &str, identity: &str) -> Self {
        let uuid = uuid(identity);
        Self {
            shape,
            name: name.chars().filter(|c| (' '..='~').contains(c)).collect(),
            nqn: format!("nqn.2014-08.org.nvmexpress:uuid:{}", hyphened(&uuid)),
            uuid,
            handles: 0,
            streams: 0,
            objects: false,
            atomic: (0, 0),
        }
    }

    /// Of a drive with this configuration.
    #[must_use]
    pub fn new(config: &DeviceConfig, shape: Shape, identity: &str) -> Self {
        let count = u16::try_from(config.streams.count).unwrap_or(u16::MAX);
        let scheme = &config.scheme;
        Self {
            handles: if scheme.has("fdp") { count } else { 0 },
            // Stream 0 is what comes without a directive.
            streams: if scheme.has("multi-stream") { count - 1 } else { 0 },
            objects: scheme.has("flashalloc"),
            atomic: (
                config.atomic.write_bytes / shape.sector_bytes,
                config.atomic.power_fail_bytes / shape.sector_bytes,
            ),
            ..Self::plain(shape, &config.name, identity)
        }
    }

    /// Logical blocks.
    #[must_use]
    pub fn blocks(&self) -> u64 {
        self.shape.bytes / u64::from(self.shape.sector_bytes)
    }
}

/// A UUID of version 8 (RFC 9562) from a text: FNV-1a of 128 bits.
fn uuid(identity: &str) -> [u8; 16] {
    let mut hash: u128 = 0x6c62_272e_07bb_0142_62b8_2175_6295_c58d;
    for byte in identity.bytes() {
        hash = (hash ^ u128::from(byte)).wrapping_mul(0x0000_0000_0100_0000_0000_0000_0000_013b);
    }
    let mut bytes = hash.to_be_bytes();
    bytes[6] = bytes[6] & 0x0f | 0x80;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    bytes
}

fn hyphened(uuid: &[u8; 16]) -> String {
    let mut out = String::new();
    for (n, byte) in uuid.iter().enumerate() {
        if [4, 6, 8, 10].contains(&n) {
            out.push('-');
        }
        out += &format!("{byte:02x}");
    }
    out
}
