//! Goal: every stream policy keeps every promise, whatever objects come and go, and FlashAlloc does
//! what it is for.
//! Method: random traffic with FlashAlloc, FlashFree and trims against the oracle, with power cuts;
//! then one test for each case of an object's life, on a device small enough to look at.

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::nand::{Block, Ppn};
use nandle_ssd::schemes::Isolation;
use nandle_ssd::schemes::fdp::Fdp;
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd, Status};

use crate::devices;
use devices::{base, small_devices};

/// Devices of each policy, with room for objects.
fn stream_devices() -> Vec<(String, DeviceConfig)> {
    let mut out = vec![];
    for (name, config) in strict_devices() {
        for policy in ["multi-stream", "fdp", "fdp persistent", "flashalloc", "on demand", "tiny", "auto"] {
            let mut config = config.clone();
            config.streams.count = 3;
            config.geometry.blocks_per_plane += 14;
            config.op_ratio += if policy == "fdp persistent" { 0.4 } else { 0.0 };
            config.scheme.streams = match policy {
                "multi-stream" => "multi-stream",
                "fdp" | "fdp persistent" => "fdp",
                _ => "flashalloc",
            }
            .into();
            match policy {
                "fdp persistent" => config.streams.isolation = Isolation::Persistently,
                "on demand" => (config.streams.on_demand, config.streams.collect_ended) = (true, true),
                "tiny" => config.streams.share_tiny = true,
                "auto" => {
                    config.streams.auto_align = 8 * u64::from(config.geometry.page_bytes);
                    config.streams.auto_run = u64::from(config.geometry.page_bytes);
                    config.streams.auto_live = 3;
                }
                _ => {}
            }
            out.push((format!("{name}, {policy}"), config));
        }
    }
    out
}

struct Traffic {
    draw: Stream,
    id: u64,
    accepted: u64,
    refused: u64,
    calls: std::collections::BTreeSet<u64>,
}

impl Traffic {
    fn new(seed: u64, name: &str) -> Self {
        Self { draw: Stream::new(seed, name), id: 0, accepted: 0, refused: 0, calls: Default::default() }
    }

    fn done(&mut self, oracle: &mut Oracle, done: &mut Vec<Completion>) {
        for completion in done.drain(..) {
            oracle.completed(&completion);
            if self.calls.remove(&completion.id) {
                self.accepted += u64::from(completion.status == Status::Ok);
                self.refused += u64::from(completion.status != Status::Ok);
            }
        }
    }

    fn step(&mut self, ssd: &mut Ssd, oracle: &mut Oracle) {
        let sectors = ssd.layout().logical_sectors;
        let spp = u64::from(ssd.config().geometry.sectors_per_page());
        let block = spp * u64::from(ssd.config().geometry.pages_per_block);
        let draw = &mut self.draw;
        let length = match draw.below(10) {
            0..=3 => 1 + draw.below(spp),
            4..=6 => spp,
            _ => spp + draw.below(3 * spp),
        }
        .min(sectors);
        let span = if draw.chance(0.5) { sectors / 6 + 1 } else { sectors };
        let lsn = draw.below(span).min(sectors - length);
        let lsn = if draw.chance(0.6) { lsn / spp * spp } else { lsn };
        let (op, lsn, length) = match draw.below(100) {
            0..=24 => (Op::Read, lsn, length),
            25..=81 => (Op::Write, lsn, length),
            82..=86 => (Op::Trim, lsn, (1 + draw.below(2 * block)).min(sectors - lsn)),
            87..=96 => (Op::FlashAlloc, lsn, (1 + draw.below(2 * block)).min(sectors - lsn)),
            97 => (Op::FlashFree, lsn, length),
            _ => (Op::Flush, 0, 0),
        };
        let mut data = if op == Op::Write { oracle.contents(lsn, length) } else { vec![] };
        if op == Op::FlashAlloc && draw.chance(0.4) {
            for _ in 0..=draw.below(3) {
                let n = 1 + draw.below(block / 2);
                let at = draw.below(sectors - n.min(sectors - 1));
                data.extend(0_u32.to_le_bytes());
                data.extend((n.min(sectors - at) as u32).to_le_bytes());
                data.extend(at.to_le_bytes());
            }
        }
        let fua = op == Op::Write && draw.chance(0.05);
        let stream = draw.below(5) as u16;
        let command = Command { id: self.id, op, lsn, sectors: length, fua, stream, data: &data };
        if matches!(op, Op::FlashAlloc | Op::FlashFree) {
            self.calls.insert(self.id);
        }
        oracle.submitted(&command);
        self.id += 1;
        let now = ssd.now();
        ssd.submit(now, &command);
    }

