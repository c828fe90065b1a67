//! The drive in real time: one thread that owns it.
//!
//! Requests are submitted at the time at which their transport had them whole, and answered when the
//! wall clock has passed their completion in the model: never before, and late by what
//! [`Lateness`] says. While its thread sleeps, a request is carried out on the thread that brings it
//! (`Device::submit`), so that it waits for no other. With timing off the drive's clock runs as fast as
//! the model computes. Every event is carried out one by one and what it changed on flash is in the
//! image before anything that follows from it is answered.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use nandle_io::{Command, Completion, Op, Status};
use nandle_lab::config::Drive;
use nandle_lab::measure::summary::{Summary, Trace};
use nandle_lab::measure::{Context, Meter, summarise};
use nandle_ssd::Ssd;
use nandle_ssd::nand::{Change, Silicon, Time};
use nandle_trace::{Format, Request as Traced, Writer};

use crate::device::{Carrier, Seat};
use crate::image::Image;
use crate::inbox::{Inbox, Request};
use crate::live::shadow::{self, Shadow};
use crate::live::snapshot::{Snapshot, Window};
use crate::lock::lock;
use crate::outbox;
use crate::plan::{self, Step, Then};
use crate::request::{Job, Message, Reply};
use crate::{Clock, Device, Error, Fault, Lateness, Report, Shape};

/// Requests that wait for others that change the same sectors; further ones wait with their clients.
const BACKLOG: usize = 64;
/// Events without a completion after which the drive is taken to be stuck.
const PATIENCE: u64 = 1 << 28;
/// With timing off, completions whose answers leave together.
const TOGETHER: u32 = 8;
/// How long the drive is looked at at a time, in nanoseconds, and since when it is not busy without a request.
const SLICE: Time = 50_000;
const BUSY: Time = 5_000_000;
/// Zeros that are programmed go to the drive in writes of this size.
const ZEROS: u64 = 1 << 20;

/// Memory that a drive may take before its first request.
const MOST_FILLED: u64 = 16 << 30;

/// When answers are given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Timing {
    /// At the modelled time.
    #[default]
    Real,
    /// As soon as the model is done.
    Off,
}

/// CPU time of the whole server so far, user and system, in seconds: transports and shadows included.
#[must_use]
pub fn cpu_s() -> f64 {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    t.tv_sec as f64 + t.tv_nsec as f64 / 1e9
}

/// How a drive is served.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// When answers are given.
    pub timing: Timing,
    /// Seed of every random choice of the drive.
    pub seed: u64,
    /// Cut the power once so many commands have been submitted.
    pub power_cut_after: Option<u64>,
    /// Write the commands as a trace, with the drive's time.
    pub record: Option<PathBuf>,
    /// Drives that do the same in simulation ([`crate::live::shadow`]).
    pub shadows: Vec<Drive>,
}

/// How serving came to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Asked to: everything was answered and flushed.
    Stopped,
    /// The power was cut on purpose, with so many commands under way.
    PowerCut {
        /// Commands that were never answered.
        lost: u32,
    },
}

/// What is left when serving has ended.
pub struct Ended {
    /// How.
    pub end: End,
    /// What was done.
    pub report: Report,
    /// What was counted.
    pub meter: Meter,
    /// The drive; none after a power cut.
    pub ssd: Option<Ssd>,
    /// The shadows, each with all that it was sent done.
    pub shadows: Vec<Shadow>,
}

/// A request under way.
struct Task {
    reply: Reply,
    steps: VecDeque<Step>,
    /// What becomes of the present command's answer.
    then: Then,
    answer: Vec<u8>,
    /// Since when the present command's latency counts.
    since: Time,
    op: Op,
    bytes: u64,
    /// The sectors that the present step changes.
    changes: Option<Changes>,
}

#[derive(Clone, Copy)]
struct Changes {
    from: u64,
    to: u64,
    /// As a read-modify-write: nothing else may change them meanwhile.
    merge: bool,
}

/// What comes after a turn.
enum Turn {
    /// There is more to do.
    Again,
    /// Nothing until this time, or until something comes.
    Sleep(Option<Time>),
    /// Nothing any more; whether the power was cut.
    Over(bool),
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
    changes: Vec<Change>,
    meter: Meter,
    lateness: Lateness,
    /// Latencies since the last snapshot, once there was one.
    window: Option<Box<Window>>,
    scheme: String,
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
}

