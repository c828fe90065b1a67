//! This project's Parquet: the columns of the csv, found by name.
use super::nandle::{COLUMNS, REQUIRED};
use crate::input::Input;
use crate::parse::show;
use crate::row::{Context, Row, Rows};
use crate::{Error, Op, Request};
use nandle_table::{Column, Reader, Table, Texts, Values};
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

/// Rows read at a time.
const BATCH: usize = 8192;
/// Rows of a group, which is packed as one.
const GROUP: usize = 1 << 18;
/// Parquet is read from its end: without a plain file, all of it must fit in memory.
const MAX_IN_MEMORY: u64 = 1 << 30;

pub(crate) struct Parquet {
    path: PathBuf,
    reader: Reader,
    batch: Vec<Row>,
    at: usize,
    row: u64,
    unknown: Vec<String>,
}

impl Parquet {
    pub fn open(input: Input) -> Result<Self, Error> {
        let path = input.path.clone();
        let io = |source| Error::Io { path: path.clone(), source };
        let in_place = input.again && !input.compressed;
        let mut in_memory = Vec::new();
        if !in_place {
            input.into_reader().take(MAX_IN_MEMORY + 1).read_to_end(&mut in_memory).map_err(io)?;
            if in_memory.len() as u64 > MAX_IN_MEMORY {
                return Err(Error::Input(format!(
                    "{}: Parquet that is compressed from outside or comes from a pipe is held in memory, at most \
                     1 GiB; decompress it into a file first",
                    path.display()
                )));
            }
        }
        let (reader, unknown) = guarded(&path, 0, || {
            let reader = if in_place {
                Reader::file(File::open(&path).map_err(io)?)
            } else {
                Reader::bytes(in_memory)
            };
            chosen(reader.map_err(|e| broken(&path, 0, &e.to_string()))?, &path)
        })?;
        Ok(Parquet { path, reader, batch: Vec::new(), at: 0, row: 0, unknown })
    }

    fn decode(&mut self, batch: &Table, ctx: &mut Context) -> Result<(), Error> {
        let numbers = |name: &str| -> Result<Option<Vec<u64>>, Error> {
            let Some(column) = batch.column(name) else { return Ok(None) };
            match integers(column) {
                Ok(numbers) => Ok(Some(numbers)),
                Err(what) => Err(broken(&self.path, self.row, &format!("column {name:?}: {what}"))),
            }
        };
        let need = |name: &str| Ok(numbers(name)?.unwrap_or_default());
        let (times, offsets, sizes): (Vec<_>, Vec<_>, Vec<_>) =
            (need("time_ns")?, need("offset")?, need("bytes")?);
        let (streams, objects, fuas) = (numbers("stream")?, numbers("object")?, numbers("fua")?);
        let ops = match batch.column("op") {
            Some(column) => operations(column).map_err(|what| broken(&self.path, self.row, &what))?,
            None => Vec::new(),
        };
        self.batch.clear();
        self.at = 0;
        for (i, op) in ops.into_iter().enumerate() {
            self.row += 1;
            ctx.rows += 1;
            let mut row = Row::new(times[i], op, offsets[i], sizes[i]);
            let at = |column: &Option<Vec<u64>>| column.as_ref().map_or(0, |c| c[i]);
            let narrow =
                |name: &str, n: u64| broken(&self.path, self.row, &format!("{name} is {n}: too large"));
            row.stream = at(&streams).try_into().map_err(|_| narrow("stream", at(&streams)))?;
            row.object = at(&objects).try_into().map_err(|_| narrow("object", at(&objects)))?;
            row.fua = at(&fuas) != 0;
            match row.check() {
                Ok(None) => self.batch.push(row),
                Ok(Some(why)) => ctx.skip(why),
                Err(what) => return Err(broken(&self.path, self.row, &what)),
            }
        }
        Ok(())
    }
}

/// A reader of the columns that are known, and the names of others.
fn chosen(mut reader: Reader, path: &Path) -> Result<(Reader, Vec<String>), Error> {
    let names = reader.names();
    if let Some(missing) = COLUMNS[..REQUIRED].iter().find(|c| !names.iter().any(|n| n == *c)) {
        let expected = COLUMNS.join(", ");
        return Err(broken(path, 0, &format!("no column {missing:?}; expected {expected}")));
    }
    let unknown = names.iter().filter(|n| !COLUMNS.contains(&n.as_str())).take(16);
    let unknown = unknown.map(|n| show(n.as_bytes())).collect();
    reader.keep(|name| COLUMNS.contains(&name)).map_err(|e| broken(path, 0, &e.to_string()))?;
    Ok((reader, unknown))
}

