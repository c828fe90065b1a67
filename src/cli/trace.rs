//! `nandle trace`: traces described, converted, generated and fitted.

use std::fmt::Write;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

use nandle_lab::config::Wanted;
use nandle_lab::workload::{Asked, Opened};
use nandle_trace::synthetic::{self, Published};
use nandle_trace::{Format, Info, InfoOptions, Request, Source, WRITABLE};
use serde_json::json;

use super::args::{Input, Trace};
use super::terminal::{Failure, json_text, remark, remove_on_interrupt, say};

/// `nandle trace ...`
pub fn trace(command: Trace) -> Result<(), Failure> {
    match command {
        Trace::Info { input, json } => info(&input, json),
        Trace::Convert { input, output, to } | Trace::Generate { input, output, to } => {
            convert(&input, &output, to)
        }
        Trace::Formats(listing) => formats(listing.json),
        Trace::Head { input, lines, json } => head(&input, lines, json),
        Trace::Fit { input, output } => fit(&input, &output),
    }
}

/// What is read.
fn formats(json: bool) -> Result<(), Failure> {
    let (mut text, mut list) = (String::new(), Vec::new());
    for format in Format::ALL {
        let (name, line, written) = (format.name(), format.line(), WRITABLE.contains(&format));
        list.push(json!({ "name": name, "line": line, "written": written }));
        let _ = writeln!(text, "{name:<15} {line}");
    }
    text += "\nFound by content, compressed (.gz, .zst, .xz) or not; --format NAME decides.\n";
    say(&if json { json_text(&list) } else { text })
}

fn open(input: &Input) -> Result<Opened, Failure> {
    let drive = Wanted { device: &input.device, scheme: None, sets: &input.sets }.load()?;
    let asked = Asked {
        workload: input.workload.clone(),
        seed: input.seed,
        requests: input.requests,
        trace: input.reading.options(),
        ..Asked::default()
    };
    Ok(asked.open(&drive)?)
}

fn say_notes(notes: &[String]) {
    for note in notes {
        remark(&format!("note: {note}"));
    }
}

fn info(input: &Input, json: bool) -> Result<(), Failure> {
    let mut opened = open(input)?;
    let info = Info::of(&mut opened, &InfoOptions::default())?;
    say_notes(&opened.notes());
    if info.requests == 0 {
        return Err(empty(input));
    }
    if json {
        return say(&json_text(&info));
    }
    let mut text = format!("{}: {}\n{info}\n", input.workload, opened.kind);
    if let Some(row) = synthetic::published(&input.workload) {
        text += &published(&row, &info);
    }
    say(&text)
}

fn empty(input: &Input) -> Failure {
    Failure::Input(format!("{}: no requests in it; expected a trace", input.workload))
}

/// What a paper prints about the trace that a workload is the twin of, beside what the twin has.
fn published(row: &Published, info: &Info) -> String {
    let page = |bytes: u64| info.pages.iter().find(|p| p.page_bytes == bytes);
    let share = |bytes: u64, f: fn(&nandle_trace::PageInfo) -> f64| page(bytes).map(|p| f(p) / 100.0);
    let lines = [
        ("requests", row.requests, Some(info.requests as f64)),
        ("write share", row.write_share, Some(info.write_pct / 100.0)),
        ("mean size", row.mean_bytes, Some(info.mean_bytes)),
        ("mean write size", row.mean_write_bytes, Some(info.write.mean_bytes)),
        ("partial writes, 8 KiB", row.partial_writes_8k, share(8192, |p| p.partial_writes_pct)),
        ("partial writes, 16 KiB", row.partial_writes_16k, share(16384, |p| p.partial_writes_pct)),
        ("partial updates, 8 KiB", row.partial_updates_8k, share(8192, |p| p.partial_updates_pct)),
        ("partial updates, 16 KiB", row.partial_updates_16k, share(16384, |p| p.partial_updates_pct)),
        (
            "updates of partial pages",
            row.updates_hit_partial,
            share(16384, |p| p.partial_updates_of_partial_pct),
        ),
        ("across-page, 8 KiB", row.across_8k, share(8192, |p| p.across_page_pct)),
        ("unaligned writes, 8 KiB", row.unaligned_writes_8k, share(8192, |p| p.unaligned_writes_pct)),
        ("unaligned writes, 16 KiB", row.unaligned_writes_16k, share(16384, |p| p.unaligned_writes_pct)),
    ];
    let mut text = format!("\npublished ({})        paper    this twin\n", row.paper);
    for (name, paper, twin) in lines {
        if let (Some(paper), Some(twin)) = (paper, twin) {
            let show =
                |v: f64| if v.abs() <= 1.0 { format!("{:.1} %", v * 100.0) } else { format!("{v:.0}") };
            let _ = writeln!(text, "  {name:<26} {:>12} {:>12}", show(paper), show(twin));
        }
    }
    if !row.assumed.is_empty() {
        let _ = writeln!(text, "  assumed from a mean over its traces: {}", row.assumed.join(", "));
    }
    text
}

