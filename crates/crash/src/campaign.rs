//! The whole test: the run, the states, the checks.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use nandle_observe::event::{Event, What};
use nandle_observe::tree::{Node, PAGE, Tree};
use nandle_observe::{Means, Observation, Task};
use nandle_random::Stream;

use crate::Error;
use crate::check::{Bench, Check, Verdict};
use crate::model::{Choice, FileSystem, Lie, Moment, Sweep};
use crate::sample::{Sort, draw, exhaustive, of_each_kind};

/// Of larger trees no digest is made to find states that are the same.
const MOST_DIGESTED: u64 = 16 << 20;

/// What is tested, and how.
#[derive(Clone, Debug)]
pub struct Campaign {
    /// The program.
    pub task: Task,
    /// The check.
    pub check: Check,
    /// At most so many different states.
    pub states: u64,
    /// What the file system promises.
    pub fs: FileSystem,
    /// How the drive lies.
    pub lie: Option<Lie>,
    /// Bytes of a file that the drive writes as one, if a write crosses no multiple of them; 0 for a sector.
    pub atomic: u64,
    /// Seed of every random choice.
    pub seed: u64,
    /// Checks at a time.
    pub jobs: usize,
}

/// A state that failed.
#[derive(Clone, Debug)]
pub struct Failed {
    /// Its number, from 1.
    pub number: u64,
    /// When the power went.
    pub moment: Arc<Moment>,
    /// What reached flash.
    pub choice: Choice,
    /// Of which kind it was.
    pub sort: Sort,
    /// What the check said.
    pub verdict: Verdict,
}

/// What came of it.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What the program did.
    pub observation: Observation,
    /// Different states that were checked.
    pub states: u64,
    /// How many failed.
    pub failed: u64,
    /// The one with the lowest number.
    pub first: Option<Failed>,
    /// Moments at which the power went.
    pub moments: usize,
    /// All states there are were checked, but for torn pages.
    pub exhaustive: bool,
    /// Wall time of the checks.
    pub took: Duration,
    /// The user ended it.
    pub stopped: bool,
}

impl Outcome {
    /// How often the program asked that something be durable.
    #[must_use]
    pub fn flushes(&self) -> usize {
        self.observation.events.iter().filter(|event| event.what.is_flush()).count()
    }

    /// How often it changed a file.
    #[must_use]
    pub fn changes(&self) -> usize {
        self.observation.events.iter().filter(|event| event.what.is_change()).count()
    }
}

struct Job {
    number: u64,
    moment: Arc<Moment>,
    choice: Choice,
    sort: Sort,
    state: Tree,
}

struct Results {
    failed: AtomicU64,
    checked: AtomicU64,
    first: Mutex<Option<Failed>>,
    error: Mutex<Option<Error>>,
}

impl Campaign {
    /// Makes the test. `progress` is told how many of how many states are checked.
    ///
    /// # Errors
    /// If the commands do not make a test, or this machine does not allow it.
    pub fn go(&self, stop: &AtomicBool, progress: &(dyn Fn(u64, u64) + Sync)) -> Result<Outcome, Error> {
        let observation = self.task.clone().run(stop)?;
        if stop.load(Ordering::Relaxed) {
            return Err(Error::Stopped);
        }
        self.plausible(&observation)?;
        let started = Instant::now();
        let results = Results {
            failed: AtomicU64::new(0),
            checked: AtomicU64::new(0),
            first: Mutex::new(None),
            error: Mutex::new(None),
        };
        let output = output_of(&observation.events);
        let (sender, receiver) = sync_channel::<Job>(self.jobs * 4);
        let receiver = Mutex::new(receiver);
        let (moments, exhaustive) = std::thread::scope(|scope| {
            for _ in 0..self.jobs {
                scope.spawn(|| {
                    if let Err(e) = self.work(&receiver, &output, &results, stop, progress) {
                        lock(&results.error).get_or_insert(e);
                        // Nobody waits for a worker that is gone.
                        while lock(&receiver).recv().is_ok() {}
                    }
                });
            }
            let mut number = 0;
            let mut seen = HashSet::new();
            let planned = self.plan(&observation, &mut |moment, choice, sort| {
                if number >= self.states || stop.load(Ordering::Relaxed) || lock(&results.error).is_some() {
                    return Given::Enough;
                }
                let state = moment.build(&choice);
                if !seen.insert(identity(moment, &choice, &state)) {
                    return Given::Known;
                }
                number += 1;
                let moment = moment.clone();
                let _ = sender.send(Job { number, moment, choice, sort, state });
                Given::New
            });
            drop(sender);
            planned
        });
        if let Some(error) = lock(&results.error).take() {
            return Err(error);
        }
        let first = lock(&results.first).take();
        Ok(Outcome {
            observation,
            states: results.checked.into_inner(),
            failed: results.failed.into_inner(),
            first,
            moments,
            exhaustive,
            took: started.elapsed(),
            stopped: stop.load(Ordering::Relaxed),
        })
    }

