//! A drive stepped by hand.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use nandle_lab::config::{Drive, Wanted};
use nandle_lab::units;
use nandle_ssd::nand::Cause;
use nandle_ssd::{Command, Op, Ssd, Status};
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;
use serde_json::{Value, json};

use crate::errors::{guarded, input, wrong};
use crate::policies::{Policies, watched};

/// Memory that the contents of a device may take.
const CONTENTS_LIMIT: u64 = 8 << 30;
/// Instants carried out between looks at Python's signals.
const INSTANTS: u32 = 10_000;

/// A request that was submitted.
#[derive(Clone, Copy, Debug)]
struct Submitted {
    op: Op,
    offset: u64,
    bytes: u64,
    at: u64,
}

/// A request that is complete.
#[pyclass(module = "nandle._core", frozen, get_all)]
#[derive(Debug)]
pub struct Completion {
    id: u64,
    op: &'static str,
    offset: u64,
    bytes: u64,
    submitted_ns: u64,
    completed_ns: u64,
    latency_ns: u64,
    status: &'static str,
    data: Option<Py<PyBytes>>,
    /// (offset, bytes) of what the flash did not return.
    unreadable: Vec<(u64, u64)>,
}

#[pymethods]
impl Completion {
    fn __repr__(&self) -> String {
        format!(
            "Completion(id={}, op='{}', offset={}, bytes={}, submitted_ns={}, completed_ns={}, latency_ns={}, status='{}')",
            self.id,
            self.op,
            self.offset,
            self.bytes,
            self.submitted_ns,
            self.completed_ns,
            self.latency_ns,
            self.status
        )
    }
}

/// A drive, or what a panic left of it: nothing.
#[pyclass(module = "nandle._core")]
pub struct Device {
    drive: Drive,
    ssd: Option<Ssd>,
    powered: bool,
    seed: u64,
    pending: BTreeMap<u64, Submitted>,
    done: VecDeque<Completion>,
    next_id: u64,
}

impl Device {
    fn ssd(&self) -> PyResult<&Ssd> {
        self.ssd
            .as_ref()
            .ok_or_else(|| PyRuntimeError::new_err("the simulator failed before: this device is gone"))
    }

    fn sector(&self) -> u64 {
        u64::from(self.drive.config.geometry.sector_bytes)
    }

    /// Works on the drive without the interpreter; after a panic there is no drive any more.
    fn work<T: Send>(
        &mut self,
        py: Python<'_>,
        f: impl FnOnce(&mut Ssd, &mut Vec<nandle_ssd::Completion>) -> T + Send,
    ) -> PyResult<T> {
        self.ssd()?;
        if !self.powered {
            return Err(PyRuntimeError::new_err("the device is off: call power_on() first"));
        }
        let mut ssd = self.ssd.take();
        let mut done = Vec::new();
        let (answer, raised) = watched(py, || guarded(|| ssd.as_mut().map(|ssd| f(ssd, &mut done))));
        let answer = answer?.ok_or_else(|| PyRuntimeError::new_err("the device is gone"))?;
        self.ssd = ssd;
        let sector = self.sector();
        let keeps_data = self.ssd.as_ref().is_some_and(|ssd| ssd.unit() > 0);
        for c in done {
            let Some(of) = self.pending.remove(&c.id) else { continue };
            self.done.push_back(Completion {
                id: c.id,
                op: of.op.name(),
                offset: of.offset,
                bytes: of.bytes,
                submitted_ns: of.at,
                completed_ns: c.at,
                latency_ns: c.at - of.at,
                status: c.status.name(),
                data: (keeps_data
                    && of.op == Op::Read
                    && matches!(c.status, Status::Ok | Status::MediaError))
                .then(|| PyBytes::new(py, &c.data).unbind()),
                unreadable: c.unreadable.iter().map(|&(lsn, n)| (lsn * sector, n * sector)).collect(),
            });
        }
        raised.map(|()| answer)
    }

