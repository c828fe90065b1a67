//! Tab-separated with a header that names the columns, whatever the tracer called them.
//!
//! A name is taken apart into words: `Timestamp(us)` and `time_us` are a time in microseconds, `Offset` is bytes, `LBA` and
//! `start_sector` count sectors.
use crate::Op;
use crate::parse::{SECTOR, hex, int, show, time_ns};
use crate::row::{LineFormat, Parsed, Row, Volumes};

/// What a column says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Column {
    /// With the nanoseconds of its unit, where the name says it.
    Time(Option<u64>),
    Op,
    /// In units of so many bytes.
    Offset(u64),
    Size(u64),
    Volume,
    Other,
}

/// Units by the words for them.
type Units = [(&'static [&'static str], u64)];

const TIMES: &Units = &[
    (&["ns", "nsec", "nsecs", "nano", "nanos", "nanosec", "nanosecs", "nanosecond", "nanoseconds"], 1),
    (
        &["us", "usec", "usecs", "micro", "micros", "microsec", "microsecs", "microsecond", "microseconds"],
        1_000,
    ),
    (
        &["ms", "msec", "msecs", "milli", "millis", "millisec", "millisecs", "millisecond", "milliseconds"],
        1_000_000,
    ),
    (&["s", "sec", "secs", "second", "seconds"], 1_000_000_000),
];

const SECTORS: &[&str] = &["sector", "sectors", "block", "blocks", "blk", "blks", "nblocks", "nsectors"];

const SIZES: &Units = &[
    (&["b", "byte", "bytes"], 1),
    (&["kb", "kib", "kbyte", "kbytes", "kilobyte", "kilobytes"], 1 << 10),
    (&["mb", "mib", "mbyte", "mbytes", "megabyte", "megabytes"], 1 << 20),
    (&["gb", "gib", "gbyte", "gbytes", "gigabyte", "gigabytes"], 1 << 30),
    (SECTORS, SECTOR),
];

/// Words that are units wherever they stand, and none of ours.
const OTHER_TIMES: &[&str] =
    &["ps", "ticks", "jiffies", "cycles", "min", "minutes", "hours", "days", "filetime"];
const OTHER_SIZES: &[&str] = &["bits", "kbit", "mbit", "tb", "tib", "pages", "clusters", "extents", "chunks"];

/// The words of a column's name, in small letters.
fn words(name: &str) -> Vec<String> {
    // What is no text counts as a letter: a micro sign of another encoding must not leave seconds behind.
    let letter = |c: char| c.is_alphanumeric() || c == char::REPLACEMENT_CHARACTER;
    let name = name.to_lowercase().replace(['\u{b5}', '\u{3bc}'], "u");
    name.split(|c| !letter(c)).filter(|word| !word.is_empty()).map(Into::into).collect()
}

/// The unit that a name says, in brackets or else in any of its words; `Err` if it says one that is not known.
fn unit(name: &str, units: &Units, others: &[&str]) -> Result<Option<u64>, ()> {
    let bracket = name.split_once(['(', '[', '{']).and_then(|(_, rest)| rest.split([')', ']', '}']).next());
    let words = words(bracket.unwrap_or(name));
    let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
    let mut known = units.iter().filter(|(names, _)| has(names)).map(|&(_, unit)| unit);
    let unit = known.next();
    // `sec.usec` is neither of the two; bytes of a block are bytes.
    let several = known.next().is_some() && !has(SECTORS);
    // A unit of its own, as `4K blocks` and `100 ns` are.
    let counted = words.iter().any(|word| word.starts_with(|c: char| c.is_ascii_digit()));
    let other = several || if bracket.is_some() { unit.is_none() || counted } else { has(others) };
    if other { Err(()) } else { Ok(unit) }
}

impl Column {
    fn of(name: &[u8]) -> Self {
        let name = String::from_utf8_lossy(name);
        let words = words(&name);
        let has = |any: &[&str]| words.iter().any(|word| any.contains(&word.as_str()));
        // Without a unit that is known the names alone count: whether it is a trace is asked first.
        let bytes = |otherwise| unit(&name, SIZES, OTHER_SIZES).ok().flatten().unwrap_or(otherwise);
        if has(&["time", "timestamp", "ts", "arrival"])
            && !has(&["response", "service", "elapsed", "latency"])
        {
            return Self::Time(unit(&name, TIMES, OTHER_TIMES).ok().flatten());
        }
        if has(&["size", "length", "len", "count", "nbytes", "nblocks", "nsectors", "iosize"])
            || matches!(&words[..], [only] if ["bytes", "sectors", "blocks"].contains(&only.as_str()))
        {
            return Self::Size(bytes(1));
        }
        if has(&["offset", "address", "addr", "byteoffset"]) {
            return Self::Offset(bytes(1));
        }
        if has(&["lba", "lbn", "sector", "block", "blkno", "blk", "sectno"]) {
            return Self::Offset(bytes(SECTOR));
        }
        if has(&["op", "operation", "type", "rw", "iotype", "opcode", "command", "cmd", "rwbs"]) {
            return Self::Op;
        }
        if has(&["disk", "diskno", "device", "dev", "devno", "volume", "vol", "lun", "asu", "drive"]) {
            return Self::Volume;
        }
        Self::Other
    }

