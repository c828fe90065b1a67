//! What a device is asked to do: a trace file, a fio job file, a fitted trace or a named workload.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use nandle_trace::synthetic::{self, Fitted, Phase, Replay, Target, Workload};
use nandle_trace::{Options, Request, Source, fio};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use crate::Error;
use crate::address::{Address, Fit, Footprint};
use crate::config::Drive;
use crate::measure::Until;

/// Requests outstanding in a closed replay that says nothing else.
pub const DEFAULT_IODEPTH: u32 = 32;

/// Which way of replaying is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// At the timestamps.
    Open,
    /// A fixed number outstanding.
    Closed,
    /// One at a time, keeping the gaps.
    Think,
}

/// What is asked of a device, and how.
#[derive(Clone, Debug, Default)]
pub struct Asked {
    /// A file, `-`, or the name of a workload.
    pub workload: String,
    /// Seed of generated workloads.
    pub seed: u64,
    /// At most this many requests in the measured part.
    pub requests: Option<u64>,
    /// How to replay the measured part, instead of the workload's own way.
    pub mode: Option<Mode>,
    /// Requests outstanding in a closed replay.
    pub iodepth: Option<u32>,
    /// Multiplies timestamps (open) or gaps (think).
    pub time_scale: Option<f64>,
    /// What becomes of addresses beyond the device.
    pub fit: Fit,
    /// How trace files are read.
    pub trace: Options,
    /// The measured part goes on until the device is steady.
    pub until: Option<Until>,
}

/// A workload ready to be replayed on one device.
pub struct Prepared {
    /// Its name.
    pub name: String,
    /// Its phases with where their addresses go.
    pub phases: Vec<(Phase, Address)>,
    /// What a reader of the results has to know.
    pub notes: Vec<String>,
}

/// What the name of a workload turned out to be.
enum Kind {
    Generated(Workload),
    Trace(PathBuf),
}

impl Asked {
    /// Finds the workload and fits it to the device.
    ///
    /// # Errors
    /// If there is no such workload, a file makes no sense, or options do not go together.
    pub fn prepare(&self, drive: &Drive) -> Result<Prepared, Error> {
        self.prepare_with(drive, None)
    }

    /// The same, with traces that runs share.
    ///
    /// # Errors
    /// As [`Asked::prepare`].
    pub fn prepare_with(&self, drive: &Drive, traces: Option<&Traces>) -> Result<Prepared, Error> {
        self.check_options()?;
        let mut prepared = match self.find(drive)? {
            Kind::Generated(workload) => self.generated(workload, drive)?,
            Kind::Trace(path) => self.trace(&path, drive, traces)?,
        };
        self.measure(&mut prepared)?;
        Ok(prepared)
    }

    /// Refuses what [`Asked::prepare`] would, as far as that shows without reading a trace through; whether it is
    /// known how many requests there will be.
    ///
    /// # Errors
    /// As those of [`Asked::prepare`].
    pub fn check(&self, drive: &Drive) -> Result<bool, Error> {
        self.check_options()?;
        match self.find(drive)? {
            Kind::Generated(workload) => {
                let mut prepared = self.generated(workload, drive)?;
                self.measure(&mut prepared)?;
                Ok(prepared.phases.last().is_some_and(|(last, _)| last.requests.is_some()))
            }
            Kind::Trace(path) => {
                nandle_trace::open(&path, &self.trace)?;
                self.replay(Replay::Open { time_scale: 1.0 })?;
                Ok(self.until.is_none())
            }
        }
    }

    /// Options by themselves, whatever the workload is.
    fn check_options(&self) -> Result<(), Error> {
        if self.time_scale.is_some_and(|s| !(s.is_finite() && s > 0.0 && s <= 1e9)) {
            return Err(Error::input(format!(
                "--time-scale {:?}: expected a number above 0 and at most 1e9, such as 0.5 for twice as fast",
                self.time_scale.unwrap_or(0.0)
            )));
        }
        if self.iodepth.is_some_and(|d| d == 0 || d > 65536) {
            return Err(Error::input(format!(
                "--iodepth {}: expected 1 to 65536",
                self.iodepth.unwrap_or(0)
            )));
        }
        if self.requests == Some(0) {
            return Err(Error::input("--requests 0: expected at least 1"));
        }
        if let Some(until) = &self.until {
            self.can_go_on(until)?;
        }
        Ok(())
    }

