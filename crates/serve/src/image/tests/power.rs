//! Goal: with `--durability host` everything that a flush or a FUA write covered is there after the machine went down,
//! whatever its disk had done by then.
//! Method: what a drive under random load does to its disk is kept. Of it, up to any point, everything before the last
//! sync is done, and of what came after it nothing, all, or any part: writes in any selection, whole or torn at 512
//! bytes. From each such disk a drive is switched on and every sector compared with what was promised by then.

use super::disk::{Disk, State, Step, Wrong};
use super::world::World;
use super::*;
use crate::image::layout::Layout;
use crate::{Driver, Io, Options, Timing};

const HOST: How = How { durability: Durability::Host, damaged_ok: false };

fn nightly() -> bool {
    std::env::var_os("NANDLE_NIGHTLY").is_some()
}

/// The disk after `until` steps, of which those behind the last sync are done as `pick` says.
fn disk_after(base: &State, open: &[Step], pick: u64, draw: &mut Stream) -> Disk {
    let mut state = State { bytes: base.bytes.clone(), ..State::default() };
    for step in open {
        match pick {
            0 => {}
            1 => state.apply(step, || true),
            // Some writes are there, some are not.
            2 => {
                let there = draw.below(2) == 0;
                state.apply(step, || there);
            }
            // And some are torn.
            _ => {
                let share = draw.below(3);
                state.apply(step, || draw.below(2) < share);
            }
        }
    }
    Disk::of(state.bytes)
}

fn cut(sets: &[&str], seed: u64, events: u64) {
    let mut world = World::new(drive(sets), HOST, seed);
    let (mut ssd, mut image) = world.create();
    let mut base = State { bytes: world.disk.state().bytes.clone(), ..State::default() };
    world.disk.state().log = Some(vec![]);
    world.work(&mut ssd, &mut image, events).expect("the disk works");
    let steps = world.disk.state().log.take().expect("it was kept");
    let (promises, client) = (std::mem::take(&mut world.promises), world.client.clone());
    let mut draw = Stream::new(seed, "cut");
    let every = if nightly() { 1 } else { steps.len() as u64 / 40 };
    let (mut synced, mut cuts, mut promised) = (0, 0, 0);
    for until in 0..=steps.len() {
        if until > 0 && matches!(steps[until - 1], Step::Sync) {
            steps[synced..until].iter().for_each(|step| base.apply(step, || true));
            synced = until;
        }
        if draw.below(every.max(1)) > 0 {
            continue;
        }
        // What was promised when so many steps were done, and nothing that was promised later.
        let by_then = promises.iter().take_while(|(at, _)| *at <= until).last();
        for pick in 0..4 {
            world.disk = disk_after(&base, &steps[synced..until], pick, &mut draw);
            world.client = client.clone();
            for (lsn, range) in world.client.ranges.iter_mut().enumerate() {
                range.durable = by_then.map_or(0, |(_, durable)| durable[lsn]);
                promised += u64::from(range.durable > 0);
            }
            let what = format!("{sets:?}, seed {seed}, {until} of {} steps, pick {pick}", steps.len());
            let opened = world.open(false).unwrap_or_else(|e| panic!("{what}: {e}"));
            let (_, mut image, found) = world.switch_on(opened, &what).expect("the disk works");
            assert_eq!((found.damage, found.unreadable), (0, 0), "{what}");
            // And it goes on.
            image.make_durable().expect("the disk works");
            cuts += 1;
        }
    }
    let syncs = steps.iter().filter(|step| matches!(step, Step::Sync)).count();
    println!("{sets:?}: {} steps, {syncs} syncs, {cuts} cuts, {promised} sectors promised", steps.len());
    assert!(cuts > 100 && promised > 1000 && syncs > 20, "{cuts} cuts, {promised} sectors, {syncs} syncs");
}

#[test]
fn what_was_flushed_outlives_the_host() {
    cut(&[], 1, 3000);
}

#[test]
fn also_with_lists_and_checkpoints() {
    cut(
        &["scheme.mapping=multi-version", "scheme.compaction=true", "recovery.checkpoint_interval=32"],
        2,
        3000,
    );
}

#[test]
fn also_with_areas_and_translation_pages() {
    cut(&["scheme.mapping=across", "map_cache.bytes=32768", "recovery.checkpoint_interval=64"], 3, 3000);
}

#[test]
fn also_with_a_failing_flash() {
    cut(&["faults.program_rate=0.0005", "recovery.checkpoint_interval=64"], 4, 3000);
}

