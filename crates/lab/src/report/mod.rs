//! Reports: runs that were done, as one HTML file that opens anywhere.
//!
//! Everything comes from the files of run directories ([`Loaded`]), so that a report can be made again
//! at any time. Charts are drawn by a script that the page carries along ([`chart`]): nothing is fetched.

pub mod chart;
mod figures;
mod groups;
mod over_time;
pub mod page;
mod side_by_side;
mod swept;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use crate::Error;
use crate::measure::Summary;
use crate::measure::metrics::{copied_nothing, ratio};
use crate::output::REPORT;
use crate::run::Loaded;
use crate::units::{count, time};
pub use groups::grouped;
use groups::{Names, families};
use page::Page;
pub use page::STYLE;
use side_by_side::Shown;

/// Runs shown chart by chart; further ones are in the tables alone.
const DETAILED: usize = 12;
/// Sentences of a verdict that stand above the rest; more are folded away.
const SENTENCES: usize = 3;

/// Writes `report.html` in the directory of a run.
///
/// # Errors
/// If the directory is no run's, or the report cannot be written.
pub fn write_run(dir: &Path) -> Result<PathBuf, Error> {
    let run = Loaded::read(dir)?;
    write(&dir.join(REPORT), &of_run(&run))
}

/// Writes the report of several runs to a file.
///
/// # Errors
/// If a directory is no run's, or the report cannot be written.
pub fn write_runs(title: &str, dirs: &[PathBuf], to: &Path) -> Result<PathBuf, Error> {
    let runs: Result<Vec<Loaded>, Error> = dirs.iter().map(|dir| Loaded::read(dir)).collect();
    write(to, &of_runs(title, &runs?))
}

fn write(path: &Path, html: &str) -> Result<PathBuf, Error> {
    std::fs::write(path, html).map_err(|e| Error::write(path, e))?;
    Ok(path.to_owned())
}

/// The report of one run.
#[must_use]
pub fn of_run(run: &Loaded) -> String {
    let s = &run.summary;
    let mut page = Page::new(&format!("{} on {}, {}", s.workload, s.device, s.scheme), &verdict(s));
    page.wide(&figures::tiles(s));
    page.notes(&s.notes);
    side_by_side::charts(&mut page, &[Shown { label: s.scheme.clone(), run }]);
    over_time::details(&mut page, run);
    page.heading("Configuration");
    page.folded("config.resolved.toml", &run.config);
    page.folded("summary.json", &serde_json::to_string_pretty(s).unwrap_or_default());
    page.folded("manifest.json", &serde_json::to_string_pretty(&run.manifest).unwrap_or_default());
    page.finish()
}

/// The report of several runs, each family normalised to its first; seeds are averaged, with their spread.
#[must_use]
pub fn of_runs(title: &str, runs: &[Loaded]) -> String {
    let names = Names::of(runs);
    let called = names.workloads.iter().map(String::as_str);
    let groups = grouped(called.zip(runs.iter().map(|run| &run.summary)));
    let families = families(runs, &names);
    let (said, more) = verdict_of(runs, &names, &groups);
    let mut page = Page::new(title, &said);
    if !more.is_empty() {
        page.fold(&format!("{} more", more.len()));
        page.notes(&more);
        page.unfold();
    }
    for family in &families {
        page.heading(&family.name);
        page.wide(&figures::averaged(runs, family));
    }
    page.wide(
        "<p class=\"hint\">Small figures: the mean as a multiple of the first row's, and the range over seeds. \
         Green is better, red worse: less is better but for requests per second.</p>",
    );
    swept::charts(&mut page, runs, &names);
    // Curves of one group at first sight; where there are more, a sweep's tables and curves come first.
    let folded = groups.len() > 1;
    for group in &groups {
        let shown: Vec<Shown<'_>> = (group.iter().filter(|&&n| n < DETAILED))
            .map(|&n| Shown { label: names.label(n), run: &runs[n] })
            .collect();
        let Some(first) = shown.first() else { continue };
        let workload = &names.workloads[group[0]];
        let name = format!("{workload} on {}, seed {}", first.summary.device, first.summary.seed);
        if folded {
            page.fold(&format!("{name}: latencies, flash operations, time, all figures"));
        } else {
            page.heading(&format!("{name}: latencies, flash operations, time"));
        }
        side_by_side::charts(&mut page, &shown);
        match shown.as_slice() {
            [one] => over_time::details(&mut page, one),
            several => over_time::together(&mut page, several),
        }
        if !folded {
            page.fold("All figures");
        }
        page.wide(&figures::table(runs, &names, group));
        page.unfold();
    }
    let notes: BTreeSet<&String> = runs.iter().flat_map(|run| &run.summary.notes).collect();
    page.notes(&notes.into_iter().cloned().collect::<Vec<_>>());
    let mut notes = vec!["Each run directory has a report of its own, with its parts over time.".to_owned()];
    if runs.len() > DETAILED {
        notes.push(format!("Charts of the first {DETAILED} of {} runs.", runs.len()));
    }
    page.notes(&notes);
    page.heading("Configurations");
    for (n, run) in runs.iter().enumerate().take(DETAILED) {
        page.folded(&format!("{}: {}", names.workloads[n], names.label(n)), &run.config);
    }
    page.finish()
}

