//! `Timestamp,Offset,Size,IOType,VolumeID` (Zhang et al., ATC 2020): sectors, and a clock of whole seconds.
//!
//! The trace spreads the requests of a second evenly over it; see `order.rs`.
use crate::parse::{Fields, SECTOR};
use crate::row::{LineFormat, Parsed, Row, Volumes};

pub(super) struct Tencent {
    pub unit: u64,
}

impl LineFormat for Tencent {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::comma(line);
        let stamp = fields.next("timestamp")?;
        if stamp.eq_ignore_ascii_case(b"Timestamp") {
            return Ok(Parsed::Skip("header"));
        }
        let Some(time) = crate::parse::time_ns(stamp, self.unit) else {
            return Err(fields.wrong(stamp, "timestamp", "a time in seconds"));
        };
        let offset = fields.units("offset in sectors", SECTOR)?;
        let bytes = fields.units("size in sectors", SECTOR)?;
        let op = fields.bit_op(b'0')?;
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volumes.id(fields.next("volume")?)?;
        Ok(Parsed::Row(row))
    }
}
