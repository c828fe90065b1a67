//! Goal: every format is found by content and read as its documentation says.
//! Method: tiny invented samples, each with the requests that it must yield.
use nandle_trace::{Format, Op, Options, RegexFormat, Request, Source, TimeUnit, Trace, open, open_reader};
use std::io::Write;
use std::path::PathBuf;

fn sample(name: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("samples").join(name)
}

fn drain(trace: &mut Trace) -> Vec<Request> {
    let mut all = Vec::new();
    loop {
        let before = all.len();
        trace.fill(&mut all, 3).unwrap();
        if all.len() == before {
            return all;
        }
    }
}

fn brief(requests: &[Request]) -> Vec<(u64, Op, u64, u64)> {
    requests.iter().map(|r| (r.time_ns, r.op, r.offset, r.bytes)).collect()
}

const MIB: u64 = 1 << 20;

#[track_caller]
fn check(name: &str, format: Format, expected: &[(u64, Op, u64, u64)]) -> Trace {
    let mut trace = open(&sample(name), &Options::default()).unwrap();
    assert_eq!(trace.format(), format, "{name}");
    let requests = drain(&mut trace);
    assert_eq!(brief(&requests), expected, "{name}");
    let counts = trace.counts();
    assert_eq!(counts.requests, requests.len() as u64);
    assert_eq!(counts.rows, counts.requests + counts.skipped.values().sum::<u64>(), "{name}: {counts:?}");
    assert_eq!(counts.clamped, 0);
    trace
}

use Op::{Flush, Read, Trim, Write as W};

#[test]
fn msr() {
    let trace = check(
        "msr.csv",
        Format::Msr,
        &[
            (0, W, MIB, 4096),
            (1_200_000, W, MIB + 4096, 8192),
            (3_050_000, Read, MIB, 12288),
            (4_100_000, W, 2_099_712, 2560),
            (6_000_000, Read, 7 * MIB, 65536),
        ],
    );
    assert_eq!(trace.volumes()[0].name, "srv,0");
}

#[test]
fn msps_counts_from_the_issue_of_requests() {
    // Disk 1 ends at 2 MiB + 600h + A00h, so disk 2 starts at 3 MiB.
    let trace = check(
        "msps.csv",
        Format::Msps,
        &[
            (0, Read, MIB, 8192),
            (800_000, W, 2 * MIB + 0x600, 0xa00),
            (2_700_000, Flush, 0, 0),
            (3_000_000, Read, 3 * MIB + 3 * MIB, 65536),
        ],
    );
    assert_eq!(trace.counts().skipped["another event"], 3);
}

#[test]
fn spc_counts_blocks_and_bytes() {
    check(
        "spc.csv",
        Format::Spc,
        &[
            (0, W, 512_000, 4096),
            (1_250_000, W, 516_096, 3584),
            (2_000_000, Read, MIB + 32768, 8192),
            (10_500_000, Read, 512_000, 4096),
        ],
    );
}

#[test]
fn systor17_is_put_in_order() {
    let trace = check(
        "systor17.csv",
        Format::Systor17,
        &[(0, Read, 2 * MIB, 65536), (400_000, W, MIB, 4096), (1_900_000, W, 3 * MIB + 4096, 7680)],
    );
    assert_eq!(trace.counts().out_of_order, 1);
    assert_eq!(trace.counts().skipped["no IO type"], 1);
}

#[test]
fn alibaba_lays_devices_side_by_side() {
    let trace = check(
        "alibaba.csv",
        Format::Alibaba,
        &[
            (0, W, MIB, 4096),
            (400_000, Read, MIB, 8192),
            (1_000_000, W, 3 * MIB + 512_000, 1024),
            (2_500_000, W, 2 * MIB, 16384),
        ],
    );
    let volumes = trace.volumes();
    assert_eq!(volumes.len(), 2);
    assert_eq!((volumes[1].name.as_str(), volumes[1].base, volumes[1].requests), ("9", Some(3 * MIB), 1));
}

