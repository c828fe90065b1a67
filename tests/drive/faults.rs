//! Goal: a failure of the flash never shows a wrong sector. Programs and erases that fail cost blocks, not
//! data; an uncorrectable read is an error for exactly its sectors until they are written again.
//! Method: failures at chosen operations whose outcome is known, and random ones under the oracle on
//! every small device.

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::nand::{Cause, Extents, FaultConfig, Kind, Nand, Oob, PageUse, Ppn};
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd, Status};

use crate::devices;
use crate::torture;

fn run(ssd: &mut Ssd, op: Op, lsn: u64, sectors: u64, stamp: u64) -> Completion {
    let data: Vec<u8> = if op == Op::Write {
        (lsn..lsn + sectors).flat_map(|lsn| (stamp << 32 | lsn).to_le_bytes()).collect()
    } else {
        vec![]
    };
    let now = ssd.now();
    ssd.submit(now, &Command { id: stamp, op, lsn, sectors, fua: false, stream: 0, data: &data });
    let mut done = vec![];
    while done.is_empty() {
        let next = ssd.next_event().expect("the device is stuck");
        ssd.advance(next, &mut done);
    }
    done.swap_remove(0)
}

fn words(completion: &Completion) -> Vec<u64> {
    completion.data.chunks_exact(8).map(|b| u64::from_le_bytes(b.try_into().expect("eight"))).collect()
}

/// Eight sectors a page.
fn device(faults: FaultConfig) -> DeviceConfig {
    let mut config = devices::base();
    config.op_ratio = 1.5;
    config.faults = faults;
    config
}

#[test]
fn an_uncorrectable_read_is_an_error_for_exactly_its_sectors() {
    let config = device(FaultConfig { reads: vec![2], ..FaultConfig::default() });
    let mut ssd = Ssd::new(&config, UNIT, 1).expect("valid");
    assert_eq!(run(&mut ssd, Op::Write, 0, 24, 1).status, Status::Ok);
    // The second page read is page 1: sectors 8 to 15, of which 10 to 15 and all around were asked for.
    let read = run(&mut ssd, Op::Read, 4, 16, 2);
    assert_eq!((read.status, &read.unreadable[..]), (Status::MediaError, &[(8, 8)][..]));
    for (n, word) in words(&read).into_iter().enumerate() {
        let lsn = 4 + n as u64;
        assert_eq!(word, if (8..16).contains(&lsn) { 0 } else { 1 << 32 | lsn }, "sector {lsn}");
    }
    // It stays so, without another fault, and for no sector more than is asked for.
    let read = run(&mut ssd, Op::Read, 12, 2, 3);
    assert_eq!((read.status, &read.unreadable[..]), (Status::MediaError, &[(12, 2)][..]));
    // A partial update reads the page, gets nothing, and says so of what it did not write.
    assert_eq!(run(&mut ssd, Op::Write, 9, 2, 4).status, Status::Ok);
    let read = run(&mut ssd, Op::Read, 8, 8, 5);
    assert_eq!((read.status, &read.unreadable[..]), (Status::MediaError, &[(8, 1), (11, 5)][..]));
    assert_eq!(words(&read)[1..3], [4 << 32 | 9, 4 << 32 | 10]);
    // A power cut does not heal it, a trim does.
    assert_eq!(run(&mut ssd, Op::Flush, 0, 0, 6).status, Status::Ok);
    let without = device(FaultConfig::default());
    let mut ssd = Ssd::power_on(&without, ssd.cut_power(), 1).expect("valid");
    let read = run(&mut ssd, Op::Read, 8, 8, 7);
    assert_eq!(&read.unreadable[..], [(8, 1), (11, 5)]);
    assert_eq!(ssd.inspect().unreadable, 6);
    run(&mut ssd, Op::Trim, 8, 1, 8);
    let read = run(&mut ssd, Op::Read, 8, 4, 9);
    assert_eq!((&read.unreadable[..], words(&read)[0]), (&[(11, 1)][..], 0));
    // Collection moves what is lost as lost, until it is written again.
    let sectors = ssd.layout().logical_sectors;
    let mut draw = Stream::new(1, "faults");
    for n in 0..4_000 {
        let lsn = 24 + draw.below((sectors - 24) / 8) * 8;
        run(&mut ssd, Op::Write, lsn.min(sectors - 8), 8, 10 + n);
    }
    assert!(ssd.stats().gc_moved_pages > 500);
    assert_eq!(run(&mut ssd, Op::Read, 0, 24, 5_000).unreadable, [(11, 5)]);
    run(&mut ssd, Op::Write, 8, 8, 5_001);
    let read = run(&mut ssd, Op::Read, 0, 24, 5_002);
    assert_eq!((read.status, read.unreadable.len()), (Status::Ok, 0));
    ssd.check();
    assert!(ssd.inspect().is_clean(), "{}", ssd.inspect());
}