    fn generated(&self, workload: Workload, drive: &Drive) -> Result<Prepared, Error> {
        self.needs_no_reading()?;
        if workload.phases.last().is_none_or(|last| last.requests == Some(0)) {
            return Err(self.is_empty());
        }
        Ok(generated(workload, drive))
    }

    pub(crate) fn is_empty(&self) -> Error {
        Error::input(format!("{}: no requests in it; expected a workload with some", self.workload))
    }

    /// The last phase is what is measured: it goes on, and is replayed, as it is asked for.
    fn measure(&self, prepared: &mut Prepared) -> Result<(), Error> {
        if let Some((last, _)) = prepared.phases.last_mut() {
            if self.until.is_some() {
                (last.requests, last.stop_after_ns) = (None, None);
            }
            if last.users.len() > 1 && self.mode.is_some_and(|mode| mode != Mode::Closed) {
                return Err(Error::input(format!(
                    "{}: its users wait for each other, and have no times; expected --replay closed",
                    self.workload
                )));
            }
            for user in &mut last.users {
                user.replay = self.replay(user.replay)?;
            }
        }
        Ok(())
    }

    /// What goes on until the device is steady has no other end.
    fn can_go_on(&self, until: &Until) -> Result<(), Error> {
        if !(until.band > 0.0 && until.band < 1.0) {
            return Err(Error::input(format!(
                "--band {}: expected a share between 0 and 1, such as 0.02",
                until.band
            )));
        }
        if !(until.at_most >= 1.0 && until.at_most <= 1e6) {
            return Err(Error::input(format!(
                "--at-most {}: expected 1 to 1000000 drive writes, such as 30",
                until.at_most
            )));
        }
        if self.requests.is_some() {
            return Err(Error::input(
                "--until steady decides how many requests there are: expected it without --requests",
            ));
        }
        if self.workload == "-" {
            return Err(Error::input(
                "--until steady reads a trace more than once: expected a file instead of -",
            ));
        }
        Ok(())
    }

    /// The measured phase once more, for a device that is not steady yet; none if several users share the drive:
    /// what they wrote would be in their way.
    ///
    /// # Errors
    /// If the workload cannot be had.
    pub fn again(&self, drive: &Drive, traces: Option<&Traces>) -> Result<Option<Phase>, Error> {
        let last = self.prepare_with(drive, traces)?.phases.pop();
        Ok(last.map(|(phase, _)| Phase { delay_ns: 0, ..phase }).filter(|phase| phase.users.len() == 1))
    }

    /// The requests alone, in order, for tools that need no device.
    ///
    /// # Errors
    /// If there is no such workload, or a file makes no sense.
    pub fn open(&self, drive: &Drive) -> Result<Opened, Error> {
        if self.requests == Some(0) {
            return Err(Error::input("--requests 0: expected at least 1"));
        }
        Ok(match self.find(drive)? {
            Kind::Generated(workload) => {
                self.needs_no_reading()?;
                let notes = workload.notes.clone();
                let kind =
                    format!("generated for a device of {}", crate::units::bytes(drive.layout.logical_bytes));
                Opened { kind, notes, inner: Inner::Generated(Box::new(workload.into_source())) }
            }
            Kind::Trace(path) => {
                let trace = nandle_trace::open(&path, &self.trace)?;
                let left = self.requests.unwrap_or(u64::MAX);
                Opened {
                    kind: trace.format().to_string(),
                    notes: Vec::new(),
                    inner: Inner::Trace(Box::new(trace), left),
                }
            }
        })
    }

    /// Options of reading do nothing for a workload that is generated: they are refused.
    fn needs_no_reading(&self) -> Result<(), Error> {
        let o = &self.trace;
        let given = [
            ("--format", o.format.is_some()),
            ("--volume", o.volume.is_some()),
            ("--time-unit", o.time_unit.is_some()),
            ("--action", o.action.is_some()),
            ("--regex", o.regex.is_some()),
        ];
        match given.iter().find(|(_, given)| *given) {
            Some((option, _)) => Err(Error::input(format!(
                "{option} is for trace files; {} is generated: expected the one without the other",
                self.workload
            ))),
            None => Ok(()),
        }
    }

