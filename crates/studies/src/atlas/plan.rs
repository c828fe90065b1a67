//! Which runs an atlas is made of.

use std::collections::HashMap;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use nandle_lab::Error;
use nandle_lab::batch::{self, Event, How, Job, Labels, State, id_of};
use nandle_lab::config::{self, Drive, SHORTHANDS, Wanted, policies};
use nandle_lab::measure::Until;
use nandle_lab::run::Run;
use nandle_lab::units::{bytes, count};
use nandle_lab::workload::{Asked, Mode, Traces};

use super::data::{Atlas, DriveKind, Row, Scheme, Size, TraceInfo, Wish};
use super::traces;

/// Most that a run writes, in sizes of its drive.
const DRIVE_WRITES: f64 = 6.0;
/// Most requests of a run, and most bytes that it writes: a trace that hardly writes, or has large gaps, goes round
/// no more often.
const REQUESTS: u64 = 500_000;
/// See [`REQUESTS`].
const WRITTEN: f64 = 6e9;
/// Most that WAF and mean latency may spread over the last three windows.
const BAND: f64 = 0.05;
/// Requests outstanding: the clocks of traces are of unlike quality, some have none.
const IODEPTH: u32 = 16;
/// The drives are parts of one that no trace here is too large for: blocks a plane, and parts.
const WHOLE: u32 = 2048;
const PARTS: u64 = 4096;
/// Fewest parts that leave a plane enough blocks.
const FEWEST: u64 = 44;
/// Channels, and chips on each: fewer for traces that touch little, so that they fill their drive.
const SHAPES: [(u32, u32); 4] = [(4, 2), (4, 1), (2, 1), (1, 1)];
/// The write buffer, as a part of the drive, and its bounds.
const BUFFER: (u64, u64, u64) = (128, 256 << 10, 4 << 20);
/// How often a plan that is carried out is saved.
const SAVED: Duration = Duration::from_secs(20);

struct Kind {
    name: &'static str,
    line: &'static str,
    device: &'static str,
    sets: &'static [&'static str],
}

/// The drives: the papers' kind and two of today's, all of one flash.
const KINDS: [Kind; 3] = [
    Kind {
        name: "page",
        line: "maps whole pages of 16 KiB and programs them in any order of their types, as the papers' drives do",
        device: "demo-page",
        sets: &["cell.program_order=relaxed"],
    },
    Kind {
        name: "4K",
        line: "units of 4 KiB in pages of 16 KiB, a link, a controller and superblocks, as most drives of today",
        device: "demo",
        sets: &[],
    },
    Kind {
        name: "64K",
        line: "the same with units of 64 KiB, as the largest QLC drives",
        device: "demo",
        sets: &["mapping.unit_bytes=65536"],
    },
];

impl Kind {
    /// So large that `touched` bytes fill it, full of live data, under `scheme`.
    fn drive(&self, touched: u64, scheme: &str, untimed: bool) -> Result<Drive, Error> {
        let whole = |(channels, chips): (u32, u32)| -> Result<(u64, Vec<String>), Error> {
            let mut sets: Vec<String> = self.sets.iter().map(|&set| set.to_owned()).collect();
            sets.extend([
                format!("geometry.channels={channels}"),
                format!("geometry.chips_per_channel={chips}"),
                format!("geometry.blocks_per_plane={WHOLE}"),
            ]);
            let drive = Wanted { device: self.device, scheme: None, sets: &sets }.load()?;
            Ok((drive.layout.logical_bytes, sets))
        };
        let mut shapes = SHAPES.into_iter().peekable();
        let (size, mut sets) = loop {
            let (size, sets) = whole(shapes.next().unwrap_or(SHAPES[0]))?;
            if touched >= size / PARTS * FEWEST || shapes.peek().is_none() {
                break (size, sets);
            }
        };
        let parts = (touched * PARTS).div_ceil(size).clamp(FEWEST, PARTS);
        let (part, least, most) = BUFFER;
        let buffer = (size / PARTS * parts / part).clamp(least, most) >> 16 << 16;
        sets.push(format!("buffer.bytes={buffer}"));
        let device = format!("{}@{parts}/{PARTS}", self.device);
        let mut config = Wanted { device: &device, scheme: Some(scheme), sets: &sets }.load()?.config;
        config.name = self.name.to_owned();
        // As many live pages as the host can address: the first write has something to supersede.
        let plain = config::check(config.clone())?;
        let live = plain.layout.logical_bytes as f64 / config.geometry.raw_bytes() as f64 - 1e-4;
        (config.precondition.used, config.precondition.valid) = (live, live);
        let drive = config::check(config)?;
        Ok(if untimed { drive.untimed() } else { drive })
    }
}