#[test]
fn a_program_that_fails_costs_a_block_and_nothing_else() {
    let mut retired = 0;
    for number in (1..1_500).step_by(97) {
        let config = device(FaultConfig { programs: vec![number, number + 1], ..FaultConfig::default() });
        let mut ssd = Ssd::new(&config, UNIT, 1).expect("valid");
        let mut oracle = Oracle::of(&ssd);
        torture::torture(&mut ssd, &mut oracle, &mut Stream::new(number, "faults"), 3_000, 0);
        assert_eq!(oracle.verdict(), Ok(()), "program {number}");
        assert_eq!(ssd.stats().program_failures, 2, "program {number}");
        let bad = ssd.inspect().blocks[3];
        assert!(bad <= 2, "program {number}: {bad} bad blocks");
        assert_eq!(ssd.stats().erase_failures, bad);
        assert!(!ssd.is_read_only());
        retired += bad;
    }
    // Those whose planes could not spare the room yet are still in use.
    assert!(retired >= 12, "{retired} blocks were taken out of use");
}

/// A drive of `planes` planes of 100 blocks, 50% over-provisioning, in its steady state: collection has taken all
/// that is not its reserve.
fn steady(planes: u32, faults: FaultConfig) -> DeviceConfig {
    let mut config = device(faults);
    (config.geometry.channels, config.geometry.planes_per_die) = (1, planes);
    (config.geometry.blocks_per_plane, config.geometry.pages_per_block) = (100, 32);
    (config.op_ratio, config.precondition.steady) = (0.5, true);
    config
}

fn write(ssd: &mut Ssd, lsn: u64, stamp: u64, fua: bool) -> Status {
    let data: Vec<u8> = (lsn..lsn + 8).flat_map(|lsn| (stamp << 32 | lsn).to_le_bytes()).collect();
    let now = ssd.now();
    ssd.submit(now, &Command { id: stamp, op: Op::Write, lsn, sectors: 8, fua, stream: 0, data: &data });
    let mut done = vec![];
    while done.is_empty() {
        let next = ssd.next_event().expect("the device is stuck");
        ssd.advance(next, &mut done);
    }
    done[0].status
}

/// Random writes of pages until one is not taken, `most` at most: what each sector holds then, and the last answer.
fn write_on(ssd: &mut Ssd, most: u64, fua: bool) -> (Vec<u64>, Status) {
    let sectors = ssd.layout().logical_sectors;
    let mut held = vec![0; sectors as usize];
    let mut draw = Stream::new(3, "faults");
    for n in 1..=most {
        let lsn = draw.below(sectors / 8) * 8;
        match write(ssd, lsn, n, fua) {
            Status::Ok => (lsn..lsn + 8).for_each(|lsn| held[lsn as usize] = n << 32 | lsn),
            other => return (held, other),
        }
    }
    (held, Status::Ok)
}

