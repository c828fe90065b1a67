//! Goal: superblocks are filled, collected and erased as one, and lose nothing; parity costs its share, and what
//! cannot be read is rebuilt from it.
//! Method: the oracle on every small device with superblocks, with and without power cuts; counts that follow from
//! the configuration alone; faults at chosen reads, programs and erases.

use nandle_lab::config::Wanted;
use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::nand::Cause;
use nandle_ssd::schemes::Isolation;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd, Status};

use crate::closed_forms::theory;
use crate::devices;
use crate::drive;
use crate::torture;
use drive::{closed, one, programs, settle};

#[test]
fn nothing_is_lost_or_misplaced() {
    for (name, config) in devices::small_devices_of("superblocks") {
        let (_, oracle) = torture::run(&config, 3, 6_000);
        assert_eq!(oracle.verdict(), Ok(()), "{name}");
        println!("{name}: ok");
    }
}

#[test]
fn power_cuts_leave_what_was_promised() {
    for (name, config) in devices::small_devices_of("superblocks") {
        torture::cut_power(name, &config, 5, 25);
        println!("{name}: ok");
    }
}

#[test]
fn failures_of_the_flash_are_survived() {
    for (name, mut config) in devices::small_devices_of("superblocks") {
        config.op_ratio *= 2.0;
        config.faults.program_rate = 0.0003;
        config.faults.erase_rate = 0.0003;
        let mut ssd = Ssd::new(&config, UNIT, 1).expect("valid");
        let mut oracle = Oracle::of(&ssd);
        torture::torture(&mut ssd, &mut oracle, &mut Stream::new(9, "faults"), 6_000, 0);
        assert_eq!(oracle.verdict(), Ok(()), "{name}");
        println!("{name}: {} programs failed", ssd.stats().program_failures);
    }
}

const READ: u64 = 40_000;
const PROGRAM: u64 = 200_000;
const TRANSFER: u64 = 12_000;

/// Two channels with two dies of one plane each, 8 sectors a page: rows of four pages.
fn array(parity: u32, rows: u32, blocks: u32) -> DeviceConfig {
    let mut config = devices::base();
    config.geometry.chips_per_channel = 2;
    config.geometry.planes_per_die = 1;
    config.geometry.blocks_per_plane = blocks;
    config.geometry.pages_per_block = rows;
    config.scheme.striping = "superblock".into();
    config.superblock.parity = parity;
    config.op_ratio = 1.5;
    config.recovery.checkpoint_interval = 0;
    config
}

fn new(config: &DeviceConfig) -> Ssd {
    Ssd::new(config, UNIT, 1).expect("a valid device")
}

fn parity_programs(ssd: &Ssd) -> u64 {
    ssd.flash().counters().programs[Cause::Parity as usize].iter().sum()
}

// ---- closed forms -----------------------------------------------------------------------------

#[test]
fn a_row_is_programmed_at_once() {
    // A page on each die: two transfers on each of two channels, then one program. With parity the row has one page
    // less of the host's, and the parity is not waited for.
    let row = 2 * TRANSFER + PROGRAM;
    let mut ssd = Ssd::new(&array(0, 64, 64), 0, 1).expect("valid");
    assert_eq!([32, 32, 32].map(|sectors| one(&mut ssd, Op::Write, 0, sectors)), [row; 3]);
    let mut ssd = Ssd::new(&array(4, 64, 64), 0, 1).expect("valid");
    let latency = one(&mut ssd, Op::Write, 0, 24);
    settle(&mut ssd);
    assert_eq!((latency, parity_programs(&ssd)), (row, 1));
    // A stripe that is not complete has no parity yet.
    one(&mut ssd, Op::Write, 0, 16);
    settle(&mut ssd);
    assert_eq!(parity_programs(&ssd), 1);
}

