//! Goal: every read returns the last write, on devices so small that garbage collection, wear
//! levelling and full-device conditions happen all the time.
//! Method: seeded random traffic against the oracle, several requests in flight, structural checks
//! along the way, over a set of very different devices.

use crate::devices;
use crate::torture;
use devices::{base, least, small_devices};
use nandle_ssd::nand::{CellKind, ProgramOrder};
use torture::{cut_power, run};

#[test]
fn reads_return_the_last_write() {
    for (name, config) in small_devices() {
        let (ssd, oracle) = run(&config, 1, 20_000);
        assert_eq!(oracle.verdict(), Ok(()), "{name}");
        assert!(oracle.checked() > 5_000, "{name}: only {} sectors were checked", oracle.checked());
        assert!(ssd.stats().gc_invocations > 50, "{name}: hardly any garbage collection");
        println!("{name}: {} sectors, {:016x}, {:?}", oracle.checked(), ssd.digest(), ssd.stats());
    }
}

#[test]
fn the_same_seed_gives_the_same_digest() {
    for (name, config) in small_devices() {
        let digest = |seed| run(&config, seed, 3_000).0.digest();
        assert_eq!(digest(5), digest(5), "{name}");
        assert_ne!(digest(5), digest(6), "{name}");
    }
}

#[test]
fn power_cuts_lose_nothing_that_was_flushed() {
    for (name, config) in small_devices() {
        cut_power(name, &config, 3, 60);
    }
}

/// Where every few copies bring a page of the checkpoint, collection keeps what it gains: seven pages a
/// block, two streams' open blocks of each page type, hardly a dead page.
#[test]
fn checkpoints_leave_collection_what_it_gains() {
    let mut config = base();
    let g = &mut config.geometry;
    (g.channels, g.blocks_per_plane, g.pages_per_block, g.page_bytes) = (1, 13, 7, 1024);
    config.cell.kind = CellKind::Tlc;
    config.cell.program_order = ProgramOrder::Relaxed;
    config.scheme.allocation = "size-based".into();
    config.scheme.streams = "multi-stream".into();
    config.streams.count = 3;
    config.recovery.checkpoint_interval = 2;
    let config = least(config);
    for seed in 0..20 {
        let (ssd, oracle) = run(&config, seed, 5_000);
        assert_eq!(oracle.verdict(), Ok(()), "seed {seed}");
        assert!(ssd.stats().checkpoint_pages > 100 && ssd.stats().gc_invocations > 50, "{:?}", ssd.stats());
    }
}
