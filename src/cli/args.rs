//! The command line, as clap parses it: commands and what each takes.

use std::path::PathBuf;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args as Group, ColorChoice, CommandFactory, FromArgMatches, Parser, Subcommand, ValueEnum};
use nandle_io::Range;
use nandle_lab::Error;
use nandle_lab::address::Fit;
use nandle_lab::config::{Drive, Wanted, whole};
use nandle_lab::logs::Page;
use nandle_lab::replay::PowerCuts;
use nandle_lab::sweep::Shard;
use nandle_lab::units::{parse_bytes, parse_count};
use nandle_lab::workload::{Asked, Mode};
use nandle_trace::{Format, Options, RegexFormat, TimeUnit};

use super::settling::Settling;
use crate::progress::be_quiet;

/// What happens to writes inside an SSD: a simulator of drives, their firmware and their flash.
///
/// `nandle run` simulates a small drive under random writes and shows what a write costs.
#[derive(Debug, Parser)]
#[command(name = "nandle", version, arg_required_else_help = true)]
pub struct Args {
    #[command(subcommand)]
    pub command: Command,
    /// Show results and errors alone: no progress, no remarks.
    #[arg(short, long, global = true)]
    pub quiet: bool,
    /// Colours: where there is a terminal (and NO_COLOR is not set), always or never.
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "WHEN",
        default_value = "auto",
        hide_possible_values = true
    )]
    pub color: ColorChoice,
}

/// The command line; what is wrong with it ends the program.
pub fn parse() -> Args {
    // clap has to know before it parses, for its own help and errors.
    let words: Vec<String> = std::env::args().take_while(|word| word != "--").collect();
    let mut given = words.iter().enumerate().filter_map(|(n, word)| match word.strip_prefix("--color") {
        Some("") => words.get(n + 1).map(String::as_str),
        Some(rest) => rest.strip_prefix('='),
        None => None,
    });
    let color =
        given.next_back().and_then(|when| ColorChoice::from_str(when, false).ok()).unwrap_or_default();
    let matches = Args::command().color(color).try_get_matches().unwrap_or_else(|e| named(e, &words).exit());
    let args = Args::from_arg_matches(&matches).unwrap_or_else(|e| e.exit());
    if args.quiet {
        be_quiet();
    }
    if args.color != ColorChoice::Auto {
        console::set_colors_enabled(args.color == ColorChoice::Always);
        console::set_colors_enabled_stderr(args.color == ColorChoice::Always);
    }
    args
}

/// The error, with the option that a word without one may belong to.
fn named(mut error: clap::Error, words: &[String]) -> clap::Error {
    let takes_workload = words.iter().any(|word| ["run", "compare"].contains(&word.as_str()));
    if error.kind() == ErrorKind::UnknownArgument
        && takes_workload
        && let Some(ContextValue::String(word)) = error.get(ContextKind::InvalidArg)
        && !word.starts_with('-')
    {
        let tip =
            format!("a trace or a workload is given with --workload {word}, a device with --device {word}");
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![tip.into()]));
    }
    error
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Simulate a workload on a device; with no options, a small drive under random writes.
    Run(Box<Run>),
    /// Simulate several schemes on the same requests and set them side by side.
    Compare(Box<Compare>),
    /// Simulate a grid of devices, schemes, workloads, seeds and settings.
    Sweep(Sweep),
    /// Put the results of a sweep into one table.
    Gather(Gather),
    /// Make the report of run directories again, or show them as another tool would.
    Report(Report),
    /// Serve the device to real programs, in real time: NBD, NVMe/TCP, a FUSE file.
    Serve(Box<Serve>),
    /// Have a served drive fail, slow down or be copied while it works (`nandle serve --ctl`).
    Ctl(super::ctl::Ctl),
    /// Tell a drive that ranges of blocks belong to one object (FlashAlloc), over NVMe/TCP.
    #[command(name = "flashalloc")]
    FlashAlloc(FlashAlloc),
    /// Check the image of a served device as a crash has left it, without changing it.
    Fsck(Fsck),
    /// Show what a served drive has done so far (`nandle serve --http`).
    Stat(Stat),
    /// Watch a served drive at work (`nandle serve --http`).
    Top(Top),
    /// Every scheme on every trace and three kinds of drive: a page with filters, and where each scheme loses.
    Atlas(Atlas),
    /// Repeat the evaluation of a paper: its figures beside ours, met or not.
    Reproduce(Reproduce),
    /// List the devices that come with the program.
    Presets(Listing),
    /// List the policies that --scheme takes.
    Schemes(Listing),
    /// List the workloads that --workload takes beside files.
    Workloads(Listing),
    /// Check a device file and show what it resolves to.
    Validate(Validate),
    /// Print the JSON schema of device files.
    Schema,
    /// Describe, convert, generate and fit traces.
    #[command(subcommand)]
    Trace(Trace),
    /// Run a program, and its own check on every kind of state that a power cut may leave of its files.
    #[cfg(target_os = "linux")]
    CrashTest(Box<super::watched::CrashTest>),
    /// Run a program and record what its files ask of a drive, as a trace.
    #[cfg(target_os = "linux")]
    Record(super::watched::Record),
    /// What a recorded program costs an aged drive: write amplification, flushes, lifetime, and what would help.
    #[cfg(target_os = "linux")]
    Cost(Box<super::watched::Cost>),
    /// Check that the program and its surroundings are in order.
    Doctor(Doctor),
    /// Print completions for a shell.
    Completions {
        /// Which shell.
        shell: clap_complete::Shell,
    },
    /// Write the manual pages to a directory.
    Man {
        /// Where they go.
        dir: PathBuf,
    },
}

