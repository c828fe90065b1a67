//! Sweeps: a grid of runs from one file, and their results in one table.
//!
//! Every list of the file is multiplied with every other: devices, schemes, workloads, seeds, and each
//! overridden setting. What a workload does depends on its seed and the device's size alone, never on
//! the scheme: all schemes of a sweep serve the same requests.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use nandle_table::{Column, Table};
use nandle_trace::{Format, Options, TimeUnit};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::Error;
use crate::address::Fit;
use crate::batch::{self, Job, Labels, check, id_of};
use crate::config::{PRESETS, Wanted, complain, whole};
use crate::measure::Until;
use crate::output::Order;
use crate::run::{CONFIG, MANIFEST, Run};
use crate::workload::{Asked, Mode, Traces};

/// A sweep's file.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Grid {
    /// Presets or device files.
    pub devices: Vec<String>,
    /// Sums of policies; none: each device's own.
    pub schemes: Vec<String>,
    /// Named workloads, traces, job files.
    pub workloads: Vec<String>,
    /// Seeds; 1 if none is given.
    pub seeds: Vec<u64>,
    /// Settings of the devices: a value, or a list of values to go through.
    pub overrides: BTreeMap<String, toml::Value>,
    /// Most requests of the measured part: a number, or one with a unit in quotes ("1.5M").
    #[serde(deserialize_with = "count")]
    pub requests: Option<u64>,
    /// `open`, `closed` or `think`.
    pub replay: Option<Mode>,
    /// Requests outstanding in a closed replay.
    pub iodepth: Option<u32>,
    /// Multiplies timestamps or gaps.
    pub time_scale: Option<f64>,
    /// `wrap`, `scale` or `reject`.
    pub fit: Fit,
    /// Compare every read with the last write.
    pub verify: bool,
    /// Log every request.
    pub io_log: bool,
    /// Without clocks.
    pub untimed: bool,
    /// `steady`: go on until write amplification and mean latency hold.
    pub until: Option<Goal>,
    /// Most that they may spread (0.02).
    pub band: Option<f64>,
    /// Give up after so many writes of the range that the workload writes (30).
    pub at_most: Option<f64>,
    /// How trace files are read.
    pub trace: Reading,
    /// Where the runs go, beside the file; its name without ending if not given.
    pub output: Option<PathBuf>,
    /// The file, for complaints.
    #[serde(skip)]
    file: PathBuf,
}

/// A count, with a unit if it stands in quotes.
fn count<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Count {
        Number(u64),
        Text(String),
    }
    match Count::deserialize(from)? {
        Count::Number(count) => Ok(Some(count)),
        Count::Text(text) => crate::units::parse_count(&text).map(Some).map_err(serde::de::Error::custom),
    }
}

/// When the measured part is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Goal {
    /// When write amplification and mean latency hold.
    Steady,
}

/// `[trace]`
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Reading {
    /// Format, if it shall not be found by content.
    pub format: Option<Format>,
    /// One volume of several.
    pub volume: Option<String>,
    /// Unit of the clock.
    pub time_unit: Option<TimeUnit>,
}

impl Grid {
    /// Reads a sweep's file; paths in it are relative to it.
    ///
    /// # Errors
    /// If it cannot be read or makes no sense: the line, what was found, what was expected.
    pub fn read(path: &Path) -> Result<Self, Error> {
        let text = std::fs::read_to_string(path)
            .map_err(|e| Error::input(format!("{}: {e}; expected a sweep in TOML", path.display())))?;
        let mut grid: Self = toml::from_str(&text).map_err(|e| {
            let line = e.span().map_or(1, |span| complain::line_of(&text, span.start));
            Error::input(format!("{}:{line}: {}", path.display(), e.message().trim().replace('\n', "; ")))
        })?;
        grid.file = path.to_owned();
        let beside = path.parent().unwrap_or(Path::new(""));
        let put_beside = |name: &mut String, file: &str| {
            if beside.join(file).is_file() {
                *name = beside.join(&*name).to_string_lossy().into_owned();
            }
        };
        for device in &mut grid.devices {
            let file = whole(device).to_owned();
            // A preset is found before a file.
            if PRESETS.iter().all(|preset| preset.name != file) {
                put_beside(device, &file);
            }
        }
        for workload in &mut grid.workloads {
            put_beside(workload, &workload.clone());
        }
        let aged = match grid.overrides.get_mut("precondition.age_with") {
            Some(toml::Value::Array(values)) => &mut values[..],
            Some(value) => std::slice::from_mut(value),
            None => &mut [],
        };
        for value in aged {
            if let toml::Value::String(name) = value {
                put_beside(name, &name.clone());
            }
        }
        if grid.devices.is_empty() {
            grid.devices.push("demo".into());
        }
        if grid.workloads.is_empty() {
            return Err(Error::input(format!(
                "{}: no workloads; expected a list such as workloads = [\"random-write\", \"trace.gz\"]",
                path.display()
            )));
        }
        if grid.seeds.is_empty() {
            grid.seeds.push(1);
        }
        grid.output = Some(match grid.output {
            Some(output) => beside.join(output),
            None => {
                // What else has points in its name keeps them: v1.2.toml and v1.3.toml are two sweeps.
                let is_toml = path.extension().is_some_and(|ending| ending == "toml");
                let mut name =
                    if is_toml { path.with_extension("") } else { path.to_owned() }.into_os_string();
                name.push(".runs");
                name.into()
            }
        });
        Ok(grid)
    }