#[test]
fn a_program_that_fails_in_the_steady_state_is_repeated_and_its_block_emptied() {
    for number in (300..3_000).step_by(90) {
        let faults = FaultConfig { programs: vec![number, number + 1], ..FaultConfig::default() };
        let mut ssd = Ssd::new(&steady(1, faults), UNIT, 1).expect("valid");
        let (held, last) = write_on(&mut ssd, 6_000, true);
        let counts = (ssd.stats().program_failures, ssd.stats().programs_lost, ssd.inspect().blocks[3]);
        assert_eq!((last, ssd.is_read_only()), (Status::Ok, false), "program {number}: {counts:?}");
        // Both may have been of one block.
        assert!(counts == (2, 0, 2) || counts == (2, 0, 1), "program {number}: {counts:?}");
        let sectors = ssd.layout().logical_sectors;
        let read = run(&mut ssd, Op::Read, 0, sectors, 1);
        assert_eq!((read.status, words(&read)), (Status::Ok, held), "program {number}");
        ssd.check();
    }
}

#[test]
fn failing_programs_take_blocks_out_of_use_until_the_drive_takes_no_more_writes() {
    for (planes, rate, seed) in [(1, 3e-4, 1), (1, 1e-3, 2), (4, 3e-4, 4), (4, 1e-3, 5)] {
        let what = format!("{planes} planes, {rate}");
        let faults = FaultConfig { program_rate: rate, ..FaultConfig::default() };
        let mut ssd = Ssd::new(&steady(planes, faults), UNIT, seed).expect("valid");
        let layout = ssd.layout().clone();
        let (held, last) = write_on(&mut ssd, 1_000_000, false);
        assert_eq!((last, ssd.stats().programs_lost), (Status::ReadOnly, 0), "{what}");
        // At the latest one plane has a block too few. Collection may find no room before: a block in which a program
        // failed holds its live pages until the plane can spare the room to empty it.
        let bad = |plane| 100 - ssd.flash().blocks().good(plane);
        let spare = 100 - layout.least_blocks;
        let bad: Vec<u32> = (0..planes).map(bad).collect();
        let most = bad.iter().copied().max().unwrap_or(0);
        assert!((spare / 2..=spare + 1).contains(&most), "{what}: {bad:?} of {spare}");
        println!("{what}: {bad:?} bad, {} programs failed", ssd.stats().program_failures);
        let read = run(&mut ssd, Op::Read, 0, layout.logical_sectors, 1);
        assert_eq!((read.status, words(&read)), (Status::Ok, held), "{what}");
        ssd.check();
    }
}

#[test]
fn who_waits_for_a_program_that_is_lost_is_told() {
    // With mapping units of a sector both writes wait for the same program.
    for unit in [0, 512] {
        let mut config = steady(1, FaultConfig::default());
        config.precondition.steady = false;
        config.mapping.unit_bytes = unit;
        let mut ssd = Ssd::new(&config, UNIT, 1).expect("valid");
        let sectors = if unit == 512 { 1 } else { 8 };
        let order = |ssd: &mut Ssd, id, op, fua| {
            let data: Vec<u8> = if op == Op::Write { vec![1; 8 * sectors as usize] } else { vec![] };
            let (lsn, sectors) = if op == Op::Flush { (0, 0) } else { (id * sectors, sectors) };
            let now = ssd.now();
            ssd.submit(now, &Command { id, op, lsn, sectors, fua, stream: 0, data: &data });
        };
        assert!(ssd.lose_die(0));
        order(&mut ssd, 0, Op::Write, true);
        order(&mut ssd, 1, Op::Write, true);
        order(&mut ssd, 2, Op::Flush, false);
        let mut done = vec![];
        while let Some(next) = ssd.next_event() {
            ssd.advance(next, &mut done);
        }
        let mut ended: Vec<_> = done.iter().map(|c| (c.id, c.status)).collect();
        ended.sort_unstable_by_key(|end| end.0);
        assert_eq!(ended, [0, 1, 2].map(|id| (id, Status::MediaError)), "unit {unit}");
        assert!(ssd.is_read_only() && ssd.stats().programs_lost > 0);
        let read = run(&mut ssd, Op::Read, 0, sectors, 3);
        assert_eq!((read.status, read.unreadable), (Status::MediaError, vec![(0, sectors)]));
    }
}

