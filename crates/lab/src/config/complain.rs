//! Complaints about device files: where, which field, what value, what was expected, what was
//! probably meant.

use nandle_ssd::ConfigError;
use toml::de::{DeTable, DeValue};

/// `; did you mean ...?` if a candidate is near, else nothing.
pub(crate) fn did_you_mean<'a>(name: &str, candidates: impl Iterator<Item = &'a str>) -> String {
    let name = name.to_lowercase();
    // Slips of the finger first (letters swapped, missing, doubled), then abbreviations.
    let slips = |c: &str| strsim::osa_distance(&name, &c.to_lowercase());
    let likeness = |c: &str| strsim::jaro_winkler(&name, &c.to_lowercase());
    let near = candidates
        .filter(|c| slips(c) <= 1 + name.len() / 4 || likeness(c) > 0.85)
        .min_by(|a, b| slips(a).cmp(&slips(b)).then(likeness(b).total_cmp(&likeness(a))));
    near.map_or_else(String::new, |candidate| format!(", did you mean {candidate:?}?"))
}

/// A file that cannot be parsed, or does not fit the fields of a device.
pub(super) fn syntax(place: &str, text: &str, e: &toml::de::Error) -> String {
    let Some(span) = e.span() else { return format!("{place}: {}", said(e.message())) };
    let line = line_of(text, span.start);
    let message = said(e.message());
    match field_at(text, span.start) {
        // An unknown field names itself.
        Some((field, value)) if !e.message().starts_with("unknown field") => {
            format!("{place}:{line}: {field} = {value}: {message}")
        }
        _ => format!("{place}:{line}: {message}"),
    }
}

/// A `--set` that cannot be applied.
pub(super) fn set(set: &str, message: &str) -> String {
    format!("--set {set}: {}", said(message))
}

/// A value out of its range: given by `sets`, else by the `term` of a scheme, else in the file.
pub(super) fn range(place: &str, text: &str, sets: &[String], term: Option<&str>, e: &ConfigError) -> String {
    let named = |set: &&String| set.split('=').next().is_some_and(|key| key.trim() == e.field);
    if let Some(set) = sets.iter().rev().find(named) {
        return format!("--set {set}: expected {}", e.expected);
    }
    if let Some(term) = term {
        return format!("--scheme {term}: {e}");
    }
    match span_of(text, &e.field) {
        Some(at) => format!("{place}:{}: {e}", line_of(text, at)),
        None => format!("{place}: {e}"),
    }
}

/// serde's words in ours, with a suggestion where a name is near.
pub(super) fn said(message: &str) -> String {
    let mut message = message.trim().replace('\n', "; ");
    for (theirs, ours) in [
        ("expected u32", "expected a whole number, 0 to 4294967295"),
        ("expected u64", "expected a whole number from 0 on, such as 4096, 64KiB or 1.5M"),
        ("expected usize", "expected a whole number from 0 on"),
        ("expected f64", "expected a number"),
        ("expected a boolean", "expected true or false"),
        ("expected a sequence", "expected a list, as [1, 2]"),
        ("wanted string or table", "expected a name"),
    ] {
        if message.ends_with(theirs) {
            message.truncate(message.len() - theirs.len());
            message.push_str(ours);
        }
    }
    if message.starts_with("unknown field") || message.starts_with("unknown variant") {
        let mut quoted = message.split('`').skip(1).step_by(2).map(str::to_owned);
        if let Some(wrong) = quoted.next() {
            let candidates: Vec<String> = quoted.collect();
            let hint = did_you_mean(&wrong, candidates.iter().map(String::as_str));
            let whole = message.split_once(", expected");
            message = match whole {
                Some((head, _)) if wrong == "fill" => {
                    format!(
                        "{head}: what --fill sets is precondition.used, and how much of that is live precondition.valid"
                    )
                }
                Some((head, _)) if wrong == "fifo" => {
                    format!("{head}: what FIFO does is set by buffer.fifo_merge, fifo_evict and fifo_reads")
                }
                Some((head, _)) if candidates.len() == 1 && !hint.is_empty() => format!("{head}{hint}"),
                Some((head, tail)) if hint.is_empty() => format!("{head}, expected{tail}"),
                Some((head, tail)) => format!("{head}{hint} expected{tail}"),
                None => message,
            };
        }
    }
    message
}

/// The line, from 1, of the byte `at`.
pub(crate) fn line_of(text: &str, at: usize) -> usize {
    text.as_bytes()[..at.min(text.len())].iter().filter(|&&b| b == b'\n').count() + 1
}

/// The innermost field whose value covers the byte `at`: dotted name and value as written.
fn field_at(text: &str, at: usize) -> Option<(String, String)> {
    let root = DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut path = String::new();
    let mut found = None;
    'down: loop {
        for (key, value) in table {
            let span = value.span();
            if !path.is_empty() && !span.contains(&at) || path.is_empty() && !covers(value, at) {
                continue;
            }
            let dotted =
                if path.is_empty() { key.get_ref().to_string() } else { format!("{path}.{}", key.get_ref()) };
            if let DeValue::Table(inner) = value.get_ref() {
                path = dotted;
                table = inner;
                continue 'down;
            }
            found = Some((dotted, shown(text.get(span)?)));
            break;
        }
        return found;
    }
}

/// Whether the value, or for a table any value in it, covers the byte `at`.
fn covers(value: &toml::Spanned<DeValue<'_>>, at: usize) -> bool {
    value.span().contains(&at)
        || matches!(value.get_ref(), DeValue::Table(inner) if inner.values().any(|v| covers(v, at)))
}

fn shown(value: &str) -> String {
    let line = value.split_whitespace().collect::<Vec<_>>().join(" ");
    if line.chars().count() > 60 { line.chars().take(57).chain("...".chars()).collect() } else { line }
}

/// Where the field with this dotted name is given in the file.
fn span_of(text: &str, field: &str) -> Option<usize> {
    let root = DeTable::parse(text).ok()?;
    let mut table = root.get_ref();
    let mut at = None;
    for part in field.split('.') {
        let (key, value) = table.iter().find(|(key, _)| key.get_ref() == part)?;
        at = Some(key.span().start);
        match value.get_ref() {
            DeValue::Table(inner) => table = inner,
            _ => break,
        }
    }
    at
}
