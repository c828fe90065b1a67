//! One run.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nandle_lab::config::Wanted;
use nandle_lab::measure::Until;
use nandle_lab::replay::Progress;
use nandle_lab::run::{Outcome, Run, tables};
use nandle_lab::workload::{Asked, Mode};
use nandle_trace::Options;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;

use crate::errors::{guarded, input, wrong};
use crate::policies::{Policies, watched};
use crate::table::Table;

/// Simulates; the summary as JSON, the time series and the latencies.
///
/// `progress` is called with (requests, total or None, simulated ns, waf or None) now and then.
#[pyfunction]
#[pyo3(signature = (*, device, scheme, workload, seed, requests, sets, replay, iodepth, time_scale, fit, format,
    volume, time_unit, until, verify, output, io_log, victim, buffer, progress))]
#[expect(clippy::too_many_arguments, reason = "named one by one in Python")]
pub fn simulate(
    py: Python<'_>,
    device: String,
    scheme: Option<String>,
    workload: String,
    seed: u64,
    requests: Option<u64>,
    sets: Vec<String>,
    replay: Option<String>,
    iodepth: Option<u32>,
    time_scale: Option<f64>,
    fit: Option<String>,
    format: Option<String>,
    volume: Option<String>,
    time_unit: Option<String>,
    until: Option<(f64, f64)>,
    verify: bool,
    output: Option<String>,
    io_log: bool,
    victim: Option<Py<PyAny>>,
    buffer: Option<Py<PyAny>>,
    progress: Option<Py<PyAny>>,
) -> PyResult<(String, Table, Table)> {
    let refused = |option: &str, value: &str, e: String| wrong(format!("{option} = {value:?}: {e}"));
    let mode = match replay.as_deref() {
        None => None,
        Some("open") => Some(Mode::Open),
        Some("closed") => Some(Mode::Closed),
        Some("think") => Some(Mode::Think),
        Some(other) => return Err(wrong(format!("replay = {other:?}: expected open, closed or think"))),
    };
    let fit = match fit.as_deref() {
        None => nandle_lab::address::Fit::default(),
        Some(text) => text.parse().map_err(|e: String| refused("fit", text, e))?,
    };
    let trace = Options {
        format: match format.as_deref() {
            None => None,
            Some(text) => Some(text.parse().map_err(|e| refused("format", text, format!("{e}")))?),
        },
        time_unit: match time_unit.as_deref() {
            None => None,
            Some(text) => Some(text.parse().map_err(|e| refused("time_unit", text, format!("{e}")))?),
        },
        volume,
        ..Options::default()
    };
    let until = until.map(|(band, at_most)| Until { band, at_most });
    let asked = Asked { workload, seed, requests, mode, iodepth, time_scale, fit, trace, until };
    let stop = Arc::new(AtomicBool::new(false));
    let policies = Policies::new(victim, buffer, Arc::clone(&stop));
    let added = policies.map(|policies| policies.outside(py)).transpose()?;
    let mut interrupted = None;
    let mut watch = |p: &Progress| {
        if interrupted.is_some() {
            return;
        }
        let seen = Python::attach(|py| {
            py.check_signals()?;
            match &progress {
                Some(f) => f.call1(py, (p.requests, p.total, p.now_ns, p.waf)).map(|_| ()),
                None => Ok(()),
            }
        });
        if let Err(e) = seen {
            interrupted = Some(e);
            stop.store(true, Ordering::Relaxed);
        }
    };
    let (done, raised) = watched(py, || {
        guarded(|| -> Result<Outcome, nandle_lab::Error> {
            let mut drive = Wanted { device: &device, scheme: scheme.as_deref(), sets: &sets }.load()?;
            drive.outside.extend(added);
            let output = output.map(Into::into);
            let run = Run { drive, asked, seed, verify, power_cuts: None, output, io_log, explain: 0 };
            run.go(&stop, &mut watch)
        })
    });
    raised?;
    if let Some(e) = interrupted {
        return Err(e);
    }
    let outcome = done?.map_err(input)?;
    if let Some(e) = outcome.unwritten {
        return Err(input(e));
    }
    if let Some(failure) = outcome.summary.integrity.failure() {
        return Err(PyRuntimeError::new_err(failure));
    }
    let summary =
        serde_json::to_string(&outcome.summary).map_err(|e| PyRuntimeError::new_err(e.to_string()))?;
    let series = Table::of(&tables::series(&outcome.drive, &outcome.meter))?;
    Ok((summary, series, Table::of(&tables::latencies(&outcome.meter))?))
}
