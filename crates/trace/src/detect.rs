//! Which format a file is in, from its first bytes and lines.
use crate::Error;
use crate::formats::{biosnoop, blktrace, srt, tsv, vscsi};
use crate::input::Input;
use crate::options::{Format, TimeUnit};
use crate::parse::{Fields, Sep, int, show, time_ns};
use crate::row::Row;
use std::collections::HashMap;

/// Lines of the beginning that are compared with each format.
const LINES: usize = 200;
/// Above this many requests per second, a clock without a stated unit is taken to be coarser.
const PLAUSIBLE_RATE: f64 = 200_000.0;
/// Rates outside are warned about, whatever the format.
const ABSURD_RATES: std::ops::RangeInclusive<f64> = 1e-4..=5e6;

/// The shape of a line: how fields are separated and what each must be.
///
/// I integer, F number, D number with a point, R one of rRwW, T Read or Write, B 0 or 1, W anything, E anything
/// or nothing, O read/write/discard, C a capital letter, V major,minor. A trailing * allows further fields.
struct Shape {
    format: Format,
    sep: Sep,
    fields: &'static [u8],
    tabs: Option<bool>,
}

const fn shape(format: Format, sep: Sep, fields: &'static [u8], tabs: Option<bool>) -> Shape {
    Shape { format, sep, fields, tabs }
}

const SHAPES: [Shape; 12] = [
    shape(Format::Msr, Sep::Comma, b"IWITIII", None),
    shape(Format::Spc, Sep::Comma, b"IIIRF*", None),
    shape(Format::Systor17, Sep::Comma, b"DEEWII", None),
    shape(Format::Alibaba, Sep::Comma, b"IRIII", None),
    shape(Format::Tencent, Sep::Comma, b"IIIBI", None),
    shape(Format::Fiu, Sep::Blank, b"FIWIIRIIW", None),
    shape(Format::Disksim, Sep::Blank, b"DIIII", Some(false)),
    shape(Format::Mqsim, Sep::Blank, b"IIIIB", None),
    shape(Format::Flashsim, Sep::Blank, b"DIIIB", Some(true)),
    shape(Format::Diskmon, Sep::Blank, b"IFFITII", None),
    shape(Format::Wiscsee, Sep::Blank, b"ICOIIFFW", None),
    shape(Format::Blkparse, Sep::Blank, b"VIIFICW*", None),
];

impl Shape {
    fn fits(&self, line: &[u8]) -> bool {
        if self.tabs.is_some_and(|tabs| tabs != line.contains(&b'\t')) {
            return false;
        }
        let mut fields = match self.sep {
            Sep::Comma => Fields::comma(line),
            Sep::Blank => Fields::blank(line),
        };
        for &kind in self.fields {
            if kind == b'*' {
                return true;
            }
            let Some(field) = fields.try_next() else { return false };
            if !is(kind, field) {
                return false;
            }
        }
        fields.try_next().is_none()
    }
}

fn is(kind: u8, field: &[u8]) -> bool {
    match kind {
        b'I' => int(field).is_some(),
        b'F' => time_ns(field, 1).is_some(),
        b'D' => field.contains(&b'.') && time_ns(field, 1).is_some(),
        b'R' => matches!(field, b"r" | b"R" | b"w" | b"W"),
        b'T' => field.eq_ignore_ascii_case(b"read") || field.eq_ignore_ascii_case(b"write"),
        b'B' => matches!(field, b"0" | b"1"),
        b'W' => !field.is_empty(),
        b'O' => matches!(field, b"read" | b"write" | b"discard"),
        b'C' => matches!(field, [b'A'..=b'Z', ..]),
        b'V' => field.split(|&b| b == b',').filter(|n| int(n).is_some()).count() == 2,
        _ => true,
    }
}

/// The format of `input`, and what should be said about the choice.
pub(crate) fn format(input: &Input) -> Result<(Format, Option<String>), Error> {
    let head = &input.head;
    if head.is_empty() {
        return Err(Error::Input(format!("{}: empty; expected a trace", input.path.display())));
    }
    if head.starts_with(b"PAR1") {
        return Ok((Format::NandleParquet, None));
    }
    if blktrace::big_endian(head).is_some() {
        return Ok((Format::Blktrace, None));
    }
    if vscsi::version(head).is_some() {
        return Ok((Format::Vscsi, None));
    }
    if srt::layout(head).is_some() {
        return Ok((Format::Srt, None));
    }
    let lines = || {
        let lines = input.head_lines().split(|&b| b == b'\n').map(|l| l.strip_suffix(b"\r").unwrap_or(l));
        lines.filter(|l| !matches!(l.trim_ascii_start().first(), None | Some(b'#')))
    };
    let Some(first) = lines().next() else { return Err(unknown(input, 0)) };
    let start = first.trim_ascii();
    if start.starts_with(b"fio version ") {
        return Ok((Format::FioIolog, None));
    }
    // The disk events of an ETW dump may begin after many others.
    let event = |l: &[u8]| {
        let name = l.split(|&b| b == b',').next().unwrap_or(l).trim_ascii();
        matches!(name, b"DiskRead" | b"DiskWrite" | b"DiskFlush")
    };
    if start.starts_with(b"BeginHeader") || lines().take(LINES).any(event) {
        return Ok((Format::Msps, None));
    }
    if start.starts_with(b"time_ns,")
        || start.windows(9).any(|w| w == b",time_ns,")
        || start.ends_with(b",time_ns")
    {
        return Ok((Format::Nandle, None));
    }
    if tsv::is_header(start) {
        return Ok((Format::Tsv, None));
    }
    if lines().take(LINES).any(biosnoop::is_header) {
        return Ok((Format::Biosnoop, None));
    }
    let mut fits: HashMap<Format, usize> = HashMap::new();
    let mut total = 0;
    for line in lines().take(LINES) {
        total += 1;
        for shape in SHAPES.iter().filter(|s| s.fits(line)) {
            *fits.entry(shape.format).or_default() += 1;
        }
    }
    // A header, a message or a damaged line now and then must not hide the format.
    let best = fits.values().copied().max().unwrap_or(0);
    let mut found: Vec<Format> = fits.iter().filter(|&(_, &n)| n == best).map(|(&f, _)| f).collect();
    found.sort_unstable();
    match found[..] {
        [format] if best * 2 >= total => Ok((format, remark(format))),
        [_, _, ..] if best * 2 >= total => {
            let names: Vec<_> = found.iter().map(|f| f.name()).collect();
            Err(Error::Input(format!(
                "{}: could be {}; choose with --format",
                input.path.display(),
                names.join(" or ")
            )))
        }
        _ => Err(unknown(input, total)),
    }
}

