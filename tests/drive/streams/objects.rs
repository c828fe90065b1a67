//! Goal: FlashAlloc does what it is for: objects come, are written, and go, and blocks come back clean.
//! Method: a test for each case of an object's life, on a device small enough to look at.

use nandle_random::Stream;
use nandle_ssd::nand::Block;
use nandle_ssd::{Op, Ssd, Status};

use super::{blocks_of, objects_device, programs, run, settle, strict_devices};

fn device() -> Ssd {
    Ssd::new(&objects_device(), 0, 1).expect("a valid device")
}

/// The same device, overwritten at random six times over, and its sectors.
fn aged(seed: u64) -> (Ssd, u64) {
    let mut ssd = device();
    let sectors = ssd.layout().logical_sectors;
    let mut draw = Stream::new(seed, "aging");
    for _ in 0..6 * sectors {
        run(&mut ssd, Op::Write, draw.below(sectors), 1, &[]);
    }
    (ssd, sectors)
}

fn alloc(ssd: &mut Ssd, lsn: u64, sectors: u64) -> Status {
    run(ssd, Op::FlashAlloc, lsn, sectors, &[]).status
}

fn alloc_ranges(ssd: &mut Ssd, ranges: &[(u64, u64)]) -> Status {
    let mut data = vec![];
    for &(lsn, n) in ranges {
        data.extend(0_u32.to_le_bytes());
        data.extend((n as u32).to_le_bytes());
        data.extend(lsn.to_le_bytes());
    }
    run(ssd, Op::FlashAlloc, 0, 0, &data).status
}

#[test]
fn without_a_call_the_drive_is_the_vanilla_one() {
    for (name, mut config) in strict_devices() {
        let mut digests = vec![];
        for streams in ["by-time", "flashalloc"] {
            config.scheme.streams = streams.into();
            let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
            let mut draw = Stream::new(1, "same");
            let sectors = ssd.layout().logical_sectors;
            for n in 0..6000 {
                let length = (1 + draw.below(20)).min(sectors);
                let lsn = draw.below(sectors - length + 1);
                let op = if draw.chance(0.1) { Op::Trim } else { Op::Write };
                run(&mut ssd, op, lsn, length, &[]);
                assert!(ssd.outstanding() == 0, "{name} {n}");
            }
            digests.push(ssd.digest());
        }
        assert_eq!(digests[0], digests[1], "{name}");
    }
}

#[test]
fn objects_written_at_once_share_no_block() {
    let mut ssd = device();
    let block = 12;
    for object in 0..6 {
        assert_eq!(alloc(&mut ssd, object * 2 * block, 2 * block), Status::Ok);
    }
    assert_eq!(ssd.objects_live(), 6);
    for page in 0..2 * block {
        for object in 0..6 {
            run(&mut ssd, Op::Write, object * 2 * block + page, 1, &[]);
            run(&mut ssd, Op::Write, 200 + page, 1, &[]);
        }
    }
    assert_eq!(ssd.objects_live(), 0, "full instances are at their end");
    let sets: Vec<_> = (0..6).map(|o| blocks_of(&ssd, o * 2 * block, 2 * block)).collect();
    for (n, set) in sets.iter().enumerate() {
        assert_eq!(set.len(), 2, "object {n} fills its two blocks");
        assert!(sets[..n].iter().all(|other| other.is_disjoint(set)));
        assert!(blocks_of(&ssd, 200, 2 * block).is_disjoint(set));
    }
    // The trim of an object erases its blocks, and nothing is copied.
    let (before, erases) = (programs(&ssd), ssd.flash().counters().erases);
    for object in 0..6 {
        run(&mut ssd, Op::Trim, object * 2 * block, 2 * block, &[]);
    }
    run(&mut ssd, Op::Flush, 0, 0, &[]);
    settle(&mut ssd);
    assert_eq!(ssd.stats().block_erases_by_trim, 12);
    assert_eq!(ssd.flash().counters().erases - erases, 12);
    assert_eq!(ssd.stats().gc_moved_pages, 0);
    assert_eq!(programs(&ssd) - before, 1, "only the log's page is written");
}

