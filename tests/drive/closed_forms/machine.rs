//! The machine around the flash: host link, controller, hand-over, cleaning ahead, decoder, repeated reads.

use nandle_ssd::buffer::{FifoEvict, FifoReads, Release};
use nandle_ssd::controller::Assign;
use nandle_ssd::nand::ReadRetry;
use nandle_ssd::{Command, DeviceConfig, Op, Ssd};

use super::drive::{closed, one, settle};
use super::{PROGRAM, READ, TRANSFER, array, new};

/// Bytes of a page: 8 sectors of 512 bytes.
const PAGE: u64 = 4096;

/// Writes so many whole pages from the first on, and waits until all is over.
fn fill(ssd: &mut Ssd, pages: u64) {
    (0..pages).for_each(|page| {
        one(ssd, Op::Write, page * 8, 8);
    });
    settle(ssd);
}

/// How long requests take that are submitted together, from the submission to the last answer.
fn together(ssd: &mut Ssd, requests: impl IntoIterator<Item = (Op, u64, u64)>) -> u64 {
    let start = ssd.now();
    for (id, (op, lsn, sectors)) in (0..).zip(requests) {
        ssd.submit(start, &Command { id, op, lsn, sectors, fua: false, stream: 0, data: &[] });
    }
    let mut done = vec![];
    while ssd.outstanding() > 0 {
        let next = ssd.next_event().expect("under way");
        ssd.advance(next, &mut done);
    }
    done.iter().map(|answer| answer.at).max().expect("some") - start
}

#[test]
fn the_link_carries_bytes_one_after_the_other() {
    let mut config = array(4, 4);
    (config.link.mb_s, config.link.command_ns) = (1000.0, 700);
    let mut ssd = new(&config);
    // A byte a nanosecond; the command's time each way.
    assert_eq!(one(&mut ssd, Op::Write, 0, 8), 700 + PAGE + TRANSFER + PROGRAM + 700);
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), 700 + READ + TRANSFER + PAGE + 700);
    assert_eq!(one(&mut ssd, Op::Trim, 0, 8), 1400);
    fill(&mut ssd, 16);
    // Sixteen dies bring a page each while the link carries one after the other; the first is there after its
    // read. Pages 0 to 3 lie on four channels.
    let reads = (0..16).map(|page| (Op::Read, page * 8, 8));
    assert_eq!(together(&mut ssd, reads), 700 + READ + TRANSFER + 16 * PAGE + 700);
    // Both directions at once: neither holds the other up.
    let before = ssd.link_busy_ns().expect("a link");
    let both = (0..4).flat_map(|page| [(Op::Write, 8 * (32 + page), 8), (Op::Read, 8 * page, 8)]);
    together(&mut ssd, both);
    let after = ssd.link_busy_ns().expect("a link");
    assert_eq!((after.0 - before.0, after.1 - before.1), (4 * PAGE, 4 * PAGE));
}

fn with_cores(cores: u32) -> DeviceConfig {
    let mut config = array(8, 4);
    let c = &mut config.controller;
    (c.cores, c.command_ns, c.unit_ns, c.copy_ns, c.operation_ns) = (cores, 5_000, 2_000, 500, 1_000);
    config
}

#[test]
fn a_lone_request_passes_a_core_for_itself_and_for_each_operation() {
    let mut ssd = new(&with_cores(1));
    assert_eq!(one(&mut ssd, Op::Write, 0, 8), 5_000 + 2_000 + 1_000 + TRANSFER + PROGRAM);
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), 5_000 + 2_000 + 1_000 + READ + TRANSFER);
    // Four units on four channels; the core orders their reads one after the other.
    fill(&mut ssd, 4);
    assert_eq!(one(&mut ssd, Op::Read, 0, 32), 5_000 + 4 * 2_000 + 4 * 1_000 + READ + TRANSFER);
    // A command without data handles no unit.
    assert_eq!(one(&mut ssd, Op::Flush, 0, 0), 5_000);
    // The core is one with several cores as well: what one of them does, it does alone.
    let (purposes, cores) = ssd.controller_busy_ns().expect("a controller");
    assert_eq!(purposes.iter().sum::<u64>(), cores.iter().sum::<u64>());
}

