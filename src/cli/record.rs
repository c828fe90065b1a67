//! `nandle record`: a program run unmodified, its files' calls as block requests.

use nandle_cost::record::{Recording, beside};
use nandle_lab::output;
use nandle_lab::units::{bytes, count, time};
use nandle_observe::{Locate, Means, Task};

use super::terminal::{Failure, remark, stop_on_interrupt};
use super::watched::{Layout, Record, Watch, files_of};

impl From<nandle_cost::Error> for Failure {
    fn from(e: nandle_cost::Error) -> Self {
        match e {
            nandle_cost::Error::Lab(e) => e.into(),
            nandle_cost::Error::Trace(e) => e.into(),
            e => Self::Input(e.to_string()),
        }
    }
}

/// `nandle record`
pub fn record(args: Record) -> Result<(), Failure> {
    for path in [&args.output, &beside(&args.output)] {
        output::file(path, args.strace.as_deref())?;
    }
    let recording = match &args.strace {
        Some(file) => {
            let (seen, unseen) = nandle_cost::strace::read(file, args.under.as_deref())?;
            if unseen.mapped > 0 {
                remark(&format!(
                    "nandle: {} files were written through mappings, which strace does not see: record the program itself",
                    unseen.mapped
                ));
            }
            Recording::seen(&file.display().to_string(), &seen)?
        }
        None => {
            let tree = files_of(args.dir.as_ref())?;
            let by_file_system = args.layout == Layout::Fiemap;
            if by_file_system && matches!(args.watch, Watch::Fuse) {
                return Err(Failure::Input(
                    "--layout fiemap: under FUSE files are in memory and lie on no drive; expected --watch calls"
                        .into(),
                ));
            }
            let means: Means = args.watch.into();
            let places = by_file_system.then_some(nandle_cost::places::locate as Locate);
            let task =
                Task { command: args.command, tree, means, disk: None, places, reads: true, echo: true };
            Recording::make(task, stop_on_interrupt())?
        }
    };
    let beside = recording.write(&args.output).map_err(|e| Failure::Ran(e.to_string()))?;
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
    if told.unplaced_bytes > 0 {
        remark(&format!(
            "{} were written to blocks that the file system told no place of; the model gave them one",
            bytes(told.unplaced_bytes)
        ));
    }
    remark(&format!("files: {}", beside.display()));
    Ok(())
}
