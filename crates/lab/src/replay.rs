//! Drives a device in virtual time: requests in, completions out, nothing lost.
//!
//! The device takes at most `queue.depth` requests at a time; further ones wait in the host's queue,
//! and their latency counts from when the host issued them. The host's queue needs no memory: it is
//! the part of the source that is due but not yet taken.
//!
//! FlashAlloc requests in a row that name the same object are the ranges of one command
//! (FlashAlloc, section 3.1). They go to drives whose stream policy knows them; for others they are
//! counted and left out, so that every policy serves the same reads, writes and trims.
//!
//! Several users of one phase each have a closed loop of their own (module `users`): what one waits for, only
//! it waits for.

mod cuts;
mod feed;
mod settle;
mod under_way;
mod until;
mod users;

use std::collections::VecDeque;
use std::iter;
use std::sync::atomic::{AtomicBool, Ordering};

pub use cuts::PowerCuts;
use feed::{Feed, SOON, in_time, scaled};
use nandle_io::{Command, Completion, Op, Range, Status, encode};
use nandle_ssd::Ssd;
use nandle_ssd::nand::Time;
use nandle_trace::Request;
use nandle_trace::synthetic::{Phase, Replay};
use rustc_hash::FxHashMap;
use under_way::{TooMuch, UnderWay};
pub use until::Again;
use until::Settle;
use users::{Issue, Users};

use crate::Error;
use crate::address::Address;
use crate::explain::Explain;
use crate::measure::summary::{Prepare, Recovery, Trace};
use crate::measure::{Charges, IoLog, Meter};
use crate::oracle::Oracle;

/// Slots are numbered in the low bits of a command's id: at most as many as `queue.depth` may be.
const SLOT_BITS: u32 = 17;
/// Events without a completion after which a device is taken to be stuck.
const PATIENCE: u64 = 1 << 28;

/// Requests whose memory is fetched ahead of its use: the map twice as far ahead, this far what it leads to, half as
/// far the pages of a list.
const LOOK_AHEAD: usize = SOON / 3;

/// Sectors that are read back at a time, at most.
const READ_BACK: u64 = 256;

/// Requests of several users between two reports.
const REPORT: u64 = 1024;

/// A request under way.
#[derive(Clone, Copy, Debug)]
struct Slot {
    arrival: Time,
    submitted: Time,
    lsn: u64,
    sectors: u64,
    op: Op,
    stream: u16,
    /// Whose it is, among several users. A byte: slots are looked up at random, and their size tells.
    user: u8,
    /// Requests of the trace that it stands for: the ranges of an object.
    parts: u32,
}

/// Closed replay: who may issue further requests, and when.
enum Turns {
    /// Nobody: the replay is another one.
    None,
    /// A lone user.
    One(VecDeque<Time>),
    /// Several.
    Each(Users),
}

/// How far a run has come.
#[derive(Clone, Copy, Debug)]
pub struct Progress {
    /// The phase under way, counted from 1, and how many there are.
    pub phase: (usize, usize),
    /// Requests submitted in this phase.
    pub requests: u64,
    /// Requests of the phase, if known.
    pub total: Option<u64>,
    /// Simulated time.
    pub now_ns: Time,
    /// Write amplification of this phase so far.
    pub waf: Option<f64>,
}

/// Who looks on while a run is under way.
pub struct Watch<'a> {
    /// Set from outside to end the run early.
    pub stop: &'a AtomicBool,
    /// Called every thousand requests or so.
    pub progress: &'a mut dyn FnMut(&Progress),
}

