//! The host's side of a served drive: what programs say to it beside reads and writes.
//!
//! [`initiator`] speaks NVMe/TCP ([`wire`]), [`extents`] finds where on the drive a file lies, and
//! [`Drive`] joins the two: a file, or a part of it, becomes one object (FlashAlloc) or is trimmed.
//! `libnandle` (`crates/capi`) and `libnandle_preload.so` (`crates/preload`) are built on it.

pub mod address;
pub mod drive;
pub mod extents;
pub mod initiator;
pub mod wire;

pub use address::Address;
pub use drive::{Drive, Refusal};
pub use extents::{Extent, Place};
