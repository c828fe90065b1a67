//! Those who use a drive: what they ask of it, and when they ask.

use crate::Source;

/// How requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Replay {
    /// At their timestamps, whatever the device does.
    Open {
        /// Multiplies every timestamp: 0.5 is twice as fast.
        time_scale: f64,
    },
    /// As soon as fewer than `iodepth` are outstanding; timestamps mean nothing.
    Closed {
        /// Requests outstanding at once.
        iodepth: u32,
    },
    /// One at a time: each waits for the completion of the one before, then for the gap between
    /// their timestamps (time spent thinking).
    Think {
        /// Multiplies every gap.
        time_scale: f64,
    },
}

/// Someone who uses the drive: requests, and how they are issued.
///
/// Among several, each has a closed loop of its own: as many of *its* requests outstanding as it asks
/// for. It waits for its flushes and FlashAlloc calls, as a program does: they are issued when all that it
/// issued before has completed (calls of a file system only when its trims have), and it issues nothing
/// before they have. Nobody else waits for them.
pub struct User {
    /// What to call it in reports; users of one name are counted together.
    pub name: String,
    /// How its requests are issued; beside others always closed.
    pub replay: Replay,
    /// Its requests. Timestamps count from the start of the phase.
    pub source: Box<dyn Source>,
    /// Whether its FlashAlloc calls are made; without them it does the same in everything else.
    pub calls: bool,
    /// The calls come in the middle of writing, as a file system's do: they wait for trims alone.
    pub calls_amid: bool,
}

impl User {
    /// A user beside others, with up to `iodepth` requests outstanding.
    pub fn closed(name: impl Into<String>, iodepth: u32, source: impl Source + 'static) -> Self {
        let replay = Replay::Closed { iodepth };
        Self { name: name.into(), replay, source: Box::new(source), calls: true, calls_amid: false }
    }
}