#[test]
fn an_object_of_several_ranges_is_gathered_in_its_blocks() {
    let mut ssd = device();
    let ranges = [(3, 5), (40, 9), (100, 10)];
    assert_eq!(alloc_ranges(&mut ssd, &ranges), Status::Ok);
    let info = &ssd.objects()[0];
    assert_eq!((info.ranges.as_slice(), info.pages_left, info.blocks), (ranges.as_slice(), 24, 2));
    for lsn in 0..120 {
        run(&mut ssd, Op::Write, lsn, 1, &[]);
    }
    let mut own: std::collections::BTreeSet<u32> = Default::default();
    for (lsn, n) in ranges {
        own.extend(blocks_of(&ssd, lsn, n));
    }
    assert_eq!(own.len(), 2);
    for (lsn, n) in [(0, 3), (8, 32), (49, 51), (110, 10)] {
        assert!(blocks_of(&ssd, lsn, n).is_disjoint(&own), "{lsn}");
    }
}

#[test]
fn a_request_that_straddles_the_end_of_an_object_is_split() {
    let mut ssd = device();
    assert_eq!(alloc(&mut ssd, 0, 12), Status::Ok);
    run(&mut ssd, Op::Write, 6, 12, &[]);
    assert_eq!(blocks_of(&ssd, 6, 6).len(), 1);
    assert!(blocks_of(&ssd, 6, 6).is_disjoint(&blocks_of(&ssd, 12, 6)));
    assert_eq!(ssd.objects()[0].pages_left, 6);
}

#[test]
fn overwrites_use_an_object_up_and_then_go_to_normal_blocks() {
    let mut ssd = device();
    assert_eq!(alloc(&mut ssd, 0, 12), Status::Ok);
    for _ in 0..3 {
        run(&mut ssd, Op::Write, 0, 4, &[]);
    }
    assert_eq!(ssd.objects_live(), 0);
    let own = blocks_of(&ssd, 0, 4);
    assert_eq!(own.len(), 1);
    run(&mut ssd, Op::Write, 2, 4, &[]);
    assert!(blocks_of(&ssd, 2, 4).is_disjoint(&own));
    // Overwritten wholly, its block is erased by itself.
    let erases = ssd.flash().counters().erases;
    run(&mut ssd, Op::Write, 0, 4, &[]);
    run(&mut ssd, Op::Flush, 0, 0, &[]);
    settle(&mut ssd);
    assert_eq!(ssd.flash().counters().erases, erases + 1);
}

#[test]
fn an_object_deleted_in_the_middle_of_writing_gives_everything_back() {
    let mut ssd = device();
    let free = |ssd: &Ssd| (0..4).map(|plane| ssd.flash().blocks().free(plane)).sum::<u32>();
    let before = free(&ssd);
    assert_eq!(alloc(&mut ssd, 0, 40), Status::Ok);
    assert_eq!(free(&ssd), before - 4);
    run(&mut ssd, Op::Write, 0, 7, &[]);
    run(&mut ssd, Op::Trim, 0, 40, &[]);
    assert_eq!(ssd.objects_live(), 0);
    run(&mut ssd, Op::Flush, 0, 0, &[]);
    settle(&mut ssd);
    // One block keeps the log open.
    assert_eq!(free(&ssd), before - 1);
    assert_eq!(alloc(&mut ssd, 0, 40), Status::Ok);
}

