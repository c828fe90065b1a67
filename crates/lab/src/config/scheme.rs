//! `--scheme`: policies and sums of them, such as `lru+page`.
//!
//! A term is the name of a policy in one of the drive's catalogs, of a shorthand for a sum, or
//! `SEAM=POLICY` where a name occurs in two catalogs. A sum names the scheme whole: buffer, mapping,
//! allocation and streams that it does not name are the baseline's. Striping, victim and pacing are
//! the device's own unless named.
//!
//! A policy with settings takes them in brackets: `multi-stream(8)`, `pc-lru(insert=head)`. Which these are it
//! declares itself.

use nandle_ssd::DeviceConfig;
use nandle_ssd::collect::victim::VictimKind;
use nandle_ssd::schemes::{SchemeConfig, Seam, Settings};
use nandle_ssd::space::PacingKind;

use super::brackets::{self, Argument, split_outside_brackets};
use super::complain::did_you_mean;
use super::outside::{self, Outside, registered};
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
pub const SHORTHANDS: &[Shorthand] = &[
    Shorthand {
        name: "baseline",
        sum: "lru+page+strict+by-time",
        line: "What schemes are compared with: page mapping behind an LRU write buffer.",
    },
    Shorthand {
        name: "waflash",
        sum: "pc-lru+multi-version+compaction",
        line: "WAFLASH: partial pages wait, are written as versions, and share physical pages.",
    },
    Shorthand {
        name: "everything",
        sum: "waflash+across+papa+flashalloc",
        line: "All of the papers' schemes in one drive.",
    },
];

/// A policy as `--scheme` takes it.
#[derive(Clone, Copy, Debug)]
pub struct Policy {
    /// Which question it answers: the key in the device file.
    pub seam: &'static str,
    /// Its name.
    pub name: &'static str,
    /// One line on it.
    pub line: &'static str,
    set: fn(&mut DeviceConfig, &Policy),
    settings: fn(&Policy) -> Settings,
    index: usize,
}

impl Policy {
    /// What it takes in brackets.
    #[must_use]
    pub fn settings(&self) -> Settings {
        (self.settings)(self)
    }
}

/// How the name of a scheme gets into a device.
fn setter(seam: Seam) -> fn(&mut DeviceConfig, &Policy) {
    match seam {
        Seam::Buffer => |config, policy| config.scheme.buffer = policy.name.into(),
        Seam::Mapping => |config, policy| match config.scheme.mapping.as_str() {
            "page" => config.scheme.mapping = policy.name.into(),
            before => config.scheme.mapping = format!("{before}+{}", policy.name),
        },
        Seam::Compaction => |config, _| config.scheme.compaction = true,
        Seam::Allocation => |config, policy| config.scheme.allocation = policy.name.into(),
        Seam::Streams => |config, policy| config.scheme.streams = policy.name.into(),
    }
}

macro_rules! seam {
    ($list:ident, $seam:literal, $Kind:ident, $($field:ident).+, $settings:expr) => {
        $list.extend($Kind::ALL.iter().enumerate().map(|(index, &(_, name, line))| Policy {
            seam: $seam,
            name,
            line: line.trim(),
            set: |config, policy| config.$($field).+ = $Kind::ALL[policy.index].0,
            settings: $settings,
            index,
        }))
    };
}

/// Every registered policy, seam by seam, the baseline's first.
#[must_use]
pub fn policies() -> Vec<Policy> {
    let schemes = SchemeConfig::policies().into_iter();
    let mut list: Vec<Policy> = schemes
        .map(|name| Policy {
            seam: name.seam.key(),
            name: name.name,
            line: name.line,
            set: setter(name.seam),
            settings: |policy| SchemeConfig::settings(policy.name),
            index: 0,
        })
        .collect();
    seam!(list, "scheme.pacing", PacingKind, scheme.pacing, |_| Settings::default());
    seam!(list, "gc.victim", VictimKind, gc.victim, |policy| VictimKind::ALL[policy.index].0.settings());
    list
}

/// From now on `--scheme` knows `scheme` by its name; one of the same name is replaced.
///
/// # Errors
/// If the name has other characters than letters, digits, `-` and `_`, or is that of a policy of the drive.
pub fn register(scheme: Outside) -> Result<(), Error> {
    let name = scheme.name();
    if name.is_empty() || !name.chars().all(|c| c.is_ascii_alphanumeric() || "-_".contains(c)) {
        return Err(Error::input(format!("scheme {name:?}: expected a name of letters, digits, - and _")));
    }
    let of_drive = policies().iter().any(|policy| policy.name == name);
    if of_drive || SHORTHANDS.iter().any(|short| short.name == name) {
        return Err(Error::input(format!(
            "scheme {name:?}: the drive has a policy of this name; expected another"
        )));
    }
    outside::keep(scheme);
    Ok(())
}

