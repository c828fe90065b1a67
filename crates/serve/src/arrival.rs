//! When the bytes of a connection came.
//!
//! The system tells nobody when bytes came to a socket of the file system. So the socket is looked at: before a
//! thread waits at it, whenever it is read, and now and then in between. Bytes that are there now and were not there
//! at the last look came in between, and what counts is the earliest time at which they can have come. A thread that
//! slept was woken up by them: they came when the system made it ready to run, which is as long before it ran as the
//! system says that it waited for a processor.

use std::collections::VecDeque;
use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use nandle_ssd::nand::Time;
use rustix::io::{ioctl_fionread, pread};

use crate::Clock;
use crate::clients::{Arrival, Client};

/// Nanoseconds of the wall clock after which a socket is looked at again while its requests are carried out.
const EVERY_NS: u64 = 20_000;

/// Bytes of a stream up to `end` came then.
#[derive(Clone, Copy, Debug)]
struct Mark {
    end: u64,
    came: Arrival,
}

/// What is known of when the bytes of a stream came; positions are bytes from its beginning.
pub(crate) struct Marks {
    clock: Clock,
    /// Whose answers' senders look at the socket too.
    client: Arc<Client>,
    every: u64,
    marks: VecDeque<Mark>,
    /// Bytes that are known of, of them those that were read from the socket, and when it was last looked at.
    known: u64,
    read: u64,
    seen: Time,
    /// Nothing counts as having come before this.
    floor: Time,
    /// This thread's times at the scheduler, if the system tells them, and how long it has waited in all.
    scheduler: Option<File>,
    waited: u64,
}

impl Marks {
    /// Of this client's stream, of which `read` bytes were read before; for the thread that reads it.
    pub fn new(client: &Arc<Client>, read: u64) -> Self {
        let clock = client.clock();
        let now = clock.now();
        let scheduler = File::open("/proc/thread-self/schedstat").ok();
        let waited = scheduler.as_ref().and_then(waited).unwrap_or(0);
        let every = EVERY_NS.min(clock_ns(&clock, EVERY_NS));
        Self {
            clock,
            client: client.clone(),
            every,
            marks: VecDeque::new(),
            known: read,
            read,
            seen: now,
            floor: 0,
            scheduler,
            waited,
        }
    }

    fn mark(&mut self, end: u64, came: Arrival) {
        if end > self.known {
            self.known = end;
            self.client.spoke(came.earliest);
            self.marks.push_back(Mark { end, came });
        }
        self.seen = came.by;
    }

    /// So many bytes were read, after `slept` since then or without waiting.
    pub fn read(&mut self, bytes: usize, slept: Option<Time>) {
        let now = self.clock.now();
        self.read += bytes as u64;
        let earliest = match slept {
            None => self.seen,
            Some(since) => {
                let total = self.scheduler.as_ref().and_then(waited).unwrap_or(self.waited);
                let waited = total.saturating_sub(std::mem::replace(&mut self.waited, total));
                now.saturating_sub(clock_ns(&self.clock, waited)).max(since)
            }
        };
        self.mark(self.read, Arrival { earliest, by: now });
    }

    /// Before the socket is looked at: others may have found it empty since this thread did.
    pub fn ask_others(&mut self) {
        self.seen = self.seen.max(self.client.silent());
    }

    /// There was nothing to read.
    pub fn nothing_came(&mut self) {
        self.seen = self.clock.now();
    }

    /// When it is.
    pub fn now(&self) -> Time {
        self.clock.now()
    }

    /// Looks at the socket, if that is long ago.
    pub fn look_again(&mut self, socket: BorrowedFd<'_>) {
        if self.clock.now().saturating_sub(self.seen) >= self.every {
            self.look(socket);
        }
    }

    /// Looks at the socket.
    pub fn look(&mut self, socket: BorrowedFd<'_>) {
        self.ask_others();
        let waiting = ioctl_fionread(socket.as_fd()).unwrap_or(0);
        let came = Arrival { earliest: self.seen, by: self.clock.now() };
        self.mark(self.read + waiting, came);
    }

    /// The client had as much under way as one may have: what it sent meanwhile counts from now on.
    pub fn held_back(&mut self) {
        self.floor = self.clock.now();
    }

    /// When the byte at `position` came, which was read; nobody asks for those before it any more.
    pub fn of(&mut self, position: u64) -> Arrival {
        while self.marks.len() > 1 && self.marks[0].end <= position {
            self.marks.pop_front();
        }
        let now = self.seen;
        let came = self.marks.front().map_or(Arrival { earliest: now, by: now }, |mark| mark.came);
        Arrival { earliest: came.earliest.max(self.floor), by: came.by.max(self.floor) }
    }
}

