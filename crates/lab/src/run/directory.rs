//! The run directory: `config.resolved.toml`, `manifest.json`, `summary.json`, `timeseries.parquet`,
//! `latency/*.hlog`.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, IntervalLogWriterBuilder, LogEntry};
use hdrhistogram::serialization::{Deserializer, V2DeflateSerializer};
use nandle_ssd::Op;
use nandle_table::{Reader, Table, Writer};
use nandle_trace::Options;
use serde_json::json;

use crate::Error;
use crate::address::Fit;
use crate::config::{Drive, RESOLVED, resolved};
use crate::measure::{Meter, Summary};
use crate::output;
use crate::replay::PowerCuts;
use crate::workload::{Asked, FileHash};

/// The file that marks a run directory; written last.
pub const MANIFEST: &str = "manifest.json";

/// The file of a run that failed, among several.
pub(crate) const FAILURE: &str = "failure.json";

/// Written first.
pub(crate) const CONFIG: &str = "config.resolved.toml";

/// What a run may leave in its directory beside that.
const FILES: [&str; 6] =
    [MANIFEST, "summary.json", "timeseries.parquet", "io.parquet", output::REPORT, FAILURE];
const LATENCY: &str = "latency";
/// Logs of latencies, in a directory of their own.
const LOGS: [&str; 4] = ["read.hlog", "write.hlog", "trim.hlog", "flush.hlog"];

/// A run directory under construction, locked.
pub(super) struct Directory {
    path: PathBuf,
    /// Nobody else works in it while this is open.
    _lock: File,
}

impl Directory {
    /// Makes the directory. An existing one must be empty or an earlier run's, whether that came to its end or not:
    /// what that left is removed. `inputs` is not.
    pub(super) fn create(path: &Path, drive: &Drive, inputs: &[&Path]) -> Result<Self, Error> {
        let no = |e: io::Error| Error::input(format!("{}: {e}", path.display()));
        free(path)?;
        let mut files = left_by_runs().map(|name| path.join(name));
        if let Some(file) = files.find(|file| inputs.iter().any(|input| output::same(file, input))) {
            return Err(Error::input(format!(
                "{}: it is read, and would be removed; expected another name for -o",
                file.display()
            )));
        }
        fs::create_dir_all(path).map_err(no)?;
        let lock = File::open(path).map_err(no)?;
        // A file system that cannot lock has to do without.
        if rustix::fs::flock(&lock, rustix::fs::FlockOperation::NonBlockingLockExclusive)
            == Err(rustix::io::Errno::WOULDBLOCK)
        {
            return Err(Error::Busy(path.to_owned()));
        }
        clear(path)?;
        // Also a run that is killed leaves the mark that the directory is one.
        fs::write(path.join(CONFIG), resolved(drive)).map_err(no)?;
        fs::create_dir_all(path.join(LATENCY)).map_err(no)?;
        Ok(Self { path: path.to_owned(), _lock: lock })
    }

    /// A file in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.path.join(name)
    }

    /// Writes everything; the manifest, which marks a finished run, last.
    pub(super) fn write(
        &self,
        drive: &Drive,
        (asked, cuts): (&Asked, Option<&PowerCuts>),
        trace: Option<(&Path, FileHash)>,
        summary: &Summary,
        meter: &Meter,
    ) -> Result<(), Error> {
        let text = |name: &str, text: String| {
            let path = self.path(name);
            fs::write(&path, text).map_err(|e| Error::write(&path, e))
        };
        text("summary.json", pretty(summary))?;
        self.series(drive, meter)?;
        self.latencies(meter)?;
        let trace = trace.map(|(path, (sha256, bytes))| {
            json!({ "path": path.display().to_string(), "sha256": sha256, "bytes": bytes })
        });
        let manifest = json!({
            "program": "nandle",
            "version": env!("CARGO_PKG_VERSION"),
            "device": summary.device,
            "scheme": summary.scheme,
            "settings": drive.sets().collect::<BTreeMap<_, _>>(),
            "workload": asked.workload,
            "asked": said(drive, asked, cuts),
            "seed": summary.seed,
            "complete": summary.complete,
            "digest": summary.digest,
            "trace": trace,
            "arguments": std::env::args().collect::<Vec<_>>(),
        });
        text(MANIFEST, pretty(&manifest))
    }

    fn series(&self, drive: &Drive, meter: &Meter) -> Result<(), Error> {
        write_parquet(&self.path("timeseries.parquet"), &super::tables::series(drive, meter))
    }

    fn latencies(&self, meter: &Meter) -> Result<(), Error> {
        for (op, name) in [(Op::Read, "read"), (Op::Write, "write"), (Op::Trim, "trim"), (Op::Flush, "flush")]
        {
            let path = self.path(&format!("latency/{name}.hlog"));
            let whole = &meter.latency[op as usize];
            if whole.requests == 0 {
                continue;
            }
            let mut out = io::BufWriter::new(File::create(&path).map_err(|e| Error::write(&path, e))?);
            log(&mut out, op, meter).map_err(|e| Error::write(&path, e))?;
            out.flush().map_err(|e| Error::write(&path, e))?;
        }
        Ok(())
    }
}

