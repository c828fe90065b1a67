//! Figs 5 and 7: how a trace's writes fall on pages.

use std::collections::HashMap;

use nandle_ssd::Op;
use nandle_trace::Request;

use super::plan::{PAGE, SECTOR};

/// How a trace's writes fall on pages (Figs 5 and 7), of one pass.
#[derive(Clone, Copy, Debug, Default)]
pub struct Pages {
    /// Page writes at 8 and at 16 KiB, partial ones among them, and partial updates.
    pub(super) writes: [u64; 2],
    pub(super) partial: [u64; 2],
    pub(super) updates: [u64; 2],
    /// Partial updates at 16 KiB of a page that a partial write stored.
    pub(super) hits: u64,
}

impl Pages {
    /// Counts a trace.
    pub fn of(trace: &[Request]) -> Self {
        let mut pages = Self::default();
        for (n, page) in [8192, PAGE].into_iter().enumerate() {
            let full = (1_u64 << (page / SECTOR)) - 1;
            // Sectors stored, and whether the last write was partial.
            let mut stored: HashMap<u64, (u64, bool)> = HashMap::new();
            for request in trace.iter().filter(|r| r.op == Op::Write) {
                let (lsn, sectors) = sectors(request);
                let spp = page / SECTOR;
                for lpn in lsn / spp..=(lsn + sectors - 1) / spp {
                    let from = lsn.max(lpn * spp) - lpn * spp;
                    let to = (lsn + sectors).min((lpn + 1) * spp) - lpn * spp;
                    let mask = (1 << to) - (1 << from);
                    let entry = stored.entry(lpn).or_default();
                    let update = mask != full && entry.0 & !mask != 0;
                    pages.writes[n] += 1;
                    pages.partial[n] += u64::from(mask != full);
                    pages.updates[n] += u64::from(update);
                    pages.hits += u64::from(n == 1 && update && entry.1);
                    *entry = (entry.0 | mask, mask != full);
                }
            }
        }
        pages
    }
}

/// First sector and sectors of a request.
pub(super) fn sectors(request: &Request) -> (u64, u64) {
    let first = request.offset / SECTOR;
    (first, (request.offset + request.bytes).div_ceil(SECTOR) - first)
}
