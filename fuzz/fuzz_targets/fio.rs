//! Any bytes as a fio job file: either a workload, of which the first requests are drawn, or one error.
//!
//! `cargo +nightly fuzz run fio`
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use nandle_trace::fio;
use nandle_trace::synthetic::Target;

fuzz_target!(|data: &[u8]| {
    let Ok(text) = std::str::from_utf8(data) else { return };
    let target =
        Target { logical_bytes: 1 << 24, page_bytes: 4096, sector_bytes: 512, seed: 1, requests: None };
    let Ok(workload) = fio::workload(text, Path::new("fuzz.fio"), &target) else { return };
    for phase in workload.phases {
        let mut requests = Vec::new();
        phase.into_source().fill(&mut requests, 256).expect("what is drawn can be had");
        assert!(requests.iter().all(|r| r.offset.checked_add(r.bytes).is_some()));
    }
});
