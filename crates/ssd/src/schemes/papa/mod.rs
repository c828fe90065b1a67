//! PAPA: partial page-aware page allocation (Fareed, Kang, Lee, Kim: "PAPA: Partial Page-aware Page
//! Allocation in TLC Flash SSD for Performance Enhancement", section V).
//!
//! A partial update reads what a partial write stored before, so partial pages go where reading and
//! writing are fast and full pages where they are not:
//!
//! | page | takes |
//! | --- | --- |
//! | partial | LSB of the active block, else of the next free block; else, as a backup, CSB (Fig. 10, left); else it waits for an emergency collection |
//! | full | CSB, else MSB (Fig. 10, right); if no block of the plane has either, LSB |
//!
//! The last line is the paper's exception "before any data are written". It is applied whenever no
//! block has a CSB or MSB page next, which is when it must be: at the start, and again when all
//! blocks but freshly erased ones are full. Blocks move from the free queue to the CSB/MSB queue to
//! the MSB queue to the full queue (Fig. 9): the core's partially written blocks.
//!
//! What counts is the write, not the page: a partial update is partial although its page is full
//! after reading, modifying and writing. The out-of-band area remembers it for the survivors of
//! garbage collection. Where the paper is silent:
//! - A survivor keeps its class, but never opens a free block while a page is left in a partially written
//!   one: full survivors take CSB, MSB, LSB; partial ones LSB, CSB and, to avoid a standstill, MSB
//!   (`slow_survivors`). Only host writes are held to "partial pages never on MSB".
//! - The system's pages (translation pages, the log) are full pages.
//! - Emergency collection takes the block with the most dead pages. The paper looks in the full
//!   queue only, yet that is empty when partial writes leave MSB pages unwritten, and hardly used
//!   blocks may be all it holds. Blocks of the CSB/MSB and MSB queues are candidates too, the full one
//!   wins a tie, and `unfinished_victims` counts them.
//! - Cells of b bits: partial pages have the types below b/2 (rounded down) to themselves and type
//!   b/2 as a backup, but never the slowest. MLC: LSB, no backup. QLC: LSB then CSB, backup MSB; full
//!   pages MSB then TSB.

use super::{Counter, Facts, Name, Plan, Published, Scheme, Seam, check_page_types};
use crate::error::ConfigError;
use crate::space::{Note, PageClass, PageTypes, Step, Steps};

/// Partial host writes that took a CSB page (QLC: MSB) because no LSB page was left.
const BACKUP_CSB: Note = Note(1);
/// Full host and system writes that took an MSB page (QLC: TSB) because no CSB page was left.
const BACKUP_MSB: Note = Note(2);
/// Full host and system writes that took an LSB page because no block had anything else.
const FULL_ON_FAST: Note = Note(3);
/// Survivors of collection, partial when written, that took a page of the slowest type.
const SLOW_SURVIVORS: Note = Note(4);

/// Page types by whether a write covers its page.
#[derive(Clone, Debug)]
pub struct Papa;

/// How a page of `class` is looked for on cells of `types` types.
fn steps(types: usize, class: PageClass, survivors: bool) -> Steps {
    // The fastest type for full pages, and the one that partial pages never get.
    let (split, slowest) = (types / 2, types - 1);
    let by_host = |note: Note| if survivors { Note::NONE } else { note };
    let mut steps = Steps::new();
    if class.full {
        let backup = |kind| if kind > split { by_host(BACKUP_MSB) } else { Note::NONE };
        steps.extend((split..=slowest).map(|kind| Step::Take(kind, backup(kind))));
        steps.extend((0..split).rev().map(|kind| Step::Take(kind, by_host(FULL_ON_FAST))));
        steps.push(Step::Open(by_host(FULL_ON_FAST)));
        return steps;
    }
    steps.push(Step::Take(0, Note::NONE));
    if !survivors {
        steps.push(Step::Open(Note::NONE));
    }
    let backup = |kind| if kind >= split { by_host(BACKUP_CSB) } else { Note::NONE };
    steps.extend((1..slowest).map(|kind| Step::Take(kind, backup(kind))));
    if survivors {
        steps.push(Step::Take(slowest, SLOW_SURVIVORS));
        steps.push(Step::Open(Note::NONE));
    }
    steps
}

impl Scheme for Papa {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

/// What it is called.
const NAME: &str = "papa";

impl Published for Papa {
    const NAMES: &'static [Name] = &[Name {
        seam: Seam::Allocation,
        name: NAME,
        line: "LSB pages for partial writes, CSB and MSB pages for full ones (PAPA).",
    }];
    const COUNTERS: &'static [Counter<Self>] = &[
        Counter::new(
            "allocation.backup_csb",
            "partial host writes that took a CSB page (QLC: MSB) for want of LSB pages",
            |_, flash| flash.space().noted(BACKUP_CSB),
        ),
        Counter::new(
            "allocation.backup_msb",
            "full writes that took an MSB page (QLC: TSB) for want of CSB pages",
            |_, flash| flash.space().noted(BACKUP_MSB),
        ),
        Counter::new(
            "allocation.full_on_fast",
            "full writes that took an LSB page because no block had anything else",
            |_, flash| flash.space().noted(FULL_ON_FAST),
        ),
        Counter::new(
            "allocation.slow_survivors",
            "partial survivors of collection that took a page of the slowest type",
            |_, flash| flash.space().noted(SLOW_SURVIVORS),
        ),
    ];
    type Config<'a> = ();

    fn plan((): (), facts: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError> {
        check_page_types(NAME, facts)?;
        let types = facts.cell.bits() as usize;
        plan.space.page_types =
            Some(PageTypes::new(NAME, types, |class, survivors| steps(types, class, survivors)));
        Ok(())
    }
    fn new((): (), _: &Facts<'_>, _: u32) -> Self {
        Self
    }
}
