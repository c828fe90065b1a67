//! What was written, in intervals of a phase, and what tenants got done in each.

use nandle_lab::measure::Meter;
use nandle_ssd::Op;
use nandle_ssd::nand::Cause;

/// Users whose writes are what a tenant gets done: what their names begin and end with.
pub(super) const DB_BENCH: (&str, &str) = ("rocksdb", "flush");
pub(super) const TPC_C: (&str, &str) = ("mysql", "cleaner");
pub(super) const TENANTS: [(&str, &str); 2] = [DB_BENCH, TPC_C];

pub(super) fn belongs(user: &str, (begin, end): (&str, &str)) -> bool {
    user.starts_with(begin) && user.ends_with(end)
}

/// What was written in an interval.
#[derive(Clone, Copy, Debug, Default)]
pub struct Interval {
    /// Nanoseconds from the beginning of the phase to its own.
    pub from_ns: u64,
    /// Its nanoseconds.
    pub ns: u64,
    /// Bytes that the host wrote.
    pub host: u64,
    /// Bytes that were programmed.
    pub media: u64,
    /// Bytes that collection copied.
    pub copied: u64,
    /// Bytes of what db_bench and TPC-C got done.
    pub done: [u64; 2],
}

pub(super) fn waf(of: &[Interval]) -> f64 {
    let sum = |f: fn(&Interval) -> u64| of.iter().map(f).sum::<u64>();
    sum(|i| i.media) as f64 / sum(|i| i.host) as f64
}

/// MB/s of some of what was written in intervals that follow each other.
pub(super) fn rate(of: &[Interval], bytes: fn(&Interval) -> u64) -> f64 {
    let end = of.last().map_or(0, |i| i.from_ns + i.ns);
    let begin = of.first().map_or(0, |i| i.from_ns);
    of.iter().map(bytes).sum::<u64>() as f64 * 1e3 / (end - begin) as f64
}

/// What was written in a phase, in intervals of it; also in those in which no request ended, of which there are no rows.
pub(super) fn intervals(meter: &Meter, page: u64, phase: usize) -> Vec<Interval> {
    let (length, mut all) = (meter.rows.interval_ns(), Vec::<Interval>::new());
    for row in meter.rows.rows().iter().filter(|row| row.phase as usize == phase) {
        let start = meter.rows.start_ns(row);
        // The first may begin in the phase before.
        let (from_ns, end) = (start.saturating_sub(meter.begun_ns), start + length - meter.begun_ns);
        while let Some(last) = all.last()
            && last.from_ns + last.ns < from_ns
        {
            all.push(Interval { from_ns: last.from_ns + last.ns, ns: length, ..Interval::default() });
        }
        all.push(Interval {
            from_ns,
            ns: end - from_ns,
            host: row.bytes[Op::Write as usize],
            media: row.flash.programs.iter().sum::<u64>() * page,
            copied: row.flash.programs[Cause::Gc as usize] * page,
            done: TENANTS.map(|tenant| {
                let own = meter.users.iter().zip(&row.user_bytes).filter(|(u, _)| belongs(&u.name, tenant));
                own.map(|(_, bytes)| bytes[Op::Write as usize]).sum()
            }),
        });
    }
    all
}
