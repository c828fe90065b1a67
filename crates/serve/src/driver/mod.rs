//! The drive in real time: one thread that owns it.
//!
//! Requests are submitted at the time at which their first bytes were there, and answered when the
//! wall clock has passed their completion in the model: never before, and late by what
//! [`crate::clients`] says. While its thread sleeps, a request is carried out on the thread that brings it
//! (`Device::submit`), so that it waits for no other. Without real time the drive's clock, if it has one, runs
//! as fast as the model computes. Every event is carried out one by one and what it changed on flash is in the
//! image before anything that follows from it is answered.

mod faults;
mod options;
mod orders;
mod requests;
mod start;
mod task;
mod time;

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nandle_io::Completion;
use nandle_lab::config::SchemeNames;
use nandle_lab::measure::summary::{Summary, Trace};
use nandle_lab::measure::{Context, Meter, summarise};
use nandle_ssd::Ssd;
use nandle_ssd::nand::{Change, Time};
use nandle_trace::Writer;

use crate::buffers::Buffers;
use crate::clients::Roll;
use crate::device::{Carrier, Seat};
use crate::image::Image;
use crate::inbox::{Inbox, Request};
use crate::live::shadow::{self, Shadow};
use crate::live::snapshot::{Snapshot, Window};
use crate::lock::lock;
use crate::order::Kind;
use crate::outbox;
use crate::report::Health;
use crate::request::{Job, Message};
use crate::timing::Timing;
use crate::{Clock, Error, Fault, Report, Shape};

pub use options::{End, Ended, Options};
use task::Task;

/// Requests that wait for others that change the same sectors; further ones wait with their clients.
const BACKLOG: usize = 64;
/// Without real time, completions whose answers leave together.
const TOGETHER: u32 = 8;
/// How long the drive is looked at at a time, in nanoseconds, and since when it is not busy without a request.
const SLICE: Time = 50_000;
const BUSY: Time = 5_000_000;
/// The longest that the drive's thread waits awake: to sleep and to be woken up takes as long.
const WINK: Duration = Duration::from_micros(5);
/// Nanoseconds between looks at whether the image is still there.
const LOOK: Time = 100_000_000;

/// What comes after a turn.
enum Turn {
    /// There is more to do.
    Again,
    /// Nothing until this time, or until something comes.
    Sleep(Option<Time>),
    /// Nothing any more; whether the power was cut.
    Over(bool),
}

/// CPU time of the whole server so far, user and system, in seconds: transports and shadows included.
#[must_use]
pub fn cpu_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// The thread's state.
pub struct Driver {
    ssd: Ssd,
    clock: Clock,
    timing: Timing,
    inbox: Arc<Inbox>,
    seat: Arc<Seat<Option<Self>>>,
    /// Until when the drive's own thread sleeps, unless it is woken: [`Time::MAX`] = for good. None while it
    /// is awake.
    asleep_until: Option<Time>,
    /// What went wrong on another thread.
    failed: Option<Error>,
    shape: Shape,
    image: Option<Image>,
    health: Health,
    /// When it was last seen that the image is where it should be.
    looked: Time,
    changes: Vec<Change>,
    meter: Meter,
    /// Whom it serves.
    roll: Arc<Roll>,
    /// Where data go that the drive has taken.
    buffers: Arc<Buffers>,
    /// Latencies since the last snapshot, once there was one.
    window: Option<Box<Window>>,
    scheme: SchemeNames,
    seed: u64,
    feeds: Vec<shadow::Feed>,
    shadows: Vec<shadow::Running>,
    record: Option<Writer>,
    cut_after: Option<u64>,
    submitted: u64,
    tasks: HashMap<u64, Task>,
    next_task: u64,
    /// Tasks whose next step waits for a place in the drive, oldest first.
    ready: VecDeque<u64>,
    /// Tasks that wait for others that change the same sectors, oldest first.
    held: Vec<u64>,
    /// Merges under way: while there are none, nothing is compared.
    merges: u32,
    done: Vec<Completion>,
    /// When the last request came, and when the drive may be looked at again.
    last_job: Time,
    next_look: Time,
    /// When the last flush of all was submitted, which is nobody's.
    closing: Time,
    faults: faults::Faults,
}

impl Driver {
    /// The shadows, in the order in which they were asked for.
    #[must_use]
    pub fn shadows(&self) -> Vec<Shadow> {
        self.shadows.iter().map(|running| running.shadow.clone()).collect()
    }