    fn work(
        &self,
        jobs: &Mutex<Receiver<Job>>,
        output: &[u8],
        results: &Results,
        stop: &AtomicBool,
        progress: &(dyn Fn(u64, u64) + Sync),
    ) -> Result<(), Error> {
        let mut bench = Bench::new(&self.check)?;
        loop {
            let job = lock(jobs).recv();
            let Ok(job) = job else { return Ok(()) };
            if stop.load(Ordering::Relaxed) {
                continue;
            }
            let verdict = bench.check(&job.state, &output[..job.moment.said])?;
            if !verdict.passed {
                results.failed.fetch_add(1, Ordering::Relaxed);
                let mut first = lock(&results.first);
                if first.as_ref().is_none_or(|first| job.number < first.number) {
                    let Job { number, moment, choice, sort, .. } = job;
                    *first = Some(Failed { number, moment, choice, sort, verdict });
                }
            }
            progress(results.checked.fetch_add(1, Ordering::Relaxed) + 1, self.states);
        }
    }

    /// Goes through what was seen, on the drive and the file system that are assumed.
    #[must_use]
    pub fn sweep<'a>(&self, before: &Tree, events: &'a [Event]) -> Sweep<'a> {
        let sweep = Sweep::new(before, events, self.fs, self.lie);
        sweep.atomic(self.atomic).large_sectors(self.check.disk.is_some())
    }

    /// Whether there is anything to test, and the check passes with nothing lost.
    fn plausible(&self, observation: &Observation) -> Result<(), Error> {
        let command = self.task.command.join(" ");
        let refuse = |what: String| Err(Error::Use(what));
        match observation.status.code() {
            Some(0) => {}
            Some(127) => {
                return refuse(format!(
                    "--run: the shell did not find {command:?}; expected a command that it finds from here"
                ));
            }
            Some(code) => {
                return refuse(format!(
                    "--run: {command:?} ended with exit {code}; expected a program that ends well when nothing is wrong"
                ));
            }
            None => {
                return refuse(format!(
                    "--run: {command:?} was ended by a signal; expected a program that ends well when nothing is wrong"
                ));
            }
        }
        if !observation.events.iter().any(|event| event.what.is_change()) {
            return refuse(format!(
                "--run: {command:?} changed no file in $NANDLE_DIR; expected a program that keeps its files in the folder of that name"
            ));
        }
        let output = output_of(&observation.events);
        let verdict = Bench::new(&self.check)?.check(&observation.after, &output)?;
        let check = &self.check.command;
        if verdict.not_found {
            return refuse(format!(
                "--check: the shell did not find {check:?}; expected a command that it finds from here"
            ));
        }
        if !verdict.passed {
            let said = verdict.said.lines().last().map(|line| format!(" ({line})")).unwrap_or_default();
            return refuse(format!(
                "--check: {check:?} fails with nothing lost: {}{said}; expected exit 0 on the files as the program leaves them in $NANDLE_DIR",
                verdict.how
            ));
        }
        Ok(())
    }

    /// Hands out states, the same for the same events and seed, until `take` wants no more. The number of
    /// moments, and whether these were all states.
    fn plan(
        &self,
        observation: &Observation,
        take: &mut dyn FnMut(&Arc<Moment>, Choice, Sort) -> Given,
    ) -> (usize, bool) {
        let Observation { before, events, .. } = observation;
        let mut stream = Stream::new(self.seed, "crash states");
        let all = moments(events);
        let chosen = some_of(&all, usize::try_from(self.states).unwrap_or(usize::MAX), &mut stream);
        // With few states, all of them.
        let mut sweep = self.sweep(before, events);
        let mut total = 0u64;
        for &event in &chosen {
            total = total.saturating_add(sweep.moment(event).choices());
            if total > self.states {
                break;
            }
        }
        let few = total <= self.states && chosen.len() == all.len();
        let mut sweep = self.sweep(before, events);
        let mut left = self.states;
        for (index, &event) in chosen.iter().enumerate() {
            let moment = Arc::new(sweep.moment(event));
            // Each moment has its share; what one does not need goes to those behind it.
            let share = left.div_ceil((chosen.len() - index) as u64);
            let mut states = Share { moment: &moment, share, used: 0, take: &mut *take };
            if self.of_moment(&mut states, few, &mut stream).is_none() {
                break;
            }
            left = left.saturating_sub(states.used);
        }
        (chosen.len(), few)
    }

    /// The states of one moment; none if that is enough of all.
    fn of_moment(&self, states: &mut Share<'_>, few: bool, stream: &mut Stream) -> Option<()> {
        let moment = states.moment;
        let mut kinds = of_each_kind(moment, self.lie);
        if few {
            for choice in exhaustive(moment) {
                states.give(choice, Sort::Exhaustive)?;
            }
            kinds.retain(|(sort, _)| *sort == Sort::Torn);
            shuffle(&mut kinds, stream);
            return states.give_all(kinds);
        }
        // The plain ones first, then as many of the others as of random ones.
        let plain = if states.share < 4 { 0 } else { kinds.len().min(5) };
        shuffle(&mut kinds[plain..], stream);
        kinds.truncate(plain.max(usize::try_from(states.share.div_ceil(2)).unwrap_or(usize::MAX)));
        states.give_all(kinds)?;
        // Many draws may be the same; few moments have no others.
        let mut draws = states.share.saturating_mul(8);
        while states.used < states.share && draws > 0 && !moment.items.is_empty() {
            draws -= 1;
            states.give(draw(moment, self.lie, stream), Sort::Sampled)?;
        }
        Some(())
    }
}

