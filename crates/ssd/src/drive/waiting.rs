//! Who of the queue waits for room, and where.

use smallvec::SmallVec;

/// Planes that a write goes to.
pub(super) type Planes = SmallVec<[u32; 8]>;

/// Looked up once, and true until there is more room.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiting {
    /// Planes that requests of the queue wait for.
    pub planes: Planes,
    /// Requests from the front of the queue that wait for them.
    pub requests: usize,
    /// Nobody behind them passes.
    pub closed: bool,
    /// No entry of the buffer that was looked at finds room.
    pub no_victim: bool,
}
