//! Fit a generated trace, draw from the fit, and hold both against each other.

use super::*;
use crate::synthetic::measure::{Stats, drain, target};
use crate::synthetic::{Target, named};
use crate::{Info, InfoOptions};

const LOGICAL: u64 = 64 << 30;

/// A source over requests at hand.
struct Given<I>(I);

impl<I: Iterator<Item = Request> + Send> Source for Given<I> {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), Error> {
        out.extend(self.0.by_ref().take(max));
        Ok(())
    }
}

fn of(requests: &[Request]) -> Fitted {
    fit(&mut Given(requests.iter().copied()), "given").unwrap()
}

fn again(fitted: &Fitted, seed: u64) -> Vec<Request> {
    drain(fitted.workload(&Target { seed, requests: None, ..target(LOGICAL, 0) }).unwrap().into_source())
}

#[track_caller]
fn near(what: &str, got: f64, want: f64, within: f64) {
    assert!((got - want).abs() <= within, "{what}: {got}, want {want}");
}

#[test]
fn twins_survive_fitting() {
    let plain = [
        "prn:misaligned=0",
        "tpce:misaligned=0",
        "lun1",
        "msnfs",
        "dtr",
        "common",
        "filebench-fileserver:4k",
    ];
    let misaligned = ["prn", "tpce"];
    for name in plain.into_iter().chain(misaligned) {
        // A fit does not know that extents over page borders share pages.
        let shares = misaligned.contains(&name);
        let workload = named(name, &target(LOGICAL, 200_000)).unwrap();
        let original = drain(workload.phases.into_iter().next_back().unwrap().into_source());
        let fitted = of(&original);
        let copy = again(&fitted, 5);
        let refitted = of(&copy);
        let (a, b) = (Stats::new(original), Stats::new(copy));
        assert_eq!(a.requests.len(), b.requests.len());
        near(&format!("{name}: writes"), b.write_share(), a.write_share(), 0.01);
        near(&format!("{name}: mean size"), b.mean_bytes(), a.mean_bytes(), 0.03 * a.mean_bytes());
        near(
            &format!("{name}: footprint"),
            refitted.footprint_bytes as f64 / fitted.footprint_bytes as f64,
            1.0,
            if shares { 0.15 } else { 0.08 },
        );
        let end = |s: &Stats| s.requests.last().unwrap().time_ns as f64;
        near(&format!("{name}: duration"), end(&b), end(&a), 0.05 * end(&a));
        for page in [4096, 8192, 16_384] {
            let (a, b) = (a.at(page), b.at(page));
            println!(
                "{name} {page}: unaligned {:.3} {:.3} across {:.3} {:.3} partial {:.3} {:.3} updates {:.3} {:.3}",
                a.unaligned(),
                b.unaligned(),
                a.across(),
                b.across(),
                a.partial_writes(),
                b.partial_writes(),
                a.partial_updates(),
                b.partial_updates(),
            );
            near(
                &format!("{name} {page}: unaligned"),
                b.unaligned(),
                a.unaligned(),
                if shares { 0.03 } else { 0.02 },
            );
            near(&format!("{name} {page}: across"), b.across(), a.across(), 0.02);
            near(&format!("{name} {page}: partial"), b.partial_writes(), a.partial_writes(), 0.03);
        }
        for (a, b) in [(&fitted.write, &refitted.write), (&fitted.read, &refitted.read)] {
            let (Some(a), Some(b)) = (a, b) else { continue };
            near(&format!("{name}: sequential"), b.sequential_share, a.sequential_share, 0.03);
            let repeat = |s: &Shape| s.kinds.iter().map(|k| k.share * k.repeat).sum::<f64>();
            println!(
                "{name}: repeat {:.3} {:.3} position {:.3} {:.3}",
                repeat(a),
                repeat(b),
                a.repeat_position,
                b.repeat_position
            );
            near(&format!("{name}: repeats"), repeat(b), repeat(a), if shares { 0.06 } else { 0.05 });
        }
    }
}

