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

    /// The request `ahead` places behind the one that was popped last, as far as it is read.
    #[inline]
    pub(super) fn ahead(&self, ahead: usize) -> Option<&Request> {
        self.batch.get(self.at + ahead)
    }

    /// Reads the next batch; an empty one is the end.
    pub(super) fn refill(&mut self) -> Result<(), Error> {
        self.batch.clear();
        self.at = 0;
        self.source.fill(&mut self.batch, BATCH)
    }
}
