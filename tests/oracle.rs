//! Goal: every read returns the last write, on devices so small that garbage collection, wear
//! levelling and full-device conditions happen all the time.
//! Method: seeded random traffic against the oracle, several requests in flight, structural checks
//! along the way, over a set of very different devices.

mod devices;
#[allow(dead_code)]
#[path = "devices/drive.rs"]
mod drive;
#[path = "devices/torture.rs"]
mod torture;
use devices::small_devices;
use drive::closed;
use nandle_random::Stream;
use nandle_ssd::{Op, Ssd};
use torture::{cut_power, run};

#[test]
fn reads_return_the_last_write() {
    for (name, config) in small_devices() {
        let (ssd, oracle) = run(&config, 1, 20_000);
        assert_eq!(oracle.mismatches, 0, "{name}: {:?}", oracle.first);
        assert!(oracle.checked > 5_000, "{name}: only {} sectors were checked", oracle.checked);
        assert!(ssd.stats().gc_invocations > 50, "{name}: hardly any garbage collection");
        println!("{name}: {} sectors, {:?}", oracle.checked, ssd.stats());
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

/// With dynamic striping a plane can be full of live pages, and find garbage later that writes to other
/// planes left there.
#[test]
fn full_devices_with_dynamic_striping_go_on() {
    for seed in 0..8 {
        let mut config = devices::base();
        config.geometry.blocks_per_plane = 16;
        config.buffer.bytes = 16 << 10;
        config.scheme.striping = "dynamic".into();
        config.op_ratio = 0.0;
        while let Err(e) = config.validate() {
            let least = e.expected.strip_prefix("at least ").and_then(|s| s.split(':').next());
            config.op_ratio = least.and_then(|n| n.parse().ok()).expect("the error names a number");
        }
        let mut ssd = Ssd::new(&config, 0, 1).expect("a valid device");
        let pages = ssd.layout().logical_sectors / 8;
        let mut draw = Stream::new(seed, "dynamic");
        closed(&mut ssd, 8, pages, |n| (Op::Write, n * 8, 8));
        closed(&mut ssd, 8, 5_000, |_| (Op::Write, draw.below(pages) * 8 + draw.below(4), 1 + draw.below(4)));
        ssd.check();
    }
}
