//! `pid D|C read|write|discard offset size time gap sync`: WiscSee's event files (He et al., EuroSys 2017).
use crate::parse::{Fields, int, show};
use crate::row::{LineFormat, Parsed, Row, Volumes};
use crate::{Error, Op};

pub(super) struct Wiscsee {
    unit: u64,
    action: u8,
}

impl Wiscsee {
    /// Counts the events of one `action`, `D` (issued) or `C` (completed).
    pub fn new(unit: u64, action: char) -> Result<Self, Error> {
        match action {
            'D' | 'C' => Ok(Wiscsee { unit, action: action as u8 }),
            _ => Err(Error::Input(format!(
                "action {action:?}; wiscsee events have D (issued) or C (completed)"
            ))),
        }
    }
}

impl LineFormat for Wiscsee {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::blank(line);
        let pid = fields.next("pid")?;
        if pid.eq_ignore_ascii_case(b"pid") {
            return Ok(Parsed::Skip("header"));
        }
        let action = fields.next("action")?;
        let op = fields.next("operation")?;
        let op = match op {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"discard" => Op::Trim,
            _ => return Err(fields.wrong(op, "operation", "read, write or discard")),
        };
        let offset = fields.next("offset in bytes")?;
        if offset.strip_prefix(b"-").and_then(int).is_some() {
            // Offsets count from the start of a partition: this one lies before it.
            return Ok(Parsed::Skip("before the partition (negative offset)"));
        }
        let Some(offset) = int(offset) else {
            return Err(fields.wrong(offset, "offset in bytes", "a whole number"));
        };
        let bytes = fields.int("size in bytes")?;
        let time = fields.time("time", self.unit)?;
        if action != [self.action] {
            return match action {
                [b'A'..=b'Z'] => Ok(Parsed::Skip("another action")),
                _ => Err(format!("field 2 (action) is {}, expected D or C", show(action))),
            };
        }
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volumes.id(b"0")?;
        Ok(Parsed::Row(row))
    }
}
