//! The traces of a directory, and the twins that stand in for them.

use std::path::{Path, PathBuf};

use nandle_lab::Error;
use nandle_lab::address::Footprint;
use nandle_lab::config::Drive;
use nandle_lab::workload::Asked;
use nandle_trace::{Op, Options, Source};
use rustc_hash::FxHashSet;

use super::data::TraceInfo;

/// Twins of published traces, one of each published set.
const TWINS: [&str; 8] = ["prxy", "proj", "fin", "hm", "tpcc", "lun1", "msnfs", "web"];
/// Requests of a twin that are looked at: it has no end.
const LOOKED_AT: u64 = 100_000;
/// Grain of the written range.
const GRAIN: u64 = 4096;

/// Names or files of the workloads, sorted.
pub(super) fn found(folder: Option<&Path>) -> Result<Vec<String>, Error> {
    let Some(folder) = folder else { return Ok(TWINS.map(str::to_owned).to_vec()) };
    let fail = |e: std::io::Error| {
        Error::Input(format!("--traces {}: {e}; expected a directory of traces", folder.display()))
    };
    let mut files: Vec<PathBuf> = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(fail)? {
        let path = entry.map_err(fail)?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        // What lists and explains them is none of them.
        let prose = ["MANIFEST", "README", "LICENSE", "."].iter().any(|start| name.starts_with(start));
        if path.is_file() && !prose {
            files.push(path);
        }
    }
    if files.is_empty() {
        return Err(Error::Input(format!("--traces {}: no file in it; expected traces", folder.display())));
    }
    files.sort();
    Ok(files.into_iter().map(|path| path.to_string_lossy().into_owned()).collect())
}

/// What `workload` asks for, `drive` being what a twin is made for; a trace that cannot be read says why.
pub(super) fn look(workload: &str, drive: &Drive) -> TraceInfo {
    let path = Path::new(workload);
    let name = path.file_name().map_or_else(|| workload.to_owned(), |n| n.to_string_lossy().into_owned());
    let mut info = TraceInfo { name, ..TraceInfo::default() };
    if let Err(error) = read(workload, drive, &mut info) {
        info.refused = Some(error.to_string());
    }
    info
}

fn read(workload: &str, drive: &Drive, info: &mut TraceInfo) -> Result<(), Error> {
    let (mut source, limit): (Box<dyn Source>, u64) = if Path::new(workload).is_file() {
        let trace = nandle_trace::open(Path::new(workload), &Options::default())?;
        info.format = trace.format().to_string();
        (Box::new(trace), u64::MAX)
    } else {
        let requests = Some(LOOKED_AT);
        let asked = Asked { workload: workload.to_owned(), seed: 1, requests, ..Asked::default() };
        info.format = "generated".into();
        (Box::new(asked.open(drive)?), LOOKED_AT)
    };
    let mut grains = FxHashSet::default();
    let footprint = Footprint::keeping(&mut *source, limit, |batch| {
        for r in batch.iter().filter(|r| r.op == Op::Write && r.bytes > 0) {
            info.writes += 1;
            info.write_bytes += r.bytes;
            let last = r.offset.saturating_add(r.bytes - 1) / GRAIN;
            // Only nonsense is longer than 4 GiB.
            grains.extend((r.offset / GRAIN..=last).take(1 << 20));
        }
    })?;
    let range = grains.len() as u64 * GRAIN;
    (info.requests, info.touched, info.written_range) =
        (footprint.requests, footprint.touched_bytes(), range);
    Ok(())
}
