//! The SLC cache: a burst at SLC speed, the cliff behind it, folding while the host is idle, and what that writes.

use nandle_ssd::nand::{CellKind, ProgramOrder};
use nandle_ssd::space::Fold;
use nandle_ssd::{DeviceConfig, Op, Ssd};

use super::drive::{closed, one, programs, settle};
use super::{TRANSFER, array, new};

const PLANES: u64 = 4;
/// Blocks of each plane that are the cache's own.
const BLOCKS: u64 = 2;
/// Word lines of a block of 64 TLC pages: its pages in SLC mode.
const PAGES: u64 = 22;
/// What the cache takes.
const CACHE: u64 = PLANES * BLOCKS * PAGES;

const SLC_PROGRAM: u64 = 160_000;
const SLC_READ: u64 = 25_000;
const LSB: u64 = 500_000;
const CSB: u64 = 2_000_000;
const MSB: u64 = 5_500_000;

/// A TLC die on each of four channels, so that no transfer waits for another.
fn tlc(fold: Fold) -> DeviceConfig {
    let mut config = array(4, 1);
    config.cell.kind = CellKind::Tlc;
    config.timing.program_ns = vec![LSB, CSB, MSB];
    config.slc.bytes = CACHE * 4096;
    config.slc.fold = fold;
    (config.slc.program_ns, config.slc.read_ns) = (Some(SLC_PROGRAM), Some(SLC_READ));
    config
}

/// Writes `pages` whole pages from page `first` on, eight at a time; how long that takes.
fn burst(ssd: &mut Ssd, first: u64, pages: u64) -> u64 {
    closed(ssd, 8, pages, |n| (Op::Write, (first + n) * 8, 8)).0
}

#[test]
fn a_burst_is_slc_until_the_cache_is_full() {
    let mut ssd = new(&tlc(Fold::Idle));
    assert_eq!(burst(&mut ssd, 0, CACHE), BLOCKS * PAGES * (TRANSFER + SLC_PROGRAM));
    // From there on normal pages: a block of each plane, in the shadow order.
    let block = 64 * TRANSFER + 22 * LSB + 21 * (CSB + MSB);
    assert_eq!(burst(&mut ssd, CACHE, PLANES * 64), block);
    let slc = &ssd.stats().slc;
    assert_eq!((slc.host_pages, slc.direct_pages, slc.folded_pages), (CACHE, PLANES * 64, 0));
}

#[test]
fn without_times_of_its_own_it_takes_those_of_the_lsb_page() {
    let mut config = tlc(Fold::Idle);
    (config.slc.program_ns, config.slc.read_ns) = (None, None);
    let mut ssd = new(&config);
    assert_eq!(burst(&mut ssd, 0, CACHE), BLOCKS * PAGES * (TRANSFER + LSB));
}

#[test]
fn an_idle_drive_folds_and_is_fast_again() {
    let mut ssd = new(&tlc(Fold::Idle));
    burst(&mut ssd, 0, CACHE);
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), SLC_READ + TRANSFER);
    settle(&mut ssd);
    let slc = ssd.stats().slc.clone();
    assert_eq!((slc.folded_pages, slc.folds, slc.erases), (CACHE, PLANES * BLOCKS, PLANES * BLOCKS));
    assert_eq!(ssd.counters().erases, PLANES * BLOCKS, "nothing else was erased");
    // Every page was programmed once in the cache and once behind it.
    assert_eq!(programs(&ssd), 2 * CACHE);
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), super::READ + TRANSFER);
    assert_eq!(burst(&mut ssd, CACHE, CACHE), BLOCKS * PAGES * (TRANSFER + SLC_PROGRAM));
}

