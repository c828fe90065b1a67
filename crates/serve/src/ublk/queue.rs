//! What goes on at one queue: requests to the drive, answers to the kernel.

use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};

use nandle_io::Op;
use nandle_ublk::uapi::Descriptor;
use nandle_ublk::{Event, Queue};
use rustix::io::Errno;

use super::blk::{self, Asked};
use crate::clients::Due;
use crate::lock::lock;
use crate::{Device, Fault, Io, Outcome, outbox};

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

/// A tag, its outcome, and when that should be there.
type Answer = (u16, Outcome, Option<Due>);

#[derive(Default)]
struct Waiting {
    answers: Vec<Answer>,
    /// The queue's thread waits for the kernel, and must be woken.
    asleep: bool,
}

/// Answers on their way to the queue's thread: the kernel takes them from no other.
struct Mailbox {
    waiting: Mutex<Waiting>,
    wake: Box<dyn Fn() + Send + Sync>,
}

impl Mailbox {
    fn put(&self, tag: u16, outcome: Outcome, due: Option<Due>) {
        let mut waiting = lock(&self.waiting);
        waiting.answers.push((tag, outcome, due));
        if std::mem::take(&mut waiting.asleep) {
            drop(waiting);
            (self.wake)();
        }
    }

    /// Takes what there is; if there is nothing, whoever puts something in wakes the caller.
    fn take_or_sleep(&self, answers: &mut Vec<Answer>) {
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
    fn answer(mut self, outcome: Outcome, due: Option<Due>) {
        self.answered = true;
        self.mailbox.put(self.tag, outcome, due);
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if !self.answered {
            self.mailbox.put(self.tag, Err(Fault::Gone), None);
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
            for (tag, outcome, due) in answers.drain(..) {
                this.answer(tag, outcome)?;
                device.whose().answered(due.as_slice(), false);
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
                Ok(data) => Io::write(offset, data).fua(fua),
                Err(_) => return self.kernel.commit(tag, -Errno::IO.raw_os_error()),
            },
            Asked::Refuse(why) => return self.kernel.commit(tag, -why.raw_os_error()),
        };
        self.open[usize::from(tag)] = Open { bytes, reads: io.op == Op::Read };
        self.under_way += u64::from(bytes);
        let pending = Pending { mailbox: self.mailbox.clone(), tag, answered: false };
        self.device.submit_corked(io, None, move |outcome, due| pending.answer(outcome, due));
        outbox::flush();
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Driver, Options, Timing};
    use nandle_lab::config::Wanted;
    use nandle_random::Stream;
    use nandle_ublk::uapi::{io_flag, io_op};
    use std::cell::{Cell, RefCell};
    use std::sync::mpsc::{Receiver, Sender, channel};
    use std::time::Duration;

    const TAGS: u16 = 8;
    /// Each tag has a region of its own, so that what is there is known whatever the order.
    const REGION: usize = 3 << 20;

    /// What a request must be answered.
    enum Expected {
        Bytes(u32),
        Read,
        Errno(Errno),
    }

    /// A kernel that asks for random things and knows the answers.
    struct Fake {
        draw: Stream,
        woken: Receiver<()>,
        left: u32,
        /// Let the drive go when so many are left.
        ends: Option<(u32, Device)>,
        gone: bool,
        disk: Vec<u8>,
        open: Vec<Option<(Descriptor, Expected)>>,
        over: Vec<bool>,
        given: RefCell<Vec<Vec<u8>>>,
        /// Bytes fetched for requests that are not answered yet, and the most there ever were.
        fetched: Cell<u64>,
        most: Cell<u64>,
        refused: u32,
    }

    fn pattern(tag: u16, start: u64, bytes: usize) -> Vec<u8> {
        (0..bytes).map(|n| (n as u64 / 512 + start * 7 + u64::from(tag)) as u8 | 1).collect()
    }

    fn bytes_of(from: &Descriptor) -> usize {
        from.nr_sectors as usize * 512
    }

    impl Fake {
        fn new(seed: u64, requests: u32) -> (Self, Sender<()>) {
            let (wake, woken) = channel();
            let fake = Self {
                draw: Stream::new(seed, "fake kernel"),
                woken,
                left: requests,
                ends: None,
                gone: false,
                disk: vec![0; REGION * usize::from(TAGS)],
                open: (0..TAGS).map(|_| None).collect(),
                over: vec![false; usize::from(TAGS)],
                given: RefCell::new(vec![vec![]; usize::from(TAGS)]),
                fetched: Cell::new(0),
                most: Cell::new(0),
                refused: 0,
            };
            (fake, wake)
        }

        fn range(from: &Descriptor) -> std::ops::Range<usize> {
            let at = from.start_sector as usize * 512;
            at..at + bytes_of(from)
        }

        fn invent(&mut self, tag: u16) -> (Descriptor, Expected) {
            let longest = if self.draw.below(8) == 0 { 2048 } else { 40 };
            let sectors = 1 + self.draw.below(longest);
            let first = u64::from(tag) * REGION as u64 / 512;
            let start_sector = first + self.draw.below(REGION as u64 / 512 - sectors + 1);
            let mut ask = Descriptor { op_flags: 0, nr_sectors: sectors as u32, start_sector };
            let bytes = bytes_of(&ask) as u32;
            let range = Self::range(&ask);
            // What the drive keeps of its own sectors is not the sum of these; within one it changes nothing else.
            let inward = range.start.next_multiple_of(4096)..range.end / 4096 * 4096;
            let (op, expected) = match self.draw.below(10) {
                0..3 => (u32::from(io_op::READ), Expected::Read),
                3..6 => (u32::from(io_op::WRITE), Expected::Bytes(bytes)),
                6 => (u32::from(io_op::WRITE) | io_flag::FUA, Expected::Bytes(bytes)),
                7 => (u32::from(io_op::DISCARD), Expected::Bytes(0)),
                8 => (u32::from(io_op::WRITE_ZEROES), Expected::Bytes(0)),
                _ => match self.draw.below(5) {
                    0 => (u32::from(io_op::FLUSH), Expected::Bytes(0)),
                    1 => (77, Expected::Errno(Errno::OPNOTSUPP)),
                    2 => {
                        ask.start_sector = u64::MAX >> (9 + self.draw.below(20));
                        (u32::from(io_op::WRITE), Expected::Errno(Errno::INVAL))
                    }
                    3 => {
                        ask.nr_sectors = 2049 + self.draw.below(1 << 31) as u32;
                        (u32::from(io_op::READ), Expected::Errno(Errno::INVAL))
                    }
                    _ => {
                        ask.start_sector = u64::MAX - self.draw.below(9);
                        (u32::from(io_op::DISCARD), Expected::Errno(Errno::INVAL))
                    }
                },
            };
            ask.op_flags = op | (self.draw.below(8) as u32) << 8;
            if let Expected::Bytes(_) = expected {
                match ask.op() {
                    io_op::WRITE => {
                        self.disk[range].copy_from_slice(&pattern(tag, start_sector, bytes as usize));
                    }
                    io_op::DISCARD if inward.start < inward.end => self.disk[inward].fill(0),
                    io_op::WRITE_ZEROES => self.disk[range].fill(0),
                    _ => {}
                }
            }
            (ask, expected)
        }
    }

    impl Kernel for Fake {
        fn depth(&self) -> u16 {
            TAGS
        }

        fn descriptor(&self, tag: u16) -> Descriptor {
            self.open[usize::from(tag)].as_ref().expect("a request that came").0
        }

        fn fetch(&self, tag: u16, bytes: usize) -> io::Result<Vec<u8>> {
            let ask = self.descriptor(tag);
            assert_eq!((ask.op(), bytes_of(&ask)), (io_op::WRITE, bytes));
            self.fetched.set(self.fetched.get() + bytes as u64);
            self.most.set(self.most.get().max(self.fetched.get()));
            Ok(pattern(tag, ask.start_sector, bytes))
        }

        fn give(&self, tag: u16, data: &[u8]) -> io::Result<()> {
            self.given.borrow_mut()[usize::from(tag)] = data.to_vec();
            Ok(())
        }

        fn commit(&mut self, tag: u16, result: i32) -> io::Result<()> {
            let (ask, expected) = self.open[usize::from(tag)].take().expect("one answer for a request");
            let given = std::mem::take(&mut self.given.borrow_mut()[usize::from(tag)]);
            match expected {
                Expected::Bytes(bytes) => assert_eq!(result, bytes as i32, "{ask:?}"),
                Expected::Read => {
                    assert_eq!(result as usize, given.len(), "{ask:?}");
                    assert!(given == self.disk[Self::range(&ask)], "{ask:?}");
                }
                Expected::Errno(why) => assert_eq!(result, -why.raw_os_error(), "{ask:?}"),
            }
            if matches!(blk::request(&ask), Asked::Store { .. }) {
                self.fetched.set(self.fetched.get() - bytes_of(&ask) as u64);
            }
            Ok(())
        }

        fn wait(&mut self, events: &mut Vec<Event>) -> io::Result<()> {
            if let Some((at, device)) = &self.ends
                && self.left <= *at
            {
                device.stop();
                self.gone = true;
                self.ends = None;
            }
            for tag in 0..TAGS {
                if self.open[usize::from(tag)].is_some() || self.over[usize::from(tag)] {
                    continue;
                }
                if self.left == 0 {
                    self.over[usize::from(tag)] = true;
                    events.push(Event::Over(tag));
                    continue;
                }
                self.left -= 1;
                let (ask, mut expected) = self.invent(tag);
                if self.gone && !matches!(blk::request(&ask), Asked::Refuse(_)) {
                    expected = Expected::Errno(Errno::IO);
                    self.refused += 1;
                }
                self.open[usize::from(tag)] = Some((ask, expected));
                events.push(Event::Request(tag));
            }
            if events.is_empty() {
                self.woken.recv_timeout(Duration::from_secs(60)).expect("somebody wakes it");
            }
            while self.woken.try_recv().is_ok() {}
            Ok(())
        }
    }

    fn talk(fake: &mut Fake, wake: Sender<()>, timing: Timing, most_under_way: u64, ends_at: Option<u32>) {
        let drive = Wanted { device: "demo-page", ..Wanted::default() }.load().expect("a drive");
        let options = Options { timing, ..Options::default() };
        let (driver, device) = Driver::start(&drive, None, &options).expect("it starts");
        fake.ends = ends_at.map(|at| (at, device.clone()));
        let running = std::thread::spawn(move || driver.run());
        let wake = move || {
            let _ = wake.send(());
        };
        serve(fake, &device, most_under_way, wake).expect("the end");
        device.stop();
        running.join().expect("no panic").expect("it ends");
        assert!(fake.open.iter().all(Option::is_none) && fake.over.iter().all(|&over| over));
    }

    #[test]
    fn the_kernel_gets_what_it_asks_for() {
        for (timing, requests, most) in [(Timing::Off, 6000, 64 << 20), (Timing::Real, 1500, 512 << 10)] {
            let (mut fake, wake) = Fake::new(requests.into(), requests);
            talk(&mut fake, wake, timing, most, None);
            assert!(fake.most.get() > 0 && fake.most.get() <= most.max(1 << 20), "{} bytes", fake.most.get());
        }
    }

    #[test]
    fn a_drive_that_goes_leaves_nobody_without_an_answer() {
        let (mut fake, wake) = Fake::new(3, 2000);
        talk(&mut fake, wake, Timing::Real, 64 << 20, Some(1500));
        assert!(fake.refused > 1000, "{} refused", fake.refused);
    }
}