#[test]
fn tencent_is_spread_over_the_second() {
    let s = 1_000_000_000;
    check(
        "tencent.csv",
        Format::Tencent,
        &[
            (0, W, MIB, 4096),
            (s / 3, Read, MIB + 4096, 8192),
            (2 * s / 3, W, 2 * MIB + 65536, 4096),
            (s, W, MIB, 4096),
            (s + s / 2, Read, 2 * MIB + 2 * MIB, 32768),
        ],
    );
}

#[test]
fn fiu() {
    check(
        "fiu.txt",
        Format::Fiu,
        &[(0, W, MIB, 4096), (450_000, Read, 2 * MIB, 8192), (900_000, W, MIB + 4096, 4096)],
    );
}

#[test]
fn disksim_and_mqsim() {
    let expected = |ms: [u64; 4]| {
        [
            (ms[0], W, MIB, 4096),
            (ms[1], W, MIB + 4096, 8192),
            (ms[2], Read, MIB, 4096),
            (ms[3], W, 2 * MIB + 32768, 65536),
        ]
    };
    check("disksim.trace", Format::Disksim, &expected([0, 125_500, 875_000, 2_375_000]));
    check("mqsim.trace", Format::Mqsim, &expected([0, 250_000, 900_000, 1_500_000]));
}

#[test]
fn flashsim_says_what_it_took_for_granted() {
    let trace = check(
        "flashsim.trace",
        Format::Flashsim,
        &[(0, W, MIB, 4096), (310_000, W, MIB + 4096, 8192), (940_000, Read, MIB, 4096)],
    );
    assert!(trace.warnings()[0].contains("4 KiB"));
}

#[test]
fn diskmon() {
    check(
        "diskmon.txt",
        Format::Diskmon,
        &[(0, W, MIB, 4096), (500_000, Read, 2 * MIB, 32768), (150_000_000, W, 2051 * 512, 4096)],
    );
}

#[test]
fn wiscsee_counts_one_action() {
    check(
        "wiscsee.txt",
        Format::Wiscsee,
        &[(0, W, MIB, 4096), (500_000, Read, MIB, 8192), (750_000, Trim, 2 * MIB, MIB)],
    );
}

#[test]
fn blkparse_counts_one_action_over_all_cpus() {
    let trace = check(
        "blkparse.txt",
        Format::Blkparse,
        &[
            (0, W, MIB, 4096),
            (271_000, W, MIB + 4096, 4096),
            (291_000, Read, 2 * MIB, 32768),
            (491_000, Flush, 0, 0),
            (691_000, Trim, 4 * MIB, MIB),
        ],
    );
    assert_eq!(trace.counts().out_of_order, 1);
    let queued = Options { action: Some('Q'), ..Options::default() };
    let mut trace = open(&sample("blkparse.txt"), &queued).unwrap();
    assert_eq!(brief(&drain(&mut trace)), [(0, W, MIB, 4096)]);
}

/// Lines as blkparse printed them of RocksDB on an NVMe drive, with a flush that is an empty write.
#[test]
fn an_empty_write_that_flushes_is_a_flush() {
    let text = |action| {
        format!(
            "259,4 5 1277 2.204290000 3221 {action} WS 2048 + 8 [rocksdb:high10]\n\
             259,4 5 1278 2.204293497 3221 {action} FWS [rocksdb:high10]\n\
             259,4 5 1279 2.204299000 3221 {action} N [smartctl]\n"
        )
    };
    for (action, flushes) in [('Q', 1), ('G', 1), ('I', 1), ('D', 1), ('C', 0)] {
        let options = Options { action: Some(action), ..Options::default() };
        let reader = Box::new(std::io::Cursor::new(text(action)));
        let rows = brief(&drain(&mut open_reader("t", reader, &options).unwrap()));
        let expected = [(0, W, MIB, 4096), (3497, Flush, 0, 0)];
        assert_eq!(rows, expected[..=flushes], "{action}");
    }
}

#[test]
fn fio_iologs() {
    let expected = |t: [u64; 4]| {
        [(t[0], W, MIB, 4096), (t[1], Read, MIB, 8192), (t[2], Trim, 2 * MIB, MIB), (t[3], Flush, 0, 0)]
    };
    check("fio-iolog-v2.log", Format::FioIolog, &expected([0, 250_000, 750_000, 750_000]));
    check("fio-iolog-v3.log", Format::FioIolog, &expected([0, 250_000, 690_000, 700_000]));
}

