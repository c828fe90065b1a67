//! Goal: PC-LRU, MCA, multi-version storage and compaction keep every promise, alone and in every
//! combination, and do what WAFLASH says they do.
//! Method: the oracle over the product of policies, sector and page sizes, with power cuts; a full
//! device at the least over-provisioning; timelines of a few requests to the nanosecond.

use nandle_random::Stream;
use nandle_ssd::schemes::waflash::{HeaderKind, MultiVersionStats, Packing, PointerKind, Waflash};
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd};

use crate::devices;
use crate::drive;
use crate::torture;
use drive::{closed, counter, one, programs, settle};
use torture::{cut_power, run};

fn waflash(ssd: &Ssd) -> &MultiVersionStats {
    ssd.scheme::<Waflash>().expect("the drive keeps versions or compacts").stats()
}

/// Most pages at a time beyond one per logical page.
fn most_surplus(ssd: &Ssd) -> u64 {
    counter(ssd, "multi_version.max_extra_pages")
}

const READ: u64 = 40_000;
const PROGRAM: u64 = 200_000;
const TRANSFER: u64 = 12_000;

fn combinations() -> Vec<(String, DeviceConfig)> {
    let mut all = vec![];
    let shapes = [(512, 2048), (512, 8192), (512, 32768), (4096, 4096), (4096, 16384), (4096, 65536)];
    for (n, (sector, page)) in shapes.into_iter().enumerate() {
        for buffer in ["fifo", "lru", "mca", "pc-lru"] {
            for mapping in ["page", "multi-version"] {
                for compaction in [false, true] {
                    let mut c = devices::base();
                    c.geometry.sector_bytes = sector;
                    c.geometry.page_bytes = page;
                    c.geometry.pages_per_block = 8;
                    c.op_ratio = 1.0;
                    c.buffer.bytes = u64::from(page) * (4 + 3 * n as u64);
                    c.scheme.buffer = buffer.into();
                    c.scheme.mapping = mapping.into();
                    c.scheme.compaction = compaction;
                    c.scheme.multi_version.table_share = 0.5;
                    if n % 2 == 1 {
                        c.scheme.striping = "dynamic".into();
                    }
                    let name = format!(
                        "{buffer} + {mapping}{}, {sector} B sectors, {page} B pages",
                        if compaction { " + compaction" } else { "" }
                    );
                    all.push((name, c));
                }
            }
        }
    }
    all
}

#[test]
fn every_combination_reads_back_what_was_written() {
    let mut sums = [0; 5];
    for (n, (name, config)) in combinations().into_iter().enumerate() {
        let (ssd, oracle) = run(&config, n as u64, 1_500);
        assert_eq!(oracle.verdict(), Ok(()), "{name}");
        assert!(oracle.checked() > 300, "{name}: only {} sectors were checked", oracle.checked());
        let count = |what: &str| counter(&ssd, &format!("multi_version.{what}"));
        let [written, compacted] = ["versions_written", "compacted_pages"].map(count);
        let [merged, pressed] = ["merges_gc", "merges_pressure"].map(count);
        let now = [written, merged, pressed, compacted, ssd.stats().rmw_count];
        sums.iter_mut().zip(now).for_each(|(sum, n)| *sum += n);
        let partial = config.geometry.sectors_per_page() > 1;
        let versions = config.scheme.mapping == "multi-version" && partial;
        assert_eq!(written > 0, versions, "{name}: {now:?}");
        let small = config.scheme.compaction && partial;
        if !small {
            assert_eq!(compacted, 0, "{name}: {now:?}");
        }
    }
    println!("versions, merges by collection and by pressure, compacted pages, RMW: {sums:?}");
    assert!(sums.iter().all(|&n| n > 100), "{sums:?}");
}

#[test]
fn every_combination_survives_power_cuts() {
    for (n, (name, config)) in combinations().into_iter().enumerate() {
        cut_power(&name, &config, n as u64, 5);
    }
}

