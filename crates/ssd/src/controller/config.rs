//! `[controller]`: the processor cores of the drive.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::error::ConfigError;

/// `[controller]`: the processor cores that see every command and order every flash operation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct ControllerConfig {
    /// Cores; 0 = work of the controller takes no time, whatever the other settings say.
    pub cores: u32,
    /// Core time of each host command (ns).
    pub command_ns: u64,
    /// Core time of each mapping unit that is handled: of a host read or write, copied by collection, or of the
    /// map (ns).
    pub unit_ns: u64,
    /// Core time of each mapping unit that collection copies, beside that of every unit (ns).
    pub copy_ns: u64,
    /// Core time of each flash operation that is ordered (ns).
    pub operation_ns: u64,
    /// The read of a read-modify-write holds its core: until it is done that core takes no host command.
    pub blocking_rmw: bool,
    /// Which core does what.
    pub assign: Assign,
    /// What the host waits for goes before collection's work.
    pub priority: bool,
}

/// `controller.assign`: which core does what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Assign {
    /// The core that is free first.
    #[default]
    Earliest,
    /// A flash operation belongs to the core of its die, a command to the cores in turn.
    ByDie,
}

impl ControllerConfig {
    /// Whether there is none.
    pub fn is_off(&self) -> bool {
        *self == Self::default()
    }

    /// Checks each setting against its range.
    pub(crate) fn validate(&self) -> Result<(), ConfigError> {
        /// A core that takes a second for something is none.
        const LONGEST_NS: u64 = 1_000_000_000;
        if self.cores > 64 {
            return Err(ConfigError::new("controller.cores", self.cores, "0 (no time) to 64"));
        }
        for (field, ns) in [
            ("command_ns", self.command_ns),
            ("unit_ns", self.unit_ns),
            ("copy_ns", self.copy_ns),
            ("operation_ns", self.operation_ns),
        ] {
            if ns > LONGEST_NS {
                let expected = format!("0 to {LONGEST_NS} ns");
                return Err(ConfigError::new(&format!("controller.{field}"), ns, expected));
            }
        }
        Ok(())
    }
}
