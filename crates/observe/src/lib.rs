//! Programs run with their files watched: what they wrote, in which order, and what they flushed.
//!
//! A program sees an ordinary folder. What it does there is an [`event::Event`] each, in the order in which it
//! happened, and [`tree::Tree`] holds the files as they were at any time.
#![cfg(target_os = "linux")]

mod calls;
pub mod disk;
pub mod event;
mod fuse;
mod places;
mod recorder;
mod run;
pub mod tree;
pub mod uml;

use std::io;

pub use places::Locate;
pub use run::{FOLDER, Means, Observation, Task};

/// Why a program was not watched.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// No folder can be mounted.
    #[error(
        "no FUSE for this user: {0}; expected /dev/fuse that may be opened, and fusermount3 (package fuse3) unless root, or --watch calls"
    )]
    NoFuse(io::Error),
    /// The program's calls cannot be followed.
    #[error("the program cannot be traced: {0}; expected a system that allows ptrace")]
    NoTrace(String),
    /// The program does what cannot be seen.
    #[error("{0}")]
    Unseen(String),
    /// The program was not started.
    #[error("{0}: {1}; expected a command")]
    Start(String, io::Error),
    /// A real file system cannot be had.
    #[error(
        "--mount {0}: {1}; expected root, or User-Mode Linux (package user-mode-linux), and mkfs of that kind"
    )]
    NoMount(String, String),
    /// The file system does not say where files lie.
    #[error(
        "--layout fiemap: the folder of the watched files is on {0}; expected a TMPDIR on ext4, xfs or f2fs with blocks of 4 KiB, or --layout ext4"
    )]
    NoPlaces(io::Error),
    /// The folder itself.
    #[error("the folder of the watched files: {0}; expected a TMPDIR with room")]
    Folder(io::Error),
}
