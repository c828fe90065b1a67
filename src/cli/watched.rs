//! What the commands take that watch programs: `crash-test`, `record`, and `cost` of what was recorded.

use std::path::PathBuf;

use clap::{Args as Group, ValueEnum};
use nandle_observe::Means;
use nandle_observe::disk::Disk;
use nandle_observe::tree::Tree;

use super::settling::Settling;
use super::terminal::Failure;

/// How the drive lies.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Lie {
    /// Flushes are answered and do nothing.
    IgnoreFlush,
    /// Writes that are to be durable on return (FUA, as commit records are) stay in RAM.
    IgnoreFua,
    /// Pages are torn anywhere, within sectors too.
    Tear,
    /// What was flushed may reach flash after what was written later.
    ReorderAcrossFlush,
}

/// What the file system promises.
#[derive(Clone, Copy, Debug, Default, ValueEnum)]
pub enum FileSystem {
    /// What the manual pages do: a file, and a folder's names, are durable when they were flushed.
    #[default]
    Posix,
    /// As ext4 does beyond that: any flush makes all names durable, in order.
    Ext4,
}

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

/// Who says where the blocks of files lie.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum Layout {
    /// A model of ext4.
    #[default]
    Ext4,
    /// The file system that the files are on, by FIEMAP (ext4, xfs, f2fs); the program's calls are followed.
    Fiemap,
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

/// `nandle crash-test`
#[derive(Debug, Group)]
pub struct CrashTest {
    /// The program, a command of the shell: it keeps its files in the folder $NANDLE_DIR.
    #[arg(long, value_name = "CMD", required_unless_present = "again")]
    pub run: Option<String>,
    /// The check, a command of the shell: exit 0 if the files in the folder $NANDLE_DIR are in order.
    /// $NANDLE_OUTPUT is a file with what the program had printed when the power went.
    #[arg(long, value_name = "CMD", required_unless_present = "again")]
    pub check: Option<String>,
    /// The check stays: it reads folders from standard input, a line each, and answers each with the line
    /// `ok`, or another that says what is wrong. What the program had printed is in FOLDER.output.
    #[arg(long)]
    pub check_stays: bool,
    /// A folder whose files are there when the program starts (they are copied, the folder is left alone).
    #[arg(long, value_name = "NAME")]
    pub dir: Option<PathBuf>,
    /// Check at most so many different states.
    #[arg(long, value_name = "N", default_value = "1000", value_parser = states)]
    pub states: u64,
    /// What the file system promises.
    #[arg(long, value_enum, value_name = "NAME", default_value = "posix")]
    pub fs: FileSystem,
    /// Instead of that, a real file system on a drive with sectors of 4 KiB: ext4 or xfs, with options of mount, such as
    /// ext4,nobarrier. Root mounts it; others, or with the option uml, have User-Mode Linux do it. With size=BYTES the drive
    /// has that size.
    #[arg(long, value_name = "KIND[,OPTION...]", value_parser = disk, conflicts_with_all = ["fs", "watch"])]
    pub mount: Option<Disk>,
    /// The drive keeps a write whole that crosses no multiple of so many bytes of its file (a power of two from 4Ki to
    /// 1Mi); without this it keeps sectors.
    #[arg(long, value_name = "BYTES", value_parser = atomic)]
    pub atomic: Option<u64>,
    /// Have the drive lie: a check that passes then may be one that cannot fail.
    #[arg(long, value_enum, value_name = "HOW")]
    pub lie: Option<Lie>,
    /// Write what was found as JSON to a file, or to standard output for `-`.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Where the first failure is kept, to be checked again.
    #[arg(long, value_name = "FILE", default_value = "crash-failure.json")]
    pub save: PathBuf,
    /// Check a failure that was kept, once more; by another command if --check is given.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["run", "check_stays", "dir", "states", "fs", "mount", "atomic",
          "lie", "save", "patience", "jobs", "watch", "seed"])]
    pub again: Option<PathBuf>,
    /// With --again: lay the files of that state out in this directory too.
    #[arg(long, value_name = "DIR", requires = "again")]
    pub into: Option<PathBuf>,
    /// Seconds after which a check has failed.
    #[arg(long, value_name = "SECONDS", default_value_t = 30, value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Checks at a time; as many as there are processors if not given.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// How the program is watched.
    #[arg(long, value_enum, value_name = "HOW", default_value = "auto")]
    pub watch: Watch,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

/// Bytes of an atomic write, as `--atomic` takes them.
fn atomic(text: &str) -> Result<u64, String> {
    let bytes = nandle_lab::units::parse_bytes(text).ok();
    let bytes = bytes.filter(|bytes| bytes.is_power_of_two() && (4096..=1 << 20).contains(bytes));
    bytes.ok_or_else(|| format!("{text:?}: expected a power of two from 4Ki to 1Mi"))
}