/// What is generated of a workload, all phases of it, with its name.
fn whole(name: &str) -> (String, Vec<Request>) {
    (name.to_owned(), drain(named(name, &target(1 << 30, 60_000)).unwrap().into_source()))
}

#[test]
fn footprint_and_reuse_are_kept_where_requests_are_sequential() {
    let mut stream = nandle_random::Stream::new(9, "sequential, then random");
    let request = |time_ns: u64, offset: u64, bytes: u64| Request {
        time_ns,
        offset,
        bytes,
        object: 0,
        stream: 0,
        op: Op::Write,
        fua: false,
    };
    // 512 MiB one after the other, then as much of it at random as makes 1.3 writes a page.
    let fill = (0..4096).map(|i| request(i * 1000, i << 17, 1 << 17));
    let random = (4096..44_096).map(|i| request(i * 1000, stream.below(1 << 17) << 12, 4096));
    let plain = ("sequential, then random".to_owned(), fill.chain(random).collect());
    for (name, original) in [whole("ssdiq-zipf"), whole("mixed"), whole("sequential-write"), plain] {
        let fitted = of(&original);
        let info = |requests: &[Request]| {
            Info::of(&mut Given(requests.iter().copied()), &InfoOptions::default()).unwrap()
        };
        let a = info(&original);
        for seed in 1..=3 {
            let b = info(&again(&fitted, seed));
            let ratio =
                |what: &str, got: f64, want: f64| near(&format!("{name}: {what}"), got / want, 1.0, 0.1);
            ratio("footprint", b.footprint_bytes as f64, a.footprint_bytes as f64);
            ratio("written", b.write_footprint_bytes as f64, a.write_footprint_bytes as f64);
            ratio("re-use", b.write_reuse, a.write_reuse);
            if a.read.requests > 0 {
                ratio("re-use by reads", b.read_reuse, a.read_reuse);
            }
            near(&format!("{name}: sequential"), b.write.sequential_pct, a.write.sequential_pct, 3.0);
            near(&format!("{name}: size"), b.mean_bytes / a.mean_bytes, 1.0, 0.05);
            assert_eq!(fitted.misses(seed), None, "{name}");
        }
    }
}

#[test]
fn more_requests_than_were_fitted_stay_in_the_footprint() {
    let (_, original) = whole("mixed");
    let fitted = of(&original);
    let requests = Some(3 * original.len() as u64);
    let more = drain(fitted.workload(&Target { requests, ..target(LOGICAL, 0) }).unwrap().into_source());
    let ratio = of(&more).touched_bytes.unwrap() as f64 / fitted.touched_bytes.unwrap() as f64;
    assert!((0.95..1.1).contains(&ratio), "{ratio}");
}

#[test]
fn a_twin_that_misses_is_told_apart() {
    let (_, original) = whole("random-write");
    let fitted = of(&original);
    let bytes = fitted.touched_bytes.map(|bytes| bytes * 2);
    let said = Fitted { touched_bytes: bytes, written_bytes: bytes, ..fitted.clone() }.misses(1).unwrap();
    assert!(said.starts_with("the twin touches ") && said.contains(", and writes each page 2.0"), "{said}");
    assert_eq!(Fitted { touched_bytes: None, ..fitted }.misses(1), None);
}

#[test]
fn files_of_older_versions_are_read() {
    let text = "name = 'old'\nrequests = 2000\nfootprint_bytes = 16777216\n\
        gaps = [{ mean_ns = 1000.0, share = 1.0 }]\n\
        [write]\nshare = 1.0\nsequential_share = 0.5\nrepeat_position = 0.5\n\
        sequential = [{ bytes = 8192, share = 1.0 }]\n\
        kinds = [{ bytes = 4096, start = 512, share = 1.0, repeat = 0.25, join = 0.5 }]\n";
    let old: Fitted = toml::from_str(text).unwrap();
    let write = of(&again(&old, 1)).write.unwrap();
    near("sequential", write.sequential_share, 0.5, 0.05);
    near("repeats", write.kinds.iter().map(|k| k.share * k.repeat).sum(), 0.25, 0.05);
}

