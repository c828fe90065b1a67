//! `--set a.b=c`: one field of the device, in TOML's own value syntax; bare words are strings, and
//! sizes in bytes may carry a unit (`buffer.bytes=64MiB`).

use toml::{Table, Value};

use crate::Error;

/// Puts the override `set` into `table`.
pub(super) fn apply(set: &str, table: &mut Table) -> Result<(), Error> {
    let Some((key, value)) = set.split_once('=') else {
        return Err(Error::input(format!("--set {set}: expected FIELD=VALUE, such as gc.soft=0.05")));
    };
    let path: Vec<&str> = key.split('.').map(str::trim).collect();
    if path.iter().any(|part| part.is_empty()) {
        return Err(Error::input(format!("--set {set}: expected a field name such as gc.soft before the =")));
    }
    let value = parse(key.trim(), value.trim());
    let mut at = table;
    for part in &path[..path.len() - 1] {
        let inner = at.entry((*part).to_owned()).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = inner else {
            return Err(Error::input(format!("--set {set}: {part} is a single value, it has no fields")));
        };
        at = inner;
    }
    let last = path[path.len() - 1];
    // The two ways to give a channel's speed exclude each other.
    for (one, other) in [("bus_mb_s", "transfer_ns_per_page"), ("transfer_ns_per_page", "bus_mb_s")] {
        if last == one {
            at.remove(other);
        }
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

fn parse(key: &str, text: &str) -> Value {
    if key.ends_with("bytes")
        && let Some(bytes) = size(text)
    {
        return Value::Integer(bytes);
    }
    match format!("v = {text}").parse::<Table>() {
        Ok(mut table) if table.len() == 1 => table.remove("v").unwrap_or_else(|| text.into()),
        _ => Value::String(text.to_owned()),
    }
}

/// A size with a unit: `64MiB`, `4k`, `1GB`.
fn size(text: &str) -> Option<i64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text[digits.len()..].to_ascii_lowercase().as_str() {
        "b" => 1,
        "k" | "kib" => 1 << 10,
        "m" | "mib" => 1 << 20,
        "g" | "gib" => 1 << 30,
        "t" | "tib" => 1 << 40,
        "kb" => 1_000,
        "mb" => 1_000_000,
        "gb" => 1_000_000_000,
        "tb" => 1_000_000_000_000,
        _ => return None,
    };
    digits.trim().parse::<i64>().ok()?.checked_mul(unit)
}
