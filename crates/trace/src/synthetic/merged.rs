//! Several users as one stream of requests, for tools that have no drive: trace files, statistics.

use std::collections::VecDeque;

use super::User;
use crate::{Error, Op, Request, Source, Turn};

/// The users in turns, a request each. Time passes as on a drive that serves `rate` bytes a second, one
/// request after the other: it is what users wait for who have nothing to do before a certain instant.
pub(super) struct Merged {
    users: Vec<Member>,
    turn: usize,
    rate: u64,
    now_ns: u64,
    step: Vec<Request>,
    /// Steps that may have given others something to do.
    steps: u64,
}

struct Member {
    source: Box<dyn Source>,
    pending: VecDeque<Request>,
    until_ns: u64,
    ended: bool,
}

impl Merged {
    pub fn new(users: Vec<User>, rate: u64) -> Self {
        let member =
            |u: User| Member { source: u.source, pending: VecDeque::new(), until_ns: 0, ended: false };
        let users = users.into_iter().map(member).collect();
        Self { users, turn: 0, rate: rate.max(1), now_ns: 0, step: vec![], steps: 0 }
    }

    /// The next request of the user whose turn it is, if it has one now.
    fn ask(&mut self) -> Result<Option<Request>, Error> {
        let member = &mut self.users[self.turn];
        if member.pending.is_empty() && !member.ended && member.until_ns <= self.now_ns {
            let turn = member.source.step(self.now_ns, &mut self.step)?;
            match turn {
                Turn::Requests | Turn::Wait => {}
                Turn::Until(ns) => member.until_ns = ns,
                Turn::End => member.ended = true,
            }
            self.steps += u64::from(matches!(turn, Turn::Requests | Turn::End));
            member.pending.extend(self.step.drain(..));
        }
        Ok(member.pending.pop_front())
    }

    fn next(&mut self) -> Result<Option<Request>, Error> {
        loop {
            let steps = self.steps;
            for _ in 0..self.users.len() {
                let request = self.ask()?;
                // The ranges of an object are one call: they stay together.
                let more = request.filter(|r| r.op == Op::FlashAlloc).is_some_and(|r| {
                    let next = self.users[self.turn].pending.front();
                    next.is_some_and(|n| (n.op, n.object) == (r.op, r.object))
                });
                if !more {
                    self.turn = (self.turn + 1) % self.users.len();
                }
                if let Some(request) = request {
                    let moved = if request.op.moves_data() { request.bytes } else { 0 };
                    self.now_ns += (u128::from(moved) * 1_000_000_000 / u128::from(self.rate)) as u64;
                    return Ok(Some(Request { time_ns: 0, ..request }));
                }
            }
            let later = self.users.iter().filter(|u| !u.ended && u.until_ns > self.now_ns);
            let wakes = later.map(|u| u.until_ns).min();
            if self.users.iter().all(|u| u.ended) {
                return Ok(None);
            }
            match wakes {
                // Those who waited are asked again.
                _ if self.steps > steps => {}
                Some(ns) => self.now_ns = ns,
                None => return Err(Error::Input("all users of the workload wait for each other".into())),
            }
        }
    }
}

impl Source for Merged {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        for _ in 0..max {
            match self.next()? {
                Some(request) => out.push(request),
                None => break,
            }
        }
        Ok(())
    }
}
