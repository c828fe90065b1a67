//! One job's options.

use super::values::{Amount, Sizes, amount, number, percentage, real, split, time_ns, triple};
use crate::synthetic::nearest;

/// Processes that one file may ask for, as fio's own limit.
pub const MAX_JOBS: u64 = 4096;

/// Options that change nothing here: how the host computes, reports or addresses its files.
pub const IGNORED: &[&str] = &[
    "allow_mounted_write",
    "allrandrepeat",
    "buffer_compress_percentage",
    "buffered",
    "bwavgtime",
    "clat_percentiles",
    "cmd_type",
    "cpus_allowed",
    "cpus_allowed_policy",
    "create_on_open",
    "create_serialize",
    "description",
    "direct",
    "directory",
    "disable_clat",
    "disable_lat",
    "disable_slat",
    "do_verify",
    "end_of_job",
    "exitall",
    "fadvise_hint",
    "fallocate",
    "filename",
    "fixedbufs",
    "group_reporting",
    "gtod_reduce",
    "hipri",
    "invalidate",
    "ioengine",
    "iopsavgtime",
    "lat_percentiles",
    "log_avg_msec",
    "log_hist_msec",
    "mem",
    "name",
    "new_group",
    "nice",
    "numa_cpu_nodes",
    "numa_mem_policy",
    "overwrite",
    "percentile_list",
    "per_job_logs",
    "prio",
    "prioclass",
    "random_generator",
    "randrepeat",
    "refill_buffers",
    "registerfiles",
    "scramble_buffers",
    "slat_percentiles",
    "sqthread_poll",
    "thread",
    "unified_rw_reporting",
    "unlink",
    "verify",
    "write_bw_log",
    "write_hist_log",
    "write_iops_log",
    "write_lat_log",
    "zero_buffers",
];

const KNOWN: &[&str] = &[
    "rw",
    "readwrite",
    "bs",
    "blocksize",
    "bsrange",
    "blocksize_range",
    "bssplit",
    "iodepth",
    "numjobs",
    "size",
    "offset",
    "offset_increment",
    "rwmixread",
    "rwmixwrite",
    "random_distribution",
    "norandommap",
    "rate_iops",
    "thinktime",
    "number_ios",
    "io_size",
    "io_limit",
    "runtime",
    "time_based",
    "loops",
    "fsync",
    "fdatasync",
    "end_fsync",
    "stonewall",
    "wait_for_previous",
    "startdelay",
    "randseed",
    "kb_base",
    "fdp",
    "dataplacement",
    "plids",
    "fdp_pli",
    "plid_select",
    "fdp_pli_select",
];

/// What `rw` asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Pattern {
    pub read: bool,
    pub write: bool,
    pub trim: bool,
    pub random: bool,
}

/// `random_distribution`.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Distribution {
    Uniform,
    Zipf(f64),
    Pareto(f64),
    /// The deviation, in percent of the range.
    Normal(f64),
    /// Percentages of accesses and of space, for read, write and trim.
    Zoned(Box<[Vec<(f64, f64)>; 3]>),
}

#[derive(Clone, Debug)]
pub(super) struct Job {
    pub name: String,
    /// Where its section begins.
    pub line: u64,
    pub pattern: Pattern,
    /// Of read, write and trim.
    pub sizes: [Sizes; 3],
    pub iodepth: u32,
    pub numjobs: u64,
    pub size: Option<Amount>,
    pub offset: Amount,
    pub offset_increment: Amount,
    pub read_percent: f64,
    pub distribution: Distribution,
    pub norandommap: bool,
    /// Requests a second of read, write and trim.
    pub rate: [Option<u64>; 3],
    pub thinktime_ns: u64,
    pub number_ios: Option<u64>,
    pub io_size: Option<Amount>,
    pub runtime_ns: Option<u64>,
    pub time_based: bool,
    pub loops: u64,
    /// Writes between flushes, 0 = never.
    pub fsync: u64,
    pub end_fsync: bool,
    pub stonewall: bool,
    pub startdelay_ns: u64,
    pub randseed: Option<u64>,
    pub kb_base: u64,
    /// `dataplacement=fdp` or `fdp=1`: writes carry a placement identifier.
    pub placed: bool,
    /// The identifiers that writes may carry; none given: 0 alone.
    pub plids: Vec<u16>,
    pub plid_select: Select,
}

/// `plid_select`: which of its placement identifiers a write carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Select {
    /// One after the other.
    RoundRobin,
    /// Any.
    Random,
}

impl Default for Job {
    fn default() -> Self {
        Self {
            name: String::new(),
            line: 0,
            pattern: Pattern { read: true, write: false, trim: false, random: false },
            sizes: [Sizes::Fixed(4096), Sizes::Fixed(4096), Sizes::Fixed(4096)],
            iodepth: 1,
            numjobs: 1,
            size: None,
            offset: Amount::Bytes(0),
            offset_increment: Amount::Bytes(0),
            read_percent: 50.0,
            distribution: Distribution::Uniform,
            norandommap: false,
            rate: [None; 3],
            thinktime_ns: 0,
            number_ios: None,
            io_size: None,
            runtime_ns: None,
            time_based: false,
            loops: 1,
            fsync: 0,
            end_fsync: false,
            stonewall: false,
            startdelay_ns: 0,
            randseed: None,
            kb_base: 1024,
            placed: false,
            plids: vec![],
            plid_select: Select::RoundRobin,
        }
    }
}

