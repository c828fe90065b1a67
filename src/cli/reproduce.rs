use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};
use nandle_lab::report::ledger::{Ledger, render};
use nandle_lab::reproduce::{self, Options, Paper, Report, Step};

use super::{Failure, say, stop_on_interrupt};

/// Which paper, how, and where the results go.
#[derive(Debug, clap::Args)]
pub struct Reproduce {
    /// The paper; without one, papers and their claims are listed.
    #[arg(value_name = "PAPER")]
    pub paper: Option<String>,
    /// Only this claim.
    #[arg(long, value_name = "ID", requires = "paper")]
    pub claim: Option<String>,
    /// Smaller devices and fewer requests: well under a minute.
    #[arg(long)]
    pub quick: bool,
    /// Runs at a time; as many as there are processors if not given. Figures do not depend on it.
    #[arg(short = 'j', long = "jobs", value_name = "N")]
    pub threads: Option<usize>,
    /// Folder of real traces, replayed beside the generated ones; NANDLE_TRACES if not given.
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Write reproduction.md, reproduction.json and report.html into this folder.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write everything as JSON to a file, or to standard output for `-`.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Show the runs behind the claims too.
    #[arg(long)]
    pub tables: bool,
    /// Seed of devices and generated workloads.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// How often a log is told what was done, where there is no terminal to draw on.
const EVERY: Duration = Duration::from_secs(30);

/// `nandle reproduce`
pub fn reproduce(args: Reproduce) -> Result<(), Failure> {
    let Some(name) = &args.paper else { return say(&papers()) };
    let paper = Paper::named(name)?;
    let options = Options {
        quick: args.quick,
        claim: args.claim.clone(),
        threads: args.threads.unwrap_or_else(|| std::thread::available_parallelism().map_or(1, |n| n.get())),
        seed: args.seed,
        traces: args.traces.clone(),
    };
    let bar = ProgressBar::new(0);
    if let Ok(style) = ProgressStyle::with_template("[{bar:32}] {pos}/{len} runs, {elapsed} {msg}") {
        bar.set_style(style.progress_chars("=> "));
    }
    let told = Mutex::new(Instant::now());
    let progress = |step: &Step<'_>| {
        bar.set_length(step.total as u64);
        bar.set_position(step.done as u64);
        bar.set_message(step.name.to_owned());
        let mut told = told.lock().expect("no thread panicked");
        if !std::io::stderr().is_terminal() && told.elapsed() >= EVERY {
            *told = Instant::now();
            eprintln!("{} of {} runs: {}", step.done, step.total, step.name);
        }
    };
    let report = reproduce::run(paper, &options, stop_on_interrupt(), &progress);
    bar.finish_and_clear();
    let report = report?;
    write(&report, &args)?;
    if report.partial {
        return Err(Failure::Ran("interrupted: the report is partial".into()));
    }
    Ok(())
}

fn write(report: &Report, args: &Reproduce) -> Result<(), Failure> {
    let json = serde_json::to_string_pretty(report).unwrap_or_default() + "\n";
    let save = |path: &Path, text: &str| {
        std::fs::write(path, text).map_err(|e| Failure::Ran(format!("{}: {e}", path.display())))
    };
    let mut text = report.text(args.tables);
    if let Some(folder) = &args.output {
        std::fs::create_dir_all(folder).map_err(|e| Failure::Ran(format!("{}: {e}", folder.display())))?;
        save(&folder.join("reproduction.json"), &json)?;
        save(&folder.join("reproduction.md"), &report.markdown())?;
        let ledger: Ledger =
            serde_json::from_str(&json).map_err(|e| Failure::Ran(format!("report.html: {e}")))?;
        save(&folder.join("report.html"), &render(&ledger))?;
        text += &format!("report: {}\n", folder.join("reproduction.md").display());
    }
    match &args.json {
        Some(path) if path.as_os_str() == "-" => return say(&json),
        Some(path) => save(path, &json)?,
        None => {}
    }
    say(&text)
}

/// What can be reproduced.
fn papers() -> String {
    let mut text = String::new();
    for paper in Paper::all() {
        text += &format!("{:<14} {}\n", paper.name(), paper.title());
        for claim in paper.claims() {
            text += &format!("  {claim}\n");
        }
    }
    text + "\nUse one with `nandle reproduce PAPER`, one claim alone with --claim ID; --quick takes seconds.\n"
}