/// How a list is shown.
#[derive(Debug, Group)]
pub struct Listing {
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

/// What a drive holds before the first request.
#[derive(Clone, Copy, Debug)]
pub enum Fill {
    /// So many of its pages are programmed.
    Share(f64),
    /// As much as in the long run, as it lies then.
    Steady,
}

/// A share, or the word.
fn fill(text: &str) -> Result<Fill, String> {
    match text {
        "steady" => Ok(Fill::Steady),
        _ => share(text).map(Fill::Share).map_err(|e| format!("{e}; or steady")),
    }
}

/// The device and what is changed of it.
#[derive(Debug, Group)]
pub struct Device {
    /// Preset name (see `nandle presets`) or TOML file, with @1/16 behind it for a sixteenth of its blocks; the
    /// preset demo if not given.
    #[arg(short, long, value_name = "NAME|FILE")]
    pub device: Option<String>,
    /// Policy or sum of policies, such as lru+page (see `nandle schemes`).
    #[arg(short, long, value_name = "SUM")]
    pub scheme: Option<String>,
    /// Override a field of the device, such as gc.soft=0.05 (repeatable).
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    pub sets: Vec<String>,
    /// Share of the physical pages that are programmed before the first request, such as 0.9 or 90%; live as far as
    /// the logical size allows. Or `steady`: full, as random writes of all of it leave a drive in the long run.
    #[arg(long, value_name = "SHARE|steady", value_parser = fill)]
    pub fill: Option<Fill>,
    /// Share of the physical pages that hold live data before the first request; what else is programmed is dead.
    #[arg(long, value_name = "SHARE", value_parser = share)]
    pub valid: Option<f64>,
    /// Replay this trace or workload first, unmeasured.
    #[arg(long, value_name = "FILE|NAME")]
    pub age_with: Option<String>,
}

impl Device {
    /// The device, checked.
    pub fn load(&self) -> Result<Drive, Error> {
        self.load_as(self.scheme.as_deref())
    }

    /// The device under another scheme.
    pub fn load_as(&self, scheme: Option<&str>) -> Result<Drive, Error> {
        let device = self.name();
        let mut sets = self.sets.clone();
        if let (Some(Fill::Steady), Some(valid)) = (self.fill, self.valid) {
            return Err(Error::Input(format!(
                "--valid {valid}: with --fill steady all logical pages are live; expected one of the two"
            )));
        }
        match self.fill {
            Some(Fill::Share(fill)) => sets.push(format!("precondition.used={fill}")),
            Some(Fill::Steady) => {
                sets.extend(["used=0", "valid=0", "steady=true"].map(|set| format!("precondition.{set}")));
            }
            None => {}
        }
        if let Some(valid) = self.valid {
            sets.push(format!("precondition.valid={valid}"));
        } else if let Some(Fill::Share(fill)) = self.fill.filter(|_| !self.sets_valid()) {
            // `--fill` alone: everything that was programmed is live, as far as the logical size allows.
            // Of a fraction, shares are those of the whole.
            let plain = Wanted { device: whole(device), scheme, sets: &self.sets }.load()?;
            let pages = plain.config.unit_geometry().pages();
            let most = f64::from(plain.layout.logical_pages) / pages as f64;
            sets.push(format!("precondition.valid={}", fill.min(most)));
        }
        if let Some(trace) = &self.age_with {
            // A string of JSON is one of TOML, but for one letter.
            let text = serde_json::Value::from(trace.as_str()).to_string().replace('\u{7f}', "\\u007f");
            sets.push(format!("precondition.age_with={text}"));
        }
        Wanted { device, scheme, sets: &sets }.load().map_err(|e| self.as_given(e))
    }

