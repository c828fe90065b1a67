//! Goal: the model's times, throughputs and write amplifications are those of theory.
//! Method: small experiments whose result a formula gives, to the nanosecond where it can.

use nandle_random::Stream;
use nandle_ssd::collect::victim::VictimKind;
use nandle_ssd::nand::{Block, Cause, CellKind, Extents, FaultConfig, Nand, Oob, PageUse};
use nandle_ssd::space::State;
use nandle_ssd::{Command, DeviceConfig, Op, Ssd};

use crate::devices;
use crate::drive;
use drive::{closed, one, programs, settle};
mod machine;
mod slc;

const READ: u64 = 40_000;
const PROGRAM: u64 = 200_000;
const ERASE: u64 = 1_500_000;
const TRANSFER: u64 = 12_000;

/// `channels` x `dies` dies of one plane, 8 sectors a page.
fn array(channels: u32, dies: u32) -> DeviceConfig {
    let mut config = devices::base();
    config.geometry.channels = channels;
    config.geometry.chips_per_channel = dies;
    config.geometry.planes_per_die = 1;
    config.geometry.blocks_per_plane = 64;
    config.geometry.pages_per_block = 64;
    config.op_ratio = 1.0;
    // Nothing but what the host asks for and collection.
    config.recovery.checkpoint_interval = 0;
    config
}

fn new(config: &DeviceConfig) -> Ssd {
    Ssd::new(config, 0, 1).expect("a valid device")
}

#[test]
fn idle_latencies_are_exact() {
    for (dram, command) in [(0, 0), (1_000, 300)] {
        let mut config = array(2, 2);
        config.timing.dram_ns = dram;
        config.timing.command_ns = command;
        let mut ssd = new(&config);
        let program = command + TRANSFER + PROGRAM;
        let read = command + READ + TRANSFER;
        assert_eq!(one(&mut ssd, Op::Read, 0, 8), dram, "nothing is stored there");
        assert_eq!(one(&mut ssd, Op::Write, 0, 8), dram + program);
        assert_eq!(one(&mut ssd, Op::Read, 0, 8), dram + read);
        assert_eq!(one(&mut ssd, Op::Read, 3, 2), dram + read, "a page is read whole");
        // A partial update reads the old page, then programs the union.
        assert_eq!(one(&mut ssd, Op::Write, 1, 2), dram + read + program);
        assert_eq!(ssd.stats().rmw_count, 1);
        assert_eq!(ssd.stats().rmw_ns, read + program);
        // ... but not when nothing of the page is left standing.
        assert_eq!(one(&mut ssd, Op::Write, 0, 8), dram + program);
        assert_eq!(one(&mut ssd, Op::Write, 80, 3), dram + program, "an empty page needs no read");
        assert_eq!(one(&mut ssd, Op::Trim, 0, 8), dram);
        assert_eq!(one(&mut ssd, Op::Read, 0, 8), dram);
        // A flush writes the record of the trim.
        assert_eq!(one(&mut ssd, Op::Flush, 0, 0), dram + program);
        assert_eq!(one(&mut ssd, Op::Flush, 0, 0), dram);
    }
}

#[test]
fn multi_page_requests_are_bus_bound_or_die_bound() {
    // One channel, four dies: transfers go one after the other, the arrays work side by side.
    let mut ssd = new(&array(1, 4));
    assert_eq!(one(&mut ssd, Op::Write, 0, 32), 4 * TRANSFER + PROGRAM);
    // All arrays read at once; the channel then carries four pages.
    assert_eq!(one(&mut ssd, Op::Read, 0, 32), READ + 4 * TRANSFER);
    // One die: everything one after the other.
    let mut ssd = new(&array(1, 1));
    assert_eq!(one(&mut ssd, Op::Write, 0, 32), 4 * (TRANSFER + PROGRAM));
    assert_eq!(one(&mut ssd, Op::Read, 0, 32), 4 * (TRANSFER + READ));
    // Four channels: as if it were one page.
    let mut ssd = new(&array(4, 1));
    assert_eq!(one(&mut ssd, Op::Write, 0, 32), TRANSFER + PROGRAM);
    assert_eq!(one(&mut ssd, Op::Read, 0, 32), TRANSFER + READ);
}

