//! Goal: Across-FTL does what the paper says, operation by operation, and areas never go wrong.
//! Method: the paper's own examples (Figs 6 and 7) with counts of flash operations; random traffic
//! around page borders against the oracle, with structural checks and power cuts.

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::nand::Cause;
use nandle_ssd::schemes::across::{Across, AcrossStats};
use nandle_ssd::schemes::mrsm::{Mrsm, MrsmStats};
use nandle_ssd::{Command, Completion, DeviceConfig, Op, Ssd, Status};

use crate::devices;
use crate::drive;
use drive::{closed, one, programs};

/// The paper's page: 8 KiB of 16 sectors.
fn paper(mapping: &str) -> DeviceConfig {
    let mut config = devices::base();
    config.geometry.page_bytes = 8192;
    config.geometry.blocks_per_plane = 64;
    config.op_ratio = 1.0;
    config.scheme.mapping = mapping.into();
    config
}

fn across(ssd: &Ssd) -> &AcrossStats {
    ssd.scheme::<Across>().expect("the mapping has areas").stats()
}

fn mrsm(ssd: &Ssd) -> &MrsmStats {
    ssd.scheme::<Mrsm>().expect("the mapping has regions").stats()
}

fn reads(ssd: &Ssd) -> u64 {
    ssd.flash().counters().reads.iter().flatten().sum()
}

/// Programs and reads that `f` took.
fn cost(ssd: &mut Ssd, f: impl FnOnce(&mut Ssd)) -> (u64, u64) {
    let before = (programs(ssd), reads(ssd));
    f(ssd);
    ssd.check();
    (programs(ssd) - before.0, reads(ssd) - before.1)
}

/// 1 KiB in sectors.
const K: u64 = 2;

#[test]
fn figures_6_and_7() {
    let mut ssd = Ssd::new(&paper("across"), 0, 1).expect("a valid device");
    let write = |lsn: u64, sectors: u64| move |ssd: &mut Ssd| _ = one(ssd, Op::Write, lsn, sectors);
    let read = |lsn: u64, sectors: u64| move |ssd: &mut Ssd| _ = one(ssd, Op::Read, lsn, sectors);
    // Pages 128 and 129 hold data.
    assert_eq!(cost(&mut ssd, write(1024 * K, 16 * K)), (2, 0));
    // Fig 6: write(1028K, 6K) straddles them: one program, no read; PMT and AMT know.
    assert_eq!(cost(&mut ssd, write(1028 * K, 6 * K)), (1, 0));
    let (_, entry) = ssd.flash().map().annex().unwrap().at(128).expect("AIdx of page 128");
    assert_eq!((entry.offset, entry.size), (8, 12));
    assert_eq!(ssd.flash().map().annex().unwrap().at(129), None);
    // Fig 7a: a read of 1030K to 1034K lies in the area: one page.
    assert_eq!(cost(&mut ssd, read(1030 * K, 4 * K)), (0, 1));
    assert_eq!((across(&ssd).direct_reads, across(&ssd).merged_reads), (1, 0));
    // Fig 7b: more than the area: area and normal page, two pages as without it.
    assert_eq!(cost(&mut ssd, read(1030 * K, 6 * K)), (0, 2));
    assert_eq!((across(&ssd).direct_reads, across(&ssd).merged_reads), (1, 1));
    // Fig 6: 1030K to 1036K: AMerge, the area grows from 12 to 16 sectors; it is read, then written.
    assert_eq!(cost(&mut ssd, write(1030 * K, 6 * K)), (1, 1));
    let (_, entry) = ssd.flash().map().annex().unwrap().at(128).expect("AIdx of page 128");
    assert_eq!((entry.offset, entry.size), (8, 16));
    assert_eq!(across(&ssd).profitable_merges, 1);
    // Fig 6: write(1030K, 8K): the union is 20 sectors: ARollback, area and both pages read, both written.
    assert_eq!(cost(&mut ssd, write(1030 * K, 8 * K)), (2, 3));
    assert_eq!(ssd.flash().map().annex().unwrap().live(), 0);
    assert_eq!(ssd.flash().map().annex().unwrap().at(128), None);
    assert_eq!(cost(&mut ssd, read(1024 * K, 16 * K)), (0, 2));
    let stats = across(&ssd);
    assert_eq!((stats.direct_writes, stats.rollbacks, stats.unprofitable_merges), (1, 1, 0));
}