    /// Serves until asked to stop, or until the power is cut on purpose. Blocks.
    ///
    /// # Errors
    /// If the image or the trace can no longer be written, or the drive is stuck.
    pub fn run(self) -> Result<Ended, Error> {
        // The kernel may delay a sleeper by this much; without the right to change it, answers are later.
        let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
        let (seat, clock) = (self.seat.clone(), self.clock);
        let real = self.timing == Timing::Real;
        let _ = seat.thread.set(std::thread::current());
        *lock(&seat.driver) = Some(self);
        let mut turns = 0_u32;
        let (mut this, result) = loop {
            let mut guard = seat.driver.lock().expect("nobody panicked while carrying a request out");
            let turn = match guard.as_mut() {
                Some(driver) => driver.turn(),
                None => unreachable!("only this thread takes the drive away"),
            };
            let result = match turn {
                Ok(Turn::Again) => {
                    drop(guard);
                    // In real time answers are due, and so is what follows; else a few may leave together.
                    turns += 1;
                    if real {
                        outbox::flush_little();
                    } else if turns.is_multiple_of(TOGETHER) {
                        outbox::flush();
                    }
                    continue;
                }
                Ok(Turn::Sleep(at)) => {
                    drop(guard);
                    outbox::flush();
                    match at.map(|at| clock.lasts(at.saturating_sub(clock.now()))) {
                        Some(left) if left <= WINK => {
                            let until = Instant::now() + left;
                            while Instant::now() < until {
                                std::hint::spin_loop();
                            }
                        }
                        Some(left) => std::thread::park_timeout(left),
                        None => std::thread::park(),
                    }
                    continue;
                }
                Ok(Turn::Over(cut)) => Ok(cut),
                Err(e) => Err(e),
            };
            match guard.take() {
                Some(this) => break (this, result),
                None => unreachable!("it was there a moment ago"),
            }
        };
        if result.is_err() {
            for (_, task) in this.tasks.drain() {
                (task.reply)(Err(Fault::Image), None);
            }
        }
        // From here on every request is refused, also those that wait in the queue.
        for request in this.inbox.end() {
            request.reply()(Err(Fault::Gone), None);
        }
        outbox::flush();
        this.finish(result)
    }

    fn finish(mut self, result: Result<bool, Error>) -> Result<Ended, Error> {
        let end = result?;
        self.look_after_image(true);
        self.meter.finish(&self.ssd);
        self.meter.users = self.roll.users();
        let report = self.report();
        let lost = self.ssd.outstanding();
        let ssd = if end {
            let mut array = self.ssd.cut_power().0;
            array.take_changes(&mut self.changes);
            if let Some(image) = &mut self.image {
                image.follow(&array, &self.changes)?;
            }
            None
        } else {
            Some(self.ssd)
        };
        if let Some(image) = self.image {
            image.close()?;
        }
        if let Some(gone) = self.health.gone {
            return Err(Error::Gone(gone));
        }
        if let Some(record) = self.record {
            record.finish()?;
        }
        drop(self.feeds);
        let shadows = self.shadows.into_iter().map(shadow::Running::finish).collect();
        let end = if end { End::PowerCut { lost } } else { End::Stopped };
        Ok(Ended { end, report, meter: self.meter, ssd, shadows })
    }

    fn report(&self) -> Report {
        let real = self.timing == Timing::Real;
        Report::of(&self.ssd, &self.meter, self.timing, real.then(|| self.roll.punctuality()))
    }

    fn summary(&mut self) -> Summary {
        self.meter.users = self.roll.users();
        let commands: u64 = self.meter.latency.iter().map(|kind| kind.requests).sum();
        let context = Context {
            workload: "served".into(),
            scheme: self.scheme.clone(),
            seed: self.seed,
            cpu_s: cpu_s(),
            trace: Trace { submitted: commands, completed: commands, ..Trace::default() },
            ..Context::default()
        };
        summarise(&self.ssd, &self.meter, context)
    }

    fn snapshot(&mut self) -> Snapshot {
        self.look_after_image(true);
        let waiting = self.ready.len() + self.held.len() + self.inbox.len();
        let mut snapshot = Snapshot::of(&self.ssd, &self.meter, waiting);
        snapshot.image = self.image.is_some().then(|| self.health.clone());
        snapshot.wall_ns = self.clock.now();
        snapshot.window = self.window.replace(Box::default());
        snapshot
    }