/// What was asked for beside drive and workload, under the names that a sweep's file has for it; what was not is not there.
fn said(drive: &Drive, asked: &Asked, cuts: Option<&PowerCuts>) -> serde_json::Value {
    let Asked { workload: _, seed: _, requests, mode, iodepth, time_scale, fit, trace, until } = asked;
    let Options { format, time_unit, volume, action, regex, sort_window: _ } = trace;
    let reading = [
        ("format", json!(format)),
        ("volume", json!(volume)),
        ("time_unit", json!(time_unit)),
        ("action", json!(action)),
        ("regex", json!(regex)),
    ];
    let all = [
        ("requests", json!(requests)),
        ("replay", json!(mode)),
        ("iodepth", json!(iodepth)),
        ("time_scale", json!(time_scale)),
        ("fit", json!(Some(fit).filter(|&&fit| fit != Fit::default()))),
        ("until", json!(until.map(|_| "steady"))),
        ("band", json!(until.map(|until| until.band))),
        ("at_most", json!(until.map(|until| until.at_most))),
        ("untimed", json!(Some(true).filter(|_| drive.config.timing.untimed))),
        ("power_cut_at", json!(cuts.map(ToString::to_string))),
        ("trace", given(reading)),
    ];
    given(all)
}

/// An object of those that have a value.
fn given<const N: usize>(pairs: [(&str, serde_json::Value); N]) -> serde_json::Value {
    let empty =
        |value: &serde_json::Value| value.is_null() || value.as_object().is_some_and(|o| o.is_empty());
    pairs
        .into_iter()
        .filter(|(_, value)| !empty(value))
        .map(|(name, value)| (name.to_owned(), value))
        .collect()
}

/// Everything that a run may leave in its directory; the mark that it is a run's goes last.
fn left_by_runs() -> impl Iterator<Item = String> {
    let logs = LOGS.map(|log| format!("{LATENCY}/{log}"));
    FILES.into_iter().map(str::to_owned).chain(logs).chain([CONFIG.to_owned()])
}

/// The files of a run that its report and tables are made of.
pub fn files_of(run: &Path) -> impl Iterator<Item = PathBuf> {
    left_by_runs().filter(|name| name != output::REPORT).map(|name| run.join(name))
}

/// Whether a run may have this directory: it is not there, empty, or an earlier run's. Names alone say nothing: web
/// apps have a `manifest.json` too.
pub(crate) fn free(path: &Path) -> Result<(), Error> {
    if !path.exists() {
        return Ok(());
    }
    let no = |e: io::Error| Error::input(format!("{}: {e}", path.display()));
    let entries = fs::read_dir(path).map_err(no)?.collect::<Result<Vec<_>, _>>().map_err(no)?;
    let json = |name: &str| -> serde_json::Value {
        let text = fs::read(path.join(name)).unwrap_or_default();
        serde_json::from_slice(&text).unwrap_or_default()
    };
    if json(MANIFEST)["program"] == "nandle" {
        return Ok(());
    }
    let is_config = || fs::read(path.join(CONFIG)).is_ok_and(|text| text.starts_with(RESOLVED.as_bytes()));
    let is_failure = || ["error", "labels", "id"].iter().all(|key| !json(FAILURE)[key].is_null());
    let is_ours = is_config() || is_failure();
    let foreign = entries.iter().find(|entry| {
        let name = entry.file_name();
        let known = FILES.iter().any(|file| name == *file) || name == CONFIG || name == LATENCY;
        // Earlier versions made this first.
        let is_nothing =
            || name == LATENCY && fs::read_dir(entry.path()).is_ok_and(|mut dir| dir.next().is_none());
        name == MANIFEST || !known || !(is_ours || is_nothing())
    });
    match foreign {
        Some(foreign) => Err(Error::input(format!(
            "{}: exists and is not a run directory ({} is in it); expected a new name for -o",
            path.display(),
            foreign.file_name().display()
        ))),
        None => Ok(()),
    }
}

/// Removes what an earlier run left, and nothing else.
pub(crate) fn clear(dir: &Path) -> Result<(), Error> {
    for name in left_by_runs() {
        let path = dir.join(name);
        match fs::remove_file(&path) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(Error::write(&path, e)),
            _ => {}
        }
    }
    let _ = fs::remove_dir(dir.join(LATENCY));
    Ok(())
}

