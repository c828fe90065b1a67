//! From requests to commands of the drive, and back from completions to answers.

use nandle_io::{Command, Completion, Op, Status};
use nandle_ssd::nand::Time;
use nandle_trace::Request as Traced;

use super::Driver;
use super::task::{Changes, Task};
use crate::clients::Due;
use crate::live::shadow::Counts;
use crate::plan::{self, Step, Then};
use crate::request::Job;
use crate::timing::Timing;
use crate::{Error, Fault};

/// Zeros that are programmed go to the drive in writes of this size.
const ZEROS: u64 = 1 << 20;

impl Driver {
    /// Begins a request; one that `waited` did so for a place in the drive, which is the drive's time and counts.
    pub(super) fn job(&mut self, job: Job, waited: bool) -> Result<(), Error> {
        if job.io.op != Op::Read {
            self.look_after_image(false);
            if self.health.gone.is_some() {
                (job.reply)(Err(Fault::Image), None);
                return Ok(());
            }
        }
        let op = job.io.op;
        if let Some(fault) = self.faults.refuse(op) {
            self.meter.refused(self.ssd.now());
            (job.reply)(Err(fault), None);
            return Ok(());
        }
        let asked = if job.io.op == Op::Trim { 0 } else { job.io.bytes };
        let steps = match plan::steps(job.io, &self.shape) {
            Ok(steps) if steps.is_empty() => {
                (job.reply)(Ok(Vec::new()), None);
                return Ok(());
            }
            Ok(steps) => steps,
            Err(status) => {
                (job.reply)(Err(Fault::Drive(status)), None);
                return Ok(());
            }
        };
        let came = job.came.by;
        let real = self.timing == Timing::Real;
        if real && came > self.ssd.now() {
            self.advance(came)?;
        }
        self.last_job = came;
        // What a request waited for this machine is not the drive's.
        let since = if !real {
            Time::MAX
        } else if waited {
            came
        } else {
            came.max(self.ssd.now())
        };
        let number = self.next_task;
        self.next_task += 1;
        let task = Task {
            reply: job.reply,
            client: job.client,
            arrived: job.came.earliest,
            asked,
            from: since,
            steps,
            then: Then::Nothing,
            answer: Vec::new(),
            since,
            op: Op::Flush,
            durable: false,
            bytes: 0,
            changes: None,
        };
        self.tasks.insert(number, task);
        // Nobody waits for a drive that is to end.
        if self.inbox.is_closed() || !self.faults.keeps(op, came, number) {
            self.ready.push_back(number);
        }
        self.submit_ready()
    }

    pub(super) fn submit_ready(&mut self) -> Result<(), Error> {
        while self.ssd.accepts() && !self.is_cut() {
            let Some(number) = self.ready.pop_front() else { break };
            self.begin_step(number)?;
        }
        Ok(())
    }

    /// Fills places that have become free with what had come by now.
    pub(super) fn refill(&mut self) -> Result<(), Error> {
        let by = if self.timing == Timing::Real { self.ssd.now() } else { Time::MAX };
        while !self.inbox.is_empty()
            && self.takes_more()
            && !self.is_cut()
            && let Some((request, _)) = self.inbox.next_request(by)
        {
            self.request(request, true)?;
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
        let (merges, is_second) = (step.merges(), step.op == Op::Write && step.bytes.is_some());
        let at = self.ssd.now();
        let since = task.since.min(at);
        let Step { op, lsn, sectors, fua, stream, mut data, then, bytes } = step;
        let bytes = bytes.unwrap_or(sectors * sector);
        (task.op, task.then, task.bytes, task.since) = (op, then, bytes, since);
        let counts = (!merges).then_some((since, bytes));
        // The second half of a read-modify-write comes when the first is over.
        let arrival = if is_second { at } else { since };
        task.durable = fua || op == Op::Flush;
        if op == Op::Write {
            task.client.wrote(lsn, sectors);
        }
        let command = Command { id: number, op, lsn, sectors, fua, stream, data: &[] };
        if op.moves_data() {
            if op == Op::Read {
                data = self.buffers.take((sectors * sector) as usize);
            }
            self.ssd.submit_with(at, &command, &mut data);
            self.buffers.give(data);
            return self.tell(at, arrival, &command, counts);
        }
        self.submit(at, arrival, &Command { data: &data, ..command }, counts)
    }

    /// Hands a command that arrived at `arrival` to the drive, to its shadows and to the trace.
    pub(super) fn submit(
        &mut self,
        at: Time,
        arrival: Time,
        command: &Command<'_>,
        counts: Counts,
    ) -> Result<(), Error> {
        self.ssd.submit(at, command);
        self.tell(at, arrival, command, counts)
    }

    /// Tells the shadows and the trace of a command that the drive has; of its data only if it is of objects.
    fn tell(&mut self, at: Time, arrival: Time, command: &Command<'_>, counts: Counts) -> Result<(), Error> {
        self.feeds.iter().for_each(|feed| feed.command(arrival, command, counts));
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

    pub(super) fn completed(&mut self, completion: Completion) -> Result<(), Error> {
        let Completion { id, at, status, data, .. } = completion;
        let Some(task) = self.tasks.get_mut(&id) else {
            // The flush at the end is nobody's.
            self.meter.completed(Op::Flush, 0, self.ssd.took(self.closing, at), at, &self.ssd);
            return Ok(());
        };
        let good = status == Status::Ok;
        // The read of a read-modify-write is a part of the write.
        let merges = good && matches!(task.then, Then::Write { .. });
        let since = if merges { task.since } else { std::mem::replace(&mut task.since, Time::MAX) };
        if merges {
            // It counts when it is over.
        } else if task.op.concerns_objects() {
            self.meter.called(task.op, good, self.ssd.took(since, at), at, &self.ssd);
        } else if good {
            let ns = self.ssd.took(since, at);
            self.meter.completed(task.op, task.bytes, ns, at, &self.ssd);
            task.client.cost(task.op, task.bytes, ns);
            if let Some(window) = &mut self.window {
                window.took(task.op, ns);
            }
        } else {
            self.meter.refused(at);
        }
        match std::mem::replace(&mut task.then, Then::Nothing) {
            Then::Write { lsn, skip, data: new, fua, stream } if good => {
                let (mut whole, bytes) = (data, new.len() as u64);
                whole[skip..skip + new.len()].copy_from_slice(&new);
                self.buffers.give(new);
                let sectors = whole.len() as u64 / u64::from(self.shape.sector_bytes);
                let bytes = Some(bytes);
                let write = Step { fua, stream, data: whole, bytes, ..Step::new(Op::Write, lsn, sectors) };
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
        let due = (self.timing == Timing::Real).then(|| Due {
            arrived: task.arrived,
            at: task.arrived + at.saturating_sub(task.from),
            bytes: task.asked,
        });
        (task.reply)(if good { Ok(task.answer) } else { Err(Fault::Drive(status)) }, due);
        Ok(())
    }
}
