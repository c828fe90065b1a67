//! TOML to a configuration. The one place that does it: code for another source of TOML takes seconds to compile.

use nandle_ssd::DeviceConfig;
use toml::Table;

/// The configuration in a text; its settings are not checked.
///
/// # Errors
/// If it is not TOML, or no configuration.
pub fn parse(text: &str) -> Result<DeviceConfig, toml::de::Error> {
    toml::from_str(text)
}

/// The configuration in a table, which goes through text.
pub(super) fn table(table: &Table) -> Result<DeviceConfig, toml::de::Error> {
    parse(&table.to_string())
}
