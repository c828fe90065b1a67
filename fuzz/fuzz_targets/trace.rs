//! Any bytes as a trace: found by content, then forced through every reader, then described.
//!
//! `cargo +nightly fuzz run trace fuzz/corpus/trace crates/trace/samples`
#![no_main]

use libfuzzer_sys::fuzz_target;
use nandle_trace::{Format, Info, InfoOptions, Options, RegexFormat, Source, open_reader};

fuzz_target!(|data: &[u8]| {
    let pattern = r"(?<time>[0-9.]+)\D+(?<op>\w+)\D+(?<offset>\d+)\D+(?<bytes>\d+)";
    for format in std::iter::once(None).chain(Format::ALL.map(Some)) {
        let options = Options {
            format,
            regex: (format == Some(Format::Regex)).then(|| RegexFormat::new(pattern)),
            // Small, so that little data crosses the window.
            sort_window: 8,
            ..Options::default()
        };
        let Ok(mut trace) = open_reader("fuzz", Box::new(std::io::Cursor::new(data.to_vec())), &options)
        else {
            continue;
        };
        let (mut requests, mut last, mut total) = (Vec::new(), 0, 0);
        loop {
            requests.clear();
            if trace.fill(&mut requests, 64).is_err() || requests.is_empty() {
                break;
            }
            for request in &requests {
                assert!(request.time_ns >= last && request.offset.checked_add(request.bytes).is_some());
                last = request.time_ns;
            }
            total += requests.len() as u64;
        }
        assert_eq!(trace.counts().requests, total);
        if let Ok(mut trace) = open_reader("fuzz", Box::new(std::io::Cursor::new(data.to_vec())), &options) {
            let _ = Info::of(&mut trace, &InfoOptions { max_entries: 1 << 12, ..InfoOptions::default() });
        }
    }
});
