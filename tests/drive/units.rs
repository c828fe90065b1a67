//! Goal: a drive whose mapping unit is smaller or larger than a page of its flash does what such drives do:
//! smaller units share pages, larger ones lie on several planes, and both follow closed forms and theory.
//! Method: small devices driven by hand, beside counts and times worked out on paper, the theory of
//! collection, and power cuts judged by the oracle.

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::nand::{Block, Cause};
use nandle_ssd::space::State;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};

use crate::devices;
use crate::drive;
use drive::{closed, one, programs, settle};

/// Pages of 16 KiB, sectors of 4 KiB, `planes` planes on one die.
fn base(planes: u32, unit_bytes: u32) -> DeviceConfig {
    let mut config = devices::base();
    let g = &mut config.geometry;
    (g.channels, g.planes_per_die) = (1, planes);
    (g.page_bytes, g.sector_bytes, g.pages_per_block, g.blocks_per_plane) = (16384, 4096, 16, 24);
    config.mapping.unit_bytes = unit_bytes;
    config.recovery.checkpoint_interval = 0;
    config
}

fn drive(config: &DeviceConfig) -> Ssd {
    Ssd::new(config, 0, 1).expect("a valid device")
}

const READ: u64 = 40_000;
const PROGRAM: u64 = 200_000;
const TRANSFER: u64 = 12_000;

// ---- units that share a page --------------------------------------------------------------------

#[test]
fn four_units_fill_a_page() {
    let mut config = base(1, 4096);
    config.buffer.bytes = 64 << 10;
    let mut ssd = drive(&config);
    // 16 sectors stay in the buffer, the others leave it four at a time.
    closed(&mut ssd, 1, 96, |n| (Op::Write, (n * 37) % 96, 1));
    settle(&mut ssd);
    assert_eq!(programs(&ssd), (96 - 16) / 4);
    // What is left: whole pages, and nothing more.
    one(&mut ssd, Op::Flush, 0, 0);
    assert_eq!(programs(&ssd), 96 / 4);
    one(&mut ssd, Op::Write, 5, 1);
    one(&mut ssd, Op::Flush, 0, 0);
    assert_eq!(programs(&ssd), 96 / 4 + 1, "a FLUSH does not wait for three more units");
    ssd.check();
    // One entry of four bytes a unit, none of them a list.
    assert_eq!(ssd.mapping_bytes().0, u64::from(ssd.layout().logical_pages) * 4);
    assert_eq!(ssd.flash().fragments().lists_in_use(), 0);
}

#[test]
fn units_of_a_page_are_read_at_once() {
    let mut config = base(1, 4096);
    config.buffer.bytes = 64 << 10;
    config.timing.partial_transfer = true;
    let mut ssd = drive(&config);
    closed(&mut ssd, 1, 64, |n| (Op::Write, n, 1));
    one(&mut ssd, Op::Flush, 0, 0);
    settle(&mut ssd);
    let reads = |ssd: &Ssd| ssd.counters().reads.iter().flatten().sum::<u64>();
    let before = reads(&ssd);
    assert_eq!(one(&mut ssd, Op::Read, 8, 4), READ + TRANSFER);
    assert_eq!(reads(&ssd) - before, 1);
    assert_eq!(one(&mut ssd, Op::Read, 9, 1), READ + TRANSFER / 4);
}

#[test]
fn what_is_not_programmed_yet_is_read_from_ram() {
    let mut config = base(1, 4096);
    config.buffer.bytes = 16 << 10;
    config.timing.dram_ns = 700;
    let mut ssd = drive(&config);
    closed(&mut ssd, 1, 6, |n| (Op::Write, n, 1));
    settle(&mut ssd);
    assert!(ssd.flash().media().open_pages().is_empty() || programs(&ssd) < 2);
    for lsn in 4..6 {
        assert_eq!(one(&mut ssd, Op::Read, lsn, 1), 700, "sector {lsn}");
    }
}