/// What became of a state that was handed out.
enum Given {
    New,
    Known,
    Enough,
}

/// The states of one moment, as they are handed out.
struct Share<'a> {
    moment: &'a Arc<Moment>,
    share: u64,
    used: u64,
    take: &'a mut dyn FnMut(&Arc<Moment>, Choice, Sort) -> Given,
}

impl Share<'_> {
    fn give(&mut self, mut choice: Choice, sort: Sort) -> Option<()> {
        self.moment.allow(&mut choice);
        match (self.take)(self.moment, choice, sort) {
            Given::New => self.used += 1,
            Given::Known => {}
            Given::Enough => return None,
        }
        Some(())
    }

    fn give_all(&mut self, states: Vec<(Sort, Choice)>) -> Option<()> {
        for (sort, choice) in states {
            if self.used >= self.share {
                break;
            }
            self.give(choice, sort)?;
        }
        Some(())
    }
}

/// The moments that matter: before each flush, for until then ever more is pending; and the end.
fn moments(events: &[Event]) -> Vec<usize> {
    let mut found: Vec<usize> = Vec::new();
    let mut changed = false;
    for (index, Event { what, .. }) in events.iter().enumerate() {
        let is_durable_write = matches!(what, What::Write { durable: true, .. });
        if what.is_flush() && changed && !is_durable_write {
            found.push(index);
            changed = false;
        }
        changed |= what.is_change() || matches!(what, What::Output(_));
    }
    found.push(events.len());
    found
}

fn some_of(all: &[usize], most: usize, stream: &mut Stream) -> Vec<usize> {
    if all.len() <= most {
        return all.to_vec();
    }
    let mut chosen: Vec<usize> = all.to_vec();
    shuffle(&mut chosen, stream);
    chosen.truncate(most.max(1));
    chosen.sort_unstable();
    chosen
}

fn shuffle<T>(items: &mut [T], stream: &mut Stream) {
    for index in (1..items.len()).rev() {
        items.swap(index, stream.below(index as u64 + 1) as usize);
    }
}

/// What makes a state another: files, names, and what the program had promised.
fn identity(moment: &Moment, choice: &Choice, state: &Tree) -> u64 {
    use std::hash::{DefaultHasher, Hash, Hasher};
    let mut hasher = DefaultHasher::new();
    moment.said.hash(&mut hasher);
    let pages: u64 = (state.walk().iter())
        .filter_map(|(_, file)| match &state.get(*file)?.node {
            Node::File(contents) => Some(contents.pages().count() as u64),
            _ => None,
        })
        .sum();
    if pages * PAGE <= MOST_DIGESTED {
        state.digest().hash(&mut hasher);
    } else {
        moment.event.hash(&mut hasher);
        choice.hash(&mut hasher);
    }
    hasher.finish()
}

/// All that the program printed.
#[must_use]
pub fn output_of(events: &[Event]) -> Vec<u8> {
    let mut output = Vec::new();
    for event in events {
        if let What::Output(said) = &event.what {
            output.extend_from_slice(said);
        }
    }
    output
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// How a run was watched, in words.
#[must_use]
pub fn means(means: Means) -> &'static str {
    match means {
        Means::Any | Means::Fuse => "fuse",
        Means::Calls => "calls",
    }
}
