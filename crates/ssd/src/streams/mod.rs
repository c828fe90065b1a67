//! Which writes share blocks.

use crate::allocation::Role;

pub mod by_time;

crate::catalog! {
    /// Which block a write goes to.
    pub enum StreamsKind {
        /// Arrival order, one stream (vanilla).
        ByTime = "by-time",
    }
}

impl StreamsKind {
    /// Host streams, each with an open block per plane.
    pub fn host_streams(self) -> u32 {
        match self {
            Self::ByTime => 1,
        }
    }
}

/// A stream policy with its state.
#[derive(Clone, Debug)]
pub enum Streams {
    /// See [`by_time`].
    ByTime,
}

impl Streams {
    pub(crate) fn new(kind: StreamsKind) -> Self {
        match kind {
            StreamsKind::ByTime => Self::ByTime,
        }
    }

    /// Where host data of logical page `lpn`, written with the host's stream id `hint`, goes.
    #[inline]
    pub(crate) fn role(&self, _lpn: u32, _hint: u16) -> Role {
        match self {
            Self::ByTime => by_time::role(),
        }
    }
}