fn broken(path: &Path, row: u64, what: &str) -> Error {
    Error::Line { path: path.to_owned(), line: row, what: format!("Parquet: {what}") }
}

/// The decoder is not ours: should it panic on a damaged file, the user gets an error all the same.
fn guarded<T>(path: &Path, row: u64, f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    crate::quietly(f).unwrap_or_else(|| Err(broken(path, row, "the file is damaged")))
}

fn integers(column: &Column) -> Result<Vec<u64>, String> {
    if column.absent().is_some() {
        return Err("holds nulls, expected a number in every row".into());
    }
    match column.values() {
        Values::U64(rows) => Ok(rows.clone()),
        Values::U32(rows) => Ok(rows.iter().map(|&n| n.into()).collect()),
        Values::U16(rows) => Ok(rows.iter().map(|&n| n.into()).collect()),
        Values::Bool(rows) => Ok(rows.iter().map(|&n| n.into()).collect()),
        Values::I64(rows) => {
            rows.iter().map(|&n| u64::try_from(n).map_err(|_| format!("{n} is negative"))).collect()
        }
        Values::F64(_) | Values::Text(_) | Values::Lists(_) => Err("expected integers".into()),
    }
}

fn operations(column: &Column) -> Result<Vec<Op>, String> {
    if column.absent().is_some() {
        return Err("column \"op\" holds nulls".into());
    }
    let Values::Text(texts) = column.values() else {
        return Err("column \"op\": expected text".into());
    };
    let op = |text: &String| {
        Op::parse(text.as_bytes()).ok_or_else(|| {
            let found = show(text.as_bytes());
            format!("op is {found}, expected read, write, trim, flush, flashalloc or flashfree")
        })
    };
    let distinct: Vec<Op> = texts.distinct().iter().map(op).collect::<Result<_, _>>()?;
    Ok(texts.rows().iter().map(|&n| distinct[n as usize]).collect())
}

impl Rows for Parquet {
    fn read(&mut self, out: &mut Vec<Row>, max: usize, ctx: &mut Context) -> Result<bool, Error> {
        if let Some(unknown) = (!self.unknown.is_empty()).then(|| std::mem::take(&mut self.unknown)) {
            ctx.warnings.push(format!("columns not understood and left out: {}", unknown.join(", ")));
        }
        let full = out.len().saturating_add(max);
        while out.len() < full {
            if self.at == self.batch.len() {
                let (path, row) = (self.path.clone(), self.row);
                let next = guarded(&path, row, || match self.reader.next(BATCH) {
                    Ok(Some(batch)) => self.decode(&batch, ctx).map(|()| true),
                    Ok(None) => Ok(false),
                    Err(e) => Err(broken(&path, row, &e.to_string())),
                })?;
                if !next {
                    return Ok(false);
                }
                continue;
            }
            let n = (full - out.len()).min(self.batch.len() - self.at);
            out.extend_from_slice(&self.batch[self.at..self.at + n]);
            self.at += n;
        }
        Ok(true)
    }
}

/// Requests as a table: the columns of this project's Parquet.
#[must_use]
pub fn table(requests: &[Request]) -> Table {
    let columns = [
        Column::each(COLUMNS[0], requests, |r| r.time_ns),
        Column::new(COLUMNS[1], requests.iter().map(|r| r.op.name()).collect::<Texts>()),
        Column::each(COLUMNS[2], requests, |r| r.offset),
        Column::each(COLUMNS[3], requests, |r| r.bytes),
        Column::each(COLUMNS[4], requests, |r| r.stream),
        Column::each(COLUMNS[5], requests, |r| r.object),
        Column::each(COLUMNS[6], requests, |r| r.fua),
    ];
    Table::new(columns.into())
}

/// Writes requests as Parquet.
pub(crate) struct Writer {
    path: PathBuf,
    file: nandle_table::Writer,
    pending: Vec<Request>,
}

impl Writer {
    pub fn new(path: &Path, to: Box<dyn Write + Send>) -> Result<Self, Error> {
        let file = nandle_table::Writer::new(to, &table(&[])).map_err(|e| refused(path, e))?;
        Ok(Writer { path: path.to_owned(), file, pending: Vec::new() })
    }

    pub fn write(&mut self, requests: &[Request]) -> Result<(), Error> {
        self.pending.extend_from_slice(requests);
        if self.pending.len() >= GROUP { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        self.file.write(&table(&self.pending)).map_err(|e| refused(&self.path, e))?;
        self.pending.clear();
        Ok(())
    }

    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        self.file.finish().map_err(|e| refused(&self.path, e))
    }
}

fn refused(path: &Path, error: nandle_table::Error) -> Error {
    Error::Io { path: path.to_owned(), source: std::io::Error::other(error) }
}