    /// Carries out instants as long as `go_on` names one, looking at Python's signals now and then.
    fn step_while(
        &mut self,
        py: Python<'_>,
        go_on: impl Fn(&mut Ssd) -> Option<u64> + Send + Sync,
    ) -> PyResult<()> {
        loop {
            let more = self.work(py, |ssd, done| {
                (0..INSTANTS).all(|_| {
                    let next = go_on(ssd);
                    next.into_iter().for_each(|at| ssd.advance(at, done));
                    next.is_some()
                })
            })?;
            if !more {
                return Ok(());
            }
            py.check_signals()?;
        }
    }
}

#[pymethods]
impl Device {
    #[new]
    #[pyo3(signature = (*, device, scheme, sets, seed, contents, victim, buffer))]
    #[expect(clippy::too_many_arguments, reason = "named one by one in Python")]
    fn new(
        py: Python<'_>,
        device: &str,
        scheme: Option<&str>,
        sets: Vec<String>,
        seed: u64,
        contents: bool,
        victim: Option<Py<PyAny>>,
        buffer: Option<Py<PyAny>>,
    ) -> PyResult<Self> {
        let mut drive = Wanted { device, scheme, sets: &sets }.load().map_err(input)?;
        if let Some(policies) = Policies::new(victim, buffer, Arc::default()) {
            drive.outside.push(policies.outside(py)?);
        }
        let unit = if contents { drive.config.geometry.sector_bytes as usize } else { 0 };
        let raw = drive.config.geometry.raw_bytes();
        if contents && raw > CONTENTS_LIMIT {
            return Err(wrong(format!(
                "contents = True would need {} of memory; expected a device of at most {}, or contents = False",
                units::bytes(raw),
                units::bytes(CONTENTS_LIMIT)
            )));
        }
        let mut ssd = py
            .detach(|| guarded(|| Ssd::new(&drive.config, unit, seed)))?
            .map_err(|e| wrong(e.to_string()))?;
        drive.complete(&mut ssd);
        Ok(Self {
            drive,
            ssd: Some(ssd),
            powered: true,
            seed,
            pending: BTreeMap::new(),
            done: VecDeque::new(),
            next_id: 1,
        })
    }

    #[pyo3(signature = (op, offset, bytes, *, fua, stream, data, at))]
    #[expect(clippy::too_many_arguments, reason = "named one by one in Python")]
    fn submit(
        &mut self,
        py: Python<'_>,
        op: &str,
        offset: u64,
        bytes: u64,
        fua: bool,
        stream: u16,
        data: Option<&[u8]>,
        at: Option<u64>,
    ) -> PyResult<u64> {
        let Some(kind) = Op::parse(op.as_bytes()) else {
            let names = Op::ALL.map(Op::name).join(", ");
            return Err(wrong(format!("op = {op:?}: expected one of {names}")));
        };
        let sector = self.sector();
        for (what, value) in [("offset", offset), ("bytes", bytes)] {
            if value % sector != 0 {
                return Err(wrong(format!(
                    "{what} = {value}: expected a multiple of a sector, {sector} bytes"
                )));
            }
        }
        let unit = self.ssd()?.unit();
        let now = self.ssd()?.now();
        let at = at.unwrap_or(now);
        if at < now {
            return Err(wrong(format!("at = {at}: expected the present, {now} ns, or later")));
        }
        let reach = offset.checked_add(bytes).is_some_and(|end| end <= self.drive.layout.logical_bytes);
        let data = match (data, kind) {
            (None, Op::Write) if unit > 0 && reach => {
                return Err(wrong(format!(
                    "a write of {bytes} bytes without data: this device keeps contents, expected data = bytes of that length"
                )));
            }
            (Some(_), Op::Write) if unit == 0 => {
                return Err(wrong(
                    "data: this device keeps no contents; expected Device(..., contents=True) for it",
                ));
            }
            (Some(data), Op::Write) if data.len() as u64 != bytes => {
                return Err(wrong(format!(
                    "data of {} bytes for a write of {bytes}: expected as many",
                    data.len()
                )));
            }
            (Some(_), other) if other != Op::Write => {
                return Err(wrong(format!("data with a {op}: expected it with a write only")));
            }
            (data, _) => data.unwrap_or_default(),
        };
        if fua && kind != Op::Write {
            return Err(wrong(format!("fua with a {op}: expected it with a write only")));
        }
        self.step_while(py, |ssd| ssd.next_event().filter(|&next| next <= at))?;
        if !self.ssd()?.accepts() {
            return Err(PyRuntimeError::new_err(format!(
                "the queue is full: {} requests are under way; let some complete with step(), run_until() or drain() first",
                self.drive.config.queue.depth
            )));
        }
        let id = self.next_id;
        self.next_id += 1;
        self.pending.insert(id, Submitted { op: kind, offset, bytes, at });
        self.work(py, |ssd, done| {
            ssd.advance(at, done);
            let command =
                Command { id, op: kind, lsn: offset / sector, sectors: bytes / sector, fua, stream, data };
            ssd.submit(at, &command);
        })?;
        Ok(id)
    }

