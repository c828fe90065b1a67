//! A readable check of everything a drive keeps: what `fsck` prints.
//!
//! Nothing here panics: a drive that was damaged is described, not refused. [`Ssd::check`] asserts
//! more, for tests.

use std::collections::BTreeSet;
use std::fmt;

use nandle_nand::{BlockCondition, Note, PageUse, Ppn};

use super::Ssd;
use crate::buffer::Buffer;
use crate::durability::Durability;
use crate::flash::Record;
use crate::space::State;

/// Problems described for each invariant; the others are counted.
const DESCRIBED: usize = 8;

/// One invariant.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What has to hold.
    pub what: &'static str,
    /// How many things were looked at.
    pub checked: u64,
    /// How many of them are wrong.
    pub wrong: u64,
    /// The first of these.
    pub problems: Vec<String>,
}

/// What was found of a drive.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Inspection {
    /// The invariants, in the order in which they build on each other.
    pub findings: Vec<Finding>,
    /// Logical sectors of the device, and those that are stored.
    pub sectors: (u64, u64),
    /// Of the stored ones, those that the flash cannot return (media errors).
    pub unreadable: u64,
    /// Blocks: free, open, closed (being collected or erased included), bad.
    pub blocks: [u64; 4],
    /// Erases of the least and of the most worn good block.
    pub erases: (u32, u32),
    /// The drive takes no more writes.
    pub read_only: bool,
    /// Why: too few good blocks are left for all logical pages and the reserve.
    pub worn_out: bool,
    /// Sectors that it has taken and holds in its write buffer.
    pub buffered: u64,
}

impl Inspection {
    /// Whether nothing is wrong.
    pub fn is_clean(&self) -> bool {
        self.findings.iter().all(|finding| finding.wrong == 0)
    }
}

impl fmt::Display for Inspection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (all, stored) = self.sectors;
        let [free, open, closed, bad] = self.blocks;
        writeln!(f, "sectors   {all}, {stored} stored, {} unreadable", self.unreadable)?;
        writeln!(f, "blocks    {free} free, {open} open, {closed} closed, {bad} bad")?;
        writeln!(f, "erases    {} to {} per good block", self.erases.0, self.erases.1)?;
        if self.read_only {
            let why = if self.worn_out { ": too few good blocks are left" } else { "" };
            let held = match self.buffered {
                0 => String::new(),
                sectors => format!("; {sectors} sectors that were taken are not on flash"),
            };
            writeln!(f, "state     read-only{why}{held}")?;
        }
        for finding in &self.findings {
            let verdict = if finding.wrong == 0 { "ok".into() } else { format!("{} WRONG", finding.wrong) };
            writeln!(f, "{:<58} {:>10}  {verdict}", finding.what, finding.checked)?;
            for problem in &finding.problems {
                writeln!(f, "    {problem}")?;
            }
            if finding.wrong > finding.problems.len() as u64 {
                writeln!(f, "    ...")?;
            }
        }
        Ok(())
    }
}

impl Finding {
    fn new(what: &'static str) -> Self {
        Self { what, checked: 0, wrong: 0, problems: vec![] }
    }
    fn look(&mut self, good: bool, problem: impl FnOnce() -> String) {
        self.checked += 1;
        if !good {
            self.wrong += 1;
            if self.problems.len() < DESCRIBED {
                self.problems.push(problem());
            }
        }
    }
}

impl Ssd {
    /// Checks the drive's invariants and describes what it finds.
    pub fn inspect(&self) -> Inspection {
        let mut referred = BTreeSet::new();
        let mut out = Inspection {
            findings: vec![],
            sectors: (self.layout.logical_sectors, 0),
            unreadable: 0,
            blocks: [0; 4],
            erases: (u32::MAX, 0),
            read_only: self.is_read_only(),
            worn_out: !self.flash.space().fits(),
            buffered: self.buffer.as_ref().map_or(0, Buffer::sectors),
        };
        self.inspect_map(&mut out, &mut referred);
        self.inspect_system(&mut out, &mut referred);
        self.inspect_blocks(&mut out, &referred);
        out
    }

    fn inspect_map(&self, out: &mut Inspection, referred: &mut BTreeSet<Ppn>) {
        let mut owner = Finding::new("each stored sector has one owner");
        let mut oob = Finding::new("that page's out-of-band area names the sector");
        let array = self.flash.array();
        for lpn in 0..self.flash.logical_pages() {
            let mut seen = 0;
            for f in self.flash.fragments().get(lpn, array) {
                owner.look(f.mask != 0 && f.mask & seen == 0, || {
                    format!("logical page {lpn}: sectors {:#x} twice, or a fragment of none", f.mask & seen)
                });
                seen |= f.mask;
                referred.insert(f.ppn);
                let named = self.named_by(f.ppn, lpn, f.shift);
                oob.look(named & f.mask == f.mask, || {
                    format!("logical page {lpn}: page {:#x} does not name {:#x}", f.ppn.0, f.mask & !named)
                });
            }
            out.sectors.1 += u64::from(seen.count_ones());
            out.unreadable += u64::from(self.flash.unreadable(lpn, u64::MAX).count_ones());
        }
        out.findings.extend([owner, oob]);
    }

