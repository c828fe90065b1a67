//! Goal: every stream policy keeps every promise, whatever objects come and go, and counts what each stream wrote.
//! Method: random traffic with FlashAlloc, FlashFree and trims against the oracle, with power cuts; streams side by
//! side on a small device, and their accounts beside those of the flash.

mod objects;

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::collect::SurvivorsKind;
use nandle_ssd::nand::Ppn;
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
                "fdp persistent" => {
                    config.streams.isolation = Isolation::Persistently;
                    config.gc.survivors = SurvivorsKind::Apart;
                }
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
