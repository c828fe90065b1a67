//! Goal: a scheme from outside decides where it has a say, before and after power cuts, and nothing that
//! it says harms the drive.
//! Method: schemes that answer as policies of the crate do give the same digests, also through power
//! cuts; schemes that talk nonsense change nothing; random ones lose no sector; schemes that share their
//! counters with the test count on after a power cut, and page types come out as they say.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::buffer::{Buffer, Victims};
use nandle_ssd::collect::victim::VictimKind;
use nandle_ssd::flash::Flash;
use nandle_ssd::nand::{Block, Cause, Time};
use nandle_ssd::schemes::{Interests, Scheme, Surroundings};
use nandle_ssd::space::{Candidates, PageClass};
use nandle_ssd::{Command, DeviceConfig, Op, Ssd};

use crate::devices;
use crate::torture;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Nothing,
    Nonsense,
    OldestFirst,
    AnythingAtAll,
}

#[derive(Clone, Debug)]
struct Voice {
    says: Says,
    asked: Arc<AtomicU64>,
}

impl Voice {
    fn draw(&self, n: usize) -> usize {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        (nandle_random::mix(asked) % n.max(1) as u64) as usize
    }
}

impl Scheme for Voice {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
    fn interests(&self) -> Interests {
        Interests::VICTIM.and(Interests::DESTAGE)
    }

    fn victim(&self, flash: &Flash, plane: u32, from: &Candidates<'_>, _: Time) -> Option<Block> {
        let drawn = self.draw(from.closed().len());
        match self.says {
            Says::Nothing => None,
            // A block of another plane, a whole one, one that does not exist.
            Says::Nonsense => match drawn % 3 {
                0 => Some(Block(u32::MAX)),
                1 if flash.geometry().planes() > 1 => {
                    flash.geometry().blocks_of((plane + 1) % flash.geometry().planes()).next()
                }
                1 => Some(Block(u32::MAX - 1)),
                _ => from.closed().iter().copied().find(|&b| from.valid(b) == from.pages_per_block()),
            },
            Says::OldestFirst => from.by_age().find(|&b| from.valid(b) < from.pages_per_block()),
            Says::AnythingAtAll => from.closed().get(drawn).copied(),
        }
    }

    fn destage(&mut self, _: &dyn Surroundings, buffer: &mut Buffer) -> Option<Victims> {
        let slots = || std::iter::successors(buffer.oldest(), |&slot| buffer.newer(slot));
        let drawn = self.draw(buffer.len() as usize);
        match self.says {
            Says::Nothing => None,
            Says::Nonsense => Some([u32::MAX, 1 << 20].into_iter().collect()),
            Says::OldestFirst => Some(slots().take(1).collect()),
            Says::AnythingAtAll => {
                let slot = slots().nth(drawn);
                Some(slot.into_iter().chain(slot).chain(slots().take(drawn % 3)).collect())
            }
        }
    }
}

/// Random traffic with power cuts; the digest, and how often the scheme was asked.
fn run(config: &DeviceConfig, says: Option<Says>) -> (u64, u64) {
    let mut ssd = Ssd::new(config, UNIT, 3).expect("a valid device");
    let asked = Arc::new(AtomicU64::new(0));
    if let Some(says) = says {
        ssd.add(Box::new(Voice { says, asked: Arc::clone(&asked) }));
    }
    let sectors = ssd.layout().logical_sectors;
    let (mut oracle, mut draw, mut done) = (Oracle::of(&ssd), Stream::new(3, "advisor"), vec![]);
    for id in 0..8_000 {
        while !ssd.accepts() {
            let next = ssd.next_event().expect("something is under way");
            ssd.advance(next, &mut done);
            done.drain(..).for_each(|c| oracle.completed(&c));
        }
        let op = [Op::Write, Op::Write, Op::Write, Op::Write, Op::Read, Op::Trim][draw.below(6) as usize];
        let length = 1 + draw.below(12);
        let lsn = draw.below(sectors - length);
        let data = if op == Op::Write { oracle.contents(lsn, length) } else { vec![] };
        let command = Command { id, op, lsn, sectors: length, fua: false, stream: 0, data: &data };
        oracle.submitted(&command);
        ssd.submit(ssd.now(), &command);
        if id % 2_500 == 2_499 {
            ssd = ssd.power_cycle(3).expect("a valid device");
            let (contents, gone) = ssd.contents(0, sectors);
            oracle.power_cut(&contents, &gone);
        }
    }
    while ssd.outstanding() > 0 {
        let next = ssd.next_event().expect("something is under way");
        ssd.advance(next, &mut done);
        done.drain(..).for_each(|c| oracle.completed(&c));
    }
    ssd.check();
    oracle.at_rest();
    assert_eq!(oracle.verdict(), Ok(()));
    assert!(oracle.checked() > 0);
    (ssd.digest(), asked.load(Ordering::Relaxed))
}

