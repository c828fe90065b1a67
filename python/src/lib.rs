//! The compiled part of the Python package `nandle`: what `nandle/*.py` builds on.
//!
//! Everything here takes and gives plain values: names, numbers, JSON, Arrow tables. The interpreter is
//! let go while the simulation runs.

mod device;
mod errors;
mod policies;
mod simulate;
mod table;
mod trace;

use nandle_lab::config::{self, PRESETS, SHORTHANDS, Wanted};
use nandle_trace::synthetic;
use pyo3::prelude::*;

use errors::{InputError, input};

/// Name and description of every device that comes with the package.
#[pyfunction]
fn presets() -> PyResult<Vec<(String, String)>> {
    PRESETS
        .iter()
        .map(|preset| {
            let drive = preset.load().map_err(input)?;
            Ok((preset.name.to_owned(), format!("{}: {}", preset.size(), drive.config.description)))
        })
        .collect()
}

/// Question, name and description of every policy; sums have the question `sum`.
#[pyfunction]
fn schemes() -> Vec<(String, String, String)> {
    let policies = config::policies();
    let single = policies.iter().map(|p| (p.seam.to_owned(), p.name.to_owned(), p.line.to_owned()));
    let sums =
        SHORTHANDS.iter().map(|s| ("sum".to_owned(), s.name.to_owned(), format!("{}: {}", s.sum, s.line)));
    single.chain(sums).collect()
}

/// Name and description of every workload that is generated.
#[pyfunction]
fn workloads() -> Vec<(String, String)> {
    synthetic::list().iter().map(|(name, line)| ((*name).to_owned(), (*line).to_owned())).collect()
}

/// Every setting of a device, as the TOML of a device file.
#[pyfunction]
fn resolved(device: &str, scheme: Option<&str>, sets: Vec<String>) -> PyResult<String> {
    let drive = Wanted { device, scheme, sets: &sets }.load().map_err(input)?;
    Ok(config::resolved(&drive))
}

#[pymodule]
fn _core(m: &Bound<'_, PyModule>) -> PyResult<()> {
    m.add("__version__", env!("CARGO_PKG_VERSION"))?;
    m.add("InputError", m.py().get_type::<InputError>())?;
    m.add_class::<table::Table>()?;
    m.add_class::<trace::Trace>()?;
    m.add_class::<device::Device>()?;
    m.add_class::<device::Completion>()?;
    m.add_function(wrap_pyfunction!(presets, m)?)?;
    m.add_function(wrap_pyfunction!(schemes, m)?)?;
    m.add_function(wrap_pyfunction!(workloads, m)?)?;
    m.add_function(wrap_pyfunction!(resolved, m)?)?;
    m.add_function(wrap_pyfunction!(simulate::simulate, m)?)?;
    Ok(())
}
