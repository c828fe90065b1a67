//! Goal: an advisor decides where it has a say, and nothing that it says harms the drive.
//! Method: advisors that answer as policies of the crate do give the same digests, also through power
//! cuts; advisors that talk nonsense change nothing; random ones lose no sector.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use nandle_lab::oracle::{Oracle, UNIT};
use nandle_random::Stream;
use nandle_ssd::blocks::Candidates;
use nandle_ssd::buffer::{Buffer, BufferKind, Victims};
use nandle_ssd::flash::Flash;
use nandle_ssd::nand::{Block, Time};
use nandle_ssd::victim::VictimKind;
use nandle_ssd::{Advisor, Command, DeviceConfig, Op, Ssd};

#[allow(dead_code)]
mod devices;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Says {
    Nothing,
    Nonsense,
    OldestFirst,
    AnythingAtAll,
}

#[derive(Debug)]
struct Voice {
    says: Says,
    asked: AtomicU64,
}

impl Voice {
    fn draw(&self, n: usize) -> usize {
        let asked = self.asked.fetch_add(1, Ordering::Relaxed);
        (nandle_random::mix(asked) % n.max(1) as u64) as usize
    }
}

impl Advisor for Voice {
    fn victim(&self, flash: &Flash, plane: u32, from: &Candidates<'_>, _: Time) -> Option<Block> {
        let drawn = self.draw(from.closed().len());
        match self.says {
            Says::Nothing => None,
            // A block of another plane, a whole one, one that does not exist.
            Says::Nonsense => match drawn % 3 {
                0 => Some(Block(u32::MAX)),
                1 => flash.geometry().blocks_of((plane + 1) % flash.geometry().planes()).next(),
                _ => from.closed().iter().copied().find(|&b| from.valid(b) == from.pages_per_block()),
            },
            Says::OldestFirst => from.by_age().find(|&b| from.valid(b) < from.pages_per_block()),
            Says::AnythingAtAll => from.closed().get(drawn).copied(),
        }
    }

    fn evict(&self, _: &Flash, buffer: &Buffer, _: Time) -> Victims {
        let slots = || std::iter::successors(buffer.oldest(), |&slot| buffer.newer(slot));
        let drawn = self.draw(buffer.len() as usize);
        match self.says {
            Says::Nothing => Victims::new(),
            Says::Nonsense => [u32::MAX, 1 << 20].into_iter().collect(),
            Says::OldestFirst => slots().take(1).collect(),
            Says::AnythingAtAll => {
                let slot = slots().nth(drawn);
                slot.into_iter().chain(slot).chain(slots().take(drawn % 3)).collect()
            }
        }
    }
}

/// Random traffic with power cuts; the digest, and how often the advisor was asked.
fn run(config: &DeviceConfig, says: Option<Says>) -> (u64, u64) {
    let mut ssd = Ssd::new(config, UNIT, 3).expect("a valid device");
    let voice = says.map(|says| Arc::new(Voice { says, asked: AtomicU64::new(0) }));
    if let Some(voice) = &voice {
        ssd.consult(Arc::clone(voice) as Arc<dyn Advisor>);
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
    (ssd.digest(), voice.map_or(0, |voice| voice.asked.load(Ordering::Relaxed)))
}

#[test]
fn advice_is_taken_where_it_can_be_and_harms_nothing() {
    let (mut asked, mut changed) = (0, 0);
    for (name, config) in devices::small_devices() {
        let (own, _) = run(&config, None);
        for says in [Says::Nothing, Says::Nonsense] {
            assert_eq!(run(&config, Some(says)).0, own, "{name}: {says:?} is no advice");
        }
        let (digest, times) = run(&config, Some(Says::AnythingAtAll));
        asked += times;
        changed += u32::from(digest != own);
    }
    assert!(asked > 1_000 && changed > 3, "asked {asked} times, {changed} devices did something else");
}

#[test]
fn an_advisor_that_is_a_policy_is_that_policy() {
    let mut compared = 0;
    for (name, config) in devices::small_devices() {
        let lru = config.scheme.buffer == BufferKind::Lru;
        if !lru || config.scheme.compaction {
            continue;
        }
        let with = |victim| {
            let mut config = config.clone();
            config.gc.victim = victim;
            config
        };
        let (fifo, _) = run(&with(VictimKind::Fifo), None);
        let (advised, asked) = run(&with(VictimKind::Greedy), Some(Says::OldestFirst));
        assert_eq!(advised, fifo, "{name}");
        compared += u32::from(asked > 0);
    }
    assert!(compared > 2, "{compared} devices asked");
}