#[test]
fn srt_is_found_behind_its_text_header_and_without_it() {
    let rows = [(0, Read, MIB, 8192), (1_500_000, W, 3 * MIB, 4096)];
    let third = |at| (2_250_000_000, W, at, 1024);
    // Two devices: the second begins where the first ends, at the next MiB.
    let trace = check("srt.bin", Format::Srt, &[rows[0], rows[1], third(4 * MIB + 5120)]);
    assert_eq!(trace.volumes().iter().map(|v| &*v.name).collect::<Vec<_>>(), ["2", "3"]);
    assert_eq!(trace.counts().skipped["marked as suspect by the tracer"], 1);
    assert_eq!(trace.counts().skipped["another event"], 1);
    let bytes = std::fs::read(sample("srt.bin")).unwrap();
    let records = bytes.iter().position(|&b| b == 0x0c).unwrap() + 1;
    // The same in the other byte order, without a header, cut off in the middle of the last record.
    let swapped: Vec<u8> = bytes[records..].chunks_exact(4).flat_map(|w| [w[3], w[2], w[1], w[0]]).collect();
    let cut = swapped.len() - 8;
    let bytes: &'static [u8] = swapped[..cut].to_vec().leak();
    let mut trace = open_reader("t", Box::new(bytes), &Options::default()).unwrap();
    assert_eq!(trace.format(), Format::Srt);
    let mut all = vec![];
    let error = trace.fill(&mut all, 10).unwrap_err().to_string();
    assert!(error.contains("5: the file ends after"), "{error}");
}

#[test]
fn columns_are_known_by_their_names() {
    let expected = [
        (0, Read, MIB, 8192),
        (250_500, W, 3 * MIB, 4096),
        (1_000_000, Flush, 0, 0),
        (1_100_000, Trim, 4096, 4096),
    ];
    let trace = check("columns.tsv", Format::Tsv, &expected);
    assert!(trace.warnings().iter().any(|w| w.contains("address counts 512 bytes and a size 1")));
    let open = |text: &'static str| open_reader("t", Box::new(text.as_bytes()), &Options::default());
    let all_in_bytes = "time_s\trw\toffset\tlength\n0.5\tr\t0x1000\t512\n";
    assert_eq!(brief(&drain(&mut open(all_in_bytes).unwrap())), [(0, Read, 4096, 512)]);
    let in_sectors = "time\top\tstart_sector\tsectors\n1\tw\t8\t16\n";
    assert_eq!(brief(&drain(&mut open(in_sectors).unwrap())), [(0, W, 4096, 8192)]);
    assert!(open("time\top\toffset\n1\tw\t8\n").is_err(), "no size");
    let mut bad = open("time\top\toffset\tsize\n1\tx\t8\t512\n").unwrap();
    let error = bad.fill(&mut vec![], 10).unwrap_err().to_string();
    assert!(error.contains("the operation is \"x\""), "{error}");
}

#[test]
fn columns_count_in_the_units_of_their_names() {
    let open = |header: &str, options: &Options| {
        let text = header.replace(' ', "\t").replace('~', " ") + "\n0\tw\t0\t1\n3\tr\t5\t7\n";
        open_reader("t", Box::new(std::io::Cursor::new(text)), options).unwrap()
    };
    // The second row: 3 of the clock, 5 of addresses, 7 of sizes.
    for (header, time_ns, offset, bytes) in [
        ("Timestamp(usec) Op Offset(MB) Size(MiB)", 3_000, 5 << 20, 7 << 20),
        ("time_nsec rw offset_kb length_kbytes", 3, 5 << 10, 7 << 10),
        ("time_msec rw lba sectors", 3_000_000, 5 * 512, 7 * 512),
        ("Time~(µs) rw Offset~[GiB] Size~{B}", 3_000, 5 << 30, 7),
        ("ts_micros op sector~(bytes) size", 3_000, 5, 7),
        ("time_millis op offset block_bytes_size", 3_000_000, 5, 7),
        ("Arrival~(ns,~relative) op offset size_bytes", 3, 5, 7),
    ] {
        let rows = brief(&drain(&mut open(header, &Options::default())));
        assert_eq!(rows[1], (time_ns, Read, offset, bytes), "{header}");
    }
    let unknown = |header, options: &Options| {
        let mut trace = open(header, options);
        let error = trace.fill(&mut vec![], 10).unwrap_err().to_string();
        assert!(error.starts_with("t:1: column \"") && error.contains("not known, expected"), "{error}");
        error
    };
    for header in [
        "Time(fortnights) op offset size",
        "Time(100~ns) op offset size",
        "time_jiffies op offset size",
        "Time(sec.usec) op offset size",
    ] {
        assert!(unknown(header, &Options::default()).contains("--time-unit"), "{header}");
        let told = Options { time_unit: Some(TimeUnit::Ms), ..Options::default() };
        assert_eq!(drain(&mut open(header, &told))[1].time_ns, 3_000_000, "{header}");
    }
    for header in [
        "time op Offset(4K~blocks) size",
        "time op offset Size~(pages)",
        "time op offset_tib size",
        "ts op lba size_pages",
    ] {
        assert!(unknown(header, &Options::default()).contains("--regex"), "{header}");
    }
}