#[test]
fn an_answer_is_taken_where_it_can_be_and_harms_nothing() {
    let (mut asked, mut changed) = (0, 0);
    for (name, config) in devices::small_devices() {
        println!("{name}");
        let (own, _) = run(&config, None);
        for says in [Says::Nothing, Says::Nonsense] {
            assert_eq!(run(&config, Some(says)).0, own, "{name}: {says:?} is no answer");
        }
        let (digest, times) = run(&config, Some(Says::AnythingAtAll));
        asked += times;
        changed += u32::from(digest != own);
    }
    assert!(asked > 1_000 && changed > 3, "asked {asked} times, {changed} devices did something else");
}

#[test]
fn a_scheme_that_is_a_policy_is_that_policy() {
    let mut compared = 0;
    for (name, config) in devices::small_devices() {
        let lru = config.scheme.buffer == "lru";
        if !lru || config.scheme.compaction {
            continue;
        }
        let with = |victim| {
            let mut config = config.clone();
            config.gc.victim = victim;
            config
        };
        let (fifo, _) = run(&with(VictimKind::Fifo), None);
        let (digest, asked) = run(&with(VictimKind::Greedy), Some(Says::OldestFirst));
        assert_eq!(digest, fifo, "{name}");
        compared += u32::from(asked > 0);
    }
    assert!(compared > 2, "{compared} devices asked");
}

const QUESTIONS: [&str; 5] = ["victim", "destage", "stream", "rewrites", "page_types"];

/// Counts the questions by hook; the counters are the same in all copies.
#[derive(Clone, Debug, Default)]
struct Listener {
    asked: Arc<[AtomicU64; QUESTIONS.len()]>,
    /// Its one opinion: all writes go to the slowest pages that there are.
    slowest_first: bool,
}

impl Listener {
    fn note(&self, question: &str) {
        let at = QUESTIONS.iter().position(|known| *known == question).expect("a question");
        self.asked[at].fetch_add(1, Ordering::Relaxed);
    }
    fn asked(&self) -> [u64; QUESTIONS.len()] {
        std::array::from_fn(|n| self.asked[n].load(Ordering::Relaxed))
    }
}

impl Scheme for Listener {
    fn boxed(&self) -> Box<dyn Scheme> {
        Box::new(self.clone())
    }
    fn interests(&self) -> Interests {
        Interests::VICTIM.and(Interests::DESTAGE).and(Interests::STREAM).and(Interests::REWRITES)
    }
    fn victim(&self, _: &Flash, _: u32, _: &Candidates<'_>, _: Time) -> Option<Block> {
        self.note("victim");
        None
    }
    fn destage(&mut self, _: &dyn Surroundings, _: &mut Buffer) -> Option<Victims> {
        self.note("destage");
        None
    }
    fn stream(&self, _: &Flash, _: u64, _: u64, _: u16) -> Option<u16> {
        self.note("stream");
        None
    }
    fn rewrites(&self, _: &Flash, _: u32, _: u64, _: u64) -> Option<u64> {
        self.note("rewrites");
        None
    }
    fn page_types(&self, _: PageClass, types: usize) -> Vec<usize> {
        self.note("page_types");
        if self.slowest_first { (0..types).rev().collect() } else { vec![] }
    }
}

#[test]
fn every_question_is_asked_after_a_power_cut_as_before() {
    let mut devices = [0; QUESTIONS.len()];
    for (name, config) in devices::small_devices() {
        let listener = Listener::default();
        let mut ssd = Ssd::new(&config, UNIT, 5).expect("a valid device");
        ssd.add(listener.boxed());
        let (mut oracle, mut draw) = (Oracle::of(&ssd), Stream::new(5, "outside"));
        torture::torture(&mut ssd, &mut oracle, &mut draw, 2_000, 0);
        let before = listener.asked();
        ssd = ssd.power_cycle(5).expect("a valid device");
        let (contents, gone) = ssd.contents(0, ssd.layout().logical_sectors);
        oracle.power_cut(&contents, &gone);
        torture::torture(&mut ssd, &mut oracle, &mut draw, 2_000, 1_000_000);
        assert_eq!(oracle.verdict(), Ok(()), "{name}");
        for (n, after) in listener.asked().into_iter().enumerate() {
            assert!(before[n] == 0 || after > before[n], "{name}: {} is not asked any more", QUESTIONS[n]);
            devices[n] += u32::from(before[n] > 0);
        }
    }
    assert!(devices.iter().all(|&n| n > 1), "{QUESTIONS:?} were asked on {devices:?} devices");
}

