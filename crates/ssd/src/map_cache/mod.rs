//! What a look-up of the mapping table costs.

pub mod on_demand;
pub mod table;

use on_demand::OnDemand;

/// Where mapping entries are when they are needed.
#[derive(Clone, Debug)]
pub enum MapCache {
    /// The whole table in RAM: a look-up costs one DRAM access.
    Everything,
    /// Translation pages in flash, loaded when needed (DFTL).
    OnDemand(Box<OnDemand>),
}
