//! A request under way.

use std::collections::VecDeque;
use std::sync::Arc;

use nandle_io::Op;
use nandle_ssd::nand::Time;

use crate::clients::Client;
use crate::plan::{Step, Then};
use crate::request::Reply;

/// A request under way.
pub(super) struct Task {
    pub reply: Reply,
    /// Whose it is, when its first byte can have been there, and what it asked for in bytes.
    pub client: Arc<Client>,
    pub arrived: Time,
    pub asked: u64,
    /// Since when the whole counts, in the model.
    pub from: Time,
    pub steps: VecDeque<Step>,
    /// What becomes of the present command's answer.
    pub then: Then,
    pub answer: Vec<u8>,
    /// Since when the present command's latency counts.
    pub since: Time,
    pub op: Op,
    /// What the present command is answered for outlives whatever the image outlives.
    pub durable: bool,
    pub bytes: u64,
    /// The sectors that the present step changes.
    pub changes: Option<Changes>,
}

#[derive(Clone, Copy)]
pub(super) struct Changes {
    pub from: u64,
    pub to: u64,
    /// As a read-modify-write: nothing else may change them meanwhile.
    pub merge: bool,
}
