//! How a trace is to be read: its format, its times, which of its requests.

use crate::Error;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The formats, in the order in which they are listed to people: name on the command line, and what a line looks like.
macro_rules! formats {
    ($($(#[$doc:meta])* $Format:ident, $name:literal, $line:literal;)*) => {
        /// A trace format. `crates/trace/README.md` describes the line, the units and the traps of each.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[serde(rename_all = "kebab-case")]
        pub enum Format {
            $($(#[$doc])* $Format,)*
        }

        impl Format {
            /// Every format, in the order in which they are listed to people.
            pub const ALL: [Format; [$($name),*].len()] = [$(Format::$Format),*];

            /// The name used on the command line.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self {
                    $(Format::$Format => $name,)*
                }
            }

            /// What a line looks like, in one line.
            #[must_use]
            pub fn line(self) -> &'static str {
                match self {
                    $(Format::$Format => $line,)*
                }
            }
        }
    };
}

formats! {
    /// Microsoft Research Cambridge csv.
    Msr, "msr", "Timestamp(100 ns),Hostname,DiskNumber,Read|Write,Offset(B),Size(B),ResponseTime";
    /// Microsoft production server traces: an ETW dump as csv.
    Msps, "msps", "BeginHeader..EndHeader, then DiskRead|DiskWrite|DiskFlush, TimeStamp(us), ...";
    /// Storage Performance Council / UMass csv.
    Spc, "spc", "ASU,LBA(512 B),Size(B),r|w,Timestamp(s)";
    /// SYSTOR '17 virtual desktop csv.
    Systor17, "systor17", "Timestamp(s),Response,R|W,LUN,Offset(B),Size(B)";
    /// Alibaba Cloud block storage csv.
    Alibaba, "alibaba", "device_id,R|W,offset(B),length(B),timestamp(us)";
    /// Tencent Cloud block storage csv.
    Tencent, "tencent", "Timestamp(s),Offset(512 B),Size(512 B),0=read|1=write,VolumeID";
    /// Florida International University, blank-separated.
    Fiu, "fiu", "time(ns) pid process lba(512 B) size(512 B) R|W major minor md5";
    /// DiskSim ascii: milliseconds with a fraction.
    Disksim, "disksim", "time(ms, with a fraction) device lba(512 B) size(512 B) flags(bit 0: 1=read)";
    /// SSDSim ascii: integer time.
    Ssdsim, "ssdsim", "time(ns or us, integer) device lba(512 B) size(512 B) 1=read|0=write";
    /// MQSim ascii: integer time.
    Mqsim, "mqsim", "time(ns or us, integer) device lba(512 B) size(512 B) 1=read|0=write";
    /// FlashSim ascii: tab-separated, sizes in 4 KiB units.
    Flashsim, "flashsim", "time(ms) <tab> device <tab> lba(512 B) <tab> size(4 KiB) <tab> 1=read|0=write";
    /// Sysinternals DiskMon log.
    Diskmon, "diskmon", "number time(s) duration(s) disk Read|Write sector(512 B) length(512 B)";
    /// WiscSee event file.
    Wiscsee, "wiscsee", "pid D|C read|write|discard offset(B) size(B) time(s) gap(s) sync";
    /// Text output of blkparse.
    Blkparse, "blkparse", "major,minor cpu sequence time(s) pid action rwbs sector(512 B) + size(512 B)";
    /// blktrace's binary records.
    Blktrace, "blktrace", "binary records of 48 bytes and more (version 7)";
    /// What biosnoop prints.
    Biosnoop, "biosnoop", "TIME(s) COMM PID DISK T SECTOR(512 B) BYTES [QUE(ms)] LAT(ms)";
    /// fio's iolog, version 2 or 3.
    FioIolog, "fio-iolog", "'fio version 2 iolog' or 'fio version 3 iolog', then file operations";
    /// VMware vscsiStats binary records, version 1 or 2.
    Vscsi, "vscsi", "binary records of 32 (version 1) or 40 bytes (version 2)";
    /// HP Labs' SRT binary records.
    Srt, "srt", "binary records of 32-bit words (HP Labs), a text header in front or not";
    /// Tab-separated with a header that names the columns.
    Tsv, "tsv", "header with tabs that names time, op, offset (or lba) and size, then rows";
    /// This project's csv.
    Nandle, "nandle", "header time_ns,op,offset,bytes,stream,object,fua, then rows";
    /// This project's Parquet.
    NandleParquet, "nandle-parquet", "Parquet with time_ns, op, offset, bytes, stream, object, fua";
    /// A line format described by the user with a regular expression.
    Regex, "regex", "whatever your expression matches";
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Format {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        Format::ALL.into_iter().find(|f| f.name() == name).ok_or_else(|| {
            let names: Vec<_> = Format::ALL.iter().map(|f| f.name()).collect();
            Error::Input(format!("unknown trace format {name:?}; expected one of {}", names.join(", ")))
        })
    }
}

/// The unit of a trace's clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum TimeUnit {
    /// Nanoseconds.
    Ns,
    /// Ticks of 100 ns, as in Windows file times.
    #[serde(rename = "100ns")]
    Filetime,
    /// Microseconds.
    Us,
    /// Milliseconds.
    Ms,
    /// Seconds.
    S,
}