    /// What is wrong with the unit that its name says, unless the user says the clock's.
    fn wrong_unit(self, name: &[u8], asked: bool) -> Option<String> {
        let text = String::from_utf8_lossy(name);
        let (units, others, expected, says) = match self {
            Self::Time(_) if asked => return None,
            Self::Time(_) => (TIMES, OTHER_TIMES, "ns, us, ms or s", "--time-unit"),
            Self::Offset(_) | Self::Size(_) => (SIZES, OTHER_SIZES, "B, KB, MB, GB or sectors", "--regex"),
            _ => return None,
        };
        unit(&text, units, others).err().map(|()| {
            format!(
                "column {} counts in a unit that is not known, expected {expected}; {says} says it otherwise",
                show(name)
            )
        })
    }

    /// Whether both say the same of a request.
    fn is_like(self, other: Self) -> bool {
        std::mem::discriminant(&self) == std::mem::discriminant(&other) && self != Self::Other
    }
}

/// The columns of a header, if it names those that a request needs.
fn columns(line: &[u8]) -> Result<Vec<Column>, String> {
    let names: Vec<&[u8]> = line.split(|&b| b == b'\t').map(<[u8]>::trim_ascii).collect();
    let mut columns: Vec<Column> = Vec::new();
    for name in &names {
        let column = Column::of(name);
        // The first of its kind counts: others are response times, physical addresses...
        columns.push(if columns.iter().any(|c| c.is_like(column)) { Column::Other } else { column });
    }
    let needed = [
        ("time, timestamp or arrival", Column::Time(None)),
        ("op, type or rw", Column::Op),
        ("offset, lba or sector", Column::Offset(1)),
        ("size, length or bytes", Column::Size(1)),
    ];
    match needed.iter().find(|(_, need)| !columns.iter().any(|c| c.is_like(*need))) {
        Some((names, _)) => Err(format!("no column of the header is called {names}")),
        None => Ok(columns),
    }
}

/// Whether a line is such a header.
pub(crate) fn is_header(line: &[u8]) -> bool {
    line.contains(&b'\t') && columns(line).is_ok()
}

pub(super) struct Tsv {
    unit: u64,
    /// The user says the unit of the clock; the header does not.
    asked: bool,
    columns: Option<Vec<Column>>,
    warnings: Vec<String>,
}

impl Tsv {
    pub fn new(unit: u64, asked: bool) -> Self {
        Tsv { unit, asked, columns: None, warnings: Vec::new() }
    }

    fn begin(&mut self, line: &[u8]) -> Result<(), String> {
        let columns = columns(line)?;
        let names = line.split(|&b| b == b'\t').map(<[u8]>::trim_ascii);
        if let Some(what) = columns.iter().zip(names).find_map(|(c, name)| c.wrong_unit(name, self.asked)) {
            return Err(what);
        }
        if let Some(Column::Time(Some(ns))) = columns.iter().find(|c| matches!(c, Column::Time(_)))
            && !self.asked
        {
            self.unit = *ns;
        }
        let unit = |of: fn(&Column) -> Option<u64>| columns.iter().find_map(of).unwrap_or(1);
        let offset = unit(|c| if let Column::Offset(unit) = c { Some(*unit) } else { None });
        let size = unit(|c| if let Column::Size(unit) = c { Some(*unit) } else { None });
        if offset != size {
            self.warnings.push(format!(
                "by the names of the columns an address counts {offset} bytes and a size {size}; --regex says it otherwise"
            ));
        }
        self.columns = Some(columns);
        Ok(())
    }
}

fn op(text: &[u8]) -> Option<Op> {
    let small = text.to_ascii_lowercase();
    match small.as_slice() {
        b"r" | b"rs" | b"read" => Some(Op::Read),
        b"w" | b"ws" | b"write" => Some(Op::Write),
        b"d" | b"discard" | b"unmap" => Some(Op::Trim),
        b"f" | b"flush" => Some(Op::Flush),
        other => Op::parse(other),
    }
}

fn number(text: &[u8], what: &str, unit: u64) -> Result<u64, String> {
    let number = if text.starts_with(b"0x") { hex(text) } else { int(text) };
    let bytes = number.and_then(|n| n.checked_mul(unit));
    bytes.ok_or_else(|| format!("{what} is {}, expected a whole number", show(text)))
}

impl LineFormat for Tsv {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let Some(columns) = &self.columns else {
            self.begin(line)?;
            return Ok(Parsed::Skip("header"));
        };
        let mut row = Row::new(0, Op::Read, 0, 0);
        let mut volume: &[u8] = b"0";
        let mut fields = line.split(|&b| b == b'\t').map(<[u8]>::trim_ascii);
        for (n, &column) in columns.iter().enumerate() {
            let Some(text) = fields.next() else {
                return Err(format!("{n} fields, the header has {}", columns.len()));
            };
            match column {
                Column::Time(_) => {
                    row.time = time_ns(text, self.unit)
                        .ok_or_else(|| format!("the time is {}, expected a number", show(text)))?;
                }
                Column::Op => {
                    row.op = op(text).ok_or_else(|| {
                        format!("the operation is {}, expected a read or write", show(text))
                    })?;
                }
                Column::Offset(unit) => row.offset = number(text, "the address", unit)?,
                Column::Size(unit) => row.bytes = number(text, "the size", unit)?,
                Column::Volume => volume = text,
                Column::Other => {}
            }
        }
        if row.op == Op::Flush {
            (row.offset, row.bytes) = (0, 0);
        }
        row.volume = volumes.id(volume)?;
        Ok(Parsed::Row(row))
    }

    fn warnings(&mut self) -> Vec<String> {
        std::mem::take(&mut self.warnings)
    }
}
