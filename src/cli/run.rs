use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use nandle_lab::run::{Outcome, Run};

use super::{Failure, args, say};
use crate::progress::Bar;
use crate::table;

/// Set by Ctrl-C.
static STOP: AtomicBool = AtomicBool::new(false);

/// `nandle run`
pub fn run(args: Box<args::Run>) -> Result<(), Failure> {
    let drive = args.device.load()?;
    let job = Run {
        drive,
        asked: args.asked(),
        seed: args.seed,
        verify: args.verify,
        power_cuts: args.power_cut_at.clone(),
        output: args.output.clone(),
        io_log: args.io_log,
    };
    // The second Ctrl-C does not wait for a report.
    let handler = || {
        if STOP.swap(true, Ordering::Relaxed) {
            std::process::exit(130);
        }
    };
    // Without a handler Ctrl-C ends the run with no report: worth no failure.
    let _ = ctrlc::set_handler(handler);
    let mut bar = Bar::new();
    let outcome = job.go(&STOP, &mut |progress| bar.update(progress));
    bar.finish();
    let outcome = outcome?;
    report(&args, &outcome)?;
    verdict(&outcome)
}

fn report(args: &args::Run, outcome: &Outcome) -> Result<(), Failure> {
    let json = || {
        let mut text = serde_json::to_string_pretty(&outcome.summary).unwrap_or_default();
        text.push('\n');
        text
    };
    match &args.json {
        Some(path) if path.as_os_str() == "-" => return say(&json()),
        Some(path) => {
            std::fs::write(path, json()).map_err(|e| Failure::Ran(format!("{}: {e}", path.display())))?;
        }
        None => {}
    }
    let mut text = table::summary(&outcome.summary);
    for (what, path) in [("run directory", &args.output), ("summary", &args.json)] {
        if let Some(path) = path {
            text += &format!("{what}: {}\n", Path::new(path).display());
        }
    }
    say(&text)
}

fn verdict(outcome: &Outcome) -> Result<(), Failure> {
    let integrity = &outcome.summary.integrity;
    if integrity.mismatches > 0 {
        let mut what = format!(
            "integrity: {} of {} sectors read back wrong (this is a bug of the simulator)",
            integrity.mismatches, integrity.checked_sectors
        );
        for m in &outcome.mismatches {
            what += &format!(
                "\n  sector {}: write {} found, writes {} to {} allowed",
                m.lsn, m.found, m.allowed.0, m.allowed.1
            );
        }
        return Err(Failure::Ran(what));
    }
    if !outcome.summary.complete {
        return Err(Failure::Ran("interrupted: the report covers what was simulated so far".into()));
    }
    Ok(())
}
