//! `nandle ctl`: a served drive fails, slows down or is copied while it works.

use std::path::PathBuf;

use clap::{Args as Group, Subcommand, ValueEnum};
use nandle_lab::units::{parse_bytes, parse_count, time};
use nandle_serve::ctl::ask;
use nandle_serve::order::{Answer, Kind, Late, Order, Standing};

use super::terminal::{Failure, json_text, say};

/// `nandle ctl`
#[derive(Debug, Group)]
pub struct Ctl {
    /// The control socket of the drive (`nandle serve --ctl`).
    #[arg(value_name = "SOCKET")]
    pub socket: PathBuf,
    /// Print the answer as JSON.
    #[arg(long, global = true)]
    pub json: bool,
    #[command(subcommand)]
    pub command: Command,
}

/// Which commands of the host.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Of {
    Read,
    Write,
    Trim,
    Flush,
}

impl From<Of> for Kind {
    fn from(of: Of) -> Self {
        match of {
            Of::Read => Self::Read,
            Of::Write => Self::Write,
            Of::Trim => Self::Trim,
            Of::Flush => Self::Flush,
        }
    }
}

/// Whether it is so from now on.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub enum Switch {
    On,
    Off,
}

impl Switch {
    fn is_on(self) -> bool {
        matches!(self, Self::On)
    }
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Say which faults there are.
    Show,
    /// Have commands reach the drive late; 0 ends that.
    Latency {
        /// How late, such as 500us, 20ms or 2s.
        #[arg(value_parser = duration)]
        time: u64,
        /// Only commands of these kinds.
        #[arg(long, value_enum, value_delimiter = ',', value_name = "KIND,...")]
        of: Vec<Of>,
        /// Only the next N of each kind.
        #[arg(long, value_name = "N", value_parser = parse_count)]
        requests: Option<u64>,
    },
    /// Have commands of a kind fail, and do nothing.
    Fail {
        /// Which.
        #[arg(value_enum)]
        of: Of,
        /// Only the next N.
        #[arg(long, value_name = "N", value_parser = parse_count)]
        requests: Option<u64>,
    },
    /// Have the flash lose what it holds of these bytes: reads of them are media errors until they are written again.
    MediaError {
        /// First byte, such as 0 or 64Mi.
        #[arg(value_parser = parse_bytes)]
        offset: u64,
        /// How many; all sectors that they touch.
        #[arg(value_parser = parse_bytes, default_value = "1")]
        bytes: u64,
    },
    /// Have a die answer no more.
    Die {
        /// Its number, from 0.
        die: u32,
    },
    /// Have the drive take no writes, as one that is worn out.
    ReadOnly {
        /// Or take them again.
        #[arg(value_enum, default_value = "on")]
        switch: Switch,
    },
    /// Have no room for what is written.
    Full {
        /// Or have room again.
        #[arg(value_enum, default_value = "on")]
        switch: Switch,
    },
    /// Have commands on time and room again; what the flash lost stays lost.
    Clear,
    /// Write a new image of the drive: what a power cut at this moment would leave.
    Snapshot {
        /// The image; `nandle serve --image FILE` goes on from there.
        file: PathBuf,
        /// Flush first: everything that was answered is in it.
        #[arg(long)]
        flush: bool,
    },
    /// Cut the power; the server ends, and its image holds what is left.
    PowerCut,
}

/// Nanoseconds.
fn duration(text: &str) -> Result<u64, String> {
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let unit = match &text[end..] {
        "" if text.bytes().all(|byte| byte == b'0') => 1.0,
        "ns" => 1.0,
        "us" => 1e3,
        "ms" => 1e6,
        "s" => 1e9,
        _ => -1.0,
    };
    let number = text[..end].parse::<f64>().ok().map(|number| number * unit);
    let number = number.filter(|ns| (0.0..=6e11).contains(ns));
    number
        .map(|ns| ns.round() as u64)
        .ok_or_else(|| format!("{text:?}: expected a time up to 600s, such as 500us, 20ms or 2s"))
}

impl Command {
    fn order(&self) -> Result<Order, Failure> {
        Ok(match self {
            Self::Show => Order::Show,
            Self::Latency { time, of, requests } => {
                let of = of.iter().map(|&of| of.into()).collect();
                Order::Latency { ns: *time, of, requests: *requests }
            }
            Self::Fail { of, requests } => Order::Fail { of: (*of).into(), requests: *requests },
            &Self::MediaError { offset, bytes } => Order::MediaError { offset, bytes },
            &Self::Die { die } => Order::Die { die },
            Self::ReadOnly { switch } => Order::ReadOnly { on: switch.is_on() },
            Self::Full { switch } => Order::Full { on: switch.is_on() },
            Self::Clear => Order::Clear,
            Self::Snapshot { file, flush } => {
                // The server may stand in another folder.
                let file = std::path::absolute(file)
                    .map_err(|e| Failure::Input(format!("{}: {e}; expected a file name", file.display())))?;
                Order::Snapshot { file, flush: *flush }
            }
            Self::PowerCut => Order::PowerCut,
        })
    }
}

/// `nandle ctl`
pub fn ctl(args: &Ctl) -> Result<(), Failure> {
    let socket = args.socket.display();
    let answer = ask(&args.socket, &args.command.order()?).map_err(|e| match e.kind() {
        std::io::ErrorKind::TimedOut => Failure::Ran(format!("{socket}: {e}")),
        _ => Failure::Input(format!(
            "{socket}: {e}; expected the socket of a drive under `nandle serve --ctl`"
        )),
    })?;
    match answer {
        Answer::Refused(why) => Err(Failure::Input(format!("{socket}: {why}"))),
        Answer::Done { .. } if args.json => say(&json_text(&answer)),
        Answer::Done { said, .. } if !said.is_empty() => say(&format!("{said}\n")),
        Answer::Done { faults, .. } => say(&told(&faults)),
    }
}

/// The faults that there are, a line each.
fn told(faults: &Standing) -> String {
    let left = |late: &Late| late.requests_left.map_or_else(String::new, |left| format!(", {left} more"));
    let late = faults
        .latency
        .iter()
        .map(|late| format!("{}: {} late{}", late.of.op().name(), time(late.ns as f64), left(late)));
    let fail = faults.fail.iter().map(|fail| format!("{}: fails{}", fail.of.op().name(), left(fail)));
    let mut lines: Vec<String> = late.chain(fail).collect();
    lines.extend(faults.read_only.then(|| "no writes are taken".into()));
    lines.extend(faults.full.then(|| "there is no room".into()));
    lines.extend(faults.dies_gone.iter().map(|die| format!("die {die} answers no more")));
    if faults.sectors_lost > 0 {
        lines.push(format!("{} sectors lost so far", faults.sectors_lost));
    }
    if lines.is_empty() {
        lines.push("no faults".into());
    }
    lines.join("\n") + "\n"
}
