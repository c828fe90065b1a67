//! `--set a.b=c`: one field of the device, in TOML's own value syntax; bare words are strings, and
//! counts and sizes may carry a unit (`queue.depth=1k`, `buffer.bytes=64MiB`).

use toml::de::{DeTable, DeValue};
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
    let last = path[path.len() - 1];
    let value = parse(last, value.trim());
    let mut at = table;
    for part in &path[..path.len() - 1] {
        let inner = at.entry((*part).to_owned()).or_insert_with(|| Value::Table(Table::new()));
        let Value::Table(inner) = inner else {
            return Err(Error::input(format!("--set {set}: {part} is a single value, it has no fields")));
        };
        at = inner;
    }
    // The two ways to give a channel's speed exclude each other.
    for (one, other) in [("bus_mb_s", "transfer_ns_per_page"), ("transfer_ns_per_page", "bus_mb_s")] {
        if last == one {
            at.remove(other);
        }
    }
    at.insert(last.to_owned(), value);
    Ok(())
}

/// The number that a count or size with a unit stands for.
fn with_unit(key: &str, text: &str) -> Option<i64> {
    if !text.ends_with(|c: char| c.is_ascii_alphabetic()) {
        return None;
    }
    let parsed = if key.ends_with("bytes") { parse_bytes(text) } else { parse_count(text) };
    parsed.ok().and_then(|n| i64::try_from(n).ok())
}

/// The device file `text` with counts and sizes that have units (in quotes) as plain numbers, each in its line.
pub(super) fn without_units(text: &str) -> String {
    fn walk(table: &DeTable<'_>, found: &mut Vec<(std::ops::Range<usize>, i64)>) {
        for (key, value) in table {
            let key = key.get_ref();
            match value.get_ref() {
                DeValue::Table(inner) => walk(inner, found),
                DeValue::String(text) if !TEXTS.contains(&&**key) => {
                    found.extend(with_unit(key, text).map(|number| (value.span(), number)));
                }
                _ => {}
            }
        }
    }
    let mut found = Vec::new();
    if let Ok(root) = DeTable::parse(text) {
        walk(root.get_ref(), &mut found);
    }
    found.sort_by_key(|(span, _)| std::cmp::Reverse(span.start));
    let mut text = text.to_owned();
    found.into_iter().for_each(|(span, number)| text.replace_range(span, &number.to_string()));
    text
}

/// Settings that are words, whatever they look like.
const TEXTS: [&str; 3] = ["name", "description", "age_with"];

fn parse(key: &str, text: &str) -> Value {
    let is_text = TEXTS.contains(&key);
    // A grid's values are TOML: those with a unit stand in quotes.
    if let Some(number) = with_unit(key, text.trim_matches('"')).filter(|_| !is_text) {
        return Value::Integer(number);
    }
    match format!("v = {text}").parse::<Table>() {
        Ok(mut table) if table.len() == 1 && (!is_text || table["v"].is_str()) => {
            table.remove("v").unwrap_or_else(|| text.into())
        }
        _ => Value::String(text.to_owned()),
    }
}