#[test]
fn capacitors_keep_what_a_worn_out_drive_has_taken() {
    let (mut on_flash, mut in_ram, mut refused) = (0, 0, 0);
    for seed in 0..16 {
        let faults = FaultConfig { program_rate: 0.01, ..FaultConfig::default() };
        let mut config = steady(1 + seed as u32 % 4, faults);
        (config.recovery.plp, config.buffer.bytes) = (true, 64 << 10);
        config.geometry.blocks_per_plane = 51;
        let mut ssd = Ssd::new(&config, UNIT, seed).expect("valid");
        let (mut held, last) = write_on(&mut ssd, 1_000_000, false);
        assert_eq!(last, Status::ReadOnly, "seed {seed}");
        let sectors = ssd.layout().logical_sectors;
        // Trims are taken while the log has room, in RAM at last.
        for lsn in (8..sectors - 8).step_by(16).cycle().take(20_000) {
            if run(&mut ssd, Op::Trim, lsn, 8, 1).status != Status::Ok {
                refused += 1;
                break;
            }
            held[lsn as usize..lsn as usize + 8].fill(0);
        }
        // Where no room is left for what is buffered, that is said.
        let flush = run(&mut ssd, Op::Flush, 0, 0, 1).status;
        if flush != Status::Ok {
            assert!(flush == Status::ReadOnly && ssd.inspect().buffered > 0, "seed {seed}: {flush:?}");
            in_ram += 1;
        } else {
            assert_eq!(ssd.inspect().buffered, 0, "seed {seed}");
            on_flash += 1;
        }
        // The second cut finds what the first one kept.
        for cut in 1..=2 {
            ssd = ssd.power_cycle(seed).expect("valid");
            let read = run(&mut ssd, Op::Read, 0, sectors, 2);
            // Programs go on failing: where none is left to repeat one in, that is said.
            let lost: u64 = read.unreadable.iter().map(|gone| gone.1).sum();
            assert!(lost <= 8 * ssd.stats().programs_lost, "seed {seed}, cut {cut}");
            read.unreadable.iter().for_each(|&(lsn, n)| held[lsn as usize..(lsn + n) as usize].fill(0));
            assert_eq!(words(&read), held, "seed {seed}, cut {cut}");
        }
        ssd.check();
    }
    assert!(on_flash > 0 && in_ram > 0 && refused > 0, "{on_flash}, {in_ram}, {refused}");
}

#[test]
fn a_flush_of_what_finds_no_room_is_refused_though_capacitors_hold_it() {
    let mut config = device(FaultConfig::default());
    (config.recovery.plp, config.buffer.bytes) = (true, 64 << 10);
    let mut ssd = Ssd::new(&config, UNIT, 1).expect("valid");
    assert_eq!(write(&mut ssd, 0, 1, false), Status::Ok);
    // Nothing can be programmed any more.
    let dies = config.geometry.dies();
    (0..dies).for_each(|die| assert!(ssd.lose_die(die)));
    assert_eq!(run(&mut ssd, Op::Flush, 0, 0, 2).status, Status::Ok, "it is safe in RAM");
    ssd.set_read_only(true);
    assert!(ssd.inspect().to_string().contains("8 sectors that were taken are not on flash"));
    assert_eq!(run(&mut ssd, Op::Flush, 0, 0, 3).status, Status::MediaError);
}

