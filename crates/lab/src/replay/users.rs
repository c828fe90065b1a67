//! Several users of one drive, each in a closed loop of its own.

use std::collections::VecDeque;

use nandle_ssd::nand::Time;
use nandle_trace::synthetic::{Replay, User};
use nandle_trace::{Op, Request, Source, Turn};

use crate::Error;

/// Users of one phase.
const MOST: usize = 256;

/// Everybody who uses the drive in a phase.
pub(super) struct Users {
    members: Vec<Member>,
    /// Whose turn it is when several could go on.
    turn: usize,
    begin: Time,
    /// Steps that may have given others something to do.
    steps: u64,
    step: Vec<Request>,
}

struct Member {
    source: Box<dyn Source>,
    /// Its FlashAlloc calls are made.
    calls: bool,
    calls_amid: bool,
    /// Row of the results that it is counted in.
    row: usize,
    depth: usize,
    /// When it may have issued each of the requests that it may still issue.
    turns: VecDeque<Time>,
    /// What it is about to issue, and since when.
    pending: VecDeque<Request>,
    since: Time,
    /// Trims under way.
    trims: u32,
    /// It waits for a flush, or an answer to a call.
    held: bool,
    state: State,
}

/// What a user does who is about to issue nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Asked,
    /// Until others have taken more than so many steps.
    Waits(u64),
    Until(Time),
    Ended,
}

/// A request of a user.
pub(super) struct Issue {
    pub user: u8,
    pub request: Request,
    pub arrival: Time,
    /// The user makes FlashAlloc calls.
    pub calls: bool,
}

impl Users {
    /// The users, and the names of the rows that they are counted in.
    pub fn new(users: Vec<User>, begin: Time) -> Result<(Self, Vec<String>), Error> {
        if users.len() > MOST {
            return Err(Error::input(format!(
                "{} users share the drive: expected at most {MOST}",
                users.len()
            )));
        }
        let mut rows: Vec<String> = vec![];
        let mut members = vec![];
        for user in users {
            let Replay::Closed { iodepth } = user.replay else {
                return Err(Error::input(
                    "users who share a drive are replayed closed, each in its own loop",
                ));
            };
            let row = rows.iter().position(|name| *name == user.name).unwrap_or_else(|| {
                rows.push(user.name);
                rows.len() - 1
            });
            members.push(Member {
                source: user.source,
                calls: user.calls,
                calls_amid: user.calls_amid,
                row,
                depth: iodepth.max(1) as usize,
                turns: vec![begin; iodepth.max(1) as usize].into(),
                pending: VecDeque::new(),
                since: begin,
                trims: 0,
                held: false,
                state: State::Asked,
            });
        }
        Ok((Self { members, turn: 0, begin, steps: 0, step: vec![] }, rows))
    }

    /// The next request that is to be issued `now`, if any: users go in turns. Further ranges of the
    /// object that it announces go to `ranges`.
    pub fn next(&mut self, now: Time, ranges: &mut Vec<Request>) -> Result<Option<Issue>, Error> {
        let mut idle = 0;
        while idle < self.members.len() {
            let number = self.turn;
            self.turn = (number + 1) % self.members.len();
            let steps = self.steps;
            self.ask(number, now)?;
            if self.steps > steps {
                idle = 0; // others may have something to do now
            }
            let member = &mut self.members[number];
            let Some(request) = member.take() else {
                idle += 1;
                continue;
            };
            ranges.clear();
            if request.op == Op::FlashAlloc && request.object != 0 {
                let same = |r: &Request| (r.op, r.object) == (request.op, request.object);
                while let Some(range) = member.pending.front().copied().filter(same) {
                    member.pending.pop_front();
                    ranges.push(range);
                }
            }
            let turn = member.turns.pop_front().unwrap_or(now);
            return Ok(Some(Issue {
                user: number as u8,
                request,
                arrival: turn.max(member.since),
                calls: member.calls,
            }));
        }
        Ok(None)
    }

    /// Has a user go on that has nothing left to issue.
    fn ask(&mut self, number: usize, now: Time) -> Result<(), Error> {
        let member = &mut self.members[number];
        let asleep = match member.state {
            State::Asked => false,
            State::Waits(steps) => steps == self.steps,
            State::Until(at) => at > now,
            State::Ended => true,
        };
        if asleep || member.held || member.turns.is_empty() || !member.pending.is_empty() {
            return Ok(());
        }
        let turn = member.source.step(now - self.begin, &mut self.step)?;
        member.pending.extend(self.step.drain(..));
        if member.state != State::Asked {
            member.since = now;
        }
        match turn {
            Turn::Requests => member.state = State::Asked,
            Turn::Wait => {
                member.state = State::Waits(self.steps);
                return Ok(());
            }
            Turn::Until(ns) => {
                member.state = State::Until(self.begin.saturating_add(ns));
                return Ok(());
            }
            Turn::End => {
                member.state = State::Ended;
                // What they wait for may never come: they are asked again.
                for other in self.members.iter_mut().filter(|m| matches!(m.state, State::Until(_))) {
                    other.state = State::Waits(self.steps);
                }
            }
        }
        self.steps += 1;
        Ok(())
    }

    /// A request of `user` has completed, or was lost, at `at`.
    #[inline]
    pub fn completed(&mut self, user: u8, op: Op, at: Time) {
        let member = &mut self.members[usize::from(user)];
        member.turns.push_back(at);
        match op {
            Op::Read | Op::Write => {}
            Op::Trim => member.trims -= 1,
            Op::Flush | Op::FlashAlloc | Op::FlashFree => member.held = false,
        }
    }

    /// Row of the results that `user` is counted in.
    #[inline]
    pub fn row(&self, user: u8) -> usize {
        self.members[usize::from(user)].row
    }

    /// The drive is back at `now`, after the power was gone: nobody issues anything before.
    pub fn resume(&mut self, now: Time) {
        for member in &mut self.members {
            member.turns.iter_mut().for_each(|turn| *turn = (*turn).max(now));
        }
    }

    /// When the first of those wakes up who wait for an instant after `now`.
    pub fn wakes(&self, now: Time) -> Option<Time> {
        let until = |m: &Member| if let State::Until(at) = m.state { Some(at) } else { None };
        self.members.iter().filter_map(until).filter(|&at| at > now).min()
    }

    /// Everybody is done.
    pub fn ended(&self) -> bool {
        self.members.iter().all(|m| m.state == State::Ended && m.pending.is_empty())
    }
}

impl Member {
    /// The next request, if it may be issued now.
    fn take(&mut self) -> Option<Request> {
        if self.held || self.turns.is_empty() {
            return None;
        }
        let op = self.pending.front()?.op;
        match op {
            Op::Read | Op::Write => {}
            Op::Trim => self.trims += 1,
            // Not in space that is still being trimmed.
            Op::FlashAlloc if self.calls_amid && self.trims > 0 => return None,
            Op::FlashAlloc if self.calls_amid => self.held = true,
            Op::Flush | Op::FlashAlloc | Op::FlashFree => {
                if self.turns.len() < self.depth {
                    return None; // it has requests under way
                }
                // It comes behind the last of them.
                self.turns.make_contiguous().sort_unstable_by(|a, b| b.cmp(a));
                self.held = true;
            }
        }
        self.pending.pop_front()
    }
}
