//! The one judge of correctness: a plain array that remembers every sector's writes, and every request
//! that is under way.
//!
//! Each write carries a stamp, unique and ascending; a sector stores its stamp together with its
//! own number, so a sector that shows up in another's place is seen. For every sector the oracle
//! keeps a range, not a value: a read may return anything from the last write that was
//! acknowledged before the read was submitted up to the last one submitted; after a power cut,
//! anything from the last write that was durable.
//!
//! A completion is judged as a whole: it answers a request that is under way, once, with a status that
//! the drive may give in its state, with as many bytes as were asked for, and with unreadable sectors
//! only where the flash may lose some.

mod complaint;
mod named;
mod rules;
mod sectors;
#[cfg(test)]
mod tests;
mod unflushed;

use std::collections::HashMap;
use std::ops::Range;

pub use complaint::{Complaint, Fault, Found};
use named::Named;
use nandle_ssd::{Command, Completion, Op, Ssd, Status};
pub use rules::Allowed;
use rules::{Rules, ranges};
pub use sectors::UNIT;
use sectors::{Floors, Sectors};
use unflushed::{Piece, Unflushed};

use crate::measure::summary::Integrity;

/// Complaints that are kept; all are counted.
const KEPT: usize = 8;

/// A request under way.
#[derive(Clone, Debug)]
struct Pending {
    op: Op,
    /// Its sectors; none if they are not all on the drive.
    range: Range<u64>,
    lsn: u64,
    fua: bool,
    stamp: u64,
    allowed: Allowed,
    /// For a read: what each sector may return at least.
    floors: Floors,
    /// For a flush: what it makes durable.
    covers: Vec<Piece>,
}

/// The judge of one drive.
#[derive(Clone, Debug)]
pub struct Oracle {
    rules: Rules,
    sectors: Sectors,
    named: Option<Named>,
    pending: HashMap<u64, Pending>,
    unflushed: Unflushed,
    stamp: u64,
    /// The drive has refused a write because it is worn out, and must refuse those to come.
    read_only: bool,
    expected: u64,
    checked: u64,
    unreadable: u64,
    mismatches: u64,
    wrong: u64,
    first: Vec<Complaint>,
}

impl Oracle {
    /// The judge of a drive that was never written. The drive must keep [`UNIT`] bytes a sector.
    pub fn of(ssd: &Ssd) -> Self {
        Self::new(Rules::of(ssd.config(), ssd.layout().logical_sectors))
    }

    fn new(rules: Rules) -> Self {
        Self {
            sectors: Sectors::new(rules.sectors),
            named: rules.most_ranges.map(|_| Named::new(rules.sectors)),
            rules,
            pending: HashMap::new(),
            unflushed: Unflushed::default(),
            stamp: 0,
            read_only: false,
            expected: 0,
            checked: 0,
            unreadable: 0,
            mismatches: 0,
            wrong: 0,
            first: Vec::new(),
        }
    }

    /// Sectors that reads asked for, or that were on the drive when the power went.
    pub fn expected(&self) -> u64 {
        self.expected
    }
    /// Sectors compared so far.
    pub fn checked(&self) -> u64 {
        self.checked
    }
    /// Sectors that the drive said it could not read, where it may lose some.
    pub fn unreadable(&self) -> u64 {
        self.unreadable
    }
    /// Sectors that held what they may not.
    pub fn mismatches(&self) -> u64 {
        self.mismatches
    }
    /// Completions that were wrong otherwise, or were missing.
    pub fn wrong_completions(&self) -> u64 {
        self.wrong
    }
    /// What it found, for a summary.
    pub fn integrity(&self) -> Integrity {
        Integrity {
            checked_sectors: self.checked,
            expected_sectors: self.expected,
            mismatches: self.mismatches(),
            unreadable: self.unreadable,
            wrong_completions: self.wrong,
        }
    }
    /// The first complaints.
    pub fn complaints(&self) -> &[Complaint] {
        &self.first
    }

    /// Nothing to complain about, and at least nine tenths compared of what should have been.
    ///
    /// # Errors
    /// What is wrong: how much, and the first complaints.
    pub fn verdict(&self) -> Result<(), String> {
        let Self { checked, expected, unreadable, mismatches, wrong, .. } = self;
        if mismatches + wrong > 0 {
            let mut text = format!("{mismatches} of {checked} sectors and {wrong} completions are wrong");
            self.first.iter().for_each(|complaint| text += &format!("\n  {complaint}"));
            return Err(text);
        }
        if checked * 10 < expected * 9 {
            return Err(format!(
                "only {checked} of {expected} sectors were compared ({unreadable} were unreadable)"
            ));
        }
        Ok(())
    }

    /// The contents to submit with a write of `sectors` sectors from `lsn`, to be followed by
    /// [`Oracle::submitted`]; none if the drive has no such sectors.
    pub fn contents(&self, lsn: u64, sectors: u64) -> Vec<u8> {
        if !self.rules.in_range((lsn, sectors)) {
            return Vec::new();
        }
        sectors::contents(lsn..lsn + sectors, self.stamp + 1)
    }

