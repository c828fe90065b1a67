//! `device_id,opcode,offset,length,timestamp` (Li et al., IISWC 2020): bytes and microseconds, many devices.
use crate::Op;
use crate::parse::Fields;
use crate::row::{LineFormat, Parsed, Row, Volumes};

pub(super) struct Alibaba {
    pub unit: u64,
}

impl LineFormat for Alibaba {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::comma(line);
        let device = fields.next("device")?;
        let op = fields.next("opcode")?;
        let op = match op {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            b"opcode" => return Ok(Parsed::Skip("header")),
            _ => return Err(fields.wrong(op, "opcode", "R or W")),
        };
        let offset = fields.int("offset in bytes")?;
        let bytes = fields.int("length in bytes")?;
        let time = fields.time("timestamp", self.unit)?;
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volumes.id(device)?;
        Ok(Parsed::Row(row))
    }
}
