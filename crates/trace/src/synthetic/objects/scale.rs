//! The paper's sizes on a device of another size.

use crate::synthetic::Target;

/// Logical bytes of the paper's device: 16 GB less a tenth.
const PAPER_BYTES: u64 = 15_461_882_265;
pub const MIB: u64 = 1 << 20;

/// Bytes of an object that is written as a whole: what `fio-2m` overwrites, and SSTables are multiples of.
pub const CHUNK: u64 = 2 * MIB;

/// Bytes of the paper's device scaled to this one, in whole `unit`s, at least one.
pub fn scaled(bytes: u64, unit: u64, target: &Target) -> u64 {
    let share = target.logical_bytes as f64 / PAPER_BYTES as f64;
    ((bytes as f64 * share.min(1.0)) as u64 / unit * unit).max(unit)
}

/// The kernel's largest request to a small device.
pub const LARGEST: u64 = 128 << 10;

/// The largest request in the raw logs of the paper's board, 1 MiB, on this one: a power of two.
pub fn largest(target: &Target) -> u64 {
    1 << scaled(MIB, LARGEST, target).ilog2()
}
