//! Every scheme on every workload.

use std::collections::VecDeque;

use nandle_lab::Error;
use nandle_lab::workload::Asked;
use nandle_trace::Request;

use super::super::{Bench, traces};
use super::device::{QUICK, as_shipped, device, small_device};
use super::run::{Run, replayed, run};

/// The six traces.
pub const TWINS: [&str; 6] = ["lun1", "lun2", "lun3", "lun4", "lun5", "lun6"];
/// The three schemes.
pub const SCHEMES: [&str; 3] = ["page", "mrsm", "across"];
/// The twin of the LUN whose trace the paper ages its device with, in another hour.
const AGEING: &str = "lun4";
/// In that hour (Table 2).
const AGEING_REQUESTS: u64 = 824_068;

/// What is replayed, on which device.
pub(super) enum Load {
    /// A twin on the paper's.
    Twin(Asked),
    /// A trace whose pages lie side by side, on a device of its size.
    Trace { requests: Vec<Request>, pages: u64, seed: u64 },
}

/// Its name, and what it is.
pub(super) type Workload = (String, Load);

/// Runs of each workload under page, MRSM and Across-FTL.
pub(super) type Runs = Vec<[Run; 3]>;

/// How a set of runs differs from the paper's.
#[derive(Clone, Copy)]
pub(super) struct Set {
    /// Bytes of a page.
    pub page: u32,
    /// A sixteenth of the device.
    pub quick: bool,
    /// The mapping cache is divided by this.
    pub cache: u64,
    /// After an hour of another LUN's requests.
    pub aged: bool,
    /// Areas give up sectors instead of being rolled back.
    pub shrink: bool,
    /// Channels, dies, bus and erase time are those that SSDSim ships.
    pub shipped: bool,
}

/// Runs each workload under the given schemes, one after the other.
pub(super) fn measure(
    bench: &Bench<'_>,
    set: Set,
    workloads: &[Workload],
    schemes: &[&'static str],
) -> Result<VecDeque<Run>, Error> {
    let jobs: Vec<(&String, &Load, &str)> =
        workloads.iter().flat_map(|(name, load)| schemes.iter().map(move |&m| (name, load, m))).collect();
    let name = |(name, _, mapping): &(&String, &Load, &str)| {
        format!("{name} {}, {} KiB pages", mapping, set.page / 1024)
    };
    let runs = bench.each(&jobs, name, |&(_, load, mapping)| {
        let mut drive = match load {
            Load::Twin(_) => device(mapping, set.page, set.quick, set.cache),
            Load::Trace { pages, .. } => small_device(mapping, set.page, *pages),
        }?;
        drive.config.scheme.across.shrink = set.shrink;
        if set.shipped {
            drive = as_shipped(drive)?;
        }
        match load {
            Load::Twin(asked) if set.aged => {
                let requests = set.quick.then_some(AGEING_REQUESTS / u64::from(QUICK));
                let other =
                    Asked { workload: AGEING.into(), seed: asked.seed + 1, requests, ..asked.clone() };
                let [before, requests] = [&other, asked].map(|asked| traces::requests(asked, &drive));
                replayed(&before?, &requests?, &drive, asked.seed)
            }
            Load::Twin(asked) => run(asked, &drive),
            Load::Trace { requests, seed, .. } => replayed(&[], requests, &drive, *seed),
        }
    })?;
    Ok(runs.into())
}

pub(super) fn compare(bench: &Bench<'_>, set: Set, workloads: &[Workload]) -> Result<Runs, Error> {
    let mut runs = measure(bench, set, workloads, &SCHEMES)?;
    Ok(workloads.iter().map(|_| SCHEMES.map(|_| runs.pop_front().unwrap_or_default())).collect())
}
