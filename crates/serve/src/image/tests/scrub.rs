//! Goal: what goes bad in the file while it is served is found and written again, so that the next life finds a sound
//! image with everything in it; what is only being written is not taken for damage.
//! Method: lives under random load on a disk in memory, read back event by event. In each one write is lost, torn, short
//! or goes elsewhere, or a bit changes. The next life refuses damage, and reads every sector.

use super::disk::Wrong;
use super::faults::rot;
use super::world::World;
use super::*;
use crate::suspect::Place;

/// Reads on until a whole round finds nothing; what was mended.
fn rounds(world: &mut World, ssd: &Ssd, image: &mut Image, what: &str) -> Vec<String> {
    let mut all = vec![];
    for _ in 0..4 {
        let mut found = vec![];
        while let Some(places) = world.read_on() {
            for place in places {
                found.extend(image.mend(ssd.flash().array(), place, true).expect("the disk works"));
            }
        }
        // The first may have begun in the middle.
        if found.is_empty() && !all.is_empty() {
            break;
        }
        all.extend(found);
    }
    for line in &all {
        assert!(line.contains("nothing is missing"), "{what}: {line}");
    }
    all
}

fn drain(ssd: &mut Ssd, image: &mut Image) {
    let (mut done, mut changes) = (vec![], vec![]);
    while let Some(next) = ssd.next_event() {
        ssd.advance(next, &mut done);
        ssd.take_changes(&mut changes);
        image.follow(ssd.flash().array(), &changes).expect("the disk works");
        changes.clear();
    }
}

fn lives(sets: &[&str], how: How, seed: u64, lives: u64) {
    let mut world = World::new(drive(sets), how, seed);
    let (mut ssd, mut image) = world.create();
    let (mut hits, mut mended) = (0, 0);
    for life in 0..lives {
        let kinds =
            [None, Some(Wrong::Short), Some(Wrong::Lost), Some(Wrong::Torn), Some(Wrong::Misdirected)];
        let kind = world.draw.below(kinds.len() as u64 + 1) as usize;
        let rots = kind == kinds.len();
        let wrong = kinds.get(kind).copied().flatten();
        let what = format!("{sets:?}, seed {seed}, life {life}, {wrong:?}, rot {rots}");
        world.disk.state().plan =
            wrong.map(|wrong| (world.draw.below(300), wrong, world.draw.below(u64::MAX)));
        world.scrub(&image);
        let events = 50 + world.draw.below(400);
        world.work(&mut ssd, &mut image, events).expect("the disk works");
        if rots {
            rot(&mut world);
        }
        drain(&mut ssd, &mut image);
        let hit = world.disk.mended();
        let found =
            std::mem::take(&mut world.mended).into_iter().chain(rounds(&mut world, &ssd, &mut image, &what));
        let found: Vec<String> = found.collect();
        if !rots && matches!(hit, None | Some((Wrong::Short, _))) {
            assert_eq!(found, Vec::<String>::new(), "{what}: taken for damage");
        }
        (hits, mended) = (hits + u64::from(hit.is_some() || rots), mended + found.len());
        drop(image);
        let opened =
            world.open(false).unwrap_or_else(|e| panic!("{what}: not mended: {e}; mended: {found:#?}"));
        (ssd, image, _) = world.switch_on(opened, &what).expect("the disk works");
    }
    println!("{sets:?}: {lives} lives, {hits} hits, {mended} places mended");
    assert!(hits > lives / 4 && mended as u64 > hits / 4, "{sets:?}: {hits} hits, {mended} mended");
}

#[test]
fn what_goes_bad_is_written_again() {
    let (process, host) = (Durability::Process, Durability::Host);
    for (sets, durability) in [
        (&["buffer.bytes=0"][..], process),
        (
            &["scheme.mapping=multi-version", "scheme.compaction=true", "recovery.checkpoint_interval=64"],
            process,
        ),
        (&["scheme.mapping=across", "map_cache.bytes=32768"], host),
        (&["scheme.striping=superblock", "geometry.blocks_per_plane=24", "mapping.unit_bytes=4096"], process),
    ] {
        lives(sets, How { durability, damaged_ok: false }, 1, 60);
    }
}

#[test]
fn header_and_session_are_written_again() {
    let mut world = World::new(drive(&[]), How::default(), 1);
    let (ssd, mut image) = world.create();
    world.scrub(&image);
    let session = image.store.layout.session() as usize;
    for at in [3, 30, FIXED + 100, session, session + 20] {
        world.disk.state().bytes[at] ^= 16;
        assert_eq!(rounds(&mut world, &ssd, &mut image, "ends").len(), 1, "byte {at}");
    }
    drop(image);
    world.open(false).expect("sound again");
}

#[test]
fn a_page_on_its_way_is_left_to_its_program() {
    let mut world = World::new(drive(&["buffer.bytes=0"]), How::default(), 1);
    let (mut ssd, mut image) = world.create();
    let command =
        Command { id: 1, op: Op::Write, lsn: 0, sectors: 4, fua: false, stream: 0, data: &[7; 4 * 4096] };
    ssd.submit(ssd.now(), &command);
    let g = ssd.flash().geometry().clone();
    let on_its_way = (0..g.planes())
        .flat_map(|plane| g.blocks_of(plane))
        .map(|block| g.ppn(block, 0))
        .find(|&ppn| ssd.flash().array().page_use(ppn) != PageUse::Erased)
        .expect("a program is under way");
    // Something else went there: that is no reason to have the page in the file before it is on flash.
    let at = image.store.layout.slot(on_its_way) as usize;
    world.disk.state().bytes[at..at + 64].fill(0xa5);
    let look = |ssd: &Ssd, image: &mut Image, idle| {
        image.mend(ssd.flash().array(), Place::Page(on_its_way), idle).expect("the disk works")
    };
    assert_eq!(look(&ssd, &mut image, false), None);
    assert_eq!(world.disk.state().bytes[at..at + 64], [0xa5; 64]);
    drain(&mut ssd, &mut image);
    assert_eq!(look(&ssd, &mut image, true), None, "its program has put it there");
}