#[test]
fn other_cases() {
    let mut ssd = Ssd::new(&paper("across"), 0, 1).expect("a valid device");
    let write = |lsn: u64, sectors: u64| move |ssd: &mut Ssd| _ = one(ssd, Op::Write, lsn, sectors);
    let trim = |lsn: u64, sectors: u64| move |ssd: &mut Ssd| _ = one(ssd, Op::Trim, lsn, sectors);
    let live = |ssd: &Ssd| ssd.flash().map().annex().unwrap().live();
    assert_eq!(cost(&mut ssd, write(0, 48)), (3, 0));
    assert_eq!(cost(&mut ssd, write(12, 8)), (1, 0));
    // A small write inside the area: unprofitable, the area's page is read.
    assert_eq!(cost(&mut ssd, write(14, 1)), (1, 1));
    assert_eq!(across(&ssd).unprofitable_merges, 1);
    // Beside the area: only the base page is read, and the area stays.
    assert_eq!(cost(&mut ssd, write(2, 2)), (1, 1));
    assert_eq!(live(&ssd), 1);
    // The run covers the area: no read.
    assert_eq!(cost(&mut ssd, write(10, 12)), (1, 0));
    assert_eq!(across(&ssd).profitable_merges, 1);
    // Full pages over all of the area: it dies without a read.
    assert_eq!(cost(&mut ssd, write(0, 32)), (2, 0));
    assert_eq!((live(&ssd), across(&ssd).rollbacks), (0, 0));
    // A full page over half of it: the other page's share goes home.
    assert_eq!(cost(&mut ssd, write(12, 8)), (1, 0));
    assert_eq!(cost(&mut ssd, write(16, 16)), (2, 2));
    assert_eq!((live(&ssd), across(&ssd).rollbacks), (0, 1));
    // Areas on both sides of a page; a run over the second border that needs the first area's
    // sectors dissolves it.
    assert_eq!(cost(&mut ssd, write(12, 8)), (1, 0));
    assert_eq!(cost(&mut ssd, write(28, 8)), (1, 0));
    assert_eq!(live(&ssd), 2);
    // Read: the first area, page 0; the second area, page 2.
    assert_eq!(cost(&mut ssd, write(18, 15)), (3, 4));
    assert_eq!((live(&ssd), across(&ssd).rollbacks), (0, 3));
    // Trim of a half, then of the rest.
    assert_eq!(cost(&mut ssd, write(12, 8)), (1, 0));
    assert_eq!(cost(&mut ssd, trim(0, 16)), (0, 0));
    assert_eq!(ssd.flash().map().annex().unwrap().at(0).map(|(_, e)| (e.offset, e.size)), Some((16, 4)));
    assert_eq!(cost(&mut ssd, trim(17, 3)), (0, 0));
    assert_eq!(ssd.flash().map().annex().unwrap().at(0).map(|(_, e)| (e.offset, e.size)), Some((16, 1)));
    assert_eq!(cost(&mut ssd, trim(16, 1)), (0, 0));
    assert_eq!(live(&ssd), 0);

    let mut config = paper("across");
    config.scheme.across.shrink = true;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    assert_eq!(cost(&mut ssd, write(0, 48)), (3, 0));
    assert_eq!(cost(&mut ssd, write(12, 8)), (1, 0));
    assert_eq!(cost(&mut ssd, write(16, 16)), (1, 0));
    assert_eq!(ssd.flash().map().annex().unwrap().at(0).map(|(_, e)| (e.offset, e.size)), Some((12, 4)));
    assert_eq!((across(&ssd).shrinks, across(&ssd).rollbacks), (1, 0));
}

