//! Bounds on what clients have under way: for each one, and for all clients of a drive together.
//!
//! A client has some room of its own, so nobody can keep it from going on in small steps. What it needs beyond that
//! it borrows from a pool that all clients share, and it may borrow no more than the pool still has (dynamic
//! thresholds: A. K. Choudhury and E. L. Hahne, IEEE/ACM Transactions on Networking 6(2), 1998). So one client alone
//! gets what it wants, many that want much get equal shares, and a share is left for the next one. Who has borrowed
//! nothing and finds too little goes first, in the order in which they came.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use crate::lock::lock;

/// Requests of one client under way.
const MOST_REQUESTS: u32 = 1024;
/// Bytes of one client's requests and answers under way.
pub(crate) const MOST_BYTES_UNDER_WAY: u64 = 64 << 20;
/// Bytes that each client has without borrowing.
const OWN: u64 = 1 << 20;
/// Bytes that clients may borrow in all.
const POOL: u64 = 256 << 20;
/// Bytes that a request takes beside its data.
const REQUEST: u64 = 256;

/// What the clients of a drive share.
#[derive(Debug, Default)]
pub(crate) struct Budget {
    pool: Mutex<Pool>,
    changed: Condvar,
}

#[derive(Debug)]
struct Pool {
    free: u64,
    /// Those who have borrowed nothing and wait, oldest first.
    first: VecDeque<u64>,
    next: u64,
    /// Counts what may let somebody who waits go on.
    changes: u64,
    waiting: u32,
}

impl Default for Pool {
    fn default() -> Self {
        Self { free: POOL, first: VecDeque::new(), next: 0, changes: 0, waiting: 0 }
    }
}

impl Pool {
    /// Lends `bytes` to a client that has borrowed `before`, if it may have them now. One that must wait and goes
    /// before others has a `place`.
    fn lend(&mut self, bytes: u64, before: u64, place: Option<u64>) -> bool {
        let turn = match self.first.front() {
            Some(&first) => place == Some(first),
            None => true,
        };
        let may = turn && before + bytes <= self.free;
        if may {
            self.free -= bytes;
        }
        may
    }

    fn line_up(&mut self) -> u64 {
        self.next += 1;
        self.first.push_back(self.next);
        self.next
    }
}

impl Budget {
    fn changed(&self, change: impl FnOnce(&mut Pool)) {
        let mut pool = lock(&self.pool);
        change(&mut pool);
        pool.changes += 1;
        if pool.waiting > 0 {
            self.changed.notify_all();
        }
    }

    /// Waits until there were changes since `seen`.
    fn wait(&self, seen: u64) {
        let mut pool = lock(&self.pool);
        pool.waiting += 1;
        while pool.changes == seen {
            pool = self.changed.wait(pool).unwrap_or_else(PoisonError::into_inner);
        }
        pool.waiting -= 1;
    }
}

#[derive(Debug, Default)]
struct UnderWay {
    requests: u32,
    bytes: u64,
    borrowed: u64,
    /// Threads that wait: without any nobody is woken, which would be a system call.
    waiting: u32,
}

/// Why there is no room for a request.
enum Lack {
    /// The client itself has too much under way.
    Own,
    /// Others have too much under way.
    Pool,
}

/// What one client has under way.
#[derive(Debug, Default)]
pub(crate) struct Account {
    budget: Arc<Budget>,
    now: Mutex<UnderWay>,
}

/// Room that a request takes, until dropped.
#[derive(Debug)]
pub(crate) struct Room {
    account: Arc<Account>,
    bytes: u64,
}

impl Room {
    /// The bytes; they stay taken, and whoever has them now gives them back ([`Account::leave`]).
    pub fn keep(mut self) -> u64 {
        std::mem::take(&mut self.bytes)
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.account.leave(1, self.bytes);
        }
    }
}

impl Account {
    /// Of a new client.
    pub fn new(budget: &Arc<Budget>) -> Arc<Self> {
        Arc::new(Self { budget: budget.clone(), now: Mutex::default() })
    }

    fn enters(&self, bytes: u64, place: Option<u64>) -> Result<(), Lack> {
        let mut now = lock(&self.now);
        if now.requests == MOST_REQUESTS || now.requests > 0 && now.bytes + bytes > MOST_BYTES_UNDER_WAY {
            return Err(Lack::Own);
        }
        let lacking = (now.bytes + bytes).saturating_sub(OWN + now.borrowed);
        if lacking > 0 && !lock(&self.budget.pool).lend(lacking, now.borrowed, place) {
            return Err(if now.borrowed > 0 { Lack::Own } else { Lack::Pool });
        }
        now.requests += 1;
        now.bytes += bytes;
        now.borrowed += lacking;
        Ok(())
    }

    /// Room for a request of so many bytes, if there is some now.
    pub fn try_enter(self: &Arc<Self>, bytes: u64) -> Option<Room> {
        let bytes = bytes.min(MOST_BYTES_UNDER_WAY) + REQUEST;
        self.enters(bytes, None).ok().map(|()| Room { account: self.clone(), bytes })
    }

