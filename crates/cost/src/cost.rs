//! An aged drive under a recording: what it costs, and what would help.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use nandle_io::Op;
use nandle_lab::batch::{Event, How, Job, Labels, State, id_of, work};
use nandle_lab::config::{self, Drive, Wanted};
use nandle_lab::measure::{Summary, Until};
use nandle_lab::run::Run;
use nandle_lab::workload::{Asked, Mode, Traces};
use serde::Serialize;

use crate::Error;
use crate::changed::Change;
use crate::record::{Bytes, Recording};
use crate::scale::{Layout, Packed};

/// Blocks of a plane that a drive made smaller keeps at least.
const LEAST_BLOCKS: u32 = 24;
/// A recording is so many times smaller than the drive that it is simulated on, at least.
const COPIES: u64 = 32;
/// The drive that is simulated is at least this large, if it is not whole.
const LEAST_BYTES: u64 = 256 << 20;
/// A drive is not simulated larger than this for the sake of ways that need more blocks.
const MOST_ROOM: u64 = 8 << 30;
/// Most logical capacities that a run writes.
const MOST_WRITES: f64 = 8.0;
/// Flushes that a group commit makes one.
const GROUP: usize = 8;
/// Seconds of a year.
const YEAR: f64 = 365.25 * 86_400.0;

/// What is asked.
#[derive(Clone, Debug)]
pub struct Question {
    /// Preset or device file.
    pub device: String,
    /// Its fields that are overridden.
    pub sets: Vec<String>,
    /// Share of the drive that the databases fill; the rest is cold.
    pub share: f64,
    /// Logical capacities written at first; twice that until the drive is steady.
    pub drive_writes: f64,
    /// Instead of that: the recording is repeated until the drive is as steady as this asks for.
    pub until: Option<Until>,
    /// Simulate the whole drive and not one with fewer blocks.
    pub whole: bool,
    /// Ask what would help, too.
    pub helps: bool,
    /// Runs at a time.
    pub jobs: usize,
    /// Seed of every random choice.
    pub seed: u64,
    /// Where run directories and the report go.
    pub output: Option<PathBuf>,
}

/// What one way costs.
#[derive(Clone, Debug, Serialize)]
pub struct Cost {
    /// Flash bytes a byte of the file system's, once the drive is steady.
    pub waf: f64,
    /// The same, by what wrote them.
    pub waf_parts: BTreeMap<String, f64>,
    /// Flash bytes a byte of the program's.
    pub flash_bytes_per_logical_byte: f64,
    /// Latency of flushes, with the writes that they wait for; nothing without flushes.
    pub fsync_lat_ns: BTreeMap<String, f64>,
    /// How often an hour the drive takes what was recorded, one request at a time.
    pub runs_per_hour: f64,
    /// Years until the endurance of the cells is used up, with one database on the whole drive at the rate of the
    /// recording; none if the device file has no endurance.
    pub lifetime_years: Option<f64>,
    /// The drive was steady.
    pub steady: bool,
    /// Logical capacities written.
    pub drive_writes: f64,
}

/// Something that might help.
#[derive(Clone, Debug, Serialize)]
pub struct Help {
    /// What is changed.
    pub name: String,
    /// What that means.
    pub what: &'static str,
    /// What it costs then; none if the device cannot.
    pub cost: Option<Cost>,
    /// Share of the flash bytes that are saved.
    pub gain: Option<f64>,
    /// Why it cannot be had.
    pub refused: Option<String>,
}

/// A kind of file.
#[derive(Clone, Debug, Serialize)]
pub struct OfKind {
    /// What was written of it in the recording.
    #[serde(flatten)]
    pub bytes: Bytes,
    /// Bytes that the file system wrote a byte of the program's.
    pub file_system_factor: Option<f64>,
    /// Flash bytes a byte of the file system's, if the kind has flash blocks of its own.
    pub waf_apart: Option<f64>,
}

/// The answer.
#[derive(Clone, Debug, Serialize)]
pub struct Answer {
    /// Of this layout.
    pub schema_version: u32,
    /// The trace.
    pub trace: String,
    /// The device.
    pub device: String,
    /// Bytes of the drive that was simulated, and of the whole one.
    pub simulated_bytes: u64,
    /// The same of the whole one.
    pub device_bytes: u64,
    /// Databases on the simulated drive.
    pub copies: u64,
    /// Share of it that they fill.
    pub share: f64,
    /// Bytes that the program wrote in the recording.
    pub logical_bytes: u64,
    /// Bytes that the file system wrote.
    pub block_bytes: u64,
    /// Flushes in the recording.
    pub flushes: u64,
    /// How long the recording is.
    pub duration_ns: u64,
    /// By kind of file.
    pub kinds: BTreeMap<String, OfKind>,
    /// As it is.
    pub cost: Cost,
    /// What might help, the best first.
    pub helps: Vec<Help>,
    /// The report.
    pub report: Option<String>,
}

