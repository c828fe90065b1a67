//! Which page type a write gets: requests of one page the fastest, what belongs to larger ones the slowest.
//!
//! Someone waits for a small request, and a large one takes its time anyway. A size-based policy
//! makes small writes wait until an LSB page can be had; here they take what there is.

use nandle_ssd::schemes::Scheme;
use nandle_ssd::space::PageClass;

/// Small requests on fast pages, large ones on slow pages, no one waits.
#[derive(Clone, Copy, Debug)]
pub struct Prompt;

impl Scheme for Prompt {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(*self)
    }

    fn page_types(&self, class: PageClass, types: usize) -> Vec<usize> {
        if class.alone { (0..types).collect() } else { (0..types).rev().collect() }
    }
}