#[test]
fn a_fit_survives_toml() {
    let requests = drain(named("lun3", &target(LOGICAL, 20_000)).unwrap().into_source());
    let fitted = of(&requests);
    let text = toml::to_string(&fitted).unwrap();
    let back: Fitted = toml::from_str(&text).unwrap();
    assert_eq!(back, fitted);
    assert_eq!(again(&back, 1), again(&fitted, 1));
    assert!(toml::from_str::<Fitted>(&format!("sise = 3\n{text}")).is_err());
}

#[test]
fn flushes_trims_and_fua_are_kept() {
    let request = |i: u64| Request {
        time_ns: i * 1000,
        offset: i % 64 * 4096,
        bytes: 4096,
        object: 0,
        stream: 0,
        op: [Op::Write, Op::Write, Op::Trim, Op::Flush][(i % 4) as usize],
        fua: i % 4 == 1,
    };
    let original: Vec<Request> = (0..40_000).map(request).collect();
    let fitted = of(&original);
    assert_eq!(fitted.flush_share, 0.25);
    let copy = again(&fitted, 3);
    let count =
        |requests: &[Request], f: &dyn Fn(&Request) -> bool| requests.iter().filter(|r| f(r)).count() as f64;
    for f in
        [&(|r: &Request| r.op == Op::Trim) as &dyn Fn(&Request) -> bool, &|r| r.op == Op::Flush, &|r| r.fua]
    {
        near("count", count(&copy, f), count(&original, f), 600.0);
    }
}

#[test]
fn rare_kinds_are_merged_with_their_volume() {
    let mut stream = nandle_random::Stream::new(4, "kinds");
    let original: Vec<Request> = (0..100_000)
        .map(|i| Request {
            time_ns: i,
            offset: stream.below(1 << 20) * 512,
            bytes: (1 + stream.below(200)) * 512,
            object: 0,
            stream: 0,
            op: Op::Write,
            fua: false,
        })
        .collect();
    let fitted = of(&original);
    assert!(fitted.write.as_ref().unwrap().kinds.len() <= MAX_KINDS + 64);
    let mean =
        |requests: &[Request]| requests.iter().map(|r| r.bytes).sum::<u64>() as f64 / requests.len() as f64;
    near("mean", mean(&again(&fitted, 1)), mean(&original), 0.02 * mean(&original));
}

#[test]
fn small_devices_and_wrong_files() {
    let requests = drain(named("prn", &target(LOGICAL, 20_000)).unwrap().into_source());
    let fitted = of(&requests);
    let small = target(16 << 20, 20_000);
    let workload = fitted.workload(&small).unwrap();
    assert!(workload.notes.iter().any(|n| n.contains("scaled")));
    assert!(drain(workload.into_source()).iter().all(|r| r.offset + r.bytes <= 16 << 20));
    let message = |f: Fitted| f.workload(&small).unwrap_err().to_string();
    assert!(message(Fitted { flush_share: f64::NAN, ..fitted.clone() }).contains("flush_share"));
    assert!(message(Fitted { read: None, write: None, ..fitted.clone() }).contains("no operation"));
    let mut huge = fitted.clone();
    huge.write.as_mut().unwrap().kinds[0].bytes = 1 << 40;
    assert!(message(huge.clone()).contains("bytes"));
    assert!(huge.misses(1).unwrap().contains("no twin can be drawn"));
    // Runs beyond all measure are cut, and those that make no sense refused.
    let run = |requests: f64, fresh: f64| {
        let sizes = vec![Size { bytes: 1 << 20, share: 1.0 }];
        let mut fitted = fitted.clone();
        fitted.write.as_mut().unwrap().runs = vec![Run { requests, fresh, align: 512, share: 0.5, sizes }];
        fitted
    };
    assert!(drain(run(1e12, 1.0).workload(&small).unwrap().into_source()).len() == 20_000);
    assert!(message(run(f64::NAN, 1.0)).contains("a run of NaN requests"));
    assert!(message(run(2.0, 1.5)).contains("runs.fresh"));
    assert!(fit(&mut Given(std::iter::empty()), "nothing").unwrap_err().to_string().contains("no request"));
}