/// The smallest over-provisioning that is legal; versions with a table that holds all of them.
fn versions(compaction: bool, striping: &str, budget: f64) -> DeviceConfig {
    let mut config = devices::base();
    config.geometry.blocks_per_plane = 16;
    config.buffer.bytes = 16 << 10;
    config.scheme.buffer = "pc-lru".into();
    config.scheme.mapping = "multi-version".into();
    config.scheme.compaction = compaction;
    config.scheme.striping = striping.into();
    config.scheme.multi_version.version_budget = budget;
    config.scheme.multi_version.table_share = 1.0;
    devices::least(config)
}

#[test]
fn a_device_full_of_versions_goes_on() {
    for (compaction, striping, budget) in
        [(false, "CWDP", 0.5), (true, "CWDP", 0.5), (false, "CWDP", 1.0), (true, "dynamic", 1.0)]
    {
        let config = versions(compaction, striping, budget);
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        let sectors = ssd.layout().logical_sectors;
        // Every page is written, then partial updates at random: closed loop, so that the device never
        // rests, then with pauses, hours of them.
        closed(&mut ssd, 8, sectors / 8, |n| (Op::Write, n * 8, 8));
        let mut draw = Stream::new(4, "full of versions");
        let mut update = |_| {
            let length = 1 + draw.below(7);
            (Op::Write, draw.below(sectors / 8) * 8 + draw.below(9 - length), length)
        };
        closed(&mut ssd, 8, 40_000, &mut update);
        ssd.check();
        let mut done: Vec<Completion> = vec![];
        let mut start = ssd.now();
        for id in 0..20_000 {
            start += 500_000_000;
            ssd.advance(start, &mut done);
            let (op, lsn, sectors) = update(id);
            ssd.submit(start, &Command { id, op, lsn, sectors, fua: false, stream: 0, data: &[] });
        }
        settle(&mut ssd);
        assert!(ssd.now() > 2 * 3600 * 1_000_000_000);
        ssd.check();
        let v = waflash(&ssd);
        println!("{compaction} {striping} {budget}: {v:?}");
        assert!(v.versions_written > 1_000 && v.refused > 1_000 && v.merges_gc > 100, "{v:?}");
        assert!(v.merges_idle > 1_000, "{v:?}");
        let spare = u64::from(config.geometry.planes() * config.geometry.pages_per_block);
        let most = most_surplus(&ssd);
        assert!(most >= spare / 4, "{most} {v:?}");
        // A logical page whose data are all in compacted pages needs none of its own.
        assert!(compaction || most <= 2 * spare, "{most} {v:?}");
    }
}

/// Versions take what the host has not written, and give it back when it does.
#[test]
fn versions_give_way_when_the_host_fills_the_device() {
    for (compaction, striping, budget) in
        [(false, "CWDP", 1.0), (true, "CWDP", 0.5), (true, "dynamic", 1.0), (false, "dynamic", 0.5)]
    {
        let mut config = versions(compaction, striping, budget);
        config.scheme.multi_version.idle_merge_after_ns = 0;
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        let pages = ssd.layout().logical_sectors / 8;
        let spare = config.geometry.planes() * config.geometry.pages_per_block;
        let mut draw = Stream::new(5, "half full of versions");
        let mut update = |among: u64| {
            let length = 1 + draw.below(7);
            (Op::Write, draw.below(among) * 8 + draw.below(9 - length), length)
        };
        closed(&mut ssd, 8, pages / 2, |n| (Op::Write, n * 8, 8));
        closed(&mut ssd, 8, 10_000, |_| update(pages / 2));
        ssd.check();
        let half = ssd.flash().blocks().surplus_total();
        assert!(half > spare, "{half} of {pages}: not only the {spare} that are spare");
        closed(&mut ssd, 8, pages, |n| {
            if n % 2 == 0 { (Op::Write, (pages / 2 + n / 2) * 8, 8) } else { update(pages / 2) }
        });
        closed(&mut ssd, 8, 10_000, |_| update(pages));
        ssd.check();
        let (full, v) = (ssd.flash().blocks().surplus_total(), waflash(&ssd));
        assert!(full < half && (compaction || full <= 2 * spare), "{half} {full} {v:?}");
        assert!(v.merges_pressure + v.merges_gc > u64::from(half - full) / 2, "{half} {full} {v:?}");
    }
}