/// The second version of a page fails, and is repeated in another block. Only when the third one is on flash may that
/// block be erased, as if the second had been there from the beginning: else a power cut finds neither.
#[test]
fn a_page_that_was_repeated_stays_until_its_successor_is_on_flash() {
    let config = device(FaultConfig::default()).nand();
    let mut nand = Nand::new(&config, UNIT);
    nand.inject(&FaultConfig { programs: vec![2], ..FaultConfig::default() }, 1);
    let page = |nand: &Nand, plane, page| {
        let block = nand.geometry().blocks_of(plane).next().expect("a block");
        nand.geometry().ppn(block, page)
    };
    let extents = Extents::Home { lpn: 3, start: 0, len: 8 };
    let oob = Oob { kind: PageUse::Data, owner: Oob::PLAIN, stream: 0, extents };
    let program = |nand: &mut Nand, ppn| nand.program_on::<false>(ppn, &oob, Cause::Host, false, &[]);
    let step = |nand: &mut Nand| {
        nand.settle();
        nand.step();
        nand.done().to_vec()
    };
    let first = page(&nand, 0, 0);
    program(&mut nand, first);
    while step(&mut nand).is_empty() {}
    // The third version waits behind other programs of its die.
    let [second, elsewhere]: [Ppn; 2] = [0, 1].map(|plane| page(&nand, plane, 1 - plane));
    let again = program(&mut nand, second);
    nand.supersede(first, again);
    let busy: Vec<Ppn> = (0..12).map(|n| page(&nand, 2, n)).collect();
    let third = busy.into_iter().map(|ppn| program(&mut nand, ppn)).last().expect("one");
    nand.supersede(second, third);
    while step(&mut nand).iter().all(|done| !done.is_failed_program()) {}
    nand.reissue(again, elsewhere, 0);
    while step(&mut nand).iter().all(|done| done.op != again) {}
    assert!(nand.pending_programs().any(|op| op == third), "or nothing would be shown");
    nand.erase(nand.geometry().block_of(elsewhere), false);
    let (mut programmed, mut erased) = (None, None);
    while programmed.is_none() || erased.is_none() {
        for done in step(&mut nand) {
            match done.kind {
                Kind::Erase => erased = Some(done.started),
                _ if done.op == third => programmed = Some(nand.now()),
                _ => {}
            }
        }
    }
    assert!(erased >= programmed, "{erased:?}, {programmed:?}");
}

/// Columns of a superblock that fail in one step: it is closed once, and opened again after its erase.
#[test]
fn columns_of_a_superblock_may_fail_at_once() {
    for (parity, seed) in (0..8).flat_map(|seed| [(0, seed), (4, seed)]) {
        let mut config = device(FaultConfig { program_rate: 0.1, ..FaultConfig::default() });
        (config.geometry.chips_per_channel, config.geometry.blocks_per_plane) = (2, 60);
        config.scheme.striping = "superblock".into();
        config.superblock.parity = parity;
        config.timing.untimed = true;
        let mut ssd = Ssd::new(&config, UNIT, seed).expect("valid");
        let mut oracle = Oracle::of(&ssd);
        torture::torture(&mut ssd, &mut oracle, &mut Stream::new(seed, "columns"), 3_000, 0);
        assert_eq!(oracle.verdict(), Ok(()), "parity {parity}, seed {seed}");
        assert!(ssd.stats().program_failures > 100);
    }
}

#[test]
fn without_spare_blocks_the_drive_reads_and_writes_no_more() {
    let config = device(FaultConfig { erase_rate: 0.05, ..FaultConfig::default() });
    let mut ssd = Ssd::new(&config, UNIT, 1).expect("valid");
    let sectors = ssd.layout().logical_sectors;
    let mut held = vec![0; sectors as usize];
    let mut draw = Stream::new(2, "faults");
    for n in 1..100_000 {
        let lsn = draw.below(sectors / 8) * 8;
        match run(&mut ssd, Op::Write, lsn, 8, n).status {
            Status::Ok => (lsn..lsn + 8).for_each(|lsn| held[lsn as usize] = n << 32 | lsn),
            Status::ReadOnly => break,
            other => panic!("{other:?}"),
        }
    }
    assert!(ssd.is_read_only());
    assert!(ssd.inspect().to_string().contains("read-only: too few good blocks are left"));
    let check = |ssd: &mut Ssd| {
        let read = run(ssd, Op::Read, 0, sectors, 1);
        assert_eq!((read.status, words(&read)), (Status::Ok, held.clone()));
        assert_eq!(run(ssd, Op::Write, 0, 8, 2).status, Status::ReadOnly);
    };
    check(&mut ssd);
    // It knows after a power cut, too.
    let mut ssd = Ssd::power_on(&config, ssd.cut_power(), 1).expect("valid");
    check(&mut ssd);
}

