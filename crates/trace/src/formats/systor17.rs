//! `Timestamp,Response,IOType,LUN,Offset,Size` (Lee et al., SYSTOR 2017).
//!
//! Rows stand in the order of completion, so times go back and forth. Rows without an IOType are not requests.
use crate::Op;
use crate::parse::Fields;
use crate::row::{LineFormat, Parsed, Row, Volumes};

pub(super) struct Systor17 {
    pub unit: u64,
}

impl LineFormat for Systor17 {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::comma(line);
        let stamp = fields.next("timestamp")?;
        if stamp.eq_ignore_ascii_case(b"Timestamp") {
            return Ok(Parsed::Skip("header"));
        }
        let Some(time) = crate::parse::time_ns(stamp, self.unit) else {
            return Err(fields.wrong(stamp, "timestamp", "a time"));
        };
        fields.next("response")?;
        let op = fields.next("IO type")?;
        let op = match op {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            b"" => return Ok(Parsed::Skip("no IO type")),
            _ => return Err(fields.wrong(op, "IO type", "R, W or nothing")),
        };
        let lun = fields.next("LUN")?;
        let offset = fields.int("offset in bytes")?;
        let bytes = fields.int("size in bytes")?;
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volumes.id(lun)?;
        Ok(Parsed::Row(row))
    }
}
