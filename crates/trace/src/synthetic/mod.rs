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
mod papa;
mod paper;
mod simple;
mod twin;
mod waflash;

#[cfg(test)]
pub(crate) mod measure;

pub use fit::{Fitted, fit};
pub use paper::{Published, published};

use crate::{Error, Request, Source};

/// What a generated workload is for: the device's sizes, a seed, and how much of it is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Target {
    /// Bytes that the host can address. Footprints are scaled to fit.
    pub logical_bytes: u64,
    /// Flash page size in bytes: the request size of the workloads that write "one page".
    pub page_bytes: u32,
    /// What the host addresses, in bytes.
    pub sector_bytes: u32,
    /// Seed of every random choice.
    pub seed: u64,
    /// Requests of the measured part (the last phase), instead of the workload's own number.
    pub requests: Option<u64>,
}

impl Target {
    /// # Errors
    /// If no workload could be generated for such a device.
    pub(crate) fn check(&self) -> Result<(), Error> {
        let fail = |what: String| Err(Error::Input(what));
        if self.sector_bytes == 0 || self.page_bytes < self.sector_bytes {
            return fail(format!(
                "pages of {} bytes and sectors of {}: expected at least one sector a page",
                self.page_bytes, self.sector_bytes
            ));
        }
        let least = 256 * u64::from(self.page_bytes.max(4096));
        if self.logical_bytes < least {
            return fail(format!(
                "a device of {} bytes is too small to generate for: expected at least {least} (256 pages)",
                self.logical_bytes
            ));
        }
        Ok(())
    }
}

/// How requests are issued.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Replay {
    /// At their timestamps, whatever the device does.
    Open {
        /// Multiplies every timestamp: 0.5 is twice as fast.
        time_scale: f64,
    },
    /// As soon as fewer than `iodepth` are outstanding; timestamps mean nothing.
    Closed {
        /// Requests outstanding at once.
        iodepth: u32,
    },
    /// One at a time: each waits for the completion of the one before, then for the gap between
    /// their timestamps (time spent thinking).
    Think {
        /// Multiplies every gap.
        time_scale: f64,
    },
}

/// Someone who uses the drive: requests, and how they are issued.
///
/// Among several, each has a closed loop of its own: as many of *its* requests outstanding as it asks
/// for. It waits for its flushes and FlashAlloc calls, as a program does: they are issued when all that it
/// issued before has completed (calls of a file system only when its trims have), and it issues nothing
/// before they have. Nobody else waits for them.
pub struct User {
    /// What to call it in reports; users of one name are counted together.
    pub name: String,
    /// How its requests are issued; beside others always closed.
    pub replay: Replay,
    /// Its requests. Timestamps count from the start of the phase.
    pub source: Box<dyn Source>,
    /// Whether its FlashAlloc calls are made; without them it does the same in everything else.
    pub calls: bool,
    /// The calls come in the middle of writing, as a file system's do: they wait for trims alone.
    pub calls_amid: bool,
}

impl User {
    /// A user beside others, with up to `iodepth` requests outstanding.
    pub fn closed(name: impl Into<String>, iodepth: u32, source: impl Source + 'static) -> Self {
        let replay = Replay::Closed { iodepth };
        Self { name: name.into(), replay, source: Box::new(source), calls: true, calls_amid: false }
    }
}

/// A part of a workload: those who use the drive in it, mostly one.
pub struct Phase {
    /// At least one. Several share the drive, each at its own speed.
    pub users: Vec<User>,
    /// Nanoseconds between the end of the phase before (or the beginning) and the first request.
    pub delay_ns: u64,
    /// Issue nothing this many nanoseconds after the start of the phase, even if requests are left
    /// (fio's `runtime`).
    pub stop_after_ns: Option<u64>,
    /// How many requests the phase yields, for progress bars; `None` if not known beforehand.
    pub requests: Option<u64>,
    /// Bytes a second of the drive that the users would share, where there is none: what orders their
    /// requests in a trace file ([`Phase::into_source`]).
    pub nominal_bytes_s: u64,
}

/// Roughly what the drives of the papers take, in bytes a second.
const NOMINAL: u64 = 100_000_000;

impl Phase {
    /// A phase of one user that starts at once and runs until its source ends.
    pub fn new(replay: Replay, source: impl Source + 'static) -> Self {
        let user = User { replay, ..User::closed("", 1, source) };
        Self::of(vec![user])
    }

    /// A phase of several users that ends when all of them do.
    pub fn of(users: Vec<User>) -> Self {
        Self { users, delay_ns: 0, stop_after_ns: None, requests: None, nominal_bytes_s: NOMINAL }
    }

    /// The same phase, known to yield `requests`.
    pub fn counted(mut self, requests: u64) -> Self {
        self.requests = Some(requests);
        self
    }

