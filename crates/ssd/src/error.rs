//! A setting that makes no sense.

/// A setting that makes no sense: field, value and what was expected.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{field} = {value}: expected {expected}")]
pub struct ConfigError {
    /// Full name, as `--set` takes it.
    pub field: String,
    /// What was given.
    pub value: String,
    /// What would do.
    pub expected: String,
}

impl ConfigError {
    pub(crate) fn new(field: &str, value: impl ToString, expected: impl Into<String>) -> Self {
        Self { field: field.into(), value: value.to_string(), expected: expected.into() }
    }

    /// Checks that a share lies between 0 and `high`.
    pub(crate) fn share(field: &str, value: f64, high: f64) -> Result<(), Self> {
        if (0.0..=high).contains(&value) {
            Ok(())
        } else {
            Err(Self::new(field, value, format!("0 to {high}")))
        }
    }

    /// Checks that a count lies between 1 and `high`.
    pub(crate) fn count(field: &str, value: u32, high: u32) -> Result<(), Self> {
        if (1..=high).contains(&value) {
            Ok(())
        } else {
            Err(Self::new(field, value, format!("1 to {high}")))
        }
    }
}