#[test]
fn write_amplification_is_one_and_the_share_that_was_folded() {
    // Half of what goes through the cache is written again while it is there.
    for (again, direct) in [(false, 0), (false, 300), (true, 0), (true, 300)] {
        let mut ssd = new(&tlc(Fold::Idle));
        if again {
            burst(&mut ssd, 0, CACHE / 2);
            burst(&mut ssd, 0, CACHE / 2);
        } else {
            burst(&mut ssd, 0, CACHE);
        }
        burst(&mut ssd, CACHE, direct);
        settle(&mut ssd);
        let host = CACHE + direct;
        // A block in which nothing is valid any more is erased at once, and takes of what follows.
        let folded = if again { CACHE / 2 + direct.min(CACHE / 2) } else { CACHE };
        assert_eq!(ssd.stats().slc.folded_pages, folded, "written again: {again}");
        assert_eq!(programs(&ssd), host + folded, "written again: {again}, direct: {direct}");
    }
}

#[test]
fn a_full_cache_folds_while_the_host_writes_if_it_is_to() {
    let mut ssd = new(&tlc(Fold::Pressure));
    burst(&mut ssd, 0, 4 * CACHE);
    let slc = ssd.stats().slc.clone();
    assert!(slc.folded_pages > 0 && slc.host_pages > CACHE, "{slc:?}");
    assert_eq!(slc.host_pages + slc.direct_pages, 4 * CACHE);
    // Nothing is folded for idleness alone: what fits the cache stays there.
    let mut ssd = new(&tlc(Fold::Pressure));
    burst(&mut ssd, 0, CACHE / 2);
    settle(&mut ssd);
    assert_eq!(ssd.stats().slc.folded_pages, 0);
}

#[test]
fn a_share_of_the_free_blocks_serves_as_well() {
    let mut config = tlc(Fold::Idle);
    config.slc.bytes = 0;
    config.slc.dynamic_share = 0.25;
    let mut ssd = new(&config);
    let (planes, free) = (0..PLANES as u32, ssd.flash().blocks().free(0));
    // One block in four, as long as collection does not have to begin.
    let cache = PLANES * u64::from(free / 4) * PAGES;
    assert_eq!(burst(&mut ssd, 0, cache), u64::from(free / 4) * PAGES * (TRANSFER + SLC_PROGRAM));
    burst(&mut ssd, cache, PLANES);
    assert_eq!(ssd.stats().slc.direct_pages, PLANES);
    settle(&mut ssd);
    assert_eq!(ssd.stats().slc.folded_pages, cache);
    assert!(planes.into_iter().all(|plane| ssd.flash().blocks().cached(plane) == 0));
}

#[test]
fn a_cache_that_cannot_be_had_is_refused_with_what_can() {
    let mut config = tlc(Fold::Both);
    config.slc.bytes = 1 << 30;
    let error = config.validate().expect_err("larger than the drive");
    assert_eq!(error.field, "slc.bytes");
    let most = error.expected.strip_prefix("at most ").and_then(|rest| rest.split(':').next());
    config.slc.bytes = most.and_then(|most| most.parse().ok()).expect("a number is named");
    config.validate().expect("the value that was named");
    config.slc.bytes += 1;
    assert!(config.validate().is_err(), "it is the largest");

    type Change = fn(&mut DeviceConfig);
    let wrong: [(&str, Change); 6] = [
        ("slc.bytes", |c| {
            c.cell.kind = CellKind::Slc;
            c.timing.program_ns = vec![LSB];
        }),
        ("slc.bytes", |c| c.scheme.striping = "superblock".into()),
        ("slc.bytes", |c| {
            c.cell.program_order = ProgramOrder::Relaxed;
            c.scheme.allocation = "size-based".into();
        }),
        ("slc.bytes", |c| c.scheme.streams = "flashalloc".into()),
        ("slc.dynamic_share", |c| c.slc.dynamic_share = 1.5),
        ("slc.program_ns", |c| c.slc.program_ns = Some(0)),
    ];
    for (field, change) in wrong {
        let mut config = tlc(Fold::Both);
        change(&mut config);
        assert_eq!(config.validate().expect_err(field).field, field);
    }
}
