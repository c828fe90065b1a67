//! Real traces that the experiments take when they are there.
//!
//! The repository does not hold them. A folder of them is given, or named by `NANDLE_TRACES`; files
//! are found in it by name.

use std::path::{Path, PathBuf};

use nandle_lab::Error;
use nandle_lab::config::Drive;
use nandle_lab::workload::Asked;
use nandle_trace::{Request, Source};

/// A published trace, or a part of one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Real {
    /// What tables call it.
    pub name: &'static str,
    /// The file that holds it, whatever compresses it.
    pub file: &'static str,
    /// What it is.
    pub line: &'static str,
}

const fn real(name: &'static str, file: &'static str, line: &'static str) -> Real {
    Real { name, file, line }
}

/// MSPS DTRS, five minutes of one disk.
pub const DTRS: Real = real("dtrs-5min", "msps_dtrs_5min.ssdsim", "DTR, 300 s of one disk");
/// MSPS MSNFS, the published sample.
pub const MSNFS: Real = real("msnfs-sample", "msps_msnsfs_sample.etw.csv", "MSNFS, 927 requests in 1.5 s");
/// MSPS TPC-C.
pub const TPCC: Real = real("tpcc-small", "msps_tpcc_small.mqsim", "TPC-C, 6,999 requests in 0.14 s");
/// SPC Financial1, exact.
pub const FINANCIAL: Real =
    real("financial1", "spc_financial1_first10000.ssdsim", "Financial1, the first 10,000 requests");
/// SPC WebSearch1.
pub const WEBSEARCH: Real =
    real("websearch1", "spc_websearch1_first24783.mqsim", "WebSearch1, the first 24,783 requests");
/// CloudPhysics.
pub const CLOUDPHYSICS: Real =
    real("cloudphysics", "cloudphysics_libcachesim.vscsi", "CloudPhysics, two hours of a virtual machine");
/// MSR Cambridge hm_0.
pub const HM0: Real = real("hm_0", "msr_hm_0_sample1000.csv", "MSR hm_0, 1,000 requests");
/// MSR Cambridge hm_1.
pub const HM1: Real = real("hm_1", "msr_hm_1_excerpt.mqsim", "MSR hm_1, 6,454 requests");
/// MSR Cambridge wdev_1.
pub const WDEV1: Real = real("wdev_1", "msr_wdev_1.csv", "MSR wdev_1, whole");
/// MSR Cambridge wdev_3.
pub const WDEV3: Real = real("wdev_3", "msr_wdev_3.csv", "MSR wdev_3, whole");
/// SYSTOR '17, 16 February.
pub const LUN_A: Real = real("systor-0216", "systor17_20160216_LUN_sample.csv", "SYSTOR '17, 999 requests");
/// SYSTOR '17, 22 February.
pub const LUN_B: Real = real("systor-0222", "systor17_20160222_LUN_sample.csv", "SYSTOR '17, 999 requests");
/// A desktop's disk.
pub const MAYUN: Real = real("diskmon-mayun", "pc_diskmon_mayun.tsv", "Windows PC, 1.8 h");
/// Another one's.
pub const MAYUN4: Real = real("diskmon-mayun4", "pc_diskmon_mayun4.tsv", "Windows PC, 26 min");
/// A desktop's system disk, mostly aligned.
pub const SYS1: Real = real("diskmon-sys1", "pc_diskmon_sys1.tsv", "Windows PC, system disk, 20 min");
/// IOzone, aligned by its authors.
pub const IOZONE: Real = real("iozone", "bench_iozone_aligned_100k.disksim", "IOzone, aligned");

/// The folder of real traces: the one given, or `NANDLE_TRACES`.
///
/// # Errors
/// If it is named and no folder.
pub(super) fn folder(given: Option<&Path>) -> Result<Option<PathBuf>, Error> {
    let named = given.map(Path::to_path_buf).or_else(|| std::env::var_os("NANDLE_TRACES").map(PathBuf::from));
    match named {
        Some(folder) if !folder.is_dir() => {
            Err(Error::Input(format!("{}: no such folder; expected one with traces", folder.display())))
        }
        named => Ok(named),
    }
}

impl Real {
    /// Its file in a folder.
    #[must_use]
    pub fn find(&self, folder: &Path) -> Option<PathBuf> {
        let entries = std::fs::read_dir(folder).ok()?;
        let mut found: Vec<PathBuf> = entries
            .flatten()
            .map(|entry| entry.path())
            .filter(|path| {
                let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
                name.strip_prefix(self.file).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
            })
            .collect();
        found.sort();
        found.into_iter().next()
    }
}

/// Those of `wanted` that are in the folder, with their files; what is missing is said in `notes`.
pub(super) fn present(
    folder: Option<&Path>,
    wanted: &[Real],
    notes: &mut Vec<String>,
) -> Vec<(Real, PathBuf)> {
    let Some(folder) = folder else {
        notes.push("real traces were not replayed: name their folder with --traces or NANDLE_TRACES".into());
        return Vec::new();
    };
    let mut found = Vec::new();
    for real in wanted {
        match real.find(folder) {
            Some(path) => found.push((*real, path)),
            None => notes.push(format!("{}: not in {}, left out", real.file, folder.display())),
        }
    }
    found
}

/// All requests of a workload (a trace's, or a named one's last phase) as they reach a drive: whole
/// sectors, within its size.
///
/// # Errors
/// If there is no such workload, or a file makes no sense.
pub(super) fn requests(asked: &Asked, drive: &Drive) -> Result<Vec<Request>, Error> {
    let mut prepared = asked.prepare(drive)?;
    let sector = u64::from(drive.config.geometry.sector_bytes);
    let mut all = Vec::new();
    let Some((phase, mut address)) = prepared.phases.pop() else { return Ok(all) };
    let mut source = phase.into_source();
    loop {
        let before = all.len();
        source.fill(&mut all, 1 << 16)?;
        if all.len() == before {
            return Ok(all);
        }
        for request in &mut all[before..] {
            let (lsn, sectors) = address.sectors(request);
            (request.offset, request.bytes) = (lsn * sector, sectors * sector);
        }
    }
}

/// The requests that move data, with the pages of `page` bytes that they touch side by side, in the order in which these lay;
/// and how many pages that is.
pub(super) fn side_by_side(mut requests: Vec<Request>, page: u64) -> (Vec<Request>, u64) {
    requests.retain(|r| r.op.moves_data() && r.bytes > 0);
    let touched = requests.iter().flat_map(|r| r.offset / page..(r.offset + r.bytes).div_ceil(page));
    let mut touched: Vec<u64> = touched.collect();
    touched.sort_unstable();
    touched.dedup();
    for r in &mut requests {
        // All pages of a request are there, so they stay beside each other.
        let place = touched.partition_point(|&other| other < r.offset / page) as u64;
        r.offset = place * page + r.offset % page;
    }
    (requests, touched.len() as u64)
}
