//! The smallest failure behind the one that was found.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::Error;
use crate::campaign::Failed;
use crate::check::{Bench, Verdict};
use crate::model::{Choice, Key, Moment, Sweep};

/// Checks spent on one failure.
const MOST_CHECKS: usize = 600;

/// A failure in which nothing can be left out.
#[derive(Clone, Debug)]
pub struct Smallest {
    /// When the power went.
    pub moment: Arc<Moment>,
    /// What reached flash.
    pub choice: Choice,
    /// What the check said.
    pub verdict: Verdict,
    /// Asked again, the check passed it.
    pub wavers: bool,
    /// Events without whose fate the check would have passed.
    pub decisive: Vec<usize>,
    /// It is told by what was lost: all else reached flash.
    pub by_loss: bool,
    /// Checks that this took.
    pub checks: usize,
}

struct Search<'a, 'b> {
    bench: &'a mut Bench<'b>,
    output: &'a [u8],
    known: HashMap<(usize, Choice), Verdict>,
    checks: usize,
}

impl Search<'_, '_> {
    /// What the check says of a choice; none if enough was spent.
    fn verdict(&mut self, moment: &Moment, choice: &Choice) -> Result<Option<Verdict>, Error> {
        let mut choice = choice.clone();
        moment.allow(&mut choice);
        let key = (moment.event, choice);
        if let Some(known) = self.known.get(&key) {
            return Ok(Some(known.clone()));
        }
        if self.checks >= MOST_CHECKS {
            return Ok(None);
        }
        self.checks += 1;
        let verdict = self.bench.check(&moment.build(&key.1), &self.output[..moment.said])?;
        self.known.insert(key, verdict.clone());
        Ok(Some(verdict))
    }

    fn fails(&mut self, moment: &Moment, choice: &Choice) -> Result<bool, Error> {
        Ok(self.verdict(moment, choice)?.is_some_and(|verdict| !verdict.passed))
    }

    fn passes(&mut self, moment: &Moment, choice: &Choice) -> Result<bool, Error> {
        Ok(self.verdict(moment, choice)?.is_some_and(|verdict| verdict.passed))
    }

    /// Sets ever larger and then ever smaller parts of `items` to what `set` says, as long as it fails.
    fn minimise(
        &mut self,
        moment: &Moment,
        choice: Choice,
        mut items: Vec<usize>,
        set: impl Fn(usize) -> u32,
    ) -> Result<Choice, Error> {
        let mut choice = choice;
        let mut size = items.len();
        while size > 0 && !items.is_empty() {
            let mut kept = Vec::new();
            let mut any = false;
            for part in items.chunks(size) {
                let mut smaller = choice.clone();
                for &item in part {
                    smaller.levels[item] = set(item);
                    smaller.tears.retain(|tear| tear.item != item);
                }
                if smaller != choice && self.fails(moment, &smaller)? {
                    moment.allow(&mut smaller);
                    choice = smaller;
                    any = true;
                } else {
                    kept.extend_from_slice(part);
                }
            }
            items = kept;
            size = if any && size == 1 { 1 } else { size / 2 };
        }
        Ok(choice)
    }
}

/// Makes a failure as small as it goes.
///
/// # Errors
/// If the check cannot be run any more.
pub fn smallest(
    failed: &Failed,
    sweep: &Sweep<'_>,
    bench: &mut Bench<'_>,
    output: &[u8],
) -> Result<Smallest, Error> {
    let mut search = Search { bench, output, known: HashMap::new(), checks: 0 };
    let mut moment = failed.moment.clone();
    let mut choice = failed.choice.clone();
    let mut whole = choice.clone();
    whole.tears.clear();
    if whole != choice && search.fails(&moment, &whole)? {
        choice = whole;
    }
    let reached = |choice: &Choice| -> Vec<usize> {
        (0..choice.levels.len()).filter(|&item| choice.levels[item] > 0).collect()
    };
    let items = reached(&choice);
    choice = search.minimise(&moment, choice, items, |_| 0)?;
    // Of what is left, the earliest versions that do it.
    for item in reached(&choice) {
        while choice.levels[item] > 1 {
            let mut earlier = choice.clone();
            earlier.levels[item] -= 1;
            if !search.fails(&moment, &earlier)? {
                break;
            }
            choice = earlier;
        }
    }
    let mut by_loss = false;
    if reached(&choice).is_empty() {
        // With nothing on flash it fails as well: what must not be missing?
        let most = moment.all().levels;
        let (start, items) = (moment.none(), (0..most.len()).collect());
        let lost = search.minimise(&moment, start, items, |item| most[item])?;
        if !reached(&lost).is_empty() && search.fails(&moment, &lost)? {
            choice = lost;
            by_loss = true;
        }
    } else {
        // As early as can be: right after the last of them.
        let event = |i: usize| moment.items[i].steps[choice.levels[i] as usize - 1].event;
        if let Some(last) = reached(&choice).into_iter().map(event).max()
            && last + 1 < moment.event
        {
            let earlier = Arc::new(sweep.clone().moment(last + 1));
            let carried = carry(&moment, &choice, &earlier);
            if search.fails(&earlier, &carried)? {
                (moment, choice) = (earlier, carried);
            }
        }
    }
    moment.allow(&mut choice);
    let decisive = decisive(&mut search, &moment, &choice, by_loss)?;
    let again = search.verdict(&moment, &choice)?;
    let wavers = again.as_ref().is_some_and(|verdict| verdict.passed);
    let verdict = again.filter(|_| !wavers).unwrap_or_else(|| failed.verdict.clone());
    let checks = search.checks;
    Ok(Smallest { moment, choice, verdict, wavers, decisive, by_loss, checks })
}

