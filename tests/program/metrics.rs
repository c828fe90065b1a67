//! Goal: docs/metrics.csv and the types of the Python package have every key of `summary.json`, docs/settings.csv every
//! setting of a device file, and the tables of schemes, workloads, presets and trace formats all that there are, in the
//! words of the code.
//! Method: the tables are made from the schemas, and from the lists that the program prints as JSON; `METRICS=write`
//! renews them.

use nandle_lab::measure::{Summary, scheme_counters};
use serde_json::Value;

/// A line of the table; what holds a comma or a quotation mark is quoted (RFC 4180).
fn line(key: &str, said: &str) -> String {
    format!("{key},\"{}\"\n", said.replace('\n', " ").replace('"', "\"\""))
}

fn resolve<'a>(schema: &'a Value, root: &'a Value) -> &'a Value {
    match schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
        Some(name) => &root["$defs"][name],
        None => schema,
    }
}

fn rows(before: &str, schema: &Value, root: &Value, out: &mut String) {
    let Some(fields) = schema["properties"].as_object() else { return };
    for (name, field) in fields {
        let key = format!("{before}{name}");
        let said = field["description"].as_str().unwrap_or_default();
        assert!(!said.is_empty(), "{key} does not say what it is");
        let inner = resolve(field, root);
        let item = resolve(&inner["items"], root);
        if inner["properties"].is_object() {
            rows(&format!("{key}."), inner, root, out);
        } else {
            out.push_str(&line(&key, said));
            if item["properties"].is_object() {
                rows(&format!("{key}[]."), item, root, out);
            }
        }
    }
}

fn capital(said: &str) -> String {
    let mut letters = said.chars();
    letters.next().map(|first| first.to_uppercase().chain(letters).collect()).unwrap_or_default()
}

#[test]
fn the_table_has_every_key() {
    let schema = schemars::schema_for!(Summary).to_value();
    let mut table = "key,what it is\n".to_owned();
    rows("", &schema, &schema, &mut table);
    for (key, said) in scheme_counters() {
        table.push_str(&line(key, &format!("{}.", capital(said))));
    }
    for key in [
        "waf",
        "multi_version.merges_gc",
        "across.rollbacks",
        "allocation.emergency_gcs",
        "host.write.lat_ns.mean",
        "streams.per_stream[].media_bytes",
        "gc.victim_valid_histogram",
    ] {
        assert!(table.contains(&format!("\n{key},")), "no {key}");
    }
    compare("docs/metrics.csv", &table);
}

/// A type of Python for a schema; groups that it leads to are put in `groups`.
fn python(schema: &Value, groups: &mut Vec<String>) -> String {
    if let Some(name) = schema["$ref"].as_str().and_then(|r| r.strip_prefix("#/$defs/")) {
        if !groups.iter().any(|known| known == name) {
            groups.push(name.to_owned());
        }
        return name.to_owned();
    }
    let null = |kind: &&Value| **kind != "null";
    let kinds: Vec<&Value> = match &schema["type"] {
        Value::Array(kinds) => kinds.iter().collect(),
        one => vec![one],
    };
    let plain = kinds.iter().copied().find(null).and_then(Value::as_str);
    let plain = match plain.unwrap_or_else(|| panic!("{schema} has no type")) {
        "integer" => "int".to_owned(),
        "number" => "float".into(),
        "string" => "str".into(),
        "boolean" => "bool".into(),
        "array" => format!("list[{}]", python(&schema["items"], groups)),
        "object" => format!("dict[str, {}]", python(&schema["additionalProperties"], groups)),
        other => panic!("{other}: no type of Python stands for it"),
    };
    if kinds.len() > 1 { format!("{plain} | None") } else { plain }
}

/// Name, type and description.
type Field = (String, String, String);

/// A class with an attribute a key, and what it is below it.
fn class(name: &str, said: &str, fields: &[Field]) -> String {
    let quoted = |said: &str| said.replace('\\', "\\\\").replace('\n', " ").replace('"', "'");
    let mut out = format!("\n\nclass {name}(Record):\n    \"\"\"{}\"\"\"\n\n", quoted(said));
    // A word of the language is no attribute: `record["class"]` has it all the same.
    for (key, kind, said) in
        fields.iter().filter(|(key, ..)| !["class", "from", "in", "is"].contains(&&**key))
    {
        out += &format!("    {key}: {kind}\n    \"\"\"{}\"\"\"\n", quoted(said));
    }
    out
}