    /// The sectors of `lpn` that the out-of-band area of `ppn` names, `shift` sectors from home.
    fn named_by(&self, ppn: Ppn, lpn: u32, shift: i8) -> u64 {
        if !self.flash.array().page_use(ppn).is_data() {
            return 0;
        }
        let base = u64::from(lpn) * u64::from(self.flash.sectors_per_page());
        let mut named = 0_u64;
        self.flash.array().oob(ppn).extents.each(self.flash.sectors_per_page(), |e| {
            for n in 0..u64::from(e.sectors) {
                let sector = (e.lsn + n).wrapping_sub(base);
                let at = i64::from(e.at) + n as i64;
                if sector < u64::from(self.flash.sectors_per_page()) && at - sector as i64 == i64::from(shift)
                {
                    named |= 1 << sector;
                }
            }
        });
        named
    }

    fn inspect_system(&self, out: &mut Inspection, referred: &mut BTreeSet<Ppn>) {
        let array = self.flash.array();
        let is = |ppn: Ppn, kind: PageUse| array.page_use(ppn) == kind;
        if let Some(cache) = self.flash.map().cache() {
            let mut finding = Finding::new("translation pages say what the map says");
            for (page, ppn) in self.flash.map().translation_pages() {
                referred.insert(ppn);
                let says = |note: &Note| *note == *self.flash.map().entries(page, array);
                let same = cache.is_cached(page) || array.note(ppn).is_some_and(says);
                finding.look(is(ppn, PageUse::Map) && same, || {
                    format!("translation page {page} in page {:#x} is stale or not there", ppn.0)
                });
            }
            out.findings.push(finding);
        }
        let mut log = Finding::new("records of the metadata log are on the device");
        for &(number, ppn) in self.durability.log_pages() {
            referred.insert(ppn);
            log.look(is(ppn, PageUse::Meta), || format!("page {number} of the log is not in {:#x}", ppn.0));
            let note = array.note(ppn).map_or_else(Vec::new, Note::bytes);
            Durability::read_log_page(&note, |record| {
                if let Record::Trim(trim) = record {
                    let end = trim.lsn.checked_add(trim.sectors);
                    log.look(end.is_some_and(|end| end <= self.layout.logical_sectors), || {
                        format!(
                            "page {number} of the log: a trim of {} sectors at {}",
                            trim.sectors, trim.lsn
                        )
                    });
                }
            });
        }
        let mut checkpoint = Finding::new("checkpoint pages are there and whole");
        for ppn in self.durability.checkpoint_pages() {
            referred.insert(ppn);
            let whole = is(ppn, PageUse::Checkpoint) && array.note(ppn).is_some_and(Durability::is_whole);
            checkpoint.look(whole, || format!("page {:#x}", ppn.0));
        }
        out.findings.extend([log, checkpoint]);
    }

    fn inspect_blocks(&self, out: &mut Inspection, referred: &BTreeSet<Ppn>) {
        let mut live = Finding::new("pages with data are marked live");
        for &ppn in referred {
            live.look(self.flash.blocks().is_live(ppn), || format!("page {:#x} is taken for dead", ppn.0));
        }
        let mut counts = Finding::new("blocks count what they hold, and free ones are erased");
        let array = self.flash.array();
        let mut held = std::collections::BTreeMap::new();
        for &ppn in referred {
            *held.entry(self.flash.geometry().block_of(ppn)).or_insert(0_u32) += 1;
        }
        for (block, state) in self.flash.blocks().each() {
            let place = match state {
                State::Free => 0,
                State::Open => 1,
                State::Closed | State::Victim | State::Erasing => 2,
                State::Bad => 3,
            };
            out.blocks[place] += 1;
            if state != State::Bad {
                let erases = array.erases(block);
                out.erases = (out.erases.0.min(erases), out.erases.1.max(erases));
            }
            let valid = held.get(&block).copied().unwrap_or(0);
            let erased = array.pages_programmed(block) == 0 && array.condition(block) == BlockCondition::Good;
            counts.look(
                self.flash.blocks().valid(block) == valid && (state != State::Free || erased),
                || {
                    format!(
                        "block {:#x}: {valid} pages with data, {} counted",
                        block.0,
                        self.flash.blocks().valid(block)
                    )
                },
            );
        }
        out.erases.0 = out.erases.0.min(out.erases.1);
        out.findings.extend([live, counts]);
    }
}
