//! `ASU,LBA,Size,Opcode,Timestamp[,...]`: Storage Performance Council, UMass repository.
//!
//! Addresses count 512-byte blocks, but sizes count bytes.
use crate::Op;
use crate::parse::{Fields, SECTOR};
use crate::row::{LineFormat, Parsed, Row, Volumes};

pub(super) struct Spc {
    pub unit: u64,
}

impl LineFormat for Spc {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::comma(line);
        let asu = fields.next("ASU")?;
        let offset = fields.units("LBA", SECTOR)?;
        let bytes = fields.int("size in bytes")?;
        let op = fields.next("opcode")?;
        let op = match op {
            b"r" | b"R" => Op::Read,
            b"w" | b"W" => Op::Write,
            _ => return Err(fields.wrong(op, "opcode", "r or w")),
        };
        let time = fields.time("timestamp", self.unit)?;
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volumes.id(asu)?;
        Ok(Parsed::Row(row))
    }
}
