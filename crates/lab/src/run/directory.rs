//! The run directory: `config.resolved.toml`, `manifest.json`, `summary.json`, `timeseries.parquet`,
//! `latency/*.hlog`.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use arrow_array::{ArrayRef, Float64Array, RecordBatch, UInt32Array, UInt64Array};
use arrow_schema::{Field, Schema};
use hdrhistogram::Histogram;
use hdrhistogram::serialization::V2DeflateSerializer;
use hdrhistogram::serialization::interval_log::IntervalLogWriterBuilder;
use nandle_ssd::Op;
use nandle_ssd::nand::Cause;
use parquet::arrow::ArrowWriter;
use serde_json::json;
use sha2::{Digest, Sha256};

use crate::Error;
use crate::config::{Drive, resolved};
use crate::measure::{Meter, Row, Summary};
use crate::workload::Asked;

const MANIFEST: &str = "manifest.json";

/// A run directory under construction.
pub(super) struct Directory(PathBuf);

impl Directory {
    /// Makes the directory. An existing one must be empty or an earlier run's.
    pub(super) fn create(path: &Path) -> Result<Self, Error> {
        if path.exists() {
            let taken = fs::read_dir(path).map_or(true, |mut entries| entries.next().is_some());
            if taken && !path.join(MANIFEST).is_file() {
                return Err(Error::input(format!(
                    "{}: exists and is not a run directory; expected a new name for -o",
                    path.display()
                )));
            }
        }
        fs::create_dir_all(path.join("latency"))
            .map_err(|e| Error::input(format!("{}: {e}", path.display())))?;
        // An earlier run's log would be taken for this one's.
        let _ = fs::remove_file(path.join("io.parquet"));
        Ok(Self(path.to_owned()))
    }

