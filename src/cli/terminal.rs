//! What every command needs of the terminal: its output, Ctrl-C, and why it failed.

use std::io::{self, Write};
use std::sync::atomic::{AtomicBool, Ordering};

use nandle_lab::Error;

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

/// A line on standard error, if anybody reads it.
pub fn remark(text: &str) {
    let _ = writeln!(io::stderr(), "{text}");
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
