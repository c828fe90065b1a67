//! How long clients may take: for the handshake as a whole, for each message and each answer as a whole.
//!
//! Waiting for a message to begin has no limit, unless a protocol sets one: a disk may be idle for days. But what has
//! been started has a time by which it must be over, and a byte now and then buys nothing.

use std::io::{self, Read};
use std::os::fd::BorrowedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::net::{RecvFlags, SendFlags, recv, send};

use crate::arrival::Marks;
use crate::buffers::sized;
use crate::clients::{Arrival, Client};
use crate::listen::Stream;
use crate::wink::Wink;

/// How long a client may take until it has said what it wants of the server.
pub(crate) const HANDSHAKE: Duration = Duration::from_secs(20);
/// How long a message may take from its first byte to its last, its data among them, beside its size.
const MESSAGE: Duration = Duration::from_secs(20);
/// How long a client may leave an answer unread, beside its size.
const ANSWER: Duration = Duration::from_secs(60);
/// The same while other clients wait for the memory.
const HURRIED: Duration = Duration::from_secs(5);
/// How often it is asked whether they do.
const LOOK: Duration = Duration::from_secs(1);
/// Bytes a second of the slowest link.
const SLOWEST: usize = 1 << 20;
/// Bytes that are read ahead, so that many small messages cost one call.
const AHEAD: usize = 64 << 10;
/// What is missing of a message goes to its place at once if it is as much as this; else by what is read ahead.
const LARGE: usize = 16 << 10;
/// Bytes that are read ahead after that, and twice as many each time that so many are there: if a large message comes next,
/// what was read ahead of it is copied once more.
const LITTLE: usize = 512;

/// Sends an answer, which has less time while others wait for the room that it takes.
///
/// # Errors
/// If it is not taken in time, or the client is gone.
pub(crate) fn answer(stream: &Stream, bytes: &[u8], wanted: impl Fn() -> bool) -> io::Result<()> {
    let began = Instant::now();
    let size = bytes.len() / SLOWEST;
    let limit = ANSWER + Duration::from_secs(size as u64);
    let hurried = HURRIED + Duration::from_secs(size as u64 / 4);
    let mut left = bytes;
    while let Err(e) = send_some(stream, &mut left, (Instant::now() + LOOK).min(began + limit)) {
        let late = began.elapsed() >= limit || began.elapsed() >= hurried && wanted();
        if e.kind() != io::ErrorKind::TimedOut || late {
            return Err(e);
        }
    }
    Ok(())
}

/// Waits until the socket is ready.
pub(crate) fn ready(fd: BorrowedFd<'_>, events: PollFlags, by: Instant) -> io::Result<()> {
    loop {
        let left = by.checked_duration_since(Instant::now()).filter(|left| !left.is_zero());
        let left = Timespec::try_from(left.ok_or(io::ErrorKind::TimedOut)?).ok();
        match poll(&mut [PollFd::from_borrowed_fd(fd, events)], left.as_ref()) {
            Ok(0) | Err(Errno::INTR) => {}
            Ok(_) => return Ok(()),
            Err(e) => return Err(e.into()),
        }
    }
}

/// Sends all of `bytes`.
///
/// # Errors
/// If they are not taken in time, or the client is gone.
pub(crate) fn send_all(stream: &Stream, mut bytes: &[u8], by: Instant) -> io::Result<()> {
    send_some(stream, &mut bytes, by)
}

/// Sends `bytes`, of which those are left that were not taken in time.
fn send_some(stream: &Stream, bytes: &mut &[u8], by: Instant) -> io::Result<()> {
    while !bytes.is_empty() {
        match send(stream.fd(), bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL) {
            Ok(n) => *bytes = &bytes[n..],
            Err(Errno::INTR | Errno::AGAIN) => {}
            Err(e) => return Err(e.into()),
        }
        if !bytes.is_empty() {
            ready(stream.fd(), PollFlags::OUT, by)?;
        }
    }
    Ok(())
}

/// A connection that is read until a certain time, or for as long as it takes.
pub(crate) struct Timed<'a> {
    stream: &'a Stream,
    by: Option<Instant>,
    /// Bytes read so far.
    read: u64,
    /// When they came, once that is wanted.
    marks: Option<Marks>,
    /// How it is waited for, if not asleep.
    wink: Option<Wink>,
}

