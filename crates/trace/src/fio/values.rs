//! fio's value syntax: sizes, times, lists for read, write and trim, splits.

/// An amount of space.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Amount {
    Bytes(u64),
    /// Of the device.
    Percent(f64),
}

impl Amount {
    /// In bytes, of `whole`.
    pub(super) fn of(self, whole: u64) -> u64 {
        match self {
            Self::Bytes(bytes) => bytes,
            Self::Percent(percent) => (whole as f64 * percent / 100.0) as u64,
        }
    }
}

/// The sizes of one direction's requests.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Sizes {
    Fixed(u64),
    /// Uniform between the two.
    Range(u64, u64),
    /// Sizes with their percentages.
    Split(Vec<(u64, f64)>),
}

impl Sizes {
    pub(super) fn least(&self) -> u64 {
        match self {
            Self::Fixed(size) | Self::Range(size, _) => *size,
            Self::Split(parts) => parts.iter().map(|p| p.0).min().unwrap_or(0),
        }
    }

    pub(super) fn most(&self) -> u64 {
        match self {
            Self::Fixed(size) | Self::Range(_, size) => *size,
            Self::Split(parts) => parts.iter().map(|p| p.0).max().unwrap_or(0),
        }
    }
}

/// A number with fio's suffixes: with a `base` of 1024, `k` is 1024 and `ki` 1000; with 1000 the
/// other way round.
pub(super) fn number(text: &str, base: u64) -> Result<u64, String> {
    let fail = || format!("{text:?}: expected a number such as 4k, 16m or 1g");
    if let Some(hex) = text.strip_prefix("0x") {
        return u64::from_str_radix(hex, 16).map_err(|_| fail());
    }
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (value, suffix) = text.split_at(digits);
    let value: u64 = value.parse().map_err(|_| fail())?;
    let suffix = suffix.to_ascii_lowercase();
    if suffix.is_empty() || suffix == "b" {
        return Ok(value);
    }
    let power = match suffix.as_bytes()[0] {
        b'k' => 1,
        b'm' => 2,
        b'g' => 3,
        b't' => 4,
        b'p' => 5,
        _ => return Err(fail()),
    };
    let unit = match &suffix[1..] {
        "" | "b" => base,
        "i" | "ib" => 2024 - base,
        _ => return Err(fail()),
    };
    value.checked_mul(unit.pow(power)).ok_or_else(|| format!("{text:?} is too large"))
}

/// Bytes, or a percentage.
pub(super) fn amount(text: &str, base: u64) -> Result<Amount, String> {
    match text.strip_suffix('%') {
        Some(percent) => Ok(Amount::Percent(percentage(percent)?)),
        None => Ok(Amount::Bytes(number(text, base)?)),
    }
}

/// A percentage from 0 to 100.
pub(super) fn percentage(text: &str) -> Result<f64, String> {
    let value = real(text)?;
    if (0.0..=100.0).contains(&value) { Ok(value) } else { Err(format!("{text:?}: expected 0 to 100")) }
}

/// Any finite number.
pub(super) fn real(text: &str) -> Result<f64, String> {
    text.parse().ok().filter(|v: &f64| v.is_finite()).ok_or_else(|| format!("{text:?}: expected a number"))
}

/// A time in nanoseconds; bare numbers are in `unit_ns`.
pub(super) fn time_ns(text: &str, unit_ns: u64) -> Result<u64, String> {
    let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
    let (value, suffix) = text.split_at(digits);
    let unit = match suffix.to_ascii_lowercase().as_str() {
        "" => unit_ns,
        "ns" | "nsec" => 1,
        "us" | "usec" => 1000,
        "ms" | "msec" => 1_000_000,
        "s" | "sec" => 1_000_000_000,
        "m" | "min" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return Err(format!("{text:?}: expected a time such as 10s, 5m or 100us")),
    };
    let value: u64 =
        value.parse().map_err(|_| format!("{text:?}: expected a time such as 10s, 5m or 100us"))?;
    value.checked_mul(unit).ok_or_else(|| format!("{text:?} is too long"))
}

