//! A trace being read: from the bytes of a file to requests in order.

use crate::input::Input;
use crate::options::{Format, Options, TimeUnit};
use crate::order::Order;
use crate::row::{Context, MAX_END_BYTES, Row, Rows};
use crate::{Error, Request, Source, detect, formats};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;
use std::path::{Path, PathBuf};

/// Volumes laid side by side start at multiples of this, so that alignment at any page size survives.
const VOLUME_ALIGN: u64 = 1 << 20;
/// Room for each volume where their extents cannot be known beforehand.
const BLIND_STRIDE: u64 = 1 << 40;
/// Rows taken from the beginning to judge the clock.
const SAMPLE: usize = 20_000;

/// What became of the rows of a trace so far.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Counts {
    /// Lines or records read.
    pub rows: u64,
    /// Requests handed out.
    pub requests: u64,
    /// Rows that became no request, by reason.
    pub skipped: BTreeMap<String, u64>,
    /// Rows whose time lay before that of the row before them; they were sorted into place.
    pub out_of_order: u64,
    /// Rows too late for the sort window, which got the time of their predecessor.
    pub clamped: u64,
}

impl fmt::Display for Counts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} rows, {} requests", self.rows, self.requests)?;
        for (why, n) in &self.skipped {
            write!(f, "; skipped {n}: {why}")?;
        }
        if self.out_of_order > 0 {
            write!(f, "; {} put in order", self.out_of_order)?;
        }
        if self.clamped > 0 {
            write!(f, "; {} too far out of order, moved to the time of their predecessor", self.clamped)?;
        }
        Ok(())
    }
}

/// One volume of a trace and where its addresses went.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Volume {
    /// Its name in the trace: a disk, LUN, ASU, device or file; `host,disk` for MSR.
    pub name: String,
    /// Bytes added to its offsets; none if it was not chosen.
    pub base: Option<u64>,
    /// Rows of it seen so far.
    pub requests: u64,
}

/// An open trace. Times count from its first request.
pub struct Trace {
    path: PathBuf,
    format: Format,
    unit: TimeUnit,
    options: Options,
    /// Can be read a second time.
    again: bool,
    rows: Box<dyn Rows>,
    ctx: Context,
    order: Order,
    /// Where each volume seen so far starts, none if not chosen.
    bases: Vec<Option<u64>>,
    /// Rows per volume.
    seen: Vec<u64>,
    /// Where each volume starts, once that had to be found out.
    layout: Option<Vec<u64>>,
    others: u64,
    /// End of the rows placed so far, in bytes.
    end: u64,
    start: Option<u64>,
    requests: u64,
    finished: bool,
    warnings: Vec<String>,
}

/// Opens a trace file, or standard input for `-`; compressed or not, in any known format.
///
/// Several volumes are laid side by side unless one is chosen: in order of first appearance, each rounded up to
/// 1 MiB, which takes a pass over the file the moment that a second volume appears. Standard input and pipes cannot
/// be read twice: there, every volume gets 1 TiB, and an address beyond is an error.
///
/// # Errors
/// When the file cannot be read, its format is unknown or ambiguous, or the options do not fit it.
pub fn open(path: &Path, options: &Options) -> Result<Trace, Error> {
    Trace::of(Input::open(path)?, options)
}

/// As [`open`], for bytes from anywhere; `name` stands for them in messages.
///
/// # Errors
/// As [`open`].
pub fn open_reader(
    name: &str,
    reader: Box<dyn std::io::Read + Send>,
    options: &Options,
) -> Result<Trace, Error> {
    let path = PathBuf::from(name);
    let input = Input::of(path.clone(), reader, false).map_err(|source| Error::Io { path, source })?;
    Trace::of(input, options)
}

