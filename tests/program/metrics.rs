//! Goal: docs/metrics.md has every key of `summary.json`, in the words of the code.
//! Method: the page is made from the schema of the summary; `METRICS=write` renews it.

use std::fmt::Write;

use nandle_lab::measure::{Summary, scheme_counters};
use serde_json::Value;

const HEAD: &str = "\
# Metrics

Every key of `summary.json` (also `--json`, and the columns of a sweep's `results.parquet`). Made from the code by
`METRICS=write cargo test --test program metrics::`.

**Units.** Keys that end in `_ns`, and everything in `lat_ns`, are nanoseconds of simulated time; `bytes` and `bw_bytes` are bytes,
the latter and `iops` per simulated second; keys that end in `_s` are seconds of this machine. Flash reads and programs are in
pages, erases in blocks. Shares and ratios are plain numbers (0.2 = 20%). Counts are of the measured part, the workload's last phase,
unless they say otherwise.

**WAF** is bytes programmed to flash by bytes written by the host; it is null until the host wrote, and `waf_parts` add up to it:
`host` + `padding` + `gc` + `merge` + `map` + `meta`. The host's share can lie below 1: what is still in the write buffer, or was
overwritten or trimmed there, was never programmed.

**Over-provisioning** is (raw - logical) / logical.

| key | what it is |
| --- | --- |
";

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
        let said = field["description"].as_str().unwrap_or_default().replace('\n', " ");
        assert!(!said.is_empty(), "{key} does not say what it is");
        let inner = resolve(field, root);
        let item = resolve(&inner["items"], root);
        if inner["properties"].is_object() {
            rows(&format!("{key}."), inner, root, out);
        } else {
            let _ = writeln!(out, "| `{key}` | {} |", said.replace('|', "\\|"));
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
fn the_glossary_has_every_key() {
    let schema = schemars::schema_for!(Summary).to_value();
    let mut page = HEAD.to_owned();
    rows("", &schema, &schema, &mut page);
    for (key, said) in scheme_counters() {
        let _ = writeln!(page, "| `{key}` | {}. |", capital(said));
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
        assert!(page.contains(&format!("| `{key}` |")), "no {key}");
    }
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/docs/metrics.md");
    if std::env::var("METRICS").is_ok_and(|v| v == "write") {
        std::fs::write(path, &page).expect("docs can be written");
    }
    let found = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        found == page,
        "docs/metrics.md is not what the code says: renew it with METRICS=write cargo test --test program metrics::"
    );
}
