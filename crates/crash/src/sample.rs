//! Which states are looked at: all of them if they are few, else those of each kind and a seeded sample.

use nandle_random::Stream;

use crate::model::{Change, Choice, Item, Key, Lie, Moment, SECTORS, Tear};

/// A kind of state, as a report names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Sort {
    /// Everything reached flash.
    All,
    /// Nothing that was not flushed did.
    None,
    /// All that was done before some event, in order.
    Prefix,
    /// One item is missing.
    OneLost,
    /// One item alone is there.
    OneReached,
    /// All contents, no names that were not flushed.
    NoNames,
    /// All names and sizes, no contents.
    NoContents,
    /// One page was being written.
    Torn,
    /// One of all the combinations of a small run.
    Exhaustive,
    /// A random combination.
    Sampled,
}

/// All choices of a moment, by counting; torn pages apart.
pub fn exhaustive(moment: &Moment) -> impl Iterator<Item = Choice> {
    let most: Vec<u32> = moment.all().levels;
    let mut next = Some(moment.none());
    std::iter::from_fn(move || {
        let current = next.take()?;
        let mut following = current.clone();
        for (level, &most) in following.levels.iter_mut().zip(&most) {
            if *level < most {
                *level += 1;
                next = Some(following);
                break;
            }
            *level = 0;
        }
        Some(current)
    })
}

/// One state of each kind, the plain ones first.
pub fn of_each_kind(moment: &Moment, lie: Option<Lie>) -> Vec<(Sort, Choice)> {
    let (all, none) = (moment.all(), moment.none());
    let mut found = vec![(Sort::All, all.clone()), (Sort::None, none.clone())];
    let by = |level: &dyn Fn(&Item) -> bool| {
        let levels = moment.items.iter().map(|item| if level(item) { item.steps.len() as u32 } else { 0 });
        Choice { levels: levels.collect(), tears: vec![] }
    };
    if moment.items.iter().any(|item| matches!(item.key, Key::Names(_))) {
        found.push((Sort::NoNames, by(&|item| !matches!(item.key, Key::Names(_)))));
        found.push((Sort::NoContents, by(&|item| matches!(item.key, Key::Names(_)))));
    }
    found.push((Sort::NoContents, by(&|item| !matches!(item.key, Key::Page(..)))));
    for event in moment.events().into_iter().skip(1) {
        found.push((Sort::Prefix, moment.prefix(event)));
    }
    for index in 0..moment.items.len() {
        let (mut without, mut alone) = (all.clone(), none.clone());
        without.levels[index] = 0;
        alone.levels[index] = all.levels[index];
        cover(moment, &mut alone);
        found.push((Sort::OneLost, without));
        found.push((Sort::OneReached, alone));
    }
    for index in 0..moment.items.len() {
        for sectors in [0b0000_0001, 0b0000_1111, 0b1111_0000, 0b1111_1110] {
            found.extend(tear(moment, &all, index, sectors).map(|choice| (Sort::Torn, choice)));
        }
        if lie == Some(Lie::Tear) && matches!(moment.items[index].key, Key::Page(..)) {
            for byte in [0, 100, 700, 2100, 3900] {
                let mut choice = all.clone();
                choice.tears.push(Tear { item: index, sectors: 0, byte: Some(byte) });
                found.push((Sort::Torn, choice));
            }
        }
    }
    found
}

/// A choice with one page torn, if those sectors are neither all nor none of what changed.
fn tear(moment: &Moment, choice: &Choice, index: usize, sectors: u8) -> Option<Choice> {
    if !matches!(moment.items[index].key, Key::Page(..)) {
        return None;
    }
    let changed = moment.changed_sectors(index, choice.levels[index] as usize);
    let new = changed & sectors;
    if new == 0 || new == changed {
        return None;
    }
    let mut choice = choice.clone();
    choice.tears.push(Tear { item: index, sectors, byte: None });
    Some(choice)
}

