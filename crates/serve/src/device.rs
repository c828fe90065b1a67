//! What a transport sees of the drive: a shape, and a queue that takes requests.

use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock};
use std::thread::Thread;
use std::time::Duration;

use crate::budget::{Account, Budget};
use crate::buffers::Buffers;
use crate::clients::{Arrival, Client, Due, Punctuality, Roll};
use crate::inbox::{Inbox, Line, Request};
use crate::live::snapshot::Snapshot;
use crate::order::{Answer, Order};
use crate::request::{Fault, Io, Job, Message, Outcome, Reply};
use crate::wink::{Talkers, Wink};
use crate::{Clock, Report, outbox};
use hdrhistogram::Histogram;
use nandle_lab::measure::Summary;
use nandle_ssd::Ssd;

/// Sizes that transports announce.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// Size of the device.
    pub bytes: u64,
    /// Smaller requests cost a read-modify-write of this many bytes.
    pub sector_bytes: u32,
    /// The flash page: smaller requests may cost a read-modify-write in the drive.
    pub page_bytes: u32,
    /// Requests that the drive works on at a time.
    pub queue_depth: u32,
}

/// Where the drive is while its own thread has nothing to do: whoever has a request then carries it out
/// at once, on its own thread, instead of waking the other.
#[derive(Default)]
pub(crate) struct Seat<T: ?Sized = dyn Carrier> {
    /// The drive's own thread.
    pub thread: OnceLock<Thread>,
    pub driver: Mutex<T>,
}

/// Who carries requests out on the thread that brings them.
pub(crate) trait Carrier: Send {
    /// Carries `job` out, as far as that goes: whether the drive's own thread must be woken. Gives it back if
    /// there is no drive here.
    fn take_over(&mut self, job: Job) -> Result<bool, Job>;
}

impl Seat {
    fn wake(&self) {
        if let Some(thread) = self.thread.get() {
            thread.unpark();
        }
    }
}

struct WakeOnPanic<'a>(&'a Seat);

impl Drop for WakeOnPanic<'_> {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.wake();
        }
    }
}

/// A handle to the drive, for transports; a clone is another handle of the same client.
#[derive(Clone)]
pub struct Device {
    line: Arc<Line>,
    seat: Arc<Seat>,
    budget: Arc<Budget>,
    shape: Shape,
    clock: Clock,
    roll: Arc<Roll>,
    client: Arc<Client>,
    buffers: Arc<Buffers>,
    talkers: Arc<Talkers>,
}

/// How long an answer is waited for before it is asked whether anybody still wants it.
const PATIENCE: Duration = Duration::from_millis(100);

impl Device {
    /// A handle to the drive that will take `seat`, and where its requests arrive.
    pub(crate) fn of(
        seat: Arc<Seat>,
        shape: Shape,
        roll: &Arc<Roll>,
        buffers: &Arc<Buffers>,
    ) -> (Self, Arc<Inbox>) {
        let inbox = Arc::default();
        let client = roll.enter("program", "");
        let clock = client.clock();
        let (line, roll, buffers) = (Line::new(&inbox), roll.clone(), buffers.clone());
        let (budget, talkers) = (Arc::default(), Arc::default());
        (Self { line, seat, budget, shape, clock, roll, client, buffers, talkers }, inbox)
    }

    /// A handle of another client, whose requests have turns of their own, and which comes by this transport and
    /// uses `what` of it.
    #[must_use]
    pub fn client(&self, transport: &'static str, what: &str) -> Self {
        let client = self.roll.enter(transport, what);
        Self { line: self.line.another(), client, ..self.clone() }
    }

    /// A buffer for the data of a write of so many bytes, in which anything may be.
    pub(crate) fn buffer(&self, bytes: usize) -> Vec<u8> {
        self.buffers.take(bytes)
    }

    /// Memory that is used again.
    pub(crate) fn buffers(&self) -> &Arc<Buffers> {
        &self.buffers
    }

    /// The client that this is a handle of.
    pub(crate) fn whose(&self) -> &Arc<Client> {
        &self.client
    }

    /// How its client's next message is waited for.
    pub(crate) fn wink(&self) -> Wink {
        Wink::new(self.talkers.clone())
    }

    /// The drive's time.
    #[must_use]
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// How the drive has kept up with its clients so far; that is known in real time alone.
    #[must_use]
    pub fn punctuality(&self) -> Punctuality {
        self.roll.punctuality()
    }

    /// How late answers were since this was asked for last.
    pub(crate) fn lateness_window(&self) -> Histogram<u64> {
        self.roll.window()
    }

    /// Puts a request into the queue.
    pub(crate) fn send(&self, request: Request) {
        match self.line.send(request) {
            Ok(()) => self.seat.wake(),
            Err(request) => request.reply()(Err(Fault::Gone), None),
        }
    }

    /// The account of a new client.
    pub(crate) fn account(&self) -> Arc<Account> {
        Account::new(&self.budget)
    }

    /// Sizes that transports announce.
    #[must_use]
    pub fn shape(&self) -> Shape {
        self.shape
    }

    /// Hands a request over, waiting while too many are on their way. `reply` is called once, on this or
    /// another thread, perhaps before this returns; it must not block.
    ///
    /// The answer has left when `reply` returns.
    pub fn submit(&self, io: Io, reply: impl FnOnce(Outcome) + Send + 'static) {
        let client = self.client.clone();
        let reply: Reply = Box::new(move |outcome, due| {
            reply(outcome);
            client.answered(due.as_slice(), false);
        });
        // A reply may submit the next request, so that this thread may have the seat already.
        self.carry_out(self.job(io, None, reply), self.seat.driver.try_lock().ok());
        // Requests of others may have been carried out on the way.
        outbox::flush();
    }

