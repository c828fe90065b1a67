//! Lines described by the user's own regular expression.
use crate::options::Options;
use crate::parse::{int, show, time_ns};
use crate::row::{LineFormat, Parsed, Row, Volumes};
use crate::{Error, Op};
use regex::bytes::{Captures, Regex, RegexBuilder};

/// Memory that a compiled expression may take.
const COMPILED_BYTES: usize = 4 << 20;

pub(super) struct Lines {
    regex: Regex,
    unit: u64,
    offset_unit: u64,
    size_unit: u64,
    has_volume: bool,
    matched: u64,
    asked: u64,
}

impl Lines {
    pub fn new(unit: u64, options: &Options) -> Result<Self, Error> {
        let Some(spec) = &options.regex else {
            let what = "format regex needs an expression with the groups time, op, offset and bytes";
            return Err(Error::Input(what.into()));
        };
        // Traces are bytes: `.` is any of them, `\d` is 0 to 9.
        let regex = RegexBuilder::new(&spec.pattern)
            .unicode(false)
            .size_limit(COMPILED_BYTES)
            .build()
            .map_err(|e| Error::Input(format!("regex: {e}")))?;
        for group in ["time", "op", "offset", "bytes"] {
            if !regex.capture_names().flatten().any(|n| n == group) {
                return Err(Error::Input(format!(
                    "regex: no group named {group:?}; expected (?<time>..), (?<op>..), (?<offset>..), (?<bytes>..)"
                )));
            }
        }
        if spec.offset_unit_bytes == 0 || spec.size_unit_bytes == 0 {
            return Err(Error::Input("regex: a unit of 0 bytes; expected 1, 512, 4096...".into()));
        }
        let has_volume = regex.capture_names().flatten().any(|n| n == "volume");
        Ok(Lines {
            regex,
            unit,
            offset_unit: spec.offset_unit_bytes,
            size_unit: spec.size_unit_bytes,
            has_volume,
            matched: 0,
            asked: 0,
        })
    }

    fn op(text: &[u8]) -> Option<Op> {
        match text.first()?.to_ascii_lowercase() {
            b'r' => Some(Op::Read),
            b'w' => Some(Op::Write),
            b'd' | b't' => Some(Op::Trim),
            b'f' => Some(Op::Flush),
            _ => None,
        }
    }
}

fn group<'a>(captures: &Captures<'a>, name: &str) -> Result<&'a [u8], String> {
    captures
        .name(name)
        .map(|m| m.as_bytes())
        .ok_or_else(|| format!("the group {name:?} took no part in the match"))
}

fn units(captures: &Captures<'_>, name: &str, unit: u64) -> Result<u64, String> {
    let text = group(captures, name)?;
    int(text)
        .and_then(|n| n.checked_mul(unit))
        .ok_or_else(|| format!("group {name:?} is {}, expected a whole number", show(text)))
}

impl LineFormat for Lines {
    fn line(&mut self, line: &[u8], volumes: &mut Volumes) -> Result<Parsed, String> {
        self.asked += 1;
        let Some(captures) = self.regex.captures(line) else {
            return Ok(Parsed::Skip("not matched by the expression"));
        };
        self.matched += 1;
        let text = group(&captures, "op")?;
        let Some(op) = Self::op(text) else {
            return Err(format!("group \"op\" is {}, expected a read, write, discard or flush", show(text)));
        };
        let text = group(&captures, "time")?;
        let Some(time) = time_ns(text, self.unit) else {
            return Err(format!("group \"time\" is {}, expected a number", show(text)));
        };
        let mut row = Row::new(time, op, 0, 0);
        if op != Op::Flush {
            row.offset = units(&captures, "offset", self.offset_unit)?;
            row.bytes = units(&captures, "bytes", self.size_unit)?;
        }
        let volume =
            if self.has_volume { captures.name("volume").map_or(&b""[..], |m| m.as_bytes()) } else { b"0" };
        row.volume = volumes.id(volume)?;
        Ok(Parsed::Row(row))
    }

    fn warnings(&mut self) -> Vec<String> {
        if self.matched == 0 && self.asked > 0 {
            vec![format!("the expression matched none of {} lines", self.asked)]
        } else {
            Vec::new()
        }
    }
}