/// A file system with options, as `--mount` takes it.
fn disk(text: &str) -> Result<Disk, String> {
    let (kind, options) = text.split_once(',').unwrap_or((text, ""));
    if !["ext4", "xfs"].contains(&kind) {
        return Err(format!("{kind:?}: expected ext4 or xfs, and options of mount behind a comma"));
    }
    let (sizes, options): (Vec<&str>, Vec<&str>) = options
        .split(',')
        .filter(|option| !option.is_empty())
        .partition(|option| option.starts_with("size="));
    let size = |text: &str| {
        let bytes =
            nandle_lab::units::parse_bytes(text).ok().filter(|bytes| (16 << 20..=64 << 30).contains(bytes));
        bytes.ok_or_else(|| format!("size={text}: expected a size from 16Mi to 64Gi"))
    };
    let bytes = sizes.last().map_or(Ok(0), |text| size(text.trim_start_matches("size=")))?;
    Ok(Disk { kind: kind.into(), options: options.join(","), bytes: bytes.next_multiple_of(4096) })
}

/// A number of states, as `--states` takes it: 2000, 50k.
fn states(text: &str) -> Result<u64, String> {
    let number = nandle_lab::units::parse_count(text).ok().filter(|&n| n > 0);
    number.ok_or_else(|| format!("{text:?}: expected a number of states, such as 2000 or 50k"))
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
    /// Who says where the blocks of files lie: the model of ext4, or the file system of $TMPDIR.
    #[arg(long, value_enum, value_name = "WHO", default_value = "ext4")]
    pub layout: Layout,
    /// Instead of running a program, read what `strace -f -ttt -y -o FILE` wrote of one.
    #[arg(long, value_name = "FILE", conflicts_with_all = ["dir", "watch", "layout", "command"])]
    pub strace: Option<PathBuf>,
    /// With --strace: the folder whose files count; all if not given.
    #[arg(long, value_name = "DIR", requires = "strace")]
    pub under: Option<PathBuf>,
    /// The program and its arguments, or a command of the shell in one word. It keeps its files in the
    /// folder $NANDLE_DIR.
    #[arg(required_unless_present = "strace", last = true, value_name = "CMD")]
    pub command: Vec<String>,
}

/// `nandle cost`
#[derive(Debug, Group)]
pub struct Cost {
    /// Traces that `nandle record` wrote, or others. Of one is said what would help; several are set side by side.
    #[arg(required = true, value_name = "TRACE")]
    pub traces: Vec<PathBuf>,
    /// Preset name (see `nandle presets`) or TOML file; with @1/16 behind it a sixteenth of its blocks is simulated.
    #[arg(short, long, value_name = "NAME|FILE", default_value = "demo")]
    pub device: String,
    /// Override a field of the device, such as gc.soft=0.05 (repeatable).
    #[arg(long = "set", value_name = "FIELD=VALUE")]
    pub sets: Vec<String>,
    /// Share of the drive that such databases fill (0.01 to 0.95); the rest is cold data.
    #[arg(long, value_name = "SHARE", default_value = "0.5", value_parser = share)]
    pub share: f64,
    /// Logical capacities that are written at first; twice that, and again, until the drive is steady.
    #[arg(long, value_name = "N", default_value = "2", value_parser = writes)]
    pub drive_writes: f64,
    #[command(flatten)]
    pub settling: Settling,
    /// Simulate the whole drive, not one with as few blocks as will do.
    #[arg(long)]
    pub whole: bool,
    /// Write the answer as JSON to a file, or to standard output for `-`.
    #[arg(long, value_name = "FILE|-")]
    pub json: Option<PathBuf>,
    /// Write run directories and a report (HTML) to this directory.
    #[arg(short, long, value_name = "DIR")]
    pub output: Option<PathBuf>,
    /// Runs at a time; as many as there are processors if not given.
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub jobs: Option<u16>,
    /// Seed of every random choice.
    #[arg(long, default_value_t = 1)]
    pub seed: u64,
}

fn share(text: &str) -> Result<f64, String> {
    let share = text.parse().ok().filter(|share: &f64| (0.01..=0.95).contains(share));
    share.ok_or_else(|| format!("{text:?}: expected a share from 0.01 to 0.95"))
}

fn writes(text: &str) -> Result<f64, String> {
    let writes = text.parse().ok().filter(|writes: &f64| (0.01..=8.0).contains(writes));
    writes.ok_or_else(|| format!("{text:?}: expected a number of drive writes from 0.01 to 8"))
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
