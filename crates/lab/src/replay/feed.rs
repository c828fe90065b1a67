use nandle_trace::{Error, Request, Source};

/// Requests taken from a source at a time.
const BATCH: usize = 1024;

/// A source, read in batches.
pub(super) struct Feed {
    source: Box<dyn Source>,
    batch: Vec<Request>,
    at: usize,
}

impl Feed {
    pub(super) fn new(source: Box<dyn Source>) -> Self {
        Self { source, batch: Vec::with_capacity(BATCH), at: 0 }
    }

    /// The next request of the batch.
    #[inline]
    pub(super) fn pop(&mut self) -> Option<Request> {
        let request = self.batch.get(self.at).copied()?;
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
        if self.at == self.batch.len() {
            self.refill()?;
        }
        Ok(match self.batch.get(self.at) {
            Some(next) if belongs(next) => self.pop(),
            _ => None,
        })
    }

    /// Reads the next batch; an empty one is the end.
    pub(super) fn refill(&mut self) -> Result<(), Error> {
        self.batch.clear();
        self.at = 0;
        self.source.fill(&mut self.batch, BATCH)
    }
}