#[test]
fn a_drive_without_a_buffer_gathers_what_comes_while_its_die_is_busy() {
    let config = base(1, 4096);
    // One at a time: a page each.
    let mut ssd = drive(&config);
    closed(&mut ssd, 1, 20, |n| (Op::Write, n, 1));
    assert_eq!(programs(&ssd), 20);
    // Eight at a time: the first goes alone, the others fill pages behind it.
    let mut ssd = drive(&config);
    closed(&mut ssd, 8, 200, |n| (Op::Write, n, 1));
    assert!((50..70).contains(&programs(&ssd)), "{} programs", programs(&ssd));
}

#[test]
fn sequential_writes_fill_their_pages_on_every_unit() {
    for (planes, unit) in [(4, 4096), (4, 8192), (4, 0), (4, 32768), (4, 65536)] {
        let mut config = base(planes, unit);
        config.buffer.bytes = 256 << 10;
        let mut ssd = drive(&config);
        let sectors = ssd.layout().logical_sectors / 16 * 16;
        closed(&mut ssd, 4, sectors / 4, |n| (Op::Write, n * 4, 4));
        one(&mut ssd, Op::Flush, 0, 0);
        assert_eq!(programs(&ssd), sectors / 4, "unit of {unit}");
        assert_eq!(ssd.stats().rmw_count, 0);
    }
}

// ---- units that lie on several planes -------------------------------------------------------------

#[test]
fn a_unit_on_four_planes_takes_one_program_time_and_four_transfers() {
    let mut ssd = drive(&base(4, 65536));
    assert_eq!(one(&mut ssd, Op::Write, 0, 16), 4 * TRANSFER + PROGRAM);
    assert_eq!(programs(&ssd), 4);
    assert_eq!(one(&mut ssd, Op::Read, 0, 16), READ + 4 * TRANSFER);
    // A part of it: of the pages that hold it.
    assert_eq!(one(&mut ssd, Op::Read, 4, 4), READ + TRANSFER);
    assert_eq!(one(&mut ssd, Op::Read, 2, 4), READ + 2 * TRANSFER, "half of two pages");
    let reads = ssd.counters().reads[Cause::Host as usize].iter().sum::<u64>();
    assert_eq!(reads, 4 + 1 + 2);
    // A smaller write reads the rest, and writes all of it.
    assert_eq!(one(&mut ssd, Op::Write, 4, 4), READ + 3 * TRANSFER + 4 * TRANSFER + PROGRAM);
    assert_eq!((programs(&ssd), ssd.stats().rmw_count), (8, 1));
}

#[test]
fn smaller_writes_cost_their_unit() {
    // 4 KiB writes into a full drive before anything is collected: each costs a unit.
    for (unit, cost) in [(4096, 0.25), (16384, 1.0), (32768, 2.0), (65536, 4.0)] {
        let mut config = base(4, unit);
        config.buffer.bytes = 256 << 10;
        config.op_ratio = 3.0;
        let mut ssd = drive(&config);
        let sectors = ssd.layout().logical_sectors / 16 * 16;
        closed(&mut ssd, 4, sectors / 16, |n| (Op::Write, n * 16, 16));
        one(&mut ssd, Op::Flush, 0, 0);
        let before = programs(&ssd);
        // One sector of each stretch of 64 KiB, so that no two share a unit.
        let count = 64;
        closed(&mut ssd, 1, count, |n| (Op::Write, n * 16 + 3, 1));
        one(&mut ssd, Op::Flush, 0, 0);
        let each = (programs(&ssd) - before) as f64 / count as f64;
        assert!((each - cost).abs() < 0.02, "unit of {unit}: {each} pages a write, {cost} expected");
    }
}

// ---- write amplification ------------------------------------------------------------------------

/// Write amplification of collection under uniform writes, `used` units valid a unit of closed blocks: all of
/// the flash is written once between two visits of the collector (Desnoyers 2012; greedy's in the limit of
/// large blocks).
fn theory(used: f64) -> f64 {
    (0..200).fold(1.0, |a: f64, _| f64::midpoint(a, 1.0 / -(-1.0 / (used * a)).exp_m1()))
}