#[test]
fn a_channel_serves_in_the_order_of_asking() {
    let mut ssd = new(&array(1, 4));
    one(&mut ssd, Op::Write, 0, 32);
    settle(&mut ssd);
    let start = ssd.now();
    for id in 0..4 {
        let command = Command { id, op: Op::Read, lsn: id * 8, sectors: 8, fua: false, stream: 0, data: &[] };
        ssd.submit(start + id, &command);
    }
    let mut done = vec![];
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    // The arrays are done a nanosecond apart, long before the channel is.
    let expected: Vec<(u64, u64)> = (0..4).map(|id| (id, start + READ + (id + 1) * TRANSFER)).collect();
    assert_eq!(done.iter().map(|c| (c.id, c.at)).collect::<Vec<_>>(), expected);
}

#[test]
fn multi_plane_and_copyback_save_what_they_should() {
    let mut config = array(1, 1);
    config.geometry.planes_per_die = 2;
    config.scheme.striping = "PCWD".into();
    config.timing.multi_plane = true;
    let mut ssd = new(&config);
    assert_eq!(one(&mut ssd, Op::Write, 0, 16), 2 * TRANSFER + PROGRAM);
    assert_eq!(one(&mut ssd, Op::Read, 0, 16), READ + 2 * TRANSFER);
    assert_eq!(ssd.flash().counters().multi_plane, 2);

    // Copyback: collection's copies stay off the channel, so it carries the host's pages alone.
    let mut config = array(1, 1);
    config.timing.copyback = true;
    let mut ssd = new(&config);
    let pages = u64::from(ssd.layout().logical_pages);
    let mut draw = Stream::new(2, "copyback");
    let host = pages * 4;
    closed(&mut ssd, 1, host, |n| (Op::Write, if n < pages { n } else { draw.below(pages) } * 8, 8));
    settle(&mut ssd);
    assert!(ssd.stats().gc_moved_pages > pages / 2);
    assert_eq!(ssd.flash().busy_ns().1, [host * TRANSFER]);
}

#[test]
fn page_types_have_their_own_times() {
    let mut config = array(1, 1);
    config.cell.kind = CellKind::Tlc;
    config.timing.read_ns = vec![50_000, 100_000, 150_000];
    config.timing.program_ns = vec![500_000, 2_000_000, 5_500_000];
    let mut ssd = new(&config);
    // Shadow order: L0 L1 C0 L2 C1 M0.
    let expected = [500_000, 500_000, 2_000_000, 500_000, 2_000_000, 5_500_000].map(|t| t + TRANSFER);
    let measured: Vec<u64> = (0..6).map(|n| one(&mut ssd, Op::Write, n * 8, 8)).collect();
    assert_eq!(measured, expected);
    assert_eq!(one(&mut ssd, Op::Read, 2 * 8, 8), 100_000 + TRANSFER);
    assert_eq!(one(&mut ssd, Op::Read, 5 * 8, 8), 150_000 + TRANSFER);
}

#[test]
fn deep_queues_reach_the_bound() {
    for (channels, dies, transfer) in
        [(1, 2, 12_000), (1, 8, 12_000), (2, 8, 60_000), (4, 4, 1_000), (2, 3, 30_000)]
    {
        let mut config = array(channels, dies);
        config.timing.transfer_ns_per_page = Some(transfer);
        let all = u64::from(channels * dies);
        for (op, time) in [(Op::Write, PROGRAM), (Op::Read, READ)] {
            let mut ssd = new(&config);
            let pages = u64::from(ssd.layout().logical_pages) / all * all;
            let (mut took, _) = closed(&mut ssd, 1024, pages, |n| (Op::Write, n * 8, 8));
            if op == Op::Read {
                (took, _) = closed(&mut ssd, 1024, pages, |n| (Op::Read, n * 8, 8));
            }
            let bus = transfer * pages / u64::from(channels);
            let die = (transfer + time) * pages / all;
            let bound = bus.max(die) as f64;
            let ratio = took as f64 / bound;
            assert!((0.9999..1.01).contains(&ratio), "{op:?} {channels}x{dies} {transfer} ns: {ratio}");
        }
    }
}