#[test]
fn a_partial_trim_leaves_the_rest_of_the_object() {
    let mut ssd = device();
    assert_eq!(alloc(&mut ssd, 0, 24), Status::Ok);
    run(&mut ssd, Op::Write, 0, 10, &[]);
    run(&mut ssd, Op::Trim, 5, 10, &[]);
    let info = &ssd.objects()[0];
    assert_eq!(info.ranges, [(0, 5), (15, 9)]);
    run(&mut ssd, Op::Write, 5, 19, &[]);
    let own = blocks_of(&ssd, 0, 5);
    assert!(blocks_of(&ssd, 5, 10).is_disjoint(&own), "trimmed sectors are normal");
    assert!(blocks_of(&ssd, 15, 9).iter().all(|b| own.contains(b)));
}

#[test]
fn flash_free_ends_an_object_that_was_never_filled() {
    let mut ssd = device();
    assert_eq!(alloc(&mut ssd, 0, 30), Status::Ok);
    run(&mut ssd, Op::Write, 0, 5, &[]);
    assert_eq!(run(&mut ssd, Op::FlashFree, 0, 1, &[]).status, Status::Ok);
    assert_eq!(ssd.objects_live(), 0);
    let own = blocks_of(&ssd, 0, 5);
    run(&mut ssd, Op::Write, 5, 5, &[]);
    assert!(blocks_of(&ssd, 5, 5).is_disjoint(&own));
    settle(&mut ssd);
}

#[test]
fn bad_calls_are_refused_and_change_nothing() {
    let mut ssd = device();
    let sectors = ssd.layout().logical_sectors;
    assert_eq!(alloc(&mut ssd, 10, 10), Status::Ok);
    let before = ssd.objects();
    let cases: [(&[(u64, u64)], Status); 8] = [
        (&[(19, 1)], Status::Overlap),
        (&[(0, 11)], Status::Overlap),
        (&[(0, 100)], Status::Overlap),
        (&[(30, 5), (12, 1)], Status::Overlap),
        (&[(30, 5), (34, 5)], Status::Overlap),
        (&[(30, 0)], Status::OutOfRange),
        (&[(sectors, 1)], Status::OutOfRange),
        (&[(u64::MAX, 2)], Status::OutOfRange),
    ];
    for (ranges, status) in cases {
        assert_eq!(alloc_ranges(&mut ssd, ranges), status, "{ranges:?}");
    }
    let many: Vec<(u64, u64)> = (0..257).map(|n| (30 + 2 * n, 1)).collect();
    assert_eq!(alloc_ranges(&mut ssd, &many), Status::TooManyRanges);
    assert_eq!(run(&mut ssd, Op::FlashAlloc, 0, 0, &[0; 15]).status, Status::OutOfRange);
    assert_eq!(ssd.objects(), before);
    assert_eq!(alloc_ranges(&mut ssd, &many[..256]), Status::Ok);
    assert_eq!(alloc_ranges(&mut ssd, &[(9, 1), (20, 1)]), Status::Ok, "neighbours are no overlap");

    let mut vanilla = objects_device();
    vanilla.scheme.streams = "by-time".into();
    let mut ssd = Ssd::new(&vanilla, 0, 1).expect("a valid device");
    assert_eq!(alloc(&mut ssd, 10, 10), Status::Unsupported);
}

#[test]
fn a_call_takes_what_a_normal_write_may() {
    let (mut ssd, sectors) = aged(2);
    settle(&mut ssd);
    let layout = ssd.layout().clone();
    let free = |ssd: &Ssd, plane| ssd.flash().blocks().free(plane);
    assert!((0..4).all(|plane| free(&ssd, plane) <= layout.soft_blocks), "collection keeps no more");
    // There is one nevertheless, without waiting; when normal writes want one, it is collection's turn again.
    let (now, moved) = (ssd.now(), ssd.stats().gc_moved_pages);
    assert_eq!(run(&mut ssd, Op::FlashAlloc, 0, 12, &[]).at, now);
    assert!((0..4).all(|plane| free(&ssd, plane) >= layout.hard_blocks));
    for lsn in 12..sectors {
        assert_eq!(run(&mut ssd, Op::Write, lsn, 1, &[]).status, Status::Ok);
    }
    assert!(ssd.stats().gc_moved_pages > moved);
    settle(&mut ssd);
}