impl Driver {
    /// Switches a drive on: a new one, or the one in `image`. Its clock starts.
    ///
    /// # Errors
    /// If the configuration does not stand, or image or trace cannot be written.
    pub fn start(
        drive: &Drive,
        image: Option<crate::image::Opened>,
        options: &Options,
    ) -> Result<(Self, Device), Error> {
        let config = &drive.config;
        if config.precondition.age_with.is_some() {
            return Err(Error::input(
                "precondition.age_with is not carried out when serving: expected a device without it \
                 (precondition.used and precondition.valid are possible)",
            ));
        }
        if config.recovery.plp && image.is_some() {
            return Err(Error::input(
                "recovery.plp = true: when the process is killed no capacitor empties its buffer; expected false \
                 with an image",
            ));
        }
        let filled = (config.precondition.used * config.geometry.raw_bytes() as f64) as u64;
        if filled > MOST_FILLED {
            return Err(Error::input(format!(
                "precondition.used = {}: {} of contents would be kept in memory; expected at most {}, or a smaller \
                 device",
                config.precondition.used,
                nandle_lab::units::bytes(filled),
                nandle_lab::units::bytes(MOST_FILLED)
            )));
        }
        let stands = |e: nandle_ssd::ConfigError| Error::input(e.to_string());
        let (mut ssd, mut image) = match image {
            Some(crate::image::Opened { image, array: Some(array) }) => {
                let mut ssd = Ssd::power_on(config, Silicon(*array), options.seed).map_err(stands)?;
                drive.complete(&mut ssd);
                (ssd, Some(image))
            }
            other => {
                let unit = config.geometry.sector_bytes as usize;
                let mut ssd = Ssd::new(config, unit, options.seed).map_err(stands)?;
                drive.complete(&mut ssd);
                ssd.keep_changes();
                let image = match other {
                    Some(opened) => Some(opened.image.filled(drive, options.seed, ssd.flash().array())?),
                    None => None,
                };
                (ssd, image)
            }
        };
        let mut changes = Vec::new();
        ssd.take_changes(&mut changes);
        if let Some(image) = &mut image {
            image.follow(ssd.flash().array(), &changes)?;
        }
        changes.clear();
        let record = match &options.record {
            Some(path) => {
                let parquet = path.extension().is_some_and(|e| e == "parquet");
                let format = if parquet { Format::NandleParquet } else { Format::Nandle };
                Some(nandle_trace::create(path, format)?)
            }
            None => None,
        };
        let shape = Shape {
            bytes: drive.layout.logical_bytes,
            sector_bytes: config.geometry.sector_bytes,
            page_bytes: config.unit_bytes(),
            queue_depth: config.queue.depth,
        };
        let mut feeds = Vec::new();
        let mut shadows = Vec::new();
        for other in &options.shadows {
            let (feed, running) = shadow::start(other, options.seed, shape.bytes)?;
            feeds.push(feed);
            shadows.push(running);
        }
        let clock = Clock::started();
        let seat = Arc::<Seat<Option<Self>>>::default();
        let (device, inbox) = Device::of(seat.clone(), shape, clock);
        let mut meter = Meter::default();
        meter.begin_phase(1, &mut ssd);
        let driver = Self {
            ssd,
            clock,
            timing: options.timing,
            inbox,
            seat,
            asleep_until: None,
            failed: None,
            shape,
            image,
            changes,
            meter,
            lateness: Lateness::default(),
            window: None,
            scheme: drive.scheme(),
            seed: options.seed,
            feeds,
            shadows,
            record,
            cut_after: options.power_cut_after,
            submitted: 0,
            tasks: HashMap::new(),
            next_task: 0,
            ready: VecDeque::new(),
            held: Vec::new(),
            merges: 0,
            done: Vec::new(),
            last_job: 0,
            next_look: 0,
        };
        Ok((driver, device))
    }

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
                    // In real time answers are due; else a few may leave together.
                    turns += 1;
                    if real || turns.is_multiple_of(TOGETHER) {
                        outbox::flush();
                    }
                    continue;
                }
                Ok(Turn::Sleep(at)) => {
                    drop(guard);
                    outbox::flush();
                    match at {
                        Some(at) => {
                            let left = at.saturating_sub(clock.now());
                            std::thread::park_timeout(Duration::from_nanos(left));
                        }
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
                (task.reply)(Err(Fault::Image));
            }
        }
        // From here on every request is refused, also those that wait in the queue.
        for request in this.inbox.end() {
            request.reply()(Err(Fault::Gone));
        }
        outbox::flush();
        this.finish(result)
    }

    fn finish(mut self, result: Result<bool, Error>) -> Result<Ended, Error> {
        let end = result?;
        self.meter.finish(&self.ssd);
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
        if let Some(image) = &mut self.image {
            image.sync()?;
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
        Report::of(&self.ssd, &self.meter, real.then_some(&self.lateness))
    }

    fn summary(&self) -> Summary {
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
        let waiting = self.ready.len() + self.held.len() + self.inbox.len();
        let mut snapshot = Snapshot::of(&self.ssd, &self.meter, waiting);
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
            Timing::Off if !self.tasks.is_empty() => self.run_until_something_completes()?,
            Timing::Off => {}
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
        let event = match (self.timing, self.ssd.next_event()) {
            (Timing::Off, _) if !self.tasks.is_empty() => return Turn::Again,
            (Timing::Off, _) => None,
            (Timing::Real, at) => at,
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
            (job.reply)(Err(Fault::Gone));
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
            (job.reply)(Err(Fault::Gone));
        }
        if let Err(error) = result {
            self.failed.get_or_insert(error);
        }
        if self.failed.is_some() || self.is_cut() || self.is_over() || self.others_wait() {
            return Ok(true);
        }
        let next = match self.timing {
            Timing::Off if !self.tasks.is_empty() => return Ok(true),
            Timing::Off => None,
            Timing::Real => self.ssd.next_event(),
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
        self.job(job)?;
        // No longer than this one takes: whoever brings requests has a client of its own to hear.
        while self.timing == Timing::Off && self.tasks.contains_key(&number) && !self.is_cut() {
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
            self.answer(message);
        }
        let mut turns = self.inbox.clients();
        while turns > 0
            && self.takes_more()
            && !self.is_cut()
            && let Some((request, over)) = self.inbox.next_request(Time::MAX)
        {
            turns -= usize::from(over);
            self.request(request)?;
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

    fn answer(&mut self, message: Message) {
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
        }
    }

    fn request(&mut self, request: Request) -> Result<(), Error> {
        match request {
            Request::Job(job) => self.job(job)?,
            Request::NextUnits(handles, reply) => {
                for handle in handles {
                    self.ssd.next_unit(handle);
                    self.feeds.iter().for_each(|feed| feed.next_unit(handle));
                }
                reply(Ok(Vec::new()));
            }
        }
        Ok(())
    }

    fn job(&mut self, job: Job) -> Result<(), Error> {
        let steps = match plan::steps(job.io, &self.shape) {
            Ok(steps) if steps.is_empty() => {
                (job.reply)(Ok(Vec::new()));
                return Ok(());
            }
            Ok(steps) => steps,
            Err(status) => {
                (job.reply)(Err(Fault::Drive(status)));
                return Ok(());
            }
        };
        if self.timing == Timing::Real && job.arrival > self.ssd.now() {
            self.advance(job.arrival)?;
        }
        self.last_job = job.arrival;
        let number = self.next_task;
        self.next_task += 1;
        let task = Task {
            reply: job.reply,
            steps,
            then: Then::Nothing,
            answer: Vec::new(),
            since: if self.timing == Timing::Real { job.arrival } else { Time::MAX },
            op: Op::Flush,
            bytes: 0,
            changes: None,
        };
        self.tasks.insert(number, task);
        self.ready.push_back(number);
        self.submit_ready()
    }

    // ---- from tasks to the drive ------------------------------------------------------------------

    fn submit_ready(&mut self) -> Result<(), Error> {
        while self.ssd.accepts() && !self.is_cut() {
            let Some(number) = self.ready.pop_front() else { break };
            self.begin_step(number)?;
        }
        Ok(())
    }

    /// Fills places that have become free with what had come by now.
    fn refill(&mut self) -> Result<(), Error> {
        let by = if self.timing == Timing::Real { self.ssd.now() } else { Time::MAX };
        while !self.inbox.is_empty()
            && self.takes_more()
            && !self.is_cut()
            && let Some((request, _)) = self.inbox.next_request(by)
        {
            self.request(request)?;
        }
        Ok(())
    }

    /// Whether `new` must wait for another task, so that no read-modify-write loses a neighbour's
    /// bytes.
    fn must_wait(&self, number: u64, new: Changes) -> bool {
        if self.merges == 0 && !new.merge {
            return false;
        }
        let clash = |old: &Changes| (new.merge || old.merge) && old.from < new.to && new.from < old.to;
        self.tasks.iter().any(|(&other, task)| other != number && task.changes.as_ref().is_some_and(clash))
    }

    fn begin_step(&mut self, number: u64) -> Result<(), Error> {
        let sector = u64::from(self.shape.sector_bytes);
        let Some(task) = self.tasks.get(&number) else { return Ok(()) };
        let Some(step) = task.steps.front() else { return Ok(()) };
        // The second half of a read-modify-write has its sectors already.
        if task.changes.is_none()
            && let Some((from, to)) = step.changes()
        {
            let changes = Changes { from, to, merge: step.merges() };
            if self.must_wait(number, changes) {
                self.held.push(number);
                return Ok(());
            }
            self.merges += u32::from(changes.merge);
            if let Some(task) = self.tasks.get_mut(&number) {
                task.changes = Some(changes);
            }
        }
        let Some(task) = self.tasks.get_mut(&number) else { return Ok(()) };
        let Some(mut step) = task.steps.pop_front() else { return Ok(()) };
        if step.op == Op::Write && step.data.is_empty() {
            let now = step.sectors.min(ZEROS / sector);
            if now < step.sectors {
                let rest = Step::new(Op::Write, step.lsn + now, step.sectors - now);
                task.steps.push_front(Step { fua: step.fua, stream: step.stream, ..rest });
            }
            (step.data, step.sectors) = (vec![0; (now * sector) as usize], now);
        }
        let at = self.ssd.now();
        let since = task.since.min(at);
        let Step { op, lsn, sectors, fua, stream, data, then } = step;
        (task.op, task.then, task.bytes, task.since) = (op, then, sectors * sector, since);
        let command = Command { id: number, op, lsn, sectors, fua, stream, data: &data };
        self.submit(at, since, &command)
    }

    /// Hands a command that arrived at `since` to the drive, to its shadows and to the trace.
    fn submit(&mut self, at: Time, since: Time, command: &Command<'_>) -> Result<(), Error> {
        self.ssd.submit(at, command);
        self.feeds.iter().for_each(|feed| feed.command(since, command));
        self.submitted += 1;
        let Some(writer) = &mut self.record else { return Ok(()) };
        let sector = u64::from(self.shape.sector_bytes);
        // Requests in a row that name the same object are the ranges of one command.
        let object = if command.op == Op::FlashAlloc { self.submitted as u32 } else { 0 };
        let ranges = command.ranges().unwrap_or_default().into_iter();
        let requests = ranges.map(|range| Traced {
            time_ns: at,
            offset: range.first * sector,
            bytes: range.sectors * sector,
            object,
            stream: command.stream,
            op: command.op,
            fua: command.fua,
        });
        Ok(writer.write(&requests.collect::<Vec<_>>())?)
    }

    // ---- from the drive to tasks ------------------------------------------------------------------

    /// Carries out everything up to and including `to`.
    fn advance(&mut self, to: Time) -> Result<(), Error> {
        while let Some(next) = self.ssd.next_event()
            && next <= to
        {
            self.instant(next)?;
            if self.is_cut() {
                return Ok(());
            }
        }
        if to > self.ssd.now() {
            self.ssd.advance(to, &mut self.done);
        }
        Ok(())
    }

    fn run_until_something_completes(&mut self) -> Result<(), Error> {
        let before = self.meter_count();
        for patience in 0.. {
            let next = self.ssd.next_event();
            let (Some(next), true) = (next, patience < PATIENCE) else {
                return Err(Error::Stuck { at_ns: self.ssd.now(), outstanding: self.ssd.outstanding() });
            };
            self.instant(next)?;
            if self.meter_count() != before || self.is_cut() {
                return Ok(());
            }
        }
        Ok(())
    }

    fn meter_count(&self) -> u64 {
        let calls = &self.meter.calls;
        self.meter.latency.iter().map(|l| l.requests).sum::<u64>()
            + self.meter.refused
            + calls.honoured
            + calls.refused
            + calls.freed
    }

    /// Carries out one instant: flash first, then the image, then answers.
    fn instant(&mut self, at: Time) -> Result<(), Error> {
        self.ssd.advance(at, &mut self.done);
        if let Some(image) = &mut self.image {
            self.ssd.take_changes(&mut self.changes);
            if !self.changes.is_empty() {
                image.follow(self.ssd.flash().array(), &self.changes)?;
                self.changes.clear();
            }
        }
        let mut done = std::mem::take(&mut self.done);
        for completion in done.drain(..) {
            self.completed(completion)?;
        }
        self.done = done;
        self.submit_ready()?;
        self.refill()
    }

    fn completed(&mut self, completion: Completion) -> Result<(), Error> {
        let Completion { id, at, status, data, .. } = completion;
        let Some(task) = self.tasks.get_mut(&id) else {
            // The flush at the end is nobody's.
            self.meter.completed(Op::Flush, 0, 0, at, &self.ssd);
            return Ok(());
        };
        let since = std::mem::replace(&mut task.since, Time::MAX);
        let good = status == Status::Ok;
        if task.op.concerns_objects() {
            self.meter.called(task.op, good, at.saturating_sub(since), at, &self.ssd);
        } else if good {
            let ns = at.saturating_sub(since);
            self.meter.completed(task.op, task.bytes, ns, at, &self.ssd);
            if let Some(window) = &mut self.window {
                window.took(task.op, ns);
            }
        } else {
            self.meter.refused(at);
        }
        match std::mem::replace(&mut task.then, Then::Nothing) {
            Then::Write { lsn, skip, data: new, fua, stream } if good => {
                let mut whole = data;
                whole[skip..skip + new.len()].copy_from_slice(&new);
                let sectors = whole.len() as u64 / u64::from(self.shape.sector_bytes);
                let write = Step { fua, stream, data: whole, ..Step::new(Op::Write, lsn, sectors) };
                task.steps.push_front(write);
                self.ready.push_front(id);
                return Ok(());
            }
            Then::Answer { skip, bytes } if good => {
                task.answer = data;
                if skip > 0 || bytes < task.answer.len() {
                    task.answer.drain(..skip);
                    task.answer.truncate(bytes);
                }
            }
            _ => {}
        }
        let changes = task.changes.take();
        let over = !good || task.steps.is_empty();
        self.merges -= u32::from(changes.is_some_and(|c| c.merge));
        if !self.held.is_empty() {
            for &number in self.held.iter().rev() {
                self.ready.push_front(number);
            }
            self.held.clear();
        }
        if !over {
            self.ready.push_front(id);
            return Ok(());
        }
        let Some(task) = self.tasks.remove(&id) else { return Ok(()) };
        if self.timing == Timing::Real {
            let late = self.clock.now().saturating_sub(at);
            self.lateness.record(late);
            if let Some(window) = &mut self.window {
                window.late(late);
            }
        }
        (task.reply)(if good { Ok(task.answer) } else { Err(Fault::Drive(status)) });
        Ok(())
    }

    /// Everything that was written is made durable; the clock runs ahead, nobody waits.
    fn shut_down(&mut self) -> Result<(), Error> {
        let (id, at) = (self.next_task, self.ssd.now());
        let flush = Command { id, op: Op::Flush, lsn: 0, sectors: 0, fua: false, stream: 0, data: &[] };
        self.submit(at, at, &flush)?;
        while self.ssd.outstanding() > 0 {
            let Some(next) = self.ssd.next_event() else {
                return Err(Error::Stuck { at_ns: self.ssd.now(), outstanding: self.ssd.outstanding() });
            };
            self.instant(next)?;
        }
        Ok(())
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
    use crate::listen::Stream;
    use crate::outbox::{Outbox, Pending};
    use crate::{Io, Outcome};
    use nandle_lab::config::Wanted;
    use std::io::Read;
    use std::os::unix::net::UnixStream;

    #[test]
    fn whoever_carries_out_a_request_of_another_sends_its_answer() {
        let drive = Wanted { device: "demo", ..Wanted::default() }.load().expect("a drive");
        let options = Options { timing: Timing::Off, ..Options::default() };
        let (driver, device) = Driver::start(&drive, None, &options).expect("it starts");
        // The drive's own thread sleeps for good.
        let seat = driver.seat.clone();
        *lock(&seat.driver) = Some(driver);
        let (mine, mut theirs) = UnixStream::pair().expect("a pair");
        let outbox = Outbox::new(&Arc::new(Stream::Unix(mine)), Arc::default());
        let pending = Pending::new(&outbox, 0);
        let reply = Box::new(move |outcome: Outcome| pending.answer([vec![1], outcome.expect("zeros")]));
        let io = Io::read(0, 7);
        device.send(Request::Job(Job { arrival: 0, io, reply }));
        std::thread::scope(|scope| {
            scope.spawn(|| device.submit(Io::flush(), |outcome| assert_eq!(outcome, Ok(vec![]))));
        });
        theirs.set_nonblocking(true).expect("set");
        let mut answer = [9; 9];
        assert_eq!(theirs.read(&mut answer).expect("an answer"), 8);
        assert_eq!(answer, [1, 0, 0, 0, 0, 0, 0, 0, 9]);
    }
}
