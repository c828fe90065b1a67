//! Who waits for the operations that are under way.

use nandle_nand::{Done, Kind, OpId, Time};

const NONE: u32 = u32::MAX;

/// Who waits for an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Waiter {
    /// The host request that waits for it, if one does.
    pub request: Option<u32>,
    /// Buffered sectors that a program gives back.
    pub release: u32,
}

impl Waiter {
    /// Nobody does.
    pub const NOBODY: Self = Self { request: None, release: 0 };

    /// A host request, if it is one.
    #[inline]
    pub fn request(request: Option<u32>) -> Self {
        Self { request, release: 0 }
    }
}

/// Who waited for an operation that is done.
#[derive(Clone, Copy, Debug)]
pub struct Left {
    /// The host request that waited for it, if one did; there may be more.
    pub request: Option<u32>,
    /// Buffered sectors that a program gives back.
    pub release: u32,
    /// The flush barrier that a program counted for.
    pub barrier: Option<u32>,
    /// When the read-modify-write began that a program ended.
    pub rmw_start: Option<Time>,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    request: u32,
    release: u32,
    /// The flush barrier that a program counts for, or [`NONE`].
    barrier: u32,
    /// The program that an RMW read belongs to.
    rmw_program: u32,
    /// When the first RMW read of this program started; `u64::MAX` = none yet, 0 = not an RMW.
    rmw_start: u64,
}

const VACANT: Entry = Entry { request: NONE, release: 0, barrier: NONE, rmw_program: NONE, rmw_start: 0 };

/// An entry for each operation slot.
#[derive(Clone, Debug, Default)]
pub(super) struct Waiters {
    entries: Vec<Entry>,
    /// Further requests that wait for a program.
    joined: Vec<(OpId, u32)>,
}

impl Waiters {
    #[inline(always)]
    pub fn enter(&mut self, op: OpId, waiter: Waiter) {
        self.enter_program(op, waiter, None);
    }

    #[inline(always)]
    pub fn enter_program(&mut self, op: OpId, waiter: Waiter, barrier: Option<u32>) {
        let request = waiter.request.unwrap_or(NONE);
        let entry = Entry { request, release: waiter.release, barrier: barrier.unwrap_or(NONE), ..VACANT };
        if op.0 as usize >= self.entries.len() {
            self.grow(op);
        }
        self.entries[op.0 as usize] = entry;
    }

    #[cold]
    fn grow(&mut self, op: OpId) {
        self.entries.resize(op.0 as usize + 1, VACANT);
    }

    /// A program under way fills another page together with what it was ordered for.
    pub fn join(&mut self, op: OpId, waiter: Waiter) {
        let entry = &mut self.entries[op.0 as usize];
        entry.release += waiter.release;
        match waiter.request {
            Some(request) if entry.request == NONE => entry.request = request,
            Some(request) => self.joined.push((op, request)),
            None => {}
        }
    }

    /// A program counts for a flush barrier.
    pub fn set_barrier(&mut self, op: OpId, barrier: u32) {
        self.entries[op.0 as usize].barrier = barrier;
    }

    /// Another request that waited for `op`, which is done, beside the one that [`Waiters::leave`] named.
    #[inline]
    pub fn next_joined(&mut self, op: OpId) -> Option<u32> {
        if self.joined.is_empty() {
            return None;
        }
        let at = self.joined.iter().position(|&(other, _)| other == op)?;
        Some(self.joined.remove(at).1)
    }

    pub fn mark_rmw(&mut self, program: OpId, reads: impl IntoIterator<Item = OpId>) {
        let start = &mut self.entries[program.0 as usize].rmw_start;
        if *start == 0 {
            *start = u64::MAX;
        }
        for read in reads {
            self.entries[read.0 as usize].rmw_program = program.0;
        }
    }

    pub fn wait_for(&mut self, op: OpId, request: u32) {
        self.entries[op.0 as usize].request = request;
    }

    #[inline]
    pub fn leave(&mut self, done: &Done) -> Left {
        let entry = self.entries[done.op.0 as usize];
        if done.kind == Kind::Read && entry.rmw_program != NONE {
            let start = &mut self.entries[entry.rmw_program as usize].rmw_start;
            *start = (*start).min(done.started);
        }
        Left {
            request: (entry.request != NONE).then_some(entry.request),
            release: entry.release,
            barrier: (entry.barrier != NONE).then_some(entry.barrier),
            // Where two programs share a read it is counted for one of them.
            rmw_start: (entry.rmw_start != 0 && entry.rmw_start != u64::MAX).then_some(entry.rmw_start),
        }
    }

    /// The buffered sectors of a program are given back before it is done; parity has none, and no entry.
    pub fn release(&mut self, op: OpId) -> u32 {
        self.entries.get_mut(op.0 as usize).map_or(0, |entry| std::mem::take(&mut entry.release))
    }
}