#[test]
fn suspended_operations_let_reads_through() {
    let mut config = array(1, 1);
    config.timing.suspend = nandle_ssd::nand::Suspend::ProgramErase;
    config.timing.suspend_ns = 7_000;
    let mut ssd = new(&config);
    one(&mut ssd, Op::Write, 0, 8);
    let start = ssd.now();
    let mut done = vec![];
    let submit = |ssd: &mut Ssd, id, op, lsn, at| {
        ssd.submit(at, &nandle_ssd::Command { id, op, lsn, sectors: 8, fua: false, stream: 0, data: &[] });
    };
    submit(&mut ssd, 1, Op::Write, 8, start);
    ssd.advance(start + 100_000, &mut done);
    submit(&mut ssd, 2, Op::Read, 0, start + 100_000);
    while done.len() < 2 {
        let next = ssd.next_event().expect("under way");
        ssd.advance(next, &mut done);
    }
    assert_eq!((done[0].id, done[0].at - start), (2, 100_000 + READ + TRANSFER));
    assert_eq!((done[1].id, done[1].at - start), (1, TRANSFER + PROGRAM + READ + TRANSFER + 7_000));
}

#[test]
fn buffered_writes_cost_ram_until_there_is_no_room() {
    let mut config = array(1, 1);
    config.timing.dram_ns = 1_000;
    config.buffer.bytes = 2 * 4096;
    for kind in ["lru", "fifo"] {
        config.scheme.buffer = kind.into();
        let mut ssd = new(&config);
        assert_eq!(one(&mut ssd, Op::Write, 0, 8), 1_000);
        assert_eq!(one(&mut ssd, Op::Write, 8, 8), 1_000);
        assert_eq!(one(&mut ssd, Op::Read, 0, 8), 1_000, "a read hit is served from RAM");
        assert_eq!(one(&mut ssd, Op::Write, 0, 4), 1_000, "an overwrite takes no room");
        assert_eq!(programs(&ssd), 0);
        // The next page has to wait until a victim is on flash.
        assert_eq!(one(&mut ssd, Op::Write, 16, 8), 1_000 + TRANSFER + PROGRAM);
        // LRU keeps the page that was written last; FIFO lets the oldest request go.
        let kept = if kind == "lru" { 0 } else { 8 };
        assert_eq!(one(&mut ssd, Op::Read, kept, 8), 1_000);
        assert_eq!(one(&mut ssd, Op::Flush, 0, 0), 1_000 + 2 * (TRANSFER + PROGRAM));
        assert_eq!(one(&mut ssd, Op::Flush, 0, 0), 1_000);
        assert_eq!(programs(&ssd), 3);
    }
}

#[test]
fn flushes_ask_nothing_of_a_drive_with_capacitors() {
    for plp in [false, true] {
        let mut config = array(1, 1);
        (config.timing.dram_ns, config.buffer.bytes, config.recovery.plp) = (1_000, 1 << 20, plp);
        let mut ssd = new(&config);
        assert_eq!(one(&mut ssd, Op::Write, 0, 8), 1_000);
        assert_eq!(one(&mut ssd, Op::Flush, 0, 0), 1_000 + if plp { 0 } else { TRANSFER + PROGRAM });
        assert_eq!(one(&mut ssd, Op::Trim, 8, 8), 1_000);
        assert_eq!(one(&mut ssd, Op::Flush, 0, 0), 1_000 + if plp { 0 } else { TRANSFER + PROGRAM });
        // What is in RAM is on flash when the capacitors are empty.
        let (time, pages) = ssd.hold_up();
        assert_eq!((time > 0, pages), (plp, if plp { 2 } else { 0 }));
    }
}

