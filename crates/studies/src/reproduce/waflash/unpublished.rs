//! What the paper leaves unpublished, two other values of each; nothing of it is counted.

use nandle_lab::Error;

use super::super::{Bench, Cell, Report, Table};
use super::filebench::{PERSONALITIES, TWO, vssim};
use super::trial::{Trial, asked, run};

/// Ours, and what is changed. The buffer is to ours, as quick drives have smaller ones.
const SETTINGS: [(&str, &[&str], u64); 13] = [
    ("ours", &[], REQUESTS),
    ("a quarter of the buffer", &["buffer.bytes=@1"], REQUESTS),
    ("four times the buffer", &["buffer.bytes=@16"], REQUESTS),
    ("over-provisioning 7%", &["op_ratio=0.07"], REQUESTS),
    ("over-provisioning 28%", &["op_ratio=0.28"], REQUESTS),
    ("half of the pages used before", &["precondition.used=0.5", "precondition.valid=0.45"], REQUESTS),
    ("nine tenths used before", &["precondition.used=0.9", "precondition.valid=0.85"], REQUESTS),
    ("8 commands at a time", &["queue.depth=8"], REQUESTS),
    ("32 commands at a time", &["queue.depth=32"], REQUESTS),
    ("20 us of the host a request", &["controller.command_ns=20000"], REQUESTS),
    ("50 us of the host a request", &["controller.command_ns=50000"], REQUESTS),
    ("a third of the requests", &[], REQUESTS / 3),
    ("three times the requests", &[], REQUESTS * 3),
];
const REQUESTS: u64 = 300_000;

/// A quarter of the buffer of [`vssim`].
fn quarter(bench: &Bench<'_>) -> u64 {
    if bench.options.quick { 1 << 20 } else { 8 << 20 }
}

pub(super) fn table(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let mut trials = Vec::new();
    for (setting, changes, requests) in SETTINGS {
        let changes = changes.iter().map(|set| match set.split_once('@') {
            Some((key, quarters)) => {
                format!("{key}{}", quarters.parse::<u64>().unwrap_or(4) * quarter(bench))
            }
            None => (*set).to_owned(),
        });
        let sets: Vec<String> = vssim(bench).into_iter().chain(changes).collect();
        for (name, ..) in PERSONALITIES {
            trials.extend(TWO.map(|scheme| Trial {
                workload: name.into(),
                setting: setting.into(),
                device: "waflash-vssim",
                scheme,
                sets: sets.clone(),
                asked: asked(bench, &format!("{name}:4k"), requests, requests / 20),
                verify: false,
            }));
        }
    }
    let runs = run(bench, &trials)?;
    let columns: Vec<&str> =
        std::iter::once("setting").chain(PERSONALITIES.iter().map(|(name, ..)| *name)).collect();
    let mut table =
        Table::new("What is not published: throughput, waflash to fifo, requests of 4 KiB", &columns);
    for ((setting, ..), runs) in SETTINGS.iter().zip(runs.chunks(TWO.len() * PERSONALITIES.len())) {
        let mut row: Vec<Cell> = vec![(*setting).into()];
        row.extend(runs.chunks(TWO.len()).map(|r| Cell::from(r[1].bytes_per_s() / r[0].bytes_per_s())));
        table.rows.push(row);
    }
    report.tables.push(table);
    Ok(())
}