    /// The next sectors from `lsn` on that have ever been written or trimmed: the first, and how many, `most`
    /// at most.
    pub fn touched(&self, lsn: u64, most: u64) -> Option<(u64, u64)> {
        self.sectors.touched(lsn, most)
    }

    /// The request is about to be submitted.
    pub fn submitted(&mut self, command: &Command<'_>) {
        self.stamp += 1;
        let allowed = self.rules.allowed(command, self.read_only, self.is_named(command));
        let whole = self.rules.in_range((command.lsn, command.sectors));
        let range = if whole { command.lsn..command.lsn + command.sectors } else { 0..0 };
        let mut pending = Pending {
            op: command.op,
            range: range.clone(),
            lsn: command.lsn,
            fua: command.fua,
            stamp: self.stamp,
            allowed,
            floors: Floors::default(),
            covers: Vec::new(),
        };
        match command.op {
            _ if !allowed.has(Status::Ok) => {}
            Op::Read => pending.floors = self.sectors.floors(range),
            Op::Write | Op::Trim => self.sectors.submitted(range, self.stamp, command.op == Op::Trim),
            Op::Flush => pending.covers = self.unflushed.take(),
            Op::FlashAlloc => {
                if let Some(named) = &mut self.named {
                    ranges(command).for_each(|range| named.mark(range));
                }
            }
            Op::FlashFree => {}
        }
        if self.pending.insert(command.id, pending).is_some() {
            self.complain(Some(command.id), command.lsn, Fault::IdInUse);
        }
    }

    /// Whether an object that the host named may have some of the command's sectors. One that the drive made
    /// by itself gives way.
    fn is_named(&self, command: &Command<'_>) -> bool {
        command.op == Op::FlashAlloc
            && self.named.as_ref().is_some_and(|named| {
                ranges(command).any(|range| self.rules.in_range(range) && named.any(range))
            })
    }

    /// The request is complete.
    pub fn completed(&mut self, completion: &Completion) {
        let Some(mut pending) = self.pending.remove(&completion.id) else {
            let fault = Fault::NotUnderWay { status: completion.status };
            return self.complain(Some(completion.id), 0, fault);
        };
        let asked = if pending.op == Op::Read { pending.range.end - pending.range.start } else { 0 };
        self.expected += asked;
        if pending.op == Op::Read {
            // Since it was submitted, the drive may have said that it lost what it was writing.
            let may = self.rules.loses_data && pending.allowed.has(Status::Ok);
            pending.allowed = pending.allowed.or_if(may, Status::MediaError);
        }
        if let Some((lsn, fault)) = misfit(&pending, completion, asked) {
            if completion.status != Status::Ok && !pending.covers.is_empty() {
                self.put_back(pending.covers);
            }
            return self.complain(Some(completion.id), lsn, fault);
        }
        match (completion.status, pending.op) {
            (Status::Ok | Status::MediaError, Op::Read) => self.returned(&pending, completion),
            (Status::Ok, Op::Write | Op::Trim) => {
                let Range { start, end } = pending.range;
                self.sectors.acknowledged(start..end, pending.stamp);
                if pending.fua && pending.op == Op::Write || self.rules.protected {
                    self.sectors.durable(start..end, pending.stamp);
                }
                self.unflushed.push((start, end - start, pending.stamp));
            }
            (Status::Ok, Op::Flush) => {
                for (lsn, sectors, stamp) in pending.covers {
                    self.sectors.durable(lsn..lsn + sectors, stamp);
                }
            }
            (Status::ReadOnly, op) => {
                self.read_only |= op == Op::Write;
                self.put_back(pending.covers);
            }
            (Status::MediaError, _) => {
                // What was written may be unreadable from now on, and the drive has said so.
                self.rules.loses_data = true;
                self.put_back(pending.covers);
            }
            _ => {}
        }
    }

    /// A flush was refused: the next one has to do its work.
    fn put_back(&mut self, covers: Vec<Piece>) {
        covers.into_iter().for_each(|piece| self.unflushed.push(piece));
    }

    /// Compares what a read returned.
    fn returned(&mut self, read: &Pending, completion: &Completion) {
        let mut gone = completion.unreadable.iter().peekable();
        for ((lsn, bytes), floor) in
            read.range.clone().zip(completion.data.chunks_exact(UNIT)).zip(read.floors.each())
        {
            if is_next(&mut gone, lsn) {
                self.unreadable += 1;
                continue;
            }
            self.checked += 1;
            if let Err(wrong) = self.sectors.compare(lsn, bytes, floor) {
                let fault = Fault::Contents { found: wrong.found, expected: wrong.expected };
                self.complain(Some(completion.id), lsn, fault);
            }
        }
    }

