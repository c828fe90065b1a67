//! This project's csv: a header `time_ns,op,offset,bytes[,stream][,object][,fua]` in any order, then rows.
use crate::Op;
use crate::parse::{Fields, show};
use crate::row::{LineFormat, Parsed, Row, Volumes};

/// The columns, in the order in which they are written.
pub(crate) const COLUMNS: [&str; 7] = ["time_ns", "op", "offset", "bytes", "stream", "object", "fua"];
/// Columns that must be there: the first four.
pub(crate) const REQUIRED: usize = 4;

pub(super) struct Nandle {
    unit: u64,
    /// Index into [`COLUMNS`] of each column of the file, or none for a column not ours.
    columns: Option<Vec<Option<usize>>>,
    unknown: Vec<String>,
}

impl Nandle {
    pub fn new(unit: u64) -> Self {
        Nandle { unit, columns: None, unknown: Vec::new() }
    }

    fn header(&mut self, line: &[u8]) -> Result<Vec<Option<usize>>, String> {
        let mut fields = Fields::comma(line);
        let mut columns = Vec::new();
        while let Some(name) = fields.try_next() {
            let column = COLUMNS.iter().position(|c| c.as_bytes() == name);
            if column.is_some() && columns.contains(&column) {
                return Err(format!("column {} appears twice", show(name)));
            }
            if column.is_none() && self.unknown.len() < 16 {
                self.unknown.push(show(name));
            }
            columns.push(column);
        }
        match (0..REQUIRED).find(|&c| !columns.contains(&Some(c))) {
            Some(c) => {
                Err(format!("no column {:?} in the header; expected {}", COLUMNS[c], COLUMNS.join(",")))
            }
            None => Ok(columns),
        }
    }
}

impl LineFormat for Nandle {
    #[inline]
    fn line(&mut self, line: &[u8], _: &mut Volumes) -> Result<Parsed, String> {
        let Some(columns) = &self.columns else {
            self.columns = Some(self.header(line)?);
            return Ok(Parsed::Skip("header"));
        };
        let mut fields = Fields::comma(line);
        let mut row = Row::new(0, Op::Read, 0, 0);
        for &column in columns {
            match column {
                Some(0) => row.time = fields.time("time_ns", self.unit)?,
                Some(1) => {
                    let op = fields.next("op")?;
                    row.op = match Op::parse(op) {
                        Some(op) => op,
                        None => {
                            let expected = "read, write, trim, flush, flashalloc or flashfree";
                            return Err(fields.wrong(op, "op", expected));
                        }
                    };
                }
                Some(2) => row.offset = fields.int("offset")?,
                Some(3) => row.bytes = fields.int("bytes")?,
                Some(4) => row.stream = fields.up_to("stream", u16::MAX.into())? as u16,
                Some(5) => row.object = fields.up_to("object", u32::MAX.into())? as u32,
                Some(6) => {
                    row.fua = match fields.next("fua")? {
                        b"0" | b"false" | b"" => false,
                        b"1" | b"true" => true,
                        other => return Err(fields.wrong(other, "fua", "0 or 1")),
                    }
                }
                _ => {
                    fields.next("a column that is not ours")?;
                }
            }
        }
        if let Some(more) = fields.try_next() {
            return Err(fields.wrong(more, "beyond the header's columns", "the end of the line"));
        }
        Ok(Parsed::Row(row))
    }

    fn warnings(&mut self) -> Vec<String> {
        if self.unknown.is_empty() {
            return Vec::new();
        }
        vec![format!("columns not understood and left out: {}", self.unknown.join(", "))]
    }
}