    /// A file in it.
    pub(super) fn path(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    /// Writes everything; the manifest, which marks a finished run, last.
    pub(super) fn write(
        &self,
        drive: &Drive,
        asked: &Asked,
        trace: Option<&Path>,
        summary: &Summary,
        meter: &Meter,
    ) -> Result<(), Error> {
        let text = |name: &str, text: String| {
            let path = self.path(name);
            fs::write(&path, text).map_err(|e| Error::write(&path, e))
        };
        text("config.resolved.toml", resolved(drive))?;
        text("summary.json", pretty(summary))?;
        self.series(drive, meter)?;
        self.latencies(meter)?;
        let trace = trace.map(|path| -> Result<serde_json::Value, Error> {
            let (sha256, bytes) = sha256(path).map_err(|e| Error::write(path, e))?;
            Ok(json!({ "path": path.display().to_string(), "sha256": sha256, "bytes": bytes }))
        });
        let manifest = json!({
            "program": "nandle",
            "version": env!("CARGO_PKG_VERSION"),
            "device": summary.device,
            "scheme": summary.scheme,
            "workload": asked.workload,
            "seed": summary.seed,
            "complete": summary.complete,
            "digest": summary.digest,
            "trace": trace.transpose()?,
            "arguments": std::env::args().collect::<Vec<_>>(),
        });
        text(MANIFEST, pretty(&manifest))
    }

    fn series(&self, drive: &Drive, meter: &Meter) -> Result<(), Error> {
        let path = self.path("timeseries.parquet");
        let fail = |e: String| Error::write(&path, io::Error::other(e));
        let batch = series(drive, meter).map_err(|e| fail(e.to_string()))?;
        let file = File::create(&path).map_err(|e| Error::write(&path, e))?;
        let mut writer =
            ArrowWriter::try_new(file, batch.schema(), Some(crate::measure::parquet_properties()))
                .map_err(|e| fail(e.to_string()))?;
        writer.write(&batch).map_err(|e| fail(e.to_string()))?;
        writer.close().map(drop).map_err(|e| fail(e.to_string()))
    }

    fn latencies(&self, meter: &Meter) -> Result<(), Error> {
        for (op, name) in [(Op::Read, "read"), (Op::Write, "write"), (Op::Trim, "trim"), (Op::Flush, "flush")]
        {
            let path = self.path(&format!("latency/{name}.hlog"));
            let whole = &meter.latency[op as usize];
            if whole.requests == 0 {
                // An earlier run in this directory may have left one.
                let _ = fs::remove_file(&path);
                continue;
            }
            let mut out = io::BufWriter::new(File::create(&path).map_err(|e| Error::write(&path, e))?);
            log(&mut out, op, meter).map_err(|e| Error::write(&path, e))?;
            out.flush().map_err(|e| Error::write(&path, e))?;
        }
        Ok(())
    }
}

/// An interval log: one histogram of nanoseconds for each row of the measured part, where rows keep
/// them; else one for all of it.
fn log(out: &mut impl Write, op: Op, meter: &Meter) -> io::Result<()> {
    let mut serializer = V2DeflateSerializer::new();
    let mut builder = IntervalLogWriterBuilder::new();
    builder.add_comment("nandle: latencies in nanoseconds; time is simulated, in seconds from power-on");
    let mut writer = builder.begin_log_with(out, &mut serializer)?;
    let fail = |e: &dyn std::fmt::Debug| io::Error::other(format!("{e:?}"));
    let last = meter.rows.rows().last().map_or(0, |row| row.phase);
    let mut any = false;
    for row in meter.rows.rows().iter().filter(|row| row.phase == last) {
        if let Some(Some(histogram)) = row.latency.get(op as usize) {
            let histogram: &Histogram<u32> = histogram;
            let start = Duration::from_nanos(meter.rows.start_ns(row));
            let length = Duration::from_nanos(meter.rows.interval_ns());
            writer.write_histogram(histogram, start, length, None).map_err(|e| fail(&e))?;
            any = true;
        }
    }
    if !any {
        let length = Duration::from_nanos(meter.ended_ns - meter.begun_ns);
        writer
            .write_histogram(
                &meter.latency[op as usize].histogram,
                Duration::from_nanos(meter.begun_ns),
                length,
                None,
            )
            .map_err(|e| fail(&e))?;
    }
    Ok(())
}

/// The time series as a table; counts are of the interval, not running totals.
fn series(drive: &Drive, meter: &Meter) -> Result<RecordBatch, arrow_schema::ArrowError> {
    let rows = meter.rows.rows();
    let geometry = &drive.config.geometry;
    let page = u64::from(geometry.page_bytes);
    let sector = u64::from(geometry.sector_bytes);
    let mut columns: Vec<(String, ArrayRef)> = Vec::new();
    let mut whole = |name: &str, f: &dyn Fn(&Row) -> u64| {
        let column: UInt64Array = rows.iter().map(|row| Some(f(row))).collect();
        columns.push((name.into(), Arc::new(column)));
    };
    whole("start_ns", &|row| meter.rows.start_ns(row));
    whole("interval_ns", &|_| meter.rows.interval_ns());
    for (kind, name) in ["read", "write", "trim", "flush"].into_iter().enumerate() {
        whole(&format!("{name}_requests"), &|row| row.requests[kind]);
        whole(&format!("{name}_bytes"), &|row| row.bytes[kind]);
        whole(&format!("{name}_max_ns"), &|row| row.latency_max_ns[kind]);
    }
    for (cause, name) in [
        (Cause::Host, "host"),
        (Cause::Gc, "gc"),
        (Cause::Merge, "merge"),
        (Cause::Map, "map"),
        (Cause::Meta, "meta"),
    ] {
        whole(&format!("programs_{name}"), &|row| row.flash.programs[cause as usize]);
        whole(&format!("reads_{name}"), &|row| row.flash.reads[cause as usize]);
    }
    whole("reads_rmw", &|row| row.flash.reads[Cause::Rmw as usize]);
    whole("erases", &|row| row.flash.erases);
    whole("bytes_programmed", &|row| row.flash.programs.iter().sum::<u64>() * page);
    whole("host_bytes_programmed", &|row| row.flash.host_sectors * sector);
    whole("foreground_ns", &|row| row.flash.foreground_ns);
    whole("buffer_wait_ns", &|row| row.flash.buffer_wait_ns);
    whole("free_blocks", &|row| row.free_blocks);
    let mut real = |name: &str, f: &dyn Fn(&Row) -> Option<f64>| {
        let column: Float64Array = rows.iter().map(f).collect();
        columns.push((name.into(), Arc::new(column)));
    };
    let written = |row: &Row| Some(row.bytes[Op::Write as usize]).filter(|&b| b > 0);
    let over_host = |row: &Row, bytes: u64| written(row).map(|w| bytes as f64 / w as f64);
    real("waf", &|row| over_host(row, row.flash.programs.iter().sum::<u64>() * page));
    real("waf_host", &|row| over_host(row, row.flash.host_sectors * sector));
    real("waf_padding", &|row| {
        let pages = row.flash.programs[Cause::Host as usize] * page;
        over_host(row, pages.saturating_sub(row.flash.host_sectors * sector))
    });
    for (cause, name) in
        [(Cause::Gc, "gc"), (Cause::Merge, "merge"), (Cause::Map, "map"), (Cause::Meta, "meta")]
    {
        real(&format!("waf_{name}"), &|row| over_host(row, row.flash.programs[cause as usize] * page));
    }
    for (op, name) in [(Op::Read, "read"), (Op::Write, "write")] {
        real(&format!("{name}_mean_ns"), &|row| row.mean_ns(op));
        for (share, percentile) in [(0.5, "p50"), (0.99, "p99"), (0.999, "p99_9")] {
            real(&format!("{name}_{percentile}_ns"), &|row| row.percentile_ns(op, share).map(|ns| ns as f64));
        }
    }
    let short: UInt32Array = rows.iter().map(|row| Some(row.phase)).collect();
    columns.insert(0, ("phase".into(), Arc::new(short)));
    let least: UInt32Array = rows.iter().map(|row| Some(row.free_blocks_min)).collect();
    columns.push(("free_blocks_min".into(), Arc::new(least)));
    let fields: Vec<Field> = columns
        .iter()
        .map(|(name, column)| Field::new(name, column.data_type().clone(), column.is_nullable()))
        .collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), columns.into_iter().map(|(_, c)| c).collect())
}

fn pretty(value: &impl serde::Serialize) -> String {
    let mut text = serde_json::to_string_pretty(value).unwrap_or_default();
    text.push('\n');
    text
}

/// Hash of a file, hexadecimal, and its length.
fn sha256(path: &Path) -> io::Result<(String, u64)> {
    let mut file = File::open(path)?;
    let (mut hash, mut bytes) = (Sha256::new(), 0);
    let mut buffer = vec![0; 1 << 16];
    loop {
        let n = file.read(&mut buffer)?;
        if n == 0 {
            break;
        }
        hash.update(&buffer[..n]);
        bytes += n as u64;
    }
    let digest = hash.finalize();
    Ok((digest.iter().map(|b| format!("{b:02x}")).collect(), bytes))
}
