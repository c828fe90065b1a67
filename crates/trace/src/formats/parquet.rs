//! This project's Parquet: the columns of the csv, found by name.
use super::nandle::{COLUMNS, REQUIRED};
use crate::input::Input;
use crate::parse::show;
use crate::row::{Context, Row, Rows};
use crate::{Error, Op, Request};
use arrow_array::cast::AsArray;
use arrow_array::types::{
    Int8Type, Int16Type, Int32Type, Int64Type, UInt8Type, UInt16Type, UInt32Type, UInt64Type,
};
use arrow_array::{
    Array, ArrayRef, BooleanArray, RecordBatch, StringArray, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use bytes::Bytes;
use parquet::arrow::arrow_reader::{ParquetRecordBatchReader, ParquetRecordBatchReaderBuilder};
use parquet::arrow::{ArrowWriter, ProjectionMask};
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;
use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const BATCH: usize = 8192;
/// Parquet is read from its end: without a plain file, all of it must fit in memory.
const MAX_IN_MEMORY: u64 = 1 << 30;

pub(crate) struct Parquet {
    path: PathBuf,
    reader: ParquetRecordBatchReader,
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
        let in_memory = if in_place {
            Bytes::new()
        } else {
            let mut bytes = Vec::new();
            input.into_reader().take(MAX_IN_MEMORY + 1).read_to_end(&mut bytes).map_err(io)?;
            if bytes.len() as u64 > MAX_IN_MEMORY {
                return Err(Error::Input(format!(
                    "{}: Parquet that is compressed from outside or comes from a pipe is held in memory, at most \
                     1 GiB; decompress it into a file first",
                    path.display()
                )));
            }
            bytes.into()
        };
        let (reader, unknown) = guarded(&path, 0, || {
            let bad = |e: parquet::errors::ParquetError| broken(&path, 0, &e.to_string());
            if in_place {
                let file = File::open(&path).map_err(io)?;
                build(ParquetRecordBatchReaderBuilder::try_new(file).map_err(bad)?, &path)
            } else {
                build(ParquetRecordBatchReaderBuilder::try_new(in_memory).map_err(bad)?, &path)
            }
        })?;
        Ok(Parquet { path, reader, batch: Vec::new(), at: 0, row: 0, unknown })
    }

    fn decode(&mut self, batch: &RecordBatch, ctx: &mut Context) -> Result<(), Error> {
        let numbers = |name: &str| -> Result<Option<Vec<u64>>, Error> {
            let Some(array) = batch.column_by_name(name) else { return Ok(None) };
            match integers(array) {
                Ok(numbers) => Ok(Some(numbers)),
                Err(what) => Err(broken(&self.path, self.row, &format!("column {name:?}: {what}"))),
            }
        };
        let need = |name: &str| Ok(numbers(name)?.unwrap_or_default());
        let (times, offsets, sizes): (Vec<_>, Vec<_>, Vec<_>) =
            (need("time_ns")?, need("offset")?, need("bytes")?);
        let (streams, objects, fuas) = (numbers("stream")?, numbers("object")?, numbers("fua")?);
        let ops = match batch.column_by_name("op") {
            Some(array) => operations(array).map_err(|what| broken(&self.path, self.row, &what))?,
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

fn build<T: parquet::file::reader::ChunkReader + 'static>(
    builder: ParquetRecordBatchReaderBuilder<T>,
    path: &Path,
) -> Result<(ParquetRecordBatchReader, Vec<String>), Error> {
    let names: Vec<String> = builder.schema().fields().iter().map(|f| f.name().clone()).collect();
    if let Some(missing) = COLUMNS[..REQUIRED].iter().find(|c| !names.iter().any(|n| n == *c)) {
        let expected = COLUMNS.join(", ");
        return Err(broken(path, 0, &format!("no column {missing:?}; expected {expected}")));
    }
    let unknown =
        names.iter().filter(|n| !COLUMNS.contains(&n.as_str())).take(16).map(|n| show(n.as_bytes()));
    let unknown = unknown.collect();
    let roots = names.iter().enumerate().filter(|(_, n)| COLUMNS.contains(&n.as_str())).map(|(i, _)| i);
    let mask = ProjectionMask::roots(builder.parquet_schema(), roots);
    let reader = builder.with_projection(mask).with_batch_size(BATCH).build();
    Ok((reader.map_err(|e| broken(path, 0, &e.to_string()))?, unknown))
}

fn broken(path: &Path, row: u64, what: &str) -> Error {
    Error::Line { path: path.to_owned(), line: row, what: format!("Parquet: {what}") }
}

/// The decoder is not ours: should it panic on a damaged file, the user gets an error all the same.
fn guarded<T>(path: &Path, row: u64, f: impl FnOnce() -> Result<T, Error>) -> Result<T, Error> {
    crate::quietly(f).unwrap_or_else(|| Err(broken(path, row, "the file is damaged")))
}

fn integers(array: &ArrayRef) -> Result<Vec<u64>, String> {
    if array.null_count() > 0 {
        return Err("holds nulls, expected a number in every row".into());
    }
    macro_rules! signed {
        ($t:ty) => {
            array
                .as_primitive::<$t>()
                .values()
                .iter()
                .map(|&n| u64::try_from(n).map_err(|_| format!("{n} is negative")))
                .collect()
        };
    }
    macro_rules! unsigned {
        ($t:ty) => {
            Ok(array.as_primitive::<$t>().values().iter().map(|&n| u64::from(n)).collect())
        };
    }
    match array.data_type() {
        DataType::UInt64 => unsigned!(UInt64Type),
        DataType::UInt32 => unsigned!(UInt32Type),
        DataType::UInt16 => unsigned!(UInt16Type),
        DataType::UInt8 => unsigned!(UInt8Type),
        DataType::Int64 => signed!(Int64Type),
        DataType::Int32 => signed!(Int32Type),
        DataType::Int16 => signed!(Int16Type),
        DataType::Int8 => signed!(Int8Type),
        DataType::Boolean => {
            let array = array.as_boolean();
            Ok((0..array.len()).map(|i| u64::from(array.value(i))).collect())
        }
        other => Err(format!("is {other}, expected integers")),
    }
}

fn operations(array: &ArrayRef) -> Result<Vec<Op>, String> {
    if array.null_count() > 0 {
        return Err("column \"op\" holds nulls".into());
    }
    let op = |text: &str| {
        Op::parse(text.as_bytes()).ok_or_else(|| {
            let found = show(text.as_bytes());
            format!("op is {found}, expected read, write, trim, flush, flashalloc or flashfree")
        })
    };
    match array.data_type() {
        DataType::Utf8 => array.as_string::<i32>().iter().map(|t| op(t.unwrap_or(""))).collect(),
        DataType::LargeUtf8 => array.as_string::<i64>().iter().map(|t| op(t.unwrap_or(""))).collect(),
        DataType::Utf8View => array.as_string_view().iter().map(|t| op(t.unwrap_or(""))).collect(),
        DataType::Dictionary(..) => {
            // pandas and polars write categories so; the few distinct values are looked up one by one.
            let dictionary = array.as_any_dictionary();
            let Some(texts) = dictionary.values().as_any().downcast_ref::<StringArray>() else {
                return Err(format!("column \"op\" is {}, expected text", array.data_type()));
            };
            dictionary.normalized_keys().into_iter().map(|k| op(texts.value(k))).collect()
        }
        other => Err(format!("column \"op\" is {other}, expected text")),
    }
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
                let next = guarded(&path, row, || match self.reader.next() {
                    Some(Ok(batch)) => self.decode(&batch, ctx).map(|()| true),
                    Some(Err(e)) => Err(broken(&path, row, &e.to_string())),
                    None => Ok(false),
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

/// The columns of requests as an Arrow table: those of this project's Parquet.
#[must_use]
pub fn schema() -> Arc<Schema> {
    let types = [
        DataType::UInt64,
        DataType::Utf8,
        DataType::UInt64,
        DataType::UInt64,
        DataType::UInt16,
        DataType::UInt32,
        DataType::Boolean,
    ];
    let fields: Vec<Field> = COLUMNS.iter().zip(types).map(|(&c, t)| Field::new(c, t, false)).collect();
    Arc::new(Schema::new(fields))
}

/// Requests as an Arrow table with the columns of [`schema`].
///
/// # Errors
/// If `schema` is another one.
pub fn batch(schema: &Arc<Schema>, all: &[Request]) -> Result<RecordBatch, ArrowError> {
    let columns: Vec<ArrayRef> = vec![
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|r| r.time_ns))),
        Arc::new(StringArray::from_iter_values(all.iter().map(|r| r.op.name()))),
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|r| r.offset))),
        Arc::new(UInt64Array::from_iter_values(all.iter().map(|r| r.bytes))),
        Arc::new(UInt16Array::from_iter_values(all.iter().map(|r| r.stream))),
        Arc::new(UInt32Array::from_iter_values(all.iter().map(|r| r.object))),
        Arc::new(all.iter().map(|r| Some(r.fua)).collect::<BooleanArray>()),
    ];
    RecordBatch::try_new(Arc::clone(schema), columns)
}

