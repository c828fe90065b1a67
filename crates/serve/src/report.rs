//! What a served drive has done, and how well it kept up with its clients.

use std::fmt;

use nandle_lab::measure::{KINDS, Meter};
use nandle_lab::units::{bytes, count, time};
use nandle_ssd::Ssd;
use serde_json::{Value, json};

use crate::clients::{Punctuality, Row, Tally};
use crate::overload::Overload;
use crate::timing::Timing;

/// Times of overload that are told one by one.
const MOST_TIMES: usize = 5;

/// What is wrong with the image that is served from.
#[derive(Clone, Debug, Default)]
pub(crate) struct Health {
    /// Places that were found damaged when it was opened.
    pub damaged: u64,
    /// Sectors that could not be read any more then.
    pub unreadable_sectors: u64,
    /// It is not where it should be any more.
    pub gone: Option<String>,
}

/// What a served drive has done so far.
#[derive(Clone, Debug)]
pub struct Report {
    /// Time since the drive was switched on, in nanoseconds: the model's, which is the wall clock's
    /// in real time.
    pub now_ns: u64,
    /// Commands completed by the drive: reads, writes, trims, flushes.
    pub commands: [u64; KINDS],
    /// Their bytes.
    pub bytes: [u64; KINDS],
    /// Mean modelled latency by kind, in nanoseconds.
    pub mean_ns: [f64; KINDS],
    /// Commands that the drive refused.
    pub refused: u64,
    /// Commands under way.
    pub outstanding: u32,
    /// When they are answered.
    pub timing: Timing,
    /// Bytes programmed per byte written by the host; none before the host wrote.
    pub waf: Option<f64>,
    /// How well it kept up with its clients; none but in real time.
    pub punctuality: Option<Punctuality>,
}

impl Report {
    pub(crate) fn of(ssd: &Ssd, meter: &Meter, timing: Timing, punctuality: Option<Punctuality>) -> Self {
        Self {
            now_ns: ssd.now(),
            commands: std::array::from_fn(|kind| meter.latency[kind].requests),
            bytes: std::array::from_fn(|kind| meter.latency[kind].bytes),
            mean_ns: std::array::from_fn(|kind| meter.latency[kind].mean_ns()),
            refused: meter.refused,
            outstanding: ssd.outstanding(),
            timing,
            waf: meter.waf(ssd),
            punctuality,
        }
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let clocks = self.timing != Timing::None;
        if clocks {
            write!(f, "after {}:", time(self.now_ns as f64))?;
        } else {
            f.write_str("in all:")?;
        }
        for (kind, name) in ["reads", "writes", "trims", "flushes"].into_iter().enumerate() {
            write!(f, " {} {name}", count(self.commands[kind]))?;
            match self.bytes[kind] {
                0 => {}
                moved if clocks => write!(f, " ({}, {} each)", bytes(moved), time(self.mean_ns[kind]))?,
                moved => write!(f, " ({})", bytes(moved))?,
            }
            f.write_str(if kind + 1 < KINDS { "," } else { "; " })?;
        }
        match self.waf {
            Some(waf) => write!(f, "WAF {waf:.3}")?,
            None => write!(f, "nothing written yet")?,
        }
        if self.refused > 0 {
            write!(f, "; {} REFUSED", count(self.refused))?;
        }
        match &self.punctuality {
            Some(punctuality) if punctuality.total.answers > 0 => write!(f, "\n{punctuality}"),
            Some(_) => Ok(()),
            None if clocks => f.write_str("\ntiming is off: answers were not held back to the modelled time"),
            None => f.write_str("\nthe drive had no clocks: there are no latencies"),
        }
    }
}

