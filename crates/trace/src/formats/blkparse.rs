//! Text output of blkparse in its default layout:
//! `major,minor cpu sequence time pid action rwbs sector + sectors [process]`.
//!
//! A request shows up several times in its life (Q queued, D issued, C completed...): one action counts.
use crate::parse::{Fields, SECTOR, int};
use crate::row::{LineFormat, Parsed, Row, Volumes};
use crate::{Error, Op};

pub(super) struct Blkparse {
    unit: u64,
    action: u8,
}

impl Blkparse {
    /// Counts the events of one `action`: `Q`, `G`, `I`, `D`, `C`...
    pub fn new(unit: u64, action: char) -> Result<Self, Error> {
        if action.is_ascii_uppercase() {
            Ok(Blkparse { unit, action: action as u8 })
        } else {
            Err(Error::Input(format!(
                "action {action:?}; expected a capital letter as blkparse prints, such as D or Q"
            )))
        }
    }
}

/// The operation of an RWBS field such as `WS`, `RA`, `FWFS`, and whether it is FUA.
pub(super) fn rwbs(flags: &[u8]) -> Option<(Op, bool)> {
    // A leading F asks for a flush before; an F behind the operation is FUA.
    let (preflush, flags) = match flags.split_first()? {
        (b'F', rest) => (true, rest),
        _ => (false, flags),
    };
    match flags.split_first() {
        Some((b'R', _)) => Some((Op::Read, false)),
        Some((b'W', rest)) => Some((Op::Write, rest.contains(&b'F'))),
        Some((b'D', _)) => Some((Op::Trim, false)),
        _ => preflush.then_some((Op::Flush, false)),
    }
}

impl LineFormat for Blkparse {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let mut fields = Fields::blank(line);
        // The summary at the end, and messages, do not start with a device.
        let Some(device) = fields.try_next().filter(|d| is_device(d)) else {
            return Ok(Parsed::Skip("summary or message"));
        };
        fields.int("cpu")?;
        fields.int("sequence")?;
        let time = fields.time("time", self.unit)?;
        fields.int("pid")?;
        let action = fields.next("action")?;
        if action != [self.action] {
            return Ok(Parsed::Skip("another action"));
        }
        let flags = fields.next("rwbs")?;
        let Some((op, fua)) = rwbs(flags) else {
            return Ok(Parsed::Skip("no data (ioctl, barrier)"));
        };
        let sector = fields.try_next().unwrap_or_default();
        let (Some(sector), Some(b"+")) = (int(sector), fields.try_next()) else {
            // An empty write that asks for a flush before is one, until it completes: by then its flush has been counted.
            let asks = flags.starts_with(b"F") && matches!(self.action, b'Q' | b'G' | b'I' | b'D');
            return if op == Op::Flush || asks {
                Ok(Parsed::Row(self.flush(time, device, volumes)?))
            } else {
                Ok(Parsed::Skip("no sector (passthrough command)"))
            };
        };
        let sectors = fields.int("size in sectors")?;
        if sectors == 0 && flags.starts_with(b"F") {
            return Ok(Parsed::Row(self.flush(time, device, volumes)?));
        }
        let (Some(offset), Some(bytes)) = (sector.checked_mul(SECTOR), sectors.checked_mul(SECTOR)) else {
            return Err(format!("sector {sector} + {sectors}: too large"));
        };
        let mut row = Row::new(time, op, offset, bytes);
        row.fua = fua;
        row.volume = volumes.id(device)?;
        Ok(Parsed::Row(row))
    }
}

impl Blkparse {
    fn flush(&self, time: u64, device: &[u8], volumes: &mut Volumes) -> Result<Row, String> {
        let mut row = Row::new(time, Op::Flush, 0, 0);
        row.volume = volumes.id(device)?;
        Ok(row)
    }
}

fn is_device(field: &[u8]) -> bool {
    memchr::memchr(b',', field)
        .is_some_and(|at| int(&field[..at]).is_some() && int(&field[at + 1..]).is_some())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_tell_operation_and_fua() {
        assert_eq!(rwbs(b"WFS"), Some((Op::Write, true)));
        assert_eq!(rwbs(b"FWS"), Some((Op::Write, false)));
        assert_eq!(rwbs(b"FWFS"), Some((Op::Write, true)));
        assert_eq!(rwbs(b"FN"), Some((Op::Flush, false)));
        assert_eq!(rwbs(b"RA"), Some((Op::Read, false)));
        assert_eq!(rwbs(b"DS"), Some((Op::Trim, false)));
        assert_eq!(rwbs(b"N"), None);
    }
}
