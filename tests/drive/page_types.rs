//! Goal: page-type policies put every page where their papers say, break no program order, and
//! never come to a standstill for want of a page type.
//! Method: PAPA's life cycle (Figs 9 and 10) against a tiny model written from the text; counts per
//! page type in small hand-made situations; full devices at the least over-provisioning under
//! writes of one kind only.

use std::collections::VecDeque;

use nandle_random::Stream;
use nandle_ssd::media::CellConfig;
use nandle_ssd::nand::{Cause, CellKind, ProgramOrder};
use nandle_ssd::schemes::Seam;
use nandle_ssd::{DeviceConfig, Op, Ssd};

use crate::devices;
use crate::drive;
use drive::{closed, counter, one, programs};

/// One plane of `blocks` blocks of `pages` pages of 8 sectors.
fn one_plane(policy: &str, kind: CellKind, blocks: u32, pages: u32) -> DeviceConfig {
    let mut c = devices::base();
    c.geometry.channels = 1;
    c.geometry.planes_per_die = 1;
    c.geometry.blocks_per_plane = blocks;
    c.geometry.pages_per_block = pages;
    c.cell = CellConfig { kind, program_order: ProgramOrder::Relaxed, ..CellConfig::default() };
    c.timing.read_ns = vec![50_000, 100_000, 150_000, 200_000];
    c.timing.program_ns = vec![500_000, 2_000_000, 5_500_000, 8_000_000];
    c.timing.read_ns.truncate(kind.bits() as usize);
    c.timing.program_ns.truncate(kind.bits() as usize);
    c.scheme.allocation = policy.into();
    c.gc.types_ahead = false;
    c.op_ratio = 2.0;
    // Every page is accounted for.
    c.recovery.checkpoint_interval = 0;
    c
}

/// The least over-provisioning that the device takes.
fn fullest(mut c: DeviceConfig) -> DeviceConfig {
    c.op_ratio = 0.0;
    while let Err(e) = c.validate() {
        let least = e.expected.strip_prefix("at least ").and_then(|s| s.split(':').next());
        c.op_ratio = least.expect("the error names the least").parse().expect("a number");
    }
    c
}

/// Host programs of each type.
fn host_types(ssd: &Ssd) -> [u64; 4] {
    ssd.flash().counters().programs[Cause::Host as usize]
}

/// PAPA's block management as sections V-C and V-D tell it, for one plane without collection:
/// blocks are their written LSB, CSB and MSB pages, queues are lists of block numbers.
struct Model {
    per_type: usize,
    done: Vec<[usize; 3]>,
    free: VecDeque<usize>,
    csb_msb: VecDeque<usize>,
    msb: VecDeque<usize>,
    full: Vec<usize>,
}

impl Model {
    fn new(blocks: usize, per_type: usize) -> Self {
        Self {
            per_type,
            done: vec![[0; 3]; blocks],
            free: (0..blocks).collect(),
            csb_msb: VecDeque::new(),
            msb: VecDeque::new(),
            full: Vec::new(),
        }
    }

    /// Writes a page and says on which type; none: an emergency collection would be due.
    fn write(&mut self, full: bool) -> Option<usize> {
        if full {
            self.csb().or_else(|| self.last()).or_else(|| self.lsb())
        } else {
            self.lsb().or_else(|| self.csb())
        }
    }

    /// "Once the LSB pages in the current block are exhausted, the block is enqueued in the CSB/MSB
    /// block queue, and the next block from the free-block queue is allocated."
    fn lsb(&mut self) -> Option<usize> {
        let &block = self.free.front()?;
        self.done[block][0] += 1;
        if self.done[block][0] == self.per_type {
            self.csb_msb.extend(self.free.pop_front());
        }
        Some(0)
    }

    /// "Once the CSB pages of a block are consumed, the block is enqueued in the MSB block queue."
    fn csb(&mut self) -> Option<usize> {
        let &block = self.csb_msb.front()?;
        self.done[block][1] += 1;
        if self.done[block][1] == self.per_type {
            self.msb.extend(self.csb_msb.pop_front());
        }
        Some(1)
    }

    /// "The blocks with no free pages in the MSB block queue are enqueued in the full-block queue."
    fn last(&mut self) -> Option<usize> {
        let &block = self.msb.front()?;
        self.done[block][2] += 1;
        if self.done[block][2] == self.per_type {
            self.full.extend(self.msb.pop_front());
        }
        Some(2)
    }
}

