//! Bounds on what one client may have under way.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Requests of one client under way.
const MOST_REQUESTS: u32 = 1024;
/// Bytes of one client's requests and answers under way.
pub(crate) const MOST_BYTES_UNDER_WAY: u64 = 64 << 20;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[derive(Default)]
struct UnderWay {
    requests: u32,
    bytes: u64,
    /// Threads that wait: without any nobody is woken, which would be a system call.
    waiting: u32,
}

impl UnderWay {
    fn has_room(&self, bytes: u64) -> bool {
        self.requests < MOST_REQUESTS && (self.requests == 0 || self.bytes + bytes <= MOST_BYTES_UNDER_WAY)
    }
}

/// What one client has under way.
#[derive(Default)]
pub(crate) struct Gate {
    under_way: Mutex<UnderWay>,
    left: Condvar,
}

impl Gate {
    /// A request of so many bytes comes, if there is room for it.
    pub(crate) fn try_enter(&self, bytes: u64) -> bool {
        let mut now = lock(&self.under_way);
        let room = now.has_room(bytes);
        if room {
            now.requests += 1;
            now.bytes += bytes;
        }
        room
    }

    /// A request of so many bytes comes; it waits for room.
    pub(crate) fn enter(&self, bytes: u64) {
        let mut now = lock(&self.under_way);
        while !now.has_room(bytes) {
            now = self.wait(now);
        }
        now.requests += 1;
        now.bytes += bytes;
    }

    /// So many requests with so many bytes in all are over.
    pub(crate) fn leave(&self, requests: u32, bytes: u64) {
        let mut now = lock(&self.under_way);
        now.requests -= requests;
        now.bytes -= bytes;
        if now.waiting > 0 {
            self.left.notify_all();
        }
    }

    /// Waits until nothing is under way.
    pub(crate) fn wait_until_empty(&self) {
        let mut now = lock(&self.under_way);
        while now.requests > 0 {
            now = self.wait(now);
        }
    }

    fn wait<'a>(&'a self, mut now: MutexGuard<'a, UnderWay>) -> MutexGuard<'a, UnderWay> {
        now.waiting += 1;
        now = self.left.wait(now).unwrap_or_else(PoisonError::into_inner);
        now.waiting -= 1;
        now
    }
}