#[test]
fn areas_take_no_more_pages_than_can_be_spared() {
    let mut config = devices::least(paper("across"));
    config.op_ratio += 0.1;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    let pages = u64::from(ssd.layout().logical_pages);
    for page in 0..pages {
        one(&mut ssd, Op::Write, page * 16, 16);
    }
    // Every other border: no area meets another.
    for border in (1..pages).step_by(2) {
        one(&mut ssd, Op::Write, border * 16 - 2, 4);
    }
    ssd.check();
    let stats = across(&ssd);
    assert_eq!(stats.direct_writes + stats.refused, pages / 2);
    assert!(stats.direct_writes > 0 && stats.refused > 0, "{stats:?}");
}

#[test]
fn mrsm_writes_pieces_without_reading() {
    let mut config = paper("mrsm");
    config.scheme.mrsm.switch_after = 2;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    let write = |lsn: u64, sectors: u64| move |ssd: &mut Ssd| _ = one(ssd, Op::Write, lsn, sectors);
    let read = |lsn: u64, sectors: u64| move |ssd: &mut Ssd| _ = one(ssd, Op::Read, lsn, sectors);
    let logical = u64::from(ssd.layout().logical_pages);
    let further = |ssd: &Ssd| ssd.flash().map().tree().expect("the table is a tree").nodes() - logical;
    assert_eq!(cost(&mut ssd, write(0, 64)), (4, 0));
    // By page: read, modify, write. The second update splits the region, and no longer reads.
    assert_eq!(cost(&mut ssd, write(0, 8)), (1, 1));
    assert_eq!(cost(&mut ssd, write(0, 8)), (1, 0));
    assert_eq!((mrsm(&ssd).split_regions, further(&ssd)), (1, 1));
    // On any sector, over a border: packed into one page, and read from there. Two pieces more.
    assert_eq!(cost(&mut ssd, write(27, 10)), (1, 0));
    assert_eq!(cost(&mut ssd, read(27, 10)), (0, 1));
    assert_eq!(further(&ssd), 3);
    // The same again replaces them; a part of one cuts its page in three; none is read.
    assert_eq!(cost(&mut ssd, write(27, 10)), (1, 0));
    assert_eq!(further(&ssd), 3);
    assert_eq!(cost(&mut ssd, write(50, 3)), (1, 0));
    assert_eq!(further(&ssd), 5);
    assert_eq!(cost(&mut ssd, read(48, 16)), (0, 2));
    // A fourth piece is too many: the page is read where it lies, and written whole.
    assert_eq!(cost(&mut ssd, write(60, 1)), (1, 2));
    assert_eq!((mrsm(&ssd).merged, further(&ssd)), (1, 3));
    // What is trimmed inside a piece leaves a hole and no piece.
    assert_eq!(cost(&mut ssd, |ssd| _ = one(ssd, Op::Trim, 52, 4)), (0, 0));
    assert_eq!(further(&ssd), 3);
    // Full pages bring themselves together.
    assert_eq!(cost(&mut ssd, write(0, 64)), (4, 0));
    assert_eq!((cost(&mut ssd, read(0, 64)), further(&ssd)), ((0, 4), 0));
}

#[test]
fn searches_and_updates_of_the_table_are_counted() {
    let accesses = |mapping: &str, f: &dyn Fn(&mut Ssd)| {
        let mut config = paper(mapping);
        config.scheme.mrsm.switch_after = 1;
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        one(&mut ssd, Op::Write, 0, 48);
        one(&mut ssd, Op::Write, 0, 4);
        let before = (ssd.stats().dram_accesses, ssd.stats().dram_updates);
        f(&mut ssd);
        (ssd.stats().dram_accesses - before.0, ssd.stats().dram_updates - before.1)
    };
    let straddling = |ssd: &mut Ssd| _ = one(ssd, Op::Write, 28, 8);
    // Two entries looked up and changed.
    assert_eq!(accesses("page", &straddling), (2, 2));
    // Two looked up; a record, AIdx and the bit behind it.
    assert_eq!(accesses("across", &straddling), (2, 3));
    // A search is as long as the tree is high. Of each page a node changes (search and write) and one is new
    // (search, write, link).
    let config = paper("mrsm");
    let pages = Ssd::new(&config, 0, 1).expect("a valid device").layout().logical_pages;
    let levels = u64::from(u32::BITS - pages.leading_zeros());
    assert_eq!(accesses("mrsm", &straddling), (2 * levels, 2 * (levels + 1) + 2 * (levels + 2)));
    // Page 0 has two pieces.
    assert_eq!(accesses("mrsm", &|ssd| _ = one(ssd, Op::Read, 0, 16)), (2 * levels, 0));
}