#[test]
fn sequential_writes_cost_the_share_of_parity() {
    for (parity, factor) in [(0, 1.0), (2, 2.0), (4, 4.0 / 3.0)] {
        for unit in [0, 1024] {
            let mut config = array(parity, 12, 60);
            config.op_ratio = 3.0;
            config.mapping.unit_bytes = unit;
            let mut ssd = Ssd::new(&config, 0, 1).expect("valid");
            let pages = ssd.layout().logical_sectors / 8 / 36 * 36;
            let mut page = 0;
            let mut pass = |ssd: &mut Ssd| {
                closed(ssd, 8, pages * 3, |_| {
                    page = (page + 1) % pages;
                    (Op::Write, page * 8, 8)
                });
                settle(ssd);
            };
            pass(&mut ssd);
            pass(&mut ssd);
            let (before, erases) = (programs(&ssd), ssd.flash().counters().erases);
            pass(&mut ssd);
            let waf = (programs(&ssd) - before) as f64 / (pages * 3) as f64;
            assert!((waf - factor).abs() < 1e-9, "parity 1 of {parity}, units {unit}: {waf}");
            assert_eq!(ssd.stats().gc_moved_pages, 0);
            // What was programmed was erased, four blocks at a time.
            let erased = ssd.flash().counters().erases - erases;
            assert_eq!(erased % 4, 0);
            let filled = (pages * 3) as f64 * factor / 12.0;
            assert!((erased as f64 - filled).abs() <= 8.0, "{erased} blocks erased, {filled} filled");
        }
    }
}

#[test]
fn uniform_writes_amplify_as_blocks_of_that_size_do() {
    for (parity, factor) in [(0, 1.0), (4, 4.0 / 3.0)] {
        for rho in [0.15, 0.3] {
            let mut config = array(parity, 64, 300);
            // As many pages to collect as a block of the addressed size has; two superblocks are kept free or open.
            let block = 256.0 / factor;
            let logical = (300.0 - 2.0) * block / (1.0 + rho);
            config.op_ratio = 300.0 * 256.0 / logical - 1.0;
            let mut ssd = Ssd::new(&config, 0, 1).expect("valid");
            let logical = u64::from(ssd.layout().logical_pages);
            let mut draw = Stream::new(7, "uniform");
            closed(&mut ssd, 4, logical, |n| (Op::Write, n * 8, 8));
            closed(&mut ssd, 4, logical * 3, |_| (Op::Write, draw.below(logical) * 8, 8));
            let before = programs(&ssd);
            closed(&mut ssd, 4, logical, |_| (Op::Write, draw.below(logical) * 8, 8));
            let waf = (programs(&ssd) - before) as f64 / logical as f64;
            let effective = (300.0 - 2.0) * block / logical as f64 - 1.0;
            let expected = theory(effective) * factor;
            println!("parity 1 of {parity}, rho {effective:.3}: waf {waf:.3}, theory {expected:.3}");
            assert!((waf / expected - 1.0).abs() < 0.03, "{waf:.3}, theory {expected:.3}");
        }
    }
}

// ---- what cannot be read ------------------------------------------------------------------------

fn run(ssd: &mut Ssd, op: Op, lsn: u64, sectors: u64) -> Completion {
    let words = if op == Op::Write { lsn..lsn + sectors } else { 0..0 };
    let data: Vec<u8> = words.flat_map(|lsn| (lsn + 1).to_le_bytes()).collect();
    let now = ssd.now();
    ssd.submit(now, &Command { id: 0, op, lsn, sectors, fua: false, stream: 0, data: &data });
    let mut done = vec![];
    while done.is_empty() {
        let next = ssd.next_event().expect("the device is stuck");
        ssd.advance(next, &mut done);
    }
    done.swap_remove(0)
}

fn holds_what_was_written(read: &Completion, lsn: u64) -> bool {
    let words = read.data.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("eight")));
    (lsn..).zip(words).all(|(lsn, word)| word == lsn + 1)
}

