//! Small job files with exact expectations, the messages of wrong ones, and random ones.

use super::*;
use crate::synthetic::measure::drain;
use crate::{Op, Request, Turn};
use proptest::prelude::*;
use std::collections::HashSet;

const MIB: u64 = 1 << 20;

fn target() -> Target {
    Target { logical_bytes: 64 * MIB, page_bytes: 8192, sector_bytes: 512, seed: 9, requests: None }
}

fn load(text: &str) -> Workload {
    workload(text, Path::new("jobs/test.fio"), &target()).unwrap()
}

fn message(text: &str) -> String {
    workload(text, Path::new("test.fio"), &target()).unwrap_err().to_string()
}

/// Requests of each phase; the count announced must be right.
fn run(text: &str) -> Vec<(Replay, Vec<Request>)> {
    let phases = load(text).phases.into_iter();
    let drained = phases.map(|p| {
        let (announced, replay) = (p.requests, p.users[0].replay);
        let requests = drain(p.into_source());
        assert!(
            announced.is_none_or(|n| n == requests.len() as u64),
            "{announced:?} announced, {}",
            requests.len()
        );
        (replay, requests)
    });
    drained.collect()
}

fn only(text: &str) -> Vec<Request> {
    run(text).pop().unwrap().1
}

#[test]
fn sequential_write_covers_its_size_in_order() {
    let requests = only("[w]\nrw=write\nbs=64k\noffset=1m\nsize=2m\n");
    assert_eq!(requests.len(), 32);
    for (i, r) in (0_u64..).zip(&requests) {
        assert_eq!((r.op, r.offset, r.bytes), (Op::Write, MIB + i * 65_536, 65_536));
    }
}

#[test]
fn the_random_map_covers_every_block_once_a_pass() {
    let text = "; comment\n[global]\nbs=4k\nrw=randwrite\n# another\n[a]\nsize=4m\nloops=3\n";
    let requests = only(text);
    assert_eq!(requests.len(), 3 * 1024);
    for pass in requests.chunks(1024) {
        assert_eq!(pass.iter().map(|r| r.offset).collect::<HashSet<_>>().len(), 1024);
    }
    assert_ne!(requests[..1024], requests[1024..2048]);
    assert!(load(text).notes.iter().any(|n| n.contains("random map")));
}

#[test]
fn an_io_size_of_nothing_is_none() {
    let text = "[a]\nrw=randwrite\nbs=4k\nsize=4m\n";
    assert_eq!(only(&format!("{text}io_size=0\n")), only(text));
}

#[test]
fn norandommap_draws_with_replacement() {
    let requests = only("[a]\nrw=randread\nbs=4k\nsize=16m\nnorandommap\n");
    let distinct = requests.iter().map(|r| r.offset).collect::<HashSet<_>>().len() as f64;
    // n draws from n leave 1/e of them out.
    assert!((distinct / 4096.0 - (1.0 - (-1.0_f64).exp())).abs() < 0.03, "{distinct}");
}

#[test]
fn mixes_follow_rwmixread_and_sizes_their_direction() {
    let requests =
        only("[a]\nrw=randrw\nrwmixread=70\nbs=4k,16k\nnumber_ios=20000\nio_size=10g\nsize=100%\n");
    assert_eq!(requests.len(), 20_000);
    let reads = requests.iter().filter(|r| r.op == Op::Read).count() as f64 / 2e4;
    assert!((reads - 0.7).abs() < 0.01, "{reads}");
    let size = |r: &Request| if r.op == Op::Read { 4096 } else { 16_384 };
    // The map is one of 4 KiB: a write of its last blocks ends with the device.
    assert!(requests.iter().all(|r| r.bytes == size(r) || r.offset + r.bytes == 64 * MIB));
}

#[test]
fn block_sizes_follow_range_and_split() {
    let requests = only("[a]\nrw=randwrite\nbsrange=4k-16k\nnorandommap\nsize=8m\nio_size=64m\n");
    assert!(requests.iter().all(|r| r.bytes % 4096 == 0 && (4096..=16_384).contains(&r.bytes)));
    assert!(requests.iter().map(|r| r.bytes).sum::<u64>() > 64 * MIB - 16_384);
    let requests =
        only("[a]\nrw=randwrite\nbssplit=4k/50:8k/:64k/10\nnorandommap\nnumber_ios=20000\nio_size=10g\n");
    for (size, want) in [(4096, 0.5), (8192, 0.4), (65_536, 0.1)] {
        let got = requests.iter().filter(|r| r.bytes == size).count() as f64 / 2e4;
        assert!((got - want).abs() < 0.02, "{size}: {got}");
    }
}

