//! blktrace's binary records, as the kernel writes them: one file a processor (`sda.blktrace.0`), or all in one in order
//! (`blkparse -i sda -d sda.bin`), in the byte order of the machine.
//!
//! A record: magic with version 7 u32, sequence u32, time u64 (ns), sector u64, bytes u32, action u32, pid u32, device u32,
//! processor u32, error u16, length of what follows u16. An action is a point of a request's life (low half) and what
//! the request is (high half).
use crate::input::Input;
use crate::parse::SECTOR;
use crate::row::{Context, Row, Rows};
use crate::{Error, Op};
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

const RECORD: usize = 48;
const MAGIC: u32 = 0x6561_7407;
/// Points of a request's life, by the letters that blkparse prints.
const ACTIONS: [(char, u32); 9] =
    [('Q', 1), ('M', 2), ('F', 3), ('G', 4), ('R', 6), ('D', 7), ('C', 8), ('I', 12), ('A', 15)];
/// Set where the record says its cgroup, in what follows.
const CGROUP: u32 = 1 << 8;
/// What a request is.
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const PASSTHROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;
const FUA: u32 = 1 << 31;

/// Whether the records are big-endian, if these are some.
pub(crate) fn big_endian(head: &[u8]) -> Option<bool> {
    match head.first_chunk::<4>()? {
        bytes if u32::from_le_bytes(*bytes) == MAGIC => Some(false),
        bytes if u32::from_be_bytes(*bytes) == MAGIC => Some(true),
        _ => None,
    }
}

pub(crate) struct Blktrace {
    input: BufReader<Box<dyn Read + Send>>,
    path: PathBuf,
    big_endian: Option<bool>,
    action: u32,
    unit: u64,
    record: u64,
}

impl Blktrace {
    /// Counts the events of one `action`, a letter of blkparse's.
    pub fn new(input: Input, unit: u64, action: char) -> Result<Self, Error> {
        let letters = || ACTIONS.iter().map(|(letter, _)| letter.to_string()).collect::<Vec<_>>().join(", ");
        let (_, action) = ACTIONS
            .into_iter()
            .find(|(letter, _)| *letter == action)
            .ok_or_else(|| Error::Input(format!("action {action:?}; expected one of {}", letters())))?;
        let (path, big_endian) = (input.path.clone(), big_endian(&input.head));
        Ok(Blktrace { input: BufReader::new(input.into_reader()), path, big_endian, action, unit, record: 0 })
    }

    fn error(&self, what: String) -> Error {
        Error::Line { path: self.path.clone(), line: self.record, what }
    }

    /// Reads whole, or nothing at the end.
    fn exact(&mut self, buffer: &mut [u8]) -> Result<bool, Error> {
        let mut have = 0;
        while have < buffer.len() {
            match self.input.read(&mut buffer[have..]) {
                Ok(0) if have == 0 => return Ok(false),
                Ok(0) => return Err(self.error(format!("the file ends after {have} bytes of a record"))),
                Ok(count) => have += count,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(source) => return Err(Error::Io { path: self.path.clone(), source }),
            }
        }
        Ok(true)
    }
}

impl Rows for Blktrace {
    fn read(&mut self, out: &mut Vec<Row>, max: usize, ctx: &mut Context) -> Result<bool, Error> {
        let full = out.len().saturating_add(max);
        while out.len() < full {
            let mut record = [0; RECORD];
            self.record += 1;
            let Some(big_endian) = self.big_endian else {
                return Err(self.error("no record of blktrace, version 7, at the beginning".into()));
            };
            if !self.exact(&mut record)? {
                return Ok(false);
            }
            ctx.rows += 1;
            let word = |at: usize| {
                let bytes = [record[at], record[at + 1], record[at + 2], record[at + 3]];
                if big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
            };
            let long = |at: usize| {
                let (first, second) = (u64::from(word(at)), u64::from(word(at + 4)));
                if big_endian { first << 32 | second } else { second << 32 | first }
            };
            if word(0) != MAGIC {
                return Err(self.error(format!("a record begins with {:#x}, expected {MAGIC:#x}", word(0))));
            }
            let last = word(44);
            let follows = if big_endian { last & 0xffff } else { last >> 16 };
            let (mut left, mut rest) = (follows as usize, [0; 64]);
            while left > 0 {
                let part = left.min(rest.len());
                if !self.exact(&mut rest[..part])? {
                    return Err(self.error("the file ends within a record".into()));
                }
                left -= part;
            }
            let action = word(28);
            if action & NOTIFY != 0 {
                ctx.skip("message");
                continue;
            }
            if action & 0xffff & !CGROUP != self.action {
                ctx.skip("another action");
                continue;
            }
            if action & PASSTHROUGH != 0 {
                ctx.skip("no data (passthrough command)");
                continue;
            }
            let (time, sector, bytes, device) = (long(8), long(16), u64::from(word(24)), word(36));
            let op = match action {
                _ if action & DISCARD != 0 => Op::Trim,
                _ if bytes == 0 && action & FLUSH != 0 => Op::Flush,
                _ if action & WRITE != 0 => Op::Write,
                _ => Op::Read,
            };
            let offset = if op == Op::Flush { Some(0) } else { sector.checked_mul(SECTOR) };
            let (Some(offset), Some(time)) = (offset, time.checked_mul(self.unit)) else {
                return Err(self.error(format!("sector {sector} at {time}: too large")));
            };
            let mut row = Row::new(time, op, offset, bytes);
            row.fua = op == Op::Write && action & FUA != 0;
            let name = format!("{},{}", device >> 20, device & 0xf_ffff);
            row.volume = ctx.volumes.id(name.as_bytes()).map_err(|e| self.error(e))?;
            match row.check() {
                Ok(None) => out.push(row),
                Ok(Some(why)) => ctx.skip(why),
                Err(what) => return Err(self.error(what)),
            }
        }
        Ok(true)
    }
}
