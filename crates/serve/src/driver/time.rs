//! The drive's time: event by event, and what each leaves in the image before anything that follows from it.

use nandle_io::{Command, Completion, Op};
use nandle_ssd::nand::Time;

use super::Driver;
use crate::Error;

/// Events without a completion after which the drive is taken to be stuck.
const PATIENCE: u64 = 1 << 28;

impl Driver {
    /// Carries out everything up to and including `to`.
    pub(super) fn advance(&mut self, to: Time) -> Result<(), Error> {
        while let Some(next) = self.next_event()
            && next <= to
        {
            self.instant(next)?;
            self.release_kept(next)?;
            if self.is_cut() {
                return Ok(());
            }
        }
        if to > self.ssd.now() {
            self.ssd.advance(to, &mut self.done);
        }
        Ok(())
    }

    pub(super) fn run_until_something_completes(&mut self) -> Result<(), Error> {
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
    pub(super) fn instant(&mut self, at: Time) -> Result<(), Error> {
        self.ssd.advance(at, &mut self.done);
        self.ssd.take_changes(&mut self.changes);
        if !self.changes.is_empty() {
            self.roll.charge(self.ssd.flash().array(), &self.changes);
            if let Some(image) = &mut self.image {
                image.follow(self.ssd.flash().array(), &self.changes)?;
            }
            self.changes.clear();
        }
        if let Some(image) = &mut self.image {
            let durable = |c: &Completion| self.tasks.get(&c.id).is_some_and(|task| task.durable);
            if self.done.iter().any(durable) {
                image.make_durable()?;
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

    /// Everything that was written is made durable; the clock runs ahead, nobody waits.
    pub(super) fn shut_down(&mut self) -> Result<(), Error> {
        let (id, at) = (self.next_task, self.ssd.now());
        let flush = Command { id, op: Op::Flush, lsn: 0, sectors: 0, fua: false, stream: 0, data: &[] };
        self.closing = at;
        self.submit(at, at, &flush, Some((at, 0)))?;
        while self.ssd.outstanding() > 0 {
            let Some(next) = self.ssd.next_event() else {
                return Err(Error::Stuck { at_ns: self.ssd.now(), outstanding: self.ssd.outstanding() });
            };
            self.instant(next)?;
        }
        Ok(())
    }
}