#[test]
fn distributions_have_their_shape() {
    let hottest = |kind: &str, blocks: usize| {
        let text = format!("[a]\nrw=randread\nbs=4k\nsize=4m\nrandom_distribution={kind}\nio_size=400m\n");
        let requests = only(&text);
        let mut counts = [0_u32; 1024];
        requests.iter().for_each(|r| counts[(r.offset / 4096) as usize] += 1);
        counts.sort_unstable_by(|a, b| b.cmp(a));
        counts[..blocks].iter().sum::<u32>() as f64 / requests.len() as f64
    };
    let harmonic = |n: u32| (1..=n).map(|k| f64::from(k).powf(-1.2)).sum::<f64>();
    // fio's inversion is exact for the first ranks; where the hash puts two ranks in one block it gets a little more.
    for ranks in [1, 2] {
        let over = hottest("zipf:1.2", ranks) - harmonic(ranks as u32) / harmonic(1024);
        assert!((-0.005..0.02).contains(&over), "{ranks} ranks: {over}");
    }
    // Pareto with h = 0.2: 80% of the accesses go to 20% of the ranks, which share some blocks.
    assert!((-0.01..0.06).contains(&(hottest("pareto:0.2", 205) - 0.8)));
    // Within one deviation (5% of the blocks on either side): 68%.
    assert!((hottest("normal:5", 102) - 0.683).abs() < 0.02);
    assert!((hottest("zoned:90/10:10/90", 102) - 0.9).abs() < 0.02);
}

#[test]
fn processes_interleave_and_offsets_increment() {
    let text = "[a]\nrw=write\nbs=4k\nsize=1m\nnumjobs=3\noffset_increment=2m\niodepth=2\n";
    let phases = run(text);
    assert_eq!(phases[0].0, Replay::Closed { iodepth: 6 });
    let firsts: Vec<u64> = phases[0].1.iter().take(8).map(|r| r.offset).collect();
    assert_eq!(firsts, [0, 4096, 2 * MIB, 2 * MIB + 4096, 4 * MIB, 4 * MIB + 4096, 8192, 12_288]);
    assert_eq!(phases[0].1.len(), 768);
}

#[test]
fn stonewall_separates_and_startdelay_delays() {
    let text = "[global]\nsize=1m\n[fill]\nrw=write\nbs=1m\n[a]\nstonewall\nrw=randread\nstartdelay=2\nruntime=3s\n[b]\nrw=randwrite\nstartdelay=2\nruntime=3\n";
    let mut workload = load(text);
    assert_eq!(workload.phases.len(), 2);
    // Each has its own delay and time; alone they are the phase's.
    let users = &mut workload.phases[1].users;
    let names: Vec<&str> = users.iter().map(|u| u.name.as_str()).collect();
    assert_eq!(names, ["a", "b"]);
    for user in users {
        let mut out = vec![];
        let mut turn = |now_ns| user.source.step(now_ns, &mut out).unwrap();
        assert_eq!(turn(0), Turn::Until(2_000_000_000));
        assert_eq!(turn(2_000_000_000), Turn::Requests);
        assert_eq!(turn(5_000_000_000), Turn::End);
    }
    let alone = load("[a]\nrw=randread\nstartdelay=2\nruntime=3s\ntime_based\nsize=1m\n");
    assert_eq!(alone.phases[0].delay_ns, 2_000_000_000);
    assert_eq!(alone.phases[0].stop_after_ns, Some(3_000_000_000));
    assert_eq!(alone.phases[0].requests, None);
    assert_eq!(workload.name, "test.fio");
}

#[test]
fn rates_set_the_times() {
    let text = "[a]\nrw=randwrite\nrate_iops=1000\nnumber_ios=5\nstartdelay=1\n[b]\nrw=randread\nrate_iops=500\nnumber_ios=3\n";
    let phases = run(text);
    assert_eq!(phases[0].0, Replay::Open { time_scale: 1.0 });
    let times: Vec<(u64, Op)> = phases[0].1.iter().map(|r| (r.time_ns / 1_000_000, r.op)).collect();
    let (w, r) = (Op::Write, Op::Read);
    assert_eq!(times, [(0, r), (2, r), (4, r), (1000, w), (1001, w), (1002, w), (1003, w), (1004, w)]);
    let timed = only("[a]\nrw=randwrite\nrate_iops=1000\nruntime=2\ntime_based\nsize=1m\n");
    assert_eq!(timed.len(), 2000);
}

