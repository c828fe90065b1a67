//! What a power cut may leave of a program's files, and whether the program's own check finds that in order.
//!
//! A program is run with its files watched (`nandle-observe`). For chosen moments, states that a file system on
//! a drive may be left in are built and checked ([`campaign::Campaign`]); the first that fails is made as small as it
//! goes ([`shrink`]) and told as a story ([`story`]).
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod again;
pub mod campaign;
pub mod check;
pub mod model;
pub mod sample;
pub mod shrink;
pub mod story;

use std::io;

/// What keeps a test from being made.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The program could not be watched.
    #[error(transparent)]
    Observe(#[from] nandle_observe::Error),
    /// States cannot be laid out.
    #[error("a folder for the states: {0}; expected room in /dev/shm or TMPDIR")]
    Folder(io::Error),
    /// The check does not run.
    #[error("--check: {0}; expected a command of the shell")]
    Check(io::Error),
    /// The commands do not make a test.
    #[error("{0}")]
    Use(String),
    /// A saved state cannot be read or written.
    #[error("{0}: {1}; expected {2}")]
    File(String, String, &'static str),
    /// The user ended it.
    #[error("ended before anything was checked")]
    Stopped,
}