    /// What a generator is told of the drive.
    #[must_use]
    pub fn target(&self, drive: &Drive) -> Target {
        Target {
            logical_bytes: drive.layout.logical_bytes,
            page_bytes: drive.config.geometry.page_bytes,
            sector_bytes: drive.config.geometry.sector_bytes,
            seed: self.seed,
            requests: self.requests.or(self.until.map(|_| synthetic::ENDLESS)),
        }
    }

    fn find(&self, drive: &Drive) -> Result<Kind, Error> {
        let name = self.workload.as_str();
        let path = Path::new(name);
        let target = self.target(drive);
        let text = || {
            std::fs::read_to_string(path)
                .map_err(|source| nandle_trace::Error::Io { path: path.to_owned(), source })
        };
        if path.is_dir() {
            return Err(Error::input(format!("{name}: a directory; expected a trace file")));
        }
        let exists = name == "-" || path.exists();
        match path.extension().and_then(|e| e.to_str()) {
            Some("fio") if exists => return Ok(Kind::Generated(fio::workload(&text()?, path, &target)?)),
            Some("toml") if exists => {
                let fitted: Fitted = toml::from_str(&text()?).map_err(|e| {
                    Error::input(format!(
                        "{name}: not a fitted trace (as `nandle trace fit` writes): {}",
                        e.message()
                    ))
                })?;
                return Ok(Kind::Generated(fitted.workload(&target)?));
            }
            _ if exists => return Ok(Kind::Trace(path.to_owned())),
            _ => {}
        }
        let stem = name.split(':').next().unwrap_or(name);
        let looks_like_file = Path::new(stem).extension().is_some() && !stem.starts_with("fio-");
        if stem.contains(['/', '\\']) || looks_like_file {
            return Err(Error::input(format!("{name}: no such file")));
        }
        match synthetic::named(name, &target) {
            Ok(workload) => Ok(Kind::Generated(workload)),
            Err(nandle_trace::Error::Input(what)) => Err(Error::input(format!(
                "{what} (there is no file of that name either; `nandle workloads` lists what there is)"
            ))),
            Err(e) => Err(e.into()),
        }
    }

    fn trace(&self, path: &Path, drive: &Drive, traces: Option<&Traces>) -> Result<Prepared, Error> {
        let piped = path.as_os_str() == "-";
        let limit = self.requests.unwrap_or(u64::MAX);
        let decoded = match traces {
            _ if piped => None,
            Some(traces) => Some(traces.decoded(path, &self.trace, limit)?),
            None => Some(Arc::new(Decoded::read(path, &self.trace, limit, held_alone(path))?)),
        };
        let mut notes = decoded.as_ref().map_or_else(Vec::new, |d| d.notes.clone());
        let footprint = decoded.as_ref().map(|d| &d.footprint);
        let (address, said) =
            Address::fitted(&drive.config, drive.layout.logical_sectors, self.fit, footprint)?;
        notes.extend(said);
        let count = footprint.map(|f| f.requests);
        let replay = Replay::Open { time_scale: 1.0 };
        let mut phase = match decoded.filter(|d| !d.requests.is_empty()) {
            Some(decoded) => Phase::new(replay, InMemory { decoded, at: (0, 0) }),
            None => {
                let inner = Box::new(nandle_trace::open(path, &self.trace)?);
                Phase::new(replay, Capped { inner, left: limit })
            }
        };
        phase.requests = count;
        let name = path.file_name().map_or_else(|| "-".into(), |n| n.to_string_lossy().into_owned());
        Ok(Prepared { name, phases: vec![(phase, address)], notes })
    }

    /// The file that the workload is read from, if it is one: a trace, a job file or a fitted trace.
    #[must_use]
    pub fn file(&self) -> Option<&Path> {
        let path = Path::new(&self.workload);
        path.is_file().then_some(path)
    }

