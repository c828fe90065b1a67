//! Which plane a page goes to (PLAlloc).

use nandle_nand::Geometry;

use crate::config::ConfigError;

pub mod least_busy;
pub mod order;

/// How planes are chosen.
#[derive(Clone, Debug)]
pub enum Striping {
    /// A fixed function of the logical page number.
    Static(order::Order),
    /// By what the dies are doing.
    Dynamic(least_busy::LeastBusy),
}

impl Striping {
    /// From its name: an order such as `CWDP`, or `dynamic`.
    ///
    /// # Errors
    /// If the name is neither.
    pub fn new(name: &str, geometry: &Geometry) -> Result<Self, ConfigError> {
        if name == "dynamic" {
            return Ok(Self::Dynamic(least_busy::LeastBusy::default()));
        }
        order::Order::new(name, geometry).map(Self::Static)
    }
}