#[test]
fn a_page_is_rebuilt_from_the_rest_of_its_stripe() {
    let mut config = array(4, 12, 60);
    config.faults.reads = vec![2];
    let mut ssd = new(&config);
    assert_eq!(run(&mut ssd, Op::Write, 0, 48).status, Status::Ok);
    settle(&mut ssd);
    // The second read of a page fails. Its own read, and in the meantime those of the three others.
    assert_eq!(one(&mut ssd, Op::Read, 8, 8), READ + TRANSFER);
    let start = ssd.now();
    let read = run(&mut ssd, Op::Read, 8, 8);
    assert_eq!((read.status, holds_what_was_written(&read, 8)), (Status::Ok, true));
    // Two channels with two dies: of the three reads beside it two share a channel, then comes the page.
    assert_eq!(read.at - start, 2 * (READ + TRANSFER) + TRANSFER);
    let parity_reads = |ssd: &Ssd| ssd.flash().counters().reads[Cause::Parity as usize].iter().sum::<u64>();
    assert_eq!((parity_reads(&ssd), ssd.flash().counters().rebuilt), (3, 1));
    // It stays unreadable, and is rebuilt each time, until it is written again.
    assert_eq!(run(&mut ssd, Op::Read, 8, 8).status, Status::Ok);
    assert_eq!((parity_reads(&ssd), ssd.flash().counters().rebuilt), (6, 2));
    run(&mut ssd, Op::Write, 8, 8);
    let read = run(&mut ssd, Op::Read, 0, 48);
    assert_eq!((read.status, holds_what_was_written(&read, 0)), (Status::Ok, true));
    assert_eq!(ssd.flash().counters().rebuilt, 2);
}

#[test]
fn what_is_lost_twice_in_a_stripe_is_lost() {
    // The second page of the stripe fails while the first is rebuilt.
    for (reads, unreadable) in [(vec![1, 2], vec![(0, 8)]), (vec![1], vec![])] {
        let mut config = array(4, 12, 60);
        config.faults.reads = reads;
        let mut ssd = new(&config);
        run(&mut ssd, Op::Write, 0, 48);
        settle(&mut ssd);
        let read = run(&mut ssd, Op::Read, 0, 8);
        assert_eq!(read.unreadable, unreadable);
        let read = run(&mut ssd, Op::Read, 8, 8);
        assert_eq!(read.unreadable.is_empty(), unreadable.is_empty(), "its stripe lacks another page");
        assert_eq!(run(&mut ssd, Op::Read, 24, 24).status, Status::Ok, "another stripe");
    }
    // A stripe that is not complete yet has nothing to rebuild from.
    let mut config = array(4, 12, 60);
    config.faults.reads = vec![1];
    let mut ssd = new(&config);
    run(&mut ssd, Op::Write, 0, 16);
    assert_eq!(run(&mut ssd, Op::Read, 0, 8).status, Status::MediaError);
}

#[test]
fn without_double_faults_no_read_fails() {
    // The same faults with and without parity: one page in 500 cannot be read.
    let mut lost = [0, 0];
    for (n, parity) in [0, 4].into_iter().enumerate() {
        let mut config = array(parity, 12, 60);
        config.faults.read_rate = 0.002;
        let mut ssd = new(&config);
        let sectors = ssd.layout().logical_sectors / 8 * 8;
        let mut draw = Stream::new(3, "reads");
        for lsn in (0..sectors).step_by(8) {
            run(&mut ssd, Op::Write, lsn, 8);
        }
        for _ in 0..20_000 {
            let page = draw.below(sectors / 8) * 8;
            let op = if draw.chance(0.5) { Op::Write } else { Op::Read };
            lost[n] += u64::from(run(&mut ssd, op, page, 8).status == Status::MediaError);
        }
        assert!(ssd.stats().gc_moved_pages > 500);
        assert_eq!(ssd.flash().counters().rebuilt > 10, parity > 0);
        ssd.check();
    }
    println!("reads that failed without and with parity: {lost:?}");
    assert!(lost[0] >= 20 && lost[1] * 20 <= lost[0], "{lost:?}");
}

