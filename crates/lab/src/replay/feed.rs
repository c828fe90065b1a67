use nandle_trace::{Error, Request, Source};

/// Requests taken from a source at a time.
const BATCH: usize = 1024;

/// A source, read in batches.
pub(super) struct Feed {
    source: Box<dyn Source>,
    /// Multiplies every timestamp.
    time_scale: f64,
    batch: Vec<Request>,
    at: usize,
    /// The request that was put aside last.
    aside: Option<Request>,
}

impl Feed {
    pub(super) fn new(source: Box<dyn Source>, time_scale: f64) -> Self {
        Self { source, time_scale, batch: Vec::with_capacity(BATCH), at: 0, aside: None }
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

    /// The request `ahead` places behind the next one, as far as it is read.
    #[inline]
    pub(super) fn ahead(&self, ahead: usize) -> Option<&Request> {
        self.batch.get(self.at + ahead)
    }

    /// Takes the next request too if it belongs with one that was taken already; reads on if it must.
    pub(super) fn pop_if(&mut self, belongs: impl Fn(&Request) -> bool) -> Result<Option<Request>, Error> {
        if self.is_empty() {
            self.refill()?;
        }
        Ok(match self.batch.get(self.at) {
            Some(next) if belongs(next) => self.pop().copied(),
            _ => None,
        })
    }

    /// Puts aside a request whose batch may be gone.
    pub(super) fn put_aside(&mut self, request: Request) -> &Request {
        self.aside.insert(request)
    }

    /// Reads the next batch; an empty one is the end.
    pub(super) fn refill(&mut self) -> Result<(), Error> {
        self.batch.clear();
        self.at = 0;
        self.source.fill(&mut self.batch, BATCH)?;
        if self.time_scale != 1.0 {
            self.batch.iter_mut().for_each(|r| r.time_ns = scaled(r.time_ns, self.time_scale));
        }
        Ok(())
    }
}

pub(super) fn scaled(ns: u64, scale: f64) -> u64 {
    (ns as f64 * scale) as u64
}
