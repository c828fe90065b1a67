//! A request, whatever it comes from; what yields requests; what goes wrong on the way.

use std::path::PathBuf;

use nandle_io::Op;

/// One block request, as the host issued it: never split, never aligned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// When the host issued it, in nanoseconds since the first request of the trace.
    pub time_ns: u64,
    /// First byte.
    pub offset: u64,
    /// Length in bytes; 0 for a flush.
    pub bytes: u64,
    /// The object that the bytes belong to, 0 if unknown.
    pub object: u32,
    /// Host stream id or placement id, 0 if none.
    pub stream: u16,
    /// What is asked for.
    pub op: Op,
    /// Force unit access: durable before it completes.
    pub fua: bool,
}

/// What one user of several does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// It went on: gave further requests, or did something that others wait for.
    Requests,
    /// It has nothing to do until another user has gone on.
    Wait,
    /// It has nothing to do until so many nanoseconds after the phase began.
    Until(u64),
    /// It is done.
    End,
}

/// Yields requests in the order in which they are to be issued.
pub trait Source: Send {
    /// Appends at most `max` further requests to `out`; appending none means the end.
    ///
    /// # Errors
    /// When the input cannot be read or understood; the message names file, line and what was expected.
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error>;

    /// The next step of a user beside others ([`crate::synthetic::User`]), `now_ns` after the phase began.
    /// Appends its requests to `out`. Asked for only when all that it gave before has been issued, and
    /// flushes and FlashAlloc calls in that have completed. A source that depends on nobody just goes on.
    ///
    /// # Errors
    /// As [`Source::fill`].
    fn step(&mut self, _now_ns: u64, out: &mut Vec<Request>) -> Result<Turn, Error> {
        let before = out.len();
        self.fill(out, 1)?;
        let mut read = before;
        // The ranges of an object are one call: they stay together.
        while out.len() > read && out.last().is_some_and(|r| r.op == Op::FlashAlloc) {
            read = out.len();
            self.fill(out, 1)?;
        }
        Ok(if out.len() > before { Turn::Requests } else { Turn::End })
    }
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        (**self).fill(out, max)
    }
    fn step(&mut self, now_ns: u64, out: &mut Vec<Request>) -> Result<Turn, Error> {
        (**self).step(now_ns, out)
    }
}

/// Why requests cannot be had. Every message says what, where and what was expected.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("{path}: {source}")]
    Io {
        /// The file at fault.
        path: PathBuf,
        /// What the system said.
        source: std::io::Error,
    },
    /// A line or record of a trace or job file makes no sense.
    #[error("{path}:{line}: {what}")]
    Line {
        /// The file at fault.
        path: PathBuf,
        /// Line, or record for binary formats, counted from 1.
        line: u64,
        /// What was found and what was expected.
        what: String,
    },
    /// Anything else that the user asked for and cannot have.
    #[error("{0}")]
    Input(String),
}
