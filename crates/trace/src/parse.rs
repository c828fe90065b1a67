//! Numbers and fields out of bytes.
use crate::Op;

/// Sector of every format that counts in sectors.
pub(crate) const SECTOR: u64 = 512;

/// What stands in a message for a piece of input: short and printable.
pub(crate) fn show(bytes: &[u8]) -> String {
    let cut = &bytes[..bytes.len().min(60)];
    format!("{:?}{}", String::from_utf8_lossy(cut), if cut.len() < bytes.len() { "..." } else { "" })
}

/// A decimal integer, nothing else around it.
#[inline]
pub(crate) fn int(bytes: &[u8]) -> Option<u64> {
    // 19 digits cannot overflow; longer ones take the careful path.
    if bytes.is_empty() || bytes.len() > 20 {
        return None;
    }
    let mut n = 0u64;
    if bytes.len() <= 19 {
        for &b in bytes {
            let d = b.wrapping_sub(b'0');
            if d > 9 {
                return None;
            }
            n = n * 10 + u64::from(d);
        }
        return Some(n);
    }
    for &b in bytes {
        let d = b.wrapping_sub(b'0');
        if d > 9 {
            return None;
        }
        n = n.checked_mul(10)?.checked_add(u64::from(d))?;
    }
    Some(n)
}

const POWERS: [u64; 9] = [1, 10, 100, 1_000, 10_000, 100_000, 1_000_000, 10_000_000, 100_000_000];

/// The digits at the beginning, of at most 19, as a number, and how many they are; none if there is something else.
#[inline(always)]
fn leading(bytes: &[u8]) -> Option<(u64, usize)> {
    let (mut n, mut at) = bytes.first_chunk().map_or((0, 0), up_to_eight);
    if at == 8
        && let Some(further) = bytes[at..].first_chunk()
    {
        let (low, digits) = up_to_eight(further);
        n = n * POWERS[digits] + low;
        at += digits;
    }
    // One by one: the end of a line, and what goes beyond sixteen.
    while let Some(digit) = bytes.get(at).map(|b| b.wrapping_sub(b'0')).filter(|&digit| digit <= 9) {
        if at == 19 {
            return None;
        }
        n = n * 10 + u64::from(digit);
        at += 1;
    }
    (at > 0).then_some((n, at))
}

/// The number that the digits at the beginning make, and how many they are: all of them at once, as one word.
#[inline(always)]
fn up_to_eight(bytes: &[u8; 8]) -> (u64, usize) {
    let word = u64::from_le_bytes(*bytes) ^ 0x3030_3030_3030_3030;
    // A digit is below 10, so that adding 6 leaves its high half empty. What carries comes from no digit, and goes to
    // the bytes behind it.
    let others = (word | word.wrapping_add(0x0606_0606_0606_0606)) & 0xf0f0_f0f0_f0f0_f0f0;
    let digits = others.trailing_zeros() / 8;
    // Zeros come in front. In two steps, as there may be no digit at all.
    let half = 32 - 4 * digits;
    let word = word << half << half;
    // Neighbours are joined: digits to pairs, pairs to fours, fours to eight.
    let pairs = word.wrapping_mul(10 * 256 + 1) >> 8 & 0x00ff_00ff_00ff_00ff;
    let fours = pairs.wrapping_mul(100 * 65_536 + 1) >> 16 & 0x0000_ffff_0000_ffff;
    (fours.wrapping_mul(10_000 * 4_294_967_296 + 1) >> 32, digits as usize)
}

/// Reads a line as nearly all are: plain numbers, one byte between them. It gives up where anything else comes, and
/// the line is for [`Fields`], from its beginning. Whole text lies behind the line, so that no number ends with it.
pub(crate) struct Plain<'a> {
    text: &'a [u8],
    at: usize,
}

impl<'a> Plain<'a> {
    #[inline(always)]
    pub fn new(text: &'a [u8]) -> Self {
        Plain { text, at: 0 }
    }

