//! Numbers as people read them. Files carry nanoseconds and bytes; only text for people is rounded.

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
    fn people_read_three_digits() {
        assert_eq!(bytes(512), "512 B");
        assert_eq!(bytes(1536), "1.50 KiB");
        assert_eq!(bytes(48 << 30), "48.0 GiB");
        assert_eq!(time(224_600.0), "225 us");
        assert_eq!(time(9_996.0), "10.0 us");
        assert_eq!(count(1_234_567), "1,234,567");
        assert_eq!(count(12), "12");
    }
}