#[test]
fn a_failed_block_takes_its_superblock_out_and_the_next_takes_a_spare() {
    let mut config = array(0, 12, 60);
    let mut bad = |erases: Vec<u64>| {
        config.faults.erases = erases;
        let mut ssd = new(&config);
        let sectors = ssd.layout().logical_sectors / 8 * 8;
        for n in 0..4_000 {
            assert_eq!(run(&mut ssd, Op::Write, n * 8 % sectors, 8).status, Status::Ok);
        }
        ssd.check();
        (ssd.inspect().blocks[3], ssd.stats().erase_failures)
    };
    // Erases of a superblock are four in a row. The first failure takes the superblock out, and its good blocks stand
    // by to replace others of their planes.
    assert_eq!(bad(vec![2]), (1, 1));
    assert_eq!(bad(vec![1, 2, 3, 4]), (1, 1), "no block is left to stand by");
    assert_eq!(bad(vec![1, 2, 3, 4, 6]), (2, 2));
    assert_eq!(bad(vec![1, 2, 3, 4, 6, 7, 8]), (2, 2));
    // One failure in each of twelve superblocks: those that are out have three good blocks each for the others.
    let (out, failures) = bad((0..12).map(|n| n * 4 + 2).collect());
    println!("{out} superblocks out after 12 failures");
    assert_eq!(out, failures);
    assert!((3..=8).contains(&out), "{out} superblocks for 12 failed blocks");
}

#[test]
fn superblocks_that_do_not_fit_are_refused_with_what_would() {
    let refused = |f: &dyn Fn(&mut DeviceConfig)| {
        let mut config = array(0, 12, 60);
        f(&mut config);
        config.validate().expect_err("it does not fit").to_string()
    };
    let dies = refused(&|c| c.superblock.dies = 3);
    assert!(dies.contains("superblock.dies = 3") && dies.contains("such as 2"), "{dies}");
    let parity = refused(&|c| c.superblock.parity = 3);
    assert!(parity.contains("superblock.parity = 3") && parity.contains("such as 2"), "{parity}");
    let striping = refused(&|c| {
        c.scheme.striping = "CWDP".into();
        c.superblock.parity = 4;
    });
    assert!(striping.contains("0 unless scheme.striping = \"superblock\""), "{striping}");
    let types = refused(&|c| {
        c.cell.kind = nandle_ssd::nand::CellKind::Tlc;
        c.cell.program_order = nandle_ssd::nand::ProgramOrder::Relaxed;
        c.scheme.allocation = "papa".into();
    });
    assert!(types.contains("scheme.striping = superblock"), "{types}");
}

// ---- aged drives --------------------------------------------------------------------------------

/// `modern-tlc` with 32 blocks of 96 pages a plane, and what else is set.
fn modern(sets: &[&str]) -> DeviceConfig {
    let small = ["geometry.blocks_per_plane=32", "geometry.pages_per_block=96", "op_ratio=0.9"];
    let sets: Vec<String> = small.iter().chain(sets).map(|set| (*set).to_owned()).collect();
    Wanted { device: "modern-tlc", sets: &sets, ..Default::default() }.load().expect("a valid device").config
}

/// 10^6 bytes a second of sequential writes of 128 KiB, 32 at a time, over 60% of the drive.
fn sequential(ssd: &mut Ssd) -> f64 {
    let requests = ssd.layout().logical_sectors * 6 / 10 / 32;
    let erases = ssd.flash().counters().erases;
    let (took, _) = closed(ssd, 32, requests, |n| (Op::Write, n * 32, 32));
    assert_eq!(ssd.flash().counters().erases, erases, "without collection");
    (requests * 131_072) as f64 * 1e3 / took as f64
}

