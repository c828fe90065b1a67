//! Goal: each way of replaying issues requests when it says, on an idle device whose latencies are
//! known by hand. Method: a device without queueing effects, a list of requests, the log of times.

use nandle_ssd::DeviceConfig;
use nandle_ssd::nand::Cause;
use nandle_trace::Turn;
use nandle_trace::synthetic::User;

use super::*;
use crate::config::{Wanted, check};

/// A write of one page takes 24,600 ns on the bus and 200,000 in the array.
const WRITE: u64 = 224_600;

fn config() -> DeviceConfig {
    let sets = ["timing.transfer_ns_per_page=24600", "geometry.sector_bytes=4096"].map(str::to_owned);
    Wanted { device: "gc20", scheme: None, sets: &sets }.load().expect("a preset").config
}

struct List(Vec<Request>);
impl nandle_trace::Source for List {
    fn fill(&mut self, out: &mut Vec<Request>, max: usize) -> Result<(), nandle_trace::Error> {
        out.extend(self.0.drain(..max.min(self.0.len())));
        Ok(())
    }
}

fn write(time_ns: u64, page: u64) -> Request {
    Request { time_ns, offset: page * 8192, bytes: 8192, object: 0, stream: 0, op: Op::Write, fua: false }
}

/// The replayer after one phase.
fn replay(config: &DeviceConfig, how: Replay, requests: Vec<Request>) -> Result<Trace, (Trace, Error)> {
    outcome(config, how, requests).map(|(trace, ..)| trace)
}