    fn run(&mut self, ssd: &mut Ssd, oracle: &mut Oracle, requests: u64, drain: bool) {
        let mut done = vec![];
        for n in 0..requests {
            let depth = 1 + self.draw.below(8) as u32;
            while ssd.outstanding() >= depth {
                let Some(next) = ssd.next_event() else {
                    let state = ssd.flash().blocks();
                    panic!(
                        "the device is stuck: {:?}",
                        (0..ssd.flash().geometry().planes()).map(|p| state.free(p)).collect::<Vec<_>>()
                    );
                };
                ssd.advance(next, &mut done);
                self.done(oracle, &mut done);
            }
            self.step(ssd, oracle);
            if n % 499 == 0 {
                ssd.check();
            }
        }
        while drain && ssd.outstanding() > 0 {
            let next = ssd.next_event().expect("the device is stuck");
            ssd.advance(next, &mut done);
            self.done(oracle, &mut done);
        }
        if drain {
            oracle.at_rest();
        }
        ssd.check();
    }
}

/// The small devices with strict allocation: streams are refused together with anything else.
fn strict_devices() -> Vec<(&'static str, DeviceConfig)> {
    // An SLC cache takes no streams.
    let strict = |c: &DeviceConfig| c.scheme.allocation == "strict" && c.slc.is_off();
    small_devices().into_iter().filter(|(_, c)| strict(c)).collect()
}

#[test]
fn reads_return_the_last_write_under_every_policy() {
    let mut demoted = 0;
    for (name, config) in stream_devices() {
        let mut ssd = Ssd::new(&config, UNIT, 1).expect("a valid device");
        let mut oracle = Oracle::of(&ssd);
        let mut traffic = Traffic::new(1, &name);
        traffic.run(&mut ssd, &mut oracle, 6_000, true);
        assert_eq!(oracle.verdict(), Ok(()), "{name}");
        assert!(oracle.checked() > 1_000, "{name}");
        let stats = ssd.stats();
        if ssd.knows_objects() {
            assert!(traffic.accepted > 50, "{name}: {} calls carried out", traffic.accepted);
            assert!(traffic.refused > 50, "{name}: {} calls refused", traffic.refused);
            let counts = &stats.streams[stats.streams.len() - 2];
            assert!(counts.host_sectors > 1000, "{name}: {counts:?}");
        } else {
            assert_eq!(traffic.accepted, 0, "{name}");
        }
        demoted += stats.dedicated_demoted;
        println!(
            "{name}: {} of {} calls, {} live, gc {}, demoted {}, by trim {}, {:?}",
            traffic.accepted,
            traffic.accepted + traffic.refused,
            ssd.objects_live(),
            stats.gc_invocations,
            stats.dedicated_demoted,
            stats.block_erases_by_trim,
            stats.victim_valid_dedicated
        );
    }
    assert!(demoted > 0, "the last resort was never tried");
}

