//! The drive: write buffer, flash translation layer, garbage collection, recovery.
//!
//! [`Ssd`] takes [`Command`]s and yields [`Completion`]s in simulated time. There is no clock, file,
//! thread, unordered map or unsafe code here; a drive is plain data and can be cloned mid-run.
//!
//! Layers, each importing only those before it: [`controller`] and [`link`], [`media`], [`map`], [`space`], then what schemes see
//! ([`flash`], [`buffer`]), [`schemes`], [`collect`], [`durability`], [`config`], [`drive`].
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod catalog;
mod error;
mod linked;

pub mod controller;

pub mod link;

pub mod media;

pub mod map;

pub mod space;

pub mod flash;

pub mod buffer;

pub mod schemes;

pub mod collect;

pub mod durability;

pub mod config;

pub mod drive;

pub use config::{DeviceConfig, Layout};
pub use drive::{Operation, Ssd};
pub use error::ConfigError;
pub use flash::Stats;
pub use nandle_io::{Command, Completion, Op, Range, Status};
pub use nandle_nand as nand;