#[test]
fn writes_carry_their_placement_identifiers() {
    let plids = |text: &str| -> Vec<u16> {
        let requests = only(&format!("[a]\nrw=randrw\nnumber_ios=3000\nsize=100%\n{text}"));
        assert!(requests.iter().all(|r| r.op == Op::Write || r.stream == 0));
        requests.iter().filter(|r| r.op == Op::Write).map(|r| r.stream).collect()
    };
    assert!(plids("").iter().all(|&p| p == 0));
    assert!(plids("fdp_pli=3,4\n").iter().all(|&p| p == 0), "without fdp=1 they say nothing");
    assert!(plids("fdp=1\nfdp_pli=3\n").iter().all(|&p| p == 3));
    let in_turn = plids("dataplacement=fdp\nplids=0,2,5\n");
    assert!(in_turn.iter().zip([0, 2, 5].iter().cycle()).all(|(a, b)| a == b));
    let random = plids("fdp\nplids=1,2\nplid_select=random\n");
    let ones = random.iter().filter(|&&p| p == 1).count() as f64 / random.len() as f64;
    assert!((ones - 0.5).abs() < 0.05 && random.iter().all(|p| [1, 2].contains(p)), "{ones}");
}

/// The shape of WARP's job: three loops of different depths over two ranges, each with a handle of its own.
#[test]
fn jobs_side_by_side_have_their_own_loops() {
    let text = "[global]\nioengine=io_uring_cmd\ncmd_type=nvme\ntime_based\nruntime=60\nfdp=1\nfilename=/dev/ng0n1\n\
        [s]\nrw=write\nbs=128k\niodepth=1\nsize=90%\nfdp_pli=0\n\
        [j]\nrw=randwrite\nbs=4k\niodepth=32\nsize=90%\nnorandommap\nrandom_distribution=zipf:1.2\nfdp_pli=2\n\
        [r]\nrw=randwrite\nbs=4k\niodepth=32\noffset=90%\nsize=10%\nnorandommap\nfdp_pli=1\n";
    let mut workload = load(text);
    let phase = workload.phases.pop().unwrap();
    let depths: Vec<_> = phase.users.iter().map(|u| u.replay).collect();
    assert_eq!(depths, [1, 32, 32].map(|iodepth| Replay::Closed { iodepth }));
    for (mut user, handle) in phase.users.into_iter().zip([0, 2, 1]) {
        let mut out = vec![];
        for _ in 0..1000 {
            assert_eq!(
                user.source.step(59_000_000_000, &mut out).unwrap(),
                Turn::Requests,
                "never done before its time"
            );
        }
        let border = 64 * MIB / 10 * 9;
        assert!(out.iter().all(|r| r.stream == handle && (r.offset >= border - 8192) == (handle == 1)));
    }
    let capped = Target { requests: Some(100), ..target() };
    let workload = workload_of(text, &capped);
    assert_eq!(drain(workload.into_source()).len(), 100);
}

fn workload_of(text: &str, target: &Target) -> Workload {
    workload(text, Path::new("x.fio"), target).unwrap()
}

#[test]
fn flushes_trims_and_thinking() {
    let requests = only("[a]\nrw=write\nbs=4k\nnumber_ios=4\nfsync=2\nend_fsync=1\n");
    let ops: Vec<Op> = requests.iter().map(|r| r.op).collect();
    assert_eq!(ops, [Op::Write, Op::Write, Op::Flush, Op::Write, Op::Write, Op::Flush, Op::Flush]);
    let requests = only("[a]\nrw=trimwrite\nbs=4k\nsize=8k\n");
    let ops: Vec<(Op, u64)> = requests.iter().map(|r| (r.op, r.offset)).collect();
    assert_eq!(ops, [(Op::Trim, 0), (Op::Write, 0), (Op::Trim, 4096), (Op::Write, 4096)]);
    let phases = run("[a]\nrw=randtrim\nnumber_ios=3\nthinktime=50\n");
    assert_eq!(phases[0].0, Replay::Think { time_scale: 1.0 });
    assert_eq!(phases[0].1.iter().map(|r| r.time_ns).collect::<Vec<_>>(), [0, 50_000, 100_000]);
}