    /// Whether an override says how much is live.
    fn sets_valid(&self) -> bool {
        let field = |set: &String| set.split('=').next().map(str::trim) == Some("precondition.valid");
        self.sets.iter().any(field)
    }

    /// What is wrong with a setting that an option stands for, said of the option.
    fn as_given(&self, error: Error) -> Error {
        let Error::Input(mut what) = error else { return error };
        let fill = match self.fill {
            Some(Fill::Share(fill)) => Some(fill),
            _ => None,
        };
        for (option, field, given) in
            [("--fill", "precondition.used", fill), ("--valid", "precondition.valid", self.valid)]
        {
            let Some(value) = given else { continue };
            what = what.replace(&format!("--set {field}={value}"), &format!("{option} {value}"));
        }
        if self.fill.is_none() {
            what = what.replace("expected at most used, 0", "expected --fill with it, at least as much");
        }
        Error::Input(what.replace("expected at most used", "expected at most --fill"))
    }

    /// What the device is called: preset or file.
    pub fn name(&self) -> &str {
        self.device.as_deref().unwrap_or("demo")
    }

    /// Whether nothing was said of the device.
    pub fn is_silent(&self) -> bool {
        let Self { device, scheme, sets, fill, valid, age_with } = self;
        device.is_none()
            && scheme.is_none()
            && sets.is_empty()
            && fill.is_none()
            && valid.is_none()
            && age_with.is_none()
    }
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Timing {
    /// Answer at the modelled time.
    #[default]
    Real,
    /// Answer as soon as the model is done.
    Off,
    /// Answer at once, without clocks: every counter as ever, but no latencies.
    None,
}

#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum Durability {
    /// The server may be killed.
    #[default]
    Process,
    /// The machine may lose its power: each flush waits for the disk under the image.
    Host,
}

#[derive(Debug, Group)]
pub struct Serve {
    #[command(flatten)]
    pub device: Device,
    /// Keep the flash in this file; made if it is not there, else switched on as it was left. Without
    /// it the flash is in memory only.
    #[arg(long, value_name = "FILE")]
    pub image: Option<PathBuf>,
    /// What flushes and FUA writes to the image outlive: the end of the process, or that of the whole machine as well.
    #[arg(long, value_enum, value_name = "WHAT", default_value = "process", requires = "image")]
    pub durability: Durability,
    /// Serve a damaged image: sectors that it can no longer return are media errors.
    #[arg(long, requires = "image")]
    pub damaged_ok: bool,
    /// Serve NBD at unix:PATH, HOST:PORT or PORT (loopback if no host is given; repeatable).
    #[arg(long, value_name = "ADDR")]
    pub nbd: Vec<nandle_serve::nbd::Address>,
    /// Serve NVMe/TCP at HOST:PORT, PORT or HOST (loopback if no host is given, port 4420 if no port is;
    /// repeatable).
    #[arg(long, value_name = "ADDR")]
    pub nvme_tcp: Vec<nandle_serve::nvme_tcp::Address>,
    /// Show what the drive is doing at HOST:PORT, PORT or unix:PATH: a page, JSON, Prometheus' metrics
    /// (loopback if no host is given, port 8420 if no port is; repeatable).
    #[arg(long, value_name = "ADDR")]
    pub http: Vec<nandle_serve::http::Address>,
    /// Hear `nandle ctl` at this socket: faults, and images of the drive at any moment.
    #[arg(long, value_name = "SOCKET")]
    pub ctl: Option<PathBuf>,
    /// Have the same requests drive other schemes in simulation, side by side, separated by commas.
    #[arg(long, value_name = "S1,S2,...")]
    pub shadow: Option<String>,
    /// Mount a file system at this directory with one file, `disk` (Linux).
    #[arg(long, value_name = "DIR")]
    pub fuse: Option<PathBuf>,
    /// Serve a block device of this machine, /dev/ublkbN, with this number or any that is free (Linux 6.5, root).
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true,
          value_parser = clap::value_parser!(u32).range(..1 << 20))]
    pub ublk: Option<Option<u32>>,
    /// Serve vhost-user-blk at this socket: a virtio disk for QEMU, cloud-hypervisor, User-Mode Linux (Linux;
    /// repeatable).
    #[arg(long, value_name = "SOCKET")]
    pub vhost_user: Vec<PathBuf>,
    /// Serve NBD and NVMe/TCP by TLS only, to clients with a certificate of the authority in DIR/ca-cert.pem, as who
    /// DIR/server-cert.pem and DIR/server-key.pem say.
    #[arg(long, value_name = "DIR")]
    pub tls_certificates: Option<PathBuf>,
    /// Permissions of the sockets in the file system, as an octal number.
    #[arg(long, value_name = "MODE", default_value = "0600", value_parser = mode)]
    pub socket_mode: u32,
    /// When requests are answered.
    #[arg(long, value_enum, value_name = "WHEN", default_value = "real")]
    pub timing: Timing,
    /// Slow the drive and its clock down together by this factor, so that a drive faster than this machine stays
    /// faithful: what clients measure divided by it is the drive's.
    #[arg(long, value_name = "F")]
    pub dilation: Option<f64>,
    /// Cut the power once so many commands have been submitted to the drive, and end.
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub power_cut_after: Option<u64>,
    /// Write the commands as a trace that `nandle run` replays (.csv, .parquet, .gz, .zst, .xz).
    #[arg(long, value_name = "TRACE")]
    pub record: Option<PathBuf>,
    /// Write the summary as JSON to a file at the end, or to standard output, in place of the table, for `-`.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Permissions, as `nandle serve` takes them.