#[test]
fn power_cuts_lose_nothing_under_any_policy() {
    for (name, config) in stream_devices() {
        let mut ssd = Ssd::new(&config, UNIT, 3).expect("a valid device");
        let mut oracle = Oracle::of(&ssd);
        let mut traffic = Traffic::new(3, &name);
        for cut in 0..25 {
            traffic.run(&mut ssd, &mut oracle, 120, false);
            let mut done = vec![];
            for _ in 0..traffic.draw.below(12) {
                if let Some(next) = ssd.next_event() {
                    ssd.advance(next, &mut done);
                    traffic.done(&mut oracle, &mut done);
                }
            }
            ssd = Ssd::power_on(&config, ssd.cut_power(), 3).expect("a valid device");
            traffic.calls.clear();
            ssd.check();
            let contents = read_all(&mut ssd);
            oracle.power_cut(&contents, &[]);
            assert_eq!(oracle.verdict(), Ok(()), "{name}, cut {cut}");
        }
    }
}

fn read_all(ssd: &mut Ssd) -> Vec<u8> {
    let sectors = ssd.layout().logical_sectors;
    run(ssd, Op::Read, 0, sectors, &[]).data
}

/// One request, to its completion.
fn run(ssd: &mut Ssd, op: Op, lsn: u64, sectors: u64, data: &[u8]) -> Completion {
    let mut done = vec![];
    let now = ssd.now();
    let zeros = vec![0; sectors as usize * ssd.unit()];
    let data = if op == Op::Write && data.is_empty() { &zeros } else { data };
    ssd.submit(now, &Command { id: 0, op, lsn, sectors, fua: false, stream: 0, data });
    while done.is_empty() {
        let next = ssd.next_event().expect("the device is stuck");
        ssd.advance(next, &mut done);
    }
    done.remove(0)
}

fn settle(ssd: &mut Ssd) {
    let mut done = vec![];
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
    }
    ssd.check();
}

/// A FlashAlloc device of 4 planes; sectors are pages, blocks have 12.
fn objects_device() -> DeviceConfig {
    let mut config = base();
    config.geometry.sector_bytes = 4096;
    config.geometry.blocks_per_plane = 40;
    config.op_ratio = 0.6;
    config.scheme.streams = "flashalloc".into();
    config
}

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

/// The blocks that hold the sectors of a range (sectors are pages here).
fn blocks_of(ssd: &Ssd, lsn: u64, sectors: u64) -> std::collections::BTreeSet<u32> {
    let g = &ssd.config().geometry;
    let page = |lpn: u64| -> Option<Ppn> { ssd.flash().fragments().single(lpn as u32) };
    (lsn..lsn + sectors).filter_map(page).map(|ppn| g.block_of(ppn).0).collect()
}

