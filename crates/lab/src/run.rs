//! One simulation from beginning to end, and the directory that it leaves.

mod directory;
pub mod tables;

pub(crate) use directory::{CONFIG, FAILURE, clear, free, write_parquet};
pub use directory::{Loaded, MANIFEST, files_of};

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use nandle_ssd::Ssd;

use crate::Error;
use crate::config::Drive;
use crate::measure::summary::Integrity;
use crate::measure::{Context, IoLog, Meter, Summary, summarise};
use crate::memory;
use crate::oracle::{Complaint, UNIT};
use crate::replay::{PowerCuts, Progress, Replayer, Watch};
use crate::resources;
use crate::units::bytes;
use crate::workload::{self, Asked, Traces};

/// Bytes that verification takes for each sector of the host: what it may hold, and what it holds.
const VERIFIED: u64 = 48;
/// Memory that verification may take.
const VERIFY_LIMIT: u64 = 16 << 30;

/// A run to be done.
#[derive(Clone, Debug)]
pub struct Run {
    /// The device.
    pub drive: Drive,
    /// The workload.
    pub asked: Asked,
    /// Seed of every random choice of the device.
    pub seed: u64,
    /// Judge every completion, and read back at the end what was written.
    pub verify: bool,
    /// When to cut the power; everything is verified then.
    pub power_cuts: Option<PowerCuts>,
    /// Where the run directory goes, if one is wanted.
    pub output: Option<PathBuf>,
    /// Log every request to `io.parquet` in the run directory.
    pub io_log: bool,
    /// Keep an account of so many requests, with every flash operation.
    pub explain: u64,
}

/// A run that was done.
#[derive(Debug)]
pub struct Outcome {
    /// What it adds up to.
    pub summary: Summary,
    /// Its time series and latencies; [`tables`] has them as tables.
    pub meter: Meter,
    /// The device that it ran on.
    pub drive: Drive,
    /// What the drive did wrong first.
    pub complaints: Vec<Complaint>,
    /// The account that [`Run::explain`] asked for, a line an event.
    pub explained: String,
    /// Why its directory is not whole, if one was wanted.
    pub unwritten: Option<Error>,
}

impl Run {
    /// Simulates. With `stop` set from outside, the run ends early and is marked incomplete.
    ///
    /// # Errors
    /// If the input makes no sense, no directory can be made, or the simulation fails.
    pub fn go(self, stop: &AtomicBool, progress: &mut dyn FnMut(&Progress)) -> Result<Outcome, Error> {
        self.go_with(None, stop, progress)
    }