    fn run_until(&mut self, py: Python<'_>, at: u64) -> PyResult<()> {
        let now = self.ssd()?.now();
        if at < now {
            return Err(wrong(format!("run_until({at}): expected the present, {now} ns, or later")));
        }
        self.step_while(py, |ssd| ssd.next_event().filter(|&next| next <= at))?;
        self.work(py, |ssd, done| ssd.advance(at, done))
    }

    /// Carries out the next instant; false if nothing is under way.
    fn step(&mut self, py: Python<'_>) -> PyResult<bool> {
        self.work(py, |ssd, done| {
            let next = ssd.next_event();
            next.into_iter().for_each(|at| ssd.advance(at, done));
            next.is_some()
        })
    }

    /// Carries out everything until no request is outstanding.
    fn drain(&mut self, py: Python<'_>) -> PyResult<()> {
        self.step_while(py, |ssd| if ssd.outstanding() > 0 { ssd.next_event() } else { None })?;
        match self.ssd()?.outstanding() {
            0 => Ok(()),
            n => Err(PyRuntimeError::new_err(format!(
                "the device is stuck: {n} requests are outstanding and nothing is under way (this is a bug of the simulator)"
            ))),
        }
    }

    fn poll(&mut self) -> Vec<Completion> {
        self.done.drain(..).collect()
    }

    fn next_event(&self) -> PyResult<Option<u64>> {
        let ssd = self.ssd()?;
        Ok(if self.powered { ssd.next_event() } else { None })
    }

    fn cut_power(&mut self) -> PyResult<u32> {
        if !self.powered {
            return Err(PyRuntimeError::new_err("the device is off already"));
        }
        self.ssd()?;
        self.powered = false;
        let lost = self.pending.len() as u32;
        self.pending.clear();
        Ok(lost)
    }

    /// What the recovery took, as JSON.
    fn power_on(&mut self, py: Python<'_>) -> PyResult<String> {
        if self.powered {
            return Err(PyRuntimeError::new_err("the device is on already"));
        }
        self.ssd()?;
        let (ssd, seed) = (self.ssd.take(), self.seed);
        let ssd = py.detach(|| guarded(|| ssd.map(|ssd| ssd.power_cycle(seed))))?;
        self.ssd = ssd.transpose().map_err(|e| wrong(e.to_string()))?;
        self.powered = true;
        let recovery = self.ssd()?.recovery();
        Ok(recovery
            .map_or(Value::Null, |r| {
                json!({
                    "time_ns": r.time_ns, "reads": r.reads(), "oob_reads": r.oob_reads,
                    "from_checkpoint": r.from_checkpoint, "hold_up_ns": r.hold_up_ns,
                })
            })
            .to_string())
    }

    /// A drive in the same state that goes its own way from here on; what completed and was not polled
    /// stays with this one.
    fn copy(&self) -> PyResult<Self> {
        Ok(Self {
            drive: self.drive.clone(),
            ssd: Some(self.ssd()?.clone()),
            powered: self.powered,
            seed: self.seed,
            pending: self.pending.clone(),
            done: VecDeque::new(),
            next_id: self.next_id,
        })
    }

