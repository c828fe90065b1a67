//! `arrival device lba size flags`: DiskSim, SSDSim and MQSim ascii.
//!
//! DiskSim gives milliseconds with a fraction, and its flags mean a read if bit 0 is set. SSDSim and MQSim give
//! integers (nanoseconds, though microseconds are about) and 1 for reads, 0 for writes: the same sense.
use crate::Op;
use crate::parse::{Fields, Plain, SECTOR};
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

    #[inline]
    fn plain(&self, text: &[u8], volumes: &mut Volumes) -> Option<(Row, usize)> {
        let mut line = Plain::new(text);
        let time = line.number(b' ')?.checked_mul(self.unit)?;
        let device = line.byte(b' ')?;
        let offset = line.number(b' ')?.checked_mul(SECTOR)?;
        let bytes = line.number(b' ')?.checked_mul(SECTOR)?;
        let op = match line.byte(b'\n')? {
            b"0" => Op::Write,
            b"1" => Op::Read,
            _ => return None,
        };
        let mut row = Row::new(time, op, offset, bytes);
        row.volume = volumes.id(device).ok()?;
        Some((row, line.len()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_lines_are_read_as_any_others() {
        let mut draw = nandle_random::Stream::new(1, "lines");
        let odd = ["", "x", " ", "\n", "\t", "-1", "0.5", "12345678901234567", "18446744073709551615", "\r"];
        let mut plain = 0;
        for _ in 0..20_000 {
            let mut text = String::new();
            for (field, blank) in [" ", " ", " ", " ", "\n"].into_iter().enumerate() {
                let most = [1 << 50, 10, 1 << 30, 64, 2][field];
                text += &match draw.below(12) {
                    0 => odd[draw.below(odd.len() as u64) as usize].into(),
                    _ => draw.below(most).to_string(),
                };
                text += if draw.below(40) == 0 { "  " } else { blank };
            }
            text += "70 0 80 8 1\n";
            let mut format = Disksim { unit: 1000, flags: draw.chance(0.5) };
            let (mut some, mut others) = Default::default();
            if let Some((row, length)) = format.plain(text.as_bytes(), &mut some) {
                let (line, end) = text[..length].split_at(length - 1);
                let careful = format.line(line.as_bytes(), &mut others);
                assert!(matches!(careful, Ok(Parsed::Row(r)) if r == row) && end == "\n", "{text:?}");
                plain += 1;
            }
        }
        assert!(plain > 5000, "{plain}");
    }
}