    /// The same, with traces that runs share.
    ///
    /// # Errors
    /// As [`Run::go`].
    pub fn go_with(
        self,
        traces: Option<&Traces>,
        stop: &AtomicBool,
        progress: &mut dyn FnMut(&Progress),
    ) -> Result<Outcome, Error> {
        self.check_settings()?;
        let Self { drive, asked, seed, verify, power_cuts, output, io_log, explain } = self;
        let verify = verify || power_cuts.is_some();
        let own = Traces::default();
        // A trace that is read again and again is held in memory.
        let traces = traces.or(asked.until.map(|_| &own));
        let mut prepared = asked.prepare_with(&drive, traces)?;
        let mut notes = std::mem::take(&mut prepared.notes);
        let mut phases = Vec::new();
        if let Some(trace) = &drive.config.precondition.age_with {
            let ageing = workload::ageing(&workload::aged(trace, &asked, seed), &drive, traces)?;
            phases.extend(ageing.phases);
            notes.extend(ageing.notes);
        }
        phases.append(&mut prepared.phases);
        if let (Some(cuts), Some((measured, _))) = (&power_cuts, phases.last()) {
            cuts.suit(measured.requests.is_some(), drive.config.timing.untimed)?;
        }
        let unit = if verify { UNIT } else { 0 };
        memory::check("the device", memory::tables(&drive, unit))?;
        let aged_with = drive.config.precondition.age_with.as_deref().map(Path::new);
        let inputs: Vec<&Path> = asked.file().into_iter().chain(aged_with).collect();
        let directory = output.as_deref().map(|path| directory::Directory::create(path, &drive, &inputs));
        let directory = directory.transpose()?;
        let mut ssd = Ssd::new(&drive.config, unit, seed).map_err(|e| Error::input(e.to_string()))?;
        let scheme = drive.names();
        drive.complete(&mut ssd);
        let mut replayer = Replayer::new(ssd, Watch { stop, progress });
        if verify {
            replayer.verify();
        }
        if let Some(cuts) = &power_cuts {
            replayer.cut_power(cuts.clone(), seed);
        }
        if let (Some(directory), true) = (&directory, io_log) {
            replayer.io = Some(IoLog::create(&directory.path("io.parquet"))?);
        }
        replayer.explain(explain);
        if let Some(until) = asked.until {
            let (asked, drive) = (asked.clone(), drive.clone());
            replayer.settle(until, Box::new(move || asked.again(&drive, traces)));
        }
        let before = resources::thread_cpu();
        let complete = replayer.run(phases)?;
        if complete && replayer.trace.submitted == replayer.prepare.requests {
            return Err(asked.is_empty());
        }
        let cpu_s = (resources::thread_cpu() - before).as_secs_f64();
        let logged = replayer.io.take().map_or(Ok(()), IoLog::finish);
        if replayer.trace.hints_ignored > 0 {
            notes.push(format!(
                "{} FlashAlloc commands were left out: scheme.streams = {} has no use for them",
                replayer.trace.hints_ignored, drive.config.scheme.streams
            ));
        }
        notes.extend(rounding(replayer.meter.written, replayer.trace.rounded_bytes, &drive));
        let context = Context {
            workload: prepared.name,
            scheme,
            seed,
            complete,
            notes,
            cpu_s,
            trace: replayer.trace.clone(),
            prepare: replayer.prepare.clone(),
            recovery: replayer.recovery.clone(),
            integrity: Integrity::default(),
            steady: replayer.steadiness(),
        };
        let mut summary = summarise(&replayer.ssd, &replayer.meter, context);
        // Whatever the reading back costs, the figures are taken.
        if complete {
            replayer.read_back()?;
        }
        let (integrity, complaints) = match &replayer.oracle {
            Some(oracle) => (oracle.integrity(), oracle.complaints().to_vec()),
            None => Default::default(),
        };
        summary.integrity = integrity;
        let write = |directory: directory::Directory| {
            let file = match asked.file() {
                Some(path) => Some((path, traces.unwrap_or(&own).hash(path)?)),
                None => None,
            };
            directory.write(&drive, (&asked, power_cuts.as_ref()), file, &summary, &replayer.meter)?;
            crate::report::write_run(directory.path("").as_path())
        };
        let unwritten = logged.err().or(directory.and_then(|directory| write(directory).err()));
        let explained = replayer.explained();
        Ok(Outcome { summary, meter: replayer.meter, drive, complaints, explained, unwritten })
    }
}

impl Run {
    /// Refuses what makes no sense, as far as that shows before anything runs: traces are opened, not read through.
    ///
    /// # Errors
    /// As those of [`Run::go`] that are the user's.
    pub fn check(&self) -> Result<(), Error> {
        self.check_settings()?;
        let counted = self.asked.check(&self.drive)?;
        if let Some(name) = &self.drive.config.precondition.age_with {
            workload::aged(name, &self.asked, self.seed).check(&self.drive)?;
        }
        match &self.power_cuts {
            Some(cuts) => cuts.suit(counted, self.drive.config.timing.untimed),
            None => Ok(()),
        }
    }

    /// What does not depend on the workload.
    fn check_settings(&self) -> Result<(), Error> {
        let Self { drive, io_log, explain, .. } = self;
        if *io_log && self.output.is_none() {
            return Err(Error::input("--io-log writes into the run directory: expected -o DIR with it"));
        }
        let need = drive.layout.logical_sectors * VERIFIED;
        if (self.verify || self.power_cuts.is_some()) && need > VERIFY_LIMIT {
            return Err(Error::input(format!(
                "--verify would need {} for a device of {}; expected a smaller device, or a run without it",
                bytes(need),
                bytes(drive.layout.logical_bytes)
            )));
        }
        if drive.config.timing.untimed && (*io_log || *explain > 0) {
            return Err(Error::input(
                "--io-log and --explain say when what was done: expected them without --untimed",
            ));
        }
        Ok(())
    }
}

/// What rounding to sectors did to the bytes written, where it is more than a hundredth: WAF is of the rounded ones.
fn rounding(written: u64, added: u64, drive: &Drive) -> Option<String> {
    let sector = drive.config.geometry.sector_bytes.into();
    let smaller = if sector > 512 { "; --set geometry.sector_bytes=512 rounds less" } else { "" };
    (added > written / 100).then(|| {
        format!(
            "rounded outward to whole sectors of {}, the writes are {} instead of {}, and WAF is of these{smaller}",
            bytes(sector),
            bytes(written),
            bytes(written.saturating_sub(added))
        )
    })
}