    /// Where the runs go.
    #[must_use]
    pub fn output(&self) -> &Path {
        self.output.as_deref().unwrap_or(Path::new("sweep.runs"))
    }

    /// The combinations of overridden settings, as `--set` takes them.
    fn settings(&self) -> Result<Vec<Vec<String>>, Error> {
        let mut all: Vec<Vec<String>> = vec![Vec::new()];
        for (key, value) in &self.overrides {
            let values = match value {
                toml::Value::Array(values) if values.is_empty() => {
                    return Err(Error::input(format!(
                        "overrides.{key:?}: an empty list; expected at least one value"
                    )));
                }
                toml::Value::Table(_) => {
                    return Err(Error::input(format!(
                        "overrides.{key}: a table; expected the whole name in quotes, such as \"gc.soft\" = [0.02, 0.05]"
                    )));
                }
                toml::Value::Array(values) => values.clone(),
                one => vec![one.clone()],
            };
            let sets: Vec<String> = values.iter().map(|v| format!("{key}={v}")).collect();
            all = all
                .into_iter()
                .flat_map(|before| sets.iter().map(move |set| [before.clone(), vec![set.clone()]].concat()))
                .collect();
        }
        Ok(all)
    }

    /// When the measured part is over, if not when the workload is.
    ///
    /// # Errors
    /// If a band or a limit stands alone.
    fn until(&self) -> Result<Option<Until>, Error> {
        let plain = Until::default();
        match (self.until, self.band.is_some() || self.at_most.is_some()) {
            (Some(Goal::Steady), _) => Ok(Some(Until {
                band: self.band.unwrap_or(plain.band),
                at_most: self.at_most.unwrap_or(plain.at_most),
            })),
            (None, true) => Err(Error::input(
                "band and at_most say when a run is steady: expected until = \"steady\" with them",
            )),
            (None, false) => Ok(None),
        }
    }

    fn options(&self) -> Options {
        let Reading { format, ref volume, time_unit } = self.trace;
        Options { format, time_unit, volume: volume.clone(), ..Options::default() }
    }

    /// All runs of the grid, in its order. Devices and schemes are checked; two combinations that come to
    /// the same run are one.
    ///
    /// # Errors
    /// If a device, scheme, setting or file of the grid makes no sense.
    pub fn jobs(&self) -> Result<Vec<Job>, Error> {
        self.combinations().map_err(|error| match error {
            Error::Input(what) => Error::Input(format!("{}: {what}", self.file.display())),
            other => other,
        })
    }

    fn combinations(&self) -> Result<Vec<Job>, Error> {
        let (options, settings, until) = (self.options(), self.settings()?, self.until()?);
        let schemes: Vec<Option<&str>> = if self.schemes.is_empty() {
            vec![None]
        } else {
            self.schemes.iter().map(|s| Some(s.as_str())).collect()
        };
        let traces = Traces::default();
        let mut jobs: Vec<Job> = Vec::new();
        for device in &self.devices {
            for sets in &settings {
                for workload in &self.workloads {
                    for &seed in &self.seeds {
                        for &scheme in &schemes {
                            let drive = Wanted { device, scheme, sets }.load()?;
                            let drive = if self.untimed { drive.untimed() } else { drive };
                            let asked = Asked {
                                workload: workload.clone(),
                                seed,
                                requests: self.requests,
                                mode: self.replay,
                                iodepth: self.iodepth,
                                time_scale: self.time_scale,
                                fit: self.fit,
                                trace: options.clone(),
                                until,
                            };
                            let mut run = Run {
                                drive,
                                asked,
                                seed,
                                verify: self.verify,
                                power_cuts: None,
                                output: Some(self.output().to_owned()),
                                io_log: self.io_log,
                                explain: 0,
                            };
                            check(&run)?;
                            let id = id_of(&run, &traces)?;
                            if jobs.iter().any(|job| job.id == id) {
                                continue;
                            }
                            run.output = Some(self.output().join(&id));
                            let labels = Labels {
                                device: device.clone(),
                                scheme: scheme.unwrap_or_default().to_owned(),
                                workload: workload.clone(),
                                seed,
                                overrides: sets.clone(),
                            };
                            jobs.push(Job { id, labels, run });
                        }
                    }
                }
            }
        }
        Ok(jobs)
    }
}

