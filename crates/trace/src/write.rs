//! Requests written as a trace.

use crate::beside::Beside;
use crate::formats::nandle::COLUMNS;
use crate::formats::parquet;
use crate::options::Format;
use crate::{Error, Op, Request, Source};
use serde::Serialize;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// The formats that can be written.
pub const WRITABLE: [Format; 7] = [
    Format::Nandle,
    Format::NandleParquet,
    Format::Disksim,
    Format::Mqsim,
    Format::Ssdsim,
    Format::Msr,
    Format::FioIolog,
];

const SECTOR: u64 = 512;
/// The file time at which written MSR traces begin.
const MSR_START: u64 = 128_166_372_000_000_000;
/// The file that written fio logs speak of.
const FIO_FILE: &str = "nandle";

/// What was written, and what the format could not say.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Written {
    /// Requests written.
    pub requests: u64,
    /// Requests left out, by reason.
    pub left_out: BTreeMap<String, u64>,
    /// Times cut to the format's clock: 100 ns for MSR, 1 us for fio.
    pub cut_times: u64,
    /// Requests whose stream, object or FUA bit the format cannot hold.
    pub cut_attributes: u64,
}

/// Where bytes go, compressed or not.
enum Sink {
    Plain(BufWriter<Box<dyn Write + Send>>),
    Gz(Box<flate2::write::GzEncoder<BufWriter<Box<dyn Write + Send>>>>),
    Zst(zstd::stream::write::Encoder<'static, BufWriter<Box<dyn Write + Send>>>),
    Xz(Box<liblzma::write::XzEncoder<BufWriter<Box<dyn Write + Send>>>>),
}

impl Sink {
    fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Sink::Plain(w) => w.write_all(bytes),
            Sink::Gz(w) => w.write_all(bytes),
            Sink::Zst(w) => w.write_all(bytes),
            Sink::Xz(w) => w.write_all(bytes),
        }
    }

    fn finish(self) -> io::Result<()> {
        match self {
            Sink::Plain(mut w) => w.flush(),
            Sink::Gz(w) => w.finish()?.flush(),
            Sink::Zst(w) => w.finish()?.flush(),
            Sink::Xz(w) => w.finish()?.flush(),
        }
    }
}

enum Output {
    Text { sink: Sink, text: Vec<u8> },
    Parquet(Box<parquet::Writer>),
}

/// Writes requests in a trace format; [`finish`](Self::finish) it, or the end is missing.
pub struct Writer {
    path: PathBuf,
    format: Format,
    output: Output,
    beside: Option<Beside>,
    written: Written,
    last_us: u64,
}

/// A writer to a file, compressed if its name ends in .gz, .zst or .xz, or to standard output for `-`. What is in the
/// file is gone at once, and what is written is there soon after.
///
/// # Errors
/// When the file cannot be created or the format cannot be written.
pub fn create(path: &Path, format: Format) -> Result<Writer, Error> {
    check(format)?;
    if path.as_os_str() == "-" {
        return create_in("<stdout>", Box::new(io::stdout()), format);
    }
    let file = File::create(path).map_err(|source| Error::Io { path: path.to_owned(), source })?;
    create_at(path, file, format)
}

/// As [`create`], but a file that is there stays as it is until the writer is finished, and for good if it never is.
///
/// # Errors
/// As [`create`].
pub fn replace(path: &Path, format: Format) -> Result<Writer, Error> {
    check(format)?;
    if path.as_os_str() == "-" {
        return create(path, format);
    }
    match Beside::of(path).map_err(|source| Error::Io { path: path.to_owned(), source })? {
        Some((file, beside)) => Ok(Writer { beside: Some(beside), ..create_at(path, file, format)? }),
        None => create(path, format),
    }
}

fn create_at(path: &Path, file: File, format: Format) -> Result<Writer, Error> {
    let io = |source| Error::Io { path: path.to_owned(), source };
    let file: Box<dyn Write + Send> = Box::new(file);
    if format == Format::NandleParquet {
        let output = Output::Parquet(Box::new(parquet::Writer::new(path, file)?));
        return Writer::new(path.to_owned(), format, output);
    }
    let file = BufWriter::with_capacity(1 << 16, file);
    let sink = match path.extension().and_then(|e| e.to_str()) {
        Some("gz") => Sink::Gz(Box::new(flate2::write::GzEncoder::new(file, flate2::Compression::default()))),
        Some("zst") => Sink::Zst(zstd::stream::write::Encoder::new(file, 3).map_err(io)?),
        Some("xz") => Sink::Xz(Box::new(liblzma::write::XzEncoder::new(file, 6))),
        _ => Sink::Plain(file),
    };
    Writer::new(path.to_owned(), format, Output::Text { sink, text: Vec::new() })
}

/// As [`create`], to anything; `name` stands for it in messages.
///
/// # Errors
/// When the format cannot be written, or its header cannot.
pub fn create_in(name: &str, to: Box<dyn Write + Send>, format: Format) -> Result<Writer, Error> {
    check(format)?;
    let path = PathBuf::from(name);
    let output = if format == Format::NandleParquet {
        Output::Parquet(Box::new(parquet::Writer::new(&path, to)?))
    } else {
        Output::Text { sink: Sink::Plain(BufWriter::with_capacity(1 << 16, to)), text: Vec::new() }
    };
    Writer::new(path, format, output)
}

fn check(format: Format) -> Result<(), Error> {
    if WRITABLE.contains(&format) {
        return Ok(());
    }
    let names = WRITABLE.map(Format::name).join(", ");
    Err(Error::Input(format!("format {format} can be read but not written; choose one of {names}")))
}

