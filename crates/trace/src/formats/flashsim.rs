//! `time device lba size type`, tab-separated: FlashSim ascii.
//!
//! Looks like DiskSim's but counts sizes in units of 4 KiB, while addresses count sectors.
use crate::parse::{Fields, SECTOR};
use crate::row::{LineFormat, Parsed, Row, Volumes};

/// Bytes per unit of size.
const SIZE_UNIT: u64 = 4096;

pub(super) struct Flashsim {
    pub unit: u64,
}

impl LineFormat for Flashsim {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::blank(line);
        let time = fields.time("arrival", self.unit)?;
        let device = fields.next("device")?;
        let offset = fields.units("LBA", SECTOR)?;
        let bytes = fields.units("size in 4 KiB units", SIZE_UNIT)?;
        let op = fields.bit_op(b'1')?;
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volumes.id(device)?;
        Ok(Parsed::Row(row))
    }
}
