//! `nandle report`: reports of run directories made again, alone or together.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use nandle_lab::output::{self, ORDER, Order, REPORT};
use nandle_lab::report;
use nandle_lab::run::{Loaded, files_of};
use nandle_lab::{batch, logs};
use nandle_studies::reproduce::{self, render};

use super::args;
use super::terminal::{Failure, json_text, say};

/// The title of a report that has `done` of `wanted` runs.
pub fn marked(title: &str, done: usize, wanted: usize) -> String {
    if done < wanted { format!("{title} (partial: {done} of {wanted} runs)") } else { title.to_owned() }
}

/// The joint report of a directory of runs.
pub fn joint(dir: &Path) -> Result<PathBuf, Failure> {
    let (title, runs) = inside(dir)?;
    output::directory(dir)?;
    Ok(report::write_runs(&title, &runs, &dir.join(REPORT))?)
}

/// `nandle report`
pub fn report(args: &args::Report) -> Result<(), Failure> {
    if let Some(page) = args.log {
        let [dir] = args.dirs.as_slice() else {
            return Err(Failure::Input(format!(
                "--as: expected one run directory, found {}",
                args.dirs.len()
            )));
        };
        let value = logs::page(page, &Loaded::read(dir)?)?;
        return say(&json_text(&value));
    }
    if let (Some(file), [_, _, ..]) = (args.dirs.iter().find(|path| path.is_file()), args.dirs.as_slice())
        && args.output.is_some()
    {
        return Err(Failure::Input(format!(
            "{}: the JSON of a reproduction has a page of its own; with -o FILE expected it alone",
            file.display()
        )));
    }
    let mut written = Vec::new();
    let mut joint = Vec::new();
    for path in &args.dirs {
        if path.is_file() {
            let to = args.output.clone().unwrap_or_else(|| path.with_extension("html"));
            written.push(claims(path, &to)?);
        } else if Loaded::is_run(path) {
            joint.push(path.clone());
            if args.output.is_none() {
                written.push(report::write_run(path)?);
            }
        } else {
            if args.output.is_none() {
                written.push(self::joint(path)?);
            }
            joint.extend(inside(path)?.1);
        }
    }
    if let Some(output) = args.output.as_ref().filter(|_| !joint.is_empty()) {
        let lists = args.dirs.iter().map(|dir| dir.join(ORDER));
        let files: Vec<PathBuf> = joint.iter().flat_map(|run| files_of(run)).chain(lists).collect();
        output::file(output, files.iter().map(PathBuf::as_path))?;
        written.push(report::write_runs("Comparison of runs", &joint, output)?);
    }
    let mut text = String::new();
    for path in written {
        let _ = writeln!(text, "report: {}", path.display());
    }
    say(&text)
}

/// The runs of a directory of runs.
fn inside(dir: &Path) -> Result<(String, Vec<PathBuf>), Failure> {
    let (title, runs) = match Order::read(dir) {
        // Of a run that was interrupted nothing is compared.
        Some(order) => {
            let all = order.runs.len();
            let done: Vec<PathBuf> = (order.runs.iter().map(|name| dir.join(name)))
                .filter(|run| batch::finished(run).is_some())
                .collect();
            (marked(&order.title, done.len(), all), done)
        }
        None => {
            let name = dir
                .file_name()
                .map_or_else(|| dir.display().to_string(), |n| n.to_string_lossy().into_owned());
            (name, batch::runs_in(dir)?)
        }
    };
    let runs: Vec<PathBuf> = runs.into_iter().filter(|run| Loaded::is_run(run)).collect();
    if runs.is_empty() {
        return Err(Failure::Input(format!(
            "{}: no finished run in it; expected a run directory or a directory of runs",
            dir.display()
        )));
    }
    Ok((title, runs))
}

/// The page of a reproduction's claims.
fn claims(path: &Path, to: &Path) -> Result<PathBuf, Failure> {
    output::file(to, [path])?;
    let wrong =
        |e: String| Failure::Input(format!("{}: {e}; expected the JSON of a reproduction", path.display()));
    let text = std::fs::read_to_string(path).map_err(|e| wrong(e.to_string()))?;
    let claims: reproduce::Report = serde_json::from_str(&text).map_err(|e| wrong(e.to_string()))?;
    std::fs::write(to, render(&claims)).map_err(|e| Failure::Ran(format!("{}: {e}", to.display())))?;
    Ok(to.to_owned())
}