#[test]
fn random_failures_show_no_wrong_sector() {
    let (mut programs, mut erases, mut reads) = (0, 0, 0);
    for (name, mut config) in devices::small_devices() {
        config.faults =
            FaultConfig { program_rate: 5e-4, erase_rate: 5e-4, read_rate: 5e-4, ..FaultConfig::default() };
        // Room for the blocks that go.
        let logical = f64::from(config.geometry.blocks_per_plane) / (1.0 + config.op_ratio);
        config.geometry.blocks_per_plane += 8;
        config.op_ratio = f64::from(config.geometry.blocks_per_plane) / logical - 1.0;
        let (ssd, oracle) = torture::run(&config, 3, 10_000);
        assert_eq!(oracle.verdict(), Ok(()), "{name}");
        assert!(ssd.inspect().is_clean(), "{name}: {}", ssd.inspect());
        programs += ssd.stats().program_failures;
        erases += ssd.stats().erase_failures;
        reads += oracle.unreadable();
    }
    println!("{programs} programs, {erases} erases, {reads} sectors");
    assert!(programs > 20 && erases > 5 && reads > 100, "{programs}, {erases}, {reads}");
}

#[test]
fn a_die_that_is_gone_shows_no_wrong_sector() {
    let (mut unreadable, mut failures, mut read_only) = (0, 0, 0);
    let mut stripes = device(FaultConfig::default());
    (stripes.geometry.chips_per_channel, stripes.geometry.planes_per_die) = (2, 1);
    stripes.scheme.striping = "superblock".into();
    stripes.superblock.parity = 4;
    let small = devices::small_devices().into_iter();
    for (name, mut config) in small.chain([("superblocks with parity", stripes)]) {
        // The oracle is told that the flash may fail; that it does so by itself is next to impossible.
        config.faults = FaultConfig {
            program_rate: 1e-15,
            erase_rate: 1e-15,
            read_rate: 1e-15,
            ..FaultConfig::default()
        };
        // Room for the blocks that go.
        let logical = f64::from(config.geometry.blocks_per_plane) / (1.0 + config.op_ratio);
        config.geometry.blocks_per_plane += 8;
        config.op_ratio = f64::from(config.geometry.blocks_per_plane) / logical - 1.0;
        let mut ssd = Ssd::new(&config, UNIT, 1).unwrap_or_else(|e| panic!("{name}: {e}"));
        let mut oracle = Oracle::of(&ssd);
        let mut draw = Stream::new(5, name);
        torture::torture(&mut ssd, &mut oracle, &mut draw, 2_000, 0);
        let (sectors, last) = (ssd.layout().logical_sectors, config.geometry.dies());
        let lost = ssd.lose_sectors(sectors / 4, 40);
        assert!(!ssd.lose_die(last) && ssd.lose_die(last - 1), "{name}: dies 0 to {}", last - 1);
        torture::torture(&mut ssd, &mut oracle, &mut draw, 2_000, 0);
        // More is unreadable than the verdict allows for failures by chance: what could be read is judged.
        assert!(oracle.complaints().is_empty(), "{name}: {}", oracle.complaints()[0]);
        assert!(oracle.checked() > 1_000, "{name}: {} sectors compared", oracle.checked());
        assert!(lost <= 40);
        unreadable += oracle.unreadable();
        failures += ssd.stats().program_failures;
        read_only += u32::from(ssd.is_read_only());
    }
    println!("{unreadable} sectors, {failures} programs; {read_only} drives take no more writes");
    assert!(unreadable > 100 && failures > 100, "{unreadable}, {failures}");
}
