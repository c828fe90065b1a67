//! `Timestamp,Hostname,DiskNumber,Type,Offset,Size,ResponseTime` (Narayanan et al., FAST 2008).
use crate::Op;
use crate::parse::{Fields, show};
use crate::row::{LineFormat, Parsed, Row, Volumes};

pub(super) struct Msr {
    pub unit: u64,
}

impl LineFormat for Msr {
    #[inline]
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::comma(line);
        let time = fields.time("timestamp", self.unit)?;
        let host = fields.next("hostname")?;
        let disk = fields.next("disk number")?;
        let op = fields.next("type")?;
        let op = match op {
            b"Read" | b"read" => Op::Read,
            b"Write" | b"write" => Op::Write,
            b"Type" => return Ok(Parsed::Skip("header")),
            _ => return Err(fields.wrong(op, "type", "Read or Write")),
        };
        let offset = fields.int("offset in bytes")?;
        let bytes = fields.int("size in bytes")?;
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volume(line, host, disk, volumes)?;
        Ok(Parsed::Row(row))
    }
}

/// `host,disk` lie side by side in the line: look them up without building a name.
#[inline]
fn volume(line: &[u8], host: &[u8], disk: &[u8], volumes: &mut Volumes) -> Result<u32, String> {
    let from = host.as_ptr() as usize - line.as_ptr() as usize;
    let to = disk.as_ptr() as usize - line.as_ptr() as usize + disk.len();
    match line.get(from..to) {
        Some(name) => volumes.id(name),
        None => Err(format!("hostname and disk number expected in {}", show(line))),
    }
}