fn remark(format: Format) -> Option<String> {
    (format == Format::Flashsim).then(|| {
        "taken as flashsim, as it is tab-separated: sizes count 4 KiB; if they count 512-byte sectors, use \
         --format disksim"
            .into()
    })
}

fn unknown(input: &Input, lines: usize) -> Error {
    let first = input.head.split(|&b| b == b'\n').find(|l| !l.trim_ascii().is_empty()).unwrap_or(&[]);
    let mut what = format!(
        "{}: no known trace format (looked at {lines} lines; the first is {}). Looked for:",
        input.path.display(),
        show(first.trim_ascii())
    );
    for format in Format::ALL {
        if !matches!(format, Format::Regex | Format::Ssdsim) {
            what += &format!("\n  {:<15} {}", format.name(), format.line());
        }
    }
    what += "\nForce one with --format, or describe the line with --regex. A csv of your own needs a header and four \
             columns: time_ns,op,offset,bytes (op: read, write, trim or flush).";
    Error::Input(what)
}

/// Requests per second of rows taken from the beginning; none if they cannot tell.
pub(crate) fn rate(rows: &[Row]) -> Option<f64> {
    if rows.len() < 16 {
        return None;
    }
    let first = rows.iter().map(|r| r.time).min()?;
    let last = rows.iter().map(|r| r.time).max()?;
    let span = (last - first) as f64 / 1e9;
    (span > 0.0).then(|| rows.len() as f64 / span)
}

/// The unit of a clock of integers, given rows that were read as if it were nanoseconds.
pub(crate) fn integer_unit(rows: &[Row]) -> (TimeUnit, Option<String>) {
    // Microseconds turned into nanoseconds end in 000; a clock of microseconds would hardly tick in whole ms.
    let Some(as_ns) = rate(rows).filter(|_| rows.iter().any(|r| r.time % 1000 != 0)) else {
        return (TimeUnit::Ns, None);
    };
    let unit = match as_ns {
        r if r <= PLAUSIBLE_RATE => return (TimeUnit::Ns, None),
        r if r / 1e3 <= PLAUSIBLE_RATE => TimeUnit::Us,
        r if r / 1e6 <= PLAUSIBLE_RATE => TimeUnit::Ms,
        _ => return (TimeUnit::Ns, None),
    };
    let text = format!(
        "the clock's unit is not stated: taken as {}, since nanoseconds would mean {as_ns:.0} requests/s; \
         --time-unit overrides",
        unit.name()
    );
    (unit, Some(text))
}

/// What to say about a rate that no device or no host reaches.
pub(crate) fn absurd(rate: f64) -> Option<String> {
    (!ABSURD_RATES.contains(&rate)).then(|| {
        format!("{rate:.3e} requests/s is absurd: the time unit is probably wrong; --time-unit overrides")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn detect(text: &'static str) -> Result<Format, Error> {
        let input = Input::of("t".into(), Box::new(text.as_bytes()), false).unwrap();
        format(&input).map(|(f, _)| f)
    }

    #[test]
    fn a_single_line_is_enough() {
        for (line, expected) in [
            ("128166385295514663,h,0,Write,9056014336,2048,2833", Format::Msr),
            ("0,303567,3584,w,0.000000", Format::Spc),
            ("0,303567,3584,W,0", Format::Spc),
            ("3,W,12345344,4096,1577808000000028", Format::Alibaba),
            ("1538323200,4247200,128,1,1058", Format::Tencent),
            ("1.5,0.1,,0,5,6", Format::Systor17),
            ("0.5 0 1 2 3", Format::Disksim),
            ("0.5\t0\t1\t2\t1", Format::Flashsim),
            ("5 0 1 2 1", Format::Mqsim),
            ("time_ns,op,offset,bytes", Format::Nandle),
            ("fio version 3 iolog", Format::FioIolog),
        ] {
            assert_eq!(detect(line).unwrap(), expected, "{line}");
        }
    }

    #[test]
    fn the_unknown_is_listed() {
        let text = detect("hello world\nmore\n").unwrap_err().to_string();
        assert!(text.contains("\"hello world\"") && text.contains("systor17"), "{text}");
        assert!(detect("").unwrap_err().to_string().contains("empty"));
        assert!(detect("\n\n").is_err());
    }
}
