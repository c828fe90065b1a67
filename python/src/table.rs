//! Arrow tables for Python: through the Arrow PyCapsule interface, or column by column for numpy.

use std::io::Cursor;
use std::sync::Arc;

use arrow_array::builder::{ListBuilder, UInt64Builder};
use arrow_array::cast::AsArray;
use arrow_array::ffi::{FFI_ArrowSchema, to_ffi};
use arrow_array::ffi_stream::FFI_ArrowArrayStream;
use arrow_array::types::{Float64Type, UInt16Type, UInt32Type, UInt64Type};
use arrow_array::{
    Array as _, ArrayRef, BooleanArray, Float64Array, Int64Array, RecordBatch, RecordBatchIterator,
    StringArray, StructArray, UInt16Array, UInt32Array, UInt64Array,
};
use arrow_ipc::{reader::StreamReader, writer::StreamWriter};
use arrow_schema::{ArrowError, DataType, Field, Schema};
use nandle_table::{Column, Values};
use pyo3::exceptions::{PyKeyError, PyRuntimeError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyCapsule, PyTuple};

use crate::errors::wrong;

/// A table that a run made, or a trace.
#[pyclass(module = "nandle._core", frozen)]
pub struct Table {
    batch: RecordBatch,
}

impl Table {
    pub fn new(batch: RecordBatch) -> Self {
        Self { batch }
    }

    /// A table of nandle's.
    pub fn of(table: &nandle_table::Table) -> PyResult<Self> {
        Ok(Self { batch: batch(table).map_err(failed)? })
    }
}

/// A table of nandle's as Arrow's.
pub fn batch(table: &nandle_table::Table) -> Result<RecordBatch, ArrowError> {
    let field = |column: &Column, array: &ArrayRef| {
        Field::new(column.name(), array.data_type().clone(), column.absent().is_some())
    };
    let arrays: Vec<ArrayRef> = table.columns().iter().map(array).collect();
    let fields: Vec<Field> = table.columns().iter().zip(&arrays).map(|(c, a)| field(c, a)).collect();
    RecordBatch::try_new(Arc::new(Schema::new(fields)), arrays)
}

fn array(column: &Column) -> ArrayRef {
    /// Every row's value, or none where it is absent.
    fn rows<'a, T>(
        column: &'a Column,
        values: impl Iterator<Item = T> + 'a,
    ) -> impl Iterator<Item = Option<T>> {
        values.enumerate().map(|(row, value)| column.has(row).then_some(value))
    }
    match column.values() {
        Values::Bool(v) => Arc::new(rows(column, v.iter().copied()).collect::<BooleanArray>()),
        Values::U16(v) => Arc::new(rows(column, v.iter().copied()).collect::<UInt16Array>()),
        Values::U32(v) => Arc::new(rows(column, v.iter().copied()).collect::<UInt32Array>()),
        Values::U64(v) => Arc::new(rows(column, v.iter().copied()).collect::<UInt64Array>()),
        Values::I64(v) => Arc::new(rows(column, v.iter().copied()).collect::<Int64Array>()),
        Values::F64(v) => Arc::new(rows(column, v.iter().copied()).collect::<Float64Array>()),
        Values::Text(v) => Arc::new(rows(column, v.iter()).collect::<StringArray>()),
        Values::Lists(v) => {
            let mut lists = ListBuilder::new(UInt64Builder::new());
            for list in v {
                lists.values().append_slice(list);
                lists.append(true);
            }
            Arc::new(lists.finish())
        }
    }
}

fn failed(e: impl std::fmt::Display) -> PyErr {
    PyRuntimeError::new_err(format!("Arrow: {e}"))
}

#[pymethods]
impl Table {
    fn __len__(&self) -> usize {
        self.batch.num_rows()
    }

    #[getter]
    fn names(&self) -> Vec<String> {
        self.batch.schema().fields().iter().map(|f| f.name().clone()).collect()
    }