#[test]
fn an_aged_drive_writes_sequentially_as_fast_as_a_fresh_one() {
    // By logical page number the planes of a die fall out of step: one frontier is a page ahead of another, and no
    // operation covers both any more. In a superblock they cannot.
    for (what, sets) in [
        ("CWDP", &[][..]),
        ("superblocks", &["scheme.striping=superblock"]),
        ("superblocks, 4 KiB units", &["scheme.striping=superblock", "mapping.unit_bytes=4096"]),
        (
            "superblocks, 4 KiB units, parity 1 of 16",
            &[
                "scheme.striping=superblock",
                "mapping.unit_bytes=4096",
                "superblock.parity=16",
                "op_ratio=1.2",
            ],
        ),
    ] {
        let config = modern(sets);
        let fresh = sequential(&mut Ssd::new(&config, 0, 1).expect("valid"));
        // Half of the logical pages are there from the beginning, at random places.
        let share = 0.5 / 1.9;
        let filled = [format!("precondition.used={share}"), format!("precondition.valid={share}")];
        let filled: Vec<&str> = sets.iter().copied().chain(filled.iter().map(String::as_str)).collect();
        let filled = sequential(&mut Ssd::new(&modern(&filled), 0, 1).expect("valid"));
        // All were written once in sequence, and some again at random.
        let mut ssd = Ssd::new(&config, 0, 1).expect("valid");
        let sectors = ssd.layout().logical_sectors;
        let mut draw = Stream::new(1, "aged");
        closed(&mut ssd, 32, sectors / 32, |n| (Op::Write, n * 32, 32));
        closed(&mut ssd, 32, sectors / 40, |_| (Op::Write, draw.below(sectors), 1));
        // What waits in the buffer is a debt of those writes.
        one(&mut ssd, Op::Flush, 0, 0);
        let aged = sequential(&mut ssd);
        println!("{what}: fresh {fresh:.0} MB/s, filled {filled:.0}, overwritten {aged:.0}");
        if what != "CWDP" {
            assert!((filled / fresh - 1.0).abs() < 0.03, "{what}: {fresh} MB/s, filled {filled}");
            assert!((aged / fresh - 1.0).abs() < 0.03, "{what}: {fresh} MB/s, aged {aged}");
        }
    }
}

// ---- reclaim units --------------------------------------------------------------------------------

/// Superblocks with live pages of both handles, and with those of one.
fn superblocks_by_handle(isolation: Isolation) -> (u32, u32) {
    let mut config = array(0, 12, 60);
    config.scheme.streams = "fdp".into();
    (config.streams.count, config.streams.isolation) = (2, isolation);
    config.op_ratio = 0.6;
    let mut ssd = new(&config);
    let pages = u64::from(ssd.layout().logical_pages);
    let mut draw = Stream::new(3, "handles");
    for id in 0..pages * 5 {
        // Even pages are one handle's, odd ones the other's.
        let lpn = if id < pages { id } else { draw.below(pages) };
        let (now, data) = (ssd.now(), vec![0; 64]);
        let stream = (lpn % 2) as u16;
        ssd.submit(
            now,
            &Command { id, op: Op::Write, lsn: lpn * 8, sectors: 8, fua: false, stream, data: &data },
        );
        settle(&mut ssd);
    }
    assert!(ssd.stats().gc_moved_pages > pages);
    let (array, blocks) = (ssd.flash().array(), ssd.flash().blocks());
    let (mut mixed, mut pure) = (0, 0);
    for (block, _) in blocks.each() {
        let mut held = [false; 2];
        for page in 0..array.geometry().pages_per_block {
            let ppn = array.geometry().ppn(block, page);
            if blocks.is_live(ppn) && array.page_use(ppn).is_data() {
                array.oob(ppn).extents.each(8, |extent| held[(extent.lsn / 8 % 2) as usize] = true);
            }
        }
        mixed += u32::from(held == [true; 2]);
        pure += u32::from(held[0] != held[1]);
    }
    (mixed, pure)
}

#[test]
fn handles_keep_to_their_superblocks_as_far_as_they_are_isolated() {
    // A handle fills superblocks of its own. What survives collection shares others, or stays with its handle.
    let (mixed, pure) = superblocks_by_handle(Isolation::Initially);
    assert!(mixed > 5 && pure > 5, "initially isolated: {mixed} mixed, {pure} of one handle");
    let (mixed, pure) = superblocks_by_handle(Isolation::Persistently);
    assert!(mixed == 0 && pure > 20, "persistently isolated: {mixed} mixed, {pure} of one handle");
}
