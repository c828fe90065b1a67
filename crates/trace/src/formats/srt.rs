//! HP Labs' SRT records: binary, of 32-bit words in the byte order of the machine that wrote them (HP-UX: big-endian).
//!
//! A text header may stand in front: it has a line `tracedate = "...";` and ends with a form feed. Each record says how
//! many bytes it has, its version and type, and when it was entered (seconds, microseconds). Of a request follow: start and
//! stop (us from then), bytes, sector, device, driver, cylinder, flags (bit 0: read), where it comes from, and from
//! version 4 on the length of the queue.
use crate::input::Input;
use crate::parse::SECTOR;
use crate::row::{Context, Row, Rows};
use crate::{Error, Op};
use std::io::{self, BufReader, Read};
use std::path::PathBuf;

/// Words of a record before those of its type: size, version and type, seconds, microseconds.
const HEADER: usize = 16;
/// Bytes of a request's record up to its flags.
const REQUEST: usize = 48;
/// Larger records are none.
const MOST: usize = 64 << 10;
/// Types of record: a request, and one whose times or fields the tracer itself doubts.
const SHORT_IO: u32 = 1;
const SUSPECT_IO: u32 = 4;
const VERSIONS: std::ops::RangeInclusive<u32> = 1..=4;

/// How the words of a file are to be read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Layout {
    /// Where the first record begins.
    first: usize,
    big_endian: bool,
}

impl Layout {
    fn word(self, record: &[u8], n: usize) -> u32 {
        let bytes = [record[4 * n], record[4 * n + 1], record[4 * n + 2], record[4 * n + 3]];
        if self.big_endian { u32::from_be_bytes(bytes) } else { u32::from_le_bytes(bytes) }
    }

    /// Whether a record may begin so; how many bytes it has.
    fn size(self, header: &[u8]) -> Option<usize> {
        let (size, id) = (self.word(header, 0) as usize, self.word(header, 1));
        let fits = size.is_multiple_of(4) && (HEADER..=MOST).contains(&size);
        let least = if matches!(id & 0xffff, SHORT_IO | SUSPECT_IO) { REQUEST } else { HEADER };
        (fits && size >= least && VERSIONS.contains(&(id >> 16))).then_some(size)
    }
}

/// Where the records begin, and in which byte order, if there are some.
pub(crate) fn layout(head: &[u8]) -> Option<Layout> {
    let dated = head.starts_with(b"tracedate") || memchr::memmem::find(head, b"\ntracedate").is_some();
    let first = if dated { memchr::memchr(0x0c, head)? + 1 } else { 0 };
    [true, false].into_iter().map(|big_endian| Layout { first, big_endian }).find(|layout| {
        // The records that the beginning holds must follow each other; a few bytes of anything may look like one.
        let (mut at, mut found) = (first, 0);
        while found < 64
            && let Some(header) = head.get(at..at + HEADER)
        {
            let Some(size) = layout.size(header) else { return false };
            (at, found) = (at + size, found + 1);
        }
        found > 0
    })
}

pub(crate) struct Srt {
    input: BufReader<Box<dyn Read + Send>>,
    path: PathBuf,
    layout: Option<Layout>,
    unit: u64,
    record: u64,
    buffer: Vec<u8>,
}

impl Srt {
    pub fn new(input: Input, unit: u64) -> Self {
        let (path, layout) = (input.path.clone(), layout(&input.head));
        let input = BufReader::with_capacity(MOST, input.into_reader());
        Srt { input, path, layout, unit, record: 0, buffer: Vec::new() }
    }

    fn error(&self, what: String) -> Error {
        Error::Line { path: self.path.clone(), line: self.record, what }
    }

    fn io(&self, source: io::Error) -> Error {
        Error::Io { path: self.path.clone(), source }
    }

    /// Fills the buffer up to `length` bytes; false if the input ends before there are any.
    fn fill(&mut self, length: usize) -> Result<bool, Error> {
        let more = (length - self.buffer.len()) as u64;
        if let Err(error) = self.input.by_ref().take(more).read_to_end(&mut self.buffer) {
            return Err(self.io(error));
        }
        match self.buffer.len() {
            0 => Ok(false),
            n if n == length => Ok(true),
            n => Err(self.error(format!("the file ends after {n} bytes of a record of {length} or more"))),
        }
    }

    /// The next record; none at the end.
    fn next(&mut self, layout: Layout) -> Result<bool, Error> {
        if self.record == 0
            && let Err(error) = io::copy(&mut self.input.by_ref().take(layout.first as u64), &mut io::sink())
        {
            return Err(self.io(error));
        }
        self.record += 1;
        self.buffer.clear();
        if !self.fill(HEADER)? {
            return Ok(false);
        }
        let Some(size) = layout.size(&self.buffer) else {
            let id = layout.word(&self.buffer, 1);
            return Err(self.error(format!(
                "no record begins with {} bytes and type {id:#010x}; expected a multiple of 4, and a version from 1 to 4 \
                 in the upper half",
                layout.word(&self.buffer, 0)
            )));
        };
        self.fill(size)
    }

    fn parse(&self, layout: Layout) -> Result<Result<(Row, u32), &'static str>, String> {
        let word = |n| layout.word(&self.buffer, n);
        match word(1) & 0xffff {
            SHORT_IO => {}
            SUSPECT_IO => return Ok(Err("marked as suspect by the tracer")),
            _ => return Ok(Err("another event")),
        }
        let time = u64::from(word(2)) * 1_000_000 + u64::from(word(3));
        let time = time.checked_mul(self.unit).ok_or_else(|| format!("the time is {time}: too large"))?;
        let op = if word(11) & 1 == 1 { Op::Read } else { Op::Write };
        let row = Row::new(time, op, u64::from(word(7)) * SECTOR, u64::from(word(6)));
        Ok(row.check()?.map_or(Ok((row, word(8) >> 8 & 0xff)), Err))
    }
}

impl Rows for Srt {
    fn read(&mut self, out: &mut Vec<Row>, max: usize, ctx: &mut Context) -> Result<bool, Error> {
        let Some(layout) = self.layout else {
            self.record = 1;
            return Err(self.error("no SRT records at the beginning".into()));
        };
        let full = out.len().saturating_add(max);
        while out.len() < full {
            if !self.next(layout)? {
                return Ok(false);
            }
            ctx.rows += 1;
            match self.parse(layout) {
                Ok(Ok((mut row, device))) => {
                    row.volume = ctx.volumes.id(device.to_string().as_bytes()).map_err(|e| self.error(e))?;
                    out.push(row);
                }
                Ok(Err(why)) => ctx.skip(why),
                Err(what) => return Err(self.error(what)),
            }
        }
        Ok(true)
    }
}