    /// A number of at most 16 digits, and behind it `end`.
    #[inline(always)]
    pub fn number(&mut self, end: u8) -> Option<u64> {
        let rest = self.text.get(self.at..)?;
        // A size in sectors mostly is one digit, which needs no more than a look.
        if let [digit @ b'0'..=b'9', behind, ..] = *rest
            && behind == end
        {
            self.at += 2;
            return Some(u64::from(digit - b'0'));
        }
        let (mut n, mut digits) = up_to_eight(rest.first_chunk()?);
        if digits == 8 && rest.get(8) != Some(&end) {
            let (low, more) = up_to_eight(rest[8..].first_chunk()?);
            (n, digits) = (n * POWERS[more] + low, 8 + more);
        }
        self.at += digits + 1;
        (digits > 0 && rest.get(digits) == Some(&end)).then_some(n)
    }

    /// A visible byte, and behind it `end`.
    #[inline(always)]
    pub fn byte(&mut self, end: u8) -> Option<&'a [u8; 1]> {
        let [byte, behind] = self.text.get(self.at..)?.first_chunk()?;
        self.at += 2;
        (*behind == end && byte.is_ascii_graphic()).then(|| std::array::from_ref(byte))
    }

    /// How long the line was.
    pub fn len(&self) -> usize {
        self.at
    }
}

/// A hexadecimal integer, with or without 0x.
pub(crate) fn hex(bytes: &[u8]) -> Option<u64> {
    let digits = bytes.strip_prefix(b"0x").or_else(|| bytes.strip_prefix(b"0X")).unwrap_or(bytes);
    if digits.is_empty() || digits.len() > 16 || !digits.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()
}

/// A decimal number of `unit` nanoseconds, as nanoseconds; exact down to 1 ns, then cut.
#[inline]
pub(crate) fn time_ns(bytes: &[u8], unit: u64) -> Option<u64> {
    let Some(dot) = memchr::memchr(b'.', bytes) else {
        return match int(bytes) {
            Some(n) => n.checked_mul(unit),
            None => float_ns(bytes, unit),
        };
    };
    let (whole, fraction) = (&bytes[..dot], &bytes[dot + 1..]);
    let whole = if whole.is_empty() && !fraction.is_empty() { Some(0) } else { int(whole) };
    let (Some(whole), true) = (whole, fraction.iter().all(u8::is_ascii_digit)) else {
        return float_ns(bytes, unit);
    };
    // The units are at most 1e9 ns and 18 digits of a fraction are kept, so u128 cannot overflow.
    let (mut numerator, mut denominator) = (0u128, 1u128);
    for &b in fraction.iter().take(18) {
        numerator = numerator * 10 + u128::from(b - b'0');
        denominator *= 10;
    }
    let part = (numerator * u128::from(unit) / denominator) as u64;
    whole.checked_mul(unit)?.checked_add(part)
}

/// Exponents: `6.942e-06`.
#[cold]
fn float_ns(bytes: &[u8], unit: u64) -> Option<u64> {
    if !bytes.iter().all(|b| b.is_ascii_digit() || b".eE+-".contains(b)) {
        return None;
    }
    let ns = std::str::from_utf8(bytes).ok()?.parse::<f64>().ok()? * unit as f64;
    (0.0..9.2e18).contains(&ns).then_some(ns.round() as u64)
}

/// What separates the fields of a line.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sep {
    /// A comma, blanks around it ignored.
    Comma,
    /// Any run of blanks and tabs.
    Blank,
}

/// Walks over the fields of a line.
pub(crate) struct Fields<'a> {
    rest: Option<&'a [u8]>,
    sep: Sep,
    number: u32,
}

impl<'a> Fields<'a> {
    #[inline(always)]
    pub fn comma(line: &'a [u8]) -> Self {
        Fields { rest: Some(line), sep: Sep::Comma, number: 0 }
    }

    #[inline(always)]
    pub fn blank(line: &'a [u8]) -> Self {
        Fields { rest: Some(line), sep: Sep::Blank, number: 0 }
    }

