//! NVMe Flexible Data Placement (TP4146): a placement identifier in each write names a reclaim-unit
//! handle, and the data of different handles lie in different reclaim units.
//!
//! A reclaim unit is what a handle fills before it goes on to the next one. Here its blocks are
//! the handle's open blocks, one a plane, and its size is a count of pages; garbage collection works
//! on erase blocks, as the controller is free to do. The isolation type says what collection does
//! with survivors: those of *initially isolated* handles meet in common blocks, those of
//! *persistently isolated* handles keep to their own handle. If a plane has no block left to keep
//! them apart, they are mixed, and that is counted: a drive may not stop for it.
//!
//! Counted as the FDP Statistics log page does: host bytes with metadata written (HBMW), media bytes
//! with metadata written (MBMW), media bytes erased (MBE); and changes of reclaim units.

use nandle_nand::Geometry;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::StreamsConfig;
use crate::allocation::Role;

/// What becomes of the data of different handles when garbage is collected.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum Isolation {
    /// Survivors of all handles share blocks.
    #[default]
    #[serde(rename = "initially")]
    Initially,
    /// Survivors stay with their handle.
    #[serde(rename = "persistently")]
    Persistently,
}

/// A reclaim-unit handle.
#[derive(Clone, Copy, Debug)]
pub struct Handle {
    /// Pages that its reclaim unit still takes (the RU available media writes).
    pub available_pages: u64,
    /// Reclaim units that it has filled or left.
    pub changes: u64,
}

/// The handles of a drive.
#[derive(Clone, Debug)]
pub struct Fdp {
    handles: Vec<Handle>,
    unit_pages: u64,
    persistent: bool,
    /// Survivors that found no place of their own.
    pub(crate) mixed_pages: u64,
}

impl Fdp {
    pub(super) fn new(config: &StreamsConfig, geometry: &Geometry) -> Self {
        let block = u64::from(geometry.pages_per_block) * u64::from(geometry.page_bytes);
        let blocks = match config.reclaim_unit_bytes {
            0 => u64::from(geometry.planes()),
            bytes => bytes.div_ceil(block),
        };
        let unit_pages = blocks * u64::from(geometry.pages_per_block);
        let handle = Handle { available_pages: unit_pages, changes: 0 };
        Self {
            handles: vec![handle; config.count as usize],
            unit_pages,
            persistent: config.isolation == Isolation::Persistently,
            mixed_pages: 0,
        }
    }

    /// The handles, in order of their identifiers.
    pub fn handles(&self) -> &[Handle] {
        &self.handles
    }
    /// Pages of a reclaim unit.
    pub fn unit_pages(&self) -> u64 {
        self.unit_pages
    }
    /// Survivors of persistently isolated handles that had to be mixed with others.
    pub fn mixed_pages(&self) -> u64 {
        self.mixed_pages
    }

    /// The handle of a placement identifier. The standard refuses identifiers that the namespace
    /// does not list; here they wrap around, so that one request stream serves every drive.
    #[inline]
    pub(super) fn role(&self, placement: u16) -> Role {
        Role::Host(placement % self.handles.len() as u16)
    }

    /// Roles beyond the handles' own are those of their survivors.
    #[inline]
    pub(super) fn is_survivors(&self, role: Role) -> bool {
        matches!(role, Role::Host(n) if usize::from(n) >= self.handles.len())
    }

    #[inline]
    pub(super) fn survivors(&self, from: Role) -> Role {
        match from {
            Role::Host(handle) if self.persistent => {
                let count = self.handles.len() as u16;
                Role::Host(count + handle % count)
            }
            _ => Role::Gc,
        }
    }

    /// The handle goes on to its next unit; not if the present one is untouched (TP4146, Reclaim Unit
    /// Handle Update).
    pub(super) fn next_unit(&mut self, handle: u16) {
        if let Some(handle) = self.handles.get_mut(usize::from(handle))
            && handle.available_pages < self.unit_pages
        {
            (handle.available_pages, handle.changes) = (self.unit_pages, handle.changes + 1);
        }
    }

    /// A host page went to a handle's reclaim unit.
    #[inline]
    pub(super) fn wrote(&mut self, role: Role) {
        let Role::Host(handle) = role else { return };
        if let Some(handle) = self.handles.get_mut(usize::from(handle)) {
            handle.available_pages -= 1;
            if handle.available_pages == 0 {
                (handle.available_pages, handle.changes) = (self.unit_pages, handle.changes + 1);
            }
        }
    }
}