    /// The workload's way of replaying with what was asked for put in.
    fn replay(&self, own: Replay) -> Result<Replay, Error> {
        let scale = self.time_scale.unwrap_or(1.0);
        let own_scale = match own {
            Replay::Open { time_scale } | Replay::Think { time_scale } => time_scale,
            Replay::Closed { .. } => 1.0,
        };
        let mode = self.mode.unwrap_or(match own {
            Replay::Open { .. } => Mode::Open,
            Replay::Closed { .. } => Mode::Closed,
            Replay::Think { .. } => Mode::Think,
        });
        match mode {
            Mode::Closed if self.time_scale.is_some() => Err(Error::input(
                "--time-scale has no meaning in a closed replay; expected --replay open or think with it",
            )),
            Mode::Open | Mode::Think if self.iodepth.is_some() => {
                Err(Error::input("--iodepth needs a closed replay; expected --replay closed with it"))
            }
            Mode::Open => Ok(Replay::Open { time_scale: own_scale * scale }),
            Mode::Think => Ok(Replay::Think { time_scale: own_scale * scale }),
            Mode::Closed => {
                let own_depth = if let Replay::Closed { iodepth } = own { iodepth } else { DEFAULT_IODEPTH };
                Ok(Replay::Closed { iodepth: self.iodepth.unwrap_or(own_depth) })
            }
        }
    }
}

/// A fitted trace as the TOML that a workload is read from.
///
/// # Errors
/// If it holds a number that TOML cannot.
pub fn fitted_toml(fitted: &Fitted) -> Result<String, Error> {
    toml::to_string(fitted).map_err(|e| Error::input(format!("the fitted trace cannot be written: {e}")))
}

/// What became of the rows of a trace, if it is worth saying: more than a header was skipped, or
/// rows were moved.
fn remarkable(counts: &nandle_trace::Counts) -> Option<String> {
    let skipped = counts.skipped.keys().any(|why| why != "header");
    (skipped || counts.out_of_order > 0 || counts.clamped > 0).then(|| counts.to_string())
}

/// The requests of a workload, with what is known about where they come from.
pub struct Opened {
    /// Format of the trace, or for which device it was generated.
    pub kind: String,
    notes: Vec<String>,
    inner: Inner,
}

enum Inner {
    Generated(Box<dyn Source>),
    /// And how many requests are still wanted.
    Trace(Box<nandle_trace::Trace>, u64),
}

impl Opened {
    /// What the user should know; complete once the requests are exhausted.
    #[must_use]
    pub fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if let Inner::Trace(trace, _) = &self.inner {
            notes.extend(trace.warnings());
            let counts = trace.counts();
            notes.extend(remarkable(&counts));
        }
        notes
    }
}

impl Source for Opened {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        match &mut self.inner {
            Inner::Generated(source) => source.fill(out, max),
            Inner::Trace(trace, left) => {
                let before = out.len();
                trace.fill(out, max.min(usize::try_from(*left).unwrap_or(usize::MAX)))?;
                *left -= (out.len() - before) as u64;
                Ok(())
            }
        }
    }
}

/// A generated workload on the drive that it was made for.
#[must_use]
pub fn generated(workload: Workload, drive: &Drive) -> Prepared {
    let address = Address::straight(&drive.config, drive.layout.logical_sectors);
    Prepared {
        name: workload.name,
        phases: workload.phases.into_iter().map(|phase| (phase, address.clone())).collect(),
        notes: workload.notes,
    }
}

/// The workload `name` as one that ages the device of a run that asks for `asked`.
pub(crate) fn aged(name: &str, asked: &Asked, seed: u64) -> Asked {
    // How trace files are read says nothing about a workload that is generated.
    let path = Path::new(name);
    let generated = !path.exists() || path.extension().is_some_and(|e| e == "fio" || e == "toml");
    let trace = if generated { Options::default() } else { asked.trace.clone() };
    Asked { workload: name.to_owned(), seed, fit: asked.fit, trace, ..Asked::default() }
}

/// Phases that age the device before anything else: closed, as fast as it goes.
///
/// # Errors
/// If the trace cannot be read.
pub(crate) fn ageing(asked: &Asked, drive: &Drive, traces: Option<&Traces>) -> Result<Prepared, Error> {
    let mut prepared = asked.prepare_with(drive, traces)?;
    for (phase, _) in &mut prepared.phases {
        // Several users have loops of their own.
        if let [user] = &mut phase.users[..] {
            user.replay = Replay::Closed { iodepth: DEFAULT_IODEPTH };
        }
        (phase.delay_ns, phase.stop_after_ns) = (0, None);
    }
    prepared.notes = prepared.notes.into_iter().map(|note| format!("ageing: {note}")).collect();
    prepared.notes.push(format!("aged with {} before the measured part", prepared.name));
    Ok(prepared)
}

/// Most requests of one trace that are held in memory for several runs (2.5 GB).
const MOST_HELD: u64 = 64 << 20;

