//! Goal: whenever the process ends, the file is a flash that a power cut at that moment could have
//! left, and it is read back as it was.
//! Method: a drive under random load whose changes are followed; at random moments the power is cut in
//! a copy, and what is loaded from a copy of the file is compared with it page by page.

use std::fs;

use nandle_lab::config::{Drive, Wanted};
use nandle_random::Stream;
use nandle_ssd::nand::{PageUse, Silicon};
use nandle_ssd::{Command, Op, Ssd};

use super::*;

fn drive(sets: &[&str]) -> Drive {
    let small = [
        "geometry.channels=1",
        "geometry.chips_per_channel=2",
        "geometry.blocks_per_plane=12",
        "geometry.pages_per_block=12",
        "op_ratio=1.6",
        "buffer.bytes=65536",
    ];
    let sets: Vec<String> = small.iter().chain(sets).map(|s| (*s).to_owned()).collect();
    Wanted { device: "demo-page", scheme: None, sets: &sets }.load().expect("a device")
}

/// A page as it is on flash: use, numbers, stream, extents, contents.
type Page = (PageUse, (u64, u64, u64), u16, Vec<(u64, u8, u8)>, Vec<u8>);

fn pages(array: &Array) -> Vec<Page> {
    let g = array.geometry();
    let mut out = vec![];
    for ppn in (0..g.planes())
        .flat_map(|p| g.blocks_of(p))
        .flat_map(|b| (0..g.pages_per_block).map(move |n| g.ppn(b, n)))
    {
        // Nothing is said of the pages of a block that must be erased first.
        let undefined = array.condition(g.block_of(ppn)) == BlockCondition::Undefined;
        let kind = if undefined { PageUse::Torn } else { array.page_use(ppn) };
        let oob = array.oob(ppn);
        let (mut numbers, mut extents, mut bytes, mut stream) = ((0, 0, 0), vec![], vec![], 0);
        if !matches!(kind, PageUse::Erased | PageUse::Torn) {
            numbers = (array.seq(ppn), array.version(ppn), array.lost(ppn));
            oob.extents.each(g.sectors_per_page(), |e| extents.push((e.lsn, e.sectors, e.at)));
            stream = oob.stream;
        }
        if kind.is_data() {
            bytes = array.sectors(ppn, 0, g.sectors_per_page()).flatten().copied().collect();
        } else if kind != PageUse::Torn
            && let Some(note) = array.note(ppn)
        {
            bytes = note.bytes();
        }
        out.push((kind, numbers, stream, extents, bytes));
    }
    out
}

fn compare_arrays(loaded: &Array, truth: &Array, what: &str) {
    for (n, (found, expected)) in pages(loaded).into_iter().zip(pages(truth)).enumerate() {
        assert!(found == expected, "{what}: page {n}: {:?} instead of {:?}", found.0, expected.0);
    }
    let g = truth.geometry();
    for block in (0..g.planes()).flat_map(|p| g.blocks_of(p)) {
        let state = |a: &Array| (a.erases(block), a.condition(block), a.is_doomed(block));
        assert_eq!(state(loaded), state(truth), "{what}: block {block:?}");
    }
}