#[test]
fn a_full_buffer_drains_on_all_dies() {
    // Eight dies, a buffer of 16 pages, 64 writes waiting: room is made for all of them at once, so
    // throughput is the dies', as without a buffer.
    let mut config = array(8, 1);
    config.buffer.bytes = 16 * 4096;
    let mut ssd = new(&config);
    let pages = u64::from(ssd.layout().logical_pages) / 8 * 8;
    let (took, _) = closed(&mut ssd, 64, pages, |n| (Op::Write, n * 8, 8));
    let bound = (TRANSFER + PROGRAM) * (pages - 16) / 8;
    let ratio = took as f64 / bound as f64;
    assert!((0.99..1.02).contains(&ratio), "{ratio}");
}

#[test]
fn small_writes_on_large_pages_amplify_sixteenfold() {
    let mut config = array(2, 2);
    config.geometry.page_bytes = 8192;
    let mut ssd = new(&config);
    let mut draw = Stream::new(1, "small writes");
    let sectors = ssd.layout().logical_sectors;
    // Spread over the device once, so that no page is collected.
    let count = u64::from(ssd.layout().logical_pages) / 2;
    closed(&mut ssd, 4, count, |_| (Op::Write, draw.below(sectors), 1));
    assert_eq!(ssd.stats().gc_invocations, 0);
    assert_eq!(programs(&ssd) * 8192, 16 * ssd.stats().bytes[Op::Write as usize]);
}

/// The principal branch of Lambert's W, by Newton's method.
fn lambert_w(x: f64) -> f64 {
    let mut w = if x > -0.25 { x } else { -0.5 };
    for _ in 0..100 {
        let e = w.exp();
        w -= (w * e - x) / (e * (w + 1.0));
    }
    w
}

/// Write amplification of FIFO and, for large blocks, greedy collection under uniform random writes
/// (Desnoyers 2012; Xiang and Kurkoski 2012).
pub fn theory(rho: f64) -> f64 {
    let alpha = 1.0 + rho;
    alpha / (alpha + lambert_w(-alpha * (-alpha).exp()))
}

/// One plane, and the spare that it really has.
fn one_plane(victim: VictimKind, blocks: u32, pages: u32, rho: f64) -> (DeviceConfig, f64) {
    let mut config = array(1, 1);
    config.geometry.blocks_per_plane = blocks;
    config.geometry.pages_per_block = pages;
    config.gc.victim = victim;
    config.gc.copies_in_flight = 1;
    // What is kept free (one block, a second one while it is being erased) and open (two, half
    // written on average) is not spare.
    let held = f64::from(pages) * 2.0;
    let raw = f64::from(blocks * pages);
    let logical = (raw - held) / (1.0 + rho);
    config.op_ratio = raw / logical - 1.0;
    let logical = f64::from(config.validate().expect("valid").logical_pages);
    (config, (raw - held) / logical - 1.0)
}

/// Write amplification of `writes` random pages.
fn amplification(ssd: &mut Ssd, draw: &mut Stream, writes: u64) -> f64 {
    let (before, logical) = (programs(ssd), u64::from(ssd.layout().logical_pages));
    closed(ssd, 1, writes, |_| (Op::Write, draw.below(logical) * 8, 8));
    (programs(ssd) - before) as f64 / writes as f64
}

/// Steady write amplification of one plane, and the spare that it really had.
fn uniform(victim: VictimKind, blocks: u32, pages: u32, rho: f64) -> (f64, f64) {
    let (config, effective) = one_plane(victim, blocks, pages, rho);
    let mut ssd = new(&config);
    let logical = u64::from(ssd.layout().logical_pages);
    let mut draw = Stream::new(7, "uniform");
    closed(&mut ssd, 1, logical, |n| (Op::Write, n * 8, 8));
    amplification(&mut ssd, &mut draw, logical * 3);
    let waf = amplification(&mut ssd, &mut draw, logical);
    ssd.check();
    (waf, effective)
}

