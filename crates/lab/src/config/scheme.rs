//! `--scheme`: policies and sums of them, such as `lru+page`.
//!
//! A term is the name of a policy in one of the drive's catalogs, of a shorthand for a sum, or
//! `SEAM=POLICY` where a name occurs in two catalogs. A sum names the scheme whole: buffer, mapping,
//! allocation and streams that it does not name are the baseline's. Striping, victim and pacing are
//! the device's own unless named.

use nandle_ssd::DeviceConfig;
use nandle_ssd::allocation::AllocationKind;
use nandle_ssd::buffer::BufferKind;
use nandle_ssd::mapping::MappingKind;
use nandle_ssd::pacing::PacingKind;
use nandle_ssd::streams::StreamsKind;
use nandle_ssd::victim::VictimKind;

use super::complain::did_you_mean;
use crate::Error;

/// A name for a sum.
#[derive(Clone, Copy, Debug)]
pub struct Shorthand {
    /// What `--scheme` calls it.
    pub name: &'static str,
    /// What it stands for.
    pub sum: &'static str,
    /// One line on it.
    pub line: &'static str,
}

/// The sums that have names of their own.
pub const SHORTHANDS: &[Shorthand] = &[Shorthand {
    name: "baseline",
    sum: "lru+page+strict+by-time",
    line: "What schemes are compared with: page mapping behind an LRU write buffer.",
}];

/// A policy as `--scheme` takes it.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Which question it answers: the key in the device file.
    pub seam: &'static str,
    /// Its name.
    pub name: &'static str,
    /// One line on it.
    pub line: &'static str,
    set: fn(&mut DeviceConfig, usize),
    index: usize,
}

macro_rules! seam {
    ($list:ident, $seam:literal, $Kind:ident, $($field:ident).+) => {
        $list.extend($Kind::ALL.iter().enumerate().map(|(index, &(_, name, line))| Policy {
            seam: $seam,
            name,
            line: line.trim(),
            set: |config, index| config.$($field).+ = $Kind::ALL[index].0,
            index,
        }))
    };
}

/// Every registered policy, seam by seam, the baseline's first.
#[must_use]
pub fn policies() -> Vec<Policy> {
    let mut list = Vec::new();
    seam!(list, "scheme.buffer", BufferKind, scheme.buffer);
    seam!(list, "scheme.mapping", MappingKind, scheme.mapping);
    seam!(list, "scheme.allocation", AllocationKind, scheme.allocation);
    seam!(list, "scheme.streams", StreamsKind, scheme.streams);
    seam!(list, "scheme.pacing", PacingKind, scheme.pacing);
    seam!(list, "gc.victim", VictimKind, gc.victim);
    list
}

/// Sets the policies that `sum` names.
///
/// # Errors
/// If a name is unknown or stands for two seams, or two policies answer the same question.
pub fn apply(sum: &str, config: &mut DeviceConfig) -> Result<(), Error> {
    let all = policies();
    let mut chosen: Vec<(Policy, String)> = Vec::new();
    for term in terms(sum)? {
        let policy = find(&term, &all, sum)?;
        if let Some((other, their_term)) = chosen.iter().find(|(p, _)| p.seam == policy.seam) {
            if other.name == policy.name {
                continue;
            }
            return Err(Error::input(format!(
                "--scheme {sum}: {their_term} and {term} both answer {}: a drive has one policy there",
                policy.seam
            )));
        }
        chosen.push((policy, term));
    }
    config.scheme.buffer = BufferKind::default();
    config.scheme.mapping = MappingKind::default();
    config.scheme.allocation = AllocationKind::default();
    config.scheme.streams = StreamsKind::default();
    for (policy, _) in chosen {
        (policy.set)(config, policy.index);
    }
    Ok(())
}

/// The terms of a sum, shorthands expanded.
fn terms(sum: &str) -> Result<Vec<String>, Error> {
    let mut out = Vec::new();
    for term in sum.split('+').map(str::trim) {
        if term.is_empty() {
            return Err(Error::input(format!("--scheme {sum}: expected a policy before and after each +")));
        }
        match SHORTHANDS.iter().find(|s| s.name == term) {
            Some(short) => out.extend(short.sum.split('+').map(str::to_owned)),
            None => out.push(term.to_owned()),
        }
    }
    Ok(out)
}

fn find(term: &str, all: &[Policy], sum: &str) -> Result<Policy, Error> {
    let (seam, name) = match term.split_once('=') {
        Some((seam, name)) => (Some(seam), name),
        None => (None, term),
    };
    let fits = |p: &&Policy| match seam {
        Some(seam) => p.seam == seam || p.seam.rsplit('.').next() == Some(seam),
        None => true,
    };
    if let Some(seam) = seam.filter(|_| !all.iter().any(|p| fits(&p))) {
        let mut seams: Vec<&str> = all.iter().filter_map(|p| p.seam.rsplit('.').next()).collect();
        seams.dedup();
        let hint = did_you_mean(seam, seams.iter().copied());
        return Err(Error::input(format!(
            "--scheme {sum}: no policy answers {seam:?}{hint}; expected one of {}",
            seams.join(", ")
        )));
    }
    let found: Vec<&Policy> = all.iter().filter(fits).filter(|p| p.name == name).collect();
    match found[..] {
        [policy] => Ok(*policy),
        // A scheme's own seams come before garbage collection's.
        [policy, ..] if policy.seam.starts_with("scheme.") => Ok(*policy),
        [_, ..] => Err(Error::input(format!(
            "--scheme {sum}: {name} is the name of several policies; write {}",
            found.iter().map(|p| format!("{}={name}", p.seam)).collect::<Vec<_>>().join(" or ")
        ))),
        [] => {
            let mut names: Vec<&str> = all.iter().filter(fits).map(|p| p.name).collect();
            names.extend(SHORTHANDS.iter().filter(|_| seam.is_none()).map(|s| s.name));
            let hint = did_you_mean(name, names.iter().copied());
            Err(Error::input(format!(
                "--scheme {sum}: no policy is called {name:?}{hint}; expected one of {}",
                names.join(", ")
            )))
        }
    }
}

/// The scheme of a device as a sum, for reports.
#[must_use]
pub fn name_of(config: &DeviceConfig) -> String {
    let s = &config.scheme;
    let mut parts = Vec::new();
    if config.buffer.bytes > 0 {
        parts.push(s.buffer.name());
    }
    parts.push(s.mapping.name());
    if s.allocation != AllocationKind::default() {
        parts.push(s.allocation.name());
    }
    if s.streams != StreamsKind::default() {
        parts.push(s.streams.name());
    }
    parts.join("+")
}
