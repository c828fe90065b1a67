//! Numbers as people read and write them. Files carry nanoseconds and bytes; only text for people is rounded.

/// A byte count in KiB, MiB, GiB or TiB.
#[must_use]
pub fn bytes(n: u64) -> String {
    const UNITS: [&str; 5] = ["B", "KiB", "MiB", "GiB", "TiB"];
    let mut value = n as f64;
    let mut unit = 0;
    while value >= 1024.0 && unit + 1 < UNITS.len() {
        value /= 1024.0;
        unit += 1;
    }
    if unit == 0 { format!("{n} B") } else { format!("{} {}", three(value), UNITS[unit]) }
}

/// A count as people write it: `20000`, `1.5M` (k, M, G, T: powers of 1000; Ki, Mi, Gi, Ti: powers of 1024).
///
/// # Errors
/// If it is none, or not a whole number: what was expected.
pub fn parse_count(text: &str) -> Result<u64, String> {
    parse(text, 1000).ok_or_else(|| format!("{text:?}: expected a whole number, such as 20000, 1.5M or 64Ki"))
}

/// A size in bytes as people write it: `4096`, `4Ki`, `1.5GiB`. A unit of one letter is a power of 1024, as fio has
/// it; kB, MB, GB, TB are powers of 1000.
///
/// # Errors
/// If it is none, or not a whole number: what was expected.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    parse(text, 1024).ok_or_else(|| format!("{text:?}: expected bytes, such as 4096, 4Ki, 64MiB or 1GB"))
}

/// A number with a unit; a unit of one letter is a power of `base`.
fn parse(text: &str, base: u64) -> Option<u64> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = (&text[..end], text[end..].trim_start().to_ascii_lowercase());
    let power = match unit.chars().next() {
        None | Some('b') => 0,
        Some(letter) => 1 + "kmgt".find(letter)? as u32,
    };
    let base = match unit.get(1..).unwrap_or_default() {
        "" => base,
        "i" | "ib" if power > 0 => 1024,
        "b" if power > 0 => 1000,
        _ => return None,
    };
    let (whole, part) = number.split_once('.').unwrap_or((number, ""));
    let digits: u64 = format!("{whole}{part}").parse().ok()?;
    let scaled = u128::from(digits) * u128::from(base).checked_pow(power)?;
    let tenths = 10_u128.checked_pow(part.len() as u32)?;
    (scaled % tenths == 0).then(|| u64::try_from(scaled / tenths).ok()).flatten()
}

/// A duration in ns, us, ms, s or h.
#[must_use]
pub fn time(ns: f64) -> String {
    match ns.abs() {
        n if n < 1e3 => format!("{ns:.0} ns"),
        n if n < 1e6 => format!("{} us", three(ns / 1e3)),
        n if n < 1e9 => format!("{} ms", three(ns / 1e6)),
        n if n < 7.2e12 => format!("{} s", three(ns / 1e9)),
        _ => format!("{} h", three(ns / 3.6e12)),
    }
}

/// Two digits that count, or all before the point.
#[must_use]
pub fn quantity(value: f64) -> String {
    let places = if value == 0.0 { 0.0 } else { 1.0 - value.abs().log10().floor() };
    let places = places.clamp(0.0, 9.0) as usize;
    format!("{value:.places$}")
}

/// A count with thousands separated.
#[must_use]
pub fn count(n: u64) -> String {
    let digits = n.to_string();
    let mut out = String::with_capacity(digits.len() + digits.len() / 3);
    for (i, c) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(c);
    }
    out
}

/// Three significant digits.
fn three(value: f64) -> String {
    match value.abs() {
        v if v < 9.995 => format!("{value:.2}"),
        v if v < 99.95 => format!("{value:.1}"),
        _ => format!("{value:.0}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn people_write_units() {
        for (text, count, bytes) in [
            ("20000", Some(20_000), Some(20_000)),
            ("1.5M", Some(1_500_000), Some(1_572_864)),
            ("100k", Some(100_000), Some(102_400)),
            ("4Ki", Some(4096), Some(4096)),
            ("4 MiB", Some(4 << 20), Some(4 << 20)),
            ("1GB", Some(1_000_000_000), Some(1_000_000_000)),
            ("0.5k", Some(500), Some(512)),
            ("7b", Some(7), Some(7)),
            ("16Ti", Some(16 << 40), Some(16 << 40)),
            ("1.2345k", None, None),
            ("0.3", None, None),
            ("k", None, None),
            ("-3", None, None),
            ("1.2.3k", None, None),
            ("3x", None, None),
            ("3bi", None, None),
            ("99999999999T", None, None),
            ("", None, None),
        ] {
            assert_eq!((parse_count(text).ok(), parse_bytes(text).ok()), (count, bytes), "{text}");
        }
        assert!(parse_count("many").is_err_and(|e| e.contains("1.5M")));
    }

    #[test]
    fn people_read_three_digits() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(48 << 30), "48.0 GiB");
        assert_eq!(time(224_600.0), "225 us");
        assert_eq!(time(9_996.0), "10.0 us");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
        let shown = [0.0, 0.0537, 0.98, 4.0, 37.2, 1234.5].map(quantity);
        assert_eq!(shown, ["0", "0.054", "0.98", "4.0", "37", "1234"]);
    }
}