/// A part of a sweep for one machine of several: `i/n`, i from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which, counted from 1.
    pub number: usize,
    /// Of how many.
    pub of: usize,
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let parts = s.split_once('/').and_then(|(i, n)| Some((i.parse().ok()?, n.parse().ok()?)));
        match parts {
            Some((number, of)) if (1..=of).contains(&number) => Ok(Self { number, of }),
            _ => Err("expected i/n with i from 1 to n, such as 1/4".into()),
        }
    }
}

impl Shard {
    /// Its jobs: every n-th.
    #[must_use]
    pub fn of(self, jobs: Vec<Job>) -> Vec<Job> {
        jobs.into_iter().skip(self.number - 1).step_by(self.of).collect()
    }
}

/// The results of a directory of runs.
#[derive(Debug)]
pub struct Gathered {
    /// One row a run, one column a figure of the summary.
    pub table: Table,
    /// Their directories, in the table's order.
    pub runs: Vec<PathBuf>,
    /// Runs that failed, with their errors.
    pub failed: Vec<(PathBuf, String)>,
    /// Runs that were interrupted.
    pub left: Vec<PathBuf>,
    /// Runs that are not in the sweep's list any more, and that its report is not of either.
    pub others: Vec<PathBuf>,
}

/// Figures that tell of the machine, not of the run.
const MACHINE: [&str; 3] = ["cpu_s", "requests_per_cpu_s", "peak_rss_bytes"];

/// Puts the finished runs of a directory, where there is a list of them those in the list, into one table: the summary's
/// figures under their keys, the settings of the device under `config.` and theirs, what else was asked for under
/// `asked.`. It depends on the runs alone: not on who ran them, when, or in which order.
///
/// # Errors
/// If the directory cannot be read or has no finished run.
pub fn gather(dir: &Path) -> Result<Gathered, Error> {
    let (mut rows, mut failed, mut left) = (Vec::new(), Vec::new(), Vec::new());
    let listed: Option<BTreeSet<PathBuf>> =
        Order::read(dir).map(|order| order.runs.iter().map(|name| dir.join(name)).collect());
    let (found, others): (Vec<PathBuf>, Vec<PathBuf>) =
        batch::runs_in(dir)?.into_iter().partition(|run| listed.as_ref().is_none_or(|all| all.contains(run)));
    for path in found {
        if let Some(summary) = batch::finished(&path) {
            let name = path.file_name().map_or_else(String::new, |n| n.to_string_lossy().into_owned());
            let manifest = std::fs::read_to_string(path.join(MANIFEST)).unwrap_or_default();
            let manifest: Value = serde_json::from_str(&manifest).unwrap_or_default();
            let sha = manifest["trace"]["sha256"].as_str().map(str::to_owned);
            let key = (
                summary.device.clone(),
                summary.workload.clone(),
                summary.seed,
                summary.scheme.clone(),
                name.clone(),
            );
            let mut flat =
                vec![("run".to_owned(), Value::from(name)), ("trace_sha256".to_owned(), Value::from(sha))];
            flatten("", &serde_json::to_value(&summary).unwrap_or_default(), &mut flat);
            flatten("asked.workload", &manifest["workload"], &mut flat);
            if manifest["asked"].is_object() {
                flatten("asked", &manifest["asked"], &mut flat);
            }
            let config = std::fs::read_to_string(path.join(CONFIG)).unwrap_or_default();
            if let Ok(config) = config.parse::<toml::Table>() {
                flatten("config", &serde_json::to_value(config).unwrap_or_default(), &mut flat);
            }
            flat.retain(|(key, _)| !MACHINE.contains(&key.as_str()));
            rows.push((key, path, flat));
        } else if let Some(error) = batch::failure(&path) {
            failed.push((path, error));
        } else {
            left.push(path);
        }
    }
    if rows.is_empty() {
        return Err(Error::input(format!(
            "{}: no finished run in it ({} failed, {} interrupted); expected the directory of a sweep",
            dir.display(),
            failed.len(),
            left.len()
        )));
    }
    rows.sort_by(|a, b| a.0.cmp(&b.0));
    let runs = rows.iter().map(|row| row.1.clone()).collect();
    let rows: Vec<Vec<(String, Value)>> = rows.into_iter().map(|row| row.2).collect();
    Ok(Gathered { table: table(&rows), runs, failed, left, others })
}

