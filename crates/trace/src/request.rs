use std::path::PathBuf;

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Op {
    /// Return `bytes` from `offset`.
    Read,
    /// Store `bytes` at `offset`.
    Write,
    /// The host no longer needs `bytes` at `offset`.
    Trim,
    /// Everything acknowledged so far must survive a power cut.
    Flush,
    /// FlashAlloc's command: `bytes` at `offset` belong to `object` (FlashAlloc, section 3).
    FlashAlloc,
    /// End of the object's FlashAlloc instance.
    FlashFree,
}

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

/// Yields requests in the order in which they are to be issued.
pub trait Source: Send {
    /// Appends at most `max` further requests to `out`; appending none means the end.
    ///
    /// # Errors
    /// When the input cannot be read or understood; the message names file, line and what was expected.
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error>;
}

impl<S: Source + ?Sized> Source for Box<S> {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        (**self).fill(out, max)
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
