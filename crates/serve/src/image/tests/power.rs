//! Goal: with `--durability host` everything that a flush or a FUA write covered is there after the machine went down,
//! whatever its disk had done by then.
//! Method: what a drive under random load does to its disk is kept. Of it, up to any point, everything before the last
//! sync is done, and of what came after it nothing, all, or any part: writes in any selection, whole or torn at 512
//! bytes. From each such disk a drive is switched on and every sector compared with what was promised by then.

use super::disk::{Disk, State, Step};
use super::world::World;
use super::*;

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
    let every = if nightly() { 1 } else { steps.len() as u64 / 60 };
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