#[test]
fn greedy_amplification_is_lamberts() {
    assert!((theory(0.3) - 2.36).abs() < 0.01);
    for rho in [0.07, 0.15, 0.3, 0.5] {
        let (waf, effective) = uniform(VictimKind::Greedy, 600, 512, rho);
        let expected = theory(effective);
        println!("greedy, 512 pages: rho {effective:.4}, waf {waf:.3}, theory {expected:.3}");
        assert!((waf / expected - 1.0).abs() < 0.03, "rho {effective:.4}: {waf:.3}, theory {expected:.3}");
    }
}

#[test]
fn fifo_amplification_is_lamberts() {
    for rho in [0.07, 0.15, 0.3, 0.5] {
        let (waf, effective) = uniform(VictimKind::Fifo, 600, 128, rho);
        let expected = theory(effective);
        println!("fifo: rho {effective:.4}, waf {waf:.3}, theory {expected:.3}");
        assert!((waf / expected - 1.0).abs() < 0.03, "rho {effective:.4}: {waf:.3}, theory {expected:.3}");
    }
}

/// Of a drive that begins as it is in the long run, each fifth of the first drive write amplifies as the last one does.
#[test]
fn what_begins_steady_stays_so() {
    for (victim, pages) in [(VictimKind::Greedy, 512), (VictimKind::Fifo, 128)] {
        for rho in [0.07, 0.15, 0.3, 0.5] {
            let (mut config, effective) = one_plane(victim, 600, pages, rho);
            config.precondition.steady = true;
            let mut ssd = new(&config);
            let logical = ssd.layout().logical_pages;
            assert_eq!(ssd.flash().fragments().mapped().count() as u32, logical, "all are live");
            let blocks = ssd.flash().blocks();
            let closed: Vec<f64> = blocks
                .each()
                .filter(|&(_, state)| state == State::Closed)
                .map(|(block, _)| f64::from(blocks.valid(block)) / f64::from(pages))
                .collect();
            let (oldest, newest) = (&closed[..10], &closed[closed.len() - 10..]);
            let mean = |some: &[f64]| some.iter().sum::<f64>() / some.len() as f64;
            let survive = 1.0 - 1.0 / theory(effective);
            assert!((mean(oldest) / survive - 1.0).abs() < 0.05, "{} of {survive} live", mean(oldest));
            assert!(mean(newest) > 0.98, "{}", mean(newest));
            let mut draw = Stream::new(9, "begins steady");
            let parts: Vec<f64> =
                (0..5).map(|_| amplification(&mut ssd, &mut draw, u64::from(logical) / 5)).collect();
            ssd.check();
            let expected = theory(effective);
            println!("{victim:?}: rho {effective:.4}, waf {parts:.3?}, theory {expected:.3}");
            for waf in parts {
                assert!(
                    (waf / expected - 1.0).abs() < 0.05,
                    "rho {effective:.4}: {waf:.3}, theory {expected:.3}"
                );
            }
        }
    }
}

#[test]
fn greedy_is_better_with_small_blocks() {
    // Small blocks differ more from each other, and greedy finds the emptier ones: the smaller the
    // block the lower the amplification (Desnoyers 2012, Fig. 3).
    let rho = 0.15;
    let wafs = [8, 32, 128].map(|pages| uniform(VictimKind::Greedy, 800, pages, rho).0);
    println!("greedy by block size: {wafs:?}, large-block theory {:.3}", theory(rho));
    assert!(wafs[0] < wafs[1] && wafs[1] < wafs[2] && wafs[2] < theory(rho) * 1.01, "{wafs:?}");
}

