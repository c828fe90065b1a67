//! WAFLASH's six block traces (sections II-B and V-E) and the workload of its Fig 1.
//!
//! Published: unaligned writes are 83.1% of all writes with 8 KiB pages and 97.2% with 16 KiB, as
//! means over the traces, and 33.5% and 99.1% for MSNFS. The means are taken over the six traces
//! that section V-E names; the other five share what MSNFS leaves of them equally (assumed). Counts,
//! mixes and sizes are not published and assumed.
//!
//! Neither is locality. It is modelled on real traces (five minutes of DTR, CloudPhysics, a Windows system
//! disk, Financial1, TPC-C, a cloud volume): of the 8 KiB pages that they write whole, 0 to 3% are among the
//! last 1024 that were written (Financial1, which has few: 29%), of those written in part 41 to 84% (TPC-C and
//! the cloud volume 3 and 10%), and of those read 0 to 6%: what was just written is in the host's own cache. So here small writes mostly
//! repeat an extent, whole pages hardly ever do, and reads go anywhere. The twins are still milder than the
//! traces: 33 to 40% of the partial pages, 12 to 35% of the whole ones (some of them beside small extents) and 8
//! to 17% of those read.

use super::simple::Sequential;
use super::twin::{Arrivals, Class, Places, Plan, tilted};
use super::{Entry, Phase, Published, Replay, Target, Workload};
use crate::{Error, Op, Request, Source};
use nandle_random::Stream;

struct Row {
    name: &'static str,
    line: &'static str,
    /// Assumed.
    write_share: f64,
    /// Mean size of the unaligned small requests, bytes. Assumed.
    small_bytes: f64,
}

const fn row(name: &'static str, line: &'static str, writes: u32, small: u32) -> Row {
    Row { name, line, write_share: writes as f64 / 100.0, small_bytes: small as f64 }
}

const ROWS: [Row; 6] = [
    row(
        "msnfs",
        "twin of MSNFS (MSN file server): 33.5% of the writes unaligned at 8 KiB, 99.1% at 16 KiB",
        70,
        4096,
    ),
    row("cfs", "twin of CFS (MSN storage metadata): 93.0% of the writes unaligned at 8 KiB", 60, 3072),
    row("dtr", "twin of DTR (development tools release): 93.0% of the writes unaligned at 8 KiB", 40, 8192),
    row("ra", "twin of RA (RADIUS authentication): 93.0% of the writes unaligned at 8 KiB", 85, 4096),
    row("ex", "twin of Ex (Exchange server): 93.0% of the writes unaligned at 8 KiB", 55, 6144),
    row("web", "twin of Web (FIU web server): 93.0% of the writes unaligned at 8 KiB", 80, 4096),
];

/// Unaligned writes at 8 and 16 KiB: the mean over the traces, and MSNFS's.
const MEAN: [f64; 2] = [0.831, 0.972];
const MSNFS: [f64; 2] = [0.335, 0.991];
/// Assumed number of requests.
const REQUESTS: u64 = 1_000_000;
/// Shares of small writes, and of writes of whole pages, that repeat an extent (assumed: see above).
const REPEAT: [f64; 2] = [0.9, 0.05];
/// Assumed: 1000 requests a second.
const MEAN_GAP_NS: f64 = 1e6;

const fn entry(index: usize) -> Entry {
    Entry { name: ROWS[index].name, line: ROWS[index].line, make }
}

pub(super) const ENTRIES: &[Entry] = &[
    entry(0),
    entry(1),
    entry(2),
    entry(3),
    entry(4),
    entry(5),
    Entry {
        name: "waflash-fig1:PCT",
        line: "WAFLASH Fig 1: 120,000 requests of 8 KiB, 30% aligned reads, PCT% of the writes unaligned",
        make: fig1,
    },
];

/// Unaligned writes of one trace, at 8 and 16 KiB.
fn unaligned(name: &str) -> [f64; 2] {
    let rest = |i: usize| (6.0 * MEAN[i] - MSNFS[i]) / 5.0;
    if name == "msnfs" { MSNFS } else { [rest(0), rest(1)] }
}

pub(super) fn published(name: &str) -> Option<Published> {
    let row = ROWS.iter().find(|r| r.name == name)?;
    let [at_8k, at_16k] = unaligned(row.name);
    Some(Published {
        unaligned_writes_8k: Some(at_8k),
        unaligned_writes_16k: Some(at_16k),
        assumed: if row.name == "msnfs" { &[] } else { &["unaligned_writes_8k", "unaligned_writes_16k"] },
        ..Published::of("WAFLASH, section II-B")
    })
}

fn make(name: &'static str, _: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let Some(row) = ROWS.iter().find(|r| r.name == name) else {
        return Err(Error::Input(format!("{name} is not a trace of WAFLASH")));
    };
    let [at_8k, at_16k] = unaligned(name);
    let class = |weight: f64, places: Places, bytes: Vec<(u32, f64)>, repeat: f64| Class {
        write: weight,
        read: weight,
        repeat,
        places,
        write_bytes: bytes.clone(),
        read_bytes: bytes,
        guest_of: None,
        abutting: false,
    };
    let small = [512, 1024, 2048, 3072, 4096, 6144, 8192, 12_288, 16_384];
    let plan = Plan {
        requests: REQUESTS,
        write_share: row.write_share,
        cell_bytes: 32_768,
        classes: vec![
            // Half of the unaligned start on a 4 KiB border, half (direct I/O, no file system) on an
            // odd sector.
            class(at_8k / 2.0, Places::Either([4096, 0]), vec![(4096, 1.0)], REPEAT[0]),
            class(
                at_8k / 2.0,
                Places::Hashed { from: 512, step: 1024, count: 16 },
                tilted(&small, row.small_bytes),
                REPEAT[0],
            ),
            // Aligned at 8 KiB, not at 16 KiB.
            class(at_16k - at_8k, Places::Either([8192, 0]), vec![(8192, 1.0)], REPEAT[1]),
            // Aligned at both.
            class(1.0 - at_16k, Places::At(0), tilted(&[16_384, 32_768, 65_536], 24_576.0), REPEAT[1]),
        ],
        demote: 0.0,
        reads_anywhere: true,
        known: false,
        spread: false,
        mean_gap_ns: MEAN_GAP_NS,
    };
    let mut notes =
        vec!["WAFLASH prints unaligned shares only: counts, read share and sizes are assumed".to_owned()];
    if name != "msnfs" {
        notes.push(
            "its unaligned share is the mean that MSNFS leaves for the other five (assumed)".to_owned(),
        );
    }
    plan.workload(name, target, notes)
}

