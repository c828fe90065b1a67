//! Write amplification of the measured runs.

use nandle_lab::Error;
use nandle_lab::workload::Asked;

use super::super::simulate::{Instant, Measured, simulate};
use super::super::{Bench, Cell, Claim, Curves, Report, Rule, Table};
use super::claims::{self, FDP, OVER_TIME, SKEWED, UNIFORM, ZONES};
use super::measured::{self, Quantity, Run};
use super::scaled::{Small, small};

/// What throughput implies up to here is within 5% of the counter on drives that have both; beyond, collection costs
/// more than its programs, and throughput says something only beside that of another run with as much collection.
const LITTLE: f64 = 1.25;
/// The part of a run that is measured.
const LAST: f64 = 0.4;

/// Bytes programmed over bytes written in the last `share` of the host's bytes.
pub fn last(course: &[Instant], share: f64) -> f64 {
    let total = course.last().map_or(0, |i| i.written) as f64;
    between(course, total * (1.0 - share), total)
}

/// The same from some to other bytes of the host.
fn between(course: &[Instant], from: f64, to: f64) -> f64 {
    (programmed_at(course, to) - programmed_at(course, from)) / (to - from)
}

/// Bytes programmed by the time that the host had written `bytes`.
fn programmed_at(course: &[Instant], bytes: f64) -> f64 {
    let after = course.partition_point(|i| (i.written as f64) < bytes);
    let Some(b) = course.get(after).or(course.last()) else { return f64::NAN };
    let a = after.checked_sub(1).and_then(|n| course.get(n));
    let (written, programmed) = a.map_or((0, 0), |a| (a.written, a.programmed));
    if b.written <= written {
        return b.programmed as f64;
    }
    let share = (bytes - written as f64) / (b.written - written) as f64;
    programmed as f64 + share * (b.programmed - programmed) as f64
}

/// The claim that a workload belongs to, and within which share of the measured figure ours has to be.
fn claim(workload: &str) -> (&'static str, f64) {
    match workload.split(':').next().unwrap_or(workload) {
        "ssdiq-uniform" | "ssdiq-permutation" | "ssdiq-sequential" => (UNIFORM, 0.05),
        "ssdiq-zipf" | "ssdiq-zones" => (SKEWED, 0.10),
        "ssdiq-seq-zones" => (ZONES, 0.10),
        _ => (FDP, 0.10),
    }
}