#[test]
fn objects_written_side_by_side_share_no_plane() {
    let mut ssd = device();
    let (block, sectors) = (12, ssd.layout().logical_sectors);
    let mut draw = Stream::new(3, "side by side");
    for n in 0..sectors / block {
        assert_eq!(alloc(&mut ssd, n * block, block), Status::Ok);
        run(&mut ssd, Op::Write, n * block, block, &[]);
    }
    // Objects die anywhere, so the planes' clean blocks are no longer equal.
    for round in 0..50 {
        let mut objects = std::collections::BTreeSet::new();
        while objects.len() < 4 {
            objects.insert(draw.below(sectors / block));
        }
        for &n in &objects {
            assert_eq!(alloc(&mut ssd, n * block, block), Status::Ok);
        }
        for page in 0..block {
            for &n in &objects {
                run(&mut ssd, Op::Write, n * block + page, 1, &[]);
            }
        }
        let g = &ssd.config().geometry;
        let planes: std::collections::BTreeSet<u32> = objects
            .iter()
            .flat_map(|&n| blocks_of(&ssd, n * block, block))
            .map(|block| g.plane_of(nandle_ssd::nand::Block(block)))
            .collect();
        assert_eq!(planes.len(), 4, "round {round}");
    }
    settle(&mut ssd);
}

#[test]
fn a_call_merges_normal_blocks_until_it_has_clean_ones() {
    let (mut ssd, sectors) = aged(1);
    let moved = ssd.stats().gc_moved_pages;
    // Three objects of the size of the spare space at most: older copies stay until overwritten.
    for n in 0..3 {
        assert_eq!(alloc(&mut ssd, n * 60, 60), Status::Ok, "object {n}");
        for lsn in n * 60..n * 60 + 60 {
            run(&mut ssd, Op::Write, lsn, 1, &[]);
        }
        ssd.check();
    }
    assert!(ssd.stats().gc_moved_pages > moved, "nothing was merged");
    assert_eq!(ssd.stats().dedicated_demoted, 0);
    let calls = (0..40).map(|n| alloc(&mut ssd, 200 + n * 30, 30)).collect::<Vec<_>>();
    assert!(calls.contains(&Status::NoCleanBlocks), "{calls:?}");
    // Refused objects are written all the same.
    for lsn in 0..sectors {
        assert_eq!(run(&mut ssd, Op::Write, lsn, 1, &[]).status, Status::Ok);
    }
    settle(&mut ssd);
}

#[test]
fn objects_overwritten_piecemeal_never_stop_the_drive() {
    let mut ssd = device();
    let sectors = ssd.layout().logical_sectors;
    for n in 0..sectors / 12 {
        assert_eq!(alloc(&mut ssd, 12 * n, 12), Status::Ok);
        run(&mut ssd, Op::Write, 12 * n, 12, &[]);
    }
    // Now every block is an object's, and each loses single pages to normal writes.
    let mut draw = Stream::new(1, "piecemeal");
    for _ in 0..4 * sectors {
        run(&mut ssd, Op::Write, draw.below(sectors), 1, &[]);
    }
    settle(&mut ssd);
    assert!(ssd.stats().dedicated_demoted > 0);
}