    /// All requests as one stream, without a drive to order them: those of several users in turns, a
    /// request each, on a drive that serves them one after the other at [`Phase::nominal_bytes_s`]. The
    /// order depends on nothing else; times are 0, as in every closed phase.
    pub fn into_source(mut self) -> Box<dyn Source> {
        match self.users.pop() {
            Some(user) if self.users.is_empty() => user.source,
            last => {
                self.users.extend(last);
                Box::new(merged::Merged::new(self.users, self.nominal_bytes_s))
            }
        }
    }
}

impl std::fmt::Debug for Phase {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let users: Vec<(&str, Replay)> = self.users.iter().map(|u| (u.name.as_str(), u.replay)).collect();
        f.debug_struct("Phase")
            .field("users", &users)
            .field("delay_ns", &self.delay_ns)
            .field("stop_after_ns", &self.stop_after_ns)
            .field("requests", &self.requests)
            .finish_non_exhaustive()
    }
}

/// Requests to be replayed: phase after phase, each when the one before has drained.
#[derive(Debug)]
pub struct Workload {
    /// What to call it in reports.
    pub name: String,
    /// At least one. The last is the measured one; those before prepare the device.
    pub phases: Vec<Phase>,
    /// What a reader of the results has to know: assumptions, scaling, options ignored.
    pub notes: Vec<String>,
}

impl Workload {
    /// All requests in order, phase after phase, with the timestamps of later phases moved behind
    /// those of earlier ones: what a trace file of this workload holds. Closed phases have no times of
    /// their own (all 0): such a file wants a closed replay too. Several users become one stream, as
    /// [`Phase::into_source`] says.
    pub fn into_source(self) -> impl Source {
        Chain { phases: self.phases.into(), current: None, base_ns: 0, last_ns: 0 }
    }
}

/// The phases of a workload as one source.
struct Chain {
    phases: std::collections::VecDeque<Phase>,
    /// The phase under way, and when it ends.
    current: Option<(Box<dyn Source>, u64)>,
    /// Added to the timestamps of the current phase.
    base_ns: u64,
    last_ns: u64,
}

impl Source for Chain {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        if max == 0 {
            return Ok(());
        }
        loop {
            let (source, limit) = match &mut self.current {
                Some(current) => current,
                None => {
                    let Some(phase) = self.phases.pop_front() else { return Ok(()) };
                    self.base_ns = self.last_ns.saturating_add(phase.delay_ns);
                    let limit = phase.stop_after_ns.unwrap_or(u64::MAX);
                    self.current.insert((phase.into_source(), limit))
                }
            };
            let before = out.len();
            source.fill(out, max)?;
            let timely = out[before..].iter().position(|r| r.time_ns >= *limit);
            if let Some(late) = timely {
                out.truncate(before + late);
            }
            for request in &mut out[before..] {
                request.time_ns = request.time_ns.saturating_add(self.base_ns);
                self.last_ns = self.last_ns.max(request.time_ns);
            }
            if timely.is_some() || out.len() == before {
                self.current = None;
            }
            if out.len() > before {
                return Ok(());
            }
        }
    }
}

/// One entry of the registry: name, one line, and how it is made. The name may carry an argument
/// after a colon, shown in the registry as `name:ARG` or `name[:ARG]`.
struct Entry {
    name: &'static str,
    line: &'static str,
    make: fn(&'static str, Option<&str>, &Target) -> Result<Workload, Error>,
}

const FAMILIES: [&[Entry]; 6] =
    [simple::ENTRIES, papa::ENTRIES, across::ENTRIES, waflash::ENTRIES, filebench::ENTRIES, objects::ENTRIES];

/// The name and a one-line description of every named workload. `NAME:ARG` needs an argument,
/// `NAME[:ARG]` takes one.
pub fn list() -> &'static [(&'static str, &'static str)] {
    static LIST: std::sync::OnceLock<Vec<(&'static str, &'static str)>> = std::sync::OnceLock::new();
    LIST.get_or_init(|| FAMILIES.iter().copied().flatten().map(|e| (e.name, e.line)).collect())
}

/// The bare name of an entry, without its argument.
fn bare(name: &'static str) -> &'static str {
    name.split(['[', ':']).next().unwrap_or(name)
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

/// A byte count such as `4k`, `1m` or `512` (powers of 1024).
pub(crate) fn bytes(text: &str) -> Option<u64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "" | "b" => 1,
        "k" | "kb" | "kib" => 1 << 10,
        "m" | "mb" | "mib" => 1 << 20,
        "g" | "gb" | "gib" => 1 << 30,
        _ => return None,
    };
    digits.parse::<u64>().ok()?.checked_mul(unit)
}

#[cfg(test)]
mod tests;
