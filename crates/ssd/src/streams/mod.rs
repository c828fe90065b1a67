//! Which writes share blocks.

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
