//! The driver carries out what a control socket orders ([`crate::ctl`]).

use nandle_lab::units::{count, time};
use nandle_ssd::nand::Time;

use super::Driver;
use crate::Error;
use crate::order::{Answer, Kind, Late, Order};
use crate::timing::Timing;

/// The latest that commands can be made.
const LATEST: Time = 600_000_000_000;

const NO_REQUESTS: &str = "0 requests: expected at least one";

/// How many commands, in words.
fn number(requests: Option<u64>) -> String {
    match requests {
        None => "all from now on".into(),
        Some(1) => "the next one".into(),
        Some(n) => format!("the next {}", count(n)),
    }
}

impl Driver {
    /// Carries an order out.
    pub(super) fn order(&mut self, order: Order) -> Answer {
        match self.ordered(order) {
            Ok(said) => Answer::Done { said, faults: self.faults.standing.clone() },
            Err(why) => Answer::Refused(why),
        }
    }

    fn ordered(&mut self, order: Order) -> Result<String, String> {
        let read_only = self.ssd.is_read_only();
        let standing = &mut self.faults.standing;
        match order {
            Order::Show => Ok(String::new()),
            Order::Latency { ns, of, requests } => {
                if self.timing != Timing::Real {
                    let timing = self.timing.name();
                    return Err(format!(
                        "with --timing {timing} nothing takes time; expected a drive in real time"
                    ));
                }
                if ns > LATEST {
                    return Err(format!("{}: expected at most 10 minutes", time(ns as f64)));
                }
                if requests == Some(0) {
                    return Err(NO_REQUESTS.into());
                }
                let of = if of.is_empty() { Kind::ALL.to_vec() } else { of };
                standing.latency.retain(|late| !of.contains(&late.of));
                if ns == 0 {
                    self.ready.extend(self.faults.release_all(&of));
                } else {
                    standing.latency.extend(of.iter().map(|&of| Late { of, ns, requests_left: requests }));
                }
                let names: Vec<&str> = of.iter().map(|of| of.op().name()).collect();
                let (names, late, number) = (names.join(", "), time(ns as f64), number(requests));
                Ok(if ns == 0 {
                    format!("{names}: on time")
                } else {
                    format!("{names}: {late} late, {number}")
                })
            }
            Order::Fail { of, requests } => {
                if requests == Some(0) {
                    return Err(NO_REQUESTS.into());
                }
                standing.fail.retain(|late| late.of != of);
                standing.fail.push(Late { of, ns: 0, requests_left: requests });
                Ok(format!("{}: fails, {}", of.op().name(), number(requests)))
            }
            Order::MediaError { offset, bytes } => {
                let (end, sector) = (offset.checked_add(bytes), u64::from(self.shape.sector_bytes));
                let Some(end) = end.filter(|&end| bytes > 0 && end <= self.shape.bytes) else {
                    let most = self.shape.bytes;
                    return Err(format!(
                        "{bytes} bytes at {offset}: expected some within the drive's {most}"
                    ));
                };
                let first = offset / sector;
                let sectors = end.div_ceil(sector) - first;
                let lost = self.ssd.lose_sectors(first, sectors);
                standing.sectors_lost += lost;
                Ok(format!("{lost} of {sectors} sectors lost: the others are not on flash"))
            }
            Order::Die { die } => {
                if !self.ssd.lose_die(die) {
                    let dies = self.ssd.flash().array().flash().dies();
                    return Err(format!("die {die}: expected 0 to {}", dies - 1));
                }
                if !standing.dies_gone.contains(&die) {
                    standing.dies_gone.push(die);
                }
                Ok(format!("die {die} answers no more"))
            }
            Order::ReadOnly { on } => {
                if read_only && !standing.read_only {
                    return Err("the drive takes no writes because its flash is worn out".into());
                }
                standing.read_only = on;
                self.ssd.set_read_only(on);
                Ok(if on { "no writes are taken" } else { "writes are taken" }.into())
            }
            Order::Full { on } => {
                standing.full = on;
                Ok(if on { "there is no room" } else { "there is room" }.into())
            }
            Order::Clear => {
                if std::mem::take(&mut standing.read_only) {
                    self.ssd.set_read_only(false);
                }
                standing.latency.clear();
                standing.fail.clear();
                standing.full = false;
                self.ready.extend(self.faults.release_all(&Kind::ALL));
                Ok("commands are on time and none fails".into())
            }
            Order::PowerCut if self.image.is_none() => {
                Err("nothing would be left of a drive in memory; expected one with --image".into())
            }
            Order::PowerCut => {
                self.cut_after = Some(self.submitted);
                Ok("the power is cut".into())
            }
            Order::Snapshot { .. } => Err("a snapshot is taken at the control socket".into()),
        }
    }

    /// When something happens next, without a further request.
    pub(super) fn next_event(&mut self) -> Option<Time> {
        self.ssd.next_event().into_iter().chain(self.faults.next()).min()
    }

    /// Tasks that were kept until `now` reach the drive.
    pub(super) fn release_kept(&mut self, now: Time) -> Result<(), Error> {
        while let Some(task) = self.faults.release(now) {
            self.ready.push_back(task);
        }
        self.submit_ready()
    }
}
