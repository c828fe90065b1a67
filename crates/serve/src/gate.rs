//! Bounds on what one client may have under way.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Requests of one client under way.
const MOST_REQUESTS: u32 = 1024;
/// Bytes of one client's requests and answers under way.
pub(crate) const MOST_BYTES_UNDER_WAY: u64 = 64 << 20;

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What one client has under way.
#[derive(Default)]
pub(crate) struct Gate {
    under_way: Mutex<(u32, u64)>,
    left: Condvar,
}

impl Gate {
    pub(crate) fn enter(&self, bytes: u64) {
        let mut now = lock(&self.under_way);
        while now.0 >= MOST_REQUESTS || (now.0 > 0 && now.1 + bytes > MOST_BYTES_UNDER_WAY) {
            now = self.left.wait(now).unwrap_or_else(PoisonError::into_inner);
        }
        *now = (now.0 + 1, now.1 + bytes);
    }

    pub(crate) fn leave(&self, bytes: u64) {
        let mut now = lock(&self.under_way);
        *now = (now.0 - 1, now.1 - bytes);
        self.left.notify_one();
    }
}
