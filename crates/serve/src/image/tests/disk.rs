//! A disk in memory that keeps what is done to it, and goes wrong on request.

use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard};

use crate::image::medium::Medium;

/// What a disk does at the unit of which a write is whole or not there.
pub const SECTOR: usize = 512;
/// What a kernel copies at a time: a process is killed between two of these.
const PAGE: u64 = 4096;

/// What goes wrong with a write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The process is killed while it writes: what follows never happens.
    Kill,
    /// The disk refuses, once.
    Error,
    /// There is no more room from now on, after a part of it.
    Full,
    /// Only a part is taken, and the caller told so.
    Short,
    /// It is reported as done, and nothing is written.
    Lost,
    /// It is reported as done, and only a part is written.
    Torn,
    /// It is reported as done, and written to another place.
    Misdirected,
}

#[derive(Clone, Debug)]
pub enum Step {
    Write(u64, Vec<u8>),
    Punch(u64, u64),
    Sync,
}

#[derive(Debug, Default)]
pub struct State {
    pub bytes: Vec<u8>,
    /// Everything that was done, if it is kept.
    pub log: Option<Vec<Step>>,
    /// What goes wrong after so many writes, with a number that decides on the details.
    pub plan: Option<(u64, Wrong, u64)>,
    /// It went wrong: what, where.
    pub hit: Option<(Wrong, u64)>,
    /// From now on it refuses everything.
    pub dead: Option<ErrorKind>,
}

impl State {
    fn put(&mut self, bytes: &[u8], at: u64) {
        let at = at as usize;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Carries a step out, or of a write only the sectors that `keep` names.
    pub fn apply(&mut self, step: &Step, mut keep: impl FnMut() -> bool) {
        match step {
            Step::Write(at, bytes) => {
                let (mut at, mut left) = (*at, &bytes[..]);
                while !left.is_empty() {
                    let now = left.len().min(SECTOR - at as usize % SECTOR);
                    if keep() {
                        self.put(&left[..now], at);
                    }
                    (at, left) = (at + now as u64, &left[now..]);
                }
            }
            Step::Punch(from, bytes) => self.bytes[*from as usize..(from + bytes) as usize].fill(0),
            Step::Sync => {}
        }
    }
}

/// A handle to it; a clone is the same disk.
#[derive(Clone, Debug, Default)]
pub struct Disk(Arc<Mutex<State>>);

impl Disk {
    pub fn of(bytes: Vec<u8>) -> Self {
        let disk = Self::default();
        disk.state().bytes = bytes;
        disk
    }

    pub fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().expect("nobody panicked with it")
    }

    /// It works again; what went wrong.
    pub fn mended(&self) -> Option<(Wrong, u64)> {
        let mut state = self.state();
        (state.dead, state.plan) = (None, None);
        state.hit.take()
    }
}

impl Medium for Disk {
    fn read_at(&self, into: &mut [u8], at: u64) -> io::Result<usize> {
        let state = self.state();
        let from = (at as usize).min(state.bytes.len());
        let n = into.len().min(state.bytes.len() - from);
        into[..n].copy_from_slice(&state.bytes[from..from + n]);
        Ok(n)
    }

    fn write_at(&self, bytes: &[u8], at: u64) -> io::Result<usize> {
        let mut state = self.state();
        if let Some(kind) = state.dead {
            return Err(kind.into());
        }
        let wrong = match &mut state.plan {
            Some((0, ..)) => state.plan.take().map(|(_, wrong, detail)| (wrong, detail)),
            Some((left, ..)) => {
                *left -= 1;
                None
            }
            None => None,
        };
        let Some((wrong, detail)) = wrong else {
            state.put(bytes, at);
            if let Some(log) = &mut state.log {
                log.push(Step::Write(at, bytes.to_vec()));
            }
            return Ok(bytes.len());
        };
        state.hit = Some((wrong, at));
        // A part that ends at a border of `unit`, not all of it.
        let part = |unit: u64| {
            let borders = (at / unit + 1..).map(|n| n * unit - at).take_while(|&n| n < bytes.len() as u64);
            let mut parts = vec![0];
            parts.extend(borders);
            parts[detail as usize % parts.len()] as usize
        };
        match wrong {
            Wrong::Kill | Wrong::Full => {
                let n = part(PAGE);
                state.put(&bytes[..n], at);
                state.dead =
                    Some(if wrong == Wrong::Kill { ErrorKind::Other } else { ErrorKind::StorageFull });
                if n > 0 && wrong == Wrong::Full { Ok(n) } else { Err(state.dead.expect("just set").into()) }
            }
            Wrong::Error => Err(io::Error::from_raw_os_error(5)),
            Wrong::Short => {
                let n = 1 + detail as usize % bytes.len();
                state.put(&bytes[..n], at);
                Ok(n)
            }
            Wrong::Lost => Ok(bytes.len()),
            Wrong::Torn => {
                let n = part(SECTOR as u64);
                state.put(&bytes[..n], at);
                Ok(bytes.len())
            }
            Wrong::Misdirected => {
                // To a place of its kind, most often: a whole number of pages away.
                let places = (state.bytes.len() - bytes.len()) as u64 / PAGE;
                let elsewhere = detail % places * PAGE + at % PAGE;
                let elsewhere = elsewhere.min((state.bytes.len() - bytes.len()) as u64);
                if elsewhere < 65_536 {
                    return Ok(bytes.len()); // the header has a checksum of its own
                }
                state.put(bytes, elsewhere);
                Ok(bytes.len())
            }
        }
    }

    fn punch(&self, from: u64, bytes: u64) -> io::Result<()> {
        let mut state = self.state();
        if let Some(kind) = state.dead {
            return Err(kind.into());
        }
        let step = Step::Punch(from, bytes);
        state.apply(&step, || true);
        if let Some(log) = &mut state.log {
            log.push(step);
        }
        Ok(())
    }

    fn sync(&self) -> io::Result<()> {
        let mut state = self.state();
        if let Some(kind) = state.dead {
            return Err(kind.into());
        }
        if let Some(log) = &mut state.log {
            log.push(Step::Sync);
        }
        Ok(())
    }

    fn length(&self) -> io::Result<u64> {
        Ok(self.state().bytes.len() as u64)
    }

    fn set_length(&self, bytes: u64) -> io::Result<()> {
        self.state().bytes.resize(bytes as usize, 0);
        Ok(())
    }

    fn next_data(&self, from: u64) -> io::Result<Option<u64>> {
        let state = self.state();
        let tail = state.bytes.get(from as usize..).unwrap_or_default();
        Ok(tail.iter().position(|&byte| byte != 0).map(|n| from + n as u64))
    }

    fn is_at(&self, _: &Path) -> bool {
        true
    }
}