/// A power cut while a copy reads leaves the page that it would program as it was; while it programs, torn.
#[test]
fn a_copy_that_still_reads_leaves_no_trace() {
    let config = array(1, 1).nand();
    let timing = &config.timing;
    let (read, program) = (timing.read_ns[0], timing.program_ns[0]);
    let transfer = timing.transfer(&config.geometry, config.geometry.sectors_per_page());
    let left_at = |cut: u64| {
        let mut nand = Nand::new(&config, 0);
        nand.inject(&FaultConfig::default(), 1);
        let [from, to] = [0, 1].map(|page| nand.geometry().ppn(Block(0), page));
        let extents = Extents::Home { lpn: 3, start: 0, len: 8 };
        let oob = Oob { kind: PageUse::Data, owner: Oob::PLAIN, stream: 0, extents };
        let until = |nand: &mut Nand, time: u64| {
            nand.settle();
            while nand.next_time() <= time {
                nand.step();
                nand.settle();
            }
        };
        nand.program_on::<true>(from, &oob, Cause::Host, false, &[]);
        until(&mut nand, 10 * program);
        nand.advance(10 * program);
        nand.copy_on::<true>(from, to, &oob, Cause::Gc, true);
        until(&mut nand, 10 * program + cut);
        nand.advance(10 * program + cut);
        nand.cut_power(false).0.page_use(to)
    };
    assert_eq!(left_at(read / 2), PageUse::Erased, "it reads");
    assert_eq!(left_at(read + transfer + transfer / 2), PageUse::Erased, "the page goes in");
    assert_eq!(left_at(read + 2 * transfer + program / 2), PageUse::Torn, "it programs");
    assert_eq!(left_at(read + 2 * transfer + program), PageUse::Data, "it is over");
}

#[test]
fn slower_flash_is_never_faster() {
    let mean = |change: &dyn Fn(&mut DeviceConfig)| {
        let mut config = array(2, 2);
        config.geometry.blocks_per_plane = 24;
        config.geometry.pages_per_block = 16;
        config.timing.command_ns = 100;
        config.timing.dram_ns = 100;
        change(&mut config);
        let mut ssd = new(&config);
        let sectors = ssd.layout().logical_sectors;
        let mut draw = Stream::new(5, "monotone");
        let (mut done, mut sum, count) = (vec![], 0, 8_000);
        for id in 0..count {
            let at = id * 400_000;
            ssd.advance(at, &mut done);
            let op = if draw.chance(0.3) { Op::Read } else { Op::Write };
            let sectors_of = 1 + draw.below(12);
            let lsn = draw.below(sectors - sectors_of);
            let command =
                nandle_ssd::Command { id, op, lsn, sectors: sectors_of, fua: false, stream: 0, data: &[] };
            ssd.submit(at, &command);
        }
        settle_into(&mut ssd, &mut done);
        for c in &done {
            sum += c.at - c.id * 400_000;
        }
        assert_eq!(done.len() as u64, count);
        assert!(ssd.stats().gc_invocations > 100);
        sum / count
    };
    let base = mean(&|_| {});
    type Change<'a> = (&'a str, &'a dyn Fn(&mut DeviceConfig));
    let slower: [Change<'_>; 6] = [
        ("read", &|c| c.timing.read_ns = vec![READ * 3 / 2]),
        ("program", &|c| c.timing.program_ns = vec![PROGRAM * 3 / 2]),
        ("erase", &|c| c.timing.erase_ns = ERASE * 3 / 2),
        ("transfer", &|c| c.timing.transfer_ns_per_page = Some(TRANSFER * 3 / 2)),
        ("command", &|c| c.timing.command_ns = 1_000),
        ("dram", &|c| c.timing.dram_ns = 1_000),
    ];
    for (name, change) in slower {
        let slow = mean(change);
        assert!(slow >= base, "{name}: {slow} < {base}");
    }
}

fn settle_into(ssd: &mut Ssd, done: &mut Vec<nandle_ssd::Completion>) {
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, done);
    }
}