/// A device and everything that is noted about what it does.
pub struct Replayer<'a> {
    /// The device.
    pub ssd: Ssd,
    /// What is counted.
    pub meter: Meter,
    /// Judges every completion, if wanted: see [`Replayer::verify`].
    pub oracle: Option<Oracle>,
    /// Every request, if wanted.
    pub io: Option<IoLog>,
    /// What the flash does for each of several users, from the first phase that has some.
    charges: Option<Charges>,
    /// The account of the first requests, if one is wanted.
    explain: Option<Explain>,
    /// Contents of requests under way that are kept for the oracle.
    under_way: UnderWay,
    /// What became of the requests.
    pub trace: Trace,
    /// The phases before the measured one.
    pub prepare: Prepare,
    /// What power cuts cost.
    pub recovery: Recovery,
    cuts: Option<cuts::Schedule>,
    seed: u64,
    /// The measured part goes on until the device is steady.
    settle: Option<Settle<'a>>,
    watch: Watch<'a>,
    /// Somebody beside the meter hears of every request: asked once a phase.
    onlookers: bool,
    slots: Vec<Slot>,
    free: Vec<u32>,
    done: Vec<Completion>,
    turns: Turns,
    sector_bytes: u64,
    /// The drive has no clocks: nothing takes time.
    untimed: bool,
    /// The drive knows FlashAlloc, and the user calls it.
    objects: bool,
    /// Further ranges of the FlashAlloc request that was taken last.
    ranges: Vec<Request>,
    /// Class (host stream) that an object was announced with, for writes that name the object alone.
    classes: FxHashMap<u32, u16>,
    phase: (usize, usize),
    in_phase: u64,
    total: Option<u64>,
    last_completion: Time,
    stopped: bool,
}

impl<'a> Replayer<'a> {
    /// A replayer of a device fresh from preconditioning.
    #[must_use]
    pub fn new(ssd: Ssd, watch: Watch<'a>) -> Self {
        Self {
            sector_bytes: u64::from(ssd.config().geometry.sector_bytes),
            untimed: ssd.config().timing.untimed,
            objects: false,
            ranges: Vec::new(),
            classes: FxHashMap::default(),
            ssd,
            meter: Meter::default(),
            oracle: None,
            io: None,
            charges: None,
            explain: None,
            under_way: UnderWay::default(),
            trace: Trace::default(),
            prepare: Prepare::default(),
            recovery: Recovery::default(),
            cuts: None,
            seed: 0,
            settle: None,
            watch,
            onlookers: false,
            slots: Vec::new(),
            free: Vec::new(),
            done: Vec::new(),
            turns: Turns::None,
            phase: (0, 0),
            in_phase: 0,
            total: None,
            last_completion: 0,
            stopped: false,
        }
    }

    /// From now on every completion is judged. The device must be new, and keep [`crate::oracle::UNIT`] bytes a
    /// sector.
    pub fn verify(&mut self) {
        self.oracle = Some(Oracle::of(&self.ssd));
        self.under_way = UnderWay::on(self.ssd.layout().logical_sectors);
    }

    /// Cuts the power in the measured part, at instants that `seed` decides as far as they are random.
    pub fn cut_power(&mut self, cuts: PowerCuts, seed: u64) {
        self.cuts = Some(cuts::Schedule::new(cuts, seed));
        self.seed = seed;
    }

    /// Keeps an account of the first `requests` requests of the measured phase.
    pub fn explain(&mut self, requests: u64) {
        self.explain = (requests > 0).then(|| Explain::new(requests));
    }

    /// The account that was asked for: requests and flash operations by time.
    pub fn explained(&mut self) -> String {
        self.explain.take().map_or_else(String::new, Explain::text)
    }