/// An object that is announced may claim what versions lie in: they are merged, and it is not refused.
#[test]
fn versions_give_way_when_an_object_is_announced() {
    for (compaction, striping) in [(false, "CWDP"), (true, "CWDP"), (false, "dynamic")] {
        let mut config = versions(compaction, striping, 1.0);
        config.scheme.streams = "flashalloc".into();
        config.scheme.multi_version.idle_merge_after_ns = 0;
        let config = devices::least(config);
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        let pages = ssd.layout().logical_sectors / 8;
        let mut draw = Stream::new(6, "half full of versions");
        closed(&mut ssd, 8, pages / 2, |n| (Op::Write, n * 8, 8));
        closed(&mut ssd, 8, 10_000, |_| {
            let length = 1 + draw.below(7);
            (Op::Write, draw.below(pages / 2) * 8 + draw.below(9 - length), length)
        });
        let before = ssd.flash().blocks().surplus_total();
        let spare = config.geometry.planes() * config.geometry.pages_per_block;
        assert!(before > spare, "{before} of {pages}: not only the {spare} that are spare");
        let block = u64::from(config.geometry.pages_per_block);
        closed(&mut ssd, 1, 1, |_| (Op::FlashAlloc, (pages - 2 * block) * 8, 2 * block * 8));
        assert_eq!(ssd.objects_live(), 1, "{compaction} {striping}");
        let (after, v) = (ssd.flash().blocks().surplus_total(), waflash(&ssd));
        assert!(after < before && (compaction || after <= 2 * spare), "{before} {after} {v:?}");
        closed(&mut ssd, 1, 2 * block, |n| (Op::Write, (pages - 2 * block + n) * 8, 8));
        closed(&mut ssd, 8, 2 * pages, |n| (Op::Write, n % pages * 8, 8));
        ssd.check();
    }
}

/// With dynamic striping a plane can be full of live pages, and find garbage later that writes to other
/// planes left there.
#[test]
fn full_devices_with_dynamic_striping_go_on() {
    for seed in 0..2 {
        let mut ssd = Ssd::new(&versions(false, "dynamic", 1.0), 0, 1).expect("a valid device");
        let pages = ssd.layout().logical_sectors / 8;
        let mut draw = Stream::new(seed, "full of versions");
        closed(&mut ssd, 8, 20_000, |n| {
            if n < pages {
                return (Op::Write, n * 8, 8);
            }
            let length = 1 + draw.below(7);
            (Op::Write, draw.below(pages) * 8 + draw.below(9 - length), length)
        });
        ssd.check();
    }
}

/// One die of one plane, no buffer.
fn single() -> DeviceConfig {
    let mut config = devices::base();
    config.geometry.channels = 1;
    config.geometry.planes_per_die = 1;
    config.geometry.blocks_per_plane = 64;
    config.geometry.pages_per_block = 16;
    config.scheme.mapping = "multi-version".into();
    config.scheme.multi_version.table_share = 1.0;
    config.scheme.multi_version.idle_merge_after_ns = 0;
    config.op_ratio = 1.0;
    config
}

#[test]
fn versions_save_the_read_and_reads_pay_for_it() {
    let (program, read) = (TRANSFER + PROGRAM, READ + TRANSFER);
    let mut ssd = Ssd::new(&single(), 0, 1).expect("a valid device");
    assert_eq!(one(&mut ssd, Op::Write, 0, 8), program);
    assert_eq!(one(&mut ssd, Op::Write, 1, 5), program, "a partial update reads nothing");
    assert_eq!(one(&mut ssd, Op::Read, 2, 3), read, "the newer version suffices");
    assert_eq!(one(&mut ssd, Op::Read, 6, 2), read, "so does the older one");
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), 2 * read, "both are needed");
    // A second update that covers the first version takes its place ...
    assert_eq!(one(&mut ssd, Op::Write, 1, 6), program);
    assert_eq!(ssd.flash().blocks().surplus_total(), 1);
    // ... one that does not reads it, but not the base ...
    assert_eq!(one(&mut ssd, Op::Write, 0, 2), read + program);
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), 2 * read);
    // ... and when nothing of the base is left it dies.
    assert_eq!(one(&mut ssd, Op::Write, 7, 1), read + program);
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), read);
    assert_eq!(ssd.flash().blocks().surplus_total(), 0);
    // A full page ends all versions without a read.
    one(&mut ssd, Op::Write, 1, 5);
    assert_eq!(one(&mut ssd, Op::Write, 0, 8), program);
    assert_eq!(ssd.flash().blocks().surplus_total(), 0);
    let v = waflash(&ssd);
    assert_eq!((v.versions_written, v.refused, most_surplus(&ssd)), (4, 0, 1));
    ssd.check();
}

