//! Why a drive is not served, or no longer.

/// Why a drive cannot be served.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// Something that was asked for makes no sense; the message says where, what and what would do.
    #[error("{0}")]
    Input(String),
    /// The system refused.
    #[error("{what}: {source}")]
    Io {
        /// What was being done, to what.
        what: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// The image is no longer where it should be.
    #[error("{0}")]
    Gone(String),
    /// The drive makes no progress: requests are outstanding and nothing is under way.
    #[error(
        "the device is stuck at {at_ns} ns with {outstanding} requests outstanding \
         (this is a bug of the simulator: please report the configuration)"
    )]
    Stuck {
        /// Simulated time in nanoseconds.
        at_ns: u64,
        /// Commands that never completed.
        outstanding: u32,
    },
    /// The trace of the requests cannot be written.
    #[error(transparent)]
    Trace(#[from] nandle_trace::Error),
}

impl Error {
    pub(crate) fn io(what: impl Into<String>, source: impl Into<std::io::Error>) -> Self {
        Self::Io { what: what.into(), source: source.into() }
    }

    pub(crate) fn input(what: impl Into<String>) -> Self {
        Self::Input(what.into())
    }

    /// Whether the user's input is to blame (exit code 2) rather than the run (exit code 1).
    #[must_use]
    pub fn is_input(&self) -> bool {
        matches!(self, Self::Input(_))
    }
}
