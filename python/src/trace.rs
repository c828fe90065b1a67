//! Traces, read as they are asked for.

use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::{RecordBatch, RecordBatchReader};
use arrow_schema::{ArrowError, SchemaRef};
use nandle_trace::{Options, Source};
use pyo3::prelude::*;
use pyo3::types::PyCapsule;

use crate::errors::{guarded, input, wrong};
use crate::table::{Table, batch};

/// An open trace: its requests in order, some at a time.
#[pyclass(module = "nandle._core", frozen)]
pub struct Trace {
    format: String,
    columns: SchemaRef,
    open: Mutex<Option<Requests>>,
}

/// What is left of it.
struct Requests {
    trace: nandle_trace::Trace,
    columns: SchemaRef,
    rows: usize,
}

impl Iterator for Requests {
    type Item = Result<RecordBatch, ArrowError>;

    fn next(&mut self) -> Option<Self::Item> {
        let mut requests = Vec::new();
        while requests.len() < self.rows {
            let before = requests.len();
            if let Err(error) = self.trace.fill(&mut requests, self.rows - before) {
                return Some(Err(ArrowError::ExternalError(Box::new(error))));
            }
            if requests.len() == before {
                break;
            }
        }
        (!requests.is_empty()).then(|| batch(&nandle_trace::table(&requests)))
    }
}

impl RecordBatchReader for Requests {
    fn schema(&self) -> SchemaRef {
        Arc::clone(&self.columns)
    }
}

impl Trace {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Requests>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn closed() -> PyErr {
    wrong("the trace is closed, or was handed over whole: open it again")
}

#[pymethods]
impl Trace {
    #[new]
    #[pyo3(signature = (path, format, volume, time_unit, rows))]
    fn new(
        path: PathBuf,
        format: Option<String>,
        volume: Option<String>,
        time_unit: Option<String>,
        rows: usize,
    ) -> PyResult<Self> {
        let refused = |what: &str, text: &str, e: String| wrong(format!("{what} = {text:?}: {e}"));
        let format = format.as_deref().map(|f| f.parse().map_err(|e| refused("format", f, format!("{e}"))));
        let unit = time_unit.as_deref();
        let unit = unit.map(|u| u.parse().map_err(|e| refused("time_unit", u, format!("{e}"))));
        let options = Options {
            format: format.transpose()?,
            time_unit: unit.transpose()?,
            volume,
            ..Options::default()
        };
        let trace = guarded(|| nandle_trace::open(&path, &options))?.map_err(|e| input(e.into()))?;
        let columns = batch(&nandle_trace::table(&[])).map_err(|e| wrong(e.to_string()))?.schema();
        let format = trace.format().to_string();
        let requests = Requests { trace, columns: Arc::clone(&columns), rows: rows.max(1) };
        Ok(Self { format, columns, open: Mutex::new(Some(requests)) })
    }

    /// Its format.
    #[getter]
    fn format(&self) -> &str {
        &self.format
    }

    /// The names of its columns.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.columns.fields().iter().map(|f| f.name().clone()).collect()
    }

    /// The next requests; none at the end.
    fn next_batch(&self, py: Python<'_>) -> PyResult<Option<Table>> {
        let next = py.detach(|| {
            let mut open = self.lock();
            let requests = open.as_mut().ok_or_else(closed)?;
            guarded(|| requests.next())
        })?;
        match next {
            None => Ok(None),
            Some(Ok(batch)) => Ok(Some(Table::new(batch))),
            Some(Err(ArrowError::ExternalError(error))) => Err(wrong(error.to_string())),
            Some(Err(error)) => Err(wrong(error.to_string())),
        }
    }

    /// Hands what is left over to whoever speaks Arrow, which reads it as it goes.
    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let requests = self.lock().take().ok_or_else(closed)?;
        PyCapsule::new_with_value(py, FFI_ArrowArrayStream::new(Box::new(requests)), c"arrow_array_stream")
    }

    /// Lets go of the file.
    fn close(&self) {
        self.lock().take();
    }
}
