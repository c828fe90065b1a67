//! What is on its way to a client.
//!
//! Whoever has an answer puts it in; the thread that did so sends everything that it put in anywhere
//! before it waits for something else ([`flush`]), without ever waiting for a client: what a client's
//! socket does not take at once is left to that client's own writer. So an answer costs no thread
//! switch, answers that are ready together leave together, and a client that does not listen holds up
//! nobody.

use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::IoSlice;
use std::net::Shutdown;
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use nandle_ssd::nand::Time;
use rustix::io::ioctl_fionread;
use rustix::net::{SendAncillaryBuffer, SendFlags, sendmsg};
use smallvec::SmallVec;

use crate::budget::{Account, Room};
use crate::buffers::Buffers;
use crate::clients::{Client, Due};
use crate::deadline::{self, Hearing};
use crate::listen::Stream;
use crate::lock::lock;

/// Pieces that are sent with one call.
const MOST_PIECES: usize = 64;
/// Bytes that are not kept back for more: a processor's cache holds them until they are sent.
const MUCH: u64 = 64 << 10;
/// Bytes of answers to a few tens of writes: of data there are more.
const LITTLE: u64 = 2 << 10;
/// Bytes that an untimed client may leave unread before it is not heard until it has read them: what is carried out for
/// it meanwhile leaves the processor's cache before it is sent. A read of 128 KiB by one of 4 clients, 32 at a time each,
/// costs 51 us of a processor instead of 60.
const UNREAD: u64 = 256 << 10;
/// Pieces up to this size are laid together.
const SMALL: usize = 16 << 10;

thread_local! {
    /// Where this thread has put something that is not sent yet.
    static DIRTY: RefCell<Vec<Arc<Outbox>>> = const { RefCell::new(Vec::new()) };
}

/// Sends what this thread has put into any outbox.
pub(crate) fn flush() {
    let dirty = DIRTY.with_borrow_mut(std::mem::take);
    dirty.iter().for_each(|outbox| outbox.send());
}

/// The same for a thread that has little time: data are left to the client's own writer. What has none costs less to
/// send than that writer's waking.
pub(crate) fn flush_little() {
    let dirty = DIRTY.with_borrow_mut(std::mem::take);
    for outbox in &dirty {
        if outbox.holds(LITTLE) {
            outbox.leave_to_writer();
        } else {
            outbox.send();
        }
    }
}

/// The same, but for what is in `own`, unless it is much: that its client's thread keeps it back for a moment, so that
/// answers leave together, is no reason for others to wait.
pub(crate) fn flush_others(own: &Arc<Outbox>) {
    if own.holds(MUCH) {
        return flush();
    }
    let others = DIRTY.with_borrow_mut(|dirty| {
        let kept = dirty.iter().position(|outbox| Arc::ptr_eq(outbox, own)).map(|at| dirty.swap_remove(at));
        std::mem::replace(dirty, kept.into_iter().collect())
    });
    others.iter().for_each(|outbox| outbox.send());
}

/// Requests that are over with what is sent.
#[derive(Default)]
struct Answers {
    count: u32,
    room: u64,
    /// When it should leave.
    due: Option<Due>,
}

/// Bytes on their way, and the requests that are over when they are sent, with the room that these take.
struct Piece {
    bytes: Vec<u8>,
    answers: u32,
    room: u64,
}

#[derive(Default)]
struct State {
    pieces: VecDeque<Piece>,
    /// Bytes of the first piece that are gone.
    sent: usize,
    /// Bytes that were ever put in, and that are gone.
    put: u64,
    gone: u64,
    /// Where answers end whose requests were timed, and when they were due.
    dues: VecDeque<(u64, Due)>,
    /// The client's writer has it.
    blocked: bool,
    /// That is because the socket did not take it at once.
    withheld: bool,
    /// Its client is not heard until that is over.
    awaited: bool,
    /// Nothing can be sent any more.
    broken: bool,
    /// Nothing more will come.
    over: bool,
    /// On the list of some thread.
    listed: bool,
}

/// One client's.
pub(crate) struct Outbox {
    stream: Arc<Stream>,
    account: Arc<Account>,
    client: Arc<Client>,
    /// Where the memory of what is sent goes.
    buffers: Arc<Buffers>,
    state: Mutex<State>,
    /// The writer has something to do, and has done it.
    wake: Condvar,
    done: Condvar,
}

/// A request under way, which takes room until its answer is sent or it is forgotten.
pub(crate) struct Pending {
    outbox: Arc<Outbox>,
    room: Room,
}