    /// The next field, if it is a plain number and nothing else; else nothing has happened.
    #[inline(always)]
    fn number(&mut self) -> Option<u64> {
        let rest = self.rest?;
        let start = usize::from(self.sep == Sep::Blank && rest.first() == Some(&b' '));
        let (n, digits) = leading(&rest[start..])?;
        let end = start + digits;
        self.rest = match (rest.get(end), self.sep) {
            (None, _) => None,
            (Some(b','), Sep::Comma) => Some(&rest[end + 1..]),
            (Some(b' ' | b'\t'), Sep::Blank) => Some(&rest[end..]),
            _ => return None,
        };
        self.number += 1;
        Some(n)
    }

    /// The next field, if there is one.
    #[inline(always)]
    pub fn try_next(&mut self) -> Option<&'a [u8]> {
        self.number += 1;
        let rest = self.rest?;
        // Fields are short: a search for many bytes at once would not pay.
        match self.sep {
            Sep::Comma => {
                let at = rest.iter().position(|&b| b == b',');
                self.rest = at.map(|at| &rest[at + 1..]);
                Some(rest[..at.unwrap_or(rest.len())].trim_ascii())
            }
            Sep::Blank => {
                let rest = rest.trim_ascii_start();
                if rest.is_empty() {
                    self.rest = None;
                    return None;
                }
                let at = rest.iter().position(|b| matches!(b, b' ' | b'\t')).unwrap_or(rest.len());
                self.rest = Some(&rest[at..]);
                Some(&rest[..at])
            }
        }
    }

    #[inline(always)]
    pub fn next(&mut self, what: &str) -> Result<&'a [u8], String> {
        match self.try_next() {
            Some(field) => Ok(field),
            None => Err(missing(self.number, what)),
        }
    }

    #[inline(always)]
    pub fn int(&mut self, what: &str) -> Result<u64, String> {
        if let Some(n) = self.number() {
            return Ok(n);
        }
        let field = self.next(what)?;
        match int(field) {
            Some(n) => Ok(n),
            None => Err(self.wrong(field, what, "a whole number")),
        }
    }

    pub fn hex(&mut self, what: &str) -> Result<u64, String> {
        let field = self.next(what)?;
        hex(field).ok_or_else(|| self.wrong(field, what, "a hexadecimal number"))
    }

    /// A number of at most `most`; nothing stands for 0.
    #[inline(always)]
    pub fn up_to(&mut self, what: &str, most: u64) -> Result<u64, String> {
        let before = self.rest;
        if let Some(n) = self.number() {
            if n <= most {
                return Ok(n);
            }
            (self.rest, self.number) = (before, self.number - 1);
        }
        let field = self.next(what)?;
        match field {
            b"" => Ok(0),
            _ => int(field)
                .filter(|&n| n <= most)
                .ok_or_else(|| self.wrong(field, what, &format!("a number up to {most}"))),
        }
    }

    /// An integer in units of `unit` bytes, as bytes.
    #[inline(always)]
    pub fn units(&mut self, what: &str, unit: u64) -> Result<u64, String> {
        let n = self.int(what)?;
        match n.checked_mul(unit) {
            Some(bytes) => Ok(bytes),
            None => Err(format!("field {} ({what}) is {n}: too large", self.number)),
        }
    }

    #[inline(always)]
    pub fn time(&mut self, what: &str, unit: u64) -> Result<u64, String> {
        let before = self.rest;
        if let Some(n) = self.number() {
            if let Some(ns) = n.checked_mul(unit) {
                return Ok(ns);
            }
            (self.rest, self.number) = (before, self.number - 1);
        }
        let field = self.next(what)?;
        match time_ns(field, unit) {
            Some(ns) => Ok(ns),
            None => Err(self.wrong(field, what, "a time that fits 64 bits of nanoseconds")),
        }
    }

    /// `1` or `0`, of which `read` means a read.
    #[inline(always)]
    pub fn bit_op(&mut self, read: u8) -> Result<Op, String> {
        let field = self.next("type")?;
        match field {
            [b @ (b'0' | b'1')] if *b == read => Ok(Op::Read),
            [b'0' | b'1'] => Ok(Op::Write),
            _ => Err(self.wrong(field, "type", "0 or 1")),
        }
    }

    #[cold]
    pub fn wrong(&self, found: &[u8], what: &str, expected: &str) -> String {
        format!("field {} ({what}) is {}, expected {expected}", self.number, show(found))
    }
}