#[test]
fn blocks_of_one_object_are_merged_with_each_other() {
    let mut config = objects_device();
    config.geometry.channels = 1;
    config.geometry.planes_per_die = 1;
    config.op_ratio = 0.25;
    // Every block counts here.
    config.recovery.checkpoint_interval = 0;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    // One object over most of the only plane; half of each of its blocks dies.
    let blocks = 28;
    assert_eq!(alloc(&mut ssd, 0, 12 * blocks), Status::Ok);
    run(&mut ssd, Op::Write, 0, 12 * blocks, &[]);
    for lsn in (0..12 * blocks).step_by(2) {
        run(&mut ssd, Op::Trim, lsn, 1, &[]);
    }
    // More clean blocks than there are: only the object's own can be merged.
    let ranges: Vec<(u64, u64)> = (0..160).map(|n| (2 * n, 1)).collect();
    assert_eq!(alloc_ranges(&mut ssd, &ranges), Status::Ok);
    ssd.check();
    assert!(ssd.stats().gc_moved_pages > 0);
    assert_eq!(ssd.stats().dedicated_demoted, 0);
    let own = blocks_of(&ssd, 0, 12 * blocks);
    settle(&mut ssd);
    assert!(own.len() < blocks as usize);
}

#[test]
fn thousands_of_instances_are_live_at_a_time() {
    let mut config = objects_device();
    config.geometry.blocks_per_plane = 2000;
    config.op_ratio = 3.0;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    for n in 0..3000 {
        assert_eq!(alloc(&mut ssd, 8 * n, 6), Status::Ok, "object {n}");
    }
    assert_eq!(ssd.objects_live(), 3000);
    let mut draw = Stream::new(1, "thousands");
    for _ in 0..5000 {
        run(&mut ssd, Op::Write, draw.below(24_000), 1, &[]);
    }
    for n in 0..3000 {
        assert!(blocks_of(&ssd, 8 * n, 6).len() <= 1);
    }
    settle(&mut ssd);
    let live = ssd.objects();
    run(&mut ssd, Op::Flush, 0, 0, &[]);
    let ssd = Ssd::power_on(&config, ssd.cut_power(), 1).expect("a valid device");
    ssd.check();
    assert_eq!(ssd.objects().len(), live.len());
}

#[test]
fn instances_survive_a_power_cut_and_go_on() {
    let mut ssd = device();
    let config = ssd.config().clone();
    assert_eq!(alloc_ranges(&mut ssd, &[(0, 30), (50, 6)]), Status::Ok);
    assert_eq!(alloc(&mut ssd, 100, 12), Status::Ok);
    run(&mut ssd, Op::Write, 0, 20, &[]);
    run(&mut ssd, Op::Write, 100, 12, &[]);
    run(&mut ssd, Op::Trim, 3, 4, &[]);
    run(&mut ssd, Op::Flush, 0, 0, &[]);
    let before = ssd.objects();
    let mut ssd = Ssd::power_on(&config, ssd.cut_power(), 1).expect("a valid device");
    ssd.check();
    assert_eq!(ssd.objects(), before);
    assert_eq!(before.len(), 1);
    run(&mut ssd, Op::Write, 20, 10, &[]);
    let own = blocks_of(&ssd, 0, 3);
    run(&mut ssd, Op::Write, 50, 6, &[]);
    assert_eq!(ssd.objects_live(), 0, "its pages are used up");
    let all: std::collections::BTreeSet<u32> =
        [(0, 3), (7, 23), (50, 6)].into_iter().flat_map(|(l, n)| blocks_of(&ssd, l, n)).collect();
    assert_eq!(all.len(), 3);
    assert!(own.is_subset(&all));
    assert!(blocks_of(&ssd, 100, 12).is_disjoint(&all));
}

#[test]
fn an_object_gets_blocks_where_no_other_is_being_written() {
    let mut ssd = device();
    let planes = u64::from(ssd.config().geometry.planes());
    let plane = |ssd: &Ssd, lsn: u64| {
        let blocks = blocks_of(ssd, lsn, 12);
        let g = &ssd.config().geometry;
        blocks.into_iter().map(|block| g.plane_of(Block(block))).collect::<Vec<_>>()
    };
    // One object of a block on each plane; the first is half written, the others come to their end.
    for n in 0..planes {
        assert_eq!(alloc(&mut ssd, 12 * n, 12), Status::Ok);
        run(&mut ssd, Op::Write, 12 * n, if n == 0 { 6 } else { 12 }, &[]);
    }
    assert_eq!(ssd.objects_live(), 1);
    let busy = plane(&ssd, 0);
    // It is the turn of the first one's plane: the next objects are laid beside it in time, not behind it.
    for n in planes..2 * planes - 1 {
        assert_eq!(alloc(&mut ssd, 12 * n, 12), Status::Ok);
        run(&mut ssd, Op::Write, 12 * n, 12, &[]);
        assert_ne!(plane(&ssd, 12 * n), busy, "object {n}");
    }
}

