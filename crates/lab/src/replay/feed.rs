use nandle_ssd::nand::Time;
use nandle_trace::{Request, Source};

use crate::Error;
use crate::address::Address;

/// Requests taken from a source at a time.
const BATCH: usize = 1024;
/// The last instant at which a request may come: 292 years, so that no sum of times overflows.
const LATEST: Time = Time::MAX / 2;
/// Requests that [`Feed::soon`] tells of.
pub(super) const SOON: usize = 12;

/// A source, read in batches.
pub(super) struct Feed {
    source: Box<dyn Source>,
    /// Multiplies every timestamp.
    time_scale: f64,
    batch: Vec<Request>,
    /// Where each begins, roughly, and [`SOON`] further numbers: asked for several times, but worked out once.
    near: Vec<u64>,
    at: usize,
    /// The request that was put aside last.
    aside: Option<Request>,
}

impl Feed {
    pub(super) fn new(source: Box<dyn Source>, time_scale: f64) -> Self {
        Self { source, time_scale, batch: Vec::with_capacity(BATCH), near: Vec::new(), at: 0, aside: None }
    }

    /// Whether everything that was read is taken.
    #[inline]
    pub(super) fn is_empty(&self) -> bool {
        self.at == self.batch.len()
    }

    /// The next request of the batch. It stays there: what a copy costs is the wait to read it back.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<&Request> {
        let request = self.batch.get(self.at)?;
        self.at += 1;
        Some(request)
    }

    /// The next request of the batch, which stays the next one.
    #[inline]
    pub(super) fn peek(&self) -> Option<&Request> {
        self.batch.get(self.at)
    }

    /// Where the next request begins, and those behind it, as far as they are read: hints, which may be wrong.
    #[inline]
    pub(super) fn soon(&self) -> Option<&[u64; 1 + SOON]> {
        self.near.get(self.at..)?.first_chunk()
    }

    /// Takes the next request too if it belongs with one that was taken already; reads on if it must.
    pub(super) fn pop_if(
        &mut self,
        address: &Address,
        belongs: impl Fn(&Request) -> bool,
    ) -> Result<Option<Request>, Error> {
        if self.is_empty() {
            self.refill(address)?;
        }
        Ok(match self.peek() {
            Some(next) if belongs(next) => self.pop().copied(),
            _ => None,
        })
    }

    /// Puts aside a request whose batch may be gone.
    pub(super) fn put_aside(&mut self, request: Request) -> &Request {
        self.aside.insert(request)
    }

    /// Reads the next batch, which goes to `address`; an empty one is the end.
    pub(super) fn refill(&mut self, address: &Address) -> Result<(), Error> {
        self.batch.clear();
        self.at = 0;
        self.source.fill(&mut self.batch, BATCH)?;
        if self.time_scale != 1.0 {
            self.batch.iter_mut().for_each(|r| r.time_ns = scaled(r.time_ns, self.time_scale));
        }
        if let Some(latest) = self.batch.iter().map(|r| r.time_ns).max() {
            in_time(latest)?;
        }
        self.near.clear();
        self.near.extend(self.batch.iter().map(|r| address.near(r)));
        self.near.resize(self.batch.len() + SOON, 0);
        Ok(())
    }
}

/// The time at which a request comes, or the time between two, if there is such a time.
#[inline]
pub(super) fn in_time(ns: Time) -> Result<Time, Error> {
    if ns <= LATEST { Ok(ns) } else { Err(too_late()) }
}

#[cold]
fn too_late() -> Error {
    Error::input(
        "a request comes 292 years after the first or later: expected another time unit, or a smaller --time-scale",
    )
}

pub(super) fn scaled(ns: u64, scale: f64) -> u64 {
    (ns as f64 * scale) as u64
}