#[test]
fn seeds_and_caps() {
    let draw = |text: &str| only(text);
    let text = "[a]\nrw=randwrite\nsize=1m\n";
    assert_eq!(draw(text), draw(text));
    assert_ne!(draw(text), draw(&format!("{text}randseed=77\n")));
    let capped = Target { requests: Some(10), ..target() };
    let workload = workload(text, Path::new("x.fio"), &capped).unwrap();
    assert_eq!(workload.phases[0].requests, Some(10));
    assert_eq!(drain(workload.into_source()).len(), 10);
}

#[test]
fn harmless_options_are_ignored_aloud() {
    let workload = load(
        "[global]\nioengine=libaio\ndirect=1\nverify=0\nthread\n[a]\nrw=read\nsize=4k\nfilename=/dev/x\n",
    );
    let note = workload.notes.iter().find(|n| n.contains("ignored")).unwrap();
    assert_eq!(note, "fio: ignored = ioengine, direct, verify, thread, filename");
}

#[test]
fn wrong_files_are_explained_with_file_and_line() {
    for (text, want) in [
        ("[a]\nrw=sideways\n", "test.fio:2: rw=sideways: expected read, write, rw"),
        ("[a]\n\nbs=4x\n", "test.fio:3: bs=\"4x\": expected a number"),
        ("[a]\nbs=1000\n", "test.fio:2: bs=1000: expected a multiple of 512"),
        ("[a]\niodeph=3\n", "test.fio:2: option \"iodeph\" is not supported (nearest: iodepth"),
        ("[a]\nrate=10m\n", "test.fio:2: option \"rate\" is not supported"),
        ("[a]\nverify=crc32c\n", "test.fio:2: verify=crc32c is not supported"),
        ("rw=read\n", "test.fio:1: \"rw\" stands before the first [section]"),
        ("[a\n", "test.fio:1: \"[a\": expected [name]"),
        ("[global]\nrw=read\n", "test.fio:2: the file defines no job"),
        (
            "[a]\nsize=1g\n",
            "test.fio:1: [a]: size 1073741824 from offset 0 ends beyond the device's 67108864 bytes",
        ),
        ("[a]\nsize=4k\nbs=8k\n", "test.fio:1: [a]: requests of 8192 bytes do not fit a size of 4096"),
        ("[a]\niodepth\n", "test.fio:2: iodepth needs a value"),
        ("[a]\niodepth=0\n", "test.fio:2: iodepth=0: expected 1 to 65536"),
        ("[a]\nnumjobs=4000\n[b]\nnumjobs=200\n", "test.fio:3: [b] makes 4200 jobs: expected at most 4096"),
        ("[a]\nthinktime=5\niodepth=4\n", "test.fio:1: [a]: thinktime needs a job alone"),
        (
            "[a]\nrate_iops=5\n[b]\nrw=read\n",
            "test.fio:3: [b] runs beside [a], but only one of them has rate_iops",
        ),
        (
            "[a]\nrw=randread\nrandom_distribution=zipf:-1\n",
            "test.fio:3: random_distribution=zipf:-1: expected a value",
        ),
        ("[a]\nbssplit=4k/60:8k/60\n", "test.fio:2: bssplit=\"4k/60:8k/60\": the percentages add up to 120"),
        ("[a]\ntime_based\n", "test.fio:1: [a]: time_based needs runtime"),
        ("[a]\nfdp_pli=a\n", "test.fio:2: fdp_pli=a: expected 1 to 128 placement identifiers"),
        ("[a]\nplid_select=scheme\n", "test.fio:2: plid_select=scheme is not supported: expected roundrobin"),
        ("[a]\ndataplacement=raid\n", "test.fio:2: dataplacement=raid: expected none, fdp or streams"),
        ("[a]\nrandom_distribution=zipf:1\n", "test.fio:2: random_distribution=zipf:1: expected a theta"),
    ] {
        let got = message(text);
        assert!(got.starts_with(want), "{text:?}\n  got {got}\n want {want}");
    }
}

/// Pulls at most `limit` requests from every phase.
fn exercise(text: &str) {
    let target = target();
    let Ok(workload) = workload(text, Path::new("random.fio"), &target) else { return };
    for phase in workload.phases {
        let (mut out, mut source) = (Vec::new(), phase.into_source());
        for _ in 0..20 {
            source.fill(&mut out, 100).unwrap();
        }
        assert!(out.len() <= 2000);
        for r in &out {
            assert!(r.offset + r.bytes <= target.logical_bytes, "{r:?} from {text:?}");
            assert!(r.bytes > 0 || r.op == Op::Flush);
        }
    }
}