#[test]
fn cores_bound_the_requests_of_a_second() {
    for assign in [Assign::Earliest, Assign::ByDie] {
        for cores in [1, 2, 4] {
            let mut config = with_cores(cores);
            config.controller.assign = assign;
            let mut ssd = new(&config);
            fill(&mut ssd, 256);
            let (ns, _) = closed(&mut ssd, 64, 4_000, |n| (Op::Read, n % 256 * 8, 8));
            // A read costs a core a command, a unit and an operation; 32 dies would do 600,000 a second.
            let bound = 4_000 * 8_000 / u64::from(cores);
            let slack = if assign == Assign::Earliest { 0.02 } else { 0.05 };
            let off = ns as f64 / bound as f64 - 1.0;
            assert!((0.0..slack).contains(&off), "{assign:?}, {cores} cores: {ns} ns for {bound}");
            let (_, busy) = ssd.controller_busy_ns().expect("a controller");
            assert_eq!(busy.len(), cores as usize);
        }
    }
}

#[test]
fn collection_costs_the_cores_of_the_host() {
    // Each page that the host writes costs a command, a unit and an operation; each that collection moves, a
    // unit, a copy and two operations.
    let mut config = with_cores(1);
    config.geometry.blocks_per_plane = 32;
    config.geometry.pages_per_block = 16;
    config.op_ratio = 0.5;
    let mut ssd = new(&config);
    let pages = u64::from(ssd.layout().logical_pages);
    fill(&mut ssd, pages);
    let mut draw = nandle_random::Stream::new(4, "cores");
    ssd.reset_counters();
    let host = 2 * pages;
    closed(&mut ssd, 32, host, |_| (Op::Write, draw.below(pages) * 8, 8));
    settle(&mut ssd);
    let (purposes, _) = ssd.controller_busy_ns().expect("a controller");
    let (copies, erases) = (ssd.stats().gc_moved_pages, ssd.counters().erases);
    assert!(copies > host / 4);
    let [commands, programs, _, gc, ..] = purposes;
    assert_eq!(commands, host * 7_000);
    assert_eq!(programs, host * 1_000);
    assert_eq!(gc, copies * (2_000 + 500 + 2 * 1_000) + erases * 1_000);
}

#[test]
fn a_read_that_blocks_makes_partial_updates_wait_for_each_other() {
    let mut config = array(4, 4);
    let updates = |config: &DeviceConfig| {
        let mut ssd = new(config);
        fill(&mut ssd, 4);
        together(&mut ssd, (0..4).map(|page| (Op::Write, page * 8, 3)))
    };
    // Four dies read, then program, side by side.
    assert_eq!(updates(&config), READ + TRANSFER + TRANSFER + PROGRAM);
    // A core that waits: the reads come one after the other.
    (config.controller.cores, config.controller.blocking_rmw) = (1, true);
    assert_eq!(updates(&config), 4 * (READ + TRANSFER) + TRANSFER + PROGRAM);
    config.controller.cores = 2;
    assert_eq!(updates(&config), 2 * (READ + TRANSFER) + TRANSFER + PROGRAM);
}

#[test]
fn room_is_free_when_the_die_has_the_page() {
    let mut config = array(1, 1);
    config.buffer.bytes = PAGE;
    let second_and_third = |config: &DeviceConfig| {
        let mut ssd = new(config);
        let first = one(&mut ssd, Op::Write, 0, 8);
        (first, one(&mut ssd, Op::Write, 8, 8), one(&mut ssd, Op::Write, 16, 8))
    };
    assert_eq!(second_and_third(&config), (0, TRANSFER + PROGRAM, TRANSFER + PROGRAM));
    config.buffer.release = Release::Handover;
    // The second page goes to the die when the first one's program is over.
    assert_eq!(second_and_third(&config), (0, TRANSFER, PROGRAM + TRANSFER));
}