/// Requests that one run holds (160 MB at most), so as not to read its trace twice; of a large file none, which
/// takes less memory.
fn held_alone(path: &Path) -> u64 {
    const LARGE: u64 = 128 << 20;
    if std::fs::metadata(path).is_ok_and(|file| file.len() <= LARGE) { 4 << 20 } else { 0 }
}

/// A trace that was read through once: what it touches, and its requests unless they are too many.
#[derive(Debug)]
struct Decoded {
    footprint: Footprint,
    notes: Vec<String>,
    /// In the pieces in which they were read.
    requests: Vec<Vec<Request>>,
}

impl Decoded {
    /// Reads a trace through, keeping at most `hold` requests: all of them, or none.
    fn read(path: &Path, options: &Options, limit: u64, mut hold: u64) -> Result<Self, Error> {
        let mut pass = nandle_trace::open(path, options)?;
        let mut requests = Vec::new();
        let footprint = Footprint::keeping(&mut pass, limit, |batch| {
            if let Some(left) = hold.checked_sub(batch.len() as u64) {
                hold = left;
                requests.push(std::mem::take(batch));
            } else {
                (requests, hold) = (Vec::new(), 0);
            }
        })?;
        if footprint.requests == 0 {
            return Err(Error::input(format!("{}: no requests in it; expected a trace", path.display())));
        }
        let mut notes = pass.warnings();
        notes.extend(remarkable(&pass.counts()).map(|said| format!("trace: {said}")));
        Ok(Self { footprint, notes, requests })
    }
}

/// Requests of a trace that several runs share.
struct InMemory {
    decoded: Arc<Decoded>,
    /// Piece, and place in it.
    at: (usize, usize),
}

impl Source for InMemory {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        let full = out.len().saturating_add(max);
        while let Some(piece) = self.decoded.requests.get(self.at.0)
            && out.len() < full
        {
            let end = piece.len().min(self.at.1.saturating_add(full - out.len()));
            out.extend_from_slice(&piece[self.at.1..end]);
            self.at = if end == piece.len() { (self.at.0 + 1, 0) } else { (self.at.0, end) };
        }
        Ok(())
    }
}

/// A trace once it was decoded.
type Kept = Option<Arc<Decoded>>;

/// Hash (SHA-256, hexadecimal) and length of a file.
pub type FileHash = (String, u64);

/// Traces that several runs share: each is decoded and hashed once, by the run that needs it first.
#[derive(Debug, Default)]
pub struct Traces {
    decoded: Mutex<HashMap<String, Arc<Mutex<Kept>>>>,
    hashes: Mutex<HashMap<PathBuf, FileHash>>,
}

impl Traces {
    fn decoded(&self, path: &Path, options: &Options, limit: u64) -> Result<Arc<Decoded>, Error> {
        let key = format!("{path:?} {options:?} {limit}");
        let mut all = self.decoded.lock().unwrap_or_else(PoisonError::into_inner);
        let entry = Arc::clone(all.entry(key).or_default());
        drop(all);
        let mut entry = entry.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = &*entry {
            return Ok(Arc::clone(known));
        }
        let decoded = Arc::new(Decoded::read(path, options, limit, MOST_HELD)?);
        *entry = Some(Arc::clone(&decoded));
        Ok(decoded)
    }

    /// Hash and length of a file.
    ///
    /// # Errors
    /// If it cannot be read.
    pub fn hash(&self, path: &Path) -> Result<FileHash, Error> {
        let mut hashes = self.hashes.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = hashes.get(path) {
            return Ok(known.clone());
        }
        let hash = sha256(path).map_err(|e| Error::input(format!("{}: {e}", path.display())))?;
        hashes.insert(path.to_owned(), hash.clone());
        Ok(hash)
    }
}

/// Hash of a file, hexadecimal, and its length.
pub(crate) fn sha256(path: &Path) -> std::io::Result<FileHash> {
    use std::io::Read;
    let mut file = std::fs::File::open(path)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        bytes += n as u64;
    }
    Ok((hex(&hash.finalize()), bytes))
}

/// Bytes as hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

/// A source cut off after some requests.
struct Capped {
    inner: Box<dyn Source>,
    left: u64,
}

impl Source for Capped {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        let before = out.len();
        self.inner.fill(out, max.min(usize::try_from(self.left).unwrap_or(usize::MAX)))?;
        self.left -= (out.len() - before) as u64;
        Ok(())
    }
}
