//! Errors as Python sees them.

use std::panic::{AssertUnwindSafe, catch_unwind};

use pyo3::PyErr;
use pyo3::exceptions::{PyRuntimeError, PyValueError};

pyo3::create_exception!(nandle, InputError, PyValueError, "Something that was asked for makes no sense.");

/// An error of the laboratory: the user's input, or the run.
pub fn input(error: nandle_lab::Error) -> PyErr {
    if error.is_input() {
        InputError::new_err(error.to_string())
    } else {
        PyRuntimeError::new_err(error.to_string())
    }
}

/// Bad input found here.
pub fn wrong(what: impl Into<String>) -> PyErr {
    InputError::new_err(what.into())
}

/// Runs `f`; a panic of the simulator becomes a `RuntimeError`.
pub fn guarded<T>(f: impl FnOnce() -> T) -> Result<T, PyErr> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic| {
        let what = panic.downcast_ref::<String>().map(String::as_str);
        let what = what.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("?");
        PyRuntimeError::new_err(format!(
            "panic: {what} (this is a bug of the simulator: please report the configuration)"
        ))
    })
}
