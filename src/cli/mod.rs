//! Commands: arguments in, text and exit code out.

mod args;
mod lists;
mod run;
mod serve;
mod trace;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
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

/// Parses the command line and carries it out.
pub fn main() -> ExitCode {
    let args = args::Args::parse();
    let result = match args.command {
        args::Command::Run(run) => run::run(run),
        args::Command::Serve(serve) => serve::serve(serve),
        args::Command::Presets => lists::presets(),
        args::Command::Schemes => lists::schemes(),
        args::Command::Workloads => lists::workloads(),
        args::Command::Validate(validate) => lists::validate(&validate),
        args::Command::Schema => lists::schema(),
        args::Command::Trace(command) => trace::trace(command),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure::Input(what)) => {
            eprintln!("nandle: {what}");
            ExitCode::from(2)
        }
        Err(Failure::Ran(what)) => {
            eprintln!("nandle: {what}");
            ExitCode::from(1)
        }
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