impl Pending {
    /// A request that takes `room` bytes; waits for them.
    pub fn new(outbox: &Arc<Outbox>, room: u64) -> Self {
        let room = outbox.account.try_enter(room).unwrap_or_else(|| {
            // What is waited for may be what this thread has not sent.
            flush();
            outbox.account.enter(room)
        });
        Self::of(outbox, room)
    }

    /// The same of a client that is heard: what it sends while it has to wait for room counts from then on.
    pub fn wait(outbox: &Arc<Outbox>, room: u64, hearing: &mut Hearing<'_>) -> Self {
        if let Some(room) = outbox.account.try_enter(room) {
            return Self::of(outbox, room);
        }
        let pending = Self::new(outbox, room);
        hearing.held_back();
        pending
    }

    /// A request that has its room.
    pub fn of(outbox: &Arc<Outbox>, room: Room) -> Self {
        Self { outbox: outbox.clone(), room }
    }

    /// Whether nobody will hear its answer.
    pub fn is_futile(&self) -> bool {
        lock(&self.outbox.state).broken
    }

    /// Its answer, and when it is due. It is sent by the next [`flush`] of this thread.
    pub fn answer<const N: usize>(self, pieces: [Vec<u8>; N], due: Option<Due>) {
        let Self { outbox, room } = self;
        outbox.put(pieces, Answers { count: 1, room: room.keep(), due });
    }
}

impl Outbox {
    /// For the client at the other end of `stream`, who has this account.
    pub fn new(
        stream: &Arc<Stream>,
        account: Arc<Account>,
        client: Arc<Client>,
        buffers: &Arc<Buffers>,
    ) -> Arc<Self> {
        let (state, wake, done) = (Mutex::default(), Condvar::new(), Condvar::new());
        Arc::new(Self {
            stream: stream.clone(),
            account,
            client,
            buffers: buffers.clone(),
            state,
            wake,
            done,
        })
    }

    /// Whether so many bytes wait to be sent.
    fn holds(&self, bytes: u64) -> bool {
        let state = lock(&self.state);
        !state.blocked && state.put - state.gone >= bytes
    }

    /// Something that was not asked for. It is sent by the next [`flush`] of this thread.
    pub fn say<const N: usize>(self: &Arc<Self>, pieces: [Vec<u8>; N]) {
        self.put(pieces, Answers::default());
    }

    /// These requests are over with it.
    fn put<const N: usize>(self: &Arc<Self>, pieces: [Vec<u8>; N], over: Answers) {
        let Answers { count: answers, room, due } = over;
        let mut state = lock(&self.state);
        let last = pieces.iter().rposition(|piece| !piece.is_empty());
        let Some(last) = last.filter(|_| !state.broken) else {
            drop(state);
            return self.leave(answers, room);
        };
        for (n, bytes) in pieces.into_iter().enumerate().filter(|(_, bytes)| !bytes.is_empty()) {
            let (answers, room) = if n == last { (answers, room) } else { (0, 0) };
            state.put += bytes.len() as u64;
            match state.pieces.back_mut() {
                Some(before) if before.bytes.len() + bytes.len() <= SMALL => {
                    before.bytes.extend(bytes);
                    before.answers += answers;
                    before.room += room;
                }
                _ => state.pieces.push_back(Piece { bytes, answers, room }),
            }
        }
        if let Some(due) = due {
            let end = state.put;
            state.dues.push_back((end, due));
        }
        if state.blocked {
            self.wake.notify_one();
        } else if !std::mem::replace(&mut state.listed, true) {
            DIRTY.with_borrow_mut(|dirty| dirty.push(self.clone()));
        }
    }

    fn leave(&self, answers: u32, room: u64) {
        if answers > 0 {
            self.account.leave(answers, room);
        }
    }

    /// So many bytes were gone then; those answers were `withheld` which the socket did not take at once.
    fn are_gone(&self, state: &mut State, bytes: usize, left: Time, withheld: bool) {
        state.gone += bytes as u64;
        let over = state.dues.partition_point(|&(end, _)| end <= state.gone);
        if over > 0 {
            let dues: SmallVec<[Due; 32]> = state.dues.drain(..over).map(|(_, due)| due).collect();
            self.client.answered_at(left, &dues, withheld);
        }
    }

    /// Nothing can be sent any more.
    fn breaks(&self, state: &mut State) {
        state.broken = true;
        state.sent = 0;
        state.dues.clear();
        self.stream.shut(Shutdown::Both);
        let gone = state.pieces.drain(..).fold((0, 0), |(n, room), p| (n + p.answers, room + p.room));
        self.leave(gone.0, gone.1);
    }