    /// A column as numpy's type, values in native order and, for lists of one length, that length.
    /// Strings come as a list under the type `O`. Absent numbers are NaN.
    fn column<'py>(
        &self,
        py: Python<'py>,
        name: &str,
    ) -> PyResult<(String, Bound<'py, PyAny>, Option<usize>)> {
        let column = self.batch.column_by_name(name).ok_or_else(|| PyKeyError::new_err(name.to_owned()))?;
        let bytes = |values: Vec<u8>| PyBytes::new(py, &values).into_any();
        Ok(match column.data_type() {
            DataType::UInt64 => {
                let values = column.as_primitive::<UInt64Type>().values();
                ("u8".into(), bytes(values.iter().flat_map(|v| v.to_ne_bytes()).collect()), None)
            }
            DataType::UInt32 => {
                let values = column.as_primitive::<UInt32Type>().values();
                ("u4".into(), bytes(values.iter().flat_map(|v| v.to_ne_bytes()).collect()), None)
            }
            DataType::UInt16 => {
                let values = column.as_primitive::<UInt16Type>().values();
                ("u2".into(), bytes(values.iter().flat_map(|v| v.to_ne_bytes()).collect()), None)
            }
            DataType::Boolean => {
                let values = column.as_boolean().values();
                ("?".into(), bytes(values.iter().map(u8::from).collect()), None)
            }
            DataType::Float64 => {
                let values = column.as_primitive::<Float64Type>().iter();
                ("f8".into(), bytes(values.flat_map(|v| v.unwrap_or(f64::NAN).to_ne_bytes()).collect()), None)
            }
            DataType::Utf8 => {
                let values: Vec<Option<&str>> = column.as_string::<i32>().iter().collect();
                ("O".into(), values.into_pyobject(py)?.into_any(), None)
            }
            DataType::List(_) => {
                let lists = column.as_list::<i32>();
                let width = if lists.is_empty() { 0 } else { lists.value_length(0) as usize };
                let values = lists
                    .values()
                    .as_primitive_opt::<UInt64Type>()
                    .filter(|values| values.len() == width * lists.len());
                let values =
                    values.ok_or_else(|| failed(format!("{name}: lists of several lengths")))?.values();
                ("u8".into(), bytes(values.iter().flat_map(|v| v.to_ne_bytes()).collect()), Some(width))
            }
            other => return Err(failed(format!("{name}: {other} has no type in numpy"))),
        })
    }

    fn __arrow_c_schema__<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyCapsule>> {
        let schema = FFI_ArrowSchema::try_from(self.batch.schema().as_ref()).map_err(failed)?;
        PyCapsule::new_with_value(py, schema, c"arrow_schema")
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_array__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyTuple>> {
        // A request of another type is best effort by the interface's rules: ours is given.
        let _ = requested_schema;
        let (array, schema) = to_ffi(&StructArray::from(self.batch.clone()).to_data()).map_err(failed)?;
        let schema = PyCapsule::new_with_value(py, schema, c"arrow_schema")?;
        let array = PyCapsule::new_with_value(py, array, c"arrow_array")?;
        PyTuple::new(py, [schema, array])
    }

    #[pyo3(signature = (requested_schema = None))]
    fn __arrow_c_stream__<'py>(
        &self,
        py: Python<'py>,
        requested_schema: Option<Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyCapsule>> {
        let _ = requested_schema;
        let batches = RecordBatchIterator::new(vec![Ok(self.batch.clone())], self.batch.schema());
        let stream = FFI_ArrowArrayStream::new(Box::new(batches));
        PyCapsule::new_with_value(py, stream, c"arrow_array_stream")
    }

    /// The table in Arrow's stream format.
    fn to_ipc<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let mut bytes = Vec::new();
        let mut writer = StreamWriter::try_new(&mut bytes, &self.batch.schema()).map_err(failed)?;
        writer.write(&self.batch).and_then(|()| writer.finish()).map_err(failed)?;
        drop(writer);
        Ok(PyBytes::new(py, &bytes))
    }

    /// The table that [`Table::to_ipc`] wrote.
    #[staticmethod]
    fn from_ipc(bytes: &[u8]) -> PyResult<Self> {
        let not = |e: ArrowError| wrong(format!("not a table in Arrow's stream format: {e}"));
        let reader = StreamReader::try_new(Cursor::new(bytes), None).map_err(not)?;
        let schema = reader.schema();
        let batches = reader.collect::<Result<Vec<_>, _>>().map_err(not)?;
        match <[RecordBatch; 1]>::try_from(batches) {
            Ok([batch]) => Ok(Self { batch }),
            Err(batches) if batches.is_empty() => {
                Ok(Self { batch: RecordBatch::new_empty(Arc::clone(&schema)) })
            }
            Err(_) => Err(wrong("not a table that nandle wrote: expected one batch of rows")),
        }
    }
}