#[test]
fn a_queue_of_requests_gathers_no_pages() {
    let mut config = array(1, 1);
    config.scheme.buffer = "fifo".into();
    config.buffer.bytes = 2 * PAGE;
    // The halves of two pages, each beside one of the other page: then a flush.
    let halves = [0, 8, 4, 12];
    let flushed = |config: &DeviceConfig| {
        let mut ssd = new(config);
        halves.iter().for_each(|&lsn| assert_eq!(one(&mut ssd, Op::Write, lsn, 4), 0));
        one(&mut ssd, Op::Flush, 0, 0)
    };
    assert_eq!(flushed(&config), 2 * (TRANSFER + PROGRAM));
    config.buffer.fifo_merge = false;
    assert_eq!(flushed(&config), 4 * (TRANSFER + PROGRAM) + 2 * (READ + TRANSFER));
    // A fifth write finds no room: one request leaves, or all.
    for (evict, left) in [(FifoEvict::Room, 4), (FifoEvict::All, 1)] {
        config.buffer.fifo_evict = evict;
        let mut ssd = new(&config);
        halves.iter().for_each(|&lsn| assert_eq!(one(&mut ssd, Op::Write, lsn, 4), 0));
        one(&mut ssd, Op::Write, 16, 1);
        assert_eq!(ssd.buffer().expect("a buffer").len(), left, "{evict:?}");
    }
    // They wait for FIFO: another buffer gathers pages.
    config.scheme.buffer = "lru".into();
    assert_eq!(flushed(&config), 2 * (TRANSFER + PROGRAM));
}

#[test]
fn a_read_of_what_is_queued_waits_until_it_has_left() {
    let mut config = array(1, 1);
    config.scheme.buffer = "fifo".into();
    config.buffer.bytes = 4 * PAGE;
    config.buffer.fifo_merge = false;
    config.buffer.release = Release::Handover;
    let read = |config: &DeviceConfig, writes: &[(u64, u64)], lsn, sectors| {
        let mut ssd = new(config);
        writes.iter().for_each(|&(lsn, sectors)| assert_eq!(one(&mut ssd, Op::Write, lsn, sectors), 0));
        (one(&mut ssd, Op::Read, lsn, sectors), ssd.buffer().expect("a buffer").len())
    };
    let (pages, halves) = ([(0, 8), (16, 8), (32, 8)], [(0, 4), (16, 8), (4, 4)]);
    assert_eq!(read(&config, &pages, 16, 8), (0, 3));
    config.buffer.fifo_reads = FifoReads::Destage;
    // The first page is programmed and the second one in its die.
    assert_eq!(read(&config, &pages, 16, 8), (2 * TRANSFER + PROGRAM, 1));
    assert_eq!(read(&config, &pages, 48, 8), (0, 3), "nothing of it is buffered");
    // No request has both halves: all three are programmed, the last after a read of the first half, and the page read.
    assert_eq!(read(&config, &halves, 0, 8), (3 * (TRANSFER + PROGRAM) + 2 * (READ + TRANSFER), 0));
    config.scheme.buffer = "lru".into();
    assert_eq!(read(&config, &pages, 16, 8), (0, 3));
}

#[test]
fn a_buffer_that_is_cleaned_ahead_has_room() {
    for policy in ["lru", "fifo", "pc-lru", "mca"] {
        let mut config = array(2, 2);
        config.scheme.buffer = policy.into();
        config.buffer.bytes = 8 * PAGE;
        let burst = |config: &DeviceConfig| {
            let mut ssd = new(config);
            fill(&mut ssd, 8);
            assert_eq!(ssd.buffer().expect("a buffer").len(), if config.buffer.clean_ahead { 4 } else { 8 });
            (0..4).map(|page| one(&mut ssd, Op::Write, 8 * (16 + page), 8)).sum::<u64>()
        };
        assert!(burst(&config) >= TRANSFER + PROGRAM, "{policy}: four pages find no room");
        config.buffer.clean_ahead = true;
        assert_eq!(burst(&config), 0, "{policy}");
    }
}