/// Share of the units of closed blocks that are valid.
fn used(ssd: &Ssd) -> f64 {
    let blocks = ssd.flash().blocks();
    let closed = blocks.each().filter(|&(_, state)| state == State::Closed);
    let (valid, count) =
        closed.fold((0, 0), |(v, n), (block, _)| (v + u64::from(blocks.valid(block)), n + 1));
    valid as f64 / (count * u64::from(ssd.flash().geometry().pages_per_block)) as f64
}

#[test]
fn uniform_writes_of_units_that_share_pages_amplify_as_theory_says() {
    amplifies_as_theory_says(false);
}

#[test]
fn units_of_a_drive_that_begins_steady_amplify_as_theory_says() {
    amplifies_as_theory_says(true);
}

/// `begins`: at once, for the drive begins as it is in the long run.
fn amplifies_as_theory_says(begins: bool) {
    for rho in [0.07, 0.15, 0.28, 0.5] {
        let mut config = base(2, 4096);
        // Blocks so large that the choice of the emptiest one is no better than that of the oldest.
        (config.geometry.pages_per_block, config.geometry.blocks_per_plane) = (256, 128);
        config.buffer.bytes = 1 << 20;
        config.recovery.plp = true;
        config.op_ratio = rho;
        config.precondition.steady = begins;
        let mut ssd = drive(&config);
        let units = ssd.layout().logical_sectors;
        let mut draw = Stream::new(7, "places");
        if !begins {
            closed(&mut ssd, 32, units, |n| (Op::Write, n, 1));
            closed(&mut ssd, 32, units * 4, |_| (Op::Write, draw.below(units), 1));
        }
        let (mut share, mut waf) = (0.0, 0.0);
        let rounds = 40;
        for _ in 0..rounds {
            let before = programs(&ssd);
            closed(&mut ssd, 32, units / 20, |_| (Op::Write, draw.below(units), 1));
            waf += (programs(&ssd) - before) as f64 * 4.0 / (units / 20) as f64 / f64::from(rounds);
            share += used(&ssd) / f64::from(rounds);
        }
        let expected = theory(share);
        println!("rho {rho}: {share:.4} of closed blocks valid, waf {waf:.3}, theory {expected:.3}");
        assert!((waf / expected - 1.0).abs() < 0.03, "rho {rho}: waf {waf:.3}, theory {expected:.3}");
        ssd.check();
    }
}

#[test]
fn a_block_is_not_collected_for_less_than_a_page() {
    // The oldest block would be the victim, but three of its units make no page.
    for (dead, collected) in [(3_u64, false), (4, true)] {
        let mut config = base(1, 4096);
        config.gc.victim = nandle_ssd::collect::victim::VictimKind::Fifo;
        config.op_ratio = 0.6;
        let mut ssd = drive(&config);
        let (units, block) = (ssd.layout().logical_sectors, 64_u64);
        closed(&mut ssd, 4, units, |n| (Op::Write, n, 1));
        let valid = |ssd: &Ssd| -> Vec<(Block, u32)> {
            let blocks = ssd.flash().blocks();
            blocks.each().map(|(block, _)| (block, blocks.valid(block))).collect()
        };
        let full: Vec<(Block, u32)> = valid(&ssd).into_iter().filter(|&(_, valid)| valid == 64).collect();
        closed(&mut ssd, 4, dead, |n| (Op::Write, n, 1));
        let now = valid(&ssd);
        let oldest: Vec<Block> =
            full.iter().filter(|now_full| !now.contains(now_full)).map(|&(block, _)| block).collect();
        let [oldest] = oldest[..] else { panic!("{dead} units of one block, not of {oldest:?}") };
        let before = ssd.flash().array().erases(oldest);
        // The second block's units, over and over.
        closed(&mut ssd, 4, 40 * block, |n| (Op::Write, block + n % block, 1));
        assert!(ssd.stats().gc_invocations > 8);
        assert_eq!(ssd.flash().array().erases(oldest) > before, collected, "{dead} units are dead");
    }
}

// ---- power cuts -----------------------------------------------------------------------------------