#[test]
fn papa_follows_the_papers_life_cycle() {
    for (seed, share) in [(1, 0.75), (2, 0.5), (3, 0.95), (4, 0.25), (5, 0.0), (6, 1.0)] {
        let mut config = one_plane("papa", CellKind::Tlc, 40, 24);
        config.op_ratio = 0.2;
        config.wear.dynamic = false; // the free queue is first in, first out
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        let mut model = Model::new(40, 8);
        let mut draw = Stream::new(seed, "life cycle");
        let mut expected = [0_u64; 4];
        // Stay clear of collection: it is not part of this model.
        for lpn in 0..u64::from(ssd.layout().logical_pages).min(37 * 24) {
            let full = !draw.chance(share);
            let Some(kind) = model.write(full) else { break };
            expected[kind] += 1;
            one(&mut ssd, Op::Write, lpn * 8, if full { 8 } else { 3 });
            assert_eq!(host_types(&ssd), expected, "page {lpn}, full {full}, seed {seed}");
        }
        let array = ssd.flash().array();
        for (number, done) in model.done.iter().enumerate() {
            let block = array.geometry().block(0, number as u32);
            assert_eq!(array.programmed(block), [done[0] as u16, done[1] as u16, done[2] as u16, 0]);
        }
        assert_eq!(ssd.stats().gc_invocations, 0, "seed {seed}");
        assert!(expected.iter().sum::<u64>() > 200, "seed {seed}: {expected:?}");
    }
}

#[test]
fn papa_backs_up_and_collects_as_in_figure_10() {
    // 12 blocks of 4 LSB, 4 CSB and 4 MSB pages, hot partial writes only.
    let config = one_plane("papa", CellKind::Tlc, 12, 12);
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    let writes = |ssd: &mut Ssd, count: u64| (0..count).for_each(|n| _ = one(ssd, Op::Write, n % 20 * 8, 2));
    writes(&mut ssd, 48);
    assert_eq!(host_types(&ssd), [48, 0, 0, 0], "every LSB page of the plane comes first");
    writes(&mut ssd, 48);
    assert_eq!(host_types(&ssd), [48, 48, 0, 0], "then CSB pages are the backup");
    assert_eq!((counter(&ssd, "allocation.backup_csb"), ssd.stats().collection.emergency_gcs), (48, 0));
    writes(&mut ssd, 1);
    assert_eq!(host_types(&ssd), [49, 48, 0, 0], "then collection makes an LSB page");
    assert_eq!(ssd.stats().collection.emergency_gcs, 1);
    assert_eq!(
        ssd.stats().collection.unfinished_victims,
        1,
        "no block is full: MSB pages were never written"
    );
    // Full pages take what partial ones leave, and hardly ever an LSB page.
    for n in 0..16 {
        one(&mut ssd, Op::Write, (30 + n) * 8, 8);
    }
    let types = host_types(&ssd);
    assert_eq!(types[2], 16, "no CSB page was left: {types:?}");
    assert_eq!(counter(&ssd, "allocation.backup_msb"), 16);
    ssd.check();
}

#[test]
fn four_types_split_in_the_middle() {
    let config = one_plane("papa", CellKind::Qlc, 12, 16);
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    for n in 0..48 + 30 {
        one(&mut ssd, Op::Write, n % 60 * 8, 2);
    }
    assert_eq!(host_types(&ssd), [48, 30, 0, 0], "partial pages: LSB then CSB");
    for n in 0..12 {
        one(&mut ssd, Op::Write, n * 8, 8);
    }
    assert_eq!(host_types(&ssd), [48, 30, 12, 0], "full pages: MSB");
}

#[test]
fn size_based_looks_at_the_request() {
    let config = one_plane("size-based", CellKind::Tlc, 12, 12);
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    for n in 0..20 {
        one(&mut ssd, Op::Write, n % 12 * 8, 8);
    }
    assert_eq!(host_types(&ssd), [20, 0, 0, 0], "one whole page is a small request");
    for n in 0..4 {
        one(&mut ssd, Op::Write, n * 16 + 4, 8);
    }
    assert_eq!(host_types(&ssd)[0], 20, "two halves are a large one");
    for n in 0..29 {
        one(&mut ssd, Op::Write, n % 12 * 8, 1);
    }
    let stats = &ssd.stats().collection;
    assert_eq!(host_types(&ssd)[0], 49);
    assert_eq!((stats.emergency_gcs, stats.unfinished_victims), (1, 1), "no LSB page left: one is collected");
    ssd.check();
}

/// A request is no smaller for leaving the buffer page by page (section VI-B4); the last one that wrote to a page counts.
#[test]
fn size_based_looks_at_the_request_behind_a_buffer() {
    for buffer in ["lru", "fifo", "pc-lru", "mca"] {
        let mut config = one_plane("size-based", CellKind::Tlc, 12, 12);
        config.scheme.buffer = buffer.into();
        config.buffer.bytes = 1 << 20;
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        let mut flushed = |requests: &[(u64, u64)]| {
            for &(lsn, sectors) in requests {
                one(&mut ssd, Op::Write, lsn, sectors);
            }
            one(&mut ssd, Op::Flush, 0, 0);
            ssd.check();
            let types = host_types(&ssd);
            [types[0], types[1] + types[2]]
        };
        let small: Vec<(u64, u64)> = (0..12).map(|n| (n * 8, 8)).collect();
        assert_eq!(flushed(&small), [12, 0], "{buffer}: a whole page is a small request");
        assert_eq!(flushed(&[(0, 16)]), [12, 2], "{buffer}: two pages are a large one");
        assert_eq!(flushed(&[(20, 8)]), [12, 4], "{buffer}: two halves too");
        assert_eq!(flushed(&[(32, 16), (32, 1)]), [13, 5], "{buffer}: a small one in a large one's page");
        assert_eq!(flushed(&[(48, 1), (48, 16)]), [13, 7], "{buffer}: a large one over a small one's page");
    }
}

