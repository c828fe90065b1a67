//! What tests measure of generated requests: the papers' statistics, counted the plain way.

use super::{Published, Target, named};
use crate::{Op, Request, Source};
use std::collections::HashMap;

/// A device for tests.
pub(crate) fn target(logical_bytes: u64, requests: u64) -> Target {
    Target { logical_bytes, page_bytes: 8192, sector_bytes: 512, seed: 42, requests: Some(requests) }
}

/// Every request of a source, pulled in uneven portions.
pub(crate) fn drain(mut source: impl Source) -> Vec<Request> {
    let mut all = Vec::new();
    for portion in [1, 1000, 7, 4096].into_iter().cycle() {
        let before = all.len();
        source.fill(&mut all, portion).unwrap();
        assert!(all.len() <= before + portion);
        if all.len() == before {
            break;
        }
    }
    all
}

/// Counts at one page size.
#[derive(Default)]
pub(crate) struct PageStats {
    page_writes: u64,
    partial: u64,
    updates: u64,
    hit_partial: u64,
    across: u64,
    unaligned: u64,
    requests: u64,
    writes: u64,
}

impl PageStats {
    pub(crate) fn partial_writes(&self) -> f64 {
        self.partial as f64 / self.page_writes as f64
    }
    pub(crate) fn partial_updates(&self) -> f64 {
        self.updates as f64 / self.page_writes as f64
    }
    pub(crate) fn updates_hit_partial(&self) -> f64 {
        self.hit_partial as f64 / self.updates as f64
    }
    pub(crate) fn across(&self) -> f64 {
        self.across as f64 / self.requests as f64
    }
    pub(crate) fn unaligned(&self) -> f64 {
        self.unaligned as f64 / self.writes as f64
    }

    fn of(requests: &[Request], page: u64) -> Self {
        let mut s = Self::default();
        // Per page: which 512-byte sectors hold data, and whether the last write was partial.
        let mut pages: HashMap<u64, (u128, bool)> = HashMap::new();
        for r in requests {
            let (first, last) = (r.offset / page, (r.offset + r.bytes - 1) / page);
            s.requests += 1;
            s.across += u64::from(r.bytes <= page && last == first + 1);
            if r.op != Op::Write {
                continue;
            }
            s.writes += 1;
            s.unaligned += u64::from(r.offset % page != 0 || (r.offset + r.bytes) % page != 0);
            for number in first..=last {
                let from = r.offset.max(number * page) - number * page;
                let to = (r.offset + r.bytes).min((number + 1) * page) - number * page;
                let mask = (from / 512..to.div_ceil(512)).fold(0_u128, |m, i| m | 1 << i);
                let partial = to - from < page;
                let (held, was_partial) = pages.get(&number).copied().unwrap_or_default();
                s.page_writes += 1;
                s.partial += u64::from(partial);
                if partial && held & !mask != 0 {
                    s.updates += 1;
                    s.hit_partial += u64::from(was_partial);
                }
                pages.insert(number, (held | mask, partial));
            }
        }
        s
    }
}

/// All statistics of a request stream.
pub(crate) struct Stats {
    pub(crate) requests: Vec<Request>,
    by_page: [(u64, PageStats); 3],
}

impl Stats {
    /// Of a named workload, which must stay on the device and keep time.
    pub(crate) fn of(name: &str, target: &Target) -> Self {
        let requests = drain(named(name, target).unwrap().into_source());
        assert!(
            requests.iter().all(|r| r.offset + r.bytes <= target.logical_bytes),
            "{name} leaves the device"
        );
        assert!(requests.is_sorted_by_key(|r| r.time_ns), "{name} goes back in time");
        Self::new(requests)
    }

    pub(crate) fn new(requests: Vec<Request>) -> Self {
        let by_page = [4096, 8192, 16_384].map(|page| (page, PageStats::of(&requests, page)));
        Self { requests, by_page }
    }

    pub(crate) fn at(&self, page: u64) -> &PageStats {
        &self.by_page.iter().find(|p| p.0 == page).unwrap().1
    }

    pub(crate) fn write_share(&self) -> f64 {
        self.at(8192).writes as f64 / self.requests.len() as f64
    }

    pub(crate) fn mean_bytes(&self) -> f64 {
        self.requests.iter().map(|r| r.bytes).sum::<u64>() as f64 / self.requests.len() as f64
    }

    pub(crate) fn mean_write_bytes(&self) -> f64 {
        let writes = self.requests.iter().filter(|r| r.op == Op::Write);
        writes.map(|r| r.bytes).sum::<u64>() as f64 / self.at(8192).writes as f64
    }
}

/// Every published figure within 5% (sizes), 2 points (shares) or 1 point (across-page requests).
#[track_caller]
pub(crate) fn assert_close(name: &str, stats: &Stats, paper: &Published) {
    let check = |what: &str, got: f64, want: Option<f64>, within: f64| {
        if let Some(want) = want {
            assert!((got - want).abs() <= within, "{name}: {what} is {got}, published {want}");
        }
    };
    let (at_8k, at_16k) = (stats.at(8192), stats.at(16_384));
    check("write share", stats.write_share(), paper.write_share, 0.02);
    check("mean size", stats.mean_bytes(), paper.mean_bytes, 0.05 * paper.mean_bytes.unwrap_or(0.0));
    let writes = paper.mean_write_bytes;
    check("mean write", stats.mean_write_bytes(), writes, 0.05 * writes.unwrap_or(0.0));
    check("partial writes, 8 KiB", at_8k.partial_writes(), paper.partial_writes_8k, 0.02);
    check("partial writes, 16 KiB", at_16k.partial_writes(), paper.partial_writes_16k, 0.02);
    check("partial updates, 8 KiB", at_8k.partial_updates(), paper.partial_updates_8k, 0.02);
    check("partial updates, 16 KiB", at_16k.partial_updates(), paper.partial_updates_16k, 0.02);
    check("updates of partial pages", at_16k.updates_hit_partial(), paper.updates_hit_partial, 0.02);
    check("across, 8 KiB", at_8k.across(), paper.across_8k, 0.01);
    check("unaligned, 8 KiB", at_8k.unaligned(), paper.unaligned_writes_8k, 0.02);
    check("unaligned, 16 KiB", at_16k.unaligned(), paper.unaligned_writes_16k, 0.02);
}
