//! Goal: whatever happens to the file, a sector holds what it may hold or is an error, never older data; and what
//! a process that ends may leave is no damage.
//! Method: lives under random load on a disk in memory. In each one write goes wrong, or a bit changes between two
//! lives; then the process is gone. The next life reads every sector.

use std::collections::BTreeMap;

use super::disk::Wrong;
use super::world::World;
use super::*;

/// What became of the faults of one kind.
#[derive(Debug, Default)]
struct Tally {
    lives: u64,
    hit: u64,
    refused: u64,
    lost: u64,
    unreadable: u64,
}

const KINDS: [(&str, Option<Wrong>); 9] = [
    ("kill between writes", None),
    ("kill", Some(Wrong::Kill)),
    ("EIO", Some(Wrong::Error)),
    ("full disk", Some(Wrong::Full)),
    ("short write", Some(Wrong::Short)),
    ("lost write", Some(Wrong::Lost)),
    ("torn write", Some(Wrong::Torn)),
    ("misdirected write", Some(Wrong::Misdirected)),
    ("bit rot", None),
];

/// Kinds that a process which ends may meet; the others damage what was written.
const HARMLESS: usize = 5;

fn lives(sets: &[&str], how: How, seed: u64, lives: u64) -> BTreeMap<&'static str, Tally> {
    let mut tallies = BTreeMap::new();
    let mut world = World::new(drive(sets), how, seed);
    let (mut ssd, mut image) = world.create();
    for life in 0..lives {
        let kind = world.draw.below(KINDS.len() as u64) as usize;
        let (name, wrong) = KINDS[kind];
        let what = format!("{sets:?}, seed {seed}, life {life}, {name}");
        let tally: &mut Tally = tallies.entry(name).or_default();
        tally.lives += 1;
        world.disk.state().plan =
            wrong.map(|wrong| (world.draw.below(300), wrong, world.draw.below(u64::MAX)));
        let events = 50 + world.draw.below(400);
        let ended = world.work(&mut ssd, &mut image, events);
        let stops = matches!(wrong, Some(Wrong::Kill | Wrong::Error | Wrong::Full));
        let hit = world.disk.mended();
        assert_eq!(ended.is_err(), stops && hit.is_some(), "{what}: {ended:?}");
        drop(image);
        let rots = name == "bit rot";
        if rots {
            rot(&mut world);
        }
        tally.hit += u64::from(hit.is_some() || rots);
        let sound = kind < HARMLESS;
        let opened = match world.open(false) {
            Ok(opened) => opened,
            Err(e) => {
                assert!(!sound, "{what} is taken for damage: {e}");
                tally.refused += 1;
                match world.open(true) {
                    Ok(opened) => opened,
                    Err(e) => {
                        assert!(e.to_string().contains("no drive starts from it"), "{what}: {e}");
                        tally.lost += 1;
                        world = World::new(drive(sets), how, seed + life + 1);
                        (ssd, image) = world.create();
                        continue;
                    }
                }
            }
        };
        let (_, first, found) = world.switch_on(opened, &what).expect("the disk works");
        tally.unreadable += if found.damage > 0 { found.unreadable } else { 0 };
        // What was told once is told: the next server starts as if nothing had been.
        drop(first);
        let again = world
            .open(false)
            .unwrap_or_else(|e| panic!("{what}: damage that was accepted is there again: {e}"));
        (ssd, image, _) = world.switch_on(again, &what).expect("the disk works");
    }
    tallies
}

/// One bit of what was written changes.
pub fn rot(world: &mut World) {
    let mut state = world.disk.state();
    let used: Vec<usize> = (16..state.bytes.len() / 4096)
        .filter(|n| state.bytes[n * 4096..][..4096].iter().any(|&byte| byte != 0))
        .collect();
    let place = used[world.draw.below(used.len() as u64) as usize] * 4096;
    let bit = world.draw.below(4096 * 8) as usize;
    state.bytes[place + bit / 8] ^= 1 << (bit % 8);
}

fn rounds(few: u64) -> u64 {
    match std::env::var("NANDLE_IMAGE_LIVES") {
        Ok(n) => n.parse().expect("NANDLE_IMAGE_LIVES is a number of lives"),
        Err(_) if std::env::var_os("NANDLE_NIGHTLY").is_some() => 20 * few,
        Err(_) => few,
    }
}

fn go(name: &str, sets: &[&str], how: How, seed: u64) {
    let all = lives(sets, how, seed, rounds(150));
    for (kind, tally) in &all {
        println!("{name:<10} {kind:<20} {tally:?}");
    }
    let damaged = |pick: fn(&Tally) -> u64| all.values().map(pick).sum::<u64>();
    assert!(
        damaged(|t| t.refused) > 10 && damaged(|t| t.unreadable) > 0,
        "{name}: nothing was ever found damaged"
    );
    // One fault at a time: what is missing is nearly always known.
    let bad: u64 = KINDS[HARMLESS..].iter().filter_map(|(kind, _)| all.get(kind)).map(|t| t.hit).sum();
    assert!(damaged(|t| t.lost) * 5 < bad, "{name}: {all:#?}");
}

const PROCESS: How = How { durability: Durability::Process, damaged_ok: false };
const HOST: How = How { durability: Durability::Host, damaged_ok: false };

#[test]
fn right_data_or_an_error_with_a_page_mapping() {
    go("page", &["buffer.bytes=0"], PROCESS, 1);
}

#[test]
fn right_data_or_an_error_with_lists_and_checkpoints() {
    go(
        "waflash",
        &["scheme.mapping=multi-version", "scheme.compaction=true", "recovery.checkpoint_interval=64"],
        PROCESS,
        2,
    );
}

#[test]
fn right_data_or_an_error_with_areas_and_translation_pages() {
    go("across", &["scheme.mapping=across", "map_cache.bytes=32768"], PROCESS, 3);
}

#[test]
fn right_data_or_an_error_on_a_disk_that_outlives_the_host() {
    go("host", &["recovery.checkpoint_interval=64"], HOST, 4);
}

#[test]
fn right_data_or_an_error_with_units_smaller_than_a_page() {
    go("units", &["mapping.unit_bytes=4096", "recovery.checkpoint_interval=64"], PROCESS, 5);
}

#[test]
fn right_data_or_an_error_with_superblocks() {
    go("superblock", &["scheme.striping=superblock", "geometry.blocks_per_plane=24"], PROCESS, 6);
}

#[test]
fn right_data_or_an_error_with_parity_and_small_units() {
    let sets = [
        "scheme.striping=superblock",
        "superblock.parity=2",
        "geometry.blocks_per_plane=32",
        "mapping.unit_bytes=4096",
    ];
    go("parity", &sets, PROCESS, 7);
}
