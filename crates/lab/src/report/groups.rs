//! Which runs belong together, and what tells them apart.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;

use crate::measure::Summary;
use crate::run::Loaded;

/// Runs of one workload (as it is called beside their figures), device and seed, each in order; the first is what the
/// others are compared with.
#[must_use]
pub fn grouped<'a>(runs: impl Iterator<Item = (&'a str, &'a Summary)>) -> Vec<Vec<usize>> {
    let mut keys: Vec<(&str, &str, u64)> = Vec::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (n, (workload, s)) in runs.enumerate() {
        let key = (workload, s.device.as_str(), s.seed);
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
pub(super) fn families(runs: &[Loaded], names: &Names) -> Vec<Family> {
    let mut found: Vec<Family> = Vec::new();
    for (n, run) in runs.iter().enumerate() {
        let name = format!("{} on {}", names.workloads[n], run.summary.device);
        let at = found.iter().position(|family| family.name == name).unwrap_or_else(|| {
            found.push(Family { name, members: Vec::new() });
            found.len() - 1
        });
        let (label, members) = (names.label(n), &mut found[at].members);
        match members.iter_mut().find(|(name, _)| *name == label) {
            Some((_, seeds)) => seeds.push(n),
            None => members.push((label, vec![n])),
        }
    }
    found
}

/// What runs are called, by their place: alike only if they differ in nothing but their seeds.
pub(super) struct Names {
    /// The workload of each: with its path, or how it was read, where others of that name are other requests.
    pub workloads: Vec<String>,
    /// The settings of each.
    pub settings: Vec<BTreeMap<String, String>>,
    schemes: Vec<String>,
    /// Of these settings those in which runs of its scheme, workload and device differ.
    apart: Vec<Vec<(String, String)>>,
}

impl Names {
    pub(super) fn of(runs: &[Loaded]) -> Self {
        let (workloads, settings) = (workloads(runs), runs.iter().map(settings).collect::<Vec<_>>());
        let mut alike: BTreeMap<_, Vec<usize>> = BTreeMap::new();
        for (n, run) in runs.iter().enumerate() {
            let (scheme, device) = (run.summary.scheme.as_str(), run.summary.device.as_str());
            alike.entry((scheme, workloads[n].as_str(), device)).or_default().push(n);
        }
        let mut apart = vec![Vec::new(); runs.len()];
        for members in alike.values() {
            let known: BTreeSet<&String> = members.iter().flat_map(|&n| settings[n].keys()).collect();
            let value = |n: usize, name: &String| settings[n].get(name);
            for name in known {
                if members.iter().all(|&n| value(n, name) == value(members[0], name)) {
                    continue;
                }
                let values: BTreeSet<&String> = members.iter().filter_map(|&n| value(n, name)).collect();
                let short: BTreeSet<String> = values.iter().map(|value| shortened(value)).collect();
                let shown = |value: &String| {
                    if short.len() == values.len() { shortened(value) } else { value.clone() }
                };
                for &n in members {
                    apart[n].extend(value(n, name).map(|value| (name.clone(), shown(value))));
                }
            }
            // What nothing tells apart, not even the seed, is no repetition that could be averaged.
            let same =
                |a: usize, b: usize| (runs[a].summary.seed, &apart[a]) == (runs[b].summary.seed, &apart[b]);
            let twice: Vec<usize> =
                members.iter().copied().filter(|&n| members.iter().any(|&m| m != n && same(n, m))).collect();
            for n in twice {
                apart[n].push(("run".to_owned(), runs[n].path.display().to_string()));
            }
        }
        let schemes = runs.iter().map(|run| run.summary.scheme.clone()).collect();
        Self { workloads, settings, schemes, apart }
    }

    /// What tells a run from the others of its workload and device: its scheme, then settings.
    pub(super) fn label(&self, n: usize) -> String {
        self.label_but(n, "")
    }

    /// The same without one setting.
    pub(super) fn label_but(&self, n: usize, but: &str) -> String {
        let apart = self.apart[n].iter().filter(|(name, _)| name != but);
        let apart = apart.map(|(name, value)| format!(", {name}={value}")).collect::<String>();
        format!("{}{apart}", self.schemes[n])
    }
}

/// Which requests a run served: name of the workload, where they came from, and how they were read.
#[derive(PartialEq)]
struct Source<'a> {
    name: &'a str,
    /// Hash of the file, or what the generator was asked for.
    content: &'a str,
    reading: BTreeMap<&'a str, String>,
}

impl<'a> Source<'a> {
    fn of(run: &'a Loaded) -> Self {
        let reading = run.manifest["asked"]["trace"].as_object().into_iter().flatten();
        Self {
            name: &run.summary.workload,
            content: run.manifest["trace"]["sha256"].as_str().unwrap_or_else(|| path(run)),
            reading: reading.map(|(name, value)| (name.as_str(), plain(value))).collect(),
        }
    }
}

/// The workload as it was asked for.
fn path(run: &Loaded) -> &str {
    run.manifest["workload"].as_str().unwrap_or_default()
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}

/// What the workload of each run is called.
fn workloads(runs: &[Loaded]) -> Vec<String> {
    let sources: Vec<Source<'_>> = runs.iter().map(Source::of).collect();
    let name = |own: &Source<'_>| {
        // One name for runs of the same requests, wherever each found them.
        let first =
            |source: &Source<'_>| sources.iter().position(|s| s == source).map_or("", |n| path(&runs[n]));
        let others = || sources.iter().filter(|other| other.name == own.name && *other != own);
        let elsewhere = || others().filter(|other| other.content != own.content);
        let mut name = if elsewhere().next().is_some() { first(own) } else { own.name }.to_owned();
        if elsewhere().any(|other| first(other) == name) {
            name += &format!(" ({})", own.content.get(..8).unwrap_or(own.content));
        }
        for (option, value) in &own.reading {
            if others().any(|other| other.reading.get(option) != Some(value)) {
                name += &format!(", {option}={value}");
            }
        }
        name
    };
    sources.iter().map(name).collect()
}

/// A number with as many digits as tell values apart; anything else as it is.
fn shortened(value: &str) -> String {
    match value.parse::<f64>() {
        Ok(number) if value.len() > 8 && value.contains('.') => format!("{number:.4}"),
        _ => value.to_owned(),
    }
}

/// The settings of a run's drive, each by its full name, and what else was asked for; numbers as they were asked for: a
/// fraction of a drive has others, which keep the whole drive's shares.
fn settings(run: &Loaded) -> BTreeMap<String, String> {
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
    let asked = run.manifest["settings"].as_object();
    for (name, value) in asked.into_iter().flatten() {
        let number = value.as_str().filter(|value| value.parse::<f64>().is_ok());
        if let (Some(setting), Some(value)) = (out.get_mut(name), number) {
            *setting = value.to_owned();
        }
    }
    let asked = run.manifest["asked"].as_object().into_iter().flatten();
    out.extend(
        asked.filter(|(_, value)| !value.is_object()).map(|(name, value)| (name.clone(), plain(value))),
    );
    out
}
