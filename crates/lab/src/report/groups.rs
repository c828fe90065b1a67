//! Which runs belong together, and what tells them apart.

use std::collections::BTreeMap;

use crate::measure::Summary;
use crate::run::Loaded;

/// Runs of one workload, device and seed, each in order; the first is what the others are compared with.
#[must_use]
pub fn grouped<'a>(runs: impl Iterator<Item = &'a Summary>) -> Vec<Vec<usize>> {
    let mut keys: Vec<(&str, &str, u64)> = Vec::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (n, s) in runs.enumerate() {
        let key = (s.workload.as_str(), s.device.as_str(), s.seed);
        match keys.iter().position(|k| *k == key) {
            Some(at) => groups[at].push(n),
            None => {
                keys.push(key);
                groups.push(vec![n]);
            }
        }
    }
    groups
}

/// What tells a run from the others of its group: its scheme, then the settings in which runs of that
/// scheme differ.
pub(super) fn label(run: &Loaded, all: &[Loaded]) -> String {
    let key = |run: &Loaded| {
        let s = &run.summary;
        (s.scheme.clone(), s.workload.clone(), s.device.clone(), s.seed)
    };
    let own = key(run);
    let same: Vec<BTreeMap<String, String>> =
        all.iter().filter(|other| key(other) == own).map(|other| settings(&other.config)).collect();
    let mine = settings(&run.config);
    let differs = |name: &str| same.iter().any(|other| other.get(name) != mine.get(name));
    let apart: Vec<String> = mine
        .iter()
        .filter(|(name, _)| differs(name))
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    std::iter::once(own.0).chain(apart).collect::<Vec<_>>().join(", ")
}

/// The settings of a device file, each by its full name.
pub(super) fn settings(config: &str) -> BTreeMap<String, String> {
    fn into(before: &str, table: &toml::Table, out: &mut BTreeMap<String, String>) {
        for (key, value) in table {
            let name = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
            match value {
                toml::Value::Table(inner) => into(&name, inner, out),
                toml::Value::String(text) => _ = out.insert(name, text.clone()),
                other => _ = out.insert(name, other.to_string()),
            }
        }
    }
    let mut out = BTreeMap::new();
    if let Ok(table) = config.parse() {
        into("", &table, &mut out);
    }
    out
}
