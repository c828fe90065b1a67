//! LSB-first: the fastest pages first, whatever is written (PAPA, section VI-A; there after Zhang et
//! al., PA-SSD).
//!
//! All LSB pages of free blocks are used first; when there are none, each write takes the next page, CSB or MSB,
//! of one of the blocks that have pages left, each being equally likely. Where the paper is silent:
//! - "CSB and MSB pages with equal probability" means the pages, not the two types. The write response of *exch* falls by
//!   63%, so it had fewer LSB pages than writes, and still "can be accommodated without writing MSB pages" (VI-B3): if
//!   a type were drawn, half of the rest would be MSB pages. In a block MSB pages follow CSB pages.
//! - Garbage collection's survivors take the LSB pages of the block that is open, then draw too: they
//!   open no fresh block while a page is left elsewhere.

use super::{Facts, Name, Plan, Published, Scheme, Seam, check_page_types};
use crate::error::ConfigError;
use crate::space::{Note, PageTypes, Step, Steps};

/// The fastest page types first.
#[derive(Clone, Debug)]
pub struct LsbFirst;

impl Scheme for LsbFirst {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

/// What it is called.
const NAME: &str = "lsb-first";

impl Published for LsbFirst {
    const NAMES: &'static [Name] = &[Name {
        seam: Seam::Allocation,
        name: NAME,
        line: "All LSB pages of free blocks first, then any of the other pages with equal probability.",
    }];
    type Config<'a> = ();

    fn plan((): (), facts: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError> {
        check_page_types(NAME, facts)?;
        let types = facts.cell.bits() as usize;
        plan.space.page_types = Some(PageTypes::new(NAME, types, |_, survivors| {
            let (fresh, slow) = (Step::Open(Note::NONE), Step::AnyBlock(1, types));
            let mut steps: Steps = smallvec::smallvec![Step::Take(0, Note::NONE)];
            steps.extend(if survivors { [slow, fresh] } else { [fresh, slow] });
            steps
        }));
        Ok(())
    }
    fn new((): (), _: &Facts<'_>, _: u32) -> Self {
        Self
    }
}