/// What is read is not written over.
fn keep_apart(input: &Input, output: &Path) -> Result<(), Failure> {
    let file = |path: &Path, standard| {
        let path = if path.as_os_str() == "-" { Path::new(standard) } else { path };
        fs::metadata(path).ok().filter(fs::Metadata::is_file).map(|meta| (meta.dev(), meta.ino()))
    };
    let read = file(Path::new(&input.workload), "/dev/stdin");
    if read.is_some() && read == file(output, "/dev/stdout") {
        let name = output.display();
        return Err(Failure::Input(format!("{name}: the file that is read; expected another to write to")));
    }
    Ok(())
}

fn convert(input: &Input, output: &Path, to: Option<Format>) -> Result<(), Failure> {
    keep_apart(input, output)?;
    let mut opened = open(input)?;
    let name = output.to_string_lossy();
    let format =
        to.unwrap_or(if name.ends_with(".parquet") { Format::NandleParquet } else { Format::Nandle });
    let mut requests = Vec::new();
    opened.fill(&mut requests, 4096)?;
    if requests.is_empty() {
        say_notes(&opened.notes());
        return Err(empty(input));
    }
    let mut writer = nandle_trace::replace(output, format)?;
    if let Some(unfinished) = writer.unfinished() {
        remove_on_interrupt(unfinished.to_owned());
    }
    writer.write(&requests)?;
    let written = nandle_trace::convert(&mut opened, writer)?;
    say_notes(&opened.notes());
    if name != "-" {
        remark(&format!("{name}: {} requests as {format}", written.requests));
    }
    for (why, n) in &written.left_out {
        remark(&format!("note: left out {n}: {why}"));
    }
    if written.cut_times > 0 {
        remark(&format!("note: {} times were cut to the format's clock", written.cut_times));
    }
    if written.cut_attributes > 0 {
        remark(&format!(
            "note: {} requests lost attributes that the format cannot hold",
            written.cut_attributes
        ));
    }
    Ok(())
}

fn head(input: &Input, lines: u64, json: bool) -> Result<(), Failure> {
    let mut opened = open(input)?;
    let mut text =
        format!("{:>16}  {:<10} {:>16} {:>12}  stream object fua\n", "time_ns", "op", "offset", "bytes");
    let mut requests: Vec<Request> = Vec::new();
    while (requests.len() as u64) < lines {
        let before = requests.len();
        opened.fill(&mut requests, (lines - before as u64).min(4096) as usize)?;
        if requests.len() == before {
            break;
        }
    }
    if json {
        let row = |r: &Request| {
            json!({ "time_ns": r.time_ns, "op": r.op.name(), "offset": r.offset, "bytes": r.bytes,
                    "stream": r.stream, "object": r.object, "fua": r.fua })
        };
        say_notes(&opened.notes());
        return say(&json_text(&requests.iter().map(row).collect::<Vec<_>>()));
    }
    for r in &requests {
        let op = r.op.name();
        let fua = if r.fua { "yes" } else { "-" };
        let _ = writeln!(
            text,
            "{:>16}  {op:<10} {:>16} {:>12}  {:>6} {:>6} {fua}",
            r.time_ns, r.offset, r.bytes, r.stream, r.object
        );
    }
    say_notes(&opened.notes());
    say(&text)
}

fn fit(input: &Input, output: &Path) -> Result<(), Failure> {
    keep_apart(input, output)?;
    let mut opened = open(input)?;
    let fitted = synthetic::fit(&mut opened, &input.workload)?;
    let text = nandle_lab::workload::fitted_toml(&fitted)?;
    say_notes(&opened.notes());
    if output.as_os_str() == "-" {
        return say(&text);
    }
    fs::write(output, text).map_err(|e| Failure::Ran(format!("{}: {e}", output.display())))?;
    remark(&format!("{}: use it with --workload", output.display()));
    if let Some(misses) = fitted.misses(input.seed) {
        remark(&format!("note: {misses}"));
    }
    Ok(())
}
