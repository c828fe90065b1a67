//! Goal: every read returns the last write, on devices so small that garbage collection, wear
//! levelling and full-device conditions happen all the time.
//! Method: seeded random traffic against the oracle, several requests in flight, structural checks
//! along the way, over a set of very different devices.

mod devices;
#[path = "devices/torture.rs"]
mod torture;
use devices::small_devices;
use torture::{cut_power, run};

#[test]
fn reads_return_the_last_write() {
    for (name, config) in small_devices() {
        let (ssd, oracle) = run(&config, 1, 20_000);
        assert_eq!(oracle.mismatches, 0, "{name}: {:?}", oracle.first);
        assert!(oracle.checked > 5_000, "{name}: only {} sectors were checked", oracle.checked);
        assert!(ssd.stats().gc_invocations > 50, "{name}: hardly any garbage collection");
        println!("{name}: {} sectors, {:016x}, {:?}", oracle.checked, ssd.digest(), ssd.stats());
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
