//! How many of everything there is, and how physical addresses are written.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A physical page: plane, block and page packed into one word (see [`Geometry::ppn`]).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Ppn(pub u32);

/// A physical block (erase unit): plane and block packed into one word.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Block(pub u32);

/// The shape of the flash array.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Geometry {
    /// Buses, each carrying one transfer at a time (1 to 256).
    pub channels: u32,
    /// Packages on each channel (1 to 256).
    pub chips_per_channel: u32,
    /// Units in a package that execute one array operation at a time (1 to 64).
    pub dies_per_chip: u32,
    /// Independently addressed parts of a die (1 to 16).
    pub planes_per_die: u32,
    /// Erase units of a plane (4 to 1048576).
    pub blocks_per_plane: u32,
    /// Pages of a block (1 to 65535).
    pub pages_per_block: u32,
    /// Data bytes of a page (512 to 65536).
    pub page_bytes: u32,
    /// What the host addresses: 512 or 4096 bytes, with 1 to 64 sectors to a page.
    pub sector_bytes: u32,
    /// Out-of-band bytes of a page, beside its data (0 to 65536).
    #[serde(default = "default_oob_bytes")]
    pub oob_bytes: u32,
}

fn default_oob_bytes() -> u32 {
    128
}

/// A geometry that cannot be built: field, value and what is allowed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("geometry.{field} = {value}: expected {expected}")]
pub struct GeometryError {
    /// Name in the device file.
    pub field: &'static str,
    /// What was given.
    pub value: u64,
    /// What would do.
    pub expected: String,
}

fn bits_for(n: u32) -> u32 {
    32 - (n - 1).leading_zeros().min(32)
}

impl Geometry {
    /// Checks every field against its range and the whole against the address width.
    ///
    /// # Errors
    /// The first field out of range.
    pub fn validate(&self) -> Result<(), GeometryError> {
        let err = |field, value: u32, expected: &str| {
            Err(GeometryError { field, value: u64::from(value), expected: expected.into() })
        };
        let ranges = [
            ("channels", self.channels, 1, 256),
            ("chips_per_channel", self.chips_per_channel, 1, 256),
            ("dies_per_chip", self.dies_per_chip, 1, 64),
            ("planes_per_die", self.planes_per_die, 1, 16),
            ("blocks_per_plane", self.blocks_per_plane, 4, 1 << 20),
            ("pages_per_block", self.pages_per_block, 1, 65535),
            ("page_bytes", self.page_bytes, 512, 65536),
            ("oob_bytes", self.oob_bytes, 0, 65536),
        ];
        for (field, value, low, high) in ranges {
            if !(low..=high).contains(&value) {
                return err(field, value, &format!("{low} to {high}"));
            }
        }
        if self.sector_bytes != 512 && self.sector_bytes != 4096 {
            return err("sector_bytes", self.sector_bytes, "512 or 4096");
        }
        if !self.page_bytes.is_multiple_of(self.sector_bytes) || !(1..=64).contains(&self.sectors_per_page())
        {
            let (low, high) = (self.sector_bytes, self.sector_bytes * 64);
            return err(
                "page_bytes",
                self.page_bytes,
                &format!("1 to 64 sectors, {low} to {high} in steps of {low}"),
            );
        }
        self.check_addresses()
    }

    /// Checks the whole against the address width.
    ///
    /// # Errors
    /// If there are too many pages.
    pub fn check_addresses(&self) -> Result<(), GeometryError> {
        let bits = bits_for(self.planes()) + self.block_bits() + self.page_bits();
        if bits > 31 || u64::from(self.planes()) * u64::from(self.blocks_per_plane) > 1 << 26 {
            return Err(GeometryError {
                field: "blocks_per_plane",
                value: u64::from(self.blocks_per_plane),
                expected: format!(
                    "addresses of at most 31 bits (planes, blocks and pages each rounded up to a power of \
                     two; here {bits}) and at most 2^26 blocks: use larger pages or fewer of them"
                ),
            });
        }
        Ok(())
    }