/// What a sum names beside the policies of the drive.
#[derive(Debug, Default)]
pub(super) struct Named {
    /// Schemes from outside, in its order.
    pub outside: Vec<Outside>,
    arguments: Vec<Argument>,
}

impl Named {
    /// The term that has the setting `field` in brackets.
    pub fn giver(&self, field: &str) -> Option<&str> {
        self.arguments.iter().find(|given| given.field == field).map(|given| given.term.as_str())
    }
}

/// Sets the policies that `sum` names, and what it has in brackets behind them.
///
///
/// # Errors
/// If a name is unknown or stands for two seams, two policies answer the same question, or a policy does
/// not take what it has in brackets.
pub(super) fn apply(sum: &str, config: &mut DeviceConfig) -> Result<Named, Error> {
    let all = policies();
    let registered = registered();
    let mut outside: Vec<Outside> = Vec::new();
    let mut chosen: Vec<(Policy, String)> = Vec::new();
    for term in terms(sum)? {
        if let Some(known) = registered.iter().find(|known| known.name() == term) {
            if !outside.iter().any(|before| before.name() == term) {
                outside.push(known.clone());
            }
            continue;
        }
        let name = term.split('(').next().unwrap_or_default();
        if registered.iter().any(|known| known.name() == name) {
            return Err(Error::input(format!("--scheme {sum}: {name} takes nothing in brackets")));
        }
        let policy = find(name, &all, sum)?;
        if chosen.iter().any(|(_, before)| *before == term) {
            continue;
        }
        // Mappings go together; the baseline's is none of them.
        let alone = |p: &Policy| p.seam != Seam::Mapping.key() || p.name == "page";
        let rival = chosen.iter().find(|(p, _)| p.seam == policy.seam && (alone(p) || alone(&policy)));
        if let Some((_, before)) = rival {
            return Err(Error::input(format!(
                "--scheme {sum}: {before} and {term} both answer {}: a drive has one policy there",
                policy.seam
            )));
        }
        chosen.push((policy, term));
    }
    let baseline = SchemeConfig::default();
    config.scheme.buffer = baseline.buffer;
    config.scheme.mapping = baseline.mapping;
    config.scheme.compaction = baseline.compaction;
    config.scheme.allocation = baseline.allocation;
    config.scheme.streams = baseline.streams;
    let mut arguments = Vec::new();
    for (policy, term) in chosen {
        (policy.set)(config, &policy);
        arguments.extend(brackets::arguments(policy.name, &policy.settings(), &term, sum, config)?);
    }
    brackets::apply(&arguments, sum, config)?;
    Ok(Named { outside, arguments })
}

/// The terms of a sum, shorthands expanded.
fn terms(sum: &str) -> Result<Vec<String>, Error> {
    let mut out = Vec::new();
    for term in split_outside_brackets(sum, '+') {
        if term.is_empty() {
            return Err(Error::input(format!("--scheme {sum}: expected a policy before and after each +")));
        }
        match SHORTHANDS.iter().find(|s| s.name == term) {
            Some(short) => out.extend(terms(short.sum)?),
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
        [] if registered().iter().any(|known| known.name() == name) => Err(Error::input(format!(
            "--scheme {sum}: {name} goes by its name alone: expected {name} for {term}"
        ))),
        [] => {
            let mut names: Vec<&str> = all.iter().filter(fits).map(|p| p.name).collect();
            names.extend(SHORTHANDS.iter().filter(|_| seam.is_none()).map(|s| s.name));
            let registered = registered();
            names.extend(registered.iter().filter(|_| seam.is_none()).map(Outside::name));
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
    let (s, baseline) = (&config.scheme, SchemeConfig::default());
    let mut parts = Vec::new();
    if config.buffer.bytes > 0 {
        parts.push(s.buffer.as_str());
    }
    parts.extend(s.mapping.split('+'));
    if s.compaction {
        parts.push("compaction");
    }
    if s.allocation != baseline.allocation {
        parts.push(&s.allocation);
    }
    if s.streams != baseline.streams {
        parts.push(&s.streams);
    }
    let all: Vec<String> = parts.into_iter().map(|name| brackets::shown(name, config)).collect();
    all.join("+")
}
