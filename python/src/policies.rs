//! Policies written in Python: the drive asks here, and here asks the interpreter.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use nandle_ssd::buffer::{Buffer, Victims};
use nandle_ssd::flash::Flash;
use nandle_ssd::nand::{Block, Time};
use nandle_ssd::schemes::{Interests, Scheme, Surroundings};
use nandle_ssd::space::Candidates;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::wrong;

/// What the user subclassed. The first exception ends the run and is raised when it is over; from then
/// on the drive's own policies decide.
pub struct Policies {
    victim: Option<Py<PyAny>>,
    buffer: Option<Py<PyAny>>,
    failed: Mutex<Option<PyErr>>,
    has_failed: AtomicBool,
    stop: Arc<AtomicBool>,
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let given = |policy: &Option<Py<PyAny>>| if policy.is_some() { "Python" } else { "own" };
        write!(f, "Policies(victim: {}, buffer: {})", given(&self.victim), given(&self.buffer))
    }
}

impl Policies {
    /// Policies, if there are any, that set `stop` when one of them fails.
    pub fn new(
        victim: Option<Py<PyAny>>,
        buffer: Option<Py<PyAny>>,
        stop: Arc<AtomicBool>,
    ) -> Option<Arc<Self>> {
        (victim.is_some() || buffer.is_some()).then(|| {
            Arc::new(Self {
                victim,
                buffer,
                failed: Mutex::new(None),
                has_failed: AtomicBool::new(false),
                stop,
            })
        })
    }

    /// What reports call them: the names of their classes.
    pub fn name(&self, py: Python<'_>) -> PyResult<String> {
        let mut names = Vec::new();
        for (seam, policy) in [("victim", &self.victim), ("buffer", &self.buffer)] {
            if let Some(policy) = policy {
                names.push(format!("{seam}={}", policy.bind(py).get_type().name()?));
            }
        }
        Ok(names.join("+"))
    }

    /// Raises what a policy raised.
    pub fn verdict(&self) -> PyResult<()> {
        match self.failed.lock().unwrap_or_else(PoisonError::into_inner).take() {
            Some(error) => Err(error),
            None => Ok(()),
        }
    }

    fn ask<T>(&self, what: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        match Python::attach(what) {
            Ok(answer) => Some(answer),
            Err(error) => {
                *self.failed.lock().unwrap_or_else(PoisonError::into_inner) = Some(error);
                self.has_failed.store(true, Ordering::Relaxed);
                self.stop.store(true, Ordering::Relaxed);
                None
            }
        }
    }
}

/// Numbers as bytes that numpy reads without a copy.
fn column<'py, const N: usize>(
    py: Python<'py>,
    values: impl ExactSizeIterator<Item = [u8; N]>,
) -> PyResult<Bound<'py, PyBytes>> {
    PyBytes::new_with(py, values.len() * N, |bytes| {
        bytes.chunks_exact_mut(N).zip(values).for_each(|(place, value)| place.copy_from_slice(&value));
        Ok(())
    })
}

/// The policies as a scheme of a drive; drives that are copied share them.
#[derive(Clone, Debug)]
pub struct Adapter(pub Arc<Policies>);

impl Scheme for Adapter {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }

    fn interests(&self) -> Interests {
        let given =
            |policy: &Option<Py<PyAny>>, interest| if policy.is_some() { interest } else { Interests::NONE };
        given(&self.0.victim, Interests::VICTIM).and(given(&self.0.buffer, Interests::DESTAGE))
    }

    fn victim(&self, flash: &Flash, plane: u32, from: &Candidates<'_>, now: Time) -> Option<Block> {
        let policy = self.0.victim.as_ref()?;
        let blocks: Vec<Block> = from.by_age().filter(|&b| from.valid(b) < from.pages_per_block()).collect();
        self.0.ask(|py| {
            let each = || blocks.iter().copied();
            let arguments = (
                (plane, now, from.pages_per_block()),
                column(py, each().map(|b| b.0.to_ne_bytes()))?,
                column(py, each().map(|b| from.valid(b).to_ne_bytes()))?,
                column(py, each().map(|b| flash.array().erases(b).to_ne_bytes()))?,
                column(py, each().map(|b| from.last_invalidated(b).to_ne_bytes()))?,
            );
            let answer: Option<i64> =
                policy.call_method1(py, intern!(py, "_decide"), arguments)?.extract(py)?;
            answer.map(|n| at(&blocks, n, "choose() of the victim policy")).transpose()
        })?
    }

    fn destage(&mut self, near: &dyn Surroundings, buffer: &mut Buffer) -> Option<Victims> {
        let policy = self.0.buffer.as_ref()?;
        let slots: Vec<u32> = std::iter::successors(buffer.oldest(), |&slot| buffer.newer(slot)).collect();
        let chosen = self.0.ask(|py| {
            let each = || slots.iter().map(|&slot| buffer.entry(slot));
            let arguments = (
                (near.flash().media().now(), near.flash().geometry().sectors_per_page()),
                column(py, each().map(|e| e.lpn.to_ne_bytes()))?,
                column(py, each().map(|e| e.mask.to_ne_bytes()))?,
                column(py, each().map(|e| e.mask.count_ones().to_ne_bytes()))?,
                column(py, each().map(|e| e.stream.to_ne_bytes()))?,
                column(py, each().map(|e| e.request.to_ne_bytes()))?,
            );
            let answer: Vec<i64> = policy.call_method1(py, intern!(py, "_decide"), arguments)?.extract(py)?;
            answer
                .into_iter()
                .map(|n| at(&slots, n, "evict() of the buffer policy"))
                .collect::<PyResult<Victims>>()
        });
        chosen.filter(|chosen| !chosen.is_empty())
    }
}

fn at<T: Copy>(list: &[T], n: i64, whose: &str) -> PyResult<T> {
    let found = usize::try_from(n).ok().and_then(|n| list.get(n)).copied();
    found.ok_or_else(|| {
        wrong(format!(
            "{whose} returned {n}: expected an index from 0 to {} of what it was shown",
            list.len().saturating_sub(1)
        ))
    })
}