/// Writes all of `source` and finishes.
///
/// # Errors
/// Those of the source and of the writer.
pub fn convert(source: &mut dyn Source, mut writer: Writer) -> Result<Written, Error> {
    let mut requests = Vec::with_capacity(4096);
    loop {
        requests.clear();
        source.fill(&mut requests, 4096)?;
        if requests.is_empty() {
            return writer.finish();
        }
        writer.write(&requests)?;
    }
}

impl Writer {
    fn new(path: PathBuf, format: Format, output: Output) -> Result<Self, Error> {
        let mut writer =
            Writer { path, format, output, beside: None, written: Written::default(), last_us: 0 };
        let header = match format {
            Format::Nandle => COLUMNS.join(",") + "\n",
            Format::FioIolog => format!("fio version 3 iolog\n0 {FIO_FILE} add\n0 {FIO_FILE} open\n"),
            _ => String::new(),
        };
        writer.put(header.as_bytes())?;
        Ok(writer)
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), Error> {
        match &mut self.output {
            Output::Text { sink, .. } => {
                sink.write_all(bytes).map_err(|source| Error::Io { path: self.path.clone(), source })
            }
            Output::Parquet(_) => Ok(()),
        }
    }

    /// The file that lies where it does not belong until the writer is finished; whoever ends without that removes it.
    #[must_use]
    pub fn unfinished(&self) -> Option<&Path> {
        self.beside.as_ref().map(Beside::name)
    }

    /// Appends requests. Those that the format cannot express are left out and counted.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    pub fn write(&mut self, requests: &[Request]) -> Result<(), Error> {
        let text = match &mut self.output {
            Output::Parquet(table) => {
                self.written.requests += requests.len() as u64;
                return table.write(requests);
            }
            Output::Text { text, .. } => std::mem::take(text),
        };
        let text = self.lines(requests, text);
        let result = self.put(&text);
        if let Output::Text { text: buffer, .. } = &mut self.output {
            *buffer = text;
            buffer.clear();
        }
        result
    }

    fn lines(&mut self, requests: &[Request], mut text: Vec<u8>) -> Vec<u8> {
        for r in requests {
            if let Some(why) = inexpressible(self.format, r) {
                *self.written.left_out.entry(why).or_default() += 1;
                continue;
            }
            self.written.requests += 1;
            if self.format != Format::Nandle {
                self.written.cut_attributes += u64::from(r.fua || r.stream != 0 || r.object != 0);
            }
            // A Vec takes all bytes: these writes cannot fail.
            let _ = match self.format {
                Format::Nandle => writeln!(
                    text,
                    "{},{},{},{},{},{},{}",
                    r.time_ns,
                    r.op.name(),
                    r.offset,
                    r.bytes,
                    r.stream,
                    r.object,
                    u8::from(r.fua)
                ),
                Format::Msr => {
                    self.written.cut_times += u64::from(r.time_ns % 100 != 0);
                    let op = if r.op == Op::Read { "Read" } else { "Write" };
                    let time = MSR_START + r.time_ns / 100;
                    writeln!(text, "{time},nandle,0,{op},{},{},0", r.offset, r.bytes)
                }
                Format::FioIolog => {
                    self.written.cut_times += u64::from(r.time_ns % 1000 != 0);
                    let us = r.time_ns / 1000;
                    self.last_us = self.last_us.max(us);
                    let (op, offset, bytes) = match r.op {
                        Op::Read => ("read", r.offset, r.bytes),
                        Op::Write => ("write", r.offset, r.bytes),
                        Op::Trim => ("trim", r.offset, r.bytes),
                        _ => ("sync", 0, 0),
                    };
                    writeln!(text, "{us} {FIO_FILE} {op} {offset} {bytes}")
                }
                format => {
                    let (lba, sectors, read) =
                        (r.offset / SECTOR, r.bytes / SECTOR, u8::from(r.op == Op::Read));
                    if format == Format::Disksim {
                        let (ms, rest) = (r.time_ns / 1_000_000, r.time_ns % 1_000_000);
                        writeln!(text, "{ms}.{rest:06} 0 {lba} {sectors} {read}")
                    } else {
                        writeln!(text, "{} 0 {lba} {sectors} {read}", r.time_ns)
                    }
                }
            };
        }
        text
    }

    /// Writes what is left and says what became of the requests.
    ///
    /// # Errors
    /// When the bytes cannot be written.
    pub fn finish(mut self) -> Result<Written, Error> {
        if self.format == Format::FioIolog {
            let end = format!("{} {FIO_FILE} close\n", self.last_us);
            self.put(end.as_bytes())?;
        }
        match self.output {
            Output::Text { sink, .. } => {
                sink.finish().map_err(|source| Error::Io { path: self.path.clone(), source })?;
            }
            Output::Parquet(table) => table.finish()?,
        }
        if let Some(beside) = self.beside {
            beside.take_place().map_err(|source| Error::Io { path: self.path, source })?;
        }
        Ok(self.written)
    }
}

/// Why a format cannot hold a request.
fn inexpressible(format: Format, r: &Request) -> Option<String> {
    let ops: &[Op] = match format {
        Format::Nandle | Format::NandleParquet => return None,
        Format::FioIolog => &[Op::Read, Op::Write, Op::Trim, Op::Flush],
        _ => &[Op::Read, Op::Write],
    };
    if !ops.contains(&r.op) {
        return Some(format!("{format} has no {}", r.op.name()));
    }
    let sectors = matches!(format, Format::Disksim | Format::Mqsim | Format::Ssdsim);
    (sectors && !(r.offset.is_multiple_of(SECTOR) && r.bytes.is_multiple_of(SECTOR)))
        .then(|| format!("{format} counts whole sectors of 512 bytes"))
}