/// Largest request: larger ones are a slip, and no device takes them.
const MAX_REQUEST: u64 = 1 << 30;

impl Job {
    /// Does every block come once before any repeats?
    pub(super) fn uses_map(&self) -> bool {
        self.pattern.random && !self.norandommap && self.distribution == Distribution::Uniform
    }

    pub(super) fn is_rated(&self) -> bool {
        self.rate.iter().any(Option::is_some)
    }

    /// Takes one option; false if it is one of those that are ignored.
    pub(super) fn set(&mut self, key: &str, value: Option<&str>) -> Result<bool, String> {
        let base = self.kb_base;
        let text = value.unwrap_or("");
        let whole = |least: u64, most: u64| -> Result<u64, String> {
            let n = number(text, base).map_err(|e| format!("{key}={e}"))?;
            if (least..=most).contains(&n) {
                Ok(n)
            } else {
                Err(format!("{key}={text}: expected {least} to {most}"))
            }
        };
        let named = |e: String| format!("{key}={e}");
        // A flag without a value is on.
        let flag = || match value {
            None | Some("1" | "true" | "") => Ok(true),
            Some("0" | "false") => Ok(false),
            Some(other) => Err(format!("{key}={other}: expected 0 or 1")),
        };
        if value.is_none()
            && !["norandommap", "time_based", "stonewall", "wait_for_previous", "end_fsync", "fdp"]
                .contains(&key)
        {
            if IGNORED.contains(&key) {
                return Ok(false);
            }
            if KNOWN.contains(&key) {
                return Err(format!("{key} needs a value: expected {key}=..."));
            }
        }
        match key {
            "rw" | "readwrite" => self.pattern = pattern(text).map_err(named)?,
            "bs" | "blocksize" => self.set_sizes(key, text, |t| Ok(Sizes::Fixed(block(t, base)?)))?,
            "bsrange" | "blocksize_range" => self.set_sizes(key, text, |t| range(t, base))?,
            "bssplit" => self.set_sizes(key, text, |t| Ok(Sizes::Split(split(t, |s| block(s, base))?)))?,
            "iodepth" => self.iodepth = whole(1, 65_536)? as u32,
            "numjobs" => self.numjobs = whole(1, MAX_JOBS)?,
            "size" => self.size = Some(amount(text, base).map_err(named)?),
            "offset" => self.offset = amount(text, base).map_err(named)?,
            "offset_increment" => self.offset_increment = amount(text, base).map_err(named)?,
            "rwmixread" => self.read_percent = percentage(text).map_err(named)?,
            "rwmixwrite" => self.read_percent = 100.0 - percentage(text).map_err(named)?,
            "random_distribution" => self.distribution = distribution(text).map_err(named)?,
            "norandommap" => self.norandommap = flag()?,
            "rate_iops" => {
                let rate = |t: &str| match number(t, base)? {
                    n @ 1..=1_000_000_000 => Ok(n),
                    _ => Err(format!("{t}: expected 1 to 1000000000 requests a second")),
                };
                self.rate = triple(text, key, rate).map_err(named)?;
            }
            "thinktime" => self.thinktime_ns = time_ns(text, 1000).map_err(named)?,
            "number_ios" => self.number_ios = Some(whole(1, u64::MAX)?),
            "io_size" | "io_limit" => self.io_size = Some(amount(text, base).map_err(named)?),
            "runtime" => {
                self.runtime_ns = Some(time_ns(text, 1_000_000_000).map_err(named)?).filter(|&t| t > 0)
            }
            "time_based" => self.time_based = flag()?,
            "loops" => self.loops = whole(1, 1 << 32)?,
            "fsync" | "fdatasync" => self.fsync = whole(0, u64::MAX)?,
            "end_fsync" => self.end_fsync = flag()?,
            "stonewall" | "wait_for_previous" => self.stonewall = flag()?,
            "startdelay" => self.startdelay_ns = time_ns(text, 1_000_000_000).map_err(named)?,
            "randseed" => self.randseed = Some(whole(0, u64::MAX)?),
            "fdp" => self.placed = flag()?,
            "dataplacement" => {
                self.placed = match text {
                    "none" => false,
                    "fdp" | "streams" => true,
                    other => return Err(format!("dataplacement={other}: expected none, fdp or streams")),
                }
            }
            "plids" | "fdp_pli" => self.plids = plids(text).map_err(named)?,
            "plid_select" | "fdp_pli_select" => {
                self.plid_select = match text {
                    "roundrobin" => Select::RoundRobin,
                    "random" => Select::Random,
                    "scheme" => {
                        let expected = "roundrobin or random: a scheme is a file beside the job file";
                        return Err(format!("{key}=scheme is not supported: expected {expected}"));
                    }
                    other => return Err(format!("{key}={other}: expected roundrobin or random")),
                }
            }
            "kb_base" => {
                self.kb_base = match text {
                    "1000" => 1000,
                    "1024" => 1024,
                    other => return Err(format!("kb_base={other}: expected 1000 or 1024")),
                }
            }
            "verify" | "do_verify" if !["0", ""].contains(&text) => {
                return Err(format!(
                    "{key}={text} is not supported: expected 0 (simulations verify with --verify)"
                ));
            }
            _ if IGNORED.contains(&key) => return Ok(false),
            _ => {
                let near = nearest(key, KNOWN.iter().copied());
                let shown: String = key.chars().take(60).collect();
                return Err(format!("option {shown:?} is not supported (nearest: {near})"));
            }
        }
        Ok(true)
    }