#[test]
fn a_decoder_adds_its_time_to_a_read_and_none_to_a_stream_of_reads() {
    let mut config = array(1, 1);
    config.timing.ecc_ns = 9_000;
    let mut ssd = new(&config);
    fill(&mut ssd, 8);
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), READ + TRANSFER + 9_000);
    let reads = (0..8).map(|page| (Op::Read, page * 8, 8));
    assert_eq!(together(&mut ssd, reads), 8 * (READ + TRANSFER) + 9_000);
    // A copy of collection and a read-modify-write pass it too.
    assert_eq!(one(&mut ssd, Op::Write, 0, 3), READ + TRANSFER + 9_000 + TRANSFER + PROGRAM);
}

#[test]
fn reads_are_repeated_as_often_as_they_fail() {
    let mut config = array(1, 1);
    let share = 0.25;
    config.timing.read_retry =
        Some(ReadRetry { share: vec![share], share_per_1000_erases: 0.0, ns: 30_000, most: 3 });
    let mut ssd = new(&config);
    fill(&mut ssd, 64);
    let count = 20_000;
    let (ns, _) = closed(&mut ssd, 1, count, |n| (Op::Read, n % 64 * 8, 8));
    let retries = ssd.counters().read_retries;
    assert_eq!(ns, count * (READ + TRANSFER) + retries * 30_000);
    let expected = share + share * share + share * share * share;
    let mean = retries as f64 / count as f64;
    assert!((mean / expected - 1.0).abs() < 0.05, "{mean} for {expected}");
}

#[test]
fn planes_that_read_independently_do_not_wait_for_each_other() {
    let times = |independent: bool| {
        let mut config = array(1, 1);
        config.geometry.planes_per_die = 2;
        config.scheme.striping = "PCWD".into();
        config.timing.multi_plane = true;
        config.timing.independent_plane_reads = independent;
        let mut ssd = new(&config);
        fill(&mut ssd, 8);
        let read = |page: u64| (Op::Read, page * 8, 8);
        let busy = ssd.flash().busy_ns().0[0];
        // Pages 0 and 2 lie in one plane, 1 and 3 in the other.
        let four = together(&mut ssd, (0..4).map(read));
        assert_eq!(ssd.flash().busy_ns().0[0] - busy, four, "the die did nothing else");
        // Other pages of the two planes; and the second of two reads while the first is in the array.
        let unlike = together(&mut ssd, [0, 3].map(read));
        let start = ssd.now();
        for (page, at) in [(0, start), (1, start + 10_000)] {
            ssd.submit(
                at,
                &Command {
                    id: page,
                    op: Op::Read,
                    lsn: page * 8,
                    sectors: 8,
                    fua: false,
                    stream: 0,
                    data: &[],
                },
            );
        }
        settle(&mut ssd);
        let late = ssd.now() - start;
        let same = together(&mut ssd, [0, 2].map(read));
        // A program, to a plane that is free first, has the die to itself.
        let write = together(&mut ssd, [read(0), read(1), (Op::Write, 160, 8)]);
        [four, unlike, late, same, write]
    };
    let (alone, pair, write) = (READ + TRANSFER, READ + 2 * TRANSFER, TRANSFER + PROGRAM);
    // The array of a plane is free again when its page has left.
    assert_eq!(times(true), [2 * READ + 3 * TRANSFER, pair, pair, 2 * alone, pair + write]);
    // Otherwise only pages of one number that wait together are read at once: 2 and 3.
    assert_eq!(times(false), [2 * alone + pair, 2 * alone, 2 * alone, 2 * alone, 2 * alone + write]);
}
