//! Schemes from outside of the drive, under the names that `--scheme` calls them by.

use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};

use nandle_ssd::Ssd;
use nandle_ssd::schemes::Scheme;

type Make = dyn Fn() -> Box<dyn Scheme> + Send + Sync;

/// A scheme from outside.
#[derive(Clone)]
pub struct Outside {
    name: String,
    line: String,
    make: Arc<Make>,
}

impl Outside {
    /// Called `name`, described by `line`; each drive gets what `make` returns.
    pub fn new(
        name: impl Into<String>,
        line: impl Into<String>,
        make: impl Fn() -> Box<dyn Scheme> + Send + Sync + 'static,
    ) -> Self {
        Self { name: name.into(), line: line.into(), make: Arc::new(make) }
    }
    /// What `--scheme` calls it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }
    /// One line on it.
    #[must_use]
    pub fn line(&self) -> &str {
        &self.line
    }
    /// Adds it to a drive.
    pub fn add_to(&self, ssd: &mut Ssd) {
        ssd.add((self.make)());
    }
}

impl fmt::Debug for Outside {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outside({})", self.name)
    }
}

static REGISTERED: RwLock<Vec<Outside>> = RwLock::new(Vec::new());

/// Keeps a scheme, instead of one of the same name.
pub(super) fn keep(scheme: Outside) {
    let mut registered = REGISTERED.write().unwrap_or_else(PoisonError::into_inner);
    registered.retain(|known| known.name != scheme.name);
    registered.push(scheme);
}

/// All that are registered.
#[must_use]
pub fn registered() -> Vec<Outside> {
    REGISTERED.read().unwrap_or_else(PoisonError::into_inner).clone()
}
