//! Which writes share blocks: pages that were overwritten soon, and all others.
//!
//! The host says nothing; the flash remembers. A page's sequence number says how many pages were
//! programmed since it was written (or moved), so when it is overwritten the drive knows how long it lived. What
//! died young will die young again (the idea of hot-data identification, Hsieh et al. 2006, at no cost
//! in memory). Blocks of hot pages are empty soon, and collection has less to copy.

use nandle_ssd::flash::Flash;
use nandle_ssd::schemes::{Interests, Scheme};

/// Stream 1 for what lived less than a quarter of the drive, stream 0 for the rest.
#[derive(Clone, Copy, Debug)]
pub struct HotAndCold;

impl Scheme for HotAndCold {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(*self)
    }
    fn interests(&self) -> Interests {
        Interests::STREAM
    }

    fn stream(&self, flash: &Flash, lsn: u64, _sectors: u64, _hint: u16) -> Option<u16> {
        let lpn = (lsn / u64::from(flash.sectors_per_page())) as u32;
        let old = flash.fragments().single(lpn)?;
        let lived = flash.array().next_seq() - flash.array().seq(old);
        Some(u16::from(lived < u64::from(flash.fragments().len()) / 4))
    }
}