    /// Sectors of a page (1 to 64).
    #[inline]
    pub fn sectors_per_page(&self) -> u32 {
        self.page_bytes / self.sector_bytes
    }
    /// The sector mask of a full page.
    #[inline]
    pub fn full_mask(&self) -> u64 {
        u64::MAX >> (64 - self.sectors_per_page())
    }
    /// Chips of the device.
    pub fn chips(&self) -> u32 {
        self.channels * self.chips_per_channel
    }
    /// Dies of the device.
    pub fn dies(&self) -> u32 {
        self.chips() * self.dies_per_chip
    }
    /// Planes of the device.
    pub fn planes(&self) -> u32 {
        self.dies() * self.planes_per_die
    }
    /// Physical blocks of the device.
    pub fn blocks(&self) -> u64 {
        u64::from(self.planes()) * u64::from(self.blocks_per_plane)
    }
    /// Physical pages of the device.
    pub fn pages(&self) -> u64 {
        self.blocks() * u64::from(self.pages_per_block)
    }
    /// Data bytes of a block.
    pub fn block_bytes(&self) -> u64 {
        u64::from(self.pages_per_block) * u64::from(self.page_bytes)
    }
    /// Physical data bytes of the device.
    pub fn raw_bytes(&self) -> u64 {
        self.pages() * u64::from(self.page_bytes)
    }
    /// Low bits of a [`Ppn`] that number the page.
    #[inline]
    pub fn page_bits(&self) -> u32 {
        bits_for(self.pages_per_block)
    }
    /// Bits of a [`Block`] that number it in its plane.
    #[inline]
    pub fn block_bits(&self) -> u32 {
        bits_for(self.blocks_per_plane)
    }
    /// Length of an array indexed by [`Block`].
    pub fn block_slots(&self) -> usize {
        (self.planes() as usize) << self.block_bits()
    }
    /// The block `index` of `plane`.
    #[inline]
    pub fn block(&self, plane: u32, index: u32) -> Block {
        Block(plane << self.block_bits() | index)
    }
    /// The page `page` of `block`.
    #[inline]
    pub fn ppn(&self, block: Block, page: u32) -> Ppn {
        Ppn(block.0 << self.page_bits() | page)
    }
    /// The plane that `block` lies in. Planes are numbered channel first, then chip, die, plane.
    #[inline]
    pub fn plane_of(&self, block: Block) -> u32 {
        block.0 >> self.block_bits()
    }
    /// The block that `ppn` lies in.
    #[inline]
    pub fn block_of(&self, ppn: Ppn) -> Block {
        Block(ppn.0 >> self.page_bits())
    }
    /// The number of `ppn` in its block.
    #[inline]
    pub fn page_of(&self, ppn: Ppn) -> u32 {
        ppn.0 & ((1 << self.page_bits()) - 1)
    }
    /// The die that `plane` belongs to.
    #[inline]
    pub fn die_of_plane(&self, plane: u32) -> u32 {
        plane / self.planes_per_die
    }
    /// The channel that `die` hangs on.
    #[inline]
    pub fn channel_of_die(&self, die: u32) -> u32 {
        die / (self.dies_per_chip * self.chips_per_channel)
    }
    /// The chip that `die` belongs to.
    #[inline]
    pub fn chip_of_die(&self, die: u32) -> u32 {
        die / self.dies_per_chip
    }
    /// The plane with these coordinates.
    pub fn plane_at(&self, channel: u32, chip: u32, die: u32, plane: u32) -> u32 {
        ((channel * self.chips_per_channel + chip) * self.dies_per_chip + die) * self.planes_per_die + plane
    }
    /// All blocks of `plane`.
    pub fn blocks_of(&self, plane: u32) -> impl Iterator<Item = Block> + use<> {
        let first = plane << self.block_bits();
        (first..first + self.blocks_per_plane).map(Block)
    }
}