    fn set_sizes(
        &mut self,
        key: &str,
        text: &str,
        parse: impl Fn(&str) -> Result<Sizes, String>,
    ) -> Result<(), String> {
        let given = triple(text, key, parse).map_err(|e| format!("{key}={e}"))?;
        for (sizes, given) in self.sizes.iter_mut().zip(given) {
            if let Some(given) = given {
                *sizes = given;
            }
        }
        Ok(())
    }
}

fn block(text: &str, base: u64) -> Result<u64, String> {
    match number(text, base)? {
        n if (512..=MAX_REQUEST).contains(&n) && n % 512 == 0 => Ok(n),
        _ => Err(format!("{text}: expected a multiple of 512 bytes up to 1g")),
    }
}

fn range(text: &str, base: u64) -> Result<Sizes, String> {
    let (low, high) =
        text.split_once('-').ok_or_else(|| format!("{text}: expected a range such as 4k-64k"))?;
    match (block(low, base)?, block(high, base)?) {
        (low, high) if low <= high => Ok(Sizes::Range(low, high)),
        _ => Err(format!("{text}: the range is upside down")),
    }
}

/// Placement identifiers: `0,2,5`.
fn plids(text: &str) -> Result<Vec<u16>, String> {
    let one = |part: &str| part.trim().parse::<u16>().ok();
    let all: Option<Vec<u16>> = text.split(',').map(one).collect();
    // fio's own limit.
    let expected = || format!("{text}: expected 1 to 128 placement identifiers such as 0,2,5");
    all.filter(|all| (1..=128).contains(&all.len())).ok_or_else(expected)
}

fn pattern(text: &str) -> Result<Pattern, String> {
    let (stem, random) = match text.strip_prefix("rand") {
        Some(stem) => (stem, true),
        None => (text, false),
    };
    let of = |read, write, trim| Ok(Pattern { read, write, trim, random });
    match stem {
        "read" => of(true, false, false),
        "write" => of(false, true, false),
        "trim" => of(false, false, true),
        "rw" => of(true, true, false),
        "readwrite" if !random => of(true, true, false),
        "trimwrite" => of(false, true, true),
        _ => Err(format!(
            "{text}: expected read, write, rw, readwrite, trim, trimwrite, randread, randwrite, randrw, randtrim or randtrimwrite"
        )),
    }
}

fn distribution(text: &str) -> Result<Distribution, String> {
    let (kind, argument) = text.split_once(':').unwrap_or((text, ""));
    let value = |low: f64, high: f64, usual: f64| -> Result<f64, String> {
        let v = if argument.is_empty() { usual } else { real(argument)? };
        if v > low && v < high {
            Ok(v)
        } else {
            Err(format!("{text}: expected a value between {low} and {high}"))
        }
    };
    match kind {
        "random" => Ok(Distribution::Uniform),
        "zipf" => match value(0.0, 100.0, 1.1)? {
            1.0 => {
                Err(format!("{text}: expected a theta other than 1, for which fio's formula has no value"))
            }
            theta => Ok(Distribution::Zipf(theta)),
        },
        "pareto" => Ok(Distribution::Pareto(value(0.0, 1.0, 0.2)?)),
        "normal" | "gauss" => Ok(Distribution::Normal(value(0.0, 100.001, 0.0)?)),
        "zoned" => {
            let zones = triple(argument, "zoned", |t| {
                let zones: Vec<(f64, f64)> = split(t, percentage)?;
                let accesses: f64 = zones.iter().map(|z| z.0).sum();
                if (accesses - 100.0).abs() > 1e-6 {
                    return Err(format!("{t}: the accesses add up to {accesses}%, expected 100"));
                }
                Ok(zones)
            })?;
            let usual = zones.iter().flatten().next().cloned();
            let usual = usual.ok_or_else(|| format!("{text}: expected zones such as zoned:60/10:40/90"))?;
            Ok(Distribution::Zoned(Box::new(zones.map(|z| z.unwrap_or_else(|| usual.clone())))))
        }
        _ => Err(format!(
            "{text}: expected random, zipf:THETA, pareto:H, normal:DEVIATION or zoned:ACCESS/SIZE:..."
        )),
    }
}
