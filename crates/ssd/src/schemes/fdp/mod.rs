//! NVMe Flexible Data Placement (TP4146): a placement identifier in each write names a reclaim-unit
//! handle, and the data of different handles lie in different reclaim units.
//!
//! A reclaim unit is what a handle fills before it goes on to the next one. Here its blocks are
//! the handle's open blocks, one a plane, and its size is a count of pages; garbage collection works
//! on erase blocks, as the controller is free to do. With `scheme.striping = "superblock"` it is a superblock, filled,
//! collected and erased as a whole. The isolation type says what collection does
//! with survivors: those of *initially isolated* handles meet in common blocks, those of
//! *persistently isolated* handles keep to their own handle. If a plane has no block left to keep
//! them apart, they are mixed, and that is counted: a drive may not stop for it.
//!
//! The standard refuses identifiers that the namespace does not list; here they wrap around, so that one
//! request stream serves every drive. Counted as the FDP Statistics log page does: host bytes with
//! metadata written (HBMW), media bytes with metadata written (MBMW), media bytes erased (MBE); and
//! changes of reclaim units.

use nandle_nand::Geometry;

use super::{Facts, Isolation, Name, Plan, Published, Scheme, Seam, StreamsConfig};
use crate::error::ConfigError;
use crate::flash::Flash;
use crate::space::Striping;

/// A reclaim-unit handle.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Handle {
    /// Pages that its reclaim unit still takes (the RU available media writes).
    pub available_pages: u64,
    /// Reclaim units that it has filled or left.
    pub changes: u64,
}

/// Since when a handle fills its units.
#[derive(Clone, Copy, Debug, Default)]
struct Start {
    /// Pages that it had written when it last went on to another unit before the one was full.
    pages: u64,
    /// Units that it had filled or left by then.
    changes: u64,
}

/// The handles of a drive.
#[derive(Clone, Debug)]
pub struct Fdp {
    starts: Vec<Start>,
    unit_pages: u64,
}

impl Fdp {
    /// The handles, in order of their identifiers.
    pub fn handles<'a>(&'a self, flash: &'a Flash) -> impl Iterator<Item = Handle> + 'a {
        (0..self.starts.len() as u16).map(|handle| self.handle(flash, handle))
    }
    fn handle(&self, flash: &Flash, handle: u16) -> Handle {
        let start = self.starts[usize::from(handle)];
        let written = flash.space().host_pages(handle) - start.pages;
        Handle {
            available_pages: self.unit_pages - written % self.unit_pages,
            changes: start.changes + written / self.unit_pages,
        }
    }
    /// Pages of a reclaim unit.
    pub fn unit_pages(&self) -> u64 {
        self.unit_pages
    }
}

fn unit_pages(config: &StreamsConfig, geometry: &Geometry, striping: &str) -> u64 {
    let block = u64::from(geometry.pages_per_block) * u64::from(geometry.page_bytes);
    let blocks = match config.reclaim_unit_bytes {
        0 if striping == Striping::SUPERBLOCK => 1,
        0 => u64::from(geometry.planes()),
        bytes => bytes.div_ceil(block),
    };
    blocks * u64::from(geometry.pages_per_block)
}

impl Scheme for Fdp {
    /// The handle goes on to its next unit; not if the present one is untouched (TP4146, Reclaim Unit
    /// Handle Update). Units are counted pages, so what the last one had left is not lost.
    fn next_unit(&mut self, flash: &Flash, handle: u16) {
        if usize::from(handle) >= self.starts.len() {
            return;
        }
        let now = self.handle(flash, handle);
        if now.available_pages < self.unit_pages {
            let pages = flash.space().host_pages(handle);
            self.starts[usize::from(handle)] = Start { pages, changes: now.changes + 1 };
        }
    }
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

/// What it is called.
const NAME: &str = "fdp";

impl Published for Fdp {
    const NAMES: &'static [Name] = &[Name {
        seam: Seam::Streams,
        name: NAME,
        line: "NVMe Flexible Data Placement: `streams.count` reclaim-unit handles.",
    }];
    type Config<'a> = &'a StreamsConfig;
    const POSITIONAL: &'static [&'static str] = &["streams.count", "streams.isolation"];
    const KEYED: &'static [&'static str] = &["streams.reclaim_unit_bytes"];

    fn plan(config: &StreamsConfig, _: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError> {
        plan.space.streams = config.count as u16;
        plan.space.survivors_apart = config.isolation == Isolation::Persistently;
        Ok(())
    }
    fn new(config: &StreamsConfig, facts: &Facts<'_>, _: u32) -> Self {
        let start = Start::default();
        Self {
            starts: vec![start; config.count as usize],
            unit_pages: unit_pages(config, facts.geometry, facts.striping),
        }
    }
}