impl Trace {
    fn of(input: Input, options: &Options) -> Result<Self, Error> {
        let mut warnings = Vec::new();
        let format = match options.format {
            Some(Format::Nandle) if input.head.starts_with(b"PAR1") => Format::NandleParquet,
            Some(format) => format,
            None if options.regex.is_some() => Format::Regex,
            None => {
                let (format, remark) = detect::format(&input)?;
                warnings.extend(remark);
                format
            }
        };
        options.check(format)?;
        let unit = match options.time_unit {
            Some(unit) => unit,
            None if matches!(format, Format::Ssdsim | Format::Mqsim) => {
                let (unit, remark) = detect::integer_unit(&sample(&input, format, TimeUnit::Ns, options));
                warnings.extend(remark);
                unit
            }
            None => formats::time_unit(format),
        };
        if !matches!(format, Format::Tencent | Format::NandleParquet) {
            let rate = detect::rate(&sample(&input, format, unit, options));
            warnings.extend(rate.and_then(detect::absurd));
        }
        let (path, again) = (input.path.clone(), input.again);
        Ok(Trace {
            rows: formats::rows(input, format, unit, options)?,
            order: Order::new(options.sort_window, format == Format::Tencent && unit == TimeUnit::S),
            path,
            format,
            unit,
            options: options.clone(),
            again,
            ctx: Context::default(),
            bases: Vec::new(),
            seen: Vec::new(),
            layout: None,
            others: 0,
            end: 0,
            // Our own format counts from the first request already, or from where its writer said.
            start: matches!(format, Format::Nandle | Format::NandleParquet).then_some(0),
            requests: 0,
            finished: false,
            warnings,
        })
    }

    /// The format in which it is read.
    #[must_use]
    pub fn format(&self) -> Format {
        self.format
    }

    /// The unit of its clock.
    #[must_use]
    pub fn time_unit(&self) -> TimeUnit {
        self.unit
    }

    /// What became of the rows so far; complete once the source is exhausted.
    #[must_use]
    pub fn counts(&self) -> Counts {
        let mut skipped: BTreeMap<String, u64> =
            self.ctx.skipped.iter().map(|(&why, &n)| (why.to_owned(), n)).collect();
        if self.others > 0 {
            skipped.insert("another volume".into(), self.others);
        }
        Counts {
            rows: self.ctx.rows,
            requests: self.requests,
            skipped,
            out_of_order: self.order.out_of_order,
            clamped: self.order.clamped,
        }
    }

