//! Requests on their way to the drive, one queue for each client, taken in turns.
//!
//! A turn is worth so many bytes of requests (deficit round robin: M. Shreedhar and G. Varghese, SIGCOMM 1995), so a
//! client that asks for much takes nothing from one that asks for little. What clients want to know of the drive's
//! state has turns of its own, cut into slices: one slice for each round of requests, whoever and how many ask.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use nandle_io::Op;
use nandle_ssd::Ssd;
use nandle_ssd::nand::Time;

use crate::lock::lock;
use crate::request::{Job, Message, Reply};

/// Requests of one client in the queue before it is made to wait; as many looks.
const QUEUE: usize = 1024;
/// Bytes of requests in a client's turn.
const TURN: u64 = 16 << 10;
/// Bytes that a request counts for at least: it costs time even if it moves nothing.
const LEAST: u64 = 4096;
/// Bytes that a request counts for at most. Zeros can be asked for by the terabyte, and what is owed is paid turn by
/// turn.
const MOST: u64 = 64 << 20;

/// Looks at the drive for the length of a slice; whether that was all. It must not block.
pub(crate) type Look = Box<dyn FnMut(&Ssd) -> bool + Send>;

/// What the drive carries out.
pub(crate) enum Request {
    Job(Job),
    NextUnits(Vec<u16>, Reply),
}

impl Request {
    fn cost(&self) -> u64 {
        match self {
            Self::Job(Job { io, .. }) if matches!(io.op, Op::Read | Op::Write) => io.bytes.clamp(LEAST, MOST),
            _ => LEAST,
        }
    }

    /// When its transport had it.
    fn arrival(&self) -> Time {
        if let Self::Job(job) = self { job.came.by } else { 0 }
    }

    pub fn reply(self) -> Reply {
        match self {
            Self::Job(Job { reply, .. }) | Self::NextUnits(_, reply) => reply,
        }
    }
}

#[derive(Default)]
struct Queue {
    requests: VecDeque<Request>,
    looks: VecDeque<Look>,
    /// Bytes that are left of its turn; more than it had are left to pay.
    credit: i64,
    /// Its handle is gone.
    left: bool,
}

#[derive(Default)]
struct State {
    queues: BTreeMap<u64, Queue>,
    next: u64,
    /// Whose turn comes: of requests, and of looks. A client is in each as long as it has some.
    requests: VecDeque<u64>,
    looks: VecDeque<u64>,
    messages: VecDeque<Message>,
    waiting: u32,
}

/// Queues, and whose turn it is.
#[derive(Default)]
pub(crate) struct Inbox {
    state: Mutex<State>,
    room: Condvar,
    /// What is in it. Like the other two it is looked at without the lock, and changed with it.
    count: AtomicUsize,
    handles: AtomicUsize,
    /// Nothing more is taken.
    closed: AtomicBool,
}

/// A client's queue.
pub(crate) struct Line {
    inbox: Arc<Inbox>,
    number: u64,
}

impl Line {
    /// A further queue.
    pub fn new(inbox: &Arc<Inbox>) -> Arc<Self> {
        let mut state = lock(&inbox.state);
        state.next += 1;
        inbox.handles.fetch_add(1, Ordering::SeqCst);
        let number = state.next;
        state.queues.insert(number, Queue::default());
        Arc::new(Self { inbox: inbox.clone(), number })
    }

    /// A queue of another client.
    pub fn another(&self) -> Arc<Self> {
        Self::new(&self.inbox)
    }

    /// Puts a request in; gives it back if nothing is taken any more.
    pub fn send(&self, request: Request) -> Result<(), Request> {
        self.put(request, |queue| &mut queue.requests, |state| &mut state.requests)
    }

    /// Puts a look in.
    pub fn look(&self, look: Look) -> Result<(), Look> {
        self.put(look, |queue| &mut queue.looks, |state| &mut state.looks)
    }

    fn put<T>(
        &self,
        what: T,
        of_queue: impl Fn(&mut Queue) -> &mut VecDeque<T>,
        turns: impl Fn(&mut State) -> &mut VecDeque<u64>,
    ) -> Result<(), T> {
        let mut state = lock(&self.inbox.state);
        loop {
            let closed = self.inbox.is_closed();
            let Some(queue) = state.queues.get_mut(&self.number).filter(|_| !closed) else {
                return Err(what);
            };
            let queue = of_queue(queue);
            if queue.len() < QUEUE {
                let first = queue.is_empty();
                queue.push_back(what);
                if first {
                    turns(&mut state).push_back(self.number);
                }
                self.inbox.count.fetch_add(1, Ordering::SeqCst);
                return Ok(());
            }
            state.waiting += 1;
            state = self.inbox.room.wait(state).unwrap_or_else(PoisonError::into_inner);
            state.waiting -= 1;
        }
    }