fn programs(ssd: &Ssd) -> u64 {
    ssd.flash().counters().programs.iter().flatten().sum()
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

#[test]
fn streams_keep_apart_what_collection_mixes_or_not() {
    // Two streams of equal rate, one of them overwritten in turn: only isolation keeps them apart.
    for (streams, isolation, apart) in [
        ("by-time", Isolation::Initially, false),
        ("multi-stream", Isolation::Initially, true),
        ("fdp", Isolation::Initially, true),
        ("fdp", Isolation::Persistently, true),
    ] {
        let mut config = objects_device();
        config.scheme.streams = streams.into();
        (config.streams.count, config.streams.isolation) = (2, isolation);
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        let mut done = vec![];
        for lsn in 0..96 {
            for (stream, lsn) in [(0, lsn), (1, 400 + lsn)] {
                let now = ssd.now();
                ssd.submit(
                    now,
                    &Command { id: 0, op: Op::Write, lsn, sectors: 1, fua: false, stream, data: &[] },
                );
                while ssd.outstanding() > 0 {
                    let next = ssd.next_event().expect("the device is stuck");
                    ssd.advance(next, &mut done);
                }
            }
        }
        assert_eq!(blocks_of(&ssd, 0, 96).is_disjoint(&blocks_of(&ssd, 400, 96)), apart, "{streams:?}");
        if let Some(fdp) = ssd.scheme::<Fdp>() {
            assert_eq!(fdp.unit_pages(), 48);
            assert!(fdp.handles(ssd.flash()).all(|h| h.changes == 2 && h.available_pages == 48));
            // An untouched unit is not left; one with a page in it is.
            ssd.next_unit(0);
            run(&mut ssd, Op::Write, 0, 1, &[]);
            let changes = |ssd: &Ssd| {
                ssd.scheme::<Fdp>().and_then(|fdp| fdp.handles(ssd.flash()).next()).map(|h| h.changes)
            };
            assert_eq!(changes(&ssd), Some(2));
            ssd.next_unit(0);
            assert_eq!(changes(&ssd), Some(3));
        }
        let sum: u64 = ssd.stats().streams.iter().map(|s| s.media_sectors).sum();
        assert_eq!(sum, programs(&ssd));
    }
}

/// The host's sectors as the streams count them, what was written, and all media sectors as streams and as programs.
fn counted(config: &DeviceConfig) -> [u64; 4] {
    let mut ssd = Ssd::new(config, 0, 3).expect("a drive");
    let mut draw = Stream::new(5, "books");
    let sectors = ssd.layout().logical_sectors;
    let spp = u64::from(config.geometry.sectors_per_page());
    let mut written = 0;
    // Twice the drive, mostly parts of pages: old sectors are carried along by nearly every write.
    while written < 2 * sectors {
        let length = 1 + draw.below(spp);
        let first = draw.below(sectors - length);
        if run(&mut ssd, Op::Write, first, length, &[]).status == Status::Ok {
            written += length;
        }
    }
    run(&mut ssd, Op::Flush, 0, 0, &[]);
    settle(&mut ssd);
    let streams = &ssd.stats().streams;
    let host = streams.iter().map(|s| s.host_sectors).sum();
    let media = streams.iter().map(|s| s.media_sectors).sum();
    // Parity of superblocks is of no stream.
    let by_cause = &ssd.counters().programs;
    let parity: u64 = by_cause[nandle_ssd::nand::Cause::Parity as usize].iter().sum();
    let programs = by_cause.iter().flatten().sum::<u64>() - parity;
    [host, written, media, programs * spp]
}

#[test]
fn what_streams_were_written_is_what_the_host_wrote() {
    let mut of_streams = stream_devices();
    of_streams.retain(|(_, config)| config.buffer.bytes == 0 && config.faults.program_rate == 0.0);
    assert!(of_streams.len() > 5);
    for (name, config) in of_streams.iter().step_by(3) {
        let [host, written, media, programmed] = counted(config);
        assert_eq!((host, media), (written, programmed), "{name}");
        // With what was carried along it would be far more.
        assert!(programmed > written, "{name}: {programmed} sectors for {written}");
    }
    for mapping in devices::mappings() {
        let mut config = base();
        config.scheme.mapping = mapping.as_str().into();
        config.op_ratio = 1.5;
        // Not all of them go together.
        if config.validate().is_err() {
            assert!(mapping.contains('+'), "{mapping}");
            continue;
        }
        let [host, written, media, programmed] = counted(&config);
        assert_eq!((host, media), (written, programmed), "{mapping}");
    }
}

#[test]
fn reclaim_units_are_counted_by_the_stream_that_wrote_them() {
    let mut config = base();
    config.scheme.streams = "fdp".into();
    config.streams.count = 3;
    config.buffer.bytes = 0;
    config.recovery.checkpoint_interval = 0;
    config.op_ratio = 1.0;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    let g = ssd.flash().geometry();
    let (spp, stripe) = (u64::from(g.sectors_per_page()), u64::from(g.planes() * g.pages_per_block));
    // Whole blocks in every plane: two rows of stream 0, one of stream 2.
    let streams = [0, 0, 2_u16];
    let (mut done, planes) = (vec![], u64::from(g.planes()));
    for n in 0..3 * stripe {
        let stream = streams[(n / stripe) as usize];
        let command =
            Command { id: n, op: Op::Write, lsn: n * spp, sectors: spp, fua: false, stream, data: &[] };
        let now = ssd.now();
        ssd.submit(now, &command);
        while ssd.outstanding() > 0 {
            let next = ssd.next_event().expect("the device is stuck");
            ssd.advance(next, &mut done);
        }
    }
    assert_eq!(ssd.flash().blocks_of_groups()[..3], [2 * planes, 0, planes]);
}