/// A list `read,write,trim`: a missing place takes the last one given.
pub(super) fn triple<T: Clone>(
    text: &str,
    what: &str,
    parse: impl Fn(&str) -> Result<T, String>,
) -> Result<[Option<T>; 3], String> {
    let parts: Vec<&str> = text.split(',').collect();
    if parts.len() > 3 {
        return Err(format!("{what}={text}: expected at most three parts (read,write,trim)"));
    }
    let mut out: [Option<T>; 3] = [None, None, None];
    for (place, part) in parts.iter().enumerate() {
        if !part.is_empty() {
            out[place] = Some(parse(part)?);
        }
    }
    for place in parts.len()..3 {
        out[place] = out[place - 1].clone();
    }
    Ok(out)
}

/// `a/b:c/d`, where an omitted second part shares evenly what the others leave of 100.
pub(super) fn split<T>(
    text: &str,
    first: impl Fn(&str) -> Result<T, String>,
) -> Result<Vec<(T, f64)>, String> {
    let mut parts = Vec::new();
    for part in text.split(':') {
        let (head, share) = part.split_once('/').unwrap_or((part, ""));
        parts.push((first(head)?, if share.is_empty() { None } else { Some(percentage(share)?) }));
    }
    let given: f64 = parts.iter().filter_map(|p| p.1).sum();
    let open = parts.iter().filter(|p| p.1.is_none()).count();
    if given > 100.0 + 1e-9 || (open == 0 && given < 100.0 - 1e-9) {
        return Err(format!("{text:?}: the percentages add up to {given}, expected 100"));
    }
    let rest = ((100.0 - given) / open.max(1) as f64).max(0.0);
    Ok(parts.into_iter().map(|(value, share)| (value, share.unwrap_or(rest))).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_fio_s_suffixes() {
        for (text, bytes) in
            [("4096", 4096), ("4k", 4096), ("4K", 4096), ("4kb", 4096), ("1m", 1 << 20), ("0x10", 16)]
        {
            assert_eq!(number(text, 1024), Ok(bytes), "{text}");
        }
        assert_eq!(number("4ki", 1024), Ok(4000));
        assert_eq!(number("4kib", 1000), Ok(4096));
        assert_eq!(number("4k", 1000), Ok(4000));
        for text in ["", "k", "4x", "-1", "4kk", "99999999999999999999", "9999999p"] {
            assert!(number(text, 1024).is_err(), "{text}");
        }
    }

    #[test]
    fn times_and_percentages() {
        assert_eq!(time_ns("10", 1_000_000_000), Ok(10_000_000_000));
        assert_eq!(time_ns("5m", 1), Ok(300_000_000_000));
        assert_eq!(time_ns("250us", 1), Ok(250_000));
        assert!(time_ns("5 fortnights", 1).is_err());
        assert_eq!(amount("25%", 1024), Ok(Amount::Percent(25.0)));
        assert_eq!(Amount::Percent(25.0).of(4096), 1024);
        assert!(amount("125%", 1024).is_err());
    }

    #[test]
    fn lists_and_splits() {
        assert_eq!(triple("1,2", "x", |t| number(t, 1024)).unwrap(), [Some(1), Some(2), Some(2)]);
        assert_eq!(triple(",2", "x", |t| number(t, 1024)).unwrap(), [None, Some(2), Some(2)]);
        assert!(triple("1,2,3,4", "x", |t| number(t, 1024)).is_err());
        let parts = split("4k/50:8k:16k", |t| number(t, 1024)).unwrap();
        assert_eq!(parts, [(4096, 50.0), (8192, 25.0), (16_384, 25.0)]);
        assert!(split("4k/50:8k/60", |t| number(t, 1024)).is_err());
        assert!(split("4k/50", |t| number(t, 1024)).is_err());
    }
}