    /// Sends as much as the socket takes at once.
    fn send(&self) {
        let mut state = lock(&self.state);
        state.listed = false;
        while !state.blocked && !state.pieces.is_empty() {
            let from = state.sent;
            let pieces = state.pieces.iter().take(MOST_PIECES).enumerate();
            let sent =
                self.send_together(pieces.map(|(n, piece)| &piece.bytes[if n == 0 { from } else { 0 }..]));
            match sent {
                Ok((mut n, at)) => {
                    self.are_gone(&mut state, n, at, false);
                    let (mut answers, mut room) = (0, 0);
                    while let Some(first) = state.pieces.front() {
                        let left = first.bytes.len() - state.sent;
                        if n < left {
                            state.sent += n;
                            break;
                        }
                        n -= left;
                        (answers, room) = (answers + first.answers, room + first.room);
                        state.sent = 0;
                        if let Some(Piece { bytes, .. }) = state.pieces.pop_front() {
                            self.buffers.give(bytes);
                        }
                    }
                    self.leave(answers, room);
                }
                Err(rustix::io::Errno::INTR) => {}
                Err(rustix::io::Errno::AGAIN) => {
                    (state.blocked, state.withheld) = (true, true);
                    self.wake.notify_one();
                    return;
                }
                Err(_) => self.breaks(&mut state),
            }
        }
    }

    /// Has the client's writer send what there is.
    fn leave_to_writer(&self) {
        let mut state = lock(&self.state);
        state.listed = false;
        if !state.blocked && !state.pieces.is_empty() {
            state.blocked = true;
            self.wake.notify_one();
        }
    }

