//! When the machine was too slow for the drive.
//!
//! Answers are judged second by second of the wall clock. One is late if it left more than 100 us after it was due (two
//! threads have to wake up for it), or more than twice what was modelled, whichever is less; a tenth of what was modelled
//! is always tolerated. A second in which more than a tenth of the answers were late is one of overload. What clients
//! measured then are the machine's figures.

use nandle_ssd::nand::Time;
use serde_json::{Value, json};

/// What an answer may be late by before it counts as late, in nanoseconds of the wall clock: two threads wake up.
pub const TOLERATED_NS: u64 = 100_000;
/// The most of that, in modelled latencies; and what may be tolerated in any case, one in so many.
const MOST_TIMES: u64 = 2;
const TOLERATED_SHARE: u64 = 10;
/// One late answer in so many is too many.
const ONE_IN: u64 = 10;
/// Nanoseconds that are judged at a time.
const SECOND: f64 = 1e9;
/// Times of overload that are kept apart; further ones become part of the last.
const MOST: usize = 1000;

/// A time in which the machine was too slow.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Overload {
    /// When the first late answer was due, in the drive's time.
    pub from: Time,
    /// When the last one left.
    pub to: Time,
    /// Answers of its seconds.
    pub answers: u64,
    /// Of these, late ones.
    pub late: u64,
    /// The latest.
    pub max_ns: u64,
}

impl Overload {
    pub(crate) fn json(&self) -> Value {
        json!({
            "from_ns": self.from,
            "to_ns": self.to,
            "answers": self.answers,
            "late": self.late,
            "lateness_max_ns": self.max_ns,
        })
    }

    fn join(&mut self, later: &Self) {
        self.to = self.to.max(later.to);
        self.from = self.from.min(later.from);
        self.answers += later.answers;
        self.late += later.late;
        self.max_ns = self.max_ns.max(later.max_ns);
    }
}

/// Judges seconds, one after the other.
#[derive(Clone, Debug)]
pub(crate) struct Judge {
    /// Nanoseconds of the drive's time that a second of the wall clock is, and that are tolerated.
    second: u64,
    tolerated: u64,
    /// Which second it is.
    number: u64,
    now: Overload,
    past: Vec<Overload>,
    /// The second before this one was one of overload.
    goes_on: bool,
}

impl Judge {
    pub fn new(dilation: f64) -> Self {
        Self {
            second: (SECOND / dilation).max(1.0) as u64,
            tolerated: (TOLERATED_NS as f64 / dilation) as u64,
            number: 0,
            now: Overload::default(),
            past: Vec::new(),
            goes_on: false,
        }
    }

    /// An answer that was due at `due`, `modelled` nanoseconds after its request arrived, left at `left`.
    pub fn answer(&mut self, due: Time, modelled: u64, left: Time) {
        let number = left / self.second;
        if number > self.number {
            self.close();
            self.goes_on &= number == self.number + 1;
            self.number = number;
        }
        let late = left.saturating_sub(due);
        self.now.answers += 1;
        if late > self.tolerated.min(modelled * MOST_TIMES).max(modelled / TOLERATED_SHARE) {
            if self.now.late == 0 || due < self.now.from {
                self.now.from = due;
            }
            self.now.late += 1;
            self.now.to = self.now.to.max(left);
            self.now.max_ns = self.now.max_ns.max(late);
        }
    }

    /// The present second is over.
    fn close(&mut self) {
        let now = std::mem::take(&mut self.now);
        let overloaded = now.late * ONE_IN > now.answers;
        let full = self.past.len() == MOST;
        match self.past.last_mut() {
            _ if !overloaded => {}
            Some(last) if full || self.goes_on || now.from <= last.to => last.join(&now),
            _ => self.past.push(now),
        }
        self.goes_on = overloaded;
    }

    /// The times of overload so far, the present second included.
    pub fn verdict(&self) -> Vec<Overload> {
        let mut whole = self.clone();
        whole.close();
        whole.past
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const S: u64 = 1_000_000_000;

    /// Second `n`: 100 answers to reads of 50 us, of which `late` are late by 3 ms.
    fn second(judge: &mut Judge, n: u64, late: u64) {
        for k in 0..100 {
            let due = n * S + k * 5_000_000;
            judge.answer(due, 50_000, due + if k < late { 3_000_000 } else { 20_000 });
        }
    }

    #[test]
    fn a_tenth_of_late_answers_is_tolerated_and_more_are_told_of() {
        let mut judge = Judge::new(1.0);
        for (n, late) in [(0, 10), (1, 11), (2, 100), (3, 0), (4, 10), (9, 50), (11, 50)] {
            second(&mut judge, n, late);
        }
        let found = judge.verdict();
        let spans: Vec<_> = found.iter().map(|o| (o.from, o.to, o.answers, o.late, o.max_ns)).collect();
        let ms = 1_000_000;
        assert_eq!(
            spans,
            [
                (S, 2 * S + 99 * 5 * ms + 3 * ms, 200, 111, 3 * ms),
                (9 * S, 9 * S + 49 * 5 * ms + 3 * ms, 100, 50, 3 * ms),
                (11 * S, 11 * S + 49 * 5 * ms + 3 * ms, 100, 50, 3 * ms),
            ]
        );
    }

    #[test]
    fn what_is_late_depends_on_what_was_modelled_and_on_the_dilation() {
        // 300 us late: nothing to a write of 5 ms, much to a read of 50 us, and 3 ms of the wall clock at 10; 30 us: much
        // to a write of 10 us to the buffer.
        for (dilation, modelled, late_ns, found) in [
            (1.0, 5_000_000, 300_000, 0),
            (1.0, 50_000, 300_000, 1),
            (10.0, 50_000, 9_000, 0),
            (10.0, 50_000, 11_000, 1),
            (1.0, 10_000, 19_000, 0),
            (1.0, 10_000, 30_000, 1),
        ] {
            let mut judge = Judge::new(dilation);
            judge.answer(1_000_000, modelled, 1_000_000 + late_ns);
            assert_eq!(judge.verdict().len(), found, "{dilation} {modelled} {late_ns}");
        }
    }

    #[test]
    fn a_life_of_overload_takes_bounded_memory() {
        let mut judge = Judge::new(1.0);
        (0..4 * MOST as u64).step_by(2).for_each(|n| second(&mut judge, n, 100));
        let found = judge.verdict();
        assert_eq!(found.len(), MOST);
        assert_eq!(found.iter().map(|o| o.late).sum::<u64>(), 200 * MOST as u64);
    }
}