/// The same choice at an earlier moment.
fn carry(from: &Moment, choice: &Choice, to: &Moment) -> Choice {
    let levels: HashMap<Key, u32> =
        from.items.iter().zip(&choice.levels).map(|(item, &level)| (item.key, level)).collect();
    let index: HashMap<Key, usize> =
        to.items.iter().enumerate().map(|(index, item)| (item.key, index)).collect();
    let level =
        |item: &crate::model::Item| levels.get(&item.key).copied().unwrap_or(0).min(item.steps.len() as u32);
    let tears = choice.tears.iter().filter_map(|tear| {
        let item = *index.get(&from.items[tear.item].key)?;
        Some(crate::model::Tear { item, ..*tear })
    });
    Choice { levels: to.items.iter().map(level).collect(), tears: tears.collect() }
}

/// The events without whose fate the check would pass: what reached flash (all of it, for nothing more can be
/// left out), and what was lost and would alone have saved it.
fn decisive(
    search: &mut Search<'_, '_>,
    moment: &Moment,
    choice: &Choice,
    by_loss: bool,
) -> Result<Vec<usize>, Error> {
    let mut events: Vec<usize> = Vec::new();
    let mut by_event = Lost::new();
    for (index, item) in moment.items.iter().enumerate() {
        let level = choice.levels[index] as usize;
        if !by_loss && level > 0 {
            events.push(item.steps[level - 1].event);
        }
        for (at, step) in item.steps.iter().enumerate().skip(level) {
            by_event.entry(step.event).or_default().push((index, at as u32 + 1));
        }
    }
    if by_loss {
        events.extend(by_event.keys());
    } else {
        let mut saved = false;
        for (event, levels) in by_event.iter().take(MOST_CHECKS / 2) {
            let with = restored(choice, &BTreeMap::from([(*event, levels.clone())]), &[*event]);
            if search.passes(moment, &with)? {
                events.push(*event);
                saved = true;
            }
        }
        if !saved {
            // No single one: as few as would have done it together.
            let last = events.iter().max().copied().unwrap_or(moment.event);
            let before: Vec<usize> = by_event.keys().copied().filter(|&event| event < last).collect();
            let all: Vec<usize> = by_event.keys().copied().collect();
            for lost in [before, all] {
                let with = restored(choice, &by_event, &lost);
                if search.passes(moment, &with)? {
                    events.extend(fewest(search, moment, choice, &by_event, lost)?);
                    break;
                }
            }
        }
    }
    events.sort_unstable();
    events.dedup();
    Ok(events)
}

/// What was lost, by event: items, and the level of each that has it.
type Lost = BTreeMap<usize, Vec<(usize, u32)>>;

/// A choice in which these events reached flash as well.
fn restored(choice: &Choice, by_event: &Lost, events: &[usize]) -> Choice {
    let mut with = choice.clone();
    for &(item, level) in events.iter().filter_map(|event| by_event.get(event)).flatten() {
        with.levels[item] = with.levels[item].max(level);
    }
    with
}

/// The fewest of `events` with which the check still passes.
fn fewest(
    search: &mut Search<'_, '_>,
    moment: &Moment,
    choice: &Choice,
    by_event: &Lost,
    events: Vec<usize>,
) -> Result<Vec<usize>, Error> {
    let mut events = events;
    let mut size = events.len().div_ceil(2);
    while size > 0 {
        let mut at = 0;
        while at < events.len() {
            let mut fewer = events.clone();
            fewer.drain(at..(at + size).min(events.len()));
            if search.passes(moment, &restored(choice, by_event, &fewer))? {
                events = fewer;
            } else {
                at += size;
            }
        }
        size /= 2;
    }
    Ok(events)
}