    #[getter]
    fn now(&self) -> PyResult<u64> {
        Ok(self.ssd()?.now())
    }
    #[getter]
    fn outstanding(&self) -> usize {
        self.pending.len()
    }
    #[getter]
    fn is_on(&self) -> bool {
        self.powered
    }
    #[getter]
    fn accepts(&self) -> PyResult<bool> {
        Ok(self.powered && self.ssd()?.accepts())
    }
    #[getter]
    fn digest(&self) -> PyResult<String> {
        Ok(format!("{:016x}", self.ssd()?.digest()))
    }
    #[getter]
    fn logical_bytes(&self) -> u64 {
        self.drive.layout.logical_bytes
    }
    #[getter]
    fn raw_bytes(&self) -> u64 {
        self.drive.config.geometry.raw_bytes()
    }
    #[getter]
    fn page_bytes(&self) -> u32 {
        self.drive.config.geometry.page_bytes
    }
    #[getter]
    fn sector_bytes(&self) -> u32 {
        self.drive.config.geometry.sector_bytes
    }
    #[getter]
    fn scheme(&self) -> String {
        self.drive.scheme()
    }

    /// Counters, as JSON.
    fn stats(&self) -> PyResult<String> {
        let ssd = self.ssd()?;
        let (s, counters) = (ssd.stats(), ssd.counters());
        let page = u64::from(self.drive.config.geometry.page_bytes);
        let of = |counts: &[[u64; 4]; Cause::COUNT]| {
            let parts =
                Cause::NAMED.iter().map(|&(name, cause)| (name, counts[cause as usize].iter().sum::<u64>()));
            let total: u64 = counts.iter().flatten().sum();
            let map: serde_json::Map<String, Value> =
                parts.chain([("total", total)]).map(|(name, n)| (name.to_owned(), n.into())).collect();
            (Value::Object(map), total)
        };
        let (programs, programmed) = of(&counters.programs);
        let (reads, _) = of(&counters.reads);
        let host: serde_json::Map<String, Value> = Op::ALL
            .into_iter()
            .map(|op| {
                (
                    op.name().to_owned(),
                    json!({ "requests": s.requests[op as usize], "bytes": s.bytes[op as usize] }),
                )
            })
            .collect();
        let written = s.bytes[Op::Write as usize];
        let buffer = ssd.buffer().map(|b| json!({ "entries": b.len(), "partial": b.partial_pages() }));
        Ok(json!({
            "host": host,
            "unaligned_writes": s.unaligned_writes,
            "partial_writes": s.partial_writes,
            "partial_updates": s.partial_updates,
            "unmapped_reads": s.unmapped_reads,
            "rejected": s.rejected,
            "reads": reads,
            "programs": programs,
            "erases": counters.erases,
            "bytes_programmed": programmed * page,
            "waf": (written > 0).then(|| (programmed * page) as f64 / written as f64),
            "rmw": s.rmw_count,
            "buffer_hits": s.buffer_hits,
            "buffer_misses": s.buffer_misses,
            "evictions": s.evictions,
            "evicted_partial_pages": s.evicted_partial_pages,
            "buffer_wait_ns": s.buffer_wait_ns,
            "buffered": buffer,
            "gc_invocations": s.gc_invocations,
            "gc_moved_pages": s.gc_moved_pages,
            "gc_foreground_ns": s.foreground_ns,
            "unreadable_sectors": s.unreadable_sectors,
        })
        .to_string())
    }

    /// The invariants of the drive, as JSON: what was checked, how often, how often it did not hold.
    fn inspect(&self, py: Python<'_>) -> PyResult<String> {
        let ssd = self.ssd()?;
        let found = py.detach(|| guarded(|| ssd.inspect()))?;
        let findings: Vec<Value> = found
            .findings
            .iter()
            .map(
                |f| json!({ "what": f.what, "checked": f.checked, "wrong": f.wrong, "problems": f.problems }),
            )
            .collect();
        Ok(Value::from(findings).to_string())
    }
}