/// A run in one line.
#[must_use]
pub fn verdict(s: &Summary) -> String {
    let state = if s.complete { "" } else { "Interrupted, partial: " };
    let Some(waf) = s.waf else {
        return format!(
            "{state}Nothing was written; {} reads took {} on average.",
            count(s.host.read.requests),
            time(s.host.read.lat_ns.mean)
        );
    };
    let p = &s.waf_parts;
    let causes = [
        (p.padding, "padding: old sectors rewritten and room left unfilled"),
        (p.gc, "garbage collection"),
        (p.merge, "merges"),
        (p.map, "mapping table"),
        (p.meta, "metadata"),
        (p.parity, "parity"),
    ];
    let most = causes.into_iter().max_by(|a, b| a.0.total_cmp(&b.0)).filter(|m| m.0 > 0.005);
    let why = most.map_or_else(String::new, |(part, what)| format!(", of which {part:.2} is {what}"));
    let steady = if s.steady_state {
        "in steady state".into()
    } else {
        format!("not in steady state: {}", s.steady_state_reason)
    };
    format!(
        "{state}Each host byte cost {waf:.2} bytes of flash writes{why}; a write took {} on average, {} at 99%; {steady}.",
        time(s.host.write.lat_ns.mean),
        time(s.host.write.lat_ns.percentile.get("99.000000").copied().unwrap_or(0) as f64)
    )
}

/// What the first groups come to, and what the others do.
fn verdict_of(runs: &[Loaded], names: &Names, groups: &[Vec<usize>]) -> (String, Vec<String>) {
    let mut said: Vec<String> = groups
        .iter()
        .filter_map(|group| {
            let labels: Vec<String> = group.iter().map(|&n| names.label(n)).collect();
            let members: Vec<(&str, &Summary)> =
                labels.iter().zip(group).map(|(label, &n)| (label.as_str(), &runs[n].summary)).collect();
            let seed = runs[group[0]].summary.seed;
            let several = runs.iter().any(|run| run.summary.seed != seed);
            best(&names.workloads[group[0]], &members)
                .map(|said| if several { format!("Seed {seed}: {said}") } else { said })
        })
        .collect();
    let more = said.split_off(said.len().min(SENTENCES));
    if said.is_empty() { (format!("{} runs.", runs.len()), more) } else { (said.join(" "), more) }
}

/// Figures that differ by no more, as a share, are level.
const LEVEL: f64 = 0.005;

/// Why nothing can be concluded from runs (name, figures), if one was not steady: a WAF of a drive that has not come to rest
/// says how far it got, not what the scheme costs.
#[must_use]
pub fn unsteady<N: std::fmt::Display>(runs: &[(N, &Summary)]) -> Option<String> {
    let moving = || runs.iter().filter(|(_, s)| s.waf.is_some() && !s.steady_state);
    let (name, s) = moving().next()?;
    let more = if s.gc.moved_pages == 0 {
        "a smaller drive, or one that is filled before (--fill, --valid), has something to copy sooner"
    } else {
        "--until steady goes on until they are, at most --at-most drive writes"
    };
    Some(format!(
        "no verdict, for {} of {} runs were not steady ({name}: {}); {more}.",
        moving().count(),
        runs.len(),
        s.steady_state_reason
    ))
}

/// The run with the least WAF of a group (name, figures) under a workload in one line, compared with the first; none if
/// there is nothing to compare.
#[must_use]
pub fn best(workload: &str, group: &[(&str, &Summary)]) -> Option<String> {
    let (&(base, first), others) = group.split_first()?;
    // Of a steady drive: what it was on the way there says how it began.
    let waf = |s: &Summary| s.waf_steady.or(s.waf).filter(|w| w.is_finite());
    let least = |s: &Summary| waf(s).unwrap_or(f64::MAX);
    let written = others.iter().filter(|(_, s)| waf(s).is_some());
    let &(name, best) = written.min_by(|a, b| least(a.1).total_cmp(&least(b.1)))?;
    let mean = |s: &Summary| Some(s.host.write.lat_ns.mean).filter(|&m| m > 0.0);
    if let Some(why) = unsteady(group) {
        return Some(format!("{workload}: {why}"));
    }
    let did = |s: &Summary| (s.flash.programs.total, s.flash.erases, s.host.all.lat_ns.mean.to_bits());
    if others.iter().all(|(_, s)| did(s) == did(first)) {
        let all = if others.len() == 1 { format!("{name} does") } else { "all do".into() };
        return Some(format!(
            "{workload}: {all} as {base}: the same pages in the same time. What a scheme needs to act on, this drive and workload do not give it."
        ));
    }
    let steady = if best.waf_steady.and(first.waf_steady).is_some() { ", once steady" } else { "" };
    let against = format!(
        "{} the WAF of {base} ({:.2} against {:.2}{steady})",
        ratio(waf(best), waf(first)),
        waf(best)?,
        waf(first)?
    );
    let so = match waf(best)? / waf(first)? {
        change if change < 1.0 - LEVEL => format!("{name} writes least flash, {against}"),
        change if change <= 1.0 + LEVEL => format!("{name} is no better and no worse, {against}"),
        _ if others.len() == 1 => format!("{name} is worse, {against}"),
        _ => format!("all are worse than {base}; {name} comes nearest, {against}"),
    };
    let latency = match mean(best).zip(mean(first)).map(|(best, first)| best / first) {
        Some(change) if change > 1.0 + LEVEL => format!(", and worse in mean write latency, {change:.2}x"),
        Some(change) => format!(", at {change:.2}x its mean write latency"),
        None => String::new(),
    };
    let alone = if group.iter().all(|(_, s)| copied_nothing(s)) {
        " Collection copied nothing: on a drive that holds other data (--fill) it does, and the order may be another."
    } else {
        ""
    };
    Some(format!("{workload}: {so}{latency}.{alone}"))
}
