//! Policies written in Python: the drive asks here, and here asks the interpreter.

use std::cell::RefCell;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use nandle_lab::config::Outside;
use nandle_ssd::buffer::{Buffer, Victims};
use nandle_ssd::flash::Flash;
use nandle_ssd::nand::{Block, Time};
use nandle_ssd::schemes::{Interests, Scheme, Surroundings};
use nandle_ssd::space::Candidates;
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use crate::errors::wrong;

thread_local! {
    /// What a policy raised in the call that this thread carries out.
    static RAISED: RefCell<Option<PyErr>> = const { RefCell::new(None) };
}

/// What the user subclassed. The first exception ends the run, or the call of a device, and is raised when that is over;
/// until then the drive's own policies decide.
pub struct Policies {
    victim: Option<Py<PyAny>>,
    buffer: Option<Py<PyAny>>,
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
        (victim.is_some() || buffer.is_some()).then(|| Arc::new(Self { victim, buffer, stop }))
    }

    /// They as what a drive gets.
    pub fn outside(self: Arc<Self>, py: Python<'_>) -> PyResult<Outside> {
        let name = self.name(py)?;
        let make = move || Box::new(Adapter(Arc::clone(&self))) as Box<dyn Scheme>;
        Ok(Outside::new(name, "Written in Python.", make))
    }

    /// What reports call them: the names of their classes.
    fn name(&self, py: Python<'_>) -> PyResult<String> {
        let mut names = Vec::new();
        for (seam, policy) in [("victim", &self.victim), ("buffer", &self.buffer)] {
            if let Some(policy) = policy {
                names.push(format!("{seam}={}", policy.bind(py).get_type().name()?));
            }
        }
        Ok(names.join("+"))
    }

    fn ask<T>(&self, what: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        if RAISED.with_borrow(Option::is_some) {
            return None;
        }
        match Python::attach(what) {
            Ok(answer) => Some(answer),
            Err(error) => {
                RAISED.set(Some(error));
                self.stop.store(true, Ordering::Relaxed);
                None
            }
        }
    }
}

/// Does `what` on this thread, without the interpreter; what it comes to, and what a policy raised meanwhile.
pub fn watched<T: Send>(py: Python<'_>, what: impl FnOnce() -> T + Send) -> (T, PyResult<()>) {
    RAISED.set(None);
    let done = py.detach(what);
    (done, RAISED.take().map_or(Ok(()), Err))
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
struct Adapter(Arc<Policies>);

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
            let answer = policy.bind(py).call_method1(intern!(py, "_decide"), arguments)?;
            (!answer.is_none()).then(|| at(&blocks, &answer, "choose() of the victim policy")).transpose()
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
            let answer = policy.bind(py).call_method1(intern!(py, "_decide"), arguments)?;
            answer
                .try_iter()?
                .map(|n| at(&slots, &n?, "evict() of the buffer policy"))
                .collect::<PyResult<Victims>>()
        });
        chosen.filter(|chosen| !chosen.is_empty())
    }
}

fn at<T: Copy>(list: &[T], n: &Bound<'_, PyAny>, whose: &str) -> PyResult<T> {
    let found = n.extract::<usize>().ok().and_then(|n| list.get(n)).copied();
    found.ok_or_else(|| {
        wrong(format!(
            "{whose} returned {n}: expected an index from 0 to {} of what it was shown",
            list.len().saturating_sub(1)
        ))
    })
}