/// Sectors of units that lie in pages not yet programmed.
fn in_open_pages(ssd: &Ssd) -> Vec<u64> {
    let (array, mut found) = (ssd.flash().array(), vec![]);
    for page in ssd.flash().media().open_pages() {
        for ppn in array.together(page.first).filter(|&ppn| array.page_use(ppn).is_data()) {
            let per_page = ssd.flash().geometry().sectors_per_page();
            array.oob(ppn).extents.each(per_page, |extent| found.push(extent.lsn));
        }
    }
    found
}

/// The same of units that collection moves.
fn of_collection(ssd: &Ssd) -> Vec<u64> {
    let mut moved = in_open_pages(ssd);
    let pages: Vec<_> = ssd
        .flash()
        .media()
        .open_pages()
        .iter()
        .filter(|page| page.cause == Cause::Gc)
        .map(|p| p.first)
        .collect();
    let array = ssd.flash().array();
    let lies_there = |lsn: &u64| {
        let unit = (lsn / u64::from(ssd.flash().sectors_per_page())) as u32;
        let at = ssd.flash().fragments().single(unit);
        at.is_some_and(|ppn| pages.contains(&array.first_slot(ppn)))
    };
    moved.retain(lies_there);
    moved
}

/// A request that the oracle knows of; writes have the contents that it expects.
fn submit(ssd: &mut Ssd, oracle: &mut Oracle, id: u64, what: (Op, u64, u64)) {
    submit_to_stream(ssd, oracle, id, what, 0);
}

fn submit_to_stream(
    ssd: &mut Ssd,
    oracle: &mut Oracle,
    id: u64,
    (op, lsn, sectors): (Op, u64, u64),
    stream: u16,
) {
    let data = oracle.contents(lsn, sectors);
    let command = Command { id, op, lsn, sectors, fua: false, stream, data: &data };
    oracle.submitted(&command);
    let now = ssd.now();
    ssd.submit(now, &command);
}

/// Whether the oracle allows what a power cut would leave now.
fn a_cut_is_survived(ssd: &Ssd, oracle: &Oracle, seed: u64) {
    let again = Ssd::power_on(ssd.config(), ssd.clone().cut_power(), seed).expect("a valid device");
    let mut judge = oracle.clone();
    judge.power_cut(&again.contents(0, ssd.layout().logical_sectors).0, &[]);
    assert!(judge.verdict().is_ok(), "seed {seed}: {}", judge.verdict().unwrap_err());
}

/// Takes so many events, if there are as many, and after each of them sees what a cut would leave if that is `watched`.
fn go_on(ssd: &mut Ssd, oracle: &mut Oracle, events: u64, watched: bool, seed: u64) {
    let mut done = vec![];
    for _ in 0..events {
        let Some(next) = ssd.next_event() else { break };
        ssd.advance(next, &mut done);
        done.drain(..).for_each(|completion| oracle.completed(&completion));
        if watched {
            a_cut_is_survived(ssd, oracle, seed);
        }
    }
}

/// Small requests, flushes and trims with power cuts in between, judged by the oracle. `after` in ten writes go
/// to what was just written, or moved, and is not programmed yet; `fua` in twenty wait for the flash.
fn cuts(config: &DeviceConfig, seed: u64, after: u64, fua: u64) {
    let mut ssd = Ssd::new(config, UNIT, seed).expect("a valid device");
    let sectors = ssd.layout().logical_sectors;
    let mut oracle = Oracle::of(&ssd);
    let mut draw = Stream::new(seed, "requests");
    let mut done: Vec<Completion> = vec![];
    let (mut id, mut collected) = (0, 0);
    for _ in 0..60 {
        for _ in 0..draw.below(120) {
            let length = 1 + draw.below(6);
            let mut lsn = draw.below(sectors - length);
            if after > 0 && draw.below(10) < after {
                let open = in_open_pages(&ssd);
                if !open.is_empty() {
                    lsn = open[draw.below(open.len() as u64) as usize].min(sectors - length);
                }
            }
            let (op, length) = match draw.below(20) {
                0 => (Op::Flush, 0),
                1 | 2 => (Op::Trim, length),
                3 | 4 => (Op::Read, length),
                _ => (Op::Write, length),
            };
            let data = if op == Op::Write { oracle.contents(lsn, length) } else { vec![] };
            let fua = op == Op::Write && draw.below(20) < fua;
            let command = Command { id, op, lsn, sectors: length, fua, stream: 0, data: &data };
            id += 1;
            oracle.submitted(&command);
            let now = ssd.now();
            ssd.submit(now, &command);
            for _ in 0..draw.below(4) {
                if let Some(next) = ssd.next_event() {
                    ssd.advance(next, &mut done);
                }
            }
            done.drain(..).for_each(|completion| oracle.completed(&completion));
        }
        collected += ssd.stats().gc_invocations;
        ssd = Ssd::power_on(config, ssd.cut_power(), seed).expect("a valid device");
        ssd.check();
        let (all, _) = ssd.contents(0, sectors);
        oracle.power_cut(&all, &[]);
    }
    assert!(collected > 0 || after > 0, "nothing was collected");
    let verdict = oracle.verdict();
    assert!(verdict.is_ok(), "{}: {}", config.mapping.unit_bytes, verdict.unwrap_err());
}