impl TimeUnit {
    /// Its length in nanoseconds.
    #[must_use]
    pub fn ns(self) -> u64 {
        match self {
            TimeUnit::Ns => 1,
            TimeUnit::Filetime => 100,
            TimeUnit::Us => 1_000,
            TimeUnit::Ms => 1_000_000,
            TimeUnit::S => 1_000_000_000,
        }
    }

    /// Its name on the command line: `ns`, `100ns`, `us`, `ms` or `s`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            TimeUnit::Ns => "ns",
            TimeUnit::Filetime => "100ns",
            TimeUnit::Us => "us",
            TimeUnit::Ms => "ms",
            TimeUnit::S => "s",
        }
    }
}

impl FromStr for TimeUnit {
    type Err = Error;

    fn from_str(name: &str) -> Result<Self, Error> {
        [TimeUnit::Ns, TimeUnit::Filetime, TimeUnit::Us, TimeUnit::Ms, TimeUnit::S]
            .into_iter()
            .find(|u| u.name() == name)
            .ok_or_else(|| {
                Error::Input(format!("unknown time unit {name:?}; expected ns, 100ns, us, ms or s"))
            })
    }
}

/// How to read lines of a format that no reader knows.
///
/// The expression needs the named groups `time`, `op`, `offset` and `bytes`; `volume` is optional. Lines that
/// it does not match are skipped and counted. An operation is recognised by its first letter (r, w, d or t for
/// discards, f for flushes, any case).
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RegexFormat {
    /// The regular expression, applied to each line.
    pub pattern: String,
    /// Bytes per unit of `offset`: 1, 512, 4096...
    pub offset_unit_bytes: u64,
    /// Bytes per unit of `bytes`.
    pub size_unit_bytes: u64,
}

impl RegexFormat {
    /// An expression with times in seconds, offsets and sizes in bytes, operations by first letter.
    #[must_use]
    pub fn new(pattern: &str) -> Self {
        RegexFormat { pattern: pattern.to_owned(), offset_unit_bytes: 1, size_unit_bytes: 1 }
    }
}

/// How to open a trace. The default finds everything out by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// The format, or found by content. `Nandle` takes csv and Parquet alike.
    pub format: Option<Format>,
    /// The clock's unit instead of the format's own (or, for SSDSim and MQSim, inferred) one.
    pub time_unit: Option<TimeUnit>,
    /// Only this volume (as [`Trace::volumes`](crate::Trace::volumes) names it); otherwise all, side by side.
    pub volume: Option<String>,
    /// blkparse, blktrace and WiscSee: the one event of a request's life that counts; `D`, issued to the device, if none.
    pub action: Option<char>,
    /// The expression, for `regex`.
    pub regex: Option<RegexFormat>,
    /// Rows kept back to put them into time order. A row displaced by more than this is clamped, and counted.
    pub sort_window: usize,
}

impl Options {
    /// An option that would do nothing is an error: the user meant something by it.
    pub(crate) fn check(&self, format: Format) -> Result<(), Error> {
        let refuse = |what: &str| Err(Error::Input(format!("{what} does not apply to format {format}")));
        if self.action.is_some() && !matches!(format, Format::Blkparse | Format::Blktrace | Format::Wiscsee) {
            return refuse("an action");
        }
        if self.time_unit.is_some() && matches!(format, Format::Nandle | Format::NandleParquet) {
            return refuse("a time unit (its column is time_ns)");
        }
        if self.regex.is_some() && format != Format::Regex {
            return refuse("a regular expression");
        }
        Ok(())
    }
}

impl Default for Options {
    fn default() -> Self {
        Options {
            format: None,
            time_unit: None,
            volume: None,
            action: None,
            regex: None,
            sort_window: 1 << 16,
        }
    }
}