/// Runs of a preset that go with a quick evaluation: its uniform ones, and one of each other kind.
fn quick(runs: Vec<&'static Run>) -> Vec<&'static Run> {
    let kind = |run: &Run| (run.preset, claim(run.workload).0, run.quantity == Quantity::Counter);
    let mut kept: Vec<&Run> = vec![];
    for run in runs {
        let uniform = run.preset == "micron-7450-max-800g" && claim(run.workload).0 == UNIFORM;
        if uniform && run.quantity == Quantity::Counter || kept.iter().all(|other| kind(other) != kind(run)) {
            kept.push(run);
        }
    }
    kept
}

/// The mean amplification of a drive's sequential runs, which no collection explains: parity and metadata. The PRO
/// has the MAX's flash and firmware.
fn sequential(preset: &str) -> f64 {
    let preset = if preset == "micron-7450-pro-960g" { "micron-7450-max-800g" } else { preset };
    let of = measured::runs().iter().filter(|r| r.preset == preset && r.fits == "sequential");
    let values: Vec<f64> = of.map(|r| r.value).collect();
    if values.is_empty() { 1.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

/// The run that others without a counter are compared with: writes as uniform as there are.
fn reference(run: &Run) -> Option<&'static Run> {
    let of = |workload: &str| {
        let same =
            measured::runs().iter().filter(|r| r.preset == run.preset && r.quantity == Quantity::Implied);
        same.filter(|r| !r.workload.contains("used=")).find(|r| r.workload.starts_with(workload))
    };
    of("ssdiq-uniform").or_else(|| of("ssdiq-zipf:theta=0.2"))
}

pub fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let wanted = |r: &&Run| bench.wants(&[claim(r.workload).0, OVER_TIME]) && claims::exists(r.preset);
    let mut runs: Vec<&Run> =
        measured::runs().iter().filter(wanted).filter(|r| r.fits != "sequential").collect();
    if bench.options.quick {
        runs = quick(runs);
    }
    let references: Vec<&Run> =
        runs.iter().filter(|r| r.quantity == Quantity::Implied).filter_map(|r| reference(r)).collect();
    for other in references {
        if runs.iter().all(|r| r.id != other.id) {
            runs.push(other);
        }
    }
    // One sequential pass a drive shows what ours adds without collection.
    let mut jobs: Vec<(&str, String)> = vec![];
    for run in &runs {
        if jobs.iter().all(|(preset, _)| *preset != run.preset) {
            jobs.push((run.preset, "ssdiq-sequential:writes=1".into()));
        }
    }
    let presets = jobs.len();
    jobs.extend(runs.iter().map(|r| (r.preset, r.workload.to_owned())));
    let name = |(preset, workload): &(&str, String)| format!("{preset} {workload}");
    let results = bench.each(&jobs, name, |(preset, workload)| one(preset, workload, bench))?;
    let own = |preset: &str| {
        let at = jobs[..presets].iter().position(|(p, _)| *p == preset);
        at.map_or(1.0, |at| last(&results[at].course, 1.0))
    };
    let results = &results[presets..];
    let amplified = |run: &Run| {
        let at = runs.iter().position(|r| r.id == run.id);
        at.map_or(f64::NAN, |at| last(&results[at].course, LAST) / own(run.preset))
    };
    let mut table = Table::new("Write amplification, measured and here", &COLUMNS);
    for (run, result) in runs.iter().zip(results) {
        let (id, margin) = claim(run.workload);
        let ours = amplified(run);
        let (place, what, paper, ours) = match (run.quantity, reference(run)) {
            (Quantity::Implied, _) if run.value < LITTLE => {
                let what = format!("{}: sequential throughput over this", run.preset);
                ("throughput", what, run.value, ours * sequential(run.preset))
            }
            (Quantity::Implied, Some(other)) if other.id != run.id => {
                let what = format!("{}: throughput of {} over this", run.preset, other.id);
                ("throughput", what, run.value / other.value, ours / amplified(other))
            }
            (Quantity::Implied, _) => continue,
            (Quantity::Counter, _) => {
                let factor = sequential(run.preset);
                let what = format!("{}: WAF over its sequential one ({factor:.3})", run.preset);
                ("counter", what, run.value / factor, ours)
            }
        };
        let why = claims::why(id, &what, run.workload);
        let claim = Claim::new(id, place, what, run.workload, paper, ours, Rule::Value(margin)).because(why);
        table.rows.push(row(run, result, paper, ours));
        // Each stream's share of the bytes was taken from the log, in part assumed.
        let claim = if run.workload.contains("shares") { claim.input() } else { claim };
        report.claims.push(if run.fits.is_empty() { claim } else { claim.fitted() });
    }
    if !table.rows.is_empty() {
        report.tables.push(table);
    }
    over_time(&runs, results, &own, report);
    Ok(())
}

/// A run on the drive in small.
fn one(preset: &str, workload: &str, bench: &Bench<'_>) -> Result<Measured, Error> {
    let small: Small = small(preset, bench.options.quick)?;
    let asked = Asked { workload: small.workload(workload), seed: bench.options.seed, ..Asked::default() };
    simulate(&small.drive, &asked, false, bench.stop)
}

const COLUMNS: [&str; 11] = [
    "drive",
    "run",
    "workload",
    "fitted",
    "measured",
    "here",
    "here to measured",
    "GC programs",
    "erases",
    "dies busy",
    "source",
];

fn row(run: &Run, m: &Measured, paper: f64, ours: f64) -> Vec<Cell> {
    let flash = &m.summary.flash;
    vec![
        run.preset.into(),
        run.id.into(),
        run.workload.into(),
        run.fits.into(),
        paper.into(),
        ours.into(),
        (ours / paper).into(),
        flash.programs.gc.into(),
        flash.erases.into(),
        m.dies_busy.into(),
        run.source.into(),
    ]
}

/// Amplification over the host's bytes, laid over what was measured.
fn over_time(runs: &[&Run], results: &[Measured], own: &dyn Fn(&str) -> f64, report: &mut Report) {
    for (run, result) in runs.iter().zip(results).filter(|(r, _)| r.quantity == Quantity::Counter) {
        let points = measured::curve(run.id);
        let Some(&(end, _)) = points.last() else { continue };
        let factor = sequential(run.preset);
        let total = result.course.last().map_or(0, |i| i.written) as f64;
        let (mut theirs, mut ours, mut before) = (vec![], vec![], 0.0);
        for (x, waf) in points {
            let at = |x: f64| x / end * total;
            theirs.push((x, waf / factor));
            ours.push((x, between(&result.course, at(before), at(x)) / own(run.preset)));
            before = x;
        }
        let off = |(a, b): (&(f64, f64), &(f64, f64))| (a.1 / b.1 - 1.0).abs();
        let distance = ours.iter().zip(&theirs).map(off).sum::<f64>() / ours.len() as f64;
        let what = format!("{} {}: 1 and the curves' mean distance", run.preset, run.id);
        let claim =
            Claim::new(OVER_TIME, "counter", what, run.workload, 1.0, 1.0 + distance, Rule::Value(0.10));
        let claim = claim.because(claims::why(OVER_TIME, run.preset, run.workload));
        report.claims.push(if run.fits.is_empty() { claim } else { claim.fitted() });
        report.curves.push(Curves {
            title: format!("{}: {}", run.preset, run.workload),
            x: "used ranges written".into(),
            y: "WAF over the sequential one".into(),
            series: vec![("measured".into(), theirs), ("here".into(), ours)],
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_part_is_interpolated() {
        let at = |written, programmed| Instant { at_ns: 0, written, programmed };
        let course = [at(100, 100), at(200, 400), at(400, 800)];
        assert!((last(&course, 1.0) - 2.0).abs() < 1e-9);
        assert!((last(&course, 0.5) - 2.0).abs() < 1e-9);
        assert!((between(&course, 0.0, 150.0) - 250.0 / 150.0).abs() < 1e-9);
    }
}