/// An interval log: one histogram of nanoseconds for each row of the measured part, where rows keep
/// them; else one for all of it.
fn log(out: &mut impl Write, op: Op, meter: &Meter) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("nandle: latencies in nanoseconds; time is simulated, in seconds from power-on");
    let mut writer = builder.begin_log_with(out, &mut serializer)?;
    let fail = |e: &dyn std::fmt::Debug| io::Error::other(format!("{e:?}"));
    let last = meter.rows.rows().last().map_or(0, |row| row.phase);
    let mut any = false;
    for row in meter.rows.rows().iter().filter(|row| row.phase == last) {
        if let Some(tally) = row.latency.get(op as usize).filter(|tally| !tally.is_empty()) {
            let start = Duration::from_nanos(meter.rows.start_ns(row));
            let length = Duration::from_nanos(meter.rows.interval_ns());
            writer.write_histogram(&tally.histogram(), start, length, None).map_err(|e| fail(&e))?;
            any = true;
        }
    }
    if !any {
        let length = Duration::from_nanos(meter.ended_ns - meter.begun_ns);
        writer
            .write_histogram(
                &meter.latency[op as usize].tally.histogram(),
                Duration::from_nanos(meter.begun_ns),
                length,
                None,
            )
            .map_err(|e| fail(&e))?;
    }
    Ok(())
}

/// Writes one table as a Parquet file.
pub(crate) fn write_parquet(path: &Path, table: &Table) -> Result<(), Error> {
    let fail = |e: nandle_table::Error| Error::write(path, io::Error::other(e));
    let file = File::create(path).map_err(|e| Error::write(path, e))?;
    let mut writer = Writer::new(Box::new(file), table).map_err(fail)?;
    writer.write(table).map_err(fail)?;
    writer.finish().map_err(fail)
}

/// Latencies of one kind of requests as a log has them: (kind, histogram in nanoseconds).
pub type Latencies = Vec<(String, Histogram<u64>)>;

/// A run directory that was read back.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// Where it is.
    pub path: PathBuf,
    /// `summary.json`
    pub summary: Summary,
    /// `manifest.json`
    pub manifest: serde_json::Value,
    /// `config.resolved.toml`
    pub config: String,
    /// `timeseries.parquet`
    pub series: Table,
    /// `latency/*.hlog`, each whole.
    pub latency: Latencies,
}

impl Loaded {
    /// Whether `path` is a directory with a finished (or interrupted) run in it.
    #[must_use]
    pub fn is_run(path: &Path) -> bool {
        path.join(MANIFEST).is_file()
    }

    /// Reads a run directory.
    ///
    /// # Errors
    /// If a file is missing or is not what a run writes: the file, and what is wrong.
    pub fn read(path: &Path) -> Result<Self, Error> {
        if !Self::is_run(path) {
            return Err(Error::input(format!(
                "{}: no {MANIFEST} in it; expected a run directory, as `nandle run -o DIR` writes",
                path.display()
            )));
        }
        let text = |name: &str| {
            let path = path.join(name);
            fs::read_to_string(&path).map_err(|e| Error::input(format!("{}: {e}", path.display())))
        };
        let wrong = |name: &str, e: &dyn std::fmt::Display| {
            Error::input(format!(
                "{}: {e}; expected what nandle {} writes",
                path.join(name).display(),
                env!("CARGO_PKG_VERSION")
            ))
        };
        let summary = serde_json::from_str(&text("summary.json")?).map_err(|e| wrong("summary.json", &e))?;
        let manifest = serde_json::from_str(&text(MANIFEST)?).map_err(|e| wrong(MANIFEST, &e))?;
        let series =
            read_parquet(&path.join("timeseries.parquet")).map_err(|e| wrong("timeseries.parquet", &e))?;
        let mut latency = Vec::new();
        for kind in ["read", "write", "trim", "flush"] {
            let name = format!("latency/{kind}.hlog");
            let Ok(bytes) = fs::read(path.join(&name)) else { continue };
            latency.push((kind.to_owned(), read_log(&bytes).map_err(|e| wrong(&name, &e))?));
        }
        let config = text(CONFIG)?;
        Ok(Self { path: path.to_owned(), summary, manifest, config, series, latency })
    }
}

/// The rows of a Parquet file.
pub(crate) fn read_parquet(path: &Path) -> Result<Table, String> {
    let read = || {
        let file = File::open(path).map_err(|e| e.to_string())?;
        Reader::file(file).and_then(Reader::whole).map_err(|e| e.to_string())
    };
    // The decoder is not ours: it may panic on a damaged file.
    nandle_trace::quietly(read).unwrap_or_else(|| Err("the file is damaged".into()))
}

/// All intervals of a log in one histogram.
fn read_log(bytes: &[u8]) -> Result<Histogram<u64>, String> {
    let mut whole = Histogram::<u64>::new(3).map_err(|e| e.to_string())?;
    let mut deserializer = Deserializer::new();
    for entry in IntervalLogIterator::new(bytes) {
        let LogEntry::Interval(interval) = entry.map_err(|e| format!("{e:?}"))? else { continue };
        let packed = STANDARD.decode(interval.encoded_histogram()).map_err(|e| e.to_string())?;
        let part: Histogram<u64> =
            deserializer.deserialize(&mut packed.as_slice()).map_err(|e| format!("{e:?}"))?;
        whole.add(&part).map_err(|e| e.to_string())?;
    }
    Ok(whole)
}

pub(crate) fn pretty(value: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}
