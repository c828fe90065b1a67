//! Microsoft production servers (Kavalanekar et al., IISWC 2008): an ETW dump, one event a line.
//!
//! The TimeStamp of a disk event is its completion: on one disk, successive stamps differ by DiskSvcTime. The
//! request was issued ElapsedTime earlier.
use crate::Op;
use crate::parse::Fields;
use crate::row::{LineFormat, Parsed, Row, Volumes};

pub(super) struct Msps {
    pub unit: u64,
}

impl LineFormat for Msps {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::comma(line);
        let op = match fields.next("event")? {
            b"DiskRead" => Op::Read,
            b"DiskWrite" => Op::Write,
            b"DiskFlush" => Op::Flush,
            _ => return Ok(Parsed::Skip("another event")),
        };
        let time = fields.next("time stamp")?;
        if time == b"TimeStamp" {
            return Ok(Parsed::Skip("header"));
        }
        let Some(completed) = crate::parse::time_ns(time, self.unit) else {
            return Err(fields.wrong(time, "time stamp", "a time"));
        };
        // A process name may hold commas; the fields behind it start after " (PID)".
        let mut process = fields.next("process (PID)")?;
        while !process.ends_with(b")") {
            process = fields.next("process (PID)")?;
        }
        fields.next("thread")?;
        fields.next("IRP pointer")?;
        let (mut offset, mut bytes) = (0, 0);
        if op != Op::Flush {
            offset = fields.hex("byte offset")?;
            bytes = fields.hex("I/O size in bytes")?;
        }
        let elapsed = fields.time("elapsed time", self.unit)?;
        let mut row = Row::new(completed.saturating_sub(elapsed), op, offset, bytes);
        row.volume = volumes.id(fields.next("disk number")?)?;
        Ok(Parsed::Row(row))
    }
}