/// The baseline, each policy alone in its place, and the sums that have names.
fn schemes() -> Vec<Scheme> {
    let all = policies();
    let mut list = vec![scheme(SHORTHANDS[0].name, "sum", SHORTHANDS[0].line)];
    for (n, policy) in all.iter().enumerate() {
        let first_of_seam = !all[..n].iter().any(|p| p.seam == policy.seam);
        // The first of a question is the baseline's answer, unless it adds something to it.
        if first_of_seam && policy.seam != "scheme.compaction" {
            continue;
        }
        let again = all.iter().filter(|p| p.name == policy.name).count() > 1;
        let seam = policy.seam.rsplit('.').next().unwrap_or_default();
        let name = if again { format!("{seam}={}", policy.name) } else { policy.name.to_owned() };
        list.push(scheme(&name, seam, policy.line));
    }
    list.extend(SHORTHANDS[1..].iter().map(|s| scheme(s.name, "sum", s.line)));
    list
}

fn scheme(name: &str, seam: &str, line: &str) -> Scheme {
    Scheme { name: name.into(), seam: seam.into(), line: line.into() }
}

/// The runs of an atlas that are to be done, and the rows that are known.
#[derive(Debug)]
pub struct Plan {
    /// What is known: rows of runs that were done before, and refusals.
    pub atlas: Atlas,
    /// What is to do.
    pub jobs: Vec<Job>,
    /// The row of each job, without figures.
    rows: Vec<Row>,
}

impl Plan {
    /// What `wish` asks for; runs that `known` has are not done again.
    ///
    /// # Errors
    /// If there is no such directory or scheme.
    pub fn of(wish: &Wish, known: &Atlas) -> Result<Self, Error> {
        let mut list = schemes();
        for name in &wish.schemes {
            config::is_known(name)?;
            if !list.iter().any(|s| s.name == *name) {
                list.push(scheme(name, "sum", ""));
            }
        }
        let asked = |s: &Scheme| wish.schemes.is_empty() || wish.schemes.contains(&s.name);
        let list: Vec<Scheme> =
            list.into_iter().enumerate().filter(|(n, s)| *n == 0 || asked(s)).map(|(_, s)| s).collect();
        let smallest = KINDS[0].drive(0, "baseline", false)?;
        let files = traces::found(wish.traces.as_deref())?;
        let mut found: Vec<(String, TraceInfo)> =
            files.into_iter().map(|file| (file.clone(), traces::look(&file, &smallest))).collect();
        if wish.size == Size::Quick {
            found.retain(|(_, info)| info.refused.is_none());
            found.sort_by_key(|(_, info)| (info.write_bytes == 0, info.requests));
            found.truncate(2);
        }
        let before: HashMap<&str, &Row> = known.rows.iter().map(|row| (row.id.as_str(), row)).collect();
        let mut plan = Self { atlas: Atlas::default(), jobs: Vec::new(), rows: Vec::new() };
        let hashes = Traces::default();
        for kind in &KINDS {
            for (file, info) in found.iter().filter(|(_, info)| info.refused.is_none()) {
                for scheme in &list {
                    let row = Row {
                        drive: kind.name.into(),
                        trace: info.name.clone(),
                        scheme: scheme.name.clone(),
                        ..Row::default()
                    };
                    let drive = match kind.drive(info.touched, &scheme.name, wish.untimed) {
                        Ok(drive) => drive,
                        Err(error) => {
                            plan.atlas.rows.push(Row { refused: Some(plain(&error)), ..row });
                            continue;
                        }
                    };
                    let run = run(drive, file, info, wish.size);
                    let id = id_of(&run, &hashes)?;
                    if let Some(&row) = before.get(id.as_str()) {
                        plan.atlas.rows.push(row.clone());
                        continue;
                    }
                    let labels = Labels {
                        device: kind.name.into(),
                        scheme: scheme.name.clone(),
                        workload: info.name.clone(),
                        seed: 1,
                        overrides: Vec::new(),
                    };
                    plan.rows.push(Row { id: id.clone(), ..row });
                    plan.jobs.push(Job { id, labels, run });
                }
            }
        }
        plan.atlas.version = env!("CARGO_PKG_VERSION").into();
        plan.atlas.drives =
            KINDS.iter().map(|k| DriveKind { name: k.name.into(), line: k.line.into() }).collect();
        plan.atlas.schemes = list;
        plan.atlas.traces = found.into_iter().map(|(_, info)| info).collect();
        plan.atlas.notes = notes(wish);
        plan.atlas.missing = plan.jobs.len();
        Ok(plan)
    }