#[test]
fn idle_drives_merge_their_versions() {
    let mut config = single();
    config.scheme.multi_version.idle_merge_after_ns = 1_000_000;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    one(&mut ssd, Op::Write, 0, 8);
    one(&mut ssd, Op::Write, 1, 5);
    let end = ssd.now();
    let mut done = vec![];
    ssd.advance(end + 1_000_000 - 1, &mut done);
    assert_eq!(programs(&ssd), 2);
    settle(&mut ssd);
    // Both versions are read, one after the other on the only die, then one page is programmed.
    let merge = 2 * (READ + TRANSFER) + TRANSFER + PROGRAM;
    // A second wait finds nothing left to do.
    assert_eq!((programs(&ssd), ssd.now()), (3, end + 1_000_000 + merge + 1_000_000));
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), READ + TRANSFER);
    assert_eq!((waflash(&ssd).merges_idle, ssd.flash().blocks().surplus_total()), (1, 0));
    ssd.check();
}

#[test]
fn small_partial_pages_share_a_page() {
    let (program, read) = (TRANSFER + PROGRAM, READ + TRANSFER);
    let mut config = single();
    config.buffer.bytes = 8 * 512;
    config.scheme.compaction = true;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    for lpn in [0, 1, 2, 70] {
        one(&mut ssd, Op::Write, lpn * 8, 8);
    }
    one(&mut ssd, Op::Flush, 0, 0);
    assert_eq!(programs(&ssd), 4);
    // 7 sectors of three pages of one region, a small page of another one.
    for (lsn, length) in [(2, 2), (8, 3), (17, 2), (560, 1)] {
        assert_eq!(one(&mut ssd, Op::Write, lsn, length), 0);
    }
    // The next write needs room: the oldest leaves, with its neighbours, in one program.
    assert_eq!(one(&mut ssd, Op::Write, 800, 1), program);
    assert_eq!(programs(&ssd), 5);
    let v = waflash(&ssd).clone();
    assert_eq!((v.compacted_pages, v.compacted_extents, ssd.stats().rmw_count), (1, 3, 0));
    assert_eq!(one(&mut ssd, Op::Read, 2, 2), read);
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), 2 * read, "the compacted page and the base");
    // Overwriting compacted sectors: that page is read, the union programmed alone.
    assert_eq!(ssd.flash().blocks().surplus_total(), 1);
    one(&mut ssd, Op::Write, 3, 2);
    let before = programs(&ssd);
    one(&mut ssd, Op::Flush, 0, 0);
    assert_eq!(ssd.stats().rmw_count, 1);
    // The other two partial pages (70 and 100, of one region) share a page.
    assert_eq!(programs(&ssd), before + 2);
    assert_eq!(one(&mut ssd, Op::Read, 0, 8), 2 * read, "the union and the base");
    ssd.check();
}

#[test]
fn pages_of_different_regions_share_none() {
    let mut config = single();
    config.buffer.bytes = 8 * 512;
    config.scheme.buffer = "fifo".into();
    config.scheme.compaction = true;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    // A request over a page border leaves as a whole: its two pages are of one region of 64 pages, or not.
    for (page, programmed) in [(60, 1), (63, 2), (64, 1)] {
        let before = programs(&ssd);
        one(&mut ssd, Op::Write, page * 8 + 7, 2);
        one(&mut ssd, Op::Flush, 0, 0);
        assert_eq!(programs(&ssd) - before, programmed, "page {page}");
    }
    ssd.check();
}

