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
}

impl From<Error> for Failure {
    fn from(e: Error) -> Self {
        if e.is_input() { Self::Input(e.to_string()) } else { Self::Ran(e.to_string()) }
    }
}

impl From<nandle_trace::Error> for Failure {
    fn from(e: nandle_trace::Error) -> Self {
        Self::Input(e.to_string())
    }
}

/// Prints to standard output; a reader that has gone away is no error.
pub fn say(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(Failure::Ran(format!("standard output: {e}"))),
        _ => Ok(()),
    }
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