/// Mostly sensible options: each key with values of its own, now and then with one of another's.
fn line() -> impl Strategy<Value = String> {
    const OPTIONS: &[(&str, &[&str])] = &[
        ("rw", &["read", "randrw", "write", "randtrimwrite", "trimwrite", "trim", "randwrite", "rw"]),
        ("bs", &["4k", "4k,8k", ",,512", "64k", "1m"]),
        ("bsrange", &["1k-64k", "4k-8k,512-9k", "1536-7k"]),
        ("bssplit", &["4k/20:8k/80", "4k:8k", "512/1:3k/99,4k/0:8k"]),
        ("iodepth", &["1", "7", "32"]),
        ("numjobs", &["1", "3"]),
        ("size", &["50%", "100%", "1m", "64m", "0%", "1m"]),
        ("offset", &["0", "1m", "25%"]),
        ("offset_increment", &["1m", "3%"]),
        ("rwmixread", &["0", "30", "100"]),
        (
            "random_distribution",
            &[
                "random",
                "zipf:1.1",
                "zipf:0.0001",
                "pareto:0.9",
                "normal:100",
                "zoned:50/5:50/95",
                "zoned:100/0:0/100",
            ],
        ),
        ("norandommap", &[""]),
        ("rate_iops", &["1000", "10,20,30"]),
        ("thinktime", &["5", "1s"]),
        ("number_ios", &["1", "1000", "18446744073709551615"]),
        ("io_size", &["10m", "99999p", "300%", "513"]),
        ("runtime", &["1s", "0", "2h"]),
        ("loops", &["2", "1000000"]),
        ("fsync", &["1", "8"]),
        ("stonewall", &[""]),
        ("startdelay", &["5", "10ms"]),
        ("time_based", &[""]),
        ("end_fsync", &["", "0"]),
        ("kb_base", &["1000"]),
        ("fdp", &["", "1", "0"]),
        ("plids", &["1", "0,3"]),
        ("plid_select", &["random", "roundrobin"]),
        ("direct", &["1"]),
    ];
    let stray =
        prop::sample::select(vec!["", "-3", "nan", "1e9", "18446744073709551615", "99999999999t", "x"]);
    let section = prop::sample::select(vec!["[x]", "[global]"]);
    let option = prop::sample::select(OPTIONS).prop_flat_map(|(key, values)| {
        prop::sample::select(values)
            .prop_map(move |value| if value.is_empty() { key.to_owned() } else { format!("{key}={value}") })
    });
    let odd = (prop::sample::select(OPTIONS), stray).prop_map(|((key, _), value)| format!("{key}={value}"));
    prop_oneof![20 => option, 2 => section.prop_map(str::to_owned), 1 => odd]
}

/// The property below must not pass because everything is refused.
#[test]
fn many_shuffled_files_are_accepted() {
    use proptest::{strategy::ValueTree, test_runner::TestRunner};
    let mut runner = TestRunner::deterministic();
    let strategy = prop::collection::vec(line(), 0..12);
    let accepted = (0..1000).filter(|_| {
        let lines = strategy.new_tree(&mut runner).unwrap().current();
        workload(&format!("[a]\n{}\n", lines.join("\n")), Path::new("x.fio"), &target()).is_ok()
    });
    assert!(accepted.count() > 250);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn random_bytes_never_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        exercise(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn shuffled_options_never_panic_or_leave_the_device(lines in prop::collection::vec(line(), 0..12)) {
        exercise(&format!("[a]\n{}\n", lines.join("\n")));
    }

    #[test]
    fn mutated_files_never_panic(at in 0_usize..200, byte in any::<u8>()) {
        let mut text = b"[global]\nrw=randrw\nbssplit=4k/30:8k/70\nsize=16m\nrandom_distribution=zipf:1.2\n[a]\nnumjobs=2\nfsync=8\n[b]\nstonewall\nrw=randwrite\nrate_iops=1000\nbsrange=1k-9k\nnumber_ios=500\n".to_vec();
        let at = at % text.len();
        text[at] = byte;
        exercise(&String::from_utf8_lossy(&text));
    }
}