#[cold]
fn missing(number: u32, what: &str) -> String {
    format!("field {number} ({what}) is missing")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_exact_to_the_nanosecond() {
        assert_eq!(time_ns(b"1455591804.310701000", 1_000_000_000), Some(1_455_591_804_310_701_000));
        assert_eq!(time_ns(b"0.015625", 1_000_000), Some(15_625));
        assert_eq!(time_ns(b"4617158.632812", 1_000_000), Some(4_617_158_632_812));
        assert_eq!(time_ns(b"6.942e-06", 1_000_000_000), Some(6_942));
        assert_eq!(time_ns(b"128166385295514663", 100), Some(12_816_638_529_551_466_300));
        assert_eq!(time_ns(b".5", 1_000), Some(500));
        assert_eq!(time_ns(b"3.", 1_000), Some(3_000));
        for bad in ["", ".", "-1", "1.2.3", "inf", "nan", "0x10", "99999999999999999999", "1e400"] {
            assert_eq!(time_ns(bad.as_bytes(), 1_000_000_000), None, "{bad}");
        }
    }

    #[test]
    fn integers_do_not_overflow() {
        assert_eq!(int(b"18446744073709551615"), Some(u64::MAX));
        assert_eq!(int(b"18446744073709551616"), None);
        assert_eq!(int(b"000000000000000000001"), None);
        assert_eq!(hex(b"0x13690de000"), Some(0x13_690d_e000));
        assert_eq!(hex(b"0x"), None);
    }

    #[test]
    fn plain_numbers_are_read_as_any_others() {
        let mut draw = nandle_random::Stream::new(1, "numbers");
        let pieces = [
            "",
            "0",
            "7",
            "12345678",
            "123456789",
            "9999999999999999",
            "18446744073709551616",
            "12a45678",
            "1:345678",
        ];
        for n in 0..20_000 {
            let mut line = String::new();
            for place in 0..1 + draw.below(4) {
                let digits = draw.below(u64::MAX) >> draw.below(64);
                let field = match draw.below(4) {
                    0 => pieces[draw.below(pieces.len() as u64) as usize].into(),
                    1 => format!(" {digits}\t "),
                    _ => digits.to_string(),
                };
                line += if place > 0 { [",", " ", "\t", "  "][draw.below(4) as usize] } else { "" };
                line += &field;
            }
            let sep = if n % 2 == 0 { Fields::comma } else { Fields::blank };
            let (mut fields, mut slow) = (sep(line.as_bytes()), sep(line.as_bytes()));
            for _ in 0..5 {
                let expected = slow
                    .next("n")
                    .and_then(|field| int(field).ok_or_else(|| slow.wrong(field, "n", "a whole number")));
                assert_eq!(fields.int("n"), expected, "{line:?}");
            }
            let (mut fields, mut slow) = (sep(line.as_bytes()), sep(line.as_bytes()));
            let time = slow.next("t").ok().and_then(|field| time_ns(field, 100));
            assert_eq!(fields.time("t", 100).ok(), time, "{line:?}");
        }
    }

    #[test]
    fn fields_split_by_comma_or_blanks() {
        let mut fields = Fields::comma(b" a , b,,c");
        let all: Vec<_> = std::iter::from_fn(|| fields.try_next()).collect();
        assert_eq!(all, [&b"a"[..], b"b", b"", b"c"]);
        let mut fields = Fields::blank(b"  a \t b  ");
        let all: Vec<_> = std::iter::from_fn(|| fields.try_next()).collect();
        assert_eq!(all, [&b"a"[..], b"b"]);
        assert_eq!(
            Fields::comma(b"x").int("size").unwrap_err(),
            r#"field 1 (size) is "x", expected a whole number"#
        );
    }
}