#[test]
fn blktrace_is_read_as_blkparse_prints_it() {
    let trace = check(
        "blktrace.bin",
        Format::Blktrace,
        &[
            (0, W, MIB, 4096),
            (400_000, Read, 2 * MIB, 16_384),
            (500_000, Flush, 0, 0),
            (600_000, W, 4 * MIB, 8192),
            (700_000, Trim, 8 * MIB, MIB),
        ],
    );
    assert_eq!(trace.volumes()[0].name, "259,0");
    let skipped = &trace.counts().skipped;
    assert_eq!((skipped["message"], skipped["another action"]), (1, 2));
    assert_eq!(skipped["no data (passthrough command)"], 1);
    let mut trace = open(&sample("blktrace.bin"), &Options::default()).unwrap();
    assert_eq!(
        drain(&mut trace).iter().map(|r| r.fua).collect::<Vec<_>>(),
        [false, false, false, true, false]
    );
    // Another point of a request's life.
    let options = Options { action: Some('Q'), ..Options::default() };
    let queued = brief(&drain(&mut open(&sample("blktrace.bin"), &options).unwrap()));
    assert_eq!(queued, [(0, W, MIB, 4096)]);
    let options = Options { action: Some('Z'), ..Options::default() };
    assert!(open(&sample("blktrace.bin"), &options).is_err());
    // With the cgroup of each, as the kernel does: bit 8 of the action, and 8 bytes counted in what follows.
    let bytes = std::fs::read(sample("blktrace.bin")).unwrap();
    let (mut with_cgroups, mut at) = (Vec::new(), 0);
    while at < bytes.len() {
        let follows = usize::from(u16::from_le_bytes([bytes[at + 46], bytes[at + 47]]));
        let mut record = bytes[at..at + 48].to_vec();
        record[29] |= 1;
        record[46..].copy_from_slice(&(follows as u16 + 8).to_le_bytes());
        with_cgroups.extend([&record, &77u64.to_le_bytes()[..], &bytes[at + 48..at + 48 + follows]].concat());
        at += 48 + follows;
    }
    let mut other =
        open_reader("t", Box::new(std::io::Cursor::new(with_cgroups)), &Options::default()).unwrap();
    let mut same = open(&sample("blktrace.bin"), &Options::default()).unwrap();
    assert_eq!(drain(&mut other), drain(&mut same));
    assert_eq!(other.counts(), same.counts());
    // Cut off within a record.
    let bytes = std::fs::read(sample("blktrace.bin")).unwrap();
    let cut = std::io::Cursor::new(bytes[..bytes.len() - 9].to_vec());
    let mut trace = open_reader("cut", Box::new(cut), &Options::default()).unwrap();
    let error = trace.fill(&mut Vec::new(), 100).expect_err("cut off");
    assert!(error.to_string().contains("the file ends"), "{error}");
}