fn fig1(_: &'static str, argument: Option<&str>, target: &Target) -> Result<Workload, Error> {
    let given = argument.unwrap_or_default();
    let percent: f64 =
        given.trim_end_matches('%').parse().ok().filter(|p| (0.0..=100.0).contains(p)).ok_or_else(|| {
            Error::Input(format!("waflash-fig1:{given}: expected a percentage from 0 to 100"))
        })?;
    let requests = target.requests.unwrap_or(120_000);
    let unit = 8192;
    let slots = ((1 << 30).min(target.logical_bytes / 10 * 6) / unit).max(2);
    let large = 1 << 20;
    let fill = (slots * unit).div_ceil(large);
    let source = Fig1 {
        places: Stream::new(target.seed, "workload/waflash-fig1/places"),
        shifts: Stream::new(target.seed, "workload/waflash-fig1/shifts"),
        arrivals: Arrivals::new(MEAN_GAP_NS),
        times: Stream::new(target.seed, "workload/waflash-fig1/times"),
        unaligned: percent / 100.0,
        slots,
        sector: u64::from(target.sector_bytes).min(4096),
        left: requests,
    };
    let name = format!("waflash-fig1:{given}");
    let phases = vec![
        Phase::new(Replay::Closed { iodepth: 32 }, Sequential::new(slots * unit, large, fill, 0))
            .counted(fill),
        Phase::new(Replay::Open { time_scale: 1.0 }, source).counted(requests),
    ];
    let notes = vec![format!(
        "assumed, for the paper does not say: writes of 8 KiB, uniform over {} MiB that are written first, arrivals as in the twin of MSNFS: {:.0} requests a second, in bursts",
        (slots * unit) >> 20,
        1e9 / MEAN_GAP_NS
    )];
    Ok(Workload { name, phases, notes })
}

/// Aligned reads and partly unaligned writes. Only the shifts depend on the percentage: times,
/// places and operations are the same for every point of the figure.
struct Fig1 {
    places: Stream,
    shifts: Stream,
    arrivals: Arrivals,
    times: Stream,
    unaligned: f64,
    slots: u64,
    sector: u64,
    left: u64,
}

impl Source for Fig1 {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        let count = self.left.min(max as u64);
        self.left -= count;
        for _ in 0..count {
            let time_ns = self.arrivals.next(&mut self.times);
            let read = self.places.chance(0.3);
            // The last slot is left to the requests shifted from the one before.
            let slot = self.places.below(self.slots - 1);
            let (chosen, shift) =
                (self.shifts.unit() < self.unaligned, self.shifts.below(8192 / self.sector - 1) + 1);
            let shift = if chosen && !read { shift * self.sector } else { 0 };
            out.push(Request {
                time_ns,
                offset: slot * 8192 + shift,
                bytes: 8192,
                object: 0,
                stream: 0,
                op: if read { Op::Read } else { Op::Write },
                fua: false,
            });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::measure::{Stats, assert_close, drain, target};
    use crate::synthetic::named;

    #[test]
    fn twins_match_the_published_shares() {
        let mut sums = [0.0; 2];
        for row in &ROWS {
            let stats = Stats::of(row.name, &target(64 << 30, 200_000));
            let got = [stats.at(8192).unaligned(), stats.at(16_384).unaligned()];
            println!("{:5} unaligned {:.3} {:.3} ({:?})", row.name, got[0], got[1], unaligned(row.name));
            assert_close(row.name, &stats, &published(row.name).unwrap());
            sums[0] += got[0] / 6.0;
            sums[1] += got[1] / 6.0;
        }
        assert!((sums[0] - 0.831).abs() < 0.005 && (sums[1] - 0.972).abs() < 0.005, "{sums:?}");
    }

    #[test]
    fn fig1_shifts_the_asked_share_of_writes_and_nothing_else() {
        let at = |percent: u32| {
            let workload = named(&format!("waflash-fig1:{percent}"), &target(8 << 30, 50_000)).unwrap();
            drain(workload.phases.into_iter().next_back().unwrap().into_source())
        };
        let aligned = at(0);
        assert_eq!(aligned.len(), 50_000);
        assert!(aligned.iter().all(|r| r.offset % 8192 == 0 && r.bytes == 8192));
        for percent in [0, 10, 50, 100] {
            let requests = at(percent);
            for (r, a) in requests.iter().zip(&aligned) {
                assert_eq!((r.time_ns, r.op, r.offset / 8192), (a.time_ns, a.op, a.offset / 8192));
            }
            let stats = Stats::new(requests);
            assert!((stats.write_share() - 0.7).abs() < 0.01);
            assert!((stats.at(8192).unaligned() - f64::from(percent) / 100.0).abs() < 0.01, "{percent}");
        }
        assert!(named("waflash-fig1:200", &target(8 << 30, 1)).is_err());
        assert!(named("waflash-fig1", &target(8 << 30, 1)).is_err());
    }
}
