//! VMware vscsiStats records: little-endian, 32 bytes (version 1) or 40 bytes (version 2).
//!
//! Version 1: serial u32, length in bytes u32, segments u32, command u16, version u16, block u64, time u64 (us).
//! Version 2: command u16, version u16, serial u32, length u32, segments u32, block u64, time u64, response u64.
use crate::input::Input;
use crate::parse::SECTOR;
use crate::row::{Context, Row, Rows};
use crate::{Error, Op};
use std::io::{self, Read};
use std::path::PathBuf;

const CHUNK: usize = 40 * 32 * 64;

fn u16_at(record: &[u8], at: usize) -> u16 {
    u16::from_le_bytes([record[at], record[at + 1]])
}

fn u32_at(record: &[u8], at: usize) -> u32 {
    u32::from(u16_at(record, at)) | u32::from(u16_at(record, at + 2)) << 16
}

fn u64_at(record: &[u8], at: usize) -> u64 {
    u64::from(u32_at(record, at)) | u64::from(u32_at(record, at + 4)) << 32
}

/// The version that the first records speak of, from its high byte.
pub(crate) fn version(head: &[u8]) -> Option<u8> {
    // Several records must agree, as two bytes of anything may look like a version.
    let agree = |version: u8, length: usize, at: usize| {
        head.len() >= length
            && head
                .chunks_exact(length)
                .take(64)
                .all(|r| r[at + 1] == version && r[at] == 0 && r[at - 1] == 0)
    };
    if agree(2, 40, 2) {
        Some(2)
    } else if agree(1, 32, 14) {
        Some(1)
    } else {
        None
    }
}

pub(crate) struct Vscsi {
    input: Box<dyn Read + Send>,
    path: PathBuf,
    version: Option<u8>,
    unit: u64,
    buffer: Vec<u8>,
    at: usize,
    record: u64,
}

impl Vscsi {
    pub fn new(input: Input, unit: u64) -> Self {
        let (path, version) = (input.path.clone(), version(&input.head));
        Vscsi { input: input.into_reader(), path, version, unit, buffer: Vec::new(), at: 0, record: 0 }
    }

    fn error(&self, what: String) -> Error {
        Error::Line { path: self.path.clone(), line: self.record, what }
    }

    /// Whole records up to the buffer's size; fewer at the end.
    fn refill(&mut self) -> Result<(), Error> {
        self.buffer.clear();
        self.at = 0;
        let io = |source: io::Error| Error::Io { path: self.path.clone(), source };
        self.input.by_ref().take(CHUNK as u64).read_to_end(&mut self.buffer).map_err(io)?;
        Ok(())
    }

    fn parse(&self, record: &[u8], version: u8) -> Result<Result<Row, &'static str>, String> {
        let (at, length, block, time) = if version == 1 { (12, 4, 16, 24) } else { (0, 8, 16, 24) };
        let (command, found) = (u16_at(record, at), u16_at(record, at + 2));
        if found >> 8 != u16::from(version) {
            return Err(format!(
                "the record's version is {found:#06x}, expected {:#06x}",
                u16::from(version) << 8
            ));
        }
        let op = match command {
            0x08 | 0x28 | 0x88 | 0xa8 => Op::Read,
            0x0a | 0x2a | 0x8a | 0xaa | 0x2e | 0x8e | 0xae => Op::Write,
            0x35 | 0x91 => Op::Flush,
            // The ranges of an UNMAP are in its data, which the trace does not hold.
            0x42 => return Ok(Err("UNMAP without its ranges")),
            _ => return Ok(Err("another SCSI command")),
        };
        let time = u64_at(record, time);
        let time = time.checked_mul(self.unit).ok_or_else(|| format!("the time is {time}: too large"))?;
        if op == Op::Flush {
            return Ok(Ok(Row::new(time, op, 0, 0)));
        }
        let block = u64_at(record, block);
        let offset =
            block.checked_mul(SECTOR).ok_or_else(|| format!("the block number is {block}: too large"))?;
        let row = Row::new(time, op, offset, u64::from(u32_at(record, length)));
        Ok(row.check()?.map_or(Ok(row), Err))
    }
}

impl Rows for Vscsi {
    fn read(&mut self, out: &mut Vec<Row>, max: usize, ctx: &mut Context) -> Result<bool, Error> {
        let Some(version) = self.version else {
            let what = "no vscsi records of version 1 (32 bytes) or 2 (40 bytes) at the beginning";
            self.record = 1;
            return Err(self.error(what.into()));
        };
        let length = if version == 1 { 32 } else { 40 };
        let full = out.len().saturating_add(max);
        while out.len() < full {
            if self.at == self.buffer.len() {
                self.refill()?;
                if self.buffer.is_empty() {
                    return Ok(false);
                }
            }
            self.record += 1;
            ctx.rows += 1;
            let Some(record) = self.buffer.get(self.at..self.at + length) else {
                let left = self.buffer.len() - self.at;
                return Err(
                    self.error(format!("the file ends after {left} bytes of a record of {length} bytes"))
                );
            };
            match self.parse(record, version) {
                Ok(Ok(mut row)) => {
                    row.volume = ctx.volumes.id(b"0").map_err(|e| self.error(e))?;
                    out.push(row);
                }
                Ok(Err(why)) => ctx.skip(why),
                Err(what) => return Err(self.error(what)),
            }
            self.at += length;
        }
        Ok(true)
    }
}