    /// What the user should know: an inferred unit, an absurd rate, columns left out. More may come while reading.
    #[must_use]
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.iter().chain(&self.ctx.warnings).cloned().collect()
    }

    /// The volumes seen so far, in order of appearance.
    #[must_use]
    pub fn volumes(&self) -> Vec<Volume> {
        (0..self.bases.len())
            .map(|id| Volume {
                name: self.ctx.volumes.name(id as u32).to_owned(),
                base: self.bases[id],
                requests: self.seen[id],
            })
            .collect()
    }

    /// Reads one window of rows and puts them in order.
    fn advance(&mut self) -> Result<(), Error> {
        let (rows, goal) = self.order.refill();
        let from = rows.len();
        let more = self.rows.read(rows, goal.saturating_sub(from).max(1), &mut self.ctx)?;
        self.place(from)?;
        self.order.appended(from);
        self.order.settle(!more);
        if !more {
            self.finish()?;
        }
        Ok(())
    }

    /// Moves the rows appended from `from` on to where their volumes lie, and drops those not chosen.
    fn place(&mut self, from: usize) -> Result<(), Error> {
        // Taken out and put back, as finding the layout needs the trace itself.
        let mut rows = std::mem::take(self.order.rows());
        let mut kept = from;
        for at in from..rows.len() {
            let volume = rows[at].volume as usize;
            while self.bases.len() <= volume {
                let base = self.base_of(self.bases.len() as u32)?;
                self.bases.push(base);
                self.seen.push(0);
            }
            self.seen[volume] += 1;
            let Some(base) = self.bases[volume] else {
                self.others += 1;
                continue;
            };
            let row = &mut rows[at];
            if self.layout.is_none() && self.bases.len() > 1 && self.options.volume.is_none() {
                self.check_stride(row)?;
            }
            row.offset += base;
            self.end = self.end.max(row.offset + row.bytes);
            if kept < at {
                rows[kept] = rows[at];
            }
            kept += 1;
        }
        rows.truncate(kept);
        *self.order.rows() = rows;
        Ok(())
    }

    fn base_of(&mut self, volume: u32) -> Result<Option<u64>, Error> {
        if let Some(wanted) = &self.options.volume {
            return Ok((self.ctx.volumes.name(volume) == wanted).then_some(0));
        }
        // The first volume starts at 0 in any case: a trace with only one needs no second pass.
        if volume == 0 {
            return Ok(Some(0));
        }
        if !self.again {
            if volume == 1 {
                if self.end > BLIND_STRIDE {
                    return Err(self.beyond_stride(0));
                }
                self.warnings.push(
                    "several volumes from a pipe: each gets 1 TiB of addresses, as their extents are not known \
                     beforehand"
                        .into(),
                );
            }
            return match u64::from(volume).checked_mul(BLIND_STRIDE) {
                Some(base) if base < MAX_END_BYTES => Ok(Some(base)),
                _ => Err(Error::Input(format!(
                    "{}: too many volumes for a pipe; read it from a file or choose a volume",
                    self.path.display()
                ))),
            };
        }
        if self.layout.is_none() {
            self.layout = Some(self.find_layout()?);
        }
        match self.layout.as_ref().and_then(|l| l.get(volume as usize)) {
            Some(&base) => Ok(Some(base)),
            None => Err(Error::Input(format!("{}: changed while it was read", self.path.display()))),
        }
    }

    fn check_stride(&self, row: &Row) -> Result<(), Error> {
        if row.offset + row.bytes <= BLIND_STRIDE {
            return Ok(());
        }
        Err(self.beyond_stride(row.volume))
    }

    fn beyond_stride(&self, volume: u32) -> Error {
        Error::Input(format!(
            "{}: volume {:?} reaches beyond 1 TiB; with several volumes, read from a file or choose a volume",
            self.path.display(),
            self.ctx.volumes.name(volume)
        ))
    }

    /// The extents of all volumes, added up.
    fn find_layout(&self) -> Result<Vec<u64>, Error> {
        let mut rows = formats::rows(Input::open(&self.path)?, self.format, self.unit, &self.options)?;
        let mut ctx = Context::default();
        let mut ends: Vec<u64> = Vec::new();
        let mut some = Vec::new();
        loop {
            let more = rows.read(&mut some, 1 << 14, &mut ctx)?;
            for row in some.drain(..) {
                let volume = row.volume as usize;
                if ends.len() <= volume {
                    ends.resize(volume + 1, 0);
                }
                ends[volume] = ends[volume].max(row.offset + row.bytes);
            }
            if !more {
                break;
            }
        }
        let mut base = 0u64;
        let mut bases = Vec::with_capacity(ends.len());
        for end in ends {
            bases.push(base);
            base = base.saturating_add(end.next_multiple_of(VOLUME_ALIGN));
            if base > MAX_END_BYTES {
                return Err(Error::Input(format!(
                    "{}: side by side, its volumes take more than 2^62 bytes; choose one",
                    self.path.display()
                )));
            }
        }
        Ok(bases)
    }

    fn finish(&mut self) -> Result<(), Error> {
        self.finished = true;
        if let Some(wanted) = self.options.volume.as_ref().filter(|_| !self.bases.iter().any(Option::is_some))
        {
            let names: Vec<&str> =
                (0..self.ctx.volumes.len().min(20)).map(|v| self.ctx.volumes.name(v as u32)).collect();
            return Err(Error::Input(format!(
                "{}: no volume {wanted:?}; it has {}{}",
                self.path.display(),
                if names.is_empty() { "none".into() } else { names.join("  ") },
                if self.ctx.volumes.len() > names.len() { " ..." } else { "" }
            )));
        }
        Ok(())
    }
}

/// Rows of the beginning, as far as they make sense.
fn sample(input: &Input, format: Format, unit: TimeUnit, options: &Options) -> Vec<Row> {
    let mut rows = Vec::new();
    let head = std::io::Cursor::new(input.head_lines().to_vec());
    let head = Input::of(input.path.clone(), Box::new(head), false).ok();
    if let Some(mut reader) = head.and_then(|head| formats::rows(head, format, unit, options).ok()) {
        // Whatever is wrong with a line will be said when it is read in earnest.
        let _ = reader.read(&mut rows, SAMPLE, &mut Context::default());
    }
    rows
}

impl Source for Trace {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let full = out.len().saturating_add(max);
        while out.len() < full {
            let rows = self.order.take(full - out.len());
            if rows.is_empty() {
                if self.finished {
                    break;
                }
                // After an error there is nothing sensible to go on with.
                self.advance().inspect_err(|_| self.finished = true)?;
                continue;
            }
            let start = *self.start.get_or_insert(rows[0].time);
            self.requests += rows.len() as u64;
            out.extend(rows.iter().map(|row| Request {
                time_ns: row.time.saturating_sub(start),
                offset: row.offset,
                bytes: row.bytes,
                object: row.object,
                stream: row.stream,
                op: row.op,
                fua: row.fua,
            }));
        }
        Ok(())
    }
}