impl<'a> Timed<'a> {
    fn new(stream: &'a Stream) -> Self {
        Self { stream, by: None, read: 0, marks: None, wink: None }
    }

    /// Of which nobody wants to know when its bytes came.
    pub fn until(stream: &'a Stream, by: Instant) -> Self {
        Self { by: Some(by), ..Self::new(stream) }
    }

    /// What comes next has until then.
    pub fn give_until(&mut self, by: Instant) {
        self.by = Some(by);
    }

    /// Reads what is there, or comes in a moment.
    fn read_at_once(&mut self, buf: &mut [u8]) -> Result<usize, Errno> {
        if self.by.is_none() && self.marks.is_none() && self.wink.is_none() {
            return Err(Errno::AGAIN);
        }
        let Self { stream, marks, wink, .. } = self;
        let mut read = || {
            marks.iter_mut().for_each(Marks::ask_others);
            match recv(stream.fd(), &mut *buf, RecvFlags::DONTWAIT) {
                Err(Errno::AGAIN) => {
                    marks.iter_mut().for_each(Marks::nothing_came);
                    None
                }
                other => Some(other.map(|(n, _)| n)),
            }
        };
        let read = read().or_else(|| wink.as_mut()?.wait(read));
        read.unwrap_or(Err(Errno::AGAIN))
    }

    /// Reads what is there, or waits for it; notes when it came, if that is wanted.
    fn read_some(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let (n, slept) = match self.read_at_once(buf) {
            Ok(n) => (n, None),
            Err(Errno::AGAIN | Errno::INTR) => {
                let since = self.marks.as_ref().map(Marks::now);
                if let Some(by) = self.by {
                    ready(self.stream.fd(), PollFlags::IN, by)?;
                }
                (self.stream.read(buf)?, since)
            }
            Err(e) => return Err(e.into()),
        };
        if let Some(marks) = &mut self.marks {
            marks.read(n, slept);
            if n == buf.len() {
                marks.look(self.stream.fd());
            }
        }
        Ok(n)
    }
}

impl Read for Timed<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let n = self.read_some(buf)?;
        self.read += n as u64;
        Ok(n)
    }
}

/// A client as it is heard: message by message.
pub(crate) struct Hearing<'a> {
    reader: Timed<'a>,
    /// What was read ahead: up to `end`, and taken up to `taken`.
    ahead: Box<[u8]>,
    taken: usize,
    end: usize,
    /// How much is read ahead.
    window: usize,
    /// By when its handshake must be over.
    handshake: Option<Instant>,
    /// By when data that it was asked for must be there.
    due: Option<Instant>,
    /// How long it may take to begin a message.
    silence: Option<Duration>,
    /// How long a message may take, beside its size.
    message: Duration,
    /// Where in the stream the present message begins.
    began: u64,
    /// Bytes of it that were asked for, and how long they were waited for.
    asked: usize,
    waited: Duration,
}

impl<'a> Hearing<'a> {
    /// Of a client that has just come.
    pub fn new(stream: &'a Stream) -> Self {
        Self::with(stream, HANDSHAKE, MESSAGE)
    }

    fn with(stream: &'a Stream, handshake: Duration, message: Duration) -> Self {
        let handshake = Some(Instant::now() + handshake);
        Self {
            reader: Timed::new(stream),
            ahead: vec![0; AHEAD].into_boxed_slice(),
            taken: 0,
            end: 0,
            window: AHEAD,
            handshake,
            due: None,
            silence: None,
            message,
            began: 0,
            asked: 0,
            waited: Duration::ZERO,
        }
    }

    /// From now on it is noted when messages come.
    pub fn note_arrivals(&mut self, client: &Arc<Client>) {
        let timed = &mut self.reader;
        timed.marks = Some(Marks::new(client, timed.read));
    }

    /// From now on its messages are waited for awake, for a moment.
    pub fn may_wink(&mut self, wink: Wink) {
        self.reader.wink = Some(wink);
    }

