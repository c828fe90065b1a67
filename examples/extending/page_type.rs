//! Which page type a write gets: requests of one page the fastest, what belongs to larger ones the slowest.
//!
//! Someone waits for a small request, and a large one takes its time anyway. A size-based policy
//! makes small writes wait until an LSB page can be had; here they take what there is.

use nandle_ssd::Advisor;
use nandle_ssd::advisor::PageTypes;
use nandle_ssd::allocation::PageClass;

/// Small requests on fast pages, large ones on slow pages, no one waits.
#[derive(Debug)]
pub struct Prompt;

impl Advisor for Prompt {
    fn page_types(&self, class: PageClass, bits: usize) -> PageTypes {
        if class.alone { (0..bits).collect() } else { (0..bits).rev().collect() }
    }
}
