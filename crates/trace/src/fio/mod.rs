//! fio job files as workloads.
//!
//! The options below mean what they mean in fio; any other is refused by name, but for a list of
//! harmless ones ([`IGNORED`]) that the workload's notes name.
//!
//! `rw` (`readwrite`), `bs` (`blocksize`), `bsrange`, `bssplit`, `iodepth`, `numjobs`, `size`,
//! `offset`, `offset_increment`, `rwmixread`, `rwmixwrite`, `random_distribution` (random, zipf,
//! pareto, normal, zoned), `norandommap`, `rate_iops`, `thinktime`, `number_ios`, `io_size`
//! (`io_limit`), `runtime`, `time_based`, `loops`, `fsync`, `fdatasync`, `end_fsync`, `stonewall`
//! (`wait_for_previous`), `startdelay`, `randseed`, `kb_base`; `fdp`, `dataplacement`, `plids`
//! (`fdp_pli`), `plid_select` (`fdp_pli_select`): writes carry placement identifiers, 0 if none are given,
//! which drives with placement (`scheme.streams = "fdp"`) take as handles.
//!
//! What differs, because a simulated device is not a machine:
//! - Every job addresses the device itself, as with `filename=/dev/...`.
//! - Jobs that run side by side each have a loop of their own: as many requests outstanding as their
//!   `iodepth`, those of a job's processes (`numjobs`) together. A job alone, and jobs that all are rated, are
//!   one stream, each process in turn giving as many requests as its `iodepth`.
//! - `rate_iops` issues on time whatever the device does, and must hold for all jobs that run side by
//!   side or for none; `thinktime` needs a job alone with an `iodepth` of 1. Options that cannot be
//!   honoured together are refused, not approximated.
//! - By default random requests follow fio's random map: no block repeats until all were covered; a draw that
//!   hits a covered block takes the next free one, and every pass draws afresh. **This makes garbage collection
//!   cheap** (WAF 2.6 where draws with replacement give 4.6): use `norandommap`, which draws with replacement,
//!   to age a device. With several block sizes the map is one of the smallest size. As in fio, distributions
//!   other than `random` have no map.
//! - `zipf` and `pareto` are fio's own, hash included, so that ranks may share a block.
//! - Suffixes are fio's: `k` is 1024 and `ki` is 1000, unless `kb_base=1000` turns both around.

mod generate;
mod job;
mod map;
mod values;

use crate::synthetic::{Phase, Replay, Target, User, Workload};
use crate::{Error, Request, Source, Turn};
use generate::{Beside, Depth, Process, Timed};
use job::{Job, MAX_JOBS};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

pub use job::IGNORED;

/// A parsed file: jobs in order, and the options that were ignored.
struct File {
    jobs: Vec<Job>,
    ignored: Vec<String>,
}

/// The workload of a fio job file.
///
/// `path` is for messages and the name only; `text` is the file's content. `target.requests` caps
/// the last phase.
///
/// # Errors
/// At the first line that cannot be honoured, with what was expected.
pub fn workload(text: &str, path: &Path, target: &Target) -> Result<Workload, Error> {
    let fail = |line: u64, what: String| Error::Line { path: path.to_owned(), line, what };
    target.check()?;
    let file = parse(text).map_err(|(line, what)| fail(line, what))?;
    let mut phases: Vec<Phase> = Vec::new();
    let mut group: Vec<(usize, &Job)> = Vec::new();
    let mut total = 0_u64;
    for (index, job) in file.jobs.iter().enumerate() {
        total = total.saturating_add(job.numjobs);
        if total > MAX_JOBS {
            return Err(fail(
                job.line,
                format!("[{}] makes {total} jobs: expected at most {MAX_JOBS}", job.name),
            ));
        }
        if job.stonewall && !group.is_empty() {
            let whole = Target { requests: None, ..*target };
            let made = phase(&group, &whole, None).map_err(|(line, what)| fail(line, what))?;
            phases.push(made);
            group.clear();
        }
        group.push((index, job));
    }
    if group.is_empty() {
        return Err(fail(
            text.lines().count() as u64,
            "the file defines no job: expected a [section]".to_owned(),
        ));
    }
    let last = phase(&group, target, target.requests).map_err(|(line, what)| fail(line, what))?;
    phases.push(last);
    let mut notes = vec!["fio: every job addresses the device itself, whatever its filename".to_owned()];
    if file.jobs.iter().any(Job::uses_map) {
        notes.push("fio: the random map covers every block once before any repeats, which makes garbage collection cheap; norandommap draws with replacement".to_owned());
    }
    if !file.ignored.is_empty() {
        notes.push(format!("fio: ignored = {}", file.ignored.join(", ")));
    }
    let name = path.file_name().map_or_else(|| "fio".into(), |n| n.to_string_lossy().into_owned());
    Ok(Workload { name, phases, notes })
}

