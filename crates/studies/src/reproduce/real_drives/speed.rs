//! Throughput and latency of the measured drives, and the cells of their data sheets.

use nandle_lab::Error;
use nandle_lab::workload::{Asked, Mode};

use super::super::simulate::{Instant, Measured, simulate};
use super::super::{Bench, Cell, Claim, Report, Rule, Table};
use super::claims::{self, KNEE, LATENCY, SHEET, THROUGHPUT};
use super::measured::{self, Latency, Run};
use super::scaled::fast;

/// What a data sheet says: MB/s of 128 KiB in order, and 4 KiB requests a second in random order.
struct Sheet {
    preset: &'static str,
    read_mb_s: f64,
    write_mb_s: f64,
    reads: f64,
    writes: f64,
    /// Typical latency of a lone request, in microseconds.
    read_us: Option<f64>,
    write_us: Option<f64>,
}

/// From `paper/devices.csv` of gabriel-haas/ssdiq-pub.
const SHEETS: [Sheet; 6] = [
    sheet("micron-7450-max-800g", [6800.0, 1400.0, 530e3, 145e3], [80.0, 15.0]),
    sheet("micron-7450-pro-960g", [6800.0, 1400.0, 530e3, 85e3], [80.0, 15.0]),
    sheet("samsung-pm9a3-960g", [6500.0, 1500.0, 580e3, 70e3], [0.0, 0.0]),
    sheet("solidigm-p5520-1920g", [5300.0, 1900.0, 700e3, 114e3], [75.0, 15.0]),
    sheet("kioxia-cm7-r-3840g", [14000.0, 6750.0, 2700e3, 310e3], [0.0, 0.0]),
    sheet("wd-sn-class", [3330.0, 1190.0, 434e3, 49e3], [78.0, 0.0]),
];

/// A latency of 0: the sheet has none.
const fn sheet(preset: &'static str, rates: [f64; 4], us: [f64; 2]) -> Sheet {
    let [read_mb_s, write_mb_s, reads, writes] = rates;
    let read_us = if us[0] > 0.0 { Some(us[0]) } else { None };
    let write_us = if us[1] > 0.0 { Some(us[1]) } else { None };
    Sheet { preset, read_mb_s, write_mb_s, reads, writes, read_us, write_us }
}

/// One run here.
struct Job {
    preset: &'static str,
    workload: String,
    /// Requests in flight, where the workload's own are not meant.
    depth: Option<u32>,
    requests: Option<u64>,
}

/// What a figure is made of.
enum Figure {
    /// Host MiB/s in the beginning, and over the last 40%.
    Fresh,
    Steady,
    /// Requests a second, and over the last 40% writes a second.
    Requests,
    SteadyRequests,
    MegabytesS,
    ReadUs,
    WriteUs,
}

/// A measured figure: claim, place, what, figure of theirs, whether it was fitted, number of the job, and how ours
/// follows from it.
struct Row {
    id: &'static str,
    place: &'static str,
    what: String,
    theirs: f64,
    margin: f64,
    fitted: bool,
    job: usize,
    figure: Figure,
}

/// Shares of the host's bytes that are the beginning, what the write buffer takes at once aside: the first minute of
/// the real drives is 4 to 11% of their range.
const FIRST: [f64; 2] = [0.01, 0.04];
/// Uniform writes, in ranges written.
const WRITES: f64 = 2.5;
/// Requests of a run whose drive does not change while it is under way.
const FEW: u64 = 60_000;

#[derive(Default)]
struct Plan {
    jobs: Vec<Job>,
    rows: Vec<Row>,
}

impl Plan {
    fn job(
        &mut self,
        preset: &'static str,
        workload: String,
        depth: Option<u32>,
        requests: Option<u64>,
    ) -> usize {
        let same = |j: &Job| (j.preset, &j.workload, j.depth) == (preset, &workload, depth);
        if let Some(at) = self.jobs.iter().position(same) {
            return at;
        }
        self.jobs.push(Job { preset, workload, depth, requests });
        self.jobs.len() - 1
    }

    fn uniform(&mut self, preset: &'static str) -> usize {
        self.job(preset, format!("ssdiq-uniform:writes={WRITES}"), None, None)
    }