    /// What can be done now.
    fn turn(&mut self) -> Result<Turn, Error> {
        self.asleep_until = None;
        if let Some(error) = self.failed.take() {
            return Err(error);
        }
        if self.inbox.is_closed() {
            self.ready.extend(self.faults.release_all(&Kind::ALL));
            self.submit_ready()?;
        }
        self.take_round()?;
        self.look();
        if self.is_cut() {
            return Ok(Turn::Over(true));
        }
        if self.is_over() {
            self.shut_down()?;
            return Ok(Turn::Over(false));
        }
        match self.timing {
            Timing::Real => self.advance(self.clock.now())?,
            _ if !self.tasks.is_empty() => self.run_until_something_completes()?,
            _ => {}
        }
        if self.is_cut() {
            return Ok(Turn::Over(true));
        }
        Ok(self.rest())
    }

    /// Whether to sleep, and until when.
    fn rest(&mut self) -> Turn {
        if self.others_wait() && (self.takes_more() || self.inbox.asks()) || self.is_over() {
            return Turn::Again;
        }
        let event = match (self.timing, self.next_event()) {
            (Timing::Real, at) => at,
            _ if !self.tasks.is_empty() => return Turn::Again,
            _ => None,
        };
        let look = (!self.inbox.is_empty() && self.inbox.looks()).then_some(self.next_look);
        let until = event.into_iter().chain(look).min();
        if until.is_some_and(|at| at <= self.clock.now()) {
            return Turn::Again;
        }
        self.asleep_until = Some(until.unwrap_or(Time::MAX));
        Turn::Sleep(until)
    }

    /// Carries a request out on the thread that has it, as far as that goes. Whether the drive's own thread
    /// must be woken. Gives it back if it has to wait for its turn.
    fn take_over(&mut self, job: Job) -> Result<bool, Job> {
        if self.failed.is_some() || self.is_cut() || self.inbox.is_closed() {
            (job.reply)(Err(Fault::Gone), None);
            return Ok(true);
        }
        // Whoever waits goes first.
        let mut result = self.take_round();
        if result.is_ok() {
            if self.others_wait() || !self.takes_more() {
                return Err(job);
            }
            result = self.carry_out(job);
        } else {
            (job.reply)(Err(Fault::Gone), None);
        }
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
        if self.failed.is_some() || self.is_cut() || self.is_over() || self.others_wait() {
            return Ok(true);
        }
        let next = match self.timing {
            Timing::Real => self.next_event(),
            _ if !self.tasks.is_empty() => return Ok(true),
            _ => None,
        };
        // Nobody sets an alarm for a thread that is awake: it will look itself.
        Ok(match (self.asleep_until, next) {
            (Some(until), Some(next)) if next < until => {
                self.asleep_until = Some(next);
                true
            }
            _ => false,
        })
    }

    fn carry_out(&mut self, job: Job) -> Result<(), Error> {
        let number = self.next_task;
        self.job(job, false)?;
        // No longer than this one takes: whoever brings requests has a client of its own to hear.
        while self.timing != Timing::Real && self.tasks.contains_key(&number) && !self.is_cut() {
            self.run_until_something_completes()?;
        }
        Ok(())
    }

    /// Whether everything is done, and nothing more will come.
    fn is_over(&self) -> bool {
        self.tasks.is_empty() && self.inbox.is_over()
    }

    fn is_cut(&self) -> bool {
        self.cut_after.is_some_and(|after| self.submitted >= after)
    }

    /// Whether the drive has a place for a further request: until then it waits with its client's others, so
    /// that the next place is that of the client whose turn it is.
    fn takes_more(&self) -> bool {
        self.ready.is_empty() && self.held.len() < BACKLOG && self.ssd.accepts()
    }

    /// Whether something waits that is no look.
    fn others_wait(&self) -> bool {
        !self.inbox.is_empty() && (self.inbox.asks() || self.inbox.clients() > 0)
    }

    /// A round: what is asked of the driver, and a turn of each client.
    fn take_round(&mut self) -> Result<(), Error> {
        if self.inbox.is_empty() {
            return Ok(());
        }
        while let Some(message) = self.inbox.next_message() {
            self.answer(message)?;
        }
        let mut turns = self.inbox.clients();
        while turns > 0
            && self.takes_more()
            && !self.is_cut()
            && let Some((request, over)) = self.inbox.next_request(Time::MAX)
        {
            turns -= usize::from(over);
            self.request(request, false)?;
        }
        Ok(())
    }

    /// A slice of what somebody wants to see. While requests come, the drive is looked at half of the time at most.
    fn look(&mut self) {
        let began = self.clock.now();
        if self.inbox.is_empty() || began < self.next_look {
            return;
        }
        let Some((client, mut look)) = self.inbox.next_look() else { return };
        let mut over = look(&self.ssd);
        let mut now = self.clock.now();
        while !over && now - began < SLICE {
            over = look(&self.ssd);
            now = self.clock.now();
        }
        self.inbox.looked(client, (!over).then_some(look));
        let busy = now.saturating_sub(self.last_job) < BUSY;
        self.next_look = if busy { now + (now - began) } else { now };
    }