    /// When the present message came, if that is noted.
    pub fn arrival(&mut self) -> Option<Arrival> {
        let began = self.began;
        let timed = &mut self.reader;
        let marks = timed.marks.as_mut()?;
        marks.look_again(timed.stream.fd());
        Some(marks.of(began))
    }

    /// The client had as much under way as it may have.
    pub fn held_back(&mut self) {
        if let Some(marks) = &mut self.reader.marks {
            marks.held_back();
        }
    }

    /// Its handshake is over.
    pub fn settled(&mut self) {
        self.handshake = None;
    }

    /// How long it may take to begin a message from now on.
    pub fn may_be_silent(&mut self, limit: Option<Duration>) {
        self.silence = limit;
    }

    /// It was asked for so many bytes, and has from now on for them; or it owes nothing.
    pub fn owes(&mut self, bytes: Option<usize>) {
        self.due = bytes.map(|bytes| Instant::now() + self.message_of(bytes));
    }

    /// How long a message of so many bytes may take.
    fn message_of(&self, bytes: usize) -> Duration {
        self.message + Duration::from_secs((bytes / SLOWEST) as u64)
    }

    /// Bytes that are there.
    pub fn buffered(&self) -> usize {
        self.end - self.taken
    }

    /// The next `wanted` bytes, in place of what `bytes` held. They begin a message, or `go_on` with one that the
    /// client has started.
    ///
    /// # Errors
    /// If they do not come, or not in time.
    pub fn next(&mut self, wanted: usize, go_on: bool, bytes: &mut Vec<u8>) -> io::Result<()> {
        *bytes = sized(std::mem::take(bytes), wanted);
        self.fill(go_on, bytes)
    }

