//! Large writes in order, where the paper's FIFO beats every other buffer, and what cleaning ahead makes of it.

use std::path::Path;

use nandle_lab::Error;
use nandle_lab::workload::{Asked, generated};
use nandle_trace::fio;

use super::super::simulate::{Start, simulate_prepared};
use super::super::{Bench, Cell, Report, Table};
use super::trial::Trial;

/// As a mail server's files are rewritten: 832 KiB in the mean, 2 ms apart. The page has the same job file.
const JOB: &str = "[bulk]\nrw=write\nbssplit=256k/25:832k/50:1408k/25\niodepth=1\nthinktime=2ms\nsize=20g\n";
const SCHEMES: [&str; 5] =
    ["fifo+page", "lru+page", "mca+page", "pc-lru+page", "pc-lru+multi-version+compaction"];

/// All buffers, with and without cleaning ahead; of the published size however quick.
pub(super) fn table(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let mut trials = Vec::new();
    for scheme in SCHEMES {
        trials.extend([false, true].map(|ahead| Trial {
            workload: "bulk.fio".into(),
            setting: format!("clean_ahead = {ahead}"),
            device: "waflash-vssim",
            scheme,
            sets: vec![format!("buffer.clean_ahead={ahead}")],
            asked: Asked { seed: bench.options.seed, requests: Some(8_000), ..Asked::default() },
            verify: false,
        }));
    }
    let name = |t: &Trial| format!("{} {} {}", t.workload, t.scheme, t.setting);
    let runs = bench.each(&trials, name, |t| {
        let drive = t.drive()?;
        let workload = fio::workload(JOB, Path::new(&t.workload), &t.asked.target(&drive))?;
        let prepared = generated(workload, &drive);
        simulate_prepared(Start::AsLeft, &drive, &t.asked, prepared, t.verify, bench.stop)
    })?;
    let mut table = Table::new(
        "Bulk writes: buffer.clean_ahead off and on",
        &["scheme", "write ms, off", "on", "write 99% ms, off", "on", "programs, off", "on"],
    );
    for (trials, runs) in trials.chunks(2).zip(runs.chunks(2)) {
        let mut row: Vec<Cell> = vec![trials[0].scheme.into()];
        row.extend(runs.iter().map(|m| Cell::from(m.write_ns() / 1e6)));
        row.extend(runs.iter().map(|m| Cell::from(m.write_percentile("99.000000") / 1e6)));
        row.extend(runs.iter().map(|m| Cell::from(m.summary.flash.programs.total)));
        table.rows.push(row);
    }
    report.tables.push(table);
    Ok(())
}
