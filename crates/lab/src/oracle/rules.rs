//! Which answers a drive may give, by its configuration.

use std::fmt;

use nandle_ssd::{Command, DeviceConfig, Op, Range, Status};

/// Some of the answers that there are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Allowed(u16);

pub(super) const ALL: [Status; 8] = [
    Status::Ok,
    Status::OutOfRange,
    Status::ReadOnly,
    Status::Overlap,
    Status::TooManyRanges,
    Status::NoCleanBlocks,
    Status::Unsupported,
    Status::MediaError,
];

impl Allowed {
    /// This answer and no other.
    pub(super) fn only(status: Status) -> Self {
        Self(1 << status as u16)
    }
    /// This answer as well, if `so`.
    pub(super) fn or_if(self, so: bool, status: Status) -> Self {
        if so { Self(self.0 | 1 << status as u16) } else { self }
    }
    /// Whether the answer is one of them.
    pub fn has(self, status: Status) -> bool {
        self.0 & 1 << status as u16 != 0
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut before = "";
        for status in ALL.into_iter().filter(|&status| self.has(status)) {
            write!(f, "{before}{status:?}")?;
            before = " or ";
        }
        Ok(())
    }
}

impl fmt::Debug for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// What is known of a drive before it answers anything.
#[derive(Clone, Debug)]
pub(super) struct Rules {
    /// Sectors that it has.
    pub sectors: u64,
    /// What is acknowledged is durable (`recovery.plp`).
    pub protected: bool,
    /// Most ranges of a FlashAlloc command; none if it knows no such command.
    pub most_ranges: Option<u32>,
    /// Blocks may go out of use, so that it may refuse to write.
    pub wears_out: bool,
    /// It may lose sectors, and say so.
    pub loses_data: bool,
    /// It may lose what it is writing, if it says so at once.
    pub loses_writes: bool,
}

impl Rules {
    pub fn of(config: &DeviceConfig, sectors: u64) -> Self {
        let faults = &config.faults;
        let programs = faults.fail_programs();
        let erases = faults.erase_rate > 0.0 || !faults.erases.is_empty();
        let reads = faults.read_rate > 0.0 || !faults.reads.is_empty();
        let objects = config.scheme.has("flashalloc");
        Self {
            sectors,
            protected: config.recovery.plp,
            most_ranges: objects.then_some(config.streams.max_ranges),
            wears_out: programs || erases || config.cell.endurance > 0,
            // Torn pages are no such case: what they held was not acknowledged as durable.
            loses_data: reads,
            // A program that fails where no page is left to repeat it.
            loses_writes: programs,
        }
    }

    /// Whether there are such sectors, and at least one.
    pub fn in_range(&self, (lsn, sectors): (u64, u64)) -> bool {
        sectors > 0 && lsn.checked_add(sectors).is_some_and(|end| end <= self.sectors)
    }

    /// The answers that `command` may get. `read_only` = the drive has refused a write because it is worn
    /// out; `named` = sectors of it have been an object's.
    pub fn allowed(&self, command: &Command<'_>, read_only: bool, named: bool) -> Allowed {
        let ok = Allowed::only(Status::Ok);
        match command.op {
            Op::FlashAlloc | Op::FlashFree => self.allowed_of_object(command, named),
            Op::Flush => {
                ok.or_if(self.wears_out, Status::ReadOnly).or_if(self.loses_writes, Status::MediaError)
            }
            _ if !self.in_range((command.lsn, command.sectors)) => Allowed::only(Status::OutOfRange),
            Op::Read => ok.or_if(self.loses_data, Status::MediaError),
            Op::Write if read_only => Allowed::only(Status::ReadOnly),
            Op::Write => {
                ok.or_if(self.wears_out, Status::ReadOnly).or_if(self.loses_writes, Status::MediaError)
            }
            Op::Trim => ok.or_if(self.wears_out, Status::ReadOnly),
        }
    }

    fn allowed_of_object(&self, command: &Command<'_>, named: bool) -> Allowed {
        let Some(most) = self.most_ranges else { return Allowed::only(Status::Unsupported) };
        if !command.data.len().is_multiple_of(Range::BYTES) {
            return Allowed::only(Status::OutOfRange);
        }
        if command.data.len() / Range::BYTES > most as usize {
            return Allowed::only(Status::TooManyRanges);
        }
        let mut ranges: Vec<_> = ranges(command).collect();
        if !ranges.iter().all(|&range| self.in_range(range)) {
            return Allowed::only(Status::OutOfRange);
        }
        ranges.sort_unstable();
        if ranges.windows(2).any(|pair| pair[0].0 + pair[0].1 > pair[1].0) {
            return Allowed::only(Status::Overlap);
        }
        let begins = command.op == Op::FlashAlloc;
        Allowed::only(Status::Ok)
            .or_if(begins, Status::NoCleanBlocks)
            .or_if(begins && named, Status::Overlap)
            .or_if(self.wears_out, Status::ReadOnly)
    }
}

/// The ranges (first sector, sectors) that a command is about.
pub(super) fn ranges<'a>(command: &'a Command<'_>) -> impl Iterator<Item = (u64, u64)> + 'a {
    let own = command.data.is_empty() || !matches!(command.op, Op::FlashAlloc | Op::FlashFree);
    let listed = if own { &[] } else { command.data };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |sum, &byte| sum << 8 | u64::from(byte));
    own.then_some((command.lsn, command.sectors))
        .into_iter()
        .chain(listed.chunks_exact(Range::BYTES).map(move |r| (number(&r[8..]), number(&r[4..8]))))
}