fn mode(text: &str) -> Result<u32, String> {
    u32::from_str_radix(text, 8)
        .ok()
        .filter(|mode| mode & !0o777 == 0)
        .ok_or_else(|| format!("{text:?}: expected three octal digits, such as 0660"))
}

/// `nandle doctor`
#[derive(Debug, Group)]
pub struct Doctor {
    #[command(flatten)]
    pub listing: Listing,
    /// Measure what this machine can serve in real time, by transport: some seconds.
    #[arg(long)]
    pub calibrate: bool,
}

/// `nandle flashalloc`
#[derive(Debug, Group)]
pub struct FlashAlloc {
    /// Where the drive is served (`nandle serve --nvme-tcp`).
    #[arg(long, value_name = "ADDR")]
    pub to: nandle_serve::nvme_tcp::Address,
    /// A file on the drive (ext4, xfs, f2fs): the room it has is one object, found by FIEMAP (repeatable).
    #[arg(long = "file", value_name = "PATH")]
    pub files: Vec<PathBuf>,
    /// Where the block device of those files' file system begins on the drive, in bytes; found in sysfs for
    /// partitions and loop devices.
    #[arg(long, value_name = "BYTES", requires = "files", value_parser = parse_bytes)]
    pub offset: Option<u64>,
    /// Ranges of the object: first logical block, and how many.
    #[arg(required_unless_present = "files", value_name = "LBA:LEN", value_parser = range)]
    pub ranges: Vec<Range>,
}

/// A count that fits 32 bits.
fn small_count(text: &str) -> Result<u32, String> {
    parse_count(text)?.try_into().map_err(|_| format!("{text:?}: expected at most {}", u32::MAX))
}

/// A range of logical blocks, as `nandle flashalloc` takes it.
fn range(text: &str) -> Result<Range, String> {
    let parse = || {
        let (lba, length) = text.split_once(':')?;
        let sectors = small_count(length).ok().filter(|&n| n > 0)?;
        Some(Range { first: parse_count(lba).ok()?, sectors: sectors.into() })
    };
    parse()
        .ok_or_else(|| format!("{text:?}: expected LBA:LEN, two numbers of logical blocks, LEN at least 1"))
}

/// `nandle fsck`
#[derive(Debug, Group)]
pub struct Fsck {
    /// The file given to `nandle serve --image`.
    pub image: PathBuf,
    /// Print what was found as JSON.
    #[arg(long)]
    pub json: bool,
}

