//! `[cell]`: what the flash is made of.

use nandle_nand::{CellKind, ProgramOrder};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// `[cell]`
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct CellConfig {
    /// Bits per cell.
    pub kind: CellKind,
    /// Which order of programs the flash insists on.
    pub program_order: ProgramOrder,
    /// Erases that a block stands; 0 = without limit.
    pub endurance: u32,
    /// A power cut during the program of an upper page also destroys the lower pages of its word line
    /// (cells programmed page by page: MLC and up). Takes `recovery.plp`: lower pages are not backed up.
    pub paired_pages: bool,
}

impl Default for CellConfig {
    fn default() -> Self {
        Self { kind: CellKind::Slc, program_order: ProgramOrder::Strict, endurance: 0, paired_pages: false }
    }
}