    /// Room for a request of so many bytes; waits for it.
    pub fn enter(self: &Arc<Self>, bytes: u64) -> Room {
        let bytes = bytes.min(MOST_BYTES_UNDER_WAY) + REQUEST;
        if self.enters(bytes, None).is_ok() {
            return Room { account: self.clone(), bytes };
        }
        let mut place = None;
        lock(&self.now).waiting += 1;
        loop {
            let seen = lock(&self.budget.pool).changes;
            match self.enters(bytes, place) {
                Ok(()) => break,
                Err(Lack::Pool) if place.is_none() => place = Some(lock(&self.budget.pool).line_up()),
                Err(_) => self.budget.wait(seen),
            }
        }
        lock(&self.now).waiting -= 1;
        if place.is_some() {
            self.budget.changed(|pool| {
                let _ = pool.first.pop_front();
            });
        }
        Room { account: self.clone(), bytes }
    }

    /// Whether others wait for what this client has borrowed.
    pub fn is_wanted(&self) -> bool {
        !lock(&self.budget.pool).first.is_empty() && lock(&self.now).borrowed > 0
    }

    /// So many requests with so many bytes in all are over.
    pub fn leave(&self, requests: u32, bytes: u64) {
        let mut now = lock(&self.now);
        now.requests -= requests;
        now.bytes -= bytes;
        let back = now.borrowed.saturating_sub(now.bytes.saturating_sub(OWN)).min(now.borrowed);
        now.borrowed -= back;
        let waited_for = now.waiting > 0;
        drop(now);
        if back > 0 || waited_for {
            self.budget.changed(|pool| pool.free += back);
        }
    }

    /// Waits until nothing is under way.
    pub fn wait_until_empty(&self) {
        lock(&self.now).waiting += 1;
        loop {
            let seen = lock(&self.budget.pool).changes;
            if lock(&self.now).requests == 0 {
                break;
            }
            self.budget.wait(seen);
        }
        lock(&self.now).waiting -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    const MIB: u64 = 1 << 20;

    fn clients<const N: usize>() -> (Arc<Budget>, [Arc<Account>; N]) {
        let budget = Arc::default();
        let all = std::array::from_fn(|_| Account::new(&budget));
        (budget, all)
    }

    fn fill(account: &Arc<Account>, each: u64) -> Vec<Room> {
        std::iter::from_fn(|| account.try_enter(each)).collect()
    }

    #[test]
    fn the_greedy_share_what_there_is_and_leave_a_share() {
        let (budget, all) = clients::<60>();
        let held: Vec<Vec<Room>> = all.iter().map(|one| fill(one, MIB)).collect();
        let total: u64 = held.iter().flatten().map(|room| room.bytes).sum();
        assert!(total <= POOL + 60 * OWN, "{total}");
        let (most, free) = (POOL / 4, lock(&budget.pool).free);
        assert!(held.iter().all(|rooms| (rooms.len() as u64) * MIB <= most));
        // A client that comes now has its own room, whatever the others hold.
        let good = Account::new(&budget);
        let rooms: Vec<Room> = (0..128).map(|_| good.try_enter(4096).expect("room of its own")).collect();
        assert!(free < POOL / 4, "{free} of the pool are left");
        drop((held, rooms));
        assert_eq!(lock(&budget.pool).free, POOL);
    }

    #[test]
    fn a_share_is_left_for_the_next_one() {
        let (budget, all) = clients::<6>();
        // Four times as much as one may have is all that there is to borrow.
        let _held: Vec<Vec<Room>> = all.iter().map(|one| fill(one, MIB)).collect();
        assert!(Account::new(&budget).try_enter(2 * MIB).is_some());
    }

    #[test]
    fn one_alone_has_what_a_client_may_have() {
        let (_, [one]) = clients();
        assert_eq!(fill(&one, MIB).len() as u64, MOST_BYTES_UNDER_WAY / MIB - 1);
        assert_eq!(fill(&one, 0).len(), MOST_REQUESTS as usize);
        assert!(one.try_enter(u64::MAX).is_some_and(|room| room.bytes == MOST_BYTES_UNDER_WAY + REQUEST));
    }

    #[test]
    fn who_has_nothing_goes_before_those_who_have_much() {
        let (budget, all) = clients::<40>();
        let mut held: Vec<Vec<Room>> = all.iter().map(|one| fill(one, 2 * MIB)).collect();
        let large = Account::new(&budget);
        assert!(large.try_enter(32 * MIB).is_none());
        let waits = std::thread::spawn({
            let large = large.clone();
            move || large.enter(32 * MIB)
        });
        while lock(&budget.pool).waiting == 0 {
            std::thread::sleep(Duration::from_millis(1));
        }
        // What is given back is not borrowed again by those that have some left.
        for (rooms, one) in held.iter_mut().zip(&all) {
            rooms.pop();
            assert!(rooms.is_empty() || waits.is_finished() || one.try_enter(2 * MIB).is_none());
        }
        held.truncate(2);
        drop(waits.join().expect("its turn comes"));
        assert!(lock(&budget.pool).first.is_empty());
    }
}