#[test]
fn biosnoop_counts_from_the_issue_of_requests() {
    // As bcc prints it, with blanks in a command; two were issued at the same time.
    check(
        "biosnoop-bcc.txt",
        Format::Biosnoop,
        &[(0, W, MIB, 4096), (0, Read, 2 * MIB, 16_384), (2_750_000, W, 4 * MIB, 8192)],
    );
    // As Linux 6.18 gave it to examples/trace/blockio.bt: ext4 on a loop device.
    let trace = check(
        "biosnoop.txt",
        Format::Biosnoop,
        &[
            (0, Flush, 0, 0),
            (16_637_000, W, 17_154 * 512, 81_920),
            (16_916_000, Flush, 0, 0),
            (32_221_000, W, 32_842 * 512, 1024),
            (38_841_000, W, 17_794 * 512, 65_536),
            (51_959_000, W, 32_854 * 512, 1024),
        ],
    );
    assert_eq!(trace.volumes()[0].name, "7,0");
    let without =
        "TIME(ms)     DISK    COMM             PID    LAT(ms)\n611          nvme0n1 bash  4179        10\n";
    let mut trace = open_reader("bt", Box::new(without.as_bytes()), &Options::default()).unwrap();
    let error = trace.fill(&mut Vec::new(), 100).expect_err("no addresses");
    assert!(error.to_string().contains("prints no"), "{error}");
}

#[test]
fn vscsi() {
    check(
        "vscsi-v1.bin",
        Format::Vscsi,
        &[
            (0, W, MIB, 4096),
            (250_000, Read, MIB, 8192),
            (300_000, Flush, 0, 0),
            (900_000, W, 2057 * 512, 3584),
        ],
    );
    check(
        "vscsi-v2.bin",
        Format::Vscsi,
        &[(0, W, MIB, 4096), (250_000, Read, MIB, 8192), (900_000, W, 2057 * 512, 3584)],
    );
}

#[test]
fn nandle_keeps_everything() {
    let mut trace = open(&sample("nandle.csv"), &Options::default()).unwrap();
    let all = drain(&mut trace);
    assert_eq!(all.len(), 7);
    let (alloc, write) = (all[0], all[3]);
    assert_eq!((alloc.op, alloc.object, alloc.bytes), (Op::FlashAlloc, 7, MIB));
    assert_eq!((write.stream, write.fua, write.time_ns), (2, true, 4000));
    assert_eq!(all[5].op, Op::FlashFree);
    let mut trace = open(&sample("nandle.parquet"), &Options::default()).unwrap();
    assert_eq!(drain(&mut trace), all);
    let forced = Options { format: Some(Format::Nandle), ..Options::default() };
    assert_eq!(open(&sample("nandle.parquet"), &forced).unwrap().format(), Format::NandleParquet);
    // Compressed from outside, or from a pipe, it is read from memory.
    let packed = zstd::encode_all(&std::fs::read(sample("nandle.parquet")).unwrap()[..], 1).unwrap();
    let mut trace = open_reader("-", Box::new(std::io::Cursor::new(packed)), &Options::default()).unwrap();
    assert_eq!(drain(&mut trace), all);
}

/// Files of pyarrow 26.0.1, as `pyarrow.parquet.write_table(table, path, compression=...)` makes them.
#[test]
fn parquet_of_others_is_read_however_it_is_packed() {
    for name in ["pyarrow-gzip.parquet", "pyarrow-lz4.parquet"] {
        let expected = [
            (0, W, MIB, 4096),
            (1000, Read, 2 * MIB, 8192),
            (250_000, Trim, 4 * MIB, MIB),
            (900_000, Flush, 0, 0),
        ];
        check(name, Format::NandleParquet, &expected);
    }
    let packed: &[u8] = include_bytes!("pyarrow-brotli.parquet");
    let mut trace = open_reader("t", Box::new(packed), &Options::default()).unwrap();
    let error = trace.fill(&mut vec![], 10).unwrap_err().to_string();
    let expected =
        "column \"time_ns\" is compressed with brotli, expected gzip, lz4, snappy, zstd or nothing";
    assert!(error.contains(expected), "{error}");
}