    /// The run of a preset whose writes are uniform over the whole drive.
    fn throughput(&mut self, run: &'static Run) {
        let job = self.uniform(run.preset);
        for (state, theirs, figure) in
            [("fresh", run.mib_s_first, Figure::Fresh), ("steady", run.mib_s, Figure::Steady)]
        {
            let Some(theirs) = theirs else { continue };
            let what = format!("{}: MiB/s of uniform 4 KiB writes, {state} ({})", run.preset, run.id);
            let row =
                Row { id: THROUGHPUT, place: "log", what, theirs, margin: 0.15, fitted: false, job, figure };
            self.rows.push(row);
        }
    }

    /// The load at which a drive does not keep up any more, and latencies below it.
    fn load(&mut self, preset: &'static str) {
        let of = |saturated: bool| {
            let rows =
                measured::latencies().iter().filter(move |l| l.preset == preset && l.saturated == saturated);
            rows.filter(|l| l.offered.is_some())
        };
        let most = of(true).filter(|l| !l.reads).map(|l| l.writes).fold(f64::NAN, f64::max);
        if most.is_finite() {
            let workload = format!("ssdiq-load:rate={most:.0},writes=1");
            let job = self.job(preset, workload, Some(384), None);
            let what = format!("{preset}: writes a second where offering more brings no more");
            let figure = Figure::SteadyRequests;
            self.rows.push(Row {
                id: KNEE,
                place: "log",
                what,
                theirs: most,
                margin: 0.15,
                fitted: false,
                job,
                figure,
            });
        }
        let mut rates: Vec<f64> = of(false).filter_map(|l| l.offered).collect();
        rates.sort_by(f64::total_cmp);
        rates.dedup();
        let chosen: Vec<f64> = [0, rates.len() / 2, rates.len().saturating_sub(1)]
            .iter()
            .filter_map(|&n| rates.get(n).copied())
            .collect();
        let rows: Vec<&Latency> =
            of(false).filter(|l| l.offered.is_some_and(|r| chosen.contains(&r))).collect();
        for l in rows {
            let rate = l.offered.unwrap_or(0.0);
            let job = self.job(preset, format!("ssdiq-load:rate={rate:.0},writes=0.25"), None, None);
            let (kind, figure) = if l.reads { ("read", Figure::ReadUs) } else { ("write", Figure::WriteUs) };
            let what = format!("{preset}: mean {kind} us at {rate:.0} requests a second ({})", l.id);
            let theirs = l.mean_us;
            self.rows.push(Row {
                id: LATENCY,
                place: "log",
                what,
                theirs,
                margin: 0.25,
                fitted: false,
                job,
                figure,
            });
        }
    }

    fn sheet(&mut self, sheet: &Sheet) {
        let preset = sheet.preset;
        let in_order = |plan: &mut Self, name: &str| plan.job(preset, name.to_owned(), Some(32), None);
        let few =
            |plan: &mut Self, name: &str, depth| plan.job(preset, name.to_owned(), Some(depth), Some(FEW));
        let jobs = [
            (
                "MB/s of 128 KiB reads in order",
                Some(sheet.read_mb_s),
                in_order(self, "sequential-read"),
                Figure::MegabytesS,
                true,
            ),
            (
                "MB/s of 128 KiB writes in order",
                Some(sheet.write_mb_s),
                in_order(self, "sequential-write"),
                Figure::MegabytesS,
                true,
            ),
            (
                "random 4 KiB reads a second, 256 in flight",
                Some(sheet.reads),
                few(self, "random-read", 256),
                Figure::Requests,
                true,
            ),
            (
                "random 4 KiB writes a second, steady",
                Some(sheet.writes),
                self.uniform(preset),
                Figure::SteadyRequests,
                false,
            ),
            ("us of a lone 4 KiB read", sheet.read_us, few(self, "random-read", 1), Figure::ReadUs, false),
            (
                "us of a lone 4 KiB write",
                sheet.write_us,
                few(self, "random-write", 1),
                Figure::WriteUs,
                false,
            ),
        ];
        for (what, theirs, job, figure, fitted) in jobs {
            let Some(theirs) = theirs else { continue };
            let what = format!("{preset}: {what}");
            self.rows.push(Row {
                id: SHEET,
                place: "data sheet",
                what,
                theirs,
                margin: 0.15,
                fitted,
                job,
                figure,
            });
        }
    }
}

