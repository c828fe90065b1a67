//! Faults on order ([`crate::ctl`]): commands that come late or fail, no room, write protection.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use nandle_io::Op;
use nandle_ssd::nand::Time;

use crate::Fault;
use crate::order::{Kind, Late, Standing};

/// What was ordered, and which tasks wait because of it.
#[derive(Default)]
pub(super) struct Faults {
    pub standing: Standing,
    /// Tasks that reach the drive late: when, and what they began as.
    late: BinaryHeap<Reverse<(Time, u64, Op)>>,
}

impl Faults {
    /// How the next command of this kind fails, if it does.
    pub fn refuse(&mut self, op: Op) -> Option<Fault> {
        let Standing { fail, full, .. } = &mut self.standing;
        if !*full && fail.is_empty() {
            return None;
        }
        if take(fail, op).is_some() {
            return Some(Fault::Failed);
        }
        (*full && op == Op::Write).then_some(Fault::Full)
    }

    /// Whether a task is kept until later: such a command that came at `at`.
    pub fn keeps(&mut self, op: Op, at: Time, task: u64) -> bool {
        let ns = take(&mut self.standing.latency, op);
        self.late.extend(ns.map(|ns| Reverse((at.saturating_add(ns), task, op))));
        ns.is_some()
    }

    /// When the next task is kept until.
    pub fn next(&self) -> Option<Time> {
        self.late.peek().map(|Reverse((at, ..))| *at)
    }

    /// A task that is kept no longer.
    pub fn release(&mut self, now: Time) -> Option<u64> {
        self.next().filter(|&at| at <= now)?;
        self.late.pop().map(|Reverse((_, task, _))| task)
    }

    /// The tasks of these kinds that were kept, which no longer are: in the order in which they would have gone on.
    pub fn release_all(&mut self, of: &[Kind]) -> Vec<u64> {
        let late = std::mem::take(&mut self.late).into_sorted_vec();
        let freed = |late: &Reverse<(Time, u64, Op)>| of.iter().any(|of| of.op() == late.0.2);
        let (free, kept): (Vec<_>, Vec<_>) = late.into_iter().rev().partition(freed);
        self.late = kept.into();
        free.into_iter().map(|Reverse((_, task, _))| task).collect()
    }
}

/// What the first fault for such a command says, which is one less then.
fn take(from: &mut Vec<Late>, op: Op) -> Option<Time> {
    let at = from.iter().position(|late| late.of.op() == op)?;
    let ns = from[at].ns;
    if let Some(left) = &mut from[at].requests_left {
        *left -= 1;
        if *left == 0 {
            from.remove(at);
        }
    }
    Some(ns)
}