/// Nanoseconds of the wall clock in the drive's time.
fn clock_ns(clock: &Clock, wall_ns: u64) -> u64 {
    (wall_ns as f64 / clock.dilation()) as u64
}

/// How long the thread whose file this is has waited for a processor, in nanoseconds.
fn waited(scheduler: &File) -> Option<u64> {
    let mut text = [0; 64];
    let n = pread(scheduler, &mut text, 0).ok()?;
    std::str::from_utf8(&text[..n]).ok()?.split_whitespace().nth(1)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clients::Roll;
    use std::io::{Read, Write};
    use std::os::unix::net::UnixStream;
    use std::time::Duration;

    #[test]
    fn bytes_came_between_the_look_that_did_not_find_them_and_the_one_that_did() {
        let clock = Clock::started(1.0);
        let (mut mine, mut theirs) = UnixStream::pair().expect("a pair");
        let mut marks = Marks::new(&Roll::new(clock, true).enter("nbd", ""), 0);
        let mut buffer = [0; 10];
        let mut times = vec![];
        let mut send = |bytes: &[u8]| {
            let before = clock.now();
            theirs.write_all(bytes).expect("sent");
            times.push((before, clock.now()));
            std::thread::sleep(Duration::from_millis(2));
        };
        send(b"0123");
        marks.look(mine.as_fd());
        send(b"4567");
        marks.look(mine.as_fd());
        send(b"89");
        assert_eq!(mine.read(&mut buffer).expect("read"), 10);
        marks.read(10, None);
        let mut last = Arrival { earliest: 0, by: 0 };
        for (position, sent) in [(0, times[0]), (3, times[0]), (4, times[1]), (7, times[1]), (9, times[2])] {
            let came = marks.of(position);
            assert!(came.earliest <= sent.1 && came.by >= sent.0, "{position}: {came:?} of {sent:?}");
            assert!(came.earliest >= last.earliest && came.by >= last.by);
            last = came;
        }
        // A look that finds nothing says nothing of what is known.
        assert_eq!(marks.of(9), last);
    }

    #[test]
    fn what_was_not_there_when_an_answer_left_came_after_it() {
        let clock = Clock::started(1.0);
        let client = Roll::new(clock, true).enter("nbd", "");
        let (mut mine, mut theirs) = UnixStream::pair().expect("a pair");
        let mut marks = Marks::new(&client, 0);
        std::thread::sleep(Duration::from_millis(2));
        let left = clock.now();
        client.was_silent(left);
        theirs.write_all(b"01").expect("sent");
        for (position, byte) in [(0, b'0'), (1, b'1')] {
            let mut buffer = [0];
            marks.ask_others();
            mine.read_exact(&mut buffer).expect("read");
            assert_eq!(buffer, [byte]);
            marks.read(1, None);
            assert!(marks.of(position).earliest >= left, "{:?}", marks.of(position));
            // The answer had left when more was said.
            assert_eq!(client.said_more(left), Some(marks.of(position).earliest));
            // What is found later says nothing of what came before.
            client.was_silent(clock.now());
        }
        theirs.write_all(b"2").expect("sent");
        marks.look(mine.as_fd());
        let came = marks.of(2);
        client.was_silent(clock.now());
        marks.look(mine.as_fd());
        assert_eq!(marks.of(2), came);
    }

    #[test]
    fn a_thread_that_was_woken_says_when_that_was() {
        let clock = Clock::started(1.0);
        let (mut mine, mut theirs) = UnixStream::pair().expect("a pair");
        let mut marks = Marks::new(&Roll::new(clock, true).enter("nbd", ""), 5);
        let sender = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(30));
            let before = clock.now();
            theirs.write_all(b"x").expect("sent");
            (before, theirs)
        });
        let since = marks.now();
        assert_eq!(mine.read(&mut [0; 4]).expect("read"), 1);
        marks.read(1, Some(since));
        let (sent, _theirs) = sender.join().expect("sent");
        let came = marks.of(5);
        // The system counts a wait for a processor from the moment at which the byte was there.
        assert!(came.by >= sent && came.earliest <= came.by, "{came:?}, sent at {sent}");
        assert!(came.earliest + 5_000_000 >= sent, "slept through: {came:?}, sent at {sent}");
        marks.held_back();
        assert!(marks.of(5).earliest > came.by);
    }
}
