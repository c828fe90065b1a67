//! Any bytes as a device file, with a sum of schemes and an override taken from its first lines: either
//! a device that stands, or one error.
//!
//! `cargo +nightly fuzz run device fuzz/corpus/device drives`
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandle_lab::config::Wanted;
use nandle_ssd::Ssd;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let mut lines = text.lines();
    let scheme = lines.next();
    let sets: Vec<String> = lines.next().map(str::to_owned).into_iter().collect();
    for (scheme, sets) in [(None, &[][..]), (scheme, &[]), (None, &sets), (scheme, &sets)] {
        let wanted = Wanted { device: "", scheme, sets };
        if let Ok(drive) = wanted.load_text(text, "fuzz")
            && drive.config.geometry.pages() < 1 << 16
        {
            Ssd::new(&drive.config, 0, 1).expect("a checked device can be built");
        }
    }
});
