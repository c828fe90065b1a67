//! The command line of nandle: what happens to writes inside an SSD.
#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    nandle::main()
}
