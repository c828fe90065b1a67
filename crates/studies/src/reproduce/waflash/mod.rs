//! WAFLASH (He et al.): sections II-B and V, Figs 1 and 7 to 11.
//!
//! Figs 7 to 9 are Filebench's personalities on the emulated drive (`waflash-vssim`), Fig 11 its random
//! write on `waflash-openssd`, Figs 1 and 10 block traces on SSDSim's drive with pages of 8 KiB. "Up to" is
//! the best over the request sizes that were tried. The baseline of Figs 7 to 9 is `fifo+page`, which
//! queues requests as VSSIM does and, being an IDE disk, takes one command at a time; that of Fig 10 `lru+page`, SSDSim's.

mod bounds;
mod buffers;
mod bulk;
mod filebench;
mod openssd;
mod real;
mod trial;
mod unaligned;
mod unpublished;

use nandle_lab::Error;
use nandle_ssd::schemes::waflash::compaction::ENTRY_BYTES;

pub(super) use self::trial::{Trial, run, ssdsim, table};
use super::traces::{self, Real};
use super::{Bench, Claim, Report, Rule};

/// Names of the paper's claims.
pub const CLAIMS: &[&str] = &[
    "waflash-unaligned-8k",
    "waflash-fig1-tail",
    "waflash-randomwrite-throughput",
    "waflash-fileserver-throughput",
    "waflash-webserver-throughput",
    "waflash-webproxy-throughput",
    "waflash-partial-pages-in-buffer",
    "waflash-partial-pages-to-flash",
    "waflash-compaction-writes",
    "waflash-fileserver-latency",
    "waflash-vs-mca",
    "waflash-openssd",
    "waflash-metadata",
];

/// The six traces of section V-E.
pub(super) const TWINS: [&str; 6] = ["msnfs", "dtr", "ra", "cfs", "ex", "web"];

/// Traces of the same collections, and others with small writes.
pub(super) const REAL: [Real; 6] =
    [traces::MSNFS, traces::DTRS, traces::TPCC, traces::FINANCIAL, traces::CLOUDPHYSICS, traces::SYS1];

/// The evaluation.
pub(super) fn reproduce(bench: &Bench<'_>, report: &mut Report) -> Result<(), Error> {
    let real = traces::present(bench.traces.as_deref(), &REAL, &mut report.notes);
    let real: Vec<(String, String)> =
        real.iter().map(|(t, path)| (t.name.to_owned(), path.to_string_lossy().into_owned())).collect();
    let twins: Vec<(String, String)> = TWINS.iter().map(|t| (t.to_string(), t.to_string())).collect();
    let traces = format!("{} real traces", real.len());
    if bench.wants(&["waflash-unaligned-8k"]) {
        unaligned::shares(bench, "six twins", &twins, report)?;
        if !real.is_empty() {
            unaligned::shares(bench, &traces, &real, report)?;
        }
    }
    if bench.wants(&["waflash-vs-mca"]) {
        buffers::against_mca(bench, &twins, report)?;
        if !real.is_empty() {
            real::against_mca(bench, &traces, &real, report)?;
        }
    }
    if bench.wants(&["waflash-fig1-tail"]) {
        unaligned::tails(bench, report)?;
    }
    if bench.wants(&CLAIMS[2..10]) {
        filebench::figures(bench, report)?;
    }
    if bench.wants(&["waflash-openssd"]) {
        openssd::figure(bench, report)?;
    }
    if bench.wants(&["waflash-randomwrite-throughput"]) {
        bounds::tables(bench, report)?;
    }
    if bench.wants(&CLAIMS[2..6]) {
        unpublished::table(bench, report)?;
    }
    if bench.wants(&CLAIMS[3..10]) {
        filebench::service(bench, report)?;
    }
    if bench.wants(&[]) {
        bulk::table(bench, report)?;
    }
    // Section V-D: pages of 8 KiB made of two sectors, an entry each.
    let worst = f64::from(2 * ENTRY_BYTES) / 8192.0;
    let what = "space for compaction's entries, 8 KiB pages, worst case";
    let closed = "closed form";
    let claim = Claim::new("waflash-metadata", "V-D", what, closed, 0.0015, worst, Rule::Points(0.0001));
    // The size of an entry is the paper's.
    report.claims.push(claim.input());
    Ok(())
}