/// A way to have it.
struct Way {
    name: String,
    what: &'static str,
    scheme: Option<&'static str>,
    sets: Vec<String>,
    layout: Layout,
    change: Change,
}

const PLAIN: Layout = Layout { align: None, trims: false, objects_from: None };

impl Question {
    /// Answers it for one trace. `progress` is told how the runs go.
    ///
    /// # Errors
    /// If the device or the trace make no sense, or the simulation of the trace as it is fails.
    pub fn answer(
        &self,
        trace: &Path,
        stop: &AtomicBool,
        progress: &(dyn Fn(&[Job], Event<'_>) + Sync),
    ) -> Result<Answer, Error> {
        let recording = Recording::read(trace)?;
        let whole = self.load_as(config::whole(&self.device), None, &[])?;
        let packed = Packed::new(&recording, PLAIN);
        let small = match self.fraction() {
            true => self.load(None, &[])?,
            false => self.smaller(&whole, &recording, packed.size * crate::ext4::BLOCK)?,
        };
        let room = small.layout.logical_bytes;
        let copies = packed.copies((room as f64 * self.share) as u64);
        let ways = self.ways(&small, &recording);
        let work_dir =
            tempfile::tempdir().map_err(|e| Error::Input(format!("{e}; expected a TMPDIR with room")))?;
        // Of a fraction the blocks are given.
        let blocks = format!("geometry.blocks_per_plane={}", small.config.geometry.blocks_per_plane);
        let blocks = Some(blocks).filter(|_| !self.fraction());
        // What is repeated is measured in whole repetitions.
        let mut writes = if self.until.is_some() { self.drive_writes.min(1.0) } else { self.drive_writes };
        let (jobs, states, refused) = loop {
            let mut jobs: Vec<Job> = Vec::new();
            let mut refused: BTreeMap<usize, String> = BTreeMap::new();
            let mut files: Vec<(Layout, Change, PathBuf)> = Vec::new();
            for (number, way) in ways.iter().enumerate() {
                match self.job(
                    way,
                    blocks.as_deref(),
                    &recording,
                    (copies, writes),
                    work_dir.path(),
                    &mut files,
                ) {
                    Ok(job) => jobs.push(job),
                    Err(e) if number > 0 => {
                        refused.insert(number, e.to_string());
                    }
                    Err(e) => return Err(e),
                }
            }
            let how = How { workers: self.jobs, retry: true };
            let states = work(&jobs, how, stop, &|event| progress(&jobs, event))?;
            let is_steady =
                states.first().and_then(State::summary).is_some_and(|summary| summary.steady_state);
            let is_last = self.until.is_some() || writes * 2.0 > MOST_WRITES;
            if is_steady || is_last || stop.load(std::sync::atomic::Ordering::Relaxed) {
                break (jobs, states, refused);
            }
            writes *= 2.0;
        };
        let known = Known { recording: &recording, whole: &whole };
        let cost = match states.first() {
            Some(State::Done(summary) | State::Kept(summary)) => known.cost(summary, recording.written()),
            Some(State::Failed(e)) => return Err(Error::Input(e.clone())),
            _ => return Err(Error::Input("interrupted before the drive was steady".into())),
        };
        let mut done = jobs.iter().zip(&states);
        done.next();
        let mut helps = Vec::new();
        let mut apart = BTreeMap::new();
        for (number, way) in ways.iter().enumerate().skip(1) {
            let Way { name, what, .. } = way;
            let (name, what) = (name.clone(), *what);
            if let Some(why) = refused.get(&number) {
                helps.push(Help { name, what, cost: None, gain: None, refused: Some(why.clone()) });
                continue;
            }
            match done.next() {
                Some((_, State::Done(summary) | State::Kept(summary))) => {
                    if way.scheme == Some("fdp") {
                        apart = by_kind(&packed, summary);
                    }
                    let changed = way.change.of(&recording);
                    let with = known.cost(summary, changed.as_ref().unwrap_or(&recording).written());
                    let gain = 1.0 - with.flash_bytes_per_logical_byte / cost.flash_bytes_per_logical_byte;
                    helps.push(Help { name, what, cost: Some(with), gain: Some(gain), refused: None });
                }
                Some((_, State::Failed(why))) => {
                    helps.push(Help { name, what, cost: None, gain: None, refused: Some(why.clone()) });
                }
                _ => {}
            }
        }
        helps.sort_by(|a, b| {
            let gain = |help: &Help| help.gain.unwrap_or(f64::NEG_INFINITY);
            gain(b).total_cmp(&gain(a))
        });
        let report = self.report(trace, &jobs, &states)?;
        Ok(Answer {
            schema_version: 1,
            trace: trace.display().to_string(),
            device: self.device.clone(),
            simulated_bytes: room,
            device_bytes: whole.layout.logical_bytes,
            copies,
            share: self.share,
            logical_bytes: recording.told.logical_bytes,
            block_bytes: recording.written(),
            flushes: recording.told.flushes,
            duration_ns: recording.told.duration_ns,
            kinds: kinds(&recording, &apart),
            cost,
            helps,
            report,
        })
    }

    /// Whether the device is named as a fraction of one.
    fn fraction(&self) -> bool {
        config::whole(&self.device) != self.device
    }

    fn load(&self, scheme: Option<&str>, sets: &[String]) -> Result<Drive, Error> {
        self.load_as(&self.device, scheme, sets)
    }

    fn load_as(&self, device: &str, scheme: Option<&str>, sets: &[String]) -> Result<Drive, Error> {
        let sets: Vec<String> = self.sets.iter().chain(sets).cloned().collect();
        Ok(Wanted { device, scheme, sets: &sets }.load()?)
    }

    /// The drive of a way, aged: so much of its flash holds live data.
    fn aged(&self, way: &Way, sets: &mut Vec<String>, plain: Drive, used: f64) -> Result<Drive, Error> {
        sets.push(format!("precondition.used={used:.6}"));
        sets.push(format!("precondition.valid={used:.6}"));
        if !self.fraction() {
            return self.load(way.scheme, sets);
        }
        // What is asked of a fraction is meant of the whole; this is of what is simulated.
        let mut device = plain.config;
        (device.precondition.used, device.precondition.valid) = (used, used);
        Ok(config::check(device)?)
    }

    /// The same drive with as few blocks as will do for this footprint, and for all ways if that takes no more
    /// than [`MOST_ROOM`].
    fn smaller(&self, whole: &Drive, recording: &Recording, footprint: u64) -> Result<Drive, Error> {
        let all = whole.config.geometry.blocks_per_plane;
        let wanted = ((footprint * COPIES) as f64 / self.share).max(LEAST_BYTES as f64);
        let ratio = wanted / whole.layout.logical_bytes as f64;
        let mut blocks = ((f64::from(all) * ratio).ceil() as u32).clamp(LEAST_BLOCKS, all.max(LEAST_BLOCKS));
        let mut found = None;
        while !self.whole && blocks < all {
            let set = format!("geometry.blocks_per_plane={blocks}");
            // Too few blocks for its reserve: more.
            if let Ok(drive) = self.load(None, std::slice::from_ref(&set)) {
                if found.is_some() && drive.layout.logical_bytes > MOST_ROOM {
                    break;
                }
                let fits = |way: &Way| {
                    let sets: Vec<String> = way.sets.iter().chain([&set]).cloned().collect();
                    self.load(way.scheme, &sets).is_ok() || self.load(way.scheme, &way.sets).is_err()
                };
                let all_fit = self.ways(&drive, recording).iter().all(fits);
                found = Some(drive);
                if all_fit {
                    break;
                }
            }
            blocks = blocks.saturating_mul(5) / 4 + 1;
        }
        Ok(found.unwrap_or_else(|| whole.clone()))
    }

    fn ways(&self, drive: &Drive, recording: &Recording) -> Vec<Way> {
        let way = |name: &str, what, scheme, sets: Vec<String>, layout| Way {
            name: name.to_owned(),
            what,
            scheme,
            sets,
            layout,
            change: Change::None,
        };
        let config = &drive.config;
        let page = u64::from(config.geometry.page_bytes);
        let mut ways = vec![way("as it is", "the recording on this drive", None, vec![], PLAIN)];
        if !self.helps {
            return ways;
        }
        let unit = if config.mapping.unit_bytes == 0 { page } else { u64::from(config.mapping.unit_bytes) };
        for bytes in [4096, 16_384, 65_536] {
            if bytes != unit && bytes >= u64::from(config.geometry.sector_bytes) {
                let what = if bytes < unit {
                    "a drive that maps smaller units: fewer read-modify-writes, a larger table"
                } else {
                    "a drive that maps larger units: a smaller table, more read-modify-writes"
                };
                let name = format!("unit {} KiB", bytes >> 10);
                ways.push(way(&name, what, None, vec![format!("mapping.unit_bytes={bytes}")], PLAIN));
            }
        }
        let align = page.max(65_536);
        let aligned = Layout { align: Some(align), ..PLAIN };
        ways.push(way(
            "aligned files",
            "each file in one piece, from a border of 64 KiB on",
            None,
            vec![],
            aligned,
        ));
        if recording.requests.iter().any(|request| request.op == Op::Trim) {
            let trims = Layout { trims: true, ..PLAIN };
            ways.push(way("discard", "the file system trims what was deleted", None, vec![], trims));
        }
        for (name, what, change) in [
            (format!("group commit x{GROUP}"), "so many flushes in a row are one", Change::Group(GROUP)),
            (
                "direct I/O".into(),
                "files allocated beforehand, written with O_DIRECT: no journal",
                Change::Direct,
            ),
        ] {
            if change.of(recording).is_some() {
                ways.push(Way { change, ..way(&name, what, None, vec![], PLAIN) });
            }
        }
        if recording.told.doubled_page > 0 {
            let page = recording.told.doubled_page;
            let mut sets =
                vec![format!("atomic.write_bytes={page}"), format!("atomic.power_fail_bytes={page}")];
            if page > unit {
                sets.push(format!("mapping.unit_bytes={page}"));
            }
            let what = "a drive that keeps a page whole, which is then written once";
            ways.push(Way { change: Change::Once, ..way("atomic writes", what, None, sets, PLAIN) });
        }
        let packed = Packed::new(recording, PLAIN);
        let streams = packed.streams().len();
        if streams > 1 {
            let sets = vec![format!("streams.count={streams}")];
            ways.push(way(
                "FDP by kind",
                "each kind of file has a placement handle (NVMe FDP)",
                Some("fdp"),
                sets,
                PLAIN,
            ));
        }
        let block = page * u64::from(config.geometry.pages_per_block);
        let objects = Layout { align: Some(align), trims: true, objects_from: Some(block / 2) };
        if Packed::new(recording, objects).has_objects() {
            let what = "files that are written once have flash blocks of their own (FlashAlloc)";
            ways.push(way("FlashAlloc", what, Some("flashalloc"), vec![], objects));
        }
        ways
    }

    fn job(
        &self,
        way: &Way,
        blocks: Option<&str>,
        recording: &Recording,
        (copies, writes): (u64, f64),
        dir: &Path,
        files: &mut Vec<(Layout, Change, PathBuf)>,
    ) -> Result<Job, Error> {
        let mut sets: Vec<String> = blocks.into_iter().map(str::to_owned).collect();
        sets.extend(way.sets.iter().cloned());
        let plain = self.load(way.scheme, &sets)?;
        let (g, layout) = (&plain.config.geometry, &plain.layout);
        // Aged: all that the host can address is live, as far as free and open blocks allow.
        let live = layout.logical_bytes as f64 / g.raw_bytes() as f64;
        let kept = f64::from(layout.soft_blocks + layout.open_blocks + 1) / f64::from(g.blocks_per_plane);
        let bad = plain.config.wear.factory_bad + 1.0 / f64::from(g.blocks_per_plane);
        let used = live.min(1.0 - kept - bad).max(0.0) * 0.999;
        let drive = self.aged(way, &mut sets, plain, used)?;
        let changed = way.change.of(recording);
        let packed = Packed::new(changed.as_ref().unwrap_or(recording), way.layout);
        let room = drive.layout.logical_bytes;
        if packed.size * crate::ext4::BLOCK > room / 2 {
            return Err(Error::Input(format!(
                "{}: the recording takes {} bytes, and the drive has {room}; expected a drive of twice that at least",
                self.device,
                packed.size * crate::ext4::BLOCK
            )));
        }
        let file =
            match files.iter().find(|(layout, change, _)| (*layout, *change) == (way.layout, way.change)) {
                Some((_, _, file)) => file.clone(),
                None => {
                    let file = dir.join(format!("{}-{writes}.parquet", files.len()));
                    let copies = copies.min(packed.copies((room as f64 * 0.9) as u64));
                    packed.write(&file, copies, (room as f64 * writes) as u64, room, self.seed)?;
                    files.push((way.layout, way.change, file.clone()));
                    file
                }
            };
        let asked = Asked {
            workload: file.display().to_string(),
            seed: self.seed,
            mode: Some(Mode::Closed),
            iodepth: Some(1),
            until: self.until,
            ..Asked::default()
        };
        let labels = Labels {
            device: self.device.clone(),
            scheme: way.scheme.unwrap_or_default().to_owned(),
            workload: way.name.clone(),
            seed: self.seed,
            overrides: sets,
        };
        let mut run = Run {
            drive,
            asked,
            seed: self.seed,
            verify: false,
            power_cuts: None,
            output: None,
            io_log: false,
            explain: 0,
        };
        let id = id_of(&run, &Traces::default())?;
        // Another recording, or a longer run, is not the one that was done before.
        let name = format!("{}-{id}", way.name.replace(' ', "-"));
        run.output = self.output.as_ref().map(|dir| dir.join(name));
        Ok(Job { id, labels, run })
    }

    fn report(&self, trace: &Path, jobs: &[Job], states: &[State]) -> Result<Option<String>, Error> {
        let Some(dir) = &self.output else { return Ok(None) };
        let done = jobs.iter().zip(states).filter(|(_, state)| state.summary().is_some());
        let dirs: Vec<PathBuf> = done.filter_map(|(job, _)| job.run.output.clone()).collect();
        let title = format!("What {} costs on {}", trace.display(), self.device);
        let page = nandle_lab::report::write_runs(&title, &dirs, &dir.join("report.html"))?;
        Ok(Some(page.display().to_string()))
    }
}

/// What turns a summary into a cost.
struct Known<'a> {
    recording: &'a Recording,
    whole: &'a Drive,
}

impl Known<'_> {
    /// What `written` bytes of the file system's a recording cost.
    fn cost(&self, summary: &Summary, written: u64) -> Cost {
        let waf = summary.waf_steady.or(summary.waf).unwrap_or(0.0);
        let told = &self.recording.told;
        let factor = written as f64 / (told.logical_bytes as f64).max(1.0);
        let parts = serde_json::to_value(&summary.waf_parts).unwrap_or_default();
        let waf_parts = (parts.as_object().into_iter().flatten())
            .filter_map(|(part, value)| Some((part.clone(), value.as_f64()?)))
            .collect();
        let flush = serde_json::to_value(&summary.host.flush.lat_ns).unwrap_or_default();
        let pick = |name: &str| flush.get(name).or_else(|| flush.get("percentile")?.get(name))?.as_f64();
        let fsync_lat_ns = [
            ("mean", "mean"),
            ("p50", "50.000000"),
            ("p99", "99.000000"),
            ("p99.9", "99.900000"),
            ("max", "max"),
        ]
        .into_iter()
        .filter(|_| summary.host.flush.requests > 0)
        .filter_map(|(ours, theirs)| Some((ours.to_owned(), pick(theirs)?)))
        .collect();
        let config = &self.whole.config;
        let endurance = f64::from(config.cell.endurance);
        let seconds = told.duration_ns as f64 / 1e9;
        let rate = written as f64 / seconds.max(1e-9) * waf;
        let lifetime_years = (endurance > 0.0 && rate > 0.0)
            .then(|| endurance * config.geometry.raw_bytes() as f64 / rate / YEAR);
        Cost {
            waf,
            waf_parts,
            flash_bytes_per_logical_byte: waf * factor,
            fsync_lat_ns,
            runs_per_hour: summary.host.write.bw_bytes / (written as f64).max(1.0) * 3600.0,
            lifetime_years,
            steady: summary.steady_state,
            drive_writes: summary.drive_writes,
        }
    }
}

/// WAF of each kind on a drive that keeps them apart.
fn by_kind(packed: &Packed<'_>, summary: &Summary) -> BTreeMap<String, f64> {
    let streams = serde_json::to_value(&summary.streams.per_stream).unwrap_or_default();
    let mut found = BTreeMap::new();
    for (&kind, &number) in packed.streams() {
        let waf = streams.get(usize::from(number)).and_then(|stream| stream.get("waf")?.as_f64());
        if let (Some(kind), Some(waf)) = (crate::kinds::Kind::ALL.get(usize::from(kind)), waf) {
            found.insert(kind.name().to_owned(), waf);
        }
    }
    found
}

fn kinds(recording: &Recording, apart: &BTreeMap<String, f64>) -> BTreeMap<String, OfKind> {
    let of = |(kind, &bytes): (&String, &Bytes)| {
        let factor = (bytes.logical_bytes > 0).then(|| bytes.block_bytes as f64 / bytes.logical_bytes as f64);
        (kind.clone(), OfKind { bytes, file_system_factor: factor, waf_apart: apart.get(kind).copied() })
    };
    recording.told.kinds.iter().map(of).collect()
}
