//! Size-based: small requests get the fastest pages (PAPA, section VI-B1; there after Zhang et al.,
//! PA-SSD). Section VI-A calls a request small that is smaller than a page, VI-B1 one of a single
//! transaction; they differ where one crosses a page border, and VI-B1's rule is followed.
//!
//! A write whose host request falls in one logical page takes an LSB page, one of a larger request a
//! CSB or MSB page. When a small write finds no LSB page, garbage is collected to get one: unlike
//! PAPA there is no second choice, which is what wears the flash out. Where the paper is silent:
//! - CSB and MSB pages are equally likely, where there are both: the published RMW reads (Fig. 12: 13% CSB, 8% MSB)
//!   rule out that CSB pages are preferred.
//! - A large write that finds neither takes an LSB page, as no CSB page can be written before the LSB
//!   pages of its block are.
//! - Behind a write buffer a page is what the last host request that wrote to it was, however it leaves: VI-A looks at
//!   "the incoming request from the host", VI-B4 has the cache absorb "single-transaction requests (small requests)".
//!   What shares a physical page goes where the first of it would.
//! - Garbage collection's survivors and the system's pages count as parts of large requests.
//! - Blocks are collected for their LSB pages before their CSB and MSB pages are written: the block of
//!   most dead pages, full or not.

use super::{Facts, Name, Plan, Published, Scheme, Seam, check_page_types};
use crate::error::ConfigError;
use crate::space::{Note, PageTypes, Step, Steps};

/// Page types by the size of the host's request.
#[derive(Clone, Debug)]
pub struct SizeBased;

impl Scheme for SizeBased {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
}

/// What it is called.
const NAME: &str = "size-based";

impl Published for SizeBased {
    const NAMES: &'static [Name] = &[Name {
        seam: Seam::Allocation,
        name: NAME,
        line: "LSB pages for requests within one logical page, CSB and MSB pages for larger ones.",
    }];
    type Config<'a> = ();

    fn plan((): (), facts: &Facts<'_>, plan: &mut Plan) -> Result<(), ConfigError> {
        check_page_types(NAME, facts)?;
        let types = facts.cell.bits() as usize;
        plan.space.page_types = Some(PageTypes::new(NAME, types, |class, survivors| {
            let mut steps = Steps::new();
            if survivors || !class.alone {
                steps.push(Step::Any(1, types));
            }
            steps.extend([Step::Take(0, Note::NONE), Step::Open(Note::NONE)]);
            steps
        }));
        Ok(())
    }
    fn new((): (), _: &Facts<'_>, _: u32) -> Self {
        Self
    }
}
