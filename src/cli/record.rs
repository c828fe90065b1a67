//! `nandle record`: a program run unmodified, its files' calls as block requests.

use std::path::PathBuf;

use clap::{Args as Group, ValueEnum};
use nandle_cost::record::Recording;
use nandle_lab::units::{bytes, count, time};
use nandle_observe::tree::Tree;
use nandle_observe::{Means, Task};

use super::terminal::{Failure, remark, stop_on_interrupt};

/// How the program is watched.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Watch {
    /// FUSE if this user may mount, else the program's calls.
    #[default]
    Auto,
    /// A mounted folder.
    Fuse,
    /// The program's system calls (ptrace).
    Calls,
}

impl From<Watch> for Means {
    fn from(watch: Watch) -> Self {
        match watch {
            Watch::Auto => Self::Any,
            Watch::Fuse => Self::Fuse,
            Watch::Calls => Self::Calls,
        }
    }
}

/// `nandle record`
#[derive(Debug, Group)]
pub struct Record {
    /// The trace (.parquet; else nandle's csv). What is known of the files goes to TRACE.files.json.
    #[arg(short, long, value_name = "TRACE")]
    pub output: PathBuf,
    /// A folder whose files are there when the program starts (they are copied, the folder is left alone).
    #[arg(long, value_name = "NAME")]
    pub dir: Option<PathBuf>,
    /// How the program is watched.
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    pub watch: Watch,
    /// The program and its arguments, or a command of the shell in one word. It keeps its files in the
    /// folder $NANDLE_DIR.
    #[arg(required = true, last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

impl From<nandle_cost::Error> for Failure {
    fn from(e: nandle_cost::Error) -> Self {
        match e {
            nandle_cost::Error::Lab(e) => e.into(),
            nandle_cost::Error::Trace(e) => e.into(),
            e => Self::Input(e.to_string()),
        }
    }
}

/// The files of a folder; one that is not there is empty.
pub fn files_of(dir: Option<&PathBuf>) -> Result<Tree, Failure> {
    match dir {
        Some(dir) if dir.exists() => Tree::load(dir).map_err(|e| {
            Failure::Input(format!("--dir: {}: {e}; expected a folder that can be read", dir.display()))
        }),
        _ => Ok(Tree::default()),
    }
}

/// `nandle record`
pub fn record(args: Record) -> Result<(), Failure> {
    let tree = files_of(args.dir.as_ref())?;
    let means: Means = args.watch.into();
    let task = Task { command: args.command, tree, means, reads: true, echo: true };
    let recording = Recording::make(task, stop_on_interrupt())?;
    let beside = recording.write(&args.output)?;
    let told = &recording.told;
    // Standard output is the program's.
    remark(&format!(
        "{}: {} requests; {} written by the program, {} by the file system, {} flushes, {}",
        args.output.display(),
        count(recording.requests.len() as u64),
        bytes(told.logical_bytes),
        bytes(recording.written()),
        count(told.flushes),
        time(told.duration_ns as f64)
    ));
    for (kind, written) in &told.kinds {
        remark(&format!(
            "  {kind:<10} {:>10} by the program, {:>10} by the file system",
            bytes(written.logical_bytes),
            bytes(written.block_bytes)
        ));
    }
    remark(&format!("files: {}", beside.display()));
    Ok(())
}
