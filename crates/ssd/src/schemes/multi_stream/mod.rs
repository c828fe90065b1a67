//! Multi-stream SSD (Kang et al., HotStorage 2014), as FlashAlloc's authors prototyped it to compare
//! with (section 6.4): each write carries a stream id, each stream has its own open blocks, and
//! garbage collection is not aware of streams, so that the survivors of all of them meet again in
//! the same blocks.
//!
//! An id beyond the streams that the drive has wraps around: that is what a conflict between
//! tenants comes to (section 7). Streams need no opening or closing, unlike the NVMe directive.

use super::{Facts, Name, Plan, Published, Scheme, Seam, StreamsConfig};
use crate::error::ConfigError;

/// A group for each stream id of the host.
#[derive(Clone, Debug)]
pub struct MultiStream;

impl Scheme for MultiStream {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

/// What it is called.
const NAME: &str = "multi-stream";

impl Published for MultiStream {
    const NAMES: &'static [Name] = &[Name {
        seam: Seam::Streams,
        name: NAME,
        line: "The host's stream id modulo `streams.count`; garbage collection mixes the streams.",
    }];
    type Config<'a> = &'a StreamsConfig;
    const POSITIONAL: &'static [&'static str] = &["streams.count"];

    fn plan(config: &StreamsConfig, _: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError> {
        plan.space.streams = config.count as u16;
        Ok(())
    }
    fn new(_: &StreamsConfig, _: &Facts<'_>, _: u32) -> Self {
        Self
    }
}