/// Raises sizes so that pages that reached flash are within their files.
fn cover(moment: &Moment, choice: &mut Choice) {
    for index in 0..moment.items.len() {
        let Key::Size(file) = moment.items[index].key else { continue };
        let last = moment.items.iter().zip(&choice.levels).filter_map(|(item, &level)| match item.key {
            Key::Page(of, _) if of == file => Some(item.steps[(level as usize).checked_sub(1)?].event),
            _ => None,
        });
        if let Some(last) = last.max() {
            let steps = &moment.items[index].steps;
            let level = steps.partition_point(|step| step.event <= last) as u32;
            choice.levels[index] = choice.levels[index].max(level);
        }
    }
}

/// A random choice. Each draw first decides what kind of drive it is: one that has written nearly all, nearly
/// nothing, all but one file... so that rare combinations are not drowned by the typical ones.
pub fn draw(moment: &Moment, lie: Option<Lie>, stream: &mut Stream) -> Choice {
    let pick = |stream: &mut Stream, of: &[f64]| of[stream.below(of.len() as u64) as usize];
    let reach = pick(stream, &[0.03, 0.2, 0.5, 0.8, 0.97]);
    let whole = pick(stream, &[0.0, 0.7, 1.0]);
    let mut choice = moment.none();
    // Some draws begin with what was done before some event.
    let events = moment.events();
    if stream.chance(0.4) && !events.is_empty() {
        choice = moment.prefix(events[stream.below(events.len() as u64) as usize] + 1);
    }
    let keep = stream.chance(0.5);
    let by_file = stream.chance(0.4);
    let mut fates: std::collections::BTreeMap<u64, Option<bool>> = std::collections::BTreeMap::new();
    for (index, item) in moment.items.iter().enumerate() {
        let most = item.steps.len() as u64;
        let (Key::Page(file, _) | Key::Size(file) | Key::Names(file)) = item.key;
        let fate = *fates.entry(file).or_insert_with(|| match stream.below(3) {
            0 => Some(true),
            1 => Some(false),
            _ => None,
        });
        let reached = match fate {
            Some(fate) if by_file => fate,
            _ if keep && stream.chance(0.8) => continue,
            _ => stream.chance(reach),
        };
        choice.levels[index] = match reached {
            true if stream.chance(whole) => most as u32,
            true => 1 + stream.below(most) as u32,
            false => 0,
        };
    }
    // Sizes mostly follow the data, as where blocks are allocated when they are written.
    match stream.below(4) {
        0 => {}
        1 => {
            for (item, level) in moment.items.iter().zip(&mut choice.levels) {
                if matches!(item.key, Key::Size(_)) {
                    *level = item.steps.len() as u32;
                }
            }
        }
        _ => {
            for (item, level) in moment.items.iter().zip(&mut choice.levels) {
                let is_growth = |step: &crate::model::Step| matches!(step.change, Change::Size(_, false));
                if matches!(item.key, Key::Size(_)) && item.steps.iter().all(is_growth) {
                    *level = 0;
                }
            }
            cover(moment, &mut choice);
        }
    }
    let lies = lie == Some(Lie::Tear);
    if lies || stream.chance(0.3) {
        let pages: Vec<usize> = (0..moment.items.len())
            .filter(|&i| choice.levels[i] > 0 && matches!(moment.items[i].key, Key::Page(..)))
            .collect();
        let count = if pages.is_empty() { 0 } else { 1 + stream.below(2.min(pages.len() as u64)) };
        for _ in 0..count {
            let index = pages[stream.below(pages.len() as u64) as usize];
            let at = 1 + stream.below(SECTORS as u64 - 1);
            let sectors = match stream.below(3) {
                0 => (1 << at) - 1,
                1 => !((1 << at) - 1),
                _ => stream.below(256) as u8,
            };
            choice.tears.retain(|tear| tear.item != index);
            let byte = lies.then(|| stream.below(4096) as u16);
            choice.tears.push(Tear { item: index, sectors, byte });
        }
    }
    choice
}
