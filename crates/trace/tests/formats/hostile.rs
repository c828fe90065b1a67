//! Goal: no input makes a reader panic, loop, or invent requests.
//! Method: random bytes and damaged samples through detection and every reader; the fuzz target does the same at
//! length.
use nandle_trace::{Format, Info, InfoOptions, Options, RegexFormat, Source, open_reader};
use proptest::prelude::*;
use std::path::Path;
use std::sync::OnceLock;

fn options(format: Option<Format>) -> Options {
    let pattern = r"(?<time>[0-9.]+)\D+(?<op>\w+)\D+(?<offset>\d+)\D+(?<bytes>\d+)";
    Options {
        format,
        regex: (format == Some(Format::Regex)).then(|| RegexFormat::new(pattern)),
        sort_window: 4,
        ..Options::default()
    }
}

/// Reads to the end or to an error; returns requests and whether there was an error.
fn run(data: &[u8], format: Option<Format>) -> (usize, bool) {
    let reader = || Box::new(std::io::Cursor::new(data.to_vec()));
    let Ok(mut trace) = open_reader("hostile", reader(), &options(format)) else { return (0, true) };
    let (mut all, mut last) = (Vec::new(), 0);
    let failed = loop {
        let before = all.len();
        if trace.fill(&mut all, 7).is_err() {
            break true;
        }
        if all.len() == before {
            break false;
        }
        for request in &all[before..] {
            assert!(request.time_ns >= last, "time goes back");
            assert!(request.offset.checked_add(request.bytes).is_some());
            last = request.time_ns;
        }
    };
    // Parquet packs runs of equal rows into a few bytes; everything else takes a byte a row at the least.
    assert!(
        all.len() <= data.len() || trace.format() == Format::NandleParquet,
        "{} requests from {} bytes",
        all.len(),
        data.len()
    );
    assert_eq!(trace.counts().requests, all.len() as u64);
    if let Ok(mut trace) = open_reader("hostile", reader(), &options(format)) {
        let small = InfoOptions { max_entries: 1 << 10, ..InfoOptions::default() };
        assert!(failed || Info::of(&mut trace, &small).is_ok());
    }
    (all.len(), failed)
}

fn samples() -> &'static [Vec<u8>] {
    static SAMPLES: OnceLock<Vec<Vec<u8>>> = OnceLock::new();
    SAMPLES.get_or_init(|| {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("samples");
        let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|f| f.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(|p| std::fs::read(p).unwrap()).collect()
    })
}

/// Few by default; `NANDLE_HOSTILE_CASES` asks for more.
fn cases() -> u32 {
    std::env::var("NANDLE_HOSTILE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(96)
}

fn all_formats(data: &[u8]) {
    for format in std::iter::once(None).chain(Format::ALL.map(Some)) {
        run(data, format);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    #[test]
    fn random_bytes(data in prop::collection::vec(any::<u8>(), 0..600)) {
        all_formats(&data);
    }

    #[test]
    fn random_text(data in "[0-9a-zA-Z, .\t\n+-]{0,400}") {
        all_formats(data.as_bytes());
    }

    #[test]
    fn damaged_samples(which in any::<prop::sample::Index>(), edits in prop::collection::vec(
        (any::<prop::sample::Index>(), any::<u8>(), 0u8..5), 1..6)) {
        let mut data = which.get(samples()).clone();
        for (at, byte, kind) in edits {
            if data.is_empty() {
                break;
            }
            let at = at.index(data.len());
            match kind {
                0 => data[at] = byte,
                1 => data.insert(at, byte),
                2 => drop(data.remove(at)),
                3 => data.truncate(at),
                _ => data[at] = b'9',
            }
        }
        all_formats(&data);
    }
}

#[test]
fn undamaged_samples_are_read() {
    for data in samples() {
        let (requests, failed) = run(data, None);
        // All but the one for the user's own expression.
        assert!(requests > 0 && !failed || data.starts_with(b"[12:00"));
    }
}

#[test]
fn extremes_are_refused_or_read() {
    let long = [b"0,".as_slice(), &[b'1'; 100_000]].concat();
    let deep = "1,R,4611686018427387904,512,1\n".repeat(3);
    let far = "0,0,512,w,0.1\n1,0,512,w,18446744073.709551615\n0,0,512,r,0\n".repeat(20);
    let late = "18446744073709551615 0 1 1 1\n0 0 1 1 1\n".repeat(30);
    for data in [
        long.as_slice(),
        deep.as_bytes(),
        far.as_bytes(),
        late.as_bytes(),
        b"PAR1",
        b"PAR1PAR1",
        b"\n",
        b"\0",
    ] {
        all_formats(data);
    }
}