/// Bytes written and nanoseconds between the first points of the course past two shares of the host's bytes, which
/// are at least one point apart.
fn part(course: &[Instant], from: f64, to: f64) -> (f64, f64) {
    let total = course.last().map_or(0, |i| i.written) as f64;
    let past = |share: f64| course.partition_point(|i| (i.written as f64) < share * total);
    let point = |index: usize| course.get(index).map_or((0.0, 0.0), |i| (i.written as f64, i.at_ns as f64));
    let first = past(from);
    let a = if from > 0.0 { point(first) } else { (0.0, 0.0) };
    let b = point(past(to).max(first + 1));
    (b.0 - a.0, b.1 - a.1)
}

impl Figure {
    fn of(&self, m: &Measured) -> f64 {
        let bytes_s = |from, to| {
            let (bytes, ns) = part(&m.course, from, to);
            bytes / ns * 1e9
        };
        let mib = f64::from(1 << 20);
        match self {
            Self::Fresh => bytes_s(FIRST[0], FIRST[1]) / mib,
            Self::Steady => bytes_s(0.6, 1.0) / mib,
            Self::Requests => m.iops(),
            Self::SteadyRequests => bytes_s(0.6, 1.0) / 4096.0,
            Self::MegabytesS => m.bytes_per_s() / 1e6,
            Self::ReadUs => m.read_ns() / 1e3,
            Self::WriteUs => m.write_ns() / 1e3,
        }
    }
}

pub fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let mut plan = Plan::default();
    for sheet in &SHEETS {
        let preset = sheet.preset;
        // A quick evaluation has one drive of each kind of figure.
        if bench.options.quick && preset != "micron-7450-max-800g" && preset != "samsung-pm9a3-960g" {
            continue;
        }
        let whole = |r: &&Run| {
            r.preset == preset
                && r.workload.starts_with("ssdiq-uniform")
                && !r.workload.contains("used=")
                && !r.workload.contains("fill=")
        };
        if let Some(run) = measured::runs().iter().find(whole).filter(|_| bench.wants(&[THROUGHPUT])) {
            plan.throughput(run);
        }
        if bench.wants(&[KNEE, LATENCY]) && !(bench.options.quick && preset == "micron-7450-max-800g") {
            plan.load(preset);
        }
        if bench.wants(&[SHEET]) && !(bench.options.quick && preset == "samsung-pm9a3-960g") {
            plan.sheet(sheet);
        }
    }
    let name = |job: &Job| format!("{} {}", job.preset, job.workload);
    let results = bench.each(&plan.jobs, name, |job| {
        let asked = Asked {
            workload: job.workload.clone(),
            seed: bench.options.seed,
            requests: job.requests,
            mode: job.depth.map(|_| Mode::Closed),
            iodepth: job.depth,
            ..Asked::default()
        };
        simulate(&fast(job.preset, bench.options.quick)?, &asked, false, bench.stop)
    })?;
    let mut table = Table::new("Throughput and latency, runs here", &COLUMNS);
    table.rows = plan.jobs.iter().zip(&results).map(|(job, m)| cells(job, m)).collect();
    for row in plan.rows {
        let (job, ours) = (&plan.jobs[row.job], row.figure.of(&results[row.job]));
        let why = claims::why(row.id, &row.what, &job.workload);
        let claim = Claim::new(
            row.id,
            row.place,
            row.what,
            job.workload.clone(),
            row.theirs,
            ours,
            Rule::Value(row.margin),
        );
        let claim = claim.because(why);
        report.claims.push(if row.fitted { claim.fitted() } else { claim });
    }
    if !table.rows.is_empty() {
        report.tables.push(table);
    }
    Ok(())
}

const COLUMNS: [&str; 10] = [
    "drive",
    "workload",
    "in flight",
    "MiB/s",
    "IOPS",
    "write us",
    "read us",
    "WAF",
    "dies busy",
    "busiest core",
];

fn cells(job: &Job, m: &Measured) -> Vec<Cell> {
    let s = &m.summary;
    let cores = s.controller.utilisation.iter().copied().fold(f64::NAN, f64::max);
    vec![
        job.preset.into(),
        job.workload.clone().into(),
        job.depth.map_or_else(|| "its own".into(), |depth| u64::from(depth).into()),
        (m.bytes_per_s() / f64::from(1 << 20)).into(),
        m.iops().into(),
        (m.write_ns() / 1e3).into(),
        (m.read_ns() / 1e3).into(),
        s.waf.unwrap_or(f64::NAN).into(),
        m.dies_busy.into(),
        cores.into(),
    ]
}
