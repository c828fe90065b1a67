//! What every command needs of the terminal: its output, Ctrl-C, and why it failed.

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use nandle_lab::Error;
use serde::Serialize;

use crate::progress::is_quiet;

/// Why a command failed.
pub enum Failure {
    /// Something that was asked for makes no sense: exit code 2.
    Input(String),
    /// It ran, and failed: exit code 1.
    Ran(String),
    /// Whoever read what it said has gone away, which is no failure: exit code 0.
    Unread,
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        if let Error::Trace(e) = e {
            return e.into();
        }
        if e.is_input() { Self::Input(e.to_string()) } else { Self::Ran(e.to_string()) }
    }
}

impl From<nandle_trace::Error> for Failure {
    fn from(e: nandle_trace::Error) -> Self {
        match e {
            nandle_trace::Error::Io { source, .. } if source.kind() == io::ErrorKind::BrokenPipe => {
                Self::Unread
            }
            e => Self::Input(e.to_string()),
        }
    }
}

/// Prints to standard output; a reader that has gone away is no error, and what is left to do is done.
pub fn say(text: &str) -> Result<(), Failure> {
    match tell(text) {
        Err(Failure::Unread) => Ok(()),
        told => told,
    }
}

/// Prints to standard output, where there is no more to do than that.
pub fn tell(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|e| match e.kind() {
        io::ErrorKind::BrokenPipe => Failure::Unread,
        _ => Failure::Ran(format!("standard output: {e}")),
    })
}

/// A value as the JSON that commands print.
pub fn json_text(value: &impl Serialize) -> String {
    serde_json::to_string_pretty(value).unwrap_or_default() + "\n"
}

/// Writes a value as JSON to a file, or to standard output for `-`.
pub fn put(path: &Path, value: &impl Serialize) -> Result<(), Failure> {
    let text = json_text(value);
    if path.as_os_str() == "-" {
        return say(&text);
    }
    std::fs::write(path, text).map_err(|e| Failure::Ran(format!("{}: {e}", path.display())))
}

/// Why a command failed, on standard error, if anybody reads it.
pub fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "{} {what}", console::style("nandle:").for_stderr().red().bold());
}

/// A remark on standard error, if anybody reads it and wants to.
pub fn remark(text: &str) {
    if !is_quiet() {
        let _ = writeln!(io::stderr(), "{text}");
    }
}

/// Prints a table for people, with what they must not overlook in colour.
pub fn show(table: &str) -> Result<(), Failure> {
    let mut text = table.to_owned();
    for (words, style) in [
        ("steady state: no", console::Style::new().yellow()),
        ("no verdict", console::Style::new().yellow()),
        ("steady state: yes", console::Style::new().green()),
        ("WRONG", console::Style::new().red().bold()),
        ("REJECTED", console::Style::new().red().bold()),
        ("READ-ONLY", console::Style::new().red().bold()),
    ] {
        if text.contains(words) {
            text = text.replace(words, &style.apply_to(words).to_string());
        }
    }
    say(&text)
}

/// From now on Ctrl-C removes a file that is not whole yet, and ends the program.
pub fn remove_on_interrupt(unfinished: PathBuf) {
    let handler = move || {
        let _ = std::fs::remove_file(&unfinished);
        std::process::exit(130);
    };
    // Without a handler Ctrl-C leaves the file: worth no failure.
    let _ = ctrlc::set_handler(handler);
}

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C sets the flag; the second one does not wait for a report.
pub fn stop_on_interrupt() -> &'static AtomicBool {
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    // Without a handler Ctrl-C ends the run with no report: worth no failure.
    let _ = ctrlc::set_handler(handler);
    &STOP
}