#[test]
fn power_cuts_lose_nothing_on_any_unit() {
    for (unit, sector) in
        [(4096, 4096), (4096, 512), (8192, 4096), (32768, 4096), (32768, 512), (65536, 4096)]
    {
        for (buffer, plp, interval) in [(0, false, 0), (128 << 10, false, 16), (128 << 10, true, 0)] {
            let mut config = base(4, unit);
            config.geometry.sector_bytes = sector;
            config.geometry.pages_per_block = 6;
            config.buffer.bytes = buffer;
            config.recovery.plp = plp;
            config.recovery.checkpoint_interval = interval;
            for seed in 1..4 {
                let config = devices::least(config.clone());
                cuts(&config, seed, 0, 1);
                cuts(&config, seed, 6, 8);
            }
        }
    }
}

#[test]
fn what_was_moved_outlives_its_block_until_what_replaced_it_is_on_flash() {
    // A unit that collection has moved to a page not programmed yet is written again, to another such page. Its
    // durable copy is in the block that is collected: that is erased when one of the two is on flash, and lists it.
    let mut tried = 0;
    for seed in 1..5 {
        let mut config = base(1, 4096);
        config.geometry.pages_per_block = 6;
        let config = devices::least(config);
        let mut ssd = Ssd::new(&config, UNIT, seed).expect("a valid device");
        let sectors = ssd.layout().logical_sectors;
        let mut oracle = Oracle::of(&ssd);
        let (mut draw, mut id) = (Stream::new(seed, "requests"), 0);
        for n in 0..4 * sectors {
            let moved = of_collection(&ssd);
            let watched = n > sectors && !moved.is_empty() && draw.chance(0.5);
            let lsn = if n < sectors {
                n
            } else if watched {
                moved[draw.below(moved.len() as u64) as usize]
            } else {
                draw.below(sectors)
            };
            let flush = !watched && (n == sectors || draw.below(16) == 0);
            let (op, length) = if flush { (Op::Flush, 0) } else { (Op::Write, 1) };
            submit(&mut ssd, &mut oracle, id, (op, lsn, length));
            id += 1;
            tried += u64::from(watched);
            let events = if watched { 24 } else { draw.below(3) };
            go_on(&mut ssd, &mut oracle, events, watched, seed);
        }
    }
    assert!(tried > 100, "{tried} units written again while they were moved");
}