/// When no LSB page is left, each block is as likely as any other, and its CSB pages come before its MSB pages: of n
/// writes to 60 blocks with 8 pages of each, min(k, 8) of the k that fall on a block are CSB pages, and k is binomial.
#[test]
fn lsb_first_takes_slow_pages_of_any_block() {
    let mut config = one_plane("lsb-first", CellKind::Tlc, 60, 24);
    config.op_ratio = 0.2;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    for n in 0..480 {
        one(&mut ssd, Op::Write, n * 8, 8);
    }
    assert_eq!(host_types(&ssd), [480, 0, 0, 0]);
    let mut written = 0;
    for (n, msb) in [(120, 0.0), (360, 18.4)] {
        while written < n {
            one(&mut ssd, Op::Write, (480 + written) * 8, 3);
            written += 1;
        }
        let types = host_types(&ssd);
        assert_eq!((types[0], types[1] + types[2]), (480, n));
        assert!((types[2] as f64 - msb).abs() < 9.0, "{types:?}: expected {msb} MSB pages");
    }
    let first =
        ssd.flash().geometry().blocks_of(0).filter(|&b| ssd.flash().array().programmed(b)[1] > 0).count();
    assert_eq!(first, 60, "every block has its share");
}

#[test]
fn strict_order_writes_a_third_each() {
    let mut config = one_plane("strict", CellKind::Tlc, 24, 24);
    config.cell.program_order = ProgramOrder::Strict;
    config.op_ratio = 0.5;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    let pages = u64::from(ssd.layout().logical_pages);
    let mut draw = Stream::new(1, "thirds");
    closed(&mut ssd, 4, 20_000, |_| (Op::Write, draw.below(pages) * 8, 8));
    let types = ssd
        .flash()
        .counters()
        .programs
        .iter()
        .fold([0; 3], |sum, by_type| std::array::from_fn(|kind| sum[kind] + by_type[kind]));
    let third = programs(&ssd) as f64 / 3.0;
    assert!(types.iter().all(|&n: &u64| (n as f64 / third - 1.0).abs() < 0.01), "{types:?}");
}

#[test]
fn refused_without_a_relaxed_order_or_types_to_choose() {
    let mut config = one_plane("papa", CellKind::Tlc, 24, 24);
    config.cell.program_order = ProgramOrder::Strict;
    let error = config.validate().expect_err("rules 6 and 7 forbid it");
    assert_eq!((error.field.as_str(), error.value.as_str()), ("cell.program_order", "strict"));
    let mut config = one_plane("lsb-first", CellKind::Slc, 24, 24);
    config.timing.read_ns.truncate(1);
    config.timing.program_ns.truncate(1);
    assert_eq!(config.validate().expect_err("one type only").field, "cell.kind");
}

/// A full device, as little spare as it takes, written over many times by writes of one kind.
#[test]
fn no_mixture_of_writes_brings_a_full_device_to_a_standstill() {
    let count = if std::env::var_os("NANDLE_NIGHTLY").is_some() { 400_000 } else { 12_000 };
    for policy in devices::policies(Seam::Allocation) {
        for kind in [CellKind::Mlc, CellKind::Tlc, CellKind::Qlc] {
            for (n, (share, most)) in
                [(1.0, 1), (1.0, 7), (0.0, 8), (0.0, 24), (0.5, 8), (0.97, 24)].into_iter().enumerate()
            {
                for striping in ["CWDP", "dynamic"] {
                    let mut config = one_plane(policy, kind, 20, 12);
                    config.geometry.planes_per_die = 2;
                    config.gc.types_ahead = n % 2 == 0;
                    config.scheme.striping = striping.into();
                    config.wear.static_gap = if striping == "dynamic" { 3 } else { 0 };
                    let config = fullest(config);
                    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
                    let pages = u64::from(ssd.layout().logical_pages);
                    let mut draw = Stream::new(7, "standstill");
                    closed(&mut ssd, 4, count, |n| {
                        let lpn = if n < pages { n } else { draw.below(pages) };
                        if draw.chance(share) {
                            let length = 1 + draw.below(most.min(7));
                            (Op::Write, lpn * 8 + draw.below(9 - length), length)
                        } else {
                            let length = (most / 8).max(1).min(pages - lpn);
                            (Op::Write, lpn * 8, length * 8)
                        }
                    });
                    ssd.check();
                    let label = format!("{policy} {kind:?} {share} {most} {striping}");
                    assert!(ssd.stats().gc_invocations > 500, "{label}: {:?}", ssd.stats());
                    println!("{label}: host {:?} {:?}", host_types(&ssd), ssd.stats().collection);
                }
            }
        }
    }
}
