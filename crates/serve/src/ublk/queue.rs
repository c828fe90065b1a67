//! What goes on at one queue: requests to the drive, answers to the kernel.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use nandle_ublk::uapi::Descriptor;
use nandle_ublk::{Event, Queue};
use rustix::io::Errno;

use super::blk::{self, Asked};
use crate::gate::lock;
use crate::{Device, Fault, Io, Outcome};

/// The kernel's side of a queue.
pub trait Kernel {
    /// Tags are below.
    fn depth(&self) -> u16;
    /// The request that has come with a tag.
    fn descriptor(&self, tag: u16) -> Descriptor;
    /// The data of a request that writes.
    ///
    /// # Errors
    /// If the kernel does not give it.
    fn fetch(&self, tag: u16, bytes: usize) -> io::Result<Vec<u8>>;
    /// The data for a request that reads.
    ///
    /// # Errors
    /// If the kernel does not take it.
    fn give(&self, tag: u16, data: &[u8]) -> io::Result<()>;
    /// Answers a request: bytes, or an error number below zero.
    ///
    /// # Errors
    /// If nothing more can be answered.
    fn commit(&mut self, tag: u16, result: i32) -> io::Result<()>;
    /// Sends answers, waits for events, or until it is woken.
    ///
    /// # Errors
    /// If nothing more will come.
    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()>;
}

impl Kernel for Queue {
    fn depth(&self) -> u16 {
        self.depth()
    }
    fn descriptor(&self, tag: u16) -> Descriptor {
        self.descriptor(tag)
    }
    fn fetch(&self, tag: u16, bytes: usize) -> io::Result<Vec<u8>> {
        self.fetch(tag, bytes)
    }
    fn give(&self, tag: u16, data: &[u8]) -> io::Result<()> {
        self.give(tag, data)
    }
    fn commit(&mut self, tag: u16, result: i32) -> io::Result<()> {
        self.commit(tag, result)
    }
    fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
        self.wait(true, events)
    }
}

#[derive(Default)]
struct Waiting {
    answers: Vec<(u16, Outcome)>,
    /// The queue's thread waits for the kernel, and must be woken.
    asleep: bool,
}

/// Answers on their way to the queue's thread: the kernel takes them from no other.
struct Mailbox {
    waiting: Mutex<Waiting>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Mailbox {
    fn put(&self, tag: u16, outcome: Outcome) {
        let mut waiting = lock(&self.waiting);
        waiting.answers.push((tag, outcome));
        if std::mem::take(&mut waiting.asleep) {
            drop(waiting);
            (self.wake)();
        }
    }

    /// Takes what there is; if there is nothing, whoever puts something in wakes the caller.
    fn take_or_sleep(&self, answers: &mut Vec<(u16, Outcome)>) {
        let mut waiting = lock(&self.waiting);
        std::mem::swap(&mut waiting.answers, answers);
        waiting.asleep = answers.is_empty();
    }
}

/// A request at the drive: answered in any case, also by a drive that drops it.
struct Pending {
    mailbox: Arc<Mailbox>,
    tag: u16,
    answered: bool,
}

impl Pending {
    fn answer(mut self, outcome: Outcome) {
        self.answered = true;
        self.mailbox.put(self.tag, outcome);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answered {
            self.mailbox.put(self.tag, Err(Fault::Gone));
        }
    }
}

/// What is kept of a request until it is answered.
#[derive(Clone, Copy, Default)]
struct Open {
    /// Bytes that it takes, and that its answer is.
    bytes: u32,
    /// They are to be given to the kernel.
    reads: bool,
}

struct Conversation<'a, K> {
    kernel: &'a mut K,
    device: &'a Device,
    mailbox: Arc<Mailbox>,
    /// By tag.
    open: Vec<Open>,
    /// Bytes of all of them.
    under_way: u64,
    most_under_way: u64,
    /// Requests that wait for others to be answered, as all of them together would take too much memory.
    held: VecDeque<(u16, Asked)>,
}

/// Carries out what comes until the kernel says that nothing more will. Requests of more than `most_under_way`
/// bytes in all wait, but for one. `wake` ends the kernel's `wait`.
///
/// # Errors
/// If the kernel's side is broken.
pub fn serve<K: Kernel>(
    kernel: &mut K,
    device: &Device,
    most_under_way: u64,
    wake: impl Fn() + Send + Sync + 'static,
) -> io::Result<()> {
    let mailbox = Arc::new(Mailbox { waiting: Mutex::default(), wake: Box::new(wake) });
    let mut tags = kernel.depth();
    let open = vec![Open::default(); usize::from(tags)];
    let mut this =
        Conversation { kernel, device, mailbox, open, under_way: 0, most_under_way, held: VecDeque::new() };
    let (mut events, mut answers) = (vec![], vec![]);
    while tags > 0 {
        loop {
            this.mailbox.take_or_sleep(&mut answers);
            if answers.is_empty() {
                break;
            }
            for (tag, outcome) in answers.drain(..) {
                this.answer(tag, outcome)?;
            }
            this.submit_held()?;
        }
        this.kernel.wait(&mut events)?;
        for event in events.drain(..) {
            match event {
                Event::Over(_) => tags = tags.saturating_sub(1),
                Event::Request(tag) => {
                    this.held.push_back((tag, blk::request(&this.kernel.descriptor(tag))));
                    this.submit_held()?;
                }
            }
        }
    }
    Ok(())
}

impl<K: Kernel> Conversation<'_, K> {
    /// Hands over what there is room for, in the order in which it came.
    fn submit_held(&mut self) -> io::Result<()> {
        while let Some((_, asked)) = self.held.front()
            && (self.under_way == 0 || self.under_way + asked.weight() <= self.most_under_way)
            && let Some((tag, asked)) = self.held.pop_front()
        {
            self.submit(tag, asked)?;
        }
        Ok(())
    }

    fn submit(&mut self, tag: u16, asked: Asked) -> io::Result<()> {
        let bytes = asked.weight() as u32;
        let io = match asked {
            Asked::Do(io, _) => io,
            Asked::Store { offset, bytes, fua } => match self.kernel.fetch(tag, bytes as usize) {
                Ok(data) => Io::Write { offset, data, fua, stream: 0 },
                Err(_) => return self.kernel.commit(tag, -Errno::IO.raw_os_error()),
            },
            Asked::Refuse(why) => return self.kernel.commit(tag, -why.raw_os_error()),
        };
        self.open[usize::from(tag)] = Open { bytes, reads: matches!(io, Io::Read { .. }) };
        self.under_way += u64::from(bytes);
        let pending = Pending { mailbox: self.mailbox.clone(), tag, answered: false };
        self.device.submit(io, move |outcome| pending.answer(outcome));
        Ok(())
    }

    fn answer(&mut self, tag: u16, outcome: Outcome) -> io::Result<()> {
        let Open { bytes, reads } = std::mem::take(&mut self.open[usize::from(tag)]);
        self.under_way -= u64::from(bytes);
        let result = match outcome {
            // What is not given to the kernel would be what its memory held before.
            Ok(data) if reads && (data.len() != bytes as usize || self.kernel.give(tag, &data).is_err()) => {
                -Errno::IO.raw_os_error()
            }
            Ok(_) => bytes as i32,
            Err(fault) => -blk::errno(fault).raw_os_error(),
        };
        self.kernel.commit(tag, result)
    }
}
