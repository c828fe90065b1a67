//! `io.parquet`: every request with its times.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, RecordBatch, StringArray, UInt16Array, UInt64Array};
use arrow_schema::{DataType, Field, Schema};
use nandle_ssd::Op;
use parquet::arrow::ArrowWriter;
use parquet::basic::{Compression, ZstdLevel};
use parquet::file::properties::WriterProperties;

use crate::Error;

const BATCH: usize = 1 << 16;

/// One request of the log.
#[derive(Clone, Copy, Debug)]
pub struct Io {
    /// Phase of the workload.
    pub phase: u16,
    /// What was asked for.
    pub op: Op,
    /// First byte on the device.
    pub offset: u64,
    /// Bytes on the device.
    pub bytes: u64,
    /// Host stream.
    pub stream: u16,
    /// When the host issued it, in nanoseconds.
    pub arrival_ns: u64,
    /// When the device took it.
    pub submitted_ns: u64,
    /// When it completed.
    pub completed_ns: u64,
    /// Whether the device did what was asked.
    pub ok: bool,
}

/// Writes the log.
#[derive(Debug)]
pub struct IoLog {
    path: PathBuf,
    writer: ArrowWriter<File>,
    rows: Vec<Io>,
}

/// The compression of every Parquet file written here.
pub(crate) fn properties() -> WriterProperties {
    WriterProperties::builder().set_compression(Compression::ZSTD(ZstdLevel::default())).build()
}

fn schema() -> Arc<Schema> {
    let field = |name: &str, kind| Field::new(name, kind, false);
    Arc::new(Schema::new(vec![
        field("phase", DataType::UInt16),
        field("op", DataType::Utf8),
        field("offset", DataType::UInt64),
        field("bytes", DataType::UInt64),
        field("stream", DataType::UInt16),
        field("arrival_ns", DataType::UInt64),
        field("submitted_ns", DataType::UInt64),
        field("completed_ns", DataType::UInt64),
        field("ok", DataType::Boolean),
    ]))
}

impl IoLog {
    /// Begins a log in a new file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|e| Error::write(path, e))?;
        let writer = ArrowWriter::try_new(file, schema(), Some(properties()))
            .map_err(|e| Error::write(path, std::io::Error::other(e)))?;
        Ok(Self { path: path.to_owned(), writer, rows: Vec::with_capacity(BATCH) })
    }

    /// Adds one request.
    ///
    /// # Errors
    /// If the file cannot be written.
    pub fn push(&mut self, io: Io) -> Result<(), Error> {
        self.rows.push(io);
        if self.rows.len() == BATCH { self.write() } else { Ok(()) }
    }

    fn write(&mut self) -> Result<(), Error> {
        let rows = &self.rows;
        let number = |f: fn(&Io) -> u64| -> ArrayRef {
            Arc::new(rows.iter().map(|r| Some(f(r))).collect::<UInt64Array>())
        };
        let short = |f: fn(&Io) -> u16| -> ArrayRef {
            Arc::new(rows.iter().map(|r| Some(f(r))).collect::<UInt16Array>())
        };
        let columns: Vec<ArrayRef> = vec![
            short(|r| r.phase),
            Arc::new(StringArray::from_iter_values(rows.iter().map(|r| r.op.name()))),
            number(|r| r.offset),
            number(|r| r.bytes),
            short(|r| r.stream),
            number(|r| r.arrival_ns),
            number(|r| r.submitted_ns),
            number(|r| r.completed_ns),
            Arc::new(rows.iter().map(|r| Some(r.ok)).collect::<BooleanArray>()),
        ];
        let fail = |e: &dyn std::error::Error| Error::write(&self.path, std::io::Error::other(e.to_string()));
        let batch = RecordBatch::try_new(schema(), columns).map_err(|e| fail(&e))?;
        self.writer.write(&batch).map_err(|e| fail(&e))?;
        self.rows.clear();
        Ok(())
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn finish(mut self) -> Result<(), Error> {
        self.write()?;
        let path = self.path;
        self.writer.close().map(drop).map_err(|e| Error::write(&path, std::io::Error::other(e)))
    }
}