#[test]
fn what_is_written_twice_outlives_the_page_that_is_to_replace_it_and_no_longer_does() {
    // A unit that is durable is written again, to a page not programmed yet, and once more, to another such page. The
    // first of the two is programmed without it, so that the durable one is needed until the other is on flash.
    let mut tried = 0;
    for seed in 1..5 {
        let mut config = base(2, 4096);
        // Nobody waits for what leaves the buffer, so that it may be superseded in a page not programmed yet; by another
        // stream, in another one.
        config.buffer.bytes = 32 << 10;
        (config.scheme.streams, config.streams.count) = ("multi-stream".into(), 3);
        let mut ssd = Ssd::new(&config, UNIT, seed).expect("a valid device");
        let sectors = ssd.layout().logical_sectors.min(64);
        let mut oracle = Oracle::of(&ssd);
        let mut draw = Stream::new(seed, "requests");
        for id in 0..2000 {
            let open: Vec<u64> = in_open_pages(&ssd).into_iter().filter(|&lsn| lsn < sectors).collect();
            let watched = id > 2 * sectors && !open.is_empty() && draw.chance(0.5);
            let lsn =
                if watched { open[draw.below(open.len() as u64) as usize] } else { draw.below(sectors) };
            let flush = !watched && draw.below(16) == 0;
            let (op, length) = if flush { (Op::Flush, 0) } else { (Op::Write, 1) };
            submit_to_stream(&mut ssd, &mut oracle, id, (op, lsn, length), draw.below(4) as u16);
            tried += u64::from(watched);
            let events = if watched { 8 } else { draw.below(3) };
            go_on(&mut ssd, &mut oracle, events, watched, seed);
        }
    }
    assert!(tried > 500, "{tried} units written again before their page was programmed");
}

#[test]
fn what_a_flush_waits_for_may_be_merged_by_collection_meanwhile() {
    // Versions of a unit, the newest in a page not programmed yet, are merged into a page of collection's: a FLUSH that
    // comes now waits for that one.
    let (_, mut config) = devices::small_devices_of("units")
        .into_iter()
        .find(|(name, _)| name.contains("versions"))
        .expect("one with versions");
    (config.geometry.channels, config.buffer.bytes) = (1, 4 << 10);
    let mut tried = 0;
    for seed in 1..9 {
        let mut ssd = Ssd::new(&config, UNIT, seed).expect("a valid device");
        let sectors = ssd.layout().logical_sectors;
        let mut oracle = Oracle::of(&ssd);
        let (mut draw, mut done, mut id) = (Stream::new(seed, "requests"), vec![], 0);
        while id < 6_000 {
            // A burst, as deep as it comes, and a FLUSH.
            let burst = 1 + draw.below(40);
            for n in 0..=burst {
                let length = 1 + draw.below(3);
                let span = if draw.chance(0.5) { sectors / 6 } else { sectors - length };
                let lsn = draw.below(span);
                let (op, length) = if n == burst { (Op::Flush, 0) } else { (Op::Write, length) };
                submit(&mut ssd, &mut oracle, id, (op, lsn, length));
                id += 1;
                go_on(&mut ssd, &mut oracle, draw.below(3), false, seed);
            }
            while ssd.outstanding() > 0 {
                let next = ssd.next_event().expect("the device is stuck");
                ssd.advance(next, &mut done);
                done.drain(..).for_each(|completion| oracle.completed(&completion));
            }
            a_cut_is_survived(&ssd, &oracle, seed);
            tried += 1;
        }
    }
    assert!(tried > 1000, "{tried} cuts behind a FLUSH");
}

// ---- settings that do not stand ---------------------------------------------------------------------

#[test]
fn units_that_do_not_fit_are_refused_with_what_would() {
    let refused = |change: &dyn Fn(&mut DeviceConfig)| {
        let mut config = base(2, 0);
        change(&mut config);
        config.validate().expect_err("refused").to_string()
    };
    let says = |message: String, part: &str| assert!(message.contains(part), "{message}");
    says(refused(&|c| c.mapping.unit_bytes = 12288), "such as 8192 or 32768");
    says(refused(&|c| c.mapping.unit_bytes = 2048), "at least 4096");
    says(refused(&|c| c.mapping.unit_bytes = 65536), "at most 32768");
    says(
        refused(&|c| {
            (c.mapping.unit_bytes, c.geometry.sector_bytes, c.geometry.planes_per_die) = (65536, 512, 4)
        }),
        "sector_bytes = 4096",
    );
    says(
        refused(&|c| {
            c.mapping.unit_bytes = 4096;
            c.scheme.allocation = "papa".into();
            c.cell.kind = nandle_ssd::nand::CellKind::Tlc;
            c.cell.program_order = nandle_ssd::nand::ProgramOrder::Relaxed;
        }),
        "16384 or more with page types",
    );
}