    /// Replays phases, each when the one before has drained; each starts its addresses afresh with
    /// its own [`Address`]. Returns whether all of them ran to their end.
    ///
    /// # Errors
    /// If a source fails, the device makes no progress or loses a request.
    pub fn run(&mut self, phases: Vec<(Phase, Address)>) -> Result<bool, Error> {
        let count = phases.len();
        for (number, (phase, mut address)) in phases.into_iter().enumerate() {
            if number > 0 {
                self.prepare.phases += 1;
                self.prepare.requests += self.in_phase;
                self.prepare.simulated_ns = self.ssd.now();
            }
            self.phase = (number + 1, count);
            (self.in_phase, self.total) = (0, phase.requests);
            self.meter.begin_phase(number as u32, &mut self.ssd);
            if let (Some(cuts), true) = (&mut self.cuts, number + 1 == count) {
                cuts.begin(self.ssd.now(), self.total, self.untimed)?;
            }
            let mut result = self.phase(phase, &mut address);
            while let (Ok(()), true) = (&result, number + 1 == count) {
                let Some(again) = self.again()? else { break };
                result = self.phase(again, &mut address);
            }
            self.trace.rounded += address.rounded;
            self.trace.rounded_bytes = address.rounded_bytes;
            self.trace.moved += address.moved;
            self.trace.empty_trims += address.empty_trims;
            result?;
            if self.stopped {
                break;
            }
        }
        self.meter.finish(&self.ssd);
        self.recovery.cuts_missed = self.cuts.as_ref().map_or(0, cuts::Schedule::left);
        if let Some(oracle) = &mut self.oracle {
            oracle.at_rest();
        }
        let (submitted, ended) = (self.trace.submitted, self.trace.completed + self.trace.cut_off);
        if submitted != ended {
            return Err(Error::Lost { submitted, completed: ended });
        }
        Ok(!self.stopped)
    }

    fn phase(&mut self, mut phase: Phase, address: &mut Address) -> Result<(), Error> {
        let begin = self.ssd.now().saturating_add(phase.delay_ns);
        let end = phase.stop_after_ns.map_or(Time::MAX, |after| begin.saturating_add(after));
        self.ranges.clear();
        // What several users do is charged to each.
        self.onlookers = phase.users.len() != 1
            || self.charges.is_some()
            || self.explain.is_some()
            || self.settle.is_some()
            || self.oracle.is_some()
            || self.io.is_some();
        let result = if phase.users.len() == 1 {
            let user = phase.users.remove(0);
            self.objects = self.knows_objects() && user.calls;
            let time_scale = if let Replay::Open { time_scale } = user.replay { time_scale } else { 1.0 };
            let mut feed = Feed::new(user.source, time_scale);
            match user.replay {
                Replay::Open { .. } => self.open(&mut feed, address, begin, end),
                Replay::Closed { iodepth } => self.closed(&mut feed, address, begin, end, iodepth.max(1)),
                Replay::Think { time_scale } => self.think(&mut feed, address, begin, end, time_scale),
            }
        } else {
            let (users, rows) = Users::new(phase.users, begin)?;
            // What repeats goes on counting.
            if self.meter.users.len() != rows.len() {
                self.meter.begin_users(rows);
                self.ssd.keep_changes();
                let mut charges = Charges::new(&self.ssd);
                charges.take(&mut self.ssd);
                self.charges = Some(charges);
            }
            self.turns = Turns::Each(users);
            self.together(address, begin, end)
        };
        self.turns = match std::mem::replace(&mut self.turns, Turns::None) {
            // Those under way are still somebody's.
            Turns::Each(users) => Turns::Each(users),
            _ => Turns::None,
        };
        // A source that fails half way still leaves requests under way.
        while self.ssd.outstanding() > 0 {
            self.step()?;
        }
        self.turns = Turns::None;
        self.charged();
        result
    }

    /// What was programmed is counted for those for whom it was.
    fn charged(&mut self) {
        if let Some(charges) = &mut self.charges {
            charges.take(&mut self.ssd);
            for (row, user) in (0..).zip(&mut self.meter.users) {
                user.flash = charges.of(row);
            }
        }
    }

    fn knows_objects(&self) -> bool {
        self.ssd.knows_objects()
    }