#[test]
fn no_block_of_an_object_is_erased_before_its_end_is_on_flash() {
    let mut config = objects_device();
    config.recovery.checkpoint_interval = 0;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    let sectors = ssd.layout().logical_sectors;
    assert_eq!(alloc(&mut ssd, 0, 12), Status::Ok);
    run(&mut ssd, Op::Flush, 0, 0, &[]);
    let known = Ssd::power_on(&config, ssd.clone().cut_power(), 1).expect("a valid device");
    assert_eq!(known.objects_live(), 1, "the call is on flash");
    // Its pages are used up, and written again elsewhere until its block is erased.
    run(&mut ssd, Op::Write, 0, 12, &[]);
    assert_eq!(ssd.objects_live(), 0);
    let own = Block(*blocks_of(&ssd, 0, 12).first().expect("a block"));
    let mut draw = Stream::new(1, "requests");
    let mut writes = 0;
    while ssd.flash().array().erases(own) == 0 {
        let lsn = if writes < 12 { writes } else { draw.below(sectors) };
        run(&mut ssd, Op::Write, lsn, 1, &[]);
        writes += 1;
        assert!(writes < 8 * sectors, "the block is never collected");
    }
    let ssd = Ssd::power_on(&config, ssd.cut_power(), 1).expect("a valid device");
    ssd.check();
    assert_eq!(ssd.objects_live(), 0, "an object without its block has come back");
}

#[test]
fn tiny_objects_of_one_stream_share_a_block_on_demand() {
    let mut config = objects_device();
    config.streams.share_tiny = true;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    for n in 0..6 {
        assert_eq!(alloc(&mut ssd, 10 * n, 4), Status::Ok);
        run(&mut ssd, Op::Write, 10 * n, 4, &[]);
    }
    let blocks: std::collections::BTreeSet<u32> = (0..6).flat_map(|n| blocks_of(&ssd, 10 * n, 4)).collect();
    assert_eq!(blocks.len(), 2, "24 pages, 12 a block");
    ssd.check();
    for n in 0..3 {
        run(&mut ssd, Op::Trim, 10 * n, 4, &[]);
    }
    run(&mut ssd, Op::Flush, 0, 0, &[]);
    settle(&mut ssd);
    assert_eq!(ssd.flash().counters().erases, 1);
}

#[test]
fn blocks_on_demand_are_taken_by_the_first_write() {
    let mut config = objects_device();
    config.streams.on_demand = true;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    let free = |ssd: &Ssd| (0..4).map(|plane| ssd.flash().blocks().free(plane)).sum::<u32>();
    let before = free(&ssd);
    assert_eq!(alloc(&mut ssd, 0, 24), Status::Ok);
    assert_eq!(free(&ssd), before);
    run(&mut ssd, Op::Write, 0, 1, &[]);
    assert_eq!(free(&ssd), before - 1);
    run(&mut ssd, Op::Write, 1, 23, &[]);
    assert_eq!(free(&ssd), before - 2);
    assert_eq!(blocks_of(&ssd, 0, 24).len(), 2);
    settle(&mut ssd);
}