#[test]
fn pc_lru_lets_a_full_page_go_while_the_chip_is_busy() {
    // Two dies on channels of their own: even pages on one, odd pages on the other.
    let mut config = single();
    config.geometry.channels = 2;
    config.scheme.mapping = "page".into();
    config.buffer.bytes = 12 * 512;
    let (program, read) = (TRANSFER + PROGRAM, READ + TRANSFER);
    // What the write that needs room waits for, and what has left when it is acknowledged.
    for (kind, busy, took, kept) in [
        // LRU reads the old page behind the read in service, then programs.
        ("lru", true, read + read + program, 9),
        // MCA and PC-LRU let page 1 go, whose die is idle.
        ("mca", true, program, 0),
        ("pc-lru", true, program, 0),
        ("lru", false, read + program, 9),
        ("mca", false, read + program, 9),
        ("pc-lru", false, read + program, 9),
    ] {
        config.scheme.buffer = kind.into();
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        one(&mut ssd, Op::Write, 0, 8);
        one(&mut ssd, Op::Write, 16, 8);
        one(&mut ssd, Op::Flush, 0, 0);
        assert_eq!(one(&mut ssd, Op::Write, 0, 4), 0, "partial, on the even die");
        assert_eq!(one(&mut ssd, Op::Write, 8, 8), 0, "full, on the odd die");
        let at = behind(&mut ssd, busy.then_some((16, 8)));
        assert_eq!(at, took, "{kind:?}, busy {busy}");
        assert_eq!(one(&mut ssd, Op::Read, kept, 1), 0, "{kind:?}, busy {busy}: still in RAM");
    }
}

/// The latency of a write that needs room in the buffer, submitted together with a read (first sector,
/// sectors), if there is one.
fn behind(ssd: &mut Ssd, read: Option<(u64, u64)>) -> u64 {
    let start = ssd.now();
    let mut submit = |id, op, lsn, sectors| {
        ssd.submit(start, &Command { id, op, lsn, sectors, fua: false, stream: 0, data: &[] });
    };
    if let Some((lsn, sectors)) = read {
        submit(7, Op::Read, lsn, sectors);
    }
    submit(8, Op::Write, 32, 4);
    let mut done: Vec<Completion> = vec![];
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    done.iter().find(|c| c.id == 8).expect("complete").at - start
}

#[test]
fn versions_are_not_congested_by_what_they_need_not_read() {
    // The partial page's old copy lies on a busy die, but with dynamic striping its version goes elsewhere.
    let mut config = single();
    config.geometry.channels = 2;
    config.buffer.bytes = 12 * 512;
    config.scheme.buffer = "pc-lru".into();
    config.scheme.striping = "dynamic".into();
    for (mapping, kept) in [("multi-version", 8), ("page", 0)] {
        config.scheme.mapping = mapping.into();
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        one(&mut ssd, Op::Write, 0, 8);
        one(&mut ssd, Op::Flush, 0, 0);
        one(&mut ssd, Op::Write, 1, 4);
        one(&mut ssd, Op::Write, 8, 8);
        let at = behind(&mut ssd, Some((7, 1)));
        assert_eq!(at, TRANSFER + PROGRAM, "{mapping:?}");
        assert_eq!(one(&mut ssd, Op::Read, kept + 1, 1), 0, "{mapping:?}");
    }
}