    /// The next request, unless there is none or the run was stopped.
    #[inline(always)]
    fn next<'f>(&mut self, feed: &'f mut Feed, address: &Address) -> Result<Option<&'f Request>, Error> {
        if feed.is_empty() && !self.refill(feed, address)? {
            return Ok(None);
        }
        if let Some(soon) = feed.soon() {
            self.ssd.prefetch_leaf(soon[3 * LOOK_AHEAD]);
            self.ssd.prefetch_map(soon[2 * LOOK_AHEAD]);
            self.ssd.prefetch_page(soon[LOOK_AHEAD]);
            self.ssd.prefetch_pages(soon[LOOK_AHEAD / 2]);
        }
        if feed.peek().is_some_and(|next| next.op == Op::FlashAlloc) {
            return self.take_object(feed, address);
        }
        Ok(feed.pop())
    }

    /// Reads on; false if the run was stopped. Says meanwhile how far it has come.
    #[cold]
    fn refill(&mut self, feed: &mut Feed, address: &Address) -> Result<bool, Error> {
        self.report();
        self.stopped = self.watch.stop.load(Ordering::Relaxed);
        let goes_on = !self.stopped && !self.settled();
        if goes_on {
            feed.refill(address)?;
        }
        Ok(goes_on)
    }

    /// Takes the first range of an object, and the others into `ranges`.
    #[cold]
    fn take_object<'f>(
        &mut self,
        feed: &'f mut Feed,
        address: &Address,
    ) -> Result<Option<&'f Request>, Error> {
        self.ranges.clear();
        let Some(first) = feed.pop().copied() else { return Ok(None) };
        if first.stream != 0 && first.object != 0 {
            self.classes.insert(first.object, first.stream);
        }
        let same = |r: &Request| r.op == first.op && r.object == first.object && first.object != 0;
        while self.objects
            && let Some(range) = feed.pop_if(address, same)?
        {
            self.ranges.push(range);
        }
        Ok(Some(feed.put_aside(first)))
    }

    fn report(&mut self) {
        let progress = Progress {
            phase: self.phase,
            requests: self.in_phase,
            total: self.total,
            now_ns: self.ssd.now(),
            waf: self.meter.waf(&self.ssd),
        };
        (self.watch.progress)(&progress);
    }

    fn open(&mut self, feed: &mut Feed, address: &mut Address, begin: Time, end: Time) -> Result<(), Error> {
        while let Some(request) = self.next(feed, address)? {
            let arrival = begin.saturating_add(request.time_ns);
            if arrival >= end {
                break;
            }
            self.advance(arrival)?;
            while !self.ssd.accepts() {
                self.step()?;
            }
            self.submit(request, address, arrival)?;
            self.cut_behind()?;
        }
        Ok(())
    }

    fn closed(
        &mut self,
        feed: &mut Feed,
        address: &mut Address,
        begin: Time,
        end: Time,
        iodepth: u32,
    ) -> Result<(), Error> {
        self.advance(begin)?;
        self.turns = Turns::One(vec![begin; iodepth as usize].into());
        loop {
            while self.ssd.accepts()
                && let Turns::One(turns) = &mut self.turns
                && let Some(turn) = turns.pop_front()
            {
                if turn >= end {
                    return Ok(());
                }
                let Some(request) = self.next(feed, address)? else { return Ok(()) };
                self.submit(request, address, turn)?;
                self.cut_behind()?;
            }
            if self.ssd.outstanding() > 0 {
                self.step()?;
            }
        }
    }

    /// Several users, each closed.
    fn together(&mut self, address: &mut Address, begin: Time, end: Time) -> Result<(), Error> {
        self.advance(begin)?;
        let knows_objects = self.knows_objects();
        let mut reported = 0;
        loop {
            while self.ssd.accepts()
                && let Turns::Each(users) = &mut self.turns
                && let Some(issue) = users.next(self.ssd.now(), &mut self.ranges)?
            {
                let Issue { user, request, arrival, calls } = issue;
                if arrival >= end {
                    return Ok(());
                }
                self.objects = knows_objects && calls;
                if request.op == Op::FlashAlloc && request.stream != 0 && request.object != 0 {
                    self.classes.insert(request.object, request.stream);
                }
                self.submit_for(user, &request, address, arrival)?;
                self.cut_behind()?;
            }
            if self.in_phase >= reported {
                reported = self.in_phase + REPORT;
                self.report();
                if self.watch.stop.load(Ordering::Relaxed) {
                    self.stopped = true;
                    return Ok(());
                }
                if self.settled() {
                    return Ok(());
                }
            }
            let Turns::Each(users) = &self.turns else { return Ok(()) };
            if users.ended() {
                return Ok(());
            }
            match users.wakes(self.ssd.now()) {
                Some(at) if at < end => {
                    let next = self.ssd.next_event().map_or(at, |next| next.min(at));
                    self.advance(next)?;
                }
                _ if self.ssd.outstanding() > 0 => self.step()?,
                // Who is not done has nothing to do before the end, or waits for the others.
                Some(_) => return Ok(()),
                None => return Err(Error::input("all users of the workload wait for each other")),
            }
        }
    }

    fn think(
        &mut self,
        feed: &mut Feed,
        address: &mut Address,
        begin: Time,
        end: Time,
        scale: f64,
    ) -> Result<(), Error> {
        self.last_completion = begin;
        let mut before = 0;
        while let Some(request) = self.next(feed, address)? {
            let gap = request.time_ns.saturating_sub(before);
            let gap = if scale == 1.0 { gap } else { scaled(gap, scale) };
            before = request.time_ns;
            let arrival = in_time(self.last_completion.saturating_add(gap))?;
            if arrival >= end {
                break;
            }
            self.advance(arrival)?;
            self.last_completion = arrival;
            self.submit(request, address, arrival)?;
            self.cut_behind()?;
            while self.ssd.outstanding() > 0 {
                self.step()?;
            }
        }
        Ok(())
    }

    /// Hands a request of the lone user to the device, which must accept one.
    #[inline]
    fn submit(&mut self, request: &Request, address: &mut Address, arrival: Time) -> Result<(), TooMuch> {
        self.submit_for(0, request, address, arrival)
    }

    /// The same of one among several users.
    #[inline]
    fn submit_for(
        &mut self,
        user: u8,
        request: &Request,
        address: &mut Address,
        arrival: Time,
    ) -> Result<(), TooMuch> {
        let at = arrival.max(self.ssd.now());
        self.trace.submitted += 1;
        self.in_phase += 1;
        let op = request.op;
        if !op.moves_data() {
            return self.submit_other(user, request, address, arrival, at);
        }
        let (lsn, sectors) = address.sectors(request);
        let stream = self.stream_of(request);
        let slot = Slot { arrival, submitted: at, lsn, sectors, op, stream, user, parts: 1 };
        self.hand_over(slot, request.fua, &[])
    }

    /// The same of what neither reads nor writes. It is counted once already.
    fn submit_other(
        &mut self,
        user: u8,
        request: &Request,
        address: &mut Address,
        arrival: Time,
        at: Time,
    ) -> Result<(), TooMuch> {
        let op = request.op;
        if op.concerns_objects() && !self.objects {
            // Of an object of several ranges, a lone user's come one by one.
            let parts = 1 + self.ranges.len() as u64;
            self.ranges.clear();
            self.trace.submitted += parts - 1;
            self.in_phase += parts - 1;
            self.trace.hints_ignored += parts;
            self.nothing_to_do(user, op, at, parts);
            return Ok(());
        }
        let (lsn, sectors) = address.sectors(request);
        if op == Op::Trim && sectors == 0 {
            self.nothing_to_do(user, op, at, 1);
            return Ok(());
        }
        let mut listed = Vec::new();
        let mut parts = 1;
        if op == Op::FlashAlloc && !self.ranges.is_empty() {
            parts += self.ranges.len() as u32;
            self.trace.submitted += self.ranges.len() as u64;
            self.in_phase += self.ranges.len() as u64;
            let others = self.ranges.iter().map(|range| address.sectors(range));
            let ranges =
                iter::once((lsn, sectors)).chain(others).map(|(first, sectors)| Range { first, sectors });
            listed = list(&ranges.collect::<Vec<_>>());
        }
        let stream = self.stream_of(request);
        let slot = Slot { arrival, submitted: at, lsn, sectors, op, stream, user, parts };
        self.hand_over(slot, request.fua, &listed)
    }

    /// The stream of a request, or else of its object.
    #[inline(always)]
    fn stream_of(&self, request: &Request) -> u16 {
        if request.stream == 0 && request.object != 0 {
            return self.classes.get(&request.object).copied().unwrap_or(0);
        }
        request.stream
    }

    /// Hands over what the device is to know of a request.
    #[inline(always)]
    fn hand_over(&mut self, slot: Slot, fua: bool, listed: &[u8]) -> Result<(), TooMuch> {
        let number = match self.free.pop() {
            Some(number) => {
                self.slots[number as usize] = slot;
                number
            }
            None => {
                self.slots.push(slot);
                (self.slots.len() - 1) as u32
            }
        };
        let id = self.trace.submitted << SLOT_BITS | u64::from(number);
        let Slot { submitted, op, lsn, sectors, stream, .. } = slot;
        let command = Command { id, op, lsn, sectors, fua, stream, data: listed };
        if self.onlookers {
            return self.submit_in_sight(number, command);
        }
        self.ssd.submit(submitted, &command);
        Ok(())
    }

    /// Submits a command of which others hear too.
    fn submit_in_sight(&mut self, number: u32, command: Command<'_>) -> Result<(), TooMuch> {
        let Slot { submitted: at, lsn, sectors, op, user, .. } = self.slots[number as usize];
        if op == Op::Write {
            if let Some(settle) = &mut self.settle {
                settle.wrote(self.phase, lsn, sectors);
            }
            if let Some(charges) = &mut self.charges {
                let row =
                    if let Turns::Each(users) = &self.turns { Some(users.row(user) as u32) } else { None };
                charges.wrote(row, lsn, sectors);
            }
        }
        let contents;
        let mut command = command;
        if let Some(oracle) = &mut self.oracle {
            // The drive and the oracle keep what it holds, or may return, until it is answered.
            self.under_way.begin(op, sectors)?;
            if op == Op::Write {
                contents = oracle.contents(lsn, sectors);
                command.data = &contents;
            }
            oracle.submitted(&command);
        }
        if self.phase.0 == self.phase.1
            && let Some(explain) = &mut self.explain
        {
            explain.submitted(&mut self.ssd, at, &command);
        }
        self.ssd.submit(at, &command);
        Ok(())
    }

    /// A request that the device need not know of is complete at once.
    fn nothing_to_do(&mut self, user: u8, op: Op, at: Time, parts: u64) {
        self.trace.completed += parts;
        self.turns.completed(user, op, at);
    }

    /// Carries out everything up to and including `to`.
    #[inline(always)]
    fn advance(&mut self, to: Time) -> Result<(), Error> {
        while let Some(at) = self.cuts.as_ref().and_then(|cuts| cuts.due(to)) {
            self.cut_at(at)?;
        }
        // After a cut the drive may be back only later than that.
        if to >= self.ssd.now() {
            self.ssd.advance(to, &mut self.done);
        }
        if !self.done.is_empty() {
            self.completions();
        }
        Ok(())
    }

    /// Cuts the power at `at`, or now if that is over: the drive was without power then.
    fn cut_at(&mut self, at: Time) -> Result<(), Error> {
        if let Some(cuts) = &mut self.cuts {
            cuts.took_time();
        }
        if at >= self.ssd.now() {
            self.ssd.advance(at, &mut self.done);
            self.completions();
        }
        self.cut()
    }

    /// Cuts the power some events behind the request just submitted, if it is the one.
    #[inline(always)]
    fn cut_behind(&mut self) -> Result<(), Error> {
        if self.cuts.is_some() { self.cut_behind_request() } else { Ok(()) }
    }

    fn cut_behind_request(&mut self) -> Result<(), Error> {
        let number = self.in_phase;
        while let Some(events) = self.cuts.as_mut().and_then(|cuts| cuts.behind(number)) {
            for _ in 0..events {
                if let Some(next) = self.ssd.next_event() {
                    self.ssd.advance(next, &mut self.done);
                    self.completions();
                }
            }
            self.cut()?;
        }
        Ok(())
    }

    /// The power goes and comes back: requests under way are lost, and everything on the drive is
    /// compared with the promise.
    fn cut(&mut self) -> Result<(), Error> {
        self.show_read_only();
        let before = self.ssd.stats().programs_lost;
        let ssd = self.ssd.clone().power_cycle(self.seed).map_err(|e| Error::input(e.to_string()))?;
        self.ssd = ssd;
        if let (Some(oracle), true) = (&mut self.oracle, self.ssd.stats().programs_lost > before) {
            // On capacitors nobody was left to be told.
            oracle.shows_losses();
        }
        let mut lost = vec![true; self.slots.len()];
        self.free.iter().for_each(|&slot| lost[slot as usize] = false);
        let now = self.ssd.now();
        self.last_completion = now;
        match &mut self.turns {
            Turns::None => {}
            Turns::One(turns) => turns.iter_mut().for_each(|turn| *turn = (*turn).max(now)),
            Turns::Each(users) => users.resume(now),
        }
        for (slot, _) in self.slots.iter().zip(&lost).filter(|(_, lost)| **lost) {
            self.turns.completed(slot.user, slot.op, now);
        }
        self.under_way.cut();
        let lost = self.slots.len() - self.free.len();
        self.trace.cut_off += lost as u64;
        self.free = (0..self.slots.len() as u32).collect();
        if let Some(report) = self.ssd.recovery() {
            let r = &mut self.recovery;
            r.cuts += 1;
            r.from_checkpoint += u64::from(report.from_checkpoint);
            r.reads += report.reads();
            r.oob_reads += report.oob_reads;
            r.time_ns += report.time_ns;
            r.time_max_ns = r.time_max_ns.max(report.time_ns);
            r.hold_up_max_ns = r.hold_up_max_ns.max(report.hold_up_ns);
            r.requests_lost += lost as u64;
        }
        if let Some(oracle) = &mut self.oracle {
            let (contents, gone) = self.ssd.contents(0, self.ssd.layout().logical_sectors);
            oracle.power_cut(&contents, &gone);
        }
        Ok(())
    }

    /// The oracle looks at the drive's state, as a host looks at SMART's critical warning.
    fn show_read_only(&mut self) {
        if let (Some(oracle), true) = (&mut self.oracle, self.ssd.is_read_only()) {
            oracle.shows_losses();
        }
    }

    /// Reads everything that was ever written or trimmed, for the oracle's eyes alone: nothing of it is counted
    /// or measured. The device is of no further use for figures.
    ///
    /// # Errors
    /// If the device makes no progress.
    pub fn read_back(&mut self) -> Result<(), Error> {
        let Some(oracle) = &mut self.oracle else { return Ok(()) };
        let mut from = 0;
        while let Some((lsn, sectors)) = oracle.touched(from, READ_BACK)
            && !self.watch.stop.load(Ordering::Relaxed)
        {
            from = lsn + sectors;
            let command = Command { id: lsn, op: Op::Read, lsn, sectors, fua: false, stream: 0, data: &[] };
            oracle.submitted(&command);
            self.ssd.submit(self.ssd.now(), &command);
            for patience in 0.. {
                if self.ssd.outstanding() == 0 {
                    break;
                }
                let (Some(next), true) = (self.ssd.next_event(), patience < PATIENCE) else {
                    return Err(Error::Stuck { at_ns: self.ssd.now(), outstanding: self.ssd.outstanding() });
                };
                self.ssd.advance(next, &mut self.done);
            }
            if self.ssd.is_read_only() {
                oracle.shows_losses();
            }
            self.done.drain(..).for_each(|completion| oracle.completed(&completion));
            oracle.at_rest();
        }
        Ok(())
    }

    /// Carries out the next instants until a request completes.
    #[inline]
    fn step(&mut self) -> Result<(), Error> {
        for patience in 0.. {
            let next = self.ssd.next_event();
            if let Some(at) = self.cuts.as_ref().and_then(|cuts| cuts.due(next.unwrap_or(Time::MAX))) {
                return self.cut_at(at);
            }
            let (Some(next), true) = (next, patience < PATIENCE) else {
                return Err(Error::Stuck { at_ns: self.ssd.now(), outstanding: self.ssd.outstanding() });
            };
            self.ssd.advance(next, &mut self.done);
            if !self.done.is_empty() {
                break;
            }
        }
        self.completions();
        Ok(())
    }

    fn completions(&mut self) {
        if self.onlookers {
            self.tell();
        }
        for completion in &self.done {
            let number = (completion.id & ((1 << SLOT_BITS) - 1)) as u32;
            let slot = &self.slots[number as usize];
            let latency = if self.untimed { 0 } else { completion.at - slot.arrival };
            self.free.push(number);
            self.trace.completed += u64::from(slot.parts);
            self.last_completion = completion.at;
            let row = self.turns.completed(slot.user, slot.op, completion.at);
            if slot.op.concerns_objects() {
                let honoured = completion.status == Status::Ok;
                self.meter.called(slot.op, honoured, latency, completion.at, &self.ssd);
            } else if completion.status == Status::Ok {
                let bytes = slot.sectors * self.sector_bytes;
                self.meter.completed(slot.op, bytes, latency, completion.at, &self.ssd);
                if slot.op == Op::Write {
                    self.meter.wrote(slot.stream, bytes, latency);
                }
                if let Some(row) = row {
                    self.meter.served(row, slot.op, bytes, latency);
                }
            } else {
                self.meter.refused(completion.at);
            }
        }
        self.done.clear();
    }

    /// Tells the others of what is complete.
    fn tell(&mut self) {
        self.show_read_only();
        if let Some(charges) = &mut self.charges {
            charges.take(&mut self.ssd);
        }
        if let Some(explain) = self.explain.as_mut().filter(|explain| explain.listens()) {
            explain.operations(&mut self.ssd);
            self.done.iter().for_each(|completion| explain.completed(&mut self.ssd, completion));
        }
        for completion in &self.done {
            let slot = &self.slots[(completion.id & ((1 << SLOT_BITS) - 1)) as usize];
            if let Some(oracle) = &mut self.oracle {
                self.under_way.end(slot.op, slot.sectors);
                oracle.completed(completion);
            }
            if let Some(io) = &mut self.io {
                io.push(crate::measure::Io {
                    phase: self.phase.0 as u16,
                    op: slot.op,
                    offset: slot.lsn * self.sector_bytes,
                    bytes: slot.sectors * self.sector_bytes,
                    stream: slot.stream,
                    arrival_ns: slot.arrival,
                    submitted_ns: slot.submitted,
                    completed_ns: completion.at,
                    ok: completion.status == Status::Ok,
                });
            }
        }
    }
}

impl Turns {
    /// A request of `user` has completed at `at`: another one may be issued. Returns the row of several users' results
    /// that it is counted in.
    #[inline]
    fn completed(&mut self, user: u8, op: Op, at: Time) -> Option<usize> {
        match self {
            Self::None => None,
            Self::One(turns) => {
                turns.push_back(at);
                None
            }
            Self::Each(users) => {
                users.completed(user, op, at);
                Some(users.row(user))
            }
        }
    }
}

/// The data of a FlashAlloc command for several ranges.
fn list(ranges: &[Range]) -> Vec<u8> {
    // What no list has room for is no range of any device: the drive refuses ranges of no sectors.
    encode(ranges).unwrap_or_else(|_| vec![0; ranges.len() * Range::BYTES])
}

#[cfg(test)]
mod tests;