/// A summary as columns: nested keys joined by points, lists as JSON.
fn flatten(before: &str, value: &Value, out: &mut Vec<(String, Value)>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let key = if before.is_empty() { key.clone() } else { format!("{before}.{key}") };
                flatten(&key, value, out);
            }
        }
        Value::Array(_) => out.push((before.to_owned(), Value::String(value.to_string()))),
        plain => out.push((before.to_owned(), plain.clone())),
    }
}

/// Rows with the same keys as a table.
fn table(rows: &[Vec<(String, Value)>]) -> Table {
    // A key that some runs lack (a latency percentile of nothing) is empty there.
    let mut names: Vec<&str> = Vec::new();
    let mut known = BTreeSet::new();
    for (name, _) in rows.iter().flatten() {
        if known.insert(name.as_str()) {
            names.push(name);
        }
    }
    let found: Vec<BTreeMap<&str, &Value>> =
        rows.iter().map(|row| row.iter().map(|(k, v)| (k.as_str(), v)).collect()).collect();
    let columns = names.into_iter().map(|name| {
        let values: Vec<&Value> =
            found.iter().map(|row| row.get(name).copied().unwrap_or(&Value::Null)).collect();
        let all = |test: fn(&Value) -> bool| values.iter().all(|v| v.is_null() || test(v));
        if all(Value::is_boolean) && values.iter().any(|v| v.is_boolean()) {
            Column::optional(name, values.iter().map(|v| v.as_bool()).collect())
        } else if all(Value::is_u64) && values.iter().any(|v| v.is_u64()) {
            Column::optional(name, values.iter().map(|v| v.as_u64()).collect())
        } else if all(Value::is_number) {
            Column::optional(name, values.iter().map(|v| v.as_f64()).collect())
        } else {
            Column::optional(name, values.iter().map(|v| v.as_str().map(str::to_owned)).collect())
        }
    });
    Table::new(columns.collect())
}

/// Writes what was gathered as `results.parquet`.
///
/// # Errors
/// If it cannot be written.
pub fn write(gathered: &Gathered, path: &Path) -> Result<(), Error> {
    crate::run::write_parquet(path, &gathered.table)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn grid(text: &str) -> Result<Grid, Error> {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("g.toml");
        std::fs::write(&path, text).expect("written");
        Grid::read(&path)
    }

    #[test]
    fn lists_are_multiplied_and_names_do_not_depend_on_the_order() {
        let text = "devices = ['gc20']\nschemes = ['page', 'multi-version']\nworkloads = ['random-write']\nseeds = [1, 2]\nrequests = 10\n[overrides]\n'gc.soft' = [0.05, 0.1]\nop_ratio = 0.3";
        let jobs = grid(text).expect("a grid").jobs().expect("valid");
        assert_eq!(jobs.len(), 8);
        let mut ids: Vec<String> = jobs.iter().map(|j| j.id.clone()).collect();
        ids.sort();
        ids.dedup();
        assert_eq!(ids.len(), 8);
        let other = text.replace("['page', 'multi-version']", "['multi-version', 'page', 'page']");
        let mut again: Vec<String> =
            grid(&other).expect("a grid").jobs().expect("valid").into_iter().map(|j| j.id).collect();
        again.sort();
        assert_eq!(again, ids);
        let shards: usize = (1..=3).map(|number| Shard { number, of: 3 }.of(jobs.clone()).len()).sum();
        assert_eq!(shards, 8);
        let asked: Vec<u64> = jobs.iter().map(|j| j.run.asked.seed).collect();
        assert_eq!(asked.iter().filter(|&&s| s == 1).count(), 4);
    }

    #[test]
    fn nonsense_is_named() {
        for (text, said) in [
            ("workload = ['x']", "unknown field `workload`"),
            ("devices = ['gc20']", "no workloads"),
            ("workloads = ['random-write']\nreplay = 'fast'", "`open`, `closed`, `think`"),
            ("workloads = ['random-write']\n[overrides]\ngc.soft = 1", "in quotes"),
            ("workloads = ['random-write']\n[overrides]\n'gc.soft' = []", "at least one value"),
            ("workloads = ['random-write']\n[overrides]\n'gc.sfot' = 1", "gc.sfot"),
            ("workloads = ['random-write']\nseeds = 'x'", ":2:"),
        ] {
            let error = grid(text).and_then(|g| g.jobs().map(drop)).expect_err(text).to_string();
            assert!(error.contains(said) && error.contains("g.toml:"), "{text}: {error}");
        }
        assert!("0/4".parse::<Shard>().is_err() && "5/4".parse::<Shard>().is_err());
    }
}