/// Writes `requests` single sectors, none of which fill a page, and says how many host programs went to
/// the slowest page type.
fn slow_programs(ssd: &mut Ssd, requests: u64) -> u64 {
    let slowest = ssd.config().cell.kind.bits() as usize - 1;
    let spp = u64::from(ssd.config().geometry.sectors_per_page());
    let pages = ssd.layout().logical_sectors / spp;
    let (mut draw, mut done) = (Stream::new(1, "slow programs"), vec![]);
    let programs = |ssd: &Ssd| ssd.counters().programs[Cause::Host as usize][slowest];
    let before = programs(ssd);
    for id in 0..requests {
        let data = [id as u8; UNIT];
        let (op, lsn) = (Op::Write, draw.below(pages) * spp);
        ssd.submit(ssd.now(), &Command { id, op, lsn, sectors: 1, fua: true, stream: 0, data: &data });
        while ssd.outstanding() > 0 {
            let next = ssd.next_event().expect("a write is under way");
            ssd.advance(next, &mut done);
        }
    }
    programs(ssd) - before
}

#[test]
fn page_types_are_what_it_says_after_a_power_cut_too() {
    let mut compared = 0;
    for (name, config) in devices::small_devices_of("page types") {
        if !config.scheme.has("papa") || config.geometry.sectors_per_page() == 1 {
            continue;
        }
        let listener = Listener { slowest_first: true, ..Listener::default() };
        let mut own = Ssd::new(&config, UNIT, 2).expect("a valid device");
        let mut ssd = own.clone();
        ssd.add(listener.boxed());
        let mut asked = 0;
        for power_cuts in 0..3 {
            if power_cuts > 0 {
                own = own.power_cycle(2).expect("a valid device");
                ssd = ssd.power_cycle(2).expect("a valid device");
            }
            let before = std::mem::replace(&mut asked, listener.asked()[4]);
            assert!(asked > before, "{name}: not asked after {power_cuts} power cuts");
            assert_eq!(slow_programs(&mut own, 300), 0, "{name}: PAPA writes no partial page there");
            let slow = slow_programs(&mut ssd, 300);
            assert!(slow > 50, "{name}: {slow} of 300 writes on slow pages after {power_cuts} power cuts");
            compared += 1;
        }
        ssd.check();
    }
    assert!(compared > 6, "{compared} runs compared");
}

/// `examples/with_schemes.rs`, with these words after its name.
fn with_schemes(arguments: &[&str]) -> (bool, String, String) {
    let mut program = std::env::current_exe().expect("this test");
    program.pop();
    program.pop();
    let program = program.join("examples/with_schemes");
    let done = std::process::Command::new(&program).args(arguments).output();
    let done = done.unwrap_or_else(|e| panic!("{}: {e}", program.display()));
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (done.status.success(), text(done.stdout), text(done.stderr))
}

#[test]
fn a_program_of_ones_own_has_the_whole_command_line_and_its_schemes() {
    let (fine, listed, _) = with_schemes(&["schemes"]);
    assert!(fine && listed.contains("  fullest") && listed.contains("  least-worn"), "{listed}");
    let run = |scheme| {
        let (fine, json, complaint) = with_schemes(&[
            "run",
            "--device",
            "demo-page",
            "--set",
            "buffer.bytes=256KiB",
            "--workload",
            "tpcc",
            "--requests",
            "20000",
            "--verify",
            "--scheme",
            scheme,
            "--json",
            "-",
        ]);
        assert!(fine, "{complaint}");
        serde_json::from_str::<serde_json::Value>(&json).expect("a summary")
    };
    let (own, with) = (run("lru+page"), run("lru+page+fullest"));
    assert_eq!(with["scheme"], "lru+page+fullest");
    assert!(with["rmw"]["count"].as_u64() < own["rmw"]["count"].as_u64(), "{} {}", own["rmw"], with["rmw"]);
    let (fine, _, complaint) = with_schemes(&["run", "--scheme", "lru+page+fulest"]);
    assert!(!fine && complaint.contains("fullest"), "{complaint}");
    for (scheme, said) in [
        ("page+fullest(3)", "fullest takes nothing in brackets"),
        ("page+victim=least-worn", "by its name alone"),
    ] {
        let (fine, _, complaint) = with_schemes(&["run", "--scheme", scheme]);
        assert!(!fine && complaint.contains(said), "{complaint}");
    }
}