#[test]
fn regex_is_the_way_out() {
    let mut spec = RegexFormat::new(
        r"\] (?<time>[0-9.]+) (?<volume>\w+): (?<op>\w+) sector=(?<offset>\d+) n=(?<bytes>\d+)",
    );
    (spec.offset_unit_bytes, spec.size_unit_bytes) = (512, 512);
    let options = Options { regex: Some(spec), ..Options::default() };
    let mut trace = open(&sample("regex.txt"), &options).unwrap();
    assert_eq!(
        brief(&drain(&mut trace)),
        [(0, W, MIB, 4096), (250_000, Read, 2 * MIB, 32768), (999_900_000, Trim, 4 * MIB, MIB)]
    );
    assert_eq!(trace.counts().skipped["not matched by the expression"], 1);
    assert!(open(&sample("regex.txt"), &Options::default()).is_err());
    let lacking = Options { regex: Some(RegexFormat::new("(?<time>x)")), ..Options::default() };
    assert!(open(&sample("regex.txt"), &lacking).err().unwrap().to_string().contains("\"op\""));
}

#[test]
fn compression_is_seen_through() {
    let plain = std::fs::read(sample("msr.csv")).unwrap();
    let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::default());
    gz.write_all(&plain).unwrap();
    let mut xz = liblzma::write::XzEncoder::new(Vec::new(), 1);
    xz.write_all(&plain).unwrap();
    let zst = zstd::encode_all(&plain[..], 1).unwrap();
    // With a frame of 4 bytes that decoders skip, before and within.
    let skipped = b"\x5a\x2a\x4d\x18\x04\0\0\0abcd";
    let halves = [&plain[..100], &plain[100..]].map(|half| zstd::encode_all(half, 1).unwrap());
    let in_frames = [&skipped[..], &halves[0], &skipped[..], &halves[1]].concat();
    for packed in [gz.finish().unwrap(), xz.finish().unwrap(), zst, in_frames, plain] {
        let reader = Box::new(std::io::Cursor::new(packed.clone()));
        let mut trace = open_reader("-", reader, &Options::default()).unwrap();
        assert_eq!(drain(&mut trace).len(), 5);
        let cut = Box::new(std::io::Cursor::new(packed[..packed.len() - 13].to_vec()));
        // A cut file is an error when opened or read, or (plain text) a line that makes no sense.
        let mut all = Vec::new();
        assert!(open_reader("-", cut, &Options::default()).and_then(|mut t| t.fill(&mut all, 100)).is_err());
    }
}

#[test]
fn blank_lines_and_comments_are_passed_over() {
    for name in ["alibaba.csv", "blkparse.txt", "columns.tsv", "fio-iolog-v2.log", "msr.csv", "nandle.csv"] {
        let plain = std::fs::read_to_string(sample(name)).unwrap();
        let spaced = format!("  # a remark\n \t\n\n{}", plain.replace('\n', "\n   \n\t# again\n"));
        let mut trace =
            open_reader("t", Box::new(std::io::Cursor::new(spaced)), &Options::default()).unwrap();
        let mut same = open(&sample(name), &Options::default()).unwrap();
        assert_eq!(trace.format(), same.format(), "{name}");
        // In a pipe each volume has a terabyte.
        let rows = |trace| drain(trace).iter().map(|r| (r.time_ns, r.op, r.bytes)).collect::<Vec<_>>();
        assert_eq!(rows(&mut trace), rows(&mut same), "{name}");
    }
}

#[test]
fn a_volume_can_be_chosen() {
    let options = Options { volume: Some("9".into()), ..Options::default() };
    let mut trace = open(&sample("alibaba.csv"), &options).unwrap();
    assert_eq!(brief(&drain(&mut trace)), [(0, W, 512_000, 1024)]);
    assert_eq!(trace.counts().skipped["another volume"], 3);
    let options = Options { volume: Some("8".into()), ..Options::default() };
    let mut trace = open(&sample("alibaba.csv"), &options).unwrap();
    let error = trace.fill(&mut Vec::new(), 10).unwrap_err().to_string();
    assert!(error.contains("\"8\"") && error.contains("7  9"), "{error}");
}

#[test]
fn from_a_pipe_volumes_get_a_terabyte_each() {
    let text = std::fs::read(sample("alibaba.csv")).unwrap();
    let mut trace = open_reader("-", Box::new(std::io::Cursor::new(text)), &Options::default()).unwrap();
    assert_eq!(drain(&mut trace)[2].offset, (1 << 40) + 512_000);
    assert!(trace.warnings()[0].contains("1 TiB"));
}

