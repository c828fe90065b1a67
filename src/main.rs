//! The command line of nandle: what happens to writes inside an SSD.
#![warn(missing_docs)]
#![forbid(unsafe_code)]

mod cli;
mod progress;
mod table;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
