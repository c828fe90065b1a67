//! `io.parquet`: every request with its times.

use std::fs::File;
use std::path::{Path, PathBuf};

use nandle_ssd::Op;
use nandle_table::{Column, Table, Texts, Writer};

use crate::Error;

/// Rows of a group, which is packed as one.
const GROUP: usize = 1 << 16;

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

/// Writes the log. What fails is told at the end: the simulation goes on without it.
pub struct IoLog {
    path: PathBuf,
    writer: Writer,
    rows: Vec<Io>,
    failed: Option<Error>,
}

fn table(rows: &[Io]) -> Table {
    Table::new(vec![
        Column::each("phase", rows, |r| r.phase),
        Column::new("op", rows.iter().map(|r| r.op.name()).collect::<Texts>()),
        Column::each("offset", rows, |r| r.offset),
        Column::each("bytes", rows, |r| r.bytes),
        Column::each("stream", rows, |r| r.stream),
        Column::each("arrival_ns", rows, |r| r.arrival_ns),
        Column::each("submitted_ns", rows, |r| r.submitted_ns),
        Column::each("completed_ns", rows, |r| r.completed_ns),
        Column::each("ok", rows, |r| r.ok),
    ])
}

impl IoLog {
    /// Begins a log in a new file.
    ///
    /// # Errors
    /// If it cannot be created.
    pub fn create(path: &Path) -> Result<Self, Error> {
        let file = File::create(path).map_err(|e| Error::write(path, e))?;
        let writer = Writer::new(Box::new(file), &table(&[]))
            .map_err(|e| Error::write(path, std::io::Error::other(e)))?;
        Ok(Self { path: path.to_owned(), writer, rows: Vec::with_capacity(GROUP), failed: None })
    }

    /// Adds one request.
    pub fn push(&mut self, io: Io) {
        self.rows.push(io);
        if self.rows.len() == GROUP {
            self.write();
        }
    }

    fn write(&mut self) {
        if self.failed.is_none() {
            let written = self.writer.write(&table(&self.rows));
            self.failed = written.err().map(|e| Error::write(&self.path, std::io::Error::other(e)));
        }
        self.rows.clear();
    }

    /// Completes the file.
    ///
    /// # Errors
    /// If it could not be written.
    pub fn finish(mut self) -> Result<(), Error> {
        self.write();
        if let Some(failed) = self.failed {
            return Err(failed);
        }
        let path = self.path;
        self.writer.finish().map_err(|e| Error::write(&path, std::io::Error::other(e)))
    }
}