/// `nandle stat`
#[derive(Debug, Group)]
pub struct Stat {
    /// Where the drive shows what it is doing (`nandle serve --http`).
    #[arg(long, value_name = "ADDR", default_value = "localhost")]
    pub at: nandle_serve::http::Address,
    /// Print the JSON of /live.json, without the series and the map of blocks.
    #[arg(long)]
    pub json: bool,
}

/// `nandle top`
#[derive(Debug, Group)]
pub struct Top {
    /// Where the drive shows what it is doing (`nandle serve --http`).
    #[arg(long, value_name = "ADDR", default_value = "localhost")]
    pub at: nandle_serve::http::Address,
    /// Seconds between two looks.
    #[arg(short, long, value_name = "SECONDS", default_value_t = 1.0, value_parser = seconds)]
    pub interval: f64,
    /// End after so many looks.
    #[arg(short = 'n', long, value_name = "N", value_parser = parse_count)]
    pub count: Option<u64>,
}

/// A number of seconds, as `--interval` takes it.
fn seconds(text: &str) -> Result<f64, String> {
    let parsed = text.parse().ok().filter(|s: &f64| (0.1..=3600.0).contains(s));
    parsed.ok_or_else(|| format!("{text:?}: expected 0.1 to 3600 seconds"))
}

fn share(text: &str) -> Result<f64, String> {
    let number = |text: &str| text.trim().parse::<f64>().ok().filter(|share| share.is_finite());
    let parsed = text.strip_suffix('%').map_or_else(|| number(text), |text| number(text).map(|n| n / 100.0));
    parsed.ok_or_else(|| format!("{text:?}: expected a share, such as 0.9 or 90%"))
}

/// How trace files are read.
#[derive(Debug, Group)]
pub struct Reading {
    /// Format of the trace; found by content if not given.
    #[arg(long, value_name = "FORMAT")]
    pub format: Option<Format>,
    /// Only this volume of the trace; all of them, side by side, if not given.
    #[arg(long, value_name = "NAME")]
    pub volume: Option<String>,
    /// Unit of the trace's clock: ns, 100ns, us, ms or s.
    #[arg(long, value_name = "UNIT")]
    pub time_unit: Option<TimeUnit>,
    /// The event that counts in blkparse and WiscSee traces.
    #[arg(long, value_name = "LETTER")]
    pub action: Option<char>,
    /// Expression with the groups time, op, offset and bytes, for --format regex.
    #[arg(long, value_name = "REGEX")]
    pub regex: Option<String>,
    /// Bytes per unit of the expression's offset: 1, 512, 4096...
    #[arg(long, value_name = "BYTES", default_value_t = 1, requires = "regex", value_parser = parse_bytes)]
    pub offset_unit: u64,
    /// Bytes per unit of the expression's bytes.
    #[arg(long, value_name = "BYTES", default_value_t = 1, requires = "regex", value_parser = parse_bytes)]
    pub size_unit: u64,
}

