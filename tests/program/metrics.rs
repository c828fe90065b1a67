//! Goal: docs/metrics.csv has every key of `summary.json`, docs/settings.csv every setting of a device file, and the
//! tables of schemes, workloads, presets and trace formats all that there are, in the words of the code.
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
