//! `number time duration disk Read|Write sector length`: Sysinternals DiskMon, saved as text.
use crate::Op;
use crate::parse::{Fields, SECTOR};
use crate::row::{LineFormat, Parsed, Row, Volumes};

pub(super) struct Diskmon {
    pub unit: u64,
}

impl LineFormat for Diskmon {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::blank(line);
        fields.int("number")?;
        let time = fields.time("time", self.unit)?;
        fields.next("duration")?;
        let disk = fields.next("disk")?;
        let op = fields.next("request")?;
        let op = match op {
            b"Read" | b"read" => Op::Read,
            b"Write" | b"write" => Op::Write,
            b"IOCTL" | b"Ioctl" => return Ok(Parsed::Skip("no data (ioctl)")),
            _ => return Err(fields.wrong(op, "request", "Read or Write")),
        };
        let offset = fields.units("sector", SECTOR)?;
        let bytes = fields.units("length in sectors", SECTOR)?;
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volumes.id(disk)?;
        Ok(Parsed::Row(row))
    }
}