    /// Does what is to do; `save` is given the atlas from time to time, and at the end.
    ///
    /// # Errors
    /// Those of `save`.
    pub fn work(
        self,
        workers: usize,
        stop: &AtomicBool,
        watch: &(dyn Fn(&[Job], Event<'_>) + Sync),
        save: &(dyn Fn(&Atlas) -> Result<(), Error> + Sync),
    ) -> Result<Atlas, Error> {
        let Self { atlas, jobs, rows } = self;
        let shared = Mutex::new((atlas, Instant::now(), Ok(())));
        let note = |event: Event<'_>| {
            if let Event::Over(n, state) = event {
                let row = match state {
                    State::Done(summary) | State::Kept(summary) => rows[n].clone().measured(summary),
                    State::Failed(why) => Row { refused: Some(why.clone()), failed: true, ..rows[n].clone() },
                    State::Left => return,
                };
                let (atlas, last, saved) = &mut *shared.lock().unwrap_or_else(PoisonError::into_inner);
                atlas.rows.push(row);
                atlas.missing -= 1;
                if last.elapsed() > SAVED && saved.is_ok() {
                    *saved = save(atlas);
                    *last = Instant::now();
                }
            }
            watch(&jobs, event);
        };
        batch::work(&jobs, How { workers, retry: true }, stop, &note)?;
        let (mut atlas, _, saved) = shared.into_inner().unwrap_or_else(PoisonError::into_inner);
        saved?;
        atlas.sort();
        save(&atlas)?;
        Ok(atlas)
    }
}

impl Atlas {
    /// Rows in the order of drives, traces and schemes, however they came.
    fn sort(&mut self) {
        let place = |row: &Row| {
            (
                self.drives.iter().position(|d| d.name == row.drive),
                self.traces.iter().position(|t| t.name == row.trace),
                self.schemes.iter().position(|s| s.name == row.scheme),
            )
        };
        self.rows.sort_by_cached_key(place);
    }
}

/// One run: the trace over and over again, until the drive is steady or enough was written.
fn run(drive: Drive, file: &str, info: &TraceInfo, size: Size) -> Run {
    let written = (DRIVE_WRITES * drive.layout.logical_bytes as f64).min(WRITTEN);
    let wanted = size.share() * written / info.write_bytes.max(1) as f64;
    let passes = wanted.min(size.share() * REQUESTS as f64 / info.requests.max(1) as f64);
    let repeated = info.write_bytes > 0 && passes >= 1.0;
    // The limit counts in ranges that the workload writes.
    let at_most = (passes * info.write_bytes as f64 / info.written_range.max(1) as f64).max(1.0);
    let asked = Asked {
        workload: file.to_owned(),
        seed: 1,
        // Of a trace that writes enough in one pass, as much as is wanted.
        requests: (!repeated).then(|| (info.requests as f64 * passes.min(1.0)).ceil().max(1.0) as u64),
        mode: Some(Mode::Closed),
        iodepth: Some(IODEPTH),
        until: repeated.then_some(Until { band: BAND, at_most }),
        ..Asked::default()
    };
    Run { drive, asked, seed: 1, verify: true, power_cuts: None, output: None, io_log: false, explain: 0 }
}

/// A refusal without the name of the preset that stands behind a drive.
fn plain(error: &Error) -> String {
    let text = error.to_string();
    let rest = text.strip_prefix("preset ").and_then(|rest| rest.split_once(": "));
    rest.map_or(text.clone(), |(_, rest)| rest.to_owned())
}

fn notes(wish: &Wish) -> Vec<String> {
    let mut notes = vec![
        format!(
            "Each drive is as large as the pieces of 1 MiB that the trace touches, at least {}, and full of live data when the trace begins.",
            KINDS[0]
                .drive(0, "baseline", false)
                .map_or_else(|_| "-".into(), |d| bytes(d.layout.logical_bytes))
        ),
        format!(
            "A trace is repeated, {IODEPTH} requests outstanding whatever its clock says, until WAF and mean latency spread by no more than {:.0}% over three windows, or until {:.1} times the drive, {} or {} requests.",
            BAND * 100.0,
            DRIVE_WRITES * wish.size.share(),
            bytes((WRITTEN * wish.size.share()) as u64),
            count((REQUESTS as f64 * wish.size.share()) as u64),
        ),
        "Every completion is judged, and what was written is read back: a wrong sector would fail the run."
            .into(),
        "Sectors are of 4 KiB: smaller or unaligned requests are rounded outward.".into(),
    ];
    if wish.size == Size::Quick {
        notes.push(
            "Quick size: the two smallest traces, short runs; no figure here is one of a drive at rest."
                .into(),
        );
    }
    if wish.untimed {
        notes.push("Without clocks: no latencies, and steadiness is that of WAF alone.".into());
    }
    if wish.traces.is_none() {
        notes.push("Twins of published traces: generated from their statistics, not replayed.".into());
    }
    notes
}
