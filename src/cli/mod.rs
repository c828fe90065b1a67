//! Commands: arguments in, text and exit code out.

mod args;
mod atlas;
mod compare;
#[cfg(target_os = "linux")]
mod cost;
#[cfg(target_os = "linux")]
mod crash_test;
mod ctl;
mod doctor;
mod fsck;
mod lists;
mod outputs;
#[cfg(target_os = "linux")]
mod record;
mod report;
mod reproduce;
mod run;
mod serve;
mod settling;
mod stat;
mod sweep;
mod terminal;
mod trace;
#[cfg(target_os = "linux")]
mod watched;

use std::io;
use std::path::Path;
use std::process::ExitCode;

use clap::CommandFactory;

use terminal::{Failure, complain, say};

/// Parses the command line and carries it out.
pub fn main() -> ExitCode {
    let args = args::parse();
    let result = match args.command {
        args::Command::Run(run) => run::run(run),
        args::Command::Serve(serve) => serve::serve(serve),
        args::Command::Ctl(args) => ctl::ctl(&args),
        args::Command::FlashAlloc(args) => serve::flashalloc(&args),
        args::Command::Fsck(args) => fsck::fsck(&args),
        args::Command::Stat(args) => stat::stat(&args),
        args::Command::Top(args) => stat::top(&args),
        args::Command::Compare(compare) => compare::compare(compare),
        args::Command::Sweep(sweep) => sweep::sweep(&sweep),
        args::Command::Gather(gather) => sweep::gather(&gather),
        args::Command::Report(report) => report::report(&report),
        args::Command::Atlas(args) => atlas::atlas(&args),
        args::Command::Reproduce(reproduce) => reproduce::reproduce(reproduce),
        args::Command::Presets(listing) => lists::presets(listing.json),
        args::Command::Schemes(listing) => lists::schemes(listing.json),
        args::Command::Workloads(listing) => lists::workloads(listing.json),
        args::Command::Validate(validate) => lists::validate(&validate),
        args::Command::Schema => lists::schema(),
        args::Command::Trace(command) => trace::trace(command),
        #[cfg(target_os = "linux")]
        args::Command::CrashTest(args) => crash_test::crash_test(&args),
        #[cfg(target_os = "linux")]
        args::Command::Record(args) => record::record(args),
        #[cfg(target_os = "linux")]
        args::Command::Cost(args) => cost::cost(&args),
        args::Command::Doctor(args) => doctor::doctor(&args),
        args::Command::Completions { shell } => completions(shell),
        args::Command::Man { dir } => man(&dir),
    };
    match result {
        Ok(()) | Err(Failure::Unread) => ExitCode::SUCCESS,
        Err(Failure::Input(what)) => {
            complain(&what);
            ExitCode::from(2)
        }
        Err(Failure::Ran(what)) => {
            complain(&what);
            ExitCode::from(1)
        }
    }
}

fn completions(shell: clap_complete::Shell) -> Result<(), Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut args::Args::command(), "nandle", &mut text);
    say(&String::from_utf8_lossy(&text))
}

fn man(dir: &Path) -> Result<(), Failure> {
    let fail = |e: io::Error| {
        Failure::Input(format!("{}: {e}; expected a directory that can be written", dir.display()))
    };
    fn pages(command: &clap::Command) -> usize {
        1 + command.get_subcommands().filter(|sub| !sub.is_hide_set()).map(pages).sum::<usize>()
    }
    std::fs::create_dir_all(dir).map_err(fail)?;
    let command = args::Args::command().disable_help_subcommand(true);
    let pages = pages(&command);
    clap_mangen::generate_to(command, dir).map_err(fail)?;
    say(&format!(
        "{pages} pages in {}; read one with `man -l {}/nandle-run.1`\n",
        dir.display(),
        dir.display()
    ))
}