    /// For the thread that hears the client: waits while it leaves much unread, if nobody asks when its answers left.
    pub fn wait_until_read(&self) {
        if self.client.is_timed() {
            return;
        }
        let mut state = lock(&self.state);
        while state.blocked && !state.broken && state.put - state.gone > UNREAD {
            state.awaited = true;
            state = self.done.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Sends, on a thread of its own, what the socket did not take at once or nobody else had time for; until
    /// [`Outbox::end`].
    pub fn write(&self) {
        let mut state = lock(&self.state);
        loop {
            while !state.blocked && !state.over {
                state = self.wake.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            if !state.blocked {
                return;
            }
            while !state.pieces.is_empty() {
                let number = state.pieces.len().min(MOST_PIECES);
                let batch: Vec<Piece> = state.pieces.drain(..number).collect();
                let from = std::mem::take(&mut state.sent);
                let withheld = state.withheld;
                drop(state);
                // What is there leaves together; what the socket does not take is waited for, piece by piece.
                let slices = batch.iter().enumerate();
                let slices = slices.map(|(n, piece)| &piece.bytes[if n == 0 { from } else { 0 }..]);
                let at_once = if withheld { None } else { self.send_together(slices.clone()).ok() };
                let (mut taken, left) = at_once.unwrap_or_default();
                let (mut gone, mut waited, mut result) = (0, withheld, Ok(()));
                for bytes in slices {
                    let rest = &bytes[taken.min(bytes.len())..];
                    taken = taken.saturating_sub(bytes.len());
                    gone += bytes.len();
                    if result.is_ok() && !rest.is_empty() {
                        waited = true;
                        result = deadline::answer(&self.stream, rest, || self.account.is_wanted());
                    }
                }
                let left = if waited { self.client.clock().now() } else { left };
                let over = batch.iter().fold((0, 0), |(n, room), p| (n + p.answers, room + p.room));
                batch.into_iter().for_each(|piece| self.buffers.give(piece.bytes));
                self.leave(over.0, over.1);
                state = lock(&self.state);
                match result {
                    Ok(()) => self.are_gone(&mut state, gone, left, waited),
                    Err(_) => self.breaks(&mut state),
                }
            }
            (state.blocked, state.withheld) = (false, false);
            if std::mem::take(&mut state.awaited) {
                self.done.notify_all();
            }
        }
    }

    /// How much of these the socket takes at once, and when that leaves: when the call returns, or when the client says
    /// more, which has it before.
    ///
    /// The socket is looked at first. What had not come when answers left came later, however late it is found: else one
    /// request at a time, by NVMe/TCP, would be 1.6 under way.
    fn send_together<'a>(&self, pieces: impl Iterator<Item = &'a [u8]>) -> rustix::io::Result<(usize, Time)> {
        let slices: SmallVec<[IoSlice<'_>; MOST_PIECES]> = pieces.map(IoSlice::new).collect();
        let flags = SendFlags::DONTWAIT | SendFlags::NOSIGNAL;
        let send = || sendmsg(self.stream.fd(), &slices, &mut SendAncillaryBuffer::default(), flags);
        if !self.client.is_timed() {
            return Ok((send()?, 0));
        }
        let clock = self.client.clock();
        let began = clock.now();
        if ioctl_fionread(self.stream.fd()).is_ok_and(|waiting| waiting > 0) {
            return Ok((send()?, clock.now()));
        }
        self.client.was_silent(began);
        let sent = send()?;
        let left = self.client.said_more(began).unwrap_or_else(|| clock.now());
        self.client.was_silent(left);
        Ok((sent, left))
    }

    /// Nothing more will be asked: waits until everything is answered and sent.
    pub fn end(&self) {
        flush();
        self.account.wait_until_empty();
        lock(&self.state).over = true;
        self.wake.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Clock;
    use crate::clients::Roll;
    use std::io::Read;
    use std::os::unix::net::UnixStream;
    use std::sync::atomic::{AtomicBool, Ordering};
    use std::time::Duration;

    fn nobody() -> Arc<Client> {
        Roll::new(Clock::started(1.0), true).enter("nbd", "")
    }

    #[test]
    fn a_client_that_does_not_listen_holds_up_nobody_and_misses_nothing() {
        let (mine, theirs) = UnixStream::pair().expect("a pair");
        let outbox = Outbox::new(&Arc::new(Stream::Unix(mine)), Arc::default(), nobody(), &Arc::default());
        let writer = std::thread::spawn({
            let outbox = outbox.clone();
            move || outbox.write()
        });
        // Far more than a socket takes by itself, in pieces small and large.
        let pieces: Vec<Vec<u8>> = (0..600_usize).map(|n| vec![n as u8; n * 97 % 60_000]).collect();
        for piece in &pieces {
            Pending::new(&outbox, 0).answer([vec![0xaa], piece.clone()], None);
            flush();
        }
        // Nor is it waited for: it matters when its requests come.
        outbox.wait_until_read();
        // One is forgotten: its room is given back.
        drop(Pending::new(&outbox, 5));
        let reader = std::thread::spawn(move || {
            std::thread::sleep(Duration::from_millis(50));
            let mut all = vec![];
            (&theirs).read_to_end(&mut all).expect("read");
            all
        });
        outbox.end();
        writer.join().expect("it ends");
        drop(outbox);
        let expected: Vec<u8> = pieces.iter().flat_map(|p| [&[0xaa], &p[..]].concat()).collect();
        assert!(reader.join().expect("it ends") == expected);
    }

    #[test]
    fn who_leaves_much_unread_is_not_heard_until_it_reads_or_is_gone() {
        const ANSWER: usize = 128 << 10;
        for goes in [false, true] {
            let (mine, mut theirs) = UnixStream::pair().expect("a pair");
            let client = Roll::new(Clock::started(1.0), false).enter("nbd", "");
            let stream = Arc::new(Stream::Unix(mine));
            let outbox = Outbox::new(&stream, Arc::default(), client, &Arc::default());
            outbox.wait_until_read();
            let writer = std::thread::spawn({
                let outbox = outbox.clone();
                move || outbox.write()
            });
            for _ in 0..16 {
                Pending::new(&outbox, 0).answer([vec![0; ANSWER]], None);
                flush();
            }
            let reads = Arc::new(AtomicBool::new(false));
            let reader = std::thread::spawn({
                let reads = reads.clone();
                move || {
                    std::thread::sleep(Duration::from_millis(50));
                    reads.store(true, Ordering::SeqCst);
                    if !goes {
                        theirs.read_exact(&mut vec![0; 16 * ANSWER]).expect("read");
                    }
                }
            });
            outbox.wait_until_read();
            assert!(reads.load(Ordering::SeqCst));
            outbox.end();
            writer.join().expect("it ends");
            reader.join().expect("it ends");
        }
    }

    #[test]
    fn a_client_that_is_gone_costs_nothing() {
        let (mine, theirs) = UnixStream::pair().expect("a pair");
        let outbox = Outbox::new(&Arc::new(Stream::Unix(mine)), Arc::default(), nobody(), &Arc::default());
        drop(theirs);
        for _ in 0..5000 {
            Pending::new(&outbox, 1 << 20).answer([vec![1], vec![2; 1000]], None);
            flush();
        }
        outbox.end();
        outbox.write();
    }
}
