//! The laboratory: drives configured, driven, checked and measured.
//!
//! [`config`] makes a drive from a preset or a TOML file, [`workload`] finds what it is asked to do,
//! [`replay`] drives it in virtual time, [`oracle`] judges what it returns, [`measure`] counts, and
//! [`run`] does all of it and writes the run directory. [`batch`] does many runs at a time, [`sweep`] makes
//! them from a grid and gathers their results, [`report`] shows runs as a page, [`logs`] in the words of other
//! tools. [`memory`] is asked for before any of it is taken.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod address;
pub mod batch;
pub mod config;
mod error;
mod explain;
pub mod logs;
pub mod measure;
pub mod memory;
pub mod oracle;
pub mod output;
pub mod replay;
pub mod report;
pub mod resources;
pub mod run;
pub mod sweep;
pub mod units;
pub mod workload;

pub use error::Error;