#[test]
fn the_python_package_has_the_type_of_every_key() {
    let schema = schemars::schema_for!(Summary).to_value();
    let (mut groups, mut classes) = (vec![], String::new());
    let fields = |group: &Value, groups: &mut Vec<String>| -> Vec<Field> {
        let fields = group["properties"].as_object().expect("a group");
        let said = |field: &Value| field["description"].as_str().unwrap_or_default().to_owned();
        fields.iter().map(|(key, field)| (key.clone(), python(field, groups), said(field))).collect()
    };
    let mut whole = fields(&schema, &mut groups);
    let mut at = 0;
    while at < groups.len() {
        let group = &schema["$defs"][&groups[at]];
        let fields = fields(group, &mut groups);
        classes += &class(&groups[at], group["description"].as_str().unwrap_or_default(), &fields);
        at += 1;
    }
    // What schemes count is not part of the schema: a section each.
    let mut sections: Vec<(String, Vec<Field>)> = vec![];
    for (key, said) in scheme_counters() {
        let (section, key) = key.split_once('.').expect("a section and a key");
        if !sections.iter().any(|(name, _)| name == section) {
            sections.push((section.to_owned(), vec![]));
        }
        let last = sections.iter_mut().find(|(name, _)| name == section).expect("it was put there");
        last.1.push((key.to_owned(), "int".into(), format!("{}.", capital(said))));
    }
    for (section, fields) in &sections {
        let name: String = section.split('_').map(capital).collect();
        if whole.iter().any(|(key, _, _)| key == section) {
            continue;
        }
        let name = format!("Counted{name}");
        classes += &class(&name, &format!("What is counted under {section}."), fields);
        whole.push((section.clone(), name, format!("What is counted under {section}.")));
    }
    let summary = class("Summary", schema["description"].as_str().unwrap_or_default(), &whole);
    let text = format!(
        "\"\"\"The figures of a run with their types: the keys of summary.json, in the words of the code.\n\n\
         Made from its schema: `METRICS=write cargo test --test program metrics::`.\n\"\"\"\n\n\
         from __future__ import annotations\n\nfrom ._record import Record\n{classes}{summary}"
    );
    for part in [
        "class WafParts(Record):",
        "    waf: float | None\n",
        "    per_stream: list[",
        "class Summary(Record):",
    ] {
        assert!(text.contains(part), "no {part:?}");
    }
    compare("python/nandle/_summary.py", &text);
}

fn compare(file: &str, table: &str) {
    let path = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    if std::env::var("METRICS").is_ok_and(|v| v == "write") {
        std::fs::write(&path, table).expect("docs can be written");
    }
    let found = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(
        found == table,
        "{file} is not what the code says: renew it with METRICS=write cargo test --test program metrics::"
    );
}

/// The schema that a field's own leads to: tables may be left out, and then are null.
fn of_field<'a>(field: &'a Value, root: &'a Value) -> &'a Value {
    let one = field["anyOf"].as_array().and_then(|any| any.iter().find(|one| one["type"] != "null"));
    resolve(one.unwrap_or(field), root)
}

fn settings(before: &str, schema: &Value, root: &Value, out: &mut String) {
    let Some(fields) = schema["properties"].as_object() else { return };
    for (name, field) in fields {
        let key = format!("{before}{name}");
        let inner = of_field(field, root);
        if inner["properties"].is_object() {
            settings(&format!("{key}."), inner, root, out);
            continue;
        }
        let mut said = field["description"].as_str().unwrap_or_default().to_owned();
        assert!(!said.is_empty(), "{key} does not say what it is");
        for choice in inner["oneOf"].as_array().into_iter().flatten() {
            if let (Some(name), Some(what)) = (choice["const"].as_str(), choice["description"].as_str()) {
                said += &format!(" {name}: {what}");
            }
        }
        let default = match &field["default"] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            other => other.to_string().replace('"', "\"\""),
        };
        out.push_str(&line(&format!("{key},\"{default}\""), &said));
    }
}

#[test]
fn the_table_has_every_setting() {
    let schema = nandle_lab::config::schema();
    let mut table = "setting,default,what it is\n".to_owned();
    settings("", &schema, &schema, &mut table);
    for key in ["op_ratio", "gc.victim", "timing.read_retry.most", "slc.fold", "scheme.pc_lru.insert"] {
        assert!(table.contains(&format!("\n{key},")), "no {key}");
    }
    compare("docs/settings.csv", &table);
}

/// What a command lists, as a table of these keys.
fn listed(command: &[&str], keys: &[&str]) -> String {
    let mut program = assert_cmd::Command::cargo_bin("nandle").expect("built");
    let out = program.args(command).arg("--json").assert().success();
    let list: Vec<Value> = serde_json::from_slice(&out.get_output().stdout).expect("a list");
    assert!(list.len() > 10, "{command:?} lists {} things", list.len());
    let mut table = keys.join(",") + "\n";
    for item in &list {
        let cell = |key: &&str| match &item[*key] {
            Value::Null => String::new(),
            Value::String(text) => format!("\"{}\"", text.replace('"', "\"\"")),
            other => other.to_string(),
        };
        table += &(keys.iter().map(cell).collect::<Vec<_>>().join(",") + "\n");
    }
    table
}

#[test]
fn the_tables_have_everything_that_is_listed() {
    for (file, command, keys) in [
        (
            "docs/presets.csv",
            &["presets"][..],
            &["name", "raw_bytes", "logical_bytes", "scheme", "description"][..],
        ),
        ("docs/schemes.csv", &["schemes"], &["seam", "name", "sum", "settings", "description"]),
        ("docs/workloads.csv", &["workloads"], &["name", "description"]),
        ("docs/formats.csv", &["trace", "formats"], &["name", "written", "line"]),
    ] {
        compare(file, &listed(command, keys));
    }
}
