//! The laboratory: drives configured, driven, checked and measured.
//!
//! [`config`] makes a drive from a preset or a TOML file, [`workload`] finds what it is asked to do,
//! [`replay`] drives it in virtual time, [`oracle`] judges what it returns, [`measure`] counts, and
//! [`run`] does all of it and writes the run directory.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

pub mod address;
pub mod config;
mod error;
pub mod measure;
pub mod oracle;
pub mod replay;
pub mod reproduce;
pub mod resources;
pub mod run;
pub mod units;
pub mod workload;

pub use error::Error;