    /// The same: as many as `bytes` has room for.
    ///
    /// # Errors
    /// If they do not come, or not in time.
    pub fn fill(&mut self, go_on: bool, bytes: &mut [u8]) -> io::Result<()> {
        if !go_on {
            self.began = self.reader.read - self.buffered() as u64;
            (self.asked, self.waited) = (0, Duration::ZERO);
        }
        let wanted = bytes.len();
        self.asked += wanted;
        let mut came = self.take_ahead(bytes);
        let mut begun = go_on || came > 0;
        let mut since = None;
        while came < wanted {
            self.reader.by = if begun {
                let since = *since.get_or_insert_with(Instant::now);
                let left = self.message_of(self.asked).saturating_sub(self.waited);
                earliest([self.handshake, self.due, Some(since + left)])
            } else {
                let idle = self.silence.map(|limit| Instant::now() + limit);
                earliest([self.handshake, self.due, idle])
            };
            begun = true;
            let left = wanted - came;
            let n = if left >= LARGE {
                self.window = LITTLE;
                self.reader.read(&mut bytes[came..])
            } else {
                (self.taken, self.end) = (0, 0);
                let window = self.window.max(left);
                self.reader.read(&mut self.ahead[..window]).map(|n| {
                    self.end = n;
                    if n == window {
                        self.window = (2 * window).min(AHEAD);
                    }
                    self.take_ahead(&mut bytes[came..])
                })
            };
            match n {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => came += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
        // What its server does meanwhile is not its time.
        self.waited += since.map_or(Duration::ZERO, |since| since.elapsed());
        Ok(())
    }

    /// Takes of what was read ahead as much as there is and fits.
    fn take_ahead(&mut self, bytes: &mut [u8]) -> usize {
        let n = self.buffered().min(bytes.len());
        bytes[..n].copy_from_slice(&self.ahead[self.taken..self.taken + n]);
        self.taken += n;
        n
    }
}

fn earliest(times: [Option<Instant>; 3]) -> Option<Instant> {
    times.into_iter().flatten().min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;
    use std::os::unix::net::UnixStream;

    const SHORT: Duration = Duration::from_millis(150);
    const LONG: Duration = Duration::from_secs(30);

    /// A client that sends one byte every 20 ms, until nobody listens.
    fn drip(mut theirs: UnixStream) {
        std::thread::spawn(move || {
            while theirs.write_all(&[1]).is_ok() {
                std::thread::sleep(Duration::from_millis(20));
            }
        });
    }

    fn pair() -> (Stream, UnixStream) {
        let (mine, theirs) = UnixStream::pair().expect("a pair");
        (Stream::Unix(mine), theirs)
    }

    #[test]
    fn a_byte_now_and_then_buys_nothing() {
        for (handshake, message) in [(SHORT, LONG), (LONG, SHORT)] {
            let (mine, theirs) = pair();
            drip(theirs);
            let began = Instant::now();
            let mut hearing = Hearing::with(&mine, handshake, message);
            let end = hearing.next(100_000, false, &mut vec![]);
            assert_eq!(end.map_err(|e| e.kind()), Err(io::ErrorKind::TimedOut));
            assert!(began.elapsed() >= SHORT && began.elapsed() < LONG / 2);
        }
        // A handshake of many small messages is one handshake.
        let (mine, theirs) = pair();
        drip(theirs);
        let mut hearing = Hearing::with(&mine, SHORT, LONG);
        let messages = (0..1000).take_while(|_| hearing.next(1, false, &mut vec![]).is_ok()).count();
        assert!((1..100).contains(&messages), "{messages}");
        // So is a message of many steps one message; what its server does between them takes nothing of its time.
        let (mine, theirs) = pair();
        let mut hearing = Hearing::with(&mine, LONG, SHORT);
        drip(theirs);
        assert!(hearing.next(1, false, &mut vec![]).is_ok());
        std::thread::sleep(2 * SHORT);
        let steps = (0..1000).take_while(|_| hearing.next(1, true, &mut vec![]).is_ok()).count();
        assert!((2..100).contains(&steps), "{steps}");
        // The next one has its own.
        assert!(hearing.next(1, false, &mut vec![]).is_ok());
    }

    #[test]
    fn who_is_idle_may_stay() {
        let (mine, mut theirs) = pair();
        let mut hearing = Hearing::with(&mine, SHORT, SHORT);
        hearing.settled();
        let late = std::thread::spawn(move || {
            std::thread::sleep(3 * SHORT);
            theirs.write_all(b"12345678").expect("sent");
            theirs
        });
        let mut bytes = vec![];
        hearing.next(4, false, &mut bytes).expect("a message");
        assert_eq!(bytes, b"1234");
        hearing.next(4, true, &mut bytes).expect("a message");
        assert_eq!((bytes.as_slice(), hearing.buffered()), (&b"5678"[..], 0));
        let _theirs = late.join().expect("sent");
        hearing.may_be_silent(Some(SHORT));
        assert!(hearing.next(4, false, &mut bytes).is_err());
    }

    #[test]
    fn messages_come_whole_whatever_their_sizes_and_the_pieces_that_they_come_in() {
        let (mine, mut theirs) = pair();
        let sizes: Vec<usize> =
            [28, 131_072, 28, 4096, 28, 4096, 28, 300_000, 1, LARGE, LARGE - 1, AHEAD + 28, 28, 28].repeat(5);
        let all: Vec<u8> = (0..sizes.iter().sum::<usize>()).map(|n| (n % 251) as u8).collect();
        let sent = all.clone();
        let sender = std::thread::spawn(move || {
            sent.chunks(50_021).for_each(|piece| theirs.write_all(piece).expect("sent"));
            theirs
        });
        let mut hearing = Hearing::with(&mine, LONG, LONG);
        let (mut at, mut bytes) = (0, vec![9; 70_000]);
        for (n, &size) in sizes.iter().enumerate() {
            hearing.next(size, n % 2 == 1, &mut bytes).expect("a message");
            assert!(bytes == all[at..at + size], "message {n} of {size} bytes");
            at += size;
        }
        drop(sender.join().expect("sent"));
        assert_eq!(
            hearing.next(1, false, &mut bytes).map_err(|e| e.kind()),
            Err(io::ErrorKind::UnexpectedEof)
        );
    }

    #[test]
    fn an_answer_that_is_read_a_little_at_a_time_is_late() {
        let (mine, mut theirs) = pair();
        std::thread::spawn(move || {
            while theirs.read(&mut [0; 1]).is_ok_and(|n| n > 0) {
                std::thread::sleep(Duration::from_millis(1));
            }
        });
        let end = send_all(&mine, &vec![0; 8 << 20], Instant::now() + SHORT);
        assert_eq!(end.map_err(|e| e.kind()), Err(io::ErrorKind::TimedOut));
    }
}