/// What `look` makes of a replayer and of the outcome of one phase on a fresh drive.
fn replayed<T>(
    config: &DeviceConfig,
    phase: Phase,
    look: impl FnOnce(Replayer<'_>, Result<bool, Error>) -> T,
) -> T {
    let drive = check(config.clone()).expect("valid");
    let ssd = Ssd::new(&drive.config, 0, 1).expect("valid");
    let stop = AtomicBool::new(false);
    let mut quiet = |_: &Progress| {};
    let mut r = Replayer::new(ssd, Watch { stop: &stop, progress: &mut quiet });
    let address = Address::straight(&drive.config, drive.layout.logical_sectors);
    let result = r.run(vec![(phase, address)]);
    look(r, result)
}

/// What became of the requests, their latencies, and when the last completed.
fn outcome(
    config: &DeviceConfig,
    how: Replay,
    requests: Vec<Request>,
) -> Result<(Trace, crate::measure::Latency, u64), (Trace, Error)> {
    replayed(config, Phase::new(how, List(requests)), |r, result| match result {
        Ok(_) => {
            let ended = r.meter.ended_ns;
            Ok((r.trace, r.meter.latency[Op::Write as usize].clone(), ended))
        }
        Err(e) => Err((r.trace, e)),
    })
}

#[test]
fn open_issues_on_time_whatever_the_device_does() {
    // The second write finds its die busy: pages 0 and 32 share a plane.
    let list = vec![write(0, 0), write(100_000, 32), write(1_000_000, 1)];
    let (trace, latency, ended) =
        outcome(&config(), Replay::Open { time_scale: 1.0 }, list.clone()).expect("a run");
    assert_eq!((trace.submitted, trace.completed), (3, 3));
    assert_eq!((latency.min_ns, ended), (WRITE, 1_000_000 + WRITE));
    assert_eq!(latency.max_ns, 2 * WRITE - 100_000, "it waits for its die from its own arrival on");
    let (_, latency, ended) = outcome(&config(), Replay::Open { time_scale: 10.0 }, list).expect("a run");
    assert_eq!((latency.max_ns, ended), (WRITE, 10_000_000 + WRITE));
}

#[test]
fn closed_keeps_its_depth() {
    let same_die = |n: u64| (0..n).map(|i| write(0, i * 32)).collect::<Vec<_>>();
    let (_, latency, ended) = outcome(&config(), Replay::Closed { iodepth: 1 }, same_die(10)).expect("a run");
    assert_eq!((latency.max_ns, ended), (WRITE, 10 * WRITE));
    let (_, latency, ended) = outcome(&config(), Replay::Closed { iodepth: 2 }, same_die(10)).expect("a run");
    assert_eq!((latency.max_ns, ended), (2 * WRITE, 10 * WRITE));
}

#[test]
fn requests_beyond_the_queue_wait_in_the_host() {
    let same_die: Vec<Request> = (0..10).map(|i| write(0, i * 32)).collect();
    for depth in [1, 2, 3, 1024] {
        let mut config = config();
        config.queue.depth = depth;
        for how in [Replay::Open { time_scale: 1.0 }, Replay::Closed { iodepth: 10 }] {
            let (_, latency, ended) = outcome(&config, how, same_die.clone()).expect("a run");
            assert_eq!((latency.max_ns, ended), (10 * WRITE, 10 * WRITE), "depth {depth}, {how:?}");
            assert_eq!(latency.sum_ns, u128::from(55 * WRITE), "depth {depth}, {how:?}");
        }
    }
}

#[test]
fn think_keeps_gaps_after_completions() {
    let list = vec![write(0, 0), write(1_000, 1), write(5_000, 2)];
    let how = Replay::Think { time_scale: 2.0 };
    let (_, latency, ended) = outcome(&config(), how, list).expect("a run");
    assert_eq!((latency.max_ns, ended), (WRITE, 3 * WRITE + 10_000));
}

#[test]
fn nothing_is_lost_of_anything() {
    let mut list = vec![write(0, 0), write(0, 1 << 40), Request { bytes: 100, ..write(3, 1) }];
    let odd = |op, offset, bytes| Request { op, offset, bytes, ..write(9, 0) };
    list.push(odd(Op::Trim, 5, 100));
    list.push(odd(Op::FlashAlloc, 0, 1 << 20));
    list.push(odd(Op::Flush, 0, 0));
    list.push(odd(Op::Read, 0, 0));
    for how in
        [Replay::Open { time_scale: 1.0 }, Replay::Closed { iodepth: 2 }, Replay::Think { time_scale: 1.0 }]
    {
        let trace = replay(&config(), how, list.clone()).expect("a run");
        assert_eq!((trace.submitted, trace.completed), (7, 7), "{how:?}");
        assert_eq!((trace.hints_ignored, trace.empty_trims, trace.rounded), (1, 1, 2), "{how:?}");
    }
}

/// Requests on a drive with FlashAlloc: what became of them, and the drive.
fn with_objects(requests: Vec<Request>) -> (Trace, crate::measure::Calls, Ssd) {
    let sets = ["geometry.sector_bytes=4096".to_owned()];
    let drive = Wanted { device: "gc20", scheme: Some("flashalloc"), sets: &sets }.load().expect("valid");
    let ssd = Ssd::new(&drive.config, 0, 1).expect("valid");
    let stop = AtomicBool::new(false);
    let mut quiet = |_: &Progress| {};
    let mut r = Replayer::new(ssd, Watch { stop: &stop, progress: &mut quiet });
    let address = Address::straight(&drive.config, drive.layout.logical_sectors);
    r.run(vec![(Phase::new(Replay::Closed { iodepth: 4 }, List(requests)), address)]).expect("a run");
    (r.trace, r.meter.calls, r.ssd)
}

#[test]
fn ranges_in_a_row_of_one_object_are_one_command() {
    const MIB: u64 = 1 << 20;
    let alloc = |object, mib: u64| Request {
        op: Op::FlashAlloc,
        object,
        stream: 3,
        ..Request { offset: mib * MIB, bytes: MIB, ..write(0, 0) }
    };
    // More ranges than are read at a time: they are not cut apart at the border of a batch either.
    let mut list: Vec<Request> = (0..1020).map(|n| write(0, n % 8)).collect();
    list.extend((1..=10).map(|n| alloc(7, n * 4)));
    list.push(alloc(8, 100));
    // Unknown objects stay apart; this one overlaps object 8 and is refused.
    list.push(alloc(0, 120));
    list.push(alloc(0, 100));
    // A write that names its object alone is of the object's class.
    list.push(Request { offset: 100 * MIB, object: 8, ..write(0, 0) });
    let requests = list.len() as u64;
    let (trace, calls, ssd) = with_objects(list);
    assert_eq!((trace.submitted, trace.completed, trace.hints_ignored), (requests, requests, 0));
    assert_eq!((calls.honoured, calls.refused, calls.freed), (3, 1, 0));
    let mut ranges: Vec<usize> = ssd.objects().iter().map(|i| i.ranges.len()).collect();
    ranges.sort_unstable();
    assert_eq!(ranges, [1, 1, 10]);
    let free = Request { op: Op::FlashFree, ..alloc(8, 100) };
    let (_, calls, ssd) = with_objects(vec![alloc(8, 100), free]);
    assert_eq!((calls.honoured, calls.freed, ssd.objects_live()), (1, 1, 0));
}

/// The replayer after users shared a drive, for `ns` at most.
fn together(config: &DeviceConfig, users: Vec<User>, ns: Option<u64>) -> Result<(Meter, Trace, u64), Error> {
    replayed(config, Phase { stop_after_ns: ns, ..Phase::of(users) }, |r, result| {
        result?;
        let digest = r.ssd.digest();
        Ok((r.meter, r.trace, digest))
    })
}

fn flush() -> Request {
    Request { op: Op::Flush, bytes: 0, ..write(0, 0) }
}

/// Bytes that the users in row `n` wrote.
fn written(meter: &Meter, n: usize) -> u64 {
    meter.users[n].latency[Op::Write as usize].bytes
}

#[test]
fn equal_users_get_equal_shares_and_deeper_ones_more() {
    // All on one die: pages 0, 32, 64.. share a plane.
    let user = |name: &str, depth, from: u64| {
        User::closed(name, depth, List((from..from + 1000).map(|i| write(0, i * 32)).collect()))
    };
    let most = Some(300 * WRITE);
    for depth in [1, 4] {
        let users = vec![user("a", depth, 0), user("b", depth, 1000), user("c", depth, 2000)];
        let (meter, trace, _) = together(&config(), users, most).expect("a run");
        assert_eq!(trace.submitted, trace.completed);
        let shares = [0, 1, 2].map(|n| written(&meter, n) / 8192);
        assert!(shares.iter().all(|share| (99..=105).contains(share)), "{shares:?}");
        assert_eq!(shares.iter().sum::<u64>() * 8192, meter.latency[Op::Write as usize].bytes);
    }
    // The same name is the same row.
    let users = vec![user("deep", 6, 0), user("shallow", 1, 1000), user("shallow", 1, 2000)];
    let (meter, ..) = together(&config(), users, most).expect("a run");
    let ratio = written(&meter, 0) as f64 / written(&meter, 1) as f64;
    assert!(meter.users.len() == 2 && (2.9..3.1).contains(&ratio), "{ratio}");
}

#[test]
fn users_are_charged_all_that_is_programmed_of_what_they_wrote() {
    // One writes each page of its own once, the other few again and again, until the blocks of both are collected.
    let mut config = config();
    config.geometry.blocks_per_plane = 34;
    let pages = check(config.clone()).expect("valid").layout.logical_bytes / 8192;
    let half = pages / 2;
    let once = (0..half).map(|n| write(0, n)).collect();
    let mut draw = nandle_random::Stream::new(1, "charges");
    let again = (0..2 * pages).map(|_| write(0, half + draw.below(half))).chain([flush()]).collect();
    let users = vec![User::closed("once", 1, List(once)), User::closed("again", 6, List(again))];
    replayed(&config, Phase::of(users), |r, result| {
        result.expect("a run");
        let programs = |cause: Cause| r.ssd.counters().programs[cause as usize].iter().sum::<u64>() * 8192;
        let [once, again] = &r.meter.users[..] else { panic!("two rows") };
        assert_eq!(once.flash.programmed, half * 8192);
        assert_eq!(once.flash.programmed + again.flash.programmed, programs(Cause::Host));
        let copied = once.flash.copied + again.flash.copied;
        assert!(once.flash.copied > 0 && again.flash.copied > 0, "{:?} {:?}", once.flash, again.flash);
        // What is being moved is not over yet.
        assert!((0..=64 * 8192).contains(&(programs(Cause::Gc) - copied)), "{copied}");
    });
}

#[test]
fn a_flush_holds_its_own_user_and_nobody_else() {
    let slow = vec![write(0, 0), write(0, 32), flush(), write(0, 64), flush()];
    let fast = (0..40).map(|i| write(0, 1 + i * 32)).collect();
    let users = vec![User::closed("slow", 4, List(slow)), User::closed("fast", 1, List(fast))];
    let (meter, trace, _) = together(&config(), users, None).expect("a run");
    assert_eq!((trace.submitted, trace.completed), (45, 45));
    let fast = &meter.users[1].latency[Op::Write as usize];
    assert_eq!((fast.requests, fast.max_ns), (40, WRITE), "it never waits");
    // The third write is issued when the flush behind the first two has completed, although four may be
    // outstanding; at once it would have taken three times as long.
    let slow = &meter.users[0].latency;
    assert_eq!(slow[Op::Write as usize].max_ns, 2 * WRITE);
    assert_eq!((slow[Op::Flush as usize].requests, slow[Op::Flush as usize].max_ns < WRITE), (2, true));
}

#[test]
fn a_lone_user_is_served_as_before() {
    let list = || List((0..3000).map(|i| write(0, i * 7 % 900)).collect());
    let (_, trace, digest) = {
        let users = vec![User::closed("one", 16, list()), User::closed("nobody", 4, List(vec![]))];
        together(&config(), users, None).expect("a run")
    };
    let (_, alone, before) = together(&config(), vec![User::closed("", 16, list())], None).expect("a run");
    assert_eq!((trace.completed, digest), (alone.completed, before));
}

/// Steps given one after the other; requests at each of them.
struct Steps(VecDeque<(Turn, Vec<Request>)>);
impl nandle_trace::Source for Steps {
    fn fill(&mut self, _: &mut Vec<Request>, _: usize) -> Result<(), nandle_trace::Error> {
        unreachable!("it has company")
    }
    fn step(&mut self, _: u64, out: &mut Vec<Request>) -> Result<Turn, nandle_trace::Error> {
        let (turn, requests) = self.0.pop_front().unwrap_or((Turn::End, vec![]));
        out.extend(requests);
        Ok(turn)
    }
}

#[test]
fn users_wait_for_an_instant_and_for_each_other_but_not_for_ever() {
    let late = Steps([(Turn::Until(5_000_000), vec![]), (Turn::Requests, vec![write(0, 0)])].into());
    let next = Steps([(Turn::Wait, vec![]), (Turn::Requests, vec![write(0, 32)])].into());
    let users = vec![User::closed("next", 1, next), User::closed("late", 1, late)];
    let (meter, trace, _) = together(&config(), users, None).expect("a run");
    assert_eq!((trace.completed, meter.ended_ns), (2, 5_000_000 + 2 * WRITE));
    assert_eq!(meter.users[0].latency[Op::Write as usize].max_ns, 2 * WRITE, "from when it went on");
    let waits = || Steps(std::iter::repeat_n((Turn::Wait, vec![]), 9).collect());
    let users = vec![User::closed("a", 1, waits()), User::closed("b", 1, waits())];
    let error = together(&config(), users, None).expect_err("nobody goes on");
    assert!(error.to_string().contains("wait for each other"), "{error}");
}

#[test]
fn one_user_calls_and_its_neighbour_does_not() {
    let sets = ["geometry.sector_bytes=4096".to_owned()];
    let drive = Wanted { device: "gc20", scheme: Some("flashalloc"), sets: &sets }.load().expect("valid");
    let alloc = |object, mib: u64| Request {
        op: Op::FlashAlloc,
        object,
        ..Request { offset: mib << 20, bytes: 1 << 20, ..write(0, 0) }
    };
    let caller = User::closed("caller", 2, List(vec![alloc(1, 0), alloc(1, 2), write(0, 0)]));
    let other = User::closed("other", 2, List(vec![alloc(2, 8), alloc(2, 12), write(0, 1024)]));
    let (meter, trace, _) =
        together(&drive.config, vec![caller, User { calls: false, ..other }], None).expect("a run");
    assert_eq!((trace.submitted, trace.completed, trace.hints_ignored), (6, 6, 2));
    assert_eq!((meter.calls.honoured, meter.calls.refused), (1, 0));
}

#[test]
fn a_call_amid_writes_overtakes_them_but_not_trims() {
    let sets = ["geometry.sector_bytes=4096".to_owned()];
    let drive = Wanted { device: "gc20", scheme: Some("flashalloc"), sets: &sets }.load().expect("valid");
    let alloc = |object, mib: u64| Request {
        op: Op::FlashAlloc,
        object,
        ..Request { offset: mib << 20, bytes: 1 << 20, ..write(0, 0) }
    };
    // Two files: the second is announced while the first is being written, and its write follows.
    let list = |last: Vec<Request>| List([vec![write(0, 1), write(0, 2)], last].concat());
    let took = |calls_amid, last: Vec<Request>| {
        let company = User::closed("company", 1, List(vec![]));
        let user = User { calls_amid, ..User::closed("user", 8, list(last)) };
        let users = vec![user, company];
        let (meter, ..) = together(&drive.config, users, None).expect("a run");
        (meter.calls.honoured, meter.ended_ns)
    };
    let (_, alone) = took(true, vec![]);
    let call = || vec![alloc(1, 4), write(0, 1024)];
    assert_eq!(took(true, call()), (1, alone), "on another plane, at the same time");
    let (honoured, waited) = took(false, call());
    assert!(honoured == 1 && waited > alone * 3 / 2, "one after the other: {waited}, {alone}");
    // In space that it has trimmed, the call is refused unless the trim is through.
    let trim = Request { op: Op::Trim, ..alloc(0, 4) };
    let (honoured, _) = took(true, vec![alloc(1, 4), trim, alloc(2, 4)]);
    assert_eq!(honoured, 2);
}

#[test]
fn a_failing_source_ends_the_run_with_its_message() {
    struct Broken;
    impl nandle_trace::Source for Broken {
        fn fill(&mut self, _: &mut Vec<Request>, _: usize) -> Result<(), nandle_trace::Error> {
            Err(nandle_trace::Error::Input("line 7 is odd".into()))
        }
    }
    let drive = check(config()).expect("valid");
    let ssd = Ssd::new(&drive.config, 0, 1).expect("valid");
    let stop = AtomicBool::new(false);
    let mut quiet = |_: &Progress| {};
    let mut r = Replayer::new(ssd, Watch { stop: &stop, progress: &mut quiet });
    let address = Address::straight(&drive.config, drive.layout.logical_sectors);
    let phase = Phase::new(Replay::Closed { iodepth: 4 }, Broken);
    let error = r.run(vec![(phase, address)]).expect_err("the source's");
    assert_eq!(error.to_string(), "line 7 is odd");
}

#[test]
fn phases_follow_each_other_and_only_the_last_is_measured() {
    let drive = check(config()).expect("valid");
    let ssd = Ssd::new(&drive.config, 0, 1).expect("valid");
    let stop = AtomicBool::new(false);
    let mut quiet = |_: &Progress| {};
    let mut r = Replayer::new(ssd, Watch { stop: &stop, progress: &mut quiet });
    let address = Address::straight(&drive.config, drive.layout.logical_sectors);
    let how = Replay::Closed { iodepth: 4 };
    let fill = Phase::new(how, List((0..100).map(|i| write(0, i)).collect()));
    let mut late =
        Phase::new(Replay::Open { time_scale: 1.0 }, List((0..9).map(|i| write(i * 1_000_000, i)).collect()));
    late.delay_ns = 500;
    late.stop_after_ns = Some(5_000_000);
    assert!(r.run(vec![(fill, address.clone()), (late, address)]).expect("a run"));
    assert_eq!((r.trace.completed, r.meter.latency[Op::Write as usize].requests), (105, 5));
    assert_eq!(r.ssd.stats().requests[Op::Write as usize], 5);
    assert_eq!((r.prepare.phases, r.prepare.requests), (1, 100));
    assert_eq!(r.meter.ended_ns, r.meter.begun_ns + 500 + 4_000_000 + WRITE);
    let rows: u64 = r.meter.rows.rows().iter().map(|row| row.requests[Op::Write as usize]).sum();
    assert_eq!(rows, 105);
    let programs: u64 = r.meter.rows.rows().iter().flat_map(|row| row.flash.programs).sum();
    assert_eq!(programs, 105);
}
