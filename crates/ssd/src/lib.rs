//! The drive: write buffer, flash translation layer, garbage collection, recovery.
//!
//! [`Ssd`] takes [`Command`]s and yields [`Completion`]s in simulated time. There is no clock, file,
//! thread, unordered map or unsafe code here; a drive is plain data and can be cloned mid-run.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod catalog;

pub mod advisor;
pub mod allocation;
pub mod blocks;
pub mod buffer;
mod checkpoint;
pub mod config;
mod epochs;
mod explain;
mod extra;
mod faults;
pub mod flash;
pub mod fragments;
mod gc;
pub mod inspect;
mod log;
pub mod map_cache;
pub mod mapping;
pub mod pacing;
mod precondition;
pub mod recovery;
mod ssd;
mod stats;
pub mod streams;
pub mod striping;
mod translation;
mod trims;
pub mod victim;

pub use advisor::Advisor;
pub use config::{ConfigError, DeviceConfig, Layout};
pub use explain::Operation;
pub use nandle_io::{Command, Completion, Op, Range, Status};
pub use nandle_nand as nand;
pub use ssd::Ssd;
pub use stats::Stats;