#[test]
fn units_are_inferred_and_overridden() {
    let dense: String = (0..200).map(|i| format!("{} 0 {} 8 1\n", i * 1_003, i * 8)).collect();
    let read = |options: &Options| {
        let reader = Box::new(std::io::Cursor::new(dense.clone().into_bytes()));
        let mut trace = open_reader("dense", reader, options).unwrap();
        (drain(&mut trace)[1].time_ns, trace.time_unit(), trace.warnings())
    };
    let (time, unit, warnings) = read(&Options::default());
    assert_eq!((time, unit), (1_003_000, TimeUnit::Us));
    assert!(warnings[0].contains("taken as us"), "{warnings:?}");
    let (time, ..) = read(&Options { time_unit: Some(TimeUnit::Ns), ..Options::default() });
    assert_eq!(time, 1_003);
    let text: String = (0..100)
        .map(|i| format!("{},h,0,Read,{},512,1\n", 128_000_000_000_000_000u64 + i, i * 512))
        .collect();
    let trace = open_reader("fast", Box::new(std::io::Cursor::new(text)), &Options::default()).unwrap();
    assert!(trace.warnings()[0].contains("absurd"), "{:?}", trace.warnings());
}

#[test]
fn errors_name_file_line_and_expectation() {
    for (text, line, part) in [
        (
            "128000000000000000,h,0,Write,0,512,1\n128000000000000000,h,0,Wrong,0,512,1\n",
            2,
            "\"Wrong\", expected Read or Write",
        ),
        ("0,1,512,w,0.1\n0,2,512,w,0.2\n0,x,512,w,0.3\n", 3, "field 2 (LBA) is \"x\""),
        ("time_ns,op,offset,bytes\n1,write,0\n", 2, "field 4 (bytes) is missing"),
        ("time_ns,op,offset\n1,write,0\n", 1, "no column \"bytes\""),
        ("1,R,0,99999999999,5\n1,R,0,512,5\n", 1, "is the unit right?"),
        ("1,R,18446744073709551615,512,5\n", 1, "beyond any device"),
    ] {
        let mut all = Vec::new();
        let reader = Box::new(std::io::Cursor::new(text.as_bytes()));
        let error = open_reader("some.trace", reader, &Options::default())
            .and_then(|mut t| t.fill(&mut all, 100))
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(&format!("some.trace:{line}: ")) && error.contains(part), "{error}");
    }
}

#[test]
fn windows_text_and_late_events_are_recognised() {
    let text = b"\xef\xbb\xbftime_ns,op,offset,bytes\r\n5,write,0,512\r\n";
    let mut trace = open_reader("bom", Box::new(&text[..]), &Options::default()).unwrap();
    assert_eq!(brief(&drain(&mut trace)), [(5, W, 0, 512)]);
    let text = "P-Start, 1, a (1)\n".repeat(50) + "  DiskFlush, 70, a (1), 7, 0x1, 5, 0, 0x0, 0, 0\n";
    let mut trace = open_reader("etw", Box::new(std::io::Cursor::new(text)), &Options::default()).unwrap();
    assert_eq!(trace.format(), Format::Msps);
    assert_eq!(brief(&drain(&mut trace)), [(0, Flush, 0, 0)]);
    assert_eq!(trace.counts().to_string(), "51 rows, 1 requests; skipped 50: another event");
}

#[test]
fn options_that_would_do_nothing_are_refused() {
    let regex = Some(RegexFormat::new("x"));
    for (name, options) in [
        ("msr.csv", Options { action: Some('Q'), ..Options::default() }),
        ("nandle.csv", Options { time_unit: Some(TimeUnit::Us), ..Options::default() }),
        ("msr.csv", Options { format: Some(Format::Msr), regex, ..Options::default() }),
        ("wiscsee.txt", Options { action: Some('Q'), ..Options::default() }),
        ("blkparse.txt", Options { action: Some('d'), ..Options::default() }),
    ] {
        assert!(matches!(open(&sample(name), &options), Err(nandle_trace::Error::Input(_))), "{name}");
    }
}