impl Punctuality {
    /// The sentence on overload; none if the machine kept up.
    #[must_use]
    pub fn complaint(&self) -> Option<String> {
        let at = |ns: u64| time(ns as f64);
        let [first, ..] = self.overload.as_slice() else { return None };
        let late: u64 = self.overload.iter().map(|o| o.late).sum();
        let mut times: Vec<String> = self
            .overload
            .iter()
            .take(MOST_TIMES)
            .map(|o| format!("from {} to {}", at(o.from), at(o.to)))
            .collect();
        if let (Some(last), true) = (self.overload.last(), self.overload.len() > MOST_TIMES) {
            times = vec![format!(
                "{} times, the first {}, the last {}",
                self.overload.len(),
                format_args!("from {} to {}", at(first.from), at(first.to)),
                format_args!("from {} to {}", at(last.from), at(last.to))
            )];
        }
        Some(format!(
            "the host could not keep up {}: {} answers were late; figures of that time are not the drive's{}",
            times.join(", "),
            count(late),
            if self.dilation == 1.0 { " (--dilation gives the host longer)" } else { "" }
        ))
    }

    /// The keys `timing`, `dilation`, `asked`, `modelled`, `achieved`, `lateness_ns`, `kept_up`, `overload`, `transports` and
    /// `clients`.
    #[must_use]
    pub fn json(&self) -> Value {
        let mut out = json!({ "timing": "real", "dilation": self.dilation });
        if let (Value::Object(out), Value::Object(total)) = (&mut out, self.total.json()) {
            out.extend(total);
        }
        out["kept_up"] = json!(self.overload.is_empty());
        out["overload"] = self.overload.iter().map(Overload::json).collect();
        let named = |(name, tally): (&str, Tally)| (name.to_owned(), tally.json());
        out["transports"] = Value::Object(self.by_transport().into_iter().map(named).collect());
        out["clients"] = self.clients.iter().filter(|row| row.tally.answers > 0).map(Row::json).collect();
        out
    }

    /// The same keys with another `timing`: nothing was late, and nothing is known.
    pub(crate) fn unknown(timing: Timing) -> Value {
        json!({
            "timing": timing.name(),
            "dilation": null,
            "asked": null,
            "modelled": null,
            "achieved": null,
            "lateness_ns": null,
            "kept_up": null,
            "overload": [],
            "transports": {},
            "clients": [],
        })
    }
}

impl fmt::Display for Punctuality {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "answers, from the request's first byte to the answer's last\n  {:<28} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10}",
            "client",
            "asked/s",
            "modelled",
            "achieved",
            "modelled",
            "achieved",
            "late 50%",
            "late 99%",
            "max"
        )?;
        let us = |ns: f64| time(ns);
        let mut line = |name: &str, tally: &Tally| {
            writeln!(
                f,
                "  {name:<28} {:>9} {:>9} {:>9} {:>10} {:>10} {:>10} {:>10} {:>10}",
                tally.asked_iops().map_or_else(|| "-".into(), |iops| count(iops as u64)),
                count(tally.modelled_iops() as u64),
                count(tally.achieved_iops() as u64),
                us(tally.modelled.mean_ns()),
                us(tally.achieved.mean_ns()),
                us(tally.lateness.percentile_ns(0.5) as f64),
                us(tally.lateness.percentile_ns(0.99) as f64),
                us(tally.lateness.max_ns() as f64)
            )
        };
        line("all", &self.total)?;
        let by_transport = self.by_transport();
        for (name, tally) in by_transport.iter().filter(|_| by_transport.len() > 1) {
            line(&format!("all {name}"), tally)?;
        }
        if self.clients.len() > 1 {
            for row in self.clients.iter().filter(|row| row.tally.answers > 0) {
                line(&row.name(), &row.tally)?;
            }
        }
        if self.total.withheld > 0 {
            let withheld = count(self.total.withheld);
            writeln!(f, "{withheld} answers left late because their clients did not take them")?;
        }
        if self.dilation != 1.0 {
            writeln!(
                f,
                "the drive and its clock were {} times slower than the wall clock; its times are given",
                self.dilation
            )?;
        }
        match self.complaint() {
            Some(complaint) => f.write_str(&complaint),
            None => {
                let late = self.total.lateness.percentile_ns(0.5) as f64;
                let share = 100.0 * late / (self.total.modelled.percentile_ns(0.5) as f64).max(1.0);
                write!(
                    f,
                    "the host kept up with the drive; half of the answers were late by {} ({share:.0}% of what was modelled) or more",
                    us(late)
                )
            }
        }
    }
}