    fn answer(&mut self, message: Message) -> Result<(), Error> {
        match message {
            Message::Report(to) => {
                let _ = to.send(self.report());
            }
            Message::Snapshot(to) => {
                let _ = to.send(self.snapshot());
            }
            Message::Summary(to) => {
                let _ = to.send(Box::new(self.summary()));
            }
            Message::Order(order, to) => {
                let _ = to.send(self.order(order));
                // Those that were kept and no longer are.
                self.submit_ready()?;
            }
        }
        Ok(())
    }

    /// Carries out what came; a request that `waited` did so for a place in the drive.
    fn request(&mut self, request: Request, waited: bool) -> Result<(), Error> {
        match request {
            Request::Job(job) => self.job(job, waited)?,
            Request::NextUnits(handles, reply) => {
                for handle in handles {
                    self.ssd.next_unit(handle);
                    self.feeds.iter().for_each(|feed| feed.next_unit(handle));
                }
                reply(Ok(Vec::new()), None);
            }
        }
        Ok(())
    }

    /// Whether the image is still where it should be. What is written to one that is not outlives nothing.
    fn look_after_image(&mut self, now: bool) {
        let Some(image) = &self.image else { return };
        let at = self.clock.now();
        if self.health.gone.is_some() || !now && at < self.looked + LOOK {
            return;
        }
        self.looked = at;
        self.health.gone = image.is_gone();
        if let Some(what) = &self.health.gone {
            eprintln!(
                "nandle: {what}; until this process ends, what there was of it is among the files in /proc/{}/fd",
                std::process::id()
            );
        }
    }
}

impl Carrier for Option<Driver> {
    fn take_over(&mut self, job: Job) -> Result<bool, Job> {
        match self {
            Some(driver) => driver.take_over(job),
            None => Err(job),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Arrival;
    use crate::listen::Stream;
    use crate::outbox::{Outbox, Pending};
    use crate::{Io, Outcome};
    use nandle_lab::config::Wanted;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn a_reply_may_submit_the_next_request() {
        let drive = Wanted { device: "demo-page", ..Wanted::default() }.load().expect("a drive");
        let options = Options { timing: Timing::Off, ..Options::default() };
        let (driver, device) = Driver::start(&drive, None, &options).expect("it starts");
        let (done, all) = std::sync::mpsc::channel();
        let again = device.clone();
        std::thread::spawn(move || {
            device.submit(Io::write(0, vec![7; 4096]), move |_| {
                again.clone().submit(Io::read(0, 4096), move |outcome| {
                    done.send(outcome).expect("somebody waits");
                    again.stop();
                });
            });
        });
        let served = std::thread::spawn(|| driver.run().map(|ended| ended.report));
        let outcome = all.recv_timeout(Duration::from_secs(60)).expect("an answer in time");
        assert_eq!(outcome, Ok(vec![7; 4096]));
        assert!(served.join().expect("no panic").is_ok());
    }

    #[test]
    fn whoever_carries_out_a_request_of_another_sends_its_answer() {
        let drive = Wanted { device: "demo-page", ..Wanted::default() }.load().expect("a drive");
        let options = Options { timing: Timing::Off, ..Options::default() };
        let (driver, device) = Driver::start(&drive, None, &options).expect("it starts");
        // The drive's own thread sleeps for good.
        let seat = driver.seat.clone();
        *lock(&seat.driver) = Some(driver);
        let (mine, mut theirs) = UnixStream::pair().expect("a pair");
        let outbox = Outbox::new(
            &Arc::new(Stream::Unix(mine)),
            Arc::default(),
            device.whose().clone(),
            device.buffers(),
        );
        let pending = Pending::new(&outbox, 0);
        let reply = Box::new(move |outcome: Outcome, due| {
            pending.answer([vec![1], outcome.expect("zeros")], due);
        });
        let io = Io::read(0, 7);
        let came = Arrival { earliest: 0, by: 0 };
        device.send(Request::Job(Job { came, client: device.whose().clone(), io, reply }));
        std::thread::scope(|scope| {
            scope.spawn(|| device.submit(Io::flush(), |outcome| assert_eq!(outcome, Ok(vec![]))));
        });
        theirs.set_nonblocking(true).expect("set");
        let mut answer = [9; 9];
        assert_eq!(theirs.read(&mut answer).expect("an answer"), 8);
        assert_eq!(answer, [1, 0, 0, 0, 0, 0, 0, 0, 9]);
    }
}
