//! fio's own log, version 2 (`file action offset length`, with `wait`) and 3 (a time in front of each line).
use crate::Op;
use crate::parse::{Fields, show};
use crate::row::{LineFormat, Parsed, Row, Volumes};

pub(super) struct FioIolog {
    unit: u64,
    version: Option<u8>,
    /// Version 2 has no times, only waits, each counted from the one before.
    clock: u64,
    waited: bool,
    requests: u64,
}

impl FioIolog {
    pub fn new(unit: u64) -> Self {
        FioIolog { unit, version: None, clock: 0, waited: false, requests: 0 }
    }
}

impl LineFormat for FioIolog {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        let Some(version) = self.version else {
            self.version = match line.trim_ascii() {
                b"fio version 2 iolog" => Some(2),
                b"fio version 3 iolog" => Some(3),
                _ => {
                    return Err(format!(
                        "the first line is {}, expected \"fio version 2 iolog\" or \"fio version 3 iolog\"",
                        show(line)
                    ));
                }
            };
            return Ok(Parsed::Skip("header"));
        };
        let mut fields = Fields::blank(line);
        let time = if version == 3 { fields.time("time", self.unit)? } else { self.clock };
        let file = fields.next("file")?;
        let action = fields.next("action")?;
        let op = match action {
            b"read" => Op::Read,
            b"write" => Op::Write,
            b"trim" => Op::Trim,
            b"sync" | b"datasync" => Op::Flush,
            b"add" | b"open" | b"close" => return Ok(Parsed::Skip("file management")),
            b"wait" if version == 2 => {
                let wait = fields.time("wait", self.unit)?;
                self.clock =
                    self.clock.checked_add(wait).ok_or("the waits add up to more than 64 bits of ns")?;
                self.waited = true;
                return Ok(Parsed::Skip("wait"));
            }
            _ => {
                let expected = "read, write, trim, sync, datasync, add, open, close or (version 2) wait";
                return Err(fields.wrong(action, "action", expected));
            }
        };
        let mut row = Row::new(time, op, 0, 0);
        if op != Op::Flush {
            row.offset = fields.int("offset in bytes")?;
            row.bytes = fields.int("length in bytes")?;
        }
        row.volume = volumes.id(file)?;
        self.requests += 1;
        Ok(Parsed::Row(row))
    }

    fn warnings(&mut self) -> Vec<String> {
        if self.version == Some(2) && !self.waited && self.requests > 1 {
            vec!["this version 2 iolog has no waits: every request is issued at time 0".into()]
        } else {
            Vec::new()
        }
    }
}
