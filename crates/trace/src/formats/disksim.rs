//! `arrival device lba size flags`: DiskSim, SSDSim and MQSim ascii.
//!
//! DiskSim gives milliseconds with a fraction, and its flags mean a read if bit 0 is set. SSDSim and MQSim give
//! integers (nanoseconds, though microseconds are about) and 1 for reads, 0 for writes: the same sense.
use crate::Op;
use crate::parse::{Fields, SECTOR};
use crate::row::{LineFormat, Parsed, Row, Volumes};

pub(super) struct Disksim {
    pub unit: u64,
    /// The last field is a set of flags (DiskSim) rather than 0 or 1.
    pub flags: bool,
}

impl LineFormat for Disksim {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::blank(line);
        let time = fields.time("arrival", self.unit)?;
        let device = fields.next("device")?;
        let offset = fields.units("LBA", SECTOR)?;
        let bytes = fields.units("size in sectors", SECTOR)?;
        let op = if self.flags {
            if fields.int("flags")? & 1 == 1 { Op::Read } else { Op::Write }
        } else {
            fields.bit_op(b'1')?
        };
        if let Some(more) = fields.try_next() {
            return Err(fields.wrong(more, "beyond the type", "the end of the line"));
        }
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volumes.id(device)?;
        Ok(Parsed::Row(row))
    }
}
