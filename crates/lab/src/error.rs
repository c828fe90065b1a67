//! Why a run, or what was asked for, came to nothing.

use std::path::{Path, PathBuf};

/// Why a run cannot be had, or cannot be trusted.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that was asked for makes no sense; the message says where, what and what would do.
    #[error("{0}")]
    Input(String),
    /// A trace or job file cannot be read or understood.
    #[error(transparent)]
    Trace(#[from] nandle_trace::Error),
    /// Another process works in a run's directory.
    #[error("{}: another process is at this run; expected it to end first, or another directory", .0.display())]
    Busy(PathBuf),
    /// Results cannot be written.
    #[error("{path}: {source}")]
    Write {
        /// The file at fault.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// The device makes no progress: nothing is under way, yet requests are outstanding.
    #[error(
        "the device is stuck at {at_ns} ns: {outstanding} requests are outstanding and nothing is under way \
         (this is a bug of the simulator: please report the configuration)"
    )]
    Stuck {
        /// Simulated time in nanoseconds.
        at_ns: u64,
        /// Requests that never completed.
        outstanding: u32,
    },
    /// Requests went in that never came out, or the other way round.
    #[error("{submitted} requests went in, {completed} came out (this is a bug of the simulator)")]
    Lost {
        /// Requests submitted.
        submitted: u64,
        /// Requests completed.
        completed: u64,
    },
    /// One of several runs failed.
    #[error("{run}: {source}")]
    Of {
        /// Which.
        run: String,
        /// How.
        source: Box<Error>,
    },
    /// It was stopped from outside.
    #[error("interrupted")]
    Interrupted,
    /// The drive answered what no correct drive answers.
    #[error("{0}")]
    Wrong(String),
}

impl Error {
    /// Whether the user's input is to blame (exit code 2) rather than the run (exit code 1).
    #[must_use]
    pub fn is_input(&self) -> bool {
        match self {
            Self::Input(_) | Self::Trace(_) | Self::Busy(_) => true,
            Self::Of { source, .. } => source.is_input(),
            _ => false,
        }
    }

    pub(crate) fn input(what: impl Into<String>) -> Self {
        Self::Input(what.into())
    }

    pub(crate) fn write(path: &Path, source: impl Into<std::io::Error>) -> Self {
        Self::Write { path: path.to_owned(), source: source.into() }
    }
}