#[test]
fn a_served_flush_is_answered_when_the_disk_has_it() {
    let drive = drive(&["buffer.bytes=1048576"]);
    let disk = Disk::default();
    let opened = create(Box::new(disk.clone()), Path::new("disk"), &drive, HOST, Unfinished::default())
        .expect("a new image");
    let options = Options { timing: Timing::Off, ..Options::default() };
    let (driver, device) = Driver::start(&drive, Some(opened), &options).expect("it starts");
    let running = std::thread::spawn(move || driver.run());
    // What the disk had not been told to keep when the answer came: page records, by how many.
    let geometry = drive.config.unit_geometry();
    let (first, each) = Layout::new(&geometry).slots();
    let pages = first..first + geometry.pages() * each;
    let ask = |io: Io| {
        let (to, answer) = std::sync::mpsc::channel();
        let (disk, pages) = (disk.clone(), pages.clone());
        disk.state().log = Some(vec![]);
        device.submit(io, move |outcome| {
            let steps = disk.state().log.take().expect("it is kept");
            let page = |step: &Step| matches!(step, Step::Write(at, _) if pages.contains(at));
            let synced = steps.iter().rposition(|step| matches!(step, Step::Sync)).map_or(0, |n| n + 1);
            let _ = to.send((outcome, steps.iter().any(page), steps[synced..].iter().any(page)));
        });
        answer.recv().expect("an answer")
    };
    for round in 0..20_u8 {
        assert_eq!(
            ask(Io::write(0, vec![round; 8192])),
            (Ok(vec![]), false, false),
            "it waits in the buffer"
        );
        assert_eq!(ask(Io::flush()), (Ok(vec![]), true, false), "a flush");
        assert_eq!(
            ask(Io::write(65_536, vec![round; 4096]).fua(true)),
            (Ok(vec![]), true, false),
            "a FUA write"
        );
    }
    device.stop();
    running.join().expect("no panic").expect("it ends well");
}

#[test]
fn a_write_that_the_disk_refuses_is_an_error_and_the_end() {
    for wrong in [Wrong::Error, Wrong::Full] {
        let drive = drive(&["buffer.bytes=0"]);
        let disk = Disk::default();
        let how = How::default();
        let opened = create(Box::new(disk.clone()), Path::new("disk"), &drive, how, Unfinished::default())
            .expect("a new image");
        let options = Options { timing: Timing::Off, ..Options::default() };
        let (driver, device) = Driver::start(&drive, Some(opened), &options).expect("it starts");
        let running = std::thread::spawn(move || driver.run());
        disk.state().plan = Some((3, wrong, 1));
        let (to, answers) = std::sync::mpsc::channel();
        for n in 0..40 {
            let to = to.clone();
            device.submit(Io::write(n * 16_384, vec![1; 16_384]), move |outcome| {
                let _ = to.send(outcome);
            });
        }
        let ended = running.join().expect("no panic");
        assert!(matches!(ended, Err(Error::Io { .. })), "{wrong:?}");
        let outcomes: Vec<_> = answers.iter().take(40).collect();
        let good = outcomes.iter().filter(|outcome| outcome.is_ok()).count();
        assert!(good < 40 && outcomes[39].is_err(), "{wrong:?}: {outcomes:?}");
        // What was answered is there.
        disk.mended();
        let header = read_header(&disk).expect("read").expect("a header");
        let array = open_in(Box::new(disk.clone()), Path::new("disk"), &header, &drive, how)
            .expect("no damage")
            .array;
        let ssd = Ssd::power_on(&drive.config, Silicon(*array.expect("not empty")), 1).expect("it powers on");
        let (data, gone) = ssd.contents(0, good as u64 * 4);
        assert!(
            gone.is_empty() && data.iter().all(|&byte| byte == 1),
            "{wrong:?}: {good} writes were answered"
        );
    }
}

#[test]
fn a_machine_that_went_down_is_told_of() {
    let mut world = World::new(drive(&[]), How::default(), 1);
    let (mut ssd, mut image) = world.create();
    world.work(&mut ssd, &mut image, 200).expect("the disk works");
    drop(image);
    let at = Layout::new(&world.drive.config.unit_geometry()).session() as usize;
    let session = |durability, open| {
        let session = Session { boot: "another life".into(), open, ..Session::new(durability) };
        world.disk.state().bytes[at..at + 64].copy_from_slice(&session.bytes());
        world.open(false)
    };
    session(Durability::Process, false).expect("it was closed");
    session(Durability::Host, true).expect("it outlives the machine");
    let refused = session(Durability::Process, true).expect_err("something may be missing").to_string();
    assert!(refused.contains("the machine went down"), "{refused}");
    let opened = world.open(true).expect("it is accepted");
    assert_eq!(opened.damage.len(), 1);
    world.switch_on(opened, "accepted").expect("the disk works");
    world.open(false).expect("it was accepted");
}

#[test]
fn also_with_units_smaller_than_a_page() {
    cut(&["mapping.unit_bytes=4096", "recovery.checkpoint_interval=64"], 5, 3000);
}

#[test]
fn also_with_superblocks() {
    cut(
        &[
            "scheme.striping=superblock",
            "superblock.parity=2",
            "geometry.blocks_per_plane=32",
            "recovery.checkpoint_interval=64",
        ],
        6,
        3000,
    );
}
