//! What is generated: phases of requests for a device of a certain size.

use super::merged::Merged;
use super::{Replay, User};
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

/// [`Target::requests`] of who wants a workload without end. One whose places depend on how long it is, such as
/// the twin of a trace, gives as many as it has of its own.
pub const ENDLESS: u64 = 1 << 40;

impl Target {
    /// As many requests as are wanted of a workload of a certain length.
    pub(crate) fn requests_of(&self, own: u64) -> u64 {
        self.requests.filter(|&wanted| wanted < ENDLESS).unwrap_or(own)
    }

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
                Box::new(Merged::new(self.users, self.nominal_bytes_s))
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
pub(super) struct Entry {
    pub name: &'static str,
    pub line: &'static str,
    pub make: fn(&'static str, Option<&str>, &Target) -> Result<Workload, Error>,
}

/// The bare name of an entry, without its argument.
pub(super) fn bare(name: &'static str) -> &'static str {
    name.split(['[', ':']).next().unwrap_or(name)
}
