//! What a policy has in brackets behind its name: values in the order that it declares, or `key=value`.

use nandle_ssd::DeviceConfig;
use nandle_ssd::schemes::{SchemeConfig, Settings};
use toml::{Table, Value};

use super::complain::{did_you_mean, said};
use super::overrides;
use crate::Error;

/// A setting from brackets.
#[derive(Clone, Debug)]
pub(super) struct Argument {
    /// Full key, as `--set` takes it.
    pub field: String,
    /// The term that has it.
    pub term: String,
    value: String,
}

/// What `term` has in brackets, for the policy `name` that takes `settings`.
///
/// # Errors
/// If a bracket is missing, a key is unknown or given twice, or there are more values than settings.
pub(super) fn arguments(
    name: &str,
    settings: &Settings,
    term: &str,
    sum: &str,
    config: &DeviceConfig,
) -> Result<Vec<Argument>, Error> {
    let Some((_, inside)) = term.split_once('(') else { return Ok(Vec::new()) };
    let wrong = |expected: String| Error::input(format!("{}: expected {expected}", place(sum, term)));
    let Some(inside) = inside.strip_suffix(')') else { return Err(wrong("a closing bracket".into())) };
    let known = keys(settings, config);
    if known.is_empty() {
        return Err(wrong(format!("no brackets: {name} takes none")));
    }
    let mut positions = settings.positional.iter();
    let mut found: Vec<Argument> = Vec::new();
    for part in split_outside_brackets(inside, ',') {
        let (field, value) = match part.split_once('=') {
            Some((key, value)) => {
                let key = key.trim();
                let fits = |field: &&String| *field == key || short(field) == key;
                let field = known.iter().find(fits).cloned().ok_or_else(|| {
                    let hint = did_you_mean(key, known.iter().map(|field| short(field)));
                    wrong(format!("a setting of {name} instead of {key:?}{hint}: {}", list(&known)))
                })?;
                (field, value.trim())
            }
            None => match positions.next() {
                Some(field) => ((*field).to_owned(), part),
                None if settings.positional.is_empty() => {
                    return Err(wrong(format!("KEY=VALUE instead of {part:?}, of {}", list(&known))));
                }
                None => {
                    let most = settings.positional.iter().map(|field| short(field)).collect::<Vec<_>>();
                    return Err(wrong(format!("no more than {}, as {name}({})", most.len(), most.join(","))));
                }
            },
        };
        if found.iter().any(|before| before.field == field) {
            return Err(wrong(format!("{} once", short(&field))));
        }
        found.push(Argument { field, term: term.to_owned(), value: value.to_owned() });
    }
    Ok(found)
}

/// Puts the arguments of `sum` into the device.
///
/// # Errors
/// If a value is of the wrong type.
pub(super) fn apply(arguments: &[Argument], sum: &str, config: &mut DeviceConfig) -> Result<(), Error> {
    if arguments.is_empty() {
        return Ok(());
    }
    let mut table = table_of(config);
    for Argument { field, term, value } in arguments {
        overrides::apply(&format!("{field}={value}"), &mut table)?;
        *config = super::parse::table(&table).map_err(|e| {
            Error::input(format!("{}: {field} = {value}: {}", place(sum, term), said(e.message())))
        })?;
    }
    Ok(())
}

/// The policy `name` as a term, with the values of what it takes by position.
pub(super) fn shown(name: &str, config: &DeviceConfig) -> String {
    let positional = SchemeConfig::settings(name).positional;
    if positional.is_empty() {
        return name.to_owned();
    }
    let table = table_of(config);
    let values: Vec<String> = positional
        .iter()
        .filter_map(|field| value_at(&table, field))
        .map(|value| value.as_str().map_or_else(|| value.to_string(), str::to_owned))
        .collect();
    format!("{name}({})", values.join(","))
}

/// What a policy that takes `settings` has in brackets, for lists; empty if nothing.
#[must_use]
pub fn form(settings: &Settings) -> String {
    let mut parts: Vec<String> = settings.positional.iter().map(|field| short(field).to_owned()).collect();
    parts.extend((!settings.keyed.is_empty()).then(|| "key=value".to_owned()));
    if parts.is_empty() { String::new() } else { format!("({})", parts.join(", ")) }
}

/// The parts of `list` between the separators that are in no brackets, trimmed.
#[must_use]
pub fn split_outside_brackets(list: &str, separator: char) -> Vec<&str> {
    let (mut parts, mut depth, mut from) = (Vec::new(), 0_u32, 0);
    for (at, c) in list.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth = depth.saturating_sub(1),
            _ if c == separator && depth == 0 => {
                parts.push(list[from..at].trim());
                from = at + c.len_utf8();
            }
            _ => {}
        }
    }
    parts.push(list[from..].trim());
    parts
}

/// The full keys of all that brackets take.
fn keys(settings: &Settings, config: &DeviceConfig) -> Vec<String> {
    let table = table_of(config);
    let mut keys = Vec::new();
    for &key in settings.positional.iter().chain(&settings.keyed) {
        match value_at(&table, key) {
            Some(Value::Table(inner)) => keys.extend(inner.keys().map(|last| format!("{key}.{last}"))),
            _ => keys.push(key.to_owned()),
        }
    }
    keys
}

fn place(sum: &str, term: &str) -> String {
    if sum == term { format!("--scheme {sum}") } else { format!("--scheme {sum}: {term}") }
}

fn table_of(config: &DeviceConfig) -> Table {
    Table::try_from(config).unwrap_or_default()
}

fn value_at<'a>(table: &'a Table, field: &str) -> Option<&'a Value> {
    let mut parts = field.split('.');
    let first = table.get(parts.next()?)?;
    parts.try_fold(first, |value, part| value.get(part))
}

fn short(field: &str) -> &str {
    field.rsplit('.').next().unwrap_or(field)
}

fn list(fields: &[String]) -> String {
    fields.iter().map(|field| short(field)).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::super::policies;
    use super::*;
    use crate::config::PRESETS;

    #[test]
    fn what_policies_declare_is_in_device_files() {
        let config = PRESETS[0].load().expect("a preset").config;
        let table = table_of(&config);
        let mut with_settings = 0;
        for policy in policies() {
            let settings = policy.settings();
            for field in settings.positional.iter().chain(&settings.keyed) {
                assert!(value_at(&table, field).is_some(), "{}: no setting {field}", policy.name);
            }
            let mut keys: Vec<String> =
                keys(&settings, &config).iter().map(|k| short(k).to_owned()).collect();
            let all = keys.len();
            keys.sort_unstable();
            keys.dedup();
            assert_eq!(keys.len(), all, "{}: two settings of one name", policy.name);
            with_settings += usize::from(all > 0);
        }
        assert!(with_settings >= 9, "{with_settings}");
    }
}
