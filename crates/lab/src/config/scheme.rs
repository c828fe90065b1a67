//! `--scheme`: policies and sums of them, such as `lru+page`.
//!
//! A term is the name of a policy in one of the drive's catalogs, of a shorthand for a sum, or
//! `SEAM=POLICY` where a name occurs in two catalogs. A sum names the scheme whole: buffer, mapping,
//! allocation and streams that it does not name are the baseline's. Striping, victim and pacing are
//! the device's own unless named.
//!
//! A policy with settings takes them in brackets, in the order in which it lists them:
//! `multi-stream(8)`, `fdp(8,persistently)`, `d-choices(4)`. A `+` or `,` in brackets divides nothing.

use nandle_ssd::DeviceConfig;
use nandle_ssd::collect::victim::VictimKind;
use nandle_ssd::schemes::{Isolation, SchemeConfig, Seam};
use nandle_ssd::space::PacingKind;

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
    index: usize,
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
    ($list:ident, $seam:literal, $Kind:ident, $($field:ident).+) => {
        $list.extend($Kind::ALL.iter().enumerate().map(|(index, &(_, name, line))| Policy {
            seam: $seam,
            name,
            line: line.trim(),
            set: |config, policy| config.$($field).+ = $Kind::ALL[policy.index].0,
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
            index: 0,
        })
        .collect();
    seam!(list, "scheme.pacing", PacingKind, scheme.pacing);
    seam!(list, "gc.victim", VictimKind, gc.victim);
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

/// Sets the policies that `sum` names.
///
/// The schemes from outside that it names are returned, in its order.
///
/// # Errors
/// If a name is unknown or stands for two seams, or two policies answer the same question.
pub(super) fn apply(sum: &str, config: &mut DeviceConfig) -> Result<Vec<Outside>, Error> {
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
    for (policy, term) in chosen {
        (policy.set)(config, &policy);
        arguments(&policy, &term, sum, config)?;
    }
    Ok(outside)
}

/// What policies take in brackets, for lists.
#[must_use]
pub fn parameters(policy: &str) -> &'static str {
    match policy {
        "multi-stream" => "(streams)",
        "fdp" => "(handles, initially|persistently)",
        "d-choices" => "(d)",
        _ => "",
    }
}

/// Sets what `term` has in brackets.
fn arguments(policy: &Policy, term: &str, sum: &str, config: &mut DeviceConfig) -> Result<(), Error> {
    let Some((_, inside)) = term.split_once('(') else { return Ok(()) };
    let wrong = |expected: &str| Err(Error::input(format!("--scheme {sum}: {term}: expected {expected}")));
    let Some(inside) = inside.strip_suffix(')') else { return wrong("a closing bracket") };
    let given: Vec<&str> = inside.split(',').map(str::trim).collect();
    let number = given.first().and_then(|first| first.parse::<u32>().ok());
    match (policy.name, number, &given[1..]) {
        ("multi-stream", Some(count), []) => config.streams.count = count,
        ("multi-stream", ..) => return wrong("the number of streams in brackets, as multi-stream(8)"),
        ("fdp", Some(count), rest) if rest.len() < 2 => {
            config.streams.count = count;
            config.streams.isolation = match rest.first() {
                None => config.streams.isolation,
                Some(&("initially" | "initial")) => Isolation::Initially,
                Some(&("persistently" | "persistent")) => Isolation::Persistently,
                Some(_) => return wrong("initially or persistently after the number of handles"),
            };
        }
        ("fdp", ..) => return wrong("the number of handles and an isolation, as fdp(8,persistently)"),
        ("d-choices", Some(d), []) => config.gc.d = d,
        ("d-choices", ..) => return wrong("the number of candidates in brackets, as d-choices(8)"),
        _ => return wrong(&format!("no brackets: {} takes none", policy.name)),
    }
    Ok(())
}

/// The parts of `list` between the separators that are in no brackets, trimmed.
#[must_use]
pub fn split_outside_brackets(list: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_u32, 0);
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if c == separator && depth == 0 => {
                parts.push(list[from..at].trim());
                from = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(list[from..].trim());
    parts
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
        parts.push(s.buffer.clone());
    }
    parts.push(s.mapping.clone());
    if s.compaction {
        parts.push("compaction".into());
    }
    if s.allocation != baseline.allocation {
        parts.push(s.allocation.clone());
    }
    if s.streams != baseline.streams {
        let (name, count) = (&s.streams, config.streams.count);
        parts.push(match parameters(name).split(',').count() {
            _ if parameters(name).is_empty() => name.clone(),
            1 => format!("{name}({count})"),
            _ => {
                let isolation = match config.streams.isolation {
                    Isolation::Initially => "initially",
                    Isolation::Persistently => "persistently",
                };
                format!("{name}({count},{isolation})")
            }
        });
    }
    parts.join("+")
}