fn parse(text: &str) -> Result<File, (u64, String)> {
    let mut global = Job::default();
    let mut file = File { jobs: Vec::new(), ignored: Vec::new() };
    /// What the lines belong to.
    enum Section {
        None,
        Global,
        Job,
    }
    let mut section = Section::None;
    for (number, line) in (1..).zip(text.lines()) {
        let line = line.trim();
        if line.is_empty() || line.starts_with(['#', ';']) {
            continue;
        }
        if let Some(rest) = line.strip_prefix('[') {
            let Some(name) = rest.strip_suffix(']').filter(|n| !n.is_empty()) else {
                return Err((number, format!("{line:?}: expected [name]")));
            };
            if name == "global" {
                section = Section::Global;
            } else {
                section = Section::Job;
                file.jobs.push(Job { name: name.to_owned(), line: number, ..global.clone() });
            }
            continue;
        }
        let (key, value) = match line.split_once('=') {
            Some((key, value)) => (key.trim(), Some(value.trim())),
            None => (line, None),
        };
        let job = match section {
            Section::None => return Err((number, format!("{key:?} stands before the first [section]"))),
            Section::Global => &mut global,
            // A section has been pushed, so there is a last job.
            Section::Job => file.jobs.last_mut().unwrap_or(&mut global),
        };
        let known = job.set(key, value).map_err(|what| (number, what))?;
        if !known && !file.ignored.iter().any(|i| i == key) {
            file.ignored.push(key.to_owned());
        }
    }
    Ok(file)
}

/// Jobs that run side by side, as one phase of `limit` requests at most.
fn phase(group: &[(usize, &Job)], target: &Target, limit: Option<u64>) -> Result<Phase, (u64, String)> {
    let first = group[0].1;
    let rated = group.iter().filter(|(_, j)| j.is_rated()).count();
    if let Some((_, odd)) = group.iter().find(|(_, j)| j.is_rated() != first.is_rated()) {
        return Err((
            odd.line,
            format!("[{}] runs beside [{}], but only one of them has rate_iops", odd.name, first.name),
        ));
    }
    let open = rated > 0;
    let alone = group.len() == 1 && first.numjobs == 1;
    for (_, job) in group {
        if job.thinktime_ns > 0 && (!alone || job.iodepth != 1 || open) {
            return Err((
                job.line,
                format!("[{}]: thinktime needs a job alone, with iodepth=1 and no rate_iops", job.name),
            ));
        }
        if job.time_based && job.runtime_ns.is_none() {
            return Err((job.line, format!("[{}]: time_based needs runtime", job.name)));
        }
    }
    let mut processes = Vec::new();
    for &(index, job) in group {
        for clone in 0..job.numjobs {
            processes.push(Process::new(job, index, clone, target).map_err(|what| (job.line, what))?);
        }
    }
    let requests = processes.iter().map(Process::count).sum::<Option<u64>>();
    let requests = limit.map_or(requests, |limit| Some(requests.map_or(limit, |r| r.min(limit))));
    let capped = |inner: Box<dyn Source>| Capped { inner, left: limit.unwrap_or(u64::MAX) };
    if open {
        let source = capped(Box::new(Timed::new(processes)));
        return Ok(Phase { requests, ..Phase::new(Replay::Open { time_scale: 1.0 }, source) });
    }
    if group.len() > 1 {
        return Ok(Phase { requests, ..beside(group, processes, limit) });
    }
    let replay = if first.thinktime_ns > 0 {
        Replay::Think { time_scale: 1.0 }
    } else {
        let depth: u64 = group.iter().map(|(_, j)| u64::from(j.iodepth) * j.numjobs).sum();
        Replay::Closed { iodepth: u32::try_from(depth).unwrap_or(u32::MAX) }
    };
    Ok(Phase {
        delay_ns: first.startdelay_ns,
        stop_after_ns: first.runtime_ns,
        requests,
        ..Phase::new(replay, capped(Box::new(Depth::new(processes))))
    })
}

/// Jobs side by side, each in a closed loop of its own, with `limit` requests in all at most.
fn beside(group: &[(usize, &Job)], processes: Vec<Process>, limit: Option<u64>) -> Phase {
    let mut processes = processes.into_iter();
    let left = Arc::new(AtomicU64::new(limit.unwrap_or(u64::MAX)));
    let user = |(_, job): &(usize, &Job)| {
        let own = processes.by_ref().take(job.numjobs as usize).collect();
        let begin_ns = job.startdelay_ns;
        let end_ns = job.runtime_ns.map_or(u64::MAX, |ns| ns.saturating_add(begin_ns));
        let inner = Beside { processes: Depth::new(own), begin_ns, end_ns };
        let depth = u64::from(job.iodepth) * job.numjobs;
        let depth = u32::try_from(depth).unwrap_or(u32::MAX);
        User::closed(job.name.clone(), depth, Shared { inner, left: Arc::clone(&left) })
    };
    Phase::of(group.iter().map(user).collect())
}

/// One of several sources that are cut off after some requests of all of them.
struct Shared {
    inner: Beside,
    left: Arc<AtomicU64>,
}

impl Source for Shared {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let left = self.left.load(Ordering::Relaxed);
        let before = out.len();
        self.inner.fill(out, max.min(usize::try_from(left).unwrap_or(usize::MAX)))?;
        self.left.fetch_sub((out.len() - before) as u64, Ordering::Relaxed);
        Ok(())
    }

    fn step(&mut self, now_ns: u64, out: &mut Vec<Request>) -> Result<Turn, Error> {
        if self.left.load(Ordering::Relaxed) == 0 {
            return Ok(Turn::End);
        }
        let turn = self.inner.step(now_ns, out)?;
        if turn == Turn::Requests {
            self.left.fetch_sub(1, Ordering::Relaxed);
        }
        Ok(turn)
    }
}

/// A source cut off after some requests.
struct Capped {
    inner: Box<dyn Source>,
    left: u64,
}

impl Source for Capped {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let before = out.len();
        self.inner.fill(out, max.min(usize::try_from(self.left).unwrap_or(usize::MAX)))?;
        self.left -= (out.len() - before) as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests;