#[test]
fn objects_are_recognised_without_a_call() {
    for (align, runs) in [(12 * 4096, 0), (0, 3 * 4096)] {
        let mut config = objects_device();
        (config.streams.auto_align, config.streams.auto_run) = (align, runs);
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        // Four files written at once, page by page.
        for page in 0..36 {
            for file in 0..4 {
                run(&mut ssd, Op::Write, 120 * file + page, 1, &[]);
            }
        }
        // From the second block on (a run has to be seen first), each block of pages is of one file.
        for file in 0..4 {
            let own = blocks_of(&ssd, 120 * file + 12, 12);
            assert!(own.len() <= 2, "{align} {runs}: {own:?}");
            assert!((0..4).filter(|&f| f != file).all(|f| blocks_of(&ssd, 120 * f, 36).is_disjoint(&own)));
        }
        assert!(ssd.objects().iter().all(|i| i.auto));
        settle(&mut ssd);
    }
}

#[test]
fn a_page_at_a_border_is_no_aligned_object_until_the_next_one_follows() {
    let mut config = objects_device();
    config.streams.auto_align = 12 * 4096;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    for lsn in [0, 120, 240, 120, 0, 6, 7] {
        run(&mut ssd, Op::Write, lsn, 1, &[]);
    }
    assert!(ssd.objects().is_empty());
    run(&mut ssd, Op::Write, 121, 1, &[]);
    run(&mut ssd, Op::Write, 360, 3, &[]);
    let ranges: Vec<_> = ssd.objects().into_iter().flat_map(|i| i.ranges).collect();
    assert_eq!(ranges, [(121, 11), (360, 12)]);
    settle(&mut ssd);
}

/// Nobody promised that a guessed object dies as a whole: where it does not, it costs no more than a guess.
#[test]
fn objects_that_were_guessed_are_collected_like_anything_else() {
    let waf = |align: u64| {
        let mut config = objects_device();
        config.streams.auto_align = align;
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        let sectors = ssd.layout().logical_sectors;
        let mut draw = Stream::new(3, "pages of files");
        for lsn in (0..sectors - sectors % 12).step_by(4) {
            run(&mut ssd, Op::Write, lsn, 4, &[]);
        }
        let mut last = std::collections::VecDeque::from([u64::MAX; 64]);
        for _ in 0..8 * sectors {
            let lsn = draw.below(sectors);
            if lsn == 0 || !last.contains(&(lsn - 1)) {
                run(&mut ssd, Op::Write, lsn, 1, &[]);
                last.pop_front();
                last.push_back(lsn);
            }
        }
        settle(&mut ssd);
        assert_eq!(ssd.stats().dedicated_demoted, 0);
        programs(&ssd) as f64 / (9 * sectors) as f64
    };
    let (vanilla, guessed) = (waf(0), waf(12 * 4096));
    assert!(guessed < 1.05 * vanilla, "{guessed} {vanilla}");
}

/// Objects that are overwritten page by page after their end: by the paper's rule their garbage stays where it is
/// until normal blocks hold none at all.
#[test]
fn ended_objects_are_collected_where_that_is_wanted() {
    let copies = |calls: bool, collect_ended: bool| {
        let mut config = objects_device();
        config.streams.collect_ended = collect_ended;
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        let sectors = ssd.layout().logical_sectors;
        for lsn in (0..sectors / 12 * 12).step_by(12) {
            if calls {
                assert_eq!(alloc(&mut ssd, lsn, 12), Status::Ok);
            }
            run(&mut ssd, Op::Write, lsn, 12, &[]);
        }
        let mut draw = Stream::new(3, "pages of objects");
        for _ in 0..8 * sectors {
            run(&mut ssd, Op::Write, draw.below(sectors), 1, &[]);
        }
        settle(&mut ssd);
        ssd.stats().gc_moved_pages as f64
    };
    let (vanilla, paper, collected) = (copies(false, false), copies(true, false), copies(true, true));
    assert!(paper > 1.5 * vanilla && collected < 1.1 * vanilla, "{vanilla} {paper} {collected}");
}
