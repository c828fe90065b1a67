//! `--explain N`: the first requests of a run, and every flash operation while they are under way.

use std::collections::HashMap;
use std::fmt::Write as _;

use nandle_ssd::nand::{Cause, Geometry, Kind, Time};
use nandle_ssd::{Command, Completion, Operation, Ssd, Status};

/// What is noted of the first requests.
#[derive(Clone, Debug, Default)]
pub(crate) struct Explain {
    wanted: u64,
    /// Numbers of requests under way, from 1, by the name that the device knows them by.
    under_way: HashMap<u64, (u64, Time)>,
    seen: u64,
    /// (when, text)
    lines: Vec<(Time, String)>,
}

impl Explain {
    pub fn new(wanted: u64) -> Self {
        Self { wanted, ..Self::default() }
    }

    /// Whether requests or operations are still to be noted.
    pub fn listens(&self) -> bool {
        self.seen < self.wanted || !self.under_way.is_empty()
    }

    pub fn submitted(&mut self, ssd: &mut Ssd, at: Time, command: &Command<'_>) {
        if self.seen == self.wanted {
            return;
        }
        if self.seen == 0 {
            ssd.keep_operations(true);
        }
        self.seen += 1;
        self.under_way.insert(command.id, (self.seen, at));
        let spp = u64::from(ssd.flash().sectors_per_page());
        let pages = match command.sectors {
            0 => String::new(),
            n => format!(
                ", logical pages {}.{} to {}.{}",
                command.lsn / spp,
                command.lsn % spp,
                (command.lsn + n - 1) / spp,
                (command.lsn + n - 1) % spp
            ),
        };
        let (op, lsn, n) = (command.op.name(), command.lsn, command.sectors);
        self.lines.push((at, format!("#{:<5} {op} {n} sectors from {lsn}{pages}", self.seen)));
    }

    pub fn operations(&mut self, ssd: &mut Ssd) {
        for operation in ssd.take_operations() {
            let waits = operation.request.and_then(|id| self.under_way.get(&id)).map(|&(number, _)| number);
            let text = describe(&operation, ssd, waits);
            self.lines.push((operation.ended, text));
        }
    }

    pub fn completed(&mut self, ssd: &mut Ssd, completion: &Completion) {
        let Some((number, since)) = self.under_way.remove(&completion.id) else { return };
        let status = match completion.status {
            Status::Ok => String::new(),
            other => format!(" ({other:?})"),
        };
        let text = format!("#{number:<5} complete after {} us{status}", us(completion.at - since));
        self.lines.push((completion.at, text));
        if !self.listens() {
            ssd.keep_operations(false);
        }
    }

    /// The account, a line an event, times in microseconds.
    pub fn text(mut self) -> String {
        self.lines.sort_by_key(|&(at, _)| at);
        self.lines.iter().fold(String::new(), |mut out, (at, line)| {
            let _ = writeln!(out, "{:>14}  {line}", us(*at));
            out
        })
    }
}

fn us(ns: Time) -> String {
    format!("{}.{:03}", ns / 1000, ns % 1000)
}

fn describe(operation: &Operation, ssd: &Ssd, waits: Option<u64>) -> String {
    let Operation { kind, cause, ppn, started, ended, .. } = *operation;
    let (addressed, array) = (ssd.flash().geometry(), ssd.flash().array());
    let g: &Geometry = array.flash();
    let block = addressed.block_of(ppn);
    let plane = array.plane_of(ppn);
    let die = g.die_of_plane(plane);
    let chip = g.chip_of_die(die);
    let place = format!(
        "channel {} chip {} die {} plane {} block {}",
        g.channel_of_die(die),
        chip % g.chips_per_channel,
        die % g.dies_per_chip,
        plane % g.planes_per_die,
        block.0 & ((1 << addressed.block_bits()) - 1)
    );
    let what = match kind {
        Kind::Read => "read",
        Kind::Program => "program",
        Kind::Erase => "erase",
    };
    let page = match kind {
        Kind::Erase => String::new(),
        _ => {
            let types = ["lsb", "csb", "msb", "tsb"];
            let bits = ssd.config().cell.kind.bits();
            let name = if bits == 1 { "" } else { types[ssd.flash().array().page_type(ppn).min(3)] };
            format!(" page {} {name}", addressed.page_of(ppn)).trim_end().to_owned()
        }
    };
    let cause = match (kind, cause) {
        (Kind::Erase, _) => "gc",
        (_, Cause::Host) => "host",
        (_, Cause::Rmw) => "rmw",
        (_, Cause::Gc) => "gc",
        (_, Cause::Merge) => "merge",
        (_, Cause::Map) => "map",
        (_, Cause::Meta) => "meta",
        (_, Cause::Parity) => "parity",
    };
    let waits = waits.map_or_else(String::new, |number| format!(" for #{number}"));
    format!(
        "       {what:7} {cause:5} {place}{page}: from {}, {} us{waits}",
        us(started),
        us(ended - started)
    )
}
