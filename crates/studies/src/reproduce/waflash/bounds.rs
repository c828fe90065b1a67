//! What random write is bound by.

use nandle_lab::Error;
use nandle_lab::workload::{Asked, Mode};

use super::super::simulate::Measured;
use super::super::{Bench, Cell, Report, Table};
use super::filebench::vssim;
use super::trial::{Trial, asked, run, table};

/// What random write is bound by: the same requests with more of them at a time, a larger buffer,
/// larger regions and a drive that collects.
pub(super) fn tables(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let quick = bench.options.quick;
    let schemes = ["fifo+page", "pc-lru+multi-version", "pc-lru+multi-version+compaction"];
    let larger = if quick { "buffer.bytes=32MiB" } else { "buffer.bytes=256MiB" };
    let spare =
        ["op_ratio=1.0", "scheme.multi_version.version_budget=1.0", "scheme.multi_version.table_share=1.0"];
    let both = [spare[0], spare[1], spare[2], larger];
    let cases: [(&str, u32, &[&str]); 10] = [
        ("3 threads, as the paper", 3, &[]),
        ("3 threads, half of the drive spare", 3, &spare),
        ("3 threads, eight times the buffer", 3, &[larger]),
        ("32 threads", 32, &[]),
        ("256 threads", 256, &[]),
        ("256 threads, half of the drive spare", 256, &spare),
        ("256 threads, eight times the buffer", 256, &[larger]),
        (
            "256 threads, eight times the buffer, regions of 1024 pages",
            256,
            &[larger, "scheme.compacted.region_pages=1024"],
        ),
        ("256 threads, eight times the buffer, half of the drive spare", 256, &both),
        ("256 threads, aged", 256, &["precondition.used=0.9", "precondition.valid=0.85"]),
    ];
    let mut trials = Vec::new();
    for (setting, depth, changes) in cases {
        trials.extend(schemes.map(|scheme| {
            Trial {
                workload: "filebench-randomwrite:4k".into(),
                setting: setting.into(),
                device: "waflash-vssim",
                scheme,
                // A drive that takes as many commands as there are threads, but for the paper's own.
                sets: (vssim(bench).into_iter().chain(changes.iter().map(|&c| c.to_owned())))
                    .chain((depth > 3).then(|| format!("queue.depth={depth}")))
                    .collect(),
                asked: Asked {
                    mode: Some(Mode::Closed),
                    iodepth: Some(depth),
                    ..asked(bench, "filebench-randomwrite:4k", 300_000, 15_000)
                },
                verify: false,
            }
        }));
    }
    let runs = run(bench, &trials)?;
    let mut gains = Table::new(
        "What random write is bound by: to fifo+page in the same setting",
        &[
            "setting",
            "multi-version",
            "with compaction",
            "flash programs",
            "dies busy, fifo",
            "channels busy, fifo",
        ],
    );
    for (n, (setting, ..)) in cases.iter().enumerate() {
        let r = &runs[n * schemes.len()..][..schemes.len()];
        let programs = |m: &Measured| m.summary.flash.programs.total as f64;
        let figures = [
            r[1].bytes_per_s() / r[0].bytes_per_s(),
            r[2].bytes_per_s() / r[0].bytes_per_s(),
            programs(&r[2]) / programs(&r[0]),
            r[0].dies_busy,
            r[0].channels_busy,
        ];
        gains.rows.push(std::iter::once((*setting).into()).chain(figures.map(Cell::from)).collect());
    }
    report.tables.push(gains);
    report.tables.push(table("What random write is bound by: runs", &trials, &runs));
    Ok(())
}