impl Reading {
    pub fn options(&self) -> Options {
        Options {
            format: self.format,
            time_unit: self.time_unit,
            volume: self.volume.clone(),
            action: self.action,
            regex: self.regex.as_deref().map(|pattern| RegexFormat {
                offset_unit_bytes: self.offset_unit,
                size_unit_bytes: self.size_unit,
                ..RegexFormat::new(pattern)
            }),
            ..Options::default()
        }
    }
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum ReplayMode {
    /// At the timestamps, whatever the device does.
    Open,
    /// A fixed number outstanding; timestamps mean nothing.
    Closed,
    /// One at a time, keeping the gaps after completions.
    Think,
}

/// How requests are issued and read.
#[derive(Debug, Group)]
pub struct Issue {
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// Judge every completion, and read back at the end, outside of all figures, what was written; slower.
    #[arg(long)]
    pub verify: bool,
    /// Cut the power in the measured part, at times or at random instants (12ms,random:100); the drive
    /// recovers, is compared with what it promised, and goes on.
    #[arg(long, value_name = "WHEN")]
    pub power_cut_at: Option<PowerCuts>,
    /// How requests are issued; the workload's own way if not given (traces: open).
    #[arg(long, value_enum, value_name = "WAY")]
    pub replay: Option<ReplayMode>,
    /// Requests outstanding in a closed replay.
    #[arg(long, value_name = "N", value_parser = small_count)]
    pub iodepth: Option<u32>,
    /// Multiply timestamps or gaps: 0.5 is twice as fast.
    #[arg(long, value_name = "FACTOR")]
    pub time_scale: Option<f64>,
    /// What becomes of addresses beyond the device: wrap, scale or reject.
    #[arg(long, value_name = "HOW", default_value = "scale")]
    pub fit: Fit,
    /// At most this many requests in the measured part (20000, 1.5M).
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub requests: Option<u64>,
    #[command(flatten)]
    pub settling: Settling,
    /// Log every request to io.parquet in the run directory.
    #[arg(long)]
    pub io_log: bool,
    /// Without clocks: mapping, collection, wear and every counter as ever, but no latencies; several times faster.
    #[arg(long)]
    pub untimed: bool,
    #[command(flatten)]
    pub reading: Reading,
}

impl Issue {
    /// The device with or without clocks.
    pub fn clocked(&self, drive: Drive) -> Drive {
        if self.untimed { drive.untimed() } else { drive }
    }
    /// What is asked of a device that serves `workload`.
    pub fn asked(&self, workload: &str) -> Asked {
        Asked {
            workload: workload.to_owned(),
            seed: self.seed,
            requests: self.requests,
            mode: self.replay.map(|mode| match mode {
                ReplayMode::Open => Mode::Open,
                ReplayMode::Closed => Mode::Closed,
                ReplayMode::Think => Mode::Think,
            }),
            iodepth: self.iodepth,
            time_scale: self.time_scale,
            fit: self.fit,
            trace: self.reading.options(),
            until: self.settling.until(),
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum OutputFormat {
    /// A table for people.
    Table,
    /// The tree that fio --output-format=json prints.
    FioJson,
}

#[derive(Debug, Group)]
pub struct Run {
    #[command(flatten)]
    pub device: Device,
    /// Trace file, `-`, fio job file (*.fio), fitted trace (*.toml) or named workload.
    #[arg(short, long, value_name = "FILE|NAME", default_value = "random-write")]
    pub workload: String,
    /// Write the run directory: configuration, summary, time series, latencies, report.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write the summary as JSON to a file, or to standard output for `-`.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// What is printed.
    #[arg(long, value_enum, value_name = "FORMAT", default_value = "table")]
    pub output_format: OutputFormat,
    /// Print what becomes of the first N requests of the measured part: each flash operation with its
    /// cause, place, start and duration.
    #[arg(long, value_name = "N", default_value_t = 0, hide_default_value = true, value_parser = parse_count)]
    pub explain: u64,
    #[command(flatten)]
    pub issue: Issue,
}

#[derive(Debug, Group)]
pub struct Compare {
    #[command(flatten)]
    pub device: Device,
    /// Schemes to compare, separated by commas; the first is the baseline.
    #[arg(long, value_name = "S1,S2,...", required = true, conflicts_with = "scheme")]
    pub schemes: String,
    /// Trace files, fio job files or named workloads.
    #[arg(short, long, value_name = "FILE|NAME", num_args = 1.., default_value = "random-write")]
    pub workload: Vec<String>,
    /// Write a directory with the run directories and the report.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Write a JSON list to a file, or to standard output for `-`: of each run labels, ratios to the baseline's, summary.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Runs at a time.
    #[arg(short, long, value_name = "N", default_value_t = workers())]
    pub jobs: usize,
    #[command(flatten)]
    pub issue: Issue,
}

#[derive(Debug, Group)]
pub struct Sweep {
    /// The grid: a TOML file with devices, schemes, workloads, seeds and `[overrides]`.
    pub file: PathBuf,
    /// Runs at a time.
    #[arg(short, long, value_name = "N", default_value_t = workers())]
    pub jobs: usize,
    #[command(flatten)]
    pub settling: Settling,
    /// Without clocks: every counter as ever, but no latencies; several times faster.
    #[arg(long)]
    pub untimed: bool,
    /// Only this part of the grid, such as 1/4 for the first of four machines.
    #[arg(long, value_name = "I/N")]
    pub shard: Option<Shard>,
    /// Where the runs go, instead of what the file says.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Try runs that failed before again.
    #[arg(long)]
    pub retry: bool,
    /// List the runs, with what became of them, and do nothing.
    #[arg(long)]
    pub list: bool,
    /// The list as JSON.
    #[arg(long, requires = "list")]
    pub json: bool,
}

#[derive(Debug, Group)]
pub struct Gather {
    /// The directory of the sweep.
    pub dir: PathBuf,
    /// The table, instead of results.parquet in the directory.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Group)]
pub struct Report {
    /// Run directories, directories of runs, or the JSON of a reproduction.
    #[arg(required = true, value_name = "DIR")]
    pub dirs: Vec<PathBuf>,
    /// One report of all runs, in this file, instead of one in each directory.
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
    /// Print a log page as nvme-cli does: nvme-smart, ocp-c0 or fdp-stats.
    #[arg(long = "as", value_name = "PAGE", conflicts_with = "output")]
    pub log: Option<Page>,
}

/// As many runs at a time as there are processors.
pub fn workers() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// `nandle atlas`
#[derive(Debug, Group)]
pub struct Atlas {
    /// A directory of traces, found by content; without it, twins of published traces are generated.
    #[arg(long, value_name = "DIR")]
    pub traces: Option<PathBuf>,
    /// Where atlas.html, atlas.json and atlas.csv go; runs that are in that atlas.json are not done again.
    #[arg(short, long, value_name = "DIR", default_value = "atlas")]
    pub output: PathBuf,
    /// Only these schemes, separated by commas, beside the baseline.
    #[arg(long, value_name = "S1,S2,...")]
    pub schemes: Option<String>,
    /// The two smallest traces and short runs: to see that it works.
    #[arg(long)]
    pub quick: bool,
    /// Without clocks: every counter as ever, but no latencies.
    #[arg(long)]
    pub untimed: bool,
    /// Runs at a time.
    #[arg(short, long, value_name = "N", default_value_t = workers())]
    pub jobs: usize,
}

/// Which paper, how, and where the results go.
#[derive(Debug, Group)]
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
    /// Write reproduction.md, reproduction.json, ledger.json and report.html into this folder.
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

#[derive(Debug, Group)]
pub struct Validate {
    /// Preset name or TOML file.
    #[arg(value_name = "NAME|FILE")]
    pub device: String,
    /// Policy or sum of policies.
    #[arg(short, long, value_name = "SUM")]
    pub scheme: Option<String>,
    /// Override a field (repeatable).
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    pub sets: Vec<String>,
    /// As JSON.
    #[arg(long)]
    pub json: bool,
}

#[derive(Debug, Subcommand)]
pub enum Trace {
    /// Counts, sizes, alignment, footprint and rates of a trace or named workload.
    Info {
        #[command(flatten)]
        input: Input,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// List the formats that are read, and what a line of each looks like.
    Formats(Listing),
    /// Write a trace in another format.
    Convert {
        #[command(flatten)]
        input: Input,
        /// Output file, or `-`; .gz, .zst and .xz compress.
        output: PathBuf,
        /// Output format; taken from the file's name if not given (.parquet, else nandle's csv).
        #[arg(long, value_name = "FORMAT")]
        to: Option<Format>,
    },
    /// Show the first requests.
    Head {
        #[command(flatten)]
        input: Input,
        /// How many.
        #[arg(short = 'n', long, default_value_t = 10, value_parser = parse_count)]
        lines: u64,
        /// As JSON.
        #[arg(long)]
        json: bool,
    },
    /// Write a named workload or fio job as a trace.
    Generate {
        #[command(flatten)]
        input: Input,
        /// Output file, or `-`; .gz, .zst and .xz compress.
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
        /// Output format; taken from the file's name if not given (.parquet, else nandle's csv).
        #[arg(long, value_name = "FORMAT")]
        to: Option<Format>,
    },
    /// Fit the statistics of a trace; the file that this writes is a workload.
    Fit {
        #[command(flatten)]
        input: Input,
        /// Output file (*.toml), or `-`.
        #[arg(short, long, value_name = "FILE", default_value = "-")]
        output: PathBuf,
    },
}

/// A trace, or a workload with the device that it is for.
#[derive(Debug, Group)]
pub struct Input {
    /// Trace file, `-`, fio job file (*.fio), fitted trace (*.toml) or named workload.
    #[arg(value_name = "FILE|NAME")]
    pub workload: String,
    /// The device that a generated workload is for: preset name or TOML file.
    #[arg(short, long, value_name = "NAME|FILE", default_value = "demo")]
    pub device: String,
    /// Override a field of that device (repeatable).
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    pub sets: Vec<String>,
    /// Seed of a generated workload.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
    /// At most this many requests (of the last phase, in a generated workload).
    #[arg(long, value_name = "N", value_parser = parse_count)]
    pub requests: Option<u64>,
    #[command(flatten)]
    pub reading: Reading,
}