    /// Nothing is under way any more: who has no answer yet will get none.
    pub fn at_rest(&mut self) {
        let mut unanswered: Vec<_> = self.pending.drain().collect();
        unanswered.sort_unstable_by_key(|&(id, _)| id);
        for (id, pending) in unanswered {
            if pending.op == Op::Read {
                self.expected += pending.range.end - pending.range.start;
            }
            self.complain(Some(id), pending.lsn, Fault::NeverAnswered);
        }
    }

    /// The drive shows that it takes no more writes, or that it lost programs as the power went: for want of a page to
    /// repeat a program in, it may have lost what it was writing. That may be what collection copied or a buffer held, so
    /// that no answer says so before a read does, or a power cut comes first.
    pub fn shows_losses(&mut self) {
        self.rules.loses_data |= self.rules.loses_writes;
    }

    /// The power was cut: requests under way are forgotten, and what each sector holds is known
    /// again only when `contents` (the whole device, [`UNIT`] bytes a sector, read after recovery) has
    /// been compared with the promise: nothing older than what was durable. Sectors in `unreadable`
    /// (first, how many; ascending) were not returned.
    pub fn power_cut(&mut self, contents: &[u8], unreadable: &[(u64, u64)]) {
        self.pending.clear();
        self.unflushed.take();
        self.read_only = false;
        self.stamp += 1;
        let sectors = self.rules.sectors;
        self.expected += sectors;
        let (found, expected) = (contents.len() as u64, sectors * UNIT as u64);
        if found != expected {
            self.complain(None, 0, Fault::ReadBack { found, expected });
        }
        let wrong = if self.rules.loses_data {
            wrong_range(unreadable, &(0..sectors))
        } else {
            unreadable.first().copied()
        };
        if let Some((lsn, sectors)) = wrong {
            self.complain(None, lsn, Fault::Unreadable { sectors });
        }
        let mut gone = unreadable.iter().peekable();
        for (lsn, bytes) in (0..sectors).zip(contents.chunks_exact(UNIT)) {
            if is_next(&mut gone, lsn) {
                self.unreadable += 1;
                self.sectors.unreturned(lsn);
                continue;
            }
            self.checked += 1;
            if let Err(wrong) = self.sectors.compare(lsn, bytes, self.sectors.durable_floor(lsn)) {
                let fault = Fault::Lost { found: wrong.found, expected: wrong.expected };
                self.complain(None, lsn, fault);
            }
            self.sectors.survived(lsn, bytes, self.stamp);
        }
    }

    fn complain(&mut self, id: Option<u64>, lsn: u64, fault: Fault) {
        let complaint = Complaint { id, lsn, fault };
        *(if complaint.of_contents() { &mut self.mismatches } else { &mut self.wrong }) += 1;
        if self.first.len() < KEPT {
            self.first.push(complaint);
        }
    }
}

/// What is wrong with an answer apart from the contents of sectors, and where. `asked` = sectors to be returned.
fn misfit(pending: &Pending, completion: &Completion, asked: u64) -> Option<(u64, Fault)> {
    let Completion { status, ref data, ref unreadable, .. } = *completion;
    if !pending.allowed.has(status) {
        let fault = Fault::Status { op: pending.op, found: status, expected: pending.allowed };
        return Some((pending.lsn, fault));
    }
    let returned = if matches!(status, Status::Ok | Status::MediaError) { asked } else { 0 };
    let (found, expected) = (data.len() as u64, returned * UNIT as u64);
    if found != expected {
        return Some((pending.lsn, Fault::Length { found, expected }));
    }
    if status != Status::MediaError || pending.op != Op::Read {
        let &(lsn, sectors) = unreadable.first()?;
        return Some((lsn, Fault::Unreadable { sectors }));
    }
    if unreadable.is_empty() {
        return Some((pending.lsn, Fault::NothingUnreadable));
    }
    let (lsn, sectors) = wrong_range(unreadable, &pending.range)?;
    Some((lsn, Fault::Unreadable { sectors }))
}

/// The first of `ranges` that is empty, not within `whole`, or not behind the one before.
fn wrong_range(ranges: &[(u64, u64)], whole: &Range<u64>) -> Option<(u64, u64)> {
    let mut from = whole.start;
    ranges.iter().copied().find(|&(lsn, sectors)| {
        let end = lsn.saturating_add(sectors);
        let wrong = sectors == 0 || lsn < from || end > whole.end;
        from = end;
        wrong
    })
}

/// Whether the next sector, `lsn`, is in one of the ascending ranges; those behind it are passed.
fn is_next<'a>(ranges: &mut std::iter::Peekable<impl Iterator<Item = &'a (u64, u64)>>, lsn: u64) -> bool {
    while ranges.next_if(|&&(first, sectors)| first.saturating_add(sectors) <= lsn).is_some() {}
    ranges.peek().is_some_and(|&&(first, _)| first <= lsn)
}
