//! Operations: what a die is asked to do, and for whom.

/// An operation under way. Valid until its [`Done`] has been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct OpId(pub u32);

/// What a die does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Kind {
    /// Array read, then transfer out.
    Read,
    /// Transfer in, then array program.
    Program,
    /// Block erase.
    Erase,
}

/// On whose behalf; the parts that a write amplification factor is taken apart into.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum Cause {
    /// A host request's own data.
    Host,
    /// Reading old sectors to complete a partial update.
    Rmw,
    /// Garbage collection and wear levelling.
    Gc,
    /// Bringing versions or areas of a logical page together.
    Merge,
    /// Translation pages.
    Map,
    /// The metadata log.
    Meta,
    /// Parity over the planes of a superblock, and reads that rebuild a page from it.
    Parity,
}

impl Cause {
    /// How many causes there are.
    pub const COUNT: usize = 7;
    /// All of them with their names.
    pub const NAMED: [(&str, Self); Self::COUNT] = [
        ("host", Self::Host),
        ("rmw", Self::Rmw),
        ("gc", Self::Gc),
        ("merge", Self::Merge),
        ("map", Self::Map),
        ("meta", Self::Meta),
        ("parity", Self::Parity),
    ];
}

/// An operation has come to its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Done {
    /// Which one; its slot is free again.
    pub op: OpId,
    /// What it did.
    pub kind: Kind,
    /// For whom.
    pub cause: Cause,
    /// The page read or programmed, or the first page of the block erased.
    pub ppn: crate::Ppn,
    /// When a die first worked on it.
    pub started: crate::Time,
    /// The flash reports failure. An erase: the block is bad now. A program: nothing was stored, and
    /// the operation is not over: it goes on with [`Nand::reissue`](crate::Nand::reissue).
    pub failed: bool,
}

impl Done {
    /// A program that failed.
    #[inline]
    pub fn is_failed_program(&self) -> bool {
        self.failed && self.kind == Kind::Program
    }
}

pub(crate) const NONE: u32 = u32::MAX;

/// A slot of the operation slab.
#[derive(Clone, Debug)]
pub(crate) struct Op {
    pub started: u64,
    pub order: u64,
    /// How long the array works on it.
    pub array_ns: u64,
    pub ppn: u32,
    /// The page that is read first: a copy, which programs when its read is over.
    pub from: u32,
    pub transfer: u32,
    /// Orders that must be done (or, along a block's chain, started) first.
    pub waits: u32,
    /// Head of the list of operations that wait for this one.
    pub dependents: u32,
    /// Block that must not be erased before this is done, and the head of a list of further ones.
    pub holds: u32,
    pub more_holds: u32,
    /// Next in the die's queue, or in the slab's free list.
    pub next: u32,
    /// Next operation of the same multi-plane group.
    pub group: u32,
    /// Next program of the same block; of erases, that of the superblock's next column.
    pub chain: u32,
    /// Program of parity that waits until this one may start.
    pub parity: u32,
    pub plane: u32,
    pub kind: Kind,
    pub cause: Cause,
    pub background: bool,
    pub started_once: bool,
    pub copyback: bool,
    /// One of the waits is for the program before it in its block to start.
    pub behind: bool,
    /// Ordered and not yet done.
    pub pending: bool,
    /// The program of a page that is still being filled.
    pub open: bool,
}

impl Op {
    /// How long the channel carries its page.
    #[inline(always)]
    pub fn channel_time(&self) -> u64 {
        if self.copyback { 0 } else { u64::from(self.transfer) }
    }

    /// A copy, and its read is not over.
    #[inline(always)]
    pub fn reads_first(&self) -> bool {
        self.from != NONE
    }

    /// The array is busy with it for longer than with reads.
    #[inline(always)]
    pub fn is_long(&self) -> bool {
        self.kind != Kind::Read && !self.reads_first()
    }

    /// It is on its die; the block's next program, which may follow a program now.
    #[inline(always)]
    pub fn begin(&mut self, now: u64) -> u32 {
        self.started = now;
        if self.reads_first() {
            return NONE;
        }
        self.started_once = true;
        if self.kind == Kind::Program { self.chain } else { NONE }
    }
}
