//! A recording: block requests in a trace file, and beside it what is known of the files.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use nandle_io::Op;
use nandle_observe::event::{Event, What};
use nandle_observe::{Means, Observation, Task};
use nandle_trace::{Format, Request};
use serde::{Deserialize, Serialize};

use crate::Error;
use crate::doubled::Doubled;
use crate::ext4::{FileSystem, Known, Volume};
use crate::kinds::Kind;
use crate::places::{Layout, Places};

/// What a recording adds up to; `TRACE.files.json` holds it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Told {
    schema_version: u32,
    /// The command.
    pub command: String,
    /// From its start to its end, nanoseconds.
    pub duration_ns: u64,
    /// Calls that asked for durability.
    pub flushes: u64,
    /// Bytes that the program wrote to files.
    pub logical_bytes: u64,
    /// Bytes of the pages that are written twice to be kept whole; 0 if there are none.
    #[serde(default)]
    pub doubled_page: u64,
    /// Who said where the blocks of files lie.
    #[serde(default)]
    pub layout: Layout,
    /// Bytes written to blocks of which the file system did not say where they lie; the model's then.
    #[serde(default)]
    pub unplaced_bytes: u64,
    /// By kind of file.
    pub kinds: BTreeMap<String, Bytes>,
    /// Each file.
    pub files: Vec<Named>,
}

/// What was written of a kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Bytes {
    /// By the program.
    pub logical_bytes: u64,
    /// By the file system, to the drive.
    pub block_bytes: u64,
}

/// A file of a recording.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Named {
    /// `object` in the trace.
    pub object: u32,
    /// Its first name.
    pub path: String,
    /// Its kind.
    pub kind: String,
    /// Bytes that the program wrote to it.
    pub logical_bytes: u64,
}

/// Requests, and what is known of them.
#[derive(Clone, Debug)]
pub struct Recording {
    /// The requests.
    pub requests: Vec<Request>,
    /// What they add up to.
    pub told: Told,
    /// How the program was watched.
    pub means: Option<Means>,
}

impl Recording {
    /// Runs a program and has a file system make requests of what it does.
    ///
    /// # Errors
    /// If it cannot be watched, fails, or writes nothing.
    pub fn make(task: Task, stop: &AtomicBool) -> Result<Self, Error> {
        let command = task.command.join(" ");
        let observation = task.run(stop)?;
        if !observation.status.success() {
            let how = match observation.status.code() {
                Some(127) => "was not found".to_owned(),
                Some(code) => format!("ended with exit {code}"),
                None => "was ended by a signal".to_owned(),
            };
            return Err(Error::Input(format!("{command:?} {how}; expected a program that ends well")));
        }
        Self::seen(&command, &observation)
    }

    /// The same of what was seen of a program.
    ///
    /// # Errors
    /// If it wrote nothing.
    pub fn seen(command: &str, observation: &Observation) -> Result<Self, Error> {
        let recording = Self { means: Some(observation.means), ..Self::of(command, observation) };
        if recording.told.logical_bytes == 0 {
            return Err(Error::Input(format!(
                "{command:?} wrote to no file in $NANDLE_DIR; expected a program that keeps its files in the folder of that name (with --strace: --under)"
            )));
        }
        Ok(recording)
    }

    /// What a file system makes of what was seen.
    #[must_use]
    pub fn of(command: &str, observation: &Observation) -> Self {
        let doubled = Doubled::find(&observation.events);
        let page = doubled.page;
        let is_placed = |event: &Event| matches!(event.what, What::Placed { .. });
        let layout = if observation.events.iter().any(is_placed) { Layout::Fiemap } else { Layout::Ext4 };
        let places = Places::find(&observation.events);
        let mut volume = FileSystem::with(&observation.before, doubled, places);
        for event in &observation.events {
            volume.apply(event);
        }
        let duration_ns = observation.events.last().map_or(0, |event| event.at_ns);
        let Volume { requests, known, flushes, unplaced } = volume.finish();
        let mut told = Told {
            schema_version: 1,
            command: command.to_owned(),
            duration_ns,
            flushes,
            logical_bytes: known.values().map(|known| known.written).sum(),
            layout,
            unplaced_bytes: unplaced,
            doubled_page: if known.values().any(|known| known.doubled > 0) { page } else { 0 },
            ..Told::default()
        };
        for (file, Known { path, kind, written, doubled }) in known {
            told.kinds.entry(kind.name().into()).or_default().logical_bytes += written - doubled;
            told.kinds.entry(Kind::Doublewrite.name().into()).or_default().logical_bytes += doubled;
            let object = u32::try_from(file).unwrap_or(u32::MAX);
            told.files.push(Named { object, path, kind: kind.name().into(), logical_bytes: written });
        }
        for request in requests.iter().filter(|request| request.op == Op::Write) {
            let kind = Kind::ALL[usize::from(request.stream)];
            told.kinds.entry(kind.name().into()).or_default().block_bytes += request.bytes;
        }
        told.kinds.retain(|_, bytes| *bytes != Bytes::default());
        Self { requests, told, means: None }
    }

    /// Bytes of all writes.
    #[must_use]
    pub fn written(&self) -> u64 {
        self.requests.iter().filter(|request| request.op == Op::Write).map(|request| request.bytes).sum()
    }

    /// Writes the trace and what is known of it; where that is.
    ///
    /// # Errors
    /// If the files cannot be written.
    pub fn write(&self, path: &Path) -> Result<PathBuf, Error> {
        let is_parquet = path.extension().is_some_and(|end| end == "parquet");
        let format = if is_parquet { Format::NandleParquet } else { Format::Nandle };
        let mut writer = nandle_trace::replace(path, format)?;
        writer.write(&self.requests)?;
        writer.finish()?;
        let beside = beside(path);
        let text = serde_json::to_string_pretty(&self.told).unwrap_or_default() + "\n";
        std::fs::write(&beside, text).map_err(|e| {
            Error::Input(format!("{}: {e}; expected a file that can be written", beside.display()))
        })?;
        Ok(beside)
    }

    /// Reads a trace, whoever made it, with what is known of it if that is beside it.
    ///
    /// # Errors
    /// If it cannot be read, or nothing is written in it.
    pub fn read(path: &Path) -> Result<Self, Error> {
        use nandle_trace::Source;
        let mut trace = nandle_trace::open(path, &nandle_trace::Options::default())?;
        let mut requests = Vec::new();
        loop {
            let before = requests.len();
            trace.fill(&mut requests, 4096)?;
            if requests.len() == before {
                break;
            }
        }
        let beside = beside(path);
        let told = match std::fs::read_to_string(&beside) {
            Ok(text) => serde_json::from_str(&text).map_err(|e| {
                Error::Input(format!("{}: {e}; expected what `nandle record` wrote", beside.display()))
            })?,
            Err(_) => Told::default(),
        };
        let mut recording = Self { requests, told, means: None };
        if recording.written() == 0 {
            return Err(Error::Input(format!(
                "{}: nothing is written in it; expected a trace with writes",
                path.display()
            )));
        }
        if recording.told.schema_version == 0 {
            recording.told.logical_bytes = recording.written();
            recording.told.duration_ns = recording.requests.last().map_or(0, |request| request.time_ns);
            recording.told.flushes =
                recording.requests.iter().filter(|request| request.op == Op::Flush).count() as u64;
        }
        Ok(recording)
    }
}

/// Where what is known of a trace's files is.
#[must_use]
pub fn beside(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".files.json");
    name.into()
}
