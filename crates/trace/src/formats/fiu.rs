//! `time pid process lba size R|W major minor md5` (Koller and Rangaswami, FAST 2010), blank-separated.
use crate::Op;
use crate::parse::{Fields, SECTOR};
use crate::row::{LineFormat, Parsed, Row, Volumes};

pub(super) struct Fiu {
    pub unit: u64,
}

impl LineFormat for Fiu {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::blank(line);
        let time = fields.time("time", self.unit)?;
        fields.next("pid")?;
        fields.next("process")?;
        let offset = fields.units("LBA", SECTOR)?;
        let bytes = fields.units("size in sectors", SECTOR)?;
        let op = fields.next("operation")?;
        let op = match op {
            b"R" | b"r" => Op::Read,
            b"W" | b"w" => Op::Write,
            _ => return Err(fields.wrong(op, "operation", "R or W")),
        };
        let (major, minor) = (fields.int("major")?, fields.int("minor")?);
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volumes.id(format!("{major},{minor}").as_bytes())?;
        Ok(Parsed::Row(row))
    }
}
