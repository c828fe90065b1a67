//! The files as the program sees them, and the list of all that it did to them.

use std::fs::File;
use std::io::{self, Read};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use crate::event::{Event, What};
use crate::tree::Tree;

/// Where what happens is written down, in the order in which it happened.
#[derive(Clone)]
pub struct Recorder(Arc<Mutex<State>>);

/// What a recorder holds.
pub struct State {
    /// The files now.
    pub tree: Tree,
    events: Vec<Event>,
    started: Instant,
    output: Option<File>,
    echo: bool,
    wants_reads: bool,
}

impl Recorder {
    /// Begins with these files. `wants_reads`: reads are written down too.
    #[must_use]
    pub fn new(tree: Tree, wants_reads: bool) -> Self {
        Self(Arc::new(Mutex::new(State {
            tree,
            events: Vec::new(),
            started: Instant::now(),
            output: None,
            echo: false,
            wants_reads,
        })))
    }

    /// The files and the list, for one call.
    pub fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From here on `output` is read: the program's standard output, which must not block. `echo`: what
    /// comes goes on to ours.
    pub(crate) fn listen(&self, output: File, echo: bool) {
        let mut state = self.lock();
        state.output = Some(output);
        state.echo = echo;
        state.started = Instant::now();
    }

    /// What was done, in order; the recorder has none of it any more.
    #[must_use]
    pub fn take(&self) -> Vec<Event> {
        std::mem::take(&mut self.lock().events)
    }
}

impl State {
    /// Does it, and writes it down.
    pub fn record(&mut self, what: What, process: u32) {
        self.hear();
        self.tree.apply(&what);
        if self.wants_reads || !matches!(what, What::Read { .. }) {
            self.push(what, process);
        }
    }

    /// What was done last.
    #[must_use]
    pub fn last(&self) -> Option<&What> {
        self.events.last().map(|event| &event.what)
    }

    /// The write that was written down last returned only when it was durable.
    pub fn make_last_durable(&mut self) {
        if let Some(Event { what: What::Write { durable, .. }, .. }) = self.events.last_mut() {
            *durable = true;
        }
    }

    fn push(&mut self, what: What, process: u32) {
        let at_ns = u64::try_from(self.started.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.events.push(Event { what, at_ns, process });
    }

    /// What the program has printed since the last look is older than what it does now.
    pub fn hear(&mut self) {
        let mut buffer = [0; 4096];
        while let Some(output) = &mut self.output {
            match output.read(&mut buffer) {
                Ok(0) => self.output = None,
                Ok(count) => {
                    if self.echo {
                        let _ = io::Write::write_all(&mut io::stdout(), &buffer[..count]);
                    }
                    self.push(What::Output(buffer[..count].into()), 0);
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(_) => break,
            }
        }
    }
}
