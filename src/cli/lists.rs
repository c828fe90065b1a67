//! What there is to choose from (presets, schemes, workloads), and whether a device file stands.

use std::fmt::Write;

use nandle_lab::config::{self, PRESETS, SHORTHANDS, Wanted};
use nandle_trace::synthetic;
use serde_json::{Value, json};

use super::args;
use super::terminal::{Failure, json_text, say};

/// A list as JSON, or as text.
fn shown(json: Option<Value>, text: &str) -> Result<(), Failure> {
    match json {
        Some(list) => say(&json_text(&list)),
        None => say(text),
    }
}

/// `nandle presets`
pub fn presets(json: bool) -> Result<(), Failure> {
    let (mut text, mut list) = (String::new(), Vec::new());
    for preset in PRESETS {
        let drive = preset.load()?;
        let config = &drive.config;
        let _ = writeln!(text, "{:<20} {:<36} {}", preset.name, preset.size(), config.description);
        list.push(json!({
            "name": preset.name, "description": config.description, "raw_bytes": config.geometry.raw_bytes(),
            "logical_bytes": drive.layout.logical_bytes, "op_ratio": config.op_ratio, "scheme": drive.scheme(),
        }));
    }
    text += "\nUse one with --device NAME, or a fraction of it, such as NAME@1/16; change it with --set FIELD=VALUE; `nandle validate NAME` shows every field.\n";
    shown(json.then(|| list.into()), &text)
}

/// `nandle schemes`
pub fn schemes(json: bool) -> Result<(), Failure> {
    let (mut text, mut list) = (String::new(), Vec::new());
    let mut seam = "";
    for policy in config::policies() {
        if policy.seam != seam {
            seam = policy.seam;
            let question = match seam {
                "scheme.buffer" => "what waits in RAM and what leaves first (needs buffer.bytes)",
                "scheme.mapping" => "how a write is placed",
                "scheme.compaction" => "whether small partial pages share a physical page",
                "scheme.allocation" => "which page type it gets",
                "scheme.streams" => "which block it goes to",
                "scheme.pacing" => "when garbage is collected",
                _ => "which block is collected",
            };
            let _ = writeln!(text, "{seam}: {question}");
        }
        let form = config::form(&policy.settings());
        list.push(json!({ "seam": seam, "name": policy.name, "settings": form, "description": policy.line }));
        let form = if form.is_empty() { form } else { format!(" {form}") };
        let _ = writeln!(text, "  {:<16} {}{form}", policy.name, policy.line);
    }
    let outside = config::registered();
    if !outside.is_empty() {
        let _ = writeln!(text, "from outside: asked before the drive's own");
    }
    for scheme in outside {
        let _ = writeln!(text, "  {:<16} {}", scheme.name(), scheme.line());
        list.push(json!({ "seam": "outside", "name": scheme.name(), "description": scheme.line() }));
    }
    let _ = writeln!(text, "names of sums");
    for short in SHORTHANDS {
        let _ = writeln!(text, "  {:<16} = {}  {}", short.name, short.sum, short.line);
        list.push(json!({ "seam": "sum", "name": short.name, "sum": short.sum, "description": short.line }));
    }
    text += "\nAdd them up: --scheme fifo+page; settings go in brackets: multi-stream(8), fdp(8,persistently), pc-lru(insert=head). Where a name occurs twice, say which: --scheme page+victim=fifo.\n";
    shown(json.then(|| list.into()), &text)
}

/// `nandle workloads`
pub fn workloads(json: bool) -> Result<(), Failure> {
    let (mut text, mut list) = (String::new(), Vec::new());
    for (name, line) in synthetic::list() {
        list.push(json!({ "name": name, "description": line }));
        let _ = writeln!(text, "{name:<28} {line}");
    }
    text += "\nUse one with --workload NAME; a trace file, a fio job file (*.fio) or a fitted trace (*.toml) will do too.\n";
    shown(json.then(|| list.into()), &text)
}

/// `nandle validate`
pub fn validate(args: &args::Validate) -> Result<(), Failure> {
    let drive = Wanted { device: &args.device, scheme: args.scheme.as_deref(), sets: &args.sets }.load()?;
    let json = args.json.then(|| {
        json!({
            "raw_bytes": drive.config.geometry.raw_bytes(), "logical_bytes": drive.layout.logical_bytes,
            "scheme": drive.resolved_scheme(), "config": drive.config,
        })
    });
    shown(json, &config::resolved(&drive))
}

/// `nandle schema`
pub fn schema() -> Result<(), Failure> {
    say(&json_text(&config::schema()))
}