    /// Puts in what is for the driver itself; gives it back if nothing is taken any more.
    pub fn message(&self, message: Message) -> Result<(), Message> {
        let mut state = lock(&self.inbox.state);
        if self.inbox.is_closed() {
            return Err(message);
        }
        state.messages.push_back(message);
        self.inbox.count.fetch_add(1, Ordering::SeqCst);
        Ok(())
    }

    /// Nothing more is taken; what waits to look is let go.
    pub fn close(&self) {
        let looks = self.inbox.close();
        drop(looks);
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut state = lock(&self.inbox.state);
        self.inbox.handles.fetch_sub(1, Ordering::SeqCst);
        if let Some(queue) = state.queues.get_mut(&self.number) {
            queue.left = true;
            state.forget(self.number);
        }
    }
}

impl State {
    /// A client that is gone, and for which nothing is left to do, has no queue.
    fn forget(&mut self, number: u64) {
        let over = |queue: &Queue| queue.left && queue.requests.is_empty() && queue.looks.is_empty();
        if self.queues.get(&number).is_some_and(over) {
            self.queues.remove(&number);
        }
    }
}

impl Inbox {
    pub fn is_empty(&self) -> bool {
        self.count.load(Ordering::SeqCst) == 0
    }

    /// How much waits.
    pub fn len(&self) -> usize {
        self.count.load(Ordering::SeqCst)
    }

    /// Whether nothing waits, and nothing will come.
    pub fn is_over(&self) -> bool {
        self.is_empty() && (self.is_closed() || self.handles.load(Ordering::SeqCst) == 0)
    }

    /// Whether nothing more is taken.
    pub fn is_closed(&self) -> bool {
        self.closed.load(Ordering::SeqCst)
    }

    /// Whether somebody waits for an answer of the driver's own.
    pub fn asks(&self) -> bool {
        !lock(&self.state).messages.is_empty()
    }

    /// Whether somebody waits for a look.
    pub fn looks(&self) -> bool {
        !lock(&self.state).looks.is_empty()
    }

    /// How many clients have requests here: the turns of a round.
    pub fn clients(&self) -> usize {
        lock(&self.state).requests.len()
    }

    fn took(&self, state: &State) {
        self.count.fetch_sub(1, Ordering::SeqCst);
        if state.waiting > 0 {
            self.room.notify_all();
        }
    }

    /// The next of what is for the driver itself.
    pub fn next_message(&self) -> Option<Message> {
        let mut state = lock(&self.state);
        let message = state.messages.pop_front()?;
        self.took(&state);
        Some(message)
    }

    /// The next request that had come by then, of the client whose turn it is, and whether that ends its turn.
    pub fn next_request(&self, by: Time) -> Option<(Request, bool)> {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        // Clients in a row of whom nothing had come by then.
        let mut later = 0;
        while later < state.requests.len() {
            let number = *state.requests.front()?;
            let Some(queue) = state.queues.get_mut(&number) else {
                state.requests.pop_front();
                continue;
            };
            if queue.requests.front().is_some_and(|request| request.arrival() > by) {
                state.requests.rotate_left(1);
                later += 1;
                continue;
            }
            if queue.credit <= 0 {
                queue.credit += TURN as i64;
                if queue.credit <= 0 {
                    state.requests.rotate_left(1);
                    later = 0;
                    continue;
                }
            }
            let Some(request) = queue.requests.pop_front() else {
                state.requests.pop_front();
                continue;
            };
            queue.credit -= i64::try_from(request.cost()).unwrap_or(i64::MAX / 2);
            let empty = queue.requests.is_empty();
            let over = empty || queue.credit <= 0;
            if empty {
                // Who has nothing to ask for saves nothing, and owes what it took.
                queue.credit = queue.credit.min(0);
                state.requests.pop_front();
                state.forget(number);
            } else if over {
                state.requests.rotate_left(1);
            }
            self.took(state);
            return Some((request, over));
        }
        None
    }

    /// The next look, which goes back ([`Self::again`]) if it is not over.
    pub fn next_look(&self) -> Option<(u64, Look)> {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        let number = state.looks.pop_front()?;
        let look = state.queues.get_mut(&number)?.looks.pop_front()?;
        Some((number, look))
    }

    /// A look had its slice: it is over, or goes on in its client's next turn.
    pub fn looked(&self, number: u64, look: Option<Look>) {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        // What a look keeps may be a client's last handle: it is let go without the lock.
        let (again, _ended) = if self.is_closed() { (None, look) } else { (look, None) };
        let over = again.is_none();
        if let Some(queue) = state.queues.get_mut(&number) {
            if let Some(look) = again {
                queue.looks.push_front(look);
            }
            if !queue.looks.is_empty() {
                state.looks.push_back(number);
            }
        }
        if over {
            self.took(state);
            state.forget(number);
        }
        drop(guard);
    }