#[test]
fn greedy_picks_the_argmin() {
    use nandle_ssd::space::State;
    let mut config = array(1, 2);
    config.geometry.blocks_per_plane = 24;
    config.geometry.pages_per_block = 16;
    let mut ssd = new(&config);
    let pages = u64::from(ssd.layout().logical_pages);
    let mut draw = Stream::new(9, "argmin");
    let mut checked = 0;
    for n in 0..8_000 {
        let lpn = if n < pages { n } else { draw.below(pages) };
        // Before each write: the bucketed choice of every plane against a scan of all its blocks.
        for plane in 0..2 {
            let blocks = ssd.flash().blocks();
            let least = config
                .geometry
                .blocks_of(plane)
                .filter(|&b| blocks.state(b) == State::Closed)
                .map(|b| blocks.valid(b))
                .min();
            let candidates = blocks.candidates(plane);
            let chosen = candidates.buckets().next().map(|(_, b)| blocks.valid(b));
            assert_eq!(chosen, least.filter(|&v| v < 16));
            checked += u32::from(chosen.is_some());
        }
        one(&mut ssd, Op::Write, lpn * 8, 8);
        if n % 500 == 0 {
            settle(&mut ssd);
            ssd.check();
        }
    }
    assert!(checked > 10_000);
}

#[test]
fn fifo_leaves_blocks_that_lost_nothing_alone() {
    let mut config = array(1, 1);
    config.geometry.blocks_per_plane = 24;
    config.geometry.pages_per_block = 16;
    config.gc.victim = VictimKind::Fifo;
    let mut ssd = new(&config);
    let pages = u64::from(ssd.layout().logical_pages);
    // Whole blocks that are written once, and are the oldest; all else is overwritten in turn.
    let kept = pages / 4 / 16 * 16;
    for n in 0..6 * pages {
        let lpn = if n < pages { n } else { kept + (n - pages) % (pages - kept) };
        one(&mut ssd, Op::Write, lpn * 8, 8);
    }
    let erases = ssd.flash().counters().erases;
    assert!(erases > 30, "{erases}");
    // The oldest block that has something to gain is dead as a whole, but for the block that both kinds share.
    assert!(ssd.stats().gc_moved_pages <= 16, "{} pages moved", ssd.stats().gc_moved_pages);
}

#[test]
fn worn_out_devices_turn_read_only_and_keep_their_data() {
    let mut config = array(1, 1);
    config.geometry.blocks_per_plane = 24;
    config.geometry.pages_per_block = 16;
    config.cell.endurance = 40;
    config.wear.static_gap = 8;
    let mut ssd = Ssd::new(&config, 8, 1).expect("a valid device");
    let pages = u64::from(ssd.layout().logical_pages);
    let mut draw = Stream::new(9, "wear");
    let mut newest = vec![0_u64; pages as usize];
    let mut refused = 0;
    for n in 1..60_000_u64 {
        let lpn = draw.below(pages / 4);
        let mut done = vec![];
        let data = n.to_le_bytes().repeat(8);
        let now = ssd.now();
        ssd.submit(
            now,
            &nandle_ssd::Command {
                id: n,
                op: Op::Write,
                lsn: lpn * 8,
                sectors: 8,
                fua: false,
                stream: 0,
                data: &data,
            },
        );
        while done.is_empty() {
            let next = ssd.next_event().expect("under way");
            ssd.advance(next, &mut done);
        }
        match done[0].status {
            nandle_ssd::Status::Ok => newest[lpn as usize] = n,
            _ => refused += 1,
        }
    }
    assert!(ssd.is_read_only() && refused > 0 && ssd.stats().rejected == refused);
    settle(&mut ssd);
    ssd.check();
    for (lpn, &stamp) in newest.iter().enumerate() {
        let mut done = vec![];
        let now = ssd.now();
        ssd.submit(
            now,
            &nandle_ssd::Command {
                id: 0,
                op: Op::Read,
                lsn: lpn as u64 * 8,
                sectors: 1,
                fua: false,
                stream: 0,
                data: &[],
            },
        );
        while done.is_empty() {
            let next = ssd.next_event().expect("under way");
            ssd.advance(next, &mut done);
        }
        assert_eq!(done[0].data, stamp.to_le_bytes());
    }
}
