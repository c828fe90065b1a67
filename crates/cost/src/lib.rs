//! What a program's files cost a drive.
//!
//! [`ext4::FileSystem`] makes block requests of what a program did to its files, [`record::Recording`] keeps them with what is known
//! of the files, and [`cost`] has an aged drive work under them, as they are and with what might help.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

mod allocator;
mod changed;
pub mod cost;
mod doubled;
pub mod ext4;
pub mod kinds;
pub mod places;
pub mod record;
mod scale;
pub mod strace;

/// What keeps a cost from being told.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be watched.
    #[error(transparent)]
    Observe(#[from] nandle_observe::Error),
    /// A trace cannot be read or written.
    #[error(transparent)]
    Trace(#[from] nandle_trace::Error),
    /// A simulation fails.
    #[error(transparent)]
    Lab(#[from] nandle_lab::Error),
    /// What was asked for makes no sense.
    #[error("{0}")]
    Input(String),
}
