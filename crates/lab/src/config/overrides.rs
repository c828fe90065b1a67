//! `--set a.b=c`: one field of the device, in TOML's own value syntax; bare words are strings, and
//! counts and sizes may carry a unit (`queue.depth=1k`, `buffer.bytes=64MiB`).

use toml::{Table, Value};

use crate::Error;
use crate::units::{parse_bytes, parse_count};

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
    // A grid's values are TOML: those with a unit stand in quotes.
    let bare = text.trim_matches('"');
    let unit = bare.ends_with(|c: char| c.is_ascii_alphabetic());
    let number =
        |parsed: Result<u64, String>| parsed.ok().and_then(|n| i64::try_from(n).ok()).map(Value::Integer);
    if unit
        && let Some(value) =
            number(if key.ends_with("bytes") { parse_bytes(bare) } else { parse_count(bare) })
    {
        return value;
    }
    match format!("v = {text}").parse::<Table>() {
        Ok(mut table) if table.len() == 1 => table.remove("v").unwrap_or_else(|| text.into()),
        _ => Value::String(text.to_owned()),
    }
}