/// Writes requests as Parquet.
pub(crate) struct Table {
    path: PathBuf,
    schema: Arc<Schema>,
    writer: ArrowWriter<Box<dyn Write + Send>>,
    pending: Vec<Request>,
}

impl Table {
    pub fn new(path: &Path, to: Box<dyn Write + Send>) -> Result<Self, Error> {
        let schema = schema();
        let properties =
            WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build();
        let writer =
            ArrowWriter::try_new(to, schema.clone(), Some(properties)).map_err(|e| refused(path, e))?;
        Ok(Table { path: path.to_owned(), schema, writer, pending: Vec::new() })
    }

    pub fn write(&mut self, requests: &[Request]) -> Result<(), Error> {
        self.pending.extend_from_slice(requests);
        if self.pending.len() >= BATCH { self.flush() } else { Ok(()) }
    }

    fn flush(&mut self) -> Result<(), Error> {
        let all = std::mem::take(&mut self.pending);
        let batch = batch(&self.schema, &all).map_err(|e| refused(&self.path, e.into()))?;
        self.writer.write(&batch).map_err(|e| refused(&self.path, e))
    }

    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        self.writer.close().map(|_| ()).map_err(|e| refused(&self.path, e))
    }
}

fn refused(path: &Path, error: parquet::errors::ParquetError) -> Error {
    Error::Io { path: path.to_owned(), source: std::io::Error::other(error) }
}