/// Random load with the image behind it; `moments` cuts on the way.
fn follow(sets: &[&str], seed: u64, moments: u32) {
    let drive = drive(sets);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("image");
    let mut draw = Stream::new(seed, "image");
    let mut ssd = Ssd::new(&drive.config, 4096, seed).expect("a drive");
    ssd.keep_changes();
    ssd.keep_stale();
    let mut image = open(&path, &drive, How::default()).expect("a new image").image;
    image = image.filled(&drive, seed, ssd.flash().array()).expect("written");
    let (mut done, mut changes, mut id, mut left) = (vec![], vec![], 0, moments);
    let mut erases = 0;
    while left > 0 {
        while ssd.outstanding() < 8 {
            id += 1;
            let (sectors, kind) = (1 + draw.below(6), draw.below(20));
            let lsn = draw.below(drive.layout.logical_sectors - sectors);
            let (op, sectors) = match kind {
                0 => (Op::Flush, 0),
                1..=3 => (Op::Trim, sectors),
                _ => (Op::Write, sectors),
            };
            let data = vec![id as u8; if op == Op::Write { sectors as usize * 4096 } else { 0 }];
            let at = ssd.now();
            ssd.submit(at, &Command { id, op, lsn, sectors, fua: kind == 5, stream: 0, data: &data });
        }
        let next = ssd.next_event().expect("something is under way");
        ssd.advance(next, &mut done);
        done.clear();
        ssd.take_changes(&mut changes);
        erases += changes.iter().filter(|c| matches!(c, Change::Erased(_))).count();
        image.follow(ssd.flash().array(), &changes).expect("written");
        changes.clear();
        if draw.below(400) > 0 {
            continue;
        }
        left -= 1;
        let what = format!("{sets:?}, seed {seed}, moment {left}");
        let copy = dir.path().join("copy");
        let _ = fs::remove_file(&copy);
        fs::copy(&path, &copy).expect("copied");
        // Killed: what was under way is not there, and the drive that is made of it is in order.
        let Opened { array, .. } = open(&copy, &drive, How::default()).expect("an image");
        let array = array.expect("not empty");
        Ssd::power_on(&drive.config, Silicon(*array), seed).expect("it powers on").check();
        // Cut on purpose: what was under way is torn, just as in memory.
        let mut silicon = ssd.clone().cut_power().0;
        silicon.take_changes(&mut changes);
        let mut cut = open(&copy, &drive, How::default()).expect("an image").image;
        cut.follow(&silicon, &changes).expect("written");
        changes.clear();
        drop(cut);
        let loaded = open(&copy, &drive, How::default()).expect("an image").array.expect("not empty");
        compare_arrays(&loaded, &silicon, &what);
        Ssd::power_on(&drive.config, Silicon(*loaded), seed).expect("it powers on").check();
    }
    assert!(erases > 50, "{sets:?}: only {erases} erases");
}

#[test]
fn the_file_is_what_a_power_cut_leaves() {
    follow(&[], 1, 25);
}

#[test]
fn also_with_lists_of_extents_and_translation_pages() {
    follow(&["scheme.mapping=multi-version", "scheme.compaction=true", "scheme.buffer=pc-lru"], 2, 15);
    follow(&["scheme.mapping=across", "map_cache.bytes=32768"], 3, 15);
}

#[test]
fn also_with_a_failing_flash_and_checkpoints() {
    follow(
        &["faults.program_rate=0.0005", "faults.read_rate=0.0005", "recovery.checkpoint_interval=64"],
        4,
        15,
    );
}

#[test]
fn also_with_superblocks() {
    let superblocks = ["scheme.striping=superblock", "geometry.blocks_per_plane=32"];
    follow(&superblocks, 5, 25);
    follow(&[&superblocks[..], &["superblock.parity=2", "mapping.unit_bytes=4096"]].concat(), 6, 40);
}

#[test]
fn a_preconditioned_drive_is_in_its_image() {
    let drive =
        drive(&["op_ratio=2.5", "precondition.used=0.3", "precondition.valid=0.2", "wear.factory_bad=0.09"]);
    let dir = tempfile::tempdir().expect("a temporary directory");
    let path = dir.path().join("image");
    let ssd = Ssd::new(&drive.config, 4096, 1).expect("a drive");
    let image = open(&path, &drive, How::default()).expect("a new image").image;
    // Not finished: the next one begins anew.
    drop(image);
    let image = open(&path, &drive, How::default()).expect("still new").image;
    drop(image.filled(&drive, 1, ssd.flash().array()).expect("written"));
    let loaded = open(&path, &drive, How::default()).expect("an image").array.expect("not empty");
    compare_arrays(&loaded, ssd.flash().array(), "preconditioned");
}

mod disk;
mod faults;
mod power;
mod world;
