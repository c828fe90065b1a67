//! What biosnoop prints (bcc, libbpf-tools; `examples/trace/blockio.bt` for bpftrace):
//! `TIME(s) COMM PID DISK T SECTOR BYTES [QUE(ms)] LAT(ms)`, with a header.
//!
//! A line is printed when the request is done: it was issued so much earlier as LAT says. A command may hold blanks,
//! so the fields behind it are counted from the end.
use super::blkparse::rwbs;
use crate::Op;
use crate::parse::{SECTOR, int, show, time_ns};
use crate::row::{LineFormat, Parsed, Row, Volumes};

const MS: u64 = 1_000_000;

/// The columns behind COMM.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Columns {
    count: usize,
    disk: usize,
    op: usize,
    sector: usize,
    bytes: usize,
    latency: Option<usize>,
}

fn words(line: &[u8]) -> impl DoubleEndedIterator<Item = &[u8]> {
    line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty())
}

/// Whether a line is the header of some biosnoop.
pub(crate) fn is_header(line: &[u8]) -> bool {
    let mut words = words(line);
    words.next().is_some_and(|word| word.starts_with(b"TIME(")) && words.any(|word| word == b"COMM")
}

fn columns(line: &[u8]) -> Result<Columns, String> {
    let names: Vec<&[u8]> = words(line).skip_while(|&word| word != b"COMM").skip(1).collect();
    let find = |name: &[u8]| names.iter().position(|&word| word == name);
    let need = |name: &str| {
        find(name.as_bytes()).ok_or_else(|| {
            format!("this biosnoop prints no {name}; expected that of bcc, or examples/trace/blockio.bt for bpftrace")
        })
    };
    Ok(Columns {
        count: names.len(),
        disk: need("DISK")?,
        op: need("T")?,
        sector: need("SECTOR")?,
        bytes: need("BYTES")?,
        latency: find(b"LAT(ms)"),
    })
}

pub(super) struct Biosnoop {
    unit: u64,
    columns: Option<Columns>,
}

impl Biosnoop {
    pub fn new(unit: u64) -> Self {
        Biosnoop { unit, columns: None }
    }
}

impl LineFormat for Biosnoop {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        if is_header(line) {
            self.columns = Some(columns(line)?);
            return Ok(Parsed::Skip("header"));
        }
        let Some(columns) = self.columns else {
            // bpftrace and bcc say first what they do.
            return Ok(Parsed::Skip("before the header"));
        };
        let all: Vec<&[u8]> = words(line).collect();
        let Some(fields) = all.len().checked_sub(columns.count).filter(|&at| at >= 1).map(|at| &all[at..])
        else {
            return Err(format!("{} fields, expected TIME(s) and {} behind COMM", all.len(), columns.count));
        };
        let number = |text: &[u8], what: &str, found: Option<u64>| {
            found.ok_or_else(|| format!("{what} is {}, expected a number", show(text)))
        };
        let done = number(all[0], "the time", time_ns(all[0], self.unit))?;
        let late = match columns.latency.map(|at| fields[at]) {
            Some(text) => number(text, "LAT(ms)", time_ns(text, MS))?,
            None => 0,
        };
        let Some((op, fua)) = rwbs(fields[columns.op]) else {
            return Ok(Parsed::Skip("no data (passthrough command)"));
        };
        let mut row = Row::new(done.saturating_sub(late), op, 0, 0);
        row.volume = volumes.id(fields[columns.disk])?;
        row.fua = fua;
        let bytes = fields[columns.bytes];
        row.bytes = number(bytes, "BYTES", int(bytes))?;
        if row.bytes == 0 && fields[columns.op].starts_with(b"F") {
            row.op = Op::Flush;
        }
        if row.op == Op::Flush {
            row.bytes = 0;
            return Ok(Parsed::Row(row));
        }
        let sector = fields[columns.sector];
        let offset = int(sector).and_then(|sector| sector.checked_mul(SECTOR));
        row.offset = number(sector, "SECTOR", offset)?;
        Ok(Parsed::Row(row))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_prints_no_addresses_is_told_apart() {
        let header = b"TIME(ms)     DISK    COMM             PID    LAT(ms)";
        assert!(is_header(header));
        let error = columns(header).expect_err("no sectors");
        assert!(error.contains("prints no DISK") || error.contains("prints no T"), "{error}");
        let queued = b"TIME(s)     COMM           PID    DISK      T SECTOR     BYTES  QUE(ms) LAT(ms)";
        assert_eq!(columns(queued).expect("all").latency, Some(6));
    }
}