#[test]
fn direct_pointers_reach_so_far_and_no_further() {
    // The wider the field the more versions; with none at all every partial update is an RMW.
    let written = |pointer, blocks: u32, share| {
        let mut config = single();
        config.scheme.multi_version.table_share = share;
        config.geometry.blocks_per_plane = blocks;
        config.geometry.pages_per_block = 512;
        config.scheme.multi_version.pointer = pointer;
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        let sectors = ssd.layout().logical_sectors;
        let mut draw = Stream::new(1, "direct");
        closed(&mut ssd, 4, 1_000, |n| (Op::Write, n * 8, 8));
        closed(&mut ssd, 4, 500, |_| (Op::Write, draw.below(1_000) * 8 % sectors, 5));
        let (bytes, page) = ssd.mapping_bytes();
        assert_eq!(bytes > page, pointer == PointerKind::Indirect && share == 1.0, "{share}");
        ssd.check();
        waflash(&ssd).versions_written
    };
    let all = written(PointerKind::Indirect, 64, 1.0);
    assert!(all > 300, "{all}");
    // 2^15 pages leave 17 bits: everything is near.
    assert!(written(PointerKind::Direct, 64, 1.0) > all * 9 / 10);
    // Two numbers of a small plane fit one entry, without a table to speak of.
    assert_eq!(written(PointerKind::Indirect, 64, 1e-6), all);
    // Those of a plane of 2^16 pages do not.
    assert_eq!(written(PointerKind::Indirect, 128, 1e-6), 0);
}

#[test]
fn the_map_stays_within_one_percent() {
    for pointer in [PointerKind::Indirect, PointerKind::Direct] {
        for workload in 0..4 {
            let mut config = devices::base();
            config.geometry.blocks_per_plane = 64;
            config.geometry.pages_per_block = 64;
            config.geometry.page_bytes = 16384;
            config.geometry.sector_bytes = 4096;
            config.buffer.bytes = 1 << 20;
            config.op_ratio = 0.25;
            config.scheme.buffer = "pc-lru".into();
            config.scheme.mapping = "multi-version".into();
            config.scheme.compaction = true;
            config.scheme.multi_version.pointer = pointer;
            config.scheme.multi_version.version_budget = 1.0;
            let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
            let sectors = ssd.layout().logical_sectors;
            let mut draw = Stream::new(workload, "workload");
            for round in 0..10 {
                closed(&mut ssd, 16, 4_000, |n| match workload {
                    0 => (Op::Write, draw.below(sectors - 4), 1),
                    1 => (Op::Write, (round * 16_000 + n * 4) % (sectors - 4), 2),
                    2 => (Op::Write, draw.below(sectors / 20), 1 + draw.below(3)),
                    _ => (Op::Write, draw.below(sectors - 9), 1 + draw.below(9)),
                });
                let (bytes, page) = ssd.mapping_bytes();
                assert!(bytes as f64 <= page as f64 * 1.01, "{workload} {pointer:?}: {bytes} beside {page}");
            }
            let v = waflash(&ssd);
            assert!(v.versions_written + v.compacted_pages > 10, "{workload}: {v:?}");
        }
    }
}

#[test]
fn headers_take_at_most_what_the_paper_says() {
    // 8 KiB pages, 512 GB: 0.15 % in the worst case (V-D), the list being 6 bytes a partial page.
    let mut config = devices::base();
    config.geometry.page_bytes = 8192;
    config.geometry.sector_bytes = 4096;
    let packing = Packing::new(&config.scheme.compacted, &config.geometry).expect("room for a header");
    assert!(packing.overhead(&config.geometry) <= 0.0015, "{}", packing.overhead(&config.geometry));
    assert_eq!((packing.first, packing.sectors), (0, 2), "it lies out of band");
    // A physical page number of 512 GB fits the entry beside the pointer: 26 bits, and 6 for PT/F.
    assert_eq!((512_u64 << 30) / 8192, 1 << 26);
    // With 512-byte sectors it takes the first sector, and small out-of-band areas limit the runs.
    config.geometry.sector_bytes = 512;
    let packing = Packing::new(&config.scheme.compacted, &config.geometry).expect("room for a header");
    assert_eq!((packing.first, packing.sectors, packing.extents), (1, 15, 85));
    config.scheme.compacted.header = HeaderKind::Oob;
    config.geometry.oob_bytes = 20;
    assert_eq!(
        Packing::new(&config.scheme.compacted, &config.geometry).expect("room for a header").extents,
        3
    );
    config.geometry.oob_bytes = 8;
    config.scheme.compaction = true;
    assert_eq!(config.validate().expect_err("no room").field, "geometry.oob_bytes");
}
