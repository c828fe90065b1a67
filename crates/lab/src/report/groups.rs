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

/// Runs of one workload on one device.
pub(super) struct Family {
    /// The workload and the device.
    pub name: String,
    /// What tells runs apart but for their seeds, and the runs of each; the first is what others are compared with.
    pub members: Vec<(String, Vec<usize>)>,
}

/// Runs by workload and device, in order.
pub(super) fn families(runs: &[Loaded]) -> Vec<Family> {
    let mut found: Vec<Family> = Vec::new();
    for (n, run) in runs.iter().enumerate() {
        let name = format!("{} on {}", run.summary.workload, run.summary.device);
        let at = found.iter().position(|family| family.name == name).unwrap_or_else(|| {
            found.push(Family { name, members: Vec::new() });
            found.len() - 1
        });
        let (label, members) = (label(run, runs), &mut found[at].members);
        match members.iter_mut().find(|(name, _)| *name == label) {
            Some((_, seeds)) => seeds.push(n),
            None => members.push((label, vec![n])),
        }
    }
    found
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
        all.iter().filter(|other| key(other) == own).map(settings).collect();
    let mine = settings(run);
    let differs = |name: &str| same.iter().any(|other| other.get(name) != mine.get(name));
    let apart: Vec<String> = mine
        .iter()
        .filter(|(name, _)| differs(name))
        .map(|(name, value)| format!("{name}={}", shortened(value)))
        .collect();
    std::iter::once(own.0).chain(apart).collect::<Vec<_>>().join(", ")
}

/// A number with as many digits as tell values apart; anything else as it is.
fn shortened(value: &str) -> String {
    match value.parse::<f64>() {
        Ok(number) if value.len() > 8 && value.contains('.') => format!("{number:.4}"),
        _ => value.to_owned(),
    }
}

/// The settings of a run's drive, each by its full name; numbers as they were asked for: a fraction of a drive has
/// others, which keep the whole drive's shares.
pub(super) fn settings(run: &Loaded) -> BTreeMap<String, String> {
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
    if let Ok(table) = run.config.parse() {
        into("", &table, &mut out);
    }
    let asked = run.manifest.get("settings").and_then(serde_json::Value::as_object);
    for (name, value) in asked.into_iter().flatten() {
        let number = value.as_str().filter(|value| value.parse::<f64>().is_ok());
        if let (Some(setting), Some(value)) = (out.get_mut(name), number) {
            *setting = value.to_owned();
        }
    }
    out
}
