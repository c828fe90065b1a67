//! Fig 10 with real traces, which are short: each on a device that is sized to what it touches, and once before it
//! is measured, so that the device collects.

use nandle_lab::Error;
use nandle_lab::config::Drive;
use nandle_lab::workload::Prepared;
use nandle_trace::Request;
use nandle_trace::synthetic::Replay;

use super::super::simulate::{Measured, Start, listed, pages_read, simulate_prepared};
use super::super::{Bench, Cell, Report, Table, preset, traces};
use super::buffers::{BUFFERS, latencies, to_lru};
use super::trial::{Trial, asked, table};

/// Share of the logical device that a trace touches. Assumed, as in PAPA's; the table has 50, 70 and 100%.
const FILL: f64 = 0.7;
/// What SSDSim ships with: the twins' 8 MiB would hold all that some of these traces write.
const BUFFER: u64 = 128 << 10;
const PAGE: u64 = 8192;
/// Small blocks, as the devices are small.
const PAGES_PER_BLOCK: u32 = 8;
/// Blocks of a plane beside those of the logical device and its over-provisioning: the ones that are written and
/// those that collection keeps.
const BESIDE: u64 = 6;

/// A trace with the pages that it touches side by side.
struct Real {
    name: String,
    requests: Vec<Request>,
    pages: u64,
}

/// A share of the device that is touched, and a buffer.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Size(f64, u64);

impl Real {
    fn load(bench: &Bench<'_>, name: &str, path: &str) -> Result<Self, Error> {
        let whole = preset("pclru-ssdsim", None, &[format!("geometry.page_bytes={PAGE}")])?;
        let requests = traces::requests(&asked(bench, path, 300_000, 30_000), &whole)?;
        let (requests, pages) = traces::side_by_side(requests, PAGE);
        Ok(Self { name: name.to_owned(), requests, pages })
    }

    fn sets(&self, Size(fill, buffer): Size) -> Result<Vec<String>, Error> {
        let shipped = preset("pclru-ssdsim", None, &[])?.config;
        let row = u64::from(shipped.geometry.planes() * PAGES_PER_BLOCK);
        let logical = self.pages as f64 / fill;
        let blocks = (logical * (1.0 + shipped.op_ratio) / row as f64).ceil() as u64 + BESIDE;
        Ok(vec![
            format!("geometry.page_bytes={PAGE}"),
            format!("geometry.pages_per_block={PAGES_PER_BLOCK}"),
            format!("geometry.blocks_per_plane={blocks}"),
            format!("op_ratio={}", (blocks * row) as f64 / logical - 1.0),
            format!("buffer.bytes={buffer}"),
        ])
    }

    /// What it reads written, itself as fast as it goes, and itself at its own times.
    fn twice(&self, drive: &Drive) -> Prepared {
        let before = pages_read(&self.requests, PAGE).into_iter().chain(self.requests.iter().copied());
        let phases = vec![
            listed(Replay::Closed { iodepth: 32 }, before.collect(), drive),
            listed(Replay::Open { time_scale: 1.0 }, self.requests.clone(), drive),
        ];
        Prepared { name: self.name.clone(), phases, notes: Vec::new() }
    }
}

fn run(bench: &Bench<'_>, reals: &[Real], size: Size) -> Result<(Vec<Trial>, Vec<Measured>), Error> {
    let mut trials = Vec::new();
    for real in reals {
        let sets = real.sets(size)?;
        trials.extend(BUFFERS.map(|scheme| Trial {
            workload: real.name.clone(),
            setting: format!("{:.0}% touched, {} KiB buffer", size.0 * 100.0, size.1 >> 10),
            device: "pclru-ssdsim",
            scheme,
            sets: sets.clone(),
            asked: asked(bench, &real.name, 1, 1),
            verify: false,
        }));
    }
    let jobs: Vec<(&Trial, &Real)> =
        trials.iter().enumerate().map(|(n, t)| (t, &reals[n / BUFFERS.len()])).collect();
    let name = |(t, _): &(&Trial, &Real)| format!("{} {} {}", t.workload, t.scheme, t.setting);
    let runs = bench.each(&jobs, name, |(t, real)| {
        let drive = t.drive()?;
        simulate_prepared(Start::Flushed, &drive, &t.asked, real.twice(&drive), t.verify, bench.stop)
    })?;
    Ok((trials, runs))
}

pub(super) fn against_mca(
    bench: &Bench<'_>,
    label: &str,
    workloads: &[(String, String)],
    report: &mut Report,
) -> Result<(), Error> {
    let reals = bench.each(
        workloads,
        |(name, _)| format!("{name}: pages"),
        |(name, path)| Real::load(bench, name, path),
    )?;
    let ours = Size(FILL, BUFFER);
    let mut assumed = Table::new(
        format!("Fig 10: what is not published, {label}"),
        &["setting", "mca to lru", "pc-lru to lru", "erases, lru", "GC programs, lru"],
    );
    for size in [ours, Size(0.5, BUFFER), Size(1.0, BUFFER), Size(FILL, 8 * BUFFER), Size(FILL, 64 * BUFFER)]
    {
        let (trials, runs) = run(bench, &reals, size)?;
        if size == ours {
            latencies(label, &runs, LARGE, report);
            report.tables.push(table(&format!("Fig 10: buffers, {label}"), &trials, &runs));
        }
        let lru = || runs.iter().step_by(BUFFERS.len()).map(|m| &m.summary.flash);
        let mut row: Vec<Cell> = vec![trials[0].setting.clone().into()];
        row.extend([1, 2].map(|n| Cell::from(to_lru(&runs, n))));
        row.push(lru().map(|f| f.erases).sum::<u64>().into());
        row.push(lru().map(|f| f.programs.gc).sum::<u64>().into());
        assumed.rows.push(row);
    }
    report.tables.push(assumed);
    Ok(())
}

const LARGE: &str = "DTR and CloudPhysics write whole pages, and TPC-C writes nothing again while it waits; Financial1 and MSNFS's \
sample, of whose writes a fifth or more meet the buffer, gain (table of Fig 10: evicted partial, buffer hits)";