#[test]
fn a_region_goes_by_piece_and_back() {
    let mut config = paper("mrsm");
    config.scheme.mrsm.region_pages = 8;
    config.scheme.mrsm.switch_after = 3;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    let write = |ssd: &mut Ssd, lsn: u64, sectors: u64| _ = one(ssd, Op::Write, lsn, sectors);
    let split = |ssd: &Ssd| (mrsm(ssd).split_regions, mrsm(ssd).joined_regions);
    // Partial writes to pages without other data are no updates; the third update splits the region.
    (1..8).for_each(|page| write(&mut ssd, 16 * page, 4));
    write(&mut ssd, 0, 16);
    (0..2).for_each(|_| write(&mut ssd, 0, 4));
    assert_eq!(split(&ssd), (0, 0));
    write(&mut ssd, 0, 4);
    assert_eq!(split(&ssd), (1, 0));
    // As many full pages as the region has, without a partial one between them, bring it back.
    (0..7).for_each(|page| write(&mut ssd, 16 * page, 16));
    write(&mut ssd, 16 * 7, 4);
    (0..7).for_each(|page| write(&mut ssd, 16 * page, 16));
    assert_eq!(split(&ssd), (1, 0));
    write(&mut ssd, 16 * 7, 16);
    assert_eq!(split(&ssd), (1, 1));
    ssd.check();
}

#[test]
fn runs_form_in_the_buffer() {
    let mut config = paper("across");
    config.buffer.bytes = 64 << 10;
    let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
    // The tail of page 0 and the head of page 1 come one by one and leave as one.
    one(&mut ssd, Op::Write, 12, 4);
    one(&mut ssd, Op::Write, 16, 6);
    assert_eq!(cost(&mut ssd, |ssd| _ = one(ssd, Op::Flush, 0, 0)), (1, 0));
    assert_eq!(across(&ssd).direct_writes, 1);
    // They do not touch the border, or do not fit one page: each goes home.
    one(&mut ssd, Op::Write, 44, 3);
    one(&mut ssd, Op::Write, 48, 3);
    assert_eq!(cost(&mut ssd, |ssd| _ = one(ssd, Op::Flush, 0, 0)), (2, 0));
    one(&mut ssd, Op::Write, 70, 10);
    one(&mut ssd, Op::Write, 80, 8);
    assert_eq!(cost(&mut ssd, |ssd| _ = one(ssd, Op::Flush, 0, 0)), (2, 0));
}

#[test]
fn aligned_traffic_costs_what_it_costs_on_page_mapping() {
    for bytes in [0, 256 << 10] {
        let run = |mapping| {
            let mut config = paper(mapping);
            config.geometry.blocks_per_plane = 24;
            config.buffer.bytes = bytes;
            let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
            let pages = u64::from(ssd.layout().logical_pages);
            let mut draw = Stream::new(1, "aligned");
            let (took, _) = closed(&mut ssd, 4, 4 * pages, |_| {
                let length = 1 + draw.below(3);
                let op = if draw.chance(0.3) { Op::Read } else { Op::Write };
                (op, draw.below(pages - length) * 16, length * 16)
            });
            (
                took,
                ssd.flash().counters().clone(),
                ssd.stats().dram_accesses,
                ssd.flash().fragments().digest(),
            )
        };
        let (page, across) = (run("page"), run("across"));
        assert_eq!((page.1, page.2, page.3), (across.1, across.2, across.3));
        // Room for three programs is asked for, so a write may wait for it a little earlier.
        let ratio = across.0 as f64 / page.0 as f64;
        assert!((0.99..1.01).contains(&ratio), "{ratio}");
    }
}