    /// The same for a transport that knows when the request came and when its answer has left, and sees to
    /// [`outbox::flush`] itself, so that answers leave together. `reply` must not submit anything.
    pub(crate) fn submit_corked(
        &self,
        io: Io,
        came: Option<Arrival>,
        reply: impl FnOnce(Outcome, Option<Due>) + Send + 'static,
    ) {
        // Where no answer is held back it costs less to wait for the seat than to wake the drive's thread: 4 KiB by 4
        // clients, 32 at a time each, are a seventh faster; writes of 128 KiB by one take a sixth less CPU.
        let waits = !self.client.is_timed();
        let job = self.job(io, came, Box::new(reply));
        let seat = &self.seat.driver;
        self.carry_out(job, if waits { seat.lock().ok() } else { seat.try_lock().ok() });
    }

    /// Carries a request out on this thread. If others have the `seat`, or panicked in it, the drive's own thread sees to
    /// it.
    fn carry_out(&self, mut job: Job, seat: Option<MutexGuard<'_, dyn Carrier + 'static>>) {
        if let Some(mut seat) = seat {
            // A bug of the model must end the server, not leave its own thread asleep.
            let panicked = WakeOnPanic(&self.seat);
            let taken = seat.take_over(job);
            drop((seat, panicked));
            match taken {
                Ok(true) => return self.seat.wake(),
                Ok(false) => return,
                Err(back) => job = back,
            }
        }
        self.send(Request::Job(job));
    }

    fn job(&self, io: Io, came: Option<Arrival>, reply: Reply) -> Job {
        let came = came.unwrap_or_else(|| {
            let now = self.clock.now();
            Arrival { earliest: now, by: now }
        });
        Job { came, client: self.client.clone(), io, reply }
    }

    /// FDP: these handles go on to their next reclaim unit. `reply` as of [`Self::submit`].
    pub(crate) fn next_units(
        &self,
        handles: Vec<u16>,
        reply: impl FnOnce(Outcome, Option<Due>) + Send + 'static,
    ) {
        self.send(Request::NextUnits(handles, Box::new(reply)));
    }

    /// Sends a message that the driver answers; none if it is gone, or if it did not answer and `wanted`
    /// is no longer true.
    fn ask<T>(&self, wanted: impl Fn() -> bool, message: impl FnOnce(Sender<T>) -> Message) -> Option<T> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.line.message(message(sender)).ok()?;
        self.seat.wake();
        Self::wait(wanted, &receiver)
    }

    fn wait<T>(wanted: impl Fn() -> bool, receiver: &Receiver<T>) -> Option<T> {
        loop {
            match receiver.recv_timeout(PATIENCE) {
                Ok(answer) => return Some(answer),
                Err(RecvTimeoutError::Timeout) if wanted() => {}
                Err(_) => return None,
            }
        }
    }

    /// What the drive has done so far; none if it is gone.
    #[must_use]
    pub fn report(&self) -> Option<Report> {
        self.ask(|| true, Message::Report)
    }

    /// Its counters, and the latencies since the last snapshot; none if it is gone. One asks: see
    /// [`crate::live::Monitor`]. It is waited for while `wanted` is true.
    pub(crate) fn snapshot(&self, wanted: impl Fn() -> bool) -> Option<Snapshot> {
        self.ask(wanted, Message::Snapshot)
    }

    /// What `look` sees of the drive, between two requests; it must not block. None if the drive is gone, or
    /// `wanted` no longer true.
    pub(crate) fn look<T: Send + 'static>(
        &self,
        wanted: impl Fn() -> bool,
        look: impl FnOnce(&Ssd) -> T + Send + 'static,
    ) -> Option<T> {
        let (sender, receiver) = std::sync::mpsc::channel();
        self.inspect(move |ssd| {
            let _ = sender.send(look(ssd));
        });
        Self::wait(wanted, &receiver)
    }

    /// Everything that the drive adds up to so far; none if it is gone. Takes the driver up to a
    /// millisecond.
    #[must_use]
    pub fn summary(&self) -> Option<Summary> {
        self.ask(|| true, Message::Summary).map(|summary| *summary)
    }

    /// Has the drive carry out an order of a control socket; none if it is gone.
    pub(crate) fn order(&self, order: Order) -> Option<Answer> {
        self.ask(|| true, |to| Message::Order(order, to))
    }

    /// Has `look` called on the driver's thread, between two requests; it must not block. If the drive
    /// is gone `look` is dropped.
    pub fn inspect(&self, look: impl FnOnce(&Ssd) + Send + 'static) {
        let mut look = Some(look);
        self.survey(move |ssd| {
            if let Some(look) = look.take() {
                look(ssd);
            }
            true
        });
    }

    /// The same, again and again until it says that it is over: requests are carried out between the slices.
    pub(crate) fn survey(&self, look: impl FnMut(&Ssd) -> bool + Send + 'static) {
        if self.line.look(Box::new(look)).is_ok() {
            self.seat.wake();
        }
    }

    /// Asks the drive to finish what it has, flush, and end. Returns at once.
    pub fn stop(&self) {
        self.line.close();
        self.seat.wake();
    }
}
