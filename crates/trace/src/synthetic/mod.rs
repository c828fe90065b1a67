//! Generated workloads: one file a family, all seeded, none aware of what serves it.
//!
//! A [`Workload`] is a list of phases, each of one or several [`User`]s: requests and the way they are issued.
//! [`named`] makes one from its name, [`crate::fio::workload`] from a fio job file, and
//! [`fit::Fitted::workload`] from the statistics of another trace.
//!
//! Random addresses are drawn **with replacement** (but for fio's own default): a permutation
//! overwrites every block once per pass, which makes garbage collection trivially cheap.

mod across;
mod filebench;
pub mod fit;
mod merged;
mod objects;
mod options;
mod papa;
mod paper;
mod simple;
mod ssdiq;
mod twin;
mod user;
mod waflash;
mod warp;
mod workload;
mod writers;

#[cfg(test)]
pub(crate) mod measure;

pub use fit::{Fitted, fit};
pub use paper::Published;
pub use user::{Replay, User};
pub use workload::{ENDLESS, Phase, Target, Workload};

use crate::Error;
use workload::{Entry, bare};

const FAMILIES: [&[Entry]; 8] = [
    simple::ENTRIES,
    papa::ENTRIES,
    across::ENTRIES,
    waflash::ENTRIES,
    filebench::ENTRIES,
    objects::ENTRIES,
    ssdiq::ENTRIES,
    warp::ENTRIES,
];

/// The name and a one-line description of every named workload. `NAME:ARG` needs an argument,
/// `NAME[:ARG]` takes one.
pub fn list() -> &'static [(&'static str, &'static str)] {
    static LIST: std::sync::OnceLock<Vec<(&'static str, &'static str)>> = std::sync::OnceLock::new();
    LIST.get_or_init(|| FAMILIES.iter().copied().flatten().map(|e| (e.name, e.line)).collect())
}

/// The paper's row for the trace that the named workload is a twin of.
pub fn published(name: &str) -> Option<Published> {
    papa::published(name).or_else(|| across::published(name)).or_else(|| waflash::published(name))
}

/// The workload called `name`, for a device.
///
/// # Errors
/// If there is no such name (the message lists the nearest), its argument makes no sense, or the
/// device is too small for it.
pub fn named(name: &str, target: &Target) -> Result<Workload, Error> {
    let (stem, argument) = match name.split_once(':') {
        Some((stem, argument)) => (stem, Some(argument)),
        None => (name, None),
    };
    let entries = || FAMILIES.iter().copied().flatten();
    let Some(entry) = entries().find(|e| bare(e.name) == stem) else {
        let near = nearest(stem, entries().map(|e| bare(e.name)));
        return Err(Error::Input(format!("no workload is called {stem:?}: did you mean {near}?")));
    };
    let takes = entry.name.contains('[');
    let needs = !takes && entry.name.contains(':');
    match argument {
        None if needs => {
            return Err(Error::Input(format!("{stem} needs an argument: expected {}", entry.name)));
        }
        Some(given) if !takes && !needs => {
            return Err(Error::Input(format!("{stem} takes no argument, but {given:?} was given")));
        }
        _ => {}
    }
    target.check()?;
    let mut workload = (entry.make)(bare(entry.name), argument, target)?;
    workload.name = name.to_owned();
    Ok(workload)
}

/// The few candidates most like `name`, quoted for a message.
pub(crate) fn nearest<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let mut ranked: Vec<(usize, &str)> = candidates.map(|c| (distance(name, c), c)).collect();
    ranked.sort();
    let near: Vec<&str> = ranked.into_iter().take(3).map(|(_, c)| c).collect();
    near.join(", ")
}

/// Levenshtein's distance, but that a shared prefix halves it (people abbreviate).
fn distance(a: &str, b: &str) -> usize {
    let (a, b): (Vec<char>, Vec<char>) = (a.chars().take(64).collect(), b.chars().collect());
    let mut row: Vec<usize> = (0..=b.len()).collect();
    for (i, x) in a.iter().enumerate() {
        let mut diagonal = row[0];
        row[0] = i + 1;
        for (j, y) in b.iter().enumerate() {
            let next = (diagonal + usize::from(x != y)).min(row[j] + 1).min(row[j + 1] + 1);
            diagonal = std::mem::replace(&mut row[j + 1], next);
        }
    }
    let prefix = a.len() >= 3 && b.starts_with(&a);
    if prefix { row[b.len()] / 2 } else { row[b.len()] }
}

#[cfg(test)]
mod tests;