    fn close(&self) -> Vec<Look> {
        let mut guard = lock(&self.state);
        let state = &mut *guard;
        self.closed.store(true, Ordering::SeqCst);
        state.looks.clear();
        let looks: Vec<Look> = state.queues.values_mut().flat_map(|queue| queue.looks.drain(..)).collect();
        self.count.fetch_sub(looks.len(), Ordering::SeqCst);
        self.room.notify_all();
        looks
    }

    /// Nothing more is taken; what is there is given back.
    pub fn end(&self) -> Vec<Request> {
        drop(self.close());
        let mut state = lock(&self.state);
        state.requests.clear();
        let messages = state.messages.drain(..).count();
        let requests: Vec<Request> =
            state.queues.values_mut().flat_map(|queue| queue.requests.drain(..)).collect();
        self.count.fetch_sub(requests.len() + messages, Ordering::SeqCst);
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::{Arrival, Roll};
    use crate::{Clock, Io};

    fn at(by: Time, io: Io) -> Request {
        let client = Roll::new(Clock::started(1.0), true).enter("program", "");
        Request::Job(Job { came: Arrival { earliest: by, by }, client, io, reply: Box::new(|_, _| {}) })
    }

    fn job(io: Io) -> Request {
        at(0, io)
    }

    fn offset(request: &Request) -> u64 {
        if let Request::Job(job) = request { job.io.offset } else { u64::MAX }
    }

    #[test]
    fn who_asks_for_much_takes_nothing_from_who_asks_for_little() {
        let inbox = Arc::default();
        let (greedy, small) = (Line::new(&inbox), Line::new(&inbox));
        for n in 0..300 {
            assert!(greedy.send(job(Io::read(n, 1 << 20))).is_ok());
            assert!(small.send(job(Io::read(1 << 40 | n, 4096))).is_ok());
        }
        let taken = std::iter::from_fn(|| inbox.next_request(0)).map(|(request, _)| offset(&request));
        let taken: Vec<u64> = taken.collect();
        assert_eq!(taken.len(), 600);
        // Four small ones are worth a turn, 64 turns a large one.
        let before =
            taken.iter().take_while(|&&at| at != (1 << 40 | 299)).filter(|&&at| at < 1 << 40).count();
        assert!((1..=3).contains(&before), "{before} large ones before the last small one");
        for mine in [|at: &u64| *at < 1 << 40, |at: &u64| *at >= 1 << 40] {
            assert!(taken.iter().copied().filter(mine).is_sorted(), "each one's are in order");
        }
        assert!(inbox.is_empty() && !inbox.is_over());
        drop((greedy, small));
        assert!(inbox.is_over() && lock(&inbox.state).queues.is_empty());
    }

    #[test]
    fn what_comes_later_is_taken_later_and_a_client_that_is_gone_is_served_to_its_end() {
        let inbox = Arc::default();
        let (early, late) = (Line::new(&inbox), Line::new(&inbox));
        let at = |by, offset| at(by, Io::read(offset, 1));
        assert!(late.send(at(9, 1)).is_ok() && early.send(at(3, 2)).is_ok() && early.send(at(7, 3)).is_ok());
        drop((early, late));
        let next = |by| inbox.next_request(by).map(|(request, _)| offset(&request));
        assert_eq!([next(2), next(8), next(8), next(8), next(9)], [None, Some(2), Some(3), None, Some(1)]);
        assert!(inbox.is_over());
    }

    #[test]
    fn zeros_by_the_terabyte_are_paid_for_in_no_time() {
        let inbox = Arc::default();
        let line = Line::new(&inbox);
        assert!(line.send(job(Io::zeros(0, 1 << 60, false))).is_ok() && line.send(job(Io::flush())).is_ok());
        let began = std::time::Instant::now();
        assert!(inbox.next_request(0).is_some() && inbox.next_request(0).is_some());
        assert!(began.elapsed() < std::time::Duration::from_secs(5), "{:?}", began.elapsed());
    }

    #[test]
    fn looks_have_turns_and_end_with_the_drive() {
        let inbox = Arc::default();
        let lines = [Line::new(&inbox), Line::new(&inbox)];
        for line in &lines {
            for _ in 0..2 {
                assert!(line.look(Box::new(|_| true)).is_ok());
            }
        }
        let mut seen = vec![];
        for over in [false, true, false, true] {
            let (client, look) = inbox.next_look().expect("a look");
            seen.push(client);
            inbox.looked(client, (!over).then_some(look));
        }
        assert_eq!(seen, [1, 2, 1, 2]);
        assert!(inbox.looks() && inbox.len() == 2);
        assert!(lines[0].send(job(Io::flush())).is_ok());
        lines[0].close();
        assert!(!inbox.looks() && inbox.len() == 1 && !inbox.is_over());
        assert!(lines[1].look(Box::new(|_| true)).is_err() && lines[1].send(job(Io::flush())).is_err());
        assert_eq!(inbox.end().len(), 1);
        assert!(inbox.is_over());
    }
}