/// Requests around the borders of a few pages.
fn near_borders(draw: &mut Stream, spp: u64, sectors: u64) -> (Op, u64, u64) {
    let pages = (sectors / spp).min(24);
    let border = (1 + draw.below(pages - 1)) * spp;
    let length = match draw.below(8) {
        0 => spp,
        1 => 1 + draw.below(3 * spp),
        _ => 1 + draw.below(spp),
    };
    let lsn = (border + draw.below(spp + 1)).saturating_sub(draw.below(length + spp / 2 + 1));
    let lsn = if draw.chance(0.15) { lsn / spp * spp } else { lsn };
    let op = match draw.below(20) {
        0..=4 => Op::Read,
        5 | 6 => Op::Trim,
        7 if draw.chance(0.3) => Op::Flush,
        _ => Op::Write,
    };
    (op, lsn, length.min(sectors - lsn))
}

#[test]
fn areas_never_go_wrong_around_borders() {
    for seed in 0..24 {
        let mut draw = Stream::new(seed, "borders");
        let mut config = devices::base();
        config.scheme.mapping = "across".into();
        config.scheme.across.shrink = draw.chance(0.4);
        config.op_ratio = 1.3;
        config.buffer.bytes = if draw.chance(0.4) { 16 << 10 } else { 0 };
        if draw.chance(0.4) {
            config.geometry.page_bytes = 2048;
            config.map_cache.bytes = 4096;
        }
        let mut ssd = Ssd::new(&config, UNIT, seed).expect("a valid device");
        let sectors = ssd.layout().logical_sectors;
        let spp = u64::from(config.geometry.sectors_per_page());
        let mut oracle = Oracle::of(&ssd);
        let mut done: Vec<Completion> = vec![];
        for id in 0..4_000 {
            let (op, lsn, length) = near_borders(&mut draw, spp, sectors);
            let (lsn, length) = if op == Op::Flush { (0, 0) } else { (lsn, length) };
            let data = if op == Op::Write { oracle.contents(lsn, length) } else { vec![] };
            let fua = op == Op::Write && draw.chance(0.1);
            let command = Command { id, op, lsn, sectors: length, fua, stream: 0, data: &data };
            oracle.submitted(&command);
            let now = ssd.now();
            ssd.submit(now, &command);
            if id % 7 == 0 {
                ssd.check();
            }
            for _ in 0..draw.below(6) {
                if let Some(next) = ssd.next_event() {
                    ssd.advance(next, &mut done);
                    done.drain(..).for_each(|c| oracle.completed(&c));
                }
            }
            if draw.chance(0.01) {
                ssd = Ssd::power_on(&config, ssd.cut_power(), seed).expect("a valid device");
                ssd.check();
                let now = ssd.now();
                ssd.submit(
                    now,
                    &Command {
                        id: u64::MAX,
                        op: Op::Read,
                        lsn: 0,
                        sectors,
                        fua: false,
                        stream: 0,
                        data: &[],
                    },
                );
                done.clear();
                while done.is_empty() {
                    let next = ssd.next_event().expect("a read is under way");
                    ssd.advance(next, &mut done);
                }
                let read = done.pop().expect("just seen");
                assert_eq!(read.status, Status::Ok);
                oracle.power_cut(&read.data, &[]);
            }
        }
        while ssd.outstanding() > 0 {
            let next = ssd.next_event().expect("requests are under way");
            ssd.advance(next, &mut done);
            done.drain(..).for_each(|c| oracle.completed(&c));
        }
        oracle.at_rest();
        assert_eq!(oracle.verdict(), Ok(()), "seed {seed}");
        assert!(oracle.checked() > 2_000);
        let map = ssd.flash().counters().reads[Cause::Map as usize].iter().sum::<u64>();
        assert_eq!(map > 0, config.map_cache.bytes > 0);
    }
}
